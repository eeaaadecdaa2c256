#include "check.h"

#include <math.h>
#include <stdlib.h>

#include "../../src/core/format.h"

/* ---- casts ---- */

static void read_parts(moon_dtype dtype, const void *bytes, long double *re, long double *im) {
    moon_value v;
    moon_element_read(dtype, bytes, &v);
    *im = 0;
    switch (v.kind) {
    case MOON_VALUE_BOOL: *re = v.as.b; break;
    case MOON_VALUE_INT: *re = (long double)v.as.i; break;
    case MOON_VALUE_UINT: *re = (long double)v.as.u; break;
    case MOON_VALUE_FLOAT: *re = v.as.f; break;
    default: *re = v.as.c[0], *im = v.as.c[1];
    }
}

/* the whole number as NumPy and torch give it on x86-64, in a word whose low bytes are the element */
static uint64_t to_integer(moon_dtype to, long double v, bool from_integer) {
    int bits = 8 * moon_dtypes[to].size;
    if (from_integer) return v < 0 ? 0 - (uint64_t)-v : (uint64_t)v;
    v = truncl(v);
    long double half = bits == 64 ? 0x1p63L : 0x1p31L;
    bool is_unsigned = moon_dtypes[to].kind == MOON_KIND_UINT && bits >= 32;
    uint64_t middle = bits == 64 ? UINT64_C(1) << 63 : UINT64_C(1) << 31;
    if (is_unsigned && v >= half) return v < 2 * half ? (uint64_t)v : 0;
    if (!(v >= -half && v < half)) return middle;
    return (uint64_t)(int64_t)v;
}

void naive_cast(moon_dtype from, const void *source, moon_dtype to, void *target) {
    long double re, im;
    read_parts(from, source, &re, &im);
    moon_kind kind = (moon_kind)moon_dtypes[to].kind;
    if (to == MOON_BOOL) {
        *(uint8_t *)target = re != 0 || im != 0;
    } else if (kind == MOON_KIND_INT || kind == MOON_KIND_UINT) {
        uint64_t word = to_integer(to, re, moon_dtypes[from].kind < MOON_KIND_FLOAT);
        memcpy(target, &word, moon_dtypes[to].size);
    } else if (to == MOON_FLOAT32) {
        memcpy(target, &(float){(float)re}, 4);
    } else if (to == MOON_FLOAT64) {
        memcpy(target, &(double){(double)re}, 8);
    } else if (to == MOON_COMPLEX64) {
        memcpy(target, &(float[2]){(float)re, (float)im}, 8);
    } else if (to == MOON_COMPLEX128) {
        memcpy(target, &(double[2]){(double)re, (double)im}, 16);
    } else {
        uint32_t code = isnan(re) ? UINT32_MAX >> 17 : nearest_code(to, re); /* 0x7fff, 0x7f: a NaN in all four */
        if (isnan(re) && moon_dtypes[to].size == 1) code = 0x7f;
        memcpy(target, &code, moon_dtypes[to].size);
    }
}

static bool both_nan(moon_dtype dtype, const void *a, const void *b) {
    long double ar, ai, br, bi;
    read_parts(dtype, a, &ar, &ai);
    read_parts(dtype, b, &br, &bi);
    return (isnan(ar) ? isnan(br) : ar == br) && (isnan(ai) ? isnan(bi) : ai == bi);
}

bool same_element(moon_dtype dtype, const void *a, const void *b) {
    if (memcmp(a, b, moon_dtypes[dtype].size) == 0) return true;
    return moon_dtypes[dtype].kind >= MOON_KIND_FLOAT && both_nan(dtype, a, b);
}

