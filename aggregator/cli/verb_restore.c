// restore replaces the database with a backup, which it checks completely before. A kill at any point leaves the old database
// or the new one.
#include "cli/state.h"
#include "cli/verbs.h"

#include "hosted/files.h"
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

// The state of a database, to compare the present one with its backup.
struct contents {
    bool known;
    struct tern_db_federation federation; // its pointers are invalid once the connection is closed
    uint32_t version;
    uint32_t round; // number of the last round, open or not
    uint64_t clients;
};

struct restoring {
    struct tern_cli *cli;
    const char *file;
    char database[PATH_MAX];
    char copy[PATH_MAX];
    char kept[PATH_MAX]; // new path of the old database
    bool had_database;   // there was an old database
    struct contents before;
    struct contents after;
    char why[256]; // why the old database or the backup cannot be read
};

// --- Comparing the databases

static enum tern_result read_contents(struct tern_db *db, struct contents *contents)
{
    struct tern_db_counts counts;
    struct tern_db_version version = {.version = 0};
    struct tern_db_round round = {.round = 0};
    TERN_TRY(tern_db_federation(db, &contents->federation));
    TERN_TRY(tern_db_may_miss(tern_db_version_last(db, &version)));
    TERN_TRY(tern_db_may_miss(tern_db_round_last(db, &round)));
    TERN_TRY(tern_db_counts(db, 0, &counts));
    contents->version = version.version;
    contents->round = round.round;
    contents->clients = counts.clients;
    contents->known = true;
    return TERN_OK;
}

// Compares creation time, seed and model, because federations have no id.
static bool is_same(const struct tern_db_federation *a, const struct tern_db_federation *b)
{
    return a->created_ms == b->created_ms && a->seed == b->seed &&
           memcmp(a->model_hash, b->model_hash, sizeof a->model_hash) == 0;
}

static int refuse_other_federation(const struct restoring *restoring)
{
    const struct contents *before = &restoring->before;
    const struct contents *after = &restoring->after;
    char made[TERN_TEXT];
    char other[TERN_TEXT];
    if (!before->known || is_same(&before->federation, &after->federation) ||
        tern_cli_flag(restoring->cli, "force")) {
        return TERN_EXIT_OK;
    }
    return tern_cli_fail(
        restoring->cli, TERN_ERR_STATE,
        "%s belongs to another federation (%s, made %s) than %s (%s, made %s), whose clients would "
        "be refused: name its state directory with --state, or use --force",
        restoring->file, after->federation.model_spec,
        tern_text_time(after->federation.created_ms, other), restoring->database,
        before->federation.model_spec, tern_text_time(before->federation.created_ms, made));
}

// --- The steps

// Makes the folder. Refuses another user than its owner, because the service could not open that user's files.
static int make_folder(const struct restoring *restoring)
{
    const char *folder = tern_state_settings(restoring->cli)->federation_state;
    struct stat status;
    TERN_CLI_TRY(tern_cli_check(restoring->cli, tern_file_make_folders(folder, 0700),
                                "cannot make %s: %s", folder, strerror(errno)));
    if (stat(folder, &status) != 0) {
        return tern_cli_fail(restoring->cli, TERN_ERR_IO, "cannot read %s: %s", folder,
                             strerror(errno));
    }
    return status.st_uid == geteuid()
               ? TERN_EXIT_OK
               : tern_cli_fail(restoring->cli, TERN_ERR_STATE,
                               "%s belongs to another user: run this verb, like all others, as its "
                               "owner (runuser -u OWNER -- tern-aggregator restore ...)",
                               folder);
}

static enum tern_result note_restored(struct tern_db *db, const char *file)
{
    const uint64_t now_ms = tern_now_ms();
    tern_state_sign(db);
    TERN_TRY(tern_db_begin(db));
    enum tern_result result = tern_db_set_restored(db, now_ms);
    if (result == TERN_OK) {
        result = tern_db_audit(db, now_ms, "restore", "", file, "the database, by a backup");
    }
    return tern_db_conclude(db, result);
}

