#include "cli/quality.h"
#include "cli/state.h"
#include "cli/verbs.h"
#include "cli/versions.h"

#include "hosted/export_file.h"
#include "merge/merge.h"
#include "util/bytes.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct job {
    const struct tern_db_federation *federation;
    struct tern_merge *merge;
    struct tern_db_round round; // round that made the version; round number 0: the version is 0
    bool replica;
    bool averaged;
    // evaluators' metrics choose between global model and replica, because no option does
    bool by_metrics;
    struct tern_best models[TERN_BEST_MODELS]; // evaluators' metrics of both models of the version
    struct tern_export_file format;
    uint8_t *kept_bytes; // untrained tensors, as a safetensors file
    struct tern_safetensors kept;
    uint8_t *scaling_bytes; // scaling of the columns by clients' statistics, if any
    struct tern_span scaling;
    cJSON *notes; // metadata of the file
};

// --- Choosing the weights

static int read_weight_options(struct tern_cli *cli, struct job *job)
{
    static const char *const flags[] = {"global", "replica", "averaged"};
    const char *given = NULL;
    for (size_t i = 0; i < sizeof flags / sizeof flags[0]; i++) {
        if (given != NULL && tern_cli_flag(cli, flags[i])) {
            return tern_cli_fail(cli, TERN_ERR_CONFIG,
                                 "--%s and --%s name different weights: give one of them", given,
                                 flags[i]);
        }
        given = tern_cli_flag(cli, flags[i]) ? flags[i] : given;
    }
    job->replica = tern_cli_flag(cli, "replica");
    job->averaged = tern_cli_flag(cli, "averaged");
    job->by_metrics = given == NULL;
    return TERN_EXIT_OK;
}

static const char *model_name(enum tern_db_evaluated model)
{
    return model == TERN_EVALUATED_GLOBAL ? "global model" : "replica";
}

static const char *const metric_names[] = {
    [TERN_BEST_BY_ACCURACY] = "accuracy", [TERN_BEST_BY_HELD_OUT_LOSS] = "loss on held-out data"};

// Reports the best version, and whether its metric belongs to the model that is not written.
static void report_best(const struct tern_best *best, enum tern_db_evaluated written)
{
    if (best->by == TERN_BEST_BY_TRAINING_LOSS) {
        fprintf(stderr,
                "tern-aggregator: version %" PRIu32 " is best by its round's training loss, %.4f\n",
                best->version, best->value);
        return;
    }
    fprintf(stderr, "tern-aggregator: version %" PRIu32 " is best by its %s's %s, %.4f%s",
            best->version, model_name(best->model), metric_names[best->by], best->value,
            best->by_clients ? ", measured by the clients that train" : "");
    if (best->model != written) {
        fprintf(stderr, "; its %s is written", model_name(written));
    }
    fprintf(stderr, "\n");
}

// Chooses between the two models of one version by evaluators' metrics.
static int choose_model(struct tern_cli *cli, struct tern_db *db, uint32_t version, struct job *job)
{
    TERN_CLI_TRY(tern_cli_check(cli, tern_best_models(db, version, job->models),
                                "cannot read the evaluations: %s", tern_db_error(db)));
    job->replica = tern_best_prefers_replica(job->models);
    return TERN_EXIT_OK;
}

// Explains why the written file holds the replica, or weights of no round.
static void print_choice(const struct job *job)
{
    if (job->merge->version == 0) {
        fprintf(stderr, "tern-aggregator: version 0 is the model that init made: no round has "
                        "changed it\n");
    }
    const struct tern_best *replica = &job->models[TERN_EVALUATED_REPLICA];
    if (job->replica && replica->by != TERN_BEST_NONE) {
        fprintf(stderr,
                "tern-aggregator: version %" PRIu32 ": the replica was written, because its %s is "
                "%.4f and the global model's %.4f. --global writes the global model.\n",
                job->merge->version, metric_names[replica->by], replica->value,
                job->models[TERN_EVALUATED_GLOBAL].value);
    }
}

static int find_best(struct tern_cli *cli, struct tern_db *db, struct job *job, uint32_t *wanted)
{
    struct tern_best best;
    const enum tern_db_evaluated written =
        job->replica ? TERN_EVALUATED_REPLICA : TERN_EVALUATED_GLOBAL;
    const enum tern_result result =
        job->by_metrics ? tern_best_find_any(db, &best) : tern_best_find(db, written, &best);
    TERN_CLI_TRY(tern_cli_check(cli, result, "cannot read the rounds: %s", tern_db_error(db)));
    if (best.by == TERN_BEST_NONE) {
        return tern_cli_fail(cli, TERN_ERR_NOT_FOUND,
                             "there is no best version: no round is committed. Without --best, "
                             "export writes version 0, which nobody has trained");
    }
    *wanted = best.version;
    job->replica = job->by_metrics ? best.model == TERN_EVALUATED_REPLICA : job->replica;
    report_best(&best, job->by_metrics ? best.model : written);
    return TERN_EXIT_OK;
}

