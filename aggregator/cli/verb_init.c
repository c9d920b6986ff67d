#include "cli/estimates.h"
#include "cli/proposal.h"
#include "cli/serve_config.h"
#include "cli/service_advice.h"
#include "cli/starting_model.h"
#include "cli/state.h"
#include "cli/verbs.h"
#include "hosted/export_file.h"
#include "hosted/files.h"
#include "tensor/model.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// Name, mean and standard deviation of each feature, for the metadata of an exported model.
struct scaling {
    const char **columns;
    double *mean;
    double *deviation;
};

static void take_columns(const struct tern_proposal *proposal, struct scaling *scaling,
                         struct tern_export_inputs *inputs)
{
    const struct tern_csv_profile *profile = &proposal->profile;
    for (uint32_t c = 0; c < profile->columns.count; c++) {
        const struct tern_csv_column *column = &profile->column[c];
        if (column->feature) {
            scaling->columns[inputs->count] = column->name;
            scaling->mean[inputs->count] = column->mean;
            scaling->deviation[inputs->count++] = column->deviation;
        }
    }
    inputs->columns = profile->columns.header ? scaling->columns : NULL;
    if (!proposal
             ->clients_scale) { // else `export` writes the scaling that clients compute together
        inputs->mean = scaling->mean;
        inputs->deviation = scaling->deviation;
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
    if (!proposal->clients_scale) {
        inputs->target_mean = target->mean;
        inputs->target_deviation = target->deviation;
    }
}

// Adds the columns, their scaling and the classes to a model's metadata, a JSON object or NULL. Returns the new text,
// malloc'ed by cJSON; NULL: no memory.
static char *proposal_notes(const struct tern_proposal *proposal, const char *metadata)
{
    const size_t count = proposal->profile.columns.count;
    cJSON *notes = metadata != NULL ? cJSON_Parse(metadata) : cJSON_CreateObject();
    struct scaling scaling = {calloc(count, sizeof *scaling.columns),
                              calloc(count, sizeof *scaling.mean),
                              calloc(count, sizeof *scaling.deviation)};
    char *text = NULL;
    if (notes != NULL && scaling.columns != NULL && scaling.mean != NULL &&
        scaling.deviation != NULL) {
        struct tern_export_inputs inputs = {.count = 0};
        take_columns(proposal, &scaling, &inputs);
        take_target(proposal, &inputs);
        tern_export_note_inputs(notes, &inputs);
        text = cJSON_PrintUnformatted(notes);
    }
    cJSON_Delete(notes);
    free(scaling.columns);
    free(scaling.mean);
    free(scaling.deviation);
    return text;
}

// --- The estimate of bytes

static void print_pace(const struct tern_spending *spending)
{
    char pause[TERN_TEXT];
    if (spending->interval_ms >= TERN_PAUSE_MS) {
        printf("At most one round opens every %s",
               tern_text_duration(spending->interval_ms, pause));
    } else {
        printf("Rounds open without a pause");
    }
    if (spending->rounds > 0) {
        printf(", until %" PRIu32 " are done", spending->rounds);
    } else {
        printf(", without end");
    }
    printf(" (round.min_interval, round.rounds).\n");
}

static void print_spending(const struct tern_spending *spending)
{
    char round[TERN_TEXT];
    char up[TERN_TEXT];
    char down[TERN_TEXT];
    char sum[TERN_TEXT];
    print_pace(spending);
    printf(
        "A client that takes part in every round moves about %s a round (tensors %s up, %s down)",
        tern_text_bytes(spending->round_bytes, round), tern_text_bytes(spending->update_bytes, up),
        tern_text_bytes(spending->download_bytes, down));
    if (spending->day_bytes > 0) {
        printf(",\n%s a day", tern_text_bytes(spending->day_bytes, sum));
    }
    if (spending->final_model_bytes > 0) {
        printf(",\nand %s at the end for the global model itself (downloads.final_model)",
               tern_text_bytes(spending->final_model_bytes, sum));
    }
    if (spending->rounds > 0) {
        printf(",\n%s in all",
               tern_text_bytes(
                   spending->round_bytes * spending->rounds + spending->final_model_bytes, sum));
    }
    printf(":\nan estimate from the model, the codecs and the measured cost of TLS and headers."
           " `tern-aggregator report bytes` shows the metered bytes.\n");
}

static void add_number(cJSON *object, const char *name, double number)
{
    if (number > 0) {
        cJSON_AddNumberToObject(object, name, (double)(uint64_t)number);
    } else {
        cJSON_AddNullToObject(object, name);
    }
}

static void add_spending(cJSON *object, const struct tern_spending *spending)
{
    cJSON *row = cJSON_AddObjectToObject(object, "spending");
    add_number(row, "round", spending->round_bytes);
    add_number(row, "tensors_up", spending->update_bytes);
    add_number(row, "tensors_down", spending->download_bytes);
    add_number(row, "day", spending->day_bytes);
    add_number(row, "final_model", spending->final_model_bytes);
    tern_json_u64(row, "min_interval_ms", spending->interval_ms);
    tern_json_u64(row, "rounds", spending->rounds);
}

// --- Next steps

#define TRIAL_MODEL "mlp:256-64-10" // the default model, which fits the generated digits

static void print_word(const char *word)
{
    const char *plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./=:,+@%";
    if (word[0] != '\0' && word[strspn(word, plain)] == '\0') {
        printf(" %s", word);
        return;
    }
    printf(" '");
    for (; *word != '\0'; word++) {
        printf(*word == '\'' ? "'\\''" : "%c", *word);
    }
    printf("'");
}

static void print_sets(const struct tern_cli *cli)
{
    for (unsigned i = 0; i < cli->set_count; i++) {
        printf(" --set");
        print_word(cli->sets[i]);
    }
}

// Prints `tern-aggregator VERB` with the options that this command was given.
static void print_verb(const struct tern_cli *cli, const char *verb)
{
    printf("tern-aggregator %s", verb);
    if (cli->config != NULL) {
        printf(" --config");
        print_word(cli->config);
    }
    if (cli->config == NULL || tern_cli_flag(cli, "state")) {
        printf(" --state");
        print_word(tern_state_settings(cli)->federation_state);
    }
    print_sets(cli);
}

static void print_certificate(const struct tern_cli *cli)
{
    const struct tern_aggregator_settings *settings = tern_state_settings(cli);
    char certificate[PATH_MAX];
    char key[PATH_MAX];
    tern_state_file(cli, settings->server_certificate, TERN_STATE_CERTIFICATE, certificate);
    tern_state_file(cli, settings->server_private_key, TERN_STATE_PRIVATE_KEY, key);
    printf("  1. A certificate in");
    print_word(certificate);
    printf(" and its key in");
    print_word(key);
    printf(", your own or one for a trial on this machine:\n"
           "     openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 365"
           " -subj /CN=localhost -addext subjectAltName=DNS:localhost -keyout");
    print_word(key);
    printf(" -out");
    print_word(certificate);
    printf("\n");
}

static void print_serve(const struct tern_cli *cli)
{
    const uint32_t least = tern_state_settings(cli)->round_min_clients;
    const bool trial = cli->config == NULL && cli->set_count == 0 && least > 1;
    printf("  2. The service:\n     ");
    print_verb(cli, "serve");
    if (trial) {
        printf(
            " --set round.min_clients=1 --set round.rounds=10\n"
            "     (a trial of ten rounds with one client; without these settings, rounds begin with"
            " %" PRIu32 " clients\n     and have no end)\n",
            least);
    } else {
        printf("\n     (rounds begin with %" PRIu32 " client%s: before the devices start, set "
               "round.min_clients to the number\n     of devices that train together%s)\n",
               least, least == 1 ? "" : "s", least == 1 ? "" : "; 1 is for a trial of one device");
    }
}

static void print_statistics(const struct tern_cli *cli)
{
    const struct tern_aggregator_settings *s = tern_state_settings(cli);
    if (strcmp(s->statistics_columns, "none") != 0) {
        const uint32_t least =
            s->statistics_min_clients != 0 ? s->statistics_min_clients : s->round_min_clients;
        printf("     (and with the statistics of %" PRIu32
               " client%s, from which the scaling is computed: statistics.min_clients)\n",
               least, least == 1 ? "" : "s");
    }
}

static void print_dashboard(const struct tern_cli *cli)
{
    const struct tern_aggregator_settings *s = tern_state_settings(cli);
    if (s->admin_address[0] != '\0' && strncmp(s->admin_address, "unix:", 5) != 0) {
        const bool six = strchr(s->admin_address, ':') != NULL;
        printf("     Its dashboard: http://%s%s%s:%" PRIu32 "/ (log in with the token in %s/%s)\n",
               six ? "[" : "", s->admin_address, six ? "]" : "", s->admin_port, s->federation_state,
               TERN_STATE_ADMIN_TOKEN);
    }
}

// Returns the setting by which a client gets data for the model: generated digits for a trial, else a placeholder.
static const char *data_setting(const char *spec)
{
    if (strcmp(spec, TRIAL_MODEL) == 0) {
        return "data.source=digits";
    }
    switch (tern_model_spec_inputs(spec) > 0 ? tern_model_spec_loss(spec) : TERN_LOSS_COUNT) {
    case TERN_LOSS_CROSS_ENTROPY:
        return "data.source=csv:FILE,label=COLUMN";
    case TERN_LOSS_MSE:
    case TERN_LOSS_MAE:
        return "data.source=csv:FILE,target=COLUMN";
    case TERN_LOSS_RECONSTRUCTION:
        return "data.source=csv:FILE,label=none";
    case TERN_LOSS_COUNT:
        break;
    }
    return "client.trainer=command"; // a model that is not built in
}

static void print_client(const struct tern_cli *cli, const char *verb, bool client_ini,
                         const char *certificate, const char *data)
{
    printf("     tern-client %s", verb);
    if (client_ini) {
        printf(" --config client.ini");
        return;
    }
    char port[TERN_STATE_PORT_MAX];
    char ca[PATH_MAX + 16];
    printf(" --set client.server=https://localhost:%s --set", tern_state_client_port(cli, port));
    snprintf(ca, sizeof ca, "client.ca=%s", certificate);
    print_word(ca);
    if (data != NULL) {
        printf(" --set");
        print_word(data);
    }
}

static void print_devices(const struct tern_cli *cli, bool client_ini, const char *data)
{
    const bool shares = strcmp(tern_state_settings(cli)->statistics_columns, "none") != 0;
    printf("  3. On each device, %s:\n",
           !client_ini ? "with the service's address and its own data (data.source)"
           : shares    ? "with client.ini and its own data"
                       : "with client.ini, scaling.csv and its own data");
    if (tern_state_settings(cli)->server_port == 0) {
        printf(
            "     (the service chooses PORT when it starts: its log shows it, and it is written to "
            "server.port_file)\n");
    }
    if (client_ini) {
        return;
    }
    if (strcmp(data, "data.source=digits") == 0) {
        printf("     (the program generates digits for a trial; for your own table, set "
               "data.source=csv:FILE,label=COLUMN)\n");
    }
    if (strcmp(data, "client.trainer=command") == 0) {
        printf("     (your own trainer with its data: docs/TRAINERS.md)\n");
    } else if (!shares) {
        printf(
            "     (if columns are not yet scaled equally on all devices: use init --data "
            "SAMPLE.csv, or serve with\n"
            "     --set statistics.columns=clients, so that clients compute a common scaling)\n");
    }
}

// Prints the experiment that compares the proposal with float32 on the sample.
static void print_experiment(const struct tern_cli *cli, const struct tern_proposal *proposal)
{
    char source[sizeof proposal->source + 48];
    const uint32_t clients = tern_state_settings(cli)->round_min_clients;
    const uint32_t label = proposal->profile.columns.label;
    const bool skips =
        label != TERN_CSV_NO_COLUMN && proposal->profile.column[label].missing.count > 0;
    snprintf(source, sizeof source, "data.source=%s%s", proposal->source,
             skips ? ",missing=skip-unlabelled" : "");
    printf("  5. What compression costs in accuracy depends on the data. Measure it on this "
           "table: the "
           "second run compares\n     float32 with the first (TERN: the folder of a clone of Tern; "
           "docs/EXPERIMENTS.md):\n");
    for (int run = 0; run < 2; run++) {
        printf("     TERN/tern experiment");
        print_word(cli->config);
        print_sets(cli);
        printf(" --set fleet.clients=%" PRIu32 " --set", clients);
        print_word(source);
        printf(run == 0 ? " --json default.json\n"
                        : " --set codec.codec=float32 --baseline default.json\n");
    }
}

static void print_next_steps(const struct tern_cli *cli, const struct tern_proposal *proposal,
                             const char *spec)
{
    const bool client_ini = proposal->data != NULL;
    char certificate[PATH_MAX];
    const char *data = data_setting(spec);
    tern_state_file(cli, tern_state_settings(cli)->server_certificate, TERN_STATE_CERTIFICATE,
                    certificate);
    printf("\nNext:\n");
    print_certificate(cli);
    print_serve(cli);
    print_statistics(cli);
    print_dashboard(cli);
    print_devices(cli, client_ini, data);
    print_client(cli, "check", client_ini, certificate, data);
    printf("\n");
    print_client(cli, "enroll", client_ini, certificate, NULL);
    printf(" \"$(");
    print_verb(cli, "enroll-code");
    printf(")\"\n");
    print_client(cli, "run", client_ini, certificate, data);
    printf("\n  4. See how good the model is, and what it costs:\n     ");
    print_verb(cli, "status");
    printf("\n");
    if (!tern_state_settings(cli)->train_evaluate) {
        printf("     (accuracy needs train.evaluate = yes, or a client with client.evaluator = "
               "yes)\n");
    } else if (tern_model_spec_inputs(spec) > 0) {
        printf("     On a device, check whether a model of its rows alone is as good:\n");
        print_client(cli, "compare", client_ini, certificate, data);
        printf("\n");
    }
    if (client_ini && !tern_codecs_are_exact(tern_state_settings(cli))) {
        print_experiment(cli, proposal);
    }
}

// --- The verb

// Makes the model. Options of init override settings; a proposed model overrides only the file of --config.
static int make_model(struct tern_cli *cli, const struct tern_proposal *proposal,
                      struct tern_starting_model *start, struct tern_db_federation *federation)
{
    const struct tern_aggregator_settings *settings = tern_state_settings(cli);
    const bool in_file = proposal->data == NULL || proposal->writes_settings;
    const char *model = in_file ? tern_cli_option(cli, "model", settings->federation_model)
                                : tern_proposal_model(cli, proposal);
    const char *rules = tern_cli_option(cli, "rules", settings->tensors_rules);
    enum tern_result result = tern_cli_number(cli, "seed", settings->federation_seed, 0,
                                              1000000000000000, &federation->seed);
    return result == TERN_OK ? tern_starting_model_make(cli, model, rules, start, federation)
                             : (int)tern_cli_exit_code(result);
}

// Adds the sample's columns and classes to the metadata that `export` writes.
static int add_metadata(const struct tern_cli *cli, const struct tern_proposal *proposal,
                        struct tern_starting_model *start, struct tern_db_federation *federation)
{
    if (proposal->data == NULL) {
        return TERN_EXIT_OK;
    }
    char *notes = proposal_notes(proposal, start->metadata);
    if (notes == NULL) {
        return tern_cli_fail(cli, TERN_ERR_NO_MEMORY, "no memory for the metadata of %s",
                             proposal->data);
    }
    cJSON_free(start->metadata);
    start->metadata = notes;
    federation->metadata = notes;
    return TERN_EXIT_OK;
}

static int refuse_old_state(struct tern_cli *cli)
{
    char database[PATH_MAX];
    tern_state_database(cli, database);
    return !tern_state_has_federation(cli)
               ? TERN_EXIT_OK
               : tern_cli_fail(cli, TERN_ERR_IO,
                               "%s already holds a federation; choose another %s, or see it"
                               " with `tern-aggregator status`",
                               tern_state_is_postgres(cli)
                                   ? database
                                   : tern_state_settings(cli)->federation_state,
                               tern_state_is_postgres(cli) ? "store.url" : "--state");
}

// Makes the state directory and the admin token, unless they remain from an interrupted init.
static int make_folder(struct tern_cli *cli)
{
    char token[PATH_MAX];
    bool made;
    const char *folder = tern_state_settings(cli)->federation_state;
    tern_state_path(cli, TERN_STATE_ADMIN_TOKEN, token);
    enum tern_result result = tern_file_make_folders(folder, 0700);
    TERN_CLI_TRY(tern_cli_check(
        cli, result, "cannot make the state directory %s: %s. Choose another one: --state DIR",
        folder, errno == EEXIST ? "a file has this name" : strerror(errno)));
    result = tern_state_make_token(token, &made);
    return tern_cli_check(cli, result,
                          "cannot write %s: %s. Choose another state directory: --state DIR", token,
                          strerror(errno));
}

// The state directory of a standby on PostgreSQL may be new.
static int keep_federation(struct tern_cli *cli)
{
    TERN_CLI_TRY(make_folder(cli));
    printf("%s already holds a federation, which stays as it is.\n",
           tern_state_is_postgres(cli) ? "The database of store.url"
                                       : tern_state_settings(cli)->federation_state);
    return TERN_EXIT_OK;
}

// made: false: --if-missing was given, and another program has made the federation meanwhile.
static int make_state(struct tern_cli *cli, const struct tern_db_federation *federation,
                      const struct tern_starting_model *start, bool *made)
{
    char database[PATH_MAX];
    char why[256] = "";
    tern_state_database(cli, database);
    if (!tern_cli_flag(cli, "if-missing")) {
        TERN_CLI_TRY(refuse_old_state(cli));
    }
    TERN_CLI_TRY(make_folder(cli));
    const struct tern_db_actor actor = tern_state_actor();
    char after[TERN_DB_CHANGED_MAX];
    snprintf(after, sizeof after, "seed %" PRIu64 ", %s", federation->seed, federation->model_spec);
    const struct tern_db_maker maker = {.actor = &actor, .action = "init", .after = after};
    // The database is made last, because its presence means that the directory is complete.
    const enum tern_result result =
        tern_db_create(database, federation, start->weights, start->model.count, &maker, why);
    *made = result == TERN_OK;
    if (result == TERN_ERR_CONFLICT && tern_cli_flag(cli, "if-missing") &&
        tern_state_has_federation(cli)) {
        return keep_federation(cli);
    }
    return tern_cli_check(
        cli, result == TERN_OK || result == TERN_ERR_CONFIG ? result : TERN_ERR_IO, "%s", why);
}

// Writes "12 compress, 4 fuse, 2 dense". Returns text.
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
        tern_spending_estimate(tern_state_settings(cli), config, &start->model);
    add_spending(made, &spending);
    const struct tern_round_time time = tern_round_time(config, &start->model, 0, NULL);
    tern_round_time_json(made, &time);
    tern_json_u64(made, "update_bytes_max",
                  tern_serve_config_update_max(&config->codec_up, &start->model));
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
    tern_text_bytes((double)tern_serve_config_update_max(&config->codec_up, &start->model), size);
    if (config->early.rounds > 0) {
        printf("By codec.accuracy, updates are sent with %s and downloads with %s\n"
               "in the first %" PRIu32 " rounds.\n",
               codecs.early_up, codecs.early_down, config->early.rounds);
    }
    if (config->early.rounds == 0 || config->early.rounds != config->round.rounds) {
        printf("By the settings, updates are sent with %s (at most %s each),\n"
               "downloads with %s.\n",
               codecs.up, size, codecs.down);
    }
    const struct tern_spending spending =
        tern_spending_estimate(tern_state_settings(cli), config, &start->model);
    print_spending(&spending);
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
            "Kept for export, but not trained or sent, because they have no values or another type "
            "than F32, F16 and BF16: %s.\n",
            start->kept_names);
    }
    print_next_steps(cli, proposal, federation->model_spec);
    return TERN_EXIT_OK;
}

