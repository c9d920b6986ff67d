// Evaluators, whose figures are the federation's accuracy: who may be one, and the harm that a lying evaluator, or one
// that always sends new names, can do beside honest ones.
#include "federation/accuracy.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "one_harness.h"
#include "tests/cases.h"

// --- Who may be one

static void add_code(const char *text, bool evaluator, uint32_t uses)
{
    struct tern_db_code code = {
        .evaluator = evaluator, .uses_left = uses, .expires_ms = UINT64_MAX / 4};
    struct tern_db *db = harness_look(&harness);
    tern_join_code_hash(text, code.hash);
    assert_int_equal(tern_db_begin(db), TERN_OK);
    assert_int_equal(tern_db_code_add(db, &code), TERN_OK);
    assert_int_equal(tern_db_commit(db), TERN_OK);
    tern_db_close(db);
}

static uint32_t uses_left(const char *text)
{
    struct tern_db_code code;
    uint8_t hash[TERN_SHA256_SIZE];
    struct tern_db *db = harness_look(&harness);
    tern_join_code_hash(text, hash);
    assert_int_equal(tern_db_code_get(db, hash, &code), TERN_OK);
    tern_db_close(db);
    return code.uses_left;
}

static struct answer enroll_by(const char *code, bool evaluator)
{
    tern_EnrollRequest request = {.evaluator = evaluator};
    uint8_t body[TERN_WIRE_MESSAGE_MAX];
    size_t len = 0;
    strcpy(request.join_code, code);
    assert_int_equal(tern_wire_encode_enroll_request(&request, body, sizeof body, &len), TERN_OK);
    return call(&harness, "POST", TERN_PATH_ENROLL, NULL, body, len);
}

static void expect_enrolment(const char *code, bool evaluator, int status)
{
    struct answer answer = enroll_by(code, evaluator);
    assert_int_equal(answer.status, status);
    answer_free(&answer);
}

static bool has(const struct answer *answer, const char *text)
{
    const size_t len = strlen(text);
    for (size_t i = 0; i + len <= answer->body->len; i++) {
        if (memcmp(answer->body->data + i, text, len) == 0) {
            return true;
        }
    }
    return false;
}

#define TEST(name) CASE_WITH(name, setup, teardown)

TEST(test_a_code_says_whether_it_makes_evaluators)
{
    harness_start(&harness);
    add_code("plain", false, 2);
    add_code("judges", true, 2);
    struct answer refused = enroll_by("plain", true);
    assert_int_equal(refused.status, 401);
    assert_true(has(&refused, "enroll-code --evaluator"));
    answer_free(&refused);
    assert_int_equal(uses_left("plain"), 2); // it is still good for those that it is for
    expect_enrolment("plain", false, 200);
    expect_enrolment("plain", false, 200);
    expect_enrolment("judges", true, 200);
    expect_enrolment("judges", false, 200);
    // A used-up code is refused as an unknown code is, for clients and evaluators.
    struct answer used = enroll_by("plain", true);
    struct answer none = enroll_by("nothing", false);
    assert_int_equal(used.status, 401);
    assert_int_equal(used.body->len, none.body->len);
    assert_memory_equal(used.body->data, none.body->data, none.body->len);
    answer_free(&used);
    answer_free(&none);
    struct tern_service_facts facts;
    tern_service_facts(harness.service, &facts);
    assert_int_equal(facts.federation.evaluators, 1);
}

// --- Figures

struct report {
    uint32_t num_examples;
    float accuracy;
    float loss;
    bool no_accuracy;
    const char *name; // of a metric; NULL: none
    float value;
};

static tern_CheckinRequest evaluated(uint32_t version, const struct report *report)
{
    tern_CheckinRequest request = tern_CheckinRequest_init_zero;
    request.has_evaluation = true;
    request.evaluation.version = version;
    request.evaluation.num_examples = report->num_examples;
    request.evaluation.accuracy = report->accuracy;
    request.evaluation.loss = report->loss;
    request.evaluation.no_accuracy = report->no_accuracy;
    if (report->name != NULL) {
        request.evaluation.metrics_count = 1;
        snprintf(request.evaluation.metrics[0].name, sizeof request.evaluation.metrics[0].name,
                 "%s", report->name);
        request.evaluation.metrics[0].value = report->value;
    }
    return request;
}

