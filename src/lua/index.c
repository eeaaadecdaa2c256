/* x[i], x[{…}], x(i, j), x:set and assignment through all of them. */
#include <string.h>
#include "binding.h"

/*** # Indexing
`x[i]` is a view of the first dimension, or a value where `x` is 1-d; `x[#x + 1]` is nil, so that `ipairs` ends; 0 and what
lies beyond raise. `x[{…}]` takes one entry a dimension: an integer selects, `{first, last}` and `{first, last, step}` keep a
range, ends included, `{i}` keeps the one index, `{}` keeps all. With an integer for every dimension it reads the value.
Every form can be assigned to: a number, boolean or complex value fills, a tensor or nested table is broadcast and cast.

A tensor can be an index too, alone (`x[i]`) or as an entry of the table. One of an integer dtype names places, from 1, in its own
shape; a bool tensor is a mask over as many dimensions as it has. They read into a new tensor, never a value or a view. The rules
are NumPy's: all index tensors are broadcast together, a mask counting as the 1-d tensors of its places; their dimensions stand
where the indices do if those are neighbours, integers among them, else in front. A list of indices has to be a tensor,
`x[{moon.tensor {1, 3, 5}, {}}]`, since `{1, 3}` is a range. Where one element is assigned twice, the last value in row-major order
stays; the value may be part of `x`; if any index is out of range, nothing is written. */

/* 0-based, or -1 where x[#x + 1] reads nil */
static int64_t first_index(lua_State *L, const moon_tensor *t, int i) {
    int isint;
    lua_Integer k = lua_tointegerx(L, i, &isint);
    if (!isint) return luaL_error(L, "an index is an integer, got %s", luaL_tolstring(L, i, NULL));
    if (t->ndim == 0) return luaL_error(L, "a 0-d tensor has no index; x:item() reads its value");
    int64_t n = t->shape[0], at = k < 0 ? k + n : k - 1;
    if (at == n && k > 0) return -1;
    if (k == 0) return luaL_error(L, "index 0 is out of range 1..%I; indices count from 1", (LUAI_UACINT)n);
    if (at < 0 || at > n) return luaL_error(L, "index %I is out of range 1..%I", (LUAI_UACINT)k, (LUAI_UACINT)n);
    return at;
}

static int push_row(lua_State *L, const moon_tensor *t, int64_t at) {
    int n = t->ndim - 1;
    moon_tensor *row = moonl_new(L, n);
    moonl_open(L, t);
    row->dtype = t->dtype;
    row->offset = t->offset + at * t->strides[0] * (int64_t)moon_itemsize(t);
    int64_t numel = 1;
    for (int d = 0; d < n; d++) {
        row->shape[d] = t->shape[d + 1];
        row->strides[d] = t->strides[d + 1];
        numel *= row->shape[d];
    }
    row->numel = numel;
    moon_tensor_share(row, t);
    return 1;
}

/* ---- x[{…}] ---- */

static int64_t bad_place(lua_State *L, lua_Integer k, int dim, int64_t extent) {
    return luaL_error(L, "index %I is out of range 1..%I of dimension %d%s", (LUAI_UACINT)k, (LUAI_UACINT)extent, dim + 1,
                      k ? "" : "; indices count from 1");
}

int64_t moonl_place(lua_State *L, int i, int dim, int64_t extent) {
    int isint;
    lua_Integer k = lua_tointegerx(L, i, &isint);
    if (!isint) return luaL_error(L, "an index is an integer, got %s", luaL_tolstring(L, i, NULL));
    int64_t at = k < 0 ? k + extent : k - 1;
    return at < 0 || at >= extent ? bad_place(L, k, dim, extent) : at;
}

/* an integer of a range, or `otherwise` where it has none */
static lua_Integer range_part(lua_State *L, int table, int part, lua_Integer otherwise) {
    int isint, type = lua_rawgeti(L, table, part);
    lua_Integer k = lua_tointegerx(L, -1, &isint);
    if (isint) return k;
    if (type == LUA_TNIL) return otherwise;
    return luaL_error(L, "a range is {first, last} or {first, last, step} of integers, got %s", luaL_typename(L, -1));
}

