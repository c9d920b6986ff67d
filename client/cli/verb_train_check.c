// `tern-client train-check`: runs a user's trainer once as the client would, training and evaluation, and reports errors.
#define _GNU_SOURCE // mkdtemp
#include "cli/external_trainer.h"
#include "cli/verbs.h"
#include "hosted/cli.h"
#include "hosted/files.h"
#include "hosted/host.h"
#include "hosted/safetensors.h"
#include "hosted/system.h"
#include "util/text.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

// --- The model of the trial: a built-in one, or one from a safetensors file, made as `tern-aggregator init` makes it

#define FILE_MAX ((size_t)1 << 30)

static enum tern_result fail(char *why, enum tern_result result, const char *what,
                             const char *detail)
{
    snprintf(why, EXTERNAL_WHY_MAX, "%.100s %.300s", what, detail);
    return result;
}

static enum tern_result allocate_weights(struct tern_model *model, float **weights, char *why)
{
    *weights = malloc(sizeof(float) * (size_t)model->count);
    return *weights != NULL ? TERN_OK
                            : fail(why, TERN_ERR_NO_MEMORY, "the model", "needs more memory");
}

// Adds the file's tensors to the model, except tensors of integers, which cannot be averaged.
static enum tern_result add_tensors(const struct tern_safetensors *file, struct tern_model *model,
                                    char *why)
{
    tern_model_clear(model);
    for (size_t i = 0; i < file->count; i++) {
        const struct tern_safetensors_entry *entry = &file->entries[i];
        uint32_t dims[TERN_TENSOR_MAX_DIMS];
        uint32_t dim_count = 0;
        const enum tern_rule rule =
            entry->count < TERN_FUSE_BELOW ? TERN_RULE_FUSE : TERN_RULE_COMPRESS;
        if (entry->kind == TERN_SAFETENSORS_OTHER) {
            continue;
        }
        if (!tern_safetensors_dims(entry, dims, TERN_TENSOR_MAX_DIMS, &dim_count) ||
            tern_model_add_by_rule(model, entry->name, dims, dim_count, rule) != TERN_OK) {
            return fail(why, TERN_ERR_CONFIG, entry->name,
                        "cannot be a tensor of a model: the name is too long, the tensor is empty, "
                        "or there are too many tensors");
        }
    }
    return tern_model_layout(model) == TERN_OK
               ? TERN_OK
               : fail(why, TERN_ERR_CONFIG, "the file", "contains no tensor that can be averaged");
}

static void copy_values(const struct tern_safetensors *file, const struct tern_model *model,
                        float *weights)
{
    uint32_t next = 0; // index in the model, whose tensors have the file's order
    for (size_t i = 0; i < file->count; i++) {
        if (file->entries[i].kind != TERN_SAFETENSORS_OTHER) {
            tern_safetensors_floats(&file->entries[i], weights + model->tensors[next++].offset);
        }
    }
}

static enum tern_result build(const struct tern_safetensors *file, struct tern_model *model,
                              float **weights, char *why)
{
    TERN_TRY(add_tensors(file, model, why));
    TERN_TRY(allocate_weights(model, weights, why));
    copy_values(file, model, *weights);
    return TERN_OK;
}

static enum tern_result read_model(const char *path, struct tern_model *model, float **weights,
                                   char *why)
{
    char reason[TERN_SAFETENSORS_WHY_MAX] = "";
    struct tern_safetensors file;
    uint8_t *bytes = NULL;
    size_t len = 0;
    enum tern_result result = tern_file_read_regular(path, FILE_MAX, &bytes, &len);
    if (result != TERN_OK) {
        return fail(why, TERN_ERR_CONFIG, path,
                    "cannot be read, is not a regular file, or is too large for a trial");
    }
    result = tern_safetensors_parse(bytes, len, &file, reason);
    if (result == TERN_OK) {
        result = build(&file, model, weights, why);
        tern_safetensors_free(&file);
    } else {
        (void)fail(why, result, path, reason);
    }
    free(bytes);
    return result;
}

