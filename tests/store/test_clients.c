// Clients, codes, error ledger, schedule, evaluations: what store.h promises of each.
#include "store/fixture.h"
#include "store/store.h"
#include "tests/cases.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define TEST(name) CASE_WITH(name, fixture_setup, fixture_teardown)

TEST(a_client_is_kept_whole)
{
    struct fixture *f = *state;
    struct tern_db_client client = {.name = "gateway 7",
                                    .platform = "linux-arm64 tern-client/0.1.0",
                                    .evaluator = true,
                                    .created_ms = 5,
                                    .last_seen_ms = 6,
                                    .steps_per_second = 41.5F,
                                    .version = 9,
                                    .codecs = 5,
                                    .coders = 32,
                                    .downloads_max = 4,
                                    .from_seed = true,
                                    .abilities = 3,
                                    .anchor = 7,
                                    .anchor_step = true};
    memset(client.token_hash, 1, sizeof client.token_hash);
    memset(client.replica, 2, sizeof client.replica);
    assert_ok(f, tern_db_begin(f->db));
    assert_ok(f, tern_db_client_add(f->db, &client));
    assert_ok(f, tern_db_commit(f->db));
    assert_int_equal(client.id, 1);
    fixture_reopen(f);

    struct tern_db_client got;
    memset(&got, 0xee, sizeof got);
    assert_ok(f, tern_db_client_get(f->db, 1, &got));
    assert_string_equal(got.name, client.name);
    assert_string_equal(got.platform, client.platform);
    assert_memory_equal(got.token_hash, client.token_hash, sizeof got.token_hash);
    assert_memory_equal(got.replica, client.replica, sizeof got.replica);
    assert_true(got.evaluator);
    assert_false(got.revoked);
    assert_int_equal(got.created_ms, 5);
    assert_int_equal(got.last_seen_ms, 6);
    assert_true(got.steps_per_second == 41.5F);
    assert_int_equal(got.version, 9);
    assert_int_equal(got.codecs, 5);
    assert_int_equal(got.coders, 32);
    assert_int_equal(got.downloads_max, 4);
    assert_true(got.from_seed && got.abilities == 3 && got.anchor == 7 && got.anchor_step);
    assert_false(got.has_psk);
}

TEST(ids_count_up_from_one)
{
    struct fixture *f = *state;
    for (uint8_t i = 1; i <= 5; i++) {
        assert_int_equal(fixture_client(f, i), i);
    }
    struct tern_db_client got;
    assert_int_equal(tern_db_client_get(f->db, 6, &got), TERN_ERR_NOT_FOUND);
}

TEST(two_clients_cannot_share_a_token)
{
    struct fixture *f = *state;
    fixture_client(f, 1);
    struct tern_db_client twin = {.name = "twin"};
    memset(twin.token_hash, 1, sizeof twin.token_hash);
    assert_ok(f, tern_db_begin(f->db));
    assert_int_equal(tern_db_client_add(f->db, &twin), TERN_ERR_CONFLICT);
    assert_ok(f, tern_db_commit(f->db));
}

TEST(an_update_keeps_token_and_creation)
{
    struct fixture *f = *state;
    uint64_t id = fixture_client(f, 1);
    struct tern_db_client client;
    assert_ok(f, tern_db_client_get(f->db, id, &client));
    client.version = 7;
    client.last_seen_ms = 99;
    memset(client.token_hash, 9, sizeof client.token_hash);
    client.created_ms = 12345;
    assert_ok(f, tern_db_begin(f->db));
    assert_ok(f, tern_db_client_update(f->db, &client));
    assert_ok(f, tern_db_commit(f->db));
    client.id = 77;
    assert_ok(f, tern_db_begin(f->db));
    fixture_refused(f, tern_db_client_update(f->db, &client));
    struct tern_db_client got;
    assert_ok(f, tern_db_client_get(f->db, id, &got));
    assert_int_equal(got.version, 7);
    assert_int_equal(got.last_seen_ms, 99);
    assert_int_equal(got.token_hash[0], 1);
    assert_int_equal(got.created_ms, 0);
}

