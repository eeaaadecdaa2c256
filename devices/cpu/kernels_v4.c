/* kernels.c for x86-64-v4: AVX-512 F, BW, CD, DQ and VL. */
#include "kernels.h"

#if MOON_LEVELS
#define MOON_TABLE moon_kernels_v4
#define MOON_F16C 1
#include <complex.h>
#include <immintrin.h>
#include <math.h>
#include <string.h>
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx512f,avx512bw,avx512cd,avx512dq,avx512vl,f16c,bmi,bmi2,lzcnt,movbe"))), \
                             apply_to = function)
#else
#pragma GCC target("avx512f,avx512bw,avx512cd,avx512dq,avx512vl,f16c,bmi,bmi2,lzcnt,movbe,prefer-vector-width=512")
#endif
#include "kernels.c"
#if defined(__clang__)
#pragma clang attribute pop
#endif
#endif
