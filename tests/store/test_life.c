// Making, opening, transactions, backup; foreign and damaged files.
#include "store/fixture.h"
#include "store/run_sql.h"
#include "tests/postgres/place.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

// SQLite's calls land here, because a program's own symbols come before those of libc.
static int syncs;
int fdatasync(int fd)
{
    syncs++;
    return (int)syscall(SYS_fdatasync, fd);
}
int fsync(int fd)
{
    syncs++;
    return (int)syscall(SYS_fsync, fd);
}

static void a_federation_keeps_all_64_bits_of_its_seed(void **state)
{
    struct fixture *f = *state;
    struct tern_db_federation made = fixture_federation();
    struct tern_db_federation got;
    assert_ok(f, tern_db_federation(f->db, &got));
    assert_string_equal(got.model_spec, made.model_spec);
    assert_true(got.seed == made.seed);
    assert_memory_equal(got.model_hash, made.model_hash, sizeof got.model_hash);
    assert_int_equal(got.created_ms, made.created_ms);
}

static void a_model_of_its_own_is_kept_whole(void **state)
{
    struct fixture *f = *state;
    static const uint8_t manifest[] = {'T', 'M', 'F', '1', 1, 0, 1, 'w', 1, 2};
    const float weights[] = {0.5F, -2.0F};
    float got[2];
    char why[256];
    struct tern_db *db = NULL;
    struct tern_db_federation read;
    struct tern_db_federation made = fixture_federation();
    assert_ok(f, tern_db_federation(f->db, &read));
    assert_true(tern_db_is_seeded(&read) && read.manifest_len == 0 && read.metadata == NULL);
    made.manifest = manifest;
    made.manifest_len = sizeof manifest;
    made.metadata = "{\"author\":\"t\u00fc\"}";
    const char *path = fixture_place(f, "own.db");
    assert_int_equal(tern_db_create(path, &made, weights, 2, NULL, why), TERN_OK);
    assert_int_equal(tern_db_open(path, 0, &db, why), TERN_OK);
    for (int i = 0; i < 2; i++) { // the second time from memory
        assert_int_equal(tern_db_federation(db, &read), TERN_OK);
        assert_false(tern_db_is_seeded(&read));
        assert_int_equal(read.manifest_len, sizeof manifest);
        assert_memory_equal(read.manifest, manifest, sizeof manifest);
        assert_string_equal(read.metadata, made.metadata);
    }
    assert_int_equal(tern_db_weights_get(db, TERN_WEIGHTS_INITIAL, 0, got, 2), TERN_OK);
    assert_memory_equal(got, weights, sizeof got);
    tern_db_close(db);
}

static void kept_tensors_are_kept(void **state)
{
    struct fixture *f = *state;
    static const uint8_t kept[] = "any bytes, with \0 among them";
    char why[256];
    struct tern_db *db = NULL;
    struct tern_db_federation read;
    struct tern_db_federation made = fixture_federation();
    uint8_t *got = NULL;
    size_t len = 1;
    assert_int_equal(tern_db_kept_get(f->db, &got, &len), TERN_ERR_NOT_FOUND);
    assert_true(got == NULL && len == 0);
    made.kept = kept;
    made.kept_len = sizeof kept;
    const char *path = fixture_place(f, "kept.db");
    assert_int_equal(tern_db_create(path, &made, NULL, 0, NULL, why), TERN_OK);
    assert_int_equal(tern_db_open(path, 0, &db, why), TERN_OK);
    assert_int_equal(tern_db_federation(db, &read), TERN_OK);
    assert_null(read.kept);
    assert_int_equal(tern_db_kept_get(db, &got, &len), TERN_OK);
    assert_int_equal(len, sizeof kept);
    assert_memory_equal(got, kept, sizeof kept);
    free(got);
    tern_db_close(db);
}

static void a_damaged_manifest_is_told(void **state)
{
    struct fixture *f = *state;
    static const uint8_t manifest[] = {'T', 'M', 'F', '1', 1, 0, 1, 'w', 1, 2};
    char why[256];
    struct tern_db *db = NULL;
    struct tern_db_federation read;
    struct tern_db_federation made = fixture_federation();
    made.manifest = manifest;
    made.manifest_len = sizeof manifest;
    const char *path = fixture_file(f, "own.db");
    assert_int_equal(tern_db_create(path, &made, NULL, 0, NULL, why), TERN_OK);
    run_sql(path, "UPDATE files SET body = x'544d4631010001770103'");
    assert_int_equal(tern_db_open(path, 0, &db, why), TERN_OK);
    assert_int_equal(tern_db_federation(db, &read), TERN_ERR_IO);
    assert_true(tern_db_damaged(db));
    tern_db_close(db);
}

