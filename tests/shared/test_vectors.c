// libtern against the vectors, which an independent encoder made from docs/FORMAT.md.
#include "check.h"
#include "vectors.h"

#include "codec/container.h"
#include "codec/sparse_share.h"
#include "error_feedback/error_buffer.h"
#include "tensor/manifest.h"
#include "tests/cases.h"
#include "util/bytes.h"
#include "util/sha256.h"
#include "wire/wire.h"
#include <stdlib.h>
#include <string.h>

static struct vectors v;
static float input[VECTOR_VALUES_MAX];
static float expected[VECTOR_VALUES_MAX];
static float actual[VECTOR_VALUES_MAX];
static uint8_t bytes[VECTOR_LINE_MAX / 2];
static uint8_t encoded[5 * VECTOR_VALUES_MAX];

static void expect_key(const char *key)
{
    assert_true(vectors_next(&v));
    assert_string_equal(v.key, key);
}

static void expect_bytes(const char *key, const uint8_t *data, size_t len)
{
    expect_key(key);
    if (vectors_bytes(&v, bytes) != len || memcmp(bytes, data, len) != 0) {
        fail_msg("line %u: other bytes", v.number);
    }
}

static void expect_floats(const char *key, const float *values, size_t count)
{
    expect_key(key);
    if (vectors_floats(&v, expected) != count) {
        fail_msg("line %u: %zu values", v.number, count);
    }
    assert_same_floats(values, expected, count);
}

// --- Codecs

// What the lines of a case say.
struct codec_case {
    struct tern_codec codec;
    struct tern_encode_context context;
    float velocity[VECTOR_VALUES_MAX];
    uint8_t indices[VECTOR_LINE_MAX / 2];
};

// Reads a line of a case; true when it is the last one, "case".
static bool read_case_line(struct codec_case *c, size_t count)
{
    if (strcmp(v.key, "velocity") == 0) {
        assert_int_equal(vectors_floats(&v, c->velocity), count);
        c->context.velocity = c->velocity;
    } else if (strcmp(v.key, "indices") == 0) {
        c->context.indices_len = vectors_bytes(&v, c->indices);
        c->context.indices = c->indices;
    } else {
        assert_string_equal(v.key, "case");
        assert_int_equal(tern_codec_parse(vectors_word(&v), &c->codec, NULL), TERN_OK);
        c->context.seed = strtoull(vectors_word(&v), NULL, 10);
        c->context.round = vectors_number(&v);
        c->context.client = vectors_number(&v);
        c->context.segment = vectors_number(&v);
        return true;
    }
    return false;
}

// What error feedback keeps is what a decoder lacks.
static void check_decoded(const struct codec_case *c, size_t written, size_t count)
{
    static float decoded[VECTOR_VALUES_MAX];
    assert_int_equal(tern_codec_decode(encoded, written, decoded, count), TERN_OK);
    if (tern_codec_entry(c->codec.id)->feedback == TERN_FEEDBACK_ERROR) {
        for (size_t i = 0; i < count; i++) {
            decoded[i] = input[i] - decoded[i];
        }
        assert_same_floats(decoded, actual, count);
    }
}

static void check_codec_case(struct codec_case *c, size_t count)
{
    size_t written = 0;
    memcpy(actual, input, count * sizeof(float));
    enum tern_result result = tern_codec_encode(&c->codec, &c->context, actual, count, encoded,
                                                tern_codec_bound(&c->codec, count), &written);
    if (result != TERN_OK) {
        expect_key("refused");
        assert_string_equal(tern_result_name(result), v.rest);
        assert_same_floats(actual, input, count);
        return;
    }
    expect_bytes("payload", encoded, written);
    expect_floats("fed-back", actual, count);
    if (c->context.velocity != NULL) {
        expect_floats("velocity-after", c->context.velocity, count);
    }
    check_decoded(c, written, count);
}

CASE(test_codecs)
{
    static struct codec_case c;
    unsigned cases = 0;
    size_t count = 0;
    vectors_open(&v, "codecs.txt");
    while (vectors_next(&v)) {
        if (strcmp(v.key, "input") == 0) {
            vectors_word(&v);
            count = vectors_floats(&v, input);
            continue;
        }
        if (read_case_line(&c, count)) {
            check_codec_case(&c, count);
            c.context = (struct tern_encode_context){.seed = 0};
            cases++;
        }
    }
    assert_true(cases > 150);
}

