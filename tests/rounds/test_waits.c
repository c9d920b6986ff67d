// Why a federation waits: what keeps a round from opening, in the order in which it does, and whether that
// ends by itself; which clients count as what.
#include "rounds/waits.h"
#include "tests/cases.h"

#include <string.h>

#define NOW 1000000u

static struct tern_wait_rules rules;
static struct tern_wait_facts facts;

// A federation of which the next check-in opens a round.
static int setup(void **state)
{
    (void)state;
    rules = (struct tern_wait_rules){.rounds = 10,
                                     .min_clients = 3,
                                     .cohort = 5,
                                     .eligible_within_ms = 5000,
                                     .come_back_min_ms = 100,
                                     .interval_ms = 1000};
    facts = (struct tern_wait_facts){.round = 4,
                                     .opened_ms = NOW - 1000,
                                     .committed = 4,
                                     .trainers = {.enrolled = 6, .recent = 6}};
    return 0;
}

static void check(enum tern_wait wait, bool needs_help)
{
    assert_int_equal(tern_wait_reason(&rules, &facts, NOW), wait);
    assert_int_equal(tern_wait_needs_help(wait, &rules, &facts), needs_help);
}

#define TEST(name) CASE_WITH(name, setup, NULL)

TEST(test_nothing_but_a_checkin)
{
    check(TERN_WAIT_CHECKIN, false);
}

// Each holds whatever comes behind it, so that all may be true at once.
TEST(test_reasons_in_their_order)
{
    facts.opened_ms++;
    check(TERN_WAIT_INTERVAL, false);
    rules.fits_budgets = true;
    facts.trainers.out_of_budget = 4; // 2 are left, of 3 that half a cohort of 5 are
    check(TERN_WAIT_BYTES, true);
    facts.round = 0;
    rules.statistics_are_enabled = true;
    rules.statistics_wait_ms = 100;
    facts.first_statistics_ms = NOW - 99;
    facts.trainers.with_statistics = 3;
    facts.trainers.missing_statistics = 1;
    check(TERN_WAIT_STATISTICS, false);
    facts.trainers.with_statistics = 2;
    check(TERN_WAIT_STATISTICS, true);
    facts.trainers.recent = 0;
    check(TERN_WAIT_SEEN, true);
    facts.trainers.enrolled = 2;
    check(TERN_WAIT_CLIENTS, true);
    facts.committed = 10;
    check(TERN_WAIT_FINISHED, false);
    facts.losses.ending = TERN_ENDING_DIVERGED;
    check(TERN_WAIT_ENDED, true);
    facts.open = true;
    check(TERN_WAIT_MEMBERS, false);
}

TEST(test_what_does_not_hold_a_round_up)
{
    facts.trainers.out_of_budget = 6; // budgets are not looked at
    check(TERN_WAIT_CHECKIN, false);
    rules.fits_budgets = true;
    facts.trainers.out_of_budget = 3; // as many are left as have to take part
    check(TERN_WAIT_CHECKIN, false);
    rules.statistics_are_enabled = true; // but rounds have begun
    check(TERN_WAIT_CHECKIN, false);
    facts.round = 0;
    facts.scaled = true;
    check(TERN_WAIT_CHECKIN, false);
    rules.rounds = 0; // without an end
    facts.committed = 1000;
    check(TERN_WAIT_CHECKIN, false);
}

// A gateway waits for the upstream aggregator, whatever its devices do, unless it has finished or a round is open.
TEST(test_a_gateway_waits_for_the_upstream_aggregator)
{
    facts.awaits_upstream = true;
    check(TERN_WAIT_UPSTREAM, false);
    facts.trainers.enrolled = 0;
    check(TERN_WAIT_UPSTREAM, false);
    facts.open = true;
    check(TERN_WAIT_MEMBERS, false);
    facts.open = false;
    facts.committed = rules.rounds;
    check(TERN_WAIT_FINISHED, false);
}

// A secure round waits for tickets, then for the helper; a round whose sum is asked for waits for nothing else.
TEST(test_secure_rounds_wait_for_tickets_and_the_helper)
{
    facts.abandoned_ms = NOW - 1; // of a time with secure rounds
    facts.helper_silent = true;
    check(TERN_WAIT_CHECKIN, false);
    rules.secure_updates = 5;
    assert_int_equal(tern_wait_tickets_needed(&rules), 5);
    check(TERN_WAIT_HELPER, true);
    facts.helper_silent = false;
    check(TERN_WAIT_TICKETS, true);
    facts.trainers.with_ticket = 5;
    check(TERN_WAIT_HELPER, false);
    tern_wait_set_abandoned(&facts, NOW - 1, "near-list: Round 2 shares clients with round 1.");
    assert_string_equal(facts.abandoned, "near-list");
    check(TERN_WAIT_HELPER, true);
    facts.abandoned_ms = 0;
    check(TERN_WAIT_CHECKIN, false);
    facts.open = true;
    check(TERN_WAIT_MEMBERS, false);
    facts.asks_helper = true;
    check(TERN_WAIT_HELPER, false);
    rules.min_clients = 6;
    assert_int_equal(tern_wait_tickets_needed(&rules), 6);
}

