// The partial download of client/ports.h as a file of the state directory, `download.part`: what it
// is of, then its bytes as they came. There is at most one, and it never has more bytes than its
// download. Belongs to one thread, of the process that holds the directory's lock
// (posix/file_store.h).
#ifndef TERN_POSIX_PARTIAL_FILE_H
#define TERN_POSIX_PARTIAL_FILE_H

#include "ports.h"

#ifdef __cplusplus
extern "C" {
#endif

struct tern_partial_file;

// Opens the directory, which is there. Nothing is read yet. why: says what is wrong.
// TERN_ERR_IO, TERN_ERR_NO_MEMORY
TERN_MUST_USE enum tern_result tern_partial_file_open(struct tern_partial_file **partial,
                                                      const char *directory, char why[512]);

// What was received stays. NULL is allowed.
void tern_partial_file_close(struct tern_partial_file *partial);

struct tern_partial tern_partial_file_port(struct tern_partial_file *partial);

#ifdef __cplusplus
}
#endif

#endif
