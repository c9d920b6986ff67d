// Epochs of qsvrg: the client core against the service, over an aggregator's store and clients' records, on sums of
// quadratics whose gradients a reference knows in float64.
#include "harness.h"

#include "client.h"
#include "merge/replay.h"
#include "sanitized.h"
#include "util/prng.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "one_harness.h"
#include "tests/cases.h"
#include "watched_log.h"

#define SPEC "softmax:8-4"
#define RATE 0.1F

enum {
    VALUES = 36,
    CLIENTS = 4,
    EXAMPLES_MAX = 8,
    T = 5, // so that an epoch has four rounds
    ROUNDS_MAX = 32,
    BLOB = 4096,
    STEPS_MAX = 20000
};

struct record {
    uint8_t data[2048];
    size_t len;
    bool saved;
};

// A client with its data, records and clock.
struct party {
    uint32_t examples;
    double curvature[EXAMPLES_MAX][VALUES];
    double optimum[EXAMPLES_MAX][VALUES];

    struct tern_client client;
    float weights[VALUES];
    float error_buffer[VALUES];
    float anchor[2 * VALUES];
    uint8_t blob[BLOB];
    bool no_anchor;
    struct record records[TERN_RECORD_COUNT];
    size_t writes;
    size_t cut_at; // this write fails, and the power is off; 0 = never
    bool off;
    bool mute; // its updates are lost on the way
    uint64_t now_ms;
    uint32_t entropy;
    uint32_t uploaded; // the last round whose update was answered
    bool waits;

    // The client's last trainings:
    float trained[VALUES];
    float bases[2][VALUES]; // at the anchor, if there was one, then at the replica
    uint32_t trainings;
    struct tern_train_task task;
    char codec[TERN_CODEC_SPEC_MAX];
    float sent[VALUES]; // of the last update, decoded
};

static struct party parties[CLIENTS];

// --- The task

static double drawn(struct tern_prng *rng, double least, double most)
{
    return least + (most - least) * tern_prng_u32(rng) / 4294967295.0;
}

static void make_data(struct party *party, uint32_t number)
{
    struct tern_prng rng;
    tern_prng_init(&rng, 3, TERN_PRNG_TEST, number, 0);
    party->examples = 4 + number;
    for (uint32_t i = 0; i < party->examples; i++) {
        for (uint32_t k = 0; k < VALUES; k++) {
            party->curvature[i][k] = drawn(&rng, 0.2, 1.0);
            party->optimum[i][k] = drawn(&rng, -1.0, 1.0);
        }
    }
}

static void add_gradient(const struct party *party, uint32_t example, const double *w, double scale,
                         double *gradient)
{
    for (uint32_t k = 0; k < VALUES; k++) {
        gradient[k] += scale * party->curvature[example][k] * (w[k] - party->optimum[example][k]);
    }
}

static void add_full_gradient(const struct party *party, const double *w, double scale,
                              double *gradient)
{
    for (uint32_t i = 0; i < party->examples; i++) {
        add_gradient(party, i, w, scale / party->examples, gradient);
    }
}

static uint32_t drawn_example(const struct party *party, uint64_t seed, uint32_t round,
                              uint32_t client)
{
    struct tern_prng rng;
    tern_prng_init(&rng, seed, TERN_PRNG_BATCHES, round, client);
    return tern_prng_below(&rng, party->examples);
}

// --- Ports

static enum tern_result train_begin(void *ctx, const struct tern_train_task *task,
                                    const float *base, uint32_t count)
{
    struct party *party = ctx;
    double w[VALUES];
    double gradient[VALUES] = {0};
    assert_int_equal(count, VALUES);
    assert_int_equal(task->local_steps, 1);
    if (party->trainings == 2 || task->round != party->task.round) {
        party->trainings = 0;
    }
    party->task = *task;
    memcpy(party->bases[party->trainings++], base, sizeof party->bases[0]);
    for (uint32_t k = 0; k < VALUES; k++) {
        w[k] = (double)base[k];
    }
    if (task->batch_size == TERN_TRAIN_ALL) {
        add_full_gradient(party, w, 1.0, gradient);
    } else {
        add_gradient(party, drawn_example(party, task->seed, task->round, task->client), w, 1.0,
                     gradient);
    }
    for (uint32_t k = 0; k < VALUES; k++) {
        party->trained[k] = (float)(w[k] - (double)task->learning_rate * gradient[k]);
    }
    return TERN_OK;
}

