// Figures of a federation for `status` and `report`: accuracy, and bytes per client and round. From the main thread.
#ifndef TERN_AGGREGATOR_FIGURES_H
#define TERN_AGGREGATOR_FIGURES_H

#include "federation/accuracy.h"
#include "store/store.h"
#include <cjson/cJSON.h>

// Bytes of all training clients, for all purposes; evaluators are left out. An accepted update is one participation.
struct tern_round_bytes {
    uint32_t participants;
    struct tern_bytes up;
    struct tern_bytes down;
};

// Mean bytes of a client in a round: total.up and total.down, divided by total.participants. tern-fleet computes this mean from the
// bytes that its clients count.
struct tern_figures {
    // Accuracy of the newest evaluated version (federation/accuracy.h): of its global model or, if only the replica was
    // evaluated, of the replica.
    // num_examples is 0 if no version was evaluated.
    struct tern_accuracy newest;
    // a later version that too few evaluators reported; reports is 0: none
    struct tern_reported_version pending;
    // outside of rounds: enrolment, first handshakes, idle check-ins
    struct tern_round_bytes outside_rounds;
    struct tern_round_bytes total; // in and outside of rounds
};

// Returns errors of the store.
TERN_MUST_USE enum tern_result tern_figures_load(struct tern_db *db, struct tern_figures *figures);

// Returns total / participants; 0 without participants.
double tern_figures_mean(uint64_t total, uint32_t participants);

// Prints the bytes outside of rounds as a line for people, if there are any.
void tern_figures_print_outside(const struct tern_figures *figures, const char *indent);
// Adds "client_rounds" (participations), "per_client_and_round" (means) and "outside_rounds" (totals).
void tern_figures_add_json(cJSON *object, const struct tern_figures *figures);

// Adds the totals of both directions: payload_up, payload_down, ...
void tern_figures_add_totals(cJSON *object, const struct tern_bytes *up,
                             const struct tern_bytes *down);

#endif
