// Fetches the task's downloads, one per call, and applies them to the replica. After a broken connection the client requests
// only the missing bytes; with the partial-download port (ports.h) it also does so after a restart. To spare flash, the
// replica's record is written once, after the task's last download; after an earlier power cut the downloads are fetched again.
// With the partial-download port, which stores only one download, the record is also written in between if many bytes would
// have to be fetched again.
#include "codec/kernels/kernels.h"
#include "core.h"

#include <float.h>
#include <string.h>

// Receives the response into the partial-download port if there is one, else into the blob.
static void set_destination(struct tern_client *client)
{
    if (tern_partial_exists(client)) {
        tern_partial_receive(client);
        return;
    }
    client->response.body = client->work.blob + client->download_received;
    client->response.body_size = client->work.blob_size - client->download_received;
}

static enum tern_result prepare(struct tern_client *client)
{
    char path[TERN_PATH_MAX];
    const uint64_t cost =
        tern_budget_cost(tern_client_download(client)->size - client->download_received, 1);
    const enum tern_result result = tern_budget_reserve_or_wait(client, cost);
    if (result == TERN_AGAIN) {
        client->phase = TERN_PHASE_CHECKIN;
    }
    TERN_TRY(result);
    tern_path_download(tern_client_download(client)->sha256.bytes, path);
    tern_client_request(client, TERN_PURPOSE_DOWNLOAD, "GET", path);
    client->request.range_from = client->download_received;
    client->inline_offset = 0;
    set_destination(client);
    return TERN_OK;
}

static const char *failure_reason(const struct tern_client *client, enum tern_result result)
{
    if (TERN_PARTIALS && result == TERN_ERR_NO_SPACE) {
        return TERN_WHY("the store has no space for the download");
    }
    if (TERN_PARTIALS && result == TERN_ERR_IO) {
        return TERN_WHY("the store cannot keep the download");
    }
    return client->response.status >= 400
               ? TERN_WHY("the aggregator answered the request for a download with an error")
               : TERN_WHY("the request for a download got no answer");
}

// Handles a response that is missing or incomplete: keeps the received bytes, and requests the missing ones later, unless the
// round's window has passed.
static enum tern_result handle_partial_answer(struct tern_client *client, enum tern_result result)
{
    if ((result == TERN_ERR_NETWORK || result == TERN_ERR_CANCELLED) &&
        tern_client_body_continues(client) && client->response.body_len > 0 &&
        client->download_received + client->response.body_len <=
            tern_client_download(client)->size) {
        client->download_received += client->response.body_len;
        client->failures = 0;
    }
    const uint64_t age = tern_client_now_ms(client) - client->task_received_ms;
    if (client->task.window_ms != 0 && age > client->task.window_ms) {
        return tern_client_drop_task(client, result,
                                     TERN_WHY("the round's window passed while downloading"));
    }
    return tern_client_retry_later(client, result, failure_reason(client, result));
}

// Deletes an unusable download, and drops the task.
static enum tern_result reject_download(struct tern_client *client, enum tern_result result,
                                        const char *why)
{
    tern_partial_drop(client);
    return tern_client_drop_task(client, result, why);
}

// Handles a 2xx response: it has the missing bytes or, if the Range header was ignored, the complete download.
static enum tern_result check_answer_length(struct tern_client *client, bool fits)
{
    if (!tern_client_body_continues(client)) {
        client->download_received = 0;
        return tern_client_retry_later(
            client, TERN_ERR_HTTP, TERN_WHY("the aggregator or a proxy ignored a Range header"));
    }
    client->download_received += client->response.body_len;
    if (!fits || client->download_received != tern_client_download(client)->size) {
        return reject_download(client, TERN_ERR_CORRUPT,
                               TERN_WHY("a download's length differs from the length in the task"));
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
        return handle_partial_answer(client, sent);
    }
    const enum tern_result answer = tern_client_answer_result(client);
    if (answer == TERN_OK) {
        return check_answer_length(client, sent == TERN_OK);
    }
    if (answer == TERN_ERR_UNAUTHORIZED) {
        return answer;
    }
    return answer == TERN_ERR_BUSY
               ? handle_partial_answer(client, answer)
               : reject_download(client, answer,
                                 TERN_WHY("the aggregator refused a download of the task"));
}

// Fetches the missing bytes of the current download, which is not in the answer with the task.
static enum tern_result fetch_missing(struct tern_client *client)
{
    if (tern_partial_exists(client) && !client->in_flight) {
        const enum tern_result opened =
            tern_partial_open(client, tern_client_download(client), &client->download_received);
        if (opened != TERN_OK) {
            client->response = (struct tern_response){
                0}; // the event must not have the status of an earlier response
            return handle_partial_answer(client, opened);
        }
        client->download_resumed = client->download_received > 0;
    }
    return client->download_received < tern_client_download(client)->size ? fetch(client) : TERN_OK;
}

