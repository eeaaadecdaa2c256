#include "ops.h"

#include <string.h>

#include "../../devices/device.h"
#include "memory.h"

/* ops.def's words, as the table has them */
#define CLASS_UNARY MOON_UNARY
#define CLASS_BINARY MOON_BINARY
#define CLASS_REAL MOON_UNARY
#define CLASS_COMPARE MOON_COMPARE
#define CLASS_TEST MOON_COMPARE
#define CLASS_LOGICAL MOON_LOGICAL
#define CLASS_NOT MOON_LOGICAL
#define CLASS_REDUCE MOON_REDUCE
#define ARITY_UNARY 1
#define ARITY_BINARY 2
#define ARITY_REAL 1
#define ARITY_COMPARE 2
#define ARITY_TEST 1
#define ARITY_LOGICAL 2
#define ARITY_NOT 1
#define ARITY_REDUCE 1
#define KINDS_ALL "BIUFC"
#define KINDS_NUMBER "IUFC"
#define KINDS_ORDERED "BIUF"
#define KINDS_REAL "IUF"
#define KINDS_BITS "BIU"
#define KINDS_FLOAT "FCf"
#define KINDS_FLOATREAL "Ff"
#define KINDS_TRUTH "BIUFC"
#define KINDS_SELF "BIUFC"

const moon_op moon_ops[MOON_OP_COUNT] = {
#define OP(class, name, kinds, doc, ...) [MOON_OP_##name] = {#name, CLASS_##class, ARITY_##class, KINDS_##kinds, doc},
#include "ops.def"
#undef OP
};

/* the same sets as bits, for a call on small tensors to test */
enum {
    B = 1 << MOON_KIND_BOOL,
    I = 1 << MOON_KIND_INT,
    U = 1 << MOON_KIND_UINT,
    F = 1 << MOON_KIND_FLOAT,
    C = 1 << MOON_KIND_COMPLEX
};
enum {
    BITS_ALL = B | I | U | F | C,
    BITS_NUMBER = I | U | F | C,
    BITS_ORDERED = B | I | U | F,
    BITS_REAL = I | U | F,
    BITS_BITS = B | I | U,
    BITS_FLOAT = F | C,
    BITS_FLOATREAL = F,
    BITS_TRUTH = BITS_ALL,
    BITS_SELF = BITS_ALL,
};
static const uint8_t kind_bits[MOON_OP_COUNT] = {
#define OP(class, name, kinds, doc, ...) [MOON_OP_##name] = BITS_##kinds,
#include "ops.def"
#undef OP
};

/* ---- dtypes ---- */

static moon_status refuse(const moon_op *op, moon_dtype dtype) {
    const char *hint = dtype == MOON_BOOL ? "; cast it with astype(\"int64\")" : "";
    return moon_fail(MOON_EDTYPE, "%s does not take %s%s", op->name, moon_dtypes[dtype].name, hint);
}

/* the dtype an operator computes in, given its operands' common one */
static moon_status compute_dtype(moon_op_id id, moon_dtype common, moon_dtype *out) {
    const moon_op *op = &moon_ops[id];
    *out = common;
    if (op->class == MOON_LOGICAL) return *out = MOON_BOOL, MOON_OK;
    if (kind_bits[id] >> moon_dtypes[common].kind & 1) return MOON_OK;
    if (strchr(op->kinds, 'f') == NULL || moon_dtypes[common].kind >= MOON_KIND_FLOAT) return refuse(op, common);
    *out = id == MOON_OP_div || moon_dtypes[common].size >= 4 ? MOON_FLOAT64 : MOON_FLOAT32;
    return MOON_OK;
}

static moon_dtype real_of(moon_dtype dtype) {
    return dtype == MOON_COMPLEX64 ? MOON_FLOAT32 : dtype == MOON_COMPLEX128 ? MOON_FLOAT64 : dtype;
}

