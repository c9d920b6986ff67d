// The cheapest of all ways, held against every way there is, in many small worlds drawn at random;
// and that ways which cannot win are not tried.
#include "downloads/plan.h"

#include "util/prng.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
// cmocka wants the headers above first.
#include <cmocka.h>

#define NODES 6
#define EDGES_MAX 14
#define PASSES_MAX 5

// A world: replicas and downloads between them, and what passes from each start would come to.
struct edge {
    uint32_t from;
    uint32_t to;
    uint32_t bytes;
    bool arrives;
};

struct world {
    struct tern_plan_question question;
    struct edge edges[EDGES_MAX];
    uint32_t edge_count;
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

static struct tern_plan_work work;
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

static enum tern_result edges_of(void *ctx, const uint8_t from[TERN_SHA256_SIZE],
                                 struct tern_plan_edge *edges, uint32_t *count)
{
    const struct world *world = ctx;
    *count = 0;
    for (uint32_t i = 0; i < world->edge_count; i++) {
        const struct edge *edge = &world->edges[i];
        if (edge->from != from[0]) {
            continue;
        }
        struct tern_plan_edge *out = &edges[(*count)++];
        memset(out, 0, sizeof *out);
        out->to[0] = (uint8_t)edge->to;
        out->sha256[0] = (uint8_t)(i + 1);
        out->bytes = edge->bytes;
        out->arrives = edge->arrives;
    }
    return TERN_OK;
}

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

// --- Every way there is

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

static void all_chains(const struct world *world, uint32_t at, uint64_t cost, uint32_t count,
                       struct best *best)
{
    if (count == world->question.downloads_max) {
        return;
    }
    for (uint32_t i = 0; i < world->edge_count; i++) {
        const struct edge *edge = &world->edges[i];
        if (edge->from != at) {
            continue;
        }
        uint64_t sum = cost + edge->bytes + TERN_PLAN_EXCHANGE;
        if (edge->arrives) {
            consider(best, true, sum, 0.0);
        }
        all_chains(world, edge->to, sum, count + 1, best);
    }
}

static void all_passes(const struct world *world, enum tern_plan_start start,
                       enum tern_plan_pass first, uint64_t cost, struct best *best)
{
    const struct tern_plan_question *question = &world->question;
    uint32_t before = question->start_bytes[start] > 0;
    uint32_t refined = 0;
    for (uint32_t n = 0; n < PASSES_MAX; n++) {
        enum tern_plan_pass codec = n == 0 ? first : TERN_PLAN_REFINE;
        refined += codec == TERN_PLAN_REFINE;
        if (!question->passes[codec] || refined > question->passes_max ||
            n + 1 + before > question->downloads_max || world->bytes[start][first][n] == 0) {
            return;
        }
        cost += world->bytes[start][first][n] + TERN_PLAN_EXCHANGE;
        double residual = world->residual[start][first][n];
        consider(best, residual <= question->bound, cost, residual);
    }
}

static bool seed_is_nearer(const struct world *world)
{
    return !world->there[TERN_PLAN_HELD] ||
           world->start_residual[TERN_PLAN_HELD] > world->start_residual[TERN_PLAN_SEED];
}

static struct best best_of_all(const struct world *world)
{
    struct best best = {false, false, 0, 0.0};
    const struct tern_plan_question *question = &world->question;
    all_chains(world, 0, 0, 0, &best);
    for (int i = 0; i < TERN_PLAN_STARTS; i++) {
        enum tern_plan_start start = (enum tern_plan_start)i;
        uint32_t bytes = question->start_bytes[i];
        uint64_t cost = bytes > 0 ? (uint64_t)bytes + TERN_PLAN_EXCHANGE : 0;
        bool near =
            world->start_residual[i] <= (i == TERN_PLAN_HELD ? question->keep : question->bound);
        if (!question->starts[i] || !world->there[i] ||
            (start == TERN_PLAN_SEED && !seed_is_nearer(world))) {
            continue;
        }
        if (start >= TERN_PLAN_INT8 || (start == TERN_PLAN_HELD && near)) {
            consider(&best, near, cost, world->start_residual[i]);
        }
        for (int first = 0; first < TERN_PLAN_PASSES; first++) {
            all_passes(world, start, (enum tern_plan_pass)first, cost, &best);
        }
    }
    return best;
}

// --- Worlds

// Downloads lead from older replicas to newer ones: there are no circles.
static void draw_edges(struct world *world)
{
    world->edge_count = below(EDGES_MAX + 1);
    for (uint32_t i = 0; i < world->edge_count; i++) {
        uint32_t from = below(NODES - 1);
        uint32_t to = from + 1 + below(NODES - 1 - from);
        world->edges[i] = (struct edge){from, to, 1 + below(3000), to >= NODES - 2 && chance(50)};
    }
    // What arrives is a property of the replica.
    for (uint32_t i = 0; i < world->edge_count; i++) {
        for (uint32_t j = 0; j < i; j++) {
            if (world->edges[j].to == world->edges[i].to) {
                world->edges[i].arrives = world->edges[j].arrives;
            }
        }
    }
}

static void draw_passes(struct world *world, int start)
{
    for (int first = 0; first < TERN_PLAN_PASSES; first++) {
        double residual = world->start_residual[start];
        for (uint32_t n = 0; n < PASSES_MAX; n++) {
            residual *= 0.3 + 0.01 * (double)below(90); // now and then a pass makes it worse
            world->bytes[start][first][n] = chance(3) ? 0 : 1 + below(4000);
            world->residual[start][first][n] = residual;
        }
    }
}

static void draw_world(struct world *world)
{
    struct tern_plan_question *question = &world->question;
    memset(world, 0, sizeof *world);
    question->bound = 0.01 * (double)below(100);
    question->keep = question->bound * 0.01 * (double)below(101);
    question->downloads_max = 1 + below(5);
    question->passes_max = below(PASSES_MAX);
    question->passes[TERN_PLAN_DOWN] = chance(85);
    question->passes[TERN_PLAN_REFINE] = chance(85);
    draw_edges(world);
    for (int i = 0; i < TERN_PLAN_STARTS; i++) {
        question->starts[i] = chance(i == TERN_PLAN_HELD ? 95 : 70);
        question->start_bytes[i] = i >= TERN_PLAN_INT8 ? 1 + below(9000) : 0;
        world->there[i] = chance(85) && question->starts[i];
        world->start_residual[i] = 0.02 * (double)below(100);
        draw_passes(world, i);
    }
}

// What a way costs, added up from what it says of itself.
static uint64_t cost_of(const struct world *world, const struct tern_plan_way *way)
{
    uint64_t cost = 0;
    uint32_t at = 0;
    if (way->kind == TERN_WAY_CHAIN) {
        for (uint32_t i = 0; i < way->count; i++) {
            const struct edge *edge = &world->edges[way->sha256[i][0] - 1];
            assert_int_equal(edge->from, at);
            assert_int_equal(edge->bytes, way->bytes[i]);
            at = edge->to;
            cost += edge->bytes + TERN_PLAN_EXCHANGE;
        }
        assert_int_equal(at, way->to[0]);
        return cost;
    }
    uint32_t bytes = world->question.start_bytes[way->start];
    cost = bytes > 0 ? (uint64_t)bytes + TERN_PLAN_EXCHANGE : 0;
    for (uint32_t n = 0; n < way->passes; n++) {
        cost += world->bytes[way->start][way->first][n] + TERN_PLAN_EXCHANGE;
    }
    return cost;
}

static void test_the_cheapest_of_all_ways(void **state)
{
    (void)state;
    uint32_t kinds[3] = {0, 0, 0};
    uint32_t without = 0;
    tern_prng_init(&rng, 11, TERN_PRNG_TEST, 0, 0);
    for (uint32_t trial = 0; trial < 200000; trial++) {
        struct world world;
        struct tern_plan_way way;
        draw_world(&world);
        struct best best = best_of_all(&world);
        const struct tern_plan_ports ports = {&world, edges_of, begin, pass};
        assert_int_equal(tern_plan_cheapest(&world.question, &ports, &work, &way), TERN_OK);
        kinds[way.kind]++;
        if (!best.any) {
            assert_int_equal(way.kind, TERN_WAY_NONE);
            continue;
        }
        assert_int_not_equal(way.kind, TERN_WAY_NONE);
        assert_int_equal(way.within, best.within);
        assert_int_equal(way.cost, best.cost);
        assert_int_equal(way.cost, cost_of(&world, &way));
        assert_true(way.count <= world.question.downloads_max);
        without += !way.within;
    }
    // All sorts of ends came about.
    assert_true(kinds[TERN_WAY_NONE] > 100 && kinds[TERN_WAY_CHAIN] > 1000);
    assert_true(kinds[TERN_WAY_PASSES] > 1000 && without > 100);
}

// A free way ends the search; a cheap one keeps snapshots from being made.
static void test_what_cannot_win_is_not_tried(void **state)
{
    (void)state;
    struct world world;
    struct tern_plan_way way;
    const struct tern_plan_ports ports = {&world, edges_of, begin, pass};
    memset(&world, 0, sizeof world);
    world.question.bound = world.question.keep = 1.0;
    world.question.passes_max = 4;
    world.question.passes[TERN_PLAN_DOWN] = world.question.passes[TERN_PLAN_REFINE] = true;
    world.question.starts[TERN_PLAN_HELD] = world.question.starts[TERN_PLAN_FLOAT32] = true;
    world.question.start_bytes[TERN_PLAN_FLOAT32] = 100000;
    world.there[TERN_PLAN_HELD] = world.there[TERN_PLAN_FLOAT32] = true;
    world.start_residual[TERN_PLAN_HELD] = 0.5;
    assert_int_equal(tern_plan_cheapest(&world.question, &ports, &work, &way), TERN_OK);
    assert_int_equal(way.count, 0);
    assert_int_equal(world.made, 0);

    world.start_residual[TERN_PLAN_HELD] = 2.0;
    world.bytes[TERN_PLAN_HELD][TERN_PLAN_DOWN][0] = 5000;
    world.residual[TERN_PLAN_HELD][TERN_PLAN_DOWN][0] = 0.9;
    world.bytes[TERN_PLAN_HELD][TERN_PLAN_REFINE][0] = 5001;
    world.residual[TERN_PLAN_HELD][TERN_PLAN_REFINE][0] = 1.9;
    assert_int_equal(tern_plan_cheapest(&world.question, &ports, &work, &way), TERN_OK);
    assert_int_equal(way.cost, 5000 + TERN_PLAN_EXCHANGE);
    assert_int_equal(world.made, 2); // one by each codec, and no second one
    assert_int_equal(world.start, TERN_PLAN_HELD);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_cheapest_of_all_ways),
        cmocka_unit_test(test_what_cannot_win_is_not_tried),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
