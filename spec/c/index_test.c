#include "../../src/core/index.h"
#include "check.h"

/* an int64 tensor of the shape, with values in 1..extent or -extent..-1 */
static void make_index(moon_draft *d, int ndim, const int64_t *shape, int64_t extent) {
    make(d, MOON_INT64, ndim, shape);
    int64_t *p = (int64_t *)moon_data(&d->t);
    for (int64_t i = 0; i < d->t.numel; i++) p[i] = random_below(2) ? 1 + random_below(extent) : -1 - random_below(extent);
}

static int64_t from_zero(int64_t k, int64_t extent) { return k < 0 ? k + extent : k - 1; }

static const moon_index all = {.kind = MOON_INDEX_RANGE, .step = 1};

static moon_index whole(const moon_tensor *t, int dim) {
    moon_index index = all;
    index.count = t->shape[dim];
    return index;
}

/* number of the element with these indices, in row-major order */
static int64_t number(const moon_tensor *t, const int64_t *index) {
    int64_t n = 0;
    for (int d = 0; d < t->ndim; d++) n = n * t->shape[d] + index[d];
    return n;
}

static void indices_of(const moon_tensor *t, int64_t n, int64_t *index) {
    for (int d = t->ndim; d-- > 0;) {
        index[d] = n % t->shape[d];
        n /= t->shape[d];
    }
}

static bool same_bytes(const moon_tensor *a, int64_t i, const moon_tensor *b, int64_t j) {
    return memcmp(element_number(a, i), element_number(b, j), moon_itemsize(a)) == 0;
}

/* a view with elements, a dimension of it, and an index tensor for that */
static bool prepare(moon_dtype dtype, moon_draft *base, moon_draft *view, int *dim, moon_draft *index) {
    random_view(base, view, dtype);
    if (view->t.numel == 0 || view->t.ndim == 0) {
        moon_tensor_close(&base->t);
        return false;
    }
    fill_random(&view->t);
    *dim = (int)random_below(view->t.ndim);
    make_index(index, 2, (int64_t[]){random_below(4), 3}, view->t.shape[*dim]);
    return true;
}

/* ---- one index tensor between whole dimensions ---- */

static void one_index(moon_dtype dtype) {
    moon_draft base, view, index, result;
    moon_index key[4];
    int dim;
    if (!prepare(dtype, &base, &view, &dim, &index)) return;
    for (int d = 0; d < dim; d++) key[d] = whole(&view.t, d);
    key[dim] = (moon_index){.kind = MOON_INDEX_TENSOR, .tensor = &index.t};
    OK(moon_index_plan(&view.t, dim + 1, key, &result));
    CHECK_INT(result.t.ndim, view.t.ndim + 1);
    OK(moon_tensor_alloc(&result.t, moon_cpu()));
    OK(moon_index_get(&view.t, dim + 1, key, &result.t));
    const int64_t *p = (const int64_t *)moon_data(&index.t);
    for (int64_t i = 0; i < result.t.numel; i++) {
        int64_t at[5], from[5];
        indices_of(&result.t, i, at);
        for (int d = 0; d < view.t.ndim; d++) from[d] = at[d < dim ? d : d + 1];
        from[dim] = from_zero(p[at[dim] * 3 + at[dim + 1]], view.t.shape[dim]);
        CHECK(same_bytes(&result.t, i, &view.t, number(&view.t, from)));
    }
    /* what was read, written into zeros at the same places, is read again */
    moon_draft other, again;
    make(&other, dtype, view.t.ndim, view.t.shape);
    OK(moon_fill(&other.t, &(moon_value){.kind = MOON_VALUE_INT}));
    OK(moon_index_put(&other.t, dim + 1, key, &(moon_operand){.tensor = &result.t}));
    make(&again, dtype, result.t.ndim, result.t.shape);
    OK(moon_index_get(&other.t, dim + 1, key, &again.t));
    for (int64_t i = 0; i < result.t.numel; i++) CHECK(same_bytes(&result.t, i, &again.t, i));
    moon_tensor_close(&again.t);
    moon_tensor_close(&other.t);
    moon_tensor_close(&result.t);
    moon_tensor_close(&index.t);
    moon_tensor_close(&base.t);
}

static void every_dtype(void) {
    for (int dtype = 0; dtype < MOON_DTYPE_COUNT; dtype++) {
        for (int i = 0; i < 40; i++) one_index((moon_dtype)dtype);
    }
}

