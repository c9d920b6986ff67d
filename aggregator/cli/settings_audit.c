#include "cli/settings_audit.h"
#include "cli/shared_database.h"
#include "hosted/files.h"
#include "hosted/host.h"
#include "hosted/log.h"
#include "util/sha256.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TABLE (&tern_aggregator_settings_table)

#define ACTION_START "start"
#define ACTION_RELOAD "SIGHUP"

struct changes {
    const struct tern_cli *cli;
    const struct tern_aggregator_settings *before; // NULL: the audit log has the values before
    const struct tern_aggregator_settings *now;
};

// The value of a setting in its last row.
struct recorded {
    bool found;
    char value[TERN_DB_CHANGED_MAX];
};

static void name_setting(const struct tern_setting *setting, char key[80])
{
    snprintf(key, 80, "%s.%s", setting->section, setting->key);
}

// --- A reload

static enum tern_result add_reload(struct tern_db *db, const struct changes *changes)
{
    char from[TERN_SETTING_TEXT_MAX];
    char to[TERN_SETTING_TEXT_MAX];
    for (size_t i = 0; i < TABLE->count; i++) {
        const struct tern_setting *setting = &TABLE->table[i];
        if (setting->change == TERN_SETTING_LIVE &&
            !tern_setting_equal(setting, changes->before, changes->now)) {
            tern_setting_format(setting, changes->before, from);
            tern_setting_format(setting, changes->now, to);
            TERN_TRY(tern_db_audit(db, tern_now_ms(), ACTION_RELOAD, from, to, "%s.%s",
                                   setting->section, setting->key));
        }
    }
    return TERN_OK;
}

// --- A start

static void take_row(const struct tern_db_audit *row, struct recorded *recorded)
{
    char key[80];
    if (strcmp(row->action, ACTION_START) != 0 && strcmp(row->action, ACTION_RELOAD) != 0) {
        return;
    }
    for (size_t i = 0; i <= TABLE->count; i++) {
        snprintf(key, sizeof key, TERN_STATE_ADMIN_TOKEN);
        if (i < TABLE->count) {
            name_setting(&TABLE->table[i], key);
        }
        if (strcmp(row->subject, key) == 0) {
            recorded[i].found = true;
            memcpy(recorded[i].value, row->after, sizeof row->after);
        }
    }
}

static enum tern_result read_recorded(struct tern_db *db, struct recorded *recorded)
{
    struct tern_db_audit row;
    struct tern_db_rows *rows = tern_db_audits_after(db, 0);
    while (tern_db_next(rows, &row)) {
        take_row(&row, recorded);
    }
    return tern_db_end(rows);
}

// Adds a row if the value differs from the recorded one. usual: the value before the first row.
static enum tern_result add_value(struct tern_db *db, const struct recorded *recorded,
                                  const char *key, const char *usual, const char *value)
{
    char before[TERN_DB_CHANGED_MAX];
    char after[TERN_DB_CHANGED_MAX];
    tern_db_audit_text(before, recorded->found ? recorded->value : usual);
    tern_db_audit_text(after, value);
    return strcmp(before, after) == 0
               ? TERN_OK
               : tern_db_audit(db, tern_now_ms(), ACTION_START, before, after, "%s", key);
}

// Writes 16 bits of the token's hash: viewers read the audit log, and a full hash would confirm a guessed token.
static void mark_of_token(const struct tern_cli *cli, char mark[32])
{
    char path[PATH_MAX];
    uint8_t digest[TERN_SHA256_SIZE];
    uint8_t *data = NULL;
    size_t len = 0;
    tern_state_path(cli, TERN_STATE_ADMIN_TOKEN, path);
    mark[0] = '\0';
    if (tern_file_read(path, 1024, &data, &len) == TERN_OK) {
        while (len > 0 && data[len - 1] <= ' ') {
            len--;
        }
        tern_sha256(data, len, digest);
        snprintf(mark, 32, "SHA-256 %02x%02x...", digest[0], digest[1]);
    }
    free(data);
}

static enum tern_result add_token(struct tern_db *db, const struct changes *changes,
                                  const struct recorded *recorded)
{
    char mark[32];
    if (tern_state_is_postgres(changes->cli) || changes->now->admin_address[0] == '\0') {
        return TERN_OK;
    }
    mark_of_token(changes->cli, mark);
    return add_value(db, recorded, TERN_STATE_ADMIN_TOKEN, "", mark);
}

static bool is_compared(const struct changes *changes, const struct tern_setting *setting,
                        const char *key)
{
    return setting->change != TERN_SETTING_INIT &&
           (!tern_state_is_postgres(changes->cli) || tern_shared_settings_have(key));
}

static enum tern_result add_start(struct tern_db *db, const struct changes *changes)
{
    static struct tern_aggregator_settings defaults;
    struct recorded *recorded = calloc(TABLE->count + 1, sizeof *recorded);
    enum tern_result result = recorded == NULL ? TERN_ERR_NO_MEMORY : read_recorded(db, recorded);
    tern_settings_defaults(TABLE, &defaults);
    for (size_t i = 0; result == TERN_OK && i < TABLE->count; i++) {
        const struct tern_setting *setting = &TABLE->table[i];
        char key[80];
        char usual[TERN_SETTING_TEXT_MAX];
        char value[TERN_SETTING_TEXT_MAX];
        name_setting(setting, key);
        tern_setting_format(setting, &defaults, usual);
        tern_setting_format(setting, changes->now, value);
        if (is_compared(changes, setting, key)) {
            result = add_value(db, &recorded[i], key, usual, value);
        }
    }
    result = result == TERN_OK ? add_token(db, changes, &recorded[TABLE->count]) : result;
    free(recorded);
    return result;
}

// --- The connection

static void record(const struct changes *changes)
{
    char database[PATH_MAX];
    char why[256];
    struct tern_db *db = NULL;
    tern_state_database(changes->cli, database);
    enum tern_result result = tern_db_open(database, TERN_DB_SECOND, &db, why);
    if (result == TERN_OK) {
        tern_state_sign(db);
        result = tern_db_begin(db);
        if (result == TERN_OK) {
            result = tern_db_conclude(db, changes->before != NULL ? add_reload(db, changes)
                                                                  : add_start(db, changes));
        }
        snprintf(why, sizeof why, "%s", tern_db_error(db));
        tern_db_close(db);
    }
    if (result != TERN_OK) {
        tern_log(TERN_LOG_WARN, "settings-not-audited", "error=%s detail=%s",
                 tern_result_name(result), TERN_LOG_TEXT(why));
    }
}

void tern_settings_audit(const struct tern_cli *cli, const struct tern_aggregator_settings *before)
{
    record(&(struct changes){.cli = cli, .before = before, .now = tern_state_settings(cli)});
}
