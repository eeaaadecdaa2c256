-- The memory behind proxies: what Lua's collector is told of it.
local exchange = require "spec.support.exchange"
local py = require "moontensor.python"

describe("memory behind proxies", function()
  require "spec.support.baseline" (setup, teardown)

  local np = py.import "numpy"
  local before
  before_each(function() before = py.gc() end)
  after_each(function() py.gc {threshold = before.threshold, step = before.step} end)

  local function settle()
    collectgarbage()
    collectgarbage()
    py.id(0) -- a crossing lets go of what was collected
  end

  -- Lua's own heap, four times over, is the other limit: here it is busted's
  local function limit(threshold) return math.max(threshold, 4.4 * 1024 * collectgarbage "count") end

  it("counts the bytes of arrays and large buffers, and forgets them with the proxy", function()
    settle()
    local start = py.gc().charged
    local a <close> = np.zeros(1 << 17)
    assert.equal(start + (8 << 17), py.gc().charged)
    local b <close> = py.eval "bytearray(100000)"
    assert.equal(start + (8 << 17) + 100000, py.gc().charged)
    do
      local c <close> = a:reshape(256, 512) -- luacheck: ignore c
      assert.equal(start + (16 << 17) + 100000, py.gc().charged)
    end
    assert.equal(start + (8 << 17) + 100000, py.gc().charged)
    local list = py.list {a}
    assert.equal(start + (8 << 17) + 100000, py.gc().charged)
    assert.equal(1, #list)
    assert.equal(b, b)
  end)

  it("RB4: temporaries do not pile up, whatever Lua's collector sees of them", function()
    py.gc {threshold = 8 << 20, step = 0.2}
    settle()
    local start = py.gc().charged
    local x = np.ones(1 << 18) -- 2 MiB
    local most = 0
    for _ = 1, 200 do
      local y = x * 2.0
      assert.equal(1 << 18, y.size)
      most = math.max(most, py.gc().charged - start)
    end
    -- the limit, what one step more brings, and x
    assert.is_true(most <= limit(8 << 20) + (6 << 20), most)
    assert.is_true(most >= 6 << 20, most)
  end)

  it("many small arrays count for more than their bytes", function()
    py.gc {threshold = 1 << 20}
    settle()
    local proxies = require "moontensor".stats().proxies
    local one, most = np.ones(1), 0
    local bound = limit(1 << 20) // 65536 + 40
    for _ = 1, 20 * bound do
      local _ = one + 1.0
      most = math.max(most, require "moontensor".stats().proxies - proxies)
    end
    assert.is_true(most < bound, most)
  end)

  it("is tuned, and refuses what it cannot use", function()
    assert.same({threshold = 64 << 20, step = 0.2}, {threshold = before.threshold, step = before.step})
    local now = py.gc {threshold = math.huge, step = 1}
    assert.equal(math.huge, now.threshold)
    assert.equal(1.0, now.step)
    assert.equal(1000, py.gc {threshold = 1e3}.threshold)
    assert.has_error(function() py.gc {threshold = -1} end, "bad argument #1 to 'gc' (threshold= is a number of bytes, 0 or more)")
    assert.has_error(function() py.gc {treshold = 1} end,
      "bad argument #1 to 'gc' (unknown option 'treshold'; the options are threshold, step)")
    assert.has_error(function() py.gc {step = "x"} end)
    assert.equal(1000, py.gc().threshold)
  end)

  it("scope lets go of all but what is kept or returned", function()
    settle()
    local proxies = require "moontensor".stats().proxies
    local outside, kept, inner
    local a, t, n = py.scope(function(keep)
      outside = py.list {1}
      kept = keep(py.list {2})
      local inside = py.list {3}
      inner = py.scope(function() return py.list {inside, 4} end)
      return py.list {5}, {x = py.list {6}, {py.list {7}}}, 8
    end)
    assert.equal("[5] [6] [7] 8 [2]", table.concat({tostring(a), tostring(t.x), tostring(t[1][1]), n, tostring(kept)}, " "))
    for _, o in ipairs {outside, inner} do
      assert.has_error(function() return #o end, "bad argument #1 to 'len' (python object is closed)")
    end
    assert.equal(proxies + 4, require "moontensor".stats().proxies)
  end)

  it("scope closes after an error too, but not the error", function()
    local inside
    local ok, e = pcall(py.scope, function()
      inside = py.list {1}
      return py.builtins.int "x"
    end)
    assert.is_false(ok)
    assert.is_true(py.isinstance(e, py.builtins.ValueError))
    assert.equal("python object (closed)", tostring(inside))
    local late
    py.scope(function(keep) late = keep end)
    assert.has_error(function() late(1) end, "keep was called after its scope had ended")
    assert.has_error(function() py.scope() end, "bad argument #1 to 'scope' (function expected, got no value)")
  end)

  it("scope holds with a collection at every step, and proxies that die inside it", function()
    local function work()
      local kept = py.scope(function(keep)
        local all = {}
        for i = 1, 8 do
          local o = py.list {i}
          if i % 3 == 0 then keep(o) elseif i % 3 == 1 then local _ <close> = o end
          if i % 2 == 0 then all[i] = o end
        end
        return all[6]
      end)
      assert.equal("[6]", tostring(kept))
    end
    debug.sethook(function() collectgarbage "step" end, "", 1)
    local ok, e = pcall(work)
    debug.sethook()
    assert.is_true(ok, tostring(e))
  end)

  it("a call that runs out of memory is tried once more, after a collection", function()
    local code = [[
      local np, torch = py.import "numpy", py.import "torch"
      py.gc {threshold = math.huge}
      local one = np.ones(1 << 23)
      local t = torch.ones(1 << 23, py.kw {dtype = torch.float64})
      for _ = 1, 20 do
        local _ = one * 2.0
        local _ = np.zeros(1 << 23) + 1.0
        local _ = t:add(1)
      end
      print(one.size)]]
    -- 20 rounds make 5 GiB of garbage; a sanitizer's own memory has no room under a limit
    if not os.getenv "ASAN_OPTIONS" then
      local ok, out = exchange.child(code, "ulimit -v 5000000; ")
      assert.is_true(ok, out)
      assert.equal("8388608\n", out)
    end
    local collected = false
    setmetatable({}, {__gc = function() collected = true end})
    local made, e = pcall(py.builtins.bytearray, 1 << 62)
    assert.is_false(made)
    assert.matches("MemoryError", tostring(e))
    assert.is_true(collected)
  end)

  it("leaves a stopped collector alone", function()
    py.gc {threshold = 1 << 20}
    settle()
    local start = py.gc().charged
    collectgarbage "stop"
    for _ = 1, 10 do local _ = np.zeros(1 << 17) end
    local held = py.gc().charged - start
    collectgarbage "restart"
    assert.equal(10 << 20, held)
    settle()
    assert.equal(start, py.gc().charged)
  end)
end)
