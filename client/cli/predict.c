// The verb that asks the model that the device holds about data.
#include "cli/client_data.h"
#include "cli/held_model.h"
#include "cli/json.h"
#include "cli/model.h"
#include "cli/verbs.h"
#include "data/columns.h"
#include "hosted/text_table.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

struct prediction_job {
    struct session *session;
    struct tern_data data;
    struct tern_view rows; // those that are asked about
    bool labelled;
    void *arena;
    struct tern_prediction *found; // [rows.count]
    uint32_t right;
    char why[CLIENT_DATA_WHY_MAX];
};

// --- Asking

// Without an argument, what evaluators would be asked about: the rows that are held out of training.
static enum tern_result open_rows(struct prediction_job *job, const char *place)
{
    const struct tern_client_settings *settings = job->session->settings;
    TERN_TRY(place == NULL ? tern_client_data_open(settings, true, &job->data, job->why)
                           : tern_client_data_open_new(settings, place, &job->data, job->why));
    const bool apart = place == NULL || job->data.test.count > 0;
    job->rows = tern_view_all(apart ? &job->data.test : &job->data.train);
    job->labelled = !job->data.unlabelled;
    if (job->rows.count == 0) {
        snprintf(job->why, sizeof job->why,
                 "data.source holds out no rows: name a file to look at");
        return TERN_ERR_NOT_FOUND;
    }
    return TERN_OK;
}

static enum tern_result refuse_shape(struct prediction_job *job)
{
    const struct tern_dataset *data = job->rows.dataset;
    snprintf(job->why, sizeof job->why,
             "the model \"%s\" does not take rows of %" PRIu32 " values and %" PRIu32 " classes",
             tern_client_identity(&job->session->client)->model_spec, data->feature_count,
             data->class_count);
    return TERN_ERR_MODEL_MISMATCH;
}

static enum tern_result ask(struct prediction_job *job)
{
    const struct session *session = job->session;
    struct tern_builtin_trainer trainer;
    const struct tern_builtin_config config = {
        .model = &session->model, .test = job->rows, .max_batch = session->settings->max_batch};
    const size_t size = tern_builtin_trainer_bound(&config);
    if (size == 0) {
        return refuse_shape(job);
    }
    job->arena = malloc(size);
    job->found = calloc(job->rows.count, sizeof *job->found);
    if (job->arena == NULL || job->found == NULL) {
        snprintf(job->why, sizeof job->why, "needs %zu bytes of memory", size);
        return TERN_ERR_NO_MEMORY;
    }
    if (tern_builtin_trainer_init(&trainer, &config, job->arena, size) != TERN_OK) {
        return refuse_shape(job);
    }
    TERN_TRY(tern_builtin_trainer_predict(&trainer, tern_client_weights(&session->client),
                                          session->model.count, job->found));
    for (uint32_t i = 0; i < job->rows.count; i++) {
        job->right += job->found[i].label == job->rows.dataset->labels[i];
    }
    return TERN_OK;
}

// As the model was trained. Rows of other columns are refused with their shape.
static enum tern_result scale_rows(struct prediction_job *job)
{
    uint8_t *bytes = NULL;
    struct tern_span columns;
    enum tern_result result = tern_held_scaling(job->session, &bytes, &columns);
    if (result != TERN_OK) {
        snprintf(job->why, sizeof job->why, "%s", job->session->why);
        return result;
    }
    const size_t len = (size_t)job->rows.dataset->feature_count * TERN_WIRE_COLUMN_BYTES;
    if (columns.len == len && tern_data_has_columns(&job->data)) {
        result = tern_columns_scale(&job->data, columns.data);
    }
    if (result != TERN_OK) {
        snprintf(job->why, sizeof job->why,
                 "a value is too far from those that were learnt from: %s",
                 tern_result_sentence(result));
    }
    free(bytes);
    return result;
}

