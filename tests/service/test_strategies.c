// Strategies in the service: late updates that are buffered (FedBuff), what is carried from round
// to round, and what the start refuses.
#include "harness.h"

#include "merge/replay.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "one_harness.h"
#include "store/run_sql.h"
#include "store/store.h"
#include "tests/cases.h"
#include "watched_log.h"

#define COUNT 650 // values of MODEL

static void use(const struct tern_strategy *strategy)
{
    float *parameters = harness.config.federation.strategy_parameters;
    harness.config.federation.strategy = strategy;
    harness.config.federation.server_learning_rate = strategy->server_learning_rate;
    parameters[TERN_STRATEGY_SERVER_MOMENTUM] = 0.9F;
    parameters[TERN_STRATEGY_BETA1] = 0.9F;
    parameters[TERN_STRATEGY_BETA2] = 0.99F;
    parameters[TERN_STRATEGY_TAU] = 0.001F;
    parameters[TERN_STRATEGY_TRIM] = 0.2F;
    parameters[TERN_STRATEGY_ATTACKERS] = 0.2F;
    parameters[TERN_STRATEGY_STALENESS_MAX] = 10.0F;
}

static void open_store(void)
{
    char why[256];
    if (harness.service != NULL) {
        harness_stop(&harness);
    }
    if (harness.db == NULL) {
        assert_int_equal(tern_db_open(harness.path, 0, &harness.db, why), TERN_OK);
    }
}

// Ends the service; how far the first value of the global model is from the seed's.
static float moved(void)
{
    float weights[COUNT];
    float seed[COUNT];
    uint8_t replica[TERN_SHA256_SIZE];
    uint32_t version;
    open_store();
    seed_replica(&harness, replica, seed);
    assert_int_equal(tern_db_checkpoint(harness.db, &version), TERN_OK);
    assert_int_equal(tern_db_weights_get(harness.db, TERN_WEIGHTS_GLOBAL, version, weights, COUNT),
                     TERN_OK);
    return weights[0] - seed[0];
}

static void expect_replayed(uint32_t rounds, uint64_t updates)
{
    struct tern_replay_report report;
    char why[256] = "";
    open_store();
    enum tern_result result = tern_replay(harness.db, NULL, NULL, &report, why);
    if (result != TERN_OK) {
        fail_msg("%s", why);
    }
    assert_int_equal(report.rounds, rounds);
    assert_int_equal(report.updates, updates);
}

// --- Buffered updates

// An update of client 1 for round 1, which was closed by the others.
struct late {
    tern_Task task;
    uint8_t *body;
    size_t len;
};

// Buffers of two updates; three clients have a task at a time.
static struct late come_late(const struct tern_strategy *strategy, float value)
{
    struct late late;
    harness.config.federation.round.over_selection = 0.5;
    harness.config.federation.min_clients = 3;
    use(strategy);
    harness_start_with(&harness, 3);
    late.task = checkin(&harness, 1, NULL).task;
    assert_int_equal(late.task.round, 1);
    late.len = encode_update(&harness, &late.task, value, 10, &late.body);
    do_round(&harness, 2, NULL, 1.0F);
    do_round(&harness, 3, NULL, 1.0F);
    return late;
}

static int put(const struct late *late, tern_UpdateStatus *status)
{
    struct answer answer = put_update(&harness, 1, 1, 1, late->body, late->len);
    int found = answer.status;
    if (found == 200) {
        tern_UpdateReply reply;
        assert_int_equal(tern_wire_decode_update_reply(answer.body->data, answer.body->len, &reply),
                         TERN_OK);
        *status = reply.status;
    }
    answer_free(&answer);
    return found;
}

static void expect_status(const struct late *late, tern_UpdateStatus expected)
{
    tern_UpdateStatus status = tern_UpdateStatus_UPDATE_UNKNOWN;
    assert_int_equal(put(late, &status), 200);
    assert_int_equal(status, expected);
}

static void expect_refused(const struct late *late, int status, enum tern_result result)
{
    struct answer answer = put_update(&harness, 1, 1, 1, late->body, late->len);
    assert_int_equal(answer.status, status);
    assert_int_equal(answer_error_name(&answer), result);
    answer_free(&answer);
}

#define TEST(name) CASE_WITH(name, setup, teardown)

