// The budget policy: what a client may spend lasts, by density, by local steps and by invitations.
#include "codec/plan.h"
#include "rounds/steps.h"

#include "tests/cases.h"
#include "tests/rounds/steps_policy.h"
#include "util/prng.h"
#include <math.h>
#include <string.h>

#define VALUES 100000

static struct tern_codec codec_of(const char *spec)
{
    struct tern_codec codec;
    assert_int_equal(tern_codec_parse(spec, &codec, NULL), TERN_OK);
    return codec;
}

static struct tern_steps_settings settings_of(const char *policy)
{
    struct tern_steps_settings settings = {.local_steps = 20,
                                           .min_steps = 1,
                                           .max_steps = 500,
                                           .fraction = 0.5,
                                           .start = 1.0,
                                           .interval = 2,
                                           .min_density = 0.002};
    set_steps_policy(&settings, policy);
    return settings;
}

// A client whose last round took an update of 4205 B and 2000 B beside it.
static struct tern_steps_facts facts_of(uint64_t left, double rounds)
{
    return (struct tern_steps_facts){
        .steps_per_second = 10.0F,
        .window_ms = 60000,
        .values = VALUES,
        .codec = codec_of("density:p=0.05,coder=range"),
        .density = true,
        .budget = {.budgeted = true,
                   .left = left,
                   .rounds = rounds,
                   .share = 1.0,
                   .update_bytes = 4205,
                   .other_bytes = 2000,
                   .update_codec = codec_of("density:p=0.05,coder=range")}};
}

static struct tern_steps_plan plan_for(const struct tern_steps_settings *settings,
                                       const struct tern_steps_facts *facts)
{
    struct tern_steps_plan plan;
    struct tern_steps_state state;
    tern_steps_state_init(&state, settings);
    tern_steps_make_plan(settings, &state, facts, &plan);
    return plan;
}

CASE(test_enough_bytes_change_nothing)
{
    struct tern_steps_settings settings = settings_of("budget");
    struct tern_steps_facts facts = facts_of(62050000, 100);
    struct tern_steps_plan plan = plan_for(&settings, &facts);
    assert_int_equal(plan.local_steps, 20);
    assert_false(plan.has_own_codec);
    assert_non_null(
        strstr(plan.reason.text, "budget: 62.05 MB left, 620.50 KB a round, takes 6.2"));
    facts.budget.budgeted = false;
    facts.budget.left = 0;
    plan = plan_for(&settings, &facts);
    assert_int_equal(plan.local_steps, 20);
    assert_false(plan.has_own_codec);
    assert_string_equal(plan.reason.text, "budget: none");
}

CASE(test_fewer_bytes_lower_the_density_and_raise_the_steps)
{
    static const struct {
        uint64_t left; // for 100 rounds
        double density;
        uint32_t steps;
    } rows[] = {
        {620600, 0.05, 20},                       // 6205 B
        {620000, 0.02, 30},                       // 4018 B
        {401900, 0.02, 30},  {401000, 0.01, 39},  // 3135 B
        {300000, 0.005, 47}, {230000, 0.002, 54}, // 2285 B
        {100000, 0.002, 54},                      // not enough even so
    };
    struct tern_steps_settings settings = settings_of("budget");
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct tern_steps_facts facts = facts_of(rows[i].left, 100);
        struct tern_steps_plan plan = plan_for(&settings, &facts);
        assert_int_equal(plan.codec.id, TERN_CODEC_DENSITY);
        assert_int_equal(plan.codec.coder, TERN_CODER_RANGE);
        assert_true(plan.codec.density == (float)rows[i].density);
        assert_int_equal(plan.has_own_codec, rows[i].density < 0.05);
        assert_int_equal(plan.local_steps, rows[i].steps);
        assert_int_equal(plan.least_bytes, 2285);
    }
}

#define ROUNDS 100
#define USUAL 6206 // bytes of a round at the density that is wanted

// A client that takes part in all rounds of its month, and what came of it.
struct month {
    uint64_t left;
    uint64_t first_half; // bytes spent by the middle
    uint32_t missed;     // rounds that it had not the bytes for
};

// What a round with an update of this codec takes, whatever the policy holds it for.
typedef uint64_t cost_fn(const struct tern_codec *codec, struct tern_budget *measured);

static struct month live_through(uint64_t budget, cost_fn *cost)
{
    struct tern_steps_settings settings = settings_of("budget");
    struct tern_steps_facts facts = facts_of(budget, ROUNDS);
    struct month month = {.left = budget};
    for (int round = 0; round < ROUNDS; round++) {
        facts.budget.left = month.left;
        facts.budget.rounds = ROUNDS - round;
        struct tern_steps_plan plan = plan_for(&settings, &facts);
        uint64_t takes = cost(&plan.codec, &facts.budget);
        if (takes > month.left) {
            month.missed++; // a client guards its budget itself
            continue;
        }
        month.left -= takes;
        month.first_half += round < ROUNDS / 2 ? takes : 0;
    }
    return month;
}