/* ---- gather and scatter ---- */

static void gather_one(moon_dtype dtype) {
    moon_draft base, view, lines, index, out, other;
    int dim;
    if (!prepare(dtype, &base, &view, &dim, &lines)) return;
    moon_tensor_close(&lines.t);
    int64_t shape[4];
    for (int d = 0; d < view.t.ndim; d++) shape[d] = d == dim ? random_below(4) : random_below(view.t.shape[d] + 1);
    make_index(&index, view.t.ndim, shape, view.t.shape[dim]);
    OK(moon_index_gather_plan(&view.t, dim, &index.t, &out));
    OK(moon_tensor_alloc(&out.t, moon_cpu()));
    OK(moon_index_gather(&view.t, dim, &index.t, &out.t));
    make(&other, dtype, view.t.ndim, view.t.shape);
    OK(moon_copy(&other.t, &view.t));
    OK(moon_index_scatter(&other.t, dim, &index.t, &(moon_operand){.tensor = &out.t}));
    const int64_t *p = (const int64_t *)moon_data(&index.t);
    for (int64_t i = 0; i < out.t.numel; i++) {
        int64_t at[4];
        indices_of(&out.t, i, at);
        at[dim] = from_zero(p[i], view.t.shape[dim]);
        CHECK(same_bytes(&out.t, i, &view.t, number(&view.t, at)));
    }
    /* every element came back to where it was */
    for (int64_t i = 0; i < view.t.numel; i++) CHECK(same_bytes(&other.t, i, &view.t, i));
    moon_tensor_close(&other.t);
    moon_tensor_close(&out.t);
    moon_tensor_close(&index.t);
    moon_tensor_close(&base.t);
}

static void gather_and_scatter(void) {
    for (int dtype = 0; dtype < MOON_DTYPE_COUNT; dtype++) {
        for (int i = 0; i < 40; i++) gather_one((moon_dtype)dtype);
    }
}

/* ---- masks ---- */

static void mask_one(moon_dtype dtype) {
    moon_draft base, view, mask_base, mask, rows, out;
    random_view(&base, &view, dtype);
    fill_random(&view.t);
    make_strided(&mask_base, &mask, MOON_BOOL, view.t.ndim, view.t.shape);
    fill_random(&mask.t);
    const moon_index key = {.kind = MOON_INDEX_TENSOR, .tensor = &mask.t};
    OK(moon_index_plan(&view.t, 1, &key, &out));
    OK(moon_tensor_alloc(&out.t, moon_cpu()));
    OK(moon_index_get(&view.t, 1, &key, &out.t));
    OK(moon_nonzero_plan(&mask.t, &rows));
    OK(moon_tensor_alloc(&rows.t, moon_cpu()));
    OK(moon_nonzero(&mask.t, &rows.t));
    CHECK_INT(rows.t.shape[0], out.t.numel);
    CHECK_INT(rows.t.shape[1], view.t.ndim);
    const int64_t *p = (const int64_t *)moon_data(&rows.t);
    int64_t found = 0;
    for (int64_t i = 0; i < view.t.numel; i++) {
        if (*(uint8_t *)element_number(&mask.t, i) == 0) continue;
        int64_t at[4];
        indices_of(&view.t, i, at);
        CHECK(found < out.t.numel && same_bytes(&out.t, found, &view.t, i));
        for (int d = 0; d < view.t.ndim; d++) CHECK_INT(p[found * view.t.ndim + d], at[d] + 1);
        found++;
    }
    CHECK_INT(found, out.t.numel);
    moon_tensor_close(&rows.t);
    moon_tensor_close(&out.t);
    moon_tensor_close(&mask_base.t);
    moon_tensor_close(&base.t);
}

static void masks(void) {
    for (int dtype = 0; dtype < MOON_DTYPE_COUNT; dtype++) {
        for (int i = 0; i < 20; i++) mask_one((moon_dtype)dtype);
    }
}

/* ---- what is refused ---- */

