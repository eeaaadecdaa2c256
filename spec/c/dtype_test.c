#include "check.h"

#include <math.h>

static void table(void) {
    static const char *const names[] = {"bool",    "int8",      "int16",      "int32",         "int64",      "uint8",
                                        "uint16",  "uint32",    "uint64",     "float16",       "bfloat16",   "float32",
                                        "float64", "complex64", "complex128", "float8_e4m3fn", "float8_e5m2"};
    static const int sizes[] = {1, 1, 2, 4, 8, 1, 2, 4, 8, 2, 2, 4, 8, 8, 16, 1, 1};
    CHECK_INT(MOON_DTYPE_COUNT, 17);
    for (int d = 0; d < MOON_DTYPE_COUNT; d++) {
        moon_dtype found = MOON_DTYPE_COUNT, back = MOON_DTYPE_COUNT;
        CHECK(strcmp(moon_dtypes[d].name, names[d]) == 0);
        CHECK_INT(moon_dtypes[d].size, sizes[d]);
        CHECK_INT(moon_dtypes[d].dl.bits, 8 * sizes[d]);
        CHECK(moon_dtype_find(names[d], &found) && found == (moon_dtype)d);
        OK(moon_dtype_from_dl(moon_dtypes[d].dl, &back));
        CHECK_INT(back, d);
    }
}

static void names(void) {
    moon_dtype d;
    CHECK(moon_dtype_find("torch.float32", &d) && d == MOON_FLOAT32);
    CHECK(moon_dtype_find("numpy.uint16", &d) && d == MOON_UINT16);
    CHECK(moon_dtype_find("double", &d) && d == MOON_FLOAT64);
    CHECK(moon_dtype_find("torch.half", &d) && d == MOON_FLOAT16);
    CHECK(moon_dtype_find("long", &d) && d == MOON_INT64);
    CHECK(moon_dtype_find("int", &d) && d == MOON_INT32);
    CHECK(moon_dtype_find("short", &d) && d == MOON_INT16);
    CHECK(moon_dtype_find("cfloat", &d) && d == MOON_COMPLEX64);
    CHECK(moon_dtype_find("cdouble", &d) && d == MOON_COMPLEX128);
    CHECK(moon_dtype_find("float", &d) && d == MOON_FLOAT32);
    CHECK(!moon_dtype_find("numpy.float", &d));
    CHECK(!moon_dtype_find("float33", &d));
    CHECK(!moon_dtype_find("", &d));
}

/* ---- conversions against formulas of their own ---- */

/* the value of a code with E exponent and M mantissa bits */
static double decode(uint32_t code, int E, int M, bool no_infinity) {
    int bias = (1 << (E - 1)) - 1;
    uint32_t mantissa = code & ((1u << M) - 1), exponent = (code >> M) & ((1u << E) - 1);
    double sign = code >> (E + M) & 1 ? -1 : 1;
    if (exponent == (1u << E) - 1) {
        if (!no_infinity) return mantissa ? NAN : sign * INFINITY;
        if (mantissa == (1u << M) - 1) return NAN;
    }
    if (exponent == 0) return sign * ldexp(mantissa, 1 - bias - M);
    return sign * ldexp((1 << M) + (int)mantissa, (int)exponent - bias - M);
}

typedef struct format {
    int E, M;
    bool no_infinity;
    moon_dtype dtype;
} format;

static const format formats[] = {{5, 10, false, MOON_FLOAT16},
                                 {8, 7, false, MOON_BFLOAT16},
                                 {4, 3, true, MOON_FLOAT8_E4M3FN},
                                 {5, 2, false, MOON_FLOAT8_E5M2}};

static float to_float(const format *f, uint32_t code) {
    switch (f->dtype) {
    case MOON_FLOAT16: return moon_half_to_float((uint16_t)code);
    case MOON_BFLOAT16: return moon_bfloat_to_float((uint16_t)code);
    case MOON_FLOAT8_E4M3FN: return moon_e4m3_to_float((uint8_t)code);
    default: return moon_e5m2_to_float((uint8_t)code);
    }
}

static uint32_t from_float(const format *f, float v) {
    switch (f->dtype) {
    case MOON_FLOAT16: return moon_float_to_half(v);
    case MOON_BFLOAT16: return moon_float_to_bfloat(v);
    case MOON_FLOAT8_E4M3FN: return moon_float_to_e4m3(v);
    default: return moon_float_to_e5m2(v);
    }
}

