// doctor checks what an operator would check if the service does not work as it should.
#include "admin/waiting.h"
#include "cli/estimates.h"
#include "cli/gateway.h"
#include "cli/process.h"
#include "cli/serve_config.h"
#include "cli/shared_database.h"
#include "cli/state.h"
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
    struct tern_cli *cli;
    const struct tern_aggregator_settings *settings;
    uint64_t now_ms;
    struct tern_status status;   // zeros if the store cannot be read
    struct tern_waiting waiting; // zeros if the store cannot be read
    bool has_settings;           // the settings are consistent
    bool disk_is_full;           // too full to open the database for writing
    struct tern_findings findings;
};

// --- Findings

// Prints the numbers of problems and warnings, or all findings as JSON. Returns an exit code.
static int print_conclusion(struct doctor *doctor)
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

static void report_exposed_file(void *ctx, const char *path, mode_t mode, const char *change)
{
    struct doctor *doctor = ctx;
    char advice[PATH_MAX + 32];
    snprintf(advice, sizeof advice, "chmod %s %s", change, path);
    tern_findings_add(&doctor->findings, TERN_HEALTH_WARNING, STATE, advice,
                      "other users can read or write %s: its mode is %04o", path, (unsigned)mode);
}

// Refuses to open the database as another user: the service could not write the files that SQLite would make beside it.
static bool is_right_user(struct doctor *doctor, const char *path, const struct stat *database)
{
    const struct passwd *owner = getpwuid(database->st_uid);
    char advice[PATH_MAX + 96] = "run this verb and all others as the owner of the file";
    if (database->st_uid == geteuid()) {
        return true;
    }
    if (owner != NULL) {
        snprintf(advice, sizeof advice, "runuser -u %.32s -- tern-aggregator doctor --state %s",
                 owner->pw_name, doctor->settings->federation_state);
    }
    tern_findings_add(&doctor->findings, TERN_HEALTH_PROBLEM, STATE, advice,
                      "%s belongs to %s, so that it was not checked", path,
                      owner != NULL ? owner->pw_name : "another user");
    return false;
}

// --- Free space

#define FREE_SHARE 16                   // a problem if less than one in this many bytes is free
#define FREE_FULL (UINT64_C(128) << 10) // SQLite needs this much to open the database
#define FILES_WARNING 1000              // fewest files that the file system can still make

static void check_disk(struct doctor *doctor)
{
    struct statvfs disk;
    char text[TERN_TEXT];
    if (statvfs(doctor->settings->federation_state, &disk) != 0) {
        return; // another check reports a missing folder
    }
    const uint64_t bytes = (uint64_t)disk.f_bavail * disk.f_frsize;
    const uint64_t whole = (uint64_t)disk.f_blocks * disk.f_frsize;
    tern_text_bytes((double)bytes, text);
    doctor->disk_is_full = bytes < FREE_FULL;
    if (tern_disk_is_low(bytes, whole, FREE_SHARE)) {
        tern_findings_add(
            &doctor->findings, TERN_HEALTH_PROBLEM, DISK,
            "free space: `tern-aggregator prune --keep 10`, then `compact`, also work on a full "
            "disk; "
            "lower limits.history_bytes and limits.keep_versions",
            "%s are free on the disk of the state directory: nothing can be stored once it is full",
            text);
    } else if (disk.f_files != 0 && disk.f_favail < FILES_WARNING) {
        tern_findings_add(&doctor->findings, TERN_HEALTH_WARNING, DISK,
                          "remove files from the file system of the state directory",
                          "only %" PRIu64
                          " more files can be made on the disk of the state directory",
                          (uint64_t)disk.f_favail);
    } else {
        tern_findings_add(&doctor->findings, TERN_HEALTH_GOOD, DISK, NULL,
                          "%s are free on the disk of the state directory", text);
    }
}

// The service limits the write-ahead log to 64 MiB or an eighth of the free bytes, at most twice that plus a transaction.
#define LOG_WARNING (UINT64_C(512) << 20)
#define LOG_FEW (UINT64_C(1) << 20)

// Returns the size of the write-ahead log from which doctor warns: half of the bytes that would be free without it, within LOG_FEW and
// LOG_WARNING.
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
    tern_findings_add(
        &doctor->findings, TERN_HEALTH_WARNING, DISK,
        "end verbs that have been reading for long, as a stopped `export` or a pager; "
        "restarting the service also writes the log back",
        "the write-ahead log of the database has %s that are not written back",
        tern_text_bytes((double)status.st_size, text));
}

