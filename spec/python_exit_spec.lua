-- The end of the process, by every road, with everything alive. Each case runs in a child under a watchdog.
local function quote(s) return "'" .. s:gsub("'", "'\\''") .. "'" end

local head = ("package.path = %q package.cpath = %q\n"):format(package.path, package.cpath)

-- what a script prints, and its exit status
local function child(script, folder)
  local file = folder and folder .. "/main.lua" or os.tmpname()
  local f = assert(io.open(file, "w"))
  f:write(head, script)
  f:close()
  local pipe = io.popen("timeout 60 lua5.4 " .. quote(file) .. " 2>&1; echo \"|$?\"")
  local out, status = pipe:read "a":match "^(.*)|(%d+)\n$"
  pipe:close()
  os.remove(file)
  return out, tonumber(status)
end

-- tensors, proxies and callables alive on both sides; Python's stdout is a pipe, and so buffered
local alive = [[
  local moon, py = require "moontensor", require "moontensor.python"
  local torch = py.import "torch"
  py.exec [=[
import atexit, threading, time
kept = []
def spin():
    while True: pass
def sleep():
    while True: time.sleep(0.001)
def work():
    a = torch.randn(32, 32)
    while True: a = (a @ a).tanh()
def slow():
    time.sleep(0.2)
    print("slow thread is done")
def start(f, daemon): threading.Thread(target=f, daemon=daemon).start()
import torch
atexit.register(lambda: print("atexit ran"))
]=]
  tensor, proxies = moon.ones(1000), {}
  shared = tensor:to_torch()
  back = moon.from(torch.ones(1000))
  for i = 1, 100 do proxies[i] = torch.zeros(10) end
  local kept, start = py.eval "kept", py.eval "start"
  kept:append(shared)
  kept:append(function() return tensor end)
  py.builtins.print("python's line")
]]

local roads = {
  {"the end of the script", "", 0},
  {"os.exit(7)", "os.exit(7)", 7},
  {"os.exit(7, true)", "os.exit(7, true)", 7},
  {"os.exit(false)", "os.exit(false)", 1, alone = true},
  {"an uncaught error", "error('deliberate')", 1},
  {"an uncaught Python exception", "py.eval '1/0'", 1, alone = true},
  {"os.exit in a callback", "py.eval 'lambda f: f()'(function() os.exit(7) end)", 7},
  {"os.exit(7, true) in a callback", "py.eval 'lambda f: f()'(function() os.exit(7, true) end)", 7, alone = true},
}
local companies = {
  {"alone", ""},
  {"beside a sleeping daemon thread", "start(py.eval 'sleep', true)"},
  {"beside a spinning daemon thread", "start(py.eval 'spin', true)"},
  {"beside a daemon thread inside torch", "start(py.eval 'work', true)"},
  {"beside a daemon thread that calls Lua",
    "start(py.eval 'lambda f: lambda: [f() for _ in iter(int, 1)]'(function() return {} end), true)"},
}

