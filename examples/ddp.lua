-- Train on several processes: DistributedDataParallel over gloo. Each process is a Lua program; torchrun starts them.
--
--   torchrun --no-python --nproc-per-node 2 lua5.4 examples/ddp.lua
--
-- Needs no cluster: both processes meet on 127.0.0.1.

local moon = require "moontensor"
local py = require "moontensor.python"
local torch = require "moontensor.torch"

if not os.getenv "RANK" then
  io.stderr:write("start me with: torchrun --no-python --nproc-per-node 2 lua5.4 examples/ddp.lua\n")
  os.exit(2)
end
torch.set_num_threads(1)
local distributed = py.import "torch.distributed"
distributed.init_process_group(py.kw{backend = "gloo"}) -- reads what torchrun put into the environment
local rank, world = distributed.get_rank(), distributed.get_world_size()
assert(world == 2, "made for two processes")

-- all_reduce adds over the processes, in place: here in native memory
local x = moon.full({2}, rank + 1, "float32")
distributed.all_reduce(x)
assert(moon.equal(x, moon.tensor({3, 3}, "float32")), tostring(x))

-- DDP sends every process the weights of rank 0, and averages the gradients in backward
torch.manual_seed(rank) -- different weights, until DDP wraps them
local model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 1, py.kw{bias = false}))
local weight = model.module.weight
local smallest, largest = weight:detach():clone(), weight:detach():clone()
distributed.all_reduce(smallest, py.kw{op = distributed.ReduceOp.MIN})
distributed.all_reduce(largest, py.kw{op = distributed.ReduceOp.MAX})
assert(torch.equal(smallest, largest), "the processes start from different weights")

-- the gradient of w . x is x: 1 on rank 0, 2 on rank 1, 1.5 on both after the exchange
local y = model(torch.full(py.tuple{1, 2}, rank + 1.0))
y:sum():backward()
local gradient = moon.from(weight.grad):clone() -- the next backward adds to weight.grad
assert(moon.equal(gradient, moon.tensor({{1.5, 1.5}}, "float32")), tostring(gradient))

-- a few steps, each process on its own half of the data: the weights stay the same everywhere
local target = torch.tensor(py.list{{2.0}, {-3.0}})
local inputs = torch.randn(64, 2) -- differs by rank, as the seed did
local optimizer = torch.optim.SGD(model:parameters(), py.kw{lr = 0.2})
for _ = 1, 60 do
  optimizer:zero_grad()
  local residual = model(inputs) - torch.matmul(inputs, target)
  local loss = (residual * residual):mean()
  loss:backward()
  optimizer:step()
end
local learnt = weight:detach():clone()
distributed.all_reduce(learnt)
assert(torch.equal(learnt, weight * 2), "the weights drifted apart")
assert(torch.allclose(weight, target:t(), py.kw{atol = 1e-3}), tostring(weight))

print(("rank %d of %d: sum %s, gradient %s, weight %s"):format(rank, world, x, gradient, moon.from(weight:detach())))
distributed.destroy_process_group()
