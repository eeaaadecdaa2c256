-- A short script for every public function, method, metamethod and field of the native side, by name. spec/support/stress.lua
-- runs them under an eager collector, spec/sweep with allocations that fail.

local moon = require "moontensor"

local BRIDGE = {to_torch = true, to_numpy = true, to_dlpack = true, memoryview = true} -- scripts_python.lua has them

local scripts = {}
local function add(group)
  for name, f in pairs(group) do
    assert(scripts[name] == nil, name)
    scripts[name] = f
  end
end

-- the elements, in row-major order, as text
local function text(x)
  local parts = {}
  local flat <close> = x:reshape(-1)
  for i = 1, #flat do parts[i] = tostring(flat[i]) end
  return table.concat(parts, " ")
end

local function is(x, expected)
  local got = text(x)
  if got ~= expected then error(("%s, not %s"):format(got, expected), 2) end
end

-- f fails with a message that has the part; want of memory goes on
local function refuses(part, f, ...)
  local ok, e = pcall(f, ...)
  local message = tostring(e)
  if message:find "not enough memory" or message:find "out of memory" or message:find "MemoryError" then error(e, 0) end
  assert(not ok and message:find(part, 1, true), message)
end

local function upto(n) return moon.arange(1, n + 1) end
local function matrix() return upto(6):view(2, 3) end
local function cube() return upto(24):view(2, 3, 4) end
local function file(ending, f)
  local base = os.tmpname()
  local name <close> = setmetatable({}, {__close = function() os.remove(base) os.remove(base .. ending) end})
  f(base .. ending, name)
end

add {
  ["moon.tensor"] = function()
    is(moon.tensor({{1, 2}, {3, 4.5}}), "1.0 2.0 3.0 4.5")
    assert(moon.tensor({"18446744073709551615"}, "uint64"):tostring(1) == "18446744073709551615")
    is(moon.tensor({moon.complex(1, 2)}), "1+2i")
    is(moon.tensor(moon.tensor({1, 2}), {dtype = "int8", readonly = true}), "1 2")
  end,
  ["moon.zeros"] = function() is(moon.zeros(2, 1, {dtype = "int16", device = "cpu", readonly = true}), "0 0") end,
  ["moon.ones"] = function() is(moon.ones({2}), "1.0 1.0") end,
  ["moon.empty"] = function() assert(moon.empty(2, 3).ndim == 2) end,
  ["moon.full"] = function() is(moon.full({2}, 3, "int64"), "3 3") end,
  ["moon.arange"] = function() is(moon.arange(1, 6, 2), "1 3 5") end,
  ["moon.linspace"] = function() is(moon.linspace(0, 1, 3), "0.0 0.5 1.0") end,
  ["moon.eye"] = function() is(moon.eye(2), "1.0 0.0 0.0 1.0") end,
  ["moon.zeros_like"] = function() is(moon.zeros_like(moon.ones(2)), "0.0 0.0") end,
  ["moon.ones_like"] = function() is(moon.ones_like(moon.zeros(2)), "1.0 1.0") end,
  ["moon.empty_like"] = function() assert(moon.empty_like(moon.ones(2), "float64").dtype == "float64") end,
  ["moon.full_like"] = function() is(moon.full_like(moon.ones(2), 2), "2.0 2.0") end,
  ["moon.from_string"] = function()
    is(moon.from_string("\1\2", "uint8"), "1 2")
    is(moon.from_string("\1\2", "uint8", {copy = false}), "1 2")
  end,
  ["moon.from_pointer"] = function()
    local up = 1
    local function owner() return up end
    assert(moon.from_pointer(debug.upvalueid(owner, 1), "uint8", 8, {owner = owner, readonly = true}):numel() == 8)
  end,
  ["moon.from"] = function()
    local x = moon.ones(2)
    assert(moon.shares(x, moon.from(x)))
    is(moon.from(x, {copy = true, dtype = "float64"}), "1.0 1.0")
    is(moon.from({1, 2}, {dtype = "int8"}), "1 2")
    refuses("dtype", moon.from, {1, 2})
  end,
  ["moon.is_tensor"] = function() assert(moon.is_tensor(moon.ones(1)) and not moon.is_tensor {}) end,
}

