#include "cli/disk_need.h"
#include "cli/doctor_checks.h"
#include "cli/serving.h"
#include "cli/shared_settings.h"
#include "cli/standby.h"
#include "cli/waiting.h"

#include "tensor/manifest.h"
#include <inttypes.h>
#include <string.h>

#define DATABASE "database"
#define DISK "disk"
#define CLOCK "clock"
#define ROUNDS "rounds"

// Times are stored when they come; more than this before them, the clock was set back.
#define CLOCK_MS 60000

#define COMPACT_BYTES (UINT64_C(64) << 20)

static void check_clock(struct tern_doctor *doctor, const struct tern_status *status)
{
    const uint64_t opened_ms = status->round.opened_ms;
    const uint64_t created_ms =
        status->version.version == UINT32_MAX ? 0 : status->version.created_ms;
    const uint64_t last_ms = opened_ms > created_ms ? opened_ms : created_ms;
    char text[TERN_TEXT];
    if (last_ms > doctor->now_ms + CLOCK_MS) {
        tern_findings_say(
            &doctor->findings, TERN_HEALTH_WARNING, CLOCK,
            "look at the time service (timedatectl); rounds go on meanwhile, times in "
            "lists are wrong",
            "it is %s behind the last round", tern_text_duration(last_ms - doctor->now_ms, text));
        return;
    }
    tern_findings_say(&doctor->findings, TERN_HEALTH_GOOD, CLOCK, NULL, "it is %s",
                      tern_text_time(doctor->now_ms, text));
}

// What it takes, what of that is empty, and what it will take.
static void check_size(struct tern_doctor *doctor, const struct tern_db_counts *counts,
                       uint64_t free_bytes)
{
    char size[TERN_TEXT];
    char part[TERN_TEXT];
    tern_text_bytes((double)counts->file_bytes, size);
    if (doctor->settings->limits_history_bytes == 0 && counts->rounds_committed > 0) {
        const uint64_t per_round = counts->update_bytes / counts->rounds_committed;
        tern_findings_say(&doctor->findings, TERN_HEALTH_WARNING, DATABASE,
                          "set limits.history_bytes, unless every round shall be replayed",
                          "%s, and it grows by %s a round: limits.history_bytes = 0", size,
                          tern_text_bytes((double)per_round, part));
    } else if (free_bytes > COMPACT_BYTES && free_bytes > counts->file_bytes / 2) {
        tern_findings_say(&doctor->findings, TERN_HEALTH_WARNING, DATABASE,
                          "`tern-aggregator compact` gives them back, unless a round needs them",
                          "%s, of which %s are empty", size,
                          tern_text_bytes((double)free_bytes, part));
    } else {
        tern_findings_say(&doctor->findings, TERN_HEALTH_GOOD, DATABASE, NULL,
                          "%s; updates are kept up to %s", size,
                          tern_text_bytes((double)doctor->settings->limits_history_bytes, part));
    }
}

static void keep_quiet(const char *sentence)
{
    (void)sentence; // `serve --check` prints advice on settings
}

// Checks whether the disk has the space that the federation will need.
static enum tern_result check_need(struct tern_doctor *doctor, struct tern_db *db)
{
    static struct tern_cli_serving serving;
    static struct tern_model model;
    struct tern_db_federation federation;
    struct tern_disk_need need;
    char text[TERN_DISK_NEED_MAX];
    struct tern_cli cli = *doctor->cli;
    TERN_TRY(tern_db_federation(db, &federation));
    if (!doctor->has_settings ||
        tern_model_build(&model, federation.model_spec, federation.manifest,
                         federation.manifest_len, federation.model_hash) != TERN_OK ||
        tern_cli_read_serving(&cli, &serving) != TERN_EXIT_OK ||
        tern_cli_fit_serving(&cli, &model, federation.model_spec, keep_quiet, &serving) !=
            TERN_EXIT_OK) {
        return TERN_OK; // another check reports the failure
    }
    TERN_TRY(tern_disk_need_of(doctor->settings, &serving.service.federation, &model, db, &need));
    if (tern_disk_need_is_short(&need, text)) {
        tern_findings_say(&doctor->findings, TERN_HEALTH_WARNING, DISK, TERN_DISK_NEED_ADVICE, "%s",
                          text);
    }
    return TERN_OK;
}