// Symbols under a coder, as 3lc of values that are their own symbols.
static void check_coder(const char *name, size_t count)
{
    char spec[TERN_CODEC_SPEC_MAX];
    struct tern_codec codec;
    size_t written = 0;
    snprintf(spec, sizeof spec, "3lc:s=1,coder=%s", name);
    assert_int_equal(tern_codec_parse(spec, &codec, NULL), TERN_OK);
    memcpy(actual, input, count * sizeof(float));
    assert_int_equal(
        tern_codec_encode(&codec, NULL, actual, count, encoded, sizeof encoded, &written), TERN_OK);
    size_t len = vectors_bytes(&v, bytes);
    if (len != written - 5 || memcmp(encoded + 5, bytes, len) != 0) {
        fail_msg("line %u: %s writes other bytes", v.number, name);
    }
    assert_int_equal(tern_codec_decode(encoded, written, actual, count), TERN_OK);
    assert_same_floats(actual, input, count);
}

CASE(test_coders)
{
    unsigned cases = 0;
    size_t count = 0;
    vectors_open(&v, "coders.txt");
    while (vectors_next(&v)) {
        if (strcmp(v.key, "symbols") == 0) {
            count = vectors_symbols(&v, input);
        } else {
            check_coder(v.key, count);
            cases++;
        }
    }
    assert_true(cases > 100);
}

CASE(test_specs)
{
    unsigned cases = 0;
    vectors_open(&v, "specs.txt");
    for (; vectors_next(&v); cases++) {
        assert_string_equal(v.key, "spec");
        char text[256];
        char canonical[TERN_CODEC_SPEC_MAX];
        struct tern_codec codec;
        snprintf(text, sizeof text, "%s", v.rest);
        enum tern_result result = tern_codec_parse(text, &codec, NULL);
        assert_true(vectors_next(&v));
        if (result == TERN_OK) {
            tern_codec_format(&codec, canonical);
        }
        const char *answer = result == TERN_OK ? canonical : tern_result_name(result);
        if (strcmp(v.key, result == TERN_OK ? "canonical" : "refused") != 0 ||
            strcmp(v.rest, answer) != 0) {
            fail_msg("%s: %s, not %s", text, answer, v.rest);
        }
    }
    assert_true(cases > 50);
}

// --- Payloads

CASE(test_payloads)
{
    unsigned cases = 0;
    vectors_open(&v, "payloads.txt");
    for (; vectors_next(&v); cases++) {
        assert_string_equal(v.key, "payload");
        char name[64];
        snprintf(name, sizeof name, "%s", vectors_word(&v));
        size_t count = vectors_number(&v);
        size_t len = vectors_bytes(&v, bytes);
        enum tern_result result = tern_codec_decode(bytes, len, actual, count);
        assert_true(vectors_next(&v));
        if (strcmp(v.key, "refused") == 0) {
            if (strcmp(tern_result_name(result), v.rest) != 0) {
                fail_msg("%s: %s, not %s", name, tern_result_name(result), v.rest);
            }
            continue;
        }
        if (result != TERN_OK) {
            fail_msg("%s: %s", name, tern_result_name(result));
        }
        assert_int_equal(vectors_floats(&v, expected), count);
        assert_same_floats(actual, expected, count);
    }
    assert_true(cases > 100);
}

static void expect_hex(const uint8_t *data, const char *hex)
{
    char text[2 * TERN_SHA256_SIZE + 1];
    tern_hex_encode(data, TERN_SHA256_SIZE, text);
    assert_string_equal(text, hex);
}

static void check_tensor(const struct tern_tensor *tensor)
{
    assert_string_equal(tensor->name, vectors_word(&v));
    char *dims = vectors_word(&v);
    for (uint32_t i = 0; i < tensor->dim_count; i++) {
        assert_int_equal(tensor->dims[i], strtoul(dims, &dims, 10));
        dims += *dims == 'x';
    }
    assert_string_equal(dims, "");
    assert_int_equal(tensor->offset, strtoul(vectors_word(&v), NULL, 10));
    assert_int_equal(bits_of(tensor->init_bound), strtoul(vectors_word(&v), NULL, 16));
}

