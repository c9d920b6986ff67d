// What `serve` arranges with the operating system: the limit of open files, the permissions of the service's secrets,
// and reports to systemd. `doctor` checks the first two. From the main thread.
#ifndef TERN_PROCESS_H
#define TERN_PROCESS_H

#include "cli/state.h"
#include "http/http.h"
#include "service/service.h"
#include <sys/stat.h>

// Returns the most files that a service with this many clients has open at once.
uint64_t tern_cli_files_needed(const struct tern_aggregator_settings *settings, uint64_t clients);

// Raises the soft limit of open files to what the settings allow, at most to the hard limit. Logs a warning with advice if
// that is too low for the enrolled clients. Call before the listener starts.
void tern_cli_raise_file_limit(const struct tern_cli *cli, uint64_t clients);

// Receives a secret file with its mode. change: the argument of chmod that repairs the mode.
typedef void (*tern_exposed_secret)(void *ctx, const char *path, mode_t mode, const char *change);

// Reports each secret of the service that other users may read or write: the state directory, its database and keys, and
// the private key of the certificate.
void tern_cli_each_exposed_secret(const struct tern_cli *cli, tern_exposed_secret found, void *ctx);

// Logs a warning with advice for each exposed secret.
void tern_cli_log_exposed_secrets(const struct tern_cli *cli);

// A running service, as reported to systemd.
struct tern_systemd {
    struct tern_service *service;
    const struct tern_http_server *server;
    uint64_t service_turns; // loop turns of both threads at the last sign of life
    uint64_t server_turns;
};

// Returns how long the main thread may wait before tern_systemd_report(), in ms; at most a day.
uint64_t tern_systemd_wait_ms(void);

// Reports the state of the rounds to systemd, and a sign of life if the threads have run since the last call.
// Without signs of life systemd restarts the service.
void tern_systemd_report(struct tern_systemd *manager);

void tern_systemd_ready(struct tern_systemd *manager);
// Call before and after a reload of the settings.
void tern_systemd_reloading(void);
void tern_systemd_reloaded(void);
void tern_systemd_stopping(void);

#endif
