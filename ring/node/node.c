#include "node/node.h"

#include "exchange/exchange.h"
#include "hosted/clock.h"
#include "hosted/log.h"
#include "node/agree.h"
#include "node/round.h"
#include "util/bytes.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// A running peer.
struct node {
    const struct tern_ring_node_config *config;
    struct tern_ring_state *state;
    struct tern_ring_state next; // the round's new state, until it is saved
    struct tern_ring_outcome *outcome;
    struct tern_ring_agreement agreement;
    struct tern_ring_members members;
    uint32_t exchanged;  // values
    float *descent;      // [count] the learner's result for the model descent_from
    float *values;       // [exchanged] during an exchange
    float *sum;          // [exchanged]
    float *group_sum;    // [exchanged] of this peer's group
    uint8_t *buffers[2]; // of blocks
    uint8_t *model;      // to send
    uint8_t descent_from[TERN_SHA256_SIZE];
    bool has_descent;
    bool has_sent_all; // the last exchange failed after this peer had sent all its values
    float loss;
    char *why;
};

static enum tern_result explain(struct node *node, enum tern_result result, const char *text)
{
    snprintf(node->why, TERN_RING_NODE_WHY_MAX, "%s", text);
    return result;
}

static void free_node(struct node *node)
{
    tern_ring_state_free(&node->next);
    free(node->descent);
    free(node->values);
    free(node->sum);
    free(node->group_sum);
    free(node->buffers[0]);
    free(node->buffers[1]);
    free(node->model);
}

// Allocates the node's memory. Blocks are largest with two members.
static enum tern_result make_node(struct node *node)
{
    const struct tern_ring_node_config *config = node->config;
    const size_t block = tern_ring_block_bound(config->codec, config->model, 2);
    const uint32_t count = node->state->count;
    node->exchanged = tern_ring_exchanged(config->model);
    node->descent = malloc(sizeof(float) * (size_t)count);
    node->values = malloc(sizeof(float) * (size_t)count);
    node->sum = malloc(sizeof(float) * (size_t)count);
    node->group_sum = malloc(sizeof(float) * (size_t)count);
    node->buffers[0] = malloc(block);
    node->buffers[1] = malloc(block);
    node->model = malloc(tern_ring_model_size(count, config->peers->count));
    TERN_TRY(tern_ring_state_new(&node->next, count, config->peers->count));
    return node->descent != NULL && node->values != NULL && node->sum != NULL &&
                   node->group_sum != NULL && node->buffers[0] != NULL &&
                   node->buffers[1] != NULL && node->model != NULL
               ? TERN_OK
               : TERN_ERR_NO_MEMORY;
}

static uint32_t peer_at(const struct node *node, uint32_t position)
{
    return node->members.peers[position];
}

static struct tern_ring_round round_of(const struct node *node)
{
    return (struct tern_ring_round){
        .mesh = node->config->mesh,
        .members = &node->members,
        .epoch = node->agreement.epoch,
        .timeout_ms = node->config->timeout_ms,
        .abort = node->config->abort,
        .pulse_ms = tern_monotonic_ms(),
    };
}

// Saves the new state, which then replaces the old one.
static enum tern_result save_next(struct node *node)
{
    const struct tern_ring_node_config *config = node->config;
    const enum tern_result result =
        tern_ring_state_save(&node->next, config->agreement, config->state_path);
    if (result != TERN_OK) {
        snprintf(node->why, TERN_RING_NODE_WHY_MAX, "%s cannot be written: %s", config->state_path,
                 tern_result_sentence(result));
        return result;
    }
    const struct tern_ring_state old = *node->state;
    *node->state = node->next;
    node->next = old;
    return TERN_OK;
}

// --- Choosing and fetching the ring's current model

// Returns the position of a member with the current model: the highest version; of several models with that version the one
// that most members have; in a tie the first.
static uint32_t choose_model(const struct tern_ring_members *members)
{
    uint32_t best = 0;
    uint32_t best_holders = 0;
    for (uint32_t i = 0; i < members->count; i++) {
        const struct tern_ring_hello *hello = &members->hellos[i];
        uint32_t holders = 0;
        for (uint32_t j = 0; j < members->count; j++) {
            holders += memcmp(hello->model, members->hellos[j].model, TERN_SHA256_SIZE) == 0;
        }
        const uint32_t best_version = members->hellos[best].version;
        if (hello->version > best_version ||
            (hello->version == best_version && holders > best_holders)) {
            best = i;
            best_holders = holders;
        }
    }
    return best;
}

static bool holds(const struct tern_ring_members *members, uint32_t position, uint32_t chosen)
{
    return memcmp(members->hellos[position].model, members->hellos[chosen].model,
                  TERN_SHA256_SIZE) == 0;
}

