// Turns the client's events into log lines, and for `once` finds out when the round is over.
#ifndef TERN_CLIENT_NARRATOR_H
#define TERN_CLIENT_NARRATOR_H

#include "cli/external.h"
#include "cli/progress.h"
#include "cli/training_trouble.h"
#include "client.h"
#include "posix/transport.h"

struct narrator {
    bool once;                               // listen for the end of one round
    uint32_t trouble_limit;                  // once: failures in a row that end it
    int exit_code;                           // once: what the round came to
    bool heard;                              // once: the round is over
    const struct tern_curl *curl;            // says why the network failed; may be NULL
    const struct external_trainer *external; // says why evaluating failed; may be NULL
    struct watched_trainer *watched;         // says why training failed; may be NULL
    const char *state_dir;                   // where that is kept
    uint64_t expiry_said_s;    // when a certificate's end was last warned of; 0 = never
    struct progress *progress; // of `run`; NULL for none
    uint32_t troubles;
    uint32_t
        global_version; // what the device held at the start was the global model of it; 0 = a replica
    bool evaluated;
    struct tern_client_event last; // once: the event that ended it; `why` stands below
    char why[256];
};

// For tern_client_config.on_event; ctx is the narrator.
void tern_narrator_on_event(void *ctx, const struct tern_client_event *event);

#endif
