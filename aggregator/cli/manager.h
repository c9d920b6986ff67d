// What systemd is told of a service that runs: what it is at, and, while its threads go on, that it
// lives. On the main thread only.
#ifndef TERN_CLI_MANAGER_H
#define TERN_CLI_MANAGER_H

#include "http/http.h"
#include "service/service.h"

struct tern_manager {
    struct tern_service *service;
    const struct tern_http_server *server;
    uint64_t service_turns; // when it was last found that the service lives
    uint64_t server_turns;
};

// How long the main thread may wait before tern_manager_tell(), in ms; at most a day.
uint64_t tern_manager_wait_ms(void);

// Whether the threads of the service and of its listener have gone on since this said so last.
bool tern_manager_lives(struct tern_manager *manager);

// Tells the state of the rounds, and that the service lives if its threads have gone on since the last
// call. One that hangs is then started again.
void tern_manager_tell(struct tern_manager *manager);

void tern_manager_ready(struct tern_manager *manager);
// Before and after settings are taken anew.
void tern_manager_reloading(void);
void tern_manager_reloaded(void);
void tern_manager_stopping(void);

#endif
