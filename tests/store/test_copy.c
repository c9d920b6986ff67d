// The whole state in another database, of the same kind and of the other one: what is in it, what goes on from it, and
// that nothing appears where something went wrong.
#include "store/fixture.h"
#include "store/run_sql.h"
#include "store/store.h"
#include "tests/cases.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TABLES_MAX 64

struct copies {
    struct tern_db_copied_table tables[TABLES_MAX];
    size_t count;
    const char *source; // that check() writes to; NULL: it does not
    bool refuses;
    uint64_t clients; // that check() found
};

static void note(void *ctx, const struct tern_db_copied_table *table)
{
    struct copies *copies = ctx;
    assert_true(copies->count < TABLES_MAX);
    copies->tables[copies->count++] = *table;
}

static enum tern_result look(void *ctx, struct tern_db *copy, char why[256])
{
    struct copies *copies = ctx;
    struct tern_db_counts counts;
    assert_int_equal(tern_db_check(copy), TERN_OK);
    assert_int_equal(tern_db_counts(copy, 0, &counts), TERN_OK);
    copies->clients = counts.clients;
    if (copies->source != NULL) {
        run_sql(copies->source, "UPDATE clients SET revoked = 1 WHERE id = 1");
    }
    snprintf(why, 256, "it is not wanted");
    return copies->refuses ? TERN_ERR_CORRUPT : TERN_OK;
}

static enum tern_result copy(struct tern_db *from, const char *path, struct copies *copies,
                             char why[256])
{
    const struct tern_db_copying how = {.check = look, .made = note, .ctx = copies};
    copies->count = 0;
    return tern_db_copy_state(from, path, &how, why);
}

static void expect_copied(struct tern_db *from, const char *path, struct copies *copies)
{
    char why[256] = "";
    const enum tern_result result = copy(from, path, copies, why);
    if (result != TERN_OK) {
        fail_msg("copy: %s: %s", tern_result_name(result), why);
    }
}

static void expect_nothing_at(const char *path)
{
    struct tern_db *db = NULL;
    char why[256];
    assert_int_equal(tern_db_open(path, 0, &db, why), TERN_ERR_NOT_FOUND);
}

static void expect_same(const struct copies *a, const struct copies *b)
{
    assert_int_equal(a->count, b->count);
    for (size_t i = 0; i < a->count; i++) {
        assert_string_equal(a->tables[i].name, b->tables[i].name);
        assert_int_equal(a->tables[i].rows, b->tables[i].rows);
        assert_int_equal(a->tables[i].bytes, b->tables[i].bytes);
        assert_memory_equal(a->tables[i].sha256, b->tables[i].sha256, TERN_SHA256_SIZE);
    }
}

static uint64_t rows_of(const struct copies *copies, const char *table)
{
    for (size_t i = 0; i < copies->count; i++) {
        if (strcmp(copies->tables[i].name, table) == 0) {
            return copies->tables[i].rows;
        }
    }
    fail_msg("there is no table %s", table);
    return 0;
}

// Longer than what is read at once, with an odd end.
#define LARGE ((9u << 20) + 3)

static struct tern_db_update large_update(uint8_t **body)
{
    *body = malloc(LARGE);
    assert_non_null(*body);
    return fixture_update(1, 2, *body, LARGE);
}

static const struct tern_db_actor ann = {.who = "ann", .role = TERN_ROLE_ADMIN};

