#include "federation/update.h"

#include "codec/sparse_share.h"
#include "federation/ledger.h"
#include "federation/secure.h"
#include "merge/merge.h"
#include "rounds/machine.h"
#include "strategies/bounds.h"
#include "util/bytes.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Stores the evaluation that came with a member's accepted update. The member evaluated the weights that it trained
// from, on its own held-out data.
static enum tern_result store_member_metrics(struct tern_federation *federation, uint64_t client,
                                             const struct tern_member *member,
                                             const tern_Evaluation *evaluation)
{
    bool global = false;
    TERN_TRY(tern_catchup_is_global(federation->catchup, member->base, &global));
    const struct tern_db_metric row = {.version = member->base_version,
                                       .client = client,
                                       .model =
                                           global ? TERN_EVALUATED_GLOBAL : TERN_EVALUATED_REPLICA,
                                       .num_examples = evaluation->num_examples};
    return tern_metrics_store(federation, &row, evaluation);
}

// --- Indices that a round's leader chose: waiting for the leader

// Sets *codec to the codec of the open round's updates. Returns false if the round's clients share no indices.
static bool find_shared_codec(const struct tern_federation *federation, struct tern_codec *codec)
{
    return federation->machine.open &&
           tern_codec_parse(federation->row.codec_up, codec, NULL) == TERN_OK &&
           tern_codec_entry(codec->id)->follows_leader;
}

static bool may_report(const struct tern_federation *federation, const struct tern_member *member)
{
    const struct client *client = client_of(federation, member->client);
    return (member->state == TERN_MEMBER_INVITED || member->state == TERN_MEMBER_TASKED) &&
           client != NULL && !client->row.revoked &&
           !tern_reliability_has_failed(federation, member);
}

// Returns the id of the client whose update will bring the shared indices; 0 = the round waits for no leader.
static uint64_t awaited_leader(const struct tern_federation *federation, uint64_t now)
{
    const struct tern_round_machine *machine = &federation->machine;
    struct tern_codec codec;
    if (!find_shared_codec(federation, &codec) || federation->indices.refused == machine->round ||
        now >= tern_round_leader_deadline_ms(machine)) {
        return 0;
    }
    uint64_t leader = tern_round_leader(machine);
    const struct tern_member *member = tern_round_member(machine, leader);
    return member != NULL && may_report(federation, member) ? leader : 0;
}

bool tern_indices_are_shared(const struct tern_federation *federation)
{
    struct tern_codec codec;
    return find_shared_codec(federation, &codec);
}

bool tern_indices_delay_task(const struct tern_federation *federation, uint64_t id, uint64_t now)
{
    uint64_t leader = awaited_leader(federation, now);
    const struct tern_member *member = tern_round_member(&federation->machine, id);
    // A member that has fetched its task before gets the same task without a wait.
    return leader != 0 && leader != id && member != NULL && member->local_steps == 0;
}

bool tern_indices_are_awaited(const struct tern_federation *federation)
{
    return federation->indices.awaited;
}

void tern_indices_check_leader(struct tern_federation *federation, uint64_t now)
{
    bool awaited = awaited_leader(federation, now) != 0;
    federation->progressed = federation->progressed || (federation->indices.awaited && !awaited);
    federation->indices.awaited = awaited;
}

static void note_leader_refused(struct tern_federation *federation, uint64_t id)
{
    struct tern_codec codec;
    if (find_shared_codec(federation, &codec) && tern_round_leader(&federation->machine) == id) {
        federation->indices.refused = federation->machine.round;
    }
}

// --- Indices: making the download

// Makes and publishes the download with the update's indices. If memory is short, or the update lists no indices, the
// round's clients share none.
static void make_indices(struct tern_federation *federation, const struct tern_codec *codec,
                         struct tern_span container)
{
    const struct tern_merge *merge = &federation->merge;
    struct tern_download_made made;
    enum tern_result result =
        tern_download_indices(&merge->model, codec, container.data, container.len, merge->version,
                              &merge->buffers, &made);
    struct tern_blob *blob = result == TERN_OK ? tern_blob_new(made.len) : NULL;
    if (blob == NULL) {
        tern_log(TERN_LOG_WARN, "no-indices", "round=%u reason=%s", federation->machine.round,
                 tern_result_name(result != TERN_OK ? result : TERN_ERR_NO_MEMORY));
        return;
    }
    memcpy(blob->data, merge->buffers.blob, made.len);
    memcpy(federation->indices.sha256, made.sha256, TERN_SHA256_SIZE);
    federation->indices.payload = (uint32_t)made.payload;
    tern_published_set_indices(&federation->published, federation->machine.round, blob);
}

