/* Views: new tensors over the same storage. */
#include "binding.h"

/*** # Views
A view shares the memory of `x`: writing through one is seen through the other. Views whose elements overlap (`expand`,
`unfold`) are read-only. */

static int push(lua_State *L, moon_status status, const moon_draft *draft, const moon_tensor *base) {
    if (status) return moonl_raise(L);
    moonl_push_view(L, draft, base);
    return 1;
}

/*** x:narrow(dim, first, length) -> tensor
`length` elements of dimension `dim` from `first` on. */
static int tensor_narrow(lua_State *L) {
    const moon_tensor *t = moonl_check(L, 1);
    int dim = moonl_dim(L, 2, t->ndim);
    int64_t extent = t->shape[dim], length = luaL_checkinteger(L, 4), given = luaL_checkinteger(L, 3);
    int64_t first = given < 0 ? given + extent : given - 1;
    if (first < 0 || first > extent || (first == extent && length != 0)) {
        return luaL_argerror(L, 3, lua_pushfstring(L, "index %I is out of range 1..%I", (LUAI_UACINT)given, (LUAI_UACINT)extent));
    }
    if (length < 0 || length > extent - first) {
        return luaL_argerror(
            L, 4, lua_pushfstring(L, "length %I is out of range 0..%I", (LUAI_UACINT)length, (LUAI_UACINT)(extent - first)));
    }
    moon_tensor *view = moonl_new(L, t->ndim); /* without the detour by a draft: it is what loops call */
    moonl_open(L, t);
    moon_layout_copy(view, t);
    view->shape[dim] = length;
    if (extent > 0) view->numel = t->numel / extent * length;
    if (view->numel > 0) view->offset += first * t->strides[dim] * (int64_t)moon_itemsize(t);
    moon_tensor_share(view, t);
    return 1;
}

/*** x:select(dim, i) -> tensor
The view at index `i` of dimension `dim`, which goes away. Unlike `x[i]` it is a tensor also where it is 0-d. */
static int tensor_select(lua_State *L) {
    const moon_tensor *t = moonl_check(L, 1);
    int dim = moonl_dim(L, 2, t->ndim);
    int64_t i = moonl_index(L, 3, t->shape[dim]);
    moon_draft draft;
    return push(L, moon_view_select(&draft, t, dim, i), &draft, t);
}

/*** x:slice(dim, first, last, [step]) -> tensor
The range from `first` to `last`, both included, of dimension `dim`. A negative `step` walks backwards. */
static int tensor_slice(lua_State *L) {
    const moon_tensor *t = moonl_check(L, 1);
    int dim = moonl_dim(L, 2, t->ndim);
    int64_t first = moonl_index(L, 3, t->shape[dim]), last = moonl_index(L, 4, t->shape[dim]);
    int64_t step = luaL_optinteger(L, 5, 1);
    luaL_argcheck(L, step != 0 && step != INT64_MIN, 5, "step is 0");
    int64_t count = step > 0 ? (last - first) / step + 1 : (first - last) / -step + 1;
    if (step > 0 ? last < first : last > first) count = 0;
    moon_draft draft;
    return push(L, moon_view_slice(&draft, t, dim, first, count, step), &draft, t);
}

/*** x:t() -> tensor
The transpose of a matrix; a 1-d or 0-d tensor as it is. */
static int tensor_t(lua_State *L) {
    const moon_tensor *t = moonl_check(L, 1);
    if (t->ndim > 2) return luaL_error(L, "t() takes at most 2 dimensions, this tensor has %d; use x:transpose(a, b)", t->ndim);
    moon_draft draft;
    int last = t->ndim == 2 ? 1 : 0;
    if (t->ndim == 0) return push(L, moon_view_reshape(&draft, t, 0, NULL), &draft, t);
    return push(L, moon_view_transpose(&draft, t, 0, last), &draft, t);
}

/*** x:transpose(a, b) -> tensor
Dimensions `a` and `b` exchanged. */
static int tensor_transpose(lua_State *L) {
    const moon_tensor *t = moonl_check(L, 1);
    int a = moonl_dim(L, 2, t->ndim), b = moonl_dim(L, 3, t->ndim);
    moon_draft draft;
    return push(L, moon_view_transpose(&draft, t, a, b), &draft, t);
}

