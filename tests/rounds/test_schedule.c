// Measured speeds and learning rates.
#include "rounds/rate.h"
#include "rounds/steps.h"
#include "tests/cases.h"

#include <math.h>
#include <string.h>

CASE(test_names)
{
    struct tern_rate_policy policy = {.first = 7};
    char why[TERN_SPEC_SENTENCE_MAX] = "";
    assert_int_equal(tern_rate_parse("0.05", &policy, why), TERN_OK);
    assert_true(policy.schedule == TERN_RATE_CONSTANT && policy.first == 0.05F);
    assert_int_equal(tern_rate_parse("1e-2,warmup=3", &policy, why), TERN_OK);
    assert_true(policy.warmup_rounds == 3 && policy.first == 0.01F);
    assert_int_equal(tern_rate_parse("cosine:rate=0.1,final=0.001", &policy, why), TERN_OK);
    assert_true(policy.schedule == TERN_RATE_COSINE && policy.last == 0.001F);
    assert_int_equal(tern_rate_parse("step:decay=0.1,rounds=30", &policy, why), TERN_OK);
    assert_true(policy.schedule == TERN_RATE_STEP && policy.decay == 0.1F);
    assert_true(policy.decay_rounds == 30 && policy.first == 0.05F);
    assert_int_equal(tern_rate_parse("plateau", &policy, why), TERN_OK);
    assert_true(policy.schedule == TERN_RATE_PLATEAU && policy.decay_rounds == 10);
    static const char *const refused[][2] = {
        {"linear", "there is no learning-rate schedule \"linear\""},
        {"cosine:decay=0.5", "cosine: unknown key \"decay=0.5\""},
        {"0", "constant: rate is 0.000001 to 1000, not \"0\""},
        {"", "there is no learning-rate schedule \"\""},
        {"-1", "there is no learning-rate schedule \"-1\""},
    };
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        assert_int_not_equal(tern_rate_parse(refused[i][0], &policy, why), TERN_OK);
        assert_memory_equal(why, refused[i][1], strlen(refused[i][1]));
        assert_int_equal(policy.schedule, TERN_RATE_PLATEAU);
    }
}

CASE(test_speed_is_smoothed)
{
    struct tern_steps_smoothed done = {0};
    float speed = tern_steps_speed(&done, 0.0F, 100, 1000);
    assert_true(speed == 100.0F);
    struct tern_steps_smoothed restarted = {0};
    float before = speed;
    speed = tern_steps_speed(&done, speed, 100, 2000); // one busy round
    assert_true(speed > 75.0F && speed < 80.0F);
    assert_true(tern_steps_speed(&restarted, before, 100, 2000) == speed);
    for (int i = 0; i < 20; i++) {
        speed = tern_steps_speed(&done, speed, 10, 1000);
    }
    assert_true(speed < 10.2F);
    struct tern_steps_smoothed same = done;
    assert_true(tern_steps_speed(&done, 7.0F, 0, 1000) == 7.0F);
    assert_memory_equal(&done, &same, sizeof done);
}

// Trainings too short for a millisecond clock: known at once, told apart by the longer ones.
CASE(test_speed_of_short_trainings)
{
    struct tern_steps_smoothed done = {0};
    float speed = tern_steps_speed(&done, 0.0F, 20, 0);
    assert_true(speed == 40000.0F);
    // It was a coarse clock: 500 steps take 250 ms, and one such round outweighs the short one.
    speed = tern_steps_speed(&done, speed, 500, 250);
    assert_true(speed > 2000.0F && speed < 2500.0F);
    // Two steps a millisecond: rounds of one step are reported as 0 or 1 ms.
    memset(&done, 0, sizeof done);
    for (uint32_t i = 0; i < 40; i++) {
        speed = tern_steps_speed(&done, speed, 1, i % 2);
    }
    assert_true(speed > 1000.0F && speed < 2500.0F);
}

// A client may claim any speed; its first report settles what it is.
CASE(test_claimed_speeds)
{
    const float claims[] = {NAN, INFINITY, -1.0F, 1e-38F, 1e-44F, 3e38F};
    for (size_t i = 0; i < sizeof claims / sizeof claims[0]; i++) {
        struct tern_steps_smoothed done = {0};
        float speed = tern_steps_speed(&done, claims[i], 100, 1000);
        assert_true(speed >= 100.0F && speed < 400.0F);
    }
    struct tern_steps_smoothed done = {0};
    float speed = tern_steps_speed(&done, 0.0F, UINT32_MAX, 0);
    assert_true(isfinite(speed) && speed > 0.0F);
    assert_true(tern_steps_speed(&done, speed, 1, UINT32_MAX) > 0.0F);
}

static const struct tern_rate_policy waning = {
    .first = 0.05F, .last = 0.01F, .decay = 0.5F, .decay_rounds = 3};

static struct tern_rate_policy scheduled(enum tern_rate_schedule schedule, uint32_t warmup)
{
    struct tern_rate_policy policy = waning;
    policy.schedule = schedule;
    policy.warmup_rounds = warmup;
    return policy;
}

