// What goes from round to round beside the weights: what strategies carry on, and the averaged model.
// In the memory of a merge. For merge.c alone; others
// call tern_merge_checkpoint() and tern_merge_check_states().
#ifndef TERN_MERGE_STATES_H
#define TERN_MERGE_STATES_H

#include "merge/merge.h"

// Makes the states those of the rule's strategy: they start anew when they were another one's.
// TERN_ERR_NO_MEMORY
TERN_MUST_USE enum tern_result tern_merge_take_states(struct tern_merge *merge,
                                                      const struct tern_strategy_rule *rule);

// Takes the new version, merge->global, into the averaged model with the weight 1 / averaged: for the
// first ones the arithmetic mean, and from where `averaged` grows no more an exponential moving average.
// 0 ends it.
// TERN_ERR_CORRUPT  fewer versions than averaged - 1 are in it; TERN_ERR_NO_MEMORY
TERN_MUST_USE enum tern_result tern_merge_take_average(struct tern_merge *merge, uint32_t averaged);

// Reads what goes with a version, merge->version.
// TERN_ERR_CORRUPT  one is missing; TERN_ERR_NO_MEMORY
TERN_MUST_USE enum tern_result tern_merge_load_states(struct tern_merge *merge, struct tern_db *db,
                                                      const struct tern_db_version *version);
// How many vectors that is, and storing one part of one of them, counted from 0.
uint32_t tern_merge_state_count(const struct tern_merge *merge);
TERN_MUST_USE enum tern_result tern_merge_put_state(const struct tern_merge *merge,
                                                    struct tern_db *db, uint32_t state,
                                                    uint32_t part);
void tern_merge_free_states(struct tern_merge *merge);

#endif
