// Nothing that a federation learns depends on who asks first: the same clients make the same versions, in
// whatever order they come within a round, and each is led to the same replica.
#include "harness.h"

#include "tests/cases.h"
#include "util/prng.h"
#include <stdlib.h>
#include <string.h>

#define COUNT 650 // values of MODEL
#define CLIENTS 8
#define ROUNDS 40

struct holder {
    uint8_t replica[TERN_SHA256_SIZE];
    float weights[COUNT];
    uint32_t sequence;
};

// What a run came to.
struct course {
    uint8_t model[TERN_SHA256_SIZE];
    uint8_t base[ROUNDS][CLIENTS][TERN_WIRE_REPLICA_BYTES]; // zeros: not in the cohort
    uint32_t own; // ways that lead to a replica of a client's own
};

static struct harness harness;
static struct tern_db *reader; // another connection: what is committed
static struct holder holders[CLIENTS];

static void start(void)
{
    struct tern_federation_config *config = &harness.config.federation;
    char why[256];
    harness_make(&harness);
    config->round.cohort = 4;
    config->round.quorum = 4;
    config->min_clients = CLIENTS;
    config->downloads.plan = TERN_DOWNLOADS_CHEAPEST;
    config->downloads.residual = 1.0;
    config->downloads.replica_cache = 1 << 20;
    assert_int_equal(tern_codec_parse("3lc:s=1", &config->codec_up, NULL), TERN_OK);
    assert_int_equal(tern_codec_parse("3lc:s=1", &config->downloads.codec, NULL), TERN_OK);
    harness_start(&harness);
    assert_int_equal(tern_db_open(harness.path, 0, &reader, why), TERN_OK);
    for (uint32_t i = 0; i < CLIENTS; i++) {
        assert_int_equal(enroll(&harness, false), i + 1);
        seed_replica(&harness, holders[i].replica, holders[i].weights);
        holders[i].sequence = 0;
    }
}

static void stop(void)
{
    tern_db_close(reader);
    harness_free(&harness);
}

// A step towards weights that this client would like best, from those that it holds.
static void train(uint32_t client, float values[COUNT])
{
    struct tern_prng rng;
    tern_prng_init(&rng, 3, TERN_PRNG_COHORT, client, 0);
    for (uint32_t i = 0; i < COUNT; i++) {
        const float liking = tern_prng_float(&rng) * tern_prng_float(&rng) * tern_prng_float(&rng);
        values[i] = 0.3F * (liking - holders[client].weights[i]);
    }
}

static void take_part(uint32_t client, const tern_Task *task)
{
    struct holder *holder = &holders[client];
    float values[COUNT];
    uint8_t *body = NULL;
    apply_downloads(&harness, task, holder->weights, holder->replica, harness.tokens[client + 1]);
    train(client, values);
    const size_t len = encode_values(&harness, task, values, 10, &body);
    answer_expect(put_update(&harness, client + 1, task->round, ++holder->sequence, body, len),
                  200);
    free(body);
}

static bool is_version(const uint8_t *name)
{
    uint8_t id[TERN_SHA256_SIZE];
    uint32_t version;
    return whole_id(reader, name, id) &&
           tern_db_version_of_replica(reader, id, &version) == TERN_OK;
}

// All ask, in this order, before the first of them has trained.
static void play_round(uint32_t round, const uint32_t order[CLIENTS], struct course *course)
{
    tern_CheckinReply replies[CLIENTS];
    for (uint32_t i = 0; i < CLIENTS; i++) {
        const uint32_t client = order[i];
        replies[client] = checkin(&harness, client + 1, holders[client].replica);
        const tern_Task *task = &replies[client].task;
        if (replies[client].has_task) {
            assert_int_equal(task->round, round + 1);
            memcpy(course->base[round][client], task->base.bytes, TERN_WIRE_REPLICA_BYTES);
            course->own += !is_version(task->base.bytes);
        }
    }
    for (uint32_t i = 0; i < CLIENTS; i++) {
        if (replies[order[i]].has_task) {
            take_part(order[i], &replies[order[i]].task);
        }
    }
}

// shuffle: 0 = by their numbers, 1 = the other way round, else drawn anew in each round.
static struct course play(uint32_t shuffle)
{
    struct course course = {0};
    struct tern_db_version last;
    struct tern_prng rng;
    start();
    tern_prng_init(&rng, 11, TERN_PRNG_COHORT, shuffle, 0);
    for (uint32_t round = 0; round < ROUNDS; round++) {
        uint32_t order[CLIENTS] = {0};
        for (uint32_t i = 0; i < CLIENTS; i++) {
            const uint32_t j = shuffle > 1 ? tern_prng_below(&rng, i + 1) : i;
            order[i] = order[j];
            order[j] = shuffle == 1 ? CLIENTS - 1 - i : i;
        }
        play_round(round, order, &course);
    }
    assert_int_equal(tern_db_version_last(reader, &last), TERN_OK);
    assert_int_equal(last.version, ROUNDS);
    memcpy(course.model, last.model_sha256, TERN_SHA256_SIZE);
    stop();
    return course;
}

CASE(test_the_order_of_arrival_decides_nothing)
{
    const struct course by_number = play(0);
    assert_true(by_number.own > ROUNDS); // else there would be nothing to choose
    for (uint32_t shuffle = 1; shuffle < 4; shuffle++) {
        const struct course course = play(shuffle);
        for (uint32_t round = 0; round < ROUNDS; round++) {
            assert_memory_equal(course.base[round], by_number.base[round],
                                sizeof course.base[round]);
        }
        assert_memory_equal(course.model, by_number.model, TERN_SHA256_SIZE);
    }
}
