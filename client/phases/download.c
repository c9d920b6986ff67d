// Fetches the downloads of the task, one per call, and moves the replica along them. What a cut
// connection has already brought is kept and the rest asked for. The replica's record is written
// once, after the last download of a task, to spare flash; a power cut before it fetches them
// again.
#include "codec/kernels/kernels.h"
#include "core.h"

#include <float.h>
#include <string.h>

// After the downloads that move the replica come the indices of the task's values, if it names any.
static bool is_indices(const struct tern_client *client)
{
    return TERN_CLIENT_SHARING && client->download_index == client->task.downloads_count;
}

static const tern_DownloadRef *current(const struct tern_client *client)
{
    return is_indices(client) ? &client->task.indices
                              : &client->task.downloads[client->download_index];
}

static enum tern_result prepare(struct tern_client *client)
{
    char path[TERN_PATH_MAX];
    const uint64_t cost = tern_budget_cost(current(client)->size - client->download_have, 1);
    const enum tern_result result = tern_budget_ask(client, cost);
    if (result == TERN_AGAIN) {
        client->phase = TERN_PHASE_CHECKIN;
    }
    TERN_TRY(result);
    tern_path_download(current(client)->sha256.bytes, path);
    tern_client_request(client, TERN_PURPOSE_DOWNLOAD, "GET", path);
    client->request.range_from = client->download_have;
    client->inline_at = 0;
    client->response.body = client->work.blob + client->download_have;
    client->response.body_size = client->work.blob_size - client->download_have;
    return TERN_OK;
}

// No answer, or half of one: keeps what came and asks for the rest later, unless the round is over
// by then.
static enum tern_result cut(struct tern_client *client, enum tern_result result)
{
    if (result == TERN_ERR_NETWORK && tern_client_continues(client) &&
        client->response.body_len > 0 &&
        client->download_have + client->response.body_len <= current(client)->size) {
        client->download_have += client->response.body_len;
        client->failures = 0;
    }
    const uint64_t age = tern_client_now_ms(client) - client->task_taken_ms;
    if (client->task.window_ms != 0 && age > client->task.window_ms) {
        return tern_client_drop_task(client, result,
                                     TERN_WHY("the round's window passed while downloading"));
    }
    return tern_client_trouble(client, result, TERN_WHY("the download was not answered"));
}

// A 2xx answer: the rest of the blob, or the whole of it where the rest was asked for.
static enum tern_result received(struct tern_client *client, bool fits)
{
    if (!tern_client_continues(client)) {
        client->download_have = 0;
        return tern_client_trouble(client, TERN_ERR_HTTP,
                                   TERN_WHY("the aggregator ignored a Range header"));
    }
    client->download_have += client->response.body_len;
    if (!fits || client->download_have != current(client)->size) {
        return tern_client_drop_task(client, TERN_ERR_CORRUPT,
                                     TERN_WHY("a download is not as long as the task says"));
    }
    return TERN_OK;
}

static enum tern_result fetch(struct tern_client *client)
{
    if (!client->in_flight) {
        TERN_TRY(prepare(client));
    }
    const enum tern_result sent = tern_client_exchange(client);
    if (sent == TERN_AGAIN) {
        return sent;
    }
    if (sent != TERN_OK && sent != TERN_ERR_TOO_LARGE) {
        return cut(client, sent);
    }
    const enum tern_result answer = tern_client_answer(client);
    if (answer == TERN_OK) {
        return received(client, sent == TERN_OK);
    }
    if (answer == TERN_ERR_UNAUTHORIZED) {
        return answer;
    }
    return answer == TERN_ERR_BUSY
               ? cut(client, answer)
               : tern_client_drop_task(client, answer,
                                       TERN_WHY("a download of the task cannot be had"));
}

