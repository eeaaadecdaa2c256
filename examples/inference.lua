-- Serve a model: save it in the two forms that need no source code, load it again, and answer requests from one native
-- buffer that torch reads in place.
--
--   lua5.4 examples/inference.lua           10,000 requests
--
-- Writes out/traced.pt and out/exported.pt2.

local moon = require "moontensor"
local py = require "moontensor.python"
local torch = require "moontensor.torch"

local CALLS, WARM_UP = 10000, 1000
local ALLOWED = 2 * 1024 * 1024 -- bytes

local nn = torch.nn
torch.set_num_threads(1) -- a model this small gains nothing from a second one
torch.manual_seed(0)
local model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
model:eval()

-- The request lives in native memory: what Lua writes into it, torch reads at the same address.
local request = moon.zeros(1, 16)
local input = request:to_torch()
assert(input:data_ptr() == request:data_ptr())

py.import "os".makedirs("out", py.kw{exist_ok = true})
py.import "warnings".simplefilter("ignore") -- torch.jit advertises torch.export

-- torch.jit.trace records the operations of one call; the file runs wherever libtorch does
torch.jit.trace(model, py.tuple{input}):save("out/traced.pt")
local traced = torch.jit.load("out/traced.pt")
-- torch.export records a graph; its program becomes a module again
torch.export.save(torch.export.export(model, py.tuple{input}), "out/exported.pt2")
local exported = torch.export.load("out/exported.pt2"):module()

---Bytes of this process in memory.
local page = py.import "mmap".PAGESIZE
local function resident()
  local file = assert(io.open "/proc/self/statm")
  local _, pages = file:read("n", "n")
  file:close()
  return pages * page
end

---The place of the greatest score, counted from 1.
local function answer()
  local _ <close> = py.enter(torch.inference_mode())
  return traced(input):argmax():item() + 1 -- torch's own places count from 0
end

-- all three say the same, whatever is in the buffer
for i = 1, 5 do
  moon.manual_seed(i)
  request:copy_(moon.randn(1, 16))
  torch.no_grad(function()
    local expected = model(input)
    assert(torch.equal(traced(input), expected), "the traced model answers otherwise")
    assert(torch.equal(exported(input), expected), "the exported model answers otherwise")
  end)
end

local counts, early = moon.zeros(4, "int64"), nil
for call = 1, CALLS do
  request:fill_(0)
  request[{1, (call - 1) % 16 + 1}] = call % 7 - 3 -- the same tensor: nothing is allocated, nothing is copied
  local best = answer()
  counts[best] = counts[best] + 1
  if call == WARM_UP then early = resident() end
end
local growth = resident() - early
print(("%d requests; how often each of the 4 outputs won: %s"):format(CALLS, counts))
print(("memory after %d requests over that after %d: %.2f MiB"):format(CALLS, WARM_UP, growth / 1024 ^ 2))
assert(counts:sum():item() == CALLS)
assert(growth < ALLOWED, "memory grows with every request")
