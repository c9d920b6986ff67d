// The cheapest way to catch up.
#include "downloads/plan.h"
#include "tests/cases.h"

static uint32_t sizes[256];

static uint32_t size_of(void *ctx, uint32_t version)
{
    (void)ctx;
    assert_in_range(version, 1, 255);
    return sizes[version];
}

static enum tern_plan choose(uint32_t from, uint32_t to, uint32_t snapshot)
{
    struct tern_plan_client client = {.known = true, .version = from};
    return tern_plan_choose(&client, to, snapshot, size_of, NULL);
}

static int setup(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 256; i++) {
        sizes[i] = 100;
    }
    return 0;
}

CASE_WITH(test_choices, setup, NULL)
{
    assert_int_equal(choose(0, 0, 1000), TERN_PLAN_NOTHING);
    assert_int_equal(choose(7, 7, 1000), TERN_PLAN_NOTHING);
    assert_int_equal(choose(0, 9, 1000), TERN_PLAN_CHAIN);
    assert_int_equal(choose(0, 10, 1000), TERN_PLAN_CHAIN); // equal cost: the cache has the chain
    assert_int_equal(choose(0, 11, 1000), TERN_PLAN_SNAPSHOT);
    assert_int_equal(choose(5, 11, 1000), TERN_PLAN_CHAIN);
}

CASE_WITH(test_unknown_or_ahead_takes_a_snapshot, setup, NULL)
{
    struct tern_plan_client nothing = {.known = false};
    assert_int_equal(tern_plan_choose(&nothing, 3, UINT32_MAX, size_of, NULL), TERN_PLAN_SNAPSHOT);
    // The aggregator was restored from a backup.
    assert_int_equal(choose(9, 3, UINT32_MAX), TERN_PLAN_SNAPSHOT);
}

CASE_WITH(test_missing_delta_breaks_the_chain, setup, NULL)
{
    sizes[4] = 0;
    assert_int_equal(choose(2, 6, UINT32_MAX), TERN_PLAN_SNAPSHOT);
    assert_int_equal(choose(4, 6, UINT32_MAX), TERN_PLAN_CHAIN);
}

CASE_WITH(test_a_task_holds_so_many_downloads, setup, NULL)
{
    assert_int_equal(choose(0, TERN_PLAN_MAX, UINT32_MAX), TERN_PLAN_CHAIN);
    assert_int_equal(choose(0, TERN_PLAN_MAX + 1, UINT32_MAX), TERN_PLAN_SNAPSHOT);
}

// A small device announces how many it holds.
CASE_WITH(test_a_small_client_gets_no_longer_chain, setup, NULL)
{
    struct tern_plan_client small = {.known = true, .version = 2, .chain_max = 8};
    assert_int_equal(tern_plan_choose(&small, 10, UINT32_MAX, size_of, NULL), TERN_PLAN_CHAIN);
    assert_int_equal(tern_plan_choose(&small, 11, UINT32_MAX, size_of, NULL), TERN_PLAN_SNAPSHOT);
    small.chain_max = UINT32_MAX; // what is claimed does not lift the protocol's limit
    assert_int_equal(tern_plan_choose(&small, 2 + TERN_PLAN_MAX, UINT32_MAX, size_of, NULL),
                     TERN_PLAN_CHAIN);
    assert_int_equal(tern_plan_choose(&small, 3 + TERN_PLAN_MAX, UINT32_MAX, size_of, NULL),
                     TERN_PLAN_SNAPSHOT);
}

CASE_WITH(test_a_client_without_snapshots_takes_deltas_at_any_price, setup, NULL)
{
    struct tern_plan_client small = {
        .known = true, .version = 2, .chain_max = 8, .no_snapshots = true};
    assert_int_equal(tern_plan_choose(&small, 2, 1, size_of, NULL), TERN_PLAN_NOTHING);
    assert_int_equal(tern_plan_choose(&small, 10, 1, size_of, NULL), TERN_PLAN_CHAIN);
    assert_int_equal(tern_plan_choose(&small, 11, 1, size_of, NULL), TERN_PLAN_NONE);
    small.known = false;
    assert_int_equal(tern_plan_choose(&small, 3, 1, size_of, NULL), TERN_PLAN_NONE);
}

CASE_WITH(test_sums_do_not_wrap, setup, NULL)
{
    sizes[1] = UINT32_MAX;
    sizes[2] = 2;
    assert_int_equal(choose(0, 2, 1000), TERN_PLAN_SNAPSHOT);
}
