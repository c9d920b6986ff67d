// Rounds of which other nodes summed some updates: whoever delivers what, and when, the model is that of one machine. A
// node is played by the test; the listener's thread says which updates it has, and the port asks it for its part.
#include "harness.h"

#include "merge/part.h"
#include "merge/replay.h"
#include <stdio.h>
#include <string.h>

#include "one_harness.h"
#include "store/run_sql.h"
#include "store/store.h"
#include "tests/cases.h"
#include "watched_log.h"

#define CLIENTS 4
#define BIT(client) (1U << (client))

// What happens on the way of a round. Bit c: client c.
struct course {
    unsigned deferred;    // nodes have these updates, or so the leader was told
    unsigned first;       // that the first node covers,
    unsigned second;      // and the second, which delivers after the first
    bool early;           // both have delivered before the leader asks
    bool gone;            // nobody answers
    bool restarts;        // before the last update comes
    bool fails;           // the transaction that stores the version, once
    unsigned expected;    // parts that are used
    unsigned other_bytes; // of the first part, changed in the store
};

static const struct course *course; // of the test
static unsigned asked;

// --- The nodes

static enum tern_result take_update(void *ctx, const struct tern_db_update *update)
{
    struct tern_part *part = ctx;
    tern_Update message;
    struct tern_codec_info info;
    struct tern_arrival arrival = {.client = update->client, .round = update->round};
    assert_int_equal(
        tern_wire_decode_update(update->body, update->body_len, &message, &arrival.container),
        TERN_OK);
    assert_int_equal(tern_container_inspect(&harness.model, arrival.container.data,
                                            arrival.container.len, &info),
                     TERN_OK);
    arrival.contribution = tern_contribution_of(&message);
    arrival.sum_square = info.sum_square;
    memcpy(arrival.sha256, update->sha256, TERN_SHA256_SIZE);
    return tern_part_add(part, &arrival, update->body_len);
}

static void deliver(const char *node, unsigned clients)
{
    struct tern_part part = {.count = 0};
    struct tern_part_round round;
    struct tern_db_round row;
    struct tern_db *db;
    char why[256];
    assert_int_equal(tern_db_open(harness.path, TERN_DB_SECOND, &db, why), TERN_OK);
    assert_int_equal(tern_db_round_last(db, &row), TERN_OK);
    assert_int_equal(tern_part_round_of(db, &row, &round), TERN_OK);
    assert_int_equal(tern_part_begin(&part, &harness.model, &round, UINT64_MAX), TERN_OK);
    for (uint64_t client = 1; client <= CLIENTS; client++) {
        if ((clients & BIT(client)) != 0) {
            assert_int_equal(tern_db_update_show(db, row.round, client, take_update, &part),
                             TERN_OK);
        }
    }
    if (part.count > 0) {
        assert_int_equal(tern_part_store(&part, db, node), TERN_OK);
    }
    tern_part_clear(&part);
    tern_db_close(db);
}

static void damage(unsigned bytes)
{
    if (bytes > 0) {
        run_sql(harness.path, "UPDATE parts SET updates = updates + 1, body = (SELECT body FROM"
                              " update_bodies LIMIT 1) WHERE node = 'one'");
    }
}

// One node after the other.
static bool await_parts(void *ctx, uint32_t round, uint32_t missing)
{
    (void)ctx;
    assert_int_equal(round, 1);
    assert_in_range(missing, 1, CLIENTS);
    asked++;
    if (course->gone || course->early || asked > 2) {
        return false;
    }
    deliver(asked == 1 ? "one" : "two", asked == 1 ? course->first : course->second);
    damage(asked == 1 ? course->other_bytes : 0);
    return true;
}

// --- What the listener's thread and the service's say of it (the linker puts these in between)

enum tern_result __real_tern_federation_new(const struct tern_federation_config *config,
                                            const struct tern_federation_ports *ports,
                                            struct tern_db *db, struct tern_federation **federation,
                                            char why[256]);
enum tern_result __wrap_tern_federation_new(const struct tern_federation_config *config,
                                            const struct tern_federation_ports *ports,
                                            struct tern_db *db, struct tern_federation **federation,
                                            char why[256]);
void __real_tern_federation_read_update(struct tern_federation *federation,
                                        struct tern_incoming_update *update);
void __wrap_tern_federation_read_update(struct tern_federation *federation,
                                        struct tern_incoming_update *update);

enum tern_result __wrap_tern_federation_new(const struct tern_federation_config *config,
                                            const struct tern_federation_ports *ports,
                                            struct tern_db *db, struct tern_federation **federation,
                                            char why[256])
{
    struct tern_federation_ports mine = *ports;
    mine.await_parts = await_parts;
    return __real_tern_federation_new(config, &mine, db, federation, why);
}

void __wrap_tern_federation_read_update(struct tern_federation *federation,
                                        struct tern_incoming_update *update)
{
    __real_tern_federation_read_update(federation, update);
    update->deferred = (course->deferred & BIT(update->client)) != 0;
}

// --- One round

static void start(void)
{
    struct tern_federation_config *federation = &harness.config.federation;
    federation->round.cohort = CLIENTS;
    federation->min_clients = CLIENTS;
    federation->codec_up = (struct tern_codec){
        .id = TERN_CODEC_3LC, .sparsity = 1.0F, .clip = 4.0F, .coder = TERN_CODER_RANGE};
    harness_start(&harness);
    for (int i = 0; i < CLIENTS; i++) {
        enroll(&harness, false);
    }
}

