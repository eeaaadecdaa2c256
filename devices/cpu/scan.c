/* Running sums and products. Each is carried in a wider type than the result where there is one (as torch: float32 in float64,
   halves in float32), element after element, so that the order of rounding does not depend on the layout. Where the
   elements of one scan lie far apart, a strip of neighbouring scans is carried at once. */
#include <complex.h>
#include <string.h>

#include "cpu.h"
#include "kernels.h"
#include "move.h"

enum { CHUNK = 512, WIDEST = 16 };

/* x: n rows of width packed elements; each becomes its column's total, which starts and ends in carry */
typedef void (*scan_loop)(void *x, void *carry, int64_t n, int64_t width);

#define SCAN(name, T, ...)                                                    \
    static void name(void *elements, void *carry, int64_t n, int64_t width) { \
        T *x = elements, *total = carry;                                      \
        if (width == 1) {                                                     \
            T a = *total;                                                     \
            for (int64_t i = 0; i < n; i++) {                                 \
                const T b = x[i];                                             \
                x[i] = a = __VA_ARGS__;                                       \
            }                                                                 \
            *total = a;                                                       \
            return;                                                           \
        }                                                                     \
        for (int64_t r = 0; r < n; r++, x += width) {                         \
            for (int64_t i = 0; i < width; i++) {                             \
                const T a = total[i], b = x[i];                               \
                x[i] = total[i] = __VA_ARGS__;                                \
            }                                                                 \
        }                                                                     \
    }

static double complex times(double complex a, double complex b) {
    double ar = creal(a), ai = cimag(a), br = creal(b), bi = cimag(b);
    return CMPLX(ar * br - ai * bi, ar * bi + ai * br);
}

SCAN(sum_u64, uint64_t, a + b)
SCAN(sum_f32, float, a + b)
SCAN(sum_f64, double, a + b)
SCAN(sum_c128, double complex, a + b)
SCAN(prod_u64, uint64_t, a *b)
SCAN(prod_f32, float, a *b)
SCAN(prod_f64, double, a *b)
SCAN(prod_c128, double complex, times(a, b))

typedef struct job {
    scan_loop loop;
    moon_cast load, store; /* NULL where nothing changes */
    size_t in_size, work_size, out_size;
    _Alignas(16) char first[WIDEST]; /* 0 or 1 in the work dtype */
} job;

/* where elements come from and go to, and the distances between them, in bytes */
typedef struct place {
    const char *from;
    char *to;
    int64_t from_step, to_step;
} place;

/* n elements of p through the loop, seen as rows of width */
static void carry_on(const job *j, place p, int64_t n, int64_t width, void *carry) {
    _Alignas(64) char work[CHUNK * WIDEST], raw[CHUNK * WIDEST];
    const char *in = j->load ? raw : work;
    if (j->load && p.from_step == (int64_t)j->in_size) in = p.from;
    else moon_gather(j->load ? raw : work, p.from, p.from_step, n, j->in_size);
    if (j->load) j->load(work, in, n);
    j->loop(work, carry, n / width, width);
    if (j->store && p.to_step == (int64_t)j->out_size) {
        j->store(p.to, work, n);
        return;
    }
    if (j->store) j->store(raw, work, n);
    moon_scatter(p.to, p.to_step, j->store ? raw : work, n, j->out_size);
}

static void scan_row(const job *j, place p, int64_t n) {
    _Alignas(16) char carry[WIDEST];
    memcpy(carry, j->first, sizeof carry);
    for (int64_t i = 0; i < n; i += CHUNK) {
        place at = {p.from + i * p.from_step, p.to + i * p.to_step, p.from_step, p.to_step};
        carry_on(j, at, n - i < CHUNK ? n - i : CHUNK, 1, carry);
    }
}

/* width scans side by side, of n elements at the distances of along */
static void scan_strip(const job *j, place p, int64_t width, place along, int64_t n) {
    _Alignas(64) char carry[CHUNK * WIDEST];
    for (int64_t i = 0; i < width; i++) memcpy(carry + (size_t)i * j->work_size, j->first, j->work_size);
    for (int64_t r = 0; r < n; r++) {
        carry_on(j, p, width, width, carry);
        p.from += along.from_step, p.to += along.to_step;
    }
}

