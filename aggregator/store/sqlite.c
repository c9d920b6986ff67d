// SQL by SQLite: a database in one file, in WAL mode. The file itself (what may be opened, copied, replaced), its use of
// the disk, its damage, its statements and its transactions. Implements struct tern_sql_driver and struct tern_sql_disk.
#include "store/sql.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <pthread.h>
#include <sqlite3.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

// A transaction writes whole pages, most of them for a few small rows: pages of 2 KiB halve the bytes of small models. Large
// updates and vectors take less processor time in pages of 4 KiB.
#define SMALL_PAGE 2048
#define LARGE_PAGE 4096
#define LARGE_MODEL (1u << 18) // values from which pages are large
#define BUSY_TIMEOUT_MS 5000
#define RESERVE_SUFFIX "-reserve" // suffix of a file beside the database that reserves disk space
#define APPLICATION_ID 0x5465726e // SQLite's application_id: "Tern"

// A thread that writes the log back by a connection of its own.
struct log_writer {
    sqlite3 *handle; // NULL: there is no thread
    pthread_t thread;
    atomic_bool has_ended;
    int frames; // pages of the log that were written back, once it has ended
};

struct sqlite {
    struct tern_sql base;
    sqlite3 *handle;
    bool damage_reported; // SQLite reported damage; a disk that fails to read looks the same
    int64_t data_version;
    int64_t page_bytes;    // size of a page
    uint64_t log_frames;   // pages in the log at this connection's last commit
    uint64_t growth_bytes; // of the file, if the log was written back after the last commit
    uint64_t pages;     // pages of the database after this connection's last commit; 0 = not known
    bool is_service;    // this connection is a service's, which makes the reserve
    bool disk_was_full; // an operation failed because the disk is full
    struct log_writer writer;
};

static sqlite3 *handle_of(const struct tern_sql *sql)
{
    return ((const struct sqlite *)sql)->handle;
}

// --- Files: which may be opened, and how a new one appears whole or not at all

#define HEADER_SIZE 100
#define INDEX_LEAST 32768 // least bytes of SQLite's index of a log (-shm)
#define APPLICATION_ID_AT 68

static enum tern_result report_errno(char why[256], const char *what, const char *path)
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
        return report_errno(why, "open", path);
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

static enum tern_result check_header(const char *path, char why[256])
{
    uint8_t header[HEADER_SIZE] = {0};
    size_t len = 0;
    TERN_TRY(read_header(path, header, &len, why));
    if (len == 0) {
        snprintf(why, 256, "%s is empty, not a Tern database; restore a backup", path);
        return TERN_ERR_IO;
    }
    if (len < HEADER_SIZE || memcmp(header, "SQLite format 3", 16) != 0) {
        snprintf(why, 256, "%s is not a SQLite database; it was not changed", path);
        return TERN_ERR_IO;
    }
    if (big_endian32(header + APPLICATION_ID_AT) != APPLICATION_ID) {
        snprintf(why, 256, "%s is a database of another program; it was not changed", path);
        return TERN_ERR_IO;
    }
    return TERN_OK;
}

static enum tern_result make_file(const char *path, char why[256])
{
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0 && errno == EEXIST) {
        snprintf(why, 256, "%s is there already", path);
        return TERN_ERR_CONFLICT;
    }
    if (fd < 0) {
        return report_errno(why, "make", path);
    }
    close(fd);
    return TERN_OK;
}

static enum tern_result sync_path(const char *path, int flags, char why[256])
{
    int fd = open(path, flags | O_CLOEXEC);
    if (fd < 0) {
        return report_errno(why, "open", path);
    }
    int code = fsync(fd);
    close(fd);
    return code == 0 ? TERN_OK : report_errno(why, "sync", path);
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
    return report_errno(why, "make", path);
}

static enum tern_result publish(const char *temporary, const char *path, char why[256])
{
    enum tern_result result = link_into_place(temporary, path, why);
    tern_db_remove(temporary);
    return result == TERN_OK ? sync_folder_of(path, why) : result;
}

// --- Copying and replacing a database

#define COPY_BYTES 65536

static const char *const logs[] = {"-wal", "-journal"};
#define LOGS (sizeof logs / sizeof logs[0])

static enum tern_result path_beside(const char *path, const char *suffix, char name[PATH_MAX],
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
            return report_errno(why, "read", from);
        }
        if (got > 0 && !write_all(out, buffer, (size_t)got)) {
            return report_errno(why, "write", to);
        }
    }
}

static enum tern_result copy_open(int in, const char *from, const char *to, char why[256])
{
    TERN_TRY(make_file(to, why));
    int out = open(to, O_WRONLY | O_CLOEXEC);
    if (out < 0) {
        return report_errno(why, "open", to);
    }
    enum tern_result result = copy_all(in, out, from, to, why);
    if (close(out) != 0 && result == TERN_OK) {
        return report_errno(why, "write", to);
    }
    return result;
}

static enum tern_result find_log(const char *path, bool *has_log, bool *has_index, char why[256])
{
    char name[PATH_MAX];
    struct stat log;
    TERN_TRY(path_beside(path, "-shm", name, why));
    *has_index = stat(name, &log) == 0 && log.st_size >= INDEX_LEAST;
    TERN_TRY(path_beside(path, "-wal", name, why));
    *has_log = stat(name, &log) == 0 && (log.st_size > 0 || *has_index);
    return TERN_OK;
}

enum tern_result tern_db_copy(const char *from, const char *to, char why[256])
{
    char log[PATH_MAX];
    TERN_TRY(check_header(from, why));
    for (size_t i = 0; i < LOGS; i++) {
        TERN_TRY(path_beside(from, logs[i], log, why));
        if (access(log, F_OK) == 0) {
            snprintf(why, 256,
                     "%.170s exists: the database is in use and cannot be copied; use a backup",
                     log);
            return TERN_ERR_STATE;
        }
    }
    int in = open(from, O_RDONLY | O_CLOEXEC);
    if (in < 0) {
        return report_errno(why, "open", from);
    }
    enum tern_result result = copy_open(in, from, to, why);
    close(in);
    return result;
}

