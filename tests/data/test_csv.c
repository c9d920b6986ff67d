#include "data/files.h"
#include "tests/cases.h"
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void write_text(const char *text)
{
    write_file("table.csv", text, strlen(text));
}

// The class of the row whose first feature is `value`.
static int class_of(float value)
{
    for (uint32_t i = 0; i < data.train.count; i++) {
        if (data.train.values[i * data.train.feature_count] == value) {
            return data.train.labels[i];
        }
    }
    return -1;
}

#define IN_FOLDER(test) CASE_WITH(test, folder_make, folder_remove)

IN_FOLDER(a_header_names_the_columns)
{
    write_text("id,kind,height,width\n1,cat,0.5,2\n2,dog,-1.5,2e3\n3,cat,+.25,7\n");
    assert_int_equal(open_spec("csv:@/table.csv,label=kind,drop=id,classes=cat|dog,test=0"),
                     TERN_OK);
    assert_string_equal(why, "");
    assert_int_equal(data.train.count, 3);
    assert_int_equal(data.test.count, 0);
    assert_int_equal(data.train.feature_count, 2);
    assert_int_equal(data.train.class_count, 2);
    assert_int_equal(class_of(0.5f), 0);
    assert_int_equal(class_of(-1.5f), 1);
    assert_int_equal(class_of(0.25f), 0);
}

IN_FOLDER(columns_may_be_numbered)
{
    write_text("7,1.5,9\n8,2.5,9\n");
    assert_int_equal(open_spec("csv:@/table.csv,label=0,drop=-1,test=0"), TERN_OK);
    assert_int_equal(data.train.count, 2);
    assert_int_equal(data.train.feature_count, 1);
    assert_int_equal(class_of(1.5f), 7);
    assert_int_equal(class_of(2.5f), 8);
    assert_int_equal(data.train.class_count, 9);
    assert_int_equal(open_spec("csv:@/table.csv,test=0"), TERN_OK);
    assert_int_equal(data.train.feature_count, 2);
    assert_int_equal(class_of(7.0f), 9);
}

IN_FOLDER(a_header_is_seen_by_itself)
{
    write_text("a,b,c\n1,2,0\n3,4,1\n");
    assert_int_equal(open_spec("csv:@/table.csv,test=0"), TERN_OK);
    assert_int_equal(data.train.count, 2);
    write_text("1,2,0\n3,4,1\n");
    assert_int_equal(open_spec("csv:@/table.csv,test=0"), TERN_OK);
    assert_int_equal(data.train.count, 2);
}

// Writes a line of numbers above 12 rows of measurements, of which only the header option changes the count.
IN_FOLDER(numbers_that_may_be_names_are_asked_about)
{
    static const char *const firsts[] = {"2019,2020", "1,2", "0,1", "410,420"};
    static const char row[] = "20.5,-3.25\n21.75,4.5\n";
    char text[512];
    for (size_t i = 0; i < sizeof firsts / sizeof firsts[0]; i++) {
        snprintf(text, sizeof text, "%s\n%s%s%s%s%s%s", firsts[i], row, row, row, row, row, row);
        write_text(text);
        expect_refused("csv:@/table.csv,target=1,test=0", TERN_ERR_CONFIG, "line 1 can be a row");
        assert_int_equal(open_spec("csv:@/table.csv,target=1,test=0,header=yes"), TERN_OK);
        assert_int_equal(data.train.count, 12);
        assert_int_equal(open_spec("csv:@/table.csv,target=1,test=0,header=no"), TERN_OK);
        assert_int_equal(data.train.count, 13);
    }
    snprintf(text, sizeof text, "21,4\n%s%s%s%s%s%s", row, row, row, row, row, row);
    write_text(text);
    assert_int_equal(open_spec("csv:@/table.csv,target=1,test=0"), TERN_OK);
    assert_int_equal(data.train.count, 13);
}

IN_FOLDER(quotes_and_line_ends_are_those_of_rfc_4180)
{
    write_text("\xEF\xBB\xBF\"x, \"\"1\"\"\",y\r\n\"1\",\"a\nb\"\r\n\r\n2,\"say \"\"no\"\"\"\r\n"
               "3,\"\"\r\n4,\"a\nb\"");
    assert_int_equal(open_spec("csv:@/table.csv,test=0,classes=|a\nb|say \"no\""), TERN_OK);
    assert_int_equal(data.train.count, 4);
    assert_int_equal(data.train.class_count, 3);
    assert_int_equal(class_of(3.0f), 0);
    assert_int_equal(class_of(1.0f), 1);
    assert_int_equal(class_of(4.0f), 1);
    assert_int_equal(class_of(2.0f), 2);
    assert_int_equal(open_spec("csv:@/table.csv,label=y,test=0,classes=|a\nb|say \"no\""), TERN_OK);
    // Such line ends come from files that were converted twice, and from old Macs.
    static const char *const ends[] = {"1,0\r\r\n2,1\r\r\n", "1,0\r2,1\r", "1,0\r2,1"};
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        write_text(ends[i]);
        assert_int_equal(open_spec("csv:@/table.csv,test=0"), TERN_OK);
        assert_int_equal(data.train.count, 2);
        assert_int_equal(class_of(2.0f), 1);
    }
}

