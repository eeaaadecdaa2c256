#include "inflate.h"

#include <string.h>

enum { LONGEST = 15, FAST = 9, SYMBOLS = 288 };

/* A code by lengths. Codes of up to FAST bits are looked up: entry = symbol << 4 | length, 0 where a longer one starts. The
   others are walked in canonical order. */
typedef struct code {
    uint16_t fast[1 << FAST];
    uint16_t count[LONGEST + 1]; /* codes of each length */
    uint16_t symbol[SYMBOLS];    /* in canonical order */
} code;

typedef struct stream {
    const uint8_t *in, *in_end;
    uint8_t *out, *out_start, *out_end;
    uint64_t bits; /* not yet used; the first in the lowest place */
    int n;
    code lengths, distances;
} stream;

static moon_status malformed(const char *why) { return moon_fail(MOON_EVALUE, "malformed deflate data: %s", why); }

/* as many bits as there are, up to 57 and more */
static void refill(stream *s) {
    while (s->n <= 56 && s->in < s->in_end) {
        s->bits |= (uint64_t)*s->in++ << s->n;
        s->n += 8;
    }
}

static bool take(stream *s, int n, unsigned *out) {
    if (s->n < n) refill(s);
    if (s->n < n) return false;
    *out = (unsigned)(s->bits & ((UINT64_C(1) << n) - 1));
    s->bits >>= n;
    s->n -= n;
    return true;
}

static unsigned reversed(unsigned value, int n) {
    unsigned r = 0;
    for (; n > 0; n--, value >>= 1) r = r << 1 | (value & 1);
    return r;
}

/* Refuses sets of lengths that name too many codes, and incomplete ones, except (as zlib) a single code of one bit or none. */
static bool build(code *c, const uint8_t *lengths, int n, bool may_be_incomplete) {
    uint16_t first[LONGEST + 2], next[LONGEST + 2];
    memset(c, 0, sizeof *c);
    for (int i = 0; i < n; i++) c->count[lengths[i]]++;
    int used = n - c->count[0], left = 1;
    c->count[0] = 0;
    for (int l = 1; l <= LONGEST; l++) {
        left = left * 2 - c->count[l];
        if (left < 0) return false;
    }
    if (left > 0 && !(may_be_incomplete && (used == 0 || (used == 1 && c->count[1] == 1)))) return false;
    first[1] = next[1] = 0;
    for (int l = 1; l <= LONGEST; l++) {
        first[l + 1] = (uint16_t)(first[l] + c->count[l]);
        next[l + 1] = (uint16_t)((next[l] + c->count[l]) << 1);
    }
    for (int i = 0; i < n; i++) {
        int l = lengths[i];
        if (l == 0) continue;
        unsigned bits = next[l]++;
        c->symbol[first[l]++] = (uint16_t)i;
        if (l > FAST) continue;
        for (unsigned at = reversed(bits, l); at < 1u << FAST; at += 1u << l) c->fast[at] = (uint16_t)(i << 4 | l);
    }
    return true;
}

/* the next symbol, or -1 */
static int decode(stream *s, const code *c) {
    if (s->n < LONGEST) refill(s);
    unsigned entry = c->fast[s->bits & ((1u << FAST) - 1)];
    int length = (int)(entry & 15);
    if (length > 0) {
        if (length > s->n) return -1;
        s->bits >>= length;
        s->n -= length;
        return (int)(entry >> 4);
    }
    int value = 0, first = 0, index = 0;
    for (int l = 1; l <= LONGEST && l <= s->n; l++) {
        value = value << 1 | (int)(s->bits >> (l - 1) & 1);
        int count = c->count[l];
        if (value - count < first) {
            s->bits >>= l;
            s->n -= l;
            return c->symbol[index + (value - first)];
        }
        index += count;
        first = (first + count) << 1;
    }
    return -1;
}

/* ---- blocks ---- */

static moon_status stored_block(stream *s) {
    unsigned skipped, length, check;
    if (!take(s, s->n & 7, &skipped) || !take(s, 16, &length) || !take(s, 16, &check))
        return malformed("a stored block is cut off");
    if (length != (~check & 0xffff)) return malformed("the length of a stored block does not match its check");
    s->in -= s->n / 8; /* whole bytes that were read ahead */
    s->bits = 0;
    s->n = 0;
    if (length > (size_t)(s->in_end - s->in)) return malformed("a stored block is cut off");
    if (length > (size_t)(s->out_end - s->out)) return malformed("it is longer than the size given for it");
    if (length > 0) memcpy(s->out, s->in, length);
    s->in += length;
    s->out += length;
    return MOON_OK;
}

static bool fixed_codes(stream *s) {
    uint8_t lengths[SYMBOLS];
    for (int i = 0; i < SYMBOLS; i++) lengths[i] = i < 144 ? 8 : i < 256 ? 9 : i < 280 ? 7 : 8;
    bool ok = build(&s->lengths, lengths, SYMBOLS, false);
    memset(lengths, 5, 32); /* the last two are never used, but complete the code */
    return build(&s->distances, lengths, 32, false) && ok;
}

