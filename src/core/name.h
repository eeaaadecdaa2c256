/* Names in files: what may be one, and how an error message shows what may not. */
#ifndef MOON_NAME_H
#define MOON_NAME_H

#include "status.h"

enum { MOON_QUOTED = 120 };

/* the first byte that is not UTF-8 (surrogates and overlong forms are not), or n */
size_t moon_utf8_valid(const char *text, size_t n);
/* 'text' for a message: bytes that do not print are escaped, what is long is cut short; returns buffer */
const char *moon_quoted(const char *text, size_t n, char buffer[MOON_QUOTED]);
/* A tensor's name: UTF-8, not empty, without NUL, and no path that leads out of where it is unpacked by others. */
moon_status moon_name_check(const char *name, size_t n);
/* order of names: by bytes, the shorter first where one starts the other */
int moon_name_compare(const char *a, size_t an, const char *b, size_t bn);

/* a tensor with the name it has in a file */
typedef struct moon_named {
    const char *name;
    size_t length;
    const moon_tensor *tensor;
} moon_named;

#endif
