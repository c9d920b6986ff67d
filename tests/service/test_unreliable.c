// Clients that take a task and never report it, or fail and take it again: rounds stop counting on them, others are
// asked in their place long before the deadline, and one that reports after all is counted on again.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sched.h>

#include "one_harness.h"
#include "rounds/reliability.h"
#include "sanitized.h"
#include "store/run_sql.h"
#include "store/store.h"
#include "tests/cases.h"

#define SECOND UINT64_C(1000)
#define MINUTE (60 * SECOND)
#define HOUR (60 * MINUTE)
#define HONEST 6
#define TAKERS (FEWER_TRIALS ? 20 : 60) // that never report

// --- Devices that live by the clock of the test

struct device {
    uint64_t id;
    bool reports;
    bool fails;            // it cannot train, and comes again, ever later
    bool reports_failures; // with that check-in
    uint64_t tries;        // in a row that failed
    uint64_t trains_ms;    // and sends
    uint32_t says_ms;      // that it trained
    uint64_t looks_ms;     // at the longest after it had no task
    uint64_t next_ms;      // it checks in, or has trained
    bool has_task;
    tern_Task task;
};

static struct device devices[HONEST + TAKERS];
static uint32_t device_count;

static struct device *join(bool reports, uint64_t trains_ms)
{
    struct device *device = &devices[device_count++];
    *device = (struct device){.id = enroll(&harness, false),
                              .reports = reports,
                              .trains_ms = trains_ms,
                              .says_ms = (uint32_t)trains_ms,
                              .looks_ms = reports ? 10 * SECOND : 2 * MINUTE,
                              .next_ms = test_now()};
    return device;
}

static void checkin_refused(const struct device *device)
{
    uint8_t body[TERN_WIRE_MESSAGE_MAX];
    const size_t len = encode_checkin(NULL, 0, body);
    struct answer answer =
        call(&harness, "POST", TERN_PATH_CHECKIN, harness.tokens[device->id], body, len);
    assert_int_equal(answer.status, 503);
    answer_free(&answer);
}

static struct tern_service_facts facts(void)
{
    struct tern_service_facts facts;
    tern_service_facts(harness.service, &facts);
    return facts;
}

// A merge takes time of its own, in which the clock of the test stands still.
static void await_merge(void)
{
    while (facts().federation.merging) {
        sched_yield();
    }
}

static int put(const struct device *device)
{
    uint8_t *body;
    uint8_t timed[8192];
    tern_Update message;
    struct tern_span container;
    size_t len = encode_update(&harness, &device->task, 0.1F, 10, &body);
    assert_int_equal(tern_wire_decode_update(body, len, &message, &container), TERN_OK);
    message.train_ms = device->says_ms;
    assert_int_equal(tern_wire_encode_update(&message, container, timed, sizeof timed, &len),
                     TERN_OK);
    struct answer answer =
        put_update(&harness, device->id, device->task.round, device->task.round, timed, len);
    const int status = answer.status;
    answer_free(&answer);
    free(body);
    await_merge();
    return status;
}

// As a client's retries are by default.
static uint64_t retry_ms(struct device *device)
{
    const uint64_t ms = SECOND << (device->tries < 16 ? device->tries : 16);
    device->tries++;
    return ms < 5 * MINUTE ? ms : 5 * MINUTE;
}

static void check_in(struct device *device)
{
    tern_CheckinRequest request = request_from(NULL);
    if (device->fails && device->reports_failures && device->has_task) {
        request.failed_round = device->task.round;
        request.failure = tern_TrainingFailure_FAILURE_NOT_FINITE;
    }
    const tern_CheckinReply reply = checkin_with(&harness, device->id, &request);
    device->has_task = reply.has_task;
    device->task = reply.task;
    const uint64_t wait =
        reply.come_back_ms < device->looks_ms ? reply.come_back_ms : device->looks_ms;
    device->tries = reply.has_task ? device->tries : 0;
    device->next_ms = test_now() + (!reply.has_task ? wait
                                    : device->fails ? retry_ms(device)
                                                    : device->trains_ms);
}

