/* Views from views. Every function fills a whole draft; readonly is inherited, and set where elements come to overlap. */
#include "tensor.h"

#include <string.h>

static void start(moon_draft *out, const moon_tensor *t) {
    moon_draft_init(out, (moon_dtype)t->dtype, t->ndim);
    moon_layout_copy(&out->t, t);
}

static int64_t size_of(const moon_tensor *t) { return (int64_t)moon_itemsize(t); }

static moon_status check_dim(const moon_tensor *t, int dim) {
    if (dim >= 0 && dim < t->ndim) return MOON_OK;
    if (t->ndim == 0) return moon_fail(MOON_EINDEX, "dimension %d of a tensor that has none", dim + 1);
    return moon_fail(MOON_EINDEX, "dimension %d is outside 1..%d", dim + 1, t->ndim);
}

static void drop_dim(moon_tensor *t, int dim) {
    t->ndim--;
    for (int i = dim; i < t->ndim; i++) t->shape[i] = t->shape[i + 1], t->strides[i] = t->strides[i + 1];
}

static void count(moon_tensor *t) {
    t->numel = 1;
    for (int i = 0; i < t->ndim; i++) t->numel *= t->shape[i];
}

moon_status moon_view_select(moon_draft *out, const moon_tensor *t, int dim, int64_t index) {
    moon_status s = check_dim(t, dim);
    if (s != MOON_OK) return s;
    if (index < 0 || index >= t->shape[dim]) {
        return moon_fail(MOON_EINDEX, "index %lld is outside 1..%lld of dim %d", (long long)index + 1, (long long)t->shape[dim],
                         dim + 1);
    }
    start(out, t);
    drop_dim(&out->t, dim);
    count(&out->t);
    if (out->t.numel > 0) out->t.offset += index * t->strides[dim] * size_of(t);
    return MOON_OK;
}

moon_status moon_view_slice(moon_draft *out, const moon_tensor *t, int dim, int64_t first, int64_t n, int64_t step) {
    moon_status s = check_dim(t, dim);
    if (s != MOON_OK) return s;
    if (step == 0) return moon_fail(MOON_EVALUE, "step 0 in dim %d", dim + 1);
    if (n < 0) return moon_fail(MOON_EVALUE, "negative length %lld in dim %d", (long long)n, dim + 1);
    int64_t extent = t->shape[dim], last = first, stride = step;
    bool inside = first >= 0 && first <= extent;
    if (n > 0) {
        inside = inside && first < extent && !__builtin_mul_overflow(n - 1, step, &last) &&
                 !__builtin_add_overflow(last, first, &last) && last >= 0 && last < extent;
    }
    if (!inside) {
        return moon_fail(MOON_EINDEX, "%lld elements from %lld, step %lld, do not lie inside 1..%lld of dim %d", (long long)n,
                         (long long)first + 1, (long long)step, (long long)extent, dim + 1);
    }
    start(out, t);
    /* the stride of one element or none says nothing, so an overflow there does no harm */
    if (n <= 1 || __builtin_mul_overflow(t->strides[dim], step, &stride)) stride = t->strides[dim];
    out->t.shape[dim] = n;
    out->t.strides[dim] = stride;
    count(&out->t);
    if (out->t.numel > 0) out->t.offset += first * t->strides[dim] * size_of(t);
    return MOON_OK;
}

moon_status moon_view_transpose(moon_draft *out, const moon_tensor *t, int a, int b) {
    moon_status s = check_dim(t, a);
    if (s == MOON_OK) s = check_dim(t, b);
    if (s != MOON_OK) return s;
    start(out, t);
    out->t.shape[a] = t->shape[b], out->t.strides[a] = t->strides[b];
    out->t.shape[b] = t->shape[a], out->t.strides[b] = t->strides[a];
    return MOON_OK;
}

moon_status moon_view_permute(moon_draft *out, const moon_tensor *t, const int *order) {
    bool seen[MOON_MAXDIM] = {false};
    start(out, t);
    for (int i = 0; i < t->ndim; i++) {
        moon_status s = check_dim(t, order[i]);
        if (s != MOON_OK) return s;
        if (seen[order[i]]) return moon_fail(MOON_EVALUE, "dimension %d occurs twice in the permutation", order[i] + 1);
        seen[order[i]] = true;
        out->t.shape[i] = t->shape[order[i]], out->t.strides[i] = t->strides[order[i]];
    }
    return MOON_OK;
}

