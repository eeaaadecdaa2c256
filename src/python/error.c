/* Errors across the border: a Python exception is raised in Lua as itself, a Lua error is a moontensor.LuaError in Python. */
#include "bridge.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

PyObject *LuaError;
static PyObject *ConversionError; /* internal: becomes a plain Lua error with a position */

static PyObject *lua_line(PyObject *self, PyObject *none);

int init_errors(PyObject *module) {
    static PyMethodDef line = {"_lua_line", lua_line, METH_NOARGS, NULL};
    PyObject *f = PyCFunction_NewEx(&line, NULL, NULL);
    int failed = PyModule_AddObjectRef(module, line.ml_name, f);
    Py_XDECREF(f);
    if (failed) return -1;
    LuaError = PyErr_NewExceptionWithDoc(
        "moontensor.LuaError", "A Lua error that crossed into Python. `value` is the Lua error value, `traceback` the Lua stack.",
        PyExc_RuntimeError, NULL);
    ConversionError = PyErr_NewException("moontensor.ConversionError", PyExc_TypeError, NULL);
    if (LuaError == NULL || ConversionError == NULL) return -1;
    return PyModule_AddObjectRef(module, "LuaError", LuaError);
}

PyObject *conversion_error(const char *format, ...) {
    va_list args;
    va_start(args, format);
    PyErr_FormatV(ConversionError, format, args);
    va_end(args);
    return NULL;
}

bool conversion_text(PyObject *exception, char *buffer, size_t size) {
    if (Py_TYPE(exception) != (PyTypeObject *)ConversionError) return false;
    PyObject *text = PyObject_Str(exception);
    Py_ssize_t n = 0;
    const char *s = text ? PyUnicode_AsUTF8AndSize(text, &n) : NULL;
    snprintf(buffer, size, "%s", s ? s : "value cannot be converted to Python");
    Py_XDECREF(text);
    PyErr_Clear();
    return true;
}

/* ---- Python to Lua ---- */

static size_t append(char *buffer, size_t size, size_t used, const char *format, ...) {
    if (used >= size) return used;
    va_list args;
    va_start(args, format);
    int n = vsnprintf(buffer + used, size - used, format, args);
    va_end(args);
    if (n < 0) return used;
    return used + (size_t)n < size ? used + (size_t)n : size;
}

/* one of our own functions that are written in Lua: errors blame its caller */
static bool is_of_our_layer(const lua_Debug *ar) {
    static const char *const sources[] = {"/moontensor/python/init.lua", "/moontensor/python/codec.lua",
                                          "/moontensor/python/class.lua", "/moontensor/torch.lua"};
    size_t n = strlen(ar->source);
    for (size_t i = 0; i < sizeof sources / sizeof *sources; i++) {
        size_t k = strlen(sources[i]);
        if (n >= k && strcmp(ar->source + n - k, sources[i]) == 0) return true;
    }
    return false;
}

int raise_text(lua_State *L, const char *text) {
    lua_Debug ar;
    for (int level = 1; lua_getstack(L, level, &ar) && lua_getinfo(L, "Sl", &ar); level++) {
        if (level > 1 && *ar.what == 'C') break;
        if (ar.currentline < 0 || is_of_our_layer(&ar)) continue;
        lua_pushfstring(L, "%s:%d: %s", ar.short_src, ar.currentline, text);
        return lua_error(L);
    }
    lua_pushstring(L, text);
    return lua_error(L);
}

int raise_as_ours(lua_State *L) {
    int arg, at = 0;
    size_t n = 0;
    const char *text = lua_type(L, -1) == LUA_TSTRING ? lua_tolstring(L, -1, &n) : NULL;
    if (text == NULL) return lua_error(L);
    bool about_argument = sscanf(text, "bad argument #%d to '%*[^']' (%n", &arg, &at) == 1 && at > 0 && (size_t)at < n;
    if (!about_argument || text[n - 1] != ')') return raise_text(L, text);
    lua_pushlstring(L, text + at, n - 1 - (size_t)at);
    return luaL_argerror(L, arg, lua_tostring(L, -1));
}

/* The Lua stack as text, without allocating in Lua. The first line is "file:line:" of the innermost Lua function that is not
   ours. */