TEST(test_late_update_counts_in_the_open_round)
{
    struct tern_db_update stored;
    struct late late = come_late(&tern_strategy_fedbuff, 2.0F);
    expect_status(&late, tern_UpdateStatus_UPDATE_ACCEPTED);
    do_round(&harness, 2, NULL, 3.0F); // the buffer is full
    // Round 1: 1. Round 2: a version old, 2 / sqrt(2), beside 3; half of each.
    assert_float_equal(moved(), 1.0F + (2.0F / sqrtf(2.0F) + 3.0F) / 2.0F, 1e-5F);
    expect_replayed(2, 4);
    assert_int_equal(tern_db_update_find(harness.db, 1, 1, &stored), TERN_OK);
    assert_int_equal(stored.merged, 2);
    free(late.body);
}

TEST(test_late_update_survives_a_restart)
{
    struct late late = come_late(&tern_strategy_fedbuff, 2.0F);
    struct late other = late;
    expect_status(&late, tern_UpdateStatus_UPDATE_ACCEPTED);
    expect_status(&late, tern_UpdateStatus_UPDATE_DUPLICATE);
    harness_restart(&harness);
    expect_status(&late, tern_UpdateStatus_UPDATE_DUPLICATE);
    other.len = encode_update(&harness, &late.task, 5.0F, 10, &other.body);
    expect_refused(&other, 409, TERN_ERR_CONFLICT);
    do_round(&harness, 2, NULL, 3.0F);
    expect_status(&late, tern_UpdateStatus_UPDATE_DUPLICATE); // also once it is merged
    expect_refused(&other, 409, TERN_ERR_CONFLICT);
    assert_float_equal(moved(), 1.0F + (2.0F / sqrtf(2.0F) + 3.0F) / 2.0F, 1e-5F);
    expect_replayed(2, 4);
    free(late.body);
    free(other.body);
}

// A client may report late and, as a member of the open round, in time.
TEST(test_two_updates_of_one_client)
{
    struct late late = come_late(&tern_strategy_fedbuff, 2.0F);
    expect_status(&late, tern_UpdateStatus_UPDATE_ACCEPTED);
    do_round(&harness, 1, NULL, 3.0F);
    assert_float_equal(moved(), 1.0F + (2.0F / sqrtf(2.0F) + 3.0F) / 2.0F, 1e-5F);
    expect_replayed(2, 4);
    free(late.body);
}

// Its own round is old, the one that it counts in is not.
TEST(test_late_update_outlasts_retention)
{
    struct late late = come_late(&tern_strategy_fedbuff, 2.0F);
    expect_status(&late, tern_UpdateStatus_UPDATE_ACCEPTED);
    open_store();
    assert_int_equal(tern_db_begin(harness.db), TERN_OK);
    bool more = false;
    assert_int_equal(tern_db_prune(harness.db, 1), TERN_OK);
    assert_int_equal(tern_db_prune_some(harness.db, UINT64_MAX, 0, &more), TERN_OK);
    assert_int_equal(tern_db_commit(harness.db), TERN_OK);
    harness_start(&harness);
    do_round(&harness, 2, NULL, 3.0F);
    assert_float_equal(moved(), 1.0F + (2.0F / sqrtf(2.0F) + 3.0F) / 2.0F, 1e-5F);
    free(late.body);
}

// The update that fills the buffer, in a batch that fails: nothing of it is left.
TEST(test_late_update_in_a_batch_that_fails)
{
    uint8_t before[TERN_SHA256_SIZE];
    uint8_t after[TERN_SHA256_SIZE];
    struct late late = come_late(&tern_strategy_fedbuff, 2.0F);
    do_round(&harness, 2, NULL, 3.0F);
    refuse_writes(harness.path, "BEFORE INSERT ON update_bodies", "");
    store_digest(&harness, before);
    tern_UpdateStatus status;
    assert_int_equal(put(&late, &status), 503);
    store_digest(&harness, after);
    assert_memory_equal(before, after, TERN_SHA256_SIZE);
    take_writes(harness.path);
    harness_await_store(&harness);
    expect_status(&late, tern_UpdateStatus_UPDATE_ACCEPTED);
    assert_float_equal(moved(), 1.0F + (2.0F / sqrtf(2.0F) + 3.0F) / 2.0F, 1e-5F);
    expect_replayed(2, 4);
    free(late.body);
}

