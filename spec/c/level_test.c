/* Every inner loop gives the same bits at every instruction-set level that this processor has. */
#include "check.h"

#include <math.h>
#include <stdlib.h>

#include "../../devices/cpu/kernels.h"

enum { N = 1100, WIDEST = 16 };
static const char *const names[] = {"v3", "v4"};

typedef struct area {
    _Alignas(64) char bytes[N * WIDEST];
} area;

/* patterns at random, and numbers of the ordinary kind, where the interesting results are */
static void scatter(area *a, moon_dtype dtype) {
    size_t size = moon_dtypes[dtype].size;
    for (size_t i = 0; i < sizeof a->bytes / 8; i++) {
        uint64_t u = next_random();
        memcpy(a->bytes + 8 * i, &u, 8);
    }
    for (int64_t i = 0; i < N; i++) {
        if (random_below(3) == 0) continue;
        moon_value v = {MOON_VALUE_FLOAT, {.f = (double)(random_below(2000001) - 1000000) / (double)(1 << random_below(20))}};
        if (moon_dtypes[dtype].kind < MOON_KIND_FLOAT) v = (moon_value){MOON_VALUE_INT, {.i = random_below(100)}};
        if (dtype == MOON_BOOL) v = (moon_value){MOON_VALUE_BOOL, {.b = random_below(2)}};
        if (moon_dtypes[dtype].kind == MOON_KIND_COMPLEX) v = (moon_value){MOON_VALUE_COMPLEX, {.c = {v.as.f, 1 / v.as.f}}};
        (void)moon_element_write(dtype, a->bytes + (size_t)i * size, &v);
    }
}

/* C leaves open which of two NaN operands a sum or product passes on: NaNs made by arithmetic count as one */
static bool same(moon_dtype dtype, const char *a, const char *b, int64_t n) {
    size_t size = moon_dtypes[dtype].size;
    for (int64_t i = 0; i < n; i++) {
        if (memcmp(a + (size_t)i * size, b + (size_t)i * size, size) == 0) continue;
        if (moon_dtypes[dtype].kind < MOON_KIND_FLOAT || !same_element(dtype, a + (size_t)i * size, b + (size_t)i * size))
            return false;
    }
    return true;
}

static moon_dtype result_dtype(moon_op_id op, moon_dtype dtype) {
    if (moon_ops[op].class == MOON_COMPARE || moon_ops[op].class == MOON_LOGICAL) return MOON_BOOL;
    if (op != MOON_OP_abs && op != MOON_OP_angle) return dtype;
    return dtype == MOON_COMPLEX64 ? MOON_FLOAT32 : dtype == MOON_COMPLEX128 ? MOON_FLOAT64 : dtype;
}

static int compared;

static void compare_loops(const moon_kernels *base, const moon_kernels *other, const char *name, moon_dtype dtype) {
    static area a, b, want, got;
    for (int op = 0; op < MOON_OP_COUNT; op++) {
        moon_loop x = base->loops[dtype] ? base->loops[dtype][op] : NULL;
        moon_fold f = base->folds[dtype] ? base->folds[dtype][op] : NULL;
        scatter(&a, dtype), scatter(&b, dtype);
        for (int form = 0; x != NULL && form < 3; form++) {
            int64_t n = N - random_below(70);
            x(want.bytes, a.bytes, b.bytes, form != 1, form != 2, n);
            other->loops[dtype][op](got.bytes, a.bytes, b.bytes, form != 1, form != 2, n);
            compared++;
            if (!same(result_dtype((moon_op_id)op, dtype), want.bytes, got.bytes, n))
                check_failed(__FILE__, __LINE__, "%s of %s at %s, form %d", moon_ops[op].name, moon_dtypes[dtype].name, name,
                             form);
        }
        for (int64_t n = 1; f != NULL && n < N; n += 1 + random_below(90)) {
            f(want.bytes, a.bytes, n);
            other->folds[dtype][op](got.bytes, a.bytes, n);
            compared++;
            if (!same(dtype, want.bytes, got.bytes, 1))
                check_failed(__FILE__, __LINE__, "fold %s of %s at %s", moon_ops[op].name, moon_dtypes[dtype].name, name);
        }
    }
}

