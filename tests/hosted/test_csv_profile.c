#include "hosted/csv_judge.h"
#include "hosted/csv_text.h"
#include "tests/cases.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROWS 40

static struct tern_csv_profile profile;
static struct tern_csv_choice choice;
static char why[TERN_INPUT_WHY_MAX];
static char text[131072];
static char said
    [8192]; // sentences of the judgement, each behind '!' (a problem) or '?' and with a line end
static uint32_t problems;

static void say(void *ctx, enum tern_csv_level level, enum tern_result result, const char *area,
                const char *sentence)
{
    (void)ctx;
    (void)area;
    assert_true((level == TERN_CSV_PROBLEM) == (result != TERN_OK));
    problems += level == TERN_CSV_PROBLEM;
    const size_t used = strlen(said);
    snprintf(said + used, sizeof said - used, "%c%s\n", level == TERN_CSV_PROBLEM ? '!' : '?',
             sentence);
}

static enum tern_result read_text(void)
{
    struct tern_input input;
    tern_csv_profile_free(&profile);
    said[0] = '\0';
    problems = 0;
    tern_input_from_memory(&input, (const uint8_t *)text, strlen(text), 1u << 20, why);
    const enum tern_result result = tern_csv_profile_read(&input, &choice, &profile);
    const struct tern_csv_judging judging = {.profile = &profile, .choice = &choice, .report = say};
    if (result == TERN_OK) {
        tern_csv_judge(&judging);
    }
    return result;
}

static int set_up(void **state)
{
    (void)state;
    choice = (struct tern_csv_choice){.classes = "ok|worn"};
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    tern_csv_profile_free(&profile);
    return 0;
}

// `head`, and rows of two numbers and a label, of which that of line `line` is replaced.
static void write_rows(const char *head, uint32_t line, const char *instead)
{
    size_t used = (size_t)snprintf(text, sizeof text, "%s", head);
    uint32_t next = 1;
    for (const char *c = head; *c != '\0'; c++) {
        next += *c == '\n';
    }
    for (uint32_t i = 0; i < ROWS; i++, next++) {
        used += next == line
                    ? (size_t)snprintf(text + used, sizeof text - used, "%s\n", instead)
                    : (size_t)snprintf(text + used, sizeof text - used, "%u.%u,%u,%s\n", i * 7 % 5,
                                       i % 9, 30 + i * 11 % 7, i % 2 == 0 ? "ok" : "worn");
    }
}

static void expect_header(const char *head, bool header, uint64_t rows)
{
    write_rows(head, 0, "");
    const enum tern_result result = read_text();
    if (result != TERN_OK || profile.columns.header != header || profile.rows != rows) {
        fail_msg("'%s': %s, header %d, %u rows, %s", head, tern_result_name(result),
                 (int)profile.columns.header, (unsigned)profile.rows, why);
    }
    assert_int_equal(profile.labels.count, 2);
}

static void expect_refused(const char *head, const char *part)
{
    write_rows(head, 0, "");
    if (read_text() == TERN_OK || strstr(why, part) == NULL) {
        fail_msg("'%s': %s, not %s", head, why, part);
    }
}

#define TABLE(test) CASE_WITH(test, set_up, tear_down)

TABLE(the_first_line_is_recognised_or_asked_about)
{
    expect_header("", false, ROWS);
    expect_header("1.5,31,worn\n", false, ROWS + 1);
    expect_header("1.5,NA,worn\n", false, ROWS + 1);
    expect_header("a,b,state\n", true, ROWS);
    expect_header(",b,state\n", true, ROWS);
    expect_header("a,b,\n", true, ROWS);
    expect_header("a,b,ok\n", true, ROWS); // two names of columns of numbers are no chance
    expect_header("a,b,state\n[V],[A],-\n", true, ROWS);
    expect_header("a,b,state\ns,m,\n", true, ROWS);
    choice.classes = NULL;
    expect_refused("1.5,31,broken\n",
                   "line 1 can be a row ('31') or the columns' names ('broken')");
    expect_refused("400,410,state\n", "('410') or the columns' names ('state')");
    expect_refused("a,31,state\n", "('31') or the columns' names ('a')");
    choice.header = TERN_CSV_HEADER_NO;
    write_rows("1.5,31,broken\n", 0, "");
    assert_int_equal(read_text(), TERN_OK);
    assert_int_equal(profile.labels.count, 3);
    choice.header = TERN_CSV_HEADER_YES;
    assert_int_equal(read_text(), TERN_OK);
    assert_int_equal(profile.labels.count, 2);
}

