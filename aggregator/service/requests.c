#include "service/requests.h"

#include <time.h>

void tern_request_list_init(struct tern_request_list *list)
{
    list->first = NULL;
    list->end = &list->first;
}

void tern_request_list_add(struct tern_request_list *list, struct request *request)
{
    request->next = NULL;
    *list->end = request;
    list->end = &request->next;
}

void tern_request_queue_init(struct tern_request_queue *queue, uint32_t max)
{
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&queue->wake, &attributes);
    pthread_condattr_destroy(&attributes);
    pthread_mutex_init(&queue->lock, NULL);
    tern_request_list_init(&queue->list);
    queue->max = max;
}

void tern_request_queue_limit(struct tern_request_queue *queue, uint32_t max)
{
    pthread_mutex_lock(&queue->lock);
    queue->max = max;
    pthread_mutex_unlock(&queue->lock);
}

void tern_request_queue_free(struct tern_request_queue *queue)
{
    pthread_cond_destroy(&queue->wake);
    pthread_mutex_destroy(&queue->lock);
}

bool tern_request_queue_put(struct tern_request_queue *queue, struct request *request)
{
    pthread_mutex_lock(&queue->lock);
    bool taken = !queue->stopping && queue->count < queue->max;
    if (taken) {
        tern_request_list_add(&queue->list, request);
        queue->count++;
        pthread_cond_signal(&queue->wake);
    }
    pthread_mutex_unlock(&queue->lock);
    return taken;
}

bool tern_request_queue_has_room(struct tern_request_queue *queue)
{
    pthread_mutex_lock(&queue->lock);
    const bool has_room = !queue->stopping && queue->count < queue->max;
    pthread_mutex_unlock(&queue->lock);
    return has_room;
}

void tern_request_queue_tell(struct tern_request_queue *queue, bool *flag)
{
    pthread_mutex_lock(&queue->lock);
    *flag = true;
    queue->poked = true;
    pthread_cond_signal(&queue->wake);
    pthread_mutex_unlock(&queue->lock);
}

struct request *tern_request_queue_take(struct tern_request_queue *queue, uint32_t most,
                                        uint32_t *count)
{
    struct request *first = queue->list.first;
    struct request **end = &queue->list.first;
    *count = 0;
    while (*end != NULL && *count < most) {
        end = &(*end)->next;
        (*count)++;
    }
    if (first == NULL) {
        return NULL;
    }
    queue->list.first = *end;
    if (*end == NULL) {
        queue->list.end = &queue->list.first;
    }
    *end = NULL;
    queue->count -= *count;
    return first;
}

void tern_request_queue_wait(struct tern_request_queue *queue, uint64_t ms)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += (time_t)(ms / 1000);
    until.tv_nsec += (long)(ms % 1000) * 1000000L;
    if (until.tv_nsec >= 1000000000L) {
        until.tv_sec++;
        until.tv_nsec -= 1000000000L;
    }
    pthread_cond_timedwait(&queue->wake, &queue->lock, &until);
}
