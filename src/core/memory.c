#include "memory.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>

/* Small blocks come from malloc, aligned here with malloc's own address kept before the block, since posix_memalign bypasses
   its thread cache. The size decides, so that free needs no mark.

   Large blocks are mapped, and from 4 MiB on start on a huge page and ask for more of them: fresh memory is dominated by page
   faults (277 ms against 63 ms for 64 M floats). Freed ones are kept for the next request of their size, since programs make temporaries of
   one size over and over; what is kept is bounded, and given back before memory is refused. */
enum { LARGE = 256 << 10, HUGE = 4 << 20, HUGE_PAGE = 2 << 20, GRAIN = 64 << 10, MALLOC_ALIGNMENT = 16 };
enum { KEPT_BLOCKS = 32 };
static const size_t kept_bytes_most = (size_t)256 << 20;

/* ---- freed blocks, the oldest first ---- */

typedef struct kept_block {
    char *block;
    size_t size;
} kept_block;

static struct {
    pthread_mutex_t lock;
    kept_block blocks[KEPT_BLOCKS];
    int count;
    size_t bytes;
} kept = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void before_fork(void) { pthread_mutex_lock(&kept.lock); }
static void in_parent(void) { pthread_mutex_unlock(&kept.lock); }
static void in_child(void) { pthread_mutex_init(&kept.lock, NULL); }
static void watch_forks(void) { (void)pthread_atfork(before_fork, in_parent, in_child); }

static void lock(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, watch_forks);
    pthread_mutex_lock(&kept.lock);
}

static kept_block remove_kept(int i) {
    kept_block b = kept.blocks[i];
    kept.count--;
    kept.bytes -= b.size;
    for (; i < kept.count; i++) kept.blocks[i] = kept.blocks[i + 1];
    return b;
}

/* a block of this very size, or NULL */
static char *take(size_t size) {
    char *block = NULL;
    lock();
    for (int i = kept.count; i-- > 0 && block == NULL;) {
        if (kept.blocks[i].size == size) block = remove_kept(i).block;
    }
    pthread_mutex_unlock(&kept.lock);
    return block;
}

/* make room and keep the block; what is dropped for it goes back to the system outside the lock */
static bool keep(char *block, size_t size) {
    if (size > kept_bytes_most) return false;
    kept_block dropped[KEPT_BLOCKS];
    int n = 0;
    lock();
    while (kept.count == KEPT_BLOCKS || kept.bytes + size > kept_bytes_most) dropped[n++] = remove_kept(0);
    kept.blocks[kept.count++] = (kept_block){block, size};
    kept.bytes += size;
    pthread_mutex_unlock(&kept.lock);
    while (n-- > 0) munmap(dropped[n].block, dropped[n].size);
    return true;
}

size_t moon_memory_kept(void) {
    lock();
    size_t bytes = kept.bytes;
    pthread_mutex_unlock(&kept.lock);
    return bytes;
}

size_t moon_memory_trim(void) {
    kept_block dropped[KEPT_BLOCKS];
    size_t bytes = 0;
    lock();
    int n = kept.count;
    for (int i = 0; i < n; i++) dropped[i] = kept.blocks[i], bytes += dropped[i].size;
    kept.count = 0;
    kept.bytes = 0;
    pthread_mutex_unlock(&kept.lock);
    for (int i = 0; i < n; i++) munmap(dropped[i].block, dropped[i].size);
    return bytes;
}

/* ---- large blocks ---- */

static size_t round_up(size_t n, size_t unit) { return (n + unit - 1) & ~(unit - 1); }

/* size bytes, where they are many on a huge page: a mapping with the ends cut off */
static char *map(size_t size) {
    size_t whole = size >= HUGE ? size + HUGE_PAGE : size;
    char *raw = mmap(NULL, whole, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (raw == MAP_FAILED) return NULL;
    if (size < HUGE) return raw;
    char *block = (char *)round_up((uintptr_t)raw, HUGE_PAGE);
    size_t before = (size_t)(block - raw), after = whole - before - size;
    if (before > 0) munmap(raw, before);
    if (after > 0) munmap(block + size, after);
#ifdef MADV_HUGEPAGE
    (void)madvise(block, size, MADV_HUGEPAGE);
#endif
    return block;
}

static void *alloc_large(size_t size) {
    size = round_up(size, GRAIN);
    char *block = take(size);
    if (block == NULL) block = map(size);
    if (block == NULL && moon_memory_trim() > 0) block = map(size);
    return block;
}

static void free_large(void *block, size_t size) {
    size = round_up(size, GRAIN);
    if (!keep(block, size)) munmap(block, size);
}

/* ---- the default allocator ---- */

static void *default_alloc(void *context, size_t size, size_t alignment) {
    (void)context;
    if (!MOON_SANITIZED && size >= LARGE) return alloc_large(size); /* no alignment asked for is beyond a page's */
    if (alignment < MALLOC_ALIGNMENT) alignment = MALLOC_ALIGNMENT;
    char *raw = malloc(size + alignment);
    if (raw == NULL && moon_memory_trim() > 0) raw = malloc(size + alignment);
    if (raw == NULL) return NULL;
    /* malloc's alignment leaves at least 16 bytes before the aligned address */
    void **block = (void **)(((uintptr_t)raw + alignment) & ~(uintptr_t)(alignment - 1));
    block[-1] = raw;
    return block;
}

static void default_free(void *context, void *block, size_t size) {
    (void)context;
    if (block == NULL) return;
    if (!MOON_SANITIZED && size >= LARGE) free_large(block, size);
    else free(((void **)block)[-1]);
}

moon_allocator moon_memory = {default_alloc, default_free, NULL};

void *moon_alloc_aligned(size_t size, size_t alignment) {
    if (size > SIZE_MAX / 2) return NULL;
    return moon_memory.alloc(moon_memory.context, size, alignment);
}

void *moon_alloc(size_t size) { return moon_alloc_aligned(size, MALLOC_ALIGNMENT); }

void moon_free(void *block, size_t size) {
    if (block != NULL) moon_memory.free(moon_memory.context, block, size);
}