// Checks the copy of the backup, not the backup itself, so that the checked bytes become the database.
static enum tern_result check_copy(struct restoring *restoring, struct tern_db *db)
{
    enum tern_result result = tern_db_upgrade(db);
    result = result == TERN_OK ? tern_db_check(db) : result;
    result = result == TERN_OK ? read_contents(db, &restoring->after) : result;
    result = result == TERN_OK ? note_restored(db, restoring->file) : result;
    result = result == TERN_OK ? tern_db_settle(db) : result;
    if (result != TERN_OK) {
        (void)tern_db_damaged(db); // adds to tern_db_error() whether the file is damaged
        snprintf(restoring->why, sizeof restoring->why, "%s", tern_db_error(db));
    }
    return result;
}

static int make_checked_copy(struct restoring *restoring)
{
    struct tern_db *db = NULL;
    enum tern_result result = tern_db_copy(restoring->file, restoring->copy, restoring->why);
    if (result == TERN_OK) {
        result = tern_db_open(restoring->copy, TERN_DB_OLDER, &db, restoring->why);
    }
    if (result == TERN_OK) {
        result = check_copy(restoring, db);
        tern_db_close(db);
    }
    return tern_cli_check(restoring->cli, result,
                          "%s cannot be restored, and nothing has changed: %s", restoring->file,
                          restoring->why);
}

static int refuse_unusable(const struct restoring *restoring, enum tern_result result,
                           const char *why)
{
    return tern_cli_fail(restoring->cli, result, "%s: %s; correct that, then try again",
                         restoring->database, why);
}

// Opens and holds the old database until *db is closed. *db is NULL if the old database is damaged or newer than this program, which a
// restore repairs.
static int open_old_database(struct restoring *restoring, struct tern_db **db)
{
    enum tern_result result = tern_db_open(restoring->database, TERN_DB_OLDER, db, restoring->why);
    if (result != TERN_OK) {
        return result == TERN_ERR_BUSY ? refuse_unusable(restoring, result, restoring->why)
                                       : TERN_EXIT_OK;
    }
    result = tern_db_upgrade(*db); // no service runs on the old database
    result = result == TERN_OK ? read_contents(*db, &restoring->before) : result;
    if (result != TERN_OK) {
        snprintf(restoring->why, sizeof restoring->why, "%s", tern_db_error(*db));
    }
    TERN_CLI_TRY(refuse_other_federation(restoring));
    result = tern_db_settle(*db);
    if (result != TERN_OK && result != TERN_ERR_BUSY && tern_db_damaged(*db)) {
        tern_db_close(*db);
        *db = NULL;
        return TERN_EXIT_OK;
    }
    return result == TERN_OK ? TERN_EXIT_OK
                             : refuse_unusable(restoring, result, tern_db_error(*db));
}

static void name_old_database(struct restoring *restoring)
{
    char date[32] = "";
    char name[96];
    struct tm parts;
    const uint64_t now_ms = tern_now_ms();
    const time_t now = (time_t)(now_ms / 1000);
    if (gmtime_r(&now, &parts) != NULL) {
        strftime(date, sizeof date, "%Y%m%dT%H%M%S", &parts);
    }
    snprintf(name, sizeof name, TERN_STATE_DATABASE ".before-restore-%s.%03uZ", date,
             (unsigned)(now_ms % 1000));
    tern_state_path(restoring->cli, name, restoring->kept);
}

static int replace_database(struct restoring *restoring)
{
    struct tern_db *old = NULL;
    char why[256];
    TERN_CLI_TRY(make_checked_copy(restoring));
    name_old_database(restoring);
    restoring->had_database = access(restoring->database, F_OK) == 0;
    if (restoring->had_database) {
        const int code = open_old_database(restoring, &old);
        if (code != TERN_EXIT_OK) {
            tern_db_close(old);
            return code;
        }
    }
    enum tern_result result =
        tern_db_replace(restoring->copy, restoring->database, restoring->kept, why);
    tern_db_close(old);
    return tern_cli_check(restoring->cli, result, "%s was not restored: %s", restoring->file, why);
}

