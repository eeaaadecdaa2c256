-- One memory, three libraries: slices shared both ways, with their addresses.

local moon = require "moontensor"
local torch = require "moontensor.torch"
local py = require "moontensor.python"

local function show(what, address)
  print(("%-34s 0x%012x"):format(what, address))
end

-- native -> torch: every second column of a 3 x 4 tensor
local x = moon.arange(12):astype("float64"):view(3, 4)
local slice = x[{{}, {1, 4, 2}}]
local t = slice:to_torch()
show("native tensor", x:data_ptr())
show("its slice", slice:data_ptr())
show("torch's view of the slice", t:data_ptr())
assert(t:data_ptr() == slice:data_ptr())
assert(t:stride(0) == 4 and t:stride(1) == 2)
t:add_(1000)
assert(x[{1, 1}] == 1000 and x[{1, 2}] == 1 and x[{1, 3}] == 1002, "torch wrote every second column, and no other")
x[{2, 1}] = -7.25
assert(t[{1, 0}]:item() == -7.25, "Lua's write is torch's value, at torch's own 0-based index")

-- torch -> native: the transpose of an arange
local source = torch.arange(6.0):reshape(2, 3)
local view = moon.from(source:t())
show("torch tensor", source:data_ptr())
show("native view of its transpose", view:data_ptr())
assert(view:data_ptr() == source:data_ptr() and view:stride(1) == 1 and view:stride(2) == 3)
view[{3, 2}] = 55
assert(source[{1, 2}]:item() == 55)

-- native -> NumPy -> native
local array = x:to_numpy()
local back = moon.from(array)
show("NumPy's view", array.ctypes.data)
assert(array.ctypes.data == x:data_ptr() and back:data_ptr() == x:data_ptr())
array:fill(3)
assert(x[{3, 4}] == 3 and moon.shares(x, array))

-- the memory outlives every name but the last one
local kept = (function()
  local short_lived = moon.tensor({1, 2, 3}, "float32")
  return short_lived:to_torch()
end)()
collectgarbage()
collectgarbage()
assert(kept:sum():item() == 6)

-- a copy is a copy, and unsafe shapes of memory never reach torch
local copy = x:to_torch{copy = true}
assert(copy:data_ptr() ~= x:data_ptr())
local ok, message = pcall(function() return x[{{3, 1, -1}}]:to_torch() end)
assert(not ok and tostring(message):find "negative stride", message)
print("refused: " .. tostring(message):gsub("\n.*", ""))

-- an argument of a Python function is shared too: torch doubles x's own elements here
torch.add(x, x, py.kw{out = x})
assert(x[{3, 4}] == 6 and array[{2, 3}] == 6)
print "all of it shared"
