#include "federation/clients.h"

#include "hosted/system.h"
#include "rounds/reliability.h"
#include "rounds/selection.h"
#include "util/bytes.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// --- Clients in memory and in the store

// Limits the memory that a damaged database can demand. limits.clients applies to enrolment only: more clients,
// enrolled under a higher limit or made by the command line, must not stop the service.
#define CLIENTS_MAX 100000000u

static enum tern_result make_client_room(struct tern_federation *federation, uint64_t id)
{
    if (id > CLIENTS_MAX) {
        return TERN_ERR_TOO_LARGE;
    }
    if (id <= federation->clients.capacity) {
        return TERN_OK;
    }
    uint32_t capacity = federation->clients.capacity == 0 ? 64 : federation->clients.capacity;
    while (capacity < id) {
        capacity *= 2;
    }
    struct client *rows = realloc(federation->clients.list, capacity * sizeof rows[0]);
    if (rows == NULL) {
        return TERN_ERR_NO_MEMORY;
    }
    federation->clients.list = rows;
    memset(rows + federation->clients.capacity, 0,
           (capacity - federation->clients.capacity) * sizeof rows[0]);
    uint64_t *eligible = realloc(federation->clients.candidates, capacity * sizeof eligible[0]);
    if (eligible == NULL) {
        return TERN_ERR_NO_MEMORY;
    }
    federation->clients.candidates = eligible;
    struct tern_tagged_client *lots =
        realloc(federation->clients.tagged, capacity * sizeof lots[0]);
    if (lots == NULL) {
        return TERN_ERR_NO_MEMORY;
    }
    federation->clients.tagged = lots;
    struct tern_member *members =
        realloc(federation->machine.members, capacity * sizeof members[0]);
    if (members == NULL) {
        return TERN_ERR_NO_MEMORY;
    }
    federation->machine.members = members;
    federation->machine.member_capacity = capacity;
    federation->clients.capacity = capacity;
    return TERN_OK;
}

static enum tern_result put_row(struct tern_federation *federation,
                                const struct tern_db_client *row)
{
    TERN_TRY(make_client_room(federation, row->id));
    TERN_TRY(federation->ports.admit(federation->ports.ctx, row));
    if (row->id > federation->clients.count) {
        federation->clients.count = (uint32_t)row->id;
    }
    struct client *client = &federation->clients.list[row->id - 1];
    const struct tern_db_client before = client->row;
    federation->clients.changed = true;
    memcpy(client->stored_replica, row->replica, TERN_SHA256_SIZE);
    if (client->dirty) { // the client's other columns are newer than the stored row
        client->row.revoked = row->revoked;
        memcpy(client->row.tags, row->tags, sizeof client->row.tags);
    } else {
        client->row = *row;
    }
    tern_column_names_replace(&federation->clients.column_names,
                              before.revoked ? 0 : before.column_names,
                              client->row.revoked ? 0 : client->row.column_names);
    federation->clients.revoked += client->row.revoked - before.revoked;
    federation->accuracy_is_known &= client->row.revoked == before.revoked;
    federation->clients.evaluators += client->row.evaluator - before.evaluator;
    federation->clients.unreliable +=
        tern_is_unreliable(client->row.unreported) - tern_is_unreliable(before.unreported);
    return TERN_OK;
}

static enum tern_result load_rows(struct tern_federation *federation)
{
    struct tern_db_client row;
    struct tern_db_rows *rows = tern_db_clients(federation->db);
    while (tern_db_next(rows, &row)) {
        tern_db_check_row(rows, put_row(federation, &row));
    }
    TERN_TRY(tern_db_end(rows));
    // Removes clients whose enrolment was rolled back: no reply with their tokens was sent.
    federation->ports.dismiss(federation->ports.ctx, (uint64_t)federation->clients.count + 1);
    return TERN_OK;
}