static void the_file_is_for_its_owner_only(void **state)
{
    struct fixture *f = *state;
    struct stat status;
    assert_int_equal(stat(f->path, &status), 0);
    assert_int_equal(status.st_mode & 0777, 0600);
}

static void creating_never_overwrites(void **state)
{
    struct fixture *f = *state;
    struct tern_db_federation other = {.model_spec = "mlp:1-1-1"};
    char why[256] = "";
    fixture_client(f, 1);
    assert_int_equal(tern_db_create(f->path, &other, NULL, 0, NULL, why), TERN_ERR_CONFLICT);
    assert_non_null(strstr(why, "already"));
    struct tern_db_client client;
    assert_ok(f, tern_db_client_get(f->db, 1, &client));
}

static void creating_in_a_missing_folder_is_told(void **state)
{
    struct fixture *f = *state;
    struct tern_db_federation federation = fixture_federation();
    char why[256] = "";
    assert_int_equal(
        tern_db_create(fixture_file(f, "nowhere/tern.db"), &federation, NULL, 0, NULL, why),
        TERN_ERR_IO);
    assert_non_null(strstr(why, "No such file"));
}

static void opening_a_missing_file_says_what_to_do(void **state)
{
    struct fixture *f = *state;
    char why[256] = "";
    struct tern_db *db = NULL;
    assert_int_equal(tern_db_open(fixture_place(f, "none.db"), 0, &db, why), TERN_ERR_NOT_FOUND);
    assert_non_null(strstr(why, "tern-aggregator init"));
    assert_int_equal(access(fixture_file(f, "none.db"), F_OK), -1);
}

// --- Transactions

static void a_rollback_leaves_nothing(void **state)
{
    struct fixture *f = *state;
    struct tern_db_client client = {.name = "x"};
    assert_ok(f, tern_db_begin(f->db));
    assert_ok(f, tern_db_client_add(f->db, &client));
    tern_db_rollback(f->db);
    assert_int_equal(tern_db_client_get(f->db, 1, &client), TERN_ERR_NOT_FOUND);
}

static void closing_rolls_back(void **state)
{
    struct fixture *f = *state;
    struct tern_db_client client = {.name = "x"};
    assert_ok(f, tern_db_begin(f->db));
    assert_ok(f, tern_db_client_add(f->db, &client));
    fixture_reopen(f);
    assert_int_equal(tern_db_client_get(f->db, 1, &client), TERN_ERR_NOT_FOUND);
}

static void misplaced_calls_are_refused(void **state)
{
    struct fixture *f = *state;
    struct tern_db_client client = {.name = "x"};
    char why[256];
    assert_int_equal(tern_db_client_add(f->db, &client), TERN_ERR_STATE);
    assert_int_equal(tern_db_commit(f->db), TERN_ERR_STATE);
    assert_ok(f, tern_db_begin(f->db));
    assert_int_equal(tern_db_begin(f->db), TERN_ERR_STATE);
    assert_int_equal(tern_db_backup(f->db, fixture_file(f, "copy.db"), why), TERN_ERR_STATE);
    assert_ok(f, tern_db_client_add(f->db, &client));
    assert_ok(f, tern_db_commit(f->db));
}

static void every_commit_is_synced(void **state)
{
    struct fixture *f = *state;
    for (uint8_t i = 1; i <= 20; i++) {
        int before = syncs;
        fixture_client(f, i);
        assert_true(syncs > before);
    }
}

static void another_connection_is_noticed_and_waited_for(void **state)
{
    struct fixture *f = *state;
    char why[256];
    struct tern_db *other = NULL;
    assert_int_equal(tern_db_open(f->path, 0, &other, why), TERN_OK);
    assert_false(tern_db_changed_by_others(f->db));
    fixture_client(f, 1);
    assert_false(tern_db_changed_by_others(f->db)); // its own writes do not count
    assert_int_equal(tern_db_begin(other), TERN_OK);
    assert_int_equal(tern_db_client_revoke(other, 1), TERN_OK);
    assert_int_equal(tern_db_begin(f->db), TERN_ERR_BUSY);
    assert_non_null(strstr(tern_db_error(f->db), "another process"));
    assert_false(tern_db_changed_by_others(f->db));
    assert_int_equal(tern_db_commit(other), TERN_OK);
    assert_true(tern_db_changed_by_others(f->db));
    assert_false(tern_db_changed_by_others(f->db));
    assert_ok(f, tern_db_begin(f->db));
    tern_db_rollback(f->db);
    tern_db_close(other);
}

