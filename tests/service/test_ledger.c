// The error ledger of a running service: what is found out about error buffers, and what clients
// are told to do with them.
#include "harness.h"

#include "rounds/error_watch.h"
#include <stdlib.h>
#include <string.h>

#include "one_harness.h"
#include "tests/cases.h"

// --- A device, as far as the ledger sees it

struct device {
    uint64_t client;
    uint32_t generation;
    uint32_t sequence;
    float norm;
    float left;     // what a limit leaves of its buffer; 0 = it says nothing of it
    tern_Task task; // as last given
    bool has_task;
    bool steps_ahead; // its version of Tern knows the directive
    uint8_t *body;    // its last update
    size_t len;
};

// The first two are in every test, from begin() to its end.
static struct device one, two, three, four;

static void join(struct device *it, uint32_t generation)
{
    *it = (struct device){.client = enroll(&harness, false), .generation = generation};
}

static void begin(void)
{
    harness_start(&harness);
    join(&one, 0xa1);
    join(&two, 0xb2);
}

// That decays, or resets, after so many rounds missed.
static void begin_with_policy(enum tern_error_directive policy, uint32_t after)
{
    harness.config.federation.error =
        (struct tern_error_settings){.policy = policy, .gamma = 0.5F, .after = after};
    begin();
}

static tern_ErrorFacts facts_of(const struct device *it)
{
    return (tern_ErrorFacts){.generation = it->generation,
                             .sequence = it->sequence,
                             .norm = it->norm,
                             .maximum = it->norm / 2.0F};
}

static void check_in(struct device *it)
{
    tern_CheckinRequest request = tern_CheckinRequest_init_zero;
    request.has_error = true;
    request.error = facts_of(it);
    request.abilities = it->steps_ahead ? TERN_WIRE_STEPS_AHEAD : 0;
    tern_CheckinReply reply = checkin_with(&harness, it->client, &request);
    it->has_task = reply.has_task;
    it->task = reply.task;
}

// Encodes an update of its task, as the directive says.
static void encode(struct device *it, float value)
{
    uint8_t *plain;
    tern_Update message;
    struct tern_span container;
    assert_true(it->has_task);
    if (it->task.error_directive == tern_ErrorDirective_ERROR_RESET) {
        it->generation += 0x100;
        it->sequence = 0;
    }
    it->sequence++;
    it->norm = 0.5F;
    size_t len = encode_update(&harness, &it->task, value, 10, &plain);
    assert_int_equal(tern_wire_decode_update(plain, len, &message, &container), TERN_OK);
    message.has_error = true;
    message.error = facts_of(it);
    message.has_decay = it->left != 0.0F;
    message.decay = it->left;
    free(it->body);
    it->body = malloc(len + TERN_WIRE_OVERHEAD);
    assert_non_null(it->body);
    assert_int_equal(
        tern_wire_encode_update(&message, container, it->body, len + TERN_WIRE_OVERHEAD, &it->len),
        TERN_OK);
    free(plain);
}

static int put(const struct device *it)
{
    struct answer answer =
        put_update(&harness, it->client, it->task.round, it->sequence, it->body, it->len);
    int status = answer.status;
    answer_free(&answer);
    return status;
}

static void take_part(struct device *it)
{
    check_in(it);
    encode(it, 0.25F);
    assert_int_equal(put(it), 200);
}

static float left_of(const struct device *it, uint32_t round)
{
    struct tern_db *reader;
    struct tern_db_assignment row;
    char why[256];
    assert_int_equal(tern_db_open(harness.path, 0, &reader, why), TERN_OK);
    assert_int_equal(tern_db_assignment_get(reader, round, it->client, &row), TERN_OK);
    tern_db_close(reader);
    return row.decay;
}

static struct tern_db_ledger ledger_of(const struct device *it)
{
    struct tern_db *reader;
    struct tern_db_ledger row;
    char why[256];
    assert_int_equal(tern_db_open(harness.path, 0, &reader, why), TERN_OK);
    assert_int_equal(tern_db_ledger_get(reader, it->client, &row), TERN_OK);
    tern_db_close(reader);
    return row;
}

