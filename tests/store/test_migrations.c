// A database of an older version is brought up to date, one of a newer version is refused
// unchanged, a step that fails changes nothing; and what the schema lets through that the program
// cannot hold is damage.
#include "store/fixture.h"
#include "store/run_sql.h"

#include "store/tables.h"
#include "tests/cases.h"
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// The first column of the first row that a statement returns, malloc'ed.
static char *ask(const char *path, const char *sql)
{
    sqlite3 *handle = NULL;
    sqlite3_stmt *statement = NULL;
    assert_int_equal(sqlite3_open(path, &handle), SQLITE_OK);
    assert_int_equal(sqlite3_prepare_v2(handle, sql, -1, &statement, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(statement), SQLITE_ROW);
    char *answer = strdup((const char *)sqlite3_column_text(statement, 0));
    sqlite3_finalize(statement);
    sqlite3_close(handle);
    return answer;
}

static char *schema_of(const char *path)
{
    return ask(path, "SELECT group_concat(sql, char(10)) FROM"
                     " (SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY name)");
}

static void expect(const char *path, const char *sql, const char *answer)
{
    char *got = ask(path, sql);
    assert_string_equal(got, answer);
    free(got);
}

#define TEST(name) CASE_WITH(name, fixture_setup, fixture_teardown)

// The steps as they will look one day: two versions more.
TEST(steps_run_in_order_and_once)
{
    struct fixture *f = *state;
    const char *const two[] = {"ALTER TABLE clients ADD COLUMN site TEXT NOT NULL DEFAULT 'north'",
                               "UPDATE clients SET site = site || 'ern' WHERE id = 1", NULL};
    const char *const one[] = {two[0], NULL};
    fixture_client(f, 1);
    expect(f->path, "PRAGMA user_version", "1");
    assert_ok(f, tern_schema_migrate(f->db->sql, one));
    expect(f->path, "PRAGMA user_version", "2");
    expect(f->path, "SELECT site FROM clients WHERE id = 1", "north");
    assert_ok(f, tern_schema_migrate(f->db->sql, two));
    assert_ok(f, tern_schema_migrate(f->db->sql, two));
    expect(f->path, "PRAGMA user_version", "3");
    expect(f->path, "SELECT site FROM clients WHERE id = 1", "northern");
    struct tern_db_client client;
    assert_ok(f, tern_db_client_get(f->db, 1, &client));
    assert_string_equal(client.name, "a client");
    assert_int_equal(tern_schema_migrate(f->db->sql, one), TERN_ERR_UNKNOWN);
}

// Who only looks changes nothing under a service that may run; who serves does.
TEST(an_older_one_is_left_to_the_service)
{
    struct fixture *f = *state;
    const char *const one[] = {"ALTER TABLE clients ADD COLUMN site TEXT NOT NULL DEFAULT ''",
                               NULL};
    assert_ok(f, tern_schema_current(f->db->sql, tern_schema_steps));
    assert_int_equal(tern_schema_current(f->db->sql, one), TERN_ERR_STATE);
    assert_non_null(strstr(tern_db_error(f->db), "has version 1, this program needs 2"));
    assert_false(tern_db_is_older(f->db));
    assert_ok(f, tern_db_upgrade(f->db));
    expect(f->path, "PRAGMA user_version", "1");
    assert_ok(f, tern_schema_migrate(f->db->sql, one));
    assert_ok(f, tern_schema_current(f->db->sql, one));
    assert_int_equal(tern_schema_current(f->db->sql, tern_schema_steps), TERN_ERR_UNKNOWN);
}

TEST(a_failing_step_changes_nothing)
{
    struct fixture *f = *state;
    const char *const steps[] = {"CREATE TABLE extra (x INTEGER) STRICT",
                                 "UPDATE no_such_table SET x = 1", NULL};
    char *before = schema_of(f->path);
    assert_int_equal(tern_schema_migrate(f->db->sql, steps), TERN_ERR_IO);
    fixture_reopen(f);
    char *after = schema_of(f->path);
    assert_string_equal(before, after);
    expect(f->path, "PRAGMA user_version", "1");
    free(before);
    free(after);
}

TEST(a_newer_file_is_refused)
{
    struct fixture *f = *state;
    char why[256] = "";
    tern_db_close(f->db);
    f->db = NULL;
    run_sql(f->path, "PRAGMA user_version = 9999");
    struct tern_db *db = NULL;
    assert_int_equal(tern_db_open(f->path, 0, &db, why), TERN_ERR_UNKNOWN);
    assert_non_null(strstr(why, "install a newer Tern"));
    run_sql(f->path, "PRAGMA user_version = 1");
    fixture_reopen(f);
}

// A row that waits for the commit has a copy of one BLOB only (tables.c). A second one would be read after its caller
// has freed it.
TEST(no_table_has_two_blobs)
{
    (void)state;
    for (size_t i = 0; i < TERN_SCHEMA_TABLES; i++) {
        const struct tern_table *table = tern_schema_tables[i];
        unsigned blobs = 0;
        for (uint32_t j = 0; j < table->count; j++) {
            blobs += table->columns[j].kind == TERN_COLUMN_BLOB;
        }
        if (blobs > 1) {
            fail_msg("%s has %u columns of kind BLOB", table->name, blobs);
        }
    }
}

// Values that the schema of a hand-edited file could hold but the structs cannot.
TEST(values_out_of_range_are_damage)
{
    struct fixture *f = *state;
    struct tern_db_client client;
    fixture_client(f, 1);
    const char *edits[] = {
        "UPDATE clients SET version = 4294967296",
        "UPDATE clients SET version = -1",
        "UPDATE clients SET version = 0, steps_per_second = 9e999",
        "UPDATE clients SET steps_per_second = 0, name = printf('%.100c', 'x')",
        "UPDATE clients SET name = 'ok', last_seen_ms = -5",
        "PRAGMA ignore_check_constraints = ON; UPDATE clients SET last_seen_ms = 0, evaluator = 2",
        "PRAGMA ignore_check_constraints = ON; UPDATE clients SET evaluator = 0, replica = x'00'",
    };
    for (size_t i = 0; i < sizeof edits / sizeof edits[0]; i++) {
        run_sql(f->path, edits[i]);
        assert_int_equal(tern_db_client_get(f->db, 1, &client), TERN_ERR_IO);
        assert_non_null(strstr(tern_db_error(f->db), "out of range"));
    }
    run_sql(f->path, "UPDATE clients SET replica = zeroblob(32)");
    assert_ok(f, tern_db_client_get(f->db, 1, &client));
    fixture_round(f, 1);
    struct tern_db_round round;
    run_sql(f->path, "PRAGMA ignore_check_constraints = ON; UPDATE rounds SET state = 3");
    assert_int_equal(tern_db_round_get(f->db, 1, &round), TERN_ERR_IO);
    assert_true(tern_db_damaged(f->db));
}
