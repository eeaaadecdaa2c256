/* py.*: the functions that need C. The others are Lua, over these (lua/moontensor/python/init.lua). */
#include "exchange.h"
#include <string.h>

/* ---- code ---- */

/*** py.import(name) -> object
Imports a module; a dotted name gives the innermost: `py.import "os.path"`. Raises the ImportError. */
static int py_import(lua_State *L) {
    site *k = SITE(L);
    state *S = k->S;
    const char *name = luaL_checkstring(L, 1);
    ready(L, k);
    cross c;
    enter(L, S, &c);
    PyObject *module = NULL;
    UNLOCKED(&c, module = PyImport_ImportModule(name));
    return result(L, &c, module);
}

/* The namespace a piece of code sees. A table of names is laid over __main__; a dict is the namespace itself. */
static bool choose_namespace(lua_State *L, job *j, PyObject **globals, PyObject **locals) {
    *globals = *locals = PyModule_GetDict(PyImport_AddModule("__main__"));
    if (lua_isnoneornil(L, 2)) return true;
    PyObject *names = keep(j, to_python(L, j->S, 2));
    if (names == NULL) return false;
    if (lua_type(L, 2) == LUA_TTABLE) {
        PyObject *merged = keep(j, PyDict_Copy(*globals));
        if (merged == NULL || (PyObject_Size(names) > 0 && PyDict_Update(merged, names) < 0)) return false;
        *globals = *locals = merged;
        return true;
    }
    if (Py_TYPE(names) == &PyDict_Type) {
        *globals = *locals = names;
        PyObject *builtins = PyEval_GetBuiltins();
        return PyDict_GetItemString(names, "__builtins__") != NULL || PyDict_SetItemString(names, "__builtins__", builtins) == 0;
    }
    if (!PyMapping_Check(names)) {
        conversion_error("locals must be a table with string keys or a Python mapping");
        return false;
    }
    *locals = names;
    return true;
}

static int run_body(lua_State *L, job *j) {
    int mode = *(const int *)j->context;
    PyObject *globals, *locals, *value = NULL;
    if (!choose_namespace(L, j, &globals, &locals)) return -1;
    PyObject *code = keep(j, Py_CompileString(lua_tostring(L, 1), "<lua>", mode));
    if (code == NULL) return -1;
    UNLOCKED(j->c, value = PyEval_EvalCode(code, globals, locals));
    if (keep(j, value) == NULL) return -1;
    if (mode == Py_file_input) return 0;
    push_python(L, j->S, value);
    return 1;
}

static int run(lua_State *L, int mode) {
    luaL_checkstring(L, 1);
    lua_settop(L, 2);
    return crossing(L, run_body, &mode);
}

/*** py.eval(source, [locals]) -> value
Evaluates a Python expression. It sees the names of `__main__`, and over them those of `locals`, a table with string keys; a
Python dict is the whole namespace instead. */
static int py_eval(lua_State *L) { return run(L, Py_eval_input); }

/*** py.exec(source, [locals])
Runs Python statements in `__main__`, or in a namespace as for `py.eval`: in a Python dict, the names they define stay. */
static int py_exec(lua_State *L) { return run(L, Py_file_input); }

/* ---- conversions ---- */

static int topy_body(lua_State *L, job *j) {
    PyObject *o = keep(j, to_python(L, j->S, 1));
    if (o == NULL) return -1;
    push_proxy(L, j->S, o);
    return 1;
}

/*** py.topy(value) -> object
The Python object that the value becomes as an argument, as a proxy even for numbers, text and None. The rules: nil and
`py.none` become None, booleans bool, integers int, floats float (NaN and infinities too), `moon.complex` complex; UTF-8 text
becomes str, and other strings are an error that names `py.bytes`. A table 1..n becomes a list, and so does an empty one; a
table with string keys becomes a dict, in sorted order; one with holes, or with both kinds of keys, is an error. A table met
twice is one object, so cyclic tables become cyclic lists and dicts. Functions become Python functions, native tensors what the
last import says (a torch tensor once torch is there, else an array); userdata and coroutines are an error that names
`py.opaque`. */
static int py_topy(lua_State *L) {
    lua_settop(L, 1);
    return crossing(L, topy_body, NULL);
}

/*** py.bytes(s) -> object
The bytes of a Lua string. */
static int py_bytes(lua_State *L) {
    site *k = SITE(L);
    state *S = k->S;
    size_t n;
    const char *s = luaL_checklstring(L, 1, &n);
    ready(L, k);
    cross c;
    enter(L, S, &c);
    return result_proxy(L, &c, PyBytes_FromStringAndSize(s, (Py_ssize_t)n));
}