// Publishes the update's indices if the update is the leader's. Called before the update's member counts as reported.
static void share_indices(struct tern_federation *federation,
                          const struct tern_incoming_update *update, uint64_t now)
{
    struct tern_codec codec;
    if (find_shared_codec(federation, &codec) &&
        awaited_leader(federation, now) == update->client) {
        make_indices(federation, &codec, update->container);
    }
}

struct stored_update {
    uint64_t client;
    enum tern_result (*take)(void *ctx, const tern_Update *message, struct tern_span container);
    void *ctx;
};

static enum tern_result visit_if_client(void *ctx, const struct tern_db_update *row)
{
    const struct stored_update *wanted = ctx;
    tern_Update message;
    struct tern_span container;
    if (row->client != wanted->client || row->body == NULL) {
        return TERN_OK;
    }
    TERN_TRY(tern_wire_decode_update(row->body, row->body_len, &message, &container));
    return wanted->take(wanted->ctx, &message, container);
}

static enum tern_result make_leaders_indices(void *ctx, const tern_Update *message,
                                             struct tern_span container)
{
    struct tern_federation *federation = ctx;
    struct tern_codec codec;
    (void)message;
    if (find_shared_codec(federation, &codec)) {
        make_indices(federation, &codec, container);
    }
    return TERN_OK;
}

enum tern_result tern_indices_load(struct tern_federation *federation)
{
    const struct tern_round_machine *machine = &federation->machine;
    struct tern_codec codec;
    federation->indices.awaited = false;
    tern_published_set_indices(&federation->published, 0, NULL);
    if (!find_shared_codec(federation, &codec)) {
        return TERN_OK;
    }
    const struct tern_member *leader = tern_round_member(machine, tern_round_leader(machine));
    if (leader == NULL || leader->state != TERN_MEMBER_REPORTED ||
        leader->reported_ms >= tern_round_leader_deadline_ms(machine)) {
        return TERN_OK;
    }
    struct stored_update wanted = {leader->client, make_leaders_indices, federation};
    return tern_db_update_each(federation->db, machine->round, visit_if_client, &wanted);
}

void tern_indices_add_to_task(struct tern_federation *federation, uint64_t id, tern_Task *task)
{
    struct tern_blob *blob =
        tern_published_indices(&federation->published, federation->machine.round);
    if (blob == NULL || id == tern_round_leader(&federation->machine)) {
        tern_blob_release(blob);
        return;
    }
    task->has_indices = true;
    task->indices.sha256.size = TERN_SHA256_SIZE;
    memcpy(task->indices.sha256.bytes, federation->indices.sha256, TERN_SHA256_SIZE);
    task->indices.size = (uint32_t)blob->len;
    tern_blob_release(blob);
}

enum tern_result tern_indices_find_blob(struct tern_federation *federation,
                                        const uint8_t sha256[TERN_SHA256_SIZE],
                                        struct tern_blob **blob, uint32_t *payload)
{
    const struct shared_indices *indices = &federation->indices;
    struct tern_published *published = &federation->published;
    if (memcmp(sha256, indices->sha256, TERN_SHA256_SIZE) != 0) {
        return TERN_ERR_NOT_FOUND;
    }
    *payload = indices->payload;
    *blob = tern_published_indices(published, published->indices_round);
    return *blob != NULL ? TERN_OK : TERN_ERR_NOT_FOUND;
}

// --- Indices: an update that is sent again after its round closed

struct comparison {
    const struct tern_model *model;
    const struct tern_incoming_update *update;
    bool same;
};

static enum tern_result compare_stripped(void *ctx, const tern_Update *message,
                                         struct tern_span container)
{
    struct comparison *comparison = ctx;
    const struct tern_incoming_update *update = comparison->update;
    uint8_t *stripped = malloc(container.len);
    size_t len = 0;
    if (stripped == NULL) {
        return TERN_ERR_NO_MEMORY;
    }
    enum tern_result result = tern_sparse_strip(comparison->model, container.data, container.len,
                                                stripped, container.len, &len);
    comparison->same = result == TERN_OK && message->shared_indices &&
                       message->num_examples == update->message.num_examples &&
                       message->local_steps == update->message.local_steps &&
                       len == update->container.len &&
                       memcmp(stripped, update->container.data, len) == 0;
    free(stripped);
    return TERN_OK;
}

