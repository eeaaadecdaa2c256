/* The helpers that expressions in ops.def name as H(f): f_<suffix> for each compute type. */
#ifndef MOON_KERNELS_MATH_H
#define MOON_KERNELS_MATH_H

#include <complex.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#ifndef CMPLX /* glibc withholds them from clang, which has the builtin */
#define CMPLX(x, y) __builtin_complex((double)(x), (double)(y))
#define CMPLXF(x, y) __builtin_complex((float)(x), (float)(y))
#endif
#undef I /* complex.h's; kind letters are pasted here */
#include "kernels_trig.h"

#define COMMON(S, T)                                                      \
    static inline T min_##S(T a, T b) { return a < b || a != a ? a : b; } \
    static inline T max_##S(T a, T b) { return a > b || a != a ? a : b; }

/* Integer arithmetic wraps: it runs in an unsigned type W at least as wide. Division by zero is 0, as in NumPy; the lowest
   number divided by -1 wraps. */
#define INTEGER(S, T, W)                                           \
    static inline T min_##S(T a, T b) { return a < b ? a : b; }    \
    static inline T max_##S(T a, T b) { return a > b ? a : b; }    \
    static inline T mul_##S(T a, T b) { return (T)((W)a * (W)b); } \
    static inline T not_##S(T a) { return (T) ~(W)a; }             \
    static inline T floor_##S(T a) { return a; }                   \
    static inline T ceil_##S(T a) { return a; }                    \
    static inline T round_##S(T a) { return a; }                   \
    static inline T trunc_##S(T a) { return a; }                   \
    static inline T conj_##S(T a) { return a; }                    \
    static inline bool isnan_##S(T a) { return (void)a, false; }   \
    static inline bool isinf_##S(T a) { return (void)a, false; }   \
    static inline bool isfinite_##S(T a) { return (void)a, true; } \
    static inline T raise_##S(T a, T b) {                          \
        W base = (W)a, power = 1;                                  \
        for (; b > 0; b = (T)(b >> 1)) {                           \
            if (b & 1) power *= base;                              \
            base *= base;                                          \
        }                                                          \
        return (T)power;                                           \
    }

#define SIGNED(S, T, W)                                                   \
    INTEGER(S, T, W)                                                      \
    static inline T abs_##S(T a) { return (T)(a < 0 ? 0 - (W)a : (W)a); } \
    static inline T sign_##S(T a) { return (T)((a > 0) - (a < 0)); }      \
    static inline T floordiv_##S(T a, T b) {                              \
        if (b == 0) return 0;                                             \
        if (b == -1) return (T)(0 - (W)a);                                \
        return (T)(a / b - (a % b != 0 && (a ^ b) < 0));                  \
    }                                                                     \
    static inline T remainder_##S(T a, T b) {                             \
        if (b == 0 || b == -1) return 0;                                  \
        T r = (T)(a % b);                                                 \
        return r != 0 && (r ^ b) < 0 ? (T)(r + b) : r;                    \
    }                                                                     \
    static inline T pow_##S(T a, T b) {                                   \
        if (b >= 0) return raise_##S(a, b);                               \
        return a == 1 ? 1 : a != -1 ? 0 : (T)(b & 1 ? -1 : 1);            \
    }

#define UNSIGNED(S, T, W)                                                       \
    INTEGER(S, T, W)                                                            \
    static inline T abs_##S(T a) { return a; }                                  \
    static inline T sign_##S(T a) { return a > 0; }                             \
    static inline T floordiv_##S(T a, T b) { return (T)(b == 0 ? 0 : a / b); }  \
    static inline T remainder_##S(T a, T b) { return (T)(b == 0 ? 0 : a % b); } \
    static inline T pow_##S(T a, T b) { return raise_##S(a, b); }

SIGNED(i8, int8_t, uint32_t)
SIGNED(i16, int16_t, uint32_t)
SIGNED(i32, int32_t, uint32_t)
SIGNED(i64, int64_t, uint64_t)
UNSIGNED(u8, uint8_t, uint32_t)
UNSIGNED(u16, uint16_t, uint32_t)
UNSIGNED(u32, uint32_t, uint32_t)
UNSIGNED(u64, uint64_t, uint64_t)

