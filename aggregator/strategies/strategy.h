// A strategy turns the updates of a round into the next global model: four verbs, accumulate,
// merge, ready and report. Who calls: the round's commit and the replay of stored rounds, which
// must give the same bits. Pure; the caller owns all memory; not locked.
//
// Two passes over a round's updates. The first, tern_strategy_count(), adds up integers, so its
// order does not matter. The second, accumulate, needs those totals for its weights and must come
// in ascending client order: float32 additions do not commute in their last bits.
#ifndef TERN_STRATEGY_H
#define TERN_STRATEGY_H

#include "codec/container.h"
#include "result.h"
#include "tensor/model.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// What an update says about itself.
struct tern_contribution {
    uint32_t num_examples; // >= 1
    uint32_t local_steps;  // >= 1
    float loss;            // mean training loss
};

struct tern_strategy_report {
    uint32_t updates;
    uint64_t num_examples;
    float mean_loss;       // weighted by num_examples
    float effective_steps; // weighted mean of local steps: tau_eff of FedNova
    float step_norm;       // Euclidean norm of the change of the global model
};

struct tern_strategy;

// Result of the first pass.
struct tern_strategy_totals {
    uint32_t updates;
    uint64_t num_examples;
    uint64_t example_steps; // sum of num_examples * local_steps
};

// One round's sums.
struct tern_strategy_sums {
    const struct tern_strategy *strategy;
    const struct tern_model *model;
    float *acc; // model->count float32 values, caller-owned
    float server_learning_rate;

    struct tern_strategy_totals totals;
    uint32_t accumulated; // updates seen by the second pass
    double loss_sum;      // of num_examples * loss
    double step_square;   // of the merged change
};

struct tern_strategy {
    const char *name;
    bool sends_prox; // clients get the configured prox_mu; otherwise 0

    // Adds one update: acc += weight * decoded. The container is untrusted and checked whole first.
    // TERN_ERR_STATE when more updates come than were counted; errors of
    // tern_container_accumulate().
    // On error the sums are unchanged.
    enum tern_result (*accumulate)(struct tern_strategy_sums *sums,
                                   const struct tern_contribution *contribution,
                                   const uint8_t *container, size_t len);

    // Whether every counted update is in, and at least one, so that merge may be called.
    bool (*ready)(const struct tern_strategy_sums *sums);

    // Moves the global model[0..model->count) by the accumulated change.
    // TERN_ERR_STATE       not ready
    // TERN_ERR_NON_FINITE  a weight would overflow; global is then unchanged
    enum tern_result (*merge)(struct tern_strategy_sums *sums, float *global);

    // After merge: what the round amounted to.
    void (*report)(const struct tern_strategy_sums *sums, struct tern_strategy_report *report);
};

// The strategy of that name ("fedavg", "fedprox"), or NULL.
const struct tern_strategy *tern_strategy_find(const char *name);

// Every known name, for error messages and --help: "fedavg | fedprox". Static string.
const char *tern_strategy_names(void);

// First pass: adds one update to the totals, which start as zeros. TERN_ERR_ARGUMENT when
// num_examples or local_steps is 0; TERN_ERR_TOO_LARGE when the totals would no longer be exact in
// float64 (above 2^53). On error the totals are unchanged.
TERN_MUST_USE enum tern_result tern_strategy_count(struct tern_strategy_totals *totals,
                                                   const struct tern_contribution *contribution);

// Starts the second pass: zeroes acc and all sums.
void tern_strategy_begin(struct tern_strategy_sums *sums, const struct tern_strategy *strategy,
                         const struct tern_model *model, float server_learning_rate,
                         const struct tern_strategy_totals *totals, float *acc);

extern const struct tern_strategy tern_strategy_fedavg;
extern const struct tern_strategy tern_strategy_fedprox;

#endif
