-- Which ids the specs of this run proved: id -> {passed, failed, assertions}. helper.lua starts it.
local busted = require "busted"
local luassert = require "luassert"

local M = {seen = {}}
local assertions = 0

-- every road into luassert
local meta = getmetatable(luassert)
local call, state = meta.__call, luassert.state
function meta.__call(...)
  assertions = assertions + 1
  return call(...)
end
function luassert.state(...)
  assertions = assertions + 1
  return state(...)
end

busted.subscribe({"test", "start"}, function()
  assertions = 0
  return nil, true
end)
busted.subscribe({"test", "end"}, function(element, parent, status)
  for id in ((parent and parent.name or "") .. " " .. element.name):gmatch "%f[%w][APXR][TB]?%d+%f[%W]" do
    local row = M.seen[id] or {passed = 0, failed = 0, assertions = 0}
    M.seen[id] = row
    if status == "success" then row.passed = row.passed + 1 else row.failed = row.failed + 1 end
    row.assertions = row.assertions + assertions
  end
  return nil, true
end)

return M
