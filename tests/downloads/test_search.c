// Compares the planner's choice with the best of all choices that plan.h lists, in many small worlds drawn at random.
// Choices that cannot win must not be tried.
#include "downloads/plan.h"
#include "meter/meter.h"

#include "tests/sanitized.h"

#include "tests/cases.h"
#include "util/prng.h"
#include <string.h>

// A question, and what passes from each start would take and leave.
struct world {
    struct tern_plan_question question;
    bool there[TERN_PLAN_STARTS];
    double start_residual[TERN_PLAN_STARTS];
    // By start and number of the pass from 0; 0 bytes: there is none.
    uint32_t bytes[TERN_PLAN_STARTS][TERN_PLAN_PASSES_MAX];
    double residual[TERN_PLAN_STARTS][TERN_PLAN_PASSES_MAX];

    enum tern_plan_start start; // of the passes under way
    uint32_t passes;
    uint32_t made; // passes asked for
};

static struct tern_prng rng;

static uint32_t below(uint32_t n)
{
    return (uint32_t)(tern_prng_float(&rng) * (float)n) % n;
}

static bool chance(uint32_t percent)
{
    return below(100) < percent;
}

// --- Ports

static enum tern_result begin(void *ctx, enum tern_plan_start start, double *residual)
{
    struct world *world = ctx;
    world->start = start;
    world->passes = 0;
    *residual = world->start_residual[start];
    return world->there[start] ? TERN_OK : TERN_ERR_NOT_FOUND;
}

static enum tern_result pass(void *ctx, uint32_t *bytes, double *residual)
{
    struct world *world = ctx;
    assert_true(world->passes < TERN_PLAN_PASSES_MAX);
    *bytes = world->bytes[world->start][world->passes];
    *residual = world->residual[world->start][world->passes];
    world->passes++;
    world->made++;
    return *bytes == 0 ? TERN_ERR_NON_FINITE : TERN_OK;
}

// --- Every choice

struct best {
    bool any;
    bool within;
    uint64_t cost;
    double residual;
};

static void consider(struct best *best, bool within, uint64_t cost, double residual)
{
    bool better = !best->any || (within && !best->within);
    if (!better && within == best->within) {
        better =
            within ? cost < best->cost
                   : residual < best->residual || (residual <= best->residual && cost < best->cost);
    }
    if (better) {
        *best = (struct best){true, within, cost, residual};
    }
}

// Downloads of a client's own that are together no more than what comes inline cost their entries in
// the task; a snapshot, and all that come with it or are more, an exchange each.
static uint64_t price(uint32_t snapshot, uint64_t deltas, uint32_t count)
{
    const bool inlined = snapshot == 0 && deltas <= TERN_PRICE_INLINE_MAX;
    const uint32_t downloads = count + (snapshot > 0);
    return snapshot + deltas +
           (uint64_t)downloads * (inlined ? TERN_PRICE_INLINE : TERN_PRICE_EXCHANGE);
}

static void the_chain(const struct world *world, struct best *best)
{
    const struct tern_plan_question *question = &world->question;
    if (question->chain > 0 && question->chain <= question->downloads_max) {
        consider(best, true, price(0, question->chain_bytes, question->chain), 0.0);
    }
}

static void all_passes(const struct world *world, enum tern_plan_start start, struct best *best)
{
    const struct tern_plan_question *question = &world->question;
    const uint32_t *bytes = world->bytes[start];
    const double *residual = world->residual[start];
    const uint32_t snapshot = question->start_bytes[start];
    const uint32_t before = snapshot > 0;
    uint64_t deltas = 0;
    for (uint32_t n = 0; n < TERN_PLAN_PASSES_MAX; n++) {
        if (n + 1 + before > question->downloads_max || bytes[n] == 0) {
            return;
        }
        deltas += bytes[n];
        consider(best, residual[n] <= question->bound, price(snapshot, deltas, n + 1), residual[n]);
        if (residual[n] <= question->bound) {
            return;
        }
    }
}

static void all_starts(const struct world *world, struct best *best)
{
    const struct tern_plan_question *question = &world->question;
    for (int i = 0; i < TERN_PLAN_STARTS; i++) {
        enum tern_plan_start start = (enum tern_plan_start)i;
        const uint64_t cost = price(question->start_bytes[i], 0, 0);
        bool near = world->start_residual[i] <=
                    (i == TERN_PLAN_REPLICA ? question->keep_max : question->bound);
        if (!question->starts[i] || !world->there[i] ||
            (start == TERN_PLAN_SEED && world->there[TERN_PLAN_REPLICA])) {
            continue;
        }
        if (start >= TERN_PLAN_INT8 || (start == TERN_PLAN_REPLICA && near)) {
            consider(best, near, cost, world->start_residual[i]);
        }
        if (!near || start == TERN_PLAN_SEED) {
            all_passes(world, start, best);
        }
    }
}

static struct best best_of_all(const struct world *world)
{
    struct best best = {false, false, 0, 0.0};
    the_chain(world, &best);
    all_starts(world, &best);
    return best;
}

// --- Worlds

