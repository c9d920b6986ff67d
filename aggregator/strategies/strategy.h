// A strategy turns the updates of a round into the next global model. Who calls: the round's commit
// and the replay of stored rounds, which must give the same bits. Pure; the caller owns all memory;
// not locked.
//
// tern_strategy_count() adds up whole numbers as updates arrive, so that their order does not
// matter. Then most strategies take the weighted mean of the updates, which the caller makes
// (merge/exact_mean.h) and hands over: tern_strategy_take_mean(). One that combines them in another
// way is handed the values of all of them, in ascending (client, round) order, by
// tern_strategy_accumulate(): all coordinates as one block where memory is enough, else block after
// block of them, for each of which all updates are visited again; one block is combined as often as is
// wanted without another visit.
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
                                 TERN_STRATEGY_ID) TERN_STRATEGY_PARAMETERS, // how many
};

struct tern_strategy_parameter_entry {
    const char *name; // in a round's row: "beta1"
    double least;
    double most;
    bool or_zero; // 0, below the least, is allowed as well and stands for "none"
};
extern const struct tern_strategy_parameter_entry
    tern_strategy_parameter_table[TERN_STRATEGY_PARAMETERS];

// Whether the parameter may have this value; false for NaN.
bool tern_strategy_parameter_fits(enum tern_strategy_parameter parameter, float value);

struct tern_strategy;

// A strategy with its numbers: what a round is merged by.
struct tern_strategy_rule {
    const struct tern_strategy *strategy;
    float parameters[TERN_STRATEGY_PARAMETERS]; // those that it does not use are 0
    float server_learning_rate;                 // above 0
    float learning_rate;                        // of the clients, which a_i depends on with prox_mu
};

// --- Updates

// What an update says about itself, and the aggregator of it.
struct tern_contribution {
    uint32_t num_examples; // >= 1
    uint32_t local_steps;  // >= 1
    float loss;            // mean training loss
    uint32_t staleness;    // versions made since the one that its task began from
};

struct tern_strategy_report {
    uint32_t updates;
    uint64_t num_examples;
    float mean_loss;       // weighted by num_examples
    float effective_steps; // mean of the local steps, weighted by num_examples
    float mean_norm;       // Euclidean norm of the updates' mean, or of what combine() made of them
    float step_norm;       // of the change of the global model
};

// Updates whose norm of a_i is in [2^i, 2^(i + 1)): their number, examples, and sum of num_examples
// * norm, which is kept to 2^-24: whole units, and 2^-24ths.
struct tern_strategy_octave {
    uint32_t updates;
    uint64_t num_examples;
    uint64_t norm_whole;
    uint64_t norm_part;
};

#define TERN_STRATEGY_OCTAVES 48

// Result of the first visit.
struct tern_strategy_totals {
    struct tern_strategy_rule rule;
    uint32_t updates;
    uint64_t num_examples;
    uint64_t example_steps;         // sum of num_examples * local_steps
    uint64_t loss[TERN_EXACT_BINS]; // of num_examples * loss, rounded to float32 each
    // Of a rule that normalises, else zeros: the sums over the octaves, then these, octaves[i].
    uint64_t norm_whole;
    uint64_t norm_part;
    struct tern_strategy_octave octaves[TERN_STRATEGY_OCTAVES];
    uint32_t steps_min; // 0: no update yet
    uint32_t steps_max;
    uint32_t examples_max; // most examples that an update counts for; 0: as claimed
};

#define TERN_STRATEGY_STATES 2

// Memory of a merge, all of it the caller's. What follows the states is for strategies that combine
// values; NULL and 0 for the others.
struct tern_strategy_memory {
    float *acc;                          // model->count values
    float *states[TERN_STRATEGY_STATES]; // likewise, as many as the strategy has; else NULL
    float *decoded;                      // likewise
    float *values;                       // room for values_room
    size_t values_room;                  // >= totals.updates
    void *scratch;                       // strategy->scratch(totals.updates) bytes
};

// One round's sums.
struct tern_strategy_sums {
    const struct tern_strategy *strategy;
    const struct tern_model *model;
    struct tern_strategy_totals totals;
    struct tern_strategy_memory memory;

    uint32_t accumulated; // updates seen by the present visit
    uint32_t pass;        // over all values, done
    uint32_t first;       // coordinates below this one are done in the present pass
    double mean_square;   // of the mean, before the strategy's step
    double step_square;   // of the merged change
};

