/* Copies that repeat elements or move them round, made of copies between slices; and resizing. */
#include <string.h>
#include "binding.h"

/* out[first, step .. count] along dim = in[from .. length]; a length of 1 is repeated */
static void copy_slice(lua_State *L, const moon_tensor *out, const moon_tensor *in, int dim, int64_t first, int64_t count,
                       int64_t step, int64_t from, int64_t length) {
    moon_draft to, source;
    if (count == 0 || length == 0) return;
    if (moon_view_slice(&to, out, dim, first, count, step) || moon_view_slice(&source, in, dim, from, length, 1)) moonl_raise(L);
    to.t.storage = out->storage, source.t.storage = in->storage; /* borrowed */
    if (moon_copy(&to.t, &source.t)) moonl_raise(L);
}

/* push a tensor like t, but of another extent in dim */
static const moon_tensor *push_other(lua_State *L, const moon_tensor *t, int dim, int64_t extent) {
    int64_t shape[MOON_MAXDIM];
    moonl_open(L, t);
    memcpy(shape, t->shape, (size_t)t->ndim * sizeof *shape);
    shape[dim] = extent;
    const moon_tensor *out = moonl_push_contiguous(L, (moon_dtype)t->dtype, t->ndim, shape, t->storage->device);
    moonl_open(L, t);
    return out;
}

/* push t seen as one row, a copy where it must be */
static const moon_tensor *push_flat(lua_State *L, const moon_tensor *t) {
    moon_draft draft;
    moon_status status = moon_view_reshape(&draft, t, 1, &t->numel);
    if (status == MOON_OK) return moonl_push_view(L, &draft, t);
    if (status != MOON_ELAYOUT) moonl_raise(L);
    t = moonl_push_copy(L, t, (moon_dtype)t->dtype);
    if (moon_view_reshape(&draft, t, 1, &t->numel)) moonl_raise(L);
    return moonl_push_view(L, &draft, t);
}

/* ---- tile ---- */

static void add_dim(moon_draft *d, int64_t extent, int64_t stride) {
    d->t.shape[d->t.ndim] = extent;
    d->t.strides[d->t.ndim++] = stride;
}

/* out as turns times elements in every dimension, and t broadcast over the turns. Extents of 1 are left out, so that each
   dimension doubles the elements at least: there is always room. */
static void turns(moon_draft *to, moon_draft *from, const moon_tensor *out, const moon_tensor *t, const int64_t *count) {
    moon_draft_init(to, (moon_dtype)out->dtype, 0);
    moon_draft_init(from, (moon_dtype)t->dtype, 0);
    to->t.storage = out->storage, from->t.storage = t->storage; /* borrowed */
    to->t.offset = out->offset, from->t.offset = t->offset;
    to->t.numel = from->t.numel = out->numel;
    for (int i = 0; i < out->ndim; i++) {
        int own = i - (out->ndim - t->ndim);
        int64_t size = own < 0 ? 1 : t->shape[own];
        if (count[i] > 1) add_dim(to, count[i], out->strides[i] * size), add_dim(from, count[i], 0);
        if (size > 1) add_dim(to, size, out->strides[i]), add_dim(from, size, t->strides[own]);
    }
}

/*** x:tile(counts…) -> tensor
The tensor repeated `counts` times along its dimensions, the last count for the last one; missing counts are 1, and further
ones make new dimensions in front. */
static int tensor_tile(lua_State *L) {
    const moon_tensor *t = moonl_check(L, 1);
    moonl_sizes counts;
    moonl_check_sizes(L, 2, 0, &counts);
    int ndim = t->ndim > counts.ndim ? t->ndim : counts.ndim;
    int64_t count[MOON_MAXDIM], shape[MOON_MAXDIM];
    for (int i = 0; i < ndim; i++) {
        int own = i - (ndim - t->ndim), given = i - (ndim - counts.ndim);
        count[i] = given < 0 ? 1 : counts.at[given];
        if (__builtin_mul_overflow(own < 0 ? 1 : t->shape[own], count[i], &shape[i])) {
            return luaL_argerror(L, 2, "the result would be too large");
        }
    }
    const moon_tensor *out = moonl_push_contiguous(L, (moon_dtype)t->dtype, ndim, shape, t->storage->device);
    moonl_open(L, t);
    if (out->numel == 0) return 1;
    moon_draft to, from;
    turns(&to, &from, out, t, count);
    if (moon_copy(&to.t, &from.t)) return moonl_raise(L);
    return 1;
}

/* ---- repeat_interleave ---- */

