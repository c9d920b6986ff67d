// Work on a thread of its own. One thread starts a job, polls for its end and joins it.
#ifndef TERN_HOSTED_JOB_H
#define TERN_HOSTED_JOB_H

#include "result.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

struct tern_job {
    void (*work)(void *ctx);
    void (*ended)(void *ended_ctx); // notifies the owner of the job's end, on the job's thread
    void *ctx;
    void *ended_ctx;
    pthread_t thread;
    bool begun;
    atomic_bool has_ended;
};

// Starts the work. TERN_ERR_NO_MEMORY: no thread can start.
TERN_MUST_USE enum tern_result tern_job_start(struct tern_job *job);
// Whether the work has ended; tern_job_join() then does not wait.
bool tern_job_is_done(const struct tern_job *job);
// Waits for the end of the work, if it was started. The job is then as before its start.
void tern_job_join(struct tern_job *job);

#endif
