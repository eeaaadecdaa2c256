#include "name.h"

#include <stdio.h>
#include <string.h>

/* bytes of the sequence that starts at p, or 0 */
static size_t sequence(const unsigned char *p, size_t n) {
    unsigned lead = p[0];
    size_t length = lead < 0x80 ? 1 : lead < 0xc2 ? 0 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : lead < 0xf5 ? 4 : 0;
    if (length == 0 || length > n) return 0;
    for (size_t i = 1; i < length; i++) {
        if ((p[i] & 0xc0) != 0x80) return 0;
    }
    if (lead == 0xe0 && p[1] < 0xa0) return 0;  /* overlong */
    if (lead == 0xed && p[1] >= 0xa0) return 0; /* surrogates */
    if (lead == 0xf0 && p[1] < 0x90) return 0;
    if (lead == 0xf4 && p[1] >= 0x90) return 0;
    return length;
}

size_t moon_utf8_valid(const char *text, size_t n) {
    size_t at = 0;
    while (at < n) {
        size_t length = sequence((const unsigned char *)text + at, n - at);
        if (length == 0) return at;
        at += length;
    }
    return n;
}

const char *moon_quoted(const char *text, size_t n, char buffer[MOON_QUOTED]) {
    size_t used = 0;
    buffer[used++] = '\'';
    for (size_t i = 0; i < n;) {
        if (used + sizeof "\\x00...'" + 4 > MOON_QUOTED) {
            memcpy(buffer + used, "...", 3);
            used += 3;
            break;
        }
        size_t length = sequence((const unsigned char *)text + i, n - i);
        unsigned c = (unsigned char)text[i];
        if (length == 0 || c < 0x20 || c == 0x7f) {
            used += (size_t)snprintf(buffer + used, 5, "\\x%02x", c);
            i++;
        } else {
            memcpy(buffer + used, text + i, length);
            used += length;
            i += length;
        }
    }
    memcpy(buffer + used, "'", 2);
    return buffer;
}

/* a path that is absolute or climbs with ".." */
static bool leads_out(const char *name, size_t n) {
    if (name[0] == '/' || name[0] == '\\') return true;
    for (size_t i = 0; i + 1 < n; i++) {
        bool starts = i == 0 || name[i - 1] == '/' || name[i - 1] == '\\';
        bool ends = i + 2 == n || name[i + 2] == '/' || name[i + 2] == '\\';
        if (starts && ends && name[i] == '.' && name[i + 1] == '.') return true;
    }
    return false;
}

moon_status moon_name_check(const char *name, size_t n) {
    char quoted[MOON_QUOTED];
    const char *why = NULL;
    if (n == 0) why = "is empty";
    else if (memchr(name, 0, n)) why = "contains a NUL";
    else if (moon_utf8_valid(name, n) < n) why = "is not UTF-8";
    else if (leads_out(name, n)) why = "is a path that leads out of the file";
    return why ? moon_fail(MOON_EVALUE, "the name %s %s", moon_quoted(name, n, quoted), why) : MOON_OK;
}

int moon_name_compare(const char *a, size_t an, const char *b, size_t bn) {
    int order = memcmp(a, b, an < bn ? an : bn);
    return order ? order : (an > bn) - (an < bn);
}
