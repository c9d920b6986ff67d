#include "rounds/selection.h"

#include "util/prng.h"
#include <stdlib.h>
#include <string.h>

// --- The cohort

// Returns the number rounded up to a whole number, at most `most`.
static uint32_t rounded_up(double number, uint32_t most)
{
    if (number >= (double)most) {
        return most;
    }
    uint32_t whole = (uint32_t)number;
    return (double)whole < number ? whole + 1 : whole;
}

uint32_t tern_cohort_target(uint32_t cohort, double fraction, uint32_t eligible)
{
    uint32_t share = rounded_up(fraction * (double)eligible, eligible);
    return share > cohort ? share : cohort;
}

uint32_t tern_cohort_size(uint32_t target, double over_selection, uint32_t eligible)
{
    return rounded_up((double)target * (1.0 + over_selection), eligible);
}

static int ascending(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a;
    uint64_t y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

void tern_cohort_sample(uint64_t seed, uint32_t round, uint32_t attempt, uint64_t *ids,
                        uint32_t count, uint32_t want)
{
    struct tern_prng rng;
    tern_prng_init(&rng, seed, TERN_PRNG_COHORT, round, attempt);
    for (uint32_t i = 0; i < want; i++) {
        uint32_t j = i + tern_prng_below(&rng, count - i);
        uint64_t drawn = ids[j];
        ids[j] = ids[i];
        ids[i] = drawn;
    }
    if (want > 1) {
        qsort(ids, want, sizeof ids[0], ascending);
    }
}

// --- Which clients may be drawn

#define LEAST_CHANCE (1.0 / 16.0)
#define DOUBLINGS 64 // enough doublings from 2^-32, the least chance above 0, to far above 1
#define HALVINGS 16

static const char *const names[] = {"random", "availability", "budget-aware"};

enum tern_result tern_selection_from_name(const char *name, enum tern_client_selection *selection)
{
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strcmp(name, names[i]) == 0) {
            *selection = (enum tern_client_selection)i;
            return TERN_OK;
        }
    }
    return TERN_ERR_UNKNOWN;
}

const char *tern_selection_names(void)
{
    return "random | availability | budget-aware | tags:KEY | tags:KEY=VALUE";
}

double tern_selection_availability(const struct tern_availability *client)
{
    double chance = 1.0;
    if (client->age_ms > client->window_ms) {
        chance = (double)client->window_ms / (double)client->age_ms;
    }
    chance *= 1.0 - (double)client->unreported;
    chance *= client->battery ? 0.5 : 1.0;
    chance *= client->metered ? 0.5 : 1.0;
    return chance > LEAST_CHANCE ? chance : LEAST_CHANCE;
}

struct draws {
    uint64_t seed;
    uint32_t round;
    uint32_t attempt;
    struct tern_selection_chance (*chance)(const void *ctx, uint64_t id);
    const void *ctx;
    struct tern_selection_chance scale;
};

static bool falls_below(const struct draws *draws, uint32_t attempt, uint64_t id, double chance)
{
    if (!(chance > 0.0) || chance >= 1.0) {
        return chance > 0.0;
    }
    struct tern_prng rng;
    tern_prng_init(&rng, draws->seed, TERN_PRNG_SELECTION, draws->round, attempt);
    tern_prng_seek(&rng, id);
    return (double)tern_prng_u32(&rng) < chance * 4294967296.0;
}

// Whether the client passes the draw, which depends on the client's id and not on other clients. Attempt 0:
// `affordable` is drawn once for all attempts of a round.
static bool passes(const struct draws *draws, uint64_t id)
{
    const struct tern_selection_chance chance = draws->chance(draws->ctx, id);
    return falls_below(draws, 0, id, chance.affordable * draws->scale.affordable) &&
           falls_below(draws, draws->attempt, id, chance.preference * draws->scale.preference);
}

static uint32_t count_passing(const struct draws *draws, const uint64_t *ids, uint32_t count)
{
    uint32_t in = 0;
    for (uint32_t i = 0; i < count; i++) {
        in += passes(draws, ids[i]);
    }
    return in;
}

// Doubles *scale, a member of `draws`, until enough clients pass.
static void raise_chances(struct draws *draws, double *scale, const uint64_t *ids, uint32_t count,
                          uint32_t need)
{
    for (int i = 0; i < DOUBLINGS && count_passing(draws, ids, count) < need; i++) {
        *scale *= 2.0;
    }
}

// Bisects the last doubling of scale.affordable, so that as few clients as possible exceed their budget.
static void bisect_chances(struct draws *draws, const uint64_t *ids, uint32_t count, uint32_t need)
{
    double most = draws->scale.affordable;
    double least = most / 2.0;
    for (int i = 0; most > 1.0 && i < HALVINGS; i++) {
        draws->scale.affordable = (least + most) / 2.0;
        bool enough = count_passing(draws, ids, count) >= need;
        most = enough ? draws->scale.affordable : most;
        least = enough ? least : draws->scale.affordable;
    }
    draws->scale.affordable = most;
}

uint32_t tern_selection_filter(uint64_t seed, uint32_t round, uint32_t attempt, uint64_t *ids,
                               uint32_t count, const struct tern_selection_need *need,
                               struct tern_selection_chance (*chance)(const void *ctx, uint64_t id),
                               const void *ctx)
{
    struct draws draws = {seed, round, attempt, chance, ctx, {1.0, 1.0}};
    raise_chances(&draws, &draws.scale.preference, ids, count, need->wanted);
    raise_chances(&draws, &draws.scale.affordable, ids, count, need->least);
    bisect_chances(&draws, ids, count, need->least);
    uint32_t in = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (passes(&draws, ids[i])) {
            ids[in++] = ids[i];
        }
    }
    return in;
}

// Time until a new client's first check-in, as a multiple of come_back_min_ms.
#define NEWCOMER_WAITS 10
// Least time until a new client's first check-in: enough for slow links and busy machines.
#define NEWCOMER_LEAST_MS 30000

uint64_t tern_selection_first_checkin_ms(uint64_t come_back_min_ms)
{
    const uint64_t waits = NEWCOMER_WAITS * come_back_min_ms;
    return waits > NEWCOMER_LEAST_MS ? waits : NEWCOMER_LEAST_MS;
}

bool tern_selection_has_checked_in(uint64_t created_ms, uint64_t seen_ms, uint64_t come_back_min_ms,
                                   uint64_t now)
{
    return seen_ms > created_ms ||
           (seen_ms != 0 && now <= created_ms + tern_selection_first_checkin_ms(come_back_min_ms));
}
