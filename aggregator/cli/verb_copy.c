// copy writes a federation to another database. The copy appears only after all rows were read again and all rounds
// replayed.
#include "cli/shared_database.h"
#include "cli/state.h"
#include "cli/verbs.h"
#include "cli/verification.h"

#include "hosted/system.h"
#include "store/store.h"
#include "util/bytes.h"
#include <inttypes.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SHOW_MS 200 // between two reports of the progress

struct copying {
    struct tern_cli *cli;
    const char *target;
    char source[PATH_MAX];
    struct tern_db *from;
    struct tern_verification found;
    uint64_t shown_ms;
    cJSON *tables; // NULL: without --json
    uint64_t table_count;
    uint64_t rows;
    uint64_t bytes;
};

// --- Progress and checks

static void show_progress(void *ctx, const char *doing, const char *table, uint64_t rows)
{
    struct copying *copying = ctx;
    const uint64_t now_ms = tern_monotonic_ms();
    if (now_ms - copying->shown_ms >= SHOW_MS) {
        copying->shown_ms = now_ms;
        fprintf(stderr, "\r%s %s: %" PRIu64 " rows\033[K", doing, table, rows);
    }
}

// Checks that replaying the copy leads to the newest version of the source.
static enum tern_result check_copy(void *ctx, struct tern_db *copy, char why[256])
{
    struct copying *copying = ctx;
    struct tern_db_version last;
    TERN_TRY(tern_verify(copy, &copying->found, why));
    const enum tern_result result = tern_db_version_last(copying->from, &last);
    if (result == TERN_ERR_NOT_FOUND) { // never served
        return TERN_OK;
    }
    if (result != TERN_OK) {
        snprintf(why, 256, "%s", tern_db_error(copying->from));
        return result;
    }
    if (memcmp(last.model_sha256, copying->found.report.model_sha256, TERN_SHA256_SIZE) != 0) {
        snprintf(why, 256, "replaying the copy gives a different model than the original has");
        return TERN_ERR_CORRUPT;
    }
    return TERN_OK;
}

static void count_table(void *ctx, const struct tern_db_copied_table *table)
{
    struct copying *copying = ctx;
    copying->table_count++;
    copying->rows += table->rows;
    copying->bytes += table->bytes;
    if (copying->tables != NULL) {
        cJSON *row = cJSON_CreateObject();
        cJSON_AddStringToObject(row, "name", table->name);
        tern_json_u64(row, "rows", table->rows);
        tern_json_hash(row, "sha256", table->sha256);
        cJSON_AddItemToArray(copying->tables, row);
    }
}

// --- Services on the databases

// Writes "NAME at ADDRESS" of the aggregator that leads on a database; false: no aggregator leads, or the leader is unknown.
static bool name_leader(struct tern_db *db, char name[TERN_STANDBY_NAME_MAX])
{
    struct tern_db_node leader;
    const bool found = tern_standby_find_leader(db, &leader);
    if (found) {
        tern_standby_name(&leader, name);
    }
    return found;
}

// Keeps services of all machines away until the source is closed.
static int lock_source(const struct copying *copying)
{
    char leader[TERN_STANDBY_NAME_MAX];
    const bool is_served = name_leader(copying->from, leader);
    const enum tern_result result = tern_db_hold(copying->from);
    if (result == TERN_ERR_STATE) {
        return tern_cli_fail(copying->cli, result,
                             "%s is served by %s: stop it, and all aggregators that stand by",
                             copying->source, is_served ? leader : "another aggregator");
    }
    return tern_cli_check(copying->cli, result, "%s", tern_db_error(copying->from));
}

static int refuse_target(const struct copying *copying, const char *why)
{
    char leader[TERN_STANDBY_NAME_MAX] = "";
    char ignored[256];
    struct tern_db *db = NULL;
    bool is_served = false;
    if (tern_db_is_url(copying->target) &&
        tern_db_open(copying->target, 0, &db, ignored) == TERN_OK) {
        is_served = name_leader(db, leader);
        tern_db_close(db);
    }
    return tern_cli_fail(
        copying->cli, TERN_ERR_STATE,
        "%s%s%s; nothing was copied. The target must be a file that does not exist, or a "
        "PostgreSQL database or schema without tables",
        why, is_served ? ", served by " : "", leader);
}

// --- Output

static int print_json(struct copying *copying)
{
    cJSON *object = cJSON_CreateObject();
    cJSON_AddStringToObject(object, "from", copying->source);
    cJSON_AddStringToObject(object, "to", copying->target);
    tern_json_u64(object, "rows", copying->rows);
    tern_json_u64(object, "bytes", copying->bytes);
    tern_json_hash(object, "model_sha256", copying->found.report.model_sha256);
    cJSON_AddItemToObject(object, "tables", copying->tables);
    return tern_json_print(copying->cli, object);
}

static void print_settings(const struct copying *copying)
{
    const char *config = copying->cli->config;
    char path[PATH_MAX];
    char name[PATH_MAX];
    printf("\nNext, change the settings (%s):\n", config != NULL ? config : "a file for --config");
    if (tern_db_is_url(copying->target)) {
        printf("  [store]\n  url = %s\n", copying->target);
        return;
    }
    snprintf(path, sizeof path, "%s", copying->target);
    snprintf(name, sizeof name, "%s", copying->target);
    printf("  [federation]\n  state = %s\n  and remove url from [store]\n", dirname(path));
    if (strcmp(basename(name), TERN_STATE_DATABASE) != 0) {
        printf("Rename the file to " TERN_STATE_DATABASE " there.\n");
    }
}

