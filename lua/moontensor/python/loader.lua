--- Finds a Python interpreter, asks it where its shared library is, and loads that and the bridge.
-- Needs neither Python nor the bridge to be there: `moontensor doctor` runs on it too.

local loader = {}

local QUERY = [[
import sys, sysconfig as s, os
g = s.get_config_var
d = g("LIBDIR") or ""
names = [g("INSTSONAME"), g("LDLIBRARY")]
paths = [os.path.join(p, n) for n in names if n and ".so" in n or n and ".dylib" in n
         for p in (d, os.path.join(d, g("MULTIARCH") or ""), os.path.join(sys.base_prefix, "lib")) if p]
fw = g("PYTHONFRAMEWORKPREFIX")
if fw: paths.insert(0, os.path.join(fw, g("LDLIBRARY") or ""))
lib = next((p for p in paths if os.path.isfile(p)), "")
print("moontensor|%d.%d|%s|%d|%d|%s|%s" % (sys.version_info[0], sys.version_info[1], lib, int(bool(g("Py_ENABLE_SHARED") or fw)),
      int(bool(g("Py_GIL_DISABLED"))), sys.prefix, sys.implementation.name))
]]

local function quote(s)
  return "'" .. s:gsub("'", "'\\''") .. "'"
end

local function is_file(path)
  local f = io.open(path, "rb")
  if f then f:close() end
  return f ~= nil
end

--- The folder of the running script, or ".".
local function script_folder()
  local script = arg and arg[0]
  return script and script:match("^(.*)[/\\][^/\\]*$") or "."
end

--- What to try, in order: {python, how} pairs. An explicit choice stands alone.
function loader.candidates(choice)
  if choice then return {{choice, "py.init{python = …}"}} end
  local env = os.getenv("MOONTENSOR_PYTHON")
  if env and env ~= "" then return {{env, "MOONTENSOR_PYTHON"}} end
  local venv = os.getenv("VIRTUAL_ENV")
  if venv and venv ~= "" then return {{venv .. "/bin/python", "VIRTUAL_ENV"}} end
  local list = {}
  local beside = script_folder() .. "/.venv/bin/python"
  if is_file(beside) then list[#list + 1] = {beside, ".venv beside the script"} end
  for folder in (os.getenv("PATH") or ""):gmatch("[^:]+") do
    if is_file(folder .. "/python3") then
      list[#list + 1] = {folder .. "/python3", "python3 on PATH"}
      break
    end
  end
  return list
end

local function ask(python)
  if python:find("/") and not is_file(python) then return nil, "no such file" end
  local pipe = io.popen(quote(python) .. " -c " .. quote(QUERY) .. " 2>&1", "r")
  if not pipe then return nil, "cannot run it: this Lua has no io.popen" end
  local out = pipe:read("a")
  pipe:close()
  local version, lib, shared, free_threaded, prefix, implementation =
    out:match("moontensor|([%d.]+)|([^|]*)|(%d)|(%d)|([^|]*)|([^|\n]*)")
  if not version then
    local first = out:match("[^\n]+") or "it printed nothing"
    return nil, "it does not run as Python: " .. first
  end
  return {version = version, libpython = lib, shared = shared == "1", free_threaded = free_threaded == "1", prefix = prefix,
          implementation = implementation}
end

local function older(version, major, minor)
  local a, b = version:match("^(%d+)%.(%d+)")
  a, b = tonumber(a), tonumber(b)
  return a < major or a == major and b < minor
end

--- Why an interpreter that answered cannot be embedded, or nil.
local function unfit(found)
  if found.implementation ~= "cpython" then
    return "it is " .. found.implementation .. "; the bridge needs CPython"
  elseif older(found.version, 3, 11) then
    return "it is Python " .. found.version .. "; the bridge needs 3.11 or newer"
  elseif found.free_threaded then
    return "it is a free-threaded build; the bridge needs one with the GIL"
  elseif found.libpython == "" then
    if found.shared then
      return "its shared library is missing (on Debian: apt-get install libpython" .. found.version .. ")"
    end
    return "it was built without a shared libpython (pyenv: PYTHON_CONFIGURE_OPTS=--enable-shared pyenv install " ..
      found.version .. "; Debian: apt-get install libpython3-dev, then choose /usr/bin/python3)"
  end
end

--- loader.find([python]) -> {python=, how=, libpython=, version=, prefix=} or nil, message
-- The interpreter that would be embedded. The message lists everything that was tried and why it was refused.
function loader.find(choice)
  local tried = {}
  for _, candidate in ipairs(loader.candidates(choice)) do
    local python, how = candidate[1], candidate[2]
    local found, why = ask(python)
    if found then why = unfit(found) end
    if not why then
      found.python, found.how = python, how
      return found
    end
    tried[#tried + 1] = ("  %s (%s): %s"):format(python, how, why)
  end
  if #tried == 0 then tried[1] = "  no VIRTUAL_ENV, no .venv beside the script, no python3 on PATH" end
  return nil, "no Python interpreter to embed; tried:\n" .. table.concat(tried, "\n") ..
    "\nchoose one with py.init{python = \"/path/to/python3\"} or MOONTENSOR_PYTHON=/path/to/python3"
end

--- loader.bridge(libpython) -> the bridge's C module, or nil, message
-- Loads libpython for all to see (Python's own extension modules need its symbols), then bridge.so.
function loader.bridge(libpython)
  if libpython then
    local ok, why = package.loadlib(libpython, "*")
    if not ok then return nil, "cannot load " .. libpython .. ": " .. tostring(why) end
  end
  local path = package.searchpath("moontensor.bridge", package.cpath)
  if not path then
    return nil, "moontensor was installed without its Python bridge (bridge.so): its build found no Python.h or no NumPy headers; " ..
      "`make install PYTHON=/path/to/python3` adds it"
  end
  local open, reason = package.loadlib(path, "luaopen_moontensor_bridge")
  if not open then return nil, "cannot load " .. path .. ": " .. tostring(reason) end
  return open("moontensor.bridge", path)
end

--- true where this process runs Python already: the bridge then joins it.
function loader.running()
  local open = package.searchpath("moontensor.bridge", package.cpath)
  if not open then return false end
  local f = package.loadlib(open, "luaopen_moontensor_bridge") -- fails where no libpython is loaded
  return f ~= nil and f("moontensor.bridge", open).initialized()
end

return loader
