// Splits a data set among the clients of an experiment. Same labels and seed, same split, on every
// machine. Hosted (malloc); reentrant; a finished partition may be shared by threads.
#ifndef TERN_PARTITION_H
#define TERN_PARTITION_H

#include "data/dataset.h"
#include "result.h"

enum tern_partition_kind {
    TERN_PARTITION_IID = 0,       // shuffled, then dealt out evenly
    TERN_PARTITION_DIRICHLET = 1, // each client's class shares ~ Dirichlet(alpha, ..., alpha), in
                                  // proportion to the classes' sizes when those differ (Hsu, Qi
                                  // and Brown 2019, whose alpha is this one times the number of
                                  // classes); sizes are even
    TERN_PARTITION_SHARDS = 2,    // sorted by label, cut into 2 shards per client, dealt out at
                                  // random (McMahan et al. 2017)
    TERN_PARTITION_NATURAL = 3,   // a client has all examples of a group of the data set; where
                                  // there are more groups than clients they are shuffled and dealt
                                  // out in turn, so that each client has as many, or one more
};

struct tern_partition {
    uint32_t client_count;
    uint32_t *indices; // every example once, client by client
    uint32_t *starts;  // [client_count + 1]; client c has indices[starts[c]..starts[c + 1])
};

struct tern_partition_config {
    enum tern_partition_kind kind;
    uint32_t clients;      // >= 1
    uint32_t min_examples; // that each client must get, >= 1
    float alpha;           // dirichlet: 0.001 to 1000000; small = each client few classes
    uint64_t seed;
};

#define TERN_PARTITION_WHY_MAX 160

// Splits the examples of data, of which only count, labels and (natural) groups are read.
// why: on error, one sentence.
// TERN_ERR_ARGUMENT   a value out of range, fewer than clients * min_examples examples; natural: no
//                     groups, or fewer groups with min_examples examples than clients
// TERN_ERR_NO_MEMORY
TERN_MUST_USE enum tern_result tern_partition_make(const struct tern_partition_config *config,
                                                   const struct tern_dataset *data,
                                                   struct tern_partition *partition,
                                                   char why[TERN_PARTITION_WHY_MAX]);

void tern_partition_free(struct tern_partition *partition);

// The examples of one client, 0 <= client < client_count.
struct tern_view tern_partition_view(const struct tern_partition *partition,
                                     const struct tern_dataset *dataset, uint32_t client);

#define TERN_PARTITION_NAMES "iid, dirichlet, shards or natural"

// One of TERN_PARTITION_NAMES; TERN_ERR_UNKNOWN otherwise.
TERN_MUST_USE enum tern_result tern_partition_kind_from_name(const char *name,
                                                             enum tern_partition_kind *kind);

#endif
