// What a client is told to do with its error buffer, and which reason wins.
#include "rounds/error_policy.h"
#include "tests/cases.h"

#include <string.h>

#define KEEP TERN_DIRECTIVE_KEEP
#define DECAY TERN_DIRECTIVE_DECAY
#define RESET TERN_DIRECTIVE_RESET
#define AHEAD TERN_DIRECTIVE_STEP_AHEAD
#define LIMIT TERN_DIRECTIVE_LIMIT

struct row {
    struct tern_error_settings settings;
    struct tern_error_buffer_state state;
    struct tern_error_choice choice;
};

static const struct row rows[] = {
    {{KEEP, 0.5F, 1, 0.5F, 2}, {.missed = 12}, {KEEP, 0, "kept: 12 rounds missed"}},
    {{KEEP, 0.5F, 1, 0.5F, 2}, {.missed = 1}, {KEEP, 0, "kept: 1 round missed"}},
    {{DECAY, 0.5F, 1, 0, 2}, {.missed = 0}, {KEEP, 0, "kept: 0 rounds missed"}},
    {{DECAY, 0.5F, 1, 0, 2}, {.missed = 1}, {DECAY, 0.5F, "decayed 0.5: 1 round missed"}},
    {{DECAY, 0.5F, 1, 0, 2}, {.missed = 3}, {DECAY, 0.125F, "decayed 0.13: 3 rounds missed"}},
    {{DECAY, 0.5F, 3, 0, 2}, {.missed = 2}, {KEEP, 0, "kept: 2 rounds missed"}},
    {{DECAY, 0.5F, 3, 0, 2}, {.missed = 3}, {DECAY, 0.125F, "decayed 0.13: 3 rounds missed"}},
    {{DECAY, 0.5F, 0, 0, 2}, {.missed = 0}, {KEEP, 0, "kept: 0 rounds missed"}},
    {{DECAY, 1.0F, 1, 0, 2},
     {.missed = 4000000000},
     {DECAY, 1, "decayed 1: 4000000000 rounds missed"}},
    {{DECAY, 0.5F, 1, 0, 2},
     {.missed = 4000000000},
     {DECAY, 0, "decayed 0: 4000000000 rounds missed"}},
    {{DECAY, 0.7F, 1, 0, 2}, {.missed = 1}, {DECAY, 0.7F, "decayed 0.7: 1 round missed"}},
    {{DECAY, 0.0625F, 1, 0, 2},
     {.missed = 2},
     {DECAY, 0.00390625F, "decayed under 0.01: 2 rounds missed"}},
    {{DECAY, 0.0F, 1, 0, 2}, {.missed = 1}, {DECAY, 0, "decayed 0: 1 round missed"}},
    {{RESET, 0.5F, 4, 0, 2}, {.missed = 3}, {KEEP, 0, "kept: 3 rounds missed"}},
    {{RESET, 0.5F, 4, 0, 2}, {.missed = 4}, {RESET, 0, "reset: 4 rounds missed"}},
    {{AHEAD, 0.5F, 4, 0.25F, 2}, {.missed = 0}, {AHEAD, 0.25F, "step-ahead 0.25: 0 rounds missed"}},
    {{AHEAD, 0.5F, 4, 0.25F, 2}, {.missed = 9}, {AHEAD, 0.25F, "step-ahead 0.25: 9 rounds missed"}},
    {{AHEAD, 0.5F, 4, 0.25F, 2},
     {.no_step_ahead = true, .missed = 9},
     {KEEP, 0, "kept: the client does not support step-ahead"}},
    {{RESET, 0.5F, 4, 0, 2},
     {.no_step_ahead = true, .missed = 4},
     {RESET, 0, "reset: 4 rounds missed"}},
    {{LIMIT, 0.5F, 1, 0, 1.5F}, {.missed = 3}, {LIMIT, 1.5F, "limited to 1.5 times the change"}},
    {{LIMIT, 0.5F, 1, 0, 0}, {.missed = 0}, {LIMIT, 0, "limited to 0 times the change"}},
    // What wins.
    {{LIMIT, 0.5F, 1, 0, 2}, {.empty = true}, {KEEP, 0, "kept: the buffer is empty"}},
    {{AHEAD, 0.5F, 4, 0.25F, 2},
     {.empty = true, .missed = 9},
     {KEEP, 0, "kept: the buffer is empty"}},
    {{RESET, 0.5F, 1, 0, 2}, {.empty = true, .missed = 9}, {KEEP, 0, "kept: the buffer is empty"}},
    {{KEEP, 0.5F, 1, 0, 2},
     {.must_reset = true, .missed = 0},
     {RESET, 0, "reset: part of it was applied before"}},
    {{DECAY, 0.5F, 1, 0, 2},
     {.must_reset = true, .empty = true, .missed = 3},
     {RESET, 0, "reset: part of it was applied before"}},
};

CASE(test_choices)
{
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct tern_error_choice choice =
            tern_error_policy_choose(&rows[i].settings, &rows[i].state);
        assert_string_equal(choice.reason, rows[i].choice.reason);
        assert_int_equal(choice.directive, rows[i].choice.directive);
        assert_true(choice.factor == rows[i].choice.factor);
    }
}

CASE(test_names)
{
    struct tern_error_settings settings = {.policy = DECAY};
    char why[TERN_SPEC_SENTENCE_MAX] = "";
    for (uint32_t i = 0; i < TERN_DIRECTIVE_COUNT; i++) {
        assert_int_equal(tern_error_policy_parse(tern_error_directive_name(i), &settings, why),
                         TERN_OK);
        assert_int_equal(settings.policy, i);
    }
    assert_true(settings.limit == 2.0F);
    assert_int_equal(tern_error_policy_parse("stepahead", &settings, why), TERN_ERR_UNKNOWN);
    assert_non_null(strstr(why, "did you mean \"step-ahead\"?"));
    assert_int_equal(settings.policy, LIMIT);
    assert_int_equal(tern_error_policy_parse("decay:after=3,gamma=0.5", &settings, why), TERN_OK);
    assert_true(settings.after == 3 && settings.gamma == 0.5F);
    assert_int_equal(tern_error_policy_parse("keep:ratio=3", &settings, why), TERN_ERR_ARGUMENT);
    assert_string_equal(why, "keep: unknown key \"ratio=3\"; it has no parameters");
    assert_string_equal(tern_error_directive_name(TERN_DIRECTIVE_COUNT), "unknown");
}
