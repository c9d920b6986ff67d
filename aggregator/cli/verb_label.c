// label names versions, whose weights are then pinned.
#include "cli/state.h"
#include "cli/verbs.h"
#include "cli/versions.h"
#include "tensor/manifest.h"

#include <inttypes.h>
#include <string.h>

// --- The list

static uint64_t weight_bytes(const struct tern_model *model)
{
    return (uint64_t)model->count * sizeof(float);
}

struct listed {
    struct tern_db_label label;
    bool whole;
};

static bool next_label(struct tern_db *db, struct tern_db_rows *rows, struct listed *listed)
{
    if (!tern_db_next(rows, &listed->label)) {
        return false;
    }
    tern_db_check_row(rows, tern_db_pinned_is_whole(db, "", listed->label.version, &listed->whole));
    return true;
}

static cJSON *list_as_json(struct tern_db *db, struct tern_db_rows *rows, uint64_t bytes)
{
    struct listed listed;
    cJSON *list = cJSON_CreateArray();
    while (next_label(db, rows, &listed)) {
        cJSON *object = cJSON_CreateObject();
        tern_json_text(object, "label", listed.label.name);
        tern_json_u64(object, "version", listed.label.version);
        tern_json_u64(object, "bytes", listed.whole ? bytes : 0);
        tern_json_bool(object, "whole", listed.whole);
        tern_json_u64(object, "created_ms", listed.label.created_ms);
        cJSON_AddItemToArray(list, object);
    }
    return list;
}

static enum tern_result list_as_table(struct tern_db *db, struct tern_db_rows *rows, uint64_t bytes)
{
    static const struct tern_text_column columns[] = {{"LABEL", TERN_TEXT_LONG},
                                                      {"VERSION", TERN_TEXT_NUMBER},
                                                      {"BYTES", TERN_TEXT_NUMBER},
                                                      {"MADE", TERN_TEXT_WORD}};
    struct tern_text_table table = TERN_TEXT_TABLE(columns);
    struct listed listed;
    char text[TERN_TEXT];
    while (next_label(db, rows, &listed)) {
        tern_text_cell(&table, "%s", listed.label.name);
        tern_text_cell(&table, "%" PRIu32, listed.label.version);
        tern_text_cell(&table, "%s",
                       listed.whole ? tern_text_bytes((double)bytes, text)
                                    : "incomplete: give it again");
        tern_text_cell(&table, "%s", tern_text_time(listed.label.created_ms, text));
    }
    return tern_text_table_print(&table, stdout);
}

static int list_labels(struct tern_cli *cli)
{
    static struct tern_model model;
    struct tern_db *db;
    struct tern_db_federation about;
    TERN_CLI_TRY(tern_state_open_reading(cli, &db));
    enum tern_result result = tern_db_federation(db, &about);
    if (result == TERN_OK) {
        result = tern_model_build(&model, about.model_spec, about.manifest, about.manifest_len,
                                  about.model_hash);
    }
    if (result != TERN_OK) {
        return tern_state_fail(cli, db, result);
    }
    struct tern_db_rows *rows = tern_db_labels(db);
    cJSON *list = cli->json ? list_as_json(db, rows, weight_bytes(&model)) : NULL;
    result = cli->json ? TERN_OK : list_as_table(db, rows, weight_bytes(&model));
    const enum tern_result ended = tern_db_end(rows);
    result = result != TERN_OK ? result : ended;
    if (result != TERN_OK) {
        cJSON_Delete(list);
        return tern_state_fail(cli, db, result);
    }
    tern_db_close(db);
    return list != NULL ? tern_json_print(cli, list) : TERN_EXIT_OK;
}

// --- Making a label

static int check_name(struct tern_cli *cli, const char *name)
{
    if (strcmp(name, TERN_LABEL_BEST) == 0) {
        return tern_cli_fail(cli, TERN_ERR_CONFIG,
                             "the service gives the label best to the version that evaluators "
                             "rate best; choose another name");
    }
    return tern_state_check_name(cli, "label", name, TERN_DB_NAME_MAX);
}

// Stores the label, unless it names another version.
static enum tern_result put_label(struct tern_db *db, struct tern_db_label *label)
{
    const struct tern_db_label wanted = *label;
    const enum tern_result found = tern_db_label_get(db, label->name, label);
    if (found == TERN_OK) {
        return label->version == wanted.version ? TERN_OK : TERN_ERR_CONFLICT;
    }
    *label = wanted;
    TERN_TRY(tern_db_may_miss(found));
    TERN_TRY(tern_db_label_put(db, label));
    char version[16];
    snprintf(version, sizeof version, "%" PRIu32, label->version);
    return tern_db_audit(db, label->created_ms, "label", "", version, "label %s", label->name);
}

