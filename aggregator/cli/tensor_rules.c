#define _GNU_SOURCE // memrchr()
#include "cli/tensor_rules.h"

#include "util/prefix.h"
#include <fnmatch.h>
#include <stdio.h>
#include <string.h>

static const char *const names[TERN_RULE_COUNT] = {"compress", "fuse", "dense", "skip", "local"};

enum { GLOB_MAX = 2 * TERN_TENSOR_NAME_MAX };

const char *tern_tensor_rule_name(enum tern_rule rule)
{
    return names[rule];
}

// --- Without a rule of its own

static enum tern_rule preset(const struct tern_tensor *tensor)
{
    if (tern_ends_with(tensor->name, "running_mean") ||
        tern_ends_with(tensor->name, "running_var")) {
        return TERN_RULE_DENSE;
    }
    return tensor->count < TERN_FUSE_BELOW ? TERN_RULE_FUSE : TERN_RULE_COMPRESS;
}

// --- One rule of the text

static void trim(const char **text, size_t *len)
{
    while (*len > 0 && strchr(" \t\r\n", **text) != NULL) {
        (*text)++;
        (*len)--;
    }
    while (*len > 0 && strchr(" \t\r\n", (*text)[*len - 1]) != NULL) {
        (*len)--;
    }
}

static bool rule_from_name(const char *text, size_t len, enum tern_rule *rule)
{
    for (int i = 0; i < TERN_RULE_COUNT; i++) {
        if (strlen(names[i]) == len && memcmp(names[i], text, len) == 0) {
            *rule = (enum tern_rule)i;
            return true;
        }
    }
    return false;
}

// Reads "GLOB: RULE". The last colon separates: a name may hold one, too.
static bool read_rule(const char *text, size_t len, char glob[GLOB_MAX], enum tern_rule *rule)
{
    const char *colon = memrchr(text, ':', len);
    if (colon == NULL) {
        return false;
    }
    const char *name = colon + 1;
    size_t name_len = len - (size_t)(name - text);
    size_t glob_len = (size_t)(colon - text);
    trim(&name, &name_len);
    trim(&text, &glob_len);
    if (glob_len == 0 || glob_len >= GLOB_MAX) {
        return false;
    }
    memcpy(glob, text, glob_len);
    glob[glob_len] = '\0';
    return rule_from_name(name, name_len, rule);
}

// --- All of them

// Sets the rule where its glob matches and no earlier one did. Returns whether it matched anything.
static bool apply_rule(const char *glob, enum tern_rule rule, struct tern_model *model,
                       bool decided[TERN_MODEL_MAX_TENSORS])
{
    bool matched = false;
    for (uint32_t i = 0; i < model->tensor_count; i++) {
        if (fnmatch(glob, model->tensors[i].name, 0) != 0) {
            continue;
        }
        matched = true;
        if (!decided[i]) {
            model->tensors[i].rule = rule;
            decided[i] = true;
        }
    }
    return matched;
}

static enum tern_result apply_text(const char *text, size_t len, struct tern_model *model,
                                   bool decided[TERN_MODEL_MAX_TENSORS],
                                   char why[TERN_TENSOR_RULES_WHY_MAX])
{
    char glob[GLOB_MAX];
    enum tern_rule rule = TERN_RULE_COMPRESS;
    trim(&text, &len);
    if (len == 0) {
        return TERN_OK; // behind a last comma
    }
    if (!read_rule(text, len, glob, &rule)) {
        snprintf(why, TERN_TENSOR_RULES_WHY_MAX,
                 "'%.*s' is no rule; one is GLOB: compress, GLOB: fuse, GLOB: dense, GLOB: skip or "
                 "GLOB: local, where a comma or semicolon of a name is written \\, or \\;",
                 (int)(len < 300 ? len : 300), text);
        return TERN_ERR_CONFIG;
    }
    if (!apply_rule(glob, rule, model, decided)) {
        snprintf(why, TERN_TENSOR_RULES_WHY_MAX, "no tensor of the model matches '%s'", glob);
        return TERN_ERR_CONFIG;
    }
    return TERN_OK;
}

// Up to the separator. A backslash makes the character behind it part of the glob; fnmatch() reads
// it in the same way.
static size_t rule_length(const char *rules)
{
    size_t len = 0;
    while (rules[len] != '\0' && rules[len] != ',' && rules[len] != ';') {
        len += rules[len] == '\\' && rules[len + 1] != '\0' ? 2 : 1;
    }
    return len;
}

static enum tern_result check_any_trains(const struct tern_model *model,
                                         char why[TERN_TENSOR_RULES_WHY_MAX])
{
    for (uint32_t i = 0; i < model->tensor_count; i++) {
        if (model->tensors[i].rule < TERN_RULE_SKIP) {
            return TERN_OK;
        }
    }
    snprintf(why, TERN_TENSOR_RULES_WHY_MAX,
             "no tensor is left that is sent: all are skipped or local");
    return TERN_ERR_CONFIG;
}

enum tern_result tern_tensor_rules_apply(const char *rules, struct tern_model *model,
                                         char why[TERN_TENSOR_RULES_WHY_MAX])
{
    bool decided[TERN_MODEL_MAX_TENSORS] = {false};
    for (uint32_t i = 0; i < model->tensor_count; i++) {
        model->tensors[i].rule = preset(&model->tensors[i]);
    }
    for (;;) {
        const size_t len = rule_length(rules);
        TERN_TRY(apply_text(rules, len, model, decided, why));
        if (rules[len] == '\0') {
            return check_any_trains(model, why);
        }
        rules += len + 1;
    }
}