static void a_reader_sees_one_moment(void **state)
{
    struct fixture *f = *state;
    char why[256];
    struct tern_db *reader = NULL;
    struct tern_db_client client = {.name = "x"};
    fixture_client(f, 1);
    assert_int_equal(tern_db_open(f->path, 0, &reader, why), TERN_OK);
    assert_int_equal(tern_db_begin_reading(reader), TERN_OK);
    assert_int_equal(tern_db_begin_reading(reader), TERN_ERR_STATE);
    assert_int_equal(tern_db_begin(reader), TERN_ERR_STATE);
    assert_int_equal(tern_db_client_get(reader, 1, &client), TERN_OK);
    fixture_client(f, 2); // not held up by the reader
    assert_int_equal(tern_db_client_get(reader, 2, &client), TERN_ERR_NOT_FOUND);
    assert_int_equal(tern_db_client_revoke(reader, 1), TERN_ERR_STATE);
    tern_db_rollback(reader);
    assert_int_equal(tern_db_client_get(reader, 2, &client), TERN_OK);
    tern_db_close(reader);
}

// --- Backup

static void a_backup_is_a_database(void **state)
{
    struct fixture *f = *state;
    char why[256] = "";
    fixture_client(f, 1);
    const char *copy = fixture_file(f, "copy.db");
    assert_int_equal(tern_db_backup(f->db, copy, why), TERN_OK);
    fixture_client(f, 2);
    assert_int_equal(tern_db_backup(f->db, copy, why), TERN_ERR_CONFLICT);
    struct stat status;
    assert_int_equal(stat(copy, &status), 0);
    assert_int_equal(status.st_mode & 0777, 0600);

    struct tern_db *db = NULL;
    assert_int_equal(tern_db_open(copy, 0, &db, why), TERN_OK);
    struct tern_db_client client;
    assert_int_equal(tern_db_client_get(db, 1, &client), TERN_OK);
    assert_int_equal(tern_db_client_get(db, 2, &client), TERN_ERR_NOT_FOUND);
    assert_int_equal(tern_db_check(db), TERN_OK);
    tern_db_close(db);
    assert_int_equal(tern_db_backup(f->db, fixture_file(f, "none/copy.db"), why), TERN_ERR_IO);
}

// --- Foreign and damaged files

static size_t read_whole(const char *path, uint8_t *dst, size_t size)
{
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    size_t len = fread(dst, 1, size, file);
    fclose(file);
    return len;
}

static void write_whole(const char *path, const uint8_t *src, size_t len)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(src, 1, len, file), len);
    fclose(file);
}

static void refused_unchanged(struct fixture *f, const uint8_t *content, size_t len,
                              const char *says)
{
    static uint8_t after[1u << 20];
    char path[512];
    char why[256] = "";
    struct tern_db *db = NULL;
    snprintf(path, sizeof path, "%s", fixture_file(f, "foreign.db"));
    write_whole(path, content, len);
    assert_int_equal(tern_db_open(path, 0, &db, why), TERN_ERR_IO);
    assert_null(db);
    if (strstr(why, says) == NULL) {
        fail_msg("\"%s\" does not say \"%s\"", why, says);
    }
    assert_int_equal(read_whole(path, after, sizeof after), len);
    assert_memory_equal(after, content, len);
    assert_int_equal(access(fixture_file(f, "foreign.db-wal"), F_OK), -1);
}

static void foreign_files_are_refused_and_left_alone(void **state)
{
    struct fixture *f = *state;
    static uint8_t bytes[1u << 20];
    tern_db_close(f->db);
    f->db = NULL;
    refused_unchanged(f, bytes, 0, "is empty");
    refused_unchanged(f, (const uint8_t *)"model,accuracy\n", 15, "not a SQLite database");
    memset(bytes, 0, 4096);
    refused_unchanged(f, bytes, 4096, "not a SQLite database");
    size_t len = read_whole(f->path, bytes, sizeof bytes);
    refused_unchanged(f, bytes, 50, "not a SQLite database"); // cut inside the header
    refused_unchanged(f, bytes, 100, "damaged");              // cut right after it
    refused_unchanged(f, bytes, len / 2, "damaged");
    bytes[68] ^= 1; // application_id
    refused_unchanged(f, bytes, len, "another program");
    fixture_reopen(f);
}

