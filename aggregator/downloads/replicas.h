// The book of replicas: the weights that clients hold, stored as the downloads that made them, and rebuilt
// bit for bit. catchup.c calls it to plan downloads; tests do, too. Pure but for the store;
// the caller owns all memory; one thread.
//
// A replica's weights are what is kept whole (the seed's, a snapshot's blob, or float32 values of
// its own) and then the downloads since, added one by one as the client adds them. They are kept
// whole in float32 once those downloads take more bytes than that would, and again each time that
// what came since takes a quarter of it. An 8 bit form is kept only where the
// client was given one (a snapshot): any other would not be what the client holds, and its next
// download would not be what it lacks.
#ifndef TERN_DOWNLOADS_REPLICAS_H
#define TERN_DOWNLOADS_REPLICAS_H

#include "result.h"
#include "store/store.h"
#include "tensor/model.h"
#include "util/sha256.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Downloads that are added to what is kept whole, at most.
#define TERN_REPLICA_DEPTH_MAX 1024

// A replica of fewer versions ago is kept although no client is known to hold it: its download may
// be on the way, or its client may not have reported yet.
#define TERN_REPLICA_GRACE 8

// Weights kept in memory, least recently used first out.
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
    uint64_t bytes_max;     // of downloads and weights in the store; 0 = no bound
    uint64_t bytes;         // that there are
    uint32_t added;         // since the last collection

    struct tern_replica_slot *slots;
    uint32_t slot_count;
    uint64_t clock;

    uint8_t *blob; // working memory: the largest download
    size_t blob_size;
    uint8_t path[TERN_REPLICA_DEPTH_MAX][TERN_SHA256_SIZE]; // downloads to add, last first

    // Told of each replica of a version that is forgotten, with the downloads at its ends.
    void (*dropped)(void *ctx, uint32_t version);
    void *ctx;
};

// Fills in what depends on the store: seed_id and bytes, and makes the seed's row if it is missing
// and a seed makes this model (within a transaction). The other members were set by the caller.
TERN_MUST_USE enum tern_result tern_replica_book_load(struct tern_replica_book *book);

// The weights of a replica: model->count values.
// NOT_FOUND  it is not known (any more); CORRUPT  what is stored does not make it
TERN_MUST_USE enum tern_result tern_replica_weights(struct tern_replica_book *book,
                                                    const uint8_t id[TERN_SHA256_SIZE],
                                                    float *weights);

// Keeps weights in memory that will be wanted soon.
void tern_replica_remember(struct tern_replica_book *book, const uint8_t id[TERN_SHA256_SIZE],
                           const float *weights);

// Stores a download with the replica that it makes, whose weights are given; what is there already
// stays, and of a download that is its bytes are not looked at. residual: Euclidean norm of the global model of to_version minus the replica. trunk: it is
// a version's. A delta whose parent is not known makes a replica that is kept whole.
TERN_MUST_USE enum tern_result tern_replica_add(struct tern_replica_book *book,
                                                const struct tern_db_download *download,
                                                const uint8_t *blob, const float *weights,
                                                float residual, bool trunk, uint64_t now_ms);

// Forgets replicas that nobody needs: no client holds them, nothing was made from them that is
// needed, and they are TERN_REPLICA_GRACE versions old, of the trunk keep_versions. A bounded
// number at once; the clients' rows must be current. Then tern_replica_evict().
TERN_MUST_USE enum tern_result tern_replica_collect(struct tern_replica_book *book,
                                                    uint32_t version);

// While there are more bytes than bytes_max, forgets the least recently used replicas, held or not:
// their clients will be given the way from the seed or a snapshot. Those of the newest version, and
// what they were made from, stay. Some 1,000 at a time: after the bound was lowered it takes some
// commits until it is kept.
TERN_MUST_USE enum tern_result tern_replica_evict(struct tern_replica_book *book, uint32_t version);

// Where the disk is low: forgets half of the bytes that there are, at most `most` at a time, in the same order. Those of
// the newest TERN_REPLICA_GRACE versions, and what they were made from, stay.
TERN_MUST_USE enum tern_result tern_replica_give_way(struct tern_replica_book *book,
                                                     uint32_t version, uint64_t most);

#endif
