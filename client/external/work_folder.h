// The folder that an external trainer is given its task in: made for one run, mode 0700, and
// removed with everything that is in it. Hosted; a folder belongs to one thread.
#ifndef TERN_WORK_FOLDER_H
#define TERN_WORK_FOLDER_H

#include "external/model_file.h"

#define TERN_WORK_PATH_MAX 960 // bytes of the folder's path; files in it have at most 64 more

// Makes `path` anew and empty. What a crash left there is removed first; a symbolic link is
// removed, not followed. absolute: its path from the root.
// TERN_ERR_IO, TERN_ERR_NO_SPACE, TERN_ERR_TOO_LARGE (the path is too long); with `why`
TERN_MUST_USE enum tern_result tern_work_folder_make(const char *path,
                                                     char absolute[TERN_WORK_PATH_MAX],
                                                     char why[TERN_EXTERNAL_WHY_MAX]);

// Removes the folder and what is in it, as far as it can. Nothing when it is not there.
void tern_work_folder_remove(const char *path);

#endif
