// Every page of a database is overwritten in turn: a check names the damage, or no row differs from before.
#include "store/fixture.h"
#include "store/run_sql.h"
#include "tests/cases.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PAGE 2048 // bytes, as the store makes databases of small models
#define CLIENTS 40
#define BODY_BYTES 9000 // on pages of their own
#define VALUES 3000

// --- A database with something in each kind of page

static void fill_round(struct fixture *f, uint32_t round)
{
    static uint8_t body[BODY_BYTES];
    for (uint64_t client = 1; client <= 3; client++) {
        const struct tern_db_update update = fixture_update(round, client, body, sizeof body);
        assert_ok(f, tern_db_begin(f->db));
        assert_ok(f, tern_db_update_put(f->db, &update));
        assert_ok(f, tern_db_commit(f->db));
    }
}

static void fill_model(struct fixture *f)
{
    static float weights[VALUES];
    static uint8_t blob[BODY_BYTES];
    struct tern_db_download download = {.to_version = 1, .size = sizeof blob, .codec = "float32"};
    for (uint32_t i = 0; i < VALUES; i++) {
        weights[i] = 0.25F * (float)i;
        blob[i] = (uint8_t)(i * 7);
    }
    tern_sha256(blob, sizeof blob, download.sha256);
    assert_ok(f, tern_db_begin(f->db));
    assert_ok(f, tern_db_weights_put(f->db, TERN_WEIGHTS_GLOBAL, 1, weights, VALUES));
    assert_ok(f, tern_db_download_put(f->db, &download, blob));
    assert_ok(f, tern_db_commit(f->db));
}

// Closed, so that all of it is in the one file; some pages are free.
static void fill(struct fixture *f)
{
    for (int i = 1; i <= CLIENTS; i++) {
        fixture_client(f, (uint8_t)i);
    }
    for (uint32_t round = 1; round <= 3; round++) {
        fixture_round(f, round);
        fill_round(f, round);
    }
    fill_model(f);
    tern_db_close(f->db);
    f->db = NULL;
    run_sql(f->path,
            "DELETE FROM update_bodies WHERE id IN (SELECT id FROM updates WHERE round = 1)");
}

// --- What can be read of it

static void hash_row(struct tern_sha256 *hash, sqlite3_stmt *row)
{
    for (int i = 0; i < sqlite3_column_count(row); i++) {
        const void *bytes = sqlite3_column_blob(row, i);
        const int len = sqlite3_column_bytes(row, i);
        tern_sha256_update(hash, &len, sizeof len);
        tern_sha256_update(hash, bytes, (size_t)len);
    }
}

// The SHA-256 of all rows. False: not all can be read.
static bool hash_rows(const char *path, uint8_t digest[TERN_SHA256_SIZE])
{
    sqlite3 *handle = NULL;
    sqlite3_stmt *tables = NULL;
    sqlite3_stmt *rows = NULL;
    struct tern_sha256 hash;
    tern_sha256_init(&hash);
    assert_int_equal(sqlite3_open(path, &handle), SQLITE_OK);
    int code = sqlite3_prepare_v2(handle, "SELECT name FROM sqlite_master WHERE type = 'table'", -1,
                                  &tables, NULL);
    while (code == SQLITE_OK && (code = sqlite3_step(tables)) == SQLITE_ROW) {
        char select[128];
        snprintf(select, sizeof select, "SELECT * FROM %.100s",
                 (const char *)sqlite3_column_text(tables, 0));
        code = sqlite3_prepare_v2(handle, select, -1, &rows, NULL);
        while (code == SQLITE_OK && (code = sqlite3_step(rows)) == SQLITE_ROW) {
            hash_row(&hash, rows);
            code = SQLITE_OK;
        }
        sqlite3_finalize(rows);
        rows = NULL;
        code = code == SQLITE_DONE ? SQLITE_OK : code;
    }
    sqlite3_finalize(tables);
    sqlite3_close(handle);
    tern_sha256_final(&hash, digest);
    return code == SQLITE_DONE;
}

// --- Damage

static uint8_t *read_file(const char *path, size_t *size)
{
    struct stat info;
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0 && fstat(fd, &info) == 0);
    *size = (size_t)info.st_size;
    uint8_t *bytes = malloc(*size);
    assert_non_null(bytes);
    assert_int_equal(read(fd, bytes, *size), (ssize_t)*size);
    close(fd);
    return bytes;
}

static void write_file(const char *path, const uint8_t *bytes, size_t size)
{
    const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, bytes, size), (ssize_t)size);
    close(fd);
}

// Whether it is refused, or a check finds something; a sentence says what.
static bool is_named(const char *path)
{
    struct tern_db *db = NULL;
    char why[256] = "";
    if (tern_db_open(path, 0, &db, why) != TERN_OK) {
        assert_true(why[0] != '\0');
        return true;
    }
    assert_int_equal(tern_db_begin_reading(db), TERN_OK);
    const enum tern_result result = tern_db_check(db);
    tern_db_rollback(db);
    if (result != TERN_OK) {
        assert_true(tern_db_damaged(db) && tern_db_error(db)[0] != '\0');
    }
    tern_db_close(db);
    return result != TERN_OK;
}

