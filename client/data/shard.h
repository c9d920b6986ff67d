// Reduces a data set to one shard of a partition of its training examples, for one client of an experiment. Called by idx.c
// and source.c. Reentrant.
#ifndef TERN_SHARD_H
#define TERN_SHARD_H

#include "data/partition.h"
#include "data/readers.h"

// Partitions data by its count and labels as spec->part specifies. The caller frees the partition. *kept: the shard's
// examples in their order.
// TERN_ERR_ARGUMENT  the examples cannot be partitioned so
// TERN_ERR_NO_MEMORY
TERN_MUST_USE enum tern_result tern_shard_choose(const struct tern_data_spec *spec,
                                                 const struct tern_dataset *data,
                                                 struct tern_partition *partition,
                                                 struct tern_view *kept);

// Reduces data to the examples of kept, a view of it: labels, and bytes or values if present. TERN_ERR_NO_MEMORY: data can
// then only be released.
TERN_MUST_USE enum tern_result tern_shard_keep(const struct tern_data_spec *spec,
                                               const struct tern_view *kept,
                                               struct tern_dataset *data);

#endif
