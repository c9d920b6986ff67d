#include "rounds/waits.h"

#include "rounds/selection.h"
#include <stddef.h>
#include <string.h>

const char *tern_wait_name(enum tern_wait wait)
{
    static const char *const names[TERN_WAIT_COUNT] = {
        [TERN_WAIT_MEMBERS] = "members",       [TERN_WAIT_ENDED] = "ended",
        [TERN_WAIT_FINISHED] = "finished",     [TERN_WAIT_UPSTREAM] = "upstream",
        [TERN_WAIT_CLIENTS] = "clients",       [TERN_WAIT_SEEN] = "seen",
        [TERN_WAIT_STATISTICS] = "statistics", [TERN_WAIT_BYTES] = "bytes",
        [TERN_WAIT_INTERVAL] = "interval",     [TERN_WAIT_CHECKIN] = "checkin",
        [TERN_WAIT_TICKETS] = "tickets",       [TERN_WAIT_HELPER] = "helper",
    };
    return names[wait];
}

static uint32_t configured_quorum(const struct tern_wait_rules *rules)
{
    return rules->quorum != 0 ? rules->quorum : rules->cohort / 2 + rules->cohort % 2;
}

// Whether the client's byte budget is below the fewest bytes that its next round takes, if that number is known.
static bool is_out_of_budget(const struct tern_wait_client *client)
{
    return client->budgeted &&
           (client->budget_left == 0 || client->budget_left < client->least_bytes);
}

// Whether rounds may count on the client: it has checked in, or has just enrolled.
static bool has_checked_in(const struct tern_wait_rules *rules,
                           const struct tern_wait_client *client, uint64_t now_ms)
{
    return tern_selection_has_checked_in(client->created_ms, client->last_seen_ms,
                                         rules->come_back_min_ms, now_ms);
}

bool tern_wait_client_lacks_statistics(const struct tern_wait_rules *rules,
                                       const struct tern_wait_client *client, uint64_t now_ms)
{
    return !client->has_statistics && tern_tags_match(client->tags, &rules->tags) &&
           has_checked_in(rules, client, now_ms);
}

void tern_trainer_counts_add(struct tern_trainer_counts *trainers,
                             const struct tern_wait_rules *rules,
                             const struct tern_wait_client *client, uint64_t now_ms)
{
    const uint64_t within_ms = rules->eligible_within_ms;
    if (!tern_tags_match(client->tags, &rules->tags)) {
        trainers->excluded_by_tags++;
        return;
    }
    trainers->with_statistics += client->has_statistics;
    trainers->missing_statistics += tern_wait_client_lacks_statistics(rules, client, now_ms);
    if (!has_checked_in(rules, client, now_ms)) {
        trainers->never_checked_in++;
        return;
    }
    trainers->enrolled++;
    trainers->privacy_spent += client->privacy_spent;
    trainers->with_ticket += client->has_ticket;
    if (within_ms != 0 && client->last_seen_ms + within_ms < now_ms) {
        return;
    }
    trainers->recent++;
    trainers->out_of_budget += is_out_of_budget(client);
}

bool tern_wait_has_spent_privacy(const struct tern_wait_rules *rules,
                                 const struct tern_trainer_counts *trainers)
{
    const uint32_t quorum = configured_quorum(rules);
    const uint32_t secure = tern_wait_tickets_needed(rules);
    const uint32_t needed = quorum > secure ? quorum : secure;
    return trainers->enrolled >= needed && trainers->enrolled - trainers->privacy_spent < needed;
}

// --- Reasons for which no round opens

static bool has_ended(const struct tern_wait_rules *rules, const struct tern_wait_facts *facts,
                      uint64_t now_ms)
{
    (void)now_ms;
    return facts->losses.ending != TERN_ENDING_NONE ||
           tern_wait_has_spent_privacy(rules, &facts->trainers);
}

static bool is_finished(const struct tern_wait_rules *rules, const struct tern_wait_facts *facts,
                        uint64_t now_ms)
{
    (void)now_ms;
    return rules->rounds != 0 && facts->committed >= rules->rounds;
}

static bool awaits_upstream(const struct tern_wait_rules *rules,
                            const struct tern_wait_facts *facts, uint64_t now_ms)
{
    (void)rules;
    (void)now_ms;
    return facts->awaits_upstream;
}

static bool lacks_clients(const struct tern_wait_rules *rules, const struct tern_wait_facts *facts,
                          uint64_t now_ms)
{
    (void)now_ms;
    return facts->trainers.enrolled < rules->min_clients;
}

static bool lacks_recent_clients(const struct tern_wait_rules *rules,
                                 const struct tern_wait_facts *facts, uint64_t now_ms)
{
    (void)rules;
    (void)now_ms;
    return facts->trainers.recent == 0;
}

bool tern_wait_needs_scaling(const struct tern_wait_rules *rules,
                             const struct tern_wait_facts *facts)
{
    return rules->statistics_are_enabled && !facts->scaled && facts->round == 0;
}

uint64_t tern_wait_statistics_left_ms(const struct tern_wait_rules *rules,
                                      const struct tern_wait_facts *facts, uint64_t now_ms)
{
    const uint64_t until_ms = facts->first_statistics_ms + rules->statistics_wait_ms;
    return until_ms > now_ms ? until_ms - now_ms : 0;
}

