// Moves the rounds on: opens, extends and closes them, each with its rows in the transaction of the
// batch. What closing one takes is closing.c.
#include "federation/internal.h"

#include "rounds/cohort.h"
#include "rounds/leader.h"
#include <stdio.h>
#include <string.h>

// With nobody eligible, or too few clients, nothing but time or a new client helps.
#define RETRY_OPEN_MS 1000

// --- Opening

// When to look again who is silent: as often as whoever enrolled may take to come.
static uint64_t next_look(const struct tern_federation *federation, uint64_t now)
{
    const uint64_t patience = tern_clients_patience_ms(federation);
    const uint64_t soon = tern_selection_newcomer_ms(federation->config.round.come_back_min_ms);
    return now + (soon < patience ? soon : patience);
}

// The averaged model begins as the mean of the versions since it was asked for.
static uint32_t average_divisor(const struct tern_federation *federation)
{
    uint32_t most = federation->config.average_versions;
    uint32_t next = federation->merge.averaged + 1;
    return next < most ? next : most;
}

static float learning_rate_of(const struct tern_federation *federation, uint32_t decays)
{
    const struct tern_federation_config *config = &federation->config;
    return federation->epoch.is_on
               ? federation->epoch.learning_rate
               : tern_rate_for(&config->train.rate, federation->machine.committed + 1,
                               config->round.rounds, decays);
}

static void fill_codecs(const struct tern_federation *federation, struct tern_db_round *row)
{
    const struct tern_federation_config *config = &federation->config;
    const bool early = federation->machine.committed < config->early.rounds;
    const struct tern_codec *down = early ? &config->early.down : &config->downloads.codec;
    const struct tern_codec *up = early ? &config->early.up : tern_epoch_codec(federation);
    tern_codec_format(up, row->codec_up);
    tern_codec_format(down, row->codec_down);
}

// What the round trains and merges with, kept in its row: from here on the configuration does not
// matter to it.
static void fill_row(struct tern_federation *federation)
{
    const struct tern_federation_config *config = &federation->config;
    const struct tern_round_machine *machine = &federation->machine;
    struct tern_db_round *row = &federation->row;
    char previous[TERN_DB_STRATEGY_MAX];
    memcpy(previous, row->strategy, sizeof previous);
    memset(row, 0, sizeof *row);
    row->round = machine->round;
    row->state = TERN_ROUND_OPEN;
    row->base_version = federation->merge.version;
    row->target = machine->target;
    row->quorum = machine->quorum;
    row->attempts = machine->attempts;
    row->opened_ms = machine->opened_ms;
    row->deadline_ms = machine->deadline_ms;
    row->averaged = average_divisor(federation);
    fill_codecs(federation, row);
    row->decays = tern_rate_decays(&config->train.rate, &federation->rate, machine->committed,
                                   machine->losses.since_lowest);
    row->learning_rate = learning_rate_of(federation, row->decays);
    tern_rate_opened(&federation->rate, row->decays);
    tern_strategy_open(federation, previous);
}

// How many to invite where `count` clients could be. As a share of them it is at most what the strategy
// can merge.
static uint32_t cohort_of(const struct tern_federation *federation, uint32_t count)
{
    const struct tern_federation_config *config = &federation->config;
    uint32_t most = tern_strategy_cohort_max(config, federation->merge.model.count);
    uint32_t cohort = tern_cohort_target(config->round.cohort, config->round.fraction, count);
    return cohort > most && most >= config->round.cohort ? most : cohort;
}

// Fills clients.eligible with those to draw from. Rounds count on clients that are absent only where
// their quorum could not be met without.
static uint32_t list_drawn(struct tern_federation *federation, uint64_t now)
{
    struct tern_round_policy *policy = &federation->machine.policy;
    const uint32_t eligible = tern_clients_eligible(federation, now);
    policy->cohort = cohort_of(federation, eligible);
    const uint32_t quorum = tern_round_quorum(policy);
    const uint32_t present = tern_clients_present(federation, now);
    return present >= (quorum < eligible ? quorum : eligible)
               ? present
               : tern_clients_eligible(federation, now);
}