// The service writes what it holds of a client; the command line may have revoked it meanwhile.
TEST(a_revocation_is_not_undone)
{
    struct fixture *f = *state;
    uint64_t id = fixture_client(f, 1);
    struct tern_db_client held;
    assert_ok(f, tern_db_client_get(f->db, id, &held));
    assert_ok(f, tern_db_begin(f->db));
    assert_ok(f, tern_db_client_revoke(f->db, id));
    assert_int_equal(tern_db_client_revoke(f->db, 99), TERN_ERR_NOT_FOUND);
    assert_ok(f, tern_db_client_update(f->db, &held));
    assert_ok(f, tern_db_commit(f->db));
    assert_ok(f, tern_db_client_get(f->db, id, &held));
    assert_true(held.revoked);
}

struct keys {
    size_t count;
    uint64_t clients[4];
    uint8_t first[4];
};

static struct keys all_keys(struct fixture *f)
{
    struct keys keys = {0};
    struct tern_db_psk psk;
    struct tern_db_rows *rows = tern_db_psks(f->db);
    while (keys.count < 4 && tern_db_next(rows, &psk)) {
        keys.clients[keys.count] = psk.client;
        keys.first[keys.count++] = psk.key[0];
    }
    assert_ok(f, tern_db_end(rows));
    return keys;
}

// Only who was given a key has one, and a revoked client's is gone from the file.
TEST(a_pre_shared_key_lives_as_long_as_its_client)
{
    struct fixture *f = *state;
    uint8_t key[TERN_SHA256_SIZE];
    struct tern_db_client client;
    for (uint8_t i = 1; i <= 3; i++) {
        fixture_client(f, i);
    }
    assert_int_equal(all_keys(f).count, 0);
    assert_ok(f, tern_db_begin(f->db));
    memset(key, 7, sizeof key);
    assert_ok(f, tern_db_psk_put(f->db, 3, key));
    memset(key, 6, sizeof key);
    assert_ok(f, tern_db_psk_put(f->db, 1, key));
    assert_int_equal(tern_db_psk_put(f->db, 1, key), TERN_ERR_CONFLICT);
    assert_int_equal(tern_db_psk_put(f->db, 9, key), TERN_ERR_NOT_FOUND);
    assert_ok(f, tern_db_commit(f->db));
    fixture_reopen(f);
    struct keys keys = all_keys(f);
    assert_int_equal(keys.count, 2);
    assert_int_equal(keys.clients[0], 1);
    assert_int_equal(keys.first[0], 6);
    assert_int_equal(keys.clients[1], 3);
    assert_int_equal(keys.first[1], 7);
    assert_ok(f, tern_db_client_get(f->db, 2, &client));
    assert_false(client.has_psk);
    assert_ok(f, tern_db_client_get(f->db, 3, &client));
    assert_true(client.has_psk);
    assert_ok(f, tern_db_begin(f->db));
    assert_ok(f, tern_db_client_revoke(f->db, 3));
    assert_ok(f, tern_db_commit(f->db));
    assert_int_equal(all_keys(f).count, 1);
}

TEST(clients_come_in_order_until_the_reader_ends)
{
    struct fixture *f = *state;
    fixture_client(f, 9);
    fixture_client(f, 5);
    fixture_client(f, 7);
    struct tern_db_client client;
    struct tern_db_rows *rows = tern_db_clients(f->db);
    for (uint64_t id = 1; id <= 3; id++) {
        assert_true(tern_db_next(rows, &client));
        assert_int_equal(client.id, id);
    }
    assert_false(tern_db_next(rows, &client));
    assert_ok(f, tern_db_end(rows));
    rows = tern_db_clients(f->db);
    assert_true(tern_db_next(rows, &client));
    assert_ok(f, tern_db_end(rows));
}

TEST(what_is_wrong_with_a_row_ends_them)
{
    struct fixture *f = *state;
    struct tern_db_client client;
    fixture_client(f, 9);
    fixture_client(f, 5);
    struct tern_db_rows *rows = tern_db_clients(f->db);
    assert_true(tern_db_next(rows, &client));
    tern_db_check_row(rows, TERN_ERR_CORRUPT);
    assert_false(tern_db_next(rows, &client));
    assert_int_equal(tern_db_end(rows), TERN_ERR_CORRUPT);
}

