// Policies of local steps: names, fixed, deadline and adaptive, alone and together. And the variance of
// updates.
#include "rounds/spread.h"
#include "rounds/steps.h"
#include "tests/cases.h"
#include "tests/rounds/steps_policy.h"

#include <math.h>
#include <string.h>

static struct tern_steps_settings settings_of(const char *policy)
{
    struct tern_steps_settings settings = {.local_steps = 20,
                                           .min_steps = 5,
                                           .max_steps = 500,
                                           .fraction = 0.5,
                                           .start = 1.0,
                                           .interval = 2,
                                           .gamma = 0.5,
                                           .min_density = 0.002};
    set_steps_policy(&settings, policy);
    return settings;
}

static struct tern_steps_facts facts_of(float steps_per_second, uint64_t window_ms)
{
    struct tern_steps_facts facts = {
        .steps_per_second = steps_per_second, .window_ms = window_ms, .values = 100000};
    assert_int_equal(tern_codec_parse("density:p=0.1,coder=range", &facts.codec, NULL), TERN_OK);
    return facts;
}

static struct tern_steps_plan plan_for(const struct tern_steps_settings *settings,
                                       const struct tern_steps_state *course,
                                       const struct tern_steps_facts *facts)
{
    struct tern_steps_plan plan;
    struct tern_steps_state fresh;
    tern_steps_state_init(&fresh, settings);
    tern_steps_make_plan(settings, course != NULL ? course : &fresh, facts, &plan);
    assert_true(strlen(plan.reason.text) < sizeof plan.reason.text);
    assert_true(plan.local_steps > 0);
    return plan;
}

// --- Names

CASE(test_names)
{
    static const char *const good[] = {"fixed",           "deadline",
                                       "budget",          "adaptive",
                                       "fixed+deadline",  "adaptive+deadline+budget",
                                       "deadline+budget", "fixed+budget"};
    static const char *const bad[] = {"",
                                      "Fixed",
                                      "deadline+",
                                      "+deadline",
                                      "fast",
                                      "deadline+deadline",
                                      "fixed+adaptive",
                                      "fixed+fixed",
                                      "adaptive+adaptive",
                                      "variance",
                                      "deadline budget"};
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        struct tern_steps_settings parsed = {.policy = 99, .local_steps = 20};
        char name[TERN_STEPS_POLICY_MAX];
        char why[TERN_SPEC_SENTENCE_MAX];
        assert_int_equal(tern_steps_parse(good[i], &parsed, why), TERN_OK);
        tern_steps_policy_name(parsed.policy, name);
        assert_string_equal(name, good[i]);
        assert_true(parsed.local_steps == 20 && parsed.min_steps == 1 && parsed.max_steps == 1000);
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct tern_steps_settings parsed = {.policy = 99};
        char why[TERN_SPEC_SENTENCE_MAX] = "";
        assert_int_not_equal(tern_steps_parse(bad[i], &parsed, why), TERN_OK);
        assert_true(parsed.policy == 99 && why[0] != '\0');
    }
    struct tern_steps_settings one = settings_of("fixed");
    struct tern_steps_settings two = settings_of("fixed");
    set_steps_policy(&one, "budget+adaptive");
    set_steps_policy(&two, "adaptive+budget");
    assert_int_equal(one.policy, two.policy);
}

// Each part has its keys; a bound that one part sets holds for all.
CASE(test_keys_of_joined_schedules)
{
    struct tern_steps_settings parsed = {.local_steps = 20};
    char why[TERN_SPEC_SENTENCE_MAX] = "";
    assert_int_equal(
        tern_steps_parse(
            "adaptive:min=3,start=2.5+deadline:fraction=0.25+budget:density=0.01,max=90", &parsed,
            why),
        TERN_OK);
    assert_true(parsed.min_steps == 3 && parsed.max_steps == 90 && parsed.interval == 5);
    assert_true(parsed.start == 2.5 && parsed.fraction == 0.25 && parsed.min_density == 0.01);
    static const char *const refused[][2] = {
        {"fixed:min=3", "fixed: unknown key \"min=3\"; it has no parameters"},
        {"deadline:density=0.1",
         "deadline: unknown key \"density=0.1\"; it has min, max, fraction"},
        {"adaptive+budgte", "there is no schedule \"budgte\"; did you mean \"budget\"? There are "
                            "fixed, adaptive, deadline, budget"},
        {"adaptive:min=3+budget:min=4",
         "min or max has different values in two parts; give it once"},
        {"budget:min=9,max=8", "min is above max"},
        {"budget+budget",
         "a schedule occurs twice; join different ones, e.g. adaptive+deadline+budget"},
    };
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        assert_int_not_equal(tern_steps_parse(refused[i][0], &parsed, why), TERN_OK);
        assert_string_equal(why, refused[i][1]);
    }
}

