/* float32 functions in branch-free arithmetic, so that loops over them become vector code; every step rounds as written, hence
   the same bits at every instruction-set level. spec/c/vector_test.c holds their errors, in units of the last place of the result,
   over all floats. float64's are libm's. Coefficients are those of Stephen Moshier's Cephes library; for erf beyond 1 a fit of
   log(erfc(x)) by Chebyshev polynomials. The trigonometric ones are in kernels_trig.h. */
#ifndef MOON_KERNELS_VECTOR_H
#define MOON_KERNELS_VECTOR_H

#include "../../src/core/half.h"

/* 2^k for -126 <= k <= 127 */
static inline float power_of_two(int32_t k) { return moon_bits_float((uint32_t)(k + 127) << 23); }

/* 1.5 * 2^23: a sum with it has its units in the last place */
static const float rounder = 12582912.0f;

/* x = k ln(2) + r, |r| <= ln(2) / 2, and p = exp(r) - 1 */
typedef struct exponential {
    int32_t k;
    float p;
} exponential;

static inline exponential take_exp(float x) {
    float t = x * 1.44269504f + rounder, n = t - rounder;
    float r = (x - n * 0.693359375f) - n * -2.12194440e-4f; /* ln(2) in two parts, the first product exact */
    float p = 1.9875691500e-4f;
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    return (exponential){(int32_t)(moon_float_bits(t) - moon_float_bits(rounder)), p * (r * r) + r};
}

/* exp(x) for |x| < 80 */
static inline float exp_inner(float x) {
    exponential e = take_exp(x);
    return (e.p + 1.0f) * power_of_two(e.k);
}

/* exp(x) / 2^down */
static inline float exp_scaled(float x, int32_t down) {
    x = x > 90.0f ? 90.0f : x; /* infinity from here on, 0 below; NaN stays */
    x = x < -105.0f ? -105.0f : x;
    exponential e = take_exp(x);
    int32_t k = e.k - down;
    float p = e.p + 1.0f;
    /* in two steps: subnormal results round once; what NaN makes of k is kept in range */
    int32_t half = (k >> 1) < -80 ? -80 : (k >> 1) > 80 ? 80 : (k >> 1), rest = k - half;
    rest = rest < -80 ? -80 : rest > 80 ? 80 : rest;
    return p * power_of_two(half) * power_of_two(rest);
}

static inline float exp_f32(float x) { return exp_scaled(x, 0); }

/* 2^n exp(r) - 1 = 2^n (exp(r) - 1) + (2^n - 1), all at half the size, so that the power of two stays in range */
static inline float expm1_f32(float x) {
    float y = x > 90.0f ? 90.0f : x;
    y = y < -20.0f ? -20.0f : y;
    exponential v = take_exp(y);
    int32_t k = v.k - 1 < -40 ? -40 : v.k - 1 > 127 ? 127 : v.k - 1; /* of NaN too */
    float half = power_of_two(k);
    float e = (half * v.p + (half - 0.5f)) * 2.0f;
    return fabsf(x) < 1e-8f ? x : x > 89.0f ? INFINITY : e;
}

static inline float sinh_f32(float x) {
    float a = fabsf(x), z = x * x;
    float p = 2.03721912945e-4f;
    p = p * z + 8.33028376239e-3f;
    p = p * z + 1.66667160211e-1f;
    p = p * z * a + a;
    float half = exp_scaled(a, 1), q = half - 0.25f / half;
    return copysignf(a < 1.0f ? p : q, x);
}

static inline float cosh_f32(float x) {
    float half = exp_scaled(fabsf(x), 1);
    return half + 0.25f / half;
}

/* x = 2^n (1 + f), sqrt(1/2) <= 1 + f < sqrt(2), and log(1 + f) = f + y */
typedef struct logarithm {
    float n, f, y;
} logarithm;

static inline logarithm take_log(float x) {
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
    return (logarithm){n, f, p * f * z - 0.5f * z};
}

/* r, but for the arguments that have no finite logarithm */
static inline float log_or_special(float x, float r) {
    r = x == INFINITY ? x : r;
    r = x < 0 ? NAN : r;
    r = x == 0 ? -INFINITY : r;
    return x != x ? x : r;
}

static inline float log_f32(float x) {
    logarithm l = take_log(x);
    return log_or_special(x, (l.f + (l.y + l.n * -2.12194440e-4f)) + l.n * 0.693359375f); /* ln(2) in two parts */
}

static inline float log2_f32(float x) {
    const float rest = 0.44269504088896341f; /* log2(e) - 1 */
    logarithm l = take_log(x);
    return log_or_special(x, ((l.y * rest + l.f * rest) + l.y) + l.f + l.n);
}

static inline float log10_f32(float x) {
    logarithm l = take_log(x); /* log10(e) and log10(2) in two parts */
    float r = (l.y * 7.00731903251827651e-4f + l.f * 7.00731903251827651e-4f + l.n * 2.48745663981195214e-4f);
    return log_or_special(x, ((r + l.y * 4.3359375e-1f) + l.f * 4.3359375e-1f) + l.n * 3.0078125e-1f);
}

/* log(u) x / (u - 1) for u = 1 + x rounded: the error of the sum cancels */
static inline float log1p_f32(float x) {
    float u = 1.0f + x, d = u - 1.0f;
    float r = log_f32(u) * (x / (d == 0 ? 1.0f : d));
    r = d == 0 || x == INFINITY ? x : r;
    r = x < -1.0f ? NAN : r;
    return x != x ? x : r;
}

/* x T(x^2) up to 1; from there 1 - erfc(x), and erfc(x) = exp(q(x)) */
static inline float erf_f32(float x) {
    float a = fabsf(x), z = x * x;
    float p = 7.853861353153693e-5f;
    p = p * z - 8.010193625184903e-4f;
    p = p * z + 5.188327685732524e-3f;
    p = p * z - 2.685381193529856e-2f;
    p = p * z + 1.128358514861418e-1f;
    p = p * z - 3.761262582423300e-1f;
    p = p * z + 1.128379165726710f;
    float b = a > 4.0f ? 4.0f : a;
    float q = -6.12397252702e-8f;
    q = q * b + 2.9809121164e-6f;
    q = q * b - 5.88302148201e-5f;
    q = q * b + 6.65684680169e-4f;
    q = q * b - 4.99138552619e-3f;
    q = q * b + 2.69248652787e-2f;
    q = q * b - 1.10785717526e-1f;
    q = q * b - 6.31212643856e-1f;
    q = q * b - 1.13053334897f;
    q = q * b + 3.8293733357e-4f;
    float tail = a < 4.0f ? 1.0f - exp_inner(q) : 1.0f;
    return x != x ? x : copysignf(a < 1.0f ? p * a : tail, x);
}

static inline float tanh_f32(float x) {
    float a = fabsf(x), z = x * x;
    float p = -5.70498872745e-3f;
    p = p * z + 2.06390887954e-2f;
    p = p * z - 5.37397155531e-2f;
    p = p * z + 1.33314422036e-1f;
    p = p * z - 3.33332819422e-1f;
    p = p * z * a + a;
    float q = 1.0f - 2.0f / (exp_inner(a > 20.0f ? 40.0f : a + a) + 1.0f);
    return x != x ? x : copysignf(a < 0.625f ? p : q, x);
}

#endif
