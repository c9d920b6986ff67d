// A strategy turns the updates of a round into the next global model. Called by the commit of a round and by the replay of
// stored rounds, which must give the same bits. Pure; the caller owns all memory; not locked.
//
// tern_strategy_count_update() sums integers as updates arrive, so that their order does not matter. Most strategies then take
// the weighted mean of the updates, which the caller computes (merge/exact_mean.h): tern_strategy_take_mean(). A strategy
// with combine() gets the values of all updates by tern_strategy_accumulate(), in ascending (client, round) order: all
// coordinates as one block if memory suffices. Otherwise the caller passes all updates once for each block. The same block
// is combined in several passes without passing updates again.
#ifndef TERN_STRATEGY_H
#define TERN_STRATEGY_H

#include "codec/container.h"
#include "result.h"
#include "strategies/exact.h"
#include "strategies/list.h"
#include "tensor/model.h"
#include "util/spec.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TERN_STRATEGY_DEFAULT TERN_STRATEGIES(TERN_STRATEGY_NAME_FIRST, TERN_STRATEGY_NAME_NONE)
#define TERN_STRATEGY_NAME_FIRST(name) #name
#define TERN_STRATEGY_NAME_NONE(name)

// --- Parameters

#define TERN_STRATEGY_ID(symbol, ...) TERN_STRATEGY_##symbol,
enum tern_strategy_parameter {
    TERN_STRATEGY_PARAMETER_LIST(TERN_STRATEGY_ID, TERN_STRATEGY_ID, TERN_STRATEGY_ID,
                                 TERN_STRATEGY_ID) TERN_STRATEGY_PARAMETERS, // their number
};

struct tern_strategy_parameter_entry {
    const char *name; // name in a round's row, such as "beta1"
    double least;
    double most;
    bool or_zero; // 0 is allowed although it is below `least`, and means "without a bound"
};
extern const struct tern_strategy_parameter_entry
    tern_strategy_parameter_table[TERN_STRATEGY_PARAMETERS];

// Whether the parameter may have this value; false for NaN.
bool tern_strategy_parameter_fits(enum tern_strategy_parameter parameter, float value);

#define TERN_PARAMETER_BIT(symbol) (UINT32_C(1) << TERN_STRATEGY_##symbol)
// The parameters of every strategy that takes a weighted mean.
#define TERN_MEAN_PARAMETERS                                                                       \
    (TERN_PARAMETER_BIT(NORMALISE) | TERN_PARAMETER_BIT(LOCAL_MOMENTUM) |                          \
     TERN_PARAMETER_BIT(SCALE_MAX) | TERN_PARAMETER_BIT(NORM_BOUND) |                              \
     TERN_PARAMETER_BIT(EXAMPLES_BOUND))

struct tern_strategy;

// A strategy and its parameters, by which a round is merged.
struct tern_strategy_rule {
    const struct tern_strategy *strategy;
    // 0 for parameters that the strategy does not use.
    float parameters[TERN_STRATEGY_PARAMETERS];
    float server_learning_rate; // above 0
    // Learning rate of the clients; with prox_mu, the norm of a_i depends on it.
    float learning_rate;
};

// --- Updates

// What a client claims about its update, and the update's staleness, which the aggregator computes.
struct tern_contribution {
    uint32_t num_examples; // >= 1
    uint32_t local_steps;  // >= 1
    float loss;            // mean training loss
    uint32_t staleness;    // number of versions made since the base version of the update's task
};

struct tern_strategy_report {
    uint32_t updates;
    uint64_t num_examples;
    float mean_loss;       // mean training loss, weighted by num_examples
    float effective_steps; // mean of the local steps, weighted by num_examples
    float mean_norm;       // Euclidean norm of the updates' mean, or of the result of combine()
    float step_norm;       // Euclidean norm of the change of the global model
};

// Sums over the updates whose norm of a_i is in [2^i, 2^(i + 1)): their number, their examples, and the sum of
// num_examples * norm, in whole units and 2^-24ths.
struct tern_strategy_octave {
    uint32_t updates;
    uint64_t num_examples;
    uint64_t norm_whole;
    uint64_t norm_part;
};

#define TERN_STRATEGY_OCTAVES 48

// Sums over the claims of all counted updates.
struct tern_strategy_totals {
    struct tern_strategy_rule rule;
    uint32_t updates;
    uint64_t num_examples;
    uint64_t example_steps;         // sum of num_examples * local_steps
    uint64_t loss[TERN_EXACT_BINS]; // sum of num_examples * loss, each rounded to float32
    // The sums over all octaves, and the octaves; zeros if the rule does not normalise.
    uint64_t norm_whole;
    uint64_t norm_part;
    struct tern_strategy_octave octaves[TERN_STRATEGY_OCTAVES];
    uint32_t steps_min; // fewest local steps of an update; 0: no update yet
    uint32_t steps_max;
    uint32_t examples_max; // most examples for which an update counts; 0 = as many as it claims
};

