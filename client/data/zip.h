// Members of a ZIP archive (APPNOTE 6.3.10) as numpy.savez() and Python's zipfile write them:
// stored or deflated, ZIP64 where they are large. Not encrypted, not split. Checks sizes, checksums
// and that no byte outside the file is asked for. Hosted; one thread per member.
#ifndef TERN_ZIP_H
#define TERN_ZIP_H

#include "hosted/input.h"
#include <stdbool.h>
#include <stdio.h>
#include <zlib.h>

// Fields are private.
struct tern_zip_member {
    FILE *file;
    uint64_t packed_left; // bytes in the file
    uint64_t left;        // bytes when unpacked
    uint32_t checksum;    // of what was read
    uint32_t expected;
    bool deflated;
    z_stream stream;
    uint8_t buffer[16384];
};

// Opens the member `name` of the archive in `file`, borrowed and left open; input reads it and is
// called input_name, borrowed, in sentences. Close the member afterwards.
// TERN_ERR_NOT_FOUND  it has no such member; why is not written
// TERN_ERR_CORRUPT    it is no ZIP archive, or damaged
// TERN_ERR_UNKNOWN    the member is encrypted or packed in another way
// TERN_ERR_TOO_LARGE, TERN_ERR_IO, TERN_ERR_NO_MEMORY
TERN_MUST_USE enum tern_result tern_zip_open(struct tern_zip_member *member, FILE *file,
                                             const char *name, struct tern_input *input,
                                             const char *input_name, uint64_t limit, char *why);

void tern_zip_close(struct tern_zip_member *member);

#endif
