#include "tensor.h"

#include <stdio.h>
#include <string.h>

#include "../../devices/device.h"

void moon_draft_init(moon_draft *draft, moon_dtype dtype, int ndim) {
    draft->t = (moon_tensor){.dtype = (uint8_t)dtype, .ndim = ndim, .shape = draft->dims, .strides = draft->dims + MOON_MAXDIM};
}

/* cut short with "..." where the buffer ends; it must have room for that */
const char *moon_shape_text(int ndim, const int64_t *shape, char *buffer, size_t size) {
    size_t n = 1;
    memcpy(buffer, "[", 2);
    for (int i = 0; i < ndim; i++) {
        char item[32];
        size_t k = (size_t)snprintf(item, sizeof item, i ? ", %lld" : "%lld", (long long)shape[i]);
        if (n + k + sizeof ", ...]" > size) {
            memcpy(item, ", ...", 6);
            k = 5, i = ndim;
        }
        memcpy(buffer + n, item, k);
        n += k;
    }
    memcpy(buffer + n, "]", 2);
    return buffer;
}

moon_status moon_draft_contiguous(moon_draft *draft, moon_dtype dtype, int ndim, const int64_t *shape) {
    if (ndim < 0 || ndim > MOON_MAXDIM) {
        return moon_fail(MOON_ESHAPE, "%d dimensions, at most %d are supported", ndim, MOON_MAXDIM);
    }
    moon_draft_init(draft, dtype, ndim);
    char text[256];
    bool empty = false;
    for (int i = 0; i < ndim; i++) {
        if (shape[i] < 0) { return moon_fail(MOON_ESHAPE, "negative dimension %lld in dim %d", (long long)shape[i], i + 1); }
        empty |= shape[i] == 0;
        draft->dims[i] = shape[i];
    }
    /* extents of 0 do not shorten strides (as torch), nor do they excuse an overflow */
    int64_t stride = 1, bytes;
    for (int i = ndim; i-- > 0;) {
        draft->t.strides[i] = stride;
        if (__builtin_mul_overflow(stride, shape[i] > 1 ? shape[i] : 1, &stride)) stride = INT64_MAX;
    }
    if (stride == INT64_MAX || __builtin_mul_overflow(stride, (int64_t)moon_dtypes[dtype].size, &bytes)) {
        return moon_fail(MOON_ESHAPE, "size of shape %s in %s overflows 64 bits", moon_shape_text(ndim, shape, text, sizeof text),
                         moon_dtypes[dtype].name);
    }
    draft->t.numel = empty ? 0 : stride;
    return MOON_OK;
}

void moon_layout_copy(moon_tensor *to, const moon_tensor *from) {
    for (int i = 0; i < from->ndim; i++) to->shape[i] = from->shape[i], to->strides[i] = from->strides[i];
    to->offset = from->offset;
    to->numel = from->numel;
    to->ndim = from->ndim;
    to->dtype = from->dtype;
    to->readonly = from->readonly;
}

moon_status moon_tensor_alloc(moon_tensor *t, moon_device *device) {
    return moon_storage_new(device, (size_t)t->numel * moon_itemsize(t), &t->storage);
}

void moon_tensor_share(moon_tensor *view, const moon_tensor *base) {
    moon_storage_retain(base->storage);
    view->storage = base->storage;
    view->readonly |= base->readonly | base->storage->readonly;
}

void moon_tensor_close(moon_tensor *t) {
    moon_storage *s = t->storage;
    t->storage = NULL;
    if (s != NULL) moon_storage_release(s);
}

moon_status moon_tensor_writing(const moon_tensor *t) {
    if (t->storage == NULL) return moon_fail(MOON_ECLOSED, "tensor is closed");
    if (t->readonly || t->storage->readonly) {
        if (t->storage->readonly) {
            return moon_fail(MOON_EREADONLY, "tensor is read-only, because its memory is; write to a clone()");
        }
        return moon_fail(MOON_EREADONLY, moon_overlaps_itself(t)
                                             ? "tensor is read-only, because several of its elements share one place in "
                                               "memory; write to a clone()"
                                             : "tensor is read-only; write to a clone()");
    }
    moon_storage_written(t->storage);
    return MOON_OK;
}

/* ---- resizing ---- */

