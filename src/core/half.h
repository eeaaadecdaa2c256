/* Half and float8 conversions, inline for the kernels. All round to nearest even, in integer and float operations
   that give the same bits at every instruction-set level. NaNs keep their sign and the payload bits that fit (as NumPy), and
   stay NaN when none do. float8_e4m3fn has no infinity: what is too large becomes NaN (as torch). */
#ifndef MOON_HALF_H
#define MOON_HALF_H

#include <stdint.h>
#include <string.h>

static inline uint32_t moon_float_bits(float f) {
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    return u;
}

static inline float moon_bits_float(uint32_t u) {
    float f;
    memcpy(&f, &u, sizeof f);
    return f;
}

/* A small format with E exponent bits, M mantissa bits and bias B, held in a uint32. Subnormals are placed by an addition
   whose result has the right last place: branch-free, so that loops over it become vector code. */
static inline uint32_t moon_pack(uint32_t a, int M, int B, int *subnormal) {
    /* a: bits of |x|. For subnormals add 2^(24 - B - M): its last place is the format's smallest step */
    uint32_t magic = (uint32_t)(127 + 24 - B - M) << 23;
    uint32_t sub = moon_float_bits(moon_bits_float(a) + moon_bits_float(magic)) - magic;
    uint32_t shift = (uint32_t)(23 - M);
    uint32_t normal = (a - ((uint32_t)(127 - B) << 23) + ((1u << (shift - 1)) - 1) + ((a >> shift) & 1)) >> shift;
    *subnormal = a < (uint32_t)(128 - B) << 23;
    return *subnormal ? sub : normal;
}

/* A wider number as a float rounded to odd: truncated, with the last bit set when it is not exact. A second rounding, to
   one of the formats here, is then right, where rounding to nearest twice is not. */
static inline float moon_odd(double value) {
    float f = (float)value;
    if ((double)f == value || value != value) return f;
    uint32_t u = moon_float_bits(f);
    double back = value < 0 ? -(double)f : (double)f, magnitude = value < 0 ? -value : value;
    if (back > magnitude) u--; /* towards zero; from infinity to the largest float */
    return moon_bits_float(u | 1);
}

static inline float moon_odd_unsigned(uint64_t value) {
    if (value >> 53) value = (value & ~UINT64_C(0x7ff)) | (uint64_t)((value & 0x7ff) != 0) << 11;
    return moon_odd((double)value);
}

static inline float moon_odd_signed(int64_t value) {
    return value < 0 ? -moon_odd_unsigned(0 - (uint64_t)value) : moon_odd_unsigned((uint64_t)value);
}

static inline uint16_t moon_to_half(float f) {
    uint32_t x = moon_float_bits(f), sign = (x >> 16) & 0x8000, a = x & 0x7fffffff;
    int subnormal;
    uint32_t r = moon_pack(a, 10, 15, &subnormal);
    uint32_t payload = (a >> 13) & 0x3ff;
    uint32_t nan = 0x7c00 | payload | (payload == 0);
    r = a >= 0x47800000 ? 0x7c00 : r; /* 65536 and above; what rounds up to it carries into the exponent by itself */
    r = a > 0x7f800000 ? nan : r;
    return (uint16_t)(r | sign);
}

static inline float moon_from_half(uint16_t h) {
    uint32_t x = (uint32_t)(h & 0x7fff) << 13, e = x & 0x0f800000;
    uint32_t normal = x + (112u << 23);
    uint32_t special = x | 0x7f800000;
    uint32_t sub = moon_float_bits(moon_bits_float(x + (113u << 23)) - moon_bits_float(113u << 23));
    uint32_t r = e == 0x0f800000 ? special : e == 0 ? sub : normal;
    return moon_bits_float(r | (uint32_t)(h & 0x8000) << 16);
}

static inline uint16_t moon_to_bfloat(float f) {
    uint32_t x = moon_float_bits(f), top = x >> 16;
    uint32_t rounded = (x + 0x7fff + (top & 1)) >> 16;
    uint32_t nan = top | ((top & 0x7f) == 0);
    return (uint16_t)((x & 0x7fffffff) > 0x7f800000 ? nan : rounded);
}

static inline float moon_from_bfloat(uint16_t b) { return moon_bits_float((uint32_t)b << 16); }

static inline uint8_t moon_to_e4m3(float f) {
    uint32_t x = moon_float_bits(f), sign = (x >> 24) & 0x80, a = x & 0x7fffffff;
    int subnormal;
    uint32_t r = moon_pack(a, 3, 7, &subnormal);
    r = a > 0x43e80000 ? 0x7f : r; /* above 464, halfway from 448 to 480 */
    return (uint8_t)(r | sign);
}

static inline float moon_from_e4m3(uint8_t b) {
    uint32_t x = (uint32_t)(b & 0x7f) << 20;
    uint32_t normal = x + (120u << 23);
    uint32_t sub = moon_float_bits(moon_bits_float(x + (121u << 23)) - moon_bits_float(121u << 23));
    uint32_t r = (b & 0x7f) == 0x7f ? 0x7fc00000 : (b & 0x78) == 0 ? sub : normal;
    return moon_bits_float(r | (uint32_t)(b & 0x80) << 24);
}

static inline uint8_t moon_to_e5m2(float f) {
    uint32_t x = moon_float_bits(f), sign = (x >> 24) & 0x80, a = x & 0x7fffffff;
    int subnormal;
    uint32_t r = moon_pack(a, 2, 15, &subnormal);
    uint32_t payload = (a >> 21) & 3;
    uint32_t nan = 0x7c | payload | (payload == 0);
    r = a >= 0x47800000 ? 0x7c : r;
    r = a > 0x7f800000 ? nan : r;
    return (uint8_t)(r | sign);
}

static inline float moon_from_e5m2(uint8_t b) { return moon_from_half((uint16_t)(b << 8)); }

#endif
