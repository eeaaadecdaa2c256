/* The loops of one compute type; included by kernels.c once for each, with
   S the suffix, T the type, W the type arithmetic runs in, M the type in memory, R the real counterpart in memory, K the kind.
   Leaves loops_<S>, folds_<S>, seek_<S>, gemm_<S>. */

#define NAME(x) CAT(CAT(x, _), S)
#define H(f) NAME(f)
#define LD(x) CAT(LOAD_, K)(x)

#define LOOP2(name, OUT, ...)                                                                             \
    static void NAME(loop_##name)(char *out, const char *pa, const char *pb, int sa, int sb, int64_t n) { \
        OUT *d = (OUT *)out;                                                                              \
        const M *p = (const M *)pa, *q = (const M *)pb;                                                   \
        if (sa == 0) {                                                                                    \
            const T a = LD(*p);                                                                           \
            INDEPENDENT for (int64_t i = 0; i < n; i++) {                                                 \
                const T b = LD(q[i]);                                                                     \
                d[i] = (OUT)(__VA_ARGS__);                                                                \
            }                                                                                             \
        } else if (sb == 0) {                                                                             \
            const T b = LD(*q);                                                                           \
            INDEPENDENT for (int64_t i = 0; i < n; i++) {                                                 \
                const T a = LD(p[i]);                                                                     \
                d[i] = (OUT)(__VA_ARGS__);                                                                \
            }                                                                                             \
        } else {                                                                                          \
            INDEPENDENT for (int64_t i = 0; i < n; i++) {                                                 \
                const T a = LD(p[i]), b = LD(q[i]);                                                       \
                d[i] = (OUT)(__VA_ARGS__);                                                                \
            }                                                                                             \
        }                                                                                                 \
    }

#define LOOP1(name, OUT, ...)                                                                             \
    static void NAME(loop_##name)(char *out, const char *pa, const char *pb, int sa, int sb, int64_t n) { \
        OUT *d = (OUT *)out;                                                                              \
        const M *p = (const M *)pa;                                                                       \
        (void)pb, (void)sb;                                                                               \
        if (sa == 0) {                                                                                    \
            const T a = LD(*p);                                                                           \
            const OUT v = (OUT)(__VA_ARGS__);                                                             \
            for (int64_t i = 0; i < n; i++) d[i] = v;                                                     \
            return;                                                                                       \
        }                                                                                                 \
        INDEPENDENT for (int64_t i = 0; i < n; i++) {                                                     \
            const T a = LD(p[i]);                                                                         \
            d[i] = (OUT)(__VA_ARGS__);                                                                    \
        }                                                                                                 \
    }

