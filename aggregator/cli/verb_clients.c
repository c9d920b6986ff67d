// Clients and join codes: clients, enroll-code, codes, revoke and tag.
#include "admin/rows.h"
#include "cli/gateway.h"
#include "cli/listing.h"
#include "cli/state.h"
#include "cli/verbs.h"
#include "federation/federation.h"
#include "util/text.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

int tern_cli_clients(struct tern_cli *cli)
{
    return tern_list(cli, &tern_view_clients, NULL);
}

// --- Join codes

#define DAY_MS UINT64_C(86400000)

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
    if (tern_cli_number(cli, "uses", 1, 1, 1000000000, &uses) != TERN_OK ||
        tern_cli_duration(cli, "expires", DAY_MS, 1000, 3650 * DAY_MS, &expires) != TERN_OK) {
        return TERN_EXIT_USAGE;
    }
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
                "Valid for %" PRIu32
                " client%s%s, until %s. The code is not shown again; `tern-aggregator "
                "codes` lists it as %s.\n",
                code->uses_left, code->uses_left == 1 ? "" : "s",
                code->evaluator ? ", including evaluators" : "",
                tern_text_time(code->expires_ms, until), id);
        return TERN_EXIT_OK;
    }
    return tern_json_print(cli, tern_json_code(code, text));
}

static enum tern_result store_code(struct tern_db *db, const struct tern_db_code *code)
{
    TERN_TRY(tern_db_begin(db));
    enum tern_result result = tern_db_code_add(db, code);
    if (result == TERN_OK) {
        result = tern_audit_code(db, code->created_ms, "enroll-code", code);
    }
    return tern_db_conclude(db, result);
}

