#include "storage.h"
#include "memory.h"
#include "../../devices/device.h"

static _Atomic int64_t live_storages, live_bytes, live_exports, live_imports;

moon_live moon_live_counts(void) {
    return (moon_live){atomic_load(&live_storages), atomic_load(&live_bytes), atomic_load(&live_exports),
                       atomic_load(&live_imports)};
}

static moon_storage *blank(moon_device *device, size_t nbytes) {
    moon_storage *s = moon_alloc(sizeof *s);
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
    s->readonly = s->owned = false;
    s->owner = NULL;
    return s;
}

moon_status moon_storage_new(moon_device *device, size_t nbytes, moon_storage **out) {
    moon_storage *s = blank(device, nbytes);
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
    moon_storage *s = blank(device, nbytes);
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
    if (atomic_fetch_sub_explicit(&s->refs, 1, memory_order_acq_rel) != 1) return;
    moon_hook *watch = atomic_load_explicit(&s->watch, memory_order_acquire);
    if (watch != NULL) watch->drop(watch);
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
