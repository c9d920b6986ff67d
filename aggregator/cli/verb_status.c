#include "cli/estimates.h"
#include "cli/figures.h"
#include "cli/gateway.h"
#include "cli/quality.h"
#include "cli/serve_config.h"
#include "cli/shared_database.h"
#include "cli/state.h"
#include "cli/verbs.h"
#include "cli/waiting.h"
#include "hosted/cli.h"
#include "hosted/host.h"
#include "hosted/terminal.h"
#include "http/certificate.h"
#include "rounds/reliability.h"
#include "tensor/manifest.h"
#include "util/bytes.h"
#include "views/privacy.h"
#include "wire/wire.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define WATCH_LINE_MAX 512

struct watched {
    // load() and print() return an exit code, after printing the reason of a failure, which ends the watch.
    int (*load)(struct tern_cli *cli, void *ctx);
    int (*print)(struct tern_cli *cli, const void *ctx); // to stdout, as text or JSON
    // Writes a line without elapsed times, so that it differs only when something has changed.
    void (*line)(const void *ctx, char text[WATCH_LINE_MAX]);
    void *ctx;
};

// --- Watching

#define INTERVAL_MS 2000
#define HOME "\x1b[H"
#define CLEAR_BELOW "\x1b[J"

static int redraw(struct tern_cli *cli, const struct watched *watched)
{
    fputs(HOME CLEAR_BELOW, stdout);
    const int code = watched->print(cli, watched->ctx);
    fputs("\nUpdated every two seconds; Ctrl-C ends it.\n", stdout);
    return code;
}

static int add_line(struct tern_cli *cli, const struct watched *watched,
                    char before[WATCH_LINE_MAX])
{
    char line[WATCH_LINE_MAX];
    char when[TERN_TEXT];
    watched->line(watched->ctx, line);
    if (strcmp(line, before) == 0) {
        return TERN_EXIT_OK;
    }
    memcpy(before, line, sizeof line);
    if (cli->json) {
        return watched->print(cli, watched->ctx);
    }
    printf("%s  %s\n", tern_text_time(tern_now_ms(), when), line);
    return TERN_EXIT_OK;
}

// Repeats the status until SIGINT or SIGTERM. On a terminal, redraws the screen; elsewhere, prints a line or a JSON object
// when something has changed.
static int run_watch(struct tern_cli *cli, const struct watched *watched)
{
    const bool draws = !cli->json && tern_terminal_width(STDOUT_FILENO) > 0;
    char before[WATCH_LINE_MAX] = "";
    int code = TERN_EXIT_OK;
    tern_interrupts_catch();
    while (!tern_interrupted && code == TERN_EXIT_OK) {
        code = watched->load(cli, watched->ctx);
        if (code == TERN_EXIT_OK) {
            code = draws ? redraw(cli, watched) : add_line(cli, watched, before);
        }
        if (fflush(stdout) != 0) {
            return TERN_EXIT_FAILED; // the reader has closed the pipe
        }
        if (code == TERN_EXIT_OK) {
            tern_interrupts_sleep(INTERVAL_MS);
        }
    }
    return code;
}

// --- Clients that take tasks and do not report them

#define FAILING_NAMED 5

// A client whose last training failed.
struct failing {
    uint64_t id;
    char name[TERN_DB_NAME_MAX];
    uint32_t round;
    uint32_t failure; // tern_TrainingFailure
};

// Clients that take tasks and do not report them.
struct unreported {
    uint64_t unreliable; // clients that rounds do not count on (rounds/reliability.h)
    double share;        // estimated share of the other clients' tasks that are not reported
    // round.over_selection that would compensate for them; 0: the setting suffices
    double over_selection;
    uint64_t failing;                    // clients whose last training failed
    struct failing named[FAILING_NAMED]; // the clients whose training failed last
};

#define LEAST_SHARE 0.02         // share of unreported tasks from which status gives advice
#define OVER_SELECTION_STEP 0.05 // the advised over-selection is a multiple of this

// Returns the over-selection s that compensates for unreported tasks: of 1 + s selected clients, (1 + s) * (1 - share)
// report.
static double over_selection_for(double share)
{
    return ceil(share / (1.0 - share) / OVER_SELECTION_STEP) * OVER_SELECTION_STEP;
}

static enum tern_result load_failing(struct tern_db *db, struct unreported *unreported)
{
    struct tern_db_client client;
    uint32_t named = 0;
    TERN_TRY(tern_db_count_failing(db, &unreported->failing));
    struct tern_db_rows *rows = tern_db_failing(db, FAILING_NAMED);
    while (tern_db_next(rows, &client)) {
        struct failing *failing = &unreported->named[named++];
        *failing = (struct failing){
            .id = client.id, .round = client.failed_round, .failure = client.failure};
        memcpy(failing->name, client.name, sizeof failing->name);
    }
    return tern_db_end(rows);
}

