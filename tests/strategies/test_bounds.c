// Whatever is accepted can be merged, for ever: bounds.h, driven to its edges.
#include "merged.h"
#include "strategies/bounds.h"
#include "strategies/strategy.h"
#include "tests/cases.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define COUNT 15 // values of softmax:4-3
#define UPDATES 2

struct run {
    struct tern_model model;
    struct tern_strategy_rule rule;
    float global[COUNT];
    float acc[COUNT];
    float decoded[COUNT];
    float states[TERN_STRATEGY_STATES][COUNT];
    float values[COUNT * UPDATES];
    double scratch[8 * UPDATES * UPDATES];
};

CASE(test_what_is_accepted_cannot_overflow)
{
    assert_true(1e3 * (TERN_GLOBAL_MAX + 2.0 * TERN_DIFFERENCE_MAX) < (double)FLT_MAX);
    assert_true(TERN_SQUARE_MAX < (double)FLT_MAX);
}

// Every parameter at the end of its range that moves the model the furthest.
static void widest(struct run *run, const struct tern_strategy *strategy)
{
    run->rule = (struct tern_strategy_rule){.strategy = strategy,
                                            .server_learning_rate = (float)TERN_SERVER_RATE_MAX};
    for (int i = 0; i < TERN_STRATEGY_PARAMETERS; i++) {
        bool used = (strategy->parameters >> i & 1) != 0;
        run->rule.parameters[i] = used ? (float)tern_strategy_parameter_table[i].most : 0.0F;
    }
    if ((strategy->parameters >> TERN_STRATEGY_TAU & 1) != 0) {
        run->rule.parameters[TERN_STRATEGY_TAU] = 1e-9F;
    }
    if ((strategy->parameters >> TERN_STRATEGY_BETA2 & 1) != 0) {
        run->rule.parameters[TERN_STRATEGY_BETA2] = 0.0F;
    }
    run->rule.parameters[TERN_STRATEGY_SCALE_MAX] = 0.0F;
}

static enum tern_result merge(struct run *run, const struct tern_contribution *contributions,
                              const float values[UPDATES])
{
    static const struct tern_codec codec = {.id = TERN_CODEC_FLOAT32, .sparsity = 1.0F};
    const struct tern_strategy_memory memory = {run->acc,        {run->states[0], run->states[1]},
                                                run->decoded,    run->values,
                                                COUNT * UPDATES, run->scratch};
    struct tern_strategy_totals totals;
    struct tern_strategy_sums sums;
    tern_strategy_totals_init(&totals, &run->rule);
    for (size_t i = 0; i < UPDATES; i++) {
        assert_int_equal(tern_strategy_count_update(&totals, &contributions[i]), TERN_OK);
    }
    uint8_t containers[UPDATES][256];
    struct held_update updates[UPDATES];
    for (size_t i = 0; i < UPDATES; i++) {
        float decoded[COUNT];
        updates[i] = (struct held_update){contributions[i], containers[i], 0};
        for (size_t k = 0; k < COUNT; k++) {
            decoded[k] = values[i];
        }
        assert_int_equal(tern_container_encode(&codec, NULL, &run->model, decoded, containers[i],
                                               sizeof containers[i], &updates[i].len),
                         TERN_OK);
    }
    assert_int_equal(take_updates(&sums, &run->model, &totals, &memory, updates, UPDATES), TERN_OK);
    return tern_strategy_merge(&sums, run->global);
}

// One client claims the most examples and steps, so that the other, with one step, is scaled up the
// most; both push as hard as they may, then nobody pushes any more, and the momenta run out.
static void attack(const char *name, float scale_max)
{
    static struct run run;
    memset(&run, 0, sizeof run);
    assert_int_equal(tern_model_from_spec(&run.model, "softmax:4-3"), TERN_OK);
    widest(&run, tern_strategy_find(name));
    run.rule.parameters[TERN_STRATEGY_SCALE_MAX] = scale_max;
    for (size_t i = 0; i < TERN_STRATEGY_STATES; i++) {
        tern_strategy_start_state(&run.rule, i, run.states[i], COUNT);
    }
    const struct tern_contribution contributions[UPDATES] = {
        {.num_examples = 100, .local_steps = TERN_UPDATE_LOCAL_STEPS_MAX, .loss = 1.0F},
        {.num_examples = 100, .local_steps = 1, .loss = 1.0F}};
    float most = (float)(0.999 * tern_strategy_norm_max(&run.rule));
    float before = 0.0F;
    for (unsigned round = 0; round < 40; round++) {
        float value = round < 20 ? most : 0.0F;
        const float values[UPDATES] = {value, value};
        assert_int_equal(merge(&run, contributions, values), TERN_OK);
        double moved = fabs((double)run.global[0] - (double)before);
        before = run.global[0];
        assert_true(moved <= 1.0001 * TERN_ROUND_STEP_MAX); // rounding
        for (size_t i = 0; i < TERN_STRATEGY_STATES; i++) {
            assert_true(isfinite(run.states[i][0]));
        }
    }
}