TABLE(numbers_that_count_the_columns_are_names)
{
    static const char *const heads[] = {"0,1,2,3,4", "1,2,3,4,5", "0,1,2,3,state", "y,0,1,2,3"};
    for (size_t h = 0; h < sizeof heads / sizeof heads[0]; h++) {
        size_t used = (size_t)snprintf(text, sizeof text, "%s\n", heads[h]);
        for (int i = 0; i < ROWS; i++) {
            used += (size_t)snprintf(text + used, sizeof text - used, "%d.5,%d,%d,%d,%d\n",
                                     i * 7 % 5, i % 9, i % 4, 30 + i % 7, i % 2);
        }
        choice.classes = NULL;
        assert_int_equal(read_text(), TERN_OK);
        assert_true(profile.columns.header);
        assert_int_equal(profile.rows, ROWS);
    }
}

TABLE(other_layouts_are_refused_by_name)
{
    expect_refused("sep=,\na,b,state\n", "line 1 is 'sep=', a hint for spreadsheets");
    expect_refused("Readings\na,b,state\n", "line 1 ('Readings') has 1 field, line 2 has 3");
    expect_refused("# a\n\n# b\na,b,state\n", "line 1 ('# a') has 1 field, line 4 has 3");
    expect_refused("# a\n# b\na,b,state\n", "(tail -n +3 FILE > NEW)");
    expect_refused("# 7,x,y,z\n", "line 2 has 3 fields, the first line 4");
    expect_refused(
        "a;b;state\n",
        "has semicolons between its fields ('a;b;state'): write commas, and decimals "
        "with points (sed -E ':a;s/(^|;)([-+]?[0-9]*),([0-9eE+-]+)(;|\\r?$)/\\1\\2.\\3\\4/;"
        "ta;s/(^|;)([^;\"]*,[^;\"]*)/\\1\"\\2\"/g;s/;/,/g' FILE > NEW)");
    expect_refused("a\tb\tstate\n", "has tabs between its fields");
    expect_refused("1,5;2,5;ok\n", "has semicolons between its fields");
    expect_refused("a,state\n", "R's write.table");
    expect_refused("\"a\";\"b\"\n", "semicolons seem to separate the fields");
    expect_refused("\"a\"\t\"b\"\n", "tabs seem to separate the fields");
    expect_refused("a\t\"b\"\n", "tabs seem to separate the fields");
    expect_refused("\"a\"|\"b\"\n", "bars seem to separate the fields");
    expect_refused("a;\"b\"\n", "semicolons seem to separate the fields");
    expect_refused("x;y\ta\t\"b\"\n", "tabs seem to separate the fields");
    expect_refused("a,b\xe4,state\n", "line 1, field 2, byte 2: 0xE4 is not UTF-8 text");
    expect_refused("a,\xed\xa0\x80,state\n", "is not UTF-8 text");
    expect_refused("\xff\xfe", "is UTF-16 text; convert it: iconv -f utf-16");
    snprintf(text, sizeof text, "a,b,state\n1,2,ok,\n2,3,worn,\n");
    assert_int_not_equal(read_text(), TERN_OK);
    assert_non_null(strstr(why, "lines end with a comma"));
    snprintf(text, sizeof text, "a,b,state\n1,2,3,4,ok\n2,3,5,6,worn\n");
    assert_int_not_equal(read_text(), TERN_OK);
    assert_non_null(strstr(why, "decimals written with commas"));
}

// A row of line 7, behind a header.
static void expect_said(const char *row, bool problem, const char *part)
{
    write_rows("a,b,state\n", 7, row);
    assert_int_equal(read_text(), TERN_OK);
    if ((problems > 0) != problem ||
        (part[0] == '\0' ? said[0] != '\0' : strstr(said, part) == NULL)) {
        fail_msg("'%s': %s, not %s", row, said, part);
    }
}

