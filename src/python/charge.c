/* The memory behind proxies. Lua's collector sees 40 bytes where torch holds 100 MB, so the bytes of tensors, arrays and large
   buffers that results bring are counted, and a collection is forced when they reach a limit. */
#include "exchange.h"
#include <math.h>
#include <string.h>

enum {
    EACH = 65536,         /* a new tensor counts for that beside its bytes: thousands of small ones, all alive till the next
                            collection, would wear out the caches and Python's own collector */
    BUFFER_LEAST = 65536, /* smaller buffers are not worth a thought */
    HEAP_FACTOR = 4       /* bytes of new tensors for each byte of Lua's own heap, which every collection has to walk */
};

static PyObject *nbytes_name;

static int64_t bytes_of_array(PyObject *o) { /* 0 for those that cannot say: sparse ones, odd subclasses */
    PyObject *n = interned(&nbytes_name, "nbytes") ? PyObject_GetAttr(o, nbytes_name) : NULL;
    int64_t bytes = n ? PyLong_AsLongLong(n) : 0;
    Py_XDECREF(n);
    if (PyErr_Occurred()) {
        PyErr_Clear();
        bytes = 0;
    }
    return bytes < 0 ? 0 : bytes;
}

static bool is_array(PyObject *o) { return torch_exact(o) || numpy_array(o) || torch_tensor(o); }

void charge(state *S, proxy *p) {
    int64_t bytes = 0, each = 0;
    if (is_array(p->o)) {
        bytes = bytes_of_array(p->o);
        each = EACH;
    } else if (PyByteArray_CheckExact(p->o) && PyByteArray_Size(p->o) >= BUFFER_LEAST) {
        bytes = PyByteArray_Size(p->o);
    }
    p->charged = bytes;
    S->charged += bytes;
    S->pending += bytes + each;
}

static int64_t limit(lua_State *L, const state *S) {
    double share = S->gc_step * (double)S->charged;
    int64_t least = S->gc_threshold, heap = (int64_t)lua_gc(L, LUA_GCCOUNT) * 1024 * HEAP_FACTOR;
    if (heap > least) least = heap;
    return share > (double)least ? (int64_t)share : least;
}

void collect_charged(lua_State *L, state *S) {
    if (S->pending < limit(L, S) || !lua_gc(L, LUA_GCISRUNNING)) return;
    S->pending = 0;
    lua_gc(L, LUA_GCCOLLECT); /* finalizers bury; the next crossing lets go */
}

/* Did C code itself, and not Python code that may have done half its work, run out of memory? The error stays pending. */
static bool is_out_of_memory(void) {
    PyObject *type, *value, *traceback, *text = NULL;
    if (PyErr_ExceptionMatches(PyExc_MemoryError) == 0 && PyErr_ExceptionMatches(PyExc_RuntimeError) == 0) return false;
    PyErr_Fetch(&type, &value, &traceback);
    bool yes = traceback == NULL;
    if (yes && !PyErr_GivenExceptionMatches(type, PyExc_MemoryError)) { /* torch's own: a RuntimeError */
        text = value ? PyObject_Str(value) : NULL;
        const char *s = text ? PyUnicode_AsUTF8AndSize(text, NULL) : NULL;
        yes = s != NULL && (strstr(s, "can't allocate memory") != NULL || strstr(s, "out of memory") != NULL);
        PyErr_Clear();
        Py_XDECREF(text);
    }
    PyErr_Restore(type, value, traceback);
    return yes;
}

bool freed_memory(lua_State *L, cross *c) {
    if (!is_out_of_memory() || !lua_gc(L, LUA_GCISRUNNING)) return false;
    PyErr_Clear();
    lua_gc(L, LUA_GCCOLLECT);
    drain(c->S, L);
    return true;
}

/*** py.gc{threshold=, step=} -> table
When Lua's collector runs for the memory behind tensors, arrays and buffers: once `threshold` bytes of new ones have come from
Python (64 MiB; each tensor counts for 64 KiB more than its elements), or `step` times the bytes that are held already (0.2), or four times Lua's own heap, whichever is most. Returns
both settings, and `charged`, the bytes that this Lua state's objects hold now. `threshold = math.huge` turns it off. */
int py_gc(lua_State *L) {
    static const char *const names[] = {"threshold", "step", NULL};
    state *S = STATE(L);
    if (!lua_isnoneornil(L, 1)) {
        luaL_checktype(L, 1, LUA_TTABLE);
        known_options(L, 1, names);
        double threshold = (double)S->gc_threshold, step = S->gc_step;
        if (lua_getfield(L, 1, "threshold") != LUA_TNIL) threshold = luaL_checknumber(L, -1);
        if (lua_getfield(L, 1, "step") != LUA_TNIL) step = luaL_checknumber(L, -1);
        luaL_argcheck(L, threshold >= 0, 1, "threshold= is a number of bytes, 0 or more");
        luaL_argcheck(L, step >= 0, 1, "step= is a ratio, 0 or more");
        S->gc_threshold = threshold < 9e18 ? (int64_t)threshold : INT64_MAX;
        S->gc_step = step;
    }
    lua_createtable(L, 0, 3);
    if (S->gc_threshold == INT64_MAX) lua_pushnumber(L, HUGE_VAL);
    else lua_pushinteger(L, S->gc_threshold);
    lua_setfield(L, -2, "threshold");
    lua_pushnumber(L, S->gc_step);
    lua_setfield(L, -2, "step");
    lua_pushinteger(L, S->charged);
    lua_setfield(L, -2, "charged");
    return 1;
}
