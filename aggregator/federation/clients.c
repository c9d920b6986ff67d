#include "federation/clients.h"

#include "rounds/reliability.h"
#include "rounds/selection.h"
#include "rounds/spread.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

// --- Clients in memory and in the store

// Limits the memory that a damaged database can demand. limits.clients applies to enrolment only: clients that exist
// already, enrolled under a higher limit or made by the command line, must not stop the service.
#define CLIENTS_MAX 100000000u

enum tern_result tern_clients_reset(struct clients **clients)
{
    if (*clients == NULL) {
        *clients = calloc(1, sizeof **clients);
        return *clients != NULL ? TERN_OK : TERN_ERR_NO_MEMORY;
    }
    free((*clients)->list);
    free((*clients)->eligible);
    free((*clients)->lots);
    memset(*clients, 0, sizeof **clients);
    return TERN_OK;
}

static enum tern_result make_client_room(struct tern_federation *federation, uint64_t id)
{
    if (id > CLIENTS_MAX) {
        return TERN_ERR_TOO_LARGE;
    }
    if (id <= federation->clients->capacity) {
        return TERN_OK;
    }
    uint32_t capacity = federation->clients->capacity == 0 ? 64 : federation->clients->capacity;
    while (capacity < id) {
        capacity *= 2;
    }
    struct client *rows = realloc(federation->clients->list, capacity * sizeof rows[0]);
    if (rows == NULL) {
        return TERN_ERR_NO_MEMORY;
    }
    federation->clients->list = rows;
    memset(rows + federation->clients->capacity, 0,
           (capacity - federation->clients->capacity) * sizeof rows[0]);
    uint64_t *eligible = realloc(federation->clients->eligible, capacity * sizeof eligible[0]);
    if (eligible == NULL) {
        return TERN_ERR_NO_MEMORY;
    }
    federation->clients->eligible = eligible;
    struct tern_tagged_client *lots = realloc(federation->clients->lots, capacity * sizeof lots[0]);
    if (lots == NULL) {
        return TERN_ERR_NO_MEMORY;
    }
    federation->clients->lots = lots;
    struct tern_member *members =
        realloc(federation->machine.members, capacity * sizeof members[0]);
    if (members == NULL) {
        return TERN_ERR_NO_MEMORY;
    }
    federation->machine.members = members;
    federation->machine.member_capacity = capacity;
    federation->clients->capacity = capacity;
    return TERN_OK;
}

enum tern_result tern_clients_put_row(struct tern_federation *federation,
                                      const struct tern_db_client *row)
{
    TERN_TRY(make_client_room(federation, row->id));
    TERN_TRY(federation->ports.admit(federation->ports.ctx, row));
    if (row->id > federation->clients->count) {
        federation->clients->count = (uint32_t)row->id;
    }
    struct client *client = &federation->clients->list[row->id - 1];
    const struct tern_db_client before = client->row;
    federation->clients->changed = true;
    memcpy(client->stored_replica, row->replica, TERN_SHA256_SIZE);
    if (client->dirty) { // newer than the store
        client->row.revoked = row->revoked;
        memcpy(client->row.tags, row->tags, sizeof client->row.tags);
    } else {
        client->row = *row;
    }
    tern_column_names_replace(&federation->clients->column_names,
                              before.revoked ? 0 : before.column_names,
                              client->row.revoked ? 0 : client->row.column_names);
    federation->clients->revoked += client->row.revoked - before.revoked;
    federation->accuracy_is_known &= client->row.revoked == before.revoked;
    federation->clients->evaluators += client->row.evaluator - before.evaluator;
    federation->clients->unreliable +=
        tern_is_unreliable(client->row.unreported) - tern_is_unreliable(before.unreported);
    return TERN_OK;
}

enum tern_result tern_clients_load(struct tern_federation *federation)
{
    struct tern_db_client row;
    struct tern_db_rows *rows = tern_db_clients(federation->db);
    while (tern_db_next(rows, &row)) {
        tern_db_check_row(rows, tern_clients_put_row(federation, &row));
    }
    TERN_TRY(tern_db_end(rows));
    // Removes clients whose enrolment was rolled back: no reply with their tokens was sent.
    federation->ports.dismiss(federation->ports.ctx, (uint64_t)federation->clients->count + 1);
    return TERN_OK;
}

