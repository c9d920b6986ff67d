#include "rounds/rate.h"

#include <stddef.h>
#include <string.h>

#define RATE_MIN 1e-9f // the least learning rate that the setting allows

// --- Spec strings

struct fields {
    double rate;
    double final;
    double decay;
    uint32_t rounds;
    uint32_t warmup;
};

enum { RATE = 1 << 0, FINAL = 1 << 1, DECAY = 1 << 2, ROUNDS = 1 << 3, WARMUP = 1 << 4 };

static const struct tern_spec_parameter keys[] = {
    {.key = "rate",
     .meaning = "learning rate of the first round after the warm-up",
     .range = "0.000001 to 1000",
     .kind = TERN_SPEC_REAL,
     .offset = offsetof(struct fields, rate),
     .least = 1,
     .most = 1000 * TERN_SPEC_MILLION,
     .preset = TERN_SPEC_MILLION / 20},
    {.key = "final",
     .meaning = "lowest learning rate: cosine approaches it in the last round, step and plateau do "
                "not go below it",
     .range = "0 to 1000",
     .kind = TERN_SPEC_REAL,
     .offset = offsetof(struct fields, final),
     .most = 1000 * TERN_SPEC_MILLION},
    {.key = "decay",
     .meaning = "factor by which a reduction multiplies the learning rate",
     .range = "0.001 to 0.999",
     .kind = TERN_SPEC_REAL,
     .offset = offsetof(struct fields, decay),
     .least = 1000,
     .most = 999000,
     .preset = TERN_SPEC_MILLION / 2},
    {.key = "rounds",
     .meaning = "step: rounds between two reductions; plateau: rounds in a row without a new "
                "lowest training loss, after which the rate is reduced",
     .range = "1 to 1000000",
     .kind = TERN_SPEC_WHOLE,
     .offset = offsetof(struct fields, rounds),
     .least = 1,
     .most = 1000000,
     .preset = 10},
    {.key = "warmup",
     .meaning = "number n of first rounds in which the learning rate rises evenly: round r has r / "
                "(n + 1) of rate; the schedule begins after them",
     .range = "0 to 1000000",
     .kind = TERN_SPEC_WHOLE,
     .offset = offsetof(struct fields, warmup),
     .most = 1000000},
    {.key = NULL},
};

// Spec strings, indexed by enum tern_rate_schedule.
static const struct tern_spec_entry entries[] = {
    [TERN_RATE_CONSTANT] = {"constant", keys, RATE | WARMUP},
    [TERN_RATE_COSINE] = {"cosine", keys, RATE | FINAL | WARMUP},
    [TERN_RATE_STEP] = {"step", keys, RATE | FINAL | DECAY | ROUNDS | WARMUP},
    [TERN_RATE_PLATEAU] = {"plateau", keys, RATE | FINAL | DECAY | ROUNDS | WARMUP},
};

static bool entry_at(size_t index, struct tern_spec_entry *entry)
{
    const bool exists = index < sizeof entries / sizeof entries[0];
    if (exists) {
        *entry = entries[index];
    }
    return exists;
}

const struct tern_spec_list tern_rate_specs = {.what = "learning-rate schedule", .at = entry_at};

#define RATE_SPEC_MAX 256 // most bytes of a spec string, with the NUL

enum tern_result tern_rate_parse(const char *spec, struct tern_rate_policy *policy,
                                 char why[TERN_SPEC_SENTENCE_MAX])
{
    static const char constant[] = "constant:rate=";
    struct fields fields = {.decay = 0.5, .rounds = 10};
    char whole[sizeof constant + RATE_SPEC_MAX];
    size_t index = 0;
    if (spec[0] >= '0' && spec[0] <= '9' && strlen(spec) < RATE_SPEC_MAX) {
        memcpy(whole, constant, sizeof constant);
        memcpy(whole + sizeof constant - 1, spec, strlen(spec) + 1);
        spec = whole;
    }
    TERN_TRY(tern_spec_read(&tern_rate_specs, spec, &fields, &index, why));
    *policy = (struct tern_rate_policy){.schedule = (enum tern_rate_schedule)index,
                                        .first = (float)fields.rate,
                                        .last = (float)fields.final,
                                        .decay = (float)fields.decay,
                                        .decay_rounds = fields.rounds,
                                        .warmup_rounds = fields.warmup};
    return TERN_OK;
}

