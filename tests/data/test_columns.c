// Statistics of columns, and scaling by shared ones: of a view, in double arithmetic, of both parts, or of nothing.
#include "data/columns.h"

#include "wire/wire.h"
#include <float.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
// cmocka wants the headers above first.
#include <cmocka.h>

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

static void statistics_are_of_the_view_alone(void **state)
{
    (void)state;
    static const uint32_t own[] = {2, 0};
    const struct tern_view shard = {.dataset = &data.train, .indices = own, .count = 2};
    uint32_t num_examples = 0;
    assert_int_equal(tern_columns_measure(&shard, columns, &num_examples), TERN_OK);
    assert_int_equal(num_examples, 2);
    assert_true(pair(0).mean == 2951 && pair(0).spread == 9);
    assert_true(pair(1).mean == 0.5F &&
                pair(1).spread == 0); // constant here: others may see it move
}

static void what_cannot_be_told_is_named(void **state)
{
    (void)state;
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

static void both_parts_are_scaled(void **state)
{
    (void)state;
    tern_column_put(columns, 0, (struct tern_column_pair){2950.3F, 3.7F});
    tern_column_put(columns, 1, (struct tern_column_pair){0.5F, 0.5F});
    assert_int_equal(tern_columns_scale(&data, columns), TERN_OK);
    assert_true(train_values[0] ==
                (float)((2948.0 - (double)2950.3F) / (double)3.7F)); // and rounded once
    assert_true(train_values[7] == 13 && test_values[1] == 2);
    assert_true(test_values[0] == (float)((2951.0 - (double)2950.3F) / (double)3.7F));
}

static void scaling_that_overflows_changes_nothing(void **state)
{
    (void)state;
    float before[ROWS * COLUMNS];
    memcpy(before, train_values, sizeof before);
    tern_column_put(columns, 0, (struct tern_column_pair){0, 1});
    tern_column_put(columns, 1, (struct tern_column_pair){0, FLT_MIN});
    test_values[1] = 8; // the last that is looked at
    assert_int_equal(tern_columns_scale(&data, columns), TERN_ERR_NON_FINITE);
    assert_memory_equal(before, train_values, sizeof before);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup(name, set_up)
    const struct CMUnitTest tests[] = {
        TEST(statistics_are_of_the_view_alone),
        TEST(what_cannot_be_told_is_named),
        TEST(both_parts_are_scaled),
        TEST(scaling_that_overflows_changes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
