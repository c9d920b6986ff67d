// Work on a thread of its own, so that the thread that owns the store goes on answering: one piece at a
// time. The owner begins it, looks whether it has ended, and joins it; only the work itself runs on the
// other thread.
#ifndef TERN_FEDERATION_JOB_H
#define TERN_FEDERATION_JOB_H

#include "result.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

struct tern_job {
    void (*work)(void *ctx);
    void (*ended)(void *ended_ctx); // tells the owner, on the other thread
    void *ctx;
    void *ended_ctx;
    pthread_t thread;
    bool begun;
    atomic_bool has_ended;
};

// work, ended and their contexts are set, and nothing is under way.
// TERN_ERR_NO_MEMORY  there is no thread for it
TERN_MUST_USE enum tern_result tern_job_begin(struct tern_job *job);
// Begun and ended, not joined yet.
bool tern_job_is_done(const struct tern_job *job);
// Waits for its end. Then, or if nothing was begun, nothing is under way.
void tern_job_join(struct tern_job *job);

#endif
