#include "cli/permissions.h"

#include "hosted/log.h"
#include <sys/stat.h>

static void check(const char *path, mode_t forbidden, const char *change)
{
    struct stat status;
    if (stat(path, &status) == 0 && (status.st_mode & forbidden) != 0) {
        tern_log(TERN_LOG_WARN, "loose-permissions", "file=%s mode=%04o advice=\"chmod %s\"",
                 TERN_LOG_TEXT(path), (unsigned)status.st_mode & 07777u, change);
    }
}

void tern_cli_log_permissions(const struct tern_cli *cli)
{
    static const char *const secrets[] = {TERN_STATE_DATABASE, TERN_STATE_ADMIN_TOKEN,
                                          TERN_STATE_TICKET_KEYS};
    char path[PATH_MAX];
    check(tern_state_settings(cli)->federation_state, S_IWGRP | S_IWOTH, "go-w");
    for (size_t i = 0; i < sizeof secrets / sizeof secrets[0]; i++) {
        tern_state_path(cli, secrets[i], path);
        check(path, S_IRWXG | S_IRWXO, "go=");
    }
    // A group of its own may read keys, as Debian's ssl-cert.
    tern_state_file(cli, tern_state_settings(cli)->server_private_key, TERN_STATE_PRIVATE_KEY,
                    path);
    check(path, S_IWGRP | S_IRWXO, "o=,g-w");
}