// Leaves those of clients.eligible[0..count) that are not members yet; returns how many.
static uint32_t keep_fresh(struct tern_federation *federation, uint32_t count)
{
    uint32_t fresh = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (tern_round_member(&federation->machine, federation->clients.eligible[i]) == NULL) {
            federation->clients.eligible[fresh++] = federation->clients.eligible[i];
        }
    }
    return fresh;
}

// Places that are left are for clients that are absent, should they come: nobody waits for them.
static enum tern_result invite_absent(struct tern_federation *federation, uint64_t now)
{
    struct tern_round_machine *machine = &federation->machine;
    const struct tern_round_policy *policy = &machine->policy;
    const uint32_t count = tern_clients_eligible(federation, now);
    const uint32_t size = tern_cohort_size(policy->cohort, policy->over_selection, count);
    if (federation->config.selection != TERN_SELECTION_RANDOM || tern_budgets_matter(federation)) {
        return TERN_OK;
    }
    for (uint32_t i = 0; i < count && machine->member_count < size; i++) {
        const struct tern_member member = {.client = federation->clients.eligible[i],
                                           .invited_ms = now};
        if (tern_round_member(machine, member.client) == NULL) {
            TERN_TRY(tern_round_restore_member(machine, &member));
        }
    }
    return TERN_OK;
}

// Some of those that rounds do not count on are asked as well, and nobody waits for them. As if invited after
// the others: none of them leads a round.
static enum tern_result invite_unreliable(struct tern_federation *federation, uint64_t now)
{
    struct tern_round_machine *machine = &federation->machine;
    uint64_t *ids = federation->clients.eligible;
    uint32_t places = tern_unreliable_places(machine->target);
    if (federation->clients.unreliable == 0) {
        return TERN_OK;
    }
    uint32_t count = keep_fresh(federation, tern_clients_unreliable(federation, now));
    count = tern_choose_eligible(federation, count, machine->round, 1, places, 0, now);
    places = places < count ? places : count;
    tern_cohort_sample(machine->policy.seed, machine->round, 0, ids, count, places);
    for (uint32_t i = 0; i < places; i++) {
        const struct tern_member member = {.client = ids[i], .invited_ms = now + 1};
        TERN_TRY(tern_round_restore_member(machine, &member));
    }
    return TERN_OK;
}

// Waits for as many updates as the new round has reliable members, and at least for the quorum. Unreliable members were
// drawn only of necessity: each counts as late until it reports.
static void want_no_unreliable(struct tern_federation *federation)
{
    struct tern_round_machine *machine = &federation->machine;
    uint32_t reliable = 0;
    for (uint32_t i = 0; i < machine->member_count; i++) {
        const struct client *client = client_of(federation, machine->members[i].client);
        reliable += !tern_is_unreliable(client->row.unreported);
    }
    if (reliable < machine->member_count && !machine->buffers &&
        tern_round_want(machine, reliable)) {
        tern_log(TERN_LOG_INFO, "round-wants-fewer", "round=%u wanted=%u unreliable=%u",
                 machine->round, machine->target, machine->member_count - reliable);
    }
}

// Those who are drawn for the next round, in clients.eligible; returns how many.
static uint32_t draw(struct tern_federation *federation, uint64_t now)
{
    struct tern_round_policy *policy = &federation->machine.policy;
    const uint32_t count = list_drawn(federation, now);
    const uint32_t wanted = tern_cohort_size(policy->cohort, policy->over_selection, count);
    return tern_choose_eligible(federation, count, federation->machine.round + 1, 1, wanted,
                                tern_round_quorum(policy), now);
}

static void log_early_end(const struct epoch *epoch, uint32_t round)
{
    tern_log(TERN_LOG_WARN, "epoch-ended-early", "round=%u began=%u rounds=%u advice=%s", round,
             epoch->anchor, epoch->step,
             TERN_LOG_TEXT("the clients that hold its full gradient do not come"));
}

