// Replicas of clients' own: one download for all who missed the same rounds, updates that count
// only from the replica that their task named, and the ways of clients that are not known any more.
#include "harness.h"

#include <stdlib.h>
#include <string.h>

#include "store/run_sql.h"
#include "tests/cases.h"

#define COUNT 650 // values of MODEL

static struct harness harness;
static uint64_t busy; // makes the rounds
static uint64_t one;
static uint64_t two;
static uint8_t seed_id[TERN_SHA256_SIZE];
static float seed_weights[COUNT];

// Whoever reports first closes the round; all are always invited.
static int setup(void **state)
{
    (void)state;
    harness_make(&harness);
    harness.config.federation.round.cohort = 1;
    harness.config.federation.round.over_selection = 2.0;
    harness.config.federation.min_clients = 3;
    // Those that have not come yet are invited all the same.
    harness.config.federation.round.come_back_min_ms = 3600000;
    assert_int_equal(tern_codec_parse("density:p=0.1,coder=range",
                                      &harness.config.federation.downloads.codec, NULL),
                     TERN_OK);
    assert_int_equal(tern_codec_parse("3lc:s=1", &harness.config.federation.codec_up, NULL),
                     TERN_OK);
    harness.config.federation.downloads.plan = TERN_DOWNLOADS_CHEAPEST;
    harness.config.federation.downloads.residual = 1.5;
    harness.config.federation.downloads.replica_cache = 1 << 20;
    harness.config.federation.downloads.inline_values = 0; // as for a large model
    harness_start(&harness);
    busy = enroll(&harness, false);
    one = enroll(&harness, false);
    two = enroll(&harness, false);
    seed_replica(&harness, seed_id, seed_weights);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    harness_free(&harness);
    return 0;
}

static tern_CheckinReply ask(uint64_t id, tern_CheckinRequest request, const uint8_t *replica)
{
    tern_CheckinReply reply = tern_CheckinReply_init_zero;
    request.replica.size = TERN_WIRE_REPLICA_BYTES;
    memcpy(request.replica.bytes, replica, TERN_WIRE_REPLICA_BYTES);
    struct answer answer = put_checkin(&harness, id, &request);
    if (answer.status == 200) {
        assert_int_equal(tern_wire_decode_checkin_reply(answer.body->data, answer.body->len, &reply,
                                                        &(struct tern_span){0}),
                         TERN_OK);
    } else {
        assert_int_equal(answer.status, 422);
    }
    answer_free(&answer);
    return reply;
}

static tern_CheckinReply ask_plainly(uint64_t id, const uint8_t *replica)
{
    return ask(id, (tern_CheckinRequest)tern_CheckinRequest_init_zero, replica);
}

// Rounds that `busy` makes alone, along the trunk.
static void run_rounds(unsigned rounds)
{
    static uint8_t replica[TERN_SHA256_SIZE];
    static float weights[COUNT];
    for (unsigned i = 0; i < rounds; i++) {
        tern_UpdateReply reply = do_round(&harness, busy, i == 0 ? NULL : replica, 0.5F);
        assert_true(reply.has_next);
        if (i == 0) {
            seed_replica(&harness, replica, weights);
            tern_CheckinReply next = ask_plainly(busy, replica);
            apply_downloads(&harness, &next.task, weights, replica, harness.tokens[busy]);
        } else {
            apply_downloads(&harness, &reply.next.task, weights, replica, harness.tokens[busy]);
        }
    }
}

static struct tern_db_replica_totals totals(void)
{
    struct tern_db *db = NULL;
    struct tern_db_replica_totals found;
    char why[256];
    assert_int_equal(tern_db_open(harness.path, 0, &db, why), TERN_OK);
    assert_int_equal(tern_db_replica_totals(db, &found), TERN_OK);
    tern_db_close(db);
    return found;
}

static void expect_same_task(const tern_CheckinReply *a, const tern_CheckinReply *b)
{
    assert_int_equal(a->task.downloads_count, b->task.downloads_count);
    for (pb_size_t i = 0; i < a->task.downloads_count; i++) {
        assert_memory_equal(a->task.downloads[i].sha256.bytes, b->task.downloads[i].sha256.bytes,
                            TERN_SHA256_SIZE);
    }
    assert_memory_equal(a->task.base.bytes, b->task.base.bytes, TERN_WIRE_REPLICA_BYTES);
    assert_int_equal(a->task.base_version, b->task.base_version);
}