static enum tern_result train_step(void *ctx, float **weights, struct tern_train_result *result)
{
    struct party *party = ctx;
    *weights = party->trained;
    *result =
        (struct tern_train_result){.num_examples = party->examples, .local_steps = 1, .loss = 0.5F};
    return TERN_OK;
}

static enum tern_result evaluate(void *ctx, const float *weights, uint32_t count,
                                 struct tern_evaluate_result *result)
{
    (void)ctx;
    (void)weights;
    (void)count;
    (void)result;
    return TERN_ERR_NOT_FOUND;
}

static enum tern_result save(void *ctx, enum tern_record number,
                             const struct tern_store_part *parts, size_t count)
{
    struct party *party = ctx;
    struct record *record = &party->records[number];
    party->writes++;
    if (party->off || party->writes == party->cut_at) {
        party->off = true;
        return TERN_ERR_IO;
    }
    record->len = 0;
    record->saved = true;
    for (size_t i = 0; i < count; i++) {
        assert_true(record->len + parts[i].len <= sizeof record->data);
        if (parts[i].len > 0) {
            memcpy(record->data + record->len, parts[i].data, parts[i].len);
        }
        record->len += parts[i].len;
    }
    return TERN_OK;
}

static enum tern_result load(void *ctx, enum tern_record number, size_t offset, void *dst,
                             size_t len, size_t *record_len)
{
    const struct party *party = ctx;
    const struct record *record = &party->records[number];
    if (!record->saved) {
        return TERN_ERR_NOT_FOUND;
    }
    *record_len = record->len;
    if (offset > record->len || len > record->len - offset) {
        return TERN_ERR_CORRUPT;
    }
    memcpy(dst, record->data + offset, len);
    return TERN_OK;
}

// What an update brings, as the aggregator reads it.
static void note_update(struct party *party, const struct tern_request *request)
{
    tern_Update message;
    struct tern_span container;
    assert_int_equal(
        tern_wire_decode_update(request->body, request->body_len, &message, &container), TERN_OK);
    assert_int_equal(
        tern_container_decode(&harness.model, container.data, container.len, party->sent), TERN_OK);
}

static enum tern_result exchange(void *ctx, const struct tern_request *request,
                                 struct tern_response *response)
{
    struct party *party = ctx;
    const bool update = strcmp(request->method, "PUT") == 0;
    if (update) {
        note_update(party, request);
    }
    if (party->off || (update && party->mute)) {
        return TERN_ERR_NETWORK;
    }
    struct answer answer = call(&harness, request->method, request->path, request->token,
                                request->body, request->body_len);
    response->status = answer.status;
    response->retry_after_s = answer.retry_after_s;
    response->body_len = 0;
    if (answer.body != NULL) {
        assert_true(answer.body->len <= response->body_size);
        memcpy(response->body, answer.body->data, answer.body->len);
        response->body_len = answer.body->len;
    }
    answer_free(&answer);
    return TERN_OK;
}

static void close_connection(void *ctx)
{
    (void)ctx;
}

static void collect(void *ctx, struct tern_meter *meter)
{
    (void)ctx;
    (void)meter;
}

static uint64_t monotonic_ms(void *ctx)
{
    return ((const struct party *)ctx)->now_ms;
}

static uint64_t unix_seconds(void *ctx)
{
    (void)ctx;
    return 1700000000;
}

static enum tern_result fill(void *ctx, void *dst, size_t len)
{
    struct party *party = ctx;
    for (size_t i = 0; i < len; i++) {
        ((uint8_t *)dst)[i] = (uint8_t)(++party->entropy * 37);
    }
    return TERN_OK;
}

