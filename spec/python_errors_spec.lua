-- Errors across the border.
local py = require "moontensor.python"
local exchange = require "spec.support.exchange"

local function failure(f, ...)
  local ok, e = pcall(f, ...)
  assert.is_false(ok)
  return e
end

describe("errors", function()
  require "spec.support.baseline" (setup, teardown)

  local call = py.eval "lambda f, *a: f(*a)"

  it("RB9: a Python exception is raised as itself, with where Lua called", function()
    local e = failure(function() return py.builtins.int "x" end)
    assert.is_true(py.isinstance(e, py.builtins.ValueError))
    local text = tostring(e)
    assert.matches("^[^\n]*python_errors_spec%.lua:%d+: ValueError: invalid literal for int%(%) with base 10: 'x'\n", text)
    assert.matches("\nLua stack traceback:\n", text)
    assert.equal("invalid literal for int() with base 10: 'x'", e.args[0])
    assert.matches("^failed: ", "failed: " .. e)
    local ok, in_coroutine = coroutine.resume(coroutine.create(function() return py.builtins.int "y" end))
    assert.is_false(ok)
    assert.matches("base 10: 'y'", tostring(in_coroutine))
    assert.equal(3, py.builtins.int "3")
  end)

  it("blames the caller's line, not that of our own Lua functions", function()
    local here = "^[^\n]*python_errors_spec%.lua:%d+: "
    local function text(f) return tostring(failure(f)) end
    assert.matches(here .. "a table with holes is no list", text(function() local _ = py.list {1, nil, 3} end))
    assert.matches(here .. "a Lua string of 1 bytes is not UTF%-8", text(function() local _ = py.str "\xff" end))
    assert.matches(here .. "TypeError: 'int' object is no context manager: it lacks __enter__ and __exit__\n",
      text(function() local _ = py.with(5, print) end))
    assert.matches(here .. "AttributeError: 'list' object has no attribute 'end_'\n",
      text(function() local _ = py.list {}.end_ end))
  end)

  it("hints at py.kw where a table of options was passed, and at '.' where a module was", function()
    local sum = py.import "math".fsum
    local text = tostring(failure(function() return sum({1.0}, {start = 2}) end))
    assert.matches("TypeError: ", text)
    assert.matches("\nhint: a table is a dict argument; keyword arguments are py%.kw{name = value}\n", text)
    local module = setmetatable({}, {__index = py.import "math"}) -- as moontensor.torch
    text = tostring(failure(function() return module:sqrt(2.0) end))
    assert.matches("\nhint: functions of a module or class are called with '%.', not ':'\n", text)
  end)

  it("X19: shows Python's traceback, causes, and no terminal codes", function()
    local e = failure(py.exec, "def f():\n  try: 1/0\n  except Exception as e: raise KeyError('\\x1b[31mred\\x1b[0m') from e\nf()")
    local text = tostring(e)
    assert.matches("Traceback %(most recent call last%):\n  File \"<lua>\", line 4", text)
    assert.matches("line 3, in f", text)
    assert.matches("caused by ZeroDivisionError: division by zero", text)
    assert.is_nil(text:find "\27")
  end)

  it("X19: nests five deep: the same exception comes out", function()
    local planted = py.builtins.ValueError "deep"
    local function nest(n)
      if n == 0 then error(planted) end
      return call(nest, n - 1)
    end
    local e = failure(nest, 5)
    assert.is_true(py.is(planted, e))
    assert.matches("ValueError: deep", tostring(e))
    planted.__traceback__ = nil -- its frames hold nest, and nest holds it: a cycle across both heaps
  end)

  it("X19: nests five deep: the very same Lua value comes out", function()
    for _, value in ipairs {"text", 42, 2.5, {code = 5}, print, true} do
      local function nest(n)
        if n == 0 then error(value, 0) end
        return call(nest, n - 1)
      end
      assert.equal(value, failure(nest, 5))
    end
  end)

  it("is a LuaError in Python, with value and traceback", function()
    local catch = py.dict()
    py.exec([[
def catch(f):
    try: f()
    except BaseException as e: return type(e).__name__, str(e), e.value, e.traceback
]], catch)
    local name, text, value, traceback = py.unpack(catch:get "catch"(function() error("boom", 0) end))
    assert.equal("LuaError", name)
    assert.equal("boom", text)
    assert.equal("boom", value)
    assert.matches("python_errors_spec%.lua:%d+:", traceback)
    local code = {7}
    assert.equal(code, (select(3, py.unpack(catch:get "catch"(function() error(code) end)))))
    catch:clear()
  end)

  it("X19: SystemExit and KeyboardInterrupt are the exceptions themselves, raised from a Lua function in Python", function()
    for _, name in ipairs {"SystemExit", "KeyboardInterrupt"} do
      local ok, e = pcall(call, function() py.exec("raise " .. name .. "(3)") end)
      assert.is_false(ok)
      assert.is_true(py.isinstance(e, py.builtins[name]))
      assert.equal(3, e.args[0])
      e.__traceback__ = nil
    end
  end)

  it("RB16: tables and closures passed in a coroutine arrive whole", function()
    local f
    coroutine.wrap(function()
      local up = 40
      f = py.eval("lambda t, g: (lambda: (t, g(2)))", {})({1, "a"}, function(n) return up + n end)
    end)()
    collectgarbage()
    assert.equal("([1, 'a'], 42)", tostring(f()))
  end)

  it("SystemExit and KeyboardInterrupt end nothing", function()
    assert.matches("SystemExit: 3", tostring(failure(py.exec, "raise SystemExit(3)")))
    assert.matches("KeyboardInterrupt", tostring(failure(py.exec, "raise KeyboardInterrupt")))
  end)

  it("X19, RB16: a yield across Python is a clean error", function()
    local ok, e = coroutine.resume(coroutine.create(function() call(function() coroutine.yield(1) end) end))
    assert.is_false(ok)
    assert.matches("attempt to yield", tostring(e))
    assert.equal(5, call(function() return 5 end))
  end)

  it("hints at the Lua habit that caused it", function()
    assert.matches("hint: 4%.0 is a float; where an integer is meant, use // or math%.tointeger",
      tostring(failure(py.builtins.range, 8 / 2)))
    local math_ = py.import "math"
    assert.matches("hint: functions of a module or class are called with '%.', not ':'", tostring(failure(function() math_:sqrt(2) end)))
    assert.matches("hint: items are read with obj%[{\"key\"}%]", tostring(failure(function() return py.dict {key = 1}.key end)))
  end)

  it("closed objects say so", function()
    local o
    do
      local closing <close> = py.list()
      o = closing
    end
    assert.matches("python object is closed", failure(function() return o.append end))
    assert.matches("python object is closed", failure(py.len, o))
    assert.equal("python object (closed)", tostring(o))
  end)
end)

