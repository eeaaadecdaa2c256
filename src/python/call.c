/* Calls of Python from Lua: arguments, keyword arguments, and the hints that a Lua habit deserves. */
#include "bridge.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { INLINE_ARGS = 12 };

typedef struct arguments {
    PyObject *inline_slots[INLINE_ARGS + 1];
    PyObject **slots; /* slots[0] is the callee's, for vectorcall; slots[1..n] are owned */
    size_t n, room;
    PyObject *names; /* tuple of keyword names, or NULL; owned */
} arguments;

static inline void start(arguments *a) {
    a->slots = a->inline_slots;
    a->n = 0;
    a->room = INLINE_ARGS;
    a->names = NULL;
}

static inline bool add(arguments *a, PyObject *value) {
    if (value == NULL) return false;
    if (a->n == a->room) {
        size_t room = 2 * a->room;
        PyObject **p = (PyObject **)malloc((room + 1) * sizeof *p);
        if (p == NULL) {
            Py_DECREF(value);
            PyErr_NoMemory();
            return false;
        }
        memcpy(p, a->slots, (a->n + 1) * sizeof *p);
        if (a->slots != a->inline_slots) free(a->slots);
        a->slots = p;
        a->room = room;
    }
    a->slots[++a->n] = value;
    return true;
}

static inline void release(arguments *a) {
    while (a->n != 0) Py_DECREF(a->slots[a->n--]);
    if (a->slots != a->inline_slots) free(a->slots);
    Py_XDECREF(a->names);
}

/* Keys are pushed and sorted on the Lua stack, so that Python sees the same order in every run. Nothing here allocates in Lua. */
static bool add_keywords(lua_State *L, state *S, arguments *a, int t) {
    int base = lua_gettop(L), n = 0;
    lua_pushnil(L);
    while (lua_next(L, t) != 0) {
        lua_pop(L, 1);
        if (lua_type(L, -1) != LUA_TSTRING) {
            conversion_error("keyword arguments need string keys: py.kw{name = value}");
            return false;
        }
        if (!lua_checkstack(L, 4)) return PyErr_NoMemory() != NULL;
        lua_pushvalue(L, -1);
        n++;
        int k = lua_gettop(L) - 1; /* the sorted keys are base+1..k-1; k is the new one; the iteration key stays on top */
        for (; k > base + 1 && strcmp(lua_tostring(L, k - 1), lua_tostring(L, k)) > 0; k--) {
            lua_pushvalue(L, k - 1);
            lua_pushvalue(L, k);
            lua_replace(L, k - 1);
            lua_replace(L, k);
        }
    }
    if (n == 0) return true;
    a->names = PyTuple_New(n);
    if (a->names == NULL) return false;
    for (int i = 0; i < n; i++) {
        PyObject *name = to_python(L, S, base + 1 + i);
        if (name == NULL || PyTuple_SetItem(a->names, i, name) < 0) return false;
        lua_pushvalue(L, base + 1 + i);
        lua_rawget(L, t);
        bool ok = add(a, to_python(L, S, -1));
        lua_pop(L, 1);
        if (!ok) return false;
    }
    lua_settop(L, base);
    return true;
}

static bool collect_keywords(lua_State *L, state *S, arguments *a, int top) {
    if (!lua_checkstack(L, 8)) return PyErr_NoMemory() != NULL;
    bool ok = add_keywords(L, S, a, top);
    lua_settop(L, top);
    return ok;
}

/* Into a, which is empty: arguments from index first to the top. A C function has stack slots to spare, for scalars. */
static bool collect(lua_State *L, state *S, arguments *a, int first) {
    int top = lua_gettop(L);
    for (int i = first; i <= top; i++) {
        int type = lua_type(L, i);
        if (unlikely(type == LUA_TTABLE && i == top && is_kw(L, top))) return collect_keywords(L, S, a, top);
        if (!add(a, typed_to_python(L, S, i, type))) return false;
    }
    return true;
}

/* ---- hints ---- */

static bool has_integral_float(lua_State *L, int first, double *value) {
    for (int i = first; i <= lua_gettop(L); i++) {
        if (lua_type(L, i) != LUA_TNUMBER || lua_isinteger(L, i)) continue;
        *value = lua_tonumber(L, i);
        if (*value == (double)(long long)*value) return true;
    }
    return false;
}