static void on_event(void *ctx, const struct tern_client_event *event)
{
    struct party *party = ctx;
    if (event->kind == TERN_EVENT_UPLOADED) {
        party->uploaded = event->round;
    }
    party->waits =
        party->waits || event->kind == TERN_EVENT_WAITING || event->kind == TERN_EVENT_FAILURE;
}

// --- The clients

// Starts the client as a process would, and enrols it the first time.
static void boot(struct party *party)
{
    const struct tern_client_config config = {
        .ports = {.transport = {party, exchange, close_connection, collect},
                  .store = {.ctx = party, .save = save, .load = load},
                  .clock = {party, monotonic_ms, unix_seconds},
                  .entropy = {party, fill}},
        .on_event = on_event,
        .ctx = party,
    };
    const struct tern_client_workspace workspace = {
        .model = &harness.model,
        .trainer = {party, train_begin, train_step, evaluate},
        .weights = party->weights,
        .error_buffer = party->error_buffer,
        .anchor = party->no_anchor ? NULL : party->anchor,
        .blob = party->blob,
        .blob_size = sizeof party->blob,
    };
    party->off = false;
    memset(&party->client, 0xa5, sizeof party->client);
    memset(party->weights, 0xa5, sizeof party->weights);
    memset(party->anchor, 0xa5, sizeof party->anchor);
    assert_int_equal(tern_client_init(&party->client, &config), TERN_OK);
    enum tern_result result = tern_client_identify(&party->client);
    if (result == TERN_ERR_NOT_FOUND) {
        result = tern_client_enroll(&party->client, JOIN_CODE);
    }
    assert_int_equal(result, TERN_OK);
    assert_int_equal(tern_client_restore(&party->client, &workspace), TERN_OK);
}

static void join(uint32_t number)
{
    make_data(&parties[number], number);
    boot(&parties[number]);
}

// Steps a client until it has nothing to do, or its update of the round was answered.
static void run(struct party *party, uint32_t round)
{
    party->waits = false;
    for (int i = 0; i < STEPS_MAX && !party->waits && party->uploaded < round; i++) {
        const enum tern_result result = tern_client_step(&party->client);
        if (party->off) {
            party->cut_at = 0;
            boot(party);
        } else {
            assert_true(result == TERN_OK || result == TERN_AGAIN);
        }
    }
    party->now_ms += tern_client_next_ms(&party->client);
}

// Until all of the first `count` clients have reported in the round, and it is merged.
static void do_round_of(uint32_t round, uint32_t count)
{
    uint32_t reported = 0;
    for (int i = 0; i < STEPS_MAX && reported < count; i++) {
        reported = 0;
        for (uint32_t c = 0; c < count; c++) {
            run(&parties[c], round);
            reported += parties[c].uploaded >= round;
        }
        usleep(200); // merges are on another thread
    }
    assert_int_equal(reported, count);
}

static void use_qsvrg(const char *codec)
{
    struct tern_federation_config *config = &harness.config.federation;
    assert_int_equal(tern_codec_parse(codec, &config->codec_up, NULL), TERN_OK);
    config->strategy = &tern_strategy_qsvrg;
    config->strategy_parameters[TERN_STRATEGY_EPOCH_STEPS] = T;
    config->steps.local_steps = 1;
    config->train.batch_size = 1;
    config->train.rate.first = RATE;
    config->round.cohort = CLIENTS;
    config->min_clients = 3;
}

static void start(const char *codec)
{
    memset(parties, 0, sizeof parties);
    harness_make_model(&harness, SPEC);
    assert_int_equal(harness.model.count, VALUES);
    use_qsvrg(codec);
    harness_start(&harness);
    for (uint32_t c = 0; c < 3; c++) {
        join(c);
    }
}

// --- The reference

struct reference {
    double x[VALUES];
    double y[VALUES];
    double second[VALUES]; // x_2
    double sum[VALUES];    // of x_1 ..
    uint32_t step;         // rounds of the epoch that are done
};

static void begin_reference(struct reference *reference)
{
    float seed[VALUES];
    uint8_t replica[TERN_SHA256_SIZE];
    seed_replica(&harness, replica, seed);
    memset(reference, 0, sizeof *reference);
    for (uint32_t k = 0; k < VALUES; k++) {
        reference->x[k] = (double)seed[k];
    }
}

