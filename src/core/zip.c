#include "zip.h"

#include <stdlib.h>
#include <string.h>

#include "inflate.h"
#include "memory.h"
#include "name.h"

enum { END_SIZE = 22, LOCATOR_SIZE = 20, END64_SIZE = 56, CENTRAL_SIZE = 46, LOCAL_SIZE = 30, ENCRYPTED = 1, ZIP64_EXTRA = 1 };
static const uint32_t END_MARK = 0x06054b50, LOCATOR_MARK = 0x07064b50, END64_MARK = 0x06064b50, CENTRAL_MARK = 0x02014b50,
                      LOCAL_MARK = 0x04034b50, FULL = 0xffffffff;

static uint16_t get16(const uint8_t *p) { return (uint16_t)(p[0] | p[1] << 8); }
static uint32_t get32(const uint8_t *p) { return get16(p) | (uint32_t)get16(p + 2) << 16; }
static uint64_t get64(const uint8_t *p) { return get32(p) | (uint64_t)get32(p + 4) << 32; }

/* ---- the directory ---- */

typedef struct directory {
    uint64_t count, size, start;
} directory;

static bool has_locator(const uint8_t *bytes, size_t end) {
    return end >= LOCATOR_SIZE && get32(bytes + end - LOCATOR_SIZE) == LOCATOR_MARK;
}

static moon_status find_wide(const uint8_t *bytes, size_t end, directory *d, size_t *after) {
    if (!has_locator(bytes, end)) {
        return moon_fail(MOON_EVALUE, "the zip archive lacks the zip64 locator that its end asks for");
    }
    size_t locator = end - LOCATOR_SIZE;
    uint64_t at = get64(bytes + locator + 8);
    if (locator < END64_SIZE || at > locator - END64_SIZE || get32(bytes + at) != END64_MARK) {
        return moon_fail(MOON_EVALUE, "no zip64 end record at %llu, where the archive's locator has it", (unsigned long long)at);
    }
    *d = (directory){get64(bytes + at + 32), get64(bytes + at + 40), get64(bytes + at + 48)};
    *after = (size_t)at;
    return MOON_OK;
}

/* The end record stands last, before a comment of the length that it gives; `after` is where the directory must end. */
static moon_status find_directory(const uint8_t *bytes, size_t size, directory *d, size_t *after) {
    if (size < END_SIZE) return moon_fail(MOON_EVALUE, "no zip archive: %zu bytes are too few for one", size);
    size_t end = size - END_SIZE;
    while (get32(bytes + end) != END_MARK || get16(bytes + end + 20) != size - END_SIZE - end) {
        if (end == 0 || size - end >= 65535 + END_SIZE) {
            return moon_fail(MOON_EVALUE, "no zip archive, or a truncated one: its end record is missing");
        }
        end--;
    }
    if (get16(bytes + end + 4) != 0 || get16(bytes + end + 6) != 0) {
        return moon_fail(MOON_EVALUE, "zip archives in several parts are not supported");
    }
    *d = (directory){get16(bytes + end + 10), get32(bytes + end + 12), get32(bytes + end + 16)};
    *after = end;
    /* where there is a wide record it holds, though all may fit in this one too */
    if (has_locator(bytes, end) || d->count == 0xffff || d->size == FULL || d->start == FULL) {
        moon_status status = find_wide(bytes, end, d, after);
        if (status) return status;
    }
    if (d->size > *after || d->start != *after - d->size) {
        return moon_fail(MOON_EVALUE, "the zip directory (%llu bytes at %llu) does not end where its end record stands, at %zu",
                         (unsigned long long)d->size, (unsigned long long)d->start, *after);
    }
    if (d->count > d->size / CENTRAL_SIZE) {
        return moon_fail(MOON_EVALUE, "a zip directory of %llu bytes cannot have %llu entries", (unsigned long long)d->size,
                         (unsigned long long)d->count);
    }
    return MOON_OK;
}

static moon_status bad_entry(const moon_zip_entry *e, const char *why) {
    char quoted[MOON_QUOTED];
    return moon_fail(MOON_EVALUE, "entry %s: %s", moon_quoted(e->name, e->length, quoted), why);
}

