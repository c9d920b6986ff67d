// The book of replicas: stores the weights that clients have as the downloads that made them, and rebuilds them bit for bit.
// Called by catchup.c. Pure except for the store; the caller owns all memory; one thread.
//
// A replica's weights begin with a whole form (the seed, a snapshot's blob, or stored float32 values), to which the downloads
// since are added one by one, as the client adds them. The book stores float32 values once those downloads take a quarter of
// their bytes; on the trunk once they take as many. It never stores a lossy form that the client did not receive: the
// rebuilt weights would differ from the client's.
#ifndef TERN_DOWNLOADS_REPLICAS_H
#define TERN_DOWNLOADS_REPLICAS_H

#include "result.h"
#include "store/store.h"
#include "tensor/model.h"
#include "util/sha256.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// The most downloads since a whole form.
#define TERN_REPLICA_DEPTH_MAX 1024

// A replica of the last 8 versions is kept even if no client is known to have it: its download may be under way, or its
// client may not have reported yet.
#define TERN_REPLICA_GRACE 8

// Weights cached in memory; the least recently used are replaced first.
struct tern_replica_slot {
    uint8_t id[TERN_SHA256_SIZE];
    uint64_t used;  // 0 = empty
    float *weights; // model->count values
};

struct tern_replica_book {
    struct tern_db *db;
    const struct tern_model *model;
    uint64_t seed;
    uint8_t seed_id[TERN_SHA256_SIZE];
    uint32_t keep_versions; // of the trunk
    uint64_t bytes_max;     // limit of downloads and weights in the store; 0 = none
    uint64_t bytes;         // of downloads and weights in the store
    uint32_t added;         // replicas since the last collection

    struct tern_replica_slot *slots;
    uint32_t slot_count;
    uint64_t clock;

    uint8_t *blob; // working memory: the largest download
    size_t blob_size;
    uint8_t path[TERN_REPLICA_DEPTH_MAX][TERN_SHA256_SIZE]; // downloads to add, last first

    // Called after the replica of a version was deleted, with the downloads to and from it.
    void (*dropped)(void *ctx, uint32_t version);
    void *ctx;
};

// Sets seed_id and bytes from the store, and adds the seed's row if it is missing and the model has a seed. The caller has
// set the other fields. Called in a transaction.
TERN_MUST_USE enum tern_result tern_replica_book_load(struct tern_replica_book *book);

// Writes a replica's weights to weights[model->count].
// NOT_FOUND  the book does not have the replica; CORRUPT  the stored data does not make it
TERN_MUST_USE enum tern_result tern_replica_weights(struct tern_replica_book *book,
                                                    const uint8_t id[TERN_SHA256_SIZE],
                                                    float *weights);

// Caches weights that will soon be needed. left: the replica that their client held before, whose place they take; NULL: they
// take that of the least recently used ones.
void tern_replica_remember(struct tern_replica_book *book, const uint8_t id[TERN_SHA256_SIZE],
                           const uint8_t left[TERN_SHA256_SIZE], const float *weights);

// Stores a download, unless it is stored, and the replica that it makes. blob: NULL if the download is stored. weights: the
// replica's. residual: Euclidean norm of the global model of to_version minus the replica. trunk: the replica is a
// version's. If the parent of a delta is unknown, the weights are stored whole.
TERN_MUST_USE enum tern_result tern_replica_add(struct tern_replica_book *book,
                                                const struct tern_db_download *download,
                                                const uint8_t *blob, const float *weights,
                                                float residual, bool trunk, uint64_t now_ms);

// Deletes unneeded replicas: no client has them, no needed replica was made from them, and they are TERN_REPLICA_GRACE
// versions old, or keep_versions on the trunk. Deletes a bounded number in each call, then calls tern_replica_evict(). The
// clients' rows must be current.
TERN_MUST_USE enum tern_result tern_replica_collect(struct tern_replica_book *book,
                                                    uint32_t version);

// While `bytes` exceeds bytes_max, deletes the least recently used replicas, also ones that clients have: these clients then
// start from the seed or a snapshot. Keeps replicas of the newest version and their ancestors. Deletes about 1,000 in each
// call, so that a lowered limit takes several commits.
TERN_MUST_USE enum tern_result tern_replica_evict(struct tern_replica_book *book, uint32_t version);

// For a full disk: deletes half of `bytes`, at most `most`, in the same order. Keeps replicas of the newest
// TERN_REPLICA_GRACE versions and their ancestors.
TERN_MUST_USE enum tern_result tern_replica_free_disk(struct tern_replica_book *book,
                                                      uint32_t version, uint64_t most);

#endif