// Links the file to the name `kept`, if the file exists.
static enum tern_result link_as(const char *path, const char *kept, char why[256])
{
    if (link(path, kept) == 0 || errno == ENOENT) {
        return TERN_OK;
    }
    if (errno == EEXIST) {
        snprintf(why, 256, "%s is there already", kept);
        return TERN_ERR_CONFLICT;
    }
    return report_errno(why, "make", kept);
}

static enum tern_result link_all_as(const char *path, const char *kept, char why[256])
{
    char from[PATH_MAX];
    char to[PATH_MAX];
    TERN_TRY(link_as(path, kept, why));
    for (size_t i = 0; i < LOGS; i++) {
        TERN_TRY(path_beside(path, logs[i], from, why));
        TERN_TRY(path_beside(kept, logs[i], to, why));
        TERN_TRY(link_as(from, to, why));
    }
    return sync_folder_of(path, why);
}

static enum tern_result remove_beside(const char *path, const char *suffix, char why[256])
{
    char name[PATH_MAX];
    TERN_TRY(path_beside(path, suffix, name, why));
    return unlink(name) == 0 || errno == ENOENT ? TERN_OK
                                                : report_errno(why, "remove the log of", path);
}

static enum tern_result remove_logs(const char *path, char why[256])
{
    for (size_t i = 0; i < LOGS; i++) {
        TERN_TRY(remove_beside(path, logs[i], why));
    }
    TERN_TRY(remove_beside(path, RESERVE_SUFFIX, why));
    return remove_beside(path, "-shm", why);
}

enum tern_result tern_db_replace(const char *file, const char *path, const char *kept,
                                 char why[256])
{
    TERN_TRY(sync_path(file, O_RDWR, why));
    TERN_TRY(link_all_as(path, kept, why));
    // The removal must reach the disk before the new file: the log of one database would destroy another.
    TERN_TRY(remove_logs(path, why));
    TERN_TRY(sync_folder_of(path, why));
    return rename(file, path) == 0 ? sync_folder_of(path, why) : report_errno(why, "replace", path);
}

void tern_db_remove(const char *path)
{
    char why[256];
    unlink(path);
    (void)!remove_logs(path, why); // a log that remains does no harm
}

// --- Measuring the disk

// Each write-back of the log costs two syncs: under load it must not happen every few commits.
#define LOG_MOST (UINT64_C(64) << 20)
#define LOG_LEAST (UINT64_C(128) << 10)
#define LOG_SHARE 8 // the log may take 1/8 of the free bytes
// A service writes a longer log back on a thread: 64 MiB take 0.1 s, during which no transaction could begin.
#define LOG_SHORT (UINT64_C(4) << 20)
#define LOG_FEW (UINT64_C(256) << 10)

#define RESERVE_MOST (UINT64_C(8) << 20)
#define RESERVE_SHARE 16 // the reserve may take 1/16 of the disk
// The reserve is made if this many times its size is free.
#define RESERVE_ROOM 5

// Free bytes that SQLite's index of the log and a transaction of a few rows need.
#define FEW_BYTES (UINT64_C(128) << 10)

// False: the disk reports no size, or there is no file.
static bool read_disk(const struct tern_sql *sql, struct statvfs *disk)
{
    const char *path = sql->path;
    return path != NULL && path[0] != '\0' && statvfs(path, disk) == 0;
}

static uint64_t free_of(const struct statvfs *disk)
{
    return (uint64_t)disk->f_bavail * disk->f_frsize;
}

// Uses stat(), not open(): closing the file would drop SQLite's locks.
static uint64_t size_of(const char *path)
{
    struct stat status;
    return path[0] != '\0' && stat(path, &status) == 0 ? (uint64_t)status.st_size : 0;
}

static uint64_t log_bytes(const struct tern_sql *sql)
{
    const char *path = sql->path;
    return path != NULL && path[0] != '\0' ? size_of(sqlite3_filename_wal(path)) : 0;
}

static bool reserve_path(const struct tern_sql *sql, char path[PATH_MAX])
{
    const char *database = sql->path;
    return database != NULL && database[0] != '\0' &&
           snprintf(path, PATH_MAX, "%s" RESERVE_SUFFIX, database) < PATH_MAX;
}

static bool lacks_room(const struct tern_sql *sql)
{
    struct statvfs disk;
    return read_disk(sql, &disk) && free_of(&disk) < FEW_BYTES;
}

static enum tern_result measure_room(struct tern_sql *sql, struct tern_db_room *room)
{
    struct statvfs disk;
    char reserve[PATH_MAX];
    *room = (struct tern_db_room){.disk = UINT64_MAX,
                                  .free = UINT64_MAX,
                                  .log = log_bytes(sql),
                                  .reserve = reserve_path(sql, reserve) ? size_of(reserve) : 0};
    if (read_disk(sql, &disk)) {
        room->disk = (uint64_t)disk.f_blocks * disk.f_frsize;
        room->free = free_of(&disk) + room->log;
    }
    return TERN_OK;
}

// --- Results of SQLite's calls

// Reports a broken constraint, which undoes only its statement. The transaction may continue.
static enum tern_result broken_constraint(struct tern_sql *sql, int code)
{
    enum tern_result result = TERN_ERR_ARGUMENT;
    if (code == SQLITE_CONSTRAINT_UNIQUE || code == SQLITE_CONSTRAINT_PRIMARYKEY ||
        code == SQLITE_CONSTRAINT_ROWID) {
        result = TERN_ERR_CONFLICT;
    } else if (code == SQLITE_CONSTRAINT_FOREIGNKEY) {
        result = TERN_ERR_NOT_FOUND;
    }
    return tern_sql_fail(sql, result, sqlite3_errmsg(handle_of(sql)));
}

