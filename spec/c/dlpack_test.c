#include "check.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "../../src/core/dlpack.h"

/* ---- a producer that counts its deleter's calls ---- */

typedef struct producer {
    moon_dl_versioned v1;
    moon_dl_managed v0;
    moon_hook hook;
    int64_t shape[MOON_MAXDIM + 1], strides[MOON_MAXDIM + 1];
    _Alignas(16) char memory[256];
    _Atomic int deleted;
} producer;

static void delete_v1(moon_dl_versioned *v1) { ((producer *)v1->manager_ctx)->deleted++; }
static void delete_v0(moon_dl_managed *v0) { ((producer *)v0->manager_ctx)->deleted++; }
static void drop_hook(moon_hook *hook) { ((producer *)(void *)((char *)hook - offsetof(producer, hook)))->deleted++; }

/* float32 [2, 3] on the CPU, strides [3, 1] */
static moon_dl_tensor *produce(producer *p) {
    memset(p, 0, sizeof *p);
    moon_dl_tensor dl = {.data = p->memory, .device = {MOON_DL_CPU, 0}, .ndim = 2, .dtype = {MOON_DL_FLOAT, 32, 1}};
    dl.shape = p->shape, dl.strides = p->strides;
    p->shape[0] = 2, p->shape[1] = 3, p->strides[0] = 3, p->strides[1] = 1;
    for (int i = 0; i < 64; i++) ((float *)(void *)p->memory)[i] = (float)i;
    p->v1 = (moon_dl_versioned){.version = {1, 3}, .manager_ctx = p, .deleter = delete_v1, .dl_tensor = dl};
    p->v0 = (moon_dl_managed){.dl_tensor = dl, .manager_ctx = p, .deleter = delete_v0};
    p->hook = (moon_hook){drop_hook, NULL};
    return &p->v1.dl_tensor;
}

/* ---- the validator, each refusal; and it never looks at memory, so wild pointers are fine here ---- */

#define REFUSED(change, status, words)                                                 \
    do {                                                                               \
        producer p;                                                                    \
        moon_dl_tensor *dl = produce(&p);                                              \
        change;                                                                        \
        FAILS(moon_dl_check(dl, false, MOON_DL_FOR_US), status, words);                \
        FAILS(moon_dl_check(dl, false, MOON_DL_FOR_NUMPY), status, words);             \
        FAILS(moon_dl_check(dl, false, MOON_DL_FOR_TORCH), status, words);             \
        moon_draft blank;                                                              \
        moon_draft_init(&blank, MOON_BOOL, 0);                                         \
        FAILS(moon_dl_adopt(&blank.t, dl, false, &p.hook), status, words);             \
        bool consumed = true;                                                          \
        FAILS(moon_dl_adopt_managed(&blank.t, &p.v1, NULL, &consumed), status, words); \
        CHECK(!consumed);                                                              \
        CHECK(blank.t.storage == NULL);                                                \
        CHECK_INT(p.deleted, 0);                                                       \
    } while (0)

