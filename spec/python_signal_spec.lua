-- Ctrl-C, as the terminal sends it, to a child under a watchdog.

local HEAD = ("package.path = %q package.cpath = %q\n"):format(package.path, package.cpath) .. [[
local py = require "moontensor.python"
local time = py.import "time"
local pid = py.import "os".getpid()
local function ready() io.write("ready ", pid, "\n") io.stdout:flush() end
local function report(...)
  local ok, e = pcall(...)
  io.write(tostring(ok), " ", (tostring(e):gsub("\n.*", "")), "\n")
end
]]

-- what the child writes after "ready", and its status; `interrupts` Ctrl-Cs, 0.3 s apart
local function interrupted(code, interrupts)
  local name = os.tmpname()
  local file = assert(io.open(name, "w"))
  file:write(HEAD, code, "\n")
  file:close()
  local pipe = io.popen(([[
    timeout -s KILL 60 lua5.4 '%s' >'%s.out' 2>&1 &
    p=$!
    for i in $(seq 200); do grep -q ready '%s.out' && break; sleep 0.1; done
    child=$(sed -n 's/^ready //p' '%s.out')
    for i in $(seq %d); do sleep 0.3; kill -INT $child; done
    wait $p 2>/dev/null
    echo "status $?" >>'%s.out'
    cat '%s.out']]):format(name, name, name, name, interrupts or 1, name, name))
  local out = pipe:read "a"
  pipe:close()
  os.remove(name)
  os.remove(name .. ".out")
  return out:match "ready %d+\n(.*)" or out
end

describe("Ctrl-C", function()
  it("X3, RB10: inside Python raises KeyboardInterrupt promptly, and the next call works", function()
    for _, call in ipairs {"time.sleep, 50", "py.exec, 'while True: pass'",
      "py.eval 'lambda: __import__(\"threading\").Event().wait(50)'"} do
      local out = interrupted(([[
        ready()
        local start = time.monotonic()
        report(%s)
        print(time.monotonic() - start < 20, pcall(time.sleep, 0.01))]]):format(call))
      assert.matches("^false [^\n]*KeyboardInterrupt\ntrue\ttrue\tnil\nstatus 0\n$", out, nil, call)
    end
  end)

  it("RB10: in a Lua callback, and in Lua under hold, it is lua's own", function()
    for _, call in ipairs {"function() while true do end end", "py.eval 'lambda f: f()', function() while true do end end",
      "py.hold, function() while true do end end"} do
      local out = interrupted("ready()\nreport(" .. call .. ")\nreport(time.sleep, 0.01)")
      assert.matches("^false interrupted!\ntrue nil\nstatus 0\n$", out, nil, call)
    end
  end)

  it("a handler that Python code sets is called, while Python runs", function()
    local out = interrupted [[
      py.exec "import signal\ndef handler(*_): raise ValueError('mine')\nsignal.signal(signal.SIGINT, handler)\n"
      ready()
      report(time.sleep, 50)]]
    assert.matches("^false [^\n]*ValueError: mine\nstatus 0\n$", out)
  end)

  it("not caught, it ends the script with status 1, and Python's exit work is done", function()
    local out = interrupted [[
      py.exec "import atexit; atexit.register(lambda: print('atexit ran'))"
      ready()
      time.sleep(50)]]
    assert.matches("KeyboardInterrupt\n", out)
    assert.matches("atexit ran\n", out)
    assert.matches("status 1\n$", out)
  end)
end)
