#include "merge/replay.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

// --- Without what one client sent

void tern_rejection_format(const struct tern_db_rejection *rejection,
                           char text[TERN_DB_PARAMETERS_MAX])
{
    snprintf(text, TERN_DB_PARAMETERS_MAX, "client=%" PRIu64 ",rounds=%" PRIu32 "..%" PRIu32,
             rejection->client, rejection->first, rejection->last);
}

static bool parse_rejection(const char *text, struct tern_db_rejection *rejection)
{
    char same[TERN_DB_PARAMETERS_MAX] = "";
    if (sscanf(text, "client=%" SCNu64 ",rounds=%" SCNu32 "..%" SCNu32, &rejection->client,
               &rejection->first, &rejection->last) == 3) {
        tern_rejection_format(rejection, same);
    }
    return strcmp(text, same) == 0;
}

// A replay without hidden updates.
struct partial {
    struct tern_db *db;
    struct tern_merge *merge;
    uint32_t pruned;  // last round whose updates were pruned
    uint32_t *empty;  // counts rounds without other updates
    uint32_t *failed; // round that cannot be replayed
};

static enum tern_result merge_without(const struct partial *partial, struct tern_db_round *round)
{
    struct tern_merge *merge = partial->merge;
    struct tern_strategy_totals totals;
    struct tern_download_made made;
    struct tern_strategy_report report;
    if (round->round <= partial->pruned) {
        return TERN_ERR_NOT_FOUND; // without its rows a pruned round looks like one without other updates
    }
    TERN_TRY(tern_merge_count(partial->db, round, &totals, &merge->bounds));
    if (totals.updates == 0) {
        (*partial->empty)++;
        return TERN_OK;
    }
    // After a round that was left out, the averaged model has one version less.
    round->averaged =
        round->averaged <= merge->averaged + 1 ? round->averaged : merge->averaged + 1;
    return tern_merge_round(merge, partial->db, round, &made, &report);
}

// Merges the committed rounds between `after` and `until`, none of which is a restored one.
static enum tern_result merge_between(const struct partial *partial, uint32_t after, uint32_t until)
{
    struct tern_db_round round;
    enum tern_result result = TERN_OK;
    struct tern_db_rows *rows = tern_db_rounds_after(partial->db, after, UINT32_MAX);
    while (result == TERN_OK && tern_db_next(rows, &round) && round.round < until) {
        *partial->failed = round.round;
        if (round.state == TERN_ROUND_COMMITTED) {
            result = merge_without(partial, &round);
        }
    }
    const enum tern_result ended = tern_db_end(rows);
    return result != TERN_OK ? result : ended;
}

// Finds the last restored round before `until`. restored->round is 0 if there is none.
static enum tern_result find_restored(struct tern_db *db, uint32_t until,
                                      struct tern_db_round *restored)
{
    struct tern_db_round round;
    struct tern_db_rows *rows = tern_db_rounds(db);
    restored->round = 0;
    while (tern_db_next(rows, &round) && round.round < until) {
        if (round.state == TERN_ROUND_COMMITTED && round.mode == TERN_ROUND_RESTORED) {
            *restored = round;
        }
    }
    return tern_db_end(rows);
}

// Whether the version that this round made may have hidden updates.
static bool may_have(uint32_t round, const struct tern_db_rejection *hidden)
{
    while (hidden != NULL && round < hidden->first) {
        hidden = hidden->next;
    }
    return hidden != NULL;
}

static enum tern_result replay_until(const struct partial *partial, uint32_t until,
                                     const struct tern_db_rejection *hidden);

// Loads the weights that the round restored. The rounds before it, which may have been pruned, are not needed.
static enum tern_result restore_stored(const struct partial *partial,
                                       const struct tern_db_round *round)
{
    struct tern_download_made made;
    struct tern_strategy_report report;
    *partial->failed = round->round;
    if (round->round <= partial->pruned) {
        return TERN_ERR_NOT_FOUND;
    }
    TERN_TRY(tern_merge_first(partial->merge, partial->db));
    return tern_merge_round(partial->merge, partial->db, round, &made, &report);
}