TEST(rows_may_be_read_between_rows)
{
    struct fixture *f = *state;
    for (uint8_t i = 1; i <= 3; i++) {
        fixture_client(f, i);
    }
    struct tern_db_client client;
    struct tern_db_client same;
    unsigned outer = 0;
    unsigned inner = 0;
    struct tern_db_rows *rows = tern_db_clients(f->db);
    for (; tern_db_next(rows, &client); outer++) {
        struct tern_db_rows *again = tern_db_clients(f->db);
        for (; tern_db_next(again, &same); inner++) {
        }
        assert_ok(f, tern_db_end(again));
        assert_ok(f, tern_db_client_get(f->db, client.id, &same));
    }
    assert_ok(f, tern_db_end(rows));
    assert_int_equal(outer, 3);
    assert_int_equal(inner, 9);
}

TEST(over_long_texts_and_numbers_are_refused)
{
    struct fixture *f = *state;
    struct tern_db_client client = {0};
    memset(client.name, 'x', sizeof client.name); // no NUL
    assert_ok(f, tern_db_begin(f->db));
    assert_int_equal(tern_db_client_add(f->db, &client), TERN_ERR_ARGUMENT);
    client.name[0] = '\0';
    client.steps_per_second = NAN;
    assert_int_equal(tern_db_client_add(f->db, &client), TERN_ERR_NON_FINITE);
    client.steps_per_second = 1.0F;
    client.created_ms = UINT64_MAX;
    assert_int_equal(tern_db_client_add(f->db, &client), TERN_ERR_ARGUMENT);
    client.created_ms = INT64_MAX;
    assert_ok(f, tern_db_client_add(f->db, &client));
    assert_ok(f, tern_db_commit(f->db));
}

// --- Codes

static struct tern_db_code code_of(uint8_t byte, uint32_t uses, uint64_t expires_ms)
{
    struct tern_db_code code = {.label = "lab", .uses_left = uses, .expires_ms = expires_ms};
    memset(code.hash, byte, sizeof code.hash);
    return code;
}

static enum tern_result use(struct fixture *f, uint8_t byte, uint64_t now_ms)
{
    uint8_t hash[TERN_SHA256_SIZE];
    memset(hash, byte, sizeof hash);
    assert_ok(f, tern_db_begin(f->db));
    enum tern_result result = tern_db_code_use(f->db, hash, now_ms);
    assert_ok(f, tern_db_commit(f->db));
    return result;
}

TEST(a_code_is_used_as_often_as_it_says)
{
    struct fixture *f = *state;
    struct tern_db_code two = code_of(1, 2, 1000);
    struct tern_db_code once = code_of(2, 1, 1000);
    assert_ok(f, tern_db_begin(f->db));
    assert_ok(f, tern_db_code_add(f->db, &two));
    assert_ok(f, tern_db_code_add(f->db, &once));
    assert_int_equal(tern_db_code_add(f->db, &once), TERN_ERR_CONFLICT);
    assert_ok(f, tern_db_commit(f->db));
    assert_int_equal(use(f, 1, 10), TERN_OK);
    assert_int_equal(use(f, 1, 10), TERN_OK);
    assert_int_equal(use(f, 1, 10), TERN_ERR_NOT_FOUND);
    assert_int_equal(use(f, 2, 1000), TERN_ERR_NOT_FOUND); // expired this very moment
    assert_int_equal(use(f, 2, 999), TERN_OK);
    assert_int_equal(use(f, 3, 10), TERN_ERR_NOT_FOUND);
}

TEST(a_use_that_is_rolled_back_was_not_used)
{
    struct fixture *f = *state;
    struct tern_db_code once = code_of(2, 1, 1000);
    assert_ok(f, tern_db_begin(f->db));
    assert_ok(f, tern_db_code_add(f->db, &once));
    assert_ok(f, tern_db_commit(f->db));
    assert_ok(f, tern_db_begin(f->db));
    assert_ok(f, tern_db_code_use(f->db, once.hash, 1));
    tern_db_rollback(f->db);
    assert_int_equal(use(f, 2, 1), TERN_OK);
}

