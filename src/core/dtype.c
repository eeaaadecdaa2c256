#include "dtype.h"
#include "half.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

const moon_dtype_info moon_dtypes[MOON_DTYPE_COUNT] = {
    [MOON_BOOL] = {"bool", 1, 1, MOON_KIND_BOOL, {MOON_DL_BOOL, 8, 1}},
    [MOON_INT8] = {"int8", 1, 1, MOON_KIND_INT, {MOON_DL_INT, 8, 1}},
    [MOON_INT16] = {"int16", 2, 2, MOON_KIND_INT, {MOON_DL_INT, 16, 1}},
    [MOON_INT32] = {"int32", 4, 4, MOON_KIND_INT, {MOON_DL_INT, 32, 1}},
    [MOON_INT64] = {"int64", 8, 8, MOON_KIND_INT, {MOON_DL_INT, 64, 1}},
    [MOON_UINT8] = {"uint8", 1, 1, MOON_KIND_UINT, {MOON_DL_UINT, 8, 1}},
    [MOON_UINT16] = {"uint16", 2, 2, MOON_KIND_UINT, {MOON_DL_UINT, 16, 1}},
    [MOON_UINT32] = {"uint32", 4, 4, MOON_KIND_UINT, {MOON_DL_UINT, 32, 1}},
    [MOON_UINT64] = {"uint64", 8, 8, MOON_KIND_UINT, {MOON_DL_UINT, 64, 1}},
    [MOON_FLOAT16] = {"float16", 2, 2, MOON_KIND_FLOAT, {MOON_DL_FLOAT, 16, 1}},
    [MOON_BFLOAT16] = {"bfloat16", 2, 2, MOON_KIND_FLOAT, {MOON_DL_BFLOAT, 16, 1}},
    [MOON_FLOAT32] = {"float32", 4, 4, MOON_KIND_FLOAT, {MOON_DL_FLOAT, 32, 1}},
    [MOON_FLOAT64] = {"float64", 8, 8, MOON_KIND_FLOAT, {MOON_DL_FLOAT, 64, 1}},
    [MOON_COMPLEX64] = {"complex64", 8, 4, MOON_KIND_COMPLEX, {MOON_DL_COMPLEX, 64, 1}},
    [MOON_COMPLEX128] = {"complex128", 16, 8, MOON_KIND_COMPLEX, {MOON_DL_COMPLEX, 128, 1}},
    [MOON_FLOAT8_E4M3FN] = {"float8_e4m3fn", 1, 1, MOON_KIND_FLOAT, {MOON_DL_FLOAT8_E4M3FN, 8, 1}},
    [MOON_FLOAT8_E5M2] = {"float8_e5m2", 1, 1, MOON_KIND_FLOAT, {MOON_DL_FLOAT8_E5M2, 8, 1}},
};

static const struct {
    const char *name;
    moon_dtype dtype;
} aliases[] = {
    {"float", MOON_FLOAT32}, {"double", MOON_FLOAT64}, {"half", MOON_FLOAT16},     {"long", MOON_INT64},
    {"int", MOON_INT32},     {"short", MOON_INT16},    {"cfloat", MOON_COMPLEX64}, {"cdouble", MOON_COMPLEX128},
};

bool moon_dtype_find(const char *name, moon_dtype *out) {
    bool numpy = strncmp(name, "numpy.", 6) == 0;
    if (numpy || strncmp(name, "torch.", 6) == 0) name += 6;
    for (int d = 0; d < MOON_DTYPE_COUNT; d++) {
        if (strcmp(name, moon_dtypes[d].name) == 0) return *out = (moon_dtype)d, true;
    }
    /* NumPy's names mean other widths there ("long", "float") */
    if (numpy) return false;
    for (size_t i = 0; i < sizeof aliases / sizeof *aliases; i++) {
        if (strcmp(name, aliases[i].name) == 0) return *out = aliases[i].dtype, true;
    }
    return false;
}

