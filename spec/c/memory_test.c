/* Everything that allocates, with the n-th allocation failing, for every n: a clean MOON_EMEMORY, nothing left behind, and
   whatever was taken over is still the caller's. */
#include "check.h"

#include <pthread.h>

#include "../../src/core/dlpack.h"
#include "../../src/core/format.h"
#include "../../src/core/ops.h"

typedef struct foreign {
    moon_dl_versioned v1;
    int64_t dims[2];
    float memory[8];
    int deleted;
} foreign;

static void delete_foreign(moon_dl_versioned *v1) { ((foreign *)v1->manager_ctx)->deleted++; }

#define TRY(call)                   \
    do {                            \
        s = (call);                 \
        if (s != MOON_OK) goto end; \
    } while (0)

static moon_status build(moon_draft *d, moon_dtype dtype, int ndim, const int64_t *shape) {
    moon_status s = moon_draft_contiguous(d, dtype, ndim, shape);
    return s != MOON_OK ? s : moon_tensor_alloc(&d->t, moon_cpu());
}

static moon_status tensors(void) {
    moon_draft a = {0}, b = {0}, v, w;
    char *text = NULL;
    size_t size = 0;
    bool same;
    moon_status s;
    TRY(build(&a, MOON_FLOAT32, 2, (int64_t[]){4, 4}));
    TRY(build(&b, MOON_COMPLEX64, 2, (int64_t[]){4, 4}));
    TRY(moon_arange(&a.t, 0, 1));
    TRY(moon_copy(&b.t, &a.t));
    TRY(moon_view_transpose(&v, &a.t, 0, 1));
    v.t.storage = a.t.storage;
    TRY(moon_copy(&a.t, &v.t)); /* by a temporary */
    TRY(moon_view_slice(&v, &a.t, 0, 0, 3, 1));
    TRY(moon_view_slice(&w, &a.t, 0, 1, 3, 1));
    v.t.storage = w.t.storage = a.t.storage;
    TRY(moon_op_run(MOON_OP_neg, 1, &(moon_operand){.tensor = &v.t}, &w.t)); /* and again */
    TRY(moon_view_select(&v, &a.t, 0, 2));
    v.t.storage = a.t.storage;
    TRY(moon_reduce_run(MOON_OP_sum, &a.t, 0, &v.t));
    TRY(moon_matmul_run(&a.t, &a.t, &a.t));
    TRY(moon_equal(&a.t, &a.t, &same));
    TRY(moon_allclose(&a.t, &b.t, 1, 1, true, &same));
    TRY(moon_linspace(&a.t, 0, 1));
    TRY(moon_format(&b.t, &text, &size));
end:
    if (text != NULL) moon_free(text, size + 1);
    moon_tensor_close(&a.t);
    moon_tensor_close(&b.t);
    return s;
}

static moon_status spreads(void) {
    moon_draft a = {0}, r = {0};
    moon_status s;
    TRY(build(&a, MOON_COMPLEX64, 2, (int64_t[]){4, 4}));
    TRY(moon_fill(&a.t, &(moon_value){MOON_VALUE_INT, {.i = 1}}));
    TRY(moon_reduce_plan(MOON_OP_std, &a.t, 0, false, &r));
    TRY(moon_tensor_alloc(&r.t, moon_cpu()));
    TRY(moon_reduce_run(MOON_OP_std, &a.t, 0, &r.t));
end:
    moon_tensor_close(&a.t);
    moon_tensor_close(&r.t);
    return s;
}

static moon_status exchange(void) {
    foreign f = {.v1 = {.version = {1, 3}, .manager_ctx = &f, .deleter = delete_foreign}, .dims = {8, 1}};
    f.v1.dl_tensor = (moon_dl_tensor){f.memory, {MOON_DL_CPU, 0}, 1, {MOON_DL_FLOAT, 32, 1}, &f.dims[0], &f.dims[1], 0};
    moon_draft d, again;
    moon_dl_versioned *x = NULL;
    moon_dl_managed *z = NULL;
    bool consumed = false, taken = false, given = false;
    moon_status s;
    moon_draft_init(&d, MOON_BOOL, 1);
    moon_draft_init(&again, MOON_BOOL, 1);
    TRY(moon_dl_adopt_managed(&d.t, &f.v1, NULL, &consumed));
    taken = true;
    TRY(moon_dl_export_v0(&d.t, MOON_DL_FOR_TORCH, &z));
    TRY(moon_dl_export(&d.t, MOON_DL_FOR_TORCH, &x));
    TRY(moon_dl_adopt_managed(&again.t, x, NULL, &consumed));
    given = true;
end:
    CHECK(!consumed);
    if (z != NULL) z->deleter(z);
    if (x != NULL && !given) x->deleter(x);
    moon_tensor_close(&again.t);
    moon_tensor_close(&d.t);
    CHECK_INT(f.deleted, taken);
    return s;
}

