// One figure of many clients: its means, how far they are apart, and whom it is worst for. Who calls:
// `tern-aggregator report fairness` and `rounds`. Pure.
#ifndef TERN_SPREAD_H
#define TERN_SPREAD_H

#include <stdbool.h>
#include <stdint.h>

// Zeros at first.
struct tern_spread {
    uint32_t clients;
    uint64_t examples;
    double weighted; // mean, each client by its examples
    double mean;     // each client alike
    double squares;  // of the distances to it, added up
    double worst;
    uint64_t worst_client; // the first of those alike
};

// gain: more is better. examples: at least 1.
void tern_spread_add(struct tern_spread *spread, bool gain, uint64_t client, uint32_t examples,
                     double value);

// Of the clients themselves, not estimated from a sample of more: sqrt(squares / clients).
double tern_spread_deviation(const struct tern_spread *spread);

// Whether more is better of a figure of this name: accuracy, and what begins with f1, precision, recall, auc or
// r2. Of all others, as losses and errors, less is.
bool tern_metric_is_gain(const char *name);

// The worst class of one client, as two metrics: the number of the class, and the share of its examples that are
// right. Clients report different classes, so neither metric has a mean: cli/worst_class.h combines them.
#define TERN_METRIC_WORST_CLASS "class_worst"
#define TERN_METRIC_WORST_RECALL "recall_worst"
bool tern_metric_is_of_worst_class(const char *name);

#endif
