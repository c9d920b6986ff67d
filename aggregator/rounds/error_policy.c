#include "rounds/error_policy.h"

#include <stddef.h>
#include <string.h>

// --- Spec strings

struct fields {
    double ratio;
    double gamma;
    double share;
    uint32_t after;
};

enum { RATIO = 1 << 0, GAMMA = 1 << 1, SHARE = 1 << 2, AFTER = 1 << 3 };

static const struct tern_spec_parameter keys[] = {
    {.key = "ratio",
     .meaning = "largest norm of the buffer, as a multiple of the norm of the round's local change",
     .range = "0 to 4000",
     .kind = TERN_SPEC_REAL,
     .offset = offsetof(struct fields, ratio),
     .most = 4000u * TERN_SPEC_MILLION,
     .preset = 2 * TERN_SPEC_MILLION},
    {.key = "gamma",
     .meaning = "factor on the buffer for each missed round",
     .range = "0 to 1",
     .kind = TERN_SPEC_REAL,
     .offset = offsetof(struct fields, gamma),
     .most = TERN_SPEC_MILLION,
     .preset = 950000},
    {.key = "share",
     .meaning = "fraction of the buffer by which training starts ahead",
     .range = "0 to 1",
     .kind = TERN_SPEC_REAL,
     .offset = offsetof(struct fields, share),
     .most = TERN_SPEC_MILLION,
     .preset = TERN_SPEC_MILLION / 2},
    {.key = "after",
     .meaning = "number of missed rounds from which it applies",
     .range = "1 to 1000000000",
     .kind = TERN_SPEC_WHOLE,
     .offset = offsetof(struct fields, after),
     .least = 1,
     .most = 1000000000,
     .preset = 1},
    {.key = NULL},
};

// Spec strings, indexed by enum tern_error_directive.
static const struct tern_spec_entry entries[TERN_DIRECTIVE_COUNT] = {
    [TERN_DIRECTIVE_KEEP] = {"keep", keys, 0},
    [TERN_DIRECTIVE_DECAY] = {"decay", keys, GAMMA | AFTER},
    [TERN_DIRECTIVE_RESET] = {"reset", keys, AFTER},
    [TERN_DIRECTIVE_STEP_AHEAD] = {"step-ahead", keys, SHARE},
    [TERN_DIRECTIVE_LIMIT] = {"limit", keys, RATIO},
};

static bool entry_at(size_t index, struct tern_spec_entry *entry)
{
    if (index < TERN_DIRECTIVE_COUNT) {
        *entry = entries[index];
    }
    return index < TERN_DIRECTIVE_COUNT;
}

const struct tern_spec_list tern_error_specs = {.what = "error feedback", .at = entry_at};

enum tern_result tern_error_policy_parse(const char *spec, struct tern_error_settings *settings,
                                         char why[TERN_SPEC_SENTENCE_MAX])
{
    struct fields fields = {.after = 1};
    size_t index = 0;
    TERN_TRY(tern_spec_read(&tern_error_specs, spec, &fields, &index, why));
    *settings = (struct tern_error_settings){.policy = (enum tern_error_directive)index,
                                             .gamma = (float)fields.gamma,
                                             .after = fields.after,
                                             .step_ahead = (float)fields.share,
                                             .limit = (float)fields.ratio};
    return TERN_OK;
}

const char *tern_error_directive_name(uint32_t directive)
{
    return directive < TERN_DIRECTIVE_COUNT ? entries[directive].name : "unknown";
}

// --- Choosing

// Returns gamma to the power of `missed`, or 0 if the result is below a millionth.
static float decayed_factor(float gamma, uint32_t missed)
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

// Adds the factor without trailing zeros, such as "0.7".
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

static void choose_keep(struct tern_error_choice *choice,
                        const struct tern_error_buffer_state *state, struct tern_reason *reason)
{
    choice->directive = TERN_DIRECTIVE_KEEP;
    tern_reason_text(reason, "kept");
    if (state->empty) {
        tern_reason_text(reason, ": the buffer is empty");
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
        choose_keep(choice, state, reason);
        return;
    }
    choice->directive = settings->policy;
    if (settings->policy == TERN_DIRECTIVE_RESET) {
        tern_reason_text(reason, "reset");
    } else {
        choice->factor = decayed_factor(settings->gamma, state->missed);
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
        choose_keep(choice, state, reason);
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
    } else if (state->undone) {
        choice.directive = TERN_DIRECTIVE_RESET;
        tern_reason_text(&reason, "reset: its model was undone");
    } else if (state->empty) {
        choose_keep(&choice, state, &reason);
    } else {
        choose_by_policy(settings, state, &choice, &reason);
    }
    memcpy(choice.reason, reason.text, sizeof choice.reason);
    return choice;
}
