-- Values across the border: design rules by case.
local moon = require "moontensor"
local py = require "moontensor.python"

local function failure(f, ...)
  local ok, e = pcall(f, ...)
  assert.is_false(ok)
  return tostring(e)
end

local function repr(v) return py.repr(py.topy(v)) end

describe("values to Python", function()
  require "spec.support.baseline" (setup, teardown)

  it("RB11: numbers keep their kind and their value", function()
    for value, text in pairs {[1010] = "1010", [math.maxinteger] = "9223372036854775807", [math.mininteger] = "-9223372036854775808",
      [0.1] = "0.1", [true] = "True", [false] = "False"} do
      assert.equal(text, repr(value))
    end
    assert.equal("3.0", repr(3.0))
    assert.equal("9007199254740992.0", repr(2^53))
    assert.equal("-0.0", repr(-0.0))
    assert.equal("nan", repr(0 / 0))
    assert.equal("inf", repr(math.huge))
    assert.equal("None", repr(nil))
    assert.equal("None", repr(py.none))
    assert.equal("(1-2j)", repr(moon.complex(1, -2)))
  end)

  it("RB13: text is UTF-8, whole, and anything else is named", function()
    assert.equal("3", repr(#py.topy "a\0b"))
    assert.equal("'a\\x00b'", repr "a\0b")
    assert.equal("'\u{2019}'", repr "\u{2019}")
    local e = failure(py.topy, ("\u{2019}"):sub(1, 1))
    assert.matches("a Lua string of 1 bytes is not UTF%-8; pass binary data as py.bytes%(s%)", e)
    local all = {}
    for i = 0, 255 do all[i + 1] = string.char(i) end
    assert.equal(table.concat(all), py.eval("bytes(range(256))"))
    assert.equal(256, py.len(py.bytes(table.concat(all))))
  end)

  it("tables are lists, or dicts in sorted order", function()
    assert.equal("[1, 'a', [2.0], {}]", repr {1, "a", {2.0}, py.dict()})
    assert.equal("[]", repr {})
    assert.equal("{'a': 1, 'b': {'c': [True]}, 'z': 2}", repr {z = 2, b = {c = {true}}, a = 1})
    assert.equal("{'b': 1, 'a': 2, 3: None}", py.repr(py.dict {{"b", 1}, {"a", 2}, {3, py.none}}))
  end)

  it("RB12: nothing is cut short", function()
    assert.matches("a table with holes is no list; put py.none where None is meant", failure(py.topy, {1, nil, 3}))
    assert.matches("both a sequence and string keys", failure(py.topy, {1, a = 2}))
    assert.matches("use py.dict{{key, value}", failure(py.topy, {[1.5] = 1}))
    assert.equal("[1, None, 3]", py.repr(py.list {1, py.none, 3}))
    assert.equal("[None, None]", py.repr(py.list(table.pack(nil, nil))))
    assert.equal(2, #py.eval "[None, 1]")
  end)

  it("shared and cyclic tables keep their identity", function()
    local shared = {1}
    assert.is_true(py.eval("t[0] is t[1]", {t = {shared, shared}}))
    local ring = {}
    ring[1] = ring
    local list = py.topy(ring)
    assert.is_true(py.is(list, list[0]))
    list:clear()
    local deep = {}
    for _ = 1, 500 do deep = {deep} end
    assert.matches("nested more than %d+ levels deep", failure(py.topy, deep))
  end)

  it("RB12: the deepest table passes, one deeper is refused", function()
    local function deep(n) local t = {} for _ = 2, n do t = {t} end return t end
    local max = tonumber(failure(py.topy, deep(5000)):match "nested more than (%d+) levels deep")
    assert.equal(max, py.eval("lambda l: (lambda s: s.count('['))(repr(l))")(deep(max)))
    assert.matches("levels deep", failure(py.topy, deep(max + 1)))
  end)

  it("RB12: cyclic dicts keep their identity", function()
    local ring = {}
    ring.self = ring
    local dict = py.topy(ring)
    assert.is_true(py.is(dict, dict[{"self"}]))
    dict:clear()
    local d = py.eval "(lambda d: (d.update(me=d), d)[1])({})"
    local t = py.tolua(d)
    assert.equal(t, t.me)
    d:clear()
  end)

  it("what has no counterpart is refused, or opaque", function()
    assert.matches("a Lua thread has no Python counterpart; py.opaque", failure(py.topy, coroutine.create(print)))
    assert.matches("a userdata that Python knows nothing of", failure(py.topy, io.stdout))
    assert.matches("py.kw.* must be the last argument", failure(py.topy, {py.kw {a = 1}}))
    local key = {}
    assert.equal(key, py.eval("v", {v = py.opaque(key)}))
    assert.equal(io.stdout, py.eval("[v][0]", {v = py.opaque(io.stdout)}))
    assert.equal(print, py.eval("f", {f = print}))
    local f = function() end
    assert.equal(f, py.eval("f", {f = f}))
  end)
end)

describe("values from Python", function()
  require "spec.support.baseline" (setup, teardown)

  it("RB11: integers that fit are integers, others stay objects", function()
    assert.equal("integer", math.type(py.eval "2**63 - 1"))
    assert.equal(math.maxinteger, py.eval "2**63 - 1")
    assert.equal(math.mininteger, py.eval "-2**63")
    assert.equal("userdata", type(py.eval "2**63"))
    assert.equal("9223372036854775808", tostring(py.eval "2**63"))
    assert.equal("-9223372036854775809", tostring(py.eval "-2**63 - 1"))
    assert.is_true(py.eval "True")
    assert.equal("float", math.type(py.eval "3.0"))
    assert.is_nil(py.eval "None")
  end)

  it("NumPy's scalars are Lua's", function()
    local np = py.import "numpy"
    assert.equal("integer", math.type(np.int8(-5)))
    assert.equal(-5, np.int8(-5))
    assert.equal("float", math.type(np.float32(0.5)))
    assert.equal(0.5, np.float64(0.5))
    assert.is_true(np.bool_(true))
    assert.equal("18446744073709551615", tostring(np.uint64(py.eval "2**64-1")))
    assert.equal("userdata", type(np.complex64(1)))
    assert.equal("userdata", type(np.timedelta64(5, "s")))
    assert.equal("userdata", type(py.eval "type('F', (float,), {})(1)"))
  end)

  it("everything else is a proxy; tolua converts deeply", function()
    assert.equal("userdata", type(py.eval "[1]"))
    assert.same({1, {2, "x"}, {a = {true}}}, py.tolua(py.eval "[1, (2, 'x'), {'a': [True]}]"))
    assert.is_true(py.is(py.none, py.tolua(py.eval "[None]")[1]))
    local ring = py.eval "(lambda l: (l.append(l), l)[1])([])"
    local t = py.tolua(ring)
    assert.equal(t, t[1])
    ring:clear()
    assert.equal("userdata", type(py.tolua(py.eval "[[[1]]]", {depth = 2})[1][1]))
  end)

  it("tolua, type by type", function()
    py.exec [[
import collections, dataclasses, enum
class Colour(enum.IntEnum): RED = 3
@dataclasses.dataclass
class Point:
    x: int = 1
    rest: object = None
]]
    local function converted(source) return py.tolua(py.eval(source)) end
    assert.same({"b", "a"}, converted "collections.OrderedDict(b=1, a=2).keys()")
    assert.same({{"b", 1}, {"a", 2}}, converted "collections.OrderedDict(b=1, a=2).items()")
    assert.same({1, 2}, converted "{'b': 1, 'a': 2}.values()")
    assert.same({b = 1, a = 2}, converted "collections.OrderedDict(b=1, a=2)")
    assert.same({a = 2, b = 1}, converted "collections.Counter('aab')")
    assert.same({1, 2}, converted "collections.namedtuple('N', 'u v')(1, 2)")
    assert.same({x = 1, rest = {x = 2, rest = {5}}}, converted "Point(1, Point(2, (5,)))")
    assert.is_true(py.is(py.none, converted "Point()".rest))
    local ring = converted "(lambda p: (setattr(p, 'rest', [p]), p)[1])(Point())"
    assert.is_true(rawequal(ring, ring.rest[1]))
    assert.equal("ab", converted "[b'ab']"[1])
    assert.is_true(converted "[float('nan')]"[1] ~= converted "[float('nan')]"[1])
    assert.equal(math.huge, converted "[float('inf')]"[1])
    for _, source in ipairs {"Colour.RED", "2**63", "bytearray(b'x')", "range(3)", "iter([1])", "1j", "'\\ud800'", "Point"} do
      assert.equal("userdata", type(converted("[" .. source .. "]")[1]), source)
    end
    assert.equal("9223372036854775808", tostring(converted "[2**63]"[1]))
    py.exec "del Colour, Point"
  end)

  it("tostring of text that is no UTF-8", function()
    assert.equal("\\ud800x", tostring(py.eval "'\\ud800x'"))
    assert.equal("\xffx", tostring(py.eval "b'\\xffx'.decode('utf-8', 'surrogateescape')"))
    assert.equal("ab\u{e9}", tostring(py.eval "type('S', (str,), {})('ab\\u00e9')"))
    assert.equal("q", tostring(py.eval "type('C', (), {'__str__': lambda s: type('S', (str,), {})('q')})()"))
    assert.matches("ValueError: \xff$", tostring(select(2, pcall(py.exec, "raise ValueError('\\udcff')"))):match "[^\n]*")
  end)

  it("two proxies of one object are equal, and no one table key", function()
    local a, b = py.eval "type", py.eval "type"
    assert.is_true(a == b)
    assert.is_false(rawequal(a, b))
    assert.equal(py.id(a), py.id(b))
    local nan = py.eval "[float('nan')]"
    assert.is_true(nan == nan)
  end)
end)
