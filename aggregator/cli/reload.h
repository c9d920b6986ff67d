// What a running service takes anew on SIGHUP: the files of TLS, and the settings that may change
// while it runs. On the main thread only.
#ifndef TERN_CLI_RELOAD_H
#define TERN_CLI_RELOAD_H

#include "cli/self_check.h"
#include "cli/serving.h"
#include "cli/state.h"
#include "relay/relay.h"

// What runs.
struct tern_cli_running {
    struct tern_http_server *server;
    struct tern_service *service;
    struct tern_self_check *check;
    const struct tern_model *model;
    const char *model_spec;
    const struct tern_relay *relay; // of a gateway; else NULL
    tern_cli_say say;               // advice
};

// Reads settings and the files of TLS again. Those settings that may change (settings.def: LIVE) are
// taken; others are named with the reason, and each that differs with both values. Whatever is wrong
// with settings or files is logged and changes nothing.
void tern_cli_reload(struct tern_cli *cli, const struct tern_cli_running *running);

// Logs when the certificate expires, and the first of the clients' CAs: as an error when it has, as a
// warning in its last two weeks.
void tern_cli_log_certificate(const struct tern_cli *cli, const struct tern_http_server *server);

#endif
