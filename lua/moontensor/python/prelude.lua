--- The Python side of the bridge that is better written in Python: source of the module `moontensor`.
return [==[
"""moontensor: Lua inside this process. Tensor, LuaError, LuaFunction, Opaque."""
import re as _re
import sys as _sys

_ansi = _re.compile(r"\x1b\[[0-9;]*[A-Za-z]")


def _late_hint(e, text):
    """What helps with a name that is not there."""
    import difflib
    import importlib.util
    try:
        if isinstance(e, ModuleNotFoundError) and e.name:
            parent, _, name = e.name.rpartition(".")
            if not parent:
                return f"is it installed for {_sys.executable}?"
            if hasattr(_sys.modules.get(parent), name):
                return f'{name} is no module, but a name in one: py.import "{parent}".{name}'
        elif isinstance(e, AttributeError) and e.name and e.obj is not None:
            if isinstance(e.obj, type(_sys)) and importlib.util.find_spec(f"{e.obj.__name__}.{e.name}"):
                return f'a submodule is imported by its whole name: py.import "{e.obj.__name__}.{e.name}"'
            near = difflib.get_close_matches(e.name, dir(e.obj), 1, 0.8)
            if near and near[0] != e.name:
                return f"did you mean '{near[0]}'?"
        elif isinstance(e, TypeError) and "<locals>.lua() got an unexpected keyword argument" in text:
            return "a Lua function takes keywords by the names of its parameters; py.kwfunction(f) takes any"
    except Exception:  # the objects are anybody's
        pass
    return None


def _error_text(e):
    import traceback
    where = getattr(e, "__lua_where__", "")
    lines = [f"{where} " if where else ""]
    name = type(e).__qualname__
    if type(e).__module__ not in ("builtins", "__main__", None):
        name = f"{type(e).__module__}.{name}"
    text = str(e)
    lines[0] += f"{name}: {text}" if text else name
    hint = getattr(e, "__lua_hint__", None) or _late_hint(e, text)
    if hint:
        lines.append(f"hint: {hint}")
    if e.__traceback__ is not None:
        lines.append("Traceback (most recent call last):")
        lines += [s.rstrip("\n") for s in traceback.format_tb(e.__traceback__)]
    seen, cause = {id(e)}, e.__cause__ or (None if e.__suppress_context__ else e.__context__)
    while cause is not None and id(cause) not in seen:
        seen.add(id(cause))
        lines.append(f"caused by {type(cause).__qualname__}: {cause}")
        cause = cause.__cause__ or (None if cause.__suppress_context__ else cause.__context__)
    stack = getattr(e, "__lua_stack__", "")
    if stack:
        lines.append("Lua stack traceback:" + stack)
    return _ansi.sub("", "\n".join(lines))


def _name_lua_line():
    """Warnings tell the Lua line: instead of Python's where Lua itself called what warns, else beside it."""
    import warnings
    theirs = warnings.formatwarning

    def formatwarning(message, category, filename, lineno, line=None):
        lua = _lua_line()
        if lua is None:
            return theirs(message, category, filename, lineno, line)
        if filename in ("sys", "<sys>"):  # no Python frame below: the module where warnings looks last
            return theirs(message, category, *lua, line="")
        return theirs(message, category, filename, lineno, line) + f"  called at {lua[0]}:{lua[1]}\n"
    warnings.formatwarning = formatwarning


_name_lua_line()


def _make_wrapper(names):
    """The maker of Python functions over a LuaFunction with these parameters. Lua's rules: missing ones are nil, others dropped."""
    import keyword
    if names == "*":
        source = "def LuaFunction(_lua):\n def lua(*args): return _lua(*args)\n return lua"
    else:
        names = [n + "_" if keyword.iskeyword(n) or n == "_lua" else n for n in names.split(",") if n]
        names = [n if names.index(n) == i else f"{n}_{i}" for i, n in enumerate(names)]
        taken = "".join(f"{n}=None, " for n in names)
        source = f"def LuaFunction(_lua):\n def lua({taken}*_rest): return _lua({', '.join(names)})\n return lua"
    scope = {"__name__": __name__}
    exec(compile(source, "<moontensor>", "exec"), scope)
    return scope["LuaFunction"]


def _rename(function, name, qualname):
    if isinstance(function, (staticmethod, classmethod)):
        function = function.__func__
    if isinstance(function, property):
        for accessor in (function.fget, function.fset):
            _rename(accessor, name, qualname)
    elif getattr(function, "__module__", None) == __name__ and hasattr(function, "__code__"):
        function.__name__, function.__qualname__, function.__module__ = name, qualname, "__main__"


def _iterating(method):
    """__iter__ that may return a Lua function: an iterator in Lua's sense, which ends with nil."""
    import functools

    @functools.wraps(method)
    def __iter__(self):
        iterator = method(self)
        return iterator if hasattr(iterator, "__next__") or not callable(iterator) else iter(iterator, None)
    return __iter__


def _make_class(name, bases, names, values):
    import types
    members = dict(zip(names, values))
    for member, value in members.items():
        _rename(value, member, f"{name}.{member}")
    if isinstance(members.get("__iter__"), types.FunctionType):
        members["__iter__"] = _iterating(members["__iter__"])
    members.setdefault("__module__", "__main__")
    return types.new_class(name, bases, {}, lambda scope: scope.update(members))


def _make_initializer(base, init):
    def __init__(self, *args, **kwargs):
        base.__init__(self)
        return init(self, *args, **kwargs)
    return __init__


def _may_super(owner, self):
    return isinstance(self, owner) or (isinstance(self, type) and issubclass(self, owner))


def _super(owner, self):
    return super(owner, self)


def _make_kwfunction(call):
    def lua(*args, **kwargs):
        return call(*args, (list(kwargs), list(kwargs.values())))
    return lua


def _start(script):
    """As Python does for a script of its own: argv, and modules beside it."""
    import os
    if not _sys.argv or _sys.argv == [""]:
        _sys.argv = [script or ""]
        if os.path.isfile(script):
            _sys.path.insert(0, os.path.dirname(os.path.abspath(script)))


def _capture(f):
    import contextlib
    import io
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        f()
    return out.getvalue()


def _check_interface(o):
    """NumPy believes an __array_interface__ whose data is a buffer, whatever its length: it may not reach beyond."""
    import numpy
    interface = o.__array_interface__
    if not isinstance(interface, dict):
        raise TypeError("__array_interface__ is not a dict")
    data = interface.get("data")
    if data is None or isinstance(data, tuple):
        return  # these NumPy checks, as far as they can be
    size, shape = numpy.dtype(interface["typestr"]).itemsize, tuple(interface["shape"])
    if any(n < 0 for n in shape):
        raise ValueError(f"__array_interface__ has a negative extent in its shape {shape}")
    low = high = interface.get("offset", 0)
    strides, step = interface.get("strides"), size
    if strides is None:
        strides = []
        for n in reversed(shape):
            strides.insert(0, step)
            step *= n
    for n, stride in zip(shape, strides):
        low += min(0, (n - 1) * stride)
        high += max(0, (n - 1) * stride)
    have = memoryview(data).nbytes
    if 0 not in shape and (low < 0 or high + size > have):
        raise ValueError(f"__array_interface__ reaches over bytes {low} to {high + size} of data that has {have}")


def _enter(context):
    kind = type(context)
    if not (hasattr(kind, "__enter__") and hasattr(kind, "__exit__")):
        raise TypeError(f"'{kind.__qualname__}' object is no context manager: it lacks __enter__ and __exit__")
    return kind.__enter__(context)


def _to_exception(value, text):
    e = LuaError(text)
    e.value = e._lua_value = value
    e.traceback = ""
    return e


def _exit(context, error):
    """__exit__ with a Lua error or a Python exception; True: it is dealt with."""
    exit = type(context).__exit__
    if error is None:
        return bool(exit(context, None, None, None))
    return bool(exit(context, type(error), error, error.__traceback__))
]==]