static void tell(uint64_t client, const struct report *report)
{
    const tern_CheckinRequest request = evaluated(0, report);
    (void)checkin_with(&harness, client, &request);
}

static struct tern_reported_version pending; // beside the newest that counts

static struct tern_accuracy newest(void)
{
    struct tern_accuracy of;
    struct tern_db *db = harness_look(&harness);
    assert_int_equal(tern_accuracy_newest(db, &of, &pending), TERN_OK);
    tern_db_close(db);
    return of;
}

// The clients join before the version is made.
static void start_with(uint64_t *clients, uint32_t count, bool evaluator)
{
    harness_start(&harness);
    for (uint32_t i = 0; i < count; i++) {
        clients[i] = enroll(&harness, evaluator);
    }
}

TEST(test_one_that_lies_moves_no_figure_beyond_the_others)
{
    uint64_t clients[4];
    harness.config.federation.limits.num_examples = 10000000;
    start_with(clients, 4, true);
    const struct report honest[] = {{1000, 0.90F, 0.30F, false, "f1_macro", 0.88F},
                                    {200, 0.91F, 0.31F, false, "f1_macro", 0.87F},
                                    {5000, 0.89F, 0.29F, false, "f1_macro", 0.86F}};
    const struct report lies[] = {{10000000, 0.0F, 1e30F, false, "f1_macro", 0.0F},
                                  {10000000, 1.0F, 0.0F, false, "f1_macro", 1.0F},
                                  {10000000, 0.0F, 0.0F, true, "zz", 1e30F}};
    for (int i = 0; i < 3; i++) {
        tell(clients[i + 1], &honest[i]);
    }
    struct tern_accuracy of = newest();
    assert_float_equal(of.accuracy, 0.90, 1e-6);
    assert_float_equal(of.loss, 0.30, 1e-6);
    assert_float_equal(of.metrics[0].value, 0.87, 1e-6);
    assert_int_equal(of.num_examples, 6200);
    for (size_t i = 0; i < sizeof lies / sizeof lies[0]; i++) {
        double f1 = 0.0;
        tell(clients[0], &lies[i]);
        of = newest();
        assert_false(of.no_accuracy);
        assert_true(of.accuracy >= 0.89F && of.accuracy <= 0.91F);
        assert_true(of.loss >= 0.29F && of.loss <= 0.31F);
        assert_true(tern_accuracy_value(&of, "f1_macro", &f1));
        assert_true(f1 >= 0.86F && f1 <= 0.88F);
    }
}

TEST(test_two_are_halved_and_one_is_all)
{
    uint64_t clients[2];
    start_with(clients, 2, true);
    tell(clients[0], &(struct report){.num_examples = 100, .accuracy = 0.8F, .loss = 1.0F});
    assert_float_equal(newest().accuracy, 0.8, 1e-6);
    tell(clients[1], &(struct report){.num_examples = 900000, .accuracy = 0.2F, .loss = 2.0F});
    assert_float_equal(newest().accuracy, 0.5, 1e-6);
    assert_float_equal(newest().loss, 1.5, 1e-6);
}

// --- Versions that count

// The newest version that has a figure; UINT32_MAX: none has.
static uint32_t newest_version(void)
{
    const struct tern_accuracy of = newest();
    return of.num_examples > 0 ? of.version : UINT32_MAX;
}

static void put(uint64_t client, uint32_t version, double accuracy, bool late)
{
    struct tern_db *db = harness_look(&harness);
    const struct tern_db_evaluation row = {.version = version,
                                           .client = client,
                                           .late = late,
                                           .num_examples = 100,
                                           .accuracy = (float)accuracy,
                                           .loss = 1.0F};
    assert_int_equal(tern_db_begin(db), TERN_OK);
    assert_int_equal(tern_db_evaluation_put(db, &row), TERN_OK);
    assert_int_equal(tern_db_commit(db), TERN_OK);
    tern_db_close(db);
}

static void make_version(uint32_t version, uint64_t created_ms)
{
    struct tern_db *db = harness_look(&harness);
    const struct tern_db_version row = {.version = version, .created_ms = created_ms};
    assert_int_equal(tern_db_begin(db), TERN_OK);
    assert_int_equal(tern_db_version_put(db, &row), TERN_OK);
    assert_int_equal(tern_db_commit(db), TERN_OK);
    tern_db_close(db);
}

