// A federation whose clients agree on one scaling of their columns before its first round: whom it asks and waits
// for, what it makes of the answers, what it refuses, and that it never changes.
#include "harness.h"

#include "tensor/manifest.h"
#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tests/cases.h"
#include "watched_log.h"

#define COLUMNS 3
#define COLUMN_BYTES (COLUMNS * TERN_WIRE_COLUMN_BYTES)
#define WAIT_MS 600000

static struct harness harness;

static const struct tern_column_pair usual[COLUMNS] = {{2950, 400}, {0.01F, 4e-6F}, {7, 0}};

static int setup(void **state)
{
    (void)state;
    harness_make_model(&harness, "softmax:3-2");
    harness.config.federation.statistics =
        (struct tern_statistics_settings){.enabled = true, .min_clients = 2, .wait_ms = WAIT_MS};
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    harness_free(&harness);
    return 0;
}

// The first clients of a test, which begin() enrols.
static uint64_t one, two, three;

static void begin(int clients)
{
    harness_start(&harness);
    one = enroll(&harness, false);
    two = clients > 1 ? enroll(&harness, false) : 0;
    three = clients > 2 ? enroll(&harness, false) : 0;
}

// --- What clients do

static size_t encode(uint32_t num_examples, const struct tern_column_pair *pairs, uint32_t count,
                     uint8_t body[128])
{
    const tern_Statistics message = {.num_examples = num_examples};
    uint8_t columns[8 * TERN_WIRE_COLUMN_BYTES];
    size_t len = 0;
    for (uint32_t i = 0; i < count; i++) {
        tern_column_put(columns, i, pairs[i]);
    }
    const struct tern_span span = {columns, (size_t)count * TERN_WIRE_COLUMN_BYTES};
    assert_int_equal(tern_wire_encode_statistics(&message, span, body, 128, &len), TERN_OK);
    return len;
}

static enum tern_result put(uint64_t client, const uint8_t *body, size_t len,
                            enum tern_result *status)
{
    tern_UpdateReply reply;
    struct answer answer =
        call(&harness, "PUT", TERN_PATH_STATISTICS, harness.tokens[client], body, len);
    enum tern_result name = TERN_OK;
    if (answer.status == 200) {
        assert_int_equal(tern_wire_decode_update_reply(answer.body->data, answer.body->len, &reply),
                         TERN_OK);
        *status = (enum tern_result)reply.status;
    } else {
        name = answer_error_name(&answer);
    }
    answer_free(&answer);
    return name;
}

static enum tern_result tell(uint64_t client, uint32_t num_examples,
                             const struct tern_column_pair *pairs, uint32_t count)
{
    uint8_t body[128];
    enum tern_result status = TERN_OK;
    const size_t len = encode(num_examples, pairs, count, body);
    return put(client, body, len, &status);
}

static void report_usual(uint64_t client)
{
    assert_int_equal(tell(client, 100, usual, COLUMNS), TERN_OK);
}

static tern_CheckinReply look_in(uint64_t client, uint32_t tag)
{
    const tern_CheckinRequest request = {.scaling = tag};
    return checkin_with(&harness, client, &request);
}

// Fetches the scaling that a reply names.
static uint32_t fetch(uint64_t client, const tern_CheckinReply *reply, tern_Scaling *scaling,
                      struct tern_column_pair pairs[COLUMNS])
{
    char path[TERN_PATH_MAX];
    uint8_t sha256[TERN_SHA256_SIZE];
    struct tern_span columns;
    assert_true(reply->has_scaling && !reply->has_task);
    tern_path_download(reply->scaling.sha256.bytes, path);
    struct answer answer = call(&harness, "GET", path, harness.tokens[client], NULL, 0);
    assert_int_equal(answer.status, 200);
    assert_int_equal(answer.body->len, reply->scaling.size);
    tern_sha256(answer.body->data, answer.body->len, sha256);
    assert_memory_equal(sha256, reply->scaling.sha256.bytes, sizeof sha256);
    assert_int_equal(
        tern_wire_decode_scaling(answer.body->data, answer.body->len, scaling, &columns), TERN_OK);
    assert_int_equal(columns.len, COLUMN_BYTES);
    for (uint32_t i = 0; i < COLUMNS; i++) {
        pairs[i] = tern_column_get(columns, i);
    }
    answer_free(&answer);
    return tern_scaling_tag(sha256);
}

