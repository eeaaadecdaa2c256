-- Look into a model and change what flows through it, by hooks written in Lua.

local moon = require "moontensor"
local py = require "moontensor.python"
local torch = require "moontensor.torch"

local nn = torch.nn
torch.manual_seed(0)
local model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
local x = torch.randn(3, 4)

-- A forward hook sees a layer's inputs and its output: here it keeps what each layer gave.
local activations, handles = {}, {}
for name, layer in py.each(model:named_children()) do
  handles[#handles + 1] = layer:register_forward_hook(function(_, _, output)
    activations[name] = output:detach()
  end)
end
local y = model(x)
for _, name in ipairs {"0", "1", "2"} do print("layer " .. name, activations[name].shape) end
assert(torch.equal(activations["1"], activations["0"]:clamp(py.kw{min = 0})), "layer 1 is ReLU of layer 0")
assert(torch.equal(activations["2"], y))
local negative = moon.from(activations["0"]):lt(0):sum():item()
local silent = moon.from(activations["1"]):eq(0):sum():item()
print(("%d of %d hidden values are negative, and ReLU made %d of them 0"):format(negative, activations["0"]:numel(), silent))
assert(negative == silent and negative > 0)

-- A handle takes its hook away.
for _, handle in ipairs(handles) do handle:remove() end
activations = {}
model(x)
assert(next(activations) == nil, "a removed hook still fires")

-- Hooks belong to the call: model(x) runs them, model:forward(x) does not.
local fired = 0
local handle = model:register_forward_hook(function() fired = fired + 1 end)
model:forward(x)
assert(fired == 0, "forward by name runs no hooks")
model(x)
assert(fired == 1, "a call runs each hook once")
handle:remove()

-- What a hook returns takes the place of the output.
handle = model:register_forward_hook(function(_, _, output) return output * 0 + 7 end)
assert(model(x):sum():item() == 21)
handle:remove()
assert(torch.equal(model(x), y))

-- A tensor hook sees a gradient on its way, and may give another: here none longer than 1.
local LIMIT = 1.0
local weight = model[0].weight
local function clip(gradient)
  local length = gradient:norm():item()
  if length > LIMIT then return gradient * (LIMIT / length) end
end -- nil leaves it as it is
local function gradient_length(scale)
  model:zero_grad()
  local loss = (model(x) * scale):sum()
  loss:backward()
  return weight.grad:norm():item()
end
local small, large = gradient_length(1e-3), gradient_length(1e3)
handle = weight:register_hook(clip)
local small_clipped, large_clipped = gradient_length(1e-3), gradient_length(1e3)
handle:remove()
print(("gradient %.4f becomes %.4f, %.1f becomes %.4f"):format(small, small_clipped, large, large_clipped))
assert(small < LIMIT and small_clipped == small)
assert(large > LIMIT and math.abs(large_clipped - LIMIT) < 1e-5)
assert(gradient_length(1e3) == large, "a removed hook still clips")
