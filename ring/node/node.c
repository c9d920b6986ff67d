#include "node/node.h"

#include "exchange/exchange.h"
#include "hosted/log.h"
#include "hosted/system.h"
#include "node/agree.h"
#include "util/bytes.h"
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Some or all members, in the order in which they pass blocks on.
struct circle {
    uint32_t count;
    // this peer's index in peers[]; TERN_RING_MEMBERS_MAX if it is not in the circle
    uint32_t position;
    uint32_t peers[TERN_RING_MEMBERS_MAX];
};

// The ring to which a block belongs. A block's frame carries this number plus the step.
enum level {
    WITHIN_GROUP = 0,     // the ring of a group, or of all members
    BETWEEN_GROUPS = 256, // the ring of the groups' first members
    INTO_GROUP = 512,     // the sums of BETWEEN_GROUPS, passed from member to member of a group
};

struct round {
    struct tern_ring_mesh *mesh;
    const struct tern_ring_members *members;
    uint32_t epoch;
    uint64_t timeout_ms;
    const volatile sig_atomic_t *abort;
    uint64_t pulse_ms;     // when the last pulse was sent
    uint64_t payload_sent; // bytes of blocks
};

// --- Waiting for other members

// Sends a heartbeat to the members when it is due. Called during long work.
static void pulse_members(struct round *round, uint64_t now_ms)
{
    if (now_ms - round->pulse_ms < round->timeout_ms / 4) {
        return;
    }
    round->pulse_ms = now_ms;
    for (uint32_t i = 0; i < round->members->count; i++) {
        if (i != round->members->position) {
            (void)tern_ring_mesh_send(round->mesh, round->members->peers[i], TERN_RING_PULSE,
                                      round->epoch, NULL, 0, NULL, 0);
        }
    }
}

// Whether a member still has the connection of the agreement. A member that reconnects does not take part.
static bool is_connected(const struct round *round, uint32_t peer)
{
    const uint32_t serial = tern_ring_mesh_serial(round->mesh, peer);
    return serial != 0 && serial == round->members->serials[peer];
}

// Waits for traffic. TERN_ERR_STATE: interrupted.
static enum tern_result poll_mesh(struct round *round)
{
    if (round->abort != NULL && *round->abort != 0) {
        return TERN_ERR_STATE;
    }
    pulse_members(round, tern_monotonic_ms());
    tern_ring_mesh_poll(round->mesh, round->timeout_ms / 8);
    return TERN_OK;
}

static enum tern_result drop_overdue(struct round *round, uint32_t peer, const char *what)
{
    char why[TERN_RING_MESH_WHY_MAX];
    snprintf(why, sizeof why, "the peer %s in %" PRIu64 " s", what, round->timeout_ms / 1000);
    tern_ring_mesh_drop(round->mesh, peer, why);
    return TERN_AGAIN;
}

static bool is_overdue(const struct round *round, uint64_t since_ms, uint64_t start_ms)
{
    const uint64_t now_ms = tern_monotonic_ms();
    const uint64_t last_ms = since_ms > start_ms ? since_ms : start_ms;
    return now_ms > last_ms && now_ms - last_ms > round->timeout_ms;
}

// Waits until everything queued for a peer is sent.
static enum tern_result finish_sending(struct round *round, uint32_t peer, uint64_t start_ms)
{
    while (!tern_ring_mesh_is_sent(round->mesh, peer)) {
        if (!is_connected(round, peer)) {
            return TERN_AGAIN;
        }
        if (is_overdue(round, tern_ring_mesh_last_sent_ms(round->mesh, peer), start_ms)) {
            return drop_overdue(round, peer, "did not read what was sent to it");
        }
        TERN_TRY(poll_mesh(round));
    }
    return TERN_OK;
}

