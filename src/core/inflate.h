/* DEFLATE (RFC 1951), of known length. */
#ifndef MOON_INFLATE_H
#define MOON_INFLATE_H

#include "status.h"

enum { MOON_INFLATE_RATIO = 1032 }; /* no stream grows more than that */

/* Exactly `size` bytes from exactly `n`; anything else is malformed. */
moon_status moon_inflate(const uint8_t *bytes, size_t n, uint8_t *out, size_t size);

#endif