// A sum stays finite when the largest magnitudes on both sides add up to a float32: this refuses
// only what no model in use comes near, and needs no second copy of the weights.
static bool sum_stays_finite(const struct tern_client *client, float maximum)
{
    const uint32_t peak = tern_kernel_peak(client->work.weights, client->work.model->count);
    return (double)tern_bits_float(peak) + (double)maximum <= (double)FLT_MAX;
}

// The id of the replica that a delta goes on from: the one that is held, or the seed's, whose weights a
// client can always make again.
static enum tern_result start_of(const struct tern_client *client, const tern_Download *delta,
                                 uint8_t id[TERN_SHA256_SIZE])
{
    memcpy(id, client->replica, TERN_SHA256_SIZE);
    if (memcmp(id, delta->from.bytes, TERN_WIRE_REPLICA_BYTES) != 0 &&
        tern_model_is_seeded(client->work.model)) {
        tern_replica_from_seed(client->identity.model_hash, client->identity.model_seed, id);
    }
    return memcmp(id, delta->from.bytes, TERN_WIRE_REPLICA_BYTES) == 0 ? TERN_OK
                                                                       : TERN_ERR_WRONG_REPLICA;
}

// What is held is given up for the seed's weights, which are small numbers, only once nothing can go
// wrong any more.
static enum tern_result apply_delta(struct tern_client *client, const tern_Download *message,
                                    struct tern_span container)
{
    struct tern_codec_info info;
    uint8_t from[TERN_SHA256_SIZE];
    TERN_TRY(start_of(client, message, from));
    const bool held = memcmp(from, client->replica, TERN_SHA256_SIZE) == 0;
    TERN_TRY(tern_container_inspect(client->work.model, container.data, container.len, &info));
    if (held ? !sum_stays_finite(client, info.maximum) : info.maximum > FLT_MAX / 2.0f) {
        return TERN_ERR_NON_FINITE;
    }
    if (!held) {
        tern_client_start_from_seed(client);
    }
    TERN_TRY(tern_container_accumulate(client->work.model, container.data, container.len, 1.0f,
                                       client->work.weights));
    tern_replica_step(from, current(client)->sha256.bytes, client->replica);
    return TERN_OK;
}

static enum tern_result apply_snapshot(struct tern_client *client, const tern_Download *message,
                                       struct tern_span container)
{
    TERN_TRY(tern_container_decode(client->work.model, container.data, container.len,
                                   client->work.weights));
    memcpy(client->replica, message->to.bytes, TERN_SHA256_SIZE);
    return TERN_OK;
}

// The indices are checked when values are encoded at them. They stay in the blob until then.
static enum tern_result keep_indices(struct tern_client *client, const tern_Download *message,
                                     struct tern_span container)
{
    if (message->kind != tern_DownloadKind_DOWNLOAD_INDICES ||
        message->version != client->task.base_version) {
        return TERN_ERR_CORRUPT;
    }
    client->indices = container;
    return TERN_OK;
}

static enum tern_result move_replica(struct tern_client *client, const tern_Download *message,
                                     struct tern_span container)
{
    TERN_TRY(message->kind == tern_DownloadKind_DOWNLOAD_SNAPSHOT
                 ? apply_snapshot(client, message, container)
                 : apply_delta(client, message, container));
    client->version = message->version;
    client->replica_unsaved = true;
    return TERN_OK;
}

// Downloads that came with the task have no names to be held against. They are deltas, and name the
// task's base between them: nothing is added before it was seen that they do.
static enum tern_result check_inline(struct tern_client *client)
{
    const uint8_t *blob = client->work.blob;
    tern_Task *task = &client->task;
    tern_Download first;
    struct tern_span container;
    TERN_TRY(tern_wire_decode_download(blob, task->downloads[0].size, &first, &container));
    uint8_t id[TERN_SHA256_SIZE];
    TERN_TRY(first.kind == tern_DownloadKind_DOWNLOAD_DELTA ? start_of(client, &first, id)
                                                            : TERN_ERR_WRONG_REPLICA);
    for (pb_size_t i = 0; i < task->downloads_count; i++) {
        tern_DownloadRef *ref = &task->downloads[i];
        tern_sha256(blob, ref->size, ref->sha256.bytes);
        tern_replica_step(id, ref->sha256.bytes, id);
        blob += ref->size;
    }
    return memcmp(id, task->base.bytes, TERN_WIRE_REPLICA_BYTES) == 0 ? TERN_OK
                                                                      : TERN_ERR_WRONG_REPLICA;
}

