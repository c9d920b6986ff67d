// Tokens of the admin listener, and the audit log: its rows belong to their transactions, and its chain shows every edit.
#include "store/fixture.h"
#include "store/run_sql.h"
#include "store/store.h"
#include "tests/cases.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

static const struct tern_db_actor ann = {
    .who = "ann", .role = TERN_ROLE_OPERATOR, .address = "::1"};

static void add(struct tern_db *db, uint64_t client)
{
    assert_int_equal(tern_db_begin(db), TERN_OK);
    assert_int_equal(
        tern_db_audit(db, 1000 + client, "tag", "site=a", "site=b", "client %d", (int)client),
        TERN_OK);
    assert_int_equal(tern_db_commit(db), TERN_OK);
}

static struct tern_db_audit_check verify(struct tern_db *db)
{
    struct tern_db_audit_check check;
    assert_int_equal(tern_db_audit_verify(db, &check), TERN_OK);
    return check;
}

#define TEST(name) CASE_WITH(name, fixture_setup, fixture_teardown)

TEST(a_row_has_who_changed_what)
{
    struct fixture *f = *state;
    struct tern_db_audit row;
    assert_int_equal(tern_db_audit_last(f->db, &row), TERN_ERR_NOT_FOUND);
    (void)tern_db_act_as(f->db, &ann);
    add(f->db, 7);
    fixture_reopen(f);
    assert_ok(f, tern_db_audit_last(f->db, &row));
    assert_int_equal(row.number, 1);
    assert_int_equal(row.at_ms, 1007);
    assert_string_equal(row.who, "ann");
    assert_int_equal(row.role, TERN_ROLE_OPERATOR);
    assert_string_equal(row.address, "::1");
    assert_string_equal(row.action, "tag");
    assert_string_equal(row.subject, "client 7");
    assert_string_equal(row.before, "site=a");
    assert_string_equal(row.after, "site=b");
    assert_string_equal(row.result, "done");
}

TEST(nobody_changes_without_a_name)
{
    struct fixture *f = *state;
    assert_ok(f, tern_db_begin(f->db));
    assert_int_equal(tern_db_audit(f->db, 1, "tag", "", "", "client 1"), TERN_ERR_STATE);
    tern_db_rollback(f->db);
    assert_int_equal(verify(f->db).rows, 0);
}

TEST(long_and_malformed_texts_are_cut_and_shown)
{
    struct fixture *f = *state;
    struct tern_db_audit row;
    char text[1000];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    text[0] = '\xff';
    (void)tern_db_act_as(f->db, &ann);
    assert_ok(f, tern_db_begin(f->db));
    assert_ok(f, tern_db_audit(f->db, 1, text, text, text, "%s", text));
    assert_ok(f, tern_db_commit(f->db));
    assert_ok(f, tern_db_audit_last(f->db, &row));
    assert_int_equal(strlen(row.after), sizeof row.after - 1);
    assert_int_equal(strncmp(row.after, "?xx", 3), 0);
    assert_string_equal(row.after + sizeof row.after - 5, "x...");
    assert_int_equal(strlen(row.subject), sizeof row.subject - 1);
    assert_int_equal(verify(f->db).broken, 0);
}

TEST(a_transaction_that_is_rolled_back_leaves_no_row)
{
    struct fixture *f = *state;
    struct tern_db_client client;
    const uint64_t id = fixture_client(f, 1);
    (void)tern_db_act_as(f->db, &ann);
    add(f->db, 1);
    assert_ok(f, tern_db_begin(f->db));
    assert_ok(f, tern_db_client_revoke(f->db, id));
    assert_ok(f, tern_db_audit(f->db, 2, "revoke", "", "", "client 1"));
    tern_db_rollback(f->db);
    assert_ok(f, tern_db_client_get(f->db, id, &client));
    assert_false(client.revoked);
    assert_int_equal(verify(f->db).rows, 1);
    add(f->db, 2); // behind the first row
    assert_int_equal(verify(f->db).rows, 2);
    assert_int_equal(verify(f->db).broken, 0);
}