static int opaque_body(lua_State *L, job *j) {
    PyObject *o = keep(j, new_luaref(L, j->S, OpaqueType, 1));
    if (o == NULL) return -1;
    push_proxy(L, j->S, o);
    return 1;
}

/*** py.opaque(value) -> object
Wraps any Lua value so that Python can pass it around untouched. Back in Lua it is the value. */
static int py_opaque(lua_State *L) {
    luaL_checkany(L, 1);
    lua_settop(L, 1);
    return crossing(L, opaque_body, NULL);
}

static int push_deep(lua_State *L, job *j, PyObject *o, lua_Integer depth);

static int push_sequence(lua_State *L, job *j, PyObject *o, lua_Integer depth) {
    int table = lua_gettop(L);
    PyObject *list = keep(j, PySequence_Tuple(o)); /* a copy: finalizers may change the original meanwhile */
    if (list == NULL) return -1;
    Py_ssize_t n = PySequence_Size(list);
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *item = keep(j, PySequence_GetItem(list, i));
        if (item == NULL) return -1;
        if (item == Py_None) push_proxy(L, j->S, item);
        else if (push_deep(L, j, item, depth) < 0) return -1;
        lua_rawseti(L, table, (lua_Integer)i + 1);
    }
    return 0;
}

static int push_mapping(lua_State *L, job *j, PyObject *o, lua_Integer depth) {
    int table = lua_gettop(L);
    PyObject *items = keep(j, PyMapping_Items(o));
    Py_ssize_t n = items ? PyList_Size(items) : -1;
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *pair = PyList_GetItem(items, i);
        PyObject *key = pair ? PyTuple_GetItem(pair, 0) : NULL, *value = pair ? PyTuple_GetItem(pair, 1) : NULL;
        if (value == NULL) return -1;
        push_item(L, j->S, key);
        if (value == Py_None) push_proxy(L, j->S, value);
        else if (push_deep(L, j, value, depth) < 0) return -1;
        lua_rawset(L, table);
    }
    return n < 0 ? -1 : 0;
}

static int push_dataclass(lua_State *L, job *j, PyObject *o, PyObject *fields, lua_Integer depth) {
    int table = lua_gettop(L);
    PyObject *names = keep(j, PySequence_List(fields));
    Py_ssize_t n = names ? PyList_Size(names) : -1;
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *name = PyList_GetItem(names, i);
        PyObject *value = keep(j, PyObject_GetAttr(o, name));
        if (value == NULL) return -1;
        push_item(L, j->S, name);
        if (value == Py_None) push_proxy(L, j->S, value);
        else if (push_deep(L, j, value, depth) < 0) return -1;
        lua_rawset(L, table);
    }
    return n < 0 ? -1 : 0;
}

/* the fields of a dataclass's instance, kept, or NULL without an error */
static PyObject *dataclass_fields(job *j, PyObject *o) {
    static PyObject *name;
    if (PyType_Check(o) || (PyType_GetFlags(Py_TYPE(o)) & Py_TPFLAGS_HEAPTYPE) == 0 ||
        interned(&name, "__dataclass_fields__") == NULL) {
        return NULL;
    }
    PyObject *fields = keep(j, PyObject_GetAttr((PyObject *)Py_TYPE(o), name));
    PyErr_Clear();
    return fields;
}

/* Lists, tuples, sets and dicts' views become sequences, dicts and instances of dataclasses tables; everything else as ever.
   One table an object. */
static int push_deep(lua_State *L, job *j, PyObject *o, lua_Integer depth) {
    bool view = PyObject_TypeCheck(o, &PyDictKeys_Type) || PyObject_TypeCheck(o, &PyDictValues_Type) ||
                PyObject_TypeCheck(o, &PyDictItems_Type);
    bool sequence = view || PyList_Check(o) || PyTuple_Check(o) || PyAnySet_Check(o), mapping = PyDict_Check(o);
    PyObject *fields = sequence || mapping || depth <= 0 ? NULL : dataclass_fields(j, o);
    luaL_checkstack(L, 8, NULL);
    if ((!sequence && !mapping && fields == NULL) || depth <= 0) {
        push_python(L, j->S, o);
        return 0;
    }
    int memo = *(const int *)j->context;
    if (lua_rawgetp(L, memo, o) == LUA_TTABLE) return 0;
    lua_pop(L, 1);
    lua_newtable(L);
    lua_pushvalue(L, -1);
    lua_rawsetp(L, memo, o);
    if (fields != NULL) return push_dataclass(L, j, o, fields, depth - 1);
    return mapping ? push_mapping(L, j, o, depth - 1) : push_sequence(L, j, o, depth - 1);
}

