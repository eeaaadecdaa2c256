-- As scripts.lua, for the bridge: a short script for every public function of moontensor.python, for what proxies do, and for what
-- NumPy and native tensors share. NumPy only: a process with torch in it takes seconds to start.

local moon, py = require "moontensor", require "moontensor.python"
local native = require "spec.support.scripts"
local is, refuses = native.is, native.refuses

py.init()
local np, builtins, gc, sys = py.import "numpy", py.builtins, py.import "gc", py.import "sys"
local main = py.import "__main__"
py.exec [[
import contextlib, dataclasses, threading
class Point:
    limit = 7
    def __init__(self, x, y=0): self.x, self.y = x, y
    def sum(self): return self.x + self.y
    def end(self): return 'end'
@dataclasses.dataclass
class Pair:
    a: int
    b: list
class Kin:
    def __init__(self, array): self.array = array
@contextlib.contextmanager
def context(seen):
    try: yield 42
    finally: seen.append('left')
class quiet: # what a thread ends with is not printed
    def __init__(self): self.hook, threading.excepthook = threading.excepthook, lambda args: None
    def restore(self): threading.excepthook = self.hook
def call(f, *args, **kw): return f(*args, **kw)
def fail(text): raise ValueError(text)
def caught(f):
    try: f()
    except MemoryError: raise
    except BaseException as e:
        if 'memory' in str(e): raise
        return type(e).__name__
]]
local Point, Pair, Kin, call, fail, caught = main.Point, main.Pair, main.Kin, main.call, main.fail, main.caught

local scripts = {}
local function add(group)
  for name, f in pairs(group) do
    assert(scripts[name] == nil, name)
    scripts[name] = f
  end
end

local function str(o) return py.str(o) end
local function upto(n) return moon.arange(1, n + 1) end
local function list() return py.list {1, 2, 3} end
local codec = {tensors = "auto", mode = false, decode = false, adapters = true}
-- a setting of py.codec while f runs; for want of memory it may stay till settle()
local function with_codec(options, f)
  py.codec(options)
  f()
  py.codec(codec)
end

