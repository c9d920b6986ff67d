#define _GNU_SOURCE // O_TMPFILE
#include "hosted/spool.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

// For file systems that know no files without a name.
static int open_and_unlink(const char *folder)
{
    char path[PATH_MAX];
    const int len = snprintf(path, sizeof path, "%s/spool-XXXXXX", folder);
    if (len < 0 || (size_t)len >= sizeof path) {
        errno = ENAMETOOLONG;
        return -1;
    }
    const int fd = mkostemp(path, O_CLOEXEC);
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

// By writing, not through a mapping: there a full disk would be a signal, here it is an error.
bool tern_spool_append(struct tern_spool *spool, const void *data, size_t len)
{
    const uint8_t *bytes = data;
    while (len > 0) {
        const ssize_t written = write(spool->fd, bytes, len);
        if (written < 0 && errno != EINTR) {
            return false;
        }
        if (written > 0) {
            bytes += written;
            len -= (size_t)written;
            spool->len += (size_t)written;
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

void tern_spool_close(struct tern_spool *spool)
{
    if (spool->mapped != NULL) {
        munmap(spool->mapped, spool->len);
    }
    if (spool->fd >= 0) {
        close(spool->fd);
    }
    *spool = (struct tern_spool)TERN_SPOOL_CLOSED;
}