TEST(uses_left_are_added_up)
{
    struct fixture *f = *state;
    struct tern_db_code a = code_of(1, 2, 1000);
    struct tern_db_code b = code_of(2, 40, 1000);
    assert_ok(f, tern_db_begin(f->db));
    assert_ok(f, tern_db_code_add(f->db, &a));
    assert_ok(f, tern_db_code_add(f->db, &b));
    assert_ok(f, tern_db_commit(f->db));
    struct tern_db_counts counts;
    assert_ok(f, tern_db_counts(f->db, 999, &counts));
    assert_int_equal(counts.code_uses_left, 42);
    assert_ok(f, tern_db_counts(f->db, 1000, &counts)); // expired
    assert_int_equal(counts.code_uses_left, 0);
}

// --- Ledger, schedule, evaluations

static void assert_same_ledger(const struct tern_db_ledger *a, const struct tern_db_ledger *b)
{
    size_t end = offsetof(struct tern_db_ledger, anomaly) + sizeof a->anomaly;
    assert_memory_equal(a, b, end);
    assert_int_equal(a->anomaly_ms, b->anomaly_ms);
    assert_int_equal(a->anomaly_generation, b->anomaly_generation);
    assert_int_equal(a->directive, b->directive);
    assert_true(a->factor == b->factor);
    assert_true(a->decay == b->decay);
    assert_int_equal(a->missed_from, b->missed_from);
    assert_int_equal(a->ordered_round, b->ordered_round);
    assert_string_equal(a->reason, b->reason);
}

TEST(the_ledger_keeps_the_newest_facts)
{
    struct fixture *f = *state;
    struct tern_db_ledger ledger = {.client = fixture_client(f, 1),
                                    .generation = 0xffffffffu,
                                    .sequence = 3,
                                    .norm = 0.25F,
                                    .maximum = 0.125F,
                                    .round = 8,
                                    .loss = 1.5F,
                                    .update_bytes = 777,
                                    .decay = 0.75F,
                                    .previous_generation = 0xfffffffeu,
                                    .anomaly = 2,
                                    .anomaly_ms = 1ull << 41,
                                    .anomaly_generation = 0xfffffffdu,
                                    .missed_from = 9,
                                    .ordered_round = 11,
                                    .directive = 1,
                                    .factor = 0.5F,
                                    .reason = "decayed 0.5: 1 round missed"};
    struct tern_db_ledger got;
    assert_int_equal(tern_db_ledger_get(f->db, 1, &got), TERN_ERR_NOT_FOUND);
    assert_ok(f, tern_db_begin(f->db));
    assert_ok(f, tern_db_ledger_put(f->db, &ledger));
    ledger.sequence = 4;
    ledger.missed_from = 10;
    ledger.ordered_round = 0;
    assert_ok(f, tern_db_ledger_put(f->db, &ledger));
    assert_ok(f, tern_db_commit(f->db));
    ledger.client = 2;
    assert_ok(f, tern_db_begin(f->db));
    fixture_refused(f, tern_db_ledger_put(f->db, &ledger));
    ledger.client = 1;
    assert_ok(f, tern_db_ledger_get(f->db, 1, &got));
    assert_same_ledger(&got, &ledger);
    memset(&got, 0, sizeof got);
    struct tern_db_rows *rows = tern_db_ledgers_after(f->db, 0);
    assert_true(tern_db_next(rows, &got));
    assert_ok(f, tern_db_end(rows));
    assert_same_ledger(&got, &ledger);
}

TEST(the_schedule_keeps_its_reason)
{
    struct fixture *f = *state;
    struct tern_db_schedule schedule = {.client = fixture_client(f, 1),
                                        .local_steps = 615,
                                        .reason = "deadline: 41 steps/s x 30 s x 0.5",
                                        .updated_ms = 4};
    struct tern_db_schedule got;
    assert_int_equal(tern_db_schedule_get(f->db, 1, &got), TERN_ERR_NOT_FOUND);
    assert_ok(f, tern_db_begin(f->db));
    assert_ok(f, tern_db_schedule_put(f->db, &schedule));
    assert_ok(f, tern_db_commit(f->db));
    assert_ok(f, tern_db_schedule_get(f->db, 1, &got));
    assert_string_equal(got.reason, schedule.reason);
    assert_int_equal(got.local_steps, 615);
    assert_int_equal(got.updated_ms, 4);
    assert_string_equal(got.codec, "");
    assert_string_equal(got.policy, "");
}

