/* Which of the tables of inner loops is in use: the best that the processor has, or the one that MOONTENSOR_ISA names. */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "cpu.h"
#include "kernels.h"
#if MOON_LEVELS
#include <cpuid.h>
#endif

typedef struct level {
    const char *name;
    const moon_kernels *table;
} level;

static const level levels[] = {
    {"base", &moon_kernels_base},
#if MOON_LEVELS
    {"v3", &moon_kernels_v3},
    {"v4", &moon_kernels_v4},
#endif
};
enum { LEVELS = sizeof levels / sizeof *levels };

#if MOON_LEVELS
/* asked of the processor itself: compilers differ in the names that their built-ins know */
static bool supports(bool v4) {
    unsigned a, b, c, d, saved, saved_high;
    if (!__get_cpuid(1, &a, &b, &c, &d)) return false;
    unsigned first = 1u << 22 | 1u << 27 | 1u << 28 | 1u << 29; /* movbe, osxsave, avx, f16c */
    if ((c & first) != first) return false;
    __asm__("xgetbv" : "=a"(saved), "=d"(saved_high) : "c"(0));
    unsigned state = v4 ? 0xe6 : 0x06; /* the registers that the system saves */
    if ((saved & state) != state) return false;
    if (!__get_cpuid(0x80000001, &a, &b, &c, &d) || !(c & 1u << 5)) return false; /* lzcnt */
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d)) return false;
    unsigned v3 = 1u << 3 | 1u << 5 | 1u << 8;                            /* bmi, avx2, bmi2 */
    unsigned wide = 1u << 16 | 1u << 17 | 1u << 28 | 1u << 30 | 1u << 31; /* avx512 f, dq, cd, bw, vl */
    unsigned wanted = v4 ? v3 | wide : v3;
    return (b & wanted) == wanted;
}
#else
static bool supports(bool v4) {
    (void)v4;
    return false;
}
#endif

static bool has(int i) { return i == 0 || supports(i == 2); }

static const level *best(void) {
    int i = LEVELS - 1;
    while (!has(i)) i--;
    return &levels[i];
}

/* NULL with the error record filled where MOONTENSOR_ISA asks for what is not there */
static const level *choose(void) {
    const char *name = getenv("MOONTENSOR_ISA");
    if (name == NULL || *name == '\0') return best();
    for (int i = 0; i < LEVELS; i++) {
        if (strcmp(name, levels[i].name) != 0) continue;
        if (has(i)) return &levels[i];
        moon_fail(MOON_EVALUE, "MOONTENSOR_ISA is '%s', which this processor does not have; its best is %s", name, best()->name);
        return NULL;
    }
    if (strcmp(name, "v3") == 0 || strcmp(name, "v4") == 0) {
        moon_fail(MOON_EVALUE, "MOONTENSOR_ISA is '%s', which this build does not have; it has base", name);
        return NULL;
    }
    moon_fail(MOON_EVALUE, "MOONTENSOR_ISA is '%s', expected base, v3 or v4; unset it for the best there is", name);
    return NULL;
}

/* threads that come first at once choose the same */
static _Atomic(const level *) chosen;
static _Atomic bool refused; /* says so to every caller, not to the first one only */

moon_status moon_kernels_choose(void) {
    bool known = atomic_load_explicit(&chosen, memory_order_acquire) != NULL;
    if (known && !atomic_load_explicit(&refused, memory_order_relaxed)) return MOON_OK;
    const level *l = choose();
    atomic_store_explicit(&refused, l == NULL, memory_order_relaxed);
    if (!known) atomic_store_explicit(&chosen, l != NULL ? l : best(), memory_order_release);
    return l != NULL ? MOON_OK : MOON_EVALUE;
}

static const level *current(void) {
    const level *l = atomic_load_explicit(&chosen, memory_order_acquire);
    if (l != NULL) return l;
    (void)moon_kernels_choose();
    return atomic_load_explicit(&chosen, memory_order_acquire);
}

const moon_kernels *moon_kernels_now(void) { return current()->table; }

const char *moon_cpu_level(void) { return current()->name; }

const moon_kernels *moon_kernels_at(const char *name) {
    for (int i = 0; i < LEVELS; i++) {
        if (strcmp(name, levels[i].name) == 0 && has(i)) return levels[i].table;
    }
    return NULL;
}
