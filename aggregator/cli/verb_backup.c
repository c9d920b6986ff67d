// backup copies the database, prune drops old updates, and compact shrinks the file.
#include "cli/quality.h"
#include "cli/state.h"
#include "cli/verbs.h"
#include "cli/versions.h"
#include "downloads/replicas.h"
#include "store/store.h"
#include "tensor/manifest.h"

#include <inttypes.h>
#include <sys/stat.h>
#include <time.h>

int tern_cli_backup(struct tern_cli *cli)
{
    struct tern_db *db;
    char why[256] = "";
    struct stat status;
    const char *file = cli->arguments[0];
    TERN_CLI_TRY(tern_state_check_scheme(cli, "", file));
    // No read transaction: SQLite copies a database only outside of one.
    TERN_CLI_TRY(tern_state_open_any(cli, TERN_DB_READING, &db));
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

// --- prune and compact

#define STEP_BYTES                                                                                 \
    (UINT64_C(16)                                                                                  \
     << 20) // most work of a transaction; the service can write between two transactions
#define FULL_SHARE                                                                                 \
    16 // if less than one in this many bytes of the disk is free, prune also drops downloads
#define PAUSE_MS                                                                                   \
    120 // pause in which a running service gets SQLite's lock, for which it retries every 100 ms

typedef enum tern_result (*step)(struct tern_db *db, uint64_t bytes, bool *more);

static enum tern_result run_in_steps(const struct tern_cli *cli, struct tern_db *db, step some)
{
    bool more = true;
    while (more) {
        uint64_t bytes = 0;
        TERN_TRY(tern_db_step_bytes(db, STEP_BYTES, &bytes));
        TERN_TRY(tern_db_begin(db));
        TERN_TRY(tern_db_conclude(db, some(db, bytes, &more)));
        if (more && tern_state_is_served(cli)) {
            nanosleep(&(struct timespec){.tv_nsec = PAUSE_MS * 1000000L}, NULL);
        }
    }
    return TERN_OK;
}

static enum tern_result drop_bodies(struct tern_db *db, uint64_t bytes, bool *more)
{
    return tern_db_prune_some(db, bytes, UINT32_MAX, more);
}

static enum tern_result mark_pruned(struct tern_db *db, uint32_t last)
{
    TERN_TRY(tern_db_begin(db));
    enum tern_result result = tern_db_prune(db, last);
    if (result == TERN_OK) {
        result = tern_db_audit(db, tern_now_ms(), "prune", "stored", "dropped",
                               "updates of rounds 1 to %" PRIu32, last);
    }
    return tern_db_conclude(db, result);
}

// Drops downloads and replicas in steps, until those of the newest versions are left.
static enum tern_result drop_downloads(struct tern_db *db, struct tern_replica_book *book,
                                       uint32_t version)
{
    uint64_t before = UINT64_MAX;
    TERN_TRY(tern_db_begin(db));
    TERN_TRY(tern_db_conclude(db, tern_replica_book_load(book)));
    while (book->bytes < before) {
        uint64_t bytes = 0;
        before = book->bytes;
        TERN_TRY(tern_db_step_bytes(db, STEP_BYTES, &bytes));
        TERN_TRY(tern_db_begin(db));
        TERN_TRY(tern_db_conclude(db, tern_replica_free_disk(book, version, bytes)));
    }
    return TERN_OK;
}

// Drops old downloads to free a full disk. Does nothing while a service runs: the service drops downloads by itself, and has
// them in memory.
static enum tern_result prune_downloads(const struct tern_cli *cli, struct tern_db *db,
                                        uint64_t *freed)
{
    static struct tern_model model;
    struct tern_db_federation about;
    struct tern_db_version newest;
    uint64_t before = 0;
    uint64_t after = 0;
    if (tern_state_is_served(cli)) {
        return TERN_OK;
    }
    TERN_TRY(tern_db_federation(db, &about));
    TERN_TRY(tern_model_build(&model, about.model_spec, about.manifest, about.manifest_len,
                              about.model_hash));
    TERN_TRY(tern_db_version_last(db, &newest));
    struct tern_replica_book book = {.db = db, .model = &model, .seed = about.seed};
    TERN_TRY(tern_db_free_bytes(db, &before));
    TERN_TRY(drop_downloads(db, &book, newest.version));
    TERN_TRY(tern_db_free_bytes(db, &after));
    *freed = after > before ? after - before : 0;
    return TERN_OK;
}

struct pruned {
    struct tern_db_counts before;
    struct tern_db_counts after;
    uint32_t newest;       // round; 0: none
    uint32_t version;      // the newest one, which stays
    struct tern_best best; // before the prune
    bool best_is_pinned;   // its weights are kept for a label
    uint64_t freed;        // bytes of downloads
};

static enum tern_result load_before(struct tern_db *db, struct pruned *pruned)
{
    struct tern_db_round newest = {.round = 0};
    struct tern_db_version version = {.version = 0};
    TERN_TRY(tern_db_counts(db, 0, &pruned->before));
    TERN_TRY(tern_db_may_miss(tern_db_round_last(db, &newest)));
    TERN_TRY(tern_db_may_miss(tern_db_version_last(db, &version)));
    pruned->newest = newest.round;
    pruned->version = version.version;
    TERN_TRY(tern_best_find_any(db, &pruned->best));
    return tern_db_pinned_is_whole(db, "", pruned->best.version, &pruned->best_is_pinned);
}

static enum tern_result prune(const struct tern_cli *cli, struct tern_db *db, uint64_t keep,
                              struct pruned *pruned)
{
    struct tern_db_room room;
    TERN_TRY(tern_db_room(db, &room));
    if (pruned->newest > keep) {
        TERN_TRY(mark_pruned(db, pruned->newest - (uint32_t)keep));
        TERN_TRY(run_in_steps(cli, db, drop_bodies));
    }
    TERN_TRY(tern_db_counts(db, 0, &pruned->after));
    return tern_disk_is_low(room.free, room.disk, FULL_SHARE)
               ? prune_downloads(cli, db, &pruned->freed)
               : TERN_OK;
}

// Whether the best version is lost by the prune: evaluators have rated it, it can still be replayed, and the service, which
// pins such versions, has not pinned it.
static bool loses_best(const struct tern_cli *cli, const struct pruned *pruned)
{
    const struct tern_best *best = &pruned->best;
    const bool is_rated =
        best->by != TERN_BEST_NONE && best->by != TERN_BEST_BY_TRAINING_LOSS && !best->by_clients;
    return is_rated && !pruned->best_is_pinned && pruned->before.rounds_pruned == 0 &&
           best->version != 0 && best->version != pruned->version && !tern_state_is_gateway(cli);
}

static enum tern_result label_best(struct tern_db *db, uint32_t version)
{
    const struct tern_db_label label = {
        .name = TERN_LABEL_BEST, .version = version, .created_ms = tern_now_ms()};
    TERN_TRY(tern_db_begin(db));
    return tern_db_conclude(db, tern_db_label_put(db, &label));
}

static int pin_best(struct tern_cli *cli, struct tern_db *db, struct tern_merge *merge,
                    uint32_t version)
{
    TERN_CLI_TRY(tern_version_load_any(cli, db, merge, version));
    TERN_CLI_TRY(tern_cli_check(cli, label_best(db, version), "cannot store the label: %s",
                                tern_db_error(db)));
    return tern_version_pin(cli, db, "", version, merge);
}

// Pins the weights of the best version, unless the disk has no room for them.
static int keep_best(struct tern_cli *cli, struct tern_db *db, struct pruned *pruned)
{
    static struct tern_merge merge;
    struct tern_db_room room;
    TERN_CLI_TRY(tern_cli_check(cli, tern_db_room(db, &room), "cannot read the disk: %s",
                                tern_db_error(db)));
    if (!loses_best(cli, pruned) || tern_disk_is_low(room.free, room.disk, FULL_SHARE)) {
        return TERN_EXIT_OK;
    }
    TERN_CLI_TRY(tern_version_begin(cli, db, &merge));
    const int code = pin_best(cli, db, &merge, pruned->best.version);
    pruned->best_is_pinned = code == TERN_EXIT_OK;
    tern_merge_free(&merge);
    return code;
}

// Warns if the best version could be replayed before the prune, and cannot be now.
static void warn_of_best(const struct pruned *pruned)
{
    const struct tern_best *best = &pruned->best;
    if (!pruned->best_is_pinned && pruned->before.rounds_pruned == 0 &&
        pruned->after.rounds_pruned > 0 && best->by != TERN_BEST_NONE && best->version != 0 &&
        best->version != pruned->version) {
        fprintf(stderr,
                "tern-aggregator: version %" PRIu32 ", the best so far, can no longer be exported: "
                "only 0 and %" PRIu32 " can. A backup from before this prune has it\n",
                best->version, pruned->version);
    }
}

static void print_pruned(const struct pruned *pruned, uint64_t dropped)
{
    const uint64_t gone = pruned->after.rounds_pruned;
    if (pruned->newest == 0) {
        printf("There is no round yet, and nothing to drop.\n");
        return;
    }
    printf("Dropped the bytes of %" PRIu64 " updates.", dropped);
    if (gone > 0) {
        printf(" Those of rounds 1 to %" PRIu64 " are gone.", gone);
    }
    if (gone < pruned->newest) {
        printf(" Kept: %" PRIu64 " updates of rounds %" PRIu64 " to %" PRIu32 ".",
               pruned->after.update_bodies, gone + 1, pruned->newest);
    }
    printf("\n");
    if (pruned->freed > 0) {
        printf("The disk is full, so %" PRIu64 " bytes of downloads were dropped, too.\n",
               pruned->freed);
    }
}

int tern_cli_prune(struct tern_cli *cli)
{
    struct tern_db *db;
    struct pruned pruned = {.freed = 0};
    uint64_t keep;
    if (!tern_cli_flag(cli, "keep")) {
        return tern_cli_fail(
            cli, TERN_ERR_CONFIG,
            "--keep ROUNDS is missing: give the number of newest rounds whose updates stay");
    }
    if (tern_cli_number(cli, "keep", 0, 1, UINT32_MAX, &keep) != TERN_OK) {
        return TERN_EXIT_USAGE;
    }
    TERN_CLI_TRY(tern_state_open_any(cli, 0, &db));
    (void)tern_db_make_room(db); // dropping rows needs free space, too
    enum tern_result result = load_before(db, &pruned);
    const int code = result == TERN_OK && pruned.newest > keep ? keep_best(cli, db, &pruned) : 0;
    if (code != TERN_EXIT_OK) {
        tern_db_close(db);
        return code;
    }
    result = result == TERN_OK ? prune(cli, db, keep, &pruned) : result;
    if (result != TERN_OK) {
        return tern_state_fail(cli, db, result);
    }
    tern_db_close(db);
    warn_of_best(&pruned);
    const uint64_t dropped = pruned.before.update_bodies - pruned.after.update_bodies;
    if (cli->json) {
        cJSON *object = cJSON_CreateObject();
        tern_json_u64(object, "dropped", dropped);
        tern_json_u64(object, "pruned_rounds", pruned.after.rounds_pruned);
        tern_json_u64(object, "download_bytes", pruned.freed);
        TERN_CLI_TRY(tern_json_print(cli, object));
    } else {
        print_pruned(&pruned, dropped);
    }
    return dropped > 0 || pruned.freed > 0 ? TERN_EXIT_OK : TERN_EXIT_NOTHING;
}

static enum tern_result compact(const struct tern_cli *cli, struct tern_db *db, uint64_t *before,
                                uint64_t *after)
{
    (void)tern_db_make_room(db); // compacting writes pages before the file shrinks
    struct tern_db_counts counts;
    TERN_TRY(tern_db_counts(db, 0, &counts));
    *before = counts.file_bytes;
    TERN_TRY(run_in_steps(cli, db, tern_db_shrink_some));
    TERN_TRY(tern_db_counts(db, 0, &counts));
    *after = counts.file_bytes;
    return TERN_OK;
}

int tern_cli_compact(struct tern_cli *cli)
{
    struct tern_db *db;
    uint64_t before = 0;
    uint64_t after = 0;
    TERN_CLI_TRY(tern_state_open_any(cli, 0, &db));
    enum tern_result result = compact(cli, db, &before, &after);
    if (result != TERN_OK) {
        return tern_state_fail(cli, db, result);
    }
    tern_db_close(db);
    if (cli->json) {
        cJSON *object = cJSON_CreateObject();
        tern_json_u64(object, "before_bytes", before);
        tern_json_u64(object, "after_bytes", after);
        TERN_CLI_TRY(tern_json_print(cli, object));
    } else {
        printf("The database takes %" PRIu64 " bytes; before, it took %" PRIu64 ".\n", after,
               before);
    }
    return after < before ? TERN_EXIT_OK : TERN_EXIT_NOTHING;
}
