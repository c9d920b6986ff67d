// Statistics over many clients: one figure's means, deviation and worst client; how evenly rounds fell on clients; and the
// variance of a round's updates. The federation calls it for the variance, the admin listener and the command line for the
// others. Pure; reentrant.
#ifndef TERN_SPREAD_H
#define TERN_SPREAD_H

#include <stdbool.h>
#include <stdint.h>

// All zero at first.
struct tern_spread {
    uint32_t clients;
    uint64_t examples;
    double weighted; // mean, each client by its examples
    double mean;     // each client alike
    double squares;  // of the distances to it, added up
    double worst;
    uint64_t worst_client; // the first one with this value
};

// gain: more is better. examples: at least 1.
void tern_spread_add(struct tern_spread *spread, bool gain, uint64_t client, uint32_t examples,
                     double value);

// The deviation of the clients themselves, not estimated from a sample: sqrt(squares / clients).
double tern_spread_deviation(const struct tern_spread *spread);

// Whether a higher figure of this name is better: accuracy, and names that begin with f1, precision, recall, auc or r2.
// For all others, such as losses and errors, a lower one is.
bool tern_metric_is_gain(const char *name);

// The worst class of one client, as two metrics: the number of the class, and the share of its examples that are
// right. Clients report different classes, so neither metric has a mean: cli/worst_class.h combines them.
#define TERN_METRIC_WORST_CLASS "class_worst"
#define TERN_METRIC_WORST_RECALL "recall_worst"
bool tern_metric_is_of_worst_class(const char *name);

// --- How evenly rounds fell on the clients

struct tern_fairness {
    uint32_t least;
    double median;
    uint32_t most;
    double jain; // 1: all alike; 1 / clients: one has all; 1 when nobody has any
};

// Jain's index: (sum x)^2 / (n sum x^2) (Jain, Chiu, Hawe: A Quantitative Measure of Fairness, DEC
// TR-301, 1984). rounds[0..clients) of each client; it is sorted.
struct tern_fairness tern_fairness_of(uint32_t *rounds, uint32_t clients);

// --- Updates of a round

// Variance of a round's updates in the manner of FDA (Theologitis et al., Communication-Efficient
// Distributed Deep Learning via Federated Dynamic Averaging, 2024, section 3): the mean of their
// squared norms minus the squared norm of their mean, both weighted as the mean is. 0 when it is
// not known: fewer than two updates, or numbers that are not finite.
float tern_round_variance(double mean_square, double norm_of_mean, uint32_t updates);

#endif
