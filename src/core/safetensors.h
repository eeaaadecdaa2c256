/* safetensors: a JSON header, then the tensors' bytes. Parsing works on bytes in memory. */
#ifndef MOON_SAFETENSORS_H
#define MOON_SAFETENSORS_H

#include "name.h"
#include "tensor.h"

typedef struct moon_text {
    const char *text;
    size_t length;
} moon_text;

typedef struct moon_safetensor {
    moon_text name;
    moon_dtype dtype;
    int ndim;
    size_t shape_at;     /* of the list in the header's text */
    uint64_t begin, end; /* of its bytes, from the start of the file */
} moon_safetensor;

typedef struct moon_safetensors {
    moon_safetensor *entries; /* in the header's order */
    size_t count;
    moon_text (*metadata)[2]; /* keys and values */
    size_t metadata_count;
    char *text, *strings; /* own copies: of the header, and of the strings in it, decoded */
    size_t text_size, entries_room, metadata_room;
} moon_safetensors;

/* Checks the header as a whole: no name twice, shapes that take as many bytes as the offsets leave, no bytes shared, left over or
   missing. On failure there is nothing to close. The bytes need not outlive the call. */
moon_status moon_safetensors_open(moon_safetensors *file, const uint8_t *bytes, size_t size);
void moon_safetensors_close(moon_safetensors *file); /* twice is fine */
/* row-major, over the whole file's bytes: the draft's offset is the place in them. It may not be aligned to the dtype */
moon_status moon_safetensors_layout(const moon_safetensors *file, size_t i, moon_draft *draft);

/* The tensors are written in this order; names are distinct. */
moon_status moon_safetensors_save(const char *path, size_t n, const moon_named *items, size_t metadata_count,
                                  const moon_text (*metadata)[2]);
/* the format's name of a dtype, or NULL where it has none */
const char *moon_safetensors_dtype(moon_dtype dtype);
/* The reference implementation's order: wide dtypes first, so that all are aligned, then by name. */
int moon_safetensors_compare(const moon_named *a, const moon_named *b);

#endif
