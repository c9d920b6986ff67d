// What a client should do now: train, evaluate, wait or stop.
#include "service/internal.h"

#include "downloads/plan.h"
#include "rounds/leader.h"
#include <string.h>

static const uint8_t no_replica[TERN_SHA256_SIZE];

// --- Catching up

struct reader {
    const struct tern_service *service;
    const struct client *client;
};

// What the planner is told of the delta that makes a version. One from before its codec was
// recorded is taken to be readable, as it was then.
static uint32_t delta_bytes(void *ctx, uint32_t version)
{
    const struct reader *reader = ctx;
    const struct delta *delta = &reader->service->deltas[version - 1];
    bool readable = !delta->codec_known || abilities_decode(&reader->client->able, &delta->codec);
    return readable ? delta->size : 0;
}

static bool takes_snapshots(const struct client *client)
{
    return abilities_know(&client->able, TERN_CODEC_FLOAT32);
}

// The version that a client's replica is, and what it takes. One that holds nothing yet makes the
// seed's by itself.
static enum tern_result position_of(struct tern_service *service, const struct client *client,
                                    struct tern_plan_client *held)
{
    *held = (struct tern_plan_client){.known = true,
                                      .chain_max = client->able.downloads_max,
                                      .no_snapshots = !takes_snapshots(client)};
    if (memcmp(client->replica, no_replica, TERN_SHA256_SIZE) == 0) {
        return TERN_OK;
    }
    if (memcmp(client->replica, service->merge.replica_id, TERN_SHA256_SIZE) == 0) {
        held->version = service->merge.version;
        return TERN_OK;
    }
    enum tern_result found =
        tern_db_version_of_replica(service->db, client->replica, &held->version);
    if (found == TERN_ERR_NOT_FOUND) {
        held->known = false;
        return TERN_OK;
    }
    return found;
}

static void add_download(tern_Task *task, const uint8_t sha256[TERN_SHA256_SIZE], uint32_t size)
{
    tern_DownloadRef *ref = &task->downloads[task->downloads_count++];
    ref->sha256.size = TERN_SHA256_SIZE;
    memcpy(ref->sha256.bytes, sha256, TERN_SHA256_SIZE);
    ref->size = size;
}

// Makes and stores the snapshot of the present version, once.
static enum tern_result make_snapshot(struct tern_service *service)
{
    struct tern_merge *merge = &service->merge;
    struct tern_download_made made;
    if (service->snapshot.size != 0) {
        return TERN_OK;
    }
    TERN_TRY(tern_download_snapshot(&merge->model, merge->replica, merge->replica_id,
                                    merge->version, &merge->buffers, &made));
    struct tern_db_download row = {.snapshot = true,
                                   .to_version = merge->version,
                                   .size = (uint32_t)made.len,
                                   .payload = (uint32_t)made.payload};
    tern_codec_format(&made.codec, row.codec);
    memcpy(row.sha256, made.sha256, TERN_SHA256_SIZE);
    TERN_TRY(tern_db_download_put(service->db, &row, merge->buffers.blob));
    service->snapshot = row;
    return TERN_OK;
}

// A snapshot's size before it is made: exact but for a few bytes of framing.
static uint32_t snapshot_bytes(const struct tern_service *service)
{
    if (service->snapshot.size != 0) {
        return service->snapshot.size;
    }
    return service->merge.model.count * 4;
}

static enum tern_plan plan_for(struct tern_service *service, const struct client *client,
                               const struct tern_plan_client *held)
{
    struct reader reader = {service, client};
    return tern_plan_choose(held, service->merge.version, snapshot_bytes(service), delta_bytes,
                            &reader);
}

// Only who takes no snapshots can be left without a way.
enum tern_result is_stranded(struct tern_service *service, const struct client *client,
                             bool *stranded)
{
    struct tern_plan_client held;
    *stranded = false;
    if (takes_snapshots(client)) {
        return TERN_OK;
    }
    TERN_TRY(position_of(service, client, &held));
    *stranded = plan_for(service, client, &held) == TERN_PLAN_NONE;
    return TERN_OK;
}

