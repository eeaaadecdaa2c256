-- Gradients of native memory, and a gradient descent written by hand.

local moon = require "moontensor"
local torch = require "moontensor.torch"
local py = require "moontensor.python"

-- torch computes on the memory of x
local x = moon.tensor({-2, 1.5, 3}, "float64")
local t = x:to_torch():requires_grad_()
local loss = (t * t):sum()
loss:backward()
local gradient = moon.from(t.grad)
print("loss", loss:item())
print("gradient", gradient)
assert(loss:item() == 15.25)
assert(moon.equal(gradient, moon.tensor({-4, 3, 6}, "float64")))

-- Fit y = 2 a - 3 b + 1 by steepest descent. The features and targets are native; torch sees them in place.
local COUNT, STEPS, RATE = 50, 400, 0.1
local features, targets = moon.empty(COUNT, 2, "float64"), moon.empty(COUNT, 1, "float64")
math.randomseed(7)
for i = 1, COUNT do
  local a, b = math.random() * 2 - 1, math.random() * 2 - 1
  features[{i, 1}], features[{i, 2}] = a, b
  targets[{i, 1}] = 2 * a - 3 * b + 1
end
local inputs, wanted = features:to_torch(), targets:to_torch()

local weights = moon.zeros(2, 1, "float64") -- updated in place by torch, read in place by us
local bias = moon.zeros(1, "float64")
local w, c = weights:to_torch():requires_grad_(), bias:to_torch():requires_grad_()
local first, last
for step = 1, STEPS do
  local residual = torch.matmul(inputs, w) + c - wanted
  local mean_square = (residual * residual):mean()
  mean_square:backward()
  py.with(torch.no_grad(), function()
    w:sub_(w.grad * RATE)
    c:sub_(c.grad * RATE)
    w.grad, c.grad = nil, nil
  end)
  last = mean_square:item()
  if step == 1 then first = last end
end
print(("mean square: %.4f at first, %.2e after %d steps"):format(first, last, STEPS))
print(("y = %.4f a %+.4f b %+.4f"):format(weights[{1, 1}], weights[{2, 1}], bias[1]))
assert(last < 1e-9 and first > 1)
assert(moon.allclose(weights, moon.tensor({{2}, {-3}}, "float64"), {rtol = 0, atol = 1e-4}))
assert(math.abs(bias[1] - 1) < 1e-4)
