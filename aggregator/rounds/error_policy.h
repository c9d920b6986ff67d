// Decides what a client does with its error buffer before it trains. With each round that a client
// misses, because it is away or its update comes too late, its buffer holds more values that were
// computed for an older model. federation/ledger.c calls it when a member first gets its
// task. Pure; reentrant; the same bits everywhere.
//
// In order of precedence:
//   1. A buffer of which part was applied already (rounds/error_watch.h) is reset, under any
//   policy.
//   2. An empty buffer is kept.
//   3. The policy.
#ifndef TERN_ERROR_POLICY_H
#define TERN_ERROR_POLICY_H

#include "result.h"
#include "rounds/reason.h"
#include <stdbool.h>
#include <stdint.h>

// The numbers are those of ErrorDirective in tern.proto.
enum tern_error_directive {
    TERN_DIRECTIVE_KEEP = 0,
    TERN_DIRECTIVE_DECAY = 1,
    TERN_DIRECTIVE_RESET = 2,
    TERN_DIRECTIVE_STEP_AHEAD = 3,
    TERN_DIRECTIVE_LIMIT = 4,
};
#define TERN_DIRECTIVE_COUNT 5
#define TERN_ERROR_POLICY_NAMES "limit | keep | decay | reset | step-ahead"

// "keep", "decay", "reset", "step-ahead", "limit"; "unknown" for another number.
const char *tern_error_directive_name(uint32_t directive);

struct tern_error_settings {
    enum tern_error_directive policy;
    float gamma;      // decay: factor per round missed, 0 to 1
    uint32_t after;   // decay, reset: rounds missed from which they apply; 0 is taken as 1
    float step_ahead; // step-ahead: share of the buffer that training starts ahead by, 0 to 1
    float limit;      // limit: most that its norm may be, over that of the local change
};

// TERN_ERR_UNKNOWN; *policy is then unchanged.
TERN_MUST_USE enum tern_result tern_error_policy_from_name(const char *name,
                                                           enum tern_error_directive *policy);

struct tern_error_buffer_state {
    bool must_reset;    // tern_error_watch_must_reset()
    bool empty;         // nothing in it, or nothing known of it
    bool no_step_ahead; // its client cannot do one, or is too old to decode it
    uint32_t missed;    // rounds that the client missed and no decay or reset has settled
};

#define TERN_ERROR_REASON_MAX TERN_STEPS_REASON_MAX

struct tern_error_choice {
    enum tern_error_directive directive;
    float factor;                       // of a decay, step-ahead or limit, else 0
    char reason[TERN_ERROR_REASON_MAX]; // for people: "decayed 0.7: 12 rounds missed"
};

struct tern_error_choice tern_error_policy_choose(const struct tern_error_settings *settings,
                                                  const struct tern_error_buffer_state *state);

#endif