/* the sum of the counts at arg, one for each of extent elements; raises */
static int64_t check_counts(lua_State *L, int arg, int64_t extent) {
    int64_t total = 0;
    if ((int64_t)lua_rawlen(L, arg) != extent) {
        luaL_argerror(L, arg,
                      lua_pushfstring(L, "%I counts for %I elements", (LUAI_UACINT)lua_rawlen(L, arg), (LUAI_UACINT)extent));
    }
    for (int64_t i = 1; i <= extent; i++) {
        int isint;
        lua_rawgeti(L, arg, i);
        int64_t n = lua_tointegerx(L, -1, &isint);
        if (!isint || n < 0) { luaL_argerror(L, arg, lua_pushfstring(L, "count %I is no integer from 0 on", (LUAI_UACINT)i)); }
        if (__builtin_add_overflow(total, n, &total)) luaL_argerror(L, arg, "the result would be too large");
        lua_pop(L, 1);
    }
    return total;
}

static int repeat_evenly(lua_State *L, const moon_tensor *t, int dim, int64_t n) {
    int64_t extent = t->shape[dim], total;
    if (__builtin_mul_overflow(extent, n, &total)) return luaL_argerror(L, 2, "the result would be too large");
    const moon_tensor *out = push_other(L, t, dim, total);
    /* the fewer copies: one for each turn, or one for each element */
    for (int64_t i = 0; n < extent && i < n; i++) copy_slice(L, out, t, dim, i, extent, n, 0, extent);
    for (int64_t i = 0; n >= extent && i < extent; i++) copy_slice(L, out, t, dim, i * n, n, 1, i, 1);
    return 1;
}

/* a tensor of counts at arg becomes a table of them */
static void counts_to_table(lua_State *L, int arg) {
    const moon_tensor *t = moonl_check(L, arg);
    moon_kind kind = (moon_kind)moon_dtypes[t->dtype].kind;
    if (t->ndim != 1 || (kind != MOON_KIND_INT && kind != MOON_KIND_UINT)) {
        luaL_argerror(L, arg, "counts are a 1-d tensor of integers");
    }
    lua_createtable(L, t->numel < INT32_MAX ? (int)t->numel : 0, 0);
    for (int64_t i = 0; i < moonl_check(L, arg)->numel; i++) {
        moonl_push_at(L, t, i * t->strides[0] * (int64_t)moon_itemsize(t));
        lua_rawseti(L, -2, i + 1);
    }
    lua_replace(L, arg);
}

/*** x:repeat_interleave(n | counts, [dim]) -> tensor
Each element along dimension `dim` repeated `n` times, or as often as a table or tensor of counts says, next to itself; of all
elements in row-major order where no dimension is named. */
static int tensor_repeat_interleave(lua_State *L) {
    const moon_tensor *t = moonl_check(L, 1);
    int dim = lua_isnoneornil(L, 3) ? 0 : moonl_dim(L, 3, t->ndim);
    bool flat = lua_isnoneornil(L, 3);
    lua_settop(L, 2);
    if (moonl_test(L, 2)) counts_to_table(L, 2);
    bool each = lua_istable(L, 2);
    int64_t n = each ? 0 : luaL_checkinteger(L, 2);
    luaL_argcheck(L, n >= 0, 2, lua_pushfstring(L, "count %I is negative", (LUAI_UACINT)n));
    moonl_check(L, 1);
    if (flat) t = push_flat(L, t);
    if (!each) return repeat_evenly(L, t, dim, n);
    int64_t extent = t->shape[dim], at = 0;
    const moon_tensor *out = push_other(L, t, dim, check_counts(L, 2, extent));
    for (int64_t i = 0; i < extent; i++) {
        lua_rawgeti(L, 2, i + 1);
        int64_t count = lua_tointeger(L, -1);
        lua_pop(L, 1);
        copy_slice(L, out, t, dim, at, count, 1, i, 1);
        at += count;
    }
    return 1;
}

/* ---- roll ---- */

static const moon_tensor *push_rolled(lua_State *L, const moon_tensor *t, int dim, lua_Integer shift) {
    const moon_tensor *out = push_other(L, t, dim, t->shape[dim]);
    int64_t extent = t->shape[dim];
    if (extent == 0) return out;
    int64_t by = shift % extent;
    if (by < 0) by += extent;
    copy_slice(L, out, t, dim, by, extent - by, 1, 0, extent - by);
    copy_slice(L, out, t, dim, 0, by, 1, extent - by, by);
    return out;
}

/* one integer, or a sequence of them; returns how many */
static int check_list(lua_State *L, int arg, lua_Integer *out) {
    if (!lua_istable(L, arg)) {
        *out = luaL_checkinteger(L, arg);
        return 1;
    }
    lua_Unsigned n = lua_rawlen(L, arg);
    luaL_argcheck(L, n >= 1 && n <= MOON_MAXDIM, arg, "1 to 64 integers expected");
    for (lua_Unsigned i = 0; i < n; i++) {
        int isint;
        lua_rawgeti(L, arg, (lua_Integer)i + 1);
        out[i] = lua_tointegerx(L, -1, &isint);
        luaL_argcheck(L, isint, arg, "a list of integers expected");
        lua_pop(L, 1);
    }
    return (int)n;
}

