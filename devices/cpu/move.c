#include "move.h"

#include <string.h>

typedef uint8_t __attribute__((may_alias)) w1;
typedef uint16_t __attribute__((may_alias)) w2;
typedef uint32_t __attribute__((may_alias)) w4;
typedef uint64_t __attribute__((may_alias)) w8;
typedef struct __attribute__((may_alias)) w16 {
    uint64_t a, b;
} w16;

/* Typed through may_alias, since the bytes belong to any dtype; unrolled by hand, since gcc's own code for an unknown step
   is 2 to 3 times slower. complex128 is moved as a pair that needs no more than its own alignment. */
#define MOVES(NAME)                                                                                        \
    static void gather_##NAME(NAME *restrict d, const char *restrict s, int64_t step, int64_t n) {         \
        int64_t i = 0;                                                                                     \
        if (step == 0) {                                                                                   \
            const NAME v = *(const NAME *)s;                                                               \
            for (; i < n; i++) d[i] = v;                                                                   \
            return;                                                                                        \
        }                                                                                                  \
        if (step == 2 * (int64_t)sizeof(NAME)) {                                                           \
            const NAME *q = (const NAME *)s;                                                               \
            for (; i < n; i++) d[i] = q[2 * i];                                                            \
            return;                                                                                        \
        }                                                                                                  \
        for (; i + 4 <= n; i += 4, s += 4 * step) {                                                        \
            d[i] = *(const NAME *)s;                                                                       \
            d[i + 1] = *(const NAME *)(s + step);                                                          \
            d[i + 2] = *(const NAME *)(s + 2 * step);                                                      \
            d[i + 3] = *(const NAME *)(s + 3 * step);                                                      \
        }                                                                                                  \
        for (; i < n; i++, s += step) d[i] = *(const NAME *)s;                                             \
    }                                                                                                      \
    static void scatter_##NAME(char *restrict d, int64_t step, const NAME *restrict s, int64_t n) {        \
        int64_t i = 0;                                                                                     \
        for (; i + 4 <= n; i += 4, d += 4 * step) {                                                        \
            *(NAME *)d = s[i];                                                                             \
            *(NAME *)(d + step) = s[i + 1];                                                                \
            *(NAME *)(d + 2 * step) = s[i + 2];                                                            \
            *(NAME *)(d + 3 * step) = s[i + 3];                                                            \
        }                                                                                                  \
        for (; i < n; i++, d += step) *(NAME *)d = s[i];                                                   \
    }                                                                                                      \
    static void move_##NAME(char *restrict d, int64_t ds, const char *restrict s, int64_t ss, int64_t n) { \
        for (int64_t i = 0; i < n; i++, d += ds, s += ss) *(NAME *)d = *(const NAME *)s;                   \
    }                                                                                                      \
    static void fill_##NAME(char *restrict d, int64_t step, NAME v, int64_t n) {                           \
        if (step == (int64_t)sizeof(NAME)) {                                                               \
            for (int64_t i = 0; i < n; i++) ((NAME *)d)[i] = v;                                            \
            return;                                                                                        \
        }                                                                                                  \
        for (int64_t i = 0; i < n; i++, d += step) *(NAME *)d = v;                                         \
    }

MOVES(w1)
MOVES(w2)
MOVES(w4)
MOVES(w8)
MOVES(w16)

/* Tiles of 4 and 8 bytes go through float registers, for which gcc has faster code; moves alter no bits, signalling NaNs
   included, on machines without an x87. */
typedef float __attribute__((may_alias)) f4;
typedef double __attribute__((may_alias)) f8;