static uint64_t as_estimated(const struct tern_codec *codec, struct tern_budget *measured)
{
    (void)measured;
    return 2000 + (uint64_t)(VALUES * tern_codec_bits(codec) / 8.0 + 1.0);
}

// The budget is spent over the rounds and lasts, whatever it is. Less than a step between two
// densities stays.
CASE(test_the_budget_lasts)
{
    for (uint64_t budget = 230000; budget < 700000; budget += 10000) {
        struct month month = live_through(budget, as_estimated);
        uint64_t too_much = budget > USUAL * ROUNDS ? budget - USUAL * ROUNDS : 0;
        assert_int_equal(month.missed, 0);
        assert_in_range(month.left, too_much, too_much + 2200);
    }
}

static struct tern_prng noise;

static double between(double least, double most)
{
    return least + (most - least) * (double)tern_prng_float(&noise);
}

// A coder that does far worse than the entropy, updates that differ from round to round, and now
// and then a handshake in full.
static uint64_t as_it_happens(const struct tern_codec *codec, struct tern_budget *measured)
{
    double p = (double)codec->density;
    double entropy = -p * log2(p / 2.0) - (1.0 - p) * log2(1.0 - p);
    double update = 40.0 + 1.3 * between(0.8, 1.2) * VALUES * entropy / 8.0;
    double other = 1500.0 * between(0.8, 1.2) + (between(0.0, 1.0) < 0.1 ? 3500.0 : 0.0);
    measured->update_bytes = (uint64_t)update;
    measured->update_codec = *codec;
    measured->other_bytes = (uint64_t)other;
    return measured->update_bytes + measured->other_bytes;
}

// One round foretells the next one's costs badly, but what was spent is known: hardly a round is
// missed, little stays, and not much more is spent early than late.
CASE(test_the_budget_lasts_although_costs_vary)
{
    uint32_t months = 0;
    uint32_t missed = 0;
    double stays = 0.0;
    tern_prng_init(&noise, 5, TERN_PRNG_TEST, 0, 0);
    for (uint64_t budget = 250000; budget < 700000; budget += 1000) {
        struct month month = live_through(budget, as_it_happens);
        double share = (double)month.left / (double)budget;
        double early = (double)month.first_half / (double)(budget - month.left);
        assert_true(month.missed <= 8 && share < 0.07);
        assert_true(early > 0.39 && early < 0.57);
        stays += share;
        missed += month.missed;
        months++;
    }
    print_message("%u months: %u rounds missed, %.4f of the budget stays\n", months, missed,
                  stays / months);
    assert_true(missed < months * ROUNDS / 500 && stays < 0.03 * months);
}

CASE(test_what_does_not_last_is_invited_less_often)
{
    struct tern_steps_settings settings = settings_of("budget");
    struct tern_steps_facts facts = facts_of(114250, 100);
    struct tern_steps_plan plan = plan_for(&settings, &facts);
    assert_non_null(
        strstr(plan.reason.text, "1.14 KB a round, takes 2.29 KB, so 1 of 2.00 rounds"));
    assert_true(tern_budget_chance(&facts.budget, plan.least_bytes) > 0.499);
    assert_true(tern_budget_chance(&facts.budget, plan.least_bytes) < 0.501);
    facts.budget.left = 2284;
    assert_true(tern_budget_chance(&facts.budget, plan.least_bytes) == 0.0);
    facts.budget.left = 0;
    plan = plan_for(&settings, &facts);
    assert_true(plan.local_steps >= 1);
    facts.budget.left = UINT64_MAX;
    assert_true(tern_budget_chance(&facts.budget, plan.least_bytes) == 1.0);
    assert_true(tern_budget_chance(&facts.budget, 0) == 1.0); // nothing is known
    facts.budget.budgeted = false;
    facts.budget.left = 0;
    assert_true(tern_budget_chance(&facts.budget, 5000) == 1.0);
}

// A budget per round is as large in each: it is not spread over the month.
CASE(test_a_budget_that_does_not_shrink_is_renewed)
{
    struct tern_budget budget = {.budgeted = true, .left = 10000, .rounds = 100, .share = 1.0};
    assert_int_equal(tern_budget_allowance(&budget), 100);
    budget.is_per_round = true;
    assert_int_equal(tern_budget_allowance(&budget), 10000);
    budget.is_per_round = false;
    assert_int_equal(tern_budget_allowance(&budget), 100);
    budget.rounds = 0.25;
    assert_int_equal(tern_budget_allowance(&budget), 10000);
}

// 2023-11-30 00:00 UTC is a day before a month's end.
CASE(test_months_turn_within_a_day)
{
    const uint64_t day = 86400000;
    const uint64_t last = 1701302400000;
    assert_false(tern_budget_month_turned(last - 20 * day, last - day));
    assert_false(tern_budget_month_turned(last - 20 * day, last - 1));
    assert_true(tern_budget_month_turned(last - 20 * day, last)); // its clock may be fast
    assert_true(tern_budget_month_turned(last, last + day));
    assert_true(tern_budget_month_turned(last + day, last + 2 * day)); // or slow
    assert_false(tern_budget_month_turned(last + 2 * day, last + 20 * day));
    assert_true(tern_budget_month_turned(last + 2 * day, last + 60 * day));
    assert_false(tern_budget_month_turned(last + 2 * day, last + 2 * day - 1000)); // set back
    assert_false(tern_budget_month_turned(0, 0));
}

