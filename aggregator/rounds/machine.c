#include "rounds/machine.h"

#include "rounds/selection.h"
#include "util/prng.h"
#include <string.h>

// The newest round has the weight 1/LENGTH_SHARE in the smoothed length of rounds: 1/4 follows a change within a few
// rounds.
#define LENGTH_SHARE 4

void tern_round_init(struct tern_round_machine *machine, const struct tern_round_policy *policy,
                     struct tern_member *members, uint32_t capacity)
{
    memset(machine, 0, sizeof *machine);
    machine->policy = *policy;
    machine->members = members;
    machine->member_capacity = capacity;
}

bool tern_round_finished(const struct tern_round_machine *machine)
{
    return machine->losses.ending != TERN_ENDING_NONE ||
           (machine->policy.rounds != 0 && machine->committed >= machine->policy.rounds);
}

void tern_round_add_loss(struct tern_round_machine *machine, uint32_t base_version, float loss)
{
    tern_losses_add(&machine->losses, &machine->policy.ending, base_version, loss);
}

uint64_t tern_round_earliest_open_ms(const struct tern_round_machine *machine)
{
    if (machine->round == 0) {
        return 0;
    }
    return machine->opened_ms + machine->policy.min_interval_ms;
}

// Returns the index of the first member whose id is at least `client`.
static uint32_t member_index(const struct tern_round_machine *machine, uint64_t client)
{
    uint32_t low = 0;
    uint32_t high = machine->member_count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (machine->members[middle].client < client) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

struct tern_member *tern_round_member(const struct tern_round_machine *machine, uint64_t client)
{
    uint32_t index = member_index(machine, client);
    if (index < machine->member_count && machine->members[index].client == client) {
        return &machine->members[index];
    }
    return NULL;
}

enum tern_result tern_round_restore_member(struct tern_round_machine *machine,
                                           const struct tern_member *member)
{
    uint32_t index = member_index(machine, member->client);
    if (index < machine->member_count && machine->members[index].client == member->client) {
        return TERN_ERR_CONFLICT;
    }
    if (machine->member_count == machine->member_capacity) {
        return TERN_ERR_NO_SPACE;
    }
    struct tern_member *at = &machine->members[index];
    memmove(at + 1, at, (machine->member_count - index) * sizeof *at);
    *at = *member;
    machine->member_count++;
    machine->reported += member->state == TERN_MEMBER_REPORTED;
    return TERN_OK;
}

static enum tern_result invite(struct tern_round_machine *machine, uint64_t client, uint64_t now)
{
    struct tern_member member = {.client = client, .invited_ms = now};
    return tern_round_restore_member(machine, &member);
}

static uint32_t smaller(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

static uint64_t smaller_ms(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

uint32_t tern_round_quorum(const struct tern_round_policy *policy)
{
    return policy->quorum != 0 ? policy->quorum : policy->cohort / 2 + policy->cohort % 2;
}

// Returns the quorum of a round with this target. Without a configured quorum, it is half of the target, not of the
// cohort: in a small federation half a cohort is every client, and one silent client would block all rounds.
static uint32_t quorum_of(const struct tern_round_policy *policy, uint32_t target)
{
    const uint32_t most = policy->quorum != 0 ? target : target / 2 + target % 2;
    const uint32_t quorum = smaller(tern_round_quorum(policy), most);
    return quorum > policy->quorum_least ? quorum : policy->quorum_least;
}

enum tern_result tern_round_open(struct tern_round_machine *machine, uint64_t *eligible,
                                 uint32_t count, uint64_t now)
{
    const struct tern_round_policy *policy = &machine->policy;
    if (machine->open || tern_round_finished(machine)) {
        return TERN_ERR_STATE;
    }
    if (count == 0) {
        return TERN_ERR_ARGUMENT;
    }
    uint32_t size = tern_cohort_size(policy->cohort, policy->over_selection, count);
    if (size > machine->member_capacity) {
        return TERN_ERR_NO_SPACE;
    }
    machine->round++;
    machine->open = true;
    machine->target = smaller(policy->cohort, size);
    machine->quorum = quorum_of(policy, machine->target);
    machine->initial_quorum = machine->quorum;
    machine->attempts = 1;
    machine->opened_ms = now;
    machine->deadline_ms = now + policy->deadline_ms;
    machine->member_count = 0;
    machine->reported = 0;
    tern_cohort_sample(policy->seed, machine->round, machine->attempts, eligible, count, size);
    for (uint32_t i = 0; i < size; i++) {
        TERN_TRY(invite(machine, eligible[i], now));
    }
    return TERN_OK;
}

void tern_round_restore(struct tern_round_machine *machine, uint32_t round, uint32_t target,
                        uint32_t quorum, uint32_t attempts, uint64_t opened_ms,
                        uint64_t deadline_ms)
{
    machine->round = round;
    machine->open = true;
    machine->target = target;
    machine->quorum = quorum;
    machine->initial_quorum = quorum;
    machine->attempts = attempts;
    machine->opened_ms = opened_ms;
    machine->deadline_ms = deadline_ms;
    machine->member_count = 0;
    machine->reported = 0;
}

// --- When idle clients check in again: seldom, and not all at once

// If the length of a wait is unknown, a client returns after a fraction (1/SHARE) of the time waited so far. So it
// checks in less and less often, and its absence prolongs the wait by that fraction at most. The fraction is smaller
// during a round, because the next round may select the client at once.
#define OVERDUE_SHARE 4 // while the open round is past its deadline and waits for members
#define ENROL_SHARE 2   // while too few clients have enrolled
#define OPEN_SHARE 8    // while the open round is before its deadline

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static uint64_t since(uint64_t then, uint64_t now)
{
    return now > then ? now - then : 0;
}

static uint64_t clamp_wait(const struct tern_round_policy *policy, uint64_t wait)
{
    wait = larger(wait, policy->come_back_min_ms);
    return wait > policy->come_back_max_ms ? policy->come_back_max_ms : wait;
}

// Returns when the open round will probably end. For a first round, or a round that takes longer than usual, this is a
// guess: clients return after twice the round's time so far, or half-way to its deadline, so that a round that is a
// second late does not send all clients away for minutes. Past the deadline, the end is unknown.
static uint64_t expected_end(const struct tern_round_machine *machine, uint64_t now)
{
    uint64_t usual_end = machine->opened_ms + machine->typical_ms;
    if (machine->typical_ms != 0 && usual_end > now && usual_end < machine->deadline_ms) {
        return usual_end;
    }
    if (machine->deadline_ms <= now) {
        return now;
    }
    const uint64_t taken = since(machine->opened_ms, now);
    if (taken >= machine->policy.deadline_ms) {
        return now + taken / OVERDUE_SHARE;
    }
    const uint64_t half = (machine->deadline_ms - now) / 2;
    const uint64_t longest = larger(taken, machine->typical_ms);
    return now + larger(longest < half ? longest : half, taken / OPEN_SHARE);
}

// Returns the wait, lengthened by up to an eighth that depends on the client, at most come_back_max_ms. Never shortens
// the wait, because a client that returns too early must return twice.
static uint64_t spread_out(const struct tern_round_machine *machine, uint64_t client, uint64_t wait)
{
    const struct tern_round_policy *policy = &machine->policy;
    struct tern_prng rng;
    tern_prng_init(&rng, policy->seed, TERN_PRNG_BACKOFF, (uint32_t)client, machine->round);
    const uint32_t spread = wait / 8 > UINT32_MAX - 1 ? UINT32_MAX - 1 : (uint32_t)(wait / 8);
    const uint64_t more = tern_prng_below(&rng, spread + 1);
    const uint64_t longest = policy->come_back_max_ms;
    return clamp_wait(policy, wait + more <= longest ? wait + more : longest - more);
}

static uint64_t come_back(const struct tern_round_machine *machine, uint64_t client, uint64_t now)
{
    const struct tern_round_policy *policy = &machine->policy;
    uint64_t at = tern_round_earliest_open_ms(machine);
    if (machine->open) {
        uint64_t end = expected_end(machine, now);
        at = larger(end, at);
    } else if (at <= now) {
        // The next round waits an unknown time for more clients to enrol.
        at = now + larger(10 * policy->come_back_min_ms,
                          since(machine->last_change_ms, now) / ENROL_SHARE);
    }
    uint64_t wait = clamp_wait(policy, since(now, at));
    return spread_out(machine, client, wait);
}

// --- Events

enum tern_checkin_action tern_round_checkin(const struct tern_round_machine *machine,
                                            uint64_t client, uint64_t now, uint64_t *come_back_ms)
{
    if (tern_round_finished(machine)) {
        return TERN_CHECKIN_FINISHED;
    }
    if (machine->open) {
        const struct tern_member *member = tern_round_member(machine, client);
        if (member != NULL && member->state != TERN_MEMBER_REPORTED && !member->dropped) {
            return TERN_CHECKIN_TASK;
        }
    }
    *come_back_ms = come_back(machine, client, now);
    return TERN_CHECKIN_WAIT;
}

void tern_round_assign_task(struct tern_member *member, uint32_t local_steps, uint64_t now)
{
    member->state = TERN_MEMBER_TASKED;
    member->local_steps = local_steps;
    member->tries = 1;
    member->tasked_ms = now;
}

void tern_round_drop_member(struct tern_member *member)
{
    member->dropped = true;
}

void tern_round_withdraw_task(struct tern_member *member)
{
    if (member->state == TERN_MEMBER_TASKED) {
        member->state = TERN_MEMBER_INVITED;
    }
    if (member->state != TERN_MEMBER_REPORTED) {
        member->local_steps = 0;
        member->tries = 0;
        member->tasked_ms = 0;
    }
}

enum tern_result tern_round_check_update(const struct tern_round_machine *machine, uint64_t client,
                                         uint32_t round)
{
    if (round == 0 || round > machine->round) {
        return TERN_ERR_UNKNOWN_ROUND;
    }
    if (round < machine->round || !machine->open) {
        return TERN_ERR_LATE;
    }
    const struct tern_member *member = tern_round_member(machine, client);
    if (member == NULL) {
        return TERN_ERR_NOT_IN_COHORT;
    }
    if (member->state == TERN_MEMBER_REPORTED) {
        return TERN_ERR_CONFLICT;
    }
    // A member without a task cannot have trained.
    return member->local_steps == 0 ? TERN_ERR_NOT_IN_COHORT : TERN_OK;
}

void tern_round_record_report(struct tern_round_machine *machine, struct tern_member *member,
                              uint64_t now)
{
    member->state = TERN_MEMBER_REPORTED;
    member->reported_ms = now;
    machine->reported++;
}

void tern_round_add_late_updates(struct tern_round_machine *machine, uint32_t updates)
{
    machine->reported += updates;
}

enum tern_round_action tern_round_tick(const struct tern_round_machine *machine, uint64_t now)
{
    if (!machine->open) {
        return TERN_ROUND_NOTHING;
    }
    if (machine->reported >= machine->target) {
        return TERN_ROUND_CLOSE;
    }
    if (now < machine->deadline_ms) {
        return TERN_ROUND_NOTHING;
    }
    return machine->reported >= machine->quorum ? TERN_ROUND_CLOSE : TERN_ROUND_EXTEND;
}

// Whether the member has not reported and filter() holds for its client. filter NULL: whether the member has not
// reported.
static bool is_missing(const struct tern_member *member, tern_member_filter filter, const void *ctx)
{
    bool waiting = member->state == TERN_MEMBER_INVITED || member->state == TERN_MEMBER_TASKED;
    return waiting && (filter == NULL || filter(ctx, member->client));
}

uint32_t tern_round_count_missing(const struct tern_round_machine *machine,
                                  tern_member_filter filter, const void *ctx)
{
    uint32_t missing = 0;
    for (uint32_t i = 0; i < machine->member_count; i++) {
        missing += is_missing(&machine->members[i], filter, ctx);
    }
    return missing;
}

// Replaces the first `replace` of the missing members, of whom there are at least as many.
static enum tern_result replace_first(struct tern_round_machine *machine, tern_member_filter filter,
                                      const void *ctx, uint64_t *candidates, uint32_t count,
                                      uint32_t replace, uint64_t now)
{
    if (replace > machine->member_capacity - machine->member_count) {
        return TERN_ERR_NO_SPACE;
    }
    machine->attempts++;
    uint32_t left = replace;
    for (uint32_t i = 0; i < machine->member_count && left > 0; i++) {
        if (is_missing(&machine->members[i], filter, ctx)) {
            machine->members[i].state = TERN_MEMBER_REPLACED;
            left--;
        }
    }
    tern_cohort_sample(machine->policy.seed, machine->round, machine->attempts, candidates, count,
                       replace);
    for (uint32_t i = 0; i < replace; i++) {
        TERN_TRY(invite(machine, candidates[i], now));
    }
    return TERN_OK;
}

enum tern_result tern_round_extend(struct tern_round_machine *machine, uint64_t *candidates,
                                   uint32_t count, uint64_t now)
{
    uint32_t replace = smaller(tern_round_count_missing(machine, NULL, NULL), count);
    TERN_TRY(replace_first(machine, NULL, NULL, candidates, count, replace, now));
    for (uint32_t i = 0; i < machine->member_count; i++) {
        machine->members[i].dropped = false;
    }
    machine->deadline_ms = now + machine->policy.deadline_ms;
    return TERN_OK;
}

enum tern_result tern_round_replace_members(struct tern_round_machine *machine,
                                            tern_member_filter filter, const void *ctx,
                                            uint64_t *candidates, uint32_t count, uint64_t now)
{
    uint32_t replace = smaller(tern_round_count_missing(machine, filter, ctx), count);
    return replace == 0 ? TERN_OK
                        : replace_first(machine, filter, ctx, candidates, count, replace, now);
}

bool tern_round_lower_target(struct tern_round_machine *machine, uint32_t updates)
{
    const uint32_t before = machine->target;
    const uint32_t least = updates > machine->quorum ? updates : machine->quorum;
    machine->target = smaller(before, least);
    return machine->target != before;
}

void tern_round_reset_target(struct tern_round_machine *machine, uint32_t clients)
{
    machine->target = smaller(machine->policy.cohort, clients);
    machine->quorum = quorum_of(&machine->policy, machine->target);
    machine->initial_quorum = machine->quorum;
}

void tern_round_close(struct tern_round_machine *machine, uint64_t now)
{
    uint64_t took = now > machine->opened_ms ? now - machine->opened_ms : 1;
    machine->typical_ms = machine->typical_ms == 0
                              ? took
                              : machine->typical_ms - machine->typical_ms / LENGTH_SHARE +
                                    (took + LENGTH_SHARE - 1) / LENGTH_SHARE;
    machine->open = false;
    machine->committed++;
    machine->last_change_ms = larger(machine->last_change_ms, now);
}

void tern_round_abandon(struct tern_round_machine *machine, uint64_t now)
{
    machine->open = false;
    machine->last_change_ms = larger(machine->last_change_ms, now);
}

void tern_round_client_joined(struct tern_round_machine *machine, uint64_t now)
{
    machine->last_change_ms = larger(machine->last_change_ms, now);
}

// --- Stepped clocks

uint64_t tern_time_shifted_ms(uint64_t ms, int64_t step)
{
    if (ms == 0) { // 0 means "never" and stays
        return 0;
    }
    const uint64_t back = step < 0 ? (uint64_t)-step : 0;
    return step >= 0 ? ms + (uint64_t)step : ms > back ? ms - back : 1;
}

void tern_round_shift_times(struct tern_round_machine *machine, int64_t step)
{
    machine->opened_ms = tern_time_shifted_ms(machine->opened_ms, step);
    machine->deadline_ms = tern_time_shifted_ms(machine->deadline_ms, step);
    machine->last_change_ms = tern_time_shifted_ms(machine->last_change_ms, step);
    for (uint32_t i = 0; i < machine->member_count; i++) {
        struct tern_member *member = &machine->members[i];
        member->invited_ms = tern_time_shifted_ms(member->invited_ms, step);
        member->tasked_ms = tern_time_shifted_ms(member->tasked_ms, step);
        member->reported_ms = tern_time_shifted_ms(member->reported_ms, step);
    }
}

void tern_round_limit_times(struct tern_round_machine *machine, uint64_t now)
{
    const uint64_t latest = now + machine->policy.deadline_ms;
    machine->opened_ms = smaller_ms(machine->opened_ms, now);
    machine->deadline_ms = smaller_ms(machine->deadline_ms, latest);
    machine->last_change_ms = smaller_ms(machine->last_change_ms, now);
    for (uint32_t i = 0; i < machine->member_count; i++) {
        struct tern_member *member = &machine->members[i];
        member->invited_ms = smaller_ms(member->invited_ms, now);
        member->tasked_ms = smaller_ms(member->tasked_ms, now);
        member->reported_ms = smaller_ms(member->reported_ms, now);
    }
}

uint64_t tern_round_next_tick(const struct tern_round_machine *machine)
{
    if (machine->open) {
        return machine->reported >= machine->target ? 0 : machine->deadline_ms;
    }
    return tern_round_finished(machine) ? UINT64_MAX : tern_round_earliest_open_ms(machine);
}

// --- The leader

#define LEADER_SHARE 4 // members wait for the leader for 1/4 of the time to the deadline
#define LEADER_WAIT_CHECKINS                                                                       \
    8 // approximate number of a member's check-ins while it waits for the leader

static bool was_first(const struct tern_round_machine *machine, uint32_t i)
{
    return machine->members[i].invited_ms == machine->opened_ms;
}

uint64_t tern_round_leader(const struct tern_round_machine *machine)
{
    uint32_t first = 0;
    for (uint32_t i = 0; i < machine->member_count; i++) {
        first += was_first(machine, i);
    }
    if (!machine->open || first == 0) {
        return 0;
    }
    uint32_t left = machine->round % first;
    uint32_t i = 0;
    while (!was_first(machine, i) || left-- > 0) {
        i++;
    }
    return machine->members[i].client;
}

uint64_t tern_round_leader_deadline_ms(const struct tern_round_machine *machine)
{
    return machine->opened_ms + (machine->deadline_ms - machine->opened_ms) / LEADER_SHARE;
}

uint64_t tern_round_leader_wait_ms(const struct tern_round_machine *machine, uint64_t now)
{
    uint64_t until = tern_round_leader_deadline_ms(machine);
    uint64_t left = until > now ? until - now : 1;
    uint64_t wait = (until - machine->opened_ms) / LEADER_WAIT_CHECKINS;
    wait = wait > machine->policy.come_back_min_ms ? wait : machine->policy.come_back_min_ms;
    return wait < left ? wait : left;
}
