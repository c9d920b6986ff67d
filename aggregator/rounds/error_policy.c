#include "rounds/error_policy.h"

#include <stddef.h>
#include <string.h>

static const char *const names[TERN_DIRECTIVE_COUNT] = {"keep", "decay", "reset", "step-ahead",
                                                        "limit"};

const char *tern_error_directive_name(uint32_t directive)
{
    return directive < TERN_DIRECTIVE_COUNT ? names[directive] : "unknown";
}

enum tern_result tern_error_policy_from_name(const char *name, enum tern_error_directive *policy)
{
    for (uint32_t i = 0; i < TERN_DIRECTIVE_COUNT; i++) {
        if (strcmp(name, names[i]) == 0) {
            *policy = (enum tern_error_directive)i;
            return TERN_OK;
        }
    }
    return TERN_ERR_UNKNOWN;
}

// Returns gamma to the power of `missed`, and 0 below a millionth.
static float faded(float gamma, uint32_t missed)
{
    double factor = 1.0;
    for (uint32_t i = 0; i < missed && factor >= 1e-6; i++) {
        factor *= (double)gamma;
        if (gamma >= 1.0F) {
            return 1.0F;
        }
    }
    return factor >= 1e-6 ? (float)factor : 0.0F;
}

// Adds "0.7", without trailing zeros.
static void add_factor(struct tern_reason *reason, float factor)
{
    if (factor > 0.0F && factor < 0.01F) {
        tern_reason_text(reason, "under 0.01");
        return;
    }
    tern_reason_real(reason, (double)factor);
    size_t len = strlen(reason->text);
    while (reason->text[len - 1] == '0') {
        len--;
    }
    reason->text[reason->text[len - 1] == '.' ? len - 1 : len] = '\0';
}

static void add_missed(struct tern_reason *reason, uint32_t missed)
{
    tern_reason_text(reason, ": ");
    tern_reason_integer(reason, missed);
    tern_reason_text(reason, missed == 1 ? " round missed" : " rounds missed");
}

static void keep(struct tern_error_choice *choice, const struct tern_error_buffer_state *state,
                 struct tern_reason *reason)
{
    choice->directive = TERN_DIRECTIVE_KEEP;
    tern_reason_text(reason, "kept");
    if (state->empty) {
        tern_reason_text(reason, ": nothing in it");
    } else {
        add_missed(reason, state->missed);
    }
}

static void choose_by_missed(const struct tern_error_settings *settings,
                             const struct tern_error_buffer_state *state,
                             struct tern_error_choice *choice, struct tern_reason *reason)
{
    const uint32_t after = settings->after > 0 ? settings->after : 1;
    if (state->missed < after) {
        keep(choice, state, reason);
        return;
    }
    choice->directive = settings->policy;
    if (settings->policy == TERN_DIRECTIVE_RESET) {
        tern_reason_text(reason, "reset");
    } else {
        choice->factor = faded(settings->gamma, state->missed);
        tern_reason_text(reason, "decayed ");
        add_factor(reason, choice->factor);
    }
    add_missed(reason, state->missed);
}

static void choose_by_policy(const struct tern_error_settings *settings,
                             const struct tern_error_buffer_state *state,
                             struct tern_error_choice *choice, struct tern_reason *reason)
{
    switch (settings->policy) {
    case TERN_DIRECTIVE_KEEP:
        keep(choice, state, reason);
        break;
    case TERN_DIRECTIVE_DECAY:
    case TERN_DIRECTIVE_RESET:
        choose_by_missed(settings, state, choice, reason);
        break;
    case TERN_DIRECTIVE_STEP_AHEAD:
        if (state->no_step_ahead) {
            tern_reason_text(reason, "kept: the client does not support step-ahead");
            break;
        }
        choice->directive = TERN_DIRECTIVE_STEP_AHEAD;
        choice->factor = settings->step_ahead;
        tern_reason_text(reason, "step-ahead ");
        add_factor(reason, choice->factor);
        add_missed(reason, state->missed);
        break;
    case TERN_DIRECTIVE_LIMIT:
        choice->directive = TERN_DIRECTIVE_LIMIT;
        choice->factor = settings->limit;
        tern_reason_text(reason, "limited to ");
        add_factor(reason, choice->factor);
        tern_reason_text(reason, " times the change");
        break;
    }
}

struct tern_error_choice tern_error_policy_choose(const struct tern_error_settings *settings,
                                                  const struct tern_error_buffer_state *state)
{
    struct tern_error_choice choice = {.directive = TERN_DIRECTIVE_KEEP};
    struct tern_reason reason = {""};
    if (state->must_reset) {
        choice.directive = TERN_DIRECTIVE_RESET;
        tern_reason_text(&reason, "reset: part of it was applied before");
    } else if (state->empty) {
        keep(&choice, state, &reason);
    } else {
        choose_by_policy(settings, state, &choice, &reason);
    }
    memcpy(choice.reason, reason.text, sizeof choice.reason);
    return choice;
}