CASE(test_codecs_that_cannot_be_cut)
{
    struct tern_steps_settings settings = settings_of("budget");
    struct tern_steps_facts facts = facts_of(300000, 100);
    facts.density = false; // a small device without it
    struct tern_steps_plan plan = plan_for(&settings, &facts);
    assert_false(plan.has_own_codec);
    assert_int_equal(plan.local_steps, 20);
    assert_int_equal(plan.least_bytes, 6205);
    facts.density = true;
    facts.codec = codec_of("float32");
    facts.budget.update_codec = facts.codec;
    facts.budget.update_bytes = 400000;
    plan = plan_for(&settings, &facts);
    assert_false(plan.has_own_codec);
    assert_int_equal(plan.least_bytes, 402000);
    facts.codec = codec_of("sparse:p=0.05");
    plan = plan_for(&settings, &facts);
    assert_true(plan.has_own_codec);
    assert_int_equal(plan.codec.id, TERN_CODEC_SPARSE);
    assert_true(plan.codec.density == 0.002F);
    facts.codec = codec_of("3lc:s=1,coder=zero-run");
    plan = plan_for(&settings, &facts);
    assert_int_equal(plan.codec.id, TERN_CODEC_DENSITY);
    assert_int_equal(plan.codec.coder, TERN_CODER_ZERO_RUN);
}

// An update of another codec foretells the round's, so that a budget that grows is used again.
CASE(test_density_goes_up_again)
{
    struct tern_steps_settings settings = settings_of("budget");
    struct tern_steps_facts facts = facts_of(62050000, 100);
    facts.budget.update_codec = codec_of("density:p=0.002,coder=range");
    facts.budget.update_bytes = 285;
    struct tern_steps_plan plan = plan_for(&settings, &facts);
    assert_false(plan.has_own_codec);
    assert_non_null(strstr(plan.reason.text, "takes 6.2"));
}

CASE(test_the_first_round_is_estimated)
{
    struct tern_steps_settings settings = settings_of("budget");
    struct tern_steps_facts facts = facts_of(1000000, 100);
    facts.budget.update_bytes = 0;
    facts.budget.other_bytes = 0;
    facts.budget.update_codec = (struct tern_codec){.id = TERN_CODEC_FLOAT32};
    struct tern_steps_plan plan = plan_for(&settings, &facts);
    assert_non_null(strstr(plan.reason.text, "(estimated)"));
    assert_true(plan.has_own_codec);
}

CASE(test_with_a_deadline)
{
    struct tern_steps_settings settings = settings_of("fixed+deadline+budget");
    struct tern_steps_facts facts = facts_of(230000, 100);
    assert_int_equal(plan_for(&settings, &facts).local_steps, 54);
    facts.window_ms = 6000; // 30 steps fit
    assert_int_equal(plan_for(&settings, &facts).local_steps, 30);
    facts.window_ms = 2000;
    assert_int_equal(plan_for(&settings, &facts).local_steps, 10);
    settings = settings_of("adaptive+budget");
    facts.rounds = 100;
    struct tern_steps_plan plan = plan_for(&settings, &facts);
    assert_true(plan.has_own_codec && plan.codec.density == 0.002F);
    assert_true(strlen(plan.reason.text) < sizeof plan.reason.text);
}

CASE(test_bits)
{
    double before = 0.0;
    for (uint32_t p = 1; p <= 1000000; p += 999) {
        struct tern_codec codec = {.id = TERN_CODEC_DENSITY, .density = (float)p / 1e6F};
        double bits = tern_codec_bits(&codec);
        assert_true(bits > before && bits < 1.6);
        before = bits;
    }
    struct tern_codec codec = codec_of("density:p=0.05");
    assert_true(tern_codec_bits(&codec) > 0.336 && tern_codec_bits(&codec) < 0.337);
}

CASE(test_months)
{
    const uint64_t day = 86400000;
    static const struct {
        uint64_t now; // seconds
        uint64_t left;
    } rows[] = {
        {0, 31 * 86400},          // 1970-01-01
        {1706745599, 1},          // 2024-01-31 23:59:59
        {1706745600, 29 * 86400}, // 2024-02-01, a leap year
        {1675209600, 28 * 86400}, // 2023-02-01
        {1704067199, 1},          // 2023-12-31 23:59:59
        {4105123200, 28 * 86400}, // 2100-02-01, no leap year
        {1795003200, 1080000},    // 2026-11-18 12:00
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        assert_int_equal(tern_budget_month_left_ms(rows[i].now * 1000), rows[i].left * 1000);
    }
    for (uint64_t now = 0; now < 60000 * day; now += 7 * day + 12345) {
        uint64_t left = tern_budget_month_left_ms(now);
        assert_true(left > 0 && left <= 31 * day);
    }
}
