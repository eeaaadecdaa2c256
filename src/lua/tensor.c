/* The tensor userdata: making, checking and closing it; its fields and sizes. */
#include <string.h>
#include "../core/memory.h"
#include "binding.h"

const char moonl_key_meta, moonl_key_methods, moonl_key_module, moonl_key_complex, moonl_key_shape, moonl_key_state,
    moonl_key_counters, moonl_key_generator, moonl_key_random;

/*** # Tensors: fields and sizes
Dimensions and indices count from 1; negative ones count from the end. */

/*** x.shape
The extents, a sequence that prints as `[2, 3]`. A fresh table: changing it does not change the tensor. */
/*** x.ndim
The number of dimensions. */
/*** x.dtype
The name of the element type, such as `"float32"`. */
/*** x.device
The name of the device that holds the elements, such as `"cpu"`. */
/*** x.readonly
Whether writing through this tensor is refused: it was imported or made so, or elements of it overlap (expand, unfold). */

int moonl_raise(lua_State *L) { return luaL_error(L, "%s", moon_error_message()); }

int moonl_arg_raise(lua_State *L, int arg) { return luaL_argerror(L, arg, moon_error_message()); }

moon_tensor *moonl_test_slow(lua_State *L, int i) {
    void *p = lua_touserdata(L, i);
    if (p == NULL || !lua_getmetatable(L, i)) return NULL;
    int same = lua_rawequal(L, -1, MOONL_META);
    lua_pop(L, 1);
    return same ? (moon_tensor *)p : NULL;
}

/* What has a finalizer lives through two collections, and Lua's incremental collector falls behind loops that make views: heaps
   grow to hundreds of times what is alive, and out of the caches. So a tensor counts for twice its size. */
enum { NUDGE_EVERY = 256, NUDGE_KB = 32 };

static void nudge(lua_State *L) {
    static _Atomic unsigned made; /* a lost count between threads does no harm */
    unsigned n = atomic_load_explicit(&made, memory_order_relaxed) + 1;
    atomic_store_explicit(&made, n, memory_order_relaxed);
    if (n % NUDGE_EVERY == 0 && lua_gc(L, LUA_GCISRUNNING) == 1) lua_gc(L, LUA_GCSTEP, NUDGE_KB);
}

/* a closed tensor keeps its room in ndim */
static moon_tensor *blank(lua_State *L, int capacity) {
    nudge(L);
    moonl_box *box = (moonl_box *)lua_newuserdatauv(L, sizeof *box + 2 * (size_t)capacity * sizeof(int64_t), 0);
    moon_tensor *t = &box->t;
    box->mark = moonl_mark(box);
    t->storage = NULL;
    t->offset = 0;
    t->numel = 0;
    t->shape = (int64_t *)(box + 1);
    t->strides = t->shape + capacity;
    t->ndim = capacity;
    t->dtype = 0;
    t->readonly = 0;
    return t;
}

moon_tensor *moonl_new(lua_State *L, int capacity) {
    moon_tensor *t = blank(L, capacity);
    lua_pushvalue(L, MOONL_META);
    lua_setmetatable(L, -2);
    return t;
}

moon_tensor *moonl_new_anywhere(lua_State *L, int capacity) {
    luaL_argcheck(L, capacity >= 0 && capacity <= MOON_MAXDIM, 2, "a tensor has 0 to 64 dimensions");
    moon_tensor *t = blank(L, capacity);
    lua_rawgetp(L, LUA_REGISTRYINDEX, &moonl_key_meta);
    lua_setmetatable(L, -2);
    return t;
}

moon_tensor *moonl_push_view(lua_State *L, const moon_draft *draft, const moon_tensor *base) {
    moon_tensor *t = moonl_new(L, draft->t.ndim);
    moonl_open(L, base);
    moon_layout_copy(t, &draft->t);
    moon_tensor_share(t, base);
    return t;
}

/* Lua's collector sees a hundred bytes where a storage holds megabytes: so the bytes allocated are counted, and a
   collection forced once they reach what was alive after the last one (at least CHARGE_LEAST). */
