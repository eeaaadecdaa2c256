-- require "moontensor.luassert": assertions on tensors for busted and luassert.

local moon = require "moontensor"
local assert = require "luassert"
local say = require "say"

--- # Assertions
--- `require "moontensor.luassert"` adds two assertions to luassert, and so to busted. `expected` may be a table or a value,
--- which then takes the dtype of `actual`.

local function is_tensor(value) return moon.is_tensor(value) end

local function as_tensor(value, beside)
  if is_tensor(value) or not is_tensor(beside) then return value end
  return moon.tensor(value, beside.dtype)
end

-- "{2, 1}" for the k-th element, counted from 0 in row-major order
local function position(k, shape)
  local index = {}
  for d = #shape, 1, -1 do
    index[d] = k % shape[d] + 1
    k = k // shape[d]
  end
  if #index == 1 then return tostring(index[1]) end
  return "{" .. table.concat(index, ", ") .. "}"
end

local function element(x, k)
  return x:reshape(-1):narrow(1, k + 1, 1):squeeze():tostring()
end

local function both(expected, actual)
  return ("\nExpected:\n%s\nActual:\n%s"):format(expected, actual)
end

-- why two tensors cannot be compared element by element, or nil
local function mismatch(expected, actual, dtypes_too)
  for name, value in pairs {expected = expected, actual = actual} do
    if not is_tensor(value) then return ("the %s value is a %s, no tensor"):format(name, type(value)) end
  end
  if expected.shape ~= actual.shape then
    return ("shape: expected %s, got %s"):format(expected.shape, actual.shape) .. both(expected, actual)
  end
  if dtypes_too and expected.dtype ~= actual.dtype then
    return ("dtype: expected %s, got %s"):format(expected.dtype, actual.dtype) .. both(expected, actual)
  end
end

local function first_difference(expected, actual)
  local a, b, size = expected:tobytes(), actual:tobytes(), expected:element_size()
  local first, count = nil, 0
  for k = 0, expected:numel() - 1 do
    local at = k * size + 1
    if a:sub(at, at + size - 1) ~= b:sub(at, at + size - 1) then
      first, count = first or k, count + 1
    end
  end
  return first, count
end

--- assert.tensor_equal(expected, actual)
--- Same shape, same dtype, same bytes: NaN equals a NaN of the same bits, and 0.0 differs from -0.0.
local function tensor_equal(state, arguments)
  local expected, actual = as_tensor(arguments[1], arguments[2]), arguments[2]
  local why = mismatch(expected, actual, true)
  if not why and expected:tobytes() ~= actual:tobytes() then
    local k, count = first_difference(expected, actual)
    why = ("%d of %d elements differ, the first at %s: expected %s, got %s"):format(count, expected:numel(),
      position(k, expected.shape), element(expected, k), element(actual, k)) .. both(expected, actual)
  end
  state.failure_message = why
  return not why
end

--- assert.tensor_close(expected, actual, [{rtol=, atol=}])
--- Same shape, and elements as close as `moon.allclose` wants them (rtol 1e-5, atol 1e-8), whatever the dtypes. NaN is close
--- to NaN.
local function tensor_close(state, arguments)
  local expected, actual = as_tensor(arguments[1], arguments[2]), arguments[2]
  local options = type(arguments[3]) == "table" and arguments[3] or {}
  local why = mismatch(expected, actual, false)
  local limits = {rtol = options.rtol, atol = options.atol, equal_nan = true}
  if not why and not moon.allclose(actual, expected, limits) then
    local complex = expected.dtype:find "complex" or actual.dtype:find "complex"
    local wide = complex and "complex128" or "float64"
    local distance = (expected:astype(wide) - actual:astype(wide)):abs():reshape(-1)
    local _, at = moon.where(distance:isnan(), math.huge, distance):max(1)
    local k = at:item() - 1
    why = ("the furthest elements are at %s: expected %s, got %s"):format(position(k, expected.shape),
      element(expected, k), element(actual, k)) .. both(expected, actual)
  end
  state.failure_message = why
  return not why
end

say:set("assertion.tensor.positive", "tensors differ")
say:set("assertion.tensor_equal.negative", "expected tensors that differ, both are:\n%s\n%s")
say:set("assertion.tensor_close.negative", "expected tensors further apart, they are:\n%s\n%s")
assert:register("assertion", "tensor_equal", tensor_equal, "assertion.tensor.positive", "assertion.tensor_equal.negative")
assert:register("assertion", "tensor_close", tensor_close, "assertion.tensor.positive", "assertion.tensor_close.negative")

return assert
