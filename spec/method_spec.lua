local py = require "moontensor.python"

describe("obj:method()", function()
  local class = [[type("Meter", (), {
    "step": lambda self, by=1: ("type", by), "end": lambda self: "end",
    "still": staticmethod(lambda by: ("static", by))})]]

  it("calls a function that the instance keeps in a method's place as Python does", function()
    local meter = py.eval(class .. "()")
    py.setattr(meter, "step", py.eval "lambda by=1: ('instance', by)")
    for _ = 1, 3 do -- the first call fills the cache of names
      local from, by = py.unpack(meter:step(2))
      assert.same({"instance", 2}, {from, by})
    end
    local other = py.eval(class .. "()")
    assert.equal("type", (py.unpack(other:step())))
  end)

  it("leaves the receiver out of methods that C implements by a slot", function()
    local list = py.list{7, 8}
    assert.equal(2, list:__len__())
    local iterator = list:__iter__()
    assert.equal(7, iterator:__next__())
    assert.equal(8, iterator:__next__())
  end)

  it("takes the underscore from a Lua keyword", function()
    local match = py.import "re".match("a+", "aab")
    for _ = 1, 2 do assert.equal(2, match:end_()) end
    assert.equal("end", py.eval(class .. "()"):end_())
  end)

  it("prefers an attribute that has the underscore itself", function()
    local both = py.eval [[type("Both", (), {"end": lambda self: "end", "end_": lambda self: "end_"})()]]
    for _ = 1, 2 do assert.equal("end_", both:end_()) end
  end)

  it("calls static methods with the dot", function()
    local meter = py.eval(class .. "()")
    assert.equal("static", (py.unpack(meter.still(3))))
  end)

  it("lets a class die whose methods were called", function()
    local gc, weakref = py.import "gc", py.import "weakref"
    local function use()
      local meter = py.eval(class .. "()")
      meter:step()
      return weakref.ref(py.type(meter))
    end
    local ref = use()
    for _ = 1, 3 do
      collectgarbage()
      gc.collect()
    end
    assert.is_nil(ref())
  end)

  it("looks afresh at a class that stands where a dead one stood", function()
    local gc = py.import "gc"
    local seen, again = {}, 0
    for i = 1, 60 do
      local kind = i % 3 -- the same name: a method, an attribute, a static method
      local body = ({[0] = "def value(self): return 'method'", "value = 'attribute'",
        "@staticmethod\n  def value(): return 'static'"})[kind]
      do
        local scope = py.dict {}
        py.exec("class K:\n  " .. body, scope)
        local K = scope[{"K"}]
        again = again + (seen[py.id(K)] and 1 or 0)
        seen[py.id(K)] = true
        local o <close> = K()
        if kind == 0 then assert.equal("method", o:value())
        elseif kind == 1 then assert.equal("attribute", o.value)
        else assert.equal("static", o.value()) end
        scope:clear()
      end
      collectgarbage()
      collectgarbage()
      gc.collect()
      gc.collect()
    end
    -- a sanitizer keeps freed memory apart
    assert.is_true(again > 0 or os.getenv "ASAN_OPTIONS" ~= nil, "no address came back")
  end)

  it("holds with a collection at every step", function()
    local apply = py.eval "lambda f, *a: f(*a)"
    local function work()
      local list = py.list {1, 2, {3, {a = "x"}}}
      local append, pop = list.append, list.pop
      append(list, py.dict {b = 2})
      assert.equal("{'b': 2}", tostring(pop(list)))
      assert.equal(6, apply(function(a, b) return a + b end, 2, 4))
      assert.equal("ab", apply(function(...) return table.concat({...}) end, "a", "b"))
      local ok, e = pcall(apply, function() error {1} end)
      assert.same({false, {1}}, {ok, e})
      assert.matches("ValueError", tostring(select(2, pcall(py.builtins.int, "x"))))
      for i, x in py.enumerate(list) do assert.is_true(i < 3 and x ~= nil) end
      assert.same({1, 2, {3, {a = "x"}}}, py.tolua(list))
    end
    work()
    debug.sethook(function() collectgarbage "step" end, "", 1)
    local ok, e = pcall(work)
    debug.sethook()
    assert.is_true(ok, tostring(e))
  end)
end)
