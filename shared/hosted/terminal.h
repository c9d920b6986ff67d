// Text for people on a terminal or in a file: colours, tables, paragraphs and short numbers. Uses malloc and stdio;
// reentrant.
#ifndef TERN_HOSTED_TERMINAL_H
#define TERN_HOSTED_TERMINAL_H

#include "result.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

// --- The terminal

enum tern_colour {
    TERN_COLOUR_NONE,
    TERN_COLOUR_HEADING,
    TERN_COLOUR_GOOD,
    TERN_COLOUR_WARNING,
    TERN_COLOUR_BAD,
};

// Returns the columns of the terminal behind fd; 0: fd is a file or pipe, whose lines have no limit.
unsigned tern_terminal_width(int fd);

// Returns true if fd is a terminal that shows colours. False for TERM=dumb and a NO_COLOR that is
// not empty (no-color.org).
bool tern_terminal_has_colours(int fd);

// Returns the escape sequence that starts a colour; "" for TERN_COLOUR_NONE. TERN_TERMINAL_PLAIN ends all of them.
const char *tern_terminal_colour(enum tern_colour colour);
#define TERN_TERMINAL_PLAIN "\x1b[0m"

// --- Tables

// Columns are as wide as their cells. On a terminal, columns that may be cut are cut until a line fits; a file or a
// pipe gets every cell whole.
//
//   static const struct tern_text_column columns[] = {{"ID", TERN_TEXT_NUMBER},
//                                                     {"NAME", TERN_TEXT_LONG}};
//   struct tern_text_table table = TERN_TEXT_TABLE(columns);
//   tern_text_cell(&table, "%u", 7);
//   tern_text_cell(&table, "%s", name);
//   result = tern_text_table_print(&table, stdout);

enum tern_text_kind {
    TERN_TEXT_WORD,
    TERN_TEXT_NUMBER, // right-aligned
    TERN_TEXT_LONG,   // may be cut on a terminal
    TERN_TEXT_NOTE, // may be cut, and is left out as the last column where every cell is "-" or empty
};

struct tern_text_column {
    const char *heading;
    enum tern_text_kind kind;
};

struct tern_text_table {
    const struct tern_text_column *columns;
    size_t column_count;
    char *cells; // for each cell: a byte of colour, the text and a NUL; malloc'ed
    size_t len;
    size_t room;
    size_t cell_count;
    size_t shown; // columns that are printed
    bool failed;  // memory ran out
};

// A table without rows.
#define TERN_TEXT_TABLE(columns) TERN_TEXT_TABLE_OF(columns, sizeof(columns) / sizeof((columns)[0]))
#define TERN_TEXT_TABLE_OF(columns, count)                                                         \
    {                                                                                              \
        columns, count, NULL, 0, 0, 0, 0, false                                                    \
    }

// Adds the next cell, row by row: printable UTF-8 (util/text.h), cut to 255 bytes. If memory runs
// out, printing returns the error.
void tern_text_cell(struct tern_text_table *table, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void tern_text_cell_in(struct tern_text_table *table, enum tern_colour colour, const char *format,
                       ...) __attribute__((format(printf, 3, 4)));

// Prints the headings and the complete rows, then empties the table and frees its memory. TERN_ERR_NO_MEMORY: nothing
// was printed
TERN_MUST_USE enum tern_result tern_text_table_print(struct tern_text_table *table, FILE *out);

// Like tern_text_table_print(), for a terminal of `width` columns; 0: no terminal.
TERN_MUST_USE enum tern_result tern_text_table_lay_out(struct tern_text_table *table,
                                                       unsigned width, bool coloured, FILE *out);

void tern_text_table_free(struct tern_text_table *table);

// --- Paragraphs

#define TERN_PARAGRAPH_COLUMNS 80

// Prints a text in lines of at most `columns` bytes, broken between words; a longer word has a line of its own. `first`
// starts the first line, `rest` all others. A newline ends the last line.
void tern_paragraph_print(const char *text, const char *first, const char *rest, size_t columns,
                          FILE *out);

// --- Numbers

#define TERN_FLOAT_TEXT 32 // bytes, with the NUL

// Writes the shortest decimal number that reads back as the same float: 0.9, not 0.89999997615814209. Returns text.
static inline const char *tern_float_text(float value, char text[TERN_FLOAT_TEXT])
{
    for (int digits = 6; digits <= 9; digits++) {
        snprintf(text, TERN_FLOAT_TEXT, "%.*g", digits, (double)value);
        if (!(strtof(text, NULL) < value) && !(strtof(text, NULL) > value)) {
            break;
        }
    }
    return text;
}

#endif