// Sets *same if an update without indices equals the stored update of a round that no longer shares indices. Compares
// with the stored body without its indices. If the stored body was deleted, the sequence number decides.
static enum tern_result compare_without_indices(struct tern_federation *federation,
                                                const struct tern_incoming_update *update,
                                                bool *same)
{
    struct tern_db_update stored;
    *same = false;
    if (update->parsed != TERN_ERR_STATE || !update->message.shared_indices) {
        return TERN_OK;
    }
    TERN_TRY(tern_db_update_find(federation->db, update->round, update->client, &stored));
    if (stored.sequence != update->sequence) {
        return TERN_OK;
    }
    struct comparison comparison = {&federation->merge.model, update, true};
    struct stored_update wanted = {update->client, compare_stripped, &comparison};
    TERN_TRY(tern_db_update_each(federation->db, update->round, visit_if_client, &wanted));
    *same = comparison.same;
    return TERN_OK;
}

// --- Refusals of updates

// After this many consecutive cohorts without an accepted update, the operator is warned.
#define REFUSED_COHORTS_WARNED 2

static const char refused_advice[] =
    "The federation has diverged, clients' columns are not scaled (tern-client check), or "
    "limits.norm is below the usual norm of updates. If updates of this size are sound, raise "
    "limits.norm and send SIGHUP; else begin anew from an older version (export --version, "
    "init --model) with scaled columns, or a lower train.learning_rate or train.local_steps.";

static bool is_about_values(enum tern_result result)
{
    return result == TERN_ERR_NORM_LIMIT || result == TERN_ERR_NON_FINITE;
}

static void note_accepted(struct tern_federation *federation, struct client *client)
{
    federation->refused.accepted++;
    client->refusals = 0;
}

static void note_refused(struct tern_federation *federation,
                         const struct tern_incoming_update *update, enum tern_result result)
{
    struct client *client = client_of(federation, update->client);
    struct refused *refused = &federation->refused;
    federation->counts.updates_rejected++;
    client->refused++;
    if (is_power_of_two(client->refused)) {
        tern_log(TERN_LOG_WARN, "update-rejected",
                 "round=%u client=%llu reason=%s count=%u norm=%.4g limit=%.4g", update->round,
                 (unsigned long long)update->client, tern_result_name(result), client->refused,
                 sqrt(update->sum_square), federation->config.limits.norm);
    }
    if (!is_about_values(result)) {
        return;
    }
    refused->updates++;
    if (client->refused_cohort != refused->cohort + 1) {
        client->refused_cohort = refused->cohort + 1;
        refused->clients++;
    }
}

// Writes a sentence about the update's first invalid field, with its value, in the order of tern_check_update().
// Returns false if every field is within its own range.
static bool describe_invalid_field(const struct tern_federation *federation,
                                   const tern_Update *message,
                                   char sentence[sizeof((struct tern_refusal){0}.sentence)])
{
    const size_t size = sizeof((struct tern_refusal){0}.sentence);
    const uint32_t most = federation->config.limits.num_examples;
    if (message->num_examples == 0 || message->num_examples > most) {
        return snprintf(sentence, size,
                        "num_examples is %u. It must be from 1 to %u (limits.num_examples).",
                        message->num_examples, most) > 0;
    }
    if (message->local_steps == 0 || message->local_steps > TERN_WIRE_LOCAL_STEPS_MAX) {
        return snprintf(sentence, size,
                        "local_steps is %u. It must be from 1 to %u, and no more than the task's.",
                        message->local_steps, TERN_WIRE_LOCAL_STEPS_MAX) > 0;
    }
    if (!isfinite(message->loss)) {
        return snprintf(sentence, size, "loss is %g. It must be a finite number.",
                        (double)message->loss) > 0;
    }
    if (message->has_decay && !(message->decay >= 0.0F && message->decay <= 1.0F)) {
        return snprintf(sentence, size,
                        "decay is %g. It is the fraction of the error buffer that was kept, and "
                        "must be from 0 to 1.",
                        (double)message->decay) > 0;
    }
    if (message->has_evaluation &&
        (message->evaluation.num_examples == 0 || !isfinite(message->evaluation.loss) ||
         !(message->evaluation.accuracy >= 0.0F && message->evaluation.accuracy <= 1.0F))) {
        return snprintf(sentence, size,
                        "evaluation has num_examples %u, loss %g, accuracy %g. They must be at "
                        "least 1, finite, and from 0 to 1.",
                        message->evaluation.num_examples, (double)message->evaluation.loss,
                        (double)message->evaluation.accuracy) > 0;
    }
    if (message->has_error &&
        !(message->error.norm >= 0.0F && isfinite(message->error.norm) &&
          message->error.maximum >= 0.0F && isfinite(message->error.maximum))) {
        return snprintf(sentence, size,
                        "error has norm %g and maximum %g. Both must be finite and not negative.",
                        (double)message->error.norm, (double)message->error.maximum) > 0;
    }
    return false;
}