// Checks a frame while this peer waits for `type` in this epoch. TERN_OK: the awaited frame. TERN_AGAIN: the other peer
// abandoned the exchange. TERN_ERR_LATE: a frame of an earlier epoch, which is discarded.
static enum tern_result check_frame(struct round *round, uint32_t peer,
                                    const struct tern_ring_head *head,
                                    enum tern_ring_frame_type type)
{
    if (head->type == type && head->epoch == round->epoch) {
        return TERN_OK;
    }
    if (head->type == TERN_RING_HELLO && head->epoch > round->epoch) {
        return TERN_AGAIN;
    }
    if (head->epoch > round->epoch ||
        (head->epoch == round->epoch && head->type == TERN_RING_MODEL)) {
        tern_ring_mesh_drop(round->mesh, peer, "the peer sent a frame out of order");
        return TERN_AGAIN;
    }
    tern_ring_mesh_discard(round->mesh, peer);
    return TERN_ERR_LATE;
}

// Waits for a frame of this epoch from `peer`. Fails also if `next`, to which this peer sends, is lost.
static enum tern_result wait_for(struct round *round, uint32_t peer, uint32_t next,
                                 enum tern_ring_frame_type type, const struct tern_ring_head **head,
                                 const uint8_t **body)
{
    const uint64_t start_ms = tern_monotonic_ms();
    for (;;) {
        *head = tern_ring_mesh_received(round->mesh, peer, body);
        if (*head != NULL) {
            const enum tern_result result = check_frame(round, peer, *head, type);
            if (result != TERN_ERR_LATE) {
                return result;
            }
            continue;
        }
        if (!is_connected(round, peer) || !is_connected(round, next)) {
            return TERN_AGAIN;
        }
        if (is_overdue(round, tern_ring_mesh_last_received_ms(round->mesh, peer), start_ms)) {
            return drop_overdue(round, peer, "did not answer");
        }
        TERN_TRY(poll_mesh(round));
    }
}

// --- Blocks

static uint32_t neighbour(const struct circle *circle, uint32_t distance)
{
    return circle->peers[(circle->position + distance) % circle->count];
}

static enum tern_result send_block(struct round *round, uint32_t peer, uint32_t step,
                                   uint32_t block, const uint8_t *payload, size_t len)
{
    uint8_t head[TERN_RING_BLOCK_HEAD_SIZE];
    tern_put_le16(head, (uint16_t)step);
    tern_put_le16(head + 2, (uint16_t)block);
    if (!tern_ring_mesh_send(round->mesh, peer, TERN_RING_BLOCK, round->epoch, head, sizeof head,
                             payload, len)) {
        return TERN_AGAIN;
    }
    round->payload_sent += len;
    return TERN_OK;
}

static enum tern_result refuse_block(struct round *round, uint32_t peer, const char *why)
{
    tern_ring_mesh_drop(round->mesh, peer, why);
    return TERN_AGAIN;
}

// Waits for a block from `peer`. *payload: valid until the frame is discarded. next: as for wait_for().
static enum tern_result receive_block(struct round *round, uint32_t peer, uint32_t next,
                                      uint32_t step, uint32_t block, const uint8_t **payload,
                                      size_t *len)
{
    const struct tern_ring_head *head = NULL;
    const uint8_t *body = NULL;
    TERN_TRY(wait_for(round, peer, next, TERN_RING_BLOCK, &head, &body));
    if (tern_get_le16(body) != step || tern_get_le16(body + 2) != block) {
        return refuse_block(round, peer, "the peer sent a block out of order");
    }
    *payload = body + TERN_RING_BLOCK_HEAD_SIZE;
    *len = head->len - TERN_RING_BLOCK_HEAD_SIZE;
    return TERN_OK;
}

// Forwards a block of the sum to the follower, if any.
static enum tern_result forward_to_follower(struct round *round, uint32_t follower, uint32_t block,
                                            const uint8_t *payload, size_t len)
{
    const uint64_t start_ms = tern_monotonic_ms();
    if (follower == TERN_RING_MEMBERS_MAX) {
        return TERN_OK;
    }
    TERN_TRY(send_block(round, follower, INTO_GROUP, block, payload, len));
    return finish_sending(round, follower, start_ms);
}

