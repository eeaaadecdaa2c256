local exchange = require "spec.support.exchange"
local moon, py, torch, np = exchange.moon, exchange.py, exchange.torch, exchange.np
local count, failure, has, settle = exchange.count, exchange.failure, exchange.has, exchange.settle

describe("native tensors in NumPy", function()
  exchange.baseline(setup, teardown)

  it("P1: an array shares the memory, both ways, with any stride", function()
    local x = moon.arange(12, "float64"):reshape(3, 4)
    local a = x:to_numpy()
    assert.equal(x:data_ptr(), a.ctypes.data)
    a[{1, 2}] = 91.5
    assert.equal(91.5, x(2, 3))
    x:set(3, 2, -7.25)
    assert.equal(-7.25, a[{2, 1}])
    assert.is_true(a.flags.writeable and a.flags.aligned and a.flags.c_contiguous)
    assert.is_false(a.flags.owndata)

    local back = x:flip(2):to_numpy()
    assert.same({32, -8}, py.tolua(back.strides))
    assert.equal(x:data_ptr() + 24, back.ctypes.data)
    back[{0, 0}] = 5
    assert.equal(5, x(1, 4))
    assert.same({8, 32}, py.tolua(x:t():to_numpy().strides))
    assert.is_true(x:t():to_numpy().flags.f_contiguous)
  end)

  it("P3: what a native tensor is as an argument", function()
    local x = moon.arange(3, "float64")
    assert.equal("torch.Tensor", py.import "builtins".type(x).__module__ .. ".Tensor")
    assert.equal(3, torch.sum(x):item())
    has(failure(torch.sum, x:flip(1)), "negative stride", "{copy = true}")
    -- without torch it is an array
    local ok, output = exchange.child [[
      local np = py.import "numpy"
      local x = moon.arange(3, "float64")
      local a = np.asarray(x)
      print(py.type(a).__name__, a.ctypes.data == x:data_ptr(), np.sum(x), py.import "sys".modules:get("torch"))
    ]]
    assert.equal("ndarray\ttrue\t3.0\tnil\n", output)
    assert.is_true(ok)
  end)

  it("A16: overlapping memory gives an array that cannot be written", function()
    local x = moon.arange(3, "float64"):expand(2, 3)
    local a = x:to_numpy()
    assert.is_false(a.flags.writeable)
    assert.same({0, 8}, py.tolua(a.strides))
    has(failure(np.copyto, a, 1), "read-only")
    local copy = x:to_numpy {copy = true}
    copy:fill(7)
    assert.is_true(copy.flags.owndata)
    assert.equal(1, x(1, 2))
  end)

  it("A22: a copy is NumPy's alone", function()
    local before = count "exports"
    local x = moon.arange(4, "float32")
    local a = x[{{1, -1, 2}}]:to_numpy {copy = true}
    assert.equal(before, count "exports")
    assert.same({0, 2}, py.tolua(a:tolist()))
    a[0] = 9
    assert.equal(0, x(1))
    x:set(3, 77)
    assert.equal(2, a[1])
  end)

  it("A10: 0-d and empty tensors", function()
    local before = count "exports"
    local x = moon.tensor(2.5)
    local a = x:to_numpy()
    assert.same({}, py.tolua(a.shape))
    a[py.tuple {}] = 3.5
    assert.equal(3.5, x:item())
    assert.equal(before + 1, count "exports")
    for _, sizes in ipairs {{0, 3}, {3, 0}, {0}} do
      assert.same(sizes, py.tolua(moon.zeros(sizes):to_numpy().shape))
    end
    a = nil -- luacheck: ignore
    assert.equal(before, count "exports")
  end)

  it("P5: an array keeps the memory, from whatever thread lets it go", function()
    local before = count "exports"
    local x = moon.arange(10, "float64")
    local a = x:to_numpy()[py.slice(3, 8)]
    x:free()
    settle()
    assert.equal(25, a:sum())
    py.exec [[
import threading
def drop_elsewhere(box):
    t = threading.Thread(target=box.clear); t.start(); t.join()
]]
    local box = py.list {a}
    a = nil -- luacheck: ignore
    py.import "__main__".drop_elsewhere(box)
    assert.equal(before, count "exports")
  end)

  it("X7: uint64 is NumPy's ulong, which torch takes", function()
    local a = moon.ones(3, "uint64"):to_numpy()
    assert.equal("L", a.dtype.char)
    assert.equal("torch.uint64", py.str(torch.from_numpy(a).dtype))
    assert.equal("L", moon.ones(3, "uint64"):memoryview().format)
    assert.equal("uint64", moon.from(np.zeros(2, "ulonglong")).dtype)
    assert.equal("int64", moon.from(np.zeros(2, "longlong")).dtype)
  end)

  it("operators of ours send a Python object to moon.from", function()
    local x, a = moon.zeros(2), np.zeros(2)
    has(failure(moon.add, x, a), "tensor, number, boolean or complex expected, got python object; moon.from makes a tensor of an array")
    has(failure(moon.equal, x, a), "tensor expected, got python object; moon.from")
    has(failure(moon.sum, a), "tensor expected, got python object; moon.from")
  end)

  it("has no bfloat16 or float8, and says where to go", function()
    for _, row in ipairs {{"bfloat16", "BFloat16"}, {"float8_e4m3fn", "Float8_e4m3fn"}, {"float8_e5m2", "Float8_e5m2"}} do
      local x = moon.ones(2, row[1])
      has(failure(x.to_numpy, x), row[1], "unsupported ScalarType " .. row[2], "to_torch")
      has(failure(x.to_numpy, x, {copy = true}), "to_torch")
    end
  end)

  it("P11, P12: a memoryview covers exactly the bytes", function()
    local x = moon.arange(24, "float64"):reshape(4, 6)
    local view = x[{{2, 3}}]:memoryview()
    assert.equal(96, view.nbytes)
    local t = torch.frombuffer(view, py.kw {dtype = torch.float64, count = 2, offset = 8})
    assert.tensor_equal(moon.tensor({7, 8}, "float64"), moon.from(t))
    has(failure(x.memoryview, x:t()), "not C-contiguous")
    t:fill_(-1)
    assert.equal(-1, x(2, 2))
  end)
end)

