#include "index.h"

#include <string.h>

#include "../../devices/device.h"

static moon_status closed(const moon_tensor *t) {
    return t->storage == NULL ? moon_fail(MOON_ECLOSED, "tensor is closed") : MOON_OK;
}

moon_status moon_index_check(const moon_tensor *index) {
    if (index->storage == NULL) return moon_fail(MOON_ECLOSED, "tensor is closed");
    moon_kind kind = (moon_kind)moon_dtypes[index->dtype].kind;
    if (kind == MOON_KIND_BOOL || kind == MOON_KIND_INT || kind == MOON_KIND_UINT) return MOON_OK;
    return moon_fail(MOON_EDTYPE, "an index tensor holds integers or booleans, this one %s; x:astype(\"int64\") makes integers",
                     moon_dtypes[index->dtype].name);
}

static bool is_mask(const moon_tensor *index) { return index->dtype == MOON_BOOL; }

static bool same_shape(const moon_tensor *a, const moon_tensor *b) {
    return a->ndim == b->ndim && memcmp(a->shape, b->shape, (size_t)a->ndim * sizeof *a->shape) == 0;
}

/* t as booleans that the host can read: itself, or a copy in `copy` (closed by the caller: it has no storage otherwise) */
static moon_status host_mask(const moon_tensor *t, moon_draft *copy, const moon_tensor **out) {
    copy->t.storage = NULL;
    moon_status s = closed(t);
    if (s != MOON_OK) return s;
    *out = t;
    if (t->dtype == MOON_BOOL && (t->storage->host || t->numel == 0)) return MOON_OK;
    s = moon_draft_contiguous(copy, MOON_BOOL, t->ndim, t->shape);
    if (s == MOON_OK) s = moon_tensor_alloc(&copy->t, moon_cpu());
    if (s != MOON_OK) return s;
    *out = &copy->t;
    s = moon_copy(&copy->t, t);
    if (s != MOON_OK) moon_tensor_close(&copy->t);
    return s;
}

/* ---- walking masks ---- */

/* The rows of a mask, and beside each the byte offset of the same place elsewhere. Neighbouring dimensions that run on in both are
   merged; dimension 0 is the innermost. */
typedef struct walk {
    int ndim;
    int64_t extent[MOON_MAXDIM + 1], step[MOON_MAXDIM + 1], other[MOON_MAXDIM + 1], index[MOON_MAXDIM + 1];
    const uint8_t *at;
    int64_t offset;
    bool done;
} walk;

/* steps: bytes a step of each dimension of the mask moves the offset */
static void walk_init(walk *w, const moon_tensor *mask, const int64_t *steps) {
    *w = (walk){.at = (const uint8_t *)moon_data(mask), .done = mask->numel == 0};
    for (int d = mask->ndim; d-- > 0;) {
        if (mask->shape[d] == 1) continue;
        int last = w->ndim - 1;
        if (last >= 0 && mask->strides[d] == w->step[last] * w->extent[last] && steps[d] == w->other[last] * w->extent[last]) {
            w->extent[last] *= mask->shape[d];
            continue;
        }
        w->extent[w->ndim] = mask->shape[d];
        w->step[w->ndim] = mask->strides[d];
        w->other[w->ndim++] = steps[d];
    }
    if (w->ndim == 0) w->extent[w->ndim++] = 1;
}

static void walk_next(walk *w) {
    for (int d = 1; d < w->ndim; d++) {
        w->at += w->step[d];
        w->offset += w->other[d];
        if (++w->index[d] < w->extent[d]) return;
        w->at -= w->step[d] * w->extent[d];
        w->offset -= w->other[d] * w->extent[d];
        w->index[d] = 0;
    }
    w->done = true;
}

static int64_t count_true(const moon_tensor *mask) {
    static const int64_t nowhere[MOON_MAXDIM];
    int64_t count = 0;
    walk w;
    /* offsets of 0 merge only where the mask itself does */
    for (walk_init(&w, mask, nowhere); !w.done; walk_next(&w)) {
        for (int64_t i = 0; i < w.extent[0]; i++) count += w.at[i * w.step[0]] != 0;
    }
    return count;
}

/* The offsets of the true elements, n of them. Where there is room for a whole stretch it goes without branches, which a random mask
   makes expensive. */