static void follow(const tern_CheckinReply *reply, uint8_t replica[TERN_SHA256_SIZE],
                   float weights[COUNT])
{
    memcpy(replica, seed_id, TERN_SHA256_SIZE);
    memcpy(weights, seed_weights, sizeof seed_weights);
    apply_downloads(&harness, &reply->task, weights, replica, harness.tokens[one]);
}

#define TEST(name) CASE_WITH(name, setup, teardown)

TEST(test_who_misses_no_round_stays_on_the_trunk)
{
    run_rounds(10);
    struct tern_db_replica_totals found = totals();
    assert_int_equal(found.replicas, found.trunk);
    assert_int_equal(found.trunk, 11);
    assert_int_equal(found.downloads, 10);
}

// Also after a restart: nothing is encoded twice.
TEST(test_all_who_missed_the_same_rounds_share_a_download)
{
    run_rounds(10);
    uint64_t downloads = totals().downloads;
    tern_CheckinReply first = ask_plainly(one, seed_id);
    assert_true(first.has_task);
    assert_in_range(first.task.downloads_count, 1, 3); // not the chain of 10
    assert_int_equal(first.task.base_version, 10);
    assert_int_equal(totals().downloads, downloads + first.task.downloads_count);
    tern_CheckinReply second = ask_plainly(two, seed_id);
    expect_same_task(&first, &second);
    harness_restart(&harness);
    second = ask_plainly(two, seed_id);
    expect_same_task(&first, &second);
    assert_int_equal(totals().downloads, downloads + first.task.downloads_count);
}

static int upload(uint64_t id, const tern_Task *task, enum tern_result *name)
{
    uint8_t *body;
    size_t len = encode_update(&harness, task, 0.25F, 10, &body);
    struct answer answer = put_update(&harness, id, task->round, 1, body, len);
    int status = answer.status;
    *name = answer_error_name(&answer);
    answer_free(&answer);
    free(body);
    return status;
}

static struct tern_db_version newest_version(void)
{
    struct tern_db *db = NULL;
    struct tern_db_version version;
    char why[256];
    assert_int_equal(tern_db_open(harness.path, 0, &db, why), TERN_OK);
    assert_int_equal(tern_db_version_last(db, &version), TERN_OK);
    tern_db_close(db);
    return version;
}

static void expect_wrong_replica(uint64_t id, const tern_Task *task, const uint8_t *base)
{
    enum tern_result name = TERN_OK;
    tern_Task wrong = *task;
    memcpy(wrong.base.bytes, base, TERN_WIRE_REPLICA_BYTES);
    assert_int_equal(upload(id, &wrong, &name), 422);
    assert_int_equal(name, TERN_ERR_WRONG_REPLICA);
}

// The trunk's replica of this very version is another's base, and so is the replica from which the
// own way leads.
TEST(test_an_update_counts_from_its_tasks_base_alone)
{
    uint8_t unknown[TERN_SHA256_SIZE];
    enum tern_result name = TERN_OK;
    run_rounds(10);
    const struct tern_db_version trunk = newest_version();
    tern_CheckinReply follower = ask_plainly(busy, trunk.replica);
    assert_memory_equal(follower.task.base.bytes, trunk.replica, TERN_WIRE_REPLICA_BYTES);
    tern_CheckinReply own = ask_plainly(one, seed_id);
    assert_int_equal(own.task.base_version, trunk.version);
    assert_memory_not_equal(own.task.base.bytes, trunk.replica, TERN_WIRE_REPLICA_BYTES);
    memcpy(unknown, own.task.base.bytes, TERN_WIRE_REPLICA_BYTES);
    unknown[0] ^= 1;
    expect_wrong_replica(one, &own.task, trunk.replica);
    expect_wrong_replica(one, &own.task, seed_id);
    expect_wrong_replica(one, &own.task, unknown);
    expect_wrong_replica(busy, &follower.task, own.task.base.bytes);
    assert_int_equal(upload(one, &own.task, &name), 200);
}

