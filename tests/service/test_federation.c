// Whole rounds through the service: tasks, updates, commits, catching up, restarts and the replay.
#include "harness.h"

#include "merge/replay.h"
#include "util/bytes.h"
#include <stdlib.h>
#include <string.h>

#include "one_harness.h"
#include "store/run_sql.h"
#include "tests/cases.h"

#define TEST(name) CASE_WITH(name, setup, teardown)

TEST(test_a_round_moves_the_model)
{
    float weights[2000];
    uint8_t replica[TERN_SHA256_SIZE];
    harness_start(&harness);
    uint64_t one = enroll(&harness, false);
    assert_false(checkin(&harness, one, NULL).has_task); // one client is too few
    uint64_t two = enroll(&harness, false);

    assert_false(do_round(&harness, one, NULL, 0.5F).next.has_task);
    tern_UpdateReply reply = do_round(&harness, two, NULL, 1.5F);
    // The last update of a round carries the next task: a warm round needs no check-in.
    assert_true(reply.next.has_task);
    assert_int_equal(reply.next.task.round, 2);
    assert_int_equal(reply.next.task.downloads_count, 1);
    assert_int_equal(reply.next.task.local_steps, 5);

    seed_replica(&harness, replica, weights);
    float before = weights[3];
    apply_downloads(&harness, &reply.next.task, weights, replica, harness.tokens[two]);
    assert_true(weights[3] == before + 1.0F); // float32 both ways: the plain mean
}

static struct tern_db_round last_round(void)
{
    struct tern_db *db = NULL;
    struct tern_db_round row;
    char why[256];
    assert_int_equal(tern_db_open(harness.path, 0, &db, why), TERN_OK);
    assert_int_equal(tern_db_round_last(db, &row), TERN_OK);
    tern_db_close(db);
    return row;
}

// A round of half of two clients, then one of half of seven.
static void expect_targets(uint32_t first, uint32_t second)
{
    harness.config.federation.round.cohort = 1;
    harness.config.federation.round.fraction = 0.5;
    harness.config.federation.round.over_selection = 10.0; // all are invited
    harness_start(&harness);
    for (int i = 0; i < 2; i++) {
        checkin(&harness, enroll(&harness, false), NULL);
    }
    assert_int_equal(last_round().target, first);
    for (int i = 0; i < 5; i++) {
        checkin(&harness, enroll(&harness, false), NULL);
    }
    harness_restart(&harness); // the open round keeps what it was opened with
    do_round(&harness, 1, NULL, 0.5F);
    assert_int_equal(last_round().round, 2);
    assert_int_equal(last_round().target, second);
    assert_int_equal(last_round().quorum, (second + 1) / 2);
}

TEST(test_a_share_of_the_clients_grows_with_them)
{
    expect_targets(1, 4);
}

// 650 values of as many updates, eleven times as many as are wanted, as fit 16 times into memory.
TEST(test_a_share_is_no_larger_than_its_strategy_can_merge)
{
    harness.config.federation.strategy = &tern_strategy_fedmedian;
    harness.config.federation.strategy_memory = 650 * 4 * 11 * 3 / 16 + 1;
    expect_targets(1, 3);
}

TEST(test_examples_weigh)
{
    float weights[2000];
    uint8_t replica[TERN_SHA256_SIZE];
    uint8_t *body;
    harness_start(&harness);
    uint64_t one = enroll(&harness, false);
    uint64_t two = enroll(&harness, false);
    tern_CheckinReply task = checkin(&harness, one, NULL);
    size_t len = encode_update(&harness, &task.task, 4.0F, 30, &body);
    answer_expect(put_update(&harness, one, 1, 1, body, len), 200);
    free(body);
    do_round(&harness, two, NULL, 0.0F); // 10 examples

    seed_replica(&harness, replica, weights);
    float before = weights[0];
    task = checkin(&harness, one, replica);
    apply_downloads(&harness, &task.task, weights, replica, harness.tokens[one]);
    assert_true(weights[0] == before + 3.0F);
}

static void run_rounds(unsigned rounds, const uint64_t clients[2])
{
    for (unsigned i = 0; i < rounds; i++) {
        do_round(&harness, clients[0], NULL, 0.25F * (float)(i + 1));
        do_round(&harness, clients[1], NULL, -0.125F);
    }
}

