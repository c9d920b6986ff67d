#include "cli/estimates.h"
#include "cli/figures.h"
#include "cli/gateway.h"
#include "cli/quality.h"
#include "cli/shared_database.h"
#include "cli/state.h"
#include "cli/verbs.h"
#include "cli/waiting.h"
#include "hosted/cli.h"
#include "hosted/host.h"
#include "hosted/terminal.h"
#include "http/certificate.h"
#include "tensor/manifest.h"
#include "util/bytes.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define WATCH_LINE_MAX 512

struct watched {
    // Both return an exit code, after printing the reason of a failure, which ends the watch.
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

// --- The status

struct status {
    struct tern_db_federation federation;
    struct tern_status store;
    uint32_t values; // number of values of the model; 0: unknown
    struct tern_spending_accuracies accuracies;
    struct tern_figures figures;
    struct tern_quality quality;
    struct tern_best models[TERN_BEST_MODELS]; // of the newest version
    uint64_t now_ms;
    struct tern_waiting waiting;
    struct tern_unreported unreported;
    struct tern_other_columns other_columns;
    struct tern_db_node nodes[TERN_STANDBY_NODES];
    size_t node_count;
    char *settings[TERN_STANDBY_NODES]; // malloc'ed; NULL: unknown
    bool has_certificate;               // the certificate could be read
    struct tern_certificate certificate;
    char certificate_why[256];
};

static enum tern_result load(struct tern_cli *cli, struct tern_db *db, struct status *status)
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
    TERN_TRY(tern_cli_waiting_load(cli, db, &status->store, status->now_ms, &status->waiting));
    TERN_TRY(tern_unreported_load(cli, db, &status->store.counts, &status->unreported));
    TERN_TRY(tern_other_columns_load(db, &status->other_columns));
    TERN_TRY(tern_db_nodes(db, status->nodes, TERN_STANDBY_NODES, &status->node_count));
    TERN_TRY(tern_shared_settings_load(db, status->nodes, status->node_count, status->settings));
    const struct tern_db_federation *federation = &status->federation;
    if (tern_model_build(&model, federation->model_spec, federation->manifest,
                         federation->manifest_len, federation->model_hash) == TERN_OK) {
        status->values = model.count;
        status->accuracies = tern_spending_accuracies(cli, &model);
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
static const char *whose(const struct status *status, char text[TERN_TEXT])
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
static void print_metrics(const struct tern_accuracy *newest, const char *of, const char *whose)
{
    printf("Evaluated   ");
    for (uint32_t i = 0; i < newest->metric_count; i++) {
        printf("%s %.4g, ", newest->metrics[i].name, newest->metrics[i].value);
    }
    printf("loss %.4f\n            %s (%" PRIu64 " held-out examples%s)\n", newest->loss, of,
           newest->num_examples, whose);
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
        tern_quality_print_pending(&status->quality);
        return;
    }
    char of[TERN_ACCURACY_OF_MAX];
    char clients[TERN_TEXT];
    if (newest->no_accuracy) {
        print_metrics(newest, tern_accuracy_of(newest, of), whose(status, clients));
    } else {
        printf("Accuracy    %.4f, %s (%" PRIu64 " held-out examples%s, loss %.4f)\n",
               newest->accuracy, tern_accuracy_of(newest, of), newest->num_examples,
               whose(status, clients), newest->loss);
    }
    if (tern_best_prefers_replica(status->models)) {
        const struct tern_best *replica = &status->models[TERN_EVALUATED_REPLICA];
        printf("            the replica is better (%s %.4f): `export` writes it\n",
               replica->by == TERN_BEST_BY_ACCURACY ? "accuracy" : "loss", replica->value);
    }
    tern_quality_print_pending(&status->quality);
    tern_quality_print(&status->quality, status->waiting.wait == TERN_WAIT_FINISHED);
    if (status->quality.clients > 0 && tern_model_spec_inputs(status->federation.model_spec) > 0) {
        printf("            `tern-client compare` on a device: is a model of its rows alone as "
               "good?\n");
    }
}

static void print_bytes(const struct status *status)
{
    const struct tern_round_bytes *all = &status->figures.all;
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
        printf("Certificate EXPIRED %s: clients refuse it; replace it, then send SIGHUP to the "
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
    print_codecs(cli, status);
    tern_gateway_print(cli);
    print_version(status);
    print_round(status);
    tern_cli_waiting_print(&status->waiting, status->now_ms);
    printf("Clients     %" PRIu64 " enrolled, %" PRIu64 " of them revoked, %" PRIu64
           " evaluator%s; join codes for %" PRIu64 " more\n",
           counts->clients, counts->clients_revoked, counts->evaluators,
           counts->evaluators == 1 ? "" : "s", counts->code_uses_left);
    tern_unreported_print(&status->unreported);
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
    tern_accuracy_json(object, newest);
    if (newest != NULL) {
        tern_json_u64(object, "accuracy_version", newest->version);
    }
    tern_quality_json(object, &status->quality);
    tern_json_status(object, &status->store);
    tern_cli_waiting_json(object, &status->waiting);
    tern_unreported_json(object, &status->unreported);
    tern_other_columns_json(object, &status->other_columns);
    add_nodes(object, status);
    tern_gateway_json(cli, object);
    tern_json_u64(object, "float32_payload", 4 * (uint64_t)status->values);
    tern_figures_add_json(object, &status->figures);
    cJSON_AddItemToObject(object, "codec_accuracies",
                          tern_spending_accuracies_json(&status->accuracies));
    if (status->has_certificate) {
        tern_json_u64(object, "certificate_expires_ms", status->certificate.ends_s * 1000);
    } else {
        cJSON_AddNullToObject(object, "certificate_expires_ms");
    }
    return tern_json_print(cli, object);
}

// --- The verb

static int load_now(struct tern_cli *cli, void *ctx)
{
    struct tern_db *db;
    struct status *status = ctx;
    TERN_CLI_TRY(tern_state_open_reading(cli, &db));
    enum tern_result result = load(cli, db, status);
    if (result != TERN_OK) {
        return tern_state_fail(cli, db, result);
    }
    tern_db_close(db);
    load_certificate(cli, status);
    return TERN_EXIT_OK;
}

static int print_once(struct tern_cli *cli, const void *ctx)
{
    return cli->json ? print_json(cli, ctx) : print_status(cli, ctx);
}

static void write_line(const void *ctx, char text[WATCH_LINE_MAX])
{
    const struct status *status = ctx;
    const struct tern_accuracy *newest = newest_accuracy(status);
    const struct tern_db_round *round = &status->store.round;
    char of[TERN_ACCURACY_OF_MAX];
    char rounds[96] = "no round open";
    char accuracy[TERN_ACCURACY_OF_MAX + 32] = "accuracy not known";
    if (tern_status_is_open(&status->store)) {
        snprintf(rounds, sizeof rounds, "round %" PRIu32 ": %" PRIu32 " of %" PRIu32 " updates",
                 round->round, status->store.reported, round->target);
    }
    if (newest != NULL) {
        snprintf(accuracy, sizeof accuracy, "accuracy %.4f, %s", newest->accuracy,
                 tern_accuracy_of(newest, of));
    }
    snprintf(text, WATCH_LINE_MAX, "%" PRIu64 " committed, %s; %s; %" PRIu64 " clients",
             status->store.counts.rounds_committed, rounds, accuracy, status->store.counts.clients);
}

int tern_cli_status(struct tern_cli *cli)
{
    static struct status status;
    const struct watched watched = {load_now, print_once, write_line, &status};
    if (tern_cli_flag(cli, "watch")) {
        return run_watch(cli, &watched);
    }
    TERN_CLI_TRY(load_now(cli, &status));
    return print_once(cli, &status);
}
