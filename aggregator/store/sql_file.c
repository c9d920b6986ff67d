// Files around the database: what may be opened, and how a new one appears whole or not at all.
#include "store/sql_file.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define HEADER_SIZE 100
#define INDEX_LEAST 32768 // bytes of SQLite's index of a log
#define APPLICATION_ID_AT 68

static enum tern_result failed(char why[256], const char *what, const char *path)
{
    snprintf(why, 256, "cannot %s %s: %s", what, path, strerror(errno));
    return TERN_ERR_IO;
}

static uint32_t big_endian32(const uint8_t *src)
{
    return (uint32_t)src[0] << 24 | (uint32_t)src[1] << 16 | (uint32_t)src[2] << 8 | src[3];
}

// Reads the header of a regular file. *len: bytes read, at most HEADER_SIZE.
static enum tern_result read_header(const char *path, uint8_t header[HEADER_SIZE], size_t *len,
                                    char why[256])
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 && errno == ENOENT) {
        snprintf(why, 256, "there is no database %s; `tern-aggregator init` makes one", path);
        return TERN_ERR_NOT_FOUND;
    }
    if (fd < 0) {
        return failed(why, "open", path);
    }
    struct stat status;
    ssize_t got = -1;
    if (fstat(fd, &status) == 0 && S_ISREG(status.st_mode)) {
        got = read(fd, header, HEADER_SIZE);
    }
    close(fd);
    if (got < 0) {
        snprintf(why, 256, "%s is not a file that can be read", path);
        return TERN_ERR_IO;
    }
    *len = (size_t)got;
    return TERN_OK;
}

enum tern_result tern_sql_file_check(const char *path, char why[256])
{
    uint8_t header[HEADER_SIZE] = {0};
    size_t len = 0;
    TERN_TRY(read_header(path, header, &len, why));
    if (len == 0) {
        snprintf(why, 256, "%s is empty, not a Tern database; restore a backup", path);
        return TERN_ERR_IO;
    }
    if (len < HEADER_SIZE || memcmp(header, "SQLite format 3", 16) != 0) {
        snprintf(why, 256, "%s is not a SQLite database; it was left as it is", path);
        return TERN_ERR_IO;
    }
    if (big_endian32(header + APPLICATION_ID_AT) != TERN_SQL_FILE_ID) {
        snprintf(why, 256, "%s is a database of another program; it was left as it is", path);
        return TERN_ERR_IO;
    }
    return TERN_OK;
}

enum tern_result tern_sql_file_make(const char *path, char why[256])
{
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0 && errno == EEXIST) {
        snprintf(why, 256, "%s is there already", path);
        return TERN_ERR_CONFLICT;
    }
    if (fd < 0) {
        return failed(why, "make", path);
    }
    close(fd);
    return TERN_OK;
}

static enum tern_result sync_path(const char *path, int flags, char why[256])
{
    int fd = open(path, flags | O_CLOEXEC);
    if (fd < 0) {
        return failed(why, "open", path);
    }
    int code = fsync(fd);
    close(fd);
    return code == 0 ? TERN_OK : failed(why, "sync", path);
}

static enum tern_result sync_folder_of(const char *path, char why[256])
{
    char copy[PATH_MAX];
    if (strlen(path) >= sizeof copy) {
        snprintf(why, 256, "the path is too long");
        return TERN_ERR_ARGUMENT;
    }
    memcpy(copy, path, strlen(path) + 1);
    return sync_path(dirname(copy), O_RDONLY | O_DIRECTORY, why);
}

static enum tern_result link_into_place(const char *temporary, const char *path, char why[256])
{
    TERN_TRY(sync_path(temporary, O_RDWR, why));
    // A link, not a rename: it fails when the name is taken.
    if (link(temporary, path) == 0) {
        return TERN_OK;
    }
    if (errno == EEXIST) {
        snprintf(why, 256, "%s is there already", path);
        return TERN_ERR_CONFLICT;
    }
    return failed(why, "make", path);
}

enum tern_result tern_sql_file_publish(const char *temporary, const char *path, char why[256])
{
    enum tern_result result = link_into_place(temporary, path, why);
    tern_sql_file_remove(temporary);
    return result == TERN_OK ? sync_folder_of(path, why) : result;
}

// --- Another database in the place of one

#define COPY_BYTES 65536

static const char *const logs[] = {"-wal", "-journal"};
#define LOGS (sizeof logs / sizeof logs[0])

static enum tern_result beside(const char *path, const char *suffix, char name[PATH_MAX],
                               char why[256])
{
    if (snprintf(name, PATH_MAX, "%s%s", path, suffix) >= PATH_MAX) {
        snprintf(why, 256, "the path is too long");
        return TERN_ERR_ARGUMENT;
    }
    return TERN_OK;
}