static moon_status mask_offsets(const moon_tensor *mask, const int64_t *steps, int64_t *out, int64_t n) {
    enum { STRETCH = 64 };
    int64_t count = 0;
    walk w;
    for (walk_init(&w, mask, steps); !w.done; walk_next(&w)) {
        for (int64_t i = 0, end; i < w.extent[0]; i = end) {
            end = w.extent[0] - i < STRETCH ? w.extent[0] : i + STRETCH;
            if (n - count >= STRETCH) {
                for (; i < end; i++) {
                    out[count] = w.offset + i * w.other[0];
                    count += w.at[i * w.step[0]] != 0;
                }
                continue;
            }
            for (; i < end; i++) {
                if (w.at[i * w.step[0]] == 0) continue;
                if (count == n) return moon_fail(MOON_EVALUE, "the mask changed while it was used as an index");
                out[count++] = w.offset + i * w.other[0];
            }
        }
    }
    return count == n ? MOON_OK : moon_fail(MOON_EVALUE, "the mask changed while it was used as an index");
}

/* ---- the plan ---- */

typedef struct part {
    const moon_tensor *index;
    int dim;        /* of the indexed tensor, the first one for a mask */
    int64_t count;  /* of a mask's true elements */
    moon_tensor as; /* the shape that takes part in broadcasting; its pointers lead to the index or to count */
} part;

/* Which elements x[…] selects: those at kept + offset, for every offset and every index of what is kept. The offsets' dimensions
   stand before dimension `at` of what is kept. */
typedef struct plan {
    moon_draft kept;
    int at, parts, ndim;
    int64_t n, shape[MOON_MAXDIM]; /* of the offsets */
    part part[MOON_MAXDIM];
} plan;

/* k counts from 1, as its user wrote it */
static moon_status bad_index(int64_t k, int64_t extent, int dim) {
    return moon_fail(MOON_EINDEX, "index %lld is out of range 1..%lld of dimension %d", (long long)k, (long long)extent, dim + 1);
}

static moon_status bad_place(int64_t first, int64_t extent, int dim) {
    return bad_index(first < INT64_MAX ? first + 1 : first, extent, dim);
}

static void keep_dim(moon_tensor *kept, int64_t extent, int64_t stride) {
    kept->shape[kept->ndim] = extent;
    kept->strides[kept->ndim++] = stride;
    kept->numel *= extent;
}

static moon_status take_part(plan *p, const moon_tensor *t, const moon_tensor *index, int dim) {
    part *new = &p->part[p->parts++];
    *new = (part){.index = index, .dim = dim};
    moon_status s = moon_index_check(index);
    if (s != MOON_OK) return s;
    if (!is_mask(index)) {
        new->as = *index;
        return MOON_OK;
    }
    if (index->ndim > t->ndim - dim || memcmp(index->shape, t->shape + dim, (size_t)index->ndim * sizeof *t->shape) != 0) {
        char mask[200], have[200];
        return moon_fail(MOON_ESHAPE, "a mask of shape %s does not fit shape %s from dimension %d on",
                         moon_shape_text(index->ndim, index->shape, mask, sizeof mask),
                         moon_shape_text(t->ndim, t->shape, have, sizeof have), dim + 1);
    }
    moon_draft copy;
    const moon_tensor *here;
    s = host_mask(index, &copy, &here);
    if (s != MOON_OK) return s;
    new->count = count_true(here);
    moon_tensor_close(&copy.t);
    new->as = (moon_tensor){.ndim = 1, .shape = &new->count, .numel = new->count};
    return MOON_OK;
}