// Where nobody is left who could go on with an epoch, the next one begins from the model as it is.
static uint32_t draw_for_epoch(struct tern_federation *federation, uint64_t now)
{
    tern_epoch_plan(federation);
    const uint32_t count = draw(federation, now);
    if (count > 0 || federation->epoch.step == 0 || tern_clients_drawable(federation, now) > 0) {
        return count;
    }
    const struct epoch before = federation->epoch;
    tern_epoch_begin(federation);
    const uint32_t others = draw(federation, now);
    if (others > 0) {
        log_early_end(&before, federation->machine.round + 1);
    }
    return others;
}

static enum tern_result open_round(struct tern_federation *federation, uint64_t now)
{
    uint32_t count = 0;
    bool settled = false;
    federation->retry_open_ms = now + RETRY_OPEN_MS;
    federation->too_few = tern_clients_trainers(federation, now) < federation->config.min_clients;
    if (!federation->too_few) {
        TERN_TRY(tern_statistics_settle(federation, now, &settled));
    }
    if (settled) {
        count = draw_for_epoch(federation, now);
    }
    if (count == 0) {
        return TERN_OK;
    }
    TERN_TRY(tern_round_open(&federation->machine, federation->clients.eligible, count, now));
    want_no_unreliable(federation);
    TERN_TRY(invite_absent(federation, now));
    TERN_TRY(invite_unreliable(federation, now));
    return tern_advance_opened(federation, now);
}

enum tern_result tern_advance_opened(struct tern_federation *federation, uint64_t now)
{
    fill_row(federation);
    TERN_TRY(tern_db_round_put(federation->db, &federation->row));
    TERN_TRY(tern_members_store_all(federation));
    federation->look_ms = next_look(federation, now);
    federation->moved = true;
    tern_log(TERN_LOG_INFO, "round-opened", "round=%u version=%u invited=%u wanted=%u quorum=%u",
             federation->row.round, federation->row.base_version, federation->machine.member_count,
             federation->row.target, federation->row.quorum);
    return TERN_OK;
}

// --- Replacing members

// Fills federation->clients.eligible with those that are not members yet, ascending, for `need`
// members: rather such that are not absent, and unreliable ones only where there is nobody else.
static uint32_t list_fresh(struct tern_federation *federation, uint32_t need, uint64_t now)
{
    uint32_t fresh = keep_fresh(federation, tern_clients_present(federation, now));
    if (fresh == 0) {
        fresh = keep_fresh(federation, tern_clients_eligible(federation, now));
    }
    if (fresh == 0) {
        fresh = keep_fresh(federation, tern_clients_drawable(federation, now));
    }
    const struct tern_round_machine *machine = &federation->machine;
    uint32_t missing =
        machine->quorum > machine->reported ? machine->quorum - machine->reported : 0;
    return tern_choose_eligible(federation, fresh, machine->round, machine->attempts + 1, need,
                                missing, now);
}

static enum tern_result store_replacements(struct tern_federation *federation, uint64_t now)
{
    federation->look_ms = next_look(federation, now);
    federation->row.deadline_ms = federation->machine.deadline_ms;
    federation->row.attempts = federation->machine.attempts;
    federation->moved = true;
    TERN_TRY(tern_db_round_put(federation->db, &federation->row));
    return tern_members_store_all(federation);
}

// Whom the round has waited for until its deadline: the first of them.
static void log_silent(const struct tern_round_machine *machine)
{
    char ids[160] = "";
    size_t used = 0;
    for (uint32_t i = 0; i < machine->member_count && used + 24 < sizeof ids; i++) {
        const struct tern_member *member = &machine->members[i];
        if (member->state == TERN_MEMBER_INVITED || member->state == TERN_MEMBER_TASKED) {
            used += (size_t)snprintf(ids + used, sizeof ids - used, "%s%llu", used > 0 ? "," : "",
                                     (unsigned long long)member->client);
        }
    }
    tern_log(TERN_LOG_WARN, "round-waits", "round=%u updates=%u quorum=%u silent=%s",
             machine->round, machine->reported, machine->quorum, TERN_LOG_TEXT(ids));
}

