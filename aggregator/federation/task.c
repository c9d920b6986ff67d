// What a client should do now: train, evaluate, wait or stop.
#include "federation/internal.h"
#include "federation/ledger.h"

#include "rounds/leader.h"
#include <string.h>

// --- Training

static void fill_training(const struct tern_federation *federation,
                          const struct tern_member *member, tern_Task *task)
{
    const struct tern_federation_train *train = &federation->config.train;
    const struct tern_db_round *row = &federation->row;
    const struct tern_strategy *strategy = tern_strategy_find(row->strategy);
    task->kind = tern_TaskKind_TASK_TRAIN;
    task->round = row->round;
    task->batch_size = train->batch_size;
    task->learning_rate = row->learning_rate;
    task->momentum = train->momentum;
    task->weight_decay = train->weight_decay;
    task->prox_mu = strategy != NULL && strategy->sends_prox ? train->prox_mu : 0.0F;
    task->seed = federation->about.seed;
    task->evaluate = train->evaluate;
    const char *codec = member->codec[0] != '\0' ? member->codec : row->codec_up;
    memcpy(task->codec, codec, sizeof row->codec_up);
}

static uint64_t until_deadline(const struct tern_federation *federation, uint64_t now)
{
    uint64_t deadline = federation->machine.deadline_ms;
    return deadline > now ? deadline - now : 1;
}

// Whether the client can follow the open round's task: it may have been opened under another
// configuration, and while the client was away.
static enum tern_result may_follow(struct tern_federation *federation, const struct client *client,
                                   bool *follows)
{
    struct tern_codec codec;
    bool stranded = false;
    TERN_TRY(tern_codec_parse(federation->row.codec_up, &codec, NULL));
    TERN_TRY(tern_catchup_is_stranded(federation->catchup, &client->row, &stranded));
    const struct tern_abilities able = tern_abilities_of(&client->row);
    *follows = tern_abilities_encode(&able, &codec) && !stranded &&
               tern_epoch_can(federation, &client->row) &&
               tern_epoch_admits(federation, &client->row);
    return TERN_OK;
}

static void set_download(const struct tern_way *way, uint32_t i, tern_DownloadRef *ref)
{
    ref->sha256.size = TERN_SHA256_SIZE;
    memcpy(ref->sha256.bytes, way->sha256[i], TERN_SHA256_SIZE);
    ref->size = way->bytes[i];
}

static void set_downloads(const struct tern_way *way, tern_Task *task)
{
    for (uint32_t i = 0; i < way->count; i++) {
        set_download(way, i, &task->downloads[task->downloads_count++]);
    }
    task->base.size = TERN_WIRE_REPLICA_BYTES;
    memcpy(task->base.bytes, way->base, TERN_WIRE_REPLICA_BYTES);
    task->base_version = way->base_version;
}

// Adds a member's downloads and settles its base, which is stored with the member: here when it
// has its task already. A repeated task looks again at what the client holds by now. *found: else
// there is no way that the client may have, and nothing was added.
static enum tern_result catch_up(struct tern_federation *federation, struct client *client,
                                 struct tern_member *member, uint64_t now, struct tern_next *next,
                                 bool *found)
{
    struct tern_way way;
    TERN_TRY(tern_catchup_trainer(federation->catchup, &client->row, &client->searches,
                                  tern_share_is_on(federation) || federation->epoch.is_on, now,
                                  &way));
    *found = way.leads;
    if (!*found) {
        return TERN_OK;
    }
    set_downloads(&way, &next->reply.task);
    next->own_downloads = way.own && way.count > 0;
    if (member->base_version == way.base_version &&
        memcmp(member->base, way.base, TERN_SHA256_SIZE) == 0) {
        return TERN_OK;
    }
    memcpy(member->base, way.base, TERN_SHA256_SIZE);
    member->base_version = way.base_version;
    return member->state == TERN_MEMBER_TASKED ? tern_members_store(federation, member) : TERN_OK;
}

static enum tern_result train_task(struct tern_federation *federation, uint64_t id, uint64_t now,
                                   struct tern_next *next)
{
    tern_Task *task = &next->reply.task;
    bool *follows = &next->reply.has_task;
    struct client *client = client_of(federation, id);
    struct tern_member *member = tern_round_member(&federation->machine, id);
    TERN_TRY(may_follow(federation, client, follows));
    if (!*follows) {
        return TERN_OK;
    }
    TERN_TRY(catch_up(federation, client, member, now, next, follows));
    if (!*follows) {
        return TERN_OK;
    }
    TERN_TRY(tern_ledger_assign(federation, member));
    TERN_TRY(tern_assign_steps(federation, member, client, now));
    fill_training(federation, member, task);
    tern_epoch_fill(federation, task);
    tern_ledger_fill(member, task);
    tern_share_add(federation, id, task);
    task->local_steps = member->local_steps;
    uint64_t window = until_deadline(federation, now);
    task->window_ms = window < UINT32_MAX ? (uint32_t)window : UINT32_MAX;
    return TERN_OK;
}