static enum tern_result load_unreported(const struct tern_cli *cli, struct tern_db *db,
                                        const struct tern_db_counts *counts,
                                        struct unreported *unreported)
{
    const double set = tern_state_settings(cli)->round_over_selection;
    const double bound = (double)TERN_UNRELIABLE;
    struct tern_db_unreported reliable;
    struct tern_db_unreported unreliable;
    TERN_TRY(tern_db_sum_unreported(db, 0.0, bound, &reliable));
    TERN_TRY(tern_db_sum_unreported(db, bound, 2.0, &unreliable));
    const uint64_t others = counts->clients_revoked + counts->evaluators + unreliable.clients;
    const uint64_t trainers = counts->clients > others ? counts->clients - others : 0;
    *unreported = (struct unreported){.unreliable = unreliable.clients};
    if (trainers > 0) {
        unreported->share = reliable.sum / (double)trainers;
    }
    if (unreported->share >= LEAST_SHARE && set < unreported->share / (1.0 - unreported->share)) {
        unreported->over_selection = over_selection_for(unreported->share);
    }
    return load_failing(db, unreported);
}

static const char *failure_reason(uint32_t failure)
{
    switch (failure) {
    case tern_TrainingFailure_FAILURE_NOT_FINITE:
        return "its loss or a value of its update was not finite, or the update's norm was above "
               "limits.norm: scale its columns (tern-client check names them); or lower "
               "train.learning_rate or train.local_steps; or raise limits.norm, if updates of this "
               "size are sound (docs/OPERATIONS.md, \"Rounds\")";
    case tern_TrainingFailure_FAILURE_NO_DATA:
        return "it has no row to train on (tern-client check counts them)";
    case tern_TrainingFailure_FAILURE_REPLAYED:
        return "which it refused: it sent a masked update for this or a later round before an "
               "older backup was restored; the next rounds have higher numbers";
    case tern_TrainingFailure_FAILURE_HELPER_LOG:
        return "which it refused: it saw a longer log of the helper, or another "
               "(docs/OPERATIONS.md, \"Run a helper\")";
    default:
        return "its trainer failed: `tern-client status` on the device shows why";
    }
}

static void print_failing(const struct unreported *unreported)
{
    char name[TERN_TEXT];
    uint32_t named = 0;
    while (named < FAILING_NAMED && unreported->named[named].id != 0) {
        const struct failing *failing = &unreported->named[named++];
        printf("            training failed at client %" PRIu64 " (%s) in round %" PRIu32 ", %s\n",
               failing->id, tern_text_name(failing->name, name), failing->round,
               failure_reason(failing->failure));
    }
    if (unreported->failing > named) {
        printf("            and at %" PRIu64
               " more (`tern-aggregator clients --json`: failed_round)\n",
               unreported->failing - named);
    }
}

static void print_unreported(const struct unreported *unreported)
{
    if (unreported->unreliable > 0) {
        printf("            %" PRIu64
               " take%s tasks but do%s not report them, so that rounds do not count "
               "on them (`tern-aggregator clients` lists them as unreliable)\n",
               unreported->unreliable, unreported->unreliable == 1 ? "s" : "",
               unreported->unreliable == 1 ? "es" : "");
    }
    if (unreported->over_selection > 0.0) {
        printf("            %.0f %% of the other clients' tasks are not reported: with "
               "round.over_selection = %.2g, rounds need not wait for these\n",
               100.0 * unreported->share, unreported->over_selection);
    }
    print_failing(unreported);
}

static void add_unreported(cJSON *object, const struct unreported *unreported)
{
    tern_json_u64(object, "clients_unreliable", unreported->unreliable);
    cJSON_AddNumberToObject(object, "tasks_unreported", unreported->share);
    cJSON_AddNumberToObject(object, "advised_over_selection", unreported->over_selection);
    tern_json_u64(object, "clients_failing", unreported->failing);
    cJSON *list = cJSON_AddArrayToObject(object, "training_failed");
    for (uint32_t i = 0; i < FAILING_NAMED && unreported->named[i].id != 0; i++) {
        cJSON *failing = cJSON_CreateObject();
        tern_json_u64(failing, "client", unreported->named[i].id);
        tern_json_u64(failing, "round", unreported->named[i].round);
        cJSON_AddStringToObject(failing, "why", failure_reason(unreported->named[i].failure));
        cJSON_AddItemToArray(list, failing);
    }
}

// --- What the federation waits for

#define SHOWN 5 // most clients that status names

static uint32_t count_shown(const struct tern_waiting *waiting)
{
    return waiting->shown < SHOWN ? waiting->shown : SHOWN;
}

static void print_waiting(const struct tern_waiting *waiting, uint64_t now_ms)
{
    printf("Now         %s\n", waiting->sentence);
    if (waiting->advice[0] != '\0') {
        printf("            %s\n", waiting->advice);
    }
    for (uint32_t i = 0; i < count_shown(waiting); i++) {
        const struct tern_db_client *client = &waiting->members[i].client;
        char name[TERN_TEXT];
        char seen[TERN_TEXT];
        const bool spent = client->budgeted && client->budget_left <= client->budget_spent;
        printf("            client %" PRIu64 " (%s), last seen %s%s", client->id,
               tern_text_name(client->name, name),
               tern_text_ago(client->last_seen_ms, now_ms, seen),
               spent ? ", its byte budget is spent" : "");
        if (waiting->members[i].tries > 1) {
            printf(", fetched its task %" PRIu32 " times or more", waiting->members[i].tries);
        }
        putchar('\n');
    }
    if (waiting->missing > count_shown(waiting)) {
        printf("            and %" PRIu32 " more\n", waiting->missing - count_shown(waiting));
    }
}

