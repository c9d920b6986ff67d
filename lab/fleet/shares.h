// The data set of the settings, and its partition among clients. Used by one thread, except for the columns.
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
    struct tern_partition partition; // assigns the training examples to `clients` clients
    struct tern_dataset flipped;     // training examples with the labels of tern_shares_flip()
    uint16_t *flipped_labels;
    pthread_mutex_t mutex; // guards the members below, and values that are measured or scaled
    uint32_t scaling;      // tag of the applied scaling; 0: none
    uint8_t *columns;      // the applied scaling
    // the fleet standardises the table: neither the federation nor the source scales it
    bool standardises;
    // a first task has arrived, so that it is known whether the federation scales columns
    bool trains;
    bool warned; // a warning or a note about scales was printed
};

// clients: number of training clients. On error *shares is empty and why has the reason.
// TERN_ERR_CONFIG, errors of tern_dataset_open() and tern_partition_make()
TERN_MUST_USE enum tern_result tern_shares_open(const struct tern_fleet_settings *settings,
                                                uint32_t clients, struct tern_shares *shares,
                                                char why[512]);

// Called when a client has a task, before it reads its examples. The first call standardises a table's columns over
// all training rows, unless the federation scales them or data.source has scale=. Any thread.
void tern_shares_train(struct tern_shares *shares);

// Returns true once, after the first task, with a note on how the columns were standardised, or a warning that they
// are too large to train on.
bool tern_shares_report(struct tern_shares *shares, char text[TERN_COLUMNS_TEXT_MAX]);

// Returns the training examples of a client, from 0.
struct tern_view tern_shares_of(const struct tern_shares *shares, uint32_t client);

// Makes the examples for label-flip attackers. TERN_ERR_NO_MEMORY
TERN_MUST_USE enum tern_result tern_shares_flip(struct tern_shares *shares);

// Returns an attacker's examples, after tern_shares_flip(): its own, with label c - 1 - label of c classes.
struct tern_view tern_shares_flipped_of(const struct tern_shares *shares, uint32_t client);

#define TERN_NO_CLIENT UINT32_MAX

// Fills owners[group], for a natural partition, with the client of each group of the data set, or TERN_NO_CLIENT.
void tern_shares_owners(const struct tern_shares *shares, uint32_t *owners);

// Scales all examples once: tern_column_port.scale. One thread.
TERN_MUST_USE enum tern_result tern_shares_scale(struct tern_shares *shares, uint32_t tag,
                                                 const uint8_t *columns);

// Returns the column port for a client's workspace. The first client that receives a scaling applies it to all
// examples: clients have tasks only after their scaling. ctx->shares outlives it. Any thread.
struct tern_shares_columns {
    struct tern_shares *shares;
    struct tern_view train;
};
struct tern_column_port tern_shares_columns_port(struct tern_shares_columns *ctx);

// Does nothing if *shares is empty.
void tern_shares_close(struct tern_shares *shares);

#define TERN_TRAINER_BATCH 64u // batch size

// Prepares a trainer outside of the pool, for one thread. The caller frees *arena, also after an error.
// TERN_ERR_NO_MEMORY; errors of tern_builtin_trainer_init()
TERN_MUST_USE enum tern_result tern_trainer_alone(struct tern_builtin_trainer *trainer,
                                                  const struct tern_model *model,
                                                  struct tern_view train, struct tern_view test,
                                                  void **arena);

#endif
