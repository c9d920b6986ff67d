// doctor: everything that an operator would look at when a service does not do what it should.
#include "admin/waiting.h"
#include "cli/disk_need.h"
#include "cli/gateway.h"
#include "cli/process.h"
#include "cli/service_config.h"
#include "cli/serving.h"
#include "cli/shared_settings.h"
#include "cli/standby.h"
#include "cli/state.h"
#include "cli/tls_files.h"
#include "cli/verbs.h"
#include "cli/waiting.h"
#include "hosted/cli.h"
#include "http/certificate.h"
#include "http/http.h"
#include "http/tickets.h"
#include "store/store.h"
#include "tensor/manifest.h"

#include <errno.h>
#include <inttypes.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

// The input of all checks, and their findings.
struct doctor {
    const struct tern_cli *cli;
    const struct tern_aggregator_settings *settings;
    uint64_t now_ms;
    struct tern_status status;   // of the store; zeros where the store cannot be read
    struct tern_waiting waiting; // of the store; zeros where the store cannot be read
    bool has_settings;           // the settings are consistent with one another
    bool disk_is_full;           // too full to open the database for writing
    struct tern_findings findings;
};

// --- Findings

// Prints the numbers of problems and warnings, or all findings as JSON. Returns an exit code.
static int conclude(struct doctor *doctor)
{
    const uint32_t problems = doctor->findings.count[TERN_HEALTH_PROBLEM];
    const uint32_t warnings = doctor->findings.count[TERN_HEALTH_WARNING];
    const int code = problems > 0 ? TERN_EXIT_FAILED : TERN_EXIT_OK;
    if (doctor->findings.list == NULL) {
        printf("%u problem%s, %u warning%s.\n", problems, problems == 1 ? "" : "s", warnings,
               warnings == 1 ? "" : "s");
        return code;
    }
    const int printed = tern_json_print(doctor->cli, doctor->findings.list);
    return printed != TERN_EXIT_OK ? printed : code;
}

// --- The state directory

#define STATE "state"
#define DISK "disk"
#define CERTIFICATE "certificate"

// --- The folder and its files

static void report_loose(void *ctx, const char *path, mode_t mode, const char *change)
{
    struct doctor *doctor = ctx;
    char advice[PATH_MAX + 32];
    snprintf(advice, sizeof advice, "chmod %s %s", change, path);
    tern_findings_say(&doctor->findings, TERN_HEALTH_WARNING, STATE, advice,
                      "%s may be read or written by others: its mode is %04o", path,
                      (unsigned)mode);
}

// What root makes in the folder of another user, SQLite's files beside the database among it, the
// service could not write.
static bool is_right_user(struct doctor *doctor, const char *path, const struct stat *database)
{
    const struct passwd *owner = getpwuid(database->st_uid);
    char advice[PATH_MAX + 96] = "run this verb, as every other, as its owner";
    if (database->st_uid == geteuid()) {
        return true;
    }
    if (owner != NULL) {
        snprintf(advice, sizeof advice, "runuser -u %.32s -- tern-aggregator doctor --state %s",
                 owner->pw_name, doctor->settings->federation_state);
    }
    tern_findings_say(&doctor->findings, TERN_HEALTH_PROBLEM, STATE, advice,
                      "%s belongs to %s, so that it is not looked into", path,
                      owner != NULL ? owner->pw_name : "another user");
    return false;
}

// --- Room

#define FREE_SHARE 16                   // a problem where the disk is low by this share
#define FREE_FULL (UINT64_C(128) << 10) // SQLite needs as much to open the database
#define FILES_WARNING 1000

static void check_disk(struct doctor *doctor)
{
    struct statvfs disk;
    char text[TERN_TEXT];
    if (statvfs(doctor->settings->federation_state, &disk) != 0) {
        return; // the folder was just found
    }
    const uint64_t bytes = (uint64_t)disk.f_bavail * disk.f_frsize;
    const uint64_t whole = (uint64_t)disk.f_blocks * disk.f_frsize;
    tern_text_bytes((double)bytes, text);
    doctor->disk_is_full = bytes < FREE_FULL;
    if (tern_disk_is_low(bytes, whole, FREE_SHARE)) {
        tern_findings_say(
            &doctor->findings, TERN_HEALTH_PROBLEM, DISK,
            "make room; `tern-aggregator prune --keep 10`, then `compact`, give some back, also on "
            "a full disk; lower limits.history_bytes and limits.keep_versions",
            "%s are free where the state is: nothing can be stored once it is full", text);
    } else if (disk.f_files != 0 && disk.f_favail < FILES_WARNING) {
        tern_findings_say(
            &doctor->findings, TERN_HEALTH_WARNING, DISK, "remove files from that file system",
            "only %" PRIu64 " more files can be made where the state is", (uint64_t)disk.f_favail);
    } else {
        tern_findings_say(&doctor->findings, TERN_HEALTH_GOOD, DISK, NULL,
                          "%s are free where the state is", text);
    }
}

