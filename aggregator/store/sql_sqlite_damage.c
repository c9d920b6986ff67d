// Whether the file is sound, and where it is not, whether that is the file's or the disk's doing.
#include "store/sql_sqlite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static enum tern_result check_by(struct tern_sql *sql, const char *pragma)
{
    struct tern_query query = tern_query_read(sql, pragma);
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

enum tern_result tern_sqlite_check(struct tern_sql *sql)
{
    return check_by(sql, "PRAGMA integrity_check(1)");
}

enum tern_result tern_sqlite_quick_check(struct tern_sql *sql)
{
    return check_by(sql, "PRAGMA quick_check(1)");
}

#define STEPS_BETWEEN_LOOKS 10000 // of SQLite's machine, some milliseconds

static int is_to_stop(void *stop)
{
    const atomic_bool *flag = stop;
    return atomic_load(flag) ? 1 : 0;
}

void tern_sqlite_stop_when(struct tern_sql *sql, const atomic_bool *stop)
{
    void *flag = NULL;
    memcpy(&flag, &stop, sizeof flag); // SQLite hands it back as it is
    sqlite3_progress_handler(tern_sqlite_handle(sql), STEPS_BETWEEN_LOOKS, is_to_stop, flag);
}

// --- Damage, or a disk that does not answer

#define LOOK_BYTES 65536

// Reads all of a file of the connection by its own handle: to open it once more, and close that, would
// drop SQLite's locks on it.
static bool can_be_read(sqlite3_file *file, uint8_t *buffer)
{
    sqlite3_int64 size = 0;
    if (file == NULL || file->pMethods == NULL) { // there is no log yet
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

static bool all_can_be_read(struct tern_sql *sql)
{
    sqlite3_file *file = NULL;
    sqlite3_file *log = NULL;
    uint8_t *buffer = malloc(LOOK_BYTES);
    sqlite3_file_control(tern_sqlite_handle(sql), "main", SQLITE_FCNTL_FILE_POINTER, &file);
    sqlite3_file_control(tern_sqlite_handle(sql), "main", SQLITE_FCNTL_JOURNAL_POINTER, &log);
    const bool read = buffer != NULL && can_be_read(file, buffer) && can_be_read(log, buffer);
    free(buffer);
    return read;
}

// quick_check would not look into indexes, which may be what SQLite stumbled on.
static bool is_sound(struct tern_sql *sql)
{
    sqlite3_stmt *statement = NULL;
    int code = sqlite3_prepare_v2(tern_sqlite_handle(sql), "PRAGMA integrity_check(1)", -1,
                                  &statement, NULL);
    if (code == SQLITE_OK) {
        code = sqlite3_step(statement);
    }
    const bool sound =
        code == SQLITE_ROW && strcmp((const char *)sqlite3_column_text(statement, 0), "ok") == 0;
    sqlite3_finalize(statement);
    return sound;
}

// SQLite answers SQLITE_CORRUPT to a read that fails by EIO, too. Damage is what is found although every
// byte can be read.
bool tern_sqlite_is_damaged(struct tern_sql *sql)
{
    struct sqlite *lite = (struct sqlite *)sql;
    if (!lite->suspect) {
        return false;
    }
    lite->suspect = false;
    if (is_sound(sql)) {
        tern_sql_fail(
            sql, TERN_ERR_IO,
            "the disk failed to read the database (I/O error), and can read it again; the "
            "file is sound");
    } else if (!all_can_be_read(sql)) {
        lite->suspect = true;
        tern_sql_fail(
            sql, TERN_ERR_IO,
            "the disk cannot read the database (I/O error): nothing is lost, and work goes "
            "on once it can; see the kernel's log (dmesg)");
    } else if (!is_sound(sql)) {
        (void)tern_sql_fail_damaged(sql, "SQLite's check of it fails");
    }
    return sql->damaged;
}
