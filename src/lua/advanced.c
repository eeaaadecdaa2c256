/* Indexing by tensors: the part of x[…] that is no view, and the methods that take an index or a mask. */
#include "../core/index.h"
#include "binding.h"

/* ---- x[…] ---- */

/* The entries of a key. Its tensors stand on the stack, so that no finalizer can take them out of their table meanwhile. */
typedef struct key {
    int n;
    moon_index at[MOON_MAXDIM];
} key;

/* the entry at the top of the stack; *dim moves on over the dimensions that it takes */
static void read_entry(lua_State *L, const moon_tensor *t, int place, int *dim, moon_index *out) {
    const moon_tensor *index = moonl_test(L, -1);
    bool mask = index && index->dtype == MOON_BOOL;
    if (!mask && *dim >= t->ndim) luaL_error(L, "too many indices for a %d-d tensor", t->ndim);
    if (index) {
        if (moon_index_check(index)) moonl_raise(L);
        *out = (moon_index){.kind = MOON_INDEX_TENSOR, .tensor = index};
        *dim += mask ? index->ndim : 1;
        return;
    }
    int64_t extent = t->shape[*dim];
    if (lua_type(L, -1) == LUA_TNUMBER) {
        *out = (moon_index){.kind = MOON_INDEX_AT, .first = moonl_place(L, -1, *dim, extent)};
    } else if (lua_istable(L, -1)) {
        *out = (moon_index){.kind = MOON_INDEX_RANGE};
        moonl_range(L, lua_gettop(L), *dim, extent, &out->first, &out->count, &out->step);
    } else {
        luaL_error(L, "entry %d of an index is an integer, a range or a tensor, got %s", place, luaL_typename(L, -1));
    }
    ++*dim;
}

static void read_key(lua_State *L, const moon_tensor *t, int i, key *out) {
    int dim = 0;
    out->n = 1;
    if (!lua_istable(L, i)) {
        lua_pushvalue(L, i);
        read_entry(L, t, 1, &dim, &out->at[0]);
        return;
    }
    lua_Unsigned n = lua_rawlen(L, i);
    if (n > MOON_MAXDIM) luaL_error(L, "%I indices for a %d-d tensor", (LUAI_UACINT)n, t->ndim);
    luaL_checkstack(L, (int)n + 8, "too many indices");
    for (out->n = 0; out->n < (int)n; out->n++) {
        lua_rawgeti(L, i, out->n + 1);
        read_entry(L, t, out->n + 1, &dim, &out->at[out->n]);
    }
}

int moonl_index_get(lua_State *L, const moon_tensor *t, int i) {
    key k;
    moon_draft draft;
    read_key(L, t, i, &k);
    if (moon_index_plan(t, k.n, k.at, &draft)) return moonl_raise(L);
    const moon_tensor *out = moonl_push_alloc(L, &draft, t->storage->device);
    if (moon_index_get(t, k.n, k.at, out)) return moonl_raise(L);
    return 1;
}

/* the tensor or scalar at arg; uint64 elements take strings too */
static void read_value(lua_State *L, int arg, moon_dtype dtype, moon_operand *out) {
    out->tensor = moonl_test(L, arg);
    if (out->tensor == NULL) moonl_check_value(L, arg, dtype, &out->value);
}

void moonl_index_put(lua_State *L, const moon_tensor *t, int i, int arg) {
    key k;
    moon_operand value;
    read_key(L, t, i, &k);
    read_value(L, arg, (moon_dtype)t->dtype, &value);
    if (moon_index_put(t, k.n, k.at, &value)) moonl_raise(L);
}

/* ---- methods ---- */

/*** # Selecting
Methods that take an index tensor or a mask, with torch's meaning; they count from 1, and negative index values count from the end.
An index is a tensor of any integer dtype, or a table of integers. A mask is a bool tensor; `x:gt(0)` makes one. */

/* the integer tensor at arg; a table there is replaced by one */
static const moon_tensor *check_index(lua_State *L, int arg) {
    if (lua_istable(L, arg)) {
        moonl_push_nested(L, arg, MOON_INT64, NULL);
        lua_replace(L, arg);
    }
    const moon_tensor *index = moonl_check(L, arg);
    if (moon_index_check(index)) moonl_arg_raise(L, arg);
    if (index->dtype == MOON_BOOL) luaL_argerror(L, arg, "an index holds integers, this one booleans; x[mask] takes a mask");
    return index;
}