// A service does not start with a damaged key file.
static void check_ticket_keys(struct doctor *doctor)
{
    char path[PATH_MAX];
    char why[256];
    tern_state_path(doctor->cli, TERN_STATE_TICKET_KEYS, path);
    if (tern_ticket_keys_check(path, why) != TERN_OK) {
        tern_findings_add(
            &doctor->findings, TERN_HEALTH_PROBLEM, STATE,
            "delete the file: the next start makes new keys, and each client needs one full "
            "handshake",
            "`serve` would not start: %s", why);
    }
}

// Checks the state directory and its disk. Returns false if the database must not be opened: it is missing, or belongs to
// another user.
static bool check_state(struct doctor *doctor)
{
    const char *folder = doctor->settings->federation_state;
    char path[PATH_MAX];
    struct stat status;
    tern_state_path(doctor->cli, tern_state_is_postgres(doctor->cli) ? "." : TERN_STATE_DATABASE,
                    path);
    if (stat(path, &status) != 0) {
        const bool is_missing = errno == ENOENT;
        tern_findings_add(
            &doctor->findings, TERN_HEALTH_PROBLEM, STATE,
            is_missing && tern_state_is_gateway(doctor->cli)
                ? "`tern-aggregator join CODE` was interrupted: run it again to finish it"
            : is_missing
                ? "name the state directory with --config or --state, or make a federation with "
                  "`tern-aggregator init`"
                : "run this verb, like all others, as the user of the service",
            "there is no federation in %s: %s", folder, strerror(errno));
        return false;
    }
    if (!is_right_user(doctor, path, &status)) {
        return false;
    }
    const uint32_t before = doctor->findings.count[TERN_HEALTH_WARNING];
    tern_cli_each_exposed_secret(doctor->cli, report_exposed_file, doctor);
    if (access(folder, W_OK) != 0) {
        tern_findings_add(
            &doctor->findings, TERN_HEALTH_PROBLEM, STATE,
            "mount the directory writable, or give it back to the user of the service", "%s: %s",
            folder, strerror(errno));
        return false;
    }
    if (doctor->findings.count[TERN_HEALTH_WARNING] == before) {
        tern_findings_add(&doctor->findings, TERN_HEALTH_GOOD, STATE, NULL,
                          "other users cannot read the state directory %s", folder);
    }
    check_ticket_keys(doctor);
    check_disk(doctor);
    check_log(doctor);
    return true;
}

// --- Certificate

#define WARN_MS (UINT64_C(14) * 86400000)

static const char renew_advice[] =
    "replace the file, then send SIGHUP to the service (systemctl reload "
    "tern-aggregator)";

static void check_times(struct doctor *doctor, const char *path,
                        const struct tern_certificate *certificate, const char *consequence)
{
    const uint64_t ends_ms = certificate->ends_s * 1000;
    char text[TERN_TEXT];
    if (certificate->begins_s * 1000 > doctor->now_ms) {
        tern_findings_add(&doctor->findings, TERN_HEALTH_PROBLEM, CERTIFICATE,
                          "check the clock of this machine; if it is right, get a certificate that "
                          "is already valid",
                          "%s is not valid before %s", path,
                          tern_text_time(certificate->begins_s * 1000, text));
    } else if (ends_ms <= doctor->now_ms) {
        tern_findings_add(&doctor->findings, TERN_HEALTH_PROBLEM, CERTIFICATE, renew_advice,
                          "%s expired %s: %s", path, tern_text_time(ends_ms, text), consequence);
    } else {
        const bool soon = ends_ms < doctor->now_ms + WARN_MS;
        tern_findings_add(&doctor->findings, soon ? TERN_HEALTH_WARNING : TERN_HEALTH_GOOD,
                          CERTIFICATE, soon ? renew_advice : NULL, "%s expires in %s", path,
                          tern_text_duration(ends_ms - doctor->now_ms, text));
    }
}

