/* float32 trigonometry in branch-free arithmetic, as kernels_vector.h. Beyond TRIG_LIMIT the reduction of sin, cos and tan would need
   more of pi than a double holds: there the loops of kernels_patch.h take libm's. */
#ifndef MOON_KERNELS_TRIG_H
#define MOON_KERNELS_TRIG_H

#include "kernels_vector.h"

#define TRIG_LIMIT 131072.0f

/* x = n pi/2 + r, |r| <= pi/4 and a little; quadrant: n mod 4. The first part of pi/2 has 33 bits, so its product is exact. */
typedef struct reduced {
    float sin, cos; /* of r */
    int32_t quadrant;
} reduced;

static inline reduced reduce(float x) {
    float t = x * 0.636619772f + rounder;
    double n = (double)(t - rounder);
    float r = (float)(((double)x - n * 1.57079632673412561417e+00) - n * 6.07710050650619224932e-11);
    float z = r * r;
    float s = -1.9515295891e-4f;
    s = s * z + 8.3321608736e-3f;
    s = s * z - 1.6666654611e-1f;
    float c = 2.443315711809948e-5f;
    c = c * z - 1.388731625493765e-3f;
    c = c * z + 4.166664568298827e-2f;
    return (reduced){s * z * r + r, c * (z * z) - 0.5f * z + 1.0f, (int32_t)(moon_float_bits(t) - moon_float_bits(rounder)) & 3};
}

static inline float sin_f32(float x) {
    reduced v = reduce(x);
    float y = v.quadrant & 1 ? v.cos : v.sin;
    y = v.quadrant & 2 ? -y : y;
    return x == 0 ? x : y; /* -0 */
}

static inline float cos_f32(float x) {
    reduced v = reduce(x);
    float y = v.quadrant & 1 ? v.sin : v.cos;
    return (v.quadrant + 1) & 2 ? -y : y;
}

static inline float tan_f32(float x) {
    reduced v = reduce(x);
    float y = v.quadrant & 1 ? v.cos / -v.sin : v.sin / v.cos;
    return x == 0 ? x : y;
}

/* asin(a) of 0 <= a <= 1/2, z = a^2 */
static inline float asin_core(float a, float z) {
    float p = 4.2163199048e-2f;
    p = p * z + 2.4181311049e-2f;
    p = p * z + 4.5470025998e-2f;
    p = p * z + 7.4953002686e-2f;
    p = p * z + 1.6666752422e-1f;
    return p * z * a + a;
}

static const float half_pi = 1.57079632679489662f, half_pi_rest = -4.37113883e-8f; /* pi/2 in two parts */

static inline float asin_f32(float x) {
    float a = fabsf(x);
    int far = a > 0.5f;
    float z = far ? 0.5f * (1.0f - a) : a * a, y = far ? sqrtf(z) : a;
    float p = asin_core(y, z);
    p = far ? half_pi - (2.0f * p - half_pi_rest) : p;
    return copysignf(p, x);
}

static inline float acos_f32(float x) {
    float a = fabsf(x);
    int far = a > 0.5f;
    float z = far ? 0.5f * (1.0f - a) : a * a, y = far ? sqrtf(z) : a;
    float p = asin_core(y, z), twice = 2.0f * p;
    float near = half_pi - (copysignf(p, x) - half_pi_rest);
    return far ? (x < 0 ? 2.0f * half_pi - (twice - 2.0f * half_pi_rest) : twice) : near;
}

/* atan(p / q) of 0 <= p <= q: from pi/4 where the quotient is above tan(pi/8) */
static inline float atan_core(float p, float q) {
    int far = p > 0.414213562f * q;
    float t = (far ? p - q : p) / (far ? p + q : q), z = t * t;
    float y = 8.05374449538e-2f;
    y = y * z - 1.38776856032e-1f;
    y = y * z + 1.99777106478e-1f;
    y = y * z - 3.33329491539e-1f;
    y = y * z * t + t;
    return far ? y + 0.78539816339744831f : y;
}

static inline float atan_f32(float x) {
    float a = fabsf(x);
    int far = a > 1.0f;
    float y = atan_core(far ? 1.0f : a, far ? (a > 3e38f ? 3e38f : a) : 1.0f);
    y = far ? half_pi - (y - half_pi_rest) : y;
    return x != x ? x : copysignf(a == INFINITY ? half_pi : y, x);
}

static inline float atan2_f32(float y, float x) {
    float a = fabsf(y), b = fabsf(x);
    int far = a > b;
    float low = far ? b : a, high = far ? a : b;
    low = low == INFINITY ? 1.0f : low; /* both are: the diagonal */
    high = high == INFINITY ? (low == 1.0f ? 1.0f : 3e38f) : high;
    float scale = high > 1e37f ? 0.0625f : 1.0f; /* their sum stays in range */
    low = a == INFINITY || b == INFINITY ? (a == b ? 1.0f : 0.0f) : low;
    high = high == 0 ? 1.0f : high;
    float r = atan_core(low * scale, high * scale);
    r = far ? half_pi - (r - half_pi_rest) : r;
    r = moon_float_bits(x) >> 31 ? 2.0f * half_pi - (r - 2.0f * half_pi_rest) : r;
    r = y != y ? y : copysignf(r, y);
    return x != x ? x : r;
}

#endif
