---@meta moontensor.python
-- Written by scripts/docs.lua from the docstrings beside the code.

local py = {}

--- Starts Python, or checks that it was started as asked. `python`: the interpreter, a path. `callback_timeout`: seconds that a
--- foreign Python thread waits for this Lua state (10). `exit`: "host" leaves Python's exit work to py.shutdown(). Needed only
--- to choose; everything else starts Python by itself. A second call with the same choice does nothing, with another it raises.
---@param value any
function py.init(value) end

--- The interpreter in use: `python`, `how` it was chosen, `libpython`, `version`, `prefix`, and versions of numpy and torch if
--- they are imported.
---@return table
function py.info() end

--- Marks keyword arguments; the last argument of a call: `f(1, py.kw{dim = 0})`. A plain table is never taken for them.
---@param value any
function py.kw(value) end

--- A Python list, as a proxy, from a sequence, a table.pack table, a Lua iterator function or any Python iterable.
---@param t any
---@return any
function py.list(t) end

--- Likewise a tuple.
---@param t any
---@return any
function py.tuple(t) end

--- Likewise a set.
---@param t any
---@return any
function py.set(t) end

--- A Python dict, as a proxy. A sequence of pairs keeps its order and may have any keys: `py.dict{{"b", 1}, {2, "a"}}`; a table
--- with string keys is taken in sorted order; a Python mapping is copied.
---@param t any
---@return any
function py.dict(t) end

--- A Python int as a proxy, from an integer or a decimal string of any length.
---@param v any
---@return any
function py.int(v) end

--- Python's index notation: slices, integers, `...`, `None`, separated by commas.
---@param value any
---@return any
function py.s(value) end

--- `object[key]` for any key, a string or a proxy included.
---@param object any
---@param key any
---@return any
function py.getitem(object, key) end

---@param object any
---@param key any
---@param value any
function py.setitem(object, key, value) end

---@param object any
---@param key any
function py.delitem(object, key) end

---@param object any
---@param name string
---@param default? any
---@return any
function py.getattr(object, name, default) end

---@param object any
---@param name string
---@param value any
function py.setattr(object, name, value) end

---@param object any
---@param name string
function py.delattr(object, name) end

---@param object any
---@param name string
---@return boolean
function py.hasattr(object, name) end

--- `for i, x in py.enumerate(obj) do`: i counts from 0, as in Python, or from `first`.
---@param object any
---@param first? integer
---@return any
function py.enumerate(object, first) end

--- `for a, b in py.zip(x, y) do`.
---@param ... any
---@return any
function py.zip(...) end

--- Enters a context manager: `local _ <close> = py.enter(torch.no_grad())`. The guard's end calls `__exit__`, with the error
--- if there is one; the error goes on in Lua, even if `__exit__` returns true. `value` is what `__enter__` returned.
---@param context any
---@return any
---@return any
function py.enter(context) end

--- Calls f(value) inside the context and returns its results. Errors reach `__exit__`, which may swallow them.
---@param context any
---@param f function
function py.with(context, f) end

--- Python's type of the value.
---@param value any
---@return any
function py.type(value) end

---@param value any
---@param class any
---@return boolean
function py.isinstance(value, class) end

---@param class any
---@param class any
---@return boolean
function py.issubclass(class, class) end

---@param value any
---@return string
function py.repr(value) end

---@param value any
---@return string
function py.str(value) end

--- The identity of an object: usable as a table key.
---@param value any
---@return integer
function py.id(value) end

---@param value any
---@return integer
function py.len(value) end

--- The names of its attributes.
---@param value any
---@return table
function py.dir(value) end

--- Its docstring, tidied.
---@param value any
---@return string|nil
function py.doc(value) end

--- Prints Python's help.
---@param value any
function py.help(value) end

--- What Python prints while f runs.
---@param f function
---@return string
function py.capture(f) end

--- The text of an error, with the tracebacks of both languages; any other value as tostring.
---@param err any
---@return string
function py.traceback(err) end

--- A Python class. `members`: functions become methods and get `self` first, special ones such as `__init__`, `__len__` and
--- `__getitem__` included; other values become class attributes, `__doc__` the docstring. A Lua function that `__iter__` returns is
--- iterated until it returns nil. Values that only Lua knows are kept in attributes as `py.opaque(v)`.
---@param name string
---@param options? table
---@param members any
---@return any
function py.class(name, options, members) end

--- In a method of a `py.class`: the next class's view of `self`, as Python's `super()`. `py.super(self):__init__()`.
---@param self any
---@return any
function py.super(self) end

--- A member that gets no self.
---@param f function
---@return any
function py.staticmethod(f) end

--- A member that gets the class first.
---@param f function
---@return any
function py.classmethod(f) end

--- A member that is read, and written, through functions: `get(self)`, `set(self, value)`.
---@param get any
---@param set? any
---@return any
function py.property(get, set) end

--- A Python function that takes any keyword arguments: f gets its positional arguments, and after them always a table of the
--- others by name (None is `py.none` there).
---@param f function
---@return any
function py.kwfunction(f) end

--- Registers an adapter for `moon.from` and decoded results: true, or false if there is one of that name. `accepts(type)` is
--- asked with the Python type of an object, an error counts as no; `decode(object, mode)` gets "share", "copy" or "auto" and
--- returns what to take in its place, a torch tensor, an array, any other object with memory or a native tensor, or nil to
--- decline. Adapters are asked in their order, before everything but torch's and NumPy's own types; those for torch, pandas,
--- pyarrow, polars and Pillow are there from the start, and load none of these libraries.
---@param value any
---@return boolean
function py.adapter(value) end

