#define _GNU_SOURCE // for mkostemp()
#include "hosted/files.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum tern_result tern_file_write_error(void)
{
    return errno == ENOSPC || errno == EDQUOT || errno == EFBIG ? TERN_ERR_NO_SPACE : TERN_ERR_IO;
}

static enum tern_result from_errno(void)
{
    switch (errno) {
    case ENOENT:
        return TERN_ERR_NOT_FOUND;
    case ENOMEM:
        return TERN_ERR_NO_MEMORY;
    default:
        return tern_file_write_error();
    }
}

// Closes the file without changing errno, which holds an earlier error.
static void close_quietly(int fd)
{
    int saved = errno;
    (void)close(fd);
    errno = saved;
}

// --- Reading

struct bytes {
    uint8_t *data;
    size_t len;
    size_t size;
};

static bool grow(struct bytes *bytes, size_t most)
{
    size_t size = bytes->size == 0 ? 4096 : bytes->size * 2;
    size = size > most + 2 ? most + 2 : size;
    uint8_t *larger = realloc(bytes->data, size);
    if (larger != NULL) {
        bytes->data = larger;
        bytes->size = size;
    }
    return larger != NULL;
}

// Reads until the end of the file, since pipes and files in /proc report no size. The buffer has
// room for `most` + 1 bytes, to detect a file that is too large, and for a NUL.
static enum tern_result read_all(int fd, size_t most, struct bytes *bytes)
{
    for (;;) {
        if (bytes->size < bytes->len + 2 && !grow(bytes, most)) {
            return TERN_ERR_NO_MEMORY;
        }
        ssize_t got = read(fd, bytes->data + bytes->len, bytes->size - bytes->len - 1);
        if (got == 0) {
            bytes->data[bytes->len] = '\0';
            return TERN_OK;
        }
        if (got < 0 && errno != EINTR) {
            return from_errno();
        }
        bytes->len += got > 0 ? (size_t)got : 0;
        if (bytes->len > most) {
            errno = EFBIG;
            return TERN_ERR_TOO_LARGE;
        }
    }
}

enum tern_result tern_file_read_open(int fd, size_t most, uint8_t **data, size_t *len)
{
    struct bytes bytes = {0};
    enum tern_result result = read_all(fd, most, &bytes);
    close_quietly(fd);
    if (result != TERN_OK) {
        free(bytes.data);
        return result;
    }
    *data = bytes.data;
    *len = bytes.len;
    return TERN_OK;
}

enum tern_result tern_file_read(const char *path, size_t most, uint8_t **data, size_t *len)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    return fd < 0 ? from_errno() : tern_file_read_open(fd, most, data, len);
}

enum tern_result tern_file_read_regular(const char *path, size_t most, uint8_t **data, size_t *len)
{
    // O_NONBLOCK, because opening a FIFO would wait for its writer.
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    struct stat status;
    if (fd < 0) {
        return from_errno();
    }
    if (fstat(fd, &status) != 0 || !S_ISREG(status.st_mode)) {
        (void)close(fd);
        errno = 0;
        return TERN_ERR_ARGUMENT;
    }
    return tern_file_read_open(fd, most, data, len);
}

// --- Writing

// The folder that holds `path`.
static enum tern_result folder_of(const char *path, char folder[PATH_MAX])
{
    const char *slash = strrchr(path, '/');
    size_t len = slash == NULL ? 0 : (size_t)(slash - path);
    if (len >= PATH_MAX) {
        errno = ENAMETOOLONG;
        return TERN_ERR_IO;
    }
    memcpy(folder, path, len);
    folder[len] = '\0';
    if (len == 0) {
        strcpy(folder, slash == NULL ? "." : "/");
    }
    return TERN_OK;
}

enum tern_result tern_file_write_all(int fd, const void *data, size_t len)
{
    const uint8_t *at = data;
    while (len > 0) {
        ssize_t done = write(fd, at, len);
        if (done < 0 && errno != EINTR) {
            return tern_file_write_error();
        }
        if (done > 0) {
            at += done;
            len -= (size_t)done;
        }
    }
    return TERN_OK;
}

// Flushes the folder, because only then the rename is on the disk.
static bool sync_folder(const char *folder)
{
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) {
        return false;
    }
    bool done = fsync(fd) == 0;
    close_quietly(fd);
    return done;
}

static bool write_temporary(int fd, const void *data, size_t len, mode_t mode)
{
    bool done =
        fchmod(fd, mode) == 0 && tern_file_write_all(fd, data, len) == TERN_OK && fsync(fd) == 0;
    if (!done) {
        close_quietly(fd);
        return false;
    }
    return close(fd) == 0;
}

enum tern_result tern_file_overwrite(const char *path, const void *data, size_t len)
{
    const int fd = open(path, O_WRONLY | O_NOFOLLOW | O_CLOEXEC);
    struct stat there;
    if (fd < 0) {
        return from_errno();
    }
    const bool done = fstat(fd, &there) == 0 && S_ISREG(there.st_mode) &&
                      tern_file_write_all(fd, data, len) == TERN_OK &&
                      ftruncate(fd, (off_t)len) == 0 && fsync(fd) == 0;
    const enum tern_result result = done ? TERN_OK : tern_file_write_error();
    close_quietly(fd);
    return result;
}

