// What status, rounds and reports say about a federation, read from the store at once: accuracy per
// version, and mean bytes per participating client and round. Used from the main thread only.
#ifndef TERN_AGGREGATOR_FIGURES_H
#define TERN_AGGREGATOR_FIGURES_H

#include "store/store.h"

// All evaluators of a version together, weighted by their examples.
struct tern_accuracy {
    uint32_t version;
    uint64_t num_examples;
    double accuracy;
    double loss;
};

// A client participates in a round when it uploads in it. Its bytes are those of every purpose in
// that round: check-in, downloads, upload, handshakes.
struct tern_round_bytes {
    uint32_t round;
    uint32_t participants;
    struct tern_bytes up;
    struct tern_bytes down;
};

struct tern_figures {
    struct tern_accuracy *accuracies; // in version order
    size_t accuracy_count;
    struct tern_round_bytes *rounds; // in round order, those with participants
    size_t round_count;
    struct tern_round_bytes all; // of all rounds together; round is 0
};

// TERN_ERR_NO_MEMORY, TERN_ERR_IO; nothing is held then.
TERN_MUST_USE enum tern_result tern_figures_load(struct tern_db *db, struct tern_figures *figures);
void tern_figures_free(struct tern_figures *figures);

// NULL when nobody evaluated the version, or nobody participated in the round.
const struct tern_accuracy *tern_figures_accuracy(const struct tern_figures *figures,
                                                  uint32_t version);
const struct tern_round_bytes *tern_figures_round(const struct tern_figures *figures,
                                                  uint32_t round);

// total / participants, 0 when there are none.
double tern_figures_mean(uint64_t total, uint32_t participants);

#endif