--- How tensors cross, and returns the settings. `tensors`: what a native tensor becomes as an argument: "torch", "numpy",
--- "moontensor" (a `moontensor.Tensor`) or "auto", the first of torch, if it is imported, and NumPy. `decode = true`: results
--- and arguments of callbacks that are torch tensors, arrays or `moontensor.Tensor` become native tensors, by `mode`: false
--- shares the memory, true copies it, "auto" does what it can; what cannot stays a proxy. `adapters = false`: NumPy's arrays
--- alone are decoded.
---@param value any
---@return table
function py.codec(value) end

--- When Lua's collector runs for the memory behind tensors, arrays and buffers: once `threshold` bytes of new ones have come from
--- Python (64 MiB; each tensor counts for 64 KiB more than its elements), or `step` times the bytes that are held already (0.2), or four times Lua's own heap, whichever is most. Returns
--- both settings, and `charged`, the bytes that this Lua state's objects hold now. `threshold = math.huge` turns it off.
---@param value any
---@return table
function py.gc(value) end

--- Imports a module; a dotted name gives the innermost: `py.import "os.path"`. Raises the ImportError.
---@param name string
---@return any
function py.import(name) end

--- Evaluates a Python expression. It sees the names of `__main__`, and over them those of `locals`, a table with string keys; a
--- Python dict is the whole namespace instead.
---@param source any
---@param locals? any
---@return any
function py.eval(source, locals) end

--- Runs Python statements in `__main__`, or in a namespace as for `py.eval`: in a Python dict, the names they define stay.
---@param source any
---@param locals? any
function py.exec(source, locals) end

--- The Python object that the value becomes as an argument, as a proxy even for numbers, text and None. The rules: nil and
--- `py.none` become None, booleans bool, integers int, floats float (NaN and infinities too), `moon.complex` complex; UTF-8 text
--- becomes str, and other strings are an error that names `py.bytes`. A table 1..n becomes a list, and so does an empty one; a
--- table with string keys becomes a dict, in sorted order; one with holes, or with both kinds of keys, is an error. A table met
--- twice is one object, so cyclic tables become cyclic lists and dicts. Functions become Python functions, native tensors what the
--- last import says (a torch tensor once torch is there, else an array); userdata and coroutines are an error that names
--- `py.opaque`.
---@param value any
---@return any
function py.topy(value) end

--- The bytes of a Lua string.
---@param s any
---@return any
function py.bytes(s) end

--- Wraps any Lua value so that Python can pass it around untouched. Back in Lua it is the value.
---@param value any
---@return any
function py.opaque(value) end

--- Converts deeply. Lists, tuples (named ones too), sets and the views of dicts become sequences; dicts, ordered ones and other
--- subclasses too, and instances of dataclasses become tables. Inside them None is `py.none`, and shared and cyclic objects keep
--- their identity. Leaves become what they are as results: bool, int that fits 64 bits, float, str, bytes and NumPy's scalars of
--- these kinds are Lua values; all else stays a proxy: greater ints, complex numbers, enum members, str with lone surrogates,
--- bytearrays, ranges, iterators, arrays and tensors. `depth` bounds it (default 100); what lies deeper stays a proxy.
---@param object any
---@param options table
---@return any
function py.tolua(object, options) end

--- Python's `a == b`, elementwise where the objects say so; likewise `ne lt le gt ge`.
---@param a any
---@param b any
---@return any
function py.eq(a, b) end

--- Python's `a @ b`.
---@param a any
---@param b any
---@return any
function py.matmul(a, b) end

--- Python's `value in object`.
---@param object any
---@param value any
---@return boolean
function py.contains(object, value) end

--- Python's `a is b`.
---@param a any
---@param b any
---@return boolean
function py.is(a, b) end

--- Python's truth of the value: `if py.bool(t) then`. In Lua every proxy is true.
---@param value any
---@return boolean
function py.bool(value) end

--- The bound method itself, as a Python object: to store it or to pass it on.
---@param object any
---@param name string
---@return any
function py.bound(object, name) end

--- Python's own slice: 0-based, half open.
---@param first? integer
---@param past? any
---@param step? number
---@return any
function py.slice(first, past, step) end

--- Calls f(...) and keeps the GIL across it: for hot loops beside busy Python threads. Other threads run only when f's calls
--- into Python let them.
---@param f function
---@param ... any
function py.hold(f, ...) end

--- Python's exit work, now: joins its non-daemon threads, runs its atexit callbacks, flushes its streams. For hosts that set
--- `py.init{exit = "host"}`; otherwise it happens when the last Lua state closes, or in os.exit.
function py.shutdown() end

--- Iterates any Python iterable: `for x in py.iter(obj) do … end`. None arrives as `py.none`. Raises TypeError for what is not
--- iterable.
---@param object any
---@return any
function py.iter(object) end

--- Like `py.iter`, with tuples and lists unpacked: `for x, y in py.each(loader) do … end`.
---@param object any
---@return any
function py.each(object) end

--- The items of a tuple, list or other iterable as Lua values; None as `py.none`.
---@param sequence any
function py.unpack(sequence) end

--- Calls f(keep) and returns its results. The Python objects that came to Lua meanwhile are let go at the end, error or not, without
--- waiting for the collector: all but those that were returned or given to `keep(…)`, which passes its arguments through, tables of
--- them (four deep) included. Later use of the others raises "python object is closed".
---@param f function
function py.scope(f) end

return py
