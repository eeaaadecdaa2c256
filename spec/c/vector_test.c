/* float32 functions of our own: their errors against libm's in float64, and their special values, over floats of every
   exponent. STEP=1 in the environment takes all of them (minutes). */
#include "check.h"

#include <math.h>
#include <stdlib.h>

#include "../../devices/cpu/kernels.h"

enum { BLOCK = 4096 };

static float from_bits(uint32_t u) {
    float f;
    memcpy(&f, &u, 4);
    return f;
}

/* the distance of a float from the right value, in units of the right float's last place */
static double error_of(float got, double want) {
    float nearest = (float)want;
    if (isnan(want)) return isnan(got) ? 0 : INFINITY;
    if (isinf(nearest) || isinf(got)) return nearest == got ? 0 : INFINITY;
    int e;
    (void)frexp(want, &e);
    return fabs((double)got - want) / ldexp(1, (e < -125 ? -125 : e) - 24);
}

static double worst(moon_op_id op, double (*reference)(double)) {
    moon_loop loop = moon_kernels_now()->loops[MOON_FLOAT32][op];
    const char *text = getenv("STEP");
    uint64_t step = text ? strtoull(text, NULL, 10) : 499;
    static float x[BLOCK], y[BLOCK];
    double most = 0;
    for (uint64_t u = 0; u < UINT64_C(1) << 32;) {
        int n = 0;
        for (; n < BLOCK && u < UINT64_C(1) << 32; u += step) x[n++] = from_bits((uint32_t)u);
        loop((char *)y, (const char *)x, NULL, 1, 0, n);
        for (int i = 0; i < n; i++) {
            double e = error_of(y[i], reference((double)x[i]));
            if (e > 100) check_failed(__FILE__, __LINE__, "%s(%a) is %a", moon_ops[op].name, (double)x[i], (double)y[i]);
            if (e > most) most = e;
        }
    }
    return most;
}

static float at(moon_op_id op, float x) {
    float y;
    moon_kernels_now()->loops[MOON_FLOAT32][op]((char *)&y, (const char *)&x, NULL, 1, 0, 1);
    return y;
}

