// Acknowledged is durable, and what is not durable is not acknowledged: group commit, failing
// transactions, concurrent clients.
#include "harness.h"

#include "merge/replay.h"
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "one_harness.h"
#include "store/run_sql.h"
#include "tests/asserts.h"
#include "watched_log.h"

static bool is_stored(uint32_t round, uint64_t client)
{
    struct tern_db *other;
    struct tern_db_update found;
    char why[256];
    assert_int_equal(tern_db_open(harness.path, 0, &other, why), TERN_OK);
    enum tern_result result = tern_db_update_find(other, round, client, &found);
    tern_db_close(other);
    return result == TERN_OK;
}

static bool was_stored;

static void look_whether_stored(void)
{
    was_stored = is_stored(1, 1);
}

// Another connection to the file sees the update before it is acknowledged.
static void test_acknowledged_after_the_commit(void **state)
{
    (void)state;
    uint8_t *body;
    harness_start_with(&harness, 2);
    tern_CheckinReply next = checkin(&harness, 1, NULL);
    size_t len = encode_update(&harness, &next.task, 1.0F, 10, &body);

    // With another writer in the file nothing can be committed, so nothing is acknowledged.
    struct tern_db *other;
    char why[256];
    assert_int_equal(tern_db_open(harness.path, 0, &other, why), TERN_OK);
    assert_int_equal(tern_db_begin(other), TERN_OK);
    harness.on_reply = look_whether_stored;
    struct tern_http_exchange *exchange =
        call_begin(&harness, "PUT", TERN_PATH_UPDATES "1/1", harness.tokens[1], body, len);
    harness.on_reply = NULL;
    assert_false(call_is_done(exchange));
    assert_false(is_stored(1, 1));
    tern_db_rollback(other);
    tern_db_close(other);
    answer_expect(call_end(exchange), 200);
    assert_true(was_stored);
    free(body);
}

static int status_of(const char *path)
{
    struct answer answer = call(&harness, "GET", path, harness.tokens[1], NULL, 0);
    answer_free(&answer);
    return answer.status;
}

static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;

static atomic_bool is_at_gate;

static void wait_at_gate(void)
{
    is_at_gate = true;
    pthread_mutex_lock(&gate);
    pthread_mutex_unlock(&gate);
}

// A service thread that hangs is told by whoever looks, without waiting for it.
static void test_a_thread_that_hangs_is_noticed(void **state)
{
    (void)state;
    char why[256] = "";
    uint8_t body[256];
    harness_start(&harness);
    enroll(&harness, false);
    const size_t len = encode_checkin(NULL, 0, body);
    pthread_mutex_lock(&gate);
    harness.on_reply = wait_at_gate;
    struct tern_http_exchange *exchange =
        call_begin(&harness, "POST", TERN_PATH_CHECKIN, harness.tokens[1], body, len);
    harness.on_reply = NULL;
    while (!is_at_gate) {
        sched_yield();
    }
    test_advance(20000);
    const bool early = tern_service_can_store(harness.service, why);
    test_advance(20000);
    const bool hangs = !tern_service_can_store(harness.service, why);
    const int ready = status_of("/readyz");
    pthread_mutex_unlock(&gate);
    answer_expect(call_end(exchange), 200);
    assert_true(early);
    assert_true(hangs);
    assert_non_null(strstr(why, "the present transaction has taken "));
    assert_int_equal(ready, 503);
    (void)checkin(&harness, 1, NULL); // another turn
    assert_int_equal(status_of("/readyz"), 200);
}