// The service limits the log to 64 MiB or an eighth of the free bytes, at most twice this, plus one transaction.
#define LOG_WARNING (UINT64_C(512) << 20)
#define LOG_FEW (UINT64_C(1) << 20)

// Returns half of the bytes that are free without the log, between LOG_FEW and LOG_WARNING.
static uint64_t log_warning(const struct doctor *doctor, uint64_t bytes)
{
    struct statvfs disk;
    if (statvfs(doctor->settings->federation_state, &disk) != 0) {
        return LOG_WARNING;
    }
    const uint64_t half = ((uint64_t)disk.f_bavail * disk.f_frsize + bytes) / 2;
    const uint64_t most = half < LOG_WARNING ? half : LOG_WARNING;
    return most > LOG_FEW ? most : LOG_FEW;
}

static void check_log(struct doctor *doctor)
{
    char path[PATH_MAX];
    char text[TERN_TEXT];
    struct stat status;
    tern_state_path(doctor->cli, TERN_STATE_DATABASE "-wal", path);
    if (stat(path, &status) != 0 ||
        (uint64_t)status.st_size < log_warning(doctor, (uint64_t)status.st_size)) {
        return;
    }
    tern_findings_say(&doctor->findings, TERN_HEALTH_WARNING, DISK,
                      "end verbs that have been reading for long (a stopped `export`, a pager); a "
                      "restart of the service writes it back",
                      "the log beside the database has %s, which are not written back",
                      tern_text_bytes((double)status.st_size, text));
}

// With keys that it cannot take, a service does not start.
static void check_ticket_keys(struct doctor *doctor)
{
    char path[PATH_MAX];
    char why[256];
    tern_state_path(doctor->cli, TERN_STATE_TICKET_KEYS, path);
    if (tern_ticket_keys_check(path, why) != TERN_OK) {
        tern_findings_say(&doctor->findings, TERN_HEALTH_PROBLEM, STATE,
                          "delete it: the next start makes new keys, and each client pays one full "
                          "handshake",
                          "`serve` would not start: %s", why);
    }
}

// The state directory and its disk (doctor_state.c). False: there is no federation that could be looked at,
// or looking at it as this user would do harm.
static bool doctor_state(struct doctor *doctor)
{
    const char *folder = doctor->settings->federation_state;
    char path[PATH_MAX];
    struct stat status;
    tern_state_path(doctor->cli, tern_state_is_postgres(doctor->cli) ? "." : TERN_STATE_DATABASE,
                    path);
    if (stat(path, &status) != 0) {
        const bool is_missing = errno == ENOENT;
        tern_findings_say(&doctor->findings, TERN_HEALTH_PROBLEM, STATE,
                          is_missing && tern_gateway_is_one(doctor->cli)
                              ? "`tern-aggregator join CODE` did not come to its end; again, it "
                                "goes on"
                          : is_missing
                              ? "name it by --config or --state, or make a new federation: "
                                "`tern-aggregator init`"
                              : "run this verb, as every other, as the user of the service",
                          "there is no federation in %s: %s", folder, strerror(errno));
        return false;
    }
    if (!is_right_user(doctor, path, &status)) {
        return false;
    }
    const uint32_t before = doctor->findings.count[TERN_HEALTH_WARNING];
    tern_cli_each_loose_file(doctor->cli, report_loose, doctor);
    if (access(folder, W_OK) != 0) {
        tern_findings_say(&doctor->findings, TERN_HEALTH_PROBLEM, STATE,
                          "mount it for writing, or give it back to its user", "%s: %s", folder,
                          strerror(errno));
        return false;
    }
    if (doctor->findings.count[TERN_HEALTH_WARNING] == before) {
        tern_findings_say(&doctor->findings, TERN_HEALTH_GOOD, STATE, NULL,
                          "%s, and nobody else reads it", folder);
    }
    check_ticket_keys(doctor);
    check_disk(doctor);
    check_log(doctor);
    return true;
}

// --- Certificate

