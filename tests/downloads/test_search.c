// The cheapest way, held against every way that the planner is to look at (plan.h says which), in
// many small worlds drawn at random; in larger ones, in which its working memory runs out as well;
// and that ways which cannot win are not tried.
#include "downloads/plan.h"
#include "meter/price.h"

#include "tests/sanitized.h"

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
#define LARGE_NODES 120
#define LARGE_EDGES 4000

// A world: replicas and downloads between them, and what passes from each start would come to.
struct edge {
    uint32_t from;
    uint32_t to;
    uint32_t bytes;
    bool arrives;
};

struct world {
    struct tern_plan_question question;
    const struct edge *edges;
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
static struct edge edge_store[LARGE_EDGES];

static uint32_t below(uint32_t n)
{
    return (uint32_t)(tern_prng_float(&rng) * (float)n) % n;
}

static bool chance(uint32_t percent)
{
    return below(100) < percent;
}

static void put_number(uint8_t id[TERN_SHA256_SIZE], uint32_t number)
{
    id[0] = (uint8_t)number;
    id[1] = (uint8_t)(number >> 8);
}

static uint32_t number_of(const uint8_t id[TERN_SHA256_SIZE])
{
    return id[0] + 256u * id[1];
}

// --- Ports

static enum tern_result edges_of(void *ctx, const uint8_t from[TERN_SHA256_SIZE],
                                 struct tern_plan_edge *edges, uint32_t *count)
{
    const struct world *world = ctx;
    *count = 0;
    for (uint32_t i = 0; i < world->edge_count && *count < TERN_PLAN_EDGES; i++) {
        const struct edge *edge = &world->edges[i];
        if (edge->from != number_of(from)) {
            continue;
        }
        struct tern_plan_edge *out = &edges[(*count)++];
        memset(out, 0, sizeof *out);
        put_number(out->to, edge->to);
        put_number(out->sha256, i + 1);
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
        uint64_t sum = cost + edge->bytes + TERN_PRICE_EXCHANGE;
        if (edge->arrives) {
            consider(best, true, sum, 0.0);
        }
        all_chains(world, edge->to, sum, count + 1, best);
    }
}

// False: the first pass alone is enough.
static bool all_passes(const struct world *world, enum tern_plan_start start,
                       enum tern_plan_pass first, uint64_t cost, struct best *best)
{
    const struct tern_plan_question *question = &world->question;
    const uint32_t *bytes = world->bytes[start][first];
    const double *residual = world->residual[start][first];
    const uint32_t before = question->start_bytes[start] > 0;
    uint32_t refined = 0;
    for (uint32_t n = 0; n < PASSES_MAX; n++) {
        enum tern_plan_pass codec = n == 0 ? first : TERN_PLAN_REFINE;
        refined += codec == TERN_PLAN_REFINE;
        if (!question->passes[codec] || refined > question->passes_max ||
            n + 1 + before > question->downloads_max || bytes[n] == 0) {
            return true;
        }
        cost += bytes[n] + TERN_PRICE_EXCHANGE;
        consider(best, residual[n] <= question->bound, cost, residual[n]);
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
        uint32_t bytes = question->start_bytes[i];
        uint64_t cost = bytes > 0 ? (uint64_t)bytes + TERN_PRICE_EXCHANGE : 0;
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
        if (all_passes(world, start, TERN_PLAN_DOWN, cost, best) &&
            all_passes(world, start, TERN_PLAN_DOWN_2, cost, best) &&
            all_passes(world, start, TERN_PLAN_DOWN_4, cost, best)) {
            (void)all_passes(world, start, TERN_PLAN_DOWN_8, cost, best);
        }
        (void)all_passes(world, start, TERN_PLAN_REFINE, cost, best);
    }
}

static struct best best_of_all(const struct world *world)
{
    struct best best = {false, false, 0, 0.0};
    all_chains(world, 0, 0, 0, &best);
    all_starts(world, &best);
    return best;
}

// --- Worlds

// Downloads lead from older replicas to newer ones: there are no circles.
static void draw_edges(struct world *world)
{
    world->edges = edge_store;
    world->edge_count = below(EDGES_MAX + 1);
    for (uint32_t i = 0; i < world->edge_count; i++) {
        uint32_t from = below(NODES - 1);
        uint32_t to = from + 1 + below(NODES - 1 - from);
        edge_store[i] = (struct edge){from, to, 1 + below(3000), to >= NODES - 2 && chance(50)};
    }
    // What arrives is a property of the replica.
    for (uint32_t i = 0; i < world->edge_count; i++) {
        for (uint32_t j = 0; j < i; j++) {
            if (edge_store[j].to == edge_store[i].to) {
                edge_store[i].arrives = edge_store[j].arrives;
            }
        }
    }
}

// Of some replicas more than are looked at. A far one is dearer than those between together, so
// that many ways are the cheapest of their number of downloads.
static void draw_many_edges(struct world *world)
{
    bool arrives[LARGE_NODES];
    const uint32_t nodes = 20 + below(LARGE_NODES - 19);
    world->edge_count = 0;
    for (uint32_t i = 0; i < nodes; i++) {
        arrives[i] = i >= nodes - 3 && chance(70);
    }
    for (uint32_t from = 0; from < nodes - 1; from++) {
        for (uint32_t left = 1 + below(30); left > 0; left--) {
            uint32_t rest = nodes - 1 - from;
            uint32_t hop = 1 + below(rest < 20 ? rest : 20);
            uint32_t bytes = 1 + below(2000) + hop * hop * 60;
            edge_store[world->edge_count++] =
                (struct edge){from, from + hop, bytes, arrives[from + hop]};
        }
    }
    assert_true(world->edge_count <= LARGE_EDGES);
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
    for (int i = 0; i < TERN_PLAN_PASSES; i++) {
        question->passes[i] = chance(85);
    }
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
            const struct edge *edge = &world->edges[number_of(way->sha256[i]) - 1];
            assert_int_equal(edge->from, at);
            assert_int_equal(edge->bytes, way->bytes[i]);
            assert_int_equal(edge->arrives, i + 1 == way->count);
            at = edge->to;
            cost += edge->bytes + TERN_PRICE_EXCHANGE;
        }
        assert_int_equal(at, number_of(way->to));
        return cost;
    }
    uint32_t bytes = world->question.start_bytes[way->start];
    cost = bytes > 0 ? (uint64_t)bytes + TERN_PRICE_EXCHANGE : 0;
    for (uint32_t n = 0; n < way->passes; n++) {
        cost += world->bytes[way->start][way->first][n] + TERN_PRICE_EXCHANGE;
    }
    return cost;
}

