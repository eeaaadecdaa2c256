/* Reductions. The input is seen as outputs x reduced elements. Where the reduced elements lie closest together, each output
   is folded on its own ("rows"); else a strip of neighbouring outputs is carried through the reduced dimension ("columns").
   Both merge partial results pairwise, so that rounding errors grow with the logarithm of the length. */
#include <math.h>
#include <string.h>

#include "iter.h"
#include "kernels.h"
#include "move.h"

enum { CHUNK = 1024, WIDEST = 16, LEVELS = 64, STRIP = 256 };

typedef struct job {
    moon_op_id op;
    moon_dtype in, work, out; /* work: what is accumulated */
    size_t in_size, work_size;
    moon_cast load; /* NULL where in is work */
    moon_cast store;
    moon_fold fold;
    moon_loop merge;
    moon_seek seek;
    int64_t count; /* elements reduced to each output */
} job;

/* ---- one output: a binary counter of partial results ---- */

typedef struct folding {
    const job *j;
    uint64_t chunks;
    int top;
    _Alignas(16) char partial[LEVELS][WIDEST];
} folding;

static void push(folding *f, const char *x, int64_t n) {
    const job *j = f->j;
    j->fold(f->partial[f->top++], x, n);
    for (uint64_t k = ++f->chunks; (k & 1) == 0; k >>= 1) {
        f->top--;
        j->merge(f->partial[f->top - 1], f->partial[f->top - 1], f->partial[f->top], 1, 1, 1);
    }
}

static char *finish(folding *f) {
    while (f->top > 1) {
        f->top--;
        f->j->merge(f->partial[f->top - 1], f->partial[f->top - 1], f->partial[f->top], 1, 1, 1);
    }
    return f->partial[0];
}

/* n elements at a step, packed and in the work dtype */
static const char *packed(const job *j, const char *at, int64_t step, int64_t n, char *buffer, char *raw) {
    bool near = step == (int64_t)j->in_size;
    if (near && j->load == NULL) return at;
    if (!near) moon_gather(j->load ? raw : buffer, at, step, n, j->in_size);
    if (j->load) j->load(buffer, near ? at : raw, n);
    return buffer;
}

static void fold_run(void *context, char *const *at, const int64_t *step, int64_t n) {
    folding *f = context;
    _Alignas(64) char buffer[CHUNK * WIDEST], raw[CHUNK * WIDEST];
    for (int64_t i = 0; i < n; i += CHUNK) {
        int64_t m = n - i < CHUNK ? n - i : CHUNK;
        push(f, packed(f->j, at[0] + i * step[0], step[0], m, buffer, raw), m);
    }
}

/* ---- variance: blocks of count, mean and squared deviations, merged by Chan's formula, in float64 ---- */

typedef struct spread {
    const job *j;
    double n, mean, squares;
} spread;

static void merge_spread(spread *s, double n, double mean, double squares) {
    double total = s->n + n, delta = mean - s->mean;
    s->mean += delta * (n / total);
    s->squares += squares + delta * delta * (s->n / total * n);
    s->n = total;
}

static void spread_block(spread *s, const double *x, int64_t n) {
    double mean = 0, squares = 0;
    for (int64_t i = 0; i < n; i++) mean += x[i];
    mean /= (double)n;
    for (int64_t i = 0; i < n; i++) squares += (x[i] - mean) * (x[i] - mean);
    merge_spread(s, (double)n, mean, squares);
}

static void spread_run(void *context, char *const *at, const int64_t *step, int64_t n) {
    spread *s = context;
    _Alignas(64) char buffer[CHUNK * WIDEST], raw[CHUNK * WIDEST];
    for (int64_t i = 0; i < n; i += CHUNK) {
        int64_t m = n - i < CHUNK ? n - i : CHUNK;
        spread_block(s, (const double *)packed(s->j, at[0] + i * step[0], step[0], m, buffer, raw), m);
    }
}

/* ---- arg reductions: elements in row-major order ---- */

typedef struct seeking {
    const job *j;
    int64_t base, at;
    _Alignas(16) char best[WIDEST];
} seeking;