/* dimensions as arguments or in a table, at most limit of them; returns how many */
static int check_dims(lua_State *L, int arg, const moon_tensor *t, int *out) {
    int n = 0;
    if (lua_istable(L, arg)) {
        lua_Unsigned length = lua_rawlen(L, arg);
        luaL_argcheck(L, length <= (lua_Unsigned)t->ndim, arg, "more dimensions than the tensor has");
        lua_settop(L, arg);
        luaL_checkstack(L, (int)length, NULL);
        for (; n < (int)length; n++) lua_rawgeti(L, arg, n + 1);
        lua_remove(L, arg);
    } else {
        n = lua_gettop(L) - arg + 1;
        luaL_argcheck(L, n <= t->ndim, arg, "more dimensions than the tensor has");
    }
    for (int i = 0; i < n; i++) out[i] = moonl_dim(L, arg + i, t->ndim);
    return n;
}

/*** x:permute(dims…) -> tensor
The dimensions in another order: every dimension once. */
static int tensor_permute(lua_State *L) {
    const moon_tensor *t = moonl_check(L, 1);
    int order[MOON_MAXDIM];
    int n = check_dims(L, 2, t, order);
    if (n != t->ndim) return luaL_error(L, "permute takes %d dimensions, got %d", t->ndim, n);
    moon_draft draft;
    return push(L, moon_view_permute(&draft, t, order), &draft, t);
}

/*** x:movedim(from, to) -> tensor
Dimension `from` moved to position `to`; the others keep their order. */
static int tensor_movedim(lua_State *L) {
    const moon_tensor *t = moonl_check(L, 1);
    int from = moonl_dim(L, 2, t->ndim), to = moonl_dim(L, 3, t->ndim), order[MOON_MAXDIM];
    for (int i = 0, next = 0; i < t->ndim; i++) {
        if (next == from) next++;
        order[i] = i == to ? from : next++;
    }
    moon_draft draft;
    return push(L, moon_view_permute(&draft, t, order), &draft, t);
}

/* ---- other shapes ---- */

/* the same bytes under another dtype of the same element size */
static int view_as(lua_State *L, const moon_tensor *t, moon_dtype dtype) {
    if (moon_dtypes[dtype].size != moon_itemsize(t)) {
        return luaL_error(L, "a %s tensor has elements of %d bytes, %s of %d: view takes a dtype of the same size",
                          moon_dtypes[t->dtype].name, (int)moon_itemsize(t), moon_dtypes[dtype].name,
                          (int)moon_dtypes[dtype].size);
    }
    moon_draft draft;
    moon_draft_init(&draft, dtype, t->ndim);
    moon_layout_copy(&draft.t, t);
    draft.t.dtype = (uint8_t)dtype;
    return push(L, MOON_OK, &draft, t);
}

/*** x:view(sizes… | dtype) -> tensor
The same elements under another shape; one size may be -1. Raises where only a copy could have that shape (`reshape` copies).
Given a dtype of the same element size, the same bytes read as that dtype. */
static int tensor_view(lua_State *L) {
    const moon_tensor *t = moonl_check(L, 1);
    moon_dtype dtype;
    if (moonl_test_dtype(L, 2, &dtype)) return view_as(L, moonl_check(L, 1), dtype);
    if (lua_type(L, 2) == LUA_TSTRING) moonl_check_dtype(L, 2);
    moonl_sizes sizes;
    moonl_check_sizes(L, 2, -1, &sizes);
    moon_draft draft;
    return push(L, moon_view_reshape(&draft, t, sizes.ndim, sizes.at), &draft, t);
}

static int reshape(lua_State *L, const moon_tensor *t, int ndim, const int64_t *shape) {
    moon_draft draft;
    moon_status status = moon_view_reshape(&draft, t, ndim, shape);
    if (status != MOON_ELAYOUT) return push(L, status, &draft, t);
    t = moonl_push_copy(L, t, (moon_dtype)t->dtype);
    return push(L, moon_view_reshape(&draft, t, ndim, shape), &draft, t);
}

/*** x:reshape(sizes…) -> tensor
The same elements under another shape; one size may be -1. A view where the strides allow it, else a copy. */
static int tensor_reshape(lua_State *L) {
    const moon_tensor *t = moonl_check(L, 1);
    moonl_sizes sizes;
    moonl_check_sizes(L, 2, -1, &sizes);
    return reshape(L, t, sizes.ndim, sizes.at);
}

/*** x:flatten([first], [last]) -> tensor
Dimensions `first` to `last` (all by default) made one. A view where the strides allow it, else a copy. */
static int tensor_flatten(lua_State *L) {
    const moon_tensor *t = moonl_check(L, 1);
    if (t->ndim == 0) return reshape(L, t, 1, &(int64_t){1});
    int first = lua_isnoneornil(L, 2) ? 0 : moonl_dim(L, 2, t->ndim);
    int last = lua_isnoneornil(L, 3) ? t->ndim - 1 : moonl_dim(L, 3, t->ndim);
    luaL_argcheck(L, first <= last, 3, "the last dimension comes before the first");
    int64_t shape[MOON_MAXDIM];
    int n = 0;
    for (int i = 0; i < first; i++) shape[n++] = t->shape[i];
    shape[n] = 1;
    for (int i = first; i <= last; i++) shape[n] *= t->shape[i];
    n++;
    for (int i = last + 1; i < t->ndim; i++) shape[n++] = t->shape[i];
    return reshape(L, t, n, shape);
}