// --- Evaluating: one version at a time, so that each has its accuracy

// Fills *task when this evaluator has a version left to evaluate. *has_task tells.
static enum tern_result evaluate_task(struct tern_federation *federation, struct client *client,
                                      tern_Task *task, bool *has_task)
{
    uint32_t version = federation->merge.version;
    struct tern_way way;
    bool global = false;
    if (client->row.version == version) {
        TERN_TRY(tern_catchup_is_global(federation->catchup, client->row.replica, &global));
    }
    // It is asked once for a version whose result was lost; a client without data must not be
    // asked for ever.
    bool again = client->evaluated[global] < version && client->asked[global] < version;
    TERN_TRY(tern_catchup_evaluator(federation->catchup, &client->row, again, &way));
    *has_task = way.leads;
    if (way.leads) {
        task->kind = tern_TaskKind_TASK_EVALUATE;
        task->round = federation->machine.round;
        set_downloads(&way, task);
        client->asked[global] = way.base_version;
    }
    return TERN_OK;
}

// --- All together

// Whether a client of this kind ends with the global model itself.
static bool gets_final_model(const struct tern_federation *federation, const struct client *client)
{
    const enum tern_final_model who = federation->config.final_model;
    return who == TERN_FINAL_MODEL_ALL ||
           (who == TERN_FINAL_MODEL_EVALUATORS && client->row.evaluator);
}

static enum tern_result fill_finished(struct tern_federation *federation,
                                      const struct client *client, uint64_t now,
                                      tern_CheckinReply *reply)
{
    struct tern_way way;
    reply->finished = true;
    reply->final_model_hash.size = TERN_SHA256_SIZE;
    memcpy(reply->final_model_hash.bytes, federation->merge.model_sha256, TERN_SHA256_SIZE);
    if (!gets_final_model(federation, client)) {
        return TERN_OK;
    }
    TERN_TRY(tern_catchup_final(federation->catchup, &client->row, now, &way));
    reply->has_final_model = way.leads;
    if (way.leads) {
        set_download(&way, 0, &reply->final_model);
    }
    return TERN_OK;
}

// Limits every wait to the longest time of the policy.
static void fill_wait(const struct tern_federation *federation, struct tern_next *next,
                      uint64_t wait)
{
    const uint64_t longest = federation->machine.policy.come_back_max_ms;
    const uint64_t ms = wait < longest ? wait : longest;
    next->reply.come_back_ms = ms < UINT32_MAX ? (uint32_t)ms : UINT32_MAX;
    next->idle = true;
}

enum tern_result tern_federation_next(struct tern_federation *federation, uint64_t id, uint64_t now,
                                      struct tern_next *next)
{
    uint64_t wait = 0;
    memset(next, 0, sizeof *next);
    if (tern_federation_is_merging(federation)) {
        fill_wait(federation, next, federation->machine.policy.come_back_min_ms);
        next->merging = true;
        return TERN_OK;
    }
    tern_CheckinReply *reply = &next->reply;
    reply->other_column_names = tern_clients_differ(federation, client_of(federation, id));
    if (tern_statistics_ask(federation, client_of(federation, id), next)) {
        return TERN_OK;
    }
    enum tern_checkin_action action = tern_round_checkin(&federation->machine, id, now, &wait);
    struct client *client = client_of(federation, id);
    if (client->row.evaluator && !tern_statistics_are_due(federation)) {
        TERN_TRY(evaluate_task(federation, client, &reply->task, &reply->has_task));
        if (reply->has_task) {
            return TERN_OK;
        }
    }
    switch (action) {
    case TERN_CHECKIN_FINISHED:
        return fill_finished(federation, client, now, reply);
    case TERN_CHECKIN_WAIT:
        fill_wait(federation, next, wait);
        reply->too_few_clients = federation->too_few && !federation->machine.open;
        reply->statistics = tern_statistics_are_due(federation)
                                ? tern_StatisticsState_STATISTICS_AWAITED
                                : tern_StatisticsState_STATISTICS_NONE;
        return TERN_OK;
    case TERN_CHECKIN_TASK:
        break;
    }
    if (tern_share_waits(federation, id, now)) {
        fill_wait(federation, next, tern_round_leader_wait_ms(&federation->machine, now));
        return TERN_OK;
    }
    TERN_TRY(train_task(federation, id, now, next));
    if (!reply->has_task) {
        fill_wait(federation, next, until_deadline(federation, now));
    }
    return TERN_OK;
}
