// Local steps, codecs and selection through the service: what clients are given, what is stored of
// it, and that a restart changes nothing.
#include "harness.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
// cmocka wants the headers above first.
#include <cmocka.h>

static struct harness harness;

static int setup(void **state)
{
    (void)state;
    harness_make(&harness);
    harness.config.federation.steps = (struct tern_steps_settings){.local_steps = 20,
                                                                   .min_steps = 1,
                                                                   .max_steps = 1000,
                                                                   .fraction = 0.5,
                                                                   .interval = 1,
                                                                   .gamma = 0.5,
                                                                   .min_density = 0.002};
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    harness_free(&harness);
    return 0;
}

static void set_policy(const char *name)
{
    assert_int_equal(tern_steps_policy_from_name(name, &harness.config.federation.steps.policy),
                     TERN_OK);
}

static void set_codec(const char *spec)
{
    assert_int_equal(tern_codec_parse(spec, &harness.config.federation.codec_up, NULL), TERN_OK);
}

// --- What clients do

static tern_CheckinReply checkin_as(uint64_t client, const tern_CheckinRequest *request)
{
    uint8_t body[TERN_WIRE_MESSAGE_MAX];
    tern_CheckinReply reply;
    size_t len = 0;
    assert_int_equal(tern_wire_encode_checkin_request(request, body, sizeof body, &len), TERN_OK);
    struct answer answer =
        call(&harness, "POST", TERN_PATH_CHECKIN, harness.tokens[client], body, len);
    assert_int_equal(answer.status, 200);
    assert_int_equal(tern_wire_decode_checkin_reply(answer.body->data, answer.body->len, &reply,
                                                    &(struct tern_span){0}),
                     TERN_OK);
    answer_free(&answer);
    return reply;
}

struct report {
    float value; // of the whole update
    float loss;
    uint32_t num_examples;
    uint32_t local_steps; // 0: as many as asked
    uint32_t train_ms;
};

// Answers a task; returns the status.
static int report(uint64_t client, const tern_Task *task, const struct report *what)
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

static tern_Task task_of(uint64_t client)
{
    tern_CheckinReply reply = checkin(&harness, client, NULL);
    assert_true(reply.has_task);
    return reply.task;
}

// --- What is stored

static struct tern_db *peek(void)
{
    struct tern_db *db = NULL;
    char why[256];
    assert_int_equal(tern_db_open(harness.path, &db, why), TERN_OK);
    return db;
}

static struct tern_db_schedule schedule_of(uint64_t client)
{
    struct tern_db_schedule row;
    struct tern_db *db = peek();
    assert_int_equal(tern_db_schedule_get(db, client, &row), TERN_OK);
    tern_db_close(db);
    return row;
}

static struct tern_db_round round_of(uint32_t round)
{
    struct tern_db_round row;
    struct tern_db *db = peek();
    assert_int_equal(tern_db_round_get(db, round, &row), TERN_OK);
    tern_db_close(db);
    return row;
}

static struct tern_db_client client_row(uint64_t client)
{
    struct tern_db_client row;
    struct tern_db *db = peek();
    assert_int_equal(tern_db_client_get(db, client, &row), TERN_OK);
    tern_db_close(db);
    return row;
}

// --- Unequal speeds

// Speeds are measured; there is none before a client's first report.
static void test_slow_clients_get_fewer_steps(void **state)
{
    (void)state;
    set_policy("deadline");
    harness_start(&harness);
    uint64_t fast = enroll(&harness, false);
    uint64_t slow = enroll(&harness, false);
    const tern_CheckinRequest nothing = tern_CheckinRequest_init_zero;
    checkin_as(fast, &nothing);
    tern_Task task = checkin_as(slow, &nothing).task;
    assert_int_equal(task.local_steps, 20);
    assert_string_equal(schedule_of(slow).reason, "deadline: speed not known yet");
    harness_restart(&harness);
    assert_true(client_row(slow).steps_per_second == 0.0F);
    assert_int_equal(report(slow, &task, &(struct report){1.0F, 1.0F, 10, 0, 20000}), 200);
    task = checkin_as(fast, &nothing).task;
    assert_int_equal(task.local_steps, 20);
    assert_int_equal(report(fast, &task, &(struct report){1.0F, 1.0F, 10, 0, 2000}), 200);

    task = checkin_as(slow, &nothing).task;
    assert_int_equal(task.round, 2);
    assert_int_equal(task.local_steps, 30); // 1/s x 60 s x 0.5
    tern_Task other = checkin_as(fast, &nothing).task;
    assert_int_equal(other.local_steps, 300); // 10/s
    struct tern_db_schedule row = schedule_of(slow);
    assert_int_equal(row.local_steps, task.local_steps);
    assert_string_equal(row.policy, "deadline");
    assert_int_equal(row.updated_ms, test_now());
    assert_string_equal(row.reason, "deadline: 1.00 steps/s x 60.00 s x 0.50");

    // The window is what is left of it.
    report(slow, &task, &(struct report){1.0F, 1.0F, 10, 0, 40000});
    assert_int_equal(task_of(fast).local_steps, other.local_steps); // a task stays what it is
}