static enum tern_result predict(struct prediction_job *job, const char *place)
{
    if (!tern_session_model_is_built_in(job->session)) {
        snprintf(job->why, sizeof job->why,
                 "the model \"%s\" is none that this program can run by itself: `tern-client "
                 "export` writes it for the program that trains it",
                 tern_client_identity(&job->session->client)->model_spec);
        return TERN_ERR_CONFIG;
    }
    TERN_TRY(open_rows(job, place));
    TERN_TRY(scale_rows(job));
    return ask(job);
}

// --- Telling

// The name of a class, or its number.
static const char *class_name(const struct prediction_job *job, uint16_t class, char text[16])
{
    snprintf(text, 16, "%u", class);
    return class < job->data.classes.count ? job->data.classes.names[class] : text;
}

static double accuracy_of(const struct prediction_job *job)
{
    return (double)job->right / (double)job->rows.count;
}

static int print_json(const struct prediction_job *job)
{
    char text[16];
    cJSON *root = cJSON_CreateObject();
    cJSON_AddStringToObject(root, "model", tern_held_name(job->session));
    cJSON_AddNumberToObject(root, "version", tern_client_version(&job->session->client));
    cJSON_AddNumberToObject(root, "num_examples", job->rows.count);
    if (job->labelled) {
        cJSON_AddNumberToObject(root, "accuracy", accuracy_of(job));
    } else {
        cJSON_AddNullToObject(root, "accuracy");
    }
    cJSON *rows = cJSON_AddArrayToObject(root, "rows");
    for (uint32_t i = 0; i < job->rows.count; i++) {
        cJSON *row = cJSON_CreateObject();
        cJSON_AddStringToObject(row, "class", class_name(job, job->found[i].label, text));
        cJSON_AddNumberToObject(row, "score", (double)job->found[i].score);
        if (job->labelled) {
            cJSON_AddStringToObject(row, "label",
                                    class_name(job, job->rows.dataset->labels[i], text));
        }
        cJSON_AddItemToArray(rows, row);
    }
    return tern_client_print_json(root);
}

static int print_rows(struct tern_cli *cli, const struct prediction_job *job)
{
    static const struct tern_text_column columns[] = {{"ROW", TERN_TEXT_NUMBER},
                                                      {"CLASS", TERN_TEXT_LONG},
                                                      {"SCORE", TERN_TEXT_NUMBER},
                                                      {"LABEL", TERN_TEXT_LONG}};
    struct tern_text_table table = TERN_TEXT_TABLE_OF(columns, job->labelled ? 4 : 3);
    char text[16];
    for (uint32_t i = 0; i < job->rows.count; i++) {
        tern_text_cell(&table, "%" PRIu32, i + 1);
        tern_text_cell(&table, "%s", class_name(job, job->found[i].label, text));
        tern_text_cell(&table, "%.4f", (double)job->found[i].score);
        if (job->labelled) {
            tern_text_cell(&table, "%s", class_name(job, job->rows.dataset->labels[i], text));
        }
    }
    TERN_CLI_TRY(tern_cli_check(cli, tern_text_table_print(&table, stdout), "no memory"));
    const char *held = tern_held_name(job->session);
    printf("\n%s%s of version %" PRIu32, held, held[0] == 'r' ? "" : " model",
           tern_client_version(&job->session->client));
    if (job->labelled) {
        printf(": accuracy %.4f, %" PRIu32 " of %" PRIu32 " right", accuracy_of(job), job->right,
               job->rows.count);
    }
    printf("\n");
    return TERN_EXIT_OK;
}

int tern_verb_predict(struct tern_cli *cli)
{
    static struct session session;
    struct prediction_job job = {.session = &session};
    int code = TERN_EXIT_OK;
    enum tern_result result = tern_held_open(&session);
    if (result != TERN_OK) {
        code = tern_cli_fail(cli, result, "%s", session.why);
    } else {
        result = predict(&job, cli->argument_count > 0 ? cli->arguments[0] : NULL);
        code = result != TERN_OK ? tern_cli_fail(cli, result, "%s", job.why)
               : cli->json       ? print_json(&job)
                                 : print_rows(cli, &job);
    }
    free(job.arena);
    free(job.found);
    tern_data_close(&job.data);
    tern_session_close(&session);
    return code;
}
