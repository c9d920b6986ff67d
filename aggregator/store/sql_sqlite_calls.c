// What a call of SQLite's came to.
#include "store/sql_sqlite.h"

#include <stdio.h>

// A broken constraint undoes its own statement only; the transaction may go on.
static enum tern_result broken_constraint(struct tern_sql *sql, int code)
{
    enum tern_result result = TERN_ERR_ARGUMENT;
    if (code == SQLITE_CONSTRAINT_UNIQUE || code == SQLITE_CONSTRAINT_PRIMARYKEY ||
        code == SQLITE_CONSTRAINT_ROWID) {
        result = TERN_ERR_CONFLICT;
    } else if (code == SQLITE_CONSTRAINT_FOREIGNKEY) {
        result = TERN_ERR_NOT_FOUND;
    }
    return tern_sql_fail(sql, result, sqlite3_errmsg(tern_sqlite_handle(sql)));
}

enum tern_result tern_sqlite_failed(struct tern_sql *sql, int code)
{
    const char *sentence = sqlite3_errmsg(tern_sqlite_handle(sql));
    if (code == SQLITE_IOERR_SHMSIZE && tern_sqlite_lacks_room(sql)) {
        ((struct sqlite *)sql)->full = true;
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
        ((struct sqlite *)sql)->suspect = true;
        snprintf(sql->error, sizeof sql->error,
                 "the disk did not give the database as it was stored, or the file is damaged: %s",
                 sentence);
        return TERN_ERR_IO;
    case SQLITE_CONSTRAINT:
        return broken_constraint(sql, code);
    case SQLITE_FULL:
        ((struct sqlite *)sql)->full = true;
        return tern_sql_fail(sql, TERN_ERR_IO,
                             "the disk is full; nothing of this was stored. Delete files of other "
                             "programs there, or run `tern-aggregator prune --keep 10`");
    case SQLITE_NOMEM:
        return tern_sql_fail(sql, TERN_ERR_NO_MEMORY, "memory could not be had");
    default:
        snprintf(sql->error, sizeof sql->error, "SQLite: %s (%d)", sentence, code);
        return TERN_ERR_IO;
    }
}

enum tern_result tern_sqlite_run(struct tern_sql *sql, const char *text)
{
    int code = sqlite3_exec(tern_sqlite_handle(sql), text, NULL, NULL, NULL);
    return code == SQLITE_OK ? TERN_OK : tern_sqlite_failed(sql, code);
}

enum tern_result tern_sqlite_number(struct tern_sql *sql, const char *text, const char *parameter,
                                    int64_t *number)
{
    sqlite3_stmt *statement = NULL;
    int code = sqlite3_prepare_v2(tern_sqlite_handle(sql), text, -1, &statement, NULL);
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
    return code == SQLITE_ROW || code == SQLITE_DONE ? TERN_OK : tern_sqlite_failed(sql, code);
}
