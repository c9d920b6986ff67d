// Clients: listing them, letting them in, shutting them out.
#include "admin/join_code.h"
#include "cli/state.h"
#include "cli/verbs.h"
#include "rounds/error_watch.h"

#include <inttypes.h>
#include <string.h>

struct listing {
    struct tern_db *db;
    cJSON *rows; // NULL: lines for people
    uint64_t now_ms;
    enum tern_result result;
};

static const char *state_of(const struct tern_db_client *client)
{
    if (client->revoked) {
        return "revoked";
    }
    return client->evaluator ? "evaluator" : "active";
}

static void add_row(const struct listing *listing, const struct tern_db_client *client,
                    const struct tern_db_schedule *schedule, uint32_t finding)
{
    cJSON *row = cJSON_CreateObject();
    tern_json_u64(row, "id", client->id);
    cJSON_AddStringToObject(row, "name", client->name);
    cJSON_AddStringToObject(row, "platform", client->platform);
    cJSON_AddBoolToObject(row, "evaluator", client->evaluator);
    cJSON_AddBoolToObject(row, "revoked", client->revoked);
    cJSON_AddBoolToObject(row, "psk", client->has_psk);
    tern_json_u64(row, "created_ms", client->created_ms);
    tern_json_u64(row, "last_seen_ms", client->last_seen_ms);
    tern_json_float(row, "steps_per_second", client->steps_per_second);
    tern_json_u64(row, "version", client->version);
    tern_json_hash(row, "replica", client->replica);
    tern_json_u64(row, "local_steps", schedule->local_steps);
    cJSON_AddStringToObject(row, "local_steps_reason", schedule->reason);
    cJSON_AddStringToObject(row, "finding", tern_error_finding_name(finding));
    cJSON_AddItemToArray(listing->rows, row);
}

static void print_row(const struct listing *listing, const struct tern_db_client *client,
                      const struct tern_db_schedule *schedule, uint32_t finding)
{
    char name[TERN_TEXT];
    char seen[TERN_TEXT];
    tern_text_name(client->name, name);
    tern_text_ago(client->last_seen_ms, listing->now_ms, seen);
    printf("%6" PRIu64 "  %-20s %-10s %-16s %8" PRIu32 " %10.1f %6" PRIu32 "  %-9s %s\n",
           client->id, name, state_of(client), seen, client->version,
           (double)client->steps_per_second, schedule->local_steps,
           finding != TERN_FINDING_NONE ? tern_error_finding_name(finding) : "-", schedule->reason);
}

static bool list_client(void *ctx, const struct tern_db_client *client)
{
    struct listing *listing = ctx;
    struct tern_db_schedule schedule = {.local_steps = 0};
    struct tern_db_ledger ledger = {.finding = TERN_FINDING_NONE};
    enum tern_result result = tern_db_schedule_get(listing->db, client->id, &schedule);
    if (result == TERN_OK || result == TERN_ERR_NOT_FOUND) {
        result = tern_db_ledger_get(listing->db, client->id, &ledger);
    }
    if (result != TERN_OK && result != TERN_ERR_NOT_FOUND) {
        listing->result = result;
        return false;
    }
    if (listing->rows != NULL) {
        add_row(listing, client, &schedule, ledger.finding);
    } else {
        print_row(listing, client, &schedule, ledger.finding);
    }
    return true;
}