void moonl_range(lua_State *L, int table, int dim, int64_t extent, int64_t *first, int64_t *count, int64_t *step) {
    lua_Unsigned n = lua_rawlen(L, table);
    *first = 0;
    *count = extent;
    *step = 1;
    if (n == 0) return;
    if (n > 3) {
        luaL_error(L,
                   "a range is {first, last} or {first, last, step}, got %I numbers; a list of indices is a tensor: "
                   "moon.tensor{…}",
                   (LUAI_UACINT)n);
    }
    lua_Integer a = range_part(L, table, 1, 1), b = n > 1 ? range_part(L, table, 2, a) : a;
    if (n > 2) *step = range_part(L, table, 3, 1);
    lua_settop(L, -1 - (int)n);
    int64_t from = a < 0 ? a + extent : a - 1, last = b < 0 ? b + extent : b - 1;
    if (from < 0 || from >= extent) bad_place(L, a, dim, extent);
    if (last < 0 || last >= extent) bad_place(L, b, dim, extent);
    *first = from;
    if (*step == 1) *count = last < from ? 0 : last - from + 1;
    else if (*step > 0) *count = last < from ? 0 : (last - from) / *step + 1;
    else if (*step < 0) *count = last > from ? 0 : (from - last) / (*step == INT64_MIN ? INT64_MAX : -*step) + 1;
    else luaL_error(L, "a range with step 0");
}

/* the range at the top of the stack, for dimension dim of t */
static void take_range(lua_State *L, const moon_tensor *t, int dim, moon_tensor *view) {
    int64_t first, count, step, stride = t->strides[dim];
    moonl_range(L, lua_gettop(L), dim, t->shape[dim], &first, &count, &step);
    view->offset += first * stride * (int64_t)moon_itemsize(t);
    view->shape[view->ndim] = count;
    view->strides[view->ndim++] = count > 1 ? stride * step : stride;
}

/* {} selects everything, and so would {a = 1} */
static void refuse_names(lua_State *L, int i) {
    lua_pushnil(L);
    if (!lua_next(L, i)) return;
    lua_pop(L, 1);
    luaL_error(L, "an index is a sequence, got a table with key '%s'", luaL_tolstring(L, -1, NULL));
}

/* a tensor among the entries: the key selects no view */
static bool has_tensor(lua_State *L, int i, lua_Unsigned n) {
    bool found = false;
    for (lua_Unsigned k = 1; k <= n && k <= MOON_MAXDIM && !found; k++) {
        lua_rawgeti(L, i, (lua_Integer)k);
        found = moonl_test(L, -1) != NULL;
        lua_pop(L, 1);
    }
    return found;
}

typedef enum selection { SELECT_VIEW, SELECT_ELEMENT, SELECT_TENSORS } selection;

/* Lay out in draft what the table at index i selects: a view, one element where it gives an integer for every dimension, or
   nothing where it holds tensors. */
static selection take_table(lua_State *L, const moon_tensor *t, int i, moon_draft *draft) {
    lua_Unsigned n = lua_rawlen(L, i);
    if (n == 0) refuse_names(L, i);
    if (n > (lua_Unsigned)t->ndim && has_tensor(L, i, n)) return SELECT_TENSORS;
    if (n > (lua_Unsigned)t->ndim) {
        luaL_error(L, "%I indices for a %d-d tensor; a range is a table of its own: x[{{1, 3}}]", (LUAI_UACINT)n, t->ndim);
    }
    moon_draft_init(draft, (moon_dtype)t->dtype, t->ndim);
    moon_tensor *view = &draft->t;
    view->ndim = 0;
    view->offset = t->offset;
    view->readonly = t->readonly;
    for (int dim = 0; dim < t->ndim; dim++) {
        int type = (lua_Unsigned)dim < n ? lua_rawgeti(L, i, dim + 1) : (lua_pushnil(L), LUA_TNIL);
        if (type == LUA_TNUMBER) {
            view->offset += moonl_place(L, -1, dim, t->shape[dim]) * t->strides[dim] * (int64_t)moon_itemsize(t);
        } else if (type == LUA_TTABLE) {
            take_range(L, t, dim, view);
        } else if (type == LUA_TNIL && (lua_Unsigned)dim >= n) {
            view->shape[view->ndim] = t->shape[dim];
            view->strides[view->ndim++] = t->strides[dim];
        } else if (moonl_test(L, -1)) {
            lua_pop(L, 1);
            return SELECT_TENSORS;
        } else {
            luaL_error(L, "entry %d of an index is an integer, a range or a tensor, got %s", dim + 1, luaL_typename(L, -1));
        }
        lua_pop(L, 1);
    }
    view->numel = 1;
    for (int d = 0; d < view->ndim; d++) view->numel *= view->shape[d];
    return n == (lua_Unsigned)t->ndim && view->ndim == 0 ? SELECT_ELEMENT : SELECT_VIEW;
}

