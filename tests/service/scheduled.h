// A service whose rounds have a schedule: what its clients do, and what is stored of it. After cmocka.h.
#ifndef TERN_TEST_SCHEDULED_H
#define TERN_TEST_SCHEDULED_H

#include "harness.h"
#include "tests/asserts.h"
#include "tests/rounds/steps_policy.h"

#include <stdlib.h>

static struct harness harness;

static inline int setup(void **state)
{
    (void)state;
    harness_make(&harness);
    harness.config.federation.steps = (struct tern_steps_settings){.local_steps = 20,
                                                                   .min_steps = 1,
                                                                   .max_steps = 1000,
                                                                   .fraction = 0.5,
                                                                   .start = 1.0,
                                                                   .interval = 1,
                                                                   .gamma = 0.5,
                                                                   .min_density = 0.002};
    return 0;
}

static inline int teardown(void **state)
{
    (void)state;
    harness_free(&harness);
    return 0;
}

static inline void set_policy(const char *name)
{
    set_steps_policy(&harness.config.federation.steps, name);
}

static inline void set_codec(const char *spec)
{
    assert_int_equal(tern_codec_parse(spec, &harness.config.federation.codec_up, NULL), TERN_OK);
}

// --- What clients do

static inline tern_CheckinReply checkin_as(uint64_t client, const tern_CheckinRequest *request)
{
    return checkin_with(&harness, client, request);
}

struct report {
    float value; // of the whole update
    float loss;
    uint32_t num_examples;
    uint32_t local_steps; // 0: as many as asked
    uint32_t train_ms;
};

// Answers a task; returns the status.
static inline int report(uint64_t client, const tern_Task *task, const struct report *what)
{
    uint8_t *body;
    tern_Update message;
    struct tern_span container;
    uint32_t n = what->num_examples != 0 ? what->num_examples : 10;
    size_t len = encode_update(&harness, task, what->value, n, &body);
    assert_int_equal(tern_wire_decode_update(body, len, &message, &container), TERN_OK);
    message.local_steps = what->local_steps != 0 ? what->local_steps : task->local_steps;
    message.loss = what->loss;
    message.train_ms = what->train_ms;
    uint8_t *again = malloc(len + 256);
    assert_non_null(again);
    assert_int_equal(tern_wire_encode_update(&message, container, again, len + 256, &len), TERN_OK);
    struct answer answer = put_update(&harness, client, task->round, 1, again, len);
    int status = answer.status;
    answer_free(&answer);
    free(again);
    free(body);
    return status;
}

static inline tern_Task task_of(uint64_t client)
{
    tern_CheckinReply reply = checkin(&harness, client, NULL);
    assert_true(reply.has_task);
    return reply.task;
}

// --- What is stored

static inline struct tern_db *peek(void)
{
    struct tern_db *db = NULL;
    char why[256];
    assert_int_equal(tern_db_open(harness.path, 0, &db, why), TERN_OK);
    return db;
}

static inline struct tern_db_schedule schedule_of(uint64_t client)
{
    struct tern_db_schedule row;
    struct tern_db *db = peek();
    assert_int_equal(tern_db_schedule_get(db, client, &row), TERN_OK);
    tern_db_close(db);
    return row;
}

static inline struct tern_db_round round_of(uint32_t round)
{
    struct tern_db_round row;
    struct tern_db *db = peek();
    assert_int_equal(tern_db_round_get(db, round, &row), TERN_OK);
    tern_db_close(db);
    return row;
}

static inline struct tern_db_client client_row(uint64_t client)
{
    struct tern_db_client row;
    struct tern_db *db = peek();
    assert_int_equal(tern_db_client_get(db, client, &row), TERN_OK);
    tern_db_close(db);
    return row;
}

#endif
