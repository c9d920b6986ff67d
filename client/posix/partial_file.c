// The format of the file: "TPRT", format version, size and SHA-256 of the download, then its bytes. The length of the file
// determines the number of received bytes. The file needs no checksum, since the complete download must match its SHA-256.
#define _GNU_SOURCE
#include "posix/partial_file.h"
#include "hosted/files.h"
#include "util/bytes.h"
#include "util/sha256.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define NAME "download.part"
#define MAGIC 0x54525054u // "TPRT"
#define FORMAT 1u
#define HEAD_SIZE 48
#define WHY_SIZE 512

// Bytes that is_readable() reads at once.
#define READ_SIZE ((size_t)1 << 14)

// After this many appended bytes the kernel is told to write them to disk, so that a power cut loses few.
#define WRITE_BACK ((size_t)1 << 20)

struct tern_partial_file {
    int directory;
    int file; // -1: not open
    uint8_t head[HEAD_SIZE];
    size_t have;
    size_t written_back;
    void *mapped; // NULL: no part is mapped
    size_t mapped_len;
};

static void unmap(struct tern_partial_file *partial)
{
    if (partial->mapped != NULL) {
        munmap(partial->mapped, partial->mapped_len);
        partial->mapped = NULL;
    }
}

static void close_file(struct tern_partial_file *partial)
{
    unmap(partial);
    if (partial->file >= 0) {
        close(partial->file);
        partial->file = -1;
    }
}

static void drop(void *ctx)
{
    struct tern_partial_file *partial = ctx;
    close_file(partial);
    unlinkat(partial->directory, NAME, 0);
}

static void make_head(const uint8_t sha256[TERN_SHA256_SIZE], size_t size, uint8_t head[HEAD_SIZE])
{
    tern_put_le32(head, MAGIC);
    tern_put_le32(head + 4, FORMAT);
    tern_put_le64(head + 8, size);
    memcpy(head + 16, sha256, TERN_SHA256_SIZE);
}

// Returns whether all bytes of the file can be read. Reading a block that a power cut has damaged through a mapping would kill
// the process with a signal, at every start.
static bool is_readable(int fd, size_t len)
{
    uint8_t piece[READ_SIZE];
    for (size_t at = 0; at < len;) {
        const size_t n = len - at < sizeof piece ? len - at : sizeof piece;
        const ssize_t got = pread(fd, piece, n, (off_t)at);
        if (got == 0 || (got < 0 && errno != EINTR)) {
            return false;
        }
        at += got > 0 ? (size_t)got : 0;
    }
    return true;
}

static bool matches_download(int fd, const uint8_t head[HEAD_SIZE], size_t size, size_t *have)
{
    uint8_t found[HEAD_SIZE];
    struct stat facts;
    if (fstat(fd, &facts) != 0 || !S_ISREG(facts.st_mode) ||
        pread(fd, found, sizeof found, 0) != (ssize_t)sizeof found ||
        memcmp(found, head, sizeof found) != 0 ||
        (uint64_t)facts.st_size - HEAD_SIZE > (uint64_t)size ||
        !is_readable(fd, (size_t)facts.st_size)) {
        return false;
    }
    *have = (size_t)facts.st_size - HEAD_SIZE;
    return true;
}

