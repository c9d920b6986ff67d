// `tern-client predict`: runs the model that the device holds on rows of data.
#include "cli/client_data.h"
#include "cli/model_fit.h"
#include "cli/session.h"
#include "cli/verbs.h"
#include "data/columns.h"
#include "hosted/cli.h"
#include "hosted/terminal.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct prediction_job {
    struct session *session;
    struct tern_data data;
    struct tern_view rows; // rows to predict
    uint32_t labelled;     // rows that have a label or target
    void *arena;
    size_t arena_size;
    struct tern_prediction *found; // [rows.count], for a model that predicts classes
    uint32_t right;
    float *numbers;  // [rows.count], for a model that predicts numbers; an autoencoder's errors
    float threshold; // an example with an error above threshold is an anomaly
    // training examples of data.source, whose errors define the threshold
    struct tern_data training;
    struct tern_evaluate_result figures;
    char why[CLIENT_DATA_WHY_MAX];
};

// --- Predicting

// Returns whether a row has a label or target.
static bool has_label(const struct prediction_job *job, uint32_t row)
{
    return !job->data.unlabelled && (job->data.labelled == NULL || job->data.labelled[row] != 0);
}

// Opens new data: every row of a file in its order, or the test part of data that has one. Labels may be missing. place: a
// file, e.g. "new.csv", which is read with the options of data.source, or a spec, e.g. "csv:FILE,label=state".
static enum tern_result open_new(struct prediction_job *job, const char *place)
{
    const struct tern_client_settings *settings = job->session->settings;
    char spec[TERN_DATA_SPEC_MAX];
    char problem[TERN_DATA_WHY_MAX];
    struct tern_csv_names names;
    const struct tern_data_part part = {.test = true, .new_rows = true, .trained = &names};
    enum tern_result result = tern_client_data_names(settings, &names);
    if (result == TERN_OK) {
        tern_client_data_spec(settings, place, spec);
        result = tern_dataset_open_part(spec, NULL, &part, &job->data, problem);
    } else {
        snprintf(problem, sizeof problem, "no memory for the names of the columns");
    }
    tern_csv_names_free(&names);
    if (result != TERN_OK) {
        snprintf(job->why, sizeof job->why, "%s", problem);
    }
    return result;
}

// Opens the rows to predict: those of `place` or, if it is NULL, the test examples of data.source.
static enum tern_result open_rows(struct prediction_job *job, const char *place)
{
    const struct tern_client_settings *settings = job->session->settings;
    TERN_TRY(place == NULL ? tern_client_data_open(settings, true, &job->data, job->why)
                           : open_new(job, place));
    tern_client_data_notes(&job->data);
    const bool apart = place == NULL || job->data.test.count > 0;
    job->rows = tern_view_all(apart ? &job->data.test : &job->data.train);
    job->labelled = 0;
    for (uint32_t i = 0; i < job->rows.count; i++) {
        job->labelled += has_label(job, i);
    }
    if (job->rows.count == 0) {
        snprintf(job->why, sizeof job->why, "data.source has no test rows: name a file to predict");
        return TERN_ERR_NOT_FOUND;
    }
    return TERN_OK;
}

static enum tern_result predict_classes(struct prediction_job *job,
                                        const struct tern_builtin_config *config)
{
    struct tern_builtin_trainer trainer;
    const struct session *session = job->session;
    job->found = calloc(job->rows.count, sizeof *job->found);
    if (job->found == NULL) {
        return TERN_ERR_NO_MEMORY;
    }
    TERN_TRY(tern_builtin_trainer_init(&trainer, config, job->arena, job->arena_size));
    TERN_TRY(tern_builtin_trainer_predict(&trainer, tern_client_weights(&session->client),
                                          session->model.count, job->found));
    for (uint32_t i = 0; i < job->rows.count; i++) {
        job->right += has_label(job, i) && job->found[i].label == job->rows.dataset->labels[i];
    }
    return TERN_OK;
}

static bool finds_anomalies(const struct prediction_job *job)
{
    return job->session->model.loss == TERN_LOSS_RECONSTRUCTION;
}

// Returns whether the prediction has metrics: a model of numbers needs targets for them, an autoencoder does not.
static bool has_figures(const struct prediction_job *job)
{
    return job->session->model.loss != TERN_LOSS_CROSS_ENTROPY &&
           (finds_anomalies(job) || job->labelled > 0);
}

