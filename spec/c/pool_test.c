/* The thread pool: the same bits for any number of threads, from several threads at once, from within, and after a fork. */
#include "check.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../devices/cpu/pool.h"
#include "../../src/core/ops.h"

typedef struct tally {
    _Atomic int seen[1000];
    pthread_t first;
    _Atomic int elsewhere, nested;
} tally;

static void mark(void *context, int64_t i) {
    tally *t = context;
    atomic_fetch_add(&t->seen[i], 1);
    if (!pthread_equal(pthread_self(), t->first)) atomic_fetch_add(&t->elsewhere, 1);
    for (volatile int k = rounds(20000); k > 0; k--) {}
}

static bool all_once(tally *t) {
    bool once = true;
    for (int i = 0; i < 1000; i++) once = once && t->seen[i] == 1;
    return once;
}

static void every_part_once(void) {
    for (int n = 1; n <= 9; n += 4) {
        moon_host_set_threads(n);
        CHECK_INT(moon_host_threads(), n);
        for (int round = 0; round < rounds(20); round++) {
            tally t = {.first = pthread_self()};
            moon_parallel(1000, mark, &t);
            CHECK(all_once(&t));
            CHECK(n > 1 || t.elsewhere == 0);
        }
    }
    moon_parallel(0, mark, NULL);
}

static void inner(void *context, int64_t i) {
    (void)i;
    atomic_fetch_add(&((tally *)context)->nested, 1);
}

static void outer(void *context, int64_t i) {
    mark(context, i);
    moon_parallel(3, inner, context);
}

static void from_within(void) {
    moon_host_set_threads(4);
    tally t = {.first = pthread_self()};
    moon_parallel(1000, outer, &t);
    CHECK(all_once(&t));
    CHECK_INT(t.nested, 3000);
}

static void *one_caller(void *context) {
    for (int round = 0; round < rounds(20); round++) {
        tally t = {.first = pthread_self()};
        moon_parallel(1000, outer, &t);
        if (!all_once(&t) || t.nested != 3000) *(bool *)context = false;
        if (round % 5 == 0) moon_host_set_threads(2 + round / 5);
    }
    return NULL;
}

static void several_callers(void) {
    pthread_t threads[4];
    bool right[4] = {true, true, true, true};
    for (int i = 0; i < 4; i++) pthread_create(&threads[i], NULL, one_caller, &right[i]);
    for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
    for (int i = 0; i < 4; i++) CHECK(right[i]);
}

/* ---- whole tensors ---- */

enum { SIDE = 1201 }; /* no multiple of anything */

static uint64_t hash(const moon_tensor *t) {
    uint64_t h = 1469598103934665603u;
    const char *p = moon_data(t);
    for (size_t i = 0, n = (size_t)t->numel * moon_itemsize(t); i < n; i++) h = (h ^ (unsigned char)p[i]) * 1099511628211u;
    return h;
}

static uint64_t reduced(moon_op_id op, const moon_tensor *in, int dim) {
    moon_draft r;
    OK(moon_reduce_plan(op, in, dim, false, &r));
    OK(moon_tensor_alloc(&r.t, moon_cpu()));
    OK(moon_reduce_run(op, in, dim, &r.t));
    uint64_t h = hash(&r.t);
    moon_tensor_close(&r.t);
    return h;
}

static uint64_t computed(moon_op_id op, const moon_tensor *a, const moon_tensor *b) {
    moon_operand in[2] = {{.tensor = a}, {.tensor = b}};
    moon_draft r;
    OK(moon_op_plan(op, moon_ops[op].arity, in, &r));
    OK(moon_tensor_alloc(&r.t, moon_cpu()));
    OK(moon_op_run(op, moon_ops[op].arity, in, &r.t));
    uint64_t h = hash(&r.t);
    moon_tensor_close(&r.t);
    return h;
}

static uint64_t copied(moon_dtype dtype, const moon_tensor *from) {
    moon_draft r;
    make(&r, dtype, from->ndim, from->shape);
    OK(moon_copy(&r.t, from));
    uint64_t h = hash(&r.t);
    moon_tensor_close(&r.t);
    return h;
}

enum { RESULTS = 64 };

