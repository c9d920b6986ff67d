// A federation whose clients have unequal budgets, of which 30 % miss a round they are asked for:
// the selection and the budget policy together spend what all have over all the rounds. The devices
// here cost what they cost by numbers of their own, and keep their budgets themselves.
#include "codec/plan.h"
#include "rounds/selection.h"
#include "rounds/steps.h"

#include "tests/cases.h"
#include "util/prng.h"
#include <math.h>
#include <string.h>

#define CLIENTS 50
#define ROUNDS 200
#define COHORT 10
#define QUORUM 2
#define OVER_SELECTION 0.3
#define SPREAD 10.0
#define ABSENT 0.3
#define LATE 0.1 // share of updates: paid for, and not counted
#define VALUES 101770
#define ATTEMPTS 20  // at a round, then the federation has stopped
#define OTHER 9700.0 // bytes of a round beside its update
#define ABSENCE 600  // of a task that nothing came of
#define ABLE 9000    // of the least round

struct device {
    uint64_t budget;
    uint64_t left;
    bool closed;          // it could not do a round any more, and asks for no other
    uint32_t lasts;       // rounds at whose beginning it could do one
    uint64_t least_bytes; // as the service keeps it
    struct tern_budget measured;
};

struct world {
    struct tern_steps_settings settings;
    struct device devices[CLIENTS];
    struct tern_prng chance;
    uint32_t committed;
    uint32_t updates;
    double share; // of the rounds to go
};

static struct world world;

static double between(double least, double most)
{
    return least + (most - least) * (double)tern_prng_float(&world.chance);
}

static void make(uint64_t seed, double poorest)
{
    world = (struct world){.settings = {.policy = TERN_STEPS_DEADLINE | TERN_STEPS_BUDGET,
                                        .local_steps = 20,
                                        .min_steps = 1,
                                        .max_steps = 120,
                                        .fraction = 0.5,
                                        .start = 1.0,
                                        .interval = 1,
                                        .min_density = 0.002}};
    tern_prng_init(&world.chance, seed, TERN_PRNG_TEST, 0, 0);
    for (uint32_t i = 0; i < CLIENTS; i++) {
        struct device *device = &world.devices[i];
        double place = (double)i / (CLIENTS - 1);
        device->budget = (uint64_t)(poorest * pow(SPREAD, place));
        device->left = device->budget;
    }
}

// --- What the service does

static struct tern_budget budget_of(const struct device *device)
{
    struct tern_budget budget = device->measured;
    budget.budgeted = true;
    budget.left = device->left;
    budget.rounds = ROUNDS - world.committed;
    budget.share = world.share;
    return budget;
}

static double affords(const void *ctx, uint32_t index)
{
    (void)ctx;
    const struct tern_budget budget = budget_of(&world.devices[index]);
    return tern_budget_affords(&budget, world.devices[index].least_bytes);
}

static struct tern_selection_chance chance_of(const void *ctx, uint64_t id)
{
    (void)ctx;
    const struct tern_budget budget = budget_of(&world.devices[id - 1]);
    return (struct tern_selection_chance){
        1.0, tern_budget_chance(&budget, world.devices[id - 1].least_bytes)};
}

// Draws a round's members; returns how many.
static uint32_t draw(uint32_t attempt, uint32_t updates, const bool *members, uint64_t *ids)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < CLIENTS; i++) {
        if (!members[i]) {
            ids[count++] = i + 1;
        }
    }
    uint32_t wanted = tern_cohort_size(COHORT, OVER_SELECTION, count);
    world.share = tern_budget_share(wanted, CLIENTS, affords, NULL);
    const struct tern_selection_need need = {wanted,
                                             tern_cohort_size(updates, OVER_SELECTION, wanted)};
    count =
        tern_selection_filter(7, world.committed + 1, attempt, ids, count, &need, chance_of, NULL);
    uint32_t size = tern_cohort_size(COHORT, OVER_SELECTION, count);
    tern_cohort_sample(7, world.committed + 1, attempt, ids, count, size);
    return size;
}

static struct tern_steps_plan plan_for(struct device *device)
{
    struct tern_steps_plan plan;
    struct tern_steps_state state;
    struct tern_steps_facts facts = {.steps_per_second = 1.0F,
                                     .window_ms = 60000,
                                     .rounds = ROUNDS,
                                     .values = VALUES,
                                     .density = true,
                                     .budget = budget_of(device)};
    assert_int_equal(tern_codec_parse("3lc:s=1,coder=range", &facts.codec, NULL), TERN_OK);
    tern_steps_state_init(&state, &world.settings);
    tern_steps_make_plan(&world.settings, &state, &facts, &plan);
    if (!plan.has_own_codec) {
        plan.codec = facts.codec;
    }
    device->least_bytes = plan.least_bytes;
    return plan;
}

// --- What devices do

// Whether its update counts.
static bool take_part(struct device *device)
{
    if (device->closed) {
        return false;
    }
    const struct tern_steps_plan plan = plan_for(device);
    if (between(0.0, 1.0) < ABSENT) {
        device->left -= device->left < ABSENCE ? device->left : ABSENCE;
        return false;
    }
    double update = 40.0 + between(0.85, 1.25) * VALUES * tern_codec_bits(&plan.codec) / 8.0;
    double other = OTHER * between(0.85, 1.15) + (between(0.0, 1.0) < ABSENT ? 1500.0 : 0.0);
    device->closed = update + other > (double)device->left;
    if (device->closed) {
        return false;
    }
    device->left -= (uint64_t)(update + other);
    if (between(0.0, 1.0) < LATE) {
        return false;
    }
    device->measured.update_bytes = (uint64_t)update;
    device->measured.other_bytes = (uint64_t)other;
    device->measured.update_codec = plan.codec;
    return true;
}

