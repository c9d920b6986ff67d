#include "merge/strategy_rule.h"

#include "hosted/float_text.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool uses(const struct tern_strategy *strategy, int parameter)
{
    return (strategy->parameters >> parameter & 1) != 0;
}

// --- Reading

static int find_parameter(const char *name, size_t len)
{
    for (int i = 0; i < TERN_STRATEGY_PARAMETERS; i++) {
        const char *known = tern_strategy_parameter_table[i].name;
        if (strlen(known) == len && memcmp(known, name, len) == 0) {
            return i;
        }
    }
    return -1;
}

// Reads "name=value" and the comma behind it. *seen: bit i for parameter i.
static bool read_one(const char **text, struct tern_strategy_rule *rule, uint32_t *seen)
{
    size_t len = strcspn(*text, "=");
    int parameter = find_parameter(*text, len);
    if ((*text)[len] != '=' || parameter < 0) {
        return false;
    }
    const char *number = *text + len + 1;
    char *end;
    float value = strtof(number, &end);
    bool ends = end != number && (*end == ',' || *end == '\0');
    bool fits = tern_strategy_parameter_fits((enum tern_strategy_parameter)parameter, value);
    *text = *end == ',' ? end + 1 : end;
    rule->parameters[parameter] = value;
    *seen |= UINT32_C(1) << parameter;
    return ends && fits;
}

enum tern_result tern_rule_read(const struct tern_db_round *row, struct tern_strategy_rule *rule)
{
    const char *text = row->strategy_parameters;
    uint32_t seen = 0;
    memset(rule, 0, sizeof *rule);
    rule->strategy = tern_strategy_find(row->strategy);
    rule->server_learning_rate = row->server_learning_rate;
    rule->learning_rate = row->learning_rate;
    if (rule->strategy == NULL) {
        return TERN_ERR_UNKNOWN;
    }
    while (text[0] != '\0') {
        if (!read_one(&text, rule, &seen)) {
            return TERN_ERR_UNKNOWN;
        }
    }
    return seen == rule->strategy->parameters ? TERN_OK : TERN_ERR_UNKNOWN;
}

// --- Writing

void tern_rule_write(const struct tern_strategy_rule *rule, struct tern_db_round *row)
{
    size_t len = 0;
    memset(row->strategy, 0, sizeof row->strategy);
    strncpy(row->strategy, rule->strategy->name, sizeof row->strategy - 1);
    row->server_learning_rate = rule->server_learning_rate;
    memset(row->strategy_parameters, 0, sizeof row->strategy_parameters);
    for (int i = 0; i < TERN_STRATEGY_PARAMETERS; i++) {
        char number[TERN_FLOAT_TEXT];
        if (!uses(rule->strategy, i)) {
            continue;
        }
        len +=
            (size_t)snprintf(row->strategy_parameters + len, sizeof row->strategy_parameters - len,
                             "%s%s=%s", len > 0 ? "," : "", tern_strategy_parameter_table[i].name,
                             tern_float_text(rule->parameters[i], number));
    }
}
