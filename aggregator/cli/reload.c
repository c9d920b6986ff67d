#include "cli/reload.h"

#include "hosted/log.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define DAY_S 86400u
#define WARN_DAYS 14u

// --- Level of the log

int tern_cli_set_log_level(const struct tern_cli *cli)
{
    const char *text = tern_state_settings(cli)->server_log;
    enum tern_log_level level;
    if (!tern_log_level_parse(text, &level)) {
        return tern_cli_fail(cli, TERN_ERR_CONFIG,
                             "server.log = %s; allowed: error, warn, info, debug", text);
    }
    tern_log_set_level(level);
    return TERN_EXIT_OK;
}

// --- Certificate

void tern_cli_log_certificate(const struct tern_cli *cli, const struct tern_http_server *server)
{
    struct tern_http_counters counters;
    char path[PATH_MAX];
    char when[TERN_TEXT];
    tern_http_counters(server, &counters);
    tern_state_file(cli, tern_state_settings(cli)->server_certificate, TERN_STATE_CERTIFICATE,
                    path);
    tern_text_time(counters.certificate_ends_s * 1000, when);
    const uint64_t now_s = (uint64_t)time(NULL);
    const uint64_t ends_s = counters.certificate_ends_s;
    if (ends_s <= now_s) {
        tern_log(
            TERN_LOG_ERROR, "certificate-expired",
            "file=%s expired=\"%s\" advice=\"clients refuse it: put a new one there, then send "
            "SIGHUP\"",
            TERN_LOG_TEXT(path), when);
        return;
    }
    const uint64_t days = (ends_s - now_s) / DAY_S;
    tern_log(days < WARN_DAYS ? TERN_LOG_WARN : TERN_LOG_INFO, "certificate",
             "file=%s expires=\"%s\" days=%" PRIu64, TERN_LOG_TEXT(path), when, days);
}

// --- Settings

static enum tern_result read_again(const struct tern_cli *cli,
                                   struct tern_aggregator_settings *fresh, char why[512])
{
    const struct tern_settings *table = &tern_aggregator_settings_table;
    tern_settings_defaults(table, fresh);
    if (cli->config != NULL) {
        TERN_TRY(tern_settings_load(table, fresh, cli->config, why));
    }
    for (unsigned i = 0; i < cli->set_count; i++) {
        TERN_TRY(tern_settings_set(table, fresh, cli->sets[i], why));
    }
    // --state is stronger than both.
    memcpy(fresh->federation_state, tern_state_settings(cli)->federation_state,
           sizeof fresh->federation_state);
    enum tern_log_level level;
    if (!tern_log_level_parse(fresh->server_log, &level)) {
        snprintf(why, 512, "server.log = %s; allowed: error, warn, info, debug", fresh->server_log);
        return TERN_ERR_CONFIG;
    }
    return TERN_OK;
}

static bool may_change(const struct tern_setting *setting)
{
    return strcmp(setting->section, "server") == 0 &&
           (strcmp(setting->key, "certificate") == 0 || strcmp(setting->key, "private_key") == 0 ||
            strcmp(setting->key, "log") == 0);
}

static bool is_same(const struct tern_setting *setting, const void *a, const void *b)
{
    const char *old = (const char *)a + setting->offset;
    const char *fresh = (const char *)b + setting->offset;
    return setting->type == TERN_SETTING_TEXT ? strcmp(old, fresh) == 0
                                              : memcmp(old, fresh, setting->size) == 0;
}

static void name_the_others(const struct tern_aggregator_settings *old,
                            const struct tern_aggregator_settings *fresh)
{
    const struct tern_settings *table = &tern_aggregator_settings_table;
    for (size_t i = 0; i < table->count; i++) {
        const struct tern_setting *setting = &table->table[i];
        if (!may_change(setting) && !is_same(setting, old, fresh)) {
            tern_log(TERN_LOG_WARN, "setting-needs-restart", "key=%s.%s", setting->section,
                     setting->key);
        }
    }
}

static enum tern_result renew(const struct tern_cli *cli, struct tern_http_server *server,
                              const struct tern_aggregator_settings *fresh, char why[256])
{
    char certificate[PATH_MAX];
    char private_key[PATH_MAX];
    tern_state_file(cli, fresh->server_certificate, TERN_STATE_CERTIFICATE, certificate);
    tern_state_file(cli, fresh->server_private_key, TERN_STATE_PRIVATE_KEY, private_key);
    return tern_http_renew(server, certificate, private_key, why);
}

void tern_cli_reload(struct tern_cli *cli, struct tern_http_server *server)
{
    static struct tern_aggregator_settings fresh;
    struct tern_aggregator_settings *settings = cli->program->values;
    char why[512] = "";
    enum tern_result result = read_again(cli, &fresh, why);
    if (result == TERN_OK) {
        result = renew(cli, server, &fresh, why);
    }
    if (result != TERN_OK) {
        tern_log(TERN_LOG_ERROR, "reload-failed", "reason=%s", TERN_LOG_TEXT(why));
        return;
    }
    name_the_others(settings, &fresh);
    memcpy(settings->server_certificate, fresh.server_certificate,
           sizeof settings->server_certificate);
    memcpy(settings->server_private_key, fresh.server_private_key,
           sizeof settings->server_private_key);
    memcpy(settings->server_log, fresh.server_log, sizeof settings->server_log);
    (void)tern_cli_set_log_level(cli); // read_again() has checked it
    tern_log(TERN_LOG_INFO, "reloaded", NULL);
    tern_cli_log_certificate(cli, server);
}
