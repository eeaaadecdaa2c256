/* The metatable of proxies: attributes and items, calls, operators. */
#include "bridge.h"
#include <string.h>

/* ---- keys ---- */

/* {a, b, step} and {} inside an index are slices, with Python's own half-open meaning */
static PyObject *slice_of_table(lua_State *L, state *S, int t) {
    size_t n = lua_rawlen(L, t);
    if (n > 3) return conversion_error("a slice has at most 3 parts, {first, past, step}; this one has %zd", (Py_ssize_t)n);
    PyObject *part[3] = {NULL, NULL, NULL}, *slice = NULL;
    size_t i = 0;
    for (; i < n; i++) {
        lua_rawgeti(L, t, (lua_Integer)i + 1);
        part[i] = to_python(L, S, -1);
        lua_pop(L, 1);
        if (part[i] == NULL) break;
    }
    if (i == n) slice = PySlice_New(part[0], part[1], part[2]);
    for (i = 0; i < 3; i++) Py_XDECREF(part[i]);
    return slice;
}

/* One element of a table index, at the top of the stack. */
static PyObject *key_part(lua_State *L, state *S) {
    if (lua_type(L, -1) == LUA_TTABLE) {
        if (!lua_getmetatable(L, -1)) return slice_of_table(L, S, lua_gettop(L));
        lua_pop(L, 1);
    }
    return to_python(L, S, -1);
}

/* obj[{k}] is item k, obj[{a, b}] is item (a, b) */
static PyObject *key_of_table(lua_State *L, state *S, int t) {
    Py_ssize_t n = (Py_ssize_t)lua_rawlen(L, t);
    int top = lua_gettop(L);
    if (n == 0) return PySlice_New(NULL, NULL, NULL);
    PyObject *tuple = n > 1 ? PyTuple_New(n) : NULL;
    if (n > 1 && tuple == NULL) return NULL;
    for (Py_ssize_t i = 0; i < n; i++) {
        lua_rawgeti(L, t, (lua_Integer)i + 1);
        PyObject *part = key_part(L, S);
        lua_settop(L, top);
        if (part == NULL) {
            Py_XDECREF(tuple);
            return NULL;
        }
        if (tuple == NULL) return part;
        if (PyTuple_SetItem(tuple, i, part) < 0) {
            Py_DECREF(tuple);
            return NULL;
        }
    }
    return tuple;
}

PyObject *key_to_python(lua_State *L, state *S, int i) {
    if (!lua_checkstack(L, 8)) return PyErr_NoMemory();
    if (lua_type(L, i) == LUA_TTABLE) return key_of_table(L, S, i);
    return to_python(L, S, i);
}

/* ---- attributes and items ---- */

PyObject *strip_underscore(PyObject *name) {
    Py_ssize_t n;
    const char *s = PyUnicode_AsUTF8AndSize(name, &n);
    return s ? PyUnicode_FromStringAndSize(s, n - 1) : NULL;
}

/* reading an attribute of o failed: `end_` may be Python's `end`, and a hint may help */
PyObject *get_missing(PyObject *o, PyObject *name, bool keyword) {
    if (keyword && PyErr_ExceptionMatches(PyExc_AttributeError)) {
        PyObject *type, *error, *traceback;
        PyErr_Fetch(&type, &error, &traceback);
        PyObject *plain = strip_underscore(name);
        PyObject *value = plain ? PyObject_GetAttr(o, plain) : NULL;
        Py_XDECREF(plain);
        if (value == NULL && PyErr_ExceptionMatches(PyExc_AttributeError)) {
            PyErr_Restore(type, error, traceback); /* about the name as it was written */
        } else {
            Py_XDECREF(type);
            Py_XDECREF(error);
            Py_XDECREF(traceback);
            return value;
        }
    }
    hint_attribute(o, "items are read with obj[{\"%U\"}] or obj:get(\"%U\")", name);
    return NULL;
}

PyObject *get_named(PyObject *o, const attribute *a) {
    PyObject *value = PyObject_GetAttr(o, a->name);
    return value != NULL ? value : get_missing(o, a->name, a->keyword);
}

int index_item(lua_State *L, state *S, proxy *p) {
    cross c;
    enter(L, S, &c);
    PyObject *o = own(L, &c, p), *value = NULL, *key = key_to_python(L, S, 2);
    if (key != NULL) UNLOCKED(&c, value = PyObject_GetItem(o, key));
    if (unlikely(value == NULL)) hint_item(L, 2);
    Py_XDECREF(key);
    Py_DECREF(o);
    return result(L, &c, value);
}

static int set_attribute(PyObject *o, PyObject *name, PyObject *value, bool keyword) {
    PyObject *plain = keyword ? strip_underscore(name) : NULL;
    int failed = keyword && plain == NULL ? -1 : PyObject_SetAttr(o, plain ? plain : name, value);
    Py_XDECREF(plain);
    if (unlikely(failed)) hint_attribute(o, "items are written with obj[{\"%U\"}] = value", name);
    return failed;
}

