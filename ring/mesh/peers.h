// Reads the list of a ring's peers: a file, the same on all peers, with one peer per line in the order of the ring:
//
//   # name  address  port
//   anna    10.0.0.1   7100
//   ben     10.0.0.2   7100
//
// An optional fourth word names the peer's group: each group forms a ring, and the first members of all groups form another
// (docs/RING.md, "Groups").
//
// Called from the main thread. A list is constant after it was read.
#ifndef TERN_RING_PEERS_H
#define TERN_RING_PEERS_H

#include "exchange/exchange.h"
#include "mesh/ring_tls.h"
#include "result.h"
#include <stdint.h>

#define TERN_RING_ADDRESS_SIZE 128
#define TERN_RING_PEERS_WHY_MAX 320

struct tern_ring_peer {
    char name[TERN_RING_NAME_SIZE];       // the common name in the peer's certificate
    char address[TERN_RING_ADDRESS_SIZE]; // an IP address or a host's name
    uint16_t port;
    uint8_t group; // number of the group, in order of first occurrence; 0 without groups
};

struct tern_ring_peers {
    struct tern_ring_peer peers[TERN_RING_MEMBERS_MAX];
    uint32_t count; // >= 2
};

// TERN_ERR_CONFIG  why has the wrong line and the problem
TERN_MUST_USE enum tern_result tern_ring_peers_read(const char *path, struct tern_ring_peers *peers,
                                                    char why[TERN_RING_PEERS_WHY_MAX]);

// Returns the index of the peer with that name, or peers->count.
uint32_t tern_ring_find_peer(const struct tern_ring_peers *peers, const char *name);

#define TERN_RING_PEER_TEXT_MAX (TERN_RING_NAME_SIZE + TERN_RING_ADDRESS_SIZE + 16)

// Writes the peer as text, for example "ben (10.0.0.2:7100)". Returns text.
const char *tern_ring_peer_text(const struct tern_ring_peer *peer,
                                char text[TERN_RING_PEER_TEXT_MAX]);

#endif