// Returns the position of the member that sends the model to `position`: the nearest one before it with the model.
static uint32_t giver(const struct tern_ring_members *members, uint32_t position, uint32_t chosen)
{
    uint32_t at = position;
    do {
        at = (at + members->count - 1) % members->count;
    } while (!holds(members, at, chosen));
    return at;
}

// Sets the residual after the model came from another peer. That model may contain this peer's values of a round whose end it
// missed; then the residual is what that exchange left in `values`, or is lost if the process was restarted.
static void settle_residual(struct node *node)
{
    const uint32_t contributed = node->next.contributed[node->config->self];
    const size_t size = sizeof(float) * (size_t)node->exchanged;
    memcpy(node->next.residual, node->state->residual, sizeof(float) * (size_t)node->state->count);
    if (contributed <= node->state->version) {
        return;
    }
    if (node->has_sent_all && contributed == node->state->version + 1) {
        memcpy(node->next.residual, node->values, size);
        return;
    }
    memset(node->next.residual, 0, size);
    tern_log(TERN_LOG_WARN, "residual-lost", "round=%u", contributed);
}

static enum tern_result fetch_model(struct node *node, struct tern_ring_round *round, uint32_t from,
                                    const struct tern_ring_hello *chosen)
{
    char text[TERN_RING_PEER_TEXT_MAX];
    const struct tern_ring_peers *peers = node->config->peers;
    const uint8_t *model = NULL;
    TERN_TRY(tern_ring_round_fetch(round, peer_at(node, from), &model));
    if (tern_ring_model_read(&node->next, model, chosen->model) != TERN_OK) {
        tern_ring_mesh_drop(node->config->mesh, peer_at(node, from),
                            "the model that it sent is not the one that it told of");
        return TERN_AGAIN;
    }
    tern_ring_mesh_take(node->config->mesh, peer_at(node, from));
    settle_residual(node);
    TERN_TRY(save_next(node));
    node->has_descent = false;
    node->outcome->fetched++;
    tern_log(TERN_LOG_INFO, "model-fetched", "version=%u from=%s", node->state->version,
             TERN_LOG_TEXT(tern_ring_peer_text(&peers->peers[peer_at(node, from)], text)));
    return TERN_OK;
}

static enum tern_result catch_up(struct node *node)
{
    const struct tern_ring_members *members = &node->members;
    const uint32_t chosen = choose_model(members);
    const uint32_t self = members->position;
    struct tern_ring_round round = round_of(node);
    if (!holds(members, self, chosen)) {
        return fetch_model(node, &round, giver(members, self, chosen), &members->hellos[chosen]);
    }
    for (uint32_t i = 0; i < members->count; i++) {
        if (!holds(members, i, chosen) && giver(members, i, chosen) == self) {
            tern_ring_model_write(node->state, node->model);
            TERN_TRY(
                tern_ring_round_give(&round, peer_at(node, i), node->model,
                                     tern_ring_model_size(node->state->count, node->state->peers)));
        }
    }
    return TERN_OK;
}

// --- Training

static void between_steps(void *arg)
{
    struct tern_ring_round *round = arg;
    tern_ring_round_pulse(round, tern_monotonic_ms());
    tern_ring_mesh_poll(round->mesh, 0);
}

// Trains once per model: a failed exchange is repeated with the same result.
static enum tern_result train(struct node *node)
{
    const struct tern_ring_learner *learner = &node->config->learner;
    const struct tern_ring_state *state = node->state;
    struct tern_ring_round round = round_of(node);
    if (node->has_descent && memcmp(node->descent_from, state->hash, TERN_SHA256_SIZE) == 0) {
        return TERN_OK;
    }
    const enum tern_result result =
        learner->train(learner->ctx, state->version + 1, state->weights, node->descent,
                       state->count, between_steps, &round, &node->loss);
    if (result != TERN_OK) {
        return explain(node, result, "training failed; the data, or learning_rate, may be wrong");
    }
    memcpy(node->descent_from, state->hash, TERN_SHA256_SIZE);
    node->has_descent = true;
    return TERN_OK;
}

// --- The exchange

// Makes the next model, the same bits at every member: w + learning_rate * sum / members.
static void make_next(struct node *node)
{
    const struct tern_ring_state *state = node->state;
    struct tern_ring_state *next = &node->next;
    const float members = (float)node->members.count;
    const size_t size = sizeof(float) * (size_t)state->count;
    memcpy(next->weights, state->weights, size);
    memcpy(next->residual, state->residual, size);
    for (uint32_t i = 0; i < node->exchanged; i++) {
        next->weights[i] += node->config->learning_rate * node->sum[i] / members;
        next->residual[i] = node->values[i];
    }
    next->version = state->version + 1;
    memcpy(next->contributed, state->contributed, sizeof next->contributed);
    for (uint32_t i = 0; i < node->members.count; i++) {
        next->contributed[peer_at(node, i)] = next->version;
    }
    tern_ring_state_hash(next);
}

