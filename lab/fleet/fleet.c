#include "fleet/fleet.h"

#include "codec/container.h"
#include "data/columns.h"
#include "fleet/alarm.h"
#include "fleet/figure.h"
#include "fleet/member.h"
#include "fleet/scores.h"
#include "fleet/shares.h"
#include "hosted/log.h"
#include "hosted/system.h"
#include "tensor/manifest.h"
#include "trainer/trainer.h"
#include "util/bytes.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

// --- Personal models

// Measures the personal models of clients with local tensors, after a run. One thread.

struct bench {
    const struct tern_shares *shares;
    struct tern_builtin_trainer trainer;
    uint16_t *answers; // predicted class of each test example
};

static enum tern_result measure(struct bench *bench, const struct tern_member *member,
                                uint32_t index, double *accuracy)
{
    struct tern_scores scores;
    const struct tern_client *client = &member->client;
    *accuracy = NAN;
    if (!tern_client_is_personal(client)) {
        return TERN_OK;
    }
    TERN_TRY(tern_builtin_trainer_answer(&bench->trainer, tern_client_weights(client),
                                         client->work.model->count, bench->answers));
    TERN_TRY(tern_scores_make(bench->shares, bench->answers, &scores));
    *accuracy = scores.client_accuracy[index];
    tern_scores_clear(&scores);
    return TERN_OK;
}

static enum tern_result measure_all(struct bench *bench, const struct tern_member *members,
                                    uint32_t count, double *accuracy)
{
    for (uint32_t i = 0; i < count; i++) {
        TERN_TRY(measure(bench, &members[i], i, &accuracy[i]));
    }
    return TERN_OK;
}

// Fills accuracy[0..count) with each member's accuracy on data like its own (scores.h); NaN: the member has not
// trained. TERN_ERR_NO_MEMORY; errors of the trainer
static enum tern_result measure_personal_models(const struct tern_member *members, uint32_t count,
                                                const struct tern_shares *shares,
                                                const struct tern_model *model, double *accuracy)
{
    static struct bench bench;
    void *arena = NULL;
    bench.shares = shares;
    bench.answers = malloc((shares->data.test.count + 1) * sizeof *bench.answers);
    enum tern_result result = bench.answers != NULL ? TERN_OK : TERN_ERR_NO_MEMORY;
    if (result == TERN_OK) {
        result = tern_trainer_alone(&bench.trainer, model,
                                    (struct tern_view){.dataset = &shares->data.train},
                                    tern_view_all(&shares->data.test), &arena);
    }
    if (result == TERN_OK) {
        result = measure_all(&bench, members, count, accuracy);
    }
    free(arena);
    free(bench.answers);
    return result;
}

// --- Replicas

// Measures the replicas that clients hold when a run ends. With partial participation and lossy downloads they differ
// from the global model and from each other. The main thread calls this after the members' threads have ended.

struct survey {
    const struct tern_member *members;
    uint32_t count;
    uint32_t most; // only the first `most` members are measured
    double *figure;
    pthread_mutex_t mutex;
    uint32_t newest; // newest version that a member holds
    uint32_t next;
    enum tern_result result;
};

// Returns the first member with the same replica; one measurement serves all of them.
static uint32_t first_with(const struct survey *survey, uint32_t member)
{
    const uint8_t *wanted = tern_client_replica(&survey->members[member].client);
    if (tern_client_is_personal(&survey->members[member].client)) {
        return member; // it has local tensors of its own
    }
    uint32_t i = 0;
    while (memcmp(tern_client_replica(&survey->members[i].client), wanted, TERN_SHA256_SIZE) != 0) {
        i++;
    }
    return i;
}

static bool is_passed_over(const struct survey *survey, uint32_t member)
{
    const uint32_t version = tern_client_version(&survey->members[member].client);
    return member >= survey->most || version < survey->newest - survey->newest / 10;
}

static bool take(struct survey *survey, uint32_t *member)
{
    pthread_mutex_lock(&survey->mutex);
    while (survey->next < survey->count && (is_passed_over(survey, survey->next) ||
                                            first_with(survey, survey->next) != survey->next)) {
        survey->next++;
    }
    const bool taken = survey->next < survey->count && survey->result == TERN_OK;
    *member = survey->next++;
    pthread_mutex_unlock(&survey->mutex);
    return taken;
}

