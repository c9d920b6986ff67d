// Who is drawn into a round: how many, reproducibly, evenly.
#include "rounds/selection.h"
#include "tests/cases.h"

#include <string.h>

static void fill(uint64_t *ids, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        ids[i] = i + 1;
    }
}

CASE(test_size)
{
    assert_int_equal(tern_cohort_size(10, 0.0, 50), 10);
    assert_int_equal(tern_cohort_size(10, 0.3, 50), 13);
    assert_int_equal(tern_cohort_size(10, 0.25, 50), 13); // 12.5, rounded up
    assert_int_equal(tern_cohort_size(10, 0.3, 11), 11);
    assert_int_equal(tern_cohort_size(10, 0.3, 0), 0);
    assert_int_equal(tern_cohort_size(1000000, 10.0, UINT32_MAX), 11000000);
}

CASE(test_target)
{
    assert_int_equal(tern_cohort_target(10, 0.0, 500), 10);
    assert_int_equal(tern_cohort_target(10, 0.1, 500), 50);
    assert_int_equal(tern_cohort_target(10, 0.1, 501), 51);
    assert_int_equal(tern_cohort_target(10, 0.1, 50), 10); // the cohort is more
    assert_int_equal(tern_cohort_target(10, 1.0, 500), 500);
    assert_int_equal(tern_cohort_target(1, 1e-9, 500), 1);
    assert_int_equal(tern_cohort_target(10, 0.5, 0), 10);
    assert_int_equal(tern_cohort_target(1, 1.0, UINT32_MAX), UINT32_MAX);
}

CASE(test_same_name_same_draw)
{
    uint64_t a[40];
    uint64_t b[40];
    fill(a, 40);
    fill(b, 40);
    tern_cohort_sample(7, 3, 1, a, 40, 10);
    tern_cohort_sample(7, 3, 1, b, 40, 10);
    assert_memory_equal(a, b, sizeof a);
    fill(b, 40);
    tern_cohort_sample(7, 3, 2, b, 40, 10); // another attempt
    assert_memory_not_equal(a, b, 10 * sizeof a[0]);
    fill(b, 40);
    tern_cohort_sample(7, 4, 1, b, 40, 10); // another round
    assert_memory_not_equal(a, b, 10 * sizeof a[0]);
    fill(b, 40);
    tern_cohort_sample(8, 3, 1, b, 40, 10); // another seed
    assert_memory_not_equal(a, b, 10 * sizeof a[0]);
}

CASE(test_draw_is_ascending_and_without_replacement)
{
    uint64_t ids[100];
    for (uint32_t round = 1; round < 200; round++) {
        fill(ids, 100);
        tern_cohort_sample(1, round, 1, ids, 100, 30);
        for (uint32_t i = 1; i < 30; i++) {
            assert_true(ids[i] > ids[i - 1]);
        }
        assert_true(ids[0] >= 1 && ids[29] <= 100);
    }
    fill(ids, 100);
    tern_cohort_sample(1, 1, 1, ids, 100, 100);
    for (uint32_t i = 0; i < 100; i++) {
        assert_int_equal(ids[i], i + 1);
    }
}

// 5 of 20 in 4000 rounds: 1000 times each on average, with a standard deviation of 27.
CASE(test_everybody_is_drawn_equally_often)
{
    uint32_t drawn[21] = {0};
    for (uint32_t round = 1; round <= 4000; round++) {
        uint64_t ids[20];
        fill(ids, 20);
        tern_cohort_sample(99, round, 1, ids, 20, 5);
        for (uint32_t i = 0; i < 5; i++) {
            drawn[ids[i]]++;
        }
    }
    for (uint32_t id = 1; id <= 20; id++) {
        assert_in_range(drawn[id], 870, 1130);
    }
}
