#include "federation/update.h"

#include "codec/sparse_share.h"
#include "federation/ledger.h"
#include "federation/refusals.h"
#include "merge/merge.h"
#include "rounds/machine.h"
#include "strategies/bounds.h"
#include "util/bytes.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// The download with the indices that the open round's leader chose. It is not stored: after a restart it is made again
// from the leader's stored update.
struct shared_indices {
    uint8_t sha256[TERN_SHA256_SIZE];
    uint32_t payload;
    bool awaited; // tasks waited for the leader's update at the last tern_indices_check_leader()
    uint32_t refused; // round whose leader's update was refused
};

enum tern_result tern_indices_reset(struct shared_indices **indices)
{
    if (*indices == NULL) {
        *indices = malloc(sizeof **indices);
        if (*indices == NULL) {
            return TERN_ERR_NO_MEMORY;
        }
    }
    memset(*indices, 0, sizeof **indices);
    return TERN_OK;
}

// --- Metrics that clients report with updates and evaluations

// Most metric names per client, over all versions; the number of the client's worst class counts as one.
#define CLIENT_METRICS 64

static enum tern_result put_metric(struct tern_federation *federation, struct tern_db_metric *row,
                                   const char *name, float value)
{
    memset(row->name, 0, sizeof row->name);
    strncpy(row->name, name, sizeof row->name - 1);
    row->value = value;
    return tern_db_metric_put(federation->db, row);
}

