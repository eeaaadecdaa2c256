-- Measure every row against its named reference: both in one process and one run, in turns, medians of many short
-- rounds. Writes bench/RESULTS.md.
--
--   make bench                            everything
--   lua5.4 bench/run.lua --rounds 5       a quick look
--   lua5.4 bench/run.lua --only crossing  rows whose group or name holds the text; prints, writes nothing

local moon = require "moontensor"
local py = require "moontensor.python"
local here = arg[0]:match "^(.*)/[^/]*$" or "."
py.import "sys".path:insert(0, here)
package.path = here .. "/?.lua;" .. package.path
local torch = require "moontensor.torch"
local reference = py.import "reference"

local ROUNDS, ONLY = 41, nil
for i = 1, #arg do
  if arg[i] == "--rounds" then ROUNDS = tonumber(arg[i + 1]) end
  if arg[i] == "--only" then ONLY = arg[i + 1] end
end

-- both sides of a row see the same torch
torch.set_num_threads(1)
local clock = reference.clock
local timer = reference.timer

---Nanoseconds a step of body(n), as a user writes it or with the GIL kept.
local function lua_timer(body, hold)
  local function once(n)
    local start = clock()
    body(n)
    return (clock() - start) / n * 1e9
  end
  if not hold then return once end
  return function(n) return py.hold(once, n) end
end

local function median(list)
  table.sort(list)
  local middle = #list // 2
  return #list % 2 == 1 and list[middle + 1] or (list[middle] + list[middle + 1]) / 2
end

---Run ours and theirs in turns, theirs for n * more steps. Returns both medians and the median of the rounds' ratios.
local function compare(ours, theirs, n, rounds, more)
  if more then
    local once = theirs
    theirs = function(m) return once(m * more) end
  end
  local a, b, ratios = {}, {}, {}
  collectgarbage() -- a row pays for its own garbage alone
  collectgarbage()
  ours(n)
  theirs(n)
  for round = 1, rounds do
    if round % 2 == 0 then
      a[round], b[round] = ours(n), theirs(n)
    else
      b[round] = theirs(n)
      a[round] = ours(n)
    end
    ratios[round] = a[round] / b[round]
  end
  return median(a), median(b), median(ratios)
end

