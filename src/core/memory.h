/* The allocator of everything core owns. Replaceable, so that a test host can fail the n-th call and count what is live. */
#ifndef MOON_MEMORY_H
#define MOON_MEMORY_H

#include <stddef.h>

/* a sanitizer is to see every block come and go, and where each one ends: nothing is kept, nor are blocks joined */
#if defined(__SANITIZE_ADDRESS__)
#define MOON_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define MOON_SANITIZED 1
#endif
#endif
#ifndef MOON_SANITIZED
#define MOON_SANITIZED 0
#endif

typedef struct moon_allocator {
    void *(*alloc)(void *context, size_t size, size_t alignment); /* alignment: a power of two; NULL on failure */
    void (*free)(void *context, void *block, size_t size);
    void *context;
} moon_allocator;

extern moon_allocator moon_memory; /* set before the first tensor is made, or not at all */

void *moon_alloc(size_t size);
void *moon_alloc_aligned(size_t size, size_t alignment);
void moon_free(void *block, size_t size);

/* the default allocator keeps freed large blocks, some hundred MiB at most: how many bytes; give them back to the system */
size_t moon_memory_kept(void);
size_t moon_memory_trim(void);

#endif
