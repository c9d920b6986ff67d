#define _GNU_SOURCE // mkdtemp
#include "external/work_folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PASSES_MAX 1000000 // each takes one level off: deeper than any file system's program nests

// --- Removing

// A folder that is emptied. Folders in its folders are moved up into it, under numbers, so that
// neither the length of a path nor the number of open files bounds how deep they may lie.
struct removal {
    int top;
    dev_t device;
    unsigned name;
};

// What is in a folder that may not be written to cannot be removed; some caches are full of such.
static bool open_up(int at, const char *name, dev_t *device)
{
    struct stat facts;
    if (fstatat(at, name, &facts, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISDIR(facts.st_mode)) {
        return false;
    }
    if ((facts.st_mode & S_IRWXU) != S_IRWXU) {
        (void)fchmodat(at, name, S_IRWXU, 0);
    }
    *device = facts.st_dev;
    return true;
}

static DIR *open_folder(int at, const char *name)
{
    const int fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *folder = fd >= 0 ? fdopendir(fd) : NULL;
    if (folder == NULL && fd >= 0) {
        (void)close(fd);
    }
    return folder;
}

static const char *next_name(DIR *folder)
{
    const struct dirent *entry = readdir(folder);
    while (entry != NULL && (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)) {
        entry = readdir(folder);
    }
    return entry != NULL ? entry->d_name : NULL;
}

// Moves a folder up. A number that a file or a full folder has is passed over; an empty folder is
// replaced.
static bool lift(struct removal *removal, int at, const char *name)
{
    char number[16];
    do {
        snprintf(number, sizeof number, "%u", removal->name++);
        if (renameat(at, name, removal->top, number) == 0) {
            return true;
        }
    } while (errno == ENOTEMPTY || errno == EEXIST || errno == ENOTDIR);
    return false;
}

static bool remove_entry(int at, const char *name)
{
    return unlinkat(at, name, 0) == 0 || unlinkat(at, name, AT_REMOVEDIR) == 0;
}

// Takes everything out of a folder of the top's. Whether anything went.
static bool empty(struct removal *removal, const char *name)
{
    dev_t device;
    DIR *folder = NULL;
    bool went = false;
    const char *entry;
    if (!open_up(removal->top, name, &device) || device != removal->device ||
        (folder = open_folder(removal->top, name)) == NULL) {
        return false;
    }
    while ((entry = next_name(folder)) != NULL) {
        const bool gone =
            remove_entry(dirfd(folder), entry) ||
            (open_up(dirfd(folder), entry, &device) && lift(removal, dirfd(folder), entry));
        went = went || gone;
    }
    (void)closedir(folder);
    return went;
}

static bool empty_top(struct removal *removal, DIR *top)
{
    bool went = false;
    const char *entry;
    rewinddir(top);
    while ((entry = next_name(top)) != NULL) {
        const bool gone = remove_entry(removal->top, entry) || empty(removal, entry);
        went = went || gone;
    }
    return went;
}

void tern_work_folder_remove(const char *path)
{
    struct removal removal = {.top = -1};
    if (unlink(path) == 0 || !open_up(AT_FDCWD, path, &removal.device)) {
        return; // a folder is not unlinked
    }
    DIR *top = open_folder(AT_FDCWD, path);
    if (top == NULL) {
        return;
    }
    removal.top = dirfd(top);
    for (int i = 0; i < PASSES_MAX && empty_top(&removal, top); i++) {
    }
    (void)closedir(top);
    (void)rmdir(path);
}

// --- Making

// One folder for all runs, one in it for this. What is left in it is in nobody's way.
static bool make(const char *path, char *run, char *absolute)
{
    struct stat facts;
    if (mkdir(path, 0700) != 0 &&
        (errno != EEXIST || lstat(path, &facts) != 0 || !S_ISDIR(facts.st_mode))) {
        return false;
    }
    return chmod(path, 0700) == 0 && mkdtemp(run) != NULL && chmod(run, 0700) == 0 &&
           realpath(run, absolute) != NULL;
}

enum tern_result tern_work_folder_make(const char *path, char absolute[TERN_WORK_PATH_MAX],
                                       char why[TERN_EXTERNAL_WHY_MAX])
{
    char run[PATH_MAX];
    char resolved[PATH_MAX];
    tern_work_folder_remove(path);
    const int len = snprintf(run, sizeof run, "%s/run-XXXXXX", path);
    if (len >= 0 && (size_t)len < sizeof run && !make(path, run, resolved)) {
        const int error = errno;
        return tern_external_fail(why, error == ENOSPC ? TERN_ERR_NO_SPACE : TERN_ERR_IO,
                                  "the trainer's folder %s cannot be made: %s%s", path,
                                  strerror(error),
                                  access(path, F_OK) == 0 ? "; remove what is there" : "");
    }
    if (len < 0 || (size_t)len >= sizeof run || strlen(resolved) >= TERN_WORK_PATH_MAX) {
        tern_work_folder_remove(path);
        return tern_external_fail(why, TERN_ERR_TOO_LARGE,
                                  "the path of the trainer's folder %s is too long", path);
    }
    memcpy(absolute, resolved, strlen(resolved) + 1);
    return TERN_OK;
}