// With fewer than are needed for however long; with them until all that came have told theirs, or for a while.
TEST(test_for_how_long_statistics_are_awaited)
{
    rules.statistics_are_enabled = true;
    rules.statistics_wait_ms = 100;
    facts.round = 0;
    check(TERN_WAIT_STATISTICS, true); // nobody has told any
    facts.trainers.with_statistics = 2;
    facts.first_statistics_ms = NOW - 100;
    check(TERN_WAIT_STATISTICS, true);
    assert_int_equal(tern_wait_statistics_left_ms(&rules, &facts, NOW), 0);
    facts.trainers.with_statistics = 3;
    facts.trainers.missing_statistics = 1;
    check(TERN_WAIT_CHECKIN, false);
    facts.first_statistics_ms++;
    assert_int_equal(tern_wait_statistics_left_ms(&rules, &facts, NOW), 1);
    check(TERN_WAIT_STATISTICS, false);
    facts.trainers.missing_statistics = 0;
    check(TERN_WAIT_CHECKIN, false);
}

TEST(test_how_many_are_needed)
{
    assert_int_equal(tern_wait_clients_needed(&rules, &facts), 3);
    rules.quorum = 4;
    assert_int_equal(tern_wait_clients_needed(&rules, &facts), 4);
    facts.trainers.recent = 2;
    assert_int_equal(tern_wait_clients_needed(&rules, &facts), 2);
    assert_int_equal(tern_wait_statistics_needed(&rules), 3);
    rules.statistics_min_clients = 2;
    assert_int_equal(tern_wait_statistics_needed(&rules), 2);
}

TEST(test_clients_are_counted_as_one_thing)
{
    char why[TERN_TAG_WHY_MAX];
    struct tern_trainer_counts trainers = {0};
    const struct tern_wait_client clients[] = {
        {"site=b", 1, NOW, false, 0, 0, true, false, true},               // other tags
        {"site=b", 1, NOW, false, 0, 0, false, false, false},             // other tags
        {"site=a", 1, 1, false, 0, 0, false, false, false},               // never came
        {"site=a", 1, NOW - 5001, false, 0, 0, false, false, false},      // too long ago
        {"site=a", 1, NOW - 5000, false, 0, 0, true, false, true},        // recent
        {"site=a", 1, NOW, true, 0, 0, true, false, false},               // recent, and spent
        {"site=a", 1, NOW, true, 99, 100, false, false, false},           // recent, and spent
        {"site=a", 1, NOW, true, 100, 100, false, true, false},           // recent
        {"site=a", NOW - 10, NOW - 10, false, 0, 0, false, false, false}, // it has just enrolled
    };
    assert_int_equal(tern_tag_selection_parse("tags:site=a", &rules.tags, why), TERN_OK);
    for (size_t i = 0; i < sizeof clients / sizeof clients[0]; i++) {
        tern_trainer_counts_add(&trainers, &rules, &clients[i], NOW);
    }
    assert_int_equal(trainers.excluded_by_tags, 2);
    assert_int_equal(trainers.never_checked_in, 1);
    assert_int_equal(trainers.enrolled, 6);
    assert_int_equal(trainers.recent, 5);
    assert_int_equal(trainers.out_of_budget, 2);
    assert_int_equal(trainers.with_statistics, 2);
    assert_int_equal(trainers.privacy_spent, 1);
    assert_int_equal(trainers.with_ticket, 1);
    assert_int_equal(trainers.missing_statistics, 4);
    rules.eligible_within_ms = 0; // whenever they were seen
    tern_trainer_counts_add(&trainers, &rules, &clients[3], NOW);
    assert_int_equal(trainers.recent, 6);
}

TEST(test_names)
{
    for (unsigned i = 0; i < TERN_WAIT_COUNT; i++) {
        assert_non_null(tern_wait_name((enum tern_wait)i));
    }
    assert_string_equal(tern_wait_name(TERN_WAIT_BYTES), "bytes");
}

TEST(test_it_ends_when_too_few_clients_have_privacy_left)
{
    struct tern_trainer_counts trainers = {.enrolled = 10, .privacy_spent = 5};
    rules.min_clients = 2;
    rules.cohort = 10; // needs 5
    rules.quorum = 0;
    rules.secure_updates = 3;
    assert_false(tern_wait_has_spent_privacy(&rules, &trainers));
    trainers.privacy_spent = 6;
    assert_true(tern_wait_has_spent_privacy(&rules, &trainers));
    facts.trainers = trainers;
    facts.open = false;
    assert_int_equal(tern_wait_reason(&rules, &facts, NOW), TERN_WAIT_ENDED);
    rules.quorum = 3;
    assert_false(tern_wait_has_spent_privacy(&rules, &trainers));
    rules.secure_updates = 5;
    assert_true(tern_wait_has_spent_privacy(&rules, &trainers));
    trainers.enrolled = 4; // too few have enrolled, so it waits for clients
    trainers.privacy_spent = 4;
    assert_false(tern_wait_has_spent_privacy(&rules, &trainers));
}
