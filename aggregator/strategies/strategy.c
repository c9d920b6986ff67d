#include "strategies/strategy.h"

#include "strategies/bounds.h"
#include <float.h>
#include <string.h>

// --- The norm of local steps

// One step of u <- rho u - alpha d + 1, d <- d + u, with a gradient of 1 throughout, is a linear map of (d, u, 1). Squaring
// computes its power for a million steps in 20 products. pow() is not used: its last bit differs between libraries.
enum { SIZE = 3 };

static void multiply(double a[SIZE][SIZE], double b[SIZE][SIZE], double product[SIZE][SIZE])
{
    double sums[SIZE][SIZE] = {{0.0}};
    for (int i = 0; i < SIZE; i++) {
        for (int j = 0; j < SIZE; j++) {
            for (int k = 0; k < SIZE; k++) {
                sums[i][j] += a[i][k] * b[k][j];
            }
        }
    }
    memcpy(product, sums, sizeof sums);
}

static double distance(uint32_t steps, double rho, double alpha)
{
    double power[SIZE][SIZE] = {{1.0, 0.0, 0.0}, {0.0, 1.0, 0.0}, {0.0, 0.0, 1.0}};
    double step[SIZE][SIZE] = {{1.0 - alpha, rho, 1.0}, {-alpha, rho, 1.0}, {0.0, 0.0, 1.0}};
    for (; steps > 0; steps /= 2) {
        if (steps % 2 == 1) {
            multiply(power, step, power);
        }
        multiply(step, step, step);
    }
    return power[0][2];
}

double tern_steps_norm(uint32_t steps, double rho, double alpha)
{
    if (!(rho > 0.0) && !(alpha > 0.0)) {
        return (double)steps;
    }
    double most = (double)steps / (1.0 - rho);
    double norm = distance(steps, rho, alpha < 1.0 ? alpha : 1.0);
    norm = norm < most ? norm : most;
    return norm > 1.0 ? norm : 1.0;
}

#define EXACT_IN_DOUBLE (UINT64_C(1) << 53)
// Norms of a_i are stored in whole numbers and fractions of 1 / PARTS.
#define PARTS (UINT32_C(1) << 24)

