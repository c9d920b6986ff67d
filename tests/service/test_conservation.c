// An update that was acknowledged is merged, whatever it holds: hostile values and claims,
// downloads that float16 cannot carry, and a store that is damaged underneath.
#include "harness.h"

#include "merge/replay.h"
#include "strategies/bounds.h"
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "one_harness.h"
#include "store/run_sql.h"
#include "tests/cases.h"

// Stops the service and replays what it stored: as many rounds and updates, and the same bits.
static void expect_replayed(uint32_t rounds, uint64_t updates)
{
    struct tern_replay_report report;
    char why[256];
    harness_stop(&harness);
    assert_int_equal(tern_db_open(harness.path, 0, &harness.db, why), TERN_OK);
    assert_int_equal(tern_replay(harness.db, NULL, NULL, &report, why), TERN_OK);
    assert_int_equal(report.rounds, rounds);
    assert_int_equal(report.updates, updates);
}

// --- Hostile updates

// Checks in and uploads `value` everywhere with these claims; returns the HTTP status.
static int claim(uint64_t client, float value, uint32_t num_examples, uint32_t local_steps)
{
    tern_CheckinReply next = checkin(&harness, client, NULL);
    uint8_t *body;
    assert_true(next.has_task);
    next.task.local_steps = local_steps;
    size_t len = encode_update(&harness, &next.task, value, num_examples, &body);
    struct answer answer = put_update(&harness, client, next.task.round, 1, body, len);
    int status = answer.status;
    answer_free(&answer);
    free(body);
    return status;
}

static void attack(uint64_t client, float value, uint32_t num_examples, uint32_t local_steps)
{
    assert_int_equal(claim(client, value, num_examples, local_steps), 200);
}

// The worst that the limits let in at their widest: one client claims all examples and steps, so
// that the other, with one step, is scaled up the most; every round pushes the same way. What the
// scaling would lift over the limit is refused.
static void run_attack(const char *codec_down)
{
    const uint32_t rounds = 12;
    float largest;
    harness.config.federation.strategy = &tern_strategy_fednova;
    harness.config.federation.limits.norm = TERN_UPDATE_NORM_MAX;
    harness.config.federation.limits.num_examples = 10000000;
    harness.config.federation.server_learning_rate = (float)TERN_SERVER_RATE_MAX;
    harness.config.federation.steps.local_steps = (uint32_t)TERN_UPDATE_LOCAL_STEPS_MAX;
    harness.config.federation.round.cohort = 3;
    harness.config.federation.min_clients = 3;
    assert_int_equal(tern_codec_parse(codec_down, &harness.config.federation.downloads.codec, NULL),
                     TERN_OK);
    harness_start_with(&harness, 2);
    enroll(&harness, false); // whose updates are refused
    largest = (float)(0.999 * TERN_UPDATE_NORM_MAX / sqrt((double)harness.model.count));
    for (uint32_t round = 0; round < rounds; round++) {
        attack(1, largest, 10000000, (uint32_t)TERN_UPDATE_LOCAL_STEPS_MAX);
        assert_int_equal(claim(3, largest, 10000000, 1), 422);
        attack(2, largest / (float)TERN_UPDATE_LOCAL_STEPS_MAX, 10000000, 1);
    }
    expect_replayed(rounds, 2 * (uint64_t)rounds);
}

#define TEST(name) CASE_WITH(name, setup, teardown)

TEST(test_huge_values_and_one_step_claims)
{
    const char *const codecs[] = {"float32", "float16", "3lc:s=1", "3lc:s=1.999999"};
    for (size_t i = 0; i < sizeof codecs / sizeof codecs[0]; i++) {
        run_attack(codecs[i]);
        teardown(state);
        setup(state);
    }
}

// A round in which every claim is at the edge of what the sums can hold: what would pass it is
// refused while the client can still keep it.
TEST(test_totals_stay_exact)
{
    uint8_t *body;
    harness.config.federation.limits.num_examples = UINT32_MAX;
    harness.config.federation.steps.local_steps = (uint32_t)TERN_UPDATE_LOCAL_STEPS_MAX;
    harness.config.federation.round.cohort = 3;
    harness.config.federation.min_clients = 3;
    harness_start_with(&harness, 3);
    attack(1, 1.0F, UINT32_MAX, 1000000);
    attack(2, 1.0F, UINT32_MAX, 1000000);
    tern_CheckinReply next = checkin(&harness, 3, NULL);
    size_t len = encode_update(&harness, &next.task, 1.0F, UINT32_MAX, &body);
    struct answer answer = put_update(&harness, 3, 1, 1, body, len);
    assert_int_equal(answer.status, 413);
    assert_int_equal(answer_error_name(&answer), TERN_ERR_TOO_LARGE);
    answer_free(&answer);
    free(body);
    attack(3, 1e-3F, 1, 1);
    expect_replayed(1, 3);
}

