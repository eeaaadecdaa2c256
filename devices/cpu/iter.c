#include "iter.h"

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