static void fill_edges(const moon_tensor *t) {
    static const double edges[] = {NAN,
                                   INFINITY,
                                   -INFINITY,
                                   -0.0,
                                   0.4,
                                   -0.6,
                                   1.5,
                                   2.5,
                                   -1,
                                   127.9,
                                   128,
                                   -129,
                                   255,
                                   256,
                                   300,
                                   32767.5,
                                   32768,
                                   65504,
                                   65519,
                                   65520,
                                   65536,
                                   70000,
                                   -70000,
                                   2147483520,
                                   2147483647,
                                   2147483648.0,
                                   -2147483648.0,
                                   -2147483649.0,
                                   -3e9,
                                   3e9,
                                   4294967040.0,
                                   4294967295.0,
                                   4294967296.0,
                                   1e10,
                                   9223371487098961920.0,
                                   9223372036854775808.0,
                                   -9223372036854775808.0,
                                   -9.3e18,
                                   1e19,
                                   18446744073709551616.0,
                                   1e20,
                                   -1e20,
                                   1e300,
                                   447,
                                   448,
                                   464,
                                   465,
                                   480,
                                   57344,
                                   61440,
                                   1e-8,
                                   6e-8,
                                   3e-8,
                                   1e-40};
    fill_random(t);
    for (int64_t i = 0; i < t->numel && i < (int64_t)(sizeof edges / sizeof *edges); i++) {
        moon_value v = {MOON_VALUE_FLOAT, {.f = edges[i]}};
        char bytes[16];
        if (moon_element_write((moon_dtype)t->dtype, bytes, &v) == MOON_OK) memcpy(element_number(t, i), bytes, moon_itemsize(t));
    }
}

static void casts(void) {
    for (int from = 0; from < MOON_DTYPE_COUNT; from++) {
        for (int to = 0; to < MOON_DTYPE_COUNT; to++) {
            moon_draft a, b;
            make(&a, (moon_dtype)from, 1, (int64_t[]){300});
            make(&b, (moon_dtype)to, 1, (int64_t[]){300});
            fill_edges(&a.t);
            OK(moon_copy(&b.t, &a.t));
            for (int64_t i = 0; i < 300; i++) {
                char want[16];
                naive_cast((moon_dtype)from, element_number(&a.t, i), (moon_dtype)to, want);
                if (from == to) memcpy(want, element_number(&a.t, i), moon_itemsize(&a.t));
                if (!same_element((moon_dtype)to, element_number(&b.t, i), want)) {
                    char source[64], got[64], expected[64];
                    moon_format_element((moon_dtype)from, element_number(&a.t, i), source, sizeof source);
                    moon_format_element((moon_dtype)to, element_number(&b.t, i), got, sizeof got);
                    moon_format_element((moon_dtype)to, want, expected, sizeof expected);
                    check_failed(__FILE__, __LINE__, "%s %s to %s is %s, expected %s", moon_dtypes[from].name, source,
                                 moon_dtypes[to].name, got, expected);
                }
            }
            moon_tensor_close(&a.t);
            moon_tensor_close(&b.t);
        }
    }
}

/* a bool byte other than 0 and 1 is true, and a copy leaves it as it is */
static void bool_bytes(void) {
    moon_draft a, b;
    make(&a, MOON_BOOL, 1, (int64_t[]){2});
    make(&b, MOON_INT32, 1, (int64_t[]){2});
    moon_data(&a.t)[0] = 7, moon_data(&a.t)[1] = 0;
    OK(moon_copy(&b.t, &a.t));
    CHECK_INT(((int32_t *)moon_data(&b.t))[0], 1);
    CHECK_INT(((int32_t *)moon_data(&b.t))[1], 0);
    moon_tensor_close(&a.t);
    moon_tensor_close(&b.t);
}