static void add_waiting(cJSON *object, const struct tern_waiting *waiting)
{
    cJSON_AddStringToObject(object, "now", waiting->sentence);
    cJSON_AddStringToObject(object, "advice", waiting->advice);
    tern_json_u64(object, "waits_for", waiting->missing);
    cJSON *ids = cJSON_AddArrayToObject(object, "silent_longest");
    for (uint32_t i = 0; i < count_shown(waiting); i++) {
        cJSON_AddItemToArray(ids, cJSON_CreateNumber((double)waiting->members[i].client.id));
    }
}

static void add_other_columns(cJSON *object, const struct tern_other_columns *columns)
{
    cJSON *list = cJSON_AddArrayToObject(object, "other_column_names");
    for (uint32_t i = 0; i < columns->named; i++) {
        cJSON_AddItemToArray(list, cJSON_CreateNumber((double)columns->clients[i].id));
    }
}

// --- How good the model is

static void print_classes(const struct tern_quality *quality)
{
    double f1;
    if (quality->newest.no_accuracy || !tern_accuracy_value(&quality->newest, "f1_macro", &f1)) {
        return;
    }
    printf("            macro F1 %.4f", f1);
    const struct tern_worst_class *worst = &quality->worst;
    if (worst->clients > 0) {
        const char *name = quality->worst_name;
        printf("; worst class: %s%s%" PRIu32 " (from 0), with recall %.4f",
               name != NULL ? name : "", name != NULL ? ", number " : "", worst->class_number,
               worst->recall);
    }
    if (worst->reporting_clients > 1) {
        printf(" at %" PRIu32 " of %" PRIu32 " %s", worst->clients, worst->reporting_clients,
               quality->clients > 0 ? "clients" : "evaluators");
    }
    printf("\n");
}

static void print_trend(const struct tern_quality *quality, bool finished)
{
    if (quality->trend == TERN_QUALITY_FLAT) {
        printf(
            "            no longer improving: the last %u versions are no better than the previous "
            "%u\n",
            TERN_TREND_WINDOW, TERN_TREND_WINDOW);
    } else if (quality->trend == TERN_QUALITY_IMPROVING) {
        printf("            still improving: %s by %.2g a round%s\n", quality->trend_metric,
               quality->gain_per_round, finished ? "; raise round.rounds to continue" : "");
    }
}

// Prints how many evaluators reported the pending version, if there is one.
static void print_pending(const struct tern_quality *quality)
{
    const struct tern_reported_version *pending = &quality->pending;
    if (pending->reports > 0) {
        printf("            %s of version %" PRIu32 ": %" PRIu32 " of %" PRIu32
               " evaluators reported; half must report\n",
               pending->model == TERN_EVALUATED_GLOBAL ? "global model" : "replica",
               pending->version, pending->reports, pending->expected);
    }
}

// Prints the worst class, the warning about guessing, and the trend. finished: no round will follow. newest: the newest
// version
static void print_quality(const struct tern_quality *quality, bool finished, uint32_t newest)
{
    if (quality->newest.num_examples == 0) {
        return;
    }
    print_classes(quality);
    if (quality->newest.version == 0) {
        printf("            version 0 is the model before the first round\n");
    } else if (quality->guess != NULL) {
        printf("            WARNING: the model is no better than %s", quality->guess);
        if (quality->guess_accuracy > 0) {
            printf(" (accuracy %.4f)", quality->guess_accuracy);
        }
        printf("\n");
    }
    print_trend(quality, finished);
    if (finished && quality->clients > 0 && quality->newest.version < newest) {
        printf("            version %" PRIu32 " itself has no figure: clients evaluate the version "
               "with which a round begins; a\n            client with client.evaluator = yes "
               "evaluates the last version, too\n",
               newest);
    }
}

static void add_pending(cJSON *json, const struct tern_reported_version *pending)
{
    if (pending->reports == 0) {
        cJSON_AddNullToObject(json, "pending");
        return;
    }
    cJSON *object = cJSON_AddObjectToObject(json, "pending");
    tern_json_u64(object, "version", pending->version);
    tern_json_text(object, "model", tern_evaluated_name(pending->model));
    tern_json_u64(object, "evaluators", pending->reports);
    tern_json_u64(object, "evaluators_expected", pending->expected);
}

