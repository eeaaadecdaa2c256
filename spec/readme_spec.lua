-- The README's Lua blocks, run in order as one program in a process of its own, print what stands beneath them.

local MARK = "--8<--"

---Every ```lua block with the ```text block that follows it, if one does.
local function blocks_of(path)
  local blocks, kind, lines = {}, nil, nil
  local number = 0
  for line in io.lines(path) do
    number = number + 1
    local fence = line:match "^```(.*)$"
    if fence and not kind then
      kind, lines = fence, {}
      if fence == "lua" then blocks[#blocks + 1] = {line = number} end
    elseif fence then
      local text = table.concat(lines, "\n")
      local last = blocks[#blocks]
      if kind == "lua" then
        last.code = text
      elseif kind == "text" then
        assert(last and not last.output, path .. ":" .. number .. ": an output without a block")
        last.output = text
      end
      kind = nil
    elseif kind then
      lines[#lines + 1] = line
    end
  end
  return blocks
end

describe("README", function()
  local blocks = blocks_of "README.md"
  local outputs, failure = {}, nil

  setup(function()
    local path = os.tmpname()
    local file = assert(io.open(path, "w"))
    for _, block in ipairs(blocks) do file:write(block.code, "\nprint '", MARK, "'\n") end
    file:close()
    local pipe = assert(io.popen(("lua5.4 '%s' 2>&1"):format(path)))
    local text = pipe:read "a"
    local ok = pipe:close()
    os.remove(path)
    local from = 1
    for i = 1, #blocks do
      local first, last = text:find(MARK .. "\n", from, true)
      if not first then break end
      outputs[i] = text:sub(from, first - 1)
      from = last + 1
    end
    if not ok then failure = text:sub(from) end
  end)

  it("has blocks to run", function()
    assert.is_true(#blocks >= 5)
  end)

  for i, block in ipairs(blocks) do
    it(("block at line %d prints what stands beneath it"):format(block.line), function()
      assert(outputs[i], i == 1 + #outputs and failure or "an earlier block failed")
      local function trimmed(text) return (("\n" .. text):gsub("[ \t]+\n", "\n"):gsub("%s+$", "")) end
      assert.equal(trimmed(block.output or ""), trimmed(outputs[i]))
    end)
  end
end)