static const char *refusal_sentence(const struct tern_federation *federation,
                                    const tern_Update *message, enum tern_result result,
                                    char sentence[sizeof((struct tern_refusal){0}.sentence)])
{
    const bool is_of_a_field = result == TERN_ERR_ARGUMENT || result == TERN_ERR_NON_FINITE;
    if (is_of_a_field && describe_invalid_field(federation, message, sentence)) {
        return sentence;
    }
    if (result == TERN_ERR_ARGUMENT) {
        return "local_steps exceeds the task's number, or another value is outside its range.";
    }
    if (result == TERN_ERR_STATE && (message->masked || federation->secure.is_on)) {
        return message->masked ? "The update is masked, and its round is not secure."
                               : "The round is secure, and the update is not masked.";
    }
    if (result == TERN_ERR_STATE) {
        return "The update contains no indices, and its round shares none. Send it with indices.";
    }
    return tern_result_sentence(result);
}

static void refuse_update(struct tern_federation *federation,
                          const struct tern_incoming_update *update, enum tern_result result,
                          struct tern_refusal *refusal)
{
    char sentence[sizeof refusal->sentence];
    tern_refusal_set(refusal, result,
                     refusal_sentence(federation, &update->message, result, sentence));
    if (result == TERN_ERR_LATE) {
        federation->counts.updates_late++;
        return;
    }
    note_refused(federation, update, result);
    tern_refusals_delay_retry(client_of(federation, update->client), refusal);
}

// --- Cohorts of which every update was refused

static void begin_cohort(struct refused *refused)
{
    refused->cohort++;
    refused->accepted = 0;
    refused->updates = 0;
    refused->clients = 0;
}

void tern_refusals_end_cohort(struct tern_federation *federation, bool committed)
{
    struct refused *refused = &federation->refused;
    const bool all = !committed && refused->accepted == 0 && refused->updates > 0;
    refused->cohorts = all ? refused->cohorts + 1 : 0;
    if (refused->cohorts >= REFUSED_COHORTS_WARNED && is_power_of_two(refused->cohorts)) {
        tern_log(TERN_LOG_WARN, "all-updates-refused",
                 "round=%u cohorts=%u updates=%u clients=%u advice=%s", federation->machine.round,
                 refused->cohorts, refused->updates, refused->clients,
                 TERN_LOG_TEXT(refused_advice));
    }
    begin_cohort(refused);
}

const char *tern_refusals_advice(const struct tern_federation *federation, uint32_t *draws)
{
    *draws = federation->refused.cohorts;
    return federation->refused.cohorts >= REFUSED_COHORTS_WARNED ? refused_advice : NULL;
}

// --- Checking and counting updates

_Static_assert(TERN_WIRE_LOCAL_STEPS_MAX <= TERN_UPDATE_LOCAL_STEPS_MAX,
               "strategies/bounds.h must allow as many local steps as a task may have");

// Whether the update's norm, multiplied by `scale`, exceeds the limit; also true for NaN. A strategy that normalises
// scales up an update with fewer local steps than its task, by scale_max at most.
static bool exceeds_norm_limit(const struct tern_federation *federation, double sum_square,
                               double scale)
{
    // The rule of the open round's row applies: the configuration may have changed since the round opened.
    double most = tern_strategy_norm_max(&federation->totals.rule);
    double limit = federation->config.limits.norm < most ? federation->config.limits.norm : most;
    return !(sum_square * scale * scale <= limit * limit);
}

