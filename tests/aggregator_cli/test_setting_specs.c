// Which texts of settings that are spec strings have the same value: aggregators of one database compare them.
#include "cli/settings.h"
#include "tests/cases.h"

static void assert_compared(const char *key, const char *a, const char *b, bool equal)
{
    const struct tern_setting *setting = tern_settings_named(&tern_aggregator_settings_table, key);
    if (tern_setting_text_equal(setting, a, b) != equal ||
        tern_setting_text_equal(setting, b, a) != equal) {
        fail_msg("%s and %s are %s", a, b, equal ? "one value" : "two values");
    }
}

CASE(test_texts_of_one_value)
{
    static const struct {
        const char *key;
        const char *a;
        const char *b;
        bool equal;
    } rows[] = {
        {"codec.codec=", "3lc:s=1.5,coder=range", "3lc:coder=range,s=1.50", true},
        {"codec.codec=", "3lc", "3lc:s=1", true},
        {"codec.codec=", "3lc:s=1.5", "3lc:s=1.25", false},
        {"codec.codec=", "uniform:error=0.05", "density:p=0.05", false},
        {"codec.codec=", "default", "3lc", false},
        {"codec.codec=", "", "float32", false},
        {"round.strategy=", "fedadam:beta1=0.9,tau=1e-3", "fedadam:tau=0.001,beta1=0.9", true},
        {"round.strategy=", "fedavgm", "fedavgm:norm_bound=3", true},
        {"round.strategy=", "fedavgm", "fedavg", false},
        {"round.strategy=", "fedavgm", "fedavgm:server_momentum=0.8", false},
        {"train.learning_rate=", "0.05", "5e-2", true},
        {"train.learning_rate=", "0.05", "constant:rate=0.050", true},
        {"train.learning_rate=", "0.05", "0.051", false},
        {"train.learning_rate=", "cosine:rate=0.1,final=0.01", "cosine:final=0.01,rate=0.1", true},
        {"train.learning_rate=", "cosine:rate=0.1,final=0.01", "cosine:final=0.02,rate=0.1", false},
        {"train.schedule=", "adaptive:start=2,min=5+deadline", "deadline+adaptive:min=5,start=2",
         true},
        {"train.schedule=", "adaptive+deadline", "adaptive", false},
        {"train.schedule=", "budget:min=5", "budget:min=6", false},
        {"codec.error_feedback=", "limit", "limit:ratio=2", true},
        {"codec.error_feedback=", "limit", "limit:ratio=3", false},
        {"codec.error_feedback=", "limit", "keep", false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        assert_compared(rows[i].key, rows[i].a, rows[i].b, rows[i].equal);
    }
}