enum { CHARGE_SMALL = 4096, CHARGE_LEAST = 64 << 20 };

static void charge(lua_State *L, size_t nbytes) {
    lua_rawgetp(L, LUA_REGISTRYINDEX, &moonl_key_state);
    moonl_state *state = (moonl_state *)lua_touserdata(L, -1);
    lua_pop(L, 1);
    size_t limit = state->live > CHARGE_LEAST ? state->live : CHARGE_LEAST;
    state->pending += nbytes;
    if (state->pending < limit || !lua_gc(L, LUA_GCISRUNNING)) return;
    state->pending = nbytes;
    lua_gc(L, LUA_GCCOLLECT);
    state->live = (size_t)moon_live_counts().bytes;
}

void moonl_acquire(lua_State *L, moon_tensor *t, moon_device *device) {
    size_t nbytes = (size_t)t->numel * moon_itemsize(t);
    if (nbytes >= CHARGE_SMALL) charge(L, nbytes);
    moon_status status = moon_tensor_alloc(t, device);
    if (status == MOON_EMEMORY) {
        lua_gc(L, LUA_GCCOLLECT);
        status = moon_tensor_alloc(t, device);
    }
    if (status) moonl_raise(L);
}

moon_tensor *moonl_push_alloc(lua_State *L, const moon_draft *draft, moon_device *device) {
    moon_tensor *t = moonl_new(L, draft->t.ndim);
    moon_layout_copy(t, &draft->t);
    moonl_acquire(L, t, device ? device : moon_cpu());
    return t;
}

moon_tensor *moonl_push_contiguous(lua_State *L, moon_dtype dtype, int ndim, const int64_t *shape, moon_device *device) {
    moon_draft draft;
    if (moon_draft_contiguous(&draft, dtype, ndim, shape)) moonl_raise(L);
    return moonl_push_alloc(L, &draft, device);
}

moon_tensor *moonl_push_copy(lua_State *L, const moon_tensor *source, moon_dtype dtype) {
    moon_device *device = source->storage->device;
    moon_tensor *t = moonl_push_contiguous(L, dtype, source->ndim, source->shape, device);
    moonl_open(L, source);
    if (moon_copy(t, source)) moonl_raise(L);
    return t;
}

void moonl_push_shape(lua_State *L, int ndim, const int64_t *shape) {
    lua_createtable(L, ndim, 0);
    for (int i = 0; i < ndim; i++) {
        lua_pushinteger(L, shape[i]);
        lua_rawseti(L, -2, i + 1);
    }
    lua_rawgetp(L, LUA_REGISTRYINDEX, &moonl_key_shape);
    lua_setmetatable(L, -2);
}

/* ---- metamethods ---- */

static int tensor_gc(lua_State *L) {
    moon_tensor *t = moonl_test(L, 1);
    if (t == NULL) return 0;
    ((moonl_box *)t)->mark = 0;
    moon_tensor_close(t);
    if (atomic_load_explicit(&moonl_pins_waiting, memory_order_relaxed) > 0) moonl_drop_pins(L);
    return 0;
}

static int tensor_close(lua_State *L) {
    moon_tensor *t = moonl_test(L, 1);
    if (t) moon_tensor_close(t);
    return 0;
}

/*** x:free()
Lets go of the memory now instead of at the next collection. Views and consumers that share it keep it alive. Later use of
`x` raises "tensor is closed"; freeing twice is harmless. `local x <close> = …` does the same at the end of the block. */
static int tensor_free(lua_State *L) {
    moon_tensor *t = moonl_test(L, 1);
    if (t == NULL) return luaL_typeerror(L, 1, "tensor");
    moon_tensor_close(t);
    return 0;
}

/* the text lives in core's memory: a box owns it while Lua copies it */
typedef struct text_box {
    char *text;
    size_t size;
} text_box;

static int text_gc(lua_State *L) {
    text_box *box = (text_box *)lua_touserdata(L, 1);
    if (box->text) moon_free(box->text, box->size + 1);
    box->text = NULL;
    return 0;
}

