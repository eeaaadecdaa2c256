/* The writing half of zip.h. */
#include <string.h>

#include "memory.h"
#include "zip.h"

uint64_t moon_zip_limit = 0xffffffff;

enum {
    LOCAL_MARK = 0x04034b50,
    CENTRAL_MARK = 0x02014b50,
    END_MARK = 0x06054b50,
    END64_MARK = 0x06064b50,
    LOCATOR_MARK = 0x07064b50,
    PLAIN = 20, /* versions needed to extract: 2.0, and 4.5 for zip64 */
    WIDE = 45,
    UNIX = 3 << 8,
    UTF8_NAMES = 1 << 11,
    NEW_YEAR_1980 = 1 << 5 | 1, /* the same bytes for the same tensors, at any time */
    LOCAL_CRC = 14,             /* where in a local header */
};

/* a record being put together */
typedef struct record {
    uint8_t bytes[128];
    size_t n;
} record;

static void put(record *r, uint64_t value, int size) {
    for (int i = 0; i < size; i++) r->bytes[r->n++] = (uint8_t)(value >> (8 * i));
}

static uint64_t narrow(uint64_t value) { return value >= moon_zip_limit ? 0xffffffff : value; }

static bool plain_ascii(const char *name, size_t n) {
    for (size_t i = 0; i < n; i++) {
        if ((unsigned char)name[i] >= 0x80) return false;
    }
    return true;
}

moon_status moon_zip_begin(moon_zip_writer *w, moon_output *out, size_t n) {
    size_t room = (n ? n : 1) * sizeof *w->records;
    *w = (moon_zip_writer){.out = out, .records = moon_alloc(room), .room = room};
    return w->records ? MOON_OK : moon_fail(MOON_EMEMORY, "out of memory");
}

void moon_zip_writer_close(moon_zip_writer *w) {
    moon_free(w->records, w->room);
    w->records = NULL;
}

/* what local headers and the directory have in common: from the version needed to the length of the name */
static void put_common(record *r, const moon_zip_record *e, bool wide) {
    put(r, wide ? WIDE : PLAIN, 2);
    put(r, plain_ascii(e->name, e->length) ? 0 : UTF8_NAMES, 2);
    put(r, 0, 2); /* stored */
    put(r, 0, 2);
    put(r, NEW_YEAR_1980, 2);
    put(r, e->crc, 4);
    put(r, wide ? 0xffffffff : e->size, 4);
    put(r, wide ? 0xffffffff : e->size, 4);
    put(r, e->length + strlen(e->suffix), 2);
}

static moon_status write_named(moon_zip_writer *w, const record *r, const moon_zip_record *e, const record *extra) {
    moon_status status = moon_output_write(w->out, r->bytes, r->n);
    if (status == MOON_OK) status = moon_output_write(w->out, e->name, e->length);
    if (status == MOON_OK) status = moon_output_write(w->out, e->suffix, strlen(e->suffix));
    return status ? status : moon_output_write(w->out, extra->bytes, extra->n);
}

moon_status moon_zip_entry_begin(moon_zip_writer *w, const char *name, size_t length, const char *suffix, uint64_t size) {
    if (length + strlen(suffix) > 0xffff) {
        return moon_fail(MOON_EVALUE, "a name of %zu bytes is too long for a zip archive, which takes 65535", length);
    }
    moon_zip_record *e = &w->records[w->count++];
    *e = (moon_zip_record){name, suffix, length, w->out->at, size, 0};
    bool wide = size >= moon_zip_limit;
    record r = {.n = 0}, extra = {.n = 0};
    if (wide) {
        put(&extra, 1, 2);
        put(&extra, 16, 2);
        put(&extra, size, 8);
        put(&extra, size, 8);
    }
    put(&r, LOCAL_MARK, 4);
    put_common(&r, e, wide);
    put(&r, extra.n, 2);
    return write_named(w, &r, e, &extra);
}

moon_status moon_zip_entry_end(moon_zip_writer *w, uint32_t crc) {
    moon_zip_record *e = &w->records[w->count - 1];
    record r = {.n = 0};
    e->crc = crc;
    put(&r, crc, 4);
    return moon_output_patch(w->out, e->at + LOCAL_CRC, r.bytes, r.n);
}

static moon_status write_central(moon_zip_writer *w, const moon_zip_record *e) {
    bool wide = e->size >= moon_zip_limit, far = e->at >= moon_zip_limit;
    record r = {.n = 0}, extra = {.n = 0};
    if (wide || far) {
        put(&extra, 1, 2);
        put(&extra, (wide ? 16 : 0) + (far ? 8 : 0), 2);
        if (wide) put(&extra, e->size, 8), put(&extra, e->size, 8);
        if (far) put(&extra, e->at, 8);
    }
    put(&r, CENTRAL_MARK, 4);
    put(&r, UNIX | WIDE, 2);
    put_common(&r, e, wide);
    put(&r, extra.n, 2);
    put(&r, 0, 2);                       /* no comment */
    put(&r, 0, 2);                       /* the first part */
    put(&r, 0, 2);                       /* no text */
    put(&r, UINT64_C(0100644) << 16, 4); /* a regular file */
    put(&r, narrow(e->at), 4);
    return write_named(w, &r, e, &extra);
}

moon_status moon_zip_directory(moon_zip_writer *w) {
    uint64_t start = w->out->at;
    moon_status status = MOON_OK;
    for (size_t i = 0; i < w->count && status == MOON_OK; i++) status = write_central(w, &w->records[i]);
    uint64_t end = w->out->at, size = end - start;
    bool wide = w->count >= 0xffff || size >= moon_zip_limit || start >= moon_zip_limit;
    record r = {.n = 0};
    if (wide) {
        put(&r, END64_MARK, 4);
        put(&r, 44, 8); /* bytes of this record that follow */
        put(&r, UNIX | WIDE, 2);
        put(&r, WIDE, 2);
        put(&r, 0, 4);
        put(&r, 0, 4);
        put(&r, w->count, 8);
        put(&r, w->count, 8);
        put(&r, size, 8);
        put(&r, start, 8);
        put(&r, LOCATOR_MARK, 4);
        put(&r, 0, 4);
        put(&r, end, 8);
        put(&r, 1, 4);
    }
    put(&r, END_MARK, 4);
    put(&r, 0, 4);
    put(&r, w->count < 0xffff ? w->count : 0xffff, 2);
    put(&r, w->count < 0xffff ? w->count : 0xffff, 2);
    put(&r, narrow(size), 4);
    put(&r, narrow(start), 4);
    put(&r, 0, 2);
    return status ? status : moon_output_write(w->out, r.bytes, r.n);
}
