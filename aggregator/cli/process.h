// What `serve` arranges with the operating system: the limit of open files, the permissions of the service's secrets,
// and reports to systemd. `doctor` checks the first two. From the main thread.
#ifndef TERN_PROCESS_H
#define TERN_PROCESS_H

#include "cli/state.h"
#include "http/http.h"
#include "service/service.h"
#include <sys/stat.h>

// Returns the number of files that a service with `clients` clients has open at once, within its
// limits.
uint64_t tern_cli_files_needed(const struct tern_aggregator_settings *settings, uint64_t clients);

// Raises the soft limit of open files to the number that the settings allow, at most to the hard limit.
// Logs a warning with advice where the limit is too low for the enrolled clients. Call before the listener
// starts.
void tern_cli_raise_file_limit(const struct tern_cli *cli, uint64_t clients);

// change: the argument of chmod that repairs the mode.
typedef void (*tern_loose_file)(void *ctx, const char *path, mode_t mode, const char *change);

// Calls back for each secret of the service that others of this machine may read or write: the state
// directory and what lies there, and the private key of the certificate.
void tern_cli_each_loose_file(const struct tern_cli *cli, tern_loose_file found, void *ctx);

// Logs a warning for each of them, with what to do.
void tern_cli_log_permissions(const struct tern_cli *cli);

// A running service, as reported to systemd.
struct tern_manager {
    struct tern_service *service;
    const struct tern_http_server *server;
    uint64_t service_turns; // turns of both threads at the last sign of life
    uint64_t server_turns;
};

// Returns how long the main thread may wait before tern_manager_report(), in ms; at most a day.
uint64_t tern_manager_wait_ms(void);

// Returns whether the threads of the service and of its listener have run since the last call that returned true.
bool tern_manager_is_alive(struct tern_manager *manager);

// Reports the state of the rounds to systemd, and a sign of life if the threads have run since the last call.
// Without signs of life systemd restarts the service.
void tern_manager_report(struct tern_manager *manager);

void tern_manager_ready(struct tern_manager *manager);
// Before and after settings are read again.
void tern_manager_reloading(void);
void tern_manager_reloaded(void);
void tern_manager_stopping(void);

#endif
