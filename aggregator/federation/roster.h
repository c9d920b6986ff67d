// Who may still report in the open round, as of the last commit: written by the federation thread,
// read by the listeners' threads, so that an update that cannot count is not decoded first.
#ifndef TERN_ROSTER_H
#define TERN_ROSTER_H

#include "rounds/round.h"
#include <pthread.h>

struct tern_roster {
    pthread_mutex_t lock;
    struct tern_round_machine machine; // a copy; members is ours
    bool known;                        // false: memory was short, anybody may report
};

struct tern_standing {
    enum tern_result verdict; // of tern_round_update(); OK for one that may be buffered
    bool reported;            // the client, in that round: what it sends now may be a duplicate
};

void tern_roster_init(struct tern_roster *roster);
void tern_roster_free(struct tern_roster *roster);

// Before the answers of that commit are sent: then every client finds what it was told.
void tern_roster_publish(struct tern_roster *roster, const struct tern_round_machine *machine);

// How an update under (client, round) stands. Any thread.
struct tern_standing tern_roster_standing(struct tern_roster *roster, uint64_t client,
                                          uint32_t round);

#endif
