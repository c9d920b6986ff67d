#include "cli/gateway.h"

#include "admin/waiting.h"
#include "cli/starting_model.h"
#include "cli/verbs.h"
#include "hosted/files.h"
#include "hosted/system.h"
#include "tensor/manifest.h"
#include "wire/wire.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// --- Running as a gateway

// A gateway shares its database with no aggregator, which could lead rounds without the upstream aggregator.
int tern_gateway_check(struct tern_cli *cli)
{
    if (!tern_state_is_postgres(cli)) {
        return TERN_EXIT_OK;
    }
    return tern_cli_fail(
        cli, TERN_ERR_CONFIG,
        "store.url is set, but a gateway's database must be the file " TERN_STATE_DATABASE
        " in its state directory: leave store.url empty");
}

int tern_gateway_check_joined(const struct tern_cli *cli)
{
    char path[PATH_MAX];
    tern_state_path(cli, TERN_STATE_DATABASE, path);
    return access(path, F_OK) == 0
               ? TERN_EXIT_OK
               : tern_cli_fail(
                     cli, TERN_ERR_CONFIG,
                     "join was interrupted in %s: run `tern-aggregator join CODE` again to "
                     "finish it",
                     tern_state_settings(cli)->federation_state);
}

int tern_gateway_open(struct tern_cli *cli, int *lock, struct tern_relay **relay)
{
    static char folder[PATH_MAX]; // borrowed by the relay
    const struct tern_aggregator_settings *s = tern_state_settings(cli);
    char why[512] = "";
    *lock = -1;
    if (s->relay_server[0] == '\0') {
        return tern_cli_fail(
            cli, TERN_ERR_CONFIG,
            "relay.server is not set: name the upstream aggregator with --config FILE "
            "or --set relay.server=https://host:port");
    }
    TERN_CLI_TRY(tern_state_lock(cli, lock));
    tern_state_path(cli, TERN_STATE_UPSTREAM, folder);
    const struct tern_relay_config config = {
        .folder = folder,
        .server = s->relay_server,
        .ca = s->relay_ca,
        .certificate = s->relay_certificate,
        .key = s->relay_key,
        .tls = s->relay_tls,
        .proxy = s->relay_proxy,
        .name = s->relay_name,
        .wait_ms = (uint32_t)s->relay_wait,
        .budget_per_month = s->relay_budget_per_month,
    };
    const enum tern_result result = tern_relay_open(&config, relay, why);
    return tern_cli_check(cli, result, "%s", why);
}

void tern_gateway_upstream(const struct tern_cli *cli, struct tern_service_upstream *upstream)
{
    char folder[PATH_MAX];
    *upstream = (struct tern_service_upstream){.is_known = false};
    if (tern_state_is_gateway(cli) && tern_state_is_served(cli)) {
        tern_state_path(cli, TERN_STATE_UPSTREAM, folder);
        tern_relay_read_link(folder, upstream);
    }
}

// --- Status

static bool load_facts(const struct tern_cli *cli, struct tern_relay_facts *facts)
{
    char folder[PATH_MAX];
    tern_state_path(cli, TERN_STATE_UPSTREAM, folder);
    return tern_relay_read_facts(folder, facts) == TERN_OK;
}

void tern_gateway_print(const struct tern_cli *cli)
{
    struct tern_relay_facts facts;
    char up[TERN_TEXT];
    char down[TERN_TEXT];
    char server[TERN_TEXT];
    if (!load_facts(cli, &facts)) {
        return;
    }
    const char *name = tern_state_settings(cli)->relay_server;
    struct tern_service_upstream upstream;
    char silent[TERN_UPSTREAM_MAX];
    char since[TERN_TEXT];
    tern_gateway_upstream(cli, &upstream);
    tern_text_bytes((double)tern_meter_total(&facts.meter, TERN_UP).wire, up);
    tern_text_bytes((double)tern_meter_total(&facts.meter, TERN_DOWN).wire, down);
    printf("Gateway     client %" PRIu64 " of %s: %" PRIu64 " updates accepted there;\n"
           "            upstream link since join: %s up, %s down (all other bytes here are "
           "local)\n",
           facts.client, name[0] != '\0' ? tern_text_name(name, server) : "the upstream aggregator",
           facts.rounds, up, down);
    if (upstream.silent_ms != 0) {
        printf("            %s, since %s\n",
               tern_upstream_sentence(&upstream, tern_now_ms(), silent),
               tern_text_time(upstream.silent_ms, since));
    }
}