static void expect_wanted(uint64_t client)
{
    const tern_CheckinReply reply = look_in(client, 0);
    assert_int_equal(reply.statistics, tern_StatisticsState_STATISTICS_WANTED);
    assert_false(reply.has_task || reply.has_scaling);
    assert_true(reply.come_back_ms > 0);
}

static void expect_awaited(uint64_t client)
{
    const tern_CheckinReply reply = look_in(client, 0);
    assert_int_equal(reply.statistics, tern_StatisticsState_STATISTICS_AWAITED);
    assert_false(reply.has_task || reply.has_scaling);
}

// --- Agreeing

#define TEST(name) CASE_WITH(name, setup, teardown)

TEST(test_clients_agree_before_the_first_round)
{
    const struct tern_column_pair other[COLUMNS] = {{2980, 100}, {0.02F, 4e-6F}, {7, 0}};
    struct tern_column_pair pairs[COLUMNS];
    tern_Scaling scaling;
    begin(2);
    expect_wanted(one);
    report_usual(one);
    expect_awaited(one);
    expect_wanted(two);
    assert_int_equal(tell(two, 300, other, COLUMNS), TERN_OK);
    tern_CheckinReply reply = look_in(two, 0);
    const uint32_t tag = fetch(two, &reply, &scaling, pairs);
    assert_int_equal(scaling.clients, 2);
    assert_int_equal(scaling.num_examples, 400);
    // (100 * 2950 + 300 * 2980) / 400, and (100 * 400 + 300 * 100) / 400 within + 168.75 between
    assert_true(pairs[0].mean == 2972.5F);
    assert_true(fabsf(pairs[0].spread - sqrtf(175 + 168.75F)) < 1e-4F);
    assert_true(fabsf(pairs[1].mean - 0.0175F) < 1e-8F);
    assert_true(pairs[2].mean == 7 && pairs[2].spread == 1); // constant: it becomes 0
    assert_true(look_in(two, tag).has_task);
    assert_true(look_in(one, 0).has_scaling);
    assert_true(look_in(one, tag).has_task);
}

TEST(test_the_order_in_which_they_come_does_not_matter)
{
    uint32_t tags[2];
    for (int turn = 0; turn < 2; turn++) {
        const struct tern_column_pair odd[COLUMNS] = {{0.1F, 0.3F}, {1e6F, 7}, {3, 3}};
        struct tern_column_pair pairs[COLUMNS];
        tern_Scaling scaling;
        harness_start(&harness);
        enroll(&harness, false);
        enroll(&harness, false);
        assert_int_equal(turn == 0 ? tell(1, 7, odd, COLUMNS) : tell(2, 1000, usual, COLUMNS),
                         TERN_OK);
        assert_int_equal(turn == 0 ? tell(2, 1000, usual, COLUMNS) : tell(1, 7, odd, COLUMNS),
                         TERN_OK);
        const tern_CheckinReply reply = look_in(1, 0);
        tags[turn] = fetch(1, &reply, &scaling, pairs);
        teardown(NULL);
        setup(NULL);
    }
    assert_int_equal(tags[0], tags[1]);
}

TEST(test_it_waits_for_who_has_come)
{
    begin(3);
    expect_wanted(three);
    report_usual(one);
    report_usual(two);
    expect_awaited(one);
    test_advance(WAIT_MS / 2);
    expect_wanted(three); // so it came
    expect_awaited(one);
    test_advance(WAIT_MS / 2);
    assert_true(look_in(one, 0).has_scaling);
    assert_true(look_in(three, 0).has_scaling);
    assert_int_equal(tell(three, 100, usual, COLUMNS), TERN_ERR_LATE);
}

TEST(test_the_wait_outlives_a_clock_that_is_set)
{
    begin(3);
    expect_wanted(three);
    report_usual(one);
    report_usual(two);
    test_set_forth(10ull * WAIT_MS);
    expect_wanted(three);
    expect_awaited(one);
}