static enum tern_result load_evaluations(struct tern_federation *federation)
{
    for (uint32_t i = 0; i < federation->clients->count; i++) {
        memset(federation->clients->list[i].evaluated, 0,
               sizeof federation->clients->list[i].evaluated);
    }
    struct tern_db_evaluation row;
    struct tern_db_rows *rows = tern_db_evaluations_from(federation->db, 0);
    while (tern_db_next(rows, &row)) {
        struct client *client = client_of(federation, row.client);
        if (client != NULL && row.version > client->evaluated[row.model]) {
            client->evaluated[row.model] = row.version;
        }
    }
    return tern_db_end(rows);
}

static enum tern_result load_schedules(struct tern_federation *federation)
{
    struct tern_db_schedule row;
    struct tern_db_rows *rows = tern_db_schedules(federation->db);
    while (tern_db_next(rows, &row)) {
        struct client *client = client_of(federation, row.client);
        if (client != NULL) {
            client->least_bytes = row.least_bytes;
            client->round_bytes = row.bytes;
        }
    }
    return tern_db_end(rows);
}

enum tern_result tern_clients_load_records(struct tern_federation *federation)
{
    TERN_TRY(load_schedules(federation));
    return load_evaluations(federation);
}

static enum tern_result store_row(struct tern_federation *federation,
                                  const struct tern_db_client *row)
{
    uint8_t *before = client_of(federation, row->id)->stored_replica;
    if (memcmp(before, row->replica, TERN_SHA256_SIZE) != 0) {
        TERN_TRY(tern_db_replica_suspect(federation->db, before, true));
    }
    TERN_TRY(tern_db_client_update(federation->db, row));
    memcpy(before, row->replica, TERN_SHA256_SIZE);
    return TERN_OK;
}

// A row that cannot be stored is no longer dirty; otherwise it would make every later transaction fail. The client's
// next check-in reports the same facts again.
enum tern_result tern_clients_store(struct tern_federation *federation, uint64_t id)
{
    struct client *client = client_of(federation, id);
    enum tern_result result = store_row(federation, &client->row);
    client->dirty = client->dirty && result == TERN_OK;
    return result;
}

// --- Epochs: which clients can take part (strategy qsvrg)

bool tern_epoch_supports(const struct tern_federation *federation,
                         const struct tern_db_client *client)
{
    const bool needed = federation->config.strategy->has_epochs || federation->epoch.is_on;
    return !needed || client->evaluator || (client->abilities & TERN_WIRE_REDUCES) != 0;
}

bool tern_epoch_allows(const struct tern_federation *federation,
                       const struct tern_db_client *client)
{
    const struct epoch *epoch = &federation->epoch;
    return epoch->step == 0 ||
           (client->anchor == epoch->anchor && (client->anchor_step || epoch->step == 1));
}

// Stores the anchor at once. If a crash lost it, the client would count as holding no full gradient, and the epoch
// would end.
enum tern_result tern_epoch_store_anchor(struct tern_federation *federation, uint64_t id,
                                         uint32_t anchor, bool step)
{
    struct tern_db_client *row = &client_of(federation, id)->row;
    if (row->anchor == anchor && row->anchor_step == step) {
        return TERN_OK;
    }
    row->anchor = anchor;
    row->anchor_step = step;
    federation->clients->changed |=
        !tern_epoch_allows(federation, row); // a member that lost its gradient must be replaced
    return tern_clients_store(federation, id);
}

// --- Which clients may be selected

// A provisioned client has last_seen_ms = 0 until its first check-in: the device is still at the factory.
bool tern_clients_is_trainer(const struct tern_federation *federation, const struct client *client)
{
    return !client->row.evaluator && !client->row.revoked && client->row.last_seen_ms != 0 &&
           tern_epoch_supports(federation, &client->row) &&
           tern_tags_match(client->row.tags, &federation->config.tags);
}

