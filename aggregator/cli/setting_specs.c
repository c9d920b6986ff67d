#include "cli/setting_specs.h"

#include "codec/codec.h"
#include "rounds/error_policy.h"
#include "rounds/rate.h"
#include "rounds/steps.h"
#include "strategies/strategy.h"

static enum tern_result check_strategy(const char *text, char why[TERN_SPEC_SENTENCE_MAX])
{
    struct tern_strategy_choice choice;
    return tern_strategy_parse(text, &choice, why);
}

static enum tern_result check_rate(const char *text, char why[TERN_SPEC_SENTENCE_MAX])
{
    struct tern_rate_policy policy;
    return tern_rate_parse(text, &policy, why);
}

static enum tern_result check_steps(const char *text, char why[TERN_SPEC_SENTENCE_MAX])
{
    struct tern_steps_settings settings = {.local_steps = 1};
    return tern_steps_parse(text, &settings, why);
}

static enum tern_result check_error(const char *text, char why[TERN_SPEC_SENTENCE_MAX])
{
    struct tern_error_settings settings;
    return tern_error_policy_parse(text, &settings, why);
}

const struct tern_setting_spec tern_strategy_setting = {.list = &tern_strategy_specs,
                                                        .check = check_strategy};
const struct tern_setting_spec tern_rate_setting = {.list = &tern_rate_specs,
                                                    .besides = "a number",
                                                    .number = "constant:rate=",
                                                    .check = check_rate};
const struct tern_setting_spec tern_steps_setting = {.list = &tern_steps_specs,
                                                     .check = check_steps};
const struct tern_setting_spec tern_error_setting = {.list = &tern_error_specs,
                                                     .check = check_error};
const struct tern_setting_spec tern_codec_setting = {.list = &tern_codec_specs};
