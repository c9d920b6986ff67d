// When losses end a federation: after they diverge for some rounds, or stop getting lower; never by a
// few high ones, nor by the usual course of training.
#include "rounds/ending.h"
#include "rounds/machine.h"
#include "tests/cases.h"

#include <math.h>
#include <string.h>

static struct tern_losses losses;

static int setup(void **state)
{
    (void)state;
    losses = (struct tern_losses){0};
    return 0;
}

// Round i trains from version i, counted from 0.
static void add(uint32_t divergence_rounds, uint32_t patience, float loss)
{
    const struct tern_ending_policy policy = {divergence_rounds, patience};
    tern_losses_add(&losses, &policy, losses.rounds, loss);
}

#define TEST(name) CASE_WITH(name, setup, NULL)

TEST(test_a_loss_that_stays_high_ends_it)
{
    const float high[] = {1.8F, 0.9F, 30.0F, 40.0F, 8.0F, 7.3F};
    for (unsigned i = 0; i < 6; i++) {
        add(5, 0, high[i]);
        assert_int_equal(losses.ending, TERN_ENDING_NONE);
    }
    add(5, 0, 1000.0F);
    assert_int_equal(losses.ending, TERN_ENDING_DIVERGED);
    assert_int_equal(losses.lowest_version, 1);
    add(5, 0, 0.1F); // it stays ended
    assert_int_equal(losses.ending, TERN_ENDING_DIVERGED);
}

TEST(test_losses_that_are_not_finite_end_it)
{
    add(2, 0, INFINITY);
    add(2, 0, NAN);
    assert_int_equal(losses.ending, TERN_ENDING_DIVERGED);
}

TEST(test_a_lowest_loss_is_found_behind_one_that_is_not_finite)
{
    add(5, 0, NAN);
    add(5, 0, 2.0F);
    add(5, 0, 3.0F);
    assert_int_equal(losses.lowest_version, 1);
    assert_int_equal(losses.since_lowest, 1);
}

TEST(test_spikes_do_not_end_it)
{
    for (unsigned i = 0; i < 50; i++) {
        add(5, 0, i % 5 == 4 ? 1.0F : 100.0F * (i > 4));
    }
    assert_int_equal(losses.ending, TERN_ENDING_NONE);
}

// A loss near 0, as of a model that came trained, may well be some times higher later.
TEST(test_a_low_first_loss_is_no_measure)
{
    add(5, 0, 0.01F);
    for (unsigned i = 0; i < 50; i++) {
        add(5, 0, 3.9F);
    }
    assert_int_equal(losses.ending, TERN_ENDING_NONE);
}

TEST(test_patience_ends_what_gets_no_better)
{
    const float course[] = {2.0F, 1.0F, 1.5F, 1.2F, 0.9F, 1.0F, 0.9F};
    for (unsigned i = 0; i < 7; i++) {
        add(5, 3, course[i]);
        assert_int_equal(losses.ending, TERN_ENDING_NONE);
    }
    add(5, 3, 0.95F);
    assert_int_equal(losses.ending, TERN_ENDING_STALLED);
    assert_int_equal(losses.lowest_version, 4);
}

TEST(test_zero_never_ends_it)
{
    for (unsigned i = 0; i < 100; i++) {
        add(0, 0, i == 0 ? 1.0F : INFINITY);
    }
    assert_int_equal(losses.ending, TERN_ENDING_NONE);
    assert_string_equal(tern_ending_name(losses.ending), "none");
    assert_string_equal(tern_ending_advice(losses.ending), "");
}

// Clients are told that it is finished, and no round opens.
TEST(test_a_machine_that_has_ended_is_finished)
{
    struct tern_member members[4];
    struct tern_round_machine machine;
    const struct tern_round_policy policy = {.cohort = 1,
                                             .deadline_ms = 1000,
                                             .come_back_min_ms = 10,
                                             .come_back_max_ms = 1000,
                                             .ending = {.divergence_rounds = 1}};
    uint64_t ids[] = {1};
    uint64_t come_back = 0;
    tern_round_init(&machine, &policy, members, 4);
    tern_round_add_loss(&machine, 0, 1.0F);
    assert_false(tern_round_finished(&machine));
    tern_round_add_loss(&machine, 1, 1e5F);
    assert_true(tern_round_finished(&machine));
    assert_int_equal(tern_round_checkin(&machine, 1, 5, &come_back), TERN_CHECKIN_FINISHED);
    assert_int_equal(tern_round_open(&machine, ids, 1, 5), TERN_ERR_STATE);
}
