-- Python classes made in Lua.
local py = require "moontensor.python"

describe("py.class", function()
  require "spec.support.baseline" (setup, teardown)

  local function counter()
    return py.class("Counter", {
      __doc__ = "Counts.",
      kind = "counter",
      __init__ = function(self, n) self.n = n or 0 end,
      add = function(self, k) self.n = self.n + (k or 1) return self.n end,
      __len__ = function(self) return self.n end,
      __getitem__ = function(self, i) return i * self.n end,
      __call__ = function(self, a, b) return a + b + self.n end,
      __eq__ = function(self, other) return self.n == other.n end,
      __repr__ = function(self) return "Counter(" .. self.n .. ")" end,
      make = py.classmethod(function(class, n) return class(2 * n) end),
      sum = py.staticmethod(function(a, b) return a + b end),
      twice = py.property(function(self) return 2 * self.n end, function(self, v) self.n = v // 2 end),
    })
  end

  it("makes methods, attributes, special methods and a docstring", function()
    local Counter = counter()
    local c = Counter(3)
    assert.equal(4, c:add())
    assert.equal(9, c:add(5))
    assert.equal(9, #c)
    assert.equal(18, c[2])
    assert.equal(12, c(1, 2))
    assert.equal("Counter(9)", tostring(c))
    assert.is_true(c == Counter(9))
    assert.is_false(c == Counter(8))
    assert.equal("counter", Counter.kind)
    assert.equal("Counts.", Counter.__doc__)
    assert.equal(8, Counter.make(4).n)
    assert.equal(7, Counter.sum(3, 4))
    assert.equal(18, c.twice)
    c.twice = 11
    assert.equal(5, c.n)
    assert.equal("Counter.add", py.eval("lambda c: c.add.__qualname__")(Counter))
    assert.equal("(self=None, k=None, *_rest)", py.str(py.import "inspect".signature(py.getattr(Counter, "add"))))
    assert.equal("__main__", Counter.__module__)
    assert.is_true(py.isinstance(c, Counter))
    assert.equal(4, Counter(py.kw {n = 4}).n)
  end)

  it("super finds the class that a method belongs to, three deep, through closures and class methods", function()
    local A = py.class("A", {who = function() return "a" end, make = py.classmethod(function() return "made" end)})
    local B = py.class("B", {A}, {
      who = function(self) return "b" .. py.super(self):who() end,
      make = py.classmethod(function(class) return py.super(class).make() .. " by B" end),
    })
    local C = py.class("C", {B}, {who = function(self)
      local function inner() return "c" .. py.super(self):who() end
      return select(2, pcall(inner))
    end})
    assert.equal("cba", C():who())
    assert.equal("ba", B():who())
    assert.equal("made by B", C.make())
    local D = py.class("D", {C}, {})
    assert.equal("cba", D():who())
  end)

  it("super says what is wrong where it cannot know the class", function()
    assert.has_error(function() local _ = py.super(py.list {}) end,
      "py.super(self) is for methods of a py.class, with their own self")
    local shared = function(self) return py.super(self):__repr__() end
    local A = py.class("A", {one = shared})
    local B = py.class("B", {A}, {two = shared})
    local ok, e = pcall(function() return B():one() end)
    assert.is_false(ok)
    assert.matches("this function is a member of several classes of self; name the base: Base%.method%(self, …%)", tostring(e))
    assert.matches("A object", A():one()) -- one candidate only
  end)

  it("mixes with Python classes in both directions", function()
    py.exec [[
class Base:
    def __init__(self, x): self.x = x
    def describe(self): return f"{self.name()} {self.x}"
]]
    local Base = py.eval "Base"
    local Named = py.class("Named", {Base}, {
      __init__ = function(self, x) py.super(self):__init__(x + 1) end,
      name = function() return "lua" end,
    })
    assert.equal("lua 3", Named(2):describe())
    local Sub = py.eval("lambda N: type('Sub', (N,), {'name': lambda self: 'py ' + super(type(self), self).name()})")(Named)
    assert.equal("py lua 6", Sub(5):describe())
    py.exec "del Base"
  end)

  it("iterates Lua functions, and raises StopIteration from __next__", function()
    local Three = py.class("Three", {__iter__ = function()
      local i = 0
      return function()
        i = i + 1
        if i <= 3 then return i end
      end
    end})
    assert.same({1, 2, 3}, py.tolua(py.list(Three())))
    local Down = py.class("Down", {
      __init__ = function(self, n) self.n = n end,
      __iter__ = function(self) return self end,
      __next__ = function(self)
        if self.n == 0 then error(py.builtins.StopIteration()) end
        self.n = self.n - 1
        return self.n
      end,
    })
    assert.same({2, 1, 0}, py.tolua(py.list(Down(3))))
    local Words = py.class("Words", {__iter__ = function() return coroutine.wrap(function()
      for word in ("a b c"):gmatch "%a" do coroutine.yield(word) end
    end) end})
    assert.equal("a-b-c", py.eval "'-'.join"(Words()))
  end)

  it("is a context manager, and sees the error", function()
    local seen = {}
    local Guard = py.class("Guard", {
      __enter__ = function() return 42 end,
      __exit__ = function(_, kind, value)
        seen[#seen + 1] = kind == nil and "none" or kind.__name__ .. ": " .. tostring(value)
        return kind ~= nil and kind.__name__ == "KeyError"
      end,
    })
    assert.equal(42, py.with(Guard(), function(v) return v end))
    assert.is_nil(py.with(Guard(), function() error(py.builtins.KeyError "k") end))
    local ok, e = pcall(py.with, Guard(), function() error("oops", 0) end)
    assert.same({false, "oops"}, {ok, e})
    assert.equal("none", seen[1])
    assert.matches("^KeyError: ", seen[2])
    assert.matches("^LuaError: ", seen[3])
  end)

  it("kwfunction takes any keyword arguments, as a table after the others", function()
    local f = py.kwfunction(function(a, b, kw) return a, b, kw.x or "no x", kw.y == py.none, next(kw) == nil end)
    assert.same({1, 2, 5, true, false}, {py.unpack(f(1, 2, py.kw {x = 5, y = py.none}))})
    assert.same({1, 2, "no x", false, true}, {py.unpack(f(1, 2))})
    local K = py.class("K", {scale = py.kwfunction(function(self, a, kw) return self.k * a * (kw.by or 1) end), k = 2})
    assert.equal(6, K():scale(3))
    assert.equal(30, K():scale(3, py.kw {by = 5}))
    assert.has_error(function() py.kwfunction(nil) end, "bad argument #1 to 'kwfunction' (function expected, got nil)")
  end)

  it("lets class, instances and members die", function()
    local gc, weakref = py.import "gc", py.import "weakref"
    local function use()
      local A = py.class("A", {f = function() return 1 end, g = py.staticmethod(function() return 2 end)})
      local B = py.class("B", {A}, {f = function(self) return py.super(self):f() + 1 end})
      assert.equal(2, B():f())
      return weakref.ref(A), weakref.ref(B)
    end
    local a, b = use()
    for _ = 1, 3 do
      collectgarbage()
      gc.collect()
    end
    assert.is_nil(a())
    assert.is_nil(b())
  end)

  it("names what is wrong with its arguments", function()
    local function message(...) return select(2, pcall(py.class, ...)) end
    assert.equal("bad argument #1 to 'class' (a name expected, got table)", message({}, {}, {}))
    assert.equal("bad argument #2 to 'class' (a table of bases expected, got function)", message("A", print, {}))
    assert.equal("bad argument #3 to 'class' (a table of members expected, got nil)", message("A", {py.builtins.object}))
    assert.equal("bad argument #3 to 'class' (member names are strings, got 1)", message("A", {}, {1}))
    assert.matches("member 'k' of class 'A' is py%.kw{…}, which only a call takes$", message("A", {}, {k = py.kw {}}))
    assert.matches("TypeError: type 'bool' is not an acceptable base type", tostring(message("A", {py.builtins.bool}, {})))
  end)

  it("an error in a method is the same Lua value outside", function()
    local A = py.class("A", {f = function(_, v) error(v) end})
    local planted = {}
    local ok, e = pcall(function() return A():f(py.opaque(planted)) end)
    assert.is_false(ok)
    assert.is_true(rawequal(planted, e))
  end)

  it("holds with a collection at every step", function()
    local function work()
      local A = py.class("A", {__init__ = function(self) self.v = {1} end, f = function(self) return #self.v end})
      local B = py.class("B", {A}, {f = function(self) return py.super(self):f() + 1 end})
      assert.equal(2, B():f())
    end
    debug.sethook(function() collectgarbage "step" end, "", 1)
    local ok, e = pcall(work)
    debug.sethook()
    assert.is_true(ok, tostring(e))
  end)
end)
