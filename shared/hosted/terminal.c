#include "hosted/terminal.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

unsigned tern_terminal_width(int fd)
{
    struct winsize size;
    if (!isatty(fd)) {
        return 0;
    }
    // A terminal on a serial line often reports no size.
    return ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

bool tern_terminal_has_colours(int fd)
{
    const char *refused = getenv("NO_COLOR");
    const char *kind = getenv("TERM");
    return (refused == NULL || refused[0] == '\0') && kind != NULL && strcmp(kind, "dumb") != 0 &&
           isatty(fd);
}

const char *tern_terminal_colour(enum tern_colour colour)
{
    switch (colour) {
    case TERN_COLOUR_HEADING:
        return "\x1b[1m";
    case TERN_COLOUR_GOOD:
        return "\x1b[32m";
    case TERN_COLOUR_WARNING:
        return "\x1b[33m";
    case TERN_COLOUR_BAD:
        return "\x1b[31m";
    case TERN_COLOUR_NONE:
    default:
        return "";
    }
}

// --- Tables

#define CELL_MAX 256
#define GAP 2
#define CUT_LEAST 8 // characters; no column is cut to fewer

// --- Cells

static bool make_room(struct tern_text_table *table, size_t more)
{
    if (table->len + more <= table->room) {
        return true;
    }
    const size_t room = 2 * (table->room + more);
    char *cells = realloc(table->cells, room);
    if (cells == NULL) {
        table->failed = true;
        return false;
    }
    table->cells = cells;
    table->room = room;
    return true;
}

static void add(struct tern_text_table *table, enum tern_colour colour, const char *text)
{
    const size_t size = strlen(text) + 1;
    if (table->failed || !make_room(table, 1 + size)) {
        return;
    }
    table->cells[table->len] = (char)colour;
    memcpy(table->cells + table->len + 1, text, size);
    table->len += 1 + size;
    table->cell_count++;
}

void tern_text_cell(struct tern_text_table *table, const char *format, ...)
{
    char text[CELL_MAX];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    add(table, TERN_COLOUR_NONE, text);
}

void tern_text_cell_in(struct tern_text_table *table, enum tern_colour colour, const char *format,
                       ...)
{
    char text[CELL_MAX];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    add(table, colour, text);
}

// --- Widths

static bool begins_character(char byte)
{
    return ((uint8_t)byte & 0xC0u) != 0x80u;
}

static size_t width_of(const char *text)
{
    size_t width = 0;
    for (; *text != '\0'; text++) {
        width += begins_character(*text) ? 1u : 0u;
    }
    return width;
}

// Sets each column's width to that of its widest cell or its heading.
static void measure(struct tern_text_table *table, size_t widths[])
{
    const char *cell = table->cells;
    for (size_t i = 0; i < table->cell_count; i++) {
        const size_t width = width_of(cell + 1);
        size_t *widest = &widths[i % table->column_count];
        *widest = width > *widest ? width : *widest;
        cell += 1 + strlen(cell + 1) + 1;
    }
    const size_t last = table->column_count - 1;
    const bool says_nothing = table->columns[last].kind == TERN_TEXT_NOTE && widths[last] <= 1;
    table->shown = table->column_count - says_nothing;
    for (size_t c = 0; c < table->shown; c++) {
        const size_t heading = width_of(table->columns[c].heading);
        widths[c] = heading > widths[c] ? heading : widths[c];
    }
}

static size_t line_of(const struct tern_text_table *table, const size_t widths[])
{
    size_t line = GAP * (table->shown - 1);
    for (size_t c = 0; c < table->shown; c++) {
        line += widths[c];
    }
    return line;
}

static bool may_be_cut(const struct tern_text_column *column)
{
    return column->kind == TERN_TEXT_LONG || column->kind == TERN_TEXT_NOTE;
}

// Reduces the widest column that may be cut, one character at a time, until a line fits or no
// column can be cut further.
static void fit(const struct tern_text_table *table, size_t line, size_t widths[])
{
    for (size_t over = line_of(table, widths); over > line; over--) {
        size_t *widest = NULL;
        for (size_t c = 0; c < table->shown; c++) {
            if (may_be_cut(&table->columns[c]) && widths[c] > CUT_LEAST &&
                (widest == NULL || widths[c] > *widest)) {
                widest = &widths[c];
            }
        }
        if (widest == NULL) {
            return;
        }
        --*widest;
    }
}

// --- Lines

// Writes at most `width` characters; if the text is longer, the last one is an ellipsis.
static void write_cut(const char *text, size_t width, FILE *out)
{
    if (width_of(text) <= width) {
        fputs(text, out);
        return;
    }
    size_t left = width - 1;
    size_t len = 0;
    for (; left > 0; len++) {
        left -= begins_character(text[len + 1]) ? 1u : 0u;
    }
    fprintf(out, "%.*s\xe2\x80\xa6", (int)len, text);
}

static void write_spaces(size_t count, FILE *out)
{
    for (; count > 0; count--) {
        fputc(' ', out);
    }
}

// Writes a cell, padded to `width`, and the gap before the next column or a newline.
static void write_cell(const struct tern_text_table *table, size_t column, size_t width,
                       const char *colour, const char *text, FILE *out)
{
    if (column >= table->shown) {
        return;
    }
    const size_t own = width_of(text);
    const size_t blank = own < width ? width - own : 0;
    const bool last = column + 1 == table->shown;
    const bool right = table->columns[column].kind == TERN_TEXT_NUMBER;
    write_spaces(right ? blank : 0, out);
    fputs(colour, out);
    write_cut(text, width, out);
    fputs(colour[0] != '\0' ? TERN_TERMINAL_PLAIN : "", out);
    write_spaces(right || last ? 0 : blank, out);
    if (last) {
        fputc('\n', out);
    } else {
        write_spaces(GAP, out);
    }
}

enum tern_result tern_text_table_lay_out(struct tern_text_table *table, unsigned width,
                                         bool coloured, FILE *out)
{
    size_t *widths = table->failed ? NULL : calloc(table->column_count, sizeof *widths);
    if (widths == NULL) {
        tern_text_table_free(table);
        return TERN_ERR_NO_MEMORY;
    }
    measure(table, widths);
    fit(table, width > 0 ? width : SIZE_MAX, widths);
    for (size_t c = 0; c < table->column_count; c++) {
        write_cell(table, c, widths[c], coloured ? tern_terminal_colour(TERN_COLOUR_HEADING) : "",
                   table->columns[c].heading, out);
    }
    const char *cell = table->cells;
    for (size_t i = 0; i < table->cell_count - table->cell_count % table->column_count; i++) {
        const size_t column = i % table->column_count;
        write_cell(table, column, widths[column],
                   coloured ? tern_terminal_colour((enum tern_colour)cell[0]) : "", cell + 1, out);
        cell += 1 + strlen(cell + 1) + 1;
    }
    free(widths);
    tern_text_table_free(table);
    return TERN_OK;
}

enum tern_result tern_text_table_print(struct tern_text_table *table, FILE *out)
{
    const int fd = fileno(out);
    return tern_text_table_lay_out(table, tern_terminal_width(fd), tern_terminal_has_colours(fd),
                                   out);
}

void tern_text_table_free(struct tern_text_table *table)
{
    free(table->cells);
    table->cells = NULL;
    table->len = table->room = table->cell_count = 0;
    table->failed = false;
}

// --- Paragraphs

void tern_paragraph_print(const char *text, const char *first, const char *rest, size_t columns,
                          FILE *out)
{
    size_t column = strlen(first);
    fputs(first, out);
    for (const char *gap = ""; *text != '\0'; gap = " ") {
        const size_t word = strcspn(text, " ");
        if (*gap != '\0' && column + 1 + word > columns) {
            fprintf(out, "\n%s", rest);
            column = strlen(rest);
            gap = "";
        }
        fprintf(out, "%s%.*s", gap, (int)word, text);
        column += strlen(gap) + word;
        text += word;
        text += strspn(text, " ");
    }
    fputc('\n', out);
}
