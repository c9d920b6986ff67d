// The open round as of the last commit, for any thread: which clients may still report, so that an update that cannot
// count is not decoded; and the download with the indices that its leader chose. The thread that owns the federation
// writes it, threads that receive updates read it.
#ifndef TERN_FEDERATION_PUBLISHED_H
#define TERN_FEDERATION_PUBLISHED_H

#include "hosted/spool.h"
#include "rounds/machine.h"
#include <pthread.h>

struct tern_published {
    pthread_mutex_t lock;
    struct tern_round_machine machine; // a copy; members is ours
    bool known;                        // false: memory was short, anybody may report
    uint32_t indices_round;
    struct tern_blob *indices; // of that round; NULL = none
};

struct tern_standing {
    enum tern_result verdict; // of tern_round_update(); OK for one that may be buffered
    bool reported;            // the client, in that round: what it sends now may be a duplicate
};

void tern_published_init(struct tern_published *published);
void tern_published_free(struct tern_published *published);

// Both run before the answers of that commit are sent, so that every client finds the round that its answer names.
void tern_published_machine(struct tern_published *published,
                            const struct tern_round_machine *machine);
// The same where no member came or went since the last time, and only those of `clients` changed.
void tern_published_members(struct tern_published *published,
                            const struct tern_round_machine *machine, const uint64_t *clients,
                            uint32_t count);
// Takes the blob over. NULL: that round shares nothing.
void tern_published_set_indices(struct tern_published *published, uint32_t round,
                                struct tern_blob *indices);

// How an update under (client, round) stands. Any thread.
struct tern_standing tern_published_standing(struct tern_published *published, uint64_t client,
                                             uint32_t round);
// One reference more to the indices of that round, or NULL. Any thread.
struct tern_blob *tern_published_indices(struct tern_published *published, uint32_t round);

#endif