TEST(test_catching_up_takes_what_is_smaller)
{
    float weights[2000];
    uint8_t replica[TERN_SHA256_SIZE];
    harness.config.federation.downloads.codec =
        (struct tern_codec){.id = TERN_CODEC_3LC, .sparsity = 1.0F};
    harness_start(&harness);
    uint64_t clients[2] = {enroll(&harness, false), enroll(&harness, false)};
    run_rounds(3, clients);

    // Three small deltas from the seed.
    seed_replica(&harness, replica, weights);
    tern_CheckinReply chain = checkin(&harness, clients[0], replica);
    assert_int_equal(chain.task.downloads_count, 3);
    apply_downloads(&harness, &chain.task, weights, replica, harness.tokens[clients[0]]);

    // From a replica that nobody knows: a snapshot, with the same bits.
    float whole[2000];
    uint8_t other[TERN_SHA256_SIZE] = {1, 2, 3};
    tern_CheckinReply snapshot = checkin(&harness, clients[1], other);
    assert_int_equal(snapshot.task.downloads_count, 1);
    apply_downloads(&harness, &snapshot.task, whole, other, harness.tokens[clients[1]]);
    assert_memory_equal(whole, weights, harness.model.count * sizeof(float));
    assert_memory_equal(other, replica, TERN_SHA256_SIZE);

    // One that is there already needs nothing.
    assert_int_equal(checkin(&harness, clients[0], replica).task.downloads_count, 0);
}

TEST(test_many_dense_deltas_cost_more_than_a_snapshot)
{
    harness_start(&harness);
    uint64_t clients[2] = {enroll(&harness, false), enroll(&harness, false)};
    run_rounds(2, clients);
    tern_CheckinReply reply = checkin(&harness, clients[0], NULL);
    assert_int_equal(reply.task.downloads_count, 1);
    assert_int_equal(reply.task.base_version, 2);
}

TEST(test_restart_anywhere_changes_nothing)
{
    uint8_t *body;
    harness_start(&harness);
    uint64_t clients[2] = {enroll(&harness, false), enroll(&harness, false)};
    harness_restart(&harness);
    tern_CheckinReply task = checkin(&harness, clients[0], NULL);
    harness_restart(&harness);
    tern_CheckinReply again = checkin(&harness, clients[0], NULL);
    assert_int_equal(again.task.round, task.task.round);
    assert_int_equal(again.task.local_steps, task.task.local_steps);
    size_t len = encode_update(&harness, &task.task, 0.5F, 10, &body);
    struct answer answer = put_update(&harness, clients[0], 1, 1, body, len);
    answer_expect(answer, 200);
    harness_restart(&harness);
    // Its update is still there, once.
    tern_UpdateReply reply;
    answer = put_update(&harness, clients[0], 1, 1, body, len);
    assert_int_equal(answer.status, 200);
    assert_int_equal(tern_wire_decode_update_reply(answer.body->data, answer.body->len, &reply),
                     TERN_OK);
    assert_int_equal(reply.status, tern_UpdateStatus_UPDATE_DUPLICATE);
    answer_free(&answer);
    do_round(&harness, clients[1], NULL, 0.5F);
    harness_restart(&harness);
    task = checkin(&harness, clients[0], NULL);
    assert_int_equal(task.task.round, 2);
    assert_int_equal(task.task.base_version, 1);
    // After the commit too, the same bytes are a duplicate.
    answer_expect(put_update(&harness, clients[0], 1, 1, body, len), 200);
    free(body);
}

