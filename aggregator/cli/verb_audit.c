// Tokens of the admin listener and the audit log: token and audit.
#include "cli/listing.h"
#include "cli/state.h"
#include "cli/verbs.h"
#include "hosted/system.h"
#include "util/bytes.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

// --- Making a token

#define TOKEN_BYTES 32
#define TOKEN_TEXT (TERN_BASE64URL_LENGTH(TOKEN_BYTES) + 1)
#define DAY_MS UINT64_C(86400000)

// Returns the argument NAME; "" without one.
static const char *name_of(const struct tern_cli *cli)
{
    return cli->argument_count == 2 ? cli->arguments[1] : "";
}

static int take_name(const struct tern_cli *cli, char name[TERN_DB_TOKEN_NAME_MAX])
{
    const char *text = name_of(cli);
    TERN_CLI_TRY(tern_state_check_name(cli, "token", text, TERN_DB_TOKEN_NAME_MAX));
    if (strcmp(text, TERN_STATE_ADMIN_TOKEN) == 0) {
        return tern_cli_fail(cli, TERN_ERR_CONFIG,
                             "'%s' cannot be the name of a token: it is the token of that file",
                             text);
    }
    memcpy(name, text, strlen(text) + 1);
    return TERN_EXIT_OK;
}

static int take_role(const struct tern_cli *cli, uint32_t *role)
{
    const char *name = tern_cli_option(cli, "role", "");
    for (*role = TERN_ROLE_VIEWER; *role < TERN_ROLES; ++*role) {
        if (strcmp(tern_role_name(*role), name) == 0) {
            return TERN_EXIT_OK;
        }
    }
    return tern_cli_fail(cli, TERN_ERR_CONFIG, "--role must be viewer, operator or admin%s%s",
                         name[0] != '\0' ? ", and is " : "", name);
}

static enum tern_result store_token(struct tern_db *db, const struct tern_db_token *token)
{
    TERN_TRY(tern_db_begin(db));
    enum tern_result result = tern_db_token_add(db, token);
    if (result == TERN_OK) {
        result = tern_db_audit(db, token->made_ms, "token add", "", tern_role_name(token->role),
                               "token %s", token->name);
    }
    return tern_db_conclude(db, result);
}

static int print_token(const struct tern_cli *cli, const struct tern_db_token *token,
                       const char *text)
{
    char until[TERN_TEXT];
    if (cli->json) {
        cJSON *object = cJSON_CreateObject();
        cJSON_AddStringToObject(object, "name", token->name);
        cJSON_AddStringToObject(object, "role", tern_role_name(token->role));
        tern_json_u64(object, "expires_ms", token->expires_ms);
        cJSON_AddStringToObject(object, "token", text);
        return tern_json_print(cli, object);
    }
    printf("%s\n", text);
    fprintf(stderr, "Token %s has the role %s until %s. The token is not shown again.\n",
            token->name, tern_role_name(token->role), tern_text_time(token->expires_ms, until));
    return TERN_EXIT_OK;
}

static int add_token(struct tern_cli *cli)
{
    struct tern_db_token token = {.made_ms = tern_now_ms()};
    uint8_t bytes[TOKEN_BYTES];
    char text[TOKEN_TEXT];
    uint64_t expires_ms = 0;
    struct tern_db *db;
    TERN_CLI_TRY(take_name(cli, token.name));
    TERN_CLI_TRY(take_role(cli, &token.role));
    if (tern_cli_duration(cli, "expires", 90 * DAY_MS, 1000, 3650 * DAY_MS, &expires_ms) !=
        TERN_OK) {
        return TERN_EXIT_USAGE;
    }
    token.expires_ms = token.made_ms + expires_ms;
    if (tern_random_fill(bytes, sizeof bytes) != TERN_OK) {
        return tern_cli_fail(cli, TERN_ERR_IO, "the system provides no random bytes");
    }
    tern_base64url_encode(bytes, sizeof bytes, text);
    tern_sha256(text, strlen(text), token.sha256);
    TERN_CLI_TRY(tern_state_open(cli, &db));
    const enum tern_result result = store_token(db, &token);
    if (result == TERN_ERR_CONFLICT) {
        tern_db_close(db);
        return tern_cli_fail(cli, result,
                             "there is a token %s already, or was: each name is used once, because "
                             "the audit log has the names",
                             token.name);
    }
    if (result != TERN_OK) {
        return tern_state_fail(cli, db, result);
    }
    tern_db_close(db);
    return print_token(cli, &token, text);
}

