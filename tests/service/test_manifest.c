// A federation whose model came with a manifest: what clients are given, that nobody moves what is
// frozen, and that its first version is where replays begin.
#include "harness.h"

#include "merge/replay.h"
#include "tensor/manifest.h"
#include "tests/cases.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { CODED = 600, DENSE = 20, FROZEN = 30, COUNT = CODED + DENSE + FROZEN };

static struct harness harness;
static uint8_t manifest[TERN_MANIFEST_MAX];
static size_t manifest_len;
static float first[COUNT];

static void add(struct tern_model *model, const char *name, uint32_t count, enum tern_rule rule)
{
    assert_int_equal(tern_model_add_by_rule(model, name, &count, 1, rule), TERN_OK);
}

static int setup(void **state)
{
    (void)state;
    static struct tern_model made;
    tern_model_clear(&made);
    add(&made, "frozen", FROZEN, TERN_RULE_SKIP);
    add(&made, "mean", DENSE, TERN_RULE_DENSE);
    add(&made, "weight", CODED, TERN_RULE_COMPRESS);
    manifest_len = tern_manifest_encode(&made, manifest);
    for (int i = 0; i < COUNT; i++) {
        first[i] = (float)(i % 9 - 4) / 8.0F;
    }
    harness_make_imported(&harness, manifest, manifest_len, first);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    harness_free(&harness);
    return 0;
}

static struct answer get(const uint8_t sha256[TERN_SHA256_SIZE], uint64_t client)
{
    char path[TERN_PATH_MAX];
    tern_path_download(sha256, path);
    return call(&harness, "GET", path, client != 0 ? harness.tokens[client] : NULL, NULL, 0);
}

CASE_WITH(test_the_manifest_goes_by_its_hash, setup, teardown)
{
    uint8_t other[TERN_SHA256_SIZE];
    harness_start(&harness);
    uint64_t one = enroll(&harness, false);
    struct answer answer = get(harness.model.hash, one);
    assert_int_equal(answer.status, 200);
    assert_int_equal(answer.body->len, manifest_len);
    assert_memory_equal(answer.body->data, manifest, manifest_len);
    answer_free(&answer);
    answer = get(harness.model.hash, 0); // a stranger
    answer_expect(answer, 401);
    memcpy(other, harness.model.hash, sizeof other);
    other[0] ^= 1;
    answer_expect(get(other, one), 404);
}

// Brings a client that holds nothing to its first task, and checks what it is then.
static tern_CheckinReply begin(uint64_t client, float weights[COUNT],
                               uint8_t replica[TERN_SHA256_SIZE])
{
    tern_CheckinReply reply = checkin(&harness, client, NULL);
    assert_true(reply.has_task);
    assert_int_equal(reply.task.downloads_count, 1);
    apply_downloads(&harness, &reply.task, weights, replica, harness.tokens[client]);
    return reply;
}

CASE_WITH(test_who_holds_nothing_gets_a_snapshot, setup, teardown)
{
    float weights[COUNT];
    uint8_t replica[TERN_SHA256_SIZE];
    harness_start(&harness);
    uint64_t one = enroll(&harness, false);
    uint64_t two = enroll(&harness, false);
    begin(one, weights, replica);
    assert_memory_equal(weights, first, sizeof first);
    do_round(&harness, one, replica, 0.5F);
    do_round(&harness, two, NULL, 1.5F);
    uint64_t late = enroll(&harness, true);
    begin(late, weights, replica);
    for (int i = 0; i < COUNT; i++) {
        const float moved = i < CODED + DENSE ? first[i] + 1.0F : first[i];
        assert_true(weights[i] == moved);
    }
}

CASE_WITH(test_nobody_moves_what_is_frozen, setup, teardown)
{
    uint8_t *body = NULL;
    harness_start(&harness);
    uint64_t one = enroll(&harness, false);
    enroll(&harness, false);
    tern_CheckinReply reply = checkin(&harness, one, NULL);
    harness.thaws = true;
    size_t len = encode_update(&harness, &reply.task, 0.5F, 10, &body);
    struct answer answer = put_update(&harness, one, 1, 1, body, len);
    assert_int_equal(answer.status, 422);
    assert_int_equal(answer_error_name(&answer), TERN_ERR_CORRUPT);
    answer_free(&answer);
    free(body);
    harness.thaws = false;
    len = encode_update(&harness, &reply.task, 0.5F, 10, &body);
    answer_expect(put_update(&harness, one, 1, 1, body, len), 200);
    free(body);
}

// Stops the service, which has the database for itself while it runs.
static void check_replay(uint32_t rounds)
{
    struct tern_replay_report report;
    char why[256] = "";
    if (harness.service != NULL) {
        harness_stop(&harness);
        assert_int_equal(tern_db_open(harness.path, 0, &harness.db, why), TERN_OK);
    }
    const enum tern_result result = tern_replay(harness.db, NULL, NULL, &report, why);
    if (result != TERN_OK) {
        fail_msg("%s", why);
    }
    assert_int_equal(report.rounds, rounds);
}