// Each edit, and the first row that no longer follows.
TEST(the_chain_shows_edits)
{
    static const struct {
        const char *sql;
        uint64_t broken;
    } edits[] = {
        {"UPDATE audit SET who = 'bob' WHERE number = 2", 2},
        {"UPDATE audit SET at_ms = at_ms + 1 WHERE number = 5", 5},
        {"UPDATE audit SET role = 3 WHERE number = 1", 1},
        {"UPDATE audit SET result = '' WHERE number = 4", 4},
        {"UPDATE audit SET before = 'site=as', after = 'ite=b' WHERE number = 3", 3},
        {"DELETE FROM audit WHERE number = 1", 1},
        {"UPDATE audit SET number = 0 WHERE number = 5", 1},
        {"DELETE FROM audit WHERE number = 3", 3},
        {"UPDATE audit SET number = number + 10 WHERE number = 5", 5},
        {"UPDATE audit SET chain = (SELECT chain FROM audit WHERE number = 2) WHERE number = 3", 3},
        {"UPDATE audit SET who = 'ann' WHERE number = 2", 0}, // as it was
    };
    struct fixture *f = *state;
    (void)tern_db_act_as(f->db, &ann);
    for (uint64_t i = 1; i <= 5; i++) {
        add(f->db, i);
    }
    run_sql(f->path, "CREATE TABLE kept AS SELECT * FROM audit");
    for (size_t i = 0; i < sizeof edits / sizeof edits[0]; i++) {
        run_sql(f->path, edits[i].sql);
        const struct tern_db_audit_check check = verify(f->db);
        if (check.broken != edits[i].broken) {
            fail_msg("%s: row %d", edits[i].sql, (int)check.broken);
        }
        run_sql(f->path, "DELETE FROM audit; INSERT INTO audit SELECT * FROM kept");
    }
    assert_int_equal(verify(f->db).rows, 5);
    assert_int_equal(verify(f->db).broken, 0);
    static const char *damage[] = {
        "UPDATE audit SET number = -5 WHERE number = 5",
        "UPDATE audit SET who = who || char(0) || 'x' WHERE number = 2",
    };
    const size_t edited = test_store_is_postgres() ? 1 : 2; // PostgreSQL's texts have no NUL
    for (size_t i = 0; i < edited; i++) {
        struct tern_db_audit_check check;
        run_sql(f->path, damage[i]);
        assert_int_equal(tern_db_audit_verify(f->db, &check), TERN_ERR_IO);
        run_sql(f->path, "DELETE FROM audit; INSERT INTO audit SELECT * FROM kept");
    }
}

// The chain of the second of two rows; the transaction is rolled back.
static void chain_behind(struct fixture *f, const char *first, uint8_t chain[TERN_SHA256_SIZE])
{
    struct tern_db_audit row;
    assert_ok(f, tern_db_begin(f->db));
    assert_ok(f, tern_db_audit(f->db, 1, "tag", "", first, "client 1"));
    assert_ok(f, tern_db_audit(f->db, 2, "tag", "", "", "client 2"));
    assert_ok(f, tern_db_audit_last(f->db, &row));
    tern_db_rollback(f->db);
    memcpy(chain, row.chain, sizeof row.chain);
}

TEST(a_row_depends_on_all_rows_before)
{
    struct fixture *f = *state;
    uint8_t one[TERN_SHA256_SIZE];
    uint8_t same[TERN_SHA256_SIZE];
    uint8_t other[TERN_SHA256_SIZE];
    (void)tern_db_act_as(f->db, &ann);
    chain_behind(f, "site=a", one);
    chain_behind(f, "site=a", same);
    chain_behind(f, "site=b", other);
    assert_memory_equal(one, same, sizeof one);
    assert_memory_not_equal(one, other, sizeof one);
}

#define THREADS 3
#define CHANGES 20

static void *change(void *ctx)
{
    struct fixture *f = ctx;
    struct tern_db *db;
    char why[256];
    assert_int_equal(tern_db_open(f->path, TERN_DB_SECOND, &db, why), TERN_OK);
    (void)tern_db_act_as(db, &ann);
    for (uint64_t i = 0; i < CHANGES; i++) {
        add(db, i);
    }
    tern_db_close(db);
    return NULL;
}

TEST(changes_of_several_connections_make_one_chain)
{
    struct fixture *f = *state;
    pthread_t threads[THREADS];
    for (size_t i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, change, f), 0);
    }
    for (size_t i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    const struct tern_db_audit_check check = verify(f->db);
    assert_int_equal(check.rows, THREADS * CHANGES);
    assert_int_equal(check.broken, 0);
}

TEST(names_and_hashes_of_tokens_are_used_once)
{
    struct fixture *f = *state;
    struct tern_db_token token = {
        .name = "grafana", .role = TERN_ROLE_VIEWER, .sha256 = {1}, .expires_ms = 9};
    struct tern_db_token read;
    assert_ok(f, tern_db_begin(f->db));
    assert_ok(f, tern_db_token_add(f->db, &token));
    token.sha256[0] = 2;
    assert_int_equal(tern_db_token_add(f->db, &token), TERN_ERR_CONFLICT);
    snprintf(token.name, sizeof token.name, "other");
    token.sha256[0] = 1;
    assert_int_equal(tern_db_token_add(f->db, &token), TERN_ERR_CONFLICT);
    assert_int_equal(tern_db_token_revoke(f->db, "other"), TERN_ERR_NOT_FOUND);
    assert_ok(f, tern_db_token_revoke(f->db, "grafana"));
    assert_ok(f, tern_db_commit(f->db));
    assert_ok(f, tern_db_token_get(f->db, "grafana", &read));
    assert_true(read.revoked);
    assert_int_equal(read.role, TERN_ROLE_VIEWER);
    assert_int_equal(read.expires_ms, 9);
}