// Makes the model of the trial. name: a spec, whose weights `seed` generates, or the name of a .safetensors file. *weights
// [model->count] is malloc'ed and belongs to the caller. TERN_ERR_CONFIG (no such model), TERN_ERR_NO_MEMORY, errors of the
// file; with `why`
static enum tern_result make_model(const char *name, uint64_t seed, struct tern_model *model,
                                   float **weights, char why[EXTERNAL_WHY_MAX])
{
    if (tern_ends_with(name, ".safetensors")) {
        return read_model(name, model, weights, why);
    }
    if (tern_model_from_spec(model, name) != TERN_OK) {
        return fail(why, TERN_ERR_CONFIG, name,
                    "is not a model: use softmax:64-6, mlp:784-64-10, cnn:28x28x1-8-16-10, "
                    "mlp:24-32-1,loss=mse, mlp:24-8-24,loss=reconstruction, or the name of a "
                    ".safetensors file");
    }
    TERN_TRY(allocate_weights(model, weights, why));
    tern_model_init_weights(model, seed, *weights);
    return TERN_OK;
}

// --- The trial

#define TRIAL_SEED 1
#define STEPS_MAX 1000000

// One trial and its results.
struct trial {
    struct external_trainer external;
    struct tern_trainer trainer;
    struct tern_model model;
    struct tern_train_task task;
    float *weights; // initial weights
    char scratch[PATH_MAX];
    char folder[PATH_MAX];
    enum tern_result trained;
    struct tern_train_result train;
    double seconds;
    double change; // largest absolute change of a weight
    char metrics[TERN_TRAINER_METRICS_MAX];
    enum tern_result evaluated;
    struct tern_evaluate_result before;
    struct tern_evaluate_result after;
    char why[EXTERNAL_WHY_MAX];
};

// --- Preparing

static enum tern_result read_options(const struct tern_cli *cli, struct tern_train_task *task)
{
    uint64_t steps = 0;
    uint64_t batch = 0;
    char *end = NULL;
    const char *rate = tern_cli_option(cli, "learning-rate", "0.05");
    TERN_TRY(tern_cli_number(cli, "steps", 5, 1, STEPS_MAX, &steps));
    TERN_TRY(tern_cli_number(cli, "batch", 32, 1, 65536, &batch));
    *task = (struct tern_train_task){.round = 1,
                                     .client = 1,
                                     .seed = TRIAL_SEED,
                                     .local_steps = (uint32_t)steps,
                                     .batch_size = (uint32_t)batch,
                                     .learning_rate = strtof(rate, &end)};
    if (end == rate || *end != '\0' || !isfinite(task->learning_rate) || task->learning_rate < 0) {
        return tern_cli_refuse(cli, TERN_ERR_CONFIG,
                               "--learning-rate is \"%s\"; it must be a number from 0", rate);
    }
    return TERN_OK;
}

// Makes a temporary folder for the trial, since a running client may use the folder in the state directory.
static enum tern_result make_folder(struct trial *trial)
{
    const char *base = getenv("TMPDIR");
    snprintf(trial->scratch, sizeof trial->scratch, "%s/tern-train-check-XXXXXX",
             base != NULL && base[0] != '\0' ? base : "/tmp");
    if (mkdtemp(trial->scratch) == NULL) {
        snprintf(trial->why, sizeof trial->why, "the folder for the trial cannot be created: %s",
                 strerror(errno));
        trial->scratch[0] = '\0';
        return TERN_ERR_IO;
    }
    if (snprintf(trial->folder, sizeof trial->folder, "%s/trainer", trial->scratch) < 0) {
        return TERN_ERR_IO;
    }
    return TERN_OK;
}

static enum tern_result prepare(struct trial *trial, const char *spec)
{
    const struct tern_client_settings *settings = &tern_client_settings;
    TERN_TRY(tern_external_kind_of(settings, &trial->external.kind, trial->why));
    if (trial->external.kind == EXTERNAL_NONE) {
        snprintf(trial->why, sizeof trial->why,
                 "client.trainer is builtin, which needs no trial: set client.trainer to command "
                 "or library");
        return TERN_ERR_CONFIG;
    }
    TERN_TRY(make_model(spec, TRIAL_SEED, &trial->model, &trial->weights, trial->why));
    TERN_TRY(make_folder(trial));
    TERN_TRY(tern_external_open(&trial->external, settings, &trial->model, spec, trial->folder,
                                trial->why));
    trial->trainer = tern_external_port(&trial->external);
    return TERN_OK;
}