static const moon_tensor *check_mask(lua_State *L, int arg) {
    const moon_tensor *mask = moonl_check(L, arg);
    if (mask->dtype != MOON_BOOL) {
        luaL_argerror(
            L, arg,
            lua_pushfstring(L, "a mask is a bool tensor, this one is %s; mask:ne(0) makes one", moon_dtypes[mask->dtype].name));
    }
    return mask;
}

/* A 0-d tensor is indexed as if it had one dimension of extent 1, as in torch. */
static const moon_tensor *at_least_1d(lua_State *L, const moon_tensor *t, moon_draft *draft) {
    if (t->ndim > 0) return t;
    if (moon_view_unsqueeze(draft, t, 0)) moonl_raise(L);
    draft->t.storage = t->storage; /* borrowed: nothing runs Lua code before the use, or reborrow looks again */
    return &draft->t;
}

static void reborrow(moon_draft *draft, const moon_tensor *view, const moon_tensor *t) {
    if (view == &draft->t) draft->t.storage = t->storage;
}

/*** x:index_select(dim, index) -> tensor
The places of dimension `dim` that the 1-d `index` names, in its order, as a copy. */
static int tensor_index_select(lua_State *L) {
    const moon_tensor *t = moonl_check(L, 1);
    int dim = moonl_dim(L, 2, t->ndim ? t->ndim : 1);
    const moon_tensor *index = check_index(L, 3);
    if (index->ndim > 1)
        return luaL_argerror(L, 3, lua_pushfstring(L, "the index is 1-d, this one has %d dimensions", index->ndim));
    moonl_check(L, 1);
    if (t->ndim == 0 && index->numel != 1) return luaL_argerror(L, 3, "a 0-d tensor has one place only");
    moon_draft one, line, draft;
    const moon_tensor *from = at_least_1d(L, t, &one);
    moon_index at[MOON_MAXDIM];
    for (int d = 0; d < dim; d++) at[d] = (moon_index){.kind = MOON_INDEX_RANGE, .count = from->shape[d], .step = 1};
    /* the dimension stays where the index is 0-d */
    const moon_tensor *places = index;
    if (t->ndim > 0 && index->ndim == 0) places = at_least_1d(L, index, &line);
    if (t->ndim == 0 && index->ndim == 1) {
        if (moon_view_select(&line, index, 0, 0)) return moonl_raise(L);
        line.t.storage = index->storage;
        places = &line.t;
    }
    at[dim] = (moon_index){.kind = MOON_INDEX_TENSOR, .tensor = places};
    if (moon_index_plan(from, dim + 1, at, &draft)) return moonl_raise(L);
    const moon_tensor *out = moonl_push_alloc(L, &draft, t->storage->device);
    reborrow(&one, from, t);
    reborrow(&line, places, index);
    if (moon_index_get(from, dim + 1, at, out)) return moonl_raise(L);
    return 1;
}

/*** x:gather(dim, index) -> tensor
Picks along dimension `dim`: for `dim` 1 of two, `out(i, j)` is `x(index(i, j), j)`. `index` has as many dimensions as `x`, none longer
but `dim`; the result has its shape. */
static int tensor_gather(lua_State *L) {
    const moon_tensor *t = moonl_check(L, 1);
    int dim = moonl_dim(L, 2, t->ndim ? t->ndim : 1);
    const moon_tensor *index = check_index(L, 3);
    moonl_check(L, 1);
    moon_draft one, line, draft, shaped;
    const moon_tensor *from = at_least_1d(L, t, &one), *places = at_least_1d(L, index, &line);
    if (moon_index_gather_plan(from, dim, places, &draft)) return moonl_raise(L);
    if (index->ndim == 0 && moon_draft_contiguous(&draft, (moon_dtype)t->dtype, 0, NULL)) return moonl_raise(L);
    const moon_tensor *out = moonl_push_alloc(L, &draft, t->storage->device);
    reborrow(&one, from, t);
    reborrow(&line, places, index);
    if (moon_index_gather(from, dim, places, at_least_1d(L, out, &shaped))) return moonl_raise(L);
    return 1;
}

