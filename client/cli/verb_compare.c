// `tern-client compare`: trains the federation's model on this client's rows alone, and compares both models on its
// held-out rows.
#include "cli/client_data.h"
#include "cli/model_fit.h"
#include "cli/session.h"
#include "cli/verbs.h"
#include "data/columns.h"
#include "hosted/cli.h"
#include "hosted/csv_judge.h"
#include "hosted/host.h"
#include "hosted/system.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SEED 1
#define BATCH 32
#define HALF_TURN 3.14159265358979323846

struct comparison {
    struct session *session;
    struct tern_data data;
    struct tern_builtin_trainer trainer;
    struct tern_trainer port;
    void *arena;
    float *weights; // weights of the model that is trained on this client's rows only
    uint64_t seconds_max;
    uint32_t passes; // completed passes over the rows
    double seconds;
    struct tern_evaluate_result alone;
    struct tern_evaluate_result federation;
    char why[CLIENT_DATA_WHY_MAX];
};

static enum tern_result refuse(struct comparison *job, enum tern_result result, const char *why)
{
    snprintf(job->why, sizeof job->why, "%s", why);
    return result;
}

// --- Preparing

// Scales the rows by the federation's scaling, if the client has one.
static enum tern_result scale_rows(struct comparison *job)
{
    uint8_t *bytes = NULL;
    struct tern_span columns;
    const enum tern_result read = tern_stored_model_scaling(job->session, &bytes, &columns);
    if (read != TERN_OK) {
        return refuse(job, read, job->session->why);
    }
    const uint32_t count = (uint32_t)(columns.len / TERN_WIRE_COLUMN_BYTES);
    enum tern_result result = TERN_OK;
    if (count > 0 && job->data.scaled) {
        result = refuse(job, TERN_ERR_CONFIG, "data.source: " CLIENT_SCALED_TWICE);
    } else if (count > 0) {
        result = tern_columns_scale(&job->data, columns.data, count);
        result = result == TERN_OK
                     ? TERN_OK
                     : refuse(job, result, "the federation's scaling does not fit data.source");
    }
    free(bytes);
    return result;
}

static enum tern_result open_data(struct comparison *job)
{
    const struct session *session = job->session;
    TERN_TRY(tern_client_data_open(session->settings, true, &job->data, job->why));
    if (job->data.train.count == 0 || job->data.test.count == 0) {
        return refuse(job, TERN_ERR_NOT_FOUND,
                      "data.source has no test rows to compare on: set test= in data.source");
    }
    TERN_TRY(scale_rows(job));
    return tern_model_accepts(tern_client_identity(&session->client)->model_spec, &session->model,
                              &job->data.train, job->why)
               ? TERN_OK
               : TERN_ERR_MODEL_MISMATCH;
}

static enum tern_result prepare(struct comparison *job)
{
    const struct session *session = job->session;
    if (!tern_session_model_is_built_in(session)) {
        return refuse(job, TERN_ERR_CONFIG,
                      "the model is not built in: train it with your own trainer on this client's "
                      "rows alone");
    }
    TERN_TRY(open_data(job));
    const struct tern_builtin_config config = {
        .model = &session->model,
        .train = tern_view_all(&job->data.train),
        .test = tern_view_all(&job->data.test),
        .max_batch = session->settings->client_max_batch,
        .anomaly_quantile = (float)session->settings->client_anomaly_quantile};
    const size_t size = tern_builtin_trainer_bound(&config);
    job->arena = malloc(size);
    job->weights = malloc(session->model.count * sizeof *job->weights);
    if (job->arena == NULL || job->weights == NULL) {
        return refuse(job, TERN_ERR_NO_MEMORY, "no memory to train the model");
    }
    TERN_TRY(tern_builtin_trainer_init(&job->trainer, &config, job->arena, size));
    job->port = tern_builtin_trainer_port(&job->trainer);
    return TERN_OK;
}

// --- Training and evaluating

// Returns the task of one pass over the rows. The learning rate is the one that `tern-aggregator init` proposes; it rises in
// the first passes, and then falls along a cosine.
static struct tern_train_task task_of(const struct comparison *job, uint32_t pass)
{
    const struct tern_usual_rate usual = tern_usual_rate(job->session->model.loss);
    const double rise = fmin(1, (pass + 1.0) / TERN_USUAL_WARMUP_MAX);
    const double fall = (1 + cos(HALF_TURN * pass / TERN_USUAL_PASSES)) / 2;
    return (struct tern_train_task){.round = pass + 1,
                                    .client = 1,
                                    .seed = SEED,
                                    .local_steps = (job->data.train.count + BATCH - 1) / BATCH,
                                    .batch_size = BATCH,
                                    .learning_rate = (float)(usual.learning_rate * rise * fall),
                                    .momentum = (float)usual.momentum};
}

static enum tern_result train_pass(struct comparison *job, uint32_t pass, uint64_t until_ms)
{
    const struct tern_trainer *port = &job->port;
    const struct tern_train_task task = task_of(job, pass);
    const uint32_t count = job->session->model.count;
    struct tern_train_result found;
    float *trained = NULL;
    TERN_TRY(port->begin(port->ctx, &task, job->weights, count));
    enum tern_result result;
    do {
        result = port->step(port->ctx, &trained, &found);
    } while (result == TERN_AGAIN && !tern_interrupted && tern_monotonic_ms() < until_ms);
    if (result == TERN_OK) {
        memcpy(job->weights, trained, count * sizeof *trained);
        job->passes = pass + 1;
    }
    return result;
}

