#include "dlpack.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "../../devices/device.h"
#include "memory.h"

/* ---- the validator ---- */

static moon_status check_shape(const moon_dl_tensor *dl) {
    if (dl->ndim < 0 || dl->ndim > MOON_MAXDIM) {
        return moon_fail(MOON_ESHAPE, "%d dimensions, expected 0 to %d", (int)dl->ndim, MOON_MAXDIM);
    }
    if (dl->ndim > 0 && dl->shape == NULL) return moon_fail(MOON_ESHAPE, "shape is missing, with %d dimensions", (int)dl->ndim);
    for (int i = 0; i < dl->ndim; i++) {
        if (dl->shape[i] < 0) { return moon_fail(MOON_ESHAPE, "negative dimension %" PRId64 " in dim %d", dl->shape[i], i + 1); }
    }
    return MOON_OK;
}

/* What the layout reaches, in bytes from the first element, without a product that overflows. */
typedef struct reach {
    bool empty;
    int64_t numel, before, after; /* before <= 0; after: end of the last element */
} reach;

static bool measure(const moon_dl_tensor *dl, int64_t size, reach *r) {
    *r = (reach){.numel = 1};
    int64_t low = 0, high = 0, stride = 1;
    bool fits = true;
    for (int i = dl->ndim; i-- > 0;) {
        int64_t n = dl->shape[i], extent = n > 1 ? n : 1, span = 0;
        r->empty = r->empty || n == 0;
        int64_t step = dl->strides != NULL ? dl->strides[i] : stride;
        if (extent > 1) {
            fits = fits && !__builtin_mul_overflow(extent - 1, step, &span);
            fits = fits && !__builtin_add_overflow(span < 0 ? low : high, span, span < 0 ? &low : &high);
        }
        fits = fits && !__builtin_mul_overflow(r->numel, extent, &r->numel);
        fits = fits && !__builtin_mul_overflow(stride, extent, &stride);
    }
    int64_t bytes;
    fits = fits && !__builtin_mul_overflow(r->numel, size, &bytes);
    fits = fits && !__builtin_mul_overflow(low, size, &r->before);
    fits = fits && !__builtin_add_overflow(high, 1, &high) && !__builtin_mul_overflow(high, size, &r->after);
    /* and both ends have addresses */
    fits = fits && dl->byte_offset <= INT64_MAX;
    int64_t first = 0, end = 0;
    if (fits && dl->data != NULL && !r->empty) {
        uintptr_t base = (uintptr_t)dl->data;
        fits = base <= INT64_MAX && !__builtin_add_overflow((int64_t)base, (int64_t)dl->byte_offset, &first) &&
               !__builtin_add_overflow(first, r->after, &end) && !__builtin_add_overflow(first, r->before, &first) && first >= 0;
    }
    if (r->empty) r->numel = 0;
    return fits;
}

static moon_status check_size(const moon_dl_tensor *dl, moon_dtype dtype, reach *r) {
    if (measure(dl, moon_dtypes[dtype].size, r)) return MOON_OK;
    char shape[160], strides[160];
    moon_shape_text(dl->ndim, dl->shape, shape, sizeof shape);
    if (dl->strides == NULL || dl->ndim == 0)
        return moon_fail(MOON_ESHAPE, "size overflows 64 bits: shape %s in %s", shape, moon_dtypes[dtype].name);
    return moon_fail(MOON_ESHAPE, "size overflows 64 bits: shape %s, strides %s, byte offset %" PRIu64 " in %s", shape,
                     moon_shape_text(dl->ndim, dl->strides, strides, sizeof strides), dl->byte_offset, moon_dtypes[dtype].name);
}

