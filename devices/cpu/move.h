/* Elements moved as raw bytes of 1, 2, 4, 8 or 16: between strided and packed, and across. */
#ifndef MOON_MOVE_H
#define MOON_MOVE_H

#include <stddef.h>
#include <stdint.h>

void moon_gather(void *packed, const char *from, int64_t step, int64_t n, size_t size);
void moon_scatter(char *to, int64_t step, const void *packed, int64_t n, size_t size);
void moon_move(char *to, int64_t to_step, const char *from, int64_t from_step, int64_t n, size_t size);
/* to[j * to_step + i] = from[i * from_step + j] (in elements, steps in bytes), i < columns, j < rows: in staged tiles, so
   that both sides are touched in whole cache lines */
void moon_transpose(char *to, int64_t to_step, const char *from, int64_t from_step, int64_t rows, int64_t columns, size_t size);
void moon_fill_run(char *to, int64_t step, const void *element, int64_t n, size_t size);

#endif