// Computes the metrics of the rows with a label or target; if no row has one, of all rows.
static enum tern_result evaluate_labelled(struct prediction_job *job,
                                          const struct tern_builtin_config *all)
{
    const struct session *session = job->session;
    struct tern_builtin_config config = *all;
    struct tern_builtin_trainer trainer;
    uint32_t *indices = malloc(job->rows.count * sizeof *indices);
    if (indices == NULL) {
        return TERN_ERR_NO_MEMORY;
    }
    uint32_t count = 0;
    for (uint32_t i = 0; i < job->rows.count; i++) {
        indices[count] = i;
        count += job->labelled == 0 || has_label(job, i);
    }
    config.test = (struct tern_view){job->rows.dataset, indices, count};
    enum tern_result result =
        tern_builtin_trainer_init(&trainer, &config, job->arena, job->arena_size);
    if (result == TERN_OK) {
        const struct tern_trainer port = tern_builtin_trainer_port(&trainer);
        result = port.evaluate(port.ctx, tern_client_weights(&session->client),
                               session->model.count, &job->figures);
    }
    free(indices);
    return result;
}

static enum tern_result predict_numbers(struct prediction_job *job,
                                        const struct tern_builtin_config *config)
{
    struct tern_builtin_trainer trainer;
    const float *weights = tern_client_weights(&job->session->client);
    const uint32_t count = job->session->model.count;
    job->numbers = calloc(job->rows.count, sizeof *job->numbers);
    if (job->numbers == NULL) {
        return TERN_ERR_NO_MEMORY;
    }
    if (has_figures(job)) {
        TERN_TRY(evaluate_labelled(job, config));
    }
    TERN_TRY(tern_builtin_trainer_init(&trainer, config, job->arena, job->arena_size));
    return tern_builtin_trainer_numbers(&trainer, weights, count, job->numbers, &job->threshold);
}

// Opens the training examples of data.source for an autoencoder, whose threshold depends on their errors.
static void open_training_data(struct prediction_job *job)
{
    char why
        [CLIENT_DATA_WHY_MAX]; // unused: after an error the threshold comes from the rows to predict
    if (job->session->model.loss == TERN_LOSS_RECONSTRUCTION) {
        (void)!tern_client_data_open(job->session->settings, false, &job->training, why);
    }
}

static enum tern_result run_model(struct prediction_job *job)
{
    const struct session *session = job->session;
    const struct tern_builtin_config config = {
        .model = &session->model,
        .train = tern_view_all(&job->training.train),
        .test = job->rows,
        .max_batch = session->settings->client_max_batch,
        .anomaly_quantile = (float)session->settings->client_anomaly_quantile};
    if (!tern_model_accepts(tern_client_identity(&session->client)->model_spec, &session->model,
                            job->rows.dataset, job->why)) {
        return TERN_ERR_MODEL_MISMATCH;
    }
    const size_t size = tern_builtin_trainer_bound(&config);
    job->arena = malloc(size);
    job->arena_size = size;
    if (job->arena == NULL) {
        snprintf(job->why, sizeof job->why, "needs %zu bytes of memory", size);
        return TERN_ERR_NO_MEMORY;
    }
    return session->model.loss == TERN_LOSS_CROSS_ENTROPY ? predict_classes(job, &config)
                                                          : predict_numbers(job, &config);
}

static enum tern_result refuse_scaled(struct prediction_job *job)
{
    snprintf(job->why, sizeof job->why, "data.source: %s", CLIENT_SCALED_TWICE);
    return TERN_ERR_CONFIG;
}

// Scales the rows by the federation's scaling, like the rows of training. Rows with another number of columns stay unscaled;
// tern_model_accepts() refuses them.
static enum tern_result scale_rows(struct prediction_job *job)
{
    uint8_t *bytes = NULL;
    struct tern_span columns;
    enum tern_result result = tern_stored_model_scaling(job->session, &bytes, &columns);
    if (result != TERN_OK) {
        snprintf(job->why, sizeof job->why, "%s", job->session->why);
        return result;
    }
    const uint32_t count = (uint32_t)(columns.len / TERN_WIRE_COLUMN_BYTES);
    struct tern_data *const both[] = {&job->data, &job->training};
    for (size_t i = 0; i < 2 && result == TERN_OK; i++) {
        if (count == tern_data_columns(both[i]) && tern_data_has_columns(both[i])) {
            result = both[i]->scaled ? refuse_scaled(job)
                                     : tern_columns_scale(both[i], columns.data, count);
        }
    }
    if (result != TERN_OK && job->why[0] == '\0') {
        snprintf(job->why, sizeof job->why, "a value is too far from the training values: %s",
                 tern_result_sentence(result));
    }
    free(bytes);
    return result;
}

