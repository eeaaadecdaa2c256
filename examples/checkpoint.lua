-- Saving and loading: a model and its optimizer by torch.save, weights by safetensors with bfloat16, and plain Python reads both.
local moon = require "moontensor"
local py = require "moontensor.python"
local torch = require "moontensor.torch"
local safe = py.import "safetensors.torch"
py.import "os".makedirs("out", py.kw {exist_ok = true})

torch.manual_seed(3)
local function network() return torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2)) end
local model = network()
local optimizer = torch.optim.AdamW(model:parameters(), py.kw {lr = 0.01})
local x, target = torch.randn(16, 4), torch.randn(16, 2)
local function step(net, opt)
  opt:zero_grad()
  local loss = torch.nn.functional.mse_loss(net(x), target)
  loss:backward()
  opt:step()
  return loss:item()
end
for _ = 1, 3 do step(model, optimizer) end

-- a checkpoint goes on where it was: the next step is the same to the last bit
torch.save(py.dict {model = model:state_dict(), optimizer = optimizer:state_dict()}, "out/checkpoint.pt")
local resumed = network()
local resumed_optimizer = torch.optim.AdamW(resumed:parameters(), py.kw {lr = 0.01})
local saved = torch.load "out/checkpoint.pt"
resumed:load_state_dict(saved[{"model"}])
resumed_optimizer:load_state_dict(saved[{"optimizer"}])
local next_loss = step(model, optimizer)
assert(step(resumed, resumed_optimizer) == next_loss, "resuming changes nothing")

-- safetensors, from both sides: the package writes, we read; we write, the package reads
local half = model[0].weight:detach():to(torch.bfloat16)
safe.save_file(py.dict {weight = half, bias = model[0].bias:detach()}, "out/weights.safetensors")
local weights = moon.load "out/weights.safetensors"
assert(weights.weight.dtype == "bfloat16" and moon.equal(weights.weight, moon.from(half)))
moon.save("out/again.safetensors", {weight = weights.weight, bias = weights.bias}, {metadata = {epoch = "3"}})
assert(torch.equal(safe.load_file "out/again.safetensors"[{"weight"}], half))

-- what safetensors refuses is told in its words
local function refusal(tensors)
  local ok, e = pcall(safe.save_file, tensors, "out/never.safetensors")
  assert(not ok)
  return tostring(e)
end
assert(refusal(py.dict {weight = half:t()}):find "ValueError: You are trying to save a non contiguous tensor")
assert(refusal(py.dict {a = half, b = half:view(-1)}):find "RuntimeError:%s*Some tensors share memory")

-- plain Python, in a process of its own, has the same bytes
local script = [[
import sys, torch, hashlib
from safetensors.torch import load_file
state = torch.load("out/checkpoint.pt")["model"]
weights = load_file("out/again.safetensors")
digest = hashlib.sha256()
for name in sorted(state): digest.update(state[name].numpy().tobytes())
for name in sorted(weights): digest.update(weights[name].view(torch.uint8).numpy().tobytes())
print(digest.hexdigest())
]]
local theirs = py.import "subprocess".check_output(py.list {py.import "sys".executable, "-c", script}, py.kw {text = true})
local digest = py.import "hashlib".sha256()
for _, name in ipairs {"0.bias", "0.weight", "2.bias", "2.weight"} do
  digest:update(py.bytes(moon.from(saved[{"model"}][{name}]):tobytes()))
end
digest:update(py.bytes(weights.bias:tobytes()))
digest:update(py.bytes(weights.weight:tobytes()))
assert(theirs:match "%x+" == digest:hexdigest(), "the same bytes there")
print(("resumed at loss %.6f; %d bytes of weights read alike"):format(next_loss, weights.weight:nbytes() + weights.bias:nbytes()))
