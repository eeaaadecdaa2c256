/* A Lua C module as a third party would write it, over moontensor.h alone; spec/api_spec.lua builds and drives it. */
#include <moontensor.h>
#include <stdlib.h>
#include <string.h>

int luaopen_apitest(lua_State *L);

static int64_t drops, writes, blocks;

/* make(n): 1.0 .. n in float64 */
static int make(lua_State *L) {
    const moon_api *moon = moon_get_api(L);
    int64_t n = luaL_checkinteger(L, 1);
    moon_tensor *t = moon->push_new(L, MOON_FLOAT64, 1, &n);
    double *p = (double *)moon->data(t);
    for (int64_t i = 0; i < n; i++) p[i] = (double)(i + 1);
    return 1;
}

/* sum(x): of a contiguous float64 tensor */
static int sum(lua_State *L) {
    const moon_api *moon = moon_get_api(L);
    moon_tensor *t = moon->check(L, 1);
    luaL_argcheck(L, t->dtype == MOON_FLOAT64 && moon->is_contiguous(t), 1, "contiguous float64 expected");
    const double *p = (const double *)moon->data(t);
    double total = 0;
    for (int64_t i = 0; i < t->numel; i++) total += p[i];
    lua_pushnumber(L, total);
    return 1;
}

/* negate(x): in place, through writing() */
static int negate(lua_State *L) {
    const moon_api *moon = moon_get_api(L);
    moon_tensor *t = moon->check(L, 1);
    if (moon->writing(t)) return moon->raise(L);
    double *p = (double *)moon->data(t);
    for (int64_t i = 0; i < t->numel; i++) p[i * (t->ndim ? t->strides[0] : 1)] *= -1;
    return 0;
}

/* ---- foreign memory ---- */

typedef struct block {
    moon_hook hook;
    double data[6];
} block;

static void block_drop(moon_hook *hook) {
    drops++;
    blocks--;
    free(hook);
}

static void block_written(moon_hook *hook) {
    (void)hook;
    writes++;
}

/* adopt(readonly, [ndim]): a 2 x 3 float64 tensor over memory of this module's own; other ndims are malformed */
static int adopt(lua_State *L) {
    const moon_api *moon = moon_get_api(L);
    int64_t shape[3] = {2, 3, -1}, strides[3] = {3, 1, 1};
    int32_t ndim = (int32_t)luaL_optinteger(L, 2, 2);
    bool readonly = lua_toboolean(L, 1);
    moon_tensor *t = moon->push_blank(L, 3);
    block *b = (block *)malloc(sizeof *b);
    if (b == NULL) return luaL_error(L, "no memory");
    b->hook = (moon_hook){block_drop, block_written};
    for (int i = 0; i < 6; i++) b->data[i] = i;
    moon_dl_tensor dl = {.data = b->data,
                         .device = {MOON_DL_CPU, 0},
                         .ndim = ndim,
                         .dtype = moon->dtype_to_dl(MOON_FLOAT64),
                         .shape = shape,
                         .strides = strides};
    if (moon->adopt(t, &dl, readonly, &b->hook)) {
        free(b);
        return moon->raise(L);
    }
    blocks++;
    return 1;
}

/* watch(x): count the writes into own memory */
static moon_hook watcher = {NULL, block_written};
static void watcher_drop(moon_hook *hook) {
    (void)hook;
    drops++;
}

static int watch(lua_State *L) {
    const moon_api *moon = moon_get_api(L);
    watcher.drop = watcher_drop;
    lua_pushboolean(L, moon->set_watch(moon->check(L, 1)->storage, &watcher));
    return 1;
}

static int counts(lua_State *L) {
    lua_pushinteger(L, drops);
    lua_pushinteger(L, writes);
    return 2;
}

/* ---- a producer: a userdata with __dlpack ---- */

typedef struct managed {
    moon_dl_versioned dl;
    int64_t shape[2], strides[2];
    float data[4];
} managed;

static void managed_delete(moon_dl_versioned *dl) {
    drops++;
    free(dl);
}

static int producer_dlpack(lua_State *L) {
    const moon_api *moon = moon_get_api(L);
    const char *kind = (const char *)lua_touserdata(L, 1);
    managed *m = (managed *)calloc(1, sizeof *m);
    if (m == NULL) return luaL_error(L, "no memory");
    m->dl.version = (moon_dl_version){strcmp(kind, "major") == 0 ? 2 : MOON_DL_MAJOR, MOON_DL_MINOR};
    m->dl.deleter = managed_delete;
    m->dl.flags = strcmp(kind, "readonly") == 0 ? MOON_DL_READ_ONLY : 0;
    m->shape[0] = m->shape[1] = 2;
    m->strides[0] = 2;
    m->strides[1] = 1;
    for (int i = 0; i < 4; i++) m->data[i] = (float)i + 0.5f;
    m->dl.dl_tensor = (moon_dl_tensor){m->data, {MOON_DL_CPU, 0}, 2, moon->dtype_to_dl(MOON_FLOAT32), m->shape, m->strides, 0};
    if (strcmp(kind, "extent") == 0) m->shape[1] = -2;
    lua_pushlightuserdata(L, m);
    return 1;
}