// Sets a time after the enrolment, even within its millisecond or after the clock was set back, so that the client
// counts as one that has checked in.
void tern_clients_mark_seen(struct client *client, uint64_t now)
{
    struct tern_db_client *row = &client->row;
    row->last_seen_ms = now > row->created_ms ? now : row->created_ms + 1;
    client->absent_ms = 0;
}

bool tern_clients_has_other_columns(const struct tern_federation *federation,
                                    const struct client *client)
{
    return tern_column_names_differ(&federation->clients->column_names, client->row.column_names);
}

static bool may_be_selected(const struct tern_federation *federation, const struct client *client,
                            uint64_t now)
{
    uint64_t within = federation->config.eligible_within_ms;
    bool recent = within == 0 || client->row.last_seen_ms + within >= now;
    return tern_clients_is_trainer(federation, client) && !tern_clients_lacks_scaling(client) &&
           tern_epoch_allows(federation, &client->row) &&
           (client->waiting || (recent && tern_clients_has_checked_in(federation, client, now)));
}

// Moves the ids in clients->eligible[0..count) for which is_so() holds to its start; returns how many there are.
static uint32_t keep_those(struct tern_federation *federation, uint32_t count, uint64_t now,
                           bool (*is_so)(const struct client *client, uint64_t now))
{
    uint64_t *ids = federation->clients->eligible;
    uint32_t kept = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (is_so(client_of(federation, ids[i]), now)) {
            ids[kept++] = ids[i];
        }
    }
    return kept;
}

static bool is_there(const struct client *client, uint64_t now)
{
    return !tern_clients_is_overdue(client, now);
}

static bool is_reliable(const struct client *client, uint64_t now)
{
    (void)now;
    return !tern_is_unreliable(client->row.unreported);
}

static bool is_unreliable(const struct client *client, uint64_t now)
{
    return !is_reliable(client, now);
}

uint32_t tern_clients_list_selectable(struct tern_federation *federation, uint64_t now)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < federation->clients->count; i++) {
        if (may_be_selected(federation, &federation->clients->list[i], now)) {
            federation->clients->eligible[count++] = (uint64_t)i + 1;
        }
    }
    return count;
}

// Returns how many reliable clients a round needs: with fewer, the model would be that of the few reliable clients.
// Only a configured quorum counts, because the default one is a part of the cohort, which may exceed the federation.
static uint32_t least_reliable(const struct tern_federation *federation)
{
    const uint32_t clients = federation->config.min_clients;
    const uint32_t quorum = federation->config.round.quorum;
    return clients > quorum ? clients : quorum;
}

uint32_t tern_clients_list_reliable(struct tern_federation *federation, uint64_t now)
{
    const uint32_t drawable = tern_clients_list_selectable(federation, now);
    if (federation->clients->unreliable == 0) {
        return drawable;
    }
    const uint32_t reliable = keep_those(federation, drawable, now, is_reliable);
    return reliable >= least_reliable(federation) ? reliable
                                                  : tern_clients_list_selectable(federation, now);
}

uint32_t tern_clients_list_responsive(struct tern_federation *federation, uint64_t now)
{
    return keep_those(federation, tern_clients_list_reliable(federation, now), now, is_there);
}

uint32_t tern_clients_list_unreliable(struct tern_federation *federation, uint64_t now)
{
    const uint32_t count =
        keep_those(federation, tern_clients_list_selectable(federation, now), now, is_unreliable);
    return keep_those(federation, count, now, is_there);
}

// --- Members of the open round, and their rows

_Static_assert((int)TERN_MEMBER_INVITED == (int)TERN_ASSIGNMENT_INVITED &&
                   (int)TERN_MEMBER_TASKED == (int)TERN_ASSIGNMENT_TASKED &&
                   (int)TERN_MEMBER_REPORTED == (int)TERN_ASSIGNMENT_REPORTED &&
                   (int)TERN_MEMBER_REPLACED == (int)TERN_ASSIGNMENT_REPLACED,
               "a member's state is stored without a conversion");

// Notes that the member changed, for the next tern_federation_publish().
static void note_unpublished(struct tern_federation *federation, uint64_t client)
{
    struct unpublished *unpublished = &federation->unpublished;
    if (unpublished->count < UNPUBLISHED_MAX) {
        unpublished->clients[unpublished->count] = client;
    }
    unpublished->count += unpublished->count <= UNPUBLISHED_MAX;
    unpublished->any = true;
}