static moon_status take_entry(plan *p, const moon_tensor *t, const moon_index *index, int *dim) {
    moon_tensor *kept = &p->kept.t;
    int64_t size = (int64_t)moon_itemsize(t);
    bool mask = index->kind == MOON_INDEX_TENSOR && is_mask(index->tensor);
    if (!mask && *dim >= t->ndim) return moon_fail(MOON_EINDEX, "more indices than the %d dimensions of the tensor", t->ndim);
    int64_t extent = mask ? 0 : t->shape[*dim], stride = mask ? 0 : t->strides[*dim], last = index->first;
    moon_status s = MOON_OK;
    switch (index->kind) {
    case MOON_INDEX_AT:
        if (index->first < 0 || index->first >= extent) return bad_place(index->first, extent, *dim);
        kept->offset += index->first * stride * size;
        break;
    case MOON_INDEX_RANGE:
        if (index->count > 0) {
            bool wild = __builtin_mul_overflow(index->count - 1, index->step, &last) ||
                        __builtin_add_overflow(last, index->first, &last);
            if (index->first < 0 || index->first >= extent) return bad_place(index->first, extent, *dim);
            if (wild || last < 0 || last >= extent) return bad_place(wild ? INT64_MAX : last, extent, *dim);
            kept->offset += index->first * stride * size;
        }
        keep_dim(kept, index->count, index->count > 1 ? stride * index->step : stride);
        break;
    default: s = take_part(p, t, index->tensor, *dim);
    }
    *dim += mask ? index->tensor->ndim : 1;
    return s;
}

/* Where NumPy puts the indices' dimensions: in the place of the indices where those stand side by side, integers among them, else
   in front. */
static moon_status make_plan(plan *p, const moon_tensor *t, int n, const moon_index *index) {
    enum { BEFORE, INSIDE, BEHIND, APART } state = BEFORE;
    moon_status s = closed(t);
    if (s != MOON_OK) return s;
    moon_tensor *kept = &p->kept.t;
    moon_draft_init(&p->kept, (moon_dtype)t->dtype, 0);
    kept->offset = t->offset;
    kept->numel = 1;
    kept->storage = t->storage;
    p->parts = p->at = 0;
    if (n > MOON_MAXDIM) return moon_fail(MOON_EINDEX, "%d indices, at most %d are supported", n, MOON_MAXDIM);
    int dim = 0;
    for (int i = 0; i < n; i++) {
        bool range = index[i].kind == MOON_INDEX_RANGE;
        if (state == BEFORE && !range) state = INSIDE, p->at = kept->ndim;
        else if (state == INSIDE && range) state = BEHIND;
        else if (state == BEHIND && !range) state = APART, p->at = 0;
        s = take_entry(p, t, &index[i], &dim);
        if (s != MOON_OK) return s;
    }
    for (; dim < t->ndim; dim++) keep_dim(kept, t->shape[dim], t->strides[dim]);
    const moon_tensor *shapes[MOON_MAXDIM];
    for (int i = 0; i < p->parts; i++) shapes[i] = &p->part[i].as;
    p->ndim = 0;
    if (p->parts > 0) s = moon_broadcast_shape(p->parts, shapes, &p->ndim, p->shape);
    if (s != MOON_OK) return s;
    if (p->ndim + kept->ndim > MOON_MAXDIM) {
        return moon_fail(MOON_ESHAPE, "%d dimensions, at most %d are supported", p->ndim + kept->ndim, MOON_MAXDIM);
    }
    moon_draft offsets; /* refuses what overflows */
    s = moon_draft_contiguous(&offsets, MOON_INT64, p->ndim, p->shape);
    p->n = offsets.t.numel;
    return s;
}

/* the plan's whole shape; flat: with one dimension for all of the indices' */
static int result_shape(const plan *p, bool flat, int64_t *shape) {
    int n = 0;
    for (int d = 0; d < p->at; d++) shape[n++] = p->kept.t.shape[d];
    if (flat) shape[n++] = p->n;
    else
        for (int d = 0; d < p->ndim; d++) shape[n++] = p->shape[d];
    for (int d = p->at; d < p->kept.t.ndim; d++) shape[n++] = p->kept.t.shape[d];
    return n;
}

moon_status moon_index_plan(const moon_tensor *t, int n, const moon_index *index, moon_draft *result) {
    plan p;
    int64_t shape[MOON_MAXDIM];
    moon_status s = make_plan(&p, t, n, index);
    return s != MOON_OK ? s : moon_draft_contiguous(result, (moon_dtype)t->dtype, result_shape(&p, false, shape), shape);
}

/* ---- offsets ---- */

/* new packed int64 on the host */
static moon_status new_offsets(moon_draft *out, int ndim, const int64_t *shape) {
    moon_status s = moon_draft_contiguous(out, MOON_INT64, ndim, shape);
    return s != MOON_OK ? s : moon_tensor_alloc(&out->t, moon_cpu());
}