// A writer that stays longer than the service waits: 503 for all, and memory as if nothing had
// been.
static void test_batch_that_fails_is_taken_back(void **state)
{
    (void)state;
    uint8_t *body;
    struct tern_db *other;
    char why[256];
    harness_start_with(&harness, 2);
    tern_CheckinReply next = checkin(&harness, 1, NULL);
    size_t len = encode_update(&harness, &next.task, 1.0F, 10, &body);
    assert_int_equal(tern_db_open(harness.path, 0, &other, why), TERN_OK);
    assert_int_equal(tern_db_begin(other), TERN_OK);
    struct tern_http_exchange *exchange =
        call_begin(&harness, "PUT", TERN_PATH_UPDATES "1/1", harness.tokens[1], body, len);
    struct answer answer = call_end(exchange);
    assert_int_equal(answer.status, 503);
    assert_true(answer.retry_after_s > 0);
    answer_free(&answer);
    tern_db_rollback(other);
    tern_db_close(other);
    assert_false(is_stored(1, 1));
    harness_await_store(&harness);
    // The client sends the same bytes again, and they count once.
    answer = put_update(&harness, 1, 1, 1, body, len);
    assert_int_equal(answer.status, 200);
    tern_UpdateReply reply;
    assert_int_equal(tern_wire_decode_update_reply(answer.body->data, answer.body->len, &reply),
                     TERN_OK);
    assert_int_equal(reply.status, tern_UpdateStatus_UPDATE_ACCEPTED);
    answer_free(&answer);
    free(body);
}

// As a full disk does: no file grows while it is on.
static void fill_disk(bool full)
{
    static struct rlimit before;
    struct rlimit now;
    if (full) {
        assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    }
    now = before;
    now.rlim_cur = full ? 0 : before.rlim_cur;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &now), 0);
}

// Requests that write nothing do not make it ready again.
static void test_not_ready_until_something_is_written(void **state)
{
    (void)state;
    char why[256];
    harness_start(&harness);
    enroll(&harness, false);
    enroll(&harness, false); // so that the next check-in has a task, which is stored
    assert_true(tern_service_can_store(harness.service, why));
    signal(SIGXFSZ, SIG_IGN);
    fill_disk(true);
    struct answer answer = put_checkin(&harness, 1, &(tern_CheckinRequest){0});
    const int question = status_of(TERN_PATH_UPDATES "1/1");
    const int ready = status_of("/readyz");
    const int alive = status_of("/healthz");
    const bool stores = tern_service_can_store(harness.service, why);
    fill_disk(false);
    answer_expect(answer, 503);
    assert_int_equal(question, 503);
    assert_int_equal(ready, 503);
    assert_int_equal(alive, 200);
    assert_false(stores);
    assert_non_null(strstr(why, "nothing can be stored: io: "));
    harness_await_store(&harness);
    assert_int_equal(status_of("/readyz"), 200);
}

// A store that fails in the middle of a batch, when the round is already merged in memory: a
// trigger underneath refuses new versions.
static void refuse_versions(bool refuse)
{
    if (refuse) {
        refuse_writes(harness.path, "BEFORE INSERT ON versions", "");
    } else {
        take_writes(harness.path);
    }
}

// Whether its update is counted: the answer comes once the round is merged, or could not be.
static tern_UpdateReply send_update(uint64_t client, const uint8_t *body, size_t len)
{
    tern_UpdateReply reply;
    struct answer answer = put_update(&harness, client, 1, 1, body, len);
    assert_int_equal(answer.status, 200);
    assert_int_equal(tern_wire_decode_update_reply(answer.body->data, answer.body->len, &reply),
                     TERN_OK);
    answer_free(&answer);
    return reply;
}

// The update that completes a round is stored before the round is merged. Where the version cannot be
// stored, the round stays open as it was, and is merged again.
static void test_commit_of_a_round_that_fails(void **state)
{
    (void)state;
    uint8_t *body;
    struct tern_replay_report report;
    struct tern_db_version version;
    struct tern_db_round round;
    char why[256];
    harness_start_with(&harness, 2);
    do_round(&harness, 1, NULL, 1.0F);
    tern_CheckinReply next = checkin(&harness, 2, NULL);
    size_t len = encode_update(&harness, &next.task, 3.0F, 10, &body);
    refuse_versions(true);
    tern_UpdateReply reply = send_update(2, body, len);
    assert_int_equal(reply.status, tern_UpdateStatus_UPDATE_ACCEPTED);
    assert_false(reply.has_next);
    struct tern_db *reader;
    assert_int_equal(tern_db_open(harness.path, 0, &reader, why), TERN_OK);
    assert_int_equal(tern_db_version_get(reader, 1, &version), TERN_ERR_NOT_FOUND);
    assert_int_equal(tern_db_round_get(reader, 1, &round), TERN_OK);
    assert_int_equal(round.state, TERN_ROUND_OPEN);
    tern_db_close(reader);
    refuse_versions(false);
    harness_stop(&harness); // which ends what is being merged
    harness_start(&harness);
    reply = send_update(2, body, len);
    assert_int_equal(reply.status, tern_UpdateStatus_UPDATE_DUPLICATE);
    free(body);
    harness_stop(&harness);
    assert_int_equal(tern_db_open(harness.path, 0, &harness.db, why), TERN_OK);
    assert_int_equal(tern_replay(harness.db, NULL, NULL, &report, why), TERN_OK);
    assert_int_equal(report.rounds, 1);
    assert_int_equal(report.updates, 2);
}