enum content { NOISE, ZEROS, ANOTHER_PAGE, CONTENTS };

static void overwrite(uint8_t *page, const uint8_t *another, enum content content)
{
    uint32_t noise = content;
    if (content == ANOTHER_PAGE) { // a write that went astray
        memcpy(page, another, PAGE);
        return;
    }
    for (size_t i = 0; i < PAGE; i++) {
        noise = noise * 1664525 + 1013904223; // Numerical Recipes' generator
        page[i] = content == ZEROS ? 0 : (uint8_t)(noise >> 24);
    }
}

static uint32_t named_pages(struct fixture *f, const uint8_t *sound, size_t size,
                            enum content content)
{
    const char *copy = fixture_file(f, "copy.db");
    uint8_t *bytes = malloc(size);
    uint8_t before[TERN_SHA256_SIZE];
    uint8_t after[TERN_SHA256_SIZE];
    uint32_t named = 0;
    assert_non_null(bytes);
    assert_true(hash_rows(f->path, before));
    for (uint32_t page = 0; page < size / PAGE; page++) {
        memcpy(bytes, sound, size);
        const uint32_t next = (page + 1) % (uint32_t)(size / PAGE);
        overwrite(bytes + (size_t)page * PAGE, sound + (size_t)next * PAGE, content);
        write_file(copy, bytes, size);
        if (is_named(copy)) {
            named++;
        } else if (!hash_rows(copy, after) || memcmp(before, after, sizeof after) != 0) {
            fail_msg("page %u of %zu was overwritten, and no check says so", page + 1, size / PAGE);
        }
    }
    free(bytes);
    return named;
}

CASE_WITH(every_overwritten_page_is_named_or_harmless, fixture_setup, fixture_teardown)
{
    struct fixture *f = *state;
    size_t size = 0;
    fill(f);
    assert_false(is_named(f->path));
    uint8_t *sound = read_file(f->path, &size);
    const uint32_t pages = (uint32_t)(size / PAGE);
    assert_true(size == (size_t)pages * PAGE && pages > 50);
    for (enum content content = 0; content < CONTENTS; content++) {
        const uint32_t named = named_pages(f, sound, size, content);
        assert_true(named < pages); // those of round 1's bodies are free
        // Pages of empty tables are alike.
        assert_true(named >= (content == ANOTHER_PAGE ? pages / 4 * 3 : pages - 16));
    }
    free(sound);
}

// What SQLite passes on as it is.
CASE_WITH(other_bytes_than_were_stored_are_named, fixture_setup, fixture_teardown)
{
    static const char *const edits[] = {
        "UPDATE update_bodies SET body = zeroblob(9000) WHERE id = 5",
        "UPDATE download_bodies SET body = zeroblob(9000)",
        "UPDATE weights SET crc32c = crc32c + 1",
        "UPDATE weights SET body = zeroblob(length(body))",
    };
    struct fixture *f = *state;
    fill(f);
    for (size_t i = 0; i < sizeof edits / sizeof edits[0]; i++) {
        size_t size = 0;
        uint8_t *sound = read_file(f->path, &size);
        run_sql(f->path, edits[i]);
        assert_true(is_named(f->path));
        write_file(f->path, sound, size);
        assert_false(is_named(f->path));
        free(sound);
    }
}

CASE_WITH(a_check_is_remembered_and_can_be_broken_off, fixture_setup, fixture_teardown)
{
    struct fixture *f = *state;
    struct tern_db_federation federation;
    atomic_bool stop = false;
    assert_ok(f, tern_db_federation(f->db, &federation));
    assert_int_equal(federation.checked_ms, 0);
    assert_ok(f, tern_db_begin(f->db));
    assert_ok(f, tern_db_set_checked(f->db, 1700000001000));
    const struct tern_db_federation clock = {
        .clock_boot = "0b1d", .clock_day_ms = 1700000001500, .clock_steady_ms = 7};
    assert_ok(f, tern_db_set_clock(f->db, &clock));
    assert_ok(f, tern_db_commit(f->db));
    fixture_reopen(f);
    assert_ok(f, tern_db_federation(f->db, &federation));
    assert_int_equal(federation.checked_ms, 1700000001000);
    assert_string_equal(federation.clock_boot, "0b1d");
    assert_int_equal(federation.clock_day_ms, 1700000001500);
    assert_int_equal(federation.clock_steady_ms, 7);
    assert_true(federation.seed == fixture_federation().seed);

    for (int i = 0; i < 200; i++) {
        fixture_client(f, (uint8_t)i);
    }
    tern_db_stop_when(f->db, &stop);
    assert_ok(f, tern_db_check(f->db));
    atomic_store(&stop, true);
    run_sql(f->path,
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20000)"
            " INSERT INTO files (name, sha256, body) SELECT 'f' || i, zeroblob(32), x'00' FROM n");
    assert_int_equal(tern_db_check(f->db), TERN_ERR_IO);
    assert_false(tern_db_damaged(f->db)); // not looked at
}