int tern_cli_clients(struct tern_cli *cli)
{
    int code;
    struct tern_db *db = tern_state_open_reading(cli, &code);
    if (db == NULL) {
        return code;
    }
    struct listing listing = {.db = db, .now_ms = tern_now_ms()};
    if (cli->json) {
        listing.rows = cJSON_CreateArray();
    } else {
        printf("%6s  %-20s %-10s %-16s %8s %10s %6s  %-9s\n", "ID", "NAME", "STATE", "LAST SEEN",
               "VERSION", "STEPS/S", "STEPS", "FINDING");
    }
    enum tern_result result = tern_db_client_each(db, list_client, &listing);
    result = result == TERN_OK ? listing.result : result;
    if (result != TERN_OK) {
        cJSON_Delete(listing.rows);
        return tern_state_fail(cli, db, result);
    }
    tern_db_close(db);
    return cli->json ? tern_json_print(cli, listing.rows) : TERN_EXIT_OK;
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
    if (strlen(label) >= sizeof code->label) {
        return tern_cli_fail(cli, TERN_ERR_CONFIG, "--label is longer than %zu characters",
                             sizeof code->label - 1);
    }
    if (tern_cli_number(cli, "uses", 1, 1, 1000000000, &uses) != TERN_OK) {
        return TERN_EXIT_USAGE;
    }
    int failed = take_expires(cli, &expires);
    if (failed != 0) {
        return failed;
    }
    memcpy(code->label, label, strlen(label) + 1);
    code->uses_left = (uint32_t)uses;
    code->created_ms = tern_now_ms();
    code->expires_ms = code->created_ms + expires;
    return TERN_EXIT_OK;
}

static int print_code(struct tern_cli *cli, const struct tern_db_code *code, const char *text)
{
    char until[TERN_TEXT];
    if (!cli->json) {
        printf("%s\n", text);
        fprintf(stderr, "For %" PRIu32 " client%s, until %s. It is not shown again.\n",
                code->uses_left, code->uses_left == 1 ? "" : "s",
                tern_text_time(code->expires_ms, until));
        return TERN_EXIT_OK;
    }
    cJSON *made = cJSON_CreateObject();
    cJSON_AddStringToObject(made, "code", text);
    tern_json_u64(made, "uses", code->uses_left);
    tern_json_u64(made, "expires_ms", code->expires_ms);
    cJSON_AddStringToObject(made, "label", code->label);
    return tern_json_print(cli, made);
}

static enum tern_result store_code(struct tern_db *db, const struct tern_db_code *code)
{
    TERN_TRY(tern_db_begin(db));
    enum tern_result result = tern_db_code_add(db, code);
    if (result != TERN_OK) {
        tern_db_rollback(db);
        return result;
    }
    return tern_db_commit(db);
}

int tern_cli_enroll_code(struct tern_cli *cli)
{
    struct tern_db_code code = {.uses_left = 1};
    char text[TERN_JOIN_CODE_TEXT];
    int failed = take_code_options(cli, &code);
    if (failed != 0) {
        return failed;
    }
    if (tern_join_code_make(&code, text) != TERN_OK) {
        return tern_cli_fail(cli, TERN_ERR_IO, "the system gives no random bytes");
    }
    struct tern_db *db = tern_state_open(cli, &failed);
    if (db == NULL) {
        return failed;
    }
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
    if (result != TERN_OK) {
        tern_db_rollback(db);
        return result;
    }
    return tern_db_commit(db);
}

static int print_revoked(struct tern_cli *cli, const struct tern_db_client *client)
{
    char name[TERN_TEXT];
    if (!cli->json) {
        printf("Client %" PRIu64 " (%s) %s revoked.\n", client->id,
               tern_text_name(client->name, name), client->revoked ? "was already" : "is");
    } else {
        cJSON *row = cJSON_CreateObject();
        tern_json_u64(row, "client", client->id);
        cJSON_AddBoolToObject(row, "was_revoked", client->revoked);
        int code = tern_json_print(cli, row);
        if (code != TERN_EXIT_OK) {
            return code;
        }
    }
    return client->revoked ? TERN_EXIT_NOTHING : TERN_EXIT_OK;
}

int tern_cli_revoke(struct tern_cli *cli)
{
    uint64_t id;
    int code;
    struct tern_db_client client;
    if (!tern_state_client(cli, &id, &code)) {
        return code;
    }
    struct tern_db *db = tern_state_open(cli, &code);
    if (db == NULL) {
        return code;
    }
    enum tern_result result = revoke(db, id, &client);
    if (result != TERN_OK) {
        return tern_state_client_fail(cli, db, id, result);
    }
    tern_db_close(db);
    return print_revoked(cli, &client);
}
