// The manifest of a model that this program does not build from its spec: kept as a record, fetched
// by its hash when that is missing.
#include "core.h"

#include <string.h>

#if TERN_MANIFESTS

enum tern_result tern_client_stored_manifest(struct tern_client *client, uint8_t *dst, size_t size,
                                             size_t *len)
{
    if (!client->identified) {
        return TERN_ERR_STATE;
    }
    const enum tern_result result = tern_record_load_manifest(client, dst, size, len);
    // What is damaged or of another size is of no use, and can be had again.
    return result == TERN_ERR_CORRUPT || result == TERN_ERR_TOO_LARGE ? TERN_ERR_NOT_FOUND : result;
}

static void prepare(struct tern_client *client, uint8_t *dst, size_t size)
{
    char path[TERN_PATH_MAX];
    tern_path_download(client->identity.model_hash, path);
    tern_client_request(client, TERN_PURPOSE_DOWNLOAD, "GET", path);
    client->response.body = dst;
    client->response.body_size = size;
}

// An aggregator that has no such download says NOT_FOUND: it is older, or of another federation.
static enum tern_result answer_of(const struct tern_client *client)
{
    const enum tern_result result = tern_client_answer(client);
    return result == TERN_ERR_NOT_FOUND ? TERN_ERR_MODEL_MISMATCH : result;
}

enum tern_result tern_client_manifest(struct tern_client *client, uint8_t *dst, size_t size,
                                      size_t *len)
{
    if (!client->in_flight) {
        const enum tern_result stored = tern_client_stored_manifest(client, dst, size, len);
        if (stored != TERN_ERR_NOT_FOUND) {
            return stored;
        }
        prepare(client, dst, size);
    }
    TERN_TRY(tern_client_exchange(client));
    TERN_TRY(answer_of(client));
    uint8_t digest[TERN_SHA256_SIZE];
    *len = client->response.body_len;
    tern_sha256(dst, *len, digest);
    if (memcmp(digest, client->identity.model_hash, TERN_SHA256_SIZE) != 0) {
        return TERN_ERR_CORRUPT;
    }
    return tern_record_save_manifest(client, dst, *len);
}

#endif