static void live(struct device *device)
{
    if (test_now() < device->next_ms) {
        return;
    }
    if (device->has_task && device->reports) {
        (void)put(device); // which may be late
    }
    check_in(device);
}

// Returns the rounds that were committed meanwhile.
static uint32_t play(uint64_t ms)
{
    const uint32_t before = facts().federation.version;
    for (const uint64_t end = test_now() + ms; test_now() < end; test_advance(SECOND)) {
        for (uint32_t i = 0; i < device_count; i++) {
            live(&devices[i]);
        }
    }
    return facts().federation.version - before;
}

// --- What is stored

static struct tern_db_client row_of(uint64_t client)
{
    struct tern_db_client row;
    struct tern_db *db = harness_look(&harness);
    assert_int_equal(tern_db_client_get(db, client, &row), TERN_OK);
    tern_db_close(db);
    return row;
}

// As the settings are by default.
static int setup_usual(void **state)
{
    setup(state);
    struct tern_round_policy *round = &harness.config.federation.round;
    round->cohort = 10;
    round->deadline_ms = 10 * MINUTE;
    round->come_back_max_ms = 24 * HOUR;
    harness.config.federation.eligible_within_ms = 25 * HOUR;
    device_count = 0;
    return 0;
}

static void join_honest(void)
{
    for (uint64_t i = 0; i < HONEST; i++) {
        (void)join(true, (20 + i) * SECOND);
    }
}

// --- Tests

static uint32_t rounds_beside(uint32_t takers)
{
    harness_start(&harness);
    for (uint32_t i = 0; i < takers; i++) {
        (void)join(false, 5 * MINUTE);
    }
    join_honest();
    const uint32_t first = play(takers == 0 ? 2 * MINUTE : 80 * MINUTE);
    const uint32_t next = play(20 * MINUTE);
    printf("beside %u that take tasks and do not report: %u rounds, then %u in 20 minutes\n",
           takers, first, next);
    return next;
}

#define TEST(name) CASE_WITH(name, setup_usual, teardown)

TEST(test_rounds_are_as_fast_as_without_them)
{
    const uint32_t war = rounds_beside(TAKERS);
    assert_int_equal(facts().federation.unreliable, TAKERS);
    teardown(state);
    setup_usual(state);
    const uint32_t peace = rounds_beside(0);
    assert_int_equal(facts().federation.unreliable, 0);
    assert_int_equal(facts().federation.counts.tasks_missed, 0);
    assert_true(peace > 20);
    assert_true(10 * war >= 9 * peace);
}

// Rounds of three of five, of whom the one that comes first does not report.
static struct device *start_with_one_taker(void)
{
    harness_start(&harness);
    harness.config.federation.round.cohort = 3;
    harness_restart(&harness);
    for (int i = 0; i < 5; i++) {
        (void)join(true, 5 * SECOND);
    }
    devices[0].reports = false;        // the first to come is a member of the first round
    devices[0].trains_ms = 5 * MINUTE; // or hangs, until it comes again
    return &devices[0];
}

static float unreported(const struct device *device)
{
    return row_of(device->id).unreported;
}

TEST(test_another_is_asked_long_before_the_deadline)
{
    const struct device *taker = start_with_one_taker();
    (void)play(MINUTE + SECOND);
    assert_true(facts().federation.version >= 1);
    assert_true(unreported(taker) > 0.0F);
    assert_int_equal(facts().federation.counts.tasks_missed, 1);
}

static void expect_to_wait_for_slow(uint32_t says_ms)
{
    struct device *slow = start_with_one_taker();
    slow->reports = true;
    slow->trains_ms = 2 * MINUTE;
    slow->says_ms = says_ms;
    (void)play(20 * MINUTE);
    const uint64_t missed = facts().federation.counts.tasks_missed;
    assert_true(missed < 2); // its first task, when its speed was not known
    assert_true(play(30 * MINUTE) > 10);
    assert_int_equal(facts().federation.counts.tasks_missed, missed);
    assert_true(row_of(slow->id).report_ms >= 2 * MINUTE);
}

