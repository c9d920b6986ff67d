// Clients: listing them, letting them in, shutting them out.
#include "cli/gateway.h"
#include "cli/listing.h"
#include "cli/verbs.h"
#include "federation/federation.h"
#include "util/text.h"

#include <inttypes.h>
#include <string.h>

int tern_cli_clients(struct tern_cli *cli)
{
    return tern_list(cli, &tern_view_clients, NULL);
}

// --- Join codes

struct code_values {
    uint64_t expires;
};

static const struct tern_setting expires_row = {
    .section = "enroll-code",
    .key = "expires",
    .type = TERN_SETTING_MS,
    .offset = offsetof(struct code_values, expires),
    .size = sizeof(uint64_t),
    .fallback = "24h",
    .min = 1000,
    .max = 10.0 * 365 * 86400e3,
    .doc = "How long a join code is valid.",
};

// Reads --expires with the units and the messages of the settings.
static int take_expires(struct tern_cli *cli, uint64_t *ms)
{
    const struct tern_settings table = {
        .program = cli->program->name, .table = &expires_row, .count = 1};
    struct code_values values;
    char assignment[128];
    char why[512];
    int len = snprintf(assignment, sizeof assignment, "enroll-code.expires=%s",
                       tern_cli_option(cli, "expires", expires_row.fallback));
    if (len >= (int)sizeof assignment) {
        return tern_cli_fail(cli, TERN_ERR_CONFIG, "--expires is too long");
    }
    if (tern_settings_set(&table, &values, assignment, why) != TERN_OK) {
        const char *reason = strstr(why, "expires = "); // what comes before speaks of --set
        return tern_cli_fail(cli, TERN_ERR_CONFIG, "--%s", reason != NULL ? reason : why);
    }
    *ms = values.expires;
    return TERN_EXIT_OK;
}

static int take_code_options(struct tern_cli *cli, struct tern_db_code *code)
{
    const char *label = tern_cli_option(cli, "label", "");
    uint64_t uses = 1;
    uint64_t expires = 0;
    if (strlen(label) >= sizeof code->label || !tern_utf8_is_text(label, strlen(label))) {
        return tern_cli_fail(
            cli, TERN_ERR_CONFIG,
            "--label must be text of at most %zu bytes, without control characters",
            sizeof code->label - 1);
    }
    if (tern_cli_number(cli, "uses", 1, 1, 1000000000, &uses) != TERN_OK) {
        return TERN_EXIT_USAGE;
    }
    TERN_CLI_TRY(take_expires(cli, &expires));
    TERN_CLI_TRY(tern_state_tags(cli, tern_cli_option(cli, "tag", ""), code->tags));
    memcpy(code->label, label, strlen(label) + 1);
    code->evaluator = tern_cli_flag(cli, "evaluator");
    code->uses_left = (uint32_t)uses;
    code->created_ms = tern_now_ms();
    code->expires_ms = code->created_ms + expires;
    return TERN_EXIT_OK;
}

static int print_code(struct tern_cli *cli, const struct tern_db_code *code, const char *text)
{
    char until[TERN_TEXT];
    char id[TERN_JOIN_CODE_ID];
    if (!cli->json) {
        printf("%s\n", text);
        tern_join_code_id(code->hash, id);
        fprintf(stderr,
                "For %" PRIu32 " client%s%s, until %s. It is not shown again; `tern-aggregator "
                "codes` lists it as %s.\n",
                code->uses_left, code->uses_left == 1 ? "" : "s",
                code->evaluator ? ", evaluators among them" : "",
                tern_text_time(code->expires_ms, until), id);
        return TERN_EXIT_OK;
    }
    return tern_json_print(cli, tern_json_code(code, text));
}

static enum tern_result store_code(struct tern_db *db, const struct tern_db_code *code)
{
    TERN_TRY(tern_db_begin(db));
    return tern_db_conclude(db, tern_db_code_add(db, code));
}