TABLE(missing_values_are_counted_in_every_spelling)
{
    static const char *const spellings[] = {
        "",     "NA",   "n/a",   "N/A",    "#N/A",       "NaN",   "nan",    "null",
        "NULL", "?",    " ",     "\t",     "<NA>",       "\"\"",  "\"NA\"", "(null)",
        "N A",  "n.a.", "[nan]", "\u00a0", "\"\u202f\"", "\ufeff"};
    char row[64];
    for (size_t i = 0; i < sizeof spellings / sizeof spellings[0]; i++) {
        snprintf(row, sizeof row, "1.5,31,%s", spellings[i]);
        expect_said(row, true, "!line 7, column 'state': the label is missing");
        assert_int_equal(profile.labels.count, 2);
        snprintf(row, sizeof row, "1.5,%s,ok", spellings[i]);
        expect_said(row, false, "?1 value in 1 column is missing, the first in line 7, column 'b'");
        choice.missing = TERN_CSV_MISSING_REFUSE;
        expect_said(row, true, "!line 7, column 'b': the value is missing");
        choice.missing = TERN_CSV_MISSING_SKIP;
        expect_said(row, false, "?1 of 40 rows lack a value, the first in line 7");
        choice.missing = TERN_CSV_MISSING_MEAN;
    }
    choice.classes = "NA|ok|worn"; // which says that it is a class, of countries say
    expect_said("1.5,31,NA", false, "");
    choice.classes = "none|ok|worn";
    expect_said("1.5,31,none", false, "");
    choice.classes = "ok|worn"; // which says that these are none
    expect_said("1.5,31,none", true, "!line 7, column 'state': the label is missing ('none')");
    expect_said("1.5,31,-999", true, "!line 7, column 'state': the label is missing ('-999')");
    choice.classes = "ok|*";
    expect_said("1.5,31,broken", false, "");
    expect_said("1.5,31,OK", true, "classes=ok|*; write it as 'ok'");
    choice.classes = "ok|worn";
    expect_said("1.5,none,ok", false, "?1 value in 1 column is missing");
}

TABLE(what_is_no_number_is_named_with_its_place)
{
    static const char *const texts[] = {"<0.5", "err", "inf", "1e99", "0x10", "12 ms"};
    char row[64];
    char part[96];
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        snprintf(row, sizeof row, "1.5,%s,ok", texts[i]);
        snprintf(part, sizeof part, "!line 7, column 'b': '%s' is not a finite number (1 of its 40",
                 texts[i]);
        expect_said(row, true, part);
    }
    expect_said("1.5,\"1,5\",ok", true, "'1,5' is not a finite number (decimals have points)");
    expect_said("1.5,1e30,ok", true, "is a mark of a missing value");
    expect_said(" 1.5 ,\t31 , ok ", false, "");
    expect_said("1.5,31,\"ok \"", true, "the label 'ok ' (1 row) is not one of those in classes=");
    choice = (struct tern_csv_choice){.label = "b", .numeric = true, .drop = "state"};
    expect_said("1.5,<0.5,ok", true,
                "the target '<0.5' is not a finite number (1 of its 40 values): correct the lines, "
                "or remove");
    assert_null(strstr(said, "drop="));
    expect_said("1.5,?,ok", true, "the target is missing ('?') (1 of 40 rows)");
}

TABLE(labels_that_differ_by_case_or_blanks_are_named)
{
    choice.classes = "ok|worn|OK|o k|1|1.0";
    expect_said("1.5,31,OK", false,
                "?column 'state': the labels 'ok' (20 rows) and 'OK' (1 row) differ only in");
    expect_said("1.5,31,o k", false, "differ only in");
    expect_said("1.5,31,ok ", false, "");
}

