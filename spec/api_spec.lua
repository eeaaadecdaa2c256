-- include/moontensor.h as a third-party C module sees it: spec/support/apitest.c, built here with nothing but the public
-- headers.

local moon = require "moontensor"
require "moontensor.luassert"

local BUILD = os.getenv "BUILD" or "build"

local function run(command)
  local pipe = assert(io.popen(command .. " 2>&1"))
  local text = pipe:read "a"
  return pipe:close(), text
end

local function lua_includes()
  local _, text = run "pkg-config --cflags lua5.4 || pkg-config --cflags lua-5.4"
  return text:find "^%-I" and text:gsub("%s+$", "") or "-I/usr/include/lua5.4 -I/usr/local/include"
end

describe("the C API", function()
  require "spec.support.baseline"(setup, teardown)

  local api

  setup(function()
    local library = BUILD .. "/apitest.so"
    local ok, text = run(("%s -std=c11 -Wall -Werror -O1 -g -shared -fPIC -Iinclude %s -o %s spec/support/apitest.c")
      :format(os.getenv "CC" or "cc", lua_includes(), library))
    assert(ok, text)
    api = assert(package.loadlib(library, "luaopen_apitest"))()
  end)

  it("states its facts", function()
    assert.same({1, true, "bfloat16", 16, true, 5, true}, {api.facts()})
  end)

  it("makes and reads tensors", function()
    local x = api.make(4)
    assert.tensor_equal(moon.tensor({1, 2, 3, 4}, "float64"), x)
    assert.equal(10.0, api.sum(x))
    assert.error_matches(function() api.sum(moon.zeros(2)) end, "contiguous float64 expected")
    assert.error_matches(function() api.sum(3) end, "tensor expected, got number")
    x:free()
    assert.error_matches(function() api.sum(x) end, "tensor is closed")
  end)

  it("writes where it may", function()
    local x = api.make(3)
    api.negate(x)
    assert.tensor_equal(moon.tensor({-1, -2, -3}, "float64"), x)
    assert.error_matches(function() api.negate(x:expand(2, 3)) end, "read%-only")
  end)

  it("adopts foreign memory and drops it once", function()
    collectgarbage()
    local drops, writes = api.counts()
    local x = api.adopt(false)
    assert.tensor_equal(moon.tensor({{0, 1, 2}, {3, 4, 5}}, "float64"), x)
    assert.equal(1, moon.stats().imports)
    assert.is_true(x:is_shared())
    x[1] = 7
    x:add_(1)
    assert.equal(writes + 2, (select(2, api.counts())))
    local row = x[2]
    x:free()
    assert.equal(drops, (api.counts()))
    assert.tensor_equal(moon.tensor({4, 5, 6}, "float64"), row)
    row:free()
    assert.equal(drops + 1, (api.counts()))
    assert.equal(0, moon.stats().imports)
  end)

  it("keeps read-only memory so", function()
    local x = api.adopt(true)
    assert.is_true(x.readonly)
    assert.error_matches(function() x:zero_() end, "read%-only")
    assert.is_true(x[1].readonly)
  end)

  it("refuses malformed structs, which stay the caller's", function()
    local drops = api.counts()
    assert.error_matches(function() api.adopt(false, 3) end, "%-1")
    assert.error_matches(function() api.adopt(false, 70) end, "70")
    assert.equal(drops, (api.counts()))
  end)

  it("watches writes into own memory", function()
    local x = moon.zeros(2, 2)
    assert.is_true(api.watch(x))
    assert.is_false(api.watch(x))
    collectgarbage()
    local drops, writes = api.counts()
    x[1][1] = 3
    x:fill_(1)
    x:view(4):mul_(2)
    assert.equal(writes + 3, (select(2, api.counts())))
    assert.equal(2.0, x(2, 2))
    x:free()
    collectgarbage()
    assert.equal(drops + 1, (api.counts()))
  end)

  describe("moon.from a userdata with __dlpack", function()
    it("shares", function()
      collectgarbage()
      local drops = api.counts()
      local x = moon.from(api.producer "plain")
      assert.tensor_equal(moon.tensor({{0.5, 1.5}, {2.5, 3.5}}, "float32"), x)
      x[1][1] = 9
      assert.equal(9.0, x(1, 1))
      x:free()
      collectgarbage()
      assert.equal(drops + 1, (api.counts()))
    end)

    it("follows the options", function()
      local x = moon.from(api.producer "readonly")
      assert.is_true(x.readonly)
      assert.error_matches(function() moon.from(api.producer "readonly", {readonly = false}) end, "read%-only; copy = true")
      assert.is_false(moon.from(api.producer "readonly", {readonly = false, copy = "auto"}).readonly)
      assert.is_true(moon.from(api.producer "plain", {readonly = true}).readonly)
      local y = moon.from(api.producer "plain", {copy = true, dtype = "float64"})
      assert.tensor_equal(moon.tensor({{0.5, 1.5}, {2.5, 3.5}}, "float64"), y)
      assert.error_matches(function() moon.from(api.producer "plain", {dtype = "float64"}) end, "copy = true converts")
      x, y = nil, nil -- luacheck: ignore
      collectgarbage()
      assert.equal(0, moon.stats().imports)
    end)

    it("deletes what it cannot take", function()
      collectgarbage()
      local drops = api.counts()
      assert.error_matches(function() moon.from(api.producer "major") end, "version")
      assert.error_matches(function() moon.from(api.producer "extent") end, "%-2")
      collectgarbage()
      assert.equal(drops + 2, (api.counts()))
    end)
  end)

  it("exports and counts the consumers", function()
    local x = moon.zeros(3, 1, 4)
    local p, a, b, c = api.export(x)
    assert.same({4, 4, 1}, {a, b, c})
    assert.equal(1, moon.stats().exports)
    assert.is_true(x:is_shared())
    x:free()
    collectgarbage()
    assert.equal(1, moon.stats().exports)
    api.release(p)
    assert.equal(0, moon.stats().exports)
    assert.error_matches(function() api.export(moon.zeros(3):flip()) end, "negative stride")
    assert.error_matches(function() api.export(moon.zeros(1):expand(3)) end, "copy")
  end)

  it("copies into a blank", function()
    local x = moon.arange(6):view(2, 3):t()
    assert.tensor_equal(x:contiguous(), api.copy_of(x))
    assert.is_true(api.copy_of(x):is_contiguous())
    assert.tensor_equal(x:astype "float32", api.copy_of(x, "float32"))
    assert.error_matches(function() api.copy_of(x, nil, 1) end, "the blank has room for 1 dimensions, 2 are needed")
  end)

  it("takes dtype objects by what they print, their name or __name__", function()
    assert.equal("float64", moon.zeros(1, api.named "torch.float64").dtype)
    assert.equal("int16", moon.zeros(1, {dtype = api.named "int16"}).dtype)
    assert.equal("uint8", moon.zeros(1, api.named("<class>", {name = "uint8"})).dtype)
    assert.equal("int8", moon.zeros(1, api.named("<class 'numpy.int8'>", {__name__ = "int8"})).dtype)
    assert.equal("float64", moon.zeros(1, api.named("<class 'float'>", {__name__ = "float"})).dtype)
    assert.equal("bool", moon.zeros(1):to(api.named "torch.bool").dtype)
    assert.error_matches(function() moon.zeros(1, api.named "object") end, "got object")
  end)

  it("adds methods and counters", function()
    api.extend()
    assert.equal(6.0, api.make(3):apitest_sum())
    assert.equal(0, moon.stats().apitest_blocks)
    local x = api.adopt(false)
    assert.equal(1, moon.stats().apitest_blocks)
    x:free()
    assert.equal(0, moon.stats().apitest_blocks)
    moon.methods.apitest_sum = nil
  end)

  it("moon.from_pointer: a tensor over a pointer, as long as its owner is wanted", function()
    local source = moon.arange(6, "float64")
    local pointer, owner = api.address(source:data_ptr()), {}
    local kept = setmetatable({owner}, {__mode = "v"})
    local x = moon.from_pointer(pointer, "float64", 2, 3, {owner = owner})
    assert.same({2, 3}, x.shape)
    x[1][2] = 9
    assert.equal(9, source[2])
    assert.is_false(x.readonly)
    local part = x[2]
    owner, x = nil, nil -- luacheck: ignore
    collectgarbage()
    collectgarbage()
    assert.is_table(kept[1])
    assert.equal(5, part[3])
    part = nil -- luacheck: ignore
    collectgarbage() -- the storage dies, and with it the pin
    collectgarbage()
    assert.is_nil(kept[1])

    assert.is_true(moon.from_pointer(pointer, "float64", {6}, {readonly = true}).readonly)
    assert.equal(6, moon.from_pointer(pointer, "float64", 6):numel())
    assert.error_matches(function() moon.from_pointer(12, "float64", 3) end,
      "bad argument #1 to '[%w.]*from_pointer' %(light userdata expected, got number%)")
    assert.error_matches(function() moon.from_pointer(source, "float64", 3) end, "light userdata expected, got")
    assert.error_matches(function() moon.from_pointer(pointer, "float64", 3, {keep = 1}) end, "unknown option 'keep'")
    assert.error_matches(function() moon.from_pointer(api.address(source:data_ptr() + 1), "float64", 3) end, "misaligned")
    assert.error_matches(function() moon.from_pointer(api.address(0), "float64", 3) end, "NULL")
  end)
end)
