-- Is every row of spec/coverage.lua proved by a spec that ran and asserted something? Only of a run of all specs can that be
-- asked: scripts/test.sh says so by COVERAGE.
local coverage, ids = require "spec.coverage", require "spec.support.ids"

describe("coverage", function()
  if not os.getenv "COVERAGE" then return end
  it("of every row", function()
    local missing = {}
    for kind, n in pairs(coverage.counts) do
      for i = 1, n do
        local id = kind .. i
        local row, reason = ids.seen[id], coverage.pending[id]
        if reason and row then
          missing[#missing + 1] = id .. " ran, and is listed as pending: " .. reason
        elseif not reason and not row then
          missing[#missing + 1] = id .. " is proved by no spec of this run"
        elseif row and row.assertions == 0 then
          missing[#missing + 1] = id .. " has specs, but they assert nothing"
        end
      end
    end
    table.sort(missing)
    assert.equal("", table.concat(missing, "\n"))
  end)
end)