// What client `c` is to send, before it is quantised.
static void expected_of(const struct reference *reference, uint32_t c, uint32_t round,
                        double *update)
{
    const struct party *party = &parties[c];
    memset(update, 0, VALUES * sizeof *update);
    if (reference->step == 0) {
        add_full_gradient(party, reference->x, -(double)RATE, update);
        return;
    }
    const uint32_t example = drawn_example(party, 7, round, c + 1);
    add_gradient(party, example, reference->x, -(double)RATE, update);
    add_gradient(party, example, reference->y, (double)RATE, update);
    for (uint32_t k = 0; k < VALUES; k++) {
        update[k] += reference->second[k] - reference->y[k];
    }
}

static void expect_near(const float *found, const double *expected, double room)
{
    for (uint32_t k = 0; k < VALUES; k++) {
        if (fabs((double)found[k] - expected[k]) > room) {
            fail_msg("value %u: %.9g, expected %.9g", k, (double)found[k], expected[k]);
        }
    }
}

static double norm_of(const double *values)
{
    double square = 0.0;
    for (uint32_t k = 0; k < VALUES; k++) {
        square += values[k] * values[k];
    }
    return sqrt(square);
}

// A full gradient is sent without loss; QSGD keeps each value within one level.
static void check_sent(const struct reference *reference, uint32_t c, uint32_t round,
                       uint32_t levels)
{
    double update[VALUES];
    expected_of(reference, c, round, update);
    const double level = levels > 0 && reference->step > 0 ? norm_of(update) / levels : 0.0;
    expect_near(parties[c].sent, update, level + 1e-6);
}

static void check_bases(const struct reference *reference, uint32_t c)
{
    const struct party *party = &parties[c];
    const bool reduced = reference->step > 0;
    assert_int_equal(party->trainings, reduced ? 2 : 1);
    if (reduced) {
        expect_near(party->bases[0], reference->y, 1e-6);
    }
    expect_near(party->bases[reduced], reference->x, 1e-6);
    assert_int_equal(party->task.batch_size, reduced ? 1 : TERN_TRAIN_ALL);
}

// Moves the reference by the round's updates, as they were sent.
static void move(struct reference *reference, uint32_t count)
{
    uint32_t examples = 0;
    for (uint32_t c = 0; c < count; c++) {
        examples += parties[c].examples;
    }
    if (reference->step == 0) {
        memcpy(reference->y, reference->x, sizeof reference->y);
        memcpy(reference->sum, reference->x, sizeof reference->sum);
    }
    for (uint32_t k = 0; k < VALUES; k++) {
        for (uint32_t c = 0; c < count; c++) {
            reference->x[k] += (double)parties[c].sent[k] * parties[c].examples / examples;
        }
        reference->sum[k] += reference->x[k];
    }
    if (reference->step == 0) {
        memcpy(reference->second, reference->x, sizeof reference->second);
    }
    if (++reference->step == T - 1) {
        reference->step = 0;
        for (uint32_t k = 0; k < VALUES; k++) {
            reference->x[k] = reference->sum[k] / T;
        }
    }
}

static void follow(struct reference *reference, uint32_t round, uint32_t count, uint32_t levels)
{
    do_round_of(round, count);
    for (uint32_t c = 0; c < count; c++) {
        check_bases(reference, c);
        check_sent(reference, c, round, levels);
    }
    move(reference, count);
}

static void expect_replayed(uint32_t rounds)
{
    struct tern_replay_report report;
    char why[256] = "";
    harness_stop(&harness);
    assert_int_equal(tern_db_open(harness.path, 0, &harness.db, why), TERN_OK);
    if (tern_replay(harness.db, NULL, NULL, &report, why) != TERN_OK) {
        fail_msg("%s", why);
    }
    assert_true(report.rounds >= rounds); // a start merges what is in
}

// --- As the paper says

CASE_WITH(test_without_quantising, NULL, teardown)
{
    struct reference reference;
    start("float32");
    begin_reference(&reference);
    for (uint32_t round = 1; round <= 3 * (T - 1) + 1; round++) {
        follow(&reference, round, 3, 0);
    }
    do_round_of(3 * (T - 1) + 2, 3); // which is merged before
    expect_replayed(3 * (T - 1) + 1);
}

