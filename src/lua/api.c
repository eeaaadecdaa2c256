/* The table behind include/moontensor.h. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include "binding.h"

static const char *api_dtype_name(moon_dtype dtype) {
    return (unsigned)dtype < MOON_DTYPE_COUNT ? moon_dtypes[dtype].name : NULL;
}

static size_t api_dtype_size(moon_dtype dtype) { return (unsigned)dtype < MOON_DTYPE_COUNT ? moon_dtypes[dtype].size : 0; }

static moon_dl_dtype api_dtype_to_dl(moon_dtype dtype) { return moon_dtypes[dtype].dl; }

/* The caller is a foreign function: its upvalues are its own, the metatable comes from the registry. */
static moon_tensor *api_test(lua_State *L, int i) {
    moon_tensor *t = moonl_marked(L, i);
    if (t) return t;
    if (lua_type(L, i) != LUA_TUSERDATA || !lua_getmetatable(L, i)) return NULL;
    lua_rawgetp(L, LUA_REGISTRYINDEX, &moonl_key_meta);
    int same = lua_rawequal(L, -1, -2);
    lua_pop(L, 2);
    return same ? (moon_tensor *)lua_touserdata(L, i) : NULL;
}

static moon_tensor *api_check(lua_State *L, int arg) {
    moon_tensor *t = api_test(L, arg);
    if (t == NULL) luaL_typeerror(L, arg, "tensor");
    else if (t->storage == NULL) luaL_error(L, "tensor is closed");
    return t;
}

static moon_tensor *api_push_new(lua_State *L, moon_dtype dtype, int ndim, const int64_t *shape) {
    moon_draft draft;
    if (moon_draft_contiguous(&draft, dtype, ndim, shape)) moonl_raise(L);
    moon_tensor *t = moonl_new_anywhere(L, ndim);
    moon_layout_copy(t, &draft.t);
    moonl_acquire(L, t, moon_cpu());
    return t;
}

/* a blank keeps its room in ndim; anything that was filled once has none */
static int api_capacity(const moon_tensor *blank) { return blank->storage == NULL ? blank->ndim : 0; }

static moon_status check_blank(const moon_tensor *blank, int ndim) {
    if (blank->storage) return moon_fail(MOON_EVALUE, "the tensor to fill is not blank");
    if (ndim > blank->ndim && ndim <= MOON_MAXDIM) /* beyond that the validator has its say */
        return moon_fail(MOON_EVALUE, "the blank has room for %d dimensions, %d are needed", blank->ndim, ndim);
    return MOON_OK;
}

static moon_status api_adopt(moon_tensor *blank, const moon_dl_tensor *dl, bool readonly, moon_hook *owner) {
    moon_status status = check_blank(blank, dl->ndim);
    return status ? status : moon_dl_adopt(blank, dl, readonly, owner);
}

static moon_status api_adopt_managed(moon_tensor *blank, moon_dl_versioned *v1, moon_dl_managed *v0, bool *consumed) {
    *consumed = false;
    bool known = v1 == NULL || v1->version.major == MOON_DL_MAJOR;
    int ndim = !known ? 0 : v1 ? v1->dl_tensor.ndim : v0->dl_tensor.ndim;
    moon_status status = check_blank(blank, ndim);
    return status ? status : moon_dl_adopt_managed(blank, v1, v0, consumed);
}

static moon_status api_copy_of(moon_tensor *blank, const moon_tensor *source, moon_dtype dtype) {
    moon_draft draft;
    if (source->storage == NULL) return moon_fail(MOON_ECLOSED, "tensor is closed");
    if (dtype == MOON_DTYPE_COUNT) dtype = (moon_dtype)source->dtype;
    moon_status status = check_blank(blank, source->ndim);
    if (status == MOON_OK) status = moon_draft_contiguous(&draft, dtype, source->ndim, source->shape);
    if (status) return status;
    int capacity = blank->ndim;
    moon_layout_copy(blank, &draft.t);
    status = moon_tensor_alloc(blank, moon_cpu());
    if (status == MOON_OK) status = moon_copy(blank, source);
    if (status) {
        moon_tensor_close(blank);
        blank->ndim = capacity;
    }
    return status;
}

static void *api_data(const moon_tensor *t) { return moon_data(t); }

static moon_hook *api_owner(const moon_storage *s) { return s->owner; }

static moon_hook *api_watch(const moon_storage *s) {
    return atomic_load_explicit(&((moon_storage *)s)->watch, memory_order_acquire);
}

static void api_push_methods(lua_State *L) { lua_rawgetp(L, LUA_REGISTRYINDEX, &moonl_key_methods); }

static void api_add_counter(lua_State *L, const char *name, int64_t (*read)(void)) {
    lua_rawgetp(L, LUA_REGISTRYINDEX, &moonl_key_counters);
    int64_t (**slot)(void) = lua_newuserdatauv(L, sizeof *slot, 0);
    *slot = read;
    lua_setfield(L, -2, name);
    lua_pop(L, 1);
}

static bool api_test_complex(lua_State *L, int i, double parts[2]) {
    const double *z = moonl_test_complex(L, i);
    if (z == NULL) return false;
    parts[0] = z[0];
    parts[1] = z[1];
    return true;
}

static const moon_api api = {
    .version = MOON_API_VERSION,
    .size = sizeof(moon_api),
    .fail = moon_fail,
    .message = moon_error_message,
    .raise = moonl_raise,
    .dtype_name = api_dtype_name,
    .dtype_size = api_dtype_size,
    .dtype_find = moon_dtype_find,
    .dtype_to_dl = api_dtype_to_dl,
    .test = api_test,
    .check = api_check,
    .push_new = api_push_new,
    .push_blank = moonl_new_anywhere,
    .capacity = api_capacity,
    .adopt = api_adopt,
    .adopt_managed = api_adopt_managed,
    .copy_of = api_copy_of,
    .close = moon_tensor_close,
    .data = api_data,
    .copy = moon_copy,
    .writing = moon_tensor_writing,
    .is_contiguous = moon_is_contiguous,
    .overlaps_itself = moon_overlaps_itself,
    .retain = moon_storage_retain,
    .release = moon_storage_release,
    .export_begin = moon_storage_export_begin,
    .export_end = moon_storage_export_end,
    .owner = api_owner,
    .watch = api_watch,
    .set_watch = moon_storage_set_watch,
    .dl_check = moon_dl_check,
    .dl_export = moon_dl_export,
    .dl_export_v0 = moon_dl_export_v0,
    .push_methods = api_push_methods,
    .add_counter = api_add_counter,
    .test_complex = api_test_complex,
    .push_complex = moonl_push_complex,
};

/* a slot left out of the table would be a jump to nowhere in somebody's module */
_Static_assert(sizeof(moon_api) == offsetof(moon_api, push_complex) + sizeof(void *), "the last slot has its function above");

void moonl_open_api(lua_State *L) {
    lua_pushlightuserdata(L, (void *)&api);
    lua_setfield(L, LUA_REGISTRYINDEX, MOON_API_KEY);
}
