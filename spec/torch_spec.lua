-- moontensor.torch: Python's torch, and the helpers before it.
local py = require "moontensor.python"
local torch = require "moontensor.torch"

describe("moontensor.torch", function()
  require "spec.support.baseline" (setup, teardown)

  local nn, float64 = torch.nn, torch.float64

  it("has every name of Python's torch, and sets them", function()
    assert.is_true(torch.Tensor == py.import "torch".Tensor)
    assert.matches("^<module 'torch' from ", tostring(torch))
    torch.of_a_spec = 5
    assert.equal(5, py.import "torch".of_a_spec)
    py.delattr(py.import "torch", "of_a_spec")
  end)

  it("module: init after the base's own, named parameters, forward, state and training", function()
    local Net = torch.module("Net", {
      init = function(self, hidden)
        self.a = nn.Linear(3, hidden or 5)
        self.b = nn.Linear(hidden or 5, 2)
      end,
      forward = function(self, x) return self.b(torch.relu(self.a(x))) end,
    })
    torch.manual_seed(0)
    local net = Net(py.kw {hidden = 4})
    assert.matches("^Net%(\n  %(a%): Linear%(in_features=3, out_features=4", tostring(net))
    local names = {}
    for name in py.each(net:named_parameters()) do names[#names + 1] = name end
    assert.same({"a.weight", "a.bias", "b.weight", "b.bias"}, names)
    torch.manual_seed(0)
    local same = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
    local x = torch.arange(6.0):reshape(2, 3)
    assert.is_true(py.bool(torch.equal(net(x), same(x))))
    net(x):sum():backward()
    same(x):sum():backward()
    assert.is_true(py.bool(torch.equal(net.a.weight.grad, same[0].weight.grad)))
    local copy = Net(4)
    copy:load_state_dict(net:state_dict())
    assert.is_true(py.bool(torch.equal(copy(x), net(x))))
    assert.equal(5, Net().a.out_features)
    assert.has_error(function() torch.module("N") end, "bad argument #2 to 'module' (a table expected, got nil)")
  end)

  it("autograd_function: x^3 passes gradcheck, and nil is no gradient", function()
    local cube = torch.autograd_function {
      forward = function(ctx, x, _)
        ctx:save_for_backward(x)
        return x * x * x
      end,
      backward = function(ctx, gradient)
        local x = py.unpack(ctx.saved_tensors)
        return gradient * 3 * x * x, nil
      end,
    }
    local x = torch.tensor(py.list {-2.0, 1.5, 3.0}, py.kw {dtype = float64}):requires_grad_()
    cube(x, 7):sum():backward()
    assert.same({12.0, 6.75, 27.0}, py.tolua(x.grad:tolist()))
    assert.is_true(torch.autograd.gradcheck(function(v) return cube(v, 0) end, py.tuple {x}))
    assert.has_error(function() torch.autograd_function {forward = print} end,
      "bad argument #1 to 'autograd_function' (it lacks backward)")
  end)

  it("RB8, X16: dataset: counted from 0, tuples of several results, in a DataLoader with and without fork workers", function()
    local dataset = torch.dataset {len = function() return 5 end, get = function(i) return torch.full(py.tuple {2}, i), i * i end}
    assert.equal(5, #dataset)
    for _, workers in ipairs {0, 2} do
      local sums, squares = {}, {}
      local loader = torch.utils.data.DataLoader(dataset, py.kw {batch_size = 2, num_workers = workers})
      for xs, ys in py.each(loader) do
        sums[#sums + 1] = xs:sum():item()
        squares[#squares + 1] = ys:sum():item()
      end
      assert.same({2, 10, 8}, sums)
      assert.same({1, 13, 16}, squares)
    end
    local ok, e = pcall(function() return dataset[5] end)
    assert.is_false(ok)
    assert.matches("IndexError: sample 5 is outside 0%.%.4", tostring(e))
    assert.equal(3, #py.list(torch.dataset {len = 3, get = function(i) return i end}))
    assert.has_error(function() torch.dataset {len = 3} end, "bad argument #1 to 'dataset' (get= is a function of an index)")
    assert.has_error(function() torch.dataset {get = print} end, "bad argument #1 to 'dataset' (len= is an integer or a function)")
  end)

  it("no_grad takes a function or gives Python's context", function()
    local w = torch.ones(2):requires_grad_()
    assert.same({false, 5}, {torch.no_grad(function() return (w * 2).requires_grad, 5 end)})
    do
      local _ <close> = py.enter(torch.no_grad())
      assert.is_false((w * 2).requires_grad)
    end
    assert.is_true((w * 2).requires_grad)
    local ok, e = pcall(torch.no_grad, function() error("out", 0) end)
    assert.same({false, "out"}, {ok, e})
    assert.is_true((w * 2).requires_grad)
  end)

  it("progress passes everything on", function()
    local got = {}
    for i in py.iter(torch.progress(py.list {3, 4}, {desc = "spec", disable = true})) do got[#got + 1] = i end
    assert.same({3, 4}, got)
  end)

  it("a scheduler, a sampler and an iterable data set made in Lua", function()
    local Sampler = py.class("Reversed", {torch.utils.data.Sampler}, {
      __init__ = function(self, n) self.n = n end,
      __iter__ = function(self)
        local i = self.n
        return function()
          i = i - 1
          if i >= 0 then return i end
        end
      end,
      __len__ = function(self) return self.n end,
    })
    local data = torch.dataset {len = 4, get = function(i) return i * 10 end}
    local loader = torch.utils.data.DataLoader(data, py.kw {sampler = Sampler(4), batch_size = 2})
    local seen = {}
    for batch in py.iter(loader) do seen[#seen + 1] = py.tolua(batch:tolist()) end
    assert.same({{30, 20}, {10, 0}}, seen)

    local Stream = py.class("Stream", {torch.utils.data.IterableDataset}, {__iter__ = function()
      local i = 0
      return function()
        i = i + 1
        if i <= 3 then return i end
      end
    end})
    seen = {}
    for batch in py.iter(torch.utils.data.DataLoader(Stream(), py.kw {batch_size = 2})) do
      seen[#seen + 1] = py.tolua(batch:tolist())
    end
    assert.same({{1, 2}, {3}}, seen)

    local optimizer = torch.optim.SGD(py.list {torch.ones(1):requires_grad_()}, py.kw {lr = 1.0})
    local Halving = py.class("Halving", {torch.optim.lr_scheduler.LRScheduler}, {get_lr = function(self)
      local rates = {}
      for rate in py.iter(self.base_lrs) do rates[#rates + 1] = rate * 0.5 ^ self.last_epoch end
      return rates
    end})
    local schedule, rates = Halving(optimizer), {}
    for i = 1, 3 do
      rates[i] = optimizer.param_groups[0][{"lr"}]
      optimizer:step()
      schedule:step()
    end
    assert.same({1.0, 0.5, 0.25}, rates)
  end)
end)
