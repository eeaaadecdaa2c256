/* Matrix products in blocks: a block of b is packed, with rows of a, in the compute dtype, and accumulated into a packed
   block of the result, which is rounded to its own dtype once. */
#include <string.h>

#include "iter.h"
#include "kernels.h"
#include "move.h"
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

static void multiply(work *w, const matrix *a, const matrix *b, const matrix *c, int64_t m, int64_t k, int64_t n) {
    for (int64_t j = 0; j < n; j += COLUMNS) {
        int64_t columns = least(n - j, COLUMNS);
        for (int64_t i = 0; i < m; i += ROWS) {
            int64_t rows = least(m - i, ROWS);
            memset(w->c, 0, (size_t)(rows * columns) * w->size);
            for (int64_t l = 0; l < k; l += DEPTH) {
                int64_t depth = least(k - l, DEPTH);
                pack(w, a, i, l, rows, depth, w->a);
                if (i == 0 || k > DEPTH) pack(w, b, l, j, depth, columns, w->b); /* else still there */
                w->gemm(w->c, w->a, w->b, rows, depth, columns, columns, depth, columns);
            }
            unpack(w, c, i, j, rows, columns);
        }
    }
}

moon_status moon_cpu_matmul(const moon_tensor *a, const moon_tensor *b, const moon_tensor *out) {
    work w;
    w.kernels = moon_kernels_now();
    w.dtype = moon_loop_dtype((moon_dtype)out->dtype);
    w.size = moon_dtypes[w.dtype].size;
    w.gemm = w.kernels->gemms[w.dtype];
    matrix x = last_two(a), y = last_two(b), z = last_two(out);
    int64_t m = a->shape[a->ndim - 2], k = a->shape[a->ndim - 1], n = b->shape[b->ndim - 1];
    int64_t rows = least(m, ROWS), depth = least(k, DEPTH), columns = least(n, COLUMNS);
    size_t a_size = block_size(&w, rows, depth), b_size = block_size(&w, depth, columns), c_size = block_size(&w, rows, columns);
    w.a = moon_alloc_aligned(a_size + b_size + c_size, 64);
    if (w.a == NULL) return moon_fail(MOON_EMEMORY, "out of memory");
    w.b = w.a + a_size;
    w.c = w.b + b_size;
    int64_t index[MOON_MAXDIM] = {0};
    int batch = out->ndim - 2;
    for (;;) {
        multiply(&w, &x, &y, &z, m, k, n);
        int d = batch;
        while (d-- > 0) {
            int64_t back = ++index[d] < out->shape[d] ? 1 : 1 - out->shape[d];
            x.at += back * a->strides[d] * (int64_t)x.size;
            y.at += back * b->strides[d] * (int64_t)y.size;
            z.at += back * out->strides[d] * (int64_t)z.size;
            if (back == 1) break;
            index[d] = 0;
        }
        if (d < 0) break;
    }
    moon_free(w.a, a_size + b_size + c_size);
    return MOON_OK;
}