// The residual of a task's base over that of the trunk.
static double distance(const tern_Task *task)
{
    const struct tern_db_version newest = newest_version();
    struct tern_db *db = NULL;
    struct tern_db_replica trunk;
    struct tern_db_replica base;
    uint8_t id[TERN_SHA256_SIZE];
    char why[256];
    assert_int_equal(tern_db_open(harness.path, 0, &db, why), TERN_OK);
    assert_int_equal(tern_db_replica_get(db, newest.replica, &trunk), TERN_OK);
    assert_true(whole_id(db, task->base.bytes, id));
    assert_int_equal(tern_db_replica_get(db, id, &base), TERN_OK);
    tern_db_close(db);
    assert_int_equal(base.version, newest.version);
    assert_true(trunk.residual > 0.0F);
    return (double)base.residual / (double)trunk.residual;
}

// Rounds whose values are not all alike, so that one pass cannot have them all.
static void run_uneven_rounds(uint32_t rounds)
{
    for (uint32_t round = 1; round <= rounds; round++) {
        float values[COUNT];
        uint8_t *body;
        for (uint32_t i = 0; i < COUNT; i++) {
            values[i] = 0.001F * (float)(i * (i + 37 * round) % 1000);
        }
        tern_CheckinReply reply = ask_plainly(busy, seed_id);
        size_t len = encode_values(&harness, &reply.task, values, 10, &body);
        answer_expect(put_update(&harness, busy, reply.task.round, 1, body, len), 200);
        free(body);
    }
}

// Passes that lead near enough leave replicas of the newest version on their way that are not: a
// client that can take no more than one download ends on such a one, another does not.
TEST(test_a_way_ends_within_the_bound_where_there_is_one)
{
    const uint32_t ternary = 1u << TERN_CODEC_3LC | 1u << TERN_CODEC_DENSITY;
    harness.config.federation.downloads.residual = 0.2;
    harness_restart(&harness);
    run_uneven_rounds(12);
    tern_CheckinReply several = ask(one, (tern_CheckinRequest){.codecs = ternary}, seed_id);
    assert_true(several.task.downloads_count > 1);
    assert_true(distance(&several.task) <= 0.2);
    tern_CheckinReply single =
        ask(two, (tern_CheckinRequest){.codecs = ternary, .downloads_max = 1}, seed_id);
    assert_int_equal(single.task.downloads_count, 1);
    assert_true(distance(&single.task) > 0.2);
    tern_CheckinReply again = ask(two, (tern_CheckinRequest){.codecs = ternary}, seed_id);
    expect_same_task(&several, &again);
    tern_CheckinReply able = ask_plainly(two, seed_id);
    assert_true(distance(&able.task) <= 0.2);
}

// Whether a cache may keep it for others.
static bool is_public(const tern_DownloadRef *ref)
{
    char path[TERN_PATH_MAX];
    tern_path_download(ref->sha256.bytes, path);
    struct answer answer = call(&harness, "GET", path, harness.tokens[one], NULL, 0);
    assert_int_equal(answer.status, 200);
    const bool is_public = strcmp(answer.cache, "public, max-age=31536000, immutable") == 0;
    assert_true(is_public || strcmp(answer.cache, "private, max-age=31536000, immutable") == 0);
    answer_free(&answer);
    return is_public;
}

// All who hold a version's replica, as the seed's is, may be led on by the first; who is on a replica of its own
// is alone. Also when it comes from the store again.
TEST(test_what_leads_on_from_a_replica_of_ones_own_is_private)
{
    const uint32_t ternary = 1u << TERN_CODEC_3LC | 1u << TERN_CODEC_DENSITY;
    harness.config.federation.downloads.residual = 0.2;
    harness_restart(&harness);
    run_uneven_rounds(12);
    tern_CheckinReply several = ask(one, (tern_CheckinRequest){.codecs = ternary}, seed_id);
    assert_true(several.task.downloads_count > 1);
    for (unsigned times = 0; times < 2; times++) {
        assert_true(is_public(&several.task.downloads[0]));
        for (pb_size_t i = 1; i < several.task.downloads_count; i++) {
            assert_false(is_public(&several.task.downloads[i]));
        }
        harness_restart(&harness);
    }
    static const uint8_t unknown[TERN_SHA256_SIZE] = {9};
    tern_CheckinReply snapshot = ask_plainly(two, unknown);
    assert_true(is_public(&snapshot.task.downloads[0]));
}

