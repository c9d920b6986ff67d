// Receives a download into the partial-download port (ports.h) instead of the blob. A restarted client then requests only the
// missing bytes.
#include "core.h"

#include <string.h>

#define BLOCK ((size_t)1 << 20) // bytes that are mapped and hashed at once

static const struct tern_partial *partial_port(const struct tern_client *client)
{
    return &client->config.ports.partial;
}

enum tern_result tern_partial_open(const struct tern_client *client, const tern_DownloadRef *ref,
                                   size_t *have)
{
    const struct tern_partial *port = partial_port(client);
    return port->open(port->ctx, ref->sha256.bytes, ref->size, have);
}

// Deletes the stored bytes and starts the download again, because the response has the complete download although only the
// missing bytes were requested.
static enum tern_result restart_download(struct tern_client *client, const tern_DownloadRef *ref)
{
    tern_partial_drop(client);
    client->request.range_from = 0;
    return tern_partial_open(client, ref, &client->download_received);
}

static enum tern_result append_received(void *ctx, const uint8_t *data, size_t len)
{
    struct tern_client *client = ctx;
    const struct tern_partial *port = partial_port(client);
    const tern_DownloadRef *ref = tern_client_download(client);
    if (!tern_client_body_continues(client)) {
        TERN_TRY(restart_download(client, ref));
    }
    if (len > ref->size - client->download_received) {
        return TERN_ERR_TOO_LARGE;
    }
    TERN_TRY(port->append(port->ctx, data, len));
    client->download_received += len;
    client->failures = 0;
    return TERN_OK;
}

void tern_partial_receive(struct tern_client *client)
{
    client->response.take = append_received;
    client->response.take_ctx = client;
    client->response.take_size = tern_client_download(client)->size - client->download_received;
}

enum tern_result tern_partial_check(const struct tern_client *client, const tern_DownloadRef *ref)
{
    const struct tern_partial *port = partial_port(client);
    uint8_t digest[TERN_SHA256_SIZE];
    struct tern_sha256 hash;
    tern_sha256_init(&hash);
    for (size_t at = 0; at < ref->size;) {
        const size_t left = ref->size - at;
        const size_t n = left < BLOCK ? left : BLOCK;
        const uint8_t *data = NULL;
        TERN_TRY(port->view(port->ctx, at, n, &data));
        tern_sha256_update(&hash, data, n);
        at += n;
    }
    tern_sha256_final(&hash, digest);
    return memcmp(digest, ref->sha256.bytes, TERN_SHA256_SIZE) == 0 ? TERN_OK : TERN_ERR_CORRUPT;
}

static enum tern_result view_container(void *ctx, size_t offset, size_t len, const uint8_t **data)
{
    const struct tern_client *client = ctx;
    const struct tern_partial *port = partial_port(client);
    return port->view(port->ctx, client->container_offset + offset, len, data);
}

struct tern_container_source tern_partial_container(struct tern_client *client, size_t len)
{
    return (struct tern_container_source){client, len, view_container};
}

enum tern_result tern_partial_view(const struct tern_client *client, size_t len,
                                   const uint8_t **data)
{
    const struct tern_partial *port = partial_port(client);
    return port->view(port->ctx, 0, len, data);
}
