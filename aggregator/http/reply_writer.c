// Heads are as short as HTTP allows: every byte is paid for by a device. No Date, no Server, no
// Content-Type unless asked for.
#include "http/reply_writer.h"
#include "wire/wire.h"
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

// X(status, reason phrase)
#define STATUS_LIST(X)                                                                             \
    X(200, "OK")                                                                                   \
    X(201, "Created")                                                                              \
    X(204, "No Content")                                                                           \
    X(206, "Partial Content")                                                                      \
    X(304, "Not Modified")                                                                         \
    X(400, "Bad Request")                                                                          \
    X(401, "Unauthorized")                                                                         \
    X(403, "Forbidden")                                                                            \
    X(404, "Not Found")                                                                            \
    X(405, "Method Not Allowed")                                                                   \
    X(408, "Request Timeout")                                                                      \
    X(409, "Conflict")                                                                             \
    X(410, "Gone")                                                                                 \
    X(413, "Content Too Large")                                                                    \
    X(414, "URI Too Long")                                                                         \
    X(416, "Range Not Satisfiable")                                                                \
    X(417, "Expectation Failed")                                                                   \
    X(422, "Unprocessable Content")                                                                \
    X(429, "Too Many Requests")                                                                    \
    X(431, "Request Header Fields Too Large")                                                      \
    X(500, "Internal Server Error")                                                                \
    X(503, "Service Unavailable")                                                                  \
    X(505, "HTTP Version Not Supported")

static const char *phrase_of(int status)
{
    switch (status) {
#define STATUS_CASE(code, phrase)                                                                  \
    case code:                                                                                     \
        return phrase;
        STATUS_LIST(STATUS_CASE)
#undef STATUS_CASE
    default:
        return "";
    }
}

__attribute__((format(printf, 2, 3))) static void head_add(struct tern_reply_out *out,
                                                           const char *format, ...)
{
    size_t room = sizeof out->head - out->head_len;
    va_list arguments;
    va_start(arguments, format);
    // NOLINTNEXTLINE(clang-analyzer-valist.Uninitialized): va_start() is two lines above
    int len = vsnprintf(out->head + out->head_len, room, format, arguments);
    va_end(arguments);
    // On overflow head_len becomes the full size, which no whole head has.
    out->head_len += len >= 0 && (size_t)len < room ? (size_t)len : room;
}

// An entity tag is asked for by caches and by clients that resume with If-Range. Cached replies
// are content-addressed: their path names their bytes, so that every version of one path is the
// same, and the shortest tag there is says so.
static void add_cache(struct tern_reply_out *out, const struct tern_http_reply *reply)
{
    if (reply->cache != NULL) {
        head_add(out, "Cache-Control: %s\r\nETag: \"1\"\r\n", reply->cache);
    }
}

static void add_headers(struct tern_reply_out *out, const struct tern_http_reply *reply,
                        struct tern_reply_shape shape)
{
    if (reply->retry_after_s > 0) {
        head_add(out, "Retry-After: %" PRIu32 "\r\n", reply->retry_after_s);
    }
    add_cache(out, reply);
    if (reply->type != NULL) {
        head_add(out, "Content-Type: %s\r\n", reply->type);
    }
    if (shape.closes) {
        head_add(out, "Connection: close\r\n");
    }
}

static bool has_body(int status)
{
    return status >= 200 && status != 204 && status != 304;
}

static void write_head(struct tern_reply_out *out, const struct tern_http_reply *reply,
                       struct tern_reply_shape shape)
{
    int status = reply->status;
    size_t total = reply->body != NULL ? reply->body->len : 0;
    out->head_len = 0;
    head_add(out, "HTTP/1.1 %d %s\r\n", status, phrase_of(status));
    if (status == 206) {
        head_add(out, "Content-Range: bytes %zu-%zu/%zu\r\n", reply->body_from, total - 1, total);
    } else if (status == 416) {
        head_add(out, "Content-Range: bytes */%zu\r\n", total);
    }
    if (has_body(status)) {
        head_add(out, "Content-Length: %zu\r\n", status == 416 ? 0 : total - reply->body_from);
    }
    add_headers(out, reply, shape);
    head_add(out, "\r\n");
}

