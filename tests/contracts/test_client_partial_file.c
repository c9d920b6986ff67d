// The partial download as a file.
#define _GNU_SOURCE
#include "posix/partial_file.h"
#include "tests/cases.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#define SIZE 20000u

static const uint8_t name[32] = {1, 2, 3};
static const uint8_t other[32] = {1, 2, 4};
static uint8_t bytes[SIZE];
static char folder[128];
static char path[256];
static char why[512];
static struct tern_partial_file *file;
static struct tern_partial port;

static void open_file(void)
{
    assert_int_equal(tern_partial_file_open(&file, folder, why), TERN_OK);
    port = tern_partial_file_port(file);
}

// What a kill leaves: nothing but what was written.
static void start_again(void)
{
    tern_partial_file_close(file);
    open_file();
}

static size_t have_of(const uint8_t sha256[32], size_t size)
{
    size_t have = SIZE + 1;
    assert_int_equal(port.open(port.ctx, sha256, size, &have), TERN_OK);
    return have;
}

static int set_up(void **state)
{
    (void)state;
    const char *base = getenv("TMPDIR");
    snprintf(folder, sizeof folder, "%.80s/tern-partial-XXXXXX", base != NULL ? base : "/tmp");
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/download.part", folder);
    for (size_t i = 0; i < SIZE; i++) {
        bytes[i] = (uint8_t)(i * 31 >> 3);
    }
    open_file();
    assert_int_equal(have_of(name, SIZE), 0);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    port.drop(port.ctx);
    tern_partial_file_close(file);
    assert_int_equal(rmdir(folder), 0); // nothing was left behind
    return 0;
}

#define TEST(test) CASE_WITH(test, set_up, tear_down)

TEST(what_came_survives_the_process)
{
    size_t at = 0;
    for (size_t piece = 1; at < SIZE; piece += 700) {
        const size_t n = piece < SIZE - at ? piece : SIZE - at;
        assert_int_equal(port.append(port.ctx, bytes + at, n), TERN_OK);
        at += n;
        start_again();
        assert_int_equal(have_of(name, SIZE), at);
        assert_int_equal(have_of(name, SIZE), at); // asked again it changes nothing
    }
    for (size_t offset = 0; offset < SIZE; offset += 1237) {
        const uint8_t *found = NULL;
        assert_int_equal(port.view(port.ctx, offset, SIZE - offset, &found), TERN_OK);
        assert_memory_equal(found, bytes + offset, SIZE - offset);
    }
}

TEST(what_did_not_come_cannot_be_seen)
{
    const uint8_t *found = NULL;
    assert_int_equal(port.append(port.ctx, bytes, 100), TERN_OK);
    assert_int_equal(port.view(port.ctx, 0, 101, &found), TERN_ERR_CORRUPT);
    assert_int_equal(port.view(port.ctx, 101, 1, &found), TERN_ERR_CORRUPT);
    assert_int_equal(port.view(port.ctx, SIZE_MAX, 2, &found), TERN_ERR_CORRUPT);
    port.drop(port.ctx);
    assert_int_equal(port.view(port.ctx, 0, 1, &found), TERN_ERR_CORRUPT);
    assert_int_equal(port.append(port.ctx, bytes, 1), TERN_ERR_IO);
    assert_int_equal(access(path, F_OK), -1);
}

TEST(another_download_drops_it)
{
    assert_int_equal(port.append(port.ctx, bytes, 100), TERN_OK);
    assert_int_equal(have_of(other, SIZE), 0);
    start_again();
    assert_int_equal(have_of(name, SIZE), 0);
    assert_int_equal(port.append(port.ctx, bytes, 100), TERN_OK);
    assert_int_equal(have_of(name, SIZE - 1), 0); // the same name, of another size
}

static void change_byte(long at)
{
    FILE *changed = fopen(path, "r+b");
    assert_non_null(changed);
    assert_int_equal(fseek(changed, at, SEEK_SET), 0);
    const int byte = fgetc(changed);
    assert_int_equal(fseek(changed, at, SEEK_SET), 0);
    fputc(byte ^ 1, changed);
    fclose(changed);
}

TEST(file_that_is_none_is_dropped)
{
    for (long at = 0; at < 48; at++) { // its head
        assert_int_equal(port.append(port.ctx, bytes, 100), TERN_OK);
        change_byte(at);
        start_again();
        assert_int_equal(have_of(name, SIZE), 0);
    }
    for (off_t len = 0; len < 48; len++) {
        assert_int_equal(truncate(path, len), 0);
        start_again();
        assert_int_equal(have_of(name, SIZE), 0);
    }
    assert_int_equal(truncate(path, 48 + SIZE + 1), 0); // more than there can be
    start_again();
    assert_int_equal(have_of(name, SIZE), 0);
}

TEST(link_in_its_place_is_not_followed)
{
    char target[256];
    snprintf(target, sizeof target, "%s/target", folder);
    port.drop(port.ctx);
    assert_int_equal(symlink(target, path), 0);
    assert_int_equal(have_of(name, SIZE), 0);
    assert_int_equal(port.append(port.ctx, bytes, 100), TERN_OK);
    assert_int_equal(access(target, F_OK), -1);
}

static enum tern_result with_limit(rlim_t most, enum tern_result (*act)(void))
{
    struct rlimit before;
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    const struct rlimit small = {most, before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    const enum tern_result result = act();
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    return result;
}

static enum tern_result open_other(void)
{
    size_t have = 0;
    return port.open(port.ctx, other, SIZE, &have);
}

static enum tern_result append_all(void)
{
    return port.append(port.ctx, bytes, SIZE);
}

TEST(full_disk_is_named)
{
    assert_int_equal(with_limit(10, open_other), TERN_ERR_NO_SPACE);
    assert_int_equal(access(path, F_OK), -1);
    assert_int_equal(have_of(name, SIZE), 0);
    assert_int_equal(with_limit(1000, append_all), TERN_ERR_NO_SPACE);
    assert_int_equal(have_of(name, SIZE), 1000 - 48); // what there was room for is there
    assert_int_equal(port.append(port.ctx, bytes + 952, SIZE - 952), TERN_OK);
    const uint8_t *found = NULL;
    assert_int_equal(port.view(port.ctx, 0, SIZE, &found), TERN_OK);
    assert_memory_equal(found, bytes, SIZE);
}

static enum tern_result with_descriptors(rlim_t most, enum tern_result (*act)(void))
{
    struct rlimit before;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    const struct rlimit small = {most, before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &small), 0);
    const enum tern_result result = act();
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    return result;
}

static enum tern_result open_same(void)
{
    size_t have = 0;
    return port.open(port.ctx, name, SIZE, &have);
}

TEST(what_cannot_be_opened_now_stays)
{
    assert_int_equal(port.append(port.ctx, bytes, 100), TERN_OK);
    start_again();
    assert_int_equal(with_descriptors(0, open_same), TERN_ERR_IO);
    assert_int_equal(have_of(name, SIZE), 100);
}
