// Files of every old version open with today's program and keep what they hold; files of a newer
// version are refused unchanged; a step that fails changes nothing.
#include "store/fixture.h"

#include "store/migrations.h"
#include "store/store_sqlite.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char *read_text(const char *path)
{
    FILE *file = fopen(path, "rb");
    if (file == NULL) {
        fail_msg("%s is missing: fixtures/dump.py makes it", path);
        return NULL;
    }
    char *text = calloc(1, 1u << 20);
    assert_non_null(text);
    assert_true(fread(text, 1, (1u << 20) - 1, file) > 0);
    fclose(file);
    return text;
}

static void run_sql(const char *path, const char *sql)
{
    sqlite3 *handle = NULL;
    char *error = NULL;
    assert_int_equal(sqlite3_open(path, &handle), SQLITE_OK);
    if (sqlite3_exec(handle, sql, NULL, NULL, &error) != SQLITE_OK) {
        fail_msg("%s: %s", path, error);
    }
    sqlite3_close(handle);
}

// What the fixtures hold, whatever their version: see fixtures/v1.sql.
static void check_content(struct tern_db *db)
{
    struct tern_db_federation federation;
    struct tern_db_client client;
    struct tern_db_round round;
    struct tern_db_version version;
    struct tern_db_update update;
    float weights[10];
    uint32_t number;
    assert_int_equal(tern_db_federation(db, &federation), TERN_OK);
    assert_string_equal(federation.model_spec, "softmax:4-2");
    assert_int_equal(tern_db_client_get(db, 1, &client), TERN_OK);
    assert_string_equal(client.name, "gateway");
    assert_int_equal(tern_db_round_last(db, &round), TERN_OK);
    assert_int_equal(round.state, TERN_ROUND_COMMITTED);
    assert_true(round.median_loss == 0.5F); // the mean, where no other was kept
    assert_int_equal(tern_db_version_last(db, &version), TERN_OK);
    assert_int_equal(version.version, 1);
    assert_int_equal(tern_db_update_find(db, 1, 1, &update), TERN_OK);
    assert_int_equal(update.body_len, 300);
    assert_int_equal(tern_db_weights_get(db, TERN_WEIGHTS_GLOBAL, &number, weights, 10), TERN_OK);
    assert_true(weights[9] == 4.5F);
    assert_int_equal(tern_db_check(db), TERN_OK);
}

struct seen_keys {
    size_t count;
    uint64_t client;
    uint8_t first;
};

static bool see_key(void *ctx, uint64_t client, const uint8_t key[TERN_SHA256_SIZE])
{
    struct seen_keys *seen = ctx;
    *seen = (struct seen_keys){seen->count + 1, client, key[0]};
    return true;
}

// What came with version 2: nobody has a key or has announced anything before it.
static void check_small_devices(struct tern_db *db, int from)
{
    bool made_later = from < 2;
    struct seen_keys seen = {0, 0, 0};
    struct tern_db_client client;
    assert_int_equal(tern_db_psk_each(db, see_key, &seen), TERN_OK);
    assert_int_equal(seen.count, made_later ? 0 : 1);
    assert_int_equal(seen.client, made_later ? 0 : 1);
    assert_int_equal(seen.first, made_later ? 0 : 5);
    assert_int_equal(tern_db_client_get(db, 1, &client), TERN_OK);
    assert_int_equal(client.has_psk, !made_later);
    assert_int_equal(client.codecs, made_later ? 0 : 5);
    assert_int_equal(client.coders, made_later ? 0 : 32);
    assert_int_equal(client.downloads_max, made_later ? 0 : 4);
}

// What came with version 4: the directive of a client's last task was for all rounds before it.
static void check_missed_rounds(struct tern_db *db)
{
    struct tern_db_ledger ledger;
    assert_int_equal(tern_db_ledger_get(db, 1, &ledger), TERN_OK);
    assert_int_equal(ledger.missed_from, 1);
}

static void every_old_version_opens(void **state)
{
    struct fixture *f = *state;
    for (int version = 1; version <= tern_db_migration_count; version++) {
        char name[512];
        char why[256] = "";
        snprintf(name, sizeof name, FIXTURES "/v%d.sql", version);
        char *sql = read_text(name);
        snprintf(name, sizeof name, "v%d.db", version);
        const char *path = fixture_file(f, name);
        run_sql(path, sql);
        free(sql);
        struct tern_db *db = NULL;
        if (tern_db_open(path, &db, why) != TERN_OK) {
            fail_msg("version %d: %s", version, why);
        }
        check_content(db);
        check_small_devices(db, version);
        check_missed_rounds(db);
        tern_db_close(db);
    }
}

static void missed_rounds_begin_with_the_last_task(void **state)
{
    struct fixture *f = *state;
    char path[512];
    char why[256] = "";
    char *sql = read_text(FIXTURES "/v3.sql");
    snprintf(path, sizeof path, "%s", fixture_file(f, "v3.db"));
    run_sql(path, sql);
    free(sql);
    run_sql(path, "CREATE TEMP TABLE more AS SELECT * FROM assignments;"
                  "UPDATE more SET round = 6; INSERT INTO assignments SELECT * FROM more;"
                  "UPDATE more SET round = 5; INSERT INTO assignments SELECT * FROM more;"
                  "UPDATE more SET round = 7, state = 0, local_steps = 0;" // invited alone
                  "INSERT INTO assignments SELECT * FROM more;");
    struct tern_db *db = NULL;
    struct tern_db_ledger ledger;
    assert_int_equal(tern_db_open(path, &db, why), TERN_OK);
    assert_int_equal(tern_db_ledger_get(db, 1, &ledger), TERN_OK);
    assert_int_equal(ledger.missed_from, 6);
    assert_int_equal(ledger.round, 1);
    tern_db_close(db);
}

