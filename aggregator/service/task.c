// What a client should do now: train, evaluate, wait or stop.
#include "service/internal.h"
#include "service/ledger.h"

#include "rounds/leader.h"
#include <string.h>

// --- Training

static void fill_training(const struct tern_service *service, const struct tern_member *member,
                          tern_Task *task)
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
    const char *codec = member->codec[0] != '\0' ? member->codec : row->codec_up;
    memcpy(task->codec, codec, sizeof row->codec_up);
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
                                   tern_Task *task, bool *follows)
{
    struct client *client = client_of(service, id);
    struct tern_member *member = tern_round_member(&service->machine, id);
    TERN_TRY(may_follow(service, client, follows));
    if (!*follows) {
        return TERN_OK;
    }
    TERN_TRY(catch_up_member(service, id, member, now, task, follows));
    if (!*follows) {
        return TERN_OK;
    }
    TERN_TRY(assign_directive(service, member));
    TERN_TRY(assign_steps(service, member, client, now));
    fill_training(service, member, task);
    fill_directive(member, task);
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
    if (next_delta(service, client, &held) != 0) {
        struct tern_db_version next;
        TERN_TRY(tern_db_version_get(service->db, held.version + 1, &next));
        const struct delta *delta = &service->deltas[held.version];
        add_download(task, delta->sha256, delta->size);
        set_base(task, next.replica, next.version);
    } else {
        TERN_TRY(add_trunk_way(service, client, &held, task));
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
    TERN_TRY(train_task(service, id, now, &reply->task, &reply->has_task));
    if (!reply->has_task) {
        fill_wait(reply, until_deadline(service, now), idle);
    }
    return TERN_OK;
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
