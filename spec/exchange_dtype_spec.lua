local exchange = require "spec.support.exchange"
local moon, py, torch, np = exchange.moon, exchange.py, exchange.torch, exchange.np

local dtypes = {"bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "bfloat16", "float32",
                "float64", "complex64", "complex128", "float8_e4m3fn", "float8_e5m2"}
local not_in_numpy = {bfloat16 = true, float8_e4m3fn = true, float8_e5m2 = true}

-- extremes, signed zeros, infinities and NaNs with a payload, little endian
local boundary = {
  bool = ("BB"):pack(0, 1),
  int8 = ("i1i1i1i1"):pack(-128, -1, 0, 127),
  int16 = ("<i2i2i2"):pack(-32768, -1, 32767),
  int32 = ("<i4i4i4"):pack(-2147483648, -1, 2147483647),
  int64 = ("<i8i8i8"):pack(math.mininteger, -1, math.maxinteger),
  uint8 = ("BBB"):pack(0, 128, 255),
  uint16 = ("<I2I2I2"):pack(0, 0xd800, 0xffff),
  uint32 = ("<I4I4"):pack(0, 0xffffffff),
  uint64 = ("<i8i8i8"):pack(0, math.mininteger, -1),
  float16 = ("<I2I2I2"):pack(0x8000, 0x7c00, 0xfe55),
  bfloat16 = ("<I2I2I2"):pack(0x8000, 0x7f80, 0xffc1),
  float32 = ("<I4I4I4I4"):pack(0x80000000, 0x7f800000, 0xffc12345, 0x7f800001),
  float64 = ("<I8I8I8"):pack(0x8000000000000000, 0xfff0000000000000, 0xfff8123456789abc),
  complex64 = ("<I4I4I4I4"):pack(0x80000000, 0x7f800000, 0xffc00042, 0x80000000),
  complex128 = ("<I8I8I8I8"):pack(0x8000000000000000, 0x7ff0000000000000, 0xfff8000000000042, 0x8000000000000000),
  float8_e4m3fn = ("BBBB"):pack(0x80, 0x7e, 0xff, 0x01),
  float8_e5m2 = ("BBBB"):pack(0x80, 0x7c, 0xfe, 0x01),
}

-- 24 distinct elements
local function sample(dtype)
  local size = moon.zeros(1, dtype):element_size()
  local bytes = {}
  for i = 0, 24 * size - 1 do bytes[#bytes + 1] = string.char(dtype == "bool" and i % 3 % 2 or (i * 37 + 11) % 251) end
  return moon.from_string(table.concat(bytes), dtype, {4, 6})
end

local layouts = {
  contiguous = function(x) return x end,
  strided = function(x) return x[{{}, {1, -1, 2}}] end,
  offset = function(x) return x[{{2, 4}, {2, -1, 2}}] end,
  ["F-order"] = function(x) return x:t() end,
  ["0-d"] = function(x) return x:select(1, 2):select(1, 3) end,
  empty = function(x) return x[{{2, 2}}]:narrow(1, 1, 0) end,
  singleton = function(x) return x[{{3, 3}, {}}] end,
}

local function same_layout(x, y)
  assert.tensor_equal(x:clone(), y:clone())
  if x:numel() == 0 then return end
  assert.equal(x:data_ptr(), y:data_ptr())
  for d = 1, x:dim() do
    if x:size(d) > 1 then assert.equal(x:stride(d), y:stride(d)) end
  end
end

describe("every dtype, in every layout", function()
  exchange.baseline(setup, teardown)

  for _, dtype in ipairs(dtypes) do
    for name, layout in pairs(layouts) do
      it(("%s %s: Lua -> torch -> Lua"):format(dtype, name), function()
        local x = layout(sample(dtype))
        local t = x:to_torch()
        assert.equal("torch." .. dtype, py.str(t.dtype))
        same_layout(x, moon.from(t))
        same_layout(x, moon.from(t, {lock = false}))
        local copy = x:to_torch {copy = true}
        assert.equal("torch." .. dtype, py.str(copy.dtype))
        assert.tensor_equal(x:clone(), moon.from(copy))
        assert.tensor_equal(x:clone(), moon.from(t, {copy = true}))
        assert.tensor_equal(x:clone(), moon.from(t, {force = true}))
      end)

      if not not_in_numpy[dtype] then
        it(("%s %s: Lua -> NumPy -> Lua"):format(dtype, name), function()
          local x = layout(sample(dtype))
          local a = x:to_numpy()
          assert.equal(dtype, py.str(a.dtype))
          same_layout(x, moon.from(a))
          assert.tensor_equal(x:clone(), moon.from(x:to_numpy {copy = true}))
          assert.tensor_equal(x:clone(), moon.from(a, {copy = true}))
          if x:numel() > 0 then same_layout(x, moon.from(torch.from_numpy(a))) end
        end)
      end

      it(("%s %s: Lua -> DLPack -> Lua"):format(dtype, name), function()
        local x = layout(sample(dtype))
        same_layout(x, moon.from(x:to_dlpack()))
        same_layout(x, moon.from(x:to_dlpack {max_version = false}))
        same_layout(x, moon.from(torch.from_dlpack(x:to_dlpack())))
      end)
    end

    it("A12: boundary bytes of " .. dtype .. " survive", function()
      local bytes = boundary[dtype]
      local x = moon.from_string(bytes, dtype)
      assert.equal(bytes, x:tobytes())
      assert.equal(bytes, moon.from(x:to_torch()):tobytes())
      assert.equal(bytes, moon.from(x:to_torch {copy = true}, {copy = true}):tobytes())
      if not_in_numpy[dtype] then return end
      assert.equal(bytes, moon.from(x:to_numpy()):tobytes())
      assert.equal(bytes, moon.from(x:to_numpy {copy = true}, {copy = true}):tobytes())
      assert.equal(bytes, x:to_numpy():tobytes())
    end)
  end

  it("A4, A13: torch's own tensors of every dtype are viewed", function()
    for _, dtype in ipairs(dtypes) do
      local t = torch.zeros(3, py.kw {dtype = torch[dtype]})
      local x = moon.from(t)
      assert.equal(dtype, x.dtype)
      assert.equal(t:data_ptr(), x:data_ptr())
    end
    assert.tensor_equal(moon.tensor({moon.complex(1, 2), moon.complex(-3, 4)}, "complex128"),
      moon.from(torch.tensor(py.list {py.eval "1+2j", py.eval "-3+4j"}), {dtype = "complex128", copy = true}))
  end)

  it("A15: the bits of bfloat16 and float8 are torch's", function()
    local t = torch.tensor(py.list {1.5, -2})
    assert.equal(("<I2I2"):pack(16320, 49152), moon.from(t:bfloat16()):tobytes())
    assert.equal(("BB"):pack(60, 192), moon.from(t:to(torch.float8_e4m3fn)):tobytes())
  end)

  it("RT28: bools are normal whatever the byte", function()
    local a = np.frombuffer(py.builtins.bytearray(py.bytes "\0\7\1"), py.kw {dtype = "bool"})
    local x = moon.from(a)
    assert.is_false(x(1))
    assert.is_true(x(2))
    assert.is_true(x:to_torch()[1]:item())
  end)
end)
