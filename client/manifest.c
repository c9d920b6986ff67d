// Loads the manifest of a model that this program cannot build from its spec, or fetches it by its hash and saves it. After a
// broken connection the received bytes stay in the caller's memory, and the next request asks for the missing ones.
#include "core.h"

#include <string.h>

// Bytes that hold any Error message. The buffer must hold one even if only a few bytes of the manifest are missing.
#define ERROR_ROOM (sizeof(tern_Error) + 8)

enum tern_result tern_client_stored_manifest(struct tern_client *client, uint8_t *dst, size_t size,
                                             size_t *len)
{
    if (!client->identified) {
        return TERN_ERR_STATE;
    }
    const enum tern_result result = tern_record_load_manifest(client, dst, size, len);
    // The caller fetches a manifest that is damaged or too long for its memory again.
    return result == TERN_ERR_CORRUPT || result == TERN_ERR_TOO_LARGE ? TERN_ERR_NOT_FOUND : result;
}

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

// Returns the size of the manifest as announced at enrolment, or the size of the caller's memory if it was not announced.
static size_t expected_size(const struct tern_client *client, size_t size)
{
    const size_t announced = client->identity.manifest;
    return announced > 0 ? smaller(announced, size) : size;
}

// Loads the meter if necessary, and reserves the bytes in the budgets. No round has begun yet, so each request counts as a
// round.
static enum tern_result reserve_bytes(struct tern_client *client, uint64_t bytes)
{
    if (!client->meter_loaded) {
        TERN_TRY(tern_client_restore_meter(client));
        client->meter_loaded = true;
    }
    client->round_done = true;
    const enum tern_result asked = tern_budget_reserve_or_wait(client, tern_budget_cost(bytes, 1));
    return asked == TERN_AGAIN ? TERN_ERR_BUDGET : asked;
}

static enum tern_result prepare(struct tern_client *client, uint8_t *dst, size_t size)
{
    char path[TERN_PATH_MAX];
    const size_t most = expected_size(client, size);
    if (client->manifest_received >= most) {
        client->manifest_received =
            0; // the connection broke after the last byte: fetch the manifest again
    }
    TERN_TRY(reserve_bytes(client, most - client->manifest_received));
    tern_path_download(client->identity.model_hash, path);
    tern_client_request(client, TERN_PURPOSE_DOWNLOAD, "GET", path);
    client->request.range_from = client->manifest_received;
    client->response.body = dst + client->manifest_received;
    client->response.body_size = smaller(most + ERROR_ROOM, size) - client->manifest_received;
    return TERN_OK;
}

// Handles a response that is missing, incomplete, or too large because it has the complete manifest instead of the missing
// bytes. Keeps the received bytes in the caller's memory.
static enum tern_result handle_partial_answer(struct tern_client *client, enum tern_result result)
{
    const bool continues = tern_client_body_continues(client);
    if (result == TERN_ERR_TOO_LARGE) {
        client->manifest_received = 0;
        return continues ? result : TERN_ERR_HTTP;
    }
    if ((result == TERN_ERR_NETWORK || result == TERN_ERR_CANCELLED) && continues) {
        client->manifest_received += client->response.body_len;
    }
    return result;
}

// An older aggregator, or the aggregator of another federation, answers TERN_ERR_NOT_FOUND.
static enum tern_result read_status(const struct tern_client *client)
{
    const enum tern_result result = tern_client_answer_result(client);
    return result == TERN_ERR_NOT_FOUND ? TERN_ERR_MODEL_MISMATCH : result;
}

static enum tern_result handle_answer(struct tern_client *client, const uint8_t *dst, size_t *len)
{
    uint8_t digest[TERN_SHA256_SIZE];
    *len = client->manifest_received + client->response.body_len;
    client->manifest_received = 0;
    if (!tern_client_body_continues(client)) {
        return TERN_ERR_HTTP; // the response has the complete manifest instead of the missing bytes
    }
    tern_sha256(dst, *len, digest);
    return memcmp(digest, client->identity.model_hash, TERN_SHA256_SIZE) == 0
               ? tern_record_save_manifest(client, dst, *len)
               : TERN_ERR_CORRUPT;
}

enum tern_result tern_client_manifest(struct tern_client *client, uint8_t *dst, size_t size,
                                      size_t *len)
{
    if (!client->in_flight && tern_watch_take_cancel(client)) {
        return TERN_ERR_CANCELLED;
    }
    if (!client->in_flight && client->manifest_received == 0) {
        const enum tern_result stored = tern_client_stored_manifest(client, dst, size, len);
        if (stored != TERN_ERR_NOT_FOUND) {
            return stored;
        }
    }
    if (!client->in_flight) {
        TERN_TRY(prepare(client, dst, size));
    }
    const enum tern_result sent = tern_client_exchange(client);
    if (sent == TERN_AGAIN) {
        return sent;
    }
    TERN_TRY(tern_client_save_meter(client)); // outside a round nothing else saves the meter
    if (sent != TERN_OK) {
        return handle_partial_answer(client, sent);
    }
    TERN_TRY(read_status(client));
    return handle_answer(client, dst, len);
}