static int leave(void **state)
{
    struct device *all[] = {&one, &two, &three, &four};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        free(all[i]->body);
        *all[i] = (struct device){0};
    }
    return teardown(state);
}

// --- What is found

#define TEST(name) CASE_WITH(name, setup, leave)

TEST(test_honest_trouble_is_no_anomaly)
{
    begin();
    for (int round = 1; round <= 3; round++) {
        take_part(&one);
        assert_int_equal(put(&one), 200); // the answer was lost
        harness_restart(&harness);
        assert_int_equal(put(&one), 200);
        take_part(&two);
    }
    check_in(&one);
    encode(&one, 0.5F);
    take_part(&two);
    test_advance(60001);
    check_in(&two);                   // the round is closed without the other's update
    assert_int_equal(put(&one), 410); // which takes it back
    one.norm = 0.75F;
    check_in(&one);
    const struct tern_db_ledger row = ledger_of(&one);
    assert_int_equal(row.anomaly, TERN_ANOMALY_NONE);
    assert_int_equal(row.sequence, 4);
    assert_int_equal(row.round, 3);
    assert_true(row.norm == 0.75F);
    one.norm = 1.0F; // a change was held back by a budget
    check_in(&one);
    assert_true(ledger_of(&one).norm == 1.0F);
    encode(&one, 0.5F);
    assert_int_equal(put(&one), 200);
    assert_int_equal(ledger_of(&one).anomaly, TERN_ANOMALY_NONE);
    assert_int_equal(ledger_of(&two).anomaly, TERN_ANOMALY_NONE);
}

// A backup of two rounds ago: it is told to reset at once, and named when it has obeyed.
TEST(test_restored_backup_is_reset)
{
    begin();
    for (int round = 1; round <= 3; round++) {
        take_part(&one);
        take_part(&two);
    }
    one.sequence = 1;
    check_in(&one);
    assert_int_equal(one.task.error_directive, tern_ErrorDirective_ERROR_RESET);
    assert_string_equal(ledger_of(&one).reason, "reset: part of it was applied before");
    check_in(&two);
    assert_int_equal(two.task.error_directive, tern_ErrorDirective_ERROR_KEEP);
    harness_restart(&harness);
    check_in(&one); // the doubt was in memory alone; the task says the same
    assert_int_equal(one.task.error_directive, tern_ErrorDirective_ERROR_RESET);
    encode(&one, 0.25F);
    assert_int_equal(put(&one), 200);
    struct tern_db_ledger row = ledger_of(&one);
    assert_int_equal(row.anomaly, TERN_ANOMALY_RESTORED);
    assert_true(row.anomaly_ms > 0);
    assert_int_equal(row.generation, 0x1a1);
    assert_int_equal(row.previous_generation, 0xa1);
    take_part(&two);
    check_in(&one);
    assert_int_equal(one.task.error_directive, tern_ErrorDirective_ERROR_KEEP);
}

TEST(test_lost_buffer_is_named)
{
    begin();
    take_part(&one);
    take_part(&two);
    one.generation = 0xff;
    one.sequence = 0;
    one.norm = 0.0F;
    take_part(&one);
    assert_int_equal(one.task.error_directive, tern_ErrorDirective_ERROR_KEEP);
    assert_int_equal(ledger_of(&one).anomaly, TERN_ANOMALY_LOST);
    assert_int_equal(ledger_of(&one).generation, 0xff);
}

// A client that makes up a buffer for each check-in is told of once a minute.
TEST(test_what_is_found_again_at_once_is_not_said_again)
{
    harness_start(&harness);
    join(&one, 0xa1);
    one.norm = 1.0F;
    for (unsigned i = 0; i < 4; i++) {
        one.generation++;
        check_in(&one);
    }
    assert_int_equal(ledger_of(&one).anomaly, TERN_ANOMALY_LOST);
    const uint64_t said = ledger_of(&one).anomaly_ms;
    for (unsigned i = 0; i < 20; i++) {
        test_advance(1000);
        one.generation++;
        check_in(&one);
    }
    assert_int_equal(ledger_of(&one).anomaly_ms, said);
    for (unsigned i = 0; i < 3; i++) {
        test_advance(30000);
        one.generation++;
        check_in(&one);
    }
    assert_true(ledger_of(&one).anomaly_ms > said);
}

