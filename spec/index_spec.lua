local moon = require "moontensor"
require "moontensor.luassert"

describe("indexing", function()
  require "spec.support.baseline"(setup, teardown)

  local function grid() return moon.arange(12):view(3, 4) end -- 0..3, 4..7, 8..11

  it("reads rows as views and elements as values", function()
    local x = grid()
    assert.tensor_equal({4, 5, 6, 7}, x[2])
    assert.equal(6, x[2][3])
    assert.equal(11, x[-1][-1])
    x[2][3] = 60
    assert.equal(60, x(2, 3))
    assert.equal(60, x[{2, 3}])
    assert.equal("integer", math.type(x[1][1]))
    assert.equal(1.0, moon.ones(1)[1])
    assert.equal("float", math.type(moon.ones(1)[1]))
    assert.equal(3, #x)
  end)

  it("ends ipairs", function()
    local x, seen = moon.tensor({5, 6, 7}), {}
    for i, v in ipairs(x) do seen[i] = v end
    assert.same({5, 6, 7}, seen)
    assert.is_nil(x[4])
    assert.is_nil(grid()[4])
    local n = 0
    for _, row in ipairs(grid()) do n = n + row[1] end
    assert.equal(12, n)
    assert.is_nil(moon.zeros(0)[1])
  end)

  it("raises at 0 and beyond", function()
    local x = grid()
    assert.error_matches(function() return x[0] end, "index 0 is out of range 1..3; indices count from 1")
    assert.error_matches(function() return x[5] end, "index 5 is out of range 1..3")
    assert.error_matches(function() return x[-4] end, "index %-4 is out of range 1..3")
    assert.error_matches(function() return x[1.5] end, "an index is an integer, got 1.5")
    assert.error_matches(function() return moon.tensor(1)[1] end, "0%-d tensor has no index; x:item")
    assert.error_matches(function() return x[{1, 5}] end, "index 5 is out of range 1..4 of dimension 2")
    assert.error_matches(function() return x[{1, 0}] end, "index 0 is out of range 1..4 of dimension 2")
    assert.error_matches(function() return x[true] end, "indexed by an integer, a table or a tensor, got boolean")
    assert.error_matches(function() return #moon.tensor(1) end, "0%-d tensor has no length")
    assert.equal(4, x[2.0][1])
    assert.is_nil(x.nonsense)
    assert.error_matches(function() x.nonsense = 1 end, "a tensor has no field 'nonsense' to set")
  end)

  describe("x[{…}]", function()
    it("keeps ranges, both ends included", function()
      local x = grid()
      assert.tensor_equal({{4, 5}, {8, 9}}, x[{{2, 3}, {1, 2}}])
      assert.tensor_equal({1, 2}, x[{1, {2, 3}}])
      assert.tensor_equal({2, 6, 10}, x[{{}, 3}])
      assert.tensor_equal({{8, 9, 10, 11}}, x[{{-1, -1}}])
      assert.tensor_equal({{4, 5, 6, 7}}, x[{{2}}])
      assert.tensor_equal({8, 9, 10, 11}, x[{3}])
      assert.tensor_equal(x, x[{}])
      assert.equal(7, x[{2, -1}])
    end)

    it("walks in steps, backwards too", function()
      local x = moon.arange(10)
      assert.tensor_equal({0, 3, 6, 9}, x[{{1, -1, 3}}])
      assert.tensor_equal({9, 7, 5, 3, 1}, x[{{-1, 1, -2}}])
      assert.tensor_equal({4, 3}, x[{{5, 4, -1}}])
      assert.same({-2}, x[{{-1, 1, -2}}]:stride())
      assert.equal(x:data_ptr() + 72, x[{{-1, 1, -2}}]:data_ptr())
      assert.error_matches(function() return x[{{1, 2, 0}}] end, "step 0")
    end)

    it("is empty where the range is", function()
      local x = moon.arange(5)
      assert.same({0}, x[{{3, 2}}].shape)
      assert.same({0}, x[{{2, 3, -1}}].shape)
    end)

    it("names what is wrong", function()
      local x = moon.arange(5)
      assert.error_matches(function() return x[{1, 3}] end, "2 indices for a 1%-d tensor; a range is a table of its own")
      assert.error_matches(function() return x[{"1"}] end, "entry 1 of an index is an integer, a range or a tensor, got string")
      assert.error_matches(function() return x[{{1, 2, 3, 4}}] end, "got 4 numbers")
      assert.error_matches(function() return x[{{1, "b"}}] end, "of integers, got string")
      assert.error_matches(function() return x[{{0, 2}}] end, "index 0 is out of range 1..5")
      assert.error_matches(function() return x[{{1, 6}}] end, "index 6 is out of range 1..5")
    end)
  end)

  describe("assignment", function()
    it("writes elements", function()
      local x = grid()
      x[1][2] = -1
      x[{2, 2}] = -2
      x:set(3, 2, -3)
      assert.tensor_equal({-1, -2, -3}, x[{{}, 2}])
      assert.equal(x, x:set(1, 1, 5))
      local v = moon.zeros(3)
      v[-1] = 2.5
      v[1] = 1
      assert.tensor_equal({1, 0, 2.5}, v)
    end)

    it("fills views with scalars", function()
      local x = moon.zeros(3, 3, "int64")
      x[2] = 5
      x[{{}, {3, 1, -2}}] = 7
      assert.tensor_equal({{7, 0, 7}, {7, 5, 7}, {7, 0, 7}}, x)
      x[{}] = 1
      assert.tensor_equal(moon.ones(3, 3, "int64"), x)
    end)

    it("broadcasts and casts tensors and tables", function()
      local x = moon.zeros(2, 3)
      x[1] = moon.tensor({1, 2, 3})
      x[2] = {4, 5, 6}
      assert.tensor_equal(moon.tensor({{1, 2, 3}, {4, 5, 6}}, "float32"), x)
      x[{}] = moon.tensor({7, 8, 9})
      assert.tensor_equal(moon.tensor({{7, 8, 9}, {7, 8, 9}}, "float32"), x)
      x[{{}, 1}] = {0, 1}
      assert.tensor_equal(moon.tensor({{0, 8, 9}, {1, 8, 9}}, "float32"), x)
      x[{1, 1}] = moon.tensor(4)
      assert.equal(4.0, x(1, 1))
    end)

    it("survives overlap", function()
      local x = moon.arange(6)
      x[{{2, 6}}] = x[{{1, 5}}]
      assert.tensor_equal({0, 0, 1, 2, 3, 4}, x)
      x[{}] = x:flip()
      assert.tensor_equal({4, 3, 2, 1, 0, 0}, x)
    end)

    it("checks values", function()
      local x = moon.zeros(2, "int8")
      assert.error_matches(function() x[1] = 200 end, "200 is out of range for int8")
      assert.error_matches(function() x[1] = 1.5 end, "1.5 has a fraction")
      assert.error_matches(function() x[1] = "1" end, "a string cannot be assigned to int8 elements")
      assert.error_matches(function() x[1] = nil end, "nil cannot be assigned")
      assert.error_matches(function() x[3] = 1 end, "index 3 is out of range 1..2")
      assert.error_matches(function() x[0] = 1 end, "index 0 is out of range")
      assert.error_matches(function() x[{{1, 2}}] = {1, 2, 3} end, "%[3%]")
      assert.tensor_equal(moon.zeros(2, "int8"), x)
    end)

    it("keeps booleans and complex values", function()
      local b = moon.zeros(2, "bool")
      b[1] = true
      assert.is_true(b[1])
      assert.is_false(b[2])
      local z = moon.zeros(2, "complex128")
      z[1] = moon.complex(1, -2)
      z[2] = 3
      assert.equal(moon.complex(1, -2), z[1])
      assert.equal(moon.complex(3, 0), z[2])
      assert.error_matches(function() moon.zeros(1)[1] = moon.complex(1, 1) end, "imaginary part")
    end)
  end)

  it("leaves no heap of dead views behind in a loop", function()
    local pipe = assert(io.popen([[lua5.4 -e '
      local x, hold = require "moontensor".zeros(3, 4), {}
      for i = 1, 20000 do hold[i] = {} end
      collectgarbage()
      local before = collectgarbage "count"
      for _ = 1, 1000000 do local _ = x[2] end
      print((collectgarbage "count" - before) // 1024, #hold)']]))
    local megabytes = pipe:read "n"
    pipe:close()
    assert.is_true(megabytes < 8, megabytes .. " MB left; Lua's own pace leaves 13")
  end)

  it("calls with one integer a dimension", function()
    local x = grid()
    assert.equal(11, x(3, 4))
    assert.equal(11, x(-1, -1))
    assert.error_matches(function() return x(1) end, "1 indices for a 2%-d tensor")
    assert.error_matches(function() return x(1, 5) end, "index 5 is out of range 1..4")
    assert.error_matches(function() x:set(1, 2) end, "1 indices for a 2%-d tensor")
    assert.equal(2.5, moon.tensor(2.5)())
  end)

  it("reads the one element", function()
    assert.equal(5, moon.tensor({{5}}):item())
    assert.error_matches(function() moon.zeros(2):item() end, "item%(%) takes a tensor with one element, this one has shape %[2%]")
  end)

  it("goes to tables and back", function()
    local x = grid():t()[{{1, 2}}]
    assert.same({{0, 4, 8}, {1, 5, 9}}, x:totable())
    assert.tensor_equal(x, moon.tensor(x:totable()))
    assert.equal(7, moon.tensor(7):totable())
    assert.same({{}, {}}, moon.zeros(2, 0):totable())
  end)
end)
