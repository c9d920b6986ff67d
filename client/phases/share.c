// Makes the request body of the pending update. In some rounds all clients send values at the indices that one of them chose
// (ScaleCom, section 3), and the aggregator already has these indices: the body omits them. The pending update itself has them,
// because adding its values to the error buffer again needs them. Each attempt makes the same bytes.
#include "core.h"

#include "codec/sparse_share.h"

// Writes a copy of the update without its indices to the blob, behind the pending update if that is in the blob.
static enum tern_result strip_indices(struct tern_client *client, const tern_Update *message,
                                      struct tern_span container, struct tern_span *body)
{
    struct tern_client_pending *pending = &client->pending;
    const size_t beside = tern_client_update_end(client);
    uint8_t *dst = client->work.blob + beside;
    const size_t room = client->work.blob_size - beside;
    if (room < container.len) {
        return TERN_ERR_NO_SPACE;
    }
    const size_t message_room = room - container.len;
    struct tern_span stripped = {dst + message_room, 0};
    TERN_TRY(tern_sparse_strip(client->work.model, container.data, container.len,
                               dst + message_room, container.len, &stripped.len));
    size_t len = 0;
    TERN_TRY(tern_wire_encode_update(message, stripped, dst, message_room, &len));
    *body = (struct tern_span){dst, len};
    pending->sent = (uint32_t)len;
    pending->container = (uint32_t)stripped.len;
    return TERN_OK;
}

enum tern_result tern_share_body(struct tern_client *client, struct tern_span *body)
{
    tern_Update message;
    struct tern_span container;
    *body = (struct tern_span){tern_client_update(client), client->pending.len};
    TERN_TRY(tern_wire_decode_update(body->data, body->len, &message, &container));
    client->pending.sent = client->pending.len;
    client->pending.container = (uint32_t)container.len;
    return TERN_CLIENT_SHARING && message.shared_indices
               ? strip_indices(client, &message, container, body)
               : TERN_OK;
}
