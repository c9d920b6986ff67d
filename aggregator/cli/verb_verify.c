#include "cli/state.h"
#include "cli/verbs.h"
#include "cli/verification.h"

#include "util/bytes.h"
#include <inttypes.h>

static int print_json(struct tern_cli *cli, enum tern_result result,
                      const struct tern_verification *found, const char *why)
{
    cJSON *object = cJSON_CreateObject();
    cJSON_AddBoolToObject(object, "ok", result == TERN_OK);
    tern_json_u64(object, "rounds", found->report.rounds);
    tern_json_u64(object, "updates", found->report.updates);
    tern_json_u64(object, "pruned_rounds", found->pruned);
    tern_json_hash(object, "model_sha256", found->report.model_sha256);
    if (result != TERN_OK) {
        tern_json_u64(object, "differs", found->report.differs);
        cJSON_AddStringToObject(object, "error", tern_result_name(result));
        cJSON_AddStringToObject(object, "why", why);
    }
    int code = tern_json_print(cli, object);
    return result == TERN_OK ? code : TERN_EXIT_FAILED;
}

static void print_found(const struct tern_verification *found)
{
    if (found->pruned == 0) {
        printf("All %" PRIu32 " rounds (%" PRIu64 " updates) give the recorded bits.\n",
               found->report.rounds, found->report.updates);
        return;
    }
    printf("Rounds 1 to %" PRIu32 " were pruned, so that versions cannot be replayed. The %" PRIu64
           " updates since are as received, and\n"
           "the stored weights are those of the newest version.\n",
           found->pruned, found->received);
}

static int print_report(struct tern_cli *cli, enum tern_result result,
                        const struct tern_verification *found, const char *why)
{
    char hash[2 * TERN_SHA256_SIZE + 1];
    if (result != TERN_OK) {
        tern_cli_fail(cli, result, "%s", why);
        return TERN_EXIT_FAILED;
    }
    tern_hex_encode(found->report.model_sha256, TERN_SHA256_SIZE, hash);
    print_found(found);
    printf("Model SHA-256 %s\n", hash);
    return TERN_EXIT_OK;
}

int tern_cli_verify(struct tern_cli *cli)
{
    struct tern_db *db;
    char why[256] = "";
    struct tern_verification found = {.pruned = 0};
    TERN_CLI_TRY(tern_state_open_reading(cli, &db));
    enum tern_result result = tern_verify(db, &found, why);
    tern_db_close(db);
    return cli->json ? print_json(cli, result, &found, why)
                     : print_report(cli, result, &found, why);
}