TABLE(lines_that_are_no_rows_are_left_out)
{
    expect_said("a,b,state", false, "?line 7 is the header line again");
    assert_int_equal(profile.rows, ROWS - 1);
    expect_said(",,", false, "?line 7 is without any value");
    assert_int_equal(profile.rows, ROWS - 1);
    expect_said("\n\n", false,
                "?line 7 is without any value, not a row, and is skipped (3 such lines)");
    strcat(text, "\n\n"); // at the end of a file such lines shift no row
    assert_int_equal(read_text(), TERN_OK);
    assert_int_equal(profile.skipped[TERN_CSV_EMPTY - 1].count, 3);
    expect_said("1,2", true, "!line 7 has 2 fields, the first line 3");
}

TABLE(columns_are_given_by_lists_and_once)
{
    choice.drop = "a,b";
    write_rows("a,b,state\n", 0, "");
    assert_int_equal(read_text(), TERN_ERR_CORRUPT); // none is left
    choice.drop = "a,c";
    assert_int_equal(read_text(), TERN_ERR_NOT_FOUND);
    choice = (struct tern_csv_choice){.label = "b", .numeric = true};
    write_rows("b,b,state\n", 0, "");
    assert_int_equal(read_text(), TERN_ERR_CONFIG);
    assert_non_null(strstr(why, "has two columns 'b', number 0 and 1"));
    choice = (struct tern_csv_choice){.label = "state", .header = TERN_CSV_HEADER_NO};
    assert_int_equal(read_text(), TERN_ERR_CONFIG);
    assert_non_null(strstr(why, "header=no"));
}

// Writes four columns below the line: fractions, and whole numbers of different ranges.
static void write_four(const char *head)
{
    size_t used = (size_t)snprintf(text, sizeof text, "%s\n", head);
    for (int i = 0; i < ROWS; i++) {
        used += (size_t)snprintf(text + used, sizeof text - used, "%d.5,%d,%d,%d\n", i * 7 % 5,
                                 i % 9, 30 + i % 7, i % 2);
    }
}

TABLE(a_name_goes_before_the_number_of_a_column)
{
    static const struct {
        const char *head;
        const char *label;
        const char *drop;
        uint32_t column;
        const char *said; // in the judgement, where the text can be read in two ways
    } cases[] = {
        {"1,2,3,4", "4", NULL, 3, ""}, // no column has this number
        {"1,2,3,4", "1", NULL, 0, "'1' is the name of column number 0, counted from 0"},
        {"1,2,3,4", "-1", NULL, 3, ""},
        {"1,2,3,4", "0", NULL, 0, ""},
        {"0,1,2,3", "2", NULL, 2, ""}, // the name and the number are one column
        {"4,3,y,2", "2", "y", 3, "'2' is the name"},
        {"4,3,2,y", "3", "4|y", 1, "'3' is the name"},
        {"a,-1,2,y", "-1", "a", 1, "'-1' is the name"},
        {"a,b,c,y", "3", NULL, 3, ""},
        {"2019,2020,2021,state", "2021", NULL, 2,
         ""}, // without the label, the header is asked about
        {"10,20,90,40", "40", NULL, 3, ""},
        {"7,5,31,1", "3", NULL, 3, ""}, // a row
        {"7,5,31,1", "1", NULL, 1, ""}, // a row, whose value 1 is no name
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        choice = (struct tern_csv_choice){
            .label = cases[i].label, .drop = cases[i].drop, .numeric = true};
        write_four(cases[i].head);
        if (read_text() != TERN_OK || profile.columns.label != cases[i].column) {
            fail_msg("%s: label %s is column %u; %s", cases[i].head, cases[i].label,
                     profile.columns.label, why);
        }
        assert_true(cases[i].said[0] != '\0' ? strstr(said, cases[i].said) != NULL
                                             : strstr(said, "is the name") == NULL);
    }
    choice = (struct tern_csv_choice){.label = "31", .numeric = true};
    write_four("7,5,31,1");
    assert_int_equal(read_text(), TERN_ERR_NOT_FOUND);
    assert_non_null(strstr(why, "no column '31': line 1 is a row"));
    choice.header = TERN_CSV_HEADER_YES;
    assert_int_equal(read_text(), TERN_OK);
    assert_int_equal(profile.columns.label, 2);
    choice = (struct tern_csv_choice){.label = "2", .numeric = true};
    write_four("1,2,2,y");
    choice.header = TERN_CSV_HEADER_YES;
    assert_int_equal(read_text(), TERN_ERR_CONFIG);
    assert_non_null(strstr(why, "has two columns '2', number 1 and 2 from 0: rename one"));
}