static void add_quality(cJSON *object, const struct tern_quality *quality)
{
    cJSON *json = cJSON_AddObjectToObject(object, "quality");
    const bool known = quality->newest.num_examples > 0;
    tern_json_text(json, "by", !known ? "" : quality->clients > 0 ? "clients" : "evaluators");
    tern_json_u64(json, "clients", quality->clients);
    tern_json_u64(json, "evaluators", quality->newest.evaluators);
    tern_json_u64(json, "evaluators_expected", quality->newest.expected);
    add_pending(json, &quality->pending);
    if (quality->trend == TERN_QUALITY_UNKNOWN) {
        cJSON_AddNullToObject(json, "improving");
    } else {
        cJSON_AddBoolToObject(json, "improving", quality->trend == TERN_QUALITY_IMPROVING);
    }
    cJSON_AddNumberToObject(json, "a_round", quality->gain_per_round);
    if (quality->guess != NULL) {
        tern_json_text(json, "no_better_than", quality->guess);
    } else {
        cJSON_AddNullToObject(json, "no_better_than");
    }
    if (quality->worst.clients > 0) {
        tern_json_u64(json, "worst_class", quality->worst.class_number);
        tern_json_text(json, "worst_class_name",
                       quality->worst_name != NULL ? quality->worst_name : "");
        cJSON_AddNumberToObject(json, "worst_recall", quality->worst.recall);
    } else {
        cJSON_AddNullToObject(json, "worst_class");
        cJSON_AddNullToObject(json, "worst_class_name");
        cJSON_AddNullToObject(json, "worst_recall");
    }
    tern_json_u64(json, "worst_class_clients", quality->worst.clients);
}

// Writes the evaluated model for people: "replica of version 4", "global model of version 5". Returns text.
#define MODEL_OF_MAX 48
static const char *model_of(const struct tern_accuracy *accuracy, char text[MODEL_OF_MAX])
{
    snprintf(text, MODEL_OF_MAX, "%s of version %" PRIu32,
             accuracy->model == TERN_EVALUATED_GLOBAL ? "global model" : "replica",
             accuracy->version);
    return text;
}

// Adds "accuracy", "accuracy_model" ("replica" or "global"), "evaluated_loss" and "metrics", an object of all metrics by
// name. "accuracy" is null if the model has no classes. accuracy: NULL: adds the first two as null.
static void add_accuracy(cJSON *object, const struct tern_accuracy *accuracy)
{
    if (accuracy == NULL) {
        cJSON_AddNullToObject(object, "accuracy");
        cJSON_AddNullToObject(object, "accuracy_model");
        return;
    }
    if (accuracy->no_accuracy) {
        cJSON_AddNullToObject(object, "accuracy");
    } else {
        tern_json_float(object, "accuracy", (float)accuracy->accuracy);
    }
    cJSON_AddStringToObject(object, "accuracy_model", tern_evaluated_name(accuracy->model));
    tern_json_float(object, "evaluated_loss", (float)accuracy->loss);
    cJSON *metrics = cJSON_AddObjectToObject(object, "metrics");
    for (uint32_t i = 0; i < accuracy->metric_count; i++) {
        tern_json_float(metrics, accuracy->metrics[i].name, (float)accuracy->metrics[i].value);
    }
}

// --- The status

struct status {
    struct tern_db_federation federation;
    struct tern_status store;
    uint32_t values; // number of values of the model; 0: unknown
    struct tern_spending_accuracies accuracies;
    struct tern_round_time time; // its limit is NULL: unknown
    struct tern_figures figures;
    struct tern_quality quality;
    struct tern_best models[TERN_BEST_MODELS]; // of the newest version
    uint64_t now_ms;
    struct tern_privacy_settings privacy_settings;
    struct tern_privacy_report privacy;
    struct tern_waiting waiting;
    struct unreported unreported;
    struct tern_other_columns other_columns;
    struct tern_db_node nodes[TERN_STANDBY_NODES];
    size_t node_count;
    char *settings[TERN_STANDBY_NODES]; // malloc'ed; NULL: unknown
    bool has_certificate;               // the certificate could be read
    struct tern_certificate certificate;
    char certificate_why[256];
};

static void load_time(struct tern_cli *cli, const struct tern_model *model, struct status *status)
{
    static struct tern_service_config config;
    struct tern_http_limits limits;
    memset(&config, 0, sizeof config);
    if (tern_serve_config_read(cli, &config) == TERN_EXIT_OK &&
        tern_serve_config_fit_model(cli, model, status->federation.model_spec, &config.federation,
                                    &limits) == TERN_EXIT_OK) {
        status->time = tern_round_time(&config.federation, model, status->store.counts.clients,
                                       &status->store.committed);
    }
}

