// Who may be drawn, and how evenly rounds fall.
#include "rounds/selection.h"
#include "rounds/spread.h"
#include "tests/cases.h"

#include <math.h>
#include <string.h>

#define CLIENTS 100

static double chances[CLIENTS + 1]; // by id

static struct tern_selection_chance chance_of(const void *ctx, uint64_t id)
{
    const double *affords = ctx;
    return (struct tern_selection_chance){chances[id], affords != NULL ? affords[id] : 1.0};
}

static const struct tern_selection_need ten = {.wanted = 10};

static uint32_t list(uint64_t *ids)
{
    for (uint32_t i = 0; i < CLIENTS; i++) {
        ids[i] = i + 1;
    }
    return CLIENTS;
}

static void set_chances(uint32_t first, uint32_t last, double chance)
{
    for (uint32_t id = first; id <= last; id++) {
        chances[id] = chance;
    }
}

CASE(test_names)
{
    enum tern_client_selection selection = TERN_SELECTION_RANDOM;
    assert_int_equal(tern_selection_from_name("budget-aware", &selection), TERN_OK);
    assert_int_equal(selection, TERN_SELECTION_BUDGET);
    assert_int_equal(tern_selection_from_name("availability", &selection), TERN_OK);
    assert_int_equal(selection, TERN_SELECTION_AVAILABILITY);
    assert_int_equal(tern_selection_from_name("random", &selection), TERN_OK);
    assert_int_equal(selection, TERN_SELECTION_RANDOM);
    assert_int_equal(tern_selection_from_name("fair", &selection), TERN_ERR_UNKNOWN);
    assert_int_equal(tern_selection_from_name("", &selection), TERN_ERR_UNKNOWN);
}

CASE(test_availability)
{
    static const struct {
        struct tern_availability facts;
        double chance;
    } rows[] = {
        {{.age_ms = 0, .window_ms = 60000}, 1.0},
        {{.age_ms = 60000, .window_ms = 60000}, 1.0},
        {{.age_ms = 120000, .window_ms = 60000}, 0.5},
        {{.age_ms = UINT64_MAX, .window_ms = 60000}, 1.0 / 16},
        {{.age_ms = 0, .window_ms = 60000, .metered = true}, 0.5},
        {{.age_ms = 0, .window_ms = 60000, .metered = true, .battery = true}, 0.25},
        {{.age_ms = 120000, .window_ms = 60000, .metered = true, .battery = true}, 0.125},
        {{.age_ms = 5, .window_ms = 0}, 1.0 / 16},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        assert_true(tern_selection_availability(&rows[i].facts) == rows[i].chance);
    }
}

// How often each client is drawn into cohorts of 10 over many rounds.
static void count_draws(uint32_t *drawn, uint32_t rounds)
{
    memset(drawn, 0, (CLIENTS + 1) * sizeof drawn[0]);
    for (uint32_t round = 1; round <= rounds; round++) {
        uint64_t ids[CLIENTS];
        uint32_t count = tern_selection_filter(7, round, 1, ids, list(ids), &ten, chance_of, NULL);
        assert_true(count >= 10);
        tern_cohort_sample(7, round, 1, ids, count, 10);
        for (uint32_t i = 0; i < 10; i++) {
            drawn[ids[i]]++;
        }
    }
}

static uint32_t sum_of(const uint32_t *drawn, uint32_t first, uint32_t last)
{
    uint32_t sum = 0;
    for (uint32_t id = first; id <= last; id++) {
        sum += drawn[id];
    }
    return sum;
}

CASE(test_chances_are_kept)
{
    uint32_t drawn[CLIENTS + 1];
    set_chances(1, 50, 1.0);
    set_chances(51, 100, 0.25);
    count_draws(drawn, 2000);
    double ratio = (double)sum_of(drawn, 51, 100) / (double)sum_of(drawn, 1, 50);
    assert_true(ratio > 0.22 && ratio < 0.28);
    // Within a group nobody is preferred.
    for (uint32_t id = 1; id <= 50; id++) {
        assert_in_range(drawn[id], 250, 390); // of 320, whose deviation is some 16
    }
}

