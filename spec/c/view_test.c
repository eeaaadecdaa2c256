#include "check.h"

#include <stdlib.h>

/* ---- views against a model: the same operation on an array that holds each element's number ---- */

typedef struct model {
    int ndim;
    int64_t shape[8];
    int64_t numel;
    int64_t *ids;
} model;

static model model_of(int ndim, const int64_t *shape) {
    model m = {.ndim = ndim, .numel = 1};
    for (int i = 0; i < ndim; i++) m.shape[i] = shape[i], m.numel *= shape[i];
    m.ids = calloc((size_t)m.numel + 1, sizeof *m.ids);
    return m;
}

static int64_t model_at(const model *m, const int64_t *index) {
    int64_t at = 0;
    for (int i = 0; i < m->ndim; i++) at = at * m->shape[i] + index[i];
    return m->ids[at];
}

typedef struct step {
    int kind, a, b;
    int64_t first, count, by;
} step;

enum { SELECT, SLICE, TRANSPOSE, UNSQUEEZE, FLIP, DIAGONAL, UNFOLD, KINDS };

/* the old index of a new one */
static void trace(const model *old, const step *s, const int64_t *new, int64_t *index) {
    int n = 0;
    switch (s->kind) {
    case SELECT:
        for (int i = 0; i < old->ndim; i++) index[i] = i == s->a ? s->first : new[n++];
        break;
    case UNSQUEEZE:
        for (int i = 0; i < old->ndim; i++) index[i] = new[i < s->a ? i : i + 1];
        break;
    case DIAGONAL:
        for (int i = 0; i < old->ndim; i++) index[i] = i == s->a || i == s->b ? 0 : new[n++];
        index[s->a] = new[n] + (s->first < 0 ? -s->first : 0);
        index[s->b] = new[n] + (s->first > 0 ? s->first : 0);
        break;
    default:
        for (int i = 0; i < old->ndim; i++) index[i] = new[i];
    }
    if (s->kind == SLICE) index[s->a] = s->first + new[s->a] * s->by;
    if (s->kind == FLIP) index[s->a] = old->shape[s->a] - 1 - new[s->a];
    if (s->kind == TRANSPOSE) index[s->a] = new[s->b], index[s->b] = new[s->a];
    if (s->kind == UNFOLD) index[s->a] = new[s->a] * s->by + new[old->ndim];
}

static bool choose(const model *m, step *s) {
    *s = (step){.kind = (int)random_below(KINDS), .by = 1};
    if (m->ndim == 0) s->kind = UNSQUEEZE;
    if (m->ndim >= 6 && (s->kind == UNSQUEEZE || s->kind == UNFOLD)) return false;
    s->a = m->ndim ? (int)random_below(m->ndim) : 0;
    s->b = m->ndim ? (int)random_below(m->ndim) : 0;
    int64_t n = m->ndim ? m->shape[s->a] : 0;
    switch (s->kind) {
    case SELECT:
        if (n == 0) return false;
        s->first = random_below(n);
        return true;
    case SLICE:
        if (n == 0) return false;
        s->first = random_below(n);
        s->by = random_below(2) ? 1 + random_below(3) : -1 - random_below(3);
        s->count = 1 + (s->by > 0 ? (n - 1 - s->first) / s->by : s->first / -s->by);
        s->count -= random_below(s->count + 1);
        return true;
    case UNSQUEEZE: s->a = (int)random_below(m->ndim + 1); return true;
    case DIAGONAL: s->first = random_below(7) - 3; return s->a != s->b;
    case UNFOLD:
        s->count = random_below(n + 1);
        s->by = 1 + random_below(3);
        return s->count > 0;
    default: return true;
    }
}

static moon_status apply(moon_draft *out, const moon_tensor *t, const step *s) {
    switch (s->kind) {
    case SELECT: return moon_view_select(out, t, s->a, s->first);
    case SLICE: return moon_view_slice(out, t, s->a, s->first, s->count, s->by);
    case TRANSPOSE: return moon_view_transpose(out, t, s->a, s->b);
    case UNSQUEEZE: return moon_view_unsqueeze(out, t, s->a);
    case FLIP: return moon_view_flip(out, t, s->a);
    case DIAGONAL: return moon_view_diagonal(out, t, s->first, s->a, s->b);
    default: return moon_view_unfold(out, t, s->a, s->count, s->by);
    }
}

