#include "format.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../devices/device.h"
#include "copy.h"
#include "memory.h"

moon_print_options moon_printing = {4, 1000, 3, 80};

enum { CELL = 80 }; /* the longest text of one number */

/* ---- single numbers ---- */

/* snprintf follows the locale; tensors print the same everywhere */
static void plain_point(char *text) {
    for (; *text; text++) {
        if (*text == ',') *text = '.';
    }
}

/* what a float of this dtype reads back as */
static double reread(moon_dtype dtype, double v) {
    float f = (float)v;
    switch (dtype) {
    case MOON_FLOAT16: return moon_half_to_float(moon_float_to_half(f));
    case MOON_BFLOAT16: return moon_bfloat_to_float(moon_float_to_bfloat(f));
    case MOON_FLOAT8_E4M3FN: return moon_e4m3_to_float(moon_float_to_e4m3(f));
    case MOON_FLOAT8_E5M2: return moon_e5m2_to_float(moon_float_to_e5m2(f));
    case MOON_FLOAT32:
    case MOON_COMPLEX64: return f;
    default: return v;
    }
}

/* digits of the shortest decimal that reads back as v, which is finite */
static int shortest(moon_dtype dtype, double v) {
    char text[CELL];
    for (int digits = 1; digits < 17; digits++) {
        snprintf(text, sizeof text, "%.*e", digits - 1, v);
        if (reread(dtype, strtod(text, NULL)) == v) return digits;
    }
    return 17;
}

static int special(double v, char *text, size_t size) {
    if (isnan(v)) return snprintf(text, size, "nan");
    return snprintf(text, size, v < 0 ? "-inf" : "inf");
}

/* As Lua writes floats, but shortest: "0.1", "100000.0", "1e+16". Bare ones leave out the ".0". */
static int write_float(moon_dtype dtype, double v, bool bare, char *out, size_t size) {
    if (!isfinite(v)) return special(v, out, size);
    char digits[CELL];
    int n = shortest(dtype, v);
    snprintf(digits, sizeof digits, "%.*e", n - 1, v);
    int exponent = atoi(strchr(digits, 'e') + 1), places = n - 1 - exponent;
    double rounded = strtod(digits, NULL); /* its decimals beyond the shortest are zeros */
    if (exponent < -4 || exponent >= 16) n = snprintf(out, size, "%.*g", n, v);
    else n = snprintf(out, size, "%.*f%s", places > 0 ? places : 0, rounded, places > 0 || bare ? "" : ".0");
    plain_point(out);
    return n;
}

int moon_format_element(moon_dtype dtype, const void *element, char *buffer, size_t size) {
    moon_value v;
    moon_element_read(dtype, element, &v);
    switch (v.kind) {
    case MOON_VALUE_BOOL: return snprintf(buffer, size, v.as.b ? "true" : "false");
    case MOON_VALUE_INT: return snprintf(buffer, size, "%" PRId64, v.as.i);
    case MOON_VALUE_UINT: return snprintf(buffer, size, "%" PRIu64, v.as.u);
    case MOON_VALUE_FLOAT: return write_float(dtype, v.as.f, false, buffer, size);
    default: break;
    }
    char re[CELL], im[CELL];
    write_float(dtype, v.as.c[0], true, re, sizeof re);
    write_float(dtype, v.as.c[1], true, im, sizeof im);
    return snprintf(buffer, size, "%s%s%si", re, im[0] == '-' ? "" : "+", im);
}

/* ---- a common format for many ---- */

/* Floats as NumPy: a fixed point with as many decimals as the longest needs, up to the precision, zeros cut and the rest
   padded; or exponents throughout when the sizes are far apart. */
typedef struct style {
    moon_dtype dtype;
    bool exponent;
    int places;      /* decimals of the one with most of them */
    int left, right; /* width before the point, and from it on */
    int special;     /* width of the widest nan or inf */
    bool seen;
    double largest, smallest;
} style;