static enum tern_result do_step(struct round *round, const struct circle *circle, enum level level,
                                uint32_t follower, struct tern_ring_exchange *exchange)
{
    const struct tern_ring_part *part = &exchange->part;
    const uint32_t next = neighbour(circle, 1);
    const uint32_t previous = neighbour(circle, circle->count - 1);
    const uint32_t step = (uint32_t)level + exchange->step;
    const uint32_t sent = tern_ring_block_sent(part->members, part->member, exchange->step);
    const uint32_t taken = tern_ring_block_received(part->members, part->member, exchange->step);
    const bool gathers = tern_ring_is_gather_step(part->members, exchange->step);
    const uint64_t start_ms = tern_monotonic_ms();
    const uint8_t *payload = NULL;
    size_t len = 0;
    TERN_TRY(tern_ring_exchange_encode(exchange));
    TERN_TRY(send_block(round, next, step, sent, exchange->out, exchange->out_len));
    if (gathers) { // in the first gather step this member's own sum, later the sums that it received
        TERN_TRY(forward_to_follower(round, follower, sent, exchange->out, exchange->out_len));
    }
    TERN_TRY(receive_block(round, previous, next, step, taken, &payload, &len));
    if (len > exchange->in_size) {
        return refuse_block(round, previous, "the peer sent a block that is too long");
    }
    memcpy(exchange->in, payload, len);
    tern_ring_mesh_discard(round->mesh, previous);
    TERN_TRY(finish_sending(round, next, start_ms));
    const enum tern_result result = tern_ring_exchange_decode(exchange, len);
    if (result != TERN_OK && result != TERN_AGAIN) {
        return refuse_block(round, previous, "the peer sent a damaged block");
    }
    return result == TERN_OK
               ? forward_to_follower(round, follower, taken, exchange->out, exchange->out_len)
               : TERN_OK;
}

// Runs all steps of an exchange on a circle. follower: a peer that also receives each block of the sum as soon as it is
// complete, or TERN_RING_MEMBERS_MAX.
// TERN_AGAIN           a member was lost or abandoned the exchange; the peers must agree again
// TERN_ERR_STATE       interrupted
// TERN_ERR_NON_FINITE  the sum exceeds float32
static enum tern_result exchange_blocks(struct round *round, const struct circle *circle,
                                        enum level level, uint32_t follower,
                                        struct tern_ring_exchange *exchange)
{
    while (exchange->step < tern_ring_step_count(exchange->part.members)) {
        TERN_TRY(do_step(round, circle, level, follower, exchange));
    }
    return TERN_OK;
}

// Receives the blocks of a sum from the previous member of `circle`, forwards each to the next member, and decodes them into
// sum. part: the circle's first member in the ring that computed the sum. Results as exchange_blocks().
static enum tern_result receive_sum(struct round *round, const struct circle *circle,
                                    const struct tern_ring_part *part, float *sum)
{
    const uint32_t previous = neighbour(circle, circle->count - 1);
    const bool is_last = circle->position + 1 == circle->count;
    const uint32_t follower = is_last ? TERN_RING_MEMBERS_MAX : neighbour(circle, 1);
    for (uint32_t i = 0; i < part->members; i++) {
        // The first member sends its own block first, then the blocks before it in descending order.
        const uint32_t block =
            (tern_ring_block_owned(part->members, part->member) + part->members - i) %
            part->members;
        const uint8_t *payload = NULL;
        size_t len = 0;
        TERN_TRY(receive_block(round, previous, is_last ? previous : follower, INTO_GROUP, block,
                               &payload, &len));
        if (tern_ring_block_decode(part, block, payload, len, sum) != TERN_OK) {
            return refuse_block(round, previous, "the peer sent a damaged block");
        }
        TERN_TRY(forward_to_follower(round, follower, block, payload, len));
        tern_ring_mesh_discard(round->mesh, previous);
    }
    return TERN_OK;
}

// --- Models