/* producer(kind): "plain", "readonly", "major" (an unknown version), "extent" (malformed) */
static int producer(lua_State *L) {
    size_t n;
    const char *kind = luaL_checklstring(L, 1, &n);
    memcpy(lua_newuserdatauv(L, n + 1, 0), kind, n + 1);
    lua_createtable(L, 0, 1);
    lua_pushcfunction(L, producer_dlpack);
    lua_setfield(L, -2, "__dlpack");
    lua_setmetatable(L, -2);
    return 1;
}

/* ---- a consumer ---- */

/* export(x) -> pointer, strides of the struct; release(pointer) */
static int export(lua_State *L) {
    const moon_api *moon = moon_get_api(L);
    moon_dl_versioned *dl;
    if (moon->dl_export(moon->check(L, 1), MOON_DL_FOR_TORCH, &dl)) return moon->raise(L);
    lua_pushlightuserdata(L, dl);
    for (int i = 0; i < dl->dl_tensor.ndim; i++) lua_pushinteger(L, dl->dl_tensor.strides[i]);
    return 1 + dl->dl_tensor.ndim;
}

static int release(lua_State *L) {
    moon_dl_versioned *dl = (moon_dl_versioned *)lua_touserdata(L, 1);
    dl->deleter(dl);
    return 0;
}

/* named(text): a userdata that prints as the text, as a Python dtype object does */
static int named_tostring(lua_State *L) {
    lua_pushstring(L, (const char *)lua_touserdata(L, 1));
    return 1;
}

static int named(lua_State *L) {
    size_t n;
    const char *text = luaL_checklstring(L, 1, &n);
    memcpy(lua_newuserdatauv(L, n + 1, 0), text, n + 1);
    lua_createtable(L, 0, 2);
    lua_pushcfunction(L, named_tostring);
    lua_setfield(L, -2, "__tostring");
    if (lua_istable(L, 2)) {
        lua_pushvalue(L, 2);
        lua_setfield(L, -2, "__index");
    }
    lua_setmetatable(L, -2);
    return 1;
}

static int64_t read_blocks(void) { return blocks; }

/* extend(): adds x:apitest_sum() and a counter */
static int extend(lua_State *L) {
    const moon_api *moon = moon_get_api(L);
    moon->push_methods(L);
    lua_pushcfunction(L, sum);
    lua_setfield(L, -2, "apitest_sum");
    moon->add_counter(L, "apitest_blocks", read_blocks);
    return 0;
}

/* facts() -> version, size is ours, dtype name, size, lookup, capacity of a blank, what test says of a number */
static int facts(lua_State *L) {
    const moon_api *moon = moon_get_api(L);
    moon_dtype dtype = MOON_BOOL;
    lua_pushinteger(L, moon->version);
    lua_pushboolean(L, moon->size == sizeof(moon_api));
    lua_pushstring(L, moon->dtype_name(MOON_BFLOAT16));
    lua_pushinteger(L, (lua_Integer)moon->dtype_size(MOON_COMPLEX128));
    lua_pushboolean(L, moon->dtype_find("torch.int16", &dtype) && dtype == MOON_INT16);
    moon_tensor *t = moon->push_blank(L, 5);
    lua_pushinteger(L, moon->capacity(t));
    lua_remove(L, -2);
    lua_pushinteger(L, 3);
    bool none = moon->test(L, -1) == NULL;
    lua_pop(L, 1);
    lua_pushboolean(L, none);
    return 7;
}

/* copy_of(x, dtype) */
/* address(number): as a light userdata */
static int address(lua_State *L) {
    lua_pushlightuserdata(L, (void *)(uintptr_t)luaL_checkinteger(L, 1));
    return 1;
}

static int copy_of(lua_State *L) {
    const moon_api *moon = moon_get_api(L);
    const moon_tensor *source = moon->check(L, 1);
    moon_dtype dtype = MOON_DTYPE_COUNT;
    if (lua_isstring(L, 2)) luaL_argcheck(L, moon->dtype_find(lua_tostring(L, 2), &dtype), 2, "dtype");
    moon_tensor *t = moon->push_blank(L, (int)luaL_optinteger(L, 3, source->ndim));
    if (moon->copy_of(t, source, dtype)) return moon->raise(L);
    return 1;
}

static const luaL_Reg functions[] = {
    {"make", make},     {"sum", sum},           {"negate", negate},   {"adopt", adopt},     {"watch", watch},
    {"counts", counts}, {"producer", producer}, {"export", export},   {"release", release}, {"named", named},
    {"extend", extend}, {"facts", facts},       {"copy_of", copy_of}, {"address", address}, {NULL, NULL},
};

int luaopen_apitest(lua_State *L) {
    luaL_newlib(L, functions);
    return 1;
}