#define NAMED 5 // of those that a round waits for

// Rounds that wait are no fault of the service: whom they wait for may sleep. Others wait for the operator.
static void say_waiting(struct tern_doctor *doctor, const struct tern_waiting *waiting)
{
    char names[NAMED * (TERN_TEXT + 16)] = "";
    for (uint32_t i = 0; i < waiting->shown && i < NAMED; i++) {
        char name[TERN_TEXT];
        const size_t len = strlen(names);
        snprintf(names + len, sizeof names - len, "%sclient %" PRIu64 " (%s)",
                 i == 0 ? ", longest of all for " : ", ", waiting->members[i].client.id,
                 tern_text_name(waiting->members[i].client.name, name));
    }
    tern_findings_say(
        &doctor->findings, waiting->needs_help ? TERN_HEALTH_WARNING : TERN_HEALTH_GOOD, ROUNDS,
        waiting->needs_help ? waiting->advice : NULL, "%s%s", waiting->sentence, names);
}

struct differing {
    struct tern_doctor *doctor;
    const struct tern_db_node *node;
};

static void say_difference(void *ctx, const struct tern_setting_difference *difference)
{
    const struct differing *differing = ctx;
    char name[TERN_STANDBY_NAME_MAX];
    tern_findings_say(&differing->doctor->findings, TERN_HEALTH_WARNING, DATABASE,
                      "make them alike in the files of all aggregators, then SIGHUP to each",
                      "%s = %.100s at %s, and %.100s at the one that leads", difference->key,
                      difference->here, tern_standby_name(differing->node, name),
                      difference->there);
}

static enum tern_result say_differences(struct tern_doctor *doctor, struct tern_db *db,
                                        const struct tern_db_node *nodes, size_t count)
{
    char *texts[TERN_STANDBY_NODES] = {NULL};
    const enum tern_result result = tern_shared_settings_load(db, nodes, count, texts);
    for (size_t i = 1; i < count && result == TERN_OK; i++) {
        struct differing differing = {doctor, &nodes[i]};
        if (texts[0] != NULL && texts[i] != NULL) {
            tern_shared_settings_compare(texts[i], texts[0], say_difference, &differing);
        }
    }
    tern_shared_settings_free(texts, count);
    return result;
}

// Who leads, where several aggregators serve the database.
static enum tern_result say_nodes(struct tern_doctor *doctor, struct tern_db *db)
{
    struct tern_db_node nodes[TERN_STANDBY_NODES];
    char leader[TERN_STANDBY_NAME_MAX];
    char complaint[256];
    size_t count = 0;
    TERN_TRY(tern_db_nodes(db, nodes, TERN_STANDBY_NODES, &count));
    size_t follow = 0;
    for (size_t i = 1; i < count; i++) {
        follow += nodes[i].follows;
    }
    if (count > 0 && nodes[0].leads && tern_standby_complaint(&nodes[0], complaint)) {
        tern_findings_say(&doctor->findings, TERN_HEALTH_PROBLEM, DATABASE, TERN_STANDBY_ADVICE,
                          "%s", complaint);
    } else if (count > 0 && nodes[0].leads) {
        tern_findings_say(&doctor->findings, TERN_HEALTH_GOOD, DATABASE, NULL,
                          "%s leads; %zu follow, and %zu stand by, which listen to nobody",
                          tern_standby_name(&nodes[0], leader), follow, count - 1 - follow);
    }
    return count > 0 && nodes[0].leads ? say_differences(doctor, db, nodes, count) : TERN_OK;
}

