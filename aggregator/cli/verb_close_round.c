// Ending the open round before its deadline.
#include "admin/rows.h"
#include "cli/state.h"
#include "cli/verbs.h"

#include <inttypes.h>
#include <stdio.h>

static enum tern_result close_round(struct tern_db *db, struct tern_status *status)
{
    TERN_TRY(tern_db_begin(db));
    return tern_db_conclude(db, tern_round_end_time(db, tern_now_ms(), status));
}

static int print_closed(struct tern_cli *cli, const struct tern_status *status)
{
    const bool served = tern_state_is_served(cli);
    if (cli->json) {
        cJSON *object = cJSON_CreateObject();
        tern_json_u64(object, "round", status->round.round);
        tern_json_u64(object, "reported", status->reported);
        tern_json_bool(object, "served", served);
        return tern_json_print(cli, object);
    }
    const char *when = served ? "now" : "as soon as the service runs (`tern-aggregator serve`)";
    if (status->reported > 0) {
        printf("Round %" PRIu32 " is merged %s, with %" PRIu32 " update%s.\n", status->round.round,
               when, status->reported, status->reported == 1 ? "" : "s");
    } else {
        printf("Round %" PRIu32
               " has no update that could be merged: members that did not report are "
               "replaced %s where others can be, and it closes with what it has at its next "
               "deadline.\n",
               status->round.round, when);
    }
    return TERN_EXIT_OK;
}

int tern_cli_close_round(struct tern_cli *cli)
{
    struct tern_db *db;
    struct tern_status status;
    TERN_CLI_TRY(tern_state_open(cli, &db));
    const enum tern_result result = close_round(db, &status);
    if (result == TERN_ERR_NOT_FOUND) {
        tern_db_close(db);
        tern_cli_fail(
            cli, TERN_ERR_STATE,
            "no round is open; `tern-aggregator status` says what the next one waits for");
        return TERN_EXIT_NOTHING;
    }
    if (result != TERN_OK) {
        return tern_state_fail(cli, db, result);
    }
    tern_db_close(db);
    return print_closed(cli, &status);
}
