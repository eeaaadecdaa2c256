#include "copy.h"

#include <string.h>

#include "../../devices/device.h"
#include "ops.h"

static moon_status closed(const moon_tensor *t) {
    return t->storage == NULL ? moon_fail(MOON_ECLOSED, "tensor is closed") : MOON_OK;
}

/* the bytes of a packed tensor, between devices */
static moon_status move_across(const moon_tensor *to, const moon_tensor *from) {
    size_t n = (size_t)to->numel * moon_itemsize(to);
    moon_storage *a = to->storage, *b = from->storage;
    if (b->host != NULL) return a->device->backend->upload(a, (size_t)to->offset, moon_data(from), n);
    if (a->host != NULL) return b->device->backend->download(moon_data(to), b, (size_t)from->offset, n);
    return moon_fail(MOON_EDEVICE, "cannot copy from %s to %s directly; go through the CPU", b->device->name, a->device->name);
}

/* `from` as a packed tensor of dtype on its own device; out->t is closed by the caller */
static moon_status packed(moon_draft *out, const moon_tensor *from, moon_dtype dtype) {
    moon_status s = moon_draft_contiguous(out, dtype, from->ndim, from->shape);
    if (s == MOON_OK) s = moon_tensor_alloc(&out->t, from->storage->device);
    if (s != MOON_OK || from->numel == 0) return s;
    s = from->storage->device->backend->copy(&out->t, from);
    if (s != MOON_OK) moon_tensor_close(&out->t);
    return s;
}

/* same shape, other device: cast and packed on the source's side, then moved, then spread on the target's */
static moon_status copy_across(const moon_tensor *target, const moon_tensor *source) {
    moon_draft from, to;
    moon_status s = packed(&from, source, (moon_dtype)target->dtype);
    if (s != MOON_OK) return s;
    if (moon_is_contiguous(target)) {
        s = move_across(target, &from.t);
    } else {
        s = moon_draft_contiguous(&to, (moon_dtype)target->dtype, target->ndim, target->shape);
        if (s == MOON_OK) s = moon_tensor_alloc(&to.t, target->storage->device);
        if (s == MOON_OK) {
            s = move_across(&to.t, &from.t);
            if (s == MOON_OK) s = target->storage->device->backend->copy(target, &to.t);
            moon_tensor_close(&to.t);
        }
    }
    moon_tensor_close(&from.t);
    return s;
}

static moon_status copy_same_shape(const moon_tensor *target, const moon_tensor *source) {
    if (target->storage->device != source->storage->device) return copy_across(target, source);
    const moon_backend *backend = target->storage->device->backend;
    moon_overlap overlap = moon_overlap_of(target, source);
    if (overlap == MOON_SAME && target->dtype == source->dtype) return MOON_OK;
    if (overlap == MOON_DISJOINT) return backend->copy(target, source);
    moon_draft temporary;
    moon_status s = packed(&temporary, source, (moon_dtype)source->dtype);
    if (s != MOON_OK) return s;
    s = backend->copy(target, &temporary.t);
    moon_tensor_close(&temporary.t);
    return s;
}

static bool same_shape(const moon_tensor *a, const moon_tensor *b) {
    return a->ndim == b->ndim && memcmp(a->shape, b->shape, (size_t)a->ndim * sizeof *a->shape) == 0;
}

moon_status moon_copy(const moon_tensor *target, const moon_tensor *source) {
    moon_status s = closed(source);
    if (s == MOON_OK) s = closed(target);
    if (s != MOON_OK) return s;
    if (same_shape(target, source)) {
        s = moon_tensor_writing(target);
        return s != MOON_OK || target->numel == 0 ? s : copy_same_shape(target, source);
    }
    moon_draft wide;
    s = moon_view_expand(&wide, source, target->ndim, target->shape);
    if (s != MOON_OK) {
        char a[200], b[200];
        return moon_fail(MOON_ESHAPE, "shape %s cannot be copied into shape %s",
                         moon_shape_text(source->ndim, source->shape, a, sizeof a),
                         moon_shape_text(target->ndim, target->shape, b, sizeof b));
    }
    wide.t.storage = source->storage; /* borrowed */
    s = moon_tensor_writing(target);
    return s != MOON_OK || target->numel == 0 ? s : copy_same_shape(target, &wide.t);
}

moon_status moon_fill(const moon_tensor *target, const moon_value *value) {
    _Alignas(16) char element[16];
    moon_status s = closed(target);
    if (s == MOON_OK) s = moon_element_write((moon_dtype)target->dtype, element, value);
    if (s == MOON_OK) s = moon_tensor_writing(target);
    return s != MOON_OK || target->numel == 0 ? s : target->storage->device->backend->fill(target, element);
}

