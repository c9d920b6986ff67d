// A record's file: "TERN", format version, record number, CRC-32C, length of the body, body. The
// checksum covers record number, length and body, so a file under another's name is not taken.
#define _GNU_SOURCE
#include "posix/file_store.h"
#include "hosted/files.h"
#include "util/bytes.h"
#include "util/crc32c.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAGIC 0x4e524554u // "TERN"
#define FORMAT 1u
#define HEAD_SIZE 24
#define WHY_SIZE 512

struct tern_file_store {
    int directory;
    int lock; // -1 for a reader
};

static const char *const names[TERN_RECORD_COUNT] = {
    [TERN_RECORD_IDENTITY] = "identity", [TERN_RECORD_REPLICA] = "replica",
    [TERN_RECORD_UPLOAD] = "upload",     [TERN_RECORD_SETTLED] = "settled",
    [TERN_RECORD_METER] = "meter",       [TERN_RECORD_MODEL] = "model",
};

// --- Saving

static void make_head(enum tern_record record, const struct tern_store_part *parts,
                      size_t part_count, uint8_t head[HEAD_SIZE])
{
    uint64_t len = 0;
    for (size_t i = 0; i < part_count; i++) {
        len += parts[i].len;
    }
    tern_put_le32(head, MAGIC);
    tern_put_le32(head + 4, FORMAT);
    tern_put_le32(head + 8, (uint32_t)record);
    tern_put_le64(head + 16, len);
    uint32_t crc = tern_crc32c(0, head + 8, 4);
    crc = tern_crc32c(crc, head + 16, 8);
    for (size_t i = 0; i < part_count; i++) {
        crc = tern_crc32c(crc, parts[i].data, parts[i].len);
    }
    tern_put_le32(head + 12, crc);
}

static enum tern_result write_file(int fd, enum tern_record record,
                                   const struct tern_store_part *parts, size_t part_count)
{
    uint8_t head[HEAD_SIZE];
    make_head(record, parts, part_count, head);
    TERN_TRY(tern_file_write_all(fd, head, sizeof head));
    for (size_t i = 0; i < part_count; i++) {
        TERN_TRY(tern_file_write_all(fd, parts[i].data, parts[i].len));
    }
    return fsync(fd) == 0 ? TERN_OK : tern_file_write_error();
}

static enum tern_result save(void *ctx, enum tern_record record,
                             const struct tern_store_part *parts, size_t part_count)
{
    const struct tern_file_store *store = ctx;
    char temporary[32];
    if (store->lock < 0) {
        return TERN_ERR_STATE;
    }
    snprintf(temporary, sizeof temporary, "%s.new", names[record]);
    const int fd = openat(store->directory, temporary,
                          O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0) {
        return tern_file_write_error();
    }
    enum tern_result result = write_file(fd, record, parts, part_count);
    if (close(fd) != 0 && result == TERN_OK) {
        result = tern_file_write_error();
    }
    if (result == TERN_OK &&
        renameat(store->directory, temporary, store->directory, names[record]) != 0) {
        result = tern_file_write_error();
    }
    if (result != TERN_OK) {
        unlinkat(store->directory, temporary, 0);
        return result;
    }
    return fsync(store->directory) == 0 ? TERN_OK : tern_file_write_error();
}

// --- Loading

static enum tern_result read_exactly(int fd, void *dst, size_t len)
{
    uint8_t *at = dst;
    while (len > 0) {
        const ssize_t got = read(fd, at, len);
        if (got == 0) {
            return TERN_ERR_CORRUPT;
        }
        if (got < 0 && errno != EINTR) {
            return TERN_ERR_IO;
        }
        if (got > 0) {
            at += got;
            len -= (size_t)got;
        }
    }
    return TERN_OK;
}

static enum tern_result check_body(int fd, uint32_t crc, uint64_t len, uint32_t expected)
{
    uint8_t block[4096];
    while (len > 0) {
        const size_t n = len < sizeof block ? (size_t)len : sizeof block;
        TERN_TRY(read_exactly(fd, block, n));
        crc = tern_crc32c(crc, block, n);
        len -= n;
    }
    return crc == expected ? TERN_OK : TERN_ERR_CORRUPT;
}

