/* What the fuzz targets share: an allocator whose blocks end where they end, so that AddressSanitizer sees the first byte
   beyond, and a check that nothing is left behind. */
#ifndef MOON_FUZZ_H
#define MOON_FUZZ_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../devices/device.h"
#include "../../src/core/memory.h"

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

#define REQUIRE(condition)                                                           \
    do {                                                                             \
        if (!(condition)) {                                                          \
            fprintf(stderr, "%s:%d: %s is false\n", __FILE__, __LINE__, #condition); \
            abort();                                                                 \
        }                                                                            \
    } while (0)

static long live_blocks;

static void *exact_alloc(void *context, size_t size, size_t alignment) {
    void *block = NULL;
    (void)context;
    if (size > (size_t)64 << 20) return NULL; /* what a header asks for may be more than there is */
    if (posix_memalign(&block, alignment < 16 ? 16 : alignment, size) != 0) return NULL;
    live_blocks++;
    return block;
}

static void exact_free(void *context, void *block, size_t size) {
    (void)context;
    (void)size;
    free(block);
    live_blocks--;
}

int LLVMFuzzerInitialize(int *argc, char ***argv) {
    (void)argc;
    (void)argv;
    moon_memory = (moon_allocator){exact_alloc, exact_free, NULL};
    return 0;
}

/* a refusal has a message; what was made is gone */
static inline int settled(moon_status status) {
    REQUIRE(status == MOON_OK || moon_error_message()[0] != '\0');
    REQUIRE(live_blocks == 0);
    return 0;
}

/* every element of a layout lies inside [first, last) of the bytes */
static inline void require_inside(const moon_tensor *t, int64_t last) {
    int64_t from, to;
    if (!moon_byte_range(t, &from, &to)) return;
    REQUIRE(from >= 0 && to <= last);
}

#endif
