// `tern-client conditions`: shows whether the machine's state allows work.
#include "cli/session.h"
#include "cli/verbs.h"
#include "hosted/cli.h"

#include <inttypes.h>
#include <stdio.h>

enum tern_result tern_conditions_from_settings(const struct tern_client_settings *settings,
                                               struct tern_posix_conditions *conditions,
                                               char why[CONDITIONS_WHY_MAX])
{
    char problem[TERN_WHEN_WHY_MAX];
    *conditions = (struct tern_posix_conditions){.root = settings->client_root};
    if (tern_when_parse(settings->client_when, &conditions->when, problem) != TERN_OK) {
        snprintf(why, CONDITIONS_WHY_MAX, "client.when: %s", problem);
        return TERN_ERR_CONFIG;
    }
    if (tern_metered_word_parse(settings->budget_metered, &conditions->metered) != TERN_OK) {
        snprintf(why, CONDITIONS_WHY_MAX, "budget.metered is \"%s\"; it must be yes, no or auto",
                 settings->budget_metered);
        return TERN_ERR_CONFIG;
    }
    return TERN_OK;
}

static const char *power_name(int power)
{
    static const char *const names[] = {"unknown", "battery", "mains"};
    return names[power];
}

// --- JSON

static void add_condition(cJSON *list, const struct tern_posix_conditions *conditions,
                          enum tern_condition condition)
{
    const struct tern_finding *finding = &conditions->findings[condition];
    const bool asked = conditions->when.required[condition];
    cJSON *object = cJSON_CreateObject();
    cJSON_AddItemToArray(list, object);
    cJSON_AddStringToObject(object, "condition", tern_condition_name(condition));
    cJSON_AddBoolToObject(object, "known", finding->reading.known);
    if (finding->reading.known && tern_condition_sign(condition) != '\0') {
        cJSON_AddNumberToObject(object, "value", finding->reading.value);
    }
    cJSON_AddStringToObject(object, "read", finding->reading.text);
    cJSON_AddStringToObject(object, "from", finding->reading.source);
    cJSON_AddBoolToObject(object, "asked", asked);
    if (asked && tern_condition_sign(condition) != '\0') {
        cJSON_AddNumberToObject(object, "limit", conditions->when.limit[condition]);
    }
    if (asked) {
        cJSON_AddBoolToObject(object, "met", finding->met);
    }
}

static int show_json(const struct tern_cli *cli, const struct tern_posix_conditions *conditions,
                     bool allowed, const char *why)
{
    const struct tern_conditions facts = tern_posix_conditions_facts(conditions);
    cJSON *root = cJSON_CreateObject();
    cJSON_AddBoolToObject(root, "may_work", allowed);
    if (!allowed) {
        cJSON_AddStringToObject(root, "why", why);
    }
    cJSON *list = cJSON_AddArrayToObject(root, "conditions");
    for (int i = 0; i < TERN_CONDITION_COUNT; i++) {
        add_condition(list, conditions, (enum tern_condition)i);
    }
    cJSON *reported = cJSON_AddObjectToObject(root, "reported");
    cJSON_AddBoolToObject(reported, "metered", facts.metered);
    cJSON_AddStringToObject(reported, "power", power_name(facts.power));
    return tern_json_print(cli, root);
}

// --- Text

static void print_condition(const struct tern_posix_conditions *conditions,
                            enum tern_condition condition)
{
    char name[64];
    const struct tern_finding *finding = &conditions->findings[condition];
    const bool asked = conditions->when.required[condition];
    const char *holds = finding->met ? "met" : "not met";
    snprintf(name, sizeof name, "%s", tern_condition_name(condition));
    if (asked) {
        tern_when_format(&conditions->when, condition, name, sizeof name);
    }
    printf("%-16s %-10s %s%s\n", name, asked ? holds : "not asked",
           finding->reading.known ? "" : "unknown: ", finding->reading.text);
    printf("%-16s %-10s %s\n", "", "", finding->reading.source);
}

static void show_text(const struct tern_posix_conditions *conditions, bool allowed, const char *why)
{
    const struct tern_conditions facts = tern_posix_conditions_facts(conditions);
    for (int i = 0; i < TERN_CONDITION_COUNT; i++) {
        print_condition(conditions, (enum tern_condition)i);
    }
    printf("\nReported to the aggregator: %s, power %s.\n",
           facts.metered ? "metered" : "not metered", power_name(facts.power));
    if (allowed) {
        printf("The client may work now.\n");
    } else {
        printf("The client may not work now: %s.\n", why);
    }
}

int tern_verb_conditions(struct tern_cli *cli)
{
    static struct tern_posix_conditions conditions;
    char problem[CONDITIONS_WHY_MAX];
    const char *why = NULL;
    const enum tern_result result =
        tern_conditions_from_settings(&tern_client_settings, &conditions, problem);
    if (result != TERN_OK) {
        return tern_cli_fail(cli, result, "%s", problem);
    }
    const bool allowed = tern_posix_conditions_read(&conditions, &why);
    tern_posix_conditions_close(&conditions);
    if (!cli->json) {
        show_text(&conditions, allowed, why);
    } else if (show_json(cli, &conditions, allowed, why) != TERN_EXIT_OK) {
        return TERN_EXIT_FAILED;
    }
    return allowed ? TERN_EXIT_OK : TERN_EXIT_NOTHING;
}
