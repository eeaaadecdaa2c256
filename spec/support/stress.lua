-- Every function of the native side once, with the collector as eager as it can be: a full collection at every VM
-- instruction (first argument "full"), or a step at every allocation ("step"). A finalizer that frees what is still in use, a value
-- that nothing anchors: they show here, best under valgrind or ASan. spec/stress_spec.lua runs both.

local moon = require "moontensor"

local BRIDGE = {to_torch = true, to_numpy = true, to_dlpack = true, memoryview = true}

-- what is called is noted, so that nothing is left out
local called = {}
local function note(from, prefix)
  for name, f in pairs(from) do
    if type(f) == "function" then
      called[prefix .. name] = false
      from[name] = function(...)
        called[prefix .. name] = true
        return f(...)
      end
    end
  end
end

local methods = moon.methods
for name in pairs(BRIDGE) do methods[name] = nil end
note(moon, "moon.")
note(methods, "x:")

local function creation()
  moon.tensor({{1, 2}, {3, 4.5}})
  moon.tensor({"18446744073709551615"}, "uint64")
  moon.tensor({moon.complex(1, 2)})
  moon.zeros(2, 3, {dtype = "int16", device = "cpu", readonly = true})
  moon.ones(2); moon.empty(2); moon.full({2}, 3); moon.arange(5); moon.linspace(0, 1, 3); moon.eye(2)
  local x = moon.rand(2, 2, {generator = moon.generator(1)})
  moon.zeros_like(x); moon.ones_like(x); moon.empty_like(x, "float64"); moon.full_like(x, 2)
  moon.manual_seed(1)
  moon.randn(3); moon.randint(5, {2}); moon.randperm(4)
  moon.from_string("\1\2", "uint8")
  moon.from_string("\1\2", "uint8", {copy = false})
  local function owner() return x end
  moon.from_pointer(debug.upvalueid(owner, 1), "uint8", 8, {owner = owner, readonly = true})
  moon.from(x, {copy = true, dtype = "float64"})
  moon.from({1, 2}, {dtype = "int8"})
  moon.is_tensor(x)
end

