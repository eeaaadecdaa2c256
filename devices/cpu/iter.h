/* Walks tensors of one shape in an order that suits memory: dimensions of size 1 dropped, the first operand's strides made
   positive and sorted, neighbours merged. Dimension 0 is the innermost. Needs no allocation. */
#ifndef MOON_ITER_H
#define MOON_ITER_H

#include "cpu.h"

enum { MOON_ITER_OPERANDS = 4 };

typedef struct moon_iter {
    int operands, ndim; /* ndim >= 1 */
    int64_t extent[MOON_MAXDIM];
    int64_t step[MOON_ITER_OPERANDS][MOON_MAXDIM]; /* in bytes */
    char *data[MOON_ITER_OPERANDS];
} moon_iter;

/* The first operand sets the order. False if there is nothing to walk. With keep_order the dimensions stay as they are
   (merged only), so that elements come in row-major order. */
bool moon_iter_init(moon_iter *it, int operands, const moon_tensor *const *t, bool keep_order);

/* Calls body for every run of n elements along dimension 0; at[] are the runs' first elements, step[] their strides.
   Where an operand runs fastest along another dimension, runs are cut short so that its cache lines are used up. */
typedef void (*moon_iter_body)(void *context, char *const *at, const int64_t *step, int64_t n);
void moon_iter_run(const moon_iter *it, moon_iter_body body, void *context);

/* Cuts the walk into parts of its longest dimension and runs `whole` over each, on several threads where there is work enough:
   bytes touched, times `weight` for loops that compute much. Parts do not depend on the number of threads. */
typedef void (*moon_iter_whole)(void *context, const moon_iter *part);
void moon_iter_share(const moon_iter *it, int weight, moon_iter_whole whole, void *context);
/* moon_iter_run in such parts */
void moon_iter_run_shared(const moon_iter *it, int weight, moon_iter_body body, void *context);

#endif
