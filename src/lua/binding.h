/* What the files of the Lua binding share. Every function registered through moonl_register has the tensor metatable as
   its first upvalue: the type check compares with it, which costs no registry look-up.

   The order in every function: check arguments, make the closed and collectable userdata, acquire, raise last. A Lua
   allocation may run finalizers, and those may free() any tensor: look again (moonl_open) between the last allocation
   and the use of an operand. */
#ifndef MOON_BINDING_H
#define MOON_BINDING_H

#include <lua.h>
#include <lauxlib.h>
#include "../../devices/device.h"
#include "../core/dlpack.h"
#include "../core/format.h"
#include "../core/ops.h"
#include "moontensor.h"

#define MOONL_META lua_upvalueindex(1)
#define MOONL_ID lua_upvalueindex(2) /* of table-driven functions: an integer */

/* a Lua state's own record, in the registry */
typedef struct moonl_state {
    size_t pending; /* bytes allocated since the last collection that we forced */
    size_t live;    /* bytes that survived it */
} moonl_state;

/* addresses are registry keys */
extern const char moonl_key_meta, moonl_key_methods, moonl_key_module, moonl_key_complex, moonl_key_shape, moonl_key_state,
    moonl_key_counters, moonl_key_generator, moonl_key_random;

typedef struct moonl_entry {
    const char *name;
    lua_CFunction function;
} moonl_entry;

/* set functions into a table, each with the tensor metatable as its upvalue */
void moonl_register(lua_State *L, int table, const moonl_entry *entries);
/* the subjects, each of which registers its own: module functions into `module`, methods into `methods`,
   metamethods into `meta` (stack indices) */
void moonl_open_tensor(lua_State *L, int module, int methods, int meta);
void moonl_open_index(lua_State *L, int module, int methods, int meta);
void moonl_open_advanced(lua_State *L, int module, int methods, int meta);
void moonl_open_create(lua_State *L, int module, int methods, int meta);
void moonl_open_pin(lua_State *L, int module, int methods, int meta);
void moonl_open_view(lua_State *L, int module, int methods, int meta);
void moonl_open_copy(lua_State *L, int module, int methods, int meta);
void moonl_open_nested(lua_State *L, int module, int methods, int meta);
void moonl_open_ops(lua_State *L, int module, int methods, int meta);
void moonl_open_reduce(lua_State *L, int module, int methods, int meta);
void moonl_open_combine(lua_State *L, int module, int methods, int meta);
void moonl_open_repeat(lua_State *L, int module, int methods, int meta);
void moonl_open_complex(lua_State *L, int module, int methods, int meta);
void moonl_open_files(lua_State *L, int module, int methods, int meta);
void moonl_open_random(lua_State *L, int module, int methods, int meta);
void moonl_open_exchange(lua_State *L, int module, int methods, int meta);
void moonl_open_world(lua_State *L, int module, int methods, int meta);
void moonl_open_api(lua_State *L);

/* ---- tensors on the stack (tensor.c) ---- */

/* The userdata: a tensor, its mark, then room for shape and strides. The mark is made of its own address and taken away by the
   finalizer, so that it is in no other userdata, nor in memory that was a tensor's. It costs two calls to see, where a metatable
   costs four. */
typedef struct moonl_box {
    moon_tensor t;
    uintptr_t mark;
} moonl_box;

static inline uintptr_t moonl_mark(const void *box) { return (uintptr_t)&moonl_key_meta ^ (uintptr_t)box; }

/* the tensor at index i, if it is one that no finalizer has seen; in functions of others too */
static inline moon_tensor *moonl_marked(lua_State *L, int i) {
    moonl_box *box = (moonl_box *)lua_touserdata(L, i);
    /* a light userdata has length 0 */
    return box && lua_rawlen(L, i) >= sizeof *box && box->mark == moonl_mark(box) ? &box->t : NULL;
}
/* a finalized one that came back to life, by its metatable */
moon_tensor *moonl_test_slow(lua_State *L, int i);
/* the tensor at index i of one of our own functions, or NULL; closed or not */
static inline moon_tensor *moonl_test(lua_State *L, int i) {
    moon_tensor *t = moonl_marked(L, i);
    return t ? t : moonl_test_slow(L, i);
}
/* raises: the value at arg is no tensor, or a closed one */
int moonl_bad_tensor(lua_State *L, int arg);
static inline moon_tensor *moonl_check(lua_State *L, int arg) {
    moon_tensor *t = moonl_marked(L, arg);
    if (t == NULL || t->storage == NULL) moonl_bad_tensor(L, arg);
    return t;
}
static inline void moonl_open(lua_State *L, const moon_tensor *t) {
    if (t->storage == NULL) luaL_error(L, "tensor is closed");
}
/* push a closed tensor with room for capacity dimensions; the second takes the metatable from the registry */
moon_tensor *moonl_new(lua_State *L, int capacity);
moon_tensor *moonl_new_anywhere(lua_State *L, int capacity);
/* push a tensor of the draft's layout: over base's storage, or with memory of its own */
moon_tensor *moonl_push_view(lua_State *L, const moon_draft *draft, const moon_tensor *base);
moon_tensor *moonl_push_alloc(lua_State *L, const moon_draft *draft, moon_device *device);
/* the same for a row-major layout on the CPU or elsewhere (device NULL: the CPU) */
moon_tensor *moonl_push_contiguous(lua_State *L, moon_dtype dtype, int ndim, const int64_t *shape, moon_device *device);
/* give memory to a blank that has its layout; collects garbage and tries again when there is none; raises */
void moonl_acquire(lua_State *L, moon_tensor *blank, moon_device *device);
/* push a contiguous copy of t in dtype */
moon_tensor *moonl_push_copy(lua_State *L, const moon_tensor *t, moon_dtype dtype);
/* a sequence that prints as [2, 3] */
void moonl_push_shape(lua_State *L, int ndim, const int64_t *shape);
/* raise the error record */
int moonl_raise(lua_State *L);
int moonl_arg_raise(lua_State *L, int arg);

