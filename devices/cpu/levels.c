/* Which of the tables of inner loops is in use: the best that the processor has, or the one that MOONTENSOR_ISA names. */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "cpu.h"
#include "kernels.h"

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

static bool has(int i) {
#if MOON_LEVELS
    __builtin_cpu_init();
    bool v3 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("f16c") && __builtin_cpu_supports("bmi") &&
              __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("lzcnt") && __builtin_cpu_supports("movbe");
    if (i == 1) return v3;
    if (i == 2) {
        return v3 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
               __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
    }
#endif
    return i == 0;
}

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