static enum tern_result check_name(const tern_DownloadRef *ref, const uint8_t *blob)
{
    uint8_t digest[TERN_SHA256_SIZE];
    tern_sha256(blob, ref->size, digest);
    return memcmp(digest, ref->sha256.bytes, TERN_SHA256_SIZE) == 0 ? TERN_OK : TERN_ERR_CORRUPT;
}

// Checks the blob whole before it changes the replica.
static enum tern_result apply(struct tern_client *client, size_t *payload)
{
    const tern_DownloadRef *ref = current(client);
    const uint8_t *blob = client->work.blob + client->inline_at;
    if (!tern_client_is_inline(ref)) {
        TERN_TRY(check_name(ref, blob));
    } else if (client->inline_at == 0) {
        TERN_TRY(check_inline(client));
    }
    tern_Download message;
    struct tern_span container;
    TERN_TRY(tern_wire_decode_download(blob, ref->size, &message, &container));
    if (message.kind != tern_DownloadKind_DOWNLOAD_DELTA && // whose replica says it
        memcmp(message.model_hash.bytes, client->identity.model_hash, TERN_SHA256_SIZE) != 0) {
        return TERN_ERR_MODEL_MISMATCH;
    }
    *payload = container.len;
    return is_indices(client) ? keep_indices(client, &message, container)
                              : move_replica(client, &message, container);
}

static enum tern_result take_download(struct tern_client *client)
{
    size_t payload = 0;
    const tern_DownloadRef *ref = current(client);
    const uint32_t size = ref->size;
    const bool is_inline = tern_client_is_inline(ref);
    const enum tern_result result = apply(client, &payload);
    if (result != TERN_OK) {
        return tern_client_drop_task(client, result,
                                     TERN_WHY("a download was refused; the replica is kept"));
    }
    tern_budget_count_payload(client, is_inline ? TERN_PURPOSE_CHECKIN : TERN_PURPOSE_DOWNLOAD,
                              TERN_DOWN, payload);
    client->inline_at += is_inline ? size : 0;
    client->download_index++;
    client->download_have = 0;
    const struct tern_client_event event = {
        .kind = TERN_EVENT_DOWNLOADED,
        .round = client->task.round,
        .version = client->version,
        .bytes = size,
    };
    tern_client_emit(client, &event);
    return TERN_OK;
}

static enum tern_result all_taken(struct tern_client *client)
{
    if (memcmp(client->replica, client->task.base.bytes, TERN_WIRE_REPLICA_BYTES) != 0 ||
        client->version != client->task.base_version) {
        return tern_client_drop_task(client, TERN_ERR_WRONG_REPLICA,
                                     TERN_WHY("the downloads do not lead to the task's base"));
    }
    if (client->replica_unsaved) {
        TERN_TRY(tern_record_save_replica(client));
        client->replica_unsaved = false;
    }
    client->phase =
        client->task.kind == tern_TaskKind_TASK_TRAIN ? TERN_PHASE_TRAIN : TERN_PHASE_EVALUATE;
    return TERN_OK;
}

enum tern_result tern_phase_download(struct tern_client *client)
{
    const size_t wanted = (size_t)client->task.downloads_count + client->task.has_indices;
    if (client->download_index >= wanted) {
        return all_taken(client);
    }
    if (!tern_client_is_inline(current(client)) && client->download_have < current(client)->size) {
        TERN_TRY(fetch(client));
    }
    return take_download(client);
}
