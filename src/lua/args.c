/* Arguments that many functions take: dimensions, indices, sizes, dtypes, devices, option tables. */
#include <string.h>
#include "binding.h"

/* for examples in messages; not known where only C called the function */
static const char *function_name(lua_State *L) {
    lua_Debug ar;
    return lua_getstack(L, 0, &ar) && lua_getinfo(L, "n", &ar) && ar.name ? ar.name : "name";
}

void moonl_not_module(lua_State *L) {
    lua_rawgetp(L, LUA_REGISTRYINDEX, &moonl_key_module);
    if (lua_rawequal(L, 1, -1)) {
        luaL_error(L, "functions of the module are called with '.', not ':', as in moon.%s(…)", function_name(L));
    }
    lua_pop(L, 1);
}

/* x.add(1): the first argument is plain data where a method has its tensor */
static bool is_dot_call(lua_State *L) {
    lua_Debug ar;
    if (lua_isnil(L, 1) || lua_istable(L, 1) || lua_isuserdata(L, 1)) return false;
    if (!lua_getstack(L, 0, &ar) || !lua_getinfo(L, "n", &ar) || strcmp(ar.namewhat, "field") != 0) return false;
    lua_rawgetp(L, LUA_REGISTRYINDEX, &moonl_key_methods);
    bool is_method = lua_getfield(L, -1, ar.name) != LUA_TNIL;
    lua_pop(L, 2);
    return is_method;
}

int moonl_bad_tensor(lua_State *L, int arg) {
    if (moonl_test(L, arg)) return luaL_error(L, "tensor is closed");
    if (arg == 1 && lua_isnone(L, 1)) {
        const char *name = function_name(L);
        return luaL_argerror(
            L, 1, lua_pushfstring(L, "tensor expected, got no value; methods are called with ':', as in x:%s()", name));
    }
    if (arg == 1 && is_dot_call(L)) {
        const char *name = function_name(L);
        return luaL_argerror(L, 1,
                             lua_pushfstring(L, "tensor expected, got %s; as a method it is x:%s(…)", luaL_typename(L, 1), name));
    }
    return moonl_foreign(L, arg, "tensor");
}

int moonl_foreign(lua_State *L, int arg, const char *expected) {
    if (lua_istable(L, 1)) moonl_not_module(L);
    bool python = lua_type(L, arg) == LUA_TUSERDATA && luaL_getmetafield(L, arg, "__name") == LUA_TSTRING &&
                  strcmp(lua_tostring(L, -1), "python object") == 0;
    if (!python) return luaL_typeerror(L, arg, expected);
    return luaL_argerror(L, arg,
                         lua_pushfstring(L, "%s expected, got python object; moon.from makes a tensor of an array", expected));
}

int moonl_dim(lua_State *L, int arg, int ndim) {
    if (lua_istable(L, arg)) {
        const char *name = function_name(L);
        luaL_argerror(L, arg, lua_pushfstring(L, "a dimension is an integer, as in x:%s(1), got table", name));
    }
    lua_Integer d = luaL_checkinteger(L, arg);
    lua_Integer at = d < 0 ? d + ndim : d - 1;
    if (at < 0 || at >= ndim) {
        const char *text = ndim ? lua_pushfstring(L, "dimension %I is out of range 1..%d", (LUAI_UACINT)d, ndim)
                                : lua_pushfstring(L, "dimension %I of a 0-d tensor", (LUAI_UACINT)d);
        luaL_argerror(L, arg, text);
    }
    return (int)at;
}

int64_t moonl_index(lua_State *L, int arg, int64_t extent) {
    lua_Integer i = luaL_checkinteger(L, arg);
    lua_Integer at = i < 0 ? i + extent : i - 1;
    if (at < 0 || at >= extent) {
        const char *hint = i ? "" : "; indices count from 1";
        luaL_argerror(L, arg, lua_pushfstring(L, "index %I is out of range 1..%I%s", (LUAI_UACINT)i, (LUAI_UACINT)extent, hint));
    }
    return at;
}