enum tern_result tern_members_store(struct tern_federation *federation, struct tern_member *member)
{
    const enum tern_db_assignment_state before = (enum tern_db_assignment_state)member->stored;
    struct tern_db_assignment row = {.round = federation->machine.round,
                                     .client = member->client,
                                     .state = (enum tern_db_assignment_state)member->state,
                                     .local_steps = member->local_steps,
                                     .tries = member->tries,
                                     .invited_ms = member->invited_ms,
                                     .tasked_ms = member->tasked_ms,
                                     .reported_ms = member->reported_ms,
                                     .base_version = member->base_version,
                                     .directive = member->directive,
                                     .factor = member->factor,
                                     .decay = member->decay};
    memcpy(row.base, member->base, sizeof row.base);
    memcpy(row.codec, member->codec, sizeof row.codec);
    note_unpublished(federation, member->client);
    TERN_TRY(tern_db_assignment_put(federation->db, &row, member->is_stored ? &before : NULL));
    member->is_stored = true;
    member->stored = member->state;
    return TERN_OK;
}

enum tern_result tern_members_store_all(struct tern_federation *federation)
{
    for (uint32_t i = 0; i < federation->machine.member_count; i++) {
        TERN_TRY(tern_members_store(federation, &federation->machine.members[i]));
    }
    return TERN_OK;
}

static enum tern_result load_member(struct tern_federation *federation,
                                    const struct tern_db_assignment *row)
{
    struct tern_member member = {.client = row->client,
                                 .state = (enum tern_member_state)row->state,
                                 .local_steps = row->local_steps,
                                 .tries = row->tries,
                                 .invited_ms = row->invited_ms,
                                 .tasked_ms = row->tasked_ms,
                                 .reported_ms = row->reported_ms,
                                 .base_version = row->base_version,
                                 .directive = row->directive,
                                 .factor = row->factor,
                                 .decay = row->decay,
                                 .is_stored = true,
                                 .stored = (enum tern_member_state)row->state};
    memcpy(member.base, row->base, sizeof member.base);
    memcpy(member.codec, row->codec, sizeof member.codec);
    return tern_round_restore_member(&federation->machine, &member);
}

enum tern_result tern_members_load(struct tern_federation *federation)
{
    struct tern_db_assignment row;
    struct tern_db_rows *rows = tern_db_assignments(federation->db, federation->machine.round);
    while (tern_db_next(rows, &row)) {
        tern_db_check_row(rows, load_member(federation, &row));
    }
    return tern_db_end(rows);
}

// --- Reliability: whether clients report the tasks that they fetch. Each change is stored at once.

static enum tern_result set_unreported(struct tern_federation *federation, struct client *client,
                                       float unreported)
{
    const bool was = tern_is_unreliable(client->row.unreported);
    const bool is = tern_is_unreliable(unreported);
    client->row.unreported = unreported;
    federation->clients->unreliable += is - was;
    if (is != was) {
        tern_log(TERN_LOG_INFO, is ? "client-unreliable" : "client-reliable",
                 "round=%u client=%llu unreported=%.2f", federation->machine.round,
                 (unsigned long long)client->row.id, (double)unreported);
    }
    return tern_clients_store(federation, client->row.id);
}

enum tern_result tern_reliability_count_missed(struct tern_federation *federation, uint64_t id)
{
    struct client *client = client_of(federation, id);
    federation->counts.tasks_missed++;
    return set_unreported(federation, client, tern_unreported_after_miss(client->row.unreported));
}

// Smooths a client's reporting time: a longer time applies at once, and decreases by a quarter of the difference with
// each faster report.
static uint32_t smoothed(uint32_t before, uint64_t ms)
{
    const uint32_t took = ms < UINT32_MAX ? (uint32_t)ms : UINT32_MAX;
    return took >= before ? took : before - (before - took) / 4;
}