// Invited, not seen since, and late; nobody could come before the service was there.
static bool is_silent(const struct tern_federation *federation, const struct tern_member *member,
                      uint64_t now)
{
    const struct client *client = client_of(federation, member->client);
    if (member->state != TERN_MEMBER_INVITED || client == NULL || client->waiting ||
        client->row.last_seen_ms >=
            member->invited_ms + (client->row.last_seen_ms <= client->row.created_ms)) {
        return false;
    }
    const uint64_t since =
        member->invited_ms > federation->loaded_ms ? member->invited_ms : federation->loaded_ms;
    return now >= since + tern_clients_patience_ms(federation) ||
           !tern_clients_came(federation, client, now);
}

// None of them is drawn again before it has come. Returns how many there are.
static uint32_t note_silent(struct tern_federation *federation, uint64_t now)
{
    const struct tern_round_machine *machine = &federation->machine;
    uint32_t count = 0;
    for (uint32_t i = 0; i < machine->member_count; i++) {
        if (is_silent(federation, &machine->members[i], now)) {
            client_of(federation, machine->members[i].client)->absent_ms = now;
            count++;
        }
    }
    return count;
}

// The open round begins an epoch, or is one of another strategy by now, instead of going on with an epoch that nobody comes for any more, where others could: no
// update of it is in, and what a member still sends for its task of before is refused. Returns how many are drawn anew.
static uint32_t begin_epoch_anew(struct tern_federation *federation, uint64_t now)
{
    struct tern_round_machine *machine = &federation->machine;
    struct tern_db_round *row = &federation->row;
    const struct epoch before = federation->epoch;
    if (before.step == 0 || machine->reported > 0) {
        return 0;
    }
    const uint32_t hold_it = tern_clients_drawable(federation, now);
    tern_epoch_begin(federation);
    if (tern_clients_drawable(federation, now) <= hold_it) {
        federation->epoch = before;
        return 0;
    }
    for (uint32_t i = 0; i < machine->member_count; i++) {
        tern_round_untasked(&machine->members[i]);
    }
    tern_codec_format(tern_epoch_codec(federation), row->codec_up);
    row->learning_rate = learning_rate_of(federation, row->decays);
    tern_strategy_open(federation, row->strategy);
    log_early_end(&before, row->round);
    machine->policy.cohort = cohort_of(federation, tern_clients_drawable(federation, now));
    const uint32_t members = tern_round_gone(machine, NULL, NULL);
    const uint32_t fresh = list_fresh(federation, members, now);
    tern_round_want_anew(machine, members + fresh);
    row->target = machine->target;
    row->quorum = machine->quorum;
    return fresh;
}

// At a deadline of a round that goes on with an epoch, nobody else can take the place of who does not come: it is
// committed with the updates that it has.
static bool ends_with_what_came(struct tern_federation *federation)
{
    struct tern_round_machine *machine = &federation->machine;
    if (federation->epoch.step == 0 || machine->reported == 0) {
        return false;
    }
    tern_log(TERN_LOG_WARN, "round-below-quorum", "round=%u updates=%u quorum=%u advice=%s",
             machine->round, machine->reported, machine->quorum,
             TERN_LOG_TEXT("the other clients that hold the epoch's full gradient do not come"));
    machine->quorum = machine->reported;
    federation->row.quorum = machine->quorum;
    return true;
}