// A client that missed all rounds is led by one download whose codec begins so, and ends just within the bound. So is the
// next client, after a restart.
static void expect_one_download(double bound, const char *codec)
{
    struct tern_db *db = harness_look(&harness);
    struct tern_db_download row;
    harness.config.federation.downloads.residual = bound;
    harness_restart(&harness);
    tern_CheckinReply reply = ask_plainly(one, seed_id);
    assert_int_equal(reply.task.downloads_count, 1);
    assert_true(distance(&reply.task) <= bound);
    assert_true(distance(&reply.task) > 0.9 * bound);
    assert_int_equal(tern_db_download_get(db, reply.task.downloads[0].sha256.bytes, &row, NULL, 0),
                     TERN_OK);
    tern_db_close(db);
    assert_int_equal(strncmp(row.codec, codec, strlen(codec)), 0);
    harness_restart(&harness);
    tern_CheckinReply again = ask_plainly(two, seed_id);
    expect_same_task(&reply, &again);
}

// As many values as the bound needs, and no more.
TEST(test_who_missed_rounds_gets_a_download_of_as_many_values_as_the_bound_needs)
{
    run_uneven_rounds(6);
    expect_one_download(2.0, "density:p=0.");
}

// What three levels cannot leave in one download, `uniform` does.
TEST(test_a_bound_too_near_for_three_levels_takes_more_of_them)
{
    run_uneven_rounds(6);
    expect_one_download(0.3, "uniform:error=0.");
}

// A power cut after the downloads: what is held by then is the base.
TEST(test_who_holds_its_base_already_downloads_nothing)
{
    uint8_t replica[TERN_SHA256_SIZE];
    float weights[COUNT];
    enum tern_result name = TERN_OK;
    run_rounds(10);
    tern_CheckinReply task = ask_plainly(one, seed_id);
    follow(&task, replica, weights);
    tern_CheckinReply again = ask_plainly(one, replica);
    assert_int_equal(again.task.downloads_count, 0);
    assert_memory_equal(again.task.base.bytes, replica, TERN_WIRE_REPLICA_BYTES);
    assert_int_equal(upload(one, &again.task, &name), 200);
}

static bool starts_at_seed(const tern_CheckinReply *reply)
{
    tern_Download download;
    struct tern_span container;
    char path[TERN_PATH_MAX];
    tern_path_download(reply->task.downloads[0].sha256.bytes, path);
    struct answer answer = call(&harness, "GET", path, harness.tokens[one], NULL, 0);
    assert_int_equal(answer.status, 200);
    assert_int_equal(
        tern_wire_decode_download(answer.body->data, answer.body->len, &download, &container),
        TERN_OK);
    answer_free(&answer);
    return download.kind == tern_DownloadKind_DOWNLOAD_DELTA &&
           memcmp(download.from.bytes, seed_id, TERN_WIRE_REPLICA_BYTES) == 0;
}

TEST(test_an_unknown_replica_leads_from_the_seed_or_a_snapshot)
{
    static const uint8_t unknown[TERN_SHA256_SIZE] = {9};
    uint32_t ternary = 1u << TERN_CODEC_3LC | 1u << TERN_CODEC_DENSITY;
    run_rounds(3);
    tern_CheckinReply snapshot = ask_plainly(one, unknown);
    assert_true(snapshot.has_task && !starts_at_seed(&snapshot));
    tern_CheckinReply seed =
        ask(one, (tern_CheckinRequest){.codecs = ternary, .from_seed = true}, unknown);
    assert_true(seed.has_task && starts_at_seed(&seed));
    float weights[COUNT];
    uint8_t replica[TERN_SHA256_SIZE];
    follow(&seed, replica, weights);
    // Neither snapshots nor the seed.
    tern_CheckinReply none = ask(one, (tern_CheckinRequest){.codecs = ternary}, unknown);
    assert_false(none.has_task);
}

// In the book, that is; the versions may name it still.
static bool is_known(const uint8_t *name)
{
    uint8_t id[TERN_SHA256_SIZE];
    struct tern_db *db = NULL;
    struct tern_db_replica row;
    char why[256];
    assert_int_equal(tern_db_open(harness.path, 0, &db, why), TERN_OK);
    const bool found = whole_id(db, name, id) && tern_db_replica_get(db, id, &row) == TERN_OK;
    tern_db_close(db);
    return found;
}

// Rounds go by, and what is dirty is written, until collections have come round.
static void let_rounds_pass(unsigned rounds)
{
    for (unsigned i = 0; i < rounds; i++) {
        run_rounds(1);
        test_advance(2000);
    }
}