static void seek_run(void *context, char *const *at, const int64_t *step, int64_t n) {
    seeking *s = context;
    _Alignas(64) char buffer[CHUNK * WIDEST], raw[CHUNK * WIDEST];
    for (int64_t i = 0; i < n; i += CHUNK) {
        int64_t m = n - i < CHUNK ? n - i : CHUNK;
        const char *x = packed(s->j, at[0] + i * step[0], step[0], m, buffer, raw);
        s->j->seek(s->best, &s->at, x, m, s->base, s->j->op == MOON_OP_argmax);
        s->base += m;
    }
}

/* ---- storing ---- */

static void divide(const job *j, char *x) {
    double n = (double)j->count;
    switch (j->work) {
    case MOON_FLOAT32: *(float *)x = (float)(*(float *)x / n); break;
    case MOON_FLOAT64: *(double *)x /= n; break;
    case MOON_COMPLEX64:
        for (int i = 0; i < 2; i++) ((float *)x)[i] = (float)(((float *)x)[i] / n);
        break;
    default:
        for (int i = 0; i < 2; i++) ((double *)x)[i] /= n;
    }
}

static void put(const job *j, char *to, char *result) {
    if (j->op == MOON_OP_mean) divide(j, result);
    if (j->store) j->store(to, result, 1);
    else memcpy(to, result, j->work_size);
}

static void put_spread(const job *j, char *to, double squares) {
    double n = (double)j->count, v = n > 1 ? squares / (n - 1) : (double)NAN;
    if (j->op == MOON_OP_std) v = sqrt(v);
    if (j->store) j->store(to, &v, 1);
    else memcpy(to, &v, sizeof v);
}

/* sum 0, product 1, any false, all true; mean and variance NaN */
static void put_nothing(const job *j, char *to) {
    _Alignas(16) char identity[WIDEST] = {0};
    moon_value value = {MOON_VALUE_INT, {.i = j->op == MOON_OP_prod || j->op == MOON_OP_all}};
    if (j->op == MOON_OP_var || j->op == MOON_OP_std) {
        put_spread(j, to, 0);
        return;
    }
    (void)moon_element_write(j->work, identity, &value);
    put(j, to, identity);
}

/* ---- rows: one output over a tensor of its reduced elements ---- */

static void reduce_row(const job *j, const moon_tensor *row, char *to) {
    moon_iter it;
    bool ordered = j->seek != NULL;
    if (!moon_iter_init(&it, 1, &row, ordered)) {
        put_nothing(j, to);
    } else if (ordered) {
        seeking s = {.j = j, .at = -1};
        moon_iter_run(&it, seek_run, &s);
        memcpy(to, &s.at, sizeof s.at);
    } else if (j->op == MOON_OP_var || j->op == MOON_OP_std) {
        spread s = {.j = j};
        moon_iter_run(&it, spread_run, &s);
        put_spread(j, to, s.squares);
    } else {
        folding f;
        f.j = j, f.chunks = 0, f.top = 0;
        moon_iter_run(&it, fold_run, &f);
        put(j, to, finish(&f));
    }
}

/* ---- columns: a strip of outputs, packed at step along one kept dimension, carried through n rows ---- */

typedef struct strip {
    const job *j;
    const char *at;
    int64_t step, row_step; /* to the next output, to the next reduced element */
    int64_t width, rows;
} strip;

typedef struct strip_buffers {
    _Alignas(64) char packed[STRIP * WIDEST];
    char raw[STRIP * WIDEST];
    char partial[16][STRIP * WIDEST]; /* rows merge pairwise up to 2^15 blocks, then in sequence */
} strip_buffers;

static const char *strip_row(const strip *s, int64_t r, strip_buffers *b) {
    return packed(s->j, s->at + r * s->row_step, s->step, s->width, b->packed, b->raw);
}

static void fold_strip(const strip *s, strip_buffers *b) {
    enum { BLOCK = 32, TOP = 15 };
    int top = 0;
    uint64_t blocks = 0;
    size_t bytes = (size_t)s->width * s->j->work_size;
    for (int64_t r = 0; r < s->rows;) {
        int64_t end = s->rows - r < BLOCK ? s->rows : r + BLOCK;
        memcpy(b->partial[top], strip_row(s, r++, b), bytes);
        for (; r < end; r++) s->j->merge(b->partial[top], b->partial[top], strip_row(s, r, b), 1, 1, s->width);
        top++;
        uint64_t k = ++blocks;
        for (; ((k & 1) == 0 || top > TOP) && top > 1; k >>= 1) {
            top--;
            s->j->merge(b->partial[top - 1], b->partial[top - 1], b->partial[top], 1, 1, s->width);
        }
    }
    for (; top > 1; top--) s->j->merge(b->partial[top - 2], b->partial[top - 2], b->partial[top - 1], 1, 1, s->width);
}

