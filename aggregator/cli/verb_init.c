#include "cli/next_steps.h"
#include "cli/proposal.h"
#include "cli/proposal_settings.h"
#include "cli/service_advice.h"
#include "cli/service_config.h"
#include "cli/serving.h"
#include "cli/spending.h"
#include "cli/starting_model.h"
#include "cli/state.h"
#include "cli/verbs.h"
#include "hosted/export_file.h"

#include "hosted/files.h"
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// --- Notes for the exported model

// Room for every column of the sample.
struct room {
    const char **columns;
    double *mean;
    double *deviation;
};

static void take_columns(const struct tern_proposal *proposal, struct room *room,
                         struct tern_export_inputs *inputs)
{
    const struct tern_csv_profile *profile = &proposal->profile;
    for (uint32_t c = 0; c < profile->columns.count; c++) {
        const struct tern_csv_column *column = &profile->column[c];
        if (column->feature) {
            room->columns[inputs->count] = column->name;
            room->mean[inputs->count] = column->mean;
            room->deviation[inputs->count++] = column->deviation;
        }
    }
    inputs->columns = profile->columns.header ? room->columns : NULL;
    if (!proposal->shares) { // else export writes the scaling that clients agreed on
        inputs->mean = room->mean;
        inputs->deviation = room->deviation;
    }
}

static void take_target(const struct tern_proposal *proposal, struct tern_export_inputs *inputs)
{
    const struct tern_csv_profile *profile = &proposal->profile;
    if (proposal->task != TERN_TASK_REGRESSION) {
        inputs->classes = proposal->task == TERN_TASK_CLASSIFICATION ? proposal->classes : NULL;
        return;
    }
    const struct tern_csv_column *target = &profile->column[profile->columns.label];
    inputs->target = profile->columns.header ? target->name : NULL;
    if (!proposal->shares) {
        inputs->target_mean = target->mean;
        inputs->target_deviation = target->deviation;
    }
}

// Adds to a model's metadata, a JSON object or NULL, what `export` writes of the columns, their scaling and the classes.
// Returns the new text, malloc'ed by cJSON; NULL: no memory.
static char *proposal_notes(const struct tern_proposal *proposal, const char *metadata)
{
    const size_t count = proposal->profile.columns.count;
    cJSON *notes = metadata != NULL ? cJSON_Parse(metadata) : cJSON_CreateObject();
    struct room room = {calloc(count, sizeof *room.columns), calloc(count, sizeof *room.mean),
                        calloc(count, sizeof *room.deviation)};
    char *text = NULL;
    if (notes != NULL && room.columns != NULL && room.mean != NULL && room.deviation != NULL) {
        struct tern_export_inputs inputs = {.count = 0};
        take_columns(proposal, &room, &inputs);
        take_target(proposal, &inputs);
        tern_export_note_inputs(notes, &inputs);
        text = cJSON_PrintUnformatted(notes);
    }
    cJSON_Delete(notes);
    free(room.columns);
    free(room.mean);
    free(room.deviation);
    return text;
}

// --- The verb

// The options of init override the settings; a proposal's model overrides a file's, but no option or --set.
static int take_model(struct tern_cli *cli, const struct tern_proposal *proposal,
                      struct tern_starting_model *start, struct tern_db_federation *federation)
{
    const struct tern_aggregator_settings *settings = tern_state_settings(cli);
    const bool in_file = proposal->data == NULL || proposal->writes_server;
    const char *model = in_file ? tern_cli_option(cli, "model", settings->federation_model)
                                : tern_proposal_model(cli, proposal);
    const char *rules = tern_cli_option(cli, "rules", settings->tensors_rules);
    enum tern_result result = tern_cli_number(cli, "seed", settings->federation_seed, 0,
                                              1000000000000000, &federation->seed);
    return result == TERN_OK ? tern_starting_model_make(cli, model, rules, start, federation)
                             : (int)tern_cli_exit_code(result);
}