static void draw_passes(struct world *world, int start, uint32_t scale)
{
    double residual = world->start_residual[start];
    for (uint32_t n = 0; n < TERN_PLAN_PASSES_MAX; n++) {
        residual *= 0.3 + 0.01 * (double)below(90); // now and then a pass makes it worse
        world->bytes[start][n] = chance(3) ? 0 : scale * (1 + below(4000));
        world->residual[start][n] = residual;
    }
}

static void draw_world(struct world *world)
{
    struct tern_plan_question *question = &world->question;
    const uint32_t scale = 1 + 9 * below(2); // of ten times as many bytes not all come inline
    memset(world, 0, sizeof *world);
    question->bound = 0.01 * (double)below(100);
    question->keep_max = question->bound * 0.01 * (double)below(101);
    question->downloads_max = 1 + below(5);
    question->chain = below(7); // none, or now and then more than the client takes
    question->chain_bytes = question->chain > 0 ? scale * (1 + below(12000)) : 0;
    for (int i = 0; i < TERN_PLAN_STARTS; i++) {
        question->starts[i] = chance(i == TERN_PLAN_REPLICA ? 95 : 70);
        question->start_bytes[i] = i >= TERN_PLAN_INT8 ? scale * (1 + below(9000)) : 0;
        world->there[i] = chance(85) && question->starts[i];
        world->start_residual[i] = 0.02 * (double)below(100);
        draw_passes(world, i, scale);
    }
}

// Adds up what a choice costs from its parts.
static uint64_t cost_of(const struct world *world, const struct tern_plan_choice *choice)
{
    const struct tern_plan_question *question = &world->question;
    uint64_t deltas = 0;
    if (choice->kind == TERN_CHOICE_CHAIN) {
        assert_int_equal(choice->count, question->chain);
        return price(0, question->chain_bytes, choice->count);
    }
    for (uint32_t n = 0; n < choice->passes; n++) {
        deltas += world->bytes[choice->start][n];
    }
    assert_int_equal(choice->count, choice->passes + (question->start_bytes[choice->start] > 0));
    return price(question->start_bytes[choice->start], deltas, choice->passes);
}

CASE(test_the_cheapest_of_all_ways)
{
    uint32_t kinds[3] = {0, 0, 0};
    uint32_t without = 0;
    uint32_t named = 0; // choices of deltas that are too many bytes to come inline
    const uint32_t trials = FEWER_TRIALS ? 20000 : 200000;
    tern_prng_init(&rng, 11, TERN_PRNG_TEST, 0, 0);
    for (uint32_t trial = 0; trial < trials; trial++) {
        struct world world;
        struct tern_plan_choice choice;
        draw_world(&world);
        struct best best = best_of_all(&world);
        const struct tern_plan_ports ports = {&world, begin, pass};
        assert_int_equal(tern_plan_cheapest(&world.question, &ports, &choice), TERN_OK);
        kinds[choice.kind]++;
        if (!best.any) {
            assert_int_equal(choice.kind, TERN_CHOICE_NONE);
            continue;
        }
        assert_int_not_equal(choice.kind, TERN_CHOICE_NONE);
        assert_int_equal(choice.within, best.within);
        assert_int_equal(choice.cost, best.cost);
        assert_int_equal(choice.cost, cost_of(&world, &choice));
        assert_true(choice.count <= world.question.downloads_max);
        without += !choice.within;
        named +=
            choice.cost > TERN_PRICE_INLINE_MAX && world.question.start_bytes[choice.start] == 0;
    }
    // Every kind of choice was drawn.
    assert_true(kinds[TERN_CHOICE_NONE] > trials / 2000 && kinds[TERN_CHOICE_CHAIN] > trials / 200);
    assert_true(kinds[TERN_CHOICE_PASSES] > trials / 200 && without > trials / 2000);
    assert_true(named > trials / 2000);
}

// A client that is near enough costs no encoding. A cheap pass keeps snapshots from being made.
CASE(test_what_cannot_win_is_not_tried)
{
    struct world world;
    struct tern_plan_choice choice;
    const struct tern_plan_ports ports = {&world, begin, pass};
    memset(&world, 0, sizeof world);
    world.question.bound = world.question.keep_max = 1.0;
    world.question.starts[TERN_PLAN_REPLICA] = world.question.starts[TERN_PLAN_FLOAT32] = true;
    world.question.start_bytes[TERN_PLAN_FLOAT32] = 100000;
    world.there[TERN_PLAN_REPLICA] = world.there[TERN_PLAN_FLOAT32] = true;
    world.start_residual[TERN_PLAN_REPLICA] = 0.5;
    assert_int_equal(tern_plan_cheapest(&world.question, &ports, &choice), TERN_OK);
    assert_int_equal(choice.count, 0);
    assert_int_equal(world.made, 0);

    world.start_residual[TERN_PLAN_REPLICA] = 2.0;
    world.bytes[TERN_PLAN_REPLICA][0] = 5000;
    world.residual[TERN_PLAN_REPLICA][0] = 0.9;
    assert_int_equal(tern_plan_cheapest(&world.question, &ports, &choice), TERN_OK);
    assert_int_equal(choice.cost, 5000 + TERN_PRICE_INLINE);
    assert_int_equal(world.made, 1);
    assert_int_equal(world.start, TERN_PLAN_REPLICA);
}
