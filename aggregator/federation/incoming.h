// A copy of the open round as of the last commit, for threads that receive updates: its members, so that an update that
// cannot count is not decoded, and the download with the indices that its leader chose (strategy scalecom). The thread
// that owns the federation writes the copy. Any thread reads updates by tern_federation_read_update().
#ifndef TERN_FEDERATION_INCOMING_H
#define TERN_FEDERATION_INCOMING_H

#include "federation/federation.h"
#include "hosted/spool.h"
#include "rounds/machine.h"
#include <pthread.h>

struct tern_published {
    pthread_mutex_t lock;
    // A copy of federation->machine with an array of members of its own.
    struct tern_round_machine machine;
    bool known; // false: there was no memory for the copy, so every update is decoded
    uint32_t indices_round;
    // Download with the shared indices of the round indices_round; NULL = none.
    struct tern_blob *indices;
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
