/* Creation: moon.tensor, zeros, arange and their kin. */
#include <math.h>
#include <string.h>
#include "binding.h"

/*** # Creating tensors
Sizes are `2, 3` or `{2, 3}`. A dtype name, or an options table with `dtype=`, `device=` and `readonly=`, may follow. `dtype=`
also takes torch's and NumPy's dtype objects. The defaults: Lua integers make int64, floats float32, booleans bool. */

static moon_dtype dtype_or(const moonl_options *options, moon_dtype otherwise) {
    return options->dtype >= 0 ? (moon_dtype)options->dtype : otherwise;
}

static int finish(moon_tensor *t, const moonl_options *options) {
    if (options->readonly == 1) t->readonly = 1;
    return 1;
}

static void fill(lua_State *L, const moon_tensor *t, const moon_value *value) {
    if (moon_fill(t, value)) moonl_raise(L);
}

/*** moon.tensor(value, [dtype | {dtype=, device=, readonly=}]) -> tensor
A new tensor from a number, boolean, complex value, nested tables, or a copy of another tensor. Rows must have one length;
holes raise. */
static int module_tensor(lua_State *L) {
    moonl_options options;
    luaL_checkany(L, 1);
    if (lua_istable(L, 1)) moonl_not_module(L);
    moonl_check_options(L, 2, &options);
    const moon_tensor *source = moonl_test(L, 1);
    moon_tensor *t;
    if (source) {
        moonl_open(L, source);
        moon_dtype dtype = dtype_or(&options, (moon_dtype)source->dtype);
        moon_device *device = options.device ? options.device : source->storage->device;
        t = moonl_push_contiguous(L, dtype, source->ndim, source->shape, device);
        moonl_open(L, source);
        if (moon_copy(t, source)) return moonl_raise(L);
    } else {
        t = moonl_push_nested(L, 1, options.dtype, options.device);
    }
    return finish(t, &options);
}

/* sizes and options from arg on, into a new tensor whose bytes are undefined */
static moon_tensor *push_sized(lua_State *L, int arg, moon_dtype otherwise, moonl_options *options) {
    moonl_sizes sizes;
    arg = moonl_check_sizes(L, arg, 0, &sizes);
    moonl_check_options(L, arg, options);
    return moonl_push_contiguous(L, dtype_or(options, otherwise), sizes.ndim, sizes.at, options->device);
}

static int filled(lua_State *L, int64_t with) {
    moonl_options options;
    moon_tensor *t = push_sized(L, 1, MOON_FLOAT32, &options);
    fill(L, t, &(moon_value){.kind = MOON_VALUE_INT, .as.i = with});
    return finish(t, &options);
}

/*** moon.zeros(sizes…, [options]) -> tensor
Zeros; float32 unless a dtype is given. */
static int module_zeros(lua_State *L) { return filled(L, 0); }

/*** moon.ones(sizes…, [options]) -> tensor
Ones; float32 unless a dtype is given. */
static int module_ones(lua_State *L) { return filled(L, 1); }

/*** moon.empty(sizes…, [options]) -> tensor
A tensor whose elements are whatever the memory held. */
static int module_empty(lua_State *L) {
    moonl_options options;
    return finish(push_sized(L, 1, MOON_FLOAT32, &options), &options);
}

/*** moon.full(sizes, value, [options]) -> tensor
A tensor of the value, in the value's own dtype unless one is given. `sizes` is a table or one integer. */
static int module_full(lua_State *L) {
    moonl_sizes sizes = {.ndim = 1};
    moonl_options options;
    if (lua_istable(L, 1)) moonl_check_sizes(L, 1, 0, &sizes);
    else if ((sizes.at[0] = luaL_checkinteger(L, 1)) < 0) luaL_argerror(L, 1, "a size is negative");
    moonl_check_options(L, 3, &options);
    moon_value value;
    moonl_check_value(L, 2, options.dtype >= 0 ? (moon_dtype)options.dtype : MOON_COMPLEX128, &value);
    moon_dtype dtype = dtype_or(&options, moon_value_dtype(&value));
    moon_tensor *t = moonl_push_contiguous(L, dtype, sizes.ndim, sizes.at, options.device);
    if (moon_fill(t, &value)) return moonl_arg_raise(L, 2);
    return finish(t, &options);
}

/* ---- like another ---- */

static moon_tensor *push_like(lua_State *L, int arg, moonl_options *options) {
    moonl_check_options(L, arg, options);
    const moon_tensor *like = moonl_check(L, 1);
    moon_device *device = options->device ? options->device : like->storage->device;
    return moonl_push_contiguous(L, dtype_or(options, (moon_dtype)like->dtype), like->ndim, like->shape, device);
}

