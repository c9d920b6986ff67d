// Statistics of columns, and scaling by shared ones: of a view, in double arithmetic, of both parts, or of nothing.
#include "data/columns.h"

#include "tests/cases.h"
#include "wire/wire.h"
#include <float.h>
#include <string.h>

enum { ROWS = 4, COLUMNS = 2, LEN = COLUMNS * TERN_WIRE_COLUMN_BYTES };

static float train_values[ROWS * COLUMNS];
static float test_values[COLUMNS];
static struct tern_data data;
static uint8_t columns[LEN];

static int set_up(void **state)
{
    (void)state;
    static const float rows[ROWS * COLUMNS] = {2948, 0.5F, 2950, 0.5F, 2954, 0.5F, 1e6F, 7};
    memcpy(train_values, rows, sizeof rows);
    test_values[0] = 2951;
    test_values[1] = 1.5F;
    memset(&data, 0, sizeof data);
    data.train =
        (struct tern_dataset){.count = ROWS, .feature_count = COLUMNS, .values = train_values};
    data.test = (struct tern_dataset){.count = 1, .feature_count = COLUMNS, .values = test_values};
    return 0;
}

static struct tern_column_pair pair(uint32_t column)
{
    return tern_column_get((struct tern_span){columns, LEN}, column);
}

#define TEST(name) CASE_WITH(name, set_up, NULL)

TEST(statistics_are_of_the_view_alone)
{
    static const uint32_t own[] = {2, 0};
    const struct tern_view shard = {.dataset = &data.train, .indices = own, .count = 2};
    uint32_t num_examples = 0;
    assert_int_equal(tern_columns_measure(&shard, columns, &num_examples), TERN_OK);
    assert_int_equal(num_examples, 2);
    assert_true(pair(0).mean == 2951 && pair(0).spread == 9);
    assert_true(pair(1).mean == 0.5F &&
                pair(1).spread == 0); // constant here: others may see it move
}

TEST(what_cannot_be_told_is_named)
{
    struct tern_view view = {.dataset = &data.train};
    uint32_t num_examples = 0;
    assert_int_equal(tern_columns_measure(&view, columns, &num_examples), TERN_ERR_NOT_FOUND);
    view.count = ROWS;
    train_values[3] = FLT_MAX;
    assert_int_equal(tern_columns_measure(&view, columns, &num_examples), TERN_ERR_NON_FINITE);
    data.train.values = NULL; // bytes
    data.test.values = NULL;
    assert_int_equal(tern_columns_measure(&view, columns, &num_examples), TERN_ERR_NOT_FOUND);
    assert_false(tern_data_has_columns(&data));
}

TEST(both_parts_are_scaled)
{
    tern_column_put(columns, 0, (struct tern_column_pair){2950.3F, 3.7F});
    tern_column_put(columns, 1, (struct tern_column_pair){0.5F, 0.5F});
    assert_int_equal(tern_columns_scale(&data, columns, COLUMNS), TERN_OK);
    assert_true(train_values[0] ==
                (float)((2948.0 - (double)2950.3F) / (double)3.7F)); // and rounded once
    assert_true(train_values[7] == 13 && test_values[1] == 2);
    assert_true(test_values[0] == (float)((2951.0 - (double)2950.3F) / (double)3.7F));
}

TEST(scaling_that_overflows_changes_nothing)
{
    float before[ROWS * COLUMNS];
    memcpy(before, train_values, sizeof before);
    tern_column_put(columns, 0, (struct tern_column_pair){0, 1});
    tern_column_put(columns, 1, (struct tern_column_pair){0, FLT_MIN});
    test_values[1] = 8; // the last that is looked at
    assert_int_equal(tern_columns_scale(&data, columns, COLUMNS), TERN_ERR_NON_FINITE);
    assert_memory_equal(before, train_values, sizeof before);
}

enum { WITH_TARGET = COLUMNS + 1 };

static float train_targets[ROWS];
static float test_targets[1];
static uint8_t with_target[WITH_TARGET * TERN_WIRE_COLUMN_BYTES];

static void add_targets(void)
{
    static const float targets[ROWS] = {2990, 3000, 3010, 3020};
    memcpy(train_targets, targets, sizeof targets);
    test_targets[0] = 3005;
    data.train.targets = train_targets;
    data.test.targets = test_targets;
    data.train.target_deviation = data.test.target_deviation = 1;
}

TEST(the_target_is_the_last_column)
{
    const struct tern_view all = {.dataset = &data.train, .count = ROWS};
    uint32_t num_examples = 0;
    assert_int_equal(tern_data_columns(&data), COLUMNS);
    add_targets();
    assert_int_equal(tern_data_columns(&data), WITH_TARGET);
    assert_int_equal(tern_columns_measure(&all, with_target, &num_examples), TERN_OK);
    const struct tern_span span = {with_target, sizeof with_target};
    const struct tern_column_pair target = tern_column_get(span, COLUMNS);
    assert_true(target.mean == 3005 && target.spread == 125);
    data.train.values = NULL; // of an evaluator
    assert_int_equal(tern_data_columns(&data), WITH_TARGET);
}

