// Partial sums of a round by several nodes: with them the model has the same bits as without, whoever summed what; one
// that does not belong to the round is named, left out, and leaves no trace.
#include "strategies/part_round.h"

#include "merge/part.h"
#include "util/prng.h"

#include <stdio.h>
#include <string.h>

#include "service/watched_log.h"
#define TERN_CASES_OWN_MAIN
#include "tests/cases.h"

#define NODES 5

// Who has an update: the leader itself, nobody, or a node from 0 on.
enum { OWN = NODES, NOBODY };

struct division {
    int of[UPDATES];
};

static uint32_t held; // updates that parts held as readings when they were stored

static void count_held(const struct tern_part *part)
{
    for (uint32_t i = 0; i < part->mean.group_count; i++) {
        const struct tern_exact_held *each = part->mean.groups[i].held;
        for (; each != NULL; each = each->next) {
            held++;
        }
    }
}

// With parts of that division. Returns how many updates were in no part that was taken.
static uint32_t play(struct fixture *fixture, const struct division *division, uint32_t turn,
                     uint8_t sha256[TERN_SHA256_SIZE])
{
    struct tern_merge merge;
    struct tern_gather gather;
    struct tern_part parts[NODES];
    memset(parts, 0, sizeof parts);
    begin_merge(&merge);
    for (int p = 0; p < NODES; p++) {
        begin_part(fixture, &parts[p], UINT64_MAX);
    }
    for (uint32_t i = 0; i < UPDATES; i++) {
        const uint32_t u = (i * 7 + turn) % UPDATES;
        struct tern_arrival arrival = arrive(u, i % 2 == 0);
        if (division->of[u] == OWN) {
            tern_merge_arrive(&merge, &arrival);
        } else {
            tern_merge_defer(&merge, &arrival);
        }
        tern_reading_free(arrival.reading);
        if (division->of[u] < NODES) {
            add_to_part(&parts[division->of[u]], u, i % 3 != 0);
        }
    }
    for (int p = 0; p < NODES; p++) {
        char node[32];
        snprintf(node, sizeof node, "node-%d", p);
        count_held(&parts[p]);
        if (parts[p].count > 0) {
            store_part(fixture, &parts[p], node);
        }
        tern_part_clear(&parts[p]);
    }
    tern_gather_begin(&gather, &merge, fixture->db, &round_row);
    tern_gather_parts(&gather);
    const uint32_t missing = tern_gather_missing(&gather);
    tern_gather_rest(&gather);
    assert_true(merge.arrives && merge.arrived.updates == UPDATES);
    close_round(fixture, &merge, sha256);
    drop_parts(fixture);
    assert_int_equal(atomic_load(&readings.bytes), 0);
    return missing;
}

static uint32_t divide(struct division *division, struct tern_prng *rng, uint32_t nodes)
{
    uint32_t nobodys = 0;
    for (uint32_t u = 0; u < UPDATES; u++) {
        const uint32_t drawn = tern_prng_below(rng, nodes + 2);
        division->of[u] = drawn < nodes ? (int)drawn : drawn == nodes ? OWN : NOBODY;
        nobodys += division->of[u] == NOBODY;
    }
    return nobodys;
}

static const char *const divided[] = {"fedavgm", "fednova",    "fedavg", "fedprox",
                                      "fedadam", "fedadagrad", "fedyogi"};

CASE_WITH(test_every_division_gives_the_same_bits, part_round_setup, fixture_teardown)
{
    struct fixture *fixture = *state;
    struct tern_prng rng;
    uint32_t left = 0; // that were nobody's
    tern_prng_init(&rng, 5, TERN_PRNG_TEST, 0, 0);
    for (size_t i = 0; i < 2 * sizeof divided / sizeof divided[0]; i++) {
        const struct tern_strategy_rule rule = rule_of(divided[i / 2], i % 2 == 0 ? 0.0F : 2.0F);
        uint8_t expected[TERN_SHA256_SIZE];
        uint8_t found[TERN_SHA256_SIZE];
        open_round(fixture, &rule);
        expect_model(fixture, expected);
        for (uint32_t turn = 1; turn <= NODES; turn++) {
            struct division division;
            const uint32_t nobodys = divide(&division, &rng, turn);
            assert_int_equal(play(fixture, &division, turn, found), nobodys);
            assert_memory_equal(found, expected, TERN_SHA256_SIZE);
            left += nobodys;
        }
    }
    assert_true(left > 0 && held > 0);
}

