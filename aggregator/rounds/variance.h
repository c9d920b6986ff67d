// How far a round's updates are apart. Pure; reentrant.
#ifndef TERN_VARIANCE_H
#define TERN_VARIANCE_H

#include <stdint.h>

// Variance of a round's updates in the manner of FDA (Theologitis et al., Communication-Efficient
// Distributed Deep Learning via Federated Dynamic Averaging, 2024, section 3): the mean of their
// squared norms minus the squared norm of their mean, both weighted as the mean is. 0 when it is
// not known: fewer than two updates, or numbers that are not finite.
float tern_round_variance(double mean_square, double norm_of_mean, uint32_t updates);

#endif