add { -- random numbers
  ["moon.generator"] = function()
    local g = moon.generator(1)
    assert(moon.equal(moon.rand(2, {generator = g}), moon.rand(2, {generator = moon.generator(1)})))
  end,
  ["g:seed"] = function()
    local g = moon.generator()
    g:seed(3)
    assert(moon.equal(moon.rand(2, {generator = g}), moon.rand(2, {generator = moon.generator(3)})))
  end,
  ["moon.manual_seed"] = function()
    moon.manual_seed(1)
    local x = moon.rand(2)
    moon.manual_seed(1)
    assert(moon.equal(x, moon.rand(2)))
  end,
  ["moon.rand"] = function() assert(moon.rand(2, 2, "float64"):numel() == 4) end,
  ["moon.randn"] = function() assert(moon.randn(3):dim() == 1) end,
  ["moon.randint"] = function() is(moon.randint(5, 6, {2}), "5 5") end,
  ["moon.randperm"] = function() assert(moon.randperm(4):sum():item() == 10) end,
}

add { -- views, sizes and fields
  ["x:narrow"] = function() is(cube():narrow(3, 2, 1):select(1, 1), "2 6 10") end,
  ["x:select"] = function() is(matrix():select(2, 1), "1 4") end,
  ["x:slice"] = function() is(matrix():slice(2, 3, 1, -2), "3 1 6 4") end,
  ["x:transpose"] = function() is(matrix():transpose(1, 2), "1 4 2 5 3 6") end,
  ["x:permute"] = function() assert(tostring(cube():permute({3, 1, 2}).shape) == "[4, 2, 3]") end,
  ["x:movedim"] = function() assert(tostring(cube():movedim(1, 3).shape) == "[3, 4, 2]") end,
  ["x:t"] = function() is(matrix():t(), "1 4 2 5 3 6") end,
  ["x:view"] = function()
    is(matrix():view(3, -1), "1 2 3 4 5 6")
    is(moon.tensor({1}, "int32"):view("uint32"), "1")
    refuses("view", function() matrix():t():view(6) end)
  end,
  ["x:reshape"] = function() is(matrix():t():reshape(6), "1 4 2 5 3 6") end,
  ["x:flatten"] = function() is(matrix():t():flatten(), "1 4 2 5 3 6") end,
  ["x:squeeze"] = function() assert(moon.ones(1, 2, 1):squeeze().ndim == 1) end,
  ["x:unsqueeze"] = function() assert(moon.ones(2):unsqueeze(1).ndim == 2) end,
  ["x:expand"] = function() is(moon.tensor({1, 2}):expand(2, 2), "1 2 1 2") end,
  ["x:flip"] = function() is(matrix():flip({1}), "4 5 6 1 2 3") end,
  ["x:diagonal"] = function() is(matrix():diagonal(1), "2 6") end,
  ["x:unfold"] = function() is(upto(3):unfold(1, 2, 1), "1 2 2 3") end,
  ["x:real"] = function() is(moon.tensor({moon.complex(1, 2)}):real(), "1.0") end,
  ["x:imag"] = function() is(moon.tensor({moon.complex(1, 2)}):imag(), "2.0") end,
  ["x:split"] = function() assert(#matrix():split({1, 2}, 2) == 2) end,
  ["x:chunk"] = function() assert(#matrix():chunk(2, 2) == 2) end,
  ["moon.split"] = function() is(moon.split(upto(3), 2)[2], "3") end,
  ["moon.chunk"] = function() is(moon.chunk(upto(4), 2)[2], "3 4") end,
  ["moon.broadcast_to"] = function() is(moon.broadcast_to(moon.tensor(1), {2, 2}), "1 1 1 1") end,
  ["x:size"] = function() assert(matrix():size(2) == 3 and #matrix():size() == 2) end,
  ["x:stride"] = function() assert(matrix():stride(1) == 3 and matrix():t():stride()[1] == 1) end,
  ["x:numel"] = function() assert(matrix():numel() == 6) end,
  ["x:dim"] = function() assert(matrix():dim() == 2) end,
  ["x:element_size"] = function() assert(matrix():element_size() == 8) end,
  ["x:nbytes"] = function() assert(matrix():nbytes() == 48) end,
  ["x:data_ptr"] = function() assert(matrix():data_ptr() ~= 0) end,
  ["x:is_contiguous"] = function() assert(matrix():is_contiguous() and not matrix():t():is_contiguous()) end,
  ["x:is_shared"] = function() assert(not matrix():is_shared()) end,
  ["x.shape"] = function() assert(matrix().shape[2] == 3 and matrix().shape == matrix().shape) end,
  ["x.ndim"] = function() assert(matrix().ndim == 2) end,
  ["x.dtype"] = function() assert(matrix().dtype == "int64") end,
  ["x.device"] = function() assert(matrix().device == "cpu") end,
  ["x.readonly"] = function() assert(moon.zeros(1, {readonly = true}).readonly and not matrix().readonly) end,
  ["shape __eq"] = function() assert(moon.ones(2).shape == moon.zeros(2).shape) end,
  ["shape __tostring"] = function() assert(tostring(matrix().shape) == "[2, 3]") end,
  ["shape __concat"] = function() assert("a" .. matrix().shape .. "b" == "a[2, 3]b") end,
}

add { -- indexing and values
  ["tensor __index"] = function()
    local x, i = matrix(), moon.tensor({2, 1})
    is(x[1], "1 2 3")
    assert(x[1][2] == 2 and x[3] == nil)
    is(x[{2, {1, 2}}], "4 5")
    is(x[{{}, {3, 1, -1}}], "3 2 1 6 5 4")
    is(x[i], "4 5 6 1 2 3")
    is(x[{1, i}], "2 1")
    is(x[x:gt(4)], "5 6")
    is(x[{moon.tensor {1}, {1, 2}}], "1 2")
    refuses("range", function() return x[4] end)
  end,
  ["tensor __newindex"] = function()
    local x, i = matrix(), moon.tensor({2, 1})
    x[1] = 5
    x[1] = {1, 2, 3}
    x[{{}, 1}] = moon.tensor(7)
    x[1][1] = 2
    is(x, "2 2 3 7 5 6")
    x[i] = x
    is(x, "7 5 6 2 2 3")
    x[{i, {2, 3}}] = {0, 1}
    x[x:gt(5)] = 4
    is(x, "4 0 1 2 0 1")
    refuses("cannot be copied", function() x[1] = {1, 2} end)
  end,
  ["tensor __call"] = function() assert(matrix()(1, 2) == 2) end,
  ["tensor __lt"] = function() refuses("x:lt(y)", function() return moon.ones(1) < moon.ones(1) end) end,
  ["tensor __le"] = function() refuses("x:le(y)", function() return moon.ones(1) <= moon.ones(1) end) end,
  ["tensor __pairs"] = function() refuses("ipairs(x)", pairs, moon.ones(1)) end,
  ["tensor __len"] = function() assert(#matrix() == 2) end,
  ["tensor __tostring"] = function()
    assert(tostring(matrix()):find "6")
    assert(tostring(upto(2000)):find "2000")
  end,
  ["x:set"] = function() is(matrix():set(1, 1, 3), "3 2 3 4 5 6") end,
  ["x:item"] = function() assert(moon.tensor(5):item() == 5) end,
  ["x:totable"] = function() assert(matrix():totable()[2][3] == 6 and moon.tensor(1):totable() == 1) end,
  ["x:tostring"] = function() assert(matrix():tostring(1, 2) == "2" and matrix():tostring() == tostring(matrix())) end,
  ["x:summary"] = function() assert(matrix():t():summary():find "int64 %[3, 2%].*mean 3.5") end,
  ["x:gather"] = function() is(matrix():gather(1, {{1, 2, 1}}), "1 5 3") end,
  ["x:scatter_"] = function() is(matrix():scatter_(2, {{2}, {1}}, moon.tensor({{0}, {9}})), "1 0 3 9 5 6") end,
  ["x:index_select"] = function() is(matrix():index_select(2, {3, 1}), "3 1 6 4") end,
  ["x:masked_select"] = function() is(matrix():masked_select(matrix():gt(4)), "5 6") end,
  ["x:masked_fill_"] = function() is(matrix():masked_fill_(matrix():gt(2), 0), "1 2 0 0 0 0") end,
  ["x:nonzero"] = function() is(moon.tensor({0, 3}):nonzero(), "2") end,
}

add { -- copies, comparing, combining
  ["x:clone"] = function() is(matrix():t():clone(), "1 4 2 5 3 6") end,
  ["x:contiguous"] = function() is(matrix():t():contiguous(), "1 4 2 5 3 6") end,
  ["x:astype"] = function() is(upto(2):astype "float32", "1.0 2.0") end,
  ["x:to"] = function() is(upto(2):to("cpu", "int8"), "1 2") end,
  ["x:tobytes"] = function() assert(moon.tensor({{1, 2}, {3, 4}}, "int8"):t():tobytes() == "\1\3\2\4") end,
  ["x:copy_"] = function()
    local x = upto(4):view(2, 2)
    is(x:copy_({{4, 3}, {2, 1}}), "4 3 2 1")
    is(x:copy_(x:t()), "4 2 3 1")
  end,
  ["x:fill_"] = function() is(upto(2):fill_(7), "7 7") end,
  ["x:zero_"] = function() is(upto(2):zero_(), "0 0") end,
  ["x:free"] = function()
    local x = moon.ones(2)
    x:free()
    refuses("closed", x.sum, x)
  end,
  ["tensor __close"] = function() local _ <close> = moon.ones(2) end,
  ["tensor __gc"] = function() for _ = 1, 3 do moon.ones(20) end collectgarbage() end,
  ["moon.equal"] = function() assert(moon.equal(matrix(), matrix()) and not moon.equal(matrix(), moon.ones(1))) end,
  ["moon.allclose"] = function() assert(moon.allclose(matrix(), matrix(), {rtol = 0})) end,
  ["moon.shares"] = function()
    local x = matrix()
    assert(moon.shares(x, x:t()) and not moon.shares(x, x:clone()))
  end,
  ["moon.cat"] = function() is(moon.cat({matrix(), matrix()}, 2), "1 2 3 1 2 3 4 5 6 4 5 6") end,
  ["moon.stack"] = function() is(moon.stack({upto(2), upto(2)}, 2), "1 1 2 2") end,
  ["moon.where"] = function() is(moon.where(matrix():gt(4), matrix(), 0), "0 0 0 0 5 6") end,
  ["moon.meshgrid"] = function() is(select(2, moon.meshgrid(upto(2), upto(2))), "1 2 1 2") end,
  ["x:tile"] = function() is(upto(2):tile(2), "1 2 1 2") end,
  ["x:roll"] = function() is(matrix():t():roll({1, 1}, {1, 2}), "6 3 4 1 5 2") is(upto(3):roll(1), "3 1 2") end,
  ["x:repeat_interleave"] = function()
    is(upto(2):repeat_interleave(2), "1 1 2 2")
    is(matrix():repeat_interleave(moon.tensor({0, 2}), 1), "4 5 6 4 5 6")
  end,
  ["moon.tile"] = function() is(moon.tile(upto(2), 2), "1 2 1 2") end,
  ["moon.roll"] = function() is(moon.roll(upto(3), 1), "3 1 2") end,
  ["moon.repeat_interleave"] = function() is(moon.repeat_interleave(upto(2), 2), "1 1 2 2") end,
  ["x:resize_"] = function()
    is(upto(3):resize_(2), "1 2")
    assert(upto(3):resize_(1, 1, 1, 9):numel() == 9)
  end,
}

add { -- files
  ["moon.save"] = function()
    local x, y = upto(4):view(2, 2), moon.tensor({1.5}, "bfloat16")
    file(".npy", function(name) moon.save(name, x:t()) end)
    file(".npz", function(name)
      moon.save(name, {a = x, b = x:t()}, {order = {"b", "a"}})
      refuses("bfloat16", moon.save, name, {a = x, b = y})
    end)
    file(".safetensors", function(name) moon.save(name, {a = x, b = y}, {metadata = {k = "v"}, order = {"b", "a"}}) end)
  end,
  ["moon.load"] = function()
    local x, y = upto(4):view(2, 2), moon.tensor({1.5}, "bfloat16")
    file(".npy", function(name)
      moon.save(name, x:t())
      is(moon.load(name), "1 3 2 4")
    end)
    file(".npz", function(name)
      moon.save(name, {a = x, b = x:t()})
      is(moon.load(name).b, "1 3 2 4")
    end)
    file(".safetensors", function(name)
      moon.save(name, {a = x, b = y}, {metadata = {k = "v"}})
      local all, metadata = moon.load(name)
      is(all.b, "1.5")
      assert(metadata.k == "v")
    end)
    local none, message, number = moon.load "/none.npz"
    assert(none == nil and message:find "none.npz" and number == 2)
  end,
  ["moon.mmap"] = function()
    file("", function(name)
      assert(moon.mmap(name, "int32", 2, {mode = "w+", offset = 4})):fill_(1)
      is(assert(moon.mmap(name, "int32", {offset = 4})), "1 1")
    end)
  end,
}

add { -- the world
  ["moon.get_num_threads"] = function() assert(moon.get_num_threads() >= 1) end,
  ["moon.set_num_threads"] = function() moon.set_num_threads(moon.get_num_threads()) end,
  ["moon.instruction_set"] = function() assert(#moon.instruction_set() > 1) end,
  ["moon.empty_cache"] = function()
    moon.zeros(1 << 18):free()
    assert(moon.empty_cache() >= 0)
  end,
  ["moon.stats"] = function()
    moon.gc()
    local before = moon.stats().storages
    local x <close> = moon.ones(2)
    assert(moon.stats().storages == before + 1 and x)
  end,
  ["moon.gc"] = function() assert(moon.gc() >= 0) end,
  ["moon.devices"] = function() assert(moon.devices()[1] == "cpu") end,
  ["moon.device"] = function() assert(moon.device() == "cpu" and moon.device "none" == nil) end,
  ["moon.synchronize"] = function() moon.synchronize() end,
  ["moon.printoptions"] = function() assert(moon.printoptions().precision == 4) end,
}

add { -- complex values
  ["moon.complex"] = function() assert(moon.complex(1, 2) == moon.complex(1, 2)) end,
  ["complex __index"] = function() assert(moon.complex(1, 2).re == 1 and moon.complex(1, 2).im == 2) end,
  ["complex __newindex"] = function() refuses("complex", function() moon.complex(1, 2).re = 2 end) end,
  ["complex __tostring"] = function() assert(tostring(moon.complex(1, 2)) == "1+2i") end,
  ["complex __eq"] = function() assert(moon.complex(1) ~= moon.complex(2)) end,
  ["complex __add"] = function() assert(1 + moon.complex(1, 2) == moon.complex(2, 2)) end,
  ["complex __sub"] = function() assert(moon.complex(1, 2) - 1 == moon.complex(0, 2)) end,
  ["complex __mul"] = function() assert(moon.complex(1, 2) * moon.complex(0, 1) == moon.complex(-2, 1)) end,
  ["complex __div"] = function() assert(moon.complex(2, 4) / 2 == moon.complex(1, 2)) end,
  ["complex __unm"] = function() assert(-moon.complex(1, 2) == moon.complex(-1, -2)) end,
  ["z:abs"] = function() assert(moon.complex(3, 4):abs() == 5) end,
  ["z:arg"] = function() assert(moon.complex(1, 0):arg() == 0) end,
  ["z:conj"] = function() assert(moon.complex(1, 2):conj() == moon.complex(1, -2)) end,
}

-- ---- operators: as a method, of the module and in place; with a value, with an output and broadcast ----

local methods = moon.methods
local function each(names, f)
  for name in names:gmatch "%S+" do f(name) end
end
local function floats() return moon.tensor({0.5, 0.25}, "float64") end
local function out_of(x) return {out = moon.empty_like(x)} end

local function unary(name, operand)
  scripts["moon." .. name] = function() moon[name](operand()) end
  scripts["x:" .. name] = function()
    local x = operand()
    local r = methods[name](x)
    assert(moon.equal(r, methods[name](x, out_of(r))))
  end
  if methods[name .. "_"] then
    scripts["x:" .. name .. "_"] = function()
      local x = operand()
      local r = methods[name](x):to(x.dtype)
      assert(moon.equal(methods[name .. "_"](x), r))
    end
  end
end

local function binary(name, operand)
  scripts["moon." .. name] = function() moon[name](operand(), operand()) end
  scripts["x:" .. name] = function()
    local x, y = operand(), moon.stack({operand(), operand()})
    local r = methods[name](x, y)
    assert(moon.equal(r[1], methods[name](x, x)))
    methods[name](x, y, out_of(r))
    methods[name](x, 1)
  end
  if methods[name .. "_"] then
    scripts["x:" .. name .. "_"] = function()
      local x, y = operand(), operand()
      local r = methods[name](x, y):to(x.dtype)
      assert(moon.equal(methods[name .. "_"](x, y), r))
    end
  end
end

local function reduction(name, operand)
  scripts["moon." .. name] = function() assert(tostring(moon[name](operand())) ~= "") end
  scripts["x:" .. name] = function()
    local x = moon.stack({operand(), operand()})
    local all = methods[name](x[2])
    assert(methods[name](x, 2)[2] == (moon.is_tensor(all) and all:item() or all))
    methods[name](x, 1, {keepdim = true})
  end
end

each("abs acos angle asin atan ceil conj cos cosh erf exp expm1 floor isfinite isinf isnan log log10 log1p log2 logical_not " ..
  "neg round rsqrt sign sin sinh sqrt tan tanh trunc", function(name) unary(name, floats) end)
unary("bitwise_not", function() return upto(2) end)
each("add atan2 div eq floor_divide ge gt le logical_and logical_or logical_xor lt maximum minimum mul ne pow remainder sub",
  function(name) binary(name, floats) end)
each("bitwise_and bitwise_or bitwise_xor", function(name) binary(name, function() return upto(2) end) end)
each("all any argmax argmin max mean min prod std sum var norm", function(name) reduction(name, floats) end)

add {
  ["x:clamp"] = function() is(upto(3):clamp(2), "2 2 3") end,
  ["x:clamp_"] = function() is(upto(3):clamp_(2, 2), "2 2 2") end,
  ["moon.clamp"] = function() is(moon.clamp(upto(3), nil, 2), "1 2 2") end,
  ["x:lerp"] = function() is(floats():lerp(1, 0.5), "0.75 0.625") end,
  ["x:lerp_"] = function() is(floats():lerp_(floats(), floats()), "0.5 0.25") end,
  ["moon.lerp"] = function() is(moon.lerp(floats():to "float16", 1, 0.5), "0.75 0.625") end,
  ["x:softmax"] = function() is(moon.zeros(2):softmax(1), "0.5 0.5") end,
  ["moon.softmax"] = function() is(moon.softmax(moon.zeros(2, "float16"), 1), "0.5 0.5") end,
  ["x:logsumexp"] = function() is(moon.zeros(1):logsumexp(1), "0.0") end,
  ["moon.logsumexp"] = function() is(moon.logsumexp(moon.zeros(1, 1), 1, {keepdim = true}), "0.0") end,
  ["x:outer"] = function() is(upto(2):outer(upto(2)), "1 2 2 4") end,
  ["moon.outer"] = function() is(moon.outer(upto(2), upto(1)), "1 2") end,
  ["x:cumsum"] = function() is(upto(3):cumsum(1), "1 3 6") end,
  ["moon.cumsum"] = function() is(moon.cumsum(matrix(), 1, out_of(matrix())), "1 2 3 5 7 9") end,
  ["x:cumprod"] = function() is(upto(3):cumprod(1), "1 2 6") end,
  ["moon.cumprod"] = function() is(moon.cumprod(upto(3), 1), "1 2 6") end,
  ["x:matmul"] = function()
    is(matrix():matmul(matrix():t()), "14 32 32 77")
    is(cube():matmul(upto(4)):view(6)[{{1, 2}}], "30 70")
  end,
  ["moon.matmul"] = function() is(moon.matmul(moon.eye(2), moon.ones(2, 2), out_of(moon.ones(2, 2))), "1.0 1.0 1.0 1.0") end,
  ["x:dot"] = function() is(upto(3):dot(upto(3)), "14") end,
  ["moon.dot"] = function() is(moon.dot(upto(3), upto(3)), "14") end,
  ["tensor __add"] = function() is(1 + upto(2), "2 3") end,
  ["tensor __sub"] = function() is(upto(2) - 1, "0 1") end,
  ["tensor __mul"] = function() is(upto(2) * upto(2), "1 4") end,
  ["tensor __div"] = function() is(upto(2) / 2, "0.5 1.0") end,
  ["tensor __idiv"] = function() is(upto(2) // 2, "0 1") end,
  ["tensor __mod"] = function() is(upto(2) % 2, "1 0") end,
  ["tensor __pow"] = function() is(upto(2) ^ 2, "1 4") end,
  ["tensor __unm"] = function() is(-upto(2), "-1 -2") end,
  ["tensor __band"] = function() is(upto(2) & 1, "1 0") end,
  ["tensor __bor"] = function() is(upto(2) | 1, "1 3") end,
  ["tensor __bxor"] = function() is(1 ~ upto(2), "0 3") end,
  ["tensor __bnot"] = function() is(~upto(2), "-2 -3") end,
}

-- ---- what has to have a script, from the live tables ----

local M = {scripts = scripts, opening = "require 'moontensor'", refuses = refuses, is = is}

-- the names that `from` and what it lacks in `scripts`
function M.missing(list, prefix, from, but)
  for name, value in pairs(from) do
    local wanted = type(value) == "function" and not (but and but[name])
    if wanted and not scripts[prefix .. name] then list[#list + 1] = prefix .. name end
  end
end

local function missing()
  local list = {}
  M.missing(list, "moon.", moon)
  M.missing(list, "x:", methods, BRIDGE)
  M.missing(list, "tensor ", getmetatable(moon.ones(1)))
  M.missing(list, "shape ", getmetatable(moon.ones(1).shape))
  M.missing(list, "complex ", getmetatable(moon.complex(1, 2)))
  M.missing(list, "g:", getmetatable(moon.generator(1)).__index)
  return list
end

-- the names of all scripts, sorted; raises where one is missing
function M.names()
  local list = missing()
  table.sort(list)
  assert(#list == 0, "no script for: " .. table.concat(list, ", "))
  for name in pairs(scripts) do list[#list + 1] = name end
  table.sort(list)
  return list
end

-- what is alive once all garbage is gone, as text
function M.settle()
  moon.gc()
  moon.empty_cache()
  local counts = {}
  for name, n in pairs(moon.stats()) do counts[#counts + 1] = name .. " " .. n end
  table.sort(counts)
  return table.concat(counts, ", ")
end

return M
