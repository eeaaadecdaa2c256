/* Reductions. The input is seen as outputs x reduced elements. Where the reduced elements lie closest together, each output
   is folded on its own ("rows"); else a strip of neighbouring outputs is carried through the reduced dimension ("columns").
   Both merge partial results pairwise, so that rounding errors grow with the logarithm of the length. */
#include <math.h>
#include <string.h>

#include "iter.h"
#include "kernels.h"
#include "move.h"
#include "pool.h"
#include "../../src/core/memory.h"

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

static void carry(folding *f) {
    for (uint64_t k = ++f->chunks; (k & 1) == 0; k >>= 1) {
        f->top--;
        f->j->merge(f->partial[f->top - 1], f->partial[f->top - 1], f->partial[f->top], 1, 1, 1);
    }
}

static void push(folding *f, const char *x, int64_t n) {
    f->j->fold(f->partial[f->top++], x, n);
    carry(f);
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

/* ---- rows: one output over a walk of its reduced elements, cut into pieces where it is long. Where pieces end depends on the
   layout alone; along one packed dimension they are whole subtrees of the pairwise sum, which is then as if uncut ---- */

enum { PIECE = 64 * CHUNK, MOST_PIECES = 256 };

typedef struct piece {
    _Alignas(16) char result[WIDEST];
    seeking found;
    spread spread;
} piece;

static bool is_spread(const job *j) { return j->op == MOON_OP_var || j->op == MOON_OP_std; }

static void run_piece(const job *j, const moon_iter *it, int64_t base, piece *p) {
    if (j->seek != NULL) {
        p->found = (seeking){.j = j, .base = base, .at = -1};
        moon_iter_run(it, seek_run, &p->found);
    } else if (is_spread(j)) {
        p->spread = (spread){.j = j};
        moon_iter_run(it, spread_run, &p->spread);
    } else {
        folding f;
        f.j = j, f.chunks = 0, f.top = 0;
        moon_iter_run(it, fold_run, &f);
        memcpy(p->result, finish(&f), j->work_size);
    }
}

typedef struct pieces {
    const job *j;
    const moon_iter *it;
    int64_t length, inner; /* along the outermost dimension; elements to each of its indices */
    piece *at;
} pieces;

static void piece_part(void *context, int64_t i) {
    const pieces *p = context;
    moon_iter it = *p->it;
    int d = it.ndim - 1;
    int64_t first = i * p->length, left = it.extent[d] - first;
    it.extent[d] = left < p->length ? left : p->length;
    it.data[0] += first * it.step[0][d];
    run_piece(p->j, &it, first * p->inner, &p->at[i]);
}

/* the first one takes in all the others */
static void merge_pieces(const job *j, piece *at, int64_t n) {
    if (j->seek != NULL) {
        seeking *s = &at->found;
        for (int64_t i = 1; i < n; i++) j->seek(s->best, &s->at, at[i].found.best, 1, at[i].found.at, j->op == MOON_OP_argmax);
    } else if (is_spread(j)) {
        for (int64_t i = 1; i < n; i++) merge_spread(&at->spread, at[i].spread.n, at[i].spread.mean, at[i].spread.squares);
    } else {
        folding f;
        f.j = j, f.chunks = 0, f.top = 0;
        for (int64_t i = 0; i < n; i++) {
            memcpy(f.partial[f.top++], at[i].result, j->work_size);
            carry(&f);
        }
        memcpy(at->result, finish(&f), j->work_size);
    }
}

static void put_piece(const job *j, char *to, piece *p) {
    if (j->seek != NULL) memcpy(to, &p->found.at, sizeof p->found.at);
    else if (is_spread(j)) put_spread(j, to, p->spread.squares);
    else put(j, to, p->result);
}

static void reduce_long(const job *j, const moon_iter *it, int64_t inner, char *to) {
    piece at[MOST_PIECES];
    int64_t extent = it->extent[it->ndim - 1];
    pieces p = {.j = j, .it = it, .length = (PIECE + inner - 1) / inner, .inner = inner, .at = at};
    while ((extent + p.length - 1) / p.length > MOST_PIECES) p.length *= 2;
    int64_t n = (extent + p.length - 1) / p.length;
    if (extent * inner * (int64_t)j->in_size >= MOON_SHARE_BYTES) moon_parallel(n, piece_part, &p);
    else
        for (int64_t i = 0; i < n; i++) piece_part(&p, i);
    merge_pieces(j, at, n);
    put_piece(j, to, at);
}

static void reduce_row(const job *j, const moon_tensor *row, char *to) {
    moon_iter it;
    if (!moon_iter_init(&it, 1, &row, j->seek != NULL)) {
        put_nothing(j, to);
        return;
    }
    int64_t inner = 1;
    for (int d = 0; d < it.ndim - 1; d++) inner *= it.extent[d];
    if (row->numel >= 2 * PIECE && it.extent[it.ndim - 1] > 1) {
        reduce_long(j, &it, inner, to);
        return;
    }
    piece one;
    run_piece(j, &it, 0, &one);
    put_piece(j, to, &one);
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

enum { BLOCK = 32, TOP = 15 };

static void fold_strip(const strip *s, strip_buffers *b) {
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

/* Few outputs and many rows: pieces of the rows, which are whole subtrees of the pairwise sum. False for want of memory. */
enum { ROW_PIECES = 64 };

typedef struct row_pieces {
    strip s;
    int64_t length;
    size_t bytes; /* of a strip's results */
    char *results;
} row_pieces;

static void row_part(void *context, int64_t i) {
    const row_pieces *p = context;
    strip_buffers b;
    strip s = p->s;
    int64_t left = s.rows - i * p->length;
    s.at += i * p->length * s.row_step;
    s.rows = left < p->length ? left : p->length;
    fold_strip(&s, &b);
    memcpy(p->results + (size_t)i * p->bytes, b.partial[0], p->bytes);
}

static bool fold_long_strip(const strip *s, strip_buffers *b) {
    row_pieces p = {.s = *s, .length = BLOCK, .bytes = (size_t)s->width * s->j->work_size};
    while (p.length * s->width < PIECE || (s->rows + p.length - 1) / p.length > ROW_PIECES) p.length *= 2;
    int64_t n = (s->rows + p.length - 1) / p.length;
    if (n < 2) return false;
    p.results = moon_alloc((size_t)n * p.bytes);
    if (p.results == NULL) return false;
    moon_parallel(n, row_part, &p);
    int top = 0;
    for (int64_t i = 0; i < n; i++) {
        memcpy(b->partial[top++], p.results + (size_t)i * p.bytes, p.bytes);
        for (uint64_t k = (uint64_t)i + 1; (k & 1) == 0; k >>= 1) {
            top--;
            s->j->merge(b->partial[top - 1], b->partial[top - 1], b->partial[top], 1, 1, s->width);
        }
    }
    for (; top > 1; top--) s->j->merge(b->partial[top - 2], b->partial[top - 2], b->partial[top - 1], 1, 1, s->width);
    moon_free(p.results, (size_t)n * p.bytes);
    return true;
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
        if (!fold_long_strip(s, &b)) fold_strip(s, &b);
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

/* the unit number i, of those that the walk visits in row-major order */
static void locate(const walk *w, int64_t i, const char **from, char **to) {
    for (int d = w->n; d-- > 0;) {
        int64_t k = i % w->extent[d];
        i /= w->extent[d];
        *from += k * w->in[d], *to += k * w->out[d];
    }
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

typedef struct along {
    const job *j;
    const moon_tensor *in;
    int dim, across;       /* reduced; carried in strips, or -1 */
    int64_t across_step;   /* of out */
    int64_t strips, units; /* strips to a place of the walk; places times strips */
    int64_t length;        /* units to a part */
    const char *from;
    char *to;
    walk w;
} along;

static void reduce_unit(const along *a, int64_t unit) {
    const moon_tensor *in = a->in;
    int64_t size = (int64_t)moon_itemsize(in);
    const char *from = a->from;
    char *to = a->to;
    locate(&a->w, unit / a->strips, &from, &to);
    if (a->across >= 0) {
        int64_t first = unit % a->strips * STRIP, left = in->shape[a->across] - first;
        strip s = {.j = a->j, .step = in->strides[a->across] * size, .row_step = in->strides[a->dim] * size};
        s.at = from + first * s.step, s.rows = in->shape[a->dim], s.width = left < STRIP ? left : STRIP;
        reduce_strip(&s, to + first * a->across_step, a->across_step);
        return;
    }
    int64_t n = in->shape[a->dim];
    if (in->strides[a->dim] == 1 && a->j->load == NULL && a->j->fold != NULL && n > 0 && n <= CHUNK) {
        _Alignas(16) char result[WIDEST]; /* a short row, without an iterator */
        a->j->fold(result, from, n);
        put(a->j, to, result);
        return;
    }
    moon_storage storage = {.host = in->storage->host};
    moon_tensor row = {.storage = &storage, .offset = in->offset + (from - a->from), .numel = n, .ndim = 1, .dtype = in->dtype};
    row.shape = &in->shape[a->dim], row.strides = &in->strides[a->dim];
    reduce_row(a->j, &row, to);
}

static void reduce_part(void *context, int64_t i) {
    const along *a = context;
    int64_t end = (i + 1) * a->length;
    for (int64_t u = i * a->length; u < end && u < a->units; u++) reduce_unit(a, u);
}

static void reduce_dim(const job *j, const moon_tensor *in, int dim, const moon_tensor *out) {
    int64_t steps[MOON_MAXDIM], size = (int64_t)moon_itemsize(in);
    out_steps(in, dim, out, steps);
    along a = {.j = j, .in = in, .dim = dim, .across = strip_dim(in, dim), .strips = 1, .units = 1};
    a.from = moon_data(in), a.to = moon_data(out);
    for (int i = 0; i < in->ndim; i++) {
        if (i == dim || i == a.across) continue;
        walk *w = &a.w;
        w->extent[w->n] = in->shape[i], w->in[w->n] = in->strides[i] * size, w->out[w->n] = steps[i];
        a.units *= in->shape[i];
        w->n++;
    }
    if (a.across >= 0) {
        a.strips = (in->shape[a.across] + STRIP - 1) / STRIP;
        a.across_step = steps[a.across];
        a.units *= a.strips;
    }
    if (a.units == 0) return;
    /* long units are shared one by one, within */
    int64_t each = in->numel / a.units;
    a.length = each < 2 * PIECE ? 1 + CHUNK * 16 / (each + 1) : a.units;
    if (in->numel * size < MOON_SHARE_BYTES) a.length = a.units;
    moon_parallel((a.units + a.length - 1) / a.length, reduce_part, &a);
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
