/* A Lua C module over moontensor.h alone: how often each of the values 1 .. n occurs in int64 tensors. */
#include <moontensor.h>
#include <stdatomic.h>
#include <stdlib.h>

int luaopen_tally(lua_State *L);

/* Counters with several holders: the Lua object, and every tensor that moon.from made of it. */
typedef struct counters {
    _Atomic long holders;
    int64_t n, count[];
} counters;

static void let_go(counters *c) {
    if (atomic_fetch_sub(&c->holders, 1) == 1) free(c);
}

/* ---- reading a tensor ---- */

/* Add the values of the tensor at arg to count[0 .. n-1]; all are looked at before the first is counted. */
static void add_values(lua_State *L, int arg, int64_t *count, int64_t n) {
    const moon_api *moon = moon_get_api(L);
    const moon_tensor *t = moon->check(L, arg); /* a tensor, and not closed; anything else raises */
    const char *dtype = moon->dtype_name((moon_dtype)t->dtype);
    if (t->dtype != MOON_INT64) luaL_argerror(L, arg, lua_pushfstring(L, "int64 expected, got %s", dtype));
    luaL_argcheck(L, moon->is_contiguous(t), arg, "not contiguous; x:contiguous() is");
    const int64_t *values = (const int64_t *)moon->data(t);
    luaL_argcheck(L, values != NULL || t->numel == 0, arg, "not in the host's memory");
    for (int64_t i = 0; i < t->numel; i++) {
        if (values[i] < 1 || values[i] > n)
            luaL_argerror(L, arg, lua_pushfstring(L, "the value %I is not in 1 .. %I", (lua_Integer)values[i], (lua_Integer)n));
    }
    for (int64_t i = 0; i < t->numel; i++) count[values[i] - 1]++;
}

/* ---- making one ---- */

/* tally.count(x, n) -> int64 tensor of n counts */
static int tally_count(lua_State *L) {
    const moon_api *moon = moon_get_api(L);
    int64_t n = luaL_checkinteger(L, 2);
    luaL_argcheck(L, n >= 0, 2, "negative");
    int64_t *count = (int64_t *)moon->data(moon->push_new(L, MOON_INT64, 1, &n)); /* Lua owns it, whatever is raised below */
    for (int64_t i = 0; i < n; i++) count[i] = 0;
    add_values(L, 1, count, n);
    return 1;
}

/* ---- offering memory ---- */

static counters *check_counters(lua_State *L) { return *(counters **)luaL_checkudata(L, 1, "tally.counters"); }

/* tally.counters(n) -> an object that counts for as long as it lives */
static int tally_counters(lua_State *L) {
    int64_t n = luaL_checkinteger(L, 1);
    luaL_argcheck(L, n >= 0 && n < INT64_C(1) << 40, 1, "not a number of counters");
    counters **box = (counters **)lua_newuserdatauv(L, sizeof *box, 0); /* an owner before there is anything to own */
    *box = NULL;
    luaL_setmetatable(L, "tally.counters");
    *box = (counters *)calloc(1, sizeof **box + (size_t)n * sizeof(int64_t));
    if (*box == NULL) return luaL_error(L, "no memory for %I counters", (lua_Integer)n);
    (*box)->holders = 1;
    (*box)->n = n;
    return 1;
}

static int counters_add(lua_State *L) { /* c:add(x) -> c */
    counters *c = check_counters(L);
    add_values(L, 2, c->count, c->n);
    lua_settop(L, 1);
    return 1;
}

static int counters_gc(lua_State *L) {
    counters **box = (counters **)luaL_checkudata(L, 1, "tally.counters");
    if (*box != NULL) let_go(*box);
    *box = NULL;
    return 0;
}

/* What moon.from gets: DLPack's struct and what it points to, in one block. The deleter runs once, on any thread. */
typedef struct offer {
    moon_dl_versioned managed;
    int64_t stride;
} offer;

static void offer_delete(moon_dl_versioned *managed) {
    let_go((counters *)managed->manager_ctx);
    free(managed);
}

static int counters_dlpack(lua_State *L) { /* -> light userdata, moon_dl_versioned *, which the caller owns */
    const moon_api *moon = moon_get_api(L);
    counters *c = check_counters(L);
    offer *o = (offer *)calloc(1, sizeof *o);
    if (o == NULL) return luaL_error(L, "no memory");
    atomic_fetch_add(&c->holders, 1);
    o->stride = 1;
    o->managed.version = (moon_dl_version){MOON_DL_MAJOR, MOON_DL_MINOR};
    o->managed.manager_ctx = c;
    o->managed.deleter = offer_delete;
    o->managed.dl_tensor = (moon_dl_tensor){.data = c->count,
                                            .device = {MOON_DL_CPU, 0},
                                            .ndim = 1,
                                            .dtype = moon->dtype_to_dl(MOON_INT64),
                                            .shape = &c->n,
                                            .strides = &o->stride};
    lua_pushlightuserdata(L, o); /* neither raises nor allocates: the struct cannot be lost on its way */
    return 1;
}

/* ---- the module ---- */

static const luaL_Reg methods[] = {{"add", counters_add}, {NULL, NULL}};
static const luaL_Reg metamethods[] = {{"__dlpack", counters_dlpack}, {"__gc", counters_gc}, {NULL, NULL}};
static const luaL_Reg functions[] = {{"count", tally_count}, {"counters", tally_counters}, {NULL, NULL}};

int luaopen_tally(lua_State *L) {
    moon_get_api(L); /* raises here if there is no moontensor, or another version of its C API */
    luaL_newmetatable(L, "tally.counters");
    luaL_setfuncs(L, metamethods, 0);
    luaL_newlib(L, methods);
    lua_setfield(L, -2, "__index");
    luaL_newlib(L, functions);
    return 1;
}
