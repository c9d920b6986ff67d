// How much a client trains in a round and how its update is encoded. The federation calls it when it hands out a task, and
// keeps the plan, so that a repeated task is the same. Pure; reentrant; the same stored facts give the same plan, also
// after a restart.
//
// `fixed` or `adaptive` sets the initial number of local steps H. `deadline` and `budget` then cut it, in this order, to a
// client's window and bytes. A policy by itself starts from `fixed`; `deadline` alone gives every client as many steps as
// fit.
#ifndef TERN_STEPS_H
#define TERN_STEPS_H

#include "codec/codec.h"
#include "result.h"
#include "rounds/reason.h"
#include <stdbool.h>
#include <stdint.h>

// Bits of tern_steps_settings.policy.
enum tern_steps_policy {
    TERN_STEPS_FIXED = 0,    // the same for every client
    TERN_STEPS_DEADLINE = 1, // as many as the client's measured speed fits into the window
    TERN_STEPS_BUDGET = 2,   // so that the client's byte budget lasts
    TERN_STEPS_ADAPTIVE = 4, // fewer as the loss falls
    TERN_STEPS_AT_MOST = 8,  // "fixed+...": deadline only cuts
};

struct tern_steps_settings {
    unsigned policy;      // sum of enum tern_steps_policy
    uint32_t local_steps; // where H starts; also for clients of unknown speed
    uint32_t min_steps;   // bounds of all policies but fixed
    uint32_t max_steps;
    double fraction;    // deadline: share of the window that may go into training, 0..1
    double start;       // adaptive: H of the first rounds over local_steps, >= 1
    uint32_t interval;  // adaptive: rounds whose losses count together, >= 1
    double gamma;       // adaptive: factor on H when the loss stalls, 0..1
    double min_density; // budget: least share of values that an update is cut to
};

#define TERN_STEPS_POLICY_MAX 48 // bytes of a policy's name with the NUL

// "fixed", "deadline+budget", "adaptive+deadline", ...: names joined by "+", each once, at most one
// of fixed and adaptive. TERN_ERR_UNKNOWN
TERN_MUST_USE enum tern_result tern_steps_policy_from_name(const char *name, unsigned *policy);
// The same names in the order in which they apply.
void tern_steps_policy_name(unsigned policy, char name[TERN_STEPS_POLICY_MAX]);
// Every name, for error messages. Static string.
const char *tern_steps_policy_names(void);

// --- What the training has come to

// The committed rounds in short. Made by adding them in their order.
struct tern_steps_course {
    uint32_t rounds;
    double first_loss; // of the first round with a usable one; 0 = none yet
    double last_loss;  // mean of the last full interval; 0 = none yet
    uint32_t tau;      // adaptive: H

    // Sums of the current interval.
    uint32_t losses;
    double loss_sum;
};

void tern_steps_course_init(struct tern_steps_course *course,
                            const struct tern_steps_settings *settings);
// loss: the median of the round's clients', each the mean over its local steps.
void tern_steps_course_add(struct tern_steps_course *course,
                           const struct tern_steps_settings *settings, float loss);

// --- What a client can

// Bytes are those on the wire, as the meter has them.
struct tern_budget {
    bool budgeted;
    uint64_t left; // as the client last reported, less what it has spent since
    bool renewed;  // it did not shrink over the last round: it is a budget of each round
    double rounds; // to go before it is renewed or the federation is done
    double share;  // of these that the client is to take part in: tern_budget_share(); 0..1
    // Measured in its last round; 0 = not known.
    uint64_t update;                // bytes of its update
    uint64_t other;                 // all others, both directions
    struct tern_codec update_codec; // that made the update
};

struct tern_steps_facts {
    float steps_per_second;  // measured; 0 = unknown
    uint64_t window_ms;      // left until the round's deadline
    uint32_t rounds;         // wanted; 0 = no end
    uint32_t values;         // of the model
    struct tern_codec codec; // of the round's updates
    bool density;            // the client can encode `density` with that codec's coder
    struct tern_budget budget;
};

struct tern_steps_plan {
    uint32_t local_steps; // >= 1
    bool own_codec;       // the update is encoded by `codec`, not by the round's
    struct tern_codec codec;
    uint64_t bytes;            // budget: that the round is expected to take; 0 = not known
    uint64_t least_bytes;      // the same at the least density; 0 = not known
    struct tern_reason reason; // e.g. "deadline: 41.00 steps/s x 30.00 s x 0.50"
};

void tern_steps_for(const struct tern_steps_settings *settings,
                    const struct tern_steps_course *course, const struct tern_steps_facts *facts,
                    struct tern_steps_plan *plan);

// --- Budgets

// Share of all rounds to go for which a client's bytes last when each takes least_bytes, at most 1:
// 1 without a budget or when nothing is known, 0 when not even one round is left.
double tern_budget_affords(const struct tern_budget *budget, uint64_t least_bytes);

// Share of the rounds to go that a client takes part in whose bytes allow it, when `invited` of
// count are invited to each: the others take part in what they can afford, and who can afford more
// makes up for them, up to every round. affords: of tern_budget_affords(), by index 0..count-1; 0
// also for those who are not invited at all.
double tern_budget_share(uint32_t invited, uint32_t count,
                         double (*affords)(const void *ctx, uint32_t index), const void *ctx);

// Bytes of a round that would make the budget last over its share of the rounds to go; UINT64_MAX
// without a budget. One that is renewed each round may be spent in this one.
uint64_t tern_budget_allowance(const struct tern_budget *budget);

// Part of its share of the rounds that a client of this budget can afford when each takes
// least_bytes: 1 without a budget or when nothing is known, 0 when not even one round is left.
double tern_budget_chance(const struct tern_budget *budget, uint64_t least_bytes);

// Milliseconds from `now` (Unix) to the end of its calendar month in UTC, when monthly budgets are
// renewed.
uint64_t tern_budget_month_left_ms(uint64_t now);

// Whether a client's month may have turned between two times, by its own clock: within a day of
// either.
bool tern_budget_month_turned(uint64_t from_ms, uint64_t to_ms);

// --- How fast a client trains

// What a client did in its last rounds, the newest weighing 0.3 and each before it less. Zeros =
// none.
struct tern_steps_done {
    float steps;
    float ms;
};

// The speed after a report of local_steps in train_ms: smoothed steps by smoothed time, so that a
// long training weighs more than a short one, which milliseconds measure badly, and a round at
// half the speed costs the next a quarter. known: the speed before, for when *done is empty; 0 =
// none. 0 ms stands for half of one. A report of 0 steps changes nothing.
float tern_steps_speed(struct tern_steps_done *done, float known, uint32_t local_steps,
                       uint32_t train_ms);

#endif