static int proxy_newindex(lua_State *L) {
    site *k = SITE(L);
    state *S = k->S;
    proxy *p = to_proxy(L, 1);
    if (unlikely(p == NULL)) return luaL_typeerror(L, 1, "python object");
    if (unlikely(p->o == NULL)) return luaL_error(L, "python object is closed");
    ready(L, k);
    cross c;
    enter(L, S, &c);
    bool text = lua_type(L, 2) == LUA_TSTRING, keyword = false;
    PyObject *o = own(L, &c, p), *key = NULL, *value = NULL;
    attribute unlisted, *a = NULL;
    if (!text) {
        key = key_to_python(L, S, 2);
    } else if ((a = find_attribute(L, S, Py_TYPE(o), 2, &unlisted)) != NULL) {
        keyword = a->keyword;
        key = a->name; /* the entry may be another's once the value is converted */
        Py_INCREF(key);
        forget_own_name(a, &unlisted);
    }
    int failed = -1;
    if (key != NULL) value = to_python(L, S, 3);
    if (value != NULL) {
        UNLOCKED(&c, failed = text ? set_attribute(o, key, value, keyword) : PyObject_SetItem(o, key, value));
        if (text) method_is_shadowed(L, S, Py_TYPE(o), 2);
        else if (unlikely(failed)) hint_item(L, 2);
    }
    UNLOCKED(&c, Py_XDECREF(value));
    Py_XDECREF(key);
    Py_DECREF(o);
    return result_none(L, &c, failed);
}

static int proxy_call(lua_State *L) {
    site *k = SITE(L);
    state *S = k->S;
    proxy *p = (proxy *)lua_touserdata(L, 1);
    if (unlikely(p == NULL || p != S->called)) {
        p = to_proxy(L, 1);
        if (p == NULL) return luaL_typeerror(L, 1, "python object");
        S->called = p;
    }
    if (unlikely(p->o == NULL)) return luaL_error(L, "python object is closed");
    ready(L, k);
    cross c;
    enter(L, S, &c);
    return call_python(L, &c, own(L, &c, p), 2);
}

/* ---- text ---- */

/* an exception shows where Lua called, what went wrong, Python's traceback and Lua's stack (error_text in the prelude) */
static PyObject *error_text;

PyObject *text_of(PyObject *o) {
    if (!PyExceptionInstance_Check(o)) return PyObject_Str(o);
    if (error_text == NULL) {
        PyObject *module = PyDict_GetItemString(PyImport_GetModuleDict(), "moontensor");
        error_text = module ? PyObject_GetAttrString(module, "_error_text") : NULL;
        if (error_text == NULL) {
            PyErr_Clear();
            return PyObject_Str(o);
        }
    }
    return PyObject_CallFunctionObjArgs(error_text, o, NULL);
}

/* takes text; what is no UTF-8, a file's name perhaps, as the bytes it stands for, else escaped */
static PyObject *as_string(PyObject *text) {
    if (text == NULL || !PyUnicode_Check(text) || (PyUnicode_CheckExact(text) && PyUnicode_AsUTF8AndSize(text, NULL) != NULL)) {
        return text;
    }
    PyErr_Clear();
    PyObject *bytes = PyUnicode_AsEncodedString(text, "utf-8", "surrogateescape");
    if (bytes == NULL) {
        PyErr_Clear();
        bytes = PyUnicode_AsEncodedString(text, "utf-8", "backslashreplace");
    }
    Py_DECREF(text);
    return bytes;
}

static int proxy_tostring(lua_State *L) {
    site *k = SITE(L);
    state *S = k->S;
    proxy *p = to_proxy(L, 1);
    if (p == NULL) return luaL_typeerror(L, 1, "python object");
    if (p->o == NULL) {
        lua_pushliteral(L, "python object (closed)");
        return 1;
    }
    ready(L, k);
    cross c;
    enter(L, S, &c);
    PyObject *o = own(L, &c, p), *text = NULL;
    UNLOCKED(&c, text = as_string(text_of(o)));
    UNLOCKED(&c, Py_DECREF(o));
    return result(L, &c, text);
}

static int proxy_concat(lua_State *L) {
    int other = to_proxy(L, 1) ? 2 : 1, type = lua_type(L, other);
    if (to_proxy(L, other)) {
        return luaL_error(L, "attempt to concatenate two python objects; use a + b, or tostring(a) .. tostring(b)");
    }
    if (type != LUA_TSTRING && type != LUA_TNUMBER) {
        return luaL_error(L, "attempt to concatenate a python object and a %s value", lua_typename(L, type));
    }
    luaL_tolstring(L, 1, NULL);
    luaL_tolstring(L, 2, NULL);
    lua_concat(L, 2);
    return 1;
}

/* ---- operators ---- */

typedef PyObject *(*binary)(PyObject *, PyObject *);

static PyObject *power(PyObject *a, PyObject *b) { return PyNumber_Power(a, b, Py_None); }

