// The cheapest of all ways: first over downloads that are there, whose costs are known, then by
// passes, each of which must be encoded for its cost. What is found first cuts short what follows.
//
// A way costs the bytes of its downloads and an exchange for each, without the share of bodies that
// tern_price() adds: it is the same 1/16 of every way's bytes, and could turn a choice only between
// ways whose costs differ by less than a sixteenth of what their bytes do.
#include "downloads/plan.h"
#include "meter/price.h"

#include <string.h>

struct search {
    const struct tern_plan_question *question;
    const struct tern_plan_ports *ports;
    struct tern_plan_work *work;
    struct tern_plan_way *way;
    uint32_t label_count;
    double held_residual; // negative: what is held cannot be had
};

static uint32_t downloads_max(const struct search *search)
{
    uint32_t most = search->question->downloads_max;
    return most == 0 || most > TERN_PLAN_MAX ? TERN_PLAN_MAX : most;
}

// Whether a way of at least this cost could still be the one.
static bool may_win(const struct search *search, uint64_t cost)
{
    const struct tern_plan_way *way = search->way;
    return way->kind == TERN_WAY_NONE || !way->within || cost < way->cost;
}

// Whether a way of this residual is better than the best so far.
static bool wins(const struct search *search, uint64_t cost, double residual)
{
    const struct tern_plan_way *way = search->way;
    bool within = residual <= search->question->bound;
    if (way->kind == TERN_WAY_NONE || way->within != within) {
        return way->kind == TERN_WAY_NONE || within;
    }
    if (within) {
        return cost < way->cost;
    }
    return residual < way->residual || (residual <= way->residual && cost < way->cost);
}

// --- Chains of downloads that are there

// A label that another one is as good as in all respects need not be kept.
static bool is_dominated(const struct search *search, const struct tern_plan_edge *edge,
                         uint64_t cost, uint32_t count)
{
    for (uint32_t i = 0; i < search->label_count; i++) {
        const struct tern_plan_label *label = &search->work->labels[i];
        if (label->cost <= cost && label->count <= count &&
            memcmp(label->edge.to, edge->to, TERN_SHA256_SIZE) == 0) {
            return true;
        }
    }
    return false;
}

static int32_t cheapest_label(const struct search *search)
{
    int32_t best = -1;
    for (uint32_t i = 0; i < search->label_count; i++) {
        const struct tern_plan_label *label = &search->work->labels[i];
        if (!label->done && (best < 0 || label->cost < search->work->labels[best].cost)) {
            best = (int32_t)i;
        }
    }
    return best;
}

static enum tern_result expand(struct search *search, int32_t from)
{
    struct tern_plan_work *work = search->work;
    const uint8_t *at = from < 0 ? search->question->held : work->labels[from].edge.to;
    const uint64_t spent = from < 0 ? 0 : work->labels[from].cost;
    const uint32_t used = from < 0 ? 0 : work->labels[from].count;
    uint32_t count = 0;
    if (used == downloads_max(search)) {
        return TERN_OK;
    }
    TERN_TRY(search->ports->edges(search->ports->ctx, at, work->edges, &count));
    for (uint32_t i = 0; i < count; i++) {
        const struct tern_plan_edge *edge = &work->edges[i];
        uint64_t cost = spent + edge->bytes + TERN_PRICE_EXCHANGE;
        if (search->label_count < TERN_PLAN_LABELS && !is_dominated(search, edge, cost, used + 1)) {
            work->labels[search->label_count++] =
                (struct tern_plan_label){*edge, cost, used + 1, from, false};
        }
    }
    return TERN_OK;
}

static void take_chain(struct search *search, int32_t last)
{
    struct tern_plan_way *way = search->way;
    const struct tern_plan_label *label = &search->work->labels[last];
    way->kind = TERN_WAY_CHAIN;
    way->cost = label->cost;
    way->residual = label->edge.residual;
    way->within = true;
    way->count = label->count;
    memcpy(way->to, label->edge.to, TERN_SHA256_SIZE);
    for (uint32_t i = way->count; i > 0; i--) {
        memcpy(way->sha256[i - 1], label->edge.sha256, TERN_SHA256_SIZE);
        way->bytes[i - 1] = label->edge.bytes;
        label = label->before < 0 ? label : &search->work->labels[label->before];
    }
}

// Dijkstra's algorithm; a replica has one label for each number of downloads that is of use.
static enum tern_result search_chains(struct search *search)
{
    TERN_TRY(expand(search, -1));
    for (int32_t next = cheapest_label(search); next >= 0; next = cheapest_label(search)) {
        struct tern_plan_label *label = &search->work->labels[next];
        label->done = true;
        if (label->edge.arrives) {
            take_chain(search, next);
            return TERN_OK;
        }
        TERN_TRY(expand(search, next));
    }
    return TERN_OK;
}

// --- Passes

