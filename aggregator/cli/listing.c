#include "cli/listing.h"

#include "cli/csv_rows.h"

#include <inttypes.h>

enum tern_result tern_listing_add(struct tern_listing *listing, cJSON *object)
{
    if (object == NULL) {
        return TERN_ERR_NO_MEMORY;
    }
    if (cJSON_IsArray(listing->json)) {
        cJSON_AddItemToArray(listing->json, object);
    } else {
        cJSON_Delete(listing->json);
        listing->json = object;
    }
    return TERN_OK;
}

static enum tern_result list_all(struct tern_listing *listing, const struct tern_listing_verb *verb)
{
    if (listing->cli->json || listing->csv) {
        listing->json = cJSON_CreateArray();
        return verb->all(listing);
    }
    listing->table = (struct tern_text_table)TERN_TEXT_TABLE_OF(verb->columns, verb->column_count);
    TERN_TRY(verb->all(listing));
    TERN_TRY(tern_text_table_print(&listing->table, stdout));
    return verb->below != NULL ? verb->below(listing) : TERN_OK;
}

static int finish(struct tern_listing *listing, enum tern_result result)
{
    if (result != TERN_OK) {
        cJSON_Delete(listing->json);
        tern_text_table_free(&listing->table);
        return tern_state_fail(listing->cli, listing->db, result);
    }
    tern_db_close(listing->db);
    if (listing->csv) {
        return tern_csv_print(listing->cli, listing->json);
    }
    return listing->cli->json ? tern_json_print(listing->cli, listing->json) : TERN_EXIT_OK;
}

static int list_one(struct tern_listing *listing, const struct tern_listing_verb *verb, uint64_t id)
{
    struct tern_db_client client;
    enum tern_result result = tern_db_client_get(listing->db, id, &client);
    if (result != TERN_OK) {
        return tern_state_client_fail(listing->cli, listing->db, id, result);
    }
    if (listing->cli->json || listing->csv) {
        listing->json = cJSON_CreateNull();
    }
    result = verb->one(listing, &client);
    if (result == TERN_ERR_NOT_FOUND) {
        cJSON_Delete(listing->json);
        tern_db_close(listing->db);
        tern_cli_fail(listing->cli, result, "client %" PRIu64 " %s", id, verb->nothing);
        return TERN_EXIT_NOTHING;
    }
    return finish(listing, result);
}

int tern_list(struct tern_cli *cli, const struct tern_listing_verb *verb, const void *ctx)
{
    uint64_t id = 0;
    TERN_CLI_TRY(verb->one != NULL ? tern_state_client(cli, &id) : TERN_EXIT_OK);
    struct tern_listing listing = {.cli = cli, .now_ms = tern_now_ms(), .ctx = ctx};
    listing.csv = tern_cli_flag(cli, "csv");
    if (listing.csv && cli->json) {
        return tern_cli_fail(cli, TERN_ERR_CONFIG, "--csv and --json exclude each other");
    }
    TERN_CLI_TRY(tern_state_open_reading(cli, &listing.db));
    return id > 0 ? list_one(&listing, verb, id) : finish(&listing, list_all(&listing, verb));
}
