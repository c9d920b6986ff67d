// schedule: how much each client trains, how it encodes its update, and why.
#include "cli/state.h"
#include "cli/verbs.h"

#include <inttypes.h>

struct listing {
    struct tern_db *db;
    cJSON *rows; // NULL: lines for people
    uint64_t now_ms;
    enum tern_result result;
};

static const char *policy_of(const struct tern_db_schedule *row)
{
    return row->policy[0] != '\0' ? row->policy : "-";
}

static const char *codec_of(const struct tern_db_schedule *row)
{
    return row->codec[0] != '\0' ? row->codec : "the round's";
}

static cJSON *json_of(const struct tern_db_schedule *row, const struct tern_db_client *client)
{
    cJSON *object = cJSON_CreateObject();
    tern_json_u64(object, "client", row->client);
    cJSON_AddStringToObject(object, "name", client->name);
    cJSON_AddStringToObject(object, "policy", row->policy);
    tern_json_u64(object, "local_steps", row->local_steps);
    cJSON_AddStringToObject(object, "codec", row->codec);
    cJSON_AddStringToObject(object, "reason", row->reason);
    tern_json_u64(object, "updated_ms", row->updated_ms);
    tern_json_float(object, "steps_per_second", client->steps_per_second);
    cJSON_AddBoolToObject(object, "budgeted", client->budgeted);
    tern_json_u64(object, "budget_left", client->budget_left);
    tern_json_u64(object, "budget_spent", client->budget_spent);
    tern_json_u64(object, "round_bytes", row->bytes);
    tern_json_u64(object, "least_bytes", row->least_bytes);
    cJSON_AddBoolToObject(object, "metered", client->metered);
    return object;
}

static void print_row(const struct listing *listing, const struct tern_db_schedule *row,
                      const struct tern_db_client *client)
{
    char name[TERN_TEXT];
    char when[TERN_TEXT];
    tern_text_name(client->name, name);
    tern_text_ago(row->updated_ms, listing->now_ms, when);
    printf("%6" PRIu64 "  %-20s %-24s %6" PRIu32 "  %-28s %-16s %s\n", row->client, name,
           policy_of(row), row->local_steps, codec_of(row), when, row->reason);
}

static bool list_row(void *ctx, const struct tern_db_schedule *row)
{
    struct listing *listing = ctx;
    struct tern_db_client client;
    listing->result = tern_db_client_get(listing->db, row->client, &client);
    if (listing->result != TERN_OK) {
        return false;
    }
    if (listing->rows != NULL) {
        cJSON_AddItemToArray(listing->rows, json_of(row, &client));
    } else {
        print_row(listing, row, &client);
    }
    return true;
}

static int list_all(struct tern_cli *cli, struct tern_db *db)
{
    struct listing listing = {.db = db, .now_ms = tern_now_ms()};
    if (cli->json) {
        listing.rows = cJSON_CreateArray();
    } else {
        printf("%6s  %-20s %-24s %6s  %-28s %-16s %s\n", "CLIENT", "NAME", "POLICY", "STEPS",
               "CODEC", "WHEN", "REASON");
    }
    enum tern_result result = tern_db_schedule_each(db, list_row, &listing);
    result = result == TERN_OK ? listing.result : result;
    if (result != TERN_OK) {
        cJSON_Delete(listing.rows);
        return tern_state_fail(cli, db, result);
    }
    tern_db_close(db);
    return cli->json ? tern_json_print(cli, listing.rows) : TERN_EXIT_OK;
}

// --- One client

// As the client last told, less what its tasks since are expected to take.
static double budget_left(const struct tern_db_client *client)
{
    uint64_t left = client->budget_left;
    return left > client->budget_spent ? (double)(left - client->budget_spent) : 0.0;
}

static void print_one(const struct tern_db_schedule *row, const struct tern_db_client *client)
{
    char text[TERN_TEXT];
    printf("client       %" PRIu64 " (%s)\n", row->client, tern_text_name(client->name, text));
    printf("policy       %s\n", policy_of(row));
    printf("local steps  %" PRIu32 "\n", row->local_steps);
    printf("codec        %s\n", codec_of(row));
    printf("reason       %s\n", row->reason);
    printf("when         %s\n", tern_text_time(row->updated_ms, text));
    printf("speed        %.2f steps/s\n", (double)client->steps_per_second);
    printf("budget       %s\n",
           client->budgeted ? tern_text_bytes(budget_left(client), text) : "none");
    if (row->bytes != 0) {
        char least[TERN_TEXT];
        printf("a round      %s, at the least %s\n", tern_text_bytes((double)row->bytes, text),
               tern_text_bytes((double)row->least_bytes, least));
    }
}

static int show_one(struct tern_cli *cli, struct tern_db *db, uint64_t id)
{
    struct tern_db_client client;
    struct tern_db_schedule row;
    enum tern_result result = tern_db_client_get(db, id, &client);
    if (result != TERN_OK) {
        return tern_state_client_fail(cli, db, id, result);
    }
    result = tern_db_schedule_get(db, id, &row);
    if (result != TERN_OK && result != TERN_ERR_NOT_FOUND) {
        return tern_state_fail(cli, db, result);
    }
    tern_db_close(db);
    if (result == TERN_ERR_NOT_FOUND) {
        tern_cli_fail(cli, result, "client %" PRIu64 " has not had a task yet", id);
        return TERN_EXIT_NOTHING;
    }
    if (cli->json) {
        return tern_json_print(cli, json_of(&row, &client));
    }
    print_one(&row, &client);
    return TERN_EXIT_OK;
}

int tern_cli_schedule(struct tern_cli *cli)
{
    int code;
    uint64_t id;
    if (!tern_state_client(cli, &id, &code)) {
        return code;
    }
    struct tern_db *db = tern_state_open_reading(cli, &code);
    if (db == NULL) {
        return code;
    }
    return id > 0 ? show_one(cli, db, id) : list_all(cli, db);
}