int tern_cli_enroll_code(struct tern_cli *cli)
{
    struct tern_db_code code = {.uses_left = 1};
    char text[TERN_JOIN_CODE_TEXT];
    struct tern_db *db;
    TERN_CLI_TRY(take_code_options(cli, &code));
    if (tern_join_code_make(&code, text) != TERN_OK) {
        return tern_cli_fail(cli, TERN_ERR_IO, "the system gives no random bytes");
    }
    TERN_CLI_TRY(tern_state_open(cli, &db));
    enum tern_result result = store_code(db, &code);
    if (result != TERN_OK) {
        return tern_state_fail(cli, db, result);
    }
    tern_db_close(db);
    return print_code(cli, &code, text);
}

// --- Revocation

static enum tern_result revoke(struct tern_db *db, uint64_t id, struct tern_db_client *client)
{
    TERN_TRY(tern_db_begin(db));
    enum tern_result result = tern_db_client_get(db, id, client);
    if (result == TERN_OK) {
        result = tern_db_client_revoke(db, id);
    }
    return tern_db_conclude(db, result);
}

static int print_revoked(struct tern_cli *cli, const struct tern_db_client *client)
{
    char name[TERN_TEXT];
    if (!cli->json) {
        printf("Client %" PRIu64 " (%s) %s revoked.\n", client->id,
               tern_text_name(client->name, name), client->revoked ? "was already" : "is");
    } else {
        TERN_CLI_TRY(tern_json_print(cli, tern_json_revoked(client)));
    }
    return client->revoked ? TERN_EXIT_NOTHING : TERN_EXIT_OK;
}

// All that enrolled with the code, in one transaction. *count: those that were not revoked before.
static enum tern_result revoke_all(struct tern_db *db, const char *code, uint64_t *count)
{
    struct tern_db_client client;
    TERN_TRY(tern_db_begin(db));
    struct tern_db_rows *rows = tern_db_clients(db);
    *count = 0;
    while (tern_db_next(rows, &client)) {
        if (strcmp(client.code, code) == 0 && !client.revoked) {
            tern_db_check_row(rows, tern_db_client_revoke(db, client.id));
            ++*count;
        }
    }
    return tern_db_conclude(db, tern_db_end(rows));
}

static int revoke_code(struct tern_cli *cli, const char *code)
{
    uint64_t count = 0;
    struct tern_db *db;
    if (cli->argument_count > 0 || code[0] == '\0') {
        return tern_cli_fail(cli, TERN_ERR_CONFIG, "revoke takes a client or --code ID, not both");
    }
    TERN_CLI_TRY(tern_state_open(cli, &db));
    const enum tern_result result = revoke_all(db, code, &count);
    if (result != TERN_OK) {
        return tern_state_fail(cli, db, result);
    }
    tern_db_close(db);
    if (cli->json) {
        cJSON *object = cJSON_CreateObject();
        tern_json_text(object, "code", code);
        tern_json_u64(object, "revoked", count);
        TERN_CLI_TRY(tern_json_print(cli, object));
    } else {
        printf("%" PRIu64
               " client%s that enrolled with %s %s revoked. To let nobody enrol with it: "
               "tern-aggregator codes --cancel %s\n",
               count, count == 1 ? "" : "s", code, count == 1 ? "is" : "are", code);
    }
    return count > 0 ? TERN_EXIT_OK : TERN_EXIT_NOTHING;
}

int tern_cli_revoke(struct tern_cli *cli)
{
    uint64_t id;
    struct tern_db *db;
    struct tern_db_client client;
    const char *code = tern_cli_option(cli, "code", NULL);
    if (code != NULL) {
        return revoke_code(cli, code);
    }
    if (cli->argument_count == 0) {
        return tern_cli_fail(cli, TERN_ERR_CONFIG,
                             "which client? `tern-aggregator clients` lists them");
    }
    TERN_CLI_TRY(tern_state_client(cli, &id));
    if (tern_gateway_is_one(cli) && id == TERN_RELAY_FOLLOWER) {
        return tern_cli_fail(cli, TERN_ERR_CONFIG,
                             "client %" PRIu64
                             " of a gateway stands for the upstream aggregator, which "
                             "has no devices here to shut out; to end the gateway, revoke it there "
                             "(`tern-aggregator status` says which client of it this is)",
                             id);
    }
    TERN_CLI_TRY(tern_state_open(cli, &db));
    enum tern_result result = revoke(db, id, &client);
    if (result != TERN_OK) {
        return tern_state_client_fail(cli, db, id, result);
    }
    tern_db_close(db);
    return print_revoked(cli, &client);
}
