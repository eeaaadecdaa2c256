local exchange = require "spec.support.exchange"
local indices = require "spec.support.indices"
local moon, py, torch, np = exchange.moon, exchange.py, exchange.torch, exchange.np
local failure, has = exchange.failure, exchange.has

local SEED = tonumber(os.getenv "SEED") or 20261201

-- the element of NumPy's selection, and what assigning one by one in row-major order leaves
local get = py.eval "lambda a, k: __import__('numpy').asarray(a[k])"
local space = py.dict {}
py.exec([[
import numpy as np
def put(a, k, v):
    places = np.asarray(np.arange(a.size).reshape(a.shape)[k])
    values = np.broadcast_to(np.asarray(v).astype(a.dtype), places.shape)
    flat = a.reshape(-1).copy()
    for place, value in zip(places.ravel(), values.ravel()): flat[place] = value
    return flat.reshape(a.shape)
]], space)
local put = space[{"put"}]

local function native(array) return moon.from(array, {copy = true}) end

local function describe_key(key)
  if moon.is_tensor(key) then return tostring(key) end
  local parts = {}
  for i, entry in ipairs(key) do
    parts[i] = type(entry) == "table" and "{" .. table.concat(entry, ", ") .. "}" or tostring(entry)
  end
  return "{" .. table.concat(parts, ", ") .. "}"
end