// The transaction that commits a round also opens the next one. Where that fails, the log reports neither.
static void test_a_round_is_logged_once_it_is_committed(void **state)
{
    (void)state;
    uint8_t *body;
    harness_start(&harness);
    watch_log();
    tern_log_set_level(TERN_LOG_INFO);
    enroll(&harness, false);
    enroll(&harness, false);
    do_round(&harness, 1, NULL, 1.0F);
    tern_CheckinReply next = checkin(&harness, 2, NULL);
    size_t len = encode_update(&harness, &next.task, 3.0F, 10, &body);
    refuse_writes(harness.path, "BEFORE INSERT ON rounds", "WHEN (NEW.round = 2)");
    (void)send_update(2, body, len);
    assert_true(lines_with(" event=batch-failed ") > 0);
    assert_int_equal(lines_with(" event=round "), 0);
    take_writes(harness.path);
    harness_await_store(&harness);
    assert_int_equal(lines_of("round", "round=1 "), 1);
    assert_int_equal(lines_of("round-opened", "round=2 "), 1);
    leave_log();
    free(body);
}

static int checkin_status(uint64_t client, uint64_t budget_left)
{
    tern_CheckinRequest request = tern_CheckinRequest_init_zero;
    request.budgeted = true;
    request.budget_left = budget_left;
    struct answer answer = put_checkin(&harness, client, &request);
    int status = answer.status;
    answer_free(&answer);
    return status;
}

// Something about one client that the store will never take costs a batch, not the federation.
static void test_a_row_that_cannot_be_stored_is_given_up(void **state)
{
    (void)state;
    harness_start_with(&harness, 2);
    assert_int_equal(checkin_status(1, 6), 200);
    assert_int_equal(checkin_status(2, 6), 200);
    refuse_writes(harness.path, "BEFORE UPDATE ON clients", "WHEN (NEW.budget_left = 7)");
    checkin_status(1, 7); // its batch fails, or the next
    test_advance(2000);
    checkin_status(2, 6);
    harness_await_store(&harness);
    for (uint64_t i = 0; i < 5; i++) {
        assert_int_equal(checkin_status(2, 6), 200);
        assert_int_equal(checkin_status(1, 6), 200);
        test_advance(2000);
    }
}

// The same of the other side: what no store takes is refused with its name.
static void test_a_budget_beyond_the_stores_numbers_is_refused(void **state)
{
    (void)state;
    // budget_left = 2^64 - 1, budgeted; the encoder would refuse it.
    static const uint8_t body[] = {0x40, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
                                   0xff, 0xff, 0xff, 0x01, 0x48, 0x01};
    harness_start_with(&harness, 2);
    for (int i = 0; i < 3; i++) {
        struct answer answer =
            call(&harness, "POST", TERN_PATH_CHECKIN, harness.tokens[1], body, sizeof body);
        assert_int_equal(answer.status, 422);
        assert_int_equal(answer_error_name(&answer), TERN_ERR_ARGUMENT);
        answer_free(&answer);
        test_advance(2000);
        assert_int_equal(checkin_status(2, INT64_MAX), 200);
    }
}

// --- Many clients at once

#define THREADS 8
#define ROUNDS 12

static void *work(void *arg)
{
    uint64_t client = (uint64_t)(uintptr_t)arg;
    unsigned done = 0;
    while (done < ROUNDS) {
        tern_CheckinReply next = checkin(&harness, client, NULL);
        if (next.finished) {
            break;
        }
        if (!next.has_task) {
            usleep(1000);
            continue;
        }
        uint8_t *body;
        size_t len = encode_update(&harness, &next.task, 0.01F * (float)client, 10, &body);
        answer_expect(put_update(&harness, client, next.task.round, done, body, len), 200);
        free(body);
        done++;
    }
    return NULL;
}

