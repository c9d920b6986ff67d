// Limits of accepted updates. Within them nothing that is computed from accepted updates overflows float32, so every
// acknowledged update can be merged. The service refuses updates beyond them, the settings have the same ranges, and the
// strategies keep to MOVE_MAX. Constants only.
//
// With S = LOCAL_STEPS_MAX, L = SERVER_RATE_MAX, K = MOVE_MAX, R rounds (2^32 at most):
//  - A decoded value is at most its update's norm. tern_strategy_norm_max() bounds that norm: below N = NORM_MAX, and low
//    enough that the move, which L multiplies, is at most K.
//  - Weighted means: the weights add up to at most the gain g. Without normalisation g = 1. With normalisation,
//    p_i * a_eff / a_i adds up to a_eff * sum p_i / a_i <= S / (1 - rho): a client that claims one step, where its task
//    asked for S, is scaled up by the ratio of the norms of a_i, which lie between 1 and S / (1 - rho). No single factor
//    exceeds scale_max (at least 1) where that is set, and sum p_i = 1, so then g <= scale_max. Staleness only reduces.
//  - A rounded sum fl(a + b) is no further from a + b than a is, because a is a float. So a sum of floats is at most twice
//    the sum of their magnitudes, however many there are: acc <= 2 N g.
//  - Server momentum: with acc <= (1 - beta) K, |m| <= K stays true from round to round, also when
//    beta changes between them: beta K + (1 - beta) K = K. damp_stale_updates() only makes m smaller.
//  - Epochs of T iterates, T <= 10^6, whose last round moves the model back to their mean: the mean is at most T / 2 of
//    the other moves away, and 2 N (1 + T / 2) is below K.
//  - Adaptive steps: m is a mean of means, below K. v is limited to SQUARE_MAX, far below the largest float32, and
//    m / (sqrt(v) + tau) to K.
//  - Medians and trimmed means lie between the updates' values: below N.
//  - So one round moves the global model by at most K L, and |G| <= 1 + 2 K L R with rounding.
//  - A download leaves at most s / 2 of the largest difference, and W += decoded rounds by at most
//    2^-24 of the model: with s <= 2 - 10^-6 the differences stay below the fixed point
//    (K L + 2^-23 |G|) / (10^-6 / 4), and 3LC's scale is less than twice the largest.
#ifndef TERN_STRATEGY_BOUNDS_H
#define TERN_STRATEGY_BOUNDS_H

#define TERN_UPDATE_NORM_MAX 1e15 // largest Euclidean norm of an update's decoded values
// Most local steps of an update; equals TERN_WIRE_LOCAL_STEPS_MAX.
#define TERN_UPDATE_LOCAL_STEPS_MAX 1000000
#define TERN_SERVER_RATE_MAX 1e3
#define TERN_MOVE_MAX (2.0 * TERN_UPDATE_NORM_MAX * TERN_UPDATE_LOCAL_STEPS_MAX)
#define TERN_SQUARE_MAX 1e36 // largest second moment of an adaptive strategy

// These bounds leave out the rounding factors 1 + 2^-24 of single operations. tests/strategies compares them with
// float32's range with a thousandfold margin, which is far more.
#define TERN_ROUND_STEP_MAX (TERN_MOVE_MAX * TERN_SERVER_RATE_MAX)
#define TERN_GLOBAL_MAX (1.0 + 2.0 * TERN_ROUND_STEP_MAX * 4294967296.0)
#define TERN_DIFFERENCE_MAX ((TERN_ROUND_STEP_MAX + TERN_GLOBAL_MAX / 8388608.0) / 2.5e-7)

#endif
