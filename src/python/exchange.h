/* What the files of the exchange share: imports, leases, and the producers and consumers behind one front.

   lease.c     what Python holds for a storage, and the version counters of torch tensors that see our writes
   capsule.c   DLPack capsules, both ways
   torch.c     torch, by its C exchange API
   numpy.c     NumPy, by its C API
   tensor.c    moontensor.Tensor, the Python object over a native tensor
   from.c      moon.from: which road an object takes, and what the options make of it
   exchange.c  the other verbs, and the codec

   Everything here that takes or returns a PyObject runs inside a crossing and raises no Lua error. */
#ifndef MOON_EXCHANGE_H
#define MOON_EXCHANGE_H

#include "bridge.h"

/* DLPack 1.3, dlpack.h: DLPackExchangeAPI */
typedef struct exchange_header {
    moon_dl_version version;
    const struct exchange_header *prev_api;
} exchange_header;

typedef struct exchange_api {
    exchange_header header;
    int (*allocator)(moon_dl_tensor *, moon_dl_versioned **, void *, void (*)(void *, const char *, const char *));
    int (*managed_tensor_from_py)(void *, moon_dl_versioned **);
    int (*managed_tensor_to_py)(moon_dl_versioned *, void **);
    int (*dltensor_from_py)(void *, moon_dl_tensor *);
    int (*current_work_stream)(int32_t, int32_t, void **);
} exchange_api;

/* ---- leases (lease.c) ---- */

/* A storage's hold on Python: the owner of imported memory, or the watcher of memory that torch tensors look at. Core knows it
   by its hook. The storage has one reference, the written list another; the last one goes with the GIL held. */
typedef struct lease {
    moon_hook hook;
    _Atomic int refs;
    _Atomic bool dirty; /* it is in the written list */
    bool torch_base;    /* object is what .numpy() returned: its .base shares the tensor's version counter */
    struct lease *next_written, *next_released;
    PyObject *object;      /* keeps the memory alive; or NULL */
    moon_dl_versioned *v1; /* or one of these does */
    moon_dl_managed *v0;
    PyObject **weak; /* weak references to torch tensors that see the memory; GIL */
    size_t nweak, room;
    PyObject *inline_weak[2];
} lease;

HIDDEN lease *lease_new(PyObject *object); /* object may be NULL, else takes it, also on failure; NULL with MemoryError */
HIDDEN void lease_discard(lease *l);       /* of no storage yet: lets go at once */
HIDDEN void lease_bump_base(lease *l);     /* object is what torch's .numpy() returned: bump its .base when we write */
HIDDEN int lease_watch(lease *l, PyObject *tensor);               /* bump tensor's version when the memory is written; 0 or -1 */
HIDDEN int watch_export(moon_storage *storage, PyObject *tensor); /* the same for a tensor over memory that we export */

/* ---- imports ---- */

typedef struct importer {
    cross *c;
    moon_tensor *blank; /* filled on success */
    bool readonly;      /* forbid writing */
    bool lock;          /* keep torch from resizing the storage */
    bool raw;           /* the memory only: never mind autograd, conj and neg */
    bool convert;       /* a copy of the object is as good: NumPy may make one, ... */
    moon_dtype dtype;   /* ... in this dtype; MOON_DTYPE_COUNT: the object's own */
    /* results */
    int need;          /* the blank has no room for that many dimensions: a failure without a Python error */
    PyObject *capsule; /* with need: what to import again, not consumed yet, for producers may export only once; or NULL */
    bool transient;    /* what was filled in is a temporary of ours, to be copied from */
} importer;

/* All import functions: 0, or -1 with a Python error or `need`. On failure nothing is kept. */

/* Fill the blank; takes the lease, also on failure. */
HIDDEN int import_adopt(importer *in, const moon_dl_tensor *dl, bool readonly, lease *owner);
/* which road: by type */
HIDDEN int import_object(importer *in, PyObject *o);
HIDDEN int import_forced(importer *in, PyObject *o); /* whatever its autograd state, bits and device; the caller copies */
/* moon.from for an argument of another function: pushes a view that the caller closes [raises, outside crossings] */
HIDDEN moon_tensor *push_import(lua_State *L, int arg, bool raw);