// Two devices with one identity do the same round: whoever comes second is refused, and both are
// told to start anew.
TEST(test_clones_are_named)
{
    begin();
    take_part(&one);
    take_part(&two);
    struct device clone = one;
    clone.body = NULL;
    check_in(&one);
    check_in(&clone);
    encode(&one, 0.25F);
    encode(&clone, 0.75F);
    assert_int_equal(put(&one), 200);
    assert_int_equal(ledger_of(&one).anomaly, TERN_ANOMALY_NONE);
    assert_int_equal(put(&clone), 409);
    assert_int_equal(ledger_of(&one).anomaly, TERN_ANOMALY_CLONED);
    const uint64_t found = ledger_of(&one).anomaly_ms;
    test_advance(5);
    assert_int_equal(put(&clone), 409);
    assert_int_equal(ledger_of(&one).anomaly_ms, found);
    take_part(&two);
    check_in(&clone);
    assert_int_equal(clone.task.error_directive, tern_ErrorDirective_ERROR_RESET);
    free(clone.body);
}

TEST(test_garbage_is_no_clone)
{
    begin();
    take_part(&one);
    answer_expect(put_update(&harness, one.client, 1, one.sequence, (const uint8_t *)"\xff\xff", 2),
                  409);
    assert_int_equal(ledger_of(&one).anomaly, TERN_ANOMALY_NONE);
}

// --- What is told

// The first misses `rounds` of the other's.
static void stay_away(struct device *other, uint32_t rounds)
{
    for (uint32_t i = 0; i < rounds; i++) {
        take_part(other);
        check_in(other);
        if (!other->has_task) { // the round waits for the first, as later ones do not
            test_advance(60001);
            check_in(other); // closes it
        }
    }
}

TEST(test_old_buffers_decay)
{
    begin_with_policy(TERN_DIRECTIVE_DECAY, 2);
    take_part(&one);
    take_part(&two);
    stay_away(&two, 3);
    assert_int_equal(two.task.error_directive, tern_ErrorDirective_ERROR_KEEP);
    check_in(&one);
    assert_int_equal(one.task.error_directive, tern_ErrorDirective_ERROR_DECAY);
    assert_true(one.task.decay == 0.125F);
    struct tern_db_ledger row = ledger_of(&one);
    assert_int_equal(row.directive, TERN_DIRECTIVE_DECAY);
    assert_true(row.factor == 0.125F);
    assert_string_equal(row.reason, "decayed 0.13: 3 rounds missed");
    harness.config.federation.error.policy = TERN_DIRECTIVE_KEEP;
    harness_restart(&harness);
    check_in(&one); // a repeated task says the same
    assert_int_equal(one.task.error_directive, tern_ErrorDirective_ERROR_DECAY);
    assert_true(one.task.decay == 0.125F);
    encode(&one, 0.25F);
    assert_int_equal(put(&one), 200);
    assert_int_equal(ledger_of(&one).anomaly, TERN_ANOMALY_NONE);
}

TEST(test_old_buffers_are_reset)
{
    begin_with_policy(TERN_DIRECTIVE_RESET, 2);
    take_part(&one);
    take_part(&two);
    stay_away(&two, 2);
    check_in(&one);
    assert_int_equal(one.task.error_directive, tern_ErrorDirective_ERROR_RESET);
    assert_string_equal(ledger_of(&one).reason, "reset: 2 rounds missed");
    encode(&one, 0.25F);
    assert_int_equal(put(&one), 200);
    const struct tern_db_ledger row = ledger_of(&one);
    assert_int_equal(row.anomaly, TERN_ANOMALY_NONE); // it was ordered
    assert_int_equal(row.generation, 0x1a1);
}