/* Only addresses that the host reads: a device's `data` may be a handle. */
static moon_status check_data(const moon_dl_tensor *dl, moon_dtype dtype, const reach *r, bool host) {
    if (r->empty) return MOON_OK;
    if (dl->data == NULL) return moon_fail(MOON_EVALUE, "data is NULL, with %" PRId64 " elements", r->numel);
    uint64_t align = moon_dtypes[dtype].align;
    uint64_t at = host ? (uint64_t)(uintptr_t)dl->data + dl->byte_offset : dl->byte_offset;
    if (at % align != 0) {
        return moon_fail(MOON_ELAYOUT, "data misaligned (%d mod %d) for %s; copy it first, or pass {copy = true}",
                         (int)(at % align), (int)align, moon_dtypes[dtype].name);
    }
    return MOON_OK;
}

/* does one place hold several elements? */
static bool overlaps(const moon_dl_tensor *dl, moon_dtype dtype, const reach *r) {
    if (dl->strides == NULL) return false;
    moon_tensor t = {.dtype = (uint8_t)dtype, .ndim = dl->ndim, .shape = dl->shape, .strides = dl->strides, .numel = r->numel};
    return moon_overlaps_itself(&t);
}

static moon_status check_target(const moon_dl_tensor *dl, moon_dtype dtype, const reach *r, bool readonly) {
    if (r->empty) return MOON_OK;
    for (int i = 0; i < dl->ndim && dl->strides != NULL; i++) {
        if (dl->shape[i] > 1 && dl->strides[i] < 0) {
            return moon_fail(MOON_ELAYOUT,
                             "negative stride (%" PRId64 ") in dim %d, which torch cannot take; copy first, or "
                             "pass {copy = true}",
                             dl->strides[i], i + 1);
        }
    }
    if (overlaps(dl, dtype, r)) {
        return moon_fail(MOON_EREADONLY, "memory where several elements share one place (expand, unfold) is read-only; torch "
                                         "would write this non-writeable memory, with undefined behavior; pass {copy = true}");
    }
    if (readonly) {
        return moon_fail(MOON_EREADONLY, "read-only memory cannot be shared with torch, which would write this non-writeable "
                                         "memory, with undefined behavior; pass {copy = true}");
    }
    return MOON_OK;
}

/* Everything that may be known of a struct: its dtype, reach and device. */
static moon_status examine(const moon_dl_tensor *dl, bool readonly, moon_dl_target target, moon_dtype *dtype, reach *r,
                           moon_device **device) {
    moon_status s = check_shape(dl);
    if (s == MOON_OK) s = moon_dtype_from_dl(dl->dtype, dtype);
    if (s == MOON_OK) s = check_size(dl, *dtype, r);
    if (s == MOON_OK) s = moon_device_from_dl(dl->device, device);
    if (s == MOON_OK) s = check_data(dl, *dtype, r, (*device)->backend->dl_type == MOON_DL_CPU);
    if (s == MOON_OK && target == MOON_DL_FOR_TORCH) s = check_target(dl, *dtype, r, readonly);
    return s;
}

moon_status moon_dl_check(const moon_dl_tensor *dl, bool readonly, moon_dl_target target) {
    moon_dtype dtype;
    reach r;
    moon_device *device;
    return examine(dl, readonly, target, &dtype, &r, &device);
}

/* ---- adopting ---- */

static void lay_out(moon_tensor *t, const moon_dl_tensor *dl, moon_dtype dtype, const reach *r) {
    int64_t stride = 1;
    for (int i = dl->ndim; i-- > 0;) {
        t->shape[i] = dl->shape[i];
        t->strides[i] = dl->strides != NULL ? dl->strides[i] : stride;
        stride *= dl->shape[i] > 1 ? dl->shape[i] : 1;
    }
    t->ndim = dl->ndim;
    t->dtype = (uint8_t)dtype;
    t->numel = r->numel;
    t->offset = 0;
}

