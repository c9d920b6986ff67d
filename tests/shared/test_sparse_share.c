// ScaleCom's rounds: a leader chooses indices, the others send their values there, and what arrives
// without indices is put together again.
#include "check.h"

#include "codec/container.h"
#include "codec/sparse_share.h"
#include "tests/cases.h"
#include <stdlib.h>
#include <string.h>

enum { ROOM = 8192 };

static struct tern_prng rng;
static struct tern_model model;
static struct tern_codec codec;

struct bytes {
    uint8_t data[ROOM];
    size_t len;
};

static void encode(float *values, const struct bytes *indices, struct bytes *container)
{
    struct tern_encode_context context = {.round = 1};
    if (indices != NULL) {
        context.indices = indices->data;
        context.indices_len = indices->len;
    }
    assert_int_equal(tern_container_encode(&codec, &context, &model, values, container->data, ROOM,
                                           &container->len),
                     TERN_OK);
}

static float *random_values(void)
{
    float *values = malloc(model.count * sizeof *values);
    for (uint32_t i = 0; i < model.count; i++) {
        values[i] = normal_float(&rng);
    }
    return values;
}

static float *decoded(const struct bytes *container)
{
    float *values = malloc(model.count * sizeof *values);
    assert_int_equal(tern_container_decode(&model, container->data, container->len, values),
                     TERN_OK);
    return values;
}

static void indices_of(const struct bytes *container, struct bytes *indices)
{
    assert_int_equal(tern_sparse_indices(&model, &codec, container->data, container->len,
                                         indices->data, tern_container_bound_any(&model),
                                         &indices->len),
                     TERN_OK);
}

// A leader's container and its indices.
static void lead(struct bytes *container, struct bytes *indices)
{
    float *values = random_values();
    encode(values, NULL, container);
    free(values);
    indices_of(container, indices);
}

static void set_up(const char *spec)
{
    assert_int_equal(tern_codec_parse(spec, &codec, NULL), TERN_OK);
    assert_int_equal(tern_model_from_spec(&model, "mlp:30-40-10"), TERN_OK);
    assert_true(model.segment_count > 1);
    assert_in_range(tern_container_bound_any(&model), 1, ROOM);
    tern_prng_init(&rng, 61, TERN_PRNG_TEST, 0, 0);
}

static const char *const specs[] = {"scalecom:p=0.05,coder=gaps", "scalecom:p=0.05,coder=bitmap",
                                    "scalecom:p=0.4", "scalecom:p=1"};
enum { SPECS = sizeof specs / sizeof specs[0] };

CASE(test_followers_send_what_stands_at_the_leaders_indices)
{
    for (size_t s = 0; s < SPECS; s++) {
        static struct bytes leaders, indices, followers;
        set_up(specs[s]);
        lead(&leaders, &indices);
        float *before = random_values();
        float *after = malloc(model.count * sizeof *after);
        memcpy(after, before, model.count * sizeof *after);
        encode(after, &indices, &followers);
        float *chosen = decoded(&leaders);
        float *sent = decoded(&followers);
        for (uint32_t i = 0; i < model.count; i++) {
            float zero = 0;
            assert_same_floats(&sent[i], chosen[i] != 0 ? &before[i] : &zero, 1);
            assert_same_floats(&after[i], chosen[i] != 0 ? &zero : &before[i], 1);
        }
        free(sent);
        free(chosen);
        free(after);
        free(before);
    }
}

CASE(test_stripped_and_joined_is_the_same_update)
{
    for (size_t s = 0; s < SPECS; s++) {
        static struct bytes leaders, indices, followers, stripped, joined, again;
        set_up(specs[s]);
        lead(&leaders, &indices);
        float *values = random_values();
        encode(values, &indices, &followers);
        assert_int_equal(tern_sparse_strip(&model, followers.data, followers.len, stripped.data,
                                           ROOM, &stripped.len),
                         TERN_OK);
        // Mode and length of a payload, and 4 bytes a value: nothing of the indices.
        struct tern_codec_info info;
        assert_int_equal(tern_container_inspect(&model, followers.data, followers.len, &info),
                         TERN_OK);
        assert_in_range(stripped.len, 4 * info.nonzero, 4 * info.nonzero + 4 * model.segment_count);
        assert_int_equal(tern_container_inspect(&model, stripped.data, stripped.len, &info),
                         TERN_ERR_UNKNOWN);

        assert_int_equal(tern_sparse_join(&model, indices.data, indices.len, stripped.data,
                                          stripped.len, joined.data, ROOM, &joined.len),
                         TERN_OK);
        assert_in_range(joined.len, 1, tern_sparse_join_bound(&model, indices.len, stripped.len));
        float *sent = decoded(&followers);
        float *arrived = decoded(&joined);
        assert_same_floats(sent, arrived, model.count);

        // In place, as a client with little memory does it.
        assert_int_equal(
            tern_sparse_strip(&model, joined.data, joined.len, joined.data, joined.len, &again.len),
            TERN_OK);
        assert_int_equal(again.len, stripped.len);
        assert_memory_equal(joined.data, stripped.data, stripped.len);
        free(arrived);
        free(sent);
        free(values);
    }
}