static int tolua_body(lua_State *L, job *j) {
    PyObject *o = keep(j, to_python(L, j->S, 1));
    lua_Integer depth = lua_tointeger(L, 2);
    if (o == NULL) return -1;
    lua_newtable(L);
    int memo = lua_gettop(L);
    j->context = &memo;
    return push_deep(L, j, o, depth) < 0 ? -1 : 1;
}

/*** py.tolua(object, {depth=}) -> value
Converts deeply. Lists, tuples (named ones too), sets and the views of dicts become sequences; dicts, ordered ones and other
subclasses too, and instances of dataclasses become tables. Inside them None is `py.none`, and shared and cyclic objects keep
their identity. Leaves become what they are as results: bool, int that fits 64 bits, float, str, bytes and NumPy's scalars of
these kinds are Lua values; all else stays a proxy: greater ints, complex numbers, enum members, str with lone surrogates,
bytearrays, ranges, iterators, arrays and tensors. `depth` bounds it (default 100); what lies deeper stays a proxy. */
static int py_tolua(lua_State *L) {
    luaL_checkany(L, 1);
    lua_Integer depth = 100;
    if (lua_istable(L, 2)) {
        lua_getfield(L, 2, "depth");
        depth = luaL_optinteger(L, -1, 100);
        if (depth > 150) depth = 150;
    }
    lua_settop(L, 1);
    lua_pushinteger(L, depth);
    return crossing(L, tolua_body, NULL);
}

/* ---- comparisons and other operators without a Lua form ---- */

typedef PyObject *(*operation)(PyObject *, PyObject *);

/* f of the two arguments; a reference or NULL, as Python's own functions */
static int apply(lua_State *L, operation f) {
    site *k = SITE(L);
    luaL_checkany(L, 2);
    ready(L, k);
    cross c;
    enter(L, k->S, &c);
    PyObject *a = to_python(L, k->S, 1), *b = a ? to_python(L, k->S, 2) : NULL, *value = NULL;
    if (b != NULL) UNLOCKED(&c, value = f(a, b));
    Py_XDECREF(a);
    Py_XDECREF(b);
    return result(L, &c, value);
}

static PyObject *eq(PyObject *a, PyObject *b) { return PyObject_RichCompare(a, b, Py_EQ); }
static PyObject *ne(PyObject *a, PyObject *b) { return PyObject_RichCompare(a, b, Py_NE); }
static PyObject *lt(PyObject *a, PyObject *b) { return PyObject_RichCompare(a, b, Py_LT); }
static PyObject *le(PyObject *a, PyObject *b) { return PyObject_RichCompare(a, b, Py_LE); }
static PyObject *gt(PyObject *a, PyObject *b) { return PyObject_RichCompare(a, b, Py_GT); }
static PyObject *ge(PyObject *a, PyObject *b) { return PyObject_RichCompare(a, b, Py_GE); }
static PyObject *same(PyObject *a, PyObject *b) { return PyBool_FromLong(a == b); }
static PyObject *contains(PyObject *a, PyObject *b) {
    int found = PySequence_Contains(a, b);
    return found < 0 ? NULL : PyBool_FromLong(found);
}

/*** py.eq(a, b) -> value
Python's `a == b`, elementwise where the objects say so; likewise `ne lt le gt ge`. */
static int py_eq(lua_State *L) { return apply(L, eq); }
static int py_ne(lua_State *L) { return apply(L, ne); }
static int py_lt(lua_State *L) { return apply(L, lt); }
static int py_le(lua_State *L) { return apply(L, le); }
static int py_gt(lua_State *L) { return apply(L, gt); }
static int py_ge(lua_State *L) { return apply(L, ge); }

/*** py.matmul(a, b) -> object
Python's `a @ b`. */
static int py_matmul(lua_State *L) { return apply(L, PyNumber_MatrixMultiply); }

/*** py.contains(object, value) -> boolean
Python's `value in object`. */
static int py_contains(lua_State *L) { return apply(L, contains); }

/*** py.is(a, b) -> boolean
Python's `a is b`. */
static int py_is(lua_State *L) { return apply(L, same); }

/*** py.bool(value) -> boolean
Python's truth of the value: `if py.bool(t) then`. In Lua every proxy is true. */
static int py_bool(lua_State *L) {
    site *k = SITE(L);
    luaL_checkany(L, 1);
    ready(L, k);
    cross c;
    enter(L, k->S, &c);
    PyObject *o = to_python(L, k->S, 1), *value = NULL;
    int truth = -1;
    if (o != NULL) UNLOCKED(&c, truth = PyObject_IsTrue(o));
    if (truth >= 0) value = PyBool_FromLong(truth);
    Py_XDECREF(o);
    return result(L, &c, value);
}