CASE_WITH(test_quantised, NULL, teardown)
{
    struct reference reference;
    start("qsgd:levels=6,bucket=268435456,norm=l2,coder=elias");
    begin_reference(&reference);
    for (uint32_t round = 1; round <= 3 * (T - 1) + 1; round++) {
        follow(&reference, round, 3, 6);
    }
}

// The distance to the optimum falls by the same factor an epoch, and far below where SGD of that rate ends.
CASE_WITH(test_converges, NULL, teardown)
{
    double optimum[VALUES];
    double distance = 0.0;
    start("qsgd:levels=6,bucket=268435456,norm=l2,coder=elias");
    harness.config.federation.strategy_parameters[TERN_STRATEGY_EPOCH_STEPS] = 40;
    harness_restart(&harness);
    for (uint32_t k = 0; k < VALUES; k++) {
        double curvature = 0.0;
        optimum[k] = 0.0;
        for (uint32_t c = 0; c < 3; c++) {
            for (uint32_t i = 0; i < parties[c].examples; i++) {
                curvature += parties[c].curvature[i][k];
                optimum[k] += parties[c].curvature[i][k] * parties[c].optimum[i][k];
            }
        }
        optimum[k] /= curvature;
    }
    for (uint32_t epoch = 0; epoch <= 8; epoch++) {
        double off[VALUES];
        do_round_of(39 * epoch + 1, 3);
        for (uint32_t k = 0; k < VALUES; k++) {
            off[k] = (double)parties[0].bases[0][k] - optimum[k];
        }
        assert_true(epoch == 0 || norm_of(off) < 0.45 * distance);
        distance = norm_of(off);
    }
    assert_true(distance < 0.005);
}

// --- Whatever happens

// What each client's last training began from, which is what all rounds before have made.
static void take_bases(float bases[CLIENTS][2][VALUES])
{
    for (uint32_t c = 0; c < CLIENTS; c++) {
        memcpy(bases[c], parties[c].bases, sizeof bases[c]);
    }
}

static void undisturbed(uint32_t rounds, float bases[CLIENTS][2][VALUES], size_t *writes)
{
    start("qsgd:levels=6,bucket=268435456,norm=l2,coder=elias");
    for (uint32_t round = 1; round <= rounds; round++) {
        do_round_of(round, 3);
    }
    take_bases(bases);
    *writes = parties[1].writes;
    harness_free(&harness);
}

// A restart of service and clients before each round leaves no trace in the model's bits.
CASE_WITH(test_restarts, NULL, teardown)
{
    float expected[CLIENTS][2][VALUES];
    float found[CLIENTS][2][VALUES];
    size_t writes = 0;
    undisturbed(2 * T, expected, &writes);
    start("qsgd:levels=6,bucket=268435456,norm=l2,coder=elias");
    for (uint32_t round = 1; round <= 2 * T; round++) {
        do_round_of(round, 3);
        harness_restart(&harness);
        for (uint32_t c = 0; c < 3; c++) {
            boot(&parties[c]);
        }
    }
    take_bases(found);
    assert_memory_equal(found, expected, sizeof found);
}

// Nor does a power cut at whichever write of a client.
CASE(test_power_cuts)
{
    float expected[CLIENTS][2][VALUES];
    float found[CLIENTS][2][VALUES];
    size_t writes = 0;
    undisturbed(T + 1, expected, &writes);
    assert_true(writes > 4 * T);
    for (size_t cut = 2; cut <= writes; cut += FEWER_TRIALS ? 5 : 1) {
        start("qsgd:levels=6,bucket=268435456,norm=l2,coder=elias");
        parties[1].cut_at = cut;
        for (uint32_t round = 1; round <= T + 1; round++) {
            do_round_of(round, 3);
        }
        take_bases(found);
        assert_memory_equal(found, expected, sizeof found);
        harness_free(&harness);
    }
}

// --- Who takes part