static model follow(const model *old, const moon_tensor *t, const step *s) {
    model m = model_of(t->ndim, t->shape);
    int64_t new[8] = {0}, index[8];
    for (int64_t i = 0; i < m.numel; i++) {
        int64_t rest = i;
        for (int d = m.ndim; d-- > 0;) new[d] = rest % m.shape[d], rest /= m.shape[d];
        trace(old, s, new, index);
        m.ids[i] = model_at(old, index);
    }
    return m;
}

static bool agrees(const model *m, const moon_tensor *t) {
    if (m->numel != t->numel) return false;
    for (int64_t i = 0; i < m->numel; i++) {
        int64_t got = *(int64_t *)element_number(t, i);
        if (got != m->ids[i]) return false;
    }
    return true;
}

/* exact: do two indices give one address? */
static bool really_overlaps(const model *m) {
    for (int64_t i = 0; i < m->numel; i++) {
        for (int64_t j = 0; j < i; j++) {
            if (m->ids[i] == m->ids[j]) return true;
        }
    }
    return false;
}

static void chains(void) {
    for (int round = 0; round < 1500; round++) {
        int64_t shape[3];
        int ndim = (int)random_below(4);
        for (int i = 0; i < ndim; i++) shape[i] = 1 + random_below(5);
        moon_draft base, a, b;
        make(&base, MOON_INT64, ndim, shape);
        model m = model_of(ndim, shape);
        for (int64_t i = 0; i < m.numel; i++) m.ids[i] = i, ((int64_t *)moon_data(&base.t))[i] = i;
        moon_draft_init(&a, MOON_INT64, ndim);
        moon_layout_copy(&a.t, &base.t);
        for (int k = 0; k < 5; k++) {
            step s;
            if (!choose(&m, &s)) continue;
            OK(apply(&b, &a.t, &s));
            moon_draft_init(&a, MOON_INT64, b.t.ndim);
            moon_layout_copy(&a.t, &b.t);
            a.t.storage = base.t.storage;
            model next = follow(&m, &a.t, &s);
            free(m.ids);
            m = next;
            if (!agrees(&m, &a.t)) check_failed(__FILE__, __LINE__, "round %d, step %d, kind %d", round, k, s.kind);
            /* never missed; and not claimed for what only slices and permutes */
            if (m.numel < 200 && really_overlaps(&m)) CHECK(moon_overlaps_itself(&a.t) && a.t.readonly);
        }
        free(m.ids);
        moon_tensor_close(&base.t);
    }
}

static void reshapes(void) {
    for (int round = 0; round < 3000; round++) {
        moon_draft base, view, new, flat;
        int64_t shape[3] = {1 + random_below(4), 1 + random_below(4), 1 + random_below(4)};
        make_strided(&base, &view, MOON_INT64, 3, shape);
        for (int64_t i = 0; i < view.t.numel; i++) *(int64_t *)element_number(&view.t, i) = i;
        int64_t n = view.t.numel, want[3], left = n;
        for (int i = 0; i < 2; i++) {
            do want[i] = 1 + random_below(left);
            while (left % want[i] != 0);
            left /= want[i];
        }
        want[2] = random_below(2) ? -1 : left;
        moon_status s = moon_view_reshape(&new, &view.t, 3, want);
        if (s == MOON_OK) {
            new.t.storage = view.t.storage;
            for (int64_t i = 0; i < n; i++) CHECK_INT(*(int64_t *)element_number(&new.t, i), i);
        } else {
            /* it may fail only where a copy is needed: the flattened elements are not evenly spaced within some group */
            CHECK_INT(s, MOON_ELAYOUT);
            CHECK(!moon_is_contiguous(&view.t));
        }
        if (moon_is_contiguous(&view.t)) CHECK_INT(moon_view_reshape(&flat, &view.t, 1, &(int64_t){-1}), MOON_OK);
        moon_tensor_close(&base.t);
    }
}

