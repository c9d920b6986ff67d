// Limits connections (in total, per address and per client) and TLS handshakes per address. All loops of a server share
// one admission; each connection enters and leaves it on its own loop. Handshake slots belong to one loop.
#ifndef TERN_HTTP_ADMISSION_H
#define TERN_HTTP_ADMISSION_H

#include "http/http.h"
#include <arpa/inet.h>
#include <stdbool.h>
#include <sys/queue.h>
#include <sys/socket.h>

// --- Addresses

// Returns the key by which a peer's connections are counted. All zero for families other than IPv4 and IPv6. name: the
// socket address; NULL = a peer without limits.
struct tern_address tern_address_of(const struct sockaddr_storage *name);

// --- Places of connections

// Counts the open connections of all loops, in total, per address and per client, and chooses the connection to close
// for a newcomer: the stranger (a connection that has not authenticated) whose last complete request is the oldest, on
// any loop. A newcomer of an address at its limit displaces a stranger of the same address, so that one device cannot
// exclude other devices behind the same NAT. An authenticated connection counts for its client alone. Thread-safe.

struct tern_admission;
struct tern_origin;

TAILQ_HEAD(tern_places, tern_place);

// What one loop provides to close its displaced connections.
struct tern_place_group {
    struct tern_places displaced; // displaced connections that the loop has not closed yet
    void (*wake)(
        void *
            ctx); // wakes the loop when one of its connections is displaced; called from any thread; must not block
    void *ctx;
};

enum tern_place_state {
    TERN_PLACE_STRANGER,   // not authenticated; may be displaced
    TERN_PLACE_RECOGNISED, // not authenticated; its ClientHello has a client's ticket
    TERN_PLACE_BUSY,       // not authenticated; its request is being handled
    TERN_PLACE_KNOWN,      // authenticated
    TERN_PLACE_DISPLACED,  // its loop must close it
};

// One open connection in an admission. Only the functions of this header change it; its loop calls them.
struct tern_place {
    struct tern_place_group *group;
    struct tern_address address;
    // Counts the connection for its address; NULL = the connection counts for no address.
    struct tern_origin *origin;
    enum tern_place_state state;
    bool is_newcomer; // has sent no complete request and begun no handshake
    // Client of an authenticated or recognised connection; 0 = not counted per client.
    uint64_t client;
    TAILQ_ENTRY(tern_place) link;       // in the list for its `state`
    TAILQ_ENTRY(tern_place) of_address; // in a list of `origin`, if it is a stranger
};

// NULL when memory is short.
struct tern_admission *tern_admission_new(const struct tern_http_limits *limits);
// Sets new limits for connections that enter or authenticate from now on.
void tern_admission_set_limits(struct tern_admission *admission,
                               const struct tern_http_limits *limits);
void tern_admission_free(struct tern_admission *admission);

// Adds a new connection as a stranger. Displaces a stranger of the same address if the address is at its limit, or any
// stranger if the limit of all connections is reached. name: like tern_address_of(). False: no stranger can be
// displaced.
bool tern_admission_enter(struct tern_admission *admission, struct tern_place_group *group,
                          const struct sockaddr_storage *name, struct tern_place *place);
// Counts a stranger for the client's address that a proxy reported. False: the address is at its limit and none of its
// strangers can be displaced, or this connection was displaced; close the connection.
bool tern_admission_move(struct tern_admission *admission, struct tern_place *place,
                         const struct sockaddr_storage *name);
void tern_admission_leave(struct tern_admission *admission, struct tern_place *place);

// Makes the stranger the last one to be displaced, after it has completed a request or when its handshake begins.
void tern_admission_touch(struct tern_admission *admission, struct tern_place *place);
// Protects a stranger from being displaced while its request is handled, until tern_admission_touch().
void tern_admission_busy(struct tern_admission *admission, struct tern_place *place);
// Protects a stranger whose ClientHello has a ticket of `client`, and counts it for no address. Anyone who has seen the
// ticket can replay it, so a client has at most connections_per_client recognised connections: one more turns the
// oldest recognised connection into a stranger.
void tern_admission_recognise(struct tern_admission *admission, struct tern_place *place,
                              uint64_t client);
// Turns a recognised connection into a stranger, because its handshake did not prove the ticket.
void tern_admission_unrecognise(struct tern_admission *admission, struct tern_place *place);
// Marks the connection as authenticated, by credentials or by a completed handshake with a ticket. Newcomers cannot
// displace it. If the client then exceeds its limit, its oldest connection is displaced. client: 0 = not counted per
// client.
void tern_admission_authenticate(struct tern_admission *admission, struct tern_place *place,
                                 uint64_t client);

// Returns a displaced connection of the group, which the caller must close; NULL = none. Call this function again after
// the connection has left.
struct tern_place *tern_admission_displaced(struct tern_admission *admission,
                                            struct tern_place_group *group);

// Returns the number of open connections.
uint32_t tern_admission_open(struct tern_admission *admission);

// --- Handshake slots

// Limits the TLS handshakes of each address on one loop, since each handshake delays all connections of the loop by one
// or two milliseconds. An address has `per_address` slots. A successful handshake frees its slot at once; failed and
// stalled handshakes free per_address slots a second. For the loop's thread alone.

// Initialize per_address, and all other members with zeros. per_address can be changed at any time.
struct tern_handshakes {
    uint32_t per_address;
    void *tree;                                                 // of tern_handshake_peer
    LIST_HEAD(tern_handshake_peers, tern_handshake_peer) peers; // the elements of the tree
};

// Takes a handshake slot of the address. False: no slot is free, or memory is short.
bool tern_handshakes_take_slot(struct tern_handshakes *handshakes,
                               const struct tern_address *address, uint64_t now_ms);
// Frees the slot of a handshake that has succeeded.
void tern_handshakes_free_slot(struct tern_handshakes *handshakes,
                               const struct tern_address *address, uint64_t now_ms);

// Frees the memory of addresses whose slots are all free at now_ms. Call this function periodically. UINT64_MAX: frees
// all.
void tern_handshakes_sweep(struct tern_handshakes *handshakes, uint64_t now_ms);

#endif
