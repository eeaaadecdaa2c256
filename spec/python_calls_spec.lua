-- Calls, attributes, items, operators, iteration and contexts.
local py = require "moontensor.python"

local function failure(f, ...)
  local ok, e = pcall(f, ...)
  assert.is_false(ok)
  return tostring(e)
end

describe("calls", function()
  require "spec.support.baseline" (setup, teardown)

  local show = py.eval "lambda *a, **k: f'{a} {k}'"

  it("RB14: only py.kw is keyword arguments, and only at the end", function()
    assert.equal("({'a': 1},) {}", show {a = 1})
    assert.equal("() {'a': 1}", show(py.kw {a = 1}))
    assert.equal("([],) {}", show {})
    assert.equal("(1,) {'end': 3, 'self': 2, 'x': None}", show(1, py.kw {self = 2, ["end"] = 3, x = py.none}))
    assert.equal("() {}", show(py.kw {}))
    assert.equal("(None, 2, None) {}", show(nil, 2, nil))
    assert.matches("py.kw.* must be the last argument", failure(show, py.kw {a = 1}, 2))
    assert.matches("keyword arguments need string keys", failure(show, py.kw {1}))
    assert.matches("bad argument #1 to 'kw' %(table expected, got number%)", failure(py.kw, 1))
  end)

  it("take any number of arguments", function()
    local many = {}
    for i = 1, 100 do many[i] = i end
    assert.equal(5050, py.eval "lambda *a: sum(a)"(table.unpack(many)))
    local names = {}
    for i = 1, 30 do names["k" .. i] = i end
    assert.equal(465, py.eval "lambda **k: sum(k.values())"(py.kw(names)))
  end)

  it("RB15: a method wants its receiver", function()
    local o = py.eval "type('O', (), {'m': lambda self, *a: (self, a)})()"
    local self, args = py.unpack(o:m(o))
    assert.is_true(self == o and args[0] == o and #args == 1)
    local m = o.m
    local other = py.type(o)()
    assert.matches("method 'm' called without its receiver: write obj:m%(…%), or py.bound%(obj, \"m\"%)", failure(m, other))
    assert.is_true(py.unpack(o:m()) == o)
    local bound = py.bound(o, "m")
    assert.is_true((py.unpack(bound(1))) == o)
  end)

  it("a method in C that is told its class is a method too", function()
    local pattern = py.import "re".compile("a+")
    assert.equal("aa", pattern:match("aab"):group())
    assert.matches("method 'match' called without its receiver", failure(pattern.match, "aab"))
    local packer = py.import "zlib".compressobj(9)
    assert.equal("x\xda", packer:compress(py.bytes "abc"))
    assert.equal("abc", py.import "zlib".decompress(py.bytes("x\xda" .. packer:flush())))
    assert.equal("ab", py.builtins.str.join("", {"a", "b"}))
    assert.equal("{1: None, 2: None}", tostring(py.builtins.dict.fromkeys({1, 2})))
  end)

  it("RB15: a method taken from an object outlives the name of the object", function()
    local o = py.eval "type('O', (), {'m': lambda self, *a: (self.x, a), 'x': 5})()"
    local m = o.m
    o = nil -- luacheck: ignore
    collectgarbage()
    assert.equal("[(5, (1,)), (5, (2,))]", tostring(py.list(py.builtins.map(m, {1, 2}))))
  end)

  it("reach names that are Lua keywords", function()
    local o = py.eval "type('O', (), {'end': 1, 'repeat': lambda self, n: n * 2})()"
    assert.equal(1, o.end_)
    assert.equal(6, o:repeat_(3))
    o.end_ = 5
    assert.equal(5, py.getattr(o, "end"))
  end)
end)

describe("attributes and items", function()
  require "spec.support.baseline" (setup, teardown)

  it("are told apart by the kind of key", function()
    local d = py.dict {{"x", 1}, {2, "two"}}
    assert.equal(1, d[{"x"}])
    assert.equal("two", d[2])
    d[{"y"}] = {1, 2}
    d[3] = py.none
    assert.equal("{'x': 1, 2: 'two', 'y': [1, 2], 3: None}", tostring(d))
    assert.equal(1, d:get "x")
    py.delitem(d, "x")
    assert.is_false(py.contains(d, "x"))
    assert.matches("KeyError", failure(function() return d[{"gone"}] end))
    assert.matches("AttributeError", failure(function() return d.gone end))
    assert.is_true(py.hasattr(d, "get"))
    assert.equal(7, py.getattr(d, "gone", 7))
  end)

  it("name what is missing, on objects of every kind", function()
    local math_, torch = py.import "math", py.import "torch"
    for _, o in ipairs {math_, py.list(), torch, torch.ones(2), py.none, py.eval "type('K', (), {'keys': 1})()"} do
      local ok, e = pcall(function() return o.no_such_name end)
      assert.is_false(ok)
      assert.is_true(py.isinstance(e, py.builtins.AttributeError), tostring(e))
      assert.matches("no_such_name", tostring(e))
    end
    assert.matches("AttributeError", failure(function() return torch.ones(2):no_such_name() end))
    local raises = py.eval "type('R', (), {'__getattr__': lambda self, name: 1 / 0})()"
    assert.matches("ZeroDivisionError", failure(function() return raises.x end))
  end)

  it("take slices as Python does", function()
    local np = py.import "numpy"
    local a = np.arange(12):reshape(3, 4)
    assert.equal("[4 5 6 7]", tostring(a[1]))
    assert.equal(6, a[{1, 2}])
    assert.equal("[1 2]", tostring(a[{0, {1, 3}}]))
    assert.equal("[0 4 8]", tostring(a[{{}, 0}]))
    assert.equal("[8 9]", tostring(a[{2, {0, 4, 1}}][{{0, 2}}]))
    assert.equal("[ 3  7 11]", tostring(a[py.s "..., -1"]))
    assert.equal("[0 8]", tostring(a[py.s "::2, 0"]))
    assert.equal("[2 0]", tostring(a[0][py.list {2, 0}]))
    assert.equal("(3, 1, 4)", tostring(a[py.s ":, None"].shape))
    a[{0, {}}] = 9
    assert.equal(36, a[0]:sum())
    a[a:__lt__(5)] = 0
    assert.equal(0, a[{1, 0}])
    assert.equal("slice(1, 2, None)", tostring(py.slice(1, 2)))
    assert.matches("bad slice part 'x'", failure(py.s, "x:1"))
    assert.matches("a slice has at most 3 parts", failure(function() return a[{0, {1, 2, 3, 4}}] end))
  end)
end)

describe("operators", function()
  require "spec.support.baseline" (setup, teardown)

  it("are Python's", function()
    local seven, two = py.int(7), py.int(2)
    local float = py.topy(0.5)
    assert.same({9, 5, 14, 3.5, 3, 1, 49, -7}, {seven + two, seven - two, seven * two, seven / two, seven // two, seven % two, seven ^ two,
      -seven})
    assert.same({2, 7, 5, 28, 1, -8}, {seven & two, seven | two, seven ~ two, seven << two, seven >> two, ~seven})
    assert.equal(7.5, seven + float)
    assert.equal(3, 1 + two)
    assert.equal(-1, 1 - two)
    assert.equal(3, #py.eval "(1, 2, 3)")
    assert.equal("n = 7", "n = " .. seven)
    assert.equal("7!", seven .. "!")
    assert.matches("concatenate two python objects", failure(function() return seven .. two end))
    assert.matches("TypeError", failure(function() return seven + py.list() end))
  end)

  it("compare by Python's meaning; elementwise by name", function()
    local a, b = py.list {1, 2}, py.list {1, 3}
    assert.is_true(a == py.list {1, 2})
    assert.is_true(a ~= b)
    assert.is_true(a < b)
    assert.is_true(a <= b)
    assert.is_false(a > b)
    local np = py.import "numpy"
    local x = np.array {1, 5}
    assert.equal("[ True False]", tostring(py.lt(x, 3)))
    assert.equal("[False  True]", tostring(py.gt(x, 3)))
    assert.same({true, false, true, true}, {py.eq(1, 1), py.ne(2, 2), py.le(1, 1), py.ge(2, 1)})
    assert.is_true(x == x)
    assert.matches("ambiguous", failure(function() return x == np.array {1, 5} end))
    assert.equal(26, py.matmul(x, x))
  end)

  it("truth, identity and membership", function()
    assert.same({false, false, true, false}, {py.bool(py.list()), py.bool(""), py.bool "x", py.bool(nil)})
    assert.is_true(py.is(py.none, nil))
    assert.is_false(py.is(py.list(), py.list()))
    assert.is_true(py.contains("abc", "b"))
    assert.is_true(py.isinstance(1, {py.builtins.str, py.builtins.int}))
    assert.is_true(py.issubclass(py.builtins.bool, py.builtins.int))
  end)
end)

describe("iteration", function()
  require "spec.support.baseline" (setup, teardown)

  local function collect(...)
    local out = {}
    for a, b in ... do out[#out + 1] = b == nil and a or {a, b} end
    return out
  end

  it("goes over any iterable", function()
    assert.same({1, 2, 3}, collect(py.iter {1, 2, 3}))
    assert.same({"a", "b"}, collect(py.iter "ab"))
    assert.same({{1, "x"}, {2, "y"}}, collect(py.each(py.eval "[(1, 'x'), [2, 'y']]")))
    assert.same({{0, "a"}, {1, "b"}}, collect(py.enumerate {"a", "b"}))
    assert.same({{1, 3}, {2, 4}}, collect(py.zip({1, 2}, {3, 4})))
    assert.same({{"k", 1}}, collect(pairs(py.dict {k = 1})))
    local seen = {}
    for x in py.iter(py.eval "[None, 1]") do seen[#seen + 1] = tostring(x) end
    assert.same({"None", "1"}, seen)
    assert.same({1, 2, 3}, {py.unpack(py.eval "(1, 2, 3)")})
    assert.matches("not iterable", failure(py.iter, 5))
    assert.matches("pairs needs a mapping", failure(pairs, py.list()))
    assert.matches("ZeroDivisionError", failure(collect, py.iter(py.eval "(1/x for x in [1, 0])")))
  end)

  it("makes containers of anything", function()
    local n = 0
    local function three() n = n + 1 if n < 4 then return n end end
    assert.equal("[1, 2, 3]", tostring(py.list(three)))
    assert.equal("(1, 2)", tostring(py.tuple {1, 2}))
    assert.equal("{1}", tostring(py.set {1, 1}))
    assert.equal("['a', 'b']", tostring(py.list(py.topy "ab")))
    assert.equal("123456789012345678901234567890", tostring(py.int "123456789012345678901234567890"))
    assert.matches("bad argument #1 to 'list'", failure(py.list, 5))
  end)
end)

describe("contexts", function()
  local log, make
  teardown(function() log, make = nil, nil end)
  require "spec.support.baseline" (setup, teardown)

  setup(function()
    local names = py.dict()
    py.exec([[
log = []
class Context:
    def __init__(self, swallow): self.swallow = swallow
    def __enter__(self): log.append("in"); return 5
    def __exit__(self, t, e, tb):
        log.append("out " + (t.__name__ if t else "-"))
        return self.swallow
]], names)
    log, make = names:get "log", names:get "Context"
  end)

  local function logged()
    local text = tostring(log)
    log:clear()
    return text
  end

  it("open and close by py.with", function()
    assert.same({6, "x"}, {py.with(make(false), function(v) return v + 1, "x" end)})
    assert.equal("['in', 'out -']", logged())
    assert.equal("boom", failure(py.with, make(false), function() error("boom", 0) end))
    assert.equal("['in', 'out LuaError']", logged())
    assert.matches("ValueError", failure(py.with, make(false), function() py.builtins.int "x" end))
    assert.equal("['in', 'out ValueError']", logged())
    py.with(make(true), function() error "swallowed" end)
    assert.equal("['in', 'out LuaError']", logged())
  end)

  it("close with the block by py.enter", function()
    do
      local _ <close>, value = py.enter(make(false))
      assert.equal(5, value)
      assert.equal("['in']", logged())
    end
    assert.equal("['out -']", logged())
    pcall(function()
      local _ <close> = py.enter(make(false))
      error "boom"
    end)
    assert.equal("['in', 'out LuaError']", logged())
  end)

  it("py.capture reads what Python prints", function()
    assert.equal("a 1\n", py.capture(function() py.builtins.print("a", 1) end))
  end)
end)