describe("RB19: exit", function()
  for _, road in ipairs(roads) do
    for i, company in ipairs(companies) do
      if road.alone and i > 1 then break end
      it("is clean by " .. road[1] .. " " .. company[1], function()
        local out, status = child(alive .. company[2] .. "\nio.write('lua\\'s line\\n')\n" .. road[2])
        assert.equal(road[3], status)
        assert.matches("python's line\n", out)
        assert.matches("lua's line\n", out)
        local _, runs = out:gsub("atexit ran\n", "")
        assert.equal(1, runs)
        if road[1]:find "uncaught error" then assert.matches("deliberate", out) end
        if road[1]:find "Python exception" then assert.matches("ZeroDivisionError: division by zero", out) end
      end)
    end
  end

  it("waits for threads that are no daemons", function()
    for _, road in ipairs {"", "os.exit(3)", "os.exit(3, true)"} do
      local out, status = child(alive .. "start(py.eval 'slow', false)\n" .. road)
      assert.equal(road == "" and 0 or 3, status)
      assert.matches("slow thread is done\n.*atexit ran\n", out)
    end
  end)

  -- marked before the bridge's own closing object, and so finalized after it: Python's exit work is done by then
  local late = [[
    late = setmetatable({}, {__gc = function()
      io.write("late\n")
      for _, f in ipairs(uses) do
        local ok, e = pcall(f)
        io.write(tostring(ok), " ", (tostring(e):gsub("\n.*", "")), "\n")
      end
    end})
    local moon, py = require "moontensor", require "moontensor.python"
    local torch = py.import "torch"
    local t, m, back = torch.ones(3), moon.ones(3), moon.from(torch.ones(3))
    local f = py.topy(function() return 1 end)
    py.exec "import atexit; atexit.register(lambda: print('atexit ran'))"
    uses = {function() return t:sum():item() end, function() return m:to_torch() end, function() return back:sum():item() end,
            function() return py.eval "1 + 1" end, function() return f() end, function() return tostring(t) end,
            function() return t.shape end}
  ]]
  for _, road in ipairs {{"the end of the script", "", 0}, {"os.exit(7, true)", "os.exit(7, true)", 7},
    {"an uncaught error", "error 'deliberate'", 1}} do
    it("RB19: a finalizer after Python's exit work is inert, by " .. road[1], function()
      local out, status = child(late .. road[2])
      assert.equal(road[3], status)
      local report = out:match "late\n(.*)" or "(no late finalizer ran)"
      assert.equal(6, select(2, report:gsub("false [^\n]+\n", "")), out)
      assert.equal(1, select(2, report:gsub("true python object %(closed%)\n", "")), out)
      assert.matches("false [^\n]*the Lua state is closing", report)
      assert.is_true(out:find("atexit ran\n", 1, true) < out:find("late\n", 1, true))
    end)
  end

  for _, road in ipairs {{"the end of the script", ""}, {"os.exit", "os.exit(0)"}, {"os.exit(0, true)", "os.exit(0, true)"},
    {"an uncaught error", "error 'deliberate'"}} do
    it("atexit callbacks in Lua have their objects, by " .. road[1], function()
      local out = child([[
        local moon, py = require "moontensor", require "moontensor.python"
        local np, results, x = py.import "numpy", nil, nil
        py.import "atexit".register(function() print("at exit:", results:sum(), np.add(1, 2), x:sum():item()) end)
        x = moon.ones(3)
        results = x:to_numpy()
        for i = 1, 5000 do local _ = py.list {i} end
        if math.random() < 0.5 then collectgarbage() end
        setmetatable({}, {__gc = function() print("finalizer:", results:sum()) end})
      ]] .. road[2])
      assert.is_true(out:find("at exit:\t3.0\t3\t3.0\n", 1, true) ~= nil, out)
    end)
  end

  it("py.shutdown is the host's where it asked for that", function()
    local out, status = child([[
      local py = require "moontensor.python"
      py.init {exit = "host"}
      py.exec "import atexit; atexit.register(lambda: print('atexit ran'))"
      py.shutdown()
      py.shutdown()
      io.write("after\n")
    ]])
    assert.equal(0, status)
    assert.equal("atexit ran\nafter\n", out)
  end)
end)

describe("X1, RB18: stock Lua", function()
  it("imports torch and NumPy, and is the venv's Python", function()
    local out, status = child [[
      local py = require "moontensor.python"
      local sys, np, torch = py.import "sys", py.import "numpy", py.import "torch"
      assert(sys.prefix == py.info().prefix and sys.executable:find(sys.prefix, 1, true) == 1)
      assert(py.import "ctypes".sizeof(py.import "ctypes".c_int64) == 8)
      print(torch.ones(2):sum():item(), np.ones(2):sum())
      local run = py.import "subprocess".run(py.list {sys.executable, "-c", "print(6 * 7)"},
        py.kw {capture_output = true, text = true})
      io.write(run.stdout)
    ]]
    assert.equal("2.0\t2.0\n42\n", out)
    assert.equal(0, status)
  end)

  it("RB18: a Python module beside the script is found", function()
    local dir = os.tmpname()
    os.remove(dir)
    assert(os.execute("mkdir " .. dir))
    local f = assert(io.open(dir .. "/besides.py", "w"))
    f:write "answer = 42\n"
    f:close()
    local out, status = child([[print(require "moontensor.python".import "besides".answer)]], dir)
    os.execute("rm -r " .. dir)
    assert.equal("42\n", out)
    assert.equal(0, status)
  end)

  it("RB18: multiprocessing's spawn runs the venv's Python, not Lua", function()
    local out, status = child [[
      local py = require "moontensor.python"
      local context = py.import "multiprocessing".get_context "spawn"
      local pool = context:Pool(1)
      print(tostring(pool:map(py.import "math".factorial, {3, 4})))
      pool:terminate()
      pool:join()
    ]]
    assert.equal("[6, 24]\n", out)
    assert.equal(0, status)
  end)

  it("X2: sys.prefix is a venv's and not its base's", function()
    local out = child [[
      local py = require "moontensor.python"
      local sys, os_ = py.import "sys", py.import "os"
      print(sys.prefix ~= sys.base_prefix, os_.path.exists(sys.prefix .. "/pyvenv.cfg"))
    ]]
    assert.equal("true\ttrue\n", out)
  end)
end)
