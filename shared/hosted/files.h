// Files, for hosted programs: bounded reads of whole ones, writes that survive a power cut. Reentrant.
// On error errno says more.
#ifndef TERN_FILES_H
#define TERN_FILES_H

#include "result.h"
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

// Reads a whole file of at most `most` bytes. *data: malloc'ed, the caller's to free, with one NUL
// behind the last byte; *len: without that NUL. Both unchanged on error.
// TERN_ERR_NOT_FOUND, TERN_ERR_IO, TERN_ERR_NO_MEMORY
// TERN_ERR_TOO_LARGE  it has more than `most` bytes; no more than that was read
TERN_MUST_USE enum tern_result tern_file_read(const char *path, size_t most, uint8_t **data,
                                              size_t *len);
// Likewise, and of a regular file alone: what a FIFO or a device brings has no end, or waits for
// one.
// TERN_ERR_ARGUMENT  it is something else
TERN_MUST_USE enum tern_result tern_file_read_regular(const char *path, size_t most, uint8_t **data,
                                                      size_t *len);

// The same of a file that is open, which it closes.
TERN_MUST_USE enum tern_result tern_file_read_open(int fd, size_t most, uint8_t **data,
                                                   size_t *len);

// Replaces or makes a file at once: readers and a power cut see the old bytes or the new ones.
// mode: permissions, e.g. 0600, whatever the umask says. When it returns TERN_OK the new bytes are
// on the disk. A file that is a symbolic link is replaced, not followed.
// TERN_ERR_NOT_FOUND  the folder does not exist; TERN_ERR_NO_SPACE; TERN_ERR_IO
TERN_MUST_USE enum tern_result tern_file_write(const char *path, const void *data, size_t len,
                                               mode_t mode);

// Overwrites a regular file that is there, for a small one on a full disk: its bytes take the place of the old ones. A
// power cut can leave some of both. TERN_ERR_NOT_FOUND, TERN_ERR_NO_SPACE, TERN_ERR_IO
TERN_MUST_USE enum tern_result tern_file_overwrite(const char *path, const void *data, size_t len);

// For a file that a person named to be written: as tern_file_write(), but a symbolic link is
// followed and its target replaced, and what is not a regular file (a pipe, /dev/null) stays what
// it is and gets the bytes written into it, of which some may be out on error. Errors as above.
TERN_MUST_USE enum tern_result tern_file_output(const char *path, const void *data, size_t len,
                                                mode_t mode);

// Removes what tern_file_output() wrote, where that is a regular file; a link to it stays.
void tern_file_take_back(const char *path);

// Writes all of it to a file that is open; on error some of it may be there. The errors of
// tern_file_write_error().
TERN_MUST_USE enum tern_result tern_file_write_all(int fd, const void *data, size_t len);

// What errno says of a write that failed: TERN_ERR_NO_SPACE (a full disk, a quota, a limit on the
// size of files) or TERN_ERR_IO.
TERN_MUST_USE enum tern_result tern_file_write_error(void);

// Makes a folder and those above it. One that exists is left as it is. TERN_ERR_IO
TERN_MUST_USE enum tern_result tern_file_make_folders(const char *path, mode_t mode);

// Tests whether tern_file_make_folders() would make `path`, which is not there: makes a folder of a
// random name in the nearest parent that is there, and removes it. parent: that parent, PATH_MAX
// bytes. TERN_ERR_IO, and errno says why not
TERN_MUST_USE enum tern_result tern_file_can_make_folders(const char *path, char *parent);

#endif
