/* The device layer. A backend is a const table of functions; core calls storages and operators only through it, so that
   nothing above devices/ allocates tensor data or touches bytes that the host must not touch. A slot marked optional may be
   NULL: the caller then gives a directed error, never a silent trip through the host. Backends never raise: they return a
   status with the error record filled. */
#ifndef MOON_DEVICE_H
#define MOON_DEVICE_H

#include "../src/core/ops.h"

typedef struct moon_backend {
    const char *name; /* "cpu", as torch spells it */
    int32_t dl_type;  /* DLPack's device type */

    /* is it there? Called once, lazily; on failure the error record says why */
    moon_status (*probe)(void);
    int (*count)(void);
    moon_status (*open)(int index, moon_device *out);

    /* ---- storage ---- */
    /* nbytes > 0 bytes for `s`: sets handle, and host where the CPU may touch them. 64-byte aligned on the host */
    moon_status (*alloc)(moon_device *device, size_t nbytes, moon_storage *s);
    void (*release)(moon_storage *s);                                                   /* of own memory; any thread */
    moon_status (*upload)(moon_storage *to, size_t offset, const void *from, size_t n); /* source reusable on return */
    moon_status (*download)(void *to, moon_storage *from, size_t offset, size_t n);     /* complete on return */

    /* ---- whole tensors, all on this device; layouts are checked. Operands have the output's shape, with stride 0 where they
       are broadcast, and overlap it not at all or element for element. A weak scalar is an operand whose strides are all 0
       and whose storage has no device: its bytes, in the compute dtype, are on the host ---- */
    moon_status (*copy)(const moon_tensor *to, const moon_tensor *from); /* same shape, strided, casting */
    moon_status (*fill)(const moon_tensor *to, const void *element);     /* element: one value in to's dtype */
    moon_status (*elementwise)(moon_op_id op, moon_dtype compute, const moon_tensor *out, int n, const moon_tensor *const *in);
    /* the same for few packed elements of the operator's own dtypes, on the host: b is unused by one operand, and stays if sb is 0.
       False: not to be had, call elementwise; optional */
    bool (*few)(moon_op_id op, moon_dtype compute, void *out, const void *a, const void *b, int sb, int64_t n);
    /* out[i] = mask[i] is not 0 ? a[i] : b[i]; all of them in any dtype, a and b as operands of elementwise; optional */
    moon_status (*where)(const moon_tensor *mask, const moon_tensor *a, const moon_tensor *b, const moon_tensor *out);
    moon_status (*reduce)(moon_op_id op, const moon_tensor *in, int dim, const moon_tensor *out); /* optional */
    /* running op (sum, prod) along dim, of in's shape; out is in itself or apart from it */
    moon_status (*scan)(moon_op_id op, const moon_tensor *in, int dim, const moon_tensor *out); /* optional */
    moon_status (*matmul)(const moon_tensor *a, const moon_tensor *b, const moon_tensor *out);  /* optional */

    /* Elements by offsets, optional. `out` and `value` have the shape of the other tensor with one more dimension before
       dimension `at`, as long as the table: its k-th place stands for the elements offsets[k] bytes further on. The table is on
       the host, 64-bit; what it names is in range. Nothing overlaps; of two equal offsets the later one wins. No operand is
       empty. `value` may be a weak scalar, as above */
    moon_status (*index_get)(const moon_tensor *out, const moon_tensor *from, int at, const int64_t *offsets);
    moon_status (*index_put)(const moon_tensor *to, int at, const int64_t *offsets, const moon_tensor *value);

    /* ---- order: optional where all work is done on return ---- */
    moon_status (*synchronize)(moon_device *device);
    moon_status (*set_stream)(moon_device *device, void *stream);
    void *(*get_stream)(moon_device *device);
    moon_status (*wait_for)(moon_device *device, void *foreign_stream); /* our later work after theirs */
    moon_status (*signal)(moon_device *device, void *foreign_stream);   /* their later work after ours */

    /* ---- DLPack: optional; the default folds the offset into a host pointer ---- */
    moon_status (*dl_out)(const moon_tensor *t, moon_dl_tensor *out);
    moon_status (*dl_in)(moon_device *device, const moon_dl_tensor *dl, void **handle, void **host, size_t *offset);
} moon_backend;

struct moon_device {
    const moon_backend *backend;
    int index;
    char name[24]; /* "cpu", "cuda:0" */
    void *state;   /* the backend's own */
};

/* "cpu", "cuda:0", "cuda" (its first), "mps" (alias "metal"); unknown names and missing devices fail with the reason */
moon_status moon_device_find(const char *name, moon_device **out);
moon_status moon_device_from_dl(moon_dl_device dl, moon_device **out);
moon_device *moon_cpu(void);      /* always there */
const char *moon_cpu_level(void); /* the instruction set that its inner loops use: "base", "v3", "v4" */
moon_dl_device moon_device_to_dl(const moon_device *device);
/* threads that share one large operation on the host, the caller included: 1 to MOON_MAXTHREADS */
enum { MOON_MAXTHREADS = 256 };
int moon_host_threads(void);
void moon_host_set_threads(int n);
/* enumerate for moon.devices(): the i-th backend's name and, where it is missing, why; false past the end */
bool moon_backend_info(int i, const char **name, int *count, const char **reason);

#endif