// "answers" is null while the gateway does not run. The other members are null while the upstream aggregator answers.
static void add_upstream(cJSON *gateway, const struct tern_service_upstream *upstream)
{
    if (!upstream->is_known) {
        cJSON_AddNullToObject(gateway, "answers");
    } else {
        tern_json_bool(gateway, "answers", upstream->silent_ms == 0);
    }
    if (upstream->silent_ms == 0) {
        cJSON_AddNullToObject(gateway, "silent_ms");
        cJSON_AddNullToObject(gateway, "silent_why");
    } else {
        tern_json_u64(gateway, "silent_ms", upstream->silent_ms);
        tern_json_text(gateway, "silent_why", upstream->why);
    }
}

void tern_gateway_json(const struct tern_cli *cli, cJSON *object)
{
    struct tern_relay_facts facts;
    if (!load_facts(cli, &facts)) {
        cJSON_AddNullToObject(object, "gateway");
        return;
    }
    cJSON *gateway = cJSON_AddObjectToObject(object, "gateway");
    struct tern_service_upstream upstream;
    tern_gateway_upstream(cli, &upstream);
    tern_json_text(gateway, "server", tern_state_settings(cli)->relay_server);
    tern_json_u64(gateway, "client", facts.client);
    add_upstream(gateway, &upstream);
    tern_json_u64(gateway, "updates_answered", facts.rounds);
    tern_json_u64(gateway, "round_taken", facts.included);
    tern_json_u64(gateway, "wire_up", tern_meter_total(&facts.meter, TERN_UP).wire);
    tern_json_u64(gateway, "wire_down", tern_meter_total(&facts.meter, TERN_DOWN).wire);
    tern_json_u64(gateway, "payload_up", tern_meter_total(&facts.meter, TERN_UP).payload);
    tern_json_u64(gateway, "payload_down", tern_meter_total(&facts.meter, TERN_DOWN).payload);
    tern_json_u64(gateway, "month_wire", facts.month_spent);
}

// --- The verb join: enrols upstream, and makes a federation of that model for the gateway's devices

// Refuses tensors that are never sent after the start (skip), or that each device keeps for itself (local).
static int check_tensors(const struct tern_cli *cli, const struct tern_model *model)
{
    for (uint32_t i = 0; i < model->tensor_count; i++) {
        const enum tern_rule rule = model->tensors[i].rule;
        if (rule == TERN_RULE_SKIP || rule == TERN_RULE_LOCAL) {
            return tern_cli_fail(
                cli, TERN_ERR_CONFIG,
                "tensor %s of the upstream model has the rule %s, and its values are not sent to "
                "gateways: enrol the devices with the upstream aggregator itself",
                model->tensors[i].name, tern_tensor_rule_name(rule));
        }
    }
    return TERN_EXIT_OK;
}

// Adds the client that represents the upstream aggregator: its updates carry the upstream model. No device has its token.
static enum tern_result add_follower(struct tern_db *db)
{
    uint8_t token[TERN_WIRE_TOKEN_BYTES];
    struct tern_db_client row = {.name = TERN_RELAY_UPSTREAM_CLIENT_NAME,
                                 .platform = "gateway",
                                 .evaluator = true,
                                 .created_ms = tern_now_ms()};
    TERN_TRY(tern_random_fill(token, sizeof token));
    tern_sha256(token, sizeof token, row.token_hash);
    TERN_TRY(tern_db_begin(db));
    const enum tern_result result = tern_db_conclude(db, tern_db_client_add(db, &row));
    return result != TERN_OK || row.id == TERN_RELAY_UPSTREAM_CLIENT ? result : TERN_ERR_STATE;
}

static int ensure_follower(struct tern_cli *cli)
{
    struct tern_db *db;
    struct tern_db_counts counts;
    TERN_CLI_TRY(tern_state_open(cli, &db));
    enum tern_result result = tern_db_counts(db, 0, &counts);
    if (result == TERN_OK && counts.clients == 0) {
        result = add_follower(db);
    }
    if (result != TERN_OK) {
        return tern_state_fail(cli, db, result);
    }
    tern_db_close(db);
    return TERN_EXIT_OK;
}