enum tern_result tern_reliability_count_report(struct tern_federation *federation, uint64_t id,
                                               uint64_t tasked_ms, uint64_t now)
{
    struct client *client = client_of(federation, id);
    client->dirty = true;
    client->row.failed_round = 0;
    client->row.report_ms = smoothed(client->row.report_ms, now > tasked_ms ? now - tasked_ms : 0);
    return client->row.unreported > 0.0F
               ? set_unreported(federation, client,
                                tern_unreported_after_report(client->row.unreported))
               : TERN_OK;
}

bool tern_reliability_has_failed(const struct tern_federation *federation,
                                 const struct tern_member *member)
{
    const struct client *client = client_of(federation, member->client);
    return member->state == TERN_MEMBER_TASKED && client != NULL &&
           client->row.failed_round == federation->machine.round;
}

static const char *const failure_names[] = {
    [tern_TrainingFailure_FAILURE_TRAINER] = "trainer",
    [tern_TrainingFailure_FAILURE_NOT_FINITE] = "not-finite",
    [tern_TrainingFailure_FAILURE_NO_DATA] = "no-data",
};

// Logs a client's 1st, 2nd, 4th, ... failure only, so that one client cannot fill the log.
static void note_failed(struct tern_federation *federation, struct client *client, uint32_t round,
                        tern_TrainingFailure failure)
{
    federation->counts.tasks_failed++;
    client->failed++;
    if (is_power_of_two(client->failed)) {
        tern_log(TERN_LOG_WARN, "training-failed", "round=%u client=%llu failure=%s count=%u",
                 round, (unsigned long long)client->row.id, failure_names[failure], client->failed);
    }
}

enum tern_result tern_reliability_count_failure(struct tern_federation *federation, uint64_t id,
                                                uint32_t round, tern_TrainingFailure failure)
{
    struct client *client = client_of(federation, id);
    if (client->row.evaluator || round > federation->machine.round ||
        round < client->row.failed_round) {
        return TERN_OK;
    }
    note_failed(federation, client, round, failure);
    return tern_reliability_drop_member(federation, id, round, failure);
}

enum tern_result tern_reliability_drop_member(struct tern_federation *federation, uint64_t id,
                                              uint32_t round, tern_TrainingFailure failure)
{
    struct client *client = client_of(federation, id);
    const struct tern_round_machine *machine = &federation->machine;
    const bool again = round == client->row.failed_round; // a second failure in the same round
    client->row.failed_round = round;
    client->row.failure = (uint32_t)failure;
    client->dirty = true;
    const struct tern_member *member = machine->open ? tern_round_member(machine, id) : NULL;
    if (member == NULL || !tern_reliability_has_failed(federation, member)) {
        return TERN_OK;
    }
    federation->look_ms = 0; // checks the round's members before the reply is made
    return again ? TERN_OK : tern_reliability_count_missed(federation, id);
}

// Stores the tries only from the number on at which they count as a missed task, so that most check-ins write nothing.
// An unreliable client's record does not get worse, so that a few reports make it reliable again.
enum tern_result tern_reliability_count_try(struct tern_federation *federation,
                                            struct tern_member *member)
{
    const struct client *client = client_of(federation, member->client);
    member->tries += member->tries < UINT32_MAX;
    if (!tern_tries_count_as_missed(member->tries)) {
        return TERN_OK;
    }
    TERN_TRY(tern_members_store(federation, member));
    federation->look_ms = 0;
    if (tern_is_unreliable(client->row.unreported)) {
        return TERN_OK;
    }
    tern_log(TERN_LOG_WARN, "task-fails", "round=%u client=%llu tries=%u why=%s",
             federation->machine.round, (unsigned long long)member->client, member->tries - 1,
             TERN_LOG_TEXT("it fetches the same task again and again and sends no update: see its "
                           "log"));
    return tern_reliability_count_missed(federation, member->client);
}

bool tern_reliability_is_given_up(const struct tern_federation *federation,
                                  const struct tern_member *member)
{
    const struct client *client = client_of(federation, member->client);
    return member->state == TERN_MEMBER_TASKED && tern_tries_are_used_up(member->tries) &&
           tern_is_unreliable(client->row.unreported);
}