/* An empty tensor needs none of the foreign memory: it gets a storage of its own, and the owner may go at once. */
static moon_status adopt_nothing(moon_tensor *blank, const moon_dl_tensor *dl, moon_device *device, moon_dtype dtype,
                                 const reach *r, bool readonly) {
    moon_storage *storage;
    moon_status s = moon_storage_new(device, 0, &storage);
    if (s != MOON_OK) return s;
    lay_out(blank, dl, dtype, r);
    storage->readonly = readonly;
    blank->readonly = readonly;
    blank->storage = storage;
    return MOON_OK;
}

moon_status moon_dl_adopt(moon_tensor *blank, const moon_dl_tensor *dl, bool readonly, moon_hook *owner) {
    moon_dtype dtype;
    reach r;
    moon_device *device;
    moon_status s = examine(dl, readonly, MOON_DL_FOR_US, &dtype, &r, &device);
    if (s != MOON_OK) return s;
    if (r.empty) {
        s = adopt_nothing(blank, dl, device, dtype, &r, readonly);
        if (s == MOON_OK && owner != NULL) owner->drop(owner);
        return s;
    }
    void *handle = dl->data;
    size_t offset = dl->byte_offset;
    moon_storage *storage;
    if (device->backend->dl_in != NULL) {
        void *host = NULL;
        s = device->backend->dl_in(device, dl, &handle, &host, &offset);
        if (s == MOON_OK) s = moon_storage_wrap(device, handle, offset + (size_t)r.after, readonly, owner, &storage);
        if (s == MOON_OK) storage->host = host;
    } else {
        /* the storage starts at the lowest byte that a negative stride reaches */
        handle = (char *)handle + dl->byte_offset + r.before;
        offset = (size_t)-r.before;
        s = moon_storage_wrap(device, handle, (size_t)(r.after - r.before), readonly, owner, &storage);
    }
    if (s != MOON_OK) return s;
    lay_out(blank, dl, dtype, &r);
    blank->offset = (int64_t)offset;
    blank->readonly = readonly || moon_overlaps_itself(blank);
    blank->storage = storage;
    return MOON_OK;
}

/* the owner of memory that came as a managed tensor */
typedef struct managed_owner {
    moon_hook hook;
    moon_dl_versioned *v1;
    moon_dl_managed *v0;
} managed_owner;

static void delete_managed(moon_dl_versioned *v1, moon_dl_managed *v0) {
    if (v1 != NULL && v1->deleter != NULL) v1->deleter(v1);
    if (v0 != NULL && v0->deleter != NULL) v0->deleter(v0);
}

static void drop_managed(moon_hook *hook) {
    managed_owner *owner = (managed_owner *)hook;
    delete_managed(owner->v1, owner->v0);
    moon_free(owner, sizeof *owner);
}

moon_status moon_dl_adopt_managed(moon_tensor *blank, moon_dl_versioned *v1, moon_dl_managed *v0, bool *consumed) {
    *consumed = false;
    if (v1 != NULL && v1->version.major != MOON_DL_MAJOR) {
        /* of an unknown major version only the deleter may be touched */
        unsigned major = v1->version.major, minor = v1->version.minor;
        delete_managed(v1, NULL);
        *consumed = true;
        return moon_fail(MOON_EUNSUPPORTED, "DLPack version %u.%u is not supported, %d.x is", major, minor, MOON_DL_MAJOR);
    }
    managed_owner *owner = moon_alloc(sizeof *owner);
    if (owner == NULL) return moon_fail(MOON_EMEMORY, "out of memory");
    *owner = (managed_owner){{drop_managed, NULL}, v1, v0};
    bool readonly = v1 != NULL && (v1->flags & MOON_DL_READ_ONLY) != 0;
    moon_status s = moon_dl_adopt(blank, v1 != NULL ? &v1->dl_tensor : &v0->dl_tensor, readonly, &owner->hook);
    if (s != MOON_OK) moon_free(owner, sizeof *owner);
    return s;
}

/* ---- exporting ---- */

