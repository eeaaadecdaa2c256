/* moon.from and the verbs of sharing: what needs no Python here; the rest loads the bridge, which puts its own in place. */
#include <stdio.h>
#include <string.h>
#include "binding.h"

/*** # Sharing
One rule everywhere: `copy = false`, the default, shares or raises; `copy = true` copies to row-major order; `copy = "auto"`
shares where it can and copies where it cannot. A change of dtype or device needs `true` or `"auto"`. */

typedef enum copy_mode { COPY_NEVER, COPY_ALWAYS, COPY_AUTO } copy_mode;

typedef struct request {
    copy_mode copy;
    int readonly; /* -1: as the source */
    int dtype;    /* -1: the source's */
    moon_device *device;
} request;

static void check_request(lua_State *L, int arg, request *r) {
    static const char *const names[] = {"copy", "force", "readonly", "dtype", "device", "lock", NULL};
    *r = (request){COPY_NEVER, -1, -1, NULL};
    if (lua_isnoneornil(L, arg)) return;
    luaL_checktype(L, arg, LUA_TTABLE);
    moonl_known_options(L, arg, names);
    if (lua_getfield(L, arg, "copy") == LUA_TSTRING && strcmp(lua_tostring(L, -1), "auto") == 0) r->copy = COPY_AUTO;
    else if (lua_isnil(L, -1) || lua_isboolean(L, -1)) r->copy = lua_toboolean(L, -1) ? COPY_ALWAYS : COPY_NEVER;
    else luaL_argerror(L, arg, "copy= is true, false or \"auto\"");
    if (moonl_field_bool(L, arg, "force", false)) r->copy = COPY_ALWAYS;
    if (lua_getfield(L, arg, "readonly") != LUA_TNIL) r->readonly = lua_toboolean(L, -1);
    moon_dtype dtype;
    if (lua_getfield(L, arg, "dtype") != LUA_TNIL) {
        if (!moonl_test_dtype(L, -1, &dtype)) {
            luaL_argerror(L, arg, lua_pushfstring(L, "unknown dtype '%s'", luaL_tolstring(L, -1, NULL)));
        }
        r->dtype = (int)dtype;
    }
    if (lua_getfield(L, arg, "device") != LUA_TNIL) {
        if (lua_type(L, -1) != LUA_TSTRING) luaL_argerror(L, arg, "device= is a name such as \"cpu\"");
        if (moon_device_find(lua_tostring(L, -1), &r->device)) moonl_arg_raise(L, arg);
    }
}

static bool frozen(const moon_tensor *t) { return t->readonly || t->storage->readonly; }

/* push what the request makes of the tensor t */
static int push_from(lua_State *L, const moon_tensor *t, const request *r) {
    moon_dtype dtype = r->dtype >= 0 ? (moon_dtype)r->dtype : (moon_dtype)t->dtype;
    moon_device *device = r->device ? r->device : t->storage->device;
    bool copy = r->copy == COPY_ALWAYS;
    if (r->copy == COPY_NEVER && dtype != t->dtype) {
        return luaL_error(L, "from: the source is %s, not %s; copy = true converts", moon_dtypes[t->dtype].name,
                          moon_dtypes[dtype].name);
    }
    if (r->copy == COPY_NEVER && device != t->storage->device) {
        return luaL_error(L, "from: the source is on %s, not %s; copy = true moves", t->storage->device->name, device->name);
    }
    if (r->copy == COPY_NEVER && r->readonly == 0 && frozen(t)) {
        return luaL_error(L, "from: the source is read-only; copy = true makes a writable copy");
    }
    if (r->copy == COPY_AUTO) copy = dtype != t->dtype || device != t->storage->device || (r->readonly == 0 && frozen(t));
    moon_tensor *result;
    if (copy) {
        result = moonl_push_contiguous(L, dtype, t->ndim, t->shape, device);
        moonl_open(L, t);
        if (moon_copy(result, t)) return moonl_raise(L);
    } else {
        moon_draft draft;
        moon_draft_init(&draft, dtype, t->ndim);
        moon_layout_copy(&draft.t, t);
        result = moonl_push_view(L, &draft, t);
    }
    if (r->readonly == 1) result->readonly = 1;
    return 1;
}