// Those that are no weighted mean of the round's own updates take no parts, and say so.
CASE_WITH(test_other_strategies_take_none, part_round_setup, fixture_teardown)
{
    struct fixture *fixture = *state;
    static const char *const others[] = {"fedmedian", "fedtrimmedavg", "krum", "multikrum",
                                         "fedbuff"};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        const struct tern_strategy_rule rule = rule_of(others[i], 0.0F);
        struct tern_part part = {.count = 0};
        struct tern_part_round round;
        struct tern_merge merge;
        uint8_t expected[TERN_SHA256_SIZE];
        uint8_t found[TERN_SHA256_SIZE];
        open_round(fixture, &rule);
        assert_ok(fixture, tern_part_round_of(fixture->db, &round_row, &round));
        assert_false(tern_strategy_is_plain_mean(round.rule.strategy));
        assert_int_equal(tern_part_begin(&part, &model, &round, UINT64_MAX), TERN_ERR_STATE);
        assert_int_equal(tern_part_add(&part, &updates[0].arrival, 1), TERN_ERR_STATE);
        expect_model(fixture, expected);
        begin_merge(&merge);
        for (uint32_t u = 0; u < UPDATES; u++) {
            tern_merge_defer(&merge, &updates[u].arrival);
        }
        assert_int_equal(merge.deferred_count, 0);
        close_round(fixture, &merge, found);
        assert_memory_equal(found, expected, TERN_SHA256_SIZE);
    }
    for (size_t i = 0; i < sizeof divided / sizeof divided[0]; i++) {
        const struct tern_strategy_rule rule = rule_of(divided[i], 0.0F);
        assert_true(tern_strategy_is_plain_mean(rule.strategy));
    }
}

// --- Parts that are not used

// Closes the round with what is stored of parts; the second half arrived at the leader. Returns how many updates were
// missing.
static uint32_t close_half(struct fixture *fixture, uint8_t sha256[TERN_SHA256_SIZE])
{
    struct tern_merge merge;
    struct tern_gather gather;
    begin_merge(&merge);
    for (uint32_t u = 0; u < UPDATES; u++) {
        struct tern_arrival arrival = arrive(u, u % 2 == 0);
        if (u < HALF) {
            tern_merge_defer(&merge, &arrival);
        } else {
            tern_merge_arrive(&merge, &arrival);
        }
        tern_reading_free(arrival.reading);
    }
    tern_gather_begin(&gather, &merge, fixture->db, &round_row);
    tern_gather_parts(&gather);
    const uint32_t missing = tern_gather_missing(&gather);
    tern_gather_rest(&gather);
    close_round(fixture, &merge, sha256);
    return missing;
}

// Nobody uses what is stored of parts, which the log says by name; the model is that of one machine.
static void assert_refused(struct fixture *fixture, const char *why)
{
    uint8_t expected[TERN_SHA256_SIZE];
    uint8_t found[TERN_SHA256_SIZE];
    expect_model(fixture, expected);
    watch_log();
    const uint32_t missing = close_half(fixture, found);
    const unsigned named = lines_with(why);
    leave_log();
    assert_int_equal(missing, HALF);
    assert_int_equal(named, 1);
    assert_memory_equal(found, expected, TERN_SHA256_SIZE);
    drop_parts(fixture);
}

CASE_WITH(test_parts_of_something_else_are_refused, part_round_setup, fixture_teardown)
{
    struct fixture *fixture = *state;
    struct tern_part part;
    make_half(fixture, &part);
    part.round.base_version++;
    store_part(fixture, &part, "a");
    assert_refused(fixture, "it belongs to another base version");
    make_half(fixture, &part);
    part.round.base[31] ^= 1;
    store_part(fixture, &part, "a");
    assert_refused(fixture, "it belongs to another base version");
    make_half(fixture, &part);
    part.round.rule.strategy = tern_strategy_find("fedprox");
    store_part(fixture, &part, "a");
    assert_refused(fixture, "it belongs to another strategy");
    make_half(fixture, &part);
    part.round.rule.parameters[TERN_STRATEGY_NORM_BOUND] = 3.0F;
    store_part(fixture, &part, "a");
    assert_refused(fixture, "or to other parameters");
    make_half(fixture, &part);
    part.round.rule.server_learning_rate = 1.0F;
    store_part(fixture, &part, "a");
    assert_refused(fixture, "or to other parameters");
    make_half(fixture, &part);
    struct tern_model other = model;
    other.hash[0] ^= 1;
    part.mean.model = &other;
    store_part(fixture, &part, "a");
    assert_refused(fixture, "it belongs to another model");
}

