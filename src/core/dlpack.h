/* DLPack structs in and out. One validator stands before every path. */
#ifndef MOON_DLPACK_H
#define MOON_DLPACK_H

#include "tensor.h"

/* Refuses: ndim outside 0..MOON_MAXDIM, NULL shape, negative extents, products that overflow 64 bits with strides and
   offset, NULL data with elements, dtypes that we lack, lanes, misaligned data, unknown devices; for torch negative
   strides (of extents > 1) and read-only or self-overlapping memory. Messages name the offending value and the way out. */
moon_status moon_dl_check(const moon_dl_tensor *dl, bool readonly, moon_dl_target target);

/* lay out `blank` (room for dl->ndim dimensions) over foreign memory; see moon_api.adopt */
moon_status moon_dl_adopt(moon_tensor *blank, const moon_dl_tensor *dl, bool readonly, moon_hook *owner);
moon_status moon_dl_adopt_managed(moon_tensor *blank, moon_dl_versioned *v1, moon_dl_managed *v0, bool *consumed);

moon_status moon_dl_export(const moon_tensor *tensor, moon_dl_target target, moon_dl_versioned **out);
moon_status moon_dl_export_v0(const moon_tensor *tensor, moon_dl_target target, moon_dl_managed **out);

#endif
