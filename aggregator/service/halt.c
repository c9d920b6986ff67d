// Stopping for good. A batch that fails because of the disk, of memory or of another writer is
// tried again by whoever sent it. A damaged file, or updates of the open round that are no longer
// what was acknowledged, does not get better by trying, and going on without them would drop what
// clients have been told is counted. So nothing is written any more, and the operator is told.
#include "service/internal.h"

#include <stdio.h>

#define RETRY_AFTER_S 60

bool is_halted(const struct tern_service *service)
{
    return atomic_load(&service->halted);
}

void answer_halted(struct request *request)
{
    answer_refusal(request, 503, TERN_ERR_IO,
                   "The aggregator has stopped: its database needs repair. Nothing changed; try "
                   "again later.");
    request->reply.retry_after_s = RETRY_AFTER_S;
}

static void let_all_go(struct tern_service *service)
{
    for (uint32_t i = 0; i < service->client_count; i++) {
        struct client *client = &service->clients[i];
        if (client->held != NULL) {
            request_list_add(&service->batch, client->held);
            client->held = NULL;
        }
    }
    service->held_count = 0;
}

static void tell(struct tern_service *service)
{
    tern_log(TERN_LOG_ERROR, "halted", "why=%s", TERN_LOG_TEXT(service->halt_why));
    if (service->config.on_halted != NULL) {
        service->config.on_halted(service->config.halted_ctx);
    }
}

bool halt_if_needed(struct tern_service *service)
{
    if (service->halt_why[0] == '\0' && tern_db_damaged(service->db)) {
        snprintf(service->halt_why, sizeof service->halt_why, "%s", tern_db_error(service->db));
    }
    if (service->halt_why[0] == '\0') {
        return false;
    }
    let_all_go(service);
    for (struct request *request = service->batch.first; request != NULL; request = request->next) {
        answer_halted(request);
    }
    atomic_store(&service->halted, true);
    tell(service);
    return true;
}

bool tern_service_halted(struct tern_service *service, char why[256])
{
    if (!is_halted(service)) {
        return false;
    }
    snprintf(why, 256, "%s", service->halt_why);
    return true;
}