static size_t describe_stack(lua_State *L, char *buffer, size_t size, size_t *where) {
    lua_Debug ar;
    size_t used = 0;
    *where = 0;
    for (int level = 0; level < 64 && lua_getstack(L, level, &ar); level++) {
        if (!lua_getinfo(L, "nSl", &ar)) break;
        if (*where == 0 && ar.currentline > 0 && !is_of_our_layer(&ar)) {
            char first[LUA_IDSIZE + 24];
            int n = snprintf(first, sizeof first, "%s:%d:", ar.short_src, ar.currentline);
            if (n > 0 && used + (size_t)n + 1 < size) { /* goes in front of what is there */
                memmove(buffer + n + 1, buffer, used);
                memcpy(buffer, first, (size_t)n);
                buffer[n] = '\n';
                used += (size_t)n + 1;
                *where = (size_t)n;
            }
        }
        used = append(buffer, size, used, "\n\t%s:", ar.short_src);
        if (ar.currentline > 0) used = append(buffer, size, used, "%d:", ar.currentline);
        if (ar.name != NULL) used = append(buffer, size, used, " in %s '%s'", ar.namewhat, ar.name);
        else if (*ar.what == 'm') used = append(buffer, size, used, " in main chunk");
        else if (*ar.what != 'C') used = append(buffer, size, used, " in function <%s:%d>", ar.short_src, ar.linedefined);
        else used = append(buffer, size, used, " in ?");
    }
    return used < size ? used : size - 1;
}

/* (file, line) of the Lua code that called Python on this thread, or None */
static PyObject *lua_line(PyObject *self, PyObject *none) {
    (void)self, (void)none;
    cross *c = current_thread ? current_thread->top : NULL;
    lua_Debug ar;
    /* lent out and back with nobody: its stack stands still while we have the GIL */
    if (c != NULL && c->S->holder == NULL && !c->S->dead) {
        for (int level = 0; lua_getstack(c->L, level, &ar) && lua_getinfo(c->L, "Sl", &ar); level++) {
            if (ar.currentline > 0 && !is_of_our_layer(&ar)) return Py_BuildValue("si", ar.short_src, ar.currentline);
        }
    }
    Py_RETURN_NONE;
}

/* The exception carries where Lua called Python, from its first crossing on: __lua_where__ and __lua_stack__. */
static void note_lua_stack(lua_State *L, PyObject *e) {
    static PyObject *where_name, *stack_name;
    if (where_name == NULL) where_name = PyUnicode_InternFromString("__lua_where__");
    if (stack_name == NULL) stack_name = PyUnicode_InternFromString("__lua_stack__");
    if (where_name == NULL || stack_name == NULL) goto give_up;
    PyObject *dict = PyObject_GenericGetDict(e, NULL);
    if (dict == NULL) goto give_up;
    PyObject *known = PyDict_GetItemWithError(dict, where_name);
    if (known == NULL && !PyErr_Occurred()) {
        char buffer[4096];
        size_t at = 0, n = describe_stack(L, buffer, sizeof buffer, &at);
        PyObject *where = PyUnicode_DecodeUTF8(buffer, (Py_ssize_t)at, "replace");
        PyObject *stack = PyUnicode_DecodeUTF8(buffer + (at ? at + 1 : 0), (Py_ssize_t)(n - (at ? at + 1 : 0)), "replace");
        if (where != NULL && stack != NULL) {
            if (PyDict_SetItem(dict, where_name, where) == 0) PyDict_SetItem(dict, stack_name, stack);
        }
        Py_XDECREF(where);
        Py_XDECREF(stack);
    }
    Py_DECREF(dict);
give_up:
    PyErr_Clear();
}

PyObject *take_error(lua_State *L) {
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    if (type == NULL) {
        PyErr_SetString(PyExc_SystemError, "a Python function failed without an error");
        PyErr_Fetch(&type, &value, &traceback);
    }
    PyErr_NormalizeException(&type, &value, &traceback);
    if (traceback != NULL && PyException_SetTraceback(value, traceback) < 0) PyErr_Clear();
    Py_XDECREF(type);
    Py_XDECREF(traceback);
    note_lua_stack(L, value);
    return value;
}

void set_error(PyObject *exception) {
    PyErr_SetObject((PyObject *)Py_TYPE(exception), exception);
    Py_DECREF(exception);
}

