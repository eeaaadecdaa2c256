/* The world around tensors: counters, garbage, devices, printing. */
#include <string.h>
#if defined(__GLIBC__)
#include <malloc.h>
#endif
#include "../core/memory.h"
#include "binding.h"

/*** # The world */

/* ---- counters: core's own, and those that modules add ---- */

typedef int64_t (*counter)(void);

static void add_counter(lua_State *L, const char *name, int64_t value) {
    lua_pushinteger(L, value);
    lua_setfield(L, -2, name);
}

/*** moon.stats() -> table
Live counters, all of which return to where they were once what was made is gone: `storages`, their `bytes`, `exports` held by
consumers outside, `imports` of foreign memory; and those of loaded modules, such as the bridge's `proxies`. They are the
process's, not this Lua state's. Beside them `cached_bytes`: freed memory that is kept for the next large tensor (at most
256 MiB, in blocks of 256 KiB or more), and belongs to none. */
static int module_stats(lua_State *L) {
    moonl_drop_pins(L);
    moon_live live = moon_live_counts();
    lua_createtable(L, 0, 12);
    add_counter(L, "cached_bytes", (int64_t)moon_memory_kept());
    add_counter(L, "storages", live.storages);
    add_counter(L, "bytes", live.bytes);
    add_counter(L, "exports", live.exports);
    add_counter(L, "imports", live.imports);
    lua_rawgetp(L, LUA_REGISTRYINDEX, &moonl_key_counters);
    lua_pushnil(L);
    while (lua_next(L, -2)) {
        int64_t value = (*(counter *)lua_touserdata(L, -1))();
        lua_pop(L, 1);
        lua_pushvalue(L, -1);
        lua_pushinteger(L, value);
        lua_settable(L, -5);
    }
    lua_pop(L, 1);
    return 1;
}

/*** moon.gc([pages]) -> integer
Collects garbage until nothing more goes, and returns the bytes that are still alive. With `pages = true` free memory also goes
back to the operating system, `moon.empty_cache()` included. The library runs the collector by itself when many bytes of tensors have been allocated. */
static int module_gc(lua_State *L) {
    moonl_drop_pins(L);
    for (int64_t before = -1; before != moon_live_counts().storages;) {
        before = moon_live_counts().storages;
        lua_gc(L, LUA_GCCOLLECT);
    }
    if (lua_toboolean(L, 1)) (void)moon_memory_trim();
#if defined(__GLIBC__)
    if (lua_toboolean(L, 1)) malloc_trim(0);
#endif
    lua_pushinteger(L, moon_live_counts().bytes);
    return 1;
}

/*** moon.empty_cache() -> integer
Gives the memory that is kept for large tensors to come back to the operating system; returns how many bytes that was. It is
given back by itself before an allocation fails. */
static int module_empty_cache(lua_State *L) {
    lua_pushinteger(L, (lua_Integer)moon_memory_trim());
    return 1;
}

/* ---- devices ---- */

/*** moon.devices() -> table, table
The names of the devices that are there, and by name of a backend the reason why it is not. */
static int module_devices(lua_State *L) {
    const char *name, *reason;
    int count;
    lua_newtable(L);
    lua_newtable(L);
    for (int i = 0; moon_backend_info(i, &name, &count, &reason); i++) {
        if (count == 0) {
            lua_pushstring(L, reason ? reason : "there is none");
            lua_setfield(L, -2, name);
        }
        for (int k = 0; k < count; k++) {
            if (strcmp(name, "cpu") == 0) lua_pushstring(L, name);
            else lua_pushfstring(L, "%s:%d", name, k);
            lua_rawseti(L, -3, (lua_Integer)lua_rawlen(L, -3) + 1);
        }
    }
    return 2;
}

/*** moon.device([name]) -> string | nil, message
The full name of a device (`"cuda"` is `"cuda:0"`), or nil and the reason where it is missing; of the CPU without a name. */
static int module_device(lua_State *L) {
    moon_device *device;
    if (moon_device_find(luaL_optstring(L, 1, "cpu"), &device) == MOON_OK) {
        lua_pushstring(L, device->name);
        return 1;
    }
    lua_pushnil(L);
    lua_pushstring(L, moon_error_message());
    return 2;
}

