#include "downloads/plan.h"

#include "meter/price.h"
#include <string.h>

// --- The trunk's plan

uint64_t tern_plan_chain_bytes(const struct tern_plan_client *client, uint32_t to,
                               uint32_t (*delta_bytes)(void *ctx, uint32_t version), void *ctx)
{
    uint32_t most = client->chain_max == 0 || client->chain_max > TERN_PLAN_MAX ? TERN_PLAN_MAX
                                                                                : client->chain_max;
    uint64_t sum = 0;
    if (!client->known || client->version > to || to - client->version > most) {
        return 0;
    }
    for (uint32_t version = client->version + 1; version <= to; version++) {
        uint32_t bytes = delta_bytes(ctx, version);
        if (bytes == 0) {
            return 0;
        }
        sum += bytes;
    }
    return sum;
}

enum tern_plan tern_plan_choose(const struct tern_plan_client *client, uint32_t to,
                                uint32_t snapshot_bytes,
                                uint32_t (*delta_bytes)(void *ctx, uint32_t version), void *ctx)
{
    if (client->known && client->version == to) {
        return TERN_PLAN_NOTHING;
    }
    uint64_t chain = tern_plan_chain_bytes(client, to, delta_bytes, ctx);
    if (chain != 0 && (chain <= snapshot_bytes || client->no_snapshots)) {
        return TERN_PLAN_CHAIN;
    }
    return client->no_snapshots ? TERN_PLAN_NONE : TERN_PLAN_SNAPSHOT;
}

// --- The search for the cheapest way
//
// The cheapest of all ways: first the trunk's chain, whose cost is known, then passes, each of which must
// be encoded for its cost. What is found first cuts short what follows.
//
// A way costs the bytes of its downloads and what brings them, without the share of bodies that
// tern_price() adds: it is the same 1/16 of every way's bytes, and could turn a choice only between
// ways whose costs differ by less than a sixteenth of what their bytes do.

struct search {
    const struct tern_plan_question *question;
    const struct tern_plan_ports *ports;
    struct tern_plan_way *way;
    double held_residual; // negative: what is held cannot be had
};

static uint32_t downloads_max(const struct search *search)
{
    uint32_t most = search->question->downloads_max;
    return most == 0 || most > TERN_PLAN_MAX ? TERN_PLAN_MAX : most;
}

// --- What a way costs

// Deltas come with their task while they are small together; a snapshot does not, nor what follows it.
static uint64_t cost_of(uint32_t snapshot, uint64_t deltas, uint32_t count)
{
    if (snapshot > 0) {
        return snapshot + TERN_PRICE_EXCHANGE + deltas + (uint64_t)count * TERN_PRICE_EXCHANGE;
    }
    return deltas + (uint64_t)count *
                        (deltas <= TERN_PRICE_INLINE_MAX ? TERN_PRICE_INLINE : TERN_PRICE_EXCHANGE);
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

static void offer_chain(struct search *search)
{
    const struct tern_plan_question *question = search->question;
    if (question->chain == 0 || question->chain > downloads_max(search)) {
        return;
    }
    search->way->kind = TERN_WAY_CHAIN;
    search->way->cost = cost_of(0, question->chain_bytes, question->chain);
    search->way->within = true;
    search->way->count = question->chain;
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

static bool may_pass(const struct search *search, enum tern_plan_start start,
                     enum tern_plan_pass codec, uint32_t passes, uint32_t refined, uint64_t deltas)
{
    const struct tern_plan_question *question = search->question;
    const uint32_t snapshot = question->start_bytes[start];
    return question->passes[codec] && passes + (snapshot > 0) < downloads_max(search) &&
           (codec != TERN_PLAN_REFINE || refined < question->passes_max) &&
           may_win(search, cost_of(snapshot, deltas, passes + 1));
}

// Passes from a start until the bound is kept, or nothing is to be won any more. *enough: the first
// one kept it.
static enum tern_result try_passes(struct search *search, enum tern_plan_start start,
                                   enum tern_plan_pass first, bool *enough)
{
    const struct tern_plan_ports *ports = search->ports;
    const uint32_t snapshot = search->question->start_bytes[start];
    uint64_t deltas = 0;
    enum tern_plan_pass codec = first;
    uint32_t refined = 0;
    double residual = 0.0;
    *enough = false;
    if (!may_pass(search, start, first, 0, 0, deltas)) {
        return TERN_OK;
    }
    TERN_TRY(ports->begin(ports->ctx, start, &residual));
    for (uint32_t n = 0; may_pass(search, start, codec, n, refined, deltas); n++) {
        uint32_t bytes = 0;
        const enum tern_result result = ports->pass(ports->ctx, codec, &bytes, &residual);
        if (result == TERN_ERR_NON_FINITE) {
            break;
        }
        TERN_TRY(result);
        deltas += bytes;
        refined += codec == TERN_PLAN_REFINE;
        codec = TERN_PLAN_REFINE;
        offer(search, start, first, n + 1, cost_of(snapshot, deltas, n + 1), residual);
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
    const uint64_t cost = cost_of(search->question->start_bytes[start], 0, 0);
    double residual = 0.0;
    if (!search->question->starts[start] || !may_win(search, cost)) {
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
        offer(search, start, TERN_PLAN_DOWN, 0, cost, residual);
    }
    return start == TERN_PLAN_SEED || !near ? try_all_passes(search, start) : TERN_OK;
}

enum tern_result tern_plan_cheapest(const struct tern_plan_question *question,
                                    const struct tern_plan_ports *ports, struct tern_plan_way *way)
{
    struct search search = {
        .question = question, .ports = ports, .way = way, .held_residual = -1.0};
    memset(way, 0, sizeof *way);
    offer_chain(&search);
    for (int start = 0; start < TERN_PLAN_STARTS; start++) {
        TERN_TRY(try_start(&search, (enum tern_plan_start)start));
    }
    return TERN_OK;
}
