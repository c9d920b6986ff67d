// The weighted mean of stored updates that belong to many groups, with whatever memory: the same
// bits, and no more reading than one group's sums need.
#include "merge/merge.h"
#include "merge/stored_mean.h"
#include "store/fixture.h"
#include "tests/cases.h"

#include <math.h>
#include <string.h>

#define SPEC "softmax:80-4"
#define COUNT 324
#define UPDATES 40
#define STEPS 20 // numbers of local steps
#define ROUND 3  // that they count in; late ones are of the rounds before

static struct tern_model model;
static struct tern_strategy_totals totals;

// --- How often an update is decoded (the linker puts this in between)

static uint32_t decoded;

enum tern_result __real_tern_exact_mean_add(struct tern_exact_mean *mean,
                                            const struct tern_contribution *contribution,
                                            const uint8_t *container, size_t len,
                                            const struct tern_reading *reading,
                                            struct tern_codec_info *info);
enum tern_result __wrap_tern_exact_mean_add(struct tern_exact_mean *mean,
                                            const struct tern_contribution *contribution,
                                            const uint8_t *container, size_t len,
                                            const struct tern_reading *reading,
                                            struct tern_codec_info *info);

enum tern_result __wrap_tern_exact_mean_add(struct tern_exact_mean *mean,
                                            const struct tern_contribution *contribution,
                                            const uint8_t *container, size_t len,
                                            const struct tern_reading *reading,
                                            struct tern_codec_info *info)
{
    decoded++;
    return __real_tern_exact_mean_add(mean, contribution, container, len, reading, info);
}

// --- A round's updates

// Two updates whose values are so large that what was added up before the first is lost, and of
// opposite signs, so that what comes after the second is left: another order of groups gives other
// bits. Both do fewer steps than the others, which scale_max = 1 makes a factor of 1, and are in
// time.
#define PLUS 26
#define MINUS 38

static struct tern_contribution contribution_of(uint32_t u)
{
    const bool large = u == PLUS || u == MINUS;
    return (struct tern_contribution){.num_examples = large ? 100 : 1 + u * 7919 % 1000,
                                      .local_steps = 1 + u * 7 % STEPS,
                                      .loss = 1.0F};
}

static float value_of(uint32_t u, uint32_t i)
{
    if (u == PLUS || u == MINUS) {
        return u == PLUS ? 0x1p70F : -0x1p70F;
    }
    return ldexpf((float)((u * 37 + i * 11) % 101) - 50.3F, -(int)(u * 5 % 24));
}

// The Update message, as the store keeps it.
static size_t make_body(uint32_t u, uint8_t *body, size_t size)
{
    static const struct tern_codec codec = {.id = TERN_CODEC_FLOAT32, .sparsity = 1.0F};
    const struct tern_contribution contribution = contribution_of(u);
    uint8_t container[2048];
    size_t used = 0;
    size_t len = 0;
    float values[COUNT];
    for (uint32_t i = 0; i < COUNT; i++) {
        values[i] = value_of(u, i);
    }
    assert_int_equal(
        tern_container_encode(&codec, NULL, &model, values, container, sizeof container, &used),
        TERN_OK);
    tern_Update message = {.num_examples = contribution.num_examples,
                           .local_steps = contribution.local_steps,
                           .loss = contribution.loss,
                           .has_error = true};
    message.base.size = TERN_WIRE_REPLICA_BYTES;
    message.model_hash.size = TERN_SHA256_SIZE;
    memcpy(message.model_hash.bytes, model.hash, TERN_SHA256_SIZE);
    assert_int_equal(
        tern_wire_encode_update(&message, (struct tern_span){container, used}, body, size, &len),
        TERN_OK);
    return len;
}

static void put_round(struct fixture *fixture, uint32_t round)
{
    const struct tern_db_round row = {
        .round = round, .state = TERN_ROUND_OPEN, .base_version = round - 1};
    assert_ok(fixture, tern_db_begin(fixture->db));
    assert_ok(fixture, tern_db_round_put(fixture->db, &row));
    assert_ok(fixture, tern_db_commit(fixture->db));
}

static void put_update(struct fixture *fixture, uint32_t u, uint32_t round)
{
    uint8_t body[2048];
    struct tern_db_update update = {.round = round,
                                    .client = fixture_client(fixture, (uint8_t)(u + 1)),
                                    .sequence = 1,
                                    .merged = round < ROUND ? ROUND : 0};
    update.body_len = make_body(u, body, sizeof body);
    update.body = body;
    tern_sha256(body, update.body_len, update.sha256);
    assert_ok(fixture, tern_db_begin(fixture->db));
    assert_ok(fixture, tern_db_update_put(fixture->db, &update));
    assert_ok(fixture, tern_db_commit(fixture->db));
}

static struct tern_update_bounds bounds; // of the last mean

// One update in three is late where the strategy takes these, by a version or two.
static void start(struct fixture *fixture, const struct tern_strategy_rule *rule)
{
    memset(&model, 0, sizeof model);
    assert_int_equal(tern_model_from_spec(&model, SPEC), TERN_OK);
    assert_int_equal(model.count, COUNT);
    tern_strategy_totals_init(&totals, rule);
    tern_update_bounds_clear(&bounds);
    for (uint32_t round = 1; round <= ROUND; round++) {
        put_round(fixture, round);
    }
    for (uint32_t u = 0; u < UPDATES; u++) {
        const struct tern_contribution contribution = contribution_of(u);
        assert_int_equal(tern_strategy_count_update(&totals, &contribution), TERN_OK);
        const bool late = rule->strategy->accepts_late_updates && u % 3 == 0;
        put_update(fixture, u, late ? 1 + u % 2 : ROUND);
        assert_int_equal(tern_update_bounds_add(&bounds, 0, 0, &contribution, 0.0), TERN_OK);
    }
    assert_int_equal(tern_update_bounds_claims(&bounds, &totals), TERN_OK);
}

