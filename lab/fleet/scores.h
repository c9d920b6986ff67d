// Accuracy by class and by client, which a mean over the test set hides. Pure except for the heap; reentrant.
#ifndef TERN_FLEET_SCORES_H
#define TERN_FLEET_SCORES_H

#include "fleet/shares.h"

struct tern_scores {
    uint32_t classes;
    uint32_t clients;
    uint32_t *confusion;     // [classes][classes] test examples: row = class, column = answer
    double *class_accuracy;  // [classes] recall; NAN: the test set has no such example
    double *class_precision; // [classes] share of correct answers; NAN: never answered
    // [classes] harmonic mean of recall and precision; NAN: neither an example nor an answer
    double *class_f1;
    double macro_f1;         // mean of the class_f1 that are not NAN
    double *client_accuracy; // [clients], see below; NAN: unknown
    double *client_examples; // [clients] training examples
};

// answers: the model's answer to each test example of shares->data.
//
// A client's accuracy is that on data like its own: in a natural partition on the test examples of its groups;
// otherwise the mean of the classes' accuracies, weighted by the classes of its training examples.
// TERN_ERR_NO_MEMORY
TERN_MUST_USE enum tern_result tern_scores_make(const struct tern_shares *shares,
                                                const uint16_t *answers,
                                                struct tern_scores *scores);

void tern_scores_clear(struct tern_scores *scores);

#endif