static enum tern_result failed(struct tern_sql *sql, int code)
{
    const char *sentence = sqlite3_errmsg(handle_of(sql));
    if (code == SQLITE_IOERR_SHMSIZE && lacks_room(sql)) {
        ((struct sqlite *)sql)->disk_was_full = true;
        return tern_sql_fail(sql, TERN_ERR_IO,
                             "the disk is full, and 128 KiB beside the database are needed to open "
                             "it for writing: delete files of other programs there");
    }
    switch (code & 0xff) {
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
        snprintf(sql->error, sizeof sql->error, "another process holds the database: %s", sentence);
        return TERN_ERR_BUSY;
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
        ((struct sqlite *)sql)->damage_reported = true;
        snprintf(sql->error, sizeof sql->error,
                 "the disk returned other bytes than were stored, or the file is damaged: %s",
                 sentence);
        return TERN_ERR_IO;
    case SQLITE_CONSTRAINT:
        return broken_constraint(sql, code);
    case SQLITE_FULL:
        ((struct sqlite *)sql)->disk_was_full = true;
        return tern_sql_fail(sql, TERN_ERR_IO,
                             "the disk is full; nothing of this was stored. Delete files of other "
                             "programs there, or run `tern-aggregator prune --keep 10`");
    case SQLITE_NOMEM:
        return tern_sql_fail(sql, TERN_ERR_NO_MEMORY, "there is not enough memory");
    default:
        snprintf(sql->error, sizeof sql->error, "SQLite: %s (%d)", sentence, code);
        return TERN_ERR_IO;
    }
}

static enum tern_result run(struct tern_sql *sql, const char *text)
{
    int code = sqlite3_exec(handle_of(sql), text, NULL, NULL, NULL);
    return code == SQLITE_OK ? TERN_OK : failed(sql, code);
}

static enum tern_result read_number(struct tern_sql *sql, const char *text, const char *parameter,
                                    int64_t *number)
{
    sqlite3_stmt *statement = NULL;
    int code = sqlite3_prepare_v2(handle_of(sql), text, -1, &statement, NULL);
    if (code == SQLITE_OK && parameter != NULL) {
        code = sqlite3_bind_text(statement, 1, parameter, -1, SQLITE_STATIC);
    }
    if (code == SQLITE_OK) {
        code = sqlite3_step(statement);
    }
    if (code == SQLITE_ROW) {
        *number = sqlite3_column_int64(statement, 0);
    }
    sqlite3_finalize(statement);
    return code == SQLITE_ROW || code == SQLITE_DONE ? TERN_OK : failed(sql, code);
}

// --- The reserve

static bool give_up_reserve(const struct tern_sql *sql)
{
    char path[PATH_MAX];
    return reserve_path(sql, path) && unlink(path) == 0;
}

static uint64_t reserve_of(const struct statvfs *disk)
{
    const uint64_t share = (uint64_t)disk->f_blocks * disk->f_frsize / RESERVE_SHARE;
    return share < RESERVE_MOST ? share : RESERVE_MOST;
}

static void allocate(const char *path, uint64_t bytes)
{
    const int fd = open(path, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0) {
        return;
    }
    if (posix_fallocate(fd, 0, (off_t)bytes) != 0 && size_of(path) == 0) {
        unlink(path);
    }
    close(fd);
}

static void make_reserve(const struct tern_sql *sql, bool at_once)
{
    char path[PATH_MAX];
    struct statvfs disk;
    if (!reserve_path(sql, path) || !read_disk(sql, &disk)) {
        return;
    }
    const uint64_t whole = reserve_of(&disk);
    const uint64_t has = size_of(path);
    const uint64_t room = free_of(&disk);
    if (has >= whole) {
        return;
    }
    if (room >= RESERVE_ROOM * whole) {
        allocate(path, whole);
    } else if (at_once && has == 0 && room > 2 * FEW_BYTES) {
        allocate(path, whole < room - FEW_BYTES ? whole : room - FEW_BYTES);
    }
}

// --- The log

static int note_frames(void *ctx, sqlite3 *handle, const char *name, int frames)
{
    struct sqlite *lite = ctx;
    (void)handle;
    (void)name;
    lite->log_frames = (uint64_t)frames;
    return SQLITE_OK; // another code would report the commit, which is done, as failed
}

static void watch_log(struct tern_sql *sql)
{
    sqlite3_wal_hook(handle_of(sql), note_frames, sql); // replaces SQLite's own hook
}

static void *write_log(void *arg)
{
    static const char open_log[] = "SELECT 1 FROM sqlite_schema LIMIT 1"; // the first read does
    struct log_writer *writer = arg;
    // A failure is repeated, and reported, by the connection that commits.
    if (sqlite3_exec(writer->handle, open_log, NULL, NULL, NULL) == SQLITE_OK) {
        (void)sqlite3_wal_checkpoint_v2(writer->handle, "main", SQLITE_CHECKPOINT_PASSIVE, NULL,
                                        &writer->frames);
    }
    atomic_store(&writer->has_ended, true);
    return NULL;
}

static void end_writer(struct log_writer *writer)
{
    if (writer->handle != NULL) {
        pthread_join(writer->thread, NULL);
        sqlite3_close(writer->handle);
        writer->handle = NULL;
    }
}

static bool begin_writer(struct log_writer *writer, const char *path)
{
    const int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX;
    atomic_store(&writer->has_ended, false);
    writer->frames = 0;
    if (sqlite3_open_v2(path, &writer->handle, flags, NULL) == SQLITE_OK &&
        pthread_create(&writer->thread, NULL, write_log, writer) == 0) {
        return true;
    }
    sqlite3_close(writer->handle);
    writer->handle = NULL;
    return false;
}

// Writes the log back to the file. Never waits for readers: a later call writes the pages that they still need.
static int write_back(struct tern_sql *sql, int mode)
{
    sqlite3 *handle = handle_of(sql);
    end_writer(&((struct sqlite *)sql)->writer);
    sqlite3_busy_timeout(handle, 0);
    const int code = sqlite3_wal_checkpoint_v2(handle, "main", mode, NULL, NULL);
    sqlite3_busy_timeout(handle, BUSY_TIMEOUT_MS);
    return code;
}

// Writes a long log back on a thread, and what was committed meanwhile, too, unless these are a few pages: the commit behind
// them restarts the log.
static void write_back_beside(struct tern_sql *sql)
{
    struct sqlite *lite = (struct sqlite *)sql;
    struct log_writer *writer = &lite->writer;
    const bool runs = writer->handle != NULL;
    if (runs && !atomic_load(&writer->has_ended)) {
        return;
    }
    end_writer(writer);
    const uint64_t frames = runs && writer->frames > 0 ? (uint64_t)writer->frames : 0;
    const uint64_t left = lite->log_frames > frames ? lite->log_frames - frames : 0;
    const bool has_failed = runs && frames == 0;
    if (has_failed || left * (uint64_t)lite->page_bytes <= LOG_FEW ||
        !begin_writer(writer, sql->path)) {
        (void)write_back(sql, SQLITE_CHECKPOINT_PASSIVE);
    }
}

