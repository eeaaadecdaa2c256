/* Matrix products, shapes as torch's matmul: vectors take part as a row on the left and a column on the right, leading
   dimensions broadcast. The work is in the device's matmul slot. */
#include "ops.h"

#include "../../devices/device.h"

/* a with a row dimension, b with a column dimension; which of them were added */
typedef struct operands {
    moon_draft a, b;
    bool row, column;
} operands;

static moon_status shape_error(const moon_tensor *a, const moon_tensor *b) {
    char x[200], y[200];
    return moon_fail(MOON_ESHAPE, "shapes %s and %s do not multiply", moon_shape_text(a->ndim, a->shape, x, sizeof x),
                     moon_shape_text(b->ndim, b->shape, y, sizeof y));
}

static moon_status as_matrices(const moon_tensor *a, const moon_tensor *b, operands *o) {
    if (a->storage == NULL || b->storage == NULL) return moon_fail(MOON_ECLOSED, "tensor is closed");
    if (a->ndim == 0 || b->ndim == 0) return moon_fail(MOON_ESHAPE, "matmul takes tensors of at least 1 dimension");
    if (a->storage->device != b->storage->device) {
        return moon_fail(MOON_EDEVICE, "operands of matmul are on %s and %s; move one with to()", a->storage->device->name,
                         b->storage->device->name);
    }
    o->row = a->ndim == 1;
    o->column = b->ndim == 1;
    moon_status s = o->row ? moon_view_unsqueeze(&o->a, a, 0) : moon_view_slice(&o->a, a, 0, 0, a->shape[0], 1);
    if (s == MOON_OK) s = o->column ? moon_view_unsqueeze(&o->b, b, 1) : moon_view_slice(&o->b, b, 0, 0, b->shape[0], 1);
    if (s != MOON_OK) return s;
    o->a.t.storage = a->storage, o->b.t.storage = b->storage; /* borrowed */
    return o->a.t.shape[o->a.t.ndim - 1] == o->b.t.shape[o->b.t.ndim - 2] ? MOON_OK : shape_error(a, b);
}

/* the leading dimensions of both, broadcast */
static moon_status batch_shape(const operands *o, int *ndim, int64_t *shape) {
    moon_tensor a = o->a.t, b = o->b.t;
    a.ndim -= 2, b.ndim -= 2;
    return moon_broadcast_shape(2, (const moon_tensor *const[]){&a, &b}, ndim, shape);
}

moon_status moon_matmul_plan(const moon_tensor *a, const moon_tensor *b, moon_draft *result) {
    operands o;
    int ndim;
    int64_t shape[MOON_MAXDIM];
    moon_status s = as_matrices(a, b, &o);
    if (s == MOON_OK) s = batch_shape(&o, &ndim, shape);
    if (s != MOON_OK) return s;
    if (!o.row) shape[ndim++] = o.a.t.shape[o.a.t.ndim - 2];
    if (!o.column) shape[ndim++] = o.b.t.shape[o.b.t.ndim - 1];
    return moon_draft_contiguous(result, moon_promote((moon_dtype)a->dtype, (moon_dtype)b->dtype), ndim, shape);
}

/* all batches of one matrix operand */
static moon_status expand_batch(moon_draft *out, const moon_tensor *t, int ndim, const int64_t *batch) {
    int64_t shape[MOON_MAXDIM];
    for (int i = 0; i < ndim; i++) shape[i] = batch[i];
    shape[ndim] = t->shape[t->ndim - 2];
    shape[ndim + 1] = t->shape[t->ndim - 1];
    moon_status s = moon_view_expand(out, t, ndim + 2, shape);
    out->t.storage = t->storage;
    return s;
}

static moon_status check_out(const moon_tensor *a, const moon_tensor *b, const moon_tensor *out) {
    moon_draft plan;
    moon_status s = moon_matmul_plan(a, b, &plan);
    if (s != MOON_OK) return s;
    bool fits = plan.t.ndim == out->ndim && plan.t.dtype == out->dtype && out->storage->device == a->storage->device;
    for (int i = 0; i < plan.t.ndim && fits; i++) fits = plan.t.shape[i] == out->shape[i];
    if (fits) return MOON_OK;
    char x[160], y[160];
    return moon_fail(MOON_ESHAPE, "matmul gives shape %s in %s, its output has %s in %s",
                     moon_shape_text(plan.t.ndim, plan.t.shape, x, sizeof x), moon_dtypes[plan.t.dtype].name,
                     moon_shape_text(out->ndim, out->shape, y, sizeof y), moon_dtypes[out->dtype].name);
}

/* out is a packed tensor or a view, with its row and column dimensions put back */
static moon_status run(const operands *o, const moon_tensor *out) {
    const moon_device *device = out->storage->device;
    moon_draft a, b, with_row, with_both;
    int ndim;
    int64_t batch[MOON_MAXDIM];
    moon_status s = batch_shape(o, &ndim, batch);
    if (s == MOON_OK) s = expand_batch(&a, &o->a.t, ndim, batch);
    if (s == MOON_OK) s = expand_batch(&b, &o->b.t, ndim, batch);
    const moon_tensor *t = out;
    if (s == MOON_OK && o->row) {
        s = moon_view_unsqueeze(&with_row, t, ndim);
        with_row.t.storage = out->storage;
        t = &with_row.t;
    }
    if (s == MOON_OK && o->column) {
        s = moon_view_unsqueeze(&with_both, t, ndim + 1);
        with_both.t.storage = out->storage;
        t = &with_both.t;
    }
    return s != MOON_OK ? s : device->backend->matmul(&a.t, &b.t, t);
}

moon_status moon_matmul_run(const moon_tensor *a, const moon_tensor *b, const moon_tensor *out) {
    operands o;
    moon_status s = moon_tensor_writing(out);
    if (s == MOON_OK) s = as_matrices(a, b, &o);
    if (s == MOON_OK) s = check_out(a, b, out);
    if (s != MOON_OK || out->numel == 0) return s;
    moon_device *device = out->storage->device;
    if (device->backend->matmul == NULL) return moon_fail(MOON_EUNSUPPORTED, "matmul has no kernel on %s", device->name);
    if (moon_overlap_of(out, a) == MOON_DISJOINT && moon_overlap_of(out, b) == MOON_DISJOINT) return run(&o, out);
    moon_draft temporary;
    s = moon_draft_contiguous(&temporary, (moon_dtype)out->dtype, out->ndim, out->shape);
    if (s == MOON_OK) s = moon_tensor_alloc(&temporary.t, device);
    if (s != MOON_OK) return s;
    s = run(&o, &temporary.t);
    if (s == MOON_OK) s = device->backend->copy(out, &temporary.t);
    moon_tensor_close(&temporary.t);
    return s;
}