IN_FOLDER(text_labels_need_classes)
{
    write_text("1,pear\n2,apple\n3,fig\n");
    expect_refused("csv:@/table.csv,test=0", TERN_ERR_CONFIG,
                   "line 1, column '1': the label 'pear' is no class number from 0: add "
                   "classes=apple|fig|pear to data.source, with all labels, equal on all "
                   "clients; or give the column of the class (label=NAME)");
    write_text("1,14.5\n2,-3.25\n3,7.5\n");
    expect_refused(
        "csv:@/table.csv,test=0", TERN_ERR_CONFIG,
        "or give the column of the class (label=NAME) or of the number to predict (target=NAME)");
    write_text("1,pear\n2,apple\n3,fig\n");
    assert_int_equal(open_spec("csv:@/table.csv,test=0,classes=fig|pear|plum|apple"), TERN_OK);
    assert_int_equal(class_of(1.0f), 1);
    assert_int_equal(class_of(2.0f), 3);
    assert_int_equal(class_of(3.0f), 0);
    assert_int_equal(data.train.class_count, 4);
    expect_refused("csv:@/table.csv,classes=fig|pear|apple|pear", TERN_ERR_CONFIG,
                   "classes lists 'pear' twice");
    expect_refused("csv:@/table.csv,classes=fig|pear", TERN_ERR_NOT_FOUND,
                   "line 2, column '1': the label 'apple' (1 row) is not one of those in "
                   "classes=fig|pear");
    assert_int_equal(open_spec("csv:@/table.csv,test=0,classes=pear|*"), TERN_OK);
    assert_int_equal(class_of(1.0f), 0);
    assert_int_equal(class_of(2.0f), 1);
    assert_int_equal(class_of(3.0f), 1);
    assert_int_equal(data.train.class_count, 2);
    // One text among numbers, and numbers that are no class.
    static const char *const wrong[] = {"1,0\n2,x\n", "1,0\n2,-1\n", "1,0\n2,1.5\n", "1,0\n2,01\n",
                                        "1,0\n2,4096\n"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        write_text(wrong[i]);
        expect_refused("csv:@/table.csv", TERN_ERR_CONFIG, "line 2");
    }
}

IN_FOLDER(a_share_is_kept_for_testing)
{
    char text[4096] = "";
    for (int i = 0; i < 100; i++) {
        snprintf(text + strlen(text), sizeof text - strlen(text), "%d,%d\n", i, i % 3);
    }
    write_text(text);
    assert_int_equal(open_spec("csv:@/table.csv,test=0.25,seed=4"), TERN_OK);
    assert_int_equal(data.train.count, 75);
    assert_int_equal(data.test.count, 25);
    int seen[100] = {0};
    bool in_order = true;
    for (uint32_t i = 0; i < 100; i++) {
        const struct tern_dataset *part = i < 75 ? &data.train : &data.test;
        uint32_t at = i < 75 ? i : i - 75;
        int value = (int)part->values[at];
        assert_int_equal(part->labels[at], value % 3);
        seen[value]++;
        in_order = in_order && value == (int)i;
    }
    for (int i = 0; i < 100; i++) {
        assert_int_equal(seen[i], 1);
    }
    assert_false(in_order);
}

IN_FOLDER(columns_are_standardised_by_the_training_rows)
{
    write_text("1,100,5,a\n2,300,5,b\n3,200,5,a\n4,400,5,b\n5,900,5,a\n");
    assert_int_equal(open_spec("csv:@/table.csv,scale=standard,test=0.2,classes=a|b"), TERN_OK);
    for (uint32_t c = 0; c < 3; c++) {
        double sum = 0.0;
        double square = 0.0;
        for (uint32_t i = 0; i < 4; i++) {
            double value = (double)data.train.values[i * 3 + c];
            sum += value;
            square += value * value;
        }
        assert_true(fabs(sum) < 1e-5);
        assert_true(fabs(square - (c < 2 ? 4.0 : 0.0)) < 1e-5);
    }
    assert_true(data.test.values[2] == 0.0f);
}

