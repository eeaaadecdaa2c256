/* Values across the border. */
#include "bridge.h"
#include <string.h>

const char kw_metatable = 0; /* registry keys by address: the metatables of py.kw and py.dict tables */
const char dict_metatable = 0;

/* ---- Python to Lua ---- */

void push_python(lua_State *L, state *S, PyObject *o) {
    if (push_scalar(L, o)) return;
    PyTypeObject *type = Py_TYPE(o);
    if (type == &PyUnicode_Type) {
        Py_ssize_t n;
        const char *s = PyUnicode_AsUTF8AndSize(o, &n);
        if (s != NULL) {
            lua_pushlstring(L, s, (size_t)n);
            return;
        }
        PyErr_Clear();
    } else if (type == &PyBytes_Type) {
        lua_pushlstring(L, PyBytes_AsString(o), (size_t)PyBytes_Size(o));
        return;
    } else {
        luaref *r = find_luaref(o);
        if (r != NULL && r->S == S) {
            lua_rawgeti(L, LUA_REGISTRYINDEX, r->ref);
            return;
        }
        PyObject *plain = numpy_scalar(o);
        if (plain != NULL) { /* int, float or bool: no allocation, unless it exceeds 64 bits */
            bool done = push_scalar(L, plain);
            Py_DECREF(plain);
            if (done) return;
        }
    }
    push_proxy(L, S, o);
    if (unlikely(S->decode) && decodes(S, o)) decode_top(L, S);
}

/* NumPy's scalars become Python's own, by exact type; NULL, without an error, for everything else. NumPy is not imported for
   it: no object of its types exists before that. */
static PyTypeObject *numpy_number, *numpy_bool, *numpy_timedelta;
static PyObject *numpy_module_name, *item_name;

static bool find_numpy_types(void) {
    PyObject *numpy = PyDict_GetItemString(PyImport_GetModuleDict(), "numpy");
    if (numpy == NULL) return false;
    PyObject *number = PyObject_GetAttrString(numpy, "number"); /* a half-imported NumPy lacks it still */
    PyObject *boolean = number ? PyObject_GetAttrString(numpy, "bool_") : NULL;
    PyObject *delta = boolean ? PyObject_GetAttrString(numpy, "timedelta64") : NULL;
    numpy_module_name = PyUnicode_InternFromString("numpy");
    item_name = PyUnicode_InternFromString("item");
    if (delta == NULL || numpy_module_name == NULL || item_name == NULL) {
        PyErr_Clear();
        Py_XDECREF(number);
        Py_XDECREF(boolean);
        return false;
    }
    numpy_bool = (PyTypeObject *)boolean;
    numpy_timedelta = (PyTypeObject *)delta;
    numpy_number = (PyTypeObject *)number;
    return true;
}

PyObject *numpy_scalar(PyObject *o) {
    if (unlikely(numpy_number == NULL) && !find_numpy_types()) return NULL;
    PyTypeObject *type = Py_TYPE(o);
    if (likely(type != numpy_bool && !PyType_IsSubtype(type, numpy_number)) || type == numpy_timedelta) return NULL;
    PyObject *module = PyObject_GetAttrString((PyObject *)type, "__module__");
    int own = module != NULL ? PyObject_RichCompareBool(module, numpy_module_name, Py_EQ) : -1;
    Py_XDECREF(module);
    PyObject *plain = own == 1 ? PyObject_VectorcallMethod(item_name, &o, 1 | VECTORCALL_OFFSET, NULL) : NULL;
    if (plain == NULL) {
        PyErr_Clear();
        return NULL;
    }
    if (PyFloat_CheckExact(plain) || PyLong_CheckExact(plain) || PyBool_Check(plain)) return plain;
    Py_DECREF(plain); /* complex, longdouble */
    return NULL;
}

/* ---- Lua to Python ---- */

static PyObject *text_to_python(const char *s, size_t n) {
    PyObject *u = PyUnicode_DecodeUTF8(s, (Py_ssize_t)n, NULL);
    if (u != NULL) return u;
    PyErr_Clear();
    return conversion_error("a Lua string of %zd bytes is not UTF-8; pass binary data as py.bytes(s)", (Py_ssize_t)n);
}

static bool has_metatable(lua_State *L, int i, const char *key) {
    if (!lua_getmetatable(L, i)) return false;
    lua_rawgetp(L, LUA_REGISTRYINDEX, key);
    bool same = lua_rawequal(L, -1, -2);
    lua_pop(L, 2);
    return same;
}