TEST(test_limits_cannot_be_switched_off)
{
    const double norms[] = {0.0, -1.0, 1.01e15, NAN, INFINITY};
    struct tern_service *service = NULL;
    char why[256];
    for (size_t i = 0; i < sizeof norms / sizeof norms[0]; i++) {
        harness.config.federation.limits.norm = norms[i];
        assert_int_equal(tern_service_start(&harness.config, harness.db, &service, why),
                         TERN_ERR_CONFIG);
        assert_non_null(strstr(why, "norm"));
    }
}

// --- Downloads

static uint32_t payload_of(const tern_Task *task)
{
    char path[TERN_PATH_MAX];
    tern_path_download(task->downloads[0].sha256.bytes, path);
    struct answer answer = call(&harness, "GET", path, harness.tokens[1], NULL, 0);
    uint32_t payload = (uint32_t)answer.tag.payload_down;
    answer_free(&answer);
    return payload;
}

// Does a round in which both clients send `value`, follows it as a client, and returns the bytes of
// the download's container.
static uint32_t follow_round(float value, float *weights, uint8_t replica[TERN_SHA256_SIZE])
{
    uint8_t before[TERN_SHA256_SIZE];
    memcpy(before, replica, TERN_SHA256_SIZE);
    do_round(&harness, 1, before, value);
    do_round(&harness, 2, before, value);
    tern_CheckinReply next = checkin(&harness, 1, before);
    assert_int_equal(next.task.downloads_count, 1);
    apply_downloads(&harness, &next.task, weights, replica, harness.tokens[1]);
    return payload_of(&next.task);
}

TEST(test_difference_too_large_for_float16)
{
    float weights[2000];
    float seed[2000];
    uint8_t replica[TERN_SHA256_SIZE];
    const uint32_t count = 650;
    harness.config.federation.limits.norm = 1e9;
    harness.config.federation.downloads.codec.id = TERN_CODEC_FLOAT16;
    harness_start_with(&harness, 2);
    seed_replica(&harness, replica, weights);
    memcpy(seed, weights, sizeof seed);
    assert_in_range(follow_round(65000.0F, weights, replica), 2 * count, 2 * count + 20);
    assert_in_range(follow_round(1e6F, weights, replica), 4 * count, 4 * count + 20);
    assert_in_range(follow_round(1.0F, weights, replica), 2 * count, 2 * count + 20);
    for (uint32_t i = 0; i < count; i++) {
        assert_float_equal(weights[i], seed[i] + 1065001.0F, 1.0);
    }
    expect_replayed(3, 6);
}

// --- A damaged store

static void damage(void)
{
    run_sql(harness.path, "create table saved as select * from update_bodies;"
                          "update update_bodies set body = zeroblob(length(body))");
}

static void repair(void)
{
    run_sql(harness.path,
            "update update_bodies set body = (select body from saved where saved.id ="
            " update_bodies.id) where id in (select id from saved); drop table saved");
}

static void count_call(void *ctx)
{
    atomic_fetch_add((atomic_uint *)ctx, 1);
}

static void expect_halted(const struct answer *answer)
{
    tern_Error error;
    assert_int_equal(answer->status, 503);
    assert_int_equal(answer->retry_after_s, 60);
    assert_int_equal(tern_wire_decode_error(answer->body->data, answer->body->len, &error),
                     TERN_OK);
    assert_non_null(strstr(error.sentence, "needs repair"));
}