// Refuses settings that serve would refuse for this model, and prints advice.
static int fit_to_model(struct tern_cli *cli, const struct tern_model *model, const char *spec,
                        struct tern_federation_config *config)
{
    struct tern_http_limits limits;
    char why[256];
    if (!tern_federation_can_scale(config, spec, why)) {
        return tern_cli_fail(cli, TERN_ERR_CONFIG, "%s", why);
    }
    TERN_CLI_TRY(tern_serve_config_fit_model(cli, model, spec, config, &limits));
    const struct tern_round_time time = tern_round_time(config, model, 0, NULL);
    tern_cli_advise(tern_state_settings(cli), config, &time, tern_cli_print_advice);
    return TERN_EXIT_OK;
}

// Makes the federation from the settings, which already contain the proposal.
static int make_federation(struct tern_cli *cli, const struct tern_proposal *proposal,
                           struct tern_starting_model *start)
{
    static struct tern_service_config config;
    struct tern_db_federation federation = {.created_ms = tern_now_ms()};
    TERN_CLI_TRY(tern_serve_config_read(cli, &config));
    TERN_CLI_TRY(make_model(cli, proposal, start, &federation));
    TERN_CLI_TRY(add_metadata(cli, proposal, start, &federation));
    TERN_CLI_TRY(fit_to_model(cli, &start->model, federation.model_spec, &config.federation));
    bool made = false;
    TERN_CLI_TRY(make_state(cli, &federation, start, &made));
    return made ? print_made(cli, proposal, &federation, start, &config.federation) : TERN_EXIT_OK;
}

