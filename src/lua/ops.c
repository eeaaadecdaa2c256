/* Elementwise operators: one function, bound once for every line of ops.def. */
#include <string.h>
#include "binding.h"

/*** # Operators
Each takes tensors, numbers, booleans and complex values, broadcasts, and promotes as NumPy 2 does; a Lua number is weak: it
takes the tensor's dtype where it can. `{out = t}` as last argument writes into `t`. The name with an underscore works in
place: `x:add_(1)`. All are functions of the module too: `moon.sub(1, x)`. The operators `+ - * / // % ^ & | ~` and unary `-`
and `~` are add, sub, mul, div, floor_divide, remainder, pow, bitwise_and, bitwise_or, bitwise_xor, neg and bitwise_not. `==`
compares identity, as Lua must have one boolean: `x:eq(y)` compares elements, `moon.equal(x, y)` whole tensors. `<` and `<=` raise
for the same reason, and name `x:lt(y)` and `x:le(y)`. */

/* the tensor in {out=} at arg, left on the stack; NULL where there is none */
moon_tensor *moonl_option_out(lua_State *L, int arg) {
    if (lua_getfield(L, arg, "out") == LUA_TNIL) {
        lua_pop(L, 1);
        return NULL;
    }
    moon_tensor *out = moonl_test(L, -1);
    if (out == NULL) luaL_argerror(L, arg, "out= is a tensor");
    return out;
}

static void operand(lua_State *L, int arg, moon_operand *out) {
    out->tensor = moonl_test(L, arg);
    if (out->tensor) {
        if (out->tensor->storage == NULL) moonl_bad_tensor(L, arg);
    } else if (!moonl_test_value(L, arg, &out->value)) {
        moonl_foreign(L, arg, "tensor, number, boolean or complex");
    }
}

static void reopen(lua_State *L, int n, const moon_operand *in) {
    for (int i = 0; i < n; i++) {
        if (in[i].tensor) moonl_open(L, in[i].tensor);
    }
}

/* small tensors: one look at the operands, no draft */
static void run_plain(lua_State *L, moon_op_id id, int n, const moon_operand *in, moon_dtype result) {
    const moon_tensor *first = in[0].tensor;
    moon_device *device = first->storage->device;
    moon_tensor *t = moonl_new(L, first->ndim);
    for (int i = 0; i < first->ndim; i++) t->shape[i] = first->shape[i], t->strides[i] = first->strides[i];
    t->numel = first->numel;
    t->dtype = (uint8_t)result;
    moonl_acquire(L, t, device);
    reopen(L, n, in);
    if (moon_op_run_plain(id, n, in, t)) moonl_raise(L);
}

/* run the operator into out if given, else into a new tensor that is pushed */
static void run(lua_State *L, moon_op_id id, int n, const moon_operand *in, const moon_tensor *out) {
    moon_dtype result;
    if (out == NULL && moon_op_is_plain(id, n, in, &result)) {
        run_plain(L, id, n, in, result);
        return;
    }
    if (out == NULL) {
        moon_draft draft;
        if (moon_op_plan(id, n, in, &draft)) moonl_raise(L);
        const moon_tensor *first = in[0].tensor ? in[0].tensor : in[1].tensor;
        out = moonl_push_alloc(L, &draft, first->storage->device);
        reopen(L, n, in);
    }
    if (moon_op_run(id, n, in, out)) moonl_raise(L);
}

/* upvalues: metatable, 2 * operator + in place */
static int call_operator(lua_State *L) {
    static const char *const names[] = {"out", NULL};
    lua_Integer code = lua_tointeger(L, MOONL_ID);
    moon_op_id id = (moon_op_id)(code >> 1);
    int n = moon_ops[id].arity;
    moon_operand in[2] = {0};
    if (code & 1) {
        moonl_check(L, 1);
    } else if (n == 2 && moonl_test(L, 1) == NULL && moonl_test(L, 2) == NULL) {
        return moonl_bad_tensor(L, 1);
    }
    for (int i = 0; i < n; i++) operand(L, i + 1, &in[i]);
    if (n == 1 && in[0].tensor == NULL) return moonl_bad_tensor(L, 1);
    const moon_tensor *out = NULL;
    if (code & 1) {
        out = in[0].tensor;
        lua_settop(L, n);
        run(L, id, n, in, out);
        lua_settop(L, 1);
        return 1;
    }
    if (!lua_isnoneornil(L, n + 1)) {
        luaL_checktype(L, n + 1, LUA_TTABLE);
        moonl_known_options(L, n + 1, names);
        out = moonl_option_out(L, n + 1);
    }
    run(L, id, n, in, out);
    return 1;
}