static moon_dtype result_dtype(moon_op_id id, moon_dtype compute) {
    if (moon_ops[id].class == MOON_COMPARE || moon_ops[id].class == MOON_LOGICAL) return MOON_BOOL;
    return id == MOON_OP_abs || id == MOON_OP_angle ? real_of(compute) : compute;
}

/* Tensors promote among themselves; then weak scalars adjust. Without tensors, scalars have dtypes of their own. */
static moon_dtype common_dtype(int n, const moon_operand *in) {
    int dtype = -1;
    for (int k = 0; k < n; k++) {
        if (in[k].tensor == NULL) continue;
        moon_dtype d = (moon_dtype)in[k].tensor->dtype;
        dtype = dtype < 0 ? (int)d : (int)moon_promote((moon_dtype)dtype, d);
    }
    bool weak = dtype >= 0;
    for (int k = 0; k < n; k++) {
        if (in[k].tensor != NULL) continue;
        if (weak) dtype = (int)moon_promote_value(&in[k].value, (moon_dtype)dtype);
        else if (dtype < 0) dtype = (int)moon_value_dtype(&in[k].value);
        else dtype = (int)moon_promote((moon_dtype)dtype, moon_value_dtype(&in[k].value));
    }
    return (moon_dtype)dtype;
}

/* ---- operands ---- */

static moon_status check_operands(moon_op_id id, int n, const moon_operand *in, moon_device **device) {
    *device = NULL;
    if (n != moon_ops[id].arity) {
        return moon_fail(MOON_EVALUE, "%s takes %d operands, got %d", moon_ops[id].name, moon_ops[id].arity, n);
    }
    for (int k = 0; k < n; k++) {
        if (in[k].tensor == NULL) continue;
        if (in[k].tensor->storage == NULL) return moon_fail(MOON_ECLOSED, "tensor is closed");
        moon_device *d = in[k].tensor->storage->device;
        if (*device != NULL && *device != d) {
            return moon_fail(MOON_EDEVICE, "operands of %s are on %s and %s; move one with to()", moon_ops[id].name,
                             (*device)->name, d->name);
        }
        *device = d;
    }
    if (*device == NULL) *device = moon_cpu();
    return MOON_OK;
}

static moon_status result_shape(int n, const moon_operand *in, int *ndim, int64_t *shape) {
    const moon_tensor *tensors[2];
    int count = 0;
    for (int k = 0; k < n; k++) {
        if (in[k].tensor != NULL) tensors[count++] = in[k].tensor;
    }
    return moon_broadcast_shape(count, tensors, ndim, shape);
}

moon_status moon_op_plan(moon_op_id id, int n, const moon_operand *in, moon_draft *result) {
    moon_device *device;
    moon_dtype compute;
    int ndim;
    int64_t shape[MOON_MAXDIM];
    moon_status s = check_operands(id, n, in, &device);
    if (s == MOON_OK) s = compute_dtype(id, common_dtype(n, in), &compute);
    if (s == MOON_OK) s = result_shape(n, in, &ndim, shape);
    if (s != MOON_OK) return s;
    return moon_draft_contiguous(result, result_dtype(id, compute), ndim, shape);
}

/* ---- running ---- */

/* A weak scalar as an operand: a 0-d tensor over bytes on this stack frame, which any backend may read (device.h). */
typedef struct scalar {
    moon_storage storage;
    moon_tensor tensor;
    _Alignas(16) char bytes[16];
} scalar;

static void make_scalar(scalar *s, moon_dtype dtype) {
    s->storage = (moon_storage){.host = s->bytes, .nbytes = sizeof s->bytes, .readonly = true};
    s->tensor = (moon_tensor){.storage = &s->storage, .numel = 1, .dtype = (uint8_t)dtype, .readonly = 1};
}

