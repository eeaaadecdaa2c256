#include "safetensors.h"

#include <stdlib.h>
#include <string.h>

#include "json.h"
#include "memory.h"

enum { LARGEST_HEADER = 100000000, PREFIX = 8 }; /* as the reference implementation */

/* in the reference implementation's order of alignment */
static const struct {
    const char *name;
    moon_dtype dtype;
} dtypes[] = {
    {"BOOL", MOON_BOOL},
    {"U8", MOON_UINT8},
    {"I8", MOON_INT8},
    {"F8_E5M2", MOON_FLOAT8_E5M2},
    {"F8_E4M3", MOON_FLOAT8_E4M3FN},
    {"I16", MOON_INT16},
    {"U16", MOON_UINT16},
    {"F16", MOON_FLOAT16},
    {"BF16", MOON_BFLOAT16},
    {"I32", MOON_INT32},
    {"U32", MOON_UINT32},
    {"F32", MOON_FLOAT32},
    {"C64", MOON_COMPLEX64},
    {"F64", MOON_FLOAT64},
    {"I64", MOON_INT64},
    {"U64", MOON_UINT64},
};
enum { DTYPES = sizeof dtypes / sizeof *dtypes };

static int rank(moon_dtype dtype) {
    for (int i = 0; i < DTYPES; i++) {
        if (dtypes[i].dtype == dtype) return i;
    }
    return -1;
}

static bool is(moon_text t, const char *word) { return t.length == strlen(word) && memcmp(t.text, word, t.length) == 0; }

/* ---- reading ---- */

/* the parse in progress: strings go to where `strings` has room, since none is longer decoded than in the header */
typedef struct parse {
    moon_json json;
    moon_safetensors *file;
    char *room;
} parse;

static moon_status take_text(parse *p, moon_text *out) {
    out->text = p->room;
    moon_status status = moon_json_string(&p->json, p->room, &out->length);
    p->room += out->length;
    return status;
}

static moon_status take_key(parse *p, bool *first, bool *more, moon_text *out) {
    out->text = p->room;
    out->length = 0;
    moon_status status = moon_json_key(&p->json, first, more, p->room, &out->length);
    p->room += out->length;
    return status;
}

/* room for one more of `size` bytes each */
static void *grow(void *items, size_t count, size_t size, size_t *room) {
    if ((count + 1) * size <= *room) return items;
    size_t more = *room ? 2 * *room : 16 * size;
    void *bigger = moon_alloc(more);
    if (bigger == NULL) {
        moon_fail(MOON_EMEMORY, "out of memory for a header of %zu tensors", count);
        return NULL;
    }
    if (count) memcpy(bigger, items, count * size);
    moon_free(items, *room);
    *room = more;
    return bigger;
}

static moon_status take_dtype(parse *p, moon_safetensor *e) {
    moon_text name;
    char quoted[MOON_QUOTED];
    moon_status status = take_text(p, &name);
    if (status) return status;
    for (int i = 0; i < DTYPES; i++) {
        if (is(name, dtypes[i].name)) return e->dtype = dtypes[i].dtype, MOON_OK;
    }
    return moon_fail(MOON_EDTYPE, "field 'dtype': %s is none that moontensor has", moon_quoted(name.text, name.length, quoted));
}

static moon_status take_shape(moon_json *json, int *ndim, int64_t *shape) {
    moon_status status = moon_json_expect(json, '[');
    *ndim = 0;
    if (status || moon_json_take(json, ']')) return status;
    for (;;) {
        if (*ndim == MOON_MAXDIM) {
            return moon_fail(MOON_EVALUE, "field 'shape' has more than %d dimensions, which is the most supported", MOON_MAXDIM);
        }
        if (moon_json_integer(json, &shape[*ndim])) return moon_fail(MOON_EVALUE, "field 'shape': %s", moon_error_message());
        ++*ndim;
        if (moon_json_take(json, ']')) return MOON_OK;
        status = moon_json_expect(json, ',');
        if (status) return status;
    }
}

