/* Indexing by tensors: NumPy's advanced indexing, gather and scatter, masks. Integers and ranges count from 0 here; the
   elements of an index tensor count from 1, negative ones from the end, as Lua users write them.

   Reading runs in two steps, as operators do: plan lays out the result, the caller gives it memory, get fills it. Get plans
   anew and refuses a result of another shape, since a mask may have changed in between. Index tensors may alias anything:
   they are resolved to offsets, and every one of them checked, before the first element moves. */
#ifndef MOON_INDEX_H
#define MOON_INDEX_H

#include "ops.h"

typedef enum moon_index_kind { MOON_INDEX_AT, MOON_INDEX_RANGE, MOON_INDEX_TENSOR } moon_index_kind;

/* one entry of x[{…}]; dimensions without one are kept whole */
typedef struct moon_index {
    moon_index_kind kind;
    int64_t first, count, step; /* AT: first; RANGE: all three */
    const moon_tensor *tensor;  /* TENSOR: integers for one dimension, or a bool mask over as many as it has itself */
} moon_index;

/* whether a tensor of this dtype can be an index; fails with the way out */
moon_status moon_index_check(const moon_tensor *index);

moon_status moon_index_plan(const moon_tensor *t, int n, const moon_index *index, moon_draft *result);
moon_status moon_index_get(const moon_tensor *t, int n, const moon_index *index, const moon_tensor *out);
/* The value is broadcast and cast. Of several values for one element the last one, in row-major order, stays. */
moon_status moon_index_put(const moon_tensor *t, int n, const moon_index *index, const moon_operand *value);

/* out[i][j] = t[index[i][j]][j] for dim 0, and so on; out has the index's shape */
moon_status moon_index_gather_plan(const moon_tensor *t, int dim, const moon_tensor *index, moon_draft *result);
moon_status moon_index_gather(const moon_tensor *t, int dim, const moon_tensor *index, const moon_tensor *out);
/* t[index[i][j]][j] = value[i][j]; a tensor may be larger than the index */
moon_status moon_index_scatter(const moon_tensor *t, int dim, const moon_tensor *index, const moon_operand *value);

/* (n, ndim) int64: the indices, from 1, of the elements that are not zero */
moon_status moon_nonzero_plan(const moon_tensor *t, moon_draft *result);
moon_status moon_nonzero(const moon_tensor *t, const moon_tensor *out);

#endif
