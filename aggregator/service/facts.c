#include "service/own_replicas.h"

#include <string.h>

static void count_clients(const struct tern_service *service, struct tern_service_facts *facts)
{
    facts->clients = service->client_count;
    for (uint32_t i = 0; i < service->client_count; i++) {
        facts->revoked += service->clients[i].revoked;
        facts->evaluators += service->clients[i].evaluator;
    }
}

void tern_service_facts(struct tern_service *service, struct tern_service_facts *facts)
{
    const struct tern_round_machine *machine = &service->machine;
    *facts = service->counters;
    memcpy(facts->model_spec, service->federation.model_spec, sizeof facts->model_spec);
    facts->version = service->merge.version;
    facts->round = machine->round;
    facts->round_open = machine->open;
    facts->finished = tern_round_finished(machine);
    facts->rounds_wanted = machine->policy.rounds;
    facts->target = machine->target;
    facts->reported = machine->reported;
    facts->members = machine->member_count;
    facts->opened_ms = machine->opened_ms;
    facts->deadline_ms = machine->deadline_ms;
    facts->held = service->held_count;
    facts->last_loss = service->last_loss;
    facts->refused_draws = service->refused.draws;
    facts->advice = refusals_advice(service);
    facts->replica_bytes = service->own_replicas->book.bytes;
    memcpy(facts->model_sha256, service->merge.model_sha256, TERN_SHA256_SIZE);
    facts->unauthorized = atomic_load(&service->unauthorized);
    facts->rate_limited = atomic_load(&service->rate_limited);
    facts->bytes = tern_metering_total(service->metering);
    pthread_mutex_lock(&service->queue.lock);
    facts->queued = service->queue.count;
    pthread_mutex_unlock(&service->queue.lock);
    count_clients(service, facts);
}
