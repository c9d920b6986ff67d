// How far a client's local steps carry: the norm of a_i of FedNova (Wang et al., NeurIPS 2020,
// section 4), the sum of the weights with which its gradients enter its change. Pure; the same bits
// everywhere.
#ifndef TERN_STEPS_NORM_H
#define TERN_STEPS_NORM_H

#include <stdint.h>

// For steps >= 1 of SGD with momentum rho (0..0.9999) and a proximal term, alpha = learning rate *
// mu (values above 1 count as 1):
//   plain SGD      steps
//   momentum       (steps - rho (1 - rho^steps) / (1 - rho)) / (1 - rho)
//   proximal       (1 - (1 - alpha)^steps) / alpha
//   both           the sum of the weights of both together
// Exactly `steps` for plain SGD; always between 1 and steps / (1 - rho).
double tern_steps_norm(uint32_t steps, double rho, double alpha);

#endif
