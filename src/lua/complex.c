/* moon.complex: the Lua value of a complex element, immutable. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "binding.h"

double *moonl_test_complex(lua_State *L, int i) {
    if (lua_type(L, i) != LUA_TUSERDATA || !lua_getmetatable(L, i)) return NULL;
    lua_rawgetp(L, LUA_REGISTRYINDEX, &moonl_key_complex);
    int same = lua_rawequal(L, -1, -2);
    lua_pop(L, 2);
    return same ? (double *)lua_touserdata(L, i) : NULL;
}

void moonl_push_complex(lua_State *L, double re, double im) {
    double *z = (double *)lua_newuserdatauv(L, 2 * sizeof *z, 0);
    z[0] = re;
    z[1] = im;
    lua_rawgetp(L, LUA_REGISTRYINDEX, &moonl_key_complex);
    lua_setmetatable(L, -2);
}

/* a complex or a number */
static bool operand(lua_State *L, int i, double out[2]) {
    const double *z = moonl_test_complex(L, i);
    if (z) {
        out[0] = z[0];
        out[1] = z[1];
        return true;
    }
    out[0] = lua_tonumber(L, i);
    out[1] = 0;
    return lua_type(L, i) == LUA_TNUMBER;
}

/* ---- arithmetic: the tensor's metamethod has the say where the other operand is a tensor ---- */

static int deferred(lua_State *L, const char *event) {
    for (int i = 1; i <= 2; i++) {
        if (lua_type(L, i) != LUA_TUSERDATA || moonl_test_complex(L, i)) continue;
        if (luaL_getmetafield(L, i, event) == LUA_TNIL) continue;
        lua_insert(L, 1);
        lua_call(L, lua_gettop(L) - 1, 1);
        return 1;
    }
    return luaL_error(L, "attempt to perform arithmetic on a %s and a %s value", luaL_typename(L, 1), luaL_typename(L, 2));
}

static int complex_add(lua_State *L) {
    double a[2], b[2];
    if (!operand(L, 1, a) || !operand(L, 2, b)) return deferred(L, "__add");
    moonl_push_complex(L, a[0] + b[0], a[1] + b[1]);
    return 1;
}

static int complex_sub(lua_State *L) {
    double a[2], b[2];
    if (!operand(L, 1, a) || !operand(L, 2, b)) return deferred(L, "__sub");
    moonl_push_complex(L, a[0] - b[0], a[1] - b[1]);
    return 1;
}

static int complex_mul(lua_State *L) {
    double a[2], b[2];
    if (!operand(L, 1, a) || !operand(L, 2, b)) return deferred(L, "__mul");
    moonl_push_complex(L, a[0] * b[0] - a[1] * b[1], a[0] * b[1] + a[1] * b[0]);
    return 1;
}

/* Smith's division: the larger part of the divisor scales */
static int complex_div(lua_State *L) {
    double a[2], b[2];
    if (!operand(L, 1, a) || !operand(L, 2, b)) return deferred(L, "__div");
    if (fabs(b[0]) >= fabs(b[1])) {
        double r = b[1] / b[0], d = b[0] + b[1] * r;
        if (b[0] == 0) moonl_push_complex(L, a[0] / fabs(b[0]), a[1] / fabs(b[0]));
        else moonl_push_complex(L, (a[0] + a[1] * r) / d, (a[1] - a[0] * r) / d);
    } else {
        double r = b[0] / b[1], d = b[0] * r + b[1];
        moonl_push_complex(L, (a[0] * r + a[1]) / d, (a[1] * r - a[0]) / d);
    }
    return 1;
}

static int complex_unm(lua_State *L) {
    const double *z = moonl_test_complex(L, 1);
    if (z == NULL) return luaL_typeerror(L, 1, "complex");
    moonl_push_complex(L, -z[0], -z[1]);
    return 1;
}

static int complex_eq(lua_State *L) {
    double a[2], b[2];
    lua_pushboolean(L, operand(L, 1, a) && operand(L, 2, b) && a[0] == b[0] && a[1] == b[1]);
    return 1;
}

