#include "cli/setting_specs.h"

#include "strategies/strategy.h"

static enum tern_result explain(enum tern_result result, const struct tern_spec_refusal *refusal,
                                char why[TERN_SPEC_SENTENCE_MAX])
{
    if (result != TERN_OK) {
        tern_spec_explain(refusal, why);
    }
    return result;
}

static enum tern_result check_strategy(const char *text, char why[TERN_SPEC_SENTENCE_MAX])
{
    struct tern_strategy_choice choice;
    struct tern_spec_refusal refusal;
    return explain(tern_strategy_parse(text, &choice, &refusal), &refusal, why);
}

const struct tern_setting_spec tern_strategy_setting = {.list = &tern_strategy_specs,
                                                        .check = check_strategy};
