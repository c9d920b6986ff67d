// Implements the partial-download port in one file of the state directory, `download.part`: the download's identity,
// then the bytes received so far. Belongs to one thread of the process that holds the directory's lock
// (posix/file_store.h).
#ifndef TERN_POSIX_PARTIAL_FILE_H
#define TERN_POSIX_PARTIAL_FILE_H

#include "ports.h"

#ifdef __cplusplus
extern "C" {
#endif

struct tern_partial_file;

// Opens the directory, which must exist. Reads nothing yet. why: describes the error.
// TERN_ERR_IO, TERN_ERR_NO_MEMORY
TERN_MUST_USE enum tern_result tern_partial_file_open(struct tern_partial_file **partial,
                                                      const char *directory, char why[512]);

// Keeps the received bytes on disk. NULL is allowed.
void tern_partial_file_close(struct tern_partial_file *partial);

struct tern_partial tern_partial_file_port(struct tern_partial_file *partial);

#ifdef __cplusplus
}
#endif

#endif
