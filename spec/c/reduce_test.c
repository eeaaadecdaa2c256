#include "check.h"

#include <math.h>
#include <stdlib.h>

typedef long double real;

/* the elements reduced to one output, in order */
typedef struct group {
    int64_t n;
    real *re, *im;
} group;

static void read_number(moon_dtype dtype, const void *bytes, real *re, real *im) {
    moon_value v;
    moon_element_read(dtype, bytes, &v);
    *im = 0;
    switch (v.kind) {
    case MOON_VALUE_BOOL: *re = v.as.b; break;
    case MOON_VALUE_INT: *re = (real)v.as.i; break;
    case MOON_VALUE_UINT: *re = (real)v.as.u; break;
    case MOON_VALUE_FLOAT: *re = v.as.f; break;
    default: *re = v.as.c[0], *im = v.as.c[1];
    }
}

static group gather(const moon_tensor *t, int dim, int64_t output) {
    group g = {.re = malloc(((size_t)t->numel + 1) * sizeof(real)), .im = malloc(((size_t)t->numel + 1) * sizeof(real))};
    int64_t inner = 1, n = dim < 0 ? t->numel : t->shape[dim];
    for (int i = dim + 1; i < t->ndim && dim >= 0; i++) inner *= t->shape[i];
    for (int64_t k = 0; k < n; k++, g.n++) {
        int64_t at = dim < 0 ? k : (output / inner * n + k) * inner + output % inner;
        read_number((moon_dtype)t->dtype, element_number(t, at), &g.re[k], &g.im[k]);
    }
    return g;
}

static void drop(group g) {
    free(g.re);
    free(g.im);
}

static real best_of(const group *g, bool largest, int64_t *at) {
    *at = 0;
    for (int64_t k = 0; k < g->n; k++) {
        if (isnan(g->re[k])) return *at = k, NAN;
        if (largest ? g->re[k] > g->re[*at] : g->re[k] < g->re[*at]) *at = k;
    }
    return g->re[*at];
}

static real variance(const real *x, int64_t n) {
    real mean = 0, squares = 0;
    for (int64_t k = 0; k < n; k++) mean += x[k];
    mean /= (real)n;
    for (int64_t k = 0; k < n; k++) squares += (x[k] - mean) * (x[k] - mean);
    return n > 1 ? squares / (real)(n - 1) : NAN;
}

/* wrapped, as int64 and uint64 sums and products are */
static uint64_t integer_total(const group *g, bool product) {
    uint64_t total = product;
    for (int64_t k = 0; k < g->n; k++) {
        uint64_t x = g->re[k] < 0 ? 0 - (uint64_t)-g->re[k] : (uint64_t)g->re[k];
        total = product ? total * x : total + x;
    }
    return total;
}

static double tolerance(moon_dtype dtype) {
    switch (dtype) {
    case MOON_FLOAT16: return 2e-3;
    case MOON_BFLOAT16: return 2e-2;
    case MOON_FLOAT8_E4M3FN: return 0.13;
    case MOON_FLOAT8_E5M2: return 0.26;
    case MOON_FLOAT64:
    case MOON_COMPLEX128: return 1e-13;
    default: return 2e-5;
    }
}

/* scale: how large the terms were, since a sum that cancels keeps their error */
static bool near(moon_dtype dtype, real got, real want, real scale) {
    if (isnan(want) || isinf(want)) return isnan(want) ? isnan(got) : got == want || (isnan(got) && dtype == MOON_FLOAT8_E4M3FN);
    real largest = dtype == MOON_FLOAT16 ? 65504 : dtype == MOON_FLOAT8_E4M3FN ? 448 : dtype == MOON_FLOAT8_E5M2 ? 57344 : 1e38L;
    if (fabsl(want) > largest * 0.95L) return true; /* may overflow */
    return fabsl(got - want) <=
           tolerance(dtype) * (scale + fabsl(want)) + 1e-3L * (dtype >= MOON_FLOAT8_E4M3FN) + 1e-7L * (dtype == MOON_FLOAT16);
}