// Returns the replica that the member's task named. Without a name, returns the newest version's replica.
static const uint8_t *base_of(const struct tern_federation *federation,
                              const struct tern_member *member)
{
    static const uint8_t none[TERN_SHA256_SIZE];
    bool named = memcmp(member->base, none, TERN_SHA256_SIZE) != 0;
    return named ? member->base : federation->merge.replica_id;
}

// Sets *member from the stored assignment of the earlier round `own`.
static enum tern_result make_member(struct tern_federation *federation,
                                    const struct tern_db_round *own,
                                    const struct tern_db_assignment *row,
                                    struct tern_member *member)
{
    static const uint8_t none[TERN_SHA256_SIZE];
    struct tern_db_version version;
    *member = (struct tern_member){.client = row->client,
                                   .local_steps = row->local_steps,
                                   .tasked_ms = row->tasked_ms,
                                   .base_version = row->base_version};
    memcpy(member->base, row->base, TERN_SHA256_SIZE);
    // The base was the replica of the round's base version.
    if (memcmp(row->base, none, TERN_SHA256_SIZE) == 0) {
        TERN_TRY(tern_db_version_get(federation->db, own->base_version, &version));
        memcpy(member->base, version.replica, TERN_SHA256_SIZE);
        member->base_version = own->base_version;
    }
    return TERN_OK;
}

// Checks an update of a member. The first failing check gives the result. Every update that passes can be merged
// without overflow (strategies/bounds.h).
static enum tern_result check_update(const struct tern_federation *federation,
                                     const struct tern_incoming_update *update,
                                     const struct tern_member *member)
{
    const tern_Update *message = &update->message;
    TERN_TRY(update->parsed);
    if (!is_of_our_model(federation, message->model_hash.bytes, message->model_hash.size)) {
        return TERN_ERR_MODEL_MISMATCH;
    }
    if (memcmp(message->base.bytes, base_of(federation, member), TERN_WIRE_REPLICA_BYTES) != 0) {
        return TERN_ERR_WRONG_REPLICA;
    }
    const uint32_t most = federation->config.limits.num_examples;
    if (message->num_examples > most ||
        (message->has_evaluation && message->evaluation.num_examples > most) ||
        message->local_steps > member->local_steps) {
        return TERN_ERR_ARGUMENT;
    }
    TERN_TRY(tern_secure_check_update(federation, update));
    double scale = tern_strategy_steps_factor_max(&federation->totals.rule, member->local_steps,
                                                  message->local_steps);
    if (exceeds_norm_limit(federation, update->sum_square, scale)) {
        return TERN_ERR_NORM_LIMIT;
    }
    const struct tern_contribution contribution = tern_contribution_of(message);
    struct tern_strategy_totals totals = federation->totals;
    return tern_strategy_count_update(&totals, &contribution);
}

static enum tern_result store_update(struct tern_federation *federation,
                                     const struct tern_incoming_update *update, uint32_t merged,
                                     uint64_t now)
{
    struct tern_db_update row = {.round = update->round,
                                 .client = update->client,
                                 .sequence = update->sequence,
                                 .body = update->body.data,
                                 .body_len = update->body.len,
                                 .received_ms = now,
                                 .merged = update->message.masked ? TERN_DB_MASKED : merged};
    memcpy(row.sha256, update->sha256, TERN_SHA256_SIZE);
    return tern_db_update_put(federation->db, &row);
}

static void measure_speed(struct client *client, const tern_Update *message)
{
    client->dirty = true;
    client->row.steps_per_second = tern_steps_speed(&client->speed, client->row.steps_per_second,
                                                    message->local_steps, message->train_ms);
}

// Records that the client reported and holds the replica that it trained from.
static void note_report(struct tern_federation *federation,
                        const struct tern_incoming_update *update, const struct tern_member *member,
                        uint64_t now)
{
    struct client *client = client_of(federation, update->client);
    const uint8_t *base = base_of(federation, member);
    bool own = base == member->base;
    measure_speed(client, &update->message);
    tern_clients_mark_seen(client, now);
    client->row.version = own ? member->base_version : federation->merge.version;
    memcpy(client->row.replica, base, TERN_SHA256_SIZE);
    if ((client->row.abilities & TERN_WIRE_LEAVES) != 0) {
        client->overdue_ms = now; // rounds do not count on the client until it checks in again
    }
}