static void test_the_cheapest_of_all_ways(void **state)
{
    (void)state;
    uint32_t kinds[3] = {0, 0, 0};
    uint32_t without = 0;
    const uint32_t trials = SANITIZED ? 20000 : 200000;
    tern_prng_init(&rng, 11, TERN_PRNG_TEST, 0, 0);
    for (uint32_t trial = 0; trial < trials; trial++) {
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
    assert_true(kinds[TERN_WAY_NONE] > trials / 2000 && kinds[TERN_WAY_CHAIN] > trials / 200);
    assert_true(kinds[TERN_WAY_PASSES] > trials / 200 && without > trials / 2000);
}

// --- Larger worlds

// What the cheapest chain costs when `looked_at` downloads from each replica are; UINT64_MAX: there
// is none. By the number of downloads, over all replicas.
static uint64_t cheapest_chain(const struct world *world, uint32_t looked_at)
{
    uint64_t best = UINT64_MAX;
    uint64_t costs[2][LARGE_NODES];
    memset(costs, 0xff, sizeof costs);
    costs[0][0] = 0;
    for (uint32_t n = 0; n < world->question.downloads_max; n++) {
        const uint64_t *before = costs[n % 2];
        uint64_t *after = costs[(n + 1) % 2];
        uint32_t seen[LARGE_NODES] = {0};
        memset(after, 0xff, sizeof costs[0]);
        for (uint32_t i = 0; i < world->edge_count; i++) {
            const struct edge *edge = &world->edges[i];
            if (seen[edge->from]++ >= looked_at || before[edge->from] == UINT64_MAX) {
                continue;
            }
            uint64_t cost = before[edge->from] + edge->bytes + TERN_PRICE_EXCHANGE;
            after[edge->to] = cost < after[edge->to] ? cost : after[edge->to];
            best = edge->arrives && cost < best ? cost : best;
        }
    }
    return best;
}

static void draw_large_world(struct world *world)
{
    draw_world(world);
    draw_many_edges(world);
    world->question.downloads_max = 1 + below(TERN_PLAN_MAX);
    for (int i = 0; i < TERN_PLAN_STARTS; i++) {
        world->question.start_bytes[i] *= 20;
        for (uint32_t n = 0; n < PASSES_MAX; n++) {
            for (int first = 0; first < TERN_PLAN_PASSES; first++) {
                world->bytes[i][first][n] *= 40;
            }
        }
    }
}

// Of a way that is not a chain; cost_of() looks at those.
static void expect_passes(const struct world *world, const struct tern_plan_way *way)
{
    const struct tern_plan_question *question = &world->question;
    uint32_t refined = way->passes - (way->passes > 0 && way->first != TERN_PLAN_REFINE);
    assert_true(question->starts[way->start] && world->there[way->start]);
    assert_true(way->passes == 0 || question->passes[way->first]);
    assert_true(refined == 0 || question->passes[TERN_PLAN_REFINE]);
    assert_true(refined <= question->passes_max);
    assert_int_equal(way->count, way->passes + (question->start_bytes[way->start] > 0));
    double residual = way->passes == 0 ? world->start_residual[way->start]
                                       : world->residual[way->start][way->first][way->passes - 1];
    assert_true(way->residual <= residual && way->residual >= residual);
    assert_int_equal(way->within, residual <= question->bound);
}

static void expect_valid(const struct world *world, const struct tern_plan_way *way)
{
    if (way->kind == TERN_WAY_NONE) {
        return;
    }
    assert_int_equal(way->cost, cost_of(world, way));
    assert_true(way->count <= world->question.downloads_max);
    if (way->kind == TERN_WAY_CHAIN) {
        assert_true(way->within);
    } else {
        expect_passes(world, way);
    }
}

static bool is_as_good(const struct tern_plan_way *way, const struct best *than)
{
    if (!than->any || way->kind == TERN_WAY_NONE || way->within != than->within) {
        return !than->any || (way->kind != TERN_WAY_NONE && way->within);
    }
    return !way->within || way->cost <= than->cost;
}

// Beyond its working memory the planner finds some way, and none that is worse than the passes.
static void test_more_than_the_search_holds(void **state)
{
    (void)state;
    uint32_t full[3] = {0, 0, 0};  // by what was found, where labels ran out
    uint32_t whole[3] = {0, 0, 0}; // where they did not
    uint32_t missed = 0;           // where a download that is not looked at makes a cheaper chain
    tern_prng_init(&rng, 12, TERN_PRNG_TEST, 0, 0);
    for (uint32_t trial = 0; trial < 2000; trial++) {
        struct world world;
        struct tern_plan_way way;
        draw_large_world(&world);
        memset(&work, 0, sizeof work);
        const struct tern_plan_ports ports = {&world, edges_of, begin, pass};
        assert_int_equal(tern_plan_cheapest(&world.question, &ports, &work, &way), TERN_OK);
        expect_valid(&world, &way);
        struct best best = {false, false, 0, 0.0};
        all_starts(&world, &best);
        assert_true(is_as_good(&way, &best));
        uint64_t chain = cheapest_chain(&world, TERN_PLAN_EDGES);
        if (chain != UINT64_MAX) {
            consider(&best, true, chain, 0.0);
        }
        missed += cheapest_chain(&world, LARGE_EDGES) < chain;
        if (work.labels[TERN_PLAN_LABELS - 1].count > 0) {
            full[way.kind]++;
            assert_true(!way.within || way.cost >= best.cost);
        } else {
            whole[way.kind]++;
            assert_int_equal(way.kind != TERN_WAY_NONE, best.any);
            assert_true(!best.any || (way.within == best.within && way.cost == best.cost));
        }
    }
    assert_true(full[TERN_WAY_CHAIN] > 100 && full[TERN_WAY_PASSES] > 100);
    assert_true(whole[TERN_WAY_CHAIN] > 100 && whole[TERN_WAY_PASSES] > 100);
    assert_true(missed > 100);
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
    assert_int_equal(way.cost, 5000 + TERN_PRICE_EXCHANGE);
    assert_int_equal(world.made, 2); // one by each codec, and no second one
    assert_int_equal(world.start, TERN_PLAN_HELD);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_cheapest_of_all_ways),
        cmocka_unit_test(test_more_than_the_search_holds),
        cmocka_unit_test(test_what_cannot_win_is_not_tried),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