static void a_folder_is_no_database(void **state)
{
    struct fixture *f = *state;
    char why[256] = "";
    struct tern_db *db = NULL;
    assert_int_equal(tern_db_open(f->folder, 0, &db, why), TERN_ERR_IO);
    assert_non_null(strstr(why, "not a file"));
}

static enum tern_result see_update(void *ctx, const struct tern_db_update *update)
{
    uint8_t digest[TERN_SHA256_SIZE];
    (void)ctx;
    if (update->body == NULL) { // damage may look like retention, never like other bytes
        return TERN_OK;
    }
    tern_sha256(update->body, update->body_len, digest);
    assert_memory_equal(digest, update->sha256, sizeof digest); // never wrong bytes
    return TERN_OK;
}

static bool is_named(enum tern_result result)
{
    return result == TERN_OK || result == TERN_ERR_IO || result == TERN_ERR_NOT_FOUND ||
           result == TERN_ERR_CORRUPT || result == TERN_ERR_UNKNOWN;
}

static void read_everything(struct tern_db *db)
{
    static float weights[4000];
    struct tern_db_counts counts;
    struct tern_db_client client;
    struct tern_db_rows *rows = tern_db_clients(db);
    while (tern_db_next(rows, &client)) {
        assert_non_null(memchr(client.name, '\0', sizeof client.name));
    }
    assert_true(is_named(tern_db_end(rows)));
    struct tern_db_meter meter;
    rows = tern_db_meter_sums(db, TERN_METER_BY_PURPOSE);
    while (tern_db_next(rows, &meter)) {
        assert_in_range(meter.purpose, 0, TERN_PURPOSE_COUNT - 1);
    }
    assert_true(is_named(tern_db_end(rows)));
    assert_true(is_named(tern_db_update_each(db, 1, see_update, NULL)));
    assert_true(is_named(tern_db_weights_get(db, TERN_WEIGHTS_GLOBAL, 1, weights, 4000)));
    assert_true(is_named(tern_db_counts(db, 0, &counts)));
    assert_true(is_named(tern_db_check(db)));
}

static void fill(struct fixture *f)
{
    static float weights[4000];
    static uint8_t body[20000];
    fixture_client(f, 1);
    fixture_round(f, 1);
    struct tern_db_update update = fixture_update(1, 1, body, sizeof body);
    struct tern_db_meter meter = {.client = 1, .round = 1};
    assert_ok(f, tern_db_begin(f->db));
    assert_ok(f, tern_db_update_put(f->db, &update));
    assert_ok(f, tern_db_weights_put(f->db, TERN_WEIGHTS_GLOBAL, 1, weights, 4000));
    assert_ok(f, tern_db_meter_add(f->db, &meter));
    assert_ok(f, tern_db_commit(f->db));
}

static unsigned threads(void)
{
    unsigned count = 0;
    DIR *tasks = opendir("/proc/self/task");
    assert_non_null(tasks);
    for (const struct dirent *entry; (entry = readdir(tasks)) != NULL;) {
        count += entry->d_name[0] != '.';
    }
    closedir(tasks);
    return count;
}

#define LOG_PARTS 24 // of 1 MiB
#define PART_VALUES (1u << 18)