static void *measure_replicas_on_thread(void *argument)
{
    struct survey *survey = argument;
    uint32_t i = 0;
    while (take(survey, &i)) {
        const struct tern_member *member = &survey->members[i];
        struct tern_pool_seat seat = {.pool = member->seat.pool, .test = member->test};
        const struct tern_trainer port = tern_pool_port(&seat);
        struct tern_evaluate_result found = {0};
        const enum tern_result result =
            port.evaluate(port.ctx, tern_client_weights(&member->client),
                          member->client.work.model->count, &found);
        survey->figure[i] = tern_figure_value(&found);
        if (result != TERN_OK) {
            pthread_mutex_lock(&survey->mutex);
            survey->result = result;
            pthread_mutex_unlock(&survey->mutex);
        }
    }
    return NULL;
}

static enum tern_result run(struct survey *survey, uint32_t workers)
{
    pthread_t *threads = calloc(workers, sizeof *threads);
    uint32_t started = 0;
    if (threads == NULL) {
        return TERN_ERR_NO_MEMORY;
    }
    while (started < workers &&
           pthread_create(&threads[started], NULL, measure_replicas_on_thread, survey) == 0) {
        started++;
    }
    if (started == 0) {
        measure_replicas_on_thread(survey);
    }
    for (uint32_t i = 0; i < started; i++) {
        pthread_join(threads[i], NULL);
    }
    free(threads);
    return survey->result;
}

// Measures the members' replicas on their `test` view, in parallel on the pool's trainers; equal replicas once.
// figure (fleet/figure.h) and version: `count` values in the members' order; a member without a task holds the seed's
// replica, version 0. figure is NaN for members from `most` on, and for replicas older than the newest tenth of the
// versions.
// TERN_ERR_NO_MEMORY, errors of the trainer
static enum tern_result measure_replicas(const struct tern_member *members, uint32_t count,
                                         uint32_t most, double *figure, double *version)
{
    struct survey survey = {
        .members = members, .count = count, .most = most, .figure = figure, .result = TERN_OK};
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t held = tern_client_version(&members[i].client);
        survey.newest = held > survey.newest ? held : survey.newest;
    }
    pthread_mutex_init(&survey.mutex, NULL);
    const enum tern_result result = run(&survey, members[0].seat.pool->count);
    pthread_mutex_destroy(&survey.mutex);
    TERN_TRY(result);
    for (uint32_t i = 0; i < count; i++) {
        figure[i] = is_passed_over(&survey, i) ? NAN : figure[first_with(&survey, i)];
        version[i] = (double)tern_client_version(&members[i].client);
    }
    return TERN_OK;
}

// --- The fleet

struct fleet {
    const struct tern_fleet_run *run;
    const struct tern_fleet_settings *settings;
    struct tern_shares shares;
    struct tern_model model;
    uint8_t *manifest; // the model's manifest; NULL: a built-in model without rules
    size_t manifest_len;
    struct tern_pool pool;
    struct tern_pooled pooled;
    struct tern_progress progress;
    bool told_dropped;
    struct tern_alarm alarm;
    struct tern_member *members; // training clients first, the evaluator last
    uint32_t member_count;
    char *why;
};

// --- Data

static struct tern_view largest_shard(const struct fleet *fleet)
{
    struct tern_view largest = tern_shares_of(&fleet->shares, 0);
    for (uint32_t i = 1; i < fleet->settings->fleet_clients; i++) {
        struct tern_view other = tern_shares_of(&fleet->shares, i);
        largest = other.count > largest.count ? other : largest;
    }
    return largest;
}

// --- Clients

// Returns the evaluator's identity: unlike other members it enrols before the run starts.
static const struct tern_client_identity *identity_of(const struct fleet *fleet)
{
    return tern_client_identity(&fleet->members[fleet->member_count - 1].client);
}

static enum tern_result enroll_all(struct fleet *fleet)
{
    uint32_t training = fleet->settings->fleet_clients;
    fleet->member_count = training + 1;
    fleet->members = calloc(fleet->member_count, sizeof *fleet->members);
    if (fleet->members == NULL) {
        return TERN_ERR_NO_MEMORY;
    }
    for (uint32_t i = 0; i < fleet->member_count; i++) {
        fleet->members[i].number = i + 1;
        fleet->members[i].evaluator = i == training;
        TERN_TRY(
            tern_member_open(&fleet->members[i], fleet->settings, &fleet->progress, fleet->why));
        if (*fleet->run->interrupted) {
            return TERN_AGAIN;
        }
    }
    return TERN_OK;
}

