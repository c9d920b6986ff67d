// Adaptive server optimisers (Reddi et al., ICLR 2021, algorithm 2), with d the weighted mean of
// the updates:
//   m <- beta1 m + (1 - beta1) d
//   v <- of each strategy
//   model <- model + server learning rate * m / (sqrt(v) + tau)
// m starts at zero and v at tau^2, the least that the paper allows; there is no bias correction, as
// in the paper. Computed in float64 and kept in float32. Pure; only strategies/ includes this.
#ifndef TERN_ADAPTIVE_H
#define TERN_ADAPTIVE_H

#include "strategies/sums.h"

// The next v. square: of d.
typedef double (*tern_second_moment)(double v, double square, double beta2);

// With m == NULL there is no first moment: beta1 = 0. TERN_ERR_STATE, TERN_ERR_NON_FINITE as the
// verb merge.
enum tern_result tern_adaptive_merge(struct tern_strategy_sums *sums, float *global, float *m,
                                     float *v, tern_second_moment next);

#define TERN_ADAPTIVE_RATE 0.01F

#endif
