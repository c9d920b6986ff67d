// The file store against the contract, and what only files can suffer.
#define _GNU_SOURCE
#include "contracts/client_store_contract.h"
#include "posix/file_store.h"
#define TERN_CASES_OWN_MAIN
#include "tests/cases.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[128];
static char why[512];
static struct tern_file_store *store;

static const char *path_of(const char *name)
{
    static char path[256];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static void open_store(void)
{
    const char *base = getenv("TMPDIR");
    snprintf(folder, sizeof folder, "%.80s/tern-store-XXXXXX", base != NULL ? base : "/tmp");
    assert_non_null(mkdtemp(folder));
    assert_int_equal(tern_file_store_open(&store, folder, why), TERN_OK);
}

static void reopen_store(void)
{
    tern_file_store_close(store);
    assert_int_equal(tern_file_store_open(&store, folder, why), TERN_OK);
}

static void close_store(void)
{
    static const char *const names[] = {"identity", "replica",    "upload", "settled",
                                        "meter",    "upload.new", "lock"};
    tern_file_store_close(store);
    store = NULL;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        unlink(path_of(names[i]));
    }
    assert_int_equal(rmdir(folder), 0); // nothing else was left behind
}

static struct tern_store port(void)
{
    return tern_file_store_port(store);
}

static int set_up(void **state)
{
    (void)state;
    open_store();
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    close_store();
    return 0;
}

static void save_text(const char *text)
{
    const struct tern_store_part part = {text, strlen(text)};
    assert_int_equal(port().save(store, TERN_RECORD_UPLOAD, &part, 1), TERN_OK);
}

static enum tern_result load_upload(void)
{
    char byte;
    size_t len = 0;
    return port().load(store, TERN_RECORD_UPLOAD, 0, &byte, 1, &len);
}

static size_t read_file(uint8_t *bytes, size_t size)
{
    FILE *file = fopen(path_of("upload"), "rb");
    assert_non_null(file);
    const size_t len = fread(bytes, 1, size, file);
    fclose(file);
    return len;
}

