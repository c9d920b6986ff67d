// Limits the database's use of its disk, so that its log never fills the disk, and recovers on a full disk.
//
// Three rules hold. (1) The log takes at most a share of the free bytes. (2) Writing the log back extends the file by
// less than the size of a reserve file. On a full disk the reserve is removed for this purpose, and for other small
// needs: SQLite's index of the log at a start, a prune. (3) A transaction that extends the file by more commits only
// while the disk has room for its pages twice, in the log and in the file.
//
// The file is never extended in advance: another connection may be writing the log back, and SQLite extends a file
// (SQLITE_FCNTL_SIZE_HINT) by writing bytes to it.
#include "store/sql_file.h"
#include "store/sql_sqlite.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

// Each write-back of the log costs two syncs: under load it must not happen every few commits.
#define LOG_MOST (UINT64_C(64) << 20)
#define LOG_LEAST (UINT64_C(16) * TERN_SQLITE_PAGE_BYTES)
#define LOG_SHARE 8 // of the free bytes

#define RESERVE_MOST (UINT64_C(8) << 20)
#define RESERVE_SHARE 16 // of the disk
// The reserve is made where this many times its size is free.
#define RESERVE_ROOM 5

// SQLite's index of the log and a transaction of a few rows need this much.
#define FEW_BYTES (UINT64_C(128) << 10)

static const char *path_of(const struct tern_sql *sql)
{
    return sqlite3_db_filename(tern_sqlite_handle(sql), "main");
}

// False: the disk reports no size, or there is no file.
static bool read_disk(const struct tern_sql *sql, struct statvfs *disk)
{
    const char *path = path_of(sql);
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
    const char *path = path_of(sql);
    return path != NULL && path[0] != '\0' ? size_of(sqlite3_filename_wal(path)) : 0;
}

static bool reserve_path(const struct tern_sql *sql, char path[PATH_MAX])
{
    const char *database = path_of(sql);
    return database != NULL && database[0] != '\0' &&
           snprintf(path, PATH_MAX, "%s" TERN_SQL_FILE_RESERVE, database) < PATH_MAX;
}

bool tern_sqlite_lacks_room(const struct tern_sql *sql)
{
    struct statvfs disk;
    return read_disk(sql, &disk) && free_of(&disk) < FEW_BYTES;
}

enum tern_result tern_sqlite_room(struct tern_sql *sql, struct tern_db_room *room)
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

void tern_sqlite_make_reserve(const struct tern_sql *sql, bool at_once)
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
    return SQLITE_OK; // the commit is done: another code would report it as failed
}

void tern_sqlite_take_disk(struct tern_sql *sql)
{
    sqlite3_wal_hook(tern_sqlite_handle(sql), note_frames, sql); // replaces SQLite's own hook
}

// Never waits for readers: pages that they still need are written back later.
static int write_back(struct tern_sql *sql, int mode)
{
    sqlite3 *handle = tern_sqlite_handle(sql);
    sqlite3_busy_timeout(handle, 0);
    const int code = sqlite3_wal_checkpoint_v2(handle, "main", mode, NULL, NULL);
    sqlite3_busy_timeout(handle, TERN_SQLITE_BUSY_TIMEOUT_MS);
    return code;
}

static uint64_t log_most(const struct statvfs *disk, uint64_t bytes)
{
    const uint64_t share = (free_of(disk) + bytes) / LOG_SHARE;
    const uint64_t most = share < LOG_MOST ? share : LOG_MOST;
    return most > LOG_LEAST ? most : LOG_LEAST;
}

void tern_sqlite_tend_log(struct tern_sql *sql)
{
    struct sqlite *lite = (struct sqlite *)sql;
    struct statvfs disk;
    if (!read_disk(sql, &disk)) {
        return;
    }
    const uint64_t bytes = log_bytes(sql);
    const uint64_t most = log_most(&disk, bytes);
    const uint64_t grown = lite->grown;
    const bool low = grown > 0 && free_of(&disk) < reserve_of(&disk);
    if (bytes > 2 * most) {
        (void)write_back(sql, SQLITE_CHECKPOINT_TRUNCATE);
    } else if (low || grown >= reserve_of(&disk) / 2 ||
               lite->log_frames * TERN_SQLITE_PAGE_BYTES >= most) {
        (void)write_back(sql, SQLITE_CHECKPOINT_PASSIVE); // the next commit restarts the log
    }
    if (lite->holds) {
        tern_sqlite_make_reserve(sql, false);
    }
}

static enum tern_result count_pages(struct tern_sql *sql, uint64_t *pages)
{
    struct tern_query query = tern_query_read(sql, "PRAGMA page_count");
    *pages = tern_query_row(&query) ? tern_query_u64(&query) : 0;
    return tern_query_end(&query);
}

enum tern_result tern_sqlite_note_pages(struct tern_sql *sql)
{
    return count_pages(sql, &((struct sqlite *)sql)->pages);
}

// Refuses only a transaction that adds pages; earlier commits may wait for room.
enum tern_result tern_sqlite_check_room(struct tern_sql *sql)
{
    struct sqlite *lite = (struct sqlite *)sql;
    char path[PATH_MAX];
    struct statvfs disk;
    uint64_t pages = 0;
    TERN_TRY(count_pages(sql, &pages));
    const uint64_t file = size_of(path_of(sql));
    const uint64_t bytes = pages * TERN_SQLITE_PAGE_BYTES;
    const uint64_t reserve = reserve_path(sql, path) ? size_of(path) : 0;
    lite->grown = bytes > file ? bytes - file : 0;
    if (pages <= lite->pages || lite->grown <= reserve || !read_disk(sql, &disk) ||
        2 * lite->grown <= free_of(&disk) + reserve) {
        return TERN_OK;
    }
    return tern_sqlite_failed(sql, SQLITE_FULL);
}

// --- A full disk

// SQLite makes the index at the first read.
static bool lacks_index(struct tern_sql *sql)
{
    const int code = sqlite3_exec(tern_sqlite_handle(sql), "SELECT 1 FROM sqlite_schema LIMIT 1",
                                  NULL, NULL, NULL);
    return code != SQLITE_OK && tern_sqlite_lacks_room(sql);
}

bool tern_sqlite_wake(struct tern_sql *sql)
{
    return !lacks_index(sql) || (give_up_reserve(sql) && !lacks_index(sql));
}

// The service keeps the reserve for its log, and makes it again once there is room.
void tern_sqlite_find_room(struct tern_sql *sql)
{
    if (!((struct sqlite *)sql)->holds && tern_sqlite_lacks_room(sql)) {
        (void)give_up_reserve(sql);
    }
}

void tern_sqlite_recover(struct tern_sql *sql)
{
    struct sqlite *lite = (struct sqlite *)sql;
    if (!lite->full) {
        return;
    }
    lite->full = false;
    const int code = write_back(sql, SQLITE_CHECKPOINT_TRUNCATE) & 0xff;
    if (code != SQLITE_OK && code != SQLITE_BUSY && code != SQLITE_LOCKED && give_up_reserve(sql)) {
        (void)write_back(sql, SQLITE_CHECKPOINT_TRUNCATE);
        tern_sqlite_make_reserve(sql, true); // uses the bytes that the log had
    }
}

bool tern_sqlite_make_room(struct tern_sql *sql)
{
    struct statvfs disk;
    if (!read_disk(sql, &disk) || free_of(&disk) >= reserve_of(&disk)) {
        return false;
    }
    (void)write_back(sql, SQLITE_CHECKPOINT_TRUNCATE);
    return give_up_reserve(sql);
}