TABLE(the_name_for_a_setting_finds_its_column)
{
    static const char *const heads[] = {"1,2,3,4", "a,b,c,y", "a,a,1,2", "1,1,0,-4", "x|y,,2, ;"};
    char name[TERN_CSV_NAME_MAX];
    char number[16];
    for (size_t h = 0; h < sizeof heads / sizeof heads[0]; h++) {
        for (uint32_t c = 0; c < 4; c++) {
            choice = (struct tern_csv_choice){.numeric = true, .header = TERN_CSV_HEADER_YES};
            write_four(heads[h]);
            assert_int_equal(read_text(), TERN_OK);
            snprintf(name, sizeof name, "%s", tern_csv_setting_name(&profile, c, number));
            choice.label = name;
            assert_int_equal(read_text(), TERN_OK);
            if (profile.columns.label != c) {
                fail_msg("%s: '%s' is column %u, not %u", heads[h], name, profile.columns.label, c);
            }
        }
    }
}

TABLE(marks_of_missing_values_are_named)
{
    size_t used = (size_t)snprintf(text, sizeof text, "a,b,state\n");
    for (int i = 0; i < ROWS; i++) {
        used += (size_t)snprintf(text + used, sizeof text - used, "%d.%d,%d,%s\n",
                                 i % 9 == 0 ? -999 : i * 7 % 5, i % 9 == 0 ? 0 : i % 8,
                                 30 + i * 11 % 7, i % 2 == 0 ? "ok" : "worn");
    }
    assert_int_equal(read_text(), TERN_OK);
    assert_non_null(
        strstr(said, "?line 2, column 'a': -999, in 5 rows, is far from all other values"));
}

// --- Values far beyond all others

static double uniform(void)
{
    static uint64_t random = 88172645463325252u;
    random ^= random << 13;
    random ^= random >> 7;
    random ^= random << 17;
    return ((double)(random >> 11) + 0.5) / 9007199254740992.0;
}

static double normal(void)
{
    return sqrt(-2 * log(uniform())) * cos(6.283185307179586 * uniform());
}

static double around_20(void)
{
    return 20 + 5 * normal();
}

static double exponential(void)
{
    return -log(uniform());
}

static double lognormal(void)
{
    return exp(1.5 * normal());
}

static double below_0(void)
{
    return -lognormal();
}

static double counted(void)
{
    return floor(20 * exponential());
}

static double two_peaks(void)
{
    return (uniform() < 0.5 ? 0 : 1000) + normal();
}

static double seldom_high(void)
{
    return (uniform() < 0.2 ? 1000 : 0) + normal();
}

static double often_off(void)
{
    return uniform() < 0.2 ? 0 : 1000 + normal();
}

static int compare(const void *a, const void *b)
{
    const double first = *(const double *)a;
    const double second = *(const double *)b;
    return (first > second) - (first < second);
}

// A column x of such values, some of them replaced, and another.
static void write_column(double (*draw)(void), uint32_t rows, bool sorted,
                         const char *const *instead)
{
    static double values[5000];
    size_t used = (size_t)snprintf(text, sizeof text, "x,y\n");
    for (uint32_t i = 0; i < rows; i++) {
        values[i] = draw();
    }
    if (sorted) {
        qsort(values, rows, sizeof values[0], compare);
    }
    for (uint32_t i = 0; i < rows; i++) {
        used +=
            instead != NULL && i >= 15 && *instead != NULL
                ? (size_t)snprintf(text + used, sizeof text - used, "%s,%u\n", *instead++, i % 2)
                : (size_t)snprintf(text + used, sizeof text - used, "%.7g,%u\n", values[i], i % 2);
    }
}

