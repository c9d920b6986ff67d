// Cuts a data set down to one shard of a partition of its training examples: what an experiment's
// client keeps. Used by the readers and source.c; hosted; reentrant.
#ifndef TERN_SHARD_H
#define TERN_SHARD_H

#include "data/partition.h"
#include "data/readers.h"

// Partitions data, of which count and labels are read, as spec->part says. The caller frees the
// partition. *kept: the shard's examples, in the order in which they are kept.
// TERN_ERR_ARGUMENT  the examples cannot be partitioned so
// TERN_ERR_NO_MEMORY
TERN_MUST_USE enum tern_result tern_shard_choose(const struct tern_data_spec *spec,
                                                 const struct tern_dataset *data,
                                                 struct tern_partition *partition,
                                                 struct tern_view *kept);

// Makes the examples of kept, a view of data, all that data holds: their labels, and their bytes or
// values when there are any yet. TERN_ERR_NO_MEMORY; data is then good for nothing but its release.
TERN_MUST_USE enum tern_result tern_shard_keep(const struct tern_data_spec *spec,
                                               const struct tern_view *kept,
                                               struct tern_dataset *data);

#endif
