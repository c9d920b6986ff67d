#include "mesh/frame.h"

#include "util/bytes.h"
#include <string.h>

// A header: magic (2 bytes), version (1), type (1), epoch (4), length of the body (4).
static const uint8_t magic[2] = {'T', 'R'};

void tern_ring_head_write(const struct tern_ring_head *head, uint8_t dst[TERN_RING_HEAD_SIZE])
{
    memcpy(dst, magic, sizeof magic);
    dst[2] = TERN_RING_FRAME_VERSION;
    dst[3] = (uint8_t)head->type;
    tern_put_le32(dst + 4, head->epoch);
    tern_put_le32(dst + 8, head->len);
}

static enum tern_result refuse(enum tern_result result, const char *reason, const char **why)
{
    *why = reason;
    return result;
}

// Checks the length of a body against the limits of its type.
static enum tern_result check_len(uint8_t type, uint32_t len, const struct tern_ring_limits *limits,
                                  const char **why)
{
    uint32_t least = 0;
    uint32_t most = 0;
    switch (type) {
    case TERN_RING_HELLO:
        least = most = TERN_RING_HELLO_SIZE;
        break;
    case TERN_RING_VIEW:
        least = most = TERN_RING_VIEW_SIZE;
        break;
    case TERN_RING_BLOCK:
        least = TERN_RING_BLOCK_HEAD_SIZE;
        most = limits->block;
        break;
    case TERN_RING_MODEL:
        least = most = limits->model;
        break;
    case TERN_RING_PULSE:
        break;
    case TERN_RING_TERMS:
        least = 1;
        most = TERN_RING_TERMS_MAX;
        break;
    default:
        return refuse(TERN_ERR_UNKNOWN, "a frame of an unknown type", why);
    }
    if (len > most) {
        return refuse(TERN_ERR_TOO_LARGE, "a frame that is too long for its type", why);
    }
    return len < least ? refuse(TERN_ERR_CORRUPT, "a frame that is too short for its type", why)
                       : TERN_OK;
}

enum tern_result tern_ring_head_read(const uint8_t src[TERN_RING_HEAD_SIZE],
                                     const struct tern_ring_limits *limits,
                                     struct tern_ring_head *head, const char **why)
{
    if (memcmp(src, magic, sizeof magic) != 0) {
        return refuse(TERN_ERR_CORRUPT, "bytes that are not a frame of tern-ring", why);
    }
    if (src[2] != TERN_RING_FRAME_VERSION) {
        return refuse(TERN_ERR_UNKNOWN,
                      "a frame of another version; run the same tern-ring on all peers", why);
    }
    const uint32_t len = tern_get_le32(src + 8);
    TERN_TRY(check_len(src[3], len, limits, why));
    *head = (struct tern_ring_head){(enum tern_ring_frame_type)src[3], tern_get_le32(src + 4), len};
    return TERN_OK;
}

void tern_ring_hello_write(const struct tern_ring_hello *hello, uint8_t dst[TERN_RING_HELLO_SIZE])
{
    memcpy(dst, hello->agreement, TERN_SHA256_SIZE);
    tern_put_le32(dst + TERN_SHA256_SIZE, hello->version);
    memcpy(dst + TERN_SHA256_SIZE + 4, hello->model, TERN_SHA256_SIZE);
}

void tern_ring_hello_read(const uint8_t src[TERN_RING_HELLO_SIZE], struct tern_ring_hello *hello)
{
    memcpy(hello->agreement, src, TERN_SHA256_SIZE);
    hello->version = tern_get_le32(src + TERN_SHA256_SIZE);
    memcpy(hello->model, src + TERN_SHA256_SIZE + 4, TERN_SHA256_SIZE);
}
