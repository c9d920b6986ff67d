// A strategy that combines values in two passes and keeps what the first one found for the second,
// through the commit of a stored round: the same bits whether memory is enough for all values or for
// one of each update.
#include "merge/merge.h"
#include "store/fixture.h"
#include "tests/cases.h"
#include "wire/wire.h"

#include <string.h>

#define COUNT 15 // values of softmax:4-3
#define UPDATES 4

static uint32_t blocks; // that the strategy was given

static float value_of(size_t update, size_t i)
{
    return ((float)(update * 7 + i) - 13.5F) / (float)(update * update + 3);
}

// Weighs each update by the inverse of its squared norm, which the first pass sums up.
static void combine(struct tern_strategy_sums *sums, const struct tern_strategy_block *block)
{
    double *squares = sums->memory.scratch;
    blocks++;
    for (uint32_t u = 0; block->pass == 0 && u < block->updates; u++) {
        squares[u] = block->first == 0 ? 0.0 : squares[u];
        for (uint32_t i = 0; i < block->width; i++) {
            double value = (double)block->values[u * block->width + i];
            squares[u] += value * value;
        }
    }
    for (uint32_t i = 0; block->pass == 1 && i < block->width; i++) {
        double sum = 0.0;
        for (uint32_t u = 0; u < block->updates; u++) {
            sum += (double)block->values[u * block->width + i] / squares[u];
        }
        sums->memory.acc[block->first + i] = (float)sum;
    }
}

static uint64_t scratch_size(uint32_t updates)
{
    return updates * sizeof(double);
}

static const struct tern_strategy strategy = {.name = "two-passes",
                                              .server_learning_rate = 1.0F,
                                              .passes = 2,
                                              .scratch = scratch_size,
                                              .combine = combine};

// The Update message of a client, as the store keeps it.
static size_t make_body(const struct tern_merge *merge, size_t u, uint8_t *body, size_t size)
{
    static const struct tern_codec codec = {.id = TERN_CODEC_FLOAT32, .sparsity = 1.0F};
    uint8_t container[256];
    size_t used = 0;
    size_t len = 0;
    float values[COUNT];
    for (size_t i = 0; i < COUNT; i++) {
        values[i] = value_of(u, i);
    }
    assert_int_equal(tern_container_encode(&codec, NULL, &merge->model, values, container,
                                           sizeof container, &used),
                     TERN_OK);
    tern_Update message = {.num_examples = 10, .local_steps = 5, .loss = 1.0F, .has_error = true};
    message.base.size = TERN_WIRE_REPLICA_BYTES;
    memcpy(message.base.bytes, merge->replica_id, TERN_WIRE_REPLICA_BYTES);
    message.model_hash.size = TERN_SHA256_SIZE;
    memcpy(message.model_hash.bytes, merge->model.hash, TERN_SHA256_SIZE);
    assert_int_equal(
        tern_wire_encode_update(&message, (struct tern_span){container, used}, body, size, &len),
        TERN_OK);
    return len;
}

static void store_updates(struct fixture *fixture, const struct tern_merge *merge)
{
    fixture_round(fixture, 1);
    for (size_t u = 0; u < UPDATES; u++) {
        uint8_t body[512];
        struct tern_db_update update = {
            .round = 1, .client = fixture_client(fixture, (uint8_t)(u + 1)), .sequence = 1};
        update.body_len = make_body(merge, u, body, sizeof body);
        update.body = body;
        tern_sha256(body, update.body_len, update.sha256);
        assert_ok(fixture, tern_db_begin(fixture->db));
        assert_ok(fixture, tern_db_update_put(fixture->db, &update));
        assert_ok(fixture, tern_db_commit(fixture->db));
    }
}

// Commits the stored round to a model of zeros with room for that many coordinates of each update.
static void merge_round(struct fixture *fixture, struct tern_merge *merge, size_t width)
{
    const struct tern_strategy_rule rule = {.strategy = &strategy, .server_learning_rate = 1.0F};
    const struct tern_contribution contribution = {10, 5, 1.0F, 0};
    const struct tern_db_round round = {.round = 1, .codec_down = "float32"};
    struct tern_strategy_totals totals;
    struct tern_merge_next next;
    tern_strategy_totals_init(&totals, &rule);
    for (size_t u = 0; u < UPDATES; u++) {
        assert_int_equal(tern_strategy_count_update(&totals, &contribution), TERN_OK);
    }
    tern_merge_seed(merge, 1);
    memset(merge->global, 0, COUNT * sizeof merge->global[0]);
    merge->memory = width * UPDATES * sizeof(float);
    blocks = 0;
    assert_ok(fixture, tern_merge_make(merge, fixture->db, &round, &totals, &next));
    assert_int_equal(blocks, 2 * ((COUNT + width - 1) / width));
    assert_int_equal(next.report.updates, UPDATES);
    assert_true(next.report.mean_loss == 1.0F);
}

static void start(struct fixture *fixture, struct tern_merge *merge)
{
    struct tern_db_federation federation = {.model_spec = "softmax:4-3", .seed = 1};
    struct tern_model model;
    memset(&model, 0, sizeof model);
    assert_int_equal(tern_model_from_spec(&model, federation.model_spec), TERN_OK);
    memcpy(federation.model_hash, model.hash, sizeof federation.model_hash);
    assert_int_equal(tern_merge_init(merge, &federation, NULL), TERN_OK);
    assert_int_equal(merge->model.count, COUNT);
    tern_merge_seed(merge, 1);
    store_updates(fixture, merge);
}

CASE_WITH(test_enough_memory, fixture_setup, fixture_teardown)
{
    struct tern_merge merge;
    double squares[UPDATES] = {0.0};
    start(*state, &merge);
    for (size_t u = 0; u < UPDATES; u++) {
        for (size_t i = 0; i < COUNT; i++) {
            squares[u] += (double)value_of(u, i) * (double)value_of(u, i);
        }
    }
    merge_round(*state, &merge, COUNT);
    for (size_t i = 0; i < COUNT; i++) {
        double sum = 0.0;
        for (size_t u = 0; u < UPDATES; u++) {
            sum += (double)value_of(u, i) / squares[u];
        }
        assert_true(merge.global[i] == (float)sum);
    }
    tern_merge_free(&merge);
}

CASE_WITH(test_little_memory, fixture_setup, fixture_teardown)
{
    struct tern_merge merge;
    float whole[COUNT];
    start(*state, &merge);
    merge_round(*state, &merge, COUNT);
    memcpy(whole, merge.global, sizeof whole);
    for (size_t width = 1; width < COUNT; width++) {
        merge_round(*state, &merge, width);
        assert_memory_equal(merge.global, whole, sizeof whole);
    }
    tern_merge_free(&merge);
}
