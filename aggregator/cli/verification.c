#include "cli/verification.h"

#include "cli/state.h"
#include "cli/verbs.h"
#include "merge/merge.h"
#include "util/bytes.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void show_progress(void *ctx, uint32_t version)
{
    (void)ctx;
    fprintf(stderr, "\rversion %" PRIu32, version);
}

// Checks that the stored weights are those of the newest version.
static enum tern_result check_weights(struct tern_db *db, char why[256])
{
    static struct tern_merge merge;
    struct tern_db_federation federation;
    TERN_TRY(tern_db_federation(db, &federation));
    enum tern_result result = tern_merge_init(&merge, &federation, NULL);
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

// Checks the tensors that are kept for export, which nothing else reads.
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

static enum tern_result check_audit(struct tern_db *db, char why[256])
{
    struct tern_db_audit_check check;
    TERN_TRY(tern_db_audit_verify(db, &check));
    if (check.broken == 0) {
        return TERN_OK;
    }
    snprintf(why, 256,
             "row %" PRIu64 " of the audit log is missing or was changed, or the row before it; "
             "compare with a backup",
             check.broken);
    return TERN_ERR_CORRUPT;
}

// --- After a prune

// Numbers of updates of one round with and without a body.
struct bodies {
    uint32_t kept;
    uint32_t lost;
};

// The store has compared the body with its hash.
static enum tern_result count_body(void *ctx, const struct tern_db_update *update)
{
    struct bodies *bodies = ctx;
    bodies->kept += update->body != NULL;
    bodies->lost += update->body == NULL;
    return TERN_OK;
}

static enum tern_result check_bodies(struct tern_db *db, uint32_t round,
                                     struct tern_verification *found, char why[256])
{
    struct bodies bodies = {0};
    TERN_TRY(tern_db_update_each(db, round, count_body, &bodies));
    if (bodies.lost > 0) {
        snprintf(why, 256,
                 "round %" PRIu32 ": %" PRIu32 " of its updates are missing, and it was not "
                 "pruned; restore a backup",
                 round, bodies.lost);
        return TERN_ERR_CORRUPT;
    }
    found->received += bodies.kept;
    return TERN_OK;
}

// Compares the weights that a round restored with the hash of its version.
static enum tern_result check_restored(struct tern_db *db, struct tern_merge *merge,
                                       const struct tern_db_round *round, char why[256])
{
    struct tern_db_version version;
    uint8_t sha256[TERN_SHA256_SIZE];
    TERN_TRY(tern_db_version_get(db, round->base_version + 1, &version));
    const enum tern_result result = tern_db_pinned_get(
        db, round->strategy_parameters, round->restored, merge->global, merge->model.count);
    tern_merge_hash(merge->global, merge->model.count, sha256);
    if (result == TERN_OK && memcmp(sha256, version.model_sha256, sizeof sha256) == 0) {
        return TERN_OK;
    }
    snprintf(why, 256,
             "the weights that round %" PRIu32 " restored are missing, damaged or not those of "
             "version %" PRIu32 "; restore a backup",
             round->round, version.version);
    return result == TERN_ERR_IO ? result : TERN_ERR_CORRUPT;
}

static enum tern_result check_round(struct tern_db *db, struct tern_merge *merge,
                                    const struct tern_db_round *round,
                                    struct tern_verification *found, char why[256])
{
    const bool restored = round->mode == TERN_ROUND_RESTORED;
    if (round->state != TERN_ROUND_COMMITTED) {
        return TERN_OK;
    }
    if (restored && round->strategy_parameters[0] != '\0') {
        found->by_hash++;
        found->last_by_hash = round->base_version + 1;
    }
    if (round->round <= found->pruned) {
        return TERN_OK;
    }
    return restored ? check_restored(db, merge, round, why)
                    : check_bodies(db, round->round, found, why);
}

// Checks the updates and the restored weights of all rounds after the pruned ones.
static enum tern_result check_received(struct tern_db *db, struct tern_verification *found,
                                       char why[256])
{
    static struct tern_merge merge;
    struct tern_db_federation federation;
    struct tern_db_round round;
    TERN_TRY(tern_db_federation(db, &federation));
    TERN_TRY(tern_merge_init(&merge, &federation, NULL));
    struct tern_db_rows *rows = tern_db_rounds(db);
    while (tern_db_next(rows, &round)) {
        tern_db_check_row(rows, check_round(db, &merge, &round, found, why));
    }
    const enum tern_result result = tern_db_end(rows);
    tern_merge_free(&merge);
    return result;
}

static enum tern_result check_after_prune(struct tern_db *db, struct tern_verification *found,
                                          char why[256])
{
    struct tern_db_version newest;
    TERN_TRY(check_received(db, found, why));
    TERN_TRY(tern_db_version_last(db, &newest));
    memcpy(found->report.model_sha256, newest.model_sha256, TERN_SHA256_SIZE);
    return TERN_OK;
}

// --- The whole database

static enum tern_result replay_all(struct tern_db *db, struct tern_verification *found,
                                   char why[256])
{
    bool watched = isatty(STDERR_FILENO) == 1;
    const enum tern_result result =
        tern_replay(db, watched ? show_progress : NULL, NULL, &found->report, why);
    if (watched) {
        fprintf(stderr, "\r%20s\r", "");
    }
    return result;
}

enum tern_result tern_verify(struct tern_db *db, struct tern_verification *found, char why[256])
{
    enum tern_result result = tern_db_check(db);
    if (result != TERN_OK) {
        snprintf(why, 256, "%s", tern_db_error(db));
        return result;
    }
    TERN_TRY(check_kept(db, why));
    TERN_TRY(check_audit(db, why));
    struct tern_db_counts counts;
    result = tern_db_counts(db, 0, &counts);
    if (result == TERN_OK) {
        found->pruned = (uint32_t)counts.rounds_pruned;
        result = found->pruned > 0 ? check_after_prune(db, found, why) : replay_all(db, found, why);
    }
    if (result == TERN_ERR_IO) { // the store has the reason
        snprintf(why, 256, "%s", tern_db_error(db));
    }
    return result == TERN_OK ? check_weights(db, why) : result;
}

// --- The verb verify

static int print_json(struct tern_cli *cli, enum tern_result result,
                      const struct tern_verification *found, const char *why)
{
    cJSON *object = cJSON_CreateObject();
    cJSON_AddBoolToObject(object, "ok", result == TERN_OK);
    tern_json_u64(object, "rounds", found->report.rounds);
    tern_json_u64(object, "updates", found->report.updates);
    tern_json_u64(object, "rejections", found->report.rejections);
    tern_json_u64(object, "rejections_by_hash", found->by_hash);
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
        printf("Replaying all %" PRIu32 " rounds (%" PRIu64 " updates) makes the recorded bits.\n",
               found->report.rounds, found->report.updates);
        if (found->report.rejections > 0) {
            printf("So does replaying them again for each `reject` (%" PRIu32 ").\n",
                   found->report.rejections);
        }
        return;
    }
    printf("Rounds 1 to %" PRIu32 " were pruned, so that versions cannot be replayed. The %" PRIu64
           " updates since are intact, and\n"
           "the stored weights are those of the newest version.\n",
           found->pruned, found->received);
    if (found->by_hash > 0) {
        printf("Versions made by `reject`: %" PRIu32 ", the last one is version %" PRIu32
               ". Only their recorded hashes confirm them,\n"
               "because updates that made them were pruned.\n",
               found->by_hash, found->last_by_hash);
    }
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
