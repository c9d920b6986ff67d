// What is known of a download that was made.
#ifndef TERN_DOWNLOADS_MADE_H
#define TERN_DOWNLOADS_MADE_H

#include "codec/codec.h"
#include "util/sha256.h"
#include <stddef.h>
#include <stdint.h>

struct tern_download_made {
    size_t len;     // bytes of the blob
    size_t payload; // bytes of its container
    struct tern_codec codec;
    uint8_t sha256[TERN_SHA256_SIZE];
    uint8_t replica[TERN_SHA256_SIZE]; // that a client holds after it
};

#endif