static void small_round_trip(void) {
    for (int k = 0; k < 4; k++) {
        const format *f = &formats[k];
        for (uint32_t code = 0; code < 1u << (1 + f->E + f->M); code++) {
            float v = to_float(f, code);
            double want = decode(code, f->E, f->M, f->no_infinity);
            CHECK(isnan(want) ? isnan(v) : (double)v == want && !signbit(v) == !signbit(want));
            CHECK_INT(from_float(f, v), code); /* NaN payloads too */
        }
    }
}

/* the nearest code, ties to even, by bisection over the positive codes, whose values rise */
static uint32_t nearest(const format *f, long double v) {
    uint32_t sign = signbit(v) ? 1u << (f->E + f->M) : 0, low = 0, top = (1u << (f->E + f->M)) - 1;
    v = fabsl(v);
    while (!isfinite(decode(top, f->E, f->M, f->no_infinity))) top--;
    long double largest = decode(top, f->E, f->M, f->no_infinity);
    long double step = largest - decode(top - 1, f->E, f->M, f->no_infinity);
    if (f->no_infinity ? v > largest + step / 2 : v >= largest + step / 2) return (top + 1) | sign; /* infinity, or NaN */
    if (v >= largest) return top | sign;
    uint32_t high = top;
    while (high - low > 1) {
        uint32_t middle = (low + high) / 2;
        if (decode(middle, f->E, f->M, f->no_infinity) <= v) low = middle;
        else high = middle;
    }
    long double below = v - decode(low, f->E, f->M, f->no_infinity), above = decode(high, f->E, f->M, f->no_infinity) - v;
    return (below < above || (below == above && low % 2 == 0) ? low : high) | sign;
}

uint32_t nearest_code(moon_dtype dtype, long double v) {
    for (int k = 0; k < 4; k++) {
        if (formats[k].dtype == dtype) return nearest(&formats[k], v);
    }
    return 0;
}

static void rounding(void) {
    for (int k = 0; k < 4; k++) {
        const format *f = &formats[k];
        for (uint32_t code = 0; code + 1 < 1u << (f->E + f->M); code++) {
            float a = to_float(f, code), b = to_float(f, code + 1);
            if (!isfinite(a)) continue;
            float next = isfinite(b) ? b : a + (a - to_float(f, code - 1));
            float middle = a + (next - a) / 2;
            float tries[] = {middle, nextafterf(middle, 0), nextafterf(middle, INFINITY), a + (next - a) / 3};
            for (int i = 0; i < 4; i++) {
                CHECK_INT(from_float(f, tries[i]), nearest(f, tries[i]));
                CHECK_INT(from_float(f, -tries[i]), nearest(f, -tries[i]));
            }
        }
        for (int i = 0; i < rounds(20000); i++) {
            uint32_t bits = (uint32_t)next_random();
            float v;
            memcpy(&v, &bits, sizeof v);
            if (!isnan(v)) CHECK_INT(from_float(f, v), nearest(f, v));
        }
    }
}

/* one rounding only, where float32 in between would make it two */
static void wide_rounding(void) {
    for (int k = 0; k < 4; k++) {
        const format *f = &formats[k];
        for (int i = 0; i < rounds(20000); i++) {
            uint32_t code = (uint32_t)random_below((1 << (f->E + f->M)) - 2);
            double a = decode(code, f->E, f->M, f->no_infinity), b = decode(code + 1, f->E, f->M, f->no_infinity);
            if (!isfinite(a) || !isfinite(b)) continue;
            double v = a + (b - a) / 2;
            v = nextafter(v, random_below(2) ? INFINITY : 0);
            uint32_t got = 0;
            OK(moon_element_write(f->dtype, &got, &(moon_value){MOON_VALUE_FLOAT, {.f = v}}));
            CHECK_INT(got, nearest(f, v));
            int64_t n = (int64_t)(next_random() >> random_below(63));
            got = 0;
            OK(moon_element_write(f->dtype, &got, &(moon_value){MOON_VALUE_INT, {.i = n}}));
            CHECK_INT(got, nearest(f, (long double)n));
        }
        /* halfway in the narrow format but for the last bit of an integer that float32 cannot hold */
        int64_t n = (INT64_C(1) << 60) + (INT64_C(1) << (59 - f->M)) + 1;
        uint32_t got = 0;
        OK(moon_element_write(f->dtype, &got, &(moon_value){MOON_VALUE_INT, {.i = n}}));
        CHECK_INT(got, nearest(f, (long double)n));
    }
}