static void test_one_that_does_fewer_is_taken_as_it_reports(void **state)
{
    (void)state;
    float weights[2000];
    uint8_t replica[TERN_SHA256_SIZE];
    harness.config.federation.strategy = tern_strategy_find("fednova");
    assert_non_null(harness.config.federation.strategy);
    harness_start(&harness);
    uint64_t whole = enroll(&harness, false);
    uint64_t part = enroll(&harness, false);
    tern_Task task = task_of(whole);
    tern_Task same = task_of(part);
    assert_int_equal(same.local_steps, 20);
    // One step in each direction a step: 20 of +0.05 and 5 of -0.05. Each step counts alike.
    assert_int_equal(report(part, &same, &(struct report){-0.25F, 1.0F, 10, 5, 100}), 200);
    assert_int_equal(report(whole, &task, &(struct report){1.0F, 1.0F, 10, 20, 100}), 200);
    seed_replica(&harness, replica, weights);
    float before = weights[0];
    tern_CheckinReply next = checkin(&harness, whole, replica);
    apply_downloads(&harness, &next.task, weights, replica, harness.tokens[whole]);
    assert_true(fabsf(weights[0] - before) < 1e-6F);
    assert_true(fabsf(round_of(1).local_steps - 12.5F) < 1e-6F);

    // More than asked is refused and changes nothing.
    task = task_of(part);
    assert_int_equal(report(part, &task, &(struct report){1.0F, 1.0F, 10, 21, 100}), 422);
    assert_int_equal(report(part, &task, &(struct report){1.0F, 1.0F, 10, 20, 100}), 200);
}

// The round ends at its deadline with the quorum; the straggler is invited again.
static void test_a_straggler_does_not_hold_the_round(void **state)
{
    (void)state;
    set_policy("deadline");
    harness.config.federation.round.cohort = 3;
    harness.config.federation.round.quorum = 2;
    harness.config.federation.min_clients = 3;
    harness_start(&harness);
    uint64_t clients[3];
    for (int i = 0; i < 3; i++) {
        clients[i] = enroll(&harness, false);
        checkin(&harness, clients[i], NULL);
    }
    tern_Task late = task_of(clients[2]);
    for (int i = 0; i < 2; i++) {
        tern_Task task = task_of(clients[i]);
        assert_int_equal(report(clients[i], &task, &(struct report){0.1F, 1.0F, 10, 0, 1000}), 200);
    }
    assert_false(checkin(&harness, clients[0], NULL).has_task);
    test_advance(60001);
    tern_Task next = task_of(clients[0]);
    assert_int_equal(next.round, 2);
    assert_int_equal(round_of(1).applied, 2);
    assert_int_equal(report(clients[2], &late, &(struct report){0.1F, 1.0F, 10, 0, 60000}), 410);
    assert_int_equal(task_of(clients[2]).round, 2);
}

// --- Adaptive and variance

