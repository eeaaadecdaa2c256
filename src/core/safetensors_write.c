/* The writing half of safetensors.h. */
#include <stdio.h>
#include <string.h>

#include "json.h"
#include "memory.h"
#include "output.h"
#include "safetensors.h"

typedef struct text {
    char *at;
    size_t n, room;
} text;

static void add(text *t, const char *words) {
    size_t n = strlen(words);
    memcpy(t->at + t->n, words, n);
    t->n += n;
}

static void add_number(text *t, uint64_t n) {
    t->n += (size_t)snprintf(t->at + t->n, t->room - t->n, "%llu", (unsigned long long)n);
}

static void add_string(text *t, const char *string, size_t n) { t->n += moon_json_write(t->at + t->n, string, n); }

/* no header of these is longer */
static size_t room_for(size_t n, const moon_named *items, size_t metadata_count, const moon_text (*metadata)[2]) {
    size_t room = 64;
    for (size_t i = 0; i < metadata_count; i++) {
        room += moon_json_room(metadata[i][0].length) + moon_json_room(metadata[i][1].length) + 2;
    }
    for (size_t i = 0; i < n; i++) room += moon_json_room(items[i].length) + 128 + 21 * (size_t)items[i].tensor->ndim;
    return room;
}

static void add_metadata(text *t, size_t count, const moon_text (*metadata)[2]) {
    add(t, "\"__metadata__\":{");
    for (size_t i = 0; i < count; i++) {
        if (i) add(t, ",");
        add_string(t, metadata[i][0].text, metadata[i][0].length);
        add(t, ":");
        add_string(t, metadata[i][1].text, metadata[i][1].length);
    }
    add(t, "}");
}

static void add_tensor(text *t, const moon_named *item, uint64_t *at) {
    const moon_tensor *x = item->tensor;
    add_string(t, item->name, item->length);
    add(t, ":{\"dtype\":\"");
    add(t, moon_safetensors_dtype((moon_dtype)x->dtype));
    add(t, "\",\"shape\":[");
    for (int i = 0; i < x->ndim; i++) {
        if (i) add(t, ",");
        add_number(t, (uint64_t)x->shape[i]);
    }
    add(t, "],\"data_offsets\":[");
    add_number(t, *at);
    *at += (uint64_t)x->numel * moon_itemsize(x);
    add(t, ",");
    add_number(t, *at);
    add(t, "]}");
}

/* the length, then the JSON, padded so that the data starts at a multiple of 8 */
static void build_header(text *t, size_t n, const moon_named *items, size_t metadata_count, const moon_text (*metadata)[2]) {
    uint64_t at = 0;
    t->n = 8;
    add(t, "{");
    if (metadata_count) add_metadata(t, metadata_count, metadata);
    for (size_t i = 0; i < n; i++) {
        if (i || metadata_count) add(t, ",");
        add_tensor(t, &items[i], &at);
    }
    add(t, "}");
    while (t->n % 8) t->at[t->n++] = ' ';
    for (int i = 0; i < 8; i++) t->at[i] = (char)((uint64_t)(t->n - 8) >> (8 * i));
}

static moon_status check_items(size_t n, const moon_named *items) {
    char quoted[MOON_QUOTED];
    for (size_t i = 0; i < n; i++) {
        moon_quoted(items[i].name, items[i].length, quoted);
        if (items[i].length == 12 && memcmp(items[i].name, "__metadata__", 12) == 0) {
            return moon_fail(MOON_EVALUE, "the name %s is the format's own; {metadata = …} takes strings", quoted);
        }
        moon_dtype dtype = (moon_dtype)items[i].tensor->dtype;
        if (moon_safetensors_dtype(dtype) == NULL) {
            return moon_fail(MOON_EDTYPE, "%s: safetensors lacks %s; save an .npz file, or x:astype(\"complex64\")", quoted,
                             moon_dtypes[dtype].name);
        }
    }
    return MOON_OK;
}

moon_status moon_safetensors_save(const char *path, size_t n, const moon_named *items, size_t metadata_count,
                                  const moon_text (*metadata)[2]) {
    moon_output out;
    moon_status status = check_items(n, items);
    if (status) return status;
    text t = {.room = room_for(n, items, metadata_count, metadata)};
    t.at = moon_alloc(t.room);
    if (t.at == NULL) return moon_fail(MOON_EMEMORY, "out of memory for a header of %zu tensors", n);
    build_header(&t, n, items, metadata_count, metadata);
    status = moon_output_open(&out, path);
    if (status == MOON_OK) {
        status = moon_output_write(&out, t.at, t.n);
        for (size_t i = 0; i < n && status == MOON_OK; i++) status = moon_output_tensor(&out, items[i].tensor, false, NULL);
        status = moon_output_close(&out, status);
    }
    moon_free(t.at, t.room);
    return status;
}