static void signalling_nans(void) {
    uint32_t quiet = 0x7f800001; /* signalling: any arithmetic would quieten it */
    moon_draft a, b, t;
    make(&a, MOON_FLOAT32, 2, (int64_t[]){100, 100});
    make(&b, MOON_FLOAT32, 2, (int64_t[]){100, 100});
    for (int i = 0; i < 10000; i++) memcpy(moon_data(&a.t) + 4 * i, &quiet, 4);
    OK(moon_view_transpose(&t, &a.t, 0, 1));
    t.t.storage = a.t.storage;
    OK(moon_copy(&b.t, &t.t));
    CHECK(memcmp(moon_data(&a.t), moon_data(&b.t), 40000) == 0);
    memset(moon_data(&b.t), 0, 40000);
    OK(moon_copy(&b.t, &a.t));
    CHECK(memcmp(moon_data(&a.t), moon_data(&b.t), 40000) == 0);
    moon_tensor_close(&a.t);
    moon_tensor_close(&b.t);
}

/* ---- layouts ---- */

static void random_layouts(void) {
    for (int round = 0; round < rounds(4000); round++) {
        moon_draft base, target, other, source;
        moon_dtype to = (moon_dtype)random_below(MOON_DTYPE_COUNT),
                   from = random_below(2) ? to : (moon_dtype)random_below(MOON_DTYPE_COUNT);
        random_view(&base, &target, to);
        make_strided(&other, &source, from, target.t.ndim, target.t.shape);
        fill_random(&source.t);
        char *before = malloc(base.t.storage->nbytes + 1);
        memcpy(before, base.t.storage->host, base.t.storage->nbytes);
        OK(moon_copy(&target.t, &source.t));
        for (int64_t i = 0; i < target.t.numel; i++) {
            char want[16], *got = element_number(&target.t, i);
            if (from == to) memcpy(want, element_number(&source.t, i), moon_itemsize(&source.t));
            else naive_cast(from, element_number(&source.t, i), to, want);
            if (!same_element(to, got, want)) check_failed(__FILE__, __LINE__, "round %d element %lld", round, (long long)i);
            memcpy(before + (got - (char *)base.t.storage->host), got, moon_itemsize(&target.t));
        }
        /* the gaps between the target's elements are as they were */
        CHECK(memcmp(before, base.t.storage->host, base.t.storage->nbytes) == 0);
        free(before);
        moon_tensor_close(&base.t);
        moon_tensor_close(&other.t);
    }
}

static void transposes(void) {
    static const moon_dtype dtypes[] = {MOON_UINT8, MOON_FLOAT16, MOON_FLOAT32, MOON_INT64, MOON_COMPLEX128};
    for (int k = 0; k < 5; k++) {
        for (int64_t rows = 1; rows < 200; rows += 61) {
            moon_draft a, t, b;
            make(&a, dtypes[k], 3, (int64_t[]){3, rows, 131});
            fill_random(&a.t);
            OK(moon_view_transpose(&t, &a.t, 1, 2));
            t.t.storage = a.t.storage;
            make(&b, dtypes[k], 3, (int64_t[]){3, 131, rows});
            OK(moon_copy(&b.t, &t.t));
            for (int64_t i = 0; i < b.t.numel; i++) {
                CHECK(memcmp(element_number(&b.t, i), element_number(&t.t, i), moon_itemsize(&b.t)) == 0);
            }
            moon_tensor_close(&a.t);
            moon_tensor_close(&b.t);
        }
    }
}

static void broadcasts(void) {
    moon_draft a, b;
    make(&a, MOON_INT32, 2, (int64_t[]){3, 1});
    make(&b, MOON_FLOAT64, 3, (int64_t[]){2, 3, 4});
    for (int i = 0; i < 3; i++) ((int32_t *)moon_data(&a.t))[i] = i;
    OK(moon_copy(&b.t, &a.t));
    for (int i = 0; i < 24; i++) CHECK(((double *)moon_data(&b.t))[i] == i / 4 % 3);
    FAILS(moon_copy(&a.t, &b.t), MOON_ESHAPE, "[2, 3, 4]|[3, 1]");
    moon_tensor_close(&a.t);
    moon_tensor_close(&b.t);
}

/* ---- overlap ---- */

