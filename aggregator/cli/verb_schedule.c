// schedule: how much each client trains, how it encodes its update, and why.
#include "cli/listing.h"
#include "cli/verbs.h"

#include <inttypes.h>

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
    static const char *const columns[] = {
        "name", "steps_per_second", "budgeted", "budget_left", "budget_spent", "metered", NULL};
    cJSON *object = tern_json_schedule(row);
    tern_json_client_columns(object, client, columns);
    return object;
}

static enum tern_result list_row(struct tern_listing *listing, const struct tern_db_schedule *row)
{
    struct tern_db_client client;
    struct tern_text_table *table = &listing->table;
    char text[TERN_TEXT];
    TERN_TRY(tern_db_client_get(listing->db, row->client, &client));
    if (listing->json != NULL) {
        return tern_listing_add(listing, json_of(row, &client));
    }
    tern_text_cell(table, "%" PRIu64, row->client);
    tern_text_cell(table, "%s", tern_text_name(client.name, text));
    tern_text_cell(table, "%" PRIu32, row->local_steps);
    tern_text_cell(table, "%s", tern_text_name(codec_of(row), text));
    tern_text_cell(table, "%s", row->reason[0] != '\0' ? tern_text_name(row->reason, text) : "-");
    return TERN_OK;
}

static enum tern_result list_all(struct tern_listing *listing)
{
    struct tern_db_schedule row;
    struct tern_db_rows *rows = tern_db_schedules(listing->db);
    while (tern_db_next(rows, &row)) {
        tern_db_check_row(rows, list_row(listing, &row));
    }
    return tern_db_end(rows);
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
    printf("policy       %s\n", tern_text_name(policy_of(row), text));
    printf("local steps  %" PRIu32 "\n", row->local_steps);
    printf("codec        %s\n", tern_text_name(codec_of(row), text));
    printf("reason       %s\n", tern_text_name(row->reason, text));
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

static enum tern_result show_one(struct tern_listing *listing, const struct tern_db_client *client)
{
    struct tern_db_schedule row;
    TERN_TRY(tern_db_schedule_get(listing->db, client->id, &row));
    if (listing->json != NULL) {
        return tern_listing_add(listing, json_of(&row, client));
    }
    print_one(&row, client);
    return TERN_OK;
}

int tern_cli_schedule(struct tern_cli *cli)
{
    static const struct tern_text_column columns[] = {
        {"CLIENT", TERN_TEXT_NUMBER}, {"NAME", TERN_TEXT_LONG},   {"STEPS", TERN_TEXT_NUMBER},
        {"CODEC", TERN_TEXT_LONG},    {"REASON", TERN_TEXT_LONG},
    };
    static const struct tern_listing_verb verb = {
        TERN_LISTING_COLUMNS(columns),
        .all = list_all,
        .one = show_one,
        .nothing = "has not had a task yet",
    };
    return tern_list(cli, &verb, NULL);
}
