// The admin listener: /metrics, /healthz, /readyz, /api/v1/... and the dashboard, on loopback or a unix socket. Programs
// send its bearer token with each request; people log in with the token and have a session (admin/sessions.h). Requests
// that use the store run as jobs of the service, inside its transactions; all others are answered even if the store fails.
// Called by cli/serve.c and tests. docs/OPERATIONS.md lists the paths.
#ifndef TERN_ADMIN_H
#define TERN_ADMIN_H

#include "http/http.h"
#include "service/service.h"
#include <cjson/cJSON.h>

struct tern_admin;

struct tern_admin_config {
    const char *address; // loopback, or "unix:/path"
    uint16_t port;
    const char *sso;                        // the setting admin.sso; NULL or "" = no single sign-on
    const char *token_file;                 // has the bearer token, one line
    struct tern_service *service;           // outlives the admin listener
    const struct tern_http_server *clients; // the public listener, for its counters
    uint64_t (*monotonic_ms)(void);         // clock of sessions; NULL = the machine's clock
    // Options by which every verb of this program finds the federation. NULL-terminated; must outlive the listener. NULL:
    // the listener runs no verbs.
    const char *const *tool_options;
};

// TERN_ERR_CONFIG   the token file cannot be read or is malformed; tern_sso_read() refuses address or sso
// TERN_ERR_NETWORK  the address cannot be bound
TERN_MUST_USE enum tern_result tern_admin_start(const struct tern_admin_config *config,
                                                struct tern_admin **admin, char why[256]);
// Sets the settings in force, which the API returns; takes over the array. One call at a time.
void tern_admin_set_settings(struct tern_admin *admin, cJSON *settings);
uint16_t tern_admin_port(const struct tern_admin *admin);
void tern_admin_stop(struct tern_admin *admin, uint32_t grace_ms);

#endif
