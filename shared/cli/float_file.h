// The files of tern-codec, as docs/FORMAT.md section 5 has them: little-endian float32, and
// payloads. "-" is the standard input or output. On error each function says why on stderr.
#ifndef TERN_CLI_FLOAT_FILE_H
#define TERN_CLI_FLOAT_FILE_H

#include "hosted/cli.h"
#include <stdint.h>

// The most values that tern-codec takes, and the most bytes of a file that holds them in any form.
#define TERN_CODEC_VALUES_MAX ((uint64_t)1 << 30)
#define TERN_CODEC_FILE_MAX (5 * TERN_CODEC_VALUES_MAX)

struct float_file {
    float *values; // malloc'ed
    size_t count;
};

// Reads a whole file that the command line named; *data is malloc'ed.
TERN_MUST_USE enum tern_result tern_named_file_read(const struct tern_cli *cli, const char *path,
                                                    uint64_t most, uint8_t **data, size_t *len);

// Whether a file of `len` bytes is a whole number of float32 values.
TERN_MUST_USE enum tern_result tern_float_file_check(const struct tern_cli *cli, const char *path,
                                                     size_t len);

// Reads all values of a file.
TERN_MUST_USE enum tern_result tern_float_file_read(const struct tern_cli *cli, const char *path,
                                                    struct float_file *file);

// Writes the bytes of a file that the command line named: at once, or through a device or pipe as
// tern_file_output() does.
TERN_MUST_USE enum tern_result tern_output_write(const struct tern_cli *cli, const char *path,
                                                 const void *data, size_t len);

// Removes a file that tern_output_write() wrote. What went through a pipe or device is gone.
void tern_output_take_back(const char *path);

// Writes values to a file, as tern_output_write().
TERN_MUST_USE enum tern_result tern_float_file_write(const struct tern_cli *cli, const char *path,
                                                     const float *values, size_t count);

// --- roles

// Files that a command line names for different things must not be the same one where one of them
// is written: the other would be lost.

struct role {
    const char *name; // as the help has it: "OUT", "--like"
    const char *path; // "-" is the standard input or output; NULL: not given
    bool written;
};

// Compares the files themselves (device and inode), so that links are seen through; of files that
// are not there yet, their names and folders. Devices and pipes may be given twice. On error names
// both on stderr. TERN_ERR_CONFIG
TERN_MUST_USE enum tern_result tern_roles_check(const struct tern_cli *cli,
                                                const struct role *roles, size_t count);

#endif
