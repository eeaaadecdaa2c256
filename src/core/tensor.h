/* Tensors as views: making them and deriving views from views. A function that makes a tensor fills a draft: its layout,
   still without a storage. The caller finds a home for it (a userdata of the right size), then gives it one. */
#ifndef MOON_TENSOR_H
#define MOON_TENSOR_H

#include "dtype.h"
#include "storage.h"

typedef struct moon_draft {
    moon_tensor t; /* t.shape and t.strides point into dims; t.storage is NULL until moon_tensor_alloc or _share */
    int64_t dims[2 * MOON_MAXDIM];
} moon_draft;

void moon_draft_init(moon_draft *draft, moon_dtype dtype, int ndim); /* sets the pointers, not the extents */

/* row-major layout; refuses negative extents and sizes that overflow 64 bits */
moon_status moon_draft_contiguous(moon_draft *draft, moon_dtype dtype, int ndim, const int64_t *shape);
/* copy a layout into a tensor whose shape and strides have room */
void moon_layout_copy(moon_tensor *to, const moon_tensor *from);
/* own memory for a laid-out tensor */
moon_status moon_tensor_alloc(moon_tensor *tensor, moon_device *device);
/* share the storage of `base`: retains it, takes over its read-only flag */
void moon_tensor_share(moon_tensor *view, const moon_tensor *base);
void moon_tensor_close(moon_tensor *tensor);

/* first byte, as the host sees it; NULL off the host */
static inline char *moon_data(const moon_tensor *t) {
    return t->storage && t->storage->host ? (char *)t->storage->host + t->offset : NULL;
}
static inline size_t moon_itemsize(const moon_tensor *t) { return moon_dtypes[t->dtype].size; }

/* Other sizes for a tensor whose memory nobody else holds. Plan refuses, or fills a draft of the result, whose elements stay
   where they are. Run takes it over; where it reaches beyond the storage, `memory` is a tensor of enough bytes, with which
   storages are exchanged. t must have room for the draft's dimensions. */
moon_status moon_resize_plan(const moon_tensor *t, int ndim, const int64_t *shape, moon_draft *result);
moon_status moon_resize_run(moon_tensor *t, const moon_draft *plan, moon_tensor *memory);

/* MOON_OK if it may be written, and tells the storage's hooks: before every write by us */
moon_status moon_tensor_writing(const moon_tensor *tensor);

/* ---- facts about layouts ---- */
bool moon_is_contiguous(const moon_tensor *t);   /* size-1 and empty dimensions do not matter */
bool moon_overlaps_itself(const moon_tensor *t); /* two indices, one element: exact for stride 0, else conservative */
bool moon_same_layout(const moon_tensor *a, const moon_tensor *b);
typedef enum moon_overlap { MOON_DISJOINT, MOON_SAME, MOON_OVERLAP } moon_overlap;
moon_overlap moon_overlap_of(const moon_tensor *a, const moon_tensor *b);
/* the byte range [first, last) a layout touches relative to the storage's start; false if it is empty */
bool moon_byte_range(const moon_tensor *t, int64_t *first, int64_t *last);

/* ---- views: dimensions and indices 0-based here, the Lua binding counts from 1 ---- */
moon_status moon_view_select(moon_draft *out, const moon_tensor *t, int dim, int64_t index);
moon_status moon_view_slice(moon_draft *out, const moon_tensor *t, int dim, int64_t first, int64_t count, int64_t step);
moon_status moon_view_transpose(moon_draft *out, const moon_tensor *t, int a, int b);
moon_status moon_view_permute(moon_draft *out, const moon_tensor *t, const int *order);
/* one extent may be -1; MOON_ELAYOUT when only a copy could have that shape */
moon_status moon_view_reshape(moon_draft *out, const moon_tensor *t, int ndim, const int64_t *shape);
moon_status moon_view_expand(moon_draft *out, const moon_tensor *t, int ndim, const int64_t *shape); /* -1 keeps an extent */
moon_status moon_view_squeeze(moon_draft *out, const moon_tensor *t, int dim);                       /* dim -1: all */
moon_status moon_view_unsqueeze(moon_draft *out, const moon_tensor *t, int dim);
moon_status moon_view_flip(moon_draft *out, const moon_tensor *t, int dim);
moon_status moon_view_unfold(moon_draft *out, const moon_tensor *t, int dim, int64_t size, int64_t step);
moon_status moon_view_diagonal(moon_draft *out, const moon_tensor *t, int64_t offset, int a, int b);
moon_status moon_view_part(moon_draft *out, const moon_tensor *t, int part); /* real 0, imaginary 1, of a complex tensor */
/* broadcast of n shapes, NumPy's rules; the error shows the shapes */
moon_status moon_broadcast_shape(int n, const moon_tensor *const *t, int *ndim, int64_t *shape);

/* "[2, 3]" for messages; returns buffer */
const char *moon_shape_text(int ndim, const int64_t *shape, char *buffer, size_t size);

#endif