static void end_trial(struct trial *trial)
{
    tern_external_close(&trial->external);
    free(trial->weights);
    if (trial->scratch[0] != '\0') {
        tern_work_folder_remove(trial->scratch);
    }
}

// --- Running

static enum tern_result train(struct trial *trial, float **trained)
{
    const struct tern_trainer *trainer = &trial->trainer;
    enum tern_result result =
        trainer->begin(trainer->ctx, &trial->task, trial->weights, trial->model.count);
    if (result != TERN_OK) {
        return result;
    }
    do {
        result = trainer->step(trainer->ctx, trained, &trial->train);
    } while (result == TERN_AGAIN && !tern_interrupted);
    return result;
}

static enum tern_result evaluate(const struct trial *trial, const float *weights,
                                 struct tern_evaluate_result *found)
{
    const struct tern_trainer *trainer = &trial->trainer;
    enum tern_result result = TERN_AGAIN;
    while (result == TERN_AGAIN && !tern_interrupted) {
        result = trainer->evaluate(trainer->ctx, weights, trial->model.count, found);
    }
    return result;
}

static void measure_change(struct trial *trial, const float *trained)
{
    for (uint32_t i = 0; i < trial->model.count; i++) {
        trial->change = fmax(trial->change, fabs((double)trained[i] - (double)trial->weights[i]));
    }
}

static void run_trial(struct trial *trial)
{
    float *trained = NULL;
    const double start = tern_monotonic_seconds();
    trial->trained = train(trial, &trained);
    trial->seconds = tern_monotonic_seconds() - start;
    if (trial->trained != TERN_OK) {
        return;
    }
    measure_change(trial, trained);
    snprintf(trial->metrics, sizeof trial->metrics, "%s", tern_external_metrics(&trial->external));
    trial->evaluated = evaluate(trial, trial->weights, &trial->before);
    if (trial->evaluated == TERN_OK) {
        trial->evaluated = evaluate(trial, trained, &trial->after);
    }
}

// --- Printing

static int code_of(const struct trial *trial)
{
    const bool evaluator = tern_client_settings.client_evaluator;
    return trial->trained == TERN_OK && (trial->evaluated == TERN_OK || !evaluator)
               ? TERN_EXIT_OK
               : TERN_EXIT_FAILED;
}

static const char *reason_of(const struct trial *trial, enum tern_result result)
{
    const char *why = tern_external_why(&trial->external);
    return why[0] != '\0' ? why : tern_result_sentence(result);
}

// Prints the command's output, with '?' in place of control characters.
static void print_output(const struct trial *trial)
{
    const char *output = tern_external_output(&trial->external);
    if (output[0] == '\0') {
        return;
    }
    printf("it wrote:\n  ");
    for (; *output != '\0'; output++) {
        const unsigned char c = (unsigned char)*output;
        if (c == '\n' && output[1] != '\0') {
            printf("\n  ");
        } else if (c != '\n') {
            putchar((c < 0x20 && c != '\t') || c == 0x7f ? '?' : c);
        }
    }
    printf("\n");
}

static int print_text(const struct trial *trial)
{
    const struct tern_train_result *train = &trial->train;
    if (trial->trained != TERN_OK) {
        printf("train      FAILED: %s\n", reason_of(trial, trial->trained));
        print_output(trial);
        return code_of(trial);
    }
    printf("train      ok: %" PRIu32 " steps in %.2f s, %" PRIu32 " examples, loss %.4f\n",
           train->local_steps, trial->seconds, train->num_examples, (double)train->loss);
    if (trial->change > 0) {
        printf("weights    ok: %" PRIu32 " values in %" PRIu32 " tensors, changed by up to %.3g\n",
               trial->model.count, trial->model.tensor_count, trial->change);
    } else {
        printf("weights    UNCHANGED: the trainer returned the weights that it received\n");
    }
    if (trial->metrics[0] != '\0') {
        printf("metrics    %s\n", trial->metrics);
    }
    if (trial->evaluated == TERN_OK && trial->after.no_accuracy) {
        printf("evaluate   ok: %" PRIu32 " examples, loss %.4f before, %.4f after",
               trial->after.num_examples, (double)trial->before.loss, (double)trial->after.loss);
        for (uint32_t i = 0; i < trial->after.metric_count; i++) {
            printf(", %s %.4g", trial->after.metrics[i].name,
                   (double)trial->after.metrics[i].value);
        }
        printf("\n");
    } else if (trial->evaluated == TERN_OK) {
        printf("evaluate   ok: %" PRIu32 " examples, accuracy %.4f before, %.4f after\n",
               trial->after.num_examples, (double)trial->before.accuracy,
               (double)trial->after.accuracy);
    } else {
        printf("evaluate   %s: %s\n",
               tern_client_settings.client_evaluator ? "FAILED"
                                                     : "not possible (evaluators need it)",
               reason_of(trial, trial->evaluated));
        print_output(trial);
    }
    return code_of(trial);
}