/* Fill in an extent of -1 and compare the sizes. */
static moon_status resolve_shape(const moon_tensor *t, int ndim, const int64_t *shape, int64_t *out) {
    char want[256], have[256];
    if (ndim > MOON_MAXDIM) { return moon_fail(MOON_ESHAPE, "%d dimensions, at most %d are supported", ndim, MOON_MAXDIM); }
    int guess = -1;
    int64_t product = 1;
    bool fits = true;
    for (int i = 0; i < ndim; i++) {
        out[i] = shape[i];
        if (shape[i] == -1 && guess < 0) {
            guess = i;
            continue;
        }
        if (shape[i] < 0) {
            if (shape[i] == -1) return moon_fail(MOON_ESHAPE, "only one extent may be -1, dims %d and %d are", guess + 1, i + 1);
            return moon_fail(MOON_ESHAPE, "negative dimension %lld in dim %d", (long long)shape[i], i + 1);
        }
        if (__builtin_mul_overflow(product, shape[i], &product)) fits = false, product = 1;
    }
    if (guess >= 0) {
        if (fits && product == 0) {
            return moon_fail(MOON_ESHAPE, "the extent -1 in %s could be anything, since another extent is 0",
                             moon_shape_text(ndim, shape, want, sizeof want));
        }
        fits = fits && t->numel % product == 0;
        if (fits) out[guess] = t->numel / product;
    } else {
        fits = fits && product == t->numel;
    }
    if (fits) return MOON_OK;
    return moon_fail(MOON_ESHAPE, "shape %s (%lld elements) cannot become %s",
                     moon_shape_text(t->ndim, t->shape, have, sizeof have), (long long)t->numel,
                     moon_shape_text(ndim, shape, want, sizeof want));
}

/* Strides for the new extents, block by block: a block is a run of old dimensions that lie as one in memory. */
static bool reshape_strides(const moon_tensor *t, int ndim, const int64_t *shape, int64_t *strides) {
    int64_t chunk = t->ndim > 0 ? t->strides[t->ndim - 1] : 1, old = 1, new = 1;
    int view = ndim - 1;
    for (int d = t->ndim; d-- > 0;) {
        old *= t->shape[d];
        if (d > 0 && (t->shape[d - 1] == 1 || t->strides[d - 1] == old * chunk)) continue;
        for (; view >= 0 && (new < old || shape[view] == 1); view--) {
            strides[view] = new *chunk;
            new *= shape[view];
        }
        if (new != old) return false;
        if (d > 0) chunk = t->strides[d - 1], old = new = 1;
    }
    for (; view >= 0; view--) strides[view] = new *chunk; /* only extents of 1 are left */
    return true;
}

moon_status moon_view_reshape(moon_draft *out, const moon_tensor *t, int ndim, const int64_t *shape) {
    int64_t full[MOON_MAXDIM];
    moon_status s = resolve_shape(t, ndim, shape, full);
    if (s != MOON_OK) return s;
    s = moon_draft_contiguous(out, (moon_dtype)t->dtype, ndim, full);
    if (s != MOON_OK) return s;
    out->t.offset = t->offset;
    out->t.readonly = t->readonly;
    if (t->numel == 0 || reshape_strides(t, ndim, full, out->t.strides)) return MOON_OK;
    char have[256], want[256];
    return moon_fail(MOON_ELAYOUT, "a view of shape %s with these strides cannot have shape %s; use reshape() or contiguous()",
                     moon_shape_text(t->ndim, t->shape, have, sizeof have), moon_shape_text(ndim, full, want, sizeof want));
}

moon_status moon_view_expand(moon_draft *out, const moon_tensor *t, int ndim, const int64_t *shape) {
    char have[256], want[256];
    if (ndim > MOON_MAXDIM) { return moon_fail(MOON_ESHAPE, "%d dimensions, at most %d are supported", ndim, MOON_MAXDIM); }
    int lead = ndim - t->ndim;
    moon_draft_init(out, (moon_dtype)t->dtype, ndim);
    out->t.offset = t->offset;
    out->t.numel = 1;
    bool fits = lead >= 0;
    for (int i = 0; i < ndim && fits; i++) {
        int64_t old = i < lead ? 1 : t->shape[i - lead], new = shape[i];
        if (new == -1 && i >= lead) new = old;
        fits = new >= 0 && (old == new || old == 1) && !__builtin_mul_overflow(out->t.numel, new, &out->t.numel);
        out->t.shape[i] = new;
        out->t.strides[i] = old == 1 && new != 1 ? 0 : i < lead ? 0 : t->strides[i - lead];
    }
    if (!fits) {
        return moon_fail(MOON_ESHAPE, "shape %s cannot expand to %s", moon_shape_text(t->ndim, t->shape, have, sizeof have),
                         moon_shape_text(ndim, shape, want, sizeof want));
    }
    out->t.readonly = t->readonly || moon_overlaps_itself(&out->t);
    return MOON_OK;
}

moon_status moon_view_squeeze(moon_draft *out, const moon_tensor *t, int dim) {
    if (dim != -1) {
        moon_status s = check_dim(t, dim);
        if (s != MOON_OK) return s;
    }
    start(out, t);
    for (int i = t->ndim; i-- > 0;) {
        if (t->shape[i] == 1 && (dim == -1 || dim == i)) drop_dim(&out->t, i);
    }
    return MOON_OK;
}

moon_status moon_view_unsqueeze(moon_draft *out, const moon_tensor *t, int dim) {
    if (dim < 0 || dim > t->ndim) return moon_fail(MOON_EINDEX, "dimension %d is outside 1..%d", dim + 1, t->ndim + 1);
    if (t->ndim == MOON_MAXDIM) return moon_fail(MOON_ESHAPE, "more than %d dimensions", MOON_MAXDIM);
    start(out, t);
    for (int i = t->ndim; i > dim; i--) out->t.shape[i] = t->shape[i - 1], out->t.strides[i] = t->strides[i - 1];
    out->t.shape[dim] = 1;
    out->t.strides[dim] = dim < t->ndim ? t->strides[dim] * (t->shape[dim] > 1 ? t->shape[dim] : 1) : 1;
    out->t.ndim++;
    return MOON_OK;
}