// Whether a metric's name can be a JSON key and a table's column: it has plain characters and is none of the names that
// the tables use themselves.
static bool is_plain(const char *name)
{
    static const char *const taken[] = {"client", "clients", "invited", "model", "reported"};
    for (size_t i = 0; i < sizeof taken / sizeof taken[0]; i++) {
        if (strcmp(name, taken[i]) == 0) {
            return false;
        }
    }
    return name[strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_")] == '\0';
}

struct names {
    char list[CLIENT_METRICS][TERN_DB_METRIC_MAX];
    uint32_t count;
};

static bool is_known(const struct names *names, const char *name)
{
    for (uint32_t i = 0; i < names->count; i++) {
        if (strcmp(names->list[i], name) == 0) {
            return true;
        }
    }
    return false;
}

static bool take_name(struct names *names, const char *name)
{
    if (is_known(names, name)) {
        return true;
    }
    if (names->count == CLIENT_METRICS) {
        return false;
    }
    snprintf(names->list[names->count++], TERN_DB_METRIC_MAX, "%s", name);
    return true;
}

static void note_dropped(struct client *client, const char *name)
{
    client->metrics_dropped++;
    if (is_power_of_two(client->metrics_dropped)) {
        tern_log(TERN_LOG_WARN, "metric-dropped", "client=%llu name=%s names=%d count=%u",
                 (unsigned long long)client->row.id, TERN_LOG_TEXT(name), CLIENT_METRICS,
                 client->metrics_dropped);
    }
}

// Returns a digest of the evaluation's metric names. Clients repeat the same names, so comparing digests saves database
// queries.
static uint64_t digest_of(const tern_Evaluation *evaluation)
{
    struct tern_sha256 hash;
    uint8_t digest[TERN_SHA256_SIZE];
    tern_sha256_init(&hash);
    for (pb_size_t i = 0; i < evaluation->metrics_count; i++) {
        const char *name = evaluation->metrics[i].name;
        tern_sha256_update(&hash, name, strlen(name) + 1);
    }
    tern_sha256_final(&hash, digest);
    return tern_get_le64(digest);
}

// Sets *names to the client's known metric names and those of the evaluation that fit in the limit. *names stays empty
// if the evaluation repeats the names of the last one.
static enum tern_result take_names(struct tern_federation *federation, struct client *client,
                                   const tern_Evaluation *evaluation, struct names *names)
{
    const uint64_t digest = digest_of(evaluation);
    bool all = true;
    names->count = 0;
    if (digest != client->metric_names) {
        TERN_TRY(tern_db_metric_names(federation->db, client->row.id, names->list, CLIENT_METRICS,
                                      &names->count));
    }
    for (pb_size_t i = 0; i < evaluation->metrics_count; i++) {
        const char *name = evaluation->metrics[i].name;
        if (is_plain(name) && !take_name(names, name)) {
            note_dropped(client, name);
            all = false;
        }
    }
    client->metric_names = all ? digest : 0;
    return TERN_OK;
}

// Replaces the client's metrics of the version.
static enum tern_result put_metrics(struct tern_federation *federation, struct tern_db_metric *row,
                                    const tern_Evaluation *evaluation)
{
    struct names names;
    TERN_TRY(tern_db_metrics_drop(federation->db, row->version, row->client));
    TERN_TRY(take_names(federation, client_of(federation, row->client), evaluation, &names));
    for (pb_size_t i = 0; i < evaluation->metrics_count; i++) {
        const char *name = evaluation->metrics[i].name;
        if (is_plain(name) && is_known(&names, name)) {
            TERN_TRY(put_metric(federation, row, name, evaluation->metrics[i].value));
        }
    }
    return TERN_OK;
}

enum tern_result tern_evaluation_store_metrics(struct tern_federation *federation,
                                               const struct tern_db_evaluation *found,
                                               const tern_Evaluation *evaluation)
{
    struct tern_db_metric row = {.version = found->version,
                                 .client = found->client,
                                 .of_evaluator = true,
                                 .late = found->late,
                                 .model = found->model,
                                 .num_examples = found->num_examples};
    return put_metrics(federation, &row, evaluation);
}

// Stores the evaluation that came with a member's accepted update: of the weights that it trained from, on its own held-out
// data.
static enum tern_result store_member_metrics(struct tern_federation *federation, uint64_t client,
                                             const struct tern_member *member,
                                             const tern_Evaluation *evaluation)
{
    bool global = false;
    TERN_TRY(tern_catchup_is_global(federation->catchup, member->base, &global));
    struct tern_db_metric row = {.version = member->base_version,
                                 .client = client,
                                 .model = global ? TERN_EVALUATED_GLOBAL : TERN_EVALUATED_REPLICA,
                                 .num_examples = evaluation->num_examples};
    TERN_TRY(put_metrics(federation, &row, evaluation));
    TERN_TRY(
        put_metric(federation, &row, "loss", evaluation->loss)); // replaces a metric of this name
    return evaluation->no_accuracy ? TERN_OK
                                   : put_metric(federation, &row, "accuracy", evaluation->accuracy);
}

// --- Indices that a round's leader chose: waiting for the leader

// Finds the codec of the open round's updates. False: the round's clients share no indices.
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

// Returns the leader whose update will bring the indices; 0 = the round waits for no leader.
static uint64_t awaited_leader(const struct tern_federation *federation, uint64_t now)
{
    const struct tern_round_machine *machine = &federation->machine;
    struct tern_codec codec;
    if (!find_shared_codec(federation, &codec) || federation->indices->refused == machine->round ||
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
    // A client that has its task already gets it again.
    return leader != 0 && leader != id && member != NULL && member->local_steps == 0;
}

bool tern_indices_are_awaited(const struct tern_federation *federation)
{
    return federation->indices->awaited;
}

void tern_indices_check_leader(struct tern_federation *federation, uint64_t now)
{
    bool awaited = awaited_leader(federation, now) != 0;
    federation->moved = federation->moved || (federation->indices->awaited && !awaited);
    federation->indices->awaited = awaited;
}

static void note_leader_refused(struct tern_federation *federation, uint64_t id)
{
    struct tern_codec codec;
    if (find_shared_codec(federation, &codec) && tern_round_leader(&federation->machine) == id) {
        federation->indices->refused = federation->machine.round;
    }
}

// --- Indices: making the download

// Makes and publishes the download with the indices of the update. If memory is short, or the update lists no indices,
// the round shares none.
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
    memcpy(federation->indices->sha256, made.sha256, TERN_SHA256_SIZE);
    federation->indices->payload = (uint32_t)made.payload;
    tern_published_set_indices(&federation->published, federation->machine.round, blob);
}

// Shares the update's indices if it is the leader's. Called before the update's member counts as reported.
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

static enum tern_result take_if_wanted(void *ctx, const struct tern_db_update *row)
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

static enum tern_result take_leaders(void *ctx, const tern_Update *message,
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
    federation->indices->awaited = false;
    tern_published_set_indices(&federation->published, 0, NULL);
    if (!find_shared_codec(federation, &codec)) {
        return TERN_OK;
    }
    const struct tern_member *leader = tern_round_member(machine, tern_round_leader(machine));
    if (leader == NULL || leader->state != TERN_MEMBER_REPORTED ||
        leader->reported_ms >= tern_round_leader_deadline_ms(machine)) {
        return TERN_OK;
    }
    struct stored_update wanted = {leader->client, take_leaders, federation};
    return tern_db_update_each(federation->db, machine->round, take_if_wanted, &wanted);
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
    memcpy(task->indices.sha256.bytes, federation->indices->sha256, TERN_SHA256_SIZE);
    task->indices.size = (uint32_t)blob->len;
    tern_blob_release(blob);
}

enum tern_result tern_indices_find_blob(struct tern_federation *federation,
                                        const uint8_t sha256[TERN_SHA256_SIZE],
                                        struct tern_blob **blob, uint32_t *payload)
{
    const struct shared_indices *indices = federation->indices;
    struct tern_published *published = &federation->published;
    if (memcmp(sha256, indices->sha256, TERN_SHA256_SIZE) != 0) {
        return TERN_ERR_NOT_FOUND;
    }
    *payload = indices->payload;
    *blob = tern_published_indices(published, published->indices_round);
    return *blob != NULL ? TERN_OK : TERN_ERR_NOT_FOUND;
}

// --- Indices: putting them back into an update

// Encodes the update again with the container that has its indices.
static enum tern_result rebuild(struct tern_incoming_update *update, struct tern_span container)
{
    size_t size = container.len + TERN_WIRE_OVERHEAD;
    size_t len = 0;
    update->body_with_indices = malloc(size);
    if (update->body_with_indices == NULL) {
        return TERN_ERR_NO_MEMORY;
    }
    TERN_TRY(tern_wire_encode_update(&update->message, container, update->body_with_indices, size,
                                     &len));
    update->body = (struct tern_span){update->body_with_indices, len};
    tern_sha256(update->body_with_indices, len, update->sha256);
    return tern_wire_decode_update(update->body_with_indices, len, &update->message,
                                   &update->container);
}

static enum tern_result join(const struct tern_model *model, struct tern_span indices,
                             struct tern_incoming_update *update)
{
    size_t bound = tern_sparse_join_bound(model, indices.len, update->container.len);
    struct tern_span joined = {NULL, 0};
    uint8_t *container = malloc(bound);
    if (container == NULL) {
        return TERN_ERR_NO_MEMORY;
    }
    enum tern_result result =
        tern_sparse_join(model, indices.data, indices.len, update->container.data,
                         update->container.len, container, bound, &joined.len);
    joined.data = container;
    if (result == TERN_OK) {
        result = rebuild(update, joined);
    }
    free(container);
    return result;
}

// Puts the round's shared indices into an update that was sent without indices. Any thread.
// TERN_ERR_STATE  its round shares no indices; TERN_ERR_CORRUPT, TERN_ERR_NO_MEMORY
static enum tern_result join_indices(struct tern_federation *federation,
                                     struct tern_incoming_update *update)
{
    tern_Download message;
    struct tern_span indices;
    struct tern_blob *blob = tern_published_indices(&federation->published, update->round);
    if (blob == NULL) {
        return TERN_ERR_STATE;
    }
    enum tern_result result = tern_wire_decode_download(blob->data, blob->len, &message, &indices);
    if (result == TERN_OK) {
        result = join(&federation->merge.model, indices, update);
    }
    tern_blob_release(blob);
    return result;
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

// Whether the update equals the stored one, for an update without indices whose round no longer shares them: compares
// with the stored body less its indices. If that body was deleted, the sequence number decides.
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
    TERN_TRY(tern_db_update_each(federation->db, update->round, take_if_wanted, &wanted));
    *same = comparison.same;
    return TERN_OK;
}

// --- Checking and counting updates

_Static_assert(TERN_WIRE_LOCAL_STEPS_MAX <= TERN_UPDATE_LOCAL_STEPS_MAX,
               "strategies/bounds.h must allow as many local steps as a task may have");

// Whether the update's norm, multiplied by `scale`, exceeds the limit; also true for NaN. A strategy that normalises
// scales up an update of fewer local steps than its task, by scale_max at most.
static bool over_norm(const struct tern_federation *federation, double sum_square, double scale)
{
    // Uses the rule in the open round's row: the configuration may have changed since.
    double most = tern_strategy_norm_max(&federation->totals.rule);
    double limit = federation->config.limits.norm < most ? federation->config.limits.norm : most;
    return !(sum_square * scale * scale <= limit * limit);
}

// Returns the replica that the member's task named; without one, the newest version's replica.
static const uint8_t *base_of(const struct tern_federation *federation,
                              const struct tern_member *member)
{
    static const uint8_t none[TERN_SHA256_SIZE];
    bool named = memcmp(member->base, none, TERN_SHA256_SIZE) != 0;
    return named ? member->base : federation->merge.replica_id;
}

// Fills in the member of an earlier round, `own`, from its stored assignment.
static enum tern_result member_of(struct tern_federation *federation,
                                  const struct tern_db_round *own,
                                  const struct tern_db_assignment *row, struct tern_member *member)
{
    static const uint8_t none[TERN_SHA256_SIZE];
    struct tern_db_version version;
    *member = (struct tern_member){.client = row->client,
                                   .local_steps = row->local_steps,
                                   .tasked_ms = row->tasked_ms,
                                   .base_version = row->base_version};
    memcpy(member->base, row->base, TERN_SHA256_SIZE);
    if (memcmp(row->base, none, TERN_SHA256_SIZE) == 0) { // the base was the version's replica
        TERN_TRY(tern_db_version_get(federation->db, own->base_version, &version));
        memcpy(member->base, version.replica, TERN_SHA256_SIZE);
        member->base_version = own->base_version;
    }
    return TERN_OK;
}

// Checks an update of a member of its round. The first failing check gives the result. Every update that passes can be
// merged without overflow (strategies/bounds.h).
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
    double scale = tern_strategy_steps_factor_max(&federation->totals.rule, member->local_steps,
                                                  message->local_steps);
    if (over_norm(federation, update->sum_square, scale)) {
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
                                 .merged = merged};
    memcpy(row.sha256, update->sha256, TERN_SHA256_SIZE);
    return tern_db_update_put(federation->db, &row);
}