IN_FOLDER(packed_tables_are_read)
{
    const char *text = "1,a\n2,b\n";
    write_gzip("table.csv.gz", text, strlen(text));
    assert_int_equal(open_spec("csv:@/table.csv.gz,test=0,classes=a|b"), TERN_OK);
    assert_int_equal(data.train.count, 2);
}

static void refuse(const char *text, enum tern_result expected, const char *part)
{
    write_text(text);
    expect_refused("csv:@/table.csv,classes=a|b", expected, part);
    assert_non_null(strstr(why, "table.csv"));
    assert_null(strchr(why, '\n'));
}

IN_FOLDER(damaged_tables_are_refused)
{
    refuse("", TERN_ERR_CORRUPT, "no rows");
    refuse("\n\n\n", TERN_ERR_CORRUPT, "no rows");
    refuse("a,b\n", TERN_ERR_CORRUPT, "no rows");
    refuse("1\n2\n", TERN_ERR_CORRUPT, "no features: line 1 ('1') is one field");
    refuse("a b\n1 2\n", TERN_ERR_CORRUPT, "line 1 ('a b') is one field");
    refuse("a;b\n1;0\n", TERN_ERR_CORRUPT, "has semicolons between its fields ('a;b')");
    refuse("1\t0\n", TERN_ERR_CORRUPT, "has tabs between its fields");
    refuse("1,2,a\n1,b\n", TERN_ERR_CORRUPT, "line 2 has 2 fields, the first line 3");
    refuse("1,2,a\n\n1,2,3,b\n", TERN_ERR_CORRUPT, "line 3 has 4 fields");
    refuse("1,x,a\n1,2,b\n", TERN_ERR_CONFIG,
           "line 1 can be a row ('1') or the columns' names ('x')");
    refuse("1,2,a\n1,x,b\n", TERN_ERR_CORRUPT, "line 2, column '1': 'x' is not a finite number");
    refuse("1,2,a\n1,1e99,b\n", TERN_ERR_CORRUPT, "'1e99'");
    refuse("1,2,a\n1,0x10,b\n", TERN_ERR_CORRUPT, "'0x10'");
    refuse("1,2,a\n1,\"2\n\",b\n", TERN_ERR_CORRUPT, "'2?'");
    refuse("1,2,\"a\n1,2,b\n", TERN_ERR_CORRUPT, "ends inside quotes");
    refuse("1,2,\"a\"b\n", TERN_ERR_CORRUPT, "neither a comma nor a line end");
    refuse("1,2,a\"b\n", TERN_ERR_CORRUPT, "a quote inside");
    refuse("1,2,a\rb\n", TERN_ERR_CORRUPT, "earlier lines end with CR alone");
    refuse("1,2,a\n1,2,b\r1,2,a\n", TERN_ERR_CORRUPT, "line 2, field 3: a carriage return without");
    write_file("table.csv", "1,\0,a\n", 6);
    expect_refused("csv:@/table.csv", TERN_ERR_CORRUPT, "zero byte");
    write_file("table.csv", "\xFF\xFE\0\0a\0\0\0", 8);
    expect_refused("csv:@/table.csv", TERN_ERR_CORRUPT, "is UTF-32 text");
    write_file("table.csv", "1,\"\0\",a\n", 8);
    expect_refused("csv:@/table.csv", TERN_ERR_CORRUPT, "zero byte");
}

IN_FOLDER(a_wrong_value_names_its_column)
{
    write_text("id,kind,height,width\n1,a,0.5,2\n2,b,1.5,\n");
    expect_refused("csv:@/table.csv,label=kind,drop=id,classes=a|b,missing=refuse",
                   TERN_ERR_CORRUPT, "line 3, column 'width': the value is missing (1 of 2 rows)");
    write_text("id,kind,height,width\n1,a,tall,2\n");
    expect_refused(
        "csv:@/table.csv,label=kind,drop=id,classes=a|b", TERN_ERR_CORRUPT,
        "line 2, column 'height': 'tall' is not a finite number (1 of its 1 values): correct the "
        "lines, or remove them");
}

