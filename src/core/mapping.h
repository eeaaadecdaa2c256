/* Files in memory: as a source to parse, and as the storage of tensors. A file that somebody shortens while it is mapped is
   the system's SIGBUS on the next touch, as everywhere. Messages leave the path to the caller, who has it. */
#ifndef MOON_MAPPING_H
#define MOON_MAPPING_H

#include "storage.h"

/* a whole file, read-only */
typedef struct moon_source {
    const uint8_t *bytes; /* not NULL, even of an empty file */
    size_t size;
    void *mapped;
} moon_source;

/* where open(2) itself fails, *error is its errno, else 0 */
moon_status moon_source_open(moon_source *out, const char *path, int *error);
void moon_source_close(moon_source *source); /* twice is fine */

typedef enum moon_map_mode {
    MOON_MAP_READ,    /* "r": read-only, sees what others write */
    MOON_MAP_SHARED,  /* "r+": writes go to the file */
    MOON_MAP_PRIVATE, /* "c": writes stay here, in copies of the pages */
    MOON_MAP_CREATE,  /* "w+": as r+, of a file created or replaced with zeros */
} moon_map_mode;

/* nbytes from offset (any) of a file, as a storage whose owner is the mapping. The
   file must hold them, except that MOON_MAP_CREATE makes it so long. */
moon_status moon_map_file(const char *path, moon_map_mode mode, int64_t offset, int64_t nbytes, int *error, moon_storage **out);
moon_status moon_file_size(const char *path, int64_t *size, int *error);

#endif
