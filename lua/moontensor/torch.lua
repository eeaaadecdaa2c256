--- Python's torch. Every name of it is here; helpers of our own stand before them.
local py = require "moontensor.python"

local ok, python_torch = pcall(py.import, "torch")
if not ok then
  if not tostring(python_torch):find("No module named 'torch'", 1, true) then error(python_torch, 0) end
  local python = py.info().python
  error(("torch is not installed for %s; install it: %s -m pip install torch"):format(python, python), 3)
end

local internals = py.import "moontensor"
local helpers = {}

local function check_table(value, name, arg)
  if type(value) ~= "table" then
    error(("bad argument #%d to '%s' (a table expected, got %s)"):format(arg, name, value == nil and "nil" or type(value)), 3)
  end
end

local function without(members, ...)
  local rest = {}
  for name, value in pairs(members) do rest[name] = value end
  for _, name in ipairs {...} do rest[name] = nil end
  return rest
end

--- torch.module(name, {init=, forward=, …}) -> class
-- A class of `nn.Module`. `init(self, …)` runs after the base's own `__init__`, and makes the parameters and submodules; everything
-- else is a member as in `py.class`.
function helpers.module(name, members)
  check_table(members, "module", 2)
  local rest = without(members, "init")
  if members.init ~= nil then
    if members.__init__ ~= nil then error("bad argument #2 to 'module' (init and __init__ are one too many)", 2) end
    rest.__init__ = internals._make_initializer(python_torch.nn.Module, members.init)
  end
  return py.class(name, {python_torch.nn.Module}, rest)
end

--- torch.autograd_function{forward=, backward=} -> function
-- An operator with a gradient of its own: `forward(ctx, …)` and `backward(ctx, gradient, …)`, as in `torch.autograd.Function`;
-- call what is returned. Backward gives one gradient for each input of forward, `nil` where there is none.
function helpers.autograd_function(members)
  check_table(members, "autograd_function", 1)
  local static = {}
  for name, value in pairs(members) do
    static[name] = type(value) == "function" and py.staticmethod(value) or value
  end
  for _, name in ipairs {"forward", "backward"} do
    if static[name] == nil then error(("bad argument #1 to 'autograd_function' (it lacks %s)"):format(name), 2) end
  end
  return py.class("LuaFunction", {python_torch.autograd.Function}, static).apply
end

--- torch.dataset{len=, get=} -> object
-- A `Dataset` for a DataLoader. `len` is a number or a function, `get(i)` returns sample i, counted from 0 as Python's samplers
-- do; several results make a tuple.
function helpers.dataset(members)
  check_table(members, "dataset", 1)
  local len, get = members.len, members.get
  if type(get) ~= "function" then error("bad argument #1 to 'dataset' (get= is a function of an index)", 2) end
  if math.type(len) ~= "integer" and type(len) ~= "function" then
    error("bad argument #1 to 'dataset' (len= is an integer or a function)", 2)
  end
  local function count() return type(len) == "function" and len() or len end
  local rest = without(members, "len", "get")
  rest.__len__ = function() return count() end
  rest.__getitem__ = function(_, i)
    if math.type(i) == "integer" and (i < 0 or i >= count()) then
      error(py.builtins.IndexError(("sample %d is outside 0..%d"):format(i, count() - 1)))
    end
    return get(i)
  end
  return py.class("LuaDataset", {python_torch.utils.data.Dataset}, rest)()
end

--- torch.no_grad([f]) -> ...
-- With a Lua function: calls it with no gradients recorded, and returns its results. Otherwise Python's `torch.no_grad`.
function helpers.no_grad(...)
  local f = ...
  if type(f) ~= "function" then return python_torch.no_grad(...) end
  return py.with(python_torch.no_grad(), function() return f() end)
end

--- torch.progress(iterable, {desc=, total=}) -> object
-- The iterable, with a progress bar where tqdm is installed; options are tqdm's.
function helpers.progress(iterable, options)
  if options ~= nil then check_table(options, "progress", 2) end
  local found, tqdm = pcall(py.import, "tqdm")
  if not found then return iterable end
  return tqdm.tqdm(iterable, py.kw(without(options or {})))
end

return setmetatable(helpers, {
  __name = "torch",
  __index = python_torch,
  __newindex = function(_, name, value) python_torch[name] = value end,
  __tostring = function() return tostring(python_torch) end,
})