static moon_status take_offsets(moon_json *json, moon_safetensor *e) {
    int64_t begin, end;
    moon_status status = moon_json_expect(json, '[');
    if (status == MOON_OK) status = moon_json_integer(json, &begin);
    if (status == MOON_OK) status = moon_json_expect(json, ',');
    if (status == MOON_OK) status = moon_json_integer(json, &end);
    if (status == MOON_OK) status = moon_json_expect(json, ']');
    if (status) return moon_fail(status, "field 'data_offsets': %s", moon_error_message());
    if (end < begin) {
        return moon_fail(MOON_EVALUE, "field 'data_offsets': it ends at %lld, before its start at %lld", (long long)end,
                         (long long)begin);
    }
    e->begin = (uint64_t)begin;
    e->end = (uint64_t)end;
    return MOON_OK;
}

static moon_status take_fields(parse *p, moon_safetensor *e, int64_t *shape) {
    static const char *const fields[] = {"dtype", "shape", "data_offsets"};
    bool first = true, more, seen[3] = {false, false, false};
    moon_text key;
    char quoted[MOON_QUOTED];
    moon_status status = moon_json_expect(&p->json, '{');
    while (status == MOON_OK && (status = take_key(p, &first, &more, &key)) == MOON_OK && more) {
        int k = 0;
        while (k < 3 && !is(key, fields[k])) k++;
        if (k == 3) return moon_fail(MOON_EVALUE, "unknown field %s", moon_quoted(key.text, key.length, quoted));
        if (seen[k]) return moon_fail(MOON_EVALUE, "field '%s' is there twice", fields[k]);
        seen[k] = true;
        e->shape_at = k == 1 ? p->json.at : e->shape_at;
        status = k == 0 ? take_dtype(p, e) : k == 1 ? take_shape(&p->json, &e->ndim, shape) : take_offsets(&p->json, e);
    }
    for (int k = 0; k < 3 && status == MOON_OK; k++) {
        if (!seen[k]) status = moon_fail(MOON_EVALUE, "field '%s' is missing", fields[k]);
    }
    return status;
}

/* a tensor's object, behind its name */
static moon_status take_tensor(parse *p, moon_text name) {
    moon_safetensors *f = p->file;
    int64_t shape[MOON_MAXDIM];
    moon_draft draft;
    char quoted[MOON_QUOTED];
    moon_safetensor *entries = grow(f->entries, f->count, sizeof *entries, &f->entries_room);
    if (entries == NULL) return MOON_EMEMORY;
    f->entries = entries;
    moon_safetensor *e = &entries[f->count++];
    *e = (moon_safetensor){.name = name};
    moon_status status = moon_name_check(name.text, name.length);
    if (status) return status;
    status = take_fields(p, e, shape);
    if (status == MOON_OK) status = moon_draft_contiguous(&draft, e->dtype, e->ndim, shape);
    if (status == MOON_OK && (uint64_t)draft.t.numel * moon_dtypes[e->dtype].size != e->end - e->begin) {
        char text[128];
        status = moon_fail(MOON_EVALUE, "field 'shape': %s in %s takes %llu bytes, but 'data_offsets' [%llu, %llu] leave %llu",
                           moon_shape_text(e->ndim, shape, text, sizeof text), moon_dtypes[e->dtype].name,
                           (unsigned long long)draft.t.numel * moon_dtypes[e->dtype].size, (unsigned long long)e->begin,
                           (unsigned long long)e->end, (unsigned long long)(e->end - e->begin));
    }
    if (status) return moon_fail(status, "tensor %s: %s", moon_quoted(name.text, name.length, quoted), moon_error_message());
    return MOON_OK;
}