// Sets *own to the members of this peer's group, and the other circle to the groups' first members.
static void draw_circles(const struct node *node, struct tern_ring_circle *own,
                         struct tern_ring_circle *heads, uint32_t *own_head)
{
    const struct tern_ring_peer *peers = node->config->peers->peers;
    const uint8_t group = peers[node->config->self].group;
    uint64_t seen = 0;
    own->count = heads->count = 0;
    own->position = heads->position = TERN_RING_MEMBERS_MAX;
    for (uint32_t i = 0; i < node->members.count; i++) {
        const uint32_t peer = peer_at(node, i);
        const uint64_t its = (uint64_t)1 << peers[peer].group;
        const bool is_self = peer == node->config->self;
        if (peers[peer].group == group) {
            own->position = is_self ? own->count : own->position;
            own->peers[own->count++] = peer;
        }
        if ((seen & its) == 0) {
            *own_head = peers[peer].group == group ? heads->count : *own_head;
            heads->position = is_self ? heads->count : heads->position;
            heads->peers[heads->count++] = peer;
        }
        seen |= its;
    }
}

static struct tern_ring_part part_of(const struct node *node, uint32_t members, uint32_t member)
{
    const struct tern_ring_node_config *config = node->config;
    return (struct tern_ring_part){
        .model = config->model,
        .codec = config->codec,
        .members = members,
        .member = member,
        .seed = config->seed,
        .round = node->state->version + 1,
        .peer = config->self,
    };
}

// Adds up `values` round a circle into `sum`. *sent: whether this peer has sent all its values.
static enum tern_result go_round(struct node *node, struct tern_ring_round *round,
                                 const struct tern_ring_circle *circle, enum tern_ring_level level,
                                 uint32_t follower, float *values, float *sum, bool *sent)
{
    struct tern_ring_part part = part_of(node, circle->count, circle->position);
    struct tern_ring_exchange steps;
    part.peer += (uint32_t)level; // separate random draws for each ring
    TERN_TRY(tern_ring_exchange_begin(&steps, &part, values, sum, node->buffers));
    const enum tern_result result =
        tern_ring_round_exchange(round, circle, level, follower, &steps);
    // From the gather leg's first step on, this peer has encoded every block.
    *sent = tern_ring_gathers(part.members, steps.step);
    return result;
}

// The group's first member exchanges the group's sum with the other groups' first members, and forwards the blocks of the
// total to the next member as they arrive.
static enum tern_result go_between(struct node *node, struct tern_ring_round *round,
                                   const struct tern_ring_circle *own,
                                   const struct tern_ring_circle *heads)
{
    const uint32_t follower = own->count > 1 ? own->peers[1] : TERN_RING_MEMBERS_MAX;
    bool sent = false;
    const enum tern_result result = go_round(node, round, heads, TERN_RING_BETWEEN, follower,
                                             node->group_sum, node->sum, &sent);
    for (uint32_t i = 0; i < node->exchanged && sent; i++) {
        node->values[i] += node->group_sum[i]; // the errors of its encodings of the group's sum
    }
    node->has_sent_all &= sent;
    return result;
}

static enum tern_result go_round_groups(struct node *node, struct tern_ring_round *round)
{
    const size_t size = sizeof(float) * (size_t)node->exchanged;
    struct tern_ring_circle own;
    struct tern_ring_circle heads;
    uint32_t own_head = 0;
    draw_circles(node, &own, &heads, &own_head);
    float *sum = heads.count > 1 ? node->group_sum : node->sum;
    if (own.count > 1) {
        TERN_TRY(go_round(node, round, &own, TERN_RING_WITHIN, TERN_RING_MEMBERS_MAX, node->values,
                          sum, &node->has_sent_all));
    } else {
        memcpy(sum, node->values, size);
        memset(node->values, 0, size);
        node->has_sent_all = true;
    }
    if (heads.count == 1) {
        return TERN_OK;
    }
    if (own.position == 0) {
        return go_between(node, round, &own, &heads);
    }
    const struct tern_ring_part part = part_of(node, heads.count, own_head);
    return tern_ring_round_follow(round, &own, &part, node->sum);
}

static enum tern_result exchange(struct node *node)
{
    struct tern_ring_round round = round_of(node);
    for (uint32_t i = 0; i < node->exchanged; i++) {
        node->values[i] = node->state->residual[i] + node->descent[i];
    }
    node->has_sent_all = false;
    const enum tern_result result = go_round_groups(node, &round);
    node->outcome->payload_sent += round.payload_sent;
    return result == TERN_ERR_NON_FINITE
               ? explain(node, result,
                         "the sum of what the peers learnt is too large, or no number; "
                         "lower ring.learning_rate")
               : result;
}

