// Plans how many local steps a client trains in a round, and how its update is encoded. The federation calls this
// module when it makes a task, and keeps the plan, so that a repeated task is the same. Pure; reentrant; the same
// stored facts give the same plan, also after a restart.
//
// `fixed` or `adaptive` sets the initial number of local steps H. `deadline` and `budget` then cut it, in this order,
// to a client's window and bytes. A policy by itself starts from `fixed`; `deadline` alone gives every client as many
// steps as fit.
#ifndef TERN_STEPS_H
#define TERN_STEPS_H

#include "codec/codec.h"
#include "result.h"
#include "rounds/reason.h"
#include "util/spec.h"
#include <stdbool.h>
#include <stdint.h>

// Policies of train.schedule, bits of tern_steps_settings.policy.
enum tern_steps_policy {
    TERN_STEPS_FIXED = 0,    // every client gets the same number
    TERN_STEPS_DEADLINE = 1, // as many steps as the client can train before the deadline
    TERN_STEPS_BUDGET = 2,   // adapts steps and density so that the client's byte budget lasts
    TERN_STEPS_ADAPTIVE = 4, // gives fewer steps as the loss falls
    TERN_STEPS_AT_MOST = 8,  // set by "fixed+deadline": the deadline can only lower the number
};

struct tern_steps_settings {
    unsigned policy;      // sum of enum tern_steps_policy
    uint32_t local_steps; // initial number H of local steps; also for clients of unknown speed
    uint32_t min_steps;   // min_steps and max_steps bound the steps of all policies except fixed
    uint32_t max_steps;
    double fraction;    // deadline: fraction of the window that training may take, 0..1
    double start;       // adaptive: H of the first rounds, as a multiple of local_steps, >= 1
    uint32_t interval;  // adaptive: rounds whose losses count together, >= 1
    double gamma;       // adaptive: factor on H when the loss stalls, 0..1
    double min_density; // budget: the least density of an update
};

#define TERN_STEPS_SPEC_MAX 256  // bytes of one part of a spec string with the NUL
#define TERN_STEPS_POLICY_MAX 48 // bytes of a policy's name with the NUL

// Parses spec strings (util/spec.h), joined by "+": "fixed", "budget:min=5", "adaptive:start=2+deadline+budget"; each
// name once, at most one of fixed and adaptive. Sets all of *settings but local_steps.
// TERN_ERR_UNKNOWN, TERN_ERR_ARGUMENT, with the reason in `why`; on error *settings is unchanged.
extern const struct tern_spec_list tern_steps_specs;
TERN_MUST_USE enum tern_result tern_steps_parse(const char *spec,
                                                struct tern_steps_settings *settings,
                                                char why[TERN_SPEC_SENTENCE_MAX]);
// Sets name to the names of the policies, joined by "+", in the order in which they apply.
void tern_steps_policy_name(unsigned policy, char name[TERN_STEPS_POLICY_MAX]);

// --- State over the rounds

// Summary of the committed rounds, which tern_steps_state_add_loss() adds in order.
struct tern_steps_state {
    uint32_t rounds;
    double first_loss; // loss of the first round with a usable loss; 0 = no round yet
    double last_loss;  // mean loss of the last full interval; 0 = no interval yet
    uint32_t tau;      // adaptive: present number of local steps

    // Number and sum of the losses in the present interval.
    uint32_t losses;
    double loss_sum;
};

void tern_steps_state_init(struct tern_steps_state *state,
                           const struct tern_steps_settings *settings);
// Adds a committed round. loss: the median over the round's clients of their mean training losses.
void tern_steps_state_add_loss(struct tern_steps_state *state,
                               const struct tern_steps_settings *settings, float loss);

// --- Facts about a client

