#include "check.h"

#include <math.h>

#include "../../src/core/format.h"

typedef long double real;
typedef __int128 whole;

typedef struct number {
    bool integer;
    whole i;
    double re, im;
} number;

static number number_of(moon_dtype dtype, const void *bytes) {
    moon_value v;
    moon_element_read(dtype, bytes, &v);
    number n = {.integer = moon_dtypes[dtype].kind < MOON_KIND_FLOAT};
    switch (v.kind) {
    case MOON_VALUE_BOOL: n.i = v.as.b; break;
    case MOON_VALUE_INT: n.i = v.as.i; break;
    case MOON_VALUE_UINT: n.i = v.as.u; break;
    case MOON_VALUE_FLOAT: n.re = v.as.f; break;
    default: n.re = v.as.c[0], n.im = v.as.c[1];
    }
    return n;
}

/* ---- integers and bools: exact, then wrapped ---- */

static whole floor_quotient(whole a, whole b) {
    if (b == 0) return 0;
    whole q = a / b;
    return a % b != 0 && (a < 0) != (b < 0) ? q - 1 : q;
}

static whole power(whole a, whole b, int bits) {
    if (b < 0) return a == 1 ? 1 : a != -1 ? 0 : b % 2 == 0 ? 1 : -1;
    uint64_t r = 1, x = (uint64_t)a;
    for (; b > 0; b /= 2, x *= x) r *= b % 2 == 1 ? x : 1;
    (void)bits;
    return (whole)r;
}

static whole integer_result(moon_op_id op, whole a, whole b, bool truth, int bits) {
    switch (op) {
    case MOON_OP_add: return truth ? a || b : a + b;
    case MOON_OP_sub: return a - b;
    case MOON_OP_mul: return (whole)((uint64_t)a * (uint64_t)b);
    case MOON_OP_floor_divide: return floor_quotient(a, b);
    case MOON_OP_remainder: return b == 0 ? 0 : a - b * floor_quotient(a, b);
    case MOON_OP_pow: return power(a, b, bits);
    case MOON_OP_minimum: return a < b ? a : b;
    case MOON_OP_maximum: return a > b ? a : b;
    case MOON_OP_neg: return -a;
    case MOON_OP_abs: return a < 0 ? -a : a;
    case MOON_OP_sign: return (a > 0) - (a < 0);
    case MOON_OP_floor:
    case MOON_OP_ceil:
    case MOON_OP_round:
    case MOON_OP_trunc:
    case MOON_OP_conj: return a;
    case MOON_OP_bitwise_and: return a & b;
    case MOON_OP_bitwise_or: return a | b;
    case MOON_OP_bitwise_xor: return a ^ b;
    case MOON_OP_bitwise_not: return truth ? !a : ~a;
    default: check_failed(__FILE__, __LINE__, "no reference for %s on integers", moon_ops[op].name); return 0;
    }
}

static whole wrap(moon_dtype dtype, whole v) {
    int bits = 8 * moon_dtypes[dtype].size;
    uint64_t word = (uint64_t)v << (64 - bits);
    if (moon_dtypes[dtype].kind == MOON_KIND_INT) return (int64_t)word >> (64 - bits);
    return word >> (64 - bits);
}

/* ---- floats: in long double ---- */