// --- Fixed and deadline

CASE(test_fixed_is_the_same_for_all)
{
    struct tern_steps_settings settings = settings_of("fixed");
    struct tern_steps_facts facts = facts_of(1000.0F, 1);
    struct tern_steps_plan plan = plan_for(&settings, NULL, &facts);
    assert_int_equal(plan.local_steps, 20);
    assert_string_equal(plan.reason.text, "fixed");
    assert_false(plan.has_own_codec);
}

CASE(test_deadline_fits_the_speed_into_the_window)
{
    static const struct {
        float speed;
        uint64_t window;
        uint32_t steps;
        const char *reason;
    } rows[] = {
        {10.0F, 30000, 150, "deadline: 10.00 steps/s x 30.00 s x 0.50"},
        {0.01F, 30000, 5, "deadline: 0.01 steps/s x 30.00 s x 0.50, at least 5"},
        {1e9F, 30000, 500, "at most 500"},
        {0.0F, 30000, 20, "deadline: speed not known yet"},
        {NAN, 30000, 20, "not known"},
        {-1.0F, 30000, 20, "not known"},
        {3e38F, UINT64_MAX, 500, "at most 500"},
        {10.0F, 0, 5, "at least 5"},
    };
    struct tern_steps_settings settings = settings_of("deadline");
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct tern_steps_facts facts = facts_of(rows[i].speed, rows[i].window);
        struct tern_steps_plan plan = plan_for(&settings, NULL, &facts);
        assert_int_equal(plan.local_steps, rows[i].steps);
        assert_non_null(strstr(plan.reason.text, rows[i].reason));
    }
}

CASE(test_deadline_after_another_only_cuts)
{
    struct tern_steps_settings settings = settings_of("fixed+deadline");
    struct tern_steps_facts fast = facts_of(10.0F, 30000);
    struct tern_steps_facts slow = facts_of(0.5F, 30000);
    assert_int_equal(plan_for(&settings, NULL, &fast).local_steps, 20);
    assert_string_equal(plan_for(&settings, NULL, &fast).reason.text,
                        "fixed; deadline: 10.00 steps/s x 30.00 s x 0.50, all fit");
    assert_int_equal(plan_for(&settings, NULL, &slow).local_steps, 7);
}

// --- Adaptive

static void add_losses(struct tern_steps_state *course, const struct tern_steps_settings *settings,
                       const float *losses, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        tern_steps_state_add_loss(course, settings, losses[i]);
    }
}

static uint32_t steps_after(const char *policy, const float *losses, size_t count)
{
    struct tern_steps_settings settings = settings_of(policy);
    struct tern_steps_state course;
    struct tern_steps_facts facts = facts_of(10.0F, 30000);
    tern_steps_state_init(&course, &settings);
    add_losses(&course, &settings, losses, count);
    return plan_for(&settings, &course, &facts).local_steps;
}

#define STEPS_AFTER(policy, ...)                                                                   \
    steps_after(policy, (const float[]){__VA_ARGS__},                                              \
                sizeof((const float[]){__VA_ARGS__}) / sizeof(float))

CASE(test_adaptive_follows_the_root_of_the_loss)
{
    assert_int_equal(STEPS_AFTER("adaptive", 2.0F), 20);
    assert_int_equal(STEPS_AFTER("adaptive", 2.0F, 1.0F), 20); // the interval is not full
    // sqrt((1.0 + 0.62) / 2 / 2) x 20 = 12.73
    assert_int_equal(STEPS_AFTER("adaptive", 2.0F, 1.0F, 0.62F), 13);
    assert_int_equal(STEPS_AFTER("adaptive", 2.0F, 1.0F, 0.62F, 0.5F, 0.5F), 10);
}

CASE(test_adaptive_decays_when_the_loss_stalls)
{
    assert_int_equal(STEPS_AFTER("adaptive", 2.0F, 0.5F, 0.5F), 10);
    assert_int_equal(STEPS_AFTER("adaptive", 2.0F, 0.5F, 0.5F, 0.5F, 0.5F), 10); // half of 20
    assert_int_equal(STEPS_AFTER("adaptive", 2.0F, 3.0F, 3.0F), 10);             // it rose
    assert_int_equal(STEPS_AFTER("adaptive", 2.0F, 2.0F, 2.0F, 2.0F, 2.0F, 2.0F, 2.0F, 2.0F, 2.0F),
                     10);
}