static int run_all(const moon_tensor *a, const moon_tensor *half, const moon_tensor *thin, uint64_t *results) {
    static const moon_op_id over[] = {MOON_OP_sum, MOON_OP_mean, MOON_OP_max, MOON_OP_argmin, MOON_OP_std};
    moon_draft across, flipped, product;
    int n = 0;
    OK(moon_view_transpose(&across, a, 0, 1));
    across.t.storage = a->storage;
    OK(moon_view_flip(&flipped, a, 1));
    flipped.t.storage = a->storage;
    for (size_t i = 0; i < sizeof over / sizeof *over; i++) {
        for (int dim = -1; dim < 2; dim++) {
            results[n++] = reduced(over[i], a, dim);
            results[n++] = reduced(over[i], thin, dim);
        }
        results[n++] = reduced(over[i], &flipped.t, -1);
    }
    results[n++] = computed(MOON_OP_add, a, a), results[n++] = computed(MOON_OP_add, a, &across.t);
    results[n++] = computed(MOON_OP_lt, &flipped.t, &across.t), results[n++] = computed(MOON_OP_exp, a, NULL);
    results[n++] = computed(MOON_OP_mul, half, half), results[n++] = computed(MOON_OP_mul, half, a);
    results[n++] = copied(MOON_FLOAT32, a), results[n++] = copied(MOON_FLOAT32, &across.t);
    results[n++] = copied(MOON_FLOAT32, &flipped.t), results[n++] = copied(MOON_FLOAT16, a);
    results[n++] = copied(MOON_INT8, &across.t);
    OK(moon_matmul_plan(a, &across.t, &product));
    OK(moon_tensor_alloc(&product.t, moon_cpu()));
    OK(moon_matmul_run(a, &across.t, &product.t));
    results[n++] = hash(&product.t);
    moon_tensor_close(&product.t);
    return n;
}

static void fill_series(const moon_tensor *t) {
    float *p = (float *)(void *)moon_data(t);
    for (int64_t i = 0; i < t->numel; i++) p[i] = (float)random_below(1 << 20) / 1024.0f - 500;
}

static void any_number_of_threads(void) {
    moon_draft a, half, thin;
    make(&a, MOON_FLOAT32, 2, (int64_t[]){SIDE, SIDE});
    make(&half, MOON_FLOAT16, 2, (int64_t[]){SIDE, SIDE});
    make(&thin, MOON_FLOAT32, 2, (int64_t[]){300001, 5});
    fill_series(&a.t), fill_series(&thin.t);
    OK(moon_copy(&half.t, &a.t));
    uint64_t want[RESULTS], got[RESULTS];
    moon_host_set_threads(1);
    int n = run_all(&a.t, &half.t, &thin.t, want);
    for (int threads = 2; threads <= 7; threads += 1 + threads / 2) {
        moon_host_set_threads(threads);
        CHECK_INT(run_all(&a.t, &half.t, &thin.t, got), n);
        for (int i = 0; i < n; i++) {
            if (got[i] != want[i]) check_failed(__FILE__, __LINE__, "result %d with %d threads", i, threads);
        }
    }
    moon_tensor_close(&a.t), moon_tensor_close(&half.t), moon_tensor_close(&thin.t);
}

/* ---- fork ---- */

static void in_a_child(void) {
    moon_host_set_threads(3);
    tally t = {.first = pthread_self()};
    moon_parallel(1000, mark, &t);
    CHECK(all_once(&t));
    pid_t child = fork();
    if (child == 0) {
        alarm(60); /* a deadlock is a failure */
        tally u = {.first = pthread_self()};
        moon_parallel(1000, outer, &u);
        int status = all_once(&u) && u.nested == 3000 ? 0 : 1;
        pid_t grandchild = fork();
        if (grandchild == 0) {
            tally v = {.first = pthread_self()};
            moon_parallel(1000, mark, &v);
            _exit(all_once(&v) ? 0 : 1);
        }
        int inner_status = 1;
        waitpid(grandchild, &inner_status, 0);
        _exit(status | (inner_status != 0));
    }
    int status = -1;
    CHECK(waitpid(child, &status, 0) == child);
    CHECK_INT(status, 0);
    tally after = {.first = pthread_self()};
    moon_parallel(1000, mark, &after);
    CHECK(all_once(&after));
}

SUITE(pool_suite, TEST(every_part_once), TEST(from_within), TEST(several_callers), TEST(any_number_of_threads), TEST(in_a_child));
