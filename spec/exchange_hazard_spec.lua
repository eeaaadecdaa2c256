-- Memory that no consumer may see, and ownership when things go wrong.
local exchange = require "spec.support.exchange"
local moon, py, torch, np = exchange.moon, exchange.py, exchange.torch, exchange.np
local count, failure, has, settle = exchange.count, exchange.failure, exchange.has, exchange.settle

-- what a script prints and its exit status, under a watchdog
local function child(script)
  local head = ("package.path = %q package.cpath = %q\n"):format(package.path, package.cpath)
    .. "local moon, py = require 'moontensor', require 'moontensor.python' local torch, np = py.import 'torch', py.import 'numpy'\n"
  local file = os.tmpname()
  local f = assert(io.open(file, "w"))
  f:write(head, script)
  f:close()
  local pipe = io.popen("timeout 60 lua5.4 '" .. file .. "' 2>&1; echo \"status $?\"")
  local out = pipe:read "a"
  pipe:close()
  os.remove(file)
  return out
end

describe("hazards", function()
  local forge
  teardown(function() forge = nil end)
  require "spec.support.baseline" (setup, teardown)

  setup(function()
    local names = py.dict()
    py.exec([[
import ctypes
class Device(ctypes.Structure): _fields_ = [("type", ctypes.c_int32), ("id", ctypes.c_int32)]
class Dtype(ctypes.Structure): _fields_ = [("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16)]
class Tensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("device", Device), ("ndim", ctypes.c_int32), ("dtype", Dtype),
                ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)), ("offset", ctypes.c_uint64)]
class Managed(ctypes.Structure): pass
Deleter = ctypes.CFUNCTYPE(None, ctypes.POINTER(Managed))
Managed._fields_ = [("tensor", Tensor), ("context", ctypes.c_void_p), ("deleter", Deleter)]
class Versioned(ctypes.Structure): pass
Deleter1 = ctypes.CFUNCTYPE(None, ctypes.POINTER(Versioned))
Versioned._fields_ = [("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("context", ctypes.c_void_p), ("deleter", Deleter1),
                      ("flags", ctypes.c_uint64), ("tensor", Tensor)]
new = ctypes.pythonapi.PyCapsule_New
new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]

class Forged:
    """A producer of any struct: counts what its deleter is asked."""
    def __init__(self, shape=(3,), strides=None, code=2, bits=32, lanes=1, device=1, offset=0, null=False, ndim=None, versioned=True,
                 major=1, flags=0, misaligned=0, hook=None, destructor=False):
        self.destroyed = 0
        self.calls, self.flags, self.major, self.versioned, self.device = 0, flags, major, versioned, device
        self.bytes = (ctypes.c_uint8 * 256)()
        for i in range(60): ctypes.c_float.from_buffer(self.bytes, 4 * i).value = float(i)
        n = len(shape)
        self.dims = (ctypes.c_int64 * max(n, 1))(*shape)
        self.steps = (ctypes.c_int64 * max(n, 1))(*strides) if strides is not None else None
        t = Tensor()
        t.data = None if null else ctypes.addressof(self.bytes) + misaligned
        t.device, t.ndim, t.dtype = Device(device, 0), n if ndim is None else ndim, Dtype(code, bits, lanes)
        t.shape = ctypes.cast(self.dims, ctypes.POINTER(ctypes.c_int64))
        if self.steps is not None: t.strides = ctypes.cast(self.steps, ctypes.POINTER(ctypes.c_int64))
        t.offset = offset
        def deleted(_):
            self.calls += 1
            if hook: hook()
        def destroyed(_):
            self.destroyed += 1
            raise KeyError("a destructor that raises")
        self.destructor = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(destroyed) if destructor else None
        if versioned:
            self.deleter = Deleter1(deleted)
            self.struct = Versioned(major, 3, None, self.deleter, flags, t)
        else:
            self.deleter = Deleter(deleted)
            self.struct = Managed(t, None, self.deleter)
    def __dlpack_device__(self): return (self.device, 0)
    def __dlpack__(self, **k):
        name = b"dltensor_versioned" if self.versioned else b"dltensor"
        return new(ctypes.addressof(self.struct), name, self.destructor and ctypes.cast(self.destructor, ctypes.c_void_p))
]], names)
    forge = names:get "Forged"
  end)

  it("X4, RT18: no negative stride reaches torch", function()
    local out = child [[
      local x = moon.arange(6, "float64"):flip(1)
      print(select(2, pcall(x.to_torch, x)))
      local ok, e = pcall(torch.add, x, 1)
      print(ok, e)
      print(select(2, pcall(x.to_dlpack, x)))
      print(select(2, pcall(x.to_dlpack, x, {max_version = false})))
      print(x:to_torch{copy = true}:tolist())
      print(x:to_numpy():tolist())]]
    assert.equal(4, select(2, out:gsub("negative stride", "")), out)
    has(out, "negative stride", "copy", "[5.0, 4.0, 3.0, 2.0, 1.0, 0.0]\n[5.0, 4.0, 3.0, 2.0, 1.0, 0.0]\nstatus 0\n")
  end)

  it("X11, RT17: torch gets no read-only memory", function()
    local a = np.zeros(3)
    a:setflags(py.kw {write = false})
    local x = moon.from(a)
    assert.is_true(x.readonly)
    has(failure(x.to_torch, x), "read-only", "undefined behavior", "{copy = true}")
    has(failure(torch.add, x, 1), "read-only")
    local t = x:to_torch {copy = true}
    t:fill_(7)
    assert.equal(0, a:sum())
    has(failure(moon.from, a, {readonly = false}), "read-only")
    local wide = moon.ones(3, 1):expand(3, 4)
    has(failure(wide.to_torch, wide), "non-writeable", "{copy = true}")
  end)

  it("RT10: the flag of a capsule is honoured", function()
    local p = forge(py.kw {flags = 1})
    local x = moon.from(p)
    assert.is_true(x.readonly)
    has(failure(x.fill_, x, 1), "read-only")
    x:free()
    settle()
    assert.equal(1, p.calls)
  end)

  it("RT3, RT24: a malformed struct is refused, and its deleter runs once", function()
    local huge = 1 << 62
    for text, options in pairs {
      ["negative dimension"] = {shape = py.tuple {-1}}, ["overflow"] = {shape = py.tuple {1 << 32, 1 << 32, 16}},
      ["overflow "] = {shape = py.tuple {4}, strides = py.tuple {huge}}, ["NULL"] = {null = true}, ["-1 dimensions"] = {ndim = -1},
      ["65 dimensions"] = {ndim = 65}, ["dtype"] = {code = 6, bits = 1}, ["dtype "] = {lanes = 4}, ["dtype  "] = {code = 99},
      ["data misaligned (1 mod 4)"] = {misaligned = 1}, ["version"] = {major = 9}} do
      local p = forge(py.kw(options))
      local before = count "imports"
      has(failure(moon.from, p), (text:gsub("%s+$", "")))
      settle()
      assert.equal(before, count "imports")
      assert.equal(1, p.calls, text)
    end
  end)

  it("RT2: a good struct is deleted once, when the last view is gone", function()
    for _, versioned in ipairs {true, false} do
      local p = forge(py.kw {versioned = versioned})
      local x = moon.from(p)
      local view = x[{{2, 3}}]
      assert.tensor_equal(moon.tensor({0, 1, 2}, "float32"), x)
      x:free()
      settle()
      assert.equal(0, p.calls)
      assert.tensor_equal(moon.tensor({1, 2}, "float32"), view)
      view:free()
      settle()
      assert.equal(1, p.calls)
    end
  end)

  it("RT25, RT26: the offset is part of the address, both ways", function()
    local p = forge(py.kw {offset = 8, strides = py.tuple {1}})
    local x = moon.from(p)
    assert.tensor_equal(moon.tensor({2, 3, 4}, "float32"), x)
    assert.equal(x:data_ptr(), x:to_torch():data_ptr())
    assert.equal(x:data_ptr() + 4, x[{{2, 3}}]:to_torch():data_ptr())
    x:free()
    settle()
    assert.equal(1, p.calls)
  end)

  it("RT21: strides may be absent; RT20: an empty tensor is contiguous whatever they say", function()
    local p = forge(py.kw {shape = py.tuple {2, 3}})
    assert.tensor_equal(moon.tensor({{0, 1, 2}, {3, 4, 5}}, "float32"), moon.from(p, {copy = true}))
    local empty = moon.from(np.zeros(py.tuple {1, 8, 0, 128}))
    assert.same({1, 8, 0, 128}, {table.unpack(empty.shape)})
    assert.is_true(empty:is_contiguous())
  end)

  it("RT4: a tensor is exported as often as one likes", function()
    local x = moon.arange(4, "float64")
    local before = count "exports"
    local a, b = x:to_dlpack(), x:to_dlpack()
    assert.equal(before + 2, count "exports")
    local s, t = torch.from_dlpack(a), torch.from_dlpack(b)
    assert.equal(s:data_ptr(), t:data_ptr())
    assert.equal(x:data_ptr(), t:data_ptr())
    a, b, s, t = nil, nil, nil, nil -- luacheck: ignore
    assert.equal(before, count "exports")
  end)

  it("RT1: memory outlives the Lua tensor that made it", function()
    local a = moon.arange(1000, "float64"):to_numpy()
    settle()
    assert.equal(499500, a:sum())
  end)

  it("RT5: the last reference may go on any thread", function()
    local before = count "exports"
    local box = py.list {moon.arange(8, "float64"):to_torch()}
    py.exec("import threading\nt = threading.Thread(target=box.clear)\nt.start()\nt.join()", {box = box})
    assert.equal(before, count "exports")
  end)

  it("RT11: a refused resize changes nothing", function()
    local t = torch.arange(3)
    local x = moon.from(t)
    has(failure(function() t:resize_(100) end), "not resizable")
    assert.tensor_equal(moon.tensor({0, 1, 2}, "int64"), x)
  end)

  it("RT7: deleters and destructors that raise change nothing", function()
    local sys = py.import "sys"
    local seen = py.list()
    local was = sys.unraisablehook
    sys.unraisablehook = function(u) seen:append(py.str(u.exc_value)) end
    local p = forge(py.kw {hook = function() error("a deleter that raises", 0) end, destructor = true})
    moon.from(p):free()
    assert.equal(2, py.eval "1 + 1")
    assert.equal(1, p.calls)
    p = forge(py.kw {code = 99, hook = function() error("a deleter that raises", 0) end, destructor = true})
    has(failure(moon.from, p), "DLPack code 99")
    assert.equal(1, p.calls)
    assert.equal(1, p.destroyed)
    sys.unraisablehook = was
    has(py.str(seen), "a deleter that raises", "a destructor that raises")
  end)

  it("a deleter may come back into Lua and the exchange", function()
    local runs = 0
    local p = forge(py.kw {hook = function()
      runs = runs + 1
      collectgarbage()
      local x = moon.from(torch.ones(3))
      x:fill_(2)
      moon.arange(4):to_torch()
      x:free()
    end})
    moon.from(p):free()
    settle()
    assert.equal(1, runs)
    assert.equal(1, p.calls)
  end)

  it("a producer may close itself, import others, collect", function()
    local a = np.arange(4.0)
    local names = py.dict()
    py.exec([[
class Producer:
    def __init__(self, f): self.f = f
    def __dlpack_device__(self): return (1, 0)
    def __dlpack__(self, **k): return self.f()
]], names)
    local p
    p = names:get "Producer"(function()
      local _ <close> = p
      collectgarbage()
      moon.from(a):free()
      return a:__dlpack__()
    end)
    assert.tensor_equal(moon.arange(4, "float64"), moon.from(p))
    for _, value in ipairs {5, "x", py.none, py.import "datetime".datetime_CAPI} do
      has(failure(moon.from, names:get "Producer"(function() return value end)), "no DLPack capsule")
    end
    has(failure(moon.from, names:get "Producer"(function() error("from Lua", 0) end)), "from Lua")
    local capsule = a:__dlpack__()
    moon.from(capsule)
    has(failure(moon.from, capsule), "only once")
  end)

  it("RT5: threads let go while Lua shares and writes", function()
    local names = py.dict()
    py.exec([[
import random, threading
box = []
def run(n):
    for i in range(n):
        try: box.pop(random.randrange(len(box)))
        except (IndexError, ValueError): pass
threads = [threading.Thread(target=run, args=(5000,)) for _ in range(3)]
for t in threads: t.start()
]], names)
    local box = names:get "box"
    for i = 1, 5000 do
      local x = moon.full({8}, i, "float64")
      local t = x:to_torch()
      box:append(t)
      box:append(x:to_numpy())
      box:append(x:to_dlpack())
      local view = moon.from(t)
      view:fill_(i + 1)
      if i % 3 == 0 then view:free() end
      assert.equal(i + 1, x(8))
    end
    py.exec("for t in threads: t.join()\nbox.clear()", names)
  end)

  it("a torch without the C exchange API is served by capsules", function()
    local out = child [[
      py.delattr(torch.Tensor, "__dlpack_c_exchange_api__")
      local x = moon.arange(6, "float32"):reshape(2, 3)
      local t = x:to_torch()
      print(t:data_ptr() == x:data_ptr(), moon.from(t, {lock = false}):data_ptr() == x:data_ptr())
      for _, y in ipairs {x:flip(1), x:expand(2, 2, 3)} do print(select(2, pcall(y.to_torch, y))) end
      print(x:t():to_torch{copy = true}:tolist())
      local z = torch.ones(2, py.kw{dtype = torch.complex64}):conj()
      for _, u in ipairs {torch.ones(2):requires_grad_(), z, z.imag} do print(select(2, pcall(moon.from, u, {lock = false}))) end
      x:fill_(2)
      print("version", t._version)]]
    has(out, "true\ttrue\n", "negative stride", "non-writeable", "[[0.0, 3.0], [1.0, 4.0], [2.0, 5.0]]", "requires grad",
      "conjugate bit", "negative bit", "version\t1\nstatus 0\n")
  end)

  it("any verb of sharing starts Python", function()
    for verb, want in pairs {["x:to_numpy()"] = "[0 1 2]", ["x:to_torch()"] = "tensor([0, 1, 2])", ["x:to_dlpack()"] = "capsule"} do
      local file = os.tmpname()
      local f = assert(io.open(file, "w"))
      f:write(("package.path = %q package.cpath = %q\n"):format(package.path, package.cpath),
        "local moon = require 'moontensor' local x = moon.arange(3) print(", verb, ")")
      f:close()
      local pipe = io.popen("timeout 60 lua5.4 '" .. file .. "' 2>&1")
      has(pipe:read "a", want)
      pipe:close()
      os.remove(file)
    end
  end)

  it("RT16: what is not flagged is writable, of either version", function()
    for _, versioned in ipairs {true, false} do
      local p = forge(py.kw {versioned = versioned})
      local x = moon.from(p)
      assert.is_false(x.readonly)
      x:set(1, 42)
      assert.equal(42, moon.from(p)(1))
    end
  end)

  it("RT19: a negative stride is counted in elements, both ways", function()
    local a = np.arange(6, py.kw {dtype = "float32"})
    local x = moon.from(a[py.s "::-1"])
    assert.equal(-1, x:stride(1))
    assert.equal(a.ctypes.data + 20, x:data_ptr())
    assert.tensor_equal(moon.tensor({5, 4, 3, 2, 1, 0}, "float32"), x)
    local y = moon.arange(6, "float32")
    local b = y:flip(1):to_numpy()
    assert.same({-4}, py.tolua(b.strides))
    b[0] = 50
    assert.equal(50, y(6))
    local p = forge(py.kw {strides = py.tuple {-1}, offset = 8})
    assert.tensor_equal(moon.tensor({2, 1, 0}, "float32"), moon.from(p))
  end)

  it("RT22: 0-d tensors, with neither shape nor strides or with both", function()
    local p = forge(py.kw {shape = py.tuple {}})
    p.struct.tensor.shape = py.eval "None"
    local x = moon.from(p)
    assert.equal(0, x:dim())
    assert.equal(0, x:item())
    x:fill_(7)
    assert.equal(7, x:to_torch():item())
    assert.equal(7, torch.from_dlpack(x:to_dlpack()):item())
    assert.equal(7, x:to_numpy():item())
    x = nil -- luacheck: ignore
    settle()
    assert.equal(1, p.calls)
  end)

  it("RT23: strides are obeyed by readers, and stride 0 is no destination", function()
    local x = moon.from(torch.arange(6.0):reshape(2, 3):t())
    assert.tensor_equal(moon.tensor({{0, 3}, {1, 4}, {2, 5}}, "float32"), x + 0)
    assert.equal(15, x:sum():item())
    local wide = moon.from(torch.arange(3.0):expand(4, 3))
    assert.equal(12, wide:sum():item())
    has(failure(wide.fill_, wide, 1), "read-only")
    has(failure(wide.add_, wide, 1), "read-only")
    local own = moon.ones(3, 1):expand(3, 4)
    assert.equal(12, own:sum():item())
    assert.has_error(function() own:fill_(2) end)
  end)

  it("RT27: what is misaligned is refused, and copied", function()
    local a = np.frombuffer(np.zeros(13, "u1").data, py.kw {dtype = "f4", count = 3, offset = 1})
    has(failure(moon.from, a), "data misaligned (1 mod 4)", "{copy = true}")
    has(failure(moon.from, forge(py.kw {misaligned = 1})), "data misaligned (1 mod 4)", "{copy = true}")
    assert.tensor_equal(moon.zeros(3, "float32"), moon.from(a, {copy = true}))
  end)

  it("RT29: conj and neg are asked before the C exchange API", function()
    local z = torch.tensor(py.list {py.eval "1+2j"})
    has(failure(moon.from, z:conj(), {lock = false}), "resolve_conj")
    has(failure(moon.from, z:conj().imag, {lock = false}), "resolve_neg")
  end)

  it("RT30: the name of the capsule decides, whatever was asked", function()
    local names = py.dict()
    py.exec([[
class Old:
    """Knows no max_version, yet answers versioned; or the reverse."""
    def __init__(self, p): self.p = p
    def __dlpack_device__(self): return (1, 0)
    def __dlpack__(self): return self.p.__dlpack__()
]], names)
    for _, versioned in ipairs {true, false} do
      local p = forge(py.kw {versioned = versioned, flags = versioned and 1 or 0})
      local x = moon.from(names:get "Old"(p))
      assert.equal(versioned, x.readonly)
      assert.tensor_equal(moon.tensor({0, 1, 2}, "float32"), x)
      x:free()
      settle()
      assert.equal(1, p.calls)
    end
  end)

  it("RT31: a foreign device is refused with its id, before and after the export", function()
    local names = py.dict()
    py.exec([[
class Far:
    def __init__(self, p, told): self.p, self.told, self.asked = p, told, 0
    def __dlpack_device__(self): return self.told
    def __dlpack__(self, **k):
        self.asked += 1
        return self.p.__dlpack__()
]], names)
    local before = count "imports"
    local far = names:get "Far"(forge(py.kw {device = 2}), py.tuple {2, 1})
    has(failure(moon.from, far), "type 2, id 1")
    assert.equal(0, far.asked)
    local p = forge(py.kw {device = 2})
    local liar = names:get "Far"(p, py.tuple {1, 0})
    has(failure(moon.from, liar), "cuda:0", "no CUDA backend in this build")
    settle()
    assert.equal(1, liar.asked)
    assert.equal(1, p.calls)
    assert.equal(before, count "imports")
  end)

  it("X8: gradients are right where nothing was written, both ways", function()
    local w = torch.ones(3):requires_grad_()
    local t = torch.tensor(py.list {1.0, 2.0, 3.0})
    local x = moon.from(t)
    local loss = (t * w):sum()
    assert.equal(6, x:sum():item())
    loss:backward()
    assert.tensor_equal(moon.tensor({1, 2, 3}, "float32"), moon.from(w.grad))
    assert.equal(0, t._version)
    w.grad = py.eval "None"
    local y = moon.tensor({4, 5, 6}, "float32")
    loss = (y:to_torch() * w):sum()
    assert.equal(15, y:sum():item())
    loss:backward()
    assert.tensor_equal(moon.tensor({4, 5, 6}, "float32"), moon.from(w.grad))
  end)

  it("P5: a collector in a count hook, 1000 rounds of every road", function()
    local exports, imports = count "exports", count "imports"
    local a = np.arange(4.0)
    debug.sethook(function() collectgarbage("step") end, "", 1)
    local ok, e = pcall(function()
      for round = 1, 1000 do
        local x = moon.full({4}, round, "float64")
        local t, n = x:to_torch(), x:to_numpy()
        local v = moon.from(t)
        if round % 2 == 0 then x:free() end
        x = nil -- luacheck: ignore
        v:set(1, -round)
        assert(t[0]:item() == -round and n[0] == -round and v(2) == round)
        assert(moon.from(a)(4) == 3)
      end
    end)
    debug.sethook()
    assert.is_true(ok, e)
    assert.equal(exports, count "exports")
    assert.equal(imports, count "imports")
  end)

  it("64 dimensions go as far as each side takes them, and counters stand", function()
    local exports, imports = count "exports", count "imports"
    local shape = py.tuple(py.list {1} * 64)
    do
      local x = moon.from(np.ones(shape))
      assert.equal(64, x:dim())
      assert.equal(64, x:to_numpy().ndim)
      local t = torch.ones(shape)
      assert.equal(64, moon.from(t):dim())
      assert.equal(64, x:to_torch():dim())
      local p = forge(py.kw {shape = shape})
      assert.equal(64, moon.from(p):dim())
      settle()
      assert.equal(1, p.calls)
    end
    -- a capsule can be consumed but once, and some producers export but once
    for _, n in ipairs {9, 64} do
      local ones = py.tuple(py.list {1} * n)
      assert.equal(n, moon.from(np.ones(ones):__dlpack__()):dim())
      assert.equal(n, moon.from(np.ones(ones):__dlpack__(), {copy = true}):dim())
      assert.equal(n, moon.from(torch.utils.dlpack.to_dlpack(torch.ones(ones))):dim())
      local stack = {pcall(moon.from, np.ones(ones):__dlpack__())}
      assert.equal(2, #stack)
    end
    assert.equal(exports, count "exports")
    assert.equal(imports, count "imports")
  end)
end)
