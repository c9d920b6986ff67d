// Bodies that outlive their connection and their process, without connections: who may go on where,
// what goes when quota is short, and what a process finds that another has left.
#include "http/body.h"
#include <dirent.h>
#include <fnmatch.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
// cmocka wants the headers above first.
#include "tests/cases.h"
#include "util/sha256.h"

#define PATH "/v1/updates/3/4"
#define TOTAL 200000u
#define PART 100000u

static char folder[] = "/tmp/tern-uploads-XXXXXX";
static struct tern_body_quota *quota;
static struct tern_uploads *uploads;
static uint8_t bytes[TOTAL];

static int make_folder(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof bytes; i++) {
        bytes[i] = (uint8_t)(i * 7 + i / 251);
    }
    return mkdtemp(folder) != NULL ? 0 : -1;
}

static int remove_folder(void **state)
{
    (void)state;
    return rmdir(folder);
}

static void begin(uint64_t disk, uint32_t most)
{
    quota = tern_body_quota_new(folder, 1u << 20, disk);
    assert_non_null(quota);
    uploads = tern_uploads_new(quota, most);
    assert_non_null(uploads);
}

static size_t files_there(void)
{
    size_t count = 0;
    DIR *dir = opendir(folder);
    assert_non_null(dir);
    for (const struct dirent *entry = readdir(dir); entry != NULL; entry = readdir(dir)) {
        count += fnmatch("[0-9]*-[0-9]*-%*-??????", entry->d_name, 0) == 0;
    }
    closedir(dir);
    return count;
}

// The process ends; what is kept stays on disk.
static void stop(void)
{
    tern_uploads_free(uploads);
    assert_true(quota->disk_taken == 0);
    assert_true(quota->memory_taken == 0);
    assert_true(quota->references == 1);
    tern_body_quota_release(quota);
}

static void begin_again(uint64_t disk, uint32_t most)
{
    begin(disk, most);
    assert_int_equal(tern_uploads_load(uploads), TERN_OK);
}

// Nothing is left of anything.
static void end(void)
{
    const struct tern_http_handler handler = {0};
    tern_uploads_sweep(uploads, 1, 0, &handler);
    stop();
    assert_int_equal(files_there(), 0);
}

static enum tern_result start(uint64_t owner, const char *path, uint64_t from, uint64_t total,
                              struct tern_upload_writer *writer)
{
    const struct tern_upload_part rest = {owner, path, from, total};
    *writer = (struct tern_upload_writer){0};
    return tern_uploads_begin(uploads, &rest, writer);
}

static bool write_bytes(struct tern_upload_writer *writer, size_t from, size_t to)
{
    while (from < to) {
        const size_t n = to - from < 16384 ? to - from : 16384;
        if (!tern_upload_append(writer, bytes + from, n)) {
            return false;
        }
        from += n;
    }
    return true;
}

// The owner's connection breaks after `len` bytes.
static void break_off(uint64_t owner, size_t len)
{
    struct tern_upload_writer writer;
    assert_int_equal(start(owner, PATH, 0, TOTAL, &writer), TERN_OK);
    assert_true(write_bytes(&writer, 0, len));
    tern_upload_end(&writer);
}

// Bytes that are kept of the owner's body, which are the first of it.
static size_t kept(uint64_t owner)
{
    struct tern_http_unfinished unfinished;
    uint8_t digest[TERN_SHA256_SIZE];
    if (!tern_uploads_find(uploads, owner, PATH, &unfinished)) {
        return 0;
    }
    tern_sha256(bytes, unfinished.len, digest);
    assert_memory_equal(unfinished.sha256, digest, sizeof digest);
    return unfinished.len;
}

static void expect_whole(struct tern_upload_writer *writer)
{
    struct tern_body body;
    tern_body_init(&body, quota);
    assert_true(tern_upload_take(writer, &body));
    assert_null(writer->upload);
    assert_int_equal(body.len, TOTAL);
    assert_memory_equal(tern_body_view(&body), bytes, TOTAL);
    tern_body_free(&body);
}

static uint64_t kept_uploads(struct tern_uploads *of)
{
    struct tern_http_counters counters;
    tern_uploads_count(of, &counters);
    return counters.bodies_unfinished;
}