// A client's byte budget. All bytes are bytes on the wire, as metered.
struct tern_budget {
    bool budgeted;
    uint64_t left;     // bytes left: those that the client last reported, minus those spent since
    bool is_per_round; // the budget is one per round: it did not shrink over the last round
    double rounds;     // number of rounds until the budget is renewed or the federation is finished
    // Fraction, 0..1, of these rounds in which the client takes part: tern_budget_share().
    double share;
    // Measured bytes of the client's last round; 0 = unknown.
    uint64_t update_bytes;          // bytes of the client's update
    uint64_t other_bytes;           // all other bytes of the round, in both directions
    struct tern_codec update_codec; // codec of the measured update
};

struct tern_steps_facts {
    float steps_per_second;  // measured speed of local training; 0 = unknown
    uint64_t window_ms;      // time left until the round's deadline
    uint32_t rounds;         // rounds of the federation; 0 = no end
    uint32_t values;         // number of the model's values
    struct tern_codec codec; // codec of the round's updates
    bool density;            // the client supports codec `density` with the coder of `codec`
    struct tern_budget budget;
};

struct tern_steps_plan {
    uint32_t local_steps; // >= 1
    bool has_own_codec;   // the update is encoded by `codec` instead of the round's codec
    struct tern_codec codec;
    uint64_t bytes;            // that the round is expected to take of the budget; 0 = unknown
    uint64_t least_bytes;      // the same at the least density; 0 = unknown
    struct tern_reason reason; // why, for people: "deadline: 41.00 steps/s x 30.00 s x 0.50"
};

void tern_steps_make_plan(const struct tern_steps_settings *settings,
                          const struct tern_steps_state *state,
                          const struct tern_steps_facts *facts, struct tern_steps_plan *plan);

// --- Budgets

// Returns the fraction of the remaining rounds, 0 to 1, that a client can pay for if each takes least_bytes. 1: there is no
// budget, or least_bytes is unknown.
double tern_budget_affords(const struct tern_budget *budget, uint64_t least_bytes);

// Returns the fraction of the remaining rounds in which a client with enough bytes takes part, if each round invites
// `invited` of `count` clients. Clients with fewer bytes take part in the rounds that they can afford; the other clients
// take the places left, at most one in each round. affords: returns tern_budget_affords() of client 0..count-1; 0 for
// clients that are never invited.
double tern_budget_share(uint32_t invited, uint32_t count,
                         double (*affords)(const void *ctx, uint32_t index), const void *ctx);

// Returns the bytes per round with which the budget lasts over the client's share of the remaining rounds; UINT64_MAX
// without a budget. A budget per round may be spent whole.
uint64_t tern_budget_allowance(const struct tern_budget *budget);

// Returns the fraction of its share of the rounds that the client can afford if each round takes least_bytes: 1 without
// a budget or if least_bytes is unknown, 0 if the bytes do not last for one round.
double tern_budget_chance(const struct tern_budget *budget, uint64_t least_bytes);

// Returns the milliseconds from `now` (Unix) to the end of the calendar month in UTC, when monthly budgets are renewed.
uint64_t tern_budget_month_left_ms(uint64_t now);

// Whether a new month may have begun on the client's own clock between two times; the clock may be a day off.
bool tern_budget_month_turned(uint64_t from_ms, uint64_t to_ms);

// --- How fast a client trains

// Smoothed steps and time of a client's last rounds: the newest round weighs 0.3, each earlier round less. Zeros = no
// round.
struct tern_steps_smoothed {
    float steps;
    float ms;
};

// Returns the speed in steps per second after a report of local_steps in train_ms: smoothed steps divided by smoothed
// time, so that a long training weighs more than a short one, which milliseconds measure badly. A round at half the
// speed lowers the result by a quarter. known: the earlier speed, used if *done is empty; 0 = unknown. 0 ms counts as
// half a millisecond. A report of 0 steps changes nothing.
float tern_steps_speed(struct tern_steps_smoothed *done, float known, uint32_t local_steps,
                       uint32_t train_ms);

#endif
