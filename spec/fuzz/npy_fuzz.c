#include "../../src/core/npy.h"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n) {
    moon_draft draft;
    moon_npy npy;
    moon_status status = moon_npy_parse(bytes, n, &draft, &npy);
    if (status == MOON_OK) {
        require_inside(&draft.t, (int64_t)n - (int64_t)npy.start);
        status = moon_tensor_alloc(&draft.t, moon_cpu());
        if (status == MOON_OK) moon_npy_read(bytes, &npy, &draft.t);
        moon_tensor_close(&draft.t);
    }
    return settled(status);
}