static void revoke(uint64_t client)
{
    struct tern_db *db = harness_look(&harness);
    assert_int_equal(tern_db_begin(db), TERN_OK);
    assert_int_equal(tern_db_client_revoke(db, client), TERN_OK);
    assert_int_equal(tern_db_commit(db), TERN_OK);
    tern_db_close(db);
}

static uint64_t seen_ms(uint64_t client)
{
    struct tern_db_client row;
    struct tern_db *db = harness_look(&harness);
    assert_int_equal(tern_db_client_get(db, client, &row), TERN_OK);
    tern_db_close(db);
    return row.last_seen_ms;
}

TEST(test_a_version_counts_by_half_of_its_evaluators)
{
    for (uint32_t count = 1; count <= 6; count++) {
        uint64_t clients[6];
        const uint32_t half = (count + 1) / 2;
        start_with(clients, count, true);
        const uint64_t now = seen_ms(clients[count - 1]);
        make_version(1, now + 1);
        make_version(2, now + 2);
        for (uint32_t i = 0; i < half; i++) {
            assert_int_equal(newest_version(), UINT32_MAX);
            assert_int_equal(pending.reports, i);
            put(clients[i], 1, 0.5, false);
        }
        assert_int_equal(newest_version(), 1);
        assert_int_equal(newest().evaluators, half);
        assert_int_equal(newest().expected, count);
        assert_int_equal(pending.reports, 0);
        put(clients[0], 2, 1.0, false); // one that lies about what the others skipped
        assert_int_equal(newest_version(), half == 1 ? 2 : 1);
        assert_int_equal(pending.reports, half > 1);
        assert_int_equal(pending.version, half > 1 ? 2 : 0);
        assert_int_equal(pending.expected, half > 1 ? count : 0);
        teardown(NULL);
        setup(NULL);
    }
    harness_start(&harness);
}

TEST(test_a_revoked_evaluator_counts_nowhere)
{
    uint64_t clients[5];
    start_with(clients, 5, true);
    const uint64_t now = seen_ms(clients[4]);
    make_version(1, now + 1);
    for (int i = 0; i < 3; i++) {
        put(clients[i], 1, 0.5 + 0.125 * i, false);
    }
    assert_float_equal(newest().accuracy, 0.625, 1e-6);
    revoke(clients[0]); // two of four are half
    assert_int_equal(newest().evaluators, 2);
    assert_int_equal(newest().expected, 4);
    assert_float_equal(newest().accuracy, 0.6875, 1e-6);
    revoke(clients[1]);
    assert_int_equal(newest_version(), UINT32_MAX);
    assert_int_equal(pending.reports, 1);
    assert_int_equal(pending.expected, 3);
}

TEST(test_an_evaluator_that_stayed_away_for_a_week_is_not_expected)
{
    uint64_t clients[5];
    const uint64_t day_ms = 24 * 3600 * 1000;
    start_with(clients, 5, true);
    const uint64_t now = seen_ms(clients[4]);
    make_version(1, now + 6 * day_ms);
    make_version(2, now + 8 * day_ms);
    put(clients[0], 1, 0.5, false);
    assert_int_equal(newest_version(), UINT32_MAX);
    put(clients[0], 2, 0.5, false);
    assert_int_equal(newest_version(), 2);
    assert_int_equal(newest().expected, 1); // not "1 of 0"
}

// One that joins later neither gives an earlier version its figure nor takes it away.
TEST(test_late_evaluators_change_no_earlier_version)
{
    uint64_t clients[5];
    start_with(clients, 1, true);
    const uint64_t now = seen_ms(clients[0]);
    make_version(1, now + 500);
    make_version(2, now + 600);
    put(clients[0], 1, 0.5, false);
    test_advance(1000);
    for (int i = 1; i < 5; i++) {
        clients[i] = enroll(&harness, true);
        put(clients[i], 2, 0.9, true);
    }
    assert_int_equal(newest_version(), 1);
    assert_int_equal(newest().expected, 1);
    assert_int_equal(pending.version, 2);
    put(clients[0], 2, 0.75, false);
    assert_int_equal(newest_version(), 2);
    assert_float_equal(newest().accuracy, 0.75, 1e-6);
    assert_int_equal(newest().evaluators, 1);
}