static int propose_and_make(struct tern_cli *cli, struct tern_proposal *proposal,
                            struct tern_starting_model *start)
{
    TERN_CLI_TRY(refuse_old_state(cli));
    TERN_CLI_TRY(tern_proposal_make(cli, proposal));
    TERN_CLI_TRY(tern_proposal_write(cli, proposal));
    const int code = make_federation(cli, proposal, start);
    if (code != TERN_EXIT_OK) {
        tern_proposal_remove_files(proposal);
    }
    return code;
}

int tern_cli_init(struct tern_cli *cli)
{
    static struct tern_starting_model start;
    static struct tern_proposal proposal;
    const bool proposes = tern_cli_flag(cli, "data");
    if (tern_cli_flag(cli, "if-missing") && tern_state_has_federation(cli)) {
        return keep_federation(cli);
    }
    if (!proposes && (tern_cli_flag(cli, "label") || tern_cli_flag(cli, "task") ||
                      tern_cli_flag(cli, "drop") || tern_cli_flag(cli, "group") ||
                      tern_cli_flag(cli, "header") || tern_cli_flag(cli, "classes"))) {
        return tern_cli_fail(
            cli, TERN_ERR_CONFIG,
            "--label, --group, --drop, --header, --classes and --task need --data, the sample that "
            "they describe");
    }
    const int code = proposes ? propose_and_make(cli, &proposal, &start)
                              : make_federation(cli, &proposal, &start);
    tern_proposal_free(&proposal);
    tern_starting_model_free(&start);
    return code;
}
