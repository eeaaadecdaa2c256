#include "../../src/core/safetensors.h"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n) {
    moon_safetensors file;
    moon_draft draft;
    moon_status status = moon_safetensors_open(&file, bytes, n);
    for (size_t i = 0; status == MOON_OK && i < file.count; i++) {
        REQUIRE(moon_safetensors_layout(&file, i, &draft) == MOON_OK);
        require_inside(&draft.t, (int64_t)n);
        REQUIRE(moon_name_check(file.entries[i].name.text, file.entries[i].name.length) == MOON_OK);
    }
    moon_safetensors_close(&file);
    return settled(status);
}