// A device that is slow and reports has as long as it took before, be it slow to train or to send.
TEST(test_slow_ones_are_waited_for)
{
    expect_to_wait_for_slow(2 * MINUTE);
}

TEST(test_slow_links_are_waited_for)
{
    expect_to_wait_for_slow(100);
}

TEST(test_one_that_reports_after_all_is_counted_on_again)
{
    struct device *taker = start_with_one_taker();
    while (!tern_is_unreliable(unreported(taker))) {
        (void)play(MINUTE);
    }
    assert_int_equal(facts().federation.unreliable, 1);
    assert_true(play(10 * MINUTE) > 30); // nobody waits for it
    const float record = unreported(taker);
    harness_restart(&harness);
    assert_int_equal(facts().federation.unreliable, 1);
    assert_true(unreported(taker) == record);
    taker->reports = true;
    taker->trains_ms = 5 * SECOND;
    (void)play(10 * MINUTE);
    assert_true(unreported(taker) < 0.1F);
    assert_int_equal(facts().federation.unreliable, 0);
}

// With a transaction that is rolled back goes what it would have said of a client.
TEST(test_a_record_is_rolled_back)
{
    const struct device *taker = start_with_one_taker();
    (void)play(20 * SECOND); // all others have reported
    refuse_writes(harness.path, "BEFORE UPDATE OF unreported ON clients",
                  "WHEN (NEW.unreported <> OLD.unreported)");
    test_advance(10 * MINUTE);
    for (int i = 0; i < 20; i++) {
        checkin_refused(&devices[1]);
    }
    assert_int_equal(facts().federation.counts.tasks_missed, 0);
    assert_int_equal(facts().federation.unreliable, 0);
    assert_true(unreported(taker) == 0.0F);
    take_writes(harness.path);
    harness_await_store(&harness);
    (void)play(10 * SECOND);
    assert_int_equal(facts().federation.counts.tasks_missed, 1); // once
    assert_true(unreported(taker) == tern_unreported_after_miss(0.0F));
}

// Everybody is needed to begin, so rounds draw the taker as well, with nobody in its place: two of them end by their
// deadlines, and from then on none waits for it.
static struct device *start_without_spares(uint32_t quorum)
{
    harness.config.federation.round.cohort = 4;
    harness.config.federation.round.quorum = quorum;
    harness.config.federation.min_clients = 4;
    harness_start(&harness);
    for (int i = 0; i < 4; i++) {
        (void)join(true, 5 * SECOND);
    }
    devices[0].reports = false;
    devices[0].trains_ms = 5 * MINUTE;
    return &devices[0];
}

TEST(test_rounds_without_spares_wait_twice)
{
    struct device *taker = start_without_spares(0);
    (void)play(20 * MINUTE + 30 * SECOND);
    assert_in_range(facts().federation.version, 2, 4);
    assert_int_equal(facts().federation.unreliable, 1);
    assert_true(play(10 * MINUTE) > 30);
    assert_true(tern_is_unreliable(unreported(taker)));
    taker->reports = true;
    taker->trains_ms = 3 * SECOND;
    taker->next_ms = test_now();
    taker->has_task = false;
    (void)play(2 * MINUTE);
    assert_int_equal(facts().federation.unreliable, 0);
    const uint64_t late = facts().federation.counts.updates_late;
    assert_true(play(5 * MINUTE) > 10);
    assert_int_equal(facts().federation.counts.updates_late,
                     late); // each of its updates is waited for
}

// A quorum that was set is kept.
TEST(test_rounds_without_spares_keep_their_quorum)
{
    (void)start_without_spares(4);
    assert_int_equal(play(25 * MINUTE), 0);
    assert_int_equal(facts().federation.unreliable, 1);
}