static enum tern_result extend_round(struct tern_federation *federation, uint64_t now)
{
    struct tern_round_machine *machine = &federation->machine;
    tern_log_set_request(0); // a deadline passes by itself
    note_silent(federation, now);
    TERN_TRY(tern_reliability_round_ends(federation, now));
    uint32_t fresh = list_fresh(federation, tern_round_gone(machine, NULL, NULL), now);
    log_silent(machine);
    if (fresh == 0 && ends_with_what_came(federation)) {
        tern_closing_decide(federation);
        return tern_db_round_put(federation->db, &federation->row);
    }
    fresh = fresh > 0 ? fresh : begin_epoch_anew(federation, now);
    TERN_TRY(tern_round_extend(machine, federation->clients.eligible, fresh, now));
    TERN_TRY(store_replacements(federation, now));
    tern_refusals_draw_ended(federation, false);
    tern_log(TERN_LOG_WARN, "round-extended", "round=%u updates=%u quorum=%u invited=%u",
             machine->round, machine->reported, machine->quorum, machine->member_count);
    return TERN_OK;
}

// A client without the federation's scaling of columns has no task.
static bool does_not_scale(const struct tern_federation *federation,
                           const struct tern_member *member)
{
    return member->state == TERN_MEMBER_INVITED &&
           tern_statistics_lacks(client_of(federation, member->client));
}

// Nor has one that does not hold any more what the round builds on.
static bool lacks_anchor(const struct tern_federation *federation, const struct tern_member *member)
{
    return (member->state == TERN_MEMBER_INVITED || member->state == TERN_MEMBER_TASKED) &&
           !tern_epoch_admits(federation, &client_of(federation, member->client)->row);
}

// A revoked member never reports, and one that does not even come for its task, does not scale its columns, or has
// had its task for several times as long as the others took, most likely will not either.
static bool is_gone(const struct tern_federation *federation, const struct tern_pace *pace,
                    const struct tern_member *member, uint64_t now)
{
    const struct client *client = client_of(federation, member->client);
    return client->row.revoked || does_not_scale(federation, member) ||
           lacks_anchor(federation, member) ||
           (!tern_is_unreliable(client->row.unreported) &&
            (is_silent(federation, member, now) ||
             tern_reliability_has_failed(federation, member) ||
             tern_reliability_is_overdue(federation, pace, member, now)));
}

// Notes of each member whether it is gone. Returns how many of those that are awaited are revoked.
static uint32_t note_gone(struct tern_federation *federation, uint64_t now)
{
    const struct tern_round_machine *machine = &federation->machine;
    struct tern_pace pace;
    uint32_t revoked = 0;
    tern_reliability_pace(federation, &pace);
    for (uint32_t i = 0; i < machine->member_count; i++) {
        const struct tern_member *member = &machine->members[i];
        struct client *client = client_of(federation, member->client);
        client->gone = is_gone(federation, &pace, member, now);
        revoked += client->row.revoked &&
                   (member->state == TERN_MEMBER_INVITED || member->state == TERN_MEMBER_TASKED);
    }
    return revoked;
}

static bool was_gone(const void *ctx, uint64_t id)
{
    const struct client *client = client_of(ctx, id);
    return client != NULL && client->gone;
}

// Members that were replaced just now, which were gone at this look alone: those that had a task let it pass.
static enum tern_result note_missed(struct tern_federation *federation, uint32_t *missed)
{
    const struct tern_round_machine *machine = &federation->machine;
    *missed = 0;
    for (uint32_t i = 0; i < machine->member_count; i++) {
        const struct tern_member *member = &machine->members[i];
        const struct client *client = client_of(federation, member->client);
        if (client->gone && member->state == TERN_MEMBER_REPLACED && member->tasked_ms != 0 &&
            !client->row.revoked) {
            TERN_TRY(tern_tries_are_over(member->tries) ||
                             client->row.failed_round == machine->round
                         ? TERN_OK // that counted when it came again, or reported its failure
                         : tern_reliability_missed(federation, member->client));
            (*missed)++;
        }
    }
    return TERN_OK;
}

