// Agrees with the other peers on the members of the next exchange (docs/RING.md, "Who takes part"). Every peer sends a hello
// to all, then its view: the set of peers from which it received hellos. If all views are equal, these peers are the members.
// A peer that did not answer is logged and left out, and all peers start over. More than half of all peers must take part,
// so that the peers never form two rings. Hosted; one thread.
#ifndef TERN_RING_AGREE_H
#define TERN_RING_AGREE_H

#include "mesh/frame.h"
#include "mesh/mesh.h"
#include "mesh/peers.h"
#include "result.h"
#include <signal.h>

#define TERN_RING_AGREE_WHY_MAX 768
#define TERN_RING_TERMS_WHY_MAX 360

// The members of an exchange.
struct tern_ring_members {
    uint32_t count;
    uint32_t position;                                    // this peer's index in peers[]
    uint32_t peers[TERN_RING_MEMBERS_MAX];                // in the order of ring.peers
    struct tern_ring_hello hellos[TERN_RING_MEMBERS_MAX]; // [member]
    uint32_t serials[TERN_RING_MEMBERS_MAX];              // [peer] serial number of its connection
};

struct tern_ring_agreement {
    struct tern_ring_mesh *mesh;
    const struct tern_ring_peers *peers;
    const char *terms; // this peer's settings as text
    uint32_t self;
    uint64_t timeout_ms; // a peer that is silent for longer is left out
    uint64_t start_ms;   // longest wait for all peers at the start, and later for more than half
    const volatile sig_atomic_t *abort; // nonzero: end with TERN_ERR_STATE
    uint32_t epoch;                     // in and out: number of the exchange of hellos, from 1
    bool has_started;                   // out: an agreement was reached
    // In and out: [peer] serial number of the connection on which the peer sent different settings. The peer counts as absent
    // until it reconnects.
    uint32_t refused[TERN_RING_MEMBERS_MAX];
};

// Reaches an agreement. mine: this peer's hello. On success all members have the same epoch and the same *members except for
// `position`.
// TERN_ERR_BUSY       too few peers are connected; why names the missing ones
// TERN_ERR_CONFIG     at least half of the peers have different settings; why names one. If fewer peers have, they are logged
//                     (peer-refused) and left out
// TERN_ERR_STATE      interrupted
TERN_MUST_USE enum tern_result tern_ring_agree(struct tern_ring_agreement *agreement,
                                               const struct tern_ring_hello *mine,
                                               struct tern_ring_members *members,
                                               char why[TERN_RING_AGREE_WHY_MAX]);

// --- Settings as text

// Makes the text of the settings that all peers must share: lines with a setting's name, a space and its value. A peer sends
// it on every connection (docs/RING.md, "The bytes"). The hash in the hello decides whether peers agree; the text lets a peer
// report which setting differs. Appends a line to text[0..len), if it fits, and returns the new len.
size_t tern_ring_terms_add(char text[TERN_RING_TERMS_MAX + 1], size_t len, const char *name,
                           const char *value);

// Writes which settings differ, as many as fit: "ring.codec is int8 there and float32 here; ...". Ignores settings that only
// one text has; "" if all others are equal. theirs: another peer's text, untrusted, up to its NUL.
void tern_ring_terms_compare(const char *mine, const char *theirs,
                             char why[TERN_RING_TERMS_WHY_MAX]);

#endif