CASE_WITH(test_replays_and_restarts_begin_with_its_weights, setup, teardown)
{
    float weights[COUNT];
    uint8_t replica[TERN_SHA256_SIZE];
    check_replay(0);
    harness_start(&harness);
    uint64_t one = enroll(&harness, false);
    uint64_t two = enroll(&harness, false);
    do_round(&harness, one, NULL, 0.5F);
    harness_restart(&harness);
    do_round(&harness, two, NULL, -0.25F);
    begin(one, weights, replica);
    do_round(&harness, one, replica, 0.5F);
    do_round(&harness, two, NULL, 0.5F);
    check_replay(2);
}

// Three clients, of which one claims a thousand times the examples and sends nonsense.
static float moved_dense(const struct tern_strategy *strategy)
{
    static const float values[] = {0.5F, 50.0F, 0.75F};
    float weights[COUNT];
    uint32_t version = 0;
    harness.config.federation.strategy = strategy;
    harness.config.federation.server_learning_rate = 0.5F;
    harness.config.federation.strategy_parameters[TERN_STRATEGY_TRIM] = 0.4F;
    harness.config.federation.min_clients = 3;
    harness.config.federation.round.cohort = 3;
    harness_start(&harness);
    for (uint64_t client = 1; client <= 3; client++) {
        enroll(&harness, false);
    }
    for (uint64_t client = 1; client <= 3; client++) {
        uint8_t *body = NULL;
        tern_CheckinReply reply = checkin(&harness, client, NULL);
        size_t len = encode_update(&harness, &reply.task, values[client - 1],
                                   client == 2 ? 10000 : 10, &body);
        answer_expect(put_update(&harness, client, 1, 1, body, len), 200);
        free(body);
    }
    check_replay(1);
    assert_int_equal(tern_db_checkpoint(harness.db, &version), TERN_OK);
    assert_int_equal(tern_db_weights_get(harness.db, TERN_WEIGHTS_GLOBAL, version, weights, COUNT),
                     TERN_OK);
    assert_int_equal(version, 1);
    assert_true(weights[0] - first[0] < 0.5F * 51.0F); // the server's rate, for what is coded
    return weights[CODED] - first[CODED];
}

CASE_WITH(test_no_claim_moves_statistics_from_their_median, setup, teardown)
{
    assert_float_equal(moved_dense(&tern_strategy_fedmedian), 0.75F, 1e-6F);
    teardown(state);
    setup(state);
    assert_float_equal(moved_dense(&tern_strategy_fedtrimmedavg), 0.75F, 1e-6F);
    teardown(state);
    setup(state);
    assert_true(moved_dense(&tern_strategy_fednova) > 49.0F);
}

// The version's and the task's base's residual after rounds that `one` missed.
static void read_residuals(const tern_Task *task, float *trunk, float *base)
{
    struct tern_db *db = harness_look(&harness);
    struct tern_db_version newest;
    struct tern_db_replica row;
    uint8_t id[TERN_SHA256_SIZE];
    assert_int_equal(tern_db_version_last(db, &newest), TERN_OK);
    assert_int_equal(tern_db_replica_get(db, newest.replica, &row), TERN_OK);
    *trunk = row.residual;
    assert_true(whole_id(db, task->base.bytes, id));
    assert_int_equal(tern_db_replica_get(db, id, &row), TERN_OK);
    *base = row.residual;
    tern_db_close(db);
}

// Statistics move a thousand times as far as weights. Downloads have them exactly, so a download must still leave its bound
// of the weights, and not send more of these.
CASE_WITH(test_statistics_have_no_part_in_what_a_download_leaves, setup, teardown)
{
    const double bound = 1.0;
    float weights[COUNT];
    uint8_t replica[TERN_SHA256_SIZE];
    float trunk = 0.0F;
    float base = 0.0F;
    struct tern_catchup_config *downloads = &harness.config.federation.downloads;
    downloads->plan = TERN_DOWNLOADS_CHEAPEST;
    downloads->residual = bound;
    assert_int_equal(tern_codec_parse("density:p=0.1,coder=range", &downloads->codec, NULL),
                     TERN_OK);
    harness.config.federation.round.cohort = 1;
    harness.config.federation.round.over_selection = 1.0;
    harness_start(&harness);
    uint64_t busy = enroll(&harness, false);
    uint64_t one = enroll(&harness, false);
    begin(one, weights, replica);
    for (uint32_t round = 1; round <= 6; round++) {
        float values[COUNT] = {0};
        uint8_t *body;
        tern_CheckinReply reply = checkin(&harness, busy, NULL);
        for (uint32_t i = 0; i < CODED + DENSE; i++) {
            values[i] = i < CODED ? 0.001F * (float)(i * (i + 37 * round) % 1000) : 1000.0F;
        }
        const size_t len = encode_values(&harness, &reply.task, values, 10, &body);
        answer_expect(put_update(&harness, busy, reply.task.round, 1, body, len), 200);
        free(body);
    }
    tern_CheckinReply reply = checkin(&harness, one, replica);
    assert_int_equal(reply.task.downloads_count, 1);
    read_residuals(&reply.task, &trunk, &base);
    assert_true((double)base <= bound * (double)trunk);
    assert_true((double)base > 0.8 * bound * (double)trunk);
}

