local moon = require "moontensor"
local scripts = {}

scripts["moon.ones"] = function() assert(moon.ones(2):sum():item() == 2) end
scripts["moon.zeros"] = function() assert(moon.zeros(2, 3, {dtype = "int16"}):dim() == 2) end
scripts["x:tostring"] = function() assert(moon.arange(6):view(2, 3):tostring() ~= "") end

local function settle()
  collectgarbage()
  moon.gc()
  local s = moon.stats()
  return ("storages %d bytes %d exports %d imports %d"):format(s.storages, s.bytes, s.exports, s.imports)
end

local function names()
  local list = {}
  for name in pairs(scripts) do list[#list + 1] = name end
  table.sort(list)
  return table.concat(list, "\n")
end
return {scripts = scripts, settle = settle, names = names}
