// Which texts of settings that are spec strings have the same value: aggregators of one database compare them.
#include "cli/setting_specs.h"
#include "tests/cases.h"

static void assert_compared(const struct tern_setting_spec *spec, const char *a, const char *b,
                            bool equal)
{
    const struct tern_setting setting = {.type = TERN_SETTING_SPEC, .spec = spec};
    if (tern_setting_text_equal(&setting, a, b) != equal ||
        tern_setting_text_equal(&setting, b, a) != equal) {
        fail_msg("%s and %s are %s", a, b, equal ? "one value" : "two values");
    }
}

CASE(test_texts_of_one_value)
{
    static const struct {
        const struct tern_setting_spec *spec;
        const char *a;
        const char *b;
        bool equal;
    } rows[] = {
        {&tern_codec_setting, "3lc:s=1.5,coder=range", "3lc:coder=range,s=1.50", true},
        {&tern_codec_setting, "3lc", "3lc:s=1", true},
        {&tern_codec_setting, "3lc:s=1.5", "3lc:s=1.25", false},
        {&tern_codec_setting, "uniform:error=0.05", "density:p=0.05", false},
        {&tern_codec_setting, "default", "3lc", false},
        {&tern_codec_setting, "", "float32", false},
        {&tern_strategy_setting, "fedadam:beta1=0.9,tau=1e-3", "fedadam:tau=0.001,beta1=0.9", true},
        {&tern_strategy_setting, "fedavgm", "fedavgm:norm_bound=3", true},
        {&tern_strategy_setting, "fedavgm", "fedavg", false},
        {&tern_strategy_setting, "fedavgm", "fedavgm:server_momentum=0.8", false},
        {&tern_rate_setting, "0.05", "5e-2", true},
        {&tern_rate_setting, "0.05", "constant:rate=0.050", true},
        {&tern_rate_setting, "0.05", "0.051", false},
        {&tern_rate_setting, "cosine:rate=0.1,final=0.01", "cosine:final=0.01,rate=0.1", true},
        {&tern_rate_setting, "cosine:rate=0.1,final=0.01", "cosine:final=0.02,rate=0.1", false},
        {&tern_steps_setting, "adaptive:start=2,min=5+deadline", "deadline+adaptive:min=5,start=2",
         true},
        {&tern_steps_setting, "adaptive+deadline", "adaptive", false},
        {&tern_steps_setting, "budget:min=5", "budget:min=6", false},
        {&tern_error_setting, "limit", "limit:ratio=2", true},
        {&tern_error_setting, "limit", "limit:ratio=3", false},
        {&tern_error_setting, "limit", "keep", false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        assert_compared(rows[i].spec, rows[i].a, rows[i].b, rows[i].equal);
    }
}