// Parses metrics like "name=1.5 other=2". Names may contain blanks and equals signs.
static cJSON *json_of_metrics(const char *text)
{
    cJSON *object = cJSON_CreateObject();
    char name[TERN_TRAINER_METRICS_MAX];
    size_t len = 0;
    while (*text != '\0') {
        char *end = NULL;
        const double value = *text == '=' ? strtod(text + 1, &end) : 0.0;
        if (end != NULL && end != text + 1 && (*end == ' ' || *end == '\0')) {
            name[len] = '\0';
            cJSON_AddNumberToObject(object, name, value);
            len = 0;
            text = end + (*end == ' ');
        } else {
            name[len++] = *text++;
        }
    }
    return object;
}

static void add_evaluated(cJSON *object, const char *key, const struct tern_evaluate_result *found)
{
    cJSON *json = cJSON_AddObjectToObject(object, key);
    cJSON_AddNumberToObject(json, "loss", (double)found->loss);
    cJSON_AddItemToObject(json, "accuracy",
                          found->no_accuracy ? cJSON_CreateNull()
                                             : cJSON_CreateNumber((double)found->accuracy));
    cJSON *metrics = cJSON_AddObjectToObject(json, "metrics");
    for (uint32_t i = 0; i < found->metric_count; i++) {
        cJSON_AddNumberToObject(metrics, found->metrics[i].name, (double)found->metrics[i].value);
    }
}

static int print_json(const struct tern_cli *cli, const struct trial *trial)
{
    cJSON *root = cJSON_CreateObject();
    cJSON *train = cJSON_AddObjectToObject(root, "train");
    cJSON_AddStringToObject(train, "result", tern_result_name(trial->trained));
    if (trial->trained == TERN_OK) {
        cJSON_AddNumberToObject(train, "local_steps", trial->train.local_steps);
        cJSON_AddNumberToObject(train, "num_examples", trial->train.num_examples);
        cJSON_AddNumberToObject(train, "loss", (double)trial->train.loss);
        cJSON_AddNumberToObject(train, "seconds", trial->seconds);
        cJSON_AddNumberToObject(train, "largest_change", trial->change);
        cJSON_AddItemToObject(train, "metrics", json_of_metrics(trial->metrics));
        cJSON *evaluate = cJSON_AddObjectToObject(root, "evaluate");
        cJSON_AddStringToObject(evaluate, "result", tern_result_name(trial->evaluated));
        if (trial->evaluated == TERN_OK) {
            cJSON_AddNumberToObject(evaluate, "num_examples", trial->after.num_examples);
            add_evaluated(evaluate, "before", &trial->before);
            add_evaluated(evaluate, "after", &trial->after);
        }
    }
    cJSON_AddStringToObject(root, "why", tern_external_why(&trial->external));
    cJSON_AddStringToObject(root, "output", tern_external_output(&trial->external));
    (void)tern_json_print(cli, root);
    return code_of(trial);
}

int tern_verb_train_check(struct tern_cli *cli)
{
    static struct trial trial;
    if (read_options(cli, &trial.task) != TERN_OK) {
        return TERN_EXIT_USAGE;
    }
    tern_interrupts_catch();
    int code = TERN_EXIT_INTERRUPTED;
    const enum tern_result ready = prepare(&trial, cli->arguments[0]);
    if (ready != TERN_OK) {
        code = tern_cli_fail(cli, ready, "%s", trial.why);
    } else {
        run_trial(&trial);
        if (!tern_interrupted) {
            code = cli->json ? print_json(cli, &trial) : print_text(&trial);
        }
    }
    end_trial(&trial);
    return code;
}
