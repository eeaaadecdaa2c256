/* Casts between all pairs of dtypes; included by kernels.c.

   Integers wrap. Floats round to nearest even, in one rounding. Anything but 0 is true, NaN and either part of a complex
   number included; complex to real drops the imaginary part. Floats to integers drop the fraction; what C leaves undefined
   is what NumPy and torch give on x86-64:

   | to                         | NaN, below the range | above the range           |
   |----------------------------|----------------------|---------------------------|
   | int32, int64               | the lowest number    | the lowest number         |
   | int8, int16, uint8, uint16 | the low bits of the int32 of it                  |
   | uint32, uint64             | the bits of the signed one: -1 is the largest number, NaN the middle; above: 0 | */

static inline int32_t f32_i32(float v) { return (int32_t)(v >= -2147483648.0f && v < 2147483648.0f ? v : -2147483648.0f); }
static inline int32_t f64_i32(double v) { return (int32_t)(v > -2147483649.0 && v < 2147483648.0 ? v : -2147483648.0); }
static inline int64_t f32_i64(float v) {
    return (int64_t)(v >= -9223372036854775808.0f && v < 9223372036854775808.0f ? v : -9223372036854775808.0f);
}
static inline int64_t f64_i64(double v) {
    return (int64_t)(v >= -9223372036854775808.0 && v < 9223372036854775808.0 ? v : -9223372036854775808.0);
}
static inline uint32_t f64_u32(double v) {
    bool high = v >= 2147483648.0;
    return (uint32_t)f64_i32(high ? v - 2147483648.0 : v) ^ (high ? 0x80000000u : 0);
}
static inline uint32_t f32_u32(float v) { return f64_u32(v); }
static inline uint64_t f64_u64(double v) {
    bool high = v >= 9223372036854775808.0;
    return (uint64_t)f64_i64(high ? v - 9223372036854775808.0 : v) ^ (uint64_t)high << 63;
}
static inline uint64_t f32_u64(float v) { return f64_u64(v); }
static inline int64_t keep_signed(int64_t v) { return v; }
static inline uint64_t keep_unsigned(uint64_t v) { return v; }
static inline float keep_float(float v) { return v; }

#define AS32(v) _Generic((v), float : f32_i32, double : f64_i32, uint64_t : keep_unsigned, default : keep_signed)(v)
#define AS64(v) _Generic((v), float : f32_i64, double : f64_i64, uint64_t : keep_unsigned, default : keep_signed)(v)
#define ASU32(v) _Generic((v), float : f32_u32, double : f64_u32, uint64_t : keep_unsigned, default : keep_signed)(v)
#define ASU64(v) _Generic((v), float : f32_u64, double : f64_u64, uint64_t : keep_unsigned, default : keep_signed)(v)
#define ODD(v) _Generic((v), float : keep_float, int64_t : moon_odd_signed, uint64_t : moon_odd_unsigned, default : moon_odd)(v)

/* a dtype's type in memory, its type when loaded, how it is loaded and stored */
#define M_b8 uint8_t
#define M_i8 int8_t
#define M_i16 int16_t
#define M_i32 int32_t
#define M_i64 int64_t
#define M_u8 uint8_t
#define M_u16 uint16_t
#define M_u32 uint32_t
#define M_u64 uint64_t
#define M_f16 uint16_t
#define M_bf16 uint16_t
#define M_f32 float
#define M_f64 double
#define M_c64 float
#define M_c128 double
#define M_e4m3 uint8_t
#define M_e5m2 uint8_t

#define RE_b8(i) uint8_t re = p[i] != 0, im = 0
#define RE_i8(i) int8_t re = p[i], im = 0
#define RE_i16(i) int16_t re = p[i], im = 0
#define RE_i32(i) int32_t re = p[i], im = 0
#define RE_i64(i) int64_t re = p[i], im = 0
#define RE_u8(i) uint8_t re = p[i], im = 0
#define RE_u16(i) uint16_t re = p[i], im = 0
#define RE_u32(i) uint32_t re = p[i], im = 0
#define RE_u64(i) uint64_t re = p[i], im = 0
#define RE_f16(i) float re = moon_from_half(p[i]), im = 0
#define RE_bf16(i) float re = moon_from_bfloat(p[i]), im = 0
#define RE_f32(i) float re = p[i], im = 0
#define RE_f64(i) double re = p[i], im = 0
#define RE_c64(i) float re = p[2 * i], im = p[2 * i + 1]
#define RE_c128(i) double re = p[2 * i], im = p[2 * i + 1]
#define RE_e4m3(i) float re = moon_from_e4m3(p[i]), im = 0
#define RE_e5m2(i) float re = moon_from_e5m2(p[i]), im = 0

