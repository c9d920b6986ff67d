// Attackers: as many as the settings say, the same for the same seed; what each sends in place of what
// it trained; and that a client that does not attack is left alone.
#include "fleet/attack.h"
#include "fleet/device.h"
#include "fleet/shares.h"
#include "tests/cases.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

#define COUNT 4000u

static float base[COUNT];
static float trained[COUNT];

static struct tern_fleet_settings settings_of(uint32_t clients, double share, const char *attack)
{
    struct tern_fleet_settings settings = {
        .fleet_clients = clients, .fleet_seed = 3, .fleet_attackers = share};
    snprintf(settings.fleet_attack, sizeof settings.fleet_attack, "%s", attack);
    return settings;
}

static enum tern_attack attack_of(const struct tern_fleet_settings *settings, uint32_t number)
{
    struct tern_device device;
    char why[512];
    assert_int_equal(tern_device_make(settings, number, &device, why), TERN_OK);
    return device.attack;
}

// Bit i: client i + 1 attacks.
static uint64_t who_attacks(const struct tern_fleet_settings *settings)
{
    uint64_t attackers = 0;
    for (uint32_t i = 0; i < settings->fleet_clients; i++) {
        attackers |= (uint64_t)(attack_of(settings, i + 1) != TERN_ATTACK_NONE) << i;
    }
    return attackers;
}

CASE(as_many_attack_as_the_share_says)
{
    static const struct {
        uint32_t clients;
        double share;
        int attackers;
    } cases[] = {{50, 0.0, 0}, {50, 0.2, 10}, {50, 0.1, 5}, {7, 0.3, 2},
                 {8, 0.2, 2},  {64, 1, 64},   {1, 0.4, 0},  {1, 1, 1}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct tern_fleet_settings settings =
            settings_of(cases[i].clients, cases[i].share, "random");
        assert_int_equal(tern_attack_count(&settings), cases[i].attackers);
        for (settings.fleet_seed = 1; settings.fleet_seed <= 5; settings.fleet_seed++) {
            assert_int_equal(__builtin_popcountll(who_attacks(&settings)), cases[i].attackers);
        }
        // The evaluator, which comes after them, never does.
        assert_int_equal(attack_of(&settings, cases[i].clients + 1), TERN_ATTACK_NONE);
    }
}

CASE(who_attacks_follows_from_the_seed)
{
    struct tern_fleet_settings settings = settings_of(50, 0.2, "scaled");
    const uint64_t first = who_attacks(&settings);
    bool differs = false;
    assert_true(who_attacks(&settings) == first);
    for (settings.fleet_seed = 4; settings.fleet_seed < 9; settings.fleet_seed++) {
        differs = differs || who_attacks(&settings) != first;
    }
    assert_true(differs);
}

CASE(an_attack_that_is_not_known_is_refused)
{
    const struct tern_fleet_settings settings = settings_of(10, 0.0, "backdoor");
    struct tern_device device;
    char why[512];
    assert_int_equal(tern_device_make(&settings, 1, &device, why), TERN_ERR_CONFIG);
    assert_non_null(strstr(why, "fleet.attack 'backdoor' is not one of " TERN_ATTACK_NAMES));
}

// --- A trainer whose change is 2^-6 at the even coordinates and -2^-7 at the odd ones

static float honest_change(uint32_t i)
{
    return i % 2 == 0 ? 0x1p-6F : -0x1p-7F;
}

static enum tern_result begin_training(void *ctx, const struct tern_train_task *task,
                                       const float *from, uint32_t count)
{
    (void)ctx;
    (void)task;
    for (uint32_t i = 0; i < count; i++) {
        trained[i] = from[i] + honest_change(i);
    }
    return TERN_OK;
}

static enum tern_result train_step(void *ctx, float **weights, struct tern_train_result *result)
{
    int *steps = ctx;
    *weights = trained;
    *result = (struct tern_train_result){.num_examples = 5, .local_steps = 2, .loss = 1.0F};
    return ++*steps < 2 ? TERN_AGAIN : TERN_OK;
}