TEST(test_replay_gives_the_same_bits)
{
    struct tern_replay_report report;
    char why[256] = "";
    harness.config.federation.codec_up =
        (struct tern_codec){.id = TERN_CODEC_3LC, .sparsity = 1.0F};
    harness.config.federation.downloads.codec =
        (struct tern_codec){.id = TERN_CODEC_3LC, .sparsity = 1.5F};
    harness_start(&harness);
    uint64_t clients[2] = {enroll(&harness, false), enroll(&harness, false)};
    run_rounds(2, clients);
    // Another configuration from here on must not change what was.
    harness_stop(&harness);
    harness.config.federation.server_learning_rate = 0.5F;
    harness.config.federation.downloads.codec =
        (struct tern_codec){.id = TERN_CODEC_FLOAT16, .sparsity = 1.0F};
    harness_start(&harness);
    run_rounds(2, clients);
    harness_stop(&harness);

    assert_int_equal(tern_db_open(harness.path, 0, &harness.db, why), TERN_OK);
    assert_int_equal(tern_replay(harness.db, NULL, NULL, &report, why), TERN_OK);
    assert_int_equal(report.rounds, 4);
    assert_int_equal(report.updates, 8);
    assert_int_equal(report.differs, 0);

    // A version that was tampered with is found.
    struct tern_db_version version;
    assert_int_equal(tern_db_version_get(harness.db, 3, &version), TERN_OK);
    version.model_sha256[0] ^= 1;
    assert_int_equal(tern_db_begin(harness.db), TERN_OK);
    assert_int_equal(tern_db_version_put(harness.db, &version), TERN_OK);
    assert_int_equal(tern_db_commit(harness.db), TERN_OK);
    assert_int_equal(tern_replay(harness.db, NULL, NULL, &report, why), TERN_ERR_CORRUPT);
    assert_int_equal(report.differs, 3);
    assert_non_null(strstr(why, "version 3"));
}

TEST(test_finished_tells_the_final_model)
{
    struct tern_db_version version;
    harness.config.federation.round.rounds = 2;
    harness_start(&harness);
    uint64_t clients[2] = {enroll(&harness, false), enroll(&harness, false)};
    do_round(&harness, clients[0], NULL, 0.5F);
    do_round(&harness, clients[1], NULL, 0.5F);
    do_round(&harness, clients[0], NULL, 0.5F);
    tern_UpdateReply reply = do_round(&harness, clients[1], NULL, 0.5F);
    assert_true(reply.next.finished);
    tern_CheckinReply last = checkin(&harness, clients[0], NULL);
    assert_true(last.finished);
    harness_restart(&harness);
    assert_true(checkin(&harness, clients[0], NULL).finished);
    harness_stop(&harness);
    char why[256];
    assert_int_equal(tern_db_open(harness.path, 0, &harness.db, why), TERN_OK);
    assert_int_equal(tern_db_version_get(harness.db, 2, &version), TERN_OK);
    assert_memory_equal(last.final_model_hash.bytes, version.model_sha256, TERN_SHA256_SIZE);
}

static tern_CheckinReply report_evaluation(uint64_t client, const uint8_t *replica,
                                           uint32_t version)
{
    tern_CheckinRequest request = tern_CheckinRequest_init_zero;
    request.replica.size = TERN_WIRE_REPLICA_BYTES;
    memcpy(request.replica.bytes, replica, TERN_WIRE_REPLICA_BYTES);
    request.version = version;
    request.has_evaluation = true;
    request.evaluation.version = version;
    request.evaluation.num_examples = 100;
    request.evaluation.accuracy = 0.5F;
    request.evaluation.metrics_count = 1;
    strcpy(request.evaluation.metrics[0].name, "f1_macro");
    request.evaluation.metrics[0].value = 0.25F * (float)version;
    return checkin_with(&harness, client, &request);
}

static unsigned count_evaluations(void)
{
    unsigned count = 0;
    struct tern_db_evaluation evaluation;
    struct tern_db_rows *rows = tern_db_evaluations_from(harness.db, 0);
    while (tern_db_next(rows, &evaluation)) {
        count += evaluation.accuracy == 0.5F;
    }
    assert_int_equal(tern_db_end(rows), TERN_OK);
    return count;
}

// What is answered without the store, within a second.
static void check_evaluated(uint32_t version)
{
    struct tern_service_facts facts;
    tern_service_facts(harness.service, &facts);
    const struct tern_accuracy *evaluated = &facts.federation.evaluated;
    assert_int_equal(evaluated->version, version);
    assert_int_equal(evaluated->num_examples, version > 0 ? 100 : 0);
    assert_int_equal(evaluated->metric_count, version > 0);
    if (version > 0) {
        assert_true(evaluated->accuracy == 0.5);
        assert_string_equal(evaluated->metrics[0].name, "f1_macro");
        assert_true(evaluated->metrics[0].value == 0.25 * (double)version);
    }
}