#define WARN_MS (UINT64_C(14) * 86400000)

static const char renew_advice[] = "put a new one in its place, then send SIGHUP to the service "
                                   "(systemctl reload tern-aggregator)";

static void check_times(struct doctor *doctor, const char *path,
                        const struct tern_certificate *certificate, const char *consequence)
{
    const uint64_t ends_ms = certificate->ends_s * 1000;
    char text[TERN_TEXT];
    if (certificate->begins_s * 1000 > doctor->now_ms) {
        tern_findings_say(&doctor->findings, TERN_HEALTH_PROBLEM, CERTIFICATE,
                          "look at the clock of this machine; else get one that is valid by now",
                          "%s is not valid before %s", path,
                          tern_text_time(certificate->begins_s * 1000, text));
    } else if (ends_ms <= doctor->now_ms) {
        tern_findings_say(&doctor->findings, TERN_HEALTH_PROBLEM, CERTIFICATE, renew_advice,
                          "%s expired %s: %s", path, tern_text_time(ends_ms, text), consequence);
    } else {
        const bool soon = ends_ms < doctor->now_ms + WARN_MS;
        tern_findings_say(&doctor->findings, soon ? TERN_HEALTH_WARNING : TERN_HEALTH_GOOD,
                          CERTIFICATE, soon ? renew_advice : NULL, "%s expires in %s", path,
                          tern_text_duration(ends_ms - doctor->now_ms, text));
    }
}

static void check_names(struct doctor *doctor, const char *path, const char *names)
{
    if (names[0] == '\0') {
        tern_findings_say(&doctor->findings, TERN_HEALTH_PROBLEM, CERTIFICATE,
                          "get one with the name in [client] server as subjectAltName",
                          "%s has no names: clients refuse it", path);
    } else {
        tern_findings_say(&doctor->findings, TERN_HEALTH_GOOD, CERTIFICATE, NULL,
                          "clients must call the server one of: %s", names);
    }
}

// Checks the CAs of client certificates, if client certificates are requested.
static void check_client_ca(struct doctor *doctor, const char *path)
{
    struct tern_certificate certificate;
    char why[256];
    if (path == NULL) {
        return;
    }
    if (tern_certificate_read(path, &certificate, why) != TERN_OK) {
        tern_findings_say(&doctor->findings, TERN_HEALTH_PROBLEM, CERTIFICATE,
                          "tls.client_ca names the CAs of clients' certificates", "%s", why);
        return;
    }
    check_times(doctor, path, &certificate, "clients with certificates of that CA are refused");
}

static void doctor_certificate(struct doctor *doctor)
{
    static const char advice[] = "name the files by server.certificate and server.private_key, or "
                                 "make them: `tern-aggregator serve` prints how";
    struct tern_certificate certificate;
    struct tern_cli_tls_files files;
    char why[256];
    tern_cli_tls_files(doctor->cli, doctor->settings, &files);
    check_client_ca(doctor, files.names.client_ca);
    files.names.client_ca = NULL;
    if (tern_certificate_read(files.certificate, &certificate, why) != TERN_OK) {
        tern_findings_say(&doctor->findings, TERN_HEALTH_PROBLEM, CERTIFICATE, advice, "%s", why);
        return;
    }
    check_times(doctor, files.certificate, &certificate, "clients refuse it");
    check_names(doctor, files.certificate, certificate.names);
    if (tern_http_check_files(&files.names, why) != TERN_OK) {
        tern_findings_say(&doctor->findings, TERN_HEALTH_PROBLEM, CERTIFICATE, advice, "%s", why);
    }
}

// --- The database

#define DATABASE "database"
#define CLOCK "clock"
#define ROUNDS "rounds"

// Times are stored when they come; more than this before them, the clock was set back.
#define CLOCK_MS 60000

#define COMPACT_BYTES (UINT64_C(64) << 20)

static void check_clock(struct doctor *doctor, const struct tern_status *status)
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
static void check_size(struct doctor *doctor, const struct tern_db_counts *counts,
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
static enum tern_result check_need(struct doctor *doctor, struct tern_db *db)
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
static void report_waiting(struct doctor *doctor, const struct tern_waiting *waiting)
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
    struct doctor *doctor;
    const struct tern_db_node *node;
};