static moon_status write_scalar(moon_op_id id, moon_dtype compute, char *bytes, const moon_value *value) {
    if (moon_ops[id].class != MOON_LOGICAL) return moon_element_write(compute, bytes, value);
    bool truth = value->kind == MOON_VALUE_BOOL      ? value->as.b
                 : value->kind == MOON_VALUE_FLOAT   ? value->as.f != 0
                 : value->kind == MOON_VALUE_COMPLEX ? value->as.c[0] != 0 || value->as.c[1] != 0
                                                     : value->as.u != 0;
    *bytes = truth;
    return MOON_OK;
}

/* An integer scalar beyond the integer dtype it is compared with: the answer is the same everywhere. */
static bool constant_comparison(moon_op_id id, moon_dtype compute, const moon_operand *in, bool *answer) {
    if (moon_ops[id].class != MOON_COMPARE || moon_ops[id].arity != 2) return false;
    if (moon_dtypes[compute].kind != MOON_KIND_INT && moon_dtypes[compute].kind != MOON_KIND_UINT) return false;
    int k = in[0].tensor == NULL ? 0 : 1;
    char bytes[16];
    if (in[k].tensor != NULL || moon_element_write(compute, bytes, &in[k].value) == MOON_OK) return false;
    bool above = in[k].value.kind == MOON_VALUE_UINT || in[k].value.as.i > 0;
    bool less = k == 0 ? !above : above; /* is the first operand less? */
    switch (id) {
    case MOON_OP_eq: *answer = false; break;
    case MOON_OP_ne: *answer = true; break;
    case MOON_OP_lt:
    case MOON_OP_le: *answer = less; break;
    default: *answer = !less;
    }
    return true;
}

static moon_status check_out(moon_op_id id, moon_dtype result, int ndim, const int64_t *shape, const moon_tensor *out,
                             moon_device *device) {
    if (out->storage == NULL) return moon_fail(MOON_ECLOSED, "tensor is closed");
    if (out->storage->device != device) {
        return moon_fail(MOON_EDEVICE, "%s works on %s, its output is on %s", moon_ops[id].name, device->name,
                         out->storage->device->name);
    }
    moon_kind have = (moon_kind)moon_dtypes[result].kind, want = (moon_kind)moon_dtypes[out->dtype].kind;
    if (have > want && !(have == MOON_KIND_UINT && want == MOON_KIND_INT)) {
        return moon_fail(MOON_EDTYPE, "%s gives %s, which cannot go into %s; cast with astype()", moon_ops[id].name,
                         moon_dtypes[result].name, moon_dtypes[out->dtype].name);
    }
    if (out->ndim == ndim && memcmp(out->shape, shape, (size_t)ndim * sizeof *shape) == 0) return MOON_OK;
    char a[200], b[200];
    return moon_fail(MOON_ESHAPE, "%s gives shape %s, its output has %s", moon_ops[id].name,
                     moon_shape_text(ndim, shape, a, sizeof a), moon_shape_text(out->ndim, out->shape, b, sizeof b));
}

/* run with operands that may overlap the output: elements of a partly overlapping one would be overwritten early */
static moon_status run_into(moon_op_id id, moon_dtype compute, const moon_tensor *out, int n, const moon_tensor *const *in) {
    const moon_backend *backend = out->storage->device->backend;
    bool clash = false;
    for (int k = 0; k < n; k++) clash = clash || (in[k]->storage->device != NULL && moon_overlap_of(out, in[k]) == MOON_OVERLAP);
    if (!clash) return backend->elementwise(id, compute, out, n, in);
    moon_draft temporary;
    moon_status s = moon_draft_contiguous(&temporary, (moon_dtype)out->dtype, out->ndim, out->shape);
    if (s == MOON_OK) s = moon_tensor_alloc(&temporary.t, out->storage->device);
    if (s != MOON_OK) return s;
    s = backend->elementwise(id, compute, &temporary.t, n, in);
    if (s == MOON_OK) s = backend->copy(out, &temporary.t);
    moon_tensor_close(&temporary.t);
    return s;
}