/*** moon.empty_like(x, [options]) -> tensor
As `empty`, with the shape, dtype and device of `x`. */
static int module_empty_like(lua_State *L) {
    moonl_options options;
    return finish(push_like(L, 2, &options), &options);
}

static int filled_like(lua_State *L, int64_t with) {
    moonl_options options;
    moon_tensor *t = push_like(L, 2, &options);
    fill(L, t, &(moon_value){.kind = MOON_VALUE_INT, .as.i = with});
    return finish(t, &options);
}

/*** moon.zeros_like(x, [options]) -> tensor
As `zeros`, with the shape, dtype and device of `x`. */
static int module_zeros_like(lua_State *L) { return filled_like(L, 0); }

/*** moon.ones_like(x, [options]) -> tensor
As `ones`, with the shape, dtype and device of `x`. */
static int module_ones_like(lua_State *L) { return filled_like(L, 1); }

/*** moon.full_like(x, value, [options]) -> tensor
As `full`, with the shape, dtype and device of `x`. */
static int module_full_like(lua_State *L) {
    moonl_options options;
    moon_value value;
    moonl_check_options(L, 3, &options);
    moonl_check_value(L, 2, dtype_or(&options, (moon_dtype)moonl_check(L, 1)->dtype), &value);
    moon_tensor *t = push_like(L, 3, &options);
    if (moon_fill(t, &value)) return moonl_arg_raise(L, 2);
    return finish(t, &options);
}

/* ---- sequences ---- */

/* leading numbers, at most 3 */
static int count_numbers(lua_State *L) {
    int n = 0;
    while (n < 3 && lua_type(L, n + 1) == LUA_TNUMBER) n++;
    return n;
}

static int64_t arange_count_int(lua_State *L, int64_t first, int64_t last, int64_t step) {
    if (step == 0) luaL_argerror(L, 3, "step is 0");
    if (step > 0 ? last <= first : last >= first) return 0;
    uint64_t span = step > 0 ? (uint64_t)last - (uint64_t)first : (uint64_t)first - (uint64_t)last;
    uint64_t width = step > 0 ? (uint64_t)step : 0 - (uint64_t)step;
    uint64_t count = (span - 1) / width + 1;
    if (count > INT64_MAX) luaL_error(L, "arange of more than 2^63-1 elements");
    return (int64_t)count;
}

/*** moon.arange([first,] last, [step], [options]) -> tensor
`first`, `first + step`, … up to but without `last`, as in torch: `arange(n)` is 0..n-1. int64 from integers, else float32. */
static int module_arange(lua_State *L) {
    moonl_options options;
    int n = count_numbers(L);
    if (lua_istable(L, 1)) moonl_not_module(L);
    if (n == 0) return luaL_typeerror(L, 1, "number");
    moonl_check_options(L, n + 1, &options);
    int first = n == 1 ? 0 : 1, last = n == 1 ? 1 : 2;
    bool integers = true;
    for (int i = 1; i <= n; i++) integers = integers && lua_isinteger(L, i);
    if (integers) {
        int64_t a = first ? lua_tointeger(L, first) : 0, step = n == 3 ? lua_tointeger(L, 3) : 1;
        int64_t count = arange_count_int(L, a, lua_tointeger(L, last), step);
        moon_tensor *t = moonl_push_contiguous(L, dtype_or(&options, MOON_INT64), 1, &count, options.device);
        if (moon_arange_int(t, a, step)) return moonl_raise(L);
        return finish(t, &options);
    }
    double a = first ? lua_tonumber(L, first) : 0, step = n == 3 ? lua_tonumber(L, 3) : 1;
    double steps = ceil((lua_tonumber(L, last) - a) / step);
    if (step == 0) return luaL_argerror(L, 3, "step is 0");
    if (!(steps < 9e18)) return luaL_error(L, "arange of %f elements", steps);
    int64_t count = steps > 0 ? (int64_t)steps : 0;
    moon_tensor *t = moonl_push_contiguous(L, dtype_or(&options, MOON_FLOAT32), 1, &count, options.device);
    if (moon_arange(t, a, step)) return moonl_raise(L);
    return finish(t, &options);
}

/*** moon.linspace(first, last, n, [options]) -> tensor
`n` numbers from `first` to `last`, both included, evenly spaced; float32 unless a dtype is given. */
static int module_linspace(lua_State *L) {
    moonl_options options;
    if (lua_istable(L, 1)) moonl_not_module(L);
    double first = luaL_checknumber(L, 1), last = luaL_checknumber(L, 2);
    int64_t n = luaL_checkinteger(L, 3);
    luaL_argcheck(L, n >= 0, 3, "the number of points is negative");
    moonl_check_options(L, 4, &options);
    moon_tensor *t = moonl_push_contiguous(L, dtype_or(&options, MOON_FLOAT32), 1, &n, options.device);
    if (moon_linspace(t, first, last)) return moonl_raise(L);
    return finish(t, &options);
}

