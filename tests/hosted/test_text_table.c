// Tables for people: columns as wide as their cells, cut to a terminal's width where that is allowed.
#include "hosted/terminal.h"
#include "tests/cases.h"
#include <stdlib.h>
#include <string.h>

static const struct tern_text_column columns[] = {
    {"ID", TERN_TEXT_NUMBER}, {"NAME", TERN_TEXT_LONG}, {"STATE", TERN_TEXT_WORD}};

static const char *laid_out(struct tern_text_table *table, unsigned width, bool coloured)
{
    static char text[1024];
    memset(text, 0, sizeof text);
    FILE *out = fmemopen(text, sizeof text, "w");
    assert_non_null(out);
    assert_int_equal(tern_text_table_lay_out(table, width, coloured, out), TERN_OK);
    fclose(out);
    return text;
}

static void fill(struct tern_text_table *table)
{
    tern_text_cell(table, "%d", 7);
    tern_text_cell(table, "%s", "P\xc3\xb8lse, the northern pump");
    tern_text_cell_in(table, TERN_COLOUR_BAD, "%s", "revoked");
    tern_text_cell(table, "%d", 10000);
    tern_text_cell(table, "%s", "b");
    tern_text_cell(table, "%s", "active");
}

CASE(columns_are_as_wide_as_their_cells)
{
    struct tern_text_table table = TERN_TEXT_TABLE(columns);
    fill(&table);
    assert_string_equal(laid_out(&table, 0, false),
                        "   ID  NAME                      STATE\n"
                        "    7  P\xc3\xb8lse, the northern pump  revoked\n"
                        "10000  b                         active\n");
}

CASE(a_last_column_that_says_nothing_is_left_out)
{
    static const struct tern_text_column noted[] = {{"ID", TERN_TEXT_NUMBER},
                                                    {"TAGS", TERN_TEXT_NOTE}};
    struct tern_text_table table = TERN_TEXT_TABLE(noted);
    static const char *const cells[] = {"1", "-", "2", "-"};
    for (size_t i = 0; i < 4; i++) {
        tern_text_cell(&table, "%s", cells[i]);
    }
    assert_string_equal(laid_out(&table, 40, false), "ID\n 1\n 2\n");
    for (size_t i = 0; i < 3; i++) {
        tern_text_cell(&table, "%s", cells[i]);
    }
    tern_text_cell(&table, "%s", "site=oslo");
    assert_string_equal(laid_out(&table, 12, false), "ID  TAGS\n 1  -\n 2  site=os\xe2\x80\xa6\n");
}

CASE(a_terminal_gets_lines_that_fit)
{
    struct tern_text_table table = TERN_TEXT_TABLE(columns);
    fill(&table);
    assert_string_equal(laid_out(&table, 26, false),
                        "   ID  NAME        STATE\n"
                        "    7  P\xc3\xb8lse, th\xe2\x80\xa6  revoked\n"
                        "10000  b           active\n");
    fill(&table);
    // Nothing below eight characters: wider than the terminal then.
    assert_string_equal(laid_out(&table, 5, false), "   ID  NAME      STATE\n"
                                                    "    7  P\xc3\xb8lse, \xe2\x80\xa6  revoked\n"
                                                    "10000  b         active\n");
}

CASE(colours_take_no_place)
{
    struct tern_text_table table = TERN_TEXT_TABLE(columns);
    tern_text_cell(&table, "1");
    tern_text_cell_in(&table, TERN_COLOUR_BAD, "x");
    tern_text_cell(&table, "y");
    assert_string_equal(laid_out(&table, 0, true),
                        "\x1b[1mID\x1b[0m  \x1b[1mNAME\x1b[0m  \x1b[1mSTATE\x1b[0m\n"
                        " 1  \x1b[31mx\x1b[0m     y\n");
}

CASE(a_table_without_rows_has_its_headings)
{
    struct tern_text_table table = TERN_TEXT_TABLE(columns);
    assert_string_equal(laid_out(&table, 80, false), "ID  NAME  STATE\n");
}

CASE(what_is_no_terminal_has_no_width_and_no_colours)
{
    FILE *file = tmpfile();
    assert_non_null(file);
    setenv("TERM", "xterm", 1);
    unsetenv("NO_COLOR");
    assert_int_equal(tern_terminal_width(fileno(file)), 0);
    assert_false(tern_terminal_has_colours(fileno(file)));
    fclose(file);
}
