// How the peers of a ring agree who is in the next exchange (docs/RING.md, "Who takes part"): all say hello to
// all and then whom they have heard; where all have heard the same, these are the members. Whoever did not
// answer is left out and named, and all ask again. More than half of all peers must be there, so that no two
// rings of the same peers go on beside each other. Hosted; one thread.
#ifndef TERN_RING_AGREE_H
#define TERN_RING_AGREE_H

#include "mesh/frame.h"
#include "mesh/mesh.h"
#include "mesh/peers.h"
#include "result.h"
#include <signal.h>

#define TERN_RING_AGREE_WHY_MAX 768

// Who takes part and where this peer stands.
struct tern_ring_members {
    uint32_t count;
    uint32_t position;                                    // of this peer among them
    uint32_t peers[TERN_RING_MEMBERS_MAX];                // in the order of the list
    struct tern_ring_hello hellos[TERN_RING_MEMBERS_MAX]; // of each member
    uint32_t serials[TERN_RING_MEMBERS_MAX]; // by peer: the connection that it has agreed on
};

struct tern_ring_agreement {
    struct tern_ring_mesh *mesh;
    const struct tern_ring_peers *peers;
    const char *terms; // how this peer is set, in words
    uint32_t self;
    uint64_t timeout_ms; // of a peer that says nothing
    uint64_t
        start_ms; // the most that is waited for peers that are not there, at the start, or while too
                  // few are
    const volatile sig_atomic_t *abort;
    uint32_t epoch;   // in and out: of this round of hellos. 1 at the start
    bool has_started; // out: it has come about once
    // In and out: by peer, the connection on which it has said that it is set otherwise. It is not there.
    uint32_t refused[TERN_RING_MEMBERS_MAX];
};

// mine: what this peer says. On success all members have the same *members but for `position`, and epoch is the
// exchange's.
// TERN_ERR_BUSY       too few peers are there; *why names those that are not
// TERN_ERR_CONFIG     so many have another model, codec or list that no more than half can be like this peer: *why
//                     names one. Fewer of them are logged (peer-refused), and the others go on without them
// TERN_ERR_STATE      interrupted
TERN_MUST_USE enum tern_result tern_ring_agree(struct tern_ring_agreement *agreement,
                                               const struct tern_ring_hello *mine,
                                               struct tern_ring_members *members,
                                               char why[TERN_RING_AGREE_WHY_MAX]);

#endif