static int64_t magnitude(int64_t x) { return x < 0 ? -x : x; }

/* the dimension whose elements lie closer together than those of one scan, or -1 */
static int strip_dim(const moon_tensor *in, int dim) {
    int best = -1;
    for (int i = 0; i < in->ndim; i++) {
        if (i == dim || in->shape[i] < 2 || magnitude(in->strides[i]) >= magnitude(in->strides[dim])) continue;
        if (best < 0 || magnitude(in->strides[i]) < magnitude(in->strides[best])) best = i;
    }
    return in->shape[dim] > 1 ? best : -1;
}

static place step_of(const moon_tensor *in, const moon_tensor *out, int dim) {
    return (place){.from_step = in->strides[dim] * (int64_t)moon_itemsize(in),
                   .to_step = out->strides[dim] * (int64_t)moon_itemsize(out)};
}

static void scan_at(const job *j, place p, const moon_tensor *in, int dim, int across, const moon_tensor *out) {
    place along = step_of(in, out, dim);
    if (across < 0) {
        p.from_step = along.from_step, p.to_step = along.to_step;
        scan_row(j, p, in->shape[dim]);
        return;
    }
    place side = step_of(in, out, across);
    for (int64_t i = 0; i < in->shape[across]; i += CHUNK) {
        int64_t width = in->shape[across] - i < CHUNK ? in->shape[across] - i : CHUNK;
        side.from = p.from + i * side.from_step, side.to = p.to + i * side.to_step;
        scan_strip(j, side, width, along, in->shape[dim]);
    }
}

static void scan_all(const job *j, const moon_tensor *in, int dim, const moon_tensor *out) {
    int across = strip_dim(in, dim);
    int64_t index[MOON_MAXDIM] = {0};
    place p = {.from = moon_data(in), .to = moon_data(out)};
    for (int d = 0; d >= 0;) {
        scan_at(j, p, in, dim, across, out);
        for (d = in->ndim - 1; d >= 0; d--) {
            if (d == dim || d == across) continue;
            place step = step_of(in, out, d);
            p.from += step.from_step, p.to += step.to_step;
            if (++index[d] < in->shape[d]) break;
            index[d] = 0;
            p.from -= step.from_step * in->shape[d], p.to -= step.to_step * in->shape[d];
        }
    }
}

static moon_dtype work_dtype(moon_dtype out) {
    switch (out) {
    case MOON_FLOAT32: return MOON_FLOAT64;
    case MOON_COMPLEX64: return MOON_COMPLEX128;
    default: return moon_loop_dtype(out);
    }
}

static scan_loop loop_of(moon_op_id op, moon_dtype work) {
    bool sum = op == MOON_OP_sum;
    switch (work) {
    case MOON_FLOAT32: return sum ? sum_f32 : prod_f32;
    case MOON_FLOAT64: return sum ? sum_f64 : prod_f64;
    case MOON_COMPLEX128: return sum ? sum_c128 : prod_c128;
    default: return sum ? sum_u64 : prod_u64; /* int64 too: both wrap */
    }
}

moon_status moon_cpu_scan(moon_op_id op, const moon_tensor *in, int dim, const moon_tensor *out) {
    const moon_kernels *kernels = moon_kernels_now();
    moon_dtype from = (moon_dtype)in->dtype, to = (moon_dtype)out->dtype, work = work_dtype(to);
    job j = {.loop = loop_of(op, work), .in_size = moon_itemsize(in), .work_size = moon_dtypes[work].size};
    j.out_size = moon_itemsize(out);
    j.load = from == work ? NULL : kernels->casts[from][work];
    j.store = to == work ? NULL : kernels->casts[work][to];
    (void)moon_element_write(work, j.first, &(moon_value){MOON_VALUE_INT, {.i = op == MOON_OP_prod}});
    scan_all(&j, in, dim, out);
    return MOON_OK;
}
