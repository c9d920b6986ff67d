// Local steps through the service: what clients are given, what is stored of it, and that a restart
// changes nothing.
#include <math.h>
#include <string.h>

#include "scheduled.h"
#include "tests/cases.h"

// --- Unequal speeds

#define TEST(name) CASE_WITH(name, setup, teardown)

// Speeds are measured; there is none before a client's first report.
TEST(test_slow_clients_get_fewer_steps)
{
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

TEST(test_one_that_does_fewer_is_taken_as_it_reports)
{
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
TEST(test_a_straggler_does_not_hold_the_round)
{
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

// A task that repeats the client's schedule writes nothing: the stored row keeps the time of its last change.
TEST(test_an_unchanged_schedule_is_not_written_again)
{
    harness_start(&harness);
    uint64_t one = enroll(&harness, false);
    uint64_t two = enroll(&harness, false);
    const uint64_t first_ms = test_now();
    task_of(one);
    for (uint32_t round = 1; round <= 3; round++) {
        tern_Task task = task_of(one);
        tern_Task other = task_of(two);
        assert_int_equal(task.round, round);
        assert_int_equal(schedule_of(one).updated_ms, first_ms);
        assert_int_equal(report(one, &task, &(struct report){0.1F, 1.0F, 10, 0, 100}), 200);
        assert_int_equal(report(two, &other, &(struct report){0.1F, 1.0F, 10, 0, 100}), 200);
        test_advance(1000);
    }
    set_policy("deadline");
    harness_restart(&harness);
    task_of(one);
    assert_int_equal(schedule_of(one).updated_ms, test_now());
}

// --- Adaptive, and what rounds come to

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

TEST(test_adaptive_follows_the_loss_also_over_restarts)
{
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
TEST(test_no_single_loss_sets_the_steps)
{
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

// The median of an even number of losses is the lower of the middle two.
TEST(test_median_of_two_losses)
{
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

TEST(test_variance_is_measured_also_over_restarts)
{
    uint32_t steps[ROUNDS];
    expect_restarts_to_change_nothing("fixed", steps);
    // Mean of the squares less the square of the mean: of a with weight 1/4 and -a/3 with 3/4.
    double a = 0.01;
    double count = (double)harness.model.count;
    double expected = count * (a * a / 4 + 3 * (a * a / 9) / 4 - 0.0);
    assert_true(fabs((double)round_of(1).variance - expected) < 1e-4 * expected);
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
TEST(test_variance_is_that_of_updates_as_they_are_weighed)
{
    const double rho = 0.9;
    harness.config.federation.strategy = &tern_strategy_fednova;
    harness.config.federation.train.momentum = (float)rho;
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
TEST(test_variance_is_that_before_server_momentum)
{
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