describe("warnings", function()
  it("are shown once, with the Lua line", function()
    local ok, out = exchange.child [[
      local np = py.import "numpy"
      py.exec "def inner(): import warnings; warnings.warn('from within')"
      for _ = 1, 2 do
        local _ = np.sqrt(-1.0)
      end
      py.import "__main__".inner()
      py.import "warnings".simplefilter "error"
      print(pcall(py.import "__main__".inner))]]
    assert.is_true(ok, out)
    local script = "/tmp/lua_%w+"
    assert.matches("^" .. script .. ":5: RuntimeWarning: invalid value encountered in sqrt\n" ..
                   "<lua>:1: UserWarning: from within\n  called at " .. script .. ":7\n" ..
                   "false\t" .. script .. ":9: UserWarning: from within\n", out)
  end)

  it("on another thread, without Lua below, keep Python's line", function()
    local ok, out = exchange.child [[
      py.exec "import threading, warnings\nt = threading.Thread(target=lambda: warnings.warn('alone'))\nt.start()"
      py.import "__main__".t:join()]]
    assert.is_true(ok, out)
    assert.equal("<lua>:2: UserWarning: alone\n", out)
  end)
end)

describe("Lua functions in Python", function()
  require "spec.support.baseline" (setup, teardown)

  it("X14: bind as methods, are static when asked to", function()
    local class = py.builtins.type("Net", py.tuple {py.import "torch".nn.Module},
      py.dict {forward = function(self, x) return x * 2, py.repr(py.type(self).__name__) end,
               still = py.builtins.staticmethod(function(x) return x end)})
    local net = class()
    local y, name = py.unpack(net(py.import "torch".ones(2)))
    assert.equal(4, y:sum():item())
    assert.equal("'Net'", name)
    assert.equal(9, net.still(9))
  end)

  it("are functions to inspect, copy and functools, and refuse pickling", function()
    local f = py.topy(function(x, class) return x, class end)
    assert.equal("(x=None, class_=None, *_rest)", tostring(py.import "inspect".signature(f)))
    assert.is_true(py.import "inspect".isfunction(f))
    assert.equal("(1, 2)", tostring(py.eval("__import__('copy').deepcopy([f])[0](1, 2)", {f = f})))
    assert.equal("(1, 5)", tostring(py.import "functools".partial(f, 1)(5)))
    assert.matches("pickle", tostring(failure(py.import "pickle".dumps, py.opaque {})))
    assert.matches("pickle", tostring(failure(py.import "pickle".dumps, f)))
  end)

  it("return nothing, a value, or a tuple; take and miss arguments as in Lua", function()
    local show = py.eval "lambda f, *a: repr(f(*a))"
    assert.equal("None", show(function() end))
    assert.equal("7", show(function() return 7 end))
    assert.equal("(1, None, 'x')", show(function() return 1, nil, "x" end))
    assert.equal("(1, None)", show(function(a, b) return a, b end, 1))
    assert.equal("1", show(function(a) return a end, 1, 2, 3))
    assert.equal("3", show(function(...) return select("#", ...) end, 1, py.none, 3))
    assert.matches("unexpected keyword argument 'k'", tostring(failure(py.topy(function() end), py.kw {k = 1})))
  end)
end)