/* the fields that were too large for 32 bits are in the extra field, in this order */
static moon_status read_wide(moon_zip_entry *e, const uint8_t *extra, size_t n) {
    uint64_t *const fields[] = {&e->size, &e->packed, &e->start};
    bool wide = e->size == FULL || e->packed == FULL || e->start == FULL;
    while (wide && n >= 4) {
        size_t length = get16(extra + 2);
        if (length > n - 4) return bad_entry(e, "its extra field is cut off");
        if (get16(extra) == ZIP64_EXTRA) {
            const uint8_t *p = extra + 4, *end = p + length;
            for (int i = 0; i < 3; i++) {
                if (*fields[i] != FULL) continue;
                if (end - p < 8) return bad_entry(e, "its zip64 sizes are cut off");
                *fields[i] = get64(p);
                p += 8;
            }
            return MOON_OK;
        }
        extra += 4 + length;
        n -= 4 + length;
    }
    return wide ? bad_entry(e, "its zip64 sizes are missing") : MOON_OK;
}

/* one record of the directory; e->start is its local header's place for now */
static moon_status read_central(const uint8_t *p, size_t n, moon_zip_entry *e, size_t *taken) {
    if (n < CENTRAL_SIZE || get32(p) != CENTRAL_MARK) return moon_fail(MOON_EVALUE, "the zip directory is cut off or malformed");
    size_t name = get16(p + 28), extra = get16(p + 30), comment = get16(p + 32);
    *taken = CENTRAL_SIZE + name + extra + comment;
    if (*taken > n) return moon_fail(MOON_EVALUE, "the zip directory is cut off");
    *e = (moon_zip_entry){.name = (const char *)p + CENTRAL_SIZE,
                          .length = name,
                          .start = get32(p + 42),
                          .packed = get32(p + 20),
                          .size = get32(p + 24),
                          .crc = get32(p + 16),
                          .method = get16(p + 10)};
    moon_status status = moon_name_check(e->name, e->length);
    if (status) return status;
    if (get16(p + 8) & ENCRYPTED) return bad_entry(e, "it is encrypted");
    if (e->method != 0 && e->method != 8) {
        char quoted[MOON_QUOTED];
        return moon_fail(MOON_EVALUE, "entry %s: compression method %d is not supported; stored and deflate are",
                         moon_quoted(e->name, e->length, quoted), e->method);
    }
    if (get16(p + 34) != 0) return bad_entry(e, "it is in another part of the archive");
    return read_wide(e, p + CENTRAL_SIZE + name, extra);
}

/* from the local header's place to the data's */
static moon_status find_data(const uint8_t *bytes, uint64_t limit, moon_zip_entry *e) {
    char quoted[MOON_QUOTED];
    if (limit < LOCAL_SIZE || e->start > limit - LOCAL_SIZE || get32(bytes + e->start) != LOCAL_MARK) {
        return moon_fail(MOON_EVALUE, "entry %s: no local header at %llu, where the directory has it",
                         moon_quoted(e->name, e->length, quoted), (unsigned long long)e->start);
    }
    const uint8_t *p = bytes + e->start;
    size_t name = get16(p + 26), extra = get16(p + 28);
    uint64_t room = limit - e->start - LOCAL_SIZE;
    if (name + extra > room || e->packed > room - name - extra) {
        return moon_fail(MOON_EVALUE, "entry %s: its %llu bytes at %llu reach beyond the data, which ends at %llu",
                         moon_quoted(e->name, e->length, quoted), (unsigned long long)e->packed, (unsigned long long)e->start,
                         (unsigned long long)limit);
    }
    if (name != e->length || memcmp(p + LOCAL_SIZE, e->name, name) != 0) return bad_entry(e, "its local header has another name");
    if (get16(p + 8) != e->method) return bad_entry(e, "its local header has another compression method");
    if (e->method == 0 && e->packed != e->size) return bad_entry(e, "it is stored, but its two sizes differ");
    if (e->method == 8 && e->size / MOON_INFLATE_RATIO > e->packed) {
        return moon_fail(MOON_EVALUE, "entry %s: %llu bytes cannot unpack to %llu", moon_quoted(e->name, e->length, quoted),
                         (unsigned long long)e->packed, (unsigned long long)e->size);
    }
    e->header = e->start;
    e->start += LOCAL_SIZE + name + extra;
    return MOON_OK;
}

static int by_start(const void *a, const void *b) {
    const moon_zip_entry *x = *(moon_zip_entry *const *)a, *y = *(moon_zip_entry *const *)b;
    return (x->start > y->start) - (x->start < y->start);
}