// The first round waits for statistics of columns (federation/statistics.c).
static bool lacks_statistics(const struct tern_wait_rules *rules,
                             const struct tern_wait_facts *facts, uint64_t now_ms)
{
    const struct tern_trainer_counts *trainers = &facts->trainers;
    return tern_wait_needs_scaling(rules, facts) &&
           (trainers->with_statistics < tern_wait_statistics_needed(rules) ||
            (trainers->missing_statistics > 0 &&
             tern_wait_statistics_left_ms(rules, facts, now_ms) > 0));
}

// Where rounds are fitted to budgets, no round opens for fewer clients than the quorum (federation/round.c).
static bool lacks_budgets(const struct tern_wait_rules *rules, const struct tern_wait_facts *facts,
                          uint64_t now_ms)
{
    const struct tern_trainer_counts *trainers = &facts->trainers;
    (void)now_ms;
    return rules->fits_budgets &&
           trainers->recent - trainers->out_of_budget < tern_wait_clients_needed(rules, facts);
}

static bool lacks_tickets(const struct tern_wait_rules *rules, const struct tern_wait_facts *facts,
                          uint64_t now_ms)
{
    (void)now_ms;
    return rules->secure_updates != 0 && !facts->helper_silent &&
           facts->trainers.with_ticket < tern_wait_tickets_needed(rules);
}

static bool awaits_helper(const struct tern_wait_rules *rules, const struct tern_wait_facts *facts,
                          uint64_t now_ms)
{
    (void)now_ms;
    return rules->secure_updates != 0 && (facts->helper_silent || facts->abandoned_ms != 0);
}

static bool is_within_interval(const struct tern_wait_rules *rules,
                               const struct tern_wait_facts *facts, uint64_t now_ms)
{
    return facts->round != 0 && facts->opened_ms + rules->interval_ms > now_ms;
}

uint32_t tern_wait_tickets_needed(const struct tern_wait_rules *rules)
{
    return rules->secure_updates > rules->min_clients ? rules->secure_updates : rules->min_clients;
}

uint32_t tern_wait_statistics_needed(const struct tern_wait_rules *rules)
{
    return rules->statistics_min_clients != 0 ? rules->statistics_min_clients : rules->min_clients;
}

uint32_t tern_wait_clients_needed(const struct tern_wait_rules *rules,
                                  const struct tern_wait_facts *facts)
{
    const uint32_t quorum = configured_quorum(rules);
    return quorum < facts->trainers.recent ? quorum : facts->trainers.recent;
}

enum tern_wait tern_wait_reason(const struct tern_wait_rules *rules,
                                const struct tern_wait_facts *facts, uint64_t now_ms)
{
    // The first reason that holds is the answer: it prevents rounds whether or not later reasons hold.
    static const struct {
        enum tern_wait wait;
        bool (*holds)(const struct tern_wait_rules *, const struct tern_wait_facts *, uint64_t);
    } reasons[] = {
        {TERN_WAIT_ENDED, has_ended},           {TERN_WAIT_FINISHED, is_finished},
        {TERN_WAIT_UPSTREAM, awaits_upstream},  {TERN_WAIT_CLIENTS, lacks_clients},
        {TERN_WAIT_TICKETS, lacks_tickets},     {TERN_WAIT_HELPER, awaits_helper},
        {TERN_WAIT_SEEN, lacks_recent_clients}, {TERN_WAIT_STATISTICS, lacks_statistics},
        {TERN_WAIT_BYTES, lacks_budgets},       {TERN_WAIT_INTERVAL, is_within_interval},
    };
    if (facts->asks_helper) {
        return TERN_WAIT_HELPER;
    }
    if (facts->open) {
        return TERN_WAIT_MEMBERS;
    }
    for (size_t i = 0; i < sizeof reasons / sizeof reasons[0]; i++) {
        if (reasons[i].holds(rules, facts, now_ms)) {
            return reasons[i].wait;
        }
    }
    return TERN_WAIT_CHECKIN;
}

void tern_wait_set_abandoned(struct tern_wait_facts *facts, uint64_t closed_ms, const char *reason)
{
    const size_t len = strcspn(reason, ":");
    const size_t most = sizeof facts->abandoned - 1;
    facts->abandoned_ms = closed_ms;
    memset(facts->abandoned, 0, sizeof facts->abandoned);
    memcpy(facts->abandoned, reason, len < most ? len : most);
}

bool tern_wait_is_log_refused(const struct tern_wait_facts *facts)
{
    return facts->abandoned_ms != 0 && strcmp(facts->abandoned, TERN_HELPER_LOG_REASON) == 0;
}

bool tern_wait_is_near_list(const struct tern_wait_facts *facts)
{
    return facts->abandoned_ms != 0 && strcmp(facts->abandoned, "near-list") == 0;
}

bool tern_wait_needs_help(enum tern_wait wait, const struct tern_wait_rules *rules,
                          const struct tern_wait_facts *facts)
{
    switch ((int)wait) {
    case TERN_WAIT_ENDED:
    case TERN_WAIT_CLIENTS:
    case TERN_WAIT_TICKETS:
    case TERN_WAIT_SEEN:
    case TERN_WAIT_BYTES:
        return true;
    case TERN_WAIT_HELPER:
        return facts->helper_silent || tern_wait_is_log_refused(facts) ||
               tern_wait_is_near_list(facts);
    case TERN_WAIT_STATISTICS:
        return facts->trainers.with_statistics < tern_wait_statistics_needed(rules);
    default:
        return false;
    }
}
