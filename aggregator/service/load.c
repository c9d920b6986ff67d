// Memory from the store, and back. After a batch that could not be committed everything here is
// built again, so that memory never runs ahead of the disk.
#include "service/internal.h"
#include "service/own_replicas.h"

#include <stdlib.h>
#include <string.h>

// --- Clients

struct client *client_of(struct tern_service *service, uint64_t id)
{
    return id == 0 || id > service->client_count ? NULL : &service->clients[id - 1];
}

// The limit of the setting is for enrolments; clients that are there already, from a time of a
// higher one or made by the command line, must not stop the service. This bounds a damaged file.
#define CLIENTS_MAX 100000000u

static enum tern_result make_client_room(struct tern_service *service, uint64_t id)
{
    if (id > CLIENTS_MAX) {
        return TERN_ERR_TOO_LARGE;
    }
    if (id <= service->client_capacity) {
        return TERN_OK;
    }
    uint32_t capacity = service->client_capacity == 0 ? 64 : service->client_capacity;
    while (capacity < id) {
        capacity *= 2;
    }
    struct client *clients = realloc(service->clients, capacity * sizeof clients[0]);
    if (clients == NULL) {
        return TERN_ERR_NO_MEMORY;
    }
    service->clients = clients;
    memset(clients + service->client_capacity, 0,
           (capacity - service->client_capacity) * sizeof clients[0]);
    uint64_t *eligible = realloc(service->eligible, capacity * sizeof eligible[0]);
    if (eligible == NULL) {
        return TERN_ERR_NO_MEMORY;
    }
    service->eligible = eligible;
    struct tern_member *members = realloc(service->machine.members, capacity * sizeof members[0]);
    if (members == NULL) {
        return TERN_ERR_NO_MEMORY;
    }
    service->machine.members = members;
    service->machine.member_capacity = capacity;
    service->client_capacity = capacity;
    return TERN_OK;
}

enum tern_result remember_client(struct tern_service *service, const struct tern_db_client *row)
{
    TERN_TRY(make_client_room(service, row->id));
    TERN_TRY(tern_gate_put(service->gate, row->id, row->token_hash, row->revoked));
    if (row->id > service->client_count) {
        service->client_count = (uint32_t)row->id;
    }
    struct client *client = &service->clients[row->id - 1];
    client->evaluator = row->evaluator;
    client->revoked = row->revoked;
    service->clients_changed = true;
    // What is dirty here is newer than the store.
    if (!client->dirty) {
        client->last_seen_ms = row->last_seen_ms;
        client->steps_per_second = row->steps_per_second;
        client->version = row->version;
        client->able = (struct abilities){.codecs = row->codecs,
                                          .coders = row->coders,
                                          .downloads_max = row->downloads_max,
                                          .from_seed = row->from_seed,
                                          .step_ahead = row->step_ahead};
        client->metered = row->metered;
        client->budgeted = row->budgeted;
        client->budget_left = row->budget_left;
        client->budget_spent = row->budget_spent;
        client->budget_renewed = row->budget_renewed;
        client->power = row->power;
        memcpy(client->replica, row->replica, TERN_SHA256_SIZE);
    }
    return TERN_OK;
}

struct loading {
    struct tern_service *service;
    enum tern_result result;
};

static bool reload_client(void *ctx, const struct tern_db_client *row)
{
    struct loading *loading = ctx;
    loading->result = remember_client(loading->service, row);
    return loading->result == TERN_OK;
}

enum tern_result load_clients(struct tern_service *service)
{
    struct loading loading = {service, TERN_OK};
    uint32_t before = service->client_count;
    if (service->config.psk) {
        TERN_TRY(psk_keys_load(&service->psk_keys, service->db));
    }
    service->client_count = 0;
    enum tern_result result = tern_db_client_each(service->db, reload_client, &loading);
    result = result != TERN_OK ? result : loading.result;
    if (result != TERN_OK) {
        service->client_count = before;
        return result;
    }
    // Clients whose enrolment was rolled back: nobody was told their tokens.
    if (service->client_count < before) {
        tern_gate_forget(service->gate, (uint64_t)service->client_count + 1);
        memset(&service->clients[service->client_count], 0,
               (before - service->client_count) * sizeof service->clients[0]);
    }
    return TERN_OK;
}

enum tern_result tern_service_reload_clients(struct tern_service *service)
{
    service->moved = true; // a revoked client's held check-in is to be answered
    return load_clients(service);
}

// --- Versions

static enum tern_result make_delta_room(struct tern_service *service, uint32_t version)
{
    if (version <= service->delta_capacity) {
        return TERN_OK;
    }
    uint32_t capacity = service->delta_capacity == 0 ? 64 : service->delta_capacity;
    while (capacity < version) {
        capacity *= 2;
    }
    struct delta *deltas = realloc(service->deltas, capacity * sizeof deltas[0]);
    if (deltas == NULL) {
        return TERN_ERR_NO_MEMORY;
    }
    memset(deltas + service->delta_capacity, 0,
           (capacity - service->delta_capacity) * sizeof deltas[0]);
    service->deltas = deltas;
    service->delta_capacity = capacity;
    return TERN_OK;
}

