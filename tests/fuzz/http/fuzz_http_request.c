// Any bytes are read as a stream of requests, once whole and once in pieces. Both must be
// understood alike, no request may come with more than its limits allow, and a refused one asks
// nothing more of the handler. The first byte is the size of a piece.
#include "http/request.h"
#include <stdlib.h>
#include <string.h>

#define HEADER_BYTES 256u
#define BODY_BYTES 512u
#define SMALL_BODY_BYTES 16u
#define LOG_SIZE 65536u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool condition)
{
    if (!condition) {
        abort();
    }
}

// What was understood, as bytes to compare.
struct log {
    size_t len;
    uint8_t bytes[LOG_SIZE];
};

static void log_bytes(struct log *log, const void *bytes, size_t len)
{
    if (len <= LOG_SIZE - log->len && len > 0) {
        memcpy(log->bytes + log->len, bytes, len);
        log->len += len;
    }
}

static void log_request(struct log *log, const struct tern_http_request *request)
{
    log_bytes(log, request->method, strlen(request->method) + 1);
    log_bytes(log, request->path, strlen(request->path) + 1);
    log_bytes(log, request->authorization, strlen(request->authorization) + 1);
    log_bytes(log, &request->range_from, sizeof request->range_from);
    log_bytes(log, request->body, request->body_len);
}

// The body limit by path, so that the fuzzer reaches that way too.
static uint32_t limit_of(const struct tern_http_request *request)
{
    return request->path[0] == '/' && request->path[1] == 's' ? SMALL_BODY_BYTES : BODY_BYTES;
}

// Refuses by path likewise.
static int admit(void *ctx, const struct tern_http_request *request, uint64_t content_length,
                 struct tern_http_permit *permit)
{
    struct log *log = ctx;
    must(permit->body_limit == BODY_BYTES);
    permit->body_limit = limit_of(request);
    must(request->body == NULL && request->body_len == 0);
    log_request(log, request);
    log_bytes(log, &content_length, sizeof content_length);
    return request->path[0] == '/' && request->path[1] == 'n' ? 404 : 0;
}

// Reads one request from data; returns the bytes used, 0 when the stream cannot go on.
static size_t read_request(const uint8_t *data, size_t len, size_t piece, struct log *log)
{
    const struct tern_reader_config config = {.header_bytes = HEADER_BYTES,
                                              .body_bytes = BODY_BYTES,
                                              .peer = "",
                                              .admit = admit,
                                              .ctx = log};
    struct tern_request_reader *reader = tern_reader_new(&config);
    must(reader != NULL);
    size_t taken = 0;
    enum tern_result result = TERN_AGAIN;
    while (result != TERN_OK && taken < len) {
        size_t part = len - taken < piece ? len - taken : piece;
        size_t used = 0;
        result = tern_reader_feed(reader, data + taken, part, &used);
        must(used <= part && (used > 0 || result != TERN_AGAIN));
        taken += used;
        if (result != TERN_OK && result != TERN_AGAIN) {
            int status = tern_reader_state(reader)->status;
            must(status >= 400 && status < 600);
            log_bytes(log, &status, sizeof status);
            if (!tern_reader_state(reader)->discards) {
                break;
            }
        }
    }
    const struct tern_http_request *request = tern_reader_request(reader);
    must(strlen(request->path) + strlen(request->authorization) < HEADER_BYTES);
    must(request->body_len <= limit_of(request));
    if (result == TERN_OK) {
        log_request(log, request);
    }
    tern_reader_free(reader);
    return result == TERN_OK ? taken : 0;
}

static void read_stream(const uint8_t *data, size_t len, size_t piece, struct log *log)
{
    size_t used = 0;
    log->len = 0;
    do {
        used = len > 0 ? read_request(data, len, piece, log) : 0;
        data += used;
        len -= used;
    } while (used > 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct log whole;
    static struct log pieces;
    if (size < 2) {
        return 0;
    }
    read_stream(data + 1, size - 1, size, &whole);
    read_stream(data + 1, size - 1, 1u + data[0] % 64u, &pieces);
    must(whole.len == pieces.len && memcmp(whole.bytes, pieces.bytes, whole.len) == 0);
    return 0;
}