/* an index tensor's values as byte offsets along dimension dim of t, every one checked */
static moon_status integer_offsets(moon_draft *out, const moon_tensor *index, const moon_tensor *t, int dim) {
    moon_status s = new_offsets(out, index->ndim, index->shape);
    if (s != MOON_OK) return s;
    s = moon_copy(&out->t, index);
    int64_t extent = t->shape[dim], step = t->strides[dim] * (int64_t)moon_itemsize(t);
    int64_t *p = (int64_t *)moon_data(&out->t);
    bool wraps = index->dtype == MOON_UINT64; /* above INT64_MAX it is no negative index */
    int64_t i = s == MOON_OK ? 0 : out->t.numel;
    for (; i < out->t.numel; i++) {
        int64_t k = p[i], at = k < 0 ? k + extent : k - 1;
        if (at < 0 || at >= extent || (wraps && k < 0)) break;
        p[i] = at * step;
    }
    if (i < out->t.numel && wraps) {
        s = moon_fail(MOON_EINDEX, "index %llu is out of range 1..%lld of dimension %d", (unsigned long long)p[i],
                      (long long)extent, dim + 1);
    } else if (i < out->t.numel) {
        s = bad_index(p[i], extent, dim);
    }
    if (s != MOON_OK) moon_tensor_close(&out->t);
    return s;
}

static moon_status part_offsets(moon_draft *out, const part *of, const moon_tensor *t) {
    if (!is_mask(of->index)) return integer_offsets(out, of->index, t, of->dim);
    int64_t steps[MOON_MAXDIM];
    for (int d = 0; d < of->index->ndim; d++) steps[d] = t->strides[of->dim + d] * (int64_t)moon_itemsize(t);
    moon_draft copy;
    const moon_tensor *here;
    moon_status s = host_mask(of->index, &copy, &here);
    if (s != MOON_OK) return s;
    s = new_offsets(out, 1, &of->count);
    if (s == MOON_OK) {
        s = mask_offsets(here, steps, (int64_t *)moon_data(&out->t), of->count);
        if (s != MOON_OK) moon_tensor_close(&out->t);
    }
    moon_tensor_close(&copy.t);
    return s;
}

/* sum += more, broadcast */
static moon_status add_offsets(const moon_tensor *sum, const moon_tensor *more) {
    const moon_operand in[2] = {{.tensor = sum}, {.tensor = more}};
    return moon_op_run(MOON_OP_add, 2, in, sum);
}

/* the sum of all parts in the broadcast shape; out->t is closed by the caller */
static moon_status plan_offsets(moon_draft *out, const plan *p, const moon_tensor *t) {
    moon_draft next;
    moon_status s = p->parts > 0 ? part_offsets(out, &p->part[0], t) : new_offsets(out, 0, NULL);
    if (s != MOON_OK) return s;
    if (p->parts == 0) *(int64_t *)moon_data(&out->t) = 0;
    if (p->parts > 1) { /* room for the broadcast shape */
        moon_draft wide;
        s = new_offsets(&wide, p->ndim, p->shape);
        if (s == MOON_OK) s = moon_copy(&wide.t, &out->t);
        moon_tensor_close(&out->t);
        if (s != MOON_OK) {
            moon_tensor_close(&wide.t);
            return s;
        }
        moon_layout_copy(&out->t, &wide.t);
        out->t.storage = wide.t.storage;
    }
    for (int i = 1; i < p->parts && s == MOON_OK; i++) {
        s = part_offsets(&next, &p->part[i], t);
        if (s != MOON_OK) break;
        s = add_offsets(&out->t, &next.t);
        moon_tensor_close(&next.t);
    }
    if (s != MOON_OK) moon_tensor_close(&out->t);
    return s;
}

/* ---- moving ---- */

static moon_status unsupported(const moon_device *device) {
    return moon_fail(MOON_EUNSUPPORTED, "indexing by tensors does not run on %s; move the tensor with x:to(\"cpu\")",
                     device->name);
}