// Trains for TERN_USUAL_PASSES passes or until the time is over. job->weights has the result of the last completed pass.
static enum tern_result train(struct comparison *job)
{
    const uint64_t begin_ms = tern_monotonic_ms();
    const uint64_t until_ms = begin_ms + job->seconds_max * 1000;
    tern_model_init_weights(&job->session->model, SEED, job->weights);
    enum tern_result result = TERN_OK;
    for (uint32_t pass = 0; pass < TERN_USUAL_PASSES && result == TERN_OK; pass++) {
        result = train_pass(job, pass, until_ms);
    }
    job->seconds = (double)(tern_monotonic_ms() - begin_ms) / 1000;
    if (result != TERN_OK && result != TERN_AGAIN) {
        return refuse(job, result,
                      "training on this client's rows alone failed: its loss is no "
                      "finite number");
    }
    return job->passes > 0
               ? TERN_OK
               : refuse(job, TERN_ERR_STATE, "one pass over the rows takes longer than --seconds");
}

static enum tern_result compare(struct comparison *job)
{
    const uint32_t count = job->session->model.count;
    TERN_TRY(prepare(job));
    TERN_TRY(job->port.evaluate(job->port.ctx, tern_client_weights(&job->session->client), count,
                                &job->federation));
    TERN_TRY(train(job));
    return job->port.evaluate(job->port.ctx, job->weights, count, &job->alone);
}

// --- Printing

static void print_figures(const struct tern_evaluate_result *found)
{
    if (!found->no_accuracy) {
        printf("accuracy %.4f, ", (double)found->accuracy);
    }
    for (uint32_t i = 0; i < found->metric_count; i++) {
        if (strcmp(found->metrics[i].name, "class_worst") != 0) {
            printf("%s %.4g, ", found->metrics[i].name, (double)found->metrics[i].value);
        }
    }
    printf("loss %.4g\n", (double)found->loss);
}

// Returns the steps of the model that was trained on this client's rows alone.
static uint64_t steps_alone(const struct comparison *job)
{
    return (uint64_t)job->passes * task_of(job, 0).local_steps;
}

static int print_text(const struct comparison *job)
{
    const char *held = tern_stored_model_kind(job->session);
    printf("This client alone: ");
    print_figures(&job->alone);
    printf("Federation: ");
    print_figures(&job->federation);
    printf("\nBoth models were evaluated on the same %" PRIu32
           " held-out rows of this client; with few rows a small "
           "difference means little.\n"
           "Alone: %" PRIu32 " of %d passes over %" PRIu32 " rows (%" PRIu64
           " steps of %d rows) in %.0f s, from fresh weights, "
           "%g falling to 0; nothing was sent or kept.\n"
           "Federation: the %s%s of version %" PRIu32 "; this client has trained in %" PRIu64
           " of its rounds, each of train.local_steps steps,\nso that the model alone may have "
           "trained longer on these rows.\n",
           job->alone.num_examples, job->passes, TERN_USUAL_PASSES, job->data.train.count,
           steps_alone(job), BATCH, job->seconds,
           tern_usual_rate(job->session->model.loss).learning_rate, held,
           held[0] == 'r' ? "" : " model", tern_client_version(&job->session->client),
           tern_client_budget(&job->session->client)->rounds);
    if (tern_client_version(&job->session->client) == 0) {
        printf("Version 0 is untrained: this client has no later version of the federation.\n");
    }
    return TERN_EXIT_OK;
}

static void add_figures(cJSON *root, const char *key, const struct tern_evaluate_result *found)
{
    cJSON *object = cJSON_AddObjectToObject(root, key);
    if (!found->no_accuracy) {
        cJSON_AddNumberToObject(object, "accuracy", (double)found->accuracy);
    }
    cJSON_AddNumberToObject(object, "loss", (double)found->loss);
    for (uint32_t i = 0; i < found->metric_count; i++) {
        cJSON_AddNumberToObject(object, found->metrics[i].name, (double)found->metrics[i].value);
    }
}

static int print_json(const struct tern_cli *cli, const struct comparison *job)
{
    cJSON *root = cJSON_CreateObject();
    cJSON_AddNumberToObject(root, "num_examples", job->alone.num_examples);
    cJSON_AddNumberToObject(root, "passes", job->passes);
    cJSON_AddNumberToObject(root, "steps", (double)steps_alone(job));
    cJSON_AddNumberToObject(root, "federation_rounds",
                            (double)tern_client_budget(&job->session->client)->rounds);
    cJSON_AddNumberToObject(root, "seconds", job->seconds);
    cJSON_AddStringToObject(root, "model", tern_stored_model_kind(job->session));
    cJSON_AddNumberToObject(root, "version", tern_client_version(&job->session->client));
    add_figures(root, "alone", &job->alone);
    add_figures(root, "federation", &job->federation);
    return tern_json_print(cli, root);
}

int tern_verb_compare_alone(struct tern_cli *cli)
{
    static struct session session;
    static struct comparison job;
    job.session = &session;
    if (tern_cli_number(cli, "seconds", 60, 1, 86400, &job.seconds_max) != TERN_OK) {
        return TERN_EXIT_USAGE;
    }
    tern_interrupts_catch();
    enum tern_result result = tern_stored_model_open(&session);
    result = result == TERN_OK ? compare(&job) : refuse(&job, result, session.why);
    const int code = tern_interrupted    ? TERN_EXIT_INTERRUPTED
                     : result != TERN_OK ? tern_cli_fail(cli, result, "%s", job.why)
                     : cli->json         ? print_json(cli, &job)
                                         : print_text(&job);
    free(job.arena);
    free(job.weights);
    tern_data_close(&job.data);
    tern_session_close(&session);
    return code;
}