static enum tern_result load_from_store(struct tern_cli *cli, struct tern_db *db,
                                        struct status *status)
{
    static struct tern_model model;
    tern_shared_settings_free(status->settings, status->node_count);
    tern_quality_free(&status->quality);
    memset(status, 0, sizeof *status);
    status->now_ms = tern_now_ms();
    TERN_TRY(tern_db_federation(db, &status->federation));
    TERN_TRY(tern_status_load(db, status->now_ms, &status->store));
    if (tern_state_is_gateway(cli)) {
        tern_status_leave_out_follower(&status->store);
    }
    status->privacy_settings = tern_serve_config_privacy(tern_state_settings(cli));
    TERN_TRY(tern_privacy_load(db, &status->privacy_settings,
                               tern_state_settings(cli)->round_rounds, &status->privacy));
    TERN_TRY(tern_cli_waiting_load(cli, db, &status->store, status->now_ms, &status->waiting));
    TERN_TRY(load_unreported(cli, db, &status->store.counts, &status->unreported));
    TERN_TRY(tern_other_columns_load(db, &status->other_columns));
    TERN_TRY(tern_db_nodes(db, status->nodes, TERN_STANDBY_NODES, &status->node_count));
    TERN_TRY(tern_shared_settings_load(db, status->nodes, status->node_count, status->settings));
    const struct tern_db_federation *federation = &status->federation;
    if (tern_model_build(&model, federation->model_spec, federation->manifest,
                         federation->manifest_len, federation->model_hash) == TERN_OK) {
        status->values = model.count;
        status->accuracies = tern_spending_accuracies(cli, &model);
        load_time(cli, &model, status);
    }
    TERN_TRY(tern_best_models(db, status->store.version.version, status->models));
    TERN_TRY(tern_figures_load(db, &status->figures));
    return tern_quality_load(db, federation, status->store.version.version, &status->figures.newest,
                             &status->figures.pending, &status->quality);
}

static void load_certificate(const struct tern_cli *cli, struct status *status)
{
    char path[PATH_MAX];
    tern_state_file(cli, tern_state_settings(cli)->server_certificate, TERN_STATE_CERTIFICATE,
                    path);
    status->has_certificate =
        tern_certificate_read(path, &status->certificate, status->certificate_why) == TERN_OK;
}

static const struct tern_accuracy *newest_accuracy(const struct status *status)
{
    return status->quality.newest.num_examples == 0 ? NULL : &status->quality.newest;
}

// --- For people

// Writes " of 4 clients that train", or " of 3 of 4 evaluators".
static const char *describe_reporters(const struct status *status, char text[TERN_TEXT])
{
    const uint32_t clients = status->quality.clients;
    const struct tern_accuracy *newest = &status->quality.newest;
    if (clients == 0) {
        snprintf(text, TERN_TEXT, " of %" PRIu32 " of %" PRIu32 " evaluator%s", newest->evaluators,
                 newest->expected, newest->expected == 1 ? "" : "s");
    } else {
        snprintf(text, TERN_TEXT, " of %" PRIu32 " client%s", clients,
                 clients == 1 ? " that trains" : "s that train");
    }
    return text;
}

// Prints the metrics of a model without classes.
static void print_metrics(const struct tern_accuracy *newest, const char *of, const char *reporters)
{
    printf("Evaluated   ");
    for (uint32_t i = 0; i < newest->metric_count; i++) {
        printf("%s %.4g, ", newest->metrics[i].name, newest->metrics[i].value);
    }
    printf("loss %.4f\n            %s (%" PRIu64 " held-out examples%s)\n", newest->loss, of,
           newest->num_examples, reporters);
}

static void print_accuracy(const struct status *status)
{
    const struct tern_accuracy *newest = newest_accuracy(status);
    if (newest == NULL) {
        printf("%s   not known: neither half of the evaluators nor clients that train "
               "(train.evaluate) have reported a version\n",
               tern_model_spec_loss(status->federation.model_spec) == TERN_LOSS_CROSS_ENTROPY
                   ? "Accuracy "
                   : "Evaluated");
        print_pending(&status->quality);
        return;
    }
    char of[MODEL_OF_MAX];
    char clients[TERN_TEXT];
    if (newest->no_accuracy) {
        print_metrics(newest, model_of(newest, of), describe_reporters(status, clients));
    } else {
        printf("Accuracy    %.4f, %s (%" PRIu64 " held-out examples%s, loss %.4f)\n",
               newest->accuracy, model_of(newest, of), newest->num_examples,
               describe_reporters(status, clients), newest->loss);
    }
    if (tern_best_prefers_replica(status->models)) {
        const struct tern_best *replica = &status->models[TERN_EVALUATED_REPLICA];
        printf("            the replica is better (%s %.4f): `export` writes it\n",
               replica->by == TERN_BEST_BY_ACCURACY ? "accuracy" : "loss", replica->value);
    }
    print_pending(&status->quality);
    print_quality(&status->quality, status->waiting.wait == TERN_WAIT_FINISHED,
                  status->store.version.version);
    if (status->quality.clients > 0 && tern_model_spec_inputs(status->federation.model_spec) > 0) {
        printf("            `tern-client compare` on a device: is a model of its rows alone as "
               "good?\n");
    }
}

static void print_bytes(const struct status *status)
{
    const struct tern_round_bytes *all = &status->figures.total;
    char up[TERN_TEXT];
    char down[TERN_TEXT];
    char plain[TERN_TEXT];
    if (all->participants == 0) {
        printf("Bytes       none yet\n");
        return;
    }
    tern_text_bytes(tern_figures_mean(all->up.wire, all->participants), up);
    tern_text_bytes(tern_figures_mean(all->down.wire, all->participants), down);
    tern_text_bytes(4.0 * status->values, plain);
    printf("Bytes       per client and round on the wire: %s up, %s down"
           " (float32 payload alone: %s each way)\n",
           up, down, plain);
    tern_figures_print_outside(&status->figures, "            ");
}