static int tensor_tostring(lua_State *L) {
    moon_tensor *t = moonl_test(L, 1);
    if (t == NULL) return luaL_typeerror(L, 1, "tensor");
    if (t->storage == NULL) {
        lua_pushliteral(L, "tensor (closed)");
        return 1;
    }
    if (moon_data(t) == NULL && t->numel > 0) { /* off the host: print a copy on it */
        moon_draft draft;
        if (moon_draft_contiguous(&draft, (moon_dtype)t->dtype, t->ndim, t->shape)) return moonl_raise(L);
        moon_tensor *here = moonl_push_alloc(L, &draft, moon_cpu());
        moonl_open(L, t);
        if (moon_copy(here, t)) return moonl_raise(L);
        t = here;
    }
    text_box *box = (text_box *)lua_newuserdatauv(L, sizeof *box, 0);
    box->text = NULL;
    lua_createtable(L, 0, 1);
    lua_pushcfunction(L, text_gc);
    lua_setfield(L, -2, "__gc");
    lua_setmetatable(L, -2);
    moonl_open(L, t);
    if (moon_format(t, &box->text, &box->size)) return moonl_raise(L);
    lua_pushlstring(L, box->text, box->size);
    moon_free(box->text, box->size + 1);
    box->text = NULL;
    return 1;
}

static int tensor_len(lua_State *L) {
    moon_tensor *t = moonl_check(L, 1);
    if (t->ndim == 0) return luaL_error(L, "a 0-d tensor has no length; x:item() reads its value");
    lua_pushinteger(L, t->shape[0]);
    return 1;
}

/* shapes compare by contents and print as [2, 3] */
static int shape_tostring(lua_State *L) {
    luaL_checktype(L, 1, LUA_TTABLE);
    lua_Unsigned n = lua_rawlen(L, 1);
    luaL_Buffer b;
    luaL_buffinit(L, &b);
    luaL_addchar(&b, '[');
    for (lua_Unsigned i = 1; i <= n; i++) {
        if (i > 1) luaL_addstring(&b, ", ");
        lua_rawgeti(L, 1, (lua_Integer)i);
        luaL_tolstring(L, -1, NULL);
        lua_remove(L, -2);
        luaL_addvalue(&b);
    }
    luaL_addchar(&b, ']');
    luaL_pushresult(&b);
    return 1;
}

static int shape_eq(lua_State *L) {
    bool same = lua_istable(L, 1) && lua_istable(L, 2) && lua_rawlen(L, 1) == lua_rawlen(L, 2);
    for (lua_Unsigned i = 1; same && i <= lua_rawlen(L, 1); i++) {
        lua_rawgeti(L, 1, (lua_Integer)i);
        lua_rawgeti(L, 2, (lua_Integer)i);
        same = lua_rawequal(L, -1, -2);
        lua_pop(L, 2);
    }
    lua_pushboolean(L, same);
    return 1;
}

static int shape_concat(lua_State *L) {
    luaL_tolstring(L, 1, NULL);
    luaL_tolstring(L, 2, NULL);
    lua_concat(L, 2);
    return 1;
}

/* ---- sizes ---- */

/*** x:size([dim]) -> integer | table
The extent of dimension `dim`, or the shape. */
static int tensor_size(lua_State *L) {
    moon_tensor *t = moonl_check(L, 1);
    if (lua_isnoneornil(L, 2)) moonl_push_shape(L, t->ndim, t->shape);
    else lua_pushinteger(L, t->shape[moonl_dim(L, 2, t->ndim)]);
    return 1;
}

/*** x:stride([dim]) -> integer | table
The stride of dimension `dim`, or all of them, in elements; negative after `flip` and reversed ranges. */
static int tensor_stride(lua_State *L) {
    moon_tensor *t = moonl_check(L, 1);
    if (lua_isnoneornil(L, 2)) moonl_push_shape(L, t->ndim, t->strides);
    else lua_pushinteger(L, t->strides[moonl_dim(L, 2, t->ndim)]);
    return 1;
}

/*** x:numel() -> integer
The number of elements. */
static int tensor_numel(lua_State *L) {
    lua_pushinteger(L, moonl_check(L, 1)->numel);
    return 1;
}

