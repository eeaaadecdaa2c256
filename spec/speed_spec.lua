-- What speed must not change: the bits, at every instruction-set level and for any number of threads; and its own switches.
local moon = require "moontensor"
require "moontensor.luassert"

---What a program prints in a process of its own, errors included; settings are environment variables.
local function output(settings, program)
  local path = os.tmpname()
  local file = assert(io.open(path, "w"))
  file:write(program)
  file:close()
  local pipe = assert(io.popen(("%s lua5.4 %s 2>&1"):format(settings, path)))
  local text = pipe:read "a"
  pipe:close()
  os.remove(path)
  return text
end

describe("instruction sets", function()
  require "spec.support.baseline"(setup, teardown)

  -- a digest of results whose loops differ most between levels
  local digest = [[
    local moon = require "moontensor"
    local h = 0x1505
    local function hash(text) for c in text:gmatch "." do h = (h ~ c:byte()) * 0x100000001b3 end end
    local x = (moon.arange(3001):astype "float32" - 1500) * 0.37
    local half = x:astype "float16"
    for _, y in ipairs {half, half + half, half:astype "float32", x:astype "bfloat16", (x / 20):exp(), x:tanh(), (x * x):log(),
        x:astype "int8", x:lt(3), x:sum(), x:mean(), x:view(3001, 1):matmul(x:view(1, 3001))[17], x:astype "float64" / 3,
        x:floor(), x:var(), moon.where(x:gt(0), x, half)} do
      for _, v in ipairs(y:contiguous():view(-1):totable()) do hash(type(v) == "number" and ("%a"):format(v) or tostring(v)) end
    end
    print(moon.instruction_set(), h)
  ]]

  it("give the same results", function()
    local set, base = output("MOONTENSOR_ISA=base", digest):match "^(%w+)\t(%-?%d+)\n$"
    assert.equal("base", set, output("MOONTENSOR_ISA=base", digest))
    for _, level in ipairs {"v3", "v4"} do
      local text = output("MOONTENSOR_ISA=" .. level, digest)
      if not text:find("does not have", 1, true) then
        local name, value = text:match "^(%w+)\t(%-?%d+)\n$"
        assert.equal(level, name, text)
        assert.equal(base, value)
      end
    end
  end)

  it("refuse a name that is none", function()
    local text = output("MOONTENSOR_ISA=avx", "print(pcall(require, 'moontensor')) print(pcall(require, 'moontensor'))")
    local _, times = text:gsub("MOONTENSOR_ISA is 'avx', expected base, v3 or v4", "")
    assert.equal(2, times, text)
    assert.matches("^false", text)
  end)

  it("are the best there is where nothing is asked for", function()
    assert.is_truthy(({base = true, v3 = true, v4 = true})[moon.instruction_set()])
    assert.equal(output("MOONTENSOR_ISA=", "print(require 'moontensor'.instruction_set())"),
      output("env -u MOONTENSOR_ISA", "print(require 'moontensor'.instruction_set())"))
  end)
end)

