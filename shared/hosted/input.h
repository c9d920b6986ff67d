// Reads bytes for the parsers of data files: from a file, which is decompressed if it is gzip, from
// a member of an archive, or from memory. Counts the offset for error messages. Enforces a limit on
// the decompressed size, so that a small file cannot expand to a huge one. One thread.
#ifndef TERN_INPUT_H
#define TERN_INPUT_H

#include "result.h"
#include <stddef.h>
#include <stdint.h>

#define TERN_INPUT_WHY_MAX 448 // bytes of an error message, with the NUL

// The largest factor by which a deflate stream can expand: it needs at least one bit for 129 bytes.
#define TERN_DEFLATE_MOST 1032u

struct tern_input {
    const char *name; // for error messages; borrowed
    void *file;       // gzFile, or NULL
    // Reads up to len bytes from source, at least one except at the end. NULL: the input is a file
    // or memory.
    enum tern_result (*read)(struct tern_input *input, void *dst, size_t len, size_t *got);
    void *source;        // borrowed
    const uint8_t *next; // memory
    uint64_t left;       // memory
    uint64_t offset;     // of the next byte, in decompressed bytes
    uint64_t most;       // upper bound of the decompressed size, from the size of the file
    uint64_t limit;      // offset after which reading fails
    char *why;           // [TERN_INPUT_WHY_MAX]; borrowed
};

// Opens a regular file.
// TERN_ERR_NOT_FOUND  no such regular file; TERN_ERR_IO  the file cannot be opened
TERN_MUST_USE enum tern_result tern_input_open(struct tern_input *input, const char *path,
                                               uint64_t limit, char *why);
// Reads from the len bytes at `bytes`, borrowed, as from a file. For fuzz targets, which would
// otherwise write a file for each input.
void tern_input_from_memory(struct tern_input *input, const uint8_t *bytes, size_t len,
                            uint64_t limit, char *why);
void tern_input_close(struct tern_input *input);

// Returns to the first byte of a file or memory.
// TERN_ERR_IO        the file cannot be read again
// TERN_ERR_ARGUMENT  input->read is set, which cannot seek
TERN_MUST_USE enum tern_result tern_input_rewind(struct tern_input *input);

// Reads up to len bytes; *got is less than len only at the end of the input.
// TERN_ERR_CORRUPT    the gzip stream is damaged or cut short
// TERN_ERR_TOO_LARGE  the input exceeds its limit
// TERN_ERR_IO
TERN_MUST_USE enum tern_result tern_input_read(struct tern_input *input, void *dst, size_t len,
                                               size_t *got);

// Reads exactly len bytes. what: their name in error messages. Errors of tern_input_read();
// TERN_ERR_CORRUPT also if the input ends too early.
TERN_MUST_USE enum tern_result tern_input_read_exact(struct tern_input *input, void *dst,
                                                     size_t len, const char *what);

// Checks that the input has ended.
// TERN_ERR_CORRUPT  bytes follow
TERN_MUST_USE enum tern_result tern_input_expect_end(struct tern_input *input);

// Replaces control characters of text from a file, so that an error message stays on one line.
void tern_why_finish(char why[TERN_INPUT_WHY_MAX]);

// Writes "NAME: sentence" to input->why and returns `result`.
TERN_MUST_USE enum tern_result tern_input_refuse(const struct tern_input *input,
                                                 enum tern_result result, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
