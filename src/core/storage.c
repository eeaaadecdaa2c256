#include "storage.h"
#include "memory.h"
#include "../../devices/device.h"

static _Atomic int64_t live_storages, live_bytes, live_exports, live_imports;

/* Small storages count in one word, since an atomic addition is a good part of what they cost: their number in units of
   SMALL_ONE, and below that their bytes, which 2^28 of them cannot fill. */
enum { SMALL_BYTES = 256 };
static _Atomic uint64_t live_small;
static const uint64_t small_one = UINT64_C(1) << 36;

moon_live moon_live_counts(void) {
    uint64_t small = atomic_load(&live_small);
    return (moon_live){atomic_load(&live_storages) + (int64_t)(small / small_one),
                       atomic_load(&live_bytes) + (int64_t)(small % small_one), atomic_load(&live_exports),
                       atomic_load(&live_imports)};
}

static moon_storage *blank(moon_device *device, size_t nbytes, size_t room) {
    moon_storage *s = moon_alloc(sizeof *s + room);
    if (s == NULL) {
        moon_fail(MOON_EMEMORY, "out of memory");
        return NULL;
    }
    atomic_init(&s->refs, 1);
    atomic_init(&s->exports, 0);
    atomic_init(&s->watch, NULL);
    s->device = device;
    s->handle = s->host = NULL;
    s->nbytes = nbytes;
    s->joined = 0;
    s->readonly = s->owned = false;
    s->owner = NULL;
    return s;
}

/* one block for the record and, aligned, the bytes */
static moon_status new_small(moon_device *device, size_t nbytes, moon_storage **out) {
    enum { ALIGNMENT = 64 };
    size_t room = ALIGNMENT - 16 + (nbytes > 0 ? nbytes : 1);
    moon_storage *s = blank(device, nbytes, room);
    if (s == NULL) return MOON_EMEMORY;
    s->joined = sizeof *s + room;
    s->host = s->handle = (void *)(((uintptr_t)(s + 1) + ALIGNMENT - 1) & ~(uintptr_t)(ALIGNMENT - 1));
    s->owned = true;
    atomic_fetch_add_explicit(&live_small, small_one + nbytes, memory_order_relaxed);
    *out = s;
    return MOON_OK;
}

moon_status moon_storage_new(moon_device *device, size_t nbytes, moon_storage **out) {
    if (nbytes <= SMALL_BYTES && device == moon_cpu() && !MOON_SANITIZED) return new_small(device, nbytes, out);
    moon_storage *s = blank(device, nbytes, 0);
    if (s == NULL) return MOON_EMEMORY;
    /* never nothing, so that an empty tensor on the host has an address too */
    moon_status status = device->backend->alloc(device, nbytes > 0 ? nbytes : 1, s);
    if (status != MOON_OK) {
        moon_free(s, sizeof *s);
        return status;
    }
    s->owned = true;
    atomic_fetch_add_explicit(&live_storages, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&live_bytes, (int64_t)nbytes, memory_order_relaxed);
    *out = s;
    return MOON_OK;
}

moon_status moon_storage_wrap(moon_device *device, void *handle, size_t nbytes, bool readonly, moon_hook *owner,
                              moon_storage **out) {
    moon_storage *s = blank(device, nbytes, 0);
    if (s == NULL) return MOON_EMEMORY;
    s->handle = handle;
    s->host = device->backend->dl_type == MOON_DL_CPU ? handle : NULL;
    s->readonly = readonly;
    s->owner = owner;
    atomic_fetch_add_explicit(&live_storages, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&live_imports, 1, memory_order_relaxed);
    *out = s;
    return MOON_OK;
}

void moon_storage_retain(moon_storage *s) { atomic_fetch_add_explicit(&s->refs, 1, memory_order_relaxed); }

void moon_storage_release(moon_storage *s) {
    /* the only reference is ours, and nobody can take another from it: no need to count down */
    bool last = atomic_load_explicit(&s->refs, memory_order_acquire) == 1;
    if (!last && atomic_fetch_sub_explicit(&s->refs, 1, memory_order_acq_rel) != 1) return;
    moon_hook *watch = atomic_load_explicit(&s->watch, memory_order_acquire);
    if (watch != NULL) watch->drop(watch);
    if (s->joined > 0) {
        atomic_fetch_sub_explicit(&live_small, small_one + s->nbytes, memory_order_relaxed);
        moon_free(s, s->joined);
        return;
    }
    if (s->owned) {
        atomic_fetch_sub_explicit(&live_bytes, (int64_t)s->nbytes, memory_order_relaxed);
        s->device->backend->release(s);
    } else {
        atomic_fetch_sub_explicit(&live_imports, 1, memory_order_relaxed);
        if (s->owner != NULL) s->owner->drop(s->owner);
    }
    atomic_fetch_sub_explicit(&live_storages, 1, memory_order_relaxed);
    moon_free(s, sizeof *s);
}

void moon_storage_export_begin(moon_storage *s) {
    moon_storage_retain(s);
    atomic_fetch_add_explicit(&s->exports, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&live_exports, 1, memory_order_relaxed);
}

void moon_storage_export_end(moon_storage *s) {
    atomic_fetch_sub_explicit(&live_exports, 1, memory_order_relaxed);
    atomic_fetch_sub_explicit(&s->exports, 1, memory_order_relaxed);
    moon_storage_release(s);
}

bool moon_storage_set_watch(moon_storage *s, moon_hook *watch) {
    moon_hook *none = NULL;
    return atomic_compare_exchange_strong_explicit(&s->watch, &none, watch, memory_order_release, memory_order_relaxed);
}
