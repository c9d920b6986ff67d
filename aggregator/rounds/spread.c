#include "rounds/spread.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

// The means go on from value to value (Welford: Note on a Method for Calculating Corrected Sums of Squares and
// Products, Technometrics 1962), which loses no digits where all are alike.
void tern_spread_add(struct tern_spread *spread, bool gain, uint64_t client, uint32_t examples,
                     double value)
{
    const bool worse = gain ? value < spread->worst : value > spread->worst;
    if (spread->clients == 0 || worse) {
        spread->worst = value;
        spread->worst_client = client;
    }
    const double away = value - spread->mean;
    spread->clients++;
    spread->examples += examples;
    spread->mean += away / (double)spread->clients;
    spread->squares += away * (value - spread->mean);
    spread->weighted += (value - spread->weighted) * (double)examples / (double)spread->examples;
}

double tern_spread_deviation(const struct tern_spread *spread)
{
    return spread->clients > 0 ? sqrt(spread->squares / (double)spread->clients) : 0.0;
}

bool tern_metric_is_gain(const char *name)
{
    static const char *const gains[] = {"accuracy", "f1", "precision", "recall", "auc", "r2"};
    for (size_t i = 0; i < sizeof gains / sizeof gains[0]; i++) {
        if (strncmp(name, gains[i], strlen(gains[i])) == 0) {
            return true;
        }
    }
    return false;
}

bool tern_metric_is_of_worst_class(const char *name)
{
    return strcmp(name, TERN_METRIC_WORST_CLASS) == 0 ||
           strcmp(name, TERN_METRIC_WORST_RECALL) == 0;
}
