#include "cli/process.h"

#include "hosted/host.h"
#include "hosted/log.h"
#include "hosted/system.h"

#include <inttypes.h>
#include <stdio.h>
#include <sys/resource.h>

// --- Limit of open files

// How many files the process may have open, against what its limits of connections and bodies need.

// The database, listeners, loops, key files and the log.
#define OTHER_FILES 64u
// Connections that a client has open: its own, and a broken one that is not closed yet.
#define OF_CLIENT 2u
// Connections of strangers, newcomers and operators.
#define OTHER_CONNECTIONS 200u

static uint64_t least_of(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

// A connection is a socket, and a file while a long body comes in on it.
uint64_t tern_cli_files_needed(const struct tern_aggregator_settings *settings, uint64_t clients)
{
    const uint64_t connections =
        least_of(settings->limits_connections, OF_CLIENT * clients + OTHER_CONNECTIONS);
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

// Who may read and write what a service keeps secret.

struct looking {
    tern_loose_file found;
    void *ctx;
};

static void check(const struct looking *looking, const char *path, mode_t forbidden,
                  const char *change)
{
    struct stat status;
    if (stat(path, &status) == 0 && (status.st_mode & forbidden) != 0) {
        looking->found(looking->ctx, path, status.st_mode & 07777u, change);
    }
}

void tern_cli_each_loose_file(const struct tern_cli *cli, tern_loose_file found, void *ctx)
{
    static const char *const secrets[] = {TERN_STATE_DATABASE, TERN_STATE_ADMIN_TOKEN,
                                          TERN_STATE_TICKET_KEYS, TERN_STATE_TICKET_CLIENTS};
    const struct looking looking = {found, ctx};
    char path[PATH_MAX];
    check(&looking, tern_state_settings(cli)->federation_state, S_IWGRP | S_IWOTH, "go-w");
    for (size_t i = 0; i < sizeof secrets / sizeof secrets[0]; i++) {
        tern_state_path(cli, secrets[i], path);
        check(&looking, path, S_IRWXG | S_IRWXO, "go=");
    }
    // A group of its own may read keys, as Debian's ssl-cert.
    tern_state_file(cli, tern_state_settings(cli)->server_private_key, TERN_STATE_PRIVATE_KEY,
                    path);
    check(&looking, path, S_IWGRP | S_IRWXO, "o=,g-w");
}

static void log_loose(void *ctx, const char *path, mode_t mode, const char *change)
{
    (void)ctx;
    tern_log(TERN_LOG_WARN, "loose-permissions", "file=%s mode=%04o advice=\"chmod %s\"",
             TERN_LOG_TEXT(path), (unsigned)mode, change);
}

void tern_cli_log_permissions(const struct tern_cli *cli)
{
    tern_cli_each_loose_file(cli, log_loose, NULL);
}

// --- Service manager

// What systemd is told of a service that runs: what it is at, and, while its threads go on, that it
// lives. On the main thread only.

#define DAY_MS 86400000u
#define STATUS_MS 30000u

uint64_t tern_manager_wait_ms(void)
{
    const uint64_t watchdog_ms = tern_notify_watchdog_ms();
    const uint64_t wait_ms = tern_notify_is_wanted() ? STATUS_MS : DAY_MS;
    return watchdog_ms != 0 && watchdog_ms / 3 < wait_ms ? watchdog_ms / 3 : wait_ms;
}

static void report_status(const struct tern_service_facts *facts, char text[256])
{
    const struct tern_round_machine *round = &facts->federation.machine;
    if (!facts->stores) {
        snprintf(text, 256, "nothing can be stored, see the log");
    } else if (round->open) {
        snprintf(text, 256,
                 "round %" PRIu32 ": %" PRIu32 " of %" PRIu32 " updates; %" PRIu64 " clients",
                 round->round, round->reported, round->target, (uint64_t)facts->federation.clients);
    } else {
        snprintf(text, 256, "no round is open; version %" PRIu32 ", %" PRIu64 " clients",
                 facts->federation.version, (uint64_t)facts->federation.clients);
    }
}

bool tern_manager_is_alive(struct tern_manager *manager)
{
    const uint64_t service_turns = tern_service_iterations(manager->service);
    const uint64_t server_turns = tern_http_sweeps(manager->server);
    const bool lives =
        service_turns != manager->service_turns && server_turns != manager->server_turns;
    if (lives) {
        manager->service_turns = service_turns;
        manager->server_turns = server_turns;
    }
    return lives;
}

void tern_manager_report(struct tern_manager *manager)
{
    struct tern_service_facts facts;
    char text[256];
    if (!tern_notify_is_wanted()) {
        return;
    }
    tern_service_facts(manager->service, &facts);
    report_status(&facts, text);
    tern_notify("STATUS=%s\n%s", text, tern_manager_is_alive(manager) ? "WATCHDOG=1\n" : "");
}

void tern_manager_ready(struct tern_manager *manager)
{
    tern_notify("READY=1\n");
    tern_manager_report(manager);
}

void tern_manager_reloading(void)
{
    tern_notify("RELOADING=1\nMONOTONIC_USEC=%" PRIu64 "\n", tern_monotonic_ms() * 1000);
}

void tern_manager_reloaded(void)
{
    tern_notify("READY=1\n");
}

void tern_manager_stopping(void)
{
    tern_notify("STOPPING=1\nSTATUS=finishes what is under way\n");
}
