-- Code that runs in the middle of a crossing, finalizers and callbacks, closes what the crossing works on, and replaces what
-- it knows. Each case crashed, hung or gave a wrong value once; they run in a child.
local moon = require "moontensor"
local exchange = require "spec.support.exchange"

local HEAD = [[
local py = require "moontensor.python"
py.exec("class C:\n  x = [1]\n  def __call__(s, *a): return [1]\n  def __len__(s): return 3\n" ..
  "  def __getitem__(s, k): return [k]\n  def m(s, *a): return [2]\n" ..
  "class X:\n  def __init__(s, f): s.f = f\n  def __del__(s): s.f()\n")
local C, X = py.eval "C", py.eval "X"
local close = debug.getmetatable(C).__close
local uses = {
  callm = function(p) return p:m() end, method = function(p) return p.m end,
  index = function(p) return p.x end, item = function(p) return p[1] end, call = function(p) return p(1) end,
  newindex = function(p) p.y = 1 end, len = function(p) return #p end, tostring = function(p) return tostring(p) end,
  bound = function(p) return py.bound(p, "m") end, iter = function(p) return py.iter(p) end,
}
]]

local function holds(code, expected)
  local ok, output = exchange.child(HEAD .. code .. "\nprint('held')")
  assert.is_true(ok, output)
  assert.equal((expected or "") .. "held\n", output)
end

describe("re-entry", function()
  require "spec.support.baseline" (setup, teardown)

  for _, use in ipairs {"callm", "method", "index", "item", "call", "newindex", "len", "tostring", "bound", "iter"} do
    it("a Lua finalizer closes the object of " .. use, function()
      holds(([[local f = uses.%s
        collectgarbage("incremental", 1, 1000, 1)
        for _ = 1, 600 do
          local p = C()
          pcall(f, p)
          setmetatable({}, {__gc = function() close(p) end})
          for _ = 1, 3 do pcall(f, p) end
        end]]):format(use))
    end)

    it("a reference dropped on entry closes the object of " .. use, function()
      holds(([[local f = uses.%s
        for _ = 1, 5 do pcall(f, C()) end
        local p = C()
        for _ = 1, 3 do pcall(f, p) end
        local function drop() X(function() close(p) end) end
        drop()
        select(9, 1, 2, 3, 4, 5, 6, 7, 8, 9)
        collectgarbage "stop"
        collectgarbage() -- X's proxy waits for the next crossing
        pcall(f, p)
        py.id(0)]]):format(use))
    end)
  end

  it("reading an attribute closes the object it is read from", function()
    for _, use in ipairs {"py.bound(p, 'm')", "py.str(m)", "m()", "m.__name__", "p:m()"} do
      holds(([[
        py.exec("class G:\n  hook = None\n  def m(self): return 1\n  def __getattribute__(self, name):\n" ..
          "    if G.hook is not None and name == 'm':\n      G.hook()\n      raise AttributeError(name)\n" ..
          "    return object.__getattribute__(self, name)\n  def __getattr__(self, name): return [self.__class__.__name__, name]\n")
        local G = py.eval "G"
        for _ = 1, 50 do
          G.hook = nil
          local p = G()
          local m = p.m
          m(p)
          G.hook = function() close(p) end
          pcall(function() return %s end)
        end]]):format(use))
    end
  end)

  it("Python's collector runs while an attribute's entry is made", function()
    holds [[
      py.exec "import gc\ndef arm(f):\n  x = X(f)\n  x.me = x\n"
      local arm, gc = py.eval "arm", py.import "gc"
      gc.disable()
      for i = 1, 200 do
        local p = C()
        gc.collect()
        arm(function() close(p) end)
        gc.enable()
        gc.set_threshold(i % 40 + 1)
        pcall(function() return p["k" .. i] end)
        pcall(py.bound, p, "k" .. i)
        gc.disable()
        gc.set_threshold(100000)
      end]]
  end)

  it("buried references keep their places until they are dropped", function()
    holds [[
      local objects = py.eval "[object() for _ in range(240)]"
      local function drop() end
      py.unpack(py.eval "[1]")
      collectgarbage() collectgarbage() py.bool(false)
      collectgarbage "stop"
      for i = 0, 239 do local _ = objects[i] end
      collectgarbage("incremental", 1, 1000, 20)
      collectgarbage "restart"
      drop(py.unpack(objects))
      collectgarbage() collectgarbage()]]
  end)

  it("an attribute's entry is replaced while its value is read, found to be a method, or set", function()
    holds([[
      py.exec "import gc\nclass B: pass\nb = B()\nfor i in range(3000): setattr(b, f'n{i}', [i])\n"
      local b, names = py.eval "b", {}
      for i = 0, 2999 do names[i] = "n" .. i end
      local function fill() for i = 0, 2999 do local _ = b[names[i] ] end end
      py.exec("class A:\n  hook = None\n  def __getattribute__(self, name):\n    if name == 'meth' and A.hook: A.hook()\n" ..
        "    return object.__getattribute__(self, name)\n  def meth(self, *a): return len(a)\n" ..
        "class Meta(type):\n  hook = None\n  def __getattribute__(cls, name):\n    if name == 'meth' and Meta.hook: Meta.hook()\n" ..
        "    return type.__getattribute__(cls, name)\nclass M(metaclass=Meta):\n  def meth(self, *a): return len(a)\n")
      local A = py.eval "A"
      A.hook = fill
      print(A():meth(), A():meth())
      py.eval "Meta".hook = fill
      local m = py.eval "M()"
      print(m:meth(), m:meth(), py.type(b.n5).__name__)
      py.exec "def arm(f):\n  x = X(f)\n  x.me = x\n"
      local arm, gc, filler, wrong = py.eval "arm", py.import "gc", py.topy(fill), 0
      gc.disable()
      for i = 1, 20 do
        local p = C()
        gc.collect()
        arm(filler)
        p.key = 0
        gc.set_threshold(8 + i)
        gc.enable()
        p.key = {{}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}}
        gc.disable()
        gc.set_threshold(100000)
        if p.key == 0 then wrong = wrong + 1 end
      end
      print(wrong)]], "0\t0\n0\t0\tlist\n0\n")
  end)

  it("a finalizer replaces the entry between its look-up and its use", function()
    holds([[
      py.exec "class D: pass\nd = D()\nfor i in range(2000): setattr(D, f'n{i}', [i])\n"
      local d, names, busy, wrong = py.eval "d", {}, false, 0
      for i = 0, 1999 do names[i] = "n" .. i end
      local mt = {__gc = function()
        if busy then return end
        busy = true
        for i = 0, 999 do local _ = d[names[i] ] end
        busy = false
      end}
      collectgarbage("incremental", 1, 1000, 1)
      for i = 1990, 1999 do
        for _ = 1, 100 do
          local _ = d[names[i] ]
          setmetatable({}, mt)
          if d[names[i] ][0] ~= i then wrong = wrong + 1 end
        end
      end
      print(wrong)]], "0\n")
  end)

  it("a state that closes: proxies that finalizers make and use then", function()
    for _, use in ipairs {"saved.x", "saved()", "saved:m()", "bound(saved, 'm')", "savedm(saved)", "#saved", "getgc(saved)"} do
      local ok, output = exchange.child(([[
        first = setmetatable({}, {__gc = function() print(pcall(function() return %s end)) end})
        first2 = setmetatable({}, {__gc = function() do local s <close> = saved end print "closed" end})
      ]] .. HEAD .. [[
        bound, getgc = py.bound, debug.getmetatable(C).__gc
        keep = setmetatable({}, {__gc = function() saved = C() saved:m() savedm = saved.m end})
        keepC = C]]):format(use))
      assert.is_true(ok, use .. ": " .. output)
      assert.matches("closed\n", output)
      if use ~= "getgc(saved)" then assert.matches("false\t[^\n]*clos", output, nil, use) end
    end
  end)

  it("another thread's callback gets the state while a method value is read again", function()
    holds([[
      py.init {callback_timeout = 10}
      py.exec("import threading\nclass T:\n  hook = None\n  def m(self): return 1\n  def __getattribute__(self, name):\n" ..
        "    if T.hook is not None and name == 'm':\n      out = []\n      t = threading.Thread(target=lambda: out.append(T.hook()))\n" ..
        "      t.start(); t.join(); T.out = out\n    return object.__getattribute__(self, name)\n")
      local T = py.eval "T"
      local p = T()
      p:m()
      local m = p.m
      T.hook = function() return "called" end
      py.str(m)
      print(py.str(T.out))
      T.out = nil
      pcall(m)
      print(py.str(T.out))]], "['called']\n['called']\n")
  end)
