#include "node/round.h"

#include "hosted/clock.h"
#include "util/bytes.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

void tern_ring_round_pulse(struct tern_ring_round *round, uint64_t now_ms)
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

// Whether a member still has the connection on which it agreed; after a new connection it does not take part.
static bool is_there(const struct tern_ring_round *round, uint32_t peer)
{
    const uint32_t serial = tern_ring_mesh_serial(round->mesh, peer);
    return serial != 0 && serial == round->members->serials[peer];
}

// Polls the mesh. TERN_OK: there may be news.
static enum tern_result wait_a_little(struct tern_ring_round *round)
{
    if (round->abort != NULL && *round->abort != 0) {
        return TERN_ERR_STATE;
    }
    tern_ring_round_pulse(round, tern_monotonic_ms());
    tern_ring_mesh_poll(round->mesh, round->timeout_ms / 8);
    return TERN_OK;
}

static enum tern_result give_up(struct tern_ring_round *round, uint32_t peer, const char *what)
{
    char why[TERN_RING_MESH_WHY_MAX];
    snprintf(why, sizeof why, "it %s in %" PRIu64 " s", what, round->timeout_ms / 1000);
    tern_ring_mesh_drop(round->mesh, peer, why);
    return TERN_AGAIN;
}

static bool is_late(const struct tern_ring_round *round, uint64_t since_ms, uint64_t start_ms)
{
    const uint64_t now_ms = tern_monotonic_ms();
    const uint64_t last_ms = since_ms > start_ms ? since_ms : start_ms;
    return now_ms > last_ms && now_ms - last_ms > round->timeout_ms;
}

// Waits until everything queued for a peer is sent.
static enum tern_result finish_sending(struct tern_ring_round *round, uint32_t peer,
                                       uint64_t start_ms)
{
    while (!tern_ring_mesh_is_sent(round->mesh, peer)) {
        if (!is_there(round, peer)) {
            return TERN_AGAIN;
        }
        if (is_late(round, tern_ring_mesh_moved(round->mesh, peer), start_ms)) {
            return give_up(round, peer, "did not take what was sent to it");
        }
        TERN_TRY(wait_a_little(round));
    }
    return TERN_OK;
}

// Judges a frame while waiting for `type` in this epoch. TERN_OK: the awaited frame. TERN_AGAIN: the peer gave up.
// TERN_ERR_LATE: an earlier frame, now discarded.
static enum tern_result look_at(struct tern_ring_round *round, uint32_t peer,
                                const struct tern_ring_head *head, enum tern_ring_frame_type type)
{
    if (head->type == type && head->epoch == round->epoch) {
        return TERN_OK;
    }
    if (head->type == TERN_RING_HELLO && head->epoch > round->epoch) {
        return TERN_AGAIN;
    }
    if (head->epoch > round->epoch ||
        (head->epoch == round->epoch && head->type == TERN_RING_MODEL)) {
        tern_ring_mesh_drop(round->mesh, peer, "it sent a frame out of turn");
        return TERN_AGAIN;
    }
    tern_ring_mesh_take(round->mesh, peer);
    return TERN_ERR_LATE;
}

// Waits for a frame of this epoch from `peer`, as long as `next`, which this peer sends to, is connected, too.
static enum tern_result wait_for(struct tern_ring_round *round, uint32_t peer, uint32_t next,
                                 enum tern_ring_frame_type type, const struct tern_ring_head **head,
                                 const uint8_t **body)
{
    const uint64_t start_ms = tern_monotonic_ms();
    for (;;) {
        *head = tern_ring_mesh_frame(round->mesh, peer, body);
        if (*head != NULL) {
            const enum tern_result result = look_at(round, peer, *head, type);
            if (result != TERN_ERR_LATE) {
                return result;
            }
            continue;
        }
        if (!is_there(round, peer) || !is_there(round, next)) {
            return TERN_AGAIN;
        }
        if (is_late(round, tern_ring_mesh_heard(round->mesh, peer), start_ms)) {
            return give_up(round, peer, "did not answer");
        }
        TERN_TRY(wait_a_little(round));
    }
}

// --- Blocks

static uint32_t neighbour(const struct tern_ring_circle *circle, uint32_t distance)
{
    return circle->peers[(circle->position + distance) % circle->count];
}