// Runs rounds whose losses fall and returns each one's local steps; restarts where the bit is set.
static void run(uint32_t rounds, uint32_t restarts, uint32_t *steps)
{
    harness_start(&harness);
    uint64_t one = enroll(&harness, false);
    uint64_t two = enroll(&harness, false);
    checkin(&harness, one, NULL);
    checkin(&harness, two, NULL);
    for (uint32_t round = 0; round < rounds; round++) {
        float loss = 2.0F / (1.0F + 0.3F * (float)round);
        float spread = 0.01F * (float)(1 + round % 3);
        tern_Task task = task_of(one);
        assert_int_equal(report(one, &task, &(struct report){spread, loss, 10, 0, 100}), 200);
        if ((restarts >> round & 1) != 0) {
            harness_restart(&harness);
        }
        steps[round] = task.local_steps;
        task = task_of(two);
        assert_int_equal(task.local_steps, steps[round]);
        assert_int_equal(report(two, &task, &(struct report){-spread / 3, loss, 30, 0, 100}), 200);
        if ((restarts >> round & 2) != 0) {
            harness_restart(&harness);
        }
    }
}

#define ROUNDS 10

static void expect_restarts_to_change_nothing(const char *policy, uint32_t steps[ROUNDS])
{
    uint32_t again[ROUNDS];
    struct tern_db_round rows[ROUNDS];
    set_policy(policy);
    run(ROUNDS, 0, steps);
    for (uint32_t i = 0; i < ROUNDS; i++) {
        rows[i] = round_of(i + 1);
    }
    struct tern_steps_settings settings = harness.config.federation.steps;
    harness_free(&harness);
    harness_make(&harness);
    harness.config.federation.steps = settings;
    run(ROUNDS, 0xffffffffu, again);
    assert_memory_equal(steps, again, sizeof again);
    for (uint32_t i = 0; i < ROUNDS; i++) {
        struct tern_db_round row = round_of(i + 1);
        assert_true(row.variance == rows[i].variance);
        assert_true(row.local_steps == rows[i].local_steps);
        assert_true(row.mean_loss == rows[i].mean_loss);
        assert_true(row.median_loss == rows[i].median_loss);
    }
}

static void test_adaptive_follows_the_loss_also_over_restarts(void **state)
{
    (void)state;
    uint32_t steps[ROUNDS];
    expect_restarts_to_change_nothing("adaptive", steps);
    assert_int_equal(steps[0], 20);
    assert_int_equal(steps[1], 20); // the first loss alone
    assert_int_equal(steps[2], 18); // sqrt(1 / 1.3) x 20
    assert_int_equal(steps[3], 16); // sqrt(1 / 1.6) x 20
    assert_non_null(strstr(schedule_of(1).reason, "adaptive: loss "));
}

// One that says whatever it likes decides nothing, also not for ever after by the first round's
// loss.
static void test_no_single_loss_sets_the_steps(void **state)
{
    (void)state;
    static const float lies[] = {3e38F, -3e38F, 1e-30F};
    for (size_t i = 0; i < sizeof lies / sizeof lies[0]; i++) {
        struct tern_steps_settings settings = harness.config.federation.steps;
        harness_free(&harness);
        harness_make(&harness);
        harness.config.federation.steps = settings;
        harness.config.federation.round.cohort = 3;
        harness.config.federation.min_clients = 3;
        set_policy("adaptive");
        harness_start(&harness);
        uint64_t clients[3];
        for (int j = 0; j < 3; j++) {
            clients[j] = enroll(&harness, false);
        }
        for (uint32_t round = 1; round <= 2; round++) {
            float honest = round == 1 ? 2.0F : 0.5F;
            const float losses[] = {honest, lies[i], honest};
            for (int j = 0; j < 3; j++) {
                tern_Task task = task_of(clients[j]);
                assert_int_equal(task.local_steps, 20);
                assert_int_equal(
                    report(clients[j], &task, &(struct report){0.1F, losses[j], 10, 0, 100}), 200);
            }
            assert_true(round_of(round).median_loss == honest);
            harness_restart(&harness);
        }
        assert_int_equal(task_of(clients[0]).local_steps, 10); // sqrt(0.5 / 2) x 20
    }
}

// Of an even number the lower of the middle two.
static void test_median_of_two_losses(void **state)
{
    (void)state;
    harness_start(&harness);
    uint64_t one = enroll(&harness, false);
    uint64_t two = enroll(&harness, false);
    tern_Task task = task_of(one);
    assert_int_equal(report(one, &task, &(struct report){0.1F, 3.0F, 10, 0, 100}), 200);
    task = task_of(two);
    assert_int_equal(report(two, &task, &(struct report){0.1F, 1.0F, 30, 0, 100}), 200);
    assert_true(round_of(1).median_loss == 1.0F);
    assert_true(round_of(1).mean_loss == 1.5F);
}

