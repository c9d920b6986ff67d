// Check-ins are answered once the rounds have moved on, or held until there is something to do.
#include "service/internal.h"

#include <stdlib.h>
#include <string.h>

// Held check-ins that are asked again in one batch because something has happened.
#define HELD_MAX 256

// A client that does not wait for a task, and comes while a round is merged, is held so long all the same: to
// come back would cost it another exchange.
#define MERGE_WAIT_MS 1000

static bool make_room(struct held *held, uint64_t client)
{
    if (client <= held->capacity) {
        return true;
    }
    size_t capacity = held->capacity == 0 ? 64 : held->capacity;
    while (capacity < client) {
        if (capacity > SIZE_MAX / sizeof(struct request *) / 2) {
            return false;
        }
        capacity *= 2;
    }
    struct request **of = realloc(held->of, capacity * sizeof of[0]);
    if (of == NULL) {
        return false;
    }
    memset(of + held->capacity, 0, (capacity - held->capacity) * sizeof of[0]);
    held->of = of;
    held->capacity = capacity;
    return true;
}

static struct request *held_of(const struct tern_service *service, uint64_t client)
{
    const struct held *held = &service->held;
    return client == 0 || client > held->capacity ? NULL : held->of[client - 1];
}

bool tern_service_holds(const struct tern_service *service, const struct request *request)
{
    return held_of(service, request->client) == request;
}

static void hold(struct tern_service *service, struct request *request)
{
    struct held *held = &service->held;
    held->of[request->client - 1] = request;
    held->count++;
    tern_federation_wait(service->federation, request->client, true);
    if (request->held_until_ms < held->next_ms) {
        held->next_ms = request->held_until_ms;
    }
}

static void let_go(struct tern_service *service, struct request *request)
{
    service->held.of[request->client - 1] = NULL;
    service->held.count--;
    tern_federation_wait(service->federation, request->client, false);
    tern_request_list_add(&service->batch, request);
}

void tern_service_tell_held(struct tern_service *service)
{
    for (uint64_t client = 1; client <= service->held.capacity; client++) {
        if (held_of(service, client) != NULL) {
            tern_federation_wait(service->federation, client, true);
        }
    }
}

void tern_service_let_all_go(struct tern_service *service)
{
    for (uint64_t client = 1; client <= service->held.capacity; client++) {
        struct request *request = held_of(service, client);
        if (request != NULL) {
            let_go(service, request);
        }
    }
}

static uint64_t held_until(const struct request *request, const struct tern_next *next)
{
    const uint64_t merged = request->came_ms + MERGE_WAIT_MS;
    return next->merging && merged > request->hold_until_ms ? merged : request->hold_until_ms;
}

// Answers a check-in that has something to do or may not wait; *held when it may be held.
static enum tern_result try_answer(struct tern_service *service, struct request *request,
                                   uint64_t now, bool *held)
{
    struct tern_next next;
    *held = false;
    if (!tern_federation_admits(service->federation, request->client)) {
        tern_answer_error(request, 401, TERN_ERR_UNAUTHORIZED);
        return TERN_OK;
    }
    TERN_TRY(tern_federation_next(service->federation, request->client, now, &next));
    request->held_until_ms = held_until(request, &next);
    if (next.idle && service->batch_ms < request->held_until_ms && !service->quiescing) {
        *held = true;
        return TERN_OK;
    }
    request->tag.round = tern_federation_round(service->federation);
    return tern_service_answer_checkin(service, request, &next);
}

enum tern_result tern_service_settle_checkin(struct tern_service *service, struct request *request,
                                             uint64_t now)
{
    struct request *older = held_of(service, request->client);
    bool held = false;
    // A client asks once at a time; an older question is one whose connection it has given up.
    if (older != NULL) {
        tern_answer_refusal(older, 409, TERN_ERR_CONFLICT, "A newer check-in has taken its place.");
        let_go(service, older);
    }
    if (!make_room(&service->held, request->client)) {
        return TERN_ERR_NO_MEMORY;
    }
    TERN_TRY(try_answer(service, request, now, &held));
    if (held) {
        hold(service, request);
    }
    return TERN_OK;
}

static enum tern_result ask_again(struct tern_service *service, struct request *request,
                                  uint64_t now, bool *held)
{
    TERN_TRY(try_answer(service, request, now, held));
    if (!*held) {
        let_go(service, request);
    } else if (request->held_until_ms < service->held.next_ms) {
        service->held.next_ms = request->held_until_ms; // there is no merge to wait for any more
    }
    return TERN_OK;
}

static enum tern_result settle_due(struct tern_service *service, uint64_t now)
{
    struct held *waiting = &service->held;
    uint64_t next_ms = UINT64_MAX;
    for (uint64_t client = 1; client <= waiting->capacity; client++) {
        struct request *request = held_of(service, client);
        bool held = request != NULL;
        if (held && service->batch_ms >= request->held_until_ms) {
            TERN_TRY(ask_again(service, request, now, &held));
        }
        if (held && request->held_until_ms < next_ms) {
            next_ms = request->held_until_ms;
        }
    }
    waiting->next_ms = next_ms;
    return TERN_OK;
}

// A round of 20,000 clients would keep all other requests waiting for seconds while each of them
// gets its task.
static enum tern_result settle_some(struct tern_service *service, uint64_t now)
{
    struct held *waiting = &service->held;
    uint32_t left = service->quiescing ? UINT32_MAX : HELD_MAX;
    enum tern_result result = TERN_OK;
    uint64_t client = waiting->asking;
    // One that the store does not take does not keep those behind it.
    for (; client <= waiting->capacity && left > 0 && result == TERN_OK; client++) {
        struct request *request = held_of(service, client);
        bool held = true;
        if (request != NULL) {
            result = ask_again(service, request, now, &held);
            left--;
        }
    }
    waiting->asking = client <= waiting->capacity ? client : 0;
    return result;
}

enum tern_result tern_service_settle_held(struct tern_service *service, uint64_t now)
{
    struct held *waiting = &service->held;
    if (tern_federation_moved(service->federation) || service->quiescing) {
        waiting->asking = 1;
    }
    if (waiting->count == 0) {
        waiting->asking = 0;
    }
    TERN_TRY(waiting->asking != 0 ? settle_some(service, now) : TERN_OK);
    bool due = waiting->count > 0 && service->batch_ms >= waiting->next_ms;
    return due ? settle_due(service, now) : TERN_OK;
}
