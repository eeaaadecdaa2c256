#include "check.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <math.h>
#include <stdlib.h>

/* ---- an allocator that counts, checks sizes and alignment, and fails on demand ---- */

long fail_at;
_Atomic long live_blocks;

typedef struct header {
    size_t size;
    void *raw;
} header;

static void *test_alloc(void *context, size_t size, size_t alignment) {
    (void)context;
    if (fail_at > 0 && --fail_at == 0) return NULL;
    if (alignment < 16) alignment = 16;
    char *raw = malloc(size + alignment + sizeof(header));
    if (raw == NULL) return NULL;
    char *block = (char *)(((uintptr_t)raw + sizeof(header) + alignment - 1) & ~(uintptr_t)(alignment - 1));
    ((header *)(void *)block)[-1] = (header){size, raw};
    memset(block, 0xa5, size); /* nobody may count on zeros */
    live_blocks++;
    return block;
}

static void test_free(void *context, void *block, size_t size) {
    (void)context;
    header h = ((header *)block)[-1];
    if (h.size != size) {
        fprintf(stderr, "freed %zu bytes of a block of %zu\n", size, h.size);
        abort();
    }
    memset(block, 0x5a, size);
    free(h.raw);
    live_blocks--;
}

/* ---- checks ---- */

static int failures;

void check_failed(const char *file, int line, const char *format, ...) {
    if (++failures > 20) return; /* a loop that fails says so once */
    printf("%s:%d: ", file, line);
    va_list arguments;
    va_start(arguments, format);
    vprintf(format, arguments);
    va_end(arguments);
    printf("\n");
}

void check_fails(const char *file, int line, const char *call, moon_status got, moon_status want, const char *words) {
    if (got != want) {
        check_failed(file, line, "%s gives status %d, expected %d (%s)", call, (int)got, (int)want,
                     got == MOON_OK ? "no error" : moon_error_message());
        return;
    }
    char list[256];
    snprintf(list, sizeof list, "%s", words);
    for (char *word = strtok(list, "|"); word != NULL; word = strtok(NULL, "|")) {
        if (strstr(moon_error_message(), word) == NULL) {
            check_failed(file, line, "%s says \"%s\", without \"%s\"", call, moon_error_message(), word);
        }
    }
}

static uint64_t state = 1;