bool is_kw(lua_State *L, int i) { return lua_type(L, i) == LUA_TTABLE && has_metatable(L, i, &kw_metatable); }

/* Tables and functions convert in a protected call, since looking around in Lua may raise. Containers belong to the job's
   arena from the moment they exist: a jump out of here loses nothing. */
typedef struct deep {
    job j;
    int memo; /* stack index: Lua table or function -> light userdata of its Python object, so that identity is kept */
    int depth;
    PyObject *root; /* the result: a new reference */
} deep;

enum { MAX_DEPTH = 180 }; /* C frames, and LUAI_MAXCCALLS is 200 */

static PyObject *convert(lua_State *L, deep *d, int i); /* borrowed from the arena, or NULL with a Python error */

typedef enum table_shape { SHAPE_LIST, SHAPE_DICT, SHAPE_MIXED, SHAPE_HOLES, SHAPE_KEYS } table_shape;

static table_shape shape_of_table(lua_State *L, int t, lua_Integer *size) {
    lua_Integer count = 0, texts = 0, top = 0;
    for (lua_pushnil(L); lua_next(L, t) != 0; lua_pop(L, 1)) {
        if (lua_type(L, -2) == LUA_TSTRING) {
            texts++;
        } else if (lua_isinteger(L, -2) && lua_tointeger(L, -2) > 0) {
            count++;
            if (lua_tointeger(L, -2) > top) top = lua_tointeger(L, -2);
        } else {
            lua_pop(L, 2);
            return SHAPE_KEYS;
        }
    }
    *size = count;
    if (texts != 0 && count != 0) return SHAPE_MIXED;
    if (texts != 0) return SHAPE_DICT;
    return top == count ? SHAPE_LIST : SHAPE_HOLES;
}

static bool is_container(lua_State *L, int i) {
    int type = lua_type(L, i);
    return type == LUA_TTABLE || type == LUA_TFUNCTION;
}

static void remember(lua_State *L, deep *d, int i, PyObject *o) {
    lua_pushvalue(L, i);
    lua_pushlightuserdata(L, o);
    lua_rawset(L, d->memo);
}

static PyObject *convert_list(lua_State *L, deep *d, int t, lua_Integer n) {
    PyObject *list = keep(&d->j, PyList_New(0));
    if (list == NULL) return NULL;
    remember(L, d, t, list);
    for (lua_Integer k = 1; k <= n; k++) {
        lua_rawgeti(L, t, k);
        bool deeper = is_container(L, -1);
        PyObject *item = deeper ? convert(L, d, lua_gettop(L)) : to_python(L, d->j.S, -1);
        int failed = item == NULL || PyList_Append(list, item) < 0;
        if (!deeper) Py_XDECREF(item);
        if (failed) return NULL;
        lua_pop(L, 1);
    }
    return list;
}

static int sort_keys(lua_State *L) { /* a list of strings; table.sort itself may have been replaced */
    lua_Integer n = luaL_len(L, 1);
    for (lua_Integer gap = n / 2; gap > 0; gap /= 2) {
        for (lua_Integer i = gap + 1; i <= n; i++) {
            lua_rawgeti(L, 1, i);
            lua_Integer k = i;
            for (; k > gap; k -= gap) {
                lua_rawgeti(L, 1, k - gap);
                if (!lua_compare(L, -2, -1, LUA_OPLT)) {
                    lua_pop(L, 1);
                    break;
                }
                lua_rawseti(L, 1, k);
            }
            lua_rawseti(L, 1, k);
        }
    }
    return 0;
}

static PyObject *convert_dict(lua_State *L, deep *d, int t) {
    PyObject *dict = keep(&d->j, PyDict_New());
    if (dict == NULL) return NULL;
    remember(L, d, t, dict);
    lua_newtable(L);
    int keys = lua_gettop(L);
    lua_Integer n = 0;
    for (lua_pushnil(L); lua_next(L, t) != 0; lua_pop(L, 1)) {
        lua_pushvalue(L, -2);
        lua_rawseti(L, keys, ++n);
    }
    lua_pushcfunction(L, sort_keys);
    lua_pushvalue(L, keys);
    lua_call(L, 1, 0);
    for (lua_Integer k = 1; k <= n; k++) {
        lua_rawgeti(L, keys, k);
        lua_pushvalue(L, -1);
        lua_rawget(L, t);
        bool deeper = is_container(L, -1);
        PyObject *item = deeper ? convert(L, d, lua_gettop(L)) : to_python(L, d->j.S, -1);
        PyObject *key = item ? to_python(L, d->j.S, -2) : NULL;
        int failed = key == NULL || PyDict_SetItem(dict, key, item) < 0;
        Py_XDECREF(key);
        if (!deeper) Py_XDECREF(item);
        if (failed) return NULL;
        lua_pop(L, 2);
    }
    lua_pop(L, 1);
    return dict;
}

