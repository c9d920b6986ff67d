// What was committed is there after a SIGKILL at any instant, and two processes may write at once.
#include "store/fixture.h"
#include "tests/cases.h"
#include "tests/postgres/place.h"
#include "tests/sanitized.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define KILLS (test_store_is_postgres() || FEWER_TRIALS ? 40 : 200) // the server is not killed
#define BATCH 5

static void sleep_us(long us)
{
    struct timespec pause = {.tv_sec = 0, .tv_nsec = us * 1000};
    nanosleep(&pause, NULL);
}

// Stores updates (round, client 1) from `first` on, BATCH per transaction, and writes the last
// round of every transaction to `acknowledge` once commit has returned. Never returns.
static void write_until_killed(const char *path, uint32_t first, int acknowledge)
{
    char why[256];
    uint8_t body[3000];
    struct tern_db *db = NULL;
    if (tern_db_open(path, 0, &db, why) != TERN_OK) {
        _exit(1);
    }
    for (uint32_t round = first;; round += BATCH) {
        enum tern_result result = tern_db_begin(db);
        for (uint32_t i = 0; result == TERN_OK && i < BATCH; i++) {
            struct tern_db_round row = {.round = round + i};
            struct tern_db_update update = fixture_update(round + i, 1, body, sizeof body);
            result = tern_db_round_put(db, &row);
            if (result == TERN_OK) {
                result = tern_db_update_put(db, &update);
            }
        }
        if (result != TERN_OK || tern_db_commit(db) != TERN_OK) {
            _exit(2);
        }
        uint32_t last = round + BATCH - 1;
        if (write(acknowledge, &last, sizeof last) != sizeof last) {
            _exit(3);
        }
    }
}

// Runs a writer, kills it `us` after its first acknowledgement (at_work) or after its start, and
// returns the last round that it acknowledged.
static uint32_t run_and_kill(const char *path, uint32_t first, bool at_work, long us)
{
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        close(ends[0]);
        write_until_killed(path, first, ends[1]);
    }
    close(ends[1]);
    uint32_t last = first - 1;
    uint32_t value;
    if (at_work) {
        assert_int_equal(read(ends[0], &last, sizeof last), sizeof last);
    }
    sleep_us(us);
    assert_int_equal(kill(child, SIGKILL), 0);
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status)); // it did not stop by itself
    while (read(ends[0], &value, sizeof value) == sizeof value) {
        last = value;
    }
    close(ends[0]);
    return last;
}

static enum tern_result check_body(void *ctx, const struct tern_db_update *update)
{
    static uint8_t expected[3000];
    int *seen = ctx;
    struct tern_db_update same = fixture_update(update->round, 1, expected, sizeof expected);
    assert_int_equal(update->body_len, sizeof expected);
    assert_memory_equal(update->body, same.body, sizeof expected);
    *seen += 1;
    return TERN_OK;
}

#define TEST(name) CASE_WITH(name, fixture_setup, fixture_teardown)

TEST(acknowledged_commits_survive_kills)
{
    struct fixture *f = *state;
    fixture_client(f, 1);
    uint32_t checked = 0; // rounds up to here were found
    uint32_t random = 7;
    for (int i = 0; i < KILLS; i++) {
        random = random * 1664525u + 1013904223u;
        tern_db_close(f->db);
        f->db = NULL;
        uint32_t last = run_and_kill(f->path, checked + 1, i % 4 != 0, (long)(random >> 19));
        fixture_reopen(f);
        assert_ok(f,
                  tern_db_begin(f->db)); // a server may still be at what the killed one asked for
        tern_db_rollback(f->db);
        struct tern_db_round newest = {.round = 0};
        enum tern_result found = tern_db_round_last(f->db, &newest);
        assert_true(found == TERN_OK || (found == TERN_ERR_NOT_FOUND && last == 0));
        // All that was acknowledged, whole transactions only, at most one beyond.
        assert_true(newest.round >= last && newest.round <= last + BATCH);
        assert_int_equal(newest.round % BATCH, 0);
        for (uint32_t round = checked + 1; round <= newest.round; round++) {
            int seen = 0;
            assert_ok(f, tern_db_update_each(f->db, round, check_body, &seen));
            assert_int_equal(seen, 1);
        }
        checked = newest.round;
    }
    assert_ok(f, tern_db_check(f->db));
}

// --- Two processes

#define EACH 200

static enum tern_result add_clients(struct tern_db *db, uint8_t who)
{
    for (uint32_t i = 0; i < EACH; i++) {
        struct tern_db_client client = {.name = "x"};
        client.token_hash[0] = who;
        memcpy(client.token_hash + 1, &i, sizeof i);
        TERN_TRY(tern_db_begin(db));
        enum tern_result result = tern_db_client_add(db, &client);
        if (result != TERN_OK) {
            tern_db_rollback(db);
            return result;
        }
        TERN_TRY(tern_db_commit(db));
    }
    return TERN_OK;
}

TEST(two_processes_write_at_once)
{
    struct fixture *f = *state;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        char why[256];
        struct tern_db *db = NULL; // the inherited connection must not be touched
        bool fine = tern_db_open(f->path, 0, &db, why) == TERN_OK && add_clients(db, 2) == TERN_OK;
        tern_db_close(db);
        _exit(fine ? 0 : 1);
    }
    assert_ok(f, add_clients(f->db, 1));
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_true(tern_db_changed_by_others(f->db));
    struct tern_db_counts counts;
    assert_ok(f, tern_db_counts(f->db, 0, &counts));
    assert_int_equal(counts.clients, 2 * EACH);
}
