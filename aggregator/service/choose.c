// Who may be drawn for a round.
#include "service/internal.h"

#include "rounds/cohort.h"

// One that was provisioned and has not come yet is still with the factory: rounds that wait for it
// would wait until their deadline.
static bool is_trainer(const struct client *client)
{
    return !client->evaluator && !client->revoked && client->last_seen_ms != 0;
}

bool may_train(const struct tern_service *service, const struct client *client, uint64_t now)
{
    uint64_t within = service->config.eligible_within_ms;
    bool recent = within == 0 || client->last_seen_ms + within >= now;
    return is_trainer(client) && recent;
}

uint32_t enrolled_trainers(const struct tern_service *service)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < service->client_count; i++) {
        count += is_trainer(&service->clients[i]);
    }
    return count;
}

uint32_t list_eligible(struct tern_service *service, uint64_t now)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < service->client_count; i++) {
        if (may_train(service, &service->clients[i], now)) {
            service->eligible[count++] = (uint64_t)i + 1;
        }
    }
    return count;
}

// --- Chances

struct choice {
    const struct tern_service *service;
    uint64_t now;
    struct to_go to_go;
};

static struct tern_chance chance_of(const void *ctx, uint64_t id)
{
    const struct choice *choice = ctx;
    const struct tern_service *service = choice->service;
    const struct client *client = &service->clients[id - 1];
    struct tern_chance chance = {1.0, 1.0};
    if (service->config.selection == TERN_SELECTION_AVAILABILITY) {
        uint64_t seen = client->last_seen_ms;
        const struct tern_availability facts = {
            .age_ms = client->held == NULL && choice->now > seen ? choice->now - seen : 0,
            .window_ms = service->config.round.deadline_ms,
            .metered = client->metered,
            .battery = client->power == tern_Power_POWER_BATTERY};
        chance.welcome = tern_selection_availability(&facts);
    }
    if (minds_budgets(service)) {
        const struct tern_budget budget = budget_of(client, &choice->to_go);
        chance.affords = tern_budget_chance(&budget, client->least_bytes);
    }
    return chance;
}

uint32_t choose_eligible(struct tern_service *service, uint32_t count, uint32_t round,
                         uint32_t attempt, uint32_t wanted, uint32_t updates, uint64_t now)
{
    if (service->config.selection == TERN_SELECTION_RANDOM && !minds_budgets(service)) {
        return count;
    }
    const struct choice choice = {service, now, rounds_to_come(service, now)};
    const struct tern_need need = {
        .wanted = wanted,
        .least = tern_cohort_size(updates, service->config.round.over_selection, wanted)};
    uint32_t chosen = tern_selection_thin(service->federation.seed, round, attempt,
                                          service->eligible, count, &need, chance_of, &choice);
    // A round of fewer updates than its quorum would be the model of the few whose bytes last.
    uint32_t enough = attempt > 1 ? 1 : updates < count ? updates : count;
    bool too_few = need.least > 0 && chosen < enough;
    if (too_few && !service->too_few_afford) {
        tern_log(TERN_LOG_WARN, "too-few-afford-a-round", "round=%u eligible=%u chosen=%u", round,
                 count, chosen);
    }
    service->too_few_afford = too_few;
    return too_few ? 0 : chosen;
}