// The same coordinates of every update, in the order of the updates.
struct tern_strategy_block {
    const float *values; // update u's are values[u * width .. (u + 1) * width)
    uint32_t updates;
    uint32_t first; // coordinate
    uint32_t width; // coordinates; all of the model where memory is enough
    uint32_t pass;  // from 0
};

struct tern_strategy_state {
    const char *name; // in the store: "m"; NULL = the strategy has no such state
    bool at_tau;      // starts at tau squared rather than zero
};

struct tern_strategy {
    const char *name;
    uint32_t parameters;        // bit i: it uses parameter i
    float server_learning_rate; // when none is configured
    bool normalises;            // always, whatever the parameter says
    bool takes_late;            // updates of closed rounds count in the open one
    bool
        has_epochs; // rounds begin with a full gradient, which the next ones build on (federation/round.c)
    // What an update's weight is multiplied by for its age, at most 1; NULL: nothing.
    double (*age_weight)(const struct tern_contribution *contribution);
    struct tern_strategy_state states[TERN_STRATEGY_STATES];

    // The fewest updates with which it does what it is for, where a round has so many. NULL: one.
    uint32_t (*least_updates)(const struct tern_strategy_rule *rule, uint32_t updates);

    // Combines the updates' values in a way of its own, in place of their weighted mean: sees them
    // block after block, as many times over as there are `passes`. In the last one it sets
    // memory.acc at the block's coordinates. Between blocks and passes it may keep what it likes in
    // memory.scratch, which holds scratch(updates) bytes, aligned for any type. NULL, with 0 passes:
    // the weighted mean.
    uint32_t passes;
    uint64_t (*scratch)(uint32_t updates);
    void (*combine)(struct tern_strategy_sums *sums, const struct tern_strategy_block *block);

    // Makes of memory.acc, the mean or what combine() left there, what the global model moves by
    // (times the server's learning rate), and moves the states. NULL: acc is that.
    void (*step)(struct tern_strategy_sums *sums);

    // Moves the states once the round's download is made and it is known how far the weights that
    // clients train from, replica[0..count), are behind global[0..count). NULL: leaves them.
    void (*damp_stale_updates)(const struct tern_strategy_rule *rule, const float *global,
                               const float *replica, uint32_t count, float *const *states);
};

// --- Spec strings: "fedadam:beta1=0.9,tau=1e-3" (util/spec.h)

// What a spec string chooses. Every strategy has the key average_versions, and all but those with epochs
// server_learning_rate.
struct tern_strategy_choice {
    const struct tern_strategy *strategy;
    float server_learning_rate; // above 0
    uint32_t average_versions;  // that the averaged model reaches back; 0 = there is none
    float parameters[TERN_STRATEGY_PARAMETERS]; // 0 where it has no such key
};

extern const struct tern_spec_list tern_strategy_specs;

// Errors of tern_spec_parse(), with why; on error *choice is unchanged.
TERN_MUST_USE enum tern_result tern_strategy_parse(const char *spec,
                                                   struct tern_strategy_choice *choice,
                                                   char why[TERN_SPEC_SENTENCE_MAX]);

// --- Looking up

// The strategy of that name, or NULL.
const struct tern_strategy *tern_strategy_find(const char *name);

// Whether the rule divides by the norm of a_i, so that clients that do more steps do not weigh
// more (FedNova: Wang et al., NeurIPS 2020).
bool tern_strategy_normalises(const struct tern_strategy_rule *rule);

// Whether so many updates are enough for what the strategy is for.
bool tern_strategy_suffices(const struct tern_strategy_rule *rule, uint32_t updates);

// Whether mean_norm of its reports is that of the weighted mean of the round's own updates: false where
// it combines them in another way, or late ones are among them.
bool tern_strategy_tells_mean(const struct tern_strategy *strategy);

// Whether the sum of its updates can be divided: it takes the weighted mean of the round's own updates, of which each
// is added without a look at the others. So updates may be summed as they arrive, and by several machines.
bool tern_strategy_divides(const struct tern_strategy *strategy);

// What an update's weight is multiplied by for its number of local steps: the mean of the norms of
// a_i over its own, at most scale_max. Once all are counted.
double tern_strategy_steps_factor(const struct tern_strategy_totals *totals, uint32_t local_steps);

// Likewise for its age.
double tern_strategy_age_weight(const struct tern_strategy *strategy,
                                const struct tern_contribution *contribution);