TEST(test_what_is_held_is_kept_and_what_was_left_is_not)
{
    uint8_t held[TERN_SHA256_SIZE];
    uint8_t next[TERN_SHA256_SIZE];
    float weights[COUNT];
    enum tern_result name = TERN_OK;
    run_rounds(10);
    tern_CheckinReply task = ask_plainly(one, seed_id);
    tern_CheckinReply offered = ask(two, (tern_CheckinRequest){.downloads_max = 1}, seed_id);
    assert_true(offered.has_task);
    follow(&task, held, weights);
    assert_int_equal(upload(one, &task.task, &name), 200);
    let_rounds_pass(30);
    assert_true(is_known(held)); // nobody else holds it, and it is old
    tern_CheckinReply later = ask_plainly(one, held);
    memcpy(next, held, TERN_SHA256_SIZE);
    apply_downloads(&harness, &later.task, weights, next, harness.tokens[one]);
    assert_int_equal(upload(one, &later.task, &name), 200);
    ask_plainly(one, seed_id); // its disk was lost
    let_rounds_pass(30);
    assert_false(is_known(next));
    assert_false(is_known(held));
}

// Rounds until the replica of an early version, which the versions still name, is in the book no
// more.
static void make_a_version_go(uint8_t replica[TERN_SHA256_SIZE])
{
    struct tern_db *db = NULL;
    struct tern_db_version version;
    char why[256];
    harness.config.federation.downloads.keep_versions = 4;
    harness_restart(&harness);
    let_rounds_pass(70);
    assert_int_equal(tern_db_open(harness.path, 0, &db, why), TERN_OK);
    assert_int_equal(tern_db_version_get(db, 3, &version), TERN_OK);
    tern_db_close(db);
    memcpy(replica, version.replica, TERN_SHA256_SIZE);
    assert_false(is_known(replica));
}

static uint32_t bytes_of(const tern_Task *task)
{
    uint32_t sum = 0;
    for (pb_size_t i = 0; i < task->downloads_count; i++) {
        sum += task->downloads[i].size;
    }
    return sum;
}

static void expect_bytes_counted(void)
{
    struct tern_service_facts facts;
    struct tern_db_replica_totals found = totals();
    tern_service_facts(harness.service, &facts);
    assert_int_equal(facts.federation.replica_bytes, found.whole_bytes + found.download_bytes);
}

// What is taken for the size of the store is what it is, also once snapshots are forgotten.
TEST(test_bytes_are_counted)
{
    static const uint8_t unknown[TERN_SHA256_SIZE] = {9};
    uint64_t judge = enroll(&harness, true);
    let_rounds_pass(4);
    uint64_t before = totals().download_bytes;
    tern_CheckinReply reply = ask_plainly(judge, unknown);
    assert_int_equal(reply.task.downloads_count, 1);
    assert_true(totals().download_bytes > before + COUNT * 4);
    expect_bytes_counted();
    let_rounds_pass(12);
    expect_bytes_counted();
    assert_true(totals().download_bytes < before * 4); // of 16 versions, without the snapshot
}

// Before the first version no delta leads anywhere, not from the seed either.
TEST(test_nothing_leads_to_version_0_without_snapshots)
{
    static const uint8_t unknown[TERN_SHA256_SIZE] = {9};
    uint32_t ternary = 1u << TERN_CODEC_3LC | 1u << TERN_CODEC_DENSITY;
    tern_CheckinReply none =
        ask(one, (tern_CheckinRequest){.codecs = ternary, .from_seed = true}, unknown);
    assert_false(none.has_task); // 422: the others' check-ins are none of its business
    assert_true(ask_plainly(one, unknown).has_task);
}

// A backup from long ago, on a client that takes everything, and on one that takes no snapshots.
TEST(test_a_version_that_is_gone_is_led_like_what_is_unknown)
{
    uint8_t gone[TERN_SHA256_SIZE];
    make_a_version_go(gone);
    tern_CheckinReply able = ask(
        one, (tern_CheckinRequest){.codecs = UINT32_MAX, .coders = UINT32_MAX, .from_seed = true},
        gone);
    assert_true(able.has_task);
    assert_int_equal(able.task.base_version, 70);
    assert_true(bytes_of(&able.task) < COUNT * 2); // float32 takes twice that
    uint32_t ternary = 1u << TERN_CODEC_3LC | 1u << TERN_CODEC_DENSITY;
    tern_CheckinReply small =
        ask(two, (tern_CheckinRequest){.codecs = ternary, .from_seed = true}, gone);
    assert_true(small.has_task && starts_at_seed(&small));
    tern_CheckinReply none = ask(two, (tern_CheckinRequest){.codecs = ternary}, gone);
    assert_false(none.has_task);
}