/* the shapes that torch views, and that it refuses */
static void reshape_cases(void) {
    moon_draft base, v, r;
    make(&base, MOON_FLOAT32, 3, (int64_t[]){4, 3, 2});
    OK(moon_view_reshape(&r, &base.t, 2, (int64_t[]){-1, 6}));
    CHECK_INT(r.t.shape[0], 4);
    OK(moon_view_transpose(&v, &base.t, 0, 1)); /* [3, 4, 2], strides [2, 6, 1] */
    FAILS(moon_view_reshape(&r, &v.t, 1, (int64_t[]){24}), MOON_ELAYOUT, "reshape()");
    OK(moon_view_reshape(&r, &v.t, 4, (int64_t[]){3, 2, 2, 2}));
    CHECK(r.t.strides[0] == 2 && r.t.strides[1] == 12 && r.t.strides[2] == 6 && r.t.strides[3] == 1);
    FAILS(moon_view_reshape(&r, &base.t, 2, (int64_t[]){5, 5}), MOON_ESHAPE, "[4, 3, 2]|[5, 5]");
    FAILS(moon_view_reshape(&r, &base.t, 2, (int64_t[]){-1, -1}), MOON_ESHAPE, "-1");
    FAILS(moon_view_reshape(&r, &base.t, 2, (int64_t[]){-2, 12}), MOON_ESHAPE, "negative dimension -2");
    FAILS(moon_view_reshape(&r, &base.t, 2, (int64_t[]){INT64_MAX, 4}), MOON_ESHAPE, "cannot become");
    moon_tensor_close(&base.t);
    make(&base, MOON_FLOAT32, 2, (int64_t[]){0, 3});
    OK(moon_view_reshape(&r, &base.t, 3, (int64_t[]){5, 0, 7}));
    FAILS(moon_view_reshape(&r, &base.t, 2, (int64_t[]){-1, 0}), MOON_ESHAPE, "anything");
    moon_tensor_close(&base.t);
    make(&base, MOON_FLOAT32, 0, NULL);
    OK(moon_view_reshape(&r, &base.t, 3, (int64_t[]){1, 1, 1}));
    OK(moon_view_reshape(&v, &r.t, 0, NULL));
    CHECK_INT(v.t.ndim, 0);
    moon_tensor_close(&base.t);
}

static void expands(void) {
    moon_draft base, e, u;
    make(&base, MOON_INT32, 2, (int64_t[]){3, 1});
    OK(moon_view_expand(&e, &base.t, 3, (int64_t[]){2, -1, 4}));
    CHECK(e.t.shape[0] == 2 && e.t.shape[1] == 3 && e.t.shape[2] == 4 && e.t.numel == 24);
    CHECK(e.t.strides[0] == 0 && e.t.strides[1] == 1 && e.t.strides[2] == 0);
    CHECK(e.t.readonly && moon_overlaps_itself(&e.t));
    OK(moon_view_expand(&e, &base.t, 2, (int64_t[]){3, 1}));
    CHECK(!e.t.readonly);
    OK(moon_view_expand(&e, &base.t, 2, (int64_t[]){3, 0}));
    CHECK(e.t.numel == 0 && !e.t.readonly);
    FAILS(moon_view_expand(&e, &base.t, 2, (int64_t[]){4, 1}), MOON_ESHAPE, "[3, 1]|[4, 1]");
    FAILS(moon_view_expand(&e, &base.t, 1, (int64_t[]){3}), MOON_ESHAPE, "cannot expand");
    FAILS(moon_view_expand(&e, &base.t, 3, (int64_t[]){-1, 3, 1}), MOON_ESHAPE, "cannot expand");
    OK(moon_view_unfold(&u, &base.t, 0, 2, 1)); /* strides [1, 1, 1]: windows share elements */
    CHECK(u.t.shape[0] == 2 && u.t.shape[2] == 2 && u.t.readonly);
    OK(moon_view_unfold(&u, &base.t, 0, 1, 2));
    CHECK(u.t.shape[0] == 2 && !u.t.readonly);
    FAILS(moon_view_unfold(&u, &base.t, 0, 4, 1), MOON_EVALUE, "4|3");
    moon_tensor_close(&base.t);
}

static void squeezes(void) {
    moon_draft base, s;
    make(&base, MOON_INT32, 4, (int64_t[]){1, 3, 1, 2});
    OK(moon_view_squeeze(&s, &base.t, -1));
    CHECK(s.t.ndim == 2 && s.t.shape[0] == 3 && s.t.shape[1] == 2);
    OK(moon_view_squeeze(&s, &base.t, 2));
    CHECK(s.t.ndim == 3 && s.t.shape[1] == 3);
    OK(moon_view_squeeze(&s, &base.t, 1));
    CHECK(s.t.ndim == 4);
    moon_tensor_close(&base.t);
}