static void print_codecs(const struct tern_cli *cli, const struct status *status)
{
    const struct tern_aggregator_settings *s = tern_state_settings(cli);
    char text[TERN_SPENDING_OTHERS];
    if (status->accuracies.count > 0) {
        printf("Codecs      codec.accuracy = %s, an estimate\n",
               tern_spending_accuracies_text(&status->accuracies, text));
    } else {
        printf("Codecs      codec.codec = %s\n", s->codec_codec);
    }
    if (!tern_codecs_are_exact(s)) {
        printf(
            "            what compression costs in accuracy is not measured here: `./tern "
            "experiment`, "
            "with a table of\n            yours, compares it with float32 (docs/EXPERIMENTS.md)\n");
    }
}

// Prints whether the next rounds are plain or secure.
static void print_mode(const struct tern_cli *cli, const struct status *status)
{
    const struct tern_aggregator_settings *s = tern_state_settings(cli);
    if (s->secure_helper[0] == '\0') {
        printf("Mode        plain rounds%s: this aggregator sees each client's update "
               "(docs/PRIVACY.md)\n",
               status->store.round.mode == TERN_ROUND_SECURE
                   ? " from the next one on, after a secure one"
                   : "");
        return;
    }
    printf("Mode        secure rounds: this aggregator sees sums of %" PRIu32
           " updates or more%s\n            helper %s\n",
           s->secure_min_clients, s->secure_min_clients < 50 ? ", a weak protection below 50" : "",
           s->secure_helper);
    if (strcmp(s->secure_groups, "1") != 0) {
        printf("            in %s groups a round; the model moves by the median of their means\n",
               s->secure_groups);
    }
    if (s->privacy_noise > 0) {
        printf(
            "Noise       the helper adds %g times the norm of an update that changes %g %% of the "
            "values; no training loss is reported\n",
            s->privacy_noise, 100 * s->privacy_clip);
        if (s->secure_min_clients < 50) {
            printf("            this is decoration: so few updates need more noise than the model "
                   "survives; raise secure.min_clients to 50 or more\n");
        }
    }
}

static void print_privacy(const struct status *status)
{
    char line[TERN_PRIVACY_LINE];
    if (tern_privacy_is_used(&status->privacy)) {
        tern_privacy_line(&status->privacy, line);
        printf("Privacy     %s; `tern-aggregator privacy` shows what it assumes\n", line);
    }
}

static void print_cost(const struct status *status)
{
    const struct tern_db_round *round = &status->store.committed;
    char warning[TERN_ROUND_TIME_MAX];
    if (round->round != 0) {
        printf(
            "Cost        in round %" PRIu32 " the service thread worked for %.1f %% of the time, "
            "and the search for\n            downloads took %.3g ms of processor time an update\n",
            round->round, 100 * tern_db_round_service_share(round), tern_db_round_search_ms(round));
    }
    if (status->time.limit != NULL && tern_round_time_is_long(&status->time, warning)) {
        printf("%s WARNING: %s\n", round->round != 0 ? "           " : "Cost       ", warning);
    }
}

static void print_round(const struct status *status)
{
    const struct tern_db_round *round = &status->store.round;
    const struct tern_db_counts *counts = &status->store.counts;
    char left[TERN_TEXT] = "";
    printf("Rounds      %" PRIu64 " committed", counts->rounds_committed);
    if (!tern_status_is_open(&status->store)) {
        printf("\n");
        return;
    }
    bool over = round->deadline_ms <= status->now_ms;
    tern_text_duration(over ? 0 : round->deadline_ms - status->now_ms, left);
    printf("; round %" PRIu32 " open: %" PRIu32 " of %" PRIu32 " updates, %s%s\n", round->round,
           status->store.reported, round->target, over ? "deadline passed" : "deadline in ",
           over ? "" : left);
}

// Prints the operator's order that waits for the service, or for the open round.
static void print_order(const struct tern_db_order *order)
{
    char text[TERN_ORDER_TEXT];
    char when[TERN_TEXT];
    char why[TERN_TEXT];
    if (order->strategy[0] != '\0') {
        printf("Order       %s, %s, %s (why: %s)%s\n"
               "            to drop it: tern-aggregator %s --cancel\n",
               order->strategy, tern_order_text(order, text),
               tern_text_time(order->ordered_ms, when), tern_text_name(order->reason, why),
               order->ready ? "" : "; interrupted: give it again", order->strategy);
    }
}

static void print_version(const struct status *status)
{
    char hash[2 * TERN_SHA256_SIZE + 1];
    char ago[TERN_TEXT];
    if (status->store.version.version == UINT32_MAX) {
        printf("Version     none yet: `tern-aggregator serve` makes version 0\n");
        return;
    }
    tern_hex_encode(status->store.version.model_sha256, TERN_SHA256_SIZE, hash);
    printf("Version     %" PRIu32 ", %s, SHA-256 %.16s...\n", status->store.version.version,
           tern_text_ago(status->store.version.created_ms, status->now_ms, ago), hash);
}