static void infinities(void) {
    CHECK_INT(moon_float_to_half(65519.996f), 0x7bff);
    CHECK_INT(moon_float_to_half(65520.0f), 0x7c00);
    CHECK_INT(moon_float_to_half(-INFINITY), 0xfc00);
    CHECK_INT(moon_float_to_e4m3(464.0f), 0x7e);
    CHECK_INT(moon_float_to_e4m3(465.0f), 0x7f);
    CHECK_INT(moon_float_to_e4m3(-INFINITY), 0xff);
    CHECK_INT(moon_float_to_e5m2(INFINITY), 0x7c);
    CHECK(isnan(moon_half_to_float(moon_float_to_half(NAN))));
    CHECK(isnan(moon_bfloat_to_float(moon_float_to_bfloat(NAN))));
    uint32_t thin = 0x7f800001; /* a NaN whose payload fits no narrower format */
    float v;
    memcpy(&v, &thin, sizeof v);
    CHECK(isnan(moon_half_to_float(moon_float_to_half(v))));
    CHECK(isnan(moon_bfloat_to_float(moon_float_to_bfloat(v))));
    CHECK(isnan(moon_e4m3_to_float(moon_float_to_e4m3(v))));
    CHECK(isnan(moon_e5m2_to_float(moon_float_to_e5m2(v))));
}

/* ---- promotion ---- */

static moon_dtype named(const char *name) {
    moon_dtype d = MOON_DTYPE_COUNT;
    CHECK(moon_dtype_find(name, &d));
    return d;
}

static void promotes(const char *a, const char *b, const char *want) {
    moon_dtype got = moon_promote(named(a), named(b)), turned = moon_promote(named(b), named(a));
    if (got != named(want)) check_failed(a, 0, "with %s gives %s, expected %s", b, moon_dtypes[got].name, want);
    CHECK_INT(got, turned);
}

static void promotion(void) {
    /* numpy.promote_types, NumPy 2.4 */
    promotes("bool", "int8", "int8");
    promotes("bool", "float16", "float16");
    promotes("int8", "uint8", "int16");
    promotes("int8", "uint16", "int32");
    promotes("int16", "uint8", "int16");
    promotes("int32", "uint32", "int64");
    promotes("int64", "uint32", "int64");
    promotes("int64", "uint64", "float64");
    promotes("int8", "uint64", "float64");
    promotes("int8", "float16", "float16");
    promotes("uint8", "float16", "float16");
    promotes("int16", "float16", "float32");
    promotes("uint16", "float16", "float32");
    promotes("int32", "float16", "float64");
    promotes("int16", "float32", "float32");
    promotes("int32", "float32", "float64");
    promotes("int64", "float32", "float64");
    promotes("float16", "float32", "float32");
    promotes("float32", "float64", "float64");
    promotes("float32", "complex64", "complex64");
    promotes("float64", "complex64", "complex128");
    promotes("int16", "complex64", "complex64");
    promotes("int32", "complex64", "complex128");
    promotes("complex64", "complex128", "complex128");
    /* as torch */
    promotes("float16", "bfloat16", "float32");
    promotes("int64", "bfloat16", "bfloat16");
    promotes("bfloat16", "complex64", "complex64");
    /* ours, where both refuse */
    promotes("float8_e4m3fn", "float8_e5m2", "float32");
    promotes("float8_e4m3fn", "float16", "float16");
    promotes("float8_e5m2", "int32", "float8_e5m2");
    for (int a = 0; a < MOON_DTYPE_COUNT; a++) CHECK_INT(moon_promote((moon_dtype)a, (moon_dtype)a), a);
}

static void weak_scalars(void) {
    moon_value b = {MOON_VALUE_BOOL, {.b = true}}, i = {MOON_VALUE_INT, {.i = 3}}, f = {MOON_VALUE_FLOAT, {.f = 1.5}},
               c = {MOON_VALUE_COMPLEX, {.c = {1, 2}}};
    CHECK_INT(moon_promote_value(&b, MOON_INT8), MOON_INT8);
    CHECK_INT(moon_promote_value(&i, MOON_BOOL), MOON_INT64);
    CHECK_INT(moon_promote_value(&i, MOON_UINT8), MOON_UINT8);
    CHECK_INT(moon_promote_value(&i, MOON_FLOAT16), MOON_FLOAT16);
    CHECK_INT(moon_promote_value(&f, MOON_UINT8), MOON_FLOAT64);
    CHECK_INT(moon_promote_value(&f, MOON_FLOAT16), MOON_FLOAT16);
    CHECK_INT(moon_promote_value(&f, MOON_COMPLEX64), MOON_COMPLEX64);
    CHECK_INT(moon_promote_value(&c, MOON_FLOAT32), MOON_COMPLEX64);
    CHECK_INT(moon_promote_value(&c, MOON_FLOAT64), MOON_COMPLEX128);
    CHECK_INT(moon_promote_value(&c, MOON_INT8), MOON_COMPLEX128);
    CHECK_INT(moon_value_dtype(&i), MOON_INT64);
    CHECK_INT(moon_value_dtype(&f), MOON_FLOAT32);
    CHECK_INT(moon_value_dtype(&b), MOON_BOOL);
}

