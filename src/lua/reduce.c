/* Reductions, bound from ops.def, and matrix products. */
#include "binding.h"

/*** # Reductions
`x:sum()` reduces all elements to a 0-d tensor; `x:sum(dim)` one dimension, which goes away unless `{keepdim = true}`. Full
`any()` and `all()` give Lua booleans. `min(dim)` and `max(dim)` give values and indices. Indices count from 1. */

typedef struct request {
    int dim; /* 0-based, -1: all */
    bool keepdim;
    moon_tensor *out;
} request;

static void check_request(lua_State *L, const moon_tensor *t, request *r) {
    static const char *const names[] = {"keepdim", "out", NULL};
    int arg = 2;
    r->dim = -1;
    r->keepdim = false;
    r->out = NULL;
    if (lua_type(L, 2) == LUA_TNUMBER) r->dim = moonl_dim(L, arg++, t->ndim);
    else if (lua_isnil(L, 2)) arg++;
    if (lua_isnoneornil(L, arg)) return;
    luaL_checktype(L, arg, LUA_TTABLE);
    moonl_known_options(L, arg, names);
    r->keepdim = moonl_field_bool(L, arg, "keepdim", false);
    r->out = moonl_option_out(L, arg);
}

/* core counts indices from 0 */
static void count_from_one(lua_State *L, const moon_tensor *indices) {
    moon_operand in[2] = {{.tensor = indices}, {.value = {.kind = MOON_VALUE_INT, .as.i = 1}}};
    if (moon_op_run(MOON_OP_add, 2, in, indices)) moonl_raise(L);
}

/* push the result, or out */
static const moon_tensor *push_reduced(lua_State *L, moon_op_id id, const moon_tensor *t, const request *r, moon_tensor *out) {
    moonl_open(L, t);
    if (out == NULL) {
        moon_draft draft;
        if (moon_reduce_plan(id, t, r->dim, r->keepdim, &draft)) moonl_raise(L);
        out = moonl_push_alloc(L, &draft, t->storage->device);
        moonl_open(L, t);
    }
    if (moon_reduce_run(id, t, r->dim, out)) moonl_raise(L);
    if (id == MOON_OP_argmin || id == MOON_OP_argmax) count_from_one(L, out);
    return out;
}

static int call_reduction(lua_State *L) {
    moon_op_id id = (moon_op_id)lua_tointeger(L, MOONL_ID);
    const moon_tensor *t = moonl_check(L, 1);
    request r;
    check_request(L, t, &r);
    const moon_tensor *result = push_reduced(L, id, t, &r, r.out);
    if (r.dim < 0) {
        bool truth = (id == MOON_OP_any || id == MOON_OP_all) && !r.keepdim && !r.out;
        if (truth) moonl_push_at(L, result, 0);
        return 1;
    }
    if (id != MOON_OP_min && id != MOON_OP_max) return 1;
    push_reduced(L, id == MOON_OP_min ? MOON_OP_argmin : MOON_OP_argmax, t, &r, NULL);
    return 2;
}

/*** # Running totals */

static int scan(lua_State *L, moon_op_id id) {
    static const char *const names[] = {"out", NULL};
    const moon_tensor *t = moonl_check(L, 1);
    int dim = moonl_dim(L, 2, t->ndim);
    moon_tensor *out = NULL;
    if (!lua_isnoneornil(L, 3)) {
        luaL_checktype(L, 3, LUA_TTABLE);
        moonl_known_options(L, 3, names);
        out = moonl_option_out(L, 3);
    }
    if (out == NULL) {
        moon_draft draft;
        moonl_open(L, t);
        if (moon_scan_plan(id, t, dim, &draft)) return moonl_raise(L);
        out = moonl_push_alloc(L, &draft, t->storage->device);
        moonl_open(L, t);
    }
    if (moon_scan_run(id, t, dim, out)) return moonl_raise(L);
    return 1;
}

/*** x:cumsum(dim, [{out=}]) -> tensor
The sums of the elements up to each, along dimension `dim`. Bools and integers give int64 or uint64, as in `sum`; float32 is
summed in float64. */
static int tensor_cumsum(lua_State *L) { return scan(L, MOON_OP_sum); }

/*** x:cumprod(dim, [{out=}]) -> tensor
The products of the elements up to each, along dimension `dim`; dtypes as in `cumsum`. */
static int tensor_cumprod(lua_State *L) { return scan(L, MOON_OP_prod); }

/*** # Products */

/*** x:matmul(y, [{out=}]) -> tensor
The matrix product, as torch's: vectors dot, matrices multiply, leading dimensions are batches and broadcast. */
static int tensor_matmul(lua_State *L) {
    static const char *const names[] = {"out", NULL};
    const moon_tensor *a = moonl_check(L, 1), *b = moonl_check(L, 2);
    moon_tensor *out = NULL;
    if (!lua_isnoneornil(L, 3)) {
        luaL_checktype(L, 3, LUA_TTABLE);
        moonl_known_options(L, 3, names);
        out = moonl_option_out(L, 3);
    }
    if (out == NULL) {
        moon_draft draft;
        if (moon_matmul_plan(a, b, &draft)) return moonl_raise(L);
        out = moonl_push_alloc(L, &draft, a->storage->device);
        moonl_open(L, a);
        moonl_open(L, b);
    }
    if (moon_matmul_run(a, b, out)) return moonl_raise(L);
    return 1;
}

/*** x:dot(y) -> tensor
The sum of the products of two vectors of one length, a 0-d tensor. */
static int tensor_dot(lua_State *L) {
    const moon_tensor *a = moonl_check(L, 1), *b = moonl_check(L, 2);
    if (a->ndim != 1 || b->ndim != 1) {
        return luaL_error(L, "dot takes two 1-d tensors, got %d-d and %d-d; use x:matmul(y)", a->ndim, b->ndim);
    }
    lua_settop(L, 2);
    return tensor_matmul(L);
}

static const moonl_entry products[] = {
    {"cumsum", tensor_cumsum}, {"cumprod", tensor_cumprod}, {"matmul", tensor_matmul}, {"dot", tensor_dot}, {NULL, NULL}};

static void bind(lua_State *L, int table, int id) {
    lua_rawgetp(L, LUA_REGISTRYINDEX, &moonl_key_meta);
    lua_pushinteger(L, id);
    lua_pushcclosure(L, call_reduction, 2);
    lua_setfield(L, table, moon_ops[id].name);
}

void moonl_open_reduce(lua_State *L, int module, int methods, int meta) {
    (void)meta;
    for (int id = 0; id < MOON_OP_COUNT; id++) {
        if (moon_ops[id].class != MOON_REDUCE) continue;
        bind(L, methods, id);
        bind(L, module, id);
    }
    moonl_register(L, methods, products);
    moonl_register(L, module, products);
}