#define TRANSPOSE(N)                                                                                                             \
    static inline __attribute__((always_inline)) void tile_##N(char *restrict d, int64_t ds, const char *restrict s, int64_t ss, \
                                                               int64_t m, int64_t k) {                                           \
        enum { B = sizeof(N) <= 4 ? 64 : 32 };                                                                                   \
        N tile[B][B + 1];                                                                                                        \
        for (int64_t i = 0; i < k; i++) {                                                                                        \
            const N *p = (const N *)(s + i * ss);                                                                                \
            for (int64_t j = 0; j < m; j++) tile[i][j] = p[j];                                                                   \
        }                                                                                                                        \
        for (int64_t j = 0; j < m; j++) {                                                                                        \
            N *q = (N *)(d + j * ds);                                                                                            \
            for (int64_t i = 0; i < k; i++) q[i] = tile[i][j];                                                                   \
        }                                                                                                                        \
    }                                                                                                                            \
    static void transpose_##N(char *restrict d, int64_t ds, const char *restrict s, int64_t ss, int64_t rows, int64_t columns) { \
        enum { B = sizeof(N) <= 4 ? 64 : 32, W = sizeof(N) };                                                                    \
        for (int64_t r = 0; r < rows; r += B) {                                                                                  \
            int64_t m = rows - r < B ? rows - r : B;                                                                             \
            for (int64_t c = 0; c < columns; c += B) {                                                                           \
                int64_t k = columns - c < B ? columns - c : B;                                                                   \
                char *to = d + r * ds + c * W;                                                                                   \
                const char *from = s + c * ss + r * W;                                                                           \
                /* whole tiles with constant bounds: three times as fast */                                                      \
                if (m == B && k == B) tile_##N(to, ds, from, ss, B, B);                                                          \
                else tile_##N(to, ds, from, ss, m, k);                                                                           \
            }                                                                                                                    \
        }                                                                                                                        \
    }

TRANSPOSE(w1)
TRANSPOSE(w2)
TRANSPOSE(f4)
TRANSPOSE(f8)
TRANSPOSE(w16)

#define BY_SIZE(f, ...)                 \
    switch (size) {                     \
    case 1: f##_w1(__VA_ARGS__); break; \
    case 2: f##_w2(__VA_ARGS__); break; \
    case 4: f##_w4(__VA_ARGS__); break; \
    case 8: f##_w8(__VA_ARGS__); break; \
    default: f##_w16(__VA_ARGS__);      \
    }

void moon_gather(void *packed, const char *from, int64_t step, int64_t n, size_t size) {
    if (step == (int64_t)size) memcpy(packed, from, (size_t)n * size);
    else BY_SIZE(gather, packed, from, step, n)
}

void moon_scatter(char *to, int64_t step, const void *packed, int64_t n, size_t size) {
    if (step == (int64_t)size) memcpy(to, packed, (size_t)n * size);
    else BY_SIZE(scatter, to, step, packed, n)
}

void moon_move(char *to, int64_t to_step, const char *from, int64_t from_step, int64_t n, size_t size) {
    if (to_step == (int64_t)size) moon_gather(to, from, from_step, n, size);
    else if (from_step == (int64_t)size) moon_scatter(to, to_step, from, n, size);
    else BY_SIZE(move, to, to_step, from, from_step, n)
}

void moon_transpose(char *to, int64_t to_step, const char *from, int64_t from_step, int64_t rows, int64_t columns, size_t size) {
    switch (size) {
    case 1: transpose_w1(to, to_step, from, from_step, rows, columns); break;
    case 2: transpose_w2(to, to_step, from, from_step, rows, columns); break;
    case 4: transpose_f4(to, to_step, from, from_step, rows, columns); break;
    case 8: transpose_f8(to, to_step, from, from_step, rows, columns); break;
    default: transpose_w16(to, to_step, from, from_step, rows, columns);
    }
}

void moon_fill_run(char *to, int64_t step, const void *element, int64_t n, size_t size) {
    switch (size) {
    case 1: fill_w1(to, step, *(const w1 *)element, n); break;
    case 2: fill_w2(to, step, *(const w2 *)element, n); break;
    case 4: fill_w4(to, step, *(const w4 *)element, n); break;
    case 8: fill_w8(to, step, *(const w8 *)element, n); break;
    default: fill_w16(to, step, *(const w16 *)element, n);
    }
}
