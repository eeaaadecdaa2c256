/* Iteration of Python objects by Lua's generic for. None inside a loop arrives as py.none, since nil would end the loop. */
#include "bridge.h"

#define ITERATOR lua_upvalueindex(3)

static int next_one(lua_State *L) {
    site *k = SITE(L);
    state *S = k->S;
    ready(L, k);
    proxy *it = to_proxy(L, ITERATOR);
    if (it == NULL || it->o == NULL) return luaL_error(L, "python iterator is closed");
    cross c;
    enter(L, S, &c);
    PyObject *o = own(L, &c, it), *value = NULL;
    UNLOCKED(&c, value = PyIter_Next(o));
    Py_DECREF(o);
    if (value == NULL && !PyErr_Occurred()) {
        leave(&c);
        lua_pushnil(L);
        return 1;
    }
    return value == Py_None ? result_proxy(L, &c, value) : result(L, &c, value);
}

void push_item(lua_State *L, state *S, PyObject *o) {
    if (o == Py_None) push_proxy(L, S, o);
    else push_python(L, S, o);
}

/* the items of a tuple or list, pushed; the number of them, or -1 with a Python error */
static int push_items(lua_State *L, job *j, PyObject *o) {
    bool tuple = PyTuple_Check(o);
    Py_ssize_t n = tuple ? PyTuple_Size(o) : PyList_Size(o);
    luaL_checkstack(L, (int)n + 4, "too many items to unpack");
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *item = tuple ? PyTuple_GetItem(o, i) : PyList_GetItem(o, i);
        if (item == NULL) return -1;
        Py_INCREF(item); /* a list may change while finalizers run */
        if (keep(j, item) == NULL) return -1;
        push_item(L, j->S, item);
    }
    return (int)n;
}

static int each_body(lua_State *L, job *j) {
    PyObject *value = NULL, *it = ((const proxy *)j->context)->o;
    if (it == NULL) {
        conversion_error("python iterator is closed");
        return -1;
    }
    Py_INCREF(it);
    if (keep(j, it) == NULL) return -1;
    UNLOCKED(j->c, value = PyIter_Next(it));
    if (keep(j, value) == NULL) {
        if (PyErr_Occurred()) return -1;
        lua_pushnil(L);
        return 1;
    }
    if (PyTuple_Check(value) || PyList_Check(value)) return push_items(L, j, value);
    push_item(L, j->S, value);
    return 1;
}

static int next_each(lua_State *L) {
    proxy *it = to_proxy(L, ITERATOR);
    if (it == NULL || it->o == NULL) return luaL_error(L, "python iterator is closed");
    lua_settop(L, 0);
    return crossing(L, each_body, it);
}

/* the iterator of the object at 1 as a proxy */
static int iterator_body(lua_State *L, job *j) {
    PyObject *o = keep(j, to_python(L, j->S, 1)), *it = NULL;
    if (o == NULL) return -1;
    if (j->context != NULL && PyMapping_Check(o) && PyObject_HasAttrString(o, "items")) {
        o = keep(j, PyObject_CallMethod(o, "items", NULL));
        if (o == NULL) return -1;
    } else if (j->context != NULL) {
        PyErr_SetString(PyExc_TypeError, "pairs needs a mapping; use py.iter, py.each or py.enumerate");
        return -1;
    }
    UNLOCKED(j->c, it = PyObject_GetIter(o));
    if (keep(j, it) == NULL) return -1;
    push_proxy(L, j->S, it);
    return 1;
}

static int make_iterator(lua_State *L, lua_CFunction next, void *mapping) {
    luaL_checkany(L, 1);
    lua_settop(L, 1);
    crossing(L, iterator_body, mapping);
    push_site(L, STATE(L));
    lua_pushvalue(L, -3);
    lua_pushcclosure(L, next, 3);
    return 1;
}

/*** py.iter(object) -> function
Iterates any Python iterable: `for x in py.iter(obj) do … end`. None arrives as `py.none`. Raises TypeError for what is not
iterable. */
static int py_iter(lua_State *L) { return make_iterator(L, next_one, NULL); }

/*** py.each(object) -> function
Like `py.iter`, with tuples and lists unpacked: `for x, y in py.each(loader) do … end`. */
static int py_each(lua_State *L) { return make_iterator(L, next_each, NULL); }

static int proxy_pairs(lua_State *L) { return make_iterator(L, next_each, L); }

static int unpack_body(lua_State *L, job *j) {
    PyObject *o = keep(j, to_python(L, j->S, 1));
    if (o != NULL && !PyTuple_Check(o) && !PyList_Check(o)) UNLOCKED(j->c, o = keep(j, PySequence_List(o)));
    return o ? push_items(L, j, o) : -1;
}

/*** py.unpack(sequence) -> ...
The items of a tuple, list or other iterable as Lua values; None as `py.none`. */
static int py_unpack(lua_State *L) {
    luaL_checkany(L, 1);
    lua_settop(L, 1);
    return crossing(L, unpack_body, NULL);
}

void open_iteration(lua_State *L, state *S) {
    static const luaL_Reg functions[] = {{"iter", py_iter}, {"each", py_each}, {"unpack", py_unpack}, {NULL, NULL}};
    set_functions(L, S, functions);
    push_proxy_metatable(L);
    push_function(L, S, proxy_pairs);
    lua_setfield(L, -2, "__pairs");
    lua_pop(L, 1);
}
