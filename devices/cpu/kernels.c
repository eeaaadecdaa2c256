#include "kernels.h"

#include "../../src/core/half.h"
#include "kernels_math.h"

#define CAT_(a, b) a##b
#define CAT(a, b) CAT_(a, b)

/* each element depends on its own index only, so an output may be the very same memory as an input */
#if defined(__clang__)
#define INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define INDEPENDENT _Pragma("GCC ivdep")
#endif

enum { LANES = 32 };

/* The sets of kinds in ops.def, by kind: b bool, i signed, u unsigned, f float, c complex. */
#define YES(...) __VA_ARGS__
#define NO(...)
#define WHEN(k, kinds) WHEN_(k, kinds)
#define WHEN_(k, kinds) WHEN_##k##_##kinds
#define WHEN_b_ALL YES
#define WHEN_i_ALL YES
#define WHEN_u_ALL YES
#define WHEN_f_ALL YES
#define WHEN_c_ALL YES
#define WHEN_b_NUMBER NO
#define WHEN_i_NUMBER YES
#define WHEN_u_NUMBER YES
#define WHEN_f_NUMBER YES
#define WHEN_c_NUMBER YES
#define WHEN_b_ORDERED YES
#define WHEN_i_ORDERED YES
#define WHEN_u_ORDERED YES
#define WHEN_f_ORDERED YES
#define WHEN_c_ORDERED NO
#define WHEN_b_REAL NO
#define WHEN_i_REAL YES
#define WHEN_u_REAL YES
#define WHEN_f_REAL YES
#define WHEN_c_REAL NO
#define WHEN_b_BITS YES
#define WHEN_i_BITS YES
#define WHEN_u_BITS YES
#define WHEN_f_BITS NO
#define WHEN_c_BITS NO
#define WHEN_b_FLOAT NO
#define WHEN_i_FLOAT NO
#define WHEN_u_FLOAT NO
#define WHEN_f_FLOAT YES
#define WHEN_c_FLOAT YES
#define WHEN_b_FLOATREAL NO
#define WHEN_i_FLOATREAL NO
#define WHEN_u_FLOATREAL NO
#define WHEN_f_FLOATREAL YES
#define WHEN_c_FLOATREAL NO
#define WHEN_b_TRUTH YES
#define WHEN_i_TRUTH NO
#define WHEN_u_TRUTH NO
#define WHEN_f_TRUTH NO
#define WHEN_c_TRUTH NO
#define WHEN_b_SELF NO
#define WHEN_i_SELF NO
#define WHEN_u_SELF NO
#define WHEN_f_SELF NO
#define WHEN_c_SELF NO

/* a bool in memory may be any byte */
#define LOAD_b(x) ((x) != 0)
#define LOAD_i(x) (x)
#define LOAD_u(x) (x)
#define LOAD_f(x) (x)
#define LOAD_c(x) (x)

#define S b8
#define T bool
#define W int
#define M uint8_t
#define R uint8_t
#define K b
#include "kernels_of.h"

#define S i8
#define T int8_t
#define W uint32_t
#define M int8_t
#define R int8_t
#define K i
#include "kernels_of.h"

#define S i16
#define T int16_t
#define W uint32_t
#define M int16_t
#define R int16_t
#define K i
#include "kernels_of.h"

#define S i32
#define T int32_t
#define W uint32_t
#define M int32_t
#define R int32_t
#define K i
#include "kernels_of.h"

#define S i64
#define T int64_t
#define W uint64_t
#define M int64_t
#define R int64_t
#define K i
#include "kernels_of.h"

#define S u8
#define T uint8_t
#define W uint32_t
#define M uint8_t
#define R uint8_t
#define K u
#include "kernels_of.h"

#define S u16
#define T uint16_t
#define W uint32_t
#define M uint16_t
#define R uint16_t
#define K u
#include "kernels_of.h"

#define S u32
#define T uint32_t
#define W uint32_t
#define M uint32_t
#define R uint32_t
#define K u
#include "kernels_of.h"

#define S u64
#define T uint64_t
#define W uint64_t
#define M uint64_t
#define R uint64_t
#define K u
#include "kernels_of.h"

#define S f32
#define T float
#define W float
#define M float
#define R float
#define K f
#define PATCH_FILE "kernels_patch.h"
#include "kernels_of.h"
#undef PATCH_FILE