// Whether the round may end without the member's update, though nobody takes its place.
static bool is_given_up(const struct tern_federation *federation, const struct tern_member *member)
{
    return tern_reliability_is_given_up(federation, member) ||
           tern_reliability_has_failed(federation, member) || does_not_scale(federation, member) ||
           lacks_anchor(federation, member);
}

// Whether the round still counts on the member's update, or has it.
static bool is_counted_on(const struct tern_federation *federation,
                          const struct tern_member *member, uint64_t now)
{
    const struct client *client = client_of(federation, member->client);
    const bool awaited =
        member->state == TERN_MEMBER_INVITED || member->state == TERN_MEMBER_TASKED;
    return member->state == TERN_MEMBER_REPORTED ||
           (awaited && !is_given_up(federation, member) &&
            !tern_is_unreliable(client->row.unreported) && !tern_clients_is_absent(client, now));
}

// Where members lost what the round builds on and nobody can take their place, it needs no more than the others.
static void need_fewer(struct tern_federation *federation)
{
    struct tern_round_machine *machine = &federation->machine;
    uint32_t able = 0;
    for (uint32_t i = 0; i < machine->member_count; i++) {
        const struct tern_member *member = &machine->members[i];
        able += member->state != TERN_MEMBER_REPLACED && !lacks_anchor(federation, member) &&
                (member->state == TERN_MEMBER_REPORTED ||
                 !client_of(federation, member->client)->row.revoked);
    }
    if (able > 0 && able < machine->quorum) {
        machine->quorum = able;
        federation->row.quorum = able;
    }
}

// Updates that the round has, or still counts on.
static uint32_t count_others(const struct tern_federation *federation, uint64_t now)
{
    const struct tern_round_machine *machine = &federation->machine;
    uint32_t others = 0;
    for (uint32_t i = 0; i < machine->member_count; i++) {
        others += is_counted_on(federation, &machine->members[i], now);
    }
    return others;
}

// Members whose training failed are not needed for the quorum where the others are half of the cohort: nothing but
// luck or a new setting would make them report. Each lowers it by one: clients that are away are waited for.
static void need_no_failed(struct tern_federation *federation, uint64_t now)
{
    struct tern_round_machine *machine = &federation->machine;
    const uint32_t members = machine->member_count;
    const uint32_t cohort = members < machine->policy.cohort ? members : machine->policy.cohort;
    const uint32_t others = count_others(federation, now);
    uint32_t failed = 0;
    for (uint32_t i = 0; i < machine->member_count; i++) {
        failed += tern_reliability_has_failed(federation, &machine->members[i]);
    }
    if (others < machine->quorum && others + failed >= machine->quorum_first &&
        others >= cohort / 2 + cohort % 2) {
        tern_log(TERN_LOG_WARN, "round-needs-fewer", "round=%u quorum=%u before=%u failed=%u",
                 machine->round, others, machine->quorum, failed);
        machine->quorum = others;
        federation->row.quorum = others;
    }
}

// Where the round can do without them, members whose training failed have no task of it any more.
static void drop_failed(struct tern_federation *federation, uint64_t now)
{
    struct tern_round_machine *machine = &federation->machine;
    need_no_failed(federation, now);
    const bool spares = count_others(federation, now) >= machine->quorum;
    for (uint32_t i = 0; i < machine->member_count && spares; i++) {
        if (tern_reliability_has_failed(federation, &machine->members[i])) {
            tern_round_drop(&machine->members[i]);
        }
    }
}

// A round that gives members up waits for the others alone, where they are enough for its quorum. One that
// buffers has updates of earlier rounds' members, too.
static enum tern_result want_fewer(struct tern_federation *federation, uint64_t now)
{
    struct tern_round_machine *machine = &federation->machine;
    const uint32_t others = count_others(federation, now);
    uint32_t given_up = 0;
    for (uint32_t i = 0; i < machine->member_count; i++) {
        given_up += is_given_up(federation, &machine->members[i]);
    }
    if (federation->epoch.step > 0) {
        need_fewer(federation);
    }
    if (given_up == 0 || machine->buffers || !tern_round_want(machine, others)) {
        return TERN_OK;
    }
    federation->row.target = machine->target;
    tern_log(TERN_LOG_WARN, "round-wants-fewer", "round=%u wanted=%u given_up=%u", machine->round,
             machine->target, given_up);
    return tern_db_round_put(federation->db, &federation->row);
}