static void test_many_clients_at_once(void **state)
{
    (void)state;
    pthread_t threads[THREADS];
    struct tern_replay_report report;
    char why[256];
    harness.config.federation.round.cohort = THREADS;
    harness.config.federation.min_clients = THREADS;
    harness.config.federation.round.rounds = ROUNDS;
    harness_start_with(&harness, THREADS);
    for (uintptr_t i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, work, (void *)(i + 1)), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    harness_stop(&harness);
    assert_int_equal(tern_db_open(harness.path, 0, &harness.db, why), TERN_OK);
    assert_int_equal(tern_replay(harness.db, NULL, NULL, &report, why), TERN_OK);
    assert_int_equal(report.rounds, ROUNDS);
    assert_int_equal(report.updates, THREADS * ROUNDS);
}

// The order in which updates arrive does not matter to the bits.
static void run_in_order(const uint64_t order[3], uint8_t sha256[TERN_SHA256_SIZE])
{
    struct tern_db_version version;
    char why[256];
    harness.config.federation.round.cohort = 3;
    harness.config.federation.min_clients = 3;
    harness_start_with(&harness, 3);
    for (int i = 0; i < 3; i++) {
        do_round(&harness, order[i], NULL, 0.1F * (float)(order[i] * order[i]));
    }
    harness_stop(&harness);
    assert_int_equal(tern_db_open(harness.path, 0, &harness.db, why), TERN_OK);
    assert_int_equal(tern_db_version_get(harness.db, 1, &version), TERN_OK);
    memcpy(sha256, version.model_sha256, TERN_SHA256_SIZE);
}

static void test_order_of_arrival_does_not_matter(void **state)
{
    uint8_t a[TERN_SHA256_SIZE];
    uint8_t b[TERN_SHA256_SIZE];
    const uint64_t up[3] = {1, 2, 3};
    const uint64_t mixed[3] = {3, 1, 2};
    run_in_order(up, a);
    teardown(state);
    setup(state);
    run_in_order(mixed, b);
    assert_memory_equal(a, b, TERN_SHA256_SIZE);
}

static void test_metered_bytes_reach_the_store(void **state)
{
    (void)state;
    char why[256];
    struct tern_http_tag tag = {.client = 5, .round = 3, .purpose = TERN_PURPOSE_UPLOAD};
    struct tern_bytes up = {.payload = 1, .http = 2, .tls = 3, .wire = 4};
    struct tern_bytes down = {0};
    harness_start(&harness);
    for (int i = 0; i < 1000; i++) {
        harness.handler.on_metered(harness.handler.ctx, &tag, &up, &down);
        tag.client = i % 2 == 0 ? 6 + (uint64_t)i : 5;
    }
    harness_stop(&harness);
    assert_int_equal(tern_db_open(harness.path, 0, &harness.db, why), TERN_OK);
    struct tern_db_meter row;
    assert_int_equal(tern_db_meter_of(harness.db, 5, 3, &row), TERN_OK);
    assert_int_equal(row.up.wire, 4 * 500);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

// A server's disk is not this process's to fill.
static int run_tests_of_files(void)
{
    const struct CMUnitTest tests[] = {TEST(test_not_ready_until_something_is_written)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_acknowledged_after_the_commit),
        TEST(test_batch_that_fails_is_taken_back),
        TEST(test_a_thread_that_hangs_is_noticed),
        TEST(test_commit_of_a_round_that_fails),
        TEST(test_a_round_is_logged_once_it_is_committed),
        TEST(test_many_clients_at_once),
        TEST(test_a_row_that_cannot_be_stored_is_given_up),
        TEST(test_a_budget_beyond_the_stores_numbers_is_refused),
        TEST(test_order_of_arrival_does_not_matter),
        TEST(test_metered_bytes_reach_the_store),
    };
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    return failed + (test_store_is_postgres() ? 0 : run_tests_of_files());
}
