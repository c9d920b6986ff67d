// A policy of local steps by its name, for tests with numbers of their own.
#ifndef TERN_TESTS_STEPS_POLICY_H
#define TERN_TESTS_STEPS_POLICY_H

#include "rounds/steps.h"
#include "tests/asserts.h"

// Sets the policy alone; the other numbers stay.
static inline void set_steps_policy(struct tern_steps_settings *settings, const char *spec)
{
    struct tern_steps_settings parsed = *settings;
    char why[TERN_SPEC_SENTENCE_MAX];
    assert_int_equal(tern_steps_parse(spec, &parsed, why), TERN_OK);
    settings->policy = parsed.policy;
}

#endif
