#include "status.h"

#include <stdarg.h>
#include <stdio.h>

static _Thread_local struct {
    moon_status kind;
    char message[512];
} record;

moon_status moon_fail(moon_status kind, const char *format, ...) {
    /* format first: an argument may be the old message itself */
    char text[sizeof record.message];
    va_list arguments;
    va_start(arguments, format);
    int n = vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (n < 0) n = 0;
    if ((size_t)n >= sizeof text) n = (int)sizeof text - 1;
    for (int i = 0; i < n; i++) record.message[i] = text[i];
    record.message[n] = '\0';
    record.kind = kind;
    return kind;
}

const char *moon_error_message(void) { return record.message; }

moon_status moon_error_kind(void) { return record.kind; }