static void measure_speed(struct client *client, const tern_Update *message)
{
    client->dirty = true;
    client->row.steps_per_second = tern_steps_speed(&client->done, client->row.steps_per_second,
                                                    message->local_steps, message->train_ms);
}

// Records that the client reported and holds the replica that it trained from.
static void take_report(struct tern_federation *federation,
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
}

// Stores a checked update and counts it in the open round. merged: the open round's number if the update was made for
// an earlier round; otherwise 0.
static enum tern_result count_update(struct tern_federation *federation,
                                     const struct tern_incoming_update *update,
                                     const struct tern_member *member, uint32_t merged,
                                     uint64_t now)
{
    const struct tern_contribution contribution = tern_contribution_of(&update->message);
    TERN_TRY(store_update(federation, update, merged, now));
    TERN_TRY(tern_ledger_record_update(federation, update, now));
    TERN_TRY(tern_strategy_count_update(&federation->totals, &contribution));
    struct tern_arrival arrival = {.client = update->client,
                                   .round = update->round,
                                   .contribution = contribution,
                                   .container = update->container,
                                   .reading = update->reading,
                                   .sum_square = update->sum_square};
    memcpy(arrival.sha256, update->sha256, TERN_SHA256_SIZE);
    if (update->deferred) {
        tern_merge_defer(&federation->merge, &arrival);
    } else {
        tern_merge_arrive(&federation->merge, &arrival);
    }
    take_report(federation, update, member, now);
    tern_refusals_update_accepted(federation, client_of(federation, update->client));
    return tern_reliability_count_report(federation, update->client, member->tasked_ms, now);
}

