// What strategies carry from round to round, in the memory of a merge. For merge.c alone; others
// call tern_merge_store_states() and tern_merge_check_states().
#ifndef TERN_MERGE_STATES_H
#define TERN_MERGE_STATES_H

#include "merge/merge.h"

// Makes the states those of the rule's strategy: they start anew when they were another one's.
// TERN_ERR_NO_MEMORY
TERN_MUST_USE enum tern_result tern_merge_take_states(struct tern_merge *merge,
                                                      const struct tern_strategy_rule *rule);

// Reads those that go with a version, merge->version.
// TERN_ERR_CORRUPT  one is missing; TERN_ERR_NO_MEMORY
TERN_MUST_USE enum tern_result tern_merge_load_states(struct tern_merge *merge, struct tern_db *db,
                                                      const struct tern_db_version *version);
void tern_merge_free_states(struct tern_merge *merge);

#endif