static uint64_t continued_uploads(struct tern_uploads *of)
{
    struct tern_http_counters counters;
    tern_uploads_count(of, &counters);
    return counters.bodies_continued;
}

CASE(test_the_rest_makes_it_whole)
{
    struct tern_upload_writer writer;
    begin(1u << 20, 10);
    break_off(1, PART);
    assert_int_equal(kept(1), PART);
    assert_int_equal(start(1, PATH, PART, TOTAL, &writer), TERN_OK);
    assert_true(write_bytes(&writer, PART, PART + 1));
    tern_upload_end(&writer);
    assert_int_equal(kept(1), PART + 1);
    assert_int_equal(start(1, PATH, PART + 1, TOTAL, &writer), TERN_OK);
    assert_true(write_bytes(&writer, PART + 1, TOTAL));
    expect_whole(&writer);
    assert_int_equal(kept(1), 0);
    assert_int_equal(kept_uploads(uploads), 0);
    assert_int_equal(continued_uploads(uploads), 2);
    end();
}

CASE(test_nothing_short_is_kept)
{
    begin(1u << 20, 10);
    break_off(1, TERN_BODY_SHORT);
    assert_int_equal(kept(1), 0);
    break_off(1, TERN_BODY_SHORT + 1);
    assert_int_equal(kept(1), TERN_BODY_SHORT + 1);
    end();
}

CASE(test_only_the_same_body_goes_on)
{
    struct tern_upload_writer writer;
    begin(1u << 20, 10);
    break_off(1, PART);
    assert_int_equal(start(2, PATH, PART, TOTAL, &writer), TERN_ERR_STATE);
    assert_int_equal(start(1, PATH "5", PART, TOTAL, &writer), TERN_ERR_STATE);
    assert_int_equal(start(1, PATH, PART, TOTAL + 1, &writer), TERN_ERR_STATE);
    assert_int_equal(start(1, PATH, PART - 1, TOTAL, &writer), TERN_ERR_STATE);
    assert_int_equal(start(1, PATH, PART + 1, TOTAL, &writer), TERN_ERR_STATE);
    assert_int_equal(kept(1), PART); // none of them took it away
    assert_int_equal(kept(2), 0);
    assert_int_equal(continued_uploads(uploads), 0);
    assert_int_equal(start(1, PATH, PART, TOTAL, &writer), TERN_OK);
    tern_upload_end(&writer);
    assert_int_equal(continued_uploads(uploads), 1);
    end();
}

// A link that is gone leaves a connection that still seems to be there.
CASE(test_a_new_writer_takes_the_place_of_the_old)
{
    struct tern_upload_writer old;
    struct tern_upload_writer fresh;
    struct tern_body body;
    begin(1u << 20, 10);
    assert_int_equal(start(1, PATH, 0, TOTAL, &old), TERN_OK);
    assert_true(write_bytes(&old, 0, PART));
    assert_int_equal(start(1, PATH, PART, TOTAL, &fresh), TERN_OK);
    assert_false(tern_upload_append(&old, bytes, 1));
    assert_true(write_bytes(&fresh, PART, TOTAL));
    tern_body_init(&body, quota);
    assert_false(tern_upload_take(&old, &body));
    tern_body_free(&body);
    tern_upload_end(&old);
    expect_whole(&fresh);
    end();
}

CASE(test_who_asks_has_given_up_sending)
{
    struct tern_upload_writer writer;
    begin(1u << 20, 10);
    assert_int_equal(start(1, PATH, 0, TOTAL, &writer), TERN_OK);
    assert_true(write_bytes(&writer, 0, PART));
    assert_int_equal(kept(1), PART);
    assert_false(tern_upload_append(&writer, bytes, 1));
    tern_upload_end(&writer);
    assert_int_equal(kept(1), PART);
    end();
}