/*** moon.eye(n, [m], [options]) -> tensor
An n × m matrix (n × n by default) with ones on the diagonal; float32 unless a dtype is given. */
static int module_eye(lua_State *L) {
    moonl_options options;
    int64_t shape[2];
    shape[0] = luaL_checkinteger(L, 1);
    int next = lua_type(L, 2) == LUA_TNUMBER ? 3 : 2;
    shape[1] = next == 3 ? luaL_checkinteger(L, 2) : shape[0];
    luaL_argcheck(L, shape[0] >= 0, 1, "a size is negative");
    luaL_argcheck(L, shape[1] >= 0, 2, "a size is negative");
    moonl_check_options(L, next, &options);
    moon_tensor *t = moonl_push_contiguous(L, dtype_or(&options, MOON_FLOAT32), 2, shape, options.device);
    fill(L, t, &(moon_value){.kind = MOON_VALUE_INT, .as.i = 0});
    moon_draft diagonal;
    if (moon_view_diagonal(&diagonal, t, 0, 0, 1)) return moonl_raise(L);
    diagonal.t.storage = t->storage;
    fill(L, &diagonal.t, &(moon_value){.kind = MOON_VALUE_INT, .as.i = 1});
    return finish(t, &options);
}

/* is the last argument, a table, one of options and not of sizes? */
static bool has_option(lua_State *L) {
    lua_pushnil(L);
    if (!lua_next(L, -2)) return false;
    bool text = lua_type(L, -2) == LUA_TSTRING;
    lua_pop(L, 2);
    return text;
}

/*** moon.from_string(bytes, dtype, [sizes…], [{copy=}]) -> tensor
A tensor of the bytes of a string; 1-d unless sizes are given. The bytes are copied; with `copy = false` the tensor is read-only
and over the string itself, which it keeps. The inverse of `x:tobytes()`. */
static int module_from_string(lua_State *L) {
    static const char *const names[] = {"copy", NULL};
    size_t n;
    bool copy = true;
    if (lua_istable(L, -1) && lua_gettop(L) > 2 && has_option(L)) {
        moonl_known_options(L, lua_gettop(L), names);
        copy = moonl_field_bool(L, lua_gettop(L), "copy", true);
        lua_pop(L, 1);
    }
    const char *bytes = luaL_checklstring(L, 1, &n);
    moon_dtype dtype = moonl_check_dtype(L, 2);
    size_t size = moon_dtypes[dtype].size;
    moonl_sizes sizes;
    if (lua_isnoneornil(L, 3)) {
        if (n % size) {
            return luaL_argerror(
                L, 1, lua_pushfstring(L, "%I bytes are no whole number of %s elements", (LUAI_UACINT)n, moon_dtypes[dtype].name));
        }
        sizes.ndim = 1;
        sizes.at[0] = (int64_t)(n / size);
    } else {
        moonl_check_sizes(L, 3, 0, &sizes);
    }
    moon_draft draft;
    if (moon_draft_contiguous(&draft, dtype, sizes.ndim, sizes.at)) return moonl_raise(L);
    if ((size_t)draft.t.numel * size != n) {
        return luaL_argerror(
            L, 1,
            lua_pushfstring(L, "%I bytes given, the sizes take %I", (LUAI_UACINT)n, (LUAI_UACINT)((size_t)draft.t.numel * size)));
    }
    if (!copy && n > 0) return moonl_push_pinned(L, bytes, dtype, &sizes, true, 1);
    moon_tensor *t = moonl_push_alloc(L, &draft, moon_cpu());
    if (n) memcpy(moon_data(t), bytes, n);
    if (!copy) t->readonly = 1;
    return 1;
}

static const moonl_entry functions[] = {
    {"tensor", module_tensor},
    {"zeros", module_zeros},
    {"ones", module_ones},
    {"empty", module_empty},
    {"full", module_full},
    {"zeros_like", module_zeros_like},
    {"ones_like", module_ones_like},
    {"empty_like", module_empty_like},
    {"full_like", module_full_like},
    {"arange", module_arange},
    {"linspace", module_linspace},
    {"eye", module_eye},
    {"from_string", module_from_string},
    {NULL, NULL},
};

void moonl_open_create(lua_State *L, int module, int methods, int meta) {
    (void)methods;
    (void)meta;
    moonl_register(L, module, functions);
}