static void print_certificate(const struct status *status)
{
    const uint64_t ends_ms = status->certificate.ends_s * 1000;
    char when[TERN_TEXT];
    char left[TERN_TEXT];
    if (!status->has_certificate) {
        printf("Certificate not known: %s\n", status->certificate_why);
        return;
    }
    tern_text_time(ends_ms, when);
    if (ends_ms <= status->now_ms) {
        printf(
            "Certificate EXPIRED %s: clients refuse it; replace the file, then send SIGHUP to the "
            "service\n",
            when);
        return;
    }
    printf("Certificate expires in %s, %s\n", tern_text_duration(ends_ms - status->now_ms, left),
           when);
}

static void print_check(const struct status *status)
{
    char ago[TERN_TEXT];
    if (status->federation.checked_ms == 0) {
        printf("Database    not checked yet (server.check_interval)\n");
    } else {
        printf("Database    checked %s, no damage found\n",
               tern_text_ago(status->federation.checked_ms, status->now_ms, ago));
    }
}

static void print_complaint(const struct tern_db_node *node)
{
    char complaint[256];
    if (node->leads && tern_standby_complaint(node, complaint)) {
        printf("            WARNING: %s\n            %s\n", complaint, TERN_STANDBY_ADVICE);
    }
}

// Reports how the settings of a node differ from those of the leader.
static void compare_settings(const struct status *status, size_t i,
                             void (*found)(void *ctx,
                                           const struct tern_setting_difference *difference),
                             void *ctx)
{
    const char *here = status->settings[i];
    const char *leader = status->nodes[0].leads ? status->settings[0] : NULL;
    if (here != leader && here != NULL && leader != NULL) {
        tern_shared_settings_compare(here, leader, found, ctx);
    }
}

static void print_difference(void *ctx, const struct tern_setting_difference *difference)
{
    char here[TERN_TEXT];
    char there[TERN_TEXT];
    (void)ctx;
    printf("            WARNING: %s = %s there, but %s at the leader\n", difference->key,
           tern_text_name(difference->here, here), tern_text_name(difference->there, there));
}

static void print_nodes(const struct status *status)
{
    for (size_t i = 0; i < status->node_count; i++) {
        const struct tern_db_node *node = &status->nodes[i];
        char name[TERN_STANDBY_NAME_MAX];
        char shown[TERN_TEXT];
        char ago[TERN_TEXT];
        printf("%s%s %s; connected %s\n", i == 0 ? "Aggregators " : "            ",
               tern_text_name(tern_standby_name(node, name), shown), tern_standby_role(node),
               tern_text_ago(node->since_ms, status->now_ms, ago));
        print_complaint(node);
        compare_settings(status, i, print_difference, NULL);
    }
}

static void print_other_columns(const struct status *status)
{
    char text[TERN_OTHER_COLUMNS_TEXT];
    if (tern_other_columns_describe(&status->other_columns, text)) {
        printf("            WARNING: %s\n            %s\n", text, TERN_OTHER_COLUMNS_ADVICE);
    }
}

static int print_status(const struct tern_cli *cli, const struct status *status)
{
    const struct tern_db_counts *counts = &status->store.counts;
    char text[TERN_TEXT];
    char size[TERN_TEXT];
    char spec[TERN_TEXT];
    printf("Federation  %s (%" PRIu32 " values), seed %" PRIu64 ", made %s\n",
           tern_text_name(status->federation.model_spec, spec), status->values,
           status->federation.seed, tern_text_time(status->federation.created_ms, text));
    print_accuracy(status);
    print_bytes(status);
    print_mode(cli, status);
    print_privacy(status);
    print_codecs(cli, status);
    tern_gateway_print(cli);
    print_version(status);
    print_round(status);
    print_order(&status->store.order);
    print_cost(status);
    print_waiting(&status->waiting, status->now_ms);
    printf("Clients     %" PRIu64 " enrolled, %" PRIu64 " of them revoked, %" PRIu64
           " evaluator%s; join codes for %" PRIu64 " more\n",
           counts->clients, counts->clients_revoked, counts->evaluators,
           counts->evaluators == 1 ? "" : "s", counts->code_uses_left);
    print_unreported(&status->unreported);
    print_other_columns(status);
    tern_text_bytes((double)counts->update_bytes, text);
    tern_text_bytes((double)counts->file_bytes, size);
    printf("Updates     %" PRIu64 " stored (%s), %" PRIu64 " applied; database %s\n",
           counts->updates, text, counts->updates_applied, size);
    if (counts->updates_scaled_down > 0) {
        printf(
            "            %" PRIu64
            " scaled down, because their norm or number of examples was far above the others' of "
            "their round\n            (norm_bound, examples_bound of round.strategy): SCALED of "
            "`tern-aggregator clients` counts them\n",
            counts->updates_scaled_down);
    }
    print_nodes(status);
    print_check(status);
    print_certificate(status);
    return TERN_EXIT_OK;
}

// --- For scripts

