// What clients' byte budgets allow.
#include "federation/internal.h"

#include "rounds/cohort.h"

bool tern_budgets_matter(const struct tern_federation *federation)
{
    return (federation->config.steps.policy & TERN_STEPS_BUDGET) != 0 ||
           federation->config.selection == TERN_SELECTION_BUDGET;
}

// Until the federation has done its rounds, or until the month ends, when budgets are renewed.
static double rounds_to_go(const struct tern_federation *federation, uint64_t now)
{
    const struct tern_round_machine *machine = &federation->machine;
    const struct tern_round_policy *policy = &machine->policy;
    uint64_t length = machine->usual_ms != 0 ? machine->usual_ms : policy->deadline_ms;
    length = length > policy->min_interval_ms ? length : policy->min_interval_ms;
    double rounds = (double)tern_budget_month_left_ms(now) / (double)(length > 0 ? length : 1);
    if (policy->rounds != 0) {
        double left = (double)policy->rounds - (double)machine->committed;
        rounds = left < rounds ? left : rounds;
    }
    return rounds;
}

struct budgets {
    const struct tern_federation *federation;
    uint64_t now;
    double rounds;
};

static double affords(const void *ctx, uint32_t index)
{
    const struct budgets *budgets = ctx;
    const struct client *client = &budgets->federation->clients.list[index];
    const struct tern_budget budget =
        tern_budgets_of(client, &(struct to_go){budgets->rounds, 1.0});
    return tern_clients_may_train(budgets->federation, client, budgets->now)
               ? tern_budget_affords(&budget, client->least_bytes)
               : 0.0;
}

struct to_go tern_budgets_to_go(const struct tern_federation *federation, uint64_t now)
{
    if (!tern_budgets_matter(federation)) {
        return (struct to_go){1.0, 1.0};
    }
    const struct tern_round_policy *policy = &federation->machine.policy;
    const struct budgets budgets = {federation, now, rounds_to_go(federation, now)};
    uint32_t invited = tern_cohort_size(policy->cohort, policy->over_selection, UINT32_MAX);
    double share = tern_budget_share(invited, federation->clients.count, affords, &budgets);
    return (struct to_go){budgets.rounds, share};
}

struct tern_budget tern_budgets_of(const struct client *client, const struct to_go *to_go)
{
    uint64_t spent = client->row.budget_spent;
    uint64_t left = client->row.budget_left > spent ? client->row.budget_left - spent : 0;
    return (struct tern_budget){.budgeted = client->row.budgeted,
                                .left = left,
                                .renewed = client->row.budget_renewed,
                                .rounds = to_go->rounds,
                                .share = to_go->share};
}

// --- What clients tell

void tern_budgets_told(struct client *client, const tern_CheckinRequest *message, uint64_t now)
{
    uint64_t left = message->budgeted ? message->budget_left : 0;
    // A budget of each round is as large again after one; but so is a month's when the month turns,
    // and must not be spent in one round for it.
    if (client->row.budget_spent > 0 && !tern_budget_month_turned(client->row.last_seen_ms, now)) {
        client->row.budget_renewed = left >= client->row.budget_left;
    }
    client->row.metered = message->metered;
    client->row.budgeted = message->budgeted;
    client->row.budget_left = left;
    client->row.budget_spent = 0;
    client->row.power = (uint32_t)message->power;
}

// Until its next check-in says exactly.
void tern_budgets_spend(struct client *client)
{
    client->row.budget_spent += client->round_bytes;
}
