/* Matrix products in blocks: a block of b is packed, with rows of a, in the compute dtype, and accumulated into a packed
   block of the result, which is rounded to its own dtype once. */
#include <stdatomic.h>
#include <string.h>

#include "iter.h"
#include "kernels.h"
#include "move.h"
#include "pool.h"
#include "../../src/core/memory.h"

enum { ROWS = 64, DEPTH = 256, COLUMNS = 256, WIDEST = 16 };

typedef struct matrix {
    char *at;
    int64_t row, column; /* steps in bytes */
    moon_dtype dtype;
    size_t size;
} matrix;

typedef struct work {
    moon_dtype dtype;
    size_t size;
    moon_gemm gemm;
    const moon_kernels *kernels;
    char *a, *b, *c; /* packed blocks, in one allocation no larger than the operands need */
    char raw[DEPTH * WIDEST];
} work;

static matrix last_two(const moon_tensor *t) {
    int64_t size = (int64_t)moon_itemsize(t);
    return (matrix){moon_data(t), t->strides[t->ndim - 2] * size, t->strides[t->ndim - 1] * size, (moon_dtype)t->dtype,
                    (size_t)size};
}

/* rows x columns (columns <= DEPTH, COLUMNS) from (r, c) on, packed in the work dtype */
static void pack(work *w, const matrix *m, int64_t r, int64_t c, int64_t rows, int64_t columns, char *to) {
    moon_cast cast = m->dtype == w->dtype ? NULL : w->kernels->casts[m->dtype][w->dtype];
    for (int64_t i = 0; i < rows; i++, to += (size_t)columns * w->size) {
        const char *from = m->at + (r + i) * m->row + c * m->column;
        moon_gather(cast ? w->raw : to, from, m->column, columns, m->size);
        if (cast) cast(to, w->raw, columns);
    }
}

static void unpack(work *w, const matrix *m, int64_t r, int64_t c, int64_t rows, int64_t columns) {
    moon_cast cast = m->dtype == w->dtype ? NULL : w->kernels->casts[w->dtype][m->dtype];
    const char *from = w->c;
    for (int64_t i = 0; i < rows; i++, from += (size_t)columns * w->size) {
        char *to = m->at + (r + i) * m->row + c * m->column;
        if (cast) cast(w->raw, from, columns);
        moon_scatter(to, m->column, cast ? w->raw : from, columns, m->size);
    }
}

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

static size_t block_size(const work *w, int64_t rows, int64_t columns) {
    return ((size_t)(rows * columns) * w->size + 63) & ~(size_t)63;
}

/* rows [i, i + ROWS) of out, from column j to j + COLUMNS */
static void multiply_block(work *w, const matrix *x, const matrix *y, const matrix *z, int64_t i, int64_t j, const int64_t *mkn) {
    int64_t rows = least(mkn[0] - i, ROWS), columns = least(mkn[2] - j, COLUMNS), k = mkn[1];
    memset(w->c, 0, (size_t)(rows * columns) * w->size);
    for (int64_t l = 0; l < k; l += DEPTH) {
        int64_t depth = least(k - l, DEPTH);
        pack(w, x, i, l, rows, depth, w->a);
        pack(w, y, l, j, depth, columns, w->b);
        w->gemm(w->c, w->a, w->b, rows, depth, columns, columns, depth, columns);
    }
    unpack(w, z, i, j, rows, columns);
}

typedef struct product {
    const moon_tensor *a, *b, *out;
    matrix x, y, z;
    int64_t mkn[3];
    int64_t down, across; /* blocks of one matrix */
    int64_t batches, length;
    work plan; /* without its blocks */
    size_t a_size, b_size, c_size;
    _Atomic bool out_of_memory;
} product;

static void multiply_part(void *context, int64_t part) {
    product *p = context;
    work w = p->plan;
    size_t size = p->a_size + p->b_size + p->c_size;
    w.a = moon_alloc_aligned(size, 64);
    if (w.a == NULL) {
        atomic_store_explicit(&p->out_of_memory, true, memory_order_relaxed);
        return;
    }
    w.b = w.a + p->a_size;
    w.c = w.b + p->b_size;
    int64_t all = p->batches * p->down * p->across, end = least((part + 1) * p->length, all);
    for (int64_t u = part * p->length; u < end; u++) {
        int64_t block = u % (p->down * p->across), batch = u / (p->down * p->across);
        matrix x = p->x, y = p->y, z = p->z;
        for (int d = p->out->ndim - 2; d-- > 0;) {
            int64_t i = batch % p->out->shape[d];
            batch /= p->out->shape[d];
            x.at += i * p->a->strides[d] * (int64_t)x.size;
            y.at += i * p->b->strides[d] * (int64_t)y.size;
            z.at += i * p->out->strides[d] * (int64_t)z.size;
        }
        multiply_block(&w, &x, &y, &z, block % p->down * ROWS, block / p->down * COLUMNS, p->mkn);
    }
    moon_free(w.a, size);
}

moon_status moon_cpu_matmul(const moon_tensor *a, const moon_tensor *b, const moon_tensor *out) {
    product p = {.a = a, .b = b, .out = out, .x = last_two(a), .y = last_two(b), .z = last_two(out), .batches = 1};
    work *w = &p.plan;
    w->kernels = moon_kernels_now();
    w->dtype = moon_loop_dtype((moon_dtype)out->dtype);
    w->size = moon_dtypes[w->dtype].size;
    w->gemm = w->kernels->gemms[w->dtype];
    int64_t m = a->shape[a->ndim - 2], k = a->shape[a->ndim - 1], n = b->shape[b->ndim - 1];
    int64_t rows = least(m, ROWS), depth = least(k, DEPTH), columns = least(n, COLUMNS);
    p.mkn[0] = m, p.mkn[1] = k, p.mkn[2] = n;
    p.a_size = block_size(w, rows, depth), p.b_size = block_size(w, depth, columns), p.c_size = block_size(w, rows, columns);
    p.down = (m + ROWS - 1) / ROWS, p.across = (n + COLUMNS - 1) / COLUMNS;
    for (int d = 0; d < out->ndim - 2; d++) p.batches *= out->shape[d];
    /* a part is worth its thread: some 10^5 multiplications */
    int64_t all = p.batches * p.down * p.across;
    p.length = 1 + (512 << 10) / (rows * depth * columns + 1);
    moon_parallel((all + p.length - 1) / p.length, multiply_part, &p);
    return p.out_of_memory ? moon_fail(MOON_EMEMORY, "out of memory") : MOON_OK;
}
