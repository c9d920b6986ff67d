// While a round is merged: who is answered meanwhile, who waits, and what is left of it when the program
// ends or the store fails in the middle.
#include "harness.h"

#include "merge/replay.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "one_harness.h"
#include "store/run_sql.h"
#include "tests/asserts.h"

// A mean that takes as long as the test likes.
struct gate {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool shut;
    bool reached; // a merge waits at it
};

static struct gate gate = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};
static struct tern_strategy slow;

static void pass(struct tern_strategy_sums *sums)
{
    (void)sums;
    pthread_mutex_lock(&gate.lock);
    gate.reached = true;
    pthread_cond_broadcast(&gate.changed);
    while (gate.shut) {
        pthread_cond_wait(&gate.changed, &gate.lock);
    }
    pthread_mutex_unlock(&gate.lock);
}

static void shut(void)
{
    pthread_mutex_lock(&gate.lock);
    gate.shut = true;
    gate.reached = false;
    pthread_mutex_unlock(&gate.lock);
}

static void open_gate(void)
{
    pthread_mutex_lock(&gate.lock);
    gate.shut = false;
    pthread_cond_broadcast(&gate.changed);
    pthread_mutex_unlock(&gate.lock);
}

static void wait_for_merge(void)
{
    pthread_mutex_lock(&gate.lock);
    while (!gate.reached) {
        pthread_cond_wait(&gate.changed, &gate.lock);
    }
    pthread_mutex_unlock(&gate.lock);
}

// --- A round of three, of which two updates are wanted

struct update {
    uint8_t *body;
    size_t len;
};

static void start(void)
{
    slow = *tern_strategy_find("fedavg");
    slow.step = pass;
    harness.config.federation.strategy = &slow;
    harness.config.federation.round.over_selection = 0.5;
    harness.config.federation.min_clients = 3;
    harness_start_with(&harness, 3);
}

static struct update train(uint64_t client, float value)
{
    struct update update;
    tern_CheckinReply next = checkin(&harness, client, NULL);
    assert_true(next.has_task);
    update.len = encode_update(&harness, &next.task, value, 10, &update.body);
    return update;
}

static struct tern_http_exchange *begin_update(uint64_t client, const struct update *update)
{
    char path[TERN_PATH_MAX];
    tern_path_update(1, 1, path);
    return call_begin(&harness, "PUT", path, harness.tokens[client], update->body, update->len);
}

// Sends the two that the round wants, and returns once it is being merged; the second's answer is due.
static struct tern_http_exchange *complete(const struct update updates[3])
{
    answer_expect(put_update(&harness, 1, 1, 1, updates[0].body, updates[0].len), 200);
    struct tern_http_exchange *last = begin_update(2, &updates[1]);
    wait_for_merge();
    return last;
}

static struct tern_http_exchange *begin_merge(struct update updates[3])
{
    start();
    for (uint64_t i = 0; i < 3; i++) {
        updates[i] = train(i + 1, (float)i + 1.0F);
    }
    shut();
    return complete(updates);
}

static void free_updates(struct update updates[3])
{
    for (int i = 0; i < 3; i++) {
        free(updates[i].body);
    }
}

static tern_UpdateReply end_update(struct tern_http_exchange *exchange)
{
    tern_UpdateReply reply;
    struct answer answer = call_end(exchange);
    assert_int_equal(answer.status, 200);
    assert_int_equal(tern_wire_decode_update_reply(answer.body->data, answer.body->len, &reply),
                     TERN_OK);
    answer_free(&answer);
    return reply;
}

static void expect_round(enum tern_db_round_state expected, uint32_t versions)
{
    char why[256];
    struct tern_db *reader;
    struct tern_db_round round;
    struct tern_db_version version;
    assert_int_equal(tern_db_open(harness.path, 0, &reader, why), TERN_OK);
    assert_int_equal(tern_db_round_get(reader, 1, &round), TERN_OK);
    assert_int_equal(round.state, expected);
    assert_int_equal(tern_db_version_get(reader, versions, &version), TERN_OK);
    assert_int_equal(tern_db_version_get(reader, versions + 1, &version), TERN_ERR_NOT_FOUND);
    tern_db_close(reader);
}

static bool is_merging(void)
{
    struct tern_service_facts facts;
    tern_service_facts(harness.service, &facts);
    return facts.federation.merging;
}

// --- Others meanwhile

