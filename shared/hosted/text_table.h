// A table of texts for people: columns as wide as their cells. On a terminal, columns that may be cut
// are cut until a line fits; a file or a pipe gets every cell whole. Hosted: uses malloc and stdio;
// reentrant.
//
//   static const struct tern_text_column columns[] = {{"ID", TERN_TEXT_NUMBER},
//                                                     {"NAME", TERN_TEXT_LONG}};
//   struct tern_text_table table = TERN_TEXT_TABLE(columns);
//   tern_text_cell(&table, "%u", 7);
//   tern_text_cell(&table, "%s", name);
//   result = tern_text_table_print(&table, stdout);
#ifndef TERN_TEXT_TABLE_H
#define TERN_TEXT_TABLE_H

#include "hosted/terminal.h"
#include "result.h"
#include <stddef.h>
#include <stdio.h>

enum tern_text_kind {
    TERN_TEXT_WORD,
    TERN_TEXT_NUMBER, // stands on the right of its column
    TERN_TEXT_LONG,   // may be cut on a terminal
    TERN_TEXT_NOTE, // likewise; as the last column it is left out where no cell says more than "-"
};

struct tern_text_column {
    const char *heading;
    enum tern_text_kind kind;
};

struct tern_text_table {
    const struct tern_text_column *columns;
    size_t column_count;
    char *cells; // each its colour, its text and a NUL; malloc'ed
    size_t len;
    size_t room;
    size_t cell_count;
    size_t shown; // columns that are laid out
    bool failed;  // there was no memory
};

// A table without rows.
#define TERN_TEXT_TABLE(columns) TERN_TEXT_TABLE_OF(columns, sizeof(columns) / sizeof((columns)[0]))
#define TERN_TEXT_TABLE_OF(columns, count)                                                         \
    {                                                                                              \
        columns, count, NULL, 0, 0, 0, 0, false                                                    \
    }

// Adds the next cell, row by row. The text is UTF-8 that a terminal may have (util/utf8.h), at most 255 bytes
// of it are kept. Where there is no memory, printing says so.
void tern_text_cell(struct tern_text_table *table, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void tern_text_cell_in(struct tern_text_table *table, enum tern_colour colour, const char *format,
                       ...) __attribute__((format(printf, 3, 4)));

// Writes the headings and the rows that are whole, and gives the memory back: the table is empty then.
// TERN_ERR_NO_MEMORY: nothing was written
TERN_MUST_USE enum tern_result tern_text_table_print(struct tern_text_table *table, FILE *out);

// As that, for a terminal of `width` columns, 0 = no terminal.
TERN_MUST_USE enum tern_result tern_text_table_lay_out(struct tern_text_table *table,
                                                       unsigned width, bool coloured, FILE *out);

void tern_text_table_free(struct tern_text_table *table);

#endif
