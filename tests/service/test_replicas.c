// 1,000 clients come and go at random over 1,000 versions, with lost replies, lost records and
// restarts: what the aggregator takes each to hold is what it holds, bit for bit, each is led as
// near to the global model as the settings say, and the store stays within its bound of bytes at
// every step.
#include "harness.h"

#include "downloads/replicas.h"
#include "tests/cases.h"
#include "util/prng.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CLIENTS 1000
#define VERSIONS 1000
#define COUNT 650 // values of MODEL
#define BOUND 300000u
#define RESIDUAL 3.0

struct holder {
    uint8_t replica[TERN_SHA256_SIZE];
    uint32_t version;
    float weights[COUNT];
    // When it last told the aggregator.
    uint8_t told[TERN_SHA256_SIZE];
    float told_weights[COUNT];
    bool from_seed; // its version of Tern takes deltas from the seed
    uint32_t sequence;
};

static struct harness harness;
static struct holder *holders; // by id
static struct tern_prng rng;
static struct tern_db *reader; // another connection: what is committed
static struct tern_replica_reader replicas;
static uint8_t replicas_blob[16384];

// What came about, so that the test tests something.
static uint32_t own;       // tasks on a replica that is no version's
static uint32_t forgotten; // clients whose replica was gone
static uint32_t shared;    // tasks that led from the seed or by a snapshot
static uint32_t inlines;   // answers that brought their downloads
static uint32_t too_small; // ... that named them
static uint32_t restarts;  // between a task and what becomes of it
static uint32_t joined;    // ways to own replicas by one download that had been given before
static uint32_t passes;    // ways by downloads that were made for them
static uint64_t most_bytes;

static uint32_t below(uint32_t n)
{
    return (uint32_t)(tern_prng_float(&rng) * (float)n) % n;
}

static bool chance(uint32_t percent)
{
    return below(100) < percent;
}

static const uint8_t no_replica[TERN_SHA256_SIZE];

// --- Comparing

static void open_reader(void)
{
    char why[256];
    assert_int_equal(tern_db_open(harness.path, 0, &reader, why), TERN_OK);
    replicas = (struct tern_replica_reader){.db = reader,
                                            .model = &harness.model,
                                            .seed = 7,
                                            .blob = replicas_blob,
                                            .blob_size = sizeof replicas_blob};
}

// The store holds no more than it may, and knows this replica, if at all, as these weights.
static bool expect_known(const uint8_t id[TERN_SHA256_SIZE], const float *weights)
{
    float rebuilt[COUNT];
    enum tern_result found = tern_replica_weights(&replicas, id, rebuilt);
    if (found == TERN_ERR_NOT_FOUND) {
        return false;
    }
    assert_int_equal(found, TERN_OK);
    assert_memory_equal(rebuilt, weights, sizeof rebuilt);
    return true;
}

static void expect_bounded(void)
{
    struct tern_db_replica_totals totals;
    assert_int_equal(tern_db_replica_totals(reader, &totals), TERN_OK);
    uint64_t bytes = totals.whole_bytes + totals.download_bytes;
    most_bytes = bytes > most_bytes ? bytes : most_bytes;
    assert_in_range(bytes, 0, BOUND);
}

static void expect_belief(uint64_t id)
{
    struct tern_db_client row;
    const struct holder *holder = &holders[id];
    assert_int_equal(tern_db_client_get(reader, id, &row), TERN_OK);
    if (memcmp(row.replica, holder->told, TERN_SHA256_SIZE) == 0 &&
        memcmp(row.replica, no_replica, TERN_SHA256_SIZE) != 0) {
        expect_known(row.replica, holder->told_weights);
    }
}

static double norm_between(const float *a, const float *b)
{
    double sum = 0.0;
    for (uint32_t i = 0; i < COUNT; i++) {
        double difference = (double)a[i] - (b == NULL ? 0.0 : (double)b[i]);
        sum += difference * difference;
    }
    return sqrt(sum);
}