// --- Revoking a token

static enum tern_result revoke(struct tern_db *db, const char *name, struct tern_db_token *before)
{
    const uint64_t now_ms = tern_now_ms();
    TERN_TRY(tern_db_begin(db));
    enum tern_result result = tern_db_token_get(db, name, before);
    if (result == TERN_OK && !before->revoked) {
        result = tern_db_token_revoke(db, name);
        result = result == TERN_OK
                     ? tern_db_audit(db, now_ms, "token revoke", tern_token_state(before, now_ms),
                                     "revoked", "token %s", name)
                     : result;
    }
    return tern_db_conclude(db, result);
}

static int revoke_token(struct tern_cli *cli)
{
    struct tern_db_token before = {.revoked = false};
    const char *name = name_of(cli);
    char text[TERN_TEXT];
    struct tern_db *db;
    TERN_CLI_TRY(tern_state_open(cli, &db));
    const enum tern_result result = revoke(db, name, &before);
    if (result == TERN_ERR_NOT_FOUND) {
        tern_db_close(db);
        return tern_cli_fail(cli, result,
                             "there is no token '%s'; `tern-aggregator token list` lists them",
                             tern_text_name(name, text));
    }
    if (result != TERN_OK) {
        return tern_state_fail(cli, db, result);
    }
    tern_db_close(db);
    if (cli->json) {
        cJSON *object = cJSON_CreateObject();
        cJSON_AddStringToObject(object, "name", name);
        tern_json_bool(object, "was_revoked", before.revoked);
        TERN_CLI_TRY(tern_json_print(cli, object));
    } else {
        printf("Token %s %s revoked.\n", name, before.revoked ? "was already" : "is");
    }
    return before.revoked ? TERN_EXIT_NOTHING : TERN_EXIT_OK;
}

int tern_cli_token(struct tern_cli *cli)
{
    const char *what = cli->arguments[0];
    if (strcmp(what, "add") == 0) {
        return add_token(cli);
    }
    if (strcmp(what, "revoke") == 0) {
        return revoke_token(cli);
    }
    if (strcmp(what, "list") == 0 && cli->argument_count == 1) {
        return tern_list(cli, &tern_view_tokens, NULL);
    }
    return tern_cli_fail(cli, TERN_ERR_CONFIG,
                         "use `token add NAME --role ROLE`, `token revoke NAME` or `token list`");
}

// --- The audit log

static int print_check(const struct tern_cli *cli, const struct tern_db_audit_check *check)
{
    char chain[2 * TERN_SHA256_SIZE + 1];
    tern_hex_encode(check->chain, TERN_SHA256_SIZE, chain);
    if (check->broken != 0) {
        return tern_cli_fail(cli, TERN_ERR_CORRUPT,
                             "row %" PRIu64 " of the audit log is missing or was changed, or the "
                             "row before it. Compare with a backup",
                             check->broken);
    }
    if (cli->json) {
        cJSON *object = cJSON_CreateObject();
        tern_json_u64(object, "rows", check->rows);
        cJSON_AddStringToObject(object, "chain", chain);
        return tern_json_print(cli, object);
    }
    printf("The audit log has %" PRIu64 " rows, and each follows from the previous one.\n"
           "chain %s\n",
           check->rows, chain);
    return TERN_EXIT_OK;
}

int tern_cli_audit(struct tern_cli *cli)
{
    struct tern_db_audit_check check;
    struct tern_db *db;
    if (!tern_cli_flag(cli, "verify")) {
        return tern_list(cli, &tern_view_audit, NULL);
    }
    TERN_CLI_TRY(tern_state_open_reading(cli, &db));
    const enum tern_result result = tern_db_audit_verify(db, &check);
    if (result != TERN_OK) {
        return tern_state_fail(cli, db, result);
    }
    tern_db_close(db);
    return print_check(cli, &check);
}
