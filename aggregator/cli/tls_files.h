// The files of TLS that the settings name, for who serves, reloads and looks after them.
#ifndef TERN_CLI_TLS_FILES_H
#define TERN_CLI_TLS_FILES_H

#include "cli/state.h"
#include "http/http.h"

struct tern_cli_tls_files {
    char certificate[PATH_MAX];
    char private_key[PATH_MAX];
    struct tern_http_files names; // borrows the paths above and the settings
};

// Whether tls.client_certificate says something. TERN_ERR_CONFIG: why says what it may.
TERN_MUST_USE enum tern_result
tern_cli_check_client_certificate(const struct tern_aggregator_settings *settings, char why[256]);

// Of settings that passed that check.
void tern_cli_tls_files(const struct tern_cli *cli, const struct tern_aggregator_settings *settings,
                        struct tern_cli_tls_files *files);

#endif