static void test_variance_is_measured_also_over_restarts(void **state)
{
    (void)state;
    uint32_t steps[ROUNDS];
    expect_restarts_to_change_nothing("variance", steps);
    // Mean of the squares less the square of the mean: of a with weight 1/4 and -a/3 with 3/4.
    double a = 0.01;
    double count = (double)harness.model.count;
    double expected = count * (a * a / 4 + 3 * (a * a / 9) / 4 - 0.0);
    assert_true(fabs((double)round_of(1).variance - expected) < 1e-4 * expected);
    assert_int_equal(steps[0], 20);
    assert_int_equal(steps[1], 20); // it sets the threshold
    assert_int_equal(steps[2], 10); // twice the spread: half the steps
}

// What a step carries under momentum: steps of size 1, 1 + rho, ... (FedNova's |a|).
static double carried(uint32_t steps, double rho)
{
    double velocity = 0.0;
    double sum = 0.0;
    for (uint32_t i = 0; i < steps; i++) {
        velocity = rho * velocity + 1.0;
        sum += velocity;
    }
    return sum;
}

// The mean that is spread around is FedNova's, with the clients' momentum.
static void test_variance_is_that_of_updates_as_they_are_weighed(void **state)
{
    (void)state;
    const double rho = 0.9;
    set_policy("variance");
    harness.config.federation.strategy = &tern_strategy_fednova;
    harness.config.federation.strategy_parameters[TERN_STRATEGY_LOCAL_MOMENTUM] = (float)rho;
    harness_start(&harness);
    uint64_t one = enroll(&harness, false);
    uint64_t two = enroll(&harness, false);
    checkin(&harness, one, NULL);
    tern_Task task = task_of(two);
    tern_Task other = task_of(one);
    assert_int_equal(report(one, &other, &(struct report){0.02F, 1.0F, 10, 4, 100}), 200);
    assert_int_equal(report(two, &task, &(struct report){0.01F, 1.0F, 30, 0, 100}), 200);
    double norm = carried(4, rho) / 4 + 3 * carried(task.local_steps, rho) / 4;
    double a = 0.02 * norm / carried(4, rho);
    double b = 0.01 * norm / carried(task.local_steps, rho);
    double mean = a / 4 + 3 * b / 4;
    double expected = (double)harness.model.count * (a * a / 4 + 3 * b * b / 4 - mean * mean);
    assert_true(fabs((double)round_of(1).variance - expected) < 1e-3 * expected);
}

// What the server makes of the mean, with momentum from the rounds before, is not what is spread around.
static void test_variance_is_that_before_server_momentum(void **state)
{
    (void)state;
    set_policy("variance");
    harness.config.federation.strategy = &tern_strategy_fedavgm;
    harness.config.federation.strategy_parameters[TERN_STRATEGY_SERVER_MOMENTUM] = 0.9F;
    harness.config.federation.server_learning_rate = 0.5F;
    harness_start(&harness);
    uint64_t one = enroll(&harness, false);
    uint64_t two = enroll(&harness, false);
    checkin(&harness, one, NULL);
    checkin(&harness, two, NULL);
    for (uint32_t round = 1; round <= 3; round++) {
        tern_Task task = task_of(one);
        assert_int_equal(report(one, &task, &(struct report){0.03F, 1.0F, 10, 0, 100}), 200);
        task = task_of(two);
        assert_int_equal(report(two, &task, &(struct report){0.01F, 1.0F, 10, 0, 100}), 200);
        double expected = (double)harness.model.count * 0.01 * 0.01; // 0.02 more or less 0.01
        assert_true(fabs((double)round_of(round).variance - expected) < 1e-3 * expected);
    }
}

// --- Budgets

static const tern_CheckinRequest rich = {.budgeted = true, .budget_left = 100000000};

// As the listener would have counted its last round.
static void meter(uint64_t client, uint32_t round, uint64_t update, uint64_t other)
{
    struct tern_db_meter row = {.client = client,
                                .round = round,
                                .purpose = TERN_PURPOSE_UPLOAD,
                                .up = {update, update, update, update},
                                .down = {0, 0, 0, other},
                                .exchanges = 1};
    struct tern_db *db = peek();
    assert_int_equal(tern_db_begin(db), TERN_OK);
    assert_int_equal(tern_db_meter_add(db, &row), TERN_OK);
    assert_int_equal(tern_db_commit(db), TERN_OK);
    tern_db_close(db);
}

