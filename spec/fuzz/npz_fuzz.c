#include "../../src/core/npz.h"
#include "fuzz.h"

/* one array of an archive that opened */
static void load(const moon_zip *zip, size_t i) {
    moon_npz_member member;
    moon_draft draft;
    size_t name;
    if (moon_npz_open(zip, i, &member, &draft, &name)) return;
    REQUIRE(name < zip->entries[i].length);
    if (moon_tensor_alloc(&draft.t, moon_cpu()) == MOON_OK) moon_npy_read(member.bytes, &member.npy, &draft.t);
    moon_tensor_close(&draft.t);
    moon_npz_close(&member);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n) {
    moon_zip zip;
    moon_status status = moon_zip_open(&zip, bytes, n);
    for (size_t i = 0; status == MOON_OK && i < zip.count; i++) load(&zip, i);
    moon_zip_close(&zip);
    return settled(status);
}
