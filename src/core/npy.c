#include "npy.h"

#include <stdio.h>
#include <string.h>

#include "name.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the formats of files here are read and written little-endian");

/* ---- the header: a Python dict literal of three keys, and no more of Python's grammar than that ---- */

typedef struct cursor {
    const char *start, *at, *end;
} cursor;

static bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

static void blanks(cursor *c) {
    while (c->at < c->end && is_blank(*c->at)) c->at++;
}

static bool take(cursor *c, char wanted) {
    blanks(c);
    if (c->at == c->end || *c->at != wanted) return false;
    c->at++;
    return true;
}

static moon_status unexpected(const cursor *c, const char *wanted) {
    char quoted[MOON_QUOTED];
    if (c->at == c->end) return moon_fail(MOON_EVALUE, "the header ends where %s is expected", wanted);
    return moon_fail(MOON_EVALUE, "%s expected at byte %td of the header, got %s", wanted, c->at - c->start,
                     moon_quoted(c->at, 1, quoted));
}

static moon_status take_string(cursor *c, const char *wanted, const char **text, size_t *n) {
    blanks(c);
    if (c->at == c->end || (*c->at != '\'' && *c->at != '"')) return unexpected(c, wanted);
    char quote = *c->at++;
    *text = c->at;
    while (c->at < c->end && *c->at != quote && *c->at != '\\' && *c->at != '\n') c->at++;
    if (c->at == c->end || *c->at != quote) return unexpected(c, "a closing quote");
    *n = (size_t)(c->at++ - *text);
    return MOON_OK;
}

static moon_status take_extent(cursor *c, int64_t *out) {
    blanks(c);
    const char *start = c->at;
    bool negative = take(c, '-'), overflow = false, digits = false;
    *out = 0;
    for (; c->at < c->end && *c->at >= '0' && *c->at <= '9'; c->at++, digits = true) {
        overflow |= __builtin_mul_overflow(*out, (int64_t)10, out) || __builtin_add_overflow(*out, (int64_t)(*c->at - '0'), out);
    }
    if (!digits) return unexpected(c, "an integer in field 'shape'");
    char quoted[MOON_QUOTED];
    moon_quoted(start, (size_t)(c->at - start), quoted);
    if (negative) return moon_fail(MOON_EVALUE, "field 'shape': the extent %s is negative", quoted);
    if (overflow) return moon_fail(MOON_EVALUE, "field 'shape': the extent %s overflows 64 bits", quoted);
    if (c->at < c->end && *c->at == 'L') c->at++; /* as Python 2 wrote them */
    return MOON_OK;
}

static moon_status take_shape(cursor *c, int *ndim, int64_t *shape) {
    if (!take(c, '(')) return unexpected(c, "a tuple in field 'shape'");
    *ndim = 0;
    bool comma = true;
    while (!take(c, ')')) {
        if (!comma) return unexpected(c, "',' or ')' in field 'shape'");
        if (*ndim == MOON_MAXDIM) {
            return moon_fail(MOON_EVALUE, "field 'shape' has more than %d dimensions, which is the most supported", MOON_MAXDIM);
        }
        moon_status status = take_extent(c, &shape[*ndim]);
        if (status) return status;
        ++*ndim;
        comma = take(c, ',');
    }
    /* without its comma (3) is no tuple */
    return *ndim == 1 && !comma ? moon_fail(MOON_EVALUE, "field 'shape' is an integer, a tuple is expected") : MOON_OK;
}

static moon_status take_bool(cursor *c, bool *out) {
    static const char *const words[] = {"False", "True"};
    blanks(c);
    for (int i = 0; i < 2; i++) {
        size_t n = strlen(words[i]);
        if ((size_t)(c->end - c->at) < n || memcmp(c->at, words[i], n) != 0) continue;
        c->at += n;
        return *out = i, MOON_OK;
    }
    return unexpected(c, "True or False in field 'fortran_order'");
}

/* ---- dtypes ---- */

static char kind_letter(moon_dtype dtype) { return "biufc"[moon_dtypes[dtype].kind]; }

static bool numpy_has(moon_dtype dtype) {
    return dtype != MOON_BFLOAT16 && dtype != MOON_FLOAT8_E4M3FN && dtype != MOON_FLOAT8_E5M2;
}