CASE(test_constant_and_cosine)
{
    const struct tern_rate_policy constant = scheduled(TERN_RATE_CONSTANT, 0);
    const struct tern_rate_policy cosine = scheduled(TERN_RATE_COSINE, 0);
    assert_true(tern_rate_for(&constant, 50, 100, 0) == 0.05F);
    assert_true(tern_rate_for(&cosine, 7, 0, 0) == 0.05F); // no end
    assert_true(tern_rate_for(&cosine, 1, 100, 0) == 0.05F);
    assert_true(tern_rate_for(&cosine, 101, 100, 0) == 0.01F);
    assert_true(tern_rate_for(&cosine, 200, 100, 0) == 0.01F);
    float before = 1.0F;
    for (uint32_t round = 1; round <= 100; round++) {
        float rate = tern_rate_for(&cosine, round, 100, 0);
        double t = (double)(round - 1) / 100.0;
        double expected = 0.01 + 0.04 * 0.5 * (1.0 + cos(3.14159265358979323846 * t));
        assert_true(fabs((double)rate - expected) < 1e-8);
        assert_true(rate < before);
        before = rate;
    }
    assert_true(before > 0.01F);
}

// Each round trains although the cosine falls towards 0: a federation of 10 rounds has 10.
CASE(test_last_round_trains)
{
    struct tern_rate_policy cosine = scheduled(TERN_RATE_COSINE, 0);
    cosine.last = 0.0F;
    for (cosine.warmup_rounds = 0; cosine.warmup_rounds < 3; cosine.warmup_rounds++) {
        for (uint32_t rounds = cosine.warmup_rounds + 1; rounds <= 10; rounds++) {
            assert_true(tern_rate_for(&cosine, rounds, rounds, 0) > 0.02F * cosine.first);
        }
    }
}

// Returns the decays of the round after `committed` rounds, none of which had a lower loss than the first.
static uint32_t decays_after(const struct tern_rate_policy *policy, uint32_t committed)
{
    const struct tern_rate_state course = {.rounds_since_decay = committed};
    return tern_rate_decays(policy, &course, committed, committed > 0 ? committed - 1 : 0);
}

CASE(test_steps)
{
    const struct tern_rate_policy step = scheduled(TERN_RATE_STEP, 0);
    const float expected[] = {0.05F, 0.05F, 0.05F, 0.025F, 0.025F, 0.025F, 0.0125F};
    for (uint32_t committed = 0; committed < 7; committed++) {
        const uint32_t decays = decays_after(&step, committed);
        assert_true(tern_rate_for(&step, committed + 1, 0, decays) == expected[committed]);
    }
    // Not below the last rate; without one, never 0.
    assert_true(tern_rate_for(&step, 1000001, 0, decays_after(&step, 1000000)) == 0.01F);
    struct tern_rate_policy endless = step;
    endless.last = 0.0F;
    assert_true(tern_rate_for(&endless, 1000001, 0, 333333) > 0.0F);
}

CASE(test_plateaus)
{
    const struct tern_rate_policy plateau = scheduled(TERN_RATE_PLATEAU, 0);
    struct tern_rate_state course = {0};
    // Losses fall for two rounds, then no more: 1st and 2nd, and three without.
    const uint32_t since_lowest[] = {0, 0, 1, 2, 3, 4, 5, 6, 0, 1, 2, 3};
    const uint32_t expected[] = {0, 0, 0, 0, 1, 1, 1, 2, 2, 2, 2, 3};
    for (uint32_t i = 0; i < 12; i++) {
        tern_rate_round_committed(&course);
        const uint32_t decays = tern_rate_decays(&plateau, &course, i + 1, since_lowest[i]);
        assert_int_equal(decays, expected[i]);
        tern_rate_round_opened(&course, decays);
    }
    assert_true(tern_rate_for(&plateau, 13, 0, 2) == 0.0125F);
    // What another schedule made of it counts no more.
    const struct tern_rate_policy constant = scheduled(TERN_RATE_CONSTANT, 0);
    assert_int_equal(tern_rate_decays(&constant, &course, 12, 12), 0);
}

CASE(test_warming_up)
{
    static const enum tern_rate_schedule all[] = {TERN_RATE_CONSTANT, TERN_RATE_COSINE,
                                                  TERN_RATE_STEP, TERN_RATE_PLATEAU};
    for (size_t i = 0; i < 4; i++) {
        const struct tern_rate_policy policy = scheduled(all[i], 4);
        for (uint32_t round = 1; round <= 4; round++) {
            assert_int_equal(decays_after(&policy, round - 1), 0);
            assert_true(tern_rate_for(&policy, round, 50, 0) ==
                        (float)((double)0.05F * round / 5.0));
        }
        assert_true(tern_rate_for(&policy, 5, 50, 0) == 0.05F);
    }
    // The schedule begins behind it.
    const struct tern_rate_policy cosine = scheduled(TERN_RATE_COSINE, 4);
    const struct tern_rate_policy cold = scheduled(TERN_RATE_COSINE, 0);
    for (uint32_t round = 1; round <= 46; round++) {
        assert_true(tern_rate_for(&cosine, round + 4, 50, 0) == tern_rate_for(&cold, round, 46, 0));
    }
    const struct tern_rate_policy step = scheduled(TERN_RATE_STEP, 4);
    assert_int_equal(decays_after(&step, 6), 0);
    assert_int_equal(decays_after(&step, 7), 1);
    const struct tern_rate_policy plateau = scheduled(TERN_RATE_PLATEAU, 4);
    assert_int_equal(decays_after(&plateau, 6), 0);
    assert_int_equal(decays_after(&plateau, 7), 1);
}