// Returns whether the sum of the largest weight and `maximum`, the largest value of a delta, is a finite float32. Then every
// sum of a weight and a value is finite. This check refuses only values far beyond real models, and needs no copy of the
// weights.
static bool sum_stays_finite(const struct tern_client *client, float maximum)
{
    const uint32_t peak = tern_kernel_peak(client->work.weights, client->work.model->count);
    return (double)tern_bits_float(peak) + (double)maximum <= (double)FLT_MAX;
}

// Finds the replica to which a delta applies: the current replica, or that of the seed, which a client can always generate
// again. Sets id to the replica's id.
static enum tern_result find_base_replica(const struct tern_client *client,
                                          const tern_Download *delta, uint8_t id[TERN_SHA256_SIZE])
{
    memcpy(id, client->replica, TERN_SHA256_SIZE);
    if (memcmp(id, delta->from.bytes, TERN_WIRE_REPLICA_BYTES) != 0 &&
        tern_model_is_seeded(client->work.model)) {
        tern_replica_from_seed(client->identity.model_hash, client->identity.model_seed, id);
    }
    return memcmp(id, delta->from.bytes, TERN_WIRE_REPLICA_BYTES) == 0 ? TERN_OK
                                                                       : TERN_ERR_WRONG_REPLICA;
}

// Returns whether the current download is in the partial-download port; else it is in the blob.
static bool is_in_store(const struct tern_client *client)
{
    return tern_partial_exists(client) && !tern_client_is_inline(tern_client_download(client));
}

// Checks the container of a delta, and sets *peak to the largest magnitude of its values.
static enum tern_result find_peak(struct tern_client *client, struct tern_span container,
                                  float *peak)
{
    if (is_in_store(client)) {
        const struct tern_container_source source = tern_partial_container(client, container.len);
        return tern_container_source_check(client->work.model, &source, peak);
    }
    struct tern_codec_info info;
    TERN_TRY(tern_container_inspect(client->work.model, container.data, container.len, &info));
    *peak = info.maximum;
    return TERN_OK;
}

// Adds the values of a container, which find_peak() has checked, to the weights.
static enum tern_result add_container(struct tern_client *client, struct tern_span container)
{
    const struct tern_model *model = client->work.model;
    if (is_in_store(client)) {
        const struct tern_container_source source = tern_partial_container(client, container.len);
        const enum tern_result result =
            tern_container_source_add(model, &source, client->work.weights);
        client->replica_half_updated = result != TERN_OK;
        return result;
    }
    return tern_container_accumulate(model, container.data, container.len, 1.0f,
                                     client->work.weights);
}

static enum tern_result decode_snapshot(struct tern_client *client, struct tern_span container)
{
    const struct tern_model *model = client->work.model;
    if (is_in_store(client)) {
        const struct tern_container_source source = tern_partial_container(client, container.len);
        float peak = 0;
        TERN_TRY(tern_container_source_check(model, &source, &peak));
        const enum tern_result result =
            tern_container_source_decode(model, &source, client->work.weights);
        client->replica_half_updated = result != TERN_OK;
        return result;
    }
    return tern_container_decode(model, container.data, container.len, client->work.weights);
}

// Applies a delta. If it applies to the seed's replica, replaces the current weights by the seed's only after all checks. The
// seed's weights are small, so they need no check with sum_stays_finite().
static enum tern_result apply_delta(struct tern_client *client, const tern_Download *message,
                                    struct tern_span container)
{
    float peak = 0;
    uint8_t from[TERN_SHA256_SIZE];
    TERN_TRY(find_base_replica(client, message, from));
    const bool is_current = memcmp(from, client->replica, TERN_SHA256_SIZE) == 0;
    TERN_TRY(find_peak(client, container, &peak));
    if (is_current ? !sum_stays_finite(client, peak) : peak > FLT_MAX / 2.0f) {
        return TERN_ERR_NON_FINITE;
    }
    if (!is_current) {
        tern_client_start_from_seed(client);
    }
    TERN_TRY(add_container(client, container));
    tern_replica_step(from, tern_client_download(client)->sha256.bytes, client->replica);
    return TERN_OK;
}

static enum tern_result apply_snapshot(struct tern_client *client, const tern_Download *message,
                                       struct tern_span container)
{
    TERN_TRY(decode_snapshot(client, container));
    memcpy(client->replica, message->to.bytes, TERN_SHA256_SIZE);
    return TERN_OK;
}