// False when it does not come to its quorum.
static bool play_round(void)
{
    bool members[CLIENTS] = {false};
    uint64_t ids[CLIENTS];
    uint32_t reported = 0;
    for (uint32_t attempt = 1; attempt <= ATTEMPTS && reported < QUORUM; attempt++) {
        uint32_t count = draw(attempt, QUORUM - reported, members, ids);
        for (uint32_t i = 0; i < count; i++) {
            members[ids[i] - 1] = true;
            reported += take_part(&world.devices[ids[i] - 1]);
        }
    }
    world.updates += reported < COHORT ? reported : COHORT;
    return reported >= QUORUM;
}

static void play(void)
{
    while (world.committed < ROUNDS) {
        for (uint32_t i = 0; i < CLIENTS; i++) {
            struct device *device = &world.devices[i];
            bool able = !device->closed && device->left >= ABLE;
            device->lasts = able ? world.committed + 1 : device->lasts;
        }
        if (!play_round()) {
            return;
        }
        world.committed++;
    }
}

// --- What came of it

#define GROUP 10 // clients whose budgets are next to each other's

// Over a group: the share of the rounds that their budgets last, and of these that stays.
static double lasts(uint32_t first)
{
    double sum = 0.0;
    for (uint32_t i = first; i < first + GROUP; i++) {
        sum += (double)world.devices[i].lasts / ROUNDS;
    }
    return sum / GROUP;
}

static double stays(uint32_t first)
{
    double sum = 0.0;
    for (uint32_t i = first; i < first + GROUP; i++) {
        sum += (double)world.devices[i].left / (double)world.devices[i].budget;
    }
    return sum / GROUP;
}

struct expected {
    double poorest; // bytes
    uint32_t rounds;
    double updates; // of a round, on average
    double lasts;   // in every group
    double stays;
};

static void expect(const struct expected *expected)
{
    for (uint64_t seed = 1; seed <= 5; seed++) {
        make(seed, expected->poorest);
        play();
        double updates = (double)world.updates / world.committed;
        print_message("poorest %.0f KB: %u rounds of %.2f updates; lasts", expected->poorest / 1e3,
                      world.committed, updates);
        for (uint32_t first = 0; first < CLIENTS; first += GROUP) {
            print_message(" %.2f", lasts(first));
        }
        print_message(", stays");
        for (uint32_t first = 0; first < CLIENTS; first += GROUP) {
            print_message(" %.2f", stays(first));
        }
        print_message("\n");
        assert_true(world.committed >= expected->rounds);
        assert_true(updates >= expected->updates);
        for (uint32_t first = 0; first < CLIENTS; first += GROUP) {
            assert_true(lasts(first) >= expected->lasts);
            assert_true(stays(first) <= expected->stays);
        }
    }
}

// 20 MB, or what the whole cohort takes at the least density.
CASE(test_enough_for_the_cohort)
{
    expect(&(struct expected){100e3, ROUNDS, 6.5, 0.9, 0.15});
}

// Rounds get smaller before the bytes end. The poorest have them for 6 rounds, the last of which
// comes by chance.
CASE(test_enough_for_half_the_cohort)
{
    expect(&(struct expected){60e3, ROUNDS, 4.0, 0.8, 0.15});
}

// The poorest have bytes for 4 rounds.
CASE(test_enough_for_the_quorum)
{
    expect(&(struct expected){40e3, ROUNDS * 19 / 20, 3.0, 0.7, 0.25});
}

// What is not needed for more rounds goes into finer updates.
CASE(test_more_than_enough)
{
    expect(&(struct expected){150e3, ROUNDS, 7.5, 0.93, 0.4});
}

// --- The share by itself

static double listed(const void *ctx, uint32_t index)
{
    const double *shares = ctx;
    return shares[index];
}

CASE(test_share)
{
    static const struct {
        double affords[4];
        uint32_t invited;
        double share;
    } rows[] = {
        {{1.0, 1.0, 1.0, 1.0}, 2, 0.5},      {{1.0, 1.0, 1.0, 1.0}, 3, 0.75},
        {{1.0, 1.0, 1.0, 1.0}, 4, 1.0},      {{1.0, 1.0, 1.0, 1.0}, 9, 1.0},
        {{0.0, 1.0, 0.0, 1.0}, 1, 0.5}, // who is spent, or not there, is made up for
        {{0.25, 1.0, 0.5, 1.0}, 2, 0.625},   {{0.25, 0.125, 0.75, 0.5}, 1, 0.3125},
        {{0.25, 0.125, 0.5, 0.125}, 1, 0.5}, // all that they have
        {{0.25, 0.125, 0.5, 0.125}, 2, 1.0}, // and it is not enough
        {{0.0, 0.0, 0.0, 0.0}, 2, 1.0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        double share = tern_budget_share(rows[i].invited, 4, listed, rows[i].affords);
        assert_true(fabs(share - rows[i].share) < 1e-12);
    }
    assert_true(tern_budget_share(3, 0, listed, NULL) == 1.0);
}
