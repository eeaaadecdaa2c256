/* Status and error record. One record a thread: the kind and message of the last failure. */
#ifndef MOON_STATUS_H
#define MOON_STATUS_H

#include "moontensor_abi.h"

#if defined(__GNUC__)
#define MOON_PRINTF(f, a) __attribute__((format(printf, f, a)))
#else
#define MOON_PRINTF(f, a)
#endif

/* Fill the record and return kind, so that a failing function ends in `return moon_fail(MOON_ESHAPE, "…", …)`. */
moon_status moon_fail(moon_status kind, const char *format, ...) MOON_PRINTF(2, 3);
const char *moon_error_message(void);
moon_status moon_error_kind(void);

#endif