static int refuse_label(struct tern_cli *cli, const struct tern_db_label *label)
{
    return tern_cli_fail(cli, TERN_ERR_STATE,
                         "the label %s is of version %" PRIu32
                         "; remove it first: tern-aggregator label --remove %s",
                         label->name, label->version, label->name);
}

static int print_label(struct tern_cli *cli, const struct tern_db_label *label, uint64_t bytes)
{
    char text[TERN_TEXT];
    if (cli->json) {
        cJSON *object = cJSON_CreateObject();
        tern_json_text(object, "label", label->name);
        tern_json_u64(object, "version", label->version);
        tern_json_u64(object, "bytes", bytes);
        return tern_json_print(cli, object);
    }
    printf("Version %" PRIu32 " has the label %s. Its weights stay in the database: %s.\n",
           label->version, label->name, tern_text_bytes((double)bytes, text));
    return TERN_EXIT_OK;
}

static int make_label(struct tern_cli *cli, struct tern_db *db, struct tern_merge *merge)
{
    struct tern_db_label label = {.created_ms = tern_now_ms()};
    const char *name = cli->arguments[1];
    TERN_CLI_TRY(check_name(cli, name));
    memcpy(label.name, name, strlen(name) + 1);
    TERN_CLI_TRY(tern_version_parse(cli, db, cli->arguments[0], &label.version));
    TERN_CLI_TRY(tern_version_load_any(cli, db, merge, label.version));
    enum tern_result result = tern_db_begin(db);
    if (result == TERN_OK) {
        result = tern_db_conclude(db, put_label(db, &label));
    }
    if (result == TERN_ERR_CONFLICT) {
        return refuse_label(cli, &label);
    }
    TERN_CLI_TRY(tern_cli_check(cli, result, "cannot store the label: %s", tern_db_error(db)));
    TERN_CLI_TRY(tern_version_pin(cli, db, "", label.version, merge));
    return print_label(cli, &label, weight_bytes(&merge->model));
}

// --- Removing a label

static enum tern_result drop_label(struct tern_db *db, const char *name,
                                   struct tern_db_label *label)
{
    char version[16];
    TERN_TRY(tern_db_label_get(db, name, label));
    TERN_TRY(tern_db_label_drop(db, name));
    snprintf(version, sizeof version, "%" PRIu32, label->version);
    return tern_db_audit(db, tern_now_ms(), "label --remove", version, "", "label %s", name);
}

static int remove_label(struct tern_cli *cli, struct tern_db *db, const char *name)
{
    struct tern_db_label label = {.version = 0};
    uint32_t unused = 0;
    TERN_CLI_TRY(tern_state_check_name(cli, "label", name, TERN_DB_NAME_MAX));
    TERN_CLI_TRY(tern_version_parse(cli, db, name, &unused));
    enum tern_result result = tern_db_begin(db);
    if (result == TERN_OK) {
        result = tern_db_conclude(db, drop_label(db, name, &label));
    }
    TERN_CLI_TRY(tern_cli_check(cli, result, "cannot remove the label: %s", tern_db_error(db)));
    TERN_CLI_TRY(tern_version_unpin(cli, db));
    if (cli->json) {
        cJSON *object = cJSON_CreateObject();
        tern_json_text(object, "removed", name);
        tern_json_u64(object, "version", label.version);
        return tern_json_print(cli, object);
    }
    printf("The label %s of version %" PRIu32 " is removed.\n", name, label.version);
    return TERN_EXIT_OK;
}

int tern_cli_label(struct tern_cli *cli)
{
    static struct tern_merge merge;
    struct tern_db *db;
    const char *removed = tern_cli_option(cli, "remove", NULL);
    if (cli->argument_count == 1 || (removed != NULL && cli->argument_count > 0)) {
        return tern_cli_fail(cli, TERN_ERR_CONFIG,
                             "give a version and its label, e.g. `tern-aggregator label 120 "
                             "release-3`, or --remove NAME, or nothing for a list");
    }
    if (removed == NULL && cli->argument_count == 0) {
        return list_labels(cli);
    }
    TERN_CLI_TRY(tern_state_open(cli, &db));
    int code =
        removed != NULL ? remove_label(cli, db, removed) : tern_version_begin(cli, db, &merge);
    if (code == TERN_EXIT_OK && removed == NULL) {
        code = make_label(cli, db, &merge);
        tern_merge_free(&merge);
    }
    tern_db_close(db);
    return code;
}
