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

SUITE(vector_suite, TEST(errors), TEST(special_values));
