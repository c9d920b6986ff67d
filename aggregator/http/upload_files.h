// The files of long bodies that outlive the process, so that the next one finds them again: a file's
// name says whose body it is, for which path, and how long the whole is; its length says how much of
// it came. So there is no record that could be at odds with it. For uploads.c. Reentrant.
#ifndef TERN_HTTP_UPLOAD_FILES_H
#define TERN_HTTP_UPLOAD_FILES_H

#include "result.h"
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tern_upload_file {
    char *file;       // where it is
    char *path;       // that the body was sent to
    uint64_t owner;   // whose it is
    uint64_t total;   // bytes of the whole
    uint64_t size;    // bytes of the file
    uint64_t time_ms; // of the last write, in Unix time
};

// The beginning of the name of such a file (tern_spool_open_named()). False: the path is too long for
// one.
bool tern_upload_file_name(uint64_t owner, uint64_t total, const char *path,
                           char name[NAME_MAX + 1]);

// All such files of a folder, what was written last at the end; what has another name is left out.
// *files: malloc'ed, for tern_upload_files_free(); both unchanged on error.
// TERN_ERR_IO         the folder cannot be read; errno says why
// TERN_ERR_NO_MEMORY
TERN_MUST_USE enum tern_result
tern_upload_files_list(const char *folder, struct tern_upload_file **files, size_t *count);
void tern_upload_files_free(struct tern_upload_file *files, size_t count);

#endif