CASE(test_widest_settings)
{
    static const char *const names[] = {
        "fednova",       "fedavg",     "fedprox", "fedavgm", "fedadam",   "fedyogi", "fedmedian",
        "fedtrimmedavg", "fedadagrad", "fedbuff", "krum",    "multikrum", "qsvrg"};
    static const float scales[] = {0.0F, 1.0F, 2.0F, 1e6F};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        for (size_t s = 0; s < sizeof scales / sizeof scales[0]; s++) {
            attack(names[i], scales[s]);
        }
    }
}

// The last round of an epoch moves the model back over half of all the others' moves, if they all went one way.
CASE(test_epochs)
{
    static struct run run;
    const struct tern_contribution contributions[UPDATES] = {
        {.num_examples = 100, .local_steps = 1, .loss = 1.0F},
        {.num_examples = 1, .local_steps = 1, .loss = 1.0F}};
    for (unsigned steps = 3; steps <= 3000; steps = 10 * steps) {
        memset(&run, 0, sizeof run);
        assert_int_equal(tern_model_from_spec(&run.model, "softmax:4-3"), TERN_OK);
        run.rule = (struct tern_strategy_rule){.strategy = &tern_strategy_qsvrg,
                                               .server_learning_rate = 1.0F};
        run.rule.parameters[TERN_STRATEGY_EPOCH_STEPS] = (float)steps;
        const float most = (float)tern_strategy_norm_max(&run.rule);
        const float values[UPDATES] = {most, most};
        for (unsigned step = 0; step + 1 < steps; step++) {
            const double before = (double)run.global[0];
            run.rule.parameters[TERN_STRATEGY_EPOCH_STEP] = (float)step;
            assert_int_equal(merge(&run, contributions, values), TERN_OK);
            assert_true(fabs((double)run.global[0] - before) <= TERN_MOVE_MAX);
        }
        assert_true(fabs((double)run.global[0] / ((double)most * 0.5 * (steps - 1)) - 1.0) < 1e-4);
    }
    const double longest = tern_strategy_parameter_table[TERN_STRATEGY_EPOCH_STEPS].most;
    assert_true(2.0 * TERN_UPDATE_NORM_MAX * (1.0 + longest / 2.0) <= TERN_MOVE_MAX);
}

// The limit is the usual one unless momenta multiply what comes in.
CASE(test_norm_limit_of_a_rule)
{
    static struct run run;
    run.rule = (struct tern_strategy_rule){.strategy = &tern_strategy_fednova};
    assert_true(tern_strategy_norm_max(&run.rule) == TERN_UPDATE_NORM_MAX);
    run.rule.strategy = &tern_strategy_fedavgm;
    assert_true(tern_strategy_norm_max(&run.rule) == TERN_UPDATE_NORM_MAX);
    widest(&run, &tern_strategy_fednova);
    assert_true(tern_strategy_norm_max(&run.rule) < 1.1e11);
    widest(&run, &tern_strategy_fedavgm);
    double norm = tern_strategy_norm_max(&run.rule);
    assert_true(norm >= 1e6 && norm < 2e7); // the default limit is always allowed
    // What scales up less may come in larger.
    run.rule.parameters[TERN_STRATEGY_SCALE_MAX] = 1e6F;
    double ratio = tern_strategy_norm_max(&run.rule) / norm;
    assert_true(ratio > 0.99e4 && ratio < 1.01e4);
    run.rule.parameters[TERN_STRATEGY_SCALE_MAX] = 2.0F;
    assert_true(tern_strategy_norm_max(&run.rule) == TERN_UPDATE_NORM_MAX);
}

