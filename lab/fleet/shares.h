// The data set of the settings, and the clients' shares of it. Used by the fleet and by what
// measures its model; one thread, but for the columns.
#ifndef TERN_FLEET_SHARES_H
#define TERN_FLEET_SHARES_H

#include "data/columns.h"
#include "data/partition.h"
#include "data/source.h"
#include "fleet/settings.h"
#include "ports.h"
#include "trainer/trainer.h"
#include <pthread.h>

struct tern_shares {
    enum tern_partition_kind kind;
    struct tern_data data;
    struct tern_partition partition; // of the training examples among `clients`
    struct tern_dataset flipped;     // the training examples with labels of tern_shares_flip()
    uint16_t *flipped_labels;
    pthread_mutex_t mutex; // of what follows, and of the values while they are measured or scaled
    uint32_t scaling;      // tag of the scaling that they have; 0: as they were read
    uint8_t *columns;      // of that
    bool standardises;     // unless clients share a scaling: a table whose source names none
    bool trains;           // a client has had a task: whether clients share a scaling is settled
    bool warned;           // of unscaled columns, or reported how they were scaled
};

// clients: those that train. On error *shares is empty and why says in one sentence what is wrong.
// TERN_ERR_CONFIG, errors of tern_dataset_open() and tern_partition_make()
TERN_MUST_USE enum tern_result tern_shares_open(const struct tern_fleet_settings *settings,
                                                uint32_t clients, struct tern_shares *shares,
                                                char why[512]);

// A client has a task, before it looks at its examples. The first call standardises the columns of a table over all
// training rows, unless the federation scales them or data.source has scale=. Any thread.
void tern_shares_train(struct tern_shares *shares);

// Returns true once, after the first task, where a person should know about the columns: text is a note on how they were
// standardised, or a warning that they are too large to train on.
bool tern_shares_report(struct tern_shares *shares, char text[TERN_COLUMNS_TEXT_MAX]);

// The training examples of a client, from 0.
struct tern_view tern_shares_of(const struct tern_shares *shares, uint32_t client);

// Makes the examples of label-flip attackers. TERN_ERR_NO_MEMORY
TERN_MUST_USE enum tern_result tern_shares_flip(struct tern_shares *shares);

// Those of an attacker, after that: a client's own, each of c classes with the label c - 1 - label.
struct tern_view tern_shares_flipped_of(const struct tern_shares *shares, uint32_t client);

#define TERN_NO_CLIENT UINT32_MAX

// Of a natural partition: owners[group], as many as the data set has, is the client that has the
// group's training examples, or TERN_NO_CLIENT.
void tern_shares_owners(const struct tern_shares *shares, uint32_t *owners);

// Scales all examples once: tern_column_port.scale. One thread.
TERN_MUST_USE enum tern_result tern_shares_scale(struct tern_shares *shares, uint32_t tag,
                                                 const uint8_t *columns);

// The columns of a client's examples, for its workspace; the first client that is given a scaling scales those of
// all, as clients have a task only once they have it. ctx->shares outlives it. Any thread.
struct tern_shares_columns {
    struct tern_shares *shares;
    struct tern_view train;
};
struct tern_column_port tern_shares_columns_port(struct tern_shares_columns *ctx);

// An empty one is fine.
void tern_shares_close(struct tern_shares *shares);

#define TERN_TRAINER_BATCH 64u // examples worked on at once

// Prepares a trainer outside of the pool, for one thread. The caller frees *arena, also after an error.
// TERN_ERR_NO_MEMORY; errors of tern_builtin_trainer_init()
TERN_MUST_USE enum tern_result tern_trainer_alone(struct tern_builtin_trainer *trainer,
                                                  const struct tern_model *model,
                                                  struct tern_view train, struct tern_view test,
                                                  void **arena);

#endif
