#define _GNU_SOURCE // O_TMPFILE
#include "hosted/spool.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <malloc.h>
#include <stdatomic.h>
#include <stdint.h>
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

// For file systems without O_TMPFILE.
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

bool tern_spool_reopen(struct tern_spool *spool, const char *path, size_t len)
{
    struct stat status;
    *spool = (struct tern_spool)TERN_SPOOL_CLOSED;
    spool->fd = open(path, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
    spool->path = spool->fd >= 0 ? strdup(path) : NULL;
    if (spool->path == NULL || fstat(spool->fd, &status) != 0 || (uint64_t)status.st_size < len) {
        tern_spool_close_and_keep(spool);
        return false;
    }
    spool->len = len;
    return true;
}

// Writes with pwrite() instead of through a mapping, because a full disk is then an error and not a
// signal. On error spool->len is unchanged, so a partial write is overwritten.
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

void tern_spool_drop_pages(const struct tern_spool *spool, size_t from, size_t len)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    const size_t first = from / page * page;
    if (spool->mapped != NULL && from + len > first) {
        // If this fails, the pages stay in memory, which is harmless.
        (void)madvise(spool->mapped + first, from + len - first, MADV_DONTNEED);
    }
}

void tern_spool_close_and_keep(struct tern_spool *spool)
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
    tern_spool_close_and_keep(spool);
}

// --- Blobs

static struct tern_blob *make(size_t len, size_t in_memory)
{
    struct tern_blob *blob = malloc(sizeof *blob + in_memory);
    if (blob != NULL) {
        atomic_init(&blob->references, 1);
        blob->len = len;
        blob->data = blob->memory;
        blob->spool = (struct tern_spool)TERN_SPOOL_CLOSED;
    }
    return blob;
}

struct tern_blob *tern_blob_new(size_t len)
{
    return len > SIZE_MAX - sizeof(struct tern_blob) ? NULL : make(len, len);
}

struct tern_blob *tern_blob_from_spool(struct tern_spool *spool)
{
    const bool readable = tern_spool_view(spool) != NULL;
    struct tern_blob *blob = readable ? make(spool->len, 0) : NULL;
    if (blob == NULL) {
        tern_spool_close(spool);
        return NULL;
    }
    blob->data = spool->mapped;
    blob->spool = *spool;
    *spool = (struct tern_spool)TERN_SPOOL_CLOSED;
    return blob;
}

void tern_blob_drop_pages(const struct tern_blob *blob, size_t from, size_t len)
{
    tern_spool_drop_pages(&blob->spool, from, len);
}

struct tern_blob *tern_blob_share(struct tern_blob *blob)
{
    atomic_fetch_add_explicit(&blob->references, 1, memory_order_relaxed);
    return blob;
}

void tern_blob_release(struct tern_blob *blob)
{
    if (blob == NULL) {
        return;
    }
    // acq_rel: the thread that frees the blob must see every write of the other holders.
    if (atomic_fetch_sub_explicit(&blob->references, 1, memory_order_acq_rel) == 1) {
        tern_spool_close(&blob->spool);
        free(blob);
    }
}

// --- Large pages

// Bytes; two large pages of most machines. A smaller block may not contain a whole aligned one.
#define LARGE ((size_t)4 << 20)

void tern_large_pages(void *memory, size_t size)
{
#ifdef MADV_HUGEPAGE
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    const uintptr_t skipped = (0 - (uintptr_t)memory) % page; // bytes before the first whole page
    if (memory != NULL && size >= LARGE) {
        (void)madvise((char *)memory + skipped, (size - skipped) / page * page, MADV_HUGEPAGE);
    }
#else
    (void)memory;
    (void)size;
#endif
}

// Setting the threshold keeps glibc from raising it with the first large block that is freed, and then the second
// threshold stays at 128 KiB: the end of a thread's arena would go back to the system after each batch of requests, and
// every page of it would be faulted in again.
void tern_return_large_blocks(void)
{
#ifdef __GLIBC__
    mallopt(M_MMAP_THRESHOLD, 1 << 20);
    mallopt(M_TRIM_THRESHOLD, 1 << 20);
#endif
}

// --- Memory in a file

// Maps the file after allocating its disk space, because a later write to a page without disk space
// would raise a signal.
static void *map(const struct tern_spool *file, size_t size)
{
    errno = posix_fallocate(file->fd, 0, (off_t)size);
    if (errno != 0) {
        return NULL;
    }
    void *mapped = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, file->fd, 0);
    return mapped == MAP_FAILED ? NULL : mapped;
}

void *tern_file_memory_new(const char *folder, size_t size)
{
    struct tern_spool file;
    if (!tern_spool_open(&file, folder)) {
        return NULL;
    }
    void *mapped = map(&file, size);
    const int error = errno;
    tern_spool_close(&file); // the mapping keeps the file alive
    errno = error;
    return mapped;
}

void tern_file_memory_drop_pages(void *memory, size_t size)
{
    (void)madvise(memory, size, MADV_DONTNEED); // on error the pages stay in memory
}

void tern_file_memory_free(void *memory, size_t size)
{
    munmap(memory, size);
}
