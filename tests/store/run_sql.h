// Edits a database underneath the store, for tests of what is damaged or refused. After cmocka.h.
#ifndef TERN_TESTS_STORE_RUN_SQL_H
#define TERN_TESTS_STORE_RUN_SQL_H

#include <sqlite3.h>

// Runs statements on the database of that path, which others may have open.
static inline void run_sql(const char *path, const char *sql)
{
    sqlite3 *handle = NULL;
    char *error = NULL;
    assert_int_equal(sqlite3_open(path, &handle), SQLITE_OK);
    sqlite3_busy_timeout(handle, 10000);
    if (sqlite3_exec(handle, sql, NULL, NULL, &error) != SQLITE_OK) {
        fail_msg("%s: %s", path, error);
    }
    sqlite3_close(handle);
}

#endif
