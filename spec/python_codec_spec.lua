-- What crosses as a tensor: py.codec, py.adapter, moontensor.Tensor.
local exchange = require "spec.support.exchange"
local moon, py = exchange.moon, exchange.py
local has, failure, settle = exchange.has, exchange.failure, exchange.settle
local np, torch = py.import "numpy", py.import "torch"

local function type_name(object) return py.type(object).__module__ .. "." .. py.type(object).__name__ end

describe("py.codec", function()
  require "spec.support.baseline" (setup, teardown)
  after_each(function() py.codec {tensors = "auto", mode = false, decode = false, adapters = true} end)

  it("P3: chooses what a native tensor becomes", function()
    local x = moon.arange(4, "float64")
    assert.equal("torch.Tensor", type_name(py.topy(x)))
    assert.equal("numpy", py.codec {tensors = "numpy"}.tensors)
    local a = py.topy(x)
    assert.equal("numpy.ndarray", type_name(a))
    a[2] = 71
    assert.equal(71, x[3])
    py.codec {tensors = "moontensor"}
    assert.equal("moontensor.Tensor", type_name(py.topy(x)))
    py.codec {tensors = "torch"}
    assert.equal("torch.Tensor", type_name(py.topy(x)))
    assert.same({tensors = "torch", mode = false, decode = false, adapters = true}, py.codec())
  end)

  it("A26: converts arguments at any depth", function()
    local x = moon.arange(3, "float64")
    py.codec {tensors = "numpy"}
    local t = torch.from_numpy(x)
    t[0] = 9
    assert.equal(9, x[1])
    local kinds = py.eval "lambda a, *, k: [type(v).__name__ for v in (a[0], a[1]['deep'][0], k)]"
    assert.equal("['ndarray', 'ndarray', 'ndarray']", tostring(kinds({x, {deep = {x}}}, py.kw {k = x})))
  end)

  it("decodes results, callbacks' arguments, items and deep conversions", function()
    local pair = py.eval "lambda f: f(__import__('numpy').arange(3))"
    py.codec {decode = true}
    local x = np.zeros(2)
    assert.tensor_equal(moon.zeros(2, "float64"), x)
    assert.is_true(pair(function(v) return moon.is_tensor(v) and v[3] == 2 end))
    assert.tensor_equal({1.5}, py.tolua(py.topy {np.array(py.list {1.5})})[1])
    for row in py.iter(py.eval "__import__('numpy').arange(4).reshape(2, 2)") do assert.is_true(moon.is_tensor(row)) end
    local t = torch.ones(3)
    assert.is_true(moon.is_tensor(t))
    assert.equal("torch.Tensor", type_name(py.topy(t)))
  end)

  it("A27: shares, copies, or does what it can", function()
    local source = np.arange(5.0)
    local get = py.eval "lambda o: o"
    for _, mode in ipairs {false, "auto"} do
      py.codec {decode = true, mode = mode}
      local view = get(source)
      view[1] = 55
      py.codec {decode = false}
      assert.equal(55, source[0])
      source[0] = 0
    end
    py.codec {decode = true, mode = true}
    local copy = get(source)
    copy[1] = 55
    py.codec {decode = false}
    assert.equal(0, source[0])

    local grad = torch.arange(5.0):requires_grad_()
    py.codec {decode = true, mode = false}
    assert.equal("userdata", type(get(grad)))
    assert.is_false(moon.is_tensor(get(grad)))
    py.codec {mode = "auto"}
    local own = get(grad)
    assert.is_true(moon.is_tensor(own))
    own[1] = 77
    py.codec {decode = false}
    assert.equal("[0.0, 1.0, 2.0, 3.0, 4.0]", tostring(grad:tolist()))

    local parameter = torch.nn.Parameter(torch.ones(2))
    py.codec {decode = true, mode = "auto"}
    assert.is_true(moon.is_tensor(get(parameter)))
    py.codec {adapters = false}
    assert.is_false(moon.is_tensor(get(grad)))
    assert.is_true(moon.is_tensor(get(source)))
  end)

  it("names bad options", function()
    has(failure(py.codec, 3), "bad argument #1 to 'codec' (table expected, got number)")
    has(failure(py.codec, {mood = 1}), "unknown option 'mood' to 'codec'; the options are tensors, mode, decode, adapters")
    has(failure(py.codec, {mode = "share"}), "bad option 'mode' (false, true or \"auto\" expected, got share)")
    has(failure(py.codec, {tensors = "jax"}), "bad option 'tensors' (\"auto\", \"torch\", \"numpy\" or \"moontensor\" expected")
    has(failure(py.codec, {decode = 1}), "bad option 'decode' (boolean expected, got number)")
    assert.same({tensors = "auto", mode = false, decode = false, adapters = true}, py.codec())
  end)
end)

