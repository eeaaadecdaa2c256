-- Single rows of the exchange's acceptance that need little: versions, buffers, interfaces, and what libraries take.
local exchange = require "spec.support.exchange"
local moon, py, torch, np = exchange.moon, exchange.py, exchange.torch, exchange.np
local failure, has, settle = exchange.failure, exchange.has, exchange.settle

describe("exchange:", function()
  require "spec.support.baseline" (setup, teardown)

  it("A1: a torch too old is refused by name, a newer one is not", function()
    local function with(version)
      local ok, out = exchange.child(([[
        py.exec "import sys, types; sys.modules['torch'] = t = types.ModuleType('torch'); t.__version__ = '%s'"
        print(select(2, pcall(function() return moon.zeros(1):to_torch() end)))]]):format(version))
      assert.is_true(ok, out)
      return out
    end
    for _, version in ipairs {"2.2.1", "1.13.1+cu117", "2.0.0a0"} do
      has(with(version), "torch " .. version .. " is too old: moontensor needs torch 2.3 or later")
    end
    has(with "main", "torch has the version 'main', which says nothing; moontensor needs torch 2.3 or later")
    -- past the gate it is the empty module that fails
    for _, version in ipairs {"2.13.0+cpu", "2.12.1+cu126", "2.14.0a0+git1", "2.3.0.dev2024", "2.10.0"} do
      has(with(version), "has no attribute 'Tensor'")
    end
  end)

  it("A9: a torch tensor is no buffer, and is taken all the same", function()
    local t = torch.arange(3)
    has(failure(py.builtins.memoryview, t), "a bytes-like object is required, not 'Tensor'")
    assert.is_true(py.hasattr(t, "__array__") and py.hasattr(t, "__dlpack__"))
    assert.is_false(py.hasattr(t, "__array_interface__"))
    assert.equal(t:data_ptr(), moon.from(t):data_ptr())
  end)

  it("A25: one verb takes them all", function()
    local pd = py.import "pandas"
    local t, a, b = torch.arange(3), np.arange(3), py.eval "bytearray(b'abc')"
    for _, source in ipairs {t, a, b, pd.Series(a, py.kw {copy = false})} do
      local view, copy = moon.from(source), moon.from(source, {copy = true})
      assert.is_true(moon.equal(view, copy))
      assert.is_false(moon.shares(view, copy))
    end
    moon.from(t)[1] = 9
    moon.from(a)[1] = 9
    moon.from(b)[1] = 65
    assert.equal(9, t[0]:item())
    assert.equal(9, a[0])
    assert.equal("bytearray(b'Abc')", tostring(b))
  end)

  it("P6, P7: force copies, whatever the state; a tensor with a gradient is shared only when detached", function()
    local plain = torch.arange(3.0)
    assert.is_false(moon.shares(plain, moon.from(plain, {force = true})))
    local w = torch.ones(3):requires_grad_()
    has(failure(moon.from, w), "requires grad")
    local own = moon.from(w, {force = true})
    own[1] = 5
    assert.equal(1, w[0]:item())
    assert.is_true(moon.shares(w:detach(), moon.from(w:detach())))
  end)

  it("P13, RT14: read-only sources import read-only, and go on as copies alone", function()
    local frozen = np.arange(3)
    frozen:setflags(py.kw {write = false})
    for _, source in ipairs {py.topy(py.bytes "abc"), frozen, py.eval "memoryview(b'abc')"} do
      local x = moon.from(source)
      assert.is_true(x.readonly)
      has(failure(function() x[1] = 1 end), "read-only")
      has(failure(x.to_torch, x), "read-only")
      has(failure(moon.from, source, {readonly = false}), "read-only")
      assert.is_false(moon.from(source, {copy = true}).readonly)
      assert.is_false(x:to_torch {copy = true}:is_inference())
    end
    has(failure(moon.from_string, ("x"):rep(10), "float32"), "10 bytes are no whole number of float32 elements")
  end)

  it("P18: an __array_interface__ that lies is not believed", function()
    py.exec "class Lies:\n def __init__(self, d): self.__array_interface__ = d"
    local Lies = py.import "__main__".Lies
    local function with(data, shape, more)
      local d = py.dict {{"shape", py.tuple(shape or {3})}, {"typestr", "<f8"}, {"version", 3}, {"data", data}}
      if more then d:update(more) end
      return failure(moon.from, Lies(d), {copy = true})
    end
    has(with(py.none), "a bytes-like object is required")
    has(with(py.bytes "abc"), "reaches over bytes 0 to 24 of data that has 3")
    has(with(py.bytes(("x"):rep(24)), {3}, {offset = 8}), "reaches over bytes 8 to 32 of data that has 24")
    has(with(py.bytes(("x"):rep(24)), {3}, {strides = py.tuple {-8}}), "reaches over bytes -16 to 8 of data that has 24")
    has(with(py.bytes(("x"):rep(24)), {-3}), "negative extent in its shape (-3,)")
    has(with(py.tuple {"x", false}), "must be an integer")
    has(with(py.tuple {1}), "must be a 2-tuple")
    has(with(py.tuple {0, false}), "data is NULL")
    has(failure(moon.from, Lies(3), {copy = true}), "__array_interface__ is not a dict")
    local honest = np.arange(3.0)
    assert.tensor_equal({0, 1, 2}, moon.from(Lies(honest.__array_interface__), {copy = true}):to "int64")
    local text = py.dict {{"shape", py.tuple {3}}, {"typestr", "|u1"}, {"version", 3}, {"data", py.bytes "abc"}}
    assert.tensor_equal(moon.tensor({97, 98, 99}, "uint8"), moon.from(Lies(text), {copy = true}))
  end)

  it("P20: NumPy, SciPy, scikit-learn and the standard library take shared memory", function()
    local x = moon.tensor({{2, 0}, {0, 4}}, "float64")
    local a = x:to_numpy()
    assert.equal(8.0, py.import "scipy.linalg".det(a))
    assert.equal(2.0, np.linalg.norm(a, 2) - 2)
    local scaled = py.import "sklearn.preprocessing".StandardScaler(py.kw {copy = false}):fit_transform(a)
    assert.equal(x:data_ptr(), moon.from(scaled):data_ptr())
    assert.tensor_close(moon.tensor({{1, -1}, {-1, 1}}, "float64"), x)
    local bytes = moon.tensor({104, 105}, "uint8")
    assert.equal("8f434346648f6b96df89dda901c5176b10a6d83961dd3c1ac88b59b2dc327aa4",
      py.import "hashlib".sha256(bytes:memoryview()):hexdigest())
    assert.equal(2, py.import "io".BytesIO(py.bytes "xy"):readinto(bytes:memoryview()))
    assert.tensor_equal(moon.tensor({120, 121}, "uint8"), bytes)
  end)

  it("X5, P11: what torch.frombuffer makes of a memoryview keeps the memory", function()
    local x = moon.arange(4, "float64")
    local t = torch.frombuffer(x:memoryview(), py.kw {dtype = torch.float64, count = 2, offset = 16})
    x = nil -- luacheck: ignore
    settle()
    assert.equal("[2.0, 3.0]", tostring(t:tolist()))
  end)

  it("X10: overlap without a stride of 0 imports read-only", function()
    local base = torch.arange(5.0)
    local windows = moon.from(base:unfold(0, 3, 1))
    assert.is_true(windows.readonly)
    has(failure(function() windows:add_(1) end), "read-only")
    local view = np.lib.stride_tricks.sliding_window_view(np.arange(5.0), 3)
    assert.is_true(moon.from(view).readonly)
  end)

  it("X12: torch's own gaps are told in its words, and ours are not there", function()
    local x = moon.tensor({"18446744073709551615", 1}, "uint64")
    local t = x:to_torch()
    has(failure(function() return t + t end), "not implemented for 'UInt64'")
    assert.equal("18446744073709551614", (x + x):tostring():match "%d+")
  end)

  it("RT6: consumers that live on at exit find nothing to fall over", function()
    local ok, out = exchange.child [[
      local torch, np = py.import "torch", py.import "numpy"
      local main = py.import "__main__"
      main.kept = py.list {moon.ones(4):to_torch(), moon.ones(4):to_numpy(), moon.ones(4):to_dlpack()}
      main.views = py.list {np.from_dlpack(main.kept[0])}
      KEPT = moon.from(torch.ones(3))
      print "end"]]
    assert.is_true(ok, out)
    assert.equal("end\n", out)
  end)

  it("RT12: an array under a view refuses to be resized", function()
    local a = np.arange(4)
    local view = moon.from(a)
    has(failure(function() a:resize(100) end), "cannot resize an array that references or is referenced")
    assert.equal(3, view[4])
  end)

  it("RT13, P14: a bytearray under a view refuses to grow, until the view is freed", function()
    local b = py.eval "bytearray(b'abcd')"
    local view = moon.from(b)
    has(failure(function() b:append(1) end), "Existing exports of data: object cannot be re-sized")
    view:free()
    py.id(0)
    b:append(1)
    assert.equal(5, #b)
  end)

  it("RT15: buffers of ctypes, without strides, and reversed ones", function()
    local array = py.eval "(__import__('ctypes').c_double * 3 * 2)((1, 2, 3), (4, 5, 6))"
    local x = moon.from(array)
    assert.tensor_equal(moon.tensor({{1, 2, 3}, {4, 5, 6}}, "float64"), x)
    x[1][1] = 7
    assert.equal(7.0, array[0][0])
    local reversed = moon.from(py.eval "memoryview(bytearray(b'abc'))[::-1]")
    assert.same({-1}, reversed:stride())
    assert.tensor_equal(moon.tensor({99, 98, 97}, "uint8"), reversed)
  end)

  it("RT33: sequences of arrays stack, and ragged ones name the row", function()
    local arrays = {}
    for i = 1, 10 do arrays[i] = np.full(3, i) end
    local x = moon.from(py.list(arrays), {dtype = "int64"})
    assert.same({10, 3}, x.shape)
    assert.equal(10, x[10][3])
    has(failure(moon.tensor, {{1, 2, 3}, {1, 2}}), "row 2 has length 2, expected 3")
    has(failure(moon.tensor, {np.zeros(3)}), "moon.stack")
  end)
end)
