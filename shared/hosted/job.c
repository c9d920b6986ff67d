#include "hosted/job.h"

static void *run(void *arg)
{
    struct tern_job *job = arg;
    job->work(job->ctx);
    atomic_store(&job->has_ended, true);
    job->ended(job->ended_ctx);
    return NULL;
}

enum tern_result tern_job_start(struct tern_job *job)
{
    atomic_store(&job->has_ended, false);
    job->begun = pthread_create(&job->thread, NULL, run, job) == 0;
    return job->begun ? TERN_OK : TERN_ERR_NO_MEMORY;
}

bool tern_job_is_done(const struct tern_job *job)
{
    return job->begun && atomic_load(&job->has_ended);
}

void tern_job_join(struct tern_job *job)
{
    if (job->begun) {
        pthread_join(job->thread, NULL);
        job->begun = false;
    }
}