// `late` is final, whatever the configuration says afterwards: the client has taken it back.
TEST(test_too_stale_is_given_back_for_good)
{
    struct late late = come_late(&tern_strategy_fedbuff, 2.0F);
    harness.config.federation.strategy_parameters[TERN_STRATEGY_STALENESS_MAX] = 1.0F;
    do_round(&harness, 2, NULL, 1.0F);
    do_round(&harness, 3, NULL, 1.0F);
    harness_restart(&harness); // round 3 was opened with 10
    do_round(&harness, 2, NULL, 1.0F);
    do_round(&harness, 3, NULL, 1.0F);
    expect_refused(&late, 410, TERN_ERR_LATE); // round 4 with 1; it is three versions old
    harness.config.federation.strategy_parameters[TERN_STRATEGY_STALENESS_MAX] = 10.0F;
    harness_restart(&harness);
    do_round(&harness, 2, NULL, 1.0F);
    do_round(&harness, 3, NULL, 1.0F);
    expect_refused(&late, 410, TERN_ERR_LATE); // round 5 with 10
    expect_replayed(4, 8);
    free(late.body);
}

// What comes late for a round that did not buffer was, or would have been, given back then; nothing
// is written of that.
static void come_late_for_fednova(bool answered_before)
{
    uint8_t before[TERN_SHA256_SIZE];
    uint8_t after[TERN_SHA256_SIZE];
    struct late late = come_late(&tern_strategy_fednova, 2.0F);
    store_digest(&harness, before);
    if (answered_before) {
        expect_refused(&late, 410, TERN_ERR_LATE);
    }
    store_digest(&harness, after);
    assert_memory_equal(before, after, TERN_SHA256_SIZE);
    use(&tern_strategy_fedbuff);
    harness_restart(&harness);
    do_round(&harness, 2, NULL, 1.0F);
    do_round(&harness, 3, NULL, 1.0F);
    expect_refused(&late, 410, TERN_ERR_LATE); // round 3 buffers, round 1 did not
    expect_replayed(2, 4);
    free(late.body);
}

TEST(test_rounds_that_do_not_buffer)
{
    come_late_for_fednova(true);
    teardown(state);
    setup(state);
    come_late_for_fednova(false);
}

TEST(test_hostile_late_updates)
{
    struct late late = come_late(&tern_strategy_fedbuff, 2.0F);
    struct late bad = late;
    uint8_t before[TERN_SHA256_SIZE];
    uint8_t after[TERN_SHA256_SIZE];
    store_digest(&harness, before);
    bad.task.local_steps = 6; // of 5
    bad.len = encode_update(&harness, &bad.task, 2.0F, 10, &bad.body);
    expect_refused(&bad, 422, TERN_ERR_ARGUMENT);
    // What a client was told to take back does not count any more, even in a better form.
    expect_refused(&late, 410, TERN_ERR_LATE);
    store_digest(&harness, after);
    assert_memory_equal(before, after, TERN_SHA256_SIZE);
    free(bad.body);
    free(late.body);
}

TEST(test_late_updates_of_the_wrong_replica_or_norm)
{
    const enum tern_result expected[] = {TERN_ERR_WRONG_REPLICA, TERN_ERR_NORM_LIMIT};
    for (int i = 0; i < 2; i++) {
        struct late late = come_late(&tern_strategy_fedbuff, i == 0 ? 2.0F : 1e6F);
        struct late bad = late;
        bad.task.base.bytes[0] ^= (pb_byte_t)(i == 0);
        bad.len = encode_update(&harness, &bad.task, i == 0 ? 2.0F : 1e6F, 10, &bad.body);
        expect_refused(&bad, 422, expected[i]);
        free(bad.body);
        free(late.body);
        teardown(state);
        setup(state);
    }
}

// A client that had no task in the closed round has nothing to report of it.
TEST(test_late_without_a_task)
{
    struct late late = come_late(&tern_strategy_fedbuff, 2.0F);
    enroll(&harness, false);
    answer_expect(put_update(&harness, 4, 1, 1, late.body, late.len), 410);
    free(late.body);
}