// By how much the rule scales up, at most, an update of `done` local steps whose task asked for as
// many as those of the others did, or more: the steps factor of no round comes to more than that.
double tern_strategy_scale(const struct tern_strategy_rule *rule, uint32_t asked, uint32_t done);

// The largest Euclidean norm that an update may have under this rule, at most
// TERN_UPDATE_NORM_MAX; see bounds.h.
double tern_strategy_norm_max(const struct tern_strategy_rule *rule);

// Sets a state to what it starts from. values: model->count.
void tern_strategy_start_state(const struct tern_strategy_rule *rule, size_t state, float *values,
                               uint32_t count);

// Begins to count with no update.
void tern_strategy_count_none(struct tern_strategy_totals *totals,
                              const struct tern_strategy_rule *rule);

// Counts one update. TERN_ERR_ARGUMENT when num_examples or local_steps is 0;
// TERN_ERR_TOO_LARGE when the totals would no longer be exact in float64 (above 2^53), or sums of so
// many updates would not be (TERN_EXACT_TERMS_MAX). On error the totals are unchanged.
TERN_MUST_USE enum tern_result tern_strategy_count(struct tern_strategy_totals *totals,
                                                   const struct tern_contribution *contribution);

// Returns the examples that an update with `claimed` examples counts for.
uint32_t tern_strategy_examples(const struct tern_strategy_totals *totals, uint32_t claimed);

// After all updates are counted and examples_max is set: replaces an update's claimed examples in the totals by
// examples_max. Changes nothing for a claim within examples_max.
void tern_strategy_recount(struct tern_strategy_totals *totals,
                           const struct tern_contribution *contribution);

// Counts all that were counted by another's totals of the same rule; the order leaves no trace.
// TERN_ERR_ARGUMENT when the rule is another one; TERN_ERR_TOO_LARGE as above. On error the totals are unchanged.
TERN_MUST_USE enum tern_result tern_strategy_count_part(struct tern_strategy_totals *totals,
                                                        const struct tern_strategy_totals *part);

// Once all are counted: zeroes all sums, and acc where the strategy combines updates itself; leaves the states.
void tern_strategy_begin(struct tern_strategy_sums *sums, const struct tern_model *model,
                         const struct tern_strategy_totals *totals,
                         const struct tern_strategy_memory *memory);

// memory.acc holds the weighted mean of all updates that were counted.
// TERN_ERR_STATE when there are none, or the strategy combines them itself
TERN_MUST_USE enum tern_result tern_strategy_take_mean(struct tern_strategy_sums *sums);

// For a strategy that combines them itself: takes one update in. The container is untrusted.
// TERN_ERR_STATE when more updates come than were counted, or it takes the mean; errors of
// tern_container_decode(), after which the sums are of no use.
TERN_MUST_USE enum tern_result tern_strategy_accumulate(struct tern_strategy_sums *sums,
                                                        const uint8_t *container, size_t len);

// Whether every counted update is in, as often as is needed, and at least one. While it says no
// after a visit to all updates, and there are any, another visit is wanted.
bool tern_strategy_ready(const struct tern_strategy_sums *sums);

// Moves the global model[0..model->count), and the states.
// TERN_ERR_STATE       not ready
// TERN_ERR_NON_FINITE  a weight would overflow; global and states are then unspecified
TERN_MUST_USE enum tern_result tern_strategy_merge(struct tern_strategy_sums *sums, float *global);

// After that: what the round amounted to.
void tern_strategy_sum_up(const struct tern_strategy_sums *sums,
                          struct tern_strategy_report *report);

#define TERN_STRATEGY_DECLARE(name) extern const struct tern_strategy tern_strategy_##name;
TERN_STRATEGIES(TERN_STRATEGY_DECLARE, TERN_STRATEGY_DECLARE)

// --- The norm of local steps
//
// How far a client's local steps carry: the norm of a_i of FedNova (Wang et al., NeurIPS 2020, section 4), the sum of the
// weights with which its gradients enter its change. The same bits everywhere.

// For steps >= 1 of SGD with momentum rho (0..0.9999) and a proximal term, alpha = learning rate *
// mu (values above 1 count as 1):
//   plain SGD      steps
//   momentum       (steps - rho (1 - rho^steps) / (1 - rho)) / (1 - rho)
//   proximal       (1 - (1 - alpha)^steps) / alpha
//   both           the sum of the weights of both together
// Exactly `steps` for plain SGD; always between 1 and steps / (1 - rho).
double tern_steps_norm(uint32_t steps, double rho, double alpha);

#endif
