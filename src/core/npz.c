#include "npz.h"

#include <string.h>

#include "memory.h"

static const char SUFFIX[] = ".npy";

static moon_status entry_failed(const moon_zip_entry *e) {
    char quoted[MOON_QUOTED];
    return moon_fail(moon_error_kind(), "entry %s: %s", moon_quoted(e->name, e->length, quoted), moon_error_message());
}

moon_status moon_npz_open(const moon_zip *zip, size_t i, moon_npz_member *m, moon_draft *draft, size_t *name_length) {
    const moon_zip_entry *e = &zip->entries[i];
    size_t suffix = sizeof SUFFIX - 1;
    *m = (moon_npz_member){.size = (size_t)e->size};
    if (e->length <= suffix || memcmp(e->name + e->length - suffix, SUFFIX, suffix) != 0) {
        char quoted[MOON_QUOTED];
        return moon_fail(MOON_EVALUE, "entry %s is no array: its name does not end in .npy",
                         moon_quoted(e->name, e->length, quoted));
    }
    *name_length = e->length - suffix;
    moon_status status;
    if (e->method == 0) {
        status = moon_zip_stored(zip, e, &m->bytes);
    } else {
        m->unpacked = moon_alloc(m->size ? m->size : 1);
        m->bytes = m->unpacked;
        status = m->unpacked ? moon_zip_unpack(zip, e, m->unpacked)
                             : moon_fail(MOON_EMEMORY, "out of memory for %zu bytes of an entry", m->size);
    }
    if (status == MOON_OK && (status = moon_npy_parse(m->bytes, m->size, draft, &m->npy)) != MOON_OK) entry_failed(e);
    if (status) moon_npz_close(m);
    return status;
}

void moon_npz_close(moon_npz_member *m) {
    moon_free(m->unpacked, m->size ? m->size : 1);
    *m = (moon_npz_member){.bytes = NULL};
}

static moon_status write_item(moon_zip_writer *w, const moon_named *item) {
    const moon_tensor *t = item->tensor;
    char header[MOON_NPY_HEADER], quoted[MOON_QUOTED];
    size_t n;
    bool as_they_lie;
    if (moon_npy_header(t, header, &n, &as_they_lie)) {
        return moon_fail(moon_error_kind(), "%s: %s", moon_quoted(item->name, item->length, quoted), moon_error_message());
    }
    moon_status status = moon_zip_entry_begin(w, item->name, item->length, SUFFIX,
                                              n + (uint64_t)t->numel * (uint64_t)moon_itemsize(t));
    uint32_t crc = moon_crc32(0, header, n);
    if (status == MOON_OK) status = moon_output_write(w->out, header, n);
    if (status == MOON_OK) status = moon_output_tensor(w->out, t, as_they_lie, &crc);
    return status ? status : moon_zip_entry_end(w, crc);
}

moon_status moon_npz_save(const char *path, size_t n, const moon_named *items) {
    moon_output out;
    moon_zip_writer w;
    moon_status status = moon_output_open(&out, path);
    if (status) return status;
    status = moon_zip_begin(&w, &out, n);
    if (status == MOON_OK) {
        for (size_t i = 0; i < n && status == MOON_OK; i++) status = write_item(&w, &items[i]);
        if (status == MOON_OK) status = moon_zip_directory(&w);
        moon_zip_writer_close(&w);
    }
    return moon_output_close(&out, status);
}
