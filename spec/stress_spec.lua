-- spec/support/stress.lua in processes of its own.

local function run(mode)
  local pipe = assert(io.popen("lua5.4 spec/support/stress.lua " .. mode .. " 2>&1"))
  local text = pipe:read "a"
  return pipe:close(), text
end

describe("an eager collector", function()
  it("at every instruction breaks nothing", function()
    local ok, text = run "full"
    assert.is_true(ok, text)
    assert.equal("stressed\n", text)
  end)

  it("at every allocation breaks nothing", function()
    local ok, text = run "step"
    assert.is_true(ok, text)
    assert.equal("stressed\n", text)
  end)
end)
