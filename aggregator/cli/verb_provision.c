// provision makes clients without a join code, and prints the identities that a factory writes into devices.
#include "cli/state.h"
#include "cli/verbs.h"

#include "hosted/system.h"
#include "util/bytes.h"
#include "util/text.h"
#include "wire/wire.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define COUNT_MAX 10000

#define NOTICED_MS 1500 // a running service reads changes of the database once a second

#define TOKEN_TEXT (TERN_BASE64URL_LENGTH(TERN_WIRE_TOKEN_BYTES) + 1)

struct made {
    uint64_t id;
    char name[TERN_DB_NAME_MAX];
    char token[TOKEN_TEXT];
    uint8_t psk[TERN_PSK_SIZE];
};

struct provision {
    struct tern_cli *cli;
    struct tern_db_federation federation;
    const char *name;
    uint32_t count;
    bool several; // --count was given: prints a list, and numbers the names
    bool psk;
    bool evaluator;
    char tags[TERN_DB_TAGS_MAX];
    struct made *made;
};

// --- Options

static int take_options(struct tern_cli *cli, struct provision *provision)
{
    uint64_t count = 1;
    provision->name = tern_cli_option(cli, "name", "");
    provision->psk = tern_cli_flag(cli, "psk");
    provision->evaluator = tern_cli_flag(cli, "evaluator");
    provision->several = tern_cli_option(cli, "count", NULL) != NULL;
    if (tern_cli_number(cli, "count", 1, 1, COUNT_MAX, &count) != TERN_OK) {
        return TERN_EXIT_USAGE;
    }
    TERN_CLI_TRY(tern_state_tags(cli, tern_cli_option(cli, "tag", ""), provision->tags));
    provision->count = (uint32_t)count;
    size_t most = TERN_DB_NAME_MAX - 1 - (provision->several ? strlen("-10000") : 0);
    if (strlen(provision->name) > most ||
        !tern_utf8_is_text(provision->name, strlen(provision->name))) {
        return tern_cli_fail(cli, TERN_ERR_CONFIG,
                             "--name must be text of at most %zu bytes, without control characters",
                             most);
    }
    return TERN_EXIT_OK;
}

// --- Making

static enum tern_result make_identity(const struct provision *provision, uint32_t i,
                                      struct made *made, uint8_t token_hash[TERN_SHA256_SIZE])
{
    uint8_t token[TERN_WIRE_TOKEN_BYTES];
    TERN_TRY(tern_random_fill(token, sizeof token));
    tern_base64url_encode(token, sizeof token, made->token);
    tern_sha256(token, sizeof token, token_hash);
    tern_psk_from_token(made->token, made->psk);
    if (provision->several && provision->name[0] != '\0') {
        snprintf(made->name, sizeof made->name, "%s-%" PRIu32, provision->name, i + 1);
    } else {
        snprintf(made->name, sizeof made->name, "%s", provision->name);
    }
    return TERN_OK;
}

static enum tern_result add_one(const struct provision *provision, struct tern_db *db, uint32_t i)
{
    struct made *made = &provision->made[i];
    struct tern_db_client row = {
        .platform = "provisioned", .evaluator = provision->evaluator, .created_ms = tern_now_ms()};
    TERN_TRY(make_identity(provision, i, made, row.token_hash));
    memcpy(row.name, made->name, sizeof row.name);
    memcpy(row.tags, provision->tags, sizeof row.tags);
    TERN_TRY(tern_db_client_add(db, &row));
    made->id = row.id;
    return provision->psk ? tern_db_psk_put(db, row.id, made->psk) : TERN_OK;
}

// TERN_ERR_TOO_LARGE  more clients than limits.clients
static enum tern_result add_all(const struct provision *provision, struct tern_db *db)
{
    struct tern_db_counts counts;
    TERN_TRY(tern_db_counts(db, 0, &counts));
    if (counts.clients + provision->count > tern_state_settings(provision->cli)->limits_clients) {
        return TERN_ERR_TOO_LARGE;
    }
    for (uint32_t i = 0; i < provision->count; i++) {
        TERN_TRY(add_one(provision, db, i));
    }
    return tern_db_audit(
        db, tern_now_ms(), "provision", "", provision->evaluator ? "evaluator" : "",
        "%" PRIu32 " clients from %" PRIu64 " on", provision->count, provision->made[0].id);
}

static enum tern_result store_clients(struct provision *provision, struct tern_db *db)
{
    TERN_TRY(tern_db_federation(db, &provision->federation));
    TERN_TRY(tern_db_begin(db));
    return tern_db_conclude(db, add_all(provision, db));
}

// --- Output

