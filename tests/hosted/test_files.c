// Whole files: bounded reads, atomic replacement, folders.
#include "hosted/files.h"
#include "hosted/system.h"
#include "tests/cases.h"
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

static char folder[64];

static int make_folder(void **state)
{
    (void)state;
    strcpy(folder, "/tmp/tern-files-XXXXXX");
    return mkdtemp(folder) == NULL;
}

static int remove_folder(void **state)
{
    (void)state;
    char command[128];
    snprintf(command, sizeof(command), "rm -rf '%s'", folder);
    return system(command);
}

static const char *in_folder(const char *name)
{
    static char path[256];
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    return path;
}

static size_t count_entries(void)
{
    size_t count = 0;
    DIR *dir = opendir(folder);
    assert_non_null(dir);
    for (struct dirent *entry; (entry = readdir(dir)) != NULL;) {
        count += entry->d_name[0] != '.';
    }
    closedir(dir);
    return count;
}

static void assert_holds(const char *name, const char *text)
{
    uint8_t *data = NULL;
    size_t len = 0;
    assert_int_equal(tern_file_read(in_folder(name), 1 << 20, &data, &len), TERN_OK);
    assert_int_equal(len, strlen(text));
    assert_string_equal((char *)data, text);
    free(data);
}

CASE(what_was_written_is_read)
{
    struct stat facts;
    assert_int_equal(tern_file_write(in_folder("a"), "one", 3, 0600), TERN_OK);
    assert_holds("a", "one");
    assert_int_equal(stat(in_folder("a"), &facts), 0);
    assert_int_equal(facts.st_mode & 0777, 0600);
    assert_int_equal(tern_file_write(in_folder("a"), "second", 6, 0644), TERN_OK);
    assert_holds("a", "second");
    assert_int_equal(stat(in_folder("a"), &facts), 0);
    assert_int_equal(facts.st_mode & 0777, 0644);
    assert_int_equal(tern_file_write(in_folder("empty"), "", 0, 0644), TERN_OK);
    assert_holds("empty", "");
    assert_int_equal(count_entries(), 2);
}

static bool is_link(const char *name)
{
    struct stat facts;
    return lstat(in_folder(name), &facts) == 0 && S_ISLNK(facts.st_mode);
}

// State is replaced where it lies; an output goes where its link says.
CASE(only_an_output_follows_links)
{
    assert_int_equal(tern_file_write(in_folder("target"), "old", 3, 0600), TERN_OK);
    assert_int_equal(symlink("target", in_folder("link")), 0);
    assert_int_equal(symlink("made", in_folder("dangling")), 0);
    assert_int_equal(tern_file_output(in_folder("link"), "new", 3, 0600), TERN_OK);
    assert_true(is_link("link"));
    assert_holds("target", "new");
    assert_int_equal(tern_file_output(in_folder("dangling"), "made", 4, 0600), TERN_OK);
    assert_true(is_link("dangling"));
    assert_holds("made", "made");
    tern_file_take_back(in_folder("dangling"));
    assert_true(is_link("dangling"));
    assert_int_equal(access(in_folder("made"), F_OK), -1);
    assert_int_equal(tern_file_write(in_folder("link"), "state", 5, 0600), TERN_OK);
    assert_false(is_link("link"));
    assert_holds("target", "new");
}

CASE(only_regular_files_are_read_where_it_matters)
{
    uint8_t *data = NULL;
    size_t len = 0;
    (void)state;
    assert_int_equal(tern_file_read_regular("/dev/zero", 100, &data, &len), TERN_ERR_ARGUMENT);
    assert_int_equal(tern_file_read_regular("/dev", 100, &data, &len), TERN_ERR_ARGUMENT);
    assert_int_equal(tern_file_read_regular("/nowhere", 100, &data, &len), TERN_ERR_NOT_FOUND);
    assert_null(data);
    assert_int_equal(tern_file_write(in_folder("regular"), "abc", 3, 0600), TERN_OK);
    assert_int_equal(tern_file_read_regular(in_folder("regular"), 100, &data, &len), TERN_OK);
    assert_int_equal(len, 3);
    free(data);
}

CASE(an_output_leaves_devices_as_they_are)
{
    struct stat facts;
    assert_int_equal(mkfifo(in_folder("pipe"), 0600), 0);
    int end = open(in_folder("pipe"), O_RDONLY | O_NONBLOCK);
    char got[8] = "";
    assert_int_equal(tern_file_output(in_folder("pipe"), "abc", 3, 0600), TERN_OK);
    assert_int_equal(read(end, got, sizeof(got) - 1), 3);
    assert_string_equal(got, "abc");
    tern_file_take_back(in_folder("pipe"));
    assert_int_equal(stat(in_folder("pipe"), &facts), 0);
    assert_true(S_ISFIFO(facts.st_mode));
    (void)close(end);
    assert_int_equal(tern_file_output("/dev/null", "abc", 3, 0600), TERN_OK);
    assert_int_equal(tern_file_output("/dev/full", "abc", 3, 0600), TERN_ERR_NO_SPACE);
    assert_int_equal(errno, ENOSPC);
    assert_int_equal(tern_file_output(folder, "abc", 3, 0600), TERN_ERR_IO);
}

