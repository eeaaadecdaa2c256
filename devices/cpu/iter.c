#include "iter.h"

#include "pool.h"

enum { TILE = 64 };

static int64_t magnitude(int64_t x) { return x < 0 ? -x : x; }

static void insert_dim(moon_iter *it, int at, int64_t extent, const int64_t *step) {
    for (int j = it->ndim; j > at; j--) {
        it->extent[j] = it->extent[j - 1];
        for (int k = 0; k < it->operands; k++) it->step[k][j] = it->step[k][j - 1];
    }
    it->extent[at] = extent;
    for (int k = 0; k < it->operands; k++) it->step[k][at] = step[k];
    it->ndim++;
}

static void merge_dims(moon_iter *it) {
    int d = 0;
    for (int i = 1; i < it->ndim; i++) {
        bool one = true;
        for (int k = 0; k < it->operands; k++) one = one && it->step[k][i] == it->step[k][d] * it->extent[d];
        if (one) {
            it->extent[d] *= it->extent[i];
            continue;
        }
        if (++d == i) continue;
        it->extent[d] = it->extent[i];
        for (int k = 0; k < it->operands; k++) it->step[k][d] = it->step[k][i];
    }
    it->ndim = d + 1;
}

bool moon_iter_init(moon_iter *it, int operands, const moon_tensor *const *t, bool keep_order) {
    if (t[0]->numel == 0) return false;
    it->operands = operands;
    it->ndim = 0;
    int64_t size[MOON_ITER_OPERANDS];
    for (int k = 0; k < operands; k++) it->data[k] = moon_data(t[k]), size[k] = (int64_t)moon_itemsize(t[k]);
    for (int i = t[0]->ndim; i-- > 0;) {
        int64_t n = t[0]->shape[i], step[MOON_ITER_OPERANDS] = {0};
        if (n == 1) continue;
        for (int k = 0; k < operands; k++) step[k] = t[k]->strides[i] * size[k];
        if (step[0] < 0 && !keep_order) {
            for (int k = 0; k < operands; k++) it->data[k] += (n - 1) * step[k], step[k] = -step[k];
        }
        int at = it->ndim;
        while (!keep_order && at > 0 && it->step[0][at - 1] > step[0]) at--;
        insert_dim(it, at, n, step);
    }
    if (it->ndim == 0) insert_dim(it, 0, 1, size);
    merge_dims(it);
    return true;
}

static void odometer(const moon_iter *it, char **at, int64_t n, moon_iter_body body, void *context) {
    int64_t index[MOON_MAXDIM], step[MOON_ITER_OPERANDS];
    for (int d = 1; d < it->ndim; d++) index[d] = 0;
    for (int k = 0; k < it->operands; k++) step[k] = it->step[k][0];
    for (;;) {
        body(context, at, step, n);
        int d = 1;
        for (; d < it->ndim; d++) {
            if (++index[d] < it->extent[d]) break;
            index[d] = 0;
            for (int k = 0; k < it->operands; k++) at[k] -= it->step[k][d] * (it->extent[d] - 1);
        }
        if (d >= it->ndim) return;
        for (int k = 0; k < it->operands; k++) at[k] += it->step[k][d];
    }
}

void moon_iter_run(const moon_iter *it, moon_iter_body body, void *context) {
    int64_t n = it->extent[0], block = n;
    for (int k = 1; k < it->operands && it->ndim > 1; k++) {
        bool crosswise = it->step[k][1] != 0 && magnitude(it->step[k][0]) > magnitude(it->step[k][1]);
        if (crosswise && n > TILE) block = TILE;
    }
    for (int64_t i = 0; i < n; i += block) {
        char *at[MOON_ITER_OPERANDS];
        for (int k = 0; k < it->operands; k++) at[k] = it->data[k] + i * it->step[k][0];
        odometer(it, at, n - i < block ? n - i : block, body, context);
    }
}

/* ---- parts ---- */

enum { MOST_PARTS = 1024 };

typedef struct share {
    const moon_iter *it;
    moon_iter_whole whole;
    void *context;
    int dim;
    int64_t length; /* of a part, along dim */
} share;

static void share_part(void *context, int64_t i) {
    const share *s = context;
    moon_iter part = *s->it;
    int64_t first = i * s->length, left = part.extent[s->dim] - first;
    part.extent[s->dim] = left < s->length ? left : s->length;
    for (int k = 0; k < part.operands; k++) part.data[k] += first * part.step[k][s->dim];
    s->whole(s->context, &part);
}

/* bytes that the walk touches; operands that stay along a dimension touch none there */
static double bytes_of(const moon_iter *it, double *count) {
    double bytes = 0;
    *count = 1;
    for (int d = 0; d < it->ndim; d++) *count *= (double)it->extent[d];
    for (int k = 0; k < it->operands; k++) {
        int64_t step = magnitude(it->step[k][0]);
        bytes += *count * (double)(step > 16 ? 16 : step);
    }
    return bytes;
}

void moon_iter_share(const moon_iter *it, int weight, moon_iter_whole whole, void *context) {
    double count, bytes = bytes_of(it, &count) * weight;
    share s = {.it = it, .whole = whole, .context = context};
    for (int d = 0; d < it->ndim; d++) {
        if (it->extent[d] >= it->extent[s.dim]) s.dim = d;
    }
    int64_t extent = it->extent[s.dim], parts = (int64_t)(bytes / (MOON_PART_BYTES));
    if (bytes < MOON_SHARE_BYTES || extent < 2) {
        whole(context, it);
        return;
    }
    if (parts > MOST_PARTS) parts = MOST_PARTS;
    /* whole tiles and cache lines where the extent has enough of them, else few and thick parts */
    bool tiles = extent >= 8 * TILE;
    if (!tiles && parts > 16) parts = 16;
    s.length = (extent + parts - 1) / parts;
    if (tiles) s.length = (s.length + TILE - 1) / TILE * TILE;
    moon_parallel((extent + s.length - 1) / s.length, share_part, &s);
}

typedef struct shared_run {
    moon_iter_body body;
    void *context;
} shared_run;

static void run_whole(void *context, const moon_iter *part) {
    const shared_run *r = context;
    moon_iter_run(part, r->body, r->context);
}

void moon_iter_run_shared(const moon_iter *it, int weight, moon_iter_body body, void *context) {
    moon_iter_share(it, weight, run_whole, &(shared_run){body, context});
}