static void expect_on_trunk(const uint8_t *name)
{
    uint8_t replica[TERN_SHA256_SIZE];
    struct tern_db *db = NULL;
    uint32_t version = 0;
    char why[256];
    assert_int_equal(tern_db_open(harness.path, 0, &db, why), TERN_OK);
    assert_true(whole_id(db, name, replica));
    assert_int_equal(tern_db_version_of_replica(db, replica, &version), TERN_OK);
    tern_db_close(db);
}

// After a change of the plan, who holds a replica of its own comes back to the trunk, or stays near
// it if the trunk has no way for it; nobody is sent away.
TEST(test_a_change_to_the_trunk_strands_nobody)
{
    const uint32_t ternary = 1u << TERN_CODEC_3LC | 1u << TERN_CODEC_DENSITY;
    const tern_CheckinRequest seeds = {.codecs = ternary, .from_seed = true};
    uint8_t held[TERN_SHA256_SIZE];
    uint8_t next[TERN_SHA256_SIZE];
    float weights[COUNT];
    enum tern_result name = TERN_OK;
    run_rounds(10);
    tern_CheckinReply task = ask_plainly(one, seed_id);
    follow(&task, held, weights);
    assert_int_equal(upload(one, &task.task, &name), 200);
    harness.config.federation.downloads.plan = TERN_DOWNLOADS_TRUNK;
    harness_restart(&harness);
    run_rounds(2);

    // By the deltas of all versions, from the seed, to the trunk.
    tern_CheckinReply chain = ask(one, seeds, held);
    assert_true(chain.has_task && starts_at_seed(&chain));
    memcpy(next, held, TERN_SHA256_SIZE);
    apply_downloads(&harness, &chain.task, weights, next, harness.tokens[one]);
    expect_on_trunk(next);
    // By a snapshot.
    tern_CheckinReply snapshot = ask_plainly(one, held);
    assert_true(snapshot.has_task && !starts_at_seed(&snapshot));
    expect_on_trunk(snapshot.task.base.bytes);
    // By a delta from what it holds, where it takes neither.
    follow(&task, next, weights);
    tern_CheckinReply own = ask(one, (tern_CheckinRequest){.codecs = ternary}, held);
    assert_true(own.has_task);
    assert_in_range(own.task.downloads_count, 1, 3);
    apply_downloads(&harness, &own.task, weights, next, harness.tokens[one]);
    assert_int_equal(upload(one, &own.task, &name), 200);
    run_rounds(1);
    assert_true(ask(one, (tern_CheckinRequest){.codecs = ternary}, next).has_task);
}

static uint64_t searches(void)
{
    struct tern_service_facts facts;
    tern_service_facts(harness.service, &facts);
    return facts.federation.searches.searches;
}

// A bound of bytes is kept by forgetting replicas at any time; the ways that are known stay, as
// long as they are there.
TEST(test_ways_outlast_what_is_forgotten)
{
    static const uint8_t unknown[TERN_SHA256_SIZE] = {9};
    uint8_t replica[TERN_SHA256_SIZE];
    float weights[COUNT];
    uint64_t freed = 0;
    struct tern_db *db = NULL;
    char why[256];
    run_rounds(10);
    tern_CheckinReply old = ask_plainly(one, unknown);
    run_rounds(1);
    struct tern_db_replica_totals found = totals();
    harness.config.federation.downloads.replica_bytes =
        found.whole_bytes + found.download_bytes + 1;
    harness_restart(&harness);
    uint64_t before = searches();
    tern_CheckinReply first = ask_plainly(one, seed_id);
    assert_true(is_known(old.task.base.bytes));
    ask_plainly(two, unknown); // a download that was not there: others go for it
    assert_false(is_known(old.task.base.bytes));
    tern_CheckinReply second = ask_plainly(two, seed_id);
    expect_same_task(&first, &second);
    assert_int_equal(searches(), before + 2);

    assert_int_equal(tern_db_open(harness.path, 0, &db, why), TERN_OK);
    assert_int_equal(tern_db_begin(db), TERN_OK);
    assert_true(whole_id(db, first.task.base.bytes, replica));
    assert_int_equal(tern_db_replica_drop(db, replica, &freed), TERN_OK);
    assert_int_equal(tern_db_commit(db), TERN_OK);
    tern_db_close(db);
    second = ask_plainly(two, seed_id);
    follow(&second, replica, weights);
    assert_int_equal(searches(), before + 3);
}