// The round need not wait for its deadline to invite others in place of those that are gone. While nobody can
// take the place of a revoked one, the next batch looks again.
static enum tern_result replace_gone(struct tern_federation *federation, uint64_t now)
{
    struct tern_round_machine *machine = &federation->machine;
    uint32_t missed = 0;
    if (!machine->open || (!federation->clients.changed && now < federation->look_ms)) {
        return TERN_OK;
    }
    federation->look_ms = next_look(federation, now);
    drop_failed(federation, now);
    const uint32_t silent = note_silent(federation, now);
    const uint32_t revoked = note_gone(federation, now);
    const uint32_t count = tern_round_gone(machine, was_gone, federation);
    const uint32_t fresh = count > 0 ? list_fresh(federation, count, now) : 0;
    federation->clients.changed = revoked > 0 && count > fresh;
    if (fresh == 0) {
        return want_fewer(federation, now);
    }
    TERN_TRY(tern_round_replace(machine, was_gone, federation, federation->clients.eligible, fresh,
                                now));
    TERN_TRY(note_missed(federation, &missed));
    TERN_TRY(store_replacements(federation, now));
    tern_log(TERN_LOG_INFO, "members-replaced", "round=%u members=%u silent=%u overdue=%u",
             machine->round, count < fresh ? count : fresh, silent, missed);
    return want_fewer(federation, now);
}

// --- All together

static bool may_open(const struct tern_federation *federation, uint64_t now)
{
    const struct tern_round_machine *machine = &federation->machine;
    return !machine->open && !tern_round_finished(machine) && tern_follow_may_open(federation) &&
           tern_round_may_open_ms(machine) <= now;
}

static enum tern_result step(struct tern_federation *federation, uint64_t now)
{
    TERN_TRY(replace_gone(federation, now));
    switch (tern_round_tick(&federation->machine, now)) {
    case TERN_ROUND_CLOSE:
        tern_closing_decide(federation);
        break;
    case TERN_ROUND_EXTEND:
        return extend_round(federation, now);
    case TERN_ROUND_NOTHING:
        break;
    }
    return TERN_OK;
}

enum tern_result tern_federation_advance(struct tern_federation *federation, uint64_t now)
{
    TERN_TRY(tern_history_drop(federation));
    TERN_TRY(tern_history_go_on(federation));
    if (!tern_federation_is_merging(federation) && !federation->checkpoint_due) {
        TERN_TRY(step(federation, now));
    }
    TERN_TRY(tern_closing_commit(federation, now));
    if (tern_federation_is_merging(federation)) {
        return TERN_OK;
    }
    if (may_open(federation, now)) {
        TERN_TRY(open_round(federation, now));
    }
    tern_share_watch(federation, now);
    return TERN_OK;
}

uint64_t tern_federation_next_advance(const struct tern_federation *federation)
{
    const struct tern_round_machine *machine = &federation->machine;
    if (federation->prune_due || federation->checkpoint_due || tern_closing_is_made(federation)) {
        return 0;
    }
    if (tern_federation_is_merging(federation)) {
        return UINT64_MAX;
    }
    if (!machine->open && !tern_follow_may_open(federation)) {
        return UINT64_MAX; // until it is said
    }
    uint64_t next = tern_round_next_tick(machine);
    if (!machine->open && next < federation->retry_open_ms) {
        next = federation->retry_open_ms;
    }
    if (machine->open && federation->look_ms < next) {
        next = federation->look_ms;
    }
    if (federation->indices.awaited && tern_round_leader_until_ms(machine) < next) {
        next = tern_round_leader_until_ms(machine);
    }
    return next;
}