HIDDEN int push_adapter(lua_State *L); /* adapt(object, mode), or nil: its type */
enum { SHARE, COPY, AUTO };
HIDDEN int copy_mode(lua_State *L, int index);                                /* false or nil, true, "auto" [raises] */
HIDDEN void known_options(lua_State *L, int table, const char *const *names); /* [raises] */
HIDDEN int moon_from(lua_State *L);                                           /* third upvalue: the `from` without Python */

/* pending exception aside while foreign code lets go of something */
#define PY_ERROR_ASIDE(statement)                             \
    do {                                                      \
        PyObject *aside_type, *aside_value, *aside_trace;     \
        PyErr_Fetch(&aside_type, &aside_value, &aside_trace); \
        statement;                                            \
        PyErr_Restore(aside_type, aside_value, aside_trace);  \
    } while (0)

/* name = interned string, once: a failure is fatal to nothing, the caller gets NULL and an error */
HIDDEN PyObject *interned(PyObject **slot, const char *text);
/* borrowed, from sys.modules; NULL without an error. slot: as for interned, since this is asked often */
HIDDEN PyObject *module_if_loaded(PyObject **slot, const char *name);
/* an ImportError becomes one that names the interpreter and the pip command */
HIDDEN PyObject *import_module(cross *c, const char *name, const char *package);
HIDDEN int copy_contents(cross *c, const moon_tensor *target, const moon_tensor *source); /* large ones without the GIL */

/* ---- capsules (capsule.c) ---- */

HIDDEN bool is_dlpack_capsule(PyObject *o);
HIDDEN int capsule_import(importer *in, PyObject *capsule);
HIDDEN int dlpack_import(importer *in, PyObject *o); /* by __dlpack_device__ and __dlpack__ */
HIDDEN PyObject *capsule_of(const moon_tensor *t, bool versioned);

/* ---- torch (torch.c) ---- */

HIDDEN bool torch_loaded(void);       /* torch is imported already: never imports it */
HIDDEN int torch_load(cross *c);      /* imports it: 0 or -1 */
HIDDEN bool torch_exact(PyObject *o); /* exactly Tensor or Parameter; false where torch is not loaded */
HIDDEN bool torch_known(PyObject *o); /* the same by a look at the type, without the GIL */
HIDDEN bool torch_tensor(PyObject *o);
HIDDEN int torch_import(importer *in, PyObject *o);
HIDDEN PyObject *torch_forced(PyObject *o);         /* detached, on the CPU, bits resolved: new reference */
HIDDEN PyObject *torch_share(const moon_tensor *t); /* a tensor over t's memory */
HIDDEN PyObject *torch_copy(cross *c, const moon_tensor *t, moon_tensor *blank); /* a tensor with memory of its own */
HIDDEN void torch_bump(PyObject *list); /* version counters of the tensors in it; swallows errors */

/* ---- NumPy (numpy.c) ---- */

HIDDEN int numpy_load(cross *c);
HIDDEN int numpy_ready(void);         /* the same for who has no crossing */
HIDDEN bool numpy_known(PyObject *o); /* exactly an ndarray; false where NumPy is not loaded; no GIL needed */
HIDDEN bool numpy_array(PyObject *o); /* an ndarray; false where NumPy is not loaded */
HIDDEN int numpy_import(importer *in, PyObject *o);
/* dtype: what the elements are, MOON_DTYPE_COUNT for the array's own. torch_base: see lease. Borrows the array. */
HIDDEN int numpy_adopt(importer *in, PyObject *array, moon_dtype dtype, bool torch_base);
HIDDEN int buffer_import(importer *in, PyObject *o);
HIDDEN PyObject *numpy_as_array(PyObject *o, moon_dtype dtype); /* numpy.asarray(o, dtype) */
HIDDEN PyObject *numpy_share(const moon_tensor *t);
HIDDEN PyObject *numpy_copy(cross *c, const moon_tensor *t, moon_tensor *blank);

/* ---- moontensor.Tensor (tensor.c) ---- */

HIDDEN int init_tensor_type(void);
HIDDEN PyObject *tensor_object_of(const moon_tensor *t); /* counts as an export as long as it lives */
HIDDEN bool is_tensor_object(PyObject *o);
HIDDEN int tensor_object_import(importer *in, PyObject *o);

#endif
