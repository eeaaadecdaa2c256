/* A pool of threads that share one large operation. Whoever calls works too, and takes over what no worker came for: so a call
   cannot wait for a thread that is not there, and a late worker costs nothing. One operation is shared at a time; calls from
   other threads meanwhile, and calls from within one, run on the caller alone. Workers start with the first shared call, sleep
   between calls, and are made anew in a forked child. */
#ifndef MOON_POOL_H
#define MOON_POOL_H

#include <stdint.h>

/* part number i of an operation, on any thread */
typedef void (*moon_part)(void *context, int64_t i);

/* Runs part(context, i) for 0 <= i < parts, in any order, and returns when all are done. The parts must not depend on how many
   threads there are: then neither do the results. */
void moon_parallel(int64_t parts, moon_part part, void *context);

/* Below this many bytes of work, all operands counted, sharing costs more than it gains: a sleeping worker takes some 20 us to
   come, and what fits into one core's second-level cache is done by then. Parts are smaller, so that an interrupted thread holds up little. */
enum { MOON_SHARE_BYTES = 3 << 20, MOON_PART_BYTES = 256 << 10 };

#endif
