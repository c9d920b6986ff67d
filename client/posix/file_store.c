// The format of a record's file: "TERN", format version, record number, CRC-32C, length of the body, length of its front, body.
// The checksum covers the body after the front, then the front, then record number and both lengths. So a file with the name of
// another record is refused. The front is empty unless the record was written block by block.
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
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAGIC 0x4e524554u // "TERN"
#define FORMAT 2u
#define HEAD_SIZE 28
#define WHY_SIZE 512

// A record that is being written to a temporary file.
struct draft {
    enum tern_record record;
    int file; // -1: no record is being written
    uint32_t crc;
    size_t front;
    uint64_t len; // bytes of the body, including the front
};

struct tern_file_store {
    int directory;
    int lock; // -1: the store only reads
    struct draft draft;
    void *mapped; // NULL: no mapping
    size_t mapped_len;
};

static const char *const names[TERN_RECORD_COUNT] = {
    [TERN_RECORD_IDENTITY] = "identity", [TERN_RECORD_REPLICA] = "replica",
    [TERN_RECORD_UPLOAD] = "upload",     [TERN_RECORD_SETTLED] = "settled",
    [TERN_RECORD_METER] = "meter",       [TERN_RECORD_MODEL] = "model",
    [TERN_RECORD_SCALING] = "scaling",   [TERN_RECORD_ANCHOR] = "anchor",
    [TERN_RECORD_SECURE] = "secure",
};

// --- Saving

static void put_head(const struct draft *draft, uint8_t head[HEAD_SIZE])
{
    tern_put_le32(head, MAGIC);
    tern_put_le32(head + 4, FORMAT);
    tern_put_le32(head + 8, (uint32_t)draft->record);
    tern_put_le64(head + 16, draft->len);
    tern_put_le32(head + 24, (uint32_t)draft->front);
}

// Extends the checksum of the body by the head.
static uint32_t head_crc(uint32_t crc, const uint8_t head[HEAD_SIZE])
{
    crc = tern_crc32c(crc, head + 8, 4);
    return tern_crc32c(crc, head + 16, HEAD_SIZE - 16);
}

static void temporary_name(enum tern_record record, char name[32])
{
    snprintf(name, 32, "%s.new", names[record]);
}

static void unmap(struct tern_file_store *store)
{
    if (store->mapped != NULL) {
        munmap(store->mapped, store->mapped_len);
        store->mapped = NULL;
    }
}

static void drop(void *ctx)
{
    struct tern_file_store *store = ctx;
    char temporary[32];
    if (store->draft.file >= 0) {
        unmap(store);
        close(store->draft.file);
        store->draft.file = -1;
        temporary_name(store->draft.record, temporary);
        unlinkat(store->directory, temporary, 0);
    }
}

