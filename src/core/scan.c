/* Running sums and products: dtypes and shapes here, the work in the device's scan slot. */
#include "ops.h"

#include "../../devices/device.h"

static const char *name_of(moon_op_id op) { return op == MOON_OP_sum ? "cumsum" : "cumprod"; }

moon_status moon_scan_plan(moon_op_id op, const moon_tensor *in, int dim, moon_draft *result) {
    if (in->storage == NULL) return moon_fail(MOON_ECLOSED, "tensor is closed");
    if (op != MOON_OP_sum && op != MOON_OP_prod) return moon_fail(MOON_EVALUE, "%s is not scanned", moon_ops[op].name);
    if (dim < 0 || dim >= in->ndim) return moon_fail(MOON_EINDEX, "dimension %d is outside 1..%d", dim + 1, in->ndim);
    moon_kind kind = (moon_kind)moon_dtypes[in->dtype].kind;
    moon_dtype dtype = (moon_dtype)in->dtype;
    if (kind < MOON_KIND_FLOAT) dtype = kind == MOON_KIND_UINT ? MOON_UINT64 : MOON_INT64;
    return moon_draft_contiguous(result, dtype, in->ndim, in->shape);
}

static moon_status check_out(moon_op_id op, const moon_tensor *in, const moon_draft *plan, const moon_tensor *out) {
    bool fits = plan->t.ndim == out->ndim && plan->t.dtype == out->dtype && in->storage->device == out->storage->device;
    for (int i = 0; i < plan->t.ndim && fits; i++) fits = plan->t.shape[i] == out->shape[i];
    if (fits) return MOON_OK;
    char a[160], b[160];
    return moon_fail(MOON_ESHAPE, "%s gives shape %s in %s on %s, its output has %s in %s on %s", name_of(op),
                     moon_shape_text(plan->t.ndim, plan->t.shape, a, sizeof a), moon_dtypes[plan->t.dtype].name,
                     in->storage->device->name, moon_shape_text(out->ndim, out->shape, b, sizeof b), moon_dtypes[out->dtype].name,
                     out->storage->device->name);
}

moon_status moon_scan_run(moon_op_id op, const moon_tensor *in, int dim, const moon_tensor *out) {
    moon_draft draft;
    moon_status s = moon_scan_plan(op, in, dim, &draft);
    if (s == MOON_OK) s = moon_tensor_writing(out);
    if (s == MOON_OK) s = check_out(op, in, &draft, out);
    if (s != MOON_OK || out->numel == 0) return s;
    const moon_device *device = in->storage->device;
    if (device->backend->scan == NULL) return moon_fail(MOON_EUNSUPPORTED, "%s has no kernel on %s", name_of(op), device->name);
    if (moon_overlap_of(out, in) != MOON_OVERLAP) return device->backend->scan(op, in, dim, out);
    s = moon_tensor_alloc(&draft.t, in->storage->device);
    if (s != MOON_OK) return s;
    s = device->backend->scan(op, in, dim, &draft.t);
    if (s == MOON_OK) s = device->backend->copy(out, &draft.t);
    moon_tensor_close(&draft.t);
    return s;
}
