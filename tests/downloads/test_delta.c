// Deltas and snapshots: what the aggregator keeps is what a client gets, to the bit, and nothing of
// the global model's change is lost to compression.
#include "downloads/whole.h"
#include "merge/delta.h"

#include "tests/cases.h"
#include "util/prng.h"
#include "wire/wire.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MOST 4000

static struct tern_model model;
static float global[MOST];
static float replica[MOST];
static float client[MOST];
static float scratch[MOST];
static uint8_t blob[5 * MOST];
static struct tern_download_buffers buffers = {scratch, blob, sizeof blob};
static uint8_t id[TERN_SHA256_SIZE];
static struct tern_prng rng;

static int setup(void **state)
{
    (void)state;
    memset(&model, 0, sizeof model);
    assert_int_equal(tern_model_from_spec(&model, "mlp:64-32-10"), TERN_OK);
    assert_true(model.count <= MOST);
    tern_prng_init(&rng, 5, TERN_PRNG_TEST, 0, 0);
    tern_model_init_weights(&model, 5, global);
    memcpy(replica, global, sizeof replica);
    memcpy(client, global, sizeof client);
    tern_replica_from_seed(model.hash, 5, id);
    return 0;
}

static void move_global(void)
{
    for (uint32_t i = 0; i < model.count; i++) {
        global[i] += 0.1F * (tern_prng_float(&rng) - 0.5F);
    }
}

// A client applies the blob that was made. Returns the replica it then holds.
static void apply(const struct tern_download_made *made, uint8_t held[TERN_SHA256_SIZE])
{
    tern_Download message;
    struct tern_span span;
    uint8_t sha256[TERN_SHA256_SIZE];
    tern_sha256(blob, made->len, sha256);
    assert_memory_equal(sha256, made->sha256, TERN_SHA256_SIZE);
    assert_int_equal(tern_wire_decode_download(blob, made->len, &message, &span), TERN_OK);
    assert_int_equal(span.len, made->payload);
    if (message.kind == tern_DownloadKind_DOWNLOAD_SNAPSHOT) {
        assert_memory_equal(message.model_hash.bytes, model.hash, TERN_SHA256_SIZE);
        memcpy(held, message.to.bytes, TERN_SHA256_SIZE);
        assert_int_equal(tern_container_decode(&model, span.data, span.len, client), TERN_OK);
    } else {
        assert_memory_equal(message.from.bytes, held, TERN_WIRE_REPLICA_BYTES);
        tern_replica_step(held, sha256, held);
        assert_int_equal(tern_container_accumulate(&model, span.data, span.len, 1.0F, client),
                         TERN_OK);
    }
}

static const struct tern_encode_context first = {.seed = 7, .round = 1};

static void check_codec(const char *spec)
{
    struct tern_codec codec;
    struct tern_download_made made;
    uint8_t held[TERN_SHA256_SIZE];
    assert_int_equal(tern_codec_parse(spec, &codec, NULL), TERN_OK);
    assert_true(tern_download_blob_bound(&codec, &model) <= sizeof blob);
    memcpy(held, id, sizeof held);
    for (uint32_t version = 1; version <= 20; version++) {
        const struct tern_encode_context context = {.seed = 7, .round = version};
        move_global();
        assert_int_equal(
            tern_download_delta(&model, &codec, &context, global, replica, id, &buffers, &made),
            TERN_OK);
        memcpy(id, made.replica, sizeof id);
        apply(&made, held);
        assert_memory_equal(client, replica, model.count * sizeof(float));
        assert_memory_equal(held, id, sizeof held);
    }
    // With the global model at rest, error feedback brings the replica all the way.
    for (uint32_t version = 21; version <= 200; version++) {
        const struct tern_encode_context context = {.seed = 7, .round = version};
        assert_int_equal(
            tern_download_delta(&model, &codec, &context, global, replica, id, &buffers, &made),
            TERN_OK);
        memcpy(id, made.replica, sizeof id);
    }
    for (uint32_t i = 0; i < model.count; i++) {
        assert_true(fabsf(global[i] - replica[i]) < 1e-4F);
    }
}

CASE_WITH(test_float32, setup, NULL)
{
    check_codec("float32");
}

CASE_WITH(test_float16, setup, NULL)
{
    check_codec("float16");
}

CASE_WITH(test_3lc, setup, NULL)
{
    check_codec("3lc:s=1");
}

// --- Snapshots in float32, which come in pieces

struct pieces {
    size_t len;
    size_t most; // that are taken
};