static void refusals(void) {
    REFUSED(dl->ndim = -1, MOON_ESHAPE, "-1 dimensions");
    REFUSED(dl->ndim = 65, MOON_ESHAPE, "65 dimensions|64");
    REFUSED(dl->ndim = INT32_MIN, MOON_ESHAPE, "dimensions");
    REFUSED(dl->shape = NULL, MOON_ESHAPE, "shape is missing");
    REFUSED(dl->shape[1] = -3, MOON_ESHAPE, "negative dimension -3|dim 2");
    REFUSED(dl->shape[0] = INT64_MIN, MOON_ESHAPE, "negative dimension");
    REFUSED(dl->data = NULL, MOON_EVALUE, "NULL|6 elements");
    REFUSED(dl->dtype.lanes = 4, MOON_EDTYPE, "dtype|4 lanes");
    REFUSED(dl->dtype.lanes = 0, MOON_EDTYPE, "dtype|0 lanes");
    REFUSED(dl->dtype.bits = 128, MOON_EDTYPE, "dtype|128 bits");
    REFUSED((dl->dtype.code = MOON_DL_BOOL, dl->dtype.bits = 1), MOON_EDTYPE, "dtype|1 bits"); /* RT28 */
    REFUSED(dl->dtype.code = MOON_DL_OPAQUE, MOON_EDTYPE, "dtype|code 3");
    REFUSED(dl->dtype.code = 17, MOON_EDTYPE, "dtype|code 17");
    REFUSED(dl->data = p.memory + 1, MOON_ELAYOUT, "data misaligned (1 mod 4)"); /* RT27 */
    REFUSED(dl->byte_offset = 2, MOON_ELAYOUT, "data misaligned (2 mod 4)");
    REFUSED((dl->device.type = MOON_DL_CUDA, dl->device.id = 1), MOON_EDEVICE, "cuda:1|no CUDA"); /* RT31 */
    REFUSED(dl->device.type = MOON_DL_METAL, MOON_EDEVICE, "mps:0|Metal");
    REFUSED(dl->device.type = 7, MOON_EDEVICE, "type 7");
    /* RT24: products that overflow, with strides and offsets */
    REFUSED((dl->ndim = 3, dl->strides = NULL, p.shape[0] = p.shape[1] = INT64_C(1) << 32, p.shape[2] = 16), MOON_ESHAPE,
            "size overflows 64 bits");
    REFUSED(p.strides[0] = INT64_C(1) << 62, MOON_ESHAPE, "size overflows 64 bits");
    REFUSED(p.strides[0] = INT64_MIN, MOON_ESHAPE, "size overflows 64 bits");
    REFUSED(p.strides[0] = INT64_MAX, MOON_ESHAPE, "size overflows 64 bits");
    REFUSED((p.strides[0] = INT64_C(1) << 60, p.strides[1] = INT64_C(1) << 60), MOON_ESHAPE, "size overflows 64 bits");
    REFUSED(dl->byte_offset = UINT64_MAX - 3, MOON_ESHAPE, "size overflows 64 bits");
    REFUSED(dl->byte_offset = INT64_MAX - 3, MOON_ESHAPE, "size overflows 64 bits");
    REFUSED((p.shape[0] = INT64_C(1) << 62, p.shape[1] = INT64_C(1) << 62, p.strides[0] = p.strides[1] = 0), MOON_ESHAPE,
            "size overflows 64 bits");
    REFUSED((p.shape[0] = 0, p.shape[1] = -1), MOON_ESHAPE, "negative dimension -1");
    REFUSED(p.strides[0] = -(INT64_C(1) << 59), MOON_ESHAPE, "size overflows 64 bits"); /* below address 0 */
}

#define FOR_TORCH(change, readonly, status, words)                            \
    do {                                                                      \
        producer p;                                                           \
        moon_dl_tensor *dl = produce(&p);                                     \
        change;                                                               \
        FAILS(moon_dl_check(dl, readonly, MOON_DL_FOR_TORCH), status, words); \
        OK(moon_dl_check(dl, readonly, MOON_DL_FOR_NUMPY));                   \
        OK(moon_dl_check(dl, readonly, MOON_DL_FOR_US));                      \
    } while (0)

static void torch_refusals(void) {
    FOR_TORCH((p.strides[1] = -1, dl->byte_offset = 8), false, MOON_ELAYOUT,
              "negative stride|-1|dim 2|copy first|{copy = true}");                                                 /* RT18 */
    FOR_TORCH((void)0, true, MOON_EREADONLY, "read-only|non-writeable|undefined behavior|{copy = true}");           /* RT17 */
    FOR_TORCH(p.strides[0] = 0, false, MOON_EREADONLY, "read-only|non-writeable|undefined behavior|{copy = true}"); /* A16 */
    FOR_TORCH(p.strides[0] = 1, false, MOON_EREADONLY, "read-only|non-writeable|undefined behavior|{copy = true}"); /* X10 */
    producer p;
    moon_dl_tensor *dl = produce(&p);
    p.shape[0] = 1, p.strides[0] = -3; /* of one element: says nothing (A5) */
    OK(moon_dl_check(dl, false, MOON_DL_FOR_TORCH));
    p.shape[0] = 0, p.strides[1] = -1; /* of none */
    OK(moon_dl_check(dl, true, MOON_DL_FOR_TORCH));
}

static void accepted(void) {
    producer p;
    moon_dl_tensor *dl = produce(&p);
    OK(moon_dl_check(dl, false, MOON_DL_FOR_TORCH));
    dl->strides = NULL; /* RT21 */
    OK(moon_dl_check(dl, false, MOON_DL_FOR_TORCH));
    dl->ndim = 0, dl->shape = NULL; /* RT22 */
    OK(moon_dl_check(dl, false, MOON_DL_FOR_TORCH));
    dl = produce(&p);
    p.shape[0] = 0, dl->data = NULL;
    OK(moon_dl_check(dl, false, MOON_DL_FOR_TORCH));
    dl = produce(&p);
    dl->device.type = MOON_DL_CUDA_HOST; /* the host may touch pinned memory */
    OK(moon_dl_check(dl, false, MOON_DL_FOR_US));
    for (int d = 0; d < MOON_DTYPE_COUNT; d++) {
        dl = produce(&p);
        dl->dtype = moon_dtypes[d].dl;
        OK(moon_dl_check(dl, false, MOON_DL_FOR_TORCH));
    }
    dl->dtype = (moon_dl_dtype){MOON_DL_COMPLEX, 64, 1};
    dl->data = p.memory + 4; /* aligned for its parts */
    OK(moon_dl_check(dl, false, MOON_DL_FOR_TORCH));
}