// --- Those that fail again and again

// Two that report and one that cannot train, all of them in each round.
static struct device *start_with_one_that_fails(void)
{
    harness.config.federation.round.cohort = 3;
    harness.config.federation.min_clients = 3;
    harness_start(&harness);
    for (int i = 0; i < 3; i++) {
        (void)join(true, 5 * SECOND);
    }
    harness.config.federation.min_clients = 2;
    harness_restart(&harness);
    devices[0].reports = false;
    devices[0].fails = true;
    return &devices[0];
}

static uint32_t tries_of(const struct device *device, uint32_t round)
{
    struct tern_db_assignment row;
    struct tern_db *db = harness_look(&harness);
    assert_int_equal(tern_db_assignment_get(db, round, device->id, &row), TERN_OK);
    tern_db_close(db);
    return row.tries;
}

TEST(test_one_that_fails_holds_no_round_until_its_deadline)
{
    const struct device *failing = start_with_one_that_fails();
    (void)play(20 * SECOND);
    assert_true(unreported(failing) == tern_unreported_after_miss(0.0F)); // three tries: one task
    assert_int_equal(facts().federation.version, 0);
    (void)play(2 * MINUTE);
    assert_true(facts().federation.version >= 1); // without its update
    assert_int_equal(facts().federation.unreliable, 1);
    assert_int_equal(facts().federation.counts.tasks_missed, 2);
    assert_true(play(10 * MINUTE) > 30);
    assert_true(unreported(failing) < 0.9F); // so that a few reports make up for it
}

// A quorum that was set is waited for, however often one of it fails.
TEST(test_one_that_fails_is_waited_for_where_the_quorum_needs_it)
{
    harness.config.federation.round.quorum = 3;
    struct device *failing = start_with_one_that_fails();
    assert_int_equal(play(30 * MINUTE), 0);
    assert_int_equal(facts().federation.counts.tasks_missed, 2);
    assert_true(tries_of(failing, 1) > 10);
    failing->fails = false;
    failing->reports = true;
    (void)play(5 * MINUTE + 30 * SECOND);
    assert_true(facts().federation.version >= 1);
    assert_true(play(10 * MINUTE) > 10);
    assert_int_equal(facts().federation.unreliable, 0);
}

TEST(test_another_is_asked_in_place_of_one_that_fails)
{
    struct device *failing = start_with_one_taker();
    failing->fails = true;
    (void)play(27 * SECOND); // sooner than any is overdue
    assert_true(facts().federation.version >= 1);
    assert_int_equal(facts().federation.counts.tasks_missed, 1); // for its tries, and not once more
}

// What a failing device reports is believed at once: the round goes on, and it has no task of that any more.
TEST(test_one_that_reports_its_failure_is_dropped)
{
    struct device *failing = start_with_one_that_fails();
    failing->reports_failures = true;
    (void)play(7 * SECOND); // its first try takes one
    assert_int_equal(facts().federation.version, 1);
    assert_int_equal(facts().federation.counts.tasks_failed, 1);
    assert_int_equal(facts().federation.counts.tasks_missed, 1);
    assert_int_equal(row_of(failing->id).failed_round, 1);
    assert_int_equal(row_of(failing->id).failure, tern_TrainingFailure_FAILURE_NOT_FINITE);
    assert_true(play(10 * MINUTE) > 40);
    assert_int_equal(facts().federation.unreliable, 1);
    failing->fails = false;
    failing->reports = true;
    failing->next_ms = test_now();
    failing->has_task = false;
    (void)play(3 * MINUTE);
    assert_int_equal(row_of(failing->id).failed_round, 0); // it has trained since
    assert_int_equal(facts().federation.unreliable, 0);
}

