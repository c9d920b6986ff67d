#include "rounds/spread.h"

#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

// Updates the means by each value (Welford: Note on a Method for Calculating Corrected Sums of Squares and Products,
// Technometrics 1962), which loses no digits when all values are similar.
void tern_spread_add(struct tern_spread *spread, bool higher_is_better, uint64_t client,
                     uint32_t examples, double value)
{
    const bool worse = higher_is_better ? value < spread->worst : value > spread->worst;
    if (spread->clients == 0 || worse) {
        spread->worst = value;
        spread->worst_client = client;
    }
    const double away = value - spread->mean;
    spread->clients++;
    spread->examples += examples;
    spread->mean += away / (double)spread->clients;
    spread->sum_squares += away * (value - spread->mean);
    spread->weighted_mean +=
        (value - spread->weighted_mean) * (double)examples / (double)spread->examples;
}

double tern_spread_deviation(const struct tern_spread *spread)
{
    return spread->clients > 0 ? sqrt(spread->sum_squares / (double)spread->clients) : 0.0;
}

bool tern_metric_higher_is_better(const char *name)
{
    static const char *const gains[] = {"accuracy", "f1", "precision", "recall", "auc", "r2"};
    for (size_t i = 0; i < sizeof gains / sizeof gains[0]; i++) {
        if (strncmp(name, gains[i], strlen(gains[i])) == 0) {
            return true;
        }
    }
    return false;
}

bool tern_metric_is_worst_class(const char *name)
{
    return strcmp(name, TERN_METRIC_WORST_CLASS) == 0 ||
           strcmp(name, TERN_METRIC_WORST_RECALL) == 0;
}

static int ascending(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a;
    uint32_t y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

struct tern_fairness tern_fairness_of(uint32_t *rounds, uint32_t clients)
{
    struct tern_fairness fairness = {.jain = 1.0};
    double sum = 0.0;
    double squares = 0.0;
    if (clients == 0) {
        return fairness;
    }
    qsort(rounds, clients, sizeof rounds[0], ascending);
    for (uint32_t i = 0; i < clients; i++) {
        sum += (double)rounds[i];
        squares += (double)rounds[i] * (double)rounds[i];
    }
    fairness.least = rounds[0];
    fairness.most = rounds[clients - 1];
    fairness.median = ((double)rounds[(clients - 1) / 2] + (double)rounds[clients / 2]) / 2.0;
    fairness.jain = squares > 0.0 ? sum * sum / ((double)clients * squares) : 1.0;
    return fairness;
}

float tern_update_variance(double mean_square, double norm_of_mean, uint32_t updates)
{
    double variance = mean_square - norm_of_mean * norm_of_mean;
    if (updates < 2 || !isfinite(variance) || variance < 0.0 || variance > 1e30) {
        return 0.0F;
    }
    return (float)variance;
}
