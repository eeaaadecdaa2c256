-- The prompt of the moontensor command.
local moon = require "moontensor"
local py = require "moontensor.python"
local torch = require "moontensor.torch"
local _ = torch.nn -- modules keep what was read of them
local complete = require "moontensor.repl".complete

describe("completion", function()
  require "spec.support.baseline" (setup, teardown)
  local names = {"moon", "py", "torch", "sample", "text", "list", "nested"}
  before_each(function()
    _G.moon, _G.py, _G.torch = moon, py, torch
    _G.sample, _G.text, _G.list = moon.zeros(2), "abc", py.list {1}
    _G.nested = {inner = {one = 1, other = 2, ["no name"] = 3}}
  end)
  after_each(function() for _, name in ipairs(names) do _G[name] = nil end end)

  it("of globals, words and modules", function()
    assert.same({"nested"}, complete "nest")
    assert.same({"repeat", "require", "return"}, complete "re")
    assert.same({"moon.zeros", "moon.zeros_like"}, complete "moon.ze")
    assert.same({"nested.inner.one", "nested.inner.other"}, complete "nested.inner.o")
    assert.same({"text:format"}, complete "text:for")
  end)

  it("of tensors' fields and methods", function()
    assert.same({"sample:cumprod", "sample:cumsum"}, complete "sample:cum")
    assert.same({"sample.ndim"}, complete "sample.nd")
    assert.same({"sample.dtype"}, complete "sample.dt")
  end)

  it("of Python's names", function()
    assert.same({"torch.nn.BatchNorm1d"}, complete "torch.nn.BatchNorm1")
    assert.same({"torch.zeros", "torch.zeros_like"}, complete "torch.zeros")
    assert.same({"torch.no_grad"}, complete "torch.no_gr")
    assert.same({"list:append"}, complete "list:app")
    assert.same({"list:__len__"}, complete "list:__len")
  end)

  it("follows names alone, and private ones only when asked", function()
    assert.same({}, complete "nowhere.x")
    assert.same({}, complete "moon.zeros.x")
    for _, name in ipairs(complete "list:") do assert.not_matches("^list:_", name) end
    assert.is_true(#complete "list:" > 5)
  end)
end)

describe("the prompt", function()
  local function talk(script)
    local input, history = os.tmpname(), os.tmpname()
    local file = assert(io.open(input, "w"))
    file:write(script)
    file:close()
    local pipe = io.popen(("MOONTENSOR_HISTORY=%s TERM=dumb timeout 90 '%s' spec/support/talk.py lua5.4 bin/moontensor < %s 2>&1")
      :format(history, os.getenv "MOONTENSOR_PYTHON", input))
    local output = pipe:read "a"
    pipe:close()
    local kept = io.open(history):read "a"
    os.remove(input)
    os.remove(history)
    return output, kept
  end

  it("completes, goes on in the next line, drops a line at an interrupt, keeps history", function()
    local output, kept = talk [[
moon.lins\t(0, 1, 2)\n
for i = 1, 2 do\n
print(i * 21) end\n
unfinished\x03
error "mine"\n
py.eval "1 / 0"\n
6 *\n
\x03
py.import("math").pi\n
\x04
]]
    if output:find "^no pseudo%-terminal" then return pending(output) end
    local has = function(text) assert.is_true(output:find(text, 1, true) ~= nil, text .. "\n--- in:\n" .. output) end
    has "> moon.linspace(0, 1, 2)\ntensor([0., 1.], float32)\n"
    has ">> print(i * 21) end\n21\n42\n> "
    has "stdin:1: mine\nstack traceback:\n\t[C]: in function 'error'\n\tstdin:1: in main chunk\n> "
    has "stdin:1: ZeroDivisionError: division by zero\n"
    has ">> \n> py.import"
    has "\n3.1415926535898\n> "
    has "status 0\n"
    assert.matches("^moon%.linspace%(0, 1, 2%)\nfor i = 1, 2 do\nprint", kept)
  end)

  it("reads plain lines where there is no terminal", function()
    local pipe = io.popen("printf '1 + 1\\nx = 5\\nx\\n' | lua5.4 bin/moontensor 2>&1")
    local output = pipe:read "a"
    pipe:close()
    assert.equal("moontensor on Lua 5.4. An expression is printed; end-of-file leaves.\n> 2\n> > 5\n> \n", output)
  end)
end)
