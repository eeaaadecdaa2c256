#include "check.h"

#include <math.h>

#include "../../src/core/format.h"
#include "../../src/core/ops.h"

static void prints(int line, const moon_tensor *t, const char *want) {
    char *text = NULL;
    size_t size = 0;
    OK(moon_format(t, &text, &size));
    if (text == NULL) return;
    if (strcmp(text, want) != 0 || strlen(text) != size) check_failed(__FILE__, line, "prints\n%s\nexpected\n%s", text, want);
    moon_free(text, size + 1);
}

#define FLOATS(dtype, want, shape, ...) floats(__LINE__, dtype, want, shape, (const double[]){__VA_ARGS__})
static void floats(int line, moon_dtype dtype, const char *want, int ndim, const int64_t *shape, const double *values) {
    moon_draft d;
    make(&d, dtype, ndim, shape);
    for (int64_t i = 0; i < d.t.numel; i++) {
        OK(moon_element_write(dtype, element_number(&d.t, i), &(moon_value){MOON_VALUE_FLOAT, {.f = values[i]}}));
    }
    prints(line, &d.t, want);
    moon_tensor_close(&d.t);
}

#define SHAPE(...) \
    (sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (int64_t[]) { __VA_ARGS__ }

#define SCALAR 0, NULL

static void tensors(void) {
    FLOATS(MOON_INT64, "tensor([[1, 2],\n        [3, 4]], int64)", SHAPE(2, 2), 1, 2, 3, 4);
    FLOATS(MOON_INT8, "tensor([[  1,   2],\n        [-30, 100]], int8)", SHAPE(2, 2), 1, 2, -30, 100);
    FLOATS(MOON_FLOAT64, "tensor([-2. ,  1.5,  3. ], float64)", SHAPE(3), -2, 1.5, 3);
    FLOATS(MOON_FLOAT32, "tensor([0.1 , 2.25], float32)", SHAPE(2), 0.1, 2.25);
    FLOATS(MOON_FLOAT32, "tensor([0.3333, 1.    ], float32)", SHAPE(2), 1.0 / 3, 1);
    FLOATS(MOON_FLOAT32, "tensor([1.5, nan, inf], float32)", SHAPE(3), 1.5, NAN, INFINITY);
    FLOATS(MOON_FLOAT32, "tensor([ 1.5, -inf], float32)", SHAPE(2), 1.5, -INFINITY);
    FLOATS(MOON_FLOAT32, "tensor([1.0e+10, 1.5e+00], float32)", SHAPE(2), 1e10, 1.5);
    FLOATS(MOON_FLOAT16, "tensor([0.1, 2. ], float16)", SHAPE(2), 0.1, 2);
    FLOATS(MOON_FLOAT8_E5M2, "tensor([1.5 , 0.25], float8_e5m2)", SHAPE(2), 1.5, 0.25);
    FLOATS(MOON_FLOAT64, "tensor([ 0., -0.], float64)", SHAPE(2), 0, -0.0);
    FLOATS(MOON_BOOL, "tensor([ true, false], bool)", SHAPE(2), 1, 0);
    FLOATS(MOON_INT32, "tensor([[[1, 2]],\n\n        [[3, 4]]], int32)", SHAPE(2, 1, 2), 1, 2, 3, 4);
    FLOATS(MOON_FLOAT64, "tensor(15.25, float64)", SCALAR, 15.25);
    FLOATS(MOON_FLOAT32, "tensor(0.1, float32)", SCALAR, 0.1);
    FLOATS(MOON_FLOAT32, "tensor([], float32)", SHAPE(0), 0);
    FLOATS(MOON_FLOAT32, "tensor([], shape=[2, 0, 3], float32)", SHAPE(2, 0, 3), 0);
}

static void parts(void) {
    moon_draft d;
    make(&d, MOON_COMPLEX64, 1, (int64_t[]){2});
    float *x = (float *)moon_data(&d.t);
    x[0] = 1, x[1] = 2, x[2] = -2.5, x[3] = -0.5;
    prints(__LINE__, &d.t, "tensor([ 1. +2.i , -2.5-0.5i], complex64)");
    moon_tensor_close(&d.t);
}

static void summaries(void) {
    moon_draft d;
    make(&d, MOON_INT32, 1, (int64_t[]){2000});
    OK(moon_arange_int(&d.t, 0, 1));
    prints(__LINE__, &d.t, "tensor([   0,    1,    2, ..., 1997, 1998, 1999], int32)");
    moon_tensor_close(&d.t);
    /* bounded, however large: a billion elements that share one place */
    moon_draft one, wide;
    char *text;
    size_t size;
    make(&one, MOON_FLOAT32, 4, (int64_t[]){1, 1, 1, 1});
    OK(moon_fill(&one.t, &(moon_value){MOON_VALUE_FLOAT, {.f = 1}}));
    OK(moon_view_expand(&wide, &one.t, 4, (int64_t[]){200, 200, 200, 200}));
    wide.t.storage = one.t.storage;
    OK(moon_format(&wide.t, &text, &size));
    CHECK(size > 1000 && size < 20000);
    moon_free(text, size + 1);
    moon_tensor_close(&one.t);
}

static void lines(void) {
    moon_draft d;
    char *text;
    size_t size;
    make(&d, MOON_INT32, 2, (int64_t[]){2, 40});
    OK(moon_fill(&d.t, &(moon_value){MOON_VALUE_INT, {.i = 12345}}));
    OK(moon_format(&d.t, &text, &size));
    int width = 0;
    for (size_t i = 0; i < size; i++) {
        width = text[i] == '\n' ? 0 : width + 1;
        CHECK(width <= 80);
    }
    moon_free(text, size + 1);
    moon_tensor_close(&d.t);
    FAILS(moon_format(&d.t, &text, &size), MOON_ECLOSED, "closed");
}

static void element(moon_dtype dtype, moon_value v, const char *want) {
    char bytes[16], text[80];
    OK(moon_element_write(dtype, bytes, &v));
    int n = moon_format_element(dtype, bytes, text, sizeof text);
    if (strcmp(text, want) != 0 || n != (int)strlen(want)) check_failed(__FILE__, __LINE__, "%s, expected %s", text, want);
}

static void elements(void) {
    element(MOON_UINT64, (moon_value){MOON_VALUE_UINT, {.u = UINT64_MAX}}, "18446744073709551615");
    element(MOON_INT64, (moon_value){MOON_VALUE_INT, {.i = INT64_MIN}}, "-9223372036854775808");
    element(MOON_FLOAT64, (moon_value){MOON_VALUE_FLOAT, {.f = 0.1}}, "0.1");
    element(MOON_FLOAT32, (moon_value){MOON_VALUE_FLOAT, {.f = 0.1}}, "0.1");
    element(MOON_FLOAT64, (moon_value){MOON_VALUE_FLOAT, {.f = 1}}, "1.0");
    element(MOON_FLOAT64, (moon_value){MOON_VALUE_FLOAT, {.f = 100000}}, "100000.0");
    element(MOON_FLOAT64, (moon_value){MOON_VALUE_FLOAT, {.f = 1e20}}, "1e+20");
    element(MOON_FLOAT64, (moon_value){MOON_VALUE_FLOAT, {.f = 123456789012345680.0}}, "1.2345678901234568e+17");
    element(MOON_FLOAT32, (moon_value){MOON_VALUE_FLOAT, {.f = 1e15}}, "1000000000000000.0");
    element(MOON_FLOAT64, (moon_value){MOON_VALUE_FLOAT, {.f = 1e-5}}, "1e-05");
    element(MOON_FLOAT64, (moon_value){MOON_VALUE_FLOAT, {.f = -0.0}}, "-0.0");
    element(MOON_FLOAT64, (moon_value){MOON_VALUE_FLOAT, {.f = 5e-324}}, "5e-324");
    element(MOON_FLOAT64, (moon_value){MOON_VALUE_FLOAT, {.f = NAN}}, "nan");
    element(MOON_FLOAT64, (moon_value){MOON_VALUE_FLOAT, {.f = -INFINITY}}, "-inf");
    element(MOON_BFLOAT16, (moon_value){MOON_VALUE_FLOAT, {.f = 0.1}}, "0.1");
    element(MOON_BOOL, (moon_value){MOON_VALUE_BOOL, {.b = true}}, "true");
    element(MOON_COMPLEX64, (moon_value){MOON_VALUE_COMPLEX, {.c = {1, 2}}}, "1+2i");
    element(MOON_COMPLEX128, (moon_value){MOON_VALUE_COMPLEX, {.c = {-0.5, -3}}}, "-0.5-3i");
}

/* floats come back from their text to the bit */
static void reads_back(void) {
    for (int i = 0; i < rounds(20000); i++) {
        uint64_t bits = next_random();
        double d, back;
        char text[80];
        memcpy(&d, &bits, sizeof d);
        if (!isfinite(d)) continue;
        moon_format_element(MOON_FLOAT64, &d, text, sizeof text);
        CHECK(sscanf(text, "%lf", &back) == 1 && back == d);
        float f = (float)d, f_back;
        if (i % 2) memcpy(&f, &bits, sizeof f);
        if (!isfinite(f)) continue;
        moon_format_element(MOON_FLOAT32, &f, text, sizeof text);
        CHECK(sscanf(text, "%f", &f_back) == 1 && f_back == f);
    }
}

SUITE(format_suite, TEST(tensors), TEST(parts), TEST(summaries), TEST(lines), TEST(elements), TEST(reads_back));