TEST(test_it_never_changes)
{
    struct tern_column_pair before[COLUMNS];
    struct tern_column_pair after[COLUMNS];
    tern_Scaling scaling;
    begin(2);
    report_usual(one);
    report_usual(two);
    tern_CheckinReply reply = look_in(one, 0);
    const uint32_t tag = fetch(one, &reply, &scaling, before);
    harness.config.federation.statistics.enabled = false; // it stands all the same
    harness_restart(&harness);
    const uint64_t late = enroll(&harness, false);
    reply = look_in(late, 0);
    assert_int_equal(fetch(late, &reply, &scaling, after), tag);
    assert_memory_equal(before, after, sizeof before);
    assert_true(look_in(one, tag).has_task);
    assert_true(look_in(one, tag + 1).has_scaling); // of another federation's state
}

TEST(test_a_restart_keeps_what_was_told)
{
    begin(2);
    report_usual(one);
    harness_restart(&harness);
    expect_awaited(one);
    expect_wanted(two);
    report_usual(two);
    assert_true(look_in(one, 0).has_scaling);
}

static uint64_t rows(struct tern_db *db)
{
    struct tern_db_statistics row;
    uint64_t count = 0;
    struct tern_db_rows *all = tern_db_statistics(db);
    while (tern_db_next(all, &row)) {
        count++;
    }
    assert_int_equal(tern_db_end(all), TERN_OK);
    return count;
}

TEST(test_what_each_told_is_forgotten)
{
    struct tern_db *db;
    char why[256];
    begin(2);
    report_usual(one);
    assert_int_equal(tern_db_open(harness.path, TERN_DB_SECOND, &db, why), TERN_OK);
    assert_int_equal(rows(db), 1);
    report_usual(two);
    assert_true(look_in(one, 0).has_scaling);
    assert_int_equal(rows(db), 0);
    tern_db_close(db);
}

// --- Refusing

TEST(test_what_is_refused_changes_nothing)
{
    uint8_t before[TERN_SHA256_SIZE];
    uint8_t after[TERN_SHA256_SIZE];
    const struct tern_column_pair fewer[2] = {{1, 1}, {2, 2}};
    uint8_t body[128];
    enum tern_result status = TERN_OK;
    begin(1);
    const uint64_t evaluator = enroll(&harness, true);
    store_digest(&harness, before);
    assert_int_equal(tell(one, 100, fewer, 2), TERN_ERR_MODEL_MISMATCH);
    assert_int_equal(tell(one, 1000001, usual, COLUMNS), TERN_ERR_ARGUMENT);
    assert_int_equal(tell(evaluator, 100, usual, COLUMNS), TERN_ERR_ARGUMENT);
    const size_t len = encode(100, usual, COLUMNS, body);
    const float nan_value = NAN;
    memcpy(body + len - 8, &nan_value, sizeof nan_value);
    assert_int_equal(put(one, body, len, &status), TERN_ERR_NON_FINITE);
    const float negative = -1;
    memcpy(body + len - 8, &negative, sizeof negative); // a mean may be
    memcpy(body + len - 4, &negative, sizeof negative);
    assert_int_equal(put(one, body, len, &status), TERN_ERR_ARGUMENT);
    assert_int_equal(put(one, body, len - 1, &status), TERN_ERR_CORRUPT);
    store_digest(&harness, after);
    assert_memory_equal(before, after, sizeof before);
    expect_wanted(one);
}

TEST(test_the_first_word_counts)
{
    uint8_t body[128];
    enum tern_result status = TERN_OK;
    const struct tern_column_pair other[COLUMNS] = {{1, 1}, {1, 1}, {1, 1}};
    begin(1);
    const size_t len = encode(100, usual, COLUMNS, body);
    assert_int_equal(put(one, body, len, &status), TERN_OK);
    assert_int_equal(status, tern_UpdateStatus_UPDATE_ACCEPTED);
    assert_int_equal(put(one, body, len, &status), TERN_OK); // its answer was lost
    assert_int_equal(status, tern_UpdateStatus_UPDATE_DUPLICATE);
    assert_int_equal(tell(one, 100, other, COLUMNS), TERN_ERR_CONFLICT);
}