/*** x:squeeze([dim]) -> tensor
Without dimension `dim` if its extent is 1; without every such dimension if none is named. */
static int tensor_squeeze(lua_State *L) {
    const moon_tensor *t = moonl_check(L, 1);
    int dim = lua_isnoneornil(L, 2) ? -1 : moonl_dim(L, 2, t->ndim);
    moon_draft draft;
    return push(L, moon_view_squeeze(&draft, t, dim), &draft, t);
}

/*** x:unsqueeze(dim) -> tensor
With a new dimension of extent 1 at position `dim`, up to `x.ndim + 1`. */
static int tensor_unsqueeze(lua_State *L) {
    const moon_tensor *t = moonl_check(L, 1);
    int dim = moonl_dim(L, 2, t->ndim + 1);
    moon_draft draft;
    return push(L, moon_view_unsqueeze(&draft, t, dim), &draft, t);
}

/*** x:expand(sizes…) -> tensor
Dimensions of extent 1 repeated without copying, new ones in front; -1 keeps an extent. Read-only where anything is repeated. */
static int tensor_expand(lua_State *L) {
    const moon_tensor *t = moonl_check(L, 1);
    moonl_sizes sizes;
    moonl_check_sizes(L, 2, -1, &sizes);
    moon_draft draft;
    return push(L, moon_view_expand(&draft, t, sizes.ndim, sizes.at), &draft, t);
}

/*** moon.broadcast_to(x, sizes…) -> tensor
As `x:expand(sizes…)`. */
static int module_broadcast_to(lua_State *L) { return tensor_expand(L); }

/*** x:flip([dims…]) -> tensor
The named dimensions (all if none is named) in reverse order: a view with negative strides, where torch copies. */
static int tensor_flip(lua_State *L) {
    const moon_tensor *t = moonl_check(L, 1);
    int dims[MOON_MAXDIM];
    int n = check_dims(L, 2, t, dims);
    bool all = n == 0, flip[MOON_MAXDIM] = {false};
    for (int i = 0; i < n; i++) flip[dims[i]] = true;
    moon_draft draft, next;
    moon_draft_init(&draft, (moon_dtype)t->dtype, t->ndim);
    moon_layout_copy(&draft.t, t);
    for (int d = 0; d < t->ndim; d++) {
        if (!all && !flip[d]) continue;
        if (moon_view_flip(&next, &draft.t, d)) return moonl_raise(L);
        moon_layout_copy(&draft.t, &next.t);
    }
    return push(L, MOON_OK, &draft, t);
}

/*** x:diagonal([offset], [a], [b]) -> tensor
The diagonal of dimensions `a` and `b` (1 and 2), `offset` above the main one, as the last dimension. */
static int tensor_diagonal(lua_State *L) {
    const moon_tensor *t = moonl_check(L, 1);
    if (t->ndim < 2) return luaL_error(L, "diagonal takes at least 2 dimensions, this tensor has %d", t->ndim);
    int64_t offset = luaL_optinteger(L, 2, 0);
    int a = lua_isnoneornil(L, 3) ? 0 : moonl_dim(L, 3, t->ndim), b = lua_isnoneornil(L, 4) ? 1 : moonl_dim(L, 4, t->ndim);
    moon_draft draft;
    return push(L, moon_view_diagonal(&draft, t, offset, a, b), &draft, t);
}

/*** x:unfold(dim, size, step) -> tensor
All windows of `size` elements along dimension `dim`, `step` apart; the windows are a new last dimension. Read-only where
they overlap. */
static int tensor_unfold(lua_State *L) {
    const moon_tensor *t = moonl_check(L, 1);
    int dim = moonl_dim(L, 2, t->ndim);
    moon_draft draft;
    return push(L, moon_view_unfold(&draft, t, dim, luaL_checkinteger(L, 3), luaL_checkinteger(L, 4)), &draft, t);
}

/*** x:real() -> tensor
The real parts of a complex tensor, as a view; any other tensor as it is. */
static int tensor_real(lua_State *L) {
    const moon_tensor *t = moonl_check(L, 1);
    if (moon_dtypes[t->dtype].kind != MOON_KIND_COMPLEX) {
        lua_settop(L, 1);
        return 1;
    }
    moon_draft draft;
    return push(L, moon_view_part(&draft, t, 0), &draft, t);
}