static void check_weights(const struct tern_model *model)
{
    uint64_t seed = strtoull(vectors_word(&v), NULL, 10);
    float *weights = malloc(model->count * sizeof *weights);
    uint8_t *raw = malloc(model->count * sizeof *weights);
    uint8_t digest[TERN_SHA256_SIZE];
    tern_model_init_weights(model, seed, weights);
    for (uint32_t i = 0; i < model->count; i++) {
        tern_put_f32(raw + 4 * i, weights[i]);
    }
    tern_sha256(raw, 4 * model->count, digest);
    expect_hex(digest, vectors_word(&v));
    assert_same_floats(weights, expected, vectors_floats(&v, expected));
    free(raw);
    free(weights);
}

static void check_replica(const struct tern_model *model)
{
    uint8_t id[TERN_SHA256_SIZE];
    tern_replica_from_seed(model->hash, strtoull(vectors_word(&v), NULL, 10), id);
    expect_hex(id, v.rest);
}

CASE(test_models)
{
    struct tern_model model = {0};
    uint32_t segments = 0;
    uint32_t tensors = 0;
    vectors_open(&v, "models.txt");
    while (vectors_next(&v)) {
        if (strcmp(v.key, "model") == 0) {
            assert_int_equal(segments, model.segment_count);
            assert_int_equal(tensors, model.tensor_count);
            segments = tensors = 0;
            assert_int_equal(tern_model_from_spec(&model, vectors_word(&v)), TERN_OK);
            assert_int_equal(model.count, strtoul(v.rest, NULL, 10));
        } else if (strcmp(v.key, "hash") == 0) {
            expect_hex(model.hash, v.rest);
        } else if (strcmp(v.key, "segment") == 0) {
            const struct tern_segment *segment = &model.segments[segments++];
            assert_int_equal(segment->offset, strtoul(vectors_word(&v), NULL, 10));
            assert_int_equal(segment->count, strtoul(v.rest, NULL, 10));
        } else if (strcmp(v.key, "tensor") == 0) {
            check_tensor(&model.tensors[tensors++]);
        } else if (strcmp(v.key, "weights") == 0) {
            check_weights(&model);
        } else {
            assert_string_equal(v.key, "replica");
            check_replica(&model);
        }
    }
    assert_true(tensors > 0 && tensors == model.tensor_count);
}

// "container SPEC", input, bytes, fed-back, values; the words before SPEC taken.
static void check_container(const struct tern_model *model)
{
    struct tern_codec codec;
    size_t written = 0;
    const struct tern_encode_context context = {.seed = 11, .round = 3, .client = 5};
    assert_int_equal(tern_codec_parse(v.rest, &codec, NULL), TERN_OK);
    expect_key("input");
    assert_int_equal(vectors_floats(&v, actual), model->count);
    assert_int_equal(
        tern_container_encode(&codec, &context, model, actual, encoded, sizeof encoded, &written),
        TERN_OK);
    expect_bytes("bytes", encoded, written);
    expect_floats("fed-back", actual, model->count);
    assert_int_equal(tern_container_decode(model, encoded, written, actual), TERN_OK);
    expect_floats("values", actual, model->count);
}

#if TERN_MANIFESTS
static void check_ruled_tensor(const struct tern_tensor *tensor)
{
    char dims[128] = "-";
    size_t used = 0;
    for (uint32_t i = 0; i < tensor->dim_count; i++) {
        used += (size_t)snprintf(dims + used, sizeof dims - used, "%s%u", i > 0 ? "x" : "",
                                 tensor->dims[i]);
    }
    assert_string_equal(tensor->name, vectors_word(&v));
    assert_string_equal(dims, vectors_word(&v));
    assert_int_equal(tensor->offset, vectors_number(&v));
    assert_int_equal(tensor->rule, strtoul(v.rest, NULL, 10));
}

static void check_ruled_segment(const struct tern_segment *segment)
{
    assert_int_equal(segment->offset, vectors_number(&v));
    assert_int_equal(segment->count, vectors_number(&v));
    assert_int_equal(segment->rule, strtoul(v.rest, NULL, 10));
}

