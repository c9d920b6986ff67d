// Restored versions: earlier weights become the next version, in a running service and after kills.
#include "harness.h"

#include "merge/merge.h"
#include "merge/replay.h"
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "one_harness.h"
#include "store/store.h"
#include "tests/cases.h"

static void open_store(void)
{
    char why[256];
    harness_stop(&harness);
    assert_int_equal(tern_db_open(harness.path, 0, &harness.db, why), TERN_OK);
}

// Two clients send updates of different values, so that each version differs from every other.
static void do_rounds(uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        do_round(&harness, 1, NULL, 1.0F + (float)i);
        do_round(&harness, 2, NULL, 3.0F);
    }
}

// Momentum, and downloads that lag behind the model.
static void begin_with(uint32_t clients)
{
    harness.config.federation.strategy = &tern_strategy_fedavgm;
    harness.config.federation.server_learning_rate = tern_strategy_fedavgm.server_learning_rate;
    harness.config.federation.strategy_parameters[TERN_STRATEGY_SERVER_MOMENTUM] = 0.9F;
    harness.config.federation.average_versions = 3;
    assert_int_equal(
        tern_codec_parse("density:p=0.1", &harness.config.federation.downloads.codec, NULL),
        TERN_OK);
    harness_start_with(&harness, clients);
}

static void begin(void)
{
    begin_with(2);
}

static struct tern_merge merge;

static void begin_merge(struct tern_db *db)
{
    struct tern_db_federation about;
    assert_int_equal(tern_db_federation(db, &about), TERN_OK);
    assert_int_equal(tern_merge_init(&merge, &about, NULL), TERN_OK);
}

// Stores the weights in `merge`.
static void pin(struct tern_db *db, const char *name, uint32_t version)
{
    bool more = true;
    while (more) {
        assert_int_equal(
            tern_db_pinned_put_some(db, name, version, merge.global, merge.model.count, &more),
            TERN_OK);
    }
}

// Pins the newest version's weights, as `label` does.
static uint32_t pin_newest(struct tern_db *db, const char *label)
{
    begin_merge(db);
    assert_int_equal(tern_merge_load(&merge, db), TERN_OK);
    const uint32_t version = merge.version;
    struct tern_db_label row = {.version = version};
    strcpy(row.name, label);
    assert_int_equal(tern_db_begin(db), TERN_OK);
    assert_int_equal(tern_db_label_put(db, &row), TERN_OK);
    pin(db, "", version);
    assert_int_equal(tern_db_commit(db), TERN_OK);
    tern_merge_free(&merge);
    return version;
}

static void put_order(struct tern_db *db, uint32_t restored, bool ready)
{
    struct tern_db_order order = {.strategy = "rollback",
                                  .reason = "the test undoes it",
                                  .restored = restored,
                                  .ready = ready};
    assert_int_equal(tern_db_begin(db), TERN_OK);
    assert_int_equal(tern_db_order_put(db, &order), TERN_OK);
    assert_int_equal(tern_db_commit(db), TERN_OK);
}

static struct tern_db_version version_row(uint32_t version)
{
    struct tern_db_version row;
    assert_int_equal(tern_db_version_get(harness.db, version, &row), TERN_OK);
    return row;
}

static struct tern_db_round last_round(void)
{
    struct tern_db_round row;
    assert_int_equal(tern_db_round_last(harness.db, &row), TERN_OK);
    return row;
}

static uint32_t newest(void)
{
    struct tern_db_version row;
    assert_int_equal(tern_db_version_last(harness.db, &row), TERN_OK);
    return row.version;
}

static void expect_replay(void)
{
    struct tern_replay_report report;
    char why[256];
    assert_int_equal(tern_replay(harness.db, NULL, NULL, &report, why), TERN_OK);
}

static void expect_restored(uint32_t version, uint32_t from)
{
    const struct tern_db_version row = version_row(version);
    struct tern_db_round round;
    assert_memory_equal(row.model_sha256, version_row(from).model_sha256, TERN_SHA256_SIZE);
    assert_memory_not_equal(row.model_sha256, version_row(version - 1).model_sha256,
                            TERN_SHA256_SIZE);
    assert_int_equal(tern_db_round_get(harness.db, row.round, &round), TERN_OK);
    assert_int_equal(round.mode, TERN_ROUND_RESTORED);
    assert_int_equal(round.state, TERN_ROUND_COMMITTED);
    assert_int_equal(round.applied, 0);
    assert_string_equal(round.reason, "the test undoes it");
}