CASE(a_read_is_bounded)
{
    static uint8_t large[10000];
    uint8_t *data = NULL;
    size_t len = 0;
    memset(large, 'x', sizeof(large));
    assert_int_equal(tern_file_write(in_folder("b"), large, sizeof(large), 0644), TERN_OK);
    assert_int_equal(tern_file_read(in_folder("b"), 9999, &data, &len), TERN_ERR_TOO_LARGE);
    assert_null(data);
    assert_int_equal(tern_file_read("/dev/zero", 100000, &data, &len), TERN_ERR_TOO_LARGE);
    assert_int_equal(tern_file_read(in_folder("b"), 10000, &data, &len), TERN_OK);
    assert_int_equal(len, 10000);
    assert_memory_equal(data, large, len);
    free(data);
}

CASE(failures_are_named_and_leave_the_old_file)
{
    uint8_t *data = NULL;
    size_t len = 0;
    assert_int_equal(tern_file_read(in_folder("none"), 10, &data, &len), TERN_ERR_NOT_FOUND);
    assert_int_equal(tern_file_read(folder, 10, &data, &len), TERN_ERR_IO);
    assert_int_equal(errno, EISDIR);
    assert_int_equal(tern_file_write(in_folder("none/a"), "x", 1, 0600), TERN_ERR_NOT_FOUND);
    assert_int_equal(tern_file_make_folders(in_folder("c"), 0755), TERN_OK);
    size_t before = count_entries();
    assert_int_equal(tern_file_write(in_folder("c"), "x", 1, 0600), TERN_ERR_IO);
    assert_int_equal(count_entries(), before);
}

CASE(folders_are_made_with_those_above)
{
    struct stat facts;
    assert_int_equal(tern_file_make_folders(in_folder("d/e//f/"), 0700), TERN_OK);
    assert_int_equal(stat(in_folder("d/e/f"), &facts), 0);
    assert_true(S_ISDIR(facts.st_mode));
    assert_int_equal(tern_file_make_folders(in_folder("d/e/f"), 0700), TERN_OK);
    assert_int_equal(tern_file_write(in_folder("file"), "x", 1, 0600), TERN_OK);
    assert_int_equal(tern_file_make_folders(in_folder("file/g"), 0700), TERN_ERR_IO);
    assert_int_equal(errno, ENOTDIR);
    assert_int_equal(tern_file_make_folders(in_folder("file"), 0700), TERN_ERR_IO);
}

// Expects that `path` cannot be made, for this reason, in this parent.
static void assert_cannot_be_made(const char *path, int reason, const char *in)
{
    char parent[PATH_MAX];
    assert_int_equal(tern_file_can_make_folders(path, parent), TERN_ERR_IO);
    assert_int_equal(errno, reason);
    assert_string_equal(parent, in);
}

CASE(a_folder_that_cannot_be_made_is_known_before)
{
    char parent[PATH_MAX];
    const size_t before = count_entries();
    assert_int_equal(tern_file_can_make_folders(in_folder("x/y//z/"), parent), TERN_OK);
    assert_string_equal(parent, folder);
    assert_int_equal(count_entries(), before);
    assert_int_equal(tern_file_write(in_folder("plain"), "x", 1, 0600), TERN_OK);
    char plain[PATH_MAX];
    snprintf(plain, sizeof plain, "%s", in_folder("plain"));
    assert_cannot_be_made(in_folder("plain/x/y"), ENOTDIR, plain);
    assert_int_equal(symlink("nowhere", in_folder("to-nowhere")), 0);
    char link[PATH_MAX];
    snprintf(link, sizeof link, "%s", in_folder("to-nowhere"));
    assert_cannot_be_made(link, ENOTDIR, link);
    // Also of who may write everywhere.
    assert_int_equal(tern_file_can_make_folders("/proc/x/y", parent), TERN_ERR_IO);
    assert_string_equal(parent, "/proc");
    assert_int_equal(chdir(folder), 0);
    assert_int_equal(tern_file_can_make_folders("bare", parent), TERN_OK);
    assert_string_equal(parent, ".");
}

CASE(a_bare_name_is_in_the_working_folder)
{
    char before[4096];
    assert_non_null(getcwd(before, sizeof(before)));
    assert_int_equal(chdir(folder), 0);
    assert_int_equal(tern_file_write("bare", "x", 1, 0600), TERN_OK);
    assert_int_equal(tern_file_make_folders("bare.d", 0700), TERN_OK);
    assert_int_equal(chdir(before), 0);
    assert_holds("bare", "x");
}

CASE(random_bytes_differ)
{
    unsigned char a[32] = {0};
    unsigned char b[32] = {0};
    assert_int_equal(tern_random_fill(a, sizeof(a)), TERN_OK);
    assert_int_equal(tern_random_fill(b, sizeof(b)), TERN_OK);
    assert_memory_not_equal(a, b, sizeof(a));
    assert_int_equal(tern_random_fill(NULL, 0), TERN_OK);
}

CASES_SHARE(make_folder, remove_folder)