enum tern_result remember_delta(struct tern_service *service, uint32_t version,
                                const struct tern_db_download *download)
{
    TERN_TRY(make_delta_room(service, version));
    struct delta *delta = &service->deltas[version - 1];
    memcpy(delta->sha256, download->sha256, TERN_SHA256_SIZE);
    delta->size = download->size;
    delta->codec_known = tern_codec_parse(download->codec, &delta->codec, NULL) == TERN_OK;
    return TERN_OK;
}

static enum tern_result load_deltas(struct tern_service *service)
{
    uint32_t keep = service->config.limits.keep_versions;
    uint32_t version = service->merge.version;
    uint32_t first = version > keep ? version - keep + 1 : 1;
    // There may be none of them: a bound of bytes is kept by forgetting deltas.
    TERN_TRY(make_delta_room(service, version));
    if (service->deltas != NULL) {
        memset(service->deltas, 0, service->delta_capacity * sizeof service->deltas[0]);
    }
    for (uint32_t v = first; v <= version; v++) {
        struct tern_db_download download;
        enum tern_result found = tern_db_download_to(service->db, v, false, &download);
        if (found == TERN_OK) {
            found = remember_delta(service, v, &download);
        }
        if (found != TERN_OK && found != TERN_ERR_NOT_FOUND) {
            return found;
        }
    }
    enum tern_result found = tern_db_download_to(service->db, version, true, &service->snapshot);
    if (found == TERN_ERR_NOT_FOUND) {
        memset(&service->snapshot, 0, sizeof service->snapshot);
        return TERN_OK;
    }
    return found;
}

// The first start of a federation: version 0 is stored.
static enum tern_result store_seed_version(struct tern_service *service)
{
    struct tern_merge *merge = &service->merge;
    struct tern_db *db = service->db;
    TERN_TRY(tern_merge_first(merge, db));
    struct tern_db_version version = {.created_ms = service_now(service)};
    memcpy(version.replica, merge->replica_id, TERN_SHA256_SIZE);
    memcpy(version.model_sha256, merge->model_sha256, TERN_SHA256_SIZE);
    uint32_t count = merge->model.count;
    TERN_TRY(tern_db_begin(db));
    enum tern_result result = tern_db_version_put(db, &version);
    if (result == TERN_OK) {
        result = tern_db_weights_put(db, TERN_WEIGHTS_GLOBAL, 0, merge->global, count);
    }
    if (result == TERN_OK) {
        result = tern_db_weights_put(db, TERN_WEIGHTS_REPLICA, 0, merge->replica, count);
    }
    if (result != TERN_OK) {
        tern_db_rollback(db);
        return result;
    }
    return tern_db_commit(db);
}

static enum tern_result load_model(struct tern_service *service)
{
    enum tern_result result = tern_merge_load(&service->merge, service->db);
    if (result == TERN_ERR_NOT_FOUND) {
        return store_seed_version(service);
    }
    return result;
}

// --- Rounds

static bool load_round(void *ctx, const struct tern_db_round *row)
{
    struct tern_service *service = ctx;
    tern_round_restore(&service->machine, row->round, row->target, row->quorum, row->attempts,
                       row->opened_ms, row->deadline_ms);
    if (row->state == TERN_ROUND_COMMITTED) {
        tern_round_close(&service->machine, row->closed_ms);
        service->last_loss = row->mean_loss;
        follow_round(service, row);
    }
    service->row = *row;
    return true;
}

static enum tern_member_state member_state(enum tern_db_assignment_state state)
{
    switch (state) {
    case TERN_ASSIGNMENT_TASKED:
        return TERN_MEMBER_TASKED;
    case TERN_ASSIGNMENT_REPORTED:
        return TERN_MEMBER_REPORTED;
    case TERN_ASSIGNMENT_REPLACED:
        return TERN_MEMBER_REPLACED;
    case TERN_ASSIGNMENT_INVITED:
        break;
    }
    return TERN_MEMBER_INVITED;
}

static bool load_member(void *ctx, const struct tern_db_assignment *row)
{
    struct loading *loading = ctx;
    struct tern_member member = {.client = row->client,
                                 .state = member_state(row->state),
                                 .local_steps = row->local_steps,
                                 .invited_ms = row->invited_ms,
                                 .tasked_ms = row->tasked_ms,
                                 .reported_ms = row->reported_ms,
                                 .base_version = row->base_version,
                                 .directive = row->directive,
                                 .factor = row->factor};
    memcpy(member.base, row->base, sizeof member.base);
    memcpy(member.codec, row->codec, sizeof member.codec);
    loading->result = tern_round_restore_member(&loading->service->machine, &member);
    return loading->result == TERN_OK;
}

