/* Hints: where a Lua habit caused an error, the pending exception gets an attribute __lua_hint__, which its text shows. What is
   costly to find is looked up when the text is wanted (_late_hint in the prelude). */
#include "bridge.h"
#include <stdio.h>
#include <string.h>

void add_lua_hint(const char *hint) {
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    PyErr_NormalizeException(&type, &value, &trace);
    PyObject *text = PyUnicode_FromString(hint);
    if (text == NULL || value == NULL || PyObject_SetAttrString(value, "__lua_hint__", text) < 0) PyErr_Clear();
    Py_XDECREF(text);
    PyErr_Restore(type, value, trace);
}

/* what the pending exception says, and whether the call itself raised it, before any line of Python ran */
static bool pending_text(char *buffer, size_t size) {
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    PyErr_NormalizeException(&type, &value, &trace);
    PyObject *text = value ? PyObject_Str(value) : NULL;
    const char *s = text ? PyUnicode_AsUTF8AndSize(text, NULL) : NULL;
    snprintf(buffer, size, "%s", s ? s : "");
    Py_XDECREF(text);
    PyErr_Clear();
    PyErr_Restore(type, value, trace);
    return trace == NULL;
}

/* ---- the values on the Lua stack ---- */

static bool is_integral_float(lua_State *L, int i, double *value) {
    if (lua_type(L, i) != LUA_TNUMBER || lua_isinteger(L, i)) return false;
    *value = lua_tonumber(L, i);
    return *value == (double)(long long)*value;
}

/* among the arguments, or the values of py.kw at their end */
static bool has_integral_float(lua_State *L, int first, double *value) {
    int top = lua_gettop(L);
    for (int i = first; i <= top; i++) {
        if (is_integral_float(L, i, value)) return true;
    }
    if (top < first || !lua_checkstack(L, 4) || !is_kw(L, top)) return false;
    bool found = false;
    for (lua_pushnil(L); lua_next(L, top) != 0; lua_pop(L, 1)) {
        if (!found) found = is_integral_float(L, -1, value);
    }
    return found;
}

static int first_nil(lua_State *L, int first) {
    for (int i = first; i <= lua_gettop(L); i++) {
        if (lua_isnil(L, i)) return i;
    }
    return 0;
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

/* ---- where they are given ---- */

static void hint_float(double value) {
    char hint[96];
    snprintf(hint, sizeof hint, "%.1f is a float; where an integer is meant, use // or math.tointeger", value);
    add_lua_hint(hint);
}

/* what the words of the message tell */
static const char *by_words(const char *text) {
    static const struct {
        const char *words, *hint;
    } known[] = {
        {"bytes-like object is required", "binary data is passed as py.bytes(s)"},
        {"must be Tensor, not list", "torch.tensor makes a tensor of a table or list"},
        {"must be Tensor, not float", "torch.tensor makes a tensor of a number"},
        {"must be Tensor, not int", "torch.tensor makes a tensor of a number"},
        {"must be torch.dtype, not str", "torch's dtypes are its own values, as torch.float32"},
        {"the same dtype", "a tensor is converted by t:to(torch.float32), a native one by x:astype \"float32\""},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (strstr(text, known[i].words) != NULL) return known[i].hint;
    }
    return NULL;
}

/* an object that is none was called: `for x in list do` calls it too, with two nils */
static const char *not_callable(lua_State *L, int first) {
    bool loop = lua_gettop(L) == first + 1 && lua_isnil(L, first) && lua_isnil(L, first + 1);
    return loop ? "a loop over its items is for x in py.each(obj) do"
                : "it is a value, no function: it goes without (); items are obj[i]";
}

void hint_call(lua_State *L, cross *c, int first) {
    bool type_error = PyErr_ExceptionMatches(PyExc_TypeError), value_error = PyErr_ExceptionMatches(PyExc_ValueError);
    if (!type_error && !value_error && !PyErr_ExceptionMatches(PyExc_RuntimeError)) return;
    char text[256];
    bool direct = false;
    UNLOCKED(c, direct = pending_text(text, sizeof text));
    double number = 0;
    int nil = first_nil(L, first);
    proxy *owner = to_proxy(L, first);
    const char *words = by_words(text);
    if (type_error && is_module_table(L, first)) {
        add_lua_hint("functions of a module or class are called with '.', not ':'");
    } else if ((type_error || value_error) && is_options_table(L, lua_gettop(L))) {
        add_lua_hint("a table is a dict argument; keyword arguments are py.kw{name = value}");
    } else if (type_error && direct && strstr(text, "object is not callable") != NULL) {
        add_lua_hint(not_callable(L, first));
    } else if (type_error && nil != 0 && strstr(text, "NoneType") != NULL) {
        char hint[96];
        snprintf(hint, sizeof hint, "argument #%d is nil, which is None: is its name spelt right?", nil - first + 1);
        add_lua_hint(hint);
    } else if ((type_error || (value_error && strstr(text, "integer") != NULL)) && has_integral_float(L, first, &number)) {
        hint_float(number);
    } else if (words != NULL) {
        add_lua_hint(words);
    } else if (type_error && owner != NULL && owner->o != NULL && (PyModule_Check(owner->o) || PyType_Check(owner->o))) {
        add_lua_hint("functions of a module or class are called with '.', not ':'");
    } else if (type_error && owner != NULL && strstr(text, "positional argument") != NULL) {
        add_lua_hint("a function that is no method of its owner is called with '.', not ':'");
    }
}

void hint_item(lua_State *L, int key) {
    double number = 0;
    if (PyErr_ExceptionMatches(PyExc_IndexError) && lua_isinteger(L, key)) {
        add_lua_hint("Python counts from 0; a loop over all items is for x in py.each(obj) do");
    } else if (PyErr_ExceptionMatches(PyExc_TypeError) && is_integral_float(L, key, &number)) {
        hint_float(number);
    }
}

void hint_operator(lua_State *L) {
    if (!PyErr_ExceptionMatches(PyExc_TypeError) || first_nil(L, 1) == 0) return;
    add_lua_hint("an operand is nil; several results come as one tuple, which py.unpack takes apart");
}

void hint_comparison(cross *c, const char *name) {
    char text[256], hint[128];
    if (!PyErr_ExceptionMatches(PyExc_RuntimeError) && !PyErr_ExceptionMatches(PyExc_ValueError)) return;
    UNLOCKED(c, pending_text(text, sizeof text));
    if (strstr(text, "ambiguous") == NULL) return;
    snprintf(hint, sizeof hint, "a comparison is one boolean in Lua; elementwise: py.%s(a, b)", name);
    add_lua_hint(hint);
}

static bool has_items(PyObject *o) { return PyDict_Check(o) || PyObject_HasAttrString(o, "keys"); }

/* Lua users write t.key for items: where that is what they missed, say so. Looking clears the error: it is put aside first. */
void hint_attribute(PyObject *o, const char *format, PyObject *name) {
    if (!PyErr_ExceptionMatches(PyExc_AttributeError)) return;
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    PyObject *hint = has_items(o) ? PyUnicode_FromFormat(format, name, name) : NULL;
    const char *text = hint ? PyUnicode_AsUTF8AndSize(hint, NULL) : NULL;
    PyErr_Clear();
    PyErr_Restore(type, value, trace);
    if (text != NULL) add_lua_hint(text);
    Py_XDECREF(hint);
}
