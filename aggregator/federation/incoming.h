// A copy of the open round as of the last commit, which every thread may read: its members, so that an update that
// cannot count is not decoded, and the download with the indices that its leader chose. The thread that owns the
// federation writes the copy; threads that receive updates read it.
#ifndef TERN_FEDERATION_INCOMING_H
#define TERN_FEDERATION_INCOMING_H

#include "federation/federation.h"
#include "hosted/spool.h"
#include "rounds/machine.h"
#include <pthread.h>

struct tern_published {
    pthread_mutex_t lock;
    struct tern_round_machine machine; // a copy; its array of members is owned
    bool known;                        // false: no memory for the copy; every update is decoded
    uint32_t indices_round;
    struct tern_blob *indices; // shared indices of indices_round; NULL = none
};

void tern_published_free(struct tern_published *published);

// Publishes the round's state and the members that have changed since the last call. Called before the commit's replies
// are sent, so that each client finds the round that its reply names.
void tern_published_round(struct tern_federation *federation);
// Publishes the round's shared indices and takes ownership of the blob. NULL: the round shares none.
void tern_published_set_indices(struct tern_published *published, uint32_t round,
                                struct tern_blob *indices);

// Returns the round's shared indices, which the caller releases, or NULL. Any thread.
struct tern_blob *tern_published_indices(struct tern_published *published, uint32_t round);

#endif
