// One exchange between peers that have agreed on it: the core's steps (exchange/exchange.h) over a mesh.
// Hosted; one thread.
#ifndef TERN_RING_ROUND_H
#define TERN_RING_ROUND_H

#include "exchange/exchange.h"
#include "mesh/mesh.h"
#include "node/agree.h"
#include "result.h"
#include <signal.h>

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

// Sends and takes blocks until the sum is whole.
// TERN_AGAIN           it came to nothing: a member was lost, or gave up; the peers agree anew
// TERN_ERR_STATE       interrupted
// TERN_ERR_NON_FINITE  what the members learnt is too large for a float32; others see the same, or end
TERN_MUST_USE enum tern_result tern_ring_round_exchange(struct tern_ring_round *round,
                                                        struct tern_ring_exchange *exchange);

// Sends `size` bytes of a model to a member, and takes as many from one; *model is valid until the frame is
// taken from the mesh. TERN_AGAIN and TERN_ERR_STATE as above.
TERN_MUST_USE enum tern_result tern_ring_round_give(struct tern_ring_round *round, uint32_t peer,
                                                    const uint8_t *model, size_t size);
TERN_MUST_USE enum tern_result tern_ring_round_fetch(struct tern_ring_round *round, uint32_t peer,
                                                     const uint8_t **model);

#endif