static moon_status take_metadata(parse *p) {
    moon_safetensors *f = p->file;
    bool first = true, more;
    moon_text key;
    if (f->metadata) return moon_fail(MOON_EVALUE, "'__metadata__' is there twice");
    f->metadata = grow(NULL, 0, sizeof *f->metadata, &f->metadata_room);
    if (f->metadata == NULL) return MOON_EMEMORY;
    moon_status status = moon_json_expect(&p->json, '{');
    while (status == MOON_OK && (status = take_key(p, &first, &more, &key)) == MOON_OK && more) {
        moon_text(*pairs)[2] = grow(f->metadata, f->metadata_count, sizeof *pairs, &f->metadata_room);
        if (pairs == NULL) return MOON_EMEMORY;
        f->metadata = pairs;
        pairs[f->metadata_count][0] = key;
        status = take_text(p, &pairs[f->metadata_count][1]);
        if (status == MOON_OK) f->metadata_count++;
    }
    return status ? moon_fail(status, "'__metadata__': %s", moon_error_message()) : MOON_OK;
}

static moon_status take_header(parse *p) {
    bool first = true, more;
    moon_text key;
    moon_status status = moon_json_expect(&p->json, '{');
    while (status == MOON_OK && (status = take_key(p, &first, &more, &key)) == MOON_OK && more) {
        status = is(key, "__metadata__") ? take_metadata(p) : take_tensor(p, key);
    }
    return status ? status : moon_json_end(&p->json);
}

/* ---- what the entries must be together ---- */

static int by_name(const void *a, const void *b) {
    const moon_safetensor *x = *(moon_safetensor *const *)a, *y = *(moon_safetensor *const *)b;
    return moon_name_compare(x->name.text, x->name.length, y->name.text, y->name.length);
}

static int by_place(const void *a, const void *b) {
    const moon_safetensor *x = *(moon_safetensor *const *)a, *y = *(moon_safetensor *const *)b;
    int order = (x->begin > y->begin) - (x->begin < y->begin);
    return order ? order : (x->end > y->end) - (x->end < y->end);
}

static int by_key(const void *a, const void *b) {
    const moon_text *x = a, *y = b;
    return moon_name_compare(x->text, x->length, y->text, y->length);
}

static moon_status check_places(moon_safetensor *const *sorted, size_t n, uint64_t available) {
    uint64_t at = 0;
    char quoted[MOON_QUOTED];
    for (size_t i = 0; i < n; i++) {
        const moon_safetensor *e = sorted[i];
        if (e->begin != at) {
            return moon_fail(MOON_EVALUE,
                             "tensor %s: field 'data_offsets': it starts at %llu, but what is before it ends at %llu%s",
                             moon_quoted(e->name.text, e->name.length, quoted), (unsigned long long)e->begin,
                             (unsigned long long)at, e->begin < at ? "; they overlap" : "; nothing fills the hole");
        }
        at = e->end;
    }
    if (at == available) return MOON_OK;
    return moon_fail(MOON_EVALUE, "the tensors take %llu bytes, but %llu follow the header", (unsigned long long)at,
                     (unsigned long long)available);
}

static moon_status check_together(moon_safetensors *f, uint64_t available) {
    size_t room = f->count ? f->count * sizeof(moon_safetensor *) : 1;
    char quoted[MOON_QUOTED];
    moon_safetensor **sorted = moon_alloc(room);
    if (sorted == NULL) return moon_fail(MOON_EMEMORY, "out of memory for a header of %zu tensors", f->count);
    for (size_t i = 0; i < f->count; i++) sorted[i] = &f->entries[i];
    moon_status status = MOON_OK;
    if (f->count) qsort(sorted, f->count, sizeof *sorted, by_name);
    for (size_t i = 1; i < f->count && status == MOON_OK; i++) {
        if (by_name(&sorted[i - 1], &sorted[i]) != 0) continue;
        status = moon_fail(MOON_EVALUE, "the name %s is there twice",
                           moon_quoted(sorted[i]->name.text, sorted[i]->name.length, quoted));
    }
    if (f->count) qsort(sorted, f->count, sizeof *sorted, by_place);
    if (status == MOON_OK) status = check_places(sorted, f->count, available);
    moon_free(sorted, room);
    if (f->metadata_count) qsort(f->metadata, f->metadata_count, sizeof *f->metadata, by_key);
    for (size_t i = 1; i < f->metadata_count && status == MOON_OK; i++) {
        if (by_key(f->metadata[i - 1], f->metadata[i]) != 0) continue;
        status = moon_fail(MOON_EVALUE, "'__metadata__': the key %s is there twice",
                           moon_quoted(f->metadata[i][0].text, f->metadata[i][0].length, quoted));
    }
    return status;
}

