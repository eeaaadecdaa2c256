/* Nested tables to tensors and back. */
#include <string.h>
#include "binding.h"

/* What one walk over a nested table learns. path[d] is the 1-based position in dimension d, for error messages. */
typedef struct survey {
    int ndim; /* -1 until the first leaf */
    int64_t shape[MOON_MAXDIM];
    int64_t path[MOON_MAXDIM];
    int dtype;  /* of the leaves so far, or the one asked for */
    bool given; /* the dtype was asked for */
    int arg;    /* for errors */
} survey;

/* "3" or "{1, 3}" */
static const char *where(lua_State *L, const survey *s, int depth) {
    luaL_Buffer b;
    luaL_buffinit(L, &b);
    if (depth > 1) luaL_addchar(&b, '{');
    for (int d = 0; d < depth; d++) {
        if (d) luaL_addstring(&b, ", ");
        lua_pushfstring(L, "%I", (LUAI_UACINT)s->path[d]);
        luaL_addvalue(&b);
    }
    if (depth > 1) luaL_addchar(&b, '}');
    luaL_pushresult(&b);
    return lua_tostring(L, -1);
}

static void bad(lua_State *L, const survey *s, const char *text) { luaL_argerror(L, s->arg, text); }

/* the table at the top has no keys but 1..n */
static void check_sequence(lua_State *L, const survey *s, int depth, lua_Unsigned n) {
    int table = lua_gettop(L);
    lua_Unsigned count = 0;
    lua_pushnil(L);
    while (lua_next(L, table)) {
        lua_pop(L, 1);
        if (!lua_isinteger(L, -1)) {
            const char *key = luaL_tolstring(L, -1, NULL);
            if (depth == 0) bad(L, s, lua_pushfstring(L, "the table has a key '%s'; a tensor is made of sequences", key));
            bad(L, s, lua_pushfstring(L, "row %s has a key '%s'; a tensor is made of sequences", where(L, s, depth), key));
        }
        count++;
    }
    if (count == n) return;
    if (depth == 0) bad(L, s, "the table has a hole");
    bad(L, s, lua_pushfstring(L, "row %s has a hole", where(L, s, depth)));
}

/* which dtype holds both; booleans do not mix with numbers */
static int join(lua_State *L, survey *s, int depth, int dtype) {
    if (s->dtype < 0 || s->dtype == dtype) return dtype;
    if (s->dtype == MOON_BOOL || dtype == MOON_BOOL) {
        bad(L, s, lua_pushfstring(L, "element %s mixes booleans and numbers; name a dtype", where(L, s, depth)));
    }
    return s->dtype > dtype ? s->dtype : dtype; /* int64 < float32 < complex64 */
}

static void survey_leaf(lua_State *L, survey *s, int depth) {
    moon_value value;
    if (s->ndim < 0) s->ndim = depth;
    if (depth != s->ndim) {
        bad(L, s, lua_pushfstring(L, "element %s is a %s, expected a table", where(L, s, depth), luaL_typename(L, -1)));
    }
    if (!moonl_test_value(L, -1, &value)) {
        if (lua_type(L, -1) == LUA_TSTRING && s->given && s->dtype == MOON_UINT64) return;
        const char *type = moonl_test(L, -1)                  ? "tensor (moon.stack joins tensors)"
                           : lua_type(L, -1) == LUA_TUSERDATA ? "userdata (moon.stack joins what moon.from makes of each)"
                                                              : luaL_typename(L, -1);
        if (depth == 0) bad(L, s, lua_pushfstring(L, "number, boolean, complex or table expected, got %s", type));
        bad(L, s, lua_pushfstring(L, "element %s is a %s, expected a number, boolean or complex", where(L, s, depth), type));
    }
    if (!s->given) s->dtype = join(L, s, depth, (int)moon_value_dtype(&value));
}