static enum tern_result merge_arrival(struct tern_federation *federation,
                                      const struct tern_incoming_update *update)
{
    const struct tern_arrival arrival = {.client = update->client,
                                         .round = update->round,
                                         .contribution = tern_contribution_of(&update->message),
                                         .container = update->container,
                                         .reading = update->reading,
                                         .sum_square = update->sum_square};
    TERN_TRY(tern_strategy_count_update(&federation->totals, &arrival.contribution));
    tern_merge_arrive(&federation->merge, &arrival);
    return TERN_OK;
}

// Stores a checked update and counts it in the open round. merged: the open round's number if the update was made for
// an earlier round; otherwise 0.
static enum tern_result count_update(struct tern_federation *federation,
                                     const struct tern_incoming_update *update,
                                     const struct tern_member *member, uint32_t merged,
                                     uint64_t now)
{
    TERN_TRY(store_update(federation, update, merged, now));
    TERN_TRY(tern_ledger_record_update(federation, update, now));
    TERN_TRY(update->message.masked ? tern_secure_note_update(federation, update->client)
                                    : merge_arrival(federation, update));
    note_report(federation, update, member, now);
    note_accepted(federation, client_of(federation, update->client));
    return tern_reliability_count_report(federation, update->client, member->tasked_ms, now);
}

static enum tern_result restore_base_of_task(struct tern_federation *federation, uint64_t id,
                                             uint32_t round)
{
    struct client *client = client_of(federation, id);
    struct tern_db_assignment assignment;
    struct tern_db_round own;
    struct tern_member member;
    TERN_TRY(tern_db_assignment_get(federation->db, round, id, &assignment));
    TERN_TRY(tern_db_round_get(federation->db, round, &own));
    TERN_TRY(make_member(federation, &own, &assignment, &member));
    // A check-in that is held open, or that came after the update, named a newer replica.
    if (!client->waiting && member.base_version >= client->row.version) {
        client->row.version = member.base_version;
        memcpy(client->row.replica, member.base, TERN_SHA256_SIZE);
        client->dirty = true;
    }
    return TERN_OK;
}

// Records that the client of an accepted update holds the replica that it trained from. Needed when the update is sent
// or queried once more after a crash: the client's row is written up to a second later than the update.
static enum tern_result restore_base(struct tern_federation *federation, uint64_t client,
                                     uint32_t round)
{
    return tern_db_may_miss(restore_base_of_task(federation, client, round));
}

// --- Updates that arrive after their round has closed

static enum tern_result find_staleness_max(const struct tern_db_round *row, uint32_t *staleness_max)
{
    struct tern_strategy_rule rule;
    TERN_TRY(tern_rule_read(row, &rule));
    *staleness_max = (uint32_t)rule.parameters[TERN_STRATEGY_STALENESS_MAX];
    return rule.strategy->accepts_late_updates ? TERN_OK : TERN_ERR_LATE;
}

// Checks whether a late update may count in the open round: TERN_OK, or TERN_ERR_LATE.
static enum tern_result check_late(const struct tern_federation *federation,
                                   const struct tern_incoming_update *update,
                                   const struct tern_db_round *own,
                                   const struct tern_db_assignment *assignment)
{
    uint32_t most = 0;
    if (!federation->machine.open || update->round <= federation->restored_round) {
        return TERN_ERR_LATE; // or its base was undone
    }
    TERN_TRY(find_staleness_max(&federation->row, &most));
    bool fresh = federation->row.base_version >= own->base_version &&
                 federation->row.base_version - own->base_version <= most;
    // reported_ms is set when an earlier answer made the client put the update back into its error buffer.
    bool given_back = assignment->reported_ms != 0;
    // An update without its indices cannot be completed, since shared indices exist only while their round is open.
    bool whole = !update->message.shared_indices;
    return fresh && whole && !given_back && assignment->local_steps != 0 ? TERN_OK : TERN_ERR_LATE;
}

