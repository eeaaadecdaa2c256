/* Joining tensors and choosing between them. */
#include <string.h>
#include "binding.h"

/*** # Combining */

/* Replace the list at arg by a table of our own that nobody else can change, of open tensors; returns their number. */
static lua_Integer own_list(lua_State *L, int arg) {
    luaL_checktype(L, arg, LUA_TTABLE);
    moonl_not_module(L);
    lua_Integer n = (lua_Integer)lua_rawlen(L, arg);
    luaL_argcheck(L, n > 0, arg, "the list is empty");
    lua_createtable(L, n < INT32_MAX ? (int)n : 0, 0);
    for (lua_Integer i = 1; i <= n; i++) {
        lua_rawgeti(L, arg, i);
        const moon_tensor *t = moonl_test(L, -1);
        if (t == NULL || t->storage == NULL) {
            const char *what = t ? "a closed tensor" : luaL_typename(L, -1);
            luaL_argerror(L, arg, lua_pushfstring(L, "item %I is %s, expected a tensor", (LUAI_UACINT)i, what));
        }
        lua_rawseti(L, -2, i);
    }
    lua_replace(L, arg);
    return n;
}

/* valid as long as the list is on the stack */
static const moon_tensor *item(lua_State *L, int arg, lua_Integer i) {
    lua_rawgeti(L, arg, i);
    const moon_tensor *t = moonl_test(L, -1);
    lua_pop(L, 1);
    moonl_open(L, t);
    return t;
}

static void mismatch(lua_State *L, lua_Integer i, const moon_tensor *t, const moon_tensor *first) {
    char a[200], b[200];
    moon_shape_text(t->ndim, t->shape, a, sizeof a);
    moon_shape_text(first->ndim, first->shape, b, sizeof b);
    luaL_argerror(L, 1, lua_pushfstring(L, "item %I has shape %s, which does not go with %s of item 1", (LUAI_UACINT)i, a, b));
}

/* the promoted dtype; checks that all shapes agree, but for dimension `except` */
static moon_dtype check_items(lua_State *L, lua_Integer n, int except) {
    const moon_tensor *first = item(L, 1, 1);
    moon_dtype dtype = (moon_dtype)first->dtype;
    for (lua_Integer i = 2; i <= n; i++) {
        const moon_tensor *t = item(L, 1, i);
        bool same = t->ndim == first->ndim;
        for (int d = 0; same && d < t->ndim; d++) same = d == except || t->shape[d] == first->shape[d];
        if (!same) mismatch(L, i, t, first);
        dtype = moon_promote(dtype, (moon_dtype)t->dtype);
    }
    return dtype;
}

/* target: a draft over out */
static void copy_into(lua_State *L, moon_draft *target, const moon_tensor *out, const moon_tensor *source) {
    target->t.storage = out->storage;
    if (moon_copy(&target->t, source)) moonl_raise(L);
}

/*** moon.cat(list, [dim]) -> tensor
The tensors of a list joined along dimension `dim` (1); their other extents must agree. The dtype is the promoted one. */
static int module_cat(lua_State *L) {
    lua_Integer n = own_list(L, 1);
    const moon_tensor *first = item(L, 1, 1);
    if (first->ndim == 0) return luaL_argerror(L, 1, "0-d tensors cannot be joined; moon.stack can");
    int dim = lua_isnoneornil(L, 2) ? 0 : moonl_dim(L, 2, first->ndim);
    moon_dtype dtype = check_items(L, n, dim);
    int64_t shape[MOON_MAXDIM];
    memcpy(shape, first->shape, (size_t)first->ndim * sizeof *shape);
    shape[dim] = 0;
    for (lua_Integer i = 1; i <= n; i++) shape[dim] += item(L, 1, i)->shape[dim];
    const moon_tensor *out = moonl_push_contiguous(L, dtype, first->ndim, shape, first->storage->device);
    int64_t at = 0;
    for (lua_Integer i = 1; i <= n; i++) {
        const moon_tensor *t = item(L, 1, i);
        moon_draft part;
        if (moon_view_slice(&part, out, dim, at, t->shape[dim], 1)) return moonl_raise(L);
        copy_into(L, &part, out, t);
        at += t->shape[dim];
    }
    return 1;
}

/*** moon.stack(list, [dim]) -> tensor
The tensors of a list, of one shape, joined along a new dimension `dim` (1). */
static int module_stack(lua_State *L) {
    lua_Integer n = own_list(L, 1);
    const moon_tensor *first = item(L, 1, 1);
    if (first->ndim == MOON_MAXDIM) return luaL_argerror(L, 1, "a tensor has at most 64 dimensions");
    int dim = lua_isnoneornil(L, 2) ? 0 : moonl_dim(L, 2, first->ndim + 1);
    moon_dtype dtype = check_items(L, n, -1);
    int64_t shape[MOON_MAXDIM];
    for (int d = 0, s = 0; d <= first->ndim; d++) shape[d] = d == dim ? n : first->shape[s++];
    const moon_tensor *out = moonl_push_contiguous(L, dtype, first->ndim + 1, shape, first->storage->device);
    for (lua_Integer i = 1; i <= n; i++) {
        moon_draft part;
        if (moon_view_select(&part, out, dim, i - 1)) return moonl_raise(L);
        copy_into(L, &part, out, item(L, 1, i));
    }
    return 1;
}

/* ---- where ---- */

static moon_dtype where_dtype(const moon_operand *a, const moon_operand *b) {
    if (a->tensor && b->tensor) return moon_promote((moon_dtype)a->tensor->dtype, (moon_dtype)b->tensor->dtype);
    if (a->tensor) return moon_promote_value(&b->value, (moon_dtype)a->tensor->dtype);
    if (b->tensor) return moon_promote_value(&a->value, (moon_dtype)b->tensor->dtype);
    return moon_promote(moon_value_dtype(&a->value), moon_value_dtype(&b->value));
}

/*** moon.where(cond, a, b) -> tensor
The elements of `a` where `cond` is not zero, else those of `b`; broadcast and promoted. `a` and `b` may be values. */
static int module_where(lua_State *L) {
    moon_operand in[2] = {0}, cond = {.tensor = moonl_check(L, 1)};
    const moon_tensor *shaped[3] = {cond.tensor};
    int count = 1, ndim;
    for (int i = 0; i < 2; i++) {
        in[i].tensor = moonl_test(L, i + 2);
        if (in[i].tensor) shaped[count++] = moonl_check(L, i + 2);
        else if (!moonl_test_value(L, i + 2, &in[i].value)) return luaL_typeerror(L, i + 2, "tensor, number, boolean or complex");
    }
    int64_t shape[MOON_MAXDIM];
    if (moon_broadcast_shape(count, shaped, &ndim, shape)) return moonl_raise(L);
    const moon_tensor *out = moonl_push_contiguous(L, where_dtype(&in[0], &in[1]), ndim, shape, cond.tensor->storage->device);
    if (moon_where_run(cond.tensor, in, out)) return moonl_raise(L);
    return 1;
}

static const moonl_entry functions[] = {{"cat", module_cat}, {"stack", module_stack}, {"where", module_where}, {NULL, NULL}};

void moonl_open_combine(lua_State *L, int module, int methods, int meta) {
    (void)methods;
    (void)meta;
    moonl_register(L, module, functions);
}