TEST(test_nobody_is_asked_unless_it_is_wanted)
{
    harness.config.federation.statistics.enabled = false;
    begin(1);
    enroll(&harness, false);
    assert_int_equal(tell(one, 100, usual, COLUMNS), TERN_ERR_LATE);
    assert_true(look_in(one, 0).has_task);
    harness.config.federation.statistics.enabled = true; // too late: rounds have begun
    harness_restart(&harness);
    assert_true(look_in(one, 0).has_task);
}

TEST(test_it_is_for_built_in_models)
{
    static struct tern_model model;
    static uint8_t manifest[TERN_MANIFEST_MAX];
    const uint32_t count = 600;
    const float weights[600] = {0};
    char why[256] = "";
    harness_free(&harness);
    tern_model_clear(&model);
    assert_int_equal(tern_model_add_by_rule(&model, "w", &count, 1, TERN_RULE_COMPRESS), TERN_OK);
    harness_make_imported(&harness, manifest, tern_manifest_encode(&model, manifest), weights);
    harness_start(&harness);
    assert_int_equal(tern_service_check_config(harness.service, &harness.config, why), TERN_OK);
    harness.config.federation.statistics.enabled = true;
    assert_int_equal(tern_service_check_config(harness.service, &harness.config, why),
                     TERN_ERR_CONFIG);
    assert_non_null(strstr(why, "statistics.columns = clients needs a built-in model"));
}

TEST(test_a_target_is_a_column_more)
{
    const struct tern_column_pair pairs[COLUMNS + 1] = {{2950, 400}, {1, 1}, {7, 0}, {3000, 100}};
    harness_free(&harness);
    harness_make_model(&harness, "linear:3-1,loss=mae");
    harness.config.federation.statistics =
        (struct tern_statistics_settings){.enabled = true, .min_clients = 2};
    begin(2);
    assert_int_equal(tell(one, 100, pairs, COLUMNS), TERN_ERR_MODEL_MISMATCH);
    assert_int_equal(tell(one, 100, pairs, COLUMNS + 1), TERN_OK);
    assert_int_equal(tell(two, 100, pairs, COLUMNS + 1), TERN_OK);
    const tern_CheckinReply reply = look_in(one, 0);
    assert_true(reply.has_scaling);
    assert_int_equal(reply.scaling.size,
                     2 + 3 + 2 + (COLUMNS + 1) * TERN_WIRE_COLUMN_BYTES); // of 2 clients, 200 rows
}

// --- Looking

static tern_CheckinReply look(uint64_t client)
{
    tern_CheckinReply reply;
    struct tern_span none;
    struct answer answer =
        call(&harness, "GET", TERN_PATH_STATISTICS, harness.tokens[client], NULL, 0);
    assert_int_equal(answer.status, 200);
    assert_int_equal(
        tern_wire_decode_checkin_reply(answer.body->data, answer.body->len, &reply, &none),
        TERN_OK);
    answer_free(&answer);
    assert_true(reply.come_back_ms > 0 && !reply.has_task && !reply.finished);
    return reply;
}

TEST(test_who_looks_is_told_and_changes_nothing)
{
    begin(2);
    const uint64_t evaluator = enroll(&harness, true);
    for (int i = 0; i < 20; i++) { // and is not taken for one that does not do as it is told
        assert_int_equal(look(one).statistics, tern_StatisticsState_STATISTICS_WANTED);
    }
    assert_int_equal(look(evaluator).statistics, tern_StatisticsState_STATISTICS_AWAITED);
    report_usual(one);
    assert_int_equal(look(one).statistics, tern_StatisticsState_STATISTICS_AWAITED);
    assert_int_equal(look(two).statistics, tern_StatisticsState_STATISTICS_WANTED);
    report_usual(two);
    const tern_CheckinReply fixed = look_in(one, 0);
    const tern_CheckinReply looked = look(two);
    assert_true(fixed.has_scaling && looked.has_scaling);
    assert_memory_equal(&looked.scaling, &fixed.scaling, sizeof fixed.scaling);
    assert_int_equal(looked.statistics, tern_StatisticsState_STATISTICS_NONE);
}