static int bad_key(lua_State *L) {
    const char *hint = lua_type(L, 2) == LUA_TUSERDATA ? "; moon.from makes a tensor of an array" : "";
    return luaL_error(L, "a tensor is indexed by an integer, a table or a tensor, got %s%s", luaL_typename(L, 2), hint);
}

/* ---- fields ---- */

enum { FIELD_SHAPE = 1, FIELD_NDIM, FIELD_DTYPE, FIELD_DEVICE, FIELD_READONLY };

/* upvalues: metatable, methods, fields */
static int by_name(lua_State *L) {
    lua_pushvalue(L, 2);
    if (lua_rawget(L, lua_upvalueindex(2)) != LUA_TNIL) return 1;
    lua_pushvalue(L, 2);
    if (lua_rawget(L, lua_upvalueindex(3)) == LUA_TNIL) return 1;
    moon_tensor *t = moonl_check(L, 1);
    switch (lua_tointeger(L, -1)) {
    case FIELD_SHAPE: moonl_push_shape(L, t->ndim, t->shape); break;
    case FIELD_NDIM: lua_pushinteger(L, t->ndim); break;
    case FIELD_DTYPE: lua_pushstring(L, moon_dtypes[t->dtype].name); break;
    case FIELD_DEVICE: lua_pushstring(L, t->storage->device->name); break;
    default: lua_pushboolean(L, t->readonly || t->storage->readonly); break;
    }
    return 1;
}

/* the commonest dtypes without a detour */
static int push_at(lua_State *L, const moon_tensor *t, int64_t offset) {
    const char *data = moon_data(t);
    if (data && t->dtype == MOON_FLOAT32) {
        float value;
        memcpy(&value, data + offset, sizeof value);
        lua_pushnumber(L, (lua_Number)value);
    } else {
        moonl_push_at(L, t, offset);
    }
    return 1;
}

static int tensor_index(lua_State *L) {
    switch (lua_type(L, 2)) {
    case LUA_TNUMBER: {
        const moon_tensor *t = moonl_check(L, 1);
        int64_t at = first_index(L, t, 2);
        if (at >= 0 && t->ndim == 1) return push_at(L, t, at * t->strides[0] * (int64_t)moon_itemsize(t));
        if (at >= 0) return push_row(L, t, at);
        lua_pushnil(L);
        return 1;
    }
    case LUA_TSTRING: return by_name(L);
    case LUA_TTABLE: {
        const moon_tensor *t = moonl_check(L, 1);
        moon_draft draft;
        switch (take_table(L, t, 2, &draft)) {
        case SELECT_ELEMENT: return push_at(L, t, draft.t.offset - t->offset);
        case SELECT_VIEW: moonl_push_view(L, &draft, t); return 1;
        default: return moonl_index_get(L, t, 2);
        }
    }
    default: return moonl_test(L, 2) ? moonl_index_get(L, moonl_check(L, 1), 2) : bad_key(L);
    }
}

/* ---- assignment ---- */

