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

// Lets things move; TERN_OK when there may be something new.
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

// Waits until what was queued for a peer is sent.
static enum tern_result finish_sending(struct tern_ring_round *round, uint32_t peer,
                                       uint64_t start_ms)
{
    while (!tern_ring_mesh_is_sent(round->mesh, peer)) {
        if (!tern_ring_mesh_has(round->mesh, peer)) {
            return TERN_AGAIN;
        }
        if (is_late(round, tern_ring_mesh_moved(round->mesh, peer), start_ms)) {
            return give_up(round, peer, "did not take what was sent to it");
        }
        TERN_TRY(wait_a_little(round));
    }
    return TERN_OK;
}

// What a frame is to one that waits for `type` of this epoch: TERN_OK it is that, TERN_AGAIN the peer has given
// up, TERN_ERR_LATE it is of before and taken.
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

// Waits for a frame of this epoch, while `next`, to whom this peer sends, is there as well.
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
        if (!tern_ring_mesh_has(round->mesh, peer) || !tern_ring_mesh_has(round->mesh, next)) {
            return TERN_AGAIN;
        }
        if (is_late(round, tern_ring_mesh_heard(round->mesh, peer), start_ms)) {
            return give_up(round, peer, "did not answer");
        }
        TERN_TRY(wait_a_little(round));
    }
}

// --- Blocks

static uint32_t neighbour(const struct tern_ring_members *members, uint32_t distance)
{
    return members->peers[(members->position + distance) % members->count];
}

static enum tern_result send_block(struct tern_ring_round *round,
                                   const struct tern_ring_exchange *exchange, uint32_t next)
{
    const struct tern_ring_part *part = &exchange->part;
    uint8_t head[TERN_RING_BLOCK_HEAD_SIZE];
    tern_put_le16(head, (uint16_t)exchange->step);
    tern_put_le16(head + 2,
                  (uint16_t)tern_ring_block_sent(part->members, part->member, exchange->step));
    if (!tern_ring_mesh_send(round->mesh, next, TERN_RING_BLOCK, round->epoch, head, sizeof head,
                             exchange->out, exchange->out_len)) {
        return TERN_AGAIN;
    }
    round->payload_sent += exchange->out_len;
    return TERN_OK;
}

static enum tern_result refuse_block(struct tern_ring_round *round, uint32_t peer, const char *why)
{
    tern_ring_mesh_drop(round->mesh, peer, why);
    return TERN_AGAIN;
}

// Copies the block of this step to where the exchange wants it.
static enum tern_result take_block(struct tern_ring_round *round,
                                   const struct tern_ring_exchange *exchange, uint32_t previous,
                                   const struct tern_ring_head *head, const uint8_t *body,
                                   size_t *len)
{
    const struct tern_ring_part *part = &exchange->part;
    const uint32_t step = tern_get_le16(body);
    const uint32_t block = tern_get_le16(body + 2);
    *len = head->len - TERN_RING_BLOCK_HEAD_SIZE;
    if (step != exchange->step ||
        block != tern_ring_block_taken(part->members, part->member, exchange->step)) {
        return refuse_block(round, previous, "it sent a block out of turn");
    }
    if (*len > exchange->in_size) {
        return refuse_block(round, previous, "it sent a block that is longer than any");
    }
    memcpy(exchange->in, body + TERN_RING_BLOCK_HEAD_SIZE, *len);
    tern_ring_mesh_take(round->mesh, previous);
    return TERN_OK;
}

static enum tern_result do_step(struct tern_ring_round *round, struct tern_ring_exchange *exchange)
{
    const uint32_t next = neighbour(round->members, 1);
    const uint32_t previous = neighbour(round->members, round->members->count - 1);
    const uint64_t start_ms = tern_monotonic_ms();
    const struct tern_ring_head *head = NULL;
    const uint8_t *body = NULL;
    size_t len = 0;
    TERN_TRY(tern_ring_exchange_make(exchange));
    TERN_TRY(send_block(round, exchange, next));
    TERN_TRY(wait_for(round, previous, next, TERN_RING_BLOCK, &head, &body));
    TERN_TRY(take_block(round, exchange, previous, head, body, &len));
    TERN_TRY(finish_sending(round, next, start_ms));
    const enum tern_result result = tern_ring_exchange_take(exchange, len);
    if (result != TERN_OK && result != TERN_AGAIN) {
        return refuse_block(round, previous, "it sent a block that is damaged");
    }
    return TERN_OK;
}

enum tern_result tern_ring_round_exchange(struct tern_ring_round *round,
                                          struct tern_ring_exchange *exchange)
{
    while (exchange->step < tern_ring_steps(exchange->part.members)) {
        TERN_TRY(do_step(round, exchange));
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