static void check_names(struct doctor *doctor, const char *path, const char *names)
{
    if (names[0] == '\0') {
        tern_findings_add(
            &doctor->findings, TERN_HEALTH_PROBLEM, CERTIFICATE,
            "get a certificate that has the name in [client] server as subjectAltName",
            "%s has no subjectAltName: clients refuse it", path);
    } else {
        tern_findings_add(&doctor->findings, TERN_HEALTH_GOOD, CERTIFICATE, NULL,
                          "clients must use one of these names for the server: %s", names);
    }
}

static void check_client_ca(struct doctor *doctor, const char *path)
{
    struct tern_certificate certificate;
    char why[256];
    if (path == NULL) {
        return;
    }
    if (tern_certificate_read(path, &certificate, why) != TERN_OK) {
        tern_findings_add(&doctor->findings, TERN_HEALTH_PROBLEM, CERTIFICATE,
                          "set tls.client_ca to a PEM file with the CAs of clients' certificates",
                          "%s", why);
        return;
    }
    check_times(doctor, path, &certificate, "clients with certificates of this CA are refused");
}

static void check_certificate(struct doctor *doctor)
{
    static const char advice[] = "set server.certificate and server.private_key, or make the "
                                 "files: `tern-aggregator serve` prints how";
    struct tern_certificate certificate;
    struct tern_serve_tls_files files;
    char why[256];
    tern_serve_tls_files(doctor->cli, &files);
    check_client_ca(doctor, files.names.client_ca);
    files.names.client_ca = NULL;
    if (tern_certificate_read(files.certificate, &certificate, why) != TERN_OK) {
        tern_findings_add(&doctor->findings, TERN_HEALTH_PROBLEM, CERTIFICATE, advice, "%s", why);
        return;
    }
    check_times(doctor, files.certificate, &certificate, "clients refuse it");
    check_names(doctor, files.certificate, certificate.names);
    if (tern_http_check_files(&files.names, why) != TERN_OK) {
        tern_findings_add(&doctor->findings, TERN_HEALTH_PROBLEM, CERTIFICATE, advice, "%s", why);
    }
}

// --- The database

#define DATABASE "database"
#define CLOCK "clock"
#define ROUNDS "rounds"

#define CLOCK_MS 60000 // a clock that is further behind a stored time was set back
#define COMPACT_BYTES (UINT64_C(64) << 20) // fewest empty bytes that are worth compacting

static void check_clock(struct doctor *doctor, const struct tern_status *status)
{
    const uint64_t opened_ms = status->round.opened_ms;
    const uint64_t created_ms =
        status->version.version == UINT32_MAX ? 0 : status->version.created_ms;
    const uint64_t last_ms = opened_ms > created_ms ? opened_ms : created_ms;
    char text[TERN_TEXT];
    if (last_ms > doctor->now_ms + CLOCK_MS) {
        tern_findings_add(&doctor->findings, TERN_HEALTH_WARNING, CLOCK,
                          "check the time service (timedatectl); rounds continue meanwhile, but "
                          "times in lists are "
                          "wrong",
                          "the clock is %s behind the last round",
                          tern_text_duration(last_ms - doctor->now_ms, text));
        return;
    }
    tern_findings_add(&doctor->findings, TERN_HEALTH_GOOD, CLOCK, NULL, "%s",
                      tern_text_time(doctor->now_ms, text));
}

static void check_size(struct doctor *doctor, const struct tern_db_counts *counts,
                       uint64_t free_bytes)
{
    char size[TERN_TEXT];
    char part[TERN_TEXT];
    tern_text_bytes((double)counts->file_bytes, size);
    if (doctor->settings->limits_history_bytes == 0 && counts->rounds_committed > 0) {
        const uint64_t per_round = counts->update_bytes / counts->rounds_committed;
        tern_findings_add(
            &doctor->findings, TERN_HEALTH_WARNING, DATABASE,
            "set limits.history_bytes, unless all rounds must stay replayable",
            "the database takes %s, growing by %s a round, because limits.history_bytes = 0", size,
            tern_text_bytes((double)per_round, part));
    } else if (free_bytes > COMPACT_BYTES && free_bytes > counts->file_bytes / 2) {
        tern_findings_add(&doctor->findings, TERN_HEALTH_WARNING, DATABASE,
                          "`tern-aggregator compact` returns the empty bytes to the file system",
                          "the database takes %s, of which %s are empty", size,
                          tern_text_bytes((double)free_bytes, part));
    } else {
        tern_findings_add(&doctor->findings, TERN_HEALTH_GOOD, DATABASE, NULL,
                          "the database takes %s; at most %s of updates are kept", size,
                          tern_text_bytes((double)doctor->settings->limits_history_bytes, part));
    }
}