static bool is_finite(const float *values, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        if (!(values[i] - values[i] == 0.0F)) {
            return false;
        }
    }
    return true;
}

static void report_round(struct node *node)
{
    const struct tern_ring_node_config *config = node->config;
    const struct tern_ring_state *state = node->state;
    char hash[2 * TERN_SHA256_SIZE + 1];
    char accuracy[32] = "-";
    float loss = 0;
    tern_hex_encode(state->hash, TERN_SHA256_SIZE, hash);
    const bool is_last = state->version >= config->rounds;
    if (config->evaluate_every > 0 && (is_last || state->version % config->evaluate_every == 0) &&
        config->learner.evaluate(config->learner.ctx, state->weights, state->count, &loss,
                                 &node->outcome->accuracy) == TERN_OK) {
        node->outcome->has_accuracy = true;
        snprintf(accuracy, sizeof accuracy, "%.4f", (double)node->outcome->accuracy);
    }
    tern_log(TERN_LOG_INFO, "round", "version=%u members=%u train_loss=%.4g accuracy=%s model=%s",
             state->version, node->members.count, (double)node->loss, accuracy, hash);
}

static enum tern_result do_round(struct node *node)
{
    TERN_TRY(train(node));
    TERN_TRY(exchange(node));
    make_next(node);
    if (!is_finite(node->next.weights, node->next.count)) {
        return explain(node, TERN_ERR_NON_FINITE,
                       "the model is no longer finite; lower ring.learning_rate");
    }
    TERN_TRY(save_next(node));
    node->has_sent_all = false;
    node->outcome->rounds++;
    report_round(node);
    return TERN_OK;
}

// --- Rounds

static enum tern_result agree(struct node *node)
{
    struct tern_ring_hello hello = {.version = node->state->version};
    memcpy(hello.agreement, node->config->agreement, TERN_SHA256_SIZE);
    memcpy(hello.model, node->state->hash, TERN_SHA256_SIZE);
    return tern_ring_agree(&node->agreement, &hello, &node->members, node->why);
}

// Whether all members have this peer's model: only then may they end.
static bool are_alike(const struct tern_ring_members *members)
{
    for (uint32_t i = 0; i < members->count; i++) {
        if (!holds(members, i, members->position)) {
            return false;
        }
    }
    return true;
}

static enum tern_result run(struct node *node)
{
    const struct tern_ring_node_config *config = node->config;
    for (;; node->agreement.epoch++) {
        const bool is_over = node->state->version >= config->rounds;
        // Others may have ended after this peer's hello, before it received all hellos; they do not return.
        const bool may_be_last =
            is_over && node->agreement.has_started && config->timeout_ms < config->start_ms;
        node->agreement.start_ms = may_be_last ? config->timeout_ms : config->start_ms;
        enum tern_result result = agree(node);
        if (is_over && result == TERN_ERR_BUSY) {
            tern_log(TERN_LOG_WARN, "end-alone", "why=%s", TERN_LOG_TEXT(node->why));
            return TERN_OK; // the others have ended
        }
        TERN_TRY(result);
        if (is_over && are_alike(&node->members)) {
            return TERN_OK;
        }
        result = catch_up(node);
        if (result == TERN_OK && node->state->version < config->rounds) {
            result = do_round(node);
        }
        if (result == TERN_AGAIN) {
            node->outcome->repeated++;
            tern_log(TERN_LOG_WARN, "round-repeated", "version=%u", node->state->version + 1);
        } else {
            TERN_TRY(result);
        }
    }
}

enum tern_result tern_ring_node_run(const struct tern_ring_node_config *config,
                                    struct tern_ring_state *state,
                                    struct tern_ring_outcome *outcome,
                                    char why[TERN_RING_NODE_WHY_MAX])
{
    *outcome = (struct tern_ring_outcome){0};
    struct node *node = calloc(1, sizeof *node);
    if (node == NULL) {
        return TERN_ERR_NO_MEMORY;
    }
    node->config = config;
    node->state = state;
    node->outcome = outcome;
    node->why = why;
    node->agreement = (struct tern_ring_agreement){
        .mesh = config->mesh,
        .peers = config->peers,
        .terms = config->terms,
        .self = config->self,
        .timeout_ms = config->timeout_ms,
        .start_ms = config->start_ms,
        .abort = config->abort,
        .epoch = 1,
    };
    why[0] = '\0';
    enum tern_result result = make_node(node);
    result = result == TERN_OK ? run(node) : result;
    free_node(node);
    free(node);
    return result;
}