// Version 0 is made before anybody enrols.
TEST(test_late_reports_count_where_nobody_was_in_time)
{
    uint64_t clients[4];
    harness_start(&harness);
    test_advance(1000);
    for (int i = 0; i < 4; i++) {
        clients[i] = enroll(&harness, true);
    }
    put(clients[0], 0, 1.0, true);
    assert_int_equal(newest_version(), UINT32_MAX);
    put(clients[1], 0, 0.5, true);
    assert_int_equal(newest_version(), 0);
    assert_int_equal(newest().expected, 4);
    assert_float_equal(newest().accuracy, 0.75, 1e-6);
    assert_float_equal(newest().accuracy_least, 0.5, 1e-6);
}

// Versions that count are found behind any number of later ones that do not.
TEST(test_many_reports_of_one_hide_no_earlier_version)
{
    uint64_t clients[3];
    start_with(clients, 3, true);
    put(clients[0], 0, 0.5, false);
    put(clients[1], 0, 0.5, false);
    const uint64_t now = seen_ms(clients[2]);
    for (uint32_t version = 1; version <= 200; version++) {
        make_version(version, now + version);
        put(clients[0], version, 1.0, false);
    }
    assert_int_equal(newest_version(), 0);
    assert_int_equal(pending.version, 200);
    put(clients[2], 150, 0.5, false);
    assert_int_equal(newest_version(), 150);
}

TEST(test_claims_add_up_bounded)
{
    uint64_t clients[3];
    harness.config.federation.limits.num_examples = 10000000;
    start_with(clients, 3, true);
    tell(clients[0], &(struct report){.num_examples = 10000000, .accuracy = 0.5F});
    tell(clients[1], &(struct report){.num_examples = 100, .accuracy = 0.5F});
    tell(clients[2], &(struct report){.num_examples = 50, .accuracy = 0.6F});
    assert_int_equal(newest().num_examples, 1600 + 100 + 50);
}

TEST(test_claims_beyond_the_limit_are_refused)
{
    uint64_t client = 0;
    harness.config.federation.limits.num_examples = 5000;
    start_with(&client, 1, true);
    for (uint64_t claim = 5001; claim <= UINT32_MAX; claim = 2 * claim + 1) {
        const tern_CheckinRequest request =
            evaluated(0, &(struct report){.num_examples = (uint32_t)claim, .accuracy = 0.1F});
        struct answer answer = put_checkin(&harness, client, &request);
        assert_int_equal(answer.status, 422);
        assert_true(has(&answer, "At most 5000 are allowed (limits.num_examples)."));
        answer_free(&answer);
    }
    assert_int_equal(newest().num_examples, 0);
    tell(client, &(struct report){.num_examples = 5000, .accuracy = 0.1F});
    assert_int_equal(newest().num_examples, 5000);
}

TEST(test_who_trains_tells_no_accuracy)
{
    uint64_t client = 0;
    start_with(&client, 1, false);
    tell(client, &(struct report){.num_examples = 10, .accuracy = 1.0F, .name = "f1_macro"});
    assert_int_equal(newest().num_examples, 0);
}

// --- Rows of metrics

static uint32_t count_metrics(uint64_t client, const char *name)
{
    uint32_t count = 0;
    struct tern_db_metric metric;
    struct tern_db *db = harness_look(&harness);
    struct tern_db_rows *rows = tern_db_evaluation_metrics_from(db, 0);
    while (tern_db_next(rows, &metric)) {
        count += metric.client == client && (name == NULL || strcmp(metric.name, name) == 0);
    }
    assert_int_equal(tern_db_end(rows), TERN_OK);
    tern_db_close(db);
    return count;
}

TEST(test_ever_new_names_replace_each_other)
{
    uint64_t clients[2];
    start_with(clients, 2, true);
    tell(clients[1], &(struct report){.num_examples = 10, .name = "f1_macro", .value = 0.5F});
    char name[TERN_DB_METRIC_MAX] = "";
    for (int i = 0; i < 200; i++) {
        snprintf(name, sizeof name, "name_%u", (unsigned)i % 1000);
        tell(clients[0], &(struct report){.num_examples = 10, .name = name});
        assert_int_equal(count_metrics(clients[0], NULL), 1);
        assert_int_equal(count_metrics(clients[0], name), 1);
    }
    assert_int_equal(count_metrics(clients[1], "f1_macro"), 1);
    tell(clients[0], &(struct report){.num_examples = 10}); // a set of none
    assert_int_equal(count_metrics(clients[0], NULL), 0);
}
