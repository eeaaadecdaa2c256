local exchange = require "spec.support.exchange"
local moon, py, torch, np = exchange.moon, exchange.py, exchange.torch, exchange.np
local count, failure, has, settle = exchange.count, exchange.failure, exchange.has, exchange.settle

describe("native tensors in torch", function()
  exchange.baseline(setup, teardown)

  it("A2: a contiguous tensor is shared, both ways", function()
    local x = moon.arange(12, "float64"):reshape(3, 4)
    local t = x:to_torch()
    assert.equal(x:data_ptr(), t:data_ptr())
    t[{1, 2}] = 91.5
    assert.equal(91.5, x(2, 3))
    x:set(3, 2, -7.25)
    assert.equal(-7.25, t[{2, 1}]:item())
    assert.is_true(t.is_leaf)
    assert.is_false(t.requires_grad)
    assert.is_false(t:untyped_storage():resizable())
    assert.equal("torch.float64", py.str(t.dtype))
    assert.same({3, 4}, py.tolua(t.shape))
    assert.same({4, 1}, py.tolua(t:stride()))
  end)

  it("A3: positive strides survive", function()
    local x = moon.arange(12, "float64"):reshape(3, 4)
    local t = x[{{}, {1, -1, 2}}]:to_torch()
    assert.same({3, 2}, py.tolua(t.shape))
    assert.same({4, 2}, py.tolua(t:stride()))
    t:add_(1000)
    assert.equal(1000, x(1, 1))
    assert.equal(1, x(1, 2))
    assert.equal(1002, x(1, 3))
    assert.equal(0, t:storage_offset())
    assert.equal(88, t:untyped_storage():nbytes())
    has(failure(function() return t:as_strided(py.list {12}, py.list {1}) end), "out of")
  end)

  it("A5: what torch cannot have is refused, and copied on request", function()
    local x = moon.arange(6, "float64")
    has(failure(x.to_torch, x:flip(1)), "negative stride", "copy")
    local wide = moon.arange(3, "float64"):expand(2, 3)
    has(failure(wide.to_torch, wide), "non-writeable", "undefined behavior", "copy")
    local t = x:flip(1):to_torch {copy = true}
    assert.tensor_equal(moon.tensor({5, 4, 3, 2, 1, 0}, "float64"), moon.from(t))
    t:zero_()
    assert.tensor_equal(moon.arange(6, "float64"), x)
    -- "auto" copies only what cannot be shared
    assert.equal(x:data_ptr(), x:to_torch {copy = "auto"}:data_ptr())
    assert.tensor_equal(x:flip(1):clone(), moon.from(x:flip(1):to_torch {copy = "auto"}))
    -- a stride that is never taken does no harm
    local one = x[{{3, 3}}]:flip(1)
    assert.equal(2, one:to_torch():item())
    assert.same({0, 3}, py.tolua(moon.zeros(0, 3):flip(1):to_torch().shape))
  end)

  it("A8: autograd sees native memory exactly", function()
    local x = moon.tensor({-2, 1.5, 3}, "float64")
    local t = x:to_torch():requires_grad_()
    local loss = (t * t):sum()
    loss:backward()
    assert.equal(15.25, loss:item())
    assert.tensor_equal(moon.tensor({-4, 3, 6}, "float64"), moon.from(t.grad))
    has(failure(function() return moon.arange(3):to_torch():requires_grad_() end),
      "only Tensors of floating point dtype can require gradients")
    has(failure(function() return t:add_(1) end), "leaf")
  end)

  it("A10: 0-d, empty, offset, F-order and singleton layouts", function()
    local x = moon.tensor(2.5, "float64")
    local t = x:to_torch()
    assert.same({}, py.tolua(t.shape))
    assert.equal(x:data_ptr(), t:data_ptr())
    t:fill_(8.25)
    assert.equal(8.25, x:item())

    t = moon.zeros(0, 3, "float64"):to_torch()
    assert.same({0, 3}, py.tolua(t.shape))
    assert.equal(0, t:numel())
    assert.same({3, 0}, py.tolua(moon.zeros(3, 0):to_torch().shape))

    x = moon.arange(30, "float64"):reshape(5, 6)
    t = x[{{2, 4}, {2, -1, 2}}]:to_torch()
    assert.same({3, 3}, py.tolua(t.shape))
    assert.same({6, 2}, py.tolua(t:stride()))
    assert.equal(x:data_ptr() + 7 * 8, t:data_ptr())

    x = moon.zeros(4, 3, "float64"):t()
    t = x:to_torch()
    assert.same({3, 4}, py.tolua(t.shape))
    assert.same({1, 3}, py.tolua(t:stride()))
    assert.is_false(t:is_contiguous())
    t[{2, 3}] = -9
    assert.equal(-9, x(3, 4))

    t = moon.zeros(1, 1, 3, "float64"):to_torch()
    assert.same({1, 1, 3}, py.tolua(t.shape))
    assert.same({3, 3, 1}, py.tolua(t:stride()))
    t = moon.zeros(3, 3, 12)[{{2, 2}, {1, 1}, {}}]:to_torch() -- strides of extents 1 say nothing: they are made row-major
    assert.same({1, 1, 12}, py.tolua(t.shape))
    assert.same({12, 12, 1}, py.tolua(t:stride()))

    local sizes = {}
    for i = 1, 64 do sizes[i] = 1 end
    assert.equal(64, moon.zeros(sizes):to_torch():dim())
    assert.equal(64, moon.from(moon.zeros(sizes):to_torch()):dim())
  end)

  it("A17: the memory lives as long as a torch view of it", function()
    local before = count "exports"
    local x = moon.arange(10, "float64")
    local t = x:to_torch()
    local child = t[py.slice(3, 8)]
    t, x = nil, x:free() -- luacheck: ignore
    assert.equal(before + 1, count "exports")
    assert.equal(25, child:sum():item())
    child = nil -- luacheck: ignore
    assert.equal(before, count "exports")
  end)

  it("A19: torch does not resize memory of ours, and copies are its own", function()
    local x = moon.arange(4, "float64")
    local t = x:to_torch()
    has(failure(function() return t:resize_(8) end), "Trying to resize storage that is not resizable")
    assert.tensor_equal(moon.arange(4, "float64"), x)
    t = moon.arange(4, "float64"):to_torch {copy = true}
    t:resize_(8)
    assert.equal(8, t:numel())
    local a = x:to_numpy()
    has(failure(function() return a:resize(8) end), "does not own its data")
    a = x:to_numpy {copy = true}
    a:resize(8, py.kw {refcheck = false})
    assert.equal(8, a.size)
  end)

  it("A19: we do not resize memory that is shared", function()
    local x = moon.arange(4, "float64")
    local t = x:to_torch()
    has(failure(x.resize_, x, 8), "it is exported, and a consumer outside is alive")
    has(failure(x.resize_, x, 2), "resize a clone()")
    assert.equal(4, t:numel())
    has(failure(function() moon.from(torch.zeros(4)):resize_(8) end), "it was imported")
    t = nil -- luacheck: ignore
    settle()
    x:resize_(8)
    assert.equal(8, x:numel())
    assert.equal(8, x:to_torch():numel())
    assert.tensor_equal(moon.arange(4, "float64"), x[{{1, 4}}])
  end)

  it("A22: a copy is torch's alone", function()
    local before = count "exports"
    local x = moon.arange(4, "float64")
    local t = x:to_torch {copy = true}
    assert.equal(before, count "exports")
    x:set(1, 77)
    t[1] = -88
    assert.tensor_equal(moon.tensor({0, -88, 2, 3}, "float64"), moon.from(t))
    assert.tensor_equal(moon.tensor({77, 1, 2, 3}, "float64"), x)
    local empty = moon.zeros(0, 3, "float64"):to_torch {copy = true}
    assert.same({0, 3}, py.tolua(empty.shape))
    assert.equal(before, count "exports")
  end)

  it("P1, P2, P4: views share, copies materialise row-major order", function()
    local x = moon.arange(12, "float64"):reshape(3, 4)
    assert.equal(x:to_torch():data_ptr(), torch.from_numpy(x:to_numpy()):data_ptr())
    local a, b = x:t():to_torch {copy = true}, torch.from_numpy(x:t():to_numpy {copy = true})
    assert.is_true(torch.equal(a, b))
    assert.is_true(a:is_contiguous() and b:is_contiguous())
    assert.same({3, 1}, py.tolua(a:stride()))
    local back = moon.from(torch.arange(12):reshape(4, 3):t(), {copy = true})
    assert.is_true(back:is_contiguous())
    assert.equal("[3, 4]", tostring(back.shape))
    assert.equal(4, back:stride(1))
    assert.equal(1, back:stride(2))
    local wide = moon.arange(12, "float64"):reshape(4, 3):t():to_torch {copy = true}
    assert.same({4, 1}, py.tolua(wide:stride()))
    assert.is_true(wide:is_contiguous())
    assert.same({0.0, 3.0, 6.0, 9.0}, py.tolua(wide[0]:tolist()))
    assert.not_equal(x:data_ptr(), x:to_torch {copy = true}:data_ptr())
  end)

  it("P5: the collector frees nothing under torch", function()
    for round = 1, 1000 do
      local x = moon.full({16}, round, "float64")
      local t = x:to_torch()
      if round % 2 == 0 then x:free() end
      x = nil -- luacheck: ignore
      if round % 50 == 0 then collectgarbage() end
      assert.equal(16 * round, t:sum():item())
    end
  end)

  it("P5: dropping the temporary array frees nothing under torch", function()
    local before = count "exports"
    for round = 1, 200 do
      local t = torch.from_numpy(moon.full({16}, round, "float64"):to_numpy())
      if round % 20 == 0 then settle() end
      assert.equal(16 * round, t:sum():item())
    end
    assert.equal(before, count "exports")
  end)

  it("X8: a write by us makes a stale backward raise", function()
    local x = moon.tensor({1, 2, 3}, "float64")
    local t = x:to_torch():requires_grad_()
    local loss = (t * t):sum()
    x:set(1, 100.0)
    has(failure(function() loss:backward() end), "modified by an inplace operation")
    -- through any view of the storage, and any writer
    local s = moon.ones(4, "float64")
    local w = torch.ones(2, py.kw {dtype = torch.float64}):requires_grad_()
    loss = (s[{{1, 2}}]:to_torch() * w):sum()
    s:fill_(5)
    has(failure(function() loss:backward() end), "modified by an inplace operation")
    -- a tensor that only the graph still holds counts
    s = moon.ones(2, "float64")
    local shared = s:to_torch()
    loss = (shared * w):sum()
    shared = nil -- luacheck: ignore
    collectgarbage()
    collectgarbage()
    s:zero_()
    has(failure(function() loss:backward() end), "modified by an inplace operation")
    -- reads and writes elsewhere do not
    s = moon.ones(2, "float64")
    loss = (s:to_torch() * w):sum()
    assert.equal(1, s(1))
    moon.ones(2, "float64"):fill_(3)
    loss:backward()
    assert.tensor_equal(moon.ones(2, "float64"), moon.from(w.grad))
  end)
end)