static enum tern_result send_block(struct tern_ring_round *round, uint32_t peer, uint32_t step,
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

static enum tern_result refuse_block(struct tern_ring_round *round, uint32_t peer, const char *why)
{
    tern_ring_mesh_drop(round->mesh, peer, why);
    return TERN_AGAIN;
}

// Waits for a block from `peer`, as long as `next` is connected, too. *payload: valid until the frame is taken.
static enum tern_result await_block(struct tern_ring_round *round, uint32_t peer, uint32_t next,
                                    uint32_t step, uint32_t block, const uint8_t **payload,
                                    size_t *len)
{
    const struct tern_ring_head *head = NULL;
    const uint8_t *body = NULL;
    TERN_TRY(wait_for(round, peer, next, TERN_RING_BLOCK, &head, &body));
    if (tern_get_le16(body) != step || tern_get_le16(body + 2) != block) {
        return refuse_block(round, peer, "it sent a block out of turn");
    }
    *payload = body + TERN_RING_BLOCK_HEAD_SIZE;
    *len = head->len - TERN_RING_BLOCK_HEAD_SIZE;
    return TERN_OK;
}

// Forwards a block of the sum to the follower, if any.
static enum tern_result hand_down(struct tern_ring_round *round, uint32_t follower, uint32_t block,
                                  const uint8_t *payload, size_t len)
{
    const uint64_t start_ms = tern_monotonic_ms();
    if (follower == TERN_RING_MEMBERS_MAX) {
        return TERN_OK;
    }
    TERN_TRY(send_block(round, follower, TERN_RING_DOWN, block, payload, len));
    return finish_sending(round, follower, start_ms);
}

static enum tern_result do_step(struct tern_ring_round *round,
                                const struct tern_ring_circle *circle, enum tern_ring_level level,
                                uint32_t follower, struct tern_ring_exchange *exchange)
{
    const struct tern_ring_part *part = &exchange->part;
    const uint32_t next = neighbour(circle, 1);
    const uint32_t previous = neighbour(circle, circle->count - 1);
    const uint32_t step = (uint32_t)level + exchange->step;
    const uint32_t sent = tern_ring_block_sent(part->members, part->member, exchange->step);
    const uint32_t taken = tern_ring_block_taken(part->members, part->member, exchange->step);
    const bool gathers = tern_ring_gathers(part->members, exchange->step);
    const uint64_t start_ms = tern_monotonic_ms();
    const uint8_t *payload = NULL;
    size_t len = 0;
    TERN_TRY(tern_ring_exchange_make(exchange));
    TERN_TRY(send_block(round, next, step, sent, exchange->out, exchange->out_len));
    if (gathers) { // first this member's own block, then each received one
        TERN_TRY(hand_down(round, follower, sent, exchange->out, exchange->out_len));
    }
    TERN_TRY(await_block(round, previous, next, step, taken, &payload, &len));
    if (len > exchange->in_size) {
        return refuse_block(round, previous, "it sent a block that is longer than any");
    }
    memcpy(exchange->in, payload, len);
    tern_ring_mesh_take(round->mesh, previous);
    TERN_TRY(finish_sending(round, next, start_ms));
    const enum tern_result result = tern_ring_exchange_take(exchange, len);
    if (result != TERN_OK && result != TERN_AGAIN) {
        return refuse_block(round, previous, "it sent a block that is damaged");
    }
    return result == TERN_OK ? hand_down(round, follower, taken, exchange->out, exchange->out_len)
                             : TERN_OK;
}

enum tern_result tern_ring_round_exchange(struct tern_ring_round *round,
                                          const struct tern_ring_circle *circle,
                                          enum tern_ring_level level, uint32_t follower,
                                          struct tern_ring_exchange *exchange)
{
    while (exchange->step < tern_ring_steps(exchange->part.members)) {
        TERN_TRY(do_step(round, circle, level, follower, exchange));
    }
    return TERN_OK;
}

enum tern_result tern_ring_round_follow(struct tern_ring_round *round,
                                        const struct tern_ring_circle *circle,
                                        const struct tern_ring_part *part, float *sum)
{
    const uint32_t previous = neighbour(circle, circle->count - 1);
    const bool is_last = circle->position + 1 == circle->count;
    const uint32_t follower = is_last ? TERN_RING_MEMBERS_MAX : neighbour(circle, 1);
    for (uint32_t i = 0; i < part->members; i++) {
        // In the first member's order: its own block, then the blocks before it.
        const uint32_t block =
            (tern_ring_block_owned(part->members, part->member) + part->members - i) %
            part->members;
        const uint8_t *payload = NULL;
        size_t len = 0;
        TERN_TRY(await_block(round, previous, is_last ? previous : follower, TERN_RING_DOWN, block,
                             &payload, &len));
        if (tern_ring_block_decode(part, block, payload, len, sum) != TERN_OK) {
            return refuse_block(round, previous, "it sent a block that is damaged");
        }
        TERN_TRY(hand_down(round, follower, block, payload, len));
        tern_ring_mesh_take(round->mesh, previous);
    }
    return TERN_OK;
}

// --- Models

enum tern_result tern_ring_round_give(struct tern_ring_round *round, uint32_t peer,
                                      const uint8_t *model, size_t size)
{
    return tern_ring_mesh_send(round->mesh, peer, TERN_RING_MODEL, round->epoch, NULL, 0, model,
                               size)
               ? finish_sending(round, peer, tern_monotonic_ms())
               : TERN_AGAIN;
}

enum tern_result tern_ring_round_fetch(struct tern_ring_round *round, uint32_t peer,
                                       const uint8_t **model)
{
    const struct tern_ring_head *head = NULL;
    return wait_for(round, peer, peer, TERN_RING_MODEL, &head, model);
}
