// How evenly rounds fell on the clients. Who calls: `tern-aggregator report fairness`. Pure.
#ifndef TERN_FAIRNESS_H
#define TERN_FAIRNESS_H

#include <stdint.h>

struct tern_fairness {
    uint32_t least;
    double median;
    uint32_t most;
    double jain; // 1: all alike; 1 / clients: one has all; 1 when nobody has any
};

// Jain's index: (sum x)^2 / (n sum x^2) (Jain, Chiu, Hawe: A Quantitative Measure of Fairness, DEC
// TR-301, 1984). rounds[0..clients) of each client; it is sorted.
struct tern_fairness tern_fairness_of(uint32_t *rounds, uint32_t clients);

#endif