// So few bytes that, where the newest version is kept whole, not one of the trunk's deltas is:
// after a restart, and a round later, who is behind is led from the seed or by a snapshot.
static void expect_ways_without_deltas(enum tern_downloads_plan plan)
{
    static const uint8_t unknown[TERN_SHA256_SIZE] = {9};
    static uint8_t replica[TERN_SHA256_SIZE];
    static float weights[COUNT];
    harness.config.federation.downloads.plan = plan;
    harness.config.federation.downloads.replica_bytes = 1;
    assert_int_equal(tern_codec_parse("float16", &harness.config.federation.downloads.codec, NULL),
                     TERN_OK);
    harness_restart(&harness);
    run_rounds(6);
    const struct tern_db_version old = newest_version();
    for (int i = 0; i < 12 && is_known(old.replica); i++) {
        run_rounds(1);
        ask_plainly(busy, newest_version().replica); // it leaves the one that it trained from
    }
    assert_true(totals().whole_bytes > 0 && !is_known(old.replica));
    harness_restart(&harness);
    for (int i = 0; i < 2; i++) {
        const uint8_t *held[] = {seed_id, old.replica, unknown, newest_version().replica};
        for (size_t j = 0; j < sizeof held / sizeof held[0]; j++) {
            tern_CheckinReply reply = ask_plainly(one, held[j]);
            assert_true(reply.has_task);
            if (j < 3) {
                follow(&reply, replica, weights);
            }
        }
        run_rounds(1);
    }
}

TEST(test_the_trunk_without_its_deltas)
{
    expect_ways_without_deltas(TERN_DOWNLOADS_TRUNK);
}

TEST(test_own_ways_without_the_trunks_deltas)
{
    expect_ways_without_deltas(TERN_DOWNLOADS_CHEAPEST);
}

// Searches encode while everybody waits: names that a client makes up must not start any, and what
// else it varies no more than a few.
TEST(test_one_client_cannot_make_the_service_search_for_ever)
{
    uint8_t unknown[TERN_SHA256_SIZE] = {9};
    run_rounds(3);
    uint64_t before = searches();
    for (uint8_t i = 0; i < 100; i++) {
        unknown[1] = i;
        assert_true(ask_plainly(one, unknown).has_task);
    }
    assert_int_equal(searches(), before + 1);
    for (uint32_t i = 1; i <= 60; i++) {
        ask(one, (tern_CheckinRequest){.downloads_max = i}, unknown);
    }
    assert_in_range(searches(), before + 2, before + 50);
    assert_false(ask(one, (tern_CheckinRequest){.downloads_max = 61}, unknown).has_task);
    assert_true(ask_plainly(two, seed_id).has_task);
    run_rounds(1);
    assert_true(ask(one, (tern_CheckinRequest){.downloads_max = 61}, unknown).has_task);
}

static struct tern_db_round last_committed(void)
{
    struct tern_service_facts facts;
    struct tern_db_round stored;
    struct tern_db *db = NULL;
    char why[256];
    tern_service_facts(harness.service, &facts);
    assert_int_equal(tern_db_open(harness.path, 0, &db, why), TERN_OK);
    assert_int_equal(tern_db_round_committed(db, &stored), TERN_OK);
    tern_db_close(db);
    assert_int_equal(stored.round, facts.federation.committed.round);
    assert_int_equal(stored.search_us, facts.federation.committed.search_us);
    assert_int_equal(stored.service_us, facts.federation.committed.service_us);
    return stored;
}

