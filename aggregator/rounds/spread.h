// Computes statistics over many clients: a metric's means, deviation and worst client; how evenly rounds are
// distributed over clients; and the variance of a round's updates. The federation uses the variance; the admin listener
// and the command line use the rest. Pure; reentrant.
#ifndef TERN_SPREAD_H
#define TERN_SPREAD_H

#include <stdbool.h>
#include <stdint.h>

// Running figures of one metric over clients. All zeros: no client.
struct tern_spread {
    uint32_t clients;
    uint64_t examples;
    double weighted_mean; // mean of the values, weighted by examples
    double mean;          // mean of the values, unweighted
    double sum_squares;   // sum of squared distances to `mean`
    double worst;
    uint64_t worst_client; // id of the first client with the worst value
};

// Adds a client's value. examples: at least 1.
void tern_spread_add(struct tern_spread *spread, bool higher_is_better, uint64_t client,
                     uint32_t examples, double value);

// Returns the population deviation: sqrt(squares / clients).
double tern_spread_deviation(const struct tern_spread *spread);

// Whether a higher value is better: for accuracy and for names that begin with f1, precision, recall, auc or r2, but
// not for losses and errors.
bool tern_metric_higher_is_better(const char *name);

// One client's worst class is two metrics: the class's number and its recall. Clients report different classes, so
// neither metric has a mean: cli/quality.c combines both.
#define TERN_METRIC_WORST_CLASS "class_worst"
#define TERN_METRIC_WORST_RECALL "recall_worst"
bool tern_metric_is_worst_class(const char *name);

// --- How evenly rounds are distributed over clients

struct tern_fairness {
    uint32_t least;
    double median;
    uint32_t most;
    // 1: all clients have equally many rounds; 1 / clients: one client has all rounds.
    double jain;
};

// Computes Jain's index (sum x)^2 / (n sum x^2) (Jain, Chiu, Hawe: A Quantitative Measure of Fairness, DEC TR-301,
// 1984) and order statistics. rounds[0..clients): each client's rounds; the function sorts them.
struct tern_fairness tern_fairness_of(uint32_t *rounds, uint32_t clients);

// --- Updates of a round

// Returns the variance of a round's updates as in FDA (Theologitis et al., Communication-Efficient Distributed Deep
// Learning via Federated Dynamic Averaging, 2024, section 3): the mean of the updates' squared norms minus the squared
// norm of their mean, both with the same weights. 0 = unknown: fewer than two updates, or numbers that are not finite.
float tern_update_variance(double mean_square, double norm_of_mean, uint32_t updates);

#endif
