-- An operator of your own with a gradient of its own, both in Lua: x^3, checked by torch's own gradcheck.

local moon = require "moontensor"
local py = require "moontensor.python"
local torch = require "moontensor.torch"

local cube = torch.autograd_function{
  forward = function(ctx, x)
    ctx:save_for_backward(x)
    return x * x * x
  end,
  -- gets the gradient of what forward returned, gives one for each of its inputs
  backward = function(ctx, gradient)
    local x = py.unpack(ctx.saved_tensors)
    return gradient * 3 * x * x
  end,
}

-- the input is native memory; so is, without a copy, what we read of the gradient
local values = moon.tensor({1, 2, 3}, "float64")
local x = values:to_torch():requires_grad_()
local y = cube(x)
y:sum():backward()
local gradient = moon.from(x.grad)
print("x", values)
print("x^3", moon.from(y:detach()))
print("3 x^2", gradient)
assert(moon.equal(moon.from(y:detach()), moon.tensor({1, 8, 27}, "float64")))
assert(moon.equal(gradient, moon.tensor({3, 12, 27}, "float64")))

-- gradcheck compares with finite differences, gradgradcheck the derivative of backward as well
local points = torch.tensor(py.list{-2.0, 0.5, 1.5}, py.kw{dtype = torch.float64, requires_grad = true})
assert(torch.autograd.gradcheck(cube, py.tuple{points}))
assert(torch.autograd.gradgradcheck(cube, py.tuple{points}))

-- and it would have found a mistake
local wrong = torch.autograd_function{
  forward = function(ctx, a)
    ctx:save_for_backward(a)
    return a * a * a
  end,
  backward = function(ctx, g)
    local a = py.unpack(ctx.saved_tensors)
    return g * 2 * a * a -- 2 for 3
  end,
}
local ok, problem = pcall(torch.autograd.gradcheck, wrong, py.tuple{points})
assert(not ok and tostring(problem):find "Jacobian mismatch", problem)
print "gradcheck: x^3 passes, a wrong gradient does not"