static void take(struct fixture *fixture, uint64_t memory, float *acc)
{
    const struct tern_db_round round = {.round = ROUND, .base_version = ROUND - 1};
    decoded = 0;
    memset(acc, 0xff, COUNT * sizeof *acc);
    assert_ok(fixture,
              tern_stored_mean(&model, fixture->db, &round, &totals, memory, &bounds, acc));
}

// --- The mean

static void compare_memories(struct fixture *fixture)
{
    float expected[COUNT];
    float acc[COUNT];
    take(fixture, UINT64_MAX, expected);
    assert_int_equal(decoded, UPDATES);
    // All bins of one group and the sums of those before it.
    const uint64_t one_group = (TERN_EXACT_BINS + 1) * COUNT * sizeof(uint64_t);
    take(fixture, one_group, acc);
    assert_memory_equal(acc, expected, sizeof acc);
    assert_in_range(decoded, UPDATES + 1, 2 * UPDATES); // all at once was tried, and stopped early
    for (uint64_t memory = one_group / 64; memory < one_group; memory = memory * 5 / 3) {
        take(fixture, memory, acc);
        assert_memory_equal(acc, expected, sizeof acc);
    }
}

CASE_WITH(test_many_numbers_of_steps, fixture_setup, fixture_teardown)
{
    const struct tern_strategy_rule rule = {.strategy = &tern_strategy_fednova,
                                            .server_learning_rate = 1.0F,
                                            .parameters = {[TERN_STRATEGY_SCALE_MAX] = 1.0F}};
    start(*state, &rule);
    compare_memories(*state);
}

CASE_WITH(test_many_ages, fixture_setup, fixture_teardown)
{
    const struct tern_strategy_rule rule = {
        .strategy = &tern_strategy_fedbuff,
        .server_learning_rate = 1.0F,
        .parameters = {[TERN_STRATEGY_NORMALISE] = 1.0F, [TERN_STRATEGY_SCALE_MAX] = 1.0F}};
    start(*state, &rule);
    compare_memories(*state);
}

// Scales of all updates, in the order of the store; returns how many are below 1.
static uint32_t note_scales(double scales[UPDATES])
{
    uint32_t below = 0;
    assert_int_equal(bounds.count, UPDATES);
    for (uint32_t i = 0; i < UPDATES; i++) {
        scales[i] = bounds.list[i].scale;
        below += scales[i] < 1.0;
    }
    return below;
}

// Some are far larger than the middle one, and few of them the largest by far.
CASE_WITH(test_what_is_scaled_down, fixture_setup, fixture_teardown)
{
    const struct tern_strategy_rule rules[] = {
        {.strategy = &tern_strategy_fednova,
         .server_learning_rate = 1.0F,
         .parameters = {[TERN_STRATEGY_SCALE_MAX] = 1.0F, [TERN_STRATEGY_NORM_BOUND] = 2.0F}},
        {.strategy = &tern_strategy_fedbuff,
         .server_learning_rate = 1.0F,
         .parameters = {[TERN_STRATEGY_NORMALISE] = 1.0F,
                        [TERN_STRATEGY_SCALE_MAX] = 1.0F,
                        [TERN_STRATEGY_EXAMPLES_BOUND] = 1.0F,
                        [TERN_STRATEGY_NORM_BOUND] = 4.0F}}};
    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
        float acc[COUNT];
        double whole[UPDATES];
        double little[UPDATES];
        fixture_teardown(state);
        fixture_setup(state);
        start(*state, &rules[i]);
        compare_memories(*state);
        take(*state, UINT64_MAX, acc);
        assert_in_range(note_scales(whole), 3, UPDATES / 2);
        take(*state, COUNT * sizeof(uint64_t), acc);
        note_scales(little);
        assert_memory_equal(whole, little, sizeof whole);
        for (uint32_t at = 0; at < COUNT; at++) { // what was 2^70 counts for as little as others
            assert_true(acc[at] > -100.0F && acc[at] < 100.0F);
        }
    }
    tern_update_bounds_clear(&bounds);
}

// Claims alone are bounded: no norm is read for it.
CASE_WITH(test_claims_beyond_the_middle_one, fixture_setup, fixture_teardown)
{
    const struct tern_strategy_rule rule = {
        .strategy = &tern_strategy_fednova,
        .server_learning_rate = 1.0F,
        .parameters = {[TERN_STRATEGY_SCALE_MAX] = 1.0F, [TERN_STRATEGY_EXAMPLES_BOUND] = 1.0F}};
    start(*state, &rule);
    compare_memories(*state);
    uint32_t bounded = 0;
    for (uint32_t i = 0; i < bounds.count; i++) {
        bounded += tern_update_is_bounded(&bounds.list[i]);
        assert_true(bounds.list[i].weight <= (double)totals.examples_max);
    }
    assert_int_equal(bounds.count, UPDATES);
    assert_in_range(bounded, UPDATES / 4, UPDATES / 2);
    tern_update_bounds_clear(&bounds);
}
