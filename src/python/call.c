/* Calls of Python from Lua: arguments and keyword arguments. */
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
        if (unlikely(value == NULL)) hint_call(L, c, first);
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
        if (unlikely(value == NULL)) hint_call(L, &c, 3);
    }
    release(&a);
    return result(L, &c, value);
}