static real real_remainder(real a, real b) {
    real r = fmodl(a, b);
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

static real real_result(moon_op_id op, real a, real b) {
    switch (op) {
    case MOON_OP_add: return a + b;
    case MOON_OP_sub: return a - b;
    case MOON_OP_mul: return a * b;
    case MOON_OP_div: return a / b;
    case MOON_OP_floor_divide:
        return isnan(a) || isnan(b) ? NAN
               : b == 0             ? a / b
               : isinf(a)           ? NAN
               : isinf(b)           ? (a != 0 && (a < 0) != (b < 0) ? -1 : a * 0)
                                    : floorl(a / b);
    case MOON_OP_remainder: return real_remainder(a, b);
    case MOON_OP_pow: return powl(a, b);
    case MOON_OP_minimum: return isnan(a) || isnan(b) ? NAN : fminl(a, b);
    case MOON_OP_maximum: return isnan(a) || isnan(b) ? NAN : fmaxl(a, b);
    case MOON_OP_atan2: return atan2l(a, b);
    case MOON_OP_neg: return -a;
    case MOON_OP_abs: return fabsl(a);
    case MOON_OP_sign: return (a > 0) - (a < 0);
    case MOON_OP_sqrt: return sqrtl(a);
    case MOON_OP_rsqrt: return 1 / sqrtl(a);
    case MOON_OP_exp: return expl(a);
    case MOON_OP_expm1: return expm1l(a);
    case MOON_OP_log: return logl(a);
    case MOON_OP_log1p: return log1pl(a);
    case MOON_OP_log2: return log2l(a);
    case MOON_OP_log10: return log10l(a);
    case MOON_OP_sin: return sinl(a);
    case MOON_OP_cos: return cosl(a);
    case MOON_OP_tan: return tanl(a);
    case MOON_OP_asin: return asinl(a);
    case MOON_OP_acos: return acosl(a);
    case MOON_OP_atan: return atanl(a);
    case MOON_OP_sinh: return sinhl(a);
    case MOON_OP_cosh: return coshl(a);
    case MOON_OP_tanh: return tanhl(a);
    case MOON_OP_erf: return erfl(a);
    case MOON_OP_floor: return floorl(a);
    case MOON_OP_ceil: return ceill(a);
    case MOON_OP_round: return rintl(a);
    case MOON_OP_trunc: return truncl(a);
    case MOON_OP_conj: return a;
    case MOON_OP_angle: return isnan(a) ? a : a < 0 ? acosl(-1) : 0;
    default: check_failed(__FILE__, __LINE__, "no reference for %s on floats", moon_ops[op].name); return 0;
    }
}

static double complex complex_result(moon_op_id op, double complex a, double complex b) {
    switch (op) {
    case MOON_OP_add: return a + b;
    case MOON_OP_sub: return a - b;
    case MOON_OP_mul: return a * b;
    case MOON_OP_div: return a / b;
    case MOON_OP_pow: return cpow(a, b);
    case MOON_OP_neg: return -a;
    case MOON_OP_abs: return cabs(a);
    case MOON_OP_sqrt: return csqrt(a);
    case MOON_OP_rsqrt: return 1 / csqrt(a);
    case MOON_OP_exp: return cexp(a);
    case MOON_OP_log: return clog(a);
    case MOON_OP_log2: return clog(a) / log(2);
    case MOON_OP_log10: return clog(a) / log(10);
    case MOON_OP_sin: return csin(a);
    case MOON_OP_cos: return ccos(a);
    case MOON_OP_tan: return ctan(a);
    case MOON_OP_asin: return casin(a);
    case MOON_OP_acos: return cacos(a);
    case MOON_OP_atan: return catan(a);
    case MOON_OP_sinh: return csinh(a);
    case MOON_OP_cosh: return ccosh(a);
    case MOON_OP_tanh: return ctanh(a);
    case MOON_OP_conj: return conj(a);
    case MOON_OP_angle: return carg(a);
    default: check_failed(__FILE__, __LINE__, "no reference for %s on complex numbers", moon_ops[op].name); return 0;
    }
}

static int order(number a, number b) {
    if (a.integer) return (a.i > b.i) - (a.i < b.i);
    return (a.re > b.re) - (a.re < b.re);
}

static bool truth_of(number a) { return a.integer ? a.i != 0 : a.re != 0 || a.im != 0; }

static bool truth_result(moon_op_id op, number a, number b) {
    bool unordered = !a.integer && (isnan(a.re) || isnan(b.re) || isnan(a.im) || isnan(b.im));
    bool same = !unordered && (a.integer ? a.i == b.i : a.re == b.re && a.im == b.im);
    bool finite = a.integer || (isfinite(a.re) && isfinite(a.im));
    switch (op) {
    case MOON_OP_eq: return same;
    case MOON_OP_ne: return !same;
    case MOON_OP_lt: return !unordered && order(a, b) < 0;
    case MOON_OP_le: return !unordered && order(a, b) <= 0;
    case MOON_OP_gt: return !unordered && order(a, b) > 0;
    case MOON_OP_ge: return !unordered && order(a, b) >= 0;
    case MOON_OP_isnan: return !a.integer && (isnan(a.re) || isnan(a.im));
    case MOON_OP_isinf: return !a.integer && (isinf(a.re) || isinf(a.im));
    case MOON_OP_isfinite: return finite;
    case MOON_OP_logical_and: return truth_of(a) && truth_of(b);
    case MOON_OP_logical_or: return truth_of(a) || truth_of(b);
    case MOON_OP_logical_xor: return truth_of(a) != truth_of(b);
    case MOON_OP_logical_not: return !truth_of(a);
    default: check_failed(__FILE__, __LINE__, "no reference for %s", moon_ops[op].name); return false;
    }
}

/* ---- comparing ---- */

static double epsilon(moon_dtype dtype) {
    switch (dtype) {
    case MOON_FLOAT16: return 0x1p-10;
    case MOON_BFLOAT16: return 0x1p-7;
    case MOON_FLOAT8_E4M3FN: return 0x1p-3;
    case MOON_FLOAT8_E5M2: return 0x1p-2;
    case MOON_FLOAT64:
    case MOON_COMPLEX128: return 0x1p-52;
    default: return 0x1p-23;
    }
}

/* the reference as an element: what overflows there overflows here */
static double rounded(moon_dtype dtype, real v) {
    if (isnan(v)) return NAN;
    if (dtype == MOON_FLOAT64) return (double)v;
    if (dtype == MOON_FLOAT32) return (float)v;
    moon_value w;
    uint32_t code = nearest_code(dtype, v);
    moon_element_read(dtype, &code, &w);
    return w.as.f;
}

static bool near(moon_dtype dtype, double got, real reference) {
    double want = rounded(dtype, reference);
    if (isnan(want) || isnan(got)) return isnan(want) && isnan(got);
    if (isinf(want) || isinf(got)) {
        /* one rounding apart at the largest number */
        return want == got || fabsl(reference) > 0.9L * fabs(isinf(want) ? got : want);
    }
    double tiny = dtype == MOON_FLOAT8_E4M3FN ? 0x1p-9
                  : dtype == MOON_FLOAT8_E5M2 ? 0x1p-16
                  : dtype == MOON_FLOAT16     ? 0x1p-24
                                              : 1e-38;
    return fabs(got - want) <= 3 * epsilon(dtype) * fabs(want) + (dtype == MOON_FLOAT64 ? 1e-300 : tiny);
}

static void describe(moon_op_id op, moon_dtype dtype, const void *a, const void *b, moon_dtype result, const void *got) {
    char x[80], y[80] = "", z[80];
    moon_format_element(dtype, a, x, sizeof x);
    if (b != NULL) moon_format_element(dtype, b, y, sizeof y);
    moon_format_element(result, got, z, sizeof z);
    check_failed(__FILE__, __LINE__, "%s(%s%s%s) in %s is %s", moon_ops[op].name, x, b ? ", " : "", y, moon_dtypes[dtype].name,
                 z);
}

/* a and b: elements of the compute dtype */
static void check_element(moon_op_id op, moon_dtype compute, const void *a, const void *b, moon_dtype result, const void *out) {
    number x = number_of(compute, a), y = b ? number_of(compute, b) : x, z = number_of(result, out);
    bool good = true;
    moon_kind kind = (moon_kind)moon_dtypes[compute].kind;
    if (moon_ops[op].class == MOON_COMPARE || moon_ops[op].class == MOON_LOGICAL) {
        good = result == MOON_BOOL && z.i == truth_result(op, x, y);
    } else if (kind < MOON_KIND_FLOAT) {
        good = z.i == wrap(compute, integer_result(op, x.i, y.i, kind == MOON_KIND_BOOL, 8 * moon_dtypes[compute].size));
    } else if (kind == MOON_KIND_FLOAT) {
        good = near(result, z.re, real_result(op, x.re, y.re));
    } else {
        if (!isfinite(x.re) || !isfinite(x.im) || !isfinite(y.re) || !isfinite(y.im)) return;
        double complex want = complex_result(op, CMPLX(x.re, x.im), CMPLX(y.re, y.im));
        if (!isfinite(creal(want)) || !isfinite(cimag(want)) || cabs(want) > 1e30) return;
        double off = cabs(CMPLX(z.re, z.im) - want), size = cabs(want);
        double slack = op == MOON_OP_pow ? 300 : 30; /* cpow by way of exp and log */
        good = off <= slack * epsilon(compute) * (size + (op == MOON_OP_pow || op == MOON_OP_exp ? 0 : 1)) + 1e-37;
    }
    if (!good) describe(op, compute, a, b, result, out);
}

/* what an operator computes in, and whether it takes the dtype at all: read off the documentation in ops.def */
static bool expected_compute(moon_op_id op, moon_dtype dtype, moon_dtype *compute) {
    static const char letters[] = "BIUFC";
    *compute = dtype;
    if (moon_ops[op].class == MOON_LOGICAL || strchr(moon_ops[op].kinds, letters[moon_dtypes[dtype].kind])) return true;
    if (!strchr(moon_ops[op].kinds, 'f') || moon_dtypes[dtype].kind >= MOON_KIND_FLOAT) return false;
    *compute = op == MOON_OP_div || moon_dtypes[dtype].size >= 4 ? MOON_FLOAT64 : MOON_FLOAT32;
    return true;
}

static void one_operator(moon_op_id op, moon_dtype dtype) {
    moon_draft base[2], view[2], result;
    moon_dtype compute;
    int64_t shape[3] = {random_below(3) ? 1 + random_below(4) : 600, 1 + random_below(4), 1 + random_below(40)};
    int arity = moon_ops[op].arity, ndim = (int)random_below(4);
    moon_operand in[2] = {{.tensor = &view[0].t}, {.tensor = &view[1].t}};
    for (int k = 0; k < 2; k++) {
        int64_t own[3];
        for (int i = 0; i < ndim; i++) own[i] = k == 1 && random_below(4) == 0 ? 1 : shape[i];
        make_strided(&base[k], &view[k], dtype, ndim, own);
        fill_random(&view[k].t);
    }
    if (!expected_compute(op, dtype, &compute)) {
        FAILS(moon_op_plan(op, arity, in, &result), MOON_EDTYPE, "does not take");
    } else {
        OK(moon_op_plan(op, arity, in, &result));
        CHECK_INT(result.t.ndim, ndim);
        OK(moon_tensor_alloc(&result.t, moon_cpu()));
        OK(moon_op_run(op, arity, in, &result.t));
        moon_draft wide;
        OK(moon_view_expand(&wide, &view[1].t, ndim, shape));
        wide.t.storage = view[1].t.storage;
        for (int64_t i = 0; i < result.t.numel; i++) {
            char a[16], b[16];
            naive_cast(dtype, element_number(&view[0].t, i), compute, a);
            naive_cast(dtype, element_number(&wide.t, i), compute, b);
            moon_dtype as = moon_ops[op].class == MOON_LOGICAL ? dtype : compute;
            if (as == dtype) memcpy(a, element_number(&view[0].t, i), moon_dtypes[dtype].size);
            if (as == dtype) memcpy(b, element_number(&wide.t, i), moon_dtypes[dtype].size);
            check_element(op, as, a, arity > 1 ? b : NULL, (moon_dtype)result.t.dtype, element_number(&result.t, i));
        }
        moon_tensor_close(&result.t);
    }
    moon_tensor_close(&base[0].t);
    moon_tensor_close(&base[1].t);
}

static void every_operator(void) {
    for (int op = 0; op < MOON_OP_COUNT; op++) {
        if (moon_ops[op].class == MOON_REDUCE) continue;
        for (int d = 0; d < MOON_DTYPE_COUNT; d++) {
            for (int round = 0; round < rounds(6); round++) one_operator((moon_op_id)op, (moon_dtype)d);
        }
    }
}

/* mixed dtypes, and outputs of another dtype, give what separate casts give */
static void mixed_dtypes(void) {
    static const moon_op_id ops[] = {MOON_OP_add,     MOON_OP_mul,        MOON_OP_div, MOON_OP_eq,
                                     MOON_OP_maximum, MOON_OP_logical_or, MOON_OP_pow};
    for (int round = 0; round < rounds(3000); round++) {
        moon_op_id op = ops[random_below(7)];
        moon_draft base[2], view[2], cast[2], result, want;
        int64_t shape[2] = {1 + random_below(5), 1 + random_below(700)};
        moon_operand in[2], same[2];
        for (int k = 0; k < 2; k++) {
            make_strided(&base[k], &view[k], (moon_dtype)random_below(MOON_DTYPE_COUNT), 2, shape);
            fill_random(&view[k].t);
            in[k] = (moon_operand){.tensor = &view[k].t};
        }
        moon_dtype common = moon_promote((moon_dtype)view[0].t.dtype, (moon_dtype)view[1].t.dtype);
        bool taken = moon_op_plan(op, 2, in, &result) == MOON_OK;
        if (taken) {
            for (int k = 0; k < 2; k++) {
                make(&cast[k], common, 2, shape);
                OK(moon_copy(&cast[k].t, &view[k].t));
                same[k] = (moon_operand){.tensor = &cast[k].t};
            }
            OK(moon_tensor_alloc(&result.t, moon_cpu()));
            OK(moon_op_run(op, 2, in, &result.t));
            OK(moon_op_plan(op, 2, same, &want));
            CHECK_INT(want.t.dtype, result.t.dtype);
            OK(moon_tensor_alloc(&want.t, moon_cpu()));
            OK(moon_op_run(op, 2, same, &want.t));
            for (int64_t i = 0; i < want.t.numel; i++) {
                CHECK(same_element((moon_dtype)want.t.dtype, element_number(&result.t, i), element_number(&want.t, i)));
            }
            moon_tensor_close(&cast[0].t);
            moon_tensor_close(&cast[1].t);
            moon_tensor_close(&result.t);
            moon_tensor_close(&want.t);
        }
        moon_tensor_close(&base[0].t);
        moon_tensor_close(&base[1].t);
    }
}

static void scalars(void) {
    moon_draft a, r;
    make(&a, MOON_UINT8, 1, (int64_t[]){3});
    uint8_t *x = (uint8_t *)moon_data(&a.t);
    x[0] = 0, x[1] = 7, x[2] = 250;
    moon_operand in[2] = {{.tensor = &a.t}, {.value = {MOON_VALUE_INT, {.i = 10}}}};
    OK(moon_op_plan(MOON_OP_add, 2, in, &r));
    CHECK_INT(r.t.dtype, MOON_UINT8);
    OK(moon_tensor_alloc(&r.t, moon_cpu()));
    OK(moon_op_run(MOON_OP_add, 2, in, &r.t));
    CHECK_INT(((uint8_t *)moon_data(&r.t))[2], 4); /* wraps */
    in[1].value.as.i = 300;
    FAILS(moon_op_run(MOON_OP_add, 2, in, &r.t), MOON_EVALUE, "300|uint8");
    moon_tensor_close(&r.t);
    /* a comparison with what the dtype cannot hold has an answer */
    const struct {
        moon_op_id op;
        int64_t v;
        bool swap, want;
    } cases[] = {{MOON_OP_eq, 300, false, false}, {MOON_OP_ne, 300, false, true}, {MOON_OP_lt, 300, false, true},
                 {MOON_OP_ge, 300, false, false}, {MOON_OP_lt, -1, false, false}, {MOON_OP_gt, -1, false, true},
                 {MOON_OP_lt, 300, true, false},  {MOON_OP_gt, 300, true, true},  {MOON_OP_le, -1, true, true},
                 {MOON_OP_ge, -1, true, false}};
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        moon_operand pair[2] = {{.tensor = &a.t}, {.value = {MOON_VALUE_INT, {.i = cases[k].v}}}};
        if (cases[k].swap) {
            moon_operand first = pair[0];
            pair[0] = pair[1], pair[1] = first;
        }
        OK(moon_op_plan(cases[k].op, 2, pair, &r));
        OK(moon_tensor_alloc(&r.t, moon_cpu()));
        OK(moon_op_run(cases[k].op, 2, pair, &r.t));
        for (int i = 0; i < 3; i++) CHECK_INT(moon_data(&r.t)[i], cases[k].want);
        moon_tensor_close(&r.t);
    }
    in[1] = (moon_operand){.value = {MOON_VALUE_FLOAT, {.f = 0.5}}};
    OK(moon_op_plan(MOON_OP_mul, 2, in, &r));
    CHECK_INT(r.t.dtype, MOON_FLOAT64);
    moon_tensor_close(&a.t);
    /* no tensors at all */
    in[0] = (moon_operand){.value = {MOON_VALUE_INT, {.i = 6}}};
    in[1] = (moon_operand){.value = {MOON_VALUE_INT, {.i = 7}}};
    OK(moon_op_plan(MOON_OP_mul, 2, in, &r));
    CHECK(r.t.dtype == MOON_INT64 && r.t.ndim == 0);
    OK(moon_tensor_alloc(&r.t, moon_cpu()));
    OK(moon_op_run(MOON_OP_mul, 2, in, &r.t));
    CHECK_INT(*(int64_t *)moon_data(&r.t), 42);
    in[1] = (moon_operand){.value = {MOON_VALUE_INT, {.i = 5}}};
    moon_tensor_close(&r.t);
    OK(moon_op_plan(MOON_OP_logical_and, 2, in, &r));
    OK(moon_tensor_alloc(&r.t, moon_cpu()));
    OK(moon_op_run(MOON_OP_logical_and, 2, in, &r.t)); /* 6 and 5 are true, though no bools */
    CHECK_INT(*moon_data(&r.t), 1);
    moon_tensor_close(&r.t);
}

