-- A module, a data set and a collate function written in Lua; a DataLoader runs the last two in forked workers.
--
-- The task: sequences of different lengths, and whether their sum is positive.

local moon = require "moontensor"
local py = require "moontensor.python"
local torch = require "moontensor.torch"

local nn, os_ = torch.nn, py.import "os"
torch.set_num_threads(1)
torch.manual_seed(0)
moon.manual_seed(0)

-- ---- a module ----

-- torch.module calls nn.Module's own __init__ before init; what init assigns is registered as in Python.
local Sum = torch.module("Sum", {
  init = function(self, hidden)
    self.inner = nn.Linear(1, hidden)
    self.drop = nn.Dropout(0.1)
    self.outer = nn.Linear(hidden, 1)
    self:register_buffer("seen", torch.zeros(1, py.kw{dtype = torch.int64}))
  end,
  ---Padded sequences, batch x length, and a mask of the same shape: 1 where there is a number, 0 where there is padding.
  forward = function(self, padded, mask)
    if self.training then self.seen:add_(#padded) end
    local each = torch.relu(self.inner(padded:unsqueeze(-1)))
    local total = (each * mask:unsqueeze(-1)):sum(1)
    return self.outer(self.drop(total)):squeeze(-1)
  end,
})
local model = Sum(8)
print(model)

local names = {}
for name in py.each(model:state_dict()) do names[#names + 1] = name end
print("state: " .. table.concat(names, ", "))
assert(table.concat(names, " ") == "seen inner.weight inner.bias outer.weight outer.bias")

-- to() reaches every parameter and every floating buffer
model:to(torch.float64)
assert(model.inner.weight.dtype == torch.float64 and model.seen.dtype == torch.int64)
model:to(torch.float32)
assert(model.outer.bias.dtype == torch.float32)

-- train() and eval() reach the submodules
model:eval()
assert(not model.training and not model.drop.training)
model:train()
assert(model.training and model.drop.training)

-- Without torch.module you call the base's __init__ yourself, before you assign anything.
local Forgetful = py.class("Forgetful", {nn.Module}, {
  __init__ = function(self) self.layer = nn.Linear(2, 2) end,
})
local ok, problem = pcall(Forgetful)
assert(not ok and tostring(problem):find("cannot assign module before Module.__init__() call", 1, true), problem)
local Mended = py.class("Mended", {nn.Module}, {
  __init__ = function(self)
    py.super(self):__init__()
    self.layer = nn.Linear(2, 2)
  end,
})
assert(#py.list(Mended():parameters()) == 2)

-- ---- a data set ----

local COUNT, LONGEST, BATCH, EPOCHS = 480, 8, 32, 10
local numbers = moon.randn(COUNT, LONGEST) -- one block of native memory; a sample is the start of a row
local function length_of(i) return i % LONGEST + 1 end

local data = torch.dataset{
  len = COUNT,
  get = function(i) -- counts from 0: the index is Python's
    local sequence = numbers[{i + 1, {1, length_of(i)}}]
    return sequence:to_torch(), sequence:sum():item() > 0
  end,
}
assert(#data == COUNT)

---Samples of different lengths as one batch: padded numbers, mask, labels, and the process that made it.
local function collate(samples)
  local count, longest = #samples, 0
  for sequence in py.each(samples) do longest = math.max(longest, #sequence) end
  local padded, mask, labels = moon.zeros(count, longest), moon.zeros(count, longest), moon.zeros(count)
  local row = 0
  for sequence, positive in py.each(samples) do
    row = row + 1
    local filled = {row, {1, #sequence}}
    padded[filled] = moon.from(sequence)
    mask[filled] = 1
    labels[row] = positive and 1 or 0
  end
  return padded:to_torch(), mask:to_torch(), labels:to_torch(), os_.getpid()
end

-- fork copies this Lua state into each worker; batches come back through shared memory
local loader = torch.utils.data.DataLoader(data, py.kw{
  batch_size = BATCH, shuffle = true, num_workers = 2, collate_fn = collate, multiprocessing_context = "fork",
})

-- ---- training ----

local criterion = nn.BCEWithLogitsLoss()
local optimizer = torch.optim.Adam(model:parameters(), py.kw{lr = 0.03})
local workers = {}
for _ = 1, EPOCHS do
  for padded, mask, labels, process in py.each(loader) do
    workers[process] = true
    optimizer:zero_grad()
    local loss = criterion(model(padded, mask), labels)
    loss:backward()
    optimizer:step()
  end
end
assert(model.seen:item() == COUNT * EPOCHS)
local processes = 0
for process in pairs(workers) do
  processes = processes + 1
  assert(process ~= os_.getpid(), "collate ran in this process")
end
assert(processes == 2 * EPOCHS, "each epoch has two workers of its own")

model:eval()
local right = 0
torch.no_grad(function()
  for padded, mask, labels in py.each(loader) do
    local predicted = moon.from(model(padded, mask)):gt(0)
    right = right + predicted:eq(moon.from(labels):gt(0)):sum():item()
  end
end)
assert(model.seen:item() == COUNT * EPOCHS, "eval counts nothing")
print(("accuracy %.3f of %d sequences, batches from %d forked workers"):format(right / COUNT, COUNT, processes))
assert(right / COUNT > 0.93)