CASE(test_an_owner_has_one_place)
{
    struct tern_upload_writer first;
    struct tern_upload_writer second;
    begin(1u << 20, 10);
    break_off(1, PART);
    assert_int_equal(start(1, PATH "5", 0, TOTAL, &first), TERN_OK);
    assert_int_equal(kept(1), 0);
    assert_true(write_bytes(&first, 0, PART));
    assert_int_equal(start(1, PATH, 0, TOTAL, &second), TERN_OK);
    assert_false(tern_upload_append(&first, bytes, 1));
    tern_upload_end(&first);
    assert_true(quota->disk_taken == 0);
    assert_true(write_bytes(&second, 0, TOTAL));
    expect_whole(&second);
    end();
}

// A writer that has lost its place and says nothing any more holds no quota.
CASE(test_silent_writers_of_one_owner_hold_one_body)
{
    struct tern_upload_writer silent[100];
    struct tern_upload_writer honest;
    begin(PART + TOTAL, 10);
    for (size_t i = 0; i < 100; i++) {
        assert_int_equal(start(1, PATH, 0, TOTAL, &silent[i]), TERN_OK);
        assert_true(quota->disk_taken == 0);
        assert_true(quota->memory_taken == 0);
        assert_true(write_bytes(&silent[i], 0, PART));
    }
    assert_int_equal(start(2, PATH, 0, TOTAL, &honest), TERN_OK);
    assert_true(write_bytes(&honest, 0, TOTAL));
    // Nor does it once somebody else's need has dropped what it wrote.
    assert_int_equal(kept(1), PART);
    struct tern_upload_writer third;
    assert_int_equal(start(3, PATH, 0, PART, &third), TERN_OK);
    assert_true(quota->disk_taken == TOTAL);
    tern_upload_end(&third);
    expect_whole(&honest);
    for (size_t i = 0; i < 100; i++) {
        assert_false(tern_upload_append(&silent[i], bytes, 1));
        tern_upload_end(&silent[i]);
    }
    end();
}

CASE(test_the_oldest_goes_when_there_are_too_many)
{
    begin(1u << 20, 2);
    break_off(1, PART);
    break_off(2, PART);
    break_off(3, PART);
    assert_int_equal(kept(1), 0);
    assert_int_equal(kept(2), PART);
    assert_int_equal(kept(3), PART);
    assert_int_equal(kept_uploads(uploads), 2);
    end();
}

// What is kept takes quota from nobody who sends.
CASE(test_the_oldest_goes_when_room_is_short)
{
    struct tern_upload_writer writer;
    struct tern_upload_writer other;
    begin(3 * PART, 10);
    break_off(1, PART);
    break_off(2, PART);
    assert_int_equal(start(3, PATH, 0, TOTAL, &writer), TERN_OK);
    assert_int_equal(kept(1), 0);
    assert_true(write_bytes(&writer, 0, PART + 1)); // quota enough for another PART
    assert_int_equal(start(4, PATH, 0, PART, &other), TERN_OK);
    assert_int_equal(kept(2), 0);
    tern_upload_end(&other);
    // Those that are being sent are never dropped for others.
    assert_int_equal(start(5, PATH, 0, 3 * PART, &other), TERN_ERR_BUSY);
    assert_true(write_bytes(&writer, PART + 1, TOTAL));
    expect_whole(&writer);
    end();
}

CASE(test_nothing_goes_for_what_does_not_fit_anyway)
{
    struct tern_upload_writer writer;
    struct tern_upload_writer other;
    begin(4 * PART, 10);
    break_off(1, PART);
    assert_int_equal(start(2, PATH, 0, TOTAL, &writer), TERN_OK);
    assert_true(write_bytes(&writer, 0, TOTAL));
    assert_int_equal(start(3, PATH, 0, TOTAL + 1, &other), TERN_ERR_BUSY);
    assert_int_equal(kept(1), PART);
    assert_int_equal(start(3, PATH, 0, TOTAL, &other), TERN_OK);
    assert_int_equal(kept(1), 0);
    tern_upload_end(&other);
    expect_whole(&writer);
    end();
}