static void refusals(void) {
    moon_draft t, index, mask, result, small;
    make(&t, MOON_INT32, 2, (int64_t[]){3, 4});
    make(&index, MOON_INT8, 1, (int64_t[]){2});
    make(&mask, MOON_BOOL, 1, (int64_t[]){2});
    make(&small, MOON_INT32, 1, (int64_t[]){2});
    memset(moon_data(&t.t), 7, 48);
    memset(moon_data(&mask.t), 1, 2);
    int8_t *p = (int8_t *)moon_data(&index.t);
    const moon_operand zero = {.value = {.kind = MOON_VALUE_INT}};
    moon_index key[3] = {{.kind = MOON_INDEX_TENSOR, .tensor = &index.t}, all, all};
    key[1].count = 4;
    static const int8_t wrong[] = {0, 4, -4, 127, -128};
    for (size_t i = 0; i < sizeof wrong; i++) {
        p[0] = 1, p[1] = wrong[i];
        FAILS(moon_index_put(&t.t, 2, key, &zero), MOON_EINDEX, "is out of range 1..3 of dimension 1");
        FAILS(moon_index_scatter(&t.t, 0, &index.t, &zero), MOON_ESHAPE, "an index of shape [2] does not fit shape [3, 4]");
    }
    moon_draft wide;
    make(&wide, MOON_INT64, 1, (int64_t[]){1});
    static const int64_t ends[] = {INT64_MIN, INT64_MAX};
    for (int i = 0; i < 2; i++) {
        *(int64_t *)moon_data(&wide.t) = ends[i];
        const moon_index far = {.kind = MOON_INDEX_TENSOR, .tensor = &wide.t};
        FAILS(moon_index_put(&t.t, 1, &far, &zero), MOON_EINDEX, i ? "index 9223372036854775807" : "index -9223372036854775808");
    }
    wide.t.dtype = MOON_UINT64;
    *(uint64_t *)moon_data(&wide.t) = UINT64_MAX;
    FAILS(moon_index_put(&t.t, 1, &(moon_index){.kind = MOON_INDEX_TENSOR, .tensor = &wide.t}, &zero), MOON_EINDEX,
          "index 18446744073709551615 is out of range 1..3");
    moon_tensor_close(&wide.t);
    p[1] = 3;
    key[1].count = 5;
    FAILS(moon_index_put(&t.t, 2, key, &zero), MOON_EINDEX, "index 5 is out of range 1..4 of dimension 2");
    key[1].count = 2, key[1].step = INT64_MAX;
    FAILS(moon_index_put(&t.t, 2, key, &zero), MOON_EINDEX, "is out of range 1..4 of dimension 2");
    key[1] = (moon_index){.kind = MOON_INDEX_AT, .first = -1};
    FAILS(moon_index_put(&t.t, 2, key, &zero), MOON_EINDEX, "index 0 is out of range 1..4 of dimension 2");
    FAILS(moon_index_put(&t.t, 3, (moon_index[]){key[0], all, all}, &zero), MOON_EINDEX, "more indices than the 2 dimensions");
    FAILS(moon_index_plan(&t.t, 1, &(moon_index){.kind = MOON_INDEX_TENSOR, .tensor = &mask.t}, &result), MOON_ESHAPE,
          "a mask of shape [2] does not fit shape [3, 4] from dimension 1 on");
    FAILS(moon_index_get(&t.t, 1, key, &small.t), MOON_EVALUE, "the index changed");
    FAILS(moon_index_put(&t.t, 1, key, &(moon_operand){.value = {.kind = MOON_VALUE_FLOAT, .as.f = 0.5}}), MOON_EVALUE,
          "0.5 has a fraction");
    FAILS(moon_index_put(&t.t, 1, key, &(moon_operand){.tensor = &small.t}), MOON_ESHAPE,
          "[2] cannot be copied into shape [2, 4]");
    t.t.readonly = 1;
    FAILS(moon_index_put(&t.t, 1, key, &zero), MOON_EREADONLY, "read-only");
    t.t.readonly = 0;
    index.t.dtype = MOON_FLOAT8_E5M2;
    FAILS(moon_index_put(&t.t, 1, key, &zero), MOON_EDTYPE, "this one float8_e5m2");
    index.t.dtype = MOON_INT8;
    moon_tensor_close(&small.t);
    FAILS(moon_index_put(&t.t, 1, key, &(moon_operand){.tensor = &small.t}), MOON_ECLOSED, "closed");
    moon_tensor_close(&index.t);
    FAILS(moon_index_put(&t.t, 1, key, &zero), MOON_ECLOSED, "closed");
    for (int i = 0; i < 48; i++) CHECK_INT(moon_data(&t.t)[i], 7); /* nothing of all that was written */
    moon_tensor_close(&mask.t);
    moon_tensor_close(&t.t);
}