/* ---- metamethods ---- */

/* A Python object on the other side has the say: it converts us. Upvalue 3: the event's name. */
static int defer(lua_State *L, int other) {
    const char *event = lua_tostring(L, lua_upvalueindex(3));
    lua_settop(L, 2);
    if (lua_type(L, other) == LUA_TUSERDATA && luaL_getmetafield(L, other, event) != LUA_TNIL) {
        lua_insert(L, 1);
        lua_call(L, 2, 1);
        return 1;
    }
    return luaL_error(L, "attempt to perform arithmetic (%s) on a tensor and a %s value", event + 2, luaL_typename(L, other));
}

static int metamethod(lua_State *L) {
    moon_op_id id = (moon_op_id)lua_tointeger(L, MOONL_ID);
    int n = moon_ops[id].arity;
    moon_operand in[2] = {0};
    for (int i = 0; i < n; i++) {
        in[i].tensor = moonl_test(L, i + 1);
        if (in[i].tensor == NULL && !moonl_test_value(L, i + 1, &in[i].value)) return defer(L, i + 1);
    }
    if (in[0].tensor == NULL && in[1].tensor == NULL) return moonl_bad_tensor(L, 1);
    reopen(L, n, in);
    run(L, id, n, in, NULL);
    return 1;
}

/* Lua makes one boolean of what a comparison gives. Upvalue 3: the event's name. */
static int comparison(lua_State *L) {
    int other = moonl_test(L, 1) ? 2 : 1;
    if (lua_isuserdata(L, other) && moonl_test(L, other) == NULL) return defer(L, other);
    const char *more = strcmp(lua_tostring(L, lua_upvalueindex(3)), "__lt") == 0 ? "x:lt(y) or x:gt(y)" : "x:le(y) or x:ge(y)";
    return luaL_error(L, "a comparison is one boolean in Lua; elementwise: %s", more);
}

static const struct {
    const char *event;
    moon_op_id id;
} events[] = {
    {"__add", MOON_OP_add},        {"__sub", MOON_OP_sub},           {"__mul", MOON_OP_mul},
    {"__div", MOON_OP_div},        {"__idiv", MOON_OP_floor_divide}, {"__mod", MOON_OP_remainder},
    {"__pow", MOON_OP_pow},        {"__unm", MOON_OP_neg},           {"__band", MOON_OP_bitwise_and},
    {"__bor", MOON_OP_bitwise_or}, {"__bxor", MOON_OP_bitwise_xor},  {"__bnot", MOON_OP_bitwise_not},
};

static void bind(lua_State *L, int table, const char *name, lua_Integer code) {
    lua_rawgetp(L, LUA_REGISTRYINDEX, &moonl_key_meta);
    lua_pushinteger(L, code);
    lua_pushcclosure(L, call_operator, 2);
    lua_setfield(L, table, name);
}

static void bind_event(lua_State *L, int meta, const char *event, lua_Integer code, lua_CFunction f) {
    lua_pushvalue(L, meta);
    lua_pushinteger(L, code);
    lua_pushstring(L, event);
    lua_pushcclosure(L, f, 3);
    lua_setfield(L, meta, event);
}

void moonl_open_ops(lua_State *L, int module, int methods, int meta) {
    for (int id = 0; id < MOON_OP_COUNT; id++) {
        if (moon_ops[id].class == MOON_REDUCE) continue;
        bind(L, module, moon_ops[id].name, 2 * id);
        bind(L, methods, moon_ops[id].name, 2 * id);
        bind(L, methods, lua_pushfstring(L, "%s_", moon_ops[id].name), 2 * id + 1);
        lua_pop(L, 1);
    }
    for (size_t i = 0; i < sizeof events / sizeof *events; i++) {
        bind_event(L, meta, events[i].event, (lua_Integer)events[i].id, metamethod);
    }
    bind_event(L, meta, "__lt", 0, comparison);
    bind_event(L, meta, "__le", 0, comparison);
}