// The service's row about the order is the last one of the audit log.
static void expect_audited(const char *result)
{
    struct tern_db_audit row;
    assert_int_equal(tern_db_audit_last(harness.db, &row), TERN_OK);
    assert_string_equal(row.who, "service");
    assert_string_equal(row.action, "rollback");
    assert_string_equal(row.subject, "model, why: the test undoes it");
    assert_string_equal(row.result, result);
}

// 20 rounds, back to version 10, and further rounds. The service opens a round after each, which is given up.
static void do_history(uint32_t last)
{
    begin();
    do_rounds(10);
    open_store();
    assert_int_equal(pin_newest(harness.db, "ten"), 10);
    harness_start(&harness);
    do_rounds(last - 10);
}

static float residual_of(uint32_t version)
{
    struct tern_db_replica row;
    const struct tern_db_version of = version_row(version);
    assert_int_equal(tern_db_replica_get(harness.db, of.replica, &row), TERN_OK);
    return row.residual;
}

#define TEST(name) CASE_WITH(name, setup, teardown)

TEST(test_an_earlier_version_becomes_the_next_one)
{
    do_history(20);
    open_store();
    put_order(harness.db, 10, true);
    harness_start(&harness);
    do_rounds(3);
    open_store();
    assert_int_equal(newest(), 24);
    expect_restored(21, 10);
    expect_audited("done");
    expect_replay();
    // Clients train from the restored weights at once, whatever the codec of other downloads leaves out.
    assert_true(residual_of(21) < 0.1F * residual_of(20));
    struct tern_db_order order;
    assert_int_equal(tern_db_order_get(harness.db, &order), TERN_ERR_NOT_FOUND);
}

// A running service notices the order of another process.
TEST(test_a_running_service_executes_the_order)
{
    do_history(12);
    struct tern_db *db = harness_look(&harness);
    put_order(db, 10, true);
    do_rounds(1);
    tern_db_close(db);
    open_store();
    expect_restored(13, 10);
    assert_int_equal(newest(), 14);
    expect_replay();
}

// A client that was away has exactly the weights that its replica's id names.
TEST(test_a_client_that_was_away_catches_up)
{
    uint8_t replica[TERN_SHA256_SIZE];
    uint8_t named[TERN_SHA256_SIZE];
    float *weights = calloc(harness.model.count, sizeof *weights);
    assert_non_null(weights);
    begin();
    seed_replica(&harness, replica, weights);
    do_rounds(5);
    tern_CheckinReply next = checkin(&harness, 1, replica);
    assert_true(next.has_task);
    apply_downloads(&harness, &next.task, weights, replica, harness.tokens[1]);
    do_rounds(5);
    open_store();
    pin_newest(harness.db, "ten");
    harness_start(&harness);
    do_rounds(5);
    open_store();
    put_order(harness.db, 10, true);
    harness_start(&harness);
    do_rounds(1);
    next = checkin(&harness, 1, replica);
    assert_true(next.has_task);
    assert_true(next.task.downloads_count > 0);
    apply_downloads(&harness, &next.task, weights, replica, harness.tokens[1]);
    open_store();
    assert_true(whole_id(harness.db, next.task.base.bytes, named));
    assert_memory_equal(named, replica, TERN_SHA256_SIZE);
    // On the trunk the aggregator's own replica has these bits.
    begin_merge(harness.db);
    assert_int_equal(tern_merge_load(&merge, harness.db), TERN_OK);
    if (memcmp(merge.replica_id, replica, TERN_SHA256_SIZE) == 0) {
        assert_memory_equal(merge.replica, weights, harness.model.count * sizeof *weights);
    }
    // The restored version's delta brought the replica next to the model.
    assert_true(tern_distance(merge.global, weights, harness.model.count) < 0.5 * merge.norm);
    tern_merge_free(&merge);
    free(weights);
}