// An update that is one version old weighs 1 / sqrt(2) under FedBuff, for statistics too.
CASE_WITH(test_old_statistics_weigh_less, setup, teardown)
{
    float weights[COUNT];
    uint32_t version = 0;
    uint8_t *body = NULL;
    harness.config.federation.strategy = &tern_strategy_fedbuff;
    harness.config.federation.strategy_parameters[TERN_STRATEGY_STALENESS_MAX] = 10.0F;
    harness.config.federation.min_clients = 3;
    harness.config.federation.round.over_selection = 0.5;
    harness_start_with(&harness, 3);
    tern_CheckinReply late = checkin(&harness, 1, NULL);
    size_t len = encode_update(&harness, &late.task, 2.0F, 10, &body);
    do_round(&harness, 2, NULL, 1.0F);
    do_round(&harness, 3, NULL, 1.0F);
    answer_expect(put_update(&harness, 1, 1, 1, body, len), 200);
    free(body);
    do_round(&harness, 2, NULL, 3.0F); // the buffer of two is full
    check_replay(2);
    assert_int_equal(tern_db_checkpoint(harness.db, &version), TERN_OK);
    assert_int_equal(tern_db_weights_get(harness.db, TERN_WEIGHTS_GLOBAL, version, weights, COUNT),
                     TERN_OK);
    assert_int_equal(version, 2);
    const float moved = 1.0F + (2.0F / sqrtf(2.0F) + 3.0F) / 2.0F;
    assert_float_equal(weights[0] - first[0], moved, 1e-5F);
    assert_float_equal(weights[CODED] - first[CODED], moved, 1e-5F);
}

enum { LARGE = 300000 }; // values of a model whose snapshot is sent from a file

static int setup_large(void **state)
{
    (void)state;
    static struct tern_model made;
    static float weights[LARGE];
    for (int i = 0; i < LARGE; i++) {
        weights[i] = (float)(i % 9 - 4) / 8.0F;
    }
    tern_model_clear(&made);
    add(&made, "weight", LARGE, TERN_RULE_COMPRESS);
    manifest_len = tern_manifest_encode(&made, manifest);
    harness_make_imported(&harness, manifest, manifest_len, weights);
    return 0;
}

// Whoever asks for what cannot be sent now is told to come again, and nobody else: the batch that it
// was in is stored. The folder that is missing stands for a full disk.
CASE_WITH(test_a_download_without_its_file_fails_alone, setup_large, teardown)
{
    char folder[160];
    char path[TERN_PATH_MAX];
    char why[256];
    uint8_t body[TERN_WIRE_MESSAGE_MAX];
    struct tern_db *other;
    snprintf(folder, sizeof folder, "%s/spool", harness.folder);
    harness.config.federation.downloads.spool_folder = folder;
    harness_start(&harness);
    const uint64_t one = enroll(&harness, false);
    const uint64_t two = enroll(&harness, false);
    const tern_CheckinReply reply = checkin(&harness, one, NULL);
    assert_int_equal(reply.task.downloads_count, 1);
    tern_path_download(reply.task.downloads[0].sha256.bytes, path);
    // What comes while somebody else writes is one batch.
    assert_int_equal(tern_db_open(harness.path, 0, &other, why), TERN_OK);
    assert_int_equal(tern_db_begin(other), TERN_OK);
    const size_t len = encode_checkin(NULL, 0, body);
    struct tern_http_exchange *calls[] = {
        call_begin(&harness, "POST", TERN_PATH_CHECKIN, harness.tokens[two], body, len),
        call_begin(&harness, "POST", TERN_PATH_CHECKIN, harness.tokens[one], body, len),
        call_begin(&harness, "GET", path, harness.tokens[one], NULL, 0),
    };
    tern_db_rollback(other);
    tern_db_close(other);
    for (int i = 0; i < 3; i++) {
        struct answer answer = call_end(calls[i]);
        assert_int_equal(answer.status, i < 2 ? 200 : 503);
        assert_int_equal(answer.retry_after_s > 0, i == 2);
        answer_free(&answer);
    }
    assert_int_equal(mkdir(folder, 0700), 0);
    struct answer answer = get(reply.task.downloads[0].sha256.bytes, one);
    assert_int_equal(answer.status, 200);
    assert_int_equal(answer.body->len, reply.task.downloads[0].size);
    answer_free(&answer);
}
