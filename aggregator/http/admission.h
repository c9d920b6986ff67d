// Limits connections (in total, per address and per client) and TLS handshakes per address, and completes the configured
// limits. All loops share the server's admission; connections enter and leave it on their loop. Handshake turns belong to
// one loop.
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

// Counts the open connections of all loops, in total, per address and per client, and chooses the connection to close for
// a newcomer: the stranger on any loop whose last complete request is the oldest. An address at its limit loses a stranger
// of its own, so that one device cannot exclude the others behind the same NAT. An authenticated connection counts for its
// client alone. Thread-safe.

struct tern_admission;
struct tern_origin;

TAILQ_HEAD(tern_places, tern_place);

// The places of one loop.
struct tern_place_group {
    struct tern_places displaced; // displaced places, until they leave
    void (*wake)(void *ctx); // called from any thread when a place is displaced; must not block
    void *ctx;
};

enum tern_place_state {
    TERN_PLACE_STRANGER,   // not authenticated; may be displaced
    TERN_PLACE_RECOGNISED, // not authenticated; its ClientHello has a client's ticket
    TERN_PLACE_BUSY,       // not authenticated; its request is being handled
    TERN_PLACE_KNOWN,      // authenticated
    TERN_PLACE_DISPLACED,  // its loop must close it
};

// The place of one connection. Only the functions below change it, called by its loop.
struct tern_place {
    struct tern_place_group *group;
    struct tern_address address;
    struct tern_origin *origin; // the address that counts the place; NULL = no address does
    enum tern_place_state state;
    bool is_newcomer;             // has sent no complete request and begun no handshake
    uint64_t client;              // of a known or recognised place; 0 = not counted per client
    TAILQ_ENTRY(tern_place) link; // in the list of its state
    TAILQ_ENTRY(tern_place) of_address; // of a stranger, in a list of its origin
};

// NULL when memory is short.
struct tern_admission *tern_admission_new(const struct tern_http_limits *limits);
// Sets new limits for connections that enter or authenticate from now on.
void tern_admission_set_limits(struct tern_admission *admission,
                               const struct tern_http_limits *limits);
void tern_admission_free(struct tern_admission *admission);

// Adds a newcomer as a stranger. Displaces a stranger of the same address if the address is at its limit, or any stranger
// if all places are taken. name: like tern_address_of(). False: no stranger can be displaced.
bool tern_admission_enter(struct tern_admission *admission, struct tern_place_group *group,
                          const struct sockaddr_storage *name, struct tern_place *place);
// Assigns a stranger to the address that a proxy named. False: the address is at its limit and no stranger of it can be
// displaced, or the place itself was displaced; close the connection.
bool tern_admission_move(struct tern_admission *admission, struct tern_place *place,
                         const struct sockaddr_storage *name);
void tern_admission_leave(struct tern_admission *admission, struct tern_place *place);

// Makes a stranger the last one to be displaced: it has completed a request, or begins its handshake.
void tern_admission_touch(struct tern_admission *admission, struct tern_place *place);
// Protects a stranger from being displaced while its request is handled, until it is touched.
void tern_admission_busy(struct tern_admission *admission, struct tern_place *place);
// Protects a stranger whose ClientHello has a ticket of `client`; it then counts for no address. Anyone who has seen the
// ticket can replay it, so a client has at most connections_per_client recognised places: one more makes the oldest of
// them a stranger again.
void tern_admission_recognise(struct tern_admission *admission, struct tern_place *place,
                              uint64_t client);
// Makes a recognised place a stranger again, because its handshake did not prove the ticket.
void tern_admission_unrecognise(struct tern_admission *admission, struct tern_place *place);
// Marks the place as authenticated, by credentials or by a completed handshake with a ticket. Strangers cannot displace it.
// If the client then exceeds its limit, its oldest connection is displaced. client: 0 = not counted per client.
void tern_admission_authenticate(struct tern_admission *admission, struct tern_place *place,
                                 uint64_t client);

// Returns a displaced place of the group, whose connection the caller must close; NULL = none. Call it again after the
// place has left.
struct tern_place *tern_admission_displaced(struct tern_admission *admission,
                                            struct tern_place_group *group);

// Returns the number of open connections.
uint32_t tern_admission_open(struct tern_admission *admission);

// --- Turns of handshakes

// Limits the TLS handshakes of each address on one loop, since each delays all connections of the loop by one or two
// milliseconds. An address has `per_address` turns. A successful handshake frees its turn at once; failed and stalled ones
// free per_address turns a second. For the loop's thread alone.

// All zero but per_address at first. Changing per_address changes the limit from then on.
struct tern_handshakes {
    uint32_t per_address;
    void *tree;                                                 // of tern_handshake_peer
    LIST_HEAD(tern_handshake_peers, tern_handshake_peer) peers; // the elements of the tree
};

// Takes a turn of the address. False: no turn is free, or memory is short.
bool tern_handshakes_begin(struct tern_handshakes *handshakes, const struct tern_address *address,
                           uint64_t now_ms);
// Frees the turn of a handshake that has succeeded.
void tern_handshakes_succeed(struct tern_handshakes *handshakes, const struct tern_address *address,
                             uint64_t now_ms);

// Forgets the addresses whose turns are all free at now_ms. Call it periodically. UINT64_MAX: forgets all.
void tern_handshakes_sweep(struct tern_handshakes *handshakes, uint64_t now_ms);

#endif