/* the value at the top of the stack; leaves the stack as it was */
static void survey_value(lua_State *L, survey *s, int depth) {
    if (!lua_istable(L, -1)) {
        survey_leaf(L, s, depth);
        return;
    }
    if (depth == MOON_MAXDIM) bad(L, s, "the table is nested deeper than 64 dimensions, or contains itself");
    luaL_checkstack(L, 8, "table nested too deeply");
    int64_t n = (int64_t)lua_rawlen(L, -1);
    check_sequence(L, s, depth, (lua_Unsigned)n);
    if (s->ndim >= 0 && depth >= s->ndim) {
        bad(L, s, lua_pushfstring(L, "element %s is a table, expected a number", where(L, s, depth)));
    }
    if (s->shape[depth] < 0) s->shape[depth] = n;
    if (s->shape[depth] != n) {
        bad(L, s,
            lua_pushfstring(L, "row %s has length %I, expected %I", where(L, s, depth), (LUAI_UACINT)n,
                            (LUAI_UACINT)s->shape[depth]));
    }
    if (n == 0) {
        if (s->ndim >= 0 && s->ndim != depth + 1) { bad(L, s, lua_pushfstring(L, "row %s is empty", where(L, s, depth))); }
        s->ndim = depth + 1;
    }
    for (int64_t i = 1; i <= n; i++) {
        s->path[depth] = i;
        lua_rawgeti(L, -1, i);
        survey_value(L, s, depth + 1);
        lua_pop(L, 1);
    }
}

/* writes the leaves below the value at the top; *p moves on */
static void write_value(lua_State *L, const survey *s, int depth, char **p) {
    if (depth < s->ndim) {
        for (int64_t i = 1; i <= s->shape[depth]; i++) {
            lua_rawgeti(L, -1, i);
            write_value(L, s, depth + 1, p);
            lua_pop(L, 1);
        }
        return;
    }
    moon_value value;
    moonl_check_value(L, lua_gettop(L), (moon_dtype)s->dtype, &value);
    if (moon_element_write((moon_dtype)s->dtype, *p, &value)) moonl_arg_raise(L, s->arg);
    *p += moon_dtypes[s->dtype].size;
}

moon_tensor *moonl_push_nested(lua_State *L, int arg, int dtype, moon_device *device) {
    survey s = {.ndim = -1, .dtype = dtype, .given = dtype >= 0, .arg = arg};
    for (int d = 0; d < MOON_MAXDIM; d++) s.shape[d] = -1;
    luaL_checkstack(L, 2 * MOON_MAXDIM + 8, NULL);
    lua_pushvalue(L, arg);
    survey_value(L, &s, 0);
    lua_pop(L, 1);
    if (s.dtype < 0) s.dtype = MOON_FLOAT32; /* no elements */
    moon_tensor *t = moonl_push_contiguous(L, (moon_dtype)s.dtype, s.ndim, s.shape, NULL);
    char *p = moon_data(t);
    lua_pushvalue(L, arg);
    write_value(L, &s, 0, &p);
    lua_pop(L, 1);
    if (device == NULL || device == moon_cpu()) return t;
    moon_tensor *there = moonl_push_contiguous(L, (moon_dtype)s.dtype, s.ndim, s.shape, device);
    if (moon_copy(there, t)) moonl_raise(L);
    lua_remove(L, -2);
    return there;
}

/*** # Indexing */

static void push_table(lua_State *L, const moon_tensor *t, int d, int64_t offset) {
    if (d == t->ndim) {
        moonl_open(L, t);
        moonl_push_at(L, t, offset);
        return;
    }
    luaL_checkstack(L, 4, "too many dimensions");
    int64_t n = t->shape[d], step = t->strides[d] * (int64_t)moon_itemsize(t);
    lua_createtable(L, n < INT32_MAX ? (int)n : 0, 0);
    for (int64_t i = 0; i < n; i++) {
        push_table(L, t, d + 1, offset + i * step);
        lua_rawseti(L, -2, i + 1);
    }
}

/*** x:totable() -> table | value
The elements as nested tables, one level a dimension; of a 0-d tensor the value. */
static int tensor_totable(lua_State *L) {
    const moon_tensor *t = moonl_check(L, 1);
    if (moon_data(t) == NULL && t->numel > 0) {
        moon_tensor *here = moonl_push_contiguous(L, (moon_dtype)t->dtype, t->ndim, t->shape, NULL);
        moonl_open(L, t);
        if (moon_copy(here, t)) return moonl_raise(L);
        t = here;
    }
    push_table(L, t, 0, 0);
    return 1;
}

static const moonl_entry methods_of_nested[] = {{"totable", tensor_totable}, {NULL, NULL}};

void moonl_open_nested(lua_State *L, int module, int methods, int meta) {
    (void)module;
    (void)meta;
    moonl_register(L, methods, methods_of_nested);
}