IN_FOLDER(quotes_hold_commas_of_labels_and_files)
{
    write_text("\"size, cm\",kind\n1,\"cat, wild\"\n2,\"say \"\"no\"\"\"\n");
    assert_int_equal(open_spec("csv:@/table.csv,label=kind,test=0,classes=\"cat, wild|say "
                               "\"\"no\"\"\""),
                     TERN_OK);
    assert_int_equal(class_of(1.0f), 0);
    assert_int_equal(class_of(2.0f), 1);
    expect_refused("csv:@/table.csv,label=\"size, cm\"", TERN_ERR_CORRUPT, "column 'kind'");
    write_file("a,b=c.csv", "1,0\n2,1\n", 8);
    assert_int_equal(open_spec("csv:\"@/a,b=c.csv\",test=0"), TERN_OK);
    assert_int_equal(class_of(2.0f), 1);
    // Without quotes, where it cannot be taken for an option.
    write_file("site=3.csv", "1,1\n2,0\n", 8);
    assert_int_equal(open_spec("csv:@/site=3.csv,test=0"), TERN_OK);
    assert_int_equal(class_of(2.0f), 0);
    expect_refused("csv:@/table.csv;label=kind", TERN_ERR_NOT_FOUND, "table.csv;label=kind");
    expect_refused("csv:\"@/table.csv", TERN_ERR_CONFIG, "a value in quotes must end with a quote");
    expect_refused("csv:@/table.csv,label=\"a\"b", TERN_ERR_CONFIG,
                   "before a comma or the end; write \"\" for a quote within");
}

// The sum of the first features of the training rows of a group.
static double sum_of_group(uint32_t group)
{
    double sum = 0.0;
    for (uint32_t i = 0; i < data.train.count; i++) {
        if (data.train.groups[i] == group) {
            sum += (double)data.train.values[i * data.train.feature_count];
        }
    }
    return sum;
}

IN_FOLDER(a_column_names_the_groups)
{
    write_text("x,device,y\n1,pump 7,0\n20,fan,1\n3,pump 7,1\n40,fan,0\n500,\"a,b\",0\n");
    assert_int_equal(open_spec("csv:@/table.csv,group=device,test=0"), TERN_OK);
    assert_int_equal(data.train.group_count, 3);
    assert_int_equal(data.train.feature_count, 1);
    assert_true(sum_of_group(0) == 4.0 && sum_of_group(1) == 60.0 && sum_of_group(2) == 500.0);
    assert_int_equal(open_spec("csv:@/table.csv,group=1,only=fan,test=0"), TERN_OK);
    assert_int_equal(data.train.count, 2);
    assert_true(sum_of_group(1) == 60.0);
    assert_int_equal(class_of(40.0f), 0);
    assert_int_equal(open_spec("csv:@/table.csv,group=device,only=\"a,b\",test=0"), TERN_OK);
    assert_int_equal(data.train.count, 1);
    // The test rows are drawn from those that are left.
    assert_int_equal(open_spec("csv:@/table.csv,group=device,only=fan,test=0.5"), TERN_OK);
    assert_int_equal(data.train.count, 1);
    assert_int_equal(data.test.count, 1);
    expect_refused("csv:@/table.csv,group=device,only=pump", TERN_ERR_NOT_FOUND,
                   "no row has 'pump' in column 'device'");
    expect_refused("csv:@/table.csv,only=fan", TERN_ERR_CONFIG, "add group=COLUMN");
    expect_refused("csv:@/table.csv,group=y", TERN_ERR_CONFIG, "group names the label's column");
    expect_refused("csv:@/table.csv,group=z", TERN_ERR_NOT_FOUND, "no column 'z'");
    write_text("x,device,y\n1,pump 7,0\n20,,1\n");
    expect_refused("csv:@/table.csv,group=device", TERN_ERR_CORRUPT,
                   "line 3, column 'device': the group is missing (1 of 2 rows)");
}

IN_FOLDER(more_groups_than_fit_at_once_are_told_apart)
{
    static char text[40000];
    size_t used = 0;
    for (int i = 0; i < 2000; i++) {
        used += (size_t)snprintf(text + used, sizeof text - used, "%d,g%d,0\n", i % 700, i % 700);
    }
    write_text(text);
    assert_int_equal(open_spec("csv:@/table.csv,group=1,test=0"), TERN_OK);
    assert_int_equal(data.train.group_count, 700);
    for (uint32_t i = 0; i < 2000; i++) {
        assert_true(data.train.values[i] == (float)data.train.groups[i]);
    }
}

IN_FOLDER(a_test_file_is_the_test_part)
{
    write_text("x,d,y\n1,a,0\n3,b,1\n");
    write_file("test.csv", "x,d,y\n2,c,2\n5,b,0\n", 18);
    const char *spec = "csv:@/table.csv,test_file=@/test.csv,group=d,scale=standard";
    assert_int_equal(open_spec(spec), TERN_OK);
    assert_int_equal(data.train.count, 2);
    assert_int_equal(data.test.count, 2);
    assert_int_equal(data.train.class_count, 3);
    assert_int_equal(data.test.class_count, 3);
    assert_int_equal(data.test.group_count, 3);
    // Mean 2 and deviation 1 are those of the training rows; group b has the same number in both.
    assert_true(data.test.values[0] == 0.0f && data.test.values[1] == 3.0f);
    assert_int_equal(data.test.groups[0], 2);
    assert_int_equal(data.test.groups[1], 1);
    expect_refused("csv:@/table.csv,test_file=@/test.csv,test=0.2", TERN_ERR_CONFIG, "not both");
    expect_refused("csv:@/table.csv,test_file=@/none.csv,group=d", TERN_ERR_NOT_FOUND, "none.csv");
    write_file("test.csv", "z,d,y\n2,c,2\n", 12);
    expect_refused(spec, TERN_ERR_CORRUPT, "is 'z', that of the training file 'x'");
    write_file("test.csv", "x,w,d,y\n2,1,c,2\n", 16);
    expect_refused(spec, TERN_ERR_CORRUPT, "has 2 features, the training file 1");
    write_file("test.csv", "x,d,y\n2,c,q\n", 12);
    expect_refused(spec, TERN_ERR_CONFIG, "test.csv: line 2, column 'y': the label 'q'");
}

