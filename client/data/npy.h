// Reads NumPy arrays: the NPY format, versions 1 to 3 (numpy.lib.format: a Python dict as text, then the array), and members
// of npz archives. Accepts little-endian or single-byte numbers in C order, and refuses pickled objects. Called by the readers
// tern_read_npy() and tern_read_npz() and by a fuzzer. Reentrant.
#ifndef TERN_NPY_H
#define TERN_NPY_H

#include "data/readers.h"
#include "data/source.h"
#include "hosted/input.h"
#include <stdbool.h>
#include <stdio.h>
#include <zlib.h>

#define TERN_NPY_MAX_DIMS 4

struct tern_npy {
    struct tern_elements type;
    uint32_t dims[TERN_NPY_MAX_DIMS];
    uint32_t dim_count; // 1 to TERN_NPY_MAX_DIMS
    uint64_t count;     // elements
};

// Reads the header, and checks that the file is long enough for the array and that the array as float32 is within
// limits->max_bytes.
// TERN_ERR_CORRUPT    not an NPY file, an invalid header, an array longer than its file
// TERN_ERR_UNKNOWN    an unsupported element type, byte order or number of dimensions, or Fortran order
// TERN_ERR_TOO_LARGE, TERN_ERR_IO
TERN_MUST_USE enum tern_result tern_npy_read_header(struct tern_input *input,
                                                    const struct tern_data_limits *limits,
                                                    struct tern_npy *npy);

// Reads all elements into values[npy->count].
// TERN_ERR_CORRUPT  a number is not finite or exceeds float32; the input is too short or too long
// TERN_ERR_IO
TERN_MUST_USE enum tern_result tern_npy_read_floats(struct tern_input *input,
                                                    const struct tern_npy *npy, float *values);
// --- Members of a ZIP archive (APPNOTE 6.3.10) as numpy.savez() and Python's zipfile write them: stored or deflated, ZIP64
// for large ones, neither encrypted nor split. Sizes, checksums and offsets are checked. One thread per member.

// Fields are private.
struct tern_zip_member {
    FILE *file;
    uint64_t packed_left; // unread bytes in the file
    uint64_t left;        // unread bytes after unpacking
    uint32_t checksum;    // CRC-32 of the bytes that were read
    uint32_t expected;
    bool deflated;
    z_stream stream;
    uint8_t buffer[16384];
};

// Opens the member `name` of the archive in `file`, which is borrowed and stays open; *input then reads the member. input_name:
// the member's name in messages, borrowed. The caller closes the member.
// TERN_ERR_NOT_FOUND  the archive has no such member; why is unchanged
// TERN_ERR_CORRUPT    the file is no ZIP archive, or is damaged
// TERN_ERR_UNKNOWN    the member is encrypted or uses another compression method
// TERN_ERR_TOO_LARGE, TERN_ERR_IO, TERN_ERR_NO_MEMORY
TERN_MUST_USE enum tern_result tern_zip_open(struct tern_zip_member *member, FILE *file,
                                             const char *name, struct tern_input *input,
                                             const char *input_name, uint64_t limit, char *why);

void tern_zip_close(struct tern_zip_member *member);

#endif