// Keeps the sample's columns and classes for `export`.
static int take_notes(const struct tern_cli *cli, const struct tern_proposal *proposal,
                      struct tern_starting_model *start, struct tern_db_federation *federation)
{
    if (proposal->data == NULL) {
        return TERN_EXIT_OK;
    }
    char *notes = proposal_notes(proposal, start->metadata);
    if (notes == NULL) {
        return tern_cli_fail(cli, TERN_ERR_NO_MEMORY, "no memory for what export writes of %s",
                             proposal->data);
    }
    cJSON_free(start->metadata);
    start->metadata = notes;
    federation->metadata = notes;
    return TERN_EXIT_OK;
}

static bool holds_federation(const char *database)
{
    char why[256];
    struct tern_db *db;
    if (!tern_db_is_url(database)) {
        return access(database, F_OK) == 0;
    }
    const enum tern_result result = tern_db_open(database, 0, &db, why);
    if (result == TERN_OK) {
        tern_db_close(db);
    }
    return result == TERN_OK;
}

// What else keeps it from being made is found when it is.
static int refuse_old_state(struct tern_cli *cli)
{
    char database[PATH_MAX];
    tern_state_database(cli, database);
    return !holds_federation(database)
               ? TERN_EXIT_OK
               : tern_cli_fail(cli, TERN_ERR_IO,
                               "%s holds a federation already; choose another %s, or see it"
                               " with `tern-aggregator status`",
                               tern_state_is_postgres(cli)
                                   ? database
                                   : tern_state_settings(cli)->federation_state,
                               tern_state_is_postgres(cli) ? "store.url" : "--state");
}

static int make_state(struct tern_cli *cli, const struct tern_db_federation *federation,
                      const struct tern_starting_model *start)
{
    char database[PATH_MAX];
    char token[PATH_MAX];
    char why[256] = "";
    const char *folder = tern_state_settings(cli)->federation_state;
    tern_state_database(cli, database);
    tern_state_path(cli, TERN_STATE_ADMIN_TOKEN, token);
    TERN_CLI_TRY(refuse_old_state(cli));
    enum tern_result result = tern_file_make_folders(folder, 0700);
    if (result == TERN_OK) {
        bool made; // one from an init that was cut short before the database is kept
        result = tern_state_make_token(token, &made);
    }
    TERN_CLI_TRY(tern_cli_check(cli, result, "cannot make %s: %s", folder, strerror(errno)));
    // Last, because its presence says that the directory is complete.
    result = tern_db_create(database, federation, start->weights, start->model.count, why);
    return tern_cli_check(
        cli, result == TERN_OK || result == TERN_ERR_CONFIG ? result : TERN_ERR_IO, "%s", why);
}

// "12 compress, 4 fuse, 2 dense"
static const char *count_rules(const struct tern_model *model, char text[TERN_TEXT])
{
    size_t used = 0;
    text[0] = '\0';
    for (int rule = 0; rule < TERN_RULE_COUNT; rule++) {
        uint32_t count = 0;
        for (uint32_t i = 0; i < model->tensor_count; i++) {
            count += model->tensors[i].rule == (enum tern_rule)rule;
        }
        if (count > 0) {
            used += (size_t)snprintf(text + used, TERN_TEXT - used, "%s%" PRIu32 " %s",
                                     used > 0 ? ", " : "", count,
                                     tern_tensor_rule_name((enum tern_rule)rule));
        }
    }
    return text;
}

// The codecs that serve will take by these settings.
struct codecs {
    char up[TERN_CODEC_SPEC_MAX];
    char down[TERN_CODEC_SPEC_MAX];
    char early_up[TERN_CODEC_SPEC_MAX];
    char early_down[TERN_CODEC_SPEC_MAX];
};

