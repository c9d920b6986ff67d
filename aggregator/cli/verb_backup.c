// backup: a copy of the database. prune: fewer bytes in it.
#include "cli/state.h"
#include "cli/verbs.h"

#include <inttypes.h>
#include <sys/stat.h>

int tern_cli_backup(struct tern_cli *cli)
{
    struct tern_db *db;
    char why[256] = "";
    struct stat status;
    const char *file = cli->arguments[0];
    TERN_CLI_TRY(tern_state_open(cli, &db));
    enum tern_result result = tern_db_backup(db, file, why);
    tern_db_close(db);
    if (result != TERN_OK || stat(file, &status) != 0) {
        tern_cli_fail(cli, result, "%s", why);
        return TERN_EXIT_FAILED;
    }
    if (!cli->json) {
        printf("Copied the database to %s (%lld bytes).\n", file, (long long)status.st_size);
        return TERN_EXIT_OK;
    }
    cJSON *object = cJSON_CreateObject();
    cJSON_AddStringToObject(object, "file", file);
    tern_json_u64(object, "bytes", (uint64_t)status.st_size);
    return tern_json_print(cli, object);
}

// --- Retention

static enum tern_result drop(struct tern_db *db, uint32_t before_round)
{
    TERN_TRY(tern_db_begin(db));
    return tern_db_conclude(db, tern_db_update_prune(db, before_round));
}

static enum tern_result prune(struct tern_db *db, uint64_t keep, uint64_t *dropped)
{
    struct tern_db_counts before;
    struct tern_db_counts after;
    struct tern_db_round newest = {.round = 0};
    TERN_TRY(tern_db_counts(db, 0, &before));
    TERN_TRY(tern_db_may_miss(tern_db_round_last(db, &newest)));
    if (newest.round > keep) {
        TERN_TRY(drop(db, newest.round - (uint32_t)keep + 1));
    }
    TERN_TRY(tern_db_counts(db, 0, &after));
    *dropped = before.update_bodies - after.update_bodies;
    return TERN_OK;
}

int tern_cli_prune(struct tern_cli *cli)
{
    struct tern_db *db;
    uint64_t keep;
    uint64_t dropped = 0;
    if (!tern_cli_flag(cli, "keep")) {
        return tern_cli_fail(cli, TERN_ERR_CONFIG, "--keep ROUNDS is missing");
    }
    if (tern_cli_number(cli, "keep", 0, 1, UINT32_MAX, &keep) != TERN_OK) {
        return TERN_EXIT_USAGE;
    }
    TERN_CLI_TRY(tern_state_open(cli, &db));
    enum tern_result result = prune(db, keep, &dropped);
    if (result != TERN_OK) {
        return tern_state_fail(cli, db, result);
    }
    tern_db_close(db);
    if (cli->json) {
        cJSON *object = cJSON_CreateObject();
        tern_json_u64(object, "dropped", dropped);
        TERN_CLI_TRY(tern_json_print(cli, object));
    } else {
        printf("Dropped the bytes of %" PRIu64 " updates.\n", dropped);
    }
    return dropped > 0 ? TERN_EXIT_OK : TERN_EXIT_NOTHING;
}