static uint32_t update_bytes_of(uint64_t client)
{
    struct tern_db_ledger row;
    struct tern_db *db = peek();
    assert_int_equal(tern_db_ledger_get(db, client, &row), TERN_OK);
    tern_db_close(db);
    return row.update_bytes;
}

// As the listener counts it, before the store is written.
static void count(uint64_t client, uint32_t round, uint64_t update, uint64_t other)
{
    const struct tern_http_tag tag = {
        .client = client, .round = round, .purpose = TERN_PURPOSE_UPLOAD};
    const struct tern_bytes up = {update, update, update, update};
    const struct tern_bytes down = {0, 0, 0, other};
    harness.handler.on_metered(harness.handler.ctx, &tag, &up, &down);
}

static void start_budgets(void)
{
    set_policy("budget");
    set_codec("density:p=0.2,coder=range");
    harness.config.federation.round.rounds = 101;
    harness_start(&harness);
}

// The first client's next task is decided at its check-in, the second's with the answer to its
// update.
static void play_first_round(uint64_t one, uint64_t two)
{
    checkin_as(one, &rich);
    checkin(&harness, two, NULL);
    uint64_t clients[] = {one, two};
    for (int i = 0; i < 2; i++) {
        tern_Task task = i == 0 ? checkin_as(one, &rich).task : task_of(two);
        assert_string_equal(task.codec, "density:p=0.2,coder=range");
        assert_int_equal(report(clients[i], &task, &(struct report){0.1F, 1.0F, 10, 0, 100}), 200);
    }
}

static void test_a_budget_lowers_the_density(void **state)
{
    (void)state;
    start_budgets();
    uint64_t poor = enroll(&harness, false);
    uint64_t none = enroll(&harness, false);
    play_first_round(poor, none);
    uint64_t update = update_bytes_of(poor);
    meter(poor, 1, update, 1000);
    // For each of 100 rounds, in each of which it takes part, 1000 B and a quarter of an update.
    tern_CheckinRequest request = {.budgeted = true, .budget_left = 100000 + 25 * update};
    tern_Task task = checkin_as(poor, &request).task;
    assert_string_equal(task.codec, "density:p=0.02,coder=range");
    assert_in_range(task.local_steps, 20, 30); // the update is the smaller part of a round
    struct tern_db_schedule row = schedule_of(poor);
    assert_string_equal(row.policy, "budget");
    assert_string_equal(row.codec, task.codec);
    assert_non_null(strstr(row.reason, "KB left, 1.0"));
    assert_in_range(row.bytes, 1000 + update / 8, 1000 + update / 4);
    assert_in_range(row.least_bytes, 1001, 1000 + update / 8);
    // Another has none, and a device that knows no density keeps the round's codec.
    assert_string_equal(checkin(&harness, none, NULL).task.codec, "density:p=0.2,coder=range");
    assert_string_equal(schedule_of(none).reason, "budget: none");
    // What it said outlasts the process, like the rest of what is known of it.
    harness_restart(&harness);
    assert_true(client_row(poor).budgeted);
    assert_int_equal(client_row(poor).budget_left, request.budget_left);
    assert_string_equal(task_of(poor).codec, "density:p=0.02,coder=range");
}

// Its next task comes sooner than the store has what its last round took.
static void test_bytes_count_before_they_are_written(void **state)
{
    (void)state;
    start_budgets();
    uint64_t poor = enroll(&harness, false);
    uint64_t none = enroll(&harness, false);
    play_first_round(poor, none);
    uint64_t update = update_bytes_of(poor);
    meter(poor, 1, 0, 400);
    count(poor, 1, update, 2600);
    tern_CheckinRequest request = {.budgeted = true, .budget_left = 300000 + 25 * update};
    assert_string_equal(checkin_as(poor, &request).task.codec, "density:p=0.02,coder=range");
    struct tern_db_schedule row = schedule_of(poor);
    assert_in_range(row.bytes, 3000 + update / 8, 3000 + update / 4);
}