static enum tern_result send_model(struct round *round, uint32_t peer, const uint8_t *model,
                                   size_t size)
{
    return tern_ring_mesh_send(round->mesh, peer, TERN_RING_MODEL, round->epoch, NULL, 0, model,
                               size)
               ? finish_sending(round, peer, tern_monotonic_ms())
               : TERN_AGAIN;
}

// *model: valid until its frame is discarded.
static enum tern_result receive_model(struct round *round, uint32_t peer, const uint8_t **model)
{
    const struct tern_ring_head *head = NULL;
    return wait_for(round, peer, peer, TERN_RING_MODEL, &head, model);
}

// --- A running peer

struct node {
    const struct tern_ring_node_config *config;
    struct tern_ring_state *state;
    struct tern_ring_state next; // the round's new state, until it is saved
    struct tern_ring_outcome *outcome;
    struct tern_ring_agreement agreement;
    struct tern_ring_members members;
    uint32_t exchanged; // number of values that the ring exchanges
    float *descent;     // [count] the learner's result for the model with the hash descent_from
    float *values; // [exchanged] before an exchange: residual plus descent; after: the new residual
    float *sum;    // [exchanged] the sum of all members
    float *group_sum;    // [exchanged] the sum of this peer's group
    uint8_t *buffers[2]; // encoded blocks
    uint8_t *model;      // encoded model for another peer
    uint8_t descent_from[TERN_SHA256_SIZE];
    bool has_descent;
    bool has_sent_all; // this peer has sent all its values in the last exchange, which failed
    float loss;
    char *why;
};

static enum tern_result fail_with(struct node *node, enum tern_result result, const char *text)
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