static enum tern_result load_evaluations(struct tern_federation *federation)
{
    for (uint32_t i = 0; i < federation->clients.count; i++) {
        memset(federation->clients.list[i].evaluated, 0,
               sizeof federation->clients.list[i].evaluated);
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
    for (uint32_t i = 0; i < federation->clients.count; i++) {
        federation->clients.list[i].schedule = 0; // the stored row of a failed transaction is gone
    }
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

enum tern_result tern_clients_load(struct tern_federation *federation)
{
    TERN_TRY(load_rows(federation));
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

// A row that cannot be stored is no longer dirty; a dirty row would make every later transaction fail. The client's
// next check-in reports the same facts.
enum tern_result tern_clients_store(struct tern_federation *federation, uint64_t id)
{
    struct client *client = client_of(federation, id);
    enum tern_result result = store_row(federation, &client->row);
    client->dirty = client->dirty && result == TERN_OK;
    return result;
}

enum tern_result tern_federation_flush(struct tern_federation *federation)
{
    for (uint32_t i = 0; i < federation->clients.count; i++) {
        if (federation->clients.list[i].dirty) {
            TERN_TRY(tern_clients_store(federation, (uint64_t)i + 1));
        }
    }
    return tern_catchup_collect(federation->catchup);
}

void tern_federation_flushed(struct tern_federation *federation)
{
    for (uint32_t i = 0; i < federation->clients.count; i++) {
        federation->clients.list[i].dirty = false;
    }
}

enum tern_result tern_federation_reload_clients(struct tern_federation *federation)
{
    federation->progressed = true; // answers the held check-ins of revoked clients
    return load_rows(federation);
}

// --- Refusals

// The delay after a refused request doubles from 1 s up to 8 times, to 256 s.
#define WAIT_DOUBLINGS 8

void tern_refusal_set(struct tern_refusal *refusal, enum tern_result result, const char *sentence)
{
    refusal->result = result;
    snprintf(refusal->sentence, sizeof refusal->sentence, "%s",
             sentence != NULL ? sentence : tern_result_sentence(result));
}

// The delay doubles with each refusal, so that a client whose updates are refused trains at most every four minutes.
void tern_refusals_delay_retry(struct client *client, struct tern_refusal *refusal)
{
    refusal->retry_after_s = 1u << client->refusals;
    client->refusals += client->refusals < WAIT_DOUBLINGS;
}

// --- Enrolment

static enum tern_result add_client(struct tern_federation *federation,
                                   const tern_EnrollRequest *message,
                                   const uint8_t token[TERN_WIRE_TOKEN_BYTES], uint64_t now,
                                   struct tern_db_client *row)
{
    memcpy(row->name, message->name, sizeof row->name);
    memcpy(row->platform, message->platform, sizeof row->platform);
    tern_sha256(token, TERN_WIRE_TOKEN_BYTES, row->token_hash);
    row->evaluator = message->evaluator;
    row->created_ms = now;
    row->last_seen_ms = now;
    TERN_TRY(tern_db_client_add(federation->db, row));
    tern_round_client_joined(&federation->machine, now);
    return put_row(federation, row);
}

static void fill_reply(const struct tern_federation *federation, uint64_t id,
                       const uint8_t token[TERN_WIRE_TOKEN_BYTES], tern_EnrollReply *reply)
{
    const struct tern_db_federation *about = &federation->about;
    *reply = (tern_EnrollReply)tern_EnrollReply_init_zero;
    reply->client_id = id;
    tern_base64url_encode(token, TERN_WIRE_TOKEN_BYTES, reply->token);
    reply->has_model = true;
    memcpy(reply->model.spec, about->model_spec, sizeof reply->model.spec);
    reply->model.seed = about->seed;
    reply->model.hash.size = TERN_SHA256_SIZE;
    memcpy(reply->model.hash.bytes, about->model_hash, TERN_SHA256_SIZE);
    reply->model.manifest = (uint32_t)about->manifest_len;
}

// Checks that the join code may enrol an evaluator. Evaluators determine the federation's accuracy, so the operator
// appoints them. An invalid code is refused with the same sentence as for other clients.
static enum tern_result check_evaluator(struct tern_federation *federation,
                                        const uint8_t code_hash[TERN_SHA256_SIZE], uint64_t now,
                                        struct tern_refusal *refusal)
{
    struct tern_db_code code;
    const enum tern_result found = tern_db_code_get(federation->db, code_hash, &code);
    if (found == TERN_OK && code.uses_left > 0 && code.expires_ms > now && !code.evaluator) {
        tern_refusal_set(
            refusal, TERN_ERR_UNAUTHORIZED,
            "This join code does not enrol evaluators. Make a code with `tern-aggregator "
            "enroll-code "
            "--evaluator`, or set client.evaluator = no.");
    }
    return tern_db_may_miss(found);
}

enum tern_result tern_federation_enroll(struct tern_federation *federation,
                                        const tern_EnrollRequest *message, const char *peer,
                                        uint64_t now, tern_EnrollReply *reply,
                                        struct tern_refusal *refusal)
{
    if (federation->clients.count >= federation->config.limits.clients) {
        tern_refusal_set(refusal, TERN_ERR_BUSY,
                         "The federation accepts no further clients (limits.clients).");
        return TERN_OK;
    }
    uint8_t code_hash[TERN_SHA256_SIZE];
    tern_join_code_hash(message->join_code, code_hash);
    if (message->evaluator) {
        TERN_TRY(check_evaluator(federation, code_hash, now, refusal));
    }
    if (refusal->result != TERN_OK) {
        return TERN_OK;
    }
    enum tern_result used = tern_db_code_use(federation->db, code_hash, now);
    if (used == TERN_ERR_NOT_FOUND) {
        tern_refusal_set(refusal, TERN_ERR_UNAUTHORIZED, NULL);
        return TERN_OK;
    }
    TERN_TRY(used);
    uint8_t token[TERN_WIRE_TOKEN_BYTES];
    struct tern_db_client row = {0};
    struct tern_db_code code;
    tern_join_code_id(code_hash, row.code);
    TERN_TRY(tern_db_code_get(federation->db, code_hash, &code));
    memcpy(row.tags, code.tags, sizeof row.tags);
    snprintf(row.address, sizeof row.address, "%s", peer);
    TERN_TRY(tern_random_fill(token, sizeof token));
    TERN_TRY(add_client(federation, message, token, now, &row));
    fill_reply(federation, row.id, token, reply);
    tern_log(TERN_LOG_INFO, "enrolled", "client=%llu evaluator=%d code=%s peer=%s",
             (unsigned long long)row.id, row.evaluator, row.code, row.address);
    return TERN_OK;
}

bool tern_federation_has_client(struct tern_federation *federation, uint64_t client)
{
    const struct client *known = client_of(federation, client);
    return known != NULL && !known->row.revoked;
}

void tern_federation_set_waiting(struct tern_federation *federation, uint64_t client, bool waits)
{
    client_of(federation, client)->waiting = waits;
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

// Stores the anchor in this transaction. If a crash lost the anchor, the client would count as holding no full
// gradient, and the epoch would end.
enum tern_result tern_epoch_store_anchor(struct tern_federation *federation, uint64_t id,
                                         uint32_t anchor, bool step)
{
    struct tern_db_client *row = &client_of(federation, id)->row;
    if (row->anchor == anchor && row->anchor_step == step) {
        return TERN_OK;
    }
    row->anchor = anchor;
    row->anchor_step = step;
    federation->clients.changed |=
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

// Sets last_seen_ms after the enrolment, even within the same millisecond or after the clock was set back: such a
// client counts as one that has checked in.
void tern_clients_mark_seen(struct client *client, uint64_t now)
{
    struct tern_db_client *row = &client->row;
    row->last_seen_ms = now > row->created_ms ? now : row->created_ms + 1;
    client->overdue_ms = 0;
}

bool tern_clients_has_other_columns(const struct tern_federation *federation,
                                    const struct client *client)
{
    return tern_column_names_differ(&federation->clients.column_names, client->row.column_names);
}

// --- Members of the open round, and their rows

_Static_assert((int)TERN_MEMBER_INVITED == (int)TERN_ASSIGNMENT_INVITED &&
                   (int)TERN_MEMBER_TASKED == (int)TERN_ASSIGNMENT_TASKED &&
                   (int)TERN_MEMBER_REPORTED == (int)TERN_ASSIGNMENT_REPORTED &&
                   (int)TERN_MEMBER_REPLACED == (int)TERN_ASSIGNMENT_REPLACED,
               "a member's state is stored without a conversion");

// Adds the member to those that the next tern_federation_publish() publishes.
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

// --- Reliability: whether clients report the tasks that they fetch. Each change is stored at once.

static enum tern_result set_unreported(struct tern_federation *federation, struct client *client,
                                       float unreported)
{
    const bool was = tern_is_unreliable(client->row.unreported);
    const bool is = tern_is_unreliable(unreported);
    client->row.unreported = unreported;
    federation->clients.unreliable += is - was;
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

enum tern_result tern_reliability_drop_member(struct tern_federation *federation, uint64_t id,
                                              uint32_t round, tern_TrainingFailure failure)
{
    struct client *client = client_of(federation, id);
    const struct tern_round_machine *machine = &federation->machine;
    // The client has failed in the same round before.
    const bool again = round == client->row.failed_round;
    client->row.failed_round = round;
    client->row.failure = (uint32_t)failure;
    client->dirty = true;
    const struct tern_member *member = machine->open ? tern_round_member(machine, id) : NULL;
    if (member == NULL || !tern_reliability_has_failed(federation, member)) {
        return TERN_OK;
    }
    // The round's members are checked before this check-in is answered.
    federation->member_check_ms = 0;
    const bool refused = failure == tern_TrainingFailure_FAILURE_REPLAYED ||
                         failure == tern_TrainingFailure_FAILURE_HELPER_LOG;
    return again || refused ? TERN_OK : tern_reliability_count_missed(federation, id);
}

void tern_reliability_measure_pace(struct tern_federation *federation, struct tern_pace *pace)
{
    const uint64_t least_ms =
        tern_selection_first_checkin_ms(federation->config.round.come_back_min_ms);
    tern_pace_measure(&federation->machine, least_ms, federation->clients.candidates, pace);
}

// Estimates the time in ms from task to report of the member: the longer of its smoothed reporting time and the time to
// train at its measured speed, at most the deadline; 0 = unknown.
static uint64_t usual_report_ms(const struct tern_federation *federation,
                                const struct tern_member *member)
{
    const double speed = (double)client_of(federation, member->client)->row.steps_per_second;
    const double trains_ms = speed > 0.0 ? (double)member->local_steps * 1000.0 / speed : 0.0;
    const double reports_ms = (double)client_of(federation, member->client)->row.report_ms;
    const double ms = trains_ms > reports_ms ? trains_ms : reports_ms;
    const double most = (double)federation->config.round.deadline_ms;
    return ms < most ? (uint64_t)ms : federation->config.round.deadline_ms;
}

// An unreliable member never counts as overdue, because the round does not wait for its update.
bool tern_reliability_is_overdue(const struct tern_federation *federation,
                                 const struct tern_pace *pace, const struct tern_member *member,
                                 uint64_t now)
{
    const struct client *client = client_of(federation, member->client);
    return member->state == TERN_MEMBER_TASKED && client != NULL &&
           !tern_is_unreliable(client->row.unreported) &&
           (tern_tries_are_used_up(member->tries) ||
            now >= tern_member_overdue_ms(pace, member->tasked_ms,
                                          usual_report_ms(federation, member)));
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
            tern_member_has_missed(&pace, member->tasked_ms, usual_report_ms(federation, member),
                                   now)) {
            TERN_TRY(tern_reliability_count_missed(federation, member->client));
        }
    }
    return TERN_OK;
}

// --- Reported updates

void tern_clients_record_update(struct client *client, const tern_Update *message,
                                double sum_square)
{
    client->reported = (struct reported_update){.square = sum_square,
                                                .loss = message->loss,
                                                .num_examples = message->num_examples,
                                                .local_steps = message->local_steps};
}