static void wait_for_failures(void)
{
    struct tern_service_facts facts = {0};
    while (facts.batches_failed < 3) {
        tern_service_facts(harness.service, &facts);
    }
}

static void put_last(const tern_Task *task)
{
    if (course->restarts) {
        harness_restart(&harness);
    }
    if (course->early) {
        deliver("one", course->first);
        deliver("two", course->second);
        damage(course->other_bytes);
    }
    if (course->fails) {
        refuse_writes(harness.path, "AFTER INSERT ON versions", "");
        assert_int_equal(put_drawn(&harness, CLIENTS, task), 200);
        wait_for_failures();
        take_writes(harness.path);
        harness_await_store(&harness);
    }
    assert_int_equal(put_drawn(&harness, CLIENTS, task), 200);
}

static void play(const struct course *played, uint8_t model_sha256[TERN_SHA256_SIZE])
{
    tern_CheckinReply tasks[CLIENTS + 1];
    struct tern_replay_report report;
    struct tern_db_version version;
    struct tern_db_part parts[2];
    size_t count = 0;
    char why[256];
    course = played;
    asked = 0;
    start();
    for (uint64_t client = 1; client <= CLIENTS; client++) {
        tasks[client] = checkin(&harness, client, NULL);
    }
    for (uint64_t client = 1; client < CLIENTS; client++) {
        assert_int_equal(put_drawn(&harness, client, &tasks[client].task), 200);
    }
    watch_log();
    tern_log_set_level(TERN_LOG_INFO);
    put_last(&tasks[CLIENTS].task);
    harness_stop(&harness);
    const unsigned used = lines_of("part", "round=1");
    const unsigned refused = lines_of("part-refused", "round=1 node=one");
    leave_log();
    if (course->fails) { // they were used by each merge
        assert_true(used > course->expected && used % course->expected == 0);
    } else {
        assert_int_equal(used, course->expected);
    }
    assert_int_equal(refused, course->other_bytes > 0);
    assert_int_equal(tern_db_open(harness.path, 0, &harness.db, why), TERN_OK);
    assert_int_equal(tern_db_version_get(harness.db, 1, &version), TERN_OK);
    memcpy(model_sha256, version.model_sha256, TERN_SHA256_SIZE);
    assert_int_equal(tern_db_parts(harness.db, 1, parts, 2, &count), TERN_OK);
    assert_int_equal(count, 0);
    assert_int_equal(tern_replay(harness.db, NULL, NULL, &report, why), TERN_OK);
    assert_int_equal(report.updates, CLIENTS);
}

static const struct course plain;

// Another course of the same federation, beside one without nodes.
static void compare(const struct course *other)
{
    uint8_t expected[TERN_SHA256_SIZE];
    uint8_t found[TERN_SHA256_SIZE];
    play(&plain, expected);
    assert_int_equal(asked, 0);
    harness_free(&harness);
    harness_make(&harness);
    play(other, found);
    assert_memory_equal(found, expected, TERN_SHA256_SIZE);
}

#define ALL (BIT(1) | BIT(2) | BIT(3) | BIT(4))

CASE_WITH(test_two_nodes_have_all, setup, teardown)
{
    static const struct course with = {
        .deferred = ALL, .first = BIT(1) | BIT(4), .second = BIT(2) | BIT(3), .expected = 2};
    compare(&with);
    assert_int_equal(asked, 2);
}

// Some are the leader's, and of some that nodes should have nobody delivers anything.
CASE_WITH(test_some_are_missing, setup, teardown)
{
    static const struct course with = {
        .deferred = ALL ^ BIT(2), .first = BIT(4), .second = BIT(1), .expected = 2};
    compare(&with);
    assert_int_equal(asked, 3); // until the port says that it was long enough
}

CASE_WITH(test_nobody_answers, setup, teardown)
{
    static const struct course with = {.deferred = BIT(1) | BIT(3), .first = BIT(1), .gone = true};
    compare(&with);
    assert_int_equal(asked, 1);
}

CASE_WITH(test_an_early_part_needs_no_asking, setup, teardown)
{
    static const struct course with = {
        .deferred = BIT(1) | BIT(3), .first = BIT(1) | BIT(3), .early = true, .expected = 1};
    compare(&with);
    assert_int_equal(asked, 0);
}

// The leader went: the one after it finds the updates and the parts in the store.
CASE_WITH(test_another_leader_takes_the_parts, setup, teardown)
{
    static const struct course with = {.deferred = BIT(1) | BIT(2),
                                       .first = BIT(1),
                                       .second = BIT(2) | BIT(3),
                                       .early = true,
                                       .restarts = true,
                                       .expected = 2};
    compare(&with);
}

// A version that was not stored is made once more, of the same parts.
CASE_WITH(test_a_failed_commit_leaves_them, setup, teardown)
{
    static const struct course with = {.deferred = ALL ^ BIT(4),
                                       .first = BIT(1) | BIT(2),
                                       .second = BIT(3),
                                       .early = true,
                                       .fails = true,
                                       .expected = 2};
    compare(&with);
}

CASE_WITH(test_a_part_of_other_bytes_is_left_out, setup, teardown)
{
    static const struct course with = {.deferred = ALL,
                                       .first = BIT(1) | BIT(2),
                                       .second = BIT(3),
                                       .expected = 1,
                                       .other_bytes = 1};
    compare(&with);
}