// --- What is carried from round to round

static void hash_of(uint32_t version, uint8_t sha256[TERN_SHA256_SIZE])
{
    struct tern_db_version row;
    open_store();
    assert_int_equal(tern_db_version_get(harness.db, version, &row), TERN_OK);
    memcpy(sha256, row.model_sha256, TERN_SHA256_SIZE);
}

static void one_round(float a, float b)
{
    do_round(&harness, 1, NULL, a);
    do_round(&harness, 2, NULL, b);
}

static void run_rounds(const struct tern_strategy *strategy, bool restarts,
                       uint8_t sha256[TERN_SHA256_SIZE])
{
    use(strategy);
    if (strategy->least_updates != NULL) { // as many as a start asks for; two come all the same
        harness.config.federation.round.cohort = 3;
        harness.config.federation.round.quorum = 3;
    }
    harness_start_with(&harness, 2);
    for (int i = 1; i <= 4; i++) {
        one_round(0.1F * (float)i, -0.02F * (float)(i * i));
        if (restarts) {
            harness_restart(&harness);
        }
    }
    hash_of(4, sha256);
    expect_replayed(4, 8);
}

TEST(test_restarts_do_not_matter)
{
    static const struct tern_strategy *const strategies[] = {
        &tern_strategy_fedavgm,    &tern_strategy_fedadam,   &tern_strategy_fedyogi,
        &tern_strategy_fedadagrad, &tern_strategy_fedmedian, &tern_strategy_fedtrimmedavg,
        &tern_strategy_krum,       &tern_strategy_multikrum};
    for (size_t i = 0; i < sizeof strategies / sizeof strategies[0]; i++) {
        uint8_t without[TERN_SHA256_SIZE];
        uint8_t with[TERN_SHA256_SIZE];
        run_rounds(strategies[i], false, without);
        teardown(state);
        setup(state);
        run_rounds(strategies[i], true, with);
        assert_memory_equal(without, with, TERN_SHA256_SIZE);
        teardown(state);
        setup(state);
    }
}

// Three updates, two of which agree: that of the third is not taken. With two there is nothing to
// choose by, and the log says so.
TEST(test_krum_says_when_updates_are_too_few)
{
    use(&tern_strategy_krum);
    harness.config.federation.round.cohort = 3;
    harness.config.federation.round.quorum = 3;
    harness.config.federation.min_clients = 2;
    harness_start_with(&harness, 2);
    watch_log();
    one_round(0.25F, 5.0F);
    const unsigned few =
        lines_of("too-few-for-strategy", "round=1 strategy=krum updates=2 needed=3 attackers=0.2");
    enroll(&harness, false);
    one_round(0.25F, 5.0F); // opened before there was a third
    one_round(0.25F, 5.0F);
    do_round(&harness, 3, NULL, 5.5F);
    const unsigned lines = lines_with("event=too-few-for-strategy");
    leave_log();
    assert_int_equal(few, 1);
    assert_int_equal(lines, 2);
    assert_float_equal(moved(), 2.0F * 0.25F + 5.0F, 1e-5F); // of equal scores the first
    expect_replayed(3, 7);
}

// FedAvgM: 1, then 0.9 + 1; under another strategy once, it starts from zero again.
TEST(test_change_of_strategy_starts_anew)
{
    use(&tern_strategy_fedavgm);
    harness_start_with(&harness, 2);
    one_round(1.0F, 1.0F);
    use(&tern_strategy_fednova); // from round 3 on; round 2 is open under the old one
    harness_restart(&harness);
    one_round(1.0F, 1.0F);
    assert_float_equal(moved(), 2.9F, 1e-5F);
    use(&tern_strategy_fedavgm);
    harness_start(&harness);
    one_round(1.0F, 1.0F); // plain
    assert_float_equal(moved(), 3.9F, 1e-5F);
    harness_start(&harness);
    one_round(1.0F, 1.0F);
    harness.config.federation.strategy_parameters[TERN_STRATEGY_SERVER_MOMENTUM] = 0.5F;
    harness_restart(&harness);
    one_round(1.0F, 1.0F);
    assert_float_equal(moved(), 3.9F + 1.0F + 1.9F, 1e-5F);
    harness_start(&harness);
    one_round(1.0F, 1.0F); // other numbers go on from the same state: 0.5 * 1.9 + 1
    assert_float_equal(moved(), 6.8F + 1.95F, 1e-5F);
    expect_replayed(6, 12);
}

