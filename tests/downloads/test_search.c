// The cheapest way, held against every way that the planner is to look at (plan.h says which), in
// many small worlds drawn at random; and that ways which cannot win are not tried.
#include "downloads/plan.h"
#include "meter/meter.h"

#include "tests/sanitized.h"

#include "tests/cases.h"
#include "util/prng.h"
#include <string.h>

#define PASSES_MAX 5

// A world: the trunk's chain, in the question, and what passes from each start would come to.
struct world {
    struct tern_plan_question question;
    bool there[TERN_PLAN_STARTS];
    double start_residual[TERN_PLAN_STARTS];
    // By start, codec of the first pass and number of the pass from 0; 0 bytes: there is none.
    uint32_t bytes[TERN_PLAN_STARTS][TERN_PLAN_PASSES][PASSES_MAX];
    double residual[TERN_PLAN_STARTS][TERN_PLAN_PASSES][PASSES_MAX];

    enum tern_plan_start start; // of the passes under way
    enum tern_plan_pass first;
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

static enum tern_result pass(void *ctx, enum tern_plan_pass codec, uint32_t *bytes,
                             double *residual)
{
    struct world *world = ctx;
    world->first = world->passes == 0 ? codec : world->first;
    assert_true(world->passes == 0 || codec == TERN_PLAN_REFINE);
    assert_true(world->passes < PASSES_MAX);
    *bytes = world->bytes[world->start][world->first][world->passes];
    *residual = world->residual[world->start][world->first][world->passes];
    world->passes++;
    world->made++;
    return *bytes == 0 ? TERN_ERR_NON_FINITE : TERN_OK;
}

// --- Every way that is looked at

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

// False: the first pass alone is enough.
static bool all_passes(const struct world *world, enum tern_plan_start start,
                       enum tern_plan_pass first, struct best *best)
{
    const struct tern_plan_question *question = &world->question;
    const uint32_t *bytes = world->bytes[start][first];
    const double *residual = world->residual[start][first];
    const uint32_t snapshot = question->start_bytes[start];
    const uint32_t before = snapshot > 0;
    uint64_t deltas = 0;
    uint32_t refined = 0;
    for (uint32_t n = 0; n < PASSES_MAX; n++) {
        enum tern_plan_pass codec = n == 0 ? first : TERN_PLAN_REFINE;
        refined += codec == TERN_PLAN_REFINE;
        if (!question->passes[codec] || refined > question->passes_max ||
            n + 1 + before > question->downloads_max || bytes[n] == 0) {
            return true;
        }
        deltas += bytes[n];
        consider(best, residual[n] <= question->bound, price(snapshot, deltas, n + 1), residual[n]);
        if (n == 0 && residual[n] <= question->bound) {
            return false;
        }
    }
    return true;
}

// Only then passes begin there: a rule of the planner's, for their encoding takes time, and not one
// that follows from costs.
static bool seed_is_nearer(const struct world *world)
{
    return !world->there[TERN_PLAN_HELD] ||
           world->start_residual[TERN_PLAN_HELD] > world->start_residual[TERN_PLAN_SEED];
}

static void all_starts(const struct world *world, struct best *best)
{
    const struct tern_plan_question *question = &world->question;
    for (int i = 0; i < TERN_PLAN_STARTS; i++) {
        enum tern_plan_start start = (enum tern_plan_start)i;
        const uint64_t cost = price(question->start_bytes[i], 0, 0);
        bool near =
            world->start_residual[i] <= (i == TERN_PLAN_HELD ? question->keep : question->bound);
        if (!question->starts[i] || !world->there[i] ||
            (start == TERN_PLAN_SEED && !seed_is_nearer(world))) {
            continue;
        }
        if (start >= TERN_PLAN_INT8 || (start == TERN_PLAN_HELD && near)) {
            consider(best, near, cost, world->start_residual[i]);
        }
        // Where one is enough, wider ones are not looked at: a rule as well.
        if (all_passes(world, start, TERN_PLAN_DOWN, best) &&
            all_passes(world, start, TERN_PLAN_DOWN_2, best) &&
            all_passes(world, start, TERN_PLAN_DOWN_4, best)) {
            (void)all_passes(world, start, TERN_PLAN_DOWN_8, best);
        }
        (void)all_passes(world, start, TERN_PLAN_REFINE, best);
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
    for (int first = 0; first < TERN_PLAN_PASSES; first++) {
        double residual = world->start_residual[start];
        for (uint32_t n = 0; n < PASSES_MAX; n++) {
            residual *= 0.3 + 0.01 * (double)below(90); // now and then a pass makes it worse
            world->bytes[start][first][n] = chance(3) ? 0 : scale * (1 + below(4000));
            world->residual[start][first][n] = residual;
        }
    }
}

static void draw_world(struct world *world)
{
    struct tern_plan_question *question = &world->question;
    const uint32_t scale = 1 + 9 * below(2); // of ten times as many bytes not all come inline
    memset(world, 0, sizeof *world);
    question->bound = 0.01 * (double)below(100);
    question->keep = question->bound * 0.01 * (double)below(101);
    question->downloads_max = 1 + below(5);
    question->passes_max = below(PASSES_MAX);
    for (int i = 0; i < TERN_PLAN_PASSES; i++) {
        question->passes[i] = chance(85);
    }
    question->chain = below(7); // none, or now and then more than the client takes
    question->chain_bytes = question->chain > 0 ? scale * (1 + below(12000)) : 0;
    for (int i = 0; i < TERN_PLAN_STARTS; i++) {
        question->starts[i] = chance(i == TERN_PLAN_HELD ? 95 : 70);
        question->start_bytes[i] = i >= TERN_PLAN_INT8 ? scale * (1 + below(9000)) : 0;
        world->there[i] = chance(85) && question->starts[i];
        world->start_residual[i] = 0.02 * (double)below(100);
        draw_passes(world, i, scale);
    }
}

// What a way costs, added up from what it says of itself.
static uint64_t cost_of(const struct world *world, const struct tern_plan_choice *choice)
{
    const struct tern_plan_question *question = &world->question;
    uint64_t deltas = 0;
    if (choice->kind == TERN_CHOICE_CHAIN) {
        assert_int_equal(choice->count, question->chain);
        return price(0, question->chain_bytes, choice->count);
    }
    for (uint32_t n = 0; n < choice->passes; n++) {
        deltas += world->bytes[choice->start][choice->first][n];
    }
    assert_int_equal(choice->count, choice->passes + (question->start_bytes[choice->start] > 0));
    return price(question->start_bytes[choice->start], deltas, choice->passes);
}

CASE(test_the_cheapest_of_all_ways)
{
    uint32_t kinds[3] = {0, 0, 0};
    uint32_t without = 0;
    uint32_t named = 0; // ways of deltas that are too many bytes to come inline
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
    // All sorts of ends came about.
    assert_true(kinds[TERN_CHOICE_NONE] > trials / 2000 && kinds[TERN_CHOICE_CHAIN] > trials / 200);
    assert_true(kinds[TERN_CHOICE_PASSES] > trials / 200 && without > trials / 2000);
    assert_true(named > trials / 2000);
}

// A free way ends the search; a cheap one keeps snapshots from being made.
CASE(test_what_cannot_win_is_not_tried)
{
    struct world world;
    struct tern_plan_choice choice;
    const struct tern_plan_ports ports = {&world, begin, pass};
    memset(&world, 0, sizeof world);
    world.question.bound = world.question.keep = 1.0;
    world.question.passes_max = 4;
    world.question.passes[TERN_PLAN_DOWN] = world.question.passes[TERN_PLAN_REFINE] = true;
    world.question.starts[TERN_PLAN_HELD] = world.question.starts[TERN_PLAN_FLOAT32] = true;
    world.question.start_bytes[TERN_PLAN_FLOAT32] = 100000;
    world.there[TERN_PLAN_HELD] = world.there[TERN_PLAN_FLOAT32] = true;
    world.start_residual[TERN_PLAN_HELD] = 0.5;
    assert_int_equal(tern_plan_cheapest(&world.question, &ports, &choice), TERN_OK);
    assert_int_equal(choice.count, 0);
    assert_int_equal(world.made, 0);

    world.start_residual[TERN_PLAN_HELD] = 2.0;
    world.bytes[TERN_PLAN_HELD][TERN_PLAN_DOWN][0] = 5000;
    world.residual[TERN_PLAN_HELD][TERN_PLAN_DOWN][0] = 0.9;
    world.bytes[TERN_PLAN_HELD][TERN_PLAN_REFINE][0] = 5001;
    world.residual[TERN_PLAN_HELD][TERN_PLAN_REFINE][0] = 1.9;
    assert_int_equal(tern_plan_cheapest(&world.question, &ports, &choice), TERN_OK);
    assert_int_equal(choice.cost, 5000 + TERN_PRICE_INLINE);
    assert_int_equal(world.made, 2); // one by each codec, and no second one
    assert_int_equal(world.start, TERN_PLAN_HELD);
}
