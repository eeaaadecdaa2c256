-- No function over 80 lines, no file over 800: scripts/sizes.lua FILES... The files are formatted by clang-format, so that a
-- function starts and ends at the margin. A macro counts as a function: what it defines is longer in no place that it is used.
-- Exceptions are the lines "- `file`: reason" and "- `file: function`: reason" of CONTRIBUTING.md, five at most.

local FUNCTION, FILE, EXCEPTIONS = 80, 800, 5

-- calls found(name, lines) for all functions and macros; returns the number of lines
local function measure(path, found)
  local n, start, head, macro = 0, nil, "", nil
  for line in io.lines(path) do
    n = n + 1
    local define = line:match "^#%s*define%s+([%w_]+)"
    if define then start, macro = n, define end
    if macro then
      if not line:find "\\$" then
        found(macro, n - start + 1)
        macro = nil
      end
    elseif line:find "^[%a_]" and not line:find "^[%w_]+:$" then -- but no label
      start, head = n, line
    elseif line == "}" then
      local name = head:gsub("__attribute__%b()", ""):match "^[^=(]-([%w_]+)%("
      if name then found(name, n - start + 1) end
    end
  end
  return n
end

local excepted, failed, functions = {}, false, 0

local function complain(...)
  print(string.format(...))
  failed = true
end

local count = 0
for line in io.lines "CONTRIBUTING.md" do
  local what, reason = line:match "^%- `([^`]+%.[chdef]+:? ?[%w_]*)`: (.+)"
  if what then
    excepted[what], count = reason, count + 1
  end
end
if count > EXCEPTIONS then complain("CONTRIBUTING.md lists %d exceptions, %d are the most", count, EXCEPTIONS) end

local function judge(what, lines, most)
  if lines <= most then return end
  if not excepted[what] then complain("%s has %d lines, %d are the most", what, lines, most) end
  excepted[what] = nil
end

for _, path in ipairs(arg) do
  local lines = measure(path, function(name, lines)
    functions = functions + 1
    judge(path .. ": " .. name, lines, FUNCTION)
  end)
  judge(path, lines, FILE)
end
for what in pairs(excepted) do complain("CONTRIBUTING.md excepts %s, which is not too long", what) end
if functions < #arg then complain("%d functions in %d files: they are not found any more", functions, #arg) end
os.exit(not failed)