// Restores what the round would have restored without the hidden updates: for a rollback the version that it names, for a
// rejection the weights without both the rejected and the hidden updates.
static enum tern_result restore_without(const struct partial *partial,
                                        const struct tern_db_round *round,
                                        const struct tern_db_rejection *hidden)
{
    struct tern_db_version source;
    struct tern_db_rejection rejection;
    const bool is_rollback = round->strategy_parameters[0] == '\0';
    *partial->failed = round->round;
    TERN_TRY(tern_db_version_get(partial->db, round->restored, &source));
    if (source.round >= round->round) {
        return TERN_ERR_CORRUPT;
    }
    if (!may_have(source.round, hidden)) {
        return restore_stored(partial, round);
    }
    if (!is_rollback && !parse_rejection(round->strategy_parameters, &rejection)) {
        return TERN_ERR_UNKNOWN;
    }
    rejection.next = hidden;
    TERN_TRY(is_rollback ? replay_until(partial, source.round + 1, hidden)
                         : replay_until(partial, round->round, &rejection));
    *partial->failed = round->round;
    return tern_merge_restore(partial->merge, round);
}

// Begins with the last restored round before `until`, or with version 0. It recurses once for each restored round that may
// have hidden updates.
static enum tern_result replay_until(const struct partial *partial, uint32_t until,
                                     const struct tern_db_rejection *hidden)
{
    struct tern_db_round restored;
    TERN_TRY(find_restored(partial->db, until, &restored));
    TERN_TRY(restored.round > 0 ? restore_without(partial, &restored, hidden)
                                : tern_merge_first(partial->merge, partial->db));
    tern_db_hide_updates(partial->db, hidden);
    const enum tern_result result = merge_between(partial, restored.round, until);
    tern_db_hide_updates(partial->db, NULL);
    return result;
}

enum tern_result tern_replay_without(struct tern_db *db, struct tern_merge *merge,
                                     const struct tern_db_rejection *rejection, uint32_t until,
                                     uint32_t *empty, uint32_t *failed)
{
    struct partial partial = {.db = db, .merge = merge, .empty = empty, .failed = failed};
    *empty = 0;
    *failed = 0;
    TERN_TRY(tern_db_prune_goal(db, 0, &partial.pruned));
    return replay_until(&partial, until, rejection);
}

// --- The whole history

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

// Replays the rejection whose result the round restored, and compares both.
static enum tern_result compare_rejection(struct replay *replay, const struct tern_db_round *round,
                                          const struct tern_db_rejection *rejection)
{
    struct tern_db_federation federation;
    struct tern_merge without;
    uint32_t empty = 0;
    uint32_t failed = 0;
    TERN_TRY(tern_db_federation(replay->db, &federation));
    TERN_TRY(tern_merge_init(&without, &federation, NULL));
    enum tern_result result =
        tern_replay_without(replay->db, &without, rejection, round->round, &empty, &failed);
    if (result != TERN_OK) {
        snprintf(replay->why, 256, "version %u: round %u cannot be replayed without %.100s: %s",
                 replay->merge.version, failed, round->strategy_parameters,
                 tern_result_sentence(result));
    } else if (memcmp(without.model_sha256, replay->merge.model_sha256, TERN_SHA256_SIZE) != 0) {
        replay->report->differs = replay->merge.version;
        snprintf(replay->why, 256,
                 "version %u: the rounds replayed without %.100s make another model than the one "
                 "that was restored",
                 replay->merge.version, round->strategy_parameters);
        result = TERN_ERR_CORRUPT;
    }
    tern_merge_free(&without);
    return result;
}

// Checks a restored round. Weights of an earlier version were compared with its hash by the merge.
static enum tern_result check_restored(struct replay *replay, const struct tern_db_round *round)
{
    struct tern_db_rejection rejection = {.next = NULL};
    if (round->mode != TERN_ROUND_RESTORED || round->strategy_parameters[0] == '\0') {
        return TERN_OK;
    }
    if (!parse_rejection(round->strategy_parameters, &rejection)) {
        snprintf(replay->why, 256, "round %u restored weights made by rules that are unknown here",
                 round->round);
        return TERN_ERR_UNKNOWN;
    }
    replay->report->rejections++;
    return compare_rejection(replay, round, &rejection);
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
    TERN_TRY(check_restored(replay, round));
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
