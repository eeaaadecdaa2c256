/* The first two bytes give the size to unpack to. Where zlib is installed, it must agree on every input. */
#include "../../src/core/inflate.h"
#include "fuzz.h"

#ifdef HAVE_ZLIB
#include <zlib.h>

static bool theirs(const uint8_t *bytes, size_t n, uint8_t *out, size_t size) {
    z_stream z;
    memset(&z, 0, sizeof z);
    REQUIRE(inflateInit2(&z, -15) == Z_OK);
    uint8_t one_more;
    z.next_in = (Bytef *)bytes;
    z.avail_in = (uInt)n;
    z.next_out = out;
    z.avail_out = (uInt)size;
    int result = inflate(&z, Z_FINISH);
    if (result == Z_BUF_ERROR && z.avail_out == 0) { /* the end of the block may be still to come */
        z.next_out = &one_more;
        z.avail_out = 1;
        result = inflate(&z, Z_FINISH);
    }
    bool good = result == Z_STREAM_END && z.total_out == size && z.avail_in == 0;
    inflateEnd(&z);
    return good;
}
#endif

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n) {
    if (n < 2) return 0;
    size_t size = (size_t)(bytes[0] | bytes[1] << 8);
    uint8_t *out = malloc(size ? size : 1);
    REQUIRE(out != NULL);
    moon_status status = moon_inflate(bytes + 2, n - 2, out, size);
#ifdef HAVE_ZLIB
    uint8_t *other = malloc(size ? size : 1);
    REQUIRE(other != NULL);
    bool good = theirs(bytes + 2, n - 2, other, size);
    REQUIRE(good == (status == MOON_OK));
    REQUIRE(!good || memcmp(out, other, size) == 0);
    free(other);
#endif
    free(out);
    return settled(status);
}