static moon_status dtype_of(const char *descr, size_t n, moon_dtype *out, bool *swap) {
    char quoted[MOON_QUOTED];
    moon_quoted(descr, n, quoted);
    size_t letter = n > 0 && memchr("<>|=", descr[0], 4) != NULL ? 1 : 0;
    char kind = '\0';
    int size = 0;
    size_t i = letter;
    if (i < n) kind = descr[i++];
    if (i < n && descr[i] == '0') size = -1; /* no number starts so */
    for (; i < n && descr[i] >= '0' && descr[i] <= '9' && size >= 0 && size < 1000; i++) size = 10 * size + (descr[i] - '0');
    for (int d = 0; i == n && d < MOON_DTYPE_COUNT; d++) {
        moon_dtype dtype = (moon_dtype)d;
        if (!numpy_has(dtype) || kind_letter(dtype) != kind || moon_dtypes[d].size != size) continue;
        if (letter == 0 || (descr[0] == '|' && size > 1)) break;
        *swap = descr[0] == '>' && size > 1;
        return *out = dtype, MOON_OK;
    }
    const char *why = "is none of NumPy's that moontensor has";
    if (kind == 'O') why = "holds Python objects, pickled; convert it in Python first";
    if (kind == 'U' || kind == 'S' || kind == 'a') why = "holds text; tensors hold numbers";
    if (kind == 'M' || kind == 'm') why = "holds dates or times; in Python, a.view('i8') gives them as int64";
    if (kind == 'V') why = "holds raw bytes: NumPy lacks bfloat16 and float8, which a .safetensors file keeps";
    if ((kind == 'f' || kind == 'c') && size >= 12) why = "is an extended float; in Python, a.astype('f8') narrows it";
    return moon_fail(MOON_EDTYPE, "field 'descr': dtype %s %s", quoted, why);
}

static moon_status take_dtype(cursor *c, moon_dtype *dtype, bool *swap) {
    const char *text;
    size_t n;
    blanks(c);
    if (c->at < c->end && (*c->at == '[' || *c->at == '(')) {
        return moon_fail(MOON_EDTYPE, "field 'descr': structured dtypes are not supported; save an array for each field");
    }
    moon_status status = take_string(c, "a dtype in field 'descr'", &text, &n);
    return status ? status : dtype_of(text, n, dtype, swap);
}

/* ---- reading ---- */

typedef struct header {
    bool seen[3];
    moon_dtype dtype;
    bool swap, fortran;
    int ndim;
    int64_t shape[MOON_MAXDIM];
} header;

static moon_status take_entry(cursor *c, header *h) {
    static const char *const keys[] = {"descr", "fortran_order", "shape"};
    const char *key;
    size_t n;
    char quoted[MOON_QUOTED];
    moon_status status = take_string(c, "a key", &key, &n);
    if (status) return status;
    int k = 0;
    while (k < 3 && (strlen(keys[k]) != n || memcmp(keys[k], key, n) != 0)) k++;
    moon_quoted(key, n, quoted);
    if (k == 3) return moon_fail(MOON_EVALUE, "unknown field %s in the header", quoted);
    if (h->seen[k]) return moon_fail(MOON_EVALUE, "field %s is there twice", quoted);
    h->seen[k] = true;
    if (!take(c, ':')) return unexpected(c, "':'");
    if (k == 0) return take_dtype(c, &h->dtype, &h->swap);
    return k == 1 ? take_bool(c, &h->fortran) : take_shape(c, &h->ndim, h->shape);
}

static moon_status parse_dict(cursor *c, header *h) {
    if (!take(c, '{')) return unexpected(c, "'{'");
    bool comma = true;
    while (!take(c, '}')) {
        if (!comma) return unexpected(c, "',' or '}'");
        moon_status status = take_entry(c, h);
        if (status) return status;
        comma = take(c, ',');
    }
    blanks(c);
    if (c->at < c->end) return unexpected(c, "the end of the header");
    if (!h->seen[0]) return moon_fail(MOON_EVALUE, "the header lacks the field 'descr'");
    if (!h->seen[1]) return moon_fail(MOON_EVALUE, "the header lacks the field 'fortran_order'");
    return h->seen[2] ? MOON_OK : moon_fail(MOON_EVALUE, "the header lacks the field 'shape'");
}

/* magic, version and length of the header; *start: where its text starts */
static moon_status preamble(const uint8_t *bytes, size_t n, size_t *start, size_t *length) {
    if (n < 10 || memcmp(bytes, "\x93NUMPY", 6) != 0) {
        return moon_fail(MOON_EVALUE,
                         n < 10 ? "no .npy: %zu bytes are too few for one" : "no .npy: it does not start with \\x93NUMPY", n);
    }
    int major = bytes[6], minor = bytes[7];
    if (major < 1 || major > 3 || minor != 0) {
        return moon_fail(MOON_EVALUE, ".npy version %d.%d is not supported; 1.0, 2.0 and 3.0 are", major, minor);
    }
    *start = major == 1 ? 10 : 12;
    if (n < *start) return moon_fail(MOON_EVALUE, "the file ends inside the length of its header");
    *length = (size_t)bytes[8] | (size_t)bytes[9] << 8;
    if (major > 1) *length |= (size_t)bytes[10] << 16 | (size_t)bytes[11] << 24;
    if (*length > n - *start) {
        return moon_fail(MOON_EVALUE, "the header is %zu bytes long by its own account, but %zu follow", *length, n - *start);
    }
    return MOON_OK;
}