describe("py.adapter", function()
  require "spec.support.baseline" (setup, teardown)
  py.exec [[
import numpy
class Payload(numpy.ndarray): pass
class Bare: pass
]]
  local main = py.import "__main__"
  local Payload, Bare = main.Payload, main.Bare
  local accepted -- what the adapter of this file gives, set by each case

  it("A28: is asked in its order, may decline, and feeds verbs and codec alike", function()
    assert.is_true(py.adapter {name = "declines", accepts = function(t) return t.__name__ == "Payload" end,
                               decode = function() return nil end})
    assert.is_true(py.adapter {name = "payload", accepts = function(t) return t == Payload end,
                               decode = function(object) return object.payload end})
    assert.is_false(py.adapter {name = "payload", accepts = function() return true end, decode = function() end})
    local object = np.zeros(6):view(Payload)
    object.payload = np.full(6, 101.0)
    local view = moon.from(object)
    view[5] = 71
    assert.equal(71, object.payload[4])
    local copy = moon.from(object, {copy = true})
    copy[1] = -8
    assert.equal(101, object.payload[0])
    object.payload:fill(101)

    local get = py.eval "lambda o: o"
    py.codec {decode = true}
    local decoded = get(object)
    py.codec {adapters = false}
    local own = get(object)
    py.codec {decode = false, adapters = true}
    decoded[1] = 5
    assert.equal(5, object.payload[0])
    own[2] = 77
    assert.equal(77, object[1])
    assert.equal(101, object.payload[1])
  end)

  it("P8: names and functions are checked; a failing accepts is a no, a failing decode an error", function()
    local function nothing() end
    for _, name in ipairs {"", "  "} do
      has(failure(py.adapter, {name = name, accepts = nothing, decode = nothing}), "a name that is not empty expected")
    end
    has(failure(py.adapter, {name = "x", accepts = 3, decode = nothing}), "accepts: function expected, got number")
    has(failure(py.adapter, {name = "x", accepts = nothing, decode = nothing, adapt = 1}),
      "unknown field 'adapt'; the fields are name, accepts, decode")
    assert.is_true(py.adapter {name = "throws", accepts = function() error "asked" end, decode = function() error "never" end})
    assert.is_true(py.adapter {name = "bare", accepts = function(t) return t == Bare end, decode = function(_, mode)
      if accepted == "raise" then error("deliberate in " .. mode, 0) end
      return accepted
    end})
    accepted = moon.arange(3)
    assert.tensor_equal({0, 1, 2}, moon.from(Bare()))
    assert.tensor_equal({0, 1, 2}, moon.from(Bare(), {copy = true}))
    accepted = "raise"
    settle()
    local before = moon.stats()
    has(failure(moon.from, Bare()), "deliberate in share")
    has(failure(moon.from, Bare(), {force = true}), "deliberate in copy")
    settle()
    assert.same(before.imports, moon.stats().imports)
    accepted = nil
    has(failure(moon.from, Bare()), "'Bare' object does not export a buffer and has no adapter")
  end)

  it("P9: torch, pandas, pyarrow, polars and Pillow are there, and load nothing", function()
    for _, name in ipairs {"torch", "pandas", "pyarrow", "polars", "Pillow"} do
      assert.is_false(py.adapter {name = name, accepts = function() end, decode = function() end})
    end
    local ok, out = exchange.child [[
      local found = {}
      py.codec()
      for name in py.iter(py.import "sys".modules) do found[name] = true end
      print(found.pandas, found.pyarrow, found.polars, found.PIL, found.torch, found.numpy)]]
    assert.is_true(ok, out)
    assert.equal("nil\tnil\tnil\tnil\tnil\tnil\n", out)
  end)

  it("P10: each name is taken once, whoever registers it", function()
    local ok, out = exchange.child [[
      local taken = 0
      local function register(i)
        if py.adapter {name = "n" .. i, accepts = function() return false end, decode = print} then taken = taken + 1 end
      end
      py.exec("def run(f):\n for i in range(100): f(i)")
      local main, threading, threads = py.import "__main__", py.import "threading", {}
      for i = 1, 8 do threads[i] = threading.Thread(py.kw {target = main.run, args = py.tuple {register}}) end
      for _, t in ipairs(threads) do t:start() end
      for _, t in ipairs(threads) do t:join() end
      print(taken)]]
    assert.is_true(ok, out)
    assert.equal("100\n", out)
  end)
end)