static enum tern_result take(void *ctx, const uint8_t *data, size_t len)
{
    struct pieces *pieces = ctx;
    if (len > pieces->most - pieces->len) {
        return TERN_ERR_NO_SPACE;
    }
    memcpy(blob + pieces->len, data, len);
    pieces->len += len;
    return TERN_OK;
}

CASE_WITH(test_snapshot_is_the_replica, setup, NULL)
{
    struct pieces pieces = {.most = sizeof blob};
    const struct tern_download_sink sink = {&pieces, take};
    struct tern_download_made made;
    uint8_t held[TERN_SHA256_SIZE] = {0};
    memset(client, 0xFF, sizeof client);
    memset(replica + model.segments[0].offset, 0, model.segments[0].count * sizeof(float));
    assert_int_equal(tern_whole_snapshot(&model, replica, id, 9, &sink, &made), TERN_OK);
    assert_int_equal(pieces.len, made.len);
    assert_int_equal(tern_whole_size(&model, replica, 9), made.len);
    apply(&made, held);
    assert_memory_equal(client, replica, model.count * sizeof(float));
    assert_memory_equal(held, id, sizeof held);
    // The same version gives the same blob: it can be made again after it was forgotten.
    struct tern_download_made again;
    pieces.len = 0;
    assert_int_equal(tern_whole_snapshot(&model, replica, id, 9, &sink, &again), TERN_OK);
    assert_memory_equal(made.sha256, again.sha256, TERN_SHA256_SIZE);
}

// Byte for byte what the codec float32 makes of the same weights.
CASE_WITH(test_opening_is_as_encoded, setup, NULL)
{
    static uint8_t encoded[sizeof blob];
    const struct tern_codec codec = {.id = TERN_CODEC_FLOAT32, .sparsity = 1.0F};
    const struct tern_download_buffers apart = {scratch, encoded, sizeof encoded};
    struct pieces pieces = {.most = sizeof blob};
    const struct tern_download_sink sink = {&pieces, take};
    struct tern_download_made made;
    struct tern_download_made whole;
    uint8_t held[TERN_SHA256_SIZE];
    move_global();
    memset(global + model.segments[0].offset, 0, model.segments[0].count * sizeof(float));
    assert_int_equal(tern_download_opening(&model, &codec, &first, global, replica, &apart, &made),
                     TERN_OK);
    assert_int_equal(tern_whole_opening(&model, global, first.round, &sink, &whole), TERN_OK);
    assert_int_equal(whole.len, made.len);
    assert_memory_equal(blob, encoded, made.len);
    assert_memory_equal(whole.replica, made.replica, TERN_SHA256_SIZE);
    apply(&whole, held);
    assert_memory_equal(held, whole.replica, sizeof held);
    assert_memory_equal(client, global, model.count * sizeof(float));
}

CASE_WITH(test_whole_errors, setup, NULL)
{
    struct pieces pieces = {.most = 1000};
    const struct tern_download_sink sink = {&pieces, take};
    struct tern_download_made made;
    assert_int_equal(tern_whole_snapshot(&model, replica, id, 9, &sink, &made),
                     TERN_ERR_NO_SPACE); // the sink's
    pieces.len = 0;
    replica[model.count - 1] = INFINITY;
    assert_int_equal(tern_whole_snapshot(&model, replica, id, 9, &sink, &made),
                     TERN_ERR_NON_FINITE);
    assert_int_equal(pieces.len, 0);
}

CASE_WITH(test_overflow_leaves_the_replica, setup, NULL)
{
    struct tern_codec codec = {.id = TERN_CODEC_3LC, .sparsity = 1.0F};
    struct tern_download_made made;
    global[3] = 3e38F;
    replica[3] = -3e38F;
    memcpy(client, replica, sizeof client);
    assert_int_equal(
        tern_download_delta(&model, &codec, &first, global, replica, id, &buffers, &made),
        TERN_ERR_NON_FINITE);
    assert_memory_equal(client, replica, model.count * sizeof(float));
}

CASE_WITH(test_short_buffers_are_refused, setup, NULL)
{
    struct tern_codec codec = {.id = TERN_CODEC_FLOAT32, .sparsity = 1.0F};
    struct tern_download_made made;
    struct tern_download_buffers small = buffers;
    move_global();
    memcpy(client, replica, sizeof client);
    small.blob_size = 10;
    assert_int_equal(
        tern_download_delta(&model, &codec, &first, global, replica, id, &small, &made),
        TERN_ERR_NO_SPACE);
    small.blob_size = tern_download_blob_bound(&codec, &model) - 1;
    assert_int_equal(
        tern_download_delta(&model, &codec, &first, global, replica, id, &small, &made),
        TERN_ERR_NO_SPACE);
    assert_memory_equal(client, replica, model.count * sizeof(float));
}