// Indices where a follower has nothing are sent as zeros; a segment of zeros is mode zero.
CASE(test_zeros_at_shared_indices)
{
    static struct bytes leaders, indices, followers, stripped, joined;
    set_up("scalecom:p=0.05");
    lead(&leaders, &indices);
    float *chosen = decoded(&leaders);
    float *values = calloc(model.count, sizeof *values);
    float *expected = calloc(model.count, sizeof *expected);
    const struct tern_segment *first = &model.segments[0];
    for (uint32_t i = 0; i < first->count; i++) {
        values[first->offset + i] = i % 2 ? 3 : 0;
        expected[first->offset + i] = chosen[first->offset + i] != 0 && i % 2 ? 3 : 0;
    }
    encode(values, &indices, &followers);
    assert_int_equal(tern_sparse_strip(&model, followers.data, followers.len, stripped.data, ROOM,
                                       &stripped.len),
                     TERN_OK);
    assert_int_equal(tern_sparse_join(&model, indices.data, indices.len, stripped.data,
                                      stripped.len, joined.data, ROOM, &joined.len),
                     TERN_OK);
    float *arrived = decoded(&joined);
    assert_same_floats(arrived, expected, model.count);
    // The bytes of a segment without values: length 1, mode zero.
    assert_int_equal(stripped.data[stripped.len - 1], 0x00);
    free(arrived);
    free(expected);
    free(values);
    free(chosen);
}

static void refuse_indices(const struct bytes *indices)
{
    struct tern_encode_context context = {.indices = indices->data, .indices_len = indices->len};
    static struct bytes container;
    float *values = random_values();
    float *same = malloc(model.count * sizeof *same);
    memcpy(same, values, model.count * sizeof *same);
    assert_int_equal(tern_container_encode(&codec, &context, &model, values, container.data, ROOM,
                                           &container.len),
                     TERN_ERR_CORRUPT);
    assert_same_floats(values, same, model.count);
    free(same);
    free(values);
}

CASE(test_bad_indices_change_nothing)
{
    static struct bytes leaders, indices, bad;
    set_up("scalecom:p=0.05");
    lead(&leaders, &indices);
    bad = indices;
    bad.len--;
    refuse_indices(&bad);
    bad = indices;
    bad.data[bad.len++] = 0;
    refuse_indices(&bad);
    bad = indices;
    bad.data[bad.len - 1] ^= 0xff; // gaps of the last segment
    refuse_indices(&bad);
    bad.len = 0;
    refuse_indices(&bad);
    refuse_indices(&leaders); // values are not indices

    // More than this codec sends.
    struct tern_codec narrower = codec;
    codec.density = 0.5f;
    lead(&leaders, &indices);
    codec = narrower;
    refuse_indices(&indices);
    assert_int_equal(
        tern_sparse_indices(&model, &codec, leaders.data, leaders.len, bad.data, ROOM, &bad.len),
        TERN_ERR_ARGUMENT);
}

CASE(test_a_dense_leader_shares_nothing)
{
    static struct bytes dense, indices;
    set_up("3lc");
    float *values = random_values();
    encode(values, NULL, &dense);
    assert_int_equal(tern_sparse_indices(&model, &codec, dense.data, dense.len, indices.data, ROOM,
                                         &indices.len),
                     TERN_ERR_UNKNOWN);
    free(values);
}

static enum tern_result join(const struct bytes *indices, const struct bytes *stripped)
{
    // Allocations of just their lengths, for ASan.
    uint8_t *src = malloc(stripped->len + 1);
    size_t room = tern_sparse_join_bound(&model, indices->len, stripped->len);
    uint8_t *dst = malloc(room);
    size_t len = 0;
    memcpy(src, stripped->data, stripped->len);
    enum tern_result result =
        tern_sparse_join(&model, indices->data, indices->len, src, stripped->len, dst, room, &len);
    assert_true(result == TERN_OK || len == 0);
    free(dst);
    free(src);
    return result;
}

CASE(test_values_that_do_not_fit_are_refused)
{
    static struct bytes leaders, indices, followers, stripped, bad;
    set_up("scalecom:p=0.05");
    lead(&leaders, &indices);
    float *values = random_values();
    encode(values, &indices, &followers);
    assert_int_equal(tern_sparse_strip(&model, followers.data, followers.len, stripped.data, ROOM,
                                       &stripped.len),
                     TERN_OK);
    assert_int_equal(join(&indices, &stripped), TERN_OK);
    // One value less in the first segment, whose length takes two bytes.
    bad = stripped;
    assert_true(bad.data[0] >= 0x84);
    bad.data[0] = (uint8_t)(bad.data[0] - 4);
    memmove(bad.data + 3, bad.data + 7, bad.len - 7);
    bad.len -= 4;
    assert_int_equal(join(&indices, &bad), TERN_ERR_CORRUPT);
    // Values where the leader has none.
    static struct bytes none;
    none.len = 0;
    for (uint32_t i = 0; i < model.segment_count; i++) {
        none.data[none.len++] = 1;
        none.data[none.len++] = 0x00;
    }
    assert_int_equal(join(&none, &stripped), TERN_ERR_CORRUPT);
    // Damage of every byte, and every length: an error or another update, never a crash.
    for (size_t at = 0; at < stripped.len; at++) {
        bad = stripped;
        bad.data[at] ^= (uint8_t)(1u << at % 8);
        (void)!join(&indices, &bad);
        bad.len = at;
        assert_int_equal(join(&indices, &bad), TERN_ERR_CORRUPT);
    }
    free(values);
}