TEST(the_schedule_comes_in_client_order)
{
    struct fixture *f = *state;
    assert_ok(f, tern_db_begin(f->db));
    fixture_refused(f, tern_db_schedule_put(f->db, &(struct tern_db_schedule){.client = 9}));
    for (uint64_t i = 1; i <= 3; i++) {
        fixture_client(f, (uint8_t)i);
    }
    assert_ok(f, tern_db_begin(f->db));
    for (uint64_t id = 3; id >= 1; id--) {
        struct tern_db_schedule schedule = {.client = id,
                                            .codec = "density:p=0.02",
                                            .policy = "deadline+budget",
                                            .bytes = 3000000000u + id,
                                            .least_bytes = 7};
        assert_ok(f, tern_db_schedule_put(f->db, &schedule));
    }
    assert_ok(f, tern_db_commit(f->db));
    struct tern_db_schedule got;
    struct tern_db_rows *rows = tern_db_schedules(f->db);
    for (uint64_t id = 1; id <= 3; id++) {
        assert_true(tern_db_next(rows, &got));
        assert_int_equal(got.client, id);
    }
    assert_ok(f, tern_db_end(rows));
    assert_ok(f, tern_db_schedule_get(f->db, 3, &got));
    assert_string_equal(got.codec, "density:p=0.02");
    assert_string_equal(got.policy, "deadline+budget");
    assert_int_equal(got.bytes, 3000000003u);
    assert_int_equal(got.least_bytes, 7);
}

TEST(conditions_are_kept)
{
    struct fixture *f = *state;
    uint64_t id = fixture_client(f, 1);
    struct tern_db_client client;
    assert_ok(f, tern_db_client_get(f->db, id, &client));
    assert_false(client.metered || client.budgeted || client.budget_renewed);
    client.metered = true;
    client.budgeted = true;
    client.budget_left = 5000000000u;
    client.budget_spent = 12;
    client.budget_renewed = true;
    client.power = 2;
    assert_ok(f, tern_db_begin(f->db));
    assert_ok(f, tern_db_client_update(f->db, &client));
    assert_ok(f, tern_db_commit(f->db));
    struct tern_db_client got;
    assert_ok(f, tern_db_client_get(f->db, id, &got));
    assert_true(got.metered && got.budgeted && got.budget_renewed);
    assert_int_equal(got.budget_left, 5000000000u);
    assert_int_equal(got.budget_spent, 12);
    assert_int_equal(got.power, 2);
}

// A version's evaluations are ordered: replica before global model, each in time before late.
TEST(evaluations_come_in_version_order)
{
    struct fixture *f = *state;
    uint64_t late = fixture_client(f, 1);
    uint64_t id = fixture_client(f, 2);
    assert_ok(f, tern_db_begin(f->db));
    for (uint32_t i = 12; i > 0; i--) {
        struct tern_db_evaluation evaluation = {.version = (i + 3) / 4,
                                                .model = (i - 1) / 2 % 2,
                                                .client = i % 2 == 0 ? late : id,
                                                .late = i % 2 == 0,
                                                .num_examples = 100,
                                                .loss = 0.5F,
                                                .accuracy = 0.9F};
        assert_ok(f, tern_db_evaluation_put(f->db, &evaluation));
        assert_ok(f, tern_db_evaluation_put(f->db, &evaluation));
    }
    assert_ok(f, tern_db_commit(f->db));
    struct tern_db_evaluation row;
    struct tern_db_rows *rows = tern_db_evaluations_from(f->db, 0);
    for (uint32_t i = 1; i <= 12; i++) {
        assert_true(tern_db_next(rows, &row));
        assert_int_equal(row.version, (i + 3) / 4);
        assert_int_equal(row.model, (i - 1) / 2 % 2);
        assert_int_equal(row.late, i % 2 == 0);
    }
    assert_false(tern_db_next(rows, &row));
    assert_ok(f, tern_db_end(rows));
    rows = tern_db_evaluations_from(f->db, 3);
    for (uint32_t i = 9; i <= 12; i++) {
        assert_true(tern_db_next(rows, &row));
        assert_int_equal(row.version, 3);
        assert_int_equal(row.model, (i - 1) / 2 % 2);
    }
    assert_false(tern_db_next(rows, &row));
    assert_ok(f, tern_db_end(rows));
}

