// Implements the store port in a directory, with one file per record. A file has a checksum, and is replaced by writing a
// temporary file, fsync, rename, and fsync of the directory. A lock prevents two processes from running as the same client.
// Only the owner can read the files, since the identity is a secret. A store belongs to one thread.
#ifndef TERN_POSIX_FILE_STORE_H
#define TERN_POSIX_FILE_STORE_H

#include "ports.h"

#ifdef __cplusplus
extern "C" {
#endif

struct tern_file_store;

// Opens and locks the directory, and creates it if it is missing. After an error why has the reason and what to do.
// TERN_ERR_CONFLICT   another process has locked the directory
// TERN_ERR_IO, TERN_ERR_NO_MEMORY
TERN_MUST_USE enum tern_result tern_file_store_open(struct tern_file_store **store,
                                                    const char *directory, char why[512]);

// Opens the directory for reading, without a lock: another process may have locked it. Functions of the port that write return
// TERN_ERR_STATE.
// TERN_ERR_NOT_FOUND  there is no such directory
TERN_MUST_USE enum tern_result tern_file_store_open_reader(struct tern_file_store **store,
                                                           const char *directory, char why[512]);

// Closes the directory and releases its lock. store may be NULL.
void tern_file_store_close(struct tern_file_store *store);

// Returns the store port; *store must outlive it.
struct tern_store tern_file_store_port(struct tern_file_store *store);

#ifdef __cplusplus
}
#endif

#endif
