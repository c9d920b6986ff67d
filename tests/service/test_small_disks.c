// Rounds on disks of 8 and 32 MiB, with TERN_LONG_TESTS also of 16, alone on them and beside another program that fills them: the log of the
// database never fills a disk, nothing that was acknowledged is lost, and from a full disk the service comes back by
// itself. Each disk is a tmpfs in a mount namespace of this process.
#define _GNU_SOURCE
#include "harness.h"

#include "merge/replay.h"
#include "store/store.h"
#define TERN_CASES_OWN_MAIN
#include "tests/cases.h"
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define ROUNDS 500
#define CLIENTS 2
#define MIB (UINT64_C(1) << 20)

static struct harness harness;
static char disk[64] = "/tmp/tern-disk-XXXXXX";
static uint8_t replicas[CLIENTS + 1][TERN_WIRE_REPLICA_BYTES];
static bool holds[CLIENTS + 1];
static uint32_t accepted[CLIENTS + 1][ROUNDS + 2];
static uint32_t refused; // requests that were answered by 503

// --- The disk

static uint64_t free_bytes(void)
{
    struct statvfs room;
    assert_int_equal(statvfs(disk, &room), 0);
    return (uint64_t)room.f_bavail * room.f_frsize;
}

static uint64_t size_of(const char *suffix)
{
    char path[256];
    struct stat status;
    snprintf(path, sizeof path, "%s%s", harness.path, suffix);
    return stat(path, &status) == 0 ? (uint64_t)status.st_size : 0;
}

// Holds the database before the service has it, as `serve` does: from then on it belongs to the service's thread.
static void start(void)
{
    char why[256];
    if (harness.db == NULL) {
        assert_int_equal(tern_db_open(harness.path, 0, &harness.db, why), TERN_OK);
    }
    assert_int_equal(tern_db_hold(harness.db), TERN_OK);
    harness_start(&harness);
}

static void restart(void)
{
    harness_stop(&harness);
    start();
}

static void make_of(uint64_t mib, const char *model)
{
    char options[32];
    snprintf(options, sizeof options, "size=%um", (unsigned)mib);
    assert_int_equal(mount("tern-test", disk, "tmpfs", 0, options), 0);
    setenv("TMPDIR", disk, 1);
    harness_make_model(&harness, model);
    harness.config.federation.round.rounds = ROUNDS;
    memset(holds, 0, sizeof holds);
    memset(accepted, 0, sizeof accepted);
    refused = 0;
    start();
    for (uint64_t client = 1; client <= CLIENTS; client++) {
        assert_int_equal(enroll(&harness, false), client);
    }
}

static void make(uint64_t mib)
{
    make_of(mib, MODEL);
}

static void end(void)
{
    harness_free(&harness);
    assert_int_equal(umount(disk), 0);
}

static const char *other_file(void)
{
    static char path[128];
    snprintf(path, sizeof path, "%s/other", disk);
    return path;
}