// Checks whether the disk has the space that the federation will need, and whether a round has time for its downloads.
static enum tern_result check_estimates(struct doctor *doctor, struct tern_db *db)
{
    static struct tern_service_config config;
    static struct tern_model model;
    struct tern_db_federation federation;
    struct tern_disk_need need;
    char text[TERN_DISK_NEED_MAX];
    struct tern_http_limits limits;
    TERN_TRY(tern_db_federation(db, &federation));
    if (!doctor->has_settings ||
        tern_model_build(&model, federation.model_spec, federation.manifest,
                         federation.manifest_len, federation.model_hash) != TERN_OK ||
        tern_serve_config_read(doctor->cli, &config) != TERN_EXIT_OK ||
        tern_serve_config_fit_model(doctor->cli, &model, federation.model_spec, &config.federation,
                                    &limits) != TERN_EXIT_OK) {
        return TERN_OK; // another check reports the failure
    }
    TERN_TRY(tern_disk_need_measure(doctor->settings, &config.federation, &model, db, &need));
    if (tern_disk_need_is_short(&need, text)) {
        tern_findings_add(&doctor->findings, TERN_HEALTH_WARNING, DISK, TERN_DISK_NEED_ADVICE, "%s",
                          text);
    }
    const struct tern_status *status = &doctor->status;
    const struct tern_round_time time =
        tern_round_time(&config.federation, &model, status->counts.clients, &status->committed);
    char warning[TERN_ROUND_TIME_MAX];
    if (tern_round_time_is_long(&time, warning)) {
        tern_findings_add(&doctor->findings, TERN_HEALTH_WARNING, ROUNDS, NULL, "%s", warning);
    }
    return TERN_OK;
}

#define NAMED 5 // of the clients that a round waits for, at most this many are named