/* Is this a comparison of uint64 with a signed dtype, which no common dtype holds? The signed operand's number, or -1. */
static int mixed_signs(moon_op_id id, const moon_operand *in) {
    if (moon_ops[id].class != MOON_COMPARE || moon_ops[id].arity != 2) return -1;
    const moon_tensor *a = in[0].tensor, *b = in[1].tensor;
    if (a == NULL || b == NULL) return -1;
    if (a->dtype == MOON_UINT64 && moon_dtypes[b->dtype].kind == MOON_KIND_INT) return 1;
    return b->dtype == MOON_UINT64 && moon_dtypes[a->dtype].kind == MOON_KIND_INT ? 0 : -1;
}

/* Exactly, as NumPy: compared as uint64, then put right where the signed operand is negative. */
static moon_status compare_signs(moon_op_id id, int with, const moon_tensor *out, const moon_tensor *const *in) {
    scalar zero;
    moon_draft spread, mask;
    bool less = id == MOON_OP_lt || id == MOON_OP_le, greater = id == MOON_OP_gt || id == MOON_OP_ge;
    bool truth = id == MOON_OP_ne || (with == 0 ? less : greater);
    make_scalar(&zero, MOON_INT64);
    memset(zero.bytes, 0, sizeof zero.bytes);
    moon_status s = moon_view_expand(&spread, &zero.tensor, out->ndim, out->shape);
    if (s == MOON_OK) s = moon_draft_contiguous(&mask, MOON_BOOL, out->ndim, out->shape);
    if (s == MOON_OK) s = moon_tensor_alloc(&mask.t, out->storage->device);
    if (s != MOON_OK) return s;
    spread.t.storage = &zero.storage; /* borrowed */
    s = run_into(MOON_OP_lt, MOON_INT64, &mask.t, 2, (const moon_tensor *const[]){in[with], &spread.t});
    if (s == MOON_OK) s = run_into(id, MOON_UINT64, out, 2, in);
    if (s == MOON_OK) {
        const moon_tensor *both[] = {out, &mask.t};
        s = run_into(truth ? MOON_OP_logical_or : MOON_OP_gt, MOON_BOOL, out, 2, both);
    }
    moon_tensor_close(&mask.t);
    return s;
}

static bool same_shape(const moon_tensor *a, const moon_tensor *b) {
    if (a->ndim != b->ndim) return false;
    for (int i = 0; i < a->ndim; i++) {
        if (a->shape[i] != b->shape[i]) return false;
    }
    return true;
}

moon_status moon_op_run(moon_op_id id, int n, const moon_operand *in, const moon_tensor *out) {
    moon_device *device;
    moon_dtype compute;
    int ndim;
    int64_t shape[MOON_MAXDIM];
    moon_status s = check_operands(id, n, in, &device);
    if (s == MOON_OK) s = compute_dtype(id, common_dtype(n, in), &compute);
    if (s == MOON_OK) s = result_shape(n, in, &ndim, shape);
    if (s == MOON_OK) s = check_out(id, result_dtype(id, compute), ndim, shape, out, device);
    if (s == MOON_OK) s = moon_tensor_writing(out);
    if (s != MOON_OK) return s;
    bool answer;
    if (constant_comparison(id, compute, in, &answer)) { return moon_fill(out, &(moon_value){MOON_VALUE_BOOL, {.b = answer}}); }
    scalar scalars[2];
    moon_draft wide[2];
    const moon_tensor *operands[2];
    for (int k = 0; k < n; k++) {
        const moon_tensor *t = in[k].tensor;
        if (t == NULL) {
            make_scalar(&scalars[k], compute);
            s = write_scalar(id, compute, scalars[k].bytes, &in[k].value);
            if (s != MOON_OK) return s;
            t = &scalars[k].tensor;
        }
        if (!same_shape(t, out)) {
            s = moon_view_expand(&wide[k], t, out->ndim, out->shape);
            if (s != MOON_OK) return s;
            wide[k].t.storage = t->storage; /* borrowed */
            t = &wide[k].t;
        }
        operands[k] = t;
    }
    if (out->numel == 0) return MOON_OK; /* only now: scalars that do not fit are refused beside no elements too */
    if (device->backend->elementwise == NULL) {
        return moon_fail(MOON_EUNSUPPORTED, "%s has no kernel on %s", moon_ops[id].name, device->name);
    }
    int with = mixed_signs(id, in);
    if (with >= 0) return compare_signs(id, with, out, operands);
    return run_into(id, compute, out, n, operands);
}

