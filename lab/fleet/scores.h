// What one number for the whole test set hides: how a model does by class and by client. Called
// by what measures a finished run's model; pure but for the heap; reentrant.
#ifndef TERN_FLEET_SCORES_H
#define TERN_FLEET_SCORES_H

#include "fleet/shares.h"

struct tern_scores {
    uint32_t classes;
    uint32_t clients;
    uint32_t *confusion;    // [classes][classes] test examples: row = their class, column = answer
    double *class_accuracy; // [classes] recall: share of the class's examples that is right; NAN
                            // where the test set has none
    double
        *class_precision; // [classes] share of the answers that is right; NAN where there is none
    double *class_f1;     // [classes] harmonic mean of both; NAN where the class is neither in
                          // the test set nor an answer
    double macro_f1;      // mean of class_f1 where there is one
    double *client_accuracy; // [clients], see below; NAN where not known
    double *client_examples; // [clients] for training
};

// answers: the model's class for each test example of shares->data.
//
// A client's accuracy is that on data like its own. Where clients are natural groups: on the test
// examples of its groups. Otherwise: the classes' accuracies, weighed by how often the client's
// training examples are of each (of those that the test set has).
// TERN_ERR_NO_MEMORY
TERN_MUST_USE enum tern_result tern_scores_make(const struct tern_shares *shares,
                                                const uint16_t *answers,
                                                struct tern_scores *scores);

void tern_scores_clear(struct tern_scores *scores);

#endif
