// Why it waits, and how good the newest version was found, for those who ask often: by memory, which is
// renewed once in a second at most.
#include "federation/internal.h"

#define RENEWED_MS 1000

void tern_federation_wait_rules(const struct tern_federation_config *config,
                                struct tern_wait_rules *rules)
{
    *rules = (struct tern_wait_rules){
        .rounds = config->round.rounds,
        .min_clients = config->min_clients,
        .cohort = config->round.cohort,
        .quorum = config->round.quorum,
        .eligible_within_ms = config->eligible_within_ms,
        .come_back_min_ms = config->round.come_back_min_ms,
        .interval_ms = config->round.min_interval_ms,
        .interval_is_auto = config->round.interval_is_auto,
        .fits_budgets = (config->steps.policy & TERN_STEPS_BUDGET) != 0 ||
                        config->selection == TERN_SELECTION_BUDGET,
        .ending = config->round.ending,
        .tags = config->tags,
        .statistics_are_wanted = config->statistics.wanted,
        .statistics_min_clients = config->statistics.min_clients,
        .statistics_wait_ms = config->statistics.wait_ms,
        .follower = config->follower,
    };
}

// With the end that a gateway's federation has once the one above is done (tern_federation_end()).
static void rules_of(const struct tern_federation *federation, struct tern_wait_rules *rules)
{
    tern_federation_wait_rules(&federation->config, rules);
    rules->rounds = federation->machine.policy.rounds;
}

static bool may_train(const struct client *client)
{
    return !client->row.evaluator && !client->row.revoked;
}

static struct tern_waited trainer_of(const struct client *client)
{
    const struct tern_db_client *row = &client->row;
    return (struct tern_waited){
        .tags = row->tags,
        .created_ms = row->created_ms,
        .last_seen_ms = row->last_seen_ms,
        .budgeted = row->budgeted,
        .budget_left =
            row->budget_left > row->budget_spent ? row->budget_left - row->budget_spent : 0,
        .least_bytes = client->least_bytes,
        .has_told = client->has_statistics,
    };
}

static void count_clients(const struct tern_federation *federation,
                          const struct tern_wait_rules *rules, uint64_t now,
                          struct tern_wait_facts *facts)
{
    facts->trainers = (struct tern_trainers){.enrolled = 0};
    for (uint32_t i = 0; i < federation->clients.count; i++) {
        const struct client *client = &federation->clients.list[i];
        const struct tern_waited trainer = trainer_of(client);
        if (may_train(client)) {
            tern_trainers_add(&facts->trainers, rules, &trainer, now);
        }
    }
}

// What costs nothing to know.
static void take_round(const struct tern_federation *federation, struct tern_wait_facts *facts)
{
    const struct tern_round_machine *machine = &federation->machine;
    facts->open = machine->open;
    facts->round = machine->round;
    facts->opened_ms = machine->opened_ms;
    facts->deadline_ms = machine->deadline_ms;
    facts->quorum = machine->quorum;
    facts->committed = machine->committed;
    facts->losses = machine->losses;
    facts->last_loss = tern_db_round_loss(&federation->row);
    facts->first_told_ms = federation->scaling.first_ms;
    facts->scaled = federation->scaling.body != NULL;
    facts->awaits_above = !tern_follow_may_open(federation);
}

void tern_federation_waits(const struct tern_federation *federation, uint64_t now,
                           struct tern_wait_rules *rules, struct tern_wait_facts *facts)
{
    rules_of(federation, rules);
    count_clients(federation, rules, now, facts);
    take_round(federation, facts);
}

void tern_federation_missing(const struct tern_federation *federation,
                             tern_federation_take_missing *take, void *ctx)
{
    const struct tern_round_machine *machine = &federation->machine;
    for (uint32_t i = 0; machine->open && i < machine->member_count; i++) {
        const struct tern_member *member = &machine->members[i];
        const struct client *client = client_of(federation, member->client);
        const bool is_missing =
            member->state == TERN_MEMBER_INVITED || member->state == TERN_MEMBER_TASKED;
        if (is_missing && client != NULL && !client->row.revoked) {
            take(ctx, &client->row, member->state == TERN_MEMBER_TASKED, member->tries);
        }
    }
}

void tern_federation_untold(const struct tern_federation *federation, uint64_t now,
                            tern_federation_take_missing *take, void *ctx)
{
    struct tern_wait_rules rules;
    tern_federation_wait_rules(&federation->config, &rules);
    for (uint32_t i = 0; i < federation->clients.count; i++) {
        const struct client *client = &federation->clients.list[i];
        const struct tern_waited trainer = trainer_of(client);
        if (may_train(client) && tern_trainer_is_untold(&rules, &trainer, now)) {
            take(ctx, &client->row, false, 0);
        }
    }
}

// --- Kept for the facts

// What cannot be read now stays as it was until the next time.
static void renew(struct tern_federation *federation, const struct tern_wait_rules *rules,
                  uint64_t now)
{
    struct kept *kept = &federation->kept;
    if (kept->renewed_ms != 0 && now >= kept->renewed_ms && now - kept->renewed_ms < RENEWED_MS) {
        return;
    }
    kept->renewed_ms = now;
    count_clients(federation, rules, now, &kept->waits);
    if (!kept->evaluated_is_known) {
        struct tern_accuracy evaluated;
        struct tern_judged pending;
        kept->evaluated_is_known =
            tern_accuracy_newest(federation->db, &evaluated, &pending) == TERN_OK;
        kept->evaluated = kept->evaluated_is_known ? evaluated : kept->evaluated;
    }
}

void tern_waits_facts(struct tern_federation *federation, uint64_t now,
                      struct tern_federation_facts *facts)
{
    struct tern_wait_rules rules;
    rules_of(federation, &rules);
    renew(federation, &rules, now);
    take_round(federation, &federation->kept.waits);
    facts->trainers = federation->kept.waits.trainers;
    facts->wait = tern_wait_of(&rules, &federation->kept.waits, now);
    facts->needs_help = tern_wait_needs_help(facts->wait, &rules, &federation->kept.waits);
    facts->evaluated = federation->kept.evaluated;
}