/* ---- adopting ---- */

static float at(const moon_tensor *t, int64_t i) { return *(float *)element_number(t, i); }

static void adopts(void) {
    producer p;
    moon_dl_tensor *dl = produce(&p);
    moon_draft d;
    moon_draft_init(&d, MOON_BOOL, 2);
    dl->byte_offset = 8; /* RT25, RT26 */
    OK(moon_dl_adopt(&d.t, dl, false, &p.hook));
    CHECK(d.t.ndim == 2 && d.t.dtype == MOON_FLOAT32 && d.t.numel == 6 && !d.t.readonly);
    CHECK(moon_data(&d.t) == p.memory + 8 && at(&d.t, 0) == 2 && at(&d.t, 5) == 7);
    CHECK(!d.t.storage->owned && d.t.storage->owner == &p.hook);
    CHECK_INT(moon_live_counts().imports, 1);
    CHECK_INT(p.deleted, 0);
    moon_tensor_close(&d.t);
    CHECK_INT(p.deleted, 1);
}

/* RT15, RT19: negative strides stay; the storage spans just what they reach */
static void adopts_reversed(void) {
    producer p;
    moon_dl_tensor *dl = produce(&p);
    moon_draft d;
    moon_draft_init(&d, MOON_BOOL, 2);
    p.strides[0] = -3, p.strides[1] = -1, dl->byte_offset = 5 * 4;
    OK(moon_dl_adopt(&d.t, dl, false, NULL));
    CHECK(d.t.strides[0] == -3 && d.t.strides[1] == -1);
    CHECK((char *)d.t.storage->host == p.memory && d.t.storage->nbytes == 24 && d.t.offset == 20);
    for (int i = 0; i < 6; i++) CHECK(at(&d.t, i) == (float)(5 - i));
    moon_tensor_close(&d.t);
}

static void adopts_overlap_readonly(void) {
    producer p;
    moon_dl_tensor *dl = produce(&p);
    moon_draft d;
    moon_draft_init(&d, MOON_BOOL, 2);
    p.strides[0] = 1; /* as unfold: no stride is 0 */
    OK(moon_dl_adopt(&d.t, dl, false, NULL));
    CHECK(d.t.readonly);
    FAILS(moon_tensor_writing(&d.t), MOON_EREADONLY, "several of its elements share one place");
    moon_tensor_close(&d.t);
    p.v1.flags = MOON_DL_READ_ONLY;
    p.strides[0] = 3;
    bool consumed;
    OK(moon_dl_adopt_managed(&d.t, &p.v1, NULL, &consumed));
    CHECK(d.t.readonly && d.t.storage->readonly);
    moon_tensor_close(&d.t);
    CHECK_INT(p.deleted, 1);
}

/* A11: an empty tensor takes no lease */
static void adopts_nothing(void) {
    producer p;
    moon_dl_tensor *dl = produce(&p);
    moon_draft d;
    moon_draft_init(&d, MOON_BOOL, 2);
    p.shape[0] = 0, dl->data = NULL;
    OK(moon_dl_adopt(&d.t, dl, false, &p.hook));
    CHECK_INT(p.deleted, 1);
    CHECK_INT(moon_live_counts().imports, 0);
    CHECK(d.t.numel == 0 && d.t.shape[1] == 3 && d.t.storage != NULL);
    moon_tensor_close(&d.t);
    CHECK_INT(p.deleted, 1);
}

