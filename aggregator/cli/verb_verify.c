#include "cli/state.h"
#include "cli/verbs.h"

#include "merge/merge.h"
#include "merge/replay.h"
#include "util/bytes.h"
#include <inttypes.h>
#include <stdlib.h>
#include <unistd.h>

static void show_progress(void *ctx, uint32_t version)
{
    (void)ctx;
    fprintf(stderr, "\rversion %" PRIu32, version);
}

// The weights that the service would go on from must be those of the newest version.
static enum tern_result check_weights(struct tern_db *db, char why[256])
{
    static struct tern_merge merge;
    struct tern_db_federation federation;
    TERN_TRY(tern_db_federation(db, &federation));
    enum tern_result result = tern_merge_init(&merge, &federation);
    if (result == TERN_OK) {
        result = tern_merge_load(&merge, db);
        tern_merge_free(&merge);
    }
    if (result == TERN_ERR_NOT_FOUND) { // never served
        return TERN_OK;
    }
    if (result != TERN_OK) {
        snprintf(why, 256, "the stored weights are not those of the newest version (%s)",
                 tern_result_name(result));
    }
    return result;
}

// What only an export would read otherwise.
static enum tern_result check_kept(struct tern_db *db, char why[256])
{
    uint8_t *kept = NULL;
    size_t len = 0;
    const enum tern_result result = tern_db_kept_get(db, &kept, &len);
    free(kept);
    if (result == TERN_OK || result == TERN_ERR_NOT_FOUND) {
        return TERN_OK;
    }
    snprintf(why, 256, "%s", tern_db_error(db));
    return result;
}

static enum tern_result verify(struct tern_db *db, struct tern_replay_report *report, char why[256])
{
    enum tern_result result = tern_db_check(db);
    if (result != TERN_OK) {
        snprintf(why, 256, "%s", tern_db_error(db));
        return result;
    }
    TERN_TRY(check_kept(db, why));
    bool watched = isatty(STDERR_FILENO) == 1;
    result = tern_service_replay(db, watched ? show_progress : NULL, NULL, report, why);
    if (watched) {
        fprintf(stderr, "\r%20s\r", "");
    }
    if (result == TERN_ERR_IO) { // the store knows more
        snprintf(why, 256, "%s", tern_db_error(db));
    }
    return result == TERN_OK ? check_weights(db, why) : result;
}

static int print_json(struct tern_cli *cli, enum tern_result result,
                      const struct tern_replay_report *report, const char *why)
{
    cJSON *object = cJSON_CreateObject();
    cJSON_AddBoolToObject(object, "ok", result == TERN_OK);
    tern_json_u64(object, "rounds", report->rounds);
    tern_json_u64(object, "updates", report->updates);
    tern_json_hash(object, "model_sha256", report->model_sha256);
    if (result != TERN_OK) {
        tern_json_u64(object, "differs", report->differs);
        cJSON_AddStringToObject(object, "error", tern_result_name(result));
        cJSON_AddStringToObject(object, "why", why);
    }
    int code = tern_json_print(cli, object);
    return result == TERN_OK ? code : TERN_EXIT_FAILED;
}

static int print_report(struct tern_cli *cli, enum tern_result result,
                        const struct tern_replay_report *report, const char *why)
{
    char hash[2 * TERN_SHA256_SIZE + 1];
    if (result != TERN_OK) {
        tern_cli_fail(cli, result, "%s", why);
        return TERN_EXIT_FAILED;
    }
    tern_hex_encode(report->model_sha256, TERN_SHA256_SIZE, hash);
    printf("All %" PRIu32 " rounds (%" PRIu64 " updates) give the recorded bits.\n"
           "Model SHA-256 %s\n",
           report->rounds, report->updates, hash);
    return TERN_EXIT_OK;
}

int tern_cli_verify(struct tern_cli *cli)
{
    struct tern_db *db;
    char why[256] = "";
    struct tern_replay_report report = {0};
    TERN_CLI_TRY(tern_state_open_reading(cli, &db));
    enum tern_result result = verify(db, &report, why);
    tern_db_close(db);
    return cli->json ? print_json(cli, result, &report, why)
                     : print_report(cli, result, &report, why);
}
