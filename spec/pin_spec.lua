-- Memory that a Lua value keeps: strings, and pointers with an owner.
local moon = require "moontensor"
require "moontensor.luassert"

describe("pinned memory", function()
  require "spec.support.baseline" (setup, teardown)
  local function settle() for _ = 1, 3 do collectgarbage() end moon.stats() end

  it("of a string, read-only and without a copy", function()
    local bytes = ("\1\0\2\0"):rep(1000)
    local x, again = moon.from_string(bytes, "int16", {copy = false}), moon.from_string(bytes, "int16", {copy = false})
    assert.equal(x:data_ptr(), again:data_ptr())
    assert.is_true(x.readonly)
    assert.same({2000}, x.shape)
    assert.equal(2, x[2000])
    assert.error_matches(function() x[1] = 5 end, "read%-only")
    assert.equal(bytes, x:tobytes())
    assert.same({40, 50}, moon.from_string(bytes, "int16", 40, 50, {copy = false}).shape)
    assert.same({40, 50}, moon.from_string(bytes, "int16", {40, 50}).shape)
    assert.is_false(moon.from_string(bytes, "int16", {copy = true}).readonly)
    assert.is_true(moon.from_string("", "int16", {copy = false}).readonly)
    assert.error_matches(function() moon.from_string(bytes, "int16", {share = true}) end, "unknown option 'share'")
  end)

  it("keeps the string while a view lives, and no longer", function()
    local function string_of(seed) return ("%d"):format(seed):rep(20000) end
    settle()
    local before = collectgarbage "count"
    local view = moon.from_string(string_of(12), "uint8", {copy = false}):narrow(1, 39990, 10)
    settle()
    assert.is_true(collectgarbage "count" > before + 38)
    assert.equal("2121212121", view:tobytes())
    view = nil -- luacheck: ignore
    settle()
    assert.is_true(collectgarbage "count" < before + 5)
  end)

end)