static enum tern_result go_back_to_base(struct tern_federation *federation, uint64_t id,
                                        uint32_t round)
{
    struct client *client = client_of(federation, id);
    struct tern_db_assignment assignment;
    struct tern_db_round own;
    struct tern_member member;
    TERN_TRY(tern_db_assignment_get(federation->db, round, id, &assignment));
    TERN_TRY(tern_db_round_get(federation->db, round, &own));
    TERN_TRY(member_of(federation, &own, &assignment, &member));
    // A held or a later check-in names a newer replica.
    if (!client->waiting && member.base_version >= client->row.version) {
        client->row.version = member.base_version;
        memcpy(client->row.replica, member.base, TERN_SHA256_SIZE);
        client->dirty = true;
    }
    return TERN_OK;
}

// Records that the client of an accepted update holds the replica that it trained from. Needed when the update is sent
// or queried again after a crash: the client's row is written up to a second later than the update.
static enum tern_result restore_base(struct tern_federation *federation, uint64_t client,
                                     uint32_t round)
{
    return tern_db_may_miss(go_back_to_base(federation, client, round));
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
    if (!federation->machine.open) {
        return TERN_ERR_LATE;
    }
    TERN_TRY(find_staleness_max(&federation->row, &most));
    bool fresh = federation->row.base_version >= own->base_version &&
                 federation->row.base_version - own->base_version <= most;
    // The time is set when the client was told to put the update back into its error buffer.
    bool given_back = assignment->reported_ms != 0;
    // Shared indices exist only while their round is open.
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

// Whether the update's model and local steps fit the client's task. An update without its closed round's indices cannot
// be checked further.
static bool did_task(const struct tern_federation *federation,
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

// Whether the update arrived within round.deadline after the client fetched the task.
static bool was_in_time(const struct tern_federation *federation,
                        const struct tern_db_assignment *assignment, uint64_t now)
{
    return now <= assignment->tasked_ms + federation->config.round.deadline_ms;
}

// Refuses a late update, which the client then puts back into its error buffer, and records this. No other record shows
// that a device is always too slow for its tasks.
static enum tern_result give_back(struct tern_federation *federation,
                                  const struct tern_incoming_update *update,
                                  struct tern_db_assignment *assignment, enum tern_result why,
                                  uint64_t now, struct tern_refusal *refusal)
{
    tern_refusals_refuse_update(federation, update, why, refusal);
    if (assignment->reported_ms != 0) {
        return TERN_OK;
    }
    if (did_task(federation, update, assignment)) {
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

// Processes a late update. With a strategy that buffers (FedBuff) it counts in the open round; otherwise it is refused
// as `late`. An update once refused so never counts: the client has put it back into its error buffer, and a later
// update brings the same values.
static enum tern_result take_late(struct tern_federation *federation,
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
    if (found != TERN_OK || (!buffers && !did_task(federation, update, &assignment))) {
        tern_refusals_refuse_update(federation, update, TERN_ERR_LATE, refusal);
        return TERN_OK;
    }
    if (!buffers) {
        return give_back(federation, update, &assignment, TERN_ERR_LATE, now, refusal);
    }
    enum tern_result verdict = check_late(federation, update, &own, &assignment);
    if (verdict == TERN_OK && update->container_unread) {
        // No round that could count the update was open when its container would have been read.
        tern_refusal_set(refusal, TERN_ERR_BUSY, NULL);
        return TERN_OK;
    }
    if (verdict == TERN_OK) {
        TERN_TRY(member_of(federation, &own, &assignment, &member));
        verdict = check_update(federation, update, &member);
    }
    return verdict == TERN_OK ? count_late(federation, update, &assignment, &member, now)
                              : give_back(federation, update, &assignment, verdict, now, refusal);
}

// --- Reading updates, on the thread that received them

static enum tern_result read_values(struct tern_federation *federation,
                                    struct tern_incoming_update *update)
{
    struct tern_codec_info info;
    TERN_TRY(tern_reading_make(&federation->readings, &federation->merge.model,
                               update->container.data, update->container.len, &info,
                               &update->reading));
    update->sum_square = info.sum_square;
    return info.skipped_nonzero == 0 ? TERN_OK : TERN_ERR_CORRUPT;
}

// Parses the body, and reads the container only if the update may count. A repeated update needs only its indices put
// back, because it is compared by its hash.
static enum tern_result read_body(struct tern_federation *federation,
                                  struct tern_incoming_update *update)
{
    struct tern_published_verdict standing =
        tern_published_check_update(&federation->published, update->client, update->round);
    update->container_unread = standing.verdict != TERN_OK;
    TERN_TRY(tern_wire_decode_update(update->body.data, update->body.len, &update->message,
                                     &update->container));
    update->payload = (uint32_t)update->container.len;
    if (update->message.shared_indices) {
        bool wanted = !update->container_unread || standing.reported;
        TERN_TRY(wanted ? join_indices(federation, update) : TERN_ERR_STATE);
    }
    return update->container_unread ? TERN_OK : read_values(federation, update);
}

void tern_federation_read_update(struct tern_federation *federation,
                                 struct tern_incoming_update *update)
{
    update->received = (uint32_t)update->body.len;
    tern_sha256(update->body.data, update->body.len, update->sha256);
    update->parsed = read_body(federation, update);
}

void tern_federation_read_values(struct tern_federation *federation,
                                 struct tern_incoming_update *update)
{
    if (update->parsed == TERN_OK) {
        update->parsed = read_values(federation, update);
    }
}

void tern_incoming_update_free(struct tern_incoming_update *update)
{
    free(update->body_with_indices);
    tern_reading_free(update->reading);
    update->body_with_indices = NULL;
    update->reading = NULL;
}

bool tern_federation_has_opened(struct tern_federation *federation, uint32_t round)
{
    return tern_published_check_update(&federation->published, 0, round).verdict !=
           TERN_ERR_UNKNOWN_ROUND;
}

enum tern_result tern_federation_expects_update(struct tern_federation *federation, uint64_t client,
                                                uint32_t round)
{
    const enum tern_result verdict =
        tern_published_check_update(&federation->published, client, round).verdict;
    const bool is_for_nothing =
        verdict == TERN_ERR_UNKNOWN_ROUND || verdict == TERN_ERR_NOT_IN_COHORT;
    return is_for_nothing ? verdict : TERN_OK;
}

// --- Processing updates, on the thread that owns the store

// Stores that the client of an accepted update holds the epoch's full gradient.
static enum tern_result hold_anchor(struct tern_federation *federation, uint64_t id)
{
    const struct epoch *epoch = &federation->epoch;
    if (!epoch->is_on) {
        return TERN_OK;
    }
    const uint32_t anchor = epoch->step > 0 ? epoch->anchor : federation->machine.round;
    return tern_epoch_store_anchor(federation, id, anchor, epoch->step > 0);
}

static enum tern_result accept(struct tern_federation *federation,
                               const struct tern_incoming_update *update,
                               struct tern_member *member, uint64_t now)
{
    struct client *client = client_of(federation, update->client);
    TERN_TRY(count_update(federation, update, member, 0, now));
    TERN_TRY(hold_anchor(federation, update->client));
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
        client->round_bytes; // until the next check-in reports the exact remainder
    return TERN_OK;
}

// Processes an update whose round is closed or whose client has reported: compares it with the stored update of the
// same round and client.
static enum tern_result compare_stored(struct tern_federation *federation,
                                       const struct tern_incoming_update *update, uint64_t now,
                                       bool *duplicate, struct tern_refusal *refusal)
{
    struct tern_db_update stored;
    enum tern_result found =
        tern_db_update_find(federation->db, update->round, update->client, &stored);
    if (found == TERN_ERR_NOT_FOUND) {
        return take_late(federation, update, now, refusal);
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
    tern_refusals_refuse_update(federation, update, TERN_ERR_CONFLICT, refusal);
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
        // The client guessed its task: the update was read before the reply with the task was sent.
        tern_refusal_set(refusal, TERN_ERR_BUSY, NULL);
        return TERN_OK;
    }
    struct tern_member *member = tern_round_member(&federation->machine, update->client);
    if (verdict == TERN_OK) {
        verdict = check_update(federation, update, member);
    }
    if (verdict != TERN_OK) {
        note_leader_refused(federation, update->client);
        tern_refusals_refuse_update(federation, update, verdict, refusal);
        return tern_refusals_is_about_values(verdict)
                   ? tern_reliability_drop_member(federation, update->client, update->round,
                                                  tern_TrainingFailure_FAILURE_NOT_FINITE)
                   : TERN_OK;
    }
    return accept(federation, update, member, now);
}

enum tern_result tern_federation_find_update(struct tern_federation *federation, uint64_t client,
                                             uint32_t round, uint8_t sha256[TERN_SHA256_SIZE])
{
    struct tern_db_update stored;
    TERN_TRY(tern_db_update_find(federation->db, round, client, &stored));
    memcpy(sha256, stored.sha256, TERN_SHA256_SIZE);
    return restore_base(federation, client, round);
}
