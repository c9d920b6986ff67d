#include "data/files.h"
#include "tests/asserts.h"
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

char folder[256];
char why[TERN_DATA_WHY_MAX];
struct tern_data data;
struct tern_data_limits limits;

static const char *path_of(const char *name)
{
    static char path[1024];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

int folder_make(void **state)
{
    (void)state;
    const char *base = getenv("TMPDIR");
    snprintf(folder, sizeof folder, "%s/tern-data-XXXXXX", base != NULL ? base : "/tmp");
    memset(&limits, 0, sizeof limits);
    return mkdtemp(folder) != NULL ? 0 : -1;
}

int folder_remove(void **state)
{
    (void)state;
    tern_data_close(&data);
    DIR *dir = opendir(folder);
    if (dir == NULL) {
        return -1;
    }
    for (struct dirent *entry = readdir(dir); entry != NULL; entry = readdir(dir)) {
        if (entry->d_name[0] != '.') {
            remove_file(entry->d_name);
        }
    }
    closedir(dir);
    return rmdir(folder);
}

void write_file(const char *name, const void *bytes, size_t len)
{
    FILE *file = fopen(path_of(name), "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, len, file), len);
    assert_int_equal(fclose(file), 0);
}

void write_gzip(const char *name, const void *bytes, size_t len)
{
    gzFile file = gzopen(path_of(name), "wb9");
    assert_non_null(file);
    assert_int_equal(gzwrite(file, bytes, (unsigned)len), (int)len);
    assert_int_equal(gzclose(file), Z_OK);
}

void cut_file(const char *name, size_t len)
{
    assert_int_equal(truncate(path_of(name), (off_t)len), 0);
}

size_t file_size(const char *name)
{
    struct stat info;
    assert_int_equal(stat(path_of(name), &info), 0);
    return (size_t)info.st_size;
}

void remove_file(const char *name)
{
    assert_int_equal(unlink(path_of(name)), 0);
}

void name_spec(const char *spec, char text[SPEC_SIZE])
{
    text[0] = '\0';
    for (; *spec != '\0'; spec++) {
        const char plain[2] = {*spec, '\0'};
        strncat(text, *spec == '@' ? folder : plain, SPEC_SIZE - strlen(text) - 1);
    }
}

enum tern_result open_spec(const char *spec)
{
    char text[SPEC_SIZE];
    name_spec(spec, text);
    tern_data_close(&data);
    return tern_dataset_open(text, &limits, &data, why);
}

void expect_refused(const char *spec, enum tern_result expected, const char *part)
{
    enum tern_result result = open_spec(spec);
    if (result != expected || strstr(why, part) == NULL) {
        fail_msg("%s: %s, '%s'; expected %s with '%s'", spec, tern_result_name(result), why,
                 tern_result_name(expected), part);
    }
    assert_null(data.train.labels);
    assert_null(data.test.labels);
}
