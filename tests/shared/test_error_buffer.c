#include "check.h"

#include "error_feedback/error_buffer.h"
#include "tests/cases.h"
#include <float.h>
#include <math.h>
#include <string.h>

// softmax:64-10: a segment of 640 values and a fused one of 10, so that the buffer ends inside of a
// block.
enum { COUNT = 650, BOUND = 4 * COUNT + 32, STORAGES = 3 };

static struct tern_model model;
static struct tern_codec codec;
static float change[COUNT], work[COUNT], held[COUNT];
static float bytes[COUNT], saved[COUNT]; // room for any storage
static uint8_t container[BOUND];
static struct tern_error_buffer buffer;
static struct tern_prng rng;

static const struct tern_error_next plain = {.work = work, .filter = 1, .decay = 1};

// A buffer with values in it, and a change; held: what the buffer says it holds.
static void fill(enum tern_error_storage storage)
{
    buffer = (struct tern_error_buffer){storage, bytes, COUNT};
    for (size_t i = 0; i < COUNT; i++) {
        work[i] = normal_float(&rng);
        change[i] = normal_float(&rng);
    }
    tern_error_buffer_store(&buffer, &plain);
    tern_error_buffer_load(&buffer, held);
    memcpy(saved, bytes, sizeof saved);
}

static int start(void **state)
{
    (void)state;
    tern_prng_init(&rng, 31, TERN_PRNG_TEST, 0, 0);
    assert_int_equal(tern_codec_parse("3lc:s=1.75", &codec, NULL), TERN_OK);
    assert_int_equal(tern_model_from_spec(&model, "softmax:64-10"), TERN_OK);
    assert_int_equal(model.count, COUNT);
    memset(bytes, 0, sizeof bytes);
    return 0;
}

// Largest error that rounding to the storage makes in a vector whose largest magnitude is `peak`.
static double rounding(enum tern_error_storage storage, double peak)
{
    const double shares[STORAGES] = {0, 0x1p-8, 1.0 / 253};
    return peak * shares[storage];
}

static void assert_unchanged(void)
{
    assert_memory_equal(bytes, saved, sizeof saved);
}

static size_t encode(void)
{
    size_t written = 0;
    assert_int_equal(
        tern_container_encode(&codec, NULL, &model, work, container, sizeof container, &written),
        TERN_OK);
    return written;
}

CASE_WITH(test_add_to, start, NULL)
{
    for (int s = 0; s < STORAGES; s++) {
        fill((enum tern_error_storage)s);
        memcpy(work, change, sizeof work);
        assert_int_equal(tern_error_buffer_add_to(&buffer, 1, work), TERN_OK);
        for (size_t i = 0; i < COUNT; i++) {
            assert_true(work[i] == held[i] + change[i]);
        }
        memcpy(work, change, sizeof work);
        assert_int_equal(tern_error_buffer_add_to(&buffer, 0.3f, work), TERN_OK);
        for (size_t i = 0; i < COUNT; i++) {
            assert_true(work[i] == 0.3f * held[i] + change[i]);
        }
        memcpy(work, change, sizeof work);
        assert_int_equal(tern_error_buffer_add_to(&buffer, 0, work), TERN_OK);
        assert_same_floats(work, change, COUNT);
        assert_unchanged();
    }
}

CASE_WITH(test_add_to_refuses_what_is_not_finite, start, NULL)
{
    const float bad[] = {NAN, INFINITY, -INFINITY};
    fill(TERN_ERROR_FLOAT32);
    for (size_t i = 0; i < 3; i++) {
        memcpy(work, change, sizeof work);
        work[i * (COUNT - 1) / 2] = bad[i]; // the first, one in the middle, the last
        assert_int_equal(tern_error_buffer_add_to(&buffer, 1, work), TERN_ERR_NON_FINITE);
    }
    memcpy(work, change, sizeof work);
    bytes[COUNT - 1] = saved[COUNT - 1] = work[COUNT - 1] = FLT_MAX; // the sum overflows
    assert_int_equal(tern_error_buffer_add_to(&buffer, 1, work), TERN_ERR_NON_FINITE);
    assert_unchanged();
    const float outside[] = {-0.1f, 1.001f, NAN, INFINITY};
    memcpy(work, change, sizeof work);
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(tern_error_buffer_add_to(&buffer, outside[i], work), TERN_ERR_ARGUMENT);
        assert_same_floats(work, change, COUNT);
    }
}

