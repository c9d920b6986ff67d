// Every decoder of the wire. The first byte of the input selects the message
// (tests/wire/examples.c) or, above those, the paths. What is taken must encode again, and to the
// same bytes a second time.
#include "wire/examples.h"
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int condition)
{
    if (!condition) {
        abort();
    }
}

// Decodes and encodes again; returns the length of what was written to dst, 0 when it was refused.
static size_t take(const struct example *example, const uint8_t *src, size_t len, uint8_t *dst,
                   size_t dst_size)
{
    union example_message message;
    struct tern_span container = {NULL, 0};
    size_t written = 0;
    if (example->decode(src, len, &message, &container) != TERN_OK) {
        return 0;
    }
    require(example->encode_again(&message, container, dst, dst_size, &written) == TERN_OK);
    return written;
}

static void try_message(const struct example *example, const uint8_t *src, size_t len)
{
    size_t room = len + TERN_WIRE_MESSAGE_MAX;
    uint8_t *first = malloc(room);
    uint8_t *second = malloc(room);
    require(first != NULL && second != NULL);
    size_t first_len = take(example, src, len, first, room);
    if (first_len > 0) {
        size_t second_len = take(example, first, first_len, second, room);
        require(second_len == first_len && memcmp(first, second, first_len) == 0);
    }
    free(first);
    free(second);
}

static void try_paths(const uint8_t *src, size_t len)
{
    char *path = malloc(len + 1);
    char again[TERN_PATH_MAX];
    uint8_t sha256[TERN_SHA256_SIZE];
    uint32_t round;
    uint32_t sequence;
    require(path != NULL);
    memcpy(path, src, len);
    path[len] = '\0';
    if (tern_path_parse_download(path, sha256) == TERN_OK) {
        tern_path_download(sha256, again);
        require(strcmp(path, again) == 0);
    }
    if (tern_path_parse_update(path, &round, &sequence) == TERN_OK) {
        tern_path_update(round, sequence, again);
        require(strcmp(path, again) == 0);
    }
    free(path);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0) {
        return 0;
    }
    if (data[0] < example_count) {
        try_message(&examples[data[0]], data + 1, size - 1);
    } else {
        try_paths(data + 1, size - 1);
    }
    return 0;
}
