// Decoding is most of what an update costs: from its arrival to the commit of its round each is decoded once,
// by the thread that received it, while what comes of it fits the strategy's memory.
#include "harness.h"

#include "codec/modes.h"
#include "util/prng.h"
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "one_harness.h"
#include "tests/cases.h"

#define CLIENTS 3

// --- How often an update's payload was read (the linker puts these in between)

// The first payload of what a client sent: range-coded, and nobody else's.
struct sent {
    uint8_t *body;
    size_t body_len;
    struct tern_bytes_left payload;
    atomic_uint reads;
};

static struct sent sent[CLIENTS];
static atomic_bool counting; // all of them are encoded

static void note_read(const uint8_t *src, size_t len)
{
    for (int i = 0; atomic_load(&counting) && i < CLIENTS; i++) {
        if (len == sent[i].payload.len && memcmp(src, sent[i].payload.data, len) == 0) {
            atomic_fetch_add(&sent[i].reads, 1);
        }
    }
}

enum tern_result __real_tern_payload_read(const uint8_t *src, size_t src_len, size_t count,
                                          const struct tern_payload_reader *reader,
                                          struct tern_codec_info *info);
enum tern_result __wrap_tern_payload_read(const uint8_t *src, size_t src_len, size_t count,
                                          const struct tern_payload_reader *reader,
                                          struct tern_codec_info *info);
enum tern_result __real_tern_payload_check(const uint8_t *src, size_t src_len, size_t count,
                                           const struct tern_mode **mode);
enum tern_result __wrap_tern_payload_check(const uint8_t *src, size_t src_len, size_t count,
                                           const struct tern_mode **mode);
enum tern_result __real_tern_payload_add(const uint8_t *src, size_t src_len, float weight,
                                         float *acc, size_t count);
enum tern_result __wrap_tern_payload_add(const uint8_t *src, size_t src_len, float weight,
                                         float *acc, size_t count);

enum tern_result __wrap_tern_payload_read(const uint8_t *src, size_t src_len, size_t count,
                                          const struct tern_payload_reader *reader,
                                          struct tern_codec_info *info)
{
    note_read(src, src_len);
    return __real_tern_payload_read(src, src_len, count, reader, info);
}

enum tern_result __wrap_tern_payload_check(const uint8_t *src, size_t src_len, size_t count,
                                           const struct tern_mode **mode)
{
    note_read(src, src_len);
    return __real_tern_payload_check(src, src_len, count, mode);
}

enum tern_result __wrap_tern_payload_add(const uint8_t *src, size_t src_len, float weight,
                                         float *acc, size_t count)
{
    note_read(src, src_len);
    return __real_tern_payload_add(src, src_len, weight, acc, count);
}

// --- A round of all clients

// steps: that it did.
static void encode(uint64_t client, const tern_Task *task, uint32_t steps)
{
    struct sent *update = &sent[client - 1];
    struct tern_prng rng;
    struct tern_span container;
    tern_Update message;
    float *values = malloc(harness.model.count * sizeof *values);
    assert_non_null(values);
    tern_prng_init(&rng, 1, TERN_PRNG_TEST, (uint32_t)client, 0);
    for (uint32_t i = 0; i < harness.model.count; i++) {
        values[i] = tern_prng_float(&rng) - 0.5F;
    }
    tern_Task done = *task;
    done.local_steps = steps;
    update->body_len = encode_values(&harness, &done, values, 10, &update->body);
    free(values);
    assert_int_equal(tern_wire_decode_update(update->body, update->body_len, &message, &container),
                     TERN_OK);
    struct tern_bytes_left rest = {container.data, container.len};
    assert_true(tern_take_payload(&rest, &update->payload));
    assert_true(update->payload.len > 32);
}

static void start(uint64_t memory)
{
    struct tern_federation_config *federation = &harness.config.federation;
    federation->round.cohort = CLIENTS;
    federation->min_clients = CLIENTS;
    federation->codec_up = (struct tern_codec){
        .id = TERN_CODEC_3LC, .sparsity = 1.0F, .clip = 4.0F, .coder = TERN_CODER_RANGE};
    federation->strategy_memory = memory;
    harness_start_with(&harness, CLIENTS);
}

// Plays a round to its commit, whose merge has ended when this returns. Where steps are unequal, each
// client has done another number of them.
static void play(bool unequal)
{
    struct tern_db_version version;
    char why[256];
    tern_CheckinReply tasks[CLIENTS + 1];
    for (uint64_t client = 1; client <= CLIENTS; client++) {
        tasks[client] = checkin(&harness, client, NULL);
        assert_true(tasks[client].has_task);
        const uint32_t asked = tasks[client].task.local_steps;
        assert_true(asked > CLIENTS);
        encode(client, &tasks[client].task, unequal ? asked - (uint32_t)client : asked);
    }
    atomic_store(&counting, true);
    for (uint64_t client = 1; client <= CLIENTS; client++) {
        const struct sent *update = &sent[client - 1];
        answer_expect(put_update(&harness, client, tasks[client].task.round, 1, update->body,
                                 update->body_len),
                      200);
    }
    harness_stop(&harness);
    assert_int_equal(tern_db_open(harness.path, 0, &harness.db, why), TERN_OK);
    assert_int_equal(tern_db_version_get(harness.db, 1, &version), TERN_OK);
}

static int forget(void **state)
{
    atomic_store(&counting, false);
    const int result = teardown(state); // nobody counts any more
    for (int i = 0; i < CLIENTS; i++) {
        free(sent[i].body);
        sent[i] = (struct sent){.body = NULL};
    }
    return result;
}

#define TEST(name) CASE_WITH(name, setup, forget)

TEST(test_each_is_decoded_once)
{
    start(0); // the default
    play(false);
    for (int i = 0; i < CLIENTS; i++) {
        assert_int_equal(atomic_load(&sent[i].reads), 1);
    }
}

// As many sums as there are numbers of steps would be beyond the memory.
TEST(test_so_it_is_with_many_numbers_of_steps)
{
    start((CLIENTS - 1) * sizeof(uint64_t) * harness.model.count);
    play(true);
    for (int i = 0; i < CLIENTS; i++) {
        assert_int_equal(atomic_load(&sent[i].reads), 1);
    }
}

// Which also says that what a commit decodes is counted.
TEST(test_with_little_memory_the_commit_decodes_again)
{
    start(1);
    play(false);
    for (int i = 0; i < CLIENTS; i++) {
        assert_true(atomic_load(&sent[i].reads) > 1);
    }
}