CASE_WITH(test_momentum, start, NULL)
{
    static float velocity[COUNT], old[COUNT];
    for (size_t i = 0; i < COUNT; i++) {
        velocity[i] = old[i] = normal_float(&rng);
        change[i] = work[i] = normal_float(&rng);
    }
    assert_int_equal(tern_error_momentum(velocity, 0.9f, change, COUNT), TERN_OK);
    for (size_t i = 0; i < COUNT; i++) {
        assert_true(velocity[i] == 0.9f * old[i] + work[i]);
    }
    assert_same_floats(change, velocity, COUNT);
    change[7] = INFINITY;
    memcpy(old, velocity, sizeof old);
    assert_int_equal(tern_error_momentum(velocity, 0.9f, change, COUNT), TERN_ERR_NON_FINITE);
    assert_same_floats(velocity, old, COUNT);
}

CASE_WITH(test_filter, start, NULL)
{
    for (int s = 0; s < STORAGES; s++) {
        fill((enum tern_error_storage)s);
        static float next[COUNT], expected[COUNT];
        const float beta = 0.1f;
        for (size_t i = 0; i < COUNT; i++) {
            expected[i] = (1 - beta) * (0.5f * held[i]) + beta * change[i];
        }
        const struct tern_error_next mean = {.work = change, .filter = beta, .decay = 0.5f};
        const struct tern_error_facts facts = tern_error_buffer_preview(&buffer, &mean);
        assert_unchanged();
        tern_error_buffer_store(&buffer, &mean);
        tern_error_buffer_load(&buffer, next);
        const struct tern_error_facts after = tern_error_buffer_facts(&buffer);
        assert_true(facts.norm == after.norm && facts.maximum == after.maximum);
        for (size_t i = 0; i < COUNT; i++) {
            assert_true(fabs((double)next[i] - (double)expected[i]) <= rounding(buffer.storage, 4));
        }
        // beta = 1 is plain error feedback, bit for bit.
        const struct tern_error_next alone = {.work = change, .filter = 1, .decay = 0.5f};
        tern_error_buffer_store(&buffer, &alone);
        memcpy(saved, bytes, sizeof saved);
        memcpy(work, change, sizeof work);
        tern_error_buffer_store(&buffer, &plain);
        assert_unchanged();
    }
}

CASE_WITH(test_give_back, start, NULL)
{
    for (int s = 0; s < STORAGES; s++) {
        fill((enum tern_error_storage)s);
        memcpy(work, held, sizeof work);
        const size_t len = encode();
        assert_true(len < COUNT);
        tern_error_buffer_store(&buffer, &plain);
        memcpy(saved, bytes, sizeof saved);
        assert_true(tern_error_give_back_work(buffer.storage, &model) == (s == 0 ? 0 : 640));
        float *room = s == 0 ? NULL : work;
        container[len - 1] ^= 0xff;
        assert_int_not_equal(tern_error_buffer_give_back(&buffer, &model, container, len - 1, room),
                             TERN_OK);
        assert_unchanged();
        container[len - 1] ^= 0xff;
        assert_int_equal(tern_error_buffer_give_back(&buffer, &model, container, len, room),
                         TERN_OK);
        tern_error_buffer_load(&buffer, work);
        for (size_t i = 0; i < COUNT; i++) {
            // Rounded when what was left was stored, and when the sum was; the block around the
            // segments' border once more. |left| and |sum| are below 8.
            assert_true(fabs((double)(work[i] - held[i])) <=
                        16 * 0x1p-23 + 3 * rounding(buffer.storage, 8));
        }
    }
}

CASE_WITH(test_give_back_of_nothing_keeps_every_byte, start, NULL)
{
    for (int s = 0; s < STORAGES; s++) {
        fill((enum tern_error_storage)s);
        memset(work, 0, sizeof work);
        const size_t len = encode();
        assert_int_equal(tern_error_buffer_give_back(&buffer, &model, container, len, work),
                         TERN_OK);
        assert_unchanged();
    }
}

CASE_WITH(test_reset, start, NULL)
{
    const float zeros[COUNT] = {0};
    for (int s = 0; s < STORAGES; s++) {
        fill((enum tern_error_storage)s);
        tern_error_buffer_reset(&buffer);
        tern_error_buffer_load(&buffer, work);
        assert_same_floats(work, zeros, COUNT);
    }
}

CASE_WITH(test_facts, start, NULL)
{
    buffer = (struct tern_error_buffer){TERN_ERROR_FLOAT32, bytes, COUNT};
    bytes[0] = 3;
    bytes[COUNT - 1] = -4;
    struct tern_error_facts facts = tern_error_buffer_facts(&buffer);
    assert_true(facts.norm == 5 && facts.maximum == 4);
    bytes[1] = bytes[2] = FLT_MAX; // the norm is above float32
    facts = tern_error_buffer_facts(&buffer);
    assert_true(facts.norm == FLT_MAX && facts.maximum == FLT_MAX);
    tern_error_buffer_reset(&buffer);
    facts = tern_error_buffer_facts(&buffer);
    assert_true(facts.norm == 0 && facts.maximum == 0);
}