static enum tern_result predict(struct prediction_job *job, const char *place)
{
    if (!tern_session_model_is_built_in(job->session)) {
        snprintf(job->why, sizeof job->why,
                 "the model \"%s\" is not built in: `tern-client export` writes it for the program "
                 "that trains it",
                 tern_client_identity(&job->session->client)->model_spec);
        return TERN_ERR_CONFIG;
    }
    TERN_TRY(open_rows(job, place));
    open_training_data(job);
    TERN_TRY(scale_rows(job));
    return run_model(job);
}

// --- Printing

// Writes the name of a class or, if it has none, its number.
static const char *class_name(const struct prediction_job *job, uint16_t class, char text[16])
{
    snprintf(text, 16, "%u", class);
    return class < job->data.classes.count ? job->data.classes.names[class] : text;
}

// Returns the target of a row in its original units.
static double target_of(const struct prediction_job *job, uint32_t row)
{
    const struct tern_dataset *data = job->rows.dataset;
    return (double)(data->targets[row] * data->target_deviation + data->target_mean);
}

static double accuracy_of(const struct prediction_job *job)
{
    return (double)job->right / (double)job->labelled;
}

static void add_figures(cJSON *root, const struct prediction_job *job)
{
    if (job->labelled > 0 && job->numbers == NULL) {
        cJSON_AddNumberToObject(root, "accuracy", accuracy_of(job));
    } else {
        cJSON_AddNullToObject(root, "accuracy");
    }
    if (finds_anomalies(job)) {
        cJSON_AddNumberToObject(root, "threshold", (double)job->threshold);
    }
    for (uint32_t i = 0; has_figures(job) && i < job->figures.metric_count; i++) {
        const struct tern_metric *metric = &job->figures.metrics[i];
        if (strcmp(metric->name, "threshold") != 0) {
            cJSON_AddNumberToObject(root, metric->name, (double)metric->value);
        }
    }
}

static void add_class(cJSON *row, const struct prediction_job *job, uint32_t i)
{
    char text[16];
    cJSON_AddStringToObject(row, "class", class_name(job, job->found[i].label, text));
    cJSON_AddNumberToObject(row, "score", (double)job->found[i].score);
}

static void add_number(cJSON *row, const struct prediction_job *job, uint32_t i)
{
    if (finds_anomalies(job)) {
        cJSON_AddNumberToObject(row, "error", (double)job->numbers[i]);
        cJSON_AddBoolToObject(row, "anomaly", job->numbers[i] > job->threshold);
        return;
    }
    cJSON_AddNumberToObject(row, "value", (double)job->numbers[i]);
    if (has_label(job, i)) {
        cJSON_AddNumberToObject(row, "target", target_of(job, i));
    }
}

static int print_json(const struct tern_cli *cli, const struct prediction_job *job)
{
    char text[16];
    cJSON *root = cJSON_CreateObject();
    cJSON_AddStringToObject(root, "model", tern_stored_model_kind(job->session));
    cJSON_AddNumberToObject(root, "version", tern_client_version(&job->session->client));
    cJSON_AddNumberToObject(root, "num_examples", job->rows.count);
    cJSON_AddNumberToObject(root, "num_labelled", job->labelled);
    add_figures(root, job);
    cJSON *rows = cJSON_AddArrayToObject(root, "rows");
    for (uint32_t i = 0; i < job->rows.count; i++) {
        cJSON *row = cJSON_CreateObject();
        (job->numbers != NULL ? add_number : add_class)(row, job, i);
        if (has_label(job, i) && job->rows.dataset->targets == NULL) {
            cJSON_AddStringToObject(row, "label",
                                    class_name(job, job->rows.dataset->labels[i], text));
        }
        cJSON_AddItemToArray(rows, row);
    }
    return tern_json_print(cli, root);
}

static void print_model(const struct prediction_job *job)
{
    const char *held = tern_stored_model_kind(job->session);
    printf("\n%s%s of version %" PRIu32, held, held[0] == 'r' ? "" : " model",
           tern_client_version(&job->session->client));
}

// Prints how many rows have no label or target, if only some have one.
static void print_unlabelled(const struct prediction_job *job)
{
    if (job->labelled > 0 && job->labelled < job->rows.count) {
        printf("; %" PRIu32 " of the %" PRIu32 " rows have no label",
               job->rows.count - job->labelled, job->rows.count);
    }
}

// Explains why predictions of a replica may differ from those of the exported global model.
static void print_advice(const struct prediction_job *job)
{
    if (strcmp(tern_stored_model_kind(job->session), "replica") == 0) {
        printf(
            "The replica is this device's copy from compressed downloads, possibly of an earlier "
            "version. `tern-aggregator export --global` writes the\nglobal model, whose answers "
            "may "
            "differ; with downloads.final_model = all each device receives it at the end.\n");
    }
}

