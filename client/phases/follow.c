// Takes what the aggregator wants next, from a check-in's answer or an upload's, and refuses a task
// that this client cannot or must not do before anything is fetched for it. What is malformed was
// refused when it was decoded (wire/check.h).
#include "core.h"

#include <string.h>

static enum tern_result check_training(const struct tern_client *client, const tern_Task *task,
                                       const char **why)
{
    struct tern_codec codec;
    if (client->identity.evaluator) {
        *why = TERN_WHY("the task asks an evaluator to train");
        return TERN_ERR_ARGUMENT;
    }
    if (tern_codec_parse(task->codec, &codec, NULL) != TERN_OK) {
        *why = TERN_WHY("the task names a codec that this client does not know");
        return TERN_ERR_UNKNOWN;
    }
    if (!tern_client_has_state_for(client, &codec)) {
        *why = TERN_WHY("the task's codec needs a velocity, which this client has no memory for");
        return TERN_ERR_NO_MEMORY;
    }
    if (tern_client_update_bound(client, &codec) > client->work.blob_size) {
        *why = TERN_WHY("an update of the task's codec does not fit into this client's memory");
        return TERN_ERR_TOO_LARGE;
    }
    return TERN_OK;
}

// One download at a time is in the blob, or all of those that came with the task.
static bool downloads_fit(const struct tern_client *client, const tern_Task *task,
                          struct tern_span downloads)
{
    for (pb_size_t i = 0; i < task->downloads_count; i++) {
        if (task->downloads[i].size > client->work.blob_size) {
            return false;
        }
    }
    return downloads.len <= client->work.blob_size;
}

static enum tern_result check_task(const struct tern_client *client, const tern_Task *task,
                                   struct tern_span downloads, const char **why)
{
    if (!downloads_fit(client, task, downloads)) {
        *why = TERN_WHY("a download of the task does not fit into this client's memory");
        return TERN_ERR_TOO_LARGE;
    }
    if (task->kind == tern_TaskKind_TASK_TRAIN) {
        return check_training(client, task, why);
    }
    if (!client->identity.evaluator) {
        // Its test data may not even be in memory.
        *why = TERN_WHY("the task asks a client that trains to evaluate");
        return TERN_ERR_ARGUMENT;
    }
    return TERN_OK;
}

static uint64_t download_bytes(const tern_Task *task)
{
    uint64_t sum = 0;
    for (pb_size_t i = 0; i < task->downloads_count; i++) {
        sum += task->downloads[i].size;
    }
    return task->has_indices ? sum + task->indices.size : sum;
}

// What the first update is likely to take: ternary codecs, of which some have a bound of 28 bits a
// value, seldom make more than their two bits, and below a density of an eighth half as much for
// each halving of it.
static size_t first_update(const struct tern_codec *codec, const struct tern_model *model)
{
    size_t symbols = model->coded / 4;
    if (!tern_codec_is_ternary(codec)) {
        return SIZE_MAX;
    }
    if (TERN_CODEC_BUILT(TERN_CODEC_DENSITY) && codec->id == TERN_CODEC_DENSITY) {
        for (float density = codec->density; density < 0.125F; density += density) {
            symbols /= 2;
        }
    }
    const size_t dense = TERN_MANIFESTS ? sizeof(float) * (model->count - model->coded) : 0;
    return TERN_WIRE_OVERHEAD + 64 * (size_t)model->segment_count + symbols + dense;
}

// Bytes of the update to come: what they were, with some room, or else a guess; no more than the
// bound. What an update really takes is looked at again once it is encoded.
static uint64_t update_bytes(const struct tern_client *client, const tern_Task *task)
{
    struct tern_codec codec;
    if (task->kind != tern_TaskKind_TASK_TRAIN ||
        tern_codec_parse(task->codec, &codec, NULL) != TERN_OK) {
        return 0;
    }
    const size_t bound = TERN_WIRE_OVERHEAD + tern_container_bound(&codec, client->work.model);
    const size_t mean = (size_t)client->budget.update_mean; // of updates that were in memory
    const size_t likely = mean != 0 ? mean + mean / 4 : first_update(&codec, client->work.model);
    return likely < bound ? likely : bound;
}

// The downloads that came with the task cost nothing more.
static enum tern_result afford(struct tern_client *client, const tern_Task *task,
                               struct tern_span downloads)
{
    const bool came = !TERN_SMALL && downloads.len > 0; // there only where no budget counts
    const uint64_t fetched = download_bytes(task) - (came ? downloads.len : 0);
    const uint32_t exchanges = came ? 0 : (uint32_t)task->downloads_count;
    const uint64_t cost =
        tern_budget_cost(fetched + update_bytes(client, task), exchanges + task->has_indices + 1);
    return tern_budget_ask(client, cost);
}

static enum tern_result take_task(struct tern_client *client, const tern_Task *task,
                                  struct tern_span downloads)
{
    const char *why = NULL;
    const enum tern_result result = check_task(client, task, downloads, &why);
    if (result != TERN_OK) {
        return tern_client_trouble(client, result, why);
    }
    TERN_TRY(afford(client, task, downloads));
    if (downloads.len > 0) { // its memory may be there already, behind the task
        memmove(client->work.blob, downloads.data, downloads.len);
    }
    client->task = *task;
    client->task.has_indices =
        TERN_CLIENT_SHARING && task->has_indices && tern_share_fits(client, task);
    client->task_taken_ms = tern_client_now_ms(client);
    client->download_index = 0;
    client->download_have = 0;
    client->inline_at = 0;
#if TERN_PARTIALS
    client->download_resumed = false;
    client->download_damaged = false;
    client->download_anew = false;
#endif
    client->training = false;
    client->phase = TERN_PHASE_DOWNLOAD;
    const struct tern_client_event event = {
        .kind = TERN_EVENT_TASK,
        .round = task->round,
        .version = task->base_version,
        .local_steps = task->local_steps,
        .bytes = download_bytes(task),
    };
    tern_client_emit(client, &event);
    return TERN_OK;
}

static enum tern_result finish(struct tern_client *client, const tern_CheckinReply *reply)
{
    client->phase = TERN_PHASE_FINISHED;
    tern_partial_drop(client);
    const struct tern_client_event event = {
        .kind = TERN_EVENT_FINISHED,
        .version = client->version,
        .final_model_hash =
            reply->final_model_hash.size == TERN_SHA256_SIZE ? reply->final_model_hash.bytes : NULL,
    };
    tern_client_emit(client, &event);
    return tern_client_save_meter(client);
}

enum tern_result tern_client_follow(struct tern_client *client, const tern_CheckinReply *reply,
                                    struct tern_span downloads)
{
    client->phase = TERN_PHASE_CHECKIN;
    if (reply->finished) {
        return finish(client, reply);
    }
    if (reply->has_task) {
        return take_task(client, &reply->task, downloads);
    }
    if (reply->come_back_ms == 0) { // an empty body, say of a proxy, must not make the client spin
        return tern_client_trouble(client, TERN_ERR_CORRUPT,
                                   TERN_WHY("the answer says nothing to do"));
    }
    client->failures = 0;
    const uint32_t ms = tern_client_spread(client, reply->come_back_ms, reply->come_back_ms / 10);
    return tern_client_wait(client, ms, TERN_WHY("the aggregator has no task now"));
}
