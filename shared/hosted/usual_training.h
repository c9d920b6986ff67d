// The training that `tern-aggregator init --data` proposes for a table and `tern-client compare` repeats on one client's
// rows. Measured on tables of 300 to 20,000 rows (docs/BENCHMARKS.md, "Rounds and rates of init"). Pure; reentrant.
#ifndef TERN_HOSTED_USUAL_TRAINING_H
#define TERN_HOSTED_USUAL_TRAINING_H

#include "tensor/model.h"

#define TERN_USUAL_PASSES 150    // over the rows
#define TERN_USUAL_WARMUP_MAX 10 // rounds, or passes over one client's rows

struct tern_usual_rate {
    double learning_rate;
    double momentum;
};

// Momentum stops the narrow layers of autoencoders from learning; a higher rate with a warm-up does not.
static inline struct tern_usual_rate tern_usual_rate(enum tern_loss loss)
{
    return loss == TERN_LOSS_RECONSTRUCTION  ? (struct tern_usual_rate){0.1, 0}
           : loss == TERN_LOSS_CROSS_ENTROPY ? (struct tern_usual_rate){0.02, 0.9}
                                             : (struct tern_usual_rate){0.01, 0.9};
}

#endif
