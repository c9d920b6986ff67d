// Implements the partial-download port in one file of the state directory, `download.part`: size and SHA-256 of the download,
// then the received bytes. Used by one thread of the process that has locked the directory (posix/file_store.h).
#ifndef TERN_POSIX_PARTIAL_FILE_H
#define TERN_POSIX_PARTIAL_FILE_H

#include "ports.h"

#ifdef __cplusplus
extern "C" {
#endif

struct tern_partial_file;

// Opens the directory, which must exist; reads no file. After an error why has the reason.
// TERN_ERR_IO, TERN_ERR_NO_MEMORY
TERN_MUST_USE enum tern_result tern_partial_file_open(struct tern_partial_file **partial,
                                                      const char *directory, char why[512]);

// Closes the file, which stays on disk. partial may be NULL.
void tern_partial_file_close(struct tern_partial_file *partial);

// Returns the port; *partial must outlive it.
struct tern_partial tern_partial_file_port(struct tern_partial_file *partial);

#ifdef __cplusplus
}
#endif

#endif
