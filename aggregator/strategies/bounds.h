// What an accepted update may hold and claim, chosen so that nothing that follows from accepted
// updates can overflow float32: an update that was acknowledged can always be merged. Who uses it:
// the service, which refuses what is outside; the settings have the same ranges. Plain constants.
//
// With S = LOCAL_STEPS_MAX, N = NORM_MAX, L = SERVER_RATE_MAX, R rounds (2^32 at most):
//  - A decoded value is at most its update's norm, N.
//  - The weights of a round, p_i * tau_eff / tau_i, add up to tau_eff * sum p_i / tau_i <= S: a
//    client that did one step of S asked ones (or says so) is scaled up by S, never by more.
//  - fl(a + b) is no further from a + b than a is, since a is a float itself: a sum of floats is at
//    most twice the sum of their magnitudes, however many there are. So acc <= 2 N S,
//    one round moves the global model by at most 2 N S L, and |G| <= 1 + 4 N S L R.
//  - A download leaves at most s / 2 of the largest difference, and W += decoded rounds by at most
//    2^-24 of the model: with s <= 2 - 10^-6 the differences stay below the fixed point
//    (2 N S L + 2^-23 |G|) / (10^-6 / 4), and 3LC's scale is less than twice the largest.
#ifndef TERN_STRATEGY_BOUNDS_H
#define TERN_STRATEGY_BOUNDS_H

#define TERN_UPDATE_NORM_MAX 1e15           // Euclidean, of the decoded values
#define TERN_UPDATE_LOCAL_STEPS_MAX 1000000 // TERN_WIRE_LOCAL_STEPS_MAX
#define TERN_SERVER_RATE_MAX 1e3

// The exact sums leave out the factors of 1 + 2^-24 of single products; tests/strategies holds
// these against float32's range with a thousandfold margin, which is far more.
#define TERN_ROUND_STEP_MAX                                                                        \
    (2.0 * TERN_UPDATE_NORM_MAX * TERN_UPDATE_LOCAL_STEPS_MAX * TERN_SERVER_RATE_MAX)
#define TERN_GLOBAL_MAX (1.0 + 2.0 * TERN_ROUND_STEP_MAX * 4294967296.0)
#define TERN_DIFFERENCE_MAX ((TERN_ROUND_STEP_MAX + TERN_GLOBAL_MAX / 8388608.0) / 2.5e-7)

#endif