static void onto_itself(void) {
    moon_draft base, a, b;
    make(&base, MOON_INT32, 1, (int64_t[]){100});
    int32_t *x = (int32_t *)moon_data(&base.t);
    for (int i = 0; i < 100; i++) x[i] = i;
    OK(moon_view_slice(&a, &base.t, 0, 0, 99, 1));
    OK(moon_view_slice(&b, &base.t, 0, 1, 99, 1));
    a.t.storage = b.t.storage = base.t.storage;
    OK(moon_copy(&b.t, &a.t));
    CHECK_INT(x[0], 0);
    for (int i = 1; i < 100; i++) CHECK_INT(x[i], i - 1);
    OK(moon_view_flip(&a, &base.t, 0));
    a.t.storage = base.t.storage;
    for (int i = 0; i < 100; i++) x[i] = i;
    OK(moon_copy(&base.t, &a.t));
    for (int i = 0; i < 100; i++) CHECK_INT(x[i], 99 - i);
    moon_tensor_close(&base.t);
    make(&base, MOON_FLOAT32, 2, (int64_t[]){40, 40});
    for (int i = 0; i < 1600; i++) ((float *)moon_data(&base.t))[i] = (float)i;
    OK(moon_view_transpose(&a, &base.t, 0, 1));
    a.t.storage = base.t.storage;
    OK(moon_copy(&base.t, &a.t));
    for (int i = 0; i < 1600; i++) CHECK(((float *)moon_data(&base.t))[i] == (float)(i % 40 * 40 + i / 40));
    OK(moon_copy(&base.t, &base.t));
    moon_tensor_close(&base.t);
}

static void readonly_targets(void) {
    moon_draft base, e;
    make(&base, MOON_INT32, 1, (int64_t[]){1});
    OK(moon_view_expand(&e, &base.t, 1, (int64_t[]){5}));
    e.t.storage = base.t.storage;
    FAILS(moon_copy(&e.t, &base.t), MOON_EREADONLY, "read-only|clone()");
    FAILS(moon_fill(&e.t, &(moon_value){MOON_VALUE_INT, {.i = 1}}), MOON_EREADONLY, "read-only");
    base.t.storage->readonly = true;
    FAILS(moon_fill(&base.t, &(moon_value){MOON_VALUE_INT, {.i = 1}}), MOON_EREADONLY, "read-only");
    moon_tensor_close(&base.t);
    FAILS(moon_copy(&base.t, &base.t), MOON_ECLOSED, "closed");
    FAILS(moon_fill(&base.t, &(moon_value){MOON_VALUE_INT, {.i = 1}}), MOON_ECLOSED, "closed");
}

static void fills(void) {
    for (int d = 0; d < MOON_DTYPE_COUNT; d++) {
        for (int round = 0; round < 30; round++) {
            moon_draft base, v;
            random_view(&base, &v, (moon_dtype)d);
            moon_value one = {MOON_VALUE_INT, {.i = 1}};
            char want[16];
            OK(moon_element_write((moon_dtype)d, want, &one));
            int64_t bytes = 0;
            OK(moon_fill(&v.t, &one));
            for (int64_t i = 0; i < v.t.numel; i++) CHECK(memcmp(element_number(&v.t, i), want, moon_itemsize(&v.t)) == 0);
            for (size_t i = 0; i < base.t.storage->nbytes; i++) bytes += ((uint8_t *)base.t.storage->host)[i];
            int64_t each = 0;
            for (size_t i = 0; i < moon_itemsize(&v.t); i++) each += (uint8_t)want[i];
            CHECK_INT(bytes, v.t.numel * each); /* and nothing else was touched */
            moon_tensor_close(&base.t);
        }
    }
    moon_draft a;
    make(&a, MOON_UINT8, 1, (int64_t[]){3});
    FAILS(moon_fill(&a.t, &(moon_value){MOON_VALUE_INT, {.i = 256}}), MOON_EVALUE, "256|uint8");
    moon_tensor_close(&a.t);
}