// Another one that is open, too.
CASE_WITH(test_a_part_of_another_round_is_refused, part_round_setup, fixture_teardown)
{
    struct fixture *fixture = *state;
    struct tern_part part;
    fixture_round(fixture, ROUND + 1);
    make_half(fixture, &part);
    assert_int_equal(tern_part_add(&part, &(struct tern_arrival){.round = ROUND + 1}, 1),
                     TERN_ERR_STATE);
    assert_int_equal(part.count, HALF);
    part.round.round++;
    store_part(fixture, &part, "a"); // where nobody looks for it
    uint8_t expected[TERN_SHA256_SIZE];
    uint8_t found[TERN_SHA256_SIZE];
    expect_model(fixture, expected);
    assert_int_equal(close_half(fixture, found), HALF);
    assert_memory_equal(found, expected, TERN_SHA256_SIZE);
}

CASE_WITH(test_updates_that_were_not_accepted_are_refused, part_round_setup, fixture_teardown)
{
    struct fixture *fixture = *state;
    struct tern_part part;
    // Of a client that has none, of another body, of other examples, steps or norm, and one that the leader has itself.
    make_half(fixture, &part);
    part.updates[3].client += 1000;
    store_part(fixture, &part, "a");
    assert_refused(fixture, "differs from the accepted one");
    make_half(fixture, &part);
    part.updates[HALF - 1].sha256[5] ^= 4;
    store_part(fixture, &part, "a");
    assert_refused(fixture, "differs from the accepted one");
    make_half(fixture, &part);
    part.updates[0].num_examples++;
    store_part(fixture, &part, "a");
    assert_refused(fixture, "differs from the accepted one");
    make_half(fixture, &part);
    part.updates[0].local_steps++;
    store_part(fixture, &part, "a");
    assert_refused(fixture, "differs from the accepted one");
    make_half(fixture,
              &part); // its sums could be larger then than the values that the leader has read
    part.updates[0].sum_square *= 1.5;
    store_part(fixture, &part, "a");
    assert_refused(fixture, "differs from the accepted one");
    make_half(fixture, &part);
    add_to_part(&part, HALF, false);
    store_part(fixture, &part, "a");
    assert_refused(fixture, "longer than the round's");
    begin_part(fixture, &part, UINT64_MAX);
    add_to_part(&part, HALF, false);
    store_part(fixture, &part, "a");
    assert_refused(fixture, "differs from the accepted one");
}

// Of two parts that have an update in common, the first is used.
CASE_WITH(test_an_overlap_is_refused, part_round_setup, fixture_teardown)
{
    struct fixture *fixture = *state;
    struct tern_part one = {.count = 0};
    struct tern_part other = {.count = 0};
    uint8_t expected[TERN_SHA256_SIZE];
    uint8_t found[TERN_SHA256_SIZE];
    begin_part(fixture, &other, UINT64_MAX);
    for (uint32_t u = 5; u < HALF; u++) {
        add_to_part(&other, u, false);
    }
    store_part(fixture, &other, "b");
    begin_part(fixture, &one, UINT64_MAX);
    for (uint32_t u = 0; u < 6; u++) {
        add_to_part(&one, u, false);
    }
    add_to_part(&one, 2, false);
    assert_int_equal(tern_part_store(&one, fixture->db, "a"), TERN_ERR_CONFLICT);
    tern_part_clear(&one);
    begin_part(fixture, &one, UINT64_MAX);
    for (uint32_t u = 0; u < 6; u++) {
        add_to_part(&one, u, false);
    }
    store_part(fixture, &one, "a");
    expect_model(fixture, expected);
    watch_log();
    const uint32_t missing = close_half(fixture, found);
    const unsigned named = lines_of("part-refused", "round=1 node=b updates=10");
    leave_log();
    assert_int_equal(missing, HALF - 6);
    assert_int_equal(named, 1);
    assert_memory_equal(found, expected, TERN_SHA256_SIZE);
}

// A part that finds no memory covers nothing any more.
CASE_WITH(test_memory_is_bounded, part_round_setup, fixture_teardown)
{
    struct fixture *fixture = *state;
    struct tern_part part = {.count = 0};
    begin_part(fixture, &part, 8 * model.count - 1);
    assert_int_equal(tern_part_add(&part, &updates[1].arrival, 1), TERN_ERR_NO_SPACE);
    assert_int_equal(part.count, 0);
    assert_int_equal(tern_part_add(&part, &updates[1].arrival, 1), TERN_ERR_STATE);
    tern_part_clear(&part);
}

int main(void)
{
    tern_log_set_level(TERN_LOG_ERROR);
    return test_cases_run(&cases_of_this_file, __FILE__);
}
