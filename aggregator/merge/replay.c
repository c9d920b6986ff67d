#include "merge/replay.h"

#include "merge/merge.h"
#include <stdio.h>
#include <string.h>

struct replay {
    struct tern_db *db;
    struct tern_merge merge;
    struct tern_replay_report *report;
    void (*progress)(void *ctx, uint32_t version);
    void *ctx;
    char *why;
};

static enum tern_result differs(struct replay *replay, const char *what)
{
    replay->report->differs = replay->merge.version;
    snprintf(replay->why, 256, "version %u: the replayed %s differs from the recorded one",
             replay->merge.version, what);
    return TERN_ERR_CORRUPT;
}

// Compares the stored states with the replayed ones, because the service continues from the stored ones.
static enum tern_result compare_states(struct replay *replay)
{
    uint32_t checkpoint = 0;
    TERN_TRY(tern_db_checkpoint(replay->db, &checkpoint));
    if (checkpoint != replay->merge.version) {
        return TERN_OK;
    }
    enum tern_result result = tern_merge_check_states(&replay->merge, replay->db);
    return result == TERN_ERR_CORRUPT ? differs(replay, "state of the strategy or averaged model")
                                      : result;
}

// Compares the version just made with its row.
static enum tern_result compare(struct replay *replay)
{
    const struct tern_merge *merge = &replay->merge;
    struct tern_db_version version;
    enum tern_result found = tern_db_version_get(replay->db, merge->version, &version);
    if (found == TERN_ERR_NOT_FOUND) {
        return differs(replay, "history (the row is missing)");
    }
    TERN_TRY(found);
    memcpy(replay->report->model_sha256, merge->model_sha256, TERN_SHA256_SIZE);
    if (memcmp(merge->model_sha256, version.model_sha256, TERN_SHA256_SIZE) != 0) {
        return differs(replay, "global model");
    }
    if (memcmp(merge->replica_id, version.replica, TERN_SHA256_SIZE) != 0) {
        return differs(replay, "download or replica");
    }
    if (replay->progress != NULL) {
        replay->progress(replay->ctx, merge->version);
    }
    return TERN_OK;
}

static enum tern_result replay_round(struct replay *replay, const struct tern_db_round *round)
{
    struct tern_download_made made;
    struct tern_strategy_report merged;
    enum tern_result result = tern_merge_round(&replay->merge, replay->db, round, &made, &merged);
    if (result != TERN_OK) {
        snprintf(replay->why, 256, "round %u cannot be replayed: %s", round->round,
                 result == TERN_ERR_NOT_FOUND ? "its updates are no longer kept"
                                              : tern_result_sentence(result));
        return result;
    }
    TERN_TRY(compare(replay));
    TERN_TRY(compare_states(replay));
    replay->report->rounds++;
    replay->report->updates += merged.updates;
    return TERN_OK;
}

static enum tern_result replay_rounds(struct replay *replay)
{
    struct tern_db_round round;
    struct tern_db_rows *rows = tern_db_rounds(replay->db);
    while (tern_db_next(rows, &round)) {
        if (round.state == TERN_ROUND_COMMITTED) {
            tern_db_check_row(rows, replay_round(replay, &round));
        }
    }
    return tern_db_end(rows);
}

// Replays version 0. A federation that was never served has no row for it, and nothing to compare.
static enum tern_result replay_first(struct replay *replay)
{
    struct tern_db_version row;
    TERN_TRY(tern_merge_first(&replay->merge, replay->db));
    enum tern_result found = tern_db_version_get(replay->db, 0, &row);
    if (found == TERN_ERR_NOT_FOUND) {
        memcpy(replay->report->model_sha256, replay->merge.model_sha256, TERN_SHA256_SIZE);
        return TERN_OK;
    }
    TERN_TRY(found);
    return compare(replay);
}

enum tern_result tern_replay(struct tern_db *db, void (*progress)(void *ctx, uint32_t version),
                             void *ctx, struct tern_replay_report *report, char why[256])
{
    struct replay replay = {.db = db, .report = report, .progress = progress, .ctx = ctx};
    struct tern_db_federation federation;
    memset(report, 0, sizeof *report);
    why[0] = '\0';
    replay.why = why;
    enum tern_result result = tern_db_federation(db, &federation);
    if (result == TERN_OK) {
        result = tern_merge_init(&replay.merge, &federation, NULL);
    }
    if (result != TERN_OK) {
        snprintf(why, 256, "the federation cannot be read: %s", tern_result_sentence(result));
        return result;
    }
    result = replay_first(&replay);
    if (result == TERN_OK) {
        result = replay_rounds(&replay);
    }
    tern_merge_free(&replay.merge);
    if (result != TERN_OK && why[0] == '\0') {
        snprintf(why, 256, "the store cannot be read: %s", tern_db_error(db));
    }
    return result;
}
