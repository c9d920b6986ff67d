#include "http/reply.h"
#include "wire/wire.h"
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Heads are as short as HTTP allows, since devices pay for every byte: no Date, no Server, no Content-Type unless the
// handler sets a type.

// HTTP statuses, each with the sentence of the tern_Error with which the listener refuses a request. NULL: only
// handlers reply with this status.
static const struct status {
    int code;
    const char *phrase;
    enum tern_result result;
    const char *sentence; // what went wrong and what to do
} statuses[] = {
    {100, "Continue", TERN_OK, NULL},
    {200, "OK", TERN_OK, NULL},
    {201, "Created", TERN_OK, NULL},
    {204, "No Content", TERN_OK, NULL},
    {206, "Partial Content", TERN_OK, NULL},
    {304, "Not Modified", TERN_OK, NULL},
    {400, "Bad Request", TERN_ERR_CORRUPT, "The request is not well-formed HTTP/1.1."},
    {401, "Unauthorized", TERN_ERR_UNAUTHORIZED, "The credentials are missing, wrong or revoked."},
    {403, "Forbidden", TERN_ERR_FORBIDDEN, "The credentials do not allow this."},
    {404, "Not Found", TERN_ERR_NOT_FOUND, "The path does not exist."},
    {405, "Method Not Allowed", TERN_ERR_HTTP, "The path does not support this method."},
    {408, "Request Timeout", TERN_ERR_BUSY, "The request did not arrive in time; send it again."},
    {409, "Conflict", TERN_ERR_HTTP, NULL},
    {410, "Gone", TERN_ERR_HTTP, NULL},
    {411, "Length Required", TERN_ERR_HTTP,
     "Send the body with a Content-Length; Transfer-Encoding is not supported."},
    {413, "Content Too Large", TERN_ERR_TOO_LARGE,
     "The body is larger than the aggregator's limit."},
    {414, "URI Too Long", TERN_ERR_TOO_LARGE,
     "The path is longer than the aggregator's header limit."},
    {416, "Range Not Satisfiable", TERN_ERR_HTTP, NULL},
    {417, "Expectation Failed", TERN_ERR_HTTP, "Expect supports only 100-continue."},
    {421, "Misdirected Request", TERN_ERR_HTTP,
     "The header Host does not name this machine: use localhost, 127.0.0.1 or [::1]."},
    {422, "Unprocessable Content", TERN_ERR_HTTP, NULL},
    {429, "Too Many Requests", TERN_ERR_BUSY, "Too many requests; wait before the next one."},
    {431, "Request Header Fields Too Large", TERN_ERR_TOO_LARGE,
     "The headers are larger than the aggregator's limit."},
    {500, "Internal Server Error", TERN_ERR_HTTP, NULL},
    {503, "Service Unavailable", TERN_ERR_BUSY, "The aggregator is at its limit; try again later."},
    {505, "HTTP Version Not Supported", TERN_ERR_HTTP,
     "The aggregator supports only HTTP/1.1 and HTTP/1.0."},
};

static struct status status_of(int code)
{
    for (size_t i = 0; i < sizeof statuses / sizeof statuses[0]; i++) {
        if (statuses[i].code == code) {
            return statuses[i];
        }
    }
    return (struct status){code, "", TERN_ERR_HTTP, NULL};
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
    // On overflow head_len becomes sizeof out->head, which marks the head as too long.
    out->head_len += len >= 0 && (size_t)len < room ? (size_t)len : room;
}

// Adds the entity tag that caches and clients with If-Range need. Cached replies are content-addressed: a path always has
// the same bytes, so that the shortest tag is correct for all of them.
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
    if (reply->headers != NULL) {
        head_add(out, "%s", reply->headers);
    }
    if (reply->set_cookie[0] != '\0') {
        head_add(out, "Set-Cookie: %s\r\n", reply->set_cookie);
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
    head_add(out, "HTTP/1.1 %d %s\r\n", status, status_of(status).phrase);
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

// Returns the reply with status 206 or 416 if it has a range.
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
    out->status = effective.status;
    out->blob = effective.body;
    out->body_len = sends ? total - effective.body_from : 0;
    out->body = out->body_len > 0 ? out->blob->data + effective.body_from : NULL;
    out->sent = 0;
}

// Empties *out except its status.
static void reset(struct tern_reply_out *out)
{
    out->head_len = 0;
    out->blob = NULL;
    out->body = NULL;
    out->body_len = 0;
    out->sent = 0;
}

static void put_error(struct tern_http_reply *reply, enum tern_result result, const char *sentence)
{
    tern_Error error = tern_Error_init_zero;
    uint8_t bytes[256];
    size_t len = 0;
    snprintf(error.name, sizeof error.name, "%s", tern_result_name(result));
    snprintf(error.sentence, sizeof error.sentence, "%s", sentence);
    if (tern_wire_encode_error(&error, bytes, sizeof bytes, &len) == TERN_OK) {
        reply->body = tern_blob_new(len);
    }
    if (reply->body != NULL) {
        memcpy(reply->body->data, bytes, len);
    }
}

struct tern_http_reply tern_reply_refusal(const struct tern_http_handler *handler, const char *path,
                                          int status, enum tern_result why, const char *given)
{
    struct tern_http_reply reply = {.status = status};
    const struct status known = status_of(status);
    const char *own = known.sentence != NULL ? known.sentence : "The request was refused.";
    const enum tern_result result = why != TERN_OK ? why : known.result;
    const char *sentence = given != NULL ? given : why != TERN_OK ? tern_result_sentence(why) : own;
    if (status == 429 || status == 503) {
        reply.retry_after_s = 5;
    }
    if (handler->on_refusal != NULL) {
        handler->on_refusal(handler->ctx, path, result, sentence, &reply);
    } else if (status != 416) {
        put_error(&reply, result, sentence);
    }
    return reply;
}

// Sent bytes of a file are evicted from memory in pieces of this size, since each piece costs a system call. Another
// reply with the same blob reads the piece from the file.
#define EVICT_BYTES ((size_t)1 << 20)

void tern_reply_sent(struct tern_reply_out *out, size_t len)
{
    const size_t before = tern_reply_body_sent(out) / EVICT_BYTES;
    out->sent += len;
    const size_t now = tern_reply_body_sent(out) / EVICT_BYTES;
    if (now > before) {
        const size_t from = out->blob->len - out->body_len + before * EVICT_BYTES;
        tern_blob_drop_pages(out->blob, from, (now - before) * EVICT_BYTES);
    }
}

void tern_reply_clear(struct tern_reply_out *out)
{
    tern_blob_release(out->blob);
    reset(out);
}
