#include "cli/versions.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

int tern_version_newest(struct tern_cli *cli, struct tern_db *db, struct tern_db_version *newest)
{
    *newest = (struct tern_db_version){.version = 0};
    return tern_cli_check(cli, tern_db_may_miss(tern_db_version_last(db, newest)),
                          "cannot read the versions: %s", tern_db_error(db));
}

static int find_label(struct tern_cli *cli, struct tern_db *db, const char *name, uint32_t *version)
{
    struct tern_db_label label;
    const enum tern_result found = tern_db_label_get(db, name, &label);
    if (found == TERN_ERR_NOT_FOUND) {
        char text[TERN_TEXT];
        return tern_cli_fail(cli, found,
                             "no version has the label '%s'; `tern-aggregator label` lists all "
                             "labels",
                             tern_text_name(name, text));
    }
    *version = label.version;
    return tern_cli_check(cli, found, "cannot read the labels: %s", tern_db_error(db));
}

int tern_version_parse(struct tern_cli *cli, struct tern_db *db, const char *text,
                       uint32_t *version)
{
    char *end;
    if (isalpha((unsigned char)text[0])) {
        return find_label(cli, db, text, version);
    }
    const unsigned long long number = strtoull(text, &end, 10);
    if (!isdigit((unsigned char)text[0]) || *end != '\0' || number >= UINT32_MAX) {
        char name[TERN_TEXT];
        return tern_cli_fail(cli, TERN_ERR_CONFIG,
                             "'%s' is no version; give a number, or a label of `tern-aggregator "
                             "label`",
                             tern_text_name(text, name));
    }
    *version = (uint32_t)number;
    return TERN_EXIT_OK;
}

int tern_version_option(struct tern_cli *cli, struct tern_db *db, const char *option,
                        uint32_t *version)
{
    const char *text = tern_cli_option(cli, option, NULL);
    return text != NULL ? tern_version_parse(cli, db, text, version) : TERN_EXIT_OK;
}

int tern_version_load_newest(struct tern_cli *cli, struct tern_db *db, struct tern_merge *merge)
{
    enum tern_result result = tern_merge_load(merge, db);
    if (result ==
        TERN_ERR_NOT_FOUND) { // the federation was never served, so that only version 0 exists
        result = tern_merge_first(merge, db);
    }
    return tern_cli_check(cli, result, "cannot read the model: %s", tern_db_error(db));
}

// Loads the pinned weights of a version, and compares them with the recorded hash.
static enum tern_result load_pinned(struct tern_db *db, struct tern_merge *merge,
                                    const struct tern_db_version *row)
{
    TERN_TRY(tern_db_pinned_get(db, "", row->version, merge->global, merge->model.count));
    tern_merge_hash(merge->global, merge->model.count, merge->model_sha256);
    merge->version = row->version;
    return memcmp(merge->model_sha256, row->model_sha256, TERN_SHA256_SIZE) == 0 ? TERN_OK
                                                                                 : TERN_ERR_CORRUPT;
}

// Replays from version 0 to the version, and compares the result with the recorded hash.
static enum tern_result replay_to(struct tern_db *db, struct tern_merge *merge,
                                  const struct tern_db_version *row)
{
    struct tern_db_round round;
    struct tern_download_made made;
    struct tern_strategy_report report;
    uint32_t pruned = 0;
    TERN_TRY(tern_db_prune_goal(db, 0, &pruned));
    TERN_TRY(tern_merge_first(merge, db));
    struct tern_db_rows *rows = tern_db_rounds(db);
    while (merge->version != row->version && tern_db_next(rows, &round)) {
        if (round.state == TERN_ROUND_COMMITTED) {
            tern_db_check_row(rows, round.round <= pruned
                                        ? TERN_ERR_NOT_FOUND
                                        : tern_merge_round(merge, db, &round, &made, &report));
        }
    }
    TERN_TRY(tern_db_end(rows));
    bool same = merge->version == row->version &&
                memcmp(merge->model_sha256, row->model_sha256, TERN_SHA256_SIZE) == 0;
    return same ? TERN_OK : TERN_ERR_CORRUPT;
}

