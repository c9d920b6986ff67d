#include "cli/shared_settings.h"

#include "cli/standby.h"
#include "hosted/log.h"
#include "store/nodes.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// --- Which

// Sections whose settings all change the results of rounds.
static const char *const deciding[] = {"round", "statistics", "train", "codec", "downloads"};

// Settings of other sections.
static const struct {
    const char *key;
    bool decides;
} single[] = {
    {"limits.clients", true},
    {"limits.num_examples", true},
    {"limits.norm", true},
    {"limits.body_bytes", false},
    {"limits.long_poll", false},
    {"limits.requests_per_minute", false},
    {"limits.enrollments_per_minute", false},
    {"limits.keep_versions", false},
    {"limits.disk", false},
    {"limits.history_bytes", false},
    {"tls.psk", false},
    {"tls.client_certificate", false},
};

static bool is_shared(const char *key, bool *decides)
{
    for (size_t i = 0; i < sizeof deciding / sizeof deciding[0]; i++) {
        const size_t len = strlen(deciding[i]);
        if (strncmp(key, deciding[i], len) == 0 && key[len] == '.') {
            *decides = true;
            return true;
        }
    }
    for (size_t i = 0; i < sizeof single / sizeof single[0]; i++) {
        if (strcmp(key, single[i].key) == 0) {
            *decides = single[i].decides;
            return true;
        }
    }
    return false;
}

// --- Texts: lines of "section.key=value"

char *tern_shared_settings_text(const struct tern_aggregator_settings *settings)
{
    const struct tern_settings *table = &tern_aggregator_settings_table;
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    for (size_t i = 0; out != NULL && i < table->count; i++) {
        const struct tern_setting *setting = &table->table[i];
        char value[TERN_SETTING_TEXT_MAX];
        char key[80];
        bool decides;
        snprintf(key, sizeof key, "%s.%s", setting->section, setting->key);
        if (is_shared(key, &decides)) {
            tern_setting_format(setting, settings, value);
            fprintf(out, "%s=%s\n", key, value);
        }
    }
    if (out != NULL && fclose(out) != 0) {
        free(text);
        text = NULL;
    }
    return text;
}

// The value of a key; false: there is none.
static bool find(const char *text, const char *key, char value[TERN_SETTING_TEXT_MAX])
{
    const size_t len = strlen(key);
    while (*text != '\0') {
        const size_t line = strcspn(text, "\n");
        if (line > len && strncmp(text, key, len) == 0 && text[len] == '=') {
            snprintf(value, TERN_SETTING_TEXT_MAX, "%.*s", (int)(line - len - 1), text + len + 1);
            return true;
        }
        text += line + (text[line] == '\n');
    }
    return false;
}

void tern_shared_settings_compare(const char *here, const char *there,
                                  void (*found)(void *ctx,
                                                const struct tern_setting_difference *difference),
                                  void *ctx)
{
    const struct tern_settings *table = &tern_aggregator_settings_table;
    for (size_t i = 0; i < table->count; i++) {
        struct tern_setting_difference difference;
        char key[80];
        snprintf(key, sizeof key, "%s.%s", table->table[i].section, table->table[i].key);
        difference.key = key;
        if (is_shared(key, &difference.decides) && find(here, key, difference.here) &&
            find(there, key, difference.there) &&
            !tern_setting_text_equal(&table->table[i], difference.here, difference.there)) {
            found(ctx, &difference);
        }
    }
}

enum tern_result tern_shared_settings_load(struct tern_db *db, const struct tern_db_node *nodes,
                                           size_t count, char **texts)
{
    for (size_t i = 0; i < count; i++) {
        TERN_TRY(tern_db_may_miss(tern_db_node_settings_get(db, nodes[i].number, &texts[i])));
    }
    return TERN_OK;
}

void tern_shared_settings_free(char **texts, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        free(texts[i]);
        texts[i] = NULL;
    }
}

// --- The log

static enum tern_result put(struct tern_db *db, uint32_t node, const char *text)
{
    TERN_TRY(tern_db_begin_apart(db, false));
    return tern_db_conclude(db, tern_db_node_settings_put(db, node, text));
}