static void check_output(moon_op_id op, moon_dtype in, const group *g, moon_dtype result, const void *out) {
    real re, im, sum_re = 0, sum_im = 0, scale = 0, want_re = 0, want_im = 0;
    double complex product = 1;
    int64_t at = 0, truths = 0;
    read_number(result, out, &re, &im);
    for (int64_t k = 0; k < g->n; k++) {
        sum_re += g->re[k], sum_im += g->im[k];
        if (isfinite(g->re[k])) scale += fabsl(g->re[k]) + fabsl(g->im[k]);
        product *= CMPLX((double)g->re[k], (double)g->im[k]);
        truths += g->re[k] != 0 || g->im[k] != 0;
    }
    bool integers = moon_dtypes[in].kind < MOON_KIND_FLOAT, good = true;
    switch (op) {
    case MOON_OP_sum:
    case MOON_OP_prod:
        if (integers) {
            good = *(const uint64_t *)out == integer_total(g, op == MOON_OP_prod);
            break;
        }
        want_re = op == MOON_OP_sum ? sum_re : creal(product);
        want_im = op == MOON_OP_sum ? sum_im : cimag(product);
        if (op == MOON_OP_prod) scale = cabs(product) * 10;
        if (op == MOON_OP_prod && moon_dtypes[in].kind == MOON_KIND_FLOAT) {
            want_re = 1;
            for (int64_t k = 0; k < g->n; k++) want_re *= g->re[k];
            scale = isfinite(want_re) ? fabsl(want_re) : 0, want_im = 0;
        }
        good = (moon_dtypes[in].kind == MOON_KIND_COMPLEX && !isfinite(want_re)) ||
               (near(result, re, want_re, scale) && near(result, im, want_im, scale));
        break;
    case MOON_OP_mean:
        good = near(result, re, sum_re / (real)g->n, scale / (real)(g->n ? g->n : 1)) &&
               near(result, im, g->n || moon_dtypes[in].kind == MOON_KIND_COMPLEX ? sum_im / (real)g->n : 0,
                    scale / (real)(g->n ? g->n : 1));
        break;
    case MOON_OP_var:
    case MOON_OP_std:
        want_re = variance(g->re, g->n) + (moon_dtypes[in].kind == MOON_KIND_COMPLEX ? variance(g->im, g->n) : 0);
        good = near(result, re, op == MOON_OP_std ? sqrtl(want_re) : want_re, 0);
        break;
    case MOON_OP_min:
    case MOON_OP_max: good = near(result, re, best_of(g, op == MOON_OP_max, &at), 0); break;
    case MOON_OP_argmin:
    case MOON_OP_argmax:
        best_of(g, op == MOON_OP_argmax, &at);
        good = *(const int64_t *)out == at;
        break;
    case MOON_OP_any: good = re == (truths > 0); break;
    default: good = re == (truths == g->n);
    }
    if (!good) {
        check_failed(__FILE__, __LINE__, "%s of %lld %s is %Lg%+Lgi, expected %Lg%+Lgi", moon_ops[op].name, (long long)g->n,
                     moon_dtypes[in].name, re, im, want_re, want_im);
    }
}

static moon_dtype expected_dtype(moon_op_id op, moon_dtype in) {
    moon_kind kind = (moon_kind)moon_dtypes[in].kind;
    moon_dtype real_part = in == MOON_COMPLEX64 ? MOON_FLOAT32 : in == MOON_COMPLEX128 ? MOON_FLOAT64 : in;
    switch (op) {
    case MOON_OP_sum:
    case MOON_OP_prod: return kind >= MOON_KIND_FLOAT ? in : kind == MOON_KIND_UINT ? MOON_UINT64 : MOON_INT64;
    case MOON_OP_mean: return kind >= MOON_KIND_FLOAT ? in : MOON_FLOAT64;
    case MOON_OP_var:
    case MOON_OP_std: return kind >= MOON_KIND_FLOAT ? real_part : MOON_FLOAT64;
    case MOON_OP_argmin:
    case MOON_OP_argmax: return MOON_INT64;
    case MOON_OP_any:
    case MOON_OP_all: return MOON_BOOL;
    default: return in;
    }
}