TEST(test_evaluators_see_each_version)
{
    float weights[2000];
    uint8_t replica[TERN_SHA256_SIZE];
    harness.config.federation.round.rounds = 3;
    harness_start(&harness);
    uint64_t evaluator = enroll(&harness, true);
    uint64_t clients[2] = {enroll(&harness, false), enroll(&harness, false)};
    seed_replica(&harness, replica, weights);
    assert_false(checkin(&harness, evaluator, replica).has_task);
    run_rounds(3, clients);

    tern_CheckinReply reply = checkin(&harness, evaluator, replica);
    check_evaluated(0);
    for (uint32_t version = 1; version <= 3; version++) {
        assert_true(reply.has_task);
        assert_int_equal(reply.task.kind, tern_TaskKind_TASK_EVALUATE);
        assert_int_equal(reply.task.base_version, version);
        assert_int_equal(reply.task.downloads_count, 1);
        apply_downloads(&harness, &reply.task, weights, replica, harness.tokens[evaluator]);
        test_advance(1000);
        reply = report_evaluation(evaluator, replica, version);
        check_evaluated(version);
    }
    assert_true(reply.finished);
    harness_stop(&harness);
    harness_start(&harness);
    check_evaluated(3);
    harness_stop(&harness);
    char why[256];
    assert_int_equal(tern_db_open(harness.path, 0, &harness.db, why), TERN_OK);
    assert_int_equal(count_evaluations(), 3);
}

// The last download of the reply, as a task's.
static void apply_final(uint64_t client, const tern_CheckinReply *reply, float *weights,
                        uint8_t replica[TERN_SHA256_SIZE])
{
    uint8_t hash[TERN_SHA256_SIZE];
    tern_Task task = tern_Task_init_zero;
    assert_true(reply->finished);
    assert_true(reply->has_final_model);
    task.downloads_count = 1;
    task.downloads[0] = reply->final_model;
    tern_Download download;
    struct tern_span container;
    char path[TERN_PATH_MAX];
    tern_path_download(reply->final_model.sha256.bytes, path);
    struct answer answer = call(&harness, "GET", path, harness.tokens[client], NULL, 0);
    assert_int_equal(answer.status, 200);
    assert_int_equal(answer.body->len, reply->final_model.size);
    assert_int_equal(
        tern_wire_decode_download(answer.body->data, answer.body->len, &download, &container),
        TERN_OK);
    task.base.size = TERN_WIRE_REPLICA_BYTES;
    memcpy(task.base.bytes, download.to.bytes, TERN_WIRE_REPLICA_BYTES);
    answer_free(&answer);
    apply_downloads(&harness, &task, weights, replica, harness.tokens[client]);
    tern_sha256(weights, harness.model.count * sizeof weights[0], hash);
    assert_memory_equal(hash, reply->final_model_hash.bytes, TERN_SHA256_SIZE);
}

// Rounds whose downloads leave something out.
static void run_compressed_rounds(uint32_t rounds, const uint64_t *clients)
{
    for (uint32_t i = 0; i < rounds; i++) {
        (void)do_round(&harness, clients[0], NULL, 0.5F);
        (void)do_round(&harness, clients[1], NULL, i % 2 == 0 ? 0.25F : 0.125F);
    }
}

static void compress_downloads(void)
{
    harness.config.federation.downloads.codec =
        (struct tern_codec){.id = TERN_CODEC_3LC, .sparsity = 1.75F};
}

// As after a crash within the second until the rows of clients are written.
static void forget_what_is_held(uint64_t client)
{
    char sql[256];
    harness_stop(&harness);
    snprintf(sql, sizeof sql,
             "UPDATE clients SET version = 1, replica = (SELECT replica FROM versions"
             " WHERE version = 1) WHERE id = %llu",
             (unsigned long long)client);
    run_sql(harness.path, sql);
    harness_start(&harness);
}

static tern_UpdateReply send_again(const char *method, uint64_t client, const uint8_t *body,
                                   size_t len)
{
    tern_UpdateReply reply;
    char path[TERN_PATH_MAX];
    tern_path_update(3, 3, path);
    struct answer answer = call(&harness, method, path, harness.tokens[client], body, len);
    assert_int_equal(answer.status, 200);
    assert_int_equal(tern_wire_decode_update_reply(answer.body->data, answer.body->len, &reply),
                     TERN_OK);
    answer_free(&answer);
    assert_int_equal(reply.status, tern_UpdateStatus_UPDATE_DUPLICATE);
    return reply;
}