IN_FOLDER(columns_that_do_not_exist_are_named)
{
    write_text("a,b\n1,2\n");
    expect_refused("csv:@/table.csv,label=c", TERN_ERR_NOT_FOUND, "no column 'c'");
    expect_refused("csv:@/table.csv,label=2", TERN_ERR_NOT_FOUND, "no column '2'");
    expect_refused("csv:@/table.csv,label=-3", TERN_ERR_NOT_FOUND, "no column '-3'");
    expect_refused("csv:@/table.csv,drop=x", TERN_ERR_NOT_FOUND, "no column 'x'");
    expect_refused("csv:@/table.csv,label=a,drop=a", TERN_ERR_CONFIG, "the label's column");
    expect_refused("csv:@/table.csv,drop=a", TERN_ERR_CORRUPT, "Drop fewer columns");
    expect_refused("csv:@/table.csv,lable=c", TERN_ERR_CONFIG, "no option 'lable'; known: label,");
    expect_refused("csv:@/none.csv", TERN_ERR_NOT_FOUND, "none.csv");
    expect_refused("csv:@", TERN_ERR_NOT_FOUND, "is not a file");
}

IN_FOLDER(limits_are_obeyed)
{
    write_text("1,2,0\n1,2,1\n1,2,2\n");
    limits.max_examples = 2;
    expect_refused("csv:@/table.csv", TERN_ERR_TOO_LARGE, "more rows than the limits allow (2)");
    limits.max_examples = 3;
    limits.max_classes = 2;
    expect_refused("csv:@/table.csv", TERN_ERR_CONFIG,
                   "line 3: the label '2' is no class number from 0 to 1;");
    expect_refused("csv:@/table.csv,classes=0|1|2", TERN_ERR_TOO_LARGE, "more than the limit of 2");
    limits.max_classes = 3;
    limits.max_bytes = 17;
    expect_refused("csv:@/table.csv", TERN_ERR_TOO_LARGE, "more than the limit of 17 bytes");
    limits.max_bytes = 0;
    assert_int_equal(open_spec("csv:@/table.csv"), TERN_OK);
    limits.max_features = 1;
    char wide[512] = "1";
    for (int i = 0; i < 100; i++) {
        strcat(wide, ",1");
    }
    write_text(wide);
    expect_refused("csv:@/table.csv", TERN_ERR_TOO_LARGE, "has 100 features, over the limit of 1");
    write_text("1,2,2,0\n");
    expect_refused("csv:@/table.csv", TERN_ERR_TOO_LARGE, "3 features, over the limit of 1");
}

IN_FOLDER(a_packed_bomb_is_refused)
{
    const size_t size = 32u << 20;
    char *text = malloc(size);
    assert_non_null(text);
    memset(text, '1', size);
    write_gzip("bomb.csv.gz", text, size);
    expect_refused("csv:@/bomb.csv.gz", TERN_ERR_TOO_LARGE, "record of line 1");
    memset(text, '\n', size);
    write_gzip("bomb.csv.gz", text, size);
    limits.max_bytes = 1 << 20;
    expect_refused("csv:@/bomb.csv.gz", TERN_ERR_TOO_LARGE, "more than the limit of 1048576");
    free(text);
}

// Whatever rows a client has, the same value becomes the same number.
IN_FOLDER(a_file_scales_every_client_alike)
{
    const char scaling[] = "column,mean,deviation\nrpm,2950,10\nflow,5,0.5\n";
    write_file("scaling.csv", scaling, strlen(scaling));
    write_text("rpm,flow,state\n2960,5,a\n2930,6,b\n");
    assert_int_equal(open_spec("csv:@/table.csv,scale=@/scaling.csv,test=0,classes=a|b"), TERN_OK);
    assert_int_equal(class_of(1.0f), 0);
    assert_int_equal(class_of(-2.0f), 1);
    write_text("rpm,flow,state\n2960,5,a\n2960,5,a\n");
    assert_int_equal(open_spec("csv:@/table.csv,scale=@/scaling.csv,test=0.5,classes=a|b"),
                     TERN_OK);
    assert_true(data.train.values[0] == 1.0f && data.train.values[1] == 0.0f);
    assert_true(data.test.values[0] == 1.0f && data.test.values[1] == 0.0f);
}