static float norm_of(const float weights[COUNT])
{
    float square = 0.0F;
    for (uint32_t i = 0; i < COUNT; i++) {
        square += weights[i] * weights[i];
    }
    return sqrtf(square);
}

// One client whose loss is least where all weights are 0: its training takes a fifth of the way from
// what it holds.
static void descend(float weights[COUNT], uint8_t replica[TERN_SHA256_SIZE])
{
    float change[COUNT];
    uint8_t *body;
    tern_CheckinReply next = checkin(&harness, 1, replica);
    assert_true(next.has_task);
    apply_downloads(&harness, &next.task, weights, replica, harness.tokens[1]);
    for (uint32_t i = 0; i < COUNT; i++) {
        change[i] = -0.2F * weights[i];
    }
    size_t len = encode_values(&harness, &next.task, change, 10, &body);
    answer_expect(put_update(&harness, 1, next.task.round, 1, body, len), 200);
    free(body);
}

// Downloads that bring a fifth of the values a round lag some five rounds behind. A velocity that
// does not heed this swings further out with each round.
TEST(test_momentum_waits_for_what_clients_lack)
{
    static float weights[COUNT];
    uint8_t replica[TERN_SHA256_SIZE];
    use(&tern_strategy_fedavgm);
    harness.config.federation.round.cohort = 1;
    harness.config.federation.min_clients = 1;
    assert_int_equal(tern_codec_parse("density:p=0.2,coder=range",
                                      &harness.config.federation.downloads.codec, NULL),
                     TERN_OK);
    harness_start(&harness);
    enroll(&harness, false);
    seed_replica(&harness, replica, weights);
    const float first = norm_of(weights);
    for (uint32_t i = 0; i < 60; i++) {
        descend(weights, replica);
        if (i % 20 == 0) {
            harness_restart(&harness);
        }
    }
    assert_true(norm_of(weights) < first / 10.0F);
    expect_replayed(60, 60);
}

TEST(test_state_that_differs_is_found)
{
    struct tern_replay_report report;
    char why[256] = "";
    float m[COUNT];
    use(&tern_strategy_fedavgm);
    harness_start_with(&harness, 2);
    one_round(1.0F, 1.0F);
    open_store();
    assert_int_equal(tern_db_state_get(harness.db, "m", 1, m, COUNT), TERN_OK);
    assert_true(m[0] == 1.0F);
    m[7] = 1.5F;
    assert_int_equal(tern_db_begin(harness.db), TERN_OK);
    assert_int_equal(tern_db_state_put(harness.db, "m", 1, m, COUNT), TERN_OK);
    assert_int_equal(tern_db_commit(harness.db), TERN_OK);
    assert_int_equal(tern_replay(harness.db, NULL, NULL, &report, why), TERN_ERR_CORRUPT);
    assert_non_null(strstr(why, "state of the strategy"));
}

// --- The averaged model

// A bias, which the seed leaves at 0, of the averaged model of a version; 0 where there is none.
static float averaged(uint32_t version)
{
    float average[COUNT] = {0};
    open_store();
    (void)!tern_db_state_get(harness.db, "average", version, average, COUNT);
    return average[COUNT - 1];
}

// FedAvg by 1 each round: 1, 2, 3, 4. Of them the mean, then 1/3 of each new one.
TEST(test_averaged_model)
{
    use(&tern_strategy_fedavg);
    harness.config.federation.average_versions = 3;
    harness_start_with(&harness, 2);
    static const float expected[] = {1.0F, 1.5F, 2.0F, 2.0F + 2.0F / 3.0F};
    for (uint32_t i = 0; i < 4; i++) {
        one_round(1.0F, 1.0F);
        assert_true(averaged(i + 1) == expected[i]);
        harness_start(&harness);
    }
    expect_replayed(4, 8);
    harness.config.federation.average_versions = 0;
    harness_start(&harness);
    one_round(1.0F, 1.0F); // opened when it was still asked for
    assert_true(averaged(5) > 3.0F);
    harness_start(&harness);
    one_round(1.0F, 1.0F);
    assert_true(averaged(6) == 0.0F);
    expect_replayed(6, 12);
    harness.config.federation.average_versions = 3;
    harness_start(&harness);
    one_round(1.0F, 1.0F); // opened before
    one_round(1.0F, 1.0F); // begins anew
    assert_true(averaged(8) == 8.0F);
    expect_replayed(8, 16);
}

