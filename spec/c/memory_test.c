/* Everything that allocates, with the n-th allocation failing, for every n: a clean MOON_EMEMORY, nothing left behind, and
   whatever was taken over is still the caller's. */
#include "check.h"

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

static void sweep_tensors(void) { sweep(tensors, 20); }
static void sweep_spreads(void) { sweep(spreads, 4); }
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

SUITE(memory_suite, TEST(own_allocator), TEST(sweep_tensors), TEST(sweep_spreads), TEST(sweep_exchange), TEST(impossible_sizes));