TEST(test_who_looks_at_a_federation_without_is_told_so)
{
    harness.config.federation.statistics.enabled = false;
    harness_start(&harness);
    const tern_CheckinReply reply = look(enroll(&harness, false));
    assert_int_equal(reply.statistics, tern_StatisticsState_STATISTICS_NONE);
    assert_false(reply.has_scaling);
    struct answer answer = call(&harness, "GET", TERN_PATH_STATISTICS, NULL, NULL, 0);
    answer_expect(answer, 401);
    answer_expect(call(&harness, "POST", TERN_PATH_STATISTICS, NULL, NULL, 0), 405);
}

// --- Waiting

static struct tern_federation_facts facts(void)
{
    struct tern_service_facts facts;
    tern_service_facts(harness.service, &facts);
    return facts.federation;
}

// By itself: nobody asks meanwhile, and the clock stands still.
static void await_version(uint32_t version)
{
    const time_t until = time(NULL) + 60;
    while (facts().version != version) {
        assert_true(time(NULL) < until);
        sched_yield();
    }
}

static void expect_update(uint64_t client, const tern_CheckinRequest *request)
{
    uint8_t *body;
    const tern_CheckinReply reply = checkin_with(&harness, client, request);
    assert_true(reply.has_task);
    const size_t len = encode_update(&harness, &reply.task, 0.1F, 10, &body);
    answer_expect(put_update(&harness, client, reply.task.round, reply.task.round, body, len), 200);
    free(body);
}

static void check_wait(enum tern_wait wait, bool needs_help, uint32_t told, uint32_t untold)
{
    const struct tern_federation_facts is = facts();
    assert_int_equal(is.wait, wait);
    assert_int_equal(is.needs_help, needs_help);
    assert_int_equal(is.trainers.with_statistics, told);
    assert_int_equal(is.trainers.missing_statistics, untold);
}

TEST(test_it_is_known_what_is_awaited)
{
    begin(3);
    expect_wanted(one);
    expect_wanted(two);
    expect_wanted(three);
    test_advance(1000); // clients are not looked at more often
    report_usual(one);
    check_wait(TERN_WAIT_STATISTICS, true, 1, 2);
    test_advance(1000);
    report_usual(two);
    check_wait(TERN_WAIT_STATISTICS, false, 2, 1);
    test_advance(WAIT_MS - 1000 - 1);
    expect_wanted(three);
    check_wait(TERN_WAIT_STATISTICS, false, 2, 1);
    test_advance(1);
    assert_true(look_in(one, 0).has_scaling);
    check_wait(TERN_WAIT_MEMBERS, false, 2, 1);
}

// One that comes and never has the scaling holds no round, and is drawn again once it has it.
TEST(test_rounds_do_without_one_that_does_not_scale)
{
    harness.config.federation.round.cohort = 3;
    harness.config.federation.statistics.min_clients = 3;
    begin(2);
    const uint64_t odd = enroll(&harness, false);
    report_usual(one);
    report_usual(two);
    report_usual(odd);
    tern_CheckinReply reply = look_in(one, 0);
    const uint32_t tag = tern_scaling_tag(reply.scaling.sha256.bytes);
    const tern_CheckinRequest request = {.scaling = tag};
    expect_update(one, &request);
    expect_update(two, &request);
    for (int i = 0; i < 3; i++) {
        assert_true(look_in(odd, 0).has_scaling);
        assert_int_equal(facts().version, 0); // it may come with it yet
    }
    assert_true(look_in(odd, 0).has_scaling);
    await_version(1);
    expect_update(one, &request);
    expect_update(two, &request);
    await_version(2);                            // it was not even asked
    assert_false(look_in(odd, tag).has_scaling); // now it is there again
    expect_update(one, &request);
    expect_update(two, &request);
    await_version(3);
    assert_true(look_in(odd, tag).has_task);
}

// --- Others

TEST(test_evaluators_wait_for_it)
{
    begin(2);
    const uint64_t evaluator = enroll(&harness, true);
    expect_awaited(evaluator);
    report_usual(one);
    report_usual(two);
    assert_true(look_in(evaluator, 0).has_scaling);
}

