// The bytes of a reader, from a file (unpacked where it is gzip), a member of an archive, or memory. Counts the offset for
// messages. Never delivers more bytes than its limit, so that a small file that unpacks to a huge one is refused. One
// thread.
#ifndef TERN_INPUT_H
#define TERN_INPUT_H

#include "result.h"
#include <stddef.h>
#include <stdint.h>

#define TERN_INPUT_WHY_MAX 448 // bytes of a sentence about what was read, with the NUL

// Deflate spends at least one bit on 129 bytes, so no stream unpacks to more than this many times
// its size.
#define TERN_DEFLATE_MOST 1032u

struct tern_input {
    const char *name; // for error sentences; borrowed
    void *file;       // gzFile, or NULL
    // Reads up to len bytes of source, one at least unless it is at its end; NULL: a file or memory.
    enum tern_result (*read)(struct tern_input *input, void *dst, size_t len, size_t *got);
    void *source;        // borrowed
    const uint8_t *next; // memory
    uint64_t left;       // memory
    uint64_t offset;     // of the next byte, after gunzip
    uint64_t most;       // most bytes after gunzip, from the size of the file
    uint64_t limit;      // bytes that may be read
    char *why;           // [TERN_INPUT_WHY_MAX]; borrowed
};

// TERN_ERR_NOT_FOUND  there is no such regular file; TERN_ERR_IO  it cannot be opened
TERN_MUST_USE enum tern_result tern_input_open(struct tern_input *input, const char *path,
                                               uint64_t limit, char *why);
// Takes the len bytes at `bytes`, borrowed, as a file's. For the fuzz targets of the readers, which
// would otherwise write a file for each input; the programs open files.
void tern_input_from_memory(struct tern_input *input, const uint8_t *bytes, size_t len,
                            uint64_t limit, char *why);
void tern_input_close(struct tern_input *input);

// Begins anew with the first byte of a file or memory.
// TERN_ERR_IO  it cannot; TERN_ERR_ARGUMENT  of input->read, which has no way back
TERN_MUST_USE enum tern_result tern_input_rewind(struct tern_input *input);

// Reads up to len bytes; *got is less only at the end.
// TERN_ERR_CORRUPT    the gzip stream is damaged or cut short
// TERN_ERR_TOO_LARGE  there is more than the limit
// TERN_ERR_IO
TERN_MUST_USE enum tern_result tern_input_read(struct tern_input *input, void *dst, size_t len,
                                               size_t *got);

// Reads exactly len bytes; `what` names them. As above, and TERN_ERR_CORRUPT when it ends within.
TERN_MUST_USE enum tern_result tern_input_read_exact(struct tern_input *input, void *dst,
                                                     size_t len, const char *what);

// TERN_ERR_CORRUPT when bytes are left.
TERN_MUST_USE enum tern_result tern_input_expect_end(struct tern_input *input);

// Replaces control characters from the file, so that the message stays one line of a log.
void tern_why_finish(char why[TERN_INPUT_WHY_MAX]);

// Writes "NAME: sentence" to input->why and returns `result`.
TERN_MUST_USE enum tern_result tern_input_refuse(const struct tern_input *input,
                                                 enum tern_result result, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
