// [strategy] of the settings.
#include "cli/service_config.h"

#include <string.h>

static int fill_yes_no(struct tern_cli *cli, const char *key, const char *value, float *number)
{
    bool yes = strcmp(value, "yes") == 0;
    if (!yes && strcmp(value, "no") != 0) {
        return tern_cli_fail(cli, TERN_ERR_CONFIG, "%s = %s is not known; allowed: yes | no", key,
                             value);
    }
    *number = yes ? 1.0F : 0.0F;
    return TERN_EXIT_OK;
}

static int fill_scale_max(struct tern_cli *cli, double value, float *number)
{
    if (value > 0.0 && value < 1.0) {
        return tern_cli_fail(cli, TERN_ERR_CONFIG,
                             "strategy.scale_max = %.9g would scale updates down; allowed: 0 (no "
                             "bound), or 1 and above",
                             value);
    }
    *number = (float)value;
    return TERN_EXIT_OK;
}

int tern_cli_fill_strategy(struct tern_cli *cli, const struct tern_aggregator_settings *s,
                           struct tern_federation_config *config)
{
    float *parameters = config->strategy_parameters;
    config->strategy = tern_strategy_find(s->strategy_name);
    if (config->strategy == NULL) {
        return tern_cli_fail(cli, TERN_ERR_CONFIG, "strategy.name = %s is not known; allowed: %s",
                             s->strategy_name, tern_strategy_names());
    }
    config->server_learning_rate = (float)s->strategy_server_learning_rate;
    if (config->server_learning_rate <= 0.0F) {
        config->server_learning_rate = config->strategy->server_learning_rate;
    }
    parameters[TERN_STRATEGY_LOCAL_MOMENTUM] = (float)s->train_momentum;
    parameters[TERN_STRATEGY_PROX_MU] = (float)s->strategy_prox_mu;
    parameters[TERN_STRATEGY_SERVER_MOMENTUM] = (float)s->strategy_server_momentum;
    parameters[TERN_STRATEGY_BETA1] = (float)s->strategy_beta1;
    parameters[TERN_STRATEGY_BETA2] = (float)s->strategy_beta2;
    parameters[TERN_STRATEGY_TAU] = (float)s->strategy_tau;
    parameters[TERN_STRATEGY_TRIM] = (float)s->strategy_trim;
    parameters[TERN_STRATEGY_STALENESS_MAX] = (float)s->strategy_staleness_max;
    config->strategy_memory = s->strategy_memory;
    int code = fill_scale_max(cli, s->strategy_scale_max, &parameters[TERN_STRATEGY_SCALE_MAX]);
    return code != TERN_EXIT_OK ? code
                                : fill_yes_no(cli, "strategy.normalise", s->strategy_normalise,
                                              &parameters[TERN_STRATEGY_NORMALISE]);
}