/* small values, now and then a NaN or an infinity, so that sums and products stay in range */
static void fill_tame(const moon_tensor *t) {
    moon_kind kind = (moon_kind)moon_dtypes[t->dtype].kind;
    for (int64_t i = 0; i < t->numel; i++) {
        moon_value v = {MOON_VALUE_FLOAT, {.f = (double)(random_below(9) - 4) / 4}};
        if (kind == MOON_KIND_FLOAT && random_below(3000) == 0) v.as.f = random_below(2) ? NAN : -INFINITY;
        if (kind == MOON_KIND_COMPLEX) v = (moon_value){MOON_VALUE_COMPLEX, {.c = {v.as.f, (double)(random_below(9) - 4) / 4}}};
        if (kind <= MOON_KIND_UINT)
            v = (moon_value){MOON_VALUE_INT, {.i = kind == MOON_KIND_BOOL ? random_below(2) : random_below(100)}};
        if (kind == MOON_KIND_INT) v.as.i -= 50;
        OK(moon_element_write((moon_dtype)t->dtype, element_number(t, i), &v));
    }
}

static void one_reduction(moon_op_id op, moon_dtype dtype) {
    moon_draft base, v, result, out;
    int64_t shape[3] = {1 + random_below(5), 1 + random_below(5), 1 + random_below(5)};
    int ndim = (int)random_below(4);
    if (random_below(3) == 0) shape[random_below(3)] = 1 + random_below(2500) / (random_below(4) ? 20 : 1);
    if (random_below(15) == 0) shape[random_below(3)] = 0;
    make_strided(&base, &v, dtype, ndim, shape);
    fill_tame(&v.t);
    int dim = ndim == 0 ? -1 : (int)random_below(ndim + 1) - 1;
    bool keep = random_below(2);
    bool needs_one = op == MOON_OP_min || op == MOON_OP_max || op == MOON_OP_argmin || op == MOON_OP_argmax;
    bool refused = moon_dtypes[dtype].kind == MOON_KIND_COMPLEX && needs_one;
    bool nothing = dim < 0 ? v.t.numel == 0 : v.t.shape[dim] == 0;
    if (needs_one && nothing) {
        FAILS(moon_reduce_plan(op, &v.t, dim, keep, &result), MOON_EVALUE, "no elements");
    } else if (refused) {
        FAILS(moon_reduce_plan(op, &v.t, dim, keep, &result), MOON_EDTYPE, "does not take complex");
    } else {
        OK(moon_reduce_plan(op, &v.t, dim, keep, &result));
        CHECK_INT(result.t.dtype, expected_dtype(op, dtype));
        CHECK_INT(result.t.ndim, dim < 0 ? keep ? ndim : 0 : ndim - !keep);
        make_strided(&out, &result, (moon_dtype)result.t.dtype, result.t.ndim, result.t.shape);
        OK(moon_reduce_run(op, &v.t, dim, &result.t));
        for (int64_t i = 0; i < result.t.numel; i++) {
            group g = gather(&v.t, dim, i);
            check_output(op, dtype, &g, (moon_dtype)result.t.dtype, element_number(&result.t, i));
            drop(g);
        }
        moon_tensor_close(&out.t);
    }
    moon_tensor_close(&base.t);
}

static void every_reduction(void) {
    for (int op = 0; op < MOON_OP_COUNT; op++) {
        if (moon_ops[op].class != MOON_REDUCE) continue;
        for (int d = 0; d < MOON_DTYPE_COUNT; d++) {
            for (int round = 0; round < rounds(40); round++) one_reduction((moon_op_id)op, (moon_dtype)d);
        }
    }
}

/* a plain running sum of a million tenths in float32 is off by 1 %; pairwise, by rounding only */
static void pairwise(void) {
    for (int layout = 0; layout < 3; layout++) {
        moon_draft a, r;
        int64_t shapes[3][2] = {{1000000, 1}, {1, 1000000}, {1000000, 2}};
        make(&a, MOON_FLOAT32, 2, shapes[layout]);
        OK(moon_fill(&a.t, &(moon_value){MOON_VALUE_FLOAT, {.f = 0.1}}));
        int dim = layout == 1 ? 1 : 0;
        OK(moon_reduce_plan(MOON_OP_sum, &a.t, dim, false, &r));
        OK(moon_tensor_alloc(&r.t, moon_cpu()));
        OK(moon_reduce_run(MOON_OP_sum, &a.t, dim, &r.t));
        for (int64_t i = 0; i < r.t.numel; i++) CHECK(fabs(((float *)moon_data(&r.t))[i] - 100000.0) < 0.1);
        moon_tensor_close(&a.t);
        moon_tensor_close(&r.t);
    }
}

