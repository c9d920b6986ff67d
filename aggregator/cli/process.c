#include "cli/process.h"

#include "hosted/log.h"

#include <stdio.h>
#include <sys/resource.h>

// --- Limit of open files

#define OTHER_FILES 64u // database, listeners, event loops, keys and log
#define CLIENT_CONNECTIONS                                                                         \
    2u // of one client: the one in use, and a broken one that is not closed yet
#define OTHER_CONNECTIONS 200u // of unauthenticated peers, new clients and operators

static uint64_t least_of(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

// A connection takes a socket, and a second file while a long body arrives.
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
    tern_state_file(cli, tern_state_settings(cli)->secure_token, TERN_STATE_HELPER_TOKEN, path);
    check_mode(&check, path, S_IRWXG | S_IRWXO, "go=");
    // A group may read the private key, as the group ssl-cert of Debian does.
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