// The residual that the trunk has, or had of an earlier version, while that is known.
static double trunk_residual(uint32_t version)
{
    struct tern_db_version row;
    struct tern_db_replica trunk;
    assert_int_equal(tern_db_version_get(reader, version, &row), TERN_OK);
    return tern_db_replica_get(reader, row.replica, &trunk) == TERN_OK ? (double)trunk.residual
                                                                       : 0.0;
}

// What the base of a task differs from the global model by is what the store says, and within the
// bound: everybody takes snapshots, so there always is a way that is. from: the version held before.
static void expect_near(const tern_Task *task, uint32_t from, const float *weights)
{
    float global[COUNT];
    uint32_t version = 0;
    struct tern_db_version last;
    struct tern_db_replica base;
    struct tern_db_replica trunk;
    uint8_t id[TERN_SHA256_SIZE];
    assert_int_equal(tern_db_checkpoint(reader, &version), TERN_OK);
    assert_int_equal(tern_db_weights_get(reader, TERN_WEIGHTS_GLOBAL, version, global, COUNT),
                     TERN_OK);
    assert_int_equal(tern_db_version_last(reader, &last), TERN_OK);
    assert_int_equal(last.version, version);
    assert_int_equal(tern_db_replica_get(reader, last.replica, &trunk), TERN_OK);
    assert_true(whole_id(reader, task->base.bytes, id));
    assert_int_equal(tern_db_replica_get(reader, id, &base), TERN_OK);
    const double rounding = 1e-6 * norm_between(global, NULL);
    const double residual = norm_between(global, weights);
    if (base.version == version) {
        assert_true(fabs((double)base.residual - residual) <= 1e-6 * residual);
    } else {
        assert_true(residual <= rounding); // what is held stays only if nothing is to be had
    }
    if (memcmp(base.id, trunk.id, TERN_SHA256_SIZE) != 0) {
        const double bound =
            RESIDUAL * fmax(trunk_residual(version), trunk_residual(from)) * (1.0 + 1e-6);
        assert_true(residual <= (bound > rounding ? bound : rounding));
    }
}

// --- What a client does

static void start_over(struct holder *holder)
{
    seed_replica(&harness, holder->replica, holder->weights);
    holder->version = 0;
}

static bool is_version(const uint8_t *name)
{
    uint8_t id[TERN_SHA256_SIZE];
    uint32_t version;
    return whole_id(reader, name, id) &&
           tern_db_version_of_replica(reader, id, &version) == TERN_OK;
}

// Whether a task has named this download before, or a place of the table is shared by chance.
static bool was_given(const uint8_t sha256[TERN_SHA256_SIZE])
{
    static uint8_t given[1 << 16][8];
    uint8_t *place = given[sha256[8] | sha256[9] << 8];
    const bool before = memcmp(place, sha256, 8) == 0;
    memcpy(place, sha256, 8);
    return before;
}

// How a search led on from what is held: by a download that another was given, or by one made for it.
static void count_way(const tern_Task *task)
{
    if (task->downloads_count > 0) {
        const bool before = was_given(task->downloads[0].sha256.bytes);
        joined += before && task->downloads_count == 1 && !is_version(task->base.bytes);
        passes += !before;
    }
}

// The same question of a client that takes downloads inline gets the bytes that the names stand for,
// where they are deltas of its own; `kib` is as much as the answer may have.
static void expect_inline(uint64_t id, tern_CheckinRequest *request, const tern_Task *named,
                          uint32_t kib)
{
    tern_CheckinReply reply;
    struct tern_span downloads = {NULL, 0};
    request->inline_kib = kib;
    struct answer answer = put_checkin(&harness, id, request);
    assert_int_equal(answer.status, 200);
    assert_int_equal(
        tern_wire_decode_checkin_reply(answer.body->data, answer.body->len, &reply, &downloads),
        TERN_OK);
    assert_int_equal(reply.task.downloads_count, named->downloads_count);
    assert_memory_equal(reply.task.base.bytes, named->base.bytes, TERN_WIRE_REPLICA_BYTES);
    const bool comes = downloads.len > 0;
    assert_true(!comes || answer.body->len <= kib * 1024);
    for (uint32_t i = 0; i < named->downloads_count && comes; i++) {
        uint8_t sha256[TERN_SHA256_SIZE];
        const uint32_t size = named->downloads[i].size;
        assert_int_equal(reply.task.downloads[i].size, size);
        tern_sha256(downloads.data, size, sha256);
        assert_memory_equal(sha256, named->downloads[i].sha256.bytes, TERN_SHA256_SIZE);
        downloads.data += size;
    }
    assert_true(!comes || answer.tag.payload_down > 0);
    inlines += comes;
    too_small += named->downloads_count > 0 && !comes;
    answer_free(&answer);
}

