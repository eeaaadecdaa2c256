/* Elements: Lua values to and from single elements of a tensor. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "binding.h"

bool moonl_test_value(lua_State *L, int i, moon_value *out) {
    switch (lua_type(L, i)) {
    case LUA_TNUMBER:
        if (lua_isinteger(L, i)) {
            out->kind = MOON_VALUE_INT;
            out->as.i = lua_tointeger(L, i);
        } else {
            out->kind = MOON_VALUE_FLOAT;
            out->as.f = lua_tonumber(L, i);
        }
        return true;
    case LUA_TBOOLEAN:
        out->kind = MOON_VALUE_BOOL;
        out->as.b = lua_toboolean(L, i);
        return true;
    case LUA_TUSERDATA: {
        const double *z = moonl_test_complex(L, i);
        if (z == NULL) return false;
        out->kind = MOON_VALUE_COMPLEX;
        out->as.c[0] = z[0];
        out->as.c[1] = z[1];
        return true;
    }
    default: return false;
    }
}

/* a decimal string, for the half of uint64 that Lua's integers lack */
static bool decimal(lua_State *L, int arg, moon_value *out) {
    size_t n;
    const char *text = lua_tolstring(L, arg, &n);
    if (n == 0 || n > 20 || strspn(text, "0123456789") != n) return false;
    errno = 0;
    unsigned long long u = strtoull(text, NULL, 10);
    out->kind = MOON_VALUE_UINT;
    out->as.u = u;
    return errno == 0;
}

void moonl_check_value(lua_State *L, int arg, moon_dtype dtype, moon_value *out) {
    if (moonl_test_value(L, arg, out)) return;
    if (dtype == MOON_UINT64 && lua_type(L, arg) == LUA_TSTRING) {
        if (decimal(L, arg, out)) return;
        luaL_argerror(L, arg, "a uint64 is written from digits between 0 and 18446744073709551615");
    }
    static const char *const expected[] = {"boolean", "integer", "integer", "number", "number or complex"};
    luaL_typeerror(L, arg, expected[moon_dtypes[dtype].kind]);
}

/* by memcpy: foreign elements may be unaligned */
#define LOAD(type, push, cast)   \
    do {                         \
        type v;                  \
        memcpy(&v, p, sizeof v); \
        push(L, cast v);         \
    } while (0)

void moonl_push_element(lua_State *L, moon_dtype dtype, const void *p) {
    switch (dtype) {
    case MOON_BOOL: lua_pushboolean(L, *(const uint8_t *)p != 0); return;
    case MOON_INT8: lua_pushinteger(L, *(const int8_t *)p); return;
    case MOON_UINT8: lua_pushinteger(L, *(const uint8_t *)p); return;
    case MOON_INT16: LOAD(int16_t, lua_pushinteger, ); return;
    case MOON_INT32: LOAD(int32_t, lua_pushinteger, ); return;
    case MOON_INT64: LOAD(int64_t, lua_pushinteger, ); return;
    case MOON_UINT16: LOAD(uint16_t, lua_pushinteger, ); return;
    case MOON_UINT32: LOAD(uint32_t, lua_pushinteger, ); return;
    case MOON_FLOAT32: LOAD(float, lua_pushnumber, (double)); return;
    case MOON_FLOAT64: LOAD(double, lua_pushnumber, ); return;
    default: break;
    }
    moon_value v;
    moon_element_read(dtype, p, &v);
    switch (v.kind) {
    case MOON_VALUE_BOOL: lua_pushboolean(L, v.as.b); break;
    case MOON_VALUE_INT: lua_pushinteger(L, v.as.i); break;
    case MOON_VALUE_FLOAT: lua_pushnumber(L, v.as.f); break;
    case MOON_VALUE_COMPLEX: moonl_push_complex(L, v.as.c[0], v.as.c[1]); break;
    case MOON_VALUE_UINT:
        if (v.as.u <= INT64_MAX) {
            lua_pushinteger(L, (lua_Integer)v.as.u);
            break;
        }
        char text[24];
        moon_format_element(dtype, p, text, sizeof text);
        luaL_error(L, "uint64 value %s does not fit a Lua integer; x:tostring(i, …) reads it as text", text);
    }
}

void moonl_push_at(lua_State *L, const moon_tensor *t, int64_t offset) {
    const char *data = moon_data(t);
    if (data) {
        moonl_push_element(L, (moon_dtype)t->dtype, data + offset);
        return;
    }
    char element[16];
    const moon_backend *backend = t->storage->device->backend;
    if (backend->download(element, t->storage, (size_t)(t->offset + offset), moon_itemsize(t))) moonl_raise(L);
    moonl_push_element(L, (moon_dtype)t->dtype, element);
}

/* the two dtypes that can refuse no number */
static void write_float(char *p, moon_dtype dtype, double value) {
    float narrow = (float)value;
    if (dtype == MOON_FLOAT32) memcpy(p, &narrow, sizeof narrow);
    else memcpy(p, &value, sizeof value);
}

void moonl_write_at(lua_State *L, const moon_tensor *t, int64_t offset, const moon_value *value, int arg) {
    char element[16], *data = moon_data(t);
    moon_dtype dtype = (moon_dtype)t->dtype;
    if (data && value->kind == MOON_VALUE_FLOAT && (dtype == MOON_FLOAT32 || dtype == MOON_FLOAT64)) {
        if (moon_tensor_writing(t)) moonl_raise(L);
        write_float(data + offset, dtype, value->as.f);
        return;
    }
    if (moon_element_write(dtype, element, value)) arg ? moonl_arg_raise(L, arg) : moonl_raise(L);
    if (moon_tensor_writing(t)) moonl_raise(L);
    if (data) {
        memcpy(data + offset, element, moon_itemsize(t));
    } else if (t->storage->device->backend->upload(t->storage, (size_t)(t->offset + offset), element, moon_itemsize(t))) {
        moonl_raise(L);
    }
}
