--- py = require "moontensor.python": embedded CPython.
-- The functions that need C come from the bridge (src/python); the ones here are Lua over those.

local loader = require "moontensor.python.loader"
local prelude = require "moontensor.python.prelude"

local py = {}     -- everything; usable once Python runs
local module = {} -- what require returns: its first use starts Python
local found       -- the interpreter in use, once all is there
local opened      -- the functions of the bridge
local builtins, internals

local function start(choice)
  local interpreter, bridge, why
  if loader.running() then
    bridge = assert(loader.bridge())
    interpreter = {how = "joined the Python that runs in this process"}
  else
    interpreter, why = loader.find(choice)
    if not interpreter then error(why, 3) end
    bridge, why = loader.bridge(interpreter.libpython)
    if not bridge then error(why, 3) end
  end
  opened = opened or bridge.open(interpreter.python, prelude)
  for name, f in pairs(opened) do py[name] = f end
  py.none = py.topy(nil)
  py._kw.__name = "py.kw"
  builtins, internals = py.import "builtins", py.import "moontensor"
  py.builtins = builtins
  py.ellipsis = builtins.Ellipsis
  internals._start(arg and arg[0] or "")
  require "moontensor.python.class"(py)
  require "moontensor.python.codec"(py)
  for name, f in pairs(py) do module[name] = f end
  found = interpreter
  setmetatable(module, nil)
end

--- py.init{python=, callback_timeout=, exit=}
-- Starts Python, or checks that it was started as asked. `python`: the interpreter, a path. `callback_timeout`: seconds that a
-- foreign Python thread waits for this Lua state (10). `exit`: "host" leaves Python's exit work to py.shutdown(). Needed only
-- to choose; everything else starts Python by itself. A second call with the same choice does nothing, with another it raises.
function py.init(options)
  options = options or {}
  if type(options) ~= "table" then error("bad argument #1 to 'init' (table expected, got " .. type(options) .. ")", 2) end
  for name in pairs(options) do
    if name ~= "python" and name ~= "callback_timeout" and name ~= "exit" then
      error(("unknown option '%s' to 'init' (python, callback_timeout or exit expected)"):format(tostring(name)), 2)
    end
  end
  if not found then start(options.python)
  elseif options.python and options.python ~= found.python then
    error(("Python is running already: %s (%s); it cannot be changed to %s"):format(found.python or "this process's own", found.how,
      options.python), 2)
  end
  if options.callback_timeout then py._set_callback_timeout(options.callback_timeout) end
  if options.exit ~= nil then
    if options.exit ~= "host" and options.exit ~= "close" then
      error("bad option 'exit' to 'init' (\"host\" or \"close\" expected)", 2)
    end
    py._set_exit(options.exit == "host")
  end
  return module
end

--- py.info() -> table
-- The interpreter in use: `python`, `how` it was chosen, `libpython`, `version`, `prefix`, and versions of numpy and torch if
-- they are imported.
function py.info()
  local sys = py.import "sys"
  local info = {python = found.python, how = found.how, libpython = found.libpython, prefix = sys.prefix,
                version = sys.version:match("^[%d.]+")}
  for _, name in ipairs{"numpy", "torch"} do
    local imported = sys.modules:get(name)
    if imported then info[name] = py.str(imported.__version__) end
  end
  return info
end

-- ---- marks and constructors ----

--- py.kw{name = value, …}
-- Marks keyword arguments; the last argument of a call: `f(1, py.kw{dim = 0})`. A plain table is never taken for them.
function py.kw(t)
  if type(t) ~= "table" then error("bad argument #1 to 'kw' (table expected, got " .. type(t) .. ")", 2) end
  return setmetatable(t, py._kw)
end

local function iterable(t, name)
  if type(t) == "table" and getmetatable(t) == nil then
    if math.type(t.n) == "integer" then -- table.pack
      local list = builtins.list()
      for i = 1, t.n do list:append(t[i]) end
      return list
    end
    return t
  elseif type(t) == "function" then
    local list = builtins.list()
    for v in t do list:append(v) end
    return list
  elseif type(t) == "userdata" then
    return t
  end
  error(("bad argument #1 to '%s' (table or iterable expected, got %s)"):format(name, t == nil and "nil" or type(t)), 3)