// As a full disk does: of the last piece a part can still be written.
CASE(test_a_piece_that_was_written_in_part_does_not_count)
{
    struct tern_upload_writer writer;
    struct rlimit before;
    begin(1u << 20, 10);
    assert_int_equal(start(1, PATH, 0, TOTAL, &writer), TERN_OK);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    struct rlimit full = {PART, before.rlim_max};
    void (*const handler)(int) = signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &full), 0);
    const bool written = write_bytes(&writer, 0, TOTAL);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    signal(SIGXFSZ, handler);
    assert_false(written);
    const size_t whole = PART / 16384 * 16384;
    assert_true(quota->disk_taken == whole);
    tern_upload_end(&writer);
    assert_int_equal(kept(1), whole);
    assert_int_equal(start(1, PATH, whole, TOTAL, &writer), TERN_OK);
    assert_true(write_bytes(&writer, whole, TOTAL));
    expect_whole(&writer);
    end();
}

static bool expects_upload(void *ctx, uint64_t owner, const char *path)
{
    const uint64_t *gone = ctx;
    assert_string_equal(path, PATH);
    return owner != *gone;
}

CASE(test_a_sweep_drops_what_nobody_completes)
{
    uint64_t gone = 2;
    const struct tern_http_handler handler = {.ctx = &gone, .expects_upload = expects_upload};
    struct tern_upload_writer writer;
    begin(1u << 20, 10);
    break_off(1, PART);
    break_off(2, PART);
    assert_int_equal(start(3, PATH, 0, TOTAL, &writer), TERN_OK);
    assert_true(write_bytes(&writer, 0, PART));
    tern_uploads_sweep(uploads, 1000, 500, &handler);
    assert_int_equal(kept_uploads(uploads), 1);
    gone = 3; // while it is being sent
    tern_uploads_sweep(uploads, 1499, 500, &handler);
    assert_int_equal(kept_uploads(uploads), 1);
    tern_uploads_sweep(uploads, 1500, 500, &handler);
    assert_int_equal(kept_uploads(uploads), 0);
    assert_true(write_bytes(&writer, PART, TOTAL));
    expect_whole(&writer);
    end();
}

CASE(test_a_process_finds_what_another_left)
{
    struct tern_upload_writer writer;
    begin(1u << 20, 10);
    break_off(1, PART);
    break_off(2, PART + 5);
    break_off(3, TERN_BODY_SHORT);
    stop();
    assert_int_equal(files_there(), 2);
    begin_again(1u << 20, 10);
    assert_int_equal(kept_uploads(uploads), 2);
    assert_true(quota->disk_taken == 2 * PART + 5);
    assert_int_equal(kept(1), PART);
    assert_int_equal(kept(3), 0);
    assert_int_equal(start(1, PATH, PART, TOTAL, &writer), TERN_OK);
    assert_true(write_bytes(&writer, PART, TOTAL));
    expect_whole(&writer);
    assert_int_equal(files_there(), 1);
    end();
}

// A child is killed in the middle of a body, of another between its last byte and its answer, and of
// a third that it began anew.
CASE(test_a_kill_leaves_a_beginning)
{
    struct tern_upload_writer writer;
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        struct tern_body body;
        begin(1u << 20, 10);
        start(1, PATH, 0, TOTAL, &writer);
        write_bytes(&writer, 0, PART);
        start(2, PATH, 0, TOTAL, &writer);
        write_bytes(&writer, 0, TOTAL);
        tern_body_init(&body, quota);
        tern_upload_take(&writer, &body);
        start(3, PATH, 0, TOTAL, &writer);
        write_bytes(&writer, 0, TOTAL);
        start(3, PATH, 0, TOTAL, &writer);
        write_bytes(&writer, 0, PART);
        kill(getpid(), SIGKILL);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status));
    begin_again(1u << 20, 10);
    assert_int_equal(kept(1), PART);
    assert_int_equal(kept(2), TOTAL - 1); // for its client to say that it is whole
    assert_int_equal(kept(3), PART);
    assert_int_equal(start(2, PATH, TOTAL - 1, TOTAL, &writer), TERN_OK);
    assert_true(write_bytes(&writer, TOTAL - 1, TOTAL));
    expect_whole(&writer);
    end();
}

