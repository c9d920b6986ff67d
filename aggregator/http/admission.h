// Who is inside: the open connections of all loops, their number in all, per address and per client, and which of
// them ends for a newcomer: the stranger that has been without a whole request the longest, whichever loop it is on.
// A full address gives up a stranger of its own, so that nobody shuts out the devices behind the same NAT. What a
// known client holds counts for the client alone. Thread-safe.
#ifndef TERN_HTTP_ADMISSION_H
#define TERN_HTTP_ADMISSION_H

#include "http/http.h"
#include <stdbool.h>
#include <sys/queue.h>

struct tern_admission;
struct tern_origin;

TAILQ_HEAD(tern_places, tern_place);

// The places of one loop.
struct tern_place_group {
    struct tern_places displaced; // of it, until they leave
    void (*wake)(void *ctx);      // there are some. Called from any thread; must not block
    void *ctx;
};

enum tern_place_state {
    TERN_PLACE_STRANGER,   // may be displaced
    TERN_PLACE_RECOGNISED, // has begun with the ticket of a known client, without proof so far
    TERN_PLACE_BUSY,       // a stranger whose request is being handled
    TERN_PLACE_KNOWN,      // has shown who it is
    TERN_PLACE_DISPLACED,  // its group is to end it
};

// The place of one connection, which only its own loop changes, by the functions below.
struct tern_place {
    struct tern_place_group *group;
    struct tern_address address;
    struct tern_origin *origin; // that counts it: the address of a stranger; NULL = none
    enum tern_place_state state;
    bool is_newcomer; // has never been touched
    uint64_t client;  // of a known or recognised one; 0 = not counted per client
    TAILQ_ENTRY(tern_place) link;
    TAILQ_ENTRY(tern_place) of_address; // of a stranger
};

// NULL when memory is short.
struct tern_admission *tern_admission_new(const struct tern_http_limits *limits);
// For who enters, or is known, from now on.
void tern_admission_limit(struct tern_admission *admission, const struct tern_http_limits *limits);
void tern_admission_free(struct tern_admission *admission);

void tern_place_group_init(struct tern_place_group *group, void (*wake)(void *ctx), void *ctx);

// A newcomer of the address comes in, as a stranger, for which a stranger of that address is displaced if the
// address has its share, or any stranger if all places are taken. False: there is none to displace.
bool tern_admission_enter(struct tern_admission *admission, struct tern_place_group *group,
                          const struct tern_address *address, struct tern_place *place);
// A proxy has named the address of a stranger, which it counts for from now on, as if it entered. False: there is
// no stranger of that address to displace, or the place has been displaced itself; the connection is to be ended.
bool tern_admission_move(struct tern_admission *admission, struct tern_place *place,
                         const struct tern_address *address);
void tern_admission_leave(struct tern_admission *admission, struct tern_place *place);

// A stranger has done something whole, or begins its handshake, for which its address has few turns: it is the last to
// be displaced.
void tern_admission_touch(struct tern_admission *admission, struct tern_place *place);
// A stranger's request is being handled: it is not displaced until it is touched.
void tern_admission_busy(struct tern_admission *admission, struct tern_place *place);
// A stranger's handshake begins with a ticket that `client` has used. It is not displaced for strangers, and counts
// for no address. Whoever has seen the ticket can do the same, so of one client as many as it may have connections
// are recognised at a time: the next displaces the oldest that has not shown more.
void tern_admission_recognise(struct tern_admission *admission, struct tern_place *place,
                              uint64_t client);
// The ticket of a recognised one did not hold: it is a stranger again.
void tern_admission_doubt(struct tern_admission *admission, struct tern_place *place);
// It has shown who it is, and is never displaced for a stranger. If the client has more than its share by that, its
// oldest connection is displaced. client: 0 = not counted per client.
void tern_admission_know(struct tern_admission *admission, struct tern_place *place,
                         uint64_t client);

// One of the group that is to be ended; NULL = none. Again after that has left.
struct tern_place *tern_admission_displaced(struct tern_admission *admission,
                                            struct tern_place_group *group);

uint32_t tern_admission_open(struct tern_admission *admission);

#endif
