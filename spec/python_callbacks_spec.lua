-- Lua functions wherever Python takes a callable.
local exchange = require "spec.support.exchange"
local py, torch, np = exchange.py, exchange.torch, exchange.np
local failure, has, settle = exchange.failure, exchange.has, exchange.settle

describe("Lua functions as", function()
  require "spec.support.baseline" (setup, teardown)
  local builtins = py.builtins
  local futures, asyncio, threading, weakref = py.import "concurrent.futures", py.import "asyncio", py.import "threading",
    py.import "weakref"
  py.exec [[
import asyncio
class Thing: pass
async def gather(work, n):
    loop = asyncio.get_running_loop()
    seen = []
    loop.call_soon(work, 'soon', seen)
    task = asyncio.create_task(asyncio.sleep(0, 'done'))
    task.add_done_callback(lambda t: work(t.result(), seen))
    inside = [loop.run_in_executor(None, work, i, seen) for i in range(n)]
    return sorted(await asyncio.gather(*inside)), sorted(map(str, seen))
]]
  local main = py.import "__main__"

  it("keys, predicates and comparisons", function()
    local words = py.list {"lua", "python", "c"}
    words:sort(py.kw {key = function(s) return -#s end})
    assert.equal("['python', 'lua', 'c']", tostring(words))
    assert.equal("['lua', 'c']", tostring(builtins.list(builtins.filter(function(s) return #s < 4 end, words))))
    assert.equal("[36, 9, 1]", tostring(builtins.list(builtins.map(function(s) return #s * #s end, words))))
    local by_length = py.import "functools".cmp_to_key(function(a, b) return #a - #b end)
    assert.equal("['c', 'lua', 'python']", tostring(builtins.sorted(words, py.kw {key = by_length})))
    assert.equal(24, py.import "functools".reduce(function(a, b) return a * b end, py.list {1, 2, 3, 4}))
    assert.equal("b-a", py.import "re".sub("(a)-(b)", function(m) return m:group(2) .. "-" .. m:group(1) end, "a-b"))
    assert.equal("[0.0, 1.0, 4.0]", tostring(np.vectorize(function(v) return v * v end)(np.arange(3.0)):tolist()))
  end)

  it("generators: a Lua iterator goes on until nil", function()
    local function countdown(n) return function()
      n = n - 1
      return n > 0 and n or nil
    end end
    assert.equal("[3, 2, 1]", tostring(py.list(countdown(4))))
    assert.equal("[3, 2, 1]", tostring(builtins.list(builtins.iter(countdown(4), nil))))
    assert.equal(6, builtins.sum(builtins.iter(countdown(4), nil)))
    has(failure(builtins.list, builtins.iter(function() error "deliberate" end, nil)), "deliberate")
  end)

  it("work of a pool of threads, in order and with errors", function()
    py.with(futures.ThreadPoolExecutor(4), function(pool)
      local main_thread, elsewhere = threading.get_ident(), 0
      local results = builtins.list(pool:map(function(i)
        if threading.get_ident() ~= main_thread then elsewhere = elsewhere + 1 end
        return i * i
      end, builtins.range(50)))
      assert.equal(40425, builtins.sum(results))
      assert.equal(50, elsewhere)
      local mine = {}
      local future = pool:submit(function() error(mine) end)
      local ok, e = pcall(function() return future:result() end)
      assert.is_false(ok)
      assert.equal(mine, e)
    end)
  end)

  it("asyncio callbacks, done callbacks and executors' work", function()
    local result = asyncio.run(main.gather(function(v, seen)
      seen:append(v)
      return type(v) == "number" and v * 10 or -1
    end, 3))
    assert.equal("([0, 10, 20], ['0', '1', '2', 'done', 'soon'])", tostring(result))
  end)

  it("weak references' callbacks and finalizers, also when Lua's collector lets go", function()
    local gone = {}
    local thing = main.Thing()
    local ref = weakref.ref(thing, function(r) gone[#gone + 1] = r() == nil end)
    local finalizer = weakref.finalize(thing, function(tag) gone[#gone + 1] = tag end, "finalized")
    assert.is_true(finalizer.alive)
    thing = nil -- luacheck: ignore
    settle()
    assert.is_nil(ref())
    assert.is_false(finalizer.alive)
    table.sort(gone, function(a) return a == true end)
    assert.same({true, "finalized"}, gone)
  end)

  it("hooks of a backward pass that another thread runs", function()
    local w, seen = torch.ones(2):requires_grad_(), nil
    local handle = w:register_hook(function(g)
      seen = g:sum():item()
      return g * 2
    end)
    local loss = (w * 3):sum()
    local thread = threading.Thread(py.kw {target = loss.backward, args = py.tuple {}})
    thread:start()
    thread:join()
    assert.equal(6, seen)
    assert.equal("[6.0, 6.0]", tostring(w.grad:tolist()))
    handle:remove()
  end)

  it("timers and events", function()
    local event, fired = threading.Event(), 0
    local timer = threading.Timer(0.01, function()
      fired = fired + 1
      event:set()
    end)
    timer:start()
    assert.is_true(event:wait(10))
    timer:join()
    assert.equal(1, fired)
  end)
end)