describe("libraries of columns and pixels", function()
  -- what they keep of their own is loaded before the counters are read
  local pd, pa, pl, Image = py.import "pandas", py.import "pyarrow", py.import "polars", py.import "PIL.Image"
  moon.from(pd.Series(py.list {1}))
  moon.from(pa.array(py.list {1}))
  require "spec.support.baseline" (setup, teardown)
  local none = py.none

  it("P19: pandas shares where two conversions see one memory", function()
    local a = np.arange(3.0)
    local view = moon.from(pd.Series(a, py.kw {copy = false}))
    assert.is_true(view.readonly)
    a[0] = 44
    assert.equal(44, view[1])
    assert.tensor_equal({{0, 1}, {2, 3}}, moon.from(pd.DataFrame(np.arange(4):reshape(2, 2))))
    assert.tensor_equal({1, 2}, moon.from(pd.Series(py.list {1, 2}, py.kw {dtype = "Int64"})))
    local mixed = pd.DataFrame(py.dict {a = py.list {1, 2}, b = py.list {1.5, 2}})
    has(failure(moon.from, mixed), "a pandas DataFrame of this dtype can only be copied: use {copy = true}")
    assert.tensor_equal({{1, 1.5}, {2, 2}}, moon.from(mixed, {copy = true}))
    local missing = pd.Series(py.list {1, none}, py.kw {dtype = "Int64"})
    has(failure(moon.from, missing), "can only be copied")
    local copy = moon.from(missing, {copy = "auto"})
    assert.equal(1.0, copy[1])
    assert.is_true(copy[2] ~= copy[2])
    has(failure(moon.from, pd.Series(py.list {"text"}), {copy = true}), "could not convert")
  end)

  it("P24: Pillow copies its pixels out, and shares ours", function()
    local image = Image.new("RGB", py.tuple {2, 3}, py.tuple {1, 2, 3})
    has(failure(moon.from, image), "a Pillow image hands out copies of its pixels and cannot be shared; use {copy = true}")
    local pixels = moon.from(image, {copy = true})
    assert.same({3, 2, 3}, pixels.shape)
    assert.equal("uint8", pixels.dtype)
    assert.tensor_equal(moon.tensor({1, 2, 3}, "uint8"), pixels[2][1])
    local x = moon.zeros(2, 3, "uint8")
    local shared = Image.fromarray(x:to_numpy())
    assert.equal(1, shared.readonly)
    x[1][2] = 9
    assert.equal(9, shared:getpixel(py.tuple {1, 0}))
  end)

  it("P25: pyarrow shares numbers in one piece without nulls, read-only", function()
    local array = pa.array(py.list {1, 2, 3, 4})
    local view = moon.from(array:slice(1, 2))
    assert.tensor_equal({2, 3}, view)
    assert.is_true(view.readonly)
    assert.equal(array:to_numpy().ctypes.data + 8, view:data_ptr())
    has(failure(moon.from, pa.array(py.list {1.5, none})), "zero_copy_only was True")
    has(failure(moon.from, pa.array(py.list {true})), "Zero copy conversions not possible with boolean types")
    local chunked = pa.chunked_array(py.list {py.list {1}, py.list {2}})
    has(failure(moon.from, chunked), "a chunked pyarrow array is in several pieces and can only be copied")
    assert.tensor_equal({1, 2}, moon.from(chunked, {copy = true}))
    local nulls = moon.from(pa.array(py.list {1.5, none}), {copy = true})
    assert.is_true(nulls[1] == 1.5 and nulls[2] ~= nulls[2])
    local x = moon.arange(3, "uint8")
    assert.equal(x:data_ptr(), pa.py_buffer(x:memoryview()).address)
  end)

  it("polars shares columns without nulls, read-only", function()
    local view = moon.from(pl.Series(py.list {1, 2}))
    assert.tensor_equal({1, 2}, view)
    assert.is_true(view.readonly)
    has(failure(moon.from, pl.Series(py.list {1, none})), "can only be copied: use {copy = true}")
    assert.equal(1.0, moon.from(pl.Series(py.list {1, none}), {copy = true})[1])
  end)
end)