IN_FOLDER(a_file_of_other_columns_is_refused)
{
    static const struct {
        const char *text;
        const char *part;
    } cases[] = {
        {"column,mean,deviation\nflow,5,1\nrpm,2950,10\n",
         "line 2: column 'flow', where this client's data"},
        {"column,mean,deviation\nrpm,2950,10\n", "'flow' is missing"},
        {"column,mean,deviation\nrpm,2950,10\nflow,5,1\nx,1,1\n",
         "'x' is one more than the 2 of the table (to drop a column, run `tern-aggregator init "
         "--data` with --drop again"},
        {"column,mean,deviation\nx,1,1\nrpm,2950,10\nflow,5,1\n",
         "column 'x', where this client's data has 'rpm': every client needs the same columns in "
         "the same "
         "order (to drop a column, run `tern-aggregator init --data` with --drop again"},
        {"column,mean,deviation\nrpm,2950,0\nflow,5,1\n", "line 2 is not a column's name"},
        {"column,mean,deviation\nrpm,2950,10\nflow,nan,1\n", "line 3 is not a column's name"},
        {"rpm,2950,10\nflow,5,1\n", "does not begin with the line column,mean,deviation"},
    };
    write_text("rpm,flow,state\n2960,5,0\n2930,6,1\n");
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        write_file("scaling.csv", cases[i].text, strlen(cases[i].text));
        expect_refused("csv:@/table.csv,scale=@/scaling.csv", TERN_ERR_CORRUPT, cases[i].part);
    }
    expect_refused("csv:@/table.csv,scale=log", TERN_ERR_CONFIG, "none, standard, or the file");
}

// The target of the row whose first feature is `value`, in the units of the table.
static float target_of(float value)
{
    const struct tern_dataset *train = &data.train;
    for (uint32_t i = 0; i < train->count; i++) {
        if (train->values[i * train->feature_count] == value) {
            return train->targets[i] * train->target_deviation + train->target_mean;
        }
    }
    return NAN;
}

IN_FOLDER(a_target_is_a_number)
{
    write_text("rpm,flow,state\n1,500.5,a\n2,-7e2,b\n3,1,a\n");
    assert_int_equal(open_spec("csv:@/table.csv,target=flow,drop=state,test=0"), TERN_OK);
    assert_int_equal(data.train.feature_count, 1);
    assert_int_equal(data.train.class_count, 1);
    assert_true(target_of(1.0f) == 500.5f && target_of(2.0f) == -700.0f && target_of(3.0f) == 1.0f);
    write_text("1,5\n2,6\n");
    assert_int_equal(open_spec("csv:@/table.csv,target=-1,test=0"), TERN_OK);
    assert_true(target_of(1.0f) == 5.0f && target_of(2.0f) == 6.0f);
    write_text("rpm,state\n1,a\n2,b\n");
    assert_int_equal(open_spec("csv:@/table.csv,label=none,drop=state,test=0"), TERN_OK);
    assert_int_equal(data.train.feature_count, 1);
    assert_null(data.train.targets);
    assert_int_equal(class_of(2.0f), 0);
}

IN_FOLDER(targets_move_with_their_rows)
{
    char text[2048] = "rpm,flow\n";
    for (int i = 0; i < 60; i++) {
        snprintf(text + strlen(text), 32, "%d,%d\n", i, 10 * i + 3);
    }
    write_text(text);
    assert_int_equal(open_spec("csv:@/table.csv,target=flow,test=0.25,seed=4"), TERN_OK);
    assert_int_equal(data.test.count, 15);
    for (uint32_t i = 0; i < data.train.count; i++) {
        assert_true(data.train.targets[i] == 10 * data.train.values[i] + 3);
    }
    for (uint32_t i = 0; i < data.test.count; i++) {
        assert_true(data.test.targets[i] == 10 * data.test.values[i] + 3);
    }
    assert_int_equal(open_spec("csv:@/table.csv,target=flow,test=0,scale=standard"), TERN_OK);
    double sum = 0;
    for (uint32_t i = 0; i < 60; i++) {
        sum += (double)data.train.targets[i];
    }
    assert_float_equal(sum, 0, 1e-4);
    assert_float_equal(data.train.target_mean, 298, 1e-3);
}

