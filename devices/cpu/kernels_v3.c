/* kernels.c for x86-64-v3: AVX2 and F16C. FMA stays off: its single rounding would give other bits. */
#include "kernels.h"

#if MOON_LEVELS
#define MOON_TABLE moon_kernels_v3
#define MOON_F16C 1
#include <complex.h>
#include <immintrin.h>
#include <math.h>
#include <string.h>
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,f16c,bmi,bmi2,lzcnt,movbe"))), apply_to = function)
#else
#pragma GCC target("avx2,f16c,bmi,bmi2,lzcnt,movbe")
#endif
#include "kernels.c"
#if defined(__clang__)
#pragma clang attribute pop
#endif
#endif