// Better told at the start than at the commit. TERN_ERR_UNKNOWN
static enum tern_result check_open_round(const struct tern_db_round *row)
{
    struct tern_codec codec;
    struct tern_strategy_rule rule;
    bool known = tern_rule_read(row, &rule) == TERN_OK &&
                 tern_codec_parse(row->codec_up, &codec, NULL) == TERN_OK &&
                 tern_codec_parse(row->codec_down, &codec, NULL) == TERN_OK;
    return known ? TERN_OK : TERN_ERR_UNKNOWN;
}

static enum tern_result load_rounds(struct tern_service *service)
{
    struct tern_round_policy policy = service->config.round;
    policy.seed = service->federation.seed;
    service->last_loss = 0.0F;
    tern_steps_course_init(&service->course, &service->config.steps);
    tern_round_init(&service->machine, &policy, service->machine.members,
                    service->machine.member_capacity);
    memset(&service->row, 0, sizeof service->row);
    TERN_TRY(tern_db_round_each(service->db, load_round, service));
    memset(&service->totals, 0, sizeof service->totals);
    if (!service->machine.open) {
        return TERN_OK;
    }
    TERN_TRY(check_open_round(&service->row));
    if (policy.fraction > 0.0 && service->machine.target > policy.cohort) {
        service->machine.policy.cohort = service->machine.target; // the share that it began with
    }
    TERN_TRY(tern_merge_count(service->db, &service->row, &service->totals));
    service->machine.buffers = service->totals.rule.strategy->takes_late;
    struct loading loading = {service, TERN_OK};
    TERN_TRY(tern_db_assignment_each(service->db, service->machine.round, load_member, &loading));
    tern_round_buffered(&service->machine, service->totals.updates - service->machine.reported);
    return loading.result;
}

static bool load_evaluation(void *ctx, const struct tern_db_evaluation *row)
{
    struct client *client = client_of(ctx, row->client);
    if (client != NULL && row->version > client->evaluated) {
        client->evaluated = row->version;
    }
    return true;
}

enum tern_result load_state(struct tern_service *service)
{
    for (uint32_t i = 0; i < service->client_count; i++) {
        service->clients[i].evaluated = 0;
    }
    TERN_TRY(load_model(service));
    TERN_TRY(load_clients(service));
    TERN_TRY(load_schedule(service));
    TERN_TRY(load_rounds(service));
    TERN_TRY(load_drift(service));
    TERN_TRY(load_places(service));
    TERN_TRY(own_replicas_load(service));
    TERN_TRY(load_deltas(service));
    TERN_TRY(tern_db_evaluation_each(service->db, load_evaluation, service));
    service->moved = true;
    return TERN_OK;
}

// --- Writing back

static enum tern_result store_row(struct tern_service *service, uint64_t id,
                                  const struct client *client)
{
    struct tern_db_client row;
    // Read first: another process may have revoked it since.
    TERN_TRY(tern_db_client_get(service->db, id, &row));
    row.last_seen_ms = client->last_seen_ms;
    row.steps_per_second = client->steps_per_second;
    row.version = client->version;
    row.codecs = client->able.codecs;
    row.coders = client->able.coders;
    row.downloads_max = client->able.downloads_max;
    row.from_seed = client->able.from_seed;
    row.step_ahead = client->able.step_ahead;
    row.metered = client->metered;
    row.budgeted = client->budgeted;
    row.budget_left = client->budget_left;
    row.budget_spent = client->budget_spent;
    row.budget_renewed = client->budget_renewed;
    row.power = client->power;
    if (memcmp(row.replica, client->replica, TERN_SHA256_SIZE) != 0) {
        TERN_TRY(tern_db_replica_suspect(service->db, row.replica, true));
        memcpy(row.replica, client->replica, TERN_SHA256_SIZE);
    }
    return tern_db_client_update(service->db, &row);
}

// What could not be stored is dropped, and comes from the store again: kept, it would fail every
// batch from then on. The client's next check-in says the same anew.
enum tern_result store_client(struct tern_service *service, uint64_t id)
{
    struct client *client = client_of(service, id);
    enum tern_result result = store_row(service, id, client);
    client->dirty = client->dirty && result == TERN_OK;
    return result;
}

enum tern_result flush_state(struct tern_service *service)
{
    for (uint32_t i = 0; i < service->client_count; i++) {
        if (service->clients[i].dirty) {
            TERN_TRY(store_client(service, (uint64_t)i + 1));
        }
    }
    if (service->collect_due) {
        TERN_TRY(own_replicas_collect(service));
    }
    return tern_metering_flush(service->metering, service->db);
}