/*** moon.synchronize([device])
Waits until the device (the CPU by default, where nothing is ever pending) has done its work. */
static int module_synchronize(lua_State *L) {
    moon_device *device = lua_isnoneornil(L, 1) ? moon_cpu() : moonl_check_device(L, 1);
    if (device->backend->synchronize && device->backend->synchronize(device)) return moonl_raise(L);
    return 0;
}

/*** moon.get_num_threads() -> integer
How many threads work on one large operation: as many as the process may use processors, or what `OMP_NUM_THREADS` says,
unless `moon.set_num_threads` changed it. Small operations never leave the calling thread. */
static int module_get_num_threads(lua_State *L) {
    lua_pushinteger(L, moon_host_threads());
    return 1;
}

/*** moon.set_num_threads(n)
Sets it for the whole process, from 1 to 256. Results are the same, bit for bit, for any number of threads. */
static int module_set_num_threads(lua_State *L) {
    lua_Integer n = luaL_checkinteger(L, 1);
    if (n < 1 || n > MOON_MAXTHREADS) {
        return luaL_argerror(L, 1, lua_pushfstring(L, "%I threads, expected 1 to %d", n, MOON_MAXTHREADS));
    }
    moon_host_set_threads((int)n);
    return 0;
}

/*** moon.instruction_set() -> string
The instruction set that the CPU's inner loops use: `"base"`, `"v3"` (AVX2) or `"v4"` (AVX-512), the best that the processor
has. The environment variable `MOONTENSOR_ISA` names another when the module is loaded; all give the same bits. */
static int module_instruction_set(lua_State *L) {
    lua_pushstring(L, moon_cpu_level());
    return 1;
}

/* ---- printing ---- */

static void print_option(lua_State *L, const char *name, int least, int most, int *value) {
    if (lua_getfield(L, 1, name) != LUA_TNIL) {
        int isint;
        lua_Integer n = lua_tointegerx(L, -1, &isint);
        if (!isint || n < least || n > most) {
            luaL_argerror(L, 1, lua_pushfstring(L, "%s= is an integer from %d to %d", name, least, most));
        }
        *value = (int)n;
    }
    lua_pop(L, 1);
}

/*** moon.printoptions([{precision=, threshold=, edgeitems=, linewidth=}]) -> table
How tensors print: digits after the point (4); the number of elements above which a tensor is summarised (1000); how many are
then shown at each end of a dimension (3); characters in a line (80). Returns the options as they are now. */
static int module_printoptions(lua_State *L) {
    static const char *const names[] = {"precision", "threshold", "edgeitems", "linewidth", NULL};
    if (!lua_isnoneornil(L, 1)) {
        luaL_checktype(L, 1, LUA_TTABLE);
        moonl_known_options(L, 1, names);
        moon_print_options options = moon_printing;
        print_option(L, "precision", 0, 17, &options.precision);
        print_option(L, "threshold", 0, INT32_MAX, &options.threshold);
        print_option(L, "edgeitems", 1, 1000, &options.edgeitems);
        print_option(L, "linewidth", 20, INT32_MAX, &options.linewidth);
        moon_printing = options;
    }
    lua_createtable(L, 0, 4);
    add_counter(L, "precision", moon_printing.precision);
    add_counter(L, "threshold", moon_printing.threshold);
    add_counter(L, "edgeitems", moon_printing.edgeitems);
    add_counter(L, "linewidth", moon_printing.linewidth);
    return 1;
}

static const moonl_entry functions[] = {
    {"stats", module_stats},
    {"gc", module_gc},
    {"empty_cache", module_empty_cache},
    {"devices", module_devices},
    {"device", module_device},
    {"synchronize", module_synchronize},
    {"get_num_threads", module_get_num_threads},
    {"set_num_threads", module_set_num_threads},
    {"instruction_set", module_instruction_set},
    {"printoptions", module_printoptions},
    {NULL, NULL},
};

void moonl_open_world(lua_State *L, int module, int methods, int meta) {
    (void)methods;
    (void)meta;
    moonl_register(L, module, functions);
}