static int make_database(struct tern_cli *cli, const struct tern_relay_model *upstream,
                         const struct tern_model *model)
{
    struct tern_db_federation federation = {.seed = upstream->seed,
                                            .created_ms = tern_now_ms(),
                                            .manifest = upstream->manifest,
                                            .manifest_len = upstream->manifest_len};
    char database[PATH_MAX];
    char token[PATH_MAX];
    char why[256] = "";
    bool made;
    snprintf(federation.model_spec, sizeof federation.model_spec, "%s", upstream->spec);
    memcpy(federation.model_hash, upstream->hash, TERN_SHA256_SIZE);
    tern_state_database(cli, database);
    tern_state_path(cli, TERN_STATE_ADMIN_TOKEN, token);
    enum tern_result result = tern_state_make_token(token, &made);
    TERN_CLI_TRY(tern_cli_check(cli, result, "cannot make %s: %s", token, strerror(errno)));
    // The database begins with zero weights, which the upstream model replaces before the first round.
    float *zeros = tern_db_is_seeded(&federation) ? NULL : calloc(model->count, sizeof(float));
    if (zeros == NULL && !tern_db_is_seeded(&federation)) {
        return tern_cli_fail(cli, TERN_ERR_NO_MEMORY, "no memory for the model");
    }
    const struct tern_db_actor actor = tern_state_actor();
    char after[sizeof "gateway of " + sizeof tern_state_settings(cli)->relay_server];
    snprintf(after, sizeof after, "gateway of %s", tern_state_settings(cli)->relay_server);
    const struct tern_db_maker maker = {.actor = &actor, .action = "join", .after = after};
    result = tern_db_create(database, &federation, zeros, model->count, &maker, why);
    free(zeros);
    return tern_cli_check(
        cli, result == TERN_OK || result == TERN_ERR_CONFIG ? result : TERN_ERR_IO, "%s", why);
}

static int report_made(struct tern_cli *cli, const struct tern_relay_model *upstream,
                       const struct tern_model *model)
{
    const char *state = tern_state_settings(cli)->federation_state;
    const char *server = tern_state_settings(cli)->relay_server;
    if (cli->json) {
        cJSON *made = cJSON_CreateObject();
        cJSON_AddStringToObject(made, "state", state);
        cJSON_AddStringToObject(made, "server", server);
        cJSON_AddStringToObject(made, "model", upstream->spec);
        tern_json_u64(made, "values", model->count);
        return tern_json_print(cli, made);
    }
    printf("Joined %s: %s is a gateway for its model, %s (%" PRIu32 " values).\n"
           "Next, with the same options:\n"
           "  tern-aggregator relay          # runs the gateway\n"
           "  tern-aggregator enroll-code    # prints a join code; --uses 10: for ten devices\n"
           "  tern-aggregator status         # shows what the gateway waits for, and its bytes on "
           "both sides\n",
           server, state, upstream->spec, model->count);
    return TERN_EXIT_OK;
}

static int make(struct tern_cli *cli, struct tern_relay *relay, struct tern_relay_model *upstream)
{
    static struct tern_model model;
    char why[512] = "";
    if (cli->arguments[0][0] == '\0') {
        return tern_cli_fail(cli, TERN_ERR_CONFIG,
                             "the join code is empty; `tern-aggregator enroll-code` prints one on "
                             "the upstream aggregator");
    }
    enum tern_result result = tern_relay_enroll(relay, cli->arguments[0], upstream, why);
    TERN_CLI_TRY(tern_cli_check(cli, result, "%s", why));
    result = tern_model_build(&model, upstream->spec, upstream->manifest, upstream->manifest_len,
                              upstream->hash);
    TERN_CLI_TRY(tern_cli_check(
        cli, result, "this version cannot build the upstream model, %s: upgrade the gateway",
        upstream->spec));
    TERN_CLI_TRY(check_tensors(cli, &model));
    if (!tern_state_has_federation(cli)) {
        TERN_CLI_TRY(make_database(cli, upstream, &model));
    }
    TERN_CLI_TRY(ensure_follower(cli));
    return report_made(cli, upstream, &model);
}

// Resumes an interrupted join: keeps the identity, and makes the database if it is missing.
int tern_cli_join(struct tern_cli *cli)
{
    struct tern_relay *relay = NULL;
    struct tern_relay_model upstream = {.manifest = NULL};
    const char *state = tern_state_settings(cli)->federation_state;
    TERN_CLI_TRY(tern_gateway_check(cli));
    if (tern_state_has_federation(cli)) {
        const bool gateway = tern_state_is_gateway(cli);
        return tern_cli_fail(cli, TERN_ERR_CONFIG,
                             gateway
                                 ? "%s already belongs to a gateway: run `tern-aggregator relay`"
                                 : "%s already holds a federation; choose another --state",
                             state);
    }
    const enum tern_result result = tern_file_make_folders(state, 0700);
    TERN_CLI_TRY(tern_cli_check(cli, result, "cannot make %s: %s", state, strerror(errno)));
    int lock = -1;
    int code = tern_gateway_open(cli, &lock, &relay);
    code = code == TERN_EXIT_OK ? make(cli, relay, &upstream) : code;
    free(upstream.manifest);
    tern_relay_close(relay);
    if (lock >= 0) {
        close(lock);
    }
    return code;
}
