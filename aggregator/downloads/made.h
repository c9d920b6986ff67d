// What is known of a download, when it was made and when somebody asks for it.
#ifndef TERN_DOWNLOADS_MADE_H
#define TERN_DOWNLOADS_MADE_H

#include "codec/codec.h"
#include "util/sha256.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tern_download_made {
    size_t len;     // bytes of the blob
    size_t payload; // bytes of its container
    struct tern_codec codec;
    uint8_t sha256[TERN_SHA256_SIZE];
    uint8_t replica[TERN_SHA256_SIZE]; // that a client holds after it
};

// Of one that is there, beside its bytes.
struct tern_download_facts {
    uint32_t size;    // bytes of the blob
    uint32_t payload; // bytes of its container
    bool shared;      // many clients are given it; else it was made for one
};

#endif