TEST(test_averaged_model_that_differs_is_found)
{
    struct tern_replay_report report;
    char why[256] = "";
    float average[COUNT];
    use(&tern_strategy_fedavg);
    harness.config.federation.average_versions = 2;
    harness_start_with(&harness, 2);
    one_round(1.0F, 1.0F);
    open_store();
    assert_int_equal(tern_db_state_get(harness.db, "average", 1, average, COUNT), TERN_OK);
    average[COUNT - 1] += 1.0F;
    assert_int_equal(tern_db_begin(harness.db), TERN_OK);
    assert_int_equal(tern_db_state_put(harness.db, "average", 1, average, COUNT), TERN_OK);
    assert_int_equal(tern_db_commit(harness.db), TERN_OK);
    assert_int_equal(tern_replay(harness.db, NULL, NULL, &report, why), TERN_ERR_CORRUPT);
    assert_non_null(strstr(why, "averaged model"));
}

TEST(test_state_that_is_missing_stops_the_start)
{
    struct tern_service *service = NULL;
    char why[256] = "";
    use(&tern_strategy_fedadam);
    harness_start_with(&harness, 2);
    one_round(1.0F, 1.0F);
    open_store();
    run_sql(harness.path, "delete from weights where name = 'v'");
    assert_int_equal(tern_service_start(&harness.config, harness.db, &service, why),
                     TERN_ERR_CORRUPT);
    assert_non_null(strstr(why, "restore a backup"));
}

// --- Unequal local steps

// One client does one of five steps and two clients do all: the mean of their norms is 11/3.
static void unequal_round(float scale_max, float few)
{
    use(&tern_strategy_fednova);
    harness.config.federation.round.cohort = 3;
    harness.config.federation.round.quorum = 3;
    harness.config.federation.min_clients = 3;
    harness.config.federation.strategy_parameters[TERN_STRATEGY_SCALE_MAX] = scale_max;
    harness_start_with(&harness, 3);
    uint8_t *body;
    tern_Task task = checkin(&harness, 1, NULL).task;
    assert_int_equal(task.local_steps, 5);
    task.local_steps = 1;
    size_t len = encode_update(&harness, &task, few, 10, &body);
    answer_expect(put_update(&harness, 1, 1, 1, body, len), 200);
    free(body);
    do_round(&harness, 2, NULL, 1.0F);
    do_round(&harness, 3, NULL, 1.0F);
}

static void expect_recorded(const char *parameters)
{
    struct tern_db_round round;
    open_store();
    assert_int_equal(tern_db_round_get(harness.db, 1, &round), TERN_OK);
    assert_string_equal(round.strategy_parameters, parameters);
}

TEST(test_scale_max_is_kept_with_the_round)
{
    unequal_round(2.0F, 3.0F);
    harness.config.federation.strategy_parameters[TERN_STRATEGY_SCALE_MAX] =
        0.0F; // from round 2 on
    harness_restart(&harness);
    assert_float_equal(moved(), (3.0F * 2.0F + 2.0F * 11.0F / 15.0F) / 3.0F, 1e-5F);
    expect_recorded("local_momentum=0,scale_max=2,norm_bound=0,examples_bound=0");
    expect_replayed(1, 3);
}

TEST(test_rounds_without_a_scale_max_replay)
{
    unequal_round(0.0F, 3.0F);
    assert_float_equal(moved(), (3.0F * 11.0F / 3.0F + 2.0F * 11.0F / 15.0F) / 3.0F, 1e-5F);
    expect_recorded("local_momentum=0,scale_max=0,norm_bound=0,examples_bound=0");
    expect_replayed(1, 3);
}