// The next task that comes with the answer leads on from what the client trained from, and not from where it
// was before, which is all that its row still says.
TEST(test_an_update_that_comes_again_tells_what_is_held)
{
    float weights[2000];
    uint8_t replica[TERN_SHA256_SIZE];
    uint8_t *body;
    compress_downloads();
    harness_start(&harness);
    const uint64_t clients[] = {enroll(&harness, false), enroll(&harness, false)};
    run_compressed_rounds(2, clients);
    seed_replica(&harness, replica, weights);
    const tern_CheckinReply mine = checkin(&harness, clients[0], NULL);
    apply_downloads(&harness, &mine.task, weights, replica, harness.tokens[clients[0]]);
    assert_int_equal(mine.task.round, 3);
    const size_t len = encode_update(&harness, &mine.task, 0.5F, 10, &body);
    answer_expect(put_update(&harness, clients[0], 3, 3, body, len), 200);
    (void)do_round(&harness, clients[1], NULL, 0.25F);
    for (int asks = 0; asks < 2; asks++) {
        forget_what_is_held(clients[0]);
        const tern_UpdateReply reply = send_again(asks == 0 ? "PUT" : "GET", clients[0],
                                                  asks == 0 ? body : NULL, asks == 0 ? len : 0);
        assert_true(reply.next.has_task);
        assert_int_equal(reply.next.task.round, 4);
        assert_int_equal(reply.next.task.downloads_count, 1);
        float on[2000];
        uint8_t then[TERN_SHA256_SIZE];
        memcpy(on, weights, sizeof on);
        memcpy(then, replica, sizeof then);
        apply_downloads(&harness, &reply.next.task, on, then, harness.tokens[clients[0]]);
    }
    free(body);
}

// After the last version an evaluator reports the replica, and then the global model itself.
TEST(test_evaluators_end_with_the_global_model)
{
    float weights[2000];
    uint8_t replica[TERN_SHA256_SIZE];
    char why[256];
    compress_downloads();
    harness.config.federation.round.rounds = 2;
    harness.config.federation.final_model = TERN_FINAL_MODEL_EVALUATORS;
    harness_start(&harness);
    uint64_t evaluator = enroll(&harness, true);
    uint64_t clients[2] = {enroll(&harness, false), enroll(&harness, false)};
    run_compressed_rounds(2, clients);
    seed_replica(&harness, replica, weights);
    tern_CheckinReply reply = checkin(&harness, evaluator, replica);
    for (uint32_t version = 1; version <= 2; version++) {
        assert_true(reply.has_task);
        apply_downloads(&harness, &reply.task, weights, replica, harness.tokens[evaluator]);
        reply = report_evaluation(evaluator, replica, version);
    }
    apply_final(evaluator, &reply, weights, replica);
    harness_restart(&harness); // the same weights have the same name
    reply = report_evaluation(evaluator, replica, 2);
    assert_true(reply.finished);
    assert_false(reply.has_final_model);
    assert_false(checkin(&harness, clients[0], NULL).has_final_model);
    harness_stop(&harness);

    assert_int_equal(tern_db_open(harness.path, 0, &harness.db, why), TERN_OK);
    static const struct {
        uint32_t version;
        enum tern_db_evaluated model;
    } expected[] = {
        {1, TERN_EVALUATED_REPLICA}, {2, TERN_EVALUATED_REPLICA}, {2, TERN_EVALUATED_GLOBAL}};
    struct tern_db_evaluation row;
    struct tern_db_rows *rows = tern_db_evaluations_from(harness.db, 0);
    for (size_t i = 0; i < 3; i++) {
        assert_true(tern_db_next(rows, &row));
        assert_int_equal(row.version, expected[i].version);
        assert_int_equal(row.model, expected[i].model);
        assert_false(row.late);
    }
    assert_false(tern_db_next(rows, &row));
    assert_int_equal(tern_db_end(rows), TERN_OK);
}

