// Pieces written and read again, and everything that can be wrong with one.
#include "lgc/message.h"
#include "tests/cases.h"
#include "util/bytes.h"
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static const struct tern_codec float32 = {.id = TERN_CODEC_FLOAT32};
static const struct tern_codec float16 = {.id = TERN_CODEC_FLOAT16};

struct fixture {
    struct tern_model model;
    struct tern_lgc_plan plan;
    struct tern_lgc_message message;
    uint32_t at[84];
    float values[84];
};

static int set_up(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    *state = f;
    assert_non_null(f);
    assert_int_equal(tern_model_from_spec(&f->model, "mlp:64-16-40"), TERN_OK);
    assert_int_equal(tern_lgc_plan_make(&f->model, 0.05f, &f->plan), TERN_OK);
    f->message.size = tern_lgc_message_bound(&f->plan, 0);
    f->message.bytes = malloc(f->message.size);
    assert_non_null(f->message.bytes);
    for (uint32_t i = 0; i < 32; i++) {
        f->at[i] = 1024 + 20 * i; // of fc2, from its first to its last but 19
    }
    for (uint32_t i = 0; i < 52; i++) {
        f->at[32 + i] = 19 * i + (i > 50 ? 53 : 0); // of fc1, its first
    }
    for (uint32_t i = 0; i < 84; i++) {
        f->values[i] = (float)i - 40;
    }
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    free(f->message.bytes);
    free(f);
    return 0;
}

static struct tern_lgc_reader read_it(const struct fixture *f)
{
    return (struct tern_lgc_reader){.bytes = f->message.bytes, .len = f->message.len};
}

static void write_leaders(struct fixture *f)
{
    float values[84];
    memcpy(values, f->values, sizeof values);
    tern_lgc_message_clear(&f->message);
    assert_int_equal(tern_lgc_put_indices(&f->message, &f->plan, f->at), TERN_OK);
    assert_int_equal(tern_lgc_put_values(&f->message, TERN_LGC_PIECE_VALUES, &float32, values, 32),
                     TERN_OK);
    assert_int_equal(
        tern_lgc_put_scaled(&f->message, TERN_LGC_PIECE_CODE, 0.5f, &float16, values + 32, 16),
        TERN_OK);
}

static enum tern_result read_leaders(struct tern_lgc_reader *reader, const struct fixture *f,
                                     uint32_t *at, float *values, float *scale)
{
    TERN_TRY(tern_lgc_take_indices(reader, &f->plan, at));
    TERN_TRY(tern_lgc_take_values(reader, TERN_LGC_PIECE_VALUES, values, 32));
    TERN_TRY(tern_lgc_take_scaled(reader, TERN_LGC_PIECE_CODE, scale, values + 32, 16));
    return tern_lgc_take_end(reader);
}

#define TEST(name) CASE_WITH(name, set_up, tear_down)

TEST(what_is_put_is_taken)
{
    struct fixture *f = *state;
    uint32_t at[84];
    float values[84];
    float scale = 0;
    write_leaders(f);
    struct tern_lgc_reader reader = read_it(f);
    assert_int_equal(read_leaders(&reader, f, at, values, &scale), TERN_OK);
    assert_memory_equal(at, f->at, sizeof at);
    assert_memory_equal(values, f->values,
                        48 * sizeof *values); // small whole numbers: halves have them
    assert_true(scale == 0.5f);
    // Kinds add up to the message: a head of 2 bytes, 4 of the scale, a mode byte and 16 halves.
    assert_int_equal(f->message.of_kind[TERN_LGC_PIECE_CODE], 2 + 4 + 1 + 32);
    assert_int_equal(f->message.of_kind[TERN_LGC_PIECE_INDICES] +
                         f->message.of_kind[TERN_LGC_PIECE_VALUES] +
                         f->message.of_kind[TERN_LGC_PIECE_CODE],
                     f->message.len);
}

TEST(every_cut_is_refused)
{
    struct fixture *f = *state;
    uint32_t at[84];
    float values[84];
    float scale = 0;
    write_leaders(f);
    for (size_t len = 0; len < f->message.len; len++) {
        // In memory of its own, so that a read past its end is seen.
        uint8_t *cut = malloc(len > 0 ? len : 1);
        assert_non_null(cut);
        memcpy(cut, f->message.bytes, len);
        struct tern_lgc_reader reader = {.bytes = cut, .len = len};
        assert_int_not_equal(read_leaders(&reader, f, at, values, &scale), TERN_OK);
        free(cut);
    }
    f->message.bytes[f->message.len++] = 0;
    struct tern_lgc_reader longer = read_it(f);
    assert_int_equal(read_leaders(&longer, f, at, values, &scale), TERN_ERR_CORRUPT);
}

