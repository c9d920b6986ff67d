#define _GNU_SOURCE // nftw
#include "external/work_folder.h"

#include <errno.h>
#include <ftw.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define OPEN_FOLDERS 16
#define TRIES 8 // each opens folders one level deeper, where those above could not be looked into

// What is in a folder that may not be written to cannot be removed; some caches are full of such.
static int open_entry(const char *path, const struct stat *facts, int kind, struct FTW *place)
{
    (void)place;
    if ((kind == FTW_D || kind == FTW_DNR) && (facts->st_mode & S_IRWXU) != S_IRWXU) {
        (void)chmod(path, S_IRWXU);
    }
    return 0;
}

static int remove_entry(const char *path, const struct stat *facts, int kind, struct FTW *place)
{
    (void)facts;
    (void)kind;
    (void)place;
    (void)remove(path);
    return 0;
}

void tern_work_folder_remove(const char *path)
{
    struct stat facts;
    if (unlink(path) == 0) { // a folder is not unlinked
        return;
    }
    for (int i = 0; i < TRIES && lstat(path, &facts) == 0; i++) {
        (void)nftw(path, open_entry, OPEN_FOLDERS, FTW_PHYS | FTW_MOUNT);
        (void)nftw(path, remove_entry, OPEN_FOLDERS, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
    }
}

enum tern_result tern_work_folder_make(const char *path, char absolute[TERN_WORK_PATH_MAX],
                                       char why[TERN_EXTERNAL_WHY_MAX])
{
    char resolved[PATH_MAX];
    tern_work_folder_remove(path);
    if (mkdir(path, 0700) != 0 || chmod(path, 0700) != 0 || realpath(path, resolved) == NULL) {
        return tern_external_fail(why, errno == ENOSPC ? TERN_ERR_NO_SPACE : TERN_ERR_IO,
                                  "the trainer's folder %s cannot be made: %s", path,
                                  strerror(errno));
    }
    if (strlen(resolved) >= TERN_WORK_PATH_MAX) {
        tern_work_folder_remove(path);
        return tern_external_fail(why, TERN_ERR_TOO_LARGE,
                                  "the path of the trainer's folder %s is too long", path);
    }
    memcpy(absolute, resolved, strlen(resolved) + 1);
    return TERN_OK;
}
