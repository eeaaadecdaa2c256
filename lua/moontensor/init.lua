-- require "moontensor": core's table, and what is better written in Lua.

local moon = require "moontensor.core"
local methods = moon.methods

--- # The module
--- `local moon = require "moontensor"`. Needs no Python.

--- moon._VERSION
--- The version, such as `"moontensor 0.1.0"`.
moon._VERSION = "moontensor 0.1.0"

--- moon.methods
--- The table of tensor methods. A function put there is a method of every tensor.

-- Errors below name the caller's line and read as Lua's own.
local function bad_argument(number, name, message)
  error(("bad argument #%d to '%s' (%s)"):format(number, name, message), 3)
end

local function is_tensor(value)
  return moon.is_tensor(value)
end

local function check_tensor(x, name)
  if is_tensor(x) then return end
  if rawequal(x, moon) then
    error(("functions of the module are called with '.', not ':', as in moon.%s(…)"):format(name), 3)
  end
  local hint = x == nil and ("; methods are called with ':', as in x:%s()"):format(name) or ""
  error(("bad argument #1 to '%s' (tensor expected, got %s%s)"):format(name, type(x), hint), 3)
end

local function check_dim(x, dim, name)
  local n = x.ndim
  if math.type(dim) ~= "integer" then
    error(("bad argument #1 to '%s' (dimension expected, got %s)"):format(name, type(dim)), 3)
  end
  if dim == 0 or dim > n or dim < -n then
    error(("bad argument #1 to '%s' (dimension %d is out of range 1..%d)"):format(name, dim, n), 3)
  end
end

-- ---- composed operators ----

local function clamp(x, low, high, suffix)
  if low == nil and high == nil then bad_argument(1, "clamp" .. suffix, "a lower or an upper bound expected") end
  if low ~= nil then x = x["maximum" .. suffix](x, low) end
  if high ~= nil then x = x["minimum" .. suffix](x, high) end
  return x
end

--- x:clamp([low], [high]) -> tensor
--- The elements, those below `low` raised to it and those above `high` lowered to it; either may be nil.
function methods.clamp(x, low, high)
  check_tensor(x, "clamp")
  return clamp(x, low, high, "")
end

--- x:clamp_([low], [high]) -> x
--- As `clamp`, in place.
function methods.clamp_(x, low, high)
  check_tensor(x, "clamp_")
  return clamp(x, low, high, "_")
end

-- what functions made of several steps compute in, so that no step overflows and halves are rounded once
local NARROW = {float16 = "float32", bfloat16 = "float32", float8_e4m3fn = "float32", float8_e5m2 = "float32"}
local SMALL = {bool = "float32", int8 = "float32", uint8 = "float32", int16 = "float32", uint16 = "float32"}
local WHOLE = {int32 = "float64", uint32 = "float64", int64 = "float64", uint64 = "float64"}

-- x in a dtype to compute in; small: the one of bools and of integers up to 16 bits, if not float32
local function widened(x, small)
  if not is_tensor(x) then return x end
  local wide = NARROW[x.dtype] or WHOLE[x.dtype] or SMALL[x.dtype] and (small or SMALL[x.dtype])
  return wide and x:astype(wide) or x
end

local function narrowed(result, dtype)
  return NARROW[dtype] and result:to(dtype) or result
end

-- torch's formula: counted from the nearer end, so that weights 0 and 1 give the ends themselves
local function lerp(a, b, weight)
  if not is_tensor(weight) then
    if math.abs(weight) < 0.5 then return a + (b - a) * weight end
    return b - (b - a) * (1 - weight)
  end
  local span = b - a
  return moon.where(weight:abs():lt(0.5), a + span * weight, b - span * (1 - weight))
end

local function check_lerp(a, b, weight, name)
  check_tensor(a, name)
  if not is_tensor(b) and type(b) ~= "number" then bad_argument(1, name, "tensor or number expected, got " .. type(b)) end
  if not is_tensor(weight) and type(weight) ~= "number" then
    bad_argument(2, name, "weight expected: a tensor or number, got " .. type(weight))
  end
end

--- x:lerp(b, weight) -> tensor
--- `x + weight * (b - x)`, a linear step from `x` towards `b`; `b` and `weight` are tensors or numbers. Halves compute in
--- float32 and are rounded once; of integers the result is a float.
function methods.lerp(x, b, weight)
  check_lerp(x, b, weight, "lerp")
  local result = lerp(widened(x), widened(b), widened(weight))
  if not NARROW[x.dtype] or result.dtype ~= "float32" then return result end
  local dtype = x.dtype
  for _, other in ipairs {b, weight} do
    if is_tensor(other) and other.dtype ~= dtype then dtype = "float32" end
  end
  return result:to(dtype)