static tern_CheckinReply ask(uint64_t id)
{
    struct holder *holder = &holders[id];
    tern_CheckinRequest request = tern_CheckinRequest_init_zero;
    request.replica.size = TERN_WIRE_REPLICA_BYTES;
    memcpy(request.replica.bytes, holder->replica, TERN_WIRE_REPLICA_BYTES);
    request.version = holder->version;
    request.from_seed = holder->from_seed;
    tern_CheckinReply reply = checkin_with(&harness, id, &request);
    memcpy(holder->told, holder->replica, TERN_SHA256_SIZE);
    memcpy(holder->told_weights, holder->weights, sizeof holder->told_weights);
    count_way(&reply.task);
    if (reply.has_task && chance(20)) {
        expect_inline(id, &request, &reply.task, 1 + tern_prng_below(&rng, 8));
    }
    return reply;
}

// Fetches and applies; what the client then holds is what the aggregator will take it to hold.
static void follow(uint64_t id, const tern_Task *task)
{
    struct holder *holder = &holders[id];
    struct tern_db_replica row;
    forgotten += tern_db_replica_get(reader, holder->replica, &row) == TERN_ERR_NOT_FOUND;
    apply_downloads(&harness, task, holder->weights, holder->replica, harness.tokens[id]);
    const uint32_t from = holder->version;
    holder->version = task->base_version;
    assert_true(expect_known(holder->replica, holder->weights));
    assert_int_equal(tern_db_replica_get(reader, holder->replica, &row), TERN_OK);
    assert_int_equal(row.version, task->base_version);
    expect_near(task, from, holder->weights);
    own += !is_version(holder->replica);
    shared += row.form == TERN_REPLICA_SNAPSHOT;
}

// The reply, which may bring a task or get lost, is not looked at.
static void report(uint64_t id, const tern_Task *task)
{
    float values[COUNT];
    uint8_t *body;
    struct holder *holder = &holders[id];
    for (uint32_t i = 0; i < COUNT; i++) {
        values[i] = tern_prng_float(&rng) - 0.5F;
    }
    size_t len = encode_values(&harness, task, values, 10, &body);
    answer_expect(put_update(&harness, id, task->round, ++holder->sequence, body, len), 200);
    free(body);
    memcpy(holder->told, holder->replica, TERN_SHA256_SIZE);
    memcpy(holder->told_weights, holder->weights, sizeof holder->told_weights);
}

static void restart_sometimes(void)
{
    if (chance(2)) {
        harness_restart(&harness);
        restarts++;
    }
}

// One member of the open round, which may vanish at any point. Returns whether it reported.
static bool come(uint64_t id, bool surely)
{
    struct holder *holder = &holders[id];
    if (!surely && chance(15)) {
        return false;
    }
    if (chance(3)) {
        start_over(holder); // its disk was lost
    }
    tern_CheckinReply reply = ask(id);
    expect_bounded();
    assert_true(reply.has_task);
    if (!surely && chance(15)) {
        return false; // the reply was lost: it holds what it held
    }
    if (chance(10)) {
        reply = ask(id); // likewise, and it asked again
    }
    restart_sometimes();
    follow(id, &reply.task);
    if (!surely && chance(20)) {
        return false; // it holds the new replica, and nobody knows
    }
    if (chance(10)) {
        reply = ask(id); // a power cut after the downloads: now it says what it holds
        follow(id, &reply.task);
    }
    restart_sometimes();
    report(id, &reply.task);
    return true;
}