static void report_difference(void *ctx, const struct tern_setting_difference *difference)
{
    const struct differing *differing = ctx;
    char name[TERN_STANDBY_NAME_MAX];
    tern_findings_say(&differing->doctor->findings, TERN_HEALTH_WARNING, DATABASE,
                      "make them alike in the files of all aggregators, then SIGHUP to each",
                      "%s = %.100s at %s, and %.100s at the one that leads", difference->key,
                      difference->here, tern_standby_name(differing->node, name),
                      difference->there);
}

static enum tern_result report_differences(struct doctor *doctor, struct tern_db *db,
                                           const struct tern_db_node *nodes, size_t count)
{
    char *texts[TERN_STANDBY_NODES] = {NULL};
    const enum tern_result result = tern_shared_settings_load(db, nodes, count, texts);
    for (size_t i = 1; i < count && result == TERN_OK; i++) {
        struct differing differing = {doctor, &nodes[i]};
        if (texts[0] != NULL && texts[i] != NULL) {
            tern_shared_settings_compare(texts[i], texts[0], report_difference, &differing);
        }
    }
    tern_shared_settings_free(texts, count);
    return result;
}

// Who leads, where several aggregators serve the database.
static enum tern_result report_nodes(struct doctor *doctor, struct tern_db *db)
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
    return count > 0 && nodes[0].leads ? report_differences(doctor, db, nodes, count) : TERN_OK;
}

static enum tern_result report_copied(struct doctor *doctor, struct tern_db *db)
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

static enum tern_result report_other_columns(struct doctor *doctor, struct tern_db *db)
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