#define WITHIN(op, f, limit)                                                                                                 \
    do {                                                                                                                     \
        double e_ = worst(MOON_OP_##op, f);                                                                                  \
        if (!(e_ <= (limit))) check_failed(__FILE__, __LINE__, "%s errs by %.3f ulp, allowed %g", #op, e_, (double)(limit)); \
    } while (0)

static void errors(void) {
    WITHIN(exp, exp, 1);
    WITHIN(log, log, 1);
    WITHIN(tanh, tanh, 2);
    WITHIN(expm1, expm1, 2);
    WITHIN(log1p, log1p, 3);
    WITHIN(log2, log2, 2);
    WITHIN(log10, log10, 2);
    WITHIN(sinh, sinh, 3);
    WITHIN(cosh, cosh, 2);
    WITHIN(erf, erf, 3);
    WITHIN(sin, sin, 2);
    WITHIN(cos, cos, 2);
    WITHIN(tan, tan, 4);
    WITHIN(asin, asin, 3);
    WITHIN(acos, acos, 3);
    WITHIN(atan, atan, 3);
}

static void special_values(void) {
    CHECK(at(MOON_OP_exp, 0) == 1 && at(MOON_OP_exp, -0.0f) == 1 && at(MOON_OP_exp, -INFINITY) == 0);
    CHECK(isinf(at(MOON_OP_exp, INFINITY)) && isinf(at(MOON_OP_exp, 88.73f)) && isfinite(at(MOON_OP_exp, 88.72f)));
    CHECK(at(MOON_OP_exp, -103.9f) > 0 && at(MOON_OP_exp, -104.0f) == 0 && isnan(at(MOON_OP_exp, NAN)));
    CHECK(at(MOON_OP_log, 1) == 0 && !signbit(at(MOON_OP_log, 1)) && at(MOON_OP_log, 0) == -INFINITY);
    CHECK(at(MOON_OP_log, -0.0f) == -INFINITY && isnan(at(MOON_OP_log, -1)) && at(MOON_OP_log, INFINITY) == INFINITY);
    CHECK(isnan(at(MOON_OP_log, NAN)) && isnan(at(MOON_OP_log, -INFINITY)));
    CHECK(at(MOON_OP_tanh, INFINITY) == 1 && at(MOON_OP_tanh, -INFINITY) == -1 && isnan(at(MOON_OP_tanh, NAN)));
    CHECK(signbit(at(MOON_OP_tanh, -0.0f)) && at(MOON_OP_tanh, 1e-40f) == 1e-40f && at(MOON_OP_tanh, 20) == 1);
}

static float of_two(moon_op_id op, float x, float y) {
    float z;
    moon_kernels_now()->loops[MOON_FLOAT32][op]((char *)&z, (const char *)&x, (const char *)&y, 1, 1, 1);
    return z;
}

/* what is odd, or touches an edge, at its edges */
static const float edges[] = {0.0f,       -0.0f,  1e-45f,   -1e-45f,   1e-38f, 0.5f,  -0.5f, 1.0f,   -1.0f,     1.5f,
                              2.0f,       -3.0f,  7.0f,     100.25f,   -1e10f, 1e10f, 3e38f, -3e38f, 131071.0f, 131073.0f,
                              8388609.0f, 1e-20f, INFINITY, -INFINITY, NAN,    0.1f,  -0.1f, 1e30f};
enum { EDGES = sizeof edges / sizeof *edges };

static void odd_functions(void) {
    static const moon_op_id odd[] = {MOON_OP_sin,  MOON_OP_tan, MOON_OP_asin,  MOON_OP_atan, MOON_OP_sinh,
                                     MOON_OP_tanh, MOON_OP_erf, MOON_OP_expm1, MOON_OP_log1p};
    for (size_t k = 0; k < sizeof odd / sizeof *odd; k++) {
        CHECK(at(odd[k], 0.0f) == 0 && !signbit(at(odd[k], 0.0f)));
        CHECK(at(odd[k], -0.0f) == 0 && signbit(at(odd[k], -0.0f)));
        CHECK(at(odd[k], 1e-45f) == 1e-45f || odd[k] == MOON_OP_erf);
    }
    CHECK(at(MOON_OP_log1p, -1) == -INFINITY && isnan(at(MOON_OP_log1p, -1.5f)) && at(MOON_OP_log1p, INFINITY) == INFINITY);
    CHECK(at(MOON_OP_expm1, -INFINITY) == -1 && at(MOON_OP_cosh, -INFINITY) == INFINITY && at(MOON_OP_erf, -INFINITY) == -1);
    CHECK(at(MOON_OP_log2, 0.125f) == -3 && at(MOON_OP_log2, 1e-45f) == -149 && at(MOON_OP_log10, 1000) == 3);
    CHECK(isnan(at(MOON_OP_asin, 1.0000001f)) && isnan(at(MOON_OP_acos, -2)) && at(MOON_OP_acos, 1) == 0);
    CHECK(isnan(at(MOON_OP_sin, INFINITY)) && isnan(at(MOON_OP_cos, -INFINITY)) && isnan(at(MOON_OP_tan, NAN)));
}

static void angles_of_points(void) {
    double most = 0;
    for (int i = 0; i < EDGES; i++) {
        for (int j = 0; j < EDGES; j++) {
            float got = of_two(MOON_OP_atan2, edges[i], edges[j]);
            double want = atan2((double)edges[i], (double)edges[j]), e = error_of(got, want);
            if (e > most) most = e;
            if (!(e < 4))
                check_failed(__FILE__, __LINE__, "atan2(%a, %a) is %a, not %a", (double)edges[i], (double)edges[j], (double)got,
                             want);
            if (!isnan(got)) CHECK(!signbit(got) == !signbit(want));
        }
    }
    srand(7);
    for (int i = 0; i < 1000000; i++) {
        float y = from_bits((uint32_t)rand() * 2654435761u), x = from_bits((uint32_t)rand() * 2246822519u);
        double e = error_of(of_two(MOON_OP_atan2, y, x), atan2((double)y, (double)x));
        if (e > most) most = e;
    }
    if (!(most < 4)) check_failed(__FILE__, __LINE__, "atan2 errs by %.3f ulp, allowed 4", most);
}

/* the definitions, on libm's fmod */
static float slow_remainder(float a, float b) {
    float r = fmodf(a, b);
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

static float slow_floordiv(float a, float b) {
    if (b == 0) return a / b;
    float r = fmodf(a, b), q = (a - r) / b;
    if (r != 0 && (r < 0) != (b < 0)) q -= 1;
    if (q == 0) return copysignf(0, a / b);
    float whole = floorf(q);
    return q - whole > 0.5f ? whole + 1 : whole;
}

static bool same(float a, float b) { return (isnan(a) && isnan(b)) || (a == b && !signbit(a) == !signbit(b)); }

static void quotient(float a, float b) {
    float r = of_two(MOON_OP_remainder, a, b), q = of_two(MOON_OP_floor_divide, a, b);
    if (!same(r, slow_remainder(a, b))) check_failed(__FILE__, __LINE__, "%a %% %a is %a", (double)a, (double)b, (double)r);
    if (!same(q, slow_floordiv(a, b))) check_failed(__FILE__, __LINE__, "%a // %a is %a", (double)a, (double)b, (double)q);
}

static void quotients(void) {
    for (int i = 0; i < EDGES; i++) {
        for (int j = 0; j < EDGES; j++) quotient(edges[i], edges[j]);
    }
    srand(8);
    for (int i = 0; i < 1000000; i++) {
        float a = from_bits((uint32_t)rand() * 2654435761u), b = from_bits((uint32_t)rand() * 2246822519u);
        quotient(a, b);
        quotient(ldexpf((float)(rand() % 16777216), rand() % 40 - 20), ldexpf((float)(rand() % 16777216 + 1), rand() % 30 - 20));
    }
}

static void powers(void) {
    double most = 0;
    for (int i = 0; i < EDGES; i++) {
        for (int j = 0; j < EDGES; j++) {
            float got = of_two(MOON_OP_pow, edges[i], edges[j]);
            double e = error_of(got, pow((double)edges[i], (double)edges[j]));
            if (!(e < 2)) check_failed(__FILE__, __LINE__, "pow(%a, %a) is %a", (double)edges[i], (double)edges[j], (double)got);
        }
    }
    srand(9);
    for (int i = 0; i < 2000000; i++) {
        float a = fabsf(from_bits((uint32_t)rand() * 2654435761u)), b = (float)(rand() - rand()) / (float)(1 << (rand() % 31));
        double e = error_of(of_two(MOON_OP_pow, a, b), pow((double)a, (double)b));
        if (e > most) most = e;
    }
    if (!(most < 2)) check_failed(__FILE__, __LINE__, "pow errs by %.3f ulp, allowed 2", most);
    for (int n = -140; n < 128; n++) CHECK(of_two(MOON_OP_pow, 2, (float)n) == ldexpf(1, n));
    CHECK(of_two(MOON_OP_pow, 3, 4) == 81 && of_two(MOON_OP_pow, 10, 3) == 1000 && of_two(MOON_OP_pow, 7, 0) == 1);
}

/* an element beyond the reduction's reach changes none beside it, also in place and where one value stays */
static void neighbours(void) {
    enum { N = 1500 };
    static float x[N], y[N], alone[N];
    moon_loop loop = moon_kernels_now()->loops[MOON_FLOAT32][MOON_OP_sin];
    for (int i = 0; i < N; i++) x[i] = (float)i * 0.37f - 200;
    loop((char *)alone, (const char *)x, NULL, 1, 0, N);
    x[3] = 1e20f, x[700] = -INFINITY, x[1499] = 2e5f;
    loop((char *)y, (const char *)x, NULL, 1, 0, N);
    for (int i = 0; i < N; i++) {
        if (i != 3 && i != 700 && i != 1499) CHECK(y[i] == alone[i]);
    }
    CHECK(y[3] == sinf(1e20f) && isnan(y[700]) && y[1499] == sinf(2e5f));
    loop((char *)x, (const char *)x, NULL, 1, 0, N);
    CHECK(memcmp(x, y, sizeof x) == 0 || (x[3] == y[3] && x[1499] == y[1499] && isnan(x[700])));
    x[0] = 3e7f;
    loop((char *)y, (const char *)x, NULL, 0, 0, N);
    for (int i = 0; i < N; i++) CHECK(y[i] == sinf(3e7f));
}

SUITE(vector_suite, TEST(errors), TEST(special_values), TEST(odd_functions), TEST(angles_of_points), TEST(quotients),
      TEST(powers), TEST(neighbours));
