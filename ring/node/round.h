// One exchange between peers that have agreed on it: the core's steps (exchange/exchange.h) over a mesh.
// Hosted; one thread.
#ifndef TERN_RING_ROUND_H
#define TERN_RING_ROUND_H

#include "exchange/exchange.h"
#include "mesh/mesh.h"
#include "node/agree.h"
#include "result.h"
#include <signal.h>

// Members that stand in a circle, some of all that take part.
struct tern_ring_circle {
    uint32_t count;
    uint32_t position; // of this peer; count where it is not among them
    uint32_t peers[TERN_RING_MEMBERS_MAX];
};

// What a block is for, and what its step is counted from in frames.
enum tern_ring_level {
    TERN_RING_WITHIN = 0,    // the ring of a group, or of all
    TERN_RING_BETWEEN = 256, // the ring of the groups' first members
    TERN_RING_DOWN = 512,    // the sums of that, from member to member of a group
};

struct tern_ring_round {
    struct tern_ring_mesh *mesh;
    const struct tern_ring_members *members;
    uint32_t epoch;
    uint64_t timeout_ms;
    const volatile sig_atomic_t *abort;
    uint64_t pulse_ms;     // when the last pulse went
    uint64_t payload_sent; // bytes of blocks
};

// Tells the members that this peer lives, when it is time to. For whoever works between steps.
void tern_ring_round_pulse(struct tern_ring_round *round, uint64_t now_ms);

// Sends and takes blocks round a circle that this peer is in, until the sum is whole. follower: a peer that each
// block of the sum is also sent to, as it comes, or TERN_RING_MEMBERS_MAX.
// TERN_AGAIN           it came to nothing: a member was lost, or gave up; the peers agree anew
// TERN_ERR_STATE       interrupted
// TERN_ERR_NON_FINITE  what the members learnt is too large for a float32; others see the same, or end
TERN_MUST_USE enum tern_result tern_ring_round_exchange(struct tern_ring_round *round,
                                                        const struct tern_ring_circle *circle,
                                                        enum tern_ring_level level,
                                                        uint32_t follower,
                                                        struct tern_ring_exchange *exchange);

// Takes the blocks of a sum that the first member of `circle` is part of, from the member before, hands each on to the
// next one, and decodes them into sum. part: of the ring that made the sum, whose member the first one is.
// Results as above.
TERN_MUST_USE enum tern_result tern_ring_round_follow(struct tern_ring_round *round,
                                                      const struct tern_ring_circle *circle,
                                                      const struct tern_ring_part *part,
                                                      float *sum);

// Sends `size` bytes of a model to a member, and takes as many from one; *model is valid until the frame is
// taken from the mesh. TERN_AGAIN and TERN_ERR_STATE as above.
TERN_MUST_USE enum tern_result tern_ring_round_give(struct tern_ring_round *round, uint32_t peer,
                                                    const uint8_t *model, size_t size);
TERN_MUST_USE enum tern_result tern_ring_round_fetch(struct tern_ring_round *round, uint32_t peer,
                                                     const uint8_t **model);

#endif
