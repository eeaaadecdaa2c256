/* The least that any bridge over CPython's C API can take, for the rows of bench/run.lua under py.hold: one C function for
   each crossing that the Lua VM makes, constant names, no checks, no errors, no locks. Built by bench/run.lua; unsafe by intent. */
#define Py_LIMITED_API 0x030B0000
#include <Python.h>
#include <lauxlib.h>

PyAPI_FUNC(PyObject *) PyObject_Vectorcall(PyObject *, PyObject *const *, size_t, PyObject *);
PyAPI_FUNC(PyObject *) PyObject_VectorcallMethod(PyObject *, PyObject *const *, size_t, PyObject *);
#define OFFSET ((size_t)1 << (8 * sizeof(size_t) - 1))

static PyObject *name_x, *name_m;

#define OBJECT(L, i) (*(PyObject **)lua_touserdata(L, i))

static int push_float(lua_State *L, PyObject *value) {
    lua_pushnumber(L, PyFloat_AsDouble(value));
    Py_DECREF(value);
    return 1;
}

static int read_x(lua_State *L) { return push_float(L, PyObject_GetAttr(OBJECT(L, 1), name_x)); }

static int call_float(lua_State *L) {
    PyObject *args[2] = {NULL, PyFloat_FromDouble(lua_tonumber(L, 2))};
    PyObject *value = PyObject_Vectorcall(OBJECT(L, 1), args + 1, 1 | OFFSET, NULL);
    Py_DECREF(args[1]);
    return push_float(L, value);
}

static int call_m(lua_State *L) {
    PyObject *args[3] = {NULL, OBJECT(L, 1), PyLong_FromLongLong(lua_tointeger(L, 2))};
    PyObject *value = PyObject_VectorcallMethod(name_m, args + 1, 2 | OFFSET, NULL);
    lua_pushinteger(L, PyLong_AsLongLong(value));
    Py_DECREF(args[2]);
    Py_DECREF(value);
    return 1;
}

static int fetch_m(lua_State *L) {
    lua_pushvalue(L, lua_upvalueindex(1));
    return 1;
}

static int nothing(lua_State *L) {
    (void)L;
    return 0;
}

/* what any native tensor costs in Lua: a userdata of its size with a finalizer */
static int make_userdata(lua_State *L) {
    lua_newuserdatauv(L, 96, 0);
    lua_pushvalue(L, lua_upvalueindex(1));
    lua_setmetatable(L, -2);
    return 1;
}

/* floor(address of a Python object, "x" | "m" | "call"), floor(0, "userdata") */
static int wrap(lua_State *L) {
    const char *what = luaL_checkstring(L, 2);
    if (*what == 'u') {
        lua_createtable(L, 0, 1);
        lua_pushcfunction(L, nothing);
        lua_setfield(L, -2, "__gc");
        lua_pushcclosure(L, make_userdata, 1);
        return 1;
    }
    PyObject **p = (PyObject **)lua_newuserdatauv(L, sizeof *p, 0);
    *p = (PyObject *)luaL_checkinteger(L, 1);
    Py_INCREF(*p);
    lua_createtable(L, 0, 1);
    if (*what == 'm') lua_pushcfunction(L, call_m);
    lua_pushcclosure(L, *what == 'x' ? read_x : *what == 'm' ? fetch_m : call_float, *what == 'm');
    lua_setfield(L, -2, *what == 'c' ? "__call" : "__index");
    lua_setmetatable(L, -2);
    return 1;
}

__attribute__((visibility("default"))) int luaopen_floor(lua_State *L);

int luaopen_floor(lua_State *L) {
    name_x = PyUnicode_InternFromString("x");
    name_m = PyUnicode_InternFromString("m");
    lua_pushcfunction(L, wrap);
    return 1;
}
