#include "cli/reload.h"

#include "cli/disk_need.h"
#include "cli/process.h"
#include "cli/serving.h"
#include "cli/tls_files.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define DAY_S 86400u
#define WARN_DAYS 14u

// --- Certificate

// event: as "certificate"; consequence: what follows from its end.
static void log_end(const char *event, const char *path, uint64_t ends_s, const char *consequence)
{
    char when[TERN_TEXT];
    char expired[32];
    const uint64_t now_s = (uint64_t)time(NULL);
    tern_text_time(ends_s * 1000, when);
    if (ends_s <= now_s) {
        snprintf(expired, sizeof expired, "%s-expired", event);
        tern_log(TERN_LOG_ERROR, expired,
                 "file=%s expired=\"%s\" advice=\"%s: put a new one there, then send SIGHUP\"",
                 TERN_LOG_TEXT(path), when, consequence);
        return;
    }
    const uint64_t days = (ends_s - now_s) / DAY_S;
    tern_log(days < WARN_DAYS ? TERN_LOG_WARN : TERN_LOG_INFO, event,
             "file=%s expires=\"%s\" days=%" PRIu64, TERN_LOG_TEXT(path), when, days);
}

void tern_cli_log_certificate(const struct tern_cli *cli, const struct tern_http_server *server)
{
    struct tern_http_counters counters;
    struct tern_cli_tls_files files;
    tern_http_counters(server, &counters);
    tern_cli_tls_files(cli, tern_state_settings(cli), &files);
    log_end("certificate", files.certificate, counters.certificate_ends_s, "clients refuse it");
    if (files.names.client_ca != NULL) {
        log_end("client-ca", files.names.client_ca, counters.client_ca_ends_s,
                "clients with certificates of it are refused");
    }
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
    if (tern_cli_flag(cli, "state")) { // it is stronger than both
        memcpy(fresh->federation_state, tern_state_settings(cli)->federation_state,
               sizeof fresh->federation_state);
    }
    return TERN_OK;
}

// Puts the values that may change from one struct into the other, and the other way round. The rest is
// read by other threads and stays untouched.
static void swap_live(struct tern_aggregator_settings *a, struct tern_aggregator_settings *b)
{
    const struct tern_settings *table = &tern_aggregator_settings_table;
    uint8_t kept[sizeof *a];
    for (size_t i = 0; i < table->count; i++) {
        const struct tern_setting *setting = &table->table[i];
        if (setting->change == TERN_SETTING_LIVE) {
            uint8_t *x = (uint8_t *)a + setting->offset;
            uint8_t *y = (uint8_t *)b + setting->offset;
            memcpy(kept, x, setting->size);
            memcpy(x, y, setting->size);
            memcpy(y, kept, setting->size);
        }
    }
}

static void log_changed(const struct tern_setting *setting,
                        const struct tern_aggregator_settings *old,
                        const struct tern_aggregator_settings *fresh)
{
    char from[TERN_SETTING_TEXT_MAX];
    char to[TERN_SETTING_TEXT_MAX];
    tern_setting_format(setting, old, from);
    tern_setting_format(setting, fresh, to);
    tern_log(TERN_LOG_INFO, "setting-changed", "key=%s.%s from=%s to=%s", setting->section,
             setting->key, TERN_LOG_TEXT(from), TERN_LOG_TEXT(to));
}

// What the service goes on with, and what the file has.
static void log_not_taken(const struct tern_setting *setting,
                          const struct tern_aggregator_settings *running,
                          const struct tern_aggregator_settings *refused)
{
    char from[TERN_SETTING_TEXT_MAX];
    char to[TERN_SETTING_TEXT_MAX];
    tern_setting_format(setting, running, from);
    tern_setting_format(setting, refused, to);
    tern_log(TERN_LOG_WARN, "setting-not-taken", "key=%s.%s from=%s to=%s reason=\"%s\"",
             setting->section, setting->key, TERN_LOG_TEXT(from), TERN_LOG_TEXT(to),
             setting->change == TERN_SETTING_INIT ? "only init reads it" : "needs a restart");
}

// After swap_live(): settings has the new values that were taken, `other` the old ones, and the new ones
// that were not.
static void log_settings(const struct tern_aggregator_settings *settings,
                         const struct tern_aggregator_settings *other)
{
    const struct tern_settings *table = &tern_aggregator_settings_table;
    for (size_t i = 0; i < table->count; i++) {
        const struct tern_setting *setting = &table->table[i];
        if (tern_setting_equal(setting, settings, other)) {
            continue;
        }
        if (setting->change == TERN_SETTING_LIVE) {
            log_changed(setting, other, settings);
        } else {
            log_not_taken(setting, settings, other);
        }
    }
}

// --- Both

// With everything that can go wrong done before anything is taken.
static enum tern_result take(struct tern_cli *cli, const struct tern_cli_running *running,
                             char why[512])
{
    struct tern_service_facts facts;
    static struct tern_cli_serving serving;
    struct tern_cli_tls_files files;
    memset(&serving, 0, sizeof serving);
    if (tern_cli_read_serving(cli, &serving) != TERN_EXIT_OK ||
        tern_cli_fit_serving(cli, running->model, running->model_spec, running->say, &serving) !=
            TERN_EXIT_OK) {
        return TERN_ERR_CONFIG; // it was explained
    }
    if (running->relay != NULL) {
        tern_relay_adapt(running->relay, &serving.service);
    }
    TERN_TRY(tern_service_check_config(running->service, &serving.service, why));
    tern_cli_tls_files(cli, tern_state_settings(cli), &files);
    TERN_TRY(tern_http_reload_files(running->server, &files.names, why));
    tern_service_facts(running->service, &facts);
    tern_cli_raise_file_limit(cli, facts.federation.clients);
    tern_http_set_limits(running->server, &serving.limits);
    tern_service_configure(running->service, &serving.service);
    tern_service_set_disk_needed(running->service,
                                 tern_disk_need_bytes(tern_state_settings(cli),
                                                      &serving.service.federation, running->model,
                                                      facts.federation.clients));
    if (running->check != NULL) {
        tern_self_check_set_interval(running->check,
                                     tern_state_settings(cli)->server_check_interval);
    }
    tern_cli_take_logging(&serving.logging);
    return TERN_OK;
}

void tern_cli_reload(struct tern_cli *cli, const struct tern_cli_running *running)
{
    static struct tern_aggregator_settings other;
    struct tern_aggregator_settings *settings = cli->program->values;
    char why[512] = "";
    enum tern_result result = read_again(cli, &other, why);
    if (result == TERN_OK) {
        swap_live(settings, &other);
        cli->message = why;
        cli->message_size = sizeof why;
        result = take(cli, running, why);
        cli->message = NULL;
        if (result != TERN_OK) {
            swap_live(settings, &other);
        }
    }
    if (result != TERN_OK) {
        tern_log(TERN_LOG_ERROR, "reload-failed", "reason=%s", TERN_LOG_TEXT(why));
        return;
    }
    log_settings(settings, &other);
    tern_log(TERN_LOG_INFO, "reloaded", NULL);
    tern_cli_log_certificate(cli, running->server);
}
