// Splits a data set among the clients of an experiment. The same labels and seed give the same split on every machine.
// Hosted (malloc); reentrant; threads may share a finished partition.
#ifndef TERN_PARTITION_H
#define TERN_PARTITION_H

#include "data/dataset.h"
#include "result.h"

enum tern_partition_kind {
    TERN_PARTITION_IID = 0, // shuffled, then dealt out evenly
    TERN_PARTITION_DIRICHLET =
        1,                      // even sizes; each client's class fractions ~ Dirichlet(alpha, ...,
                                // alpha), times the class sizes (Hsu, Qi and Brown 2019; their
                                // alpha is this one times the number of classes)
    TERN_PARTITION_SHARDS = 2,  // sorted by label, cut into 2 shards per client, dealt out at
                                // random (McMahan et al. 2017)
    TERN_PARTITION_NATURAL = 3, // a client has whole groups of the data set; more groups than
                                // clients are shuffled and dealt out in turn
};

struct tern_partition {
    uint32_t client_count;
    uint32_t *indices; // the numbers of all examples, sorted by client
    uint32_t *starts;  // [client_count + 1]; client c has indices[starts[c]..starts[c + 1])
};

struct tern_partition_config {
    enum tern_partition_kind kind;
    uint32_t clients;      // >= 1
    uint32_t min_examples; // least examples of a client, >= 1
    float alpha; // dirichlet: 0.001 to 1000000; the smaller, the fewer classes a client has
    uint64_t seed;
};

#define TERN_PARTITION_WHY_MAX 160

// Splits the examples of data. Reads only its count, labels and, for natural, groups. why: on error, one sentence.
// TERN_ERR_ARGUMENT   a value is out of range, or there are fewer than clients * min_examples examples; natural: there are
//                     fewer groups of min_examples examples than clients
// TERN_ERR_NO_MEMORY
TERN_MUST_USE enum tern_result tern_partition_make(const struct tern_partition_config *config,
                                                   const struct tern_dataset *data,
                                                   struct tern_partition *partition,
                                                   char why[TERN_PARTITION_WHY_MAX]);

void tern_partition_free(struct tern_partition *partition);

// Returns the examples of one client, 0 <= client < client_count.
struct tern_view tern_partition_view(const struct tern_partition *partition,
                                     const struct tern_dataset *dataset, uint32_t client);

#define TERN_PARTITION_NAMES "iid, dirichlet, shards or natural"

// Parses one of TERN_PARTITION_NAMES. TERN_ERR_UNKNOWN
TERN_MUST_USE enum tern_result tern_partition_kind_from_name(const char *name,
                                                             enum tern_partition_kind *kind);

#endif
