// Join codes that were made: listing and cancelling them.
#include "admin/changes.h"
#include "cli/listing.h"
#include "cli/verbs.h"
#include "federation/federation.h"

#include <inttypes.h>
#include <string.h>

// --- Listing

static enum tern_result list_code(struct tern_listing *listing, const struct tern_db_code *code)
{
    char id[TERN_JOIN_CODE_ID];
    struct tern_text_table *table = &listing->table;
    char text[TERN_TEXT];
    uint64_t enrolled = 0;
    tern_join_code_id(code->hash, id);
    TERN_TRY(tern_db_clients_of_code(listing->db, id, &enrolled));
    if (listing->json != NULL) {
        return tern_listing_add(listing, tern_json_listed_code(code, enrolled, listing->now_ms));
    }
    tern_text_cell(table, "%s", id);
    tern_text_cell(table, "%s", tern_code_state(code, listing->now_ms));
    tern_text_cell(table, "%" PRIu32, code->uses_left);
    tern_text_cell(table, "%" PRIu64, enrolled);
    tern_text_cell(table, "%s", tern_text_time(code->expires_ms, text));
    tern_text_cell(table, "%s", code->evaluator ? "yes" : "-");
    tern_text_cell(table, "%s", code->label[0] != '\0' ? tern_text_name(code->label, text) : "-");
    return TERN_OK;
}

static enum tern_result list_all(struct tern_listing *listing)
{
    struct tern_db_code code;
    struct tern_db_rows *rows = tern_db_codes(listing->db);
    while (tern_db_next(rows, &code)) {
        tern_db_check_row(rows, list_code(listing, &code));
    }
    return tern_db_end(rows);
}

// --- Cancelling

static enum tern_result cancel(struct tern_db *db, const char *id, struct tern_db_code *code)
{
    TERN_TRY(tern_db_begin(db));
    enum tern_result result = tern_code_find(db, id, code);
    if (result == TERN_OK) {
        result = tern_db_code_cancel(db, code->hash);
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
        printf("Join code %s %s.\n", id, was_valid ? "is cancelled" : "was not valid any more");
    }
    return was_valid ? TERN_EXIT_OK : TERN_EXIT_NOTHING;
}

int tern_cli_codes(struct tern_cli *cli)
{
    static const struct tern_text_column columns[] = {
        {"ID", TERN_TEXT_WORD},          {"STATE", TERN_TEXT_WORD},
        {"USES LEFT", TERN_TEXT_NUMBER}, {"ENROLLED", TERN_TEXT_NUMBER},
        {"EXPIRES", TERN_TEXT_WORD},     {"EVAL", TERN_TEXT_WORD},
        {"LABEL", TERN_TEXT_LONG},
    };
    static const struct tern_listing_verb verb = {
        TERN_LISTING_COLUMNS(columns),
        .all = list_all,
    };
    const char *id = tern_cli_option(cli, "cancel", NULL);
    return id != NULL ? cancel_code(cli, id) : tern_list(cli, &verb, NULL);
}