static enum tern_result say_copied(struct tern_doctor *doctor, struct tern_db *db)
{
    struct tern_db_federation federation;
    TERN_TRY(tern_db_federation(db, &federation));
    if (federation.copied_to[0] != '\0') {
        tern_findings_say(&doctor->findings, TERN_HEALTH_PROBLEM, DATABASE,
                          "serve that one, or take it back: tern-aggregator copy --forget",
                          "it was copied to %s, and goes on there", federation.copied_to);
    }
    return TERN_OK;
}

static enum tern_result report_other_columns(struct tern_doctor *doctor, struct tern_db *db)
{
    struct tern_other_columns columns;
    char text[TERN_OTHER_COLUMNS_TEXT];
    TERN_TRY(tern_other_columns_load(db, &columns));
    if (tern_other_columns_describe(&columns, text)) {
        tern_findings_say(&doctor->findings, TERN_HEALTH_WARNING, "columns",
                          TERN_OTHER_COLUMNS_ADVICE, "%s", text);
    }
    return TERN_OK;
}

static enum tern_result look(struct tern_doctor *doctor, struct tern_db *db)
{
    struct tern_status *status = &doctor->status;
    struct tern_waiting *waiting = &doctor->waiting;
    uint64_t free_bytes = 0;
    TERN_TRY(tern_db_quick_check(db));
    TERN_TRY(tern_status_load(db, doctor->now_ms, status));
    TERN_TRY(tern_db_free_bytes(db, &free_bytes));
    TERN_TRY(say_copied(doctor, db));
    TERN_TRY(tern_cli_waiting_load(doctor->cli, db, status, doctor->now_ms, waiting));
    check_size(doctor, &status->counts, free_bytes);
    TERN_TRY(check_need(doctor, db));
    check_clock(doctor, status);
    say_waiting(doctor, waiting);
    TERN_TRY(report_other_columns(doctor, db));
    return say_nodes(doctor, db);
}

// What keeps a server from answering is no damage, and a backup would take away what was acknowledged.
static const char look_at_postgres[] =
    "start PostgreSQL, or look at store.url and what it needs; nothing that was stored is lost by "
    "this, and a service goes on by itself";
static const char take_version[] = "what is said there: nothing is wrong with the database but "
                                   "that this program is of another version";
static const char make_room[] = "delete files of other programs on that disk; then start the "
                                "service, or run `tern-aggregator prune --keep 10`";
static const char restore[] = "stop the service and restore a backup (docs/OPERATIONS.md, \"When "
                              "it is broken\")";

void tern_doctor_database(struct tern_doctor *doctor)
{
    const char *advice = tern_state_is_postgres(doctor->cli) ? look_at_postgres
                         : doctor->disk_is_full              ? make_room
                                                             : restore;
    char path[PATH_MAX];
    char why[256];
    struct tern_db *db;
    tern_state_database(doctor->cli, path);
    enum tern_result result = tern_db_open(path, 0, &db, why);
    if (result != TERN_OK) {
        const bool is_of_other = result == TERN_ERR_UNKNOWN || result == TERN_ERR_STATE;
        tern_findings_say(&doctor->findings, TERN_HEALTH_PROBLEM, DATABASE,
                          is_of_other ? take_version : advice, "%s", why);
        if (!doctor->disk_is_full || tern_db_open(path, TERN_DB_READING, &db, why) != TERN_OK) {
            return;
        }
    }
    result = tern_db_begin_reading(db);
    result = result == TERN_OK ? look(doctor, db) : result;
    if (result != TERN_OK) {
        tern_findings_say(
            &doctor->findings, TERN_HEALTH_PROBLEM, DATABASE,
            result == TERN_ERR_BUSY ? "try again"
            : tern_db_damaged(db)   ? restore
                                    : advice,
            "%s", tern_db_error(db)[0] != '\0' ? tern_db_error(db) : tern_result_sentence(result));
    }
    tern_db_close(db);
}
