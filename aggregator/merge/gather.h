// The close of a round of which other nodes have summed some updates (merge/part.h): takes the parts that they
// delivered, and adds what no part covers from the stored updates. Each part is checked before it is used, against
// the round and the updates that were accepted in it; one that fails is named in the log and left out, and what it
// covered is read from the store. Whatever else fails here, as memory may, leaves all to tern_merge_make(), which
// reads the stored updates then. Who calls: the federation, on the thread that merges, with that thread's tern_db.
#ifndef TERN_GATHER_H
#define TERN_GATHER_H

#include "merge/merge.h"
#include "merge/part.h"

#define TERN_GATHER_NODES 64 // whose parts are taken, at most

// One close.
struct tern_gather {
    struct tern_merge *merge;
    struct tern_db *db;
    struct tern_part_round round;
    char seen[TERN_GATHER_NODES][TERN_DB_NODE_MAX]; // nodes whose part was looked at
    uint32_t seen_count;
};

// row: of the round that the merge has open, over its present version.
void tern_gather_begin(struct tern_gather *gather, struct tern_merge *merge, struct tern_db *db,
                       const struct tern_db_round *row);
// Updates that are not in the sums yet, by tern_merge_defer(). 0 as well once all is left to tern_merge_make().
uint32_t tern_gather_missing(const struct tern_gather *gather);
// Takes the parts that were delivered since the last call, one of each node.
void tern_gather_parts(struct tern_gather *gather);
// Adds what is missing from the store.
void tern_gather_rest(struct tern_gather *gather);

#endif
