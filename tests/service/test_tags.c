// Rounds drawn by the clients' tags: whom they invite, and that restarts and batches that were rolled back
// change nothing of it.
#include "harness.h"

#include <stdio.h>
#include <string.h>

#include "scheduled.h"
#include "store/run_sql.h"
#include "tests/cases.h"

#define CLIENTS 12
#define ROUNDS 5

// 7 of site a, 3 of b, 2 without a tag; all but the last have a line.
static uint32_t group_of(uint64_t client)
{
    return client <= 7 ? 0 : client <= 10 ? 1 : 2;
}

static void select_by(const char *selection)
{
    char why[TERN_TAG_WHY_MAX];
    assert_int_equal(tern_tag_selection_parse(selection, &harness.config.federation.tags, why),
                     TERN_OK);
}

static void start(uint32_t cohort)
{
    static const char *const codes[] = {"line=1,site=a", "line=2,site=b", ""};
    char sql[128];
    harness.config.federation.round.cohort = cohort;
    harness.config.federation.round.quorum = cohort;
    harness.config.federation.min_clients = cohort;
    harness_start(&harness);
    for (uint64_t client = 1; client <= CLIENTS; client++) {
        snprintf(sql, sizeof sql, "update codes set tags='%s'", codes[group_of(client)]);
        run_sql(harness.path, sql);
        assert_int_equal(enroll(&harness, false), client);
    }
}

// Those that a round invited, one bit each.
static uint32_t members_of(uint32_t round)
{
    struct tern_db_assignment row;
    struct tern_db *db = harness_look(&harness);
    struct tern_db_rows *rows = tern_db_assignments(db, round);
    uint32_t members = 0;
    while (tern_db_next(rows, &row)) {
        members |= 1u << row.client;
    }
    assert_int_equal(tern_db_end(rows), TERN_OK);
    tern_db_close(db);
    return members;
}

static uint32_t count(uint32_t members, uint32_t group)
{
    uint32_t sum = 0;
    for (uint64_t client = 1; client <= CLIENTS; client++) {
        sum += (members >> client & 1) != 0 && group_of(client) == group;
    }
    return sum;
}

// The commit of its round, and with it the next draw, is taken back once.
static void report_twice(uint64_t client, const tern_Task *task, const struct report *what)
{
    const tern_CheckinRequest plain = tern_CheckinRequest_init_zero;
    refuse_writes(harness.path, "BEFORE INSERT ON assignments", "");
    report(client, task, what);
    answer_expect(put_checkin(&harness, client, &plain), 503);
    take_writes(harness.path);
    harness_await_store(&harness);
    assert_int_equal(report(client, task, what), 200);
}

// All check in, and who has a task reports. Returns the round's members.
static uint32_t do_round_of(uint32_t round, bool rolls_back)
{
    const uint32_t members = members_of(round);
    uint32_t reported = 0;
    for (uint64_t client = 1; client <= CLIENTS; client++) {
        const tern_CheckinReply reply = checkin(&harness, client, NULL);
        if (!reply.has_task || reply.task.round != round) {
            continue;
        }
        const struct report what = {.value = 0.01F * (float)client, .loss = 1.0F};
        reported++;
        if (rolls_back && reported == harness.config.federation.round.cohort) {
            report_twice(client, &reply.task, &what);
        } else {
            assert_int_equal(report(client, &reply.task, &what), 200);
        }
    }
    assert_int_equal(members_of(round), members);
    return members;
}

static uint32_t do_whole_round(uint32_t round)
{
    return do_round_of(round, false);
}

static void expect_tags(uint64_t id, const char *tags)
{
    struct tern_db_client client;
    struct tern_db *db = harness_look(&harness);
    assert_int_equal(tern_db_client_get(db, id, &client), TERN_OK);
    assert_string_equal(client.tags, tags);
    tern_db_close(db);
}

#define TEST(name) CASE_WITH(name, setup, teardown)

TEST(test_codes_give_tags)
{
    start(2);
    expect_tags(8, "line=2,site=b");
    expect_tags(12, "");
}

TEST(test_cohorts_are_spread_over_a_tag)
{
    uint32_t seen = 0;
    select_by("tags:site");
    start(5);
    (void)do_whole_round(1); // opened while they enrolled
    for (uint32_t round = 2; round < 20; round++) {
        const uint32_t members = do_whole_round(round);
        assert_in_range(count(members, 0), 1, 2);
        assert_in_range(count(members, 1), 1, 2);
        assert_in_range(count(members, 2), 1, 2);
        assert_int_equal(count(members, 0) + count(members, 1) + count(members, 2), 5);
        seen |= members;
    }
    assert_int_equal(__builtin_popcount(seen), CLIENTS);
}

TEST(test_only_clients_with_a_tag)
{
    select_by("tags:site=b");
    start(3);
    for (uint32_t round = 1; round <= 3; round++) {
        assert_int_equal(do_whole_round(round), 7u << 8); // opened only once there were three of b
    }
    // The next draw goes by what an operator says now.
    run_sql(harness.path, "update clients set tags='site=b' where id=3");
    run_sql(harness.path, "update clients set tags='' where id=8");
    (void)do_whole_round(4); // open by then
    assert_int_equal(do_whole_round(5), 3u << 9 | 1u << 3);
}

// The tags stay when a client's row is written back for what it says.
TEST(test_tags_stay_beside_what_clients_say)
{
    start(2);
    (void)do_whole_round(1);
    run_sql(harness.path, "update clients set tags='site=c'");
    (void)do_whole_round(2);
    harness_restart(&harness);
    (void)do_whole_round(3);
    expect_tags(1, "site=c");
}

struct course {
    bool restarts;
    bool rolls_back;
};

static void play(const struct course *course, uint32_t members[ROUNDS + 1])
{
    (void)setup(NULL);
    select_by("tags:site");
    start(4);
    for (uint32_t round = 1; round <= ROUNDS; round++) {
        members[round] = do_round_of(round, course->rolls_back);
        if (course->restarts) {
            harness_restart(&harness);
        }
    }
    (void)teardown(NULL);
}

TEST(test_nothing_on_the_way_changes_who_is_drawn)
{
    uint32_t expected[ROUNDS + 1];
    uint32_t members[ROUNDS + 1];
    (void)teardown(state);
    play(&(struct course){false, false}, expected);
    play(&(struct course){true, false}, members);
    assert_memory_equal(&members[1], &expected[1], ROUNDS * sizeof members[0]);
    play(&(struct course){false, true}, members);
    assert_memory_equal(&members[1], &expected[1], ROUNDS * sizeof members[0]);
    (void)setup(state);
}
