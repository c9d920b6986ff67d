#include "downloads/plan.h"

#include "meter/meter.h"
#include <string.h>

void tern_path_add(struct tern_path *path, const uint8_t sha256[TERN_SHA256_SIZE], uint32_t bytes)
{
    memcpy(path->sha256[path->count], sha256, TERN_SHA256_SIZE);
    path->bytes[path->count++] = bytes;
}

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

// --- The search for the cheapest choice
//
// The trunk's chain is considered first, because its cost is known. The cost of passes is known only after they are encoded;
// a cheap choice that is found early saves encoding others.
//
// A choice costs the bytes of its downloads and of the exchanges that bring them. The 1/16 of bodies that tern_price() adds
// is left out, because it is the same fraction for every choice.

struct search {
    const struct tern_plan_question *question;
    const struct tern_plan_ports *ports;
    struct tern_plan_choice *choice;
    bool has_replica; // the client's replica is available
};

static uint32_t downloads_max(const struct search *search)
{
    uint32_t most = search->question->downloads_max;
    return most == 0 || most > TERN_PLAN_MAX ? TERN_PLAN_MAX : most;
}

// --- Costs

// Small deltas are sent inside the task's reply. A snapshot, and each delta after a snapshot, needs an exchange.
static uint64_t cost_of(uint32_t snapshot, uint64_t deltas, uint32_t count)
{
    if (snapshot > 0) {
        return snapshot + TERN_PRICE_EXCHANGE + deltas + (uint64_t)count * TERN_PRICE_EXCHANGE;
    }
    return deltas + (uint64_t)count *
                        (deltas <= TERN_PRICE_INLINE_MAX ? TERN_PRICE_INLINE : TERN_PRICE_EXCHANGE);
}

// Whether a choice of at least this cost can still beat the best one.
static bool may_win(const struct search *search, uint64_t cost)
{
    const struct tern_plan_choice *choice = search->choice;
    return choice->kind == TERN_CHOICE_NONE || !choice->within || cost < choice->cost;
}

// Whether a choice of this cost and residual beats the best one.
static bool wins(const struct search *search, uint64_t cost, double residual)
{
    const struct tern_plan_choice *choice = search->choice;
    bool within = residual <= search->question->bound;
    if (choice->kind == TERN_CHOICE_NONE || choice->within != within) {
        return choice->kind == TERN_CHOICE_NONE || within;
    }
    if (within) {
        return cost < choice->cost;
    }
    return residual < choice->residual || (residual <= choice->residual && cost < choice->cost);
}

static void offer_chain(struct search *search)
{
    const struct tern_plan_question *question = search->question;
    if (question->chain == 0 || question->chain > downloads_max(search)) {
        return;
    }
    search->choice->kind = TERN_CHOICE_CHAIN;
    search->choice->cost = cost_of(0, question->chain_bytes, question->chain);
    search->choice->within = true;
    search->choice->count = question->chain;
}

// --- Passes

static void offer(struct search *search, enum tern_plan_start start, uint32_t passes, uint64_t cost,
                  double residual)
{
    struct tern_plan_choice *choice = search->choice;
    if (!wins(search, cost, residual)) {
        return;
    }
    choice->kind = TERN_CHOICE_PASSES;
    choice->cost = cost;
    choice->residual = residual;
    choice->within = residual <= search->question->bound;
    choice->start = start;
    choice->passes = passes;
    choice->count = passes + (search->question->start_bytes[start] > 0);
}

static bool may_pass(const struct search *search, enum tern_plan_start start, uint32_t passes,
                     uint64_t deltas)
{
    const uint32_t snapshot = search->question->start_bytes[start];
    return passes < TERN_PLAN_PASSES_MAX && passes + (snapshot > 0) < downloads_max(search) &&
           may_win(search, cost_of(snapshot, deltas, passes + 1));
}

// Makes passes from a start until the residual is within the bound, or the cost too high.
static enum tern_result try_passes(struct search *search, enum tern_plan_start start,
                                   double residual)
{
    const struct tern_plan_ports *ports = search->ports;
    const uint32_t snapshot = search->question->start_bytes[start];
    uint64_t deltas = 0;
    for (uint32_t n = 0; may_pass(search, start, n, deltas); n++) {
        uint32_t bytes = 0;
        const enum tern_result result = ports->pass(ports->ctx, &bytes, &residual);
        if (result == TERN_ERR_NON_FINITE) {
            break;
        }
        TERN_TRY(result);
        deltas += bytes;
        offer(search, start, n + 1, cost_of(snapshot, deltas, n + 1), residual);
        if (residual <= search->question->bound) {
            break;
        }
    }
    return TERN_OK;
}

static enum tern_result try_start(struct search *search, enum tern_plan_start start)
{
    const struct tern_plan_ports *ports = search->ports;
    const uint64_t cost = cost_of(search->question->start_bytes[start], 0, 0);
    double residual = 0.0;
    if (!search->question->starts[start] || !may_win(search, cost) ||
        (start == TERN_PLAN_SEED && search->has_replica)) {
        return TERN_OK;
    }
    const enum tern_result found = ports->begin(ports->ctx, start, &residual);
    if (found == TERN_ERR_NOT_FOUND || found == TERN_ERR_NON_FINITE) {
        return TERN_OK;
    }
    TERN_TRY(found);
    search->has_replica = search->has_replica || start == TERN_PLAN_REPLICA;
    // Choices without a pass are a snapshot, or no download if the client's replica is near enough. The seed alone is no
    // choice, because a client replaces its replica by the seed's only to apply a download to it.
    bool near = start == TERN_PLAN_REPLICA ? residual <= search->question->keep_max
                                           : residual <= search->question->bound;
    if (start >= TERN_PLAN_INT8 || (start == TERN_PLAN_REPLICA && near)) {
        offer(search, start, 0, cost, residual);
    }
    return start == TERN_PLAN_SEED || !near ? try_passes(search, start, residual) : TERN_OK;
}

enum tern_result tern_plan_cheapest(const struct tern_plan_question *question,
                                    const struct tern_plan_ports *ports,
                                    struct tern_plan_choice *choice)
{
    struct search search = {.question = question, .ports = ports, .choice = choice};
    memset(choice, 0, sizeof *choice);
    offer_chain(&search);
    for (int start = 0; start < TERN_PLAN_STARTS; start++) {
        TERN_TRY(try_start(&search, (enum tern_plan_start)start));
    }
    return TERN_OK;
}