/* decimals that a finite float is shown with */
static int decimals(const style *s, double v, int precision) {
    char text[CELL];
    int digits = shortest(s->dtype, v), point;
    snprintf(text, sizeof text, "%.*e", digits - 1, v);
    point = digits - 1 - (s->exponent ? 0 : atoi(strchr(text, 'e') + 1));
    return point < 0 ? 0 : point > precision ? precision : point;
}

/* "12.5", "3." for whole numbers: the point always, so that widths can be taken on both sides of it. With exponents all
   have the same decimals. */
static void write_styled(const style *s, double v, char *out) {
    if (!isfinite(v)) {
        special(v, out, CELL);
        return;
    }
    if (s->exponent) snprintf(out, CELL, "%#.*e", s->places, v);
    else snprintf(out, CELL, "%#.*f", decimals(s, v, moon_printing.precision), v);
    plain_point(out);
    if (s->exponent) return;
    size_t n = strlen(out);
    while (out[n - 1] == '0') n--;
    out[n] = '\0';
}

static void measure_range(style *s, double v) {
    double a = fabs(v);
    if (!isfinite(v) || a == 0) return;
    if (!s->seen || a > s->largest) s->largest = a;
    if (!s->seen || a < s->smallest) s->smallest = a;
    s->seen = true;
}

static void measure_places(style *s, double v) {
    int places = isfinite(v) ? decimals(s, v, moon_printing.precision) : 0;
    if (places > s->places) s->places = places;
}

static void measure_width(style *s, double v) {
    char cell[CELL];
    write_styled(s, v, cell);
    char *point = strchr(cell, '.');
    int all = (int)strlen(cell), left = point ? (int)(point - cell) : 0;
    if (point == NULL) {
        if (all > s->special) s->special = all;
        return;
    }
    if (left > s->left) s->left = left;
    if (all - left > s->right) s->right = all - left;
}

/* ---- text that grows ---- */

typedef struct text {
    char *at;
    size_t size, room;
    bool failed;
} text;

static void put(text *out, const char *piece, size_t n) {
    if (out->failed) return;
    if (out->size + n + 1 > out->room) {
        size_t room = 2 * (out->size + n + 1) + 64;
        char *wider = moon_alloc(room);
        if (wider == NULL) {
            out->failed = true;
            return;
        }
        if (out->at != NULL) memcpy(wider, out->at, out->size);
        moon_free(out->at, out->room);
        out->at = wider, out->room = room;
    }
    memcpy(out->at + out->size, piece, n);
    out->size += n;
    out->at[out->size] = '\0';
}

static void puts_text(text *out, const char *piece) { put(out, piece, strlen(piece)); }

static void pad(text *out, int n) {
    while (n-- > 0) put(out, " ", 1);
}

/* ---- tensors ---- */

typedef struct printer {
    const moon_tensor *t;
    const moon_device *device;
    const char *data;
    bool summary;
    int width; /* of a cell */
    style re, im;
    bool floats, parts;
    int indent, column;
    text out;
} printer;

static const char *element(const printer *p, const int64_t *index) {
    int64_t at = 0;
    for (int i = 0; i < p->t->ndim; i++) at += index[i] * p->t->strides[i];
    return p->data + at * (int64_t)moon_itemsize(p->t);
}

static bool is_cut(const printer *p, int dim) { return p->summary && p->t->shape[dim] > 2 * moon_printing.edgeitems; }

/* the index after i among those shown; a cut leaps to the last edgeitems */
static int64_t following(const printer *p, int dim, int64_t i) {
    if (is_cut(p, dim) && i == moon_printing.edgeitems - 1) return p->t->shape[dim] - moon_printing.edgeitems;
    return i + 1;
}

static void each_shown(printer *p, int dim, int64_t *index, void (*visit)(printer *, const char *)) {
    if (dim == p->t->ndim) {
        visit(p, element(p, index));
        return;
    }
    for (index[dim] = 0; index[dim] < p->t->shape[dim]; index[dim] = following(p, dim, index[dim])) {
        each_shown(p, dim + 1, index, visit);
    }
}