static uint64_t log_most(const struct statvfs *disk, uint64_t bytes)
{
    const uint64_t share = (free_of(disk) + bytes) / LOG_SHARE;
    const uint64_t most = share < LOG_MOST ? share : LOG_MOST;
    return most > LOG_LEAST ? most : LOG_LEAST;
}

static void maintain_log(struct tern_sql *sql)
{
    struct sqlite *lite = (struct sqlite *)sql;
    struct statvfs disk;
    if (!read_disk(sql, &disk)) {
        return;
    }
    const uint64_t bytes = log_bytes(sql);
    const uint64_t most = log_most(&disk, bytes);
    const uint64_t grown = lite->growth_bytes;
    const bool low = grown > 0 && free_of(&disk) < reserve_of(&disk);
    const uint64_t used = lite->log_frames * (uint64_t)lite->page_bytes;
    const bool due = grown >= reserve_of(&disk) / 2 || used >= most;
    if (bytes > 2 * most) {
        (void)write_back(sql, SQLITE_CHECKPOINT_TRUNCATE);
    } else if (due && !low && lite->is_service && used > LOG_SHORT) {
        write_back_beside(sql);
    } else if (due || low) {
        (void)write_back(sql, SQLITE_CHECKPOINT_PASSIVE); // the next commit restarts the log
    }
    if (lite->is_service) {
        make_reserve(sql, false);
    }
}

static enum tern_result count_pages(struct tern_sql *sql, uint64_t *pages)
{
    return tern_query_get(tern_query_read(sql, "PRAGMA page_count", NULL), pages);
}

// Refuses a transaction that adds pages if the disk lacks room to write the log back.
static enum tern_result check_room(struct tern_sql *sql)
{
    struct sqlite *lite = (struct sqlite *)sql;
    char path[PATH_MAX];
    struct statvfs disk;
    uint64_t pages = 0;
    TERN_TRY(count_pages(sql, &pages));
    const uint64_t file = size_of(sql->path);
    const uint64_t bytes = pages * (uint64_t)lite->page_bytes;
    const uint64_t reserve = reserve_path(sql, path) ? size_of(path) : 0;
    const bool adds = pages > lite->pages;
    lite->growth_bytes = bytes > file ? bytes - file : 0;
    lite->pages = pages;
    if (!adds || lite->growth_bytes <= reserve || !read_disk(sql, &disk) ||
        2 * lite->growth_bytes <= free_of(&disk) + reserve) {
        return TERN_OK;
    }
    return failed(sql, SQLITE_FULL);
}

// --- A full disk

// Whether SQLite cannot make the index of the log, which the first read makes, because the disk is full.
static bool lacks_index(struct tern_sql *sql)
{
    const int code =
        sqlite3_exec(handle_of(sql), "SELECT 1 FROM sqlite_schema LIMIT 1", NULL, NULL, NULL);
    return code != SQLITE_OK && lacks_room(sql);
}

static bool ensure_index(struct tern_sql *sql)
{
    return !lacks_index(sql) || (give_up_reserve(sql) && !lacks_index(sql));
}

// Removes the reserve on a full disk. A service keeps the reserve for its log.
static void free_reserve_if_full(struct tern_sql *sql)
{
    if (!((struct sqlite *)sql)->is_service && lacks_room(sql)) {
        (void)give_up_reserve(sql);
    }
}

static void recover_from_full_disk(struct tern_sql *sql)
{
    struct sqlite *lite = (struct sqlite *)sql;
    if (!lite->disk_was_full) {
        return;
    }
    lite->disk_was_full = false;
    const int code = write_back(sql, SQLITE_CHECKPOINT_TRUNCATE) & 0xff;
    if (code != SQLITE_OK && code != SQLITE_BUSY && code != SQLITE_LOCKED && give_up_reserve(sql)) {
        (void)write_back(sql, SQLITE_CHECKPOINT_TRUNCATE);
        make_reserve(sql, true); // uses the bytes that the truncated log had
    }
}

static bool make_room(struct tern_sql *sql)
{
    struct statvfs disk;
    if (!read_disk(sql, &disk) || free_of(&disk) >= reserve_of(&disk)) {
        return false;
    }
    (void)write_back(sql, SQLITE_CHECKPOINT_TRUNCATE);
    return give_up_reserve(sql);
}

// --- Checks

static enum tern_result check_by(struct tern_sql *sql, const char *pragma)
{
    struct tern_query query = tern_query_read(sql, pragma, NULL);
    if (!tern_query_row(&query)) {
        return tern_query_missing(&query);
    }
    char finding[160] = "";
    snprintf(finding, sizeof finding, "%s",
             (const char *)sqlite3_column_text((sqlite3_stmt *)query.statement->handle, 0));
    if (strcmp(finding, "ok") != 0) {
        tern_query_damaged(&query, finding);
    }
    return tern_query_end(&query);
}

#define STEPS_BETWEEN_LOOKS                                                                        \
    10000 // SQLite's instructions between checks for a stop, some milliseconds

static int must_stop(void *ctx)
{
    const struct tern_sql *sql = ctx;
    return sql->stop != NULL && atomic_load(sql->stop) ? 1 : 0;
}

// --- Damage, or a disk that cannot be read

#define LOOK_BYTES 65536

// Reads a whole file of the connection by SQLite's own handle: to open the file and close it again would drop SQLite's locks.
static bool is_file_readable(sqlite3_file *file, uint8_t *buffer)
{
    sqlite3_int64 size = 0;
    if (file == NULL || file->pMethods == NULL) { // there is no such file yet
        return true;
    }
    if (file->pMethods->xFileSize(file, &size) != SQLITE_OK) {
        return false;
    }
    for (sqlite3_int64 at = 0; at < size; at += LOOK_BYTES) {
        const int len = size - at < LOOK_BYTES ? (int)(size - at) : LOOK_BYTES;
        if (file->pMethods->xRead(file, buffer, len, at) != SQLITE_OK) {
            return false;
        }
    }
    return true;
}