bool push_lua_error_value(lua_State *L, state *S, PyObject *exception) {
    if (Py_TYPE(exception) != (PyTypeObject *)LuaError) return false;
    PyObject *value = PyObject_GetAttrString(exception, "_lua_value");
    if (value == NULL) {
        PyErr_Clear();
        return false;
    }
    bool ours = Py_TYPE(value) == OpaqueType && ((luaref *)value)->S == S;
    if (ours) lua_rawgeti(L, LUA_REGISTRYINDEX, ((luaref *)value)->ref);
    Py_DECREF(value); /* the exception holds it still */
    return ours;
}

int raise_closed(lua_State *L, int arg) { return luaL_argerror(L, arg, "python object is closed"); }

/* ---- Lua to Python ---- */

/* Filled by the message handler while the stack of the error still stands; used by the next set_lua_error. In the thread's
   record, not in TLS: a module loaded by dlopen gets little of that. */
int note_traceback(lua_State *L) {
    if (to_proxy(L, 1) == NULL) {
        char *traceback = this_thread()->traceback;
        size_t at = 0, n = describe_stack(L, traceback, TRACEBACK_SIZE, &at);
        traceback[n] = '\0';
        if (at != 0) memmove(traceback, traceback + at + 1, n - at);
    }
    return 1;
}

typedef struct lua_error {
    job j;
    PyObject *exception; /* new reference */
} lua_error_job;

static int make_lua_error(lua_State *L) { /* job, value */
    lua_error_job *e = (lua_error_job *)lua_touserdata(L, 1);
    size_t n;
    const char *s = luaL_tolstring(L, 2, &n);
    PyObject *text = keep(&e->j, PyUnicode_DecodeUTF8(s, (Py_ssize_t)n, "replace"));
    lua_pop(L, 1);
    if (text == NULL) return 0;
    char *traceback = this_thread()->traceback;
    PyObject *stack = keep(&e->j, PyUnicode_DecodeUTF8(traceback, (Py_ssize_t)strlen(traceback), "replace"));
    traceback[0] = '\0';
    PyObject *opaque = keep(&e->j, new_luaref(L, e->j.S, OpaqueType, 2));
    PyObject *value = opaque;
    int type = lua_type(L, 2);
    if (type == LUA_TSTRING) value = text;
    else if (type == LUA_TNUMBER || type == LUA_TBOOLEAN || type == LUA_TNIL) value = keep(&e->j, to_python(L, e->j.S, 2));
    if (stack == NULL || opaque == NULL || value == NULL) return 0;
    PyObject *exception = keep(&e->j, PyObject_CallFunctionObjArgs(LuaError, text, NULL));
    if (exception == NULL || PyObject_SetAttrString(exception, "value", value) < 0 ||
        PyObject_SetAttrString(exception, "traceback", stack) < 0 ||
        PyObject_SetAttrString(exception, "_lua_value", opaque) < 0) {
        return 0;
    }
    Py_INCREF(exception);
    e->exception = exception;
    return 0;
}

void set_lua_error(lua_State *L, state *S) {
    proxy *p = to_proxy(L, -1);
    if (p != NULL && p->o != NULL && PyExceptionInstance_Check(p->o)) {
        Py_INCREF(p->o);
        set_error(p->o);
        lua_pop(L, 1);
        return;
    }
    if (!lua_checkstack(L, 3)) {
        lua_pop(L, 1);
        PyErr_NoMemory();
        return;
    }
    lua_error_job e;
    e.j.S = S;
    e.j.kept = e.j.inline_kept;
    e.j.nkept = 0;
    e.j.room = 16;
    e.exception = NULL;
    PyErr_Clear();
    lua_pushcfunction(L, make_lua_error);
    lua_insert(L, -2);
    lua_pushlightuserdata(L, &e);
    lua_insert(L, -2);
    if (lua_pcall(L, 2, 0, 0) != LUA_OK) {
        lua_pop(L, 1);
        Py_CLEAR(e.exception); /* a hook may raise on the way out */
        PyErr_NoMemory();
    } else if (e.exception != NULL) {
        set_error(e.exception);
    } else if (!PyErr_Occurred()) {
        PyErr_NoMemory();
    }
    release_kept(&e.j);
}