void moonl_convert(lua_State *L, int arg, moon_dtype dtype) {
    if (lua_istable(L, arg)) {
        moonl_push_nested(L, arg, (int)dtype, NULL);
    } else {
        lua_rawgetp(L, LUA_REGISTRYINDEX, &moonl_key_module);
        lua_getfield(L, -1, "from");
        lua_remove(L, -2);
        lua_pushvalue(L, arg);
        lua_call(L, 1, 1);
    }
    lua_replace(L, arg);
    if (moonl_test(L, arg) == NULL) luaL_typeerror(L, arg, "tensor");
}

/* scalars and tensors stay as they are */
static void prepare(lua_State *L, int arg, moon_dtype dtype) {
    moon_value value;
    if (moonl_test(L, arg) || moonl_test_value(L, arg, &value)) return;
    if (lua_isnoneornil(L, arg)) luaL_error(L, "nil cannot be assigned to an element");
    if (lua_type(L, arg) == LUA_TSTRING) {
        if (dtype == MOON_UINT64) return;
        luaL_error(L, "a string cannot be assigned to %s elements", moon_dtypes[dtype].name);
    }
    moonl_convert(L, arg, dtype);
}

void moonl_assign(lua_State *L, const moon_tensor *target, int arg) {
    const moon_tensor *source = moonl_test(L, arg);
    if (source) {
        moonl_open(L, source);
        if (moon_copy(target, source)) moonl_raise(L);
        return;
    }
    moon_value value;
    moonl_check_value(L, arg, (moon_dtype)target->dtype, &value);
    if (moon_fill(target, &value)) moonl_raise(L);
}

/* assign the value at arg to what the draft, laid out over t, selects; nothing here runs Lua code, so the draft may borrow
   the storage */
static void assign_draft(lua_State *L, moon_draft *draft, const moon_tensor *t, int arg) {
    draft->t.storage = t->storage;
    draft->t.readonly = t->readonly;
    moonl_assign(L, &draft->t, arg);
}

static int tensor_newindex(lua_State *L) {
    const moon_tensor *t = moonl_check(L, 1);
    int type = lua_type(L, 2);
    if (type == LUA_TSTRING) return luaL_error(L, "a tensor has no field '%s' to set", lua_tostring(L, 2));
    bool tensor = type == LUA_TUSERDATA && moonl_test(L, 2);
    if (type != LUA_TNUMBER && type != LUA_TTABLE && !tensor) return bad_key(L);
    moon_value value;
    if (type == LUA_TNUMBER && t->ndim == 1 && moonl_test_value(L, 3, &value)) {
        int64_t at = first_index(L, t, 2);
        if (at < 0)
            return luaL_error(L, "index %I is out of range 1..%I", (LUAI_UACINT)t->shape[0] + 1, (LUAI_UACINT)t->shape[0]);
        moonl_write_at(L, t, at * t->strides[0] * (int64_t)moon_itemsize(t), &value, 0);
        return 0;
    }
    prepare(L, 3, (moon_dtype)t->dtype);
    moonl_open(L, t);
    moon_draft draft;
    if (tensor || (type == LUA_TTABLE && take_table(L, t, 2, &draft) == SELECT_TENSORS)) {
        moonl_index_put(L, t, 2, 3);
        return 0;
    }
    if (type == LUA_TNUMBER) {
        int64_t at = first_index(L, t, 2);
        if (at < 0)
            return luaL_error(L, "index %I is out of range 1..%I", (LUAI_UACINT)t->shape[0] + 1, (LUAI_UACINT)t->shape[0]);
        if (moon_view_select(&draft, t, 0, at)) return moonl_raise(L);
    }
    assign_draft(L, &draft, t, 3);
    return 0;
}

/* ---- x(i, j), x:set(i, j, v) ---- */

