/* Names to devices. Backends are probed at first use, once; a missing one keeps its reason. */
#include "device.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../src/core/memory.h"
#include "cpu/cpu.h"

enum { MAX_DEVICES = 16 };

static moon_status no_cuda(void) { return moon_fail(MOON_EDEVICE, "no CUDA backend in this build"); }
static moon_status no_metal(void) { return moon_fail(MOON_EDEVICE, "no Metal backend in this build"); }

static const moon_backend missing_cuda = {.name = "cuda", .dl_type = MOON_DL_CUDA, .probe = no_cuda};
static const moon_backend missing_metal = {.name = "mps", .dl_type = MOON_DL_METAL, .probe = no_metal};

static struct {
    const moon_backend *backend;
    bool probed;
    char reason[256]; /* why it is missing, or empty */
    int count;
    moon_device *devices[MAX_DEVICES]; /* opened at first use; they live as long as the process */
} table[] = {{.backend = &moon_cpu_backend}, {.backend = &missing_cuda}, {.backend = &missing_metal}};

enum { BACKENDS = sizeof table / sizeof *table };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void probe(int b) {
    if (table[b].probed) return;
    table[b].probed = true;
    const moon_backend *backend = table[b].backend;
    if (backend->probe() != MOON_OK) {
        snprintf(table[b].reason, sizeof table[b].reason, "%s", moon_error_message());
        return;
    }
    int n = backend->count();
    table[b].count = n < MAX_DEVICES ? n : MAX_DEVICES;
}

/* with the lock held */
static moon_status open_device(int b, int index, moon_device **out) {
    const moon_backend *backend = table[b].backend;
    probe(b);
    if (table[b].reason[0] != '\0') {
        return moon_fail(MOON_EDEVICE, "device %s is not available: %s", backend->name, table[b].reason);
    }
    if (index < 0 || index >= table[b].count) {
        return moon_fail(MOON_EDEVICE, "device %s:%d does not exist, there are %d", backend->name, index, table[b].count);
    }
    if (table[b].devices[index] == NULL) {
        /* not from moon_alloc: it is never freed, and would look like a leak to whoever counts */
        moon_device *device = calloc(1, sizeof *device);
        if (device == NULL) return moon_fail(MOON_EMEMORY, "out of memory");
        device->backend = backend;
        device->index = index;
        snprintf(device->name, sizeof device->name, b == 0 ? "%s" : "%s:%d", backend->name, index);
        moon_status s = backend->open(index, device);
        if (s != MOON_OK) {
            free(device);
            return s;
        }
        table[b].devices[index] = device;
    }
    *out = table[b].devices[index];
    return MOON_OK;
}

static moon_status find(int b, int index, moon_device **out) {
    pthread_mutex_lock(&lock);
    moon_status s = open_device(b, index, out);
    pthread_mutex_unlock(&lock);
    return s;
}

moon_device *moon_cpu(void) { return &moon_cpu_device; }

moon_status moon_device_find(const char *name, moon_device **out) {
    if (strcmp(name, "cpu") == 0) return *out = moon_cpu(), MOON_OK;
    const char *colon = strchr(name, ':');
    size_t length = colon ? (size_t)(colon - name) : strlen(name);
    if (length == 5 && strncmp(name, "metal", 5) == 0) return find(2, colon ? atoi(colon + 1) : 0, out);
    for (int b = 0; b < BACKENDS; b++) {
        if (strlen(table[b].backend->name) != length || strncmp(name, table[b].backend->name, length) != 0) continue;
        char *end = NULL;
        long index = colon ? strtol(colon + 1, &end, 10) : 0;
        if (colon && (end == colon + 1 || *end != '\0' || index < 0 || index > 9999)) break;
        return find(b, (int)index, out);
    }
    return moon_fail(MOON_EDEVICE, "unknown device '%s', expected cpu, cuda, cuda:0 or mps", name);
}

/* pinned and managed memory is the host's to touch */
static bool is_host(int32_t type) {
    return type == MOON_DL_CPU || type == MOON_DL_CUDA_HOST || type == MOON_DL_ROCM_HOST || type == MOON_DL_CUDA_MANAGED;
}

moon_status moon_device_from_dl(moon_dl_device dl, moon_device **out) {
    if (is_host(dl.type)) return *out = moon_cpu(), MOON_OK;
    for (int b = 1; b < BACKENDS; b++) {
        if (table[b].backend->dl_type != dl.type) continue;
        if (find(b, dl.id, out) == MOON_OK) return MOON_OK;
        char reason[256];
        snprintf(reason, sizeof reason, "%s", moon_error_message());
        return moon_fail(MOON_EDEVICE, "tensor is on %s:%d; %s", table[b].backend->name, (int)dl.id, reason);
    }
    return moon_fail(MOON_EDEVICE, "tensor is on a device of DLPack type %d, id %d, that moontensor does not know", (int)dl.type,
                     (int)dl.id);
}

moon_dl_device moon_device_to_dl(const moon_device *device) { return (moon_dl_device){device->backend->dl_type, device->index}; }

bool moon_backend_info(int i, const char **name, int *count, const char **reason) {
    if (i < 0 || i >= BACKENDS) return false;
    pthread_mutex_lock(&lock);
    probe(i);
    pthread_mutex_unlock(&lock);
    *name = table[i].backend->name;
    *count = table[i].count;
    *reason = table[i].reason[0] != '\0' ? table[i].reason : NULL;
    return true;
}