static tern_CheckinReply name_columns(uint64_t client, uint32_t tag)
{
    const tern_CheckinRequest request = {.column_names = tag};
    return checkin_with(&harness, client, &request);
}

static void shut_out(uint64_t client)
{
    struct tern_db *db;
    char why[256];
    assert_int_equal(tern_db_open(harness.path, TERN_DB_SECOND, &db, why), TERN_OK);
    assert_int_equal(tern_db_begin(db), TERN_OK);
    assert_int_equal(tern_db_client_revoke(db, client), TERN_OK);
    assert_int_equal(tern_db_commit(db), TERN_OK);
    tern_db_close(db);
}

TEST(test_other_names_of_columns_are_told_to_their_client)
{
    unsigned lines;
    harness.config.federation.statistics.enabled = false;
    harness_start(&harness);
    const uint64_t first = enroll(&harness, false);
    const uint64_t second = enroll(&harness, false);
    const uint64_t third = enroll(&harness, false);
    assert_false(name_columns(first, 7).other_column_names);
    watch_log();
    assert_true(name_columns(second, 9).other_column_names); // the first counts among as many
    assert_true(name_columns(second, 0).other_column_names); // told before
    lines = lines_of("other-columns", "client=2 ");
    leave_log();
    assert_int_equal(lines, 1);
    assert_false(name_columns(first, 0).other_column_names);
    assert_false(name_columns(third, 9).other_column_names); // most decide
    assert_true(name_columns(first, 0).other_column_names);
    assert_true(look(first).other_column_names);
    harness_restart(&harness);
    assert_true(name_columns(first, 0).other_column_names);
    assert_false(name_columns(third, 0).other_column_names);
    assert_false(name_columns(first, 9).other_column_names); // it was mended
    assert_false(name_columns(enroll(&harness, false), 0).other_column_names);
}

TEST(test_who_was_revoked_has_no_say)
{
    const struct tern_column_pair hostile[COLUMNS] = {{1e30F, 0}, {1e30F, 0}, {1e30F, 0}};
    struct tern_column_pair pairs[COLUMNS];
    tern_Scaling scaling;
    begin(1);
    const uint64_t bad = enroll(&harness, false);
    assert_int_equal(tell(bad, 1000000, hostile, COLUMNS), TERN_OK);
    shut_out(bad);
    report_usual(one);
    expect_awaited(one); // for a second that counts
    two = enroll(&harness, false);
    report_usual(two);
    const tern_CheckinReply reply = look_in(one, 0);
    fetch(one, &reply, &scaling, pairs);
    assert_int_equal(scaling.clients, 2);
    assert_true(pairs[0].mean == 2950);
}

TEST(test_one_of_three_moves_it_within_bounds)
{
    const struct tern_column_pair hostile[COLUMNS] = {{3e38F, 0}, {-3e38F, 3e38F}, {7, 0}};
    struct tern_column_pair pairs[COLUMNS];
    tern_Scaling scaling;
    harness.config.federation.statistics.min_clients = 3;
    harness_start_with(&harness, 3);
    report_usual(1);
    assert_int_equal(tell(2, 1000000, hostile, COLUMNS), TERN_OK);
    report_usual(3);
    const tern_CheckinReply reply = look_in(1, 0);
    fetch(1, &reply, &scaling, pairs);
    // 16 times the usual deviation, 20, and no more
    assert_true(fabsf(pairs[0].mean - 2950) <= 16 * 20);
    assert_true(pairs[0].spread >= 5 && pairs[0].spread <= 16 * 20);
    assert_true(fabsf(pairs[1].mean) <= 0.01F + 16 * 0.002F);
}

TEST(test_who_does_not_scale_comes_ever_later)
{
    unsigned lines = 0;
    uint32_t before = 0;
    begin(1);
    watch_log();
    for (int i = 0; i < 8; i++) {
        const tern_CheckinReply reply = look_in(one, 0);
        assert_true(reply.come_back_ms > before);
        before = reply.come_back_ms;
    }
    lines = lines_of("client-without-scaling", "client=1 times=");
    leave_log();
    assert_int_equal(lines, 2); // at the 4th and 8th time
}