// --- Decays

void tern_rate_round_opened(struct tern_rate_state *state, uint32_t decays)
{
    if (decays != state->decays) {
        state->decays = decays;
        state->rounds_since_decay = 0;
    }
}

void tern_rate_round_committed(struct tern_rate_state *state)
{
    state->rounds_since_decay++;
}

static uint32_t least_of(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

// Returns how often the rate is decayed under `plateau`. Losses of warm-up rounds do not count.
static uint32_t plateau_decays(const struct tern_rate_policy *policy,
                               const struct tern_rate_state *state, uint32_t scheduled,
                               uint32_t since_lowest)
{
    const uint32_t since = least_of(least_of(state->rounds_since_decay, since_lowest), scheduled);
    return state->decays + (since >= policy->decay_rounds);
}

uint32_t tern_rate_decays(const struct tern_rate_policy *policy,
                          const struct tern_rate_state *state, uint32_t committed,
                          uint32_t since_lowest)
{
    const uint32_t scheduled =
        committed > policy->warmup_rounds ? committed - policy->warmup_rounds : 0;
    switch (policy->schedule) {
    case TERN_RATE_STEP:
        return scheduled / policy->decay_rounds;
    case TERN_RATE_PLATEAU:
        return plateau_decays(policy, state, scheduled, since_lowest);
    case TERN_RATE_CONSTANT:
    case TERN_RATE_COSINE:
        break;
    }
    return 0;
}

// --- The rate

// Returns cos(pi * t) for 0 <= t <= 1 by its Taylor series, folded to t <= 1/2, where twelve terms reach double precision.
// Basic operations only: they give the same bits on every machine.
static double cos_pi(double t)
{
    const double pi = 3.14159265358979323846;
    if (t > 0.5) {
        return -cos_pi(1.0 - t);
    }
    double x2 = pi * t * (pi * t);
    double term = 1.0;
    double sum = 1.0;
    for (int k = 1; k <= 12; k++) {
        term = -term * x2 / (double)((2 * k - 1) * (2 * k));
        sum += term;
    }
    return sum;
}

// Returns the rate of `cosine`. It reaches policy->last one round after the end, so that the last round trains even if
// policy->last is 0.
static float cosine(const struct tern_rate_policy *policy, uint32_t round, uint32_t rounds)
{
    if (rounds <= 1 || round <= 1) {
        return policy->first;
    }
    if (round > rounds) {
        return policy->last;
    }
    double t = (double)(round - 1) / (double)rounds;
    double share = 0.5 * (1.0 + cos_pi(t));
    return (float)((double)policy->last + ((double)policy->first - (double)policy->last) * share);
}

// Returns the decayed rate, at least policy->last and above 0: with a rate of 0 a round would train nothing.
static float decayed(const struct tern_rate_policy *policy, uint32_t decays)
{
    double rate = (double)policy->first;
    const double least = policy->last > RATE_MIN ? (double)policy->last : (double)RATE_MIN;
    for (uint32_t i = 0; i < decays && rate > least; i++) {
        rate *= (double)policy->decay;
    }
    return (float)(rate > least ? rate : least);
}

float tern_rate_for(const struct tern_rate_policy *policy, uint32_t round, uint32_t rounds,
                    uint32_t decays)
{
    const uint32_t warmup = policy->warmup_rounds;
    if (round <= warmup) {
        return (float)((double)policy->first * (double)round / ((double)warmup + 1.0));
    }
    if (policy->schedule == TERN_RATE_COSINE) {
        return cosine(policy, round - warmup, rounds > warmup ? rounds - warmup : 0);
    }
    return decays > 0 ? decayed(policy, decays) : policy->first;
}