static bool are_files_readable(struct tern_sql *sql)
{
    sqlite3_file *file = NULL;
    sqlite3_file *log = NULL;
    uint8_t *buffer = malloc(LOOK_BYTES);
    sqlite3_file_control(handle_of(sql), "main", SQLITE_FCNTL_FILE_POINTER, &file);
    sqlite3_file_control(handle_of(sql), "main", SQLITE_FCNTL_JOURNAL_POINTER, &log);
    const bool read =
        buffer != NULL && is_file_readable(file, buffer) && is_file_readable(log, buffer);
    free(buffer);
    return read;
}

// Whether SQLite's integrity_check passes; quick_check does not check indexes.
static bool passes_integrity_check(struct tern_sql *sql)
{
    sqlite3_stmt *statement = NULL;
    int code =
        sqlite3_prepare_v2(handle_of(sql), "PRAGMA integrity_check(1)", -1, &statement, NULL);
    if (code == SQLITE_OK) {
        code = sqlite3_step(statement);
    }
    const bool sound =
        code == SQLITE_ROW && strcmp((const char *)sqlite3_column_text(statement, 0), "ok") == 0;
    sqlite3_finalize(statement);
    return sound;
}

// SQLite also reports SQLITE_CORRUPT for a read that fails by EIO. So it is damage only if every byte can be read.
static void detect_damage(struct tern_sql *sql)
{
    struct sqlite *lite = (struct sqlite *)sql;
    if (!lite->damage_reported) {
        return;
    }
    lite->damage_reported = false;
    if (passes_integrity_check(sql)) {
        tern_sql_fail(
            sql, TERN_ERR_IO,
            "the disk failed to read the database (I/O error), and can read it again; the "
            "file is sound");
    } else if (!are_files_readable(sql)) {
        lite->damage_reported = true;
        tern_sql_fail(sql, TERN_ERR_IO,
                      "the disk cannot read the database (I/O error): nothing is lost, and work "
                      "continues once it can; see the kernel's log (dmesg)");
    } else if (!passes_integrity_check(sql)) {
        (void)tern_sql_fail_damaged(sql, "SQLite's integrity_check fails");
    }
}

static enum tern_result check(struct tern_sql *sql, enum tern_sql_check how)
{
    if (how == TERN_SQL_CHECK_FAILURE) {
        detect_damage(sql);
        return TERN_OK;
    }
    return check_by(sql, how == TERN_SQL_CHECK_ALL ? "PRAGMA integrity_check(1)"
                                                   : "PRAGMA quick_check(1)");
}

// --- Statements

static enum tern_result checked(struct tern_sql *sql, int code)
{
    return code == SQLITE_OK ? TERN_OK : failed(sql, code);
}

static enum tern_result prepare(struct tern_sql *sql, const char *text, bool kept, void **handle)
{
    const unsigned flags = kept ? SQLITE_PREPARE_PERSISTENT : 0;
    sqlite3_stmt *statement = NULL;
    const int code = sqlite3_prepare_v3(handle_of(sql), text, -1, flags, &statement, NULL);
    *handle = statement;
    return checked(sql, code);
}

static void reset(struct tern_sql *sql, void *handle)
{
    (void)sql;
    sqlite3_reset(handle);
    sqlite3_clear_bindings(handle);
}

static void finish(struct tern_sql *sql, void *handle)
{
    (void)sql;
    sqlite3_finalize(handle);
}

static enum tern_result bind(struct tern_sql *sql, void *handle, int at,
                             const struct tern_sql_value *value)
{
    switch (value->type) {
    case TERN_SQL_REAL:
        return checked(sql, sqlite3_bind_double(handle, at, value->real));
    case TERN_SQL_TEXT:
        return checked(sql,
                       sqlite3_bind_text(handle, at, value->bytes, (int)value->len, SQLITE_STATIC));
    case TERN_SQL_BLOB:
        return checked(sql,
                       sqlite3_bind_blob64(handle, at, value->bytes, value->len, SQLITE_STATIC));
    case TERN_SQL_ID:
    case TERN_SQL_INTEGER:
    case TERN_SQL_TYPES:
        break;
    }
    return checked(sql, sqlite3_bind_int64(handle, at, value->integer));
}

static enum tern_result step(struct tern_sql *sql, void *handle, bool writes, bool *row)
{
    const int code = sqlite3_step(handle);
    *row = code == SQLITE_ROW;
    if (writes && code == SQLITE_DONE) {
        sql->has_changed = sqlite3_changes(handle_of(sql)) != 0;
        sql->last_id = (uint64_t)sqlite3_last_insert_rowid(handle_of(sql));
    }
    return *row || code == SQLITE_DONE ? TERN_OK : failed(sql, code);
}

static void read_column(void *handle, int at, struct tern_sql_value *value)
{
    switch (value->type) {
    case TERN_SQL_REAL:
        value->real = sqlite3_column_double(handle, at);
        break;
    case TERN_SQL_TEXT:
        value->bytes = sqlite3_column_text(handle, at);
        value->len = (size_t)sqlite3_column_bytes(handle, at);
        break;
    case TERN_SQL_BLOB:
        value->bytes = sqlite3_column_blob(handle, at);
        value->len = (size_t)sqlite3_column_bytes(handle, at);
        break;
    case TERN_SQL_ID:
    case TERN_SQL_INTEGER:
    case TERN_SQL_TYPES:
        value->integer = sqlite3_column_int64(handle, at);
        break;
    }
}

static const char *column_name(void *handle, int at)
{
    return sqlite3_column_name(handle, at);
}

// --- Rows in bulk

static enum tern_result add(struct tern_sql *sql, void *handle, bool changes)
{
    bool row;
    const enum tern_result result = step(sql, handle, true, &row);
    sqlite3_reset(handle);
    return result == TERN_OK && changes && !sql->has_changed
               ? tern_sql_fail(sql, TERN_ERR_NOT_FOUND, "a row to be changed is missing")
               : result;
}

#define LOAD_MAX 4096 // bytes of the statement's text

static enum tern_result load(struct tern_sql *sql, const char *table, const char *columns,
                             int count, void **handle)
{
    char text[LOAD_MAX];
    int len = snprintf(text, sizeof text, "INSERT INTO %s (%s) VALUES (", table, columns);
    for (int i = 0; i < count && len < LOAD_MAX; i++) {
        len += snprintf(text + len, sizeof text - (size_t)len, i + 1 < count ? "?, " : "?)");
    }
    return prepare(sql, text, true, handle);
}