static void visit_range(printer *p, const char *e) {
    moon_value v;
    moon_element_read((moon_dtype)p->t->dtype, e, &v);
    measure_range(&p->re, p->parts ? v.as.c[0] : v.as.f);
    if (p->parts) measure_range(&p->im, v.as.c[1]);
}

static void visit_places(printer *p, const char *e) {
    moon_value v;
    moon_element_read((moon_dtype)p->t->dtype, e, &v);
    measure_places(&p->re, p->parts ? v.as.c[0] : v.as.f);
    if (p->parts) measure_places(&p->im, v.as.c[1]);
}

static void visit_width(printer *p, const char *e) {
    moon_value v;
    moon_element_read((moon_dtype)p->t->dtype, e, &v);
    if (p->floats) {
        measure_width(&p->re, p->parts ? v.as.c[0] : v.as.f);
        if (p->parts) measure_width(&p->im, fabs(v.as.c[1]));
        return;
    }
    char cell[CELL];
    int n = moon_format_element((moon_dtype)p->t->dtype, e, cell, sizeof cell);
    if (n > p->width) p->width = n;
}

static void choose_exponent(style *s) {
    s->exponent = s->seen && (s->largest >= 1e8 || s->smallest < 1e-4 || s->largest / s->smallest > 1000);
}

/* nan and inf stand flush right */
static int settle(style *s) {
    if (s->special > s->left + s->right) s->left = s->special - s->right;
    return s->left + s->right;
}

static void choose_style(printer *p) {
    int64_t index[MOON_MAXDIM];
    moon_kind kind = (moon_kind)moon_dtypes[p->t->dtype].kind;
    p->floats = kind >= MOON_KIND_FLOAT;
    p->parts = kind == MOON_KIND_COMPLEX;
    p->re.dtype = p->im.dtype = (moon_dtype)p->t->dtype;
    if (p->floats) {
        each_shown(p, 0, index, visit_range);
        choose_exponent(&p->re);
        choose_exponent(&p->im);
        each_shown(p, 0, index, visit_places);
    }
    each_shown(p, 0, index, visit_width);
    if (p->floats) p->width = settle(&p->re);
    if (p->parts) p->width += 2 + settle(&p->im);
}

/* one float in its columns; returns what was written after the digits */
static int put_styled(printer *p, style *s, double v, bool align) {
    char cell[CELL];
    write_styled(s, v, cell);
    char *point = strchr(cell, '.');
    int all = (int)strlen(cell), left = point ? (int)(point - cell) : all;
    if (align) pad(&p->out, point ? s->left - left : s->left + s->right - all);
    puts_text(&p->out, cell);
    return point ? s->right - (all - left) : 0;
}

static void put_element(printer *p, const char *e) {
    moon_value v;
    if (p->floats) {
        moon_element_read((moon_dtype)p->t->dtype, e, &v);
        int rest = put_styled(p, &p->re, p->parts ? v.as.c[0] : v.as.f, true);
        if (p->parts) {
            pad(&p->out, rest);
            puts_text(&p->out, signbit(v.as.c[1]) && !isnan(v.as.c[1]) ? "-" : "+");
            rest = put_styled(p, &p->im, fabs(v.as.c[1]), false);
            puts_text(&p->out, "i");
        }
        pad(&p->out, rest);
        return;
    }
    char cell[CELL];
    int n = moon_format_element((moon_dtype)p->t->dtype, e, cell, sizeof cell);
    pad(&p->out, p->width - n);
    puts_text(&p->out, cell);
}

static void new_line(printer *p, int blank_lines, int indent) {
    for (int i = 0; i <= blank_lines; i++) put(&p->out, "\n", 1);
    pad(&p->out, indent);
    p->column = indent;
}

