// What one client's token can make the service log, however often it sends the same: of each event a few lines.
#include "harness.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "one_harness.h"
#include "tests/cases.h"
#include "watched_log.h"

#define TIMES 130
#define MOST 9 // lines of one event: the 1st, 2nd, 4th, ... 128th time, and one more

static void look_in(uint64_t client, tern_CheckinRequest request)
{
    struct answer answer = put_checkin(&harness, client, &request);
    answer_free(&answer);
}

// --- What it sends, the i-th time

static void refused_statistics(uint64_t client, uint32_t i)
{
    const uint8_t nonsense[] = {(uint8_t)(0x80 | i), 0xff};
    tern_Statistics message = {.num_examples = 1 + i};
    uint8_t columns[3 * TERN_WIRE_COLUMN_BYTES] = {0};
    uint8_t body[128];
    size_t len = 0;
    assert_int_equal(tern_wire_encode_statistics(&message,
                                                 (struct tern_span){columns, sizeof columns}, body,
                                                 sizeof body, &len),
                     TERN_OK);
    struct answer answer =
        call(&harness, "PUT", TERN_PATH_STATISTICS, harness.tokens[client], body, len);
    assert_int_not_equal(answer.status, 200);
    answer_free(&answer);
    answer = call(&harness, "PUT", TERN_PATH_STATISTICS, harness.tokens[client], nonsense,
                  sizeof nonsense);
    answer_free(&answer);
}

static void other_columns(uint64_t client, uint32_t i)
{
    look_in(client, (tern_CheckinRequest){.column_names = i % 2 == 0 ? 9 : 11 + i});
}

// A buffer that another replaced, then an earlier state of that, and so on: two anomalies in turns.
static void error_buffers(uint64_t client, uint32_t i)
{
    const uint32_t sequences[] = {9, 9, 8, 7};
    for (uint32_t step = 0; step < 4; step++) {
        look_in(client, (tern_CheckinRequest){.has_error = true,
                                              .error = {.generation = 1 + i,
                                                        .sequence = sequences[step],
                                                        .norm = 1.0F,
                                                        .maximum = 0.5F}});
    }
}

static void refused_updates(uint64_t client, uint32_t i)
{
    const uint8_t nonsense[] = {0xff, (uint8_t)i};
    struct answer answer = put_update(&harness, client, 1, 1 + i, nonsense, sizeof nonsense);
    answer_free(&answer);
}

static void evaluations(uint64_t client, uint32_t i)
{
    tern_CheckinRequest request = {.has_evaluation = true};
    request.evaluation.version = i % 3;
    request.evaluation.num_examples = 1 + i % 7;
    request.evaluation.metrics_count = 1;
    snprintf(request.evaluation.metrics[0].name, sizeof request.evaluation.metrics[0].name,
             "name_%u", (unsigned)i % 1000);
    look_in(client, request);
}

static void other_models(uint64_t client, uint32_t i)
{
    tern_CheckinRequest request = {.version = i};
    request.replica.size = TERN_WIRE_REPLICA_BYTES;
    memset(request.replica.bytes, (int)i, TERN_WIRE_REPLICA_BYTES);
    look_in(client, request);
    request = (tern_CheckinRequest){.scaling = i, .anchor = i, .abilities = i, .codecs = i};
    look_in(client, request);
}

static void unknown_requests(uint64_t client, uint32_t i)
{
    const char *const paths[] = {"/v1/nothing", TERN_PATH_CHECKIN, TERN_PATH_ENROLL};
    struct answer answer = call(&harness, "GET", paths[i % 3], harness.tokens[client], NULL, 0);
    answer_free(&answer);
}

// --- Lines by event

struct event {
    char name[48];
    uint32_t lines;
};

static uint32_t count_events(struct event events[64])
{
    char line[1024];
    uint32_t count = 0;
    fflush(stderr);
    rewind(log_file);
    while (fgets(line, sizeof line, log_file) != NULL) {
        const char *at = strstr(line, " event=");
        char name[48] = "";
        uint32_t i = 0;
        if (at == NULL || sscanf(at, " event=%47s", name) != 1) {
            continue;
        }
        while (i < count && strcmp(events[i].name, name) != 0) {
            i++;
        }
        if (i == count) {
            assert_true(count < 64);
            events[count++] = (struct event){.lines = 0};
            memcpy(events[i].name, name, sizeof name);
        }
        events[i].lines++;
    }
    return count;
}

static uint32_t lines_of_event(const struct event *events, uint32_t count, const char *name)
{
    for (uint32_t i = 0; i < count; i++) {
        if (strcmp(events[i].name, name) == 0) {
            return events[i].lines;
        }
    }
    return 0;
}

#define TEST(name) CASE_WITH(name, setup, teardown)

TEST(test_a_token_has_few_lines_of_each_event)
{
    static void (*const sent[])(uint64_t client, uint32_t i) = {
        refused_statistics, other_columns, error_buffers,   refused_updates,
        evaluations,        other_models,  unknown_requests};
    static const char *const logged[] = {"statistics-refused", "other-columns", "error-buffer",
                                         "update-rejected"};
    struct event events[64];
    harness_start(&harness);
    const uint64_t clients[] = {enroll(&harness, false), enroll(&harness, true)};
    const uint64_t honest = enroll(&harness, false);
    look_in(honest, (tern_CheckinRequest){.column_names = 7});
    look_in(enroll(&harness, false), (tern_CheckinRequest){.column_names = 7});
    watch_log();
    tern_log_set_level(TERN_LOG_INFO);
    for (size_t kind = 0; kind < sizeof sent / sizeof sent[0]; kind++) {
        for (uint32_t i = 0; i < TIMES; i++) {
            sent[kind](clients[0], i);
            sent[kind](clients[1], i);
        }
    }
    const uint32_t count = count_events(events);
    leave_log();
    for (uint32_t i = 0; i < count; i++) {
        if (events[i].lines > 2 * MOST) {
            print_error("%s: %u lines\n", events[i].name, events[i].lines);
        }
        assert_true(events[i].lines <= 2 * MOST);
    }
    for (size_t i = 0; i < sizeof logged / sizeof logged[0]; i++) {
        print_message("%s: %u lines\n", logged[i], lines_of_event(events, count, logged[i]));
        assert_true(lines_of_event(events, count, logged[i]) > 0);
    }
}