moon_status moon_safetensors_open(moon_safetensors *f, const uint8_t *bytes, size_t size) {
    uint64_t length = 0;
    *f = (moon_safetensors){.entries = NULL};
    if (size < PREFIX) return moon_fail(MOON_EVALUE, "no .safetensors: %zu bytes are too few for one", size);
    for (int i = 0; i < PREFIX; i++) length |= (uint64_t)bytes[i] << (8 * i);
    if (length > size - PREFIX || length > LARGEST_HEADER) {
        return moon_fail(MOON_EVALUE, "the header is %llu bytes long by its own account, but %zu follow, and %d are the most",
                         (unsigned long long)length, size - PREFIX, LARGEST_HEADER);
    }
    if (length == 0 || bytes[PREFIX] != '{') return moon_fail(MOON_EVALUE, "no .safetensors: the header does not start with '{'");
    f->text_size = (size_t)length;
    f->text = moon_alloc(f->text_size);
    f->strings = moon_alloc(f->text_size);
    moon_status status = MOON_OK;
    if (f->text == NULL || f->strings == NULL) {
        status = moon_fail(MOON_EMEMORY, "out of memory for a header of %zu bytes", f->text_size);
    } else {
        /* own, so that it stays what was checked even where the file is being changed */
        memcpy(f->text, bytes + PREFIX, f->text_size);
        size_t valid = moon_utf8_valid(f->text, f->text_size);
        parse p = {{f->text, f->text_size, 0}, f, f->strings};
        status = valid < f->text_size ? moon_fail(MOON_EVALUE, "the header is not UTF-8, from byte %zu on", valid)
                                      : take_header(&p);
    }
    if (status == MOON_OK) status = check_together(f, size - PREFIX - length);
    for (size_t i = 0; i < f->count; i++) f->entries[i].begin += PREFIX + length, f->entries[i].end += PREFIX + length;
    if (status) moon_safetensors_close(f);
    return status;
}

void moon_safetensors_close(moon_safetensors *f) {
    moon_free(f->entries, f->entries_room);
    moon_free(f->metadata, f->metadata_room);
    moon_free(f->text, f->text_size);
    moon_free(f->strings, f->text_size);
    *f = (moon_safetensors){.entries = NULL};
}

moon_status moon_safetensors_layout(const moon_safetensors *f, size_t i, moon_draft *draft) {
    const moon_safetensor *e = &f->entries[i];
    int64_t shape[MOON_MAXDIM];
    int ndim;
    moon_json json = {f->text, f->text_size, e->shape_at};
    moon_status status = take_shape(&json, &ndim, shape);
    if (status == MOON_OK) status = moon_draft_contiguous(draft, e->dtype, ndim, shape);
    if (status == MOON_OK) draft->t.offset = (int64_t)e->begin;
    return status;
}

/* ---- what writing needs to know ---- */

const char *moon_safetensors_dtype(moon_dtype dtype) { return rank(dtype) < 0 ? NULL : dtypes[rank(dtype)].name; }

int moon_safetensors_compare(const moon_named *a, const moon_named *b) {
    int order = rank((moon_dtype)b->tensor->dtype) - rank((moon_dtype)a->tensor->dtype);
    return order ? order : moon_name_compare(a->name, a->length, b->name, b->length);
}
