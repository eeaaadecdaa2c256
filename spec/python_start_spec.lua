-- The first use of any name of the bridge starts Python; init chooses, once.
local function child(code)
  local pipe = io.popen("timeout 60 lua5.4 -e '" .. code:gsub("'", "'\\''") .. "' 2>&1; echo status $?")
  local out = pipe:read "a"
  pipe:close()
  return out
end

local head = ("package.path = %q package.cpath = %q local py = require [[moontensor.python]] "):format(package.path, package.cpath)

describe("start", function()
  for use, printed in pairs {
    ["py.list {1, 2}"] = "[1, 2]", ["py.dict()"] = "{}", ["py.int '12345678901234567890'"] = "12345678901234567890",
    ["py.len 'abc'"] = "3", ["py.none"] = "None", ["py.kw {}"] = "py.kw: ", ["py.info().version"] = "3.",
    ["py.s '1:2'"] = "slice(1, 2, None)",
    ["py.isinstance(1, py.builtins.int)"] = "true", ["py.init().builtins.abs(-3)"] = "3"} do
    it("begins with " .. use, function()
      local out = child(head .. "io.write(tostring(" .. use .. "))")
      assert.equal(printed, out:sub(1, #printed))
      assert.matches("status 0\n$", out)
    end)
  end

  it("P21: init again with the same choice does nothing, with another it raises", function()
    local out = child(head .. [[
      local python = py.info().python
      assert(py.init{python = python} == py and py.init() == py)
      print(pcall(py.init, {python = "/no/such/python"}))
      print(pcall(py.init, {exit = "never"}))
      print(pcall(py.init, 5))
      print(pcall(py.init, {pyhton = "x"}))]])
    assert.matches("false\tPython is running already: [^\n]+ it cannot be changed to /no/such/python\n", out)
    assert.matches("false\tbad option 'exit' to 'init' %(\"host\" or \"close\" expected%)\n", out)
    assert.matches("false\tunknown option 'pyhton' to 'init' %(python, callback_timeout or exit expected%)\n", out)
    assert.matches("false\tbad argument #1 to 'init' %(table expected, got number%)\n", out)
  end)

  it("names the verb and the caller's line when a verb of sharing is the first use", function()
    local out = child(head .. [[
      local moon = require "moontensor"
      print(pcall(function() local _ = moon.ones(2):to_torch{cpoy = true} end))
      print(pcall(function() local _ = moon.ones(2):expand(2, 2):to_torch() end))]])
    assert.matches("false\t%(command line%):%d+: bad argument #1 to 'to_torch' %(unknown option 'cpoy'; the options are copy%)\n", out)
    assert.matches("%(command line%):%d+: [^\n]+\nstatus 0\n$", out)
  end)

  it("the command of a checkout finds its modules without any path set", function()
    local pipe = io.popen("cd / && env -u LUA_PATH -u LUA_CPATH -u LUA_PATH_5_4 -u LUA_CPATH_5_4 lua5.4 '" ..
      os.getenv "PWD" .. "/bin/moontensor' -e 'print(moon.ones(2):sum():item())' 2>&1")
    local out = pipe:read "a"
    pipe:close()
    assert.equal("2.0\n", out)
  end)

  it("X2: a failure lists what was tried and the way out, and may be tried again", function()
    local out = child(head .. [[
      print(pcall(py.init, {python = "/no/such/python"}))
      print(py.init().builtins.abs(-3))]])
    assert.matches("^false\tno Python interpreter to embed; tried:\n  /no/such/python %(py.init{python = …}%): no such file\n", out)
    assert.matches("MOONTENSOR_PYTHON=/path/to/python3\n3\nstatus 0\n$", out)
  end)
end)
