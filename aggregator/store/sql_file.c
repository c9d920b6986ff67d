// Files around the database: what may be opened, and how a new one appears whole or not at all.
#include "store/sql_file.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define HEADER_SIZE 100
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
    unlink(temporary);
    return result == TERN_OK ? sync_folder_of(path, why) : result;
}
