// Runs one exchange between the agreed members: the steps of exchange/exchange.h over a mesh. Hosted; one thread.
#ifndef TERN_RING_ROUND_H
#define TERN_RING_ROUND_H

#include "exchange/exchange.h"
#include "mesh/mesh.h"
#include "node/agree.h"
#include "result.h"
#include <signal.h>

// A circle of some or all members.
struct tern_ring_circle {
    uint32_t count;
    uint32_t position; // of this peer; count if it is not in the circle
    uint32_t peers[TERN_RING_MEMBERS_MAX];
};

// The ring that a block belongs to; frames add this number to the step.
enum tern_ring_level {
    TERN_RING_WITHIN = 0,    // the ring of a group, or of all members
    TERN_RING_BETWEEN = 256, // the ring of the groups' first members
    TERN_RING_DOWN = 512,    // that ring's sums, from member to member of a group
};

struct tern_ring_round {
    struct tern_ring_mesh *mesh;
    const struct tern_ring_members *members;
    uint32_t epoch;
    uint64_t timeout_ms;
    const volatile sig_atomic_t *abort;
    uint64_t pulse_ms;     // when the last pulse was sent
    uint64_t payload_sent; // bytes of blocks
};

// Sends a pulse to the members when it is due. Call it during long work between steps.
void tern_ring_round_pulse(struct tern_ring_round *round, uint64_t now_ms);

// Exchanges blocks round a circle with this peer, until the sum is complete. follower: a peer that also receives each block
// of the sum as it arrives, or TERN_RING_MEMBERS_MAX.
// TERN_AGAIN           the exchange failed: a member was lost or gave up; the peers must agree again
// TERN_ERR_STATE       interrupted
// TERN_ERR_NON_FINITE  the sum exceeds float32; the other members get the same error, or end
TERN_MUST_USE enum tern_result tern_ring_round_exchange(struct tern_ring_round *round,
                                                        const struct tern_ring_circle *circle,
                                                        enum tern_ring_level level,
                                                        uint32_t follower,
                                                        struct tern_ring_exchange *exchange);

// Receives the blocks of a sum from the previous member of `circle`, forwards each to the next one, and decodes them into
// sum. part: of the ring that made the sum; its member is the circle's first member. Results as above.
TERN_MUST_USE enum tern_result tern_ring_round_follow(struct tern_ring_round *round,
                                                      const struct tern_ring_circle *circle,
                                                      const struct tern_ring_part *part,
                                                      float *sum);

// Send `size` bytes of a model to a member, and receive a model from one. *model: valid until the frame is taken from the
// mesh. TERN_AGAIN and TERN_ERR_STATE as above
TERN_MUST_USE enum tern_result tern_ring_round_give(struct tern_ring_round *round, uint32_t peer,
                                                    const uint8_t *model, size_t size);
TERN_MUST_USE enum tern_result tern_ring_round_fetch(struct tern_ring_round *round, uint32_t peer,
                                                     const uint8_t **model);

#endif