static enum tern_result load_end(struct tern_sql *sql, void *handle, bool whole)
{
    (void)whole;
    finish(sql, handle);
    return TERN_OK;
}

// --- Values in pieces

static enum tern_result take_pieces(struct tern_sql *sql, sqlite3_blob *blob, size_t size,
                                    tern_sql_taker take_piece, void *ctx)
{
    uint8_t *piece = malloc(TERN_SQL_PIECE_BYTES);
    enum tern_result result = piece == NULL ? TERN_ERR_NO_MEMORY : TERN_OK;
    for (size_t done = 0; done < size && result == TERN_OK;) {
        const size_t len = size - done < TERN_SQL_PIECE_BYTES ? size - done : TERN_SQL_PIECE_BYTES;
        const int code = sqlite3_blob_read(blob, piece, (int)len, (int)done);
        result = code == SQLITE_OK ? take_piece(ctx, piece, len) : failed(sql, code);
        done += len;
    }
    free(piece);
    return result;
}

static enum tern_result open_value(struct tern_sql *sql, const char *table, const char *column,
                                   uint64_t id, size_t size, bool writes, sqlite3_blob **blob)
{
    const int code =
        sqlite3_blob_open(handle_of(sql), "main", table, column, (sqlite3_int64)id, writes, blob);
    if (code == SQLITE_ERROR) { // there is no such row
        return tern_sql_fail(sql, TERN_ERR_NOT_FOUND, sqlite3_errmsg(handle_of(sql)));
    }
    if (code != SQLITE_OK) {
        return failed(sql, code);
    }
    return (size_t)sqlite3_blob_bytes(*blob) == size
               ? TERN_OK
               : tern_sql_fail_damaged(sql,
                                       "a stored value has another length than its row records");
}

static enum tern_result stream(struct tern_sql *sql, const char *table, const char *column,
                               uint64_t id, size_t size, tern_sql_taker take_piece, void *ctx)
{
    sqlite3_blob *blob = NULL;
    enum tern_result result = open_value(sql, table, column, id, size, false, &blob);
    if (result == TERN_OK) {
        result = take_pieces(sql, blob, size, take_piece, ctx);
    }
    sqlite3_blob_close(blob);
    return result;
}

static enum tern_result read_piece(struct tern_sql *sql, const char *table, const char *column,
                                   uint64_t id, size_t size, size_t at, size_t len, uint8_t *dst)
{
    sqlite3_blob *blob = NULL;
    enum tern_result result = open_value(sql, table, column, id, size, false, &blob);
    if (result == TERN_OK) {
        result = checked(sql, sqlite3_blob_read(blob, dst, (int)len, (int)at));
    }
    sqlite3_blob_close(blob);
    return result;
}

static enum tern_result write_pieces(struct tern_sql *sql, sqlite3_blob *blob, size_t size,
                                     tern_sql_viewer view, void *ctx)
{
    for (size_t done = 0; done < size;) {
        const size_t len = size - done < TERN_SQL_PIECE_BYTES ? size - done : TERN_SQL_PIECE_BYTES;
        const uint8_t *piece = NULL;
        TERN_TRY(view(ctx, done, len, &piece));
        const int code = sqlite3_blob_write(blob, piece, (int)len, (int)done);
        if (code != SQLITE_OK) {
            return failed(sql, code);
        }
        done += len;
    }
    return TERN_OK;
}

// Adds a row with `size` zeros, for write_pieces().
static enum tern_result add_zeros(struct tern_sql *sql, const char *table, const char *column,
                                  uint64_t id, size_t size)
{
    char text[160];
    sqlite3_stmt *statement = NULL;
    snprintf(text, sizeof text, "INSERT INTO %s (id, %s) VALUES (?, zeroblob(?))", table, column);
    int code = sqlite3_prepare_v2(handle_of(sql), text, -1, &statement, NULL);
    if (code == SQLITE_OK) {
        sqlite3_bind_int64(statement, 1, (sqlite3_int64)id);
        sqlite3_bind_int64(statement, 2, (sqlite3_int64)size);
        code = sqlite3_step(statement);
    }
    const enum tern_result result = code == SQLITE_DONE ? TERN_OK : failed(sql, code);
    sqlite3_finalize(statement);
    return result;
}

static enum tern_result put_pieces(struct tern_sql *sql, const char *table, const char *column,
                                   uint64_t id, size_t size, tern_sql_viewer view, void *ctx)
{
    sqlite3_blob *blob = NULL;
    TERN_TRY(add_zeros(sql, table, column, id, size));
    enum tern_result result = open_value(sql, table, column, id, size, true, &blob);
    if (result == TERN_OK) {
        result = write_pieces(sql, blob, size, view, ctx);
    }
    sqlite3_blob_close(blob);
    return result;
}

#define SETTINGS                                                                                   \
    "PRAGMA journal_mode = WAL;"                                                                   \
    "PRAGMA synchronous = FULL;"                                                                   \
    "PRAGMA foreign_keys = ON;"                                                                    \
    "PRAGMA secure_delete = FAST;" SETTINGS_OF_READING
#define SETTINGS_OF_READING                                                                        \
    "PRAGMA trusted_schema = OFF;"                                                                 \
    "PRAGMA cell_size_check = ON;"

// In KiB. A second connection reads updates and downloads once each; SQLite's default of 2 MiB would fill with their pages.
#define CACHE_OF_SECOND "PRAGMA cache_size = -512"

// --- Life

static void close_connection(struct tern_sql *sql)
{
    end_writer(&((struct sqlite *)sql)->writer);
    sqlite3_close(handle_of(sql)); // an open transaction is rolled back
    free(sql);
}