end

--- py.list(t) -> object
-- A Python list, as a proxy, from a sequence, a table.pack table, a Lua iterator function or any Python iterable.
function py.list(t) return builtins.list(iterable(t == nil and {} or t, "list")) end
--- py.tuple(t) -> object
-- Likewise a tuple.
function py.tuple(t) return builtins.tuple(iterable(t == nil and {} or t, "tuple")) end
--- py.set(t) -> object
-- Likewise a set.
function py.set(t) return builtins.set(iterable(t == nil and {} or t, "set")) end

--- py.dict(t) -> object
-- A Python dict, as a proxy. A sequence of pairs keeps its order and may have any keys: `py.dict{{"b", 1}, {2, "a"}}`; a table
-- with string keys is taken in sorted order; a Python mapping is copied.
function py.dict(t)
  local dict = builtins.dict()
  if t == nil then return dict end
  if type(t) == "table" and t[1] ~= nil then
    for i, pair in ipairs(t) do
      if type(pair) ~= "table" or pair[1] == nil then
        error(("bad argument #1 to 'dict' (pair %d is no {key, value})"):format(i), 2)
      end
      py.setitem(dict, pair[1], pair[2])
    end
    return dict
  end
  dict:update(t)
  return dict
end

--- py.int(v) -> object
-- A Python int as a proxy, from an integer or a decimal string of any length.
function py.int(v)
  if math.type(v) ~= "integer" and type(v) ~= "string" and type(v) ~= "userdata" then
    error("bad argument #1 to 'int' (integer or string expected, got " .. type(v) .. ")", 2)
  end
  return py.topy(builtins.int(v))
end

local function slice_part(text)
  if text == "" then return nil end
  local n = math.tointeger(tonumber(text))
  if not n then error("bad slice part '" .. text .. "' (an integer expected)", 4) end
  return n
end

--- py.s"0:3, ..., ::2" -> object
-- Python's index notation: slices, integers, `...`, `None`, separated by commas.
function py.s(text)
  if type(text) ~= "string" then error("bad argument #1 to 's' (string expected, got " .. type(text) .. ")", 2) end
  local parts = {n = 0}
  for part in (text .. ","):gmatch("%s*(.-)%s*,") do
    parts.n = parts.n + 1
    if part == "..." then parts[parts.n] = py.ellipsis
    elseif part == "None" then parts[parts.n] = py.none
    elseif part:find(":", 1, true) then
      local a, b, c = part:match("^%s*([^:%s]*)%s*:%s*([^:%s]*)%s*:?%s*([^:%s]*)%s*$")
      if not a then error("bad slice '" .. part .. "'", 2) end
      parts[parts.n] = py.slice(slice_part(a), slice_part(b), slice_part(c))
    elseif part ~= "" then parts[parts.n] = slice_part(part)
    else parts.n = parts.n - 1 end
  end
  if parts.n == 1 and not text:find(",", 1, true) then return py.topy(parts[1]) end
  return py.tuple(parts)
end

-- ---- items and attributes ----

--- py.getitem(object, key) -> value
-- `object[key]` for any key, a string or a proxy included.
function py.getitem(object, key) return py.import "operator".getitem(object, key) end
--- py.setitem(object, key, value)
function py.setitem(object, key, value) py.import "operator".setitem(object, key, value) end
--- py.delitem(object, key)
function py.delitem(object, key) py.import "operator".delitem(object, key) end
--- py.getattr(object, name, [default]) -> value
function py.getattr(object, name, ...) return builtins.getattr(object, name, ...) end
--- py.setattr(object, name, value)
function py.setattr(object, name, value) object[name] = value end
--- py.delattr(object, name)
function py.delattr(object, name) builtins.delattr(object, name) end
--- py.hasattr(object, name) -> boolean
function py.hasattr(object, name) return builtins.hasattr(object, name) end

