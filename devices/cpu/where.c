/* Elements of one operand or the other by a mask, over any layouts and dtypes. */
#include "iter.h"
#include "kernels.h"
#include "move.h"

enum { CHUNK = 512, WIDEST = 16 };

typedef struct source {
    size_t size;
    moon_cast cast; /* to the result's dtype, or bool for the mask; NULL if it has that */
} source;

typedef struct where_context {
    moon_choose choose;
    size_t size;  /* of the result's elements */
    source in[3]; /* mask, a, b */
} where_context;

/* n elements, packed and cast; one that stays is given as it is, once */
static const char *load(const source *s, const char *at, int64_t step, int64_t n, char *buffer, char *raw) {
    if (step == 0) n = 1;
    if (step != (int64_t)s->size && n > 1) {
        moon_gather(s->cast ? raw : buffer, at, step, n, s->size);
        at = s->cast ? raw : buffer;
    }
    if (s->cast) s->cast(buffer, at, n), at = buffer;
    return at;
}

static void where_run(void *context, char *const *at, const int64_t *step, int64_t n) {
    const where_context *c = context;
    _Alignas(64) char buffer[3][CHUNK * WIDEST], raw[CHUNK * WIDEST], out[CHUNK * WIDEST];
    bool direct = step[0] == (int64_t)c->size;
    for (int64_t i = 0; i < n; i += CHUNK) {
        int64_t m = n - i < CHUNK ? n - i : CHUNK;
        const char *in[3];
        for (int k = 0; k < 3; k++) in[k] = load(&c->in[k], at[k + 1] + i * step[k + 1], step[k + 1], m, buffer[k], raw);
        char *to = at[0] + i * step[0];
        int sa = step[2] != 0, sb = step[3] != 0;
        if (step[1] == 0) { /* the mask stays: all from one side */
            bool first = *in[0] != 0;
            moon_move(to, step[0], in[first ? 1 : 2], (first ? sa : sb) ? (int64_t)c->size : 0, m, c->size);
            continue;
        }
        c->choose(direct ? to : out, (const uint8_t *)in[0], in[1], in[2], sa, sb, m);
        if (!direct) moon_scatter(to, step[0], out, m, c->size);
    }
}

moon_status moon_cpu_where(const moon_tensor *mask, const moon_tensor *a, const moon_tensor *b, const moon_tensor *out) {
    const moon_kernels *kernels = moon_kernels_now();
    const moon_tensor *all[4] = {out, mask, a, b};
    where_context c = {.size = moon_itemsize(out)};
    int log2 = 0;
    while ((size_t)1 << log2 < c.size) log2++;
    c.choose = kernels->choose[log2];
    for (int k = 0; k < 3; k++) {
        moon_dtype from = (moon_dtype)all[k + 1]->dtype, to = k == 0 ? MOON_BOOL : (moon_dtype)out->dtype;
        c.in[k] = (source){moon_itemsize(all[k + 1]), from == to ? NULL : kernels->casts[from][to]};
    }
    moon_iter it;
    if (moon_iter_init(&it, 4, all, false)) moon_iter_run_shared(&it, 1, where_run, &c);
    return MOON_OK;
}