// Waits until a running service has read the new clients. A device that the service does not know yet would stop for good.
static void wait_for_service(const struct tern_cli *cli)
{
    if (tern_state_is_served(cli)) {
        nanosleep(&(struct timespec){.tv_sec = NOTICED_MS / 1000,
                                     .tv_nsec = NOTICED_MS % 1000 * 1000000L},
                  NULL);
    }
}

static cJSON *describe(const struct provision *provision, const struct made *made)
{
    const struct tern_db_federation *federation = &provision->federation;
    char identity[24];
    cJSON *row = cJSON_CreateObject();
    tern_json_u64(row, "client", made->id);
    cJSON_AddStringToObject(row, "name", made->name);
    cJSON_AddStringToObject(row, "token", made->token);
    cJSON_AddBoolToObject(row, "evaluator", provision->evaluator);
    cJSON_AddStringToObject(row, "tags", provision->tags);
    cJSON_AddStringToObject(row, "model", federation->model_spec);
    tern_json_u64(row, "seed", federation->seed);
    tern_json_hash(row, "model_hash", federation->model_hash);
    if (federation->manifest_len > 0) { // the model is not built in
        tern_json_u64(row, "manifest", federation->manifest_len);
    }
    if (provision->psk) {
        snprintf(identity, sizeof identity, "%" PRIu64, made->id);
        cJSON_AddStringToObject(row, "psk_identity", identity);
        tern_json_hash(row, "psk", made->psk);
    }
    return row;
}

static int print_json(const struct provision *provision)
{
    if (!provision->several) {
        return tern_json_print(provision->cli, describe(provision, &provision->made[0]));
    }
    cJSON *rows = cJSON_CreateArray();
    for (uint32_t i = 0; i < provision->count; i++) {
        cJSON_AddItemToArray(rows, describe(provision, &provision->made[i]));
    }
    return tern_json_print(provision->cli, rows);
}

static void print_one(const struct provision *provision, const struct made *made)
{
    const struct tern_db_federation *federation = &provision->federation;
    char hex[2 * TERN_SHA256_SIZE + 1];
    printf("client        %" PRIu64 "\n", made->id);
    if (made->name[0] != '\0') {
        printf("name          %s\n", made->name);
    }
    printf("token         %s\n", made->token);
    printf("model         %s\n", federation->model_spec);
    printf("seed          %" PRIu64 "\n", federation->seed);
    tern_hex_encode(federation->model_hash, TERN_SHA256_SIZE, hex);
    printf("model_hash    %s\n", hex);
    if (provision->psk) {
        tern_hex_encode(made->psk, TERN_PSK_SIZE, hex);
        printf("psk_identity  %" PRIu64 "\npsk           %s\n", made->id, hex);
    }
}

static int print_made(const struct provision *provision)
{
    if (provision->cli->json) {
        return print_json(provision);
    }
    for (uint32_t i = 0; i < provision->count; i++) {
        printf("%s", i > 0 ? "\n" : "");
        print_one(provision, &provision->made[i]);
    }
    fprintf(stderr, "The token%s not shown again.\n",
            provision->count == 1 ? " is" : "s and keys are");
    return TERN_EXIT_OK;
}

// --- The verb

static int provision_clients(struct provision *provision)
{
    struct tern_cli *cli = provision->cli;
    struct tern_db *db;
    TERN_CLI_TRY(tern_state_open(cli, &db));
    enum tern_result result = store_clients(provision, db);
    if (result == TERN_ERR_TOO_LARGE) {
        tern_db_close(db);
        return tern_cli_fail(cli, result,
                             "limits.clients = %" PRIu32
                             " would be exceeded (revoked clients count): raise "
                             "it, or provision fewer",
                             tern_state_settings(cli)->limits_clients);
    }
    if (result != TERN_OK) {
        return tern_state_fail(cli, db, result);
    }
    tern_db_close(db);
    if (provision->psk && !tern_state_settings(cli)->tls_psk) {
        fprintf(stderr,
                "tls.psk is no in these settings: the service refuses the keys until it runs "
                "with tls.psk = yes.\n");
    }
    wait_for_service(cli);
    return print_made(provision);
}

int tern_cli_provision(struct tern_cli *cli)
{
    struct provision provision = {.cli = cli};
    TERN_CLI_TRY(take_options(cli, &provision));
    provision.made = calloc(provision.count, sizeof provision.made[0]);
    if (provision.made == NULL) {
        return tern_cli_fail(cli, TERN_ERR_NO_MEMORY, "no memory for the clients");
    }
    int code = provision_clients(&provision);
    explicit_bzero(provision.made, provision.count * sizeof provision.made[0]);
    free(provision.made);
    return code;
}
