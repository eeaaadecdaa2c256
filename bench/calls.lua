-- Resident memory over 100,000 calls of a small model. Prints by how many KiB it grew after the first 1,000.
local moon = require "moontensor"
local torch = require "moontensor.torch"

local function resident()
  for line in io.lines "/proc/self/status" do
    local kib = line:match "^VmRSS:%s*(%d+)"
    if kib then return tonumber(kib) end
  end
end

torch.set_num_threads(1)
local x, model = moon.ones(1, 4), torch.nn.Linear(4, 2)
local first = model(x):sum():item()
local early
for call = 1, 100000 do
  local y = model(x)
  assert(y.requires_grad)
  if call == 1000 then early = resident() end
end
assert(model(x):sum():item() == first)
print(resident() - early)
