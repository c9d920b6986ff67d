// Splits a data set among the clients of an experiment. The same labels and seed give the same split on every machine.
// Hosted (malloc); reentrant; threads may share a finished partition.
#ifndef TERN_PARTITION_H
#define TERN_PARTITION_H

#include "data/dataset.h"
#include "result.h"

enum tern_partition_kind {
    // the examples are shuffled, and every client gets the same number of them
    TERN_PARTITION_IID = 0,
    // every client gets the same number of examples, whose class fractions are drawn from Dirichlet(alpha, ..., alpha) weighted
    // by the classes' sizes (Hsu, Qi and Brown 2019; alpha in that paper is this alpha times the number of classes)
    TERN_PARTITION_DIRICHLET = 1,
    // the examples are sorted by label and cut into 2 shards per client, and every client gets 2 random shards (McMahan et al.
    // 2017)
    TERN_PARTITION_SHARDS = 2,
    // the groups of the data set are shuffled, and group i goes to client i % clients
    TERN_PARTITION_NATURAL = 3,
};

struct tern_partition {
    uint32_t client_count;
    uint32_t *indices; // the numbers of all examples, sorted by client
    uint32_t *starts;  // [client_count + 1]; client c has indices[starts[c]..starts[c + 1])
};

struct tern_partition_config {
    enum tern_partition_kind kind;
    uint32_t clients;      // >= 1
    uint32_t min_examples; // each client gets at least so many examples, >= 1
    float alpha; // dirichlet: 0.001 to 1000000; the smaller alpha, the fewer classes a client has
    uint64_t seed;
};

#define TERN_PARTITION_WHY_MAX 160

// Splits the examples of data, by data's count, labels and, for natural, groups alone. After an error why is a sentence. The
// caller frees the partition.
// TERN_ERR_ARGUMENT   a value is out of range, or there are fewer than clients * min_examples examples; natural: there are
//                     fewer groups than clients, or the groups of a client have fewer than min_examples examples
// TERN_ERR_NO_MEMORY
TERN_MUST_USE enum tern_result tern_partition_make(const struct tern_partition_config *config,
                                                   const struct tern_dataset *data,
                                                   struct tern_partition *partition,
                                                   char why[TERN_PARTITION_WHY_MAX]);

// Frees the partition's arrays; *partition is then empty.
void tern_partition_free(struct tern_partition *partition);

// Returns the examples of one client, 0 <= client < client_count.
struct tern_view tern_partition_view(const struct tern_partition *partition,
                                     const struct tern_dataset *dataset, uint32_t client);

#define TERN_PARTITION_NAMES "iid, dirichlet, shards or natural"

// Parses one of TERN_PARTITION_NAMES. TERN_ERR_UNKNOWN: `name` is none of them
TERN_MUST_USE enum tern_result tern_partition_kind_from_name(const char *name,
                                                             enum tern_partition_kind *kind);

#endif
