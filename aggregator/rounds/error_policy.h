// Decides what a client does with its error buffer before it trains. A client that misses a round, because it is away
// or its update is late, keeps values in its buffer that belong to an older model. federation/ledger.c calls this
// module when a member first gets its task. Pure; reentrant; the same bits everywhere.
//
// In order of precedence:
//   1. A buffer that was partly applied before (rounds/error_watch.h), or is from before a restored version, is reset
//      under any policy.
//   2. An empty buffer is kept.
//   3. The policy decides.
#ifndef TERN_ERROR_POLICY_H
#define TERN_ERROR_POLICY_H

#include "result.h"
#include "rounds/reason.h"
#include "util/spec.h"
#include <stdbool.h>
#include <stdint.h>

// The orders for a client's error buffer. The numbers are those of ErrorDirective in tern.proto.
enum tern_error_directive {
    TERN_DIRECTIVE_KEEP = 0,
    TERN_DIRECTIVE_DECAY = 1,
    TERN_DIRECTIVE_RESET = 2,
    TERN_DIRECTIVE_STEP_AHEAD = 3,
    TERN_DIRECTIVE_LIMIT = 4,
};
#define TERN_DIRECTIVE_COUNT 5

// Returns "keep", "decay", "reset", "step-ahead" or "limit"; "unknown" for another number.
const char *tern_error_directive_name(uint32_t directive);

struct tern_error_settings {
    enum tern_error_directive policy;
    float gamma;      // decay: factor per missed round, 0 to 1
    uint32_t after;   // decay, reset: the least number of missed rounds; 0 means 1
    float step_ahead; // step-ahead: fraction of the buffer that is added to the base, 0 to 1
    float limit;      // limit: the buffer's largest norm, as a multiple of the local change's norm
};

// Spec strings (util/spec.h): "limit:ratio=2", "decay:gamma=0.95,after=3".
extern const struct tern_spec_list tern_error_specs;

// Parses a spec string. Errors of tern_spec_parse(), with the reason in `why`; on error *settings is unchanged.
TERN_MUST_USE enum tern_result tern_error_policy_parse(const char *spec,
                                                       struct tern_error_settings *settings,
                                                       char why[TERN_SPEC_SENTENCE_MAX]);

struct tern_error_buffer_state {
    bool must_reset;    // result of tern_error_watch_must_reset()
    bool undone;        // the buffer is from before a restored version (rollback, reject)
    bool empty;         // the buffer is zero, or the client has not reported a buffer
    bool no_step_ahead; // the client does not support the directive step-ahead
    uint32_t missed;    // rounds that the client missed since the last decay or reset
};

#define TERN_ERROR_REASON_MAX TERN_STEPS_REASON_MAX

struct tern_error_choice {
    enum tern_error_directive directive;
    float factor; // number of the directives decay, step-ahead and limit; otherwise 0
    // A sentence for people, such as "decayed 0.7: 12 rounds missed".
    char reason[TERN_ERROR_REASON_MAX];
};

struct tern_error_choice tern_error_policy_choose(const struct tern_error_settings *settings,
                                                  const struct tern_error_buffer_state *state);

#endif
