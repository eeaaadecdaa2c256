local moon = require "moontensor"
require "moontensor.luassert"

local DTYPES = {
  "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "bfloat16", "float32",
  "float64", "complex64", "complex128", "float8_e4m3fn", "float8_e5m2",
}

describe("creation", function()
  require "spec.support.baseline"(setup, teardown)

  describe("moon.tensor", function()
    it("takes the dtype from the values", function()
      assert.equal("int64", moon.tensor({1, 2}).dtype)
      assert.equal("float32", moon.tensor({1, 2.5}).dtype)
      assert.equal("float32", moon.tensor({2.5, 1}).dtype)
      assert.equal("bool", moon.tensor({true, false}).dtype)
      assert.equal("complex64", moon.tensor({1, moon.complex(0, 1)}).dtype)
      assert.equal("int64", moon.tensor(7).dtype)
      assert.equal("float32", moon.tensor({}).dtype)
    end)

    it("takes nested tables", function()
      local x = moon.tensor({{1, 2, 3}, {4, 5, 6}})
      assert.same({2, 3}, x.shape)
      assert.same({{1, 2, 3}, {4, 5, 6}}, x:totable())
      assert.same({2, 1, 1}, moon.tensor({{{1}}, {{2}}}).shape)
    end)

    it("makes 0-d and empty tensors", function()
      local x = moon.tensor(2.5)
      assert.equal(0, x.ndim)
      assert.equal(2.5, x:item())
      assert.same({0}, moon.tensor({}).shape)
      assert.same({2, 0}, moon.tensor({{}, {}}).shape)
    end)

    it("copies a tensor", function()
      local x = moon.tensor({1, 2})
      local y = moon.tensor(x)
      y[1] = 9
      assert.tensor_equal({1, 2}, x)
      assert.tensor_equal(moon.tensor({1, 2}, "float64"), moon.tensor(x, "float64"))
    end)

    it("names the row that does not fit", function()
      assert.error_matches(function() moon.tensor({{1, 2, 3}, {4, 5}}) end, "row 2 has length 2, expected 3")
      assert.error_matches(function() moon.tensor({{{1}, {2}}, {{3}, {4, 5}}}) end, "row {2, 2} has length 2, expected 1")
      assert.error_matches(function() moon.tensor({{1}, 2}) end, "element 2 is a number, expected a table")
      assert.error_matches(function() moon.tensor({1, {2}}) end, "element 2 is a table, expected a number")
      assert.error_matches(function() moon.tensor({1, "two"}) end, "element 2 is a string, expected a number")
      assert.error_matches(function() moon.tensor({{1, {}}}) end, "element {1, 2} is a table")
      assert.error_matches(function() moon.tensor({{}, {{}}}) end, "row 2 has length 1, expected 0")
    end)

    it("refuses holes and named keys", function()
      assert.error_matches(function() moon.tensor({1, nil, 3}) end, "hole")
      assert.error_matches(function() moon.tensor({[1] = 1, [3] = 3}) end, "the table has a hole")
      assert.error_matches(function() moon.tensor({{1}, {[2] = 1}}) end, "row 2 has a hole")
      assert.error_matches(function() moon.tensor({1, n = 1}) end, "the table has a key 'n'")
    end)

    it("refuses cycles and mixed kinds", function()
      local t = {}
      t[1] = t
      assert.error_matches(function() moon.tensor(t) end, "nested deeper than 64 dimensions, or contains itself")
      assert.error_matches(function() moon.tensor({1, true}) end, "mixes booleans and numbers")
      assert.tensor_equal(moon.tensor({1, 1}), moon.tensor({1, true}, "int64"))
      assert.error_matches(function() moon.tensor({moon.zeros(1)}) end, "moon.stack joins tensors")
      assert.error_matches(function() moon.tensor("1") end, "bad argument #1 to '[%w_.]*tensor' %(number, boolean, complex or table")
      assert.error_matches(function() moon.tensor() end, "bad argument #1 to '[%w_.]*tensor'")
      assert.error_matches(function() moon.tensor(nil) end, "got nil")
    end)

    it("makes every dtype, and reads it back", function()
      for _, dtype in ipairs(DTYPES) do
        local one = dtype == "bool" or (dtype:find "complex" and moon.complex(1, 0)) or 1
        local x = moon.tensor({{one, one}}, dtype)
        assert.equal(dtype, x.dtype)
        assert.same({1, 2}, x.shape)
        assert.equal(one, x(1, 2))
        assert.equal(2 * x:element_size(), x:nbytes())
      end
    end)

    it("checks the range of integers", function()
      assert.equal(-128, moon.tensor(-128, "int8"):item())
      assert.error_matches(function() moon.tensor(128, "int8") end, "128 is out of range for int8")
      assert.error_matches(function() moon.tensor(-1, "uint64") end, "-1 is out of range for uint64")
      assert.error_matches(function() moon.tensor({1, 2.5}, "int32") end, "2.5 has a fraction")
      assert.equal(3, moon.tensor(3.0, "int32"):item())
    end)

    it("writes and reads the upper half of uint64 as text", function()
      local x = moon.tensor({"18446744073709551615", 1}, "uint64")
      assert.equal("18446744073709551615", x:tostring(1))
      assert.equal(1, x[2])
      assert.error_matches(function() return x[1] end, "18446744073709551615.*tostring")
      assert.error_matches(function() x[2] = "18446744073709551616" end, "digits between 0 and 18446744073709551615")
      x[2] = "9223372036854775808"
      assert.equal("9223372036854775808", x:tostring(2))
    end)

    it("takes dtypes by their names", function()
      assert.equal("float64", moon.zeros(2, "torch.float64").dtype)
      assert.equal("int32", moon.zeros(2, "numpy.int32").dtype)
      assert.error_matches(function() moon.zeros(2, "float99") end, "unknown dtype 'float99'; the dtypes are bool")
    end)

    it("makes read-only tensors", function()
      local x = moon.tensor({1, 2}, {dtype = "float64", readonly = true})
      assert.is_true(x.readonly)
      assert.error_matches(function() x[1] = 3 end, "read%-only")
      assert.error_matches(function() x:zero_() end, "read%-only")
      assert.tensor_equal({1, 2}, x)
    end)
  end)

  describe("sizes", function()
    it("come as arguments or as a table, with a dtype or options", function()
      for _, x in ipairs {moon.zeros(2, 3, "int64"), moon.zeros({2, 3}, "int64"), moon.zeros(2, 3, {dtype = "int64"}),
                          moon.zeros({2, 3}, {dtype = "int64", device = "cpu"})} do
        assert.tensor_equal(moon.tensor({{0, 0, 0}, {0, 0, 0}}), x)
      end
      assert.same({}, moon.zeros().shape)
      assert.same({}, moon.zeros({}).shape)
      assert.equal("int8", moon.zeros({dtype = "int8"}).dtype)
      assert.same({2, 3}, moon.zeros(moon.zeros(2, 3).shape).shape)
    end)

    it("are checked", function()
      assert.error_matches(function() moon.zeros(-1) end, "bad argument #1 to '[%w_.]*zeros' %(size %-1 is negative%)")
      assert.error_matches(function() moon.zeros({2, 1.5}) end, "sizes are integers, got 1.5")
      assert.error_matches(function() moon.zeros(2, {dtpye = "int8"}) end, "unknown option 'dtpye'; the options are dtype")
      assert.error_matches(function() moon.zeros(2, true) end, "dtype")
      assert.error_matches(function() moon.zeros(1 << 40, 1 << 40) end, "overflow")
      assert.error_matches(function() moon.zeros(2, {device = "tpu"}) end, "tpu")
    end)

    it("go up to 64 dimensions", function()
      local sizes = {}
      for i = 1, 64 do sizes[i] = 1 end
      assert.equal(64, moon.zeros(sizes).ndim)
      sizes[65] = 1
      assert.error_matches(function() moon.zeros(sizes) end, "at most 64 dimensions")
    end)
  end)

  it("fills", function()
    assert.tensor_equal(moon.tensor({1, 1}, "float32"), moon.ones(2))
    assert.tensor_equal(moon.tensor({true, true}), moon.ones(2, "bool"))
    assert.tensor_equal(moon.tensor({{7, 7}}), moon.full({1, 2}, 7))
    assert.tensor_equal(moon.tensor({2.5, 2.5}, "float64"), moon.full(2, 2.5, "float64"))
    assert.equal("bool", moon.full(1, true).dtype)
    assert.same({3, 1}, moon.empty(3, 1).shape)
    assert.error_matches(function() moon.full(2, 300, "uint8") end, "bad argument #2 to '[%w_.]*full' %(300 is out of range")
  end)

  it("makes tensors like another", function()
    local x = moon.tensor({{1, 2}}, "int16")
    assert.tensor_equal(moon.tensor({{0, 0}}, "int16"), moon.zeros_like(x))
    assert.tensor_equal(moon.tensor({{1, 1}}, "float64"), moon.ones_like(x, "float64"))
    assert.tensor_equal(moon.tensor({{5, 5}}, "int16"), moon.full_like(x, 5))
    assert.same({1, 2}, moon.empty_like(x).shape)
  end)

  describe("moon.arange", function()
    it("counts up to but without the last", function()
      assert.tensor_equal(moon.tensor({0, 1, 2, 3}), moon.arange(4))
      assert.tensor_equal(moon.tensor({2, 3}), moon.arange(2, 4))
      assert.tensor_equal(moon.tensor({5, 3, 1}), moon.arange(5, 0, -2))
      assert.tensor_equal(moon.tensor({0, 0.5, 1}, "float32"), moon.arange(0, 1.5, 0.5))
      assert.tensor_equal(moon.tensor({0, 1}, "float64"), moon.arange(2, "float64"))
      assert.same({0}, moon.arange(0).shape)
      assert.same({0}, moon.arange(5, 2).shape)
      assert.tensor_equal(moon.tensor({math.maxinteger - 1}), moon.arange(math.maxinteger - 1, math.maxinteger))
    end)

    it("refuses nonsense", function()
      assert.error_matches(function() moon.arange(0, 5, 0) end, "step is 0")
      assert.error_matches(function() moon.arange("5") end, "number expected, got string")
      assert.error_matches(function() moon.arange(0, math.huge, 0.5) end, "elements")
    end)
  end)

  it("spaces evenly", function()
    assert.tensor_equal(moon.tensor({0, 0.25, 0.5, 0.75, 1}, "float32"), moon.linspace(0, 1, 5))
    assert.tensor_equal(moon.tensor({3}, "float64"), moon.linspace(3, 9, 1, "float64"))
    assert.same({0}, moon.linspace(0, 1, 0).shape)
    assert.error_matches(function() moon.linspace(0, 1, -1) end, "bad argument #3 to '[%w_.]*linspace'")
  end)

  it("makes identities", function()
    assert.tensor_equal(moon.tensor({{1, 0}, {0, 1}}, "float32"), moon.eye(2))
    assert.tensor_equal(moon.tensor({{1, 0, 0}, {0, 1, 0}}), moon.eye(2, 3, "int64"))
    assert.same({0, 0}, moon.eye(0).shape)
  end)

  it("reads bytes", function()
    assert.tensor_equal(moon.tensor({{1, 2}, {3, 4}}, "uint8"), moon.from_string("\1\2\3\4", "uint8", 2, 2))
    assert.tensor_equal(moon.tensor({513}, "int16"), moon.from_string("\1\2", "int16"))
    assert.error_matches(function() moon.from_string("\1\2\3", "int16") end, "3 bytes are no whole number of int16 elements")
    assert.error_matches(function() moon.from_string("\1\2", "uint8", 3) end, "2 bytes given, the sizes take 3")
    local x = moon.randn(3, 2)
    assert.tensor_equal(x, moon.from_string(x:tobytes(), "float32", {3, 2}))
  end)

  describe("random numbers", function()
    it("repeat with their seed", function()
      moon.manual_seed(7)
      local a = moon.rand(5)
      moon.manual_seed(7)
      assert.tensor_equal(a, moon.rand(5))
      assert.tensor_equal(moon.randn(4, {generator = moon.generator(3)}), moon.randn(4, {generator = moon.generator(3)}))
      assert.is_false(moon.equal(moon.rand(5), moon.rand(5)))
    end)

    it("are xoshiro256++ seeded by splitmix64", function()
      -- the reference implementation's first outputs, >> 11, * 2^-53, for seed 0
      local g = moon.generator(0)
      local x = moon.rand(2, {dtype = "float64", generator = g})
      assert.equal(0x53175d61490b23df >> 11, math.tointeger(x[1] * 0x1p53))
      assert.equal(0x61da6f3dc380d507 >> 11, math.tointeger(x[2] * 0x1p53))
    end)

    it("have their ranges", function()
      local x = moon.rand(1000)
      assert.equal("float32", x.dtype)
      assert.is_true(x:min():item() >= 0 and x:max():item() < 1)
      local n = moon.randn(20000, "float64")
      assert.is_true(math.abs(n:mean():item()) < 0.05 and math.abs(n:std():item() - 1) < 0.05)
      local i = moon.randint(3, 6, {300})
      assert.equal("int64", i.dtype)
      assert.equal(3, i:min():item())
      assert.equal(5, i:max():item())
      assert.error_matches(function() moon.randint(3, 3, {1}) end, "no integer from 3")
      assert.error_matches(function() moon.rand(2, "int64") end, "floating point dtype")
    end)

    it("permute", function()
      local p = moon.randperm(50)
      local seen = {}
      for _, v in ipairs(p) do seen[v] = true end
      for k = 1, 50 do assert.is_true(seen[k]) end
      assert.equal(50, #p)
    end)
  end)
end)
