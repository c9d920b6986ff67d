// Limits who may use the listener: connections in total, per address and per client, and TLS handshakes per address; and
// completes the configured limits. The server makes the admission, which all loops share; connections enter and leave it
// on their loop. Handshake turns belong to one loop.
#ifndef TERN_HTTP_ADMISSION_H
#define TERN_HTTP_ADMISSION_H

#include "http/http.h"
#include <arpa/inet.h>
#include <stdbool.h>
#include <sys/queue.h>
#include <sys/socket.h>

// --- Limits and addresses

// Replaces every 0 by its documented default, and raises body_memory and body_disk to body_bytes.
void tern_limits_fill(struct tern_http_limits *limits);

// Returns the key by which a peer's connections are counted. All zero for families other than IPv4 and IPv6.
struct tern_address tern_address_of(const struct sockaddr_storage *name);

// --- Places of connections

// Counts the open connections of all loops, in total, per address and per client, and chooses the connection to
// close for a newcomer: the stranger with the longest time since its last whole request, on any loop. A full address
// gives up a stranger of its own, so that no device excludes the others behind the same NAT. Connections of a known
// client count for the client alone. Thread-safe.

struct tern_admission;
struct tern_origin;

TAILQ_HEAD(tern_places, tern_place);

// The places of one loop.
struct tern_place_group {
    struct tern_places displaced; // its displaced places, until they leave
    void (*wake)(void *ctx); // called from any thread when a place is displaced; must not block
    void *ctx;
};

enum tern_place_state {
    TERN_PLACE_STRANGER,   // may be displaced
    TERN_PLACE_RECOGNISED, // began with the ticket of a known client, and is not authenticated yet
    TERN_PLACE_BUSY,       // a stranger whose request is being handled
    TERN_PLACE_KNOWN,      // has authenticated
    TERN_PLACE_DISPLACED,  // its group must end it
};

// The place of one connection. Only the functions below change it, called by its loop.
struct tern_place {
    struct tern_place_group *group;
    struct tern_address address;
    struct tern_origin *origin; // counts the place: the address of a stranger; NULL = none
    enum tern_place_state state;
    bool is_newcomer; // never touched
    uint64_t client;  // of a known or recognised place; 0 = not counted per client
    TAILQ_ENTRY(tern_place) link;
    TAILQ_ENTRY(tern_place) of_address; // in its origin, of a stranger
};

// NULL when memory is short.
struct tern_admission *tern_admission_new(const struct tern_http_limits *limits);
// Sets new limits for connections that enter, or authenticate, from now on.
void tern_admission_limit(struct tern_admission *admission, const struct tern_http_limits *limits);
void tern_admission_free(struct tern_admission *admission);

void tern_place_group_init(struct tern_place_group *group, void (*wake)(void *ctx), void *ctx);

// Adds a newcomer as a stranger. Displaces a stranger of the same address if the address has its share, or
// any stranger if all places are taken. False: no stranger can be displaced.
bool tern_admission_enter(struct tern_admission *admission, struct tern_place_group *group,
                          const struct tern_address *address, struct tern_place *place);
// Assigns a stranger to the address that a proxy named, as if it entered with this address. False: no stranger of
// the address can be displaced, or the place has been displaced; end the connection.
bool tern_admission_move(struct tern_admission *admission, struct tern_place *place,
                         const struct tern_address *address);
void tern_admission_leave(struct tern_admission *admission, struct tern_place *place);

// A stranger has completed a request, or begins its handshake (its address has few turns for it): displaces it last of
// all.
void tern_admission_touch(struct tern_admission *admission, struct tern_place *place);
// A stranger's request is being handled: it is not displaced until it is touched.
void tern_admission_busy(struct tern_admission *admission, struct tern_place *place);
// A stranger's handshake begins with a ticket that `client` has used: it is not displaced for strangers, and counts
// for no address. Anyone who has seen the ticket can replay it, so a client has at most as many recognised places
// as connections: with the next one the oldest of them is a stranger again, which its own address alone can displace.
void tern_admission_recognise(struct tern_admission *admission, struct tern_place *place,
                              uint64_t client);
// The ticket of a recognised place was invalid: the place is a stranger again.
void tern_admission_unrecognise(struct tern_admission *admission, struct tern_place *place);
// The peer has authenticated, or has finished a handshake with its ticket, and is never displaced for a stranger. If the
// client then exceeds its share, its oldest connection is displaced. client: 0 = not counted per client.
void tern_admission_authenticate(struct tern_admission *admission, struct tern_place *place,
                                 uint64_t client);

// Returns a displaced place of the group, which the caller must end; NULL = none. Call it again after the place left.
struct tern_place *tern_admission_displaced(struct tern_admission *admission,
                                            struct tern_place_group *group);

// Returns the number of open connections.
uint32_t tern_admission_open(struct tern_admission *admission);

// --- Turns of handshakes

// Limits the TLS handshakes that an address begins on one loop. Each takes the loop a millisecond or two, which delays
// all its connections. An address begins `per_address` handshakes at once. A successful one frees its turn at once;
// failed and stalled ones free per_address turns a second. For the loop's thread alone.

struct tern_handshakes;

// NULL when memory is short.
struct tern_handshakes *tern_handshakes_new(uint32_t per_address);
void tern_handshakes_limit(struct tern_handshakes *handshakes, uint32_t per_address); // from now on
void tern_handshakes_free(struct tern_handshakes *handshakes); // accepts NULL

// Takes a turn of the address. False: no turn is free, or out of memory.
bool tern_handshakes_begin(struct tern_handshakes *handshakes, const struct tern_address *address,
                           uint64_t now_ms);
// Frees the turn of a handshake that has succeeded.
void tern_handshakes_succeed(struct tern_handshakes *handshakes, const struct tern_address *address,
                             uint64_t now_ms);

// Drops the addresses whose turns are all free. Call it periodically.
void tern_handshakes_sweep(struct tern_handshakes *handshakes, uint64_t now_ms);

#endif