describe("moontensor.Tensor", function()
  require "spec.support.baseline" (setup, teardown)
  before_each(function() py.codec {tensors = "moontensor"} end)
  after_each(function() py.codec {tensors = "auto"} end)
  local builtins, tvm = py.builtins, py.import "tvm_ffi"

  it("has fields, a length, items and a text", function()
    local x = moon.arange(6, "float64"):reshape(2, 3)
    local t = py.topy(x:t())
    assert.equal("moontensor.Tensor(float64, (3, 2))", tostring(t))
    assert.equal("(3, 2) (1, 3) 2 float64 False", py.eval("lambda t: f'{t.shape} {t.strides} {t.ndim} {t.dtype} {t.readonly}'")(t))
    assert.equal(3, #t)
    assert.equal(4.0, t[{1, 1}])
    assert.matches("0%-d", failure(builtins.len, moon.tensor(1)))
    assert.matches("cannot create 'moontensor.Tensor' instances", failure(py.import "moontensor".Tensor))
  end)

  it("is a buffer", function()
    local formats = {bool = "?", int8 = "b", int16 = "h", int32 = "i", int64 = "l", uint8 = "B", uint16 = "H", uint32 = "I",
      uint64 = "L", float16 = "e", float32 = "f", float64 = "d", complex64 = "Zf", complex128 = "Zd"}
    for dtype, format in pairs(formats) do
      local view = builtins.memoryview(moon.ones(2, 3, dtype))
      assert.equal(format .. " (2, 3) " .. moon.zeros(1, dtype):element_size(),
        py.eval("lambda m: f'{m.format} {m.shape} {m.itemsize}'")(view))
    end
    local x = moon.arange(6, "int32"):reshape(2, 3)
    assert.equal("[[0, 3], [1, 4], [2, 5]]", tostring(builtins.memoryview(x:t()):tolist()))
    assert.equal("[[3, 4, 5], [0, 1, 2]]", tostring(builtins.memoryview(x:flip(1)):tolist()))
    builtins.memoryview(x):cast("B")[0] = 7
    assert.equal(7, x[1][1])
    has(failure(py.import "hashlib".sha256, x:t()), "not C-contiguous")
    has(failure(builtins.memoryview, moon.zeros(2, "bfloat16")), "buffers have no format for bfloat16; x:view(\"uint16\")")
    local fixed = moon.zeros(2, {dtype = "uint8", readonly = true})
    assert.is_true(builtins.memoryview(fixed).readonly)
    has(failure(function() py.import "io".BytesIO(py.bytes "ab"):readinto(fixed) end), "read-write")
    assert.equal("\0\0", builtins.bytes(fixed))
  end)

  it("is an array", function()
    local x = moon.arange(3, "float64")
    local a = np.asarray(x)
    a[0] = 5
    assert.equal(5, x[1])
    local copy = np.array(x, py.kw {copy = true})
    copy[0] = 6
    assert.equal(5, x[1])
    assert.equal("float32", tostring(np.asarray(x, py.kw {dtype = np.float32}).dtype))
    assert.equal(11, np.add(x, 1):sum())
    has(failure(np.array, x, py.kw {dtype = "f4", copy = false}), "Unable to avoid copy")
    local asked = py.eval "lambda t: t.__array__('float32', copy=False)"
    has(failure(asked, x), "ValueError: another dtype needs a copy")
    has(failure(np.asarray, moon.zeros(2, "bfloat16")), "NumPy has no bfloat16")
  end)

  it("speaks DLPack, versioned and not, and its C exchange API", function()
    local x = moon.arange(4, "float32")
    for _, take in ipairs {torch.from_dlpack, tvm.from_dlpack, np.from_dlpack} do
      local y = moon.from(take(x))
      assert.equal(x:data_ptr(), y:data_ptr())
    end
    local t = py.topy(x)
    assert.equal("(1, 0)", tostring(t:__dlpack_device__()))
    assert.matches('"dltensor"', tostring(t:__dlpack__()))
    assert.matches('"dltensor_versioned"', tostring(t:__dlpack__(py.kw {max_version = py.tuple {1, 0}})))
    local copy = moon.from(t:__dlpack__(py.kw {copy = true}))
    assert.tensor_equal(x, copy)
    assert.is_false(moon.shares(x, copy))
    local function dlpack(options) return failure(function() t:__dlpack__(py.kw(options)) end) end
    has(dlpack({dl_device = py.tuple {2, 0}}), "BufferError: the tensor is on the CPU, device (1, 0)")
    has(dlpack({stream = 1}), "BufferError: a tensor on the CPU has no stream")
    has(dlpack({max_version = 1}), "max_version is a tuple (major, minor)")
    has(failure(torch.from_dlpack, x:flip(1)), "BufferError: negative stride in dim 1")
    has(failure(function() py.topy(moon.zeros(2, {readonly = true})):__dlpack__() end), "BufferError: an unversioned DLPack capsule")
  end)

  it("comes back as the same memory, and counts as an export while it lives", function()
    settle()
    local before = moon.stats().exports
    local x = moon.arange(4, "bfloat16")
    local t = py.topy(x)
    assert.equal(before + 1, moon.stats().exports)
    local back = moon.from(t)
    assert.equal(x:data_ptr(), back:data_ptr())
    assert.equal("bfloat16", back.dtype)
    has(failure(x.resize_, x, 8), "it is exported")
    x:free()
    assert.equal(3, back[4])
    back:free()
    getmetatable(t).__close(t)
    settle()
    assert.equal(before, moon.stats().exports)
  end)
end)