TABLE(skewed_and_split_columns_have_no_value_far_beyond_the_others)
{
    double (*const draws[])(void) = {uniform, around_20, exponential, lognormal, below_0,
                                     counted, two_peaks, seldom_high, often_off};
    static const uint32_t rows[] = {40, 400, 400, 400, 5000};
    choice.classes = NULL;
    for (size_t d = 0; d < sizeof draws / sizeof draws[0]; d++) {
        for (size_t r = 0; r < 2 * sizeof rows / sizeof rows[0]; r++) {
            write_column(draws[d], rows[r / 2], r % 2 == 1, NULL);
            assert_int_equal(read_text(), TERN_OK);
            if (strstr(said, "is far from") != NULL) {
                fail_msg("draw %zu, %u rows: %s", d, (unsigned)rows[r / 2], said);
            }
        }
    }
}

TABLE(values_far_beyond_the_others_are_named)
{
    static const struct {
        const char *instead[4];
        const char *says;
    } cases[] = {
        {{"1e9"}, "?line 17, column 'x': 1e+09, in 1 row, is far from all other values, which"},
        {{"9999"}, "?line 17, column 'x': 9999, in 1 row, is far"},
        {{"-1e7"}, "?line 17, column 'x': -10000000, in 1 row, is far"},
        {{"65535", "65535", "65535"}, "?line 17, column 'x': 65535, in 3 rows, is far"},
        {{"1e6", "3e6"},
         "?line 18, column 'x': 3000000, in 1 row, is far from all other values, and so is 1 more"},
    };
    double (*const draws[])(void) = {uniform, around_20, counted};
    for (size_t i = 0; i < 2 * 3 * sizeof cases / sizeof cases[0]; i++) {
        const bool target = i % 2 == 1;
        choice = (struct tern_csv_choice){.label = target ? "x" : NULL, .numeric = target};
        write_column(draws[i / 2 % 3], 400, false, cases[i / 6].instead);
        assert_int_equal(read_text(), TERN_OK);
        if (strstr(said, cases[i / 6].says) == NULL) {
            fail_msg("draw %zu, not '%s': %s", i / 2 % 3, cases[i / 6].says, said);
        }
        assert_int_equal(problems, 0);
    }
}

// Answers what a sample with these labels in the first, the last and two other rows is asked about, "" nothing.
static const char *ask_about(const char *first, const char *last, const char *others)
{
    static char asked[512];
    size_t used = (size_t)snprintf(text, sizeof text, "a,state\n");
    for (uint32_t i = 0; i < ROWS; i++) {
        const char *usual = i % 2 == 0 ? "ok" : "worn";
        const char *label = i == 0 ? first : i == ROWS - 1 ? last : i % 15 == 7 ? others : usual;
        used += (size_t)snprintf(text + used, sizeof text - used, "%u,%s\n", i * 7 % 13,
                                 label != NULL ? label : usual);
    }
    choice = (struct tern_csv_choice){.label = "state"};
    assert_int_equal(read_text(), TERN_OK);
    asked[0] = '\0';
    (void)tern_csv_ask_labels(&profile, "f.csv", NULL, asked, sizeof asked);
    return asked;
}

TABLE(labels_that_may_be_none_are_asked_about)
{
    static const char *const words[] = {"-",      "none",   ".",    "missing", "Unknown",
                                        "--",     "\u2014", "-999", "0",       "not available",
                                        "(none)", "n.d.",   "??",   "tbd"};
    for (size_t w = 0; w < sizeof words / sizeof words[0]; w++) {
        const char *asked = ask_about(NULL, NULL, words[w]);
        if (strstr(asked, "line 9, column 'state'") == NULL ||
            strstr(asked, "a missing label: list the classes") == NULL ||
            strstr(asked, words[w]) == NULL || strstr(asked, "ok") == NULL) {
            fail_msg("'%s': '%s'", words[w], asked);
        }
    }
    assert_non_null(
        strstr(ask_about("label", NULL, NULL), "line 2, column 'state': the label 'label'"));
    assert_non_null(
        strstr(ask_about(NULL, "Total", NULL), "line 41, column 'state': the label 'Total'"));
    assert_non_null(strstr(ask_about(NULL, NULL, "subtotal"), "(units, a total)"));
    assert_non_null(strstr(ask_about("[-]", NULL, NULL), "(units, a total)"));
    assert_non_null(strstr(ask_about(NULL, "-513.1798", NULL), "(units, a total)"));
    assert_non_null(strstr(ask_about(NULL, "-999", NULL), "a missing label"));
    assert_non_null(strstr(ask_about(NULL, "-", NULL), "a missing label"));
    assert_string_equal(ask_about(NULL, NULL, "broken"), "");
    assert_string_equal(ask_about(NULL, NULL, "+"), "");
    assert_string_equal(ask_about("broken", "broken", NULL), "");
    assert_non_null(strstr(ask_about(NULL, NULL, "-"), "'worn|ok'"));
    assert_string_equal(ask_about("-", "-", "+"), "");
}

