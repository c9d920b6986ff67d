#include "hosted/parallel.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

struct tern_worker_pool {
    struct tern_parallel parallel;
    pthread_mutex_t turn; // held while jobs of one caller run

    pthread_mutex_t lock; // of all below
    pthread_cond_t work;  // there are jobs, or it is time to end
    pthread_cond_t done;  // no job is left
    void (*job)(void *arg, unsigned index);
    void *arg;
    unsigned jobs;
    unsigned started;
    unsigned finished;
    bool ending;

    unsigned threads;
    pthread_t thread[];
};

unsigned tern_workers_available(void)
{
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    if (online < 1) {
        return 1;
    }
    return online < TERN_WORKERS_MAX ? (unsigned)online : TERN_WORKERS_MAX;
}

// Runs jobs until all are started. Called, and returns, with the lock held.
static void take_jobs(struct tern_worker_pool *pool)
{
    while (pool->started < pool->jobs) {
        unsigned index = pool->started++;
        pthread_mutex_unlock(&pool->lock);
        pool->job(pool->arg, index);
        pthread_mutex_lock(&pool->lock);
        if (++pool->finished == pool->jobs) {
            pthread_cond_signal(&pool->done);
        }
    }
}

static void *work(void *arg)
{
    struct tern_worker_pool *pool = arg;
    pthread_mutex_lock(&pool->lock);
    while (!pool->ending) {
        take_jobs(pool);
        if (!pool->ending) {
            pthread_cond_wait(&pool->work, &pool->lock);
        }
    }
    pthread_mutex_unlock(&pool->lock);
    return NULL;
}

static void run(void *ctx, void (*job)(void *arg, unsigned index), void *arg, unsigned jobs)
{
    struct tern_worker_pool *pool = ctx;
    pthread_mutex_lock(&pool->turn);
    pthread_mutex_lock(&pool->lock);
    pool->job = job;
    pool->arg = arg;
    pool->jobs = jobs;
    pool->started = 0;
    pool->finished = 0;
    pthread_cond_broadcast(&pool->work);
    take_jobs(pool);
    while (pool->finished < pool->jobs) {
        pthread_cond_wait(&pool->done, &pool->lock);
    }
    pthread_mutex_unlock(&pool->lock);
    pthread_mutex_unlock(&pool->turn);
}

static bool start_threads(struct tern_worker_pool *pool, unsigned wanted)
{
    for (; pool->threads < wanted; pool->threads++) {
        if (pthread_create(&pool->thread[pool->threads], NULL, work, pool) != 0) {
            return false;
        }
    }
    return true;
}

enum tern_result tern_worker_pool_create(unsigned workers, struct tern_worker_pool **pool)
{
    if (workers == 0 || workers > TERN_WORKERS_MAX) {
        return TERN_ERR_ARGUMENT;
    }
    struct tern_worker_pool *made = calloc(1, sizeof *made + (workers - 1) * sizeof(pthread_t));
    if (made == NULL) {
        return TERN_ERR_NO_MEMORY;
    }
    made->parallel = (struct tern_parallel){.ctx = made, .workers = workers, .run = run};
    pthread_mutex_init(&made->turn, NULL);
    pthread_mutex_init(&made->lock, NULL);
    pthread_cond_init(&made->work, NULL);
    pthread_cond_init(&made->done, NULL);
    if (!start_threads(made, workers - 1)) {
        tern_worker_pool_free(made);
        return TERN_ERR_NO_MEMORY;
    }
    *pool = made;
    return TERN_OK;
}

const struct tern_parallel *tern_worker_pool_parallel(const struct tern_worker_pool *pool)
{
    return &pool->parallel;
}

void tern_worker_pool_free(struct tern_worker_pool *pool)
{
    if (pool == NULL) {
        return;
    }
    pthread_mutex_lock(&pool->lock);
    pool->ending = true;
    pthread_cond_broadcast(&pool->work);
    pthread_mutex_unlock(&pool->lock);
    for (unsigned i = 0; i < pool->threads; i++) {
        pthread_join(pool->thread[i], NULL);
    }
    pthread_cond_destroy(&pool->done);
    pthread_cond_destroy(&pool->work);
    pthread_mutex_destroy(&pool->lock);
    pthread_mutex_destroy(&pool->turn);
    free(pool);
}