moon_status moon_dtype_from_dl(moon_dl_dtype dl, moon_dtype *out) {
    for (int d = 0; d < MOON_DTYPE_COUNT; d++) {
        moon_dl_dtype ours = moon_dtypes[d].dl;
        if (ours.code != dl.code || ours.bits != dl.bits) continue;
        if (dl.lanes != 1) {
            return moon_fail(MOON_EDTYPE, "dtype %s with %d lanes is not supported, only 1 lane is", moon_dtypes[d].name,
                             dl.lanes);
        }
        return *out = (moon_dtype)d, MOON_OK;
    }
    return moon_fail(MOON_EDTYPE, "dtype with DLPack code %d, %d bits, %d lanes is not one of moontensor's", dl.code, dl.bits,
                     dl.lanes);
}

/* ---- promotion ---- */

static bool is_float8(moon_dtype d) { return d == MOON_FLOAT8_E4M3FN || d == MOON_FLOAT8_E5M2; }

static moon_dtype promote_integers(moon_dtype a, moon_dtype b) {
    if (moon_dtypes[a].kind == moon_dtypes[b].kind) return moon_dtypes[a].size >= moon_dtypes[b].size ? a : b;
    moon_dtype s = moon_dtypes[a].kind == MOON_KIND_INT ? a : b, u = s == a ? b : a;
    if (moon_dtypes[s].size > moon_dtypes[u].size) return s;
    switch (moon_dtypes[u].size) {
    case 1: return MOON_INT16;
    case 2: return MOON_INT32;
    case 4: return MOON_INT64;
    default: return MOON_FLOAT64;
    }
}

/* bfloat16 and float8 stay beside integers, as in torch; the others grow until they hold them, as in NumPy */
static moon_dtype promote_float_integer(moon_dtype f, moon_dtype i) {
    if (f == MOON_BFLOAT16 || f == MOON_FLOAT64 || is_float8(f)) return f;
    if (moon_dtypes[i].size >= 4) return MOON_FLOAT64;
    return f == MOON_FLOAT16 && moon_dtypes[i].size == 1 ? MOON_FLOAT16 : MOON_FLOAT32;
}

static moon_dtype promote_floats(moon_dtype a, moon_dtype b) {
    if (moon_dtypes[a].size != moon_dtypes[b].size) return moon_dtypes[a].size > moon_dtypes[b].size ? a : b;
    return MOON_FLOAT32; /* float16 with bfloat16, the two float8 */
}

moon_dtype moon_promote(moon_dtype a, moon_dtype b) {
    if (a == b) return a;
    if (moon_dtypes[a].kind < moon_dtypes[b].kind) {
        moon_dtype t = a;
        a = b, b = t;
    }
    moon_kind high = (moon_kind)moon_dtypes[a].kind, low = (moon_kind)moon_dtypes[b].kind;
    if (low == MOON_KIND_BOOL) return a;
    if (high <= MOON_KIND_UINT) return promote_integers(a, b);
    if (high == MOON_KIND_FLOAT) return low == MOON_KIND_FLOAT ? promote_floats(a, b) : promote_float_integer(a, b);
    if (low == MOON_KIND_COMPLEX) return MOON_COMPLEX128;
    moon_dtype real = a == MOON_COMPLEX64 ? MOON_FLOAT32 : MOON_FLOAT64;
    return moon_promote(real, b) == MOON_FLOAT64 ? MOON_COMPLEX128 : MOON_COMPLEX64;
}

moon_dtype moon_value_dtype(const moon_value *value) {
    switch (value->kind) {
    case MOON_VALUE_BOOL: return MOON_BOOL;
    case MOON_VALUE_INT: return MOON_INT64;
    case MOON_VALUE_UINT: return MOON_UINT64;
    case MOON_VALUE_FLOAT: return MOON_FLOAT32;
    default: return MOON_COMPLEX64;
    }
}

moon_dtype moon_promote_value(const moon_value *value, moon_dtype beside) {
    moon_kind kind = (moon_kind)moon_dtypes[beside].kind;
    switch (value->kind) {
    case MOON_VALUE_BOOL: return beside;
    case MOON_VALUE_INT:
    case MOON_VALUE_UINT: return kind == MOON_KIND_BOOL ? moon_value_dtype(value) : beside;
    case MOON_VALUE_FLOAT: return kind < MOON_KIND_FLOAT ? MOON_FLOAT64 : beside;
    default:
        if (kind < MOON_KIND_FLOAT || beside == MOON_FLOAT64) return MOON_COMPLEX128;
        return kind == MOON_KIND_COMPLEX ? beside : MOON_COMPLEX64;
    }
}