describe("torch tensors in Lua", function()
  exchange.baseline(setup, teardown)

  it("A6: a view of torch memory, with its strides, outlives the tensor", function()
    local base = torch.arange(12.0, py.kw {dtype = torch.float64}):reshape(3, 4)
    local t = base[py.s ":, ::2"]
    local x = moon.from(t)
    assert.equal("[3, 2]", tostring(x.shape))
    assert.equal(4, x:stride(1))
    assert.equal(2, x:stride(2))
    t[{1, 1}] = 77.5
    assert.equal(77.5, x(2, 2))
    x:set(3, 1, -12)
    assert.equal(-12, t[{2, 0}]:item())
    t, base = nil, nil -- luacheck: ignore
    settle()
    assert.equal(-12, x(3, 1))
    assert.tensor_equal(moon.tensor({{0, 2}, {4, 77.5}, {-12, 10}}, "float64"), x:clone())
    base = torch.arange(30.0, py.kw {dtype = torch.float64}):reshape(5, 6)
    local part, turned = moon.from(base[py.s "1:4, 1::2"]), moon.from(base:t())
    assert.equal(base:data_ptr() + 7 * 8, part:data_ptr())
    part:set(1, 1, -5)
    turned:set(6, 5, -6)
    assert.equal(-5, base[{1, 1}]:item())
    assert.equal(-6, base[{4, 5}]:item())
    base = nil -- luacheck: ignore
    settle()
    assert.tensor_equal(moon.tensor({{-5, 9, 11}, {13, 15, 17}, {19, 21, 23}}, "float64"), part:clone())
    assert.equal(-6, turned(6, 5))
  end)

  it("A7: autograd state is respected, and forced", function()
    local t = torch.tensor(py.list {1.5, -2, 4.25}, py.kw {dtype = torch.float64}):requires_grad_()
    local before = count "imports"
    for _, options in ipairs {{}, {copy = true}, {copy = true, force = false}, {lock = false}} do
      has(failure(moon.from, t, options), "requires grad", "detach()")
    end
    has(failure(moon.from, t * 2), "requires grad", "detach()")
    has(failure(moon.from, torch.nn.Parameter(torch.ones(2))), "requires grad", "detach()")
    for _, source in ipairs {t * 2, torch.nn.Parameter(t:detach() * 2)} do
      has(failure(moon.from, source, {copy = true}), "requires grad", "detach()")
      assert.tensor_equal(moon.tensor({3, -4, 8.5}, "float64"), moon.from(source, {force = true}))
    end
    local half = torch.ones(2, py.kw {dtype = torch.bfloat16}):requires_grad_()
    for _, options in ipairs {{}, {lock = false}} do has(failure(moon.from, half, options), "requires grad") end
    assert.equal(before, count "imports")

    local x = moon.from(t, {force = true})
    assert.tensor_equal(moon.tensor({1.5, -2, 4.25}, "float64"), x)
    local _ <close> = py.enter(torch.no_grad())
    t[0] = 999
    assert.equal(1.5, x(1))
    assert.tensor_equal(moon.tensor({999, -2, 4.25}, "float64"), moon.from(t:detach()))
    assert.equal(before, count "imports")
  end)

  it("A11: 0-d, empty, transposed, offset and expanded tensors", function()
    local before = count "imports"
    local scalar = torch.zeros(py.list {}, py.kw {dtype = torch.float64})
    local base = torch.arange(30.0, py.kw {dtype = torch.float64}):reshape(5, 6)
    local row = torch.arange(3.0)
    local views = {moon.from(scalar), moon.from(torch.zeros(0, 3)), moon.from(torch.arange(12):reshape(3, 4):t()),
                   moon.from(base[py.s "1:4, 1::2"]), moon.from(row:expand(4, 3))}
    assert.equal(before + 4, count "imports")
    views[1]:fill_(6.75)
    assert.equal(6.75, scalar:item())
    assert.equal("[0, 3]", tostring(views[2].shape))
    assert.equal("[4, 3]", tostring(views[3].shape))
    assert.equal(1, views[3]:stride(1))
    assert.equal(4, views[3]:stride(2))
    assert.equal(7, views[4](1, 1))
    assert.equal(23, views[4](3, 3))
    assert.is_true(views[5].readonly)
    has(failure(views[5].copy_, views[5], moon.zeros(4, 3)), "read-only")
    assert.is_false(views[5]:to_numpy().flags.writeable)
    has(failure(np.copyto, views[5]:to_numpy(), 1), "read-only")
    assert.tensor_equal(moon.tensor({0, 1, 2}, "float32"), moon.from(row))
    views = nil -- luacheck: ignore
    assert.equal(before, count "imports")
  end)

  it("A14: conj and neg bits are refused by name, and forced", function()
    local z = torch.tensor(py.list {py.eval "1+2j", py.eval "3-4j"})
    local before = count "imports"
    for _, options in ipairs {{}, {copy = true}, {lock = false}} do
      has(failure(moon.from, z:conj(), options), "conjugate bit", "resolve_conj")
      has(failure(moon.from, z:conj().imag, options), "negative bit", "resolve_neg")
    end
    assert.equal(before, count "imports")
    local c = moon.from(z:conj(), {force = true})
    assert.tensor_equal(moon.tensor({moon.complex(1, -2), moon.complex(3, 4)}, "complex64"), c)
    assert.tensor_equal(moon.tensor({-2, 4}, "float32"), moon.from(z:conj().imag, {force = true}))
    z:zero_()
    assert.tensor_equal(moon.tensor({moon.complex(1, -2), moon.complex(3, 4)}, "complex64"), c)
  end)

  it("A15: families without memory of our kind are refused in torch's words", function()
    local before = count "imports"
    local families = {
      {torch.eye(2):to_sparse(), "can't convert Sparse layout tensor to numpy. Use Tensor.to_dense() first."},
      {torch.eye(2):to_sparse_csr(), "can't convert SparseCsr layout tensor to numpy. Use Tensor.to_dense() first."},
      {torch.zeros(2, py.kw {dtype = torch.float8_e4m3fnuz}), "Got unsupported ScalarType Float8_e4m3fnuz"},
      {torch.zeros(2, py.kw {dtype = torch.complex32}), "Got unsupported ScalarType ComplexHalf"},
    }
    for _, family in ipairs(families) do
      for _, options in ipairs {{}, {lock = false}, {force = true}} do
        has(failure(moon.from, family[1], options), family[2])
      end
    end
    local meta = torch.zeros(2, py.kw {device = "meta"})
    has(failure(moon.from, meta), "can't convert meta device type tensor to numpy. Use Tensor.cpu()")
    has(failure(moon.from, meta, {force = true}), "Cannot copy out of meta tensor; no data!")
    assert.has_error(function() moon.from(torch._efficientzerotensor(3)) end)
    assert.equal(before, count "imports")
  end)

  it("A16: an expanded tensor is read-only, and goes back only as a copy", function()
    local base = torch.arange(3.0)
    local x = moon.from(base:expand(4, 3))
    assert.equal(0, x:stride(1))
    assert.equal(1, x:stride(2))
    assert.is_true(x.readonly)
    has(failure(x.to_torch, x), "copy = true")
    local t = x:to_torch {copy = true}
    t[{0, 0}] = 999
    assert.tensor_equal(moon.tensor({0, 1, 2}, "float32"), moon.from(base))
    assert.is_true(moon.from(torch.arange(5.0):unfold(0, 3, 1)).readonly)
    has(failure(moon.from, base:expand(4, 3), {readonly = false}), "read-only", "{copy = true}")
    assert.is_false(moon.from(base:expand(4, 3), {readonly = false, copy = "auto"}).readonly)
  end)

  it("A18: a view needs the storage, not the wrapper", function()
    local before = count "imports"
    local t = torch.arange(10)
    local weak = py.import "weakref".ref(t)
    local x = moon.from(t)
    t = nil -- luacheck: ignore
    settle()
    assert.is_nil(weak())
    local part = x[{{3, 6}}]
    x:free()
    assert.tensor_equal(moon.tensor({2, 3, 4, 5}, "int64"), part:clone())
    part:set(1, -44)
    assert.equal(before + 1, count "imports")
    local again = part:to_torch()
    assert.equal(-44, again[0]:item())
    part:free()
    again = nil -- luacheck: ignore
    assert.equal(before, count "imports")
  end)

  it("X6: a view locks the storage against resizing", function()
    for _, name in ipairs {"float32", "bfloat16", "float8_e5m2", "int64"} do
      local t = torch.zeros(4, py.kw {dtype = torch[name]})
      local x = moon.from(t)
      has(failure(function() return t:resize_(100000) end), "Trying to resize storage that is not resizable")
      assert.equal(4, x:numel())
    end
    local parameter = torch.nn.Parameter(torch.zeros(4))
    moon.from(parameter:detach())
    assert.is_false(parameter:untyped_storage():resizable())
    -- left to the caller, and a copy needs none
    local t = torch.zeros(4)
    moon.from(t, {lock = false})
    moon.from(t, {copy = true})
    moon.from(t, {force = true})
    assert.is_true(t:untyped_storage():resizable())
  end)

  it("X8: a write by us through an import makes a stale backward raise", function()
    local w = torch.ones(3):requires_grad_()
    for _, options in ipairs {{}, {lock = false}} do
      local t = torch.ones(3)
      local x = moon.from(t, options)
      local loss = (t * w):sum()
      x:mul_(2)
      has(failure(function() loss:backward() end), "modified by an inplace operation")
      assert.equal(1, t._version)
      x:set(1, 5)
      x:set(2, 5)
      assert.equal(2, t._version)
    end
    local t = torch.ones(3, py.kw {dtype = torch.bfloat16})
    moon.from(t):fill_(2)
    assert.equal(1, t._version)
    local parameter = torch.nn.Parameter(torch.ones(3))
    moon.from(parameter:detach()):fill_(2)
    assert.equal(1, parameter._version)
  end)

  it("changes dtype, device and the right to write only as asked", function()
    local t = torch.arange(3)
    has(failure(moon.from, t, {dtype = "float64"}), "int64", "float64", "{copy = true}")
    assert.tensor_equal(moon.tensor({0, 1, 2}, "float64"), moon.from(t, {dtype = torch.float64, copy = true}))
    assert.tensor_equal(moon.tensor({0, 1, 2}, "float16"), moon.from(t, {dtype = np.float16, copy = "auto"}))
    assert.equal(t:data_ptr(), moon.from(t, {dtype = "int64"}):data_ptr())
    local x = moon.from(t, {readonly = true})
    has(failure(x.set, x, 1, 5), "read-only")
    has(failure(x.to_torch, x), "read-only", "{copy = true}")
    has(failure(moon.from, t, {device = "cuda"}), "cuda")
    has(failure(moon.from, t, {cpoy = true}), "unknown option 'cpoy'")
    has(failure(moon.from, t, {copy = "maybe"}), "copy", "maybe")
    has(failure(moon.from, t, {dtype = "float31"}), "float31")
    assert.is_true(moon.from(t, {copy = true, readonly = true}).readonly)
    -- "auto" shares where it can
    assert.equal(t:data_ptr(), moon.from(t, {copy = "auto"}):data_ptr())
    local leaf = torch.ones(2):requires_grad_()
    assert.not_equal(leaf:data_ptr(), moon.from(leaf, {copy = "auto"}):data_ptr())
  end)

  it("takes subclasses by what they answer", function()
    py.exec [[
import torch
class Plain(torch.Tensor): pass
]]
    local plain = py.import "__main__".Plain
    local t = torch.arange(3.0):as_subclass(plain)
    local x = moon.from(t)
    assert.equal(t:data_ptr(), x:data_ptr())
    assert.is_false(t:untyped_storage():resizable())
    assert.equal(t:data_ptr(), moon.from(t, {lock = false}):data_ptr())
    has(failure(moon.from, torch.ones(2):requires_grad_():as_subclass(plain), {lock = false}), "grad")
    has(failure(moon.from, torch.ones(2, py.kw {dtype = torch.complex64}):conj().imag:as_subclass(plain), {lock = false}),
      "negative bit")
    local fake = py.import "torch._subclasses.fake_tensor".FakeTensorMode()
    local f = fake:from_tensor(torch.ones(2))
    assert.has_error(function() moon.from(f) end)
    assert.has_error(function() moon.from(f, {lock = false}) end)
  end)

  it("writes into native memory from torch and NumPy", function()
    local x = moon.zeros(2, 3, "float64")
    x:copy_(torch.arange(6):reshape(2, 3))
    assert.tensor_equal(moon.arange(6, "float64"):reshape(2, 3), x)
    x:copy_(np.full(py.tuple {2, 3}, 7, "float32"))
    assert.tensor_equal(moon.full({2, 3}, 7, "float64"), x)
    has(failure(x.copy_, x, torch.zeros(4)), "4")
  end)

  it("X9: shares tells whether memory is common", function()
    local x = moon.arange(6, "float32")
    local t = x:to_torch()
    assert.is_true(moon.shares(x, t))
    assert.is_true(moon.shares(t, x[{{5, 6}}]))
    assert.is_false(moon.shares(x[{{1, 2}}], t[py.slice(2, 4)]))
    assert.is_true(moon.shares(x, t:requires_grad_()))
    assert.is_false(moon.shares(x, t:detach():clone()))
    assert.is_true(moon.shares(t:detach(), x:to_numpy()))
    local p = torch.nn.Parameter(t:detach())
    assert.is_true(moon.shares(x, p))
    p.data = torch.zeros(6)
    assert.is_false(moon.shares(x, p))
    has(failure(moon.shares, x, 5), "bad argument #2")
  end)
end)