static int by_name(const void *a, const void *b) {
    const moon_zip_entry *x = *(moon_zip_entry *const *)a, *y = *(moon_zip_entry *const *)b;
    return moon_name_compare(x->name, x->length, y->name, y->length);
}

static moon_status check_apart(const moon_zip *zip) {
    if (zip->count < 2) return MOON_OK;
    size_t room = zip->count * sizeof(moon_zip_entry *);
    moon_zip_entry **sorted = moon_alloc(room);
    if (sorted == NULL) return moon_fail(MOON_EMEMORY, "out of memory");
    for (size_t i = 0; i < zip->count; i++) sorted[i] = &zip->entries[i];
    moon_status status = MOON_OK;
    char quoted[MOON_QUOTED], other[MOON_QUOTED];
    qsort(sorted, zip->count, sizeof *sorted, by_name);
    for (size_t i = 1; i < zip->count && status == MOON_OK; i++) {
        if (by_name(&sorted[i - 1], &sorted[i]) == 0) status = bad_entry(sorted[i], "the name is there twice");
    }
    qsort(sorted, zip->count, sizeof *sorted, by_start);
    for (size_t i = 1; i < zip->count && status == MOON_OK; i++) {
        moon_zip_entry *a = sorted[i - 1], *b = sorted[i];
        if (a->start + a->packed <= b->header) continue;
        status = moon_fail(MOON_EVALUE, "the entries %s and %s overlap", moon_quoted(a->name, a->length, quoted),
                           moon_quoted(b->name, b->length, other));
    }
    moon_free(sorted, room);
    return status;
}

moon_status moon_zip_open(moon_zip *zip, const uint8_t *bytes, size_t size) {
    directory d = {0, 0, 0};
    size_t end = 0;
    *zip = (moon_zip){.bytes = bytes};
    moon_status status = find_directory(bytes, size, &d, &end);
    if (status || d.count == 0) {
        return status || d.size == 0 ? status
                                     : moon_fail(MOON_EVALUE, "the zip directory has %zu bytes but no entries", (size_t)d.size);
    }
    zip->room = (size_t)d.count * sizeof *zip->entries;
    zip->entries = moon_alloc(zip->room);
    if (zip->entries == NULL) return moon_fail(MOON_EMEMORY, "out of memory");
    size_t at = (size_t)d.start;
    for (; zip->count < d.count && status == MOON_OK; zip->count++) {
        size_t taken = 0;
        moon_zip_entry *e = &zip->entries[zip->count];
        status = read_central(bytes + at, end - at, e, &taken);
        if (status == MOON_OK) status = find_data(bytes, d.start, e);
        at += taken;
    }
    if (status == MOON_OK && at != end)
        status = moon_fail(MOON_EVALUE, "the zip directory has more than its %zu entries", zip->count);
    if (status == MOON_OK) status = check_apart(zip);
    if (status) moon_zip_close(zip);
    return status;
}

void moon_zip_close(moon_zip *zip) {
    moon_free(zip->entries, zip->room);
    *zip = (moon_zip){.entries = NULL};
}

/* ---- the data ---- */

static moon_status check_crc(const moon_zip_entry *e, const uint8_t *bytes) {
    uint32_t crc = moon_crc32(0, bytes, (size_t)e->size);
    char quoted[MOON_QUOTED];
    if (crc == e->crc) return MOON_OK;
    return moon_fail(MOON_EVALUE, "entry %s: its CRC is %08x, the directory has %08x; the file is damaged",
                     moon_quoted(e->name, e->length, quoted), crc, e->crc);
}

moon_status moon_zip_stored(const moon_zip *zip, const moon_zip_entry *e, const uint8_t **out) {
    *out = zip->bytes + e->start;
    return check_crc(e, *out);
}

moon_status moon_zip_unpack(const moon_zip *zip, const moon_zip_entry *e, uint8_t *out) {
    const uint8_t *packed = zip->bytes + e->start;
    if (e->method == 0) {
        if (e->size > 0) memcpy(out, packed, (size_t)e->size);
    } else if (moon_inflate(packed, (size_t)e->packed, out, (size_t)e->size)) {
        char quoted[MOON_QUOTED];
        return moon_fail(MOON_EVALUE, "entry %s: %s", moon_quoted(e->name, e->length, quoted), moon_error_message());
    }
    return check_crc(e, out);
}
