// Reads whole files up to a limit, and writes files so that a power cut leaves the old or the new bytes. On error, errno
// has the reason. Reentrant.
#ifndef TERN_FILES_H
#define TERN_FILES_H

#include "result.h"
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

// Reads a whole file of at most `most` bytes. *data: malloc'ed, owned by the caller, with a NUL
// after the last byte; *len: without that NUL. Both unchanged on error.
// TERN_ERR_NOT_FOUND, TERN_ERR_IO, TERN_ERR_NO_MEMORY
// TERN_ERR_TOO_LARGE  the file has more than `most` bytes
TERN_MUST_USE enum tern_result tern_file_read(const char *path, size_t most, uint8_t **data,
                                              size_t *len);
// Like tern_file_read(), for regular files only: a FIFO or device may never end, or may block.
// TERN_ERR_ARGUMENT  it is not a regular file
TERN_MUST_USE enum tern_result tern_file_read_regular(const char *path, size_t most, uint8_t **data,
                                                      size_t *len);

// Like tern_file_read(), for an open file, which it closes.
TERN_MUST_USE enum tern_result tern_file_read_open(int fd, size_t most, uint8_t **data,
                                                   size_t *len);

// Replaces or creates a file atomically: readers see the old or the new bytes, also after a power
// cut. mode: permissions, e.g. 0600, whatever the umask says. When it returns TERN_OK the new bytes
// are on the disk. A file that is a symbolic link is replaced, not followed.
// TERN_ERR_NOT_FOUND  the folder does not exist; TERN_ERR_NO_SPACE; TERN_ERR_IO
TERN_MUST_USE enum tern_result tern_file_write(const char *path, const void *data, size_t len,
                                               mode_t mode);

// Overwrites an existing regular file in place, which works for a small file on a full disk. A power cut can leave a
// mixture of old and new bytes. TERN_ERR_NOT_FOUND, TERN_ERR_NO_SPACE, TERN_ERR_IO
TERN_MUST_USE enum tern_result tern_file_overwrite(const char *path, const void *data, size_t len);

// Writes a file that the user named. Like tern_file_write(), but replaces the target of a symbolic link, and writes into
// a pipe or device, which may have received some bytes on error.
TERN_MUST_USE enum tern_result tern_file_output(const char *path, const void *data, size_t len,
                                                mode_t mode);

// Removes the regular file that tern_file_output() wrote; a symbolic link to it stays.
void tern_file_take_back(const char *path);

// Writes len bytes to an open file; on error, some of them may be written. Errors of tern_file_write_error().
TERN_MUST_USE enum tern_result tern_file_write_all(int fd, const void *data, size_t len);

// Returns the result for errno after a failed write: TERN_ERR_NO_SPACE (full disk, quota, limit on the size of files) or
// TERN_ERR_IO.
TERN_MUST_USE enum tern_result tern_file_write_error(void);

// Makes a folder and its missing parents. An existing folder is unchanged. TERN_ERR_IO
TERN_MUST_USE enum tern_result tern_file_make_folders(const char *path, mode_t mode);

// Checks whether tern_file_make_folders() can make the missing `path`: makes a folder with a random name in its nearest
// existing parent, and removes it. parent: receives that parent, PATH_MAX bytes. TERN_ERR_IO; errno has the reason
TERN_MUST_USE enum tern_result tern_file_can_make_folders(const char *path, char *parent);

#endif