static int apply(lua_State *L, binary f) {
    site *k = SITE(L);
    state *S = k->S;
    ready(L, k);
    cross c;
    enter(L, S, &c);
    PyObject *a = to_python(L, S, 1), *b = a ? to_python(L, S, 2) : NULL, *value = NULL;
    if (b != NULL) UNLOCKED_RETRY(L, &c, value, f(a, b));
    if (unlikely(value == NULL)) hint_operator(L);
    Py_XDECREF(a);
    Py_XDECREF(b);
    return result(L, &c, value);
}

#define OPERATOR(name, f) \
    static int name(lua_State *L) { return apply(L, f); }
OPERATOR(proxy_add, PyNumber_Add)
OPERATOR(proxy_sub, PyNumber_Subtract)
OPERATOR(proxy_mul, PyNumber_Multiply)
OPERATOR(proxy_div, PyNumber_TrueDivide)
OPERATOR(proxy_idiv, PyNumber_FloorDivide)
OPERATOR(proxy_mod, PyNumber_Remainder)
OPERATOR(proxy_pow, power)
OPERATOR(proxy_band, PyNumber_And)
OPERATOR(proxy_bor, PyNumber_Or)
OPERATOR(proxy_bxor, PyNumber_Xor)
OPERATOR(proxy_shl, PyNumber_Lshift)
OPERATOR(proxy_shr, PyNumber_Rshift)

static int apply_unary(lua_State *L, PyObject *(*f)(PyObject *)) {
    site *k = SITE(L);
    state *S = k->S;
    ready(L, k);
    cross c;
    enter(L, S, &c);
    PyObject *a = to_python(L, S, 1), *value = NULL;
    if (a != NULL) UNLOCKED(&c, value = f(a));
    Py_XDECREF(a);
    return result(L, &c, value);
}
static int proxy_unm(lua_State *L) { return apply_unary(L, PyNumber_Negative); }
static int proxy_bnot(lua_State *L) { return apply_unary(L, PyNumber_Invert); }

static int proxy_len(lua_State *L) {
    site *k = SITE(L);
    state *S = k->S;
    check_proxy(L, 1);
    ready(L, k);
    cross c;
    enter(L, S, &c);
    PyObject *o = own(L, &c, to_proxy(L, 1));
    Py_ssize_t n = -1;
    UNLOCKED(&c, n = PyObject_Size(o));
    Py_DECREF(o);
    if (n < 0) return result_error(L, &c);
    leave(&c);
    lua_pushinteger(L, n);
    return 1;
}

/* identity first: one object is equal to itself, whatever its __eq__ says (NaN, arrays) */
static int compare(lua_State *L, int op, const char *name) {
    site *k = SITE(L);
    state *S = k->S;
    proxy *p = to_proxy(L, 1), *q = to_proxy(L, 2);
    if (op == Py_EQ && p != NULL && q != NULL && p->o == q->o) {
        lua_pushboolean(L, 1);
        return 1;
    }
    if (op == Py_EQ && ((p != NULL && p->o == NULL) || (q != NULL && q->o == NULL))) {
        lua_pushboolean(L, 0);
        return 1;
    }
    ready(L, k);
    cross c;
    enter(L, S, &c);
    PyObject *a = to_python(L, S, 1), *b = a ? to_python(L, S, 2) : NULL;
    int truth = -1;
    if (b != NULL) UNLOCKED(&c, truth = PyObject_RichCompareBool(a, b, op));
    Py_XDECREF(a);
    Py_XDECREF(b);
    if (truth < 0) {
        hint_comparison(&c, name);
        return result_error(L, &c);
    }
    leave(&c);
    lua_pushboolean(L, truth);
    return 1;
}
static int proxy_eq(lua_State *L) { return compare(L, Py_EQ, "eq"); }
static int proxy_lt(lua_State *L) { return compare(L, Py_LT, "lt"); }
static int proxy_le(lua_State *L) { return compare(L, Py_LE, "le"); }

void open_proxies(lua_State *L, state *S) {
    static const luaL_Reg metamethods[] = {{"__newindex", proxy_newindex},
                                           {"__call", proxy_call},
                                           {"__tostring", proxy_tostring},
                                           {"__concat", proxy_concat},
                                           {"__len", proxy_len},
                                           {"__eq", proxy_eq},
                                           {"__lt", proxy_lt},
                                           {"__le", proxy_le},
                                           {"__add", proxy_add},
                                           {"__sub", proxy_sub},
                                           {"__mul", proxy_mul},
                                           {"__div", proxy_div},
                                           {"__idiv", proxy_idiv},
                                           {"__mod", proxy_mod},
                                           {"__pow", proxy_pow},
                                           {"__band", proxy_band},
                                           {"__bor", proxy_bor},
                                           {"__bxor", proxy_bxor},
                                           {"__shl", proxy_shl},
                                           {"__shr", proxy_shr},
                                           {"__unm", proxy_unm},
                                           {"__bnot", proxy_bnot},
                                           {NULL, NULL}};
    new_proxy_metatable(L, S);
    set_functions(L, S, metamethods);
    lua_pop(L, 1);
}
