-- Every script of the native side (spec/support/scripts.lua) once, with the collector as eager as it can be: a full collection at
-- every VM instruction (first argument "full"), or a step at every allocation ("step"). A finalizer that frees what is still in
-- use, a value that nothing anchors: they show here, best under valgrind or ASan. spec/stress_spec.lua runs both.

local moon = require "moontensor"
local list = require "spec.support.scripts"

local names = list.names()
if arg[1] == "step" then
  collectgarbage("incremental", 1, 1000, 1) -- a step at every allocation
elseif arg[1] == "full" then
  debug.sethook(function() collectgarbage() end, "", 1)
end
for _, name in ipairs(names) do list.scripts[name]() end
debug.sethook()
collectgarbage("incremental", 200, 100, 13)
moon.gc()
local stats = moon.stats()
assert(stats.storages == 0 and stats.bytes == 0, "left alive: " .. stats.storages)
print "stressed"
