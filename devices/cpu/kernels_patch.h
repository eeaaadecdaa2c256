/* float32 loops of which a few arguments are not for vector code: it computes all, then those are computed again one by one.
   Included by kernels_of.h, among the loops of float32. An element's result does not depend on its neighbours. */
enum { PATCH = 512 };

static bool rare_angle(const float *a, int64_t n) {
    uint32_t most = 0; /* the bits of magnitudes are in their order */
    INDEPENDENT for (int64_t i = 0; i < n; i++) {
        uint32_t u = moon_float_bits(a[i]) & 0x7fffffffu;
        most = u > most ? u : most;
    }
    return most >= moon_float_bits(TRIG_LIMIT); /* NaN too, to no harm */
}

#define PATCHED_ANGLE(name)                                                                            \
    static void patched_##name(char *out, const char *pa, const char *pb, int sa, int sb, int64_t n) { \
        for (int64_t i = 0; i < n; i += PATCH) {                                                       \
            const float *a = (const float *)pa + sa * i;                                               \
            float kept[PATCH], *d = (float *)out + i;                                                  \
            int64_t m = n - i < PATCH ? n - i : PATCH, given = sa ? m : 1;                             \
            bool rare = rare_angle(a, given);                                                          \
            if (rare) memcpy(kept, a, (size_t)given * sizeof *a); /* out may be a */                   \
            loop_##name##_f32((char *)d, (const char *)a, pb, sa, sb, m);                              \
            for (int64_t j = 0; rare && j < m; j++) {                                                  \
                if (fabsf(kept[sa * j]) >= TRIG_LIMIT) d[j] = name##f(kept[sa * j]);                   \
            }                                                                                          \
            if (!sa && i == 0 && n > m) { /* one value all over */                                     \
                for (int64_t j = m; j < n; j++) d[j] = d[0];                                           \
                return;                                                                                \
            }                                                                                          \
        }                                                                                              \
    }
PATCHED_ANGLE(sin)
PATCHED_ANGLE(cos)
PATCHED_ANGLE(tan)

/* Quotients below 2^23 are exact in double: so is the remainder, and what is made of it. */
static inline float quick_mod(float a, float b) {
    double q = (double)a / (double)b, n = trunc(q);
    double r = (double)a - n * (double)b;
    float f = (float)r;
    return f == 0 ? copysignf(0.0f, a) : f;
}

static inline float quick_remainder(float a, float b) {
    float r = quick_mod(a, b);
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

static inline float quick_floordiv(float a, float b) {
    float r = quick_mod(a, b), q = (a - r) / b, whole;
    q = r != 0 && (r < 0) != (b < 0) ? q - 1 : q;
    whole = floorf(q);
    whole = q - whole > 0.5f ? whole + 1 : whole;
    return q == 0 ? copysignf(0, a / b) : whole;
}

static inline bool is_quotient(float a, float b) { return fabsf(a) < 8388608.0f * fabsf(b) && fabsf(b) < INFINITY; }

static void take_operand(float *kept, const float *a, int step, int64_t n) {
    if (step) memcpy(kept, a, (size_t)n * sizeof *a);
    else
        for (int64_t i = 0; i < n; i++) kept[i] = *a;
}

#define PATCHED_TWO(name, quick, is_quick, slow)                                                       \
    static void patched_##name(char *out, const char *pa, const char *pb, int sa, int sb, int64_t n) { \
        for (int64_t i = 0; i < n; i += PATCH) {                                                       \
            const float *a = (const float *)pa + sa * i, *b = (const float *)pb + sb * i;              \
            float x[PATCH], y[PATCH], *d = (float *)out + i;                                           \
            int64_t m = n - i < PATCH ? n - i : PATCH;                                                 \
            int32_t rare = 0;                                                                          \
            take_operand(x, a, sa, m);                                                                 \
            take_operand(y, b, sb, m);                                                                 \
            INDEPENDENT for (int64_t j = 0; j < m; j++) {                                              \
                rare |= !is_quick(x[j], y[j]);                                                         \
                d[j] = quick(x[j], y[j]);                                                              \
            }                                                                                          \
            for (int64_t j = 0; rare && j < m; j++) {                                                  \
                if (!is_quick(x[j], y[j])) d[j] = slow(x[j], y[j]);                                    \
            }                                                                                          \
        }                                                                                              \
    }
PATCHED_TWO(remainder, quick_remainder, is_quotient, remainder_f32)
PATCHED_TWO(floor_divide, quick_floordiv, is_quotient, floordiv_f32)

/* a^b = 2^(b log2(a)) in double, for positive normal a. log2((1 + t) / (1 - t)) and 2^r are polynomials fitted on Chebyshev points,
   to 2^-36 and 2^-28; the quotient t is a float's reciprocal and a step of Newton's. */
static inline float quick_pow(float a, float b) {
    uint32_t shifted = moon_float_bits(a) - 0x3f3504f3u; /* sqrt(1/2) */
    float m = moon_bits_float((shifted & 0x007fffffu) + 0x3f3504f3u), e = (float)((int32_t)shifted >> 23);
    double sum = (double)m + 1.0, inverse = (double)(1.0f / (m + 1.0f));
    inverse += inverse * (1.0 - sum * inverse);
    double t = ((double)m - 1.0) * inverse, z = t * t;
    double p = 0.34071257426252506;
    p = p * z + 0.41167373881995672;
    p = p * z + 0.57708356643672859;
    p = p * z + 0.96179667344943319;
    p = p * z + 2.8853900817899886;
    double x = (double)b * ((double)e + p * t);
    x = x > 130.0 ? 130.0 : x;
    x = x < -152.0 ? -152.0 : x;
    const double whole = 6755399441055744.0; /* 1.5 * 2^52 */
    double n = (x + whole) - whole, r = x - n;
    double y = 0.00015461444698569129;
    y = y * r + 0.0013400428177615838;
    y = y * r + 0.0096180566785246381;
    y = y * r + 0.055503272266703021;
    y = y * r + 0.24022650922288758;
    y = y * r + 0.6931472067028326;
    y = y * r + 1.0;
    int32_t k = (int32_t)n, half = k >> 1; /* as a product of floats' powers; the last rounding is the only one */
    double scaled = y * ((double)power_of_two(half) * (double)power_of_two(k - half));
    return b == 2 ? a * a : (float)scaled;
}

static inline bool is_power(float a, float b) { return a >= 1.17549435e-38f && a < INFINITY && fabsf(b) < INFINITY; }

PATCHED_TWO(pow, quick_pow, is_power, pow_f32)

#define PATCHES                                                                                                         \
    [MOON_OP_pow] = patched_pow, [MOON_OP_sin] = patched_sin, [MOON_OP_cos] = patched_cos, [MOON_OP_tan] = patched_tan, \
    [MOON_OP_remainder] = patched_remainder, [MOON_OP_floor_divide] = patched_floor_divide
