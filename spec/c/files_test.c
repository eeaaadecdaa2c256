#include "check.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../../src/core/inflate.h"
#include "../../src/core/json.h"
#include "../../src/core/mapping.h"
#include "../../src/core/npz.h"
#include "../../src/core/safetensors.h"

static char folder[] = "/tmp/moontensor-files-XXXXXX", path[200];

static const char *at(const char *name) {
    static bool made;
    if (!made) CHECK(mkdtemp(folder) != NULL);
    made = true;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

/* ends a test: its one file goes, and there is no other */
static void clean(const char *name) {
    CHECK_INT(unlink(at(name)), 0);
    CHECK_INT(rmdir(folder), 0);
    CHECK_INT(mkdir(folder, 0700), 0);
}

/* two tensors, one of them strided and not sorted first */
typedef struct pair {
    moon_draft base[2], view;
    moon_named items[2];
} pair;

static void make_pair(pair *p) {
    make(&p->base[0], MOON_FLOAT32, 2, (int64_t[]){3, 2});
    make_strided(&p->base[1], &p->view, MOON_INT16, 2, (int64_t[]){4, 5});
    fill_random(&p->base[0].t);
    fill_random(&p->view.t);
    p->items[0] = (moon_named){"a", 1, &p->base[0].t};
    p->items[1] = (moon_named){"b", 1, &p->view.t};
}

static void close_pair(pair *p) {
    moon_tensor_close(&p->base[0].t);
    moon_tensor_close(&p->base[1].t);
}

static void same_bits(const moon_tensor *a, const moon_tensor *b) {
    CHECK(a->dtype == b->dtype && a->ndim == b->ndim && a->numel == b->numel);
    for (int64_t i = 0; i < a->numel; i++) CHECK(memcmp(element_number(a, i), element_number(b, i), moon_itemsize(a)) == 0);
}

/* ---- one load of each kind, into tensors that are compared and closed ---- */

static moon_status load_npy(const moon_tensor *expected) {
    moon_source source;
    moon_draft draft;
    moon_npy npy;
    int error;
    moon_status status = moon_source_open(&source, at("x"), &error);
    if (status) return status;
    status = moon_npy_parse(source.bytes, source.size, &draft, &npy);
    if (status == MOON_OK) status = moon_tensor_alloc(&draft.t, moon_cpu());
    if (status == MOON_OK) {
        moon_npy_read(source.bytes, &npy, &draft.t);
        same_bits(expected, &draft.t);
    }
    moon_tensor_close(&draft.t);
    moon_source_close(&source);
    moon_source_close(&source);
    return status;
}

static moon_status load_member(const moon_zip *zip, size_t i, const moon_named *expected) {
    moon_npz_member member;
    moon_draft draft;
    size_t n;
    moon_status status = moon_npz_open(zip, i, &member, &draft, &n);
    if (status) return status;
    CHECK(n == expected->length && memcmp(zip->entries[i].name, expected->name, n) == 0);
    status = moon_tensor_alloc(&draft.t, moon_cpu());
    if (status == MOON_OK) {
        moon_npy_read(member.bytes, &member.npy, &draft.t);
        same_bits(expected->tensor, &draft.t);
    }
    moon_tensor_close(&draft.t);
    moon_npz_close(&member);
    moon_npz_close(&member);
    return status;
}

static moon_status load_npz(const pair *p) {
    moon_source source;
    moon_zip zip;
    int error;
    moon_status status = moon_source_open(&source, at("x"), &error);
    if (status) return status;
    status = moon_zip_open(&zip, source.bytes, source.size);
    for (size_t i = 0; status == MOON_OK && i < zip.count; i++) status = load_member(&zip, i, &p->items[i]);
    moon_zip_close(&zip);
    moon_source_close(&source);
    return status;
}

static moon_status load_safetensors(const pair *p) {
    moon_storage *storage = NULL;
    moon_safetensors file;
    moon_draft draft;
    int64_t size;
    int error;
    moon_status status = moon_file_size(at("x"), &size, &error);
    if (status == MOON_OK) status = moon_map_file(at("x"), MOON_MAP_PRIVATE, 0, size, &error, &storage);
    if (status) return status;
    status = moon_safetensors_open(&file, storage->host, (size_t)size);
    for (size_t i = 0; status == MOON_OK && i < file.count; i++) {
        OK(moon_safetensors_layout(&file, i, &draft));
        draft.t.storage = storage; /* borrowed */
        same_bits(p->items[i].tensor, &draft.t);
    }
    moon_safetensors_close(&file);
    moon_storage_release(storage);
    return status;
}

static moon_status round_trip(int kind, const pair *p) {
    static const moon_text metadata[1][2] = {{{"k", 1}, {"v", 1}}};
    moon_status status;
    switch (kind) {
    case 0: status = moon_npy_save(at("x"), p->items[1].tensor); return status ? status : load_npy(p->items[1].tensor);
    case 1: status = moon_npz_save(at("x"), 2, p->items); return status ? status : load_npz(p);
    default: status = moon_safetensors_save(at("x"), 2, p->items, 1, metadata); return status ? status : load_safetensors(p);
    }
}

static void round_trips(void) {
    pair p;
    make_pair(&p);
    for (int kind = 0; kind < 3; kind++) OK(round_trip(kind, &p));
    clean("x");
    close_pair(&p);
}

/* every allocation fails once: out of memory, nothing left but the file that was there */
static void out_of_memory(void) {
    pair p;
    make_pair(&p);
    for (int kind = 0; kind < 3; kind++) {
        OK(round_trip(kind, &p));
        long n = 1, blocks = live_blocks;
        for (;; n++) {
            fail_at = n;
            moon_status status = round_trip(kind, &p);
            CHECK_INT(live_blocks, blocks);
            if (fail_at > 0) { /* it was not reached */
                CHECK_INT(status, MOON_OK);
                break;
            }
            CHECK_INT(status, MOON_EMEMORY);
        }
        fail_at = 0;
        CHECK(n > 2);
    }
    clean("x");
    close_pair(&p);
}

/* ---- zip64, without files of 4 GiB ---- */

static bool contains(const moon_source *s, const char *mark) {
    for (size_t i = 0; i + 4 <= s->size; i++) {
        if (memcmp(s->bytes + i, mark, 4) == 0) return true;
    }
    return false;
}

static void wide_archives(void) {
    pair p;
    make_pair(&p);
    uint64_t limits[] = {1, 100, 200, 300, 380}, usual = moon_zip_limit;
    for (int i = 0; i < 5; i++) {
        moon_zip_limit = limits[i];
        OK(moon_npz_save(at("x"), 2, p.items));
        moon_zip_limit = usual;
        moon_source s;
        int error;
        OK(moon_source_open(&s, at("x"), &error));
        CHECK(contains(&s, "PK\6\6") && contains(&s, "PK\6\7"));
        moon_source_close(&s);
        OK(load_npz(&p));
    }
    clean("x");
    close_pair(&p);
}

/* ---- outputs ---- */

static void outputs(void) {
    moon_output out;
    moon_source s;
    int error;
    OK(moon_output_open(&out, at("x")));
    CHECK(access(at("x"), F_OK) != 0);
    OK(moon_output_write(&out, "hello", 5));
    OK(moon_output_patch(&out, 0, "J", 1));
    OK(moon_output_close(&out, MOON_OK));
    OK(moon_output_open(&out, at("x")));
    OK(moon_output_write(&out, "other", 5));
    CHECK_INT(moon_output_close(&out, MOON_EVALUE), MOON_EVALUE);
    OK(moon_source_open(&s, at("x"), &error));
    CHECK(s.size == 5 && memcmp(s.bytes, "Jello", 5) == 0);
    moon_source_close(&s);
    /* what was the target has become a folder */
    OK(moon_output_open(&out, at("x")));
    CHECK(unlink(at("x")) == 0 && mkdir(at("x"), 0700) == 0);
    FAILS(moon_output_close(&out, MOON_OK), MOON_EFILE, "cannot rename into place|directory");
    FAILS(moon_output_open(&out, at("x")), MOON_EFILE, "not a regular file");
    FAILS(moon_source_open(&s, at("x"), &error), MOON_EFILE, "not a regular file");
    CHECK_INT(error, 0);
    CHECK(rmdir(at("x")) == 0);
    FAILS(moon_source_open(&s, at("x"), &error), MOON_EFILE, "No such file");
    CHECK_INT(error, ENOENT);
    CHECK(mkfifo(at("x"), 0600) == 0); /* does not wait for a writer */
    FAILS(moon_source_open(&s, at("x"), &error), MOON_EFILE, "not a regular file");
    clean("x");
}

static void crc(void) {
    CHECK_INT(moon_crc32(0, "", 0), 0);
    CHECK_INT(moon_crc32(0, "123456789", 9), 0xcbf43926);
    char bytes[300];
    for (int i = 0; i < 300; i++) bytes[i] = (char)(i * 7);
    uint32_t whole = moon_crc32(0, bytes, 300);
    for (size_t k = 0; k <= 300; k += 7) CHECK_INT(moon_crc32(moon_crc32(0, bytes, k), bytes + k, 300 - k), whole);
}

/* ---- inflate ---- */

static moon_status inflated(const char *bytes, size_t n, const char *text) {
    uint8_t out[64] = {0};
    moon_status status = moon_inflate((const uint8_t *)bytes, n, out, strlen(text));
    if (status == MOON_OK) CHECK(memcmp(out, text, strlen(text)) == 0);
    return status;
}

static void deflate_streams(void) {
    OK(inflated("\x03\x00", 2, "")); /* fixed codes */
    OK(inflated("\x4b\x4c\x84\x01\x00", 5, "aaaaaaaaaa"));
    OK(inflated("\x01\x03\x00\xfc\xff"
                "abc",
                8, "abc")); /* stored */
    OK(inflated("\x00\x01\x00\xfe\xff"
                "a\x01\x02\x00\xfd\xff"
                "bc",
                13, "abc")); /* two of them */
    FAILS(inflated("\x01\x03\x00\xfc\xfe"
                   "abc",
                   8, "abc"),
          MOON_EVALUE, "does not match its check");
    FAILS(inflated("\x01\x03\x00\xfc\xff"
                   "ab",
                   7, "abc"),
          MOON_EVALUE, "a stored block is cut off");
    FAILS(inflated("\x01\x03\x00\xfc\xff"
                   "abc",
                   8, "ab"),
          MOON_EVALUE, "longer than the size");
    FAILS(inflated("\x01\x03\x00\xfc\xff"
                   "abc",
                   8, "abcd"),
          MOON_EVALUE, "ends before the size");
    FAILS(inflated("\x01\x03\x00\xfc\xff"
                   "abcd",
                   9, "abc"),
          MOON_EVALUE, "bytes follow its end");
    FAILS(inflated("\x07", 1, ""), MOON_EVALUE, "a block of type 3");
    FAILS(inflated("", 0, ""), MOON_EVALUE, "a block is cut off");
    FAILS(inflated("\x4b\x04\x10\x00", 4, "abc"), MOON_EVALUE, "deflate");
    /* as zlib's own tests of inflate have them */
    FAILS(inflated("\x04\x00\xfe\xff", 4, ""), MOON_EVALUE, "malformed");
    FAILS(inflated("\x04\xc0\x81\x08\x00\x00\x00\x00\x20\x7f\xeb\x0b\x00\x00", 14, ""), MOON_EVALUE, "malformed");
    FAILS(inflated("\xfc\x00\x00", 3, ""), MOON_EVALUE, "too many codes");
    FAILS(inflated("\x04\x00\x24\x49\x00", 5, ""), MOON_EVALUE, "repeats nothing");
    FAILS(inflated("\x04\x00\x24\xe9\xff\xff", 6, ""), MOON_EVALUE, "malformed");
    FAILS(inflated("\x02\x7e\xff\xff", 4, ""), MOON_EVALUE, "a distance is no code");
    FAILS(inflated("\x0c\xc0\x81\x00\x00\x00\x00\x00\x90\xff\x6b\x04\x00", 13, "aaaaaaaa"), MOON_EVALUE,
          "reaches before the start");
}

/* ---- headers that promise more than there is ---- */

/* what a .npy says of its header's length is believed up to the last byte, and no further */
static void npy_lengths(void) {
    static const char dict[] = "{'descr': '|u1', 'fortran_order': False, 'shape': (3,), }";
    uint8_t bytes[10 + sizeof dict + 3] = "\x93NUMPY\x01";
    size_t length = sizeof dict - 1, all = 10 + length + 3;
    moon_draft draft;
    moon_npy npy;
    memcpy(bytes + 10, dict, length);
    memcpy(bytes + 10 + length, "abc", 3);
    bytes[8] = (uint8_t)length;
    OK(moon_npy_parse(bytes, all, &draft, &npy));
    CHECK(draft.t.numel == 3 && npy.start == 10 + length);
    bytes[8] = (uint8_t)(length + 3); /* all that follows */
    FAILS(moon_npy_parse(bytes, all, &draft, &npy), MOON_EVALUE, "the end of the header expected");
    for (size_t more = 4; more < 16; more++) {
        bytes[8] = (uint8_t)(length + more);
        FAILS(moon_npy_parse(bytes, all, &draft, &npy), MOON_EVALUE, "bytes long by its own account, but 60 follow");
    }
}

static moon_status open_header(const char *header, size_t more) {
    uint8_t bytes[256] = {(uint8_t)strlen(header)};
    moon_safetensors file;
    memcpy(bytes + 8, header, strlen(header));
    moon_status status = moon_safetensors_open(&file, bytes, 8 + strlen(header) + more);
    if (status == MOON_OK) moon_safetensors_close(&file);
    return status;
}

static void safetensors_sizes(void) {
    OK(open_header("{\"a\":{\"dtype\":\"I16\",\"shape\":[3],\"data_offsets\":[0,6]}}", 6));
    FAILS(open_header("{\"a\":{\"dtype\":\"I16\",\"shape\":[3],\"data_offsets\":[0,4]}}", 4), MOON_EVALUE,
          "'a'|[3] in int16 takes 6 bytes|[0, 4] leave 4");
    FAILS(open_header("{\"a\":{\"dtype\":\"I16\",\"shape\":[3],\"data_offsets\":[0,8]}}", 8), MOON_EVALUE,
          "[3] in int16 takes 6 bytes|[0, 8] leave 8");
    FAILS(open_header("{\"a\":{\"dtype\":\"I16\",\"shape\":[3],\"data_offsets\":[0,6]}}", 5), MOON_EVALUE,
          "take 6 bytes, but 5 follow");
}

/* an escape that goes on behind the text's end */
static void json_escapes(void) {
    static const char text[] = "\"\\ud83c\\udf19\"";
    char out[sizeof text];
    size_t n;
    for (size_t size = 0; size <= sizeof text - 1; size++) {
        moon_json j = {text, size, 0};
        moon_status status = moon_json_string(&j, out, &n);
        CHECK(j.at <= size);
        if (size < sizeof text - 1) CHECK_INT(status, MOON_EVALUE);
        else CHECK(status == MOON_OK && n == 4 && memcmp(out, "\xf0\x9f\x8c\x99", 4) == 0);
    }
}

/* ---- names ---- */

static bool utf8(const char *text) { return moon_utf8_valid(text, strlen(text)) == strlen(text); }

static void names(void) {
    CHECK(utf8("") && utf8("a\xc3\xa9\xe2\x82\xac\xf0\x9f\x8c\x99") && utf8("\xed\x9f\xbf") && utf8("\xf4\x8f\xbf\xbf"));
    CHECK(!utf8("\x80") && !utf8("\xc0\x80") && !utf8("\xc3") && !utf8("\xe0\x9f\xbf") && !utf8("\xed\xa0\x80"));
    CHECK(!utf8("\xf0\x8f\xbf\xbf") && !utf8("\xf4\x90\x80\x80") && !utf8("\xf5\x80\x80\x80") && !utf8("\xe2\x82"));
    char quoted[MOON_QUOTED], long_one[1000];
    CHECK(strcmp(moon_quoted("a\n\xff", 3, quoted), "'a\\x0a\\xff'") == 0);
    CHECK(strcmp(moon_quoted("\xc3\xa9", 2, quoted), "'\xc3\xa9'") == 0);
    for (int c = 0; c < 256; c += 51) {
        memset(long_one, c, sizeof long_one);
        size_t n = strlen(moon_quoted(long_one, sizeof long_one, quoted));
        CHECK(n > 90 && n < MOON_QUOTED && strcmp(quoted + n - 4, "...'") == 0);
    }
    const char *good[] = {"a", "a.b", "a..b", "..a", "a/b", "a/..b", "..."};
    const char *bad[] = {"", "..", "../a", "a/..", "a/../b", "/a", "\\a", "..\\a", "\xff"};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) OK(moon_name_check(good[i], strlen(good[i])));
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) FAILS(moon_name_check(bad[i], strlen(bad[i])), MOON_EVALUE, "the name");
    CHECK(moon_name_compare("a", 1, "ab", 2) < 0 && moon_name_compare("b", 1, "ab", 2) > 0 &&
          moon_name_compare("a", 1, "a", 1) == 0);
}

static void finish(void) { CHECK_INT(rmdir(folder), 0); }

SUITE(files_suite, TEST(round_trips), TEST(out_of_memory), TEST(wide_archives), TEST(outputs), TEST(crc), TEST(deflate_streams),
      TEST(npy_lengths), TEST(safetensors_sizes), TEST(json_escapes), TEST(names), TEST(finish));