// Has its task; its update comes when the other's round is over, and is put back into its buffer.
static void come_late(struct device *it, struct device *other)
{
    encode(it, 0.25F);
    take_part(other);
    test_advance(60001);
    check_in(other); // closes the round
    assert_int_equal(put(it), 410);
    it->norm = 0.75F;
}

static void expect_told(struct device *it, tern_ErrorDirective directive, const char *reason)
{
    check_in(it);
    assert_int_equal(it->task.error_directive, directive);
    assert_string_equal(ledger_of(it).reason, reason);
}

// The directive of each task was for the rounds before it: only the one that it was late in is new.
TEST(test_a_missed_round_decays_once)
{
    begin_with_policy(TERN_DIRECTIVE_DECAY, 1);
    take_part(&one);
    take_part(&two);
    expect_told(&one, tern_ErrorDirective_ERROR_KEEP, "kept: 0 rounds missed");
    for (int round = 2; round <= 4; round++) {
        come_late(&one, &two);
        expect_told(&one, tern_ErrorDirective_ERROR_DECAY, "decayed 0.5: 1 round missed");
        assert_true(one.task.decay == 0.5F);
        harness_restart(&harness);
        expect_told(&one, tern_ErrorDirective_ERROR_DECAY, "decayed 0.5: 1 round missed");
    }
    stay_away(&two, 2); // it fails before it has done so, and is away for the next round
    expect_told(&one, tern_ErrorDirective_ERROR_DECAY, "decayed 0.13: 3 rounds missed");
    encode(&one, 0.25F);
    assert_int_equal(put(&one), 200);
    take_part(&two);
    expect_told(&one, tern_ErrorDirective_ERROR_KEEP, "kept: 0 rounds missed");
}

// What clients left of their buffers is stored of each round, also when the update was too late.
TEST(test_what_a_limit_took_is_kept)
{
    harness.config.federation.error =
        (struct tern_error_settings){.policy = TERN_DIRECTIVE_LIMIT, .limit = 2};
    begin();
    take_part(&one);
    take_part(&two);
    one.left = 0.625F;
    expect_told(&one, tern_ErrorDirective_ERROR_LIMIT, "limited to 2 times the change");
    assert_true(one.task.error_limit == 2.0F);
    come_late(&one, &two);
    one.left = 0.25F;
    take_part(&one);
    assert_true(ledger_of(&one).decay == 0.25F);
    harness_restart(&harness); // the open round's members are loaded and stored again
    take_part(&two);
    assert_true(left_of(&one, 1) == 1.0F);
    assert_true(left_of(&one, 2) == 0.625F);
    assert_true(left_of(&one, 3) == 0.25F);
    assert_true(left_of(&two, 3) == 1.0F);
    assert_true(ledger_of(&two).decay == 1.0F);
}

// Its update is of an older round than the one in which it counts.
TEST(test_a_late_update_that_counts_is_not_missed)
{
    harness.config.federation.error =
        (struct tern_error_settings){.policy = TERN_DIRECTIVE_DECAY, .gamma = 0.5F, .after = 1};
    harness.config.federation.strategy = &tern_strategy_fedbuff;
    harness.config.federation.strategy_parameters[TERN_STRATEGY_STALENESS_MAX] = 20.0F;
    begin();
    take_part(&one);
    take_part(&two);
    check_in(&one);
    encode(&one, 0.25F);
    stay_away(&two, 3);
    check_in(&two);
    assert_int_equal(put(&one), 200);
    take_part(&two);
    expect_told(&one, tern_ErrorDirective_ERROR_KEEP, "kept: 0 rounds missed");
}