local function views()
  local x = moon.arange(24):view(2, 3, 4)
  x:narrow(1, 1, 1); x:select(2, 1); x:slice(3, 4, 1, -1); x:transpose(1, 2); x:permute({3, 1, 2}); x:movedim(1, 3)
  x[1]:t(); x:t_or_self(); x:reshape(6, -1); x:transpose(1, 2):reshape(24); x:flatten(); x:unsqueeze(1):squeeze()
  x:expand(5, 2, 3, 4); x:flip({1}); x:diagonal(); x:unfold(3, 2, 1); x:real(); x:split(1); x:chunk(2, 3)
  moon.split(x, {1, 1}); moon.chunk(x, 2); moon.broadcast_to(moon.tensor(1), {2, 2})
  moon.tensor(moon.complex(1, 2)):imag()
  x:size(); x:size(1); x:stride(); x:numel(); x:dim(); x:element_size(); x:nbytes(); x:data_ptr(); x:is_contiguous()
  x:is_shared()
  local _ = {x.shape, x.ndim, x.dtype, x.device, x.readonly, #x, x.shape == x.shape, "a" .. x.shape, tostring(x.shape)}
end

local function indexing()
  local x = moon.arange(6):view(2, 3)
  local _ = {x[1], x[1][2], x[{2, {1, 2}}], x[{{}, {3, 1, -1}}], x(1, 2), x[3]}
  x[1] = 5; x[1] = {1, 2, 3}; x[{{}, 1}] = moon.tensor(7); x[1][1] = 2
  x:set(1, 1, 3)
  local i, mask = moon.tensor({2, 1}), x:gt(2)
  _ = {x[i], x[{1, i}], x[mask], x[{moon.tensor {1}, {1, 2}}], x:gather(1, {{1, 2, 1}}), x:index_select(2, {3, 1}), x:nonzero()}
  x[i] = x; x[{i, {2, 3}}] = {5, 6}; x[mask] = 0
  x:masked_select(mask); x:masked_fill_(mask, 4); x:scatter_(2, i:unsqueeze(2), {{1}, {2}})
  moon.tensor(5):item(); x:totable(); x:tostring(); x:tostring(1, 1); x:summary()
  for _, row in ipairs(x) do tostring(row) end
end

local function copies()
  local x = moon.arange(4):view(2, 2)
  x:clone(); x:t():contiguous(); x:astype "float32"; x:to("int8"); x:t():tobytes(); x:copy_({{1, 2}, {3, 4}}); x:fill_(1)
  x:zero_()
  moon.equal(x, x); moon.allclose(x, x, {rtol = 0}); moon.shares(x, x)
  moon.cat({x, x}, 2); moon.stack({x, x}); moon.where(x, x, 0); moon.meshgrid(x[1], x[1])
  x:tile(2, 1); x:repeat_interleave(2); x:repeat_interleave(moon.tensor({1, 2}), 1); x:roll({1, 1}, {1, 2}); x:t():roll(1)
  x:clone():resize_(1, 1, 1, 9)
  local y <close> = x:clone()
  x:clone():free()
  return y
end

local function files()
  local name = os.tmpname()
  local x, y = moon.arange(4):view(2, 2), moon.tensor({1.5}, "bfloat16")
  moon.save(name .. ".npy", x:t())
  moon.load(name .. ".npy")
  moon.save(name .. ".npz", {a = x, b = x:t()}, {order = {"b", "a"}})
  moon.load(name .. ".npz")
  moon.save(name .. ".safetensors", {a = x, b = y}, {metadata = {k = "v"}, order = {"b", "a"}})
  moon.load(name .. ".safetensors")
  pcall(moon.load, name .. ".none.npz")
  pcall(moon.save, name .. ".npz", {a = x, b = y})
  moon.mmap(name, "int32", 2, {mode = "w+", offset = 4}):fill_(1)
  moon.mmap(name, "uint8")
  for _, ending in ipairs {"", ".npy", ".npz", ".safetensors"} do os.remove(name .. ending) end
end

local function operators()
  local x, y = moon.tensor({1, 2, 4}), moon.tensor({0.5, 0.25, 0.125}, "float64")
  local results = {x + y, x - 1, 2 * x, x / y, x // 2, x % 2, x ^ 2, -x, x & 1, x | 1, x ~ 1, ~x}
  -- an operator takes one operand or two, and its form in place may have to refuse its result
  for name in pairs(called) do
    local module, op = name:match "^(moon%.)([%w_]+)$"
    if module and methods[op] and op ~= "split" and op ~= "chunk" then
      pcall(methods[op], x, x)
      pcall(methods[op], y)
      pcall(moon[op], y, y)
      pcall(moon[op], y)
      if methods[op .. "_"] then
        pcall(methods[op .. "_"], y:clone(), y)
        pcall(methods[op .. "_"], y:clone())
      end
      pcall(methods[op], y, 1)
      pcall(methods[op], y, y, {out = y:clone()})
    end
  end
  x:clamp_(0, 1)
  moon.cumsum(y, 1); moon.cumprod(y, 1); moon.lerp(y, y, y); y:clone():lerp_(1, 0.5); moon.tile(y, 2); moon.roll(y, 1)
  moon.repeat_interleave(y, 2); moon.methods.cumsum(y, 1); moon.methods.cumprod(y, 1)
  return results
end

local function world()
  local z = moon.complex(1, 2)
  local _ = {z + 1, 1 - z, z * z, z / z, -z, tostring(z), z == z, z.re, z:abs(), z:arg(), z:conj()}
  moon.get_num_threads(); moon.set_num_threads(moon.get_num_threads()); moon.instruction_set(); moon.empty_cache()
  moon.stats(); moon.gc(); moon.devices(); moon.device(); moon.device "none"; moon.synchronize(); moon.printoptions()
end

function methods.t_or_self(x) return x end

local function all()
  creation(); views(); indexing(); copies(); files(); operators(); world()
end

if arg[1] == "step" then
  collectgarbage("incremental", 1, 1000, 1) -- a step at every allocation
elseif arg[1] == "full" then
  debug.sethook(function() collectgarbage() end, "", 1)
end
all()
debug.sethook()
collectgarbage("incremental", 200, 100, 13)
moon.gc()
local missed = {}
for name, was in pairs(called) do
  if not was then missed[#missed + 1] = name end
end
table.sort(missed)
assert(#missed == 0, "not called: " .. table.concat(missed, " "))
local stats = moon.stats()
assert(stats.storages == 0 and stats.bytes == 0, "left alive: " .. stats.storages)
print "stressed"
