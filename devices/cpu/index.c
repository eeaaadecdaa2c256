/* Elements by a table of offsets: whole blocks where what is kept runs on behind them, else one by one. */
#include "cpu.h"
#include "move.h"

#include <string.h>

typedef uint8_t __attribute__((may_alias)) w1;
typedef uint16_t __attribute__((may_alias)) w2;
typedef uint32_t __attribute__((may_alias)) w4;
typedef uint64_t __attribute__((may_alias)) w8;
typedef struct __attribute__((may_alias)) w16 {
    uint64_t a, b;
} w16;

#define PICKS(NAME)                                                                                                    \
    static void get_##NAME(char *restrict packed, int64_t step, const char *base, const int64_t *offsets, int64_t n) { \
        if (step == (int64_t)sizeof(NAME)) {                                                                           \
            for (int64_t k = 0; k < n; k++) ((NAME *)packed)[k] = *(const NAME *)(base + offsets[k]);                  \
            return;                                                                                                    \
        }                                                                                                              \
        for (int64_t k = 0; k < n; k++, packed += step) *(NAME *)packed = *(const NAME *)(base + offsets[k]);          \
    }                                                                                                                  \
    static void put_##NAME(const char *restrict packed, int64_t step, char *base, const int64_t *offsets, int64_t n) { \
        for (int64_t k = 0; k < n; k++, packed += step) *(NAME *)(base + offsets[k]) = *(const NAME *)packed;          \
    }

PICKS(w1)
PICKS(w2)
PICKS(w4)
PICKS(w8)
PICKS(w16)

#define BY_SIZE(f, ...)                 \
    switch (size) {                     \
    case 1: f##_w1(__VA_ARGS__); break; \
    case 2: f##_w2(__VA_ARGS__); break; \
    case 4: f##_w4(__VA_ARGS__); break; \
    case 8: f##_w8(__VA_ARGS__); break; \
    default: f##_w16(__VA_ARGS__);      \
    }

/* A run of dimensions, merged where both sides run on; dimension 0 is the innermost. Steps in bytes: of the value, which has a place
   for every offset, and of the indexed tensor. */
typedef struct block {
    int ndim;
    int64_t extent[MOON_MAXDIM], value[MOON_MAXDIM], kept[MOON_MAXDIM];
} block;

static void add_dim(block *b, int64_t extent, int64_t value, int64_t kept) {
    int last = b->ndim - 1;
    if (extent == 1) return;
    if (last >= 0 && value == b->value[last] * b->extent[last] && kept == b->kept[last] * b->extent[last]) {
        b->extent[last] *= extent;
        return;
    }
    b->extent[b->ndim] = extent;
    b->value[b->ndim] = value;
    b->kept[b->ndim++] = kept;
}

/* to the next place of dimensions from..; false after the last */
static bool next_place(const block *b, int from, int64_t *index, char **value, char **kept) {
    for (int d = from; d < b->ndim; d++) {
        *value += b->value[d];
        *kept += b->kept[d];
        if (++index[d] < b->extent[d]) return true;
        *value -= b->value[d] * b->extent[d];
        *kept -= b->kept[d] * b->extent[d];
        index[d] = 0;
    }
    return false;
}

/* one block behind one offset */
static void move_block(const block *b, char *value, char *kept, size_t size, bool read) {
    int64_t index[MOON_MAXDIM] = {0};
    do {
        if (read) moon_move(value, b->value[0], kept, b->kept[0], b->extent[0], size);
        else moon_move(kept, b->kept[0], value, b->value[0], b->extent[0], size);
    } while (next_place(b, 1, index, &value, &kept));
}

static void move(const moon_tensor *flat, const moon_tensor *rest, int at, const int64_t *offsets, bool read) {
    size_t size = moon_itemsize(rest);
    int64_t width = (int64_t)size, n = flat->shape[at], step = flat->strides[at] * width, index[MOON_MAXDIM] = {0};
    block outer = {0}, inner = {0};
    for (int d = rest->ndim; d-- > 0;) {
        int there = d < at ? d : d + 1;
        add_dim(d < at ? &outer : &inner, rest->shape[d], flat->strides[there] * width, rest->strides[d] * width);
    }
    bool whole = inner.ndim == 1 && inner.value[0] == width && inner.kept[0] == width;
    char *value = moon_data(flat), *kept = moon_data(rest);
    do {
        if (inner.ndim == 0) {
            if (read) BY_SIZE(get, value, step, kept, offsets, n)
            else BY_SIZE(put, value, step, kept, offsets, n)
        } else if (whole) {
            size_t bytes = (size_t)inner.extent[0] * size;
            for (int64_t k = 0; k < n; k++) {
                if (read) memcpy(value + k * step, kept + offsets[k], bytes);
                else memcpy(kept + offsets[k], value + k * step, bytes);
            }
        } else {
            for (int64_t k = 0; k < n; k++) move_block(&inner, value + k * step, kept + offsets[k], size, read);
        }
    } while (next_place(&outer, 0, index, &value, &kept));
}

moon_status moon_cpu_index_get(const moon_tensor *out, const moon_tensor *from, int at, const int64_t *offsets) {
    move(out, from, at, offsets, true);
    return MOON_OK;
}

moon_status moon_cpu_index_put(const moon_tensor *to, int at, const int64_t *offsets, const moon_tensor *value) {
    move(value, to, at, offsets, false);
    return MOON_OK;
}