static void compare_others(const moon_kernels *base, const moon_kernels *other, const char *name, moon_dtype dtype) {
    static area a, b, want, got;
    scatter(&a, dtype), scatter(&b, dtype);
    for (int largest = 0; base->seeks[dtype] != NULL && largest < 2; largest++) {
        int64_t i = -1, j = -1;
        base->seeks[dtype](want.bytes, &i, a.bytes, N, 0, largest);
        other->seeks[dtype](got.bytes, &j, a.bytes, N, 0, largest);
        if (i != j) check_failed(__FILE__, __LINE__, "seek in %s at %s", moon_dtypes[dtype].name, name);
    }
    if (base->gemms[dtype] == NULL) return;
    want = got = b;
    base->gemms[dtype](want.bytes, a.bytes, b.bytes, 13, 21, 33, 33, 21, 33);
    other->gemms[dtype](got.bytes, a.bytes, b.bytes, 13, 21, 33, 33, 21, 33);
    compared++;
    if (!same(dtype, want.bytes, got.bytes, 13L * 33))
        check_failed(__FILE__, __LINE__, "gemm of %s at %s", moon_dtypes[dtype].name, name);
}

static void compare_casts(const moon_kernels *base, const moon_kernels *other, const char *name, moon_dtype dtype) {
    static area a, want, got;
    for (int to = 0; to < MOON_DTYPE_COUNT; to++) {
        int64_t n = N - random_below(70);
        scatter(&a, dtype);
        base->casts[dtype][to](want.bytes, a.bytes, n);
        other->casts[dtype][to](got.bytes, a.bytes, n);
        compared++;
        /* also NaNs keep their bits */
        if (memcmp(want.bytes, got.bytes, (size_t)n * moon_dtypes[to].size) != 0)
            check_failed(__FILE__, __LINE__, "%s to %s at %s", moon_dtypes[dtype].name, moon_dtypes[to].name, name);
    }
}

static void levels(void) {
    const moon_kernels *base = moon_kernels_at("base");
    CHECK(base != NULL && moon_kernels_at("v9") == NULL);
    bool found = false;
    for (size_t l = 0; l < sizeof names / sizeof *names; l++) {
        const moon_kernels *other = moon_kernels_at(names[l]);
        found = found || moon_kernels_now() == other;
        if (other == NULL) continue;
        compared = 0;
        for (int d = 0; d < MOON_DTYPE_COUNT; d++) {
            compare_loops(base, other, names[l], (moon_dtype)d);
            compare_others(base, other, names[l], (moon_dtype)d);
            compare_casts(base, other, names[l], (moon_dtype)d);
        }
        CHECK(compared > 1500);
    }
    CHECK(found || moon_kernels_now() == base);
}

/* all 65536 halves, and floats of every exponent, with the processor's conversions */
static void halves(void) {
    uint16_t *h = malloc(65536 * 2), *back = malloc(65536 * 2), *again = malloc(65536 * 2);
    float *f = malloc(65536 * 4), *g = malloc(65536 * 4);
    for (int i = 0; i < 65536; i++) h[i] = (uint16_t)i;
    const moon_kernels *base = moon_kernels_at("base");
    for (size_t l = 0; l < sizeof names / sizeof *names; l++) {
        const moon_kernels *other = moon_kernels_at(names[l]);
        if (other == NULL) continue;
        base->casts[MOON_FLOAT16][MOON_FLOAT32](f, h, 65536);
        other->casts[MOON_FLOAT16][MOON_FLOAT32](g, h, 65536);
        CHECK(memcmp(f, g, 65536 * 4) == 0);
        other->casts[MOON_FLOAT32][MOON_FLOAT16](back, g, 65536);
        CHECK(memcmp(back, h, 65536 * 2) == 0); /* signalling NaNs included */
        for (uint32_t high = 0; high < 65536; high += 16) {
            for (uint32_t i = 0; i < 65536; i++) {
                uint32_t bits = (high << 16) + i * 16 + (i & 15);
                memcpy(&f[i], &bits, 4);
            }
            base->casts[MOON_FLOAT32][MOON_FLOAT16](back, f, 65536);
            other->casts[MOON_FLOAT32][MOON_FLOAT16](again, f, 65536);
            if (memcmp(back, again, 65536 * 2) != 0) check_failed(__FILE__, __LINE__, "float32 %x.. at %s", high << 16, names[l]);
        }
    }
    free(h), free(back), free(again), free(f), free(g);
}

SUITE(level_suite, TEST(levels), TEST(halves));