CASE(test_too_few_are_filled_up_alike)
{
    uint64_t ids[CLIENTS];
    uint32_t drawn[CLIENTS + 1];
    set_chances(1, 50, 0.001);
    set_chances(51, 90, 0.0005);
    set_chances(91, 100, 0.0); // they have not got the bytes
    count_draws(drawn, 2000);
    assert_int_equal(sum_of(drawn, 91, 100), 0);
    double ratio = (double)sum_of(drawn, 51, 90) / (double)sum_of(drawn, 1, 50);
    assert_true(ratio > 0.3 && ratio < 0.7); // 0.4, less where the doubled chances pass 1
    // More than there are who may.
    assert_int_equal(tern_selection_filter(7, 1, 1, ids, list(ids),
                                           &(struct tern_selection_need){.wanted = 95}, chance_of,
                                           NULL),
                     90);
    set_chances(1, 100, 0.0);
    assert_int_equal(tern_selection_filter(7, 1, 1, ids, list(ids), &ten, chance_of, NULL), 0);
    set_chances(1, 100, (double)NAN);
    assert_int_equal(tern_selection_filter(7, 1, 1, ids, list(ids), &ten, chance_of, NULL), 0);
    assert_int_equal(tern_selection_filter(7, 1, 1, ids, 0, &ten, chance_of, NULL), 0);
}

// Only as many rounds as a client can afford, but for what the quorum needs.
CASE(test_what_clients_afford_is_kept)
{
    double affords[CLIENTS + 1];
    uint64_t ids[CLIENTS];
    uint32_t in = 0;
    set_chances(1, 100, 0.5);
    for (uint32_t id = 1; id <= CLIENTS; id++) {
        affords[id] = id <= 50 ? 0.04 : 0.0;
    }
    const struct tern_selection_need wanted = {.wanted = 10};
    const struct tern_selection_need least = {.wanted = 10, .least = 3};
    for (uint32_t round = 1; round <= 2000; round++) {
        uint32_t count =
            tern_selection_filter(7, round, 1, ids, list(ids), &wanted, chance_of, affords);
        in += count;
        // Not better in the next draw of the same round.
        assert_int_equal(
            tern_selection_filter(7, round, 2, ids, list(ids), &wanted, chance_of, affords), count);
        uint32_t filled =
            tern_selection_filter(7, round, 1, ids, list(ids), &least, chance_of, affords);
        assert_int_equal(filled, count < 3 ? 3 : count);
    }
    assert_in_range(in, 3800, 4200); // 2 a round
}

CASE(test_draws_are_named_by_seed_round_and_attempt)
{
    uint64_t first[CLIENTS];
    uint64_t again[CLIENTS];
    set_chances(1, 100, 0.5);
    uint32_t count = tern_selection_filter(7, 3, 1, first, list(first), &ten, chance_of, NULL);
    for (uint32_t i = 1; i < count; i++) {
        assert_true(first[i - 1] < first[i]);
    }
    assert_int_equal(tern_selection_filter(7, 3, 1, again, list(again), &ten, chance_of, NULL),
                     count);
    assert_memory_equal(first, again, count * sizeof first[0]);
    const uint32_t others[][3] = {{8, 3, 1}, {7, 4, 1}, {7, 3, 2}};
    for (size_t i = 0; i < 3; i++) {
        uint32_t n = tern_selection_filter(others[i][0], others[i][1], others[i][2], again,
                                           list(again), &ten, chance_of, NULL);
        assert_true(n != count || memcmp(first, again, count * sizeof first[0]) != 0);
    }
    // Others coming and going do not change whether a client is in.
    set_chances(1, 20, 0.0);
    uint32_t fewer = tern_selection_filter(7, 3, 1, again, list(again), &ten, chance_of, NULL);
    uint32_t skipped = count - fewer;
    assert_memory_equal(first + skipped, again, fewer * sizeof first[0]);
}

CASE(test_fairness)
{
    static const struct {
        uint32_t rounds[4];
        uint32_t clients;
        uint32_t least, most;
        double median, jain;
    } rows[] = {
        {{0}, 0, 0, 0, 0.0, 1.0},
        {{0, 0, 0, 0}, 4, 0, 0, 0.0, 1.0},
        {{3, 3, 3, 3}, 4, 3, 3, 3.0, 1.0},
        {{0, 8, 0, 0}, 4, 0, 8, 0.0, 0.25},
        {{3, 1, 2}, 3, 1, 3, 2.0, 36.0 / 42.0},
        {{4, 1, 2, 1}, 4, 1, 4, 1.5, 64.0 / 88.0},
        {{UINT32_MAX, UINT32_MAX}, 2, UINT32_MAX, UINT32_MAX, 4294967295.0, 1.0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        uint32_t rounds[4];
        memcpy(rounds, rows[i].rounds, sizeof rounds);
        struct tern_fairness fairness = tern_fairness_of(rounds, rows[i].clients);
        assert_int_equal(fairness.least, rows[i].least);
        assert_int_equal(fairness.most, rows[i].most);
        assert_true(fabs(fairness.median - rows[i].median) < 1e-9);
        assert_true(fabs(fairness.jain - rows[i].jain) < 1e-12);
    }
}
