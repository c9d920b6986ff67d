#include "service/internal.h"

void tern_service_facts(struct tern_service *service, struct tern_service_facts *facts)
{
    *facts = service->counters;
    tern_federation_facts(service->federation, &facts->federation);
    facts->held = service->held.count;
    facts->unauthorized = atomic_load(&service->unauthorized);
    facts->rate_limited = atomic_load(&service->rate_limited);
    facts->bytes = tern_metering_total(service->metering);
    pthread_mutex_lock(&service->queue.lock);
    facts->queued = service->queue.count;
    pthread_mutex_unlock(&service->queue.lock);
}