moon_status moon_element_at(const moon_tensor *t, const int64_t *index, void **out) {
    moon_status s = closed(t);
    if (s != MOON_OK) return s;
    if (t->storage->host == NULL) {
        return moon_fail(MOON_EDEVICE, "elements of a tensor on %s cannot be touched from the host; copy it with to('cpu')",
                         t->storage->device->name);
    }
    int64_t at = 0;
    for (int i = 0; i < t->ndim; i++) {
        if (index[i] < 0 || index[i] >= t->shape[i]) {
            return moon_fail(MOON_EINDEX, "index %lld is outside 1..%lld of dim %d", (long long)index[i] + 1,
                             (long long)t->shape[i], i + 1);
        }
        at += index[i] * t->strides[i];
    }
    *out = moon_data(t) + at * (int64_t)moon_itemsize(t);
    return MOON_OK;
}

/* ---- comparison ---- */

moon_status moon_equal(const moon_tensor *a, const moon_tensor *b, bool *out) {
    *out = false;
    moon_status s = closed(a);
    if (s == MOON_OK) s = closed(b);
    if (s != MOON_OK || a->dtype != b->dtype || !same_shape(a, b)) return s;
    *out = true;
    if (a->numel == 0) return MOON_OK;
    moon_operand in[2] = {{.tensor = a}, {.tensor = b}};
    moon_draft same, all;
    s = moon_op_plan(MOON_OP_eq, 2, in, &same);
    if (s == MOON_OK) s = moon_tensor_alloc(&same.t, a->storage->device);
    if (s != MOON_OK) return s;
    s = moon_op_run(MOON_OP_eq, 2, in, &same.t);
    if (s == MOON_OK) s = moon_reduce_plan(MOON_OP_all, &same.t, -1, false, &all);
    if (s == MOON_OK) s = moon_tensor_alloc(&all.t, a->storage->device);
    if (s == MOON_OK) {
        s = moon_reduce_run(MOON_OP_all, &same.t, -1, &all.t);
        uint8_t truth = 0;
        if (s == MOON_OK) s = a->storage->device->backend->download(&truth, all.t.storage, 0, 1);
        *out = truth != 0;
        moon_tensor_close(&all.t);
    }
    moon_tensor_close(&same.t);
    return s;
}

static bool is_close(double a, double b, double rtol, double atol, bool equal_nan) {
    if (a == b) return true;
    if (a != a || b != b) return equal_nan && a != a && b != b;
    double distance = a > b ? a - b : b - a, size = b < 0 ? -b : b;
    return size <= 1.7976931348623157e308 && distance <= atol + rtol * size; /* an infinity is close to itself only */
}

moon_status moon_allclose(const moon_tensor *a, const moon_tensor *b, double rtol, double atol, bool equal_nan, bool *out) {
    *out = false;
    moon_status s = closed(a);
    if (s == MOON_OK) s = closed(b);
    if (s != MOON_OK) return s;
    int64_t shape[MOON_MAXDIM];
    int ndim;
    s = moon_broadcast_shape(2, (const moon_tensor *const[]){a, b}, &ndim, shape);
    if (s != MOON_OK) return s;
    bool parts = moon_dtypes[a->dtype].kind == MOON_KIND_COMPLEX || moon_dtypes[b->dtype].kind == MOON_KIND_COMPLEX;
    moon_dtype wide = parts ? MOON_COMPLEX128 : MOON_FLOAT64;
    moon_draft x, y;
    s = moon_draft_contiguous(&x, wide, ndim, shape);
    if (s == MOON_OK) s = moon_draft_contiguous(&y, wide, ndim, shape);
    if (s == MOON_OK) s = moon_tensor_alloc(&x.t, moon_cpu());
    if (s != MOON_OK) return s;
    s = moon_tensor_alloc(&y.t, moon_cpu());
    if (s != MOON_OK) {
        moon_tensor_close(&x.t);
        return s;
    }
    s = moon_copy(&x.t, a);
    if (s == MOON_OK) s = moon_copy(&y.t, b);
    if (s == MOON_OK) {
        const double *p = (const double *)moon_data(&x.t), *q = (const double *)moon_data(&y.t);
        bool close = true;
        for (int64_t i = 0; i < x.t.numel * (parts ? 2 : 1) && close; i++) close = is_close(p[i], q[i], rtol, atol, equal_nan);
        *out = close;
    }
    moon_tensor_close(&x.t);
    moon_tensor_close(&y.t);
    return s;
}