// The process may end after each transaction: before the order is ready, with the order, and with the open restored round.
TEST(test_a_kill_between_two_steps_changes_no_bit)
{
    struct tern_db_version made;
    do_history(12);
    open_store();
    put_order(harness.db, 10, false);
    harness_start(&harness);
    do_rounds(1);
    open_store();
    assert_int_equal(newest(), 13);
    assert_int_not_equal(last_round().mode, TERN_ROUND_RESTORED);
    struct tern_db_round open = last_round();
    struct tern_db_round restored = {.round = open.round + 1,
                                     .mode = TERN_ROUND_RESTORED,
                                     .restored = 10,
                                     .base_version = 13,
                                     .attempts = 1,
                                     .opened_ms = open.opened_ms,
                                     .deadline_ms = open.opened_ms,
                                     .strategy = "rollback",
                                     .reason = "the test undoes it",
                                     .codec_up = "float16",
                                     .codec_down = "float16"};
    open.state = TERN_ROUND_ABANDONED;
    open.closed_ms = open.opened_ms;
    assert_int_equal(tern_db_begin(harness.db), TERN_OK);
    assert_int_equal(tern_db_order_drop(harness.db), TERN_OK);
    assert_int_equal(tern_db_round_put(harness.db, &open), TERN_OK);
    assert_int_equal(tern_db_round_put(harness.db, &restored), TERN_OK);
    assert_int_equal(tern_db_commit(harness.db), TERN_OK);
    harness_start(&harness);
    do_rounds(1);
    open_store();
    expect_restored(14, 10);
    made = version_row(14);
    expect_replay();
    assert_memory_not_equal(made.replica, version_row(13).replica, TERN_SHA256_SIZE);
}

// The updates of the round that is given up do not count, and come back as late.
TEST(test_an_open_round_is_given_up)
{
    uint8_t *body;
    do_history(11);
    tern_CheckinReply first = checkin(&harness, 1, NULL);
    tern_CheckinReply second = checkin(&harness, 2, NULL);
    assert_true(first.has_task && second.has_task);
    size_t len = encode_update(&harness, &first.task, 9.0F, 10, &body);
    answer_expect(put_update(&harness, 1, first.task.round, 1, body, len), 200);
    free(body);
    open_store();
    put_order(harness.db, 10, true);
    harness_start(&harness);
    do_rounds(1);
    len = encode_update(&harness, &second.task, 9.0F, 10, &body);
    answer_expect(put_update(&harness, 2, second.task.round, 1, body, len), 410);
    free(body);
    open_store();
    expect_restored(12, 10);
    struct tern_db_round given_up;
    assert_int_equal(tern_db_round_get(harness.db, first.task.round, &given_up), TERN_OK);
    assert_int_equal(given_up.state, TERN_ROUND_ABANDONED);
    assert_string_equal(given_up.reason, "rollback: the test undoes it");
    expect_replay();
}

// fedbuff counts late updates, but none that was trained from an undone version.
TEST(test_a_late_update_from_before_does_not_count)
{
    uint8_t *body;
    float *parameters = harness.config.federation.strategy_parameters;
    harness.config.federation.strategy = &tern_strategy_fedbuff;
    harness.config.federation.server_learning_rate = tern_strategy_fedbuff.server_learning_rate;
    parameters[TERN_STRATEGY_STALENESS_MAX] = 20.0F;
    harness_start_with(&harness, 2);
    do_rounds(2);
    open_store();
    const uint32_t version = pin_newest(harness.db, "two");
    harness_start(&harness);
    do_rounds(1);
    tern_CheckinReply before = checkin(&harness, 2, NULL);
    assert_true(before.has_task);
    const size_t len = encode_update(&harness, &before.task, 9.0F, 10, &body);
    open_store();
    put_order(harness.db, version, true);
    harness_start(&harness);
    do_rounds(1);
    answer_expect(put_update(&harness, 2, before.task.round, 1, body, len), 410);
    free(body);
    open_store();
    expect_restored(4, version);
    expect_replay();
}

