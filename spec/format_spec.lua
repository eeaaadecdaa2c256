local moon = require "moontensor"
require "moontensor.luassert"

describe("printing", function()
  require "spec.support.baseline"(setup, teardown)

  local before
  before_each(function() before = moon.printoptions() end)
  after_each(function() moon.printoptions(before) end)

  it("prints values, rows and dtypes", function()
    assert.equal("tensor([[0, 1, 2],\n        [3, 4, 5]], int64)", tostring(moon.arange(6):view(2, 3)))
    assert.equal("tensor([-4., 3., 6.], float64)", (tostring(moon.tensor({-4, 3, 6}, "float64")):gsub(" +", " ")))
    assert.matches("true", tostring(moon.tensor({true, false})))
    assert.matches("2.5", tostring(moon.tensor(2.5)), 1, true)
    assert.matches("[0, 3]", tostring(moon.zeros(0, 3)), 1, true)
  end)

  it("stays bounded", function()
    local text = tostring(moon.zeros(1000, 1000))
    assert.is_true(#text < 1000)
    assert.matches("...", text, 1, true)
    moon.printoptions {threshold = 5, edgeitems = 1}
    assert.matches("[0, ..., 9]", tostring(moon.arange(10)), 1, true)
  end)

  it("has options", function()
    assert.same({precision = 4, threshold = 1000, edgeitems = 3, linewidth = 80}, moon.printoptions())
    assert.equal(2, moon.printoptions({precision = 2}).precision)
    assert.matches("0.33,", tostring(moon.tensor({1 / 3, 0.5})), 1, true)
    assert.error_matches(function() moon.printoptions {precision = -1} end, "precision= is an integer from 0 to 17")
    assert.error_matches(function() moon.printoptions {digits = 1} end, "unknown option 'digits'")
    assert.equal(2, moon.printoptions().precision)
  end)

  it("gives the exact text of one element", function()
    assert.equal("18446744073709551615", moon.tensor("18446744073709551615", "uint64"):tostring())
    assert.equal("0.1", moon.tensor({0.1}, "float64"):tostring(1))
    assert.equal("0.1", moon.tensor({0.1}, "float32"):tostring(1))
    assert.equal("true", moon.tensor({{false, true}}):tostring(1, 2))
    assert.equal(tostring(moon.arange(3)), moon.arange(3):tostring())
    assert.error_matches(function() moon.arange(3):tostring(4) end, "index 4 is out of range 1..3")
  end)

  it("summarises in one line", function()
    assert.equal("int64 [2, 3] on cpu, 48 bytes, min 0, max 5, mean 2.5", moon.arange(6):view(2, 3):summary())
    assert.equal("bool [2] on cpu, 2 bytes, read-only", moon.tensor({true, false}, {readonly = true}):summary())
    assert.equal("float32 [0] on cpu, 0 bytes", moon.zeros(0):summary())
    assert.equal("int64 [3, 2] on cpu, 48 bytes, strides [1, 3], min 0, max 5, mean 2.5", moon.arange(6):view(2, 3):t():summary())
  end)

  it("prints closed tensors", function()
    local x = moon.zeros(2)
    x:free()
    assert.equal("tensor (closed)", tostring(x))
  end)
end)