/* ---- foreign producers: a userdata whose metatable has __dlpack ---- */

typedef struct dlpack_box {
    moon_dl_versioned *managed; /* owned until adopted */
} dlpack_box;

static int box_gc(lua_State *L) {
    dlpack_box *box = (dlpack_box *)lua_touserdata(L, 1);
    moon_dl_versioned *managed = box->managed;
    box->managed = NULL;
    if (managed && managed->deleter) managed->deleter(managed);
    return 0;
}

/* an owner in place before the struct arrives */
static dlpack_box *push_box(lua_State *L) {
    dlpack_box *box = (dlpack_box *)lua_newuserdatauv(L, sizeof *box, 0);
    box->managed = NULL;
    lua_createtable(L, 0, 1);
    lua_pushcfunction(L, box_gc);
    lua_setfield(L, -2, "__gc");
    lua_setmetatable(L, -2);
    return box;
}

/* push a tensor over what the userdata at arg offers */
static void push_dlpack(lua_State *L, int arg) {
    dlpack_box *box = push_box(L);
    luaL_getmetafield(L, arg, "__dlpack");
    lua_pushvalue(L, arg);
    lua_call(L, 1, 1);
    if (lua_type(L, -1) != LUA_TLIGHTUSERDATA) {
        luaL_argerror(L, arg, lua_pushfstring(L, "__dlpack gave a %s, expected a light userdata", luaL_typename(L, -1)));
    }
    box->managed = (moon_dl_versioned *)lua_touserdata(L, -1);
    if (box->managed == NULL) luaL_argerror(L, arg, "__dlpack gave NULL");
    int32_t ndim = box->managed->version.major == MOON_DL_MAJOR ? box->managed->dl_tensor.ndim : 0;
    moon_tensor *t = moonl_new(L, ndim > 0 && ndim <= MOON_MAXDIM ? ndim : 0);
    bool consumed = false;
    moon_status status = moon_dl_adopt_managed(t, box->managed, NULL, &consumed);
    if (status == MOON_OK || consumed) box->managed = NULL;
    if (status) moonl_arg_raise(L, arg);
}

/* ---- the bridge ---- */

/* The error on top came from a function that only C called: Lua gave it neither the function's name nor a position. */
static int raise_as_ours(lua_State *L) {
    int arg, at = 0;
    size_t n = 0;
    const char *text = lua_type(L, -1) == LUA_TSTRING ? lua_tolstring(L, -1, &n) : NULL;
    if (text == NULL) return lua_error(L);
    bool ours = sscanf(text, "bad argument #%d to '?' (%n", &arg, &at) == 1 && at > 0 && (size_t)at < n;
    if (ours && text[n - 1] == ')') {
        lua_pushlstring(L, text + at, n - 1 - (size_t)at);
        return luaL_argerror(L, arg, lua_tostring(L, -1));
    }
    luaL_where(L, 1);
    lua_insert(L, -2);
    lua_concat(L, 2);
    return lua_error(L);
}

/* Load the bridge, which replaces the function `name` in the table at index `table`, the top; call what is there now with
   the arguments below. */
static int hand_over(lua_State *L, int table, const char *name, lua_CFunction ours) {
    lua_getglobal(L, "require");
    lua_pushliteral(L, "moontensor.python");
    lua_call(L, 1, 1);
    lua_getfield(L, -1, "init"); /* the bridge opens at its first use, and this is one */
    lua_call(L, 0, 0);
    lua_pop(L, 1);
    lua_getfield(L, table, name);
    if (lua_tocfunction(L, -1) == ours) return luaL_error(L, "moontensor.python was loaded but has no '%s'", name);
    lua_insert(L, 1);
    lua_settop(L, table);
    if (lua_pcall(L, table - 1, LUA_MULTRET, 0) != LUA_OK) return raise_as_ours(L);
    return lua_gettop(L);
}

static int module_from(lua_State *L);
static int module_shares(lua_State *L);