uint64_t next_random(void) {
    uint64_t z = state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

int64_t random_below(int64_t n) { return (int64_t)(next_random() % (uint64_t)n); }

static bool quick;

int rounds(int n) { return quick ? (n + 5) / 6 : n; }

/* ---- tensors ---- */

void make(moon_draft *d, moon_dtype dtype, int ndim, const int64_t *shape) {
    OK(moon_draft_contiguous(d, dtype, ndim, shape));
    OK(moon_tensor_alloc(&d->t, moon_cpu()));
}

static moon_value random_value(moon_dtype dtype) {
    static const double floats[] = {0, -0.0, 1, -1, 0.5, 2, -3.25, 1e-3, 7, 100, INFINITY, -INFINITY, NAN};
    moon_value v = {MOON_VALUE_FLOAT, {.f = floats[random_below(13)]}};
    int bits = 8 * moon_dtypes[dtype].size;
    if (random_below(2)) v.as.f = (double)(random_below(2001) - 1000) / 64;
    switch (moon_dtypes[dtype].kind) {
    case MOON_KIND_BOOL: return (moon_value){MOON_VALUE_BOOL, {.b = random_below(2)}};
    case MOON_KIND_INT: {
        int64_t ends[] = {INT64_MIN >> (64 - bits), INT64_MAX >> (64 - bits), 0, -1, 1};
        int64_t any = random_below(2) ? (int64_t)next_random() >> (64 - bits) : random_below(21) - 10;
        return (moon_value){MOON_VALUE_INT, {.i = random_below(4) ? any : ends[random_below(5)]}};
    }
    case MOON_KIND_UINT: {
        uint64_t any = random_below(2) ? next_random() >> (64 - bits) : (uint64_t)random_below(20);
        return (moon_value){MOON_VALUE_UINT, {.u = random_below(4) ? any : random_below(2) ? UINT64_MAX >> (64 - bits) : 0}};
    }
    case MOON_KIND_COMPLEX: {
        moon_value w = {MOON_VALUE_COMPLEX, {.c = {v.as.f, (double)(random_below(2001) - 1000) / 64}}};
        return w;
    }
    default: return v;
    }
}

void *element_number(const moon_tensor *t, int64_t i) {
    int64_t at = 0;
    for (int d = t->ndim; d-- > 0;) {
        at += i % t->shape[d] * t->strides[d];
        i /= t->shape[d];
    }
    return moon_data(t) + at * (int64_t)moon_itemsize(t);
}

void fill_random(const moon_tensor *t) {
    for (int64_t i = 0; i < t->numel; i++) {
        moon_value v = random_value((moon_dtype)t->dtype);
        OK(moon_element_write((moon_dtype)t->dtype, element_number(t, i), &v));
    }
}

void make_strided(moon_draft *base, moon_draft *view, moon_dtype dtype, int ndim, const int64_t *shape) {
    int64_t wide[MOON_MAXDIM] = {0};
    int order[MOON_MAXDIM], back[MOON_MAXDIM];
    for (int i = 0; i < ndim; i++) order[i] = i;
    for (int i = ndim - 1; i > 0; i--) {
        int j = (int)random_below(i + 1), k = order[i];
        order[i] = order[j], order[j] = k;
    }
    int64_t gap[MOON_MAXDIM];
    for (int i = 0; i < ndim; i++) {
        gap[i] = random_below(3) == 0 ? 2 : 1;
        wide[i] = shape[order[i]] * gap[i];
        back[order[i]] = i;
    }
    make(base, dtype, ndim, wide);
    memset(moon_data(&base->t), 0, base->t.storage->nbytes);
    moon_draft a = *base, b;
    a.t.shape = a.dims, a.t.strides = a.dims + MOON_MAXDIM;
    for (int i = 0; i < ndim; i++) {
        bool reverse = random_below(4) == 0;
        int64_t n = wide[i] / gap[i];
        OK(moon_view_slice(&b, &a.t, i, reverse && n > 0 ? (n - 1) * gap[i] : 0, n, reverse ? -gap[i] : gap[i]));
        a = b;
        a.t.shape = a.dims, a.t.strides = a.dims + MOON_MAXDIM;
    }
    OK(moon_view_permute(view, &a.t, back));
    view->t.storage = base->t.storage;
}

void random_view(moon_draft *base, moon_draft *view, moon_dtype dtype) {
    int64_t shape[4];
    int ndim = (int)random_below(5);
    for (int i = 0; i < ndim; i++) shape[i] = random_below(12) ? 1 + random_below(random_below(8) ? 6 : 90) : 0;
    make_strided(base, view, dtype, ndim, shape);
}

/* ---- running ---- */

static int passed, failed;

static void run(const char *suite, const test *tests) {
    for (; tests->run != NULL; tests++) {
        failures = 0;
        state = 1;
        tests->run();
        moon_live live = moon_live_counts();
        if (live.storages || live.bytes || live.exports || live.imports || live_blocks) {
            check_failed(suite, 0, "left behind: %lld storages, %lld bytes, %lld exports, %lld imports, %ld blocks",
                         (long long)live.storages, (long long)live.bytes, (long long)live.exports, (long long)live.imports,
                         (long)live_blocks);
        }
        if (failures > 0) printf("FAILED %s.%s: %d checks\n", suite, tests->name, failures);
        failures > 0 ? failed++ : passed++;
        fflush(stdout);
    }
}

moon_allocator default_memory;

static const struct {
    const char *name;
    const test *tests;
} suites[] = {{"dtype", dtype_suite},   {"storage", storage_suite}, {"view", view_suite},     {"copy", copy_suite},
              {"ops", ops_suite},       {"reduce", reduce_suite},   {"dlpack", dlpack_suite}, {"format", format_suite},
              {"memory", memory_suite}, {"level", level_suite},     {"pool", pool_suite},     {"vector", vector_suite},
              {"files", files_suite},   {"index", index_suite}};

/* [--quick] [suites]: the suites named, or all of them */
int main(int argc, char **argv) {
    quick = argc > 1 && strcmp(argv[1], "--quick") == 0;
    argc -= quick, argv += quick;
    default_memory = moon_memory;
    moon_memory = (moon_allocator){test_alloc, test_free, NULL};
    for (size_t i = 0; i < sizeof suites / sizeof *suites; i++) {
        bool wanted = argc < 2;
        for (int k = 1; k < argc; k++) wanted = wanted || strcmp(argv[k], suites[i].name) == 0;
        if (wanted) run(suites[i].name, suites[i].tests);
    }
    printf("%d passed, %d failed\n", passed, failed);
    return failed > 0;
}
