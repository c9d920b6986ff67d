// The data set of the settings, and the clients' shares of it. Used by the fleet and by what
// measures its model; one thread.
#ifndef TERN_FLEET_SHARES_H
#define TERN_FLEET_SHARES_H

#include "data/partition.h"
#include "data/source.h"
#include "fleet/settings.h"

struct tern_shares {
    enum tern_partition_kind kind;
    struct tern_data data;
    struct tern_partition partition; // of the training examples among `clients`
};

// clients: those that train. On error *shares is empty and why says in one sentence what is wrong.
// TERN_ERR_CONFIG, errors of tern_dataset_open() and tern_partition_make()
TERN_MUST_USE enum tern_result tern_shares_open(const struct tern_fleet_settings *settings,
                                                uint32_t clients, struct tern_shares *shares,
                                                char why[512]);

// The training examples of a client, from 0.
struct tern_view tern_shares_of(const struct tern_shares *shares, uint32_t client);

// An empty one is fine.
void tern_shares_close(struct tern_shares *shares);

#endif
