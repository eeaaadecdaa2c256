-- Forked children: what they have of Lua and Python, and how they end. Each in a process of its own.
local exchange = require "spec.support.exchange"

local function child(code)
  local ok, out, status = exchange.child(code, "timeout 60 ")
  assert.is_true(ok, ("status %s: %s"):format(status, out))
  return out
end

describe("a forked process", function()
  it("goes on in Lua, calls both ways, starts threads, and ends without the parent's exit work", function()
    local out = child [[
      local np, os_, threading = py.import "numpy", py.import "os", py.import "threading"
      local parent = os_.getpid()
      py.import "atexit".register(function() print("atexit in the parent:", os_.getpid() == parent) end)
      local x = moon.ones(1000)
      local a = x:to_numpy()
      local pid = os_.fork()
      if pid == 0 then
        local thread = threading.Thread(py.kw {target = function() x:add_(1) end})
        thread:start()
        thread:join()
        print("child:", a:sum(), x:sum():item(), py.topy(function(v) return v * 2 end)(4), #moon.arange(10):to_numpy())
        os.exit(7)
      end
      print("parent:", os_.waitstatus_to_exitcode(os_.waitpid(pid, 0)[1]), x:sum():item())]]
    assert.equal("child:\t2000.0\t2000.0\t8\t10\nparent:\t7\t1000.0\natexit in the parent:\ttrue\n", out)
  end)

  it("runs Lua functions as targets, and their errors end it alone", function()
    local out = child [[
      local mp = py.import "multiprocessing".get_context "fork"
      local x, queue = moon.arange(5), mp:SimpleQueue()
      local function work(i)
        if i == 3 then error "deliberate" end
        queue:put(i * x:sum():item())
      end
      local processes, sum = {}, 0
      for i = 1, 3 do
        processes[i] = mp.Process(py.kw {target = work, args = py.tuple {i}})
        processes[i]:start()
      end
      for _ = 1, 2 do sum = sum + queue:get() end
      local codes = {}
      for i = 1, 3 do
        processes[i]:join()
        codes[i] = processes[i].exitcode
      end
      print(sum, table.concat(codes, " "))]]
    assert.matches("LuaError: [^\n]*deliberate\n", out)
    assert.matches("30\t0 0 1\n$", out)
  end)

  it("has no part in a Lua state that another thread ran, and says so at once", function()
    local out = child [[
      py.exec("if True:\n" ..
        " import multiprocessing, threading, time\n" ..
        " def fork(f):\n" ..
        "  time.sleep(0.3)\n" ..
        "  p = multiprocessing.get_context('fork').Process(target=f)\n" ..
        "  p.start(); p.join(); codes.append(p.exitcode)\n" ..
        " codes = []")
      local main = py.import "__main__"
      local thread = main.threading.Thread(py.kw {target = main.fork, args = py.tuple {function() end}})
      thread:start()
      local stop = os.time() + 2
      while os.time() < stop do end
      thread:join()
      print(main.codes)]]
    assert.matches("LuaError: this process was forked while another thread ran the Lua state; fork while that waits in Python, " ..
                   "or from it\n%[1%]\n$", out)
  end)

  it("forked by a callback on another thread has the Lua state to itself", function()
    local out = child [[
      py.exec("if True:\n" ..
        " import os, threading\n" ..
        " def run(fork, double):\n" ..
        "  pid = fork()\n" ..
        "  if pid == 0: os._exit(sum(double(i) for i in range(5)))\n" ..
        "  codes.append(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))\n" ..
        " codes = []")
      local main = py.import "__main__"
      local function fork() return main.os.fork() end
      local function double(i) return i * 2 end
      local thread = main.threading.Thread(py.kw {target = main.run, args = py.tuple {fork, double}})
      thread:start()
      thread:join()
      print(main.codes)]]
    assert.equal("[20]\n", out)
  end)

  it("does not take Lua functions by pickle", function()
    local out = child [[
      local pool = py.import "multiprocessing".get_context "fork":Pool(1)
      local ok, e = pcall(function() return pool:map(function(v) return v end, py.list {1}) end)
      print(ok, (tostring(e):match "[^\n]*"))
      pool:terminate()]]
    assert.matches("^false\t[^\n]*pickle local object 'LuaFunction", out)
  end)
end)