static void sweep(moon_status (*scenario)(void), int at_least) {
    int n = 1;
    for (;; n++) {
        fail_at = n;
        moon_status s = scenario();
        bool reached = fail_at == 0;
        fail_at = 0;
        CHECK_INT(live_blocks, 0);
        moon_live live = moon_live_counts();
        CHECK(live.storages == 0 && live.bytes == 0 && live.exports == 0 && live.imports == 0);
        if (!reached) {
            CHECK_INT(s, MOON_OK);
            break;
        }
        CHECK_INT(s, MOON_EMEMORY);
        CHECK(strstr(moon_error_message(), "out of memory") != NULL);
    }
    CHECK(n > at_least);
}

static void sweep_tensors(void) { sweep(tensors, 12); }
static void sweep_spreads(void) { sweep(spreads, 2); }
static void sweep_exchange(void) { sweep(exchange, 5); }

static void impossible_sizes(void) {
    moon_draft d;
    OK(moon_draft_contiguous(&d, MOON_FLOAT64, 1, (int64_t[]){INT64_C(1) << 58}));
    FAILS(moon_tensor_alloc(&d.t, moon_cpu()), MOON_EMEMORY, "out of memory");
}

static void own_allocator(void) {
    static const size_t sizes[] = {1, 8, 63, 64, 65, 4096, (4u << 20) - 1, 4u << 20, (4u << 20) + 1, 9u << 20};
    const moon_allocator *m = &default_memory;
    for (size_t alignment = 1; alignment <= 4096; alignment *= 4) {
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            char *block = m->alloc(m->context, sizes[i], alignment);
            CHECK(block != NULL && (uintptr_t)block % alignment == 0);
            memset(block, 1, sizes[i]);
            m->free(m->context, block, sizes[i]);
        }
    }
    m->free(m->context, NULL, 5);
}

/* freed large blocks are kept for the next of their size, are bounded, and go back when asked */
static void kept_blocks(void) {
    const moon_allocator *m = &default_memory;
    enum { MIB = 1 << 20 };
    (void)moon_memory_trim();
    CHECK_INT(moon_memory_kept(), 0);
    char *block = m->alloc(m->context, 8 * MIB, 64);
    CHECK(block != NULL);
    memset(block, 7, 8 * MIB);
    m->free(m->context, block, 8 * MIB);
    if (moon_memory_kept() == 0) return; /* under ASan nothing is kept */
    CHECK_INT(moon_memory_kept(), 8 * MIB);
    char *other = m->alloc(m->context, 6 * MIB, 64);
    CHECK_INT(moon_memory_kept(), 8 * MIB);
    char *again = m->alloc(m->context, 8 * MIB - 5, 64);
    CHECK(again == block);
    CHECK_INT(moon_memory_kept(), 0);
    m->free(m->context, again, 8 * MIB - 5);
    m->free(m->context, other, 6 * MIB);
    CHECK_INT(moon_memory_kept(), 14 * MIB);
    char *many[40];
    for (int i = 0; i < 40; i++) many[i] = m->alloc(m->context, (size_t)(10 + i) * MIB, 64);
    for (int i = 0; i < 40; i++) m->free(m->context, many[i], (size_t)(10 + i) * MIB);
    CHECK(moon_memory_kept() > 0 && moon_memory_kept() <= 256u * MIB);
    block = m->alloc(m->context, 300u * MIB, 64);
    size_t before = moon_memory_kept();
    m->free(m->context, block, 300u * MIB);
    CHECK_INT(moon_memory_kept(), before);
    CHECK_INT(moon_memory_trim(), before);
    CHECK_INT(moon_memory_kept(), 0);
}

static void *take_and_return(void *unused) {
    (void)unused;
    for (int i = 0; i < 300; i++) {
        size_t size = (size_t)(5 + i % 7) << 20;
        char *block = default_memory.alloc(default_memory.context, size, 64);
        block[0] = block[size - 1] = (char)i;
        default_memory.free(default_memory.context, block, size);
        if (i % 50 == 0) (void)moon_memory_trim();
    }
    return NULL;
}

static void kept_by_threads(void) {
    pthread_t t[4];
    for (int i = 0; i < 4; i++) pthread_create(&t[i], NULL, take_and_return, NULL);
    for (int i = 0; i < 4; i++) pthread_join(t[i], NULL);
    (void)moon_memory_trim();
    CHECK_INT(moon_memory_kept(), 0);
}

SUITE(memory_suite, TEST(own_allocator), TEST(kept_blocks), TEST(kept_by_threads), TEST(sweep_tensors), TEST(sweep_spreads),
      TEST(sweep_exchange), TEST(impossible_sizes));
