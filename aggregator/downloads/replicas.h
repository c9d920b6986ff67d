// The book of replicas: stores the weights that clients have, as the downloads that made them, and rebuilds them bit for bit.
// Called by catchup.c and search.c. Pure except for the store; the caller owns all memory. A book and a reader belong to one
// thread each.
//
// A replica's weights begin with a whole form (the seed, a snapshot's blob, or stored float32 values), to which the downloads
// since are added one by one, as the client adds them. The book stores float32 values after 8 downloads that take an eighth of
// their bytes, or fewer that take as many; on the trunk after 8 that take as many. It never stores a lossy form that the client did not receive: the
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

// Most downloads between a replica and the whole form from which its weights are rebuilt.
#define TERN_REPLICA_DEPTH_MAX 1024

// A replica of the last 8 versions is kept even if no client is known to have it: its download may be under way, or its
// client may not have reported yet.
#define TERN_REPLICA_GRACE 8

struct tern_replica_book {
    struct tern_db *db;
    const struct tern_model *model;
    uint64_t seed;
    uint8_t seed_id[TERN_SHA256_SIZE];
    uint32_t keep_versions; // newest versions whose replicas are kept
    uint64_t bytes_max;     // limit of downloads and weights in the store; 0 = none
    uint64_t bytes;         // of downloads and weights in the store
    uint32_t added;         // replicas since the last collection

    // Called after the replica of a version was deleted, with the downloads to and from it.
    void (*dropped)(void *ctx, uint32_t version);
    void *ctx;
};

// Sets seed_id and bytes from the store, and adds the seed's row if it is missing and the model has a seed. The caller has
// set the other fields. Called in a transaction.
TERN_MUST_USE enum tern_result tern_replica_book_load(struct tern_replica_book *book);

// Stores a download, unless it is stored, and the replica that it makes. blob: NULL if the download is stored. weights: the
// replica's; NULL: not available, so they are not stored whole. residual: Euclidean norm of the global model of to_version
// minus the replica. trunk: the replica is a version's. If the parent of a delta is unknown, the weights are stored whole;
// without weights the replica is not stored then. Then evicts: while `bytes` exceeds bytes_max, deletes the least recently
// used replicas, also ones that clients have. These clients start from the seed or a snapshot. Keeps replicas of to_version
// and their ancestors. Deletes about 1,000 in each call, so that a lowered limit takes several commits.
// more: NULL: weights that must be stored are stored at once. Otherwise up to 1 MiB of weights above 4 MiB is stored, and *more:
// the replica is not added yet; call again, also in another transaction.
TERN_MUST_USE enum tern_result tern_replica_add(struct tern_replica_book *book,
                                                const struct tern_db_download *download,
                                                const uint8_t *blob, const float *weights,
                                                float residual, bool trunk, uint64_t now_ms,
                                                bool *more);

// Deletes unneeded replicas: no client has them, no needed replica was made from them, and they are TERN_REPLICA_GRACE
// versions old, or keep_versions on the trunk. Deletes a bounded number in each call, then evicts like tern_replica_add().
// The clients' rows must be current.
TERN_MUST_USE enum tern_result tern_replica_collect(struct tern_replica_book *book,
                                                    uint32_t version);

// Frees a full disk: deletes half of `bytes`, at most `most` bytes, the least recently used replicas first. Keeps replicas of
// the newest TERN_REPLICA_GRACE versions and their ancestors.
TERN_MUST_USE enum tern_result tern_replica_free_disk(struct tern_replica_book *book,
                                                      uint32_t version, uint64_t most);

// --- Rebuilding weights from the store

struct tern_replica_reader {
    struct tern_db *db;
    const struct tern_model *model;
    uint64_t seed;
    uint8_t *blob; // working memory: the largest download
    size_t blob_size;
    uint8_t path[TERN_REPLICA_DEPTH_MAX][TERN_SHA256_SIZE]; // downloads to add, last first
};

// Writes a replica's weights to weights[model->count].
// NOT_FOUND  the store does not have the replica; CORRUPT  the stored data does not make it
TERN_MUST_USE enum tern_result tern_replica_weights(struct tern_replica_reader *reader,
                                                    const uint8_t id[TERN_SHA256_SIZE],
                                                    float *weights);

#endif