static uint64_t add_evaluator(struct fixture *f, uint8_t seed, uint64_t created_ms,
                              uint64_t last_seen_ms)
{
    struct tern_db_client client = {
        .evaluator = true, .created_ms = created_ms, .last_seen_ms = last_seen_ms};
    memset(client.token_hash, seed, sizeof client.token_hash);
    assert_ok(f, tern_db_client_add(f->db, &client));
    return client.id;
}

static void report(struct fixture *f, uint64_t client, uint32_t version,
                   enum tern_db_evaluated model, bool late)
{
    const struct tern_db_evaluation evaluation = {
        .version = version, .model = model, .client = client, .late = late, .num_examples = 1};
    const struct tern_db_metric metric = {.version = version,
                                          .name = "r2",
                                          .client = client,
                                          .of_evaluator = true,
                                          .late = late,
                                          .model = model};
    assert_ok(f, tern_db_evaluation_put(f->db, &evaluation));
    assert_ok(f, tern_db_metric_put(f->db, &metric));
}

static void expect_reports(struct fixture *f, uint32_t first, uint32_t last,
                           const struct tern_db_reports *expected, size_t count)
{
    struct tern_db_reports row;
    struct tern_db_rows *rows = tern_db_reports(f->db, first, last);
    for (size_t i = 0; i < count; i++) {
        assert_true(tern_db_next(rows, &row));
        assert_int_equal(row.version, expected[i].version);
        assert_int_equal(row.model, expected[i].model);
        assert_int_equal(row.created_ms, expected[i].created_ms);
        assert_int_equal(row.reports, expected[i].reports);
        assert_int_equal(row.in_time, expected[i].in_time);
    }
    assert_false(tern_db_next(rows, &row));
    assert_ok(f, tern_db_end(rows));
}

static uint64_t sum_of_last_seen(struct fixture *f, unsigned *count)
{
    uint64_t sum = 0;
    struct tern_db_evaluator row;
    struct tern_db_rows *rows = tern_db_evaluators(f->db);
    *count = 0;
    while (tern_db_next(rows, &row)) {
        assert_int_equal(row.created_ms, row.last_seen_ms - 1);
        sum += row.last_seen_ms;
        (*count)++;
    }
    assert_ok(f, tern_db_end(rows));
    return sum;
}

static unsigned count_rows_of(struct fixture *f, uint64_t client)
{
    unsigned count = 0;
    struct tern_db_evaluation evaluation;
    struct tern_db_metric metric;
    struct tern_db_rows *rows = tern_db_evaluations_from(f->db, 0);
    while (tern_db_next(rows, &evaluation)) {
        count += evaluation.client == client;
    }
    assert_ok(f, tern_db_end(rows));
    rows = tern_db_evaluation_metrics_from(f->db, 0);
    while (tern_db_next(rows, &metric)) {
        count += metric.client == client;
    }
    assert_ok(f, tern_db_end(rows));
    return count;
}

static unsigned count_rows(struct tern_db_rows *rows)
{
    union {
        struct tern_db_evaluation evaluation;
        struct tern_db_metric metric;
    } row;
    unsigned count = 0;
    while (tern_db_next(rows, &row)) {
        count++;
    }
    assert_int_equal(tern_db_end(rows), TERN_OK);
    return count;
}