// Makes a pool of trainers for fleet->model, which is built.
static enum tern_result make_pool(struct fleet *fleet, const char *model_spec, uint32_t workers)
{
    const struct tern_view test = tern_view_all(&fleet->shares.data.test);
    enum tern_result result =
        tern_pool_init(&fleet->pool, &fleet->model, workers, largest_shard(fleet), test);
    const struct tern_dataset *data = &fleet->shares.data.train;
    if (result == TERN_ERR_MODEL_MISMATCH) {
        snprintf(
            fleet->why, 512,
            "the model %s cannot be trained on examples of %u features and %u classes%s: "
            "federation.model must take %u values (a cnn: %ux%ux%u) and end with %u classes "
            "or more, 1 and ,loss=mse or ,loss=mae where there are targets, or as many values as "
            "it takes and ,loss=reconstruction",
            model_spec, data->feature_count, data->class_count,
            data->targets != NULL ? ", with targets" : "", data->feature_count, data->height,
            data->width, data->channels, data->class_count);
    } else if (result != TERN_OK) {
        snprintf(fleet->why, 512, "the model %s cannot be trained: %s", model_spec,
                 tern_result_sentence(result));
    }
    return result;
}

// Fetches the manifest if the built-in model's tensors have rules of their own (tensors.rules).
static enum tern_result build_model(struct fleet *fleet,
                                    const struct tern_client_identity *identity)
{
    struct tern_client *client = &fleet->members[fleet->member_count - 1].client;
    if (tern_model_build(&fleet->model, identity->model_spec, NULL, 0, identity->model_hash) ==
        TERN_OK) {
        return TERN_OK;
    }
    fleet->manifest = malloc(TERN_MANIFEST_MAX);
    if (fleet->manifest == NULL) {
        return TERN_ERR_NO_MEMORY;
    }
    enum tern_result result = TERN_AGAIN;
    while (result == TERN_AGAIN) {
        result =
            tern_client_manifest(client, fleet->manifest, TERN_MANIFEST_MAX, &fleet->manifest_len);
    }
    TERN_TRY(result);
    return tern_model_build(&fleet->model, identity->model_spec, fleet->manifest,
                            fleet->manifest_len, identity->model_hash);
}

static enum tern_result make_trainers(struct fleet *fleet)
{
    const struct tern_client_identity *identity = identity_of(fleet);
    uint32_t workers = fleet->settings->fleet_workers;
    if (workers == 0) {
        long cores = sysconf(_SC_NPROCESSORS_ONLN);
        workers = cores > 0 ? (uint32_t)cores : 1;
    }
    const enum tern_result result = build_model(fleet, identity);
    if (result != TERN_OK) {
        snprintf(fleet->why, 512, "the aggregator's model %s cannot be built: %s",
                 identity->model_spec, tern_result_sentence(result));
        return result;
    }
    return make_pool(fleet, identity->model_spec, workers);
}

static struct tern_view examples_of(const struct fleet *fleet, const struct tern_member *member)
{
    return member->device.attack == TERN_ATTACK_LABEL_FLIP
               ? tern_shares_flipped_of(&fleet->shares, member->number - 1)
               : tern_shares_of(&fleet->shares, member->number - 1);
}

// Prints the number of attackers, if there are any.
static enum tern_result prepare_attack(struct fleet *fleet)
{
    const struct tern_fleet_settings *settings = fleet->settings;
    const uint32_t attackers = tern_attack_count(settings);
    if (attackers > 0) {
        fprintf(fleet->run->out, "%u of %u clients attack (%s)\n", attackers,
                settings->fleet_clients, settings->fleet_attack);
    }
    return attackers > 0 ? tern_shares_flip(&fleet->shares) : TERN_OK;
}

