-- What newcomers get wrong, and that the error names the mend.
local moon = require "moontensor"
local py = require "moontensor.python"
local torch = require "moontensor.torch"

describe("a newcomer's mistake:", function()
  require "spec.support.baseline" (setup, teardown)

  local x, t = moon.arange(6):view(2, 3):astype "float32", torch.arange(6.0):reshape(2, 3)
  local list, dict, linear = py.list {10, 20, 30}, py.dict {key = 1}, torch.nn.Linear(3, 2)

  -- every text, plain, is in the message; so is the line of the mistake
  local function says(what, f, ...)
    local texts = {...}
    it(what, function()
      local ok, e = pcall(f)
      assert.is_false(ok)
      local message = tostring(e)
      assert.matches("^[^\n]*mistakes_spec%.lua:%d+: ", message)
      for _, text in ipairs(texts) do assert.matches(text, message, 1, true) end
    end)
  end

  -- ---- calls ----

  says("'.' for ':' on a native tensor", function() local _ = x.sum() end, "methods are called with ':', as in x:sum()")
  says("'.' for ':' on a native tensor, with an argument", function() local _ = x.add(1) end,
    "tensor expected, got number; as a method it is x:add(…)")
  says("'.' for ':' on a torch tensor", function() local _ = t.sum() end,
    "method 'sum' called without its receiver: write obj:sum(…)")
  says("':' for '.' on the module", function() local _ = moon:zeros(2) end, "called with '.', not ':', as in moon.zeros(…)")
  says("':' for '.' on torch", function() local _ = torch:zeros(2) end,
    "hint: functions of a module or class are called with '.', not ':'")
  says("':' for '.' on a Python module", function() local _ = torch.nn:Linear(3, 2) end,
    "hint: functions of a module or class are called with '.', not ':'")
  says("py.kw forgotten", function() local _ = t:sum {dim = 1} end,
    "hint: a table is a dict argument; keyword arguments are py.kw{name = value}")
  says("py.kw forgotten, where Python finds a bad value", function()
    local _ = torch.utils.data.DataLoader(list, {batch_size = 2})
  end, "ValueError: batch_size", "hint: a table is a dict argument; keyword arguments are py.kw{name = value}")
  says("py.kw before the end", function() local _ = torch.zeros(py.kw {dtype = torch.int8}, 2) end,
    "it must be the last argument of a call")
  says("Python's dim= on a native tensor", function() local _ = x:sum {dim = 1} end,
    "unknown option 'dim'", "a dimension comes first, as in x:sum(1)")
  says("keywords for a Lua function that has no such parameter", function() py.eval "lambda f: f(step=1)" (function() end) end,
    "unexpected keyword argument 'step'", "py.kwfunction(f) takes any")
  says("a value called", function() local _ = t.shape(0) end, "'torch.Size' object is not callable",
    "hint: it is a value, no function: it goes without (); items are obj[i]")
  says("a value called as a method", function() local _ = t:T() end, "hint: it is a value, no function")
  says("a number called", function() local _ = t.ndim() end, "attempt to call a number value (field 'ndim')")

  -- ---- names ----

  says("a mistyped name as an argument", function() local _ = torch.relu(undefined) end, -- luacheck: ignore
    "must be Tensor, not NoneType", "hint: argument #1 is nil, which is None: is its name spelt right?")
  says("a mistyped name as the second argument of a method", function() local _ = t:add(undefined) end, -- luacheck: ignore
    "argument #1 is nil")
  says("nil for a native operand", function() local _ = x:add(undefined) end, "expected, got nil") -- luacheck: ignore
  says("nil for a size", function() local _ = moon.zeros(undefined) end, "sizes expected, got nil") -- luacheck: ignore
  says("a mistyped global function", function() undefined(1) end, "attempt to call a nil value (global 'undefined')") -- luacheck: ignore
  says("a mistyped function of torch", function() local _ = torch.zeross(2) end,
    "module 'torch' has no attribute 'zeross'", "hint: did you mean 'zeros'?")
  says("a mistyped method of a torch tensor", function() local _ = t:summ() end, "hint: did you mean 'sum'?")
  says("a mistyped method of a native tensor", function() local _ = x:summ() end, "attempt to call a nil value (method 'summ')")
  says("a mistyped dtype", function() local _ = moon.zeros(2, "flaot32") end,
    "unknown dtype 'flaot32'; the dtypes are bool, int8 to int64")
  says("a mistyped dtype of torch", function() local _ = torch.flaot32 end, "hint: did you mean 'float32'?")
  says("a mistyped option", function() local _ = moon.zeros(2, {dtpye = "int8"}) end, "unknown option 'dtpye'; the options are dtype")
  says("a mistyped option of moon.from", function() local _ = moon.from(t, {cpoy = true}) end,
    "unknown option 'cpoy'; the options are copy, force")
  says("a mistyped keyword", function() local _ = torch.zeros(2, py.kw {dtpye = torch.int8}) end,
    "unexpected keyword argument 'dtpye'")
  says("a module that is not installed", function() py.import "no_such_module" end, "No module named 'no_such_module'",
    "hint: is it installed for " .. py.import "sys".executable .. "?")
  says("a class imported as a module", function() py.import "torch.nn.Linear" end,
    'hint: Linear is no module, but a name in one: py.import "torch.nn".Linear')
  says("a submodule that was not imported", function() local _ = py.import "xml".sax end,
    'hint: a submodule is imported by its whole name: py.import "xml.sax"')
  says("a class that names its own local, which begins after it", function()
    local Counter = py.class("Counter", {step = function() return Counter.size end, size = 2}) -- luacheck: ignore
    Counter():step()
  end, "attempt to index a nil value (global 'Counter')")

  it("mended: a class whose local was declared before", function()
    local Counter
    Counter = py.class("Counter", {step = function() return Counter.size end, size = 2})
    assert.equal(2, Counter():step())
    Counter = nil -- the class holds its function, and that the class: a cycle across both heaps
  end)

  -- ---- items and indices ----

  says("a string for an item of a dict", function() local _ = dict.key end, 'hint: items are read with obj[{"key"}] or obj:get("key")')
  says("a string to write an item of a dict", function() dict.key = 2 end, 'hint: items are written with obj[{"key"}] = value')
  says("a list counted from 1", function() local _ = list[#list] end, "IndexError: list index out of range", "hint: Python counts from 0")
  says("a torch tensor counted from 1", function() local _ = t[2] end, "out of bounds for dimension 0 with size 2",
    "hint: Python counts from 0")
  says("a list written from 1 on", function() list[3] = 5 end, "hint: Python counts from 0")
  says("a native tensor counted from 0", function() local _ = x[0] end, "index 0 is out of range 1..2; indices count from 1")
  says("an element counted from 0", function() local _ = x[{1, 0}] end, "index 0 is out of range 1..3 of dimension 2; indices count from 1")
  says("an element counted from 0, called", function() local _ = x(0, 1) end, "index 0 is out of range 1..2; indices count from 1")
  says("an index beyond the end", function() local _ = x[{1, 4}] end, "index 4 is out of range 1..3 of dimension 2")
  says("a row beyond the end", function() local _ = x[5] end, "index 5 is out of range 1..2")
  says("places where a range stands", function() local _ = x[{1, 2, 3}] end,
    "3 indices for a 2-d tensor; a range is a table of its own: x[{{1, 3}}]")
  says("a field of a native tensor", function() x.name = "x" end, "a tensor has no field 'name' to set")

  -- ---- loops ----

  says("ipairs over a Python list", function() for _ in ipairs(list) do end end, -- luacheck: ignore
    "hint: Python counts from 0; a loop over all items is for x in py.each(obj) do")
  says("pairs over a Python list", function() for _ in pairs(list) do end end, -- luacheck: ignore
    "pairs needs a mapping; use py.iter, py.each or py.enumerate")
  says("a Python list as a loop", function() for _ in list do end end, "hint: a loop over its items is for x in py.each(obj) do") -- luacheck: ignore
  says("a native tensor as a loop", function() for _ in x do end end, "a loop over a tensor is for i, v in ipairs(x) do") -- luacheck: ignore
  says("pairs over a native tensor", function() for _ in pairs(x) do end end, -- luacheck: ignore
    "a loop over a tensor is for i, v in ipairs(x) do")

  -- ---- numbers, text, tables ----

  says("10 / 2 for a size", function() local _ = torch.zeros(10 / 2) end,
    "hint: 5.0 is a float; where an integer is meant, use // or math.tointeger")
  says("10 / 2 for a keyword", function() local _ = torch.utils.data.DataLoader(list, py.kw {batch_size = 10 / 2}) end,
    "hint: 5.0 is a float")
  says("4 / 2 for an index", function() local _ = list[4 / 2] end, "list indices must be integers", "hint: 2.0 is a float")
  says("a fraction for a native size", function() local _ = moon.zeros(5 / 2) end, "sizes are integers, got 2.5")
  says("a fraction into integers", function() moon.zeros(2, "int64")[1] = 1.5 end, "1.5 has a fraction and does not fit int64")

  it("10 / 2 for a native size is 5", function() assert.equal(5, #moon.zeros(10 / 2)) end)

  says("bytes for a str", function() local _ = py.builtins.len "\xff\xfe" end,
    "a Lua string of 2 bytes is not UTF-8; pass binary data as py.bytes(s)")
  says("a str for bytes", function() local _ = py.import "zlib".compress "text" end, "hint: binary data is passed as py.bytes(s)")
  says("a table with holes", function() local _ = torch.tensor {1, nil, 3} end,
    "a table with holes is no list; put py.none where None is meant")
  says("a table with holes for a native tensor", function() local _ = moon.tensor {1, nil, 3} end, "the table has a hole")
  says("a ragged table", function() local _ = moon.tensor {{1, 2}, {3}} end, "row 2 has length 1, expected 2")
  says("a ragged table for torch", function() local _ = torch.tensor {{1, 2}, {3}} end, "expected sequence of length 2 at dim 1 (got 1)")
  says("a table with names and places", function() local _ = py.builtins.len {1, a = 2} end, "both a sequence and string keys")
  says("a table for a tensor", function() local _ = torch.sum {1, 2} end, "hint: torch.tensor makes a tensor of a table or list")

  -- ---- several results ----

  says("two names for a tuple", function()
    local quotient, rest = py.builtins.divmod(7, 2)
    return quotient + rest
  end, "hint: an operand is nil; several results come as one tuple, which py.unpack takes apart")

  it("mended: two names for a tuple", function()
    local quotient, rest = py.unpack(py.builtins.divmod(7, 2))
    assert.same({3, 1}, {quotient, rest})
  end)

  -- ---- comparisons, truth, text of objects ----

  says("== between torch tensors", function() return t == torch.zeros(2, 3) end,
    "hint: a comparison is one boolean in Lua; elementwise: py.eq(a, b)")
  says("< between torch tensors", function() return t < t end, "elementwise: py.lt(a, b)")
  says(">= between torch tensors", function() return t >= t end, "elementwise: py.le(a, b)")
  says("< of a native tensor", function() return x < 1 end, "a comparison is one boolean in Lua; elementwise: x:lt(y) or x:gt(y)")
  says(">= of a native tensor", function() return x >= x end, "elementwise: x:le(y) or x:ge(y)")
  says("a torch tensor for a native one", function() return moon.equal(x, t) end, "got python object; moon.from makes a tensor of an array")
  says("the truth of many elements", function() return py.bool(t) end, "Boolean value of Tensor with more than one value is ambiguous")
  says("item() of many elements", function() return x:item() end, "item() takes a tensor with one element, this one has shape [2, 3]")
  says("# of an object without a length", function() return #linear end, "object of type 'Linear' has no len()")
  says("# of a 0-d tensor", function() return #moon.tensor(1) end, "a 0-d tensor has no length; x:item() reads its value")
  says("two objects concatenated", function() return t .. list end,
    "attempt to concatenate two python objects; use a + b, or tostring(a) .. tostring(b)")
  says("nil concatenated to an object", function() return list .. nil end, "attempt to concatenate a python object and a nil value")

  it("== of native tensors is identity, and the truth of an object is no value's", function()
    local zeros = moon.zeros(2)
    assert.is_false(zeros == moon.zeros(2))
    assert.is_true(moon.equal(zeros, moon.zeros(2)))
    local none_greater = t:gt(100):any()
    assert.is_true(none_greater and true)
    assert.is_false(py.bool(none_greater))
    assert.equal("[10, 20, 30]1", list .. 1)
  end)

  -- ---- tensors ----

  says("a tensor used after free", function()
    local gone = moon.zeros(2)
    gone:free()
    return gone + 1
  end, "tensor is closed")
  says("a tensor passed after free", function()
    local gone = moon.zeros(2)
    gone:free()
    return torch.relu(gone)
  end, "tensor is closed")
  says("an object passed after its <close>", function()
    local gone
    do
      local closing <close> = torch.zeros(2)
      gone = closing
    end
    return torch.relu(gone)
  end, "python object is closed")
  says("float64 for a float32 model", function() return linear(moon.zeros(1, 3, "float64")) end, "same dtype, but got Double and Float",
    'hint: a tensor is converted by t:to(torch.float32), a native one by x:astype "float32"')
  says("a dtype's name for torch", function() return torch.zeros(2, py.kw {dtype = "float32"}) end,
    "hint: torch's dtypes are its own values, as torch.float32")
  says("another dtype in a view", function() return moon.from(t, {dtype = "float64"}) end,
    "the source is float32 and cannot be shared as float64; {copy = true} converts it")
  says("numbers for a mask", function() return x:masked_fill_(moon.zeros(2, 3), 1) end,
    "a mask is a bool tensor, this one is float32; mask:ne(0) makes one")
  says("an unknown device", function() return moon.zeros(2, {device = "gpu"}) end, "unknown device 'gpu'")
  says("a tensor without memory", function() return moon.from(torch.zeros(2, py.kw {device = "meta"})) end,
    "can't convert meta device type tensor")
  says("shapes that do not add", function() return x + moon.zeros(2, 2) end, "shapes [2, 3] and [2, 2] do not broadcast: 3 against 2")
  says("shapes that do not add in torch", function() return t + moon.zeros(2, 2) end, "must match the size of tensor b (2)")
  says("shapes that do not multiply", function() return x:matmul(x) end, "shapes [2, 3] and [2, 3] do not multiply")
  says("a batch of another width", function() return linear(torch.zeros(2, 5)) end, "(2x5 and 3x2)")
  says("a weight without detach", function() return moon.from(linear.weight) end,
    "hint: moon.from(t:detach()) shares the memory, {force = true} copies it")
  says("negative steps for torch", function() return x[{{2, 1, -1}}]:to_torch() end, "negative stride", "copy")

  -- ---- control flow ----

  says("a yield across Python", function()
    local step = coroutine.wrap(function()
      list:sort(py.kw {key = function(v) coroutine.yield(v) end})
    end)
    step()
  end, "attempt to yield across a C-call boundary")
  says("a class for a context", function() py.with(torch.no_grad, print) return nil end,
    "is no context manager: it lacks __enter__ and __exit__")

  it("does not guess at what fits nothing", function()
    for _, f in ipairs {
      function() return t.foo end, function() return py.builtins.int "x" end, function() return py.builtins.range() end,
      function() return dict[{"none"}] end, function() return t + "text" end,
    } do
      assert.is_nil(tostring(select(2, pcall(f))):find("hint:", 1, true))
    end
  end)
end)