static enum tern_result count_late(struct tern_federation *federation,
                                   const struct tern_incoming_update *update,
                                   struct tern_db_assignment *assignment,
                                   const struct tern_member *member, uint64_t now)
{
    const enum tern_db_assignment_state before = assignment->state;
    TERN_TRY(count_update(federation, update, member, federation->machine.round, now));
    assignment->state = TERN_ASSIGNMENT_REPORTED;
    assignment->reported_ms = now;
    assignment->decay = tern_ledger_kept_fraction(&update->message);
    TERN_TRY(tern_db_assignment_put(federation->db, assignment, &before));
    tern_round_add_late_updates(&federation->machine, 1);
    federation->unpublished.any = true;
    return TERN_OK;
}

// Whether the update's model and local steps fit the client's task. An update without the indices of its closed round
// cannot be checked further.
static bool fits_task(const struct tern_federation *federation,
                      const struct tern_incoming_update *update,
                      const struct tern_db_assignment *assignment)
{
    const tern_Update *message = &update->message;
    const bool whole = update->parsed == TERN_OK;
    const bool shared = update->parsed == TERN_ERR_STATE && message->shared_indices;
    return (whole || shared) &&
           is_of_our_model(federation, message->model_hash.bytes, message->model_hash.size) &&
           message->local_steps > 0 && message->local_steps <= assignment->local_steps;
}

// Whether the update arrived within round.deadline after the client fetched its task.
static bool was_in_time(const struct tern_federation *federation,
                        const struct tern_db_assignment *assignment, uint64_t now)
{
    return now <= assignment->tasked_ms + federation->config.round.deadline_ms;
}

// Refuses a late update, which the client then puts back into its error buffer, and records the refusal in the
// assignment. No other record shows that a device is always too slow for its tasks.
static enum tern_result refuse_late(struct tern_federation *federation,
                                    const struct tern_incoming_update *update,
                                    struct tern_db_assignment *assignment, enum tern_result why,
                                    uint64_t now, struct tern_refusal *refusal)
{
    refuse_update(federation, update, why, refusal);
    if (assignment->reported_ms != 0) {
        return TERN_OK;
    }
    if (fits_task(federation, update, assignment)) {
        assignment->decay = tern_ledger_kept_fraction(&update->message);
        if (why == TERN_ERR_LATE) {
            measure_speed(client_of(federation, update->client), &update->message);
        }
        if (why == TERN_ERR_LATE && was_in_time(federation, assignment, now)) {
            TERN_TRY(tern_reliability_count_report(federation, update->client,
                                                   assignment->tasked_ms, now));
        }
    }
    assignment->reported_ms = now;
    return tern_db_assignment_put(federation->db, assignment, &assignment->state);
}

// Processes a late update. With a strategy that buffers (FedBuff) the update counts in the open round; otherwise it is
// refused as `late`. A late update that was refused once never counts: the client has put it back into its error
// buffer, and a later update brings the same values.
static enum tern_result process_late_update(struct tern_federation *federation,
                                            const struct tern_incoming_update *update, uint64_t now,
                                            struct tern_refusal *refusal)
{
    struct tern_db_assignment assignment;
    struct tern_db_round own;
    struct tern_member member;
    uint32_t most = 0;
    enum tern_result found =
        tern_db_assignment_get(federation->db, update->round, update->client, &assignment);
    if (found == TERN_OK) {
        found = tern_db_round_get(federation->db, update->round, &own);
    }
    if (found != TERN_OK && found != TERN_ERR_NOT_FOUND) {
        return found;
    }
    const bool buffers = found == TERN_OK && find_staleness_max(&own, &most) == TERN_OK;
    if (found != TERN_OK || (!buffers && !fits_task(federation, update, &assignment))) {
        refuse_update(federation, update, TERN_ERR_LATE, refusal);
        return TERN_OK;
    }
    if (!buffers) {
        return refuse_late(federation, update, &assignment, TERN_ERR_LATE, now, refusal);
    }
    enum tern_result verdict = check_late(federation, update, &own, &assignment);
    if (verdict == TERN_OK && update->container_unread) {
        // The container was not decoded, because no open round could count the update when it arrived.
        tern_refusal_set(refusal, TERN_ERR_BUSY, NULL);
        return TERN_OK;
    }
    if (verdict == TERN_OK) {
        TERN_TRY(make_member(federation, &own, &assignment, &member));
        verdict = check_update(federation, update, &member);
    }
    return verdict == TERN_OK ? count_late(federation, update, &assignment, &member, now)
                              : refuse_late(federation, update, &assignment, verdict, now, refusal);
}