// A row that does not say all that its strategy's arithmetic depends on is no round's.
TEST(test_rounds_that_lack_a_parameter_are_not_replayed)
{
    struct tern_replay_report report;
    char why[256] = "";
    unequal_round(2.0F, 3.0F);
    open_store();
    run_sql(harness.path,
            "update rounds set strategy_parameters = 'local_momentum=0' where round = 1");
    expect_recorded("local_momentum=0");
    assert_int_equal(tern_replay(harness.db, NULL, NULL, &report, why), TERN_ERR_UNKNOWN);
}

// --- Updates that claim far more examples than the others

static void claim(uint64_t client, uint32_t num_examples, float value)
{
    uint8_t *body;
    const tern_Task task = checkin(&harness, client, NULL).task;
    size_t len = encode_update(&harness, &task, value, num_examples, &body);
    answer_expect(put_update(&harness, client, task.round, task.round, body, len), 200);
    free(body);
}

// Four clients: three send 1 each; the last one claims 10M examples and sends -1.
static void send_a_large_claim(float bound)
{
    use(&tern_strategy_fedavg);
    harness.config.federation.strategy_parameters[TERN_STRATEGY_EXAMPLES_BOUND] = bound;
    harness.config.federation.limits.num_examples = 10000000;
    harness.config.federation.round.cohort = 4;
    harness.config.federation.round.quorum = 4;
    harness.config.federation.min_clients = 4;
    harness_start_with(&harness, 4);
    for (int round = 1; round <= 2; round++) {
        for (uint64_t client = 1; client <= 4; client++) {
            claim(client, client == 4 ? 10000000 : 10, client == 4 ? -1.0F : 1.0F);
            if (client == 2) {
                harness_restart(&harness);
            }
        }
    }
}

TEST(test_one_client_does_not_claim_the_model)
{
    struct tern_db_round round;
    struct tern_db_client client;
    watch_log();
    send_a_large_claim(16.0F);
    const unsigned lines =
        lines_of("examples-bounded", "round=1 client=4 claims=10000000 counts=160 count=1\n");
    leave_log();
    assert_int_equal(lines, 1);
    // Three of 10 examples, and one of 160: (30 - 160) / 190 a round.
    assert_float_equal(moved(), -2.0F * 130.0F / 190.0F, 1e-5F);
    assert_int_equal(tern_db_round_get(harness.db, 2, &round), TERN_OK);
    assert_int_equal(round.scaled_down, 1);
    assert_int_equal(tern_db_client_get(harness.db, 4, &client), TERN_OK);
    assert_int_equal(client.scaled_down, 2);
    expect_replayed(2, 8);
}

TEST(test_claims_count_as_they_are_without_a_bound)
{
    send_a_large_claim(0.0F);
    assert_float_equal(moved(), -2.0F, 1e-4F);
    expect_replayed(2, 8);
}

// --- Updates that are far larger than the others

// Three clients send 1, 1 and 100: the last update counts with at most twice the others' norm.
static void send_a_large_one(bool restarts)
{
    use(&tern_strategy_fedavg);
    harness.config.federation.strategy_parameters[TERN_STRATEGY_NORM_BOUND] = 2.0F;
    harness.config.federation.round.cohort = 3;
    harness.config.federation.round.quorum = 3;
    harness.config.federation.min_clients = 3;
    harness_start_with(&harness, 3);
    for (int round = 1; round <= 3; round++) {
        do_round(&harness, 3, NULL, 100.0F);
        if (restarts) {
            harness_restart(&harness);
        }
        do_round(&harness, 1, NULL, 1.0F);
        do_round(&harness, 2, NULL, 1.0F);
    }
}

TEST(test_a_large_update_is_scaled_down_and_said_to_be)
{
    struct tern_db_round round;
    struct tern_db_client client;
    struct tern_db_counts counts;
    watch_log();
    send_a_large_one(false);
    const unsigned first = lines_of("update-scaled-down", "round=1 client=3 norm=2550 "
                                                          "bound=50.99 count=1\n");
    const unsigned all = lines_with("event=update-scaled-down"); // the 1st and 2nd, not the 3rd
    leave_log();
    struct tern_service_facts facts;
    tern_service_facts(harness.service, &facts);
    assert_int_equal(facts.federation.counts.updates_scaled_down, 3);
    assert_float_equal(moved(), 3.0F * (1.0F + 1.0F + 2.0F) / 3.0F, 1e-4F);
    assert_int_equal(tern_db_round_get(harness.db, 3, &round), TERN_OK);
    assert_int_equal(round.scaled_down, 1);
    assert_true(round.variance > 0.0F &&
                round.variance < 3000.0F); // as it counted, not 100 * 100 * 650
    assert_int_equal(tern_db_client_get(harness.db, 3, &client), TERN_OK);
    assert_int_equal(client.scaled_down, 3);
    assert_int_equal(tern_db_client_get(harness.db, 1, &client), TERN_OK);
    assert_int_equal(client.scaled_down, 0);
    assert_int_equal(tern_db_counts(harness.db, 0, &counts), TERN_OK);
    assert_int_equal(counts.updates_scaled_down, 3);
    assert_int_equal(first, 1);
    assert_int_equal(all, 2);
    expect_replayed(3, 9);
}