static void print_next(const struct copying *copying)
{
    print_settings(copying);
    printf("Then start the service. If the state directory or the machine changes, take the "
           "certificate "
           "and its key along;\n"
           "the other files are made again. The source is a backup from now on: serve refuses it, "
           "and the "
           "copy alone\n"
           "gets new updates.\n");
}

static int print_copied(struct copying *copying)
{
    char size[TERN_TEXT];
    char hash[2 * TERN_SHA256_SIZE + 1];
    if (copying->cli->json) {
        return print_json(copying);
    }
    tern_hex_encode(copying->found.report.model_sha256, TERN_SHA256_SIZE, hash);
    printf("Copied %s to %s: %" PRIu64 " rows of %" PRIu64 " tables, %s.\n", copying->source,
           copying->target, copying->rows, copying->table_count,
           tern_text_bytes((double)copying->bytes, size));
    printf("All rows were read again and are equal, and the copy was verified.\n"
           "Model SHA-256 %s\n",
           hash);
    print_next(copying);
    return TERN_EXIT_OK;
}

// --- The note in the source that it was copied

static enum tern_result set_copied_to(struct tern_db *db, const char *to)
{
    TERN_TRY(tern_db_begin(db));
    const uint64_t now_ms = tern_now_ms();
    enum tern_result result = tern_db_set_copied(db, to, to[0] != '\0' ? now_ms : 0);
    if (result == TERN_OK) {
        result = to[0] != '\0' ? tern_db_audit(db, now_ms, "copy", "", to,
                                               "the federation continues in a copy")
                               : tern_db_audit(db, now_ms, "copy --forget", "", "",
                                               "the federation continues here");
    }
    return tern_db_conclude(db, result);
}

// Call after the copy is complete: else a failure would leave no database that can be served.
static int mark_copied(const struct copying *copying)
{
    char file[PATH_MAX];
    const bool is_file =
        !tern_db_is_url(copying->target) && realpath(copying->target, file) != NULL;
    const enum tern_result result = set_copied_to(copying->from, is_file ? file : copying->target);
    return tern_cli_check(copying->cli, result,
                          "the copy is complete, but its source %s could not be marked as copied: "
                          "%s. Never serve the "
                          "source again",
                          copying->source, tern_db_error(copying->from));
}

static int forget_copy(struct copying *copying)
{
    if (copying->target != NULL) {
        return tern_cli_fail(copying->cli, TERN_ERR_CONFIG, "--forget copies nothing: leave out %s",
                             copying->target);
    }
    TERN_CLI_TRY(lock_source(copying));
    TERN_CLI_TRY(tern_state_upgrade(copying->cli, copying->from));
    TERN_CLI_TRY(tern_cli_check(copying->cli, set_copied_to(copying->from, ""), "%s",
                                tern_db_error(copying->from)));
    printf("%s can be served and copied again.\n", copying->source);
    return TERN_EXIT_OK;
}

// --- The verb

static int copy(struct copying *copying)
{
    const bool watched = isatty(STDERR_FILENO) == 1;
    char why[256] = "";
    const struct tern_db_copying how = {.progress = watched ? show_progress : NULL,
                                        .check = check_copy,
                                        .made = count_table,
                                        .ctx = copying};
    TERN_CLI_TRY(lock_source(copying));
    TERN_CLI_TRY(tern_state_upgrade(copying->cli, copying->from));
    TERN_CLI_TRY(tern_state_refuse_copied(copying->cli, copying->from, "; nothing was copied"));
    copying->tables = copying->cli->json ? cJSON_CreateArray() : NULL;
    const enum tern_result result = tern_db_copy_state(copying->from, copying->target, &how, why);
    if (watched) {
        fprintf(stderr, "\r\033[K");
    }
    if (result == TERN_OK) {
        TERN_CLI_TRY(mark_copied(copying));
        return print_copied(copying);
    }
    cJSON_Delete(copying->tables);
    return result == TERN_ERR_CONFLICT
               ? refuse_target(copying, why)
               : tern_cli_fail(copying->cli, result, "%s; nothing was copied", why);
}

int tern_cli_copy(struct tern_cli *cli)
{
    static struct copying copying;
    int lock = -1;
    copying.cli = cli;
    copying.target = cli->argument_count > 0 ? cli->arguments[0] : NULL;
    const bool forgets = tern_cli_flag(cli, "forget");
    if (copying.target == NULL && !forgets) {
        return tern_cli_fail(cli, TERN_ERR_CONFIG,
                             "the target is missing: give a new file or a PostgreSQL URL");
    }
    if (!forgets) {
        TERN_CLI_TRY(tern_state_check_scheme(cli, "", copying.target));
    }
    tern_state_database(cli, copying.source);
    TERN_CLI_TRY(tern_state_lock(cli, &lock));
    int code = tern_state_open_any(cli, TERN_DB_OLDER, &copying.from);
    if (code == TERN_EXIT_OK) {
        code = forgets ? forget_copy(&copying) : copy(&copying);
        tern_db_close(copying.from);
    }
    close(lock);
    return code;
}