static struct codecs codecs_of(const struct tern_federation_config *config)
{
    struct codecs codecs = {.up = ""};
    tern_codec_format(&config->codec_up, codecs.up);
    tern_codec_format(&config->downloads.codec, codecs.down);
    if (config->early.rounds > 0) {
        tern_codec_format(&config->early.up, codecs.early_up);
        tern_codec_format(&config->early.down, codecs.early_down);
    }
    return codecs;
}

static int print_json(struct tern_cli *cli, const struct tern_proposal *proposal,
                      const struct tern_db_federation *federation,
                      const struct tern_starting_model *start,
                      const struct tern_federation_config *config)
{
    const struct codecs codecs = codecs_of(config);
    cJSON *made = cJSON_CreateObject();
    cJSON_AddStringToObject(made, "state", tern_state_settings(cli)->federation_state);
    cJSON_AddStringToObject(made, "model", federation->model_spec);
    tern_json_u64(made, "values", start->model.count);
    tern_json_u64(made, "seed", federation->seed);
    tern_json_hash(made, "model_hash", federation->model_hash);
    cJSON_AddStringToObject(made, "codec_up", codecs.up);
    cJSON_AddStringToObject(made, "codec_down", codecs.down);
    cJSON_AddStringToObject(made, "codec_accuracy", tern_state_settings(cli)->codec_accuracy);
    tern_json_u64(made, "early_rounds", config->early.rounds);
    cJSON_AddStringToObject(made, "early_codec_up", codecs.early_up);
    cJSON_AddStringToObject(made, "early_codec_down", codecs.early_down);
    const struct tern_spending spending =
        tern_spending_of(tern_state_settings(cli), config, &start->model);
    tern_spending_json(made, &spending);
    tern_json_u64(made, "update_bytes_max", tern_cli_update_max(&config->codec_up, &start->model));
    cJSON *tensors = cJSON_AddArrayToObject(made, "tensors");
    for (uint32_t i = 0; i < start->model.tensor_count; i++) {
        const struct tern_tensor *tensor = &start->model.tensors[i];
        cJSON *row = cJSON_CreateObject();
        cJSON_AddStringToObject(row, "name", tensor->name);
        tern_json_u64(row, "values", tensor->count);
        cJSON_AddStringToObject(row, "rule", tern_tensor_rule_name(tensor->rule));
        cJSON_AddItemToArray(tensors, row);
    }
    cJSON_AddStringToObject(made, "kept", start->kept_names != NULL ? start->kept_names : "");
    if (proposal->data != NULL) {
        tern_proposal_json(made, proposal);
    }
    return tern_json_print(cli, made);
}

static int print_made(struct tern_cli *cli, const struct tern_proposal *proposal,
                      const struct tern_db_federation *federation,
                      const struct tern_starting_model *start,
                      const struct tern_federation_config *config)
{
    char rules[TERN_TEXT];
    char size[TERN_TEXT];
    const char *folder = tern_state_settings(cli)->federation_state;
    const struct codecs codecs = codecs_of(config);
    if (cli->json) {
        return print_json(cli, proposal, federation, start, config);
    }
    if (proposal->data != NULL) {
        tern_proposal_print(proposal);
    }
    printf("Made %s: a federation of %s (%" PRIu32 " values), seed %" PRIu64 ".\n", folder,
           federation->model_spec, start->model.count, federation->seed);
    tern_text_bytes((double)tern_cli_update_max(&config->codec_up, &start->model), size);
    if (config->early.rounds > 0) {
        printf("By codec.accuracy, updates are sent by %s and downloads by %s\n"
               "in the first %" PRIu32 " rounds.\n",
               codecs.early_up, codecs.early_down, config->early.rounds);
    }
    if (config->early.rounds == 0 || config->early.rounds != config->round.rounds) {
        printf("By the settings, updates are sent by %s (at most %s each),\n"
               "downloads by %s.\n",
               codecs.up, size, codecs.down);
    }
    const struct tern_spending spending =
        tern_spending_of(tern_state_settings(cli), config, &start->model);
    tern_spending_print(&spending);
    const struct tern_spending_accuracies accuracies = tern_spending_accuracies(cli, &start->model);
    if (accuracies.count > 0) {
        char text[TERN_SPENDING_OTHERS];
        printf("codec.accuracy = %s.\n", tern_spending_accuracies_text(&accuracies, text));
    }
    if (start->manifest != NULL) {
        printf("Its %" PRIu32 " tensors, by rule: %s.\n", start->model.tensor_count,
               count_rules(&start->model, rules));
    }
    if (start->kept_names != NULL) {
        printf(
            "Kept for export, not trained or sent, since not F32, F16 or BF16 or without a value: "
            "%s.\n",
            start->kept_names);
    }
    tern_next_steps_print(cli, proposal->data != NULL, federation->model_spec);
    return TERN_EXIT_OK;
}

