/* Reductions: dtypes and shapes here, the work in the device's reduce slot. */
#include "ops.h"

#include "../../devices/device.h"

static moon_dtype real_of(moon_dtype dtype) {
    return dtype == MOON_COMPLEX64 ? MOON_FLOAT32 : dtype == MOON_COMPLEX128 ? MOON_FLOAT64 : dtype;
}

static moon_status refuse(moon_op_id op, moon_dtype dtype) {
    return moon_fail(MOON_EDTYPE, "%s does not take %s", moon_ops[op].name, moon_dtypes[dtype].name);
}

static moon_status reduce_dtype(moon_op_id op, moon_dtype in, moon_dtype *out) {
    moon_kind kind = (moon_kind)moon_dtypes[in].kind;
    *out = in;
    switch (op) {
    case MOON_OP_sum:
    case MOON_OP_prod:
        if (kind < MOON_KIND_FLOAT) *out = kind == MOON_KIND_UINT ? MOON_UINT64 : MOON_INT64;
        return MOON_OK;
    case MOON_OP_mean:
        if (kind < MOON_KIND_FLOAT) *out = MOON_FLOAT64;
        return MOON_OK;
    case MOON_OP_var:
    case MOON_OP_std: *out = kind < MOON_KIND_FLOAT ? MOON_FLOAT64 : real_of(in); return MOON_OK;
    case MOON_OP_min:
    case MOON_OP_max: return kind == MOON_KIND_COMPLEX ? refuse(op, in) : MOON_OK;
    case MOON_OP_argmin:
    case MOON_OP_argmax: *out = MOON_INT64; return kind == MOON_KIND_COMPLEX ? refuse(op, in) : MOON_OK;
    case MOON_OP_any:
    case MOON_OP_all: *out = MOON_BOOL; return MOON_OK;
    default: return moon_fail(MOON_EVALUE, "%s is not a reduction", moon_ops[op].name);
    }
}

static bool needs_one(moon_op_id op) {
    return op == MOON_OP_min || op == MOON_OP_max || op == MOON_OP_argmin || op == MOON_OP_argmax;
}

static moon_status check(moon_op_id op, const moon_tensor *in, int dim) {
    if (in->storage == NULL) return moon_fail(MOON_ECLOSED, "tensor is closed");
    if (dim >= in->ndim && !(dim == 0 && in->ndim == 0)) {
        return moon_fail(MOON_EINDEX, "dimension %d is outside 1..%d", dim + 1, in->ndim);
    }
    if (!needs_one(op)) return MOON_OK;
    char text[200];
    bool nothing = dim < 0 ? in->numel == 0 : in->ndim > 0 && in->shape[dim] == 0;
    if (!nothing) return MOON_OK;
    return moon_fail(MOON_EVALUE, "%s of no elements (shape %s) has no value", moon_ops[op].name,
                     moon_shape_text(in->ndim, in->shape, text, sizeof text));
}

moon_status moon_reduce_plan(moon_op_id op, const moon_tensor *in, int dim, bool keepdim, moon_draft *result) {
    moon_dtype dtype;
    moon_status s = check(op, in, dim);
    if (s == MOON_OK) s = reduce_dtype(op, (moon_dtype)in->dtype, &dtype);
    if (s != MOON_OK) return s;
    int64_t shape[MOON_MAXDIM];
    int ndim = 0;
    for (int i = 0; i < in->ndim; i++) {
        bool gone = dim < 0 || i == dim;
        if (gone && !keepdim) continue;
        shape[ndim++] = gone ? 1 : in->shape[i];
    }
    return moon_draft_contiguous(result, dtype, ndim, shape);
}

/* out's own extents of 1 do not tell whether dimensions were kept, so that both forms pass */
static moon_status check_out(moon_op_id op, const moon_tensor *in, int dim, const moon_tensor *out) {
    moon_draft plan;
    moon_status s = moon_reduce_plan(op, in, dim, out->ndim == in->ndim, &plan);
    if (s != MOON_OK) return s;
    bool fits = plan.t.ndim == out->ndim && plan.t.dtype == out->dtype;
    for (int i = 0; i < plan.t.ndim && fits; i++) fits = plan.t.shape[i] == out->shape[i];
    if (fits && out->storage->device == in->storage->device) return MOON_OK;
    char a[160], b[160];
    return moon_fail(MOON_ESHAPE, "%s gives shape %s in %s on %s, its output has %s in %s on %s", moon_ops[op].name,
                     moon_shape_text(plan.t.ndim, plan.t.shape, a, sizeof a), moon_dtypes[plan.t.dtype].name,
                     in->storage->device->name, moon_shape_text(out->ndim, out->shape, b, sizeof b), moon_dtypes[out->dtype].name,
                     out->storage->device->name);
}

moon_status moon_reduce_run(moon_op_id op, const moon_tensor *in, int dim, const moon_tensor *out) {
    moon_status s = moon_tensor_writing(out);
    if (s == MOON_OK) s = check_out(op, in, dim, out);
    if (s != MOON_OK || out->numel == 0) return s;
    const moon_device *device = in->storage->device;
    if (device->backend->reduce == NULL) {
        return moon_fail(MOON_EUNSUPPORTED, "%s has no kernel on %s", moon_ops[op].name, device->name);
    }
    if (in->ndim == 0) dim = -1;
    if (moon_overlap_of(out, in) == MOON_DISJOINT) return device->backend->reduce(op, in, dim, out);
    moon_draft temporary;
    s = moon_draft_contiguous(&temporary, (moon_dtype)out->dtype, out->ndim, out->shape);
    if (s == MOON_OK) s = moon_tensor_alloc(&temporary.t, in->storage->device);
    if (s != MOON_OK) return s;
    s = device->backend->reduce(op, in, dim, &temporary.t);
    if (s == MOON_OK) s = device->backend->copy(out, &temporary.t);
    moon_tensor_close(&temporary.t);
    return s;
}