/* is the value at i a plain table of names, as Lua passes options? */
static bool is_options_table(lua_State *L, int i) {
    if (lua_type(L, i) != LUA_TTABLE || lua_rawlen(L, i) != 0 || !lua_checkstack(L, 3)) return false;
    if (lua_getmetatable(L, i)) {
        lua_pop(L, 1);
        return false;
    }
    lua_pushnil(L);
    if (lua_next(L, i) == 0) return false;
    bool named = lua_type(L, -2) == LUA_TSTRING;
    lua_pop(L, 2);
    return named;
}

/* is the value at i a Lua table that stands for a Python module, as moontensor.torch does? */
static bool is_module_table(lua_State *L, int i) {
    if (lua_type(L, i) != LUA_TTABLE || !lua_checkstack(L, 4) || !lua_getmetatable(L, i)) return false;
    bool found = false;
    for (lua_pushnil(L); lua_next(L, -2) != 0; lua_pop(L, 1)) { /* its __index: to ask by name may allocate */
        proxy *p = to_proxy(L, -1);
        found |= p != NULL && p->o != NULL && PyModule_Check(p->o);
    }
    lua_pop(L, 1);
    return found;
}

/* A TypeError that a Lua habit caused says so: the pending exception gets an attribute __lua_hint__, which its text shows. */
static void add_hint(lua_State *L, int first) {
    if (!PyErr_ExceptionMatches(PyExc_TypeError)) return;
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    PyErr_NormalizeException(&type, &value, &traceback);
    PyObject *text = PyObject_Str(value);
    const char *message = text ? PyUnicode_AsUTF8AndSize(text, NULL) : NULL;
    char hint[160] = "";
    double number = 0;
    proxy *owner = to_proxy(L, first);
    if (is_module_table(L, first)) {
        snprintf(hint, sizeof hint, "functions of a module or class are called with '.', not ':'");
    } else if (is_options_table(L, lua_gettop(L))) {
        snprintf(hint, sizeof hint, "a table is a dict argument; keyword arguments are py.kw{name = value}");
    } else if (has_integral_float(L, first, &number)) {
        snprintf(hint, sizeof hint, "%.1f is a float; where an integer is meant, use // or math.tointeger", number);
    } else if (owner != NULL && owner->o != NULL && (PyModule_Check(owner->o) || PyType_Check(owner->o))) {
        snprintf(hint, sizeof hint, "functions of a module or class are called with '.', not ':'");
    } else if (message != NULL && owner != NULL && strstr(message, "positional argument") != NULL) {
        snprintf(hint, sizeof hint, "a function that is no method of its owner is called with '.', not ':'");
    }
    PyErr_Clear();
    PyObject *note = hint[0] ? PyUnicode_FromString(hint) : NULL;
    if (note != NULL && PyObject_SetAttrString(value, "__lua_hint__", note) < 0) PyErr_Clear();
    Py_XDECREF(note);
    Py_XDECREF(text);
    PyErr_Restore(type, value, traceback);
}

/* ---- the two calls ---- */

static size_t positional(const arguments *a) {
    return (a->n - (a->names ? (size_t)PyTuple_Size(a->names) : 0)) | VECTORCALL_OFFSET;
}

int call_python(lua_State *L, cross *c, PyObject *callee, int first) {
    arguments a;
    start(&a);
    PyObject *value = NULL;
    if (collect(L, c->S, &a, first)) {
        UNLOCKED_RETRY(L, c, value, PyObject_Vectorcall(callee, a.slots + 1, positional(&a), a.names));
        if (unlikely(value == NULL)) add_hint(L, first);
    }
    release(&a);
    Py_DECREF(callee);
    return result(L, c, value);
}

int call_method(lua_State *L, state *S, PyObject *name, const proxy *self) {
    cross c;
    enter(L, S, &c);
    arguments a;
    start(&a);
    PyObject *value = NULL;
    a.slots[++a.n] = own(L, &c, self);
    if (collect(L, S, &a, 3)) {
        UNLOCKED_RETRY(L, &c, value, PyObject_VectorcallMethod(name, a.slots + 1, positional(&a), a.names));
        if (unlikely(value == NULL)) add_hint(L, 3);
    }
    release(&a);
    return result(L, &c, value);
}
