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

// Takes the next payload: moves `rest` past it. False when its length does not fit.
static inline bool tern_take_payload(struct tern_bytes_left *rest, struct tern_bytes_left *payload)
{
    uint64_t len = 0;
    size_t length_bytes = tern_get_varint(rest->data, rest->len, &len);
    // len is compared with what is left before it is used to step over it.
    if (length_bytes == 0 || len > rest->len - length_bytes) {
        return false;
    }
    *payload = (struct tern_bytes_left){rest->data + length_bytes, (size_t)len};
    rest->data = payload->data + payload->len;
    rest->len -= length_bytes + payload->len;
    return true;
}

#endif