static enum tern_result restore_all(struct fleet *fleet)
{
    for (uint32_t i = 0; i < fleet->member_count; i++) {
        struct tern_member *member = &fleet->members[i];
        member->seat.pool = &fleet->pool;
        member->test = tern_view_all(&fleet->shares.data.test);
        member->planned_rounds = fleet->run->planned_rounds;
        if (member->evaluator) {
            member->measures = true;
            member->seat.test = member->test;
        } else {
            member->seat.train = examples_of(fleet, member);
        }
        member->columns = (struct tern_shares_columns){&fleet->shares, member->seat.train};
        TERN_TRY(tern_member_restore(member, &fleet->model, fleet->why));
    }
    return TERN_OK;
}

static enum tern_result start_all(struct fleet *fleet)
{
    // The evaluator is the last member. An earlier run has evaluated the version that it holds.
    const struct tern_member *evaluator = &fleet->members[fleet->member_count - 1];
    tern_progress_begin_after(&fleet->progress, tern_client_version(&evaluator->client));
    for (uint32_t i = 0; i < fleet->member_count; i++) {
        TERN_TRY(tern_member_start(&fleet->members[i], fleet->why));
    }
    return TERN_OK;
}

// --- Rounds

static void print_round(const struct fleet *fleet, uint32_t version,
                        const struct tern_progress_version *round)
{
    char up[16];
    char down[16];
    char of[16] = "";
    double updates = round->updates > 0 ? round->updates : 1;
    if (fleet->run->planned_rounds > 0) {
        snprintf(of, sizeof of, "/%u", fleet->run->planned_rounds);
    }
    char accuracy[64] = "";
    if (!isnan(round->accuracy)) {
        snprintf(accuracy, sizeof accuracy, "accuracy %.4f (replica), ", round->accuracy);
    } else if (round->found.metric_count > 0) {
        snprintf(accuracy, sizeof accuracy, "%s %.4f (replica), ", round->found.metrics[0].name,
                 (double)round->found.metrics[0].value);
    }
    fprintf(fleet->run->out, "[ROUND %u%s] %u updates, %sup %s down %s per client\n", version, of,
            round->updates, accuracy, tern_fleet_format_bytes((double)round->up / updates, up),
            tern_fleet_format_bytes((double)round->down / updates, down));
    fflush(fleet->run->out);
}

static void warn(struct fleet *fleet, uint32_t version, const struct tern_progress_version *round)
{
    char text[TERN_ALARM_MAX];
    const struct tern_evaluate_result of_classes = {.num_examples =
                                                        isnan(round->accuracy) ? 0u : 1u,
                                                    .loss = (float)round->loss,
                                                    .accuracy = (float)round->accuracy};
    const bool told = round->found.num_examples > 0; // not a classifier
    if (tern_alarm_rings(&fleet->alarm, version, told ? &round->found : &of_classes, text)) {
        fprintf(fleet->run->out, "warning: %s (round %u)\n", text, version);
        fflush(fleet->run->out);
    }
}

static void report_scales(struct fleet *fleet)
{
    char text[TERN_COLUMNS_TEXT_MAX];
    if (tern_shares_report(&fleet->shares, text)) {
        fprintf(fleet->run->out, "%s\n", text);
        fflush(fleet->run->out);
    }
}

// Prints the warning once during the run, and at the end with the total.
static void warn_of_dropped(struct fleet *fleet, bool ended)
{
    struct tern_progress *progress = &fleet->progress;
    char names[TERN_PROGRESS_NAMES_MAX];
    const uint32_t dropped = tern_progress_dropped(progress, names);
    if (dropped == 0 || (!ended && fleet->told_dropped)) {
        return;
    }
    fleet->told_dropped = true;
    fprintf(fleet->run->out,
            "warning: training diverged %u time%s, on %s, which missed that round. A "
            "smaller train.learning_rate usually helps\n",
            dropped, dropped == 1 ? "" : "s", names);
    fflush(fleet->run->out);
}

// since: time of the newest version, or of the start.
static void stop_when_stuck(struct fleet *fleet, double since)
{
    const double patience = (double)fleet->settings->fleet_patience / 1000.0;
    if (patience > 0.0 && tern_monotonic_seconds() - since > patience &&
        !tern_progress_is_stopped(&fleet->progress)) {
        fprintf(fleet->run->out, "no new version for %g s (fleet.patience): the run ends\n",
                patience);
        tern_progress_stop(&fleet->progress);
    }
}

