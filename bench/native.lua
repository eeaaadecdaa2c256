-- Whole native tensors against NumPy and torch, in one process and in turns, on one thread and on two. Writes its own section
-- of bench/RESULTS.md, and bench/native.png: cost by size.
--
--   make bench                              with everything else
--   lua5.4 bench/native.lua --rounds 5      a quick look
--   lua5.4 bench/native.lua --only copy     rows whose name holds the text; prints, writes nothing
--   lua5.4 bench/native.lua --no-curves     the table alone; --curves: the picture alone

local moon = require "moontensor"
local py = require "moontensor.python"
local here = arg[0]:match "^(.*)/[^/]*$" or "."
py.import "sys".path:insert(0, here)
local torch = require "moontensor.torch"
local reference = py.import "native_reference"

local ROUNDS, ONLY, CURVES, TABLE = 15, nil, true, true
for i = 1, #arg do
  if arg[i] == "--rounds" then ROUNDS = tonumber(arg[i + 1]) end
  if arg[i] == "--only" then ONLY = arg[i + 1] end
  if arg[i] == "--no-curves" then CURVES = false end
  if arg[i] == "--curves" then TABLE = false end
end

local clock, pause = reference.clock, reference.pause

local function median(list)
  local sorted = table.move(list, 1, #list, 1, {})
  table.sort(sorted)
  local middle = #sorted // 2
  return #sorted % 2 == 1 and sorted[middle + 1] or (sorted[middle] + sorted[middle + 1]) / 2
end

local function lua_timer(body)
  return function(n)
    local start = clock()
    for _ = 1, n do body() end
    return (clock() - start) / n * 1e9
  end
end

---Medians of each side over rounds in which all took turns, and of the rounds' ratios to the better of the others.
local function compare(sides, n, rounds)
  local times = {}
  for name, side in pairs(sides) do
    times[name] = {}
    side(n)
  end
  local order = {}
  for name in pairs(sides) do order[#order + 1] = name end
  table.sort(order)
  for round = 1, rounds do
    for k = 1, #order do
      local name = order[(k + round) % #order + 1]
      pause()
      times[name][round] = sides[name](n)
    end
  end
  local best
  for _, name in ipairs(order) do
    if name ~= "ours" and (not best or median(times[name]) < median(times[best])) then best = name end
  end
  local ratios = {}
  for round = 1, rounds do ratios[round] = times.ours[round] / times[best][round] end
  return times, best, median(ratios)
end

local results = {}
local function wanted(name) return TABLE and (not ONLY or name:find(ONLY, 1, true)) end

---One row for each number of threads; statements in Python may be missing on one side.
local function row(name, budget, scope, body, in_torch, in_numpy)
  if not wanted(name) then return end
  for threads = 1, 2 do
    moon.set_num_threads(threads)
    torch.set_num_threads(threads)
    local sides = {ours = lua_timer(body)}
    if in_torch then sides.torch = reference.timer(scope, in_torch) end
    if in_numpy then sides.NumPy = reference.timer(scope, in_numpy) end
    local times, best, ratio = compare(sides, 1, ROUNDS)
    local verdict = not budget and "–" or ratio <= budget and "within" or ratio <= budget * 1.25 and "near" or "missed"
    local result = {name = name, threads = threads, ours = median(times.ours), best = best, theirs = median(times[best]),
      ratio = ratio, budget = budget, verdict = verdict}
    results[#results + 1] = result
    print(("%-24s %d %9.2f ms  %-6s %9.2f ms  ratio %-5.2f budget %-4s %s"):format(name, threads, result.ours / 1e6, best,
      result.theirs / 1e6, ratio, budget or "–", verdict))
  end
end

local N, SIDE = 16 << 20, 4096

local function main_rows()
  local scope = reference.operands(N, SIDE)
  local function native(name) return moon.from(scope[{name}], {copy = true}) end
  local x, y, o, h, k, oh = native "t_x", native "t_y", native "t_o", native "t_h", native "t_k", native "t_oh"
  local ob, obf, d, i8, c = native "t_ob", native "t_obf", native "t_d", native "t_i8", native "t_c"
  local s = moon.rand(2 * N)[{{1, -1, 2}}]
  local m, om = x:view(-1, SIDE), o:view(-1, SIDE)
  local mt = m:t()
  local into, into_bool, into_half = {out = o}, {out = ob}, {out = oh}
  row("copy", 1, scope, function() o:copy_(x) end, "t_o.copy_(t_x)", "np.copyto(n_o, n_x)")
  row("strided copy", 1, scope, function() o:copy_(s) end, "t_o.copy_(t_s)", "np.copyto(n_o, n_s)")
  row("transposed copy", 1.5, scope, function() om:copy_(mt) end, "t_om.copy_(t_m.t())", "np.copyto(n_om, n_m.T)")
  row("float32 to float16", 1, scope, function() oh:copy_(x) end, "t_oh.copy_(t_x)",
    "np.copyto(n_oh, n_x, casting='unsafe')")
  row("float16 to float32", 1, scope, function() o:copy_(h) end, "t_o.copy_(t_h)", "np.copyto(n_o, n_h)")
  row("float32 to bfloat16", 1, scope, function() obf:copy_(x) end, "t_obf.copy_(t_x)")
  row("int8 to float32", 1, scope, function() o:copy_(i8) end, "t_o.copy_(t_i8)", "np.copyto(n_o, n_i8)")
  row("float64 to float32", 1, scope, function() o:copy_(d) end, "t_o.copy_(t_d)",
    "np.copyto(n_o, n_d, casting='unsafe')")
  row("add", 1, scope, function() moon.add(x, y, into) end, "torch.add(t_x, t_y, out=t_o)", "np.add(n_x, n_y, out=n_o)")
  row("where, new", 1.5, scope, function() local _ <close> = moon.where(c, x, y) end, "torch.where(t_c, t_x, t_y)",
    "np.where(n_c, n_x, n_y)")
  -- every other operator of ops.def, by NumPy's name where that differs
  local names = {sub = "subtract", mul = "multiply", div = "divide", pow = "power", atan2 = "arctan2", neg = "negative",
    asin = "arcsin", acos = "arccos", atan = "arctan", eq = "equal", ne = "not_equal", lt = "less", le = "less_equal",
    gt = "greater", ge = "greater_equal", angle = false, erf = false, rsqrt = false}
  for line in io.lines(here .. "/../src/core/ops.def") do
    local class, name, kinds = line:match "^OP%((%u+), ([%w_]+), (%u+)"
    -- conj is a view in torch
    if class and class ~= "REDUCE" and kinds ~= "BITS" and name ~= "add" and name ~= "conj" then
      local two = class == "BINARY" or class == "COMPARE" or class == "LOGICAL"
      local truth = class == "COMPARE" or class == "TEST" or class == "LOGICAL" or class == "NOT"
      local f, target, other = moon[name], truth and into_bool or into, names[name]
      local given, out = two and "%s_x, %s_y" or "%s_x", truth and "ob" or "o"
      -- torch writes isfinite and its kin into nothing that is there
      local in_torch = class == "TEST" and "torch." .. name .. "(t_x)"
        or ("torch.%s(%s, out=t_%s)"):format(name, given:gsub("%%s", "t"), out)
      local in_numpy = other ~= false and ("np.%s(%s, out=n_%s)"):format(other or name, given:gsub("%%s", "n"), out)
      row(name, 1.5, scope, two and function() f(x, y, target) end or function() f(x, target) end, in_torch, in_numpy or nil)
    end
  end
  for _, name in ipairs {"min", "max", "argmin", "argmax", "any", "all", "var", "std", "prod"} do
    row(name, 1.5, scope, function() x[name](x) end, ("t_x.%s()"):format(name),
      (name == "var" or name == "std") and ("n_x.%s(ddof=1)"):format(name) or ("n_x.%s()"):format(name))
  end
  row("cumsum", 1.5, scope, function() local _ <close> = x:cumsum(1) end, "t_x.cumsum(0)", "n_x.cumsum()")
  row("add, float16", 1.5, scope, function() moon.add(h, k, into_half) end, "torch.add(t_h, t_k, out=t_oh)",
    "np.add(n_h, n_k, out=n_oh)")
  row("sum", 1, scope, function() x:sum() end, "t_x.sum()", "n_x.sum()")
  row("mean over dim 2", 1.5, scope, function() m:mean(2) end, "t_m.mean(1)", "n_m.mean(1)")
  row("mean over dim 1", 1.5, scope, function() m:mean(1) end, "t_m.mean(0)", "n_m.mean(0)")
end

main_rows()
collectgarbage()
py.import "gc".collect()

local function large_row()
  local scope = reference.large_operand(4 * N)
  local x = moon.rand(4 * N)
  row("clone of 64 M", 1, scope, function() local _ <close> = x:clone() end, "t_x.clone()", "n_x.copy()")
end
large_row()
collectgarbage()

local function product_row()
  local scope = reference.products(1024)
  local a, b = moon.rand(1024, 1024), moon.rand(1024, 1024)
  row("matmul, 1024 by 1024", nil, scope, function() local _ <close> = a:matmul(b) end, "t_a @ t_b", "n_a @ n_b")
end
product_row()
collectgarbage()

-- ---- cost by size ----

local function curves(path)
  local threads = 2
  moon.set_num_threads(threads)
  torch.set_num_threads(threads)
  local sizes, data = {}, {}
  for power = 10, 26 do sizes[#sizes + 1] = 1 << power end
  local operations = {
    {"add: x + y, new", function(x, y) local _ <close> = x + y end, "t_x + t_y", "n_x + n_y"},
    {"copy: clone, new", function(x) local _ <close> = x:clone() end, "t_x.clone()", "n_x.copy()"},
    {"exp, new", function(x) local _ <close> = x:exp() end, "torch.exp(t_x)", "np.exp(n_x)"},
    {"sum", function(x) local _ <close> = x:sum() end, "t_x.sum()", "n_x.sum()"},
  }
  for _, operation in ipairs(operations) do
    data[operation[1]] = {moontensor = py.list {}, torch = py.list {}, NumPy = py.list {}}
  end
  for _, n in ipairs(sizes) do
    local scope = reference.large_operand(n)
    scope[{"t_y"}] = torch.rand(n)
    scope[{"n_y"}] = scope[{"t_y"}]:numpy()
    local x, y = moon.rand(n), moon.rand(n)
    for _, operation in ipairs(operations) do
      local body = operation[2]
      local sides = {ours = lua_timer(function() body(x, y) end), torch = reference.timer(scope, operation[3]),
        NumPy = reference.timer(scope, operation[4])}
      local times = compare(sides, math.max(1, (1 << 17) // n), n > 1 << 22 and 5 or 9)
      local lists = data[operation[1]]
      lists.moontensor:append(median(times.ours))
      lists.torch:append(median(times.torch))
      lists.NumPy:append(median(times.NumPy))
    end
    x:free()
    y:free()
    print(("%d elements measured"):format(n))
  end
  reference.draw(data, sizes, path, "Cost by size: moontensor and torch on two threads, NumPy on its one")
  print("wrote " .. path)
end

-- ---- its section of RESULTS.md ----

local HEADING = "## Whole native tensors"

local function write_section(path)
  local kept = ""
  local old = io.open(path)
  if old then
    kept = old:read "a"
    old:close()
  end
  local from = kept:find("\n" .. HEADING, 1, true)
  if from then kept = kept:sub(1, from) end
  local out = assert(io.open(path, "w"))
  out:write(kept:gsub("\n*$", "\n\n"), HEADING, "\n\n")
  out:write(("`bench/native.lua`, %s, instruction set %s: %d million float32 elements unless told otherwise, into memory that "
    .. "is there, medians of %d rounds in which all sides took turns. Against the better of torch on as many threads and "
    .. "NumPy on its one. `bench/native.png` shows the cost by size.\n\n"):format(os.date "!%Y-%m-%d",
    moon.instruction_set(), N >> 20, ROUNDS))
  out:write("| what | threads | ours | the better | its time | ratio | budget | verdict |\n|---|--:|--:|---|--:|--:|--:|---|\n")
  for _, r in ipairs(results) do
    out:write(("| %s | %d | %.2f ms | %s | %.2f ms | %.2f | %s | %s |\n"):format(r.name, r.threads, r.ours / 1e6, r.best,
      r.theirs / 1e6, r.ratio, r.budget and ("≤ %g"):format(r.budget) or "–", r.verdict))
  end
  out:close()
  print("wrote " .. path)
end

if not ONLY then
  if TABLE then write_section(here .. "/RESULTS.md") end
  if CURVES then curves(here .. "/native.png") end
end