// Of 101 rounds a trainer is invited to its share: the budget is spread over these alone.
static void expect_share(double over_selection, const char *allowance)
{
    enum { CLIENTS = 4 };
    uint64_t clients[CLIENTS];
    uint32_t tasks = 0;
    harness.config.federation.round.cohort = 2;
    harness.config.federation.round.over_selection = over_selection;
    harness.config.federation.min_clients = CLIENTS;
    start_budgets();
    enroll(&harness, true); // an evaluator trains in no round
    for (int i = 0; i < CLIENTS; i++) {
        clients[i] = enroll(&harness, false);
    }
    for (int i = 0; i < 2 * CLIENTS; i++) { // the last check-in of the first turn opens the round
        const tern_CheckinRequest request = {.budgeted = true, .budget_left = 1000000};
        if (checkin_as(clients[i % CLIENTS], &request).has_task) {
            assert_non_null(strstr(schedule_of(clients[i % CLIENTS]).reason, allowance));
            tasks++;
        }
    }
    assert_true(tasks >= 2);
}

static void test_a_budget_is_spread_over_the_rounds_a_client_takes_part_in(void **state)
{
    (void)state;
    expect_share(0.0, "1.00 MB left, 19.80 KB a round,"); // 101 x 2 of 4
}

static void test_who_is_invited_to_spare_takes_part_as_well(void **state)
{
    (void)state;
    expect_share(0.5, "1.00 MB left, 13.20 KB a round,"); // 101 x 3 of 4
}

// The rounds of those who have no bytes left fall to the others, whose bytes are then spread over
// more; after a restart as well.
static void test_others_make_up_for_who_is_spent(void **state)
{
    (void)state;
    enum { CLIENTS = 4 };
    const tern_CheckinRequest has = {.budgeted = true, .budget_left = 1000000};
    const tern_CheckinRequest spent = {.budgeted = true, .budget_left = 1};
    uint64_t clients[CLIENTS];
    tern_CheckinReply first[CLIENTS];
    harness.config.federation.round.cohort = 2;
    harness.config.federation.min_clients = CLIENTS;
    start_budgets();
    for (int i = 0; i < CLIENTS; i++) {
        clients[i] = enroll(&harness, false);
        checkin_as(clients[i], &has);
    }
    for (int i = 0; i < CLIENTS; i++) {
        first[i] = checkin_as(clients[i], &has);
        if (first[i].has_task) {
            checkin_as(clients[i], &spent);
        }
    }
    for (int i = 0; i < CLIENTS; i++) {
        if (first[i].has_task) {
            assert_int_equal(
                report(clients[i], &first[i].task, &(struct report){0.1F, 1.0F, 10, 0, 100}), 200);
        }
    }
    harness_restart(&harness);
    for (int i = 0; i < CLIENTS; i++) {
        if (!first[i].has_task) {
            tern_CheckinReply reply = checkin_as(clients[i], &has);
            assert_true(reply.has_task);
            assert_int_equal(reply.task.round, 2);
            assert_non_null(strstr(schedule_of(clients[i]).reason,
                                   "1.00 MB left, 10.00 KB a round,")); // all 100
        }
    }
}

// A budget of each round is reported as large again; one of the month shrinks, also in rounds whose
// tasks came with the answers to updates and needed no check-in.
static void test_budgets_of_rounds_and_of_months(void **state)
{
    (void)state;
    start_budgets();
    uint64_t monthly = enroll(&harness, false);
    uint64_t each = enroll(&harness, false);
    tern_CheckinRequest request = {.budgeted = true, .budget_left = 500000};
    checkin_as(monthly, &request);
    checkin_as(each, &request);
    for (uint32_t round = 1; round <= 3; round++) {
        tern_Task task = checkin_as(each, &request).task; // as much as before
        assert_int_equal(task.round, round);
        assert_int_equal(report(each, &task, &(struct report){0.1F, 1.0F, 10, 0, 100}), 200);
        tern_CheckinReply now = checkin_as(
            monthly, &(tern_CheckinRequest){.budgeted = true, .budget_left = 500000 - round});
        assert_int_equal(report(monthly, &now.task, &(struct report){0.1F, 1.0F, 10, 0, 100}), 200);
    }
    checkin_as(each, &request);
    assert_non_null(strstr(schedule_of(each).reason, "500.00 KB left, 500.00 KB a round"));
    // Its next task came with the last answer: less than it said, by a round.
    struct tern_db_schedule row = schedule_of(monthly);
    assert_true(row.bytes > 0);
    assert_null(strstr(row.reason, "500.00 KB left"));
    harness_restart(&harness);
    assert_int_equal(client_row(monthly).budget_left, 499997);
    assert_int_equal(client_row(monthly).budget_spent, row.bytes);
    assert_false(client_row(monthly).budget_renewed);
    assert_true(client_row(each).budget_renewed);
}

