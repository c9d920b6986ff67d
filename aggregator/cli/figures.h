// What status, rounds and reports say about a federation, read from the store at once: accuracy per
// version, and bytes per client and round. Used from the main thread only.
#ifndef TERN_AGGREGATOR_FIGURES_H
#define TERN_AGGREGATOR_FIGURES_H

#include "federation/accuracy.h"
#include "store/store.h"
#include <cjson/cJSON.h>

// Which model a figure is of, for people: "replica of version 4", "global model of version 5".
#define TERN_ACCURACY_OF_MAX 48
const char *tern_accuracy_of(const struct tern_accuracy *accuracy, char text[TERN_ACCURACY_OF_MAX]);
// "accuracy" and "accuracy_model" ("replica" or "global"), or null for both where accuracy is NULL; beside it
// "evaluated_loss", and "metrics", those that evaluators tell by their names. "accuracy" is null where the model
// tells no classes.
void tern_accuracy_json(cJSON *object, const struct tern_accuracy *accuracy);

// What all clients that train sent and received, of every purpose; evaluators are left out. An
// update that was accepted is a participation.
struct tern_round_bytes {
    uint32_t round;
    uint32_t participants;
    struct tern_bytes up;
    struct tern_bytes down;
};

// What a round costs a client is all.up and all.down divided by all.participants; tern-fleet
// divides its own count of the same bytes likewise.
struct tern_figures {
    // Figure of the newest version that has one (federation/accuracy.h), of its global model or else its replica.
    // num_examples is 0 where no version has one.
    struct tern_accuracy newest;
    struct tern_judged pending;      // a later version that too few evaluators reported; or none
    struct tern_round_bytes outside; // enrolment, first handshakes, idle check-ins; round is 0
    struct tern_round_bytes all;     // of all rounds and outside of them; round is 0
};

// TERN_ERR_IO
TERN_MUST_USE enum tern_result tern_figures_load(struct tern_db *db, struct tern_figures *figures);

// total / participants, 0 when there are none.
double tern_figures_mean(uint64_t total, uint32_t participants);

// What was outside of rounds, as a line for people; nothing when there was nothing.
void tern_figures_print_outside(const struct tern_figures *figures, const char *indent);
// Adds "client_rounds", the means "per_client_and_round" and the totals "outside_rounds".
void tern_figures_add_json(cJSON *object, const struct tern_figures *figures);

// Adds the numbers of both directions: payload_up, payload_down, ...
void tern_figures_add_totals(cJSON *object, const struct tern_bytes *up,
                             const struct tern_bytes *down);

#endif