// A label keeps its version's weights however much is pruned. Without label or round, nothing does.
TEST(test_pinned_weights_survive_pruning)
{
    float *weights = calloc(harness.model.count, sizeof *weights);
    bool more = true;
    assert_non_null(weights);
    harness.config.federation.limits.history = 1;
    do_history(14);
    open_store();
    struct tern_db_counts counts;
    assert_int_equal(tern_db_counts(harness.db, 0, &counts), TERN_OK);
    assert_true(counts.rounds_pruned >= 10);
    put_order(harness.db, 10, true);
    harness_start(&harness);
    do_rounds(3);
    open_store();
    expect_restored(15, 10);
    assert_int_equal(tern_db_pinned_get(harness.db, "", 10, weights, harness.model.count), TERN_OK);
    assert_int_equal(tern_db_begin(harness.db), TERN_OK);
    assert_int_equal(tern_db_label_drop(harness.db, "ten"), TERN_OK);
    while (more) {
        assert_int_equal(tern_db_pinned_drop_some(harness.db, &more), TERN_OK);
    }
    assert_int_equal(tern_db_commit(harness.db), TERN_OK);
    assert_int_equal(tern_db_counts(harness.db, 0, &counts), TERN_OK);
    assert_true(counts.rounds_pruned >=
                version_row(15).round); // the restored round needs them no more
    assert_int_equal(tern_db_pinned_get(harness.db, "", 10, weights, harness.model.count),
                     TERN_ERR_NOT_FOUND);
    free(weights);
}

// An order for weights that are missing, or that were made for another version, is dropped with a warning.
TEST(test_an_order_that_cannot_be_executed_is_dropped)
{
    struct tern_db_order order;
    do_history(11);
    open_store();
    put_order(harness.db, 9, true);
    harness_start(&harness);
    do_rounds(1);
    open_store();
    assert_int_equal(newest(), 12);
    assert_int_equal(tern_db_order_get(harness.db, &order), TERN_ERR_NOT_FOUND);
    expect_audited("order-outdated");
    expect_replay();
}

// Waits until the running service has made the version.
static void await_version(uint32_t version)
{
    struct tern_db_version row = {.version = 0};
    struct tern_db *db = harness_look(&harness);
    while (row.version < version) {
        sched_yield();
        assert_int_equal(tern_db_version_last(db, &row), TERN_OK);
    }
    tern_db_close(db);
}

// --- Rejections

static uint32_t members; // clients 1 to this one take part in each round

static void set_members(uint32_t count)
{
    members = count;
    harness.config.federation.round.cohort = count;
    harness.config.federation.min_clients = count;
}

static void do_rounds_of_members(uint32_t count)
{
    harness_start(&harness);
    for (uint32_t i = 0; i < count; i++) {
        for (uint32_t client = 1; client <= members; client++) {
            do_round(&harness, client, NULL, (float)(client * client + i));
        }
    }
    open_store();
}

// Orders what `reject` orders, for all rounds of the last member, and revokes it.
static void reject_last_member(void)
{
    const struct tern_db_rejection rejection = {members, 1, 99, NULL};
    struct tern_db_order order = {
        .strategy = "reject", .reason = "test", .restored = newest(), .base_version = newest()};
    uint32_t empty;
    uint32_t failed;
    begin_merge(harness.db);
    assert_int_equal(
        tern_replay_without(harness.db, &merge, &rejection, UINT32_MAX, &empty, &failed), TERN_OK);
    assert_int_equal(empty, 0);
    tern_rejection_format(&rejection, order.strategy_parameters);
    order.ready = true;
    assert_int_equal(tern_db_begin(harness.db), TERN_OK);
    assert_int_equal(tern_db_order_put(harness.db, &order), TERN_OK);
    pin(harness.db, order.strategy_parameters, order.restored);
    assert_int_equal(tern_db_client_revoke(harness.db, members), TERN_OK);
    assert_int_equal(tern_db_commit(harness.db), TERN_OK);
    tern_merge_free(&merge);
    set_members(members - 1);
}

static void await_restored(uint32_t version)
{
    harness_start(&harness);
    await_version(version);
    open_store();
}

static void begin_with_members(uint32_t count)
{
    set_members(count);
    begin_with(count);
    open_store();
}