TEST(reports_of_evaluators_are_counted)
{
    struct fixture *f = *state;
    uint64_t ids[3];
    unsigned count;
    uint32_t last = 7;
    assert_int_equal(tern_db_evaluated_last(f->db, &last), TERN_ERR_NOT_FOUND);
    assert_ok(f, tern_db_begin(f->db));
    for (uint32_t i = 0; i < 3; i++) {
        const struct tern_db_version version = {.version = i + 1, .created_ms = 100 * (i + 1)};
        ids[i] = add_evaluator(f, (uint8_t)(i + 1), 10 * (i + 1), 10 * (i + 1) + 1);
        assert_ok(f, tern_db_version_put(f->db, &version));
    }
    (void)add_evaluator(f, 4, 40, 0); // provisioned, and never came
    for (uint32_t i = 0; i < 3; i++) {
        report(f, ids[i], 1, TERN_EVALUATED_REPLICA, i == 2);
        report(f, ids[i], 2, (enum tern_db_evaluated)(i / 2), false);
    }
    report(f, ids[2], 5, TERN_EVALUATED_REPLICA, true); // no such version
    assert_ok(f, tern_db_commit(f->db));
    const struct tern_db_reports all[] = {{1, TERN_EVALUATED_REPLICA, 100, 3, 2},
                                          {2, TERN_EVALUATED_REPLICA, 200, 2, 2},
                                          {2, TERN_EVALUATED_GLOBAL, 200, 1, 1},
                                          {5, TERN_EVALUATED_REPLICA, 0, 1, 0}};
    expect_reports(f, 0, UINT32_MAX, all, 4);
    expect_reports(f, 2, 4, all + 1, 2);
    assert_ok(f, tern_db_evaluated_last(f->db, &last));
    assert_int_equal(last, 5);
    assert_int_equal(sum_of_last_seen(f, &count), 11 + 21 + 31);
    assert_int_equal(count, 3);
    assert_int_equal(count_rows_of(f, ids[2]), 6);
    assert_int_equal(count_rows(tern_db_evaluations_of(f->db, 2)), 3);
    assert_int_equal(count_rows(tern_db_evaluation_metrics_of(f->db, 2)), 3);

    assert_ok(f, tern_db_begin(f->db)); // what a revoked evaluator reported counts nowhere
    assert_ok(f, tern_db_client_revoke(f->db, ids[2]));
    assert_ok(f, tern_db_commit(f->db));
    const struct tern_db_reports others[] = {{1, TERN_EVALUATED_REPLICA, 100, 2, 2},
                                             {2, TERN_EVALUATED_REPLICA, 200, 2, 2}};
    expect_reports(f, 0, UINT32_MAX, others, 2);
    assert_int_equal(sum_of_last_seen(f, &count), 11 + 21);
    assert_int_equal(count_rows_of(f, ids[2]), 0);
    assert_int_equal(count_rows(tern_db_evaluations_of(f->db, 2)), 2);
    assert_int_equal(count_rows(tern_db_evaluation_metrics_of(f->db, 2)), 2);
    assert_int_equal(count_rows_of(f, ids[0]), 4);
}

// A client that enrolled while the clock was ahead is seen a millisecond later, whenever it comes.
TEST(the_latest_time_is_that_of_a_client_that_came)
{
    struct fixture *f = *state;
    struct tern_db_client client;
    uint64_t latest_ms;
    assert_ok(f, tern_db_latest_ms(f->db, &latest_ms));
    assert_int_equal(latest_ms, 0);
    fixture_client(f, 1);
    fixture_client(f, 2);
    assert_ok(f, tern_db_client_get(f->db, 1, &client));
    assert_ok(f, tern_db_begin(f->db));
    client.last_seen_ms = 99;
    assert_ok(f, tern_db_client_update(f->db, &client));
    struct tern_db_client ahead = {.name = "ahead", .created_ms = 5000, .last_seen_ms = 5001};
    memset(ahead.token_hash, 3, sizeof ahead.token_hash);
    assert_ok(f, tern_db_client_add(f->db, &ahead));
    assert_ok(f, tern_db_commit(f->db));
    assert_ok(f, tern_db_latest_ms(f->db, &latest_ms));
    assert_int_equal(latest_ms, 99);
    assert_ok(f, tern_db_begin(f->db));
    struct tern_db_round round = {.round = 1, .opened_ms = 900, .closed_ms = 950};
    assert_ok(f, tern_db_round_put(f->db, &round));
    round = (struct tern_db_round){.round = 2, .opened_ms = 120};
    assert_ok(f, tern_db_round_put(f->db, &round));
    assert_ok(f, tern_db_commit(f->db));
    assert_ok(f, tern_db_latest_ms(f->db, &latest_ms));
    assert_int_equal(latest_ms, 120); // the last round's, not that of one under another clock
}

// --- Statistics

