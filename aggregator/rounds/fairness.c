#include "rounds/fairness.h"

#include <stdlib.h>

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