static bool write_all(int fd, const uint8_t *data, size_t len)
{
    while (len > 0) {
        ssize_t done = write(fd, data, len);
        if (done < 0 && errno != EINTR) {
            return false;
        }
        data += done > 0 ? done : 0;
        len -= done > 0 ? (size_t)done : 0;
    }
    return true;
}

static enum tern_result copy_all(int in, int out, const char *from, const char *to, char why[256])
{
    uint8_t buffer[COPY_BYTES];
    for (;;) {
        ssize_t got = read(in, buffer, sizeof buffer);
        if (got == 0) {
            return TERN_OK;
        }
        if (got < 0 && errno != EINTR) {
            return failed(why, "read", from);
        }
        if (got > 0 && !write_all(out, buffer, (size_t)got)) {
            return failed(why, "write", to);
        }
    }
}

static enum tern_result copy_open(int in, const char *from, const char *to, char why[256])
{
    TERN_TRY(tern_sql_file_make(to, why));
    int out = open(to, O_WRONLY | O_CLOEXEC);
    if (out < 0) {
        return failed(why, "open", to);
    }
    enum tern_result result = copy_all(in, out, from, to, why);
    if (close(out) != 0 && result == TERN_OK) {
        return failed(why, "write", to);
    }
    return result;
}

enum tern_result tern_sql_file_log(const char *path, bool *has_log, bool *has_index, char why[256])
{
    char name[PATH_MAX];
    struct stat log;
    TERN_TRY(beside(path, "-shm", name, why));
    *has_index = stat(name, &log) == 0 && log.st_size >= INDEX_LEAST;
    TERN_TRY(beside(path, "-wal", name, why));
    *has_log = stat(name, &log) == 0 && (log.st_size > 0 || *has_index);
    return TERN_OK;
}

enum tern_result tern_sql_file_copy(const char *from, const char *to, char why[256])
{
    char log[PATH_MAX];
    TERN_TRY(tern_sql_file_check(from, why));
    for (size_t i = 0; i < LOGS; i++) {
        TERN_TRY(beside(from, logs[i], log, why));
        if (access(log, F_OK) == 0) {
            snprintf(why, 256, "%.200s is beside it: it is in use, no backup", log);
            return TERN_ERR_STATE;
        }
    }
    int in = open(from, O_RDONLY | O_CLOEXEC);
    if (in < 0) {
        return failed(why, "open", from);
    }
    enum tern_result result = copy_open(in, from, to, why);
    close(in);
    return result;
}

// Gives a file a second name; one that is not there needs none.
static enum tern_result keep(const char *path, const char *kept, char why[256])
{
    if (link(path, kept) == 0 || errno == ENOENT) {
        return TERN_OK;
    }
    if (errno == EEXIST) {
        snprintf(why, 256, "%s is there already", kept);
        return TERN_ERR_CONFLICT;
    }
    return failed(why, "make", kept);
}

static enum tern_result keep_all(const char *path, const char *kept, char why[256])
{
    char from[PATH_MAX];
    char to[PATH_MAX];
    TERN_TRY(keep(path, kept, why));
    for (size_t i = 0; i < LOGS; i++) {
        TERN_TRY(beside(path, logs[i], from, why));
        TERN_TRY(beside(kept, logs[i], to, why));
        TERN_TRY(keep(from, to, why));
    }
    return sync_folder_of(path, why);
}

static enum tern_result remove_beside(const char *path, const char *suffix, char why[256])
{
    char name[PATH_MAX];
    TERN_TRY(beside(path, suffix, name, why));
    return unlink(name) == 0 || errno == ENOENT ? TERN_OK : failed(why, "remove the log of", path);
}

static enum tern_result remove_logs(const char *path, char why[256])
{
    for (size_t i = 0; i < LOGS; i++) {
        TERN_TRY(remove_beside(path, logs[i], why));
    }
    TERN_TRY(remove_beside(path, TERN_SQL_FILE_RESERVE, why));
    return remove_beside(path, "-shm", why);
}

enum tern_result tern_sql_file_replace(const char *file, const char *path, const char *kept,
                                       char why[256])
{
    TERN_TRY(sync_path(file, O_RDWR, why));
    TERN_TRY(keep_all(path, kept, why));
    // On the disk before the new file is: the log of one database would destroy another.
    TERN_TRY(remove_logs(path, why));
    TERN_TRY(sync_folder_of(path, why));
    return rename(file, path) == 0 ? sync_folder_of(path, why) : failed(why, "replace", path);
}

void tern_sql_file_remove(const char *path)
{
    char why[256];
    unlink(path);
    (void)!remove_logs(path, why); // what is left is in nobody's way
}