TEST(statistics_are_kept_until_a_scaling_is_fixed)
{
    struct fixture *f = *state;
    const uint64_t one = fixture_client(f, 1);
    const uint64_t two = fixture_client(f, 2);
    struct tern_db_statistics row = {.client = two, .received_ms = 70, .body = {"told", 4}};
    struct tern_db_statistics first = {.client = one, .received_ms = 90, .body = {"all", 3}};
    uint8_t *scaling = NULL;
    size_t len = 0;
    assert_ok(f, tern_db_begin(f->db));
    assert_ok(f, tern_db_statistics_add(f->db, &row));
    assert_int_equal(tern_db_statistics_add(f->db, &row), TERN_ERR_CONFLICT);
    assert_ok(f, tern_db_statistics_add(f->db, &first));
    assert_ok(f, tern_db_statistics_set_clock(f->db, -75));
    assert_ok(f, tern_db_commit(f->db));
    struct tern_db_rows *rows = tern_db_statistics(f->db);
    assert_true(tern_db_next(rows, &row));
    assert_true(row.client == one && row.received_ms == 15 && row.body.len == 3);
    assert_true(tern_db_next(rows, &row));
    assert_true(row.client == two && row.received_ms == 1);
    assert_memory_equal(row.body.data, "told", 4);
    assert_false(tern_db_next(rows, &row));
    assert_ok(f, tern_db_end(rows));
    assert_int_equal(tern_db_scaling_get(f->db, &scaling, &len), TERN_ERR_NOT_FOUND);
    assert_ok(f, tern_db_begin(f->db));
    assert_ok(f, tern_db_scaling_fix(f->db, (const uint8_t *)"made", 4));
    assert_int_equal(tern_db_scaling_fix(f->db, (const uint8_t *)"anew", 4), TERN_ERR_CONFLICT);
    assert_ok(f, tern_db_commit(f->db));
    assert_ok(f, tern_db_scaling_get(f->db, &scaling, &len));
    assert_int_equal(len, 4);
    assert_memory_equal(scaling, "made", 4);
    free(scaling);
    rows = tern_db_statistics(f->db);
    assert_false(tern_db_next(rows, &row));
    assert_ok(f, tern_db_end(rows));
    assert_ok(f, tern_db_check(f->db));
}

static enum tern_result ticket_keys(struct fixture *f, const uint8_t sealer[TERN_SHA256_SIZE],
                                    uint8_t sealed[4], size_t *len)
{
    memset(sealed, 0, 4);
    return tern_db_ticket_keys_get(f->db, sealer, sealed, 4, len);
}

TEST(ticket_keys_are_those_of_their_sealer)
{
    struct fixture *f = *state;
    const uint8_t one[TERN_SHA256_SIZE] = {1};
    const uint8_t other[TERN_SHA256_SIZE] = {2};
    uint8_t sealed[4];
    size_t len = 0;
    assert_int_equal(ticket_keys(f, one, sealed, &len), TERN_ERR_NOT_FOUND);
    assert_ok(f, tern_db_begin(f->db));
    assert_ok(f, tern_db_ticket_keys_put(f->db, one, (const uint8_t *)"abcdef", 6, 10));
    assert_ok(f, tern_db_ticket_keys_put(f->db, other, (const uint8_t *)"xy", 2, 20));
    assert_ok(f, tern_db_ticket_keys_put(f->db, one, (const uint8_t *)"ABCDEF", 6, 30));
    assert_ok(f, tern_db_commit(f->db));
    fixture_reopen(f);
    assert_ok(f, ticket_keys(f, one, sealed, &len));
    assert_int_equal(len, 4); // as many as there was room for
    assert_memory_equal(sealed, "ABCD", 4);
    assert_ok(f, ticket_keys(f, other, sealed, &len));
    assert_int_equal(len, 2);
    assert_memory_equal(sealed, "xy", 2);
    assert_ok(f, tern_db_begin(f->db));
    assert_ok(f, tern_db_ticket_keys_drop(f->db, 30));
    assert_ok(f, tern_db_commit(f->db));
    assert_int_equal(ticket_keys(f, other, sealed, &len), TERN_ERR_NOT_FOUND);
    assert_ok(f, ticket_keys(f, one, sealed, &len));
}