// TERN_ERR_STATE  the client is stranded
static enum tern_result add_catch_up(struct tern_service *service, const struct client *client,
                                     const struct tern_plan_client *held, tern_Task *task)
{
    uint32_t version = service->merge.version;
    switch (plan_for(service, client, held)) {
    case TERN_PLAN_NOTHING:
        break;
    case TERN_PLAN_CHAIN:
        for (uint32_t v = held->version + 1; v <= version; v++) {
            add_download(task, service->deltas[v - 1].sha256, service->deltas[v - 1].size);
        }
        break;
    case TERN_PLAN_SNAPSHOT:
        TERN_TRY(make_snapshot(service));
        add_download(task, service->snapshot.sha256, service->snapshot.size);
        break;
    case TERN_PLAN_NONE:
        return TERN_ERR_STATE;
    }
    return TERN_OK;
}

static void set_base(tern_Task *task, const uint8_t replica[TERN_SHA256_SIZE], uint32_t version)
{
    task->base.size = TERN_SHA256_SIZE;
    memcpy(task->base.bytes, replica, TERN_SHA256_SIZE);
    task->base_version = version;
}

// --- Training

static void fill_training(const struct tern_service *service, tern_Task *task)
{
    const struct tern_service_train *train = &service->config.train;
    const struct tern_db_round *row = &service->row;
    const struct tern_strategy *strategy = tern_strategy_find(row->strategy);
    task->kind = tern_TaskKind_TASK_TRAIN;
    task->round = row->round;
    task->batch_size = train->batch_size;
    task->learning_rate = row->learning_rate;
    task->momentum = train->momentum;
    task->weight_decay = train->weight_decay;
    task->prox_mu = strategy != NULL && strategy->sends_prox ? train->prox_mu : 0.0F;
    task->seed = service->federation.seed;
    memcpy(task->codec, row->codec_up, sizeof row->codec_up);
}

// Decides the member's local steps the first time it gets its task; a repeated task is the same.
static enum tern_result assign_steps(struct tern_service *service, struct tern_member *member,
                                     const struct client *client, uint64_t now)
{
    if (member->state == TERN_MEMBER_TASKED) {
        return TERN_OK;
    }
    uint64_t deadline = service->machine.deadline_ms;
    struct tern_db_schedule row = {.client = member->client, .updated_ms = now};
    row.local_steps = tern_steps_for(&service->config.steps, client->steps_per_second,
                                     deadline > now ? deadline - now : 0, row.reason);
    tern_round_tasked(member, row.local_steps, now);
    TERN_TRY(tern_db_schedule_put(service->db, &row));
    return store_member(service, member);
}

static uint64_t until_deadline(const struct tern_service *service, uint64_t now)
{
    uint64_t deadline = service->machine.deadline_ms;
    return deadline > now ? deadline - now : 1;
}

// Whether the client can follow the open round's task: it may have been opened under another
// configuration, and while the client was away.
static enum tern_result may_follow(struct tern_service *service, const struct client *client,
                                   bool *follows)
{
    struct tern_codec codec;
    bool stranded = false;
    TERN_TRY(tern_codec_parse(service->row.codec_up, &codec, NULL));
    TERN_TRY(is_stranded(service, client, &stranded));
    *follows = abilities_encode(&client->able, &codec) && !stranded;
    return TERN_OK;
}

static enum tern_result train_task(struct tern_service *service, uint64_t id, uint64_t now,
                                   tern_Task *task)
{
    const struct client *client = client_of(service, id);
    struct tern_member *member = tern_round_member(&service->machine, id);
    struct tern_plan_client held;
    TERN_TRY(assign_steps(service, member, client, now));
    TERN_TRY(position_of(service, client, &held));
    TERN_TRY(add_catch_up(service, client, &held, task));
    set_base(task, service->merge.replica_id, service->merge.version);
    fill_training(service, task);
    add_places(service, id, task);
    task->local_steps = member->local_steps;
    uint64_t window = until_deadline(service, now);
    task->window_ms = window < UINT32_MAX ? (uint32_t)window : UINT32_MAX;
    return TERN_OK;
}

// --- Evaluating: one version at a time, so that each has its accuracy