// What serve will refuse of the settings for this model, or warn of.
static int fit_to_model(struct tern_cli *cli, const struct tern_model *model, const char *spec,
                        struct tern_federation_config *config)
{
    uint32_t body_bytes; // that serve will take
    char why[256];
    if (!tern_federation_can_scale(config, spec, why)) {
        return tern_cli_fail(cli, TERN_ERR_CONFIG, "%s", why);
    }
    TERN_CLI_TRY(tern_cli_fill_for_model(cli, tern_state_settings(cli), model->count, config));
    TERN_CLI_TRY(tern_cli_body_limit(cli, &config->codec_up, model, spec, &body_bytes));
    tern_cli_advise(tern_state_settings(cli), config, tern_cli_print_advice);
    return TERN_EXIT_OK;
}

// Makes everything of the settings, which a proposal has been written into.
static int make(struct tern_cli *cli, const struct tern_proposal *proposal,
                struct tern_starting_model *start)
{
    static struct tern_service_config config; // that serve will refuse, or not
    struct tern_db_federation federation = {.created_ms = tern_now_ms()};
    TERN_CLI_TRY(tern_cli_fill_service(cli, tern_state_settings(cli), &config));
    TERN_CLI_TRY(take_model(cli, proposal, start, &federation));
    TERN_CLI_TRY(take_notes(cli, proposal, start, &federation));
    TERN_CLI_TRY(fit_to_model(cli, &start->model, federation.model_spec, &config.federation));
    TERN_CLI_TRY(make_state(cli, &federation, start));
    return print_made(cli, proposal, &federation, start, &config.federation);
}

static int propose_and_make(struct tern_cli *cli, struct tern_proposal *proposal,
                            struct tern_starting_model *start)
{
    TERN_CLI_TRY(refuse_old_state(cli));
    TERN_CLI_TRY(tern_proposal_make(cli, proposal));
    TERN_CLI_TRY(tern_proposal_write(cli, proposal));
    const int code = make(cli, proposal, start);
    if (code != TERN_EXIT_OK) {
        tern_proposal_take_back(proposal);
    }
    return code;
}

int tern_cli_init(struct tern_cli *cli)
{
    static struct tern_starting_model start;
    static struct tern_proposal proposal;
    const bool proposes = tern_cli_flag(cli, "data");
    if (!proposes && (tern_cli_flag(cli, "label") || tern_cli_flag(cli, "task") ||
                      tern_cli_flag(cli, "drop") || tern_cli_flag(cli, "group") ||
                      tern_cli_flag(cli, "header") || tern_cli_flag(cli, "classes"))) {
        return tern_cli_fail(
            cli, TERN_ERR_CONFIG,
            "--label, --group, --drop, --header and --classes say how the sample in --data is "
            "read, and --task what is learnt from it");
    }
    const int code =
        proposes ? propose_and_make(cli, &proposal, &start) : make(cli, &proposal, &start);
    tern_proposal_free(&proposal);
    tern_starting_model_free(&start);
    return code;
}
