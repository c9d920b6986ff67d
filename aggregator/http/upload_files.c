// "OWNER-TOTAL-PATH-XXXXXX", a '%' for each '/' of the path: no path that is served has one
// (request_reader.c).
#include "http/upload_files.h"
#include "hosted/spool.h"
#include "util/bytes.h"
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static void replace(char *text, char from, char to)
{
    for (; *text != '\0'; text++) {
        *text = *text == from ? to : *text;
    }
}

bool tern_upload_file_name(uint64_t owner, uint64_t total, const char *path,
                           char name[NAME_MAX + 1])
{
    const int len = snprintf(name, NAME_MAX + 1, "%" PRIu64 "-%" PRIu64 "-%s", owner, total, path);
    replace(name, '/', '%');
    return len > 0 && (size_t)len + TERN_SPOOL_SUFFIX <= NAME_MAX;
}

// The number before a '-'; returns what stands behind that, NULL where there is none.
static const char *number_at(const char *text, uint64_t *number)
{
    const char *end = text != NULL ? tern_get_decimal(text, number) : NULL;
    return end != NULL && end != text && *end == '-' ? end + 1 : NULL;
}

// False: it is the name of something else.
static bool parse_name(const char *name, struct tern_upload_file *file, const char **path,
                       size_t *path_len)
{
    *path = number_at(number_at(name, &file->owner), &file->total);
    const char *suffix = *path != NULL ? strrchr(*path, '-') : NULL;
    if (suffix == NULL || strlen(suffix) != TERN_SPOOL_SUFFIX || **path != '%') {
        return false;
    }
    *path_len = (size_t)(suffix - *path);
    return true;
}

static int is_upload(const struct dirent *entry)
{
    struct tern_upload_file file;
    const char *path;
    size_t path_len;
    return parse_name(entry->d_name, &file, &path, &path_len);
}

static bool fill(const char *folder, const char *name, struct tern_upload_file *file)
{
    struct stat status;
    const char *path;
    size_t path_len;
    const size_t size = strlen(folder) + strlen(name) + 2;
    file->file = malloc(size);
    if (file->file == NULL || !parse_name(name, file, &path, &path_len)) {
        return false;
    }
    snprintf(file->file, size, "%s/%s", folder, name);
    file->path = strndup(path, path_len);
    if (file->path == NULL) {
        return false;
    }
    replace(file->path, '%', '/');
    if (lstat(file->file, &status) == 0 && S_ISREG(status.st_mode)) { // else it has no bytes
        file->size = (uint64_t)status.st_size;
        file->time_ms =
            (uint64_t)status.st_mtim.tv_sec * 1000 + (uint64_t)status.st_mtim.tv_nsec / 1000000;
    }
    return true;
}

static int compare_times(const void *a, const void *b)
{
    const struct tern_upload_file *x = a;
    const struct tern_upload_file *y = b;
    return (x->time_ms > y->time_ms) - (x->time_ms < y->time_ms);
}

static void free_names(struct dirent **names, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        free(names[i]);
    }
    free(names);
}

enum tern_result tern_upload_files_list(const char *folder, struct tern_upload_file **files,
                                        size_t *count)
{
    struct dirent **names;
    const int found = scandir(folder, &names, is_upload, NULL);
    if (found < 0) {
        return errno == ENOMEM ? TERN_ERR_NO_MEMORY : TERN_ERR_IO;
    }
    const size_t n = (size_t)found;
    struct tern_upload_file *list = calloc(n + 1, sizeof *list);
    bool filled = list != NULL;
    for (size_t i = 0; i < n && filled; i++) {
        filled = fill(folder, names[i]->d_name, &list[i]);
    }
    free_names(names, n);
    if (!filled) {
        tern_upload_files_free(list, n);
        return TERN_ERR_NO_MEMORY;
    }
    qsort(list, n, sizeof *list, compare_times);
    *files = list;
    *count = n;
    return TERN_OK;
}

void tern_upload_files_free(struct tern_upload_file *files, size_t count)
{
    for (size_t i = 0; files != NULL && i < count; i++) {
        free(files[i].file);
        free(files[i].path);
    }
    free(files);
}