// Chooses the version by --version or --best, by default the newest, and one of its models.
static int choose_version(struct tern_cli *cli, struct tern_db *db, struct job *job,
                          uint32_t *wanted)
{
    TERN_CLI_TRY(tern_version_option(cli, db, "version", wanted));
    if (!tern_cli_flag(cli, "best")) {
        return job->by_metrics ? choose_model(cli, db, *wanted, job) : TERN_EXIT_OK;
    }
    if (tern_cli_flag(cli, "version")) {
        return tern_cli_fail(cli, TERN_ERR_CONFIG,
                             "--version and --best name different versions: give one of them");
    }
    return find_best(cli, db, job, wanted);
}

// Writes the global model where metrics prefer the replica, which only a replay makes, but updates were pruned.
static int replace_pruned_replica(struct tern_cli *cli, struct tern_db *db, struct job *job,
                                  uint32_t wanted)
{
    uint32_t pruned = 0;
    if (!job->by_metrics || !job->replica || wanted == 0) {
        return TERN_EXIT_OK;
    }
    TERN_CLI_TRY(tern_cli_check(cli, tern_db_prune_goal(db, 0, &pruned),
                                "cannot read the rounds: %s", tern_db_error(db)));
    if (pruned > 0) {
        job->replica = false;
        fprintf(stderr,
                "tern-aggregator: updates of rounds 1 to %" PRIu32
                " were pruned, so that the replica of version %" PRIu32
                " cannot be made: the global model is written\n",
                pruned, wanted);
    }
    return TERN_EXIT_OK;
}

static int load_weights(struct tern_cli *cli, struct tern_db *db, struct job *job)
{
    struct tern_db_version newest;
    TERN_CLI_TRY(tern_version_newest(cli, db, &newest));
    uint32_t wanted = newest.version;
    TERN_CLI_TRY(choose_version(cli, db, job, &wanted));
    if (wanted > newest.version) {
        return tern_cli_fail(cli, TERN_ERR_NOT_FOUND,
                             "there is no version %" PRIu32 "; the newest is %" PRIu32, wanted,
                             newest.version);
    }
    if (wanted == newest.version) {
        return tern_version_load_newest(cli, db, job->merge);
    }
    TERN_CLI_TRY(replace_pruned_replica(cli, db, job, wanted));
    return tern_version_load(cli, db, job->merge, wanted, job->replica || job->averaged);
}

// --- Writing

static const char *weights_name(const struct job *job)
{
    return job->averaged ? "averaged" : job->replica ? "replica" : "global";
}

static const float *weights_of(const struct job *job)
{
    const struct tern_merge *merge = job->merge;
    return job->averaged ? merge->average : job->replica ? merge->replica : merge->global;
}

static void add_number(cJSON *notes, const char *key, uint32_t value)
{
    char text[16];
    snprintf(text, sizeof text, "%" PRIu32, value);
    cJSON_AddStringToObject(notes, key, text);
}

// Returns the file's metadata: that of the imported model, overridden by what describes this version.
static cJSON *make_notes(const struct job *job)
{
    static const char *const ours[] = {"round", "strategy", "averaged", "model_sha256", "replica"};
    const struct tern_merge *merge = job->merge;
    char hash[2 * TERN_SHA256_SIZE + 1];
    cJSON *notes =
        job->federation->metadata != NULL ? cJSON_Parse(job->federation->metadata) : NULL;
    notes = notes != NULL ? notes : cJSON_CreateObject();
    for (size_t i = 0; i < sizeof ours / sizeof ours[0]; i++) {
        cJSON_DeleteItemFromObjectCaseSensitive(notes, ours[i]);
    }
    const struct tern_export_model model = {.held = weights_name(job),
                                            .layout = &merge->model,
                                            .spec = job->federation->model_spec,
                                            .hash = merge->model.hash,
                                            .version = merge->version,
                                            .scaling = job->scaling};
    tern_export_notes(notes, &model);
    add_number(notes, "round", job->round.round);
    if (job->round.round > 0) {
        cJSON_AddStringToObject(notes, "strategy", job->round.strategy);
    }
    if (job->averaged) { // the hash of the version does not apply
        add_number(notes, "averaged", merge->averaged);
        return notes;
    }
    tern_hex_encode(job->replica ? merge->replica_id : merge->model_sha256, TERN_SHA256_SIZE, hash);
    cJSON_AddStringToObject(notes, job->replica ? "replica" : "model_sha256", hash);
    return notes;
}

static enum tern_result encode(const struct job *job, uint8_t **data, size_t *len,
                               char why[TERN_SAFETENSORS_WHY_MAX])
{
    return tern_export_file_make(&job->format, &job->merge->model, weights_of(job), &job->kept,
                                 job->notes, data, len, why);
}

