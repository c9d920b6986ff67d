// Tables for predict: columns are found by the names of the table that the model was trained on.
#include "data/files.h"
#include "tests/cases.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct tern_csv_names names;

static int set_up(void **state)
{
    static const char *const features[] = {"a", "b", "c"};
    uint32_t number;
    tern_name_set_init(&names.features, 8);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(tern_name_set_find(&names.features, features[i], true, &number), TERN_OK);
    }
    names.label = strdup("y");
    return folder_make(state);
}

static int tear_down(void **state)
{
    tern_csv_names_free(&names);
    return folder_remove(state);
}

static enum tern_result open_new(const char *table, const char *options)
{
    char spec[SPEC_SIZE];
    char text[256];
    const struct tern_data_part part = {.test = true, .new_rows = true, .trained = &names};
    write_file("new.csv", table, strlen(table));
    snprintf(text, sizeof text, "csv:@/new.csv%s", options);
    name_spec(text, spec);
    tern_data_close(&data);
    return tern_dataset_open_part(spec, NULL, &part, &data, why);
}

// Opens a table whose first row must be the features 1, 2, 3.
static void assert_in_order(const char *table, const char *options)
{
    static const float order[] = {1, 2, 3};
    if (open_new(table, options) != TERN_OK) {
        fail_msg("%s", why);
    }
    assert_int_equal(data.train.feature_count, 3);
    assert_memory_equal(data.train.values, order, sizeof order);
}

#define TEST(test) CASE_WITH(test, set_up, tear_down)

TEST(columns_stand_in_the_order_of_the_model)
{
    static const char *const tables[] = {
        "a,b,c,y\n1,2,3,1\n4,5,6,0\n",           "c,b,a,y\n3,2,1,1\n6,5,4,0\n",
        "y,b,c,a\n1,2,3,1\n0,5,6,4\n",           "b,c,a\n2,3,1\n5,6,4\n",
        "b,id,c,a,text\n2,7,3,1,x\n5,8,6,4,y\n", "\"b\", c ,a,y\n2,3,1,\n5,6,4,\n",
    };
    static const char *const options[] = {"",         ",label=y", ",label=-1",
                                          ",label=3", ",drop=id", ",group=who,label=y"};
    for (size_t i = 0; i < sizeof tables / sizeof tables[0]; i++) {
        for (size_t k = 0; k < sizeof options / sizeof options[0]; k++) {
            assert_in_order(tables[i], options[k]);
        }
    }
}

TEST(columns_beside_those_of_the_model_are_noted)
{
    assert_in_order("b,id,c,a,text,y,who\n2,7,3,1,x,1,3\n5,8,6,4,y,0,4\n", ",drop=id,group=who");
    assert_string_equal(
        data.notes, "1 column is not among those that the model learns from: 'text' is left out\n");
    assert_in_order("b,d1,c,a,d2,d3,d4,d5,d6,y\n2,7,3,1,x,1,2,3,4,5\n", "");
    assert_string_equal(data.notes,
                        "6 columns are not among those that the model learns from: 'd1', 'd2', "
                        "'d3', 'd4', 'd5', ... are left out\n");
    assert_in_order("c,b,a,y\n3,2,1,1\n", "");
    assert_null(data.notes);
}

TEST(targets_are_found_by_name_as_labels_are)
{
    assert_in_order("y,c,b,a\n2.5,3,2,1\n,6,5,4\n", ",target=-1");
    assert_true(data.train.targets[0] == 2.5F);
    assert_true(data.labelled[0] == 1 && data.labelled[1] == 0);
    assert_false(data.unlabelled);
}

TEST(columns_that_lack_or_are_doubled_are_named)
{
    assert_int_equal(open_new("a,c,y\n1,3,0\n", ""), TERN_ERR_NOT_FOUND);
    assert_non_null(strstr(why, "has no column 'b', which the table of data.source has"));
    assert_int_equal(open_new("x,z,w,y\n1,2,3,0\n", ""), TERN_ERR_NOT_FOUND);
    assert_non_null(strstr(why, "has no column 'a'"));
    assert_int_equal(open_new("a,b,c,b\n1,2,3,4\n", ""), TERN_ERR_CONFIG);
    assert_non_null(strstr(why, "has two columns 'b'"));
}

TEST(a_table_without_names_goes_by_its_places)
{
    assert_in_order("1,2,3,1\n4,5,6,0\n", "");
    assert_in_order("1,2,3\n4,5,6\n", ",label=none,header=no");
    assert_in_order("1,2,3,0\n4,5,6,1\n", ",label=-1,header=no");
}

// A table without a header line, or with two columns of one name, gives none to go by.
TEST(a_model_without_names_goes_by_places)
{
    tern_name_set_free(&names.features);
    tern_name_set_init(&names.features, 8);
    assert_in_order("x,z,w,y\n1,2,3,1\n4,5,6,0\n", "");
}

TEST(some_rows_may_lack_their_label)
{
    static const char *const lacking[] = {"", "NA", "?", " ", "null"};
    for (size_t i = 0; i < sizeof lacking / sizeof lacking[0]; i++) {
        char table[96];
        snprintf(table, sizeof table, "y,c,b,a\n1,3,2,1\n%s,6,5,4\n0,9,8,7\n", lacking[i]);
        assert_in_order(table, ",missing=skip");
        assert_int_equal(data.train.count, 3);
        assert_true(data.labelled[0] && !data.labelled[1] && data.labelled[2]);
        assert_false(data.unlabelled);
        snprintf(table, sizeof table, "y,c,b,a\n%s,3,2,1\n%s,6,5,4\n", lacking[i], lacking[i]);
        assert_in_order(table, "");
        assert_true(data.unlabelled);
    }
}

TEST(names_that_are_there_twice_go_by_their_order)
{
    static const char twins[] = "a\0a\0b";
    tern_csv_names_free(&names); // as of a table with two columns 'a'
    names.twins = malloc(sizeof twins);
    assert_non_null(names.twins);
    memcpy(names.twins, twins, sizeof twins);
    names.twin_count = 3;
    assert_int_equal(open_new("a,a,b,y\n1,2,3,1\n4,5,6,0\n", ",label=y"), TERN_OK);
    assert_int_equal(open_new("1,2,3,1\n4,5,6,0\n", ",label=3,header=no"), TERN_OK);
    assert_int_equal(open_new("b,a,a,y\n3,1,2,1\n6,4,5,0\n", ",label=y"), TERN_ERR_CONFIG);
    assert_non_null(strstr(why, "column 0 is 'b', in the table of data.source 'a'"));
}
