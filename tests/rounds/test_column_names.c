// Which column names most clients have, while clients come, change and go.
#include "rounds/column_names.h"
#include "tests/cases.h"

CASE(most_clients_decide_and_the_first_of_as_many)
{
    struct tern_column_names names = {.count = 0};
    assert_int_equal(tern_column_names_most_common(&names), 0);
    tern_column_names_replace(&names, 0, 7);
    assert_false(tern_column_names_differ(&names, 7));
    tern_column_names_replace(&names, 0, 9);
    assert_int_equal(tern_column_names_most_common(&names), 7);
    assert_true(tern_column_names_differ(&names, 9));
    tern_column_names_replace(&names, 0, 9);
    assert_int_equal(tern_column_names_most_common(&names), 9);
    assert_true(tern_column_names_differ(&names, 7));
    assert_false(tern_column_names_differ(&names, 0)); // has told none
    tern_column_names_replace(&names, 9, 7);
    tern_column_names_replace(&names, 9, 0);
    assert_int_equal(names.count, 1);
    assert_false(tern_column_names_differ(&names, 7));
}

CASE(more_tags_than_are_counted_change_nothing)
{
    struct tern_column_names names = {.count = 0};
    tern_column_names_replace(&names, 0, 5);
    tern_column_names_replace(&names, 0, 5);
    for (uint32_t tag = 100; tag < 200; tag++) {
        tern_column_names_replace(&names, 0, tag);
        assert_true(tern_column_names_differ(&names, tag));
    }
    assert_int_equal(names.count, TERN_COLUMN_NAMES_MAX);
    for (uint32_t tag = 100; tag < 200; tag++) {
        tern_column_names_replace(&names, tag, 0);
    }
    assert_int_equal(names.count, 1);
    assert_int_equal(tern_column_names_most_common(&names), 5);
}