static int print_written(struct tern_cli *cli, const struct job *job, const uint8_t *data,
                         size_t len)
{
    const struct tern_merge *merge = job->merge;
    cJSON *object = tern_export_file_report(cli, weights_name(job), merge->version, data, len);
    tern_export_report_inputs(cli, &job->format, job->notes);
    uint32_t first = 0;
    if (object == NULL && tern_model_local(&merge->model, &first) > 0) {
        fprintf(stderr, "Its local tensors are those of version 0. Each client has its own, which "
                        "`tern-client export` writes.\n");
    }
    if (object == NULL) {
        return TERN_EXIT_OK;
    }
    tern_json_hash(object, "model_sha256", merge->model_sha256);
    if (job->averaged) {
        tern_json_u64(object, "averaged", merge->averaged);
    }
    return tern_json_print(cli, object);
}

static enum tern_result find_round(struct tern_db *db, struct job *job)
{
    struct tern_db_version version;
    enum tern_result result = tern_db_version_get(db, job->merge->version, &version);
    if (result == TERN_OK && version.round > 0) {
        result = tern_db_round_get(db, version.round, &job->round);
    }
    return tern_db_may_miss(result);
}

static int load_kept(struct tern_cli *cli, struct tern_db *db, struct job *job)
{
    char why[TERN_SAFETENSORS_WHY_MAX] = "";
    size_t len = 0;
    enum tern_result result = tern_db_kept_get(db, &job->kept_bytes, &len);
    if (result == TERN_ERR_NOT_FOUND) {
        return TERN_EXIT_OK;
    }
    TERN_CLI_TRY(tern_cli_check(cli, result, "cannot read the tensors kept for export: %s",
                                tern_db_error(db)));
    result = tern_safetensors_parse(job->kept_bytes, len, &job->kept, why);
    return tern_cli_check(cli, result, "the tensors kept for export are damaged: %s", why);
}

static int load_scaling(struct tern_cli *cli, struct tern_db *db, struct job *job)
{
    size_t len = 0;
    tern_Scaling message;
    enum tern_result result = tern_db_scaling_get(db, &job->scaling_bytes, &len);
    if (result == TERN_ERR_NOT_FOUND) {
        return TERN_EXIT_OK;
    }
    if (result == TERN_OK) {
        result = tern_wire_decode_scaling(job->scaling_bytes, len, &message, &job->scaling);
    }
    return tern_cli_check(cli, result, "cannot read the scaling of the columns: %s",
                          tern_db_error(db));
}

// Returns TERN_EXIT_NOTHING without an averaged model, so that a script can distinguish that from a failure.
static int check_average(struct tern_cli *cli, const struct job *job)
{
    if (!job->averaged || job->merge->averaged > 0) {
        return TERN_EXIT_OK;
    }
    tern_cli_fail(cli, TERN_ERR_NOT_FOUND,
                  "version %" PRIu32
                  " has no averaged model; rounds that open with round.strategy = "
                  "NAME:average_versions=N make one",
                  job->merge->version);
    return TERN_EXIT_NOTHING;
}

static int export_merged(struct tern_cli *cli, struct tern_db *db, struct job *job)
{
    char why[TERN_SAFETENSORS_WHY_MAX] = "";
    uint8_t *data = NULL;
    size_t len = 0;
    TERN_CLI_TRY(load_weights(cli, db, job));
    TERN_CLI_TRY(check_average(cli, job));
    TERN_CLI_TRY(
        tern_cli_check(cli, find_round(db, job), "cannot read the rounds: %s", tern_db_error(db)));
    TERN_CLI_TRY(job->format.safetensors ? load_kept(cli, db, job) : TERN_EXIT_OK);
    TERN_CLI_TRY(load_scaling(cli, db, job));
    job->notes = make_notes(job);
    TERN_CLI_TRY(tern_cli_check(cli, encode(job, &data, &len, why), "%s", why));
    int code = tern_export_file_write(cli, data, len);
    if (code == TERN_EXIT_OK) {
        print_choice(job);
        code = print_written(cli, job, data, len);
    }
    free(data);
    return code;
}

int tern_cli_export(struct tern_cli *cli)
{
    static struct tern_merge merge;
    struct tern_db_federation federation;
    struct job job = {.federation = &federation, .merge = &merge};
    struct tern_db *db;
    TERN_CLI_TRY(tern_export_file_check(cli, &job.format));
    TERN_CLI_TRY(read_weight_options(cli, &job));
    TERN_CLI_TRY(tern_state_open_reading(cli, &db));
    enum tern_result result = tern_db_federation(db, &federation);
    if (result != TERN_OK) {
        return tern_state_fail(cli, db, result);
    }
    result = tern_merge_init(&merge, &federation, NULL);
    if (result != TERN_OK) {
        tern_db_close(db);
        return tern_cli_fail(cli, result, "model '%s': %s", federation.model_spec,
                             tern_result_sentence(result));
    }
    int code = export_merged(cli, db, &job);
    cJSON_Delete(job.notes);
    tern_safetensors_free(&job.kept);
    free(job.kept_bytes);
    free(job.scaling_bytes);
    tern_merge_free(&merge);
    tern_db_close(db);
    return code;
}
