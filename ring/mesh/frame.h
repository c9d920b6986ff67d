// Encodes and decodes the frames of a ring (docs/RING.md): a header of 12 bytes and a body. Received bytes are untrusted:
// tern_ring_head_read() checks type and length before the caller reads a body. Pure; reentrant.
#ifndef TERN_RING_FRAME_H
#define TERN_RING_FRAME_H

#include "result.h"
#include "util/sha256.h"
#include <stddef.h>
#include <stdint.h>

#define TERN_RING_FRAME_VERSION 1u
#define TERN_RING_HEAD_SIZE 12u
#define TERN_RING_HELLO_SIZE 68u
#define TERN_RING_VIEW_SIZE 8u
#define TERN_RING_BLOCK_HEAD_SIZE 4u
#define TERN_RING_TERMS_MAX 8192u // bytes: enough for 64 peers with the longest names

enum tern_ring_frame_type {
    TERN_RING_HELLO = 1, // the hashes of the sender's settings and model, and the model's version
    TERN_RING_VIEW = 2,  // the peers from which the sender has received hellos, one bit each
    TERN_RING_BLOCK = 3, // an encoded block: one step of an exchange
    TERN_RING_MODEL = 4, // a whole model, for a peer with an older one
    TERN_RING_PULSE = 5, // a heartbeat while the sender waits or trains
    TERN_RING_TERMS = 6, // the sender's settings as text; the first frame on a connection
};

struct tern_ring_head {
    enum tern_ring_frame_type type;
    uint32_t epoch;
    uint32_t len; // bytes of the body
};

struct tern_ring_hello {
    uint8_t agreement[TERN_SHA256_SIZE]; // hash of the settings that all peers must share
    uint32_t version;                    // version of the sender's model: its number of rounds
    uint8_t model[TERN_SHA256_SIZE];     // hash of the sender's model
};

// The lengths of bodies that depend on the model, in bytes.
struct tern_ring_limits {
    uint32_t block; // largest body of a TERN_RING_BLOCK, including TERN_RING_BLOCK_HEAD_SIZE
    uint32_t model; // body of every TERN_RING_MODEL
};

void tern_ring_head_write(const struct tern_ring_head *head, uint8_t dst[TERN_RING_HEAD_SIZE]);

// Reads and checks a header. On error *head is unchanged, and *why is a static string with the reason.
// TERN_ERR_CORRUPT    not a frame, or a body that is too short for its type
// TERN_ERR_UNKNOWN    another version, or an unknown type
// TERN_ERR_TOO_LARGE  a body that is too long for its type
TERN_MUST_USE enum tern_result tern_ring_head_read(const uint8_t src[TERN_RING_HEAD_SIZE],
                                                   const struct tern_ring_limits *limits,
                                                   struct tern_ring_head *head, const char **why);

void tern_ring_hello_write(const struct tern_ring_hello *hello, uint8_t dst[TERN_RING_HELLO_SIZE]);
void tern_ring_hello_read(const uint8_t src[TERN_RING_HELLO_SIZE], struct tern_ring_hello *hello);

#endif