-- ---- iteration ----

--- py.enumerate(object, [first]) -> function
-- `for i, x in py.enumerate(obj) do`: i counts from 0, as in Python, or from `first`.
function py.enumerate(object, first) return py.each(builtins.enumerate(object, first or 0)) end
--- py.zip(...) -> function
-- `for a, b in py.zip(x, y) do`.
function py.zip(...) return py.each(builtins.zip(...)) end

-- ---- contexts ----

local context_mt = {}
context_mt.__index = context_mt

local function as_exception(err)
  if err == nil then return nil end
  if py._is_proxy(err) and builtins.isinstance(err, builtins.BaseException) then return err end
  return internals._to_exception(py.opaque(err), tostring(err))
end

function context_mt:__close(err)
  if self.context then
    local context = self.context
    self.context = nil
    internals._exit(context, as_exception(err))
  end
end

--- py.enter(context) -> guard, value
-- Enters a context manager: `local _ <close> = py.enter(torch.no_grad())`. The guard's end calls `__exit__`, with the error
-- if there is one; the error goes on in Lua, even if `__exit__` returns true. `value` is what `__enter__` returned.
function py.enter(context)
  local guard = setmetatable({context = context}, context_mt)
  local value = internals._enter(context)
  return guard, value
end

--- py.with(context, f) -> ...
-- Calls f(value) inside the context and returns its results. Errors reach `__exit__`, which may swallow them.
function py.with(context, f)
  if type(f) ~= "function" and type(f) ~= "userdata" then
    error("bad argument #2 to 'with' (function expected, got " .. (f == nil and "no value" or type(f)) .. ")", 2)
  end
  local value = internals._enter(context)
  local results = table.pack(pcall(f, value))
  if results[1] then
    internals._exit(context, nil)
    return table.unpack(results, 2, results.n)
  end
  if not internals._exit(context, as_exception(results[2])) then error(results[2], 0) end
end

-- ---- types and texts ----

--- py.type(value) -> object
-- Python's type of the value.
function py.type(value) return builtins.type(value) end
--- py.isinstance(value, class | {classes}) -> boolean
function py.isinstance(value, class)
  return builtins.isinstance(value, type(class) == "table" and py.tuple(class) or class)
end
--- py.issubclass(class, class) -> boolean
function py.issubclass(a, b) return builtins.issubclass(a, type(b) == "table" and py.tuple(b) or b) end
--- py.repr(value) -> string
function py.repr(value) return builtins.repr(value) end
--- py.str(value) -> string
function py.str(value) return builtins.str(value) end
--- py.id(value) -> integer
-- The identity of an object: usable as a table key.
function py.id(value) return builtins.id(value) end
--- py.len(value) -> integer
function py.len(value) return builtins.len(value) end
--- py.dir(value) -> table
-- The names of its attributes.
function py.dir(value) return py.tolua(builtins.dir(value)) end
--- py.doc(value) -> string or nil
-- Its docstring, tidied.
function py.doc(value) return py.import "inspect".getdoc(value) end
--- py.help(value)
-- Prints Python's help.
function py.help(value) io.write(py.import "pydoc".render_doc(value, py.kw{renderer = py.import "pydoc".plaintext}), "\n") end

-- ---- output and errors ----

--- py.capture(f) -> string
-- What Python prints while f runs.
function py.capture(f) return internals._capture(f) end
--- py.traceback(err) -> string
-- The text of an error, with the tracebacks of both languages; any other value as tostring.
function py.traceback(err) return tostring(err) end

-- os.exit leaves without closing the Lua state, or closes it when Python's streams may be gone: Python's exit work comes first.
local exit = os.exit
function os.exit(...) -- luacheck: ignore 122
  if opened then pcall(opened._leave) end
  return exit(...)
end

-- The first use of anything but init starts Python.
module.init = py.init
return setmetatable(module, {__index = function(_, name)
  if not found then start() end
  return py[name]
end})
