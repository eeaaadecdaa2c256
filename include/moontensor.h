/* The C API of moontensor for Lua C modules. bridge.so reaches core through this table and nothing else.

       #include <moontensor.h>
       const moon_api *moon = moon_get_api(L);      // raises unless moontensor can be loaded

   Functions marked [raises] raise Lua errors (memory, bad arguments): call them only where nothing is owned that no
   userdata holds. All others return a moon_status and fill the thread's error record, and never raise. Functions marked
   [any thread] touch no lua_State. */
#ifndef MOONTENSOR_H
#define MOONTENSOR_H

#include <lua.h>
#include <lauxlib.h>
#include "moontensor_abi.h"

#define MOON_API_VERSION 1
#define MOON_API_KEY "moontensor.api" /* registry field: light userdata, const moon_api * */

typedef struct moon_api {
    uint32_t version; /* MOON_API_VERSION */
    uint32_t size;    /* sizeof(moon_api): later minor versions append */

    /* ---- errors [any thread] ---- */
    moon_status (*fail)(moon_status kind, const char *format, ...);
    const char *(*message)(void);
    /* raise the thread's error record as a Lua error; does not return [raises] */
    int (*raise)(lua_State *L);

    /* ---- dtypes [any thread] ---- */
    const char *(*dtype_name)(moon_dtype dtype);
    size_t (*dtype_size)(moon_dtype dtype);
    bool (*dtype_find)(const char *name, moon_dtype *out); /* "float32", or with a "torch." or "numpy." prefix */
    moon_dl_dtype (*dtype_to_dl)(moon_dtype dtype);

    /* ---- tensors on the Lua stack ---- */
    /* the tensor at index i, or NULL if the value is something else; a closed one has storage == NULL */
    moon_tensor *(*test)(lua_State *L, int i);
    moon_tensor *(*check)(lua_State *L, int arg); /* not NULL, not closed [raises] */
    /* push a new contiguous tensor on the CPU, bytes undefined [raises] */
    moon_tensor *(*push_new)(lua_State *L, moon_dtype dtype, int ndim, const int64_t *shape);
    /* push a closed tensor with room for `capacity` dimensions, to be filled by adopt, view or copy_of [raises] */
    moon_tensor *(*push_blank)(lua_State *L, int capacity);
    int (*capacity)(const moon_tensor *blank);
    /* Fill a blank with foreign memory. The struct is validated first. On MOON_OK the tensor owns `owner` (may be NULL)
       and calls owner->drop once; on failure the caller still owns it. readonly is forced on by overlap. */
    moon_status (*adopt)(moon_tensor *blank, const moon_dl_tensor *dl, bool readonly, moon_hook *owner);
    /* The same for a managed tensor: exactly one of the two is given. On MOON_OK we call its deleter once, later; on
       failure the caller still owns it, except that an unknown major version has been deleted (see *consumed). */
    moon_status (*adopt_managed)(moon_tensor *blank, moon_dl_versioned *v1, moon_dl_managed *v0, bool *consumed);
    /* Fill a blank with a contiguous copy, on the CPU, in dtype (MOON_DTYPE_COUNT: the source's own). */
    moon_status (*copy_of)(moon_tensor *blank, const moon_tensor *source, moon_dtype dtype);
    void (*close)(moon_tensor *tensor); /* as free(): drops the reference to the storage */

    /* ---- contents [any thread] ---- */
    void *(*data)(const moon_tensor *tensor); /* host address of the first element; NULL off the host or if closed */
    moon_status (*copy)(const moon_tensor *target, const moon_tensor *source); /* casts and broadcasts */
    moon_status (*writing)(const moon_tensor *tensor); /* call before writing through data(): refuses, tells the hooks */
    bool (*is_contiguous)(const moon_tensor *tensor);
    bool (*overlaps_itself)(const moon_tensor *tensor);

    /* ---- storage [any thread] ---- */
    void (*retain)(moon_storage *storage);
    void (*release)(moon_storage *storage);
    void (*export_begin)(moon_storage *storage); /* a consumer outside holds it: counts, and retains */
    void (*export_end)(moon_storage *storage);
    moon_hook *(*owner)(const moon_storage *storage);
    moon_hook *(*watch)(const moon_storage *storage);
    /* set the watcher of an own storage if none is set yet; false if there is one */
    bool (*set_watch)(moon_storage *storage, moon_hook *watch);

    /* ---- DLPack [any thread] ---- */
    /* the one validator: what no consumer may see, and what `target` in particular must not */
    moon_status (*dl_check)(const moon_dl_tensor *dl, bool readonly, moon_dl_target target);
    /* A new struct over the tensor, checked for `target`; one allocation, counted as an export until its deleter runs.
       Strides of size-1 dimensions are made row-major. */
    moon_status (*dl_export)(const moon_tensor *tensor, moon_dl_target target, moon_dl_versioned **out);
    moon_status (*dl_export_v0)(const moon_tensor *tensor, moon_dl_target target, moon_dl_managed **out);

    /* ---- the Lua side of tensors ---- */
    /* push the table of tensor methods, so that a module may add some (to_torch and its kin) [raises] */
    void (*push_methods)(lua_State *L);
    /* live counters a module adds to moon.stats(): name and reader; the name must be static [raises] */
    void (*add_counter)(lua_State *L, const char *name, int64_t (*read)(void));
    /* moon.complex values: real and imaginary part of the one at index i, or false */
    bool (*test_complex)(lua_State *L, int i, double parts[2]);
    void (*push_complex)(lua_State *L, double re, double im); /* [raises] */
} moon_api;

static inline const moon_api *moon_get_api(lua_State *L) {
    if (lua_getfield(L, LUA_REGISTRYINDEX, MOON_API_KEY) != LUA_TLIGHTUSERDATA) {
        lua_pop(L, 1);
        lua_getglobal(L, "require");
        lua_pushliteral(L, "moontensor.core");
        lua_call(L, 1, 0);
        lua_getfield(L, LUA_REGISTRYINDEX, MOON_API_KEY);
    }
    const moon_api *api = (const moon_api *)lua_touserdata(L, -1);
    lua_pop(L, 1);
    if (api == NULL || api->version != MOON_API_VERSION || api->size < sizeof *api) {
        luaL_error(L, "moontensor's core has C API version %d, this module was built for %d", api ? (int)api->version : 0,
                   MOON_API_VERSION);
    }
    return api;
}

#endif
