-- Every spec file leaves moon.stats() as it found it:
--
--   describe("…", function()
--     require "spec.support.baseline"(setup, teardown)

local moon = require "moontensor"

local function counters()
  local py = package.loaded["moontensor.python"]
  for _ = 1, 3 do
    collectgarbage()
    if py then py.import "gc".collect() end -- cycles on that side; and a crossing drops what finalizers have queued
  end
  moon.empty_cache() -- cached_bytes are nobody's
  return moon.stats()
end

return function(setup, teardown)
  local before
  setup(function() before = counters() end)
  teardown(function()
    for name, value in pairs(counters()) do
      local was = before[name] or 0
      if value ~= was then error(("moon.stats().%s is %d after this file, was %d before"):format(name, value, was), 0) end
    end
  end)
end