static void element_addresses(void) {
    moon_draft a;
    void *p;
    make(&a, MOON_INT16, 2, (int64_t[]){2, 3});
    OK(moon_element_at(&a.t, (int64_t[]){1, 2}, &p));
    CHECK((char *)p == moon_data(&a.t) + 10);
    FAILS(moon_element_at(&a.t, (int64_t[]){1, 3}, &p), MOON_EINDEX, "index 4|1..3|dim 2");
    FAILS(moon_element_at(&a.t, (int64_t[]){-1, 0}, &p), MOON_EINDEX, "index 0");
    moon_tensor_close(&a.t);
    FAILS(moon_element_at(&a.t, (int64_t[]){1, 2}, &p), MOON_ECLOSED, "closed");
}

/* ---- comparison ---- */

static void equality(void) {
    for (int d = 0; d < MOON_DTYPE_COUNT; d++) {
        moon_draft base, v, other, w;
        bool same = false;
        make_strided(&base, &v, (moon_dtype)d, 2, (int64_t[]){5, 7});
        make_strided(&other, &w, (moon_dtype)d, 2, (int64_t[]){5, 7});
        OK(moon_fill(&v.t, &(moon_value){MOON_VALUE_INT, {.i = 1}}));
        OK(moon_copy(&w.t, &v.t));
        OK(moon_equal(&v.t, &w.t, &same));
        CHECK(same);
        OK(moon_element_write((moon_dtype)d, element_number(&w.t, 34), &(moon_value){MOON_VALUE_INT, {.i = 0}}));
        OK(moon_equal(&v.t, &w.t, &same));
        CHECK(!same);
        moon_tensor_close(&base.t);
        moon_tensor_close(&other.t);
    }
    moon_draft a, b;
    bool same;
    make(&a, MOON_FLOAT32, 1, (int64_t[]){1});
    make(&b, MOON_FLOAT64, 1, (int64_t[]){1});
    *(float *)moon_data(&a.t) = NAN;
    OK(moon_equal(&a.t, &a.t, &same));
    CHECK(!same);
    OK(moon_equal(&a.t, &b.t, &same));
    CHECK(!same);
    moon_tensor_close(&a.t);
    moon_tensor_close(&b.t);
}

static bool close_to(double x, double y, double rtol, double atol, bool equal_nan) {
    moon_draft a, b;
    bool close = false;
    make(&a, MOON_FLOAT64, 0, NULL);
    make(&b, MOON_FLOAT64, 0, NULL);
    *(double *)moon_data(&a.t) = x;
    *(double *)moon_data(&b.t) = y;
    OK(moon_allclose(&a.t, &b.t, rtol, atol, equal_nan, &close));
    moon_tensor_close(&a.t);
    moon_tensor_close(&b.t);
    return close;
}

static void closeness(void) {
    CHECK(close_to(1, 1 + 1e-9, 1e-5, 1e-8, false));
    CHECK(!close_to(1, 1.1, 1e-5, 1e-8, false));
    CHECK(!close_to(NAN, NAN, 1, 1, false));
    CHECK(close_to(NAN, NAN, 1, 1, true));
    CHECK(!close_to(NAN, 1, 1, 1, true));
    CHECK(close_to(INFINITY, INFINITY, 0, 0, false));
    CHECK(!close_to(INFINITY, -INFINITY, 1, 1, false));
    CHECK(!close_to(1, INFINITY, 1, 1, false));
    CHECK(close_to(100, 101, 0, 1, false));
}

SUITE(copy_suite, TEST(casts), TEST(bool_bytes), TEST(signalling_nans), TEST(random_layouts), TEST(transposes), TEST(broadcasts),
      TEST(onto_itself), TEST(readonly_targets), TEST(fills), TEST(element_addresses), TEST(equality), TEST(closeness));