TEST(test_a_client_without_an_accepted_update_decays)
{
    harness.config.federation.error =
        (struct tern_error_settings){.policy = TERN_DIRECTIVE_DECAY, .gamma = 0.5F, .after = 1};
    harness.config.federation.round.cohort = 4;
    harness.config.federation.round.quorum = 1;
    begin();
    check_in(&one);
    come_late(&one, &two);
    expect_told(&one, tern_ErrorDirective_ERROR_DECAY, "decayed 0.5: 1 round missed");
    assert_int_equal(ledger_of(&one).round, 0);
    // Those who come later have missed nothing before their first task, whatever they bring.
    join(&three, 0xc3);
    join(&four, 0);
    three.norm = 1.0F;
    check_in(&three);
    check_in(&four);
    assert_false(three.has_task || four.has_task);
    come_late(&one, &two);
    expect_told(&three, tern_ErrorDirective_ERROR_KEEP, "kept: 0 rounds missed");
    assert_int_equal(three.task.round, 3);
    check_in(&four); // of whose buffer nothing is known before its first task
    encode(&four, 0.25F);
    come_late(&three, &two);
    assert_int_equal(put(&four), 410);
    four.generation = 0xd4;
    expect_told(&three, tern_ErrorDirective_ERROR_DECAY, "decayed 0.5: 1 round missed");
    expect_told(&four, tern_ErrorDirective_ERROR_DECAY, "decayed 0.5: 1 round missed");
}

// Rounds for which nothing was done yet add up until they are `after`.
static void expect_each_second(enum tern_error_directive policy, const char *reason)
{
    begin_with_policy(policy, 2);
    take_part(&one);
    take_part(&two);
    expect_told(&one, tern_ErrorDirective_ERROR_KEEP, "kept: 0 rounds missed");
    for (int i = 0; i < 3; i++) {
        come_late(&one, &two);
        expect_told(&one, tern_ErrorDirective_ERROR_KEEP, "kept: 1 round missed");
        come_late(&one, &two);
        expect_told(&one, (tern_ErrorDirective)policy, reason);
    }
}

TEST(test_missed_rounds_add_up_to_a_decay)
{
    expect_each_second(TERN_DIRECTIVE_DECAY, "decayed 0.25: 2 rounds missed");
}

TEST(test_missed_rounds_add_up_to_a_reset)
{
    expect_each_second(TERN_DIRECTIVE_RESET, "reset: 2 rounds missed");
}

// Who was replaced and comes back may have trained already: nothing is decayed twice, nor not at
// all.
TEST(test_a_replaced_member_is_told_the_same)
{
    harness.config.federation.error =
        (struct tern_error_settings){.policy = TERN_DIRECTIVE_DECAY, .gamma = 0.5F, .after = 1};
    harness.config.federation.round.quorum = 1;
    begin();
    take_part(&one);
    take_part(&two);
    take_part(&two);
    test_advance(60001);
    harness.config.federation.round.quorum = 2;
    harness_restart(&harness); // round 3 needs both
    expect_told(&one, tern_ErrorDirective_ERROR_DECAY, "decayed 0.5: 1 round missed");
    assert_int_equal(one.task.round, 3);
    join(&three, 0xc3);
    test_advance(60001);
    check_in(&three);
    assert_true(three.has_task); // instead of the first
    check_in(&one);
    assert_int_equal(one.task.round, 3);
    assert_int_equal(one.task.error_directive, tern_ErrorDirective_ERROR_DECAY);
    assert_true(one.task.decay == 0.5F);
}

TEST(test_step_ahead_is_told)
{
    harness.config.federation.error =
        (struct tern_error_settings){.policy = TERN_DIRECTIVE_STEP_AHEAD, .step_ahead = 0.25F};
    begin();
    one.steps_ahead = true;
    take_part(&one);
    assert_int_equal(one.task.error_directive, tern_ErrorDirective_ERROR_KEEP); // nothing in it
    take_part(&two);
    take_part(&one);
    assert_int_equal(one.task.error_directive, tern_ErrorDirective_ERROR_STEP_AHEAD);
    assert_true(one.task.step_ahead == 0.25F && one.task.decay == 0.0F);
    assert_string_equal(ledger_of(&one).reason, "step-ahead 0.25: 0 rounds missed");
    // One that could not read such a task is not given it.
    take_part(&two);
    assert_int_equal(two.task.error_directive, tern_ErrorDirective_ERROR_KEEP);
    assert_true(two.task.step_ahead == 0.0F);
    assert_string_equal(ledger_of(&two).reason, "kept: the client does not support step-ahead");
}