static int64_t checked_extent(lua_State *L, int arg, int i, int64_t least) {
    int isint;
    lua_Integer n = lua_tointegerx(L, i, &isint);
    if (!isint || lua_type(L, i) != LUA_TNUMBER) {
        luaL_argerror(L, arg, lua_pushfstring(L, "sizes are integers, got %s", luaL_tolstring(L, i, NULL)));
    }
    if (n < least) luaL_argerror(L, arg, lua_pushfstring(L, "size %I is negative", (LUAI_UACINT)n));
    return n;
}

/* a table with a string key is options, not sizes */
static bool is_options(lua_State *L, int i) {
    lua_pushnil(L);
    if (!lua_next(L, i)) return false;
    bool named = lua_type(L, -2) == LUA_TSTRING;
    lua_pop(L, 2);
    return named;
}

int moonl_check_sizes(lua_State *L, int arg, int64_t least, moonl_sizes *out) {
    out->ndim = 0;
    if (lua_istable(L, arg)) {
        if (arg == 1) moonl_not_module(L);
        if (is_options(L, arg)) return arg;
        lua_Unsigned n = lua_rawlen(L, arg);
        if (n > MOON_MAXDIM) luaL_argerror(L, arg, "a tensor has at most 64 dimensions");
        for (lua_Unsigned i = 1; i <= n; i++) {
            lua_rawgeti(L, arg, (lua_Integer)i);
            out->at[out->ndim++] = checked_extent(L, arg, lua_gettop(L), least);
            lua_pop(L, 1);
        }
        return arg + 1;
    }
    int top = lua_gettop(L);
    if (lua_type(L, arg) == LUA_TNIL) luaL_argerror(L, arg, "sizes expected, got nil"); /* a mistyped name, no 0-d tensor */
    for (; arg <= top && lua_type(L, arg) == LUA_TNUMBER; arg++) {
        if (out->ndim == MOON_MAXDIM) luaL_argerror(L, arg, "a tensor has at most 64 dimensions");
        out->at[out->ndim++] = checked_extent(L, arg, arg, least);
    }
    if (lua_type(L, arg) == LUA_TSTRING && lua_isnumber(L, arg)) {
        luaL_argerror(L, arg, lua_pushfstring(L, "a size is expected, got string \"%s\"", lua_tostring(L, arg)));
    }
    return arg;
}

/* ---- dtypes ---- */

/* Python's own type objects as dtypes, as NumPy takes them */
static bool python_type(const char *name, moon_dtype *out) {
    static const struct {
        const char *name;
        moon_dtype dtype;
    } types[] = {{"float", MOON_FLOAT64}, {"int", MOON_INT64}, {"bool", MOON_BOOL}, {"complex", MOON_COMPLEX128}};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        if (strcmp(types[i].name, name) == 0) return *out = types[i].dtype, true;
    }
    return false;
}

static int get_field(lua_State *L) {
    lua_settop(L, 2);
    lua_gettable(L, 1);
    return 1;
}

/* the string obj[name], or NULL where that raises or is no string; leaves one value on the stack */
static const char *string_field(lua_State *L, int i, const char *name) {
    lua_pushcfunction(L, get_field);
    lua_pushvalue(L, i);
    lua_pushstring(L, name);
    if (lua_pcall(L, 2, 1, 0) != LUA_OK) return NULL;
    return lua_type(L, -1) == LUA_TSTRING ? lua_tostring(L, -1) : NULL;
}

/* torch.float32 prints so; numpy.dtype has a name, numpy.float32 a __name__ */
bool moonl_test_dtype(lua_State *L, int i, moon_dtype *out) {
    i = lua_absindex(L, i);
    int top = lua_gettop(L);
    bool found = false;
    if (lua_type(L, i) == LUA_TSTRING) {
        found = moon_dtype_find(lua_tostring(L, i), out);
    } else if (lua_type(L, i) == LUA_TUSERDATA && moonl_test(L, i) == NULL) {
        found = moon_dtype_find(luaL_tolstring(L, i, NULL), out);
        const char *name = found ? NULL : string_field(L, i, "name");
        if (name) found = moon_dtype_find(name, out);
        if (!found && (name = string_field(L, i, "__name__")) != NULL) {
            found = python_type(name, out) || moon_dtype_find(name, out);
        }
    }
    lua_settop(L, top);
    return found;
}

