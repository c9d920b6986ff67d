#define _GNU_SOURCE // O_TMPFILE
#include "hosted/spool.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static int open_new(const char *folder, const char *name, char path[PATH_MAX])
{
    const int len = snprintf(path, PATH_MAX, "%s/%s-XXXXXX", folder, name);
    if (len < 0 || len >= PATH_MAX) {
        errno = ENAMETOOLONG;
        return -1;
    }
    return mkostemp(path, O_CLOEXEC);
}

// For file systems that know no files without a name.
static int open_and_unlink(const char *folder)
{
    char path[PATH_MAX];
    const int fd = open_new(folder, "spool", path);
    if (fd >= 0) {
        unlink(path);
    }
    return fd;
}

bool tern_spool_open(struct tern_spool *spool, const char *folder)
{
    *spool = (struct tern_spool)TERN_SPOOL_CLOSED;
    spool->fd = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (spool->fd < 0 && (errno == EOPNOTSUPP || errno == EISDIR)) {
        spool->fd = open_and_unlink(folder);
    }
    return spool->fd >= 0;
}

bool tern_spool_open_named(struct tern_spool *spool, const char *folder, const char *name)
{
    char path[PATH_MAX];
    *spool = (struct tern_spool)TERN_SPOOL_CLOSED;
    spool->fd = open_new(folder, name, path);
    spool->path = spool->fd >= 0 ? strdup(path) : NULL;
    if (spool->fd >= 0 && spool->path == NULL) {
        unlink(path);
        close(spool->fd);
        spool->fd = -1;
    }
    return spool->fd >= 0;
}

bool tern_spool_open_again(struct tern_spool *spool, const char *path, size_t len)
{
    struct stat status;
    *spool = (struct tern_spool)TERN_SPOOL_CLOSED;
    spool->fd = open(path, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
    spool->path = spool->fd >= 0 ? strdup(path) : NULL;
    if (spool->path == NULL || fstat(spool->fd, &status) != 0 || (uint64_t)status.st_size < len) {
        tern_spool_leave(spool);
        return false;
    }
    spool->len = len;
    return true;
}

// By writing, not through a mapping: there a full disk would be a signal, here it is an error. Always
// after what is whole: of a piece that was written in part nothing counts.
bool tern_spool_append(struct tern_spool *spool, const void *data, size_t len)
{
    const uint8_t *bytes = data;
    size_t done = 0;
    while (done < len) {
        const ssize_t n = pwrite(spool->fd, bytes + done, len - done, (off_t)(spool->len + done));
        if (n < 0 && errno != EINTR) {
            return false;
        }
        done += n > 0 ? (size_t)n : 0;
    }
    spool->len += len;
    return true;
}

bool tern_spool_read(const struct tern_spool *spool, size_t at, void *dst, size_t len)
{
    uint8_t *bytes = dst;
    while (len > 0) {
        const ssize_t n = pread(spool->fd, bytes, len, (off_t)at);
        if (n == 0 || (n < 0 && errno != EINTR)) {
            return false;
        }
        if (n > 0) {
            bytes += n;
            at += (size_t)n;
            len -= (size_t)n;
        }
    }
    return true;
}

const uint8_t *tern_spool_view(struct tern_spool *spool)
{
    if (spool->mapped == NULL) {
        void *mapped = mmap(NULL, spool->len, PROT_READ, MAP_SHARED, spool->fd, 0);
        spool->mapped = mapped == MAP_FAILED ? NULL : mapped;
    }
    return spool->mapped;
}

void tern_spool_rest(const struct tern_spool *spool, size_t from, size_t len)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    const size_t first = from / page * page;
    if (spool->mapped != NULL && from + len > first) {
        // What stays in memory for lack of success costs no more than that.
        (void)madvise(spool->mapped + first, from + len - first, MADV_DONTNEED);
    }
}

void tern_spool_leave(struct tern_spool *spool)
{
    if (spool->mapped != NULL) {
        munmap(spool->mapped, spool->len);
    }
    if (spool->fd >= 0) {
        close(spool->fd);
    }
    free(spool->path);
    *spool = (struct tern_spool)TERN_SPOOL_CLOSED;
}

void tern_spool_close(struct tern_spool *spool)
{
    if (spool->path != NULL) {
        unlink(spool->path);
    }
    tern_spool_leave(spool);
}
