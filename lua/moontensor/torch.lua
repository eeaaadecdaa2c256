--- Python's torch. Every name of it is here; helpers of our own have their place in `helpers`.
local py = require "moontensor.python"

local ok, python_torch = pcall(py.import, "torch")
if not ok then
  if not tostring(python_torch):find("No module named 'torch'", 1, true) then error(python_torch, 0) end
  local python = py.info().python
  error(("torch is not installed for %s; install it: %s -m pip install torch"):format(python, python), 2)
end

local helpers = {}

return setmetatable(helpers, {
  __name = "torch",
  __index = python_torch,
  __newindex = function(_, name, value) python_torch[name] = value end,
  __tostring = function() return tostring(python_torch) end,
})
