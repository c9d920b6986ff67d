// The answer to a check-in. A client's own downloads come with its task, which saves it an exchange;
// those that are the same for many stay behind their names, where caches keep them, unless they are fewer
// bytes than asking for them is.
#include "meter/price.h"
#include "service/internal.h"

#include <stdlib.h>
#include <string.h>

static enum tern_result answer_plain(struct request *request, const tern_CheckinReply *reply)
{
    const struct tern_span none = {0};
    uint8_t body[TERN_WIRE_MESSAGE_MAX];
    size_t len = 0;
    enum tern_result encoded = tern_wire_encode_checkin_reply(reply, none, body, sizeof body, &len);
    tern_answer_message(request, encoded, body, len);
    return TERN_OK;
}

static size_t downloads_size(const tern_Task *task)
{
    size_t size = 0;
    for (pb_size_t i = 0; i < task->downloads_count; i++) {
        size += task->downloads[i].size;
    }
    return size;
}

// A client cannot tell by the task's base whether a snapshot is whole, so that goes by its name.
static bool is_delta(const struct tern_blob *blob)
{
    tern_Download message;
    struct tern_span container;
    return tern_wire_decode_download(blob->data, blob->len, &message, &container) == TERN_OK &&
           message.kind == tern_DownloadKind_DOWNLOAD_DELTA;
}

// Puts the task's downloads one behind the other. dst has room for all of them.
// TERN_ERR_NOT_FOUND  one is not there any more, or is a snapshot
// TERN_ERR_BUSY       one cannot be read now
static enum tern_result gather(struct tern_service *service, const tern_Task *task, uint8_t *dst,
                               uint32_t *payload)
{
    for (pb_size_t i = 0; i < task->downloads_count; i++) {
        const tern_DownloadRef *ref = &task->downloads[i];
        struct tern_blob *blob = NULL;
        struct tern_download_facts facts;
        TERN_TRY(tern_federation_blob(service->federation, ref->sha256.bytes, &blob, &facts));
        const bool fits = blob->len == ref->size && is_delta(blob);
        if (fits) {
            memcpy(dst, blob->data, blob->len);
        }
        tern_blob_release(blob);
        TERN_TRY(fits ? TERN_OK : TERN_ERR_NOT_FOUND);
        dst += ref->size;
        *payload += facts.payload;
    }
    return TERN_OK;
}

// The names go, as the bytes are there.
static tern_CheckinReply unnamed(const tern_CheckinReply *reply)
{
    tern_CheckinReply copy = *reply;
    for (pb_size_t i = 0; i < copy.task.downloads_count; i++) {
        copy.task.downloads[i].sha256.size = 0;
    }
    return copy;
}

// memory: room for the downloads, then for the whole answer, `most` bytes each.
// TERN_ERR_NOT_FOUND, TERN_ERR_NO_SPACE, TERN_ERR_BUSY  they cannot come inline
static enum tern_result try_inline(struct tern_service *service, struct request *request,
                                   const tern_CheckinReply *reply, uint8_t *memory, size_t most)
{
    const struct tern_span downloads = {memory, downloads_size(&reply->task)};
    uint32_t payload = 0;
    size_t len = 0;
    TERN_TRY(downloads.len <= most ? TERN_OK : TERN_ERR_NO_SPACE);
    TERN_TRY(gather(service, &reply->task, memory, &payload));
    const tern_CheckinReply message = unnamed(reply);
    TERN_TRY(tern_wire_encode_checkin_reply(&message, downloads, memory + most, most, &len));
    tern_answer_message(request, TERN_OK, memory + most, len);
    request->tag.payload_down = payload;
    service->counters.downloads += message.task.downloads_count;
    return TERN_OK;
}

static bool may_inline(const struct tern_next *next)
{
    const size_t size = next->reply.has_task ? downloads_size(&next->reply.task) : 0;
    return size > 0 && (next->own_downloads || size <= TERN_PRICE_EXCHANGE);
}

enum tern_result tern_service_answer_checkin(struct tern_service *service, struct request *request,
                                             const struct tern_next *next)
{
    const uint64_t asked = (uint64_t)request->u.checkin.inline_kib * 1024;
    const size_t most = asked < TERN_PRICE_INLINE_MAX ? (size_t)asked : TERN_PRICE_INLINE_MAX;
    if (most == 0 || !may_inline(next)) {
        return answer_plain(request, &next->reply);
    }
    uint8_t *memory = malloc(2 * most);
    if (memory == NULL) {
        return TERN_ERR_NO_MEMORY;
    }
    enum tern_result result = try_inline(service, request, &next->reply, memory, most);
    free(memory);
    return result == TERN_ERR_NOT_FOUND || result == TERN_ERR_NO_SPACE || result == TERN_ERR_BUSY
               ? answer_plain(request, &next->reply)
               : result;
}