static void put_row(printer *p, int dim, int64_t *index) {
    put(&p->out, "[", 1);
    int indent = p->indent + dim + 1;
    p->column = indent;
    for (index[dim] = 0; index[dim] < p->t->shape[dim];) {
        int64_t i = index[dim], next = following(p, dim, i);
        put_element(p, element(p, index));
        p->column += p->width;
        if (next < p->t->shape[dim]) {
            put(&p->out, ",", 1);
            bool leap = next != i + 1;
            if (p->column + 2 + (leap ? 5 : 0) + p->width + p->t->ndim > moon_printing.linewidth) new_line(p, 0, indent);
            else put(&p->out, " ", 1), p->column += 2;
            if (leap) puts_text(&p->out, "..., "), p->column += 5;
        }
        index[dim] = next;
    }
    put(&p->out, "]", 1);
}

static void put_nested(printer *p, int dim, int64_t *index) {
    if (dim == p->t->ndim - 1) {
        put_row(p, dim, index);
        return;
    }
    put(&p->out, "[", 1);
    int indent = p->indent + dim + 1, gap = p->t->ndim - dim - 2;
    for (index[dim] = 0; index[dim] < p->t->shape[dim];) {
        int64_t i = index[dim], next = following(p, dim, i);
        put_nested(p, dim + 1, index);
        if (next < p->t->shape[dim]) {
            put(&p->out, ",", 1);
            new_line(p, gap, indent);
            if (next != i + 1) puts_text(&p->out, "..."), new_line(p, gap, indent);
        }
        index[dim] = next;
    }
    put(&p->out, "]", 1);
}

static void put_tensor(printer *p) {
    const moon_tensor *t = p->t;
    char shape[256], ending[400];
    int64_t index[MOON_MAXDIM];
    puts_text(&p->out, "tensor(");
    p->indent = 7;
    bool obvious = t->numel > 0 || (t->ndim == 1 && t->shape[0] == 0);
    if (t->numel == 0) {
        puts_text(&p->out, "[]");
    } else if (t->ndim == 0) {
        char cell[CELL];
        moon_format_element((moon_dtype)t->dtype, p->data, cell, sizeof cell);
        puts_text(&p->out, cell);
    } else {
        p->summary = t->numel > moon_printing.threshold;
        choose_style(p);
        put_nested(p, 0, index);
    }
    bool elsewhere = p->device != moon_cpu();
    snprintf(ending, sizeof ending, "%s%s, %s%s%s)",
             obvious ? "" : ", shape=", obvious ? "" : moon_shape_text(t->ndim, t->shape, shape, sizeof shape),
             moon_dtypes[t->dtype].name, elsewhere ? ", device=" : "", elsewhere ? p->device->name : "");
    if (p->column + t->ndim + (int)strlen(ending) > moon_printing.linewidth) {
        put(&p->out, ",", 1);
        new_line(p, 0, p->indent);
        puts_text(&p->out, ending + 2);
        return;
    }
    puts_text(&p->out, ending);
}

moon_status moon_format(const moon_tensor *t, char **out, size_t *size) {
    if (t->storage == NULL) return moon_fail(MOON_ECLOSED, "tensor is closed");
    moon_draft host;
    printer p = {.t = t, .device = t->storage->device, .data = moon_data(t)};
    bool copied = t->storage->host == NULL && t->numel > 0;
    if (copied) {
        moon_status s = moon_draft_contiguous(&host, (moon_dtype)t->dtype, t->ndim, t->shape);
        if (s == MOON_OK) s = moon_tensor_alloc(&host.t, moon_cpu());
        if (s != MOON_OK) return s;
        s = moon_copy(&host.t, t);
        if (s != MOON_OK) {
            moon_tensor_close(&host.t);
            return s;
        }
        p.t = &host.t, p.data = moon_data(&host.t);
    }
    put_tensor(&p);
    if (copied) moon_tensor_close(&host.t);
    if (!p.out.failed) {
        /* exactly size + 1 bytes, as the caller frees them */
        char *exact = moon_alloc(p.out.size + 1);
        if (exact != NULL) memcpy(exact, p.out.at, p.out.size + 1);
        p.out.failed = exact == NULL;
        *out = exact, *size = p.out.size;
    }
    moon_free(p.out.at, p.out.room);
    return p.out.failed ? moon_fail(MOON_EMEMORY, "out of memory") : MOON_OK;
}
