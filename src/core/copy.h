/* Copies: strided, casting, broadcasting; fill; comparison of contents. */
#ifndef MOON_COPY_H
#define MOON_COPY_H

#include "tensor.h"

/* target = source, cast and broadcast; overlap is handled by a temporary. Bytes move untouched when the dtypes agree. */
moon_status moon_copy(const moon_tensor *target, const moon_tensor *source);
moon_status moon_fill(const moon_tensor *target, const moon_value *value);
/* same shape, dtype and contents (NaN differs from NaN, as elsewhere) */
moon_status moon_equal(const moon_tensor *a, const moon_tensor *b, bool *out);
moon_status moon_allclose(const moon_tensor *a, const moon_tensor *b, double rtol, double atol, bool equal_nan, bool *out);
/* one element by 0-based indices, checked */
moon_status moon_element_at(const moon_tensor *t, const int64_t *index, void **out);

#endif
