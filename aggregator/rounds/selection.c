#include "rounds/selection.h"

#include "util/prng.h"
#include <string.h>

#define LEAST_CHANCE (1.0 / 16.0)
#define DOUBLINGS 64 // from 2^-32, the least that the draw tells from 0, and far beyond

static const char *const names[] = {"random", "availability", "budget-aware"};

enum tern_result tern_selection_from_name(const char *name, enum tern_selection *selection)
{
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strcmp(name, names[i]) == 0) {
            *selection = (enum tern_selection)i;
            return TERN_OK;
        }
    }
    return TERN_ERR_UNKNOWN;
}

const char *tern_selection_names(void)
{
    return "random | availability | budget-aware";
}

double tern_selection_availability(const struct tern_availability *client)
{
    double chance = 1.0;
    if (client->age_ms > client->window_ms) {
        chance = (double)client->window_ms / (double)client->age_ms;
    }
    chance *= client->battery ? 0.5 : 1.0;
    chance *= client->metered ? 0.5 : 1.0;
    return chance > LEAST_CHANCE ? chance : LEAST_CHANCE;
}

struct draws {
    uint64_t seed;
    uint32_t round;
    uint32_t attempt;
    double (*chance)(const void *ctx, uint64_t id);
    const void *ctx;
};

// Each client's draw depends on its id alone, not on who else is there.
static bool is_in(const struct draws *draws, uint64_t id, double scale)
{
    double chance = draws->chance(draws->ctx, id);
    if (!(chance > 0.0)) {
        return false;
    }
    if (chance * scale >= 1.0) {
        return true;
    }
    struct tern_prng rng;
    tern_prng_init(&rng, draws->seed, TERN_PRNG_SELECTION, draws->round, draws->attempt);
    tern_prng_seek(&rng, id);
    return (double)tern_prng_u32(&rng) < chance * scale * 4294967296.0;
}

static uint32_t count_in(const struct draws *draws, const uint64_t *ids, uint32_t count,
                         double scale)
{
    uint32_t in = 0;
    for (uint32_t i = 0; i < count; i++) {
        in += is_in(draws, ids[i], scale);
    }
    return in;
}

uint32_t tern_selection_thin(uint64_t seed, uint32_t round, uint32_t attempt, uint64_t *ids,
                             uint32_t count, uint32_t need,
                             double (*chance)(const void *ctx, uint64_t id), const void *ctx)
{
    const struct draws draws = {seed, round, attempt, chance, ctx};
    double scale = 1.0;
    for (int i = 0; i < DOUBLINGS && count_in(&draws, ids, count, scale) < need; i++) {
        scale *= 2.0;
    }
    uint32_t in = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (is_in(&draws, ids[i], scale)) {
            ids[in++] = ids[i];
        }
    }
    return in;
}
