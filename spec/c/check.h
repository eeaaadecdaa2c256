/* A test is a void function that CHECKs; a suite lists its tests. main.c runs them, each from and back to nothing live. */
#ifndef MOON_CHECK_H
#define MOON_CHECK_H

#include <complex.h>
#include <stdio.h>
#include <string.h>

#include "../../devices/device.h"
#include "../../src/core/memory.h"

#ifndef CMPLX /* glibc withholds it from clang */
#define CMPLX(x, y) __builtin_complex((double)(x), (double)(y))
#endif
#undef I

typedef struct test {
    const char *name;
    void (*run)(void);
} test;

#define TEST(f) \
    { #f, f }
#define SUITE(name, ...) const test name[] = {__VA_ARGS__, {NULL, NULL}}

extern const test dtype_suite[], view_suite[], copy_suite[], ops_suite[], reduce_suite[], dlpack_suite[], storage_suite[],
    format_suite[], index_suite[], memory_suite[], level_suite[], pool_suite[], vector_suite[];

extern const test files_suite[];

void check_failed(const char *file, int line, const char *format, ...) MOON_PRINTF(3, 4);

#define CHECK(condition)                                                      \
    do {                                                                      \
        if (!(condition)) check_failed(__FILE__, __LINE__, "%s", #condition); \
    } while (0)
#define CHECK_INT(a, b)                                                                          \
    do {                                                                                         \
        long long a_ = (long long)(a), b_ = (long long)(b);                                      \
        if (a_ != b_) check_failed(__FILE__, __LINE__, "%s is %lld, expected %lld", #a, a_, b_); \
    } while (0)
/* `call` succeeds */
#define OK(call)                                                                                        \
    do {                                                                                                \
        if ((call) != MOON_OK) check_failed(__FILE__, __LINE__, "%s: %s", #call, moon_error_message()); \
    } while (0)
/* `call` fails with this status, and a message that contains all the words (separated by '|') */
#define FAILS(call, status, words) check_fails(__FILE__, __LINE__, #call, call, status, words)
void check_fails(const char *file, int line, const char *call, moon_status got, moon_status want, const char *words);

/* the counting allocator of main.c; fail_at: the n-th allocation from now on fails (0: none) */
extern long fail_at;
extern _Atomic long live_blocks;
extern moon_allocator default_memory; /* core's own, which the counting one stands in for */

/* a repeatable stream of numbers */
uint64_t next_random(void);
int64_t random_below(int64_t n);
/* how many random rounds of n to go: a sixth with --quick, which is for valgrind */
int rounds(int n);

/* ---- tensors for tests ---- */

/* a new contiguous CPU tensor in a draft; closed by moon_tensor_close(&d->t) */
void make(moon_draft *d, moon_dtype dtype, int ndim, const int64_t *shape);
/* every element random; floats include infinities, NaN and zeros, integers their ends */
void fill_random(const moon_tensor *t);
/* raw bytes of element number i in row-major order */
void *element_number(const moon_tensor *t, int64_t i);
/* a random view of a fresh tensor of that dtype, up to 4 dimensions; `base` must be closed, view has no reference */
void random_view(moon_draft *base, moon_draft *view, moon_dtype dtype);
/* lays out `d` as a fresh tensor of this shape with permuted, gapped or reversed strides */
void make_strided(moon_draft *base, moon_draft *view, moon_dtype dtype, int ndim, const int64_t *shape);

/* the bits of the float16, bfloat16 or float8 nearest to v, ties to even, found by search; v is not NaN */
uint32_t nearest_code(moon_dtype dtype, long double v);
/* one element cast as the table in devices/cpu/kernels_cast.h says, written independently; NaN: any NaN will do */
void naive_cast(moon_dtype from, const void *source, moon_dtype to, void *target);
/* the same bits, or both NaN (in each part) */
bool same_element(moon_dtype dtype, const void *a, const void *b);

#endif
