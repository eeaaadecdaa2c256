/* Random tensors: xoshiro256++ (Blackman, Vigna 2019), seeded by splitmix64. */
#include <math.h>
#include <string.h>
#include <time.h>
#include "binding.h"

/*** # Random numbers
One generator a Lua state, xoshiro256++ seeded through splitmix64; the same seed gives the same numbers on every machine.
`generator=` in the options takes another one. */

typedef struct generator {
    uint64_t s[4];
    double spare; /* the second of a pair of normal numbers */
    bool has_spare;
} generator;

static uint64_t splitmix(uint64_t *x) {
    uint64_t z = *x += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static void seed(generator *g, uint64_t value) {
    for (int i = 0; i < 4; i++) g->s[i] = splitmix(&value);
    g->has_spare = false;
}

static uint64_t rotl(uint64_t x, int k) { return (x << k) | (x >> (64 - k)); }

static uint64_t next(generator *g) {
    uint64_t *s = g->s, result = rotl(s[0] + s[3], 23) + s[0], t = s[1] << 17;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = rotl(s[3], 45);
    return result;
}

/* [0, 1), 53 bits */
static double uniform(generator *g) { return (double)(next(g) >> 11) * 0x1p-53; }

/* Marsaglia's polar method */
static double normal(generator *g) {
    if (g->has_spare) {
        g->has_spare = false;
        return g->spare;
    }
    double u, v, s;
    do {
        u = 2 * uniform(g) - 1;
        v = 2 * uniform(g) - 1;
        s = u * u + v * v;
    } while (s >= 1 || s == 0);
    double scale = sqrt(-2 * log(s) / s);
    g->spare = v * scale;
    g->has_spare = true;
    return u * scale;
}

/* 0..range-1 without bias; range 0 means 2^64 */
static uint64_t below(generator *g, uint64_t range) {
    if (range == 0) return next(g);
    uint64_t limit = 0 - (0 - range) % range, x; /* the largest multiple of range; 0 stands for 2^64 */
    do x = next(g);
    while (limit && x >= limit);
    return x % range;
}

/* ---- generators ---- */

static generator *test_generator(lua_State *L, int i) {
    if (lua_type(L, i) != LUA_TUSERDATA || !lua_getmetatable(L, i)) return NULL;
    lua_rawgetp(L, LUA_REGISTRYINDEX, &moonl_key_generator);
    int same = lua_rawequal(L, -1, -2);
    lua_pop(L, 2);
    return same ? (generator *)lua_touserdata(L, i) : NULL;
}

static generator *push_generator(lua_State *L, uint64_t value) {
    generator *g = (generator *)lua_newuserdatauv(L, sizeof *g, 0);
    seed(g, value);
    lua_rawgetp(L, LUA_REGISTRYINDEX, &moonl_key_generator);
    lua_setmetatable(L, -2);
    return g;
}

static generator *own_generator(lua_State *L) {
    lua_rawgetp(L, LUA_REGISTRYINDEX, &moonl_key_random);
    generator *g = (generator *)lua_touserdata(L, -1);
    lua_pop(L, 1);
    return g;
}

/*** moon.generator([seed]) -> generator
A generator of its own, for `generator=`. `g:seed(n)` seeds it again. */
static int module_generator(lua_State *L) {
    uint64_t value = lua_isnoneornil(L, 1) ? next(own_generator(L)) : (uint64_t)luaL_checkinteger(L, 1);
    push_generator(L, value);
    return 1;
}

static int generator_seed(lua_State *L) {
    generator *g = test_generator(L, 1);
    if (g == NULL) return luaL_typeerror(L, 1, "generator");
    seed(g, (uint64_t)luaL_checkinteger(L, 2));
    lua_settop(L, 1);
    return 1;
}

/*** moon.manual_seed(seed)
Seeds this Lua state's generator. torch's own is `torch.manual_seed`. */
static int module_manual_seed(lua_State *L) {
    seed(own_generator(L), (uint64_t)luaL_checkinteger(L, 1));
    return 0;
}

/* ---- filling ---- */

/* take `generator=` out of a copy of the options at arg, so that the others can be checked as always */
static generator *take_generator(lua_State *L, int arg) {
    if (!lua_istable(L, arg) || lua_getfield(L, arg, "generator") == LUA_TNIL) return own_generator(L);
    generator *g = test_generator(L, -1);
    if (g == NULL) luaL_argerror(L, arg, "generator= is a moon.generator(seed)");
    lua_newtable(L);
    lua_pushnil(L);
    while (lua_next(L, arg)) {
        bool taken = lua_type(L, -2) == LUA_TSTRING && strcmp(lua_tostring(L, -2), "generator") == 0;
        if (taken) {
            lua_pop(L, 1);
            continue;
        }
        lua_pushvalue(L, -2);
        lua_insert(L, -2);
        lua_rawset(L, -4);
    }
    lua_replace(L, arg); /* the generator stays on the stack */
    return g;
}

/* write n float64 numbers, cast to dtype by core, on device */
static int push_cast(lua_State *L, moon_tensor *t, const moonl_options *options, moon_dtype otherwise) {
    moon_dtype dtype = options->dtype >= 0 ? (moon_dtype)options->dtype : otherwise;
    moon_device *device = options->device ? options->device : moon_cpu();
    if (dtype != t->dtype || device != moon_cpu()) {
        moon_tensor *cast = moonl_push_contiguous(L, dtype, t->ndim, t->shape, device);
        if (moon_copy(cast, t)) return moonl_raise(L);
        t = cast;
    }
    if (options->readonly == 1) t->readonly = 1;
    return 1;
}

static int random_floats(lua_State *L, double (*draw)(generator *)) {
    moonl_sizes sizes;
    moonl_options options;
    int arg = moonl_check_sizes(L, 1, 0, &sizes);
    lua_settop(L, arg);
    generator *g = take_generator(L, arg);
    moonl_check_options(L, arg, &options);
    moon_dtype dtype = options.dtype >= 0 ? (moon_dtype)options.dtype : MOON_FLOAT32;
    if (moon_dtypes[dtype].kind < MOON_KIND_FLOAT) return luaL_argerror(L, arg, "a floating point dtype expected");
    bool narrow = dtype == MOON_FLOAT32;
    moon_tensor *t = moonl_push_contiguous(L, narrow ? MOON_FLOAT32 : MOON_FLOAT64, sizes.ndim, sizes.at, NULL);
    void *p = moon_data(t);
    /* a float32 below 1 needs a draw of 24 bits: rounding 53 of them could give 1 */
    if (narrow && draw == uniform) {
        for (int64_t i = 0; i < t->numel; i++) ((float *)p)[i] = (float)(next(g) >> 40) * 0x1p-24f;
    } else if (narrow) {
        for (int64_t i = 0; i < t->numel; i++) ((float *)p)[i] = (float)draw(g);
    } else {
        for (int64_t i = 0; i < t->numel; i++) ((double *)p)[i] = draw(g);
    }
    return push_cast(L, t, &options, MOON_FLOAT32);
}

/*** moon.rand(sizes…, [options]) -> tensor
Uniform numbers, 0 included and 1 not; float32 unless a dtype is given. */
static int module_rand(lua_State *L) { return random_floats(L, uniform); }

/*** moon.randn(sizes…, [options]) -> tensor
Normal numbers of mean 0 and standard deviation 1; float32 unless a dtype is given. */
static int module_randn(lua_State *L) { return random_floats(L, normal); }

/*** moon.randint([low,] high, sizes, [options]) -> tensor
Integers from `low` (0) up to but without `high`, as in torch; int64 unless a dtype is given. `sizes` is a table. */
static int module_randint(lua_State *L) {
    int64_t low = 0, high = luaL_checkinteger(L, 1);
    int arg = 2;
    if (lua_type(L, 2) == LUA_TNUMBER) {
        low = high;
        high = luaL_checkinteger(L, 2);
        arg = 3;
    }
    if (low >= high) {
        return luaL_argerror(L, arg - 1,
                             lua_pushfstring(L, "no integer from %I up to but without %I", (LUAI_UACINT)low, (LUAI_UACINT)high));
    }
    luaL_checktype(L, arg, LUA_TTABLE);
    moonl_sizes sizes;
    moonl_options options;
    arg = moonl_check_sizes(L, arg, 0, &sizes);
    lua_settop(L, arg);
    generator *g = take_generator(L, arg);
    moonl_check_options(L, arg, &options);
    moon_tensor *t = moonl_push_contiguous(L, MOON_INT64, sizes.ndim, sizes.at, NULL);
    int64_t *p = (int64_t *)moon_data(t);
    uint64_t range = (uint64_t)high - (uint64_t)low;
    for (int64_t i = 0; i < t->numel; i++) p[i] = (int64_t)((uint64_t)low + below(g, range));
    return push_cast(L, t, &options, MOON_INT64);
}

/*** moon.randperm(n, [options]) -> tensor
The integers 1 to `n` in random order; int64 unless a dtype is given. Index values count from 1. */
static int module_randperm(lua_State *L) {
    int64_t n = luaL_checkinteger(L, 1);
    luaL_argcheck(L, n >= 0, 1, "the number of integers is negative");
    moonl_options options;
    lua_settop(L, 2);
    generator *g = take_generator(L, 2);
    moonl_check_options(L, 2, &options);
    moon_tensor *t = moonl_push_contiguous(L, MOON_INT64, 1, &n, NULL);
    int64_t *p = (int64_t *)moon_data(t);
    for (int64_t i = 0; i < n; i++) p[i] = i + 1;
    for (int64_t i = n - 1; i > 0; i--) {
        int64_t k = (int64_t)below(g, (uint64_t)i + 1), swap = p[i];
        p[i] = p[k];
        p[k] = swap;
    }
    return push_cast(L, t, &options, MOON_INT64);
}

static const moonl_entry functions[] = {
    {"generator", module_generator}, {"manual_seed", module_manual_seed}, {"rand", module_rand}, {"randn", module_randn},
    {"randint", module_randint},     {"randperm", module_randperm},       {NULL, NULL},
};

static const moonl_entry methods_of_generator[] = {{"seed", generator_seed}, {NULL, NULL}};

void moonl_open_random(lua_State *L, int module, int methods, int meta) {
    (void)methods;
    (void)meta;
    moonl_register(L, module, functions);
    lua_createtable(L, 0, 2);
    lua_pushliteral(L, "generator");
    lua_setfield(L, -2, "__name");
    lua_createtable(L, 0, 1);
    moonl_register(L, -1, methods_of_generator);
    lua_setfield(L, -2, "__index");
    lua_rawsetp(L, LUA_REGISTRYINDEX, &moonl_key_generator);
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    push_generator(L, (uint64_t)now.tv_nsec ^ (uint64_t)now.tv_sec << 20 ^ (uint64_t)(uintptr_t)L);
    lua_rawsetp(L, LUA_REGISTRYINDEX, &moonl_key_random);
}