static moon_status dynamic_codes(stream *s) {
    static const uint8_t order[19] = {16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15};
    uint8_t lengths[286 + 30] = {0};
    unsigned literals, distances, count, bits;
    if (!take(s, 5, &literals) || !take(s, 5, &distances) || !take(s, 4, &count))
        return malformed("the code lengths are cut off");
    literals += 257, distances += 1, count += 4;
    if (literals > 286 || distances > 30) return malformed("too many codes");
    for (unsigned i = 0; i < count; i++) {
        if (!take(s, 3, &bits)) return malformed("the code lengths are cut off");
        lengths[order[i]] = (uint8_t)bits;
    }
    if (!build(&s->lengths, lengths, 19, false)) return malformed("the code of the code lengths is not complete");
    memset(lengths, 0, 19);
    for (unsigned i = 0; i < literals + distances;) {
        int symbol = decode(s, &s->lengths);
        if (symbol < 0) return malformed("a code length is no code or cut off");
        if (symbol < 16) {
            lengths[i++] = (uint8_t)symbol;
            continue;
        }
        if (symbol == 16 && i == 0) return malformed("the first code length repeats nothing");
        uint8_t value = symbol == 16 ? lengths[i - 1] : 0;
        if (!take(s, symbol == 16 ? 2 : symbol == 17 ? 3 : 7, &bits)) return malformed("the code lengths are cut off");
        bits += symbol == 18 ? 11 : 3;
        if (bits > literals + distances - i) return malformed("more code lengths than codes");
        memset(lengths + i, value, bits);
        i += bits;
    }
    if (lengths[256] == 0) return malformed("there is no code for the end of the block");
    if (!build(&s->lengths, lengths, (int)literals, true)) return malformed("the code of literals is not complete");
    if (!build(&s->distances, lengths + literals, (int)distances, true))
        return malformed("the code of distances is not complete");
    return MOON_OK;
}

static moon_status copy_match(stream *s, unsigned length) {
    static const uint16_t base[30] = {1,   2,   3,   4,   5,   7,    9,    13,   17,   25,   33,   49,   65,    97,    129,
                                      193, 257, 385, 513, 769, 1025, 1537, 2049, 3073, 4097, 6145, 8193, 12289, 16385, 24577};
    unsigned extra;
    int symbol = decode(s, &s->distances);
    if (symbol < 0 || symbol >= 30) return malformed("a distance is no code or cut off");
    if (!take(s, symbol < 4 ? 0 : symbol / 2 - 1, &extra)) return malformed("a distance is cut off");
    size_t distance = base[symbol] + extra;
    if (distance > (size_t)(s->out - s->out_start)) return malformed("a distance reaches before the start");
    if (length > (size_t)(s->out_end - s->out)) return malformed("it is longer than the size given for it");
    const uint8_t *from = s->out - distance;
    if (distance >= length) memcpy(s->out, from, length);
    else
        for (unsigned i = 0; i < length; i++) s->out[i] = from[i];
    s->out += length;
    return MOON_OK;
}

static moon_status coded_block(stream *s) {
    static const uint16_t base[29] = {3,  4,  5,  6,  7,  8,  9,  10, 11,  13,  15,  17,  19,  23, 27,
                                      31, 35, 43, 51, 59, 67, 83, 99, 115, 131, 163, 195, 227, 258};
    static const uint8_t extra_bits[29] = {0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5, 0};
    for (;;) {
        int symbol = decode(s, &s->lengths);
        if (symbol < 0) return malformed("a symbol is no code or cut off");
        if (symbol == 256) return MOON_OK;
        if (symbol < 256) {
            if (s->out == s->out_end) return malformed("it is longer than the size given for it");
            *s->out++ = (uint8_t)symbol;
            continue;
        }
        unsigned extra;
        symbol -= 257;
        if (symbol >= 29) return malformed("a length is no code");
        if (!take(s, extra_bits[symbol], &extra)) return malformed("a length is cut off");
        moon_status status = copy_match(s, base[symbol] + extra);
        if (status) return status;
    }
}

moon_status moon_inflate(const uint8_t *bytes, size_t n, uint8_t *out, size_t size) {
    stream s;
    s.in = bytes, s.in_end = bytes + n;
    s.out = s.out_start = out, s.out_end = out + size;
    s.bits = 0, s.n = 0;
    unsigned last, type;
    do {
        moon_status status;
        if (!take(&s, 1, &last) || !take(&s, 2, &type)) return malformed("a block is cut off");
        switch (type) {
        case 0: status = stored_block(&s); break;
        case 1: status = fixed_codes(&s) ? coded_block(&s) : malformed("the fixed codes"); break;
        case 2:
            status = dynamic_codes(&s);
            if (status == MOON_OK) status = coded_block(&s);
            break;
        default: return malformed("a block of type 3");
        }
        if (status) return status;
    } while (!last);
    if (s.out != s.out_end) return malformed("it ends before the size given for it");
    if (s.in - s.n / 8 != s.in_end) return malformed("bytes follow its end");
    return MOON_OK;
}