void tern_reliability_measure_pace(struct tern_federation *federation, struct tern_pace *pace)
{
    const uint64_t least_ms =
        tern_selection_first_checkin_ms(federation->config.round.come_back_min_ms);
    tern_pace_measure(&federation->machine, least_ms, federation->clients->eligible, pace);
}

// Estimates how long the member takes in ms: the longer of its smoothed reporting time and the time to train at its
// measured speed, at most the deadline; 0 = unknown.
static uint64_t own_ms(const struct tern_federation *federation, const struct tern_member *member)
{
    const double speed = (double)client_of(federation, member->client)->row.steps_per_second;
    const double trains_ms = speed > 0.0 ? (double)member->local_steps * 1000.0 / speed : 0.0;
    const double reports_ms = (double)client_of(federation, member->client)->row.report_ms;
    const double ms = trains_ms > reports_ms ? trains_ms : reports_ms;
    const double most = (double)federation->config.round.deadline_ms;
    return ms < most ? (uint64_t)ms : federation->config.round.deadline_ms;
}

// An unreliable member is never replaced: the round does not count on it.
bool tern_reliability_is_overdue(const struct tern_federation *federation,
                                 const struct tern_pace *pace, const struct tern_member *member,
                                 uint64_t now)
{
    const struct client *client = client_of(federation, member->client);
    return member->state == TERN_MEMBER_TASKED && client != NULL &&
           !tern_is_unreliable(client->row.unreported) &&
           (tern_tries_are_used_up(member->tries) ||
            now >= tern_member_overdue_ms(pace, member->tasked_ms, own_ms(federation, member)));
}

enum tern_result tern_reliability_count_unreported(struct tern_federation *federation, uint64_t now)
{
    const struct tern_round_machine *machine = &federation->machine;
    struct tern_pace pace;
    tern_reliability_measure_pace(federation, &pace);
    for (uint32_t i = 0; i < machine->member_count; i++) {
        const struct tern_member *member = &machine->members[i];
        if (member->state == TERN_MEMBER_TASKED && client_of(federation, member->client) != NULL &&
            !tern_tries_are_used_up(member->tries) &&
            !tern_reliability_has_failed(federation, member) &&
            tern_member_has_missed(&pace, member->tasked_ms, own_ms(federation, member), now)) {
            TERN_TRY(tern_reliability_count_missed(federation, member->client));
        }
    }
    return TERN_OK;
}

// --- Byte budgets

bool tern_budgets_are_used(const struct tern_federation *federation)
{
    return (federation->config.steps.policy & TERN_STEPS_BUDGET) != 0 ||
           federation->config.selection == TERN_SELECTION_BUDGET;
}

// The rounds until budgets are renewed, and the fraction of them in which a client with bytes left takes part.
struct to_go {
    double rounds;
    double share;
};

static struct tern_budget budget_of(const struct client *client, const struct to_go *to_go)
{
    uint64_t spent = client->row.budget_spent;
    uint64_t left = client->row.budget_left > spent ? client->row.budget_left - spent : 0;
    return (struct tern_budget){.budgeted = client->row.budgeted,
                                .left = left,
                                .renewed = client->row.budget_renewed,
                                .rounds = to_go->rounds,
                                .share = to_go->share};
}

// Estimates the rounds until the federation ends or, if sooner, until the month ends, when budgets are renewed.
static double rounds_to_go(const struct tern_federation *federation, uint64_t now)
{
    const struct tern_round_machine *machine = &federation->machine;
    const struct tern_round_policy *policy = &machine->policy;
    uint64_t length = machine->typical_ms != 0 ? machine->typical_ms : policy->deadline_ms;
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
    const struct client *client = &budgets->federation->clients->list[index];
    const struct tern_budget budget = budget_of(client, &(struct to_go){budgets->rounds, 1.0});
    return may_be_selected(budgets->federation, client, budgets->now)
               ? tern_budget_affords(&budget, client->least_bytes)
               : 0.0;
}