// Creates the temporary file and writes its head.
static enum tern_result open_draft(const struct tern_file_store *store, struct draft *draft)
{
    char temporary[32];
    temporary_name(draft->record, temporary);
    draft->file = openat(store->directory, temporary,
                         O_RDWR | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (draft->file < 0) {
        return tern_file_write_error();
    }
    draft->crc = 0;
    draft->len = draft->front;
    return lseek(draft->file, (off_t)(HEAD_SIZE + draft->front), SEEK_SET) >= 0
               ? TERN_OK
               : tern_file_write_error();
}

static enum tern_result append_bytes(struct draft *draft, const void *data, size_t len)
{
    TERN_TRY(tern_file_write_all(draft->file, data, len));
    draft->crc = tern_crc32c(draft->crc, data, len);
    draft->len += len;
    return TERN_OK;
}

static enum tern_result write_front(struct draft *draft, const void *front)
{
    uint8_t head[HEAD_SIZE];
    put_head(draft, head);
    draft->crc = tern_crc32c(draft->crc, front, draft->front);
    tern_put_le32(head + 12, head_crc(draft->crc, head));
    if (lseek(draft->file, 0, SEEK_SET) < 0) {
        return tern_file_write_error();
    }
    TERN_TRY(tern_file_write_all(draft->file, head, sizeof head));
    TERN_TRY(tern_file_write_all(draft->file, front, draft->front));
    return fsync(draft->file) == 0 ? TERN_OK : tern_file_write_error();
}

// Renames the temporary file to the record's name if `result` is TERN_OK; else deletes it.
static enum tern_result commit_draft(const struct tern_file_store *store, struct draft *draft,
                                     enum tern_result result)
{
    char temporary[32];
    temporary_name(draft->record, temporary);
    if (close(draft->file) != 0 && result == TERN_OK) {
        result = tern_file_write_error();
    }
    draft->file = -1;
    if (result == TERN_OK &&
        renameat(store->directory, temporary, store->directory, names[draft->record]) != 0) {
        result = tern_file_write_error();
    }
    if (result != TERN_OK) {
        unlinkat(store->directory, temporary, 0);
        return result;
    }
    return fsync(store->directory) == 0 ? TERN_OK : tern_file_write_error();
}

static enum tern_result append_parts(struct draft *draft, const struct tern_store_part *parts,
                                     size_t part_count)
{
    for (size_t i = 0; i < part_count; i++) {
        TERN_TRY(append_bytes(draft, parts[i].data, parts[i].len));
    }
    return write_front(draft, NULL);
}

static enum tern_result save(void *ctx, enum tern_record record,
                             const struct tern_store_part *parts, size_t part_count)
{
    struct tern_file_store *store = ctx;
    struct draft draft = {.record = record};
    if (store->lock < 0) {
        return TERN_ERR_STATE;
    }
    if (store->draft.record == record) {
        drop(store);
    }
    TERN_TRY(open_draft(store, &draft));
    return commit_draft(store, &draft, append_parts(&draft, parts, part_count));
}

// --- Saving in pieces

// Deletes the temporary file after an error.
static enum tern_result drop_on_error(struct tern_file_store *store, enum tern_result result)
{
    if (result != TERN_OK) {
        drop(store);
    }
    return result;
}

static enum tern_result begin(void *ctx, enum tern_record record, size_t front)
{
    struct tern_file_store *store = ctx;
    if (store->lock < 0) {
        return TERN_ERR_STATE;
    }
    drop(store);
    store->draft = (struct draft){.record = record, .front = front};
    return drop_on_error(store, open_draft(store, &store->draft));
}

static enum tern_result append(void *ctx, const void *data, size_t len)
{
    struct tern_file_store *store = ctx;
    return store->draft.file >= 0 ? drop_on_error(store, append_bytes(&store->draft, data, len))
                                  : TERN_ERR_IO;
}

static enum tern_result finish(void *ctx, const void *front)
{
    struct tern_file_store *store = ctx;
    if (store->draft.file < 0) {
        return TERN_ERR_IO;
    }
    unmap(store);
    return commit_draft(store, &store->draft, write_front(&store->draft, front));
}

// --- Loading

static int open_record(const struct tern_file_store *store, enum tern_record record)
{
    return openat(store->directory, names[record], O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
}

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

// Computes the checksum of the next len bytes of the file.
static enum tern_result body_crc(int fd, uint64_t len, uint32_t *crc)
{
    uint8_t block[4096];
    while (len > 0) {
        const size_t n = len < sizeof block ? (size_t)len : sizeof block;
        TERN_TRY(read_exactly(fd, block, n));
        *crc = tern_crc32c(*crc, block, n);
        len -= n;
    }
    return TERN_OK;
}

static enum tern_result check_body(int fd, const uint8_t head[HEAD_SIZE], uint64_t len)
{
    const uint32_t front = tern_get_le32(head + 24);
    uint32_t crc = 0;
    if (front > len) {
        return TERN_ERR_CORRUPT;
    }
    if (lseek(fd, (off_t)HEAD_SIZE + (off_t)front, SEEK_SET) < 0) {
        return TERN_ERR_IO;
    }
    TERN_TRY(body_crc(fd, len - front, &crc));
    if (lseek(fd, HEAD_SIZE, SEEK_SET) < 0) {
        return TERN_ERR_IO;
    }
    TERN_TRY(body_crc(fd, front, &crc));
    return head_crc(crc, head) == tern_get_le32(head + 12) ? TERN_OK : TERN_ERR_CORRUPT;
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
    return check_body(fd, head, *body_len);
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
    const int fd = open_record(store, record);
    if (fd < 0) {
        return errno == ENOENT ? TERN_ERR_NOT_FOUND : TERN_ERR_IO;
    }
    const enum tern_result result = load_from(fd, record, offset, dst, len, record_len);
    close(fd);
    return result;
}

// --- Viewing

static enum tern_result map(struct tern_file_store *store, int fd, size_t offset, size_t len,
                            const uint8_t **data)
{
    struct stat status;
    if (fstat(fd, &status) != 0) {
        return TERN_ERR_IO;
    }
    const uint64_t there = (uint64_t)status.st_size;
    if (there < HEAD_SIZE || offset > there - HEAD_SIZE || len > there - HEAD_SIZE - offset) {
        return TERN_ERR_CORRUPT;
    }
    const size_t before = (HEAD_SIZE + offset) % (size_t)sysconf(_SC_PAGESIZE);
    void *mapped =
        mmap(NULL, before + len, PROT_READ, MAP_PRIVATE, fd, (off_t)(HEAD_SIZE + offset - before));
    if (mapped == MAP_FAILED) {
        return TERN_ERR_IO;
    }
    store->mapped = mapped;
    store->mapped_len = before + len;
    *data = (const uint8_t *)mapped + before;
    return TERN_OK;
}

// Maps a part of the record. Replacing the record does not change a mapping, because the new record is another file.
static enum tern_result view(void *ctx, enum tern_record record, size_t offset, size_t len,
                             const uint8_t **data)
{
    struct tern_file_store *store = ctx;
    unmap(store);
    if (store->draft.file >= 0 && store->draft.record == record) {
        return map(store, store->draft.file, offset, len, data);
    }
    const int fd = open_record(store, record);
    if (fd < 0) {
        return errno == ENOENT ? TERN_ERR_NOT_FOUND : TERN_ERR_IO;
    }
    const enum tern_result result = map(store, fd, offset, len, data);
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

static enum tern_result create_store(struct tern_file_store **store, int directory, int lock)
{
    *store = malloc(sizeof **store);
    if (*store == NULL) {
        return TERN_ERR_NO_MEMORY;
    }
    **store = (struct tern_file_store){.directory = directory, .lock = lock, .draft.file = -1};
    return TERN_OK;
}

enum tern_result tern_file_store_open(struct tern_file_store **store, const char *directory,
                                      char why[512])
{
    int fd = -1;
    int lock = -1;
    if (tern_file_make_folders(directory, 0700) != TERN_OK) {
        snprintf(why, WHY_SIZE, "the state directory %s cannot be created: %s", directory,
                 strerror(errno));
        return TERN_ERR_IO;
    }
    if (open_directory(directory, &fd, why) != TERN_OK) {
        return TERN_ERR_IO;
    }
    enum tern_result result = take_lock(fd, directory, &lock, why);
    if (result == TERN_OK) {
        result = create_store(store, fd, lock);
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
    const enum tern_result result = create_store(store, fd, -1);
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
    drop(store);
    unmap(store);
    if (store->lock >= 0) {
        close(store->lock);
    }
    close(store->directory);
    free(store);
}

struct tern_store tern_file_store_port(struct tern_file_store *store)
{
    return (struct tern_store){.ctx = store,
                               .save = save,
                               .load = load,
                               .begin = begin,
                               .append = append,
                               .finish = finish,
                               .drop = drop,
                               .view = view};
}