TABLE(text_columns_that_may_be_the_label_are_named)
{
    static const char *const texts[][3] = {{"ok", "worn", "ok"}, {"ok", "worn", "dry"}};
    char hint[TERN_CSV_SENTENCE_MAX];
    for (size_t t = 0; t < 2; t++) {
        size_t used = (size_t)snprintf(text, sizeof text, "state,b,x\n");
        for (uint32_t i = 0; i < ROWS; i++) {
            used += (size_t)snprintf(text + used, sizeof text - used, "%s,%u,%u.5\n",
                                     texts[t][i % 3], i * 7 % 11, i * 5 % 37);
        }
        choice = (struct tern_csv_choice){0};
        assert_int_equal(read_text(), TERN_OK);
        assert_true(tern_csv_hint_label(&profile, hint, sizeof hint));
        assert_non_null(strstr(hint, "predict the last column, 'x'"));
        assert_non_null(strstr(hint, "use --label state"));
        assert_string_equal(
            tern_csv_why_useless(&profile, &profile.column[0]),
            t == 0 ? "its values are two different texts (write 0 and 1 to learn from it)"
                   : "most of its values are texts");
        choice = (struct tern_csv_choice){.label = "state"};
        assert_int_equal(read_text(), TERN_OK);
        assert_false(tern_csv_hint_label(&profile, hint, sizeof hint));
    }
}

TABLE(columns_named_as_a_label_are_named)
{
    static const struct {
        const char *head;
        const char *hint; // NULL: none
    } cases[] = {{"Class,b,x\n", "to predict 'Class', use --label Class"},
                 {"a,target,x\n", "to predict 'target', use --label target"},
                 {"a,b,x\n", NULL},
                 {"class,b,label\n", NULL}};
    for (size_t t = 0; t < sizeof cases / sizeof cases[0]; t++) {
        char hint[TERN_CSV_SENTENCE_MAX] = "";
        size_t used = (size_t)snprintf(text, sizeof text, "%s", cases[t].head);
        for (uint32_t i = 0; i < ROWS; i++) {
            used += (size_t)snprintf(text + used, sizeof text - used, "%u,%u,%u.5\n", i % 3,
                                     i * 7 % 11, i * 5 % 37);
        }
        choice = (struct tern_csv_choice){0};
        assert_int_equal(read_text(), TERN_OK);
        assert_true(tern_csv_hint_label(&profile, hint, sizeof hint) == (cases[t].hint != NULL));
        assert_true(cases[t].hint == NULL || strstr(hint, cases[t].hint) != NULL);
    }
    assert_false(tern_csv_is_like_number("31.12.2024"));
    assert_false(tern_csv_is_like_number("1.3.24 12:00"));
    assert_true(tern_csv_is_like_number("1.234.567"));
    assert_true(tern_csv_is_like_number("\u20ac12.50") && tern_csv_is_like_number("12.50 $"));
}