// Waiting for clients is no fault, because they may be asleep. It is a warning if the operator has to act.
static void report_waiting(struct doctor *doctor, const struct tern_waiting *waiting)
{
    char names[NAMED * (TERN_TEXT + 16)] = "";
    for (uint32_t i = 0; i < waiting->shown && i < NAMED; i++) {
        char name[TERN_TEXT];
        const size_t len = strlen(names);
        snprintf(names + len, sizeof names - len, "%sclient %" PRIu64 " (%s)",
                 i == 0 ? ", longest for " : ", ", waiting->members[i].client.id,
                 tern_text_name(waiting->members[i].client.name, name));
    }
    tern_findings_add(
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
    tern_findings_add(&differing->doctor->findings, TERN_HEALTH_WARNING, DATABASE,
                      "make them equal in the files of all aggregators, then send SIGHUP to each",
                      "%s = %.100s at %s, but %.100s at the leader", difference->key,
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

static enum tern_result report_nodes(struct doctor *doctor, struct tern_db *db)
{
    struct tern_db_node nodes[TERN_STANDBY_NODES];
    char leader[TERN_STANDBY_NAME_MAX];
    char complaint[256];
    size_t count = 0;
    TERN_TRY(tern_db_nodes(db, nodes, TERN_STANDBY_NODES, &count));
    if (count > 0 && nodes[0].leads && tern_standby_complaint(&nodes[0], complaint)) {
        tern_findings_add(&doctor->findings, TERN_HEALTH_PROBLEM, DATABASE, TERN_STANDBY_ADVICE,
                          "%s", complaint);
    } else if (count > 0 && nodes[0].leads) {
        tern_findings_add(&doctor->findings, TERN_HEALTH_GOOD, DATABASE, NULL,
                          "%s leads; %zu stand by", tern_standby_name(&nodes[0], leader),
                          count - 1);
    }
    return count > 0 && nodes[0].leads ? report_differences(doctor, db, nodes, count) : TERN_OK;
}

static enum tern_result report_copied(struct doctor *doctor, struct tern_db *db)
{
    struct tern_db_federation federation;
    TERN_TRY(tern_db_federation(db, &federation));
    if (federation.copied_to[0] != '\0') {
        tern_findings_add(
            &doctor->findings, TERN_HEALTH_PROBLEM, DATABASE,
            "serve the copy, or use this database again with `tern-aggregator copy --forget`",
            "the database was copied to %s, and the federation continues there",
            federation.copied_to);
    }
    return TERN_OK;
}

static enum tern_result report_other_columns(struct doctor *doctor, struct tern_db *db)
{
    struct tern_other_columns columns;
    char text[TERN_OTHER_COLUMNS_TEXT];
    TERN_TRY(tern_other_columns_load(db, &columns));
    if (tern_other_columns_describe(&columns, text)) {
        tern_findings_add(&doctor->findings, TERN_HEALTH_WARNING, "columns",
                          TERN_OTHER_COLUMNS_ADVICE, "%s", text);
    }
    return TERN_OK;
}

// Reports the operator's order that waits. While no service runs, nobody executes it.
static void report_order(struct doctor *doctor, const struct tern_db_order *order)
{
    char text[TERN_ORDER_TEXT];
    if (order->strategy[0] != '\0') {
        tern_findings_add(&doctor->findings, TERN_HEALTH_WARNING, ROUNDS,
                          order->ready ? "start the service, which executes it, or drop it by "
                                         "`tern-aggregator rollback --cancel`"
                                       : "it was interrupted: give it again, or drop it by "
                                         "`tern-aggregator rollback --cancel`",
                          "a %s waits, %s", order->strategy, tern_order_text(order, text));
    }
}

static enum tern_result check_contents(struct doctor *doctor, struct tern_db *db)
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
    TERN_TRY(check_estimates(doctor, db));
    check_clock(doctor, status);
    report_waiting(doctor, waiting);
    report_order(doctor, &status->order);
    TERN_TRY(report_other_columns(doctor, db));
    return report_nodes(doctor, db);
}

// Advice. A server that does not answer is not damaged, and restoring a backup would lose acknowledged updates.
static const char check_postgres[] =
    "start PostgreSQL, or check store.url and the network; no stored data is lost, and a running "
    "service continues by itself";
static const char change_version[] =
    "do what the message says: the database is intact, but this program "
    "has another version";
static const char make_room[] = "delete files of other programs on that disk; then start the "
                                "service, or run `tern-aggregator prune --keep 10`";
static const char restore[] = "stop the service and restore a backup (docs/OPERATIONS.md, \"When "
                              "it is broken\")";

// Checks the database, and fills doctor->status and doctor->waiting.
static void check_database(struct doctor *doctor)
{
    const char *advice = tern_state_is_postgres(doctor->cli) ? check_postgres
                         : doctor->disk_is_full              ? make_room
                                                             : restore;
    char path[PATH_MAX];
    char why[256];
    struct tern_db *db;
    tern_state_database(doctor->cli, path);
    enum tern_result result = tern_db_open(path, 0, &db, why);
    if (result != TERN_OK) {
        const bool other_version = result == TERN_ERR_UNKNOWN || result == TERN_ERR_STATE;
        tern_findings_add(&doctor->findings, TERN_HEALTH_PROBLEM, DATABASE,
                          other_version ? change_version : advice, "%s", why);
        if (!doctor->disk_is_full || tern_db_open(path, TERN_DB_READING, &db, why) != TERN_OK) {
            return;
        }
    }
    result = tern_db_begin_reading(db);
    result = result == TERN_OK ? check_contents(doctor, db) : result;
    if (result != TERN_OK) {
        tern_findings_add(
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
#define UPSTREAM "upstream"

static void check_ready(struct doctor *doctor, long process)
{
    char why[256];
    char name[48] = "the service runs";
    if (process != 0) {
        snprintf(name, sizeof name, "the service runs as process %ld", process);
    }
    switch (tern_readiness_ask(doctor->settings, why)) {
    case TERN_READINESS_BAD:
        tern_findings_add(&doctor->findings, TERN_HEALTH_PROBLEM, SERVICE,
                          tern_readiness_advice(why), "%s, but %s", name, why);
        break;
    case TERN_READINESS_GOOD:
        tern_findings_add(&doctor->findings, TERN_HEALTH_GOOD, SERVICE, NULL,
                          "%s, and can store updates", name);
        break;
    case TERN_READINESS_SILENT:
        tern_findings_add(&doctor->findings, TERN_HEALTH_WARNING, SERVICE,
                          "run doctor again; if the listener still does not answer, read the log "
                          "and restart the service",
                          "%s, but its listener at admin.address does not answer within %d s", name,
                          TERN_READINESS_PATIENCE_S);
        break;
    case TERN_READINESS_UNKNOWN:
        tern_findings_add(&doctor->findings, TERN_HEALTH_GOOD, SERVICE, NULL,
                          "%s; its state is unknown without a listener at admin.address", name);
        break;
    }
}

// Checks whether the upstream aggregator answers a running gateway.
static void check_upstream(struct doctor *doctor)
{
    struct tern_service_upstream upstream;
    char text[TERN_UPSTREAM_MAX];
    tern_gateway_upstream(doctor->cli, &upstream);
    if (upstream.silent_ms != 0) {
        tern_findings_add(&doctor->findings, TERN_HEALTH_PROBLEM, UPSTREAM,
                          tern_upstream_advice(&upstream), "%s",
                          tern_upstream_sentence(&upstream, doctor->now_ms, text));
    } else if (upstream.is_known) {
        tern_findings_add(&doctor->findings, TERN_HEALTH_GOOD, UPSTREAM, NULL,
                          "the upstream aggregator answers this gateway");
    }
}

// Returns the hard limit of open files of a process; of this process if `process` is 0 or cannot be read.
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
    const char *whose = process != 0 ? "the service" : "a service started from here";
    if (limit < needed) {
        tern_findings_add(
            &doctor->findings, TERN_HEALTH_WARNING, LIMITS,
            "raise LimitNOFILE of the unit or ulimit -Hn, or lower limits.connections",
            "%s can open %" PRIu64 " files, but %" PRIu64 " client%s need%s %" PRIu64, whose, limit,
            clients, clients == 1 ? "" : "s", clients == 1 ? "s" : "", needed);
    } else {
        tern_findings_add(&doctor->findings, TERN_HEALTH_GOOD, LIMITS, NULL,
                          "%s can open as many files as its clients need", whose);
    }
}

// Returns whether the federation has ended, so that only late clients need the service.
// Whether the federation has ended, and no order waits.
static bool has_ended(const struct doctor *doctor)
{
    const struct tern_db_order *order = &doctor->status.order;
    return (doctor->waiting.wait == TERN_WAIT_FINISHED ||
            doctor->waiting.wait == TERN_WAIT_ENDED) &&
           (order->strategy[0] == '\0' || !order->ready);
}

// Checks whether the service runs if it is needed, and the system's limits. Call after check_database().
static void check_service(struct doctor *doctor)
{
    const long process = tern_state_service_process(doctor->cli);
    const bool gateway = tern_state_is_gateway(doctor->cli);
    if (!tern_state_is_served(doctor->cli) && has_ended(doctor)) {
        tern_findings_add(&doctor->findings, TERN_HEALTH_GOOD, SERVICE, NULL,
                          "the service is not running, and nothing needs it: %s",
                          doctor->waiting.sentence);
    } else if (!tern_state_is_served(doctor->cli)) {
        tern_findings_add(
            &doctor->findings, TERN_HEALTH_PROBLEM, SERVICE,
            gateway
                ? "start the gateway with `tern-aggregator relay`; the log has the reason of its "
                  "end"
                : "systemctl start tern-aggregator, or `tern-aggregator serve`; the log has the "
                  "reason why the service ended: journalctl -u tern-aggregator",
            "the %s is not running", gateway ? "gateway" : "service");
    } else {
        check_ready(doctor, process);
        check_upstream(doctor);
    }
    check_files(doctor, process);
}

// --- The verb

// tern_serve_config_read() prints the reason of a failure.
static void check_settings(struct doctor *doctor)
{
    static struct tern_service_config config;
    if (tern_serve_config_read(doctor->cli, &config) != TERN_EXIT_OK) {
        tern_findings_add(
            &doctor->findings, TERN_HEALTH_PROBLEM, "settings",
            "correct the settings; `tern-aggregator --settings` documents all of them",
            "`serve` refuses the settings for the reason printed above");
    } else {
        doctor->has_settings = true;
        tern_findings_add(&doctor->findings, TERN_HEALTH_GOOD, "settings", NULL, "%s",
                          doctor->cli->config != NULL ? doctor->cli->config : "the defaults");
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
    check_settings(&doctor);
    const bool can_open = check_state(&doctor);
    check_certificate(&doctor);
    if (can_open) {
        check_database(&doctor);
        check_service(&doctor);
    }
    return print_conclusion(&doctor);
}