/*** x:roll(shift, [dim]) -> tensor
The elements moved `shift` places up along dimension `dim`, those beyond the end come in at the start. With lists, one shift for
each dimension; without a dimension, all elements as one row. */
static int tensor_roll(lua_State *L) {
    const moon_tensor *t = moonl_check(L, 1);
    lua_Integer shift[MOON_MAXDIM], dims[MOON_MAXDIM];
    int n = check_list(L, 2, shift);
    if (lua_isnoneornil(L, 3)) {
        luaL_argcheck(L, n == 1, 3, "a dimension for each shift expected");
        moon_draft draft;
        const moon_tensor *rolled = push_rolled(L, push_flat(L, t), 0, shift[0]);
        if (moon_view_reshape(&draft, rolled, t->ndim, t->shape)) return moonl_raise(L);
        moonl_push_view(L, &draft, rolled);
        return 1;
    }
    if (check_list(L, 3, dims) != n) return luaL_argerror(L, 3, "as many dimensions as shifts expected");
    lua_settop(L, 3);
    for (int i = 0; i < n; i++) {
        lua_pushinteger(L, dims[i]);
        lua_replace(L, 3);
        t = push_rolled(L, t, moonl_dim(L, 3, t->ndim), shift[i]);
        lua_settop(L, 4 + i);
        luaL_checkstack(L, 4, NULL);
    }
    return 1;
}

/* ---- resize_ ---- */

/* A userdata has room for as many dimensions as it was made with; more go into a block that lives as long as it does. */
static void make_room(lua_State *L, moon_tensor *t, int ndim) {
    static const char key;
    if (t->strides - t->shape >= ndim) return;
    if (lua_rawgetp(L, LUA_REGISTRYINDEX, &key) == LUA_TNIL) {
        lua_pop(L, 1);
        lua_newtable(L);
        lua_createtable(L, 0, 1);
        lua_pushliteral(L, "k");
        lua_setfield(L, -2, "__mode");
        lua_setmetatable(L, -2);
        lua_pushvalue(L, -1);
        lua_rawsetp(L, LUA_REGISTRYINDEX, &key);
    }
    lua_pushvalue(L, 1);
    int64_t *block = (int64_t *)lua_newuserdatauv(L, 2 * (size_t)ndim * sizeof *block, 0);
    memcpy(block, t->shape, (size_t)t->ndim * sizeof *block);
    memcpy(block + ndim, t->strides, (size_t)t->ndim * sizeof *block);
    lua_rawset(L, -3);
    lua_pop(L, 1);
    t->shape = block, t->strides = block + ndim;
}

/*** x:resize_(sizes…) -> x
`x` itself with other sizes, in row-major order, and as torch does it: the elements stay as they lie in memory, and where more
are needed than there is room for, the memory grows; what is new is not initialised. Only memory of its own that nobody else
holds is resized: not while a view of it, torch or NumPy has it. */
static int tensor_resize_(lua_State *L) {
    moon_tensor *t = moonl_check(L, 1);
    moonl_sizes sizes;
    moonl_check_sizes(L, 2, 0, &sizes);
    moon_draft plan;
    lua_settop(L, 1);
    if (atomic_load(&t->storage->refs) > 1) lua_gc(L, LUA_GCCOLLECT); /* views that are garbage do not count */
    if (moon_resize_plan(t, sizes.ndim, sizes.at, &plan)) return moonl_raise(L);
    make_room(L, t, sizes.ndim);
    moon_tensor *memory = NULL;
    if (plan.t.offset + plan.t.numel * (int64_t)moon_itemsize(t) > (int64_t)t->storage->nbytes) {
        int64_t nbytes = plan.t.offset + plan.t.numel * (int64_t)moon_itemsize(t);
        memory = moonl_push_contiguous(L, MOON_UINT8, 1, &nbytes, t->storage->device);
        moonl_open(L, t);
    }
    moon_draft again; /* a finalizer may have shared it */
    if (moon_resize_plan(t, sizes.ndim, sizes.at, &again)) return moonl_raise(L);
    moon_status status = moon_resize_run(t, &again, memory);
    if (memory) moon_tensor_close(memory);
    if (status) return moonl_raise(L);
    lua_settop(L, 1);
    return 1;
}

static const moonl_entry methods_of_repeats[] = {
    {"tile", tensor_tile}, {"repeat_interleave", tensor_repeat_interleave}, {"roll", tensor_roll}, {"resize_", tensor_resize_},
    {NULL, NULL},
};

static const moonl_entry functions[] = {
    {"tile", tensor_tile}, {"repeat_interleave", tensor_repeat_interleave}, {"roll", tensor_roll}, {NULL, NULL}};

void moonl_open_repeat(lua_State *L, int module, int methods, int meta) {
    (void)meta;
    moonl_register(L, methods, methods_of_repeats);
    moonl_register(L, module, functions);
}