// Another program takes all that is free but `left` bytes.
static void fill(uint64_t left)
{
    static const char piece[4096];
    const int fd = open(other_file(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    while (free_bytes() > left && write(fd, piece, sizeof piece) > 0) {
    }
    close(fd);
}

static void make_room(void)
{
    assert_int_equal(unlink(other_file()), 0);
}

// --- Clients, which come again after a 503

// False: 503.
static bool try_update(uint64_t client, const tern_Task *task)
{
    uint8_t *body;
    tern_UpdateReply reply;
    const size_t len =
        encode_update(&harness, task, 0.01F * (float)client + (float)task->round, 10, &body);
    struct answer answer = put_update(&harness, client, task->round, 1, body, len);
    free(body);
    const int status = answer.status;
    if (status == 200) {
        assert_int_equal(tern_wire_decode_update_reply(answer.body->data, answer.body->len, &reply),
                         TERN_OK);
        assert_true(reply.status == tern_UpdateStatus_UPDATE_ACCEPTED ||
                    reply.status == tern_UpdateStatus_UPDATE_DUPLICATE);
        accepted[client][task->round] = 1;
    } else {
        assert_int_equal(status, 503);
    }
    answer_free(&answer);
    return status == 200;
}

// False: 503. *task: what it is asked for, if that is anything.
static bool try_checkin(uint64_t client, bool *has_task, tern_Task *task)
{
    tern_CheckinRequest request = tern_CheckinRequest_init_zero;
    static tern_CheckinReply reply;
    if (holds[client]) {
        request.replica.size = TERN_WIRE_REPLICA_BYTES;
        memcpy(request.replica.bytes, replicas[client], TERN_WIRE_REPLICA_BYTES);
    }
    struct answer answer = put_checkin(&harness, client, &request);
    const int status = answer.status;
    if (status == 200) {
        assert_int_equal(tern_wire_decode_checkin_reply(answer.body->data, answer.body->len, &reply,
                                                        &(struct tern_span){0}),
                         TERN_OK);
        *has_task = reply.has_task;
        *task = reply.task;
    } else {
        assert_int_equal(status, 503);
    }
    answer_free(&answer);
    return status == 200;
}

// One request of a client, for its task or with its update. False: 503.
static bool step(uint64_t client)
{
    tern_Task task;
    bool has_task = false;
    bool stored = try_checkin(client, &has_task, &task);
    if (stored && has_task) {
        memcpy(replicas[client], task.base.bytes, TERN_WIRE_REPLICA_BYTES);
        holds[client] = true;
        stored = try_update(client, &task);
    }
    test_advance(1100);
    refused += !stored;
    return stored;
}

static uint32_t newest(void)
{
    struct tern_service_facts facts;
    tern_service_facts(harness.service, &facts);
    return facts.federation.version;
}

// Until so many versions more are made, or clients were refused so often.
static void work(uint32_t rounds, uint32_t refusals)
{
    const uint32_t until = newest() + rounds;
    const uint32_t before = refused;
    for (uint32_t i = 0; i < 40 * rounds && newest() < until && refused - before < refusals; i++) {
        for (uint64_t client = 1; client <= CLIENTS; client++) {
            (void)step(client);
        }
    }
}

static void expect_progress(uint32_t rounds)
{
    const uint32_t before = newest();
    work(rounds, UINT32_MAX);
    assert_true(newest() >= before + rounds);
}

// --- What is stored in the end

static void expect_all_stored(void)
{
    struct tern_replay_report report;
    struct tern_db_update row;
    char why[256] = "";
    harness_stop(&harness);
    assert_int_equal(tern_db_open(harness.path, 0, &harness.db, why), TERN_OK);
    assert_int_equal(tern_db_check(harness.db), TERN_OK);
    assert_int_equal(tern_replay(harness.db, NULL, NULL, &report, why), TERN_OK);
    for (uint64_t client = 1; client <= CLIENTS; client++) {
        for (uint32_t round = 1; round <= ROUNDS; round++) {
            const enum tern_result found = tern_db_update_find(harness.db, round, client, &row);
            assert_true(found == TERN_OK || accepted[client][round] == 0);
        }
    }
}

// --- Tests

static const uint64_t sizes[] = {8, 32, 16};
#define SIZES (getenv("TERN_LONG_TESTS") != NULL ? 3U : 2U)

CASE(test_the_log_fills_no_disk)
{
    for (size_t i = 0; i < SIZES; i++) {
        uint64_t largest = 0;
        make(sizes[i]);
        for (uint32_t round = 0; round < ROUNDS; round += 10) {
            work(10, UINT32_MAX);
            largest = size_of("-wal") > largest ? size_of("-wal") : largest;
        }
        printf("%u MiB: %u rounds, %u refused, log %.2f MiB at most, database %.2f MiB\n",
               (unsigned)sizes[i], newest(), refused, (double)largest / MIB,
               (double)size_of("") / MIB);
        assert_int_equal(newest(), ROUNDS);
        assert_int_equal(refused, 0);
        assert_true(largest <= sizes[i] * MIB / 4);
        expect_all_stored();
        end();
    }
}

// Another program takes what is free again and again. Rounds go on while they can, and again once there is room; now and
// then the service is started anew while there is none.
CASE(test_beside_another_writer)
{
    uint32_t of_all = 0; // refused on any disk: the log of a large one may be written back in time
    for (size_t i = 0; i < SIZES; i++) {
        uint32_t restarts = 0;
        uint32_t fills = 0;
        make(sizes[i]);
        while (newest() < ROUNDS) {
            const uint32_t before = refused;
            expect_progress(newest() + 40 < ROUNDS ? 40 : ROUNDS - newest());
            for (uint32_t round = 0; round < 20 && refused - before < 2; round++) {
                fill(newest() % 3 * 20000);
                work(1, 2);
            }
            if (fills++ % 3 == 0) {
                restart();
                restarts++;
                work(5, 2);
            }
            make_room();
        }
        printf("%u MiB: %u rounds, %u refused, %u restarts on a full disk\n", (unsigned)sizes[i],
               newest(), refused, restarts);
        assert_true(restarts > 0);
        of_all += refused;
        expect_all_stored();
        end();
    }
    assert_true(of_all > 0);
}

// A long-running reader keeps the log from being written back until it fills the disk: once it has ended, the service
// goes on, although nobody has made room.
CASE(test_a_log_that_filled_the_disk)
{
    for (size_t i = 0; i < SIZES; i++) {
        struct tern_db_round row;
        make(sizes[i]);
        expect_progress(20);
        fill(2 * MIB);
        struct tern_db *reader = harness_look(&harness);
        assert_int_equal(tern_db_begin_reading(reader), TERN_OK);
        assert_int_equal(tern_db_round_last(reader, &row), TERN_OK);
        work(ROUNDS - 40, 5);
        const uint64_t log = size_of("-wal");
        assert_true(newest() < ROUNDS - 40 && free_bytes() < MIB / 4 && log > MIB);
        tern_db_close(reader);
        expect_progress(20);
        assert_true(size_of("-wal") < log);
        restart();
        expect_progress(20);
        make_room();
        expect_all_stored();
        end();
    }
}

// prune and compact need free bytes themselves.
CASE(test_prune_and_compact_on_a_full_disk)
{
    for (size_t i = 0; i < SIZES; i++) {
        uint64_t before;
        uint64_t after;
        bool more = true;
        char why[256];
        make(sizes[i]);
        expect_progress(200);
        harness_stop(
            &harness); // which may give up the reserve at any time, for the other program to take
        fill(0);
        struct tern_db *db = NULL;
        assert_int_equal(tern_db_open(harness.path, 0, &db, why), TERN_OK);
        assert_int_equal(tern_db_bytes(db, &before), TERN_OK);
        (void)tern_db_make_room(db);
        assert_int_equal(tern_db_begin(db), TERN_OK);
        assert_int_equal(tern_db_conclude(db, tern_db_prune(db, 180)), TERN_OK);
        while (more) {
            assert_int_equal(tern_db_begin(db), TERN_OK);
            assert_int_equal(
                tern_db_conclude(db, tern_db_prune_some(db, 64 << 10, UINT32_MAX, &more)), TERN_OK);
        }
        for (more = true; more;) {
            assert_int_equal(tern_db_begin(db), TERN_OK);
            assert_int_equal(tern_db_conclude(db, tern_db_shrink_some(db, 64 << 10, &more)),
                             TERN_OK);
        }
        assert_int_equal(tern_db_bytes(db, &after), TERN_OK);
        tern_db_close(db);
        start();
        printf("%u MiB: %.2f MiB, compact %.2f\n", (unsigned)sizes[i], (double)before / MIB,
               (double)after / MIB);
        assert_true(after < before - MIB / 2);
        expect_progress(20); // in what was given back
        make_room();
        end();
    }
}

// Updates that are kept for replays give way before the disk is full.
CASE(test_history_gives_way)
{
    struct tern_db_round row;
    uint32_t pruned = 0;
    make(8);
    harness_stop(&harness);
    harness.config.federation.limits.history = 256 * MIB;
    start();
    fill(5 * MIB / 2);
    work(ROUNDS, UINT32_MAX);
    printf("8 MiB: database %.2f MiB, %.2f MiB free\n", (double)size_of("") / MIB,
           (double)free_bytes() / MIB);
    assert_int_equal(newest(), ROUNDS);
    assert_int_equal(refused, 0);
    struct tern_db *db = harness_look(&harness);
    assert_int_equal(tern_db_prune_goal(db, 0, &pruned), TERN_OK);
    assert_int_equal(tern_db_round_last(db, &row), TERN_OK);
    tern_db_close(db);
    assert_true(pruned > ROUNDS / 4 && pruned < ROUNDS - 16);
    end();
}

// With a larger model, the downloads of 1,000 versions and the updates since a checkpoint would fill the disk. A database
// whose downloads and log fill the disk recovers without an operator.
CASE(test_downloads_give_way)
{
    make_of(8, "softmax:1000-10");
    harness_stop(&harness);
    harness.config.federation.limits.history = 256 * MIB;
    harness.config.federation.downloads.keep_versions = 1000;
    start();
    work(300, 5);
    printf("8 MiB, 10,010 values: %u rounds, %u refused, database %.2f MiB, %.2f MiB free\n",
           newest(), refused, (double)size_of("") / MIB, (double)free_bytes() / MIB);
    assert_int_equal(newest(), 300);
    assert_int_equal(refused, 0);
    restart();
    expect_progress(20);
    end();
}

int main(void)
{
    const int spaces = geteuid() == 0 ? CLONE_NEWNS : CLONE_NEWUSER | CLONE_NEWNS;
    if (mkdtemp(disk) == NULL || unshare(spaces) != 0 ||
        mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0) {
        rmdir(disk);
        printf("skipped: no mount namespace can be made here: %s\n", strerror(errno));
        return 77;
    }
    const int failed = test_cases_run(&cases_of_this_file, __FILE__);
    rmdir(disk);
    return failed;
}