/* ---- arguments (args.c) ---- */

typedef struct moonl_sizes {
    int ndim;
    int64_t at[MOON_MAXDIM];
} moonl_sizes;

typedef struct moonl_options {
    int dtype;           /* -1: not given */
    moon_device *device; /* NULL: not given */
    int readonly;        /* -1: not given */
} moonl_options;

/* raises where the first argument is the module: a call with ':' instead of '.' */
void moonl_not_module(lua_State *L);
/* raises: the value at arg is not what is expected; a Python object is sent to moon.from */
int moonl_foreign(lua_State *L, int arg, const char *expected);
/* 0-based dimension from a 1-based or negative argument */
int moonl_dim(lua_State *L, int arg, int ndim);
/* 0-based index from a 1-based or negative argument */
int64_t moonl_index(lua_State *L, int arg, int64_t extent);
/* `2, 3` or `{2, 3}` from arg on; extents >= least; returns the first argument after them */
int moonl_check_sizes(lua_State *L, int arg, int64_t least, moonl_sizes *out);
/* nil, a dtype, or a table of dtype=, device=, readonly= */
void moonl_check_options(lua_State *L, int arg, moonl_options *out);
/* raises where the table at arg has a key outside names (NULL-terminated) */
void moonl_known_options(lua_State *L, int arg, const char *const *names);
bool moonl_field_bool(lua_State *L, int table, const char *name, bool otherwise);
moon_dtype moonl_check_dtype(lua_State *L, int arg);
bool moonl_test_dtype(lua_State *L, int i, moon_dtype *out);

/* ---- memory that a Lua value keeps (pin.c) ---- */

/* push a tensor over it, which holds the value at `owner`; raises where the memory will not do */
int moonl_push_pinned(lua_State *L, const void *data, moon_dtype dtype, const moonl_sizes *sizes, bool readonly, int owner);
extern _Atomic int moonl_pins_waiting; /* for which there is moonl_drop_pins to call */
void moonl_drop_pins(lua_State *L);    /* let go of the owners whose memory nobody uses any more */
moon_device *moonl_check_device(lua_State *L, int arg);

/* ---- elements (value.c, complex.c) ---- */

bool moonl_test_value(lua_State *L, int i, moon_value *out);
/* a value for an element of dtype: also decimal strings for uint64 */
void moonl_check_value(lua_State *L, int arg, moon_dtype dtype, moon_value *out);
void moonl_push_element(lua_State *L, moon_dtype dtype, const void *p);
/* the element `offset` bytes from t's first, on whatever device; arg is what an error names (0: nothing) */
void moonl_push_at(lua_State *L, const moon_tensor *t, int64_t offset);
void moonl_write_at(lua_State *L, const moon_tensor *t, int64_t offset, const moon_value *value, int arg);
void moonl_push_complex(lua_State *L, double re, double im);
double *moonl_test_complex(lua_State *L, int i);

/* ---- more than one file needs ---- */

/* push a tensor from nested tables or a scalar (nested.c); dtype -1: by the values */
moon_tensor *moonl_push_nested(lua_State *L, int arg, int dtype, moon_device *device);
/* Replace the value at arg, which is neither scalar nor tensor, by a tensor made of it: a table by nested tables, anything
   else through moon.from. Runs Lua code. */
void moonl_convert(lua_State *L, int arg, moon_dtype dtype);
/* {out=} of the options table at arg, left on the stack, or NULL (ops.c) */
moon_tensor *moonl_option_out(lua_State *L, int arg);
/* the 0-based place that the number at index i names in dimension dim (0-based) */
int64_t moonl_place(lua_State *L, int i, int dim, int64_t extent);
/* the range {first, last, step} in the table, 0-based and inside the extent */
void moonl_range(lua_State *L, int table, int dim, int64_t extent, int64_t *first, int64_t *count, int64_t *step);
/* x[key], x[key] = value at arg, where the key at index i is, or holds, a tensor (advanced.c). Only the first may run Lua code */
int moonl_index_get(lua_State *L, const moon_tensor *t, int i);
void moonl_index_put(lua_State *L, const moon_tensor *t, int i, int arg);
/* target = the scalar or tensor at arg */
void moonl_assign(lua_State *L, const moon_tensor *target, int arg);

#endif