/* ---- elements ---- */

static moon_status write_int(moon_dtype d, int64_t v) {
    char bytes[16];
    return moon_element_write(d, bytes, &(moon_value){MOON_VALUE_INT, {.i = v}});
}

static moon_status write_float(moon_dtype d, double v) {
    char bytes[16];
    return moon_element_write(d, bytes, &(moon_value){MOON_VALUE_FLOAT, {.f = v}});
}

static void writing(void) {
    char bytes[16];
    FAILS(write_int(MOON_UINT8, 256), MOON_EVALUE, "256|uint8");
    FAILS(write_int(MOON_UINT8, -1), MOON_EVALUE, "-1|uint8");
    FAILS(write_int(MOON_INT8, 128), MOON_EVALUE, "128|int8");
    FAILS(write_int(MOON_INT8, -129), MOON_EVALUE, "-129|int8");
    FAILS(write_int(MOON_BOOL, 2), MOON_EVALUE, "2|bool");
    FAILS(write_int(MOON_UINT64, -1), MOON_EVALUE, "-1|uint64");
    FAILS(write_float(MOON_INT32, 1.5), MOON_EVALUE, "1.5|fraction");
    FAILS(write_float(MOON_INT32, NAN), MOON_EVALUE, "nan|range");
    FAILS(write_float(MOON_INT64, 9223372036854775808.0), MOON_EVALUE, "range");
    FAILS(write_float(MOON_UINT64, 18446744073709551616.0), MOON_EVALUE, "range");
    FAILS(moon_element_write(MOON_FLOAT32, bytes, &(moon_value){MOON_VALUE_COMPLEX, {.c = {1, 2}}}), MOON_EVALUE, "imaginary");
    FAILS(moon_element_write(MOON_INT32, bytes, &(moon_value){MOON_VALUE_COMPLEX, {.c = {1, 2}}}), MOON_EVALUE, "imaginary");
    FAILS(moon_element_write(MOON_INT64, bytes, &(moon_value){MOON_VALUE_UINT, {.u = UINT64_MAX}}), MOON_EVALUE,
          "18446744073709551615");
    OK(write_int(MOON_INT8, -128));
    OK(write_int(MOON_INT64, INT64_MIN));
    OK(write_float(MOON_UINT8, 255.0));
    OK(write_float(MOON_INT64, -9223372036854775808.0));
    OK(write_float(MOON_FLOAT16, 1e300));
}

static void reading(void) {
    moon_value v;
    uint64_t big = UINT64_MAX;
    moon_element_read(MOON_UINT64, &big, &v);
    CHECK(v.kind == MOON_VALUE_UINT && v.as.u == UINT64_MAX);
    big = 7;
    moon_element_read(MOON_UINT64, &big, &v);
    CHECK(v.kind == MOON_VALUE_INT && v.as.i == 7);
    uint8_t seven = 7;
    moon_element_read(MOON_BOOL, &seven, &v);
    CHECK(v.kind == MOON_VALUE_BOOL && v.as.b);
    char odd[17] = {0}; /* unaligned addresses are fine */
    OK(moon_element_write(MOON_COMPLEX128, odd + 1, &(moon_value){MOON_VALUE_COMPLEX, {.c = {1.5, -2}}}));
    moon_element_read(MOON_COMPLEX128, odd + 1, &v);
    CHECK(v.kind == MOON_VALUE_COMPLEX && v.as.c[0] == 1.5 && v.as.c[1] == -2);
    int64_t large = INT64_MAX;
    float f;
    OK(moon_element_write(MOON_FLOAT32, &f, &(moon_value){MOON_VALUE_INT, {.i = large}}));
    CHECK(f == 9223372036854775808.0f);
}

SUITE(dtype_suite, TEST(table), TEST(names), TEST(small_round_trip), TEST(rounding), TEST(wide_rounding), TEST(infinities),
      TEST(promotion), TEST(weak_scalars), TEST(writing), TEST(reading));