static void add_difference(void *ctx, const struct tern_setting_difference *difference)
{
    cJSON *one = cJSON_CreateObject();
    tern_json_text(one, "setting", difference->key);
    tern_json_text(one, "value", difference->here);
    tern_json_text(one, "leader", difference->there);
    cJSON_AddItemToArray(ctx, one);
}

static void add_nodes(cJSON *object, const struct status *status)
{
    cJSON *list = cJSON_AddArrayToObject(object, "aggregators");
    for (size_t i = 0; i < status->node_count; i++) {
        const struct tern_db_node *node = &status->nodes[i];
        cJSON *one = cJSON_CreateObject();
        char number[16];
        tern_json_text(one, "name", node->name);
        tern_json_text(one, "address", node->address);
        tern_json_bool(one, "leads", node->leads);
        tern_json_text(one, "role", tern_standby_role(node));
        snprintf(number, sizeof number, "%" PRIx32, node->number);
        tern_json_text(one, "node", number);
        tern_json_u64(one, "connected_ms", node->since_ms);
        tern_json_u64(one, "silent_ms", node->silent_ms);
        tern_json_u64(one, "idle_ms", node->idle_ms);
        compare_settings(status, i, add_difference, cJSON_AddArrayToObject(one, "differs"));
        cJSON_AddItemToArray(list, one);
    }
}

static int print_json(struct tern_cli *cli, const struct status *status)
{
    cJSON *object = cJSON_CreateObject();
    const struct tern_accuracy *newest = newest_accuracy(status);
    cJSON_AddStringToObject(object, "model", status->federation.model_spec);
    tern_json_u64(object, "values", status->values);
    tern_json_u64(object, "seed", status->federation.seed);
    tern_json_hash(object, "model_hash", status->federation.model_hash);
    tern_json_u64(object, "checked_ms", status->federation.checked_ms);
    add_accuracy(object, newest);
    if (newest != NULL) {
        tern_json_u64(object, "accuracy_version", newest->version);
    }
    add_quality(object, &status->quality);
    tern_json_status(object, &status->store);
    cJSON_ReplaceItemInObjectCaseSensitive(
        object, "mode",
        cJSON_CreateString(tern_state_settings(cli)->secure_helper[0] != '\0' ? "secure"
                                                                              : "plain"));
    add_waiting(object, &status->waiting);
    cJSON_AddItemToObject(object, "privacy", tern_privacy_json(&status->privacy));
    add_unreported(object, &status->unreported);
    add_other_columns(object, &status->other_columns);
    add_nodes(object, status);
    tern_gateway_json(cli, object);
    tern_json_u64(object, "float32_payload", 4 * (uint64_t)status->values);
    tern_figures_add_json(object, &status->figures);
    cJSON_AddItemToObject(object, "codec_accuracies",
                          tern_spending_accuracies_json(&status->accuracies));
    if (status->time.limit != NULL) {
        tern_round_time_json(object, &status->time);
    }
    if (status->has_certificate) {
        tern_json_u64(object, "certificate_expires_ms", status->certificate.ends_s * 1000);
    } else {
        cJSON_AddNullToObject(object, "certificate_expires_ms");
    }
    return tern_json_print(cli, object);
}

// --- The verb

static int load_status(struct tern_cli *cli, void *ctx)
{
    struct tern_db *db;
    struct status *status = ctx;
    TERN_CLI_TRY(tern_state_open_reading(cli, &db));
    enum tern_result result = load_from_store(cli, db, status);
    if (result != TERN_OK) {
        return tern_state_fail(cli, db, result);
    }
    tern_db_close(db);
    load_certificate(cli, status);
    return TERN_EXIT_OK;
}

static int print_report(struct tern_cli *cli, const void *ctx)
{
    return cli->json ? print_json(cli, ctx) : print_status(cli, ctx);
}

static void write_summary(const void *ctx, char text[WATCH_LINE_MAX])
{
    const struct status *status = ctx;
    const struct tern_accuracy *newest = newest_accuracy(status);
    const struct tern_db_round *round = &status->store.round;
    char of[MODEL_OF_MAX];
    char rounds[96] = "no round open";
    char accuracy[MODEL_OF_MAX + 32] = "accuracy not known";
    if (tern_status_is_open(&status->store)) {
        snprintf(rounds, sizeof rounds, "round %" PRIu32 ": %" PRIu32 " of %" PRIu32 " updates",
                 round->round, status->store.reported, round->target);
    }
    if (newest != NULL) {
        snprintf(accuracy, sizeof accuracy, "accuracy %.4f, %s", newest->accuracy,
                 model_of(newest, of));
    }
    snprintf(text, WATCH_LINE_MAX, "%" PRIu64 " committed, %s; %s; %" PRIu64 " clients",
             status->store.counts.rounds_committed, rounds, accuracy, status->store.counts.clients);
}

int tern_cli_status(struct tern_cli *cli)
{
    static struct status status;
    const struct watched watched = {load_status, print_report, write_summary, &status};
    if (tern_cli_flag(cli, "watch")) {
        return run_watch(cli, &watched);
    }
    TERN_CLI_TRY(load_status(cli, &status));
    return print_report(cli, &status);
}