/* deviations survive a mean that is large beside them */
static void stable_variance(void) {
    for (int dim = -1; dim < 2; dim++) {
        moon_draft a, r;
        make(&a, MOON_FLOAT64, 2, (int64_t[]){300, 3});
        for (int64_t i = 0; i < 900; i++) ((double *)moon_data(&a.t))[i] = 1e9 + (double)(i / 3 % 2);
        OK(moon_reduce_plan(MOON_OP_var, &a.t, dim, false, &r));
        OK(moon_tensor_alloc(&r.t, moon_cpu()));
        OK(moon_reduce_run(MOON_OP_var, &a.t, dim, &r.t));
        double want = dim < 0 ? 0.25 * 900 / 899 : dim == 0 ? 0.25 * 300 / 299 : 0;
        for (int64_t i = 0; i < r.t.numel; i++) CHECK(fabs(((double *)moon_data(&r.t))[i] - want) < 1e-9);
        moon_tensor_close(&a.t);
        moon_tensor_close(&r.t);
    }
}

static void empty_ones(void) {
    static const struct {
        moon_op_id op;
        double want;
    } cases[] = {{MOON_OP_sum, 0},    {MOON_OP_prod, 1},  {MOON_OP_any, 0},  {MOON_OP_all, 1},
                 {MOON_OP_mean, NAN}, {MOON_OP_var, NAN}, {MOON_OP_std, NAN}};
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        moon_draft a, r;
        real re, im;
        make(&a, MOON_FLOAT32, 2, (int64_t[]){3, 0});
        for (int dim = -1; dim < 2; dim++) {
            OK(moon_reduce_plan(cases[k].op, &a.t, dim, false, &r));
            OK(moon_tensor_alloc(&r.t, moon_cpu()));
            OK(moon_reduce_run(cases[k].op, &a.t, dim, &r.t));
            CHECK_INT(r.t.numel, dim < 0 ? 1 : dim == 0 ? 0 : 3);
            for (int64_t i = 0; i < r.t.numel; i++) {
                read_number((moon_dtype)r.t.dtype, element_number(&r.t, i), &re, &im);
                CHECK(isnan(cases[k].want) ? isnan(re) : re == cases[k].want);
            }
            moon_tensor_close(&r.t);
        }
        moon_tensor_close(&a.t);
    }
}

static void refusals(void) {
    moon_draft a, r;
    make(&a, MOON_FLOAT32, 2, (int64_t[]){3, 2});
    FAILS(moon_reduce_plan(MOON_OP_sum, &a.t, 2, false, &r), MOON_EINDEX, "dimension 3|1..2");
    OK(moon_draft_contiguous(&r, MOON_FLOAT32, 1, (int64_t[]){5}));
    OK(moon_tensor_alloc(&r.t, moon_cpu()));
    FAILS(moon_reduce_run(MOON_OP_sum, &a.t, 0, &r.t), MOON_ESHAPE, "[2]|[5]");
    moon_tensor_close(&r.t);
    moon_tensor_close(&a.t);
    FAILS(moon_reduce_plan(MOON_OP_sum, &a.t, 0, false, &r), MOON_ECLOSED, "closed");
}

/* the output may lie inside the input: here in the row that is read last */
static void into_itself(void) {
    moon_draft a, last;
    make(&a, MOON_INT64, 2, (int64_t[]){3, 3});
    for (int i = 0; i < 9; i++) ((int64_t *)moon_data(&a.t))[i] = i;
    OK(moon_view_select(&last, &a.t, 0, 2));
    last.t.storage = a.t.storage;
    OK(moon_reduce_run(MOON_OP_sum, &a.t, 1, &last.t));
    for (int i = 0; i < 3; i++) CHECK_INT(((int64_t *)moon_data(&a.t))[6 + i], 3 + 9 * i);
    moon_tensor_close(&a.t);
}

/* ---- matrix products ---- */