#define FOLD(name, ...)                                                                              \
    static inline T NAME(merge_##name)(T a, T b) { return __VA_ARGS__; }                             \
    static void NAME(fold_##name)(char *out, const char *px, int64_t n) {                            \
        const M *x = (const M *)px;                                                                  \
        T lane[LANES];                                                                               \
        T r;                                                                                         \
        int64_t i = LANES;                                                                           \
        if (n < 2 * LANES) {                                                                         \
            r = LD(x[0]), i = 1;                                                                     \
        } else {                                                                                     \
            for (int j = 0; j < LANES; j++) lane[j] = LD(x[j]);                                      \
            for (; i + LANES <= n; i += LANES) {                                                     \
                for (int j = 0; j < LANES; j++) lane[j] = NAME(merge_##name)(lane[j], LD(x[i + j])); \
            }                                                                                        \
            for (int w = LANES / 2; w > 0; w /= 2) {                                                 \
                for (int j = 0; j < w; j++) lane[j] = NAME(merge_##name)(lane[j], lane[j + w]);      \
            }                                                                                        \
            r = lane[0];                                                                             \
        }                                                                                            \
        for (; i < n; i++) r = NAME(merge_##name)(r, LD(x[i]));                                      \
        *(M *)out = (M)r;                                                                            \
    }

#define DEFINE_BINARY(name, ...) LOOP2(name, M, __VA_ARGS__)
#define DEFINE_UNARY(name, ...) LOOP1(name, M, __VA_ARGS__)
#define DEFINE_REAL(name, ...) LOOP1(name, R, __VA_ARGS__)
#define DEFINE_COMPARE(name, ...) LOOP2(name, uint8_t, __VA_ARGS__)
#define DEFINE_TEST(name, ...) LOOP1(name, uint8_t, __VA_ARGS__)
#define DEFINE_LOGICAL(name, ...) LOOP2(name, uint8_t, __VA_ARGS__)
#define DEFINE_NOT(name, ...) LOOP1(name, uint8_t, __VA_ARGS__)
#define DEFINE_REDUCE(name, ...) LOOP2(name, M, __VA_ARGS__) FOLD(name, __VA_ARGS__)

#define OP(class, name, kinds, doc, ...) WHEN(K, kinds)(DEFINE_##class(name, __VA_ARGS__))
#include "../../src/core/ops.def"
#undef OP

#ifdef PATCH_FILE
#include PATCH_FILE
#endif
#pragma GCC diagnostic push
#if defined(__clang__)
#pragma GCC diagnostic ignored "-Winitializer-overrides"
#elif defined(__GNUC__)
#pragma GCC diagnostic ignored "-Woverride-init"
#endif
static const moon_loop NAME(loops)[MOON_OP_COUNT] = {
#define OP(class, name, kinds, doc, ...) WHEN(K, kinds)([MOON_OP_##name] = NAME(loop_##name), )
#include "../../src/core/ops.def"
#undef OP
#ifdef PATCH_FILE
    PATCHES
#endif
};
#pragma GCC diagnostic pop

#define ENTRY_BINARY(name)
#define ENTRY_UNARY(name)
#define ENTRY_REAL(name)
#define ENTRY_COMPARE(name)
#define ENTRY_TEST(name)
#define ENTRY_LOGICAL(name)
#define ENTRY_NOT(name)
#define ENTRY_REDUCE(name) [MOON_OP_##name] = NAME(fold_##name),

/* any and all stop at the block that decides */
#define TRUTH(name, decided)                                                                    \
    static void NAME(truth_##name)(char *out, const char *px, int64_t n) {                      \
        enum { BLOCK = 4096 };                                                                  \
        const M *x = (const M *)px;                                                             \
        uint32_t found = 0;                                                                     \
        for (int64_t i = 0; i < n && !found; i += BLOCK) {                                      \
            int64_t m = n - i < BLOCK ? n - i : BLOCK;                                          \
            for (int64_t j = 0; j < m; j++) found |= decided;                                   \
        }                                                                                       \
        *(M *)out = (M)(found ? MOON_OP_##name == MOON_OP_any : MOON_OP_##name == MOON_OP_all); \
    }
WHEN(K, ORDERED)
(TRUTH(any, LD(x[i + j]) != 0)) WHEN(K, ORDERED)(TRUTH(all, LD(x[i + j]) == 0))

/* the extreme of a block, in lanes; is there a NaN? */
#define EXTREME(name, better)                               \
    static bool NAME(name)(const M *x, int64_t n, T *out) { \
        T lane[LANES], best;                                \
        uint32_t nan = 0;                                   \
        int64_t i = 0;                                      \
        for (int j = 0; j < LANES; j++) lane[j] = LD(x[0]); \
        for (; i + LANES <= n; i += LANES) {                \
            for (int j = 0; j < LANES; j++) {               \
                const T v = LD(x[i + j]), w = lane[j];      \
                nan |= v != v;                              \
                lane[j] = better ? v : w;                   \
            }                                               \
        }                                                   \
        best = lane[0];                                     \
        for (int j = 1; j < LANES; j++) {                   \
            const T v = lane[j], w = best;                  \
            best = better ? v : w;                          \
        }                                                   \
        for (; i < n; i++) {                                \
            const T v = LD(x[i]), w = best;                 \
            nan |= v != v;                                  \
            best = better ? v : w;                          \
        }                                                   \
        *out = best;                                        \
        return nan != 0;                                    \
    }
    WHEN(K, ORDERED)(EXTREME(largest, v > w)) WHEN(K, ORDERED)(EXTREME(smallest, v < w))

        WHEN(K, ORDERED)(static void NAME(seek)(char *pbest, int64_t *at, const char *px, int64_t n, int64_t base, bool largest) {
            enum { BLOCK = 1024 };
            const M *x = (const M *)px;
            T best = *at < 0 ? LD(x[0]) : LD(*(const M *)pbest);
            if (*at < 0) *at = base;
            for (int64_t i = 0; i < n && best == best; i += BLOCK) {
                int64_t m = n - i < BLOCK ? n - i : BLOCK;
                T e;
                bool nan = largest ? NAME(largest)(x + i, m, &e) : NAME(smallest)(x + i, m, &e);
                if (!nan && !(largest ? e > best : e < best)) continue;
                for (int64_t j = 0; j < m; j++) {
                    const T v = LD(x[i + j]);
                    if (nan ? v == v : v != e) continue;
                    best = v, *at = base + i + j;
                    break;
                }
            }
            *(M *)pbest = (M)best;
        })

#pragma GCC diagnostic push
#if defined(__clang__)
#pragma GCC diagnostic ignored "-Winitializer-overrides"
#elif defined(__GNUC__)
#pragma GCC diagnostic ignored "-Woverride-init"
#endif
            static const moon_fold NAME(folds)[MOON_OP_COUNT] = {
#define OP(class, name, kinds, doc, ...) WHEN(K, kinds)(ENTRY_##class(name))
#include "../../src/core/ops.def"
#undef OP
                WHEN(K, ORDERED)([MOON_OP_any] = NAME(truth_any), [MOON_OP_all] = NAME(truth_all), )};
#pragma GCC diagnostic pop

static void NAME(gemm)(char *pc, const char *pa, const char *pb, int64_t m, int64_t k, int64_t n, int64_t c_row, int64_t a_row,
                       int64_t b_row) {
    for (int64_t i = 0; i < m; i++) {
        M *c = (M *)pc + i * c_row;
        const M *pi = (const M *)pa + i * a_row;
        int64_t l = 0;
        for (; l + 4 <= k; l += 4) {
            const M *q = (const M *)pb + l * b_row, *r = q + b_row, *s = r + b_row, *t = s + b_row;
            const T a0 = LD(pi[l]), a1 = LD(pi[l + 1]), a2 = LD(pi[l + 2]), a3 = LD(pi[l + 3]);
            INDEPENDENT for (int64_t j = 0; j < n; j++) {
                W low = (W)H(mul)(a0, LD(q[j])) + (W)H(mul)(a1, LD(r[j]));
                W high = (W)H(mul)(a2, LD(s[j])) + (W)H(mul)(a3, LD(t[j]));
                c[j] = (M)(T)((W)LD(c[j]) + (low + high));
            }
        }
        for (; l < k; l++) {
            const M *q = (const M *)pb + l * b_row;
            const T a0 = LD(pi[l]);
            INDEPENDENT for (int64_t j = 0; j < n; j++) c[j] = (M)(T)((W)LD(c[j]) + (W)H(mul)(a0, LD(q[j])));
        }
    }
}

#undef NAME
#undef H
#undef LD
#undef LOOP2
#undef LOOP1
#undef FOLD
#undef TRUTH
#undef EXTREME
#undef DEFINE_BINARY
#undef DEFINE_UNARY
#undef DEFINE_REAL
#undef DEFINE_COMPARE
#undef DEFINE_TEST
#undef DEFINE_LOGICAL
#undef DEFINE_NOT
#undef DEFINE_REDUCE
#undef ENTRY_BINARY
#undef ENTRY_UNARY
#undef ENTRY_REAL
#undef ENTRY_COMPARE
#undef ENTRY_TEST
#undef ENTRY_LOGICAL
#undef ENTRY_NOT
#undef ENTRY_REDUCE
#undef S
#undef T
#undef W
#undef M
#undef R
#undef K