// Who joins later waits for the next epoch, and counts in it from its full gradient on.
CASE_WITH(test_joining, NULL, teardown)
{
    struct reference reference;
    start("float32");
    begin_reference(&reference);
    follow(&reference, 1, 3, 0);
    join(3);
    for (uint32_t round = 2; round < T; round++) {
        run(&parties[3], round);
        assert_true(parties[3].waits);
        follow(&reference, round, 3, 0);
        assert_int_equal(parties[3].trainings, 0);
    }
    for (uint32_t round = T; round < 2 * T; round++) {
        follow(&reference, round, 4, 0);
    }
}

// A client that has lost its anchor says so; the round goes on without it, and with it from the next epoch on.
CASE_WITH(test_lost_anchor, NULL, teardown)
{
    start("float32");
    do_round_of(1, 3);
    do_round_of(2, 3);
    parties[2].records[TERN_RECORD_ANCHOR].saved = false;
    boot(&parties[2]);
    for (uint32_t round = 3; round < T; round++) {
        run(&parties[2], round);
        assert_true(parties[2].waits);
        do_round_of(round, 2);
    }
    assert_int_equal(parties[2].uploaded, 2);
    do_round_of(T, 3);
    do_round_of(T + 1, 3);
}

// Nor does it wait where fewer than its quorum are left.
CASE_WITH(test_most_lost_anchors, NULL, teardown)
{
    start("float32");
    do_round_of(1, 3);
    do_round_of(2, 3);
    for (uint32_t c = 1; c < 3; c++) {
        parties[c].records[TERN_RECORD_ANCHOR].saved = false;
        boot(&parties[c]);
        run(&parties[c], 3);
    }
    for (uint32_t round = 3; round < T; round++) {
        do_round_of(round, 1);
    }
    do_round_of(T, 3);
}

// What was given back of a late update was measured from elsewhere: it goes into no later one.
CASE_WITH(test_late, NULL, teardown)
{
    struct reference reference;
    start("float32");
    begin_reference(&reference);
    follow(&reference, 1, 3, 0);
    follow(&reference, 2, 3, 0);
    parties[2].mute = true;
    run(&parties[2], 3);
    do_round_of(3, 2);
    check_sent(&reference, 2, 3, 0);
    move(&reference, 2);
    test_advance(61000);
    parties[2].mute = false;
    run(&parties[0], 4); // the round closes without it
    usleep(20000);
    for (int i = 0; i < 100 && parties[2].uploaded < 3; i++) {
        run(&parties[2], 3);
    }
    float buffer = 0.0F;
    for (uint32_t k = 0; k < VALUES; k++) {
        buffer += fabsf(parties[2].error_buffer[k]);
    }
    assert_true(buffer > 0.1F);
    for (uint32_t round = 4; round <= T + 1; round++) {
        follow(&reference, round, 3, 0);
    }
}

// Damaged, the record is as if it was not there.
CASE_WITH(test_damaged_anchor, NULL, teardown)
{
    start("float32");
    do_round_of(1, 3);
    do_round_of(2, 3);
    parties[2].records[TERN_RECORD_ANCHOR].len -= 4;
    boot(&parties[2]);
    run(&parties[2], 3);
    do_round_of(3, 2);
    assert_int_equal(parties[2].uploaded, 2);
}

// With nobody left, the next epoch begins where the model is.
CASE_WITH(test_nobody_holds_it, NULL, teardown)
{
    start("float32");
    do_round_of(1, 3);
    do_round_of(2, 3);
    for (uint32_t c = 0; c < 3; c++) {
        parties[c].records[TERN_RECORD_ANCHOR].saved = false;
        boot(&parties[c]);
        run(&parties[c], 3);
    }
    watch_log();
    test_advance(61000); // round 3 waits for its members until its deadline
    for (uint32_t c = 0; c < 3; c++) {
        run(&parties[c], 3);
    }
    do_round_of(3, 3);
    assert_int_equal(lines_of("epoch-ended-early", "round=3 began=1 rounds=2 "), 1);
    for (uint32_t c = 0; c < 3; c++) {
        assert_int_equal(parties[c].task.round, 3);
        assert_int_equal(parties[c].task.batch_size, TERN_TRAIN_ALL);
    }
    for (uint32_t round = 4; round <= T + 3; round++) {
        do_round_of(round, 3);
        assert_int_equal(parties[0].trainings, round == T + 2 ? 1 : 2);
    }
    leave_log();
}