// The reply with the status that its range makes it.
static struct tern_http_reply ranged(const struct tern_http_reply *reply)
{
    struct tern_http_reply effective = *reply;
    if (reply->body_from > 0) {
        size_t total = reply->body != NULL ? reply->body->len : 0;
        effective.status = reply->body_from < total ? 206 : 416;
    }
    return effective;
}

void tern_reply_write(const struct tern_http_reply *reply, struct tern_reply_shape shape,
                      struct tern_reply_out *out)
{
    struct tern_http_reply effective = ranged(reply);
    write_head(out, &effective, shape);
    if (out->head_len >= sizeof out->head) {
        effective = (struct tern_http_reply){.status = 500, .body = effective.body};
        effective.body_from = effective.body != NULL ? effective.body->len : 0;
        write_head(out, &effective, shape);
    }
    bool sends = has_body(effective.status) && effective.status != 416 && !shape.head_only;
    size_t total = effective.body != NULL ? effective.body->len : 0;
    out->blob = effective.body;
    out->body_len = sends ? total - effective.body_from : 0;
    out->body = out->body_len > 0 ? out->blob->data + effective.body_from : NULL;
    out->sent = 0;
}

void tern_reply_write_continue(struct tern_reply_out *out)
{
    out->head_len = 0;
    head_add(out, "HTTP/1.1 100 Continue\r\n\r\n");
    out->blob = NULL;
    out->body = NULL;
    out->body_len = 0;
    out->sent = 0;
}

// X(status, result, what went wrong and what to do)
#define REFUSAL_LIST(X)                                                                            \
    X(400, TERN_ERR_CORRUPT, "The request is not well-formed HTTP/1.1.")                           \
    X(401, TERN_ERR_UNAUTHORIZED, "The credentials are missing, wrong or revoked.")                \
    X(403, TERN_ERR_UNAUTHORIZED, "The credentials do not allow this.")                            \
    X(404, TERN_ERR_NOT_FOUND, "There is no such path.")                                           \
    X(405, TERN_ERR_HTTP, "This path does not know that method.")                                  \
    X(408, TERN_ERR_BUSY, "The request did not arrive in time; send it again.")                    \
    X(413, TERN_ERR_TOO_LARGE, "The body is larger than the aggregator's limit.")                  \
    X(414, TERN_ERR_TOO_LARGE, "The path is longer than the aggregator's header limit.")           \
    X(417, TERN_ERR_HTTP, "The only expectation known is 100-continue.")                           \
    X(429, TERN_ERR_BUSY, "Too many requests; wait before the next one.")                          \
    X(431, TERN_ERR_TOO_LARGE, "The headers are larger than the aggregator's limit.")              \
    X(503, TERN_ERR_BUSY, "The aggregator is at its limit; try again later.")                      \
    X(505, TERN_ERR_HTTP, "Only HTTP/1.1 and HTTP/1.0 are spoken here.")

static enum tern_result result_of(int status, const char **sentence)
{
    switch (status) {
#define REFUSAL_CASE(code, result, text)                                                           \
    case code:                                                                                     \
        *sentence = text;                                                                          \
        return result;
        REFUSAL_LIST(REFUSAL_CASE)
#undef REFUSAL_CASE
    default:
        *sentence = "The request was refused.";
        return TERN_ERR_HTTP;
    }
}

struct tern_http_reply tern_reply_refusal(int status)
{
    struct tern_http_reply reply = {.status = status};
    const char *sentence = NULL;
    tern_Error error = tern_Error_init_zero;
    snprintf(error.name, sizeof error.name, "%s", tern_result_name(result_of(status, &sentence)));
    snprintf(error.sentence, sizeof error.sentence, "%s", sentence);
    uint8_t bytes[256];
    size_t len = 0;
    if (tern_wire_encode_error(&error, bytes, sizeof bytes, &len) == TERN_OK) {
        reply.body = tern_blob_new(len);
    }
    if (reply.body != NULL) {
        memcpy(reply.body->data, bytes, len);
    }
    if (status == 429 || status == 503) {
        reply.retry_after_s = 5;
    }
    return reply;
}

size_t tern_reply_body_sent(const struct tern_reply_out *out)
{
    return out->sent > out->head_len ? out->sent - out->head_len : 0;
}

void tern_reply_clear(struct tern_reply_out *out)
{
    tern_blob_release(out->blob);
    out->blob = NULL;
    out->body = NULL;
    out->body_len = 0;
    out->head_len = 0;
    out->sent = 0;
}