add {
  ["py.init"] = function() assert(py.init {callback_timeout = 10} == py) end,
  ["py.info"] = function() assert(py.info().version and py.info().numpy) end,
  ["py.import"] = function()
    assert(py.import "os.path".basename "a/b" == "b")
    refuses("ModuleNotFoundError", py.import, "no_such_module")
  end,
  ["py.eval"] = function() assert(py.eval("a + 1", {a = 1}) == 2) refuses("SyntaxError", py.eval, "1 +") end,
  ["py.exec"] = function()
    local names = py.dict()
    py.exec("a = 5", names)
    assert(py.getitem(names, "a") == 5)
  end,
  ["py.topy"] = function()
    assert(str(py.topy {1, 2.5, "a", true, {b = {moon.complex(1, 2)}}}) == "[1, 2.5, 'a', True, {'b': [(1+2j)]}]")
    local t = {}
    t[1] = t
    assert(str(py.topy(t)) == "[[...]]")
    refuses("py.bytes", py.topy, "\xff")
    refuses("holes", py.topy, {1, nil, 3})
    refuses("py.opaque", py.topy, io.stdout)
  end,
  ["py.bytes"] = function() assert(str(py.bytes "a\0") == "b'a\\x00'") end,
  ["py.opaque"] = function()
    local t = {}
    assert(call(function(v) return py.opaque(v) end, py.opaque(t)) == t)
    assert(builtins.len(py.list {py.opaque(t)}) == 1)
  end,
  ["py.tolua"] = function()
    local t = py.tolua(py.eval "[1, (2, 'x'), {'k': [None]}, {3}, {1: 2}.items()]")
    assert(t[2][2] == "x" and t[3].k[1] == py.none and t[4][1] == 3 and t[5][1][2] == 2)
    assert(py.tolua(Pair(1, list())).b[3] == 3)
  end,
  ["py.eq"] = function() assert(py.eq(list(), {1, 2, 3})) end,
  ["py.ne"] = function() assert(py.ne(1, 2)) end,
  ["py.lt"] = function() assert(py.lt(1, 2)) end,
  ["py.le"] = function() assert(py.le(1, 2)) end,
  ["py.gt"] = function() assert(not py.gt(1, 2)) end,
  ["py.ge"] = function() assert(not py.ge(1, 2)) refuses("TypeError", py.ge, 1, "a") end,
  ["py.matmul"] = function() assert(py.matmul(np.ones(2), np.ones(2)) == 2) end,
  ["py.contains"] = function() assert(py.contains({1, 2}, 2)) end,
  ["py.is"] = function() assert(py.is(py.none, nil)) end,
  ["py.bool"] = function() assert(not py.bool {} and py.bool {1}) end,
  ["py.bound"] = function() assert(call(py.bound(list(), "count"), 2) == 1) end,
  ["py.slice"] = function() assert(str(py.slice(1, nil, 2)) == "slice(1, None, 2)") end,
  ["py.hold"] = function()
    assert(py.hold(function(a) return py.len(a) end, list()) == 3)
    refuses("planted", py.hold, function() error "planted" end)
  end,
  ["py.shutdown"] = function() py.shutdown() end,
  ["py.kw"] = function() assert(call(Point, 1, py.kw {y = 2}).y == 2) end,
  ["py.list"] = function()
    assert(#py.list {1, 2} == 2 and #py.list(table.pack(1, nil)) == 2 and #py.list(("a b"):gmatch "%a") == 2 and #py.list() == 0)
  end,
  ["py.tuple"] = function() assert(str(py.tuple {1, 2}) == "(1, 2)") end,
  ["py.set"] = function() assert(#py.set {1, 1} == 1) end,
  ["py.dict"] = function()
    assert(str(py.dict {{"b", 1}, {2, "a"}}) == "{'b': 1, 2: 'a'}")
    assert(str(py.dict {b = 1, a = 2}) == "{'a': 2, 'b': 1}")
  end,
  ["py.int"] = function() assert(str(py.int "123456789012345678901234567890") == "123456789012345678901234567890") end,
  ["py.s"] = function() assert(str(py.s "0:3, ..., ::2, None, 1") == "(slice(0, 3, None), Ellipsis, slice(None, None, 2), None, 1)") end,
  ["py.getitem"] = function() assert(py.getitem(py.dict {a = 1}, "a") == 1) refuses("KeyError", py.getitem, py.dict(), "a") end,
  ["py.setitem"] = function()
    local d = py.dict()
    py.setitem(d, "a", {1})
    assert(str(d) == "{'a': [1]}")
  end,
  ["py.delitem"] = function()
    local d = py.dict {a = 1}
    py.delitem(d, "a")
    assert(#d == 0)
  end,
  ["py.getattr"] = function() assert(py.getattr(Point(1), "x") == 1 and py.getattr(Point(1), "z", 5) == 5) end,
  ["py.setattr"] = function()
    local p = Point(1)
    py.setattr(p, "x", 3)
    assert(p.x == 3)
  end,
  ["py.delattr"] = function()
    local p = Point(1)
    py.delattr(p, "x")
    assert(not py.hasattr(p, "x"))
  end,
  ["py.hasattr"] = function() assert(py.hasattr(Point(1), "x")) end,
  ["py.iter"] = function()
    local n = 0
    for v in py.iter(list()) do n = n + v end
    for v in py.iter(py.eval "iter(range(3))") do n = n + v end
    assert(n == 9)
    refuses("TypeError", py.iter, py.int(1))
  end,
  ["py.each"] = function()
    for a, b in py.each(py.list {py.tuple {1, 2}, py.tuple {3, 4}}) do assert(a + 1 == b) end
  end,
  ["py.enumerate"] = function()
    for i, v in py.enumerate(list(), 1) do assert(i == v) end
  end,
  ["py.zip"] = function()
    for a, b in py.zip(list(), list()) do assert(a == b) end
  end,
  ["py.unpack"] = function()
    local a, b, c = py.unpack(py.tuple {1, "two", py.none})
    assert(a == 1 and b == "two" and c == py.none)
  end,
  ["py.scope"] = function()
    local kept, gone
    local returned = py.scope(function(keep)
      gone = list()
      kept = keep(list())
      return list()
    end)
    assert(#kept == 3 and #returned == 3)
    refuses("closed", function() return #gone end)
    refuses("planted", py.scope, function() gone = list() error "planted" end)
  end,
  ["py.enter"] = function()
    local seen = py.list()
    do
      local _ <close>, value = py.enter(main.context(seen))
      assert(value == 42)
    end
    assert(#seen == 1)
  end,
  ["py.with"] = function()
    local seen = py.list()
    assert(py.with(main.context(seen), function(v) return v end) == 42)
    refuses("planted", py.with, main.context(seen), function() error "planted" end)
    assert(#seen == 2)
  end,
  ["py.type"] = function() assert(py.type(1).__name__ == "int") end,
  ["py.isinstance"] = function() assert(py.isinstance(1, {builtins.int, builtins.str})) end,
  ["py.issubclass"] = function() assert(py.issubclass(builtins.bool, builtins.int)) end,
  ["py.repr"] = function() assert(py.repr "a" == "'a'") end,
  ["py.str"] = function() assert(py.str(py.topy(nil)) == "None") end,
  ["py.id"] = function() assert(py.id(np) == py.id(np)) end,
  ["py.len"] = function() assert(py.len {1, 2} == 2) end,
  ["py.dir"] = function() assert(#py.dir(Point) > 5) end,
  ["py.doc"] = function() assert(py.doc(builtins.len):find "items") end,
  ["py.help"] = function()
    local out = io.output()
    local null <close> = assert(io.open("/dev/null", "w"))
    local _ <close> = setmetatable({}, {__close = function() io.output(out) end})
    io.output(null)
    py.help(Pair)
  end,
  ["py.capture"] = function() assert(py.capture(function() builtins.print "text" end) == "text\n") end,
  ["py.traceback"] = function()
    local ok, e = pcall(fail, "why")
    assert(not ok)
    assert(py.traceback(e):find "memory" or py.traceback(e):find "ValueError: why")
    if py.traceback(e):find "memory" then error(e, 0) end
  end,
  ["py.class"] = function()
    local A = py.class("A", {
      __doc__ = "Doc.",
      kind = "a",
      __init__ = function(self, n) self.n = n or 1 end,
      __len__ = function(self) return self.n end,
      __iter__ = function(self)
        local i = 0
        return function()
          i = i + 1
          if i <= self.n then return i end
        end
      end,
      add = function(self, k) return self.n + k end,
    })
    assert(A(2):add(3) == 5 and #A(4) == 4 and A.kind == "a" and #py.list(A(3)) == 3)
  end,
  ["py.super"] = function()
    local A = py.class("A", {who = function() return "a" end})
    assert(py.class("B", {A}, {who = function(self) return "b" .. py.super(self):who() end})():who() == "ba")
  end,
  ["py.staticmethod"] = function() assert(py.class("A", {f = py.staticmethod(function(a) return a end)}).f(3) == 3) end,
  ["py.classmethod"] = function()
    assert(py.class("A", {f = py.classmethod(function(c) return c.__name__ end)}).f() == "A")
  end,
  ["py.property"] = function()
    local a = py.class("A", {v = py.property(function(self) return self.n end, function(self, n) self.n = n + 1 end)})()
    a.v = 1
    assert(a.v == 2)
  end,
  ["py.kwfunction"] = function() assert(call(py.kwfunction(function(a, kw) return a + kw.b end), 1, py.kw {b = 2}) == 3) end,
  ["py.gc"] = function() assert(py.gc().step == 0.2) end,
  ["py.adapter"] = function()
    assert(not py.adapter {name = "kin", accepts = function() end, decode = function() end})
    local a = np.ones(2)
    assert(moon.from(Kin(a))[1] == 1)
    with_codec({decode = true}, function() assert(moon.is_tensor(call(function(v) return v end, Kin(a)))) end)
  end,
  ["py.codec"] = function()
    local x = upto(3)
    with_codec({tensors = "moontensor"}, function() assert(str(x) == "moontensor.Tensor(int64, (3,))") end)
    with_codec({decode = true}, function() is(call(np.arange, 3), "0 1 2") end)
    with_codec({decode = true, mode = true}, function()
      is(call(np.arange, 3), "0 1 2")
      call(function(v) is(v, "0 1 2") end, x:sub(1))
    end)
    assert(py.codec().tensors == "auto")
  end,
}

py.adapter {name = "kin", accepts = function(kind) return kind == Kin end, decode = function(object) return object.array end}

add { -- what proxies do
  ["proxy __index"] = function()
    local l, p, d = list(), Point(1), py.dict {a = 1}
    assert(p.x == 1 and p.limit == 7 and l[0] == 1 and d:get "a" == 1)
    assert(str(l[{{1, 3}}]) == "[2, 3]" and str(np.arange(6):reshape(2, 3)[{1, {0, 2}}]) == "[3 4]")
    assert(p:end_() == "end")
    refuses("AttributeError", function() return p.nothing end)
    refuses("IndexError", function() return l[7] end)
  end,
  ["proxy __newindex"] = function()
    local l, p, a = list(), Point(1), np.zeros(3)
    p.y = {1}
    l[0] = "text"
    a[{{0, 2}}] = 5
    assert(str(l) == "['text', 2, 3]" and p.y[0] == 1 and a:sum() == 10)
    refuses("IndexError", function() l[9] = 1 end)
  end,
  ["proxy __call"] = function()
    assert(Point(1, py.kw {y = 2}):sum() == 3)
    assert(builtins.max(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12) == 12)
    refuses("TypeError", Point)
    refuses("ValueError: why", fail, "why")
  end,
  ["method __index"] = function() assert(list().append.__name__ == "append") end,
  ["method __call"] = function()
    local l = list()
    l:append(4)
    local append = l.append
    append(l, 5)
    l:sort(py.kw {reverse = true, key = function(v) return -v end})
    assert(l:pop() == 5 or #l == 4)
  end,
  ["method __tostring"] = function() assert(tostring(list().append) ~= "") end,
  ["proxy __len"] = function() assert(#list() == 3) refuses("TypeError", function() return #Point(1) end) end,
  ["proxy __tostring"] = function() assert(tostring(list()) == "[1, 2, 3]") end,
  ["proxy __concat"] = function() assert("a" .. list() .. "b" == "a[1, 2, 3]b") end,
  ["proxy __close"] = function()
    local l
    do
      local closing <close> = list()
      l = closing
    end
    refuses("closed", function() return #l end)
  end,
  ["proxy __gc"] = function() for _ = 1, 5 do list() end collectgarbage() end,
  ["proxy __pairs"] = function()
    local n = 0
    for k, v in pairs(py.dict {a = 1, b = {2}}) do n = n + #k + (v == 1 and 1 or #v) end
    assert(n == 4)
  end,
  ["proxy __eq"] = function() assert(list() == list() and list() ~= py.list {}) end,
  ["proxy __lt"] = function() assert(list() < py.list {2}) end,
  ["proxy __le"] = function() assert(list() <= list()) end,
  ["proxy __add"] = function() assert(str(np.arange(2) + 1) == "[1 2]" and #(list() + list()) == 6) end,
  ["proxy __sub"] = function() assert(str(1 - np.arange(2)) == "[1 0]") end,
  ["proxy __mul"] = function() assert(#(2 * list()) == 6) end,
  ["proxy __div"] = function() assert(str(np.arange(2) / 2) == "[0.  0.5]") end,
  ["proxy __idiv"] = function() assert(str(np.arange(2) // 2) == "[0 0]") end,
  ["proxy __mod"] = function() assert(str(np.arange(2) % 2) == "[0 1]") end,
  ["proxy __pow"] = function() assert(str(np.arange(2) ^ 2) == "[0 1]") end,
  ["proxy __unm"] = function() assert(str(-np.arange(2)) == "[ 0 -1]") end,
  ["proxy __band"] = function() assert(str(np.arange(2) & 1) == "[0 1]") end,
  ["proxy __bor"] = function() assert(str(np.arange(2) | 1) == "[1 1]") end,
  ["proxy __bxor"] = function() assert(str(np.arange(2) ~ 1) == "[1 0]") end,
  ["proxy __bnot"] = function() assert(str(~np.arange(2)) == "[-1 -2]") end,
  ["proxy __shl"] = function() assert(str(np.arange(2) << 1) == "[0 2]") end,
  ["proxy __shr"] = function() assert(str(np.arange(2) >> 1) == "[0 0]") refuses("TypeError", function() return list() >> 1 end) end,
  ["callbacks"] = function()
    assert(call(function(a, b) return a + b end, 1, 2) == 3)
    local a, b = py.unpack(call(function() return 1, {2} end))
    assert(a == 1 and b[0] == 2)
    assert(call(call, function(...) return select("#", ...) end, 1, 2) == 2)
    local f = py.topy(function() return np.ones(1) end)
    assert(f() == np.ones(1) and call(f)[0] == 1)
    assert(str(builtins.sorted({3, 1, 2}, py.kw {key = function(v) return -v end})) == "[3, 2, 1]")
    assert(str(py.list(builtins.map(function(v) return v * 2 end, {1, 2}))) == "[2, 4]")
  end,
  ["errors"] = function()
    refuses("ValueError: why", call, fail, "why")
    refuses("planted", call, error, "planted")
    assert(caught(function() error {} end) == "LuaError")
    assert(caught(function() fail "why" end) == "ValueError")
    local t = {}
    local ok, e = pcall(call, function() error(t) end)
    if not ok and e ~= t then error(e, 0) end
    assert(not ok)
  end,
  ["coroutines"] = function()
    local co = coroutine.wrap(function(l) coroutine.yield(#l) return str(l) end)
    assert(co(list()) == 3 and co() == "[1, 2, 3]")
  end,
}

local function array() return np.arange(6.0):reshape(2, 3) end

-- n values that are no scalars
local function many(n)
  local t = {}
  for i = 1, n do t[i] = {i} end
  return t
end

add { -- more than what needs no memory of its own
  ["many arguments"] = function()
    local t = many(40)
    assert(py.len(py.topy(t)) == 40)
    assert(builtins.max(table.unpack(t))[0] == 40)
    assert(call(function(...) return #select(40, ...) end, table.unpack(t)) == 1)
    local results = table.pack(py.unpack(call(function() return table.unpack(many(20)) end)))
    assert(results.n == 20 and #py.tolua(py.list(t)) == 40)
    assert(#call(builtins.dict, py.kw {a = t, b = t, c = many(20)}):get "a" == 40)
  end,
  ["long texts"] = function()
    local s = ("text "):rep(300)
    assert(py.str(s) == s and py.topy(s):encode() == s and call(function(v) return #v end, s) == 1500)
    assert(py.getitem(py.dict {{s, 1}}, s) == 1)
    refuses(s, fail, s)
    refuses(s, call, function() error(s) end)
    refuses("AttributeError", function() return main[s] end)
  end,
  ["big numbers"] = function()
    local digits = ("9"):rep(30)
    assert(call(function(v) return str(v) end, py.int(digits)) == digits)
  end,
  ["other threads"] = function()
    local seen
    local t = py.import "threading".Thread(py.kw {target = function(v) seen = v end, args = py.tuple {list()}})
    local hook = main.quiet()
    t:start()
    t:join()
    hook:restore()
    if not seen then error("not enough memory", 0) end
    assert(#seen == 3)
  end,
}

add { -- exchange
  ["x:to_numpy"] = function()
    local x = upto(6):view(2, 3)
    local a = x:t():to_numpy()
    a[{0, 1}] = 9
    assert(x(2, 1) == 9)
    assert(x:to_numpy {copy = true}:sum() == 26)
    refuses("bfloat16", moon.ones(1, "bfloat16").to_numpy, moon.ones(1, "bfloat16"))
  end,
  ["x:to_dlpack"] = function()
    local x = upto(3)
    is(moon.from(x:to_dlpack()), "1 2 3")
    is(moon.from(x:to_dlpack {max_version = false}), "1 2 3")
    x:to_dlpack()
    x:to_dlpack {max_version = false}
  end,
  ["x:memoryview"] = function()
    local x = upto(4):view(2, 2)
    assert(str(x:memoryview():tolist()) == "[[1, 2], [3, 4]]")
    refuses("C-contiguous", function() return x:t():memoryview() end)
    is(moon.from(x:memoryview()), "1 2 3 4")
  end,
  ["moon.from of arrays"] = function()
    local a = array()
    local x = moon.from(a)
    x:fill_(1)
    assert(a:sum() == 6)
    is(moon.from(a.T, {copy = true}), "1.0 1.0 1.0 1.0 1.0 1.0")
    is(moon.from(a, {copy = "auto", dtype = "int8"}), "1 1 1 1 1 1")
    is(moon.from(a[py.s "0, ::-1"]), "1.0 1.0 1.0")
    assert(moon.from(a, {readonly = true}).readonly)
    refuses("", moon.from, np.array(py.list {"text"}))
  end,
  ["moon.from of lists"] = function()
    is(moon.from(py.list {1, 2}, {copy = true, dtype = "float64"}), "1.0 2.0")
    is(moon.from(np.array(2.5), {copy = true}), "2.5")
  end,
  ["moon.from of buffers"] = function()
    is(moon.from(builtins.bytearray {1, 2}), "1 2")
    assert(moon.from(py.bytes "ab").readonly)
    is(moon.from(py.import "array".array("d", {1, 2})), "1.0 2.0")
    local l = builtins.bytearray {1, 2}
    do local _ <close> = moon.from(l) end
    l:append(3)
    refuses("", moon.from, list())
  end,
  ["moon.from of capsules"] = function()
    local c = array():__dlpack__()
    is(moon.from(c), "0.0 1.0 2.0 3.0 4.0 5.0")
    refuses("consumed", moon.from, c)
    is(moon.from(array():__dlpack__(py.kw {max_version = py.tuple {1, 0}})), "0.0 1.0 2.0 3.0 4.0 5.0")
  end,
  ["moon.shares with arrays"] = function()
    local a = array()
    assert(moon.shares(moon.from(a), a) and not moon.shares(moon.from(a, {copy = true}), a))
  end,
  ["x:copy_ of arrays"] = function() is(moon.zeros(2, 3):copy_(array()), "0.0 1.0 2.0 3.0 4.0 5.0") end,
  ["x:free of shared memory"] = function()
    local a = array()
    local x = moon.from(a)
    x:free()
    refuses("closed", x.sum, x)
    local y = upto(3)
    local b = y:to_numpy()
    y:free()
    assert(b:sum() == 6)
  end,
  ["x:is_shared"] = function() assert(moon.from(array()):is_shared()) end,
  ["tensors as arguments"] = function()
    local x = upto(3)
    assert(np.add(x, x):sum() == 12 and call(np.sum, {x, x}) == 12)
    assert(caught(function() np.dot(x, moon.ones(2)) end) == "ValueError")
    local pair = Pair(x, {x, k = nil})
    assert(pair.a:sum() == 6)
  end,
  ["moontensor.Tensor"] = function()
    with_codec({tensors = "moontensor"}, function()
      local x = upto(6):view(2, 3)
      local t = py.topy(x:t())
      assert(t.ndim == 2 and #t == 3 and t[{1, 1}] == 5 and str(t.shape) == "(3, 2)" and str(t.strides) == "(1, 3)")
      assert(np.asarray(t):sum() == 21)
      assert(str(builtins.memoryview(x):tolist()) == "[[1, 2, 3], [4, 5, 6]]")
      assert(np.from_dlpack(t):sum() == 21)
      is(moon.from(t:__dlpack__(py.kw {max_version = py.tuple {1, 0}})), "1 4 2 5 3 6")
      is(moon.from(t:__dlpack__(py.kw {copy = true})), "1 4 2 5 3 6")
      is(moon.from(t), "1 4 2 5 3 6")
    end)
  end,
}

-- in a Lua state of its own: queues grow that are long enough here
local opening = [[
local py = require "moontensor.python"
local t = {}
for i = 1, 300 do t[i] = py.list() end
for i = 1, 100 do t[i] = py.opaque(t) end
t = nil
collectgarbage()
assert(py.import "numpy".ones(2):sum() == 2)]]

-- what Python has allocated; exactly: without its garbage
local function python_blocks(exactly)
  if exactly then
    for _ = 1, 2 do
      gc.collect()
      collectgarbage()
    end
    gc.collect()
  end
  return sys.getallocatedblocks()
end

local M = {scripts = scripts, opening = opening, python_blocks = python_blocks}

function M.names()
  local missing = {}
  local private, bridge = {init = false}, {}
  for name in pairs(py) do private[name] = name:sub(1, 1) == "_" end
  for _, name in ipairs {"to_numpy", "to_dlpack", "memoryview"} do bridge[name] = moon.methods[name] end
  local function lacks(prefix, from, but)
    for name, value in pairs(from) do
      local wanted = type(value) == "function" and not (but and but[name])
      if wanted and not scripts[prefix .. name] then missing[#missing + 1] = prefix .. name end
    end
  end
  lacks("py.", py, private)
  lacks("x:", bridge)
  lacks("proxy ", getmetatable(np))
  lacks("method ", getmetatable(list().append))
  table.sort(missing)
  assert(#missing == 0, "no script for: " .. table.concat(missing, ", "))
  local names = {}
  for name in pairs(scripts) do names[#names + 1] = name end
  table.sort(names)
  return names
end

-- As of scripts.lua, until it is what is expected: a crossing drops what finalizers have queued, Python's collector cycles, and
-- a class, its methods and their functions lie in both languages by turns.
function M.settle(expected)
  py.codec(codec)
  collectgarbage()
  local now = native.settle()
  for _ = 1, 8 do
    if now == expected then break end
    gc.collect()
    now = native.settle()
  end
  return now
end

return M