TEST(test_a_large_update_is_scaled_down_as_much_after_a_restart)
{
    uint8_t without[TERN_SHA256_SIZE];
    uint8_t with[TERN_SHA256_SIZE];
    send_a_large_one(false);
    hash_of(3, without);
    teardown(state);
    setup(state);
    send_a_large_one(true);
    hash_of(3, with);
    assert_memory_equal(with, without, sizeof with);
    expect_replayed(3, 9);
}

// --- What the start refuses

static void expect_no_start(const char *sentence)
{
    struct tern_service *service = NULL;
    char why[256] = "";
    assert_int_equal(tern_service_start(&harness.config, harness.db, &service, why),
                     TERN_ERR_CONFIG);
    if (strstr(why, sentence) == NULL) {
        fail_msg("'%s' does not say '%s'", why, sentence);
    }
}

// 2 f + 3 updates for each number that a round may close with; and room for each pair of them.
static void expect_too_few_for_krum(void)
{
    struct tern_federation_config *config = &harness.config.federation;
    use(&tern_strategy_krum);
    config->round.cohort = 2;
    config->round.quorum = 2;
    expect_no_start("krum:attackers=0.2 needs 3 updates where a round can close with 2");
    config->round.cohort = 10;
    config->round.quorum = 5;
    harness_start(&harness);
    open_store();
    config->strategy_parameters[TERN_STRATEGY_ATTACKERS] = 0.34F;
    expect_no_start("needs 7 updates where a round can close with 6 (round.quorum = 5)");
    config->strategy_parameters[TERN_STRATEGY_ATTACKERS] = 0.2F;
    config->round.cohort = 300;
    config->round.quorum = 0;
    expect_no_start("krum needs 2875500 bytes for 300 updates; set limits.memory = 23004000");
    config->round.cohort = 2;
}

TEST(test_starts_that_are_refused)
{
    use(&tern_strategy_fedmedian);
    harness.config.federation.round.cohort = 10000;
    harness.config.federation.strategy_memory = 1 << 20;
    expect_no_start("limits.memory = 13000000 or a smaller round.cohort");
    harness.config.federation.strategy_memory = 1625000;
    harness_start(&harness);
    open_store();
    use(&tern_strategy_fedtrimmedavg);
    harness.config.federation.strategy_parameters[TERN_STRATEGY_TRIM] = 0.5F;
    expect_no_start("trim of fedtrimmedavg is 0.5");
    harness.config.federation.strategy_parameters[TERN_STRATEGY_TRIM] = 0.2F;
    expect_too_few_for_krum();
    use(&tern_strategy_fednova);
    static const float bounds[] = {0.5F, -1.0F, NAN, INFINITY};
    for (size_t i = 0; i < sizeof bounds / sizeof bounds[0]; i++) {
        harness.config.federation.strategy_parameters[TERN_STRATEGY_SCALE_MAX] = bounds[i];
        expect_no_start(i == 0 ? "scale_max of fednova is 0.5; it is 0 or goes from 1 to 4000"
                               : "scale_max of fednova is");
    }
    harness.config.federation.strategy_parameters[TERN_STRATEGY_SCALE_MAX] = 0.0F;
    use(&tern_strategy_fedavgm);
    harness.config.federation.strategy_parameters[TERN_STRATEGY_NORMALISE] = 1.0F;
    harness.config.federation.train.momentum = 0.99F;
    harness.config.federation.limits.norm = 1e15;
    expect_no_start("limits.norm");
}