static void write_file(const uint8_t *bytes, size_t len)
{
    FILE *file = fopen(path_of("upload"), "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, len, file), len);
    fclose(file);
}

#define TEST(name) CASE_WITH(name, set_up, tear_down)

TEST(any_flipped_bit_is_found)
{
    uint8_t bytes[256];
    save_text("some forty bytes of a record, more or less");
    const size_t len = read_file(bytes, sizeof bytes);
    for (size_t bit = 0; bit < len * 8; bit++) {
        bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
        write_file(bytes, len);
        assert_int_equal(load_upload(), TERN_ERR_CORRUPT);
        bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    write_file(bytes, len);
    assert_int_equal(load_upload(), TERN_OK);
}

TEST(any_cut_or_added_byte_is_found)
{
    uint8_t bytes[256] = {0};
    save_text("text");
    const size_t len = read_file(bytes, sizeof bytes);
    for (size_t cut = 0; cut < len; cut++) {
        write_file(bytes, cut);
        assert_int_equal(load_upload(), TERN_ERR_CORRUPT);
    }
    write_file(bytes, len + 1);
    assert_int_equal(load_upload(), TERN_ERR_CORRUPT);
}

TEST(record_under_another_name_is_not_taken)
{
    char byte;
    size_t len = 0;
    save_text("text");
    char other[256];
    snprintf(other, sizeof other, "%s", path_of("replica"));
    assert_int_equal(rename(path_of("upload"), other), 0);
    assert_int_equal(port().load(store, TERN_RECORD_REPLICA, 0, &byte, 1, &len), TERN_ERR_CORRUPT);
}

TEST(two_processes_cannot_share_a_directory)
{
    struct tern_file_store *second = NULL;
    assert_int_equal(tern_file_store_open(&second, folder, why), TERN_ERR_CONFLICT);
    assert_non_null(strstr(why, "in use by another process"));
    assert_non_null(strstr(why, folder));
}

TEST(reader_looks_on_but_does_not_write)
{
    struct tern_file_store *reader = NULL;
    char found[4];
    size_t len = 0;
    save_text("text");
    assert_int_equal(tern_file_store_open_reader(&reader, folder, why), TERN_OK);
    const struct tern_store look = tern_file_store_port(reader);
    const struct tern_store_part part = {"x", 1};
    assert_int_equal(look.load(reader, TERN_RECORD_UPLOAD, 0, found, 4, &len), TERN_OK);
    assert_memory_equal(found, "text", 4);
    assert_int_equal(look.save(reader, TERN_RECORD_UPLOAD, &part, 1), TERN_ERR_STATE);
    assert_int_equal(look.begin(reader, TERN_RECORD_UPLOAD, 1), TERN_ERR_STATE);
    tern_file_store_close(reader);
}

TEST(secrets_are_the_owners_only)
{
    struct stat status;
    const struct tern_store_part part = {"secret", 6};
    assert_int_equal(port().save(store, TERN_RECORD_IDENTITY, &part, 1), TERN_OK);
    assert_int_equal(stat(path_of("identity"), &status), 0);
    assert_int_equal(status.st_mode & 0777, 0600);
}

TEST(full_disk_keeps_the_old_record)
{
    static const uint8_t large[5000];
    const struct tern_store_part part = {large, sizeof large};
    struct rlimit before;
    char found[4];
    size_t len = 0;
    save_text("text");
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    const struct rlimit small = {1000, before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    const enum tern_result result = port().save(store, TERN_RECORD_UPLOAD, &part, 1);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_int_equal(result, TERN_ERR_NO_SPACE);
    assert_int_equal(port().load(store, TERN_RECORD_UPLOAD, 0, found, 4, &len), TERN_OK);
    assert_memory_equal(found, "text", 4);
    assert_int_equal(access(path_of("upload.new"), F_OK), -1);
}

TEST(full_disk_ends_a_record_in_pieces)
{
    static const uint8_t large[5000];
    struct rlimit before;
    save_text("text");
    assert_int_equal(port().begin(store, TERN_RECORD_UPLOAD, 10), TERN_OK);
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    const struct rlimit small = {1000, before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    const enum tern_result result = port().append(store, large, sizeof large);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_int_equal(result, TERN_ERR_NO_SPACE);
    assert_int_equal(port().append(store, large, 1), TERN_ERR_IO);
    assert_int_equal(load_upload(), TERN_OK);
    assert_int_equal(access(path_of("upload.new"), F_OK), -1);
}

TEST(any_flipped_bit_of_pieces_is_found)
{
    uint8_t bytes[256];
    assert_int_equal(port().begin(store, TERN_RECORD_UPLOAD, 7), TERN_OK);
    assert_int_equal(port().append(store, "some bytes", 10), TERN_OK);
    assert_int_equal(port().append(store, " of a record", 12), TERN_OK);
    assert_int_equal(port().finish(store, "begins "), TERN_OK);
    const size_t len = read_file(bytes, sizeof bytes);
    for (size_t bit = 0; bit < len * 8; bit++) {
        bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
        write_file(bytes, len);
        assert_int_equal(load_upload(), TERN_ERR_CORRUPT);
        bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    write_file(bytes, len);
    assert_int_equal(load_upload(), TERN_OK);
}

// What a power cut leaves: a temporary file of any content.
TEST(leftovers_of_a_cut_do_no_harm)
{
    save_text("text");
    FILE *file = fopen(path_of("upload.new"), "wb");
    assert_non_null(file);
    fputs("half a rec", file);
    fclose(file);
    reopen_store();
    assert_int_equal(load_upload(), TERN_OK);
    save_text("next");
    assert_int_equal(access(path_of("upload.new"), F_OK), -1);
}

TEST(directory_that_cannot_be_made_is_named)
{
    struct tern_file_store *other = NULL;
    assert_int_equal(tern_file_store_open(&other, "/proc/tern/state", why), TERN_ERR_IO);
    assert_non_null(strstr(why, "/proc/tern/state"));
    assert_int_equal(tern_file_store_open_reader(&other, "/nonexistent", why), TERN_ERR_NOT_FOUND);
}

int main(void)
{
    static const struct store_under_test files = {open_store, reopen_store, close_store, port};
    const int failed = run_store_contract(&files);
    return failed + test_cases_run(&cases_of_this_file, __FILE__);
}
