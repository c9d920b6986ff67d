// Who is inside: the open connections of all loops, their count in all, per address and per client,
// and who goes first when all places are taken: the stranger that has been without a whole request
// the longest, whichever loop it is on. A stranger's place is looked at a few times per request, a
// known client's when it comes and when it goes. Thread-safe.
#ifndef TERN_HTTP_ADMISSION_H
#define TERN_HTTP_ADMISSION_H

#include "http/http.h"
#include <stdbool.h>
#include <sys/queue.h>

struct tern_admission;

TAILQ_HEAD(tern_places, tern_place);

// The places of one loop.
struct tern_place_group {
    struct tern_places displaced; // of it, until they leave
    void (*wake)(void *ctx);      // there are some. Called from any thread; must not block
    void *ctx;
};

enum tern_place_state {
    TERN_PLACE_STRANGER,  // may be displaced
    TERN_PLACE_BUSY,      // a stranger whose request is being handled
    TERN_PLACE_KNOWN,     // has shown who it is
    TERN_PLACE_DISPLACED, // its group is to end it
};

// The place of one connection, which only its own loop changes, by the functions below.
struct tern_place {
    struct tern_place_group *group;
    struct tern_address address;
    enum tern_place_state state;
    uint64_t client; // of a known one; 0 = not counted per client
    TAILQ_ENTRY(tern_place) link;
};

// NULL when memory is short.
struct tern_admission *tern_admission_new(const struct tern_http_limits *limits);
// For who enters, or is known, from now on.
void tern_admission_limit(struct tern_admission *admission, const struct tern_http_limits *limits);
void tern_admission_free(struct tern_admission *admission);

void tern_place_group_init(struct tern_place_group *group, void (*wake)(void *ctx), void *ctx);

// A newcomer of the address comes in, as a stranger, if its address has less than its share and
// there is a place, or a stranger to displace. False: it does not.
bool tern_admission_enter(struct tern_admission *admission, struct tern_place_group *group,
                          const struct tern_address *address, struct tern_place *place);
// It is another address's: a proxy has said so. False, and nothing changes: that has its share.
bool tern_admission_move(struct tern_admission *admission, struct tern_place *place,
                         const struct tern_address *address);
void tern_admission_leave(struct tern_admission *admission, struct tern_place *place);

// A stranger has done something whole: it is the last to be displaced.
void tern_admission_touch(struct tern_admission *admission, struct tern_place *place);
// A stranger's request is being handled: it is not displaced until it is touched.
void tern_admission_busy(struct tern_admission *admission, struct tern_place *place);
// It has shown who it is, and is never displaced for a stranger. Of a client that has more than its
// share by that, the oldest connection is displaced. client: 0 = not counted per client.
void tern_admission_know(struct tern_admission *admission, struct tern_place *place,
                         uint64_t client);

// One of the group that is to be ended; NULL = none. Again after that has left.
struct tern_place *tern_admission_displaced(struct tern_admission *admission,
                                            struct tern_place_group *group);

uint32_t tern_admission_open(struct tern_admission *admission);

#endif