/*** x:scatter_(dim, index, source) -> x
The opposite of gather: for `dim` 1 of two, `x(index(i, j), j)` becomes `source(i, j)`. `source` is a value, or a tensor at least as
large as `index`, and is cast. Where an element is named twice, the last one in row-major order stays. */
static int tensor_scatter_(lua_State *L) {
    const moon_tensor *t = moonl_check(L, 1);
    int dim = moonl_dim(L, 2, t->ndim ? t->ndim : 1);
    moon_operand value;
    moon_value scalar;
    luaL_checkany(L, 4);
    check_index(L, 3);
    if (!moonl_test(L, 4) && !moonl_test_value(L, 4, &scalar) && lua_type(L, 4) != LUA_TSTRING) {
        moonl_convert(L, 4, (moon_dtype)t->dtype);
    }
    const moon_tensor *index = moonl_check(L, 3);
    read_value(L, 4, (moon_dtype)t->dtype, &value);
    if (value.tensor) moonl_check(L, 4);
    moonl_check(L, 1);
    moon_draft one, line, wide;
    if (value.tensor) value.tensor = at_least_1d(L, value.tensor, &wide);
    if (moon_index_scatter(at_least_1d(L, t, &one), dim, at_least_1d(L, index, &line), &value)) return moonl_raise(L);
    lua_settop(L, 1);
    return 1;
}

/* a mask over the whole of t, both laid out as views of one shape that borrow their storages */
static const moon_tensor *spread(lua_State *L, const moon_tensor *t, int ndim, const int64_t *shape, moon_draft *draft) {
    if (moon_view_expand(draft, t, ndim, shape)) moonl_raise(L);
    draft->t.storage = t->storage;
    return &draft->t;
}

/*** x:masked_select(mask) -> tensor
The elements where `mask` is true, in row-major order, as a 1-d copy; `x` and `mask` are broadcast. */
static int tensor_masked_select(lua_State *L) {
    const moon_tensor *t = moonl_check(L, 1), *mask = check_mask(L, 2);
    int ndim;
    int64_t shape[MOON_MAXDIM];
    if (moon_broadcast_shape(2, (const moon_tensor *const[]){t, mask}, &ndim, shape)) return moonl_raise(L);
    moon_draft wide, over, draft;
    const moon_tensor *from = spread(L, t, ndim, shape, &wide);
    const moon_index at = {.kind = MOON_INDEX_TENSOR, .tensor = spread(L, mask, ndim, shape, &over)};
    if (moon_index_plan(from, 1, &at, &draft)) return moonl_raise(L);
    const moon_tensor *out = moonl_push_alloc(L, &draft, t->storage->device);
    wide.t.storage = t->storage;
    over.t.storage = mask->storage;
    if (moon_index_get(from, 1, &at, out)) return moonl_raise(L);
    return 1;
}

/*** x:masked_fill_(mask, value) -> x
Writes the value, or the one element of a tensor, wherever `mask`, broadcast to `x`, is true. */
static int tensor_masked_fill_(lua_State *L) {
    const moon_tensor *t = moonl_check(L, 1), *mask = check_mask(L, 2);
    moon_operand value;
    luaL_checkany(L, 3);
    read_value(L, 3, (moon_dtype)t->dtype, &value);
    moon_draft over, one;
    if (value.tensor) {
        if (moonl_check(L, 3)->numel != 1) return luaL_argerror(L, 3, "a value or a tensor of one element expected");
        if (moon_view_reshape(&one, value.tensor, 0, NULL)) return moonl_raise(L);
        one.t.storage = value.tensor->storage;
        value.tensor = &one.t;
    }
    const moon_index at = {.kind = MOON_INDEX_TENSOR, .tensor = spread(L, mask, t->ndim, t->shape, &over)};
    if (moon_index_put(t, 1, &at, &value)) return moonl_raise(L);
    lua_settop(L, 1);
    return 1;
}

/*** x:nonzero() -> tensor
The indices, from 1, of the elements that are not zero: an int64 tensor with a row for each of them, in row-major order, and a column
for each dimension. */
static int tensor_nonzero(lua_State *L) {
    const moon_tensor *t = moonl_check(L, 1);
    moon_draft draft;
    if (moon_nonzero_plan(t, &draft)) return moonl_raise(L);
    const moon_tensor *out = moonl_push_alloc(L, &draft, NULL);
    moonl_open(L, t);
    if (moon_nonzero(t, out)) return moonl_raise(L);
    if (t->storage->device == moon_cpu()) return 1;
    const moon_tensor *there = moonl_push_alloc(L, &draft, t->storage->device);
    if (moon_copy(there, out)) return moonl_raise(L);
    return 1;
}

static const moonl_entry methods_of_selection[] = {
    {"index_select", tensor_index_select},
    {"gather", tensor_gather},
    {"scatter_", tensor_scatter_},
    {"masked_select", tensor_masked_select},
    {"masked_fill_", tensor_masked_fill_},
    {"nonzero", tensor_nonzero},
    {NULL, NULL},
};

void moonl_open_advanced(lua_State *L, int module, int methods, int meta) {
    (void)module;
    (void)meta;
    moonl_register(L, methods, methods_of_selection);
}
