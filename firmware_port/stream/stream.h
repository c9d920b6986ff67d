// A TLS connection as an operating system for microcontrollers gives it: one pipe to the aggregator
// that blocks, for a while. stream/transport.h makes the client's transport of it; esp_idf/ and
// zephyr/ implement it. One thread.
#ifndef TERN_STREAM_H
#define TERN_STREAM_H

#include "result.h"
#include <stddef.h>
#include <stdint.h>

struct tern_stream {
    void *ctx;

    // Connects to the aggregator and verifies it. No call takes longer than timeout_ms.
    // TERN_ERR_NETWORK    it is not reached
    // TERN_ERR_TLS        it is not who it should be
    // TERN_ERR_NO_MEMORY
    TERN_MUST_USE enum tern_result (*open)(void *ctx, uint32_t timeout_ms);

    // Sends some of src. *sent: how many bytes, at least one unless there is an error.
    // TERN_ERR_NETWORK  the connection is of no use any more
    TERN_MUST_USE enum tern_result (*send)(void *ctx, const uint8_t *src, size_t len, size_t *sent,
                                           uint32_t timeout_ms);

    // Waits for bytes and takes what is there. *len: how many; 0 with TERN_OK: the peer has ended
    // the connection.
    // TERN_ERR_NETWORK  it was cut, or nothing came
    TERN_MUST_USE enum tern_result (*receive)(void *ctx, uint8_t *dst, size_t size, size_t *len,
                                              uint32_t timeout_ms);

    void (*close)(void *ctx); // also of one that is not open
};

#endif