enum tern_result tern_file_write(const char *path, const void *data, size_t len, mode_t mode)
{
    char folder[PATH_MAX];
    char temporary[PATH_MAX];
    TERN_TRY(folder_of(path, folder));
    if (snprintf(temporary, sizeof(temporary), "%s.XXXXXX", path) >= (int)sizeof(temporary)) {
        errno = ENAMETOOLONG;
        return TERN_ERR_IO;
    }
    int fd = mkostemp(temporary, O_CLOEXEC);
    if (fd < 0) {
        return from_errno();
    }
    if (!write_temporary(fd, data, len, mode) || rename(temporary, path) != 0) {
        enum tern_result result = from_errno();
        int saved = errno;
        (void)unlink(temporary);
        errno = saved;
        return result;
    }
    return sync_folder(folder) ? TERN_OK : TERN_ERR_IO;
}

// --- Outputs

// Writes into an existing pipe or device. No O_CREAT: if the pipe has just been removed, no file
// may take its place.
static enum tern_result write_through(const char *path, const void *data, size_t len)
{
    int fd = open(path, O_WRONLY | O_NOCTTY | O_CLOEXEC);
    if (fd < 0) {
        return from_errno();
    }
    enum tern_result result = tern_file_write_all(fd, data, len);
    if (result != TERN_OK) {
        close_quietly(fd);
        return result;
    }
    return close(fd) == 0 ? TERN_OK : from_errno();
}

// Writes through a symbolic link whose target does not exist. Creates an empty target first, to
// learn its path; removes it again if writing fails.
static enum tern_result write_dangling(const char *path, const void *data, size_t len, mode_t mode)
{
    char target[PATH_MAX];
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, mode);
    if (fd < 0) {
        return from_errno();
    }
    (void)close(fd);
    if (realpath(path, target) == NULL) {
        return from_errno();
    }
    enum tern_result result = tern_file_write(target, data, len, mode);
    if (result != TERN_OK) {
        int saved = errno;
        (void)unlink(target);
        errno = saved;
    }
    return result;
}

enum tern_result tern_file_output(const char *path, const void *data, size_t len, mode_t mode)
{
    struct stat link;
    struct stat facts;
    char target[PATH_MAX];
    bool linked = lstat(path, &link) == 0 && S_ISLNK(link.st_mode);
    bool there = stat(path, &facts) == 0;
    if (there && !S_ISREG(facts.st_mode)) {
        return write_through(path, data, len);
    }
    if (!linked) {
        return tern_file_write(path, data, len, mode);
    }
    if (!there) {
        return write_dangling(path, data, len, mode);
    }
    return realpath(path, target) != NULL ? tern_file_write(target, data, len, mode) : from_errno();
}

void tern_file_take_back(const char *path)
{
    struct stat facts;
    char target[PATH_MAX];
    int saved = errno;
    if (stat(path, &facts) == 0 && S_ISREG(facts.st_mode) && realpath(path, target) != NULL) {
        (void)unlink(target);
    }
    errno = saved;
}

// --- Folders

static bool is_folder(const char *path)
{
    struct stat facts;
    int saved = errno;
    bool found = stat(path, &facts) == 0 && S_ISDIR(facts.st_mode);
    errno = saved;
    return found;
}

enum tern_result tern_file_make_folders(const char *path, mode_t mode)
{
    char part[PATH_MAX];
    size_t len = strlen(path);
    if (len == 0 || len >= sizeof(part)) {
        errno = len == 0 ? ENOENT : ENAMETOOLONG;
        return TERN_ERR_IO;
    }
    // Creates each parent in turn: the first `end` bytes of the path name it.
    for (size_t end = 1; end <= len; end++) {
        if (path[end] != '/' && path[end] != '\0') {
            continue;
        }
        memcpy(part, path, end);
        part[end] = '\0';
        const int reason = mkdir(part, mode) != 0 ? errno : 0;
        if (reason != 0 && !is_folder(part)) {
            errno = reason == EEXIST ? ENOTDIR : reason;
            return TERN_ERR_IO;
        }
    }
    return TERN_OK;
}

// Removes the last name from a path; "/" or "." remains at the end.
static void cut_name(char *path)
{
    size_t len = strlen(path);
    while (len > 1 && path[len - 1] == '/') {
        len--;
    }
    while (len > 0 && path[len - 1] != '/') {
        len--;
    }
    while (len > 1 && path[len - 1] == '/') {
        len--;
    }
    snprintf(path + len, 2, "%s", len == 0 ? "." : "");
}

enum tern_result tern_file_can_make_folders(const char *path, char *parent)
{
    struct stat facts;
    char probe[PATH_MAX];
    if (snprintf(parent, PATH_MAX, "%s", path) >= PATH_MAX) {
        errno = ENAMETOOLONG;
        return TERN_ERR_IO;
    }
    // A dangling link exists, but is not a folder.
    while (lstat(parent, &facts) != 0) {
        if ((errno != ENOENT && errno != ENOTDIR) || strcmp(parent, "/") == 0 ||
            strcmp(parent, ".") == 0) {
            return TERN_ERR_IO;
        }
        cut_name(parent);
    }
    if (!is_folder(parent)) {
        errno = ENOTDIR;
        return TERN_ERR_IO;
    }
    // Creates a folder for real, because permissions do not reveal a read-only mount, a quota or
    // /proc.
    if (snprintf(probe, sizeof probe, "%s/.tern-XXXXXX", parent) >= (int)sizeof probe) {
        errno = ENAMETOOLONG;
        return TERN_ERR_IO;
    }
    return mkdtemp(probe) != NULL && rmdir(probe) == 0 ? TERN_OK : TERN_ERR_IO;
}