static void seek_strip(const strip *s, strip_buffers *b, int64_t *found) {
    for (int64_t i = 0; i < s->width; i++) found[i] = -1;
    for (int64_t r = 0; r < s->rows; r++) {
        const char *x = strip_row(s, r, b);
        for (int64_t i = 0; i < s->width; i++) {
            size_t at = (size_t)i * s->j->work_size;
            s->j->seek(b->partial[0] + at, &found[i], x + at, 1, r, s->j->op == MOON_OP_argmax);
        }
    }
}

static void spread_strip(const strip *s, strip_buffers *b, double *squares) {
    double mean[STRIP];
    memset(mean, 0, sizeof mean);
    memset(squares, 0, (size_t)s->width * sizeof *squares);
    for (int64_t r = 0; r < s->rows; r++) {
        const double *x = (const double *)strip_row(s, r, b);
        double share = 1 / (double)(r + 1);
        for (int64_t i = 0; i < s->width; i++) {
            double delta = x[i] - mean[i];
            mean[i] += delta * share;
            squares[i] += delta * (x[i] - mean[i]);
        }
    }
}

static void reduce_strip(const strip *s, char *to, int64_t to_step) {
    strip_buffers b;
    const job *j = s->j;
    if (j->seek != NULL) {
        int64_t found[STRIP];
        seek_strip(s, &b, found);
        moon_scatter(to, to_step, found, s->width, sizeof *found);
    } else if (j->op == MOON_OP_var || j->op == MOON_OP_std) {
        double squares[STRIP];
        spread_strip(s, &b, squares);
        for (int64_t i = 0; i < s->width; i++) put_spread(j, to + i * to_step, squares[i]);
    } else {
        fold_strip(s, &b);
        for (int64_t i = 0; i < s->width; i++) put(j, to + i * to_step, b.partial[0] + (size_t)i * j->work_size);
    }
}

/* ---- the whole ---- */

/* out's strides in bytes for the kept dimensions of in, whether or not the reduced ones were kept as size 1 */
static void out_steps(const moon_tensor *in, int dim, const moon_tensor *out, int64_t *steps) {
    int64_t size = (int64_t)moon_itemsize(out);
    for (int i = 0, o = 0; i < in->ndim; i++) {
        steps[i] = 0;
        if (i != dim) steps[i] = out->strides[o] * size;
        if (i != dim || out->ndim == in->ndim) o++;
    }
}

typedef struct walk {
    int n;
    int64_t extent[MOON_MAXDIM], in[MOON_MAXDIM], out[MOON_MAXDIM];
} walk;

static bool advance(const walk *w, int64_t *index, const char **from, char **to) {
    for (int i = w->n; i-- > 0;) {
        if (++index[i] < w->extent[i]) {
            *from += w->in[i], *to += w->out[i];
            return true;
        }
        index[i] = 0;
        *from -= w->in[i] * (w->extent[i] - 1), *to -= w->out[i] * (w->extent[i] - 1);
    }
    return false;
}

static int64_t magnitude(int64_t x) { return x < 0 ? -x : x; }

/* the kept dimension whose elements lie closer together than the reduced ones, or -1 */
static int strip_dim(const moon_tensor *in, int dim) {
    int best = -1;
    for (int i = 0; i < in->ndim; i++) {
        if (i == dim || in->shape[i] < 2 || magnitude(in->strides[i]) >= magnitude(in->strides[dim])) continue;
        if (best < 0 || magnitude(in->strides[i]) < magnitude(in->strides[best])) best = i;
    }
    return in->shape[dim] > 1 ? best : -1;
}

