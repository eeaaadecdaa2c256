/* NumPy's .npz: a zip archive with an .npy for each name. */
#ifndef MOON_NPZ_H
#define MOON_NPZ_H

#include "name.h"
#include "npy.h"
#include "zip.h"

/* one array on its way in */
typedef struct moon_npz_member {
    const uint8_t *bytes; /* the .npy */
    uint8_t *unpacked;    /* own memory behind it, or NULL */
    size_t size;
    moon_npy npy;
} moon_npz_member;

/* The i-th entry's name without ".npy", its layout, and its bytes, unpacked where they are deflated. On failure, which
   names the entry, there is nothing to close. */
moon_status moon_npz_open(const moon_zip *zip, size_t i, moon_npz_member *member, moon_draft *draft, size_t *name_length);
void moon_npz_close(moon_npz_member *member); /* twice is fine */
/* names are distinct */
moon_status moon_npz_save(const char *path, size_t n, const moon_named *items);

#endif