static inline bool min_b8(bool a, bool b) { return a && b; }
static inline bool max_b8(bool a, bool b) { return a || b; }
static inline bool mul_b8(bool a, bool b) { return a && b; }
static inline bool abs_b8(bool a) { return a; }
static inline bool not_b8(bool a) { return !a; }
static inline bool conj_b8(bool a) { return a; }
static inline bool isnan_b8(bool a) { return (void)a, false; }
static inline bool isinf_b8(bool a) { return (void)a, false; }
static inline bool isfinite_b8(bool a) { return (void)a, true; }

/* X: the suffix of libm's functions for T. floordiv and remainder are Python's, whose quotient and remainder fit together. */
#define FLOATING(S, T, X, PI)                                                   \
    COMMON(S, T)                                                                \
    static inline T mul_##S(T a, T b) { return a * b; }                         \
    static inline T div_##S(T a, T b) { return a / b; }                         \
    static inline T remainder_##S(T a, T b) {                                   \
        T r = fmod##X(a, b);                                                    \
        return r != 0 && (r < 0) != (b < 0) ? r + b : r;                        \
    }                                                                           \
    static inline T floordiv_##S(T a, T b) {                                    \
        if (b == 0) return a / b;                                               \
        T r = fmod##X(a, b), q = (a - r) / b;                                   \
        if (r != 0 && (r < 0) != (b < 0)) q -= 1;                               \
        if (q == 0) return copysign##X(0, a / b);                               \
        T whole = floor##X(q);                                                  \
        return q - whole > (T)0.5 ? whole + 1 : whole;                          \
    }                                                                           \
    static inline T pow_##S(T a, T b) { return b == 2 ? a * a : pow##X(a, b); } \
    static inline T abs_##S(T a) { return fabs##X(a); }                         \
    static inline T sign_##S(T a) { return (T)((a > 0) - (a < 0)); }            \
    static inline T rsqrt_##S(T a) { return 1 / sqrt##X(a); }                   \
    static inline T round_##S(T a) { return rint##X(a); }                       \
    static inline T conj_##S(T a) { return a; }                                 \
    static inline T angle_##S(T a) { return a != a ? a : a < 0 ? PI : 0; }      \
    static inline bool isnan_##S(T a) { return a != a; }                        \
    static inline bool isinf_##S(T a) { return fabs##X(a) == (T)INFINITY; }     \
    static inline bool isfinite_##S(T a) { return fabs##X(a) < (T)INFINITY; }

#define LIBM(S, T, X, f) \
    static inline T f##_##S(T a) { return f##X(a); }
/* clang-format off */
#define LIBM_BOTH(S, T, X) LIBM(S, T, X, sqrt) LIBM(S, T, X, floor) LIBM(S, T, X, ceil) LIBM(S, T, X, trunc)
/* float32's are in kernels_vector.h and kernels_trig.h */
#define LIBM_DOUBLE(S, T, X)                                                             \
    LIBM(S, T, X, expm1) LIBM(S, T, X, log1p) LIBM(S, T, X, log2) LIBM(S, T, X, log10)   \
    LIBM(S, T, X, sin) LIBM(S, T, X, cos) LIBM(S, T, X, tan) LIBM(S, T, X, asin)         \
    LIBM(S, T, X, acos) LIBM(S, T, X, atan) LIBM(S, T, X, sinh) LIBM(S, T, X, cosh)      \
    LIBM(S, T, X, erf) LIBM(S, T, X, exp) LIBM(S, T, X, log) LIBM(S, T, X, tanh)
/* clang-format on */
static inline double atan2_f64(double a, double b) { return atan2(a, b); }
FLOATING(f32, float, f, 3.14159265f)
FLOATING(f64, double, , 3.14159265358979323846)
LIBM_BOTH(f32, float, f)
LIBM_BOTH(f64, double, )
LIBM_DOUBLE(f64, double, )