end)

describe("method values", function()
  require "spec.support.baseline" (setup, teardown)
  local py = require "moontensor.python"

  it("keep their receiver, however many are held", function()
    local a, b = py.list {1}, py.list {9}
    local push = a.append
    push(a, 2)
    local other = b.append
    push(a, 3)
    other(b, 8)
    assert.equal("[1, 2, 3] [9, 8]", tostring(a) .. " " .. tostring(b))
    local apply = py.eval "lambda f, v: f(v)"
    apply(push, 4)
    apply(other, 7)
    apply(b.append, 6)
    assert.equal("[1, 2, 3, 4] [9, 8, 7, 6]", tostring(a) .. " " .. tostring(b))
    local ok, e = pcall(push, b, 5)
    assert.is_false(ok)
    assert.matches("method 'append' called without its receiver: write obj:append%(…%), or py%.bound%(obj, \"append\"%)", e)
    assert.equal("[1, 2, 3, 4] [9, 8, 7, 6]", tostring(a) .. " " .. tostring(b))
    local again = py.eval "lambda v: v"(a) -- another proxy of the same object
    push(again, 5)
    assert.equal("[1, 2, 3, 4, 5]", tostring(a))
  end)

  it("outlive nothing: a closed receiver is closed", function()
    local a = py.list {1}
    local push = a.append
    do local _ <close> = a end
    local ok, e = pcall(push, a, 1)
    assert.is_false(ok)
    assert.matches("python object is closed", e)
    ok, e = pcall(py.str, push)
    assert.is_false(ok)
    assert.matches("python object is closed", e)
  end)

  it("names of any length are methods", function()
    local o = py.eval("type('L', (), {'m' * 41: lambda self, *a: len(a), 'm' * 40: lambda self, *a: len(a)})()")
    for _ = 1, 2 do
      assert.equal(0, o[("m"):rep(41)](o))
      assert.equal(0, o[("m"):rep(40)](o))
    end
  end)

  it("the attribute of a module stays open for its other readers", function()
    local math_ = py.import "math"
    local g = math_.sqrt
    do local _ <close> = math_.sqrt end
    assert.equal(2.0, g(4))
    assert.equal(0, moon.stats().queued)
  end)
end)