static void in_place(void) {
    moon_draft a, v, w;
    make(&a, MOON_FLOAT32, 1, (int64_t[]){1000});
    float *x = (float *)moon_data(&a.t);
    for (int i = 0; i < 1000; i++) x[i] = (float)i;
    moon_operand in[2] = {{.tensor = &a.t}, {.tensor = &a.t}};
    OK(moon_op_run(MOON_OP_mul, 2, in, &a.t));
    for (int i = 0; i < 1000; i++) CHECK(x[i] == (float)i * (float)i);
    /* shifted onto itself: as if the operand had been copied first */
    for (int i = 0; i < 1000; i++) x[i] = (float)i;
    OK(moon_view_slice(&v, &a.t, 0, 0, 999, 1));
    OK(moon_view_slice(&w, &a.t, 0, 1, 999, 1));
    v.t.storage = w.t.storage = a.t.storage;
    moon_operand shifted[2] = {{.tensor = &v.t}, {.tensor = &v.t}};
    OK(moon_op_run(MOON_OP_add, 2, shifted, &w.t));
    for (int i = 1; i < 1000; i++) CHECK(x[i] == 2 * (float)(i - 1));
    moon_tensor_close(&a.t);
    make(&a, MOON_INT32, 1, (int64_t[]){4});
    moon_operand half[2] = {{.tensor = &a.t}, {.value = {MOON_VALUE_FLOAT, {.f = 0.5}}}};
    FAILS(moon_op_run(MOON_OP_mul, 2, half, &a.t), MOON_EDTYPE, "mul|float64|int32|astype");
    make(&v, MOON_INT32, 1, (int64_t[]){5});
    half[1].value = (moon_value){MOON_VALUE_INT, {.i = 1}};
    FAILS(moon_op_run(MOON_OP_mul, 2, half, &v.t), MOON_ESHAPE, "[4]|[5]");
    moon_tensor_close(&a.t);
    FAILS(moon_op_run(MOON_OP_mul, 2, half, &v.t), MOON_ECLOSED, "closed");
    moon_tensor_close(&v.t);
}