static void expect_model(uint32_t version, const uint8_t model[TERN_SHA256_SIZE])
{
    assert_int_equal(newest(), version);
    assert_memory_equal(version_row(version).model_sha256, model, TERN_SHA256_SIZE);
}

static void expect_rejections(uint32_t count)
{
    struct tern_replay_report report;
    char why[256];
    if (tern_replay(harness.db, NULL, NULL, &report, why) != TERN_OK) {
        fail_msg("%s", why);
    }
    assert_int_equal(report.rejections, count);
}

// Ends this federation, and begins another one with two more clients. Returns the newest version.
static struct tern_db_version begin_another(void)
{
    const struct tern_db_version last = version_row(newest());
    teardown(NULL);
    setup(NULL);
    begin_with_members(3);
    return last;
}

TEST(test_two_clients_are_rejected_one_after_the_other)
{
    begin_with_members(1);
    do_rounds_of_members(4);
    const struct tern_db_version wanted = begin_another();
    do_rounds_of_members(4);
    reject_last_member();
    await_restored(5);
    reject_last_member();
    await_restored(6);
    expect_model(6, wanted.model_sha256);
    expect_rejections(2);
}

// A rollback to the result of a rejection, and rounds after both.
TEST(test_a_client_is_rejected_after_a_rollback)
{
    begin_with_members(1);
    do_rounds_of_members(4);
    pin_newest(harness.db, "four");
    put_order(harness.db, 4, true);
    await_restored(5); // momentum begins anew, as after a rejection
    do_rounds_of_members(1);
    const struct tern_db_version wanted = begin_another();
    do_rounds_of_members(4);
    reject_last_member();
    await_restored(5);
    pin_newest(harness.db, "five");
    do_rounds_of_members(2);
    put_order(harness.db, 5, true);
    await_restored(8);
    do_rounds_of_members(1);
    reject_last_member();
    await_restored(10);
    expect_model(10, wanted.model_sha256);
    expect_rejections(2);
}

// --- After the last round

// Checks in after the end. checkin() holds no replica.
static bool is_offered_final_model(enum tern_final_model who)
{
    harness.config.federation.final_model = who;
    harness_start(&harness);
    const tern_CheckinReply reply = checkin(&harness, 1, NULL);
    open_store();
    const struct tern_db_version last = version_row(newest());
    assert_true(reply.finished);
    assert_memory_equal(reply.final_model_hash.bytes, last.model_sha256, TERN_SHA256_SIZE);
    return reply.has_final_model;
}

// Replicas are of undone versions: clients that are no evaluators get the model, too.
TEST(test_a_finished_federation_sends_the_restored_version)
{
    harness.config.federation.round.rounds = 3;
    harness_start_with(&harness, 2);
    do_rounds(2);
    open_store();
    assert_int_equal(pin_newest(harness.db, "two"), 2);
    harness_start(&harness);
    do_rounds(1);
    open_store();
    assert_false(is_offered_final_model(TERN_FINAL_MODEL_EVALUATORS));
    put_order(harness.db, 2, true);
    harness_start(&harness);
    await_version(4);
    open_store();
    assert_true(is_offered_final_model(TERN_FINAL_MODEL_EVALUATORS));
    expect_restored(4, 2);
    assert_false(is_offered_final_model(TERN_FINAL_MODEL_NONE));
}

// --- During a checkpoint

static int setup_large(void **state)
{
    (void)state;
    harness_make_model(&harness, "softmax:65536-10"); // a checkpoint has 5 parts of 1 MiB
    return 0;
}

static bool is_ordered;

// A strategy's step, on the thread that merges: the order comes during the first merge.
static void order_the_first_version(struct tern_strategy_sums *sums)
{
    (void)sums;
    if (!is_ordered) {
        is_ordered = true;
        struct tern_db *db = harness_look(&harness);
        put_order(db, 0, true);
        tern_db_close(db);
    }
}