// Nobody can take the place of a holder that does not come: at its deadline the round takes what it has.
CASE_WITH(test_few_come, NULL, teardown)
{
    start("float32");
    do_round_of(1, 3);
    do_round_of(2, 3);
    watch_log();
    do_round_of(3, 1);
    test_advance(61000);
    do_round_of(4, 1);
    assert_int_equal(lines_of("round-below-quorum", "round=3 updates=1 quorum=2 "), 1);
    leave_log();
}

// A round that builds on a full gradient which nobody comes for becomes one of the strategy that is set by now.
CASE_WITH(test_other_strategy, NULL, teardown)
{
    start("float32");
    do_round_of(1, 3);
    do_round_of(2, 3);
    harness_stop(&harness);
    harness.config.federation.strategy = &tern_strategy_fedavg;
    harness.config.federation.min_clients = 1;
    harness_start(&harness);
    join(3);
    test_advance(61000);
    for (int i = 0; i < STEPS_MAX && parties[3].uploaded < 3; i++) {
        run(&parties[3], 3);
        usleep(200);
    }
    assert_int_equal(parties[3].uploaded, 3);
    assert_int_equal(parties[3].task.batch_size, 1);
}

// A client that cannot do it is told, once and by name, and rounds do not wait for it.
CASE_WITH(test_who_cannot, NULL, teardown)
{
    start("float32");
    parties[3].no_anchor = true;
    join(3);
    tern_CheckinRequest request = tern_CheckinRequest_init_zero;
    strcpy(harness.tokens[4], parties[3].client.identity.token);
    struct answer answer = put_checkin(&harness, 4, &request);
    assert_int_equal(answer.status, 422);
    assert_int_equal(answer_error_name(&answer), TERN_ERR_UNKNOWN);
    answer_free(&answer);
    do_round_of(1, 3);
    do_round_of(2, 3);
}

// --- Settings that do not go with it

static void expect_refused(const char *part)
{
    struct tern_service *service = NULL;
    char why[256] = "";
    assert_int_equal(tern_service_start(&harness.config, harness.db, &service, why),
                     TERN_ERR_CONFIG);
    if (strstr(why, part) == NULL) {
        fail_msg("\"%s\" does not say \"%s\"", why, part);
    }
}

CASE_WITH(test_settings, NULL, teardown)
{
    struct tern_federation_config *config = &harness.config.federation;
    harness_make_model(&harness, SPEC);
    use_qsvrg("float32");
    const struct tern_federation_config good = *config;
    config->steps.local_steps = 2;
    expect_refused("train.local_steps = 1");
    *config = good;
    config->steps.policy = TERN_STEPS_DEADLINE;
    expect_refused("train.schedule = fixed");
    *config = good;
    config->train.momentum = 0.5F;
    expect_refused("train.momentum = 0");
    *config = good;
    config->train.rate.schedule = TERN_RATE_STEP;
    expect_refused("train.learning_rate to a number alone");
    *config = good;
    config->train.rate.warmup_rounds = 3;
    expect_refused("train.learning_rate to a number alone");
    *config = good;
    config->strategy_parameters[TERN_STRATEGY_EPOCH_STEPS] = 0.0F;
    expect_refused("epoch_steps of qsvrg is 0; it goes from 3");
    *config = good;
    assert_int_equal(tern_codec_parse("3lc:s=1", &config->codec_up, NULL), TERN_OK);
    expect_refused("codec.codec is 3lc");
    *config = good;
    assert_int_equal(tern_codec_parse("inceptionn", &config->codec_up, NULL), TERN_OK);
    expect_refused("codec.codec is inceptionn");
    *config = good;
    assert_int_equal(tern_codec_parse("density:p=0.5", &config->downloads.codec, NULL), TERN_OK);
    expect_refused("codec.codec_down = float32");
    *config = good;
    harness_start(&harness);
}