describe("NumPy arrays in Lua", function()
  exchange.baseline(setup, teardown)

  it("P1: share the memory, with strides of either sign", function()
    local a = np.arange(12.0):reshape(3, 4)
    local x = moon.from(a)
    assert.equal(a.ctypes.data, x:data_ptr())
    assert.equal("float64", x.dtype)
    x:set(1, 1, 5)
    assert.equal(5, a[{0, 0}])
    local back = moon.from(a[py.s "::-1, ::2"])
    assert.equal(-4, back:stride(1))
    assert.equal(2, back:stride(2))
    assert.tensor_equal(moon.tensor({{8, 10}, {4, 6}, {5, 2}}, "float64"), back:clone())
    back:set(1, 1, 80)
    assert.equal(80, a[{2, 0}])
    assert.is_true(moon.shares(a, back))
    assert.is_false(moon.shares(a:copy(), back))
  end)

  it("RT9, P14: hold their array", function()
    local before = count "imports"
    local x = moon.from(np.arange(5.0))
    settle()
    assert.tensor_equal(moon.arange(5, "float64"), x)
    local a = np.arange(5.0)
    local y = moon.from(a)
    has(failure(function() return a:resize(100) end), "cannot resize an array that references or is referenced")
    local bytes = py.builtins.bytearray(8)
    local z = moon.from(bytes)
    has(failure(function() return bytes:append(1) end), "Existing exports of data: object cannot be re-sized")
    z:set(1, 7)
    assert.equal(7, bytes[0])
    assert.equal(before + 3, count "imports")
    x:free()
    y:free()
    z:free()
    assert.equal(before, count "imports")
    bytes:append(1)
  end)

  it("read-only sources import read-only", function()
    local a = np.arange(3.0)
    a.flags.writeable = false
    for _, source in ipairs {a, np.broadcast_to(np.arange(3.0), py.tuple {2, 3}), py.bytes "abcd"} do
      local x = moon.from(source)
      assert.is_true(x.readonly)
      has(failure(x.fill_, x, 1), "read-only")
      has(failure(moon.from, source, {readonly = false}), "read-only", "{copy = true}")
      local y = moon.from(source, {readonly = false, copy = true})
      y:fill_(1)
      assert.is_false(x:to_numpy().flags.writeable)
      has(failure(x.to_torch, x), "{copy = true}")
    end
    assert.tensor_equal(moon.tensor({0, 1, 2}, "float64"), moon.from(a):clone())
    local x = moon.from(np.arange(3.0), {readonly = true})
    assert.is_true(x.readonly)
    assert.is_false(moon.from(np.arange(3.0), {readonly = false}).readonly)
  end)

  it("P15: the other byte order is swapped into copies only", function()
    for _, row in ipairs {{">f8", "float64"}, {">i2", "int16"}, {">c8", "complex64"}} do
      local a = np.arange(4):astype(row[1])
      has(failure(moon.from, a), "byte order", "{copy = true}")
      local x = moon.from(a, {copy = true})
      assert.tensor_equal(moon.arange(4, "int64"):astype(row[2]), x)
      assert.tensor_equal(x, moon.from(a, {copy = "auto"}))
      assert.tensor_equal(x, moon.from(a, {force = true}))
    end
    assert.equal("int8", moon.from(np.zeros(2, ">i1")).dtype)
  end)

  it("P16: odd strides and odd addresses are refused, and copied", function()
    local dtype = np.dtype(py.list {py.tuple {"a", "u1"}, py.tuple {"b", "<f4"}})
    local a = np.zeros(3, dtype)
    a[{"b"}] = py.list {1, 2, 3}
    has(failure(moon.from, a[{"b"}]), "{copy = true}")
    assert.tensor_equal(moon.tensor({1, 2, 3}, "float32"), moon.from(a[{"b"}], {copy = true}))
    local odd = np.frombuffer(py.bytes(("\0"):rep(9)), py.kw {dtype = "u1"})[py.slice(1, 9)]:view "<f4"
    has(failure(moon.from, odd), "misaligned", "{copy = true}")
    assert.tensor_equal(moon.zeros(2, "float32"), moon.from(odd, {copy = true}))
    has(failure(moon.from, a), "dtype", "float64")
  end)

  it("refuses elements it lacks, unless a dtype says what they become", function()
    local before = count "imports"
    for _, a in ipairs {np.array(py.list {1, 2}, py.kw {dtype = "O"}), np.zeros(2, "longdouble"), np.zeros(2, "M8[s]"),
                        np.array(py.list {"1", "2"})} do
      has(failure(moon.from, a), "dtype", "counterpart")
      has(failure(moon.from, a, {copy = true}), "counterpart")
    end
    local x = moon.from(np.array(py.list {1, 2.5}, py.kw {dtype = "O"}), {copy = true, dtype = "float64"})
    assert.tensor_equal(moon.tensor({1, 2.5}, "float64"), x)
    assert.tensor_equal(moon.tensor({1, 2}, "float32"), moon.from(np.array(py.list {"1", "2"}), {copy = true, dtype = "float32"}))
    local masked = np.ma.masked_array(py.list {1, 2, 3}, py.kw {mask = py.list {false, true, false}})
    has(failure(moon.from, masked), "masked", "filled")
    assert.tensor_equal(moon.tensor({1, 9, 3}, "int64"), moon.from(masked:filled(9)))
    assert.equal(before, count "imports")
  end)

  it("P17: anything with a buffer", function()
    local array = py.import "array".array("d", py.list {1, 2, 3})
    local x = moon.from(array)
    x:set(1, 10)
    assert.equal(10, array[0])
    assert.equal("float64", x.dtype)
    local view = py.builtins.memoryview(py.bytes "abcdef")
    assert.equal("ace", moon.from(view[py.s "::2"]):tobytes())
    assert.equal("fedcba", moon.from(view[py.s "::-1"]):tobytes())
    local ctypes = py.import "ctypes"
    local c = (ctypes.c_int32 * 3)(1, 2, 3)
    assert.tensor_equal(moon.tensor({1, 2, 3}, "int32"), moon.from(c))
  end)

  it("A20: what offers no memory is refused, and counters stand", function()
    settle()
    local list = py.list {1, 2}
    local before = moon.stats()
    for _, options in ipairs {{}, {copy = true}} do
      has(failure(moon.from, list, options), "'list' object does not export a buffer", "dtype", "adapter")
    end
    has(failure(moon.from, py.builtins.object()), "does not export a buffer")
    has(failure(moon.from, py.dict {}), "does not export a buffer")
    has(failure(moon.from, py.none), "does not export a buffer")
    has(failure(moon.from, nil), "bad argument #1 to '", "from'")
    has(failure(moon.from), "bad argument #1 to '", "from'")
    has(failure(moon.from, 5), "bad argument #1 to '", "from'")
    has(failure(moon.from, "x"), "bad argument #1 to '", "from'")
    has(failure(moon.from, print), "bad argument #1 to '", "from'")
    has(failure(moon.from, io.stdout), "bad argument #1 to '", "from'")
    local x = moon.zeros(2)
    x:free()
    has(failure(x.to_torch, x), "closed")
    has(failure(x.to_numpy, x), "closed")
    has(failure(x.to_dlpack, x), "closed")
    has(failure(moon.from, x), "closed")
    has(failure(torch.sum, x), "closed")
    has(failure(x.to_torch), "bad argument #1")
    has(failure(x.to_torch, 5), "bad argument #1")
    has(failure(moon.zeros(1).to_torch, moon.zeros(1), {cpy = true}), "unknown option 'cpy'; the options are copy")
    local closed = np.zeros(2)
    do local _ <close> = closed end
    has(failure(moon.from, closed), "closed")
    list = nil -- luacheck: ignore
    settle()
    local after = moon.stats()
    assert.equal(before.imports, after.imports)
    assert.equal(before.exports, after.exports)
  end)

  it("copies lists where a dtype is given", function()
    assert.tensor_equal(moon.tensor({{1, 2}, {3, 4}}, "float64"),
      moon.from(py.list {py.list {1, 2}, py.list {3, 4}}, {dtype = "float64"}))
    assert.tensor_equal(moon.tensor({1.5, -2}, "bfloat16"), moon.from(py.list {1.5, -2}, {dtype = "bfloat16"}))
    local Decimal = py.import "decimal".Decimal
    assert.equal(7.922816251426434e28,
      moon.from(py.list {Decimal "79228162514264337593543950335"}, {dtype = "float64"}):item())
    assert.equal("18446744073709551615", moon.from(py.list {py.eval "2**64-1"}, {dtype = "uint64"}):tostring():match "%d%d+")
  end)
end)
