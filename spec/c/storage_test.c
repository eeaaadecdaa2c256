#include "check.h"

#include <pthread.h>

typedef struct counter {
    moon_hook hook;
    int dropped, written;
} counter;

static void drop(moon_hook *hook) { ((counter *)hook)->dropped++; }
static void written(moon_hook *hook) { ((counter *)hook)->written++; }

static void counting(void) {
    moon_storage *s;
    OK(moon_storage_new(moon_cpu(), 100, &s));
    CHECK(s->owned && s->nbytes == 100 && s->host != NULL && (uintptr_t)s->host % 64 == 0);
    CHECK(moon_live_counts().storages == 1 && moon_live_counts().bytes == 100);
    moon_storage_retain(s);
    moon_storage_release(s);
    CHECK_INT(moon_live_counts().storages, 1);
    moon_storage_export_begin(s);
    CHECK(s->exports == 1 && moon_live_counts().exports == 1);
    moon_storage_release(s);
    CHECK_INT(moon_live_counts().storages, 1);
    moon_storage_export_end(s);
    CHECK(moon_live_counts().storages == 0 && moon_live_counts().bytes == 0);
}

static void owners(void) {
    counter owner = {{drop, written}, 0, 0}, watch = {{drop, written}, 0, 0}, late = watch;
    char memory[64];
    moon_storage *s;
    OK(moon_storage_wrap(moon_cpu(), memory, sizeof memory, false, &owner.hook, &s));
    CHECK(!s->owned && moon_live_counts().imports == 1 && moon_live_counts().bytes == 0);
    CHECK(moon_storage_set_watch(s, &watch.hook));
    CHECK(!moon_storage_set_watch(s, &late.hook));
    moon_draft d;
    OK(moon_draft_contiguous(&d, MOON_UINT8, 1, (int64_t[]){64}));
    d.t.storage = s;
    OK(moon_tensor_writing(&d.t));
    CHECK(owner.written == 1 && watch.written == 1);
    OK(moon_fill(&d.t, &(moon_value){MOON_VALUE_INT, {.i = 3}}));
    CHECK(owner.written == 2 && watch.written == 2 && memory[63] == 3);
    s->readonly = true;
    FAILS(moon_tensor_writing(&d.t), MOON_EREADONLY, "read-only");
    CHECK_INT(watch.written, 2);
    moon_tensor_close(&d.t);
    CHECK(owner.dropped == 1 && watch.dropped == 1 && late.dropped == 0);
    moon_tensor_close(&d.t); /* twice is fine */
    CHECK_INT(owner.dropped, 1);
}

static void *churn(void *storage) {
    for (int i = 0; i < 20000; i++) {
        moon_storage_retain(storage);
        moon_storage_export_begin(storage);
        moon_storage_release(storage);
        moon_storage_export_end(storage);
    }
    return NULL;
}

static void threads(void) {
    moon_storage *s;
    pthread_t t[4];
    OK(moon_storage_new(moon_cpu(), 8, &s));
    for (int i = 0; i < 4; i++) pthread_create(&t[i], NULL, churn, s);
    for (int i = 0; i < 4; i++) pthread_join(t[i], NULL);
    CHECK(s->refs == 1 && s->exports == 0);
    moon_storage_release(s);
}

static void empty(void) {
    moon_draft d;
    make(&d, MOON_FLOAT64, 2, (int64_t[]){0, 5});
    CHECK(moon_data(&d.t) != NULL && d.t.storage->nbytes == 0);
    moon_tensor_close(&d.t);
}

static void devices(void) {
    moon_device *d = NULL;
    OK(moon_device_find("cpu", &d));
    CHECK(d == moon_cpu() && strcmp(d->name, "cpu") == 0);
    FAILS(moon_device_find("cuda:0", &d), MOON_EDEVICE, "cuda|no CUDA backend in this build");
    FAILS(moon_device_find("cuda", &d), MOON_EDEVICE, "cuda|not available");
    FAILS(moon_device_find("metal", &d), MOON_EDEVICE, "mps|no Metal backend in this build");
    FAILS(moon_device_find("cuda:x", &d), MOON_EDEVICE, "unknown device 'cuda:x'");
    FAILS(moon_device_find("gpu", &d), MOON_EDEVICE, "unknown device 'gpu'|cpu");
    const char *name, *reason;
    int count, n = 0;
    for (; moon_backend_info(n, &name, &count, &reason); n++)
        CHECK(n == 0 ? count == 1 && reason == NULL : count == 0 && reason != NULL);
    CHECK_INT(n, 3);
}

static void errors(void) {
    CHECK_INT(moon_fail(MOON_ESHAPE, "first %d", 1), MOON_ESHAPE);
    CHECK_INT(moon_fail(MOON_EINDEX, "second, after %s", moon_error_message()), MOON_EINDEX);
    CHECK(strcmp(moon_error_message(), "second, after first 1") == 0);
    CHECK_INT(moon_error_kind(), MOON_EINDEX);
    char long_one[2000];
    memset(long_one, 'x', sizeof long_one);
    long_one[1999] = '\0';
    moon_fail(MOON_EVALUE, "%s", long_one);
    CHECK(strlen(moon_error_message()) < 600);
}

SUITE(storage_suite, TEST(counting), TEST(owners), TEST(threads), TEST(empty), TEST(devices), TEST(errors));