#define ST_b8(i) q[i] = re != 0 || im != 0
#define ST_i8(i) q[i] = (int8_t)AS32(re)
#define ST_i16(i) q[i] = (int16_t)AS32(re)
#define ST_i32(i) q[i] = (int32_t)AS32(re)
#define ST_i64(i) q[i] = (int64_t)AS64(re)
#define ST_u8(i) q[i] = (uint8_t)AS32(re)
#define ST_u16(i) q[i] = (uint16_t)AS32(re)
#define ST_u32(i) q[i] = (uint32_t)ASU32(re)
#define ST_u64(i) q[i] = (uint64_t)ASU64(re)
#define ST_f16(i) q[i] = moon_to_half(ODD(re))
#define ST_bf16(i) q[i] = moon_to_bfloat(ODD(re))
#define ST_f32(i) q[i] = (float)re
#define ST_f64(i) q[i] = (double)re
#define ST_c64(i) q[2 * i] = (float)re, q[2 * i + 1] = (float)im
#define ST_c128(i) q[2 * i] = (double)re, q[2 * i + 1] = (double)im
#define ST_e4m3(i) q[i] = moon_to_e4m3(ODD(re))
#define ST_e5m2(i) q[i] = moon_to_e5m2(ODD(re))

#define CAST(A, B)                                                                        \
    static void A##_##B##_cast(void *restrict to, const void *restrict from, int64_t n) { \
        const M_##A *restrict p = from;                                                   \
        M_##B *restrict q = to;                                                           \
        for (int64_t i = 0; i < n; i++) {                                                 \
            RE_##A(i);                                                                    \
            (void)im;                                                                     \
            ST_##B(i);                                                                    \
        }                                                                                 \
    }
/* clang-format off */
#define CASTS(A)                                                                                     \
    CAST(A, b8) CAST(A, i8) CAST(A, i16) CAST(A, i32) CAST(A, i64) CAST(A, u8) CAST(A, u16)          \
    CAST(A, u32) CAST(A, u64) CAST(A, f16) CAST(A, bf16) CAST(A, f32) CAST(A, f64) CAST(A, c64)      \
    CAST(A, c128) CAST(A, e4m3) CAST(A, e5m2)
/* clang-format on */
CASTS(b8)
CASTS(i8)
CASTS(i16)
CASTS(i32)
CASTS(i64)
CASTS(u8)
CASTS(u16)
CASTS(u32)
CASTS(u64)
CASTS(f16)
CASTS(bf16)
CASTS(f32)
CASTS(f64)
CASTS(c64)
CASTS(c128)
CASTS(e4m3)
CASTS(e5m2)

#ifdef MOON_F16C
/* The processor's own conversions, but for blocks with a NaN, which they would make quiet. */
static void f16_f32_fast(void *restrict to, const void *restrict from, int64_t n) {
    const uint16_t *restrict p = from;
    float *restrict q = to;
    int64_t i = 0;
    for (; i + 16 <= n; i += 16) {
        __m256 a = _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(p + i)));
        __m256 b = _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(p + i + 8)));
        if (__builtin_expect(_mm256_movemask_ps(_mm256_cmp_ps(a, b, _CMP_UNORD_Q)), 0)) {
            f16_f32_cast(q + i, p + i, 16);
            continue;
        }
        _mm256_storeu_ps(q + i, a);
        _mm256_storeu_ps(q + i + 8, b);
    }
    f16_f32_cast(q + i, p + i, n - i);
}

static void f32_f16_fast(void *restrict to, const void *restrict from, int64_t n) {
    const float *restrict p = from;
    uint16_t *restrict q = to;
    int64_t i = 0;
    for (; i + 16 <= n; i += 16) {
        __m256 a = _mm256_loadu_ps(p + i), b = _mm256_loadu_ps(p + i + 8);
        if (__builtin_expect(_mm256_movemask_ps(_mm256_cmp_ps(a, b, _CMP_UNORD_Q)), 0)) {
            f32_f16_cast(q + i, p + i, 16);
            continue;
        }
        _mm_storeu_si128((__m128i *)(q + i), _mm256_cvtps_ph(a, _MM_FROUND_TO_NEAREST_INT));
        _mm_storeu_si128((__m128i *)(q + i + 8), _mm256_cvtps_ph(b, _MM_FROUND_TO_NEAREST_INT));
    }
    f32_f16_cast(q + i, p + i, n - i);
}
#define f16_f32_cast f16_f32_fast
#define f32_f16_cast f32_f16_fast
#endif

/* clang-format off */
#define CAST_ROW(A)                                                                                  \
    {                                                                                                \
        [MOON_BOOL] = A##_b8_cast, [MOON_INT8] = A##_i8_cast, [MOON_INT16] = A##_i16_cast,           \
        [MOON_INT32] = A##_i32_cast, [MOON_INT64] = A##_i64_cast, [MOON_UINT8] = A##_u8_cast,        \
        [MOON_UINT16] = A##_u16_cast, [MOON_UINT32] = A##_u32_cast, [MOON_UINT64] = A##_u64_cast,    \
        [MOON_FLOAT16] = A##_f16_cast, [MOON_BFLOAT16] = A##_bf16_cast, [MOON_FLOAT32] = A##_f32_cast, \
        [MOON_FLOAT64] = A##_f64_cast, [MOON_COMPLEX64] = A##_c64_cast,                              \
        [MOON_COMPLEX128] = A##_c128_cast, [MOON_FLOAT8_E4M3FN] = A##_e4m3_cast,                     \
        [MOON_FLOAT8_E5M2] = A##_e5m2_cast,                                                          \
    }
/* clang-format on */