/* out, packed and of the plan's shape, from what the plan and the offsets name */
static moon_status get(const plan *p, const int64_t *offsets, const moon_tensor *out) {
    moon_draft flat;
    int64_t shape[MOON_MAXDIM + 1];
    const moon_backend *backend = p->kept.t.storage->device->backend;
    if (backend->index_get == NULL) return unsupported(p->kept.t.storage->device);
    if (out->numel == 0) return MOON_OK;
    moon_status s = moon_view_reshape(&flat, out, result_shape(p, true, shape), shape);
    if (s != MOON_OK) return s;
    flat.t.storage = out->storage;
    return backend->index_get(&flat.t, &p->kept.t, p->at, offsets);
}

moon_status moon_index_get(const moon_tensor *t, int n, const moon_index *index, const moon_tensor *out) {
    plan p;
    moon_draft offsets;
    int64_t shape[MOON_MAXDIM];
    moon_status s = make_plan(&p, t, n, index);
    if (s == MOON_OK) s = closed(out);
    if (s != MOON_OK) return s;
    moon_tensor whole = {.ndim = result_shape(&p, false, shape), .shape = shape};
    if (!same_shape(out, &whole)) return moon_fail(MOON_EVALUE, "the index changed while it was used");
    s = plan_offsets(&offsets, &p, t);
    if (s != MOON_OK) return s;
    s = get(&p, (const int64_t *)moon_data(&offsets.t), out);
    moon_tensor_close(&offsets.t);
    return s;
}

/* The value to put, in the flat shape: a view of it where its dtype and place allow, else a packed copy that `copy` owns. */
static moon_status flat_value(const plan *p, const moon_tensor *t, const moon_tensor *value, moon_draft *copy, moon_draft *out) {
    moon_draft wide;
    int64_t shape[MOON_MAXDIM + 1];
    int ndim = result_shape(p, false, shape);
    moon_status s = closed(value);
    if (s != MOON_OK) return s;
    if (moon_view_expand(&wide, value, ndim, shape) != MOON_OK) {
        char a[200], b[200];
        return moon_fail(MOON_ESHAPE, "shape %s cannot be copied into shape %s",
                         moon_shape_text(value->ndim, value->shape, a, sizeof a), moon_shape_text(ndim, shape, b, sizeof b));
    }
    wide.t.storage = value->storage;
    const moon_tensor *from = &wide.t;
    int64_t flat[MOON_MAXDIM + 1];
    int flat_ndim = result_shape(p, true, flat);
    bool direct = value->dtype == t->dtype && value->storage->device == t->storage->device &&
                  moon_overlap_of(t, value) == MOON_DISJOINT && moon_view_reshape(out, from, flat_ndim, flat) == MOON_OK;
    if (!direct) {
        s = moon_draft_contiguous(copy, (moon_dtype)t->dtype, ndim, shape);
        if (s == MOON_OK) s = moon_tensor_alloc(&copy->t, t->storage->device);
        if (s == MOON_OK) s = moon_copy(&copy->t, from);
        if (s == MOON_OK) s = moon_view_reshape(out, &copy->t, flat_ndim, flat);
        from = &copy->t;
    }
    out->t.storage = from->storage;
    return s;
}

/* a weak scalar in the flat shape */
typedef struct scalar {
    moon_storage storage;
    _Alignas(16) char bytes[16];
} scalar;

static moon_status flat_scalar(const plan *p, const moon_tensor *t, const moon_value *value, scalar *box, moon_draft *out) {
    moon_status s = moon_element_write((moon_dtype)t->dtype, box->bytes, value);
    if (s != MOON_OK) return s;
    box->storage = (moon_storage){.host = box->bytes, .nbytes = sizeof box->bytes, .readonly = true};
    moon_draft_init(out, (moon_dtype)t->dtype, 0);
    out->t.ndim = result_shape(p, true, out->t.shape);
    out->t.numel = p->n * p->kept.t.numel;
    memset(out->t.strides, 0, (size_t)out->t.ndim * sizeof *out->t.strides);
    out->t.storage = &box->storage;
    return MOON_OK;
}

