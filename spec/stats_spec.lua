local moon = require "moontensor"
require "moontensor.luassert"

describe("the world", function()
  require "spec.support.baseline"(setup, teardown)

  it("counts storages and bytes", function()
    collectgarbage()
    collectgarbage()
    local before = moon.stats()
    local x = moon.zeros(1000, "float64")
    local after = moon.stats()
    assert.equal(before.storages + 1, after.storages)
    assert.equal(before.bytes + 8000, after.bytes)
    local view = x[{{1, 10}}]
    assert.equal(after.storages, moon.stats().storages)
    x:free()
    assert.equal(after.bytes, moon.stats().bytes)
    view:free()
    assert.same(before, moon.stats())
  end)

  it("frees what nobody holds", function()
    local before = moon.gc()
    for _ = 1, 100 do moon.zeros(1000) end
    assert.equal(before, moon.gc())
    assert.equal(before, moon.gc(true))
  end)

  it("collects by itself when tensors grow large", function()
    moon.gc()
    local peak = 0
    for _ = 1, 60 do
      moon.empty(16, 1024, 1024, "uint8")
      peak = math.max(peak, moon.stats().bytes)
    end
    assert.is_true(peak <= 96 << 20, peak)
  end)

  it("leaves the collector alone where the program stopped it", function()
    moon.gc()
    local before = moon.stats().bytes
    collectgarbage "stop"
    for _ = 1, 8 do moon.empty(16, 1024, 1024, "uint8") end
    local bytes = moon.stats().bytes
    collectgarbage "restart"
    assert.equal(before + (128 << 20), bytes)
  end)

  it("knows its devices", function()
    local names, missing = moon.devices()
    assert.equal("cpu", names[1])
    assert.is_table(missing)
    for _, reason in pairs(missing) do assert.is_string(reason) end
    assert.equal("cpu", moon.device())
    assert.equal("cpu", moon.device "cpu")
    local none, why = moon.device "abacus"
    assert.is_nil(none)
    assert.matches("abacus", why)
    moon.synchronize()
    moon.synchronize "cpu"
  end)

  it("has a version, and one module a state", function()
    assert.matches("^moontensor %d+%.%d+%.%d+$", moon._VERSION)
    assert.equal(moon, require "moontensor.core")
    package.loaded["moontensor.core"] = nil
    assert.equal(moon, require "moontensor.core")
  end)

  it("takes methods of the program", function()
    function moon.methods.double(x) return x * 2 end
    assert.tensor_equal({2, 4}, moon.tensor({1, 2}):double())
    moon.methods.double = nil
  end)

  it("tells tensors from other values", function()
    assert.is_true(moon.is_tensor(moon.zeros(1)))
    assert.is_false(moon.is_tensor(moon.complex(1, 2)))
    assert.is_false(moon.is_tensor({}))
    assert.is_false(moon.is_tensor(nil))
  end)
end)

describe("moontensor.luassert", function()
  require "spec.support.baseline"(setup, teardown)

  local function failure(...)
    local ok, e = pcall(...)
    assert.is_false(ok)
    return type(e) == "table" and tostring(e.message or e) or tostring(e)
  end

  it("tells what differs", function()
    local x = moon.tensor({{1, 2}, {3, 4}})
    assert.matches("2 of 4 elements differ, the first at {2, 1}: expected 9, got 3",
      failure(assert.tensor_equal, moon.tensor({{1, 2}, {9, 9}}), x))
    assert.matches("dtype: expected float64, got int64", failure(assert.tensor_equal, x:astype "float64", x))
    assert.matches("shape: expected %[4%], got %[2, 2%]", failure(assert.tensor_equal, x:view(4), x))
    assert.matches("the actual value is a number, no tensor", failure(assert.tensor_equal, x, 5))
    assert.matches("the furthest elements are at 2: expected 2, got 3",
      failure(assert.tensor_close, moon.tensor({1, 2}), moon.tensor({1, 3})))
  end)

  it("compares by bits or by tolerance", function()
    local nan = moon.tensor({0 / 0})
    assert.tensor_equal(nan, nan:clone())
    assert.is_not.tensor_equal(moon.tensor({0.0}), moon.tensor({-0.0}))
    assert.tensor_close(moon.tensor({0.0, 0 / 0}), moon.tensor({-0.0, 0 / 0}))
    assert.tensor_close(moon.tensor({1}), moon.tensor({1.0}))
    assert.tensor_close({1, 2}, moon.tensor({1.001, 2}), {rtol = 0, atol = 0.01})
    assert.is_not.tensor_close({1, 2}, moon.tensor({1.1, 2}))
  end)
end)