// Fills *task when this evaluator has a version left to evaluate. *has_task tells.
static enum tern_result evaluate_task(struct tern_service *service, uint64_t id, tern_Task *task,
                                      bool *has_task)
{
    struct client *client = client_of(service, id);
    uint32_t version = service->merge.version;
    struct tern_plan_client held;
    bool stranded = false;
    TERN_TRY(is_stranded(service, client, &stranded));
    if (stranded) {
        return TERN_OK;
    }
    TERN_TRY(position_of(service, client, &held));
    *has_task = !held.known || held.version < version ||
                (client->evaluated < version && client->asked < version);
    if (!*has_task) {
        return TERN_OK;
    }
    task->kind = tern_TaskKind_TASK_EVALUATE;
    struct reader reader = {service, client};
    if (held.known && held.version < version && delta_bytes(&reader, held.version + 1) != 0) {
        struct tern_db_version next;
        TERN_TRY(tern_db_version_get(service->db, held.version + 1, &next));
        const struct delta *delta = &service->deltas[held.version];
        add_download(task, delta->sha256, delta->size);
        set_base(task, next.replica, next.version);
    } else {
        TERN_TRY(add_catch_up(service, client, &held, task));
        set_base(task, service->merge.replica_id, version);
    }
    // It is asked once for a version whose result was lost; a client without data must not be
    // asked for ever.
    client->asked = task->base_version;
    task->round = service->machine.round;
    return TERN_OK;
}

// --- All together

static void fill_finished(const struct tern_service *service, tern_CheckinReply *reply)
{
    reply->finished = true;
    reply->final_model_hash.size = TERN_SHA256_SIZE;
    memcpy(reply->final_model_hash.bytes, service->merge.model_sha256, TERN_SHA256_SIZE);
}

static void fill_wait(tern_CheckinReply *reply, uint64_t wait, bool *idle)
{
    reply->come_back_ms = wait < UINT32_MAX ? (uint32_t)wait : UINT32_MAX;
    *idle = true;
}

enum tern_result next_for_client(struct tern_service *service, uint64_t id, uint64_t now,
                                 tern_CheckinReply *reply, bool *idle)
{
    uint64_t wait = 0;
    *idle = false;
    *reply = (tern_CheckinReply)tern_CheckinReply_init_zero;
    enum tern_checkin_action action = tern_round_checkin(&service->machine, id, now, &wait);
    if (client_of(service, id)->evaluator) {
        TERN_TRY(evaluate_task(service, id, &reply->task, &reply->has_task));
        if (reply->has_task) {
            return TERN_OK;
        }
    }
    switch (action) {
    case TERN_CHECKIN_FINISHED:
        fill_finished(service, reply);
        return TERN_OK;
    case TERN_CHECKIN_WAIT:
        fill_wait(reply, wait, idle);
        return TERN_OK;
    case TERN_CHECKIN_TASK:
        break;
    }
    if (waits_for_leader(service, id, now)) {
        fill_wait(reply, tern_round_leader_wait_ms(&service->machine, now), idle);
        return TERN_OK;
    }
    bool follows = false;
    TERN_TRY(may_follow(service, client_of(service, id), &follows));
    if (!follows) {
        fill_wait(reply, until_deadline(service, now), idle);
        return TERN_OK;
    }
    reply->has_task = true;
    return train_task(service, id, now, &reply->task);
}

// --- Blobs

static enum tern_result read_blob(struct tern_service *service,
                                  const uint8_t sha256[TERN_SHA256_SIZE], struct tern_blob **blob,
                                  uint32_t *payload)
{
    struct tern_db_download row;
    TERN_TRY(tern_db_download_get(service->db, sha256, &row, NULL, 0));
    struct tern_blob *fresh = tern_blob_new(row.size);
    if (fresh == NULL) {
        return TERN_ERR_NO_MEMORY;
    }
    enum tern_result result =
        tern_db_download_get(service->db, sha256, &row, fresh->data, row.size);
    if (result != TERN_OK) {
        tern_blob_release(fresh);
        return result;
    }
    tern_blob_cache_put(&service->cache, sha256, fresh, row.payload);
    *blob = fresh;
    *payload = row.payload;
    return TERN_OK;
}

enum tern_result blob_of(struct tern_service *service, const uint8_t sha256[TERN_SHA256_SIZE],
                         struct tern_blob **blob, uint32_t *payload)
{
    if (memcmp(sha256, service->places.sha256, TERN_SHA256_SIZE) == 0) {
        *payload = service->places.payload;
        *blob = places_of(&service->places, service->places.round);
        return *blob != NULL ? TERN_OK : TERN_ERR_NOT_FOUND;
    }
    *blob = tern_blob_cache_get(&service->cache, sha256, payload);
    return *blob != NULL ? TERN_OK : read_blob(service, sha256, blob, payload);
}
