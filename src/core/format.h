/* Bounded printing, as NumPy prints. */
#ifndef MOON_FORMAT_H
#define MOON_FORMAT_H

#include "tensor.h"

typedef struct moon_print_options {
    int precision; /* digits after the point: 4 */
    int threshold; /* more elements than this are summarised: 1000 */
    int edgeitems; /* shown at each end of a summarised dimension: 3 */
    int linewidth; /* 80 */
} moon_print_options;
extern moon_print_options moon_printing;

/* text grows by moon_alloc; *out is released by moon_free(*out, *size + 1) */
moon_status moon_format(const moon_tensor *t, char **out, size_t *size);
/* one element, exactly (uint64 above INT64_MAX included; floats shortest round trip); returns length */
int moon_format_element(moon_dtype dtype, const void *element, char *buffer, size_t size);

#endif
