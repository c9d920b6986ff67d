// Sends the statistics of the columns, once; or fetches the federation's scaling, saves it, and applies it to the columns. Each
// is one request, after which the client checks in.
#include "core.h"

#include <string.h>

// Most bytes of a Statistics or Scaling message without its columns.
#define MESSAGE_ROOM 64

static size_t columns_len(const struct tern_client *client)
{
    return (size_t)client->work.columns.count * TERN_WIRE_COLUMN_BYTES;
}

// Schedules a check-in after a failure.
static enum tern_result return_to_checkin(struct tern_client *client, enum tern_result result,
                                          const char *why)
{
    client->phase = TERN_PHASE_CHECKIN;
    return tern_client_retry_later(client, result, why);
}

static enum tern_result reserve_bytes(struct tern_client *client, uint64_t bytes)
{
    const enum tern_result result = tern_budget_reserve_or_wait(client, tern_budget_cost(bytes, 1));
    if (result == TERN_AGAIN) {
        client->phase = TERN_PHASE_CHECKIN;
    }
    return result;
}

// --- Sending

static const char *why_not_measured(enum tern_result result)
{
    return result == TERN_ERR_NON_FINITE
               ? TERN_WHY(
                     "the mean or variance of a column is too large for float32; a value such as "
                     "1e30 may mark missing ones")
               : TERN_WHY("the columns have no statistics: the data has no example, or too many "
                          "columns");
}

// Measures the columns into the blob, and encodes the Statistics message at the start of the blob.
static enum tern_result encode_statistics(struct tern_client *client, size_t *len)
{
    const struct tern_column_port *columns = &client->work.columns;
    const size_t behind = columns_len(client) + MESSAGE_ROOM;
    tern_Statistics message;
    memset(&message, 0, sizeof message);
    if (client->work.blob_size < behind + columns_len(client)) {
        return TERN_ERR_NO_SPACE;
    }
    uint8_t *pairs = client->work.blob + behind;
    TERN_TRY(columns->measure(columns->ctx, pairs, &message.num_examples));
    return tern_wire_encode_statistics(&message, (struct tern_span){pairs, columns_len(client)},
                                       client->work.blob, behind, len);
}

// Deletes the saved scaling and stops the client with TERN_ERR_STATE. After a restart the columns are unscaled.
static enum tern_result forget_scaling(struct tern_client *client)
{
    TERN_TRY(tern_record_save_scaling(client, (struct tern_span){NULL, 0}));
    return TERN_ERR_STATE;
}

static enum tern_result prepare_sending(struct tern_client *client)
{
    size_t len = 0;
    if (client->scaling !=
        0) { // the aggregator no longer has the scaling that this client has applied
        return forget_scaling(client);
    }
    const enum tern_result result = encode_statistics(client, &len);
    if (result == TERN_ERR_CONFIG) {
        return result;
    }
    if (result != TERN_OK) {
        return return_to_checkin(client, result, why_not_measured(result));
    }
    TERN_TRY(reserve_bytes(client, len));
    tern_client_request(client, TERN_PURPOSE_UPLOAD, "PUT", TERN_PATH_STATISTICS);
    client->request.body = client->work.blob;
    client->request.body_len = len;
    return TERN_OK;
}

// Handles the response to the statistics, which the aggregator has accepted.
static enum tern_result handle_accepted(struct tern_client *client)
{
    tern_UpdateReply reply;
    tern_Statistics message;
    struct tern_span columns;
    const enum tern_result result =
        tern_wire_decode_update_reply(client->response.body, client->response.body_len, &reply);
    if (result != TERN_OK) {
        return return_to_checkin(client, result,
                                 TERN_WHY("the answer to the statistics is malformed"));
    }
    TERN_TRY(tern_wire_decode_statistics(client->request.body, client->request.body_len, &message,
                                         &columns));
    client->failures = 0;
    client->phase = TERN_PHASE_CHECKIN;
    const struct tern_client_event event = {
        .kind = TERN_EVENT_STATISTICS,
        .num_examples = message.num_examples,
        .bytes = client->request.body_len,
    };
    tern_client_emit(client, &event);
    return TERN_OK;
}

// --- Fetching