// Who is asked to evaluate again what it holds already: once.
TEST(test_a_lost_evaluation_of_the_global_model_is_asked_for_again)
{
    float weights[2000];
    uint8_t replica[TERN_SHA256_SIZE];
    compress_downloads();
    harness.config.federation.round.rounds = 1;
    harness.config.federation.final_model = TERN_FINAL_MODEL_ALL;
    harness_start(&harness);
    uint64_t evaluator = enroll(&harness, true);
    uint64_t clients[2] = {enroll(&harness, false), enroll(&harness, false)};
    run_compressed_rounds(1, clients);
    seed_replica(&harness, replica, weights);
    tern_CheckinReply reply = checkin(&harness, evaluator, replica);
    apply_downloads(&harness, &reply.task, weights, replica, harness.tokens[evaluator]);
    reply = report_evaluation(evaluator, replica, 1);
    apply_final(evaluator, &reply, weights, replica);
    tern_CheckinRequest request = tern_CheckinRequest_init_zero;
    request.replica.size = TERN_WIRE_REPLICA_BYTES;
    memcpy(request.replica.bytes, replica, TERN_WIRE_REPLICA_BYTES);
    request.version = 1;
    reply = checkin_with(&harness, evaluator, &request);
    assert_true(reply.has_task);
    assert_int_equal(reply.task.kind, tern_TaskKind_TASK_EVALUATE);
    assert_int_equal(reply.task.downloads_count, 0);
    assert_memory_equal(reply.task.base.bytes, replica, TERN_WIRE_REPLICA_BYTES);
    assert_true(checkin_with(&harness, evaluator, &request).finished);

    seed_replica(&harness, replica, weights); // who trains gets the same download
    reply = checkin(&harness, clients[0], replica);
    apply_final(clients[0], &reply, weights, replica);
}

// What an evaluator finds of versions that were made before it enrolled is marked.
TEST(test_evaluations_of_earlier_versions_are_late)
{
    float weights[2000];
    uint8_t replica[TERN_SHA256_SIZE];
    char why[256];
    harness_start(&harness);
    uint64_t clients[2] = {enroll(&harness, false), enroll(&harness, false)};
    run_rounds(1, clients);
    test_advance(1000);
    uint64_t evaluator = enroll(&harness, true);
    test_advance(1000);
    run_rounds(1, clients);
    seed_replica(&harness, replica, weights);
    tern_CheckinReply reply = checkin(&harness, evaluator, replica);
    for (uint32_t version = 1; version <= 2; version++) {
        apply_downloads(&harness, &reply.task, weights, replica, harness.tokens[evaluator]);
        reply = report_evaluation(evaluator, replica, version);
    }
    harness_stop(&harness);
    assert_int_equal(tern_db_open(harness.path, 0, &harness.db, why), TERN_OK);
    struct tern_db_evaluation row;
    struct tern_db_rows *rows = tern_db_evaluations_from(harness.db, 0);
    for (uint32_t version = 1; version <= 2; version++) {
        assert_true(tern_db_next(rows, &row));
        assert_int_equal(row.version, version);
        assert_int_equal(row.late, version == 1);
    }
    assert_int_equal(tern_db_end(rows), TERN_OK);
}

// A training client must not be able to set the federation's accuracy.
TEST(test_only_evaluators_report_accuracy)
{
    float weights[2000];
    uint8_t replica[TERN_SHA256_SIZE];
    char why[256];
    harness_start(&harness);
    uint64_t client = enroll(&harness, false);
    seed_replica(&harness, replica, weights);
    (void)report_evaluation(client, replica, 0);
    harness_stop(&harness);
    assert_int_equal(tern_db_open(harness.path, 0, &harness.db, why), TERN_OK);
    assert_int_equal(count_evaluations(), 0);
}

TEST(test_ledger_follows_accepted_updates)
{
    struct tern_db_ledger ledger;
    char why[256];
    harness_start(&harness);
    uint64_t clients[2] = {enroll(&harness, false), enroll(&harness, false)};
    run_rounds(2, clients);
    harness_stop(&harness);
    assert_int_equal(tern_db_open(harness.path, 0, &harness.db, why), TERN_OK);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(tern_db_ledger_get(harness.db, clients[i], &ledger), TERN_OK);
        assert_int_equal(ledger.round, 2);
        assert_true(ledger.loss == 1.0F);
        assert_in_range(ledger.update_bytes, 650 * 4, 650 * 4 + TERN_WIRE_OVERHEAD);
    }
}

