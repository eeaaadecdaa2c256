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
end)