// Some of everything that has a type of its own; ids with a gap at the end of the clients.
static void fill(struct fixture *f)
{
    uint8_t small[100];
    uint8_t *large = NULL;
    const uint8_t key[TERN_SHA256_SIZE] = {7};
    const uint8_t kept[] = "scaling";
    const char tags[TERN_DB_TAGS_MAX] = "site=north,role=\u00e4";
    static float values[70000];
    struct tern_db_code code = {.label = "gate, \u00fc", .uses_left = 3, .expires_ms = 99};
    for (uint8_t i = 1; i <= 4; i++) {
        assert_int_equal(fixture_client(f, i), i);
    }
    fixture_round(f, 1);
    const struct tern_db_update first = fixture_update(1, 1, small, sizeof small);
    const struct tern_db_update second = large_update(&large);
    for (size_t i = 0; i < 70000; i++) {
        values[i] = (float)i * -0.37F;
    }
    const struct tern_db_token token = {.name = "ann", .role = TERN_ROLE_ADMIN, .expires_ms = 9};
    (void)tern_db_act_as(f->db, &ann);
    assert_ok(f, tern_db_begin(f->db));
    assert_ok(f, tern_db_client_tag(f->db, 2, tags));
    assert_ok(f, tern_db_audit(f->db, 1, "tag", "", tags, "client 2"));
    assert_ok(f, tern_db_token_add(f->db, &token));
    assert_ok(f, tern_db_client_revoke(f->db, 3));
    assert_ok(f, tern_db_psk_put(f->db, 4, key));
    assert_ok(f, tern_db_code_add(f->db, &code));
    assert_ok(f, tern_db_update_put(f->db, &first));
    assert_ok(f, tern_db_update_put(f->db, &second));
    assert_ok(f, tern_db_weights_put(f->db, TERN_WEIGHTS_INITIAL, 0, values, 70000));
    assert_ok(f, tern_db_scaling_fix(f->db, kept, sizeof kept));
    assert_ok(f, tern_db_commit(f->db));
    run_sql(f->path, "UPDATE federation SET seed = -9223372036854775807");
    free(large);
}

static enum tern_result compare_body(void *ctx, const struct tern_db_update *update)
{
    const struct tern_db_update *expected = ctx;
    assert_int_equal(update->body_len, expected->body_len);
    assert_memory_equal(update->body, expected->body, expected->body_len);
    return TERN_OK;
}

static void expect_goes_on(const struct fixture *f, const char *path)
{
    struct tern_db *db = NULL;
    char why[256] = "";
    uint8_t *large = NULL;
    struct tern_db_client client;
    struct tern_db_counts counts;
    struct tern_db_counts expected;
    struct tern_db_update update = large_update(&large);
    uint8_t small[16];
    assert_int_equal(tern_db_open(path, 0, &db, why), TERN_OK);
    assert_int_equal(tern_db_client_get(db, 2, &client), TERN_OK);
    assert_string_equal(client.tags, "site=north,role=\u00e4");
    assert_int_equal(tern_db_update_show(db, 1, 2, compare_body, &update), TERN_OK);
    free(large);
    // The triggers and sums are there, and nothing was counted twice.
    assert_int_equal(tern_db_counts(db, 0, &counts), TERN_OK);
    assert_ok(f, tern_db_counts(f->db, 0, &expected));
    expected.file_bytes = counts.file_bytes;
    assert_memory_equal(&counts, &expected, sizeof counts);
    // Ids and the audit log go on behind the copied ones, constraints hold.
    struct tern_db_token token;
    struct tern_db_audit_check audit;
    assert_int_equal(tern_db_token_get(db, "ann", &token), TERN_OK);
    assert_int_equal(token.expires_ms, 9);
    (void)tern_db_act_as(db, &ann);
    assert_int_equal(tern_db_begin(db), TERN_OK);
    assert_int_equal(tern_db_audit(db, 2, "tag", "", "", "client 2"), TERN_OK);
    assert_int_equal(tern_db_audit_verify(db, &audit), TERN_OK);
    assert_int_equal(audit.rows, 2);
    assert_int_equal(audit.broken, 0);
    client = (struct tern_db_client){.name = "next", .token_hash = {0xee}};
    assert_int_equal(tern_db_client_add(db, &client), TERN_OK);
    assert_int_equal(client.id, 5);
    assert_int_equal(tern_db_client_add(db, &client), TERN_ERR_CONFLICT);
    update = fixture_update(1, 4, small, sizeof small);
    assert_int_equal(tern_db_update_put(db, &update), TERN_OK);
    const struct tern_db_download download = {.sha256 = {1}, .size = sizeof small, .to_version = 1};
    assert_int_equal(tern_db_download_put(db, &download, small), TERN_OK);
    assert_int_equal(tern_db_commit(db), TERN_OK);
    assert_int_equal(tern_db_begin(db), TERN_OK);
    (void)!tern_db_update_put(db, &update); // refused by an index, at once or at the commit
    assert_int_equal(tern_db_commit(db), TERN_ERR_IO);
    assert_int_equal(tern_db_counts(db, 0, &counts), TERN_OK);
    assert_int_equal(counts.updates, 3);
    assert_int_equal(counts.update_bodies, 3);
    assert_int_equal(counts.downloads, 1); // by a trigger
    tern_db_close(db);
}