static void test_others_are_answered(void **state)
{
    (void)state;
    static const uint8_t nowhere[TERN_SHA256_SIZE];
    struct update updates[3];
    char path[TERN_PATH_MAX];
    struct tern_http_exchange *last = begin_merge(updates);
    expect_round(TERN_ROUND_OPEN, 0);
    assert_int_equal(enroll(&harness, false), 4); // by a batch that began after the merge
    assert_true(is_merging());
    tern_path_download(nowhere, path);
    answer_expect(call(&harness, "GET", path, harness.tokens[1], NULL, 0), 404);
    assert_false(call_is_done(last));
    open_gate();
    assert_int_equal(end_update(last).status, tern_UpdateStatus_UPDATE_ACCEPTED);
    expect_round(TERN_ROUND_COMMITTED, 1);
    assert_false(is_merging());
    free_updates(updates);
}

static void test_check_ins_wait_for_a_second(void **state)
{
    (void)state;
    struct update updates[3];
    uint8_t body[TERN_WIRE_MESSAGE_MAX];
    const size_t len = encode_checkin(NULL, 0, body);
    struct tern_http_exchange *last = begin_merge(updates);
    struct tern_http_exchange *early =
        call_begin(&harness, "POST", TERN_PATH_CHECKIN, harness.tokens[1], body, len);
    assert_int_equal(enroll(&harness, false), 4); // after which it was looked at
    assert_false(call_is_done(early));
    test_advance(1000);
    assert_int_equal(enroll(&harness, false), 5);
    tern_CheckinReply reply;
    struct tern_span downloads;
    struct answer answer = call_end(early);
    assert_int_equal(answer.status, 200);
    assert_int_equal(
        tern_wire_decode_checkin_reply(answer.body->data, answer.body->len, &reply, &downloads),
        TERN_OK);
    answer_free(&answer);
    assert_false(reply.has_task);
    assert_int_equal(reply.come_back_ms, harness.config.federation.round.come_back_min_ms);

    struct tern_http_exchange *late =
        call_begin(&harness, "POST", TERN_PATH_CHECKIN, harness.tokens[1], body, len);
    assert_int_equal(enroll(&harness, false), 6);
    assert_false(call_is_done(late));
    open_gate();
    answer_expect(call_end(late), 200);
    expect_round(TERN_ROUND_COMMITTED, 1);
    end_update(last);
    free_updates(updates);
}

// One that the round did not wait for: it is late once the round is merged, as it would have been after.
static void test_an_update_waits(void **state)
{
    (void)state;
    struct update updates[3];
    struct tern_http_exchange *last = begin_merge(updates);
    struct tern_http_exchange *other = begin_update(3, &updates[2]);
    struct tern_http_exchange *again = begin_update(1, &updates[0]);
    assert_int_equal(enroll(&harness, false), 4);
    assert_false(call_is_done(other));
    open_gate();
    assert_int_equal(end_update(last).status, tern_UpdateStatus_UPDATE_ACCEPTED);
    answer_expect(call_end(other), 410);
    assert_int_equal(end_update(again).status, tern_UpdateStatus_UPDATE_DUPLICATE);
    free_updates(updates);
}

// --- The end in the middle

static void model_of_version(uint8_t sha256[TERN_SHA256_SIZE])
{
    struct tern_db *reader;
    struct tern_db_version version;
    char why[256];
    assert_int_equal(tern_db_open(harness.path, 0, &reader, why), TERN_OK);
    assert_int_equal(tern_db_version_get(reader, 1, &version), TERN_OK);
    memcpy(sha256, version.model_sha256, TERN_SHA256_SIZE);
    tern_db_close(reader);
}

