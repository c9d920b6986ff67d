// The frames of a ring, byte by byte as docs/RING.md has them: a head of 12 bytes and a body. What came
// over a connection is untrusted; tern_ring_head_read() says before any body is taken whether it may come
// at all. Pure; reentrant.
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
#define TERN_RING_TERMS_MAX                                                                        \
    8192u // bytes: of 64 peers with the longest names, and what else there is

enum tern_ring_frame_type {
    TERN_RING_HELLO = 1, // what I hold, and that I am there
    TERN_RING_VIEW = 2,  // whom I have heard
    TERN_RING_BLOCK = 3, // one step of an exchange
    TERN_RING_MODEL = 4, // the model, for who has an older one
    TERN_RING_PULSE = 5, // I wait or train, and live
    TERN_RING_TERMS = 6, // first on a connection: how I am set, for people
};

struct tern_ring_head {
    enum tern_ring_frame_type type;
    uint32_t epoch;
    uint32_t len; // of the body
};

struct tern_ring_hello {
    uint8_t agreement[TERN_SHA256_SIZE]; // what all peers must have alike
    uint32_t version;                    // of the model that I hold: so many rounds
    uint8_t model[TERN_SHA256_SIZE];     // its hash
};

// The most bytes of bodies whose length depends on the federation, and the exact ones of a model.
struct tern_ring_limits {
    uint32_t block; // TERN_RING_BLOCK_HEAD_SIZE included
    uint32_t model;
};

void tern_ring_head_write(const struct tern_ring_head *head, uint8_t dst[TERN_RING_HEAD_SIZE]);

// *head is unchanged on error; *why then says what is wrong, a static string.
// TERN_ERR_CORRUPT    no frame, or a length that frames of its type do not have
// TERN_ERR_UNKNOWN    of another version, or of no known type
// TERN_ERR_TOO_LARGE  beyond `limits`
TERN_MUST_USE enum tern_result tern_ring_head_read(const uint8_t src[TERN_RING_HEAD_SIZE],
                                                   const struct tern_ring_limits *limits,
                                                   struct tern_ring_head *head, const char **why);

void tern_ring_hello_write(const struct tern_ring_hello *hello, uint8_t dst[TERN_RING_HELLO_SIZE]);
void tern_ring_hello_read(const uint8_t src[TERN_RING_HELLO_SIZE], struct tern_ring_hello *hello);

#endif