/* ---- the frequent case ---- */

/* strides as moon_draft_contiguous makes them, those of size-1 dimensions too */
static bool is_row_major(const moon_tensor *t) {
    int64_t stride = 1;
    for (int i = t->ndim; i-- > 0; stride *= t->shape[i]) {
        if (t->strides[i] != stride || t->shape[i] == 0) return false;
    }
    return true;
}

bool moon_op_is_plain(moon_op_id id, int n, const moon_operand *in, moon_dtype *result) {
    const moon_tensor *a = in[0].tensor;
    if (a == NULL || n != moon_ops[id].arity || a->storage == NULL || moon_ops[id].class == MOON_LOGICAL) return false;
    moon_dtype dtype = (moon_dtype)a->dtype;
    if ((kind_bits[id] >> moon_dtypes[dtype].kind & 1) == 0 || !is_row_major(a)) return false;
    if (n > 1) {
        const moon_tensor *b = in[1].tensor;
        bool number = in[1].value.kind == MOON_VALUE_FLOAT || in[1].value.kind == MOON_VALUE_INT;
        if (b == NULL && !(number && moon_dtypes[dtype].kind == MOON_KIND_FLOAT)) return false;
        if (b != NULL && (b->dtype != a->dtype || b->storage == NULL || b->storage->device != a->storage->device)) return false;
        if (b != NULL && !same_shape(a, b)) return false;
    }
    *result = result_dtype(id, dtype);
    return a->storage->device->backend->elementwise != NULL;
}

enum { FEW = 1024 };

moon_status moon_op_run_plain(moon_op_id id, int n, const moon_operand *in, const moon_tensor *out) {
    const moon_tensor *operands[2] = {in[0].tensor, n > 1 ? in[1].tensor : NULL};
    moon_dtype compute = (moon_dtype)in[0].tensor->dtype;
    const moon_backend *backend = out->storage->device->backend;
    bool number = n > 1 && operands[1] == NULL;
    scalar value;
    if (number) {
        make_scalar(&value, compute);
        moon_status s = write_scalar(id, compute, value.bytes, &in[1].value);
        if (s != MOON_OK) return s;
    }
    if (out->numel <= FEW && backend->few != NULL && (operands[1] == NULL || is_row_major(operands[1]))) {
        const void *b = number ? value.bytes : n > 1 ? moon_data(operands[1]) : NULL;
        if (backend->few(id, compute, moon_data(out), moon_data(operands[0]), b, !number && n > 1, out->numel)) return MOON_OK;
    }
    if (!number) return backend->elementwise(id, compute, out, n, operands);
    int64_t zeros[MOON_MAXDIM];
    for (int i = 0; i < out->ndim; i++) zeros[i] = 0;
    value.tensor.ndim = out->ndim, value.tensor.numel = out->numel;
    value.tensor.shape = out->shape, value.tensor.strides = zeros;
    operands[1] = &value.tensor;
    return backend->elementwise(id, compute, out, n, operands);
}