/* a backend without the two slots */
static void missing_slots(void) {
    moon_backend backend = *moon_cpu()->backend;
    backend.index_get = NULL, backend.index_put = NULL;
    moon_device device = *moon_cpu();
    device.backend = &backend;
    snprintf(device.name, sizeof device.name, "odd:0");
    moon_draft t, index, out;
    OK(moon_draft_contiguous(&t, MOON_INT32, 1, (int64_t[]){3}));
    OK(moon_tensor_alloc(&t.t, &device));
    make_index(&index, 1, (int64_t[]){2}, 3);
    const moon_index key = {.kind = MOON_INDEX_TENSOR, .tensor = &index.t};
    OK(moon_index_plan(&t.t, 1, &key, &out));
    OK(moon_tensor_alloc(&out.t, moon_cpu()));
    FAILS(moon_index_get(&t.t, 1, &key, &out.t), MOON_EUNSUPPORTED, "indexing by tensors does not run on odd:0|x:to(\"cpu\")");
    FAILS(moon_index_put(&t.t, 1, &key, &(moon_operand){.value = {.kind = MOON_VALUE_INT}}), MOON_EUNSUPPORTED, "odd:0");
    moon_tensor_close(&out.t);
    moon_tensor_close(&index.t);
    moon_tensor_close(&t.t);
}

/* ---- the n-th allocation fails ---- */

typedef struct sweep {
    moon_draft t, i, j, mask, out, value, rows;
} sweep;

static moon_status everything(const sweep *w) {
    const moon_index key[2] = {{.kind = MOON_INDEX_TENSOR, .tensor = &w->i.t}, {.kind = MOON_INDEX_TENSOR, .tensor = &w->j.t}};
    const moon_index where = {.kind = MOON_INDEX_TENSOR, .tensor = &w->mask.t};
    moon_status s = moon_index_get(&w->t.t, 2, key, &w->out.t);
    if (s == MOON_OK) s = moon_index_put(&w->t.t, 2, key, &(moon_operand){.tensor = &w->value.t}); /* cast by a copy */
    if (s == MOON_OK) s = moon_index_put(&w->t.t, 1, &where, &(moon_operand){.value = {.kind = MOON_VALUE_INT}});
    if (s == MOON_OK) s = moon_index_gather(&w->t.t, 0, &w->j.t, &w->out.t);
    if (s == MOON_OK) s = moon_index_scatter(&w->t.t, 0, &w->j.t, &(moon_operand){.tensor = &w->t.t});
    return s == MOON_OK ? moon_nonzero(&w->t.t, &w->rows.t) : s;
}

static void failing_memory(void) {
    sweep w;
    const int64_t shape[] = {3, 4}, two[] = {2, 2}, pairs[] = {12, 2}, line[] = {2};
    make(&w.t, MOON_FLOAT32, 2, shape);
    make_index(&w.i, 1, line, 3);
    make_index(&w.j, 2, two, 3);
    make(&w.mask, MOON_BOOL, 2, shape);
    make(&w.out, MOON_FLOAT32, 2, two);
    make(&w.value, MOON_INT64, 1, line);
    make(&w.rows, MOON_INT64, 2, pairs);
    memset(moon_data(&w.mask.t), 0, 12);
    memset(moon_data(&w.value.t), 1, 16);
    long n = 1, before = live_blocks;
    for (moon_status s = MOON_EMEMORY; s != MOON_OK; n++) {
        OK(moon_fill(&w.t.t, &(moon_value){.kind = MOON_VALUE_INT, .as.i = 1})); /* 12 elements that are not zero */
        fail_at = n;
        s = everything(&w);
        fail_at = 0;
        CHECK_INT(live_blocks, before);
        if (s != MOON_OK) CHECK_INT(s, MOON_EMEMORY);
        if (s != MOON_OK && s != MOON_EMEMORY) break;
    }
    CHECK(n > 10);
    moon_tensor *const done[] = {&w.t.t, &w.i.t, &w.j.t, &w.mask.t, &w.out.t, &w.value.t, &w.rows.t};
    for (size_t i = 0; i < sizeof done / sizeof *done; i++) moon_tensor_close(done[i]);
}

SUITE(index_suite, TEST(every_dtype), TEST(gather_and_scatter), TEST(masks), TEST(refusals), TEST(missing_slots),
      TEST(failing_memory));