// A service writes 4 MiB and more back on a thread, and its next commits restart the log.
static void a_service_writes_a_long_log_back_on_a_thread(void **state)
{
    struct fixture *f = *state;
    const uint32_t count = LOG_PARTS * PART_VALUES;
    const off_t most = (off_t)(count * sizeof(float)) - (5 << 20); // the rest is not due yet
    float *values = calloc(count, sizeof *values);
    float *got = calloc(count, sizeof *got);
    struct stat file = {.st_size = 0};
    unsigned beside = 0;
    assert_non_null(values);
    assert_non_null(got);
    assert_ok(f, tern_db_hold(f->db));
    for (uint32_t part = 0; part < LOG_PARTS; part++) {
        values[(size_t)part * PART_VALUES] = (float)part;
        assert_ok(f, tern_db_begin(f->db));
        assert_ok(f, tern_db_weights_put_part(f->db, TERN_WEIGHTS_REPLICA, 1, values, count, part));
        assert_ok(f, tern_db_commit(f->db));
        beside += threads() > 1;
    }
    assert_true(beside > 0);
    for (uint32_t tries = 0; tries < 2000 && file.st_size < most; tries++) {
        assert_ok(f, tern_db_begin(f->db));
        assert_ok(f, tern_db_touch(f->db));
        assert_ok(f, tern_db_commit(f->db));
        assert_int_equal(stat(f->path, &file), 0);
    }
    assert_true(file.st_size >= most); // the file has what the log had
    fixture_reopen(f);
    assert_ok(f, tern_db_weights_get(f->db, TERN_WEIGHTS_REPLICA, 1, got, count));
    assert_memory_equal(got, values, count * sizeof *got);
    assert_ok(f, tern_db_check(f->db));
    free(values);
    free(got);
}

// Whatever is overwritten, the store answers with a named error or with the right bytes.
static void damaged_files_give_named_errors(void **state)
{
    struct fixture *f = *state;
    static uint8_t whole[1u << 20];
    static uint8_t damaged[1u << 20];
    fill(f);
    tern_db_close(f->db);
    f->db = NULL;
    size_t len = read_whole(f->path, whole, sizeof whole);
    char path[512];
    snprintf(path, sizeof path, "%s", fixture_file(f, "damaged.db"));
    uint32_t random = 1;
    size_t refused = 0;
    for (int trial = 0; trial < 400; trial++) {
        memcpy(damaged, whole, len);
        for (int i = 0; i < 24; i++) {
            random = random * 1664525u + 1013904223u;
            size_t at = (random >> 4) % (trial % 4 == 0 ? 4096 : len);
            damaged[at] = (uint8_t)(random >> 24);
        }
        write_whole(path, damaged, len);
        struct tern_db *db = NULL;
        char why[256] = "";
        enum tern_result result = tern_db_open(path, 0, &db, why);
        assert_true(is_named(result));
        if (result == TERN_OK) {
            read_everything(db);
            tern_db_close(db);
        } else {
            assert_true(strlen(why) > 10);
            refused++;
        }
        unlink(fixture_file(f, "damaged.db-wal"));
        unlink(fixture_file(f, "damaged.db-shm"));
    }
    assert_true(refused > 0);
    fixture_reopen(f);
}

static void a_changed_body_is_never_handed_out(void **state)
{
    struct fixture *f = *state;
    static uint8_t whole[1u << 20];
    static uint8_t body[20000];
    fill(f);
    tern_db_close(f->db);
    f->db = NULL;
    size_t len = read_whole(f->path, whole, sizeof whole);
    struct tern_db_update update = fixture_update(1, 1, body, sizeof body);
    size_t at = 0;
    while (at + 1000 < len && memcmp(whole + at, update.body, 1000) != 0) {
        at++;
    }
    assert_true(at + 1000 < len);
    whole[at + 500] ^= 1;
    write_whole(f->path, whole, len);
    fixture_reopen(f);
    assert_int_equal(tern_db_update_each(f->db, 1, see_update, NULL), TERN_ERR_IO);
    assert_non_null(strstr(tern_db_error(f->db), "restore a backup"));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

// What only a database that is a file can be asked.
static int run_tests_of_files(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_damaged_manifest_is_told),
        TEST(the_file_is_for_its_owner_only),
        TEST(creating_in_a_missing_folder_is_told),
        TEST(every_commit_is_synced),
        TEST(a_backup_is_a_database),
        TEST(foreign_files_are_refused_and_left_alone),
        TEST(a_folder_is_no_database),
        TEST(a_service_writes_a_long_log_back_on_a_thread),
        TEST(damaged_files_give_named_errors),
        TEST(a_changed_body_is_never_handed_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_federation_keeps_all_64_bits_of_its_seed),
        TEST(a_model_of_its_own_is_kept_whole),
        TEST(kept_tensors_are_kept),
        TEST(creating_never_overwrites),
        TEST(opening_a_missing_file_says_what_to_do),
        TEST(a_rollback_leaves_nothing),
        TEST(closing_rolls_back),
        TEST(misplaced_calls_are_refused),
        TEST(another_connection_is_noticed_and_waited_for),
        TEST(a_reader_sees_one_moment),
    };
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    return failed + (test_store_is_postgres() ? 0 : run_tests_of_files());
}
