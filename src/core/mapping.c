#include "mapping.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../../devices/device.h"
#include "memory.h"

/* a regular file and its size; a directory or a pipe is refused without waiting for it */
static moon_status open_file(const char *path, int flags, int *fd, int64_t *size, int *error) {
    struct stat st;
    *error = 0;
    *fd = open(path, flags | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0666);
    if (*fd < 0) {
        *error = errno;
        return moon_fail(MOON_EFILE, "%s", strerror(errno));
    }
    moon_status status = MOON_OK;
    if (fstat(*fd, &st) != 0) status = moon_fail(MOON_EFILE, "%s", strerror(errno));
    else if (!S_ISREG(st.st_mode)) status = moon_fail(MOON_EFILE, "not a regular file");
    else *size = (int64_t)st.st_size;
    if (status) close(*fd);
    return status;
}

moon_status moon_file_size(const char *path, int64_t *size, int *error) {
    int fd;
    moon_status status = open_file(path, O_RDONLY, &fd, size, error);
    if (status == MOON_OK) close(fd);
    return status;
}

moon_status moon_source_open(moon_source *out, const char *path, int *error) {
    int fd;
    int64_t size;
    *out = (moon_source){(const uint8_t *)"", 0, NULL};
    moon_status status = open_file(path, O_RDONLY, &fd, &size, error);
    if (status) return status;
    if (size > 0) {
        void *p = mmap(NULL, (size_t)size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (p == MAP_FAILED) status = moon_fail(MOON_EFILE, "cannot map %lld bytes: %s", (long long)size, strerror(errno));
        else *out = (moon_source){p, (size_t)size, p};
    }
    close(fd);
    return status;
}

void moon_source_close(moon_source *source) {
    if (source->mapped) munmap(source->mapped, source->size);
    *source = (moon_source){(const uint8_t *)"", 0, NULL};
}

/* ---- storages ---- */

typedef struct mapping {
    moon_hook hook;
    void *base;
    size_t length;
} mapping;

static void unmap(moon_hook *hook) {
    mapping *m = (mapping *)hook;
    munmap(m->base, m->length);
    moon_free(m, sizeof *m);
}

/* the file of MOON_MAP_CREATE: all zeros, its blocks reserved where the system can, since a full disk is a SIGBUS later */
static moon_status lengthen(int fd, int64_t size) {
    if (ftruncate(fd, 0) != 0 || ftruncate(fd, (off_t)size) != 0) {
        return moon_fail(MOON_EFILE, "cannot make the file %lld bytes long: %s", (long long)size, strerror(errno));
    }
#ifdef __linux__
    if (size > 0 && fallocate(fd, 0, 0, (off_t)size) != 0 && errno == ENOSPC) {
        int failed = errno;
        if (ftruncate(fd, 0) != 0) failed = errno;
        return moon_fail(MOON_EFILE, "cannot reserve %lld bytes: %s", (long long)size, strerror(failed));
    }
#endif
    return MOON_OK;
}

static moon_status map_bytes(int fd, moon_map_mode mode, int64_t offset, int64_t nbytes, moon_storage **out) {
    int64_t into = offset % sysconf(_SC_PAGESIZE);
    mapping *m = moon_alloc(sizeof *m);
    if (m == NULL) return moon_fail(MOON_EMEMORY, "out of memory");
    m->hook = (moon_hook){unmap, NULL};
    m->length = (size_t)(nbytes + into);
    int protection = mode == MOON_MAP_READ ? PROT_READ : PROT_READ | PROT_WRITE;
    int flags = mode == MOON_MAP_PRIVATE ? MAP_PRIVATE | MAP_NORESERVE : MAP_SHARED;
    m->base = mmap(NULL, m->length, protection, flags, fd, (off_t)(offset - into));
    if (m->base == MAP_FAILED) {
        moon_status status = errno == ENOMEM
                                 ? moon_fail(MOON_EMEMORY, "no address space to map %lld bytes", (long long)nbytes)
                                 : moon_fail(MOON_EFILE, "cannot map %lld bytes: %s", (long long)nbytes, strerror(errno));
        moon_free(m, sizeof *m);
        return status;
    }
    moon_status status = moon_storage_wrap(moon_cpu(), (char *)m->base + into, (size_t)nbytes, mode == MOON_MAP_READ, &m->hook,
                                           out);
    if (status) unmap(&m->hook);
    return status;
}

moon_status moon_map_file(const char *path, moon_map_mode mode, int64_t offset, int64_t nbytes, int *error, moon_storage **out) {
    static const int flags[] = {O_RDONLY, O_RDWR, O_RDONLY, O_RDWR | O_CREAT};
    int fd;
    int64_t size, need;
    *error = 0;
    if (offset < 0) return moon_fail(MOON_EVALUE, "offset %lld is negative", (long long)offset);
    if (__builtin_add_overflow(offset, nbytes, &need) || need > INT64_MAX - 65536) {
        return moon_fail(MOON_EVALUE, "offset %lld and %lld bytes overflow 63 bits", (long long)offset, (long long)nbytes);
    }
    bool fresh = mode == MOON_MAP_CREATE && access(path, F_OK) != 0;
    moon_status status = open_file(path, flags[mode], &fd, &size, error);
    if (status) return status;
    if (mode == MOON_MAP_CREATE) {
        status = lengthen(fd, need);
    } else if (size < need) {
        status = moon_fail(MOON_EVALUE, "the file has %lld bytes, %lld are needed (%lld from offset %lld on)", (long long)size,
                           (long long)need, (long long)nbytes, (long long)offset);
    }
    if (status == MOON_OK) {
        if (nbytes == 0) { /* nothing can be mapped of it */
            status = moon_storage_new(moon_cpu(), 0, out);
            if (status == MOON_OK) (*out)->readonly = mode == MOON_MAP_READ;
        } else {
            status = map_bytes(fd, mode, offset, nbytes, out);
        }
    }
    close(fd);
    if (status && fresh) unlink(path);
    return status;
}