static enum tern_result watch(struct fleet *fleet)
{
    double since = tern_monotonic_seconds();
    for (;;) {
        uint32_t version;
        struct tern_progress_version round;
        enum tern_result result = tern_progress_next(&fleet->progress, &version, &round);
        report_scales(fleet);
        warn_of_dropped(fleet, false);
        if (result == TERN_OK) {
            print_round(fleet, version, &round);
            warn(fleet, version, &round);
            since = tern_monotonic_seconds();
        } else if (result == TERN_ERR_NOT_FOUND && fleet->progress.failure == TERN_OK) {
            warn_of_dropped(fleet, true);
            return TERN_OK;
        } else if (result != TERN_AGAIN) {
            snprintf(fleet->why, 512, "%s", fleet->progress.why);
            return result;
        }
        if (*fleet->run->interrupted) {
            return TERN_AGAIN;
        }
        stop_when_stuck(fleet, since);
    }
}

// --- Results

static uint64_t float32_payload(const struct tern_model *model)
{
    const struct tern_codec codec = {.id = TERN_CODEC_FLOAT32, .sparsity = 1};
    return tern_container_bound(&codec, model);
}

static void add_versions(const struct tern_progress *progress, struct tern_fleet_results *results)
{
    results->rounds = progress->shown - progress->first;
    for (uint32_t i = 0; i < progress->count; i++) {
        const struct tern_progress_version *version = &progress->versions[i];
        results->participations += version->updates;
        results->cohort = version->updates > results->cohort ? version->updates : results->cohort;
        if (i >= progress->first && i < progress->shown) {
            results->accuracy[i - progress->first] = version->accuracy;
            results->found[i - progress->first] = version->found;
            results->round_up[i - progress->first] = (double)version->up;
            results->round_down[i - progress->first] = (double)version->down;
            results->round_trunk[i - progress->first] = (double)version->trunk;
        }
    }
    if (progress->encoded > 0) {
        results->encode_ms = 1e3 * progress->encode_seconds / (double)progress->encoded;
    }
}

static void add_steps(struct tern_fleet_results *results)
{
    const struct tern_records *records = &results->records;
    double sum = 0;
    for (size_t i = 0; i < records->participation_count; i++) {
        sum += records->participations[i].local_steps;
    }
    if (records->participation_count > 0) {
        results->local_steps = sum / (double)records->participation_count;
    }
}

static void add_bytes(const struct fleet *fleet, struct tern_fleet_results *results)
{
    for (uint32_t i = 0; i < fleet->settings->fleet_clients; i++) {
        const struct tern_bytes up = tern_member_bytes(&fleet->members[i], TERN_UP);
        const struct tern_bytes down = tern_member_bytes(&fleet->members[i], TERN_DOWN);
        tern_bytes_add(&results->up, &up);
        tern_bytes_add(&results->down, &down);
    }
}

// Moves the records into the results.
static void take_records(struct tern_progress *progress, struct tern_fleet_results *results)
{
    tern_records_sort(&progress->records);
    results->records = progress->records;
    memset(&progress->records, 0, sizeof progress->records);
}

static enum tern_result take_memory(struct tern_fleet_results *results, size_t versions,
                                    uint32_t clients)
{
    results->accuracy = calloc(versions, sizeof *results->accuracy);
    results->found = calloc(versions, sizeof *results->found);
    results->round_up = calloc(versions, sizeof *results->round_up);
    results->round_down = calloc(versions, sizeof *results->round_down);
    results->round_trunk = calloc(versions, sizeof *results->round_trunk);
    results->replica_figure = calloc(clients, sizeof *results->replica_figure);
    results->replica_version = calloc(clients, sizeof *results->replica_version);
    const bool taken = results->accuracy != NULL && results->found != NULL &&
                       results->round_up != NULL && results->round_down != NULL &&
                       results->round_trunk != NULL && results->replica_figure != NULL &&
                       results->replica_version != NULL;
    return taken ? TERN_OK : TERN_ERR_NO_MEMORY;
}