static void parts(void) {
    moon_draft base, r, i;
    make(&base, MOON_COMPLEX64, 2, (int64_t[]){2, 3});
    float *x = (float *)moon_data(&base.t);
    for (int k = 0; k < 12; k++) x[k] = (float)k;
    OK(moon_view_part(&r, &base.t, 0));
    OK(moon_view_part(&i, &base.t, 1));
    r.t.storage = i.t.storage = base.t.storage;
    CHECK(r.t.dtype == MOON_FLOAT32 && i.t.dtype == MOON_FLOAT32);
    for (int k = 0; k < 6; k++) {
        CHECK(*(float *)element_number(&r.t, k) == (float)(2 * k));
        CHECK(*(float *)element_number(&i.t, k) == (float)(2 * k + 1));
    }
    FAILS(moon_view_part(&i, &r.t, 1), MOON_EDTYPE, "float32|imaginary");
    moon_tensor_close(&base.t);
}

static void refusals(void) {
    moon_draft base, v;
    make(&base, MOON_INT32, 2, (int64_t[]){2, 3});
    FAILS(moon_view_select(&v, &base.t, 2, 0), MOON_EINDEX, "dimension 3|1..2");
    FAILS(moon_view_select(&v, &base.t, 1, 3), MOON_EINDEX, "index 4|1..3|dim 2");
    FAILS(moon_view_select(&v, &base.t, 1, -1), MOON_EINDEX, "index 0");
    FAILS(moon_view_slice(&v, &base.t, 1, 1, 3, 1), MOON_EINDEX, "1..3|dim 2");
    FAILS(moon_view_slice(&v, &base.t, 1, 0, 2, 0), MOON_EVALUE, "step 0");
    FAILS(moon_view_slice(&v, &base.t, 1, 0, -1, 1), MOON_EVALUE, "negative length");
    FAILS(moon_view_slice(&v, &base.t, 1, 2, INT64_MAX, INT64_MAX), MOON_EINDEX, "do not lie inside");
    OK(moon_view_slice(&v, &base.t, 1, 3, 0, 1));
    CHECK_INT(v.t.numel, 0);
    FAILS(moon_view_permute(&v, &base.t, (int[]){0, 0}), MOON_EVALUE, "twice");
    FAILS(moon_view_diagonal(&v, &base.t, 0, 1, 1), MOON_EVALUE, "itself");
    FAILS(moon_view_unsqueeze(&v, &base.t, 3), MOON_EINDEX, "1..3");
    FAILS(moon_draft_contiguous(&v, MOON_INT8, 2, (int64_t[]){2, -3}), MOON_ESHAPE, "negative dimension -3|dim 2");
    FAILS(moon_draft_contiguous(&v, MOON_INT32, 3, (int64_t[]){INT64_C(1) << 32, INT64_C(1) << 32, 16}), MOON_ESHAPE,
          "overflows 64 bits");
    FAILS(moon_draft_contiguous(&v, MOON_FLOAT64, 1, (int64_t[]){INT64_MAX / 4}), MOON_ESHAPE, "overflows 64 bits");
    FAILS(moon_draft_contiguous(&v, MOON_INT8, 65, (int64_t[65]){0}), MOON_ESHAPE, "65");
    OK(moon_draft_contiguous(&v, MOON_INT8, 64, (int64_t[64]){0}));
    moon_tensor_close(&base.t);
}

static void contiguity(void) {
    moon_draft d, v;
    make(&d, MOON_INT16, 3, (int64_t[]){2, 1, 3});
    CHECK(moon_is_contiguous(&d.t));
    d.t.strides[1] = -77; /* of one element: says nothing */
    CHECK(moon_is_contiguous(&d.t));
    OK(moon_view_transpose(&v, &d.t, 0, 2));
    CHECK(!moon_is_contiguous(&v.t));
    moon_tensor_close(&d.t);
    make(&d, MOON_INT16, 4, (int64_t[]){1, 8, 0, 128});
    for (int i = 0; i < 4; i++) d.t.strides[i] = 0; /* as NumPy exports it (RT20) */
    CHECK(moon_is_contiguous(&d.t) && !moon_overlaps_itself(&d.t));
    moon_tensor_close(&d.t);
}