/* gcc 12 fuses the products of complex numbers under AVX-512, also where contraction is off; that would round otherwise */
#if defined(__GNUC__) && !defined(__clang__) && __GNUC__ >= 12
#define UNFUSED(x) __builtin_assoc_barrier(x)
#else
#define UNFUSED(x) (x)
#endif

/* Products are the plain formula, as NumPy's: C's own recovers infinities at twice the price. Small integer powers are products:
   the logarithm loses digits. */
#define COMPLEX(S, T, R, X, MAKE, LOG2, LOG10)                                                 \
    static inline T mul_##S(T a, T b) {                                                        \
        R ar = creal##X(a), ai = cimag##X(a), br = creal##X(b), bi = cimag##X(b);              \
        return MAKE(UNFUSED(ar * br) - UNFUSED(ai * bi), UNFUSED(ar * bi) + UNFUSED(ai * br)); \
    }                                                                                          \
    static inline T div_##S(T a, T b) { return a / b; }                                        \
    static inline T pow_##S(T a, T b) {                                                        \
        if (b == 2) return mul_##S(a, a);                                                      \
        R br = creal##X(b);                                                                    \
        if (cimag##X(b) != 0) return cpow##X(a, b);                                            \
        if (a == 0 && br >= 0) return br == 0;                                                 \
        if (!(fabs##X(br) <= 100) || br != trunc##X(br)) return cpow##X(a, b);                 \
        T power = 1;                                                                           \
        for (int n = abs((int)br); n > 0; n >>= 1) {                                           \
            if (n & 1) power = mul_##S(power, a);                                              \
            a = mul_##S(a, a);                                                                 \
        }                                                                                      \
        return br < 0 ? 1 / power : power;                                                     \
    }                                                                                          \
    static inline R abs_##S(T a) { return cabs##X(a); }                                        \
    static inline R angle_##S(T a) { return carg##X(a); }                                      \
    static inline T conj_##S(T a) { return conj##X(a); }                                       \
    static inline T rsqrt_##S(T a) { return 1 / csqrt##X(a); }                                 \
    static inline T log2_##S(T a) {                                                            \
        T l = clog##X(a);                                                                      \
        return MAKE(creal##X(l) * LOG2, cimag##X(l) * LOG2);                                   \
    }                                                                                          \
    static inline T log10_##S(T a) {                                                           \
        T l = clog##X(a);                                                                      \
        return MAKE(creal##X(l) * LOG10, cimag##X(l) * LOG10);                                 \
    }                                                                                          \
    static inline bool isnan_##S(T a) {                                                        \
        R r = creal##X(a), i = cimag##X(a);                                                    \
        return r != r || i != i;                                                               \
    }                                                                                          \
    static inline bool isinf_##S(T a) { return isinf(creal##X(a)) || isinf(cimag##X(a)); }     \
    static inline bool isfinite_##S(T a) { return isfinite(creal##X(a)) && isfinite(cimag##X(a)); }

#define LIBM_COMPLEX(S, T, X, f) \
    static inline T f##_##S(T a) { return c##f##X(a); }
/* clang-format off */
#define LIBM_COMPLEX_ALL(S, T, X)                                                          \
    LIBM_COMPLEX(S, T, X, sqrt) LIBM_COMPLEX(S, T, X, exp) LIBM_COMPLEX(S, T, X, log)      \
    LIBM_COMPLEX(S, T, X, sin) LIBM_COMPLEX(S, T, X, cos) LIBM_COMPLEX(S, T, X, tan)       \
    LIBM_COMPLEX(S, T, X, asin) LIBM_COMPLEX(S, T, X, acos) LIBM_COMPLEX(S, T, X, atan)    \
    LIBM_COMPLEX(S, T, X, sinh) LIBM_COMPLEX(S, T, X, cosh) LIBM_COMPLEX(S, T, X, tanh)
/* clang-format on */
COMPLEX(c64, float complex, float, f, CMPLXF, 1.44269504f, 0.434294482f)
COMPLEX(c128, double complex, double, , CMPLX, 1.44269504088896340736, 0.43429448190325182765)
LIBM_COMPLEX_ALL(c64, float complex, f)
LIBM_COMPLEX_ALL(c128, double complex, )

#endif