// The order waits for the merge and its checkpoint. No round opens meanwhile, which the order would abandon.
CASE_WITH(test_no_round_opens_before_the_restored_one, setup_large, teardown)
{
    struct tern_strategy ordering = tern_strategy_fedavg;
    ordering.step = order_the_first_version;
    harness.config.federation.strategy = &ordering;
    is_ordered = false;
    harness_start_with(&harness, 2);
    struct tern_db *db = harness_look(&harness);
    pin_newest(db, "first");
    tern_db_close(db);
    do_rounds(1);
    await_version(2);
    open_store();
    expect_restored(2, 0);
    assert_int_equal(version_row(2).round, 2); // the round after the merged one
    expect_replay();
}

// --- The version that evaluators rate best

// Waits for the version's merge.
static void await(uint32_t version)
{
    struct tern_db *db = harness_look(&harness);
    struct tern_db_version row = {.version = 0};
    while (row.version < version) {
        sched_yield();
        assert_int_equal(tern_db_version_last(db, &row), TERN_OK);
    }
    tern_db_close(db);
}

static void rate(uint64_t evaluator, uint32_t version, float accuracy)
{
    tern_CheckinRequest request = tern_CheckinRequest_init_zero;
    request.has_evaluation = true;
    request.evaluation.version = version;
    request.evaluation.num_examples = 100;
    request.evaluation.accuracy = accuracy;
    (void)checkin_with(&harness, evaluator, &request);
}

static uint32_t best_version(void)
{
    struct tern_db_label label = {.version = UINT32_MAX};
    struct tern_db *db = harness_look(&harness);
    assert_int_equal(tern_db_may_miss(tern_db_label_get(db, TERN_LABEL_BEST, &label)), TERN_OK);
    tern_db_close(db);
    return label.version;
}

// The label is given once a checkpoint is stored.
static void await_best(uint32_t version)
{
    while (best_version() != version) {
        sched_yield();
    }
}

static bool is_pinned(uint32_t version)
{
    bool whole = false;
    struct tern_db *db = harness_look(&harness);
    assert_int_equal(tern_db_pinned_is_whole(db, "", version, &whole), TERN_OK);
    tern_db_close(db);
    return whole;
}

static void expect_pinned(uint32_t version)
{
    float *weights = calloc(harness.model.count, sizeof *weights);
    uint8_t sha256[TERN_SHA256_SIZE];
    struct tern_db_version row;
    struct tern_db *db = harness_look(&harness);
    assert_non_null(weights);
    assert_int_equal(tern_db_pinned_get(db, "", version, weights, harness.model.count), TERN_OK);
    assert_int_equal(tern_db_version_get(db, version, &row), TERN_OK);
    tern_db_close(db);
    tern_merge_hash(weights, harness.model.count, sha256);
    assert_memory_equal(sha256, row.model_sha256, sizeof sha256);
    free(weights);
}

// Evaluators report some rounds late. The best version outlives retention, until a better one comes.
TEST(test_the_best_version_survives_pruning)
{
    struct tern_db_counts counts;
    harness.config.federation.limits.history = 1;
    begin();
    const uint64_t evaluator = enroll(&harness, true);
    do_rounds(4);
    await(4);
    rate(evaluator, 2, 0.9F);
    rate(evaluator, 1, 0.5F);
    rate(evaluator, 3, 0.7F);
    assert_int_equal(best_version(), 2);
    do_rounds(30);
    await(34);
    open_store();
    assert_int_equal(tern_db_counts(harness.db, 0, &counts), TERN_OK);
    assert_true(counts.rounds_pruned >= 20);
    assert_int_equal(best_version(), 2);
    expect_pinned(2);
    assert_false(is_pinned(3)); // not for longer than reports may take
    assert_true(is_pinned(33));
    harness_start(&harness);
    rate(evaluator, 34, 0.95F);
    rate(evaluator, 33, 0.8F);
    do_rounds(2);
    await(36);
    open_store();
    assert_int_equal(best_version(), 34);
    expect_pinned(34);
    assert_false(is_pinned(2));
    harness_start(&harness);
    rate(evaluator, 34, 0.1F); // the same evaluator thinks again: the others are compared anew
    do_rounds(1);
    await(37);
    open_store();
    assert_int_equal(best_version(), 33); // 2 was better, and its weights are gone
    expect_pinned(33);
}