static void adopts_managed(void) {
    producer p;
    moon_draft d;
    bool consumed = true;
    produce(&p);
    moon_draft_init(&d, MOON_BOOL, 2);
    OK(moon_dl_adopt_managed(&d.t, NULL, &p.v0, &consumed));
    CHECK(!consumed && !d.t.readonly); /* RT16: an unversioned one cannot say read-only, and is writable */
    moon_draft view;
    OK(moon_view_select(&view, &d.t, 0, 1));
    moon_tensor_share(&view.t, &d.t);
    moon_tensor_close(&d.t);
    CHECK_INT(p.deleted, 0);
    CHECK(at(&view.t, 0) == 3);
    moon_tensor_close(&view.t);
    CHECK_INT(p.deleted, 1);
    produce(&p);
    p.v1.version.minor = 9; /* an unknown minor version is usable */
    p.v1.deleter = NULL;    /* and nothing to call is fine */
    p.v1.flags = 0xf0;
    OK(moon_dl_adopt_managed(&d.t, &p.v1, NULL, &consumed));
    moon_tensor_close(&d.t);
}

static void unknown_major(void) {
    producer p;
    moon_draft d;
    bool consumed = false;
    produce(&p);
    moon_draft_init(&d, MOON_BOOL, 2);
    p.v1.version = (moon_dl_version){2, 5};
    p.v1.dl_tensor.ndim = -7; /* whatever it is, it must not be looked at */
    p.v1.dl_tensor.shape = (int64_t *)8;
    FAILS(moon_dl_adopt_managed(&d.t, &p.v1, NULL, &consumed), MOON_EUNSUPPORTED, "2.5|1.x");
    CHECK(consumed);
    CHECK_INT(p.deleted, 1);
}

/* ---- exporting ---- */

static void exports(void) {
    moon_draft a, v;
    moon_dl_versioned *x, *y;
    moon_dl_managed *z;
    make(&a, MOON_FLOAT64, 3, (int64_t[]){3, 1, 4});
    OK(moon_view_slice(&v, &a.t, 2, 1, 2, 2));
    moon_tensor_share(&v.t, &a.t);
    v.t.strides[1] = -99;
    OK(moon_dl_export(&v.t, MOON_DL_FOR_TORCH, &x));
    OK(moon_dl_export(&v.t, MOON_DL_FOR_NUMPY, &y)); /* RT4: twice, apart */
    OK(moon_dl_export_v0(&v.t, MOON_DL_FOR_TORCH, &z));
    CHECK(x->version.major == 1 && x->version.minor == 3 && x->flags == 0);
    CHECK(x->dl_tensor.data == moon_data(&v.t) && x->dl_tensor.byte_offset == 0);
    CHECK(x->dl_tensor.strides[0] == 4 && x->dl_tensor.strides[1] == 2 && x->dl_tensor.strides[2] == 2);
    CHECK(x->dl_tensor.shape[2] == 2 && x->dl_tensor.dtype.bits == 64 && x->dl_tensor.device.type == MOON_DL_CPU);
    CHECK(z->dl_tensor.data == x->dl_tensor.data && y->dl_tensor.shape != x->dl_tensor.shape);
    CHECK_INT(moon_live_counts().exports, 3);
    CHECK_INT(a.t.storage->exports, 3);
    moon_tensor_close(&a.t);
    moon_tensor_close(&v.t);
    CHECK_INT(moon_live_counts().storages, 1); /* RT1: consumers keep it */
    *(double *)x->dl_tensor.data = 1;
    x->deleter(x);
    y->deleter(y);
    CHECK_INT(moon_live_counts().storages, 1);
    z->deleter(z);
    CHECK_INT(moon_live_counts().storages, 0);
}

static void export_scalars_and_nothing(void) {
    moon_draft a;
    moon_dl_versioned *x;
    make(&a, MOON_BFLOAT16, 0, NULL);
    OK(moon_dl_export(&a.t, MOON_DL_FOR_TORCH, &x));
    CHECK(x->dl_tensor.ndim == 0 && x->dl_tensor.strides != NULL && x->dl_tensor.data == moon_data(&a.t));
    CHECK(x->dl_tensor.dtype.code == MOON_DL_BFLOAT && x->dl_tensor.dtype.bits == 16);
    x->deleter(x);
    moon_tensor_close(&a.t);
    make(&a, MOON_BOOL, 2, (int64_t[]){0, 3});
    OK(moon_dl_export(&a.t, MOON_DL_FOR_TORCH, &x));
    CHECK(x->dl_tensor.data == NULL && x->dl_tensor.strides[0] == 3 && x->dl_tensor.strides[1] == 1);
    x->deleter(x);
    moon_tensor_close(&a.t);
    FAILS(moon_dl_export(&a.t, MOON_DL_FOR_TORCH, &x), MOON_ECLOSED, "closed");
}