static void check_first_replica(const struct tern_model *model)
{
    uint8_t *raw = malloc(4 * (size_t)model->count);
    uint8_t weights[TERN_SHA256_SIZE];
    uint8_t id[TERN_SHA256_SIZE];
    for (uint32_t i = 0; i < model->count; i++) {
        tern_put_f32(raw + 4 * i, 0.5f);
    }
    tern_sha256(raw, 4 * (size_t)model->count, weights);
    tern_replica_from_weights(model->hash, weights, id);
    expect_hex(id, v.rest);
    free(raw);
}

// A manifest that is accepted is also what is written for its model.
static void check_written(const struct tern_model *model, const uint8_t *manifest, size_t len)
{
    uint8_t *written = malloc(TERN_MANIFEST_MAX);
    assert_int_equal(tern_manifest_encode(model, written), len);
    assert_memory_equal(written, manifest, len);
    expect_hex(model->hash, v.rest);
    free(written);
}

CASE(test_manifests)
{
    static struct tern_model model;
    static uint8_t manifest[VECTOR_LINE_MAX / 2];
    enum tern_result result = TERN_OK;
    uint32_t segments = 0;
    uint32_t tensors = 0;
    unsigned refused = 0;
    size_t len = 0;
    vectors_open(&v, "manifests.txt");
    while (vectors_next(&v)) {
        if (strcmp(v.key, "manifest") == 0) {
            segments = tensors = 0;
            len = vectors_bytes(&v, manifest);
            result = tern_model_from_manifest(&model, manifest, len);
        } else if (strcmp(v.key, "refused") == 0) {
            assert_string_equal(tern_result_name(result), v.rest);
            refused++;
        } else if (strcmp(v.key, "hash") == 0) {
            assert_int_equal(result, TERN_OK);
            check_written(&model, manifest, len);
        } else if (strcmp(v.key, "segment") == 0) {
            check_ruled_segment(&model.segments[segments++]);
        } else if (strcmp(v.key, "tensor") == 0) {
            check_ruled_tensor(&model.tensors[tensors++]);
        } else if (strcmp(v.key, "first") == 0) {
            assert_true(segments == model.segment_count && tensors == model.tensor_count);
            check_first_replica(&model);
        } else {
            assert_string_equal(v.key, "container");
            check_container(&model);
        }
    }
    assert_true(refused > 10 && len > 0);
}
#endif

CASE(test_containers)
{
    unsigned cases = 0;
    vectors_open(&v, "containers.txt");
    for (; vectors_next(&v); cases++) {
        static struct tern_model model;
        assert_string_equal(v.key, "container");
        assert_int_equal(tern_model_from_spec(&model, vectors_word(&v)), TERN_OK);
        check_container(&model);
    }
    assert_true(cases >= 3);
}

static void check_share(const struct tern_model *model, const struct tern_codec *codec)
{
    static uint8_t indices[VECTOR_LINE_MAX], stripped[VECTOR_LINE_MAX], joined[VECTOR_LINE_MAX];
    struct tern_encode_context context = {.indices = indices};
    size_t len = vectors_bytes(&v, bytes);
    assert_int_equal(tern_sparse_indices(model, codec, bytes, len, indices, sizeof indices,
                                         &context.indices_len),
                     TERN_OK);
    expect_bytes("indices", indices, context.indices_len);
    expect_key("input");
    assert_int_equal(vectors_floats(&v, actual), model->count);
    assert_int_equal(
        tern_container_encode(codec, &context, model, actual, encoded, sizeof encoded, &len),
        TERN_OK);
    expect_bytes("own", encoded, len);
    assert_int_equal(tern_sparse_strip(model, encoded, len, stripped, sizeof stripped, &len),
                     TERN_OK);
    expect_bytes("stripped", stripped, len);
    assert_int_equal(tern_sparse_join(model, indices, context.indices_len, stripped, len, joined,
                                      sizeof joined, &len),
                     TERN_OK);
    expect_bytes("joined", joined, len);
}

CASE(test_shares)
{
    unsigned cases = 0;
    vectors_open(&v, "shares.txt");
    for (; vectors_next(&v); cases++) {
        struct tern_model model;
        struct tern_codec codec;
        assert_string_equal(v.key, "leader");
        assert_int_equal(tern_model_from_spec(&model, vectors_word(&v)), TERN_OK);
        assert_int_equal(tern_codec_parse(vectors_word(&v), &codec, NULL), TERN_OK);
        check_share(&model, &codec);
    }
    assert_true(cases >= 3);
}

// --- Error buffers