// Moves the indices to the start of the blob, where they stay until the update is encoded. The encoder checks them.
static enum tern_result store_indices(struct tern_client *client, const tern_Download *message,
                                      struct tern_span container)
{
    if (message->kind != tern_DownloadKind_DOWNLOAD_INDICES ||
        message->version != client->task.base_version) {
        return TERN_ERR_CORRUPT;
    }
    memmove(client->work.blob, container.data, container.len);
    client->indices = (struct tern_span){client->work.blob, container.len};
    return TERN_OK;
}

static enum tern_result apply_to_replica(struct tern_client *client, const tern_Download *message,
                                         struct tern_span container)
{
    TERN_TRY(message->kind == tern_DownloadKind_DOWNLOAD_SNAPSHOT
                 ? apply_snapshot(client, message, container)
                 : apply_delta(client, message, container));
    client->version = message->version;
    client->replica_unsaved = true;
    return TERN_OK;
}

// Checks all downloads that the task's answer includes, before any is applied. They have no SHA-256 to compare with, so they
// must be deltas that lead from a known replica to the task's base.
static enum tern_result check_inline(struct tern_client *client)
{
    const uint8_t *blob = client->work.blob;
    tern_Task *task = &client->task;
    tern_Download first;
    struct tern_span container;
    TERN_TRY(tern_wire_decode_download(blob, task->downloads[0].size, &first, &container));
    uint8_t id[TERN_SHA256_SIZE];
    TERN_TRY(first.kind == tern_DownloadKind_DOWNLOAD_DELTA ? find_base_replica(client, &first, id)
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

static enum tern_result check_hash(const tern_DownloadRef *ref, const uint8_t *blob)
{
    uint8_t digest[TERN_SHA256_SIZE];
    tern_sha256(blob, ref->size, digest);
    return memcmp(digest, ref->sha256.bytes, TERN_SHA256_SIZE) == 0 ? TERN_OK : TERN_ERR_CORRUPT;
}

// Checks the complete partial download, and points *blob to it. Its bytes may be damaged if an earlier process received some of
// them.
static enum tern_result find_partial(struct tern_client *client, const uint8_t **blob)
{
    const tern_DownloadRef *ref = tern_client_download(client);
    const enum tern_result result = tern_partial_check(client, ref);
    client->download_damaged =
        result != TERN_OK && client->download_resumed && !client->download_refetched;
    return result == TERN_OK ? tern_partial_view(client, ref->size, blob) : result;
}

static enum tern_result refetch_download(struct tern_client *client)
{
    tern_partial_drop(client);
    client->download_damaged = false;
    client->download_refetched = true;
    client->response =
        (struct tern_response){0}; // the event must not have the status of an earlier response
    return tern_client_retry_later(client, TERN_ERR_CORRUPT,
                                   TERN_WHY("the stored bytes of a download are damaged; the "
                                            "client fetches the download again"));
}

// Points *blob to the complete download, and checks its SHA-256.
static enum tern_result find_download(struct tern_client *client, const uint8_t **blob)
{
    const tern_DownloadRef *ref = tern_client_download(client);
    if (is_in_store(client)) {
        return find_partial(client, blob);
    }
    *blob = client->work.blob + client->inline_offset;
    if (!tern_client_is_inline(ref)) {
        return check_hash(ref, *blob);
    }
    return client->inline_offset == 0 ? check_inline(client) : TERN_OK;
}

// Checks the current download, and then applies it to the replica. Sets *payload to the bytes of its container.
static enum tern_result apply_download(struct tern_client *client, size_t *payload)
{
    const uint8_t *blob = NULL;
    tern_Download message;
    struct tern_span container;
    TERN_TRY(find_download(client, &blob));
    TERN_TRY(
        tern_wire_decode_download(blob, tern_client_download(client)->size, &message, &container));
    if (message.kind !=
            tern_DownloadKind_DOWNLOAD_DELTA && // the replica of a delta implies the model
        memcmp(message.model_hash.bytes, client->identity.model_hash, TERN_SHA256_SIZE) != 0) {
        return TERN_ERR_MODEL_MISMATCH;
    }
    *payload = container.len;
    if (TERN_PARTIALS) {
        client->container_offset = (size_t)(container.data - blob);
    }
    return tern_client_is_at_indices(client) ? store_indices(client, &message, container)
                                             : apply_to_replica(client, &message, container);
}

// Returns whether the task is the download of the global model at the end of the federation. The hash of its weights is checked
// before they are saved.
static bool is_final(const struct tern_client *client)
{
    return TERN_FINAL_MODEL && client->final;
}

// Applies the current download, which has version 0's values in local tensors, and then restores the values that this client
// has trained. After the final download they are restored later, when its hash was checked.
static enum tern_result apply_keeping_local(struct tern_client *client, size_t *payload)
{
    tern_client_stash_local(client);
    const enum tern_result result = apply_download(client, payload);
    if (!is_final(client) || result != TERN_OK) {
        tern_client_unstash_local(client);
    }
    return result;
}

static enum tern_result save_replica(struct tern_client *client)
{
    TERN_TRY(tern_record_save_replica(client));
    client->replica_unsaved = false;
    if (TERN_PARTIALS) {
        client->unsaved_bytes = 0;
    }
    return TERN_OK;
}

// Returns the most bytes of applied downloads that the replica's record may lack. Saving a large replica after each small delta
// would wear out the flash and take too long.
static uint64_t unsaved_max(const struct tern_client *client)
{
    const uint64_t record = (uint64_t)client->work.model->count * sizeof(float);
    return record / TERN_CLIENT_UNSAVED_SHARE > TERN_CLIENT_UNSAVED_MIN
               ? record / TERN_CLIENT_UNSAVED_SHARE
               : TERN_CLIENT_UNSAVED_MIN;
}

// Saves the replica if its record lacks too many bytes of applied downloads, because the next download overwrites the stored
// one.
static enum tern_result save_if_much_is_unsaved(struct tern_client *client, uint32_t size)
{
    if (!tern_partial_exists(client)) {
        return TERN_OK;
    }
    client->download_refetched = false;
    client->unsaved_bytes += client->replica_unsaved ? size : 0;
    return !is_final(client) && client->unsaved_bytes > unsaved_max(client) ? save_replica(client)
                                                                            : TERN_OK;
}

static enum tern_result apply_current_download(struct tern_client *client)
{
    size_t payload = 0;
    const tern_DownloadRef *ref = tern_client_download(client);
    const uint32_t size = ref->size;
    const bool is_inline = tern_client_is_inline(ref);
    const enum tern_result result = apply_keeping_local(client, &payload);
    if (TERN_PARTIALS && client->download_damaged) {
        return refetch_download(client);
    }
    if (TERN_PARTIALS && client->replica_half_updated) {
        return TERN_ERR_IO; // the download became unreadable after its check: tern_client_restore() loads the replica again
    }
    if (result != TERN_OK) {
        return reject_download(client, result,
                               TERN_WHY("a download was refused; the replica stays unchanged"));
    }
    tern_budget_count_payload(client, is_inline ? TERN_PURPOSE_CHECKIN : TERN_PURPOSE_DOWNLOAD,
                              TERN_DOWN, payload);
    client->inline_offset += is_inline ? size : 0;
    client->download_index++;
    client->download_received = 0;
    const struct tern_client_event event = {
        .kind = TERN_EVENT_DOWNLOADED,
        .round = client->task.round,
        .version = client->version,
        .bytes = size,
    };
    tern_client_emit(client, &event);
    return save_if_much_is_unsaved(client, size);
}

// Returns whether the replica is now the task's base.
static bool has_base(const struct tern_client *client)
{
    if (is_final(client)) {
        uint8_t hash[TERN_SHA256_SIZE];
        tern_sha256(client->work.weights, client->work.model->count * sizeof(float), hash);
        return memcmp(hash, client->final_hash, TERN_SHA256_SIZE) == 0;
    }
    return memcmp(client->replica, client->task.base.bytes, TERN_WIRE_REPLICA_BYTES) == 0 &&
           client->version == client->task.base_version;
}

static enum tern_result finish_downloads(struct tern_client *client)
{
    if (!has_base(client)) {
        if (is_final(client)) {
            client->final_mismatch = true;
            TERN_TRY(tern_client_restore_replica(client));
        }
        tern_client_unstash_local(client);
        return tern_client_drop_task(client, TERN_ERR_WRONG_REPLICA,
                                     TERN_WHY("the downloads do not lead to the task's base"));
    }
    tern_client_unstash_local(client);
    if (client->replica_unsaved) {
        TERN_TRY(save_replica(client));
    }
    tern_partial_drop(client);
    if (is_final(client)) {
        return tern_client_finish_with_global(client);
    }
    client->phase =
        client->task.kind == tern_TaskKind_TASK_TRAIN ? TERN_PHASE_TRAIN : TERN_PHASE_EVALUATE;
    return TERN_OK;
}

enum tern_result tern_phase_download(struct tern_client *client)
{
    const size_t wanted = (size_t)client->task.downloads_count + client->task.has_indices;
    if (client->download_index >= wanted) {
        return finish_downloads(client);
    }
    if (!tern_client_is_inline(tern_client_download(client))) {
        TERN_TRY(fetch_missing(client));
    }
    return apply_current_download(client);
}
