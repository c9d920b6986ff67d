// Work that another thread has done in a transaction of the service, and waits for.
#include "service/internal.h"

void tern_service_work_init(struct work *work)
{
    pthread_mutex_init(&work->lock, NULL);
    pthread_cond_init(&work->ended, NULL);
}

void tern_service_work_free(struct work *work)
{
    pthread_cond_destroy(&work->ended);
    pthread_mutex_destroy(&work->lock);
}

enum tern_result tern_service_do(struct tern_service *service, tern_service_work work, void *ctx)
{
    struct work *place = &service->work;
    pthread_mutex_lock(&place->lock);
    place->work = work;
    place->ctx = ctx;
    place->step = WORK_ASKED;
    pthread_mutex_unlock(&place->lock);
    tern_request_queue_tell(&service->queue, &service->queue.poked);
    pthread_mutex_lock(&place->lock);
    while (place->step != WORK_ENDED) {
        pthread_cond_wait(&place->ended, &place->lock);
    }
    const enum tern_result result = place->result;
    place->step = WORK_NONE;
    pthread_mutex_unlock(&place->lock);
    return result;
}

bool tern_service_has_work(struct tern_service *service)
{
    pthread_mutex_lock(&service->work.lock);
    const bool has = service->work.step == WORK_ASKED;
    pthread_mutex_unlock(&service->work.lock);
    return has;
}

enum tern_result tern_service_do_work(struct tern_service *service, uint64_t now)
{
    struct work *place = &service->work;
    if (!tern_service_has_work(service)) {
        return TERN_OK;
    }
    const enum tern_result result = place->work(service->federation, now, place->ctx);
    pthread_mutex_lock(&place->lock);
    place->step = WORK_DONE;
    pthread_mutex_unlock(&place->lock);
    return result;
}

void tern_service_end_work(struct tern_service *service, enum tern_result result, bool all)
{
    struct work *place = &service->work;
    pthread_mutex_lock(&place->lock);
    if (place->step == WORK_DONE || (all && place->step == WORK_ASKED)) {
        place->step = WORK_ENDED;
        place->result = result;
        pthread_cond_signal(&place->ended);
    }
    pthread_mutex_unlock(&place->lock);
}
