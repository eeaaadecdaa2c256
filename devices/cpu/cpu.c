#include "cpu.h"

#include <string.h>

#include "../../src/core/memory.h"

enum { ALIGNMENT = 64 }; /* a cache line, and the widest vector */

static moon_status probe(void) { return moon_kernels_choose(); }
static int count(void) { return 1; }

static moon_status open_cpu(int index, moon_device *out) {
    (void)index, (void)out;
    return MOON_OK;
}

static moon_status alloc(moon_device *device, size_t nbytes, moon_storage *s) {
    (void)device;
    s->host = s->handle = moon_alloc_aligned(nbytes, ALIGNMENT);
    if (s->host == NULL) return moon_fail(MOON_EMEMORY, "out of memory: %zu bytes for a tensor", nbytes);
    return MOON_OK;
}

/* storage.c asks for one byte where a tensor has none */
static void release(moon_storage *s) { moon_free(s->handle, s->nbytes > 0 ? s->nbytes : 1); }

static moon_status upload(moon_storage *to, size_t offset, const void *from, size_t n) {
    memcpy((char *)to->host + offset, from, n);
    return MOON_OK;
}

static moon_status download(void *to, moon_storage *from, size_t offset, size_t n) {
    memcpy(to, (const char *)from->host + offset, n);
    return MOON_OK;
}

const moon_backend moon_cpu_backend = {
    .name = "cpu",
    .dl_type = MOON_DL_CPU,
    .probe = probe,
    .count = count,
    .open = open_cpu,
    .alloc = alloc,
    .release = release,
    .upload = upload,
    .download = download,
    .copy = moon_cpu_copy,
    .fill = moon_cpu_fill,
    .elementwise = moon_cpu_elementwise,
    .few = moon_cpu_few,
    .where = moon_cpu_where,
    .reduce = moon_cpu_reduce,
    .scan = moon_cpu_scan,
    .matmul = moon_cpu_matmul,
    .index_get = moon_cpu_index_get,
    .index_put = moon_cpu_index_put,
};

moon_device moon_cpu_device = {.backend = &moon_cpu_backend, .index = 0, .name = "cpu"};