// One of two acknowledged updates is damaged on the disk before the round is merged. The service
// must neither leave it out nor go on; once the bytes are back, both count.
TEST(test_damaged_update_halts_the_service)
{
    atomic_uint told = 0;
    uint8_t *body;
    char why[256] = "";
    struct tern_db_version version;
    harness.config.federation.strategy_memory = 1; // nothing is summed before the commit
    harness.config.on_halted = count_call;
    harness.config.halted_ctx = &told;
    harness_start_with(&harness, 2);
    do_round(&harness, 1, NULL, 1.0F);
    tern_CheckinReply next = checkin(&harness, 2, NULL);
    size_t len = encode_update(&harness, &next.task, 3.0F, 10, &body);
    uint8_t held_body[TERN_WIRE_MESSAGE_MAX];
    size_t held_len = encode_checkin(NULL, 30000, held_body);
    struct tern_http_exchange *held =
        call_begin(&harness, "POST", TERN_PATH_CHECKIN, harness.tokens[1], held_body, held_len);
    assert_false(tern_service_halted(harness.service, why));
    damage();

    struct answer answer = put_update(&harness, 2, 1, 1, body, len);
    assert_int_equal(answer.status, 200); // it is stored, and counts once the store is repaired
    answer_free(&answer);
    answer = call_end(held);
    expect_halted(&answer);
    answer_free(&answer);
    assert_true(tern_service_halted(harness.service, why));
    assert_non_null(strstr(why, "damaged"));
    assert_non_null(strstr(why, "backup"));
    assert_false(tern_service_can_store(harness.service, why));
    assert_non_null(strstr(why, "halted: "));
    answer_expect(call(&harness, "GET", "/readyz", NULL, NULL, 0), 503);
    answer_expect(call(&harness, "GET", "/healthz", NULL, NULL, 0), 200);
    answer = put_update(&harness, 2, 1, 1, body, len);
    expect_halted(&answer);
    answer_free(&answer);
    harness_stop(&harness);
    assert_int_equal(told, 1);

    // It does not start like that either, and says why.
    assert_int_equal(tern_db_open(harness.path, 0, &harness.db, why), TERN_OK);
    assert_int_equal(tern_service_start(&harness.config, harness.db, &harness.service, why),
                     TERN_ERR_IO);
    assert_non_null(strstr(why, "backup"));
    harness.service = NULL;
    tern_db_close(harness.db);
    harness.db = NULL;

    repair();
    harness_start(&harness);
    answer_expect(put_update(&harness, 2, 1, 1, body, len), 200);
    free(body);
    expect_replayed(1, 2);
    assert_int_equal(tern_db_version_get(harness.db, 1, &version), TERN_OK);
}

// A row that vanished is as bad as one that changed, although SQLite finds nothing wrong with it.
TEST(test_missing_update_halts_the_service)
{
    uint8_t *body;
    char why[256] = "";
    harness.config.federation.strategy_memory = 1;
    harness_start_with(&harness, 2);
    do_round(&harness, 1, NULL, 1.0F);
    tern_CheckinReply next = checkin(&harness, 2, NULL);
    size_t len = encode_update(&harness, &next.task, 3.0F, 10, &body);
    run_sql(harness.path, "delete from update_bodies; delete from updates");
    struct answer answer = put_update(&harness, 2, 1, 1, body, len);
    assert_int_equal(answer.status, 200); // it is stored, and counts once the store is repaired
    answer_free(&answer);
    free(body);
    assert_true(tern_service_halted(harness.service, why));
    assert_non_null(strstr(why, "round 1"));
}

// What was summed on arrival is not lost with the bytes: the round counts both updates, and a replay
// tells what became of the store.
TEST(test_damage_does_not_reach_what_was_summed)
{
    struct tern_replay_report report;
    struct tern_db_round round;
    char why[256] = "";
    harness_start_with(&harness, 2);
    do_round(&harness, 1, NULL, 1.0F);
    damage();
    do_round(&harness, 2, NULL, 3.0F);
    harness_stop(&harness);
    assert_int_equal(tern_db_open(harness.path, 0, &harness.db, why), TERN_OK);
    assert_int_equal(tern_db_round_get(harness.db, 1, &round), TERN_OK);
    assert_int_equal(round.applied, 2);
    assert_int_equal(tern_replay(harness.db, NULL, NULL, &report, why), TERN_ERR_IO);
    assert_int_equal(report.rounds, 0);
    repair();
    assert_int_equal(tern_replay(harness.db, NULL, NULL, &report, why), TERN_OK);
    assert_int_equal(report.updates, 2);
}

// A round that an unknown strategy opened is not touched: the start says which program it needs.
TEST(test_round_of_an_unknown_strategy)
{
    char why[256] = "";
    harness_start_with(&harness, 2);
    do_round(&harness, 1, NULL, 1.0F);
    harness_stop(&harness);
    run_sql(harness.path, "update rounds set strategy = 'fedfuture'");
    assert_int_equal(tern_db_open(harness.path, 0, &harness.db, why), TERN_OK);
    assert_int_equal(tern_service_start(&harness.config, harness.db, &harness.service, why),
                     TERN_ERR_UNKNOWN);
    assert_non_null(strstr(why, "version of Tern"));
    harness.service = NULL;
}