#define S f64
#define T double
#define W double
#define M double
#define R double
#define K f
#include "kernels_of.h"

#define S c64
#define T float complex
#define W float complex
#define M float complex
#define R float
#define K c
#include "kernels_of.h"

#define S c128
#define T double complex
#define W double complex
#define M double complex
#define R double
#define K c
#include "kernels_of.h"

#include "kernels_cast.h"

typedef struct pair {
    uint64_t low, high;
} pair;

#define CHOOSE(T)                                                                                                       \
    static void choose_##T(void *out, const uint8_t *mask, const void *pa, const void *pb, int sa, int sb, int64_t n) { \
        T *d = out;                                                                                                     \
        const T *a = pa, *b = pb;                                                                                       \
        if (sa && sb) {                                                                                                 \
            INDEPENDENT for (int64_t i = 0; i < n; i++) d[i] = mask[i] ? a[i] : b[i];                                   \
        } else if (sa) {                                                                                                \
            const T v = *b;                                                                                             \
            INDEPENDENT for (int64_t i = 0; i < n; i++) d[i] = mask[i] ? a[i] : v;                                      \
        } else if (sb) {                                                                                                \
            const T v = *a;                                                                                             \
            INDEPENDENT for (int64_t i = 0; i < n; i++) d[i] = mask[i] ? v : b[i];                                      \
        } else {                                                                                                        \
            const T v = *a, w = *b;                                                                                     \
            INDEPENDENT for (int64_t i = 0; i < n; i++) d[i] = mask[i] ? v : w;                                         \
        }                                                                                                               \
    }
CHOOSE(uint8_t)
CHOOSE(uint16_t)
CHOOSE(uint32_t)
CHOOSE(uint64_t)
CHOOSE(pair)

/* clang-format off */
#define ALL_TYPES(X)                                                                                              \
    X(MOON_BOOL, b8) X(MOON_INT8, i8) X(MOON_INT16, i16) X(MOON_INT32, i32) X(MOON_INT64, i64) X(MOON_UINT8, u8)  \
    X(MOON_UINT16, u16) X(MOON_UINT32, u32) X(MOON_UINT64, u64) X(MOON_FLOAT32, f32) X(MOON_FLOAT64, f64)
#define COMPLEX_TYPES(X) X(MOON_COMPLEX64, c64) X(MOON_COMPLEX128, c128)
/* clang-format on */
#define LOOPS(D, S) [D] = loops_##S,
#define FOLDS(D, S) [D] = folds_##S,
#define SEEKS(D, S) [D] = seek_##S,
#define GEMMS(D, S) [D] = gemm_##S,

#ifndef MOON_TABLE /* kernels_v3.c and kernels_v4.c include this file */
#define MOON_TABLE moon_kernels_base
#endif
const moon_kernels MOON_TABLE = {
    .loops = {ALL_TYPES(LOOPS) COMPLEX_TYPES(LOOPS)},
    .folds = {ALL_TYPES(FOLDS) COMPLEX_TYPES(FOLDS)},
    .seeks = {ALL_TYPES(SEEKS)},
    .gemms = {ALL_TYPES(GEMMS) COMPLEX_TYPES(GEMMS)},
    .choose = {choose_uint8_t, choose_uint16_t, choose_uint32_t, choose_uint64_t, choose_pair},
    .casts = {[MOON_BOOL] = CAST_ROW(b8),
              [MOON_INT8] = CAST_ROW(i8),
              [MOON_INT16] = CAST_ROW(i16),
              [MOON_INT32] = CAST_ROW(i32),
              [MOON_INT64] = CAST_ROW(i64),
              [MOON_UINT8] = CAST_ROW(u8),
              [MOON_UINT16] = CAST_ROW(u16),
              [MOON_UINT32] = CAST_ROW(u32),
              [MOON_UINT64] = CAST_ROW(u64),
              [MOON_FLOAT16] = CAST_ROW(f16),
              [MOON_BFLOAT16] = CAST_ROW(bf16),
              [MOON_FLOAT32] = CAST_ROW(f32),
              [MOON_FLOAT64] = CAST_ROW(f64),
              [MOON_COMPLEX64] = CAST_ROW(c64),
              [MOON_COMPLEX128] = CAST_ROW(c128),
              [MOON_FLOAT8_E4M3FN] = CAST_ROW(e4m3),
              [MOON_FLOAT8_E5M2] = CAST_ROW(e5m2)},
};