#define TERN_STRATEGY_STATES 2

// Memory of a merge, owned by the caller. Members after `states` are for strategies with combine(); NULL and 0 for others.
struct tern_strategy_memory {
    float *acc; // model->count values
    // Model->count values of each state; NULL: the strategy has no such state.
    float *states[TERN_STRATEGY_STATES];
    float *decoded;     // model->count values
    float *values;      // values_room values
    size_t values_room; // >= totals.updates
    void *scratch;      // strategy->scratch(totals.updates) bytes
};

// The sums of one round's merge.
struct tern_strategy_sums {
    const struct tern_strategy *strategy;
    const struct tern_model *model;
    struct tern_strategy_totals totals;
    struct tern_strategy_memory memory;

    uint32_t accumulated; // number of updates in the present block
    uint32_t pass;        // number of complete passes over all values
    uint32_t first;       // first coordinate that is not combined in the present pass
    double mean_square;   // squared norm of the updates' mean, before step()
    double step_square;   // squared norm of the change of the model
};

// The same coordinates of every update, in the order of the updates.
struct tern_strategy_block {
    const float *values; // values[u * width .. (u + 1) * width) are those of update u
    uint32_t updates;
    uint32_t first; // index of the first coordinate
    uint32_t width; // number of coordinates; the whole model if memory suffices
    uint32_t pass;  // number of this pass, from 0
};

struct tern_strategy_state {
    const char *name; // name in the store, such as "m"; NULL = the strategy has no such state
    bool starts_at_tau_squared; // the state starts at tau squared rather than at zero
};

struct tern_strategy {
    const char *name;
    uint32_t parameters;        // bit i is set if the strategy uses parameter i
    float server_learning_rate; // default of the key server_learning_rate
    bool normalises;            // the strategy normalises always, without the parameter `normalise`
    // Updates that were made for closed rounds count in the open round.
    bool accepts_late_updates;
    // Rounds form epochs: an epoch begins with a full gradient, which its other rounds use (federation/round.c).
    bool has_epochs;
    // Returns the factor on an update's weight for its age, at most 1; NULL: 1.
    double (*age_weight)(const struct tern_contribution *contribution);
    struct tern_strategy_state states[TERN_STRATEGY_STATES];

    // Returns the fewest updates with which a round of `updates` tolerates the configured attackers; NULL: 1.
    uint32_t (*least_updates)(const struct tern_strategy_rule *rule, uint32_t updates);

    // Combines the updates' values in place of their weighted mean. Called for each block, `passes` times over. The
    // last pass sets memory.acc at the block's coordinates. memory.scratch, of scratch(updates) bytes aligned for any
    // type, keeps its content between the calls. NULL, with 0 passes: the strategy takes the weighted mean.
    uint32_t passes;
    uint64_t (*scratch)(uint32_t updates);
    void (*combine)(struct tern_strategy_sums *sums, const struct tern_strategy_block *block);

    // Turns memory.acc, the mean or the result of combine(), into the change of the global model, before the server's
    // learning rate, and updates the states. NULL: acc is the change.
    void (*step)(struct tern_strategy_sums *sums);

    // Updates the states after the round's download is made, by how far replica[0..count), from which clients train, is
    // behind global[0..count). NULL: the states stay the same.
    void (*damp_stale_updates)(const struct tern_strategy_rule *rule, const float *global,
                               const float *replica, uint32_t count, float *const *states);
};

// --- Spec strings: "fedadam:beta1=0.9,tau=1e-3" (util/spec.h)

// The strategy and parameters that a spec string names. Every strategy has the key average_versions; strategies without
// epochs also have server_learning_rate.
struct tern_strategy_choice {
    const struct tern_strategy *strategy;
    float server_learning_rate; // above 0
    uint32_t average_versions;  // number of versions in the averaged model; 0 = no averaged model
    float parameters[TERN_STRATEGY_PARAMETERS]; // 0 for parameters without a key of the strategy
};

extern const struct tern_spec_list tern_strategy_specs;

// Parses a spec string. Errors of tern_spec_parse(), with the reason in `why`; on error *choice is unchanged.
TERN_MUST_USE enum tern_result tern_strategy_parse(const char *spec,
                                                   struct tern_strategy_choice *choice,
                                                   char why[TERN_SPEC_SENTENCE_MAX]);

// --- Looking up

// Returns the strategy with this name, or NULL.
const struct tern_strategy *tern_strategy_find(const char *name);

// Whether the rule divides updates by the norm of a_i, so that clients with more steps do not weigh more (FedNova: Wang et
// al., NeurIPS 2020).
bool tern_strategy_normalises(const struct tern_strategy_rule *rule);

// Whether a round may close with `updates` updates: at least strategy->least_updates().
bool tern_strategy_has_enough_updates(const struct tern_strategy_rule *rule, uint32_t updates);

