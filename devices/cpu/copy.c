/* Copies and fills over any two layouts of one shape. */
#include "iter.h"
#include "kernels.h"
#include "move.h"

enum { CHUNK = 512, WIDEST = 16 };

static void move_run(void *context, char *const *at, const int64_t *step, int64_t n) {
    moon_move(at[0], step[0], at[1], step[1], n, *(const size_t *)context);
}

/* Dimension 0 runs fastest in the target, another one in the source: pairs of them are moved in tiles. */
static bool copy_crosswise(moon_iter *it, size_t size) {
    if (it->ndim < 2 || it->step[0][0] != (int64_t)size || it->step[1][0] == (int64_t)size) return false;
    int d = 1;
    while (d < it->ndim && it->step[1][d] != (int64_t)size) d++;
    if (d == it->ndim || it->extent[d] < 4 || it->extent[0] < 4) return false;
    int64_t columns = it->extent[0], rows = it->extent[d], to_step = it->step[0][d], from_step = it->step[1][0];
    /* an odometer over the remaining dimensions */
    it->extent[0] = it->extent[d] = 1;
    int64_t index[MOON_MAXDIM] = {0};
    char *to = it->data[0], *from = it->data[1];
    for (;;) {
        moon_transpose(to, to_step, from, from_step, rows, columns, size);
        int i = 0;
        for (; i < it->ndim; i++) {
            if (++index[i] < it->extent[i]) break;
            index[i] = 0;
            to -= it->step[0][i] * (it->extent[i] - 1);
            from -= it->step[1][i] * (it->extent[i] - 1);
        }
        if (i == it->ndim) return true;
        to += it->step[0][i];
        from += it->step[1][i];
    }
}

typedef struct cast_context {
    moon_cast cast;
    size_t to_size, from_size;
} cast_context;

static void cast_run(void *context, char *const *at, const int64_t *step, int64_t n) {
    const cast_context *c = context;
    bool packed = step[1] == (int64_t)c->from_size, direct = step[0] == (int64_t)c->to_size;
    if (packed && direct) {
        c->cast(at[0], at[1], n);
        return;
    }
    char in[CHUNK * WIDEST] __attribute__((aligned(64))), out[CHUNK * WIDEST] __attribute__((aligned(64)));
    for (int64_t i = 0; i < n; i += CHUNK) {
        int64_t m = n - i < CHUNK ? n - i : CHUNK;
        const char *from = at[1] + i * step[1];
        char *to = at[0] + i * step[0];
        if (!packed) moon_gather(in, from, step[1], m, c->from_size);
        c->cast(direct ? to : out, packed ? from : in, m);
        if (!direct) moon_scatter(to, step[0], out, m, c->to_size);
    }
}

static void copy_whole(void *context, const moon_iter *part) {
    size_t size = *(const size_t *)context;
    moon_iter it = *part;
    if (!copy_crosswise(&it, size)) moon_iter_run(&it, move_run, &size);
}

moon_status moon_cpu_copy(const moon_tensor *to, const moon_tensor *from) {
    moon_iter it;
    if (!moon_iter_init(&it, 2, (const moon_tensor *const[]){to, from}, false)) return MOON_OK;
    if (to->dtype == from->dtype) {
        size_t size = moon_itemsize(to);
        moon_iter_share(&it, 1, copy_whole, &size);
        return MOON_OK;
    }
    cast_context c = {moon_kernels_now()->casts[from->dtype][to->dtype], moon_itemsize(to), moon_itemsize(from)};
    moon_iter_run_shared(&it, 1, cast_run, &c);
    return MOON_OK;
}

typedef struct fill_context {
    const void *element;
    size_t size;
} fill_context;

static void fill_run(void *context, char *const *at, const int64_t *step, int64_t n) {
    const fill_context *c = context;
    moon_fill_run(at[0], step[0], c->element, n, c->size);
}

moon_status moon_cpu_fill(const moon_tensor *to, const void *element) {
    moon_iter it;
    _Alignas(16) char aligned[WIDEST];
    fill_context c = {aligned, moon_itemsize(to)};
    for (size_t i = 0; i < c.size; i++) aligned[i] = ((const char *)element)[i];
    if (moon_iter_init(&it, 1, &to, false)) moon_iter_run_shared(&it, 1, fill_run, &c);
    return MOON_OK;
}