static enum tern_result add_scaling(const struct fleet *fleet, struct tern_fleet_results *results)
{
    const struct tern_shares *shares = &fleet->shares;
    const size_t len = (size_t)tern_data_columns(&shares->data) * TERN_WIRE_COLUMN_BYTES;
    if (shares->scaling == 0) {
        return TERN_OK;
    }
    results->scaling = malloc(2 * len + 1);
    if (results->scaling == NULL) {
        return TERN_ERR_NO_MEMORY;
    }
    tern_hex_encode(shares->columns, len, results->scaling);
    return TERN_OK;
}

static void describe(const struct fleet *fleet, struct tern_fleet_results *results)
{
    const struct tern_client_identity *identity = identity_of(fleet);
    memcpy(results->codec, fleet->progress.codec, sizeof results->codec);
    memcpy(results->model_hash, fleet->progress.model_hash, sizeof results->model_hash);
    snprintf(results->model, sizeof results->model, "%s", identity->model_spec);
    results->seed = identity->model_seed;
    results->clients = fleet->settings->fleet_clients;
    results->values = fleet->model.count;
    results->float32_payload = float32_payload(&fleet->model);
}

static enum tern_result add_personal(const struct fleet *fleet, struct tern_fleet_results *results)
{
    uint32_t first = 0;
    if (fleet->manifest_len > 0) {
        results->manifest = malloc(2 * fleet->manifest_len + 1);
        if (results->manifest == NULL) {
            return TERN_ERR_NO_MEMORY;
        }
        tern_hex_encode(fleet->manifest, fleet->manifest_len, results->manifest);
    }
    if (tern_model_local(&fleet->model, &first) == 0) {
        return TERN_OK;
    }
    results->personal_accuracy = calloc(results->clients, sizeof *results->personal_accuracy);
    return results->personal_accuracy == NULL
               ? TERN_ERR_NO_MEMORY
               : measure_personal_models(fleet->members, results->clients, &fleet->shares,
                                         &fleet->model, results->personal_accuracy);
}

static enum tern_result add_open_means(const struct tern_open_sums *sums,
                                       struct tern_fleet_results *results)
{
    if (sums->count == 0) {
        return TERN_OK;
    }
    results->open_means = calloc(sums->count, sizeof *results->open_means);
    results->open_count = sums->count;
    return results->open_means != NULL ? tern_open_sums_means(sums, results->open_means)
                                       : TERN_ERR_NO_MEMORY;
}

static enum tern_result collect(struct fleet *fleet, struct tern_fleet_results *results)
{
    struct tern_progress *progress = &fleet->progress;
    memset(results, 0, sizeof *results);
    describe(fleet, results);
    enum tern_result result =
        take_memory(results, progress->shown - progress->first + 1u, results->clients);
    if (result == TERN_OK) {
        result = add_scaling(fleet, results);
    }
    if (result == TERN_OK) {
        result = measure_replicas(fleet->members, results->clients,
                                  fleet->settings->fleet_measure_replicas, results->replica_figure,
                                  results->replica_version);
    }
    if (result == TERN_OK) {
        result = add_personal(fleet, results);
    }
    if (result == TERN_OK) {
        result = add_open_means(&progress->open_sums, results);
    }
    if (result != TERN_OK) {
        tern_fleet_results_clear(results);
        return result;
    }
    add_versions(progress, results);
    add_bytes(fleet, results);
    take_records(progress, results);
    add_steps(results);
    return TERN_OK;
}

// Attackers or tensors with rules would make the comparison unfair.
static void watch_tasks(struct fleet *fleet)
{
    const bool fair = tern_attack_count(fleet->settings) == 0 && fleet->manifest_len == 0;
    pthread_mutex_init(&fleet->pooled.mutex, NULL);
    fleet->pool.pooled = fleet->run->pooled && fair ? &fleet->pooled : NULL;
}

static double final_figure(const struct tern_fleet_results *results)
{
    const struct tern_evaluate_result *found = tern_fleet_final_figures(results);
    return found != NULL ? tern_figure_value(found) : tern_fleet_final_accuracy(results);
}

static void print_pooled(const struct fleet *fleet, const struct tern_fleet_results *results)
{
    char text[TERN_POOLED_TEXT_MAX];
    const char *name = tern_figure_name(&results->pooled);
    if (name == NULL) {
        return;
    }
    fprintf(fleet->run->out,
            "pooled training: %s %.4f of one client with all %u rows, after as many steps (%llu)\n",
            name, tern_figure_value(&results->pooled), fleet->shares.data.train.count,
            (unsigned long long)results->pooled_steps);
    if (tern_pooled_is_far(final_figure(results), &results->pooled, text)) {
        fprintf(fleet->run->out, "warning: %s\n", text);
    }
    fflush(fleet->run->out);
}