moon_status moon_where_run(const moon_tensor *mask, const moon_operand *ab, const moon_tensor *out) {
    const moon_backend *backend = out->storage->device->backend;
    if (backend->where == NULL) {
        return moon_fail(MOON_EUNSUPPORTED, "where has no kernel on %s; move the tensors with x:to(\"cpu\")",
                         out->storage->device->name);
    }
    moon_draft wide[3];
    scalar values[2];
    for (int k = 0; k < 3; k++) {
        const moon_tensor *t = k == 0 ? mask : ab[k - 1].tensor;
        moon_status s = MOON_OK;
        if (t == NULL) {
            make_scalar(&values[k - 1], (moon_dtype)out->dtype);
            s = moon_element_write((moon_dtype)out->dtype, values[k - 1].bytes, &ab[k - 1].value);
            t = &values[k - 1].tensor;
        } else if (t->storage == NULL) {
            return moon_fail(MOON_ECLOSED, "tensor is closed");
        } else if (t->storage->device != out->storage->device) {
            return moon_fail(MOON_EDEVICE, "operands of where are on %s and %s; move one with to()", t->storage->device->name,
                             out->storage->device->name);
        }
        if (s == MOON_OK) s = moon_view_expand(&wide[k], t, out->ndim, out->shape);
        if (s != MOON_OK) return s;
        wide[k].t.storage = t->storage; /* borrowed */
    }
    return out->numel == 0 ? MOON_OK : backend->where(&wide[0].t, &wide[1].t, &wide[2].t, out);
}

/* ---- creation ---- */

static moon_status host_only(const moon_tensor *out) {
    if (out->storage == NULL) return moon_fail(MOON_ECLOSED, "tensor is closed");
    return MOON_OK;
}

/* Sequences are made on the host, packed, in the widest dtype of their kind, then copied with the cast. */
typedef void (*generator)(void *elements, int64_t n, const void *context);

static moon_status generate(const moon_tensor *out, moon_dtype wide, generator make, const void *context) {
    moon_status s = host_only(out);
    if (s != MOON_OK) return s;
    moon_draft draft;
    s = moon_draft_contiguous(&draft, wide, out->ndim, out->shape);
    if (s == MOON_OK) s = moon_tensor_alloc(&draft.t, moon_cpu());
    if (s != MOON_OK) return s;
    make(moon_data(&draft.t), draft.t.numel, context);
    s = moon_copy(out, &draft.t);
    moon_tensor_close(&draft.t);
    return s;
}

typedef struct float_range {
    double first, step, last;
} float_range;

static void make_floats(void *elements, int64_t n, const void *context) {
    const float_range *r = context;
    double *x = elements;
    for (int64_t i = 0; i < n; i++) x[i] = r->first + (double)i * r->step;
}

/* both ends exactly, each half counted from its own end (as torch) */
static void make_between(void *elements, int64_t n, const void *context) {
    const float_range *r = context;
    double *x = elements;
    for (int64_t i = 0; i < n; i++)
        x[i] = i < n / 2 || n == 1 ? r->first + (double)i * r->step : r->last - (double)(n - 1 - i) * r->step;
}

typedef struct integer_range {
    int64_t first, step;
} integer_range;

static void make_integers(void *elements, int64_t n, const void *context) {
    const integer_range *r = context;
    int64_t *x = elements;
    for (int64_t i = 0; i < n; i++) x[i] = (int64_t)((uint64_t)r->first + (uint64_t)i * (uint64_t)r->step);
}

moon_status moon_arange(const moon_tensor *out, double first, double step) {
    return generate(out, MOON_FLOAT64, make_floats, &(float_range){.first = first, .step = step});
}

moon_status moon_arange_int(const moon_tensor *out, int64_t first, int64_t step) {
    return generate(out, MOON_INT64, make_integers, &(integer_range){first, step});
}

moon_status moon_linspace(const moon_tensor *out, double first, double last) {
    double step = out->numel > 1 ? (last - first) / (double)(out->numel - 1) : 0;
    return generate(out, MOON_FLOAT64, make_between, &(float_range){first, step, last});
}