/* ---- elements ---- */

static uint16_t bits16(const void *p) {
    uint16_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

#define LOAD(type, field)                \
    do {                                 \
        type v_;                         \
        memcpy(&v_, element, sizeof v_); \
        out->as.field = v_;              \
    } while (0)

static void read_integer(moon_dtype dtype, const void *element, moon_value *out) {
    out->kind = MOON_VALUE_INT;
    switch (dtype) {
    case MOON_INT8: LOAD(int8_t, i); break;
    case MOON_INT16: LOAD(int16_t, i); break;
    case MOON_INT32: LOAD(int32_t, i); break;
    case MOON_INT64: LOAD(int64_t, i); break;
    case MOON_UINT8: LOAD(uint8_t, i); break;
    case MOON_UINT16: LOAD(uint16_t, i); break;
    case MOON_UINT32: LOAD(uint32_t, i); break;
    default:
        LOAD(uint64_t, u);
        if (out->as.u <= INT64_MAX) out->as.i = (int64_t)out->as.u;
        else out->kind = MOON_VALUE_UINT;
    }
}

void moon_element_read(moon_dtype dtype, const void *element, moon_value *out) {
    out->kind = MOON_VALUE_FLOAT;
    switch (dtype) {
    case MOON_BOOL:
        out->kind = MOON_VALUE_BOOL;
        out->as.b = *(const uint8_t *)element != 0;
        return;
    case MOON_FLOAT16: out->as.f = moon_half_to_float(bits16(element)); return;
    case MOON_BFLOAT16: out->as.f = moon_bfloat_to_float(bits16(element)); return;
    case MOON_FLOAT8_E4M3FN: out->as.f = moon_e4m3_to_float(*(const uint8_t *)element); return;
    case MOON_FLOAT8_E5M2: out->as.f = moon_e5m2_to_float(*(const uint8_t *)element); return;
    case MOON_FLOAT32: LOAD(float, f); return;
    case MOON_FLOAT64: LOAD(double, f); return;
    case MOON_COMPLEX64: {
        float c[2];
        memcpy(c, element, sizeof c);
        out->kind = MOON_VALUE_COMPLEX;
        out->as.c[0] = c[0], out->as.c[1] = c[1];
        return;
    }
    case MOON_COMPLEX128:
        out->kind = MOON_VALUE_COMPLEX;
        memcpy(out->as.c, element, sizeof out->as.c);
        return;
    default: read_integer(dtype, element, out);
    }
}

static moon_status unfit(moon_dtype dtype, const moon_value *v, const char *why) {
    const char *name = moon_dtypes[dtype].name;
    switch (v->kind) {
    case MOON_VALUE_INT: return moon_fail(MOON_EVALUE, "%" PRId64 " %s %s", v->as.i, why, name);
    case MOON_VALUE_UINT: return moon_fail(MOON_EVALUE, "%" PRIu64 " %s %s", v->as.u, why, name);
    case MOON_VALUE_COMPLEX: return moon_fail(MOON_EVALUE, "%.14g%+.14gi %s %s", v->as.c[0], v->as.c[1], why, name);
    default: return moon_fail(MOON_EVALUE, "%.14g %s %s", v->as.f, why, name);
    }
}

/* the value as an integer: a sign and a magnitude; exact or refused */
static moon_status as_integer(moon_dtype dtype, const moon_value *v, bool *negative, uint64_t *magnitude) {
    switch (v->kind) {
    case MOON_VALUE_BOOL: *negative = false, *magnitude = v->as.b; return MOON_OK;
    case MOON_VALUE_UINT: *negative = false, *magnitude = v->as.u; return MOON_OK;
    case MOON_VALUE_INT:
        *negative = v->as.i < 0;
        *magnitude = *negative ? 0 - (uint64_t)v->as.i : (uint64_t)v->as.i;
        return MOON_OK;
    default: break;
    }
    double f = v->kind == MOON_VALUE_FLOAT ? v->as.f : v->as.c[0];
    if (v->kind == MOON_VALUE_COMPLEX && v->as.c[1] != 0) return unfit(dtype, v, "has an imaginary part and does not fit");
    if (!(fabs(f) < 18446744073709551616.0)) return unfit(dtype, v, "is out of range for");
    if (f != trunc(f)) return unfit(dtype, v, "has a fraction and does not fit");
    *negative = f < 0;
    *magnitude = (uint64_t)fabs(f);
    return MOON_OK;
}

static moon_status write_integer(moon_dtype dtype, void *element, const moon_value *v) {
    bool negative = false;
    uint64_t m = 0;
    moon_status s = as_integer(dtype, v, &negative, &m);
    if (s != MOON_OK) return s;
    int bits = 8 * moon_dtypes[dtype].size;
    uint64_t limit = 1; /* bool */
    if (moon_dtypes[dtype].kind == MOON_KIND_UINT) limit = UINT64_MAX >> (64 - bits);
    if (moon_dtypes[dtype].kind == MOON_KIND_INT) limit = (UINT64_MAX >> (65 - bits)) + negative;
    if (moon_dtypes[dtype].kind != MOON_KIND_INT && negative && m != 0) limit = 0;
    if (m > limit) { return unfit(dtype, v, dtype == MOON_BOOL ? "is neither 0 nor 1 and does not fit" : "is out of range for"); }
    uint64_t word = negative ? 0 - m : m;
    switch (moon_dtypes[dtype].size) {
    case 1: memcpy(element, &(uint8_t){(uint8_t)word}, 1); break;
    case 2: memcpy(element, &(uint16_t){(uint16_t)word}, 2); break;
    case 4: memcpy(element, &(uint32_t){(uint32_t)word}, 4); break;
    default: memcpy(element, &word, 8);
    }
    return MOON_OK;
}

moon_status moon_element_write(moon_dtype dtype, void *element, const moon_value *v) {
    moon_kind kind = (moon_kind)moon_dtypes[dtype].kind;
    if (kind < MOON_KIND_FLOAT) return write_integer(dtype, element, v);
    double re = 0, im = 0;
    switch (v->kind) {
    case MOON_VALUE_BOOL: re = v->as.b; break;
    case MOON_VALUE_INT: re = (double)v->as.i; break;
    case MOON_VALUE_UINT: re = (double)v->as.u; break;
    case MOON_VALUE_FLOAT: re = v->as.f; break;
    default: re = v->as.c[0], im = v->as.c[1];
    }
    if (kind == MOON_KIND_FLOAT && im != 0) return unfit(dtype, v, "has an imaginary part and does not fit");
    /* integers go to floats in one rounding, not through double */
    float narrow = (float)re, odd = moon_odd(re);
    if (v->kind == MOON_VALUE_INT) narrow = (float)v->as.i, odd = moon_odd_signed(v->as.i);
    if (v->kind == MOON_VALUE_UINT) narrow = (float)v->as.u, odd = moon_odd_unsigned(v->as.u);
    switch (dtype) {
    case MOON_FLOAT16: memcpy(element, &(uint16_t){moon_float_to_half(odd)}, 2); break;
    case MOON_BFLOAT16: memcpy(element, &(uint16_t){moon_float_to_bfloat(odd)}, 2); break;
    case MOON_FLOAT8_E4M3FN: memcpy(element, &(uint8_t){moon_float_to_e4m3(odd)}, 1); break;
    case MOON_FLOAT8_E5M2: memcpy(element, &(uint8_t){moon_float_to_e5m2(odd)}, 1); break;
    case MOON_FLOAT32: memcpy(element, &narrow, 4); break;
    case MOON_FLOAT64: memcpy(element, &re, 8); break;
    case MOON_COMPLEX64: memcpy(element, &(float[2]){narrow, (float)im}, 8); break;
    default: memcpy(element, &(double[2]){re, im}, 16);
    }
    return MOON_OK;
}