CASE(test_steps_norm)
{
    const double rhos[] = {0.0, 0.5, 0.9, 0.9999};
    const double alphas[] = {0.0, 0.001, 0.5, 1.0, 40.0};
    assert_true(tern_steps_norm(1000000, 0.0, 0.0) == 1000000.0);
    for (size_t r = 0; r < 4; r++) {
        for (size_t a = 0; a < 5; a++) {
            for (uint32_t steps = 1; steps <= 1000000; steps = steps * 3 + 1) {
                double norm = tern_steps_norm(steps, rhos[r], alphas[a]);
                assert_true(norm >= 1.0 && norm <= (double)steps / (1.0 - rhos[r]));
            }
        }
    }
    // The closed form for momentum without weight decay, after many steps.
    double expected = (1e6 - 0.9 / 0.1) / 0.1;
    assert_true(fabs(tern_steps_norm(1000000, 0.9, 0.0) / expected - 1.0) < 1e-9);
    assert_true(fabs(tern_steps_norm(1000000, 0.0, 0.01) - 100.0) < 1e-9);
}

CASE(test_scale)
{
    struct tern_strategy_rule rule = {.strategy = &tern_strategy_fedavg};
    assert_true(tern_strategy_steps_factor_max(&rule, 100, 1) == 1.0);
    rule.strategy = &tern_strategy_fednova;
    assert_true(tern_strategy_steps_factor_max(&rule, 100, 1) == 100.0);
    rule.parameters[TERN_STRATEGY_LOCAL_MOMENTUM] = 0.9F;
    assert_true(tern_strategy_steps_factor_max(&rule, 100, 1) > 900.0);
    rule.parameters[TERN_STRATEGY_SCALE_MAX] = 2.0F;
    assert_true(tern_strategy_steps_factor_max(&rule, 100, 1) == 2.0);
    assert_true(tern_strategy_steps_factor_max(&rule, 100, 100) == 1.0);
    double little = tern_strategy_steps_factor_max(&rule, 100, 80);
    assert_true(little > 1.0 && little < 2.0);
    rule.strategy = &tern_strategy_fedavg; // does not normalise
    assert_true(tern_strategy_steps_factor_max(&rule, 100, 1) == 1.0);
}

// The factors of a round of two, against what was foretold for each of them; norms are kept to
// 2^-24. Returns by how much the mean can be as large as the updates.
static double check_factors(const struct tern_strategy_rule *rule, uint32_t asked,
                            const struct tern_contribution round[UPDATES])
{
    struct tern_strategy_totals totals;
    double gain = 0.0;
    tern_strategy_totals_init(&totals, rule);
    for (size_t i = 0; i < UPDATES; i++) {
        assert_int_equal(tern_strategy_count_update(&totals, &round[i]), TERN_OK);
    }
    for (size_t i = 0; i < UPDATES; i++) {
        uint32_t done = round[i].local_steps;
        double factor = tern_strategy_steps_factor(&totals, done);
        double most = (double)rule->parameters[TERN_STRATEGY_SCALE_MAX];
        assert_true(factor <= tern_strategy_steps_factor_max(rule, asked, done) * (1.0 + 1e-6));
        assert_true(factor <= most || !(most > 0.0));
        gain += factor * (double)round[i].num_examples / (double)totals.num_examples;
    }
    return gain;
}

// Neither what an update is measured by nor the bound on all is ever below what happens.
CASE(test_scale_is_never_exceeded)
{
    static const float scales[] = {0.0F, 1.0F, 1.5F, 2.0F, 1e3F, 1e6F};
    static const float rhos[] = {0.0F, 0.9F, 0.9999F};
    static const uint32_t steps[] = {1, 2, 3, 20, 999, TERN_UPDATE_LOCAL_STEPS_MAX};
    static const uint32_t examples[] = {1, 100, 10000};
    struct tern_strategy_rule rule = {.strategy = &tern_strategy_fednova};
    for (size_t i = 0; i < 6 * 3 * 6 * 6 * 3; i++) {
        const uint32_t one = steps[i / 18 % 6];
        const uint32_t other = steps[i / 108 % 6];
        const uint32_t asked = one > other ? one : other;
        const struct tern_contribution round[UPDATES] = {
            {.num_examples = 100, .local_steps = one},
            {.num_examples = examples[i / 648], .local_steps = other}};
        rule.parameters[TERN_STRATEGY_SCALE_MAX] = scales[i % 6];
        rule.parameters[TERN_STRATEGY_LOCAL_MOMENTUM] = rhos[i / 6 % 3];
        double gain = check_factors(&rule, asked, round);
        double moved = 2.0 * tern_strategy_norm_max(&rule) * gain;
        assert_true(moved <= TERN_MOVE_MAX * (1.0 + 1e-6));
    }
}
