// [strategy] of the settings.
#include "cli/service_config.h"

#include <string.h>

static int fill_number(struct tern_cli *cli, const char *key, double value,
                       enum tern_strategy_parameter parameter, float *number)
{
    const struct tern_strategy_parameter_entry *entry = &tern_strategy_parameter_table[parameter];
    bool none = entry->or_zero && !(value > 0.0 || value < 0.0);
    *number = (float)value;
    // As it was written: what becomes the least or 0 by rounding is not that.
    if (none || (value >= entry->least && value <= entry->most)) {
        return TERN_EXIT_OK;
    }
    return tern_cli_fail(cli, TERN_ERR_CONFIG, "%s = %.9g is out of range; allowed: %s%g to %g",
                         key, value, entry->or_zero ? "0 (none), or " : "", entry->least,
                         entry->most);
}

static int fill_parameters(struct tern_cli *cli, const struct tern_aggregator_settings *s,
                           float parameters[TERN_STRATEGY_PARAMETERS])
{
#define FILL(fill, symbol, section, key, ...)                                                      \
    TERN_CLI_TRY(fill(cli, #section "." #key, s->section##_##key,                                  \
                      __VA_ARGS__ &parameters[TERN_STRATEGY_##symbol]));
#define NUMBER(symbol, name, least, most, or_zero, section, key)                                   \
    FILL(fill_number, symbol, section, key, TERN_STRATEGY_##symbol, )
#define YES_NO(symbol, name, section, key)                                                         \
    parameters[TERN_STRATEGY_##symbol] = s->section##_##key ? 1.0F : 0.0F;
#define OPENED(symbol, name, least, most) parameters[TERN_STRATEGY_##symbol] = (float)(least);
    TERN_STRATEGY_PARAMETER_LIST(NUMBER, YES_NO, OPENED)
    return TERN_EXIT_OK;
}

int tern_cli_fill_strategy(struct tern_cli *cli, const struct tern_aggregator_settings *s,
                           struct tern_federation_config *config)
{
    config->strategy = tern_strategy_find(s->strategy_name);
    if (config->strategy == NULL) {
        return tern_cli_fail(cli, TERN_ERR_CONFIG, "strategy.name = %s is not known; allowed: %s",
                             s->strategy_name, tern_strategy_names());
    }
    config->server_learning_rate = (float)s->strategy_server_learning_rate;
    if (config->server_learning_rate <= 0.0F) {
        config->server_learning_rate = config->strategy->server_learning_rate;
    }
    config->strategy_memory = s->strategy_memory;
    config->vectors =
        (struct tern_merge_room){.folder = s->federation_state, .memory = s->limits_model_memory};
    config->average_versions = s->strategy_average_versions;
    return fill_parameters(cli, s, config->strategy_parameters);
}
