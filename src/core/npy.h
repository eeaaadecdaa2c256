/* NumPy's .npy: versions 1 to 3 in, 1 out. Parsing works on bytes in memory. */
#ifndef MOON_NPY_H
#define MOON_NPY_H

#include "output.h"

typedef struct moon_npy {
    size_t start; /* of the elements, in the bytes */
    bool swap;    /* they are big-endian */
} moon_npy;

/* Fills the draft with the layout (column-major where the file says so) of n bytes that hold one array and nothing else. */
moon_status moon_npy_parse(const uint8_t *bytes, size_t n, moon_draft *draft, moon_npy *out);
/* the elements of parsed bytes into a tensor of the draft's layout with memory of its own, on the host */
void moon_npy_read(const uint8_t *bytes, const moon_npy *npy, const moon_tensor *into);

enum { MOON_NPY_HEADER = 2048 }; /* bytes that any of our headers fits in */
/* The header of t as NumPy writes it, and its length; *as_they_lie: the elements are to be written in memory order. Fails
   for dtypes that NumPy lacks. */
moon_status moon_npy_header(const moon_tensor *t, char header[MOON_NPY_HEADER], size_t *n, bool *as_they_lie);
moon_status moon_npy_save(const char *path, const moon_tensor *t);

#endif
