// A container taken apart and put together, payload by payload. Internal to shared/codec.
#ifndef TERN_PAYLOADS_H
#define TERN_PAYLOADS_H

#include "util/bytes.h"
#include <stdbool.h>

// Bytes: a payload, or what is left of a container while its payloads are taken one by one.
struct tern_bytes_left {
    const uint8_t *data;
    size_t len;
};

// Reads the length of the payload that begins at data, of which `seen` bytes can be looked at and
// `left` are there. Returns how many bytes the length takes, 0 when it does not fit.
static inline size_t tern_payload_length(const uint8_t *data, size_t seen, size_t left, size_t *len)
{
    uint64_t length = 0;
    const size_t bytes = tern_get_varint(data, seen, &length);
    // It is compared with what is left before it is used to step over it.
    if (bytes == 0 || length > left - bytes) {
        return 0;
    }
    *len = (size_t)length;
    return bytes;
}

// Takes the next payload: moves `rest` past it. False when its length does not fit.
static inline bool tern_take_payload(struct tern_bytes_left *rest, struct tern_bytes_left *payload)
{
    size_t len = 0;
    const size_t length_bytes = tern_payload_length(rest->data, rest->len, rest->len, &len);
    if (length_bytes == 0) {
        return false;
    }
    *payload = (struct tern_bytes_left){rest->data + length_bytes, len};
    rest->data = payload->data + payload->len;
    rest->len -= length_bytes + payload->len;
    return true;
}

#endif
