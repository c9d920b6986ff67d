// Join codes that were made: listing and cancelling them.
#include "admin/rows.h"
#include "cli/listing.h"
#include "cli/verbs.h"
#include "federation/federation.h"

#include <inttypes.h>
#include <string.h>

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
    const char *id = tern_cli_option(cli, "cancel", NULL);
    return id != NULL ? cancel_code(cli, id) : tern_list(cli, &tern_view_codes, NULL);
}
