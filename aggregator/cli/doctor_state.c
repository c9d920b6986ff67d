#include "cli/doctor_checks.h"
#include "cli/gateway.h"
#include "cli/process.h"
#include "cli/tls_files.h"
#include "store/store.h"

#include "http/certificate.h"
#include "http/http.h"
#include "http/tickets.h"
#include <errno.h>
#include <inttypes.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define STATE "state"
#define DISK "disk"
#define CERTIFICATE "certificate"

// --- The folder and its files

static void say_loose(void *ctx, const char *path, mode_t mode, const char *change)
{
    struct tern_doctor *doctor = ctx;
    char advice[PATH_MAX + 32];
    snprintf(advice, sizeof advice, "chmod %s %s", change, path);
    tern_findings_say(&doctor->findings, TERN_HEALTH_WARNING, STATE, advice,
                      "%s may be read or written by others: its mode is %04o", path,
                      (unsigned)mode);
}

// What root makes in the folder of another user, SQLite's files beside the database among it, the
// service could not write.
static bool is_right_user(struct tern_doctor *doctor, const char *path, const struct stat *database)
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

static void check_disk(struct tern_doctor *doctor)
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
static uint64_t log_warning(const struct tern_doctor *doctor, uint64_t bytes)
{
    struct statvfs disk;
    if (statvfs(doctor->settings->federation_state, &disk) != 0) {
        return LOG_WARNING;
    }
    const uint64_t half = ((uint64_t)disk.f_bavail * disk.f_frsize + bytes) / 2;
    const uint64_t most = half < LOG_WARNING ? half : LOG_WARNING;
    return most > LOG_FEW ? most : LOG_FEW;
}

static void check_log(struct tern_doctor *doctor)
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
static void check_ticket_keys(struct tern_doctor *doctor)
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

bool tern_doctor_state(struct tern_doctor *doctor)
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
    tern_cli_each_loose_file(doctor->cli, say_loose, doctor);
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

static void check_times(struct tern_doctor *doctor, const char *path,
                        const struct tern_certificate_times *times, const char *consequence)
{
    const uint64_t ends_ms = times->ends_s * 1000;
    char text[TERN_TEXT];
    if (times->begins_s * 1000 > doctor->now_ms) {
        tern_findings_say(&doctor->findings, TERN_HEALTH_PROBLEM, CERTIFICATE,
                          "look at the clock of this machine; else get one that is valid by now",
                          "%s is not valid before %s", path,
                          tern_text_time(times->begins_s * 1000, text));
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

static void check_names(struct tern_doctor *doctor, const char *path)
{
    char names[TERN_CERTIFICATE_NAMES];
    char why[256];
    if (tern_certificate_names(path, names, why) != TERN_OK) {
        return; // its times could be read a moment ago
    }
    if (names[0] == '\0') {
        tern_findings_say(&doctor->findings, TERN_HEALTH_PROBLEM, CERTIFICATE,
                          "get one with the name in [client] server as subjectAltName",
                          "%s has no names: clients refuse it", path);
    } else {
        tern_findings_say(&doctor->findings, TERN_HEALTH_GOOD, CERTIFICATE, NULL,
                          "clients must call the server one of: %s", names);
    }
}

// The CAs of clients' certificates, where they are asked for these.
static void check_client_ca(struct tern_doctor *doctor, const char *path)
{
    struct tern_certificate_times times;
    char why[256];
    if (path == NULL) {
        return;
    }
    if (tern_certificate_times(path, &times, why) != TERN_OK) {
        tern_findings_say(&doctor->findings, TERN_HEALTH_PROBLEM, CERTIFICATE,
                          "tls.client_ca names the CAs of clients' certificates", "%s", why);
        return;
    }
    check_times(doctor, path, &times, "clients with certificates of that CA are refused");
}

void tern_doctor_certificate(struct tern_doctor *doctor)
{
    static const char advice[] = "name the files by server.certificate and server.private_key, or "
                                 "make them: `tern-aggregator serve` prints how";
    struct tern_certificate_times times;
    struct tern_cli_tls_files files;
    char why[256];
    tern_cli_tls_files(doctor->cli, doctor->settings, &files);
    check_client_ca(doctor, files.names.client_ca);
    files.names.client_ca = NULL;
    if (tern_certificate_times(files.certificate, &times, why) != TERN_OK) {
        tern_findings_say(&doctor->findings, TERN_HEALTH_PROBLEM, CERTIFICATE, advice, "%s", why);
        return;
    }
    check_times(doctor, files.certificate, &times, "clients refuse it");
    check_names(doctor, files.certificate);
    if (tern_http_check_files(&files.names, why) != TERN_OK) {
        tern_findings_say(&doctor->findings, TERN_HEALTH_PROBLEM, CERTIFICATE, advice, "%s", why);
    }
}
