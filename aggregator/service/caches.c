#include "service/caches.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

// The model of shared/meter/meter.h: records of TLS 1.2, headers of IP and TCP with time stamps, and segments for links of
// 1,500 bytes. Every second segment has an acknowledgement.
#define RECORD_BYTES 16384u
#define RECORD_COST 29u
#define SEGMENT_BYTES 1400u
#define SEGMENT_COST 52u

enum tern_result tern_cache_parse_path(const char *path, uint8_t sha256[TERN_SHA256_SIZE])
{
    const size_t len = sizeof TERN_PATH_AUTHORIZE - 1;
    char download[TERN_PATH_MAX];
    if (strncmp(path, TERN_PATH_AUTHORIZE, len) != 0) {
        return TERN_ERR_NOT_FOUND;
    }
    const int whole = snprintf(download, sizeof download, TERN_PATH_DOWNLOADS "%s", path + len);
    return whole < (int)sizeof download ? tern_path_parse_download(download, sha256)
                                        : TERN_ERR_NOT_FOUND;
}

uint32_t tern_cache_request_bytes(const struct tern_http_request *http,
                                  const uint8_t sha256[TERN_SHA256_SIZE])
{
    char path[TERN_PATH_MAX];
    char range[48] = "";
    tern_path_download(sha256, path);
    if (http->range_from > 0) {
        snprintf(range, sizeof range, "Range: bytes=%" PRIu64 "-\r\n", http->range_from);
    }
    return (uint32_t)snprintf(NULL, 0, "GET %s HTTP/1.1\r\nHost: %s\r\nAuthorization: %s\r\n%s\r\n",
                              path, http->host, http->authorization, range);
}

// Returns the length of the head that the listener would write (http/reply.c).
static uint64_t head_bytes(const struct tern_download_facts *facts, uint64_t from, uint64_t left)
{
    char range[96] = "";
    const char *status = "200 OK";
    if (left == 0) {
        status = "416 Range Not Satisfiable";
        snprintf(range, sizeof range, "Content-Range: bytes */%" PRIu32 "\r\n", facts->size);
    } else if (from > 0) {
        status = "206 Partial Content";
        snprintf(range, sizeof range,
                 "Content-Range: bytes %" PRIu64 "-%" PRIu32 "/%" PRIu32 "\r\n", from,
                 facts->size - 1, facts->size);
    }
    return (uint64_t)snprintf(NULL, 0,
                              "HTTP/1.1 %s\r\n%sContent-Length: %" PRIu64
                              "\r\nCache-Control: %s\r\nETag: \"1\"\r\n\r\n",
                              status, range, left, tern_cache_control(facts->shared));
}

void tern_cache_tag(const struct tern_download_facts *facts, uint64_t from, uint32_t request_bytes,
                    struct tern_http_tag *tag)
{
    const uint64_t left = from < facts->size ? facts->size - from : 0;
    tag->payload_down = left < facts->payload ? left : facts->payload;
    tag->cache_sends = head_bytes(facts, from, left) + left;
    tag->cache_receives = request_bytes;
}

static uint64_t parts(uint64_t bytes, uint32_t size)
{
    return (bytes + size - 1) / size;
}

static uint64_t encrypt(struct tern_bytes *bytes)
{
    bytes->tls = bytes->http + parts(bytes->http, RECORD_BYTES) * RECORD_COST;
    const uint64_t segments = parts(bytes->tls, SEGMENT_BYTES);
    bytes->wire = bytes->tls + segments * SEGMENT_COST;
    return segments;
}

void tern_cache_estimate(const struct tern_http_tag *tag, struct tern_bytes *up,
                         struct tern_bytes *down)
{
    *up = (struct tern_bytes){.http = tag->cache_receives};
    *down = (struct tern_bytes){.payload = tag->payload_down, .http = tag->cache_sends};
    (void)encrypt(up);
    up->wire += parts(encrypt(down), 2) * SEGMENT_COST;
}

const char *tern_cache_control(bool shared)
{
    return shared ? "public, max-age=31536000, immutable" : "private, max-age=31536000, immutable";
}