/* Struct, shape and strides in one block. The union keeps one body for both versions. */
typedef struct exported {
    union {
        moon_dl_versioned v1;
        moon_dl_managed v0;
    } as;
    moon_storage *storage;
    size_t size;
    int64_t dims[];
} exported;

static void end_export(exported *e) {
    moon_storage *storage = e->storage;
    moon_free(e, e->size);
    moon_storage_export_end(storage);
}

/* any thread, at any time, after lua_close too: atomics and free only */
static void delete_v1(moon_dl_versioned *v1) { end_export((exported *)v1); }
static void delete_v0(moon_dl_managed *v0) { end_export((exported *)v0); }

static moon_status describe(const moon_tensor *t, moon_dl_tensor *dl, int64_t *dims) {
    moon_device *device = t->storage->device;
    int64_t stride = 1;
    dl->shape = dims;
    dl->strides = dims + t->ndim;
    for (int i = t->ndim; i-- > 0;) {
        dl->shape[i] = t->shape[i];
        /* a size-1 or empty tensor's strides mean nothing, but consumers judge contiguity by them */
        dl->strides[i] = t->shape[i] == 1 || t->numel == 0 ? stride : t->strides[i];
        stride *= t->shape[i] > 1 ? t->shape[i] : 1;
    }
    dl->device = moon_device_to_dl(device);
    dl->ndim = t->ndim;
    dl->dtype = moon_dtypes[t->dtype].dl;
    dl->byte_offset = 0;
    dl->data = NULL;
    if (t->numel == 0) return MOON_OK;
    if (device->backend->dl_out != NULL) return device->backend->dl_out(t, dl);
    dl->data = (char *)t->storage->handle + t->offset;
    return MOON_OK;
}

static moon_status export(const moon_tensor *t, moon_dl_target target, exported **out, bool versioned) {
    if (t->storage == NULL) return moon_fail(MOON_ECLOSED, "tensor is closed");
    bool readonly = t->readonly || t->storage->readonly;
    if (readonly && !versioned && target != MOON_DL_FOR_TORCH) {
        return moon_fail(MOON_EREADONLY, "the unversioned DLPack struct cannot say read-only; ask for a versioned one, or pass "
                                         "{copy = true}");
    }
    size_t size = sizeof(exported) + 2 * (size_t)t->ndim * sizeof(int64_t);
    exported *e = moon_alloc(size);
    if (e == NULL) return moon_fail(MOON_EMEMORY, "out of memory");
    memset(e, 0, sizeof *e);
    e->storage = t->storage;
    e->size = size;
    moon_dl_tensor *dl = versioned ? &e->as.v1.dl_tensor : &e->as.v0.dl_tensor;
    moon_status s = describe(t, dl, e->dims);
    if (s == MOON_OK) s = moon_dl_check(dl, readonly, target);
    if (s != MOON_OK) {
        moon_free(e, size);
        return s;
    }
    if (versioned) {
        e->as.v1.version = (moon_dl_version){MOON_DL_MAJOR, MOON_DL_MINOR};
        e->as.v1.flags = readonly ? MOON_DL_READ_ONLY : 0;
        e->as.v1.manager_ctx = e;
        e->as.v1.deleter = delete_v1;
    } else {
        e->as.v0.manager_ctx = e;
        e->as.v0.deleter = delete_v0;
    }
    moon_storage_export_begin(t->storage);
    *out = e;
    return MOON_OK;
}

moon_status moon_dl_export(const moon_tensor *t, moon_dl_target target, moon_dl_versioned **out) {
    exported *e;
    moon_status s = export(t, target, &e, true);
    if (s == MOON_OK) *out = &e->as.v1;
    return s;
}

moon_status moon_dl_export_v0(const moon_tensor *t, moon_dl_target target, moon_dl_managed **out) {
    exported *e;
    moon_status s = export(t, target, &e, false);
    if (s == MOON_OK) *out = &e->as.v0;
    return s;
}
