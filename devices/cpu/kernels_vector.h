/* float32 functions in branch-free arithmetic, so that loops over them become vector code; every step rounds as written, hence
   the same bits at every instruction-set level. Errors, in units of the last place of the result, over all floats:
   exp 1, log 1, tanh 2 (spec/c/vector_test.c holds them). float64 and all other functions are libm's. Coefficients are those of
   Stephen Moshier's Cephes library. */
#ifndef MOON_KERNELS_VECTOR_H
#define MOON_KERNELS_VECTOR_H

#include "../../src/core/half.h"

/* 2^k for -126 <= k <= 127 */
static inline float power_of_two(int32_t k) { return moon_bits_float((uint32_t)(k + 127) << 23); }

/* exp(x) = 2^k exp(r), |r| <= ln(2) / 2 */
static inline float exp_f32(float x) {
    const float rounder = 12582912.0f; /* 1.5 * 2^23: a sum with it has its units in the last place */
    x = x > 89.0f ? 89.0f : x;         /* infinity from here on, 0 below; NaN stays */
    x = x < -105.0f ? -105.0f : x;
    float t = x * 1.44269504f + rounder, n = t - rounder;
    int32_t k = (int32_t)(moon_float_bits(t) - moon_float_bits(rounder));
    float r = (x - n * 0.693359375f) - n * -2.12194440e-4f; /* ln(2) in two parts, the first product exact */
    float p = 1.9875691500e-4f;
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = (p * (r * r) + r) + 1.0f;
    /* in two steps: subnormal results round once; what NaN makes of k is kept in range */
    int32_t half = (k >> 1) < -80 ? -80 : (k >> 1) > 80 ? 80 : (k >> 1), rest = k - half;
    rest = rest < -80 ? -80 : rest > 80 ? 80 : rest;
    return p * power_of_two(half) * power_of_two(rest);
}

/* log(x) = e ln(2) + log(m), sqrt(1/2) <= m < sqrt(2) */
static inline float log_f32(float x) {
    int tiny = x < 1.17549435e-38f;
    uint32_t u = moon_float_bits(tiny ? x * 8388608.0f : x);
    uint32_t shifted = u - 0x3f3504f3u; /* sqrt(1/2) */
    int32_t e = (int32_t)shifted >> 23;
    float m = moon_bits_float((shifted & 0x007fffffu) + 0x3f3504f3u), n = (float)(tiny ? e - 23 : e);
    float f = m - 1.0f, z = f * f;
    float p = 7.0376836292e-2f;
    p = p * f - 1.1514610310e-1f;
    p = p * f + 1.1676998740e-1f;
    p = p * f - 1.2420140846e-1f;
    p = p * f + 1.4249322787e-1f;
    p = p * f - 1.6668057665e-1f;
    p = p * f + 2.0000714765e-1f;
    p = p * f - 2.4999993993e-1f;
    p = p * f + 3.3333331174e-1f;
    float y = p * f * z + n * -2.12194440e-4f - 0.5f * z;
    float r = (f + y) + n * 0.693359375f;
    r = x == INFINITY ? x : r;
    r = x < 0 ? NAN : r;
    r = x == 0 ? -INFINITY : r;
    return x != x ? x : r;
}

static inline float tanh_f32(float x) {
    float a = fabsf(x), z = x * x;
    float p = -5.70498872745e-3f;
    p = p * z + 2.06390887954e-2f;
    p = p * z - 5.37397155531e-2f;
    p = p * z + 1.33314422036e-1f;
    p = p * z - 3.33332819422e-1f;
    p = p * z * a + a;
    float q = 1.0f - 2.0f / (exp_f32(a + a) + 1.0f);
    return x != x ? x : copysignf(a < 0.625f ? p : q, x);
}

#endif