#define TEST(name) CASE_WITH(name, fixture_setup, fixture_teardown)

TEST(all_of_it_arrives_and_goes_on)
{
    struct fixture *f = *state;
    char why[256] = "";
    char there[512];
    struct copies out = {.count = 0};
    struct copies back = {.count = 0};
    struct tern_db *db = NULL;
    fill(f);
    snprintf(there, sizeof there, "%s",
             fixture_file(f, "other.db")); // of the other kind, if there is one
    expect_copied(f->db, there, &out);
    assert_int_equal(out.clients, 4);
    assert_int_equal(rows_of(&out, "clients"), 4);
    assert_int_equal(rows_of(&out, "update_bodies"), 2);
    assert_int_equal(rows_of(&out, "totals"), 1);
    assert_int_equal(rows_of(&out, "psk_keys"), 1);
    assert_int_equal(tern_db_open(there, 0, &db, why), TERN_OK);
    const char *again = fixture_place(f, "again.db");
    expect_copied(db, again, &back);
    expect_same(&out, &back);
    tern_db_close(db);
    expect_goes_on(f, again);
    expect_goes_on(f, there);
}

TEST(what_is_there_stays)
{
    struct fixture *f = *state;
    struct copies copies = {.count = 0};
    char why[256] = "";
    char other[512];
    fill(f);
    snprintf(other, sizeof other, "%s", fixture_place(f, "other.db"));
    expect_copied(f->db, other, &copies);
    run_sql(other, "UPDATE clients SET name = 'kept' WHERE id = 1");
    assert_int_equal(copy(f->db, other, &copies, why), TERN_ERR_CONFLICT);
    assert_int_equal(copy(f->db, f->path, &copies, why), TERN_ERR_CONFLICT);
    struct tern_db *db = NULL;
    struct tern_db_client client;
    assert_int_equal(tern_db_open(other, 0, &db, why), TERN_OK);
    assert_int_equal(tern_db_client_get(db, 1, &client), TERN_OK);
    assert_string_equal(client.name, "kept");
    tern_db_close(db);
}

TEST(what_is_refused_leaves_nothing)
{
    struct fixture *f = *state;
    struct copies copies = {.refuses = true};
    char why[256] = "";
    char other[512];
    fill(f);
    snprintf(other, sizeof other, "%s", fixture_place(f, "other.db"));
    assert_int_equal(copy(f->db, other, &copies, why), TERN_ERR_CORRUPT);
    assert_non_null(strstr(why, "it is not wanted"));
    assert_int_equal(copies.count, 0);
    expect_nothing_at(other);
    assert_ok(f, tern_db_begin(f->db)); // it is as it was before
    tern_db_rollback(f->db);
    // A revocation that the copy would not have.
    copies = (struct copies){.source = f->path};
    assert_int_equal(copy(f->db, other, &copies, why), TERN_ERR_STATE);
    assert_non_null(strstr(why, "meanwhile"));
    expect_nothing_at(other);
    // What the program cannot hold, in the last of the clients, and a body that is not as long as it says.
    run_sql(f->path, "UPDATE clients SET report_ms = 4294967296 WHERE id = 4");
    copies = (struct copies){.count = 0};
    assert_int_equal(copy(f->db, other, &copies, why), TERN_ERR_IO);
    assert_non_null(strstr(why, "the database to copy cannot be read"));
    expect_nothing_at(other);
    run_sql(f->path, "UPDATE clients SET report_ms = 0");
    expect_copied(f->db, other, &copies);
}

TEST(within_a_transaction_it_is_refused)
{
    struct fixture *f = *state;
    struct copies copies = {.count = 0};
    char why[256] = "";
    const char *other = fixture_place(f, "other.db");
    assert_ok(f, tern_db_begin(f->db));
    assert_int_equal(copy(f->db, other, &copies, why), TERN_ERR_STATE);
    tern_db_rollback(f->db);
    expect_nothing_at(other);
}