describe("threads", function()
  require "spec.support.baseline"(setup, teardown)
  local before
  setup(function() before = moon.get_num_threads() end)
  teardown(function() moon.set_num_threads(before) end)

  it("are as many as OMP_NUM_THREADS says, or processors", function()
    local program = "print(require 'moontensor'.get_num_threads())"
    assert.equal("3\n", output("OMP_NUM_THREADS=3", program))
    assert.equal("2\n", output("OMP_NUM_THREADS=2,4", program))
    local processors = output("env -u OMP_NUM_THREADS", "print((io.popen 'nproc':read 'a'))"):match "%d+"
    for _, setting in ipairs {"env -u OMP_NUM_THREADS", "OMP_NUM_THREADS=0", "OMP_NUM_THREADS=many"} do
      assert.equal(processors .. "\n", output(setting, program))
    end
    if os.execute "taskset 1 true 2>/dev/null" then
      assert.equal("1\n", output("env -u OMP_NUM_THREADS taskset 1", program))
    end
  end)

  it("can be set within limits", function()
    moon.set_num_threads(5)
    assert.equal(5, moon.get_num_threads())
    for _, n in ipairs {0, -1, 257, 1 << 40} do
      assert.error_matches(function() moon.set_num_threads(n) end,
        "bad argument #1 to '[%w_.]*set_num_threads' %(" .. ("%d"):format(n):gsub("%-", "%%-") .. " threads, expected 1 to 256%)")
    end
    assert.error_matches(function() moon.set_num_threads(1.5) end, "no integer representation")
    assert.error_matches(function() moon.set_num_threads() end, "number expected")
    assert.equal(5, moon.get_num_threads())
  end)

  it("do not change results", function()
    local x = moon.rand(1031, 997)
    local wide = moon.rand(7, 200003)
    local function all()
      return {x + x:flip(1), x:exp(), x:clone(), x:t():contiguous(), x:astype "float16", x:t():astype "float64",
        x:sum(), x:sum(1), x:sum(2), x:t():mean(), x:std(), x:var(1), x:max(), x:argmax(), wide:sum(), wide:sum(1),
        wide:sum(2), wide:t():sum(1), wide:argmin(), x:matmul(x:t()), moon.where(x:gt(0.5), x, 0), moon.full({1000, 1000}, 3)}
    end
    moon.set_num_threads(1)
    local want = all()
    for _, n in ipairs {2, 3, 8} do
      moon.set_num_threads(n)
      for i, got in ipairs(all()) do
        assert.is_true(moon.equal(want[i], got), ("result %d with %d threads"):format(i, n))
      end
    end
    assert.equal(x:max():item(), x:view(-1)[x:argmax():item()])
  end)

  it("work in a forked child", function()
    local text = output("", [[
      local moon, py = require "moontensor", require "moontensor.python"
      moon.set_num_threads(3)
      local x = moon.ones(2000, 1000)
      assert((x + x):sum():item() == 4e6)
      local os_ = py.import "os"
      local child = os_.fork()
      local right = (x + x):sum():item() == 4e6
      if child == 0 then os_._exit(right and 7 or 1) end
      print(right, os_.waitpid(child, 0)[1] >> 8)
    ]])
    assert.equal("true\t7\n", text)
  end)
end)

describe("memory of large tensors", function()
  require "spec.support.baseline"(setup, teardown)

  it("is kept for the next one, counted apart, and given back", function()
    moon.gc()
    moon.empty_cache()
    local before = moon.stats()
    assert.equal(0, before.cached_bytes)
    local x = moon.empty(2 << 20)
    assert.equal(before.bytes + (8 << 20), moon.stats().bytes)
    assert.equal(0, moon.stats().cached_bytes)
    local address = x:data_ptr()
    x:free()
    local stats = moon.stats()
    assert.equal(before.bytes, stats.bytes)
    if stats.cached_bytes == 0 then return end -- under a sanitizer
    assert.equal(8 << 20, stats.cached_bytes)
    local y = moon.empty(2 << 20)
    assert.equal(address, y:data_ptr())
    assert.equal(0, moon.stats().cached_bytes)
    y:free()
    assert.equal(8 << 20, moon.empty_cache())
    assert.equal(0, moon.stats().cached_bytes)
    assert.equal(0, moon.empty_cache())
    moon.empty(2 << 20):free()
    moon.gc()
    assert.equal(8 << 20, moon.stats().cached_bytes)
    moon.gc(true)
    assert.equal(0, moon.stats().cached_bytes)
  end)

  it("is bounded", function()
    for i = 1, 30 do moon.empty(i + 4, 1 << 20):free() end
    assert.is_true(moon.stats().cached_bytes <= 256 << 20)
    moon.empty_cache()
  end)
end)