static void log_difference(void *ctx, const struct tern_setting_difference *difference)
{
    const char *node = ctx;
    tern_log(TERN_LOG_WARN, "setting-differs", "key=%s here=%s there=%s aggregator=%s",
             difference->key, TERN_LOG_TEXT(difference->here), TERN_LOG_TEXT(difference->there),
             TERN_LOG_TEXT(node));
}

static enum tern_result compare_with(struct tern_db *db, const struct tern_db_node *node,
                                     const char *own)
{
    char name[TERN_STANDBY_NAME_MAX];
    char *there = NULL;
    const enum tern_result result = tern_db_node_settings_get(db, node->number, &there);
    if (result == TERN_OK) {
        tern_standby_name(node, name);
        tern_shared_settings_compare(own, there, log_difference, name);
    }
    free(there);
    return tern_db_may_miss(result);
}

static enum tern_result tell(struct tern_db *db, uint32_t number, const char *own)
{
    struct tern_db_node nodes[TERN_STANDBY_NODES];
    size_t count = 0;
    TERN_TRY(put(db, number, own));
    TERN_TRY(tern_db_nodes(db, nodes, TERN_STANDBY_NODES, &count));
    for (size_t i = 0; i < count; i++) {
        if (nodes[i].number != number) {
            TERN_TRY(compare_with(db, &nodes[i], own));
        }
    }
    return TERN_OK;
}

void tern_shared_settings_tell(const struct tern_cli *cli, uint32_t node)
{
    const struct tern_aggregator_settings *settings = tern_state_settings(cli);
    struct tern_db *db = NULL;
    char why[256] = "there is no memory";
    char *own = tern_shared_settings_text(settings);
    enum tern_result result = own != NULL ? TERN_OK : TERN_ERR_NO_MEMORY;
    if (result == TERN_OK) {
        result = tern_db_open(settings->store_url, TERN_DB_HURRIED, &db, why);
    }
    if (result == TERN_OK) {
        result = tell(db, node, own);
        snprintf(why, sizeof why, "%s", tern_db_error(db));
    }
    if (result != TERN_OK) {
        tern_log(TERN_LOG_WARN, "settings-not-compared", "error=%s detail=%s",
                 tern_result_name(result), TERN_LOG_TEXT(why));
    }
    tern_db_close(db);
    free(own);
}

// --- Refusing

struct refusal {
    char list[300];
};

static void add_refusal(void *ctx, const struct tern_setting_difference *difference)
{
    struct refusal *refusal = ctx;
    const size_t len = strlen(refusal->list);
    if (difference->decides) {
        snprintf(refusal->list + len, sizeof refusal->list - len, "%s%s = %.40s (there %.40s)",
                 len > 0 ? ", " : "", difference->key, difference->here, difference->there);
    }
}

static int refuse(const struct tern_cli *cli, const struct tern_db_node *leader, const char *there)
{
    struct refusal refusal = {""};
    char name[TERN_STANDBY_NAME_MAX];
    char *own = tern_shared_settings_text(tern_state_settings(cli));
    if (own == NULL) {
        return tern_cli_fail(cli, TERN_ERR_NO_MEMORY, "there is no memory");
    }
    tern_shared_settings_compare(own, there, add_refusal, &refusal);
    free(own);
    if (refusal.list[0] == '\0') {
        return TERN_EXIT_OK;
    }
    return tern_cli_fail(
        cli,
        TERN_ERR_STATE, // a code upon which systemd tries again: the one that leads may read its file yet
        "%s leads by other settings than these: %s. Rounds would come to something "
        "else when another one leads: make the settings alike in both files, and "
        "have that one read its own again (systemctl reload tern-aggregator)",
        tern_standby_name(leader, name), refusal.list);
}

int tern_shared_settings_check(const struct tern_cli *cli, struct tern_db *db)
{
    struct tern_db_node leader;
    char *there = NULL;
    size_t count = 0;
    enum tern_result result = tern_db_nodes(db, &leader, 1, &count);
    if (result == TERN_OK && (count == 0 || !leader.leads)) {
        return TERN_EXIT_OK;
    }
    result = result == TERN_OK ? tern_db_node_settings_get(db, leader.number, &there) : result;
    if (result == TERN_ERR_NOT_FOUND) { // it has just begun
        return TERN_EXIT_OK;
    }
    const int code = result == TERN_OK ? refuse(cli, &leader, there)
                                       : tern_cli_fail(cli, result, "%s", tern_db_error(db));
    free(there);
    return code;
}