// With old file and new file grown to the same version, the schemas must be the same text.
static char *schema_of(const char *path)
{
    sqlite3 *handle = NULL;
    sqlite3_stmt *statement = NULL;
    char *all = NULL;
    assert_int_equal(sqlite3_open(path, &handle), SQLITE_OK);
    const char *sql = "SELECT group_concat(sql, char(10)) FROM"
                      " (SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY name)";
    assert_int_equal(sqlite3_prepare_v2(handle, sql, -1, &statement, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(statement), SQLITE_ROW);
    all = strdup((const char *)sqlite3_column_text(statement, 0));
    sqlite3_finalize(statement);
    sqlite3_close(handle);
    return all;
}

static void old_and_new_files_end_with_one_schema(void **state)
{
    struct fixture *f = *state;
    char why[256];
    char *sql = read_text(FIXTURES "/v1.sql");
    char path[512];
    snprintf(path, sizeof path, "%s", fixture_file(f, "v1.db"));
    run_sql(path, sql);
    free(sql);
    struct tern_db *db = NULL;
    assert_int_equal(tern_db_open(path, &db, why), TERN_OK);
    tern_db_close(db);
    char *old = schema_of(path);
    char *new = schema_of(f->path);
    assert_string_equal(old, new);
    free(old);
    free(new);
}

// What downloads take is added up at each start: through the bodies' pages that is seconds for each
// gigabyte.
static void sizes_are_added_up_from_an_index(void **state)
{
    struct fixture *f = *state;
    sqlite3 *handle = NULL;
    sqlite3_stmt *statement = NULL;
    const char *sql = "EXPLAIN QUERY PLAN SELECT sum(size) FROM downloads";
    assert_int_equal(sqlite3_open(f->path, &handle), SQLITE_OK);
    assert_int_equal(sqlite3_prepare_v2(handle, sql, -1, &statement, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(statement), SQLITE_ROW);
    const char *plan = (const char *)sqlite3_column_text(statement, 3);
    assert_non_null(strstr(plan, "COVERING INDEX downloads_by_end"));
    sqlite3_finalize(statement);
    sqlite3_close(handle);
}

static void a_newer_file_is_refused(void **state)
{
    struct fixture *f = *state;
    char why[256] = "";
    tern_db_close(f->db);
    f->db = NULL;
    run_sql(f->path, "PRAGMA user_version = 9999");
    struct tern_db *db = NULL;
    assert_int_equal(tern_db_open(f->path, &db, why), TERN_ERR_UNKNOWN);
    assert_non_null(strstr(why, "install a newer Tern"));
    char back[64];
    snprintf(back, sizeof back, "PRAGMA user_version = %d", tern_db_migration_count);
    run_sql(f->path, back);
    fixture_reopen(f);
}

#define MAX_STEPS 64

// The list as it will look one day: two steps more.
static void steps_run_in_order_and_once(void **state)
{
    struct fixture *f = *state;
    const char *steps[MAX_STEPS];
    assert_true(tern_db_migration_count + 2 <= MAX_STEPS);
    memcpy(steps, tern_db_migrations, (size_t)tern_db_migration_count * sizeof steps[0]);
    steps[tern_db_migration_count] = "ALTER TABLE clients ADD COLUMN site TEXT";
    steps[tern_db_migration_count + 1] = "UPDATE clients SET site = 'north'";
    fixture_client(f, 1);
    assert_ok(f, tern_db_migrate(f->db, steps, tern_db_migration_count + 2));
    assert_ok(f, tern_db_migrate(f->db, steps, tern_db_migration_count + 2));
    struct tern_db_client client;
    assert_ok(f, tern_db_client_get(f->db, 1, &client));
    assert_int_equal(tern_db_migrate(f->db, steps, tern_db_migration_count), TERN_ERR_UNKNOWN);
}

static void a_failing_step_changes_nothing(void **state)
{
    struct fixture *f = *state;
    const char *steps[MAX_STEPS];
    assert_true(tern_db_migration_count + 2 <= MAX_STEPS);
    memcpy(steps, tern_db_migrations, (size_t)tern_db_migration_count * sizeof steps[0]);
    steps[tern_db_migration_count] = "CREATE TABLE extra (x INTEGER) STRICT";
    steps[tern_db_migration_count + 1] = "UPDATE no_such_table SET x = 1";
    char *before = schema_of(f->path);
    assert_int_equal(tern_db_migrate(f->db, steps, tern_db_migration_count + 2), TERN_ERR_IO);
    fixture_reopen(f);
    char *after = schema_of(f->path);
    assert_string_equal(before, after);
    free(before);
    free(after);
}

// Values that the schema of a hand-edited file could hold but the structs cannot.
static void values_out_of_range_are_damage(void **state)
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
    };
    for (size_t i = 0; i < sizeof edits / sizeof edits[0]; i++) {
        run_sql(f->path, edits[i]);
        assert_int_equal(tern_db_client_get(f->db, 1, &client), TERN_ERR_IO);
        assert_non_null(strstr(tern_db_error(f->db), "out of range"));
    }
    run_sql(f->path, "UPDATE clients SET last_seen_ms = 0");
    assert_ok(f, tern_db_client_get(f->db, 1, &client));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(every_old_version_opens),
        TEST(old_and_new_files_end_with_one_schema),
        TEST(missed_rounds_begin_with_the_last_task),
        TEST(sizes_are_added_up_from_an_index),
        TEST(a_newer_file_is_refused),
        TEST(steps_run_in_order_and_once),
        TEST(a_failing_step_changes_nothing),
        TEST(values_out_of_range_are_damage),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