// The configured steps are what it comes to: it starts with a multiple of them.
CASE(test_adaptive_starts_higher)
{
    struct tern_steps_settings settings = settings_of("adaptive");
    struct tern_steps_state course;
    struct tern_steps_facts facts = facts_of(10.0F, 30000);
    settings.start = 4.0;
    tern_steps_state_init(&course, &settings);
    assert_int_equal(plan_for(&settings, &course, &facts).local_steps, 80);
    add_losses(&course, &settings, (const float[]){2.0F, 0.5F, 0.5F}, 3);
    assert_int_equal(plan_for(&settings, &course, &facts).local_steps, 40);
    add_losses(&course, &settings, (const float[]){0.5F, 0.5F}, 2); // it stalls: gamma x 40
    assert_int_equal(plan_for(&settings, &course, &facts).local_steps, 20);
    add_losses(&course, &settings, (const float[]){0.02F, 0.02F}, 2); // 8, but half of 20
    assert_int_equal(plan_for(&settings, &course, &facts).local_steps, 10);
    settings.min_steps = 15;
    add_losses(&course, &settings, (const float[]){0.02F, 0.02F}, 2);
    assert_int_equal(plan_for(&settings, &course, &facts).local_steps, 15);
    settings.start = 40.0;
    tern_steps_state_init(&course, &settings);
    struct tern_steps_plan plan = plan_for(&settings, &course, &facts);
    assert_int_equal(plan.local_steps, 500);
    assert_string_equal(plan.reason.text, "adaptive: no interval yet, at most 500");
}

CASE(test_adaptive_believes_no_nonsense)
{
    assert_int_equal(STEPS_AFTER("adaptive", NAN, INFINITY, -1.0F, 0.0F, 2.0F, 0.5F, NAN, 0.5F),
                     10);
    assert_int_equal(STEPS_AFTER("adaptive", NAN, NAN, NAN), 20);
    assert_int_equal(STEPS_AFTER("adaptive", 1e-30F, 3e38F, 3e38F), 10);
}

CASE(test_adaptive_says_why)
{
    struct tern_steps_settings settings = settings_of("adaptive+deadline");
    struct tern_steps_state course;
    struct tern_steps_facts facts = facts_of(1.0F, 16000);
    tern_steps_state_init(&course, &settings);
    assert_int_equal(plan_for(&settings, &course, &facts).local_steps, 8);
    add_losses(&course, &settings, (const float[]){2.0F, 0.5F, 0.5F}, 3);
    struct tern_steps_plan plan = plan_for(&settings, &course, &facts);
    assert_int_equal(plan.local_steps, 8);
    assert_string_equal(plan.reason.text,
                        "adaptive: loss 0.50 of 2.00; deadline: 1.00 steps/s x 16.00 s x 0.50");
}

// The course is what was added, in that order: a restart that adds the stored rounds has the same.
CASE(test_the_course_is_a_function_of_the_rounds)
{
    struct tern_steps_settings settings = settings_of("adaptive");
    struct tern_steps_state a;
    struct tern_steps_state b;
    tern_steps_state_init(&a, &settings);
    for (int i = 0; i < 37; i++) {
        tern_steps_state_add_loss(&a, &settings, 2.0F / (float)(i + 1));
        tern_steps_state_init(&b, &settings);
        for (int j = 0; j <= i; j++) {
            tern_steps_state_add_loss(&b, &settings, 2.0F / (float)(j + 1));
        }
        assert_memory_equal(&a, &b, sizeof a);
    }
}

// --- How far updates are apart

CASE(test_variance_of_updates)
{
    // (1, 0) and (0, 1): mean square 1, mean (1/2, 1/2).
    assert_true(tern_update_variance(1.0, sqrt(0.5), 2) > 0.4999F);
    assert_true(tern_update_variance(1.0, sqrt(0.5), 2) < 0.5001F);
    assert_true(tern_update_variance(4.0, 2.0, 2) == 0.0F); // all alike
    assert_true(tern_update_variance(1.0, 0.0, 1) == 0.0F); // of one
    assert_true(tern_update_variance(1.0, 2.0, 5) == 0.0F); // another mean's norm
    assert_true(tern_update_variance(1.0, NAN, 5) == 0.0F);
    assert_true(tern_update_variance(INFINITY, 1.0, 5) == 0.0F);
}