TABLE(words_for_one_and_zero_are_numbers_in_a_column_of_them)
{
    static const char *const pairs[][2] = {{"true", "false"}, {"YES", "NO"}, {"On", "Off"},
                                           {"T", "F"},        {"y", "n"},    {"True", "0"}};
    for (size_t p = 0; p < sizeof pairs / sizeof pairs[0]; p++) {
        size_t used = (size_t)snprintf(text, sizeof text, "on,state\n");
        for (uint32_t i = 0; i < ROWS; i++) {
            used +=
                (size_t)snprintf(text + used, sizeof text - used, "%s,%s\n",
                                 i == 5 ? "NA" : pairs[p][i % 4 == 0], i % 2 == 0 ? "ok" : "worn");
        }
        assert_int_equal(read_text(), TERN_OK);
        const struct tern_csv_column *column = &profile.column[0];
        float value;
        assert_true(profile.columns.header && tern_csv_has_flags(column));
        assert_int_equal(column->numbers, ROWS - 1);
        assert_float_equal(column->mean, 29.0 / 39, 1e-9);
        assert_float_equal(column->deviation, sqrt(29.0 * 10) / 39, 1e-9);
        assert_null(tern_csv_why_useless(&profile, column));
        assert_true(tern_csv_read_value(column, pairs[p][0], &value) && value > 0.5F);
        assert_true(tern_csv_read_value(column, pairs[p][1], &value) && value < 0.5F);
        assert_int_equal(problems, 0);
    }
    expect_said("1.5,yes,ok", true, "!line 7, column 'b': 'yes' is not a finite number");
    strcat(strcpy(text, "on,state\nno,ok\nyes,worn\n"), "maybe,ok\nno,worn\n");
    assert_int_equal(read_text(), TERN_OK);
    assert_non_null(
        strstr(said, "!line 4, column 'on': 'maybe' is not a finite number (4 of its 4"));
}

TABLE(numbers_with_other_signs_and_blanks_are_read)
{
    static const char *const numbers[] = {"\u00a031",    "31\u202f", "\u221231",
                                          "\u201331",    "\u300031", "\"\u00a031\u2007\"",
                                          "3.1e\u22121", "\ufeff31"};
    char row[64];
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        snprintf(row, sizeof row, "1.5,%s,ok", numbers[i]);
        expect_said(row, false, "");
        assert_int_equal(profile.column[1].numbers, ROWS);
        assert_true(profile.column[1].low == (strstr(numbers[i], "\u2212") == numbers[i] ||
                                                      strstr(numbers[i], "\u2013") == numbers[i]
                                                  ? -31
                                              : strchr(numbers[i], 'e') != NULL ? 0.31
                                                                                : 30));
    }
    static const char *const grouped[] = {"1\u2009234", "1\u202f234.5", "12'345", "1\u2019234",
                                          "1 234"};
    for (size_t i = 0; i < sizeof grouped / sizeof grouped[0]; i++) {
        snprintf(row, sizeof row, "1.5,%s,ok", grouped[i]);
        expect_said(row, true,
                    "is not a finite number (write 1234.5 without blanks or marks in it)");
    }
}

TABLE(texts_are_the_same_without_case_blanks_and_dashes)
{
    static const char *const same[][2] = {{"GRÜN", "grün"},
                                          {"gru\u0308n", "grün"},
                                          {"GRU\u0308N", "grün"},
                                          {"c\u030cerne\u0301", "černé"},
                                          {"ŠKODA", "škoda"},
                                          {"ΑΘΗΝΑ", "αθηνα"},
                                          {"ΟΔΟΣ", "οδος"},
                                          {"ДА", "да"},
                                          {"Ёлка", "ёлка"},
                                          {"WEISS", "weiß"},
                                          {"ok\u00a0", "ok"},
                                          {"very\u202fhigh", "very high"},
                                          {"very high", "very_high"},
                                          {"very-high", "Very High"},
                                          {"A\u20131", "A-1"},
                                          {"\uff2f\uff2b", "ok"},
                                          {"o\u200bk", "ok"},
                                          {"1", "1.0"},
                                          {"ŸES", "ÿes"}};
    static const char *const other[][2] = {
        {"grün", "grun"}, {"gru\u0308n", "grun"}, {"A", "A-"}, {"+", "-"}, {"1", "-1"},
        {"×", "÷"},       {"да", "нет"}};
    for (size_t i = 0; i < sizeof same / sizeof same[0]; i++) {
        if (!tern_csv_is_variant(same[i][0], same[i][1])) {
            fail_msg("'%s' and '%s' are two", same[i][0], same[i][1]);
        }
    }
    for (size_t i = 0; i < sizeof other / sizeof other[0]; i++) {
        if (tern_csv_is_variant(other[i][0], other[i][1])) {
            fail_msg("'%s' and '%s' are one", other[i][0], other[i][1]);
        }
    }
}