moon_status moon_resize_plan(const moon_tensor *t, int ndim, const int64_t *shape, moon_draft *result) {
    int64_t last;
    moon_storage *s = t->storage;
    if (s == NULL) return moon_fail(MOON_ECLOSED, "tensor is closed");
    const char *why = !s->owned                      ? "it was imported"
                      : atomic_load(&s->exports) > 0 ? "it is exported, and a consumer outside is alive"
                      : atomic_load(&s->refs) > 1    ? "other tensors are views of it"
                                                     : NULL;
    if (why != NULL) {
        return moon_fail(MOON_EVALUE, "resize_ needs memory of the tensor's own that nobody else holds, but %s; resize a clone()",
                         why);
    }
    if (t->readonly || s->readonly) return moon_fail(MOON_EREADONLY, "tensor is read-only; resize a clone()");
    moon_status status = moon_draft_contiguous(result, (moon_dtype)t->dtype, ndim, shape);
    moon_byte_range(t, &result->t.offset, &last);
    int64_t end;
    if (status == MOON_OK && __builtin_add_overflow(result->t.offset, result->t.numel * (int64_t)moon_itemsize(t), &end)) {
        return moon_fail(MOON_ESHAPE, "the size overflows 64 bits");
    }
    return status;
}

moon_status moon_resize_run(moon_tensor *t, const moon_draft *plan, moon_tensor *memory) {
    if (memory != NULL) {
        moon_draft to, from;
        int64_t n = (int64_t)t->storage->nbytes;
        (void)moon_draft_contiguous(&to, MOON_UINT8, 1, &n);
        (void)moon_draft_contiguous(&from, MOON_UINT8, 1, &n);
        to.t.storage = memory->storage, from.t.storage = t->storage; /* borrowed */
        moon_status s = n > 0 ? t->storage->device->backend->copy(&to.t, &from.t) : MOON_OK;
        if (s != MOON_OK) return s;
        moon_storage *old = t->storage;
        t->storage = memory->storage;
        memory->storage = old;
    }
    moon_layout_copy(t, &plan->t);
    return MOON_OK;
}

/* ---- facts about layouts ---- */

bool moon_is_contiguous(const moon_tensor *t) {
    if (t->numel == 0) return true;
    int64_t stride = 1;
    for (int i = t->ndim; i-- > 0;) {
        if (t->shape[i] == 1) continue;
        if (t->strides[i] != stride) return false;
        stride *= t->shape[i];
    }
    return true;
}

bool moon_overlaps_itself(const moon_tensor *t) {
    if (t->numel <= 1) return false;
    int64_t stride[MOON_MAXDIM], extent[MOON_MAXDIM];
    int n = 0;
    for (int i = 0; i < t->ndim; i++) {
        if (t->shape[i] == 1) continue;
        int64_t s = t->strides[i] < 0 ? -t->strides[i] : t->strides[i];
        int j = n++;
        for (; j > 0 && stride[j - 1] > s; j--) stride[j] = stride[j - 1], extent[j] = extent[j - 1];
        stride[j] = s;
        extent[j] = t->shape[i];
    }
    int64_t reach = 0; /* of the smaller strides together */
    for (int i = 0; i < n; i++) {
        if (stride[i] <= reach) return true;
        reach += stride[i] * (extent[i] - 1);
    }
    return false;
}

bool moon_same_layout(const moon_tensor *a, const moon_tensor *b) {
    if (a->ndim != b->ndim || moon_itemsize(a) != moon_itemsize(b)) return false;
    for (int i = 0; i < a->ndim; i++) {
        if (a->shape[i] != b->shape[i] || (a->shape[i] > 1 && a->strides[i] != b->strides[i])) return false;
    }
    return true;
}

bool moon_byte_range(const moon_tensor *t, int64_t *first, int64_t *last) {
    *first = *last = t->offset;
    if (t->numel == 0) return false;
    int64_t size = (int64_t)moon_itemsize(t);
    for (int i = 0; i < t->ndim; i++) {
        int64_t reach = (t->shape[i] - 1) * t->strides[i] * size;
        if (reach < 0) *first += reach;
        else *last += reach;
    }
    *last += size;
    return true;
}

moon_overlap moon_overlap_of(const moon_tensor *a, const moon_tensor *b) {
    /* the usual cases first: two allocations of ours, a tensor with itself */
    if (a->storage != b->storage && a->storage->owned && b->storage->owned) return MOON_DISJOINT;
    if (a->storage == b->storage && a->offset == b->offset && a->numel > 0 && moon_same_layout(a, b)) return MOON_SAME;
    int64_t af, al, bf, bl;
    if (!moon_byte_range(a, &af, &al) || !moon_byte_range(b, &bf, &bl)) return MOON_DISJOINT;
    bool same_storage = a->storage == b->storage;
    if (!same_storage) {
        /* two imports may name the same memory; addresses off the host do not compare across handles */
        if (a->storage->host == NULL || b->storage->host == NULL) {
            return a->storage->handle == b->storage->handle ? MOON_OVERLAP : MOON_DISJOINT;
        }
        intptr_t base = (intptr_t)a->storage->host, other = (intptr_t)b->storage->host;
        af += base, al += base, bf += other, bl += other;
    }
    if (al <= bf || bl <= af) return MOON_DISJOINT;
    bool same_start = same_storage ? a->offset == b->offset : moon_data(a) == moon_data(b);
    return same_start && moon_same_layout(a, b) ? MOON_SAME : MOON_OVERLAP;
}