static enum tern_result prepare_fetching(struct tern_client *client)
{
    char path[TERN_PATH_MAX];
    const size_t size = client->scaling_ref.size;
    if (size > columns_len(client) + MESSAGE_ROOM) {
        return return_to_checkin(
            client, TERN_ERR_MODEL_MISMATCH,
            TERN_WHY("the federation's scaling has more columns than this client's data"));
    }
    if (size > client->work.blob_size) {
        return return_to_checkin(
            client, TERN_ERR_NO_SPACE,
            TERN_WHY("the federation's scaling does not fit into this client's memory"));
    }
    TERN_TRY(reserve_bytes(client, size));
    tern_path_download(client->scaling_ref.sha256.bytes, path);
    tern_client_request(client, TERN_PURPOSE_DOWNLOAD, "GET", path);
    client->response.body = client->work.blob;
    client->response.body_size = client->work.blob_size;
    return TERN_OK;
}

static enum tern_result read_scaling(const struct tern_client *client, struct tern_span scaling,
                                     struct tern_span *columns)
{
    tern_Scaling message;
    TERN_TRY(tern_wire_decode_scaling(scaling.data, scaling.len, &message, columns));
    return columns->len == columns_len(client) ? TERN_OK : TERN_ERR_MODEL_MISMATCH;
}

static enum tern_result apply_scaling(struct tern_client *client, struct tern_span columns,
                                      uint32_t tag)
{
    TERN_TRY(client->work.columns.scale(client->work.columns.ctx, tag, columns.data));
    client->scaling = tag;
    return TERN_OK;
}

// Saves the received scaling, and then applies it. In the other order, a client that stops in between could train the same
// model on data with another scaling.
static enum tern_result handle_scaling(struct tern_client *client)
{
    const struct tern_span scaling = {client->response.body, client->response.body_len};
    struct tern_span columns;
    uint8_t sha256[TERN_SHA256_SIZE];
    tern_sha256(scaling.data, scaling.len, sha256);
    if (memcmp(sha256, client->scaling_ref.sha256.bytes, TERN_SHA256_SIZE) != 0) {
        return return_to_checkin(client, TERN_ERR_CORRUPT,
                                 TERN_WHY("the received scaling does not match its SHA-256"));
    }
    const enum tern_result result = read_scaling(client, scaling, &columns);
    if (result != TERN_OK) {
        return return_to_checkin(
            client, result,
            TERN_WHY("the federation's scaling does not fit this client's columns"));
    }
    TERN_TRY(tern_record_save_scaling(client, scaling));
    TERN_TRY(apply_scaling(client, columns, tern_scaling_tag(sha256)));
    client->failures = 0;
    client->phase = TERN_PHASE_CHECKIN;
    const struct tern_client_event event = {.kind = TERN_EVENT_SCALED, .bytes = scaling.len};
    tern_client_emit(client, &event);
    return TERN_OK;
}

enum tern_result tern_phase_statistics(struct tern_client *client)
{
    if (!client->in_flight) {
        TERN_TRY(client->sends_statistics ? prepare_sending(client) : prepare_fetching(client));
    }
    const enum tern_result sent = tern_client_exchange(client);
    if (sent == TERN_AGAIN) {
        return sent;
    }
    const enum tern_result result = sent == TERN_OK ? tern_client_answer_result(client) : sent;
    if (result == TERN_ERR_UNAUTHORIZED) {
        return result;
    }
    if (result != TERN_OK) {
        return return_to_checkin(
            client, result,
            client->sends_statistics
                ? TERN_WHY("the aggregator did not accept the columns' statistics")
                : TERN_WHY("the aggregator did not send the federation's scaling"));
    }
    return client->sends_statistics ? handle_accepted(client) : handle_scaling(client);
}

// --- From the store

enum tern_result tern_client_stored_scaling(const struct tern_client *client, uint8_t *dst,
                                            size_t size, size_t *len)
{
    if (!client->identified) {
        return TERN_ERR_STATE;
    }
    const enum tern_result result = tern_record_load_scaling(client, dst, size, len);
    return result == TERN_ERR_STATE ? TERN_ERR_NOT_FOUND : result;
}

// Ignores a stored scaling that is damaged or has another number of columns: the client fetches it again.
enum tern_result tern_client_restore_scaling(struct tern_client *client)
{
    struct tern_span columns;
    uint8_t sha256[TERN_SHA256_SIZE];
    size_t len = 0;
    client->scaling = 0;
    if (client->work.columns.scale == NULL) {
        return TERN_OK;
    }
    const enum tern_result result =
        tern_client_stored_scaling(client, client->work.blob, client->work.blob_size, &len);
    if (result == TERN_ERR_IO) {
        return result;
    }
    if (result != TERN_OK ||
        read_scaling(client, (struct tern_span){client->work.blob, len}, &columns) != TERN_OK) {
        return TERN_OK;
    }
    tern_sha256(client->work.blob, len, sha256);
    return apply_scaling(client, columns, tern_scaling_tag(sha256));
}