IN_FOLDER(targets_are_scaled_by_the_file)
{
    const char scaling[] = "column,mean,deviation\nrpm,2,1\nflow,100,50\n";
    write_file("scaling.csv", scaling, strlen(scaling));
    write_text("rpm,flow\n3,150\n2,0\n");
    assert_int_equal(open_spec("csv:@/table.csv,target=flow,scale=@/scaling.csv,test=0"), TERN_OK);
    assert_true(target_of(1.0f) == 150.0f && target_of(0.0f) == 0.0f);
    assert_true(data.train.target_deviation == 50.0f);
    assert_true(data.train.targets[0] + data.train.targets[1] == -1.0f);
    expect_refused("csv:@/table.csv,label=flow,scale=@/scaling.csv", TERN_ERR_CORRUPT,
                   "column 'flow' is one more than the 1");
    const char other[] = "column,mean,deviation\nrpm,2,1\nlevel,100,50\n";
    write_file("scaling.csv", other, strlen(other));
    expect_refused("csv:@/table.csv,target=flow,scale=@/scaling.csv", TERN_ERR_CORRUPT,
                   "line 3: column 'level', but the target 'flow' must be in this line");
    write_file("scaling.csv", other, strlen("column,mean,deviation\nrpm,2,1\n"));
    expect_refused("csv:@/table.csv,target=flow,scale=@/scaling.csv", TERN_ERR_CORRUPT,
                   "no line for the target 'flow'");
}

IN_FOLDER(targets_that_are_no_numbers_are_named)
{
    static const char *const bad[] = {"", "nan", "inf", "1e39", "high"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        char text[64];
        snprintf(text, sizeof text, "rpm,flow\n1,2\n3,%s\n", bad[i]);
        write_text(text);
        expect_refused("csv:@/table.csv,target=flow", TERN_ERR_CORRUPT,
                       "line 3, column 'flow': the target ");
        assert_non_null(strstr(why, i < 2 ? "is missing" : bad[i]));
    }
    expect_refused("csv:@/table.csv,target=flow,label=rpm", TERN_ERR_CONFIG, "one of them");
    expect_refused("csv:@/table.csv,target=level", TERN_ERR_NOT_FOUND, "no column 'level'");
}

// The feature `column` of the row whose target or first feature is `key`.
static float value_of(uint32_t column, float key)
{
    for (uint32_t i = 0; i < data.train.count; i++) {
        const float *row = data.train.values + (size_t)i * data.train.feature_count;
        if (row[0] == key) {
            return row[column];
        }
    }
    return NAN;
}

IN_FOLDER(missing_values_are_their_columns_means)
{
    write_text("x,v,y\n1,10,0\n2,,1\n3,30,0\n4,?,1\n5,80,0\n");
    assert_int_equal(open_spec("csv:@/table.csv,test=0"), TERN_OK);
    assert_int_equal(data.train.count, 5);
    assert_true(value_of(1, 2.0f) == 40.0f && value_of(1, 4.0f) == 40.0f &&
                value_of(1, 3.0f) == 30.0f);
    assert_non_null(strstr(data.notes, "2 values in 1 column are missing, the first in line 3"));
    // The file's mean, which all clients have, in the place of this file's own.
    write_file("scaling.csv", "column,mean,deviation\nx,0,1\nv,20,10\n", 36);
    assert_int_equal(open_spec("csv:@/table.csv,test=0,scale=@/scaling.csv"), TERN_OK);
    assert_true(value_of(1, 2.0f) == 0.0f && value_of(1, 1.0f) == -1.0f);
    assert_int_equal(open_spec("csv:@/table.csv,test=0.2,scale=standard"), TERN_OK);
    assert_true(isfinite(data.test.values[1]));
    assert_int_equal(open_spec("csv:@/table.csv,test=0,missing=skip"), TERN_OK);
    assert_int_equal(data.train.count, 3);
    assert_null(data.train.imputed);
    assert_int_equal(open_spec("csv:@/table.csv,test=0,missing=skip-unlabelled"), TERN_OK);
    assert_int_equal(data.train.count, 5); // all rows have a label
    assert_true(value_of(1, 2.0f) == 40.0f);
    expect_refused("csv:@/table.csv,missing=refuse", TERN_ERR_CORRUPT,
                   "line 3, column 'v': the value is missing");
    expect_refused("csv:@/table.csv,missing=zero", TERN_ERR_CONFIG,
                   "missing=zero is not one of mean, skip, skip-unlabelled and refuse");
    expect_refused("csv:@/table.csv,header=maybe", TERN_ERR_CONFIG,
                   "header=maybe is not one of yes and no");
    // New rows for predict are all kept, in their order.
    char spec[SPEC_SIZE];
    const struct tern_data_part whole = {.test = true, .new_rows = true};
    name_spec("csv:@/table.csv,missing=skip", spec);
    tern_data_close(&data);
    assert_int_equal(tern_dataset_open_part(spec, NULL, &whole, &data, why), TERN_OK);
    assert_int_equal(data.train.count, 5);
    write_text("x,v,y\n1,,0\n2,,1\n");
    expect_refused("csv:@/table.csv", TERN_ERR_CORRUPT,
                   "column 'v' has no value in any of the 2 rows");
    assert_int_equal(open_spec("csv:@/table.csv,test=0,scale=@/scaling.csv"), TERN_OK);
}