static void add_number_cells(struct tern_text_table *table, const struct prediction_job *job,
                             uint32_t i)
{
    char text[16];
    tern_text_cell(table, "%" PRIu32, i + 1);
    tern_text_cell(table, "%.6g", (double)job->numbers[i]);
    if (finds_anomalies(job)) {
        tern_text_cell(table, "%s", job->numbers[i] > job->threshold ? "anomaly" : "-");
    }
    if (job->labelled == 0) {
        return;
    }
    if (!has_label(job, i)) {
        tern_text_cell(table, "-");
    } else if (finds_anomalies(job)) {
        tern_text_cell(table, "%s", class_name(job, job->rows.dataset->labels[i], text));
    } else {
        tern_text_cell(table, "%.6g", target_of(job, i));
    }
}

static int print_numbers(struct tern_cli *cli, const struct prediction_job *job)
{
    static const struct tern_text_column values[] = {
        {"ROW", TERN_TEXT_NUMBER}, {"VALUE", TERN_TEXT_NUMBER}, {"TARGET", TERN_TEXT_NUMBER}};
    static const struct tern_text_column errors[] = {{"ROW", TERN_TEXT_NUMBER},
                                                     {"ERROR", TERN_TEXT_NUMBER},
                                                     {"IS", TERN_TEXT_WORD},
                                                     {"LABEL", TERN_TEXT_LONG}};
    const bool anomalies = finds_anomalies(job);
    struct tern_text_table table = TERN_TEXT_TABLE_OF(anomalies ? errors : values,
                                                      (anomalies ? 3u : 2u) + (job->labelled > 0));
    for (uint32_t i = 0; i < job->rows.count; i++) {
        add_number_cells(&table, job, i);
    }
    TERN_CLI_TRY(tern_cli_check(cli, tern_text_table_print(&table, stdout), "no memory"));
    print_model(job);
    for (uint32_t i = 0; has_figures(job) && i < job->figures.metric_count; i++) {
        printf("%s %s %.6g", i == 0 ? ":" : ",", job->figures.metrics[i].name,
               (double)job->figures.metrics[i].value);
    }
    print_unlabelled(job);
    printf("\n");
    print_advice(job);
    return TERN_EXIT_OK;
}

static int print_rows(struct tern_cli *cli, const struct prediction_job *job)
{
    static const struct tern_text_column columns[] = {{"ROW", TERN_TEXT_NUMBER},
                                                      {"CLASS", TERN_TEXT_LONG},
                                                      {"SCORE", TERN_TEXT_NUMBER},
                                                      {"LABEL", TERN_TEXT_LONG}};
    struct tern_text_table table = TERN_TEXT_TABLE_OF(columns, job->labelled > 0 ? 4 : 3);
    char text[16];
    for (uint32_t i = 0; i < job->rows.count; i++) {
        tern_text_cell(&table, "%" PRIu32, i + 1);
        tern_text_cell(&table, "%s", class_name(job, job->found[i].label, text));
        tern_text_cell(&table, "%.4f", (double)job->found[i].score);
        if (job->labelled > 0) {
            tern_text_cell(&table, "%s",
                           has_label(job, i) ? class_name(job, job->rows.dataset->labels[i], text)
                                             : "-");
        }
    }
    TERN_CLI_TRY(tern_cli_check(cli, tern_text_table_print(&table, stdout), "no memory"));
    print_model(job);
    if (job->labelled > 0) {
        printf(": accuracy %.4f, %" PRIu32 " of %" PRIu32 " right", accuracy_of(job), job->right,
               job->labelled);
    }
    print_unlabelled(job);
    printf("\n");
    print_advice(job);
    return TERN_EXIT_OK;
}

int tern_verb_predict(struct tern_cli *cli)
{
    static struct session session;
    struct prediction_job job = {.session = &session};
    int code = TERN_EXIT_OK;
    enum tern_result result = tern_stored_model_open(&session);
    if (result != TERN_OK) {
        code = tern_cli_fail(cli, result, "%s", session.why);
    } else {
        result = predict(&job, cli->argument_count > 0 ? cli->arguments[0] : NULL);
        code = result != TERN_OK     ? tern_cli_fail(cli, result, "%s", job.why)
               : cli->json           ? print_json(cli, &job)
               : job.numbers != NULL ? print_numbers(cli, &job)
                                     : print_rows(cli, &job);
    }
    free(job.arena);
    free(job.found);
    free(job.numbers);
    tern_data_close(&job.data);
    tern_data_close(&job.training);
    tern_session_close(&session);
    return code;
}
