--- Python classes made in Lua: py.class and what its members may be.

local getinfo = debug and debug.getinfo

return function(py)
  local builtins, internals, weakref = py.builtins, py.import "moontensor", py.import "weakref"

  -- Lua function -> weak references to the classes that have it as a member; a strong one would keep both alive for ever
  local owners = setmetatable({}, {__mode = "k"})
  -- what py.staticmethod and its kin returned -> the Lua functions inside
  local inside = setmetatable({}, {__mode = "k"})

  local function own(f, class)
    owners[f] = owners[f] or {}
    table.insert(owners[f], weakref.ref(class))
  end

  local function check_function(f, name)
    if type(f) ~= "function" and type(f) ~= "userdata" then
      error(("bad argument #1 to '%s' (function expected, got %s)"):format(name, f == nil and "nil" or type(f)), 3)
    end
    return f
  end

  local function sorted_names(members)
    local names = {}
    for name in pairs(members) do
      if type(name) ~= "string" then
        error(("bad argument #3 to 'class' (member names are strings, got %s)"):format(tostring(name)), 3)
      end
      names[#names + 1] = name
    end
    table.sort(names)
    return names
  end

  --- py.class(name, [{bases}], members) -> class
  -- A Python class. `members`: functions become methods and get `self` first, special ones such as `__init__`, `__len__` and
  -- `__getitem__` included; other values become class attributes, `__doc__` the docstring. A Lua function that `__iter__` returns is
  -- iterated until it returns nil. Values that only Lua knows are kept in attributes as `py.opaque(v)`.
  function py.class(name, bases, members)
    if members == nil and type(bases) == "table" and bases[1] == nil then bases, members = {}, bases end
    if type(name) ~= "string" then
      error(("bad argument #1 to 'class' (a name expected, got %s)"):format(type(name)), 2)
    elseif type(bases) ~= "table" then
      error(("bad argument #2 to 'class' (a table of bases expected, got %s)"):format(type(bases)), 2)
    elseif type(members) ~= "table" then
      error(("bad argument #3 to 'class' (a table of members expected, got %s)"):format(members == nil and "nil" or type(members)), 2)
    end
    local names, values = sorted_names(members), {}
    for i, member in ipairs(names) do
      if type(members[member]) == "table" and py._is_mark(members[member]) then
        error(("member '%s' of class '%s' is py.kw{…}, which only a call takes"):format(member, name), 2)
      end
      values[i] = py.topy(members[member])
    end
    local class = internals._make_class(name, py.tuple(bases), names, py.list(values))
    for _, member in ipairs(names) do
      local value = members[member]
      if type(value) == "function" then own(value, class) end
      for _, f in ipairs(inside[value] or {}) do own(f, class) end
    end
    return class
  end

  --- py.super(self) -> object
  -- In a method of a `py.class`: the next class's view of `self`, as Python's `super()`. `py.super(self):__init__()`.
  function py.super(self)
    if not getinfo then error("py.super needs the debug library; name the base instead: Base.method(self, …)", 2) end
    for level = 2, math.huge do
      local frame = getinfo(level, "f")
      if not frame then break end
      local found
      for _, ref in ipairs(owners[frame.func] or {}) do
        local class = ref()
        if class ~= nil and internals._may_super(class, self) then
          if found then
            error("py.super(self): this function is a member of several classes of self; name the base: Base.method(self, …)", 2)
          end
          found = class
        end
      end
      if found then return internals._super(found, self) end
    end
    error("py.super(self) is for methods of a py.class, with their own self", 2)
  end

  local function marked(value, ...)
    inside[value] = {...}
    return value
  end

  --- py.staticmethod(f) -> object
  -- A member that gets no self.
  function py.staticmethod(f) return marked(builtins.staticmethod(check_function(f, "staticmethod")), f) end
  --- py.classmethod(f) -> object
  -- A member that gets the class first.
  function py.classmethod(f) return marked(builtins.classmethod(check_function(f, "classmethod")), f) end
  --- py.property(get, [set]) -> object
  -- A member that is read, and written, through functions: `get(self)`, `set(self, value)`.
  function py.property(get, set)
    check_function(get, "property")
    if set ~= nil then check_function(set, "property") end
    return marked(builtins.property(get, set), get, set)
  end

  --- py.kwfunction(f) -> object
  -- A Python function that takes any keyword arguments: f gets its positional arguments, and after them always a table of the
  -- others by name (None is `py.none` there).
  function py.kwfunction(f)
    if type(f) ~= "function" then
      error(("bad argument #1 to 'kwfunction' (function expected, got %s)"):format(f == nil and "nil" or type(f)), 2)
    end
    local function call(...)
      local args = table.pack(...)
      local names, values = py.unpack(args[args.n])
      local keywords = {}
      for i, name in py.enumerate(names, 1) do keywords[name] = values[i - 1] == nil and py.none or values[i - 1] end
      args[args.n] = keywords
      return f(table.unpack(args, 1, args.n))
    end
    return marked(internals._make_kwfunction(call), f)
  end
end