static void offer(struct search *search, enum tern_plan_start start, enum tern_plan_pass first,
                  uint32_t passes, uint64_t cost, double residual)
{
    struct tern_plan_way *way = search->way;
    if (!wins(search, cost, residual)) {
        return;
    }
    way->kind = TERN_WAY_PASSES;
    way->cost = cost;
    way->residual = residual;
    way->within = residual <= search->question->bound;
    way->start = start;
    way->first = first;
    way->passes = passes;
    way->count = passes + (search->question->start_bytes[start] > 0);
}

static uint64_t cost_of_start(const struct search *search, enum tern_plan_start start)
{
    uint32_t bytes = search->question->start_bytes[start];
    return bytes > 0 ? (uint64_t)bytes + TERN_PRICE_EXCHANGE : 0;
}

static bool may_pass(const struct search *search, enum tern_plan_start start,
                     enum tern_plan_pass codec, uint32_t passes, uint32_t refined, uint64_t cost)
{
    const struct tern_plan_question *question = search->question;
    const uint32_t before = question->start_bytes[start] > 0;
    return question->passes[codec] && passes + before < downloads_max(search) &&
           (codec != TERN_PLAN_REFINE || refined < question->passes_max) &&
           may_win(search, cost + TERN_PRICE_EXCHANGE);
}

// Passes from a start until the bound is kept, or nothing is to be won any more. *enough: the first
// one kept it.
static enum tern_result try_passes(struct search *search, enum tern_plan_start start,
                                   enum tern_plan_pass first, bool *enough)
{
    const struct tern_plan_ports *ports = search->ports;
    uint64_t cost = cost_of_start(search, start);
    enum tern_plan_pass codec = first;
    uint32_t refined = 0;
    double residual = 0.0;
    *enough = false;
    if (!may_pass(search, start, first, 0, 0, cost)) {
        return TERN_OK;
    }
    TERN_TRY(ports->begin(ports->ctx, start, &residual));
    for (uint32_t n = 0; may_pass(search, start, codec, n, refined, cost); n++) {
        uint32_t bytes = 0;
        const enum tern_result result = ports->pass(ports->ctx, codec, &bytes, &residual);
        if (result == TERN_ERR_NON_FINITE) {
            break;
        }
        TERN_TRY(result);
        cost += (uint64_t)bytes + TERN_PRICE_EXCHANGE;
        refined += codec == TERN_PLAN_REFINE;
        codec = TERN_PLAN_REFINE;
        offer(search, start, first, n + 1, cost, residual);
        if (residual <= search->question->bound) {
            *enough = n == 0;
            break;
        }
    }
    return TERN_OK;
}

// By codec_down, then wider and wider ones until one is enough, and by the refine codec alone.
static enum tern_result try_all_passes(struct search *search, enum tern_plan_start start)
{
    bool enough = false;
    for (int first = TERN_PLAN_DOWN; first < TERN_PLAN_REFINE && !enough; first++) {
        TERN_TRY(try_passes(search, start, (enum tern_plan_pass)first, &enough));
    }
    return try_passes(search, start, TERN_PLAN_REFINE, &enough);
}

static enum tern_result try_start(struct search *search, enum tern_plan_start start)
{
    const struct tern_plan_ports *ports = search->ports;
    double residual = 0.0;
    if (!search->question->starts[start] || !may_win(search, cost_of_start(search, start))) {
        return TERN_OK;
    }
    const enum tern_result found = ports->begin(ports->ctx, start, &residual);
    if (found == TERN_ERR_NOT_FOUND || found == TERN_ERR_NON_FINITE) {
        return TERN_OK;
    }
    TERN_TRY(found);
    if (start == TERN_PLAN_HELD) {
        search->held_residual = residual;
    }
    if (start == TERN_PLAN_SEED && search->held_residual >= 0.0 &&
        search->held_residual <= residual) {
        return TERN_OK;
    }
    // A client may keep what it holds, without a download, only where that is near enough. The seed it
    // makes again only for a download that begins there.
    bool near = start == TERN_PLAN_HELD ? residual <= search->question->keep
                                        : residual <= search->question->bound;
    if (start >= TERN_PLAN_INT8 || (start == TERN_PLAN_HELD && near)) {
        offer(search, start, TERN_PLAN_DOWN, 0, cost_of_start(search, start), residual);
    }
    return start == TERN_PLAN_SEED || !near ? try_all_passes(search, start) : TERN_OK;
}

enum tern_result tern_plan_cheapest(const struct tern_plan_question *question,
                                    const struct tern_plan_ports *ports,
                                    struct tern_plan_work *work, struct tern_plan_way *way)
{
    struct search search = {
        .question = question, .ports = ports, .work = work, .way = way, .held_residual = -1.0};
    memset(way, 0, sizeof *way);
    TERN_TRY(search_chains(&search));
    for (int start = 0; start < TERN_PLAN_STARTS; start++) {
        TERN_TRY(try_start(&search, (enum tern_plan_start)start));
    }
    return TERN_OK;
}