moon_status moon_view_flip(moon_draft *out, const moon_tensor *t, int dim) {
    moon_status s = check_dim(t, dim);
    if (s != MOON_OK) return s;
    int64_t n = t->shape[dim];
    return moon_view_slice(out, t, dim, n > 0 ? n - 1 : 0, n, -1);
}

moon_status moon_view_unfold(moon_draft *out, const moon_tensor *t, int dim, int64_t size, int64_t step) {
    moon_status s = check_dim(t, dim);
    if (s != MOON_OK) return s;
    if (t->ndim == MOON_MAXDIM) return moon_fail(MOON_ESHAPE, "more than %d dimensions", MOON_MAXDIM);
    if (step <= 0) return moon_fail(MOON_EVALUE, "step %lld of unfold, expected at least 1", (long long)step);
    if (size < 0 || size > t->shape[dim]) {
        return moon_fail(MOON_EVALUE, "window of %lld elements, dim %d has %lld", (long long)size, dim + 1,
                         (long long)t->shape[dim]);
    }
    start(out, t);
    int64_t windows = (t->shape[dim] - size) / step + 1;
    out->t.shape[dim] = windows;
    if (windows > 1) out->t.strides[dim] = t->strides[dim] * step;
    out->t.shape[t->ndim] = size;
    out->t.strides[t->ndim] = t->strides[dim];
    out->t.ndim++;
    count(&out->t);
    out->t.readonly = t->readonly || moon_overlaps_itself(&out->t);
    return MOON_OK;
}

moon_status moon_view_diagonal(moon_draft *out, const moon_tensor *t, int64_t offset, int a, int b) {
    moon_status s = check_dim(t, a);
    if (s == MOON_OK) s = check_dim(t, b);
    if (s != MOON_OK) return s;
    if (a == b) return moon_fail(MOON_EVALUE, "diagonal of dimension %d with itself", a + 1);
    int64_t rows = t->shape[a], columns = t->shape[b];
    int64_t down = offset < 0 ? offset > -rows ? -offset : rows : 0, right = offset > 0 ? offset < columns ? offset : columns : 0;
    int64_t n = rows - down < columns - right ? rows - down : columns - right;
    start(out, t);
    drop_dim(&out->t, a > b ? a : b);
    drop_dim(&out->t, a > b ? b : a);
    int last = out->t.ndim++;
    out->t.shape[last] = n;
    out->t.strides[last] = t->strides[a] + t->strides[b];
    count(&out->t);
    if (out->t.numel > 0) out->t.offset += (down * t->strides[a] + right * t->strides[b]) * size_of(t);
    return MOON_OK;
}

moon_status moon_view_part(moon_draft *out, const moon_tensor *t, int part) {
    if (moon_dtypes[t->dtype].kind != MOON_KIND_COMPLEX) {
        if (part == 0) return start(out, t), MOON_OK;
        return moon_fail(MOON_EDTYPE, "%s has no imaginary part", moon_dtypes[t->dtype].name);
    }
    start(out, t);
    out->t.dtype = t->dtype == MOON_COMPLEX64 ? MOON_FLOAT32 : MOON_FLOAT64;
    for (int i = 0; i < t->ndim; i++) out->t.strides[i] *= 2;
    if (part == 1) out->t.offset += (int64_t)moon_itemsize(&out->t);
    return MOON_OK;
}

moon_status moon_broadcast_shape(int n, const moon_tensor *const *t, int *ndim, int64_t *shape) {
    *ndim = 0;
    if (n == 1 ||
        (n == 2 && t[0]->ndim == t[1]->ndim && memcmp(t[0]->shape, t[1]->shape, (size_t)t[0]->ndim * sizeof *shape) == 0)) {
        *ndim = t[0]->ndim;
        memcpy(shape, t[0]->shape, (size_t)*ndim * sizeof *shape);
        return MOON_OK;
    }
    for (int k = 0; k < n; k++) *ndim = t[k]->ndim > *ndim ? t[k]->ndim : *ndim;
    for (int i = 0; i < *ndim; i++) {
        shape[i] = 1;
        for (int k = 0; k < n; k++) {
            int j = i - (*ndim - t[k]->ndim);
            int64_t e = j < 0 ? 1 : t[k]->shape[j];
            if (e == shape[i] || e == 1) continue;
            if (shape[i] != 1) {
                char a[200], b[200];
                return moon_fail(MOON_ESHAPE, "shapes %s and %s do not broadcast: %lld against %lld",
                                 moon_shape_text(t[0]->ndim, t[0]->shape, a, sizeof a),
                                 moon_shape_text(t[k]->ndim, t[k]->shape, b, sizeof b), (long long)shape[i], (long long)e);
            }
            shape[i] = e;
        }
    }
    return MOON_OK;
}