static int push_module(lua_State *L) {
    lua_rawgetp(L, LUA_REGISTRYINDEX, &moonl_key_module);
    return lua_gettop(L);
}

/*** moon.from(obj, [{copy=, force=, readonly=, dtype=, device=, lock=}]) -> tensor
A tensor over the memory of any producer: a native tensor, a userdata with `__dlpack`, and through the bridge torch, NumPy,
DLPack, buffers and adapters. `force = true` detaches, moves to the CPU and copies. `readonly = false` demands a writable
tensor, `readonly = true` forbids writing. Plain tables need `dtype=` and are copied. */
static int module_from(lua_State *L) {
    luaL_checkany(L, 1);
    lua_settop(L, 2);
    request r;
    if (moonl_test(L, 1)) {
        check_request(L, 2, &r);
        return push_from(L, moonl_check(L, 1), &r);
    }
    int type = lua_type(L, 1);
    if (type == LUA_TUSERDATA) {
        if (luaL_getmetafield(L, 1, "__dlpack") == LUA_TNIL) return hand_over(L, push_module(L), "from", module_from);
        check_request(L, 2, &r);
        push_dlpack(L, 1);
        return push_from(L, moonl_test(L, -1), &r);
    }
    if (type == LUA_TTABLE) moonl_not_module(L);
    if (type != LUA_TTABLE) {
        const char *hint = type == LUA_TSTRING   ? "; moon.from_string takes bytes"
                           : type == LUA_TNUMBER ? "; moon.tensor takes it"
                                                 : "";
        return luaL_argerror(
            L, 1, lua_pushfstring(L, "tensor or an object that offers one expected, got %s%s", luaL_typename(L, 1), hint));
    }
    check_request(L, 2, &r);
    if (r.dtype < 0) return luaL_argerror(L, 1, "a plain table needs dtype=; or use moon.tensor");
    moon_tensor *made = moonl_push_nested(L, 1, r.dtype, r.device);
    if (r.readonly == 1) made->readonly = 1;
    return 1;
}

/*** moon.shares(a, b) -> boolean
Whether two tensors, or a tensor and a torch or NumPy object, have memory in common. */
static int module_shares(lua_State *L) {
    const moon_tensor *a = moonl_test(L, 1), *b = moonl_test(L, 2);
    luaL_checkany(L, 2);
    if (a && b) {
        moonl_check(L, 1);
        moonl_check(L, 2);
        lua_pushboolean(L, moon_overlap_of(a, b) != MOON_DISJOINT);
        return 1;
    }
    if (lua_type(L, 1) != LUA_TUSERDATA) return luaL_typeerror(L, 1, "tensor");
    if (lua_type(L, 2) != LUA_TUSERDATA) return luaL_typeerror(L, 2, "tensor");
    return hand_over(L, push_module(L), "shares", module_shares);
}

/*** x:to_torch([{copy=}]) -> torch.Tensor
A torch tensor over the same memory. Read-only tensors, negative strides and overlap raise: torch cannot have them. */
/*** x:to_numpy([{copy=}]) -> numpy.ndarray
A NumPy array over the same memory. */
/*** x:to_dlpack([{max_version=, stream=}]) -> capsule
A DLPack capsule, versioned unless `max_version = false`. */
/*** x:memoryview() -> memoryview
A Python memoryview of the same memory. */
static int method_of_bridge(lua_State *L) {
    moonl_check(L, 1);
    lua_rawgetp(L, LUA_REGISTRYINDEX, &moonl_key_methods);
    return hand_over(L, lua_gettop(L), lua_tostring(L, MOONL_ID), method_of_bridge);
}

static const moonl_entry functions[] = {{"from", module_from}, {"shares", module_shares}, {NULL, NULL}};

void moonl_open_exchange(lua_State *L, int module, int methods, int meta) {
    static const char *const names[] = {"to_torch", "to_numpy", "to_dlpack", "memoryview"};
    moonl_register(L, module, functions);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        lua_pushvalue(L, meta);
        lua_pushstring(L, names[i]);
        lua_pushcclosure(L, method_of_bridge, 2);
        lua_setfield(L, methods, names[i]);
    }
}
