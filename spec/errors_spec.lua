local moon = require "moontensor"
require "moontensor.luassert"

describe("errors", function()
  require "spec.support.baseline"(setup, teardown)

  it("carry the caller's line", function()
    local line = debug.getinfo(1, "l").currentline + 1
    local _, message = pcall(function() return moon.zeros(2)[9] end)
    assert.equal(("spec/errors_spec.lua:%d: index 9 is out of range 1..2"):format(line), (message:gsub("^.-spec/", "spec/")))
  end)

  it("name the bad argument as Lua does, methods not counting self", function()
    assert.error_matches(function() moon.zeros(2):narrow("a", 1, 1) end,
      "bad argument #1 to '[%w_.]*narrow' %(number expected, got string%)")
    assert.error_matches(function() moon.methods.narrow(5, 1, 1, 1) end,
      "bad argument #1 to '[%w_.]*narrow' %(tensor expected, got number; as a method it is x:narrow%(…%)%)")
    assert.error_matches(function() moon.zeros(2).narrow(1, 1, 1) end, "tensor expected, got number")
  end)

  it("hint at '.' and ':'", function()
    local x = moon.zeros(2)
    for name, call in pairs {
      zeros = function() moon:zeros(2) end, ones = function() moon:ones({2}) end, tensor = function() moon:tensor({2}) end,
      arange = function() moon:arange(2) end, linspace = function() moon:linspace(0, 1, 2) end, from = function() moon:from(x) end,
      cat = function() moon:cat({x}) end, sum = function() moon:sum(x) end, add = function() moon:add(x, 1) end,
      softmax = function() moon:softmax(x, 1) end,
    } do
      if name == "from" then name = "" end -- the bridge's own stands before it once it is loaded
      assert.error_matches(call, "functions of the module are called with '.', not ':', as in moon." .. name, 1, true)
    end
    for name, call in pairs {
      sum = function() x.sum() end, add = function() x.add() end,
      reshape = function() x.reshape() end, softmax = function() x.softmax() end,
    } do
      assert.error_matches(call, "methods are called with ':', as in x:" .. name .. "()", 1, true)
    end
  end)

  it("say what is missing or misplaced", function()
    local x = moon.zeros(2, 2)
    assert.error_matches(function() x:astype() end, "bad argument #1 to '[%w_.]*astype' %(dtype expected, got no value%)")
    assert.error_matches(function() x:astype(nil) end, 'a dtype is a name such as "float32", got nil')
    assert.error_matches(function() moon.zeros("2") end, "bad argument #1 to '[%w_.]*zeros' %(a size is expected, got string \"2\"%)")
    assert.error_matches(function() moon.zeros(2, "3") end, "bad argument #2 to '[%w_.]*zeros' %(a size is expected, got string \"3\"%)")
    assert.error_matches(function() x:sum {dim = 1} end,
      "unknown option 'dim'; the options are keepdim, out; a dimension comes first, as in x:sum%(1%)")
    assert.error_matches(function() x:cumsum {dim = 1} end, "a dimension is an integer, as in x:cumsum%(1%), got table")
    assert.is_nil(x.foo)
    assert.is_nil(x["1"])
  end)

  it("say that a tensor is closed, everywhere", function()
    local x, open = moon.zeros(2, 2), moon.zeros(2, 2)
    x:free()
    x:free()
    local skip = {free = true, summary = true}
    local checked = 0
    for name, method in pairs(moon.methods) do
      if not skip[name] then
        local ok, message = pcall(method, x, open, open)
        assert.is_false(ok, name)
        assert.matches("tensor is closed", message, 1, true, name)
        checked = checked + 1
      end
    end
    assert.is_true(checked > 100)
    for _, f in ipairs {
      function() return x[1] end, function() x[1] = 2 end, function() return x[{1, 1}] end, function() return x(1, 1) end,
      function() return #x end, function() return x.shape end, function() return x.dtype end, function() return x + 1 end,
      function() return open + x end, function() open[1] = x end, function() open:copy_(x) end, function() x:summary() end,
      function() moon.cat({x}) end, function() moon.equal(open, x) end, function() moon.where(x, 1, 2) end,
      function() moon.zeros_like(x) end, function() moon.tensor(x) end, function() moon.from(x) end,
      function() open:add(1, {out = x}) end, function() open:sum(1, {out = x}) end, function() open:matmul(x) end,
    } do
      local ok, message = pcall(f)
      assert.is_false(ok)
      assert.matches("closed", message, 1, true)
    end
  end)

  it("come from methods called without a tensor", function()
    for name, method in pairs(moon.methods) do
      for _, bad in ipairs {5, "text", {}, io.stdout, print} do
        local ok, message = pcall(method, bad, 1, 1)
        assert.is_false(ok, name)
        assert.matches("tensor", message, 1, true, name)
      end
      assert.is_false(pcall(method), name)
    end
  end)

  it("let <close> free", function()
    local kept
    do
      local x <close> = moon.zeros(2)
      kept = x
    end
    assert.equal("tensor (closed)", tostring(kept))
    local ok = pcall(function()
      local x <close> = moon.zeros(2)
      kept = x
      error "out"
    end)
    assert.is_false(ok)
    assert.error_matches(function() return kept[1] end, "tensor is closed")
  end)

  it("survive metamethods called by hand", function()
    local meta = getmetatable(moon.zeros(1))
    assert.equal("tensor", meta.__name)
    for name, f in pairs(meta) do
      if type(f) == "function" then
        for _, bad in ipairs {5, {}, io.stdout} do pcall(f, bad, bad, bad) end
        pcall(f)
        assert.is_function(f, name)
      end
    end
  end)

  it("survive finalizers that free operands", function()
    -- every Lua allocation may run this finalizer in the middle of an operation on x
    local x
    local function bomb()
      setmetatable({}, {__gc = function()
        if x then x:free() end
      end})
    end
    local actions = {
      function() return x + 1 end, function() return x[1] end, function() return x[{{1, 2}}] end, function() return x:clone() end,
      function() return x:sum(1) end, function() return tostring(x) end, function() return x:totable() end,
      function() return x:matmul(x) end, function() return moon.cat({x, x}) end, function() return moon.stack({x, x}) end,
      function() return moon.where(x, x, 0) end, function() return x:reshape(4) end, function() return x:t():reshape(4) end,
      function() return x:astype "int8" end, function() return x:split(1) end, function() return x.shape end,
      function() return x:max(1) end, function() return moon.tensor(x) end, function() return moon.zeros_like(x) end,
      function() return x:flip() end, function() return x:t():tobytes() end, function() return moon.from(x, {copy = true}) end,
    }
    for _, action in ipairs(actions) do
      for _ = 1, 10 do
        x = moon.tensor({{1, 2}, {3, 4}})
        bomb()
        local step = collectgarbage("step", 0)
        assert.is_boolean(step)
        collectgarbage("setpause", 0)
        collectgarbage("setstepmul", 1000)
        local ok, message = pcall(action)
        if not ok then assert.matches("closed", tostring(message), 1, true) end
      end
    end
    collectgarbage("setpause", 200)
    collectgarbage("setstepmul", 100)
    x = nil
  end)

  it("takes nil for no size", function()
    for _, f in ipairs {moon.zeros, moon.ones, moon.empty} do
      local ok, e = pcall(f, nil)
      assert.is_false(ok)
      assert.matches("^bad argument #1 to '[%w_.]+' %(sizes expected, got nil%)$", e)
    end
    assert.equal(0, moon.zeros():dim())
  end)

  it("takes no index by name", function()
    local x = moon.zeros(2)
    for _, f in ipairs {function() return x[{a = 1}] end, function() x[{a = 1}] = 5 end} do
      local ok, e = pcall(f)
      assert.is_false(ok)
      assert.matches("an index is a sequence, got a table with key 'a'", e)
    end
    assert.equal(0, x:sum():item())
  end)
end)