static void byte_ranges(void) {
    for (int round = 0; round < 2000; round++) {
        moon_draft base, v;
        random_view(&base, &v, (moon_dtype)random_below(MOON_DTYPE_COUNT));
        int64_t first, last, low = INT64_MAX, high = INT64_MIN;
        bool some = moon_byte_range(&v.t, &first, &last);
        for (int64_t i = 0; i < v.t.numel; i++) {
            int64_t at = (char *)element_number(&v.t, i) - (char *)v.t.storage->host;
            low = at < low ? at : low;
            high = at + (int64_t)moon_itemsize(&v.t) > high ? at + (int64_t)moon_itemsize(&v.t) : high;
        }
        CHECK_INT(some, v.t.numel > 0);
        if (some) CHECK(first == low && last == high);
        if (some) CHECK(low >= 0 && high <= (int64_t)v.t.storage->nbytes);
        moon_tensor_close(&base.t);
    }
}

static void overlaps(void) {
    moon_draft base, a, b;
    make(&base, MOON_INT32, 1, (int64_t[]){10});
    OK(moon_view_slice(&a, &base.t, 0, 0, 5, 1));
    OK(moon_view_slice(&b, &base.t, 0, 5, 5, 1));
    a.t.storage = b.t.storage = base.t.storage;
    CHECK_INT(moon_overlap_of(&a.t, &b.t), MOON_DISJOINT);
    CHECK_INT(moon_overlap_of(&a.t, &a.t), MOON_SAME);
    CHECK_INT(moon_overlap_of(&a.t, &base.t), MOON_OVERLAP);
    OK(moon_view_slice(&b, &base.t, 0, 4, 5, -1)); /* the same bytes, the other way round */
    b.t.storage = base.t.storage;
    CHECK_INT(moon_overlap_of(&a.t, &b.t), MOON_OVERLAP);
    /* another storage over the same memory */
    moon_storage *alias;
    OK(moon_storage_wrap(moon_cpu(), base.t.storage->handle, 40, false, NULL, &alias));
    b = a;
    b.t.shape = b.dims, b.t.strides = b.dims + MOON_MAXDIM;
    b.t.storage = alias;
    CHECK_INT(moon_overlap_of(&a.t, &b.t), MOON_SAME);
    moon_storage_release(alias);
    moon_tensor_close(&base.t);
}

static void broadcasting(void) {
    moon_draft a, b;
    int ndim;
    int64_t shape[MOON_MAXDIM];
    OK(moon_draft_contiguous(&a, MOON_INT8, 3, (int64_t[]){4, 1, 3}));
    OK(moon_draft_contiguous(&b, MOON_INT8, 2, (int64_t[]){5, 1}));
    OK(moon_broadcast_shape(2, (const moon_tensor *const[]){&a.t, &b.t}, &ndim, shape));
    CHECK(ndim == 3 && shape[0] == 4 && shape[1] == 5 && shape[2] == 3);
    OK(moon_draft_contiguous(&b, MOON_INT8, 2, (int64_t[]){0, 1}));
    OK(moon_broadcast_shape(2, (const moon_tensor *const[]){&a.t, &b.t}, &ndim, shape));
    CHECK(ndim == 3 && shape[1] == 0);
    OK(moon_draft_contiguous(&b, MOON_INT8, 1, (int64_t[]){2}));
    FAILS(moon_broadcast_shape(2, (const moon_tensor *const[]){&a.t, &b.t}, &ndim, shape), MOON_ESHAPE, "[4, 1, 3]|[2]");
}

static void shape_texts(void) {
    char text[64];
    CHECK(strcmp(moon_shape_text(0, NULL, text, sizeof text), "[]") == 0);
    CHECK(strcmp(moon_shape_text(2, (int64_t[]){2, 3}, text, sizeof text), "[2, 3]") == 0);
    int64_t many[64];
    for (int i = 0; i < 64; i++) many[i] = INT64_MIN;
    moon_shape_text(64, many, text, sizeof text);
    CHECK(strlen(text) < sizeof text && strstr(text, "...]") != NULL);
}

SUITE(view_suite, TEST(chains), TEST(reshapes), TEST(reshape_cases), TEST(expands), TEST(squeezes), TEST(parts), TEST(refusals),
      TEST(contiguity), TEST(byte_ranges), TEST(overlaps), TEST(broadcasting), TEST(shape_texts));