// A round counts the searches from its opening to its commit, also when the aggregator started again before.
TEST(test_a_round_records_what_it_cost)
{
    run_rounds(3);
    assert_true(ask_plainly(one, seed_id).has_task);
    run_rounds(1);
    const struct tern_db_round searched = last_committed();
    assert_int_equal(searched.round, 4);
    assert_true(searched.search_us > 0 && searched.service_us >= searched.search_us);
    harness_restart(&harness);
    assert_int_equal(last_committed().search_us, searched.search_us);
    run_rounds(1);
    assert_int_equal(last_committed().round, 5);
    assert_true(last_committed().service_us > 0);
    assert_true(tern_db_round_search_ms(&searched) * 1e3 >= (double)searched.search_us);
}

TEST(test_the_shares_of_a_round)
{
    struct tern_db_round round = {.opened_ms = 1000, .closed_ms = 3000, .service_us = 500000};
    assert_true(tern_db_round_service_share(&round) == 0.25);
    round.service_us = 9000000; // the clock was set
    assert_true(tern_db_round_service_share(&round) == 1);
    round.closed_ms = 0;
    assert_true(tern_db_round_service_share(&round) == 0);
    round.search_us = 6000;
    assert_true(tern_db_round_search_ms(&round) == 0);
    round.applied = 4;
    assert_true(tern_db_round_search_ms(&round) == 1.5);
}

static int status_of_checkin(uint64_t id, const uint8_t *replica)
{
    uint8_t body[TERN_WIRE_MESSAGE_MAX];
    const size_t len = encode_checkin(replica, 0, body);
    struct answer answer = call(&harness, "POST", TERN_PATH_CHECKIN, harness.tokens[id], body, len);
    const int status = answer.status;
    answer_free(&answer);
    return status;
}

// A bound on what one client may ask for must not be used up by what was rolled back: a member that
// asks while the store fails gets its task once it does not.
TEST(test_what_a_failing_store_took_back_does_not_count)
{
    run_rounds(3);
    refuse_writes(harness.path, "BEFORE INSERT ON downloads", "");
    for (int i = 0; i < 34; i++) {
        assert_int_equal(status_of_checkin(one, seed_id), 503);
    }
    take_writes(harness.path);
    harness_await_store(&harness);
    assert_true(ask_plainly(one, seed_id).has_task);
}

// All who missed versions get the trunk's one snapshot, whatever they hold; nothing else is made.
TEST(test_nothing_is_searched_where_downloads_lose_nothing)
{
    static const uint8_t unknown[TERN_SHA256_SIZE] = {9};
    assert_int_equal(tern_codec_parse("float32", &harness.config.federation.downloads.codec, NULL),
                     TERN_OK);
    harness.config.federation.downloads.inline_values = COUNT;
    harness_restart(&harness);
    run_rounds(2);
    const struct tern_db_version old = newest_version();
    run_rounds(3);
    const uint8_t *held[] = {seed_id, old.replica, unknown};
    for (size_t i = 0; i < sizeof held / sizeof held[0]; i++) {
        tern_CheckinReply reply = ask_plainly(one, held[i]);
        assert_true(reply.has_task);
        assert_int_equal(reply.task.downloads_count, 1);
        assert_memory_equal(reply.task.base.bytes, newest_version().replica,
                            TERN_WIRE_REPLICA_BYTES);
    }
    assert_int_equal(searches(), 0);
    assert_int_equal(totals().replicas, totals().trunk);
}

// The check-in is answered once the thread has made the snapshot.
TEST(test_check_ins_wait_for_snapshots)
{
    static const uint8_t unknown[TERN_SHA256_SIZE] = {9};
    const uint64_t evaluator = enroll(&harness, true);
    harness.config.federation.round.rounds = 3;
    harness.config.federation.final_model = TERN_FINAL_MODEL_ALL;
    harness_restart(&harness);
    run_rounds(2);
    tern_CheckinReply reply = ask_plainly(evaluator, unknown);
    assert_true(reply.has_task);
    assert_int_equal(reply.task.kind, tern_TaskKind_TASK_EVALUATE);
    assert_int_equal(reply.task.downloads_count, 1);
    assert_memory_equal(reply.task.base.bytes, newest_version().replica, TERN_WIRE_REPLICA_BYTES);
    do_round(&harness, two, NULL, 0.5F);
    for (unsigned asks = 0; asks < 2; asks++) {
        reply = ask_plainly(one, seed_id);
        assert_true(reply.finished);
        assert_true(reply.has_final_model);
    }
    assert_int_equal(searches(), 1); // of the client that missed two rounds
}
