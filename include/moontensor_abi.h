/* Types that core, the Lua binding, the bridge and third-party C modules share. No Lua, no Python.

   The DLPack structs are declared here under names of our own, so that this header can stand beside a real dlpack.h.
   They are an ABI: spec/c/dlpack_abi.c compares every size, offset and constant with dlpack.h where one is installed. */
#ifndef MOONTENSOR_ABI_H
#define MOONTENSOR_ABI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MOON_MAXDIM 64

/* ---- status ---- */

/* Every core and device function that can fail returns one of these and, unless it is MOON_OK, has filled the
   thread's error record (moon_error_message). Core never raises. */
typedef enum moon_status {
    MOON_OK = 0,
    MOON_EVALUE,       /* a value is malformed or out of range */
    MOON_ETYPE,        /* a value of the wrong type */
    MOON_EINDEX,       /* an index outside the extent */
    MOON_ESHAPE,       /* shapes that do not fit together */
    MOON_EDTYPE,       /* a dtype that the operation lacks */
    MOON_ELAYOUT,      /* strides, overlap or alignment */
    MOON_EREADONLY,    /* a write to a read-only tensor */
    MOON_ECLOSED,      /* a tensor after free() */
    MOON_EMEMORY,      /* out of memory */
    MOON_EDEVICE,      /* a device that is missing or failed */
    MOON_EUNSUPPORTED, /* what this device or this format cannot do */
    MOON_EFILE,        /* a file that cannot be opened, read or written */
} moon_status;

/* ---- dtypes ---- */

typedef enum moon_dtype {
    MOON_BOOL,
    MOON_INT8,
    MOON_INT16,
    MOON_INT32,
    MOON_INT64,
    MOON_UINT8,
    MOON_UINT16,
    MOON_UINT32,
    MOON_UINT64,
    MOON_FLOAT16,
    MOON_BFLOAT16,
    MOON_FLOAT32,
    MOON_FLOAT64,
    MOON_COMPLEX64,
    MOON_COMPLEX128,
    MOON_FLOAT8_E4M3FN,
    MOON_FLOAT8_E5M2,
    MOON_DTYPE_COUNT
} moon_dtype;

/* ---- DLPack 1.3 ---- */

typedef struct moon_dl_device {
    int32_t type, id;
} moon_dl_device;

typedef struct moon_dl_dtype {
    uint8_t code, bits;
    uint16_t lanes;
} moon_dl_dtype;

typedef struct moon_dl_tensor {
    void *data;
    moon_dl_device device;
    int32_t ndim;
    moon_dl_dtype dtype;
    int64_t *shape;
    int64_t *strides; /* in elements; NULL means row-major before DLPack 1.2 */
    uint64_t byte_offset;
} moon_dl_tensor;

/* the unversioned struct, capsule name "dltensor" */
typedef struct moon_dl_managed {
    moon_dl_tensor dl_tensor;
    void *manager_ctx;
    void (*deleter)(struct moon_dl_managed *);
} moon_dl_managed;

typedef struct moon_dl_version {
    uint32_t major, minor;
} moon_dl_version;

/* the versioned struct, capsule name "dltensor_versioned" */
typedef struct moon_dl_versioned {
    moon_dl_version version;
    void *manager_ctx;
    void (*deleter)(struct moon_dl_versioned *);
    uint64_t flags;
    moon_dl_tensor dl_tensor;
} moon_dl_versioned;

enum { MOON_DL_MAJOR = 1, MOON_DL_MINOR = 3 };
enum { MOON_DL_READ_ONLY = 1, MOON_DL_IS_COPIED = 2, MOON_DL_SUBBYTE_PADDED = 4 };
enum {
    MOON_DL_INT = 0,
    MOON_DL_UINT = 1,
    MOON_DL_FLOAT = 2,
    MOON_DL_OPAQUE = 3,
    MOON_DL_BFLOAT = 4,
    MOON_DL_COMPLEX = 5,
    MOON_DL_BOOL = 6,
    MOON_DL_FLOAT8_E4M3FN = 10,
    MOON_DL_FLOAT8_E5M2 = 12,
};
enum {
    MOON_DL_CPU = 1,
    MOON_DL_CUDA = 2,
    MOON_DL_CUDA_HOST = 3,
    MOON_DL_METAL = 8,
    MOON_DL_ROCM = 10,
    MOON_DL_ROCM_HOST = 11,
    MOON_DL_CUDA_MANAGED = 13,
};

/* What the validator must refuse beyond malformed structs: torch aborts the process on a negative stride, ignores the
   read-only flag, and knows nothing of overlap; NumPy takes negative strides and honours read-only. */
typedef enum moon_dl_target { MOON_DL_FOR_US, MOON_DL_FOR_TORCH, MOON_DL_FOR_NUMPY } moon_dl_target;

/* ---- storage and tensors ---- */

typedef struct moon_storage moon_storage; /* src/core/storage.h */

/* Somebody outside core with a stake in a storage: the owner of foreign memory, or a watcher of writes to ours.
   Both functions run on any thread, at any time, without the GIL; neither may touch a lua_State or block. */
typedef struct moon_hook {
    void (*drop)(struct moon_hook *);    /* the storage has died: let go; called exactly once */
    void (*written)(struct moon_hook *); /* its bytes are about to be written by us; NULL if of no interest */
} moon_hook;

/* A view of a storage. Fields are for reading; only core writes them. shape and strides point behind the struct or into
   the owner's memory and live as long as the tensor. */
typedef struct moon_tensor {
    moon_storage *storage; /* one reference; NULL once closed */
    int64_t offset;        /* of the first element, in bytes from the storage's start */
    int64_t numel;
    int64_t *shape;   /* ndim extents */
    int64_t *strides; /* ndim strides, in elements, of either sign */
    int32_t ndim;
    uint8_t dtype;    /* moon_dtype */
    uint8_t readonly; /* this view, or its storage, must not be written */
} moon_tensor;

#endif
