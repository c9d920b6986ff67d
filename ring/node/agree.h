// Agrees with the other peers on the members of the next exchange (docs/RING.md, "Who takes part"). Every peer sends a hello
// to all, then its view: the peers from which it received hellos. If all views are equal, these peers are the members. A
// peer that did not answer is logged and left out, and all begin again. More than half of all peers must take part, so that
// the same peers never form two rings. Hosted; one thread.
#ifndef TERN_RING_AGREE_H
#define TERN_RING_AGREE_H

#include "mesh/frame.h"
#include "mesh/mesh.h"
#include "mesh/peers.h"
#include "result.h"
#include <signal.h>

#define TERN_RING_AGREE_WHY_MAX 768

// The members of an exchange, and this peer's position.
struct tern_ring_members {
    uint32_t count;
    uint32_t position;                                    // of this peer
    uint32_t peers[TERN_RING_MEMBERS_MAX];                // in the order of the list
    struct tern_ring_hello hellos[TERN_RING_MEMBERS_MAX]; // of each member
    uint32_t serials[TERN_RING_MEMBERS_MAX]; // by peer: the connection on which it agreed
};

struct tern_ring_agreement {
    struct tern_ring_mesh *mesh;
    const struct tern_ring_peers *peers;
    const char *terms; // this peer's settings as text
    uint32_t self;
    uint64_t timeout_ms; // of a silent peer
    uint64_t
        start_ms; // the most that is waited for peers that are not there, at the start, or while too
                  // few are
    const volatile sig_atomic_t *abort;
    uint32_t epoch;   // in and out: number of the round of hellos, 1 at the start
    bool has_started; // out: an agreement was reached
    // In and out: by peer, the connection on which it reported different settings; it counts as absent.
    uint32_t refused[TERN_RING_MEMBERS_MAX];
};

// Reaches an agreement. mine: this peer's hello. On success all members have the same *members except for `position`, and
// epoch is the exchange's.
// TERN_ERR_BUSY       too few peers are present; why names the absent ones
// TERN_ERR_CONFIG     at least half of the peers have different settings; why names one. Fewer different peers are logged
//                     (peer-refused) and left out
// TERN_ERR_STATE      interrupted
TERN_MUST_USE enum tern_result tern_ring_agree(struct tern_ring_agreement *agreement,
                                               const struct tern_ring_hello *mine,
                                               struct tern_ring_members *members,
                                               char why[TERN_RING_AGREE_WHY_MAX]);

#endif
