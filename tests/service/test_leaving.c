// Clients that leave after each round (tern-client once, for cron): the answers to what they send bring no task that
// nobody would train, and rounds do not wait for them.
#include <stdlib.h>
#include <string.h>

#include "one_harness.h"
#include "store/store.h"
#include "tests/cases.h"

static tern_CheckinReply visit(uint64_t client, const uint8_t *replica, bool leaves)
{
    tern_CheckinRequest request = request_from(replica);
    request.abilities = leaves ? TERN_WIRE_LEAVES : 0;
    return checkin_with(&harness, client, &request);
}

static tern_UpdateReply report(uint64_t client, const tern_Task *task)
{
    tern_UpdateReply reply;
    uint8_t *body;
    const size_t len = encode_update(&harness, task, 1.0F, 10, &body);
    struct answer answer = put_update(&harness, client, task->round, 1, body, len);
    assert_int_equal(answer.status, 200);
    assert_int_equal(tern_wire_decode_update_reply(answer.body->data, answer.body->len, &reply),
                     TERN_OK);
    answer_free(&answer);
    free(body);
    return reply;
}

static bool was_invited(uint32_t round, uint64_t client)
{
    struct tern_db_assignment row;
    struct tern_db *db = harness_look(&harness);
    const enum tern_result found = tern_db_assignment_get(db, round, client, &row);
    tern_db_close(db);
    return found == TERN_OK;
}

static bool has_task(uint32_t round, uint64_t client)
{
    struct tern_db_assignment row;
    struct tern_db *db = harness_look(&harness);
    assert_int_equal(tern_db_assignment_get(db, round, client, &row), TERN_OK);
    tern_db_close(db);
    return row.state == TERN_ASSIGNMENT_TASKED;
}

#define TEST(name) CASE_WITH(name, setup, teardown)

TEST(answer_to_an_update_brings_a_task_only_to_a_client_that_stays)
{
    harness.config.federation.min_clients = 1;
    harness.config.federation.round.cohort = 1;
    harness_start_with(&harness, 1);
    for (uint32_t round = 1; round <= 4; round++) {
        const bool leaves = round % 2 == 1;
        const tern_CheckinReply first = visit(1, NULL, leaves);
        assert_true(first.has_task);
        assert_int_equal(first.task.round, round);
        const tern_UpdateReply reply = report(1, &first.task);
        assert_true(reply.has_next);
        assert_int_equal(reply.next.has_task, !leaves);
        assert_true(reply.next.has_task || reply.next.come_back_ms > 0);
        assert_int_equal(has_task(round + 1, 1), !leaves);
    }
}

TEST(answer_to_a_repeated_update_brings_no_task_after_a_restart)
{
    harness.config.federation.min_clients = 1;
    harness.config.federation.round.cohort = 1;
    harness_start_with(&harness, 1);
    const tern_CheckinReply first = visit(1, NULL, true);
    (void)report(1, &first.task);
    harness_restart(&harness);
    const tern_UpdateReply again = report(1, &first.task);
    assert_int_equal(again.status, tern_UpdateStatus_UPDATE_DUPLICATE);
    assert_false(again.next.has_task);
    assert_true(visit(1, NULL, true).has_task);
}

// Clients 1 and 2 stay. Returns whether the second round ends without client 3.
static bool ends_without_third(bool leaves)
{
    tern_CheckinReply tasks[3];
    harness.config.federation.min_clients = 3;
    harness.config.federation.round.cohort = 3;
    harness_start_with(&harness, 3);
    for (uint64_t id = 1; id <= 3; id++) {
        tasks[id - 1] = visit(id, NULL, id == 3 && leaves);
        assert_true(tasks[id - 1].has_task);
    }
    for (uint64_t id = 3; id >= 1; id--) {
        (void)report(id, &tasks[id - 1].task);
    }
    for (uint64_t id = 1; id <= 2; id++) {
        tasks[id - 1] = visit(id, NULL, false);
        assert_int_equal(tasks[id - 1].task.round, 2);
        (void)report(id, &tasks[id - 1].task);
    }
    assert_true(was_invited(2, 3)); // there is room for it, should it come
    return visit(1, NULL, false).task.round == 3;
}

TEST(rounds_do_not_count_on_a_client_that_has_left)
{
    assert_true(ends_without_third(true));
    assert_true(visit(3, NULL, true).has_task); // it is back
}

TEST(rounds_count_on_a_client_that_stays)
{
    assert_false(ends_without_third(false));
}

TEST(evaluator_that_leaves_gets_no_task_for_its_evaluation)
{
    harness_start_with(&harness, 2);
    const uint64_t evaluator = enroll(&harness, true);
    (void)do_round(&harness, 1, NULL, 1.0F);
    (void)do_round(&harness, 2, NULL, 1.0F);
    for (int leaves = 1; leaves >= 0; leaves--) {
        tern_CheckinRequest request = request_from(NULL);
        request.abilities = leaves ? TERN_WIRE_LEAVES : 0;
        assert_true(checkin_with(&harness, evaluator, &request).has_task);
        request.wait_ms = 3600000; // and it is not held, although there is nothing to do
        request.has_evaluation = true;
        request.evaluation = (tern_Evaluation){.version = 0, .num_examples = 10, .accuracy = 0.5F};
        if (leaves) {
            const tern_CheckinReply reply = checkin_with(&harness, evaluator, &request);
            assert_false(reply.has_task);
            assert_true(reply.come_back_ms > 0);
        } else {
            assert_true(checkin_with(&harness, evaluator, &request).has_task);
        }
    }
}
