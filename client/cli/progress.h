// The line below the log of `run` on a terminal: what the client does now.
#ifndef TERN_CLIENT_PROGRESS_H
#define TERN_CLIENT_PROGRESS_H

#include "client.h"
#include <stdbool.h>
#include <stdint.h>

struct progress {
    bool shown; // there is a terminal
    enum tern_client_phase phase;
    uint32_t round;       // of the last task
    uint32_t local_steps; // it asks for
    uint32_t steps;       // of them, done
    uint64_t shown_ms;    // when the line was last written
};

#define PROGRESS_TEXT_MAX 160

void tern_client_progress_start(struct progress *progress);
// A step of the client ended with `result`; what it tells of a task is in the event.
void tern_client_progress_on_event(struct progress *progress,
                                   const struct tern_client_event *event);
void tern_client_progress_step(struct progress *progress, const struct tern_client *client,
                               enum tern_result result);
void tern_client_progress_end(struct progress *progress);

// What is shown, of a client in that phase that sleeps for wait_ms; 0 = it does not.
void tern_client_progress_text(const struct progress *progress, uint32_t wait_ms, uint64_t rounds,
                               char text[PROGRESS_TEXT_MAX]);

#endif
