// Files of little-endian float32, as docs/FORMAT.md section 5 has them, and payload files.
#ifndef TERN_FLOAT_FILE_H
#define TERN_FLOAT_FILE_H

#include "hosted/cli.h"
#include <stdint.h>

// The most values that tern-codec takes, and the most bytes of a payload of as many.
#define TERN_CODEC_VALUES_MAX ((uint64_t)1 << 30)
#define TERN_CODEC_PAYLOAD_MAX (4 * TERN_CODEC_VALUES_MAX + 16)

struct float_file {
    float *values; // malloc'ed
    size_t count;
};

// Reads all values of a file; "-" is the standard input. On error says why on stderr.
TERN_MUST_USE enum tern_result float_file_read(const struct tern_cli *cli, const char *path,
                                               struct float_file *file);

// Writes the bytes of a file that the command line named, at once; "-" is the standard output. On
// error says why on stderr.
TERN_MUST_USE enum tern_result output_write(const struct tern_cli *cli, const char *path,
                                            const void *data, size_t len);

// Writes values to a file, at once; a file that is there is replaced. On error says why on stderr.
TERN_MUST_USE enum tern_result float_file_write(const struct tern_cli *cli, const char *path,
                                                const float *values, size_t count);

// Reads a payload, and the values that --count says it has. On error says why on stderr.
TERN_MUST_USE enum tern_result payload_read(const struct tern_cli *cli, const char *path,
                                            uint8_t **payload, size_t *len, size_t *count);

// Says what is wrong with a payload. Returns the exit code.
int payload_fail(const struct tern_cli *cli, enum tern_result result, const char *path,
                 size_t count);

#endif