/*** x:imag() -> tensor
The imaginary parts of a complex tensor, as a view. */
static int tensor_imag(lua_State *L) {
    const moon_tensor *t = moonl_check(L, 1);
    moon_draft draft;
    return push(L, moon_view_part(&draft, t, 1), &draft, t);
}

/* ---- parts ---- */

/* append the view of count elements from first on to the table at the top */
static void append_part(lua_State *L, const moon_tensor *t, int dim, int64_t first, int64_t count) {
    moon_draft draft;
    if (moon_view_slice(&draft, t, dim, first, count, 1)) moonl_raise(L);
    moonl_push_view(L, &draft, t);
    lua_rawseti(L, -2, (lua_Integer)lua_rawlen(L, -2) + 1);
}

static int split_evenly(lua_State *L, const moon_tensor *t, int dim, int64_t size) {
    int64_t extent = t->shape[dim];
    lua_newtable(L);
    if (extent == 0) append_part(L, t, dim, 0, 0);
    for (int64_t at = 0; at < extent; at += size) append_part(L, t, dim, at, size < extent - at ? size : extent - at);
    return 1;
}

/*** x:split(size | sizes, [dim]) -> table
Views of `size` elements each along dimension `dim` (1), the last one perhaps shorter; or of the sizes in a table. */
static int tensor_split(lua_State *L) {
    const moon_tensor *t = moonl_check(L, 1);
    if (t->ndim == 0) return luaL_error(L, "a 0-d tensor cannot be split");
    int dim = lua_isnoneornil(L, 3) ? 0 : moonl_dim(L, 3, t->ndim);
    if (!lua_istable(L, 2)) {
        int64_t size = luaL_checkinteger(L, 2);
        luaL_argcheck(L, size > 0, 2, "a part has at least one element");
        return split_evenly(L, t, dim, size);
    }
    int64_t at = 0;
    lua_Unsigned n = lua_rawlen(L, 2);
    lua_newtable(L);
    for (lua_Unsigned i = 1; i <= n; i++) {
        lua_rawgeti(L, 2, (lua_Integer)i);
        int64_t size = lua_tointeger(L, -1);
        lua_pop(L, 1);
        if (size < 0 || size > t->shape[dim] - at) break;
        append_part(L, t, dim, at, size);
        at += size;
    }
    if (lua_rawlen(L, -1) != n || at != t->shape[dim]) {
        return luaL_argerror(L, 2, lua_pushfstring(L, "the sizes must add up to %I", (LUAI_UACINT)t->shape[dim]));
    }
    return 1;
}

/*** x:chunk(n, [dim]) -> table
At most `n` views of equal size along dimension `dim` (1), the last one perhaps shorter. */
static int tensor_chunk(lua_State *L) {
    const moon_tensor *t = moonl_check(L, 1);
    if (t->ndim == 0) return luaL_error(L, "a 0-d tensor cannot be split");
    int64_t n = luaL_checkinteger(L, 2);
    luaL_argcheck(L, n > 0, 2, "the number of parts is at least 1");
    int dim = lua_isnoneornil(L, 3) ? 0 : moonl_dim(L, 3, t->ndim);
    int64_t extent = t->shape[dim], size = extent / n + (extent % n != 0);
    return split_evenly(L, t, dim, size ? size : 1);
}

static const moonl_entry methods_of_views[] = {
    {"narrow", tensor_narrow},
    {"select", tensor_select},
    {"slice", tensor_slice},
    {"t", tensor_t},
    {"transpose", tensor_transpose},
    {"permute", tensor_permute},
    {"movedim", tensor_movedim},
    {"view", tensor_view},
    {"reshape", tensor_reshape},
    {"flatten", tensor_flatten},
    {"squeeze", tensor_squeeze},
    {"unsqueeze", tensor_unsqueeze},
    {"expand", tensor_expand},
    {"flip", tensor_flip},
    {"diagonal", tensor_diagonal},
    {"unfold", tensor_unfold},
    {"real", tensor_real},
    {"imag", tensor_imag},
    {"split", tensor_split},
    {"chunk", tensor_chunk},
    {NULL, NULL},
};

static const moonl_entry functions[] = {
    {"broadcast_to", module_broadcast_to}, {"split", tensor_split}, {"chunk", tensor_chunk}, {NULL, NULL}};

void moonl_open_view(lua_State *L, int module, int methods, int meta) {
    (void)meta;
    moonl_register(L, methods, methods_of_views);
    moonl_register(L, module, functions);
}
