// Reads and writes the files of tern-codec (docs/FORMAT.md, section 5): little-endian float32, and
// payloads. The path "-" is the standard input or output. On error each function prints the reason
// on stderr.
#ifndef TERN_CLI_FLOAT_FILE_H
#define TERN_CLI_FLOAT_FILE_H

#include "hosted/cli.h"
#include <stdint.h>

// Limits of tern-codec: number of values, and bytes of a file that holds them in any format.
#define TERN_CODEC_VALUES_MAX ((uint64_t)1 << 30)
#define TERN_CODEC_FILE_MAX (5 * TERN_CODEC_VALUES_MAX)

struct float_file {
    float *values; // malloc'ed
    size_t count;
};

// Reads a file named on the command line; *data is malloc'ed.
TERN_MUST_USE enum tern_result tern_named_file_read(const struct tern_cli *cli, const char *path,
                                                    uint64_t most, uint8_t **data, size_t *len);

// Checks that a file of `len` bytes has a whole number of float32 values, at most the limit.
TERN_MUST_USE enum tern_result tern_float_file_check(const struct tern_cli *cli, const char *path,
                                                     size_t len);

// Reads all values of a file.
TERN_MUST_USE enum tern_result tern_float_file_read(const struct tern_cli *cli, const char *path,
                                                    struct float_file *file);

// Writes a file named on the command line like tern_file_output(): a regular file is replaced
// atomically, a pipe or device is written to.
TERN_MUST_USE enum tern_result tern_output_write(const struct tern_cli *cli, const char *path,
                                                 const void *data, size_t len);

// Removes a file that tern_output_write() wrote. Bytes sent to a pipe or device cannot be taken
// back.
void tern_output_take_back(const char *path);

// Writes float32 values to a file like tern_output_write().
TERN_MUST_USE enum tern_result tern_float_file_write(const struct tern_cli *cli, const char *path,
                                                     const float *values, size_t count);

// --- Roles of files

// A role of a file on the command line, such as input or output. A file that is written must not
// have a second role, because its contents would be lost.

struct role {
    const char *name; // name in the help text: "OUT", "--like"
    const char *path; // "-" is the standard input or output; NULL: not given
    bool written;
};

// Checks that no written file has a second role. Compares device and inode, so that links to the
// same file are found; missing files are compared by folder and name. Devices and pipes may occur
// twice. On error prints both roles on stderr. TERN_ERR_CONFIG
TERN_MUST_USE enum tern_result tern_roles_check(const struct tern_cli *cli,
                                                const struct role *roles, size_t count);

#endif