static enum tern_result look(struct doctor *doctor, struct tern_db *db)
{
    struct tern_status *status = &doctor->status;
    struct tern_waiting *waiting = &doctor->waiting;
    uint64_t free_bytes = 0;
    TERN_TRY(tern_db_quick_check(db));
    TERN_TRY(tern_status_load(db, doctor->now_ms, status));
    TERN_TRY(tern_db_free_bytes(db, &free_bytes));
    TERN_TRY(report_copied(doctor, db));
    TERN_TRY(tern_cli_waiting_load(doctor->cli, db, status, doctor->now_ms, waiting));
    check_size(doctor, &status->counts, free_bytes);
    TERN_TRY(check_need(doctor, db));
    check_clock(doctor, status);
    report_waiting(doctor, waiting);
    TERN_TRY(report_other_columns(doctor, db));
    return report_nodes(doctor, db);
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

// Checks the database, and what the round waits for (doctor_database.c). Fills doctor->status and
// doctor->waiting.
static void doctor_database(struct doctor *doctor)
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

// --- The service and the machine

#define SERVICE "service"
#define LIMITS "limits"
#define ABOVE "above"

// --- What it says of itself

static void check_ready(struct doctor *doctor, long process)
{
    char why[256];
    char name[48] = "it runs";
    if (process != 0) {
        snprintf(name, sizeof name, "it runs as process %ld", process);
    }
    switch (tern_readiness_ask(doctor->settings, why)) {
    case TERN_READINESS_BAD:
        tern_findings_say(&doctor->findings, TERN_HEALTH_PROBLEM, SERVICE,
                          tern_readiness_advice(why), "%s, but %s", name, why);
        break;
    case TERN_READINESS_GOOD:
        tern_findings_say(&doctor->findings, TERN_HEALTH_GOOD, SERVICE, NULL,
                          "%s, and stores what comes", name);
        break;
    case TERN_READINESS_SILENT:
        tern_findings_say(&doctor->findings, TERN_HEALTH_WARNING, SERVICE,
                          "ask again; if it stays so, look into the log and restart it",
                          "%s, but admin.address does not answer within %d s", name,
                          TERN_READINESS_PATIENCE_S);
        break;
    case TERN_READINESS_UNKNOWN:
        tern_findings_say(&doctor->findings, TERN_HEALTH_GOOD, SERVICE, NULL,
                          "%s; admin.address says no more of it", name);
        break;
    }
}

// Of a gateway that runs.
static void check_above(struct doctor *doctor)
{
    struct tern_service_upstream above;
    char text[TERN_UPSTREAM_MAX];
    tern_gateway_above(doctor->cli, &above);
    if (above.silent_ms != 0) {
        tern_findings_say(&doctor->findings, TERN_HEALTH_PROBLEM, ABOVE,
                          tern_upstream_advice(&above), "%s",
                          tern_upstream_sentence(&above, doctor->now_ms, text));
    } else if (above.is_known) {
        tern_findings_say(&doctor->findings, TERN_HEALTH_GOOD, ABOVE, NULL,
                          "the aggregator above answers this gateway");
    }
}

// --- What it may have

// The hard limit of open files of a process; of this one where that cannot be read.
static uint64_t file_limit(long process)
{
    char path[64];
    char line[256];
    unsigned long long hard = 0;
    struct rlimit own;
    snprintf(path, sizeof path, "/proc/%ld/limits", process);
    FILE *limits = process != 0 ? fopen(path, "re") : NULL;
    while (limits != NULL && hard == 0 && fgets(line, sizeof line, limits) != NULL) {
        (void)sscanf(line, "Max open files %*s %llu", &hard);
    }
    if (limits != NULL) {
        fclose(limits);
    }
    if (hard == 0 && getrlimit(RLIMIT_NOFILE, &own) == 0) {
        hard = own.rlim_max;
    }
    return hard;
}

static void check_files(struct doctor *doctor, long process)
{
    const uint64_t clients = doctor->status.counts.clients;
    const uint64_t needed = tern_cli_files_needed(doctor->settings, clients);
    const uint64_t limit = file_limit(process);
    const char *whose = process != 0 ? "the service" : "a service that is started from here";
    if (limit < needed) {
        tern_findings_say(
            &doctor->findings, TERN_HEALTH_WARNING, LIMITS,
            "raise LimitNOFILE of the unit or ulimit -Hn, or lower limits.connections",
            "%s may have %" PRIu64 " files open, and %" PRIu64 " client%s need%s %" PRIu64, whose,
            limit, clients, clients == 1 ? "" : "s", clients == 1 ? "s" : "", needed);
    } else {
        tern_findings_say(&doctor->findings, TERN_HEALTH_GOOD, LIMITS, NULL,
                          "%s may have as many files open as its clients need", whose);
    }
}

// The rounds are done, or losses have ended the federation: only a client that arrives late needs the
// service.
static bool is_over(const struct doctor *doctor)
{
    return doctor->waiting.wait == TERN_WAIT_FINISHED || doctor->waiting.wait == TERN_WAIT_ENDED;
}

// Checks whether a required service runs, and the system's limits for it (doctor_service.c). Call after the
// check of the database.
static void doctor_service(struct doctor *doctor)
{
    const long process = tern_state_server(doctor->cli);
    const bool gateway = tern_gateway_is_one(doctor->cli);
    if (!tern_state_is_served(doctor->cli) && is_over(doctor)) {
        tern_findings_say(&doctor->findings, TERN_HEALTH_GOOD, SERVICE, NULL,
                          "the service is not running, and nothing needs it: %s",
                          doctor->waiting.sentence);
    } else if (!tern_state_is_served(doctor->cli)) {
        tern_findings_say(
            &doctor->findings, TERN_HEALTH_PROBLEM, SERVICE,
            gateway ? "`tern-aggregator relay`; why it ended is in its log"
                    : "systemctl start tern-aggregator, or `tern-aggregator serve`; why it ended "
                      "is in its log: journalctl -u tern-aggregator",
            "the %s is not running", gateway ? "gateway" : "service");
    } else {
        check_ready(doctor, process);
        check_above(doctor);
    }
    check_files(doctor, process);
}

// --- The verb

// The reason is on stderr already where the settings do not go together.
static void check_settings(struct doctor *doctor, struct tern_cli *cli)
{
    static struct tern_service_config config;
    if (tern_cli_fill_service(cli, doctor->settings, &config) != TERN_EXIT_OK) {
        tern_findings_say(
            &doctor->findings, TERN_HEALTH_PROBLEM, "settings",
            "`tern-aggregator serve --check` says more; `tern-aggregator --settings` lists all",
            "they do not go together, as was just said");
    } else {
        doctor->has_settings = true;
        tern_findings_say(&doctor->findings, TERN_HEALTH_GOOD, "settings", NULL, "%s",
                          cli->config != NULL ? cli->config : "the defaults");
    }
}

int tern_cli_doctor(struct tern_cli *cli)
{
    static struct doctor doctor;
    doctor = (struct doctor){.cli = cli,
                             .settings = tern_state_settings(cli),
                             .now_ms = tern_now_ms(),
                             .waiting = {.wait = TERN_WAIT_COUNT},
                             .findings = {.list = cli->json ? cJSON_CreateArray() : NULL}};
    check_settings(&doctor, cli);
    const bool can_look = doctor_state(&doctor);
    doctor_certificate(&doctor);
    if (can_look) {
        doctor_database(&doctor); // first: the checks of the service use its results
        doctor_service(&doctor);
    }
    return conclude(&doctor);
}