static struct to_go budget_rounds(const struct tern_federation *federation, uint64_t now)
{
    if (!tern_budgets_are_used(federation)) {
        return (struct to_go){1.0, 1.0};
    }
    const struct tern_round_policy *policy = &federation->machine.policy;
    const struct budgets budgets = {federation, now, rounds_to_go(federation, now)};
    uint32_t invited = tern_cohort_size(policy->cohort, policy->over_selection, UINT32_MAX);
    double share = tern_budget_share(invited, federation->clients->count, affords, &budgets);
    return (struct to_go){budgets.rounds, share};
}

struct tern_budget tern_budgets_of_client(const struct tern_federation *federation,
                                          const struct client *client, uint64_t now)
{
    const struct to_go to_go = budget_rounds(federation, now);
    return budget_of(client, &to_go);
}

// --- Selection

struct choice {
    const struct tern_federation *federation;
    uint64_t now;
    struct to_go to_go;
};

static struct tern_selection_chance chance_of(const void *ctx, uint64_t id)
{
    const struct choice *choice = ctx;
    const struct tern_federation *federation = choice->federation;
    const struct client *client = &federation->clients->list[id - 1];
    struct tern_selection_chance chance = {1.0, 1.0};
    if (federation->config.selection == TERN_SELECTION_AVAILABILITY) {
        uint64_t seen = client->row.last_seen_ms;
        const struct tern_availability facts = {
            .age_ms = !client->waiting && choice->now > seen ? choice->now - seen : 0,
            .window_ms = federation->config.round.deadline_ms,
            .unreported = client->row.unreported,
            .metered = client->row.metered,
            .battery = client->row.power == tern_Power_POWER_BATTERY};
        chance.preference = tern_selection_availability(&facts);
    }
    if (tern_budgets_are_used(federation)) {
        const struct tern_budget budget = budget_of(client, &choice->to_go);
        chance.affordable = tern_budget_chance(&budget, client->least_bytes);
    }
    return chance;
}

// Selects `wanted` of clients->eligible[0..count), evenly over the values of the tag `tags.spread_key`.
static uint32_t spread_over_tag(struct tern_federation *federation, uint32_t count, uint32_t round,
                                uint32_t attempt, uint32_t wanted)
{
    const char *key = federation->config.tags.spread_key;
    struct clients *clients = federation->clients;
    if (key[0] == '\0' || count <= wanted) {
        return count;
    }
    for (uint32_t i = 0; i < count; i++) {
        clients->lots[i] = (struct tern_tagged_client){
            .id = clients->eligible[i], .tags = clients->list[clients->eligible[i] - 1].row.tags};
    }
    tern_tags_select_evenly(federation->about.seed, round, attempt, key, clients->lots, count,
                            clients->eligible, wanted);
    return wanted;
}

uint32_t tern_clients_select(struct tern_federation *federation, uint32_t count, uint32_t round,
                             uint32_t attempt, uint32_t wanted, uint32_t updates, uint64_t now)
{
    if (federation->config.selection == TERN_SELECTION_RANDOM &&
        !tern_budgets_are_used(federation)) {
        return spread_over_tag(federation, count, round, attempt, wanted);
    }
    const struct choice choice = {federation, now, budget_rounds(federation, now)};
    const struct tern_selection_need need = {
        .wanted = wanted,
        .least = tern_cohort_size(updates, federation->config.round.over_selection, wanted)};
    uint32_t chosen =
        tern_selection_filter(federation->about.seed, round, attempt, federation->clients->eligible,
                              count, &need, chance_of, &choice);
    // A round with fewer updates than its quorum would be the model of the few clients with large budgets.
    uint32_t enough = attempt > 1 ? 1 : updates < count ? updates : count;
    bool too_few = need.least > 0 && chosen < enough;
    if (too_few && !federation->too_few_afford) {
        tern_log(TERN_LOG_WARN, "too-few-afford-a-round", "round=%u eligible=%u chosen=%u", round,
                 count, chosen);
    }
    federation->too_few_afford = too_few;
    return too_few ? 0 : spread_over_tag(federation, chosen, round, attempt, wanted);
}

// --- Drift: how much the updates of a round differ

void tern_clients_record_update(struct client *client, const tern_Update *message,
                                double sum_square)
{
    client->drift = (struct drift){.square = sum_square,
                                   .loss = message->loss,
                                   .num_examples = message->num_examples,
                                   .local_steps = message->local_steps};
}