// The run itself succeeded even if the pooled training diverges.
static enum tern_result compare_with_pooled(struct fleet *fleet, struct tern_fleet_results *results)
{
    if (fleet->pool.pooled == NULL) {
        return TERN_OK;
    }
    const enum tern_result result =
        tern_pooled_train(&fleet->pooled, &fleet->model, identity_of(fleet)->model_seed,
                          &fleet->shares, fleet->run->interrupted, &results->pooled);
    results->pooled_steps = fleet->pooled.steps;
    if (result == TERN_OK) {
        print_pooled(fleet, results);
    }
    return result == TERN_AGAIN || result == TERN_ERR_NO_MEMORY ? result : TERN_OK;
}

static void close_all(struct fleet *fleet)
{
    tern_pooled_clear(&fleet->pooled);
    for (uint32_t i = 0; i < fleet->member_count; i++) {
        tern_member_close(&fleet->members[i]);
    }
    free(fleet->members);
    free(fleet->manifest);
    tern_pool_clear(&fleet->pool);
    tern_shares_close(&fleet->shares);
    tern_progress_clear(&fleet->progress);
}

// Logs warnings about the data, for example about missing values. Only `run` calls it: an experiment opens the same
// data before and after the run.
static void log_notes(const struct tern_data *data)
{
    char note[TERN_DATA_WHY_MAX];
    const char *rest = data->notes;
    while (tern_data_next_note(&rest, note)) {
        tern_log(TERN_LOG_WARN, "data", "note=%s", TERN_LOG_TEXT(note));
    }
}

enum tern_result tern_fleet_run(const struct tern_fleet_run *run,
                                struct tern_fleet_results *results, char why[512])
{
    // Static: after a failure the members' threads use it until the process ends.
    static struct fleet fleet;
    fleet = (struct fleet){.run = run, .settings = run->settings, .why = why};
    snprintf(why, 512, "%s", tern_result_sentence(TERN_ERR_NO_MEMORY));
    tern_progress_init(&fleet.progress);
    TERN_TRY(tern_shares_open(run->settings, run->settings->fleet_clients, &fleet.shares, why));
    log_notes(&fleet.shares.data);
    tern_alarm_of_classes(&fleet.alarm, &fleet.shares.data.test, &fleet.shares.data.classes,
                          run->planned_rounds);
    TERN_TRY(enroll_all(&fleet));
    TERN_TRY(make_trainers(&fleet));
    watch_tasks(&fleet);
    double start = tern_monotonic_seconds();
    TERN_TRY(prepare_attack(&fleet));
    TERN_TRY(restore_all(&fleet));
    TERN_TRY(start_all(&fleet));
    TERN_TRY(watch(&fleet));
    for (uint32_t i = 0; i < fleet.member_count; i++) {
        tern_member_join(&fleet.members[i]);
    }
    TERN_TRY(collect(&fleet, results));
    results->seconds = tern_monotonic_seconds() - start;
    TERN_TRY(compare_with_pooled(&fleet, results));
    close_all(&fleet);
    return TERN_OK;
}

// Checks that the data fits the planned model. A model that is not built in is checked by the run itself.
static enum tern_result check_model(struct fleet *fleet, const char *model_spec)
{
    if (tern_model_from_spec(&fleet->model, model_spec) != TERN_OK) {
        return TERN_OK;
    }
    return make_pool(fleet, model_spec, 1);
}

enum tern_result tern_fleet_check(const struct tern_fleet_settings *settings,
                                  const char *model_spec, char why[512])
{
    struct fleet fleet = {.settings = settings, .why = why};
    enum tern_result result =
        tern_shares_open(settings, settings->fleet_clients, &fleet.shares, why);
    for (uint32_t i = 1; result == TERN_OK && i <= settings->fleet_clients; i++) {
        result = tern_member_check(settings, i, why);
    }
    if (result == TERN_OK) {
        result = check_model(&fleet, model_spec);
    }
    tern_pool_clear(&fleet.pool);
    tern_shares_close(&fleet.shares);
    return result;
}
