---Looks at everything moontensor stands on, and says what is wrong and which command mends it.
local doctor = {}

---The first line that a shell command prints, or nil.
local function output(command)
  local pipe = io.popen(command .. " 2>/dev/null")
  local line = pipe and pipe:read "l"
  if pipe then pipe:close() end
  return line ~= "" and line or nil
end

local function quote(path)
  return path:find "[^%w%./_-]" and "'" .. path:gsub("'", "'\\''") .. "'" or path
end

local function first_line(message)
  return (tostring(message):gsub("\n.*", ""))
end

---A report collects lines, and counts problems and notes.
local Report = {}
Report.__index = Report

function Report:line(what, text)
  self.write(("%-10s %s\n"):format(what, text))
end

function Report:trouble(kind, text, mend)
  self.write(("%-10s %s: %s\n"):format("", kind, text))
  if mend then self.write(("%-10s mend it: %s\n"):format("", mend)) end
  self[kind .. "s"] = self[kind .. "s"] + 1
end

local function module_path(name)
  return package.searchpath(name, package.cpath)
end

local function check_core(report)
  local path = module_path "moontensor.core"
  local ok, moon = pcall(require, "moontensor")
  if ok then
    report:line("core", ("%s (%s)"):format(path or "built in", moon._VERSION))
    return moon
  end
  report:line("core", path or "not found")
  if path then
    report:trouble("problem", "it does not load: " .. first_line(moon),
      "make clean all, or luarocks --lua-version=5.4 make")
  else
    report:trouble("problem", "moontensor/core.so is not on package.cpath",
      "luarocks --lua-version=5.4 make; in a checkout: make, then eval \"$(make -s env)\"")
  end
end

local function check_bridge(report)
  local path = module_path "moontensor.bridge"
  report:line("bridge", path or "not found")
  if not path then
    report:trouble("problem", "moontensor/bridge.so was not built, for want of Python.h or NumPy 2 headers",
      "apt-get install python3-dev && python3 -m pip install 'numpy>=2', then build again with PYTHON=/path/to/python3")
  end
  return path
end

local function check_interpreter(report)
  local ok, loader = pcall(require, "moontensor.python.loader")
  if not ok then
    report:line("python", "unknown")
    report:trouble("problem", "moontensor.python.loader does not load: " .. first_line(loader),
      "install moontensor again")
    return nil
  end
  local found, message = loader.find()
  if not found then
    report:line("python", "none")
    report:trouble("problem", (tostring(message):gsub("\n", "\n           ")),
      "apt-get install libpython3.11 python3-venv, or MOONTENSOR_PYTHON=/path/to/python3")
    return nil
  end
  report:line("python", ("%s (%s)"):format(found.python, found.how))
  report:line("libpython", tostring(found.libpython))
  report:line("version", ("CPython %s, prefix %s"):format(found.version, found.prefix))
  return found
end

---Import name inside the bridge, as a program would.
local function check_package(report, python, name, kind, requirement)
  local ok, version = pcall(function()
    return tostring(require "moontensor.python".import(name).__version__)
  end)
  report:line(name, ok and version or "not usable")
  if not ok then
    report:trouble(kind, first_line(version), ("%s -m pip install '%s'"):format(quote(python.python), requirement))
  end
  return ok
end

local function check_compiler(report)
  local cc = os.getenv "CC" or "cc"
  local version = output(quote(cc) .. " --version")
  report:line("compiler", version and ("%s: %s"):format(cc, version) or "none")
  if not version then
    report:trouble("note", "no C compiler; only building moontensor needs one", "apt-get install build-essential")
  end
end

local function check_devices(report, moon)
  local ok, devices = pcall(moon.devices)
  if not ok then
    report:line("devices", "unknown")
    report:trouble("problem", first_line(devices))
    return
  end
  local names = {}
  for i, device in ipairs(devices) do
    names[i] = type(device) == "table" and device.name or tostring(device)
  end
  report:line("devices", table.concat(names, ", "))
end

---Print the report. True if nothing that is needed is wrong.
---@param write? fun(text: string)
---@return boolean
function doctor.run(write)
  local report = setmetatable({problems = 0, notes = 0, write = write or function(text) io.write(text) end}, Report)
  report:line("lua", ("%s, %s"):format(_VERSION, arg and arg[-1] or "embedded"))
  if _VERSION ~= "Lua 5.4" then
    report:trouble("problem", "moontensor needs Lua 5.4", "apt-get install lua5.4")
  end
  local moon = check_core(report)
  local bridge = check_bridge(report)
  local python = check_interpreter(report)
  if moon and bridge and python then
    if check_package(report, python, "numpy", "problem", "numpy>=2") then
      check_package(report, python, "torch", "note", "torch>=2.3")
    end
  end
  check_compiler(report)
  if moon then check_devices(report, moon) end
  if report.problems + report.notes == 0 then
    report.write "nothing is wrong\n"
  elseif report.problems == 0 then
    report.write "nothing that moontensor itself needs is wrong\n"
  else
    report.write(("%d problem%s\n"):format(report.problems, report.problems == 1 and "" or "s"))
  end
  return report.problems == 0
end

return doctor
