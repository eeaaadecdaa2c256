/* Elementwise operators over any layouts and dtypes: packed loops over the operands themselves where they are packed and of
   the loop's dtype, else over buffers that stay in the first-level cache. */
#include <string.h>

#include "iter.h"
#include "kernels.h"
#include "move.h"

enum { CHUNK = 512, WIDEST = 16 };

typedef struct operand {
    size_t size;    /* of an element in memory */
    moon_cast cast; /* to the loop's dtype, or from it; NULL if it is that already */
} operand;

typedef struct loop_context {
    moon_loop loop;
    int inputs;
    operand out, in[2];
    size_t loop_size, result_size; /* of the loop's operands and of its results */
} loop_context;

/* results have the loop's dtype but for truth values and the magnitudes of complex numbers */
static moon_dtype result_dtype(moon_op_id op, moon_dtype loop) {
    if (moon_ops[op].class == MOON_COMPARE || moon_ops[op].class == MOON_LOGICAL) return MOON_BOOL;
    if (op != MOON_OP_abs && op != MOON_OP_angle) return loop;
    return loop == MOON_COMPLEX64 ? MOON_FLOAT32 : loop == MOON_COMPLEX128 ? MOON_FLOAT64 : loop;
}

typedef struct buffers {
    char in[2][CHUNK * WIDEST] __attribute__((aligned(64)));
    char out[CHUNK * WIDEST] __attribute__((aligned(64)));
    char raw[CHUNK * WIDEST] __attribute__((aligned(64)));
} buffers;

/* n elements of an operand, packed and in the loop's dtype: in place or in buffer */
static const char *load(const operand *o, const char *at, int64_t step, int64_t n, char *buffer, char *raw) {
    if (step == (int64_t)o->size) {
        if (o->cast == NULL) return at;
        o->cast(buffer, at, n);
        return buffer;
    }
    moon_gather(o->cast ? raw : buffer, at, step, n, o->size);
    if (o->cast) o->cast(buffer, raw, n);
    return buffer;
}

static void store(const operand *o, char *at, int64_t step, int64_t n, const char *results, char *raw) {
    if (o->cast == NULL) {
        moon_scatter(at, step, results, n, o->size);
    } else if (step == (int64_t)o->size) {
        o->cast(at, results, n);
    } else {
        o->cast(raw, results, n);
        moon_scatter(at, step, raw, n, o->size);
    }
}

static void buffered_run(const loop_context *c, char *const *at, const int64_t *step, int64_t n) {
    buffers b;
    const char *source[2] = {NULL, NULL};
    int advance[2] = {1, 1};
    bool direct = c->out.cast == NULL && step[0] == (int64_t)c->out.size;
    for (int k = 0; k < c->inputs; k++) {
        if (step[k + 1] != 0) continue;
        /* converted once; two operands that stay would be one element only */
        advance[k] = k == 1 && advance[0] == 0;
        source[k] = load(&c->in[k], at[k + 1], 0, advance[k] && n > 1 ? n < CHUNK ? n : CHUNK : 1, b.in[k], b.raw);
    }
    for (int64_t i = 0; i < n; i += CHUNK) {
        int64_t m = n - i < CHUNK ? n - i : CHUNK;
        for (int k = 0; k < c->inputs; k++) {
            if (step[k + 1] == 0) continue;
            source[k] = load(&c->in[k], at[k + 1] + i * step[k + 1], step[k + 1], m, b.in[k], b.raw);
        }
        char *to = at[0] + i * step[0];
        c->loop(direct ? to : b.out, source[0], source[1], advance[0], advance[1], m);
        if (!direct) store(&c->out, to, step[0], m, b.out, b.raw);
    }
}

static void loop_run(void *context, char *const *at, const int64_t *step, int64_t n) {
    const loop_context *c = context;
    bool direct = c->out.cast == NULL && step[0] == (int64_t)c->out.size;
    int staying = 0;
    for (int k = 0; k < c->inputs; k++) {
        direct = direct && c->in[k].cast == NULL && (step[k + 1] == (int64_t)c->in[k].size || step[k + 1] == 0);
        staying += step[k + 1] == 0;
    }
    if (!direct || staying > 1) {
        buffered_run(c, at, step, n);
        return;
    }
    bool two = c->inputs > 1;
    c->loop(at[0], at[1], two ? at[2] : NULL, step[1] != 0, two && step[2] != 0, n);
}

moon_status moon_cpu_elementwise(moon_op_id op, moon_dtype compute, const moon_tensor *out, int n,
                                 const moon_tensor *const *in) {
    const moon_kernels *kernels = moon_kernels_now();
    moon_dtype dtype = moon_loop_dtype(compute), result = result_dtype(op, dtype);
    loop_context c = {.loop = kernels->loops[dtype][op], .inputs = n, .loop_size = moon_dtypes[dtype].size};
    c.result_size = moon_dtypes[result].size;
    const moon_tensor *all[MOON_ITER_OPERANDS] = {out};
    c.out = (operand){moon_itemsize(out), out->dtype == result ? NULL : kernels->casts[result][out->dtype]};
    for (int k = 0; k < n; k++) {
        all[k + 1] = in[k];
        c.in[k] = (operand){moon_itemsize(in[k]), in[k]->dtype == dtype ? NULL : kernels->casts[in[k]->dtype][dtype]};
    }
    moon_iter it;
    if (moon_iter_init(&it, n + 1, all, false)) moon_iter_run(&it, loop_run, &c);
    return MOON_OK;
}