static const float *sent_by(enum tern_attack kind, uint32_t number, uint32_t round)
{
    int steps = 0;
    float *weights = NULL;
    struct tern_train_result result;
    struct tern_attacker attacker = {
        .kind = kind,
        .scale = 8,
        .seed = 1,
        .number = number,
        .trainer = {.ctx = &steps, .begin = begin_training, .step = train_step}};
    const struct tern_trainer port = tern_attack_port(&attacker);
    const struct tern_train_task task = {.round = round};
    for (uint32_t i = 0; i < COUNT; i++) {
        base[i] = 0.25F * (float)(i % 5);
    }
    assert_int_equal(port.begin(port.ctx, &task, base, COUNT), TERN_OK);
    assert_int_equal(port.step(port.ctx, &weights, &result), TERN_AGAIN);
    assert_true(weights[0] - base[0] == honest_change(0)); // once, when all is trained
    assert_int_equal(port.step(port.ctx, &weights, &result), TERN_OK);
    assert_int_equal(result.num_examples, 5);
    return weights;
}

CASE(a_change_is_negated_or_magnified)
{
    static const struct {
        enum tern_attack kind;
        float factor;
    } cases[] = {{TERN_ATTACK_NONE, 1.0F},
                 {TERN_ATTACK_LABEL_FLIP, 1.0F},
                 {TERN_ATTACK_SIGN_FLIP, -1.0F},
                 {TERN_ATTACK_SCALED, -8.0F}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const float *weights = sent_by(cases[i].kind, 1, 1);
        for (uint32_t at = 0; at < COUNT; at++) {
            assert_true(weights[at] - base[at] == cases[i].factor * honest_change(at));
        }
    }
}

CASE(noise_has_the_norm_that_is_asked_and_is_new_in_each_round)
{
    float first[COUNT];
    double square = 0.0;
    double honest = 0.0;
    double sum = 0.0;
    memcpy(first, sent_by(TERN_ATTACK_RANDOM, 1, 1), sizeof first);
    for (uint32_t i = 0; i < COUNT; i++) {
        const double change = (double)first[i] - (double)base[i];
        square += change * change;
        sum += change;
        honest += (double)honest_change(i) * (double)honest_change(i);
    }
    assert_true(fabs(sqrt(square / honest) - 8.0) < 0.4); // six standard deviations
    assert_true(fabs(sum) < 6.0 * sqrt(square));
    assert_memory_equal(sent_by(TERN_ATTACK_RANDOM, 1, 1), first, sizeof first);
    assert_memory_not_equal(sent_by(TERN_ATTACK_RANDOM, 1, 2), first, sizeof first);
    assert_memory_not_equal(sent_by(TERN_ATTACK_RANDOM, 2, 1), first, sizeof first);
}

CASE(flipped_labels_are_counted_from_the_other_end)
{
    struct tern_fleet_settings settings = settings_of(4, 0.5, "label-flip");
    struct tern_shares shares;
    char why[512];
    snprintf(settings.data_source, sizeof settings.data_source, "digits:train=100,test=10,size=16");
    snprintf(settings.data_partition, sizeof settings.data_partition, "iid");
    settings.data_alpha = 0.5;
    assert_int_equal(tern_shares_open(&settings, 4, &shares, why), TERN_OK);
    assert_int_equal(tern_shares_flip(&shares), TERN_OK);
    for (uint32_t client = 0; client < 4; client++) {
        float features[256];
        float same[256];
        uint16_t label;
        uint16_t flipped;
        const struct tern_view own = tern_shares_of(&shares, client);
        const struct tern_view other = tern_shares_flipped_of(&shares, client);
        assert_int_equal(other.count, own.count);
        for (uint32_t i = 0; i < own.count; i++) {
            tern_view_gather(&own, NULL, i, 1, features, &label);
            tern_view_gather(&other, NULL, i, 1, same, &flipped);
            assert_memory_equal(same, features, sizeof features);
            assert_int_equal(flipped, 9 - label);
        }
    }
    tern_shares_close(&shares);
}