// --- Rounds

struct members {
    uint64_t ids[64];
    uint32_t count;
};

static struct members members_of(uint32_t round)
{
    struct members members = {.count = 0};
    struct tern_db_assignment row;
    struct tern_db_rows *rows = tern_db_assignments(reader, round);
    while (members.count < 64 && tern_db_next(rows, &row)) {
        members.ids[members.count++] = row.client;
    }
    assert_int_equal(tern_db_end(rows), TERN_OK);
    return members;
}

static void run_round(uint32_t version)
{
    struct tern_db_round round;
    assert_int_equal(tern_db_round_last(reader, &round), TERN_OK);
    assert_int_equal(round.state, TERN_ROUND_OPEN);
    assert_int_equal(round.base_version, version);
    struct members members = members_of(round.round);
    uint32_t reported = 0;
    for (uint32_t i = 0; i < members.count && reported < round.target; i++) {
        bool surely = members.count - i <= round.target - reported;
        reported += come(members.ids[i], surely);
        expect_belief(members.ids[i]);
    }
    test_advance(2000); // what is dirty is written
}

static int setup(void **state)
{
    (void)state;
    harness_make(&harness);
    harness.config.federation.round.cohort = 2;
    harness.config.federation.round.over_selection = 1.0;
    harness.config.federation.min_clients = CLIENTS;
    harness.config.federation.downloads = (struct tern_catchup_config){
        .plan = TERN_DOWNLOADS_CHEAPEST,
        .codec = {.id = TERN_CODEC_DENSITY, .density = 0.1F, .coder = TERN_CODER_RANGE},
        .residual = RESIDUAL,
        .keep_versions = 64,
        .replica_bytes = BOUND,
        .replica_cache = 100 * COUNT * sizeof(float),
        .download_cache = 1 << 20};
    tern_prng_init(&rng, 3, TERN_PRNG_TEST, 0, 0);
    holders = calloc(CLIENTS + 1, sizeof *holders);
    assert_non_null(holders);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    tern_db_close(reader);
    free(holders);
    harness_free(&harness);
    return 0;
}

// The aggregator cannot tell the whole id of a replica that it forgot before it was told of it.
static bool is_believed(const uint8_t *believed, const uint8_t *told)
{
    uint8_t id[TERN_SHA256_SIZE] = {0};
    memcpy(id, told, TERN_WIRE_REPLICA_BYTES);
    return memcmp(believed, told, TERN_SHA256_SIZE) == 0 ||
           (memcmp(believed, id, TERN_SHA256_SIZE) == 0 && !whole_id(reader, told, id));
}

// After a restart, when all that was told is written.
static void expect_all_beliefs(void)
{
    for (uint64_t id = 1; id <= CLIENTS; id++) {
        struct tern_db_client row;
        assert_int_equal(tern_db_client_get(reader, id, &row), TERN_OK);
        assert_true(is_believed(row.replica, holders[id].told));
        expect_belief(id);
    }
    expect_bounded();
}

static void enroll_all(void)
{
    for (uint64_t id = 1; id <= CLIENTS; id++) {
        assert_int_equal(enroll(&harness, false), id);
        holders[id].from_seed = id % 5 != 0;
        start_over(&holders[id]);
        ask(id);
    }
}

CASE_WITH(test_clients_come_and_go, setup, teardown)
{
    harness_start(&harness);
    open_reader();
    enroll_all();
    for (uint32_t version = 0; version < VERSIONS; version++) {
        run_round(version);
        expect_bounded();
        if (version % 100 == 99) {
            harness_restart(&harness);
            expect_all_beliefs();
        }
    }
    printf("own %u, forgotten %u, snapshots %u, most bytes %llu, by joined %u, "
           "by passes %u\n",
           own, forgotten, shared, (unsigned long long)most_bytes, joined, passes);
    assert_true(joined > 20 && passes > 500);
    assert_true(inlines > 50 && too_small > 5);
    assert_true(own > 500 && forgotten > 50 && shared > 5 && restarts > 20);
    assert_true(most_bytes > BOUND / 2);
}