static moon_status put(const plan *p, const moon_tensor *t, const int64_t *offsets, const moon_operand *value) {
    moon_draft copy, flat;
    scalar box;
    const moon_backend *backend = t->storage->device->backend;
    if (backend->index_put == NULL) return unsupported(t->storage->device);
    if (p->kept.t.ndim == MOON_MAXDIM) return moon_fail(MOON_ESHAPE, "a mask beside %d dimensions", MOON_MAXDIM);
    copy.t.storage = NULL;
    moon_status s = value->tensor ? flat_value(p, t, value->tensor, &copy, &flat) : flat_scalar(p, t, &value->value, &box, &flat);
    if (s == MOON_OK) s = moon_tensor_writing(t);
    if (s == MOON_OK && flat.t.numel > 0) s = backend->index_put(&p->kept.t, p->at, offsets, &flat.t);
    moon_tensor_close(&copy.t);
    return s;
}

moon_status moon_index_put(const moon_tensor *t, int n, const moon_index *index, const moon_operand *value) {
    plan p;
    moon_draft offsets;
    moon_status s = make_plan(&p, t, n, index);
    if (s == MOON_OK) s = plan_offsets(&offsets, &p, t);
    if (s != MOON_OK) return s;
    s = put(&p, t, (const int64_t *)moon_data(&offsets.t), value);
    moon_tensor_close(&offsets.t);
    return s;
}

/* ---- gather and scatter ---- */

static moon_status check_gather(const moon_tensor *t, int dim, const moon_tensor *index) {
    moon_status s = closed(t);
    if (s == MOON_OK) s = moon_index_check(index);
    if (s != MOON_OK) return s;
    if (is_mask(index)) return moon_fail(MOON_EDTYPE, "the index holds integers, this one holds booleans");
    if (dim < 0 || dim >= t->ndim) return moon_fail(MOON_EINDEX, "dimension %d is outside 1..%d", dim + 1, t->ndim);
    bool fits = index->ndim == t->ndim;
    for (int d = 0; d < t->ndim && fits && index->numel > 0; d++) fits = d == dim || index->shape[d] <= t->shape[d];
    if (fits) return MOON_OK;
    char a[200], b[200];
    return moon_fail(MOON_ESHAPE, "an index of shape %s does not fit shape %s: as many dimensions, none longer but dimension %d",
                     moon_shape_text(index->ndim, index->shape, a, sizeof a), moon_shape_text(t->ndim, t->shape, b, sizeof b),
                     dim + 1);
}

/* add to every offset that of its own place, along all dimensions but dim */
static void add_places(moon_tensor *offsets, const moon_tensor *t, int dim) {
    int64_t step[MOON_MAXDIM], index[MOON_MAXDIM] = {0}, base = 0, *p = (int64_t *)moon_data(offsets);
    int last = offsets->ndim - 1;
    for (int d = 0; d <= last; d++) step[d] = d == dim ? 0 : t->strides[d] * (int64_t)moon_itemsize(t);
    int64_t n = offsets->shape[last];
    for (int64_t done = 0; done < offsets->numel; done += n) {
        for (int64_t i = 0; i < n; i++) *p++ += base + i * step[last];
        for (int d = last; d-- > 0;) {
            base += step[d];
            if (++index[d] < offsets->shape[d]) break;
            base -= step[d] * offsets->shape[d];
            index[d] = 0;
        }
    }
}

/* every element by its own offset: nothing is kept */
static moon_status place_plan(plan *p, moon_draft *offsets, const moon_tensor *t, int dim, const moon_tensor *index) {
    moon_status s = check_gather(t, dim, index);
    if (s == MOON_OK) s = integer_offsets(offsets, index, t, dim);
    if (s != MOON_OK) return s;
    if (index->numel > 0) add_places(&offsets->t, t, dim);
    moon_draft_init(&p->kept, (moon_dtype)t->dtype, 0);
    p->kept.t.offset = t->offset;
    p->kept.t.storage = t->storage;
    p->kept.t.numel = 1;
    p->at = p->parts = 0;
    p->ndim = index->ndim;
    p->n = index->numel;
    memcpy(p->shape, index->shape, (size_t)index->ndim * sizeof *p->shape);
    return MOON_OK;
}

moon_status moon_index_gather_plan(const moon_tensor *t, int dim, const moon_tensor *index, moon_draft *result) {
    moon_status s = check_gather(t, dim, index);
    return s != MOON_OK ? s : moon_draft_contiguous(result, (moon_dtype)t->dtype, index->ndim, index->shape);
}

