// Edits a database underneath the store, for tests of what is damaged or refused. After cmocka.h.
#ifndef TERN_TESTS_STORE_RUN_SQL_H
#define TERN_TESTS_STORE_RUN_SQL_H

#include "tests/asserts.h"
#include "tests/postgres/place.h"
#include <sqlite3.h>
#include <stdio.h>
#ifdef TERN_POSTGRESQL
#include <libpq-fe.h>

// Counted as what others wrote, so that a service looks.
static inline void run_sql_in_postgres(const char *path, const char *sql)
{
    char text[1024];
    PGconn *connection = PQconnectdb(path);
    snprintf(text, sizeof text,
             "BEGIN; %s; UPDATE schema_version SET commits = commits + 1; COMMIT", sql);
    PGresult *result = PQexec(connection, text);
    if (PQresultStatus(result) != PGRES_COMMAND_OK) {
        fail_msg("%s: %s", sql, PQerrorMessage(connection));
    }
    PQclear(result);
    PQfinish(connection);
}
#endif

// Runs statements on the database of that path, which others may have open.
static inline void run_sql(const char *path, const char *sql)
{
    sqlite3 *handle = NULL;
    char *error = NULL;
#ifdef TERN_POSTGRESQL
    if (test_store_is_postgres()) {
        run_sql_in_postgres(path, sql);
        return;
    }
#endif
    assert_int_equal(sqlite3_open(path, &handle), SQLITE_OK);
    sqlite3_busy_timeout(handle, 10000);
    if (sqlite3_exec(handle, sql, NULL, NULL, &error) != SQLITE_OK) {
        fail_msg("%s: %s", path, error);
    }
    sqlite3_close(handle);
}

// Makes writes fail from here on: event is "BEFORE INSERT ON downloads", when "" or "WHEN (NEW.x = 7)".
static inline void refuse_writes(const char *path, const char *event, const char *when)
{
    char text[512];
    if (test_store_is_postgres()) {
        snprintf(text, sizeof text,
                 "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS"
                 " $$BEGIN RAISE EXCEPTION 'no'; END$$;"
                 "CREATE TRIGGER refused %s FOR EACH ROW %s EXECUTE FUNCTION refuse()",
                 event, when);
    } else {
        snprintf(text, sizeof text,
                 "CREATE TRIGGER refused %s %s BEGIN SELECT RAISE(ABORT, 'no'); END", event, when);
    }
    run_sql(path, text);
}

static inline void take_writes(const char *path)
{
    run_sql(path,
            test_store_is_postgres() ? "DROP FUNCTION refuse CASCADE" : "DROP TRIGGER refused");
}

#endif
