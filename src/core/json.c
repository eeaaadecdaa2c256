#include "json.h"

#include <string.h>

#include "name.h"

static void blanks(moon_json *j) {
    while (j->at < j->size && strchr(" \t\n\r", j->text[j->at]) != NULL && j->text[j->at] != '\0') j->at++;
}

static moon_status unexpected(const moon_json *j, const char *wanted) {
    char quoted[MOON_QUOTED];
    if (j->at >= j->size) return moon_fail(MOON_EVALUE, "the header ends where %s is expected", wanted);
    return moon_fail(MOON_EVALUE, "%s expected at byte %zu of the header, got %s", wanted, j->at,
                     moon_quoted(j->text + j->at, 1, quoted));
}

bool moon_json_take(moon_json *j, char mark) {
    blanks(j);
    if (j->at >= j->size || j->text[j->at] != mark) return false;
    j->at++;
    return true;
}

moon_status moon_json_expect(moon_json *j, char mark) {
    return moon_json_take(j, mark) ? MOON_OK : unexpected(j, (const char[]){'\'', mark, '\'', '\0'});
}

moon_status moon_json_end(moon_json *j) {
    blanks(j);
    return j->at >= j->size ? MOON_OK : unexpected(j, "the end of the header");
}

/* four hexadecimal digits */
static bool unit(moon_json *j, unsigned *out) {
    *out = 0;
    if (j->size - j->at < 4) return false;
    for (int i = 0; i < 4; i++) {
        char c = j->text[j->at];
        int digit = c >= '0' && c <= '9'   ? c - '0'
                    : c >= 'a' && c <= 'f' ? c - 'a' + 10
                    : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                           : -1;
        if (digit < 0) return false;
        *out = *out << 4 | (unsigned)digit;
        j->at++;
    }
    return true;
}

static size_t encode(char *to, unsigned c) {
    if (c < 0x80) return to[0] = (char)c, 1;
    if (c < 0x800) return to[0] = (char)(0xc0 | c >> 6), to[1] = (char)(0x80 | (c & 0x3f)), 2;
    if (c < 0x10000) {
        to[0] = (char)(0xe0 | c >> 12), to[1] = (char)(0x80 | (c >> 6 & 0x3f)), to[2] = (char)(0x80 | (c & 0x3f));
        return 3;
    }
    to[0] = (char)(0xf0 | c >> 18), to[1] = (char)(0x80 | (c >> 12 & 0x3f));
    to[2] = (char)(0x80 | (c >> 6 & 0x3f)), to[3] = (char)(0x80 | (c & 0x3f));
    return 4;
}

/* behind a backslash; never more bytes than the escape has */
static moon_status escape(moon_json *j, char *out, size_t *n) {
    static const char marks[] = "\"\\/bfnrt", meant[] = "\"\\/\b\f\n\r\t";
    unsigned c, low;
    if (j->at >= j->size) return unexpected(j, "an escape");
    const char *mark = j->text[j->at] ? strchr(marks, j->text[j->at]) : NULL;
    if (mark) {
        out[(*n)++] = meant[mark - marks];
        j->at++;
        return MOON_OK;
    }
    if (j->text[j->at] != 'u') return unexpected(j, "an escape");
    j->at++;
    if (!unit(j, &c)) return unexpected(j, "four hexadecimal digits");
    if (c >= 0xdc00 && c < 0xe000) return moon_fail(MOON_EVALUE, "a lone surrogate before byte %zu of the header", j->at);
    if (c >= 0xd800 && c < 0xdc00) {
        bool pair = j->size - j->at >= 6 && memcmp(j->text + j->at, "\\u", 2) == 0;
        if (pair) j->at += 2;
        if (!pair || !unit(j, &low) || low < 0xdc00 || low >= 0xe000) {
            return moon_fail(MOON_EVALUE, "a lone surrogate before byte %zu of the header", j->at);
        }
        c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
    }
    *n += encode(out + *n, c);
    return MOON_OK;
}

moon_status moon_json_string(moon_json *j, char *out, size_t *n) {
    *n = 0;
    if (!moon_json_take(j, '"')) return unexpected(j, "a string");
    for (;;) {
        if (j->at >= j->size) return unexpected(j, "a closing quote");
        char c = j->text[j->at];
        if ((unsigned char)c < 0x20) return unexpected(j, "text without control characters");
        j->at++;
        if (c == '"') return MOON_OK;
        if (c != '\\') {
            out[(*n)++] = c;
            continue;
        }
        moon_status status = escape(j, out, n);
        if (status) return status;
    }
}

moon_status moon_json_integer(moon_json *j, int64_t *out) {
    blanks(j);
    size_t start = j->at;
    bool overflow = false;
    char quoted[MOON_QUOTED];
    *out = 0;
    if (j->at < j->size && j->text[j->at] == '-') {
        while (++j->at < j->size && j->text[j->at] >= '0' && j->text[j->at] <= '9') continue;
        return moon_fail(MOON_EVALUE, "%s is negative", moon_quoted(j->text + start, j->at - start, quoted));
    }
    for (; j->at < j->size && j->text[j->at] >= '0' && j->text[j->at] <= '9'; j->at++) {
        int64_t digit = j->text[j->at] - '0';
        overflow |= __builtin_mul_overflow(*out, (int64_t)10, out) || __builtin_add_overflow(*out, digit, out);
    }
    if (j->at == start) return unexpected(j, "a non-negative integer");
    moon_quoted(j->text + start, j->at - start, quoted);
    if (overflow) return moon_fail(MOON_EVALUE, "%s overflows 64 bits", quoted);
    if (j->text[start] == '0' && j->at > start + 1) return moon_fail(MOON_EVALUE, "%s starts with a zero", quoted);
    if (j->at < j->size && j->text[j->at] != '\0' && strchr(".eE", j->text[j->at])) return unexpected(j, "an integer's end");
    return MOON_OK;
}

moon_status moon_json_key(moon_json *j, bool *first, bool *more, char *out, size_t *n) {
    *more = false;
    if (moon_json_take(j, '}')) return MOON_OK;
    if (!*first) {
        moon_status status = moon_json_take(j, ',') ? MOON_OK : unexpected(j, "',' or '}'");
        if (status) return status;
    }
    *first = false;
    moon_status status = moon_json_string(j, out, n);
    if (status == MOON_OK) status = moon_json_expect(j, ':');
    *more = status == MOON_OK;
    return status;
}

size_t moon_json_write(char *to, const char *text, size_t n) {
    static const char marks[] = "\"\\bfnrt", meant[] = "\"\\\b\f\n\r\t";
    size_t used = 0;
    to[used++] = '"';
    for (size_t i = 0; i < n; i++) {
        char c = text[i];
        const char *mark = c ? strchr(meant, c) : NULL;
        if (mark) {
            to[used++] = '\\';
            to[used++] = marks[mark - meant];
        } else if ((unsigned char)c < 0x20) {
            static const char hex[] = "0123456789abcdef";
            memcpy(to + used, "\\u00", 4);
            to[used + 4] = hex[c >> 4 & 15], to[used + 5] = hex[c & 15];
            used += 6;
        } else {
            to[used++] = c;
        }
    }
    to[used++] = '"';
    return used;
}