// One report of a failure lowers a quorum that was set by one, and does not give up those that are away.
TEST(test_a_failure_gives_up_nobody_else)
{
    harness.config.federation.round.cohort = 5;
    harness.config.federation.round.quorum = 5;
    harness.config.federation.min_clients = 5;
    harness_start(&harness);
    for (int i = 0; i < 5; i++) {
        (void)join(i > 1, 5 * SECOND);
    }
    devices[0].fails = true;
    devices[0].reports_failures = true;
    assert_int_equal(play(4 * MINUTE), 0); // device 1 has taken its task, and does not report
    devices[1].reports = true;
    devices[1].next_ms = test_now();
    (void)play(MINUTE);
    assert_true(facts().federation.version >= 1); // without the update of device 0
}

TEST(test_one_that_is_needed_may_try_again)
{
    harness.config.federation.round.cohort = 1;
    harness.config.federation.min_clients = 1;
    harness_start(&harness);
    struct device *only = join(false, SECOND);
    only->fails = true;
    only->reports_failures = true;
    (void)play(MINUTE);
    assert_true(facts().federation.counts.tasks_failed > 3);
    assert_int_equal(facts().federation.counts.tasks_missed, 2);
    only->fails = false;
    only->reports = true;
    (void)play(5 * MINUTE);
    assert_true(facts().federation.version >= 1);
}

// A round is not believed that is not open, nor a failure of who has no task.
TEST(test_failures_of_others_rounds_drop_nobody)
{
    struct device *device = start_with_one_that_fails();
    tern_CheckinRequest request = request_from(NULL);
    request.failed_round = 7;
    (void)checkin_with(&harness, device->id, &request);
    assert_int_equal(facts().federation.counts.tasks_failed, 0);
    assert_int_equal(row_of(device->id).failed_round, 0);
}

// An answer may be lost, and power fail.
TEST(test_a_few_tries_are_no_fault)
{
    struct device *device = start_with_one_that_fails();
    (void)play(4 * SECOND);
    assert_int_equal(device->tries, TERN_TRIES_MAX);
    assert_int_equal(tries_of(device, 1), 1); // nothing is written for those that do not count
    device->fails = false;
    device->reports = true;
    (void)play(MINUTE);
    assert_true(facts().federation.version >= 1);
    assert_int_equal(facts().federation.counts.tasks_missed, 0);
    assert_true(unreported(device) == 0.0F);
}

static void try_again(const struct device *device, int times)
{
    for (int i = 0; i < times; i++) {
        assert_true(checkin(&harness, device->id, NULL).has_task);
    }
}

TEST(test_tries_outlive_a_restart_and_go_with_their_transaction)
{
    const float missed = tern_unreported_after_miss(0.0F);
    const struct device *failing = start_with_one_that_fails();
    try_again(failing, TERN_TRIES_MAX);
    run_sql(harness.path, "CREATE TRIGGER full BEFORE UPDATE OF unreported ON clients"
                          " WHEN NEW.unreported <> OLD.unreported"
                          " BEGIN SELECT RAISE(ABORT, 'disk full'); END");
    checkin_refused(failing);
    assert_int_equal(facts().federation.counts.tasks_missed, 0);
    assert_int_equal(tries_of(failing, 1), 1);
    run_sql(harness.path, "DROP TRIGGER full");
    try_again(failing, TERN_TRIES_MAX - 1);
    assert_int_equal(facts().federation.counts.tasks_missed,
                     0); // those that were not stored are forgotten
    try_again(failing, 1);
    assert_int_equal(facts().federation.counts.tasks_missed, 1);
    assert_int_equal(tries_of(failing, 1), TERN_TRIES_MAX + 1);
    assert_true(unreported(failing) == missed);
    harness_restart(&harness);
    try_again(failing, TERN_TRIES_MAX);
    assert_int_equal(tries_of(failing, 1), 2 * TERN_TRIES_MAX + 1);
    assert_true(unreported(failing) == tern_unreported_after_miss(missed));
    assert_int_equal(facts().federation.unreliable, 1);
}
