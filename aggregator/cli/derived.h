// Numbers that follow from limits.memory and limits.disk, each a fixed share of them. Pure.
#ifndef TERN_CLI_DERIVED_H
#define TERN_CLI_DERIVED_H

#include "cli/settings.h"

// NAME(what it bounds): its share of the limit is one in so many.
//   X(field, limit, one_in, what)
#define TERN_DERIVED_LIMITS(X)                                                                     \
    X(model_memory, memory, 2,                                                                     \
      "vectors of the model's size (merging, what clients hold, strategy); more are files")        \
    X(body_memory, memory, 8, "bodies of requests that arrive or wait; beyond it 503")             \
    X(strategy_memory, memory, 8,                                                                  \
      "sums of a round's updates, or all their values (fedmedian, fedtrimmedavg, krum, "           \
      "multikrum)")                                                                                \
    X(download_cache, memory, 32, "downloads that many clients ask for")                           \
    X(replica_cache, memory, 32, "replicas that clients hold")                                     \
    X(body_disk, disk, 2, "bodies above 64KiB, in files of the state directory; beyond it 503")    \
    X(replica_bytes, disk, 4, "downloads and replicas in the database; the least recently used go")

struct tern_derived_limits {
#define X(field, limit, one_in, what) uint64_t field;
    TERN_DERIVED_LIMITS(X)
#undef X
};

struct tern_derived_limits tern_derived_limits(const struct tern_aggregator_settings *settings);

// Prints each number with its rule, as comments of an INI file. values: a struct tern_aggregator_settings.
void tern_derived_print(const void *values, FILE *out);

#endif