end

--- x:lerp_(b, weight) -> x
--- As `lerp`, in place.
function methods.lerp_(x, b, weight)
  check_lerp(x, b, weight, "lerp_")
  local result = lerp(widened(x), widened(b), widened(weight))
  return result:conj():conj({out = x}) -- an operator's checks of the output, and every value as it is
end

--- x:norm([dim], [{keepdim=}]) -> tensor
--- The Euclidean norm: the square root of the sum of squared magnitudes.
function methods.norm(x, dim, options)
  check_tensor(x, "norm")
  local magnitudes = widened(x, "float64"):abs()
  return narrowed(magnitudes:mul(magnitudes):sum(dim, options):sqrt(), x.dtype)
end

--- x:softmax(dim) -> tensor
--- exp(x) scaled so that it sums to 1 along the dimension; without overflow.
function methods.softmax(x, dim)
  check_tensor(x, "softmax")
  check_dim(x, dim, "softmax")
  local wide = widened(x)
  if x:numel() == 0 then return narrowed(wide:exp(), x.dtype) end
  local largest <close> = wide:max(dim, {keepdim = true})
  local result = (wide - largest):exp()
  local total <close> = result:sum(dim, {keepdim = true})
  return narrowed(result:div_(total), x.dtype)
end

--- x:logsumexp(dim, [{keepdim=}]) -> tensor
--- log(sum(exp(x))) along the dimension; without overflow.
function methods.logsumexp(x, dim, options)
  check_tensor(x, "logsumexp")
  check_dim(x, dim, "logsumexp")
  local wide = widened(x, "float64")
  local largest = moon.tensor(0.0, wide.dtype)
  if x:size(dim) > 0 then
    largest = wide:max(dim, {keepdim = true})
    largest = moon.where(largest:isfinite(), largest, 0.0) -- an infinity minus itself is no number
  end
  local result = narrowed((wide - largest):exp():sum(dim, {keepdim = true}):log():add(largest), x.dtype)
  if options and options.keepdim then return result end
  return result:squeeze(dim)
end

--- x:outer(y) -> tensor
--- The matrix of all products of an element of `x` and one of `y`, both 1-d.
function methods.outer(x, y)
  check_tensor(x, "outer")
  if not is_tensor(y) then bad_argument(1, "outer", "tensor expected, got " .. type(y)) end
  if x.ndim ~= 1 or y.ndim ~= 1 then
    error(("outer takes two 1-d tensors, got %d-d and %d-d"):format(x.ndim, y.ndim), 2)
  end
  return x:unsqueeze(2):mul(y:unsqueeze(1))
end

for _, name in ipairs {"clamp", "lerp", "norm", "softmax", "logsumexp", "outer"} do moon[name] = methods[name] end

--- moon.meshgrid(x, y, …) -> tensor, tensor, …
--- Coordinates of a grid, as torch's with `indexing = "ij"`: of 1-d tensors, read-only views of one shape.
function moon.meshgrid(...)
  local axes, shape = {...}, {}
  for i, axis in ipairs(axes) do
    if not is_tensor(axis) then bad_argument(i, "meshgrid", "tensor expected, got " .. type(axis)) end
    if axis.ndim > 1 then bad_argument(i, "meshgrid", ("a %d-d tensor; 1-d expected"):format(axis.ndim)) end
    shape[i] = axis:numel()
  end
  local grids = {}
  for i, axis in ipairs(axes) do
    local along = {}
    for d = 1, #axes do along[d] = d == i and shape[i] or 1 end
    grids[i] = axis:reshape(along):expand(shape)
  end
  return table.unpack(grids)
end

--- x:summary() -> string
--- One line: dtype, shape, device, bytes, and the smallest, largest and mean element where there are such.
function methods.summary(x)
  check_tensor(x, "summary")
  local parts = {("%s %s on %s, %d bytes"):format(x.dtype, x.shape, x.device, x:nbytes())}
  if not x:is_contiguous() then parts[#parts + 1] = "strides " .. x:stride() end
  if x.readonly then parts[#parts + 1] = "read-only" end
  if x:numel() > 0 and not x.dtype:find "complex" and x.dtype ~= "bool" then
    local y = x:astype "float64"
    parts[#parts + 1] = ("min %.6g, max %.6g, mean %.6g"):format(y:min():item(), y:max():item(), y:mean():item())
  end
  return table.concat(parts, ", ")
end

return moon