static void add_part(luaL_Buffer *b, double part, bool sign) {
    char text[40];
    if (isnan(part)) snprintf(text, sizeof text, sign ? "+nan" : "nan");
    else if (isinf(part)) snprintf(text, sizeof text, sign ? "%+g" : "%g", part);
    else {
        for (int digits = 15; digits <= 17; digits++) { /* the shortest that reads back */
            snprintf(text, sizeof text, sign ? "%+.*g" : "%.*g", digits, part);
            if (strtod(text, NULL) == part) break;
        }
    }
    luaL_addstring(b, text);
}

static int complex_tostring(lua_State *L) {
    const double *z = moonl_test_complex(L, 1);
    if (z == NULL) return luaL_typeerror(L, 1, "complex");
    luaL_Buffer b;
    luaL_buffinit(L, &b);
    add_part(&b, z[0], false);
    add_part(&b, z[1], true);
    luaL_addchar(&b, 'i');
    luaL_pushresult(&b);
    return 1;
}

/*** # Complex values */

static const double *check(lua_State *L) {
    const double *z = moonl_test_complex(L, 1);
    if (z == NULL) luaL_typeerror(L, 1, "complex");
    return z;
}

/*** z:abs() -> number
The modulus of a complex value. */
static int complex_abs(lua_State *L) {
    const double *z = check(L);
    lua_pushnumber(L, hypot(z[0], z[1]));
    return 1;
}

/*** z:arg() -> number
The argument of a complex value, in radians. */
static int complex_arg(lua_State *L) {
    const double *z = check(L);
    lua_pushnumber(L, atan2(z[1], z[0]));
    return 1;
}

/*** z:conj() -> complex
The conjugate of a complex value. */
static int complex_conj(lua_State *L) {
    const double *z = check(L);
    moonl_push_complex(L, z[0], -z[1]);
    return 1;
}

static int complex_index(lua_State *L) {
    const double *z = check(L);
    const char *key = lua_type(L, 2) == LUA_TSTRING ? lua_tostring(L, 2) : "";
    if (strcmp(key, "re") == 0) lua_pushnumber(L, z[0]);
    else if (strcmp(key, "im") == 0) lua_pushnumber(L, z[1]);
    else {
        lua_pushvalue(L, 2);
        lua_rawget(L, lua_upvalueindex(2));
    }
    return 1;
}

static int complex_newindex(lua_State *L) { return luaL_error(L, "complex values are immutable"); }

/*** moon.complex(re, [im]) -> complex
A complex value: what elements of complex tensors read as and are written from. Fields `re` and `im`; `==`, arithmetic with
numbers and other complex values, `tostring`; methods `abs`, `arg`, `conj`. */
static int module_complex(lua_State *L) {
    const double *z = moonl_test_complex(L, 1);
    if (z) moonl_push_complex(L, z[0], z[1]);
    else moonl_push_complex(L, luaL_checknumber(L, 1), luaL_optnumber(L, 2, 0));
    return 1;
}

static const moonl_entry metamethods[] = {
    {"__add", complex_add},           {"__sub", complex_sub},           {"__mul", complex_mul},
    {"__div", complex_div},           {"__unm", complex_unm},           {"__eq", complex_eq},
    {"__tostring", complex_tostring}, {"__newindex", complex_newindex}, {NULL, NULL},
};

static const moonl_entry methods_of_complex[] = {
    {"abs", complex_abs}, {"arg", complex_arg}, {"conj", complex_conj}, {NULL, NULL}};

static const moonl_entry functions[] = {{"complex", module_complex}, {NULL, NULL}};

void moonl_open_complex(lua_State *L, int module, int methods, int meta) {
    (void)methods;
    moonl_register(L, module, functions);
    lua_createtable(L, 0, 12);
    lua_pushliteral(L, "complex");
    lua_setfield(L, -2, "__name");
    moonl_register(L, -1, metamethods);
    lua_pushvalue(L, meta);
    lua_createtable(L, 0, 4);
    moonl_register(L, -1, methods_of_complex);
    lua_pushcclosure(L, complex_index, 2);
    lua_setfield(L, -2, "__index");
    lua_rawsetp(L, LUA_REGISTRYINDEX, &moonl_key_complex);
}
