/* The validator: the bytes are a DLTensor's fields. What it lets through must have a layout without overflow. */
#include "../../src/core/dlpack.h"
#include "fuzz.h"

typedef struct reader {
    const uint8_t *at, *end;
} reader;

static uint64_t take(reader *r, int size) {
    uint64_t value = 0;
    for (int i = 0; i < size && r->at < r->end; i++) value |= (uint64_t)*r->at++ << (8 * i);
    return value;
}

/* mostly small numbers, now and then any */
static int64_t extent(reader *r) {
    uint64_t how = take(r, 1);
    return how & 0x80 ? (int64_t)take(r, 8) : (int64_t)(how & 0x40 ? take(r, 1) : how & 15) - 1;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n) {
    static double memory[8];
    int64_t shape[70], strides[70];
    reader r = {bytes, bytes + n};
    uint64_t flags = take(&r, 1);
    moon_dl_tensor dl = {.ndim = flags & 1 ? (int32_t)take(&r, 4) : (int32_t)take(&r, 1) - 1};
    dl.device = (moon_dl_device){flags & 2 ? (int32_t)take(&r, 4) : MOON_DL_CPU, (int32_t)(flags & 4 ? take(&r, 4) : 0)};
    dl.dtype = (moon_dl_dtype){(uint8_t)take(&r, 1), (uint8_t)take(&r, 1), (uint16_t)(flags & 8 ? take(&r, 2) : 1)};
    dl.data = flags & 16 ? NULL : memory;
    dl.byte_offset = flags & 32 ? take(&r, 8) : 0;
    for (int i = 0; i < 70; i++) shape[i] = extent(&r), strides[i] = extent(&r);
    dl.shape = flags & 64 && dl.ndim == 0 ? NULL : shape;
    dl.strides = flags & 128 ? NULL : strides;
    moon_status status = MOON_OK;
    for (int target = MOON_DL_FOR_US; target <= MOON_DL_FOR_NUMPY; target++) {
        status = moon_dl_check(&dl, bytes != NULL && n % 2, (moon_dl_target)target);
        if (status) continue;
        moon_draft draft;
        REQUIRE(dl.ndim >= 0 && dl.ndim <= MOON_MAXDIM);
        moon_draft_init(&draft, MOON_BOOL, dl.ndim);
        REQUIRE(moon_dl_adopt(&draft.t, &dl, false, NULL) == MOON_OK);
        int64_t first, last;
        if (moon_byte_range(&draft.t, &first, &last)) REQUIRE(first < last);
        moon_tensor_close(&draft.t);
    }
    return settled(status);
}