// A power cut may leave other bytes than those that came.
CASE(test_what_was_found_is_asked_for_before_it_goes_on)
{
    struct tern_upload_writer writer;
    begin(1u << 20, 10);
    break_off(1, PART);
    stop();
    begin_again(1u << 20, 10);
    assert_int_equal(start(1, PATH, PART, TOTAL, &writer), TERN_ERR_STATE);
    assert_int_equal(kept(1), PART);
    assert_int_equal(start(1, PATH, PART, TOTAL, &writer), TERN_OK);
    assert_true(write_bytes(&writer, PART, PART + 1));
    tern_upload_end(&writer);
    assert_int_equal(start(1, PATH, PART + 1, TOTAL, &writer), TERN_ERR_STATE);
    end();
}

static void make_file(uint64_t owner, uint64_t total, uint64_t size, time_t time_s)
{
    char name[NAME_MAX + 1];
    struct tern_spool spool;
    const struct timespec times[2] = {{.tv_sec = time_s}, {.tv_sec = time_s}};
    snprintf(name, sizeof name, "%" PRIu64 "-%" PRIu64 "-%%v1%%updates%%3%%4", owner, total);
    assert_true(tern_spool_open_named(&spool, folder, name));
    assert_int_equal(ftruncate(spool.fd, (off_t)size), 0);
    assert_int_equal(futimens(spool.fd, times), 0);
    tern_spool_close_and_keep(&spool);
}

CASE(test_what_is_found_is_bounded)
{
    const time_t now = time(NULL);
    struct tern_http_unfinished unfinished;
    make_file(1, TOTAL, PART, now - 50);
    make_file(2, TOTAL, PART, now - 40);
    make_file(2, TOTAL, PART + 1, now - 30); // the later one of one owner
    make_file(3, TOTAL, PART, now - 20);
    make_file(4, TOTAL, TERN_BODY_SHORT, now); // nothing long came
    make_file(5, 0, PART, now);                // nobody's name
    begin_again(1u << 20, 2);                  // the oldest goes
    assert_int_equal(files_there(), 2);
    assert_int_equal(kept_uploads(uploads), 2);
    assert_true(tern_uploads_find(uploads, 2, PATH, &unfinished));
    assert_int_equal(unfinished.len, PART + 1);
    stop();
    make_file(6, TOTAL, PART, now + 10);
    begin_again(2 * PART, 10); // so it does for quota
    assert_true(quota->disk_taken == 2 * PART);
    assert_int_equal(files_there(), 2);
    assert_false(tern_uploads_find(uploads, 2, PATH, &unfinished));
    end();
}

CASE(test_time_on_disk_counts)
{
    const struct tern_http_handler handler = {0};
    const time_t now = time(NULL);
    make_file(1, TOTAL, PART, now - 5000);
    make_file(2, TOTAL, PART, now - 1000);
    begin_again(1u << 20, 10);
    tern_uploads_sweep(uploads, 10, 5000000, &handler);
    assert_int_equal(kept_uploads(uploads), 1);
    assert_int_equal(files_there(), 1);
    end();
}

CASE(test_files_of_others_stay)
{
    static const char *const names[] = {"notes", "1-2-3", "1-200000-%v1-abc", "-1-%v1-abcdef"};
    char path[sizeof folder + 32];
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        FILE *file = fopen(path, "w");
        assert_non_null(file);
        assert_int_equal(fclose(file), 0);
    }
    begin_again(1u << 20, 10);
    assert_int_equal(kept_uploads(uploads), 0);
    end();
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        assert_int_equal(unlink(path), 0);
    }
}

// Longer than a file's name may be, so that its body goes with the process.
CASE(test_a_long_path_has_no_file_name)
{
    struct tern_upload_writer writer;
    struct tern_http_unfinished unfinished;
    char path[NAME_MAX + 1];
    memset(path, 'a', NAME_MAX);
    path[0] = '/';
    path[NAME_MAX] = '\0';
    begin(1u << 20, 10);
    assert_int_equal(start(1, path, 0, TOTAL, &writer), TERN_OK);
    assert_true(write_bytes(&writer, 0, PART));
    assert_int_equal(files_there(), 0);
    tern_upload_end(&writer);
    assert_true(tern_uploads_find(uploads, 1, path, &unfinished));
    end();
}

CASES_SHARE(make_folder, remove_folder)