/*** py.bound(object, name) -> object
The bound method itself, as a Python object: to store it or to pass it on. */
static int py_bound(lua_State *L) {
    site *k = SITE(L);
    state *S = k->S;
    check_proxy(L, 1);
    luaL_checkstring(L, 2);
    ready(L, k);
    cross c;
    enter(L, S, &c);
    PyObject *o = own(L, &c, to_proxy(L, 1)), *value = NULL, *name = to_python(L, S, 2);
    if (name != NULL) UNLOCKED(&c, value = PyObject_GetAttr(o, name));
    Py_XDECREF(name);
    Py_DECREF(o);
    return result_proxy(L, &c, value);
}

/* ---- slices ---- */

/*** py.slice([first], [past], [step]) -> object
Python's own slice: 0-based, half open. */
static int py_slice(lua_State *L) {
    site *k = SITE(L);
    state *S = k->S;
    lua_settop(L, 3);
    ready(L, k);
    cross c;
    enter(L, S, &c);
    PyObject *a = to_python(L, S, 1), *b = a ? to_python(L, S, 2) : NULL, *s = b ? to_python(L, S, 3) : NULL;
    PyObject *value = s ? PySlice_New(a, b, s) : NULL;
    Py_XDECREF(a);
    Py_XDECREF(b);
    Py_XDECREF(s);
    return result(L, &c, value);
}

/* ---- the GIL ---- */

/*** py.hold(f, ...) -> ...
Calls f(...) and keeps the GIL across it: for hot loops beside busy Python threads. Other threads run only when f's calls
into Python let them. */
static int py_hold(lua_State *L) {
    state *S = STATE(L);
    int n = lua_gettop(L);
    if (lua_type(L, 1) != LUA_TFUNCTION && luaL_getmetafield(L, 1, "__call") == LUA_TNIL) {
        return luaL_typeerror(L, 1, "function");
    }
    lua_settop(L, n);
    READY(L, S);
    cross c;
    enter(L, S, &c);
    c.thread->hold++;
    int status = lua_pcall(L, lua_gettop(L) - 1, LUA_MULTRET, 0);
    c.thread->hold--;
    leave(&c);
    return status == LUA_OK ? lua_gettop(L) : lua_error(L);
}

/*** py.shutdown()
Python's exit work, now: joins its non-daemon threads, runs its atexit callbacks, flushes its streams. For hosts that set
`py.init{exit = "host"}`; otherwise it happens when the last Lua state closes, or in os.exit. */
static int py_shutdown(lua_State *L) {
    shut_down(STATE(L));
    return 0;
}

static int py_leave(lua_State *L) {
    leave_process(STATE(L));
    return 0;
}

static int is_mark(lua_State *L) {
    lua_pushboolean(L, lua_type(L, 1) == LUA_TTABLE && is_kw(L, 1));
    return 1;
}

static int set_callback_timeout(lua_State *L) {
    STATE(L)->callback_timeout = luaL_checknumber(L, 1);
    return 0;
}

static int set_exit(lua_State *L) {
    host_exits = lua_toboolean(L, 1);
    return 0;
}

static int is_proxy(lua_State *L) {
    proxy *p = to_proxy(L, 1);
    lua_pushboolean(L, p != NULL && p->o != NULL);
    return 1;
}

void open_functions(lua_State *L, state *S) {
    static const luaL_Reg functions[] = {{"import", py_import},
                                         {"eval", py_eval},
                                         {"exec", py_exec},
                                         {"topy", py_topy},
                                         {"tolua", py_tolua},
                                         {"bytes", py_bytes},
                                         {"opaque", py_opaque},
                                         {"eq", py_eq},
                                         {"ne", py_ne},
                                         {"lt", py_lt},
                                         {"le", py_le},
                                         {"gt", py_gt},
                                         {"ge", py_ge},
                                         {"matmul", py_matmul},
                                         {"bool", py_bool},
                                         {"contains", py_contains},
                                         {"is", py_is},
                                         {"bound", py_bound},
                                         {"slice", py_slice},
                                         {"hold", py_hold},
                                         {"gc", py_gc},
                                         {"scope", py_scope},
                                         {"shutdown", py_shutdown},
                                         {"_leave", py_leave},
                                         {"_is_proxy", is_proxy},
                                         {"_is_mark", is_mark},
                                         {"_set_callback_timeout", set_callback_timeout},
                                         {"_set_exit", set_exit},
                                         {NULL, NULL}};
    set_functions(L, S, functions);
    open_iteration(L, S);
}