/* the byte offset of the element with t's ndim indices from stack index first on */
static int64_t element_offset(lua_State *L, const moon_tensor *t, int first, int given) {
    if (given == 2 && lua_isnil(L, first) && lua_isnil(L, first + 1)) { /* for v in x do */
        return luaL_error(L, "a loop over a tensor is for i, v in ipairs(x) do");
    }
    if (given != t->ndim) return luaL_error(L, "%d indices for a %d-d tensor", given, t->ndim);
    int64_t offset = 0;
    for (int d = 0; d < given; d++) {
        int isint;
        int64_t k = lua_tointegerx(L, first + d, &isint), at = k < 0 ? k + t->shape[d] : k - 1;
        if (!isint || at < 0 || at >= t->shape[d]) at = moonl_index(L, first + d, t->shape[d]); /* raises */
        offset += at * t->strides[d];
    }
    return offset * (int64_t)moon_itemsize(t);
}

/*** x(i, j, …) -> value
Reads one element: an integer for every dimension. */
static int tensor_call(lua_State *L) {
    const moon_tensor *t = moonl_check(L, 1);
    return push_at(L, t, element_offset(L, t, 2, lua_gettop(L) - 1));
}

/*** x:set(i, j, …, value) -> x
Writes one element: an integer for every dimension, then the value. */
static int tensor_set(lua_State *L) {
    const moon_tensor *t = moonl_check(L, 1);
    int top = lua_gettop(L);
    if (top < 2) return luaL_error(L, "x:set takes %d indices and a value", t->ndim);
    int64_t offset = element_offset(L, t, 2, top - 2);
    moon_value value;
    moonl_check_value(L, top, (moon_dtype)t->dtype, &value);
    moonl_write_at(L, t, offset, &value, top);
    lua_settop(L, 1);
    return 1;
}

/*** x:item() -> value
The value of a tensor with exactly one element. */
static int tensor_item(lua_State *L) {
    const moon_tensor *t = moonl_check(L, 1);
    if (t->numel != 1) {
        char text[256];
        return luaL_error(L, "item() takes a tensor with one element, this one has shape %s",
                          moon_shape_text(t->ndim, t->shape, text, sizeof text));
    }
    moonl_push_at(L, t, 0);
    return 1;
}

/*** x:tostring([i, j, …]) -> string
The text of one element, exact: uint64 above 2^63-1, which no Lua integer can hold, too. A 0-d tensor needs no indices; without
them any other tensor gives `tostring(x)`. */
static int tensor_text(lua_State *L) {
    const moon_tensor *t = moonl_check(L, 1);
    int given = lua_gettop(L) - 1;
    if (given == 0 && t->ndim > 0) {
        luaL_tolstring(L, 1, NULL);
        return 1;
    }
    int64_t offset = element_offset(L, t, 2, given);
    char element[16], text[128];
    const char *p = moon_data(t);
    if (p == NULL) {
        if (t->storage->device->backend->download(element, t->storage, (size_t)(t->offset + offset), moon_itemsize(t))) {
            return moonl_raise(L);
        }
        p = element;
        offset = 0;
    }
    moon_format_element((moon_dtype)t->dtype, p + offset, text, sizeof text);
    lua_pushstring(L, text);
    return 1;
}

static const moonl_entry methods_of_elements[] = {
    {"set", tensor_set}, {"item", tensor_item}, {"tostring", tensor_text}, {NULL, NULL}};

static int tensor_pairs(lua_State *L) {
    luaL_where(L, 2); /* level 1 is pairs */
    lua_pushliteral(L, "a loop over a tensor is for i, v in ipairs(x) do");
    lua_concat(L, 2);
    return lua_error(L);
}

static const moonl_entry metamethods[] = {
    {"__newindex", tensor_newindex}, {"__call", tensor_call}, {"__pairs", tensor_pairs}, {NULL, NULL}};

void moonl_open_index(lua_State *L, int module, int methods, int meta) {
    static const char *const fields[] = {"shape", "ndim", "dtype", "device", "readonly"};
    (void)module;
    moonl_register(L, methods, methods_of_elements);
    moonl_register(L, meta, metamethods);
    lua_pushvalue(L, meta);
    lua_pushvalue(L, methods);
    lua_createtable(L, 0, 5);
    for (int i = 0; i < 5; i++) {
        lua_pushinteger(L, i + 1);
        lua_setfield(L, -2, fields[i]);
    }
    lua_pushcclosure(L, tensor_index, 3);
    lua_setfield(L, meta, "__index");
}
