/* The dtype table: the one place that knows what a dtype is. */
#ifndef MOON_DTYPE_H
#define MOON_DTYPE_H

#include "status.h"

typedef enum moon_kind { MOON_KIND_BOOL, MOON_KIND_INT, MOON_KIND_UINT, MOON_KIND_FLOAT, MOON_KIND_COMPLEX } moon_kind;

typedef struct moon_dtype_info {
    const char *name; /* as NumPy and torch spell it */
    uint8_t size;     /* bytes an element */
    uint8_t align;
    uint8_t kind; /* moon_kind */
    moon_dl_dtype dl;
} moon_dtype_info;

extern const moon_dtype_info moon_dtypes[MOON_DTYPE_COUNT];

/* "float32"; also "torch.float32", "numpy.float32", and torch's aliases (float, double, half, long, int, short, cfloat, cdouble) */
bool moon_dtype_find(const char *name, moon_dtype *out);
moon_status moon_dtype_from_dl(moon_dl_dtype dl, moon_dtype *out);

/* NumPy 2's promotion of two dtypes; float8 and mixed halves as in torch (spec/differences.lua). */
moon_dtype moon_promote(moon_dtype a, moon_dtype b);

/* ---- single elements ---- */

/* A value on its way between Lua and an element. Integers above INT64_MAX travel as MOON_VALUE_UINT. */
typedef enum moon_value_kind {
    MOON_VALUE_BOOL,
    MOON_VALUE_INT,
    MOON_VALUE_UINT,
    MOON_VALUE_FLOAT,
    MOON_VALUE_COMPLEX
} moon_value_kind;
typedef struct moon_value {
    moon_value_kind kind;
    union {
        bool b;
        int64_t i;
        uint64_t u;
        double f;
        double c[2]; /* real, imaginary */
    } as;
} moon_value;

/* Read or write one element; addresses may be unaligned. Writing checks: out of range and fractional values into integer
   dtypes, and complex values with an imaginary part into real dtypes, are MOON_EVALUE; float rounding is allowed. */
void moon_element_read(moon_dtype dtype, const void *element, moon_value *out);
moon_status moon_element_write(moon_dtype dtype, void *element, const moon_value *value);

/* The dtype a weak Lua scalar takes beside a tensor of dtype `beside`, and the dtype it has alone. */
moon_dtype moon_promote_value(const moon_value *value, moon_dtype beside);
moon_dtype moon_value_dtype(const moon_value *value); /* bool, int64, float32, complex64 */

/* half and float8 conversions, round to nearest even */
float moon_half_to_float(uint16_t bits);
uint16_t moon_float_to_half(float value);
float moon_bfloat_to_float(uint16_t bits);
uint16_t moon_float_to_bfloat(float value);
float moon_e4m3_to_float(uint8_t bits);
uint8_t moon_float_to_e4m3(float value);
float moon_e5m2_to_float(uint8_t bits);
uint8_t moon_float_to_e5m2(float value);

#endif
