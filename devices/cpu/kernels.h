/* The inner loops, all over packed elements: what kernels.c makes from ops.def. It is one translation unit, so that it can be
   compiled at several instruction-set levels, which give the same bits; moon_kernels_now() is the table in use. */
#ifndef MOON_KERNELS_H
#define MOON_KERNELS_H

#include "../../src/core/ops.h"

/* out[i] = op(a[i], b[i]), i < n >= 1. sa and sb are 1, or 0 for one operand that stays; not both 0. b is unused by unary
   operators. out may be a or b, but not overlap them otherwise. Reductions have one too: it merges accumulators. */
typedef void (*moon_loop)(char *out, const char *a, const char *b, int sa, int sb, int64_t n);
/* *out = op over x[0..n), n >= 1, in several lanes */
typedef void (*moon_fold)(char *out, const char *x, int64_t n);
/* the first best of x[0..n): index into *at, unless the value at best (if *at >= 0) is as good; NaN is best of all */
typedef void (*moon_seek)(char *best, int64_t *at, const char *x, int64_t n, int64_t base, bool largest);
/* c[i][j] += sum a[i][k] b[k][j]; row strides in elements */
typedef void (*moon_gemm)(char *c, const char *a, const char *b, int64_t m, int64_t k, int64_t n, int64_t c_row, int64_t a_row,
                          int64_t b_row);
/* out[i] = mask[i] ? a[i] : b[i]; sa and sb are 1, or 0 for one element that stays. By size: 1, 2, 4, 8, 16 bytes */
typedef void (*moon_choose)(void *out, const uint8_t *mask, const void *a, const void *b, int sa, int sb, int64_t n);
typedef void (*moon_cast)(void *to, const void *from, int64_t n);

typedef struct moon_kernels {
    /* by compute dtype, then operator; NULL where a dtype or an operator has none. float16, bfloat16 and float8 have none:
       they are cast to float32 and back */
    const moon_loop *loops[MOON_DTYPE_COUNT];
    const moon_fold *folds[MOON_DTYPE_COUNT];
    moon_seek seeks[MOON_DTYPE_COUNT];
    moon_gemm gemms[MOON_DTYPE_COUNT];
    moon_choose choose[5];                               /* by the logarithm of the size */
    moon_cast casts[MOON_DTYPE_COUNT][MOON_DTYPE_COUNT]; /* from, to */
} moon_kernels;

/* other architectures and compilers have the base level only */
#if defined(__x86_64__) && (defined(__clang__) || (defined(__GNUC__) && __GNUC__ >= 12))
#define MOON_LEVELS 1
extern const moon_kernels moon_kernels_v3, moon_kernels_v4;
#else
#define MOON_LEVELS 0
#endif
extern const moon_kernels moon_kernels_base;

const moon_kernels *moon_kernels_now(void);            /* never NULL */
const moon_kernels *moon_kernels_at(const char *name); /* "base", "v3", "v4"; NULL where the processor lacks it */

/* the dtype that loops for `compute` work in */
static inline moon_dtype moon_loop_dtype(moon_dtype compute) {
    bool narrow = moon_dtypes[compute].kind == MOON_KIND_FLOAT && moon_dtypes[compute].size < 4;
    return narrow ? MOON_FLOAT32 : compute;
}

#endif