static void export_refusals(void) {
    moon_draft a, f, e;
    moon_dl_versioned *x;
    moon_dl_managed *z;
    make(&a, MOON_FLOAT32, 1, (int64_t[]){4});
    OK(moon_view_flip(&f, &a.t, 0));
    moon_tensor_share(&f.t, &a.t);
    FAILS(moon_dl_export(&f.t, MOON_DL_FOR_TORCH, &x), MOON_ELAYOUT, "negative stride|dim 1|copy"); /* X4 */
    OK(moon_dl_export(&f.t, MOON_DL_FOR_NUMPY, &x));
    CHECK(x->dl_tensor.strides[0] == -1 && x->dl_tensor.data == moon_data(&a.t) + 12);
    x->deleter(x);
    moon_draft one;
    OK(moon_view_slice(&one, &f.t, 0, 1, 1, -1)); /* one element: its stride is made 1 */
    one.t.strides[0] = -1;
    moon_tensor_share(&one.t, &f.t);
    OK(moon_dl_export(&one.t, MOON_DL_FOR_TORCH, &x));
    CHECK_INT(x->dl_tensor.strides[0], 1);
    x->deleter(x);
    OK(moon_view_expand(&e, &a.t, 2, (int64_t[]){3, 4}));
    moon_tensor_share(&e.t, &a.t);
    FAILS(moon_dl_export(&e.t, MOON_DL_FOR_TORCH, &x), MOON_EREADONLY,
          "read-only|non-writeable|undefined behavior|{copy = true}");
    FAILS(moon_dl_export_v0(&e.t, MOON_DL_FOR_TORCH, &z), MOON_EREADONLY,
          "read-only|non-writeable|undefined behavior|{copy = true}");
    FAILS(moon_dl_export_v0(&e.t, MOON_DL_FOR_NUMPY, &z), MOON_EREADONLY, "read-only|versioned|{copy = true}"); /* RT10 */
    OK(moon_dl_export(&e.t, MOON_DL_FOR_NUMPY, &x));
    CHECK_INT(x->flags, MOON_DL_READ_ONLY);
    x->deleter(x);
    moon_tensor_close(&a.t);
    moon_tensor_close(&f.t);
    moon_tensor_close(&one.t);
    moon_tensor_close(&e.t);
}

/* RT25: what came in with an offset goes out at the same first element, and the producer lives as long as the last of all */
static void round_trip(void) {
    producer p;
    moon_dl_tensor *dl = produce(&p);
    moon_draft d, again;
    moon_dl_versioned *x;
    bool consumed;
    moon_draft_init(&d, MOON_BOOL, 2);
    moon_draft_init(&again, MOON_BOOL, 2);
    dl->byte_offset = 8;
    OK(moon_dl_adopt_managed(&d.t, &p.v1, NULL, &consumed));
    OK(moon_dl_export(&d.t, MOON_DL_FOR_TORCH, &x));
    CHECK(x->dl_tensor.data == p.memory + 8);
    moon_tensor_close(&d.t);
    OK(moon_dl_adopt_managed(&again.t, x, NULL, &consumed));
    CHECK(at(&again.t, 0) == 2);
    CHECK_INT(p.deleted, 0);
    moon_tensor_close(&again.t);
    CHECK_INT(p.deleted, 1);
}

/* ---- threads ---- */

static void *delete_elsewhere(void *struct_) {
    moon_dl_versioned *x = struct_;
    x->deleter(x);
    return NULL;
}

static void foreign_threads(void) {
    producer p;
    moon_draft d;
    moon_dl_versioned *x[8];
    pthread_t threads[8];
    bool consumed;
    produce(&p);
    moon_draft_init(&d, MOON_BOOL, 2);
    OK(moon_dl_adopt_managed(&d.t, &p.v1, NULL, &consumed));
    for (int i = 0; i < 8; i++) OK(moon_dl_export(&d.t, MOON_DL_FOR_TORCH, &x[i]));
    moon_tensor_close(&d.t);
    CHECK_INT(p.deleted, 0);
    for (int i = 0; i < 8; i++) pthread_create(&threads[i], NULL, delete_elsewhere, x[i]);
    for (int i = 0; i < 8; i++) pthread_join(threads[i], NULL);
    CHECK_INT(p.deleted, 1);
}

SUITE(dlpack_suite, TEST(refusals), TEST(torch_refusals), TEST(accepted), TEST(adopts), TEST(adopts_reversed),
      TEST(adopts_overlap_readonly), TEST(adopts_nothing), TEST(adopts_managed), TEST(unknown_major), TEST(exports),
      TEST(export_scalars_and_nothing), TEST(export_refusals), TEST(round_trip), TEST(foreign_threads));