static void report_error(uint64_t client, uint32_t sequence, float norm)
{
    tern_CheckinRequest request = tern_CheckinRequest_init_zero;
    request.has_error = true;
    request.error = (tern_ErrorFacts){
        .generation = 9, .sequence = sequence, .norm = norm, .maximum = norm / 2.0F};
    checkin_with(&harness, client, &request);
}

// What a client gave back after a late update is known before its next update.
TEST(test_ledger_follows_checkins)
{
    struct tern_db_ledger ledger;
    struct tern_db *reader;
    char why[256];
    harness_start(&harness);
    uint64_t clients[3] = {enroll(&harness, false), enroll(&harness, false),
                           enroll(&harness, true)};
    assert_int_equal(tern_db_open(harness.path, 0, &reader, why), TERN_OK);
    report_error(clients[0], 0, 0.0F); // a new client has nothing to tell
    report_error(clients[2], 1, 1.0F); // nor has one that never trains
    assert_int_equal(tern_db_ledger_get(reader, clients[0], &ledger), TERN_OK);
    assert_true(ledger.generation == 0 && ledger.missed_from == 1); // but that it has its task
    assert_int_equal(tern_db_ledger_get(reader, clients[2], &ledger), TERN_ERR_NOT_FOUND);
    run_rounds(1, clients);
    report_error(clients[0], 3, 2.5F);
    assert_int_equal(tern_db_ledger_get(reader, clients[0], &ledger), TERN_OK);
    assert_int_equal(ledger.generation, 9);
    assert_int_equal(ledger.sequence, 3);
    assert_true(ledger.norm == 2.5F);
    assert_true(ledger.maximum == 1.25F);
    assert_int_equal(ledger.round, 1); // the update's facts stay
    assert_true(ledger.loss == 1.0F);
    (void)tern_db_changed_by_others(reader);
    report_error(clients[0], 3, 2.5F);
    assert_false(tern_db_changed_by_others(reader)); // nothing new, nothing written
    tern_db_close(reader);
}

TEST(test_lost_evaluation_is_asked_for_once_more)
{
    float weights[2000];
    uint8_t replica[TERN_SHA256_SIZE];
    harness_start(&harness);
    uint64_t evaluator = enroll(&harness, true);
    uint64_t clients[2] = {enroll(&harness, false), enroll(&harness, false)};
    run_rounds(1, clients);
    seed_replica(&harness, replica, weights);
    tern_CheckinReply reply = checkin(&harness, evaluator, replica);
    apply_downloads(&harness, &reply.task, weights, replica, harness.tokens[evaluator]);
    harness_restart(&harness);
    reply = checkin(&harness, evaluator, replica);
    assert_true(reply.has_task);
    assert_int_equal(reply.task.downloads_count, 0);
    assert_int_equal(reply.task.base_version, 1);
    // One that has no data to evaluate on is not asked for ever.
    assert_false(checkin(&harness, evaluator, replica).has_task);
}

TEST(test_held_checkin_gets_its_task_when_the_round_opens)
{
    uint8_t body[TERN_WIRE_MESSAGE_MAX];
    tern_CheckinReply reply;
    harness_start(&harness);
    uint64_t one = enroll(&harness, false);
    size_t len = encode_checkin(NULL, 20000, body);
    struct tern_http_exchange *held =
        call_begin(&harness, "POST", TERN_PATH_CHECKIN, harness.tokens[one], body, len);
    enroll(&harness, true); // answered in order: the check-in is held by now
    assert_false(call_is_done(held));
    enroll(&harness, false);
    struct answer answer = call_end(held);
    assert_int_equal(answer.status, 200);
    assert_int_equal(tern_wire_decode_checkin_reply(answer.body->data, answer.body->len, &reply,
                                                    &(struct tern_span){0}),
                     TERN_OK);
    assert_true(reply.has_task);
    answer_free(&answer);
}

