#include "service/internal.h"

#include <stdlib.h>
#include <string.h>

int status_of(enum tern_result result)
{
    switch ((int)result) {
    case TERN_ERR_UNAUTHORIZED:
        return 401;
    case TERN_ERR_NOT_FOUND:
        return 404;
    case TERN_ERR_CONFLICT:
        return 409;
    case TERN_ERR_LATE:
        return 410;
    case TERN_ERR_TOO_LARGE:
        return 413;
    case TERN_ERR_BUSY:
    case TERN_ERR_IO:
    case TERN_ERR_NO_MEMORY:
        return 503;
    default:
        return 422;
    }
}

static void clear_reply(struct request *request)
{
    tern_blob_release(request->reply.body);
    memset(&request->reply, 0, sizeof request->reply);
}

void answer_refusal(struct request *request, int status, enum tern_result result,
                    const char *sentence)
{
    tern_Error error = tern_Error_init_zero;
    uint8_t body[sizeof error + 16];
    size_t len = 0;
    strncpy(error.name, tern_result_name(result), sizeof error.name - 1);
    strncpy(error.sentence, sentence, sizeof error.sentence - 1);
    clear_reply(request);
    if (tern_wire_encode_error(&error, body, sizeof body, &len) == TERN_OK) {
        answer_bytes(request, body, len);
    }
    request->reply.status = status;
    request->reply.retry_after_s = status == 429 || status == 503 ? 1 : 0;
    request->answered = true;
}

void answer_error(struct request *request, int status, enum tern_result result)
{
    answer_refusal(request, status, result, tern_result_sentence(result));
}

void answer_unavailable(struct request *request)
{
    answer_refusal(request, 503, TERN_ERR_BUSY,
                   "The aggregator could not store this; nothing changed. Try again.");
}

void answer_bytes(struct request *request, const uint8_t *body, size_t len)
{
    clear_reply(request);
    struct tern_blob *blob = tern_blob_new(len);
    request->answered = true;
    if (blob == NULL) {
        // The work is done and stored; the peer asks again and is told then.
        request->reply.status = 503;
        request->reply.retry_after_s = 1;
        return;
    }
    memcpy(blob->data, body, len);
    request->reply.status = 200;
    request->reply.body = blob;
}

void answer_blob(struct request *request, struct tern_blob *blob, uint64_t from, uint32_t payload)
{
    clear_reply(request);
    request->reply.status = 200;
    request->reply.body = blob;
    request->reply.body_from = (size_t)from;
    request->reply.cache = "public, max-age=31536000, immutable";
    uint64_t left = from < blob->len ? blob->len - from : 0; // from beyond the end: 416
    request->tag.payload_down = left < payload ? left : payload;
    request->answered = true;
}

void send_answer(struct request *request)
{
    if (request->kind != REQUEST_JOB) {
        tern_http_exchange_tag(request->exchange, &request->tag);
    } else {
        free(request->u.job.ctx);
    }
    if (request->kind == REQUEST_UPDATE) {
        free(request->u.update.joined);
    }
    tern_http_reply(request->exchange, &request->reply);
    free(request);
}