// Without evaluators no version is the best, and no weights are stored for it.
TEST(test_without_evaluators_nothing_is_pinned)
{
    begin();
    do_rounds(3);
    await(3);
    assert_int_equal(best_version(), UINT32_MAX);
    assert_false(is_pinned(3));
}

static int setup_larger(void **state)
{
    (void)state;
    harness_make_model(&harness, "softmax:131072-10"); // 6 parts of 1 MiB
    return 0;
}

// A large model is pinned only once evaluators rate it best, and a kill in between changes nothing.
CASE_WITH(test_a_large_version_is_pinned_when_it_is_the_best, setup_larger, teardown)
{
    harness_start_with(&harness, 2);
    const uint64_t evaluator = enroll(&harness, true);
    do_rounds(1);
    await(1);
    rate(evaluator, 1, 0.5F);
    await_best(1);
    harness_restart(&harness);
    do_rounds(1);
    await(2);
    expect_pinned(1);
    do_rounds(1);
    await(3);
    assert_false(is_pinned(2));
    rate(evaluator, 2, 0.9F); // too late: its weights are gone
    assert_int_equal(best_version(), 1);
    rate(evaluator, 3, 0.8F);
    await_best(3);
    do_rounds(1);
    await(4);
    expect_pinned(3);
}

// --- Error buffers

static tern_CheckinReply checkin_with_buffer(uint64_t client, uint32_t sequence, float norm)
{
    tern_CheckinRequest request = tern_CheckinRequest_init_zero;
    request.has_error = true;
    request.error = (tern_ErrorFacts){
        .generation = 0xa0 + (uint32_t)client, .sequence = sequence, .norm = norm, .maximum = norm};
    return checkin_with(&harness, client, &request);
}

// A gateway has no buffer of its own here, but its devices may have.
static tern_CheckinReply checkin_of_gateway(uint64_t client, uint32_t sequence)
{
    tern_CheckinRequest request = tern_CheckinRequest_init_zero;
    request.abilities = TERN_WIRE_PASSES_RESETS;
    request.has_error = true;
    request.error.generation = 0xa0 + (uint32_t)client;
    request.error.sequence = sequence;
    return checkin_with(&harness, client, &request);
}

static void report(uint64_t client, const tern_Task *task)
{
    uint8_t *body;
    const size_t len = encode_update(&harness, task, 1.0F, 10, &body);
    answer_expect(put_update(&harness, client, task->round, 1, body, len), 200);
    free(body);
}

// Each client resets once, and only what it had before.
TEST(test_error_buffers_are_reset_once)
{
    do_history(11);
    open_store();
    put_order(harness.db, 10, true);
    harness_start(&harness);
    tern_CheckinReply filled = checkin_with_buffer(1, 11, 0.5F);
    tern_CheckinReply empty = checkin_with_buffer(2, 11, 0.0F);
    assert_true(filled.has_task && empty.has_task);
    assert_int_equal(filled.task.error_directive, tern_ErrorDirective_ERROR_RESET);
    assert_int_not_equal(empty.task.error_directive, tern_ErrorDirective_ERROR_RESET);
    report(1, &filled.task);
    report(2, &empty.task);
    filled = checkin_with_buffer(1, 12, 0.5F);
    assert_true(filled.has_task);
    assert_int_not_equal(filled.task.error_directive, tern_ErrorDirective_ERROR_RESET);
}

TEST(test_gateways_get_a_reset_for_their_devices_once)
{
    do_history(11);
    open_store();
    put_order(harness.db, 10, true);
    harness_start(&harness);
    tern_CheckinReply gateway = checkin_of_gateway(1, 11);
    tern_CheckinReply device = checkin_with_buffer(2, 11, 0.0F);
    assert_true(gateway.has_task && device.has_task);
    assert_int_equal(gateway.task.error_directive, tern_ErrorDirective_ERROR_RESET);
    assert_int_not_equal(device.task.error_directive, tern_ErrorDirective_ERROR_RESET);
    report(1, &gateway.task);
    report(2, &device.task);
    gateway = checkin_of_gateway(1, 12);
    assert_true(gateway.has_task);
    assert_int_not_equal(gateway.task.error_directive, tern_ErrorDirective_ERROR_RESET);
}