static void divisions_by_zero(void) {
    static const moon_op_id ops[] = {MOON_OP_floor_divide, MOON_OP_remainder};
    for (int d = MOON_INT8; d <= MOON_UINT64; d++) {
        moon_draft a, r;
        make(&a, (moon_dtype)d, 1, (int64_t[]){3});
        memset(moon_data(&a.t), 0, a.t.storage->nbytes);
        moon_data(&a.t)[0] = 5;
        uint64_t lowest = UINT64_C(1) << (8 * moon_itemsize(&a.t) - 1);
        memcpy(element_number(&a.t, 1), &lowest, moon_itemsize(&a.t));
        for (int k = 0; k < 2; k++) {
            for (int64_t by = moon_dtypes[d].kind == MOON_KIND_INT ? -1 : 0; by <= 0; by++) {
                moon_operand in[2] = {{.tensor = &a.t}, {.value = {MOON_VALUE_INT, {.i = by}}}};
                OK(moon_op_plan(ops[k], 2, in, &r));
                OK(moon_tensor_alloc(&r.t, moon_cpu()));
                OK(moon_op_run(ops[k], 2, in, &r.t));
                number n = number_of((moon_dtype)d, moon_data(&r.t));
                CHECK_INT(n.i, by == 0 || k == 1 ? 0 : -5);
                moon_tensor_close(&r.t);
            }
        }
        moon_tensor_close(&a.t);
    }
}

static void creation(void) {
    moon_draft a;
    make(&a, MOON_INT32, 1, (int64_t[]){5});
    OK(moon_arange_int(&a.t, 10, -3));
    for (int i = 0; i < 5; i++) CHECK_INT(((int32_t *)moon_data(&a.t))[i], 10 - 3 * i);
    moon_tensor_close(&a.t);
    make(&a, MOON_FLOAT32, 1, (int64_t[]){11});
    OK(moon_linspace(&a.t, 0, 1));
    float *x = (float *)moon_data(&a.t);
    CHECK(x[0] == 0 && x[10] == 1 && x[5] == 0.5f && x[3] == 0.3f);
    OK(moon_arange(&a.t, 1, 0.5));
    CHECK(x[0] == 1 && x[10] == 6);
    moon_tensor_close(&a.t);
    make(&a, MOON_FLOAT64, 1, (int64_t[]){1});
    OK(moon_linspace(&a.t, 3, 9));
    CHECK(*(double *)moon_data(&a.t) == 3);
    moon_tensor_close(&a.t);
}

SUITE(ops_suite, TEST(every_operator), TEST(mixed_dtypes), TEST(scalars), TEST(in_place), TEST(divisions_by_zero),
      TEST(creation));
