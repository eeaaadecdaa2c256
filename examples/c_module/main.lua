-- What tally.c offers, with its results asserted. Run after `make` in this folder.

package.cpath = arg[0]:match "^(.-)[^/]*$" .. "?.so;" .. package.cpath
local moon = require "moontensor"
local tally = require "tally"

local function refused(words, f, ...)
  local ok, message = pcall(f, ...)
  assert(not ok and message:find(words, 1, true), message)
  print("refused: " .. message)
end

-- it makes a tensor of what it read in another
local x = moon.tensor {1, 3, 3, 2, 3, 1}
assert(moon.equal(tally.count(x, 4), moon.tensor {2, 1, 3, 0}))
assert(moon.equal(tally.count(x:view(2, 3)[2], 3), moon.tensor {1, 1, 1}), "a view counts its own part")
assert(moon.equal(tally.count(moon.zeros(0, "int64"), 2), moon.tensor {0, 0}))

refused("int64 expected, got float32", tally.count, moon.ones(3), 4)
refused("not contiguous", tally.count, x[{{1, 6, 2}}], 4)
refused("the value 3 is not in 1 .. 2", tally.count, x, 2)
refused("tensor expected, got table", tally.count, {1, 2}, 2)
local closed = moon.tensor {1}
closed:free()
refused("tensor is closed", tally.count, closed, 1)

-- its own memory as a tensor, without a copy
local counters = tally.counters(3)
local seen = moon.from(counters)
counters:add(x)
assert(seen.dtype == "int64" and seen:is_shared())
assert(moon.equal(seen, moon.tensor {2, 1, 3}), "what is counted later shows too")
seen[2] = 40
counters:add(moon.tensor {2})
assert(seen[2] == 41, "and what is written is counted on")
refused("the value 0 is not in 1 .. 3", function() counters:add(moon.tensor {1, 0}) end)
assert(seen[1] == 2, "nothing of a bad tensor is counted")

local again, copy = moon.from(counters), moon.from(counters, {copy = true})
assert(moon.shares(seen, again) and not moon.shares(seen, copy))
assert(moon.equal(moon.from(counters, {readonly = true}), copy))

-- the memory lives until its last holder lets go, whichever that is
seen:free()
counters = nil
collectgarbage()
collectgarbage()
assert(again[2] == 41)
again:free()
collectgarbage()
assert(moon.stats().imports == 0)
print("counted: " .. tostring(copy))
