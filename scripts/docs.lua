-- The API reference and the LuaLS annotations, from the docstrings beside the code.
--
--   lua5.4 scripts/docs.lua            writes doc/api.md and lua/moontensor/meta/*.lua
--   lua5.4 scripts/docs.lua --check    fails where they are stale
--
-- A docstring is a comment block whose first line is a signature, the rest Markdown:
--
--   /*** x:narrow(dim, first, length) -> tensor        in C
--   text */
--   --- py.import(name) -> object                      in Lua; text in -- or --- lines
--   -- text
--
-- `/*** # Title` or `--- # Title` opens a section, with text of its own. The operators come from src/core/ops.def.

local root = arg[0]:match "^(.*)/scripts/" or "."

local FIRST = { -- the order of the reference; files that are not named here follow by name
  "lua/moontensor/init.lua", "src/lua/create.c", "src/lua/pin.c", "src/lua/tensor.c", "src/lua/index.c", "src/lua/nested.c",
  "src/lua/view.c", "src/lua/copy.c", "src/lua/ops.c", "src/lua/reduce.c", "src/lua/combine.c", "src/lua/repeat.c",
  "src/lua/random.c",
  "src/lua/complex.c", "src/lua/files.c", "src/lua/exchange.c", "src/lua/world.c", "lua/moontensor/luassert.lua",
  "lua/moontensor/python.lua", "lua/moontensor/python/init.lua",
}