// name: a path, or a URI with SQLITE_OPEN_URI among the flags. If a file cannot be opened for writing, SQLite opens it for
// reading.
static struct tern_sql *connect(const char *name, int flags, char why[256])
{
    struct sqlite *made = calloc(1, sizeof *made);
    if (made == NULL) {
        snprintf(why, 256, "there is not enough memory");
        return NULL;
    }
    struct tern_sql *sql = &made->base;
    sql->driver = &tern_sqlite_driver;
    if (sqlite3_open_v2(name, &made->handle, flags | SQLITE_OPEN_NOMUTEX, NULL) != SQLITE_OK) {
        snprintf(why, 256, "cannot open %s: %s", name, sqlite3_errmsg(made->handle));
        tern_sql_close(sql);
        return NULL;
    }
    sqlite3_extended_result_codes(made->handle, 1);
    sqlite3_busy_timeout(made->handle, BUSY_TIMEOUT_MS);
    sqlite3_db_config(made->handle, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
    sqlite3_progress_handler(made->handle, STEPS_BETWEEN_LOOKS, must_stop, sql);
    sql->path = sqlite3_db_filename(made->handle, "main");
    return sql;
}

static bool is_only_read(const struct tern_sql *sql)
{
    return sqlite3_db_readonly(handle_of(sql), "main") != 0;
}

// Connects for writing. NULL: no connection, or every write would fail
static struct tern_sql *connect_writing(const char *path, char why[256])
{
    struct tern_sql *sql = connect(path, SQLITE_OPEN_READWRITE, why);
    if (sql != NULL && is_only_read(sql)) {
        snprintf(why, 256, "%s can only be read; check its owner and permissions, and the disk",
                 path);
        tern_sql_close(sql);
        return NULL;
    }
    return sql;
}

// Makes the settings of a connection. A backup, which has no log, gets one.
static enum tern_result take(struct tern_sql *sql)
{
    const bool writes = !is_only_read(sql);
    TERN_TRY(run(sql, writes ? SETTINGS : SETTINGS_OF_READING));
    if (writes) {
        watch_log(sql);
    }
    TERN_TRY(read_number(sql, "PRAGMA page_size", NULL, &((struct sqlite *)sql)->page_bytes));
    return read_number(sql, "PRAGMA data_version", NULL, &((struct sqlite *)sql)->data_version);
}

static enum tern_result fill_new(struct tern_sql *sql, uint64_t values, tern_sql_filler fill,
                                 void *ctx)
{
    char identity[128];
    snprintf(identity, sizeof identity,
             "PRAGMA page_size = %d; PRAGMA auto_vacuum = INCREMENTAL; PRAGMA application_id = %d",
             values < LARGE_MODEL ? SMALL_PAGE : LARGE_PAGE, APPLICATION_ID);
    TERN_TRY(run(sql, identity));
    TERN_TRY(take(sql));
    TERN_TRY(tern_sql_begin(sql, TERN_SQL_WRITE));
    enum tern_result result = fill(sql, ctx);
    if (result != TERN_OK) {
        tern_sql_rollback(sql);
        return result;
    }
    TERN_TRY(tern_sql_commit(sql));
    // Writes the log back; closing would do so without reporting a failure.
    return run(sql, "PRAGMA wal_checkpoint(TRUNCATE)");
}

// Makes an empty file beside `path`, where there is none yet.
static enum tern_result make_temporary(const char *path, char temporary[PATH_MAX], char why[256])
{
    int len = snprintf(temporary, PATH_MAX, "%s.new-%ld", path, (long)getpid());
    if (len < 0 || len >= PATH_MAX) {
        snprintf(why, 256, "the path of the database is too long");
        return TERN_ERR_ARGUMENT;
    }
    if (access(path, F_OK) == 0) {
        snprintf(why, 256, "%s is there already", path);
        return TERN_ERR_CONFLICT;
    }
    return make_file(temporary, why);
}

static enum tern_result create(const char *path, uint64_t values, tern_sql_filler fill, void *ctx,
                               char why[256])
{
    char temporary[PATH_MAX];
    TERN_TRY(make_temporary(path, temporary, why));
    struct tern_sql *sql = connect_writing(temporary, why);
    enum tern_result result = TERN_ERR_IO;
    if (sql != NULL) {
        result = fill_new(sql, values, fill, ctx);
        snprintf(why, 256, "%s", sql->error);
        tern_sql_close(sql); // the last connection removes the log
    }
    if (result != TERN_OK) {
        tern_db_remove(temporary);
        return result;
    }
    return publish(temporary, path, why);
}

// --- Where no file can be written

#define URI_PREFIX "file:"
#define URI_SUFFIX "?immutable=1"
#define URI_MAX (sizeof URI_PREFIX + 3 * PATH_MAX + sizeof URI_SUFFIX)

// Connects so that SQLite makes no files beside the database and takes no locks.
static struct tern_sql *connect_immutable(const char *path, char why[256])
{
    char uri[URI_MAX] = URI_PREFIX;
    size_t len = strlen(uri);
    if (strlen(path) >= PATH_MAX) {
        snprintf(why, 256, "the path is too long");
        return NULL;
    }
    for (const char *next = path; *next != '\0'; next++) {
        const char *as_it_is = strchr("%?#", *next) == NULL ? "%c" : "%%%02x";
        len += (size_t)snprintf(uri + len, URI_MAX - len, as_it_is, (unsigned char)*next);
    }
    snprintf(uri + len, URI_MAX - len, URI_SUFFIX);
    return connect(uri, SQLITE_OPEN_READONLY | SQLITE_OPEN_URI, why);
}

// A database with a log is read by its index of the log, which a running service keeps up to date. Without a log, nobody has
// the database open.
static enum tern_result connect_reading(const char *path, struct tern_sql **out, char why[256])
{
    bool has_log;
    bool has_index;
    TERN_TRY(find_log(path, &has_log, &has_index, why));
    if (has_log && !has_index) {
        snprintf(why, 256,
                 "%.150s has a log, which cannot be read where no file can be made: copy "
                 "both files to another place",
                 path);
        return TERN_ERR_IO;
    }
    *out = has_log ? connect(path, SQLITE_OPEN_READONLY, why) : connect_immutable(path, why);
    return *out == NULL ? TERN_ERR_IO : TERN_OK;
}

static enum tern_result open_reading(const char *path, struct tern_sql **out, char why[256])
{
    *out = connect(path, SQLITE_OPEN_READWRITE, why);
    if (*out == NULL) {
        return TERN_ERR_IO;
    }
    if (!is_only_read(*out) && ensure_index(*out)) {
        return TERN_OK;
    }
    tern_sql_close(*out);
    *out = NULL;
    return connect_reading(path, out, why);
}

// Where this process has the file open already, only SQLite may open it: closing it drops SQLite's locks.
static enum tern_result open_file(const char *path, unsigned flags, struct tern_sql **out,
                                  char why[256])
{
    TERN_TRY(flags & (TERN_DB_SECOND | TERN_DB_HURRIED) ? TERN_OK : check_header(path, why));
    if (flags & TERN_DB_READING) {
        return open_reading(path, out, why);
    }
    *out = connect_writing(path, why);
    if (*out == NULL) {
        return TERN_ERR_IO;
    }
    (void)ensure_index(*out); // the first read reports a failure
    return flags & (TERN_DB_SECOND | TERN_DB_HURRIED) ? run(*out, CACHE_OF_SECOND) : TERN_OK;
}

// A lock beside the file keeps other services and other schemas away.
static enum tern_result use(struct tern_sql *sql, enum tern_sql_use how)
{
    if (how == TERN_SQL_WRITTEN) {
        return take(sql);
    }
    if (how == TERN_SQL_SERVED) {
        ((struct sqlite *)sql)->is_service = true;
        make_reserve(sql, true);
    }
    return TERN_OK;
}

static enum tern_result free_pages(struct tern_sql *sql, int64_t *pages)
{
    return read_number(sql, "PRAGMA freelist_count", NULL, pages);
}

// Releases unused pages, in the open transaction or in a new one.
static enum tern_result shrink(struct tern_sql *sql, uint64_t bytes, bool *more)
{
    int64_t before = 0;
    int64_t pages = 0;
    char pragma[64];
    snprintf(pragma, sizeof pragma, "PRAGMA incremental_vacuum(%llu)",
             (unsigned long long)(bytes / (uint64_t)((struct sqlite *)sql)->page_bytes + 1));
    TERN_TRY(free_pages(sql, &before));
    TERN_TRY(run(sql, pragma));
    TERN_TRY(free_pages(sql, &pages));
    *more = pages > 0 && pages < before; // a file without auto_vacuum releases nothing
    return TERN_OK;
}

static bool changed_by_others(struct tern_sql *sql)
{
    struct sqlite *lite = (struct sqlite *)sql;
    uint64_t number = (uint64_t)lite->data_version;
    // A failed read counts as a change: reading once more costs little, missing a revocation much.
    const bool read =
        tern_query_get(tern_query_read(sql, "PRAGMA data_version", NULL), &number) == TERN_OK;
    const bool changed = !read || (int64_t)number != lite->data_version;
    lite->data_version = (int64_t)number;
    return changed;
}

static enum tern_result backup(struct tern_sql *sql, const char *path, char why[256])
{
    char temporary[PATH_MAX];
    int64_t nothing = 0;
    TERN_TRY(make_temporary(path, temporary, why));
    enum tern_result result = read_number(sql, "VACUUM INTO ?", temporary, &nothing);
    if (result != TERN_OK) {
        snprintf(why, 256, "cannot make %.80s: %.150s", path, sql->error);
        unlink(temporary);
        return result;
    }
    return publish(temporary, path, why);
}

static enum tern_result settle(struct tern_sql *sql)
{
    TERN_TRY(run(sql, "PRAGMA journal_mode = DELETE"));
    return run(sql, "BEGIN EXCLUSIVE");
}

// --- Transactions

static enum tern_result run_kept(struct tern_sql *sql, const char *text)
{
    return tern_query_run(tern_query_read(sql, text, NULL));
}

static void give_up_transaction(struct tern_sql *sql)
{
    sqlite3_exec(handle_of(sql), "ROLLBACK", NULL, NULL, NULL);
}

static enum tern_result begin(struct tern_sql *sql, enum tern_sql_begin kind)
{
    if (kind == TERN_SQL_READ) {
        return run_kept(sql, "BEGIN");
    }
    free_reserve_if_full(sql);
    TERN_TRY(run_kept(sql, "BEGIN IMMEDIATE"));
    struct sqlite *lite = (struct sqlite *)sql;
    const enum tern_result result = lite->pages == 0 ? count_pages(sql, &lite->pages) : TERN_OK;
    if (result != TERN_OK) {
        give_up_transaction(sql);
    }
    return result;
}

static enum tern_result commit(struct tern_sql *sql)
{
    TERN_TRY(check_room(sql));
    TERN_TRY(run_kept(sql, "COMMIT"));
    maintain_log(sql);
    return TERN_OK;
}

// Returns TERN_SQL_IDLE also after a failure for which SQLite has rolled back.
static enum tern_sql_state state(const struct tern_sql *sql)
{
    return sqlite3_get_autocommit(handle_of(sql)) ? TERN_SQL_IDLE : TERN_SQL_OPEN;
}

static void rollback(struct tern_sql *sql)
{
    if (state(sql) != TERN_SQL_IDLE) {
        give_up_transaction(sql);
    }
    ((struct sqlite *)sql)->pages = 0;
    recover_from_full_disk(sql);
}

// --- The driver

static const struct tern_sql_disk disk = {.backup = backup,
                                          .settle = settle,
                                          .shrink = shrink,
                                          .room = measure_room,
                                          .make_room = make_room};

const struct tern_sql_driver tern_sqlite_driver = {
    .dialect =
        {.types = {[TERN_SQL_ID] = "INTEGER PRIMARY KEY",
                   [TERN_SQL_INTEGER] = "INTEGER NOT NULL",
                   [TERN_SQL_REAL] = "REAL NOT NULL",
                   [TERN_SQL_TEXT] = "TEXT NOT NULL",
                   [TERN_SQL_BLOB] = "BLOB NOT NULL"},
         .options = {"STRICT", "STRICT, WITHOUT ROWID"},
         .trigger = "CREATE TRIGGER # AFTER @ BEGIN ?; END",
         .version = "PRAGMA user_version",
         .set_version = "PRAGMA user_version = %d",
         .bytes = "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size",
         .free_bytes =
             "SELECT freelist_count * page_size FROM pragma_freelist_count, pragma_page_size"},
    .disk = &disk,
    .create = create,
    .open = open_file,
    .close = close_connection,
    .use = use,
    .check = check,
    .run = run,
    .begin = begin,
    .commit = commit,
    .rollback = rollback,
    .state = state,
    .changed_by_others = changed_by_others,
    .prepare = prepare,
    .reset = reset,
    .finish = finish,
    .bind = bind,
    .step = step,
    .column = read_column,
    .column_name = column_name,
    .add = add,
    .load = load,
    .load_end = load_end,
    .stream = stream,
    .piece = read_piece,
    .put_pieces = put_pieces,
};
