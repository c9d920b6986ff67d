#include "cli/process.h"

#include "hosted/host.h"
#include "hosted/log.h"
#include "hosted/system.h"

#include <inttypes.h>
#include <stdio.h>
#include <sys/resource.h>

// --- Limit of open files

#define OTHER_FILES 64u        // database, listeners, event loops, keys and log
#define CLIENT_CONNECTIONS 2u  // of one client: its own, and a broken one that is not closed yet
#define OTHER_CONNECTIONS 200u // of strangers, of new clients and of operators

static uint64_t least_of(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

// A connection is a socket, and also a file while a long body arrives.
uint64_t tern_cli_files_needed(const struct tern_aggregator_settings *settings, uint64_t clients)
{
    const uint64_t connections =
        least_of(settings->limits_connections, CLIENT_CONNECTIONS * clients + OTHER_CONNECTIONS);
    return 2 * connections + least_of(settings->limits_unfinished, clients) + OTHER_FILES;
}

void tern_cli_raise_file_limit(const struct tern_cli *cli, uint64_t clients)
{
    const struct tern_aggregator_settings *settings = tern_state_settings(cli);
    const uint64_t needed = tern_cli_files_needed(settings, clients);
    const uint64_t allowed = tern_cli_files_needed(settings, settings->limits_connections);
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) != 0 || files.rlim_cur >= allowed) {
        return;
    }
    struct rlimit raised = files;
    raised.rlim_cur = (rlim_t)least_of(files.rlim_max, allowed);
    if (setrlimit(RLIMIT_NOFILE, &raised) == 0) {
        files = raised;
    }
    if (files.rlim_cur < needed) {
        tern_log(TERN_LOG_WARN, "few-files",
                 "limit=%llu needed=%llu advice=\"raise LimitNOFILE of the unit or ulimit -Hn, or "
                 "lower limits.connections\"",
                 (unsigned long long)files.rlim_cur, (unsigned long long)needed);
    }
}

// --- Permissions of secrets

struct secret_check {
    tern_exposed_secret found;
    void *ctx;
};

static void check_mode(const struct secret_check *check, const char *path, mode_t forbidden,
                       const char *change)
{
    struct stat status;
    if (stat(path, &status) == 0 && (status.st_mode & forbidden) != 0) {
        check->found(check->ctx, path, status.st_mode & 07777u, change);
    }
}

void tern_cli_each_exposed_secret(const struct tern_cli *cli, tern_exposed_secret found, void *ctx)
{
    static const char *const secrets[] = {TERN_STATE_DATABASE, TERN_STATE_ADMIN_TOKEN,
                                          TERN_STATE_TICKET_KEYS, TERN_STATE_TICKET_CLIENTS};
    const struct secret_check check = {found, ctx};
    char path[PATH_MAX];
    check_mode(&check, tern_state_settings(cli)->federation_state, S_IWGRP | S_IWOTH, "go-w");
    for (size_t i = 0; i < sizeof secrets / sizeof secrets[0]; i++) {
        tern_state_path(cli, secrets[i], path);
        check_mode(&check, path, S_IRWXG | S_IRWXO, "go=");
    }
    // A special group may read keys, as Debian's ssl-cert does.
    tern_state_file(cli, tern_state_settings(cli)->server_private_key, TERN_STATE_PRIVATE_KEY,
                    path);
    check_mode(&check, path, S_IWGRP | S_IRWXO, "o=,g-w");
}

static void log_exposed(void *ctx, const char *path, mode_t mode, const char *change)
{
    (void)ctx;
    tern_log(TERN_LOG_WARN, "loose-permissions", "file=%s mode=%04o advice=\"chmod %s\"",
             TERN_LOG_TEXT(path), (unsigned)mode, change);
}

void tern_cli_log_exposed_secrets(const struct tern_cli *cli)
{
    tern_cli_each_exposed_secret(cli, log_exposed, NULL);
}

// --- Reports to systemd

#define DAY_MS 86400000u
#define STATUS_MS 30000u

uint64_t tern_systemd_wait_ms(void)
{
    const uint64_t watchdog_ms = tern_notify_watchdog_ms();
    const uint64_t wait_ms = tern_notify_is_wanted() ? STATUS_MS : DAY_MS;
    return watchdog_ms != 0 && watchdog_ms / 3 < wait_ms ? watchdog_ms / 3 : wait_ms;
}

static void report_status(const struct tern_service_facts *facts, char text[256])
{
    const struct tern_round_machine *round = &facts->federation.machine;
    if (!facts->stores) {
        snprintf(text, 256, "nothing can be stored: see the log");
    } else if (round->open) {
        snprintf(text, 256,
                 "round %" PRIu32 ": %" PRIu32 " of %" PRIu32 " updates; %" PRIu64 " clients",
                 round->round, round->reported, round->target, (uint64_t)facts->federation.clients);
    } else {
        snprintf(text, 256, "no round is open; version %" PRIu32 ", %" PRIu64 " clients",
                 facts->federation.version, (uint64_t)facts->federation.clients);
    }
}

// Returns whether the threads of the service and of its listener have run since the last call that returned true.
static bool is_alive(struct tern_systemd *systemd)
{
    const uint64_t service_turns = tern_service_iterations(systemd->service);
    const uint64_t server_turns = tern_http_sweeps(systemd->server);
    const bool lives =
        service_turns != systemd->service_turns && server_turns != systemd->server_turns;
    if (lives) {
        systemd->service_turns = service_turns;
        systemd->server_turns = server_turns;
    }
    return lives;
}

void tern_systemd_report(struct tern_systemd *systemd)
{
    struct tern_service_facts facts;
    char text[256];
    if (!tern_notify_is_wanted()) {
        return;
    }
    tern_service_facts(systemd->service, &facts);
    report_status(&facts, text);
    tern_notify("STATUS=%s\n%s", text, is_alive(systemd) ? "WATCHDOG=1\n" : "");
}

void tern_systemd_ready(struct tern_systemd *systemd)
{
    tern_notify("READY=1\n");
    tern_systemd_report(systemd);
}

void tern_systemd_reloading(void)
{
    tern_notify("RELOADING=1\nMONOTONIC_USEC=%" PRIu64 "\n", tern_monotonic_ms() * 1000);
}

void tern_systemd_reloaded(void)
{
    tern_notify("READY=1\n");
}

void tern_systemd_stopping(void)
{
    tern_notify("STOPPING=1\nSTATUS=finishes requests under way\n");
}
