/* Storage: atomically counted bytes on a device. */
#ifndef MOON_STORAGE_H
#define MOON_STORAGE_H

#include <stdatomic.h>
#include <stdint.h>
#include "status.h"

typedef struct moon_device moon_device;

struct moon_storage {
    _Atomic long refs;
    _Atomic long exports; /* consumers outside that still hold it; it is then not resizable */
    moon_device *device;
    void *handle; /* the device's own: host pointer, CUdeviceptr, id<MTLBuffer>. Only its backend does arithmetic on it */
    void *host;   /* host address of the first byte, or NULL where the CPU must not touch it */
    size_t nbytes;
    size_t joined; /* small ones on the host lie in one block with this record: its size, or 0; none changes its size */
    bool readonly;
    bool owned;                 /* our own allocation: resizable while nobody else holds it */
    moon_hook *owner;           /* foreign memory: dropped with the storage */
    _Atomic(moon_hook *) watch; /* told of our writes; dropped with the storage */
};

/* an own allocation on device, bytes undefined; *out has one reference */
moon_status moon_storage_new(moon_device *device, size_t nbytes, moon_storage **out);
/* Foreign memory. On success the storage owns `owner` (may be NULL). */
moon_status moon_storage_wrap(moon_device *device, void *handle, size_t nbytes, bool readonly, moon_hook *owner,
                              moon_storage **out);
void moon_storage_retain(moon_storage *storage);  /* any thread */
void moon_storage_release(moon_storage *storage); /* any thread */
void moon_storage_export_begin(moon_storage *storage);
void moon_storage_export_end(moon_storage *storage);
bool moon_storage_set_watch(moon_storage *storage, moon_hook *watch);
/* call before every write by us */
static inline void moon_storage_written(moon_storage *storage) {
    if (storage->owner && storage->owner->written) storage->owner->written(storage->owner);
    moon_hook *watch = atomic_load_explicit(&storage->watch, memory_order_acquire);
    if (watch && watch->written) watch->written(watch);
}

/* live counters behind moon.stats() */
typedef struct moon_live {
    int64_t storages, bytes, exports, imports;
} moon_live;
moon_live moon_live_counts(void);

#endif