// What is on the disk while a round is merged is all that a kill leaves. Another service makes the same
// version of it.
static void test_a_kill(void **state)
{
    (void)state;
    struct update updates[3];
    char copy[256];
    char why[256];
    uint8_t first[TERN_SHA256_SIZE];
    uint8_t second[TERN_SHA256_SIZE];
    struct tern_replay_report report;
    struct tern_db *reader;
    struct tern_http_exchange *last = begin_merge(updates);
    snprintf(copy, sizeof copy, "%s.killed", harness.path);
    assert_int_equal(tern_db_open(harness.path, 0, &reader, why), TERN_OK);
    assert_int_equal(tern_db_backup(reader, copy, why), TERN_OK);
    tern_db_close(reader);
    open_gate();
    end_update(last);
    harness_stop(&harness);
    model_of_version(first);

    assert_int_equal(rename(copy, harness.path), 0);
    harness_start(&harness);
    assert_int_equal(end_update(begin_update(2, &updates[1])).status,
                     tern_UpdateStatus_UPDATE_DUPLICATE);
    harness_stop(&harness);
    model_of_version(second);
    assert_memory_equal(first, second, TERN_SHA256_SIZE);
    assert_int_equal(tern_db_open(harness.path, 0, &harness.db, why), TERN_OK);
    assert_int_equal(tern_replay(harness.db, NULL, NULL, &report, why), TERN_OK);
    assert_int_equal(report.updates, 2);
    free_updates(updates);
}

static void *open_meanwhile(void *arg)
{
    (void)arg;
    open_gate();
    return NULL;
}

static void test_a_stop(void **state)
{
    (void)state;
    struct update updates[3];
    pthread_t opener;
    struct tern_http_exchange *last = begin_merge(updates);
    struct tern_http_exchange *other = begin_update(3, &updates[2]);
    assert_int_equal(pthread_create(&opener, NULL, open_meanwhile, NULL), 0);
    harness_stop(&harness);
    pthread_join(opener, NULL);
    assert_int_equal(end_update(last).status, tern_UpdateStatus_UPDATE_ACCEPTED);
    answer_expect(call_end(other), 410);
    expect_round(TERN_ROUND_COMMITTED, 1);
    free_updates(updates);
}

// All of memory comes from the store again then, and with it the round, whose merge begins anew. The
// update that completed it was stored by an earlier transaction, and is acknowledged.
static void test_a_batch_that_fails(void **state)
{
    (void)state;
    struct update updates[3];
    uint8_t body[64];
    size_t len;
    tern_EnrollRequest request = tern_EnrollRequest_init_zero;
    struct tern_http_exchange *last = begin_merge(updates);
    refuse_writes(harness.path, "BEFORE INSERT ON clients", "");
    strcpy(request.join_code, JOIN_CODE);
    assert_int_equal(tern_wire_encode_enroll_request(&request, body, sizeof body, &len), TERN_OK);
    struct tern_http_exchange *refused =
        call_begin(&harness, "POST", TERN_PATH_ENROLL, NULL, body, len);
    open_gate();
    struct answer answer = call_end(refused);
    assert_true(answer.status == 503);
    answer_free(&answer);
    assert_int_equal(end_update(last).status, tern_UpdateStatus_UPDATE_ACCEPTED);
    take_writes(harness.path);
    harness_await_store(&harness);
    assert_int_equal(end_update(begin_update(2, &updates[1])).status,
                     tern_UpdateStatus_UPDATE_DUPLICATE);
    expect_round(TERN_ROUND_COMMITTED, 1);
    free_updates(updates);
}

// That a round closes is stored, and its version is not, again and again: nobody is told that the store
// works before it has stored one.
static void test_a_version_that_cannot_be_stored(void **state)
{
    (void)state;
    struct update updates[3];
    char why[256];
    struct tern_http_exchange *last = begin_merge(updates);
    refuse_writes(harness.path, "BEFORE INSERT ON versions", "");
    open_gate();
    assert_int_equal(end_update(last).status, tern_UpdateStatus_UPDATE_ACCEPTED);
    struct tern_service_facts facts = {0};
    while (facts.batches_failed < 4) {
        assert_false(tern_service_can_store(harness.service, why));
        tern_service_facts(harness.service, &facts);
    }
    take_writes(harness.path);
    harness_await_store(&harness);
    assert_int_equal(end_update(begin_update(2, &updates[1])).status,
                     tern_UpdateStatus_UPDATE_DUPLICATE);
    assert_true(tern_service_can_store(harness.service, why));
    expect_round(TERN_ROUND_COMMITTED, 1);
    free_updates(updates);
}

// A test that fails leaves it shut, and what stops waits for the merge.
static int open_and_teardown(void **state)
{
    open_gate();
    return teardown(state);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, open_and_teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_others_are_answered),
        TEST(test_check_ins_wait_for_a_second),
        TEST(test_an_update_waits),
        TEST(test_a_kill),
        TEST(test_a_stop),
        TEST(test_a_batch_that_fails),
        TEST(test_a_version_that_cannot_be_stored),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