static int restore(struct restoring *restoring)
{
    tern_db_remove(restoring->copy); // a copy that a killed restore left behind
    const int code = replace_database(restoring);
    if (code != TERN_EXIT_OK) {
        tern_db_remove(restoring->copy);
    }
    return code;
}

// --- Output

static uint64_t count_lost(uint64_t before, uint64_t after)
{
    return before > after ? before - after : 0;
}

static int print_json(const struct restoring *restoring)
{
    const struct contents *before = &restoring->before;
    const struct contents *after = &restoring->after;
    cJSON *object = cJSON_CreateObject();
    cJSON_AddStringToObject(object, "file", restoring->file);
    tern_json_u64(object, "version", after->version);
    tern_json_u64(object, "round", after->round);
    if (restoring->had_database) {
        cJSON_AddStringToObject(object, "kept", restoring->kept);
    }
    if (before->known) {
        tern_json_u64(object, "versions_lost", count_lost(before->version, after->version));
        tern_json_u64(object, "rounds_lost", count_lost(before->round, after->round));
        tern_json_u64(object, "clients_lost", count_lost(before->clients, after->clients));
    }
    return tern_json_print(restoring->cli, object);
}

static void print_lost(const struct restoring *restoring)
{
    const struct contents *before = &restoring->before;
    const struct contents *after = &restoring->after;
    if (!before->known) {
        printf("What is lost is unknown, because the old database could not be read: %s\n",
               restoring->why);
        return;
    }
    printf("The old database was at version %" PRIu32 ", round %" PRIu32 ". Versions lost: %" PRIu64
           ", rounds: %" PRIu64 ", clients: %" PRIu64 ".\n",
           before->version, before->round, count_lost(before->version, after->version),
           count_lost(before->round, after->round), count_lost(before->clients, after->clients));
    if (before->clients > after->clients) {
        printf("Clients that enrolled since need new join codes (`tern-client enroll --force`).\n");
    }
}

static int print_restored(const struct restoring *restoring)
{
    if (restoring->cli->json) {
        return print_json(restoring);
    }
    printf("Restored %s: version %" PRIu32 ", round %" PRIu32 ".\n", restoring->file,
           restoring->after.version, restoring->after.round);
    if (restoring->had_database) {
        printf("The old database is kept as %s; delete it when it is no longer needed.\n",
               restoring->kept);
        print_lost(restoring);
    }
    printf("Repeat revocations and cancellations that were made since the backup, then start the "
           "service.\n");
    return TERN_EXIT_OK;
}

int tern_cli_restore(struct tern_cli *cli)
{
    static struct restoring restoring;
    int lock = -1;
    restoring.cli = cli;
    restoring.file = cli->arguments[0];
    if (tern_state_is_postgres(cli)) {
        return tern_cli_fail(
            cli, TERN_ERR_STATE,
            "the database is in PostgreSQL (store.url): restore it with pg_restore "
            "(docs/OPERATIONS.md, \"PostgreSQL\")");
    }
    if (access(restoring.file, R_OK) != 0) {
        return tern_cli_fail(cli, TERN_ERR_IO, "%s cannot be read: %s", restoring.file,
                             strerror(errno));
    }
    tern_state_path(cli, TERN_STATE_DATABASE, restoring.database);
    tern_state_path(cli, TERN_STATE_DATABASE ".restoring", restoring.copy);
    TERN_CLI_TRY(make_folder(&restoring));
    int code = tern_state_lock(cli, &lock);
    code = code == TERN_EXIT_OK ? restore(&restoring) : code;
    if (lock >= 0) {
        close(lock);
    }
    return code == TERN_EXIT_OK ? print_restored(&restoring) : code;
}