#define NUMBER(symbol, name, least, most, or_zero, ...)                                            \
    [TERN_STRATEGY_##symbol] = {#name, least, most, or_zero},
#define WHOLE(symbol, name, least, most, ...) NUMBER(symbol, name, least, most, false)
#define YES_NO(symbol, name, ...) NUMBER(symbol, name, 0, 1, false)
#define GIVEN(symbol, name, least, most) NUMBER(symbol, name, least, most, false)
const struct tern_strategy_parameter_entry tern_strategy_parameter_table[TERN_STRATEGY_PARAMETERS] =
    {TERN_STRATEGY_PARAMETER_LIST(NUMBER, WHOLE, YES_NO, GIVEN)};
#undef NUMBER
#undef WHOLE
#undef YES_NO
#undef GIVEN

// Compares with the range's ends as float32, because a setting at an end is rounded to float32.
bool tern_strategy_parameter_fits(enum tern_strategy_parameter parameter, float value)
{
    const struct tern_strategy_parameter_entry *entry = &tern_strategy_parameter_table[parameter];
    bool zero = value >= 0.0F && value <= 0.0F;
    bool within = value >= (float)entry->least && value <= (float)entry->most;
    return within || (zero && entry->or_zero);
}

bool tern_strategy_has_enough_updates(const struct tern_strategy_rule *rule, uint32_t updates)
{
    const struct tern_strategy *strategy = rule->strategy;
    return strategy->least_updates == NULL || updates >= strategy->least_updates(rule, updates);
}

bool tern_strategy_is_plain_mean(const struct tern_strategy *strategy)
{
    return strategy->combine == NULL && !strategy->accepts_late_updates;
}

// --- Normalisation

bool tern_strategy_normalises(const struct tern_strategy_rule *rule)
{
    return rule->strategy->normalises || rule->parameters[TERN_STRATEGY_NORMALISE] > 0.0F;
}

static double rule_norm(const struct tern_strategy_rule *rule, uint32_t steps)
{
    double alpha = (double)rule->learning_rate * (double)rule->parameters[TERN_STRATEGY_PROX_MU];
    return tern_steps_norm(steps, (double)rule->parameters[TERN_STRATEGY_LOCAL_MOMENTUM], alpha);
}

struct fixed_norm {
    uint64_t whole;
    uint32_t part; // in units of 1 / PARTS
};

// Returns the norm as integers, whose sums do not depend on the order in which updates arrive.
static struct fixed_norm to_fixed_norm(const struct tern_strategy_rule *rule, uint32_t steps)
{
    double norm = rule_norm(rule, steps);
    struct fixed_norm kept = {.whole = (uint64_t)norm};
    kept.part = (uint32_t)((norm - (double)kept.whole) * PARTS);
    return kept;
}

// Returns floor(log2(whole)), at most TERN_STRATEGY_OCTAVES - 1; whole: a norm, at least 1.
static unsigned octave_of(uint64_t whole)
{
    unsigned octave = 0;
    while (whole > 1 && octave < TERN_STRATEGY_OCTAVES - 1) {
        whole /= 2;
        octave++;
    }
    return octave;
}

// Returns the highest octave whose norms count in full, two octaves above the median's. Each update has one vote, so
// fewer than half of the clients cannot move the median above the other clients' norms, whatever steps they claim.
static unsigned last_octave(const struct tern_strategy_totals *totals)
{
    uint32_t seen = 0;
    for (unsigned i = 0; i < TERN_STRATEGY_OCTAVES - 3; i++) {
        seen += totals->octaves[i].updates;
        if (seen > totals->updates / 2) {
            return i + 2;
        }
    }
    return TERN_STRATEGY_OCTAVES - 1;
}

// Returns the sum of num_examples * norm, where a norm above the octave `last` counts as that octave's end. Sums
// integers up to the last line: if no norm is above the octave, the bits are those of the sum without a bound.
static double sum_of_norms(const struct tern_strategy_totals *totals)
{
    const unsigned last = last_octave(totals);
    uint64_t whole = totals->norm_whole;
    uint64_t part = totals->norm_part;
    for (unsigned i = last + 1; i < TERN_STRATEGY_OCTAVES; i++) {
        const struct tern_strategy_octave *beyond = &totals->octaves[i];
        whole -= beyond->norm_whole - (beyond->num_examples << (last + 1));
        part -= beyond->norm_part;
    }
    return (double)whole + (double)part / PARTS;
}

// Limits a factor to scale_max, which is 0 (no limit) or at least 1.
static double bound_scale(const struct tern_strategy_rule *rule, double scale)
{
    double most = (double)rule->parameters[TERN_STRATEGY_SCALE_MAX];
    return most > 0.0 && scale > most ? most : scale;
}

// Returns the mean of all updates' step norms divided by the norm of local_steps; exactly 1 if all updates took equal steps,
// so that the weight is exactly FedAvg's.
double tern_strategy_steps_factor(const struct tern_strategy_totals *totals, uint32_t local_steps)
{
    if (!tern_strategy_normalises(&totals->rule) || totals->steps_min == totals->steps_max) {
        return 1.0;
    }
    double sum = sum_of_norms(totals);
    struct fixed_norm own = to_fixed_norm(&totals->rule, local_steps);
    double scale =
        sum / (double)totals->num_examples / ((double)own.whole + (double)own.part / PARTS);
    return bound_scale(&totals->rule, scale);
}

double tern_strategy_age_weight(const struct tern_strategy *strategy,
                                const struct tern_contribution *contribution)
{
    return strategy->age_weight != NULL ? strategy->age_weight(contribution) : 1.0;
}

double tern_strategy_steps_factor_max(const struct tern_strategy_rule *rule, uint32_t asked,
                                      uint32_t done)
{
    if (!tern_strategy_normalises(rule)) {
        return 1.0;
    }
    return bound_scale(rule, rule_norm(rule, asked) / rule_norm(rule, done));
}

double tern_strategy_norm_max(const struct tern_strategy_rule *rule)
{
    double rho = (double)rule->parameters[TERN_STRATEGY_LOCAL_MOMENTUM];
    double beta = (double)rule->parameters[TERN_STRATEGY_SERVER_MOMENTUM];
    double steps_gain = bound_scale(rule, TERN_UPDATE_LOCAL_STEPS_MAX / (1.0 - rho));
    double gain = tern_strategy_normalises(rule) ? steps_gain : 1.0;
    double norm = TERN_MOVE_MAX / 2.0 * (1.0 - beta) / gain;
    return norm < TERN_UPDATE_NORM_MAX ? norm : TERN_UPDATE_NORM_MAX;
}

// --- States

void tern_strategy_start_state(const struct tern_strategy_rule *rule, size_t state, float *values,
                               uint32_t count)
{
    float tau = rule->parameters[TERN_STRATEGY_TAU];
    float start = rule->strategy->states[state].starts_at_tau_squared ? tau * tau : 0.0F;
    for (uint32_t i = 0; i < count; i++) {
        values[i] = start;
    }
}

// --- Counting

void tern_strategy_totals_init(struct tern_strategy_totals *totals,
                               const struct tern_strategy_rule *rule)
{
    memset(totals, 0, sizeof *totals);
    totals->rule = *rule;
}

// Adds a * b to *sum. Returns false, and changes nothing, if the sum would exceed `most`.
static bool add_product(uint64_t *sum, uint64_t a, uint64_t b, uint64_t most)
{
    if (b != 0 && a > most / b) {
        return false;
    }
    if (*sum > most - a * b) {
        return false;
    }
    *sum += a * b;
    return true;
}

// Returns num_examples * mean, limited to the range of float32, since a client can claim any loss. The limit is harmless: no
// loss moves the model.
static struct tern_exact_term loss_of(uint32_t num_examples, float mean)
{
    double loss = (double)num_examples * (double)mean;
    loss = loss < (double)FLT_MAX ? loss : (double)FLT_MAX;
    loss = loss > -(double)FLT_MAX ? loss : -(double)FLT_MAX;
    return tern_exact_term((float)loss);
}

enum tern_result tern_strategy_count_update(struct tern_strategy_totals *totals,
                                            const struct tern_contribution *contribution)
{
    uint64_t n = contribution->num_examples;
    uint32_t steps = contribution->local_steps;
    if (n == 0 || steps == 0) {
        return TERN_ERR_ARGUMENT;
    }
    if (totals->updates >= TERN_EXACT_TERMS_MAX) {
        return TERN_ERR_TOO_LARGE;
    }
    struct tern_strategy_totals sums = *totals;
    bool fits = add_product(&sums.example_steps, n, steps, EXACT_IN_DOUBLE);
    if (tern_strategy_normalises(&sums.rule)) {
        struct fixed_norm norm = to_fixed_norm(&sums.rule, steps);
        fits = fits && add_product(&sums.norm_whole, n, norm.whole, EXACT_IN_DOUBLE) &&
               add_product(&sums.norm_part, n, norm.part, UINT64_MAX / 2);
        struct tern_strategy_octave *octave = &sums.octaves[octave_of(norm.whole)];
        octave->updates++;
        octave->num_examples += n;
        octave->norm_whole += n * norm.whole;
        octave->norm_part += n * norm.part;
    }
    if (!fits) {
        return TERN_ERR_TOO_LARGE;
    }
    const struct tern_exact_term loss = loss_of(contribution->num_examples, contribution->loss);
    sums.loss[loss.bin] += loss.amount;
    sums.num_examples += n;
    sums.updates++;
    sums.steps_min = sums.steps_min == 0 || steps < sums.steps_min ? steps : sums.steps_min;
    sums.steps_max = steps > sums.steps_max ? steps : sums.steps_max;
    *totals = sums;
    return TERN_OK;
}

uint32_t tern_strategy_counted_examples(const struct tern_strategy_totals *totals, uint32_t claimed)
{
    const uint32_t most = totals->examples_max;
    return most > 0 && claimed > most ? most : claimed;
}

static void recount_norm(struct tern_strategy_totals *totals, uint32_t steps, uint64_t less)
{
    const struct fixed_norm norm = to_fixed_norm(&totals->rule, steps);
    struct tern_strategy_octave *octave = &totals->octaves[octave_of(norm.whole)];
    totals->norm_whole -= less * norm.whole;
    totals->norm_part -= less * norm.part;
    octave->num_examples -= less;
    octave->norm_whole -= less * norm.whole;
    octave->norm_part -= less * norm.part;
}

// Subtraction is exact, because each term is a sum of integers.
void tern_strategy_cap_examples(struct tern_strategy_totals *totals,
                                const struct tern_contribution *contribution)
{
    const uint32_t counts = tern_strategy_counted_examples(totals, contribution->num_examples);
    const uint64_t less = contribution->num_examples - counts;
    if (less == 0) {
        return;
    }
    totals->num_examples -= less;
    totals->example_steps -= less * contribution->local_steps;
    if (tern_strategy_normalises(&totals->rule)) {
        recount_norm(totals, contribution->local_steps, less);
    }
    const struct tern_exact_term claimed = loss_of(contribution->num_examples, contribution->loss);
    const struct tern_exact_term counted = loss_of(counts, contribution->loss);
    totals->loss[claimed.bin] -= claimed.amount;
    totals->loss[counted.bin] += counted.amount;
}