// More than are answered in one transaction.
TEST(test_many_held_checkins_all_get_their_tasks)
{
    enum { MANY = 300 };
    static struct tern_http_exchange *held[MANY + 1];
    uint8_t body[TERN_WIRE_MESSAGE_MAX];
    size_t len = encode_checkin(NULL, 30000, body);
    harness.config.federation.min_clients = MANY + 1;
    harness.config.federation.round.cohort = MANY + 1;
    harness_start(&harness);
    for (uint64_t client = 1; client <= MANY; client++) {
        assert_int_equal(enroll(&harness, false), client);
        held[client] =
            call_begin(&harness, "POST", TERN_PATH_CHECKIN, harness.tokens[client], body, len);
    }
    enroll(&harness, false); // the round opens
    for (uint64_t client = 1; client <= MANY; client++) {
        tern_CheckinReply reply;
        struct tern_span downloads;
        struct answer answer = call_end(held[client]);
        assert_int_equal(answer.status, 200);
        assert_int_equal(
            tern_wire_decode_checkin_reply(answer.body->data, answer.body->len, &reply, &downloads),
            TERN_OK);
        assert_true(reply.has_task);
        answer_free(&answer);
    }
}

TEST(test_held_checkin_is_let_go)
{
    uint8_t body[TERN_WIRE_MESSAGE_MAX];
    harness_start(&harness);
    uint64_t one = enroll(&harness, false);
    size_t len = encode_checkin(NULL, 20000, body);
    struct tern_http_exchange *held =
        call_begin(&harness, "POST", TERN_PATH_CHECKIN, harness.tokens[one], body, len);
    enroll(&harness, true); // answered in order: the check-in is held by now
    test_advance(20001);    // its time is up
    struct answer answer = call_end(held);
    answer_expect(answer, 200);
    // A newer check-in of the same client takes the place of an older one.
    held = call_begin(&harness, "POST", TERN_PATH_CHECKIN, harness.tokens[one], body, len);
    enroll(&harness, true);
    checkin(&harness, one, NULL);
    answer_expect(call_end(held), 409);
    // Stopping answers what is held.
    held = call_begin(&harness, "POST", TERN_PATH_CHECKIN, harness.tokens[one], body, len);
    enroll(&harness, true);
    tern_service_quiesce(harness.service);
    answer_expect(call_end(held), 200);
}

// Whoever enrols and never comes is not waited for, and who is invited and does not come is replaced
// long before the deadline, and not counted on again until it does.
TEST(test_silent_clients_are_not_waited_for)
{
    uint64_t silent = 0;
    harness.config.federation.round.quorum = 1;
    harness_start_with(&harness, 3);
    for (uint64_t id = 1; id <= 3; id++) {
        silent = checkin(&harness, id, NULL).has_task ? silent : id;
    }
    for (int i = 0; i < 20; i++) {
        enroll(&harness, false);
    }
    test_advance(30001); // time to come, for who has just enrolled
    for (uint64_t id = 1; id <= 3; id++) {
        if (id != silent) {
            do_round(&harness, id, NULL, 1.0F);
        }
    }
    // One of the next round's two members may be the third client, which does not check in.
    for (int round = 2; round <= 6; round++) {
        bool done = false;
        for (int look = 0; look < 2 && !done; look++) {
            for (uint64_t id = 1; id <= 3; id++) {
                if (id != silent && checkin(&harness, id, NULL).has_task) {
                    do_round(&harness, id, NULL, 1.0F);
                }
            }
            done = last_round().round > (uint32_t)round;
            test_advance(done ? 0 : 15001); // a quarter of the deadline
        }
        assert_true(done);
    }
}

TEST(test_missing_clients_are_replaced_at_the_deadline)
{
    harness.config.federation.min_clients = 4;
    harness.config.federation.round.quorum = 2;
    harness_start_with(&harness, 4);
    unsigned first = 0;
    for (uint64_t id = 1; id <= 4; id++) {
        first += checkin(&harness, id, NULL).has_task;
    }
    assert_int_equal(first, 2);
    test_advance(60001);
    unsigned second = 0;
    for (uint64_t id = 1; id <= 4; id++) {
        second += checkin(&harness, id, NULL).has_task;
    }
    assert_int_equal(second, 4); // the new ones, and the old ones that came after all
    harness_restart(&harness);
    do_round(&harness, 1, NULL, 0.5F);
    do_round(&harness, 2, NULL, 0.5F);
    unsigned third = 0;
    for (uint64_t id = 1; id <= 4; id++) {
        tern_CheckinReply reply = checkin(&harness, id, NULL);
        third += reply.has_task && reply.task.round == 2 && reply.task.base_version == 1;
    }
    assert_int_equal(third, 2);
}