// At a month's turn a month's budget is large again, like one of each round, which it is not.
static void test_a_months_turn_is_not_taken_for_a_budget_of_each_round(void **state)
{
    (void)state;
    start_budgets();
    uint64_t monthly = enroll(&harness, false);
    uint64_t each = enroll(&harness, false);
    tern_CheckinRequest request = {.budgeted = true, .budget_left = 500000};
    tern_CheckinRequest shrinking = request;
    checkin_as(monthly, &request);
    checkin_as(each, &request);
    for (uint32_t round = 1; round <= 2; round++) {
        tern_Task task = checkin_as(each, &request).task;
        assert_int_equal(report(each, &task, &(struct report){0.1F, 1.0F, 10, 0, 100}), 200);
        task = checkin_as(monthly, &shrinking).task;
        assert_int_equal(report(monthly, &task, &(struct report){0.1F, 1.0F, 10, 0, 100}), 200);
        shrinking.budget_left -= 10000;
    }
    assert_true(client_row(monthly).budget_spent > 0);
    test_advance(UINT64_C(20) * 86400000); // from the middle of a month
    tern_Task turned = checkin_as(monthly, &request).task;
    assert_int_equal(report(monthly, &turned, &(struct report){0.1F, 1.0F, 10, 0, 100}), 200);
    tern_Task task = checkin_as(each, &request).task;
    assert_int_equal(report(each, &task, &(struct report){0.1F, 1.0F, 10, 0, 100}), 200);
    harness_restart(&harness);
    assert_false(client_row(monthly).budget_renewed);
    assert_true(client_row(each).budget_renewed);
}

static void test_codecs_that_a_client_lacks_are_not_asked_for(void **state)
{
    (void)state;
    set_policy("budget");
    set_codec("3lc:s=1,coder=zero-run");
    harness_start(&harness);
    uint64_t small = enroll(&harness, false);
    uint64_t large = enroll(&harness, false);
    tern_CheckinRequest request = {.budgeted = true,
                                   .budget_left = 5000,
                                   .codecs = 1u << TERN_CODEC_FLOAT32 | 1u << TERN_CODEC_3LC};
    checkin_as(small, &request);
    request.codecs = 0;
    tern_Task task = checkin_as(large, &request).task;
    assert_string_equal(task.codec, "density:p=0.002,coder=zero-run");
    request.codecs = 1u << TERN_CODEC_FLOAT32 | 1u << TERN_CODEC_3LC;
    assert_string_equal(checkin_as(small, &request).task.codec, "3lc:s=1");
}

static void test_who_has_no_bytes_left_is_not_invited(void **state)
{
    (void)state;
    harness.config.federation.round.cohort = 1;
    harness.config.federation.selection = TERN_SELECTION_BUDGET;
    harness_start(&harness);
    uint64_t one = enroll(&harness, false);
    uint64_t two = enroll(&harness, false);
    checkin_as(one, &rich);
    checkin_as(two, &rich);
    uint32_t tasks[3] = {0};
    for (uint32_t round = 1; round <= 12; round++) {
        // Once it has been measured, one can afford not a single round more.
        tern_CheckinRequest poor = {.budgeted = true, .budget_left = tasks[one] > 1 ? 500 : 50000};
        tern_CheckinReply reply = checkin_as(one, &poor);
        uint64_t client = reply.has_task ? one : two;
        reply = reply.has_task ? reply : checkin_as(two, &rich);
        assert_true(reply.has_task);
        assert_int_equal(report(client, &reply.task, &(struct report){0.1F, 1.0F, 10, 0, 100}),
                         200);
        meter(client, reply.task.round, 1000, 1000);
        tasks[client]++;
    }
    assert_true(tasks[one] >= 1 && tasks[one] <= 3);
    assert_int_equal(tasks[one] + tasks[two], 12);
}

