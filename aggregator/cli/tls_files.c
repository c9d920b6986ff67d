#include "cli/tls_files.h"

#include <stdio.h>
#include <string.h>

static bool is_optional(const struct tern_aggregator_settings *settings)
{
    return strcmp(settings->tls_client_certificate, "optional") == 0;
}

enum tern_result tern_cli_check_client_certificate(const struct tern_aggregator_settings *settings,
                                                   char why[256])
{
    if (is_optional(settings) || strcmp(settings->tls_client_certificate, "required") == 0) {
        return TERN_OK;
    }
    snprintf(why, 256, "tls.client_certificate = %s is not known; allowed: required | optional",
             settings->tls_client_certificate);
    return TERN_ERR_CONFIG;
}

void tern_cli_tls_files(const struct tern_cli *cli, const struct tern_aggregator_settings *settings,
                        struct tern_cli_tls_files *files)
{
    tern_state_file(cli, settings->server_certificate, TERN_STATE_CERTIFICATE, files->certificate);
    tern_state_file(cli, settings->server_private_key, TERN_STATE_PRIVATE_KEY, files->private_key);
    files->names = (struct tern_http_files){
        .certificate = files->certificate,
        .private_key = files->private_key,
        .client_ca = settings->tls_client_ca[0] != '\0' ? settings->tls_client_ca : NULL,
        .client_certificate_optional = is_optional(settings),
    };
}
