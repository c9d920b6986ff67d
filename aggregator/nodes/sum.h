// What an aggregator that follows sums of a round (merge/part.h): the updates that it has checked and that the leader has
// counted without taking their values in. Only to save time: what is not summed here, the leader reads from the store.
//
// Who calls: the follower's thread that has the answers, with its connection.
#ifndef TERN_NODES_SUM_H
#define TERN_NODES_SUM_H

#include "federation/federation.h"
#include "merge/part.h"

struct tern_node_sum {
    const struct tern_model *model;
    uint64_t memory;
    struct tern_part part;
    uint32_t refused; // a round that is not summed here
};

// federation: outlives it. memory: bytes of the sums; 0 = TERN_MERGE_MEMORY. Of a sum that is all zero.
void tern_node_sum_init(struct tern_node_sum *sum, const struct tern_federation *federation,
                        uint64_t memory);
void tern_node_sum_clear(struct tern_node_sum *sum);

void tern_node_sum_add(struct tern_node_sum *sum, struct tern_db *db,
                       const struct tern_incoming *update);
// The leader wants the parts of that round: delivers what there is, forgets it, and tells that it is done.
void tern_node_sum_deliver(struct tern_node_sum *sum, struct tern_db *db, uint32_t node,
                           uint32_t round);

#endif
