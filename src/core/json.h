/* As much of JSON as file headers need, strictly: objects, arrays, strings and non-negative integers, pulled token by token by
   a caller that knows the form. Nothing recurses. */
#ifndef MOON_JSON_H
#define MOON_JSON_H

#include "status.h"

typedef struct moon_json {
    const char *text; /* UTF-8 already */
    size_t size, at;
} moon_json;

/* the mark, after blanks, or nothing taken */
bool moon_json_take(moon_json *json, char mark);
moon_status moon_json_expect(moon_json *json, char mark);
/* the end, after blanks */
moon_status moon_json_end(moon_json *json);
/* a string, decoded into `out`, which has room for what is left of the text */
moon_status moon_json_string(moon_json *json, char *out, size_t *n);
moon_status moon_json_integer(moon_json *json, int64_t *out);
/* {"key": …}: true as long as there is another key, with it and its colon taken; call it first after '{' with *first true */
moon_status moon_json_key(moon_json *json, bool *first, bool *more, char *out, size_t *n);

/* writing: bytes that `n` bytes of text take at most, quotes included; and the text itself, whose length is returned */
static inline size_t moon_json_room(size_t n) { return 6 * n + 2; }
size_t moon_json_write(char *to, const char *text, size_t n);

#endif
