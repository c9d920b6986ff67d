// Who may be drawn for a round.
#include "federation/internal.h"

#include "rounds/cohort.h"

struct choice {
    const struct tern_federation *federation;
    uint64_t now;
    struct to_go to_go;
};

static struct tern_selection_chance chance_of(const void *ctx, uint64_t id)
{
    const struct choice *choice = ctx;
    const struct tern_federation *federation = choice->federation;
    const struct client *client = &federation->clients.list[id - 1];
    struct tern_selection_chance chance = {1.0, 1.0};
    if (federation->config.selection == TERN_SELECTION_AVAILABILITY) {
        uint64_t seen = client->row.last_seen_ms;
        const struct tern_availability facts = {
            .age_ms = !client->waiting && choice->now > seen ? choice->now - seen : 0,
            .window_ms = federation->config.round.deadline_ms,
            .unreported = client->row.unreported,
            .metered = client->row.metered,
            .battery = client->row.power == tern_Power_POWER_BATTERY};
        chance.welcome = tern_selection_availability(&facts);
    }
    if (tern_budgets_matter(federation)) {
        const struct tern_budget budget = tern_budgets_of(client, &choice->to_go);
        chance.affords = tern_budget_chance(&budget, client->least_bytes);
    }
    return chance;
}

// Of the first `count` of clients.eligible, as many as are wanted, evenly over the values of a tag.
static uint32_t spread(struct tern_federation *federation, uint32_t count, uint32_t round,
                       uint32_t attempt, uint32_t wanted)
{
    const char *key = federation->config.tags.spread;
    struct clients *clients = &federation->clients;
    if (key[0] == '\0' || count <= wanted) {
        return count;
    }
    for (uint32_t i = 0; i < count; i++) {
        clients->lots[i] = (struct tern_tags_lot){
            .id = clients->eligible[i], .tags = clients->list[clients->eligible[i] - 1].row.tags};
    }
    tern_tags_spread(federation->about.seed, round, attempt, key, clients->lots, count,
                     clients->eligible, wanted);
    return wanted;
}

uint32_t tern_choose_eligible(struct tern_federation *federation, uint32_t count, uint32_t round,
                              uint32_t attempt, uint32_t wanted, uint32_t updates, uint64_t now)
{
    if (federation->config.selection == TERN_SELECTION_RANDOM && !tern_budgets_matter(federation)) {
        return spread(federation, count, round, attempt, wanted);
    }
    const struct choice choice = {federation, now, tern_budgets_to_go(federation, now)};
    const struct tern_need need = {
        .wanted = wanted,
        .least = tern_cohort_size(updates, federation->config.round.over_selection, wanted)};
    uint32_t chosen =
        tern_selection_thin(federation->about.seed, round, attempt, federation->clients.eligible,
                            count, &need, chance_of, &choice);
    // A round of fewer updates than its quorum would be the model of the few whose bytes last.
    uint32_t enough = attempt > 1 ? 1 : updates < count ? updates : count;
    bool too_few = need.least > 0 && chosen < enough;
    if (too_few && !federation->too_few_afford) {
        tern_log(TERN_LOG_WARN, "too-few-afford-a-round", "round=%u eligible=%u chosen=%u", round,
                 count, chosen);
    }
    federation->too_few_afford = too_few;
    return too_few ? 0 : spread(federation, chosen, round, attempt, wanted);
}
