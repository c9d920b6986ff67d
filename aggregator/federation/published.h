// A copy of the open round as of the last commit, which every thread may read: its members, so that an update that
// cannot count is not decoded, and the download with the indices that its leader chose. The thread that owns the
// federation writes the copy; threads that receive updates read it.
#ifndef TERN_FEDERATION_PUBLISHED_H
#define TERN_FEDERATION_PUBLISHED_H

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

struct tern_published_verdict {
    // Result of tern_round_check_update(), but TERN_OK for a late update that may count.
    enum tern_result verdict;
    bool reported; // the client has reported in this round: its update may be a duplicate
};

void tern_published_init(struct tern_published *published);
void tern_published_free(struct tern_published *published);

// Publishes the round with all its members. Called before the commit's replies are sent, so that each client finds the
// round that its reply names.
void tern_published_machine(struct tern_published *published,
                            const struct tern_round_machine *machine);
// Like tern_published_machine(), for the same members as before, of which only clients[0..count) changed.
void tern_published_members(struct tern_published *published,
                            const struct tern_round_machine *machine, const uint64_t *clients,
                            uint32_t count);
// Publishes the round's shared indices and takes ownership of the blob. NULL: the round shares none.
void tern_published_set_indices(struct tern_published *published, uint32_t round,
                                struct tern_blob *indices);

// Returns whether an update of the client for the round can count. Any thread.
struct tern_published_verdict tern_published_check_update(struct tern_published *published,
                                                          uint64_t client, uint32_t round);
// Returns the round's shared indices, which the caller releases, or NULL. Any thread.
struct tern_blob *tern_published_indices(struct tern_published *published, uint32_t round);

#endif
