-- Every operator, dtype and layout against NumPy and torch (spec/support/reference.py), through the bridge, over the same
-- memory. Shapes and values are random: MOONTENSOR_SEED repeats a run. What the references do otherwise is in
-- spec/differences.lua.

local exchange = require "spec.support.exchange"
local differences = require "spec.differences"
local moon, py = exchange.moon, exchange.py

py.import "sys".path:append "spec/support"
local reference = py.import "reference"

local SEED = math.tointeger(tonumber(os.getenv "MOONTENSOR_SEED" or os.time() % 100000))

local DTYPES = {"bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "bfloat16",
  "float32", "float64", "complex64", "complex128", "float8_e4m3fn", "float8_e5m2"}
local BITS = {bfloat16 = "uint16", float8_e4m3fn = "uint8", float8_e5m2 = "uint8"} -- NumPy lacks these
local LAYOUTS = {"contiguous", "strided", "transposed", "reversed", "broadcast", "offset"}

-- Units in the last place that a float result may differ by; 0 where it is not named. Complex: relative to the magnitude.
local ULP = {pow = 2, atan2 = 4, rsqrt = 2, exp = 4, expm1 = 4, log = 4, log1p = 4, log2 = 4, log10 = 4, sin = 4, cos = 4, tan = 4,
  asin = 4, acos = 4, atan = 4, sinh = 4, cosh = 4, tanh = 4, erf = 4}
local COMPLEX_ULP = {mul = 4, div = 8, pow = 16, sqrt = 8, rsqrt = 16, exp = 8, log = 8, log2 = 8, log10 = 8, sin = 8, cos = 8, tan = 16,
  asin = 64, acos = 64, atan = 64, sinh = 8, cosh = 8, tanh = 16, abs = 4, angle = 8}

