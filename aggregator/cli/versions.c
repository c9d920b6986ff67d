#include "cli/versions.h"

#include "federation/best.h"

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

// Whether a version's weights are stored, or can be replayed.
static enum tern_result has_weights(struct tern_db *db, uint32_t version, bool *has)
{
    struct tern_db_version newest = {.version = 0};
    uint32_t pruned = 0;
    TERN_TRY(tern_db_prune_goal(db, 0, &pruned));
    TERN_TRY(tern_db_may_miss(tern_db_version_last(db, &newest)));
    *has = pruned == 0 || version == 0 || version == newest.version;
    return *has ? TERN_OK : tern_db_pinned_is_whole(db, "", version, has);
}

// Finds the version that evaluators rate best, or if its weights are gone or nobody rates it any more, the version with the
// label, which was the best of those whose weights are kept.
static enum tern_result find_rated(struct tern_db *db, struct tern_best *best, uint32_t *labelled)
{
    struct tern_best_found found;
    struct tern_db_label label = {.version = UINT32_MAX};
    bool has = false;
    TERN_TRY(tern_best_by_evaluators(db, 0, UINT32_MAX, &found));
    TERN_TRY(tern_db_may_miss(tern_db_label_get(db, TERN_LABEL_BEST, &label)));
    *best = found.any;
    *labelled = label.version;
    if (best->by != TERN_BEST_NONE) {
        TERN_TRY(has_weights(db, best->version, &has));
    }
    if (has) {
        *labelled = UINT32_MAX;
    }
    return TERN_OK;
}

// The version is rated by its replica where evaluators do not measure the global model: both differ by what no download has
// brought yet.
static int find_best(struct tern_cli *cli, struct tern_db *db, uint32_t *version)
{
    struct tern_best best = {.by = TERN_BEST_NONE};
    uint32_t labelled = UINT32_MAX;
    TERN_CLI_TRY(tern_cli_check(cli, find_rated(db, &best, &labelled),
                                "cannot read the evaluations: %s", tern_db_error(db)));
    *version = labelled != UINT32_MAX ? labelled : best.version;
    if (best.by == TERN_BEST_NONE && labelled == UINT32_MAX) {
        return tern_cli_fail(cli, TERN_ERR_NOT_FOUND,
                             "no version is the best: at least half of the evaluators have to "
                             "report it (enroll-code --evaluator). Give a number or a label");
    }
    if (best.by == TERN_BEST_NONE) {
        fprintf(stderr,
                "tern-aggregator: version %" PRIu32 " has the label best; no evaluator that is "
                "left rates it\n",
                *version);
        return TERN_EXIT_OK;
    }
    fprintf(stderr,
            "tern-aggregator: version %" PRIu32 " is best by its evaluators' %s, %.4f, of its %s\n",
            best.version, best.by == TERN_BEST_BY_ACCURACY ? "accuracy" : "loss", best.value,
            best.model == TERN_EVALUATED_GLOBAL
                ? "global model"
                : "replica; the weights of its global model follow");
    if (*version != best.version) {
        fprintf(stderr,
                "tern-aggregator: its weights were pruned: version %" PRIu32
                " is the best of those that are kept\n",
                *version);
    }
    return TERN_EXIT_OK;
}

int tern_version_parse(struct tern_cli *cli, struct tern_db *db, const char *text,
                       uint32_t *version)
{
    char *end;
    if (strcmp(text, TERN_LABEL_BEST) == 0) {
        return find_best(cli, db, version);
    }
    if (isalpha((unsigned char)text[0])) {
        return find_label(cli, db, text, version);
    }
    const unsigned long long number = strtoull(text, &end, 10);
    if (!isdigit((unsigned char)text[0]) || *end != '\0' || number >= UINT32_MAX) {
        char name[TERN_TEXT];
        return tern_cli_fail(cli, TERN_ERR_CONFIG,
                             "'%s' is no version; give a number, a label of `tern-aggregator "
                             "label`, or best",
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

#define KEPT_TEXT 96 // bytes of the versions that report_pruned() lists

// Lists the versions whose weights labels keep, as ", 12 (release-1), 14 (best)".
static enum tern_result list_kept(struct tern_db *db, char text[KEPT_TEXT])
{
    struct tern_db_label label;
    struct tern_db_rows *rows = tern_db_labels(db);
    int len = 0;
    text[0] = '\0';
    while (tern_db_next(rows, &label)) {
        bool whole = false;
        tern_db_check_row(rows, tern_db_pinned_is_whole(db, "", label.version, &whole));
        if (!whole) {
            continue;
        }
        const int more = snprintf(text + len, (size_t)(KEPT_TEXT - len), ", %" PRIu32 " (%s)",
                                  label.version, label.name);
        if (more >= KEPT_TEXT - len) {
            snprintf(text + len, (size_t)(KEPT_TEXT - len), ", ...");
            break;
        }
        len += more < KEPT_TEXT - (int)sizeof ", ..." - len ? more : 0;
    }
    return tern_db_end(rows);
}

// Refuses a version because updates of the rounds up to `pruned` were dropped.
static int report_pruned(struct tern_cli *cli, struct tern_db *db, uint32_t wanted, uint32_t pruned)
{
    struct tern_db_version newest;
    char kept[KEPT_TEXT];
    TERN_CLI_TRY(tern_version_newest(cli, db, &newest));
    TERN_CLI_TRY(
        tern_cli_check(cli, list_kept(db, kept), "cannot read the labels: %s", tern_db_error(db)));
    tern_cli_fail(cli, TERN_ERR_NOT_FOUND,
                  "version %" PRIu32 " has no weights: the updates of rounds 1 to %" PRIu32
                  " were pruned. Kept: 0%s and %" PRIu32
                  ". Choose one of these, or restore a backup from before the prune",
                  wanted, pruned, kept, newest.version);
    return TERN_EXIT_FAILED;
}

// Explains why a version could not be replayed.
static int report_failed_replay(struct tern_cli *cli, struct tern_db *db, uint32_t wanted,
                                enum tern_result result)
{
    uint32_t pruned = 0;
    if (result == TERN_ERR_NOT_FOUND && tern_db_prune_goal(db, 0, &pruned) == TERN_OK &&
        pruned > 0) {
        return report_pruned(cli, db, wanted, pruned);
    }
    tern_cli_fail(cli, result,
                  "version %" PRIu32 " cannot be replayed from the stored updates: %s;"
                  " `tern-aggregator verify` finds the round",
                  wanted, tern_result_sentence(result));
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
    return result == TERN_OK ? TERN_EXIT_OK : report_failed_replay(cli, db, version, result);
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