IN_FOLDER(rows_without_a_label_are_no_class)
{
    write_text("x,y\n1,a\n2,\n3,b\n4,NA\n");
    expect_refused("csv:@/table.csv,classes=a|b", TERN_ERR_CORRUPT,
                   "line 3, column 'y': the label is missing (2 of 4 rows)");
    assert_int_equal(open_spec("csv:@/table.csv,classes=a|b,missing=skip,test=0"), TERN_OK);
    assert_int_equal(data.train.count, 2);
    assert_int_equal(class_of(3.0f), 1);
    assert_int_equal(open_spec("csv:@/table.csv,classes=NA|a|b,missing=skip,test=0"), TERN_OK);
    assert_int_equal(data.train.count, 3);
    assert_int_equal(class_of(4.0f), 0);
    write_text("x,v,y\n1,10,a\n2,20,\n3,NA,b\n4,30,NA\n5,50,a\n");
    assert_int_equal(open_spec("csv:@/table.csv,classes=a|b,missing=skip,test=0"), TERN_OK);
    assert_int_equal(data.train.count, 2);
    assert_int_equal(open_spec("csv:@/table.csv,classes=a|b,missing=skip-unlabelled,test=0"),
                     TERN_OK);
    assert_int_equal(data.train.count, 3);
    assert_true(value_of(1, 3.0f) == 30.0f); // the mean of the rows that are used
    assert_non_null(strstr(data.notes, "2 of 5 rows have no label, the first in line 3: they are "
                                       "skipped (missing=skip-unlabelled)"));
    assert_non_null(strstr(data.notes, "1 value in 1 column is missing"));
    write_text("x,y\n1,\n2,NA\n");
    expect_refused("csv:@/table.csv,classes=a|b,missing=skip-unlabelled", TERN_ERR_CORRUPT,
                   "2 of 2 rows have no label");
    write_text("x,y\n1,a\n2,\n3,b\n4,NA\n");
    // New rows for predict need no label.
    char spec[SPEC_SIZE];
    const struct tern_data_part whole = {.test = true, .new_rows = true};
    name_spec("csv:@/table.csv,label=y,classes=a|b", spec);
    tern_data_close(&data);
    assert_int_equal(tern_dataset_open_part(spec, NULL, &whole, &data, why), TERN_OK);
    assert_int_equal(data.train.count, 4);
    assert_false(data.unlabelled);
    write_text("x,y\n1,\n2,\n");
    tern_data_close(&data);
    assert_int_equal(tern_dataset_open_part(spec, NULL, &whole, &data, why), TERN_OK);
    assert_true(data.unlabelled);
    // Nor the label's column, where that is the last one and goes by its number.
    write_text("1,2\n3,4\n");
    name_spec("csv:@/table.csv,label=2,header=no,classes=a|b", spec);
    tern_data_close(&data);
    assert_int_equal(tern_dataset_open_part(spec, NULL, &whole, &data, why), TERN_OK);
    assert_true(data.unlabelled && data.train.count == 2 && data.train.feature_count == 2);
    name_spec("csv:@/table.csv,label=3,header=no,classes=a|b", spec);
    tern_data_close(&data);
    assert_int_equal(tern_dataset_open_part(spec, NULL, &whole, &data, why), TERN_ERR_NOT_FOUND);
}

IN_FOLDER(lines_that_are_no_rows_are_not_read)
{
    write_text("x,v,y\nmm,bar,-\n1, 2.5 ,0\n,,\nx,v,y\n 3 ,4,1\n5,6,\" 1\"\n7,8,1\n");
    expect_refused("csv:@/table.csv", TERN_ERR_CONFIG,
                   "line 7, column 'y': the label ' 1' is no class number");
    write_text("x,v,y\nmm,bar,-\n1, 2.5 ,0\n,,\nx,v,y\n 3 ,4,1\n7,\" 8 \",1\n");
    assert_int_equal(open_spec("csv:@/table.csv,test=0"), TERN_OK);
    assert_int_equal(data.train.count, 3);
    assert_true(value_of(1, 1.0f) == 2.5f && value_of(1, 7.0f) == 8.0f);
}
