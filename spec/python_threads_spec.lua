-- Threads: who holds the GIL, and who may run the Lua state.
local py = require "moontensor.python"

describe("threads", function()
  local scope, start, join
  teardown(function() scope, start, join = nil, nil, nil end)
  require "spec.support.baseline" (setup, teardown)

  setup(function()
    scope = py.dict()
    py.exec([[
import threading, time
def start(f, rounds, threads):
    results, errors = [], []
    def run():
        try:
            for i in range(rounds): results.append(f(i))
        except BaseException as e:
            errors.append((type(e).__name__, str(e)))
    ts = [threading.Thread(target=run) for _ in range(threads)]
    for t in ts: t.start()
    return ts, results, errors
def join(ts):
    for t in ts: t.join(60)
    return sum(t.is_alive() for t in ts)
def later(f, seconds):
    out = []
    def run():
        time.sleep(seconds)
        try: out.append(f(1))
        except BaseException as e: out.append(f"{type(e).__name__}: {e}")
    t = threading.Thread(target=run)
    t.start()
    return t, out
]], scope)
    start, join = scope:get "start", scope:get "join"
  end)

  it("A23: four Python threads call one Lua function while its owner waits in Python", function()
    local calls = 0
    local ts, results, errors = py.unpack(start(function(x)
      calls = calls + 1
      return x * 2, {x}
    end, 500, 4))
    assert.equal(0, join(ts))
    assert.equal(0, #errors)
    assert.equal(2000, #results)
    assert.equal(2000, calls)
    assert.equal(4 * 500 * 499, py.builtins.sum(py.eval("[r[0] for r in results]", {results = results})))
  end)

  it("RB16: a function made in a coroutine outlives it", function()
    local f = coroutine.wrap(function() return py.topy(function(x) return x + 1 end) end)()
    collectgarbage()
    assert.equal(42, py.eval("f(41)", {f = f}))
    local ts, results = py.unpack(start(f, 3, 1))
    assert.equal(0, join(ts))
    assert.same({1, 2, 3}, py.tolua(results))
  end)

  it("RB6: Python threads run while Lua works", function()
    local ticks = py.list()
    scope[{"ticks"}] = ticks
    py.exec([[
stop = threading.Event()
def beat():
    while not stop.is_set():
        time.sleep(0.005)
        ticks.append(1)
t = threading.Thread(target=beat)
t.start()
]], scope)
    local before, deadline = #ticks, os.time() + 2
    while os.time() < deadline do end
    local after = #ticks
    scope:get "stop":set()
    scope:get "t":join()
    assert.is_true(after - before > 20)
  end)

  it("a callback whose Lua thread never enters Python raises TimeoutError and hangs nobody", function()
    py.init {callback_timeout = 0.2}
    local t, out = py.unpack(scope:get "later"(function(x) return x end, 0.3))
    local deadline = os.time() + 3
    while os.time() < deadline do end
    t:join(60)
    py.init {callback_timeout = 10}
    assert.equal(1, #out)
    assert.matches("^TimeoutError: .*callback_timeout", out[0])
  end)

  it("callbacks nest across threads and both languages", function()
    local apply = py.eval "lambda f, n: f(n)"
    local function deep(n) return n == 0 and 0 or apply(deep, n - 1) + 1 end
    assert.equal(40, deep(40))
    local ts, results, errors = py.unpack(start(function() return deep(5) end, 20, 3))
    assert.equal(0, join(ts))
    assert.equal(0, #errors)
    assert.equal(300, py.builtins.sum(results))
  end)

  it("py.hold keeps the GIL and lets go of it", function()
    local ts, results = py.unpack(start(function(x) return x end, 50, 1))
    local got = {py.hold(function(a, b) return b, a, py.eval "1 + 1" end, 1, 2)}
    assert.same({2, 1, 2}, got)
    assert.equal(0, join(ts))
    assert.equal(50, #results)
    assert.equal("boom", select(2, pcall(py.hold, function() error("boom", 0) end)))
  end)
end)
