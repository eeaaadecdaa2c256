/* Copies, casts, filling and comparing. */
#include <string.h>
#include "binding.h"

/*** # Copies and filling */

/*** x:clone() -> tensor
A contiguous copy with memory of its own. */
static int tensor_clone(lua_State *L) {
    const moon_tensor *t = moonl_check(L, 1);
    moonl_push_copy(L, t, (moon_dtype)t->dtype);
    return 1;
}

/*** x:contiguous() -> tensor
`x` itself if it is contiguous, else a contiguous copy. */
static int tensor_contiguous(lua_State *L) {
    const moon_tensor *t = moonl_check(L, 1);
    if (!moon_is_contiguous(t)) return tensor_clone(L);
    lua_settop(L, 1);
    return 1;
}

/*** x:astype(dtype) -> tensor
A copy in another dtype, as NumPy casts: towards zero for floats to integers, modulo 2^n between integers, to the nearest float
with ties to even, in one rounding. Any non-zero value is true, NaN too; complex to real drops the imaginary part. What C leaves
undefined between floats and integers is what NumPy and torch give on x86-64, on every machine:

| to | NaN, or below the range | above the range |
|---|---|---|
| int32, int64 | the lowest number | the lowest number |
| int8, int16, uint8, uint16 | the low bits of its int32 | the low bits of its int32 |
| uint32, uint64 | the bits of the signed dtype of that size: -1 gives the largest number, NaN the middle | 0 |

To float8_e4m3fn, which has no infinities, what is too large becomes NaN. */
static int tensor_astype(lua_State *L) {
    moonl_check(L, 1);
    moon_dtype dtype = moonl_check_dtype(L, 2);
    moonl_push_copy(L, moonl_check(L, 1), dtype);
    return 1;
}

/*** x:to(device | dtype, [dtype]) -> tensor
`x` itself if it is on that device and of that dtype already, else a copy that is. */
static int tensor_to(lua_State *L) {
    const moon_tensor *t = moonl_check(L, 1);
    moon_dtype dtype = (moon_dtype)t->dtype;
    moon_device *device = t->storage->device;
    luaL_checkany(L, 2);
    if (lua_istable(L, 2)) {
        moonl_options options;
        moonl_check_options(L, 2, &options);
        if (options.dtype >= 0) dtype = (moon_dtype)options.dtype;
        if (options.device) device = options.device;
    } else if (!moonl_test_dtype(L, 2, &dtype)) {
        device = moonl_check_device(L, 2);
        if (!lua_isnoneornil(L, 3)) dtype = moonl_check_dtype(L, 3);
    }
    moonl_check(L, 1);
    if (dtype == t->dtype && device == t->storage->device) {
        lua_settop(L, 1);
        return 1;
    }
    moon_tensor *copy = moonl_push_contiguous(L, dtype, t->ndim, t->shape, device);
    moonl_open(L, t);
    if (moon_copy(copy, t)) return moonl_raise(L);
    return 1;
}

/*** x:tobytes() -> string
The bytes of the elements in row-major order, as a string. The inverse of `moon.from_string`. */
static int tensor_tobytes(lua_State *L) {
    const moon_tensor *t = moonl_check(L, 1);
    if (t->numel == 0) {
        lua_pushliteral(L, "");
        return 1;
    }
    if (!moon_is_contiguous(t) || moon_data(t) == NULL) {
        moon_tensor *copy = moonl_push_contiguous(L, (moon_dtype)t->dtype, t->ndim, t->shape, NULL);
        moonl_open(L, t);
        if (moon_copy(copy, t)) return moonl_raise(L);
        t = copy;
    }
    lua_pushlstring(L, moon_data(t), (size_t)t->numel * moon_itemsize(t));
    return 1;
}

/*** x:copy_(source) -> x
Writes the elements of `source`, broadcast and cast, into `x`. `source` is a tensor, nested tables, a value, or a torch or
NumPy object. */
static int tensor_copy_(lua_State *L) {
    const moon_tensor *t = moonl_check(L, 1);
    moon_value value;
    luaL_checkany(L, 2);
    if (!moonl_test(L, 2) && !moonl_test_value(L, 2, &value)) moonl_convert(L, 2, (moon_dtype)t->dtype);
    moonl_assign(L, moonl_check(L, 1), 2);
    lua_settop(L, 1);
    return 1;
}

/*** x:fill_(value) -> x
Writes the value, or the one element of a tensor, into every element. */
static int tensor_fill_(lua_State *L) {
    const moon_tensor *t = moonl_check(L, 1), *source = moonl_test(L, 2);
    if (source && source->storage && source->numel != 1)
        return luaL_argerror(L, 2, "a value or a tensor of one element expected");
    moonl_assign(L, t, 2);
    lua_settop(L, 1);
    return 1;
}

/*** x:zero_() -> x
Writes zeros. */
static int tensor_zero_(lua_State *L) {
    if (moon_fill(moonl_check(L, 1), &(moon_value){.kind = MOON_VALUE_INT, .as.i = 0})) return moonl_raise(L);
    lua_settop(L, 1);
    return 1;
}

/*** # Comparing */

/*** moon.equal(a, b) -> boolean
Whether shape, dtype and all elements are the same. NaN differs from NaN. */
static int module_equal(lua_State *L) {
    bool same;
    if (moon_equal(moonl_check(L, 1), moonl_check(L, 2), &same)) return moonl_raise(L);
    lua_pushboolean(L, same);
    return 1;
}

/*** moon.allclose(a, b, [{rtol=, atol=, equal_nan=}]) -> boolean
Whether `|a - b| <= atol + rtol * |b|` for every pair of elements, broadcast. `rtol` is 1e-5, `atol` 1e-8. */
static int module_allclose(lua_State *L) {
    static const char *const names[] = {"rtol", "atol", "equal_nan", NULL};
    double rtol = 1e-5, atol = 1e-8;
    bool equal_nan = false, close;
    const moon_tensor *a = moonl_check(L, 1), *b = moonl_check(L, 2);
    if (!lua_isnoneornil(L, 3)) {
        luaL_checktype(L, 3, LUA_TTABLE);
        moonl_known_options(L, 3, names);
        if (lua_getfield(L, 3, "rtol") != LUA_TNIL) rtol = luaL_checknumber(L, -1);
        if (lua_getfield(L, 3, "atol") != LUA_TNIL) atol = luaL_checknumber(L, -1);
        equal_nan = moonl_field_bool(L, 3, "equal_nan", false);
    }
    if (moon_allclose(a, b, rtol, atol, equal_nan, &close)) return moonl_raise(L);
    lua_pushboolean(L, close);
    return 1;
}

static const moonl_entry methods_of_copies[] = {
    {"clone", tensor_clone}, {"contiguous", tensor_contiguous}, {"astype", tensor_astype},
    {"to", tensor_to},       {"tobytes", tensor_tobytes},       {"copy_", tensor_copy_},
    {"fill_", tensor_fill_}, {"zero_", tensor_zero_},           {NULL, NULL},
};

static const moonl_entry functions[] = {{"equal", module_equal}, {"allclose", module_allclose}, {NULL, NULL}};

void moonl_open_copy(lua_State *L, int module, int methods, int meta) {
    (void)meta;
    moonl_register(L, methods, methods_of_copies);
    moonl_register(L, module, functions);
}
