// The accountant of differential privacy: from the noise of the rounds to (epsilon, delta). Called by the federation before it
// selects clients, and by `privacy` and `status` for a store that they read. Pure; reentrant.
//
// Two federations are neighbours if one client's updates are zeros in one of them. A round's noise multiplier is the standard
// deviation of its noise divided by the largest norm of one update. The discrete Gaussian noise of secure rounds has the zCDP of
// continuous Gaussian noise (Canonne, Kamath and Steinke, NeurIPS 2020, theorem 4). The loss of a client is the sum of
// 1 / multiplier^2 over the rounds that counted its update: twice its zCDP, and the square of mu in Gaussian DP.
#ifndef TERN_PRIVACY_H
#define TERN_PRIVACY_H

#include <stdint.h>

// Returns the delta of a federation that configures none: 1e-5, or the largest power of ten that is at most a tenth of
// 1 / clients if that is lower.
double tern_privacy_delta(uint64_t clients);

// Returns the loss of one round. noise: the noise multiplier; INFINITY for 0.
double tern_privacy_loss(double noise);

// Returns the epsilon that holds at this Renyi divergence of an order > 1 (Canonne, Kamath and Steinke, proposition 12). delta:
// above 0, below 1.
double tern_privacy_epsilon_of_order(double divergence, double order, double delta);

// Returns the epsilon of a client's loss, at the best order; the loss INFINITY gives INFINITY. It holds for discrete noise, for every way of selecting clients, and
// against everybody who sees the sums and who took part.
double tern_privacy_epsilon(double loss, double delta);

// --- Limits

// Settings of [privacy].
struct tern_privacy_settings {
    double noise;       // noise multiplier of the rounds to come; 0 = none
    double delta;       // 0 = tern_privacy_delta()
    double epsilon_max; // 0 = no limit
};

// Returns the delta that the settings choose for so many clients.
double tern_privacy_chosen_delta(const struct tern_privacy_settings *settings, uint64_t clients);

// Returns the largest loss with which a client may take part in one more round; below 0: none may. INFINITY: no limit.
double tern_privacy_loss_before(const struct tern_privacy_settings *settings, uint64_t clients);

// --- Poisson sampling

// Rounds that would select each client independently, with the same probability.
struct tern_poisson_rounds {
    double rate;  // this probability, 0 to 1
    double noise; // noise multiplier of each round, above 0
    double rounds;
};

// Returns the epsilon of Poisson sampling against somebody who does not learn who took part (Mironov, Talwar and Zhang 2019,
// section 3.3, integer orders). order: the best one; may be NULL.
double tern_privacy_epsilon_poisson(const struct tern_poisson_rounds *rounds, double delta,
                                    uint32_t *order);

#endif
