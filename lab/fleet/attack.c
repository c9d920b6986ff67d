#include "fleet/attack.h"
#include "util/prng.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

// --- Choosing the attackers

// Stream for draws that concern the whole fleet: client numbers start at 1.
#define NOBODY 0
enum { DRAW_FIRST_ATTACKER };

uint32_t tern_attack_count(const struct tern_fleet_settings *settings)
{
    return (uint32_t)(settings->fleet_attackers * (double)settings->fleet_clients + 0.5);
}

static bool attacks(const struct tern_fleet_settings *settings, uint32_t number)
{
    const uint64_t clients = settings->fleet_clients;
    const uint64_t attackers = tern_attack_count(settings);
    struct tern_prng rng;
    tern_prng_init(&rng, settings->fleet_seed, TERN_PRNG_FLEET, NOBODY, 0);
    tern_prng_seek(&rng, DRAW_FIRST_ATTACKER);
    const uint64_t offset = tern_prng_below(&rng, settings->fleet_clients);
    return number <= clients &&
           (number * attackers + offset) / clients > ((number - 1) * attackers + offset) / clients;
}

enum tern_result tern_attack_of(const struct tern_fleet_settings *settings, uint32_t number,
                                enum tern_attack *attack, char why[512])
{
    static const struct {
        const char *name;
        enum tern_attack attack;
    } known[] = {{"sign-flip", TERN_ATTACK_SIGN_FLIP},
                 {"scaled", TERN_ATTACK_SCALED},
                 {"random", TERN_ATTACK_RANDOM},
                 {"label-flip", TERN_ATTACK_LABEL_FLIP}};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        if (strcmp(known[i].name, settings->fleet_attack) == 0) {
            *attack = attacks(settings, number) ? known[i].attack : TERN_ATTACK_NONE;
            return TERN_OK;
        }
    }
    snprintf(why, 512, "fleet.attack '%s' is not one of " TERN_ATTACK_NAMES,
             settings->fleet_attack);
    return TERN_ERR_CONFIG;
}

// --- What

static void multiply_change(const struct tern_attacker *attacker, float factor, float *weights)
{
    for (uint32_t i = 0; i < attacker->count; i++) {
        weights[i] = attacker->base[i] + factor * (weights[i] - attacker->base[i]);
    }
}

static double norm_of_change(const struct tern_attacker *attacker, const float *weights)
{
    double square = 0.0;
    for (uint32_t i = 0; i < attacker->count; i++) {
        const double change = (double)weights[i] - (double)attacker->base[i];
        square += change * change;
    }
    return sqrt(square);
}

// The variance of uniform values in [-a, a) is a² / 3.
static void replace_by_noise(const struct tern_attacker *attacker, float *weights)
{
    const double norm = attacker->scale * norm_of_change(attacker, weights);
    const float most = (float)(norm * sqrt(3.0 / attacker->count));
    struct tern_prng rng;
    tern_prng_init(&rng, attacker->seed, TERN_PRNG_FLEET, attacker->number, attacker->round);
    tern_prng_seek(&rng, 1); // draw 0 decides whether the client misses the round
    for (uint32_t i = 0; i < attacker->count; i++) {
        weights[i] = attacker->base[i] + most * (2.0F * tern_prng_float(&rng) - 1.0F);
    }
}

static void falsify(const struct tern_attacker *attacker, float *weights)
{
    switch (attacker->kind) {
    case TERN_ATTACK_SIGN_FLIP:
        multiply_change(attacker, -1.0F, weights);
        break;
    case TERN_ATTACK_SCALED:
        multiply_change(attacker, -(float)attacker->scale, weights);
        break;
    case TERN_ATTACK_RANDOM:
        replace_by_noise(attacker, weights);
        break;
    case TERN_ATTACK_LABEL_FLIP: // only its labels are false
    case TERN_ATTACK_NONE:
        break;
    }
}

// --- The trainer

static enum tern_result begin(void *ctx, const struct tern_train_task *task, const float *base,
                              uint32_t count)
{
    struct tern_attacker *attacker = ctx;
    attacker->base = base;
    attacker->count = count;
    attacker->round = task->round;
    return attacker->trainer.begin(attacker->trainer.ctx, task, base, count);
}

static enum tern_result step(void *ctx, float **weights, struct tern_train_result *result)
{
    struct tern_attacker *attacker = ctx;
    TERN_TRY(attacker->trainer.step(attacker->trainer.ctx, weights, result));
    falsify(attacker, *weights);
    return TERN_OK;
}

static enum tern_result evaluate(void *ctx, const float *weights, uint32_t count,
                                 struct tern_evaluate_result *result)
{
    struct tern_attacker *attacker = ctx;
    return attacker->trainer.evaluate(attacker->trainer.ctx, weights, count, result);
}

struct tern_trainer tern_attack_port(struct tern_attacker *attacker)
{
    if (attacker->kind == TERN_ATTACK_NONE || attacker->kind == TERN_ATTACK_LABEL_FLIP) {
        return attacker->trainer;
    }
    return (struct tern_trainer){
        .ctx = attacker, .begin = begin, .step = step, .evaluate = evaluate};
}
