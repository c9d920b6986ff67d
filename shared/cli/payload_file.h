// A payload file that is read: one payload, or a container of several tensors' payloads
// (docs/FORMAT.md section 5). How many values it stands for comes from the command line.
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
    struct tensor_set set;    // decoded
    struct payload *payloads; // one for each tensor of the set
};

// Reads and decodes a file. On error says why on stderr.
TERN_MUST_USE enum tern_result tern_payload_file_read(const struct tern_cli *cli, const char *path,
                                                      struct payload_file *file);

void tern_payload_file_free(struct payload_file *file);

#endif
