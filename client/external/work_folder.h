// The folder that an external trainer is given its task in: made for one run, mode 0700, and
// removed with everything that is in it. Hosted; a folder belongs to one thread.
#ifndef TERN_WORK_FOLDER_H
#define TERN_WORK_FOLDER_H

#include "external/model_file.h"

#define TERN_WORK_PATH_MAX 960 // bytes of the folder's path; files in it have at most 64 more

// Makes a folder in `path`, which is made anew, too; its name no former run had, so that a trainer
// which outlived a crash of the client does not write into it. What was in `path` is removed first,
// as far as it can; a symbolic link is removed, not followed. absolute: its path from the root.
// TERN_ERR_IO, TERN_ERR_NO_SPACE, TERN_ERR_TOO_LARGE (the path is too long); with `why`
TERN_MUST_USE enum tern_result tern_work_folder_make(const char *path,
                                                     char absolute[TERN_WORK_PATH_MAX],
                                                     char why[TERN_EXTERNAL_WHY_MAX]);

// Removes `path` and what is in it, as far as it can and however deep, on this file system alone.
// Nothing when it is not there.
void tern_work_folder_remove(const char *path);

#endif