static void reduce_dim(const job *j, const moon_tensor *in, int dim, const moon_tensor *out) {
    int64_t steps[MOON_MAXDIM], index[MOON_MAXDIM] = {0}, size = (int64_t)moon_itemsize(in);
    out_steps(in, dim, out, steps);
    int across = strip_dim(in, dim);
    walk w = {.n = 0};
    for (int i = 0; i < in->ndim; i++) {
        if (i == dim || i == across) continue;
        w.extent[w.n] = in->shape[i], w.in[w.n] = in->strides[i] * size, w.out[w.n] = steps[i];
        w.n++;
    }
    moon_storage storage = {.host = in->storage->host};
    moon_tensor row = {.storage = &storage,
                       .offset = in->offset,
                       .numel = in->shape[dim],
                       .shape = &in->shape[dim],
                       .strides = &in->strides[dim],
                       .ndim = 1,
                       .dtype = in->dtype};
    const char *from = moon_data(in), *first = from;
    char *to = moon_data(out);
    do {
        if (across < 0) {
            row.offset = in->offset + (from - first);
            reduce_row(j, &row, to);
            continue;
        }
        strip s = {.j = j, .step = in->strides[across] * size, .row_step = in->strides[dim] * size, .rows = in->shape[dim]};
        for (int64_t i = 0; i < in->shape[across]; i += STRIP) {
            s.at = from + i * s.step;
            s.width = in->shape[across] - i < STRIP ? in->shape[across] - i : STRIP;
            reduce_strip(&s, to + i * steps[across], steps[across]);
        }
    } while (advance(&w, index, &from, &to));
}

static moon_dtype work_dtype(moon_op_id op, const moon_tensor *in, const moon_tensor *out) {
    switch (op) {
    case MOON_OP_any:
    case MOON_OP_all: return MOON_BOOL;
    case MOON_OP_var:
    case MOON_OP_std: return MOON_FLOAT64;
    case MOON_OP_argmin:
    case MOON_OP_argmax: return moon_loop_dtype((moon_dtype)in->dtype);
    default: return moon_loop_dtype((moon_dtype)out->dtype);
    }
}

static moon_op_id folding_op(moon_op_id op) { return op == MOON_OP_mean ? MOON_OP_sum : op; }

static moon_status reduce(moon_op_id op, const moon_tensor *in, int dim, const moon_tensor *out) {
    const moon_kernels *kernels = moon_kernels_now();
    job j = {.op = op, .in = (moon_dtype)in->dtype, .out = (moon_dtype)out->dtype};
    j.work = work_dtype(op, in, out);
    j.in_size = moon_itemsize(in);
    j.work_size = moon_dtypes[j.work].size;
    j.load = j.in == j.work ? NULL : kernels->casts[j.in][j.work];
    j.store = j.out == j.work ? NULL : kernels->casts[j.work][j.out];
    if (op == MOON_OP_argmin || op == MOON_OP_argmax) j.seek = kernels->seeks[j.work];
    j.fold = kernels->folds[j.work][folding_op(op)];
    j.merge = kernels->loops[j.work][folding_op(op)];
    j.count = dim < 0 ? in->numel : in->shape[dim];
    if (dim < 0) reduce_row(&j, in, moon_data(out));
    else reduce_dim(&j, in, dim, out);
    return MOON_OK;
}

/* The variance of complex numbers is that of their real parts plus that of their imaginary parts. */
static moon_status reduce_complex_spread(moon_op_id op, const moon_tensor *in, int dim, const moon_tensor *out) {
    moon_status s = MOON_OK;
    moon_draft part, sums;
    s = moon_draft_contiguous(&sums, (moon_dtype)out->dtype, out->ndim, out->shape);
    if (s == MOON_OK) s = moon_tensor_alloc(&sums.t, moon_cpu());
    if (s != MOON_OK) return s;
    for (int p = 0; p < 2 && s == MOON_OK; p++) {
        s = moon_view_part(&part, in, p);
        part.t.storage = in->storage; /* borrowed */
        if (s == MOON_OK) s = reduce(MOON_OP_var, &part.t, dim, p == 0 ? out : &sums.t);
    }
    moon_dtype real = (moon_dtype)out->dtype;
    if (s == MOON_OK) s = moon_cpu_elementwise(MOON_OP_add, real, out, 2, (const moon_tensor *const[]){out, &sums.t});
    if (s == MOON_OK && op == MOON_OP_std) s = moon_cpu_elementwise(MOON_OP_sqrt, real, out, 1, &out);
    moon_tensor_close(&sums.t);
    return s;
}

moon_status moon_cpu_reduce(moon_op_id op, const moon_tensor *in, int dim, const moon_tensor *out) {
    bool parts = moon_dtypes[in->dtype].kind == MOON_KIND_COMPLEX;
    if (parts && (op == MOON_OP_var || op == MOON_OP_std)) return reduce_complex_spread(op, in, dim, out);
    return reduce(op, in, dim, out);
}