// Whether the strategy takes the weighted mean of the round's own updates. Then each update is added independently of
// other updates, so updates can be summed as they arrive, and mean_norm of the report is the norm of this mean.
bool tern_strategy_is_plain_mean(const struct tern_strategy *strategy);

// Returns the factor on an update's weight for its local steps: the mean norm of a_i divided by the update's norm, at
// most scale_max. Call it after all updates are counted.
double tern_strategy_steps_factor(const struct tern_strategy_totals *totals, uint32_t local_steps);

// Returns the factor on an update's weight for its age.
double tern_strategy_age_weight(const struct tern_strategy *strategy,
                                const struct tern_contribution *contribution);

// Returns the largest steps factor that an update of `done` local steps can get in any round whose tasks require at
// most `asked` steps.
double tern_strategy_steps_factor_max(const struct tern_strategy_rule *rule, uint32_t asked,
                                      uint32_t done);

// Returns the largest Euclidean norm that an update may have under this rule, at most TERN_UPDATE_NORM_MAX; see
// bounds.h.
double tern_strategy_norm_max(const struct tern_strategy_rule *rule);

// Sets a state to its initial values, model->count of them.
void tern_strategy_start_state(const struct tern_strategy_rule *rule, size_t state, float *values,
                               uint32_t count);

// Sets *totals to those of a round without an update.
void tern_strategy_totals_init(struct tern_strategy_totals *totals,
                               const struct tern_strategy_rule *rule);

// Counts one update. On error the totals are unchanged.
// TERN_ERR_ARGUMENT   num_examples or local_steps is 0
// TERN_ERR_TOO_LARGE  the totals would no longer be exact in float64 (above 2^53), or sums of so many updates would not
// be (TERN_EXACT_TERMS_MAX)
TERN_MUST_USE enum tern_result
tern_strategy_count_update(struct tern_strategy_totals *totals,
                           const struct tern_contribution *contribution);

// Returns for how many examples an update with `claimed` examples counts.
uint32_t tern_strategy_counted_examples(const struct tern_strategy_totals *totals,
                                        uint32_t claimed);

// After all updates are counted and examples_max is set: replaces an update's claimed examples in the totals by
// examples_max. Changes nothing for a claim within examples_max.
void tern_strategy_cap_examples(struct tern_strategy_totals *totals,
                                const struct tern_contribution *contribution);

// Begins the merge after all updates are counted: zeroes all sums, and acc if the strategy has combine(); keeps the states.
void tern_strategy_begin(struct tern_strategy_sums *sums, const struct tern_model *model,
                         const struct tern_strategy_totals *totals,
                         const struct tern_strategy_memory *memory);

// Takes memory.acc, which the caller has set, as the weighted mean of all counted updates.
// TERN_ERR_STATE  there are no updates, or the strategy has combine()
TERN_MUST_USE enum tern_result tern_strategy_take_mean(struct tern_strategy_sums *sums);

// Adds one update, for a strategy with combine(). The container is untrusted.
// TERN_ERR_STATE  more updates were added than were counted, or there is no combine(); errors of
// tern_container_decode(), after which the sums are useless
TERN_MUST_USE enum tern_result tern_strategy_accumulate(struct tern_strategy_sums *sums,
                                                        const uint8_t *container, size_t len);

// Whether all passes over at least one counted update are complete. If false after all updates were added, add all of
// them once more.
bool tern_strategy_is_complete(const struct tern_strategy_sums *sums);

// Changes the global model global[0..model->count) and the states.
// TERN_ERR_STATE       tern_strategy_is_complete() is false
// TERN_ERR_NON_FINITE  a weight would overflow; global and states are then unspecified
TERN_MUST_USE enum tern_result tern_strategy_merge(struct tern_strategy_sums *sums, float *global);

// Sets *report to the figures of the round, after tern_strategy_merge().
void tern_strategy_fill_report(const struct tern_strategy_sums *sums,
                               struct tern_strategy_report *report);

#define TERN_STRATEGY_DECLARE(name) extern const struct tern_strategy tern_strategy_##name;
TERN_STRATEGIES(TERN_STRATEGY_DECLARE, TERN_STRATEGY_DECLARE)

// --- The norm of local steps
//
// The norm of a_i of FedNova (Wang et al., NeurIPS 2020, section 4): the sum of the weights with which the gradients of a
// client's local steps enter its change. The same bits on every platform.

// Returns that norm for steps >= 1 of SGD with momentum rho (0..0.9999) and a proximal term, alpha = learning rate * mu
// (values above 1 count as 1):
//   plain SGD      steps
//   momentum       (steps - rho (1 - rho^steps) / (1 - rho)) / (1 - rho)
//   proximal       (1 - (1 - alpha)^steps) / alpha
//   both           the same sum with both
// Exactly `steps` for plain SGD; always between 1 and steps / (1 - rho).
double tern_steps_norm(uint32_t steps, double rho, double alpha);

#endif
