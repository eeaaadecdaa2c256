/* luaopen_moontensor_core: builds the module table, the method table and the metatable. */
#include "binding.h"

#define EXPORT __attribute__((visibility("default")))

EXPORT int luaopen_moontensor_core(lua_State *L);

typedef void (*opener)(lua_State *L, int module, int methods, int meta);

static const opener subjects[] = {
    moonl_open_complex, moonl_open_tensor, moonl_open_index,  moonl_open_advanced, moonl_open_create, moonl_open_pin,
    moonl_open_view,    moonl_open_copy,   moonl_open_nested, moonl_open_ops,      moonl_open_reduce, moonl_open_combine,
    moonl_open_repeat,  moonl_open_random, moonl_open_files,  moonl_open_exchange, moonl_open_world,
};

/* a table, left on the stack and kept in the registry */
static int keep_table(lua_State *L, const void *key) {
    lua_newtable(L);
    lua_pushvalue(L, -1);
    lua_rawsetp(L, LUA_REGISTRYINDEX, key);
    return lua_gettop(L);
}

EXPORT int luaopen_moontensor_core(lua_State *L) {
    if (lua_rawgetp(L, LUA_REGISTRYINDEX, &moonl_key_module) == LUA_TTABLE) return 1; /* one metatable a state */
    lua_settop(L, 0);
    if (moon_cpu()->backend->probe()) return moonl_raise(L);
    lua_newtable(L);
    int module = lua_gettop(L), methods = keep_table(L, &moonl_key_methods), meta = keep_table(L, &moonl_key_meta);
    keep_table(L, &moonl_key_counters);
    moonl_state *state = (moonl_state *)lua_newuserdatauv(L, sizeof *state, 0);
    *state = (moonl_state){0, 0};
    lua_rawsetp(L, LUA_REGISTRYINDEX, &moonl_key_state);
    lua_pushliteral(L, "tensor");
    lua_setfield(L, meta, "__name");
    for (size_t i = 0; i < sizeof subjects / sizeof *subjects; i++) {
        subjects[i](L, module, methods, meta);
        lua_settop(L, meta);
    }
    lua_pushvalue(L, methods);
    lua_setfield(L, module, "methods");
    moonl_open_api(L);
    lua_settop(L, module);
    lua_pushvalue(L, module); /* whole only now: what failed for want of memory may be tried again */
    lua_rawsetp(L, LUA_REGISTRYINDEX, &moonl_key_module);
    return 1;
}