// Explains why a replay failed after merge->version, up to which all versions can be replayed.
static int report_failed_replay(struct tern_cli *cli, struct tern_db *db,
                                const struct tern_merge *merge, uint32_t wanted,
                                enum tern_result result)
{
    struct tern_db_version newest;
    if (result != TERN_ERR_NOT_FOUND || tern_db_version_last(db, &newest) != TERN_OK) {
        tern_cli_fail(cli, result,
                      "version %" PRIu32 " cannot be replayed from the stored updates: %s;"
                      " `tern-aggregator verify` finds the round",
                      wanted, tern_result_name(result));
        return TERN_EXIT_FAILED;
    }
    char until[16] = "";
    if (merge->version > 0) {
        snprintf(until, sizeof until, " to %" PRIu32, merge->version);
    }
    tern_cli_fail(cli, result,
                  "version %" PRIu32 " cannot be replayed, because some updates were pruned;"
                  " available: 0%s and %" PRIu32
                  ". Choose one of these or a label, or restore a backup from before the prune",
                  wanted, until, newest.version);
    return TERN_EXIT_FAILED;
}

int tern_version_load(struct tern_cli *cli, struct tern_db *db, struct tern_merge *merge,
                      uint32_t version, bool whole)
{
    struct tern_db_version row;
    enum tern_result result = tern_db_version_get(db, version, &row);
    if (result != TERN_OK) {
        return tern_cli_fail(cli, result, "cannot read version %" PRIu32 ": %s", version,
                             tern_db_error(db));
    }
    result = whole ? TERN_ERR_NOT_FOUND : load_pinned(db, merge, &row);
    if (result == TERN_ERR_NOT_FOUND) {
        result = replay_to(db, merge, &row);
    }
    return result == TERN_OK ? TERN_EXIT_OK : report_failed_replay(cli, db, merge, version, result);
}

int tern_version_load_any(struct tern_cli *cli, struct tern_db *db, struct tern_merge *merge,
                          uint32_t version)
{
    struct tern_db_version newest;
    TERN_CLI_TRY(tern_version_newest(cli, db, &newest));
    if (version > newest.version) {
        return tern_cli_fail(cli, TERN_ERR_NOT_FOUND,
                             "there is no version %" PRIu32 "; the newest is %" PRIu32, version,
                             newest.version);
    }
    return version == newest.version ? tern_version_load_newest(cli, db, merge)
                                     : tern_version_load(cli, db, merge, version, false);
}

int tern_version_begin(struct tern_cli *cli, struct tern_db *db, struct tern_merge *merge)
{
    struct tern_db_federation about;
    enum tern_result result = tern_db_federation(db, &about);
    if (result == TERN_OK) {
        result = tern_merge_init(merge, &about, NULL);
    }
    return tern_cli_check(cli, result, "cannot read the federation: %s",
                          result == TERN_ERR_IO ? tern_db_error(db) : tern_result_sentence(result));
}

// --- Pinned weights

#define PAUSE_MS                                                                                   \
    120 // pause in which a running service gets SQLite's lock, for which it retries every 100 ms

static void let_service_write(const struct tern_cli *cli, bool more)
{
    if (more && tern_state_is_served(cli)) {
        nanosleep(&(struct timespec){.tv_nsec = PAUSE_MS * 1000000L}, NULL);
    }
}

int tern_version_pin(struct tern_cli *cli, struct tern_db *db, const char *name, uint32_t version,
                     const struct tern_merge *merge)
{
    bool more = true;
    enum tern_result result = TERN_OK;
    while (more && result == TERN_OK) {
        result = tern_db_begin(db);
        if (result == TERN_OK) {
            result = tern_db_conclude(db, tern_db_pinned_put_some(db, name, version, merge->global,
                                                                  merge->model.count, &more));
        }
        let_service_write(cli, more);
    }
    return tern_cli_check(cli, result, "cannot store the weights of version %" PRIu32 ": %s",
                          version, tern_db_error(db));
}

int tern_version_unpin(struct tern_cli *cli, struct tern_db *db)
{
    bool more = true;
    enum tern_result result = TERN_OK;
    while (more && result == TERN_OK) {
        result = tern_db_begin(db);
        if (result == TERN_OK) {
            result = tern_db_conclude(db, tern_db_pinned_drop_some(db, &more));
        }
        let_service_write(cli, more);
    }
    return tern_cli_check(cli, result, "cannot delete weights that no label has: %s",
                          tern_db_error(db));
}