TEST(targets_keep_their_unit)
{
    add_targets();
    tern_column_put(with_target, 0, (struct tern_column_pair){0, 1});
    tern_column_put(with_target, 1, (struct tern_column_pair){0, 1});
    tern_column_put(with_target, 2, (struct tern_column_pair){3000, 8});
    assert_int_equal(tern_columns_scale(&data, with_target, COLUMNS), TERN_ERR_MODEL_MISMATCH);
    assert_true(train_targets[0] == 2990);
    assert_int_equal(tern_columns_scale(&data, with_target, WITH_TARGET), TERN_OK);
    assert_true(train_targets[0] == -1.25F && test_targets[0] == 0.625F);
    assert_true(train_values[0] == 2948);
    assert_true(data.train.target_mean == 3000 && data.train.target_deviation == 8);
    assert_true(data.test.target_mean == 3000 && data.test.target_deviation == 8);
}

TEST(targets_that_were_scaled_before_keep_it_too)
{
    add_targets();
    data.test.target_mean = 100; // what is 3005 here was 6110
    data.test.target_deviation = 2;
    tern_column_put(with_target, 2, (struct tern_column_pair){3000, 8});
    assert_int_equal(tern_columns_scale(&data, with_target, WITH_TARGET), TERN_OK);
    assert_true(test_targets[0] * data.test.target_deviation + data.test.target_mean == 6110);
}

TEST(a_target_that_overflows_changes_nothing)
{
    add_targets();
    tern_column_put(with_target, 2, (struct tern_column_pair){0, FLT_MIN});
    assert_int_equal(tern_columns_scale(&data, with_target, WITH_TARGET), TERN_ERR_NON_FINITE);
    assert_true(train_values[0] == 2948 && train_targets[0] == 2990);
    assert_true(data.train.target_deviation == 1);
}

TEST(filled_values_are_in_no_statistics_and_become_the_mean)
{
    static const uint8_t filled[ROWS] = {0, 0, 1, 2}; // row 2 lacks column 0, row 3 column 1
    const struct tern_view view = {.dataset = &data.train, .count = ROWS};
    uint32_t num_examples = 0;
    data.train.imputed = filled;
    train_values[3 * COLUMNS] = 2952; // and what fills the others would move every figure
    train_values[2 * COLUMNS] = 9999;
    train_values[3 * COLUMNS + 1] = 9999;
    assert_int_equal(tern_columns_measure(&view, columns, &num_examples), TERN_OK);
    assert_int_equal(num_examples, ROWS);
    assert_true(pair(0).mean == 2950 && pair(1).mean == 0.5F && pair(1).spread == 0);
    tern_column_put(columns, 0, (struct tern_column_pair){2900, 10});
    tern_column_put(columns, 1, (struct tern_column_pair){1, 2});
    assert_int_equal(tern_columns_scale(&data, columns, COLUMNS), TERN_OK);
    assert_true(train_values[2 * COLUMNS] == 0 && train_values[3 * COLUMNS + 1] == 0);
    assert_true(train_values[0] == 4.8F);
}

TEST(columns_that_are_too_large_to_train_on_are_counted)
{
    char text[TERN_COLUMNS_TEXT_MAX];
    assert_true(tern_columns_are_unscaled(&data.train, "scale=a.csv", text));
    assert_non_null(strstr(text, "1 of 2 columns is unscaled"));
    assert_non_null(strstr(text, ": set scale=a.csv"));
    for (int i = 0; i < ROWS; i++) {
        train_values[i * COLUMNS] = 1;
    }
    assert_false(tern_columns_are_unscaled(&data.train, "scale=a.csv", text));
}

TEST(only_the_first_large_columns_are_named)
{
    enum { WIDE = TERN_COLUMNS_FOUND + 2 };
    float row[WIDE] = {0.5F};
    const struct tern_dataset wide = {.count = 1, .feature_count = WIDE, .values = row};
    struct tern_large_columns large;
    for (int i = 1; i < WIDE; i++) {
        row[i] = 100.0F * (float)i;
    }
    tern_columns_large(&wide, WIDE, &large);
    assert_int_equal(large.count, WIDE - 1);
    assert_true(large.largest == 100.0 * (WIDE - 1));
    for (uint32_t i = 0; i < TERN_COLUMNS_FOUND; i++) {
        assert_int_equal(large.first[i], i + 1);
        assert_true(large.size[i] == 100.0 * (i + 1));
    }
}
