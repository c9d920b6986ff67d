// Implements the store port in a directory: one file per record with a checksummed header, replaced by temporary file,
// fsync, rename and fsync of the directory. A lock prevents two processes from running as one client. Only the owner can
// read the files, since the identity is a secret. Called by programs through the port; one store belongs to one thread.
#ifndef TERN_POSIX_FILE_STORE_H
#define TERN_POSIX_FILE_STORE_H

#include "ports.h"

#ifdef __cplusplus
extern "C" {
#endif

struct tern_file_store;

// Opens the directory, and creates it when it is missing. why: the error and what to do.
// TERN_ERR_CONFLICT   another process has it open
// TERN_ERR_IO, TERN_ERR_NO_MEMORY
TERN_MUST_USE enum tern_result tern_file_store_open(struct tern_file_store **store,
                                                    const char *directory, char why[512]);

// Opens the directory for reading while another process may have it open: save returns TERN_ERR_STATE.
// TERN_ERR_NOT_FOUND  there is no such directory
TERN_MUST_USE enum tern_result tern_file_store_open_reader(struct tern_file_store **store,
                                                           const char *directory, char why[512]);

// Releases the lock. NULL is allowed.
void tern_file_store_close(struct tern_file_store *store);

struct tern_store tern_file_store_port(struct tern_file_store *store);

#ifdef __cplusplus
}
#endif

#endif