// A buffer whose bytes are aligned as any storage wants them.
static float room[VECTOR_VALUES_MAX];
static struct tern_error_buffer buffer = {.bytes = room};

static enum tern_error_storage read_storage(void)
{
    enum tern_error_storage storage = TERN_ERROR_FLOAT32;
    assert_int_equal(tern_error_storage_from_name(vectors_word(&v), &storage), TERN_OK);
    return storage;
}

static float read_float(void)
{
    return float_of_bits((uint32_t)strtoul(vectors_word(&v), NULL, 16));
}

// Fills the buffer from a line of bytes.
static void read_buffer(uint32_t count)
{
    buffer.count = count;
    size_t len = vectors_bytes(&v, bytes);
    assert_int_equal(len, tern_error_storage_bytes(buffer.storage, count));
    memcpy(room, bytes, len);
}

static void expect_buffer(const char *key)
{
    expect_bytes(key, buffer.bytes, tern_error_storage_bytes(buffer.storage, buffer.count));
}

static void check_stored(uint32_t count)
{
    enum tern_error_storage storage = read_storage();
    size_t len = vectors_bytes(&v, bytes);
    assert_int_equal(len, tern_error_storage_bytes(storage, count));
    tern_error_storage_put(storage, input, 0, room, count);
    assert_memory_equal(room, bytes, len);
    assert_int_equal(tern_error_storage_check(storage, room, count), TERN_OK);
    tern_error_storage_get(storage, room, 0, actual, count);
    expect_floats("read", actual, count);
}

static void check_damaged(void)
{
    buffer.storage = read_storage();
    read_buffer(vectors_number(&v));
    enum tern_result result = tern_error_storage_check(buffer.storage, room, buffer.count);
    expect_key(result == TERN_OK ? "accepted" : "refused");
}

static void check_step(void)
{
    buffer.storage = read_storage();
    struct tern_error_next next = {.work = actual};
    next.decay = read_float();
    next.filter = read_float();
    expect_key("buffer");
    read_buffer(9);
    expect_key("change");
    assert_int_equal(vectors_floats(&v, actual), buffer.count);
    assert_int_equal(tern_error_buffer_add_to(&buffer, next.decay, actual), TERN_OK);
    expect_floats("total", actual, buffer.count);
    expect_key("left");
    vectors_floats(&v, actual);
    tern_error_buffer_store(&buffer, &next);
    expect_buffer("after");
}

static void check_limit(void)
{
    buffer.storage = read_storage();
    const float limit = read_float();
    const uint32_t coded = vectors_number(&v);
    expect_key("buffer");
    read_buffer(4);
    expect_key("change");
    assert_int_equal(vectors_floats(&v, actual), buffer.count);
    struct tern_error_buffer of_coded = buffer; // what lies behind is never fed back: zeros
    of_coded.count = coded;
    const float decay = tern_error_buffer_limit(&of_coded, limit, actual);
    expect_floats("decay", &decay, 1);
    assert_int_equal(tern_error_buffer_add_to(&buffer, decay, actual), TERN_OK);
    expect_floats("total", actual, buffer.count);
}

static void check_give_back(void)
{
    struct tern_model model;
    buffer.storage = read_storage();
    assert_int_equal(tern_model_from_spec(&model, vectors_word(&v)), TERN_OK);
    size_t len = vectors_bytes(&v, encoded);
    expect_key("buffer");
    read_buffer(model.count);
    assert_int_equal(tern_error_buffer_give_back(&buffer, &model, encoded, len, actual), TERN_OK);
    expect_buffer("after");
}

CASE(test_buffers)
{
    unsigned cases = 0;
    uint32_t count = 0;
    vectors_open(&v, "buffers.txt");
    for (; vectors_next(&v); cases++) {
        if (strcmp(v.key, "values") == 0) {
            vectors_word(&v);
            count = (uint32_t)vectors_floats(&v, input);
        } else if (strcmp(v.key, "stored") == 0) {
            check_stored(count);
        } else if (strcmp(v.key, "damaged") == 0) {
            check_damaged();
        } else if (strcmp(v.key, "step") == 0) {
            check_step();
        } else if (strcmp(v.key, "limit") == 0) {
            check_limit();
        } else {
            assert_string_equal(v.key, "give-back");
            check_give_back();
        }
    }
    assert_true(cases > 70);
}