local results = {}
local function report(row)
  row.verdict = not row.ratio and "not measured" or not row.budget and "–"
    or row.ratio <= row.budget and "within" or row.ratio <= row.budget * 1.25 and "near" or "missed"
  results[#results + 1] = row
  print(("%-11s %-44s %11s %11s  ratio %-7s budget %-5s %s"):format(row.group, row.name, row.ours or "–",
    row.theirs or "–", row.ratio and ("%.2f"):format(row.ratio) or "–", row.budget or "–", row.verdict))
end

local function wanted(group, name)
  return not ONLY or group:find(ONLY, 1, true) or name:find(ONLY, 1, true)
end

local function ns(value)
  return value < 1e4 and ("%.0f ns"):format(value) or value < 1e7 and ("%.1f µs"):format(value / 1e3)
    or ("%.1f ms"):format(value / 1e6)
end

---One row: body is a Lua loop, statement its CPython counterpart or a function of n.
local function row(group, name, budget, body, against, statement, options)
  if not wanted(group, name) then return end
  options = options or {}
  local theirs = type(statement) == "string" and timer(statement) or statement
  local ours = options.timed and body or lua_timer(body, options.hold)
  local ok, a, b, ratio = pcall(compare, ours, theirs, options.n or 2000, options.rounds or ROUNDS,
    options.more)
  if ok then
    report {group = group, name = name, reference = against, budget = budget, ours = ns(a), theirs = ns(b),
      ratio = ratio}
  else
    report {group = group, name = name, reference = against, budget = budget, note = tostring(a):match "[^\n]*"}
  end
end

-- ---- crossings ----

local math_, p, t = py.import "math", reference.p, reference.t
local sqrt, items, z, named, fail = math_.sqrt, reference.items, reference.z, reference.named, reference.fail
-- name, CPython's statement, a loop of ours; has_budget: the design names one
local CROSSINGS = {
  {"sqrt(2.0)", "sqrt(2.0)", function(n) for _ = 1, n do sqrt(2.0) end end, has_budget = true},
  {"p.x", "p.x", function(n) for _ = 1, n do local _ = p.x end end, has_budget = true},
  {"p:m(i)", "p.m(i)", function(n) for i = 1, n do p:m(i) end end, has_budget = true},
  -- a read and a call, so two crossings
  {"math.sqrt(2.0)", "math.sqrt(2.0)", function(n) for _ = 1, n do math_.sqrt(2.0) end end},
  {"items[7]", "items[7]", function(n) for _ = 1, n do local _ = items[7] end end},
  {"z + z", "z + z", function(n) for _ = 1, n do local _ = z + z end end},
  {"named(py.kw{value = i})", "named(value=i)", function(n) for i = 1, n do named(py.kw {value = i}) end end},
  {"for v in py.iter(items)", "for v in items: pass", function(n)
    for _ = 1, n do for v in py.iter(items) do local _ = v end end
  end, each = 100},
  {"pcall(fail)", "try: fail()\nexcept ValueError: pass", function(n) for _ = 1, n do pcall(fail) end end},
}
local function crossings(group, options, budget)
  for _, c in ipairs(CROSSINGS) do
    local n = c.each and options.n // c.each or options.n
    row(group, c[1], c.has_budget and budget or nil, c[3], "CPython loop", c[2], {hold = options.hold, n = n,
      rounds = options.rounds, more = options.more})
  end
end
crossings("crossing", {n = 2000}, 4)
crossings("under hold", {n = 2000, hold = true}, 2)
-- a crossing waits up to a switch interval for a thread that does not let go. Every side runs for many switch intervals.
if wanted("beside busy", "") then
  py.with(reference.busy, function()
    crossings("beside busy", {n = 100000, rounds = 3, more = 20})
    crossings("busy, held", {n = 100000, hold = true, rounds = 3, more = 20})
  end)
end

-- the least that the C API allows, in a module that does nothing else: what a budget under hold can ask for
local found, floor = pcall(function() return py.hold(require, "floor") end)
if found then
  local bare = {x = floor(py.id(p), "x"), m = floor(py.id(p), "m"), sqrt = floor(py.id(sqrt), "call")}
  local function pair(name, ours, least, statement)
    row("floor", name, nil, least, "CPython loop", statement, {hold = true})
    local timed = lua_timer(least, true)
    row("above floor", name, 1.75, ours, "bench/floor.c", timed, {hold = true})
  end
  pair("sqrt(2.0)", function(n) for _ = 1, n do sqrt(2.0) end end, function(n) for _ = 1, n do bare.sqrt(2.0) end end,
    "sqrt(2.0)")
  pair("p.x", function(n) for _ = 1, n do local _ = p.x end end, function(n) for _ = 1, n do local _ = bare.x.x end end,
    "p.x")
  pair("p:m(i)", function(n) for i = 1, n do p:m(i) end end, function(n) for i = 1, n do bare.m:m(i) end end, "p.m(i)")
else
  print("no rows of the floor: " .. tostring(floor))
end

row("crossing", "t:add(1), 12 floats", 1.15, function(n) for _ = 1, n do local _ = t:add(1) end end, "CPython loop",
  "t.add(1)", {n = 500})
row("under hold", "t:add(1), 12 floats", nil, function(n) for _ = 1, n do local _ = t:add(1) end end, "CPython loop",
  "t.add(1)", {n = 500, hold = true})

local call_each, successor = reference.call_each, reference.successor
local function increment(i) return i + 1 end
row("callback", "Python calls function(i) return i + 1 end", 3, function(n) return call_each(increment, n) end,
  "Python function", function(n) return call_each(successor, n) end, {timed = true})

-- ---- exchange ----

local x = moon.zeros(3, 4)
local function exchange(group, hold)
  local options = {n = 1000, hold = hold}
  local function budget(value) return not hold and value or nil end
  row(group, "x:to_torch()", budget(1.0), function(n) for _ = 1, n do local _ = x:to_torch() end end,
    "torch.from_numpy(a)", "torch.from_numpy(a)", options)
  row(group, "moon.from(t)", budget(1.3), function(n) for _ = 1, n do local _ = moon.from(t) end end, "t.numpy()",
    "t.numpy()", options)
  row(group, "moon.from(t)", budget(0.25), function(n) for _ = 1, n do local _ = moon.from(t) end end,
    "torch.from_dlpack(t)", "torch.from_dlpack(t)", options)
  local unlocked = {lock = false}
  row(group, "moon.from(t, {lock = false})", budget(1.5),
    function(n) for _ = 1, n do local _ = moon.from(t, unlocked) end end, "tvm_ffi.from_dlpack(t)",
    "tvm_ffi.from_dlpack(t)", options)
  row(group, "x:to_numpy()", budget(1.0), function(n) for _ = 1, n do local _ = x:to_numpy() end end,
    "numpy.asarray(memoryview)", "np.asarray(memory)", options)
end
exchange("exchange", false)
exchange("held exch.", true)

-- ---- native ----

local native, other = moon.arange(8):astype "float32", moon.ones(8)
local matrix = moon.zeros(3, 4)
row("native", "x[{{2, 5}}]", 0.5, function(n) for _ = 1, n do local _ = native[{{2, 5}}] end end, "NumPy a[1:5]",
  "row[1:5]")
row("native", "x:narrow(1, 2, 4)", 0.5, function(n) for _ = 1, n do local _ = native:narrow(1, 2, 4) end end,
  "NumPy a[1:5]", "row[1:5]")
row("native", "x[3]", 0.5, function(n) for _ = 1, n do local _ = native[3] end end, "NumPy a[2]", "row[2]")
row("native", "x(2, 3)", 0.5, function(n) for _ = 1, n do local _ = matrix(2, 3) end end, "NumPy a[1, 2]", "a[1, 2]")
row("native", "x + y, 8 floats", 0.5, function(n) for _ = 1, n do local _ = native + other end end, "NumPy a + b",
  "row + other")

-- a slice is a userdata with a finalizer: the least that Lua asks for it, and the two tables of an index
if found then
  local userdata = floor(0, "userdata")
  local function made(n) for _ = 1, n do local _ = userdata(native) end end
  local function tables(n) for _ = 1, n do local _ = userdata({{2, 5}}) end end
  row("floor", "a userdata with a finalizer", nil, made, "NumPy a[1:5]", "row[1:5]")
  row("floor", "and {{2, 5}}", nil, tables, "NumPy a[1:5]", "row[1:5]")
  row("above floor", "x:narrow(1, 2, 4)", 1.75, function(n) for _ = 1, n do local _ = native:narrow(1, 2, 4) end end,
    "bench/floor.c", lua_timer(made))
  row("above floor", "x[{{2, 5}}]", 1.75, function(n) for _ = 1, n do local _ = native[{{2, 5}}] end end, "bench/floor.c",
    lua_timer(tables))
end

-- ---- the digits loop ----

if wanted("digits", "training epoch") then
  local ok, message = pcall(function()
    local Run, digits = require "digits", py.import "digits"
    local data = digits.data()
    local EPOCHS = math.min(ROUNDS, 25)
    local ours = Run.new(data[0], data[1], EPOCHS, 1)
    local theirs = digits.Run(data[0], data[1], EPOCHS, 1)
    local function timed(f) return function() local start = clock() f() return (clock() - start) * 1e9 end end
    local a, b, ratio = compare(timed(function() ours:epoch() end), timed(function() theirs:epoch() end), 1, EPOCHS - 1)
    report {group = "digits", name = "training epoch, 45 batches of 32", reference = "bench/digits.py", budget = 1.05,
      ours = ns(a), theirs = ns(b), ratio = ratio}
  end)
  if not ok then report {group = "digits", name = "training epoch", note = tostring(message), budget = 1.05} end
end

-- ---- other processes ----

local python = py.import "sys".executable
local function lines_of(command)
  local pipe = assert(io.popen(command))
  local lines = {}
  for line in pipe:lines() do lines[#lines + 1] = line end
  pipe:close()
  return lines
end

if wanted("lupa", "lupa") then
  local ours, theirs = {}, {}
  for _ = 1, math.max(3, ROUNDS // 8) do
    for _, line in ipairs(lines_of(("'%s' '%s/lupa_side.py' 2>/dev/null"):format(python, here))) do
      local name, value = line:match "^(.*)\t(.*)$"
      theirs[name] = theirs[name] or {}
      table.insert(theirs[name], tonumber(value))
    end
    for _, c in ipairs(CROSSINGS) do
      ours[c[1]] = ours[c[1]] or {}
      for _ = 1, 8 do table.insert(ours[c[1]], lua_timer(c[3])(c.each and 20 or 2000)) end
    end
  end
  for _, c in ipairs(CROSSINGS) do
    local name = c[1]
    if theirs[name] then
      local a, b = median(ours[name]), median(theirs[name])
      report {group = "lupa", name = name, reference = "lupa's Lua side", budget = c.has_budget and 0.6, ours = ns(a),
        theirs = ns(b), ratio = a / b}
    else
      report {group = "lupa", name = name, reference = "lupa's Lua side", budget = c.has_budget and 0.6,
        note = next(theirs) and "lupa cannot do that" or "lupa is not installed"}
    end
  end
end

if wanted("memory", "peak RSS") then
  local lua = arg[-1] or "lua5.4"
  local a = lines_of(("'%s' '%s/memory.lua'"):format(lua, here))[1] or ""
  local b = lines_of(("'%s' '%s/memory.py'"):format(python, here))[1] or ""
  local ours, done = a:match "(%d+)%s+(%d+)"
  local theirs = b:match "(%d+)"
  local entry = {group = "memory", name = "peak RSS, 500 temporaries of 64 MB", reference = "Python", budget = 1.2}
  if ours and theirs then
    entry.ours, entry.theirs = ("%d MiB"):format(ours // 1024), ("%d MiB"):format(theirs // 1024)
    entry.ratio = ours / theirs
    if done ~= "500" then
      entry.note = ("stopped after %s of 500 at 4 GiB: the ratio is a lower bound; charging Lua's collector for "
        .. "tensors is not built yet"):format(done)
    end
  else
    entry.note = "did not run"
  end
  report(entry)
end

-- ---- RESULTS.md ----

local function machine()
  local model, cores = "unknown processor", 0
  for line in io.lines "/proc/cpuinfo" do
    model = line:match "^model name%s*:%s*(.*)" or model
    if line:find "^processor" then cores = cores + 1 end
  end
  return ("%s, %d cores"):format(model, cores)
end

local function write_results(path)
  local out = assert(io.open(path, "w"))
  local platform = py.import "platform"
  out:write("# Results of `make bench`\n\n", ("%s. %s, CPython %s, torch %s, NumPy %s, %s. %s.\n\n"):format(
    machine(), _VERSION, platform.python_version(), torch.__version__, py.import "numpy".__version__, moon._VERSION,
    os.date "!%Y-%m-%d"))
  out:write("Ratio: ours over the reference's, the median of ", ROUNDS, " rounds in which both took turns; lower is ",
    "faster. Torch runs on one thread. Rows without a budget are for comparison. \"near\" is over the budget by no ",
    "more than a quarter.\n\n| group | what | ours | reference | its time | ratio | budget | verdict |\n",
    "|---|---|--:|---|--:|--:|--:|---|\n")
  local notes = {}
  for _, r in ipairs(results) do
    local mark = ""
    if r.note then
      notes[#notes + 1] = r.note
      mark = " (" .. #notes .. ")"
    end
    out:write(("| %s | `%s` | %s | %s | %s | %s | %s | %s%s |\n"):format(r.group, r.name, r.ours or "–",
      r.reference or "–", r.theirs or "–", r.ratio and ("%.2f"):format(r.ratio) or "–",
      r.budget and ("≤ %g"):format(r.budget) or "–", r.verdict, mark))
  end
  out:write "\n"
  for i, note in ipairs(notes) do out:write(("%d. %s\n"):format(i, note)) end
  out:close()
  print("wrote " .. path)
end

if not ONLY then write_results(here .. "/RESULTS.md") end