TEST(another_kind_is_not_taken_for_the_one_asked)
{
    struct fixture *f = *state;
    float values[84];
    write_leaders(f);
    struct tern_lgc_reader reader = read_it(f);
    assert_int_equal(tern_lgc_take_values(&reader, TERN_LGC_PIECE_EXACT, values, 32),
                     TERN_ERR_NOT_FOUND);
    assert_int_equal(reader.asked, TERN_LGC_PIECE_EXACT);
    assert_int_equal(reader.read, 0);
}

TEST(scales_and_codes_are_finite)
{
    struct fixture *f = *state;
    const float scales[] = {NAN, INFINITY};
    float values[84];
    float read[16];
    float scale = 3;
    for (size_t i = 0; i < sizeof scales / sizeof scales[0]; i++) {
        memcpy(values, f->values, sizeof values);
        tern_lgc_message_clear(&f->message);
        assert_int_equal(
            tern_lgc_put_scaled(&f->message, TERN_LGC_PIECE_CODE, scales[i], &float16, values, 16),
            TERN_OK);
        struct tern_lgc_reader reader = read_it(f);
        assert_int_equal(tern_lgc_take_scaled(&reader, TERN_LGC_PIECE_CODE, &scale, read, 16),
                         TERN_ERR_NON_FINITE);
        assert_true(scale == 3);
    }
    memcpy(values, f->values, sizeof values);
    values[3] = NAN;
    assert_int_equal(tern_lgc_put_scaled(&f->message, TERN_LGC_PIECE_CODE, 1, &float16, values, 16),
                     TERN_ERR_NON_FINITE);
}

TEST(lengths_are_those_asked_for)
{
    struct fixture *f = *state;
    float values[84];
    float scale = 0;
    write_leaders(f);
    struct tern_lgc_reader reader = read_it(f);
    uint32_t at[84];
    assert_int_equal(tern_lgc_take_indices(&reader, &f->plan, at), TERN_OK);
    struct tern_lgc_reader again = reader;
    assert_int_equal(tern_lgc_take_values(&again, TERN_LGC_PIECE_VALUES, values, 33),
                     TERN_ERR_CORRUPT);
    again = reader;
    assert_int_equal(tern_lgc_take_values(&again, TERN_LGC_PIECE_VALUES, values, 0),
                     TERN_ERR_CORRUPT);
    assert_int_equal(tern_lgc_take_values(&reader, TERN_LGC_PIECE_VALUES, values, 32), TERN_OK);
    assert_int_equal(tern_lgc_take_scaled(&reader, TERN_LGC_PIECE_CODE, &scale, values, 15),
                     TERN_ERR_CORRUPT);
}

TEST(there_are_as_many_indices_as_are_picked)
{
    struct fixture *f = *state;
    struct tern_lgc_plan other;
    uint32_t at[172];
    write_leaders(f);
    assert_int_equal(tern_lgc_plan_make(&f->model, 0.1f, &other), TERN_OK);
    struct tern_lgc_reader reader = read_it(f);
    assert_int_equal(tern_lgc_take_indices(&reader, &other, at), TERN_ERR_CORRUPT);
}

TEST(without_room_nothing_is_put)
{
    struct fixture *f = *state;
    float values[84];
    memcpy(values, f->values, sizeof values);
    tern_lgc_message_clear(&f->message);
    f->message.size = 20;
    assert_int_equal(tern_lgc_put_values(&f->message, TERN_LGC_PIECE_VALUES, &float32, values, 84),
                     TERN_ERR_NO_SPACE);
    assert_int_equal(tern_lgc_put_indices(&f->message, &f->plan, f->at), TERN_ERR_NO_SPACE);
    f->message.size = 3;
    assert_int_equal(tern_lgc_put_scaled(&f->message, TERN_LGC_PIECE_CODE, 1, &float32, values, 1),
                     TERN_ERR_NO_SPACE);
    assert_int_equal(f->message.len, 0);
}