-- the operators as core has them
local operators, reductions = {}, {}
for line in io.lines "src/core/ops.def" do
  local class, name = line:match "^OP%((%u+), ([%w_]+), "
  if class == "REDUCE" then
    reductions[#reductions + 1] = name
  elseif class then
    local binary = class == "BINARY" or class == "COMPARE" or class == "LOGICAL"
    operators[#operators + 1] = {name = name, arity = binary and 2 or 1}
  end
end

local function kind_of(dtype)
  return dtype == "bool" and "B" or dtype:find "^int" and "I" or dtype:find "^uint" and "U" or dtype:find "^complex" and "C" or "F"
end

-- ---- random tensors ----

local pools = {}
local POOL = 6000

local function pool(dtype, tame)
  local key = dtype .. (tame and " tame" or "")
  if not pools[key] then
    local raw = moon.from(reference.pool(dtype, SEED, POOL, tame or false), {copy = true})
    pools[key] = BITS[dtype] and raw:view(dtype) or raw
  end
  return pools[key]
end

local EXTENTS = {1, 2, 3, 3, 4, 5, 7}
local seen -- what the shapes were

local function product(shape)
  local n = 1
  for _, extent in ipairs(shape) do n = n * extent end
  return n
end

local function random_shape(least)
  local r, shape = math.random(), {}
  local n = math.max(least, r < 0.08 and 0 or math.random(1, r < 0.6 and 3 or 6))
  for d = 1, n do shape[d] = EXTENTS[math.random(#EXTENTS)] end
  if n > 0 and n < 3 and math.random() < 0.1 then shape[math.random(n)] = math.random(300, 700) end -- more than a block
  if product(shape) >= POOL // 3 then return random_shape(least) end
  if n > 0 and math.random() < 0.08 then shape[math.random(n)] = 0 end
  return shape
end

local function contiguous(dtype, shape, tame)
  local n, from = product(shape), pool(dtype, tame)
  return from:narrow(1, math.random(POOL - n), n):clone():reshape(shape)
end

-- a tensor of that shape whose memory looks as the layout's name says
local LAY = {contiguous = function(dtype, shape, tame) return contiguous(dtype, shape, tame) end}

function LAY.strided(dtype, shape, tame)
  local wide, ranges = {}, {}
  for d, extent in ipairs(shape) do wide[d], ranges[d] = extent * 2, extent > 0 and {1, -1, 2} or {} end
  if product(wide) > POOL // 2 then return LAY.offset(dtype, shape, tame) end
  return #shape == 0 and contiguous(dtype, shape, tame) or contiguous(dtype, wide, tame)[ranges]
end

function LAY.transposed(dtype, shape, tame)
  local order, back, swapped = {}, {}, {}
  for d = 1, #shape do order[d] = d end
  for d = #shape, 2, -1 do
    local e = math.random(d)
    order[d], order[e] = order[e], order[d]
  end
  for d, from in ipairs(order) do swapped[d], back[from] = shape[from], d end
  local x = contiguous(dtype, swapped, tame)
  return #shape == 0 and x or x:permute(back)
end

function LAY.reversed(dtype, shape, tame)
  local x = contiguous(dtype, shape, tame)
  return #shape == 0 and x or x:flip({math.random(#shape)}):flip(math.random() < 0.5 and {1} or {})
end

function LAY.broadcast(dtype, shape, tame)
  local base = {}
  for d, extent in ipairs(shape) do base[d] = math.random() < 0.5 and extent or 1 end
  if #shape > 0 then base[math.random(#shape)] = 1 end
  return contiguous(dtype, base, tame):expand(shape)
end

function LAY.offset(dtype, shape, tame)
  local n = product(shape)
  return pool(dtype, tame):clone():narrow(1, math.random(POOL - n), n):reshape(shape)
end

local function random_tensor(dtype, layout, tame, shape)
  shape = shape or random_shape(layout == "contiguous" and 0 or 1)
  local x = LAY[layout](dtype, shape, tame)
  assert(#x.shape == #shape, layout)
  local n = product(shape)
  seen[n == 0 and "empty" or #shape == 0 and "0-d" or n == 1 and "one element" or ("%d-d"):format(#shape)] = true
  return x
end

local function some_layout() return LAYOUTS[math.random(#LAYOUTS)] end

-- a shape that broadcasts with it
local function beside(shape)
  local other = {}
  for d, extent in ipairs(shape) do other[d] = math.random() < 0.2 and 1 or extent end
  if #other > 0 and math.random() < 0.2 then table.remove(other, 1) end
  return other
end

-- ---- through the bridge ----

local function bits(x)
  return BITS[x.dtype] and x:view(BITS[x.dtype]):to_numpy() or x:to_numpy()
end

local function pair(x)
  return moon.is_tensor(x) and py.tuple {x.dtype, bits(x)} or x
end

local function result_of(ok, x)
  if not ok then return py.none end
  if type(x) == "boolean" then x = moon.tensor(x) end
  return pair(x)
end

-- ---- differences ----

for _, row in ipairs(differences) do
  row.met = false
  row.of = {}
  for _, name in ipairs(row.operators) do row.of[name] = true end
end

local function difference(name, kind)
  for _, row in ipairs(differences) do
    if row.of[name] and row.kinds:find(kind, 1, true) then
      row.met = true
      return row
    end
  end
  return {}
end

-- ---- what went wrong, all of it at the end ----

local function ledger()
  local list, cases, count = {}, 0, {}
  return {
    add = function(failure, key, ...)
      cases = cases + 1
      if failure == nil then return end
      count[key] = (count[key] or 0) + 1
      if count[key] > 1 then return end -- the first of each kind
      local what = {}
      for i, x in ipairs {...} do
        what[i] = moon.is_tensor(x) and ("%s%s strides %s"):format(x.dtype, x.shape, x:stride()) or tostring(x)
      end
      list[#list + 1] = ("%s(%s): %s"):format(key, table.concat(what, ", "), failure)
    end,
    close = function(text)
      print(("differential: %s, %d cases, seed %d"):format(text, cases, SEED))
      if #list > 0 then
        error(("%d kinds of failure with MOONTENSOR_SEED=%d:\n%s"):format(#list, SEED, table.concat(list, "\n", 1, math.min(#list, 60))), 0)
      end
    end,
  }
end

describe("differential:", function()
  teardown(function() pools = {} end)
  exchange.baseline(setup, teardown)

  setup(function()
    math.randomseed(SEED)
    seen = {}
  end)

  local function check_operator(book, op, operands)
    local dtypes = {}
    for i, x in ipairs(operands) do
      if moon.is_tensor(x) then dtypes[#dtypes + 1] = x.dtype end
      if op.name == "pow" and i == 2 and moon.is_tensor(x) and kind_of(x.dtype) == "I" then
        operands[i] = x:remainder(12):sub(2):to(x.dtype)
      end
    end
    local common = reference.common(py.list(dtypes))
    for _, x in ipairs(operands) do
      if math.type(x) == "float" and kind_of(common):find "[BIU]" then common = "float64" end
      if math.type(x) == "integer" and common == "bool" then common = "int64" end
    end
    local kinds = kind_of(common)
    local row = difference(op.name, kinds)
    local ok, got = pcall(moon[op.name], table.unpack(operands))
    local given = {}
    for i, x in ipairs(operands) do given[i] = pair(x) end
    local ulp = (kinds == "C" and COMPLEX_ULP or ULP)[op.name] or 0
    if BITS[common] or common == "float16" then ulp = math.min(ulp, 1) end
    local failure = reference.elementwise(op.name, py.list(given), result_of(ok, got), ulp, row.reference or py.none,
      row.refuses or false)
    book.add(failure, op.name .. " " .. table.concat(dtypes, " "), table.unpack(operands))
    return ok and got
  end

  it("each operator has a reference", function()
    for _, op in ipairs(operators) do
      assert.is_function(moon[op.name], op.name)
      assert.is_truthy(reference.OPERATORS:get(op.name), "no reference for " .. op.name)
    end
    for _, name in ipairs(reductions) do assert.is_truthy(reference.REDUCTIONS:get(name), "no reference for " .. name) end
    assert.is_true(#operators > 50 and #reductions > 10)
  end)

  it("operators, in every dtype and layout", function()
    local book = ledger()
    for _, op in ipairs(operators) do
      for _, dtype in ipairs(DTYPES) do
        for _, layout in ipairs(LAYOUTS) do
          local x = random_tensor(dtype, layout)
          local operands = {x}
          if op.arity == 2 then
            operands[2] = random_tensor(dtype, some_layout(), false, beside(x.shape))
          end
          check_operator(book, op, operands)
        end
      end
    end
    book.close(("%d operators x %d dtypes x %d layouts"):format(#operators, #DTYPES, #LAYOUTS))
  end)

  it("operators, of every pair of dtypes", function()
    local book, count = ledger(), 0
    for _, op in ipairs(operators) do
      if op.arity == 2 then
        count = count + 1
        for _, a in ipairs(DTYPES) do
          for _, b in ipairs(DTYPES) do
            local x = random_tensor(a, some_layout())
            check_operator(book, op, {x, random_tensor(b, some_layout(), false, beside(x.shape))})
          end
        end
      end
    end
    book.close(("%d operators x %d pairs of dtypes"):format(count, #DTYPES * #DTYPES))
  end)

  it("operators, of tensors and Lua numbers", function()
    local book, scalars, count = ledger(), {0, 3, -2, 300, 2.5, 0.0, true}, 0
    for _, op in ipairs(operators) do
      if op.arity == 2 then
        count = count + 1
        for _, dtype in ipairs(DTYPES) do
          for _, value in ipairs(scalars) do
            local x = random_tensor(dtype, some_layout())
            local first = op.name ~= "pow" and math.random() < 0.5
            check_operator(book, op, first and {value, x} or {x, value})
          end
        end
      end
    end
    book.close(("%d operators x %d dtypes x %d values"):format(count, #DTYPES, #scalars))
  end)

  it("in place and into out, as into a new tensor", function()
    local book = ledger()
    for _, op in ipairs(operators) do
      for _, dtype in ipairs(DTYPES) do
        for _, layout in ipairs(LAYOUTS) do
          local x = random_tensor(dtype, layout)
          local y = op.arity == 2 and random_tensor(dtype, some_layout(), false, x.shape) or nil
          if op.name == "pow" and kind_of(dtype) == "I" then y = y:abs() end
          local ok, new = pcall(moon[op.name], x, y)
          local failure
          if ok then
            local out = random_tensor(new.dtype, layout ~= "broadcast" and layout or "strided", false, x.shape)
            local arguments = {x, y}
            arguments[op.arity + 1] = {out = out}
            moon[op.name](table.unpack(arguments))
            if out:tobytes() ~= new:tobytes() then failure = "out= has other bytes" end
            if new.dtype == dtype and layout ~= "broadcast" then
              x[op.name .. "_"](x, y)
              if x:tobytes() ~= new:tobytes() then failure = "in place has other bytes" end
            end
          elseif pcall(moon.methods[op.name .. "_"], x, y) then
            failure = "in place is taken, a new tensor refused"
          end
          book.add(failure, op.name .. " " .. dtype, x, y)
        end
      end
    end
    book.close(("%d operators x %d dtypes x %d layouts in place and with out="):format(#operators, #DTYPES, #LAYOUTS))
  end)

  it("reductions", function()
    local book = ledger()
    for _, name in ipairs(reductions) do
      for _, dtype in ipairs(DTYPES) do
        for _, layout in ipairs(LAYOUTS) do
          for _, whole in ipairs {true, false} do
            local tame = (name == "sum" or name == "prod" or name == "mean" or name == "var" or name == "std")
            local x = random_tensor(dtype, layout, tame, not whole and random_shape(1) or nil)
            local dim = not whole and math.random(x.ndim) or nil
            local keep = math.random() < 0.5
            local row = difference(name, kind_of(dtype))
            local ok, got = pcall(moon[name], x, dim, {keepdim = keep})
            local failure = reference.reduction(name, pair(x), dim and dim - 1 or py.none, keep, result_of(ok, got),
              row.refuses or false)
            book.add(failure, name .. " " .. dtype, x, dim, keep)
          end
        end
      end
    end
    book.close(("%d reductions x %d dtypes x %d layouts, whole and by dimension"):format(#reductions, #DTYPES, #LAYOUTS))
  end)

  it("running totals and products of matrices", function()
    local book = ledger()
    for _, dtype in ipairs(DTYPES) do
      for _, layout in ipairs(LAYOUTS) do
        for _, name in ipairs {"cumsum", "cumprod"} do
          local x = random_tensor(dtype, layout, true, random_shape(1))
          local dim = math.random(x.ndim)
          book.add(reference.scan(name, pair(x), dim - 1, result_of(pcall(moon[name], x, dim))), name .. " " .. dtype, x, dim)
        end
        local shape = random_shape(2)
        local other = beside(shape)
        if #other < 2 then other = {table.unpack(shape)} end
        other[#other - 1], other[#other] = shape[#shape], math.random(0, 2)
        local x, y = random_tensor(dtype, layout, true, shape), random_tensor(dtype, some_layout(), true, other)
        book.add(reference.matmul(pair(x), pair(y), result_of(pcall(moon.matmul, x, y))), "matmul " .. dtype, x, y)
      end
    end
    book.close(("cumsum, cumprod and matmul x %d dtypes x %d layouts"):format(#DTYPES, #LAYOUTS))
  end)

  it("functions made of several operators", function()
    local book = ledger()
    local function check(name, dtype, operands, extra, axis)
      local given, arguments = {}, {}
      for i, x in ipairs(operands) do given[i], arguments[i] = pair(x), x end
      for _, value in ipairs(extra) do arguments[#arguments + 1] = value end
      local got = moon[name](table.unpack(arguments))
      book.add(reference.composed(name, dtype, py.list(given), py.list(axis and {axis - 1} or extra), pair(got)),
        name .. " " .. dtype, table.unpack(arguments))
    end
    for _, dtype in ipairs(DTYPES) do
      local kind = kind_of(dtype)
      for _, layout in ipairs(LAYOUTS) do
        local x = random_tensor(dtype, layout, kind ~= "I" and kind ~= "U", {math.random(4), math.random(5), 3})
        local dim = math.random(3)
        if dtype ~= "int64" and dtype ~= "uint64" then check("norm", dtype, {x}, {dim}, dim) end
        if kind == "F" or dtype == "bool" or dtype:find "int8" then
          check("softmax", dtype, {x}, {dim}, dim)
          check("logsumexp", dtype, {x}, {dim}, dim)
        end
        if kind == "F" or kind == "C" then
          local y = random_tensor(dtype, some_layout(), true, x.shape)
          check("lerp", dtype, {x, y}, {0.25})
          check("lerp", dtype, {x, y}, {0.75})
          local a, b = x:select(1, 1):select(1, 1), y:select(1, 1):select(1, 1)
          check("outer", dtype, {a, b}, {})
          check("dot", dtype, {a, b}, {})
          if kind == "F" then check("clamp", dtype, {x}, {-1, 0.5}) end
        end
      end
    end
    book.close(("norm, softmax, logsumexp, lerp, outer, dot, clamp x %d dtypes x %d layouts"):format(#DTYPES, #LAYOUTS))
  end)

  it("casts between all pairs of dtypes", function()
    local book = ledger()
    for _, from in ipairs(DTYPES) do
      for _, to in ipairs(DTYPES) do
        for _, layout in ipairs(LAYOUTS) do
          local x = random_tensor(from, layout)
          book.add(reference.cast(pair(x), to, pair(x:astype(to))), from .. " to " .. to, x)
        end
        local whole = pool(from):narrow(1, 1, 1500)
        book.add(reference.cast(pair(whole), to, pair(whole:astype(to))), from .. " to " .. to, whole)
      end
    end
    book.close(("casts of %d pairs of dtypes x %d layouts"):format(#DTYPES * #DTYPES, #LAYOUTS))
  end)

  it("copies and views, byte for byte", function()
    -- a: (2, 3, 4), all sizes known; ours, and NumPy's
    local calls = {
      {"clone", "a"}, {"contiguous", "a"}, {"t", "a.T", 2}, {"transpose", "a.swapaxes(0, 2)", 1, 3},
      {"permute", "a.transpose(2, 0, 1)", {3, 1, 2}}, {"movedim", "np.moveaxis(a, 0, 2)", 1, 3},
      {"reshape", "a.reshape(4, -1)", 4, -1}, {"flatten", "a.reshape(-1)"}, {"flatten", "a.reshape(2, 12)", 2, 3},
      {"unsqueeze", "a[:, None]", 2}, {"squeeze", "a.squeeze()"}, {"flip", "np.flip(a, (0, 2))", 1, 3},
      {"diagonal", "a.diagonal(1, 1, 2)", 1, 2, 3},
      {"narrow", "a[:, 1:3]", 2, 2, 2}, {"select", "a[:, :, 3]", 3, 4}, {"slice", "a[:, :, 3:0:-2]", 3, 4, 2, -2},
      {"unfold", "np.lib.stride_tricks.sliding_window_view(a, 2, 2)", 3, 2, 1},
      {"tile", "np.tile(a, (2, 1, 3))", 2, 1, 3}, {"repeat_interleave", "np.repeat(a, 3, 1)", 3, 2},
      {"repeat_interleave", "np.repeat(a, 2)", 2}, {"repeat_interleave", "np.repeat(a, [0, 2, 1], 1)", {0, 2, 1}, 2},
      {"roll", "np.roll(a, 2)", 2}, {"roll", "np.roll(a, (1, -2), (0, 2))", {1, -2}, {1, 3}},
      {"split", "np.split(a, 3, 1)", 1, 2}, {"chunk", "np.split(a, 2, 2)", 2, 3},
    }
    local book = ledger()
    for _, dtype in ipairs(DTYPES) do
      for _, layout in ipairs(LAYOUTS) do
        local x = random_tensor(dtype, layout, false, {2, 3, 4})
        local y = random_tensor(dtype, some_layout(), false, {2, 3, 4})
        local function compare(name, expression, ...)
          local got = {...}
          if type(got[1]) == "table" then got = got[1] end
          for i, t in ipairs(got) do got[i] = bits(t) end
          book.add(reference.moved(expression, py.list {bits(x), bits(y)}, py.list(got)), name .. " " .. dtype, x, y)
        end
        for _, call in ipairs(calls) do
          if call[1] == "t" then
            compare("t", "a[0].T", x[1]:t())
          else
            compare(call[1], call[2], x[call[1]](x, table.unpack(call, 3)))
          end
        end
        compare("cat", "np.concatenate([a, b, a], 1)", moon.cat({x, y, x}, 2))
        compare("stack", "np.stack([a, b], 3)", moon.stack({x, y}, 4))
        local same = moon.from(bits(x)):eq(moon.from(bits(y)))
        compare("where", "np.where(a == b, a, b[:, :1])", moon.where(same, x, y[{{}, {1, 1}}]))
        compare("expand", "np.broadcast_to(a, (5, 2, 3, 4))", x:expand(5, 2, 3, 4))
        compare("copy_", "b", moon.zeros_like(x):copy_(y))
        compare("copy_ crosswise", "b.transpose(2, 1, 0)", moon.zeros(4, 3, 2, dtype):copy_(y:permute(3, 2, 1)))
        compare("indexing", "a[1, ::-1, 1:4:2]", x[{2, {3, 1, -1}, {2, 4, 2}}])
        if kind_of(dtype) == "C" then
          compare("real", "a.real", x:real())
          compare("imag", "a.imag", x:imag())
        end
      end
    end
    book.close(("%d copies and views x %d dtypes x %d layouts"):format(#calls + 9, #DTYPES, #LAYOUTS))
  end)

  it("shapes of all kinds were among them, and every listed difference", function()
    for _, kind in ipairs {"0-d", "empty", "one element", "1-d", "2-d", "3-d", "4-d", "5-d", "6-d"} do
      assert.is_true(seen[kind], kind)
    end
    for _, row in ipairs(differences) do
      assert.is_true(row.met, "never met: " .. row.why)
    end
  end)
end)
