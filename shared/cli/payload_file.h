// Reads a payload file: one payload, or a container of the payloads of several tensors
// (docs/FORMAT.md, section 5). The number of values is not in the file: the options --count or
// --like give it.
#ifndef TERN_PAYLOAD_FILE_H
#define TERN_PAYLOAD_FILE_H

#include "tensor_set.h"

struct payload {
    const uint8_t *data;
    size_t len;
};

struct payload_file {
    uint8_t *bytes;
    size_t len;
    struct tensor_set set;    // decoded values
    struct payload *payloads; // [i]: payload of tensor i of the set
};

// Reads and decodes a file. On error prints the reason on stderr.
TERN_MUST_USE enum tern_result tern_payload_file_read(const struct tern_cli *cli, const char *path,
                                                      struct payload_file *file);

void tern_payload_file_free(struct payload_file *file);

#endif