/*** x:dim() -> integer
The number of dimensions, as `x.ndim`. */
static int tensor_dim(lua_State *L) {
    lua_pushinteger(L, moonl_check(L, 1)->ndim);
    return 1;
}

/*** x:element_size() -> integer
Bytes of one element. */
static int tensor_element_size(lua_State *L) {
    lua_pushinteger(L, (lua_Integer)moon_itemsize(moonl_check(L, 1)));
    return 1;
}

/*** x:nbytes() -> integer
Bytes of all elements, `x:numel() * x:element_size()`. */
static int tensor_nbytes(lua_State *L) {
    moon_tensor *t = moonl_check(L, 1);
    lua_pushinteger(L, t->numel * (lua_Integer)moon_itemsize(t));
    return 1;
}

/*** x:data_ptr() -> integer
The address of the first element; for comparing with torch's `data_ptr()`. Off the CPU, the device's own address. */
static int tensor_data_ptr(lua_State *L) {
    moon_tensor *t = moonl_check(L, 1);
    const char *p = moon_data(t);
    if (p == NULL && t->storage->handle) p = (const char *)t->storage->handle + t->offset;
    lua_pushinteger(L, (lua_Integer)(intptr_t)p);
    return 1;
}

/*** x:is_contiguous() -> boolean
Whether the elements lie in row-major order without gaps. */
static int tensor_is_contiguous(lua_State *L) {
    lua_pushboolean(L, moon_is_contiguous(moonl_check(L, 1)));
    return 1;
}

/*** x:is_shared() -> boolean
Whether somebody outside holds the memory too: it was imported, or a consumer of an export is still alive. Views of `x` in
Lua do not count. */
static int tensor_is_shared(lua_State *L) {
    moon_storage *s = moonl_check(L, 1)->storage;
    lua_pushboolean(L, !s->owned || s->owner != NULL || atomic_load(&s->exports) > 0);
    return 1;
}

static const moonl_entry methods_of_tensor[] = {
    {"free", tensor_free},
    {"size", tensor_size},
    {"stride", tensor_stride},
    {"numel", tensor_numel},
    {"dim", tensor_dim},
    {"element_size", tensor_element_size},
    {"nbytes", tensor_nbytes},
    {"data_ptr", tensor_data_ptr},
    {"is_contiguous", tensor_is_contiguous},
    {"is_shared", tensor_is_shared},
    {NULL, NULL},
};

/*** moon.is_tensor(value) -> boolean
Whether the value is a native tensor, closed or not. */
static int module_is_tensor(lua_State *L) {
    luaL_checkany(L, 1);
    lua_pushboolean(L, moonl_test(L, 1) != NULL);
    return 1;
}

static const moonl_entry functions[] = {{"is_tensor", module_is_tensor}, {NULL, NULL}};

static const moonl_entry metamethods[] = {
    {"__gc", tensor_gc}, {"__close", tensor_close}, {"__tostring", tensor_tostring}, {"__len", tensor_len}, {NULL, NULL},
};

static const moonl_entry shape_metamethods[] = {
    {"__tostring", shape_tostring},
    {"__eq", shape_eq},
    {"__concat", shape_concat},
    {NULL, NULL},
};

void moonl_register(lua_State *L, int table, const moonl_entry *entries) {
    table = lua_absindex(L, table);
    for (; entries->name; entries++) {
        lua_rawgetp(L, LUA_REGISTRYINDEX, &moonl_key_meta);
        lua_pushcclosure(L, entries->function, 1);
        lua_setfield(L, table, entries->name);
    }
}

void moonl_open_tensor(lua_State *L, int module, int methods, int meta) {
    moonl_register(L, module, functions);
    moonl_register(L, methods, methods_of_tensor);
    moonl_register(L, meta, metamethods);
    lua_createtable(L, 0, 4);
    moonl_register(L, -1, shape_metamethods);
    lua_pushliteral(L, "shape");
    lua_setfield(L, -2, "__name");
    lua_rawsetp(L, LUA_REGISTRYINDEX, &moonl_key_shape);
}
