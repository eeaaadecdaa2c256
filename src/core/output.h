/* A file written whole or not at all: a temporary one beside it, synced, then renamed into place. */
#ifndef MOON_OUTPUT_H
#define MOON_OUTPUT_H

#include <limits.h>

#include "tensor.h"

typedef struct moon_output {
    int fd;
    uint64_t at; /* bytes written */
    char target[PATH_MAX];
    char temporary[PATH_MAX + 64];
} moon_output;

/* On failure nothing is left and nothing is to be closed. A link is followed; an existing file keeps its permissions. */
moon_status moon_output_open(moon_output *out, const char *path);
moon_status moon_output_write(moon_output *out, const void *bytes, size_t n);
/* the elements of t: as they lie if `as_they_lie` (they are then without gaps, on the host), else in row-major order;
   *crc, if not NULL, goes on over them */
moon_status moon_output_tensor(moon_output *out, const moon_tensor *t, bool as_they_lie, uint32_t *crc);
moon_status moon_output_patch(moon_output *out, uint64_t at, const void *bytes, size_t n);
/* ends it: in place if `status` is MOON_OK, else without a trace; returns status, or why it could not be put in place */
moon_status moon_output_close(moon_output *out, moon_status status);

/* continued from an earlier result, 0 at first; as in zip and zlib */
uint32_t moon_crc32(uint32_t crc, const void *bytes, size_t n);

#endif
