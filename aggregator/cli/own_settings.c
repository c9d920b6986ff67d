#include "cli/own_settings.h"

#include "cli/spending.h"
#include <stdlib.h>
#include <string.h>

const char **tern_own_options(const struct tern_cli *cli)
{
    const char **options = calloc(2 * (size_t)cli->set_count + 5, sizeof *options);
    size_t at = 0;
    if (options == NULL) {
        return NULL;
    }
    if (cli->config != NULL) {
        options[at++] = "--config";
        options[at++] = cli->config;
    }
    for (unsigned i = 0; i < cli->set_count; i++) {
        options[at++] = "--set";
        options[at++] = cli->sets[i];
    }
    options[at++] = "--state";
    options[at] = tern_state_settings(cli)->federation_state;
    return options;
}

static cJSON *json_of(const struct tern_setting *setting,
                      const struct tern_aggregator_settings *settings,
                      const struct tern_aggregator_settings *defaults)
{
    static const char *const changes[] = {[TERN_SETTING_RESTART] = "restart",
                                          [TERN_SETTING_LIVE] = "live",
                                          [TERN_SETTING_INIT] = "init"};
    char text[TERN_SETTING_TEXT_MAX];
    cJSON *object = cJSON_CreateObject();
    tern_json_text(object, "section", setting->section);
    tern_json_text(object, "key", setting->key);
    tern_setting_format(setting, settings, text);
    tern_json_text(object, "value", text);
    tern_setting_format(setting, defaults, text);
    tern_json_text(object, "default", text);
    tern_json_bool(object, "changed", !tern_setting_equal(setting, settings, defaults));
    tern_json_text(object, "takes_effect", changes[setting->change]);
    tern_json_text(object, "doc", setting->doc);
    return object;
}

static bool is_accuracy(const struct tern_setting *setting)
{
    return strcmp(setting->section, "codec") == 0 && strcmp(setting->key, "accuracy") == 0;
}

cJSON *tern_own_settings_json(struct tern_cli *cli, const struct tern_model *model)
{
    static struct tern_aggregator_settings defaults;
    const struct tern_aggregator_settings *settings = tern_state_settings(cli);
    const struct tern_settings *table = &tern_aggregator_settings_table;
    cJSON *list = cJSON_CreateArray();
    tern_settings_defaults(table, &defaults);
    for (size_t i = 0; i < table->count; i++) {
        cJSON *row = json_of(&table->table[i], settings, &defaults);
        if (is_accuracy(&table->table[i])) {
            const struct tern_spending_accuracies all = tern_spending_accuracies(cli, model);
            cJSON_AddItemToObject(row, "estimates", tern_spending_accuracies_json(&all));
        }
        cJSON_AddItemToArray(list, row);
    }
    return list;
}
