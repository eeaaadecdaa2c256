--- What crosses as a tensor, and how: py.codec, and the registry of adapters for objects that are no tensors themselves.

local moon = require "moontensor"

local MODES = {[false] = false, [true] = true, auto = "auto"}
local TENSORS = {auto = true, torch = true, numpy = true, moontensor = true}

return function(py)
  local settings = {tensors = "auto", mode = false, decode = false, adapters = true}
  local adapters, named = {}, {}
  local suspended = false -- no adapters meanwhile

  -- ---- adapters ----

  local function package_of(type)
    local ok, name = pcall(py.getattr, type, "__module__", nil)
    return ok and math.type(name) == nil and tostring(name):match "^[^.]*" or ""
  end

  local function check(condition, text, level)
    if not condition then error("bad argument #1 to 'adapter' (" .. text .. ")", (level or 1) + 2) end
  end

  --- py.adapter{name=, accepts=, decode=} -> boolean
  -- Registers an adapter for `moon.from` and decoded results: true, or false if there is one of that name. `accepts(type)` is
  -- asked with the Python type of an object, an error counts as no; `decode(object, mode)` gets "share", "copy" or "auto" and
  -- returns what to take in its place, a torch tensor, an array, any other object with memory or a native tensor, or nil to
  -- decline. Adapters are asked in their order, before everything but torch's and NumPy's own types; those for torch, pandas,
  -- pyarrow, polars and Pillow are there from the start, and load none of these libraries.
  function py.adapter(t)
    check(type(t) == "table", "table expected, got " .. type(t))
    check(type(t.name) == "string" and t.name:find "%S", "a name that is not empty expected")
    for _, field in ipairs {"accepts", "decode"} do
      check(type(t[field]) == "function" or type(t[field]) == "userdata", ("%s: function expected, got %s"):format(field, type(t[field])))
    end
    for key in pairs(t) do
      check(key == "name" or key == "accepts" or key == "decode",
        ("unknown field '%s'; the fields are name, accepts, decode"):format(tostring(key)))
    end
    if named[t.name] then return false end
    named[t.name] = true
    adapters[#adapters + 1] = {accepts = t.accepts, decode = t.decode}
    py._use_adapters()
    return true
  end

  local function adapt(object, mode)
    if suspended then return nil end
    local kind = py.type(object)
    for _, a in ipairs(adapters) do
      local ok, yes = pcall(a.accepts, kind)
      if ok and yes and py.bool(yes) then
        local other = a.decode(object, mode)
        if other ~= nil then return other end
      end
    end
    return nil
  end

  local function builtin(name, accepts, decode)
    named[name] = true
    adapters[#adapters + 1] = {accepts = accepts, decode = decode}
  end

  local function of_package(name)
    return function(kind) return package_of(kind) == name end
  end

  builtin("torch", function() return false end) -- the bridge's own road

  -- Shared where two conversions see one memory; else a copy of it has to be asked for.
  builtin("pandas", of_package "pandas", function(object, mode)
    if not py.hasattr(object, "to_numpy") then return nil end
    local array = object:to_numpy()
    local numbers = py.str(array.dtype) ~= "object"
    if numbers and (mode ~= "share" or array.size == 0 or py.import "numpy".shares_memory(array, object:to_numpy())) then
      return array
    end
    if mode ~= "share" then return object:to_numpy(py.kw {dtype = "float64", na_value = 0 / 0}) end
    error(("a pandas %s of this dtype can only be copied: use {copy = true}"):format(py.type(object).__name__), 0)
  end)

  builtin("pyarrow", of_package "pyarrow", function(object, mode)
    if not py.hasattr(object, "to_numpy") or py.hasattr(object, "column_names") then return nil end
    if py.hasattr(object, "chunks") then -- a chunked array takes no zero_copy_only=True
      if object.num_chunks == 1 then return adapt(object:chunk(0), mode) end
      if mode == "share" then error("a chunked pyarrow array is in several pieces and can only be copied: use {copy = true}", 0) end
      return object:to_numpy()
    end
    local ok, array = pcall(function() return object:to_numpy(py.kw {zero_copy_only = true}) end)
    if ok then return array end
    if mode == "share" then error(array, 0) end
    return object:to_numpy(py.kw {zero_copy_only = false})
  end)

  builtin("polars", of_package "polars", function(object, mode)
    if not py.hasattr(object, "to_numpy") then return nil end
    local ok, array = pcall(function() return object:to_numpy(py.kw {allow_copy = false}) end)
    if ok then return array end
    if mode == "share" then error("a polars column with nulls, and a frame, can only be copied: use {copy = true}", 0) end
    return object:to_numpy()
  end)

  builtin("Pillow", of_package "PIL", function(object, mode)
    if not py.hasattr(object, "getbands") then return nil end
    if mode == "share" then
      error("a Pillow image hands out copies of its pixels and cannot be shared; use {copy = true}", 0)
    end
    return py.import "numpy".asarray(object)
  end)

  -- ---- the codec ----

  local function decode(object)
    local ok, tensor
    if settings.adapters then
      ok, tensor = pcall(moon.from, object, {copy = settings.mode})
    elseif py.isinstance(object, py.import "numpy".ndarray) then
      suspended = true
      ok, tensor = pcall(moon.from, object, {copy = settings.mode})
      suspended = false
    end
    if not ok then return object end
    getmetatable(object).__close(object)
    return tensor
  end

  --- py.codec{tensors=, mode=, decode=, adapters=} -> table
  -- How tensors cross, and returns the settings. `tensors`: what a native tensor becomes as an argument: "torch", "numpy",
  -- "moontensor" (a `moontensor.Tensor`) or "auto", the first of torch, if it is imported, and NumPy. `decode = true`: results
  -- and arguments of callbacks that are torch tensors, arrays or `moontensor.Tensor` become native tensors, by `mode`: false
  -- shares the memory, true copies it, "auto" does what it can; what cannot stays a proxy. `adapters = false`: NumPy's arrays
  -- alone are decoded.
  function py.codec(t)
    t = t or {}
    if type(t) ~= "table" then error("bad argument #1 to 'codec' (table expected, got " .. type(t) .. ")", 2) end
    for key, value in pairs(t) do
      if settings[key] == nil then
        error(("unknown option '%s' to 'codec'; the options are tensors, mode, decode, adapters"):format(tostring(key)), 2)
      end
      if key == "tensors" and not TENSORS[value] then
        error(("bad option 'tensors' (\"auto\", \"torch\", \"numpy\" or \"moontensor\" expected, got %s)"):format(tostring(value)), 2)
      elseif key == "mode" and MODES[value] == nil then
        error(("bad option 'mode' (false, true or \"auto\" expected, got %s)"):format(tostring(value)), 2)
      elseif (key == "decode" or key == "adapters") and type(value) ~= "boolean" then
        error(("bad option '%s' (boolean expected, got %s)"):format(key, type(value)), 2)
      end
    end
    for key, value in pairs(t) do settings[key] = value end
    py._set_codec(settings.tensors, settings.decode)
    return {tensors = settings.tensors, mode = settings.mode, decode = settings.decode, adapters = settings.adapters}
  end

  py._set_adapters(decode, adapt)
end