// --- Processing updates, on the thread that owns the store

// Stores that the client of an accepted update holds the epoch's full gradient (strategy qsvrg).
static enum tern_result store_anchor(struct tern_federation *federation, uint64_t id)
{
    const struct epoch *epoch = &federation->epoch;
    if (!epoch->is_on) {
        return TERN_OK;
    }
    const uint32_t anchor = epoch->step > 0 ? epoch->anchor : federation->machine.round;
    return tern_epoch_store_anchor(federation, id, anchor, epoch->step > 0);
}

static enum tern_result accept_update(struct tern_federation *federation,
                                      const struct tern_incoming_update *update,
                                      struct tern_member *member, uint64_t now)
{
    struct client *client = client_of(federation, update->client);
    TERN_TRY(count_update(federation, update, member, 0, now));
    TERN_TRY(store_anchor(federation, update->client));
    share_indices(federation, update, now);
    tern_round_record_report(&federation->machine, member, now);
    member->decay = tern_ledger_kept_fraction(&update->message);
    TERN_TRY(tern_members_store(federation, member));
    if (update->message.has_evaluation) {
        TERN_TRY(
            store_member_metrics(federation, update->client, member, &update->message.evaluation));
    }
    tern_clients_record_update(client, &update->message, update->sum_square);
    client->row.budget_spent +=
        client->round_bytes; // an estimate until the next check-in reports the exact remainder
    return TERN_OK;
}

// Processes an update whose round is closed or whose client has reported: compares the update with the stored one of
// the same round and client.
static enum tern_result compare_stored(struct tern_federation *federation,
                                       const struct tern_incoming_update *update, uint64_t now,
                                       bool *duplicate, struct tern_refusal *refusal)
{
    struct tern_db_update stored;
    enum tern_result found =
        tern_db_update_find(federation->db, update->round, update->client, &stored);
    if (found == TERN_ERR_NOT_FOUND) {
        return process_late_update(federation, update, now, refusal);
    }
    TERN_TRY(found);
    bool same = memcmp(stored.sha256, update->sha256, TERN_SHA256_SIZE) == 0;
    if (!same) {
        TERN_TRY(compare_without_indices(federation, update, &same));
    }
    *duplicate = same;
    if (same) {
        return restore_base(federation, update->client, update->round);
    }
    TERN_TRY(tern_ledger_record_conflict(federation, update, now));
    refuse_update(federation, update, TERN_ERR_CONFLICT, refusal);
    return TERN_OK;
}

enum tern_result tern_federation_receive_update(struct tern_federation *federation,
                                                const struct tern_incoming_update *update,
                                                uint64_t now, bool *duplicate,
                                                struct tern_refusal *refusal)
{
    *duplicate = false;
    enum tern_result verdict =
        tern_round_check_update(&federation->machine, update->client, update->round);
    if (verdict == TERN_ERR_LATE || verdict == TERN_ERR_CONFLICT) {
        return compare_stored(federation, update, now, duplicate, refusal);
    }
    if (verdict == TERN_OK && update->container_unread) {
        // The client guessed its task: the update was parsed before the reply with the task was sent.
        tern_refusal_set(refusal, TERN_ERR_BUSY, NULL);
        return TERN_OK;
    }
    struct tern_member *member = tern_round_member(&federation->machine, update->client);
    if (verdict == TERN_OK) {
        verdict = check_update(federation, update, member);
    }
    if (verdict != TERN_OK) {
        note_leader_refused(federation, update->client);
        refuse_update(federation, update, verdict, refusal);
        return is_about_values(verdict)
                   ? tern_reliability_drop_member(federation, update->client, update->round,
                                                  tern_TrainingFailure_FAILURE_NOT_FINITE)
                   : TERN_OK;
    }
    return accept_update(federation, update, member, now);
}

enum tern_result tern_federation_find_update(struct tern_federation *federation, uint64_t client,
                                             uint32_t round, uint8_t sha256[TERN_SHA256_SIZE])
{
    struct tern_db_update stored;
    TERN_TRY(tern_db_update_find(federation->db, round, client, &stored));
    memcpy(sha256, stored.sha256, TERN_SHA256_SIZE);
    return restore_base(federation, client, round);
}
