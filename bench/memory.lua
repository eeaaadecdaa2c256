-- Peak resident memory of 500 temporaries of 64 MB. Stops at LIMIT rather than bring the machine down.
-- Prints KiB and the iterations done.
local torch = require "moontensor.torch"
local LIMIT = 4 * 1024 * 1024 -- KiB

local function status(field)
  for line in io.lines "/proc/self/status" do
    local value = line:match("^" .. field .. ":%s*(%d+)")
    if value then return tonumber(value) end
  end
end

local x = torch.ones(16 * 1024 * 1024)
local done = 0
for i = 1, 500 do
  local _ = x * 2
  done = i
  if status "VmRSS" > LIMIT then break end
end
print(status "VmHWM", done)