local function lines_of(path)
  local list = {}
  for line in io.lines(root .. "/" .. path) do list[#list + 1] = line end
  return list
end

local function sources()
  local pipe = assert(io.popen(("cd '%s' && find src/lua src/python lua/moontensor -type f | LC_ALL=C sort"):format(root)))
  local found, list, taken = {}, {}, {}
  for path in pipe:lines() do
    if path:find "%.[c]$" or path:find "%.lua$" and not path:find "/meta/" then found[#found + 1] = path end
  end
  pipe:close()
  for _, path in ipairs(found) do taken[path] = false end
  for _, path in ipairs(FIRST) do
    if taken[path] == false then list[#list + 1], taken[path] = path, true end
  end
  for _, path in ipairs(found) do
    if not taken[path] then list[#list + 1] = path end
  end
  return list
end

-- ---- reading docstrings ----

local PUBLIC = {moon = true, x = true, z = true, g = true, py = true, torch = true, assert = true}

local function is_signature(text)
  if text:find "^# " then return true end
  if not PUBLIC[text:match "^[%a_][%w_]*" or ""] then return false end
  local rest = text:match "^[%a_][%w_]*[.:][%a_][%w_.:]*(.*)$" or text:match "^x(%(.*)$"
  return rest ~= nil and (rest == "" or rest:find "^[%({\"]" ~= nil or rest:find "^ %->" ~= nil or rest:find "^%[" ~= nil)
end

-- the comment blocks of a C or Lua file that are docstrings, as lists of lines
local function blocks_of(path)
  local blocks, block = {}, nil
  local in_c = path:find "%.c$"
  for _, line in ipairs(lines_of(path)) do
    if in_c then
      local first = line:match "^/%*%*%* ?(.*)$"
      if first then block = {} end
      local text = first or line
      if block then
        local stripped, ends = text:gsub("%s*%*/%s*$", "")
        block[#block + 1] = stripped
        if ends > 0 then
          blocks[#blocks + 1] = block
          block = nil
        end
      end
    else
      local opens, text = line:match "^%s*%-%-(%-?) ?(.*)$"
      if opens == "-" and (not block or is_signature(text)) then
        if block then blocks[#blocks + 1] = block end
        block = {text}
      elseif opens and block then
        block[#block + 1] = text
      elseif block then
        blocks[#blocks + 1] = block
        block = nil
      end
    end
  end
  if block then blocks[#blocks + 1] = block end
  local found = {}
  for _, candidate in ipairs(blocks) do
    if is_signature(candidate[1]) then found[#found + 1] = candidate end
  end
  return found
end

-- where entries go before a file names a section of its own
local function default_title(path)
  if path:find "^src/python/" or path:find "^lua/moontensor/python" then return "Python" end
  return path:match "([^/]+)%.%w+$"
end

local function read_sections()
  local sections, by_title, by_call = {}, {}, {}
  local function open(title, text)
    local section = by_title[title] or {title = title, text = text}
    if not by_title[title] then
      sections[#sections + 1], by_title[title] = section, section
    elseif text ~= "" then
      section.text = text
    end
    return section
  end
  for _, path in ipairs(sources()) do
    local section
    for _, block in ipairs(blocks_of(path)) do
      local first, body = block[1], table.concat(block, "\n", 2)
      if first:find "^# " then
        section = open(first:sub(3), body)
      else
        section = section or open(default_title(path), "")
        local call, result = first:match "^(.-)%s*%->%s*(.*)$"
        call = call or first
        local entry = by_call[call]
        if entry then -- a stub, and what the bridge puts in its place
          entry.result, entry.text = result, body
        else
          entry = {call = call, result = result, text = body}
          section[#section + 1], by_call[call] = entry, entry
        end
      end
    end
  end
  return sections
end

-- ---- operators ----

local function read_operators()
  local text = table.concat(lines_of "src/core/ops.def", "\n"):gsub("/%*.-%*/", "")
  local arity = {UNARY = 1, REAL = 1, TEST = 1, NOT = 1, BINARY = 2, COMPARE = 2, LOGICAL = 2, REDUCE = 0}
  local list = {}
  for class, name, doc in text:gmatch 'OP%((%u+), ([%w_]+), [%w_"]+, "(.-)"' do
    assert(arity[class], "class " .. class .. " of operator " .. name .. " is unknown to scripts/docs.lua")
    list[#list + 1] = {name = name, arity = arity[class], doc = doc, class = class}
  end
  assert(#list > 0, "src/core/ops.def has no operators")
  return list
end

local INDICES = {argmin = true, argmax = true}

local function operator_call(op)
  if op.arity == 2 then return ("x:%s(y, [{out=}])"):format(op.name) end
  if op.arity == 1 then return ("x:%s([{out=}])"):format(op.name) end
  return ("x:%s([dim], [{keepdim=, out=}])"):format(op.name)
end

-- ---- Markdown ----

local function escape(text)
  return (text:gsub("|", "\\|"))
end

local function operator_rows(out, operators, reductions)
  out[#out + 1] = "| call | what it gives |\n|---|---|"
  for _, op in ipairs(operators) do
    if (op.arity == 0) == reductions then
      local doc = op.doc .. (INDICES[op.name] and ", counted from 1" or "")
      local in_place = op.arity > 0 and (" `%s_`"):format(op.name) or ""
      out[#out + 1] = ("| `%s`%s | %s |"):format(escape(operator_call(op)), in_place, escape(doc))
    end
  end
  out[#out + 1] = ""
end

local function markdown(sections, operators)
  local out = {
    "<!-- Written by scripts/docs.lua from the docstrings beside the code. -->",
    "# API reference\n",
    "`x` is a native tensor, `[…]` marks what may be left out, `{k=}` an options table, `…` any number of arguments.",
    "Native tensors count dimensions and indices from 1.\n",
  }
  for _, section in ipairs(sections) do
    out[#out + 1] = "## " .. section.title .. "\n"
    if section.text ~= "" then out[#out + 1] = section.text .. "\n" end
    if section.title == "Operators" then operator_rows(out, operators, false) end
    if section.title == "Reductions" then operator_rows(out, operators, true) end
    for _, entry in ipairs(section) do
      local result = entry.result and (" → " .. entry.result) or ""
      out[#out + 1] = ("### `%s`%s\n"):format(entry.call, result)
      if entry.text ~= "" then out[#out + 1] = entry.text .. "\n" end
    end
  end
  return (table.concat(out, "\n"):gsub("\n+$", "") .. "\n")
end

-- ---- LuaLS annotations ----

local KEYWORDS = {["end"] = true, ["and"] = true, ["or"] = true, ["not"] = true, ["in"] = true, ["repeat"] = true}

local TYPES = {
  dim = "integer", first = "integer", last = "integer", length = "integer", i = "integer", j = "integer", n = "integer",
  m = "integer", a = "any", b = "any", step = "number", size = "integer|integer[]", sizes = "integer|integer[]",
  offset = "integer", dtype = "moontensor.dtype", device = "string", options = "table", dims = "integer", seed = "integer",
  bytes = "string", name = "string", path = "string", x = "moontensor.Tensor", y = "moontensor.Operand",
  cond = "moontensor.Tensor", list = "moontensor.Tensor[]", re = "number", im = "number", low = "any", high = "any",
  from = "integer", to = "integer", f = "function", fn = "function",
}

local RESULTS = {
  tensor = "moontensor.Tensor", x = "moontensor.Tensor", integer = "integer", number = "number", boolean = "boolean",
  string = "string", table = "table", ["nil"] = "nil", complex = "moontensor.Complex",
  generator = "moontensor.Generator", message = "string",
}

-- {name, optional, vararg} of each parameter in the text between the parentheses
local function parameters(text)
  local list, depth, optional, braces, token = {}, 0, false, 0, ""
  local function finish()
    local body = token:gsub("^%s+", "")
    token = ""
    if body == "" then return end
    local name = body:match "^[%a_][%w_]*"
    if body:find "^{" then name = "options" end
    if name == "dtype" and body:find "|" then name = "options" end
    local vararg = body:find "…" ~= nil or body:find "%.%.%." ~= nil
    local kind = TYPES[name or ""] or "any"
    if name == "options" then kind = body:find "dtype" and "table|moontensor.dtype" or "table" end
    if name and KEYWORDS[name] then name = name .. "_" end
    list[#list + 1] = {name = vararg and "..." or name or "value", optional = optional, vararg = vararg, kind = kind}
  end
  for _, code in utf8.codes(text) do
    local c = utf8.char(code)
    if c == "[" and braces == 0 then depth, optional = depth + 1, true
    elseif c == "]" and braces == 0 then
      finish()
      depth = depth - 1
      optional = depth > 0
    elseif c == "{" then braces, token = braces + 1, token .. c
    elseif c == "}" then braces, token = braces - 1, token .. c
    elseif c == "," and braces == 0 then finish()
    else token = token .. c end
  end
  finish()
  return list
end

local function comment(out, text)
  for line in (text .. "\n"):gmatch "(.-)\n" do out[#out + 1] = ("--- " .. line):gsub("%s+$", "") end
end

local function annotate(out, entry, target)
  local path, arguments = entry.call:match "^([%w_.:]+)(.*)$"
  local owner, separator, name = path:match "^([%w_]+)([.:])(.+)$"
  if not target[owner] or name:find "[.:]" then return end
  if entry.text ~= "" then comment(out, entry.text) end
  if arguments == "" then
    out[#out + 1] = ("%s.%s = nil\n"):format(target[owner], name)
    return
  end
  local names = {}
  local inner = arguments:match "^%((.*)%)$"
  local list = inner and parameters(inner) or {{name = "value", kind = "any"}}
  for _, p in ipairs(list) do
    if names[#names] ~= "..." then
      names[#names + 1] = p.name
      out[#out + 1] = ("---@param %s%s %s"):format(p.name, p.optional and not p.vararg and "?" or "", p.kind)
    end
  end
  for result in (entry.result or ""):gmatch "[^,]+" do
    local kinds = {}
    for kind in result:gmatch "[%w_.…]+" do
      if kind ~= "…" and kind ~= "..." and kind ~= "or" then kinds[#kinds + 1] = RESULTS[kind] or "any" end
    end
    if #kinds > 0 then out[#out + 1] = "---@return " .. table.concat(kinds, "|") end
  end
  if KEYWORDS[name] then return end
  out[#out + 1] = ("function %s%s%s(%s) end\n"):format(target[owner], separator, name, table.concat(names, ", "))
end

local function operator_annotations(out, operators)
  for _, op in ipairs(operators) do
    local doc = op.doc .. (INDICES[op.name] and ", counted from 1" or "")
    if op.arity == 0 then
      local both = (op.name == "min" or op.name == "max") and "\n---@return moontensor.Tensor indices" or ""
      local kind = (op.name == "any" or op.name == "all") and "moontensor.Tensor|boolean" or "moontensor.Tensor"
      out[#out + 1] = ("--- %s\n---@param dim? integer\n---@param options? table\n---@return %s%s\nfunction Tensor:%s(dim, options) end\n")
        :format(doc, kind, both, op.name)
    else
      local y = op.arity == 2 and "y, " or ""
      local param = op.arity == 2 and "---@param y moontensor.Operand\n" or ""
      out[#out + 1] = ("--- %s\n%s---@param options? table\n---@return moontensor.Tensor\nfunction Tensor:%s(%soptions) end\n")
        :format(doc, param, op.name, y)
      out[#out + 1] = ("--- %s; in place\n%s---@return moontensor.Tensor\nfunction Tensor:%s_(%s) end\n")
        :format(doc, param, op.name, op.arity == 2 and "y" or "")
    end
  end
end

local HEAD = [[
---@meta moontensor
-- Written by scripts/docs.lua from the docstrings beside the code.

---@alias moontensor.dtype
---| "bool" | "int8" | "int16" | "int32" | "int64" | "uint8" | "uint16" | "uint32" | "uint64"
---| "float16" | "bfloat16" | "float32" | "float64" | "complex64" | "complex128" | "float8_e4m3fn" | "float8_e5m2"

---@alias moontensor.Operand moontensor.Tensor|number|boolean|moontensor.Complex

---@class moontensor.Complex
---@field re number
---@field im number
local Complex = {}

---@class moontensor.Generator

---@class moontensor.Tensor
---@field shape integer[]
---@field ndim integer
---@field dtype moontensor.dtype
---@field device string
---@field readonly boolean
---@operator add(any): moontensor.Tensor
---@operator sub(any): moontensor.Tensor
---@operator mul(any): moontensor.Tensor
---@operator div(any): moontensor.Tensor
---@operator idiv(any): moontensor.Tensor
---@operator mod(any): moontensor.Tensor
---@operator pow(any): moontensor.Tensor
---@operator unm: moontensor.Tensor
---@operator band(any): moontensor.Tensor
---@operator bor(any): moontensor.Tensor
---@operator bxor(any): moontensor.Tensor
---@operator bnot: moontensor.Tensor
---@operator len: integer
---@operator call(...): any
local Tensor = {}

local moon = {}
]]

local FIELDS = {shape = true, ndim = true, dtype = true, device = true, readonly = true}

local function core_annotations(sections, operators)
  local out = {HEAD}
  local target = {moon = "moon", x = "Tensor", z = "Complex"}
  for _, section in ipairs(sections) do
    for _, entry in ipairs(section) do
      local field = entry.call:match "^x%.([%w_]+)$"
      if not (field and FIELDS[field]) and not entry.call:find "^x%(" then annotate(out, entry, target) end
    end
  end
  operator_annotations(out, operators)
  out[#out + 1] = "return moon"
  return table.concat(out, "\n") .. "\n"
end

local function module_annotations(sections, prefix, name)
  local body = {}
  for _, section in ipairs(sections) do
    for _, entry in ipairs(section) do annotate(body, entry, {[prefix] = prefix}) end
  end
  if #body == 0 then return nil end
  return ("---@meta %s\n-- Written by scripts/docs.lua from the docstrings beside the code.\n\nlocal %s = {}\n\n"):format(name, prefix)
    .. table.concat(body, "\n") .. ("\nreturn %s\n"):format(prefix)
end

-- ---- files ----

local function read(path)
  local file = io.open(root .. "/" .. path)
  if not file then return nil end
  local text = file:read "a"
  file:close()
  return text
end

local function main(check)
  local sections, operators = read_sections(), read_operators()
  local files = {
    {"doc/api.md", markdown(sections, operators)},
    {"lua/moontensor/meta/moontensor.lua", core_annotations(sections, operators)},
    {"lua/moontensor/meta/python.lua", module_annotations(sections, "py", "moontensor.python")},
    {"lua/moontensor/meta/torch.lua", module_annotations(sections, "torch", "moontensor.torch")},
  }
  local stale = 0
  for _, file in ipairs(files) do
    local path, text = file[1], file[2]
    if text and path:find "%.lua$" then assert(load(text, "@" .. path)) end
    if read(path) ~= text then
      if check then
        stale = stale + 1
        print(path .. " is stale; run lua5.4 scripts/docs.lua")
      elseif text then
        os.execute(("mkdir -p '%s/%s'"):format(root, path:match "^(.*)/"))
        local out = assert(io.open(root .. "/" .. path, "w"))
        out:write(text)
        out:close()
        print("wrote " .. path)
      else
        os.remove(root .. "/" .. path)
      end
    end
  end
  os.exit(stale == 0)
end

main(arg[1] == "--check")
