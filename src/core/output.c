#include "output.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../../devices/device.h"
#include "copy.h"

static moon_status system_error(const char *what) { return moon_fail(MOON_EFILE, "cannot %s: %s", what, strerror(errno)); }

/* the length of the directory part of a path, with its slash */
static size_t directory(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? (size_t)(slash - path) + 1 : 0;
}

static moon_status open_temporary(moon_output *out) {
    static _Atomic unsigned serial;
    int length = (int)directory(out->target);
    for (int tries = 0; tries < 100; tries++) {
        unsigned n = atomic_fetch_add_explicit(&serial, 1, memory_order_relaxed);
        snprintf(out->temporary, sizeof out->temporary, "%.*s.moontensor-%ld-%u.tmp", length, out->target, (long)getpid(), n);
        out->fd = open(out->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (out->fd >= 0) return MOON_OK;
        if (errno != EEXIST) break;
    }
    return system_error("create a file beside it");
}

moon_status moon_output_open(moon_output *out, const char *path) {
    struct stat st;
    out->at = 0;
    bool exists = stat(path, &st) == 0;
    if (exists) {
        if (!S_ISREG(st.st_mode)) return moon_fail(MOON_EFILE, "not a regular file");
        if (access(path, W_OK) != 0) return system_error("write it");
        if (realpath(path, out->target) == NULL) return system_error("find it");
    } else {
        if (errno != ENOENT) return system_error("write it");
        if (strlen(path) >= sizeof out->target) return moon_fail(MOON_EFILE, "%s", strerror(ENAMETOOLONG));
        memcpy(out->target, path, strlen(path) + 1);
    }
    moon_status status = open_temporary(out);
    if (status == MOON_OK && exists && fchmod(out->fd, st.st_mode & 07777) != 0) {
        return moon_output_close(out, system_error("set its permissions"));
    }
    return status;
}

moon_status moon_output_patch(moon_output *out, uint64_t at, const void *bytes, size_t n) {
    const char *p = bytes;
    while (n > 0) {
        ssize_t written = pwrite(out->fd, p, n < (1u << 30) ? n : 1u << 30, (off_t)at);
        if (written < 0 && errno == EINTR) continue;
        if (written <= 0) return system_error("write");
        p += written;
        at += (uint64_t)written;
        n -= (size_t)written;
    }
    return MOON_OK;
}

moon_status moon_output_write(moon_output *out, const void *bytes, size_t n) {
    moon_status status = moon_output_patch(out, out->at, bytes, n);
    out->at += n;
    return status;
}

moon_status moon_output_tensor(moon_output *out, const moon_tensor *t, bool as_they_lie, uint32_t *crc) {
    size_t n = (size_t)t->numel * moon_itemsize(t);
    if (n == 0) return MOON_OK;
    moon_draft packed;
    const moon_tensor *source = t;
    if (!as_they_lie && (moon_data(t) == NULL || !moon_is_contiguous(t))) {
        moon_status status = moon_draft_contiguous(&packed, (moon_dtype)t->dtype, t->ndim, t->shape);
        if (status == MOON_OK) status = moon_tensor_alloc(&packed.t, moon_cpu());
        if (status) return status;
        status = moon_copy(&packed.t, t);
        if (status) {
            moon_tensor_close(&packed.t);
            return status;
        }
        source = &packed.t;
    }
    if (crc) *crc = moon_crc32(*crc, moon_data(source), n);
    moon_status status = moon_output_write(out, moon_data(source), n);
    if (source == &packed.t) moon_tensor_close(&packed.t);
    return status;
}

/* so that the name survives a crash too; not every file system can */
static void sync_directory(const char *path) {
    char name[PATH_MAX];
    size_t n = directory(path);
    memcpy(name, path, n);
    memcpy(name + n, ".", 2);
    int fd = open(name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return;
    (void)fsync(fd);
    close(fd);
}

moon_status moon_output_close(moon_output *out, moon_status status) {
    if (status == MOON_OK && fsync(out->fd) != 0) status = system_error("sync");
    if (close(out->fd) != 0 && status == MOON_OK) status = system_error("close");
    if (status == MOON_OK && rename(out->temporary, out->target) != 0) status = system_error("rename into place");
    if (status == MOON_OK) sync_directory(out->target);
    else unlink(out->temporary);
    return status;
}

/* ---- CRC-32, eight bytes a step ---- */

static uint32_t table[8][256];

__attribute__((constructor)) static void make_table(void) {
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t c = i;
        for (int k = 0; k < 8; k++) c = c & 1 ? c >> 1 ^ UINT32_C(0xedb88320) : c >> 1;
        table[0][i] = c;
    }
    for (uint32_t i = 0; i < 256; i++) {
        for (int k = 1; k < 8; k++) table[k][i] = table[k - 1][i] >> 8 ^ table[0][table[k - 1][i] & 0xff];
    }
}

uint32_t moon_crc32(uint32_t crc, const void *bytes, size_t n) {
    const uint8_t *p = bytes;
    uint32_t c = ~crc;
    for (; n >= 8; n -= 8, p += 8) {
        c ^= (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
        c = table[7][c & 0xff] ^ table[6][c >> 8 & 0xff] ^ table[5][c >> 16 & 0xff] ^ table[4][c >> 24] ^ table[3][p[4]] ^
            table[2][p[5]] ^ table[1][p[6]] ^ table[0][p[7]];
    }
    for (; n > 0; n--, p++) c = c >> 8 ^ table[0][(c ^ *p) & 0xff];
    return ~c;
}