describe("indexing by tensors", function()
  exchange.baseline(setup, teardown)

  local function grid() return moon.arange(12):view(3, 4) end -- 0..3, 4..7, 8..11

  describe("reads", function()
    it("rows by an integer tensor, in its order and shape, as a copy", function()
      local x = grid()
      local rows = x[moon.tensor {3, 1, 3}]
      assert.tensor_equal({{8, 9, 10, 11}, {0, 1, 2, 3}, {8, 9, 10, 11}}, rows)
      rows:zero_()
      assert.tensor_equal(grid(), x)
      assert.tensor_equal({{{0, 1, 2, 3}}, {{8, 9, 10, 11}}}, x[moon.tensor {{1}, {-1}}])
      assert.tensor_equal({4, 5, 6, 7}, x[moon.tensor(2)])
      assert.same({0, 4}, x[moon.tensor({}, "int64")].shape)
      assert.tensor_equal({30, 10}, moon.tensor({10, 20, 30})[moon.tensor({-1, 1}, "int8")])
    end)

    it("places in several dimensions, broadcast together", function()
      local x = grid()
      assert.tensor_equal({3, 4}, x[{moon.tensor {1, 2}, moon.tensor {4, 1}}])
      assert.tensor_equal({{3, 2}, {7, 6}}, x[{moon.tensor {{1}, {2}}, moon.tensor {4, 3}}])
      assert.tensor_equal({5, 9}, x[{moon.tensor {2, 3}, 2}])
      assert.tensor_equal({{3, 0}, {7, 4}, {11, 8}}, x[{{}, moon.tensor {-1, 1}}])
      assert.tensor_equal({{9, 10}, {1, 2}}, x[{moon.tensor {3, 1}, {2, 3}}])
      assert.tensor_equal({{10, 9}, {2, 1}}, x[{moon.tensor {3, 1}, {3, 2, -1}}])
    end)

    it("with the indices' dimensions in their place where they are neighbours, else in front", function()
      local x, i, j = moon.zeros(3, 4, 5, 6), moon.tensor {1, 2}, moon.tensor {{1}, {2}, {3}}
      assert.same({3, 2, 5, 6}, x[{{}, i}].shape)
      assert.same({3, 3, 2, 6}, x[{{}, i, j}].shape)
      assert.same({3, 2, 4, 6}, x[{i, {}, j}].shape)
      assert.same({2, 4, 5}, x[{1, {}, {}, i}].shape) -- an integer beside a tensor is an index like it
      assert.same({3, 2, 6}, x[{{}, 1, i}].shape)
      assert.same({2, 3, 5}, x[{{}, 1, {}, i}].shape)
    end)

    it("where a mask is true", function()
      local x = grid()
      assert.tensor_equal({9, 10, 11}, x[x:gt(8)])
      assert.tensor_equal({{0, 1, 2, 3}, {8, 9, 10, 11}}, x[moon.tensor {true, false, true}])
      assert.tensor_equal({{1}, {5}, {9}}, x[{{}, moon.tensor {false, true, false, false}}])
      assert.tensor_equal({0, 11}, x[{moon.tensor {true, false, true}, moon.tensor {1, 4}}])
      assert.same({0}, x[x:gt(99)].shape)
      assert.tensor_equal({7}, moon.tensor(7)[moon.tensor(true)])
      assert.same({0}, moon.tensor(7)[moon.tensor(false)].shape)
      assert.same({1, 3, 4}, x[moon.tensor(true)].shape)
    end)
  end)

  describe("assigns", function()
    it("values, broadcast and cast", function()
      local x = grid()
      x[moon.tensor {1, 3}] = -1
      assert.tensor_equal({{-1, -1, -1, -1}, {4, 5, 6, 7}, {-1, -1, -1, -1}}, x)
      x[{{}, moon.tensor {4, 1}}] = {10, 20}
      assert.tensor_equal({{20, -1, -1, 10}, {20, 5, 6, 10}, {20, -1, -1, 10}}, x)
      x[x:eq(-1)] = moon.tensor({1, 2, 3, 4}, "float64")
      assert.tensor_equal({{20, 1, 2, 10}, {20, 5, 6, 10}, {20, 3, 4, 10}}, x)
      x[{moon.tensor {{1}, {2}}, moon.tensor {2, 3}}] = moon.tensor {{7}, {8}}
      assert.tensor_equal({{20, 7, 7, 10}, {20, 8, 8, 10}, {20, 3, 4, 10}}, x)
      local u = moon.zeros(3, "uint64")
      u[moon.tensor {2}] = "18446744073709551615"
      assert.equal("18446744073709551615", u:tostring(2))
      local b = moon.zeros(3, "bool")
      b[moon.tensor {3}] = true
      assert.same({false, false, true}, b:totable())
    end)

    it("the last of several values for one element", function()
      local x = moon.zeros(3, "int64")
      x[moon.tensor {1, 3, 1, 1}] = {1, 2, 3, 4}
      assert.tensor_equal({4, 0, 2}, x)
      x[moon.tensor {{-1, 3}, {3, -1}}] = {{1, 2}, {3, 4}}
      assert.tensor_equal({4, 0, 4}, x)
    end)

    it("from its own memory", function()
      local x = moon.arange(5)
      x[moon.tensor {1, 2, 3, 4, 5}] = x:flip()
      assert.tensor_equal({4, 3, 2, 1, 0}, x)
      x[moon.tensor {2, 3, 4, 5}] = x[{{1, 4}}]
      assert.tensor_equal({4, 4, 3, 2, 1}, x)
      local i = moon.tensor {3, 1, 2}
      i[i] = i
      assert.tensor_equal({1, 2, 3}, i)
      local j = moon.tensor {2, 3, 1}
      j[j] = 9
      assert.tensor_equal({9, 9, 9}, j)
      local b = moon.tensor {true, false, true}
      b[b] = false
      assert.same({false, false, false}, b:totable())
    end)

    it("through views", function()
      local x = grid()
      x:t()[{moon.tensor {1, 4}, {1, 2}}] = 0
      assert.tensor_equal({{0, 1, 2, 0}, {0, 5, 6, 0}, {8, 9, 10, 11}}, x)
    end)

    it("nothing where anything is wrong", function()
      local x = grid()
      local same = grid()
      has(failure(function() x[moon.tensor {1, 4}] = 0 end), "index 4 is out of range 1..3 of dimension 1")
      has(failure(function() x[{moon.tensor {1, 2}, moon.tensor {1, 0}}] = 0 end), "index 0 is out of range 1..4 of dimension 2")
      has(failure(function() x[moon.tensor {1, 2}] = {1, 2, 3} end), "shape [3] cannot be copied into shape [2, 4]")
      has(failure(function() x[moon.tensor {1, 2}] = 1.5 end), "1.5 has a fraction")
      has(failure(function() x[moon.tensor {1, 2}] = nil end), "nil cannot be assigned")
      has(failure(function() x[moon.tensor {1, 2}] = "1" end), "a string cannot be assigned to int64 elements")
      has(failure(function() x:scatter_(1, {{1, 2}, {3, 4}}, 0) end), "index 4 is out of range 1..3 of dimension 1")
      assert.tensor_equal(same, x)
      local closed = grid()
      closed:free()
      has(failure(function() closed[moon.tensor {1}] = 0 end), "tensor is closed")
      has(failure(function() return closed[moon.tensor {1}] end), "tensor is closed")
      has(failure(function() x[moon.tensor {1}] = closed end), "tensor is closed")
      has(failure(function() x[closed] = 0 end), "tensor is closed")
      has(failure(function() return x[{1, closed}] end), "tensor is closed")
      local locked = moon.tensor({1, 2}, {readonly = true})
      has(failure(function() locked[moon.tensor {1}] = 0 end), "tensor is read-only")
      has(failure(function() locked:masked_fill_(moon.tensor {true, true}, 0) end), "tensor is read-only")
      has(failure(function() moon.zeros(1):expand(3):scatter_(1, {1}, 0) end), "tensor is read-only")
    end)
  end)

  it("names what is wrong", function()
    local x = grid()
    has(failure(function() return x[moon.tensor {1.5}] end), "an index tensor holds integers or booleans, this one float32")
    has(failure(function() return x[moon.tensor {-4}] end), "index -4 is out of range 1..3 of dimension 1")
    has(failure(function() return x[moon.tensor({"18446744073709551615"}, "uint64")] end),
      "index 18446744073709551615 is out of range 1..3 of dimension 1")
    has(failure(function() return x[moon.tensor({math.mininteger}, "int64")] end), "index -9223372036854775808 is out of range 1..3")
    has(failure(function() return x[moon.tensor {true, false}] end), "a mask of shape [2] does not fit shape [3, 4] from dimension 1 on")
    has(failure(function() return x[{{}, {}, moon.tensor {1}}] end), "too many indices for a 2-d tensor")
    has(failure(function() return x[{moon.tensor {1}, 5}] end), "index 5 is out of range 1..4 of dimension 2")
    has(failure(function() return x[{moon.tensor {1}, "a"}] end), "entry 2 of an index is an integer, a range or a tensor, got string")
    has(failure(function() return x[{moon.tensor {1, 2}, moon.tensor {1, 2, 3}}] end), "shapes [2] and [3] do not broadcast")
    has(failure(function() return x[{{1, 2, 3, 1}}] end), "got 4 numbers; a list of indices is a tensor: moon.tensor{…}")
    has(failure(function() return moon.tensor(1)[moon.tensor {1}] end), "too many indices for a 0-d tensor")
    has(failure(function() return x[np.arange(2)] end), "got userdata; moon.from makes a tensor")
    has(failure(function() return moon.zeros(0)[moon.tensor {1}] end), "index 1 is out of range 1..0 of dimension 1")
  end)

  describe("methods", function()
    it("index_select", function()
      local x = grid()
      assert.tensor_equal({{3, 0}, {7, 4}, {11, 8}}, x:index_select(2, moon.tensor {4, 1}))
      assert.tensor_equal({{8, 9, 10, 11}}, x:index_select(-2, {-1}))
      assert.tensor_equal({{8, 9, 10, 11}}, x:index_select(1, moon.tensor(3)))
      assert.same({0, 4}, x:index_select(1, {}).shape)
      assert.tensor_equal(moon.tensor(5), moon.tensor(5):index_select(1, {1}))
      has(failure(x.index_select, x, 3, {1}), "bad argument #2 to", "dimension 3 is out of range 1..2")
      has(failure(x.index_select, x, 1, {4}), "index 4 is out of range 1..3 of dimension 1")
      has(failure(x.index_select, x, 1, {{1}}), "the index is 1-d, this one has 2 dimensions")
      has(failure(x.index_select, x, 1, moon.tensor {true}), "an index holds integers, this one booleans")
      has(failure(x.index_select, x, 1, 1), "tensor expected, got number")
    end)

    it("gather", function()
      local x = grid()
      assert.tensor_equal({{0, 5, 10, 3}}, x:gather(1, {{1, 2, 3, 1}}))
      assert.tensor_equal({{3, 0}, {4, 4}}, x:gather(2, moon.tensor {{4, 1}, {1, -4}}))
      has(failure(x.gather, x, 1, {{1, 2, 3, 1, 1}}), "an index of shape [1, 5] does not fit shape [3, 4]")
      has(failure(x.gather, x, 1, {1}), "an index of shape [1] does not fit shape [3, 4]")
      has(failure(x.gather, x, 1, {{0}}), "index 0 is out of range 1..3 of dimension 1")
    end)

    it("scatter_", function()
      local x = moon.zeros(3, 3, "int64")
      assert.equal(x, x:scatter_(1, {{1, 2, 3}}, {{7, 8, 9}}))
      assert.tensor_equal({{7, 0, 0}, {0, 8, 0}, {0, 0, 9}}, x)
      x:scatter_(2, {{3}, {1}}, 5)
      assert.tensor_equal({{7, 0, 5}, {5, 8, 0}, {0, 0, 9}}, x)
      x:scatter_(1, {{1, 1}, {1, 2}}, moon.tensor({{1, 2, 3}, {4, 5, 6}, {7, 8, 9}}, "float64"))
      assert.tensor_equal({{4, 2, 5}, {5, 5, 0}, {0, 0, 9}}, x)
      x:scatter_(1, moon.tensor {{2, 3, 1}}, x[{{3, 3}}]) -- its own row
      assert.tensor_equal({{4, 2, 9}, {0, 5, 0}, {0, 0, 9}}, x)
      has(failure(x.scatter_, x, 1, {{1, 2}}, {{1}}), "an index of shape [1, 2] is larger than the source of shape [1, 1]")
      has(failure(x.scatter_, x, 1, {{1}}), "bad argument #4 to", "value expected")
    end)

    it("masked_select and masked_fill_", function()
      local x = grid()
      assert.tensor_equal({1, 2, 3}, x:masked_select(x:gt(0):logical_and(x:lt(4))))
      assert.tensor_equal({0, 3, 4, 7, 8, 11}, x:masked_select(moon.tensor {true, false, false, true}))
      assert.tensor_equal({5, 6, 5, 6}, moon.tensor({5, 6}):masked_select(moon.tensor {{true}, {true}}))
      assert.equal(x, x:masked_fill_(moon.tensor {{true}, {false}, {true}}, 9))
      assert.tensor_equal({{9, 9, 9, 9}, {4, 5, 6, 7}, {9, 9, 9, 9}}, x)
      x:masked_fill_(x:lt(9), moon.tensor({0.0}, "float64"))
      assert.tensor_equal({{9, 9, 9, 9}, {0, 0, 0, 0}, {9, 9, 9, 9}}, x)
      has(failure(x.masked_select, x, moon.tensor {1}), "a mask is a bool tensor, this one is int64; mask:ne(0) makes one")
      has(failure(x.masked_fill_, x, x:gt(0), moon.tensor {1, 2}), "a value or a tensor of one element expected")
      has(failure(x.masked_fill_, x, moon.tensor {true, false}, 1), "shape [2] cannot expand to [3, 4]")
      has(failure(x.masked_select, x, moon.tensor {true, false}), "shapes [3, 4] and [2] do not broadcast")
    end)

    it("nonzero", function()
      assert.tensor_equal({{1, 2}, {2, 1}}, moon.tensor({{0, 3}, {-1, 0}}):nonzero())
      assert.tensor_equal({{2}, {3}}, moon.tensor({0, 0.5, 0 / 0}):nonzero())
      assert.tensor_equal({{1, 1}, {2, 2}}, moon.eye(2, "bool"):flip():flip():nonzero())
      assert.same({1, 0}, moon.tensor(5):nonzero().shape)
      assert.same({0, 0}, moon.tensor(0):nonzero().shape)
      assert.same({0, 3}, moon.zeros(2, 0, 3):nonzero().shape)
      assert.equal("int64", moon.eye(2):nonzero().dtype)
      local x = grid()
      local i = x:gt(9):nonzero()
      assert.tensor_equal({10, 11}, x[{i:select(2, 1), i:select(2, 2)}])
    end)
  end)

  -- either both fail, or both give the same
  local function compare(label, ours, theirs)
    local ok, result = pcall(ours)
    local fine, expected = pcall(theirs)
    if ok ~= fine then
      error(("%s\n%s\nours: %s\ntheirs: %s"):format(label(), fine and "only ours fails" or "only theirs fails", result, expected), 0)
    end
    if not ok then return false end
    expected = native(expected)
    if result.shape ~= expected.shape or result.dtype ~= expected.dtype or result:tobytes() ~= expected:tobytes() then
      error(("%s\nours: %s\ntheirs: %s"):format(label(), result, expected), 0)
    end
    return true
  end

  it("reads and assigns what NumPy does, over random layouts and keys", function()
    math.randomseed(SEED)
    moon.manual_seed(SEED)
    local good, bad = 0, 0
    for case = 1, 600 do
      local shape = indices.shape(1, 4, 5)
      local x, a = indices.tensor(shape, indices.pick(indices.DTYPES))
      local key, theirs = indices.key(shape)
      local function label()
        return ("case %d of seed %d: %s%s by %s"):format(case, SEED, x.dtype, x.shape, describe_key(key))
      end
      local fine = compare(label, function() return x[key] end, function() return get(a, theirs) end)
      if fine then good = good + 1 else bad = bad + 1 end
      if fine then
        local part = x[key].shape
        local from = {}
        for d = math.random(1, #part + 1), #part do from[#from + 1] = math.random(3) == 1 and 1 or part[d] end
        local v, values = indices.tensor(from, indices.pick {"int64", "bool", x.dtype})
        if x.dtype:find "complex" or not v.dtype:find "complex" then
          compare(label, function()
            x[key] = v
            return x
          end, function() return put(a, theirs, values) end)
        end
      end
    end
    assert.is_true(good > 400 and bad > 10, ("%d cases compared, %d refused by both"):format(good, bad))
  end)

  it("moves the dtypes that NumPy lacks as bits", function()
    for dtype, bits in pairs {bfloat16 = "uint16", float8_e4m3fn = "uint8", float8_e5m2 = "uint8"} do
      local bytes = {}
      for i = 1, 24 * (bits == "uint16" and 2 or 1) do bytes[i] = string.char(math.random(0, 255)) end
      local x = moon.from_string(table.concat(bytes), dtype, {4, 6})
      local y = moon.from_string(table.concat(bytes), bits, {4, 6})
      local i, mask = moon.tensor {{4, 1}, {2, 2}}, moon.arange(24):view(4, 6) % 3
      for _, key in ipairs {i, {{}, i}, {i, {5, 1, -2}}, {i, 3}, mask:eq(1)} do
        assert.equal(y[key]:tobytes(), x[key]:tobytes())
        local to, other = x:clone(), y:clone()
        to[key] = x[key]:flip()
        other[key] = y[key]:flip()
        assert.equal(other:tobytes(), to:tobytes())
      end
    end
  end)

  it("gathers, scatters and masks as torch does", function()
    math.randomseed(SEED + 1)
    local function tensor(array) return torch.from_numpy(array) end
    for case = 1, 150 do
      local shape = indices.shape(1, 3, 5)
      local x, a = indices.tensor(shape, indices.pick {"int64", "float32", "float64", "uint8", "bool"})
      local t, dim = tensor(a), math.random(#shape)
      local index_shape = {}
      for d, extent in ipairs(shape) do index_shape[d] = d == dim and math.random(0, 4) or math.random(0, extent) end
      local index = indices.integers(index_shape, shape[dim])
      index = index:astype "int64"
      index = index + index:lt(0):astype "int64" * (shape[dim] + 1) -- torch takes no negative ones
      local theirs = tensor(indices.from_zero(index))
      local function label() return ("case %d: %s%s along %d by %s"):format(case, x.dtype, x.shape, dim, index) end
      compare(label, function() return x:gather(dim, index) end, function() return t:gather(dim - 1, theirs) end)
      local line, row = index:flatten(), theirs:flatten()
      compare(label, function() return x:index_select(dim, line) end, function() return t:index_select(dim - 1, row) end)
      compare(label, function() return x:nonzero() end, function() return t:nonzero():add(1) end)
      local mask = indices.mask(shape, math.random(0, 6))
      local over = tensor(mask:to_numpy {copy = true}:copy())
      compare(label, function() return x:masked_select(mask) end, function() return t:masked_select(over) end)
      compare(label, function() return x:clone():masked_fill_(mask, 1) end, function() return t:masked_fill(over, 1) end)
      local once = moon.tensor({}, "int64")
      if shape[dim] > 0 then -- every place once: torch leaves open which of several values stays
        once = moon.stack({moon.randperm(shape[dim])}):reshape(-1)
        for d = #shape, 1, -1 do
          if d < dim then once = once:unsqueeze(1) end
          if d > dim then once = once:unsqueeze(-1) end
        end
        once = once:expand(shape)
        local source, values = indices.tensor(shape, x.dtype)
        compare(label, function() return x:clone():scatter_(dim, once, source) end,
          function() return t:scatter(dim - 1, tensor(indices.from_zero(once)), tensor(values)) end)
      end
    end
  end)

  it("survives a collector at every instruction", function()
    local x = grid()
    local i, mask = moon.tensor {3, 1}, x:gt(5)
    local results = {}
    debug.sethook(function() collectgarbage "step" end, "", 1)
    for _ = 1, 3 do
      results[1] = x[moon.tensor {3, 1}]
      results[2] = x[{{}, moon.tensor {1, 2}}]
      results[3] = x[x:gt(5)]
      results[4] = x:clone():gather(1, moon.tensor {{1, 2}})
      results[5] = x:clone():index_select(2, {1, -1})
      results[6] = x:clone():masked_select(mask:clone())
      results[7] = x:clone():nonzero()
      results[8] = x:clone():scatter_(1, {{1}}, {{9}}):masked_fill_(mask:clone(), 1)
      local y = x:clone()
      y[moon.tensor {1, 2}] = {1, 2, 3, 4}
      y[{i:clone(), moon.tensor {1, 2}}] = moon.tensor {7, 8}
      results[9] = y
    end
    debug.sethook()
    assert.tensor_equal({{8, 9, 10, 11}, {0, 1, 2, 3}}, results[1])
    assert.tensor_equal({{0, 1}, {4, 5}, {8, 9}}, results[2])
    assert.tensor_equal({6, 7, 8, 9, 10, 11}, results[3])
    assert.tensor_equal({{0, 5}}, results[4])
    assert.tensor_equal({{0, 3}, {4, 7}, {8, 11}}, results[5])
    assert.tensor_equal({6, 7, 8, 9, 10, 11}, results[6])
    assert.tensor_equal({11, 2}, moon.tensor({table.unpack(results[7].shape)}))
    assert.tensor_equal({{9, 1, 2, 3}, {4, 5, 1, 1}, {1, 1, 1, 1}}, results[8])
    assert.tensor_equal({{1, 8, 3, 4}, {1, 2, 3, 4}, {7, 9, 10, 11}}, results[9])
  end)

  it("looks again after finalizers that free or change what it uses", function()
    local function attempt(change, use)
      local x, i, mask = grid(), moon.tensor {1, 2}, moon.tensor {true, false, true}
      local key = {i, {}}
      local fired = false
      setmetatable({}, {__gc = function()
        fired = true
        change(x, i, mask, key)
      end})
      local calls = 0
      while not fired and calls < 1e5 do -- the collector runs inside of an allocation of ours, sooner or later
        calls = calls + 1
        local ok, result = pcall(use, x, i, mask, key)
        if not ok then has(tostring(result), "tensor is closed") end
      end
      assert.is_true(fired)
    end
    collectgarbage "generational"
    for _ = 1, 20 do
      attempt(function(x) x:free() end, function(x, i) return x[i] end)
      attempt(function(_, i) i:free() end, function(x, i) return x[i] end)
      attempt(function(_, _, mask) mask:free() end, function(x, _, mask) return x[mask] end)
      attempt(function(_, _, _, key) key[1] = nil end, function(x, _, _, key) return x[key] end)
      attempt(function(x) x:free() end, function(x, _, mask) return x:masked_select(mask:unsqueeze(2)) end)
      attempt(function(_, i) i:free() end, function(x, i) return x:index_select(1, i) end)
      attempt(function(x) x:free() end, function(x) return x:nonzero() end)
    end
    collectgarbage "incremental"
  end)
end)