static enum tern_result check_file(int fd, enum tern_record record, uint64_t *body_len)
{
    uint8_t head[HEAD_SIZE];
    struct stat status;
    if (fstat(fd, &status) != 0) {
        return TERN_ERR_IO;
    }
    TERN_TRY(read_exactly(fd, head, sizeof head));
    *body_len = tern_get_le64(head + 16);
    if (tern_get_le32(head) != MAGIC || tern_get_le32(head + 4) != FORMAT ||
        tern_get_le32(head + 8) != (uint32_t)record ||
        (uint64_t)status.st_size - HEAD_SIZE != *body_len) {
        return TERN_ERR_CORRUPT;
    }
    uint32_t crc = tern_crc32c(0, head + 8, 4);
    crc = tern_crc32c(crc, head + 16, 8);
    return check_body(fd, crc, *body_len, tern_get_le32(head + 12));
}

static enum tern_result load_from(int fd, enum tern_record record, size_t offset, void *dst,
                                  size_t len, size_t *record_len)
{
    uint64_t body_len = 0;
    TERN_TRY(check_file(fd, record, &body_len));
    if (offset > body_len || len > body_len - offset) {
        return TERN_ERR_CORRUPT;
    }
    *record_len = (size_t)body_len;
    if (lseek(fd, (off_t)(HEAD_SIZE + offset), SEEK_SET) < 0) {
        return TERN_ERR_IO;
    }
    return read_exactly(fd, dst, len);
}

static enum tern_result load(void *ctx, enum tern_record record, size_t offset, void *dst,
                             size_t len, size_t *record_len)
{
    const struct tern_file_store *store = ctx;
    const int fd = openat(store->directory, names[record], O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0) {
        return errno == ENOENT ? TERN_ERR_NOT_FOUND : TERN_ERR_IO;
    }
    const enum tern_result result = load_from(fd, record, offset, dst, len, record_len);
    close(fd);
    return result;
}

// --- Opening

static enum tern_result take_lock(int directory, const char *path, int *lock, char *why)
{
    *lock = openat(directory, "lock", O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (*lock < 0) {
        snprintf(why, WHY_SIZE, "%s/lock: %s", path, strerror(errno));
        return TERN_ERR_IO;
    }
    if (flock(*lock, LOCK_EX | LOCK_NB) == 0) {
        return TERN_OK;
    }
    const bool held = errno == EWOULDBLOCK;
    snprintf(why, WHY_SIZE,
             held ? "%s is in use by another process; stop it, or give this client a "
                    "state directory of its own"
                  : "%s/lock cannot be locked",
             path);
    close(*lock);
    return held ? TERN_ERR_CONFLICT : TERN_ERR_IO;
}

static enum tern_result open_directory(const char *path, int *fd, char *why)
{
    *fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (*fd >= 0) {
        return TERN_OK;
    }
    const enum tern_result result = errno == ENOENT ? TERN_ERR_NOT_FOUND : TERN_ERR_IO;
    snprintf(why, WHY_SIZE, "the state directory %s cannot be opened: %s", path, strerror(errno));
    return result;
}

static enum tern_result adopt(struct tern_file_store **store, int directory, int lock)
{
    *store = malloc(sizeof **store);
    if (*store == NULL) {
        return TERN_ERR_NO_MEMORY;
    }
    **store = (struct tern_file_store){.directory = directory, .lock = lock};
    return TERN_OK;
}

enum tern_result tern_file_store_open(struct tern_file_store **store, const char *directory,
                                      char why[512])
{
    int fd = -1;
    int lock = -1;
    if (tern_file_make_folders(directory, 0700) != TERN_OK) {
        snprintf(why, WHY_SIZE, "the state directory %s cannot be made: %s", directory,
                 strerror(errno));
        return TERN_ERR_IO;
    }
    if (open_directory(directory, &fd, why) != TERN_OK) {
        return TERN_ERR_IO;
    }
    enum tern_result result = take_lock(fd, directory, &lock, why);
    if (result == TERN_OK) {
        result = adopt(store, fd, lock);
    }
    if (result != TERN_OK) {
        close(fd);
    }
    return result;
}

enum tern_result tern_file_store_open_reader(struct tern_file_store **store, const char *directory,
                                             char why[512])
{
    int fd = -1;
    TERN_TRY(open_directory(directory, &fd, why));
    const enum tern_result result = adopt(store, fd, -1);
    if (result != TERN_OK) {
        close(fd);
    }
    return result;
}

void tern_file_store_close(struct tern_file_store *store)
{
    if (store == NULL) {
        return;
    }
    if (store->lock >= 0) {
        close(store->lock);
    }
    close(store->directory);
    free(store);
}

struct tern_store tern_file_store_port(struct tern_file_store *store)
{
    return (struct tern_store){.ctx = store, .save = save, .load = load};
}
