// Handles the assignment in the aggregator's answer to a check-in or an upload. Refuses a task that this client cannot or must
// not do, before it fetches anything. The decoder has already refused malformed answers (wire/check.h).
#include "core.h"

#include <string.h>

static enum tern_result check_training(const struct tern_client *client, const tern_Task *task,
                                       const char **why)
{
    struct tern_codec codec;
    if (client->identity.evaluator) {
        *why = TERN_WHY("the task requires an evaluator to train");
        return TERN_ERR_ARGUMENT;
    }
    if (TERN_SECURE && (tern_secure_is_on(client) || tern_secure_has_task(task))) {
        return tern_secure_check_task(client, task, why);
    }
    if (tern_codec_parse(task->codec, &codec, NULL) != TERN_OK) {
        *why = TERN_WHY("the task names a codec that this client does not have");
        return TERN_ERR_UNKNOWN;
    }
    if (task->gradient != tern_Gradient_GRADIENT_BATCH &&
        (!TERN_VARIANCE_REDUCTION || client->work.anchor == NULL)) {
        *why = TERN_WHY("the task uses variance reduction, for which this client has no memory");
        return TERN_ERR_NO_MEMORY;
    }
    if (TERN_VARIANCE_REDUCTION && task->gradient == tern_Gradient_GRADIENT_REDUCED &&
        (!tern_anchor_is_usable(client) || client->anchor_round != task->anchor)) {
        *why =
            TERN_WHY("the task needs a full gradient whose base model this client does not have");
        return TERN_ERR_WRONG_REPLICA;
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

// Returns whether the blob can hold each download of the task, and all downloads in the answer together. Downloads that the
// store receives have the same limit, because no valid download of the model is longer.
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
    if (TERN_SECURE && tern_secure_is_on(client)) {
        *why = TERN_WHY("the task asks for an evaluation on this client's data, which "
                        "secure.helper_key forbids");
        return TERN_ERR_CONFIG;
    }
    if (!client->identity.evaluator) {
        // A training client may have opened its data without the test examples.
        *why = TERN_WHY("the task requires a training client to evaluate");
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

// Estimates the size of the first update in bytes. Ternary codecs rarely need more than two bits a value, although the bound of
// some is 28 bits; below a density of 1/8, half as many for each halving of the density. `uniform` needs two bits a value at an
// error of 0.1, and one bit more each time that the error is divided by four.
static size_t estimate_first_update(const struct tern_codec *codec, const struct tern_model *model)
{
    size_t symbols = model->coded / 4;
    if (TERN_CODEC_BUILT(TERN_CODEC_UNIFORM) && codec->id == TERN_CODEC_UNIFORM) {
        for (float error = codec->error; error < 0.1F; error *= 4) {
            symbols += model->coded / 8;
        }
    } else if (!tern_codec_is_ternary(codec)) {
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

// Estimates the size of the next update in bytes: the mean of earlier updates plus a quarter, or estimate_first_update(), but
// at most the codec's bound. The exact size is checked against the budgets after encoding.
static uint64_t estimate_update(const struct tern_client *client, const tern_Task *task)
{
    struct tern_codec codec;
    if (TERN_SECURE && tern_secure_has_task(task)) {
        return TERN_WIRE_OVERHEAD + tern_secure_update_size(client, task);
    }
    if (task->kind != tern_TaskKind_TASK_TRAIN ||
        tern_codec_parse(task->codec, &codec, NULL) != TERN_OK) {
        return 0;
    }
    const size_t bound = TERN_WIRE_OVERHEAD + tern_container_bound(&codec, client->work.model);
    const size_t mean = (size_t)client->budget.update_mean; // such updates fitted into memory
    const size_t likely_bytes =
        mean != 0 ? mean + mean / 4 : estimate_first_update(&codec, client->work.model);
    return likely_bytes < bound ? likely_bytes : bound;
}

// Returns how many bytes of the first download the store already has, from a broken connection or an earlier process. Opens the
// partial download only if there is a budget, because opening reserves disk space for the complete download.
static size_t stored_download_bytes(struct tern_client *client, const tern_Task *task)
{
    size_t have = 0;
    if (tern_partial_exists(client) && tern_budget_left(client) != UINT64_MAX &&
        task->downloads_count > 0 && !tern_client_is_inline(&task->downloads[0])) {
        have = tern_partial_open(client, &task->downloads[0], &have) == TERN_OK ? have : 0;
        if (have == 0) {
            tern_partial_drop(client);
        }
    }
    return have;
}

// Reserves the task's bytes in the budgets. Downloads in the answer were counted with the check-in.
static enum tern_result reserve_task(struct tern_client *client, const tern_Task *task,
                                     struct tern_span downloads)
{
    const bool has_inline =
        !TERN_SMALL &&
        downloads.len > 0; // small builds accept inline downloads only without a budget
    const uint64_t received = has_inline ? downloads.len : stored_download_bytes(client, task);
    const uint32_t exchanges = has_inline ? 0 : (uint32_t)task->downloads_count;
    const uint64_t cost =
        tern_budget_cost(download_bytes(task) - received + estimate_update(client, task),
                         exchanges + task->has_indices + 1);
    return tern_budget_reserve_or_wait(client, cost);
}

static void begin_downloads(struct tern_client *client)
{
    client->task_received_ms = tern_client_now_ms(client);
    client->download_index = 0;
    client->download_received = 0;
    client->inline_offset = 0;
    client->download_resumed = false;
    client->download_damaged = false;
    client->download_refetched = false;
    client->base_evaluated = false;
    client->has_held_out = false;
    client->trained_at_anchor = false;
    client->training = false;
    client->phase = TERN_PHASE_DOWNLOAD;
}

// Returns whether the blob is large enough to encode and send an update at the task's indices. If not, the client chooses other
// indices, which the protocol allows.
static bool indices_fit(const struct tern_client *client, const tern_Task *task)
{
    const size_t size = client->work.blob_size;
    struct tern_codec codec;
    if (tern_codec_parse(task->codec, &codec, NULL) != TERN_OK ||
        !tern_codec_entry(codec.id)->follows_leader) {
        return false;
    }
    // While encoding, the blob has the indices at its start and the container at its end. While sending, it has the pending
    // update at its start, the request body behind the update, and the container of that body at its end.
    const size_t container = tern_container_bound(&codec, client->work.model);
    const size_t sending = 2 * (size_t)TERN_WIRE_OVERHEAD + 3 * container;
    return task->indices.size <= size && container <= size - task->indices.size && sending <= size;
}

static enum tern_result accept_task(struct tern_client *client, const tern_Task *task,
                                    struct tern_span downloads)
{
    const char *why = NULL;
    const enum tern_result result = check_task(client, task, downloads, &why);
    if (result != TERN_OK) {
        if (TERN_SECURE) {
            tern_secure_note_refusal(client, task);
        }
        return tern_client_retry_later(client, result, why);
    }
    TERN_TRY(reserve_task(client, task, downloads));
    if (downloads.len >
        0) { // source and destination may overlap, since the answer may be in the blob
        memmove(client->work.blob, downloads.data, downloads.len);
    }
    client->task = *task;
    client->task.has_indices =
        TERN_CLIENT_SHARING && task->has_indices && indices_fit(client, task);
    client->final = false;
    begin_downloads(client);
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

static enum tern_result finish_federation(struct tern_client *client,
                                          const uint8_t *final_model_hash)
{
    client->phase = TERN_PHASE_FINISHED;
    tern_partial_drop(client);
    const struct tern_client_event event = {
        .kind = TERN_EVENT_FINISHED,
        .version = client->version,
        .final_model_hash = final_model_hash,
    };
    tern_client_emit(client, &event);
    return tern_client_save_meter(client);
}

// Sets *fetches to whether the client fetches the global model at the end of the federation. Without budget or memory for the
// download, or after a download that did not match its hash, the client ends with its replica.
static enum tern_result should_fetch_final(struct tern_client *client,
                                           const tern_CheckinReply *reply, bool *fetches)
{
    const char *why = NULL;
    *fetches = false;
    if (!reply->has_final_model || reply->final_model_hash.size != TERN_SHA256_SIZE ||
        reply->final_model.size > client->work.blob_size || client->final_mismatch) {
        return TERN_OK;
    }
    const enum tern_result result =
        tern_budget_reserve(client, tern_budget_cost(reply->final_model.size, 1), &why);
    *fetches = result == TERN_OK;
    return result == TERN_ERR_BUDGET ? TERN_OK : result;
}

// Starts the download of the global model, as a task of kind EVALUATE without an evaluation.
static void begin_final(struct tern_client *client, const tern_CheckinReply *reply)
{
    memset(&client->task, 0, sizeof client->task);
    client->task.kind = tern_TaskKind_TASK_EVALUATE;
    client->task.downloads_count = 1;
    client->task.downloads[0] = reply->final_model;
    client->final = true;
    memcpy(client->final_hash, reply->final_model_hash.bytes, TERN_SHA256_SIZE);
    begin_downloads(client);
}

enum tern_result tern_client_finish_with_global(struct tern_client *client)
{
    if (client->identity.evaluator) {
        client->phase = TERN_PHASE_EVALUATE;
        return TERN_OK;
    }
    return finish_federation(client, client->final_hash);
}

static enum tern_result end_federation(struct tern_client *client, const tern_CheckinReply *reply)
{
    bool fetches = false;
    if (TERN_FINAL_MODEL) {
        TERN_TRY(should_fetch_final(client, reply, &fetches));
    }
    if (fetches) {
        begin_final(client, reply);
        return TERN_OK;
    }
    return finish_federation(client, reply->final_model_hash.size == TERN_SHA256_SIZE
                                         ? reply->final_model_hash.bytes
                                         : NULL);
}

static const char *wait_reason(const tern_CheckinReply *reply)
{
    if (reply->too_few_clients) {
        return TERN_WHY("too few clients have enrolled for rounds to begin (round.min_clients)");
    }
    if (TERN_STATISTICS && reply->statistics == tern_StatisticsState_STATISTICS_AWAITED) {
        return TERN_WHY("rounds begin when other clients have sent the statistics of their columns "
                        "(statistics.columns)");
    }
    return TERN_WHY("the aggregator has no task for this client now");
}

static bool needs_statistics_phase(const struct tern_client *client, const tern_CheckinReply *reply)
{
    const bool wanted = reply->statistics == tern_StatisticsState_STATISTICS_WANTED;
    const bool new_scaling =
        reply->has_scaling && tern_scaling_tag(reply->scaling.sha256.bytes) != client->scaling;
    return wanted || new_scaling;
}

// Emits TERN_EVENT_OTHER_COLUMNS when the aggregator reports that this client's column names differ, unless its last answer
// did, too.
static void report_column_names(struct tern_client *client, const tern_CheckinReply *reply)
{
    const struct tern_client_event event = {.kind = TERN_EVENT_OTHER_COLUMNS};
    if (reply->other_column_names && !client->column_names_differ) {
        tern_client_emit(client, &event);
    }
    client->column_names_differ = reply->other_column_names;
}

// Starts the phase that sends the statistics or fetches the scaling. No task begins before that.
static enum tern_result begin_statistics(struct tern_client *client, const tern_CheckinReply *reply)
{
    if (TERN_SECURE && tern_secure_is_on(client)) {
        return tern_client_retry_later(
            client, TERN_ERR_CONFIG,
            reply->has_scaling
                ? TERN_WHY("the federation sends a scaling of columns, which secure.helper_key "
                           "forbids: another scaling could single this client out")
                : TERN_WHY("the federation asks for statistics of this client's columns, which "
                           "secure.helper_key forbids"));
    }
    if (client->work.columns.scale == NULL || client->work.columns.measure == NULL) {
        return tern_client_retry_later(
            client, TERN_ERR_CONFIG,
            TERN_WHY(
                "the federation scales columns by statistics that clients share "
                "(statistics.columns), and this client's data or trainer has no columns to scale"));
    }
    client->sends_statistics = !reply->has_scaling;
    client->scaling_ref = reply->scaling;
    client->download_received = 0;
    client->phase = TERN_PHASE_STATISTICS;
    return TERN_OK;
}

enum tern_result tern_client_handle_assignment(struct tern_client *client,
                                               const tern_CheckinReply *reply,
                                               struct tern_span downloads)
{
    client->phase = TERN_PHASE_CHECKIN;
    if (TERN_SECURE && tern_secure_is_on(client)) {
        TERN_TRY(tern_secure_handle_reply(client, reply));
    }
    if (TERN_STATISTICS) {
        report_column_names(client, reply);
        if (needs_statistics_phase(client, reply)) {
            return begin_statistics(client, reply);
        }
    }
    if (reply->finished) {
        return end_federation(client, reply);
    }
    if (reply->has_task) {
        return accept_task(client, &reply->task, downloads);
    }
    if (reply->come_back_ms ==
        0) { // an empty body, e.g. from a proxy, must not make the client spin
        return tern_client_retry_later(
            client, TERN_ERR_CORRUPT,
            TERN_WHY("the answer contains neither a task nor a time to return"));
    }
    client->failures = 0;
    const uint32_t ms =
        tern_client_add_jitter(client, reply->come_back_ms, reply->come_back_ms / 10);
    return tern_client_wait(client, ms, wait_reason(reply));
}
