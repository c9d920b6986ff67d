// The manifest of a model that this program does not build from its spec: loaded from a record, or fetched by its hash and
// saved. After a broken connection the received bytes stay in the caller's memory, and only the rest is requested.
#include "core.h"

#include <string.h>

// The size of any Error, which must fit even when only a short rest was requested.
#define ERROR_ROOM (sizeof(tern_Error) + 8)

enum tern_result tern_client_stored_manifest(struct tern_client *client, uint8_t *dst, size_t size,
                                             size_t *len)
{
    if (!client->identified) {
        return TERN_ERR_STATE;
    }
    const enum tern_result result = tern_record_load_manifest(client, dst, size, len);
    // A damaged record, or one of another size, is fetched again.
    return result == TERN_ERR_CORRUPT || result == TERN_ERR_TOO_LARGE ? TERN_ERR_NOT_FOUND : result;
}

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

// The expected size of the manifest; the caller's space when the enrolment gave none.
static size_t expected_size(const struct tern_client *client, size_t size)
{
    const size_t said = client->identity.manifest;
    return said > 0 ? smaller(said, size) : size;
}

// Reserves the bytes in the budgets after loading the meter. Enrolling and fetching precede any round, so each request has
// a round's account of its own.
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
        client->manifest_received = 0; // all bytes arrived, but not the end of the answer
    }
    TERN_TRY(reserve_bytes(client, most - client->manifest_received));
    tern_path_download(client->identity.model_hash, path);
    tern_client_request(client, TERN_PURPOSE_DOWNLOAD, "GET", path);
    client->request.range_from = client->manifest_received;
    client->response.body = dst + client->manifest_received;
    client->response.body_size = smaller(most + ERROR_ROOM, size) - client->manifest_received;
    return TERN_OK;
}

// Handles a missing or partial answer, or one that is too large because it contains the whole manifest instead of the rest.
// The received bytes stay in the caller's memory.
static enum tern_result handle_partial_answer(struct tern_client *client, enum tern_result result)
{
    const bool continues = tern_client_body_continues(client);
    if (result == TERN_ERR_TOO_LARGE) {
        client->manifest_received = 0;
        return continues ? result : TERN_ERR_HTTP;
    }
    if (result == TERN_ERR_NETWORK && continues) {
        client->manifest_received += client->response.body_len;
    }
    return result;
}

// An older aggregator, or one of another federation, answers NOT_FOUND.
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
        return TERN_ERR_HTTP; // the whole manifest instead of the requested rest
    }
    tern_sha256(dst, *len, digest);
    return memcmp(digest, client->identity.model_hash, TERN_SHA256_SIZE) == 0
               ? tern_record_save_manifest(client, dst, *len)
               : TERN_ERR_CORRUPT;
}

enum tern_result tern_client_manifest(struct tern_client *client, uint8_t *dst, size_t size,
                                      size_t *len)
{
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
    TERN_TRY(tern_client_save_meter(client)); // there is no round yet that would save it
    if (sent != TERN_OK) {
        return handle_partial_answer(client, sent);
    }
    TERN_TRY(read_status(client));
    return handle_answer(client, dst, len);
}