// Two members have the largest blocks.
static enum tern_result allocate_node(struct node *node)
{
    const struct tern_ring_node_config *config = node->config;
    const size_t block = tern_ring_block_bound(config->codec, config->model, 2);
    const uint32_t count = node->state->count;
    node->exchanged = tern_ring_exchanged_count(config->model);
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

static struct round new_round(const struct node *node)
{
    return (struct round){
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
        snprintf(node->why, TERN_RING_NODE_WHY_MAX, "the state %s cannot be saved: %s",
                 config->state_path,
                 result == TERN_ERR_NO_MEMORY ? tern_result_sentence(result) : strerror(errno));
        return result;
    }
    const struct tern_ring_state old = *node->state;
    *node->state = node->next;
    node->next = old;
    return TERN_OK;
}

// --- Choosing and fetching the ring's current model

// Returns the position of a member with the ring's current model: the one with the highest version. If several models have
// this version, the model of most members counts; in a tie the first.
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

static bool has_model(const struct tern_ring_members *members, uint32_t position, uint32_t chosen)
{
    return memcmp(members->hellos[position].model, members->hellos[chosen].model,
                  TERN_SHA256_SIZE) == 0;
}

// Returns the member that sends the chosen model to the member at `position`: the nearest one before it that has the model.
static uint32_t model_sender(const struct tern_ring_members *members, uint32_t position,
                             uint32_t chosen)
{
    uint32_t at = position;
    do {
        at = (at + members->count - 1) % members->count;
    } while (!has_model(members, at, chosen));
    return at;
}

// Sets the residual after the model came from another peer. The model may contain this peer's values from an exchange whose
// end this peer missed; then `values` has the residual, unless the process was restarted.
static void set_residual(struct node *node)
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

static enum tern_result fetch_model(struct node *node, struct round *round, uint32_t from,
                                    const struct tern_ring_hello *chosen)
{
    char text[TERN_RING_PEER_TEXT_MAX];
    const struct tern_ring_peers *peers = node->config->peers;
    const uint8_t *model = NULL;
    TERN_TRY(receive_model(round, peer_at(node, from), &model));
    if (tern_ring_model_read(&node->next, model, chosen->model) != TERN_OK) {
        tern_ring_mesh_drop(node->config->mesh, peer_at(node, from),
                            "the peer sent another model than its hello announced");
        return TERN_AGAIN;
    }
    tern_ring_mesh_discard(node->config->mesh, peer_at(node, from));
    set_residual(node);
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
    struct round round = new_round(node);
    if (!has_model(members, self, chosen)) {
        return fetch_model(node, &round, model_sender(members, self, chosen),
                           &members->hellos[chosen]);
    }
    for (uint32_t i = 0; i < members->count; i++) {
        if (!has_model(members, i, chosen) && model_sender(members, i, chosen) == self) {
            tern_ring_model_write(node->state, node->model);
            TERN_TRY(send_model(&round, peer_at(node, i), node->model,
                                tern_ring_model_size(node->state->count, node->state->peers)));
        }
    }
    return TERN_OK;
}

// --- Training

static void between_steps(void *arg)
{
    struct round *round = arg;
    pulse_members(round, tern_monotonic_ms());
    tern_ring_mesh_poll(round->mesh, 0);
}

// Trains, unless the gradients of this model are still there from a failed exchange.
static enum tern_result train(struct node *node)
{
    const struct tern_ring_learner *learner = &node->config->learner;
    const struct tern_ring_state *state = node->state;
    struct round round = new_round(node);
    if (node->has_descent && memcmp(node->descent_from, state->hash, TERN_SHA256_SIZE) == 0) {
        return TERN_OK;
    }
    const enum tern_result result =
        learner->train(learner->ctx, state->version + 1, state->weights, node->descent,
                       state->count, between_steps, &round, &node->loss);
    if (result != TERN_OK) {
        return fail_with(node, result, "training failed; check the data and ring.learning_rate");
    }
    memcpy(node->descent_from, state->hash, TERN_SHA256_SIZE);
    node->has_descent = true;
    return TERN_OK;
}

// --- The exchange

// Computes the next model, w + learning_rate * sum / members, with the same bits on every member.
static void compute_next_state(struct node *node)
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

// Sets *own to the members of this peer's group, *leaders to the first members of all groups, and *own_index to the index of
// this peer's group in *leaders.
static void find_circles(const struct node *node, struct circle *own, struct circle *leaders,
                         uint32_t *own_index)
{
    const struct tern_ring_peer *peers = node->config->peers->peers;
    const uint8_t group = peers[node->config->self].group;
    uint64_t seen = 0;
    own->count = leaders->count = 0;
    own->position = leaders->position = TERN_RING_MEMBERS_MAX;
    for (uint32_t i = 0; i < node->members.count; i++) {
        const uint32_t peer = peer_at(node, i);
        const uint64_t its = (uint64_t)1 << peers[peer].group;
        const bool is_self = peer == node->config->self;
        if (peers[peer].group == group) {
            own->position = is_self ? own->count : own->position;
            own->peers[own->count++] = peer;
        }
        if ((seen & its) == 0) {
            *own_index = peers[peer].group == group ? leaders->count : *own_index;
            leaders->position = is_self ? leaders->count : leaders->position;
            leaders->peers[leaders->count++] = peer;
        }
        seen |= its;
    }
}

static struct tern_ring_part ring_part(const struct node *node, uint32_t members, uint32_t member)
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

// Adds up the `values` of a circle's members into `sum`. *sent: whether this peer has sent all its values.
static enum tern_result run_ring(struct node *node, struct round *round,
                                 const struct circle *circle, enum level level, uint32_t follower,
                                 float *values, float *sum, bool *sent)
{
    struct tern_ring_part part = ring_part(node, circle->count, circle->position);
    struct tern_ring_exchange steps;
    part.peer += (uint32_t)level; // each ring has its own random numbers
    TERN_TRY(tern_ring_exchange_begin(&steps, &part, values, sum, node->buffers));
    const enum tern_result result = exchange_blocks(round, circle, level, follower, &steps);
    // In the gather leg this peer has already encoded all its values.
    *sent = tern_ring_is_gather_step(part.members, steps.step);
    return result;
}

// Runs on the group's first member: exchanges the group's sum with the other groups' first members, and forwards the blocks of
// the total to the group's next member.
static enum tern_result exchange_between_groups(struct node *node, struct round *round,
                                                const struct circle *own,
                                                const struct circle *leaders)
{
    const uint32_t follower = own->count > 1 ? own->peers[1] : TERN_RING_MEMBERS_MAX;
    bool sent = false;
    const enum tern_result result =
        run_ring(node, round, leaders, BETWEEN_GROUPS, follower, node->group_sum, node->sum, &sent);
    for (uint32_t i = 0; i < node->exchanged && sent; i++) {
        node->values[i] += node->group_sum[i]; // the errors of its encodings of the group's sum
    }
    node->has_sent_all &= sent;
    return result;
}

static enum tern_result exchange_in_groups(struct node *node, struct round *round)
{
    const size_t size = sizeof(float) * (size_t)node->exchanged;
    struct circle own;
    struct circle leaders;
    uint32_t own_index = 0;
    find_circles(node, &own, &leaders, &own_index);
    float *sum = leaders.count > 1 ? node->group_sum : node->sum;
    if (own.count > 1) {
        TERN_TRY(run_ring(node, round, &own, WITHIN_GROUP, TERN_RING_MEMBERS_MAX, node->values, sum,
                          &node->has_sent_all));
    } else {
        memcpy(sum, node->values, size);
        memset(node->values, 0, size);
        node->has_sent_all = true;
    }
    if (leaders.count == 1) {
        return TERN_OK;
    }
    if (own.position == 0) {
        return exchange_between_groups(node, round, &own, &leaders);
    }
    const struct tern_ring_part part = ring_part(node, leaders.count, own_index);
    return receive_sum(round, &own, &part, node->sum);
}

static enum tern_result exchange(struct node *node)
{
    struct round round = new_round(node);
    for (uint32_t i = 0; i < node->exchanged; i++) {
        node->values[i] = node->state->residual[i] + node->descent[i];
    }
    node->has_sent_all = false;
    const enum tern_result result = exchange_in_groups(node, &round);
    node->outcome->payload_sent += round.payload_sent;
    return result == TERN_ERR_NON_FINITE
               ? fail_with(node, result,
                           "the sum of the gradients overflows; lower ring.learning_rate")
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
    compute_next_state(node);
    if (!is_finite(node->next.weights, node->next.count)) {
        return fail_with(node, TERN_ERR_NON_FINITE,
                         "the model is no longer finite; lower ring.learning_rate");
    }
    TERN_TRY(save_next(node));
    node->has_sent_all = false;
    node->outcome->rounds++;
    report_round(node);
    return TERN_OK;
}

// --- Rounds

static enum tern_result agree_on_members(struct node *node)
{
    struct tern_ring_hello hello = {.version = node->state->version};
    memcpy(hello.agreement, node->config->agreement, TERN_SHA256_SIZE);
    memcpy(hello.model, node->state->hash, TERN_SHA256_SIZE);
    return tern_ring_agree(&node->agreement, &hello, &node->members, node->why);
}

// Whether all members have this peer's model.
static bool have_same_model(const struct tern_ring_members *members)
{
    for (uint32_t i = 0; i < members->count; i++) {
        if (!has_model(members, i, members->position)) {
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
        // The other peers may have ended after they received this peer's hello; then waiting longer is useless.
        const bool may_be_last =
            is_over && node->agreement.has_started && config->timeout_ms < config->start_ms;
        node->agreement.start_ms = may_be_last ? config->timeout_ms : config->start_ms;
        enum tern_result result = agree_on_members(node);
        if (is_over && result == TERN_ERR_BUSY) {
            tern_log(TERN_LOG_WARN, "end-alone", "why=%s", TERN_LOG_TEXT(node->why));
            return TERN_OK; // the others have ended
        }
        TERN_TRY(result);
        if (is_over && have_same_model(&node->members)) {
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
    enum tern_result result = allocate_node(node);
    result = result == TERN_OK ? run(node) : result;
    free_node(node);
    free(node);
    return result;
}