moon_dtype moonl_check_dtype(lua_State *L, int arg) {
    moon_dtype dtype;
    if (lua_isnone(L, arg)) luaL_argerror(L, arg, "dtype expected, got no value");
    if (!moonl_test_dtype(L, arg, &dtype)) {
        const char *got = luaL_tolstring(L, arg, NULL);
        const char *text = lua_type(L, arg) == LUA_TSTRING ? "unknown dtype '%s'; the dtypes are bool, int8 to int64, uint8 to "
                                                             "uint64, float16, bfloat16, float32, float64, complex64, "
                                                             "complex128, float8_e4m3fn, float8_e5m2"
                                                           : "a dtype is a name such as \"float32\", got %s";
        luaL_argerror(L, arg, lua_pushfstring(L, text, got));
    }
    return dtype;
}

moon_device *moonl_check_device(lua_State *L, int arg) {
    moon_device *device;
    const char *name = luaL_checkstring(L, arg);
    if (moon_device_find(name, &device)) moonl_arg_raise(L, arg);
    return device;
}

/* ---- option tables ---- */

void moonl_known_options(lua_State *L, int arg, const char *const *names) {
    lua_pushnil(L);
    while (lua_next(L, arg)) {
        const char *key = lua_type(L, -2) == LUA_TSTRING ? lua_tostring(L, -2) : NULL;
        const char *const *name = names;
        while (key && *name && strcmp(*name, key) != 0) name++;
        if (key == NULL || *name == NULL) {
            luaL_Buffer b;
            luaL_buffinit(L, &b);
            for (name = names; *name; name++) {
                if (name != names) luaL_addstring(&b, ", ");
                luaL_addstring(&b, *name);
            }
            luaL_pushresult(&b);
            if (key == NULL) key = "[1]";
            if (strcmp(key, "dim") == 0 || strcmp(key, "axis") == 0) {
                lua_pushfstring(L, "%s; a dimension comes first, as in x:%s(1)", lua_tostring(L, -1), function_name(L));
            }
            luaL_argerror(L, arg, lua_pushfstring(L, "unknown option '%s'; the options are %s", key, lua_tostring(L, -1)));
        }
        lua_pop(L, 1);
    }
}

bool moonl_field_bool(lua_State *L, int table, const char *name, bool otherwise) {
    bool value = lua_getfield(L, table, name) == LUA_TNIL ? otherwise : lua_toboolean(L, -1);
    lua_pop(L, 1);
    return value;
}

void moonl_check_options(lua_State *L, int arg, moonl_options *out) {
    static const char *const names[] = {"dtype", "device", "readonly", "pin", NULL};
    out->dtype = -1;
    out->device = NULL;
    out->readonly = -1;
    if (lua_isnoneornil(L, arg)) return;
    if (!lua_istable(L, arg)) {
        out->dtype = (int)moonl_check_dtype(L, arg);
        return;
    }
    moonl_known_options(L, arg, names);
    moon_dtype dtype;
    if (lua_getfield(L, arg, "dtype") != LUA_TNIL) {
        if (!moonl_test_dtype(L, -1, &dtype)) {
            luaL_argerror(L, arg, lua_pushfstring(L, "unknown dtype '%s'", luaL_tolstring(L, -1, NULL)));
        }
        out->dtype = (int)dtype;
    }
    if (lua_getfield(L, arg, "device") != LUA_TNIL) {
        const char *name = lua_tostring(L, -1);
        if (name == NULL) luaL_argerror(L, arg, "device= is a name such as \"cpu\"");
        if (moon_device_find(name, &out->device)) moonl_arg_raise(L, arg);
    }
    if (lua_getfield(L, arg, "readonly") != LUA_TNIL) out->readonly = lua_toboolean(L, -1);
    if (moonl_field_bool(L, arg, "pin", false)) luaL_argerror(L, arg, "pin= needs a device that pins host memory; there is none");
    lua_pop(L, 3);
}
