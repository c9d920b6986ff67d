#include "rounds/privacy.h"

#include <math.h>
#include <stddef.h>

double tern_privacy_delta(uint64_t clients)
{
    double delta = 1e-5;
    for (uint64_t most = 10000; most < clients && delta > 1e-15; most *= 10) {
        delta /= 10.0;
    }
    return delta;
}

double tern_privacy_chosen_delta(const struct tern_privacy_settings *settings, uint64_t clients)
{
    return settings->delta > 0.0 ? settings->delta : tern_privacy_delta(clients);
}

double tern_privacy_loss(double noise)
{
    return noise > 0.0 ? 1.0 / (noise * noise) : INFINITY;
}

double tern_privacy_epsilon_of_order(double divergence, double order, double delta)
{
    const double epsilon =
        divergence + log1p(-1.0 / order) - (log(delta) + log(order)) / (order - 1.0);
    return epsilon > 0.0 ? epsilon : 0.0;
}

// --- Rounds in which the client is known to take part

#define GRID 64.0 // orders are 1 + e^(step / GRID)

static double epsilon_at_step(double loss, double delta, double step)
{
    const double order = 1.0 + exp(step / GRID);
    return tern_privacy_epsilon_of_order(loss * order / 2.0, order, delta);
}

double tern_privacy_epsilon(double loss, double delta)
{
    if (loss <= 0.0 || isinf(loss)) {
        return loss > 0.0 ? INFINITY : 0.0;
    }
    // The best order without the logarithms of the order. Every order is a valid bound, so the end of the walk is one, too.
    double step = floor(GRID * log(-2.0 * log(delta) / loss) / 2.0);
    double best = epsilon_at_step(loss, delta, step);
    const double direction = epsilon_at_step(loss, delta, step + 1.0) < best ? 1.0 : -1.0;
    for (double next = best; next <= best && best > 0.0; step += direction) {
        best = next;
        next = epsilon_at_step(loss, delta, step + direction);
    }
    return best;
}

#define HALVINGS 100 // more than the bits of a double's mantissa

// Returns the largest loss whose tern_privacy_epsilon() is at most `epsilon`.
static double largest_loss(double epsilon, double delta)
{
    double below = 0.0;
    double above = 2.0 * epsilon; // the epsilon of this loss exceeds its zCDP, which is half of it
    for (int i = 0; i < HALVINGS; i++) {
        const double middle = (below + above) / 2.0;
        if (tern_privacy_epsilon(middle, delta) <= epsilon) {
            below = middle;
        } else {
            above = middle;
        }
    }
    return below;
}

double tern_privacy_loss_before(const struct tern_privacy_settings *settings, uint64_t clients)
{
    return settings->epsilon_max > 0.0
               ? largest_loss(settings->epsilon_max, tern_privacy_chosen_delta(settings, clients)) -
                     tern_privacy_loss(settings->noise)
               : INFINITY;
}

// --- Poisson sampling

#define ORDER_MAX 512u

// Returns log(e^a + e^b).
static double log_add(double a, double b)
{
    const double larger = a > b ? a : b;
    return isinf(larger) ? larger : larger + log1p(exp(-fabs(a - b)));
}

// Returns the Renyi divergence of one round at an integer order.
static double poisson_divergence(const struct tern_poisson_rounds *rounds, uint32_t order)
{
    const double without = log1p(-rounds->rate);
    const double with = log(rounds->rate);
    double choices = 0.0; // log of the binomial coefficient
    double sum = -INFINITY;
    for (uint32_t k = 0; k <= order; k++) {
        if (k > 0) {
            choices += log((double)order - k + 1.0) - log((double)k);
        }
        const double others = k < order ? (order - k) * without : 0.0; // not 0 * log 0
        const double moment = (double)k * ((double)k - 1.0) / (2.0 * rounds->noise * rounds->noise);
        sum = log_add(sum, choices + others + (k > 0 ? k * with : 0.0) + moment);
    }
    return sum / (order - 1.0);
}

double tern_privacy_epsilon_poisson(const struct tern_poisson_rounds *rounds, double delta,
                                    uint32_t *order)
{
    double best = INFINITY;
    if (rounds->rate <= 0.0 || rounds->rounds <= 0.0) {
        return 0.0;
    }
    for (uint32_t at = 2; at <= ORDER_MAX; at++) {
        const double divergence = rounds->rounds * poisson_divergence(rounds, at);
        const double epsilon = tern_privacy_epsilon_of_order(divergence, at, delta);
        if (epsilon < best) {
            best = epsilon;
            if (order != NULL) {
                *order = at;
            }
        }
    }
    return best;
}