moon_status moon_npy_parse(const uint8_t *bytes, size_t n, moon_draft *draft, moon_npy *out) {
    size_t start = 0, length = 0;
    header h = {.ndim = 0};
    moon_status status = preamble(bytes, n, &start, &length);
    if (status) return status;
    const char *text = (const char *)bytes + start;
    cursor c = {text, text, text + length};
    status = parse_dict(&c, &h);
    if (status == MOON_OK) status = moon_draft_contiguous(draft, h.dtype, h.ndim, h.shape);
    if (status) return status;
    if (h.fortran) {
        int64_t stride = 1;
        for (int i = 0; i < h.ndim; i++) {
            draft->t.strides[i] = stride;
            stride *= h.shape[i] > 1 ? h.shape[i] : 1;
        }
    }
    *out = (moon_npy){start + length, h.swap};
    size_t need = (size_t)draft->t.numel * moon_itemsize(&draft->t), have = n - out->start;
    if (have != need) {
        char shape[256];
        return moon_fail(MOON_EVALUE, "field 'shape': %s in %s takes %zu bytes, but %zu follow the header",
                         moon_shape_text(h.ndim, h.shape, shape, sizeof shape), moon_dtypes[h.dtype].name, need, have);
    }
    return MOON_OK;
}

/* elements of either byte order, n bytes; complex numbers are swapped by their parts */
static void swapped(uint8_t *to, const uint8_t *from, size_t n, size_t size) {
    for (size_t i = 0; i < n; i += size) {
        for (size_t k = 0; k < size; k++) to[i + k] = from[i + size - 1 - k];
    }
}

void moon_npy_read(const uint8_t *bytes, const moon_npy *npy, const moon_tensor *into) {
    size_t size = moon_itemsize(into), n = (size_t)into->numel * size;
    if (n == 0) return;
    if (!npy->swap) {
        memcpy(moon_data(into), bytes + npy->start, n);
        return;
    }
    if (moon_dtypes[into->dtype].kind == MOON_KIND_COMPLEX) size /= 2;
    swapped((uint8_t *)moon_data(into), bytes + npy->start, n, size);
}

/* ---- writing ---- */

/* column-major, and not row-major too */
static bool is_fortran(const moon_tensor *t) {
    if (moon_data(t) == NULL || moon_is_contiguous(t)) return false;
    int64_t stride = 1;
    for (int i = 0; i < t->ndim; i++) {
        if (t->shape[i] == 1) continue;
        if (t->strides[i] != stride) return false;
        stride *= t->shape[i];
    }
    return true;
}

moon_status moon_npy_header(const moon_tensor *t, char out[MOON_NPY_HEADER], size_t *length, bool *as_they_lie) {
    const moon_dtype_info *dtype = &moon_dtypes[t->dtype];
    if (!numpy_has((moon_dtype)t->dtype)) {
        return moon_fail(MOON_EDTYPE, "NumPy's format lacks %s; save a .safetensors file, or x:astype(\"float32\")", dtype->name);
    }
    *as_they_lie = is_fortran(t);
    size_t n = 10;
    n += (size_t)snprintf(out + n, MOON_NPY_HEADER - n, "{'descr': '%c%c%d', 'fortran_order': %s, 'shape': (",
                          dtype->size == 1 ? '|' : '<', kind_letter((moon_dtype)t->dtype), dtype->size,
                          *as_they_lie ? "True" : "False");
    for (int i = 0; i < t->ndim; i++) {
        const char *form = t->ndim == 1 ? "%lld," : i ? ", %lld" : "%lld";
        n += (size_t)snprintf(out + n, MOON_NPY_HEADER - n, form, (long long)t->shape[i]);
    }
    n += (size_t)snprintf(out + n, MOON_NPY_HEADER - n, "), }");
    if (t->ndim > 0) { /* NumPy leaves room to lengthen the array in place: its slowest extent may grow to 21 digits */
        int digits = snprintf(NULL, 0, "%lld", (long long)t->shape[*as_they_lie ? t->ndim - 1 : 0]);
        n += (size_t)snprintf(out + n, MOON_NPY_HEADER - n, "%*s", 21 - digits, "");
    }
    size_t whole = (n + 1 + 63) / 64 * 64;
    memset(out + n, ' ', whole - n - 1);
    out[whole - 1] = '\n';
    memcpy(out, "\x93NUMPY\x01\x00", 8);
    out[8] = (char)((whole - 10) & 0xff);
    out[9] = (char)((whole - 10) >> 8);
    *length = whole;
    return MOON_OK;
}

moon_status moon_npy_save(const char *path, const moon_tensor *t) {
    char text[MOON_NPY_HEADER];
    size_t n;
    bool as_they_lie;
    moon_output out;
    moon_status status = moon_npy_header(t, text, &n, &as_they_lie);
    if (status == MOON_OK) status = moon_output_open(&out, path);
    if (status) return status;
    status = moon_output_write(&out, text, n);
    if (status == MOON_OK) status = moon_output_tensor(&out, t, as_they_lie, NULL);
    return moon_output_close(&out, status);
}
