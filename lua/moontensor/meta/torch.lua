---@meta moontensor.torch
-- Written by scripts/docs.lua from the docstrings beside the code.

local torch = {}

--- A class of `nn.Module`. `init(self, …)` runs after the base's own `__init__`, and makes the parameters and submodules; everything
--- else is a member as in `py.class`.
---@param name string
---@param ... table
---@return any
function torch.module(name, ...) end

--- An operator with a gradient of its own: `forward(ctx, …)` and `backward(ctx, gradient, …)`, as in `torch.autograd.Function`;
--- call what is returned. Backward gives one gradient for each input of forward, `nil` where there is none.
---@param value any
---@return any
function torch.autograd_function(value) end

--- A `Dataset` for a DataLoader. `len` is a number or a function, `get(i)` returns sample i, counted from 0 as Python's samplers
--- do; several results make a tuple.
---@param value any
---@return any
function torch.dataset(value) end

--- With a Lua function: calls it with no gradients recorded, and returns its results. Otherwise Python's `torch.no_grad`.
---@param f? function
function torch.no_grad(f) end

--- The iterable, with a progress bar where tqdm is installed; options are tqdm's.
---@param iterable any
---@param options table
---@return any
function torch.progress(iterable, options) end

return torch