int tern_cli_enroll_code(struct tern_cli *cli)
{
    struct tern_db_code code = {.uses_left = 1};
    char text[TERN_JOIN_CODE_TEXT];
    struct tern_db *db;
    TERN_CLI_TRY(take_code_options(cli, &code));
    if (tern_join_code_make(&code, text) != TERN_OK) {
        return tern_cli_fail(cli, TERN_ERR_IO, "the system provides no random bytes");
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

static enum tern_result revoke_one(struct tern_db *db, const struct tern_db_client *client)
{
    TERN_TRY(tern_db_client_revoke(db, client->id));
    return tern_audit_revoked(db, tern_now_ms(), "revoke", client);
}

static enum tern_result revoke(struct tern_db *db, uint64_t id, struct tern_db_client *client)
{
    TERN_TRY(tern_db_begin(db));
    enum tern_result result = tern_db_client_get(db, id, client);
    if (result == TERN_OK) {
        result = revoke_one(db, client);
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

// Revokes all clients that enrolled with the code, in one transaction. *count: those that were not revoked before.
static enum tern_result revoke_all(struct tern_db *db, const char *code, uint64_t *count)
{
    struct tern_db_client client;
    TERN_TRY(tern_db_begin(db));
    struct tern_db_rows *rows = tern_db_clients(db);
    *count = 0;
    while (tern_db_next(rows, &client)) {
        if (strcmp(client.code, code) == 0 && !client.revoked) {
            tern_db_check_row(rows, revoke_one(db, &client));
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
               " client%s that enrolled with %s %s revoked. To cancel the code: tern-aggregator "
               "codes --cancel %s\n",
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
        return tern_cli_fail(
            cli, TERN_ERR_CONFIG,
            "give a client id, or --code ID; `tern-aggregator clients` lists the clients");
    }
    TERN_CLI_TRY(tern_state_client_argument(cli, &id));
    if (tern_state_is_gateway(cli) && id == TERN_RELAY_UPSTREAM_CLIENT) {
        return tern_cli_fail(
            cli, TERN_ERR_CONFIG,
            "client %" PRIu64 " of a gateway stands for the upstream aggregator and is no device. "
            "To end the gateway, "
            "revoke it upstream (`tern-aggregator status` shows its client id there)",
            id);
    }
    TERN_CLI_TRY(tern_state_open(cli, &db));
    enum tern_result result = revoke(db, id, &client);
    if (result != TERN_OK) {
        return tern_state_fail_for_client(cli, db, id, result);
    }
    tern_db_close(db);
    return print_revoked(cli, &client);
}

// --- Cancelling a join code

static enum tern_result cancel(struct tern_db *db, const char *id, struct tern_db_code *code)
{
    TERN_TRY(tern_db_begin(db));
    enum tern_result result = tern_code_find(db, id, code);
    if (result == TERN_OK) {
        result = tern_db_code_cancel(db, code->hash);
    }
    if (result == TERN_OK) {
        result = tern_audit_cancelled(db, tern_now_ms(), "codes --cancel", code);
    }
    return tern_db_conclude(db, result);
}

static int cancel_code(struct tern_cli *cli, const char *id)
{
    struct tern_db *db;
    struct tern_db_code code;
    TERN_CLI_TRY(tern_state_open(cli, &db));
    const enum tern_result result = cancel(db, id, &code);
    if (result == TERN_ERR_NOT_FOUND) {
        tern_db_close(db);
        return tern_cli_fail(cli, result,
                             "there is no join code %s; `tern-aggregator codes` lists them", id);
    }
    if (result != TERN_OK) {
        return tern_state_fail(cli, db, result);
    }
    tern_db_close(db);
    const bool was_valid = strcmp(tern_code_state(&code, tern_now_ms()), "valid") == 0;
    if (cli->json) {
        cJSON *object = cJSON_CreateObject();
        tern_json_text(object, "id", id);
        tern_json_bool(object, "was_valid", was_valid);
        TERN_CLI_TRY(tern_json_print(cli, object));
    } else {
        printf("Join code %s %s.\n", id, was_valid ? "is cancelled" : "was no longer valid");
    }
    return was_valid ? TERN_EXIT_OK : TERN_EXIT_NOTHING;
}

int tern_cli_codes(struct tern_cli *cli)
{
    const char *id = tern_cli_option(cli, "cancel", NULL);
    return id != NULL ? cancel_code(cli, id) : tern_list(cli, &tern_view_codes, NULL);
}

// --- Tags

struct tagging {
    struct tern_cli *cli;
    uint64_t id;
    bool sets; // the verb sets the tags; false: it only prints them
    char tags[TERN_DB_TAGS_MAX];
    struct tern_db_client before;
};

static int read_tag_arguments(struct tern_cli *cli, struct tagging *tagging)
{
    const bool clears = tern_cli_flag(cli, "clear");
    const char *text = cli->argument_count == 2 ? cli->arguments[1] : "";
    if (clears && cli->argument_count == 2) {
        return tern_cli_fail(cli, TERN_ERR_CONFIG,
                             "tags and --clear exclude each other: give one of them");
    }
    if (cli->argument_count == 2 && text[strspn(text, " ")] == '\0') {
        return tern_cli_fail(cli, TERN_ERR_CONFIG,
                             "give tags, e.g. site=a,line=3, or --clear to remove all tags");
    }
    tagging->sets = clears || cli->argument_count == 2;
    TERN_CLI_TRY(tern_state_client_argument(cli, &tagging->id));
    return tern_state_tags(cli, text, tagging->tags);
}

static enum tern_result set_tags(struct tagging *tagging, struct tern_db *db)
{
    TERN_TRY(tern_db_client_get(db, tagging->id, &tagging->before));
    TERN_TRY(tern_db_client_tag(db, tagging->id, tagging->tags));
    return tern_db_audit(db, tern_now_ms(), "tag", tagging->before.tags, tagging->tags,
                         "client %" PRIu64, tagging->id);
}

static enum tern_result apply_tags(struct tagging *tagging, struct tern_db *db)
{
    if (!tagging->sets) {
        return tern_db_client_get(db, tagging->id, &tagging->before);
    }
    TERN_TRY(tern_db_begin(db));
    return tern_db_conclude(db, set_tags(tagging, db));
}

static int print_tags(const struct tagging *tagging)
{
    const char *before = tagging->before.tags;
    const char *tags = tagging->sets ? tagging->tags : before;
    char name[TERN_TEXT];
    if (tagging->cli->json) {
        cJSON *object = cJSON_CreateObject();
        tern_json_u64(object, "client", tagging->id);
        tern_json_text(object, "tags", tags);
        tern_json_text(object, "before", before);
        return tern_json_print(tagging->cli, object);
    }
    printf("Client %" PRIu64 " (%s) has %s%s.\n", tagging->id,
           tern_text_name(tagging->before.name, name), tags[0] != '\0' ? tags : "no tag",
           !tagging->sets              ? ""
           : strcmp(before, tags) == 0 ? ", as before"
                                       : " now");
    return TERN_EXIT_OK;
}

int tern_cli_tag(struct tern_cli *cli)
{
    struct tagging tagging = {.cli = cli};
    struct tern_db *db;
    TERN_CLI_TRY(read_tag_arguments(cli, &tagging));
    TERN_CLI_TRY(tern_state_open(cli, &db));
    const enum tern_result result = apply_tags(&tagging, db);
    if (result != TERN_OK) {
        return tern_state_fail_for_client(cli, db, tagging.id, result);
    }
    tern_db_close(db);
    return print_tags(&tagging);
}
