/* Elementwise operators over any layouts and dtypes: packed loops over the operands themselves where they are packed and of
   the loop's dtype, else over buffers that stay in the first-level cache. */
#include <string.h>

#include "iter.h"
#include "kernels.h"
#include "move.h"
#include "pool.h"

enum { CHUNK = 512, WIDEST = 16, MOST_PARTS = 1024 };

typedef struct operand {
    size_t size;     /* of an element in memory */
    moon_cast cast;  /* to the loop's dtype, or from it; NULL if it is that already */
    moon_cast round; /* before that, to a compute dtype narrower than the loop's; NULL if it is that already */
} operand;

typedef struct loop_context {
    moon_loop loop;
    int inputs;
    operand out, in[2];
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
    char rounded[CHUNK * 2] __attribute__((aligned(64)));
} buffers;

/* n elements of an operand, packed and in the loop's dtype: in place or in buffer */
static const char *load(const operand *o, const char *at, int64_t step, int64_t n, char *buffer, buffers *b) {
    if (step != (int64_t)o->size) {
        moon_gather(o->cast ? b->raw : buffer, at, step, n, o->size);
        at = o->cast ? b->raw : buffer;
    }
    if (o->round) o->round(b->rounded, at, n), at = b->rounded;
    if (o->cast) o->cast(buffer, at, n), at = buffer;
    return at;
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
        source[k] = load(&c->in[k], at[k + 1], 0, advance[k] && n > 1 ? n < CHUNK ? n : CHUNK : 1, b.in[k], &b);
    }
    for (int64_t i = 0; i < n; i += CHUNK) {
        int64_t m = n - i < CHUNK ? n - i : CHUNK;
        for (int k = 0; k < c->inputs; k++) {
            if (step[k + 1] == 0) continue;
            source[k] = load(&c->in[k], at[k + 1] + i * step[k + 1], step[k + 1], m, b.in[k], &b);
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

/* a scalar spread over the whole shape */
static bool stays(const moon_tensor *t) {
    for (int i = 0; i < t->ndim; i++) {
        if (t->strides[i] != 0 && t->shape[i] > 1) return false;
    }
    return true;
}

/* how much longer than a load and a store the loops take, roughly: it decides when threads are worth their wake-up */
static int weight_of(moon_op_id op) {
    switch (op) {
    case MOON_OP_div:
    case MOON_OP_sqrt:
    case MOON_OP_conj:
    case MOON_OP_angle: return 1;
    case MOON_OP_pow:
    case MOON_OP_floor_divide:
    case MOON_OP_remainder:
    case MOON_OP_atan2: return 8;
    case MOON_OP_tanh: return 3;
    case MOON_OP_exp:
    case MOON_OP_log: return 2; /* vector code, but for float64 */
    default: return strchr(moon_ops[op].kinds, 'f') != NULL ? 8 : 1;
    }
}

typedef struct packed {
    moon_loop loop;
    char *out;
    const char *a, *b;
    size_t out_size, in_size;
    int sa, sb;
    bool ahead;
    int64_t length, n; /* of a part, of all */
} packed;

/* Loops that compute much keep few loads in flight: they work in blocks, of which the next is fetched ahead (tanh of 16 M
   elements takes half the time) */
static void fetch(const char *at, size_t bytes) {
    for (size_t i = 0; i < bytes; i += 64) __builtin_prefetch(at + i);
}

static void packed_part(void *context, int64_t i) {
    const packed *p = context;
    int64_t at = i * p->length, left = p->n - at, n = left < p->length ? left : p->length;
    enum { BLOCK = 1024 };
    int64_t block = p->ahead ? BLOCK : n;
    for (int64_t end = at + n; at < end; at += block) {
        int64_t m = end - at < block ? end - at : block, next = end - at - m < BLOCK ? end - at - m : BLOCK;
        const char *a = p->a + (size_t)(p->sa * at) * p->in_size, *b = p->b ? p->b + (size_t)(p->sb * at) * p->in_size : NULL;
        if (p->ahead && p->sa) fetch(a + (size_t)m * p->in_size, (size_t)next * p->in_size);
        p->loop(p->out + (size_t)at * p->out_size, a, b, p->sa, p->sb, m);
    }
}

/* Packed operands of the loop's own dtype need no iterator: what a call on small tensors costs is decided here. */
static bool run_packed(moon_loop loop, int weight, moon_dtype dtype, moon_dtype result, const moon_tensor *out, int n,
                       const moon_tensor *const *in) {
    int step[2] = {1, 1}, steps = 0;
    if (out->dtype != result || !moon_is_contiguous(out)) return false;
    for (int k = 0; k < n; k++) {
        if (in[k]->dtype != dtype) return false;
        if (!moon_is_contiguous(in[k])) {
            if (!stays(in[k])) return false;
            step[k] = 0;
        }
        steps += step[k];
    }
    if (steps == 0) return false;
    packed p = {.loop = loop, .out = moon_data(out), .a = moon_data(in[0]), .b = n > 1 ? moon_data(in[1]) : NULL};
    p.out_size = moon_itemsize(out), p.in_size = moon_itemsize(in[0]);
    p.sa = step[0], p.sb = step[1], p.ahead = weight > 2;
    p.length = p.n = out->numel;
    int64_t bytes = out->numel * (int64_t)(p.out_size + p.in_size * (size_t)steps);
    if (bytes * weight < MOON_SHARE_BYTES) {
        packed_part(&p, 0);
        return true;
    }
    int64_t parts = bytes * weight / (MOON_PART_BYTES);
    if (parts > MOST_PARTS) parts = MOST_PARTS;
    p.length = ((out->numel + parts - 1) / parts + 63) & ~(int64_t)63;
    moon_parallel((out->numel + p.length - 1) / p.length, packed_part, &p);
    return true;
}

bool moon_cpu_few(moon_op_id op, moon_dtype compute, void *out, const void *a, const void *b, int sb, int64_t n) {
    if (moon_loop_dtype(compute) != compute) return false;
    moon_kernels_now()->loops[compute][op](out, a, b, 1, sb, n);
    return true;
}

moon_status moon_cpu_elementwise(moon_op_id op, moon_dtype compute, const moon_tensor *out, int n, const moon_tensor *const *in) {
    const moon_kernels *kernels = moon_kernels_now();
    moon_dtype dtype = moon_loop_dtype(compute), result = result_dtype(op, dtype);
    if (out->numel == 0) return MOON_OK;
    if (compute == dtype && run_packed(kernels->loops[dtype][op], weight_of(op), dtype, result, out, n, in)) return MOON_OK;
    loop_context c = {.loop = kernels->loops[dtype][op], .inputs = n};
    const moon_tensor *all[MOON_ITER_OPERANDS] = {out};
    c.out = (operand){.size = moon_itemsize(out)};
    if (out->dtype != result) c.out.cast = kernels->casts[result][out->dtype];
    for (int k = 0; k < n; k++) {
        all[k + 1] = in[k];
        c.in[k] = (operand){.size = moon_itemsize(in[k])};
        bool rounds = compute != dtype && in[k]->dtype != compute;
        if (rounds) c.in[k].round = kernels->casts[in[k]->dtype][compute];
        if (in[k]->dtype != dtype || rounds) c.in[k].cast = kernels->casts[rounds ? compute : in[k]->dtype][dtype];
    }
    moon_iter it;
    if (moon_iter_init(&it, n + 1, all, false)) moon_iter_run_shared(&it, weight_of(op), loop_run, &c);
    return MOON_OK;
}
