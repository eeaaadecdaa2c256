-- What the exchange specs share: both worlds, counters after everything has settled, and children for what may crash.

local moon = require "moontensor"
local py = require "moontensor.python"
require "moontensor.luassert"
local luassert = require "luassert" -- which counts

local M = {moon = moon, py = py, torch = py.import "torch", np = py.import "numpy"}
local gc = py.import "gc"

-- The collector marks whole stack frames, and with them what earlier calls left in registers that are still unused.
local scrub = assert(load("local " .. ("_, "):rep(199) .. "_"))

local function collect()
  for _ = 1, 3 do
    collectgarbage()
    gc.collect()
  end
end

-- Finalizers queue what they let go; the calls of gc.collect drain that.
function M.settle()
  scrub()
  return collect()
end

-- a counter of moon.stats() now
function M.count(name)
  M.settle()
  return moon.stats()[name]
end

-- the message of the error that f(...) raises
function M.failure(f, ...)
  local ok, e = pcall(f, ...)
  if ok then error("no error was raised", 2) end
  return tostring(e)
end

-- every part occurs in the text, as it stands
function M.has(text, ...)
  for _, part in ipairs {...} do
    luassert(text:find(part, 1, true), ("%q is not in:\n%s"):format(part, text))
  end
end

-- Run Lua source in a process of its own: whether it ended well, what it printed.
function M.child(source, before)
  local name = os.tmpname()
  local file = assert(io.open(name, "w"))
  file:write('local moon, py = require "moontensor", require "moontensor.python"\n', source)
  file:close()
  local pipe = assert(io.popen(("%s%s %s 2>&1"):format(before or "", os.getenv "LUA" or "lua5.4", name)))
  local output = pipe:read "a"
  local ok, how, code = pipe:close()
  os.remove(name)
  return ok == true, output, how, code
end

-- For describe: counters return to what they were.
function M.baseline(setup, teardown)
  setup(M.settle)
  teardown(M.settle)
  require "spec.support.baseline"(setup, teardown)
end

return M