// Creates the file, and reserves disk space for the complete download if the file system can, so that no byte is fetched in
// vain.
static enum tern_result start_file(struct tern_partial_file *partial, size_t size)
{
    partial->file = openat(partial->directory, NAME,
                           O_RDWR | O_CREAT | O_TRUNC | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (partial->file < 0) {
        return tern_file_write_error();
    }
    if (fallocate(partial->file, FALLOC_FL_KEEP_SIZE, 0, (off_t)(HEAD_SIZE + size)) != 0 &&
        tern_file_write_error() == TERN_ERR_NO_SPACE) {
        return TERN_ERR_NO_SPACE;
    }
    partial->have = 0;
    return tern_file_write_all(partial->file, partial->head, HEAD_SIZE);
}

// Opens the file of an earlier process if it belongs to the same download; deletes it if it belongs to another.
// TERN_ERR_NOT_FOUND  there is no file now
// TERN_ERR_IO         the file cannot be opened, and remains
static enum tern_result resume(struct tern_partial_file *partial, size_t size)
{
    partial->file =
        openat(partial->directory, NAME, O_RDWR | O_APPEND | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (partial->file < 0 && errno != ENOENT && errno != ELOOP) {
        return TERN_ERR_IO;
    }
    if (partial->file >= 0 &&
        matches_download(partial->file, partial->head, size, &partial->have)) {
        return TERN_OK;
    }
    drop(partial);
    return TERN_ERR_NOT_FOUND;
}

// Creates a new file. After an error there is no file.
static enum tern_result restart_file(struct tern_partial_file *partial, size_t size)
{
    const enum tern_result result = start_file(partial, size);
    if (result != TERN_OK) {
        drop(partial);
    }
    return result;
}

static enum tern_result open_partial(void *ctx, const uint8_t sha256[TERN_SHA256_SIZE], size_t size,
                                     size_t *have)
{
    struct tern_partial_file *partial = ctx;
    uint8_t head[HEAD_SIZE];
    make_head(sha256, size, head);
    if (partial->file < 0 || memcmp(head, partial->head, sizeof head) != 0) {
        close_file(partial);
        memcpy(partial->head, head, sizeof head);
        const enum tern_result resumed = resume(partial, size);
        TERN_TRY(resumed == TERN_ERR_NOT_FOUND ? restart_file(partial, size) : resumed);
        partial->written_back = partial->have;
    }
    *have = partial->have;
    return TERN_OK;
}

// Appends bytes. After a failed write, the number of written bytes is unknown; the next open_partial() finds it out.
static enum tern_result append(void *ctx, const uint8_t *data, size_t len)
{
    struct tern_partial_file *partial = ctx;
    if (partial->file < 0) {
        return TERN_ERR_IO;
    }
    const enum tern_result result = tern_file_write_all(partial->file, data, len);
    if (result != TERN_OK) {
        close_file(partial);
        return result;
    }
    partial->have += len;
    if (partial->have - partial->written_back >= WRITE_BACK) {
        sync_file_range(partial->file, (off_t)(HEAD_SIZE + partial->written_back),
                        (off_t)(partial->have - partial->written_back), SYNC_FILE_RANGE_WRITE);
        partial->written_back = partial->have;
    }
    return TERN_OK;
}

static enum tern_result view(void *ctx, size_t offset, size_t len, const uint8_t **data)
{
    struct tern_partial_file *partial = ctx;
    unmap(partial);
    if (partial->file < 0 || offset > partial->have || len > partial->have - offset) {
        return TERN_ERR_CORRUPT;
    }
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    const size_t before = (HEAD_SIZE + offset) % page;
    void *mapped = mmap(NULL, before + len, PROT_READ, MAP_PRIVATE, partial->file,
                        (off_t)(HEAD_SIZE + offset - before));
    if (mapped == MAP_FAILED) {
        return TERN_ERR_IO;
    }
    partial->mapped = mapped;
    partial->mapped_len = before + len;
    *data = (const uint8_t *)mapped + before;
    return TERN_OK;
}

enum tern_result tern_partial_file_open(struct tern_partial_file **partial, const char *directory,
                                        char why[512])
{
    const int fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) {
        snprintf(why, WHY_SIZE, "the state directory %s cannot be opened: %s", directory,
                 strerror(errno));
        return TERN_ERR_IO;
    }
    *partial = calloc(1, sizeof **partial);
    if (*partial == NULL) {
        close(fd);
        snprintf(why, WHY_SIZE, "there is no memory for a partial download");
        return TERN_ERR_NO_MEMORY;
    }
    (*partial)->directory = fd;
    (*partial)->file = -1;
    return TERN_OK;
}

void tern_partial_file_close(struct tern_partial_file *partial)
{
    if (partial != NULL) {
        close_file(partial);
        close(partial->directory);
        free(partial);
    }
}

struct tern_partial tern_partial_file_port(struct tern_partial_file *partial)
{
    return (struct tern_partial){
        .ctx = partial, .open = open_partial, .append = append, .view = view, .drop = drop};
}