static PyObject *convert_table(lua_State *L, deep *d, int t) {
    if (is_kw(L, t)) return conversion_error("py.kw{...} stands for keyword arguments: it must be the last argument of a call");
    lua_Integer n;
    switch (shape_of_table(L, t, &n)) {
    case SHAPE_LIST: return convert_list(L, d, t, n);
    case SHAPE_DICT: return convert_dict(L, d, t);
    case SHAPE_MIXED:
        return conversion_error(
            "a table with both a sequence and string keys is neither a list nor a dict; split it, or use py.dict");
    case SHAPE_HOLES: return conversion_error("a table with holes is no list; put py.none where None is meant");
    default: return conversion_error("a table with keys that are neither strings nor 1..n; use py.dict{{key, value}, ...}");
    }
}

static PyObject *convert(lua_State *L, deep *d, int i) {
    if (d->depth >= MAX_DEPTH) return conversion_error("a table nested more than %d levels deep", MAX_DEPTH);
    luaL_checkstack(L, 12, NULL);
    lua_pushvalue(L, i);
    if (lua_rawget(L, d->memo) == LUA_TLIGHTUSERDATA) {
        PyObject *known = (PyObject *)lua_touserdata(L, -1);
        lua_pop(L, 1);
        return known;
    }
    lua_pop(L, 1);
    if (lua_type(L, i) == LUA_TTABLE) {
        d->depth++;
        PyObject *container = convert_table(L, d, i);
        d->depth--;
        return container;
    }
    PyObject *function = keep(&d->j, new_luaref(L, d->j.S, LuaFunctionType, i));
    if (function != NULL) {
        Py_INCREF(function);
        lua_pushvalue(L, i);
        function = keep(&d->j, wrap_function(L, function));
        lua_pop(L, 1);
    }
    if (function != NULL) remember(L, d, i, function);
    return function;
}

static int convert_body(lua_State *L) { /* deep *, value */
    deep *d = (deep *)lua_touserdata(L, 1);
    lua_newtable(L);
    d->memo = 3;
    PyObject *root = convert(L, d, 2);
    Py_XINCREF(root);
    d->root = root;
    return 0;
}

static PyObject *convert_protected(lua_State *L, state *S, int i) {
    i = lua_absindex(L, i);
    if (!lua_checkstack(L, 4)) return PyErr_NoMemory();
    deep d;
    d.root = NULL;
    d.depth = 0;
    d.j.S = S;
    d.j.room = 16;
    d.j.kept = d.j.inline_kept;
    d.j.nkept = 0;
    lua_pushcfunction(L, convert_body);
    lua_pushlightuserdata(L, &d);
    lua_pushvalue(L, i);
    if (lua_pcall(L, 2, 0, 0) != LUA_OK) {
        Py_CLEAR(d.root);
        set_lua_error(L, S);
    }
    release_kept(&d.j);
    return d.root;
}

PyObject *other_to_python(lua_State *L, state *S, int i, int type) {
    switch (type) {
    case LUA_TNIL: Py_RETURN_NONE;
    case LUA_TBOOLEAN: return PyBool_FromLong(lua_toboolean(L, i));
    case LUA_TSTRING: {
        size_t n;
        const char *s = lua_tolstring(L, i, &n);
        return text_to_python(s, n);
    }
    case LUA_TUSERDATA: {
        if (to_proxy(L, i) != NULL) return conversion_error("python object is closed");
        if (moon->test(L, i) != NULL) return tensor_to_python(L, S, i);
        if (is_method(L, i)) return method_to_python(L, S, i);
        double parts[2];
        if (moon->test_complex(L, i, parts)) return PyComplex_FromDoubles(parts[0], parts[1]);
        return conversion_error("a userdata that Python knows nothing of; py.opaque(v) passes it through untouched");
    }
    case LUA_TTABLE:
    case LUA_TFUNCTION: return convert_protected(L, S, i);
    default:
        return conversion_error("a Lua %s has no Python counterpart; py.opaque(v) passes it through untouched",
                                luaL_typename(L, i));
    }
}