static void product(moon_dtype dtype, int64_t m, int64_t k, int64_t n, int64_t batch) {
    moon_draft base_a, a, base_b, b, r;
    make_strided(&base_a, &a, dtype, batch ? 3 : 2, batch ? (int64_t[]){batch, m, k} : (int64_t[]){m, k});
    make_strided(&base_b, &b, dtype, 2, (int64_t[]){k, n});
    fill_tame(&a.t);
    fill_tame(&b.t);
    OK(moon_matmul_plan(&a.t, &b.t, &r));
    CHECK(r.t.ndim == a.t.ndim && r.t.dtype == dtype);
    OK(moon_tensor_alloc(&r.t, moon_cpu()));
    OK(moon_matmul_run(&a.t, &b.t, &r.t));
    for (int64_t o = 0; o < r.t.numel; o++) {
        int64_t row = o / n, column = o % n;
        real re = 0, im = 0, x, xi, y, yi, got, got_im, scale = 0;
        uint64_t whole = 0;
        for (int64_t l = 0; l < k; l++) {
            read_number(dtype, element_number(&a.t, row * k + l), &x, &xi);
            read_number(dtype, element_number(&b.t, l * n + column), &y, &yi);
            re += x * y - xi * yi, im += x * yi + xi * y;
            scale += fabsl(x * y) + fabsl(xi * yi);
            whole += (uint64_t)(int64_t)x * (uint64_t)(int64_t)y;
        }
        read_number(dtype, element_number(&r.t, o), &got, &got_im);
        bool good = isnan(re) || isinf(re) || (near(dtype, got, re, scale) && near(dtype, got_im, im, scale));
        uint64_t mask = moon_dtypes[dtype].size >= 8 ? UINT64_MAX : UINT64_MAX >> (64 - 8 * moon_dtypes[dtype].size);
        if (moon_dtypes[dtype].kind == MOON_KIND_BOOL) good = got == (whole != 0);
        else if (moon_dtypes[dtype].kind < MOON_KIND_FLOAT) good = ((uint64_t)(int64_t)got & mask) == (whole & mask);
        if (!good)
            check_failed(__FILE__, __LINE__, "%s %lldx%lldx%lld: %Lg, expected %Lg", moon_dtypes[dtype].name, (long long)m,
                         (long long)k, (long long)n, got, re);
    }
    moon_tensor_close(&base_a.t);
    moon_tensor_close(&base_b.t);
    moon_tensor_close(&r.t);
}

static void products(void) {
    for (int d = 0; d < MOON_DTYPE_COUNT; d++) {
        product((moon_dtype)d, 3, 4, 5, 0);
        product((moon_dtype)d, 1, 1, 1, 0);
        product((moon_dtype)d, 5, 0, 4, 0);
        product((moon_dtype)d, 4, 7, 3, 3);
    }
    product(MOON_FLOAT32, 130, 520, 270, 0); /* several blocks each way */
    product(MOON_FLOAT64, 65, 257, 257, 2);
    product(MOON_INT32, 70, 300, 10, 0);
}

static void product_shapes(void) {
    moon_draft a, b, r;
    OK(moon_draft_contiguous(&a, MOON_FLOAT32, 1, (int64_t[]){3}));
    OK(moon_draft_contiguous(&b, MOON_FLOAT32, 2, (int64_t[]){4, 3}));
    OK(moon_tensor_alloc(&a.t, moon_cpu()));
    OK(moon_tensor_alloc(&b.t, moon_cpu()));
    OK(moon_matmul_plan(&b.t, &a.t, &r));
    CHECK(r.t.ndim == 1 && r.t.shape[0] == 4);
    OK(moon_matmul_plan(&a.t, &a.t, &r));
    CHECK_INT(r.t.ndim, 0);
    for (int i = 0; i < 3; i++) ((float *)moon_data(&a.t))[i] = (float)(i + 1);
    OK(moon_tensor_alloc(&r.t, moon_cpu()));
    OK(moon_matmul_run(&a.t, &a.t, &r.t));
    CHECK(*(float *)moon_data(&r.t) == 14);
    moon_tensor_close(&r.t);
    FAILS(moon_matmul_plan(&a.t, &b.t, &r), MOON_ESHAPE, "[3]|[4, 3]|do not multiply");
    moon_tensor_close(&a.t);
    moon_tensor_close(&b.t);
}

SUITE(reduce_suite, TEST(every_reduction), TEST(pairwise), TEST(stable_variance), TEST(empty_ones), TEST(refusals),
      TEST(into_itself), TEST(products), TEST(product_shapes));