// Two are needed, and one of them has no bytes left, which is known once its round was measured.
static void test_no_round_below_the_quorum(void **state)
{
    (void)state;
    const tern_CheckinRequest none = {.budgeted = true, .budget_left = 0};
    harness.config.federation.round.cohort = 2;
    harness.config.federation.round.quorum = 2;
    harness.config.federation.selection = TERN_SELECTION_BUDGET;
    harness_start(&harness);
    const uint64_t one = enroll(&harness, false);
    const uint64_t two = enroll(&harness, false);
    checkin_as(one, &rich);
    checkin_as(two, &rich);
    for (int i = 0; i < 4; i++) {
        const uint64_t client = i % 2 == 0 ? one : two;
        tern_CheckinReply reply = checkin_as(client, &rich);
        assert_true(reply.has_task);
        if (i == 3) {
            checkin_as(one, &none);
        }
        assert_int_equal(report(client, &reply.task, &(struct report){0.1F, 1.0F, 10, 0, 100}),
                         200);
        meter(client, reply.task.round, 1000, 1000);
    }
    for (int turn = 0; turn < 5; turn++) {
        test_advance(60001);
        assert_false(checkin_as(one, &none).has_task);
        assert_false(checkin_as(two, &rich).has_task);
    }
    bool task = false;
    for (int turn = 0; turn < 5 && !task; turn++) {
        test_advance(60001);
        task = checkin_as(one, &rich).has_task || checkin_as(two, &rich).has_task;
    }
    assert_true(task);
}

// --- Availability

static void test_availability_prefers_mains_power(void **state)
{
    (void)state;
    enum { CLIENTS = 20 };
    uint64_t clients[CLIENTS];
    uint32_t tasks[2] = {0};
    harness.config.federation.round.cohort = 2;
    harness.config.federation.selection = TERN_SELECTION_AVAILABILITY;
    harness_start(&harness);
    tern_CheckinRequest facts[2] = {{.power = tern_Power_POWER_MAINS},
                                    {.power = tern_Power_POWER_BATTERY, .metered = true}};
    for (int i = 0; i < CLIENTS; i++) {
        clients[i] = enroll(&harness, false);
    }
    for (int round = 0; round < 60; round++) {
        int done = 0;
        for (int i = 0; i < CLIENTS && done < 2; i++) {
            tern_CheckinReply reply = checkin_as(clients[i], &facts[i % 2]);
            if (reply.has_task) {
                done++;
                tasks[i % 2]++;
                report(clients[i], &reply.task, &(struct report){0.1F, 1.0F, 10, 0, 100});
            }
        }
        for (int i = 0; i < CLIENTS; i++) { // so that all are as recent
            checkin_as(clients[i], &facts[i % 2]);
        }
    }
    assert_true(tasks[0] > 2 * tasks[1]); // four times as likely
    assert_true(tasks[1] > 6);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_slow_clients_get_fewer_steps),
        TEST(test_one_that_does_fewer_is_taken_as_it_reports),
        TEST(test_a_straggler_does_not_hold_the_round),
        TEST(test_adaptive_follows_the_loss_also_over_restarts),
        TEST(test_no_single_loss_sets_the_steps),
        TEST(test_median_of_two_losses),
        TEST(test_variance_is_measured_also_over_restarts),
        TEST(test_variance_is_that_of_updates_as_they_are_weighed),
        TEST(test_variance_is_that_before_server_momentum),
        TEST(test_a_budget_lowers_the_density),
        TEST(test_bytes_count_before_they_are_written),
        TEST(test_a_budget_is_spread_over_the_rounds_a_client_takes_part_in),
        TEST(test_who_is_invited_to_spare_takes_part_as_well),
        TEST(test_others_make_up_for_who_is_spent),
        TEST(test_budgets_of_rounds_and_of_months),
        TEST(test_a_months_turn_is_not_taken_for_a_budget_of_each_round),
        TEST(test_codecs_that_a_client_lacks_are_not_asked_for),
        TEST(test_who_has_no_bytes_left_is_not_invited),
        TEST(test_no_round_below_the_quorum),
        TEST(test_availability_prefers_mains_power),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
