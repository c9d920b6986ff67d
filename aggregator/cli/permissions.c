#include "cli/permissions.h"

#include "hosted/log.h"

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