moon_status moon_index_gather(const moon_tensor *t, int dim, const moon_tensor *index, const moon_tensor *out) {
    plan p;
    moon_draft offsets;
    moon_status s = closed(out);
    if (s == MOON_OK && !same_shape(out, index)) s = moon_fail(MOON_EVALUE, "the index changed while it was used");
    if (s == MOON_OK) s = place_plan(&p, &offsets, t, dim, index);
    if (s != MOON_OK) return s;
    s = get(&p, (const int64_t *)moon_data(&offsets.t), out);
    moon_tensor_close(&offsets.t);
    return s;
}

moon_status moon_index_scatter(const moon_tensor *t, int dim, const moon_tensor *index, const moon_operand *value) {
    plan p;
    moon_draft offsets, used;
    moon_operand from = *value;
    if (value->tensor) {
        const moon_tensor *v = value->tensor;
        bool fits = v->ndim == index->ndim;
        for (int d = 0; d < index->ndim && fits && index->numel > 0; d++) fits = index->shape[d] <= v->shape[d];
        if (!fits) {
            char a[200], b[200];
            return moon_fail(MOON_ESHAPE, "an index of shape %s is larger than the source of shape %s",
                             moon_shape_text(index->ndim, index->shape, a, sizeof a),
                             moon_shape_text(v->ndim, v->shape, b, sizeof b));
        }
        moon_draft_init(&used, (moon_dtype)v->dtype, v->ndim);
        moon_layout_copy(&used.t, v);
        memcpy(used.t.shape, index->shape, (size_t)index->ndim * sizeof *used.t.shape);
        used.t.numel = index->numel;
        used.t.storage = v->storage; /* borrowed */
        from.tensor = &used.t;
    }
    moon_status s = place_plan(&p, &offsets, t, dim, index);
    if (s != MOON_OK) return s;
    s = put(&p, t, (const int64_t *)moon_data(&offsets.t), &from);
    moon_tensor_close(&offsets.t);
    return s;
}

/* ---- nonzero ---- */

moon_status moon_nonzero_plan(const moon_tensor *t, moon_draft *result) {
    moon_draft copy;
    const moon_tensor *mask;
    moon_status s = host_mask(t, &copy, &mask);
    if (s != MOON_OK) return s;
    int64_t shape[2] = {count_true(mask), t->ndim};
    moon_tensor_close(&copy.t);
    return moon_draft_contiguous(result, MOON_INT64, 2, shape);
}

/* The offsets of a mask that is its own target are row-major numbers, which divide into indices; they rise, so that only a new row
   has to be divided. */
static void split_numbers(const moon_tensor *t, const int64_t *numbers, int64_t n, int64_t *out) {
    int last = t->ndim - 1;
    if (last < 0) return;
    int64_t extent = t->shape[last], start = 0, row[MOON_MAXDIM];
    for (int d = 0; d < last; d++) row[d] = 1;
    for (int64_t i = 0; i < n; i++) {
        if (numbers[i] - start >= extent) {
            int64_t rest = numbers[i] / extent;
            start = rest * extent;
            for (int d = last; d-- > 0;) {
                row[d] = rest % t->shape[d] + 1;
                rest /= t->shape[d];
            }
        }
        for (int d = 0; d < last; d++) *out++ = row[d];
        *out++ = numbers[i] - start + 1;
    }
}

moon_status moon_nonzero(const moon_tensor *t, const moon_tensor *out) {
    moon_draft copy, numbers;
    const moon_tensor *mask;
    moon_draft rows;
    moon_status s = host_mask(t, &copy, &mask);
    if (s == MOON_OK) s = moon_draft_contiguous(&rows, MOON_BOOL, t->ndim, t->shape);
    if (s != MOON_OK) return s;
    int64_t n = out->shape[0];
    s = new_offsets(&numbers, 1, &n);
    if (s == MOON_OK) {
        int64_t *p = (int64_t *)moon_data(&numbers.t);
        s = mask_offsets(mask, rows.t.strides, p, n);
        if (s == MOON_OK) split_numbers(t, p, n, (int64_t *)moon_data(out));
        moon_tensor_close(&numbers.t);
    }
    moon_tensor_close(&copy.t);
    return s;
}
