// restore: a backup in the place of the database. All of it is read and compared before anything is
// changed; a kill at any point leaves the old database or the new one.
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

// What a database holds, as far as a restore loses or gives back some of it.
struct contents {
    bool known;
    struct tern_db_federation
        federation; // of it, what lies beside the row is gone with the connection
    uint32_t version;
    uint32_t round; // the last one, open or not
    uint64_t clients;
};

struct restoring {
    struct tern_cli *cli;
    const char *file;
    char database[PATH_MAX];
    char copy[PATH_MAX];
    char kept[PATH_MAX]; // the name that what was there gets
    bool was_there;
    struct contents before;
    struct contents after;
    char why[256]; // what was there could not be read
};

// --- Looking

static enum tern_result look(struct tern_db *db, struct contents *contents)
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

// No federation has an id of its own, but two that were made in the same millisecond with one model and
// seed are unlikely.
static bool is_same(const struct tern_db_federation *a, const struct tern_db_federation *b)
{
    return a->created_ms == b->created_ms && a->seed == b->seed &&
           memcmp(a->model_hash, b->model_hash, sizeof a->model_hash) == 0;
}

static int refuse_others(const struct restoring *restoring)
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
        "%s is of another federation (%s, made %s) than %s (%s, made %s), whose clients would be "
        "refused; name its state directory by --state, or use --force",
        restoring->file, after->federation.model_spec,
        tern_text_time(after->federation.created_ms, other), restoring->database,
        before->federation.model_spec, tern_text_time(before->federation.created_ms, made));
}

// --- The steps

// Files of another owner than the folder's could not be opened by the service.
static int take_folder(const struct restoring *restoring)
{
    const char *folder = tern_state_settings(restoring->cli)->federation_state;
    struct stat status;
    TERN_CLI_TRY(tern_cli_check(restoring->cli, tern_file_make_folders(folder, 0700),
                                "cannot make %s: %s", folder, strerror(errno)));
    if (stat(folder, &status) != 0) {
        return tern_cli_fail(restoring->cli, TERN_ERR_IO, "cannot look at %s: %s", folder,
                             strerror(errno));
    }
    return status.st_uid == geteuid()
               ? TERN_EXIT_OK
               : tern_cli_fail(restoring->cli, TERN_ERR_STATE,
                               "%s belongs to another user; run this verb, as every other, as its "
                               "owner (runuser -u OWNER -- tern-aggregator restore ...)",
                               folder);
}

// Reads all of the copy, so that what was checked is what takes the place.
static enum tern_result check_copy(struct restoring *restoring, struct tern_db *db)
{
    enum tern_result result = tern_db_upgrade(db); // a copy is nobody else's
    result = result == TERN_OK ? tern_db_check(db) : result;
    result = result == TERN_OK ? look(db, &restoring->after) : result;
    result = result == TERN_OK ? tern_db_settle(db) : result;
    if (result != TERN_OK) {
        tern_db_damaged(db); // says which of two things it was
        snprintf(restoring->why, sizeof restoring->why, "%s", tern_db_error(db));
    }
    return result;
}

static int prepare(struct restoring *restoring)
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

static int refuse_used(const struct restoring *restoring, enum tern_result result, const char *why)
{
    return tern_cli_fail(restoring->cli, result, "%s: %s; mend that, then try again",
                         restoring->database, why);
}

// Takes what is there for itself until *db is closed. A database that is damaged, or newer than this
// program, is what backups are for: *db stays NULL then.
static int take_old(struct restoring *restoring, struct tern_db **db)
{
    enum tern_result result = tern_db_open(restoring->database, TERN_DB_OLDER, db, restoring->why);
    if (result != TERN_OK) {
        return result == TERN_ERR_BUSY ? refuse_used(restoring, result, restoring->why)
                                       : TERN_EXIT_OK;
    }
    result = tern_db_upgrade(*db); // it is served by nobody
    result = result == TERN_OK ? look(*db, &restoring->before) : result;
    if (result != TERN_OK) {
        snprintf(restoring->why, sizeof restoring->why, "%s", tern_db_error(*db));
    }
    TERN_CLI_TRY(refuse_others(restoring));
    result = tern_db_settle(*db);
    if (result != TERN_OK && result != TERN_ERR_BUSY && tern_db_damaged(*db)) {
        tern_db_close(*db);
        *db = NULL;
        return TERN_EXIT_OK;
    }
    return result == TERN_OK ? TERN_EXIT_OK : refuse_used(restoring, result, tern_db_error(*db));
}

static void name_kept(struct restoring *restoring)
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

static int replace(struct restoring *restoring)
{
    struct tern_db *old = NULL;
    char why[256];
    TERN_CLI_TRY(prepare(restoring));
    name_kept(restoring);
    restoring->was_there = access(restoring->database, F_OK) == 0;
    if (restoring->was_there) {
        const int code = take_old(restoring, &old);
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
    tern_db_remove(restoring->copy); // of a restore that was killed; the lock is ours
    const int code = replace(restoring);
    if (code != TERN_EXIT_OK) {
        tern_db_remove(restoring->copy);
    }
    return code;
}

// --- What came of it

static uint64_t lost(uint64_t before, uint64_t after)
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
    if (restoring->was_there) {
        cJSON_AddStringToObject(object, "kept", restoring->kept);
    }
    if (before->known) {
        tern_json_u64(object, "versions_lost", lost(before->version, after->version));
        tern_json_u64(object, "rounds_lost", lost(before->round, after->round));
        tern_json_u64(object, "clients_lost", lost(before->clients, after->clients));
    }
    return tern_json_print(restoring->cli, object);
}

static void print_lost(const struct restoring *restoring)
{
    const struct contents *before = &restoring->before;
    const struct contents *after = &restoring->after;
    if (!before->known) {
        printf("It could not be read, so what is lost cannot be told: %s\n", restoring->why);
        return;
    }
    printf("It was at version %" PRIu32 ", round %" PRIu32 ". Versions lost: %" PRIu64
           ", rounds: %" PRIu64 ", clients: %" PRIu64 ".\n",
           before->version, before->round, lost(before->version, after->version),
           lost(before->round, after->round), lost(before->clients, after->clients));
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
    if (restoring->was_there) {
        printf("What was there is kept as %s; delete it when nobody needs it.\n", restoring->kept);
        print_lost(restoring);
    }
    printf("Revoke and cancel again what was revoked or cancelled since the backup, then start the "
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
        return tern_cli_fail(cli, TERN_ERR_STATE,
                             "the database is in PostgreSQL (store.url): pg_restore takes it back "
                             "(docs/OPERATIONS.md, \"PostgreSQL\")");
    }
    if (access(restoring.file, R_OK) != 0) {
        return tern_cli_fail(cli, TERN_ERR_IO, "%s cannot be read: %s", restoring.file,
                             strerror(errno));
    }
    tern_state_path(cli, TERN_STATE_DATABASE, restoring.database);
    tern_state_path(cli, TERN_STATE_DATABASE ".restoring", restoring.copy);
    TERN_CLI_TRY(take_folder(&restoring));
    int code = tern_state_lock(cli, &lock);
    code = code == TERN_EXIT_OK ? restore(&restoring) : code;
    if (lock >= 0) {
        close(lock);
    }
    return code == TERN_EXIT_OK ? print_restored(&restoring) : code;
}
