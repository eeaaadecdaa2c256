-- Random tensors of every layout and random indices over them, each with what says the same to NumPy.

local moon = require "moontensor"
local py = require "moontensor.python"
local np = py.import "numpy"

local M = {}
local random = math.random

M.INTEGERS = {"int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"}
M.DTYPES = {
  "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64", "complex64",
  "complex128",
}

function M.pick(list) return list[random(#list)] end

local function product(shape)
  local n = 1
  for _, extent in ipairs(shape) do n = n * extent end
  return n
end
M.product = product

function M.shape(least, most, longest)
  local shape = {}
  for d = 1, random(least, most) do shape[d] = random(100) <= 4 and 0 or random(longest) end
  return shape
end

-- distinct small values, so that a wrong place shows
function M.values(shape, dtype)
  local x = moon.arange(product(shape)):reshape(shape)
  if dtype == "bool" then return (x % 3):eq(0) end
  return (x % 120):astype(dtype)
end

-- the same tensor, otherwise in memory
local layouts = {
  function(x) return x end,
  function(x) return x.ndim > 1 and x:transpose(1, -1):clone():transpose(1, -1) or x end,
  function(x) return x:flip():clone():flip() end,
  function(x) -- every second place of a larger tensor, behind an offset
    local key, shape = {}, {}
    for d, extent in ipairs(x.shape) do shape[d], key[d] = 2 * extent + 2, extent > 0 and {2, 2 * extent, 2} or {2, 1} end
    local view = moon.ones(shape, x.dtype)[key]
    if x.ndim == 0 then return x end
    return view:copy_(x)
  end,
}

-- a tensor of that shape in some layout, and a NumPy copy in C order
function M.tensor(shape, dtype)
  local x = M.pick(layouts)(M.values(shape, dtype))
  return x, np.ascontiguousarray(x:to_numpy {copy = true}):reshape(py.tuple(shape))
end

-- the values that NumPy uses for ours
function M.from_zero(x)
  x = x:astype "int64"
  return (x - x:ge(0):astype "int64"):to_numpy {copy = true}
end

-- integers in 1..extent or -extent..-1; one tensor in twenty has a wrong one
function M.integers(shape, extent)
  local n, list = product(shape), {}
  for i = 1, n do
    local k = extent > 0 and random(extent) or 1
    list[i] = random(2) == 1 and k or k - extent - 1
  end
  if n > 0 and random(20) == 1 then list[random(n)] = M.pick {extent + 1, -extent - 1} end
  local x, dtype = moon.tensor(list, "int64"):reshape(shape), M.pick(M.INTEGERS)
  local theirs = M.from_zero(x)
  if dtype:find "uint" then x = x + x:lt(0):astype "int64" * (extent + 1) end -- the same places, counted from the start
  return M.pick(layouts)(x:astype(dtype)), theirs
end

local function range(extent)
  local first, last, step = random(extent), random(extent), M.pick {1, 1, 2, 3, -1, -2}
  local count = (last - first) // step + 1
  if count <= 0 then return {first, last, step}, py.slice(0, 0) end
  local stop = first - 1 + count * step
  local sign = random(3) == 1 and -extent - 1 or 0 -- counted from the end
  return {first + sign, last, step}, py.slice(first - 1, stop >= 0 and stop or nil, step)
end

function M.mask(shape, trues)
  local n, list = product(shape), {}
  for i = 1, n do list[i] = false end
  for i, place in ipairs(moon.randperm(n)) do
    if i <= trues then list[place] = true end
  end
  return M.pick(layouts)(moon.tensor(list, "bool"):reshape(shape))
end

-- A key with a tensor in it at least, and the tuple of it in NumPy.
function M.key(shape)
  local ours, theirs, d, tensors = {}, {}, 1, 0
  local common = M.shape(0, 2, 3)
  while d <= #shape and (random(8) > 1 or tensors == 0) do
    local kind, i = random(7), #ours + 1
    if kind == 1 and shape[d] > 0 then
      ours[i] = random(shape[d])
      theirs[i] = ours[i] - 1
    elseif kind == 2 and shape[d] > 0 then
      ours[i], theirs[i] = range(shape[d])
    elseif kind == 3 then
      ours[i], theirs[i] = {}, py.slice()
    elseif kind == 4 then
      local over = {table.unpack(shape, d, math.min(#shape, d + random(0, 3) - 1))}
      local x = M.mask(over, #common > 0 and common[#common] or 1)
      ours[i], theirs[i], tensors = x, x:to_numpy {copy = true}, tensors + 1
      d = d + #over - 1
    else
      local part = {}
      for k = random(2) == 1 and 1 or #common + 1, #common do
        part[#part + 1] = random(4) == 1 and 1 or common[k]
      end
      ours[i], theirs[i] = M.integers(part, shape[d])
      tensors = tensors + 1
    end
    d = d + 1
  end
  if tensors == 0 then return M.key(shape) end
  return #ours == 1 and random(2) == 1 and ours[1] or ours, py.tuple(theirs)
end

return M
