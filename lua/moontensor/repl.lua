--- The prompt of the `moontensor` command. On a terminal it has the line editing, history and completion of Python's readline
-- module, where an interpreter is found that has it; else it reads plain lines.

local repl = {}

local KEYWORDS = {}
for word in ("and break do else elseif end false for function goto if in local nil not or repeat return then true until while")
  :gmatch "%a+" do KEYWORDS[#KEYWORDS + 1] = word end

local TENSOR_FIELDS = {"shape", "ndim", "dtype", "device", "readonly"}

local function strings_of(keys, from)
  for key in next, from do
    if type(key) == "string" then keys[#keys + 1] = key end
  end
end

local function names_of_python(keys, object)
  for name in require "moontensor.python".iter(require "moontensor.python".dir(object)) do keys[#keys + 1] = name end
end

-- every name that may follow value and a '.' or ':'
local function members(value)
  local keys = {}
  local moon, torch = package.loaded.moontensor, package.loaded["moontensor.torch"]
  if value ~= nil and value == torch then
    names_of_python(keys, require "moontensor.python".import "torch")
  elseif moon and moon.is_tensor(value) then
    table.move(TENSOR_FIELDS, 1, #TENSOR_FIELDS, 1, keys)
    strings_of(keys, moon.methods)
    return keys
  elseif type(value) == "userdata" and (debug.getmetatable(value) or {}).__name == "python object" then
    names_of_python(keys, value)
    return keys
  end
  while type(value) == "table" or type(value) == "string" do
    if type(value) == "table" then strings_of(keys, value) end
    local mt = debug.getmetatable(value)
    value = mt and mt.__index
  end
  return keys
end

--- repl.complete(text) -> sequence of strings
-- The names that text, the last words before the cursor such as "moon.ze" or "x:su", can go on to. Only names are followed,
-- nothing is called.
function repl.complete(text)
  local path, partial = text:match "^(.*[.:])([%w_]*)$"
  local candidates
  if path then
    local value = _G
    for name in path:gmatch "[^.:]+" do
      local ok
      ok, value = pcall(function() return value[name] end)
      if not ok or value == nil then return {} end
    end
    candidates = members(value)
  else
    path, partial, candidates = "", text, members(_G)
    for _, name in ipairs {"moon", "py", "torch"} do candidates[#candidates + 1] = name end
    table.move(KEYWORDS, 1, #KEYWORDS, #candidates + 1, candidates)
  end
  local found, seen = {}, {}
  for _, name in ipairs(candidates) do
    -- names that begin with '_' are asked for
    if name:find "^[%a_][%w_]*$" and name:sub(1, #partial) == partial and (partial ~= "" or name:sub(1, 1) ~= "_")
      and not seen[name] then
      seen[name] = true
      found[#found + 1] = path .. name
    end
  end
  table.sort(found)
  return found
end

-- readline by way of Python: its read function and what saves its history; nil where it is not to be had
local function line_editor()
  if not os.execute "test -t 0 && test -t 1" then return nil end
  local ok, py = pcall(require, "moontensor.python")
  local found, readline = pcall(function() return py.import "readline" end)
  if not ok or not found then return nil end
  local file = os.getenv "MOONTENSOR_HISTORY" or (os.getenv "HOME" or "") .. "/.moontensor_history"
  pcall(readline.read_history_file, file) -- not there the first time
  readline.set_history_length(1000)
  readline.set_completer_delims " \t\n\"\\'`@$><=;|&{}()[],+-*/%^~#"
  readline.parse_and_bind "tab: complete"
  local found_names
  readline.set_completer(function(text, state)
    if state == 0 then found_names = repl.complete(text) end
    return found_names[state + 1]
  end)

  local function read(prompt)
    local got, line = pcall(py.builtins.input, prompt)
    if got then return line .. "\n" end
    if py.isinstance(line, py.builtins.KeyboardInterrupt) then
      io.write "\n"
      return ""
    end
    return nil
  end
  return read, function() if file ~= "" then pcall(readline.write_history_file, file) end end
end

local function plain_read(prompt)
  io.write(prompt)
  io.flush()
  return io.read "L"
end

local function show(ok, ...)
  if not ok then
    local text = tostring((...)):gsub("\n%s*%[C%]: in [^\n]*'xpcall'.*", "") -- ours from here on
    io.stderr:write(text, "\n")
  elseif select("#", ...) > 0 then
    print(...)
  end
end

--- repl.run(traceback)
-- Read, evaluate, print, until end-of-file. An expression is printed, what is incomplete goes on in the next line, and an
-- interrupt drops it. traceback is xpcall's handler.
function repl.run(traceback)
  local read, save = line_editor()
  read = read or plain_read
  io.write("moontensor on ", _VERSION, ". An expression is printed; end-of-file leaves.\n")
  local pending
  while true do
    local line = read(pending and ">> " or "> ")
    if not line then break end
    local source = (pending or "") .. line
    local chunk, incomplete = load("return " .. source, "=stdin")
    local message
    if not chunk then chunk, message = load(source, "=stdin") end
    if line == "" then -- interrupted
      pending = nil
    elseif not chunk and (message:find "<eof>$" or incomplete:find "<eof>$") then
      pending = source
    else
      pending = nil
      if chunk then show(xpcall(chunk, traceback)) else io.stderr:write(message, "\n") end
    end
  end
  io.write "\n"
  if save then save() end
end

return repl
