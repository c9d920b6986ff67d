#include "hosted/csv.h"
#include "hosted/csv_fold.h"
#include "hosted/other_format.h"
#include "util/utf8.h"
#include <stdlib.h>
#include <string.h>

#define PARTED(what)                                                                               \
    what " separate the fields, as it seems: write commas, and decimals with points"
#define END (-1) // of the input, in place of a byte
#define ZERO_BYTE                                                                                  \
    "a zero byte, which CSV text has not: save the table as CSV (UTF-16 text: iconv -f utf-16le "  \
    "-t utf-8, or utf-16be where the first byte is zero)"

void tern_csv_begin(struct tern_csv *csv, struct tern_input *input, uint32_t max_fields)
{
    memset(csv, 0, sizeof *csv);
    csv->input = input;
    csv->max_fields = max_fields;
    csv->next_line = 1;
}

void tern_csv_end(struct tern_csv *csv)
{
    free(csv->text);
    free(csv->starts);
    csv->text = NULL;
    csv->starts = NULL;
}

const char *tern_csv_field(const struct tern_csv *csv, uint32_t index)
{
    return csv->text + csv->starts[index];
}

static enum tern_result refill(struct tern_csv *csv)
{
    csv->at = 0;
    return tern_input_read(csv->input, csv->buffer, sizeof csv->buffer, &csv->have);
}

// The next byte, or END, without taking it.
static enum tern_result peek(struct tern_csv *csv, int *byte)
{
    if (csv->at == csv->have) {
        TERN_TRY(refill(csv));
    }
    *byte = csv->at < csv->have ? csv->buffer[csv->at] : END;
    return TERN_OK;
}

static enum tern_result read_mark(struct tern_csv *csv)
{
    int byte;
    TERN_TRY(peek(csv, &byte));
    if (csv->have >= 3 && memcmp(csv->buffer, "\xEF\xBB\xBF", 3) == 0) {
        csv->at = 3;
    }
    if (csv->have >= 4 && (memcmp(csv->buffer, "\xFF\xFE\0", 4) == 0 ||
                           memcmp(csv->buffer, "\0\0\xFE\xFF", 4) == 0)) {
        return tern_input_refuse(csv->input, TERN_ERR_CORRUPT,
                                 "is UTF-32 text; convert it: iconv -f utf-32 -t utf-8 FILE > NEW");
    }
    if (csv->have >= 2 &&
        (memcmp(csv->buffer, "\xFF\xFE", 2) == 0 || memcmp(csv->buffer, "\xFE\xFF", 2) == 0)) {
        return tern_input_refuse(csv->input, TERN_ERR_CORRUPT,
                                 "is UTF-16 text; convert it: iconv -f utf-16 -t utf-8 FILE > NEW");
    }
    const char *other = tern_other_format(csv->buffer, csv->have);
    if (other != NULL) {
        return tern_input_refuse(csv->input, TERN_ERR_CORRUPT, "%s", other);
    }
    return TERN_OK;
}

// For one more byte.
static enum tern_result make_room(struct tern_csv *csv)
{
    if (csv->text_len == csv->text_room) {
        size_t room = csv->text_room == 0 ? 1024 : csv->text_room * 2;
        if (room > TERN_CSV_MAX_RECORD) {
            return tern_input_refuse(csv->input, TERN_ERR_TOO_LARGE,
                                     "the record of line %llu has more than %u bytes",
                                     (unsigned long long)csv->line, TERN_CSV_MAX_RECORD);
        }
        char *text = realloc(csv->text, room);
        if (text == NULL) {
            return tern_input_refuse(csv->input, TERN_ERR_NO_MEMORY, "no memory for a record");
        }
        csv->text = text;
        csv->text_room = room;
    }
    return TERN_OK;
}

static enum tern_result add_byte(struct tern_csv *csv, int byte)
{
    TERN_TRY(make_room(csv));
    csv->text[csv->text_len++] = (char)byte;
    return TERN_OK;
}

static enum tern_result start_field(struct tern_csv *csv)
{
    if (csv->field_count == csv->max_fields) {
        return tern_input_refuse(csv->input, TERN_ERR_TOO_LARGE,
                                 "line %llu has more than %u fields, the limit",
                                 (unsigned long long)csv->line, csv->max_fields);
    }
    if (csv->field_count == csv->starts_room) {
        uint32_t room = csv->starts_room == 0 ? 64 : csv->starts_room * 2;
        uint32_t *starts = realloc(csv->starts, room * sizeof *starts);
        if (starts == NULL) {
            return tern_input_refuse(csv->input, TERN_ERR_NO_MEMORY, "no memory for a record");
        }
        csv->starts = starts;
        csv->starts_room = room;
    }
    TERN_TRY(make_room(csv)); // a field has a place, also while it is empty
    csv->starts[csv->field_count++] = (uint32_t)csv->text_len;
    return TERN_OK;
}

static enum tern_result refuse_byte(const struct tern_csv *csv, const char *what)
{
    return tern_input_refuse(csv->input, TERN_ERR_CORRUPT, "line %llu, field %u: %s",
                             (unsigned long long)csv->next_line, csv->field_count, what);
}

// Bytes up to the closing quote; the opening one is taken. A doubled quote stands for one.
static enum tern_result read_quoted(struct tern_csv *csv)
{
    for (;;) {
        int byte;
        TERN_TRY(peek(csv, &byte));
        if (byte == END) {
            return refuse_byte(csv, "the file ends inside quotes");
        }
        csv->at++;
        if (byte == '"') {
            TERN_TRY(peek(csv, &byte));
            if (byte != '"') {
                return TERN_OK;
            }
            csv->at++;
        }
        if (byte == '\0') {
            return refuse_byte(csv, ZERO_BYTE);
        }
        csv->next_line += byte == (csv->line_end == TERN_CSV_CR ? '\r' : '\n');
        TERN_TRY(add_byte(csv, byte));
    }
}

static bool is_blank(int byte)
{
    return byte == ' ' || byte == '\t';
}

static enum tern_result skip_blanks(struct tern_csv *csv)
{
    for (;;) {
        int byte;
        TERN_TRY(peek(csv, &byte));
        if (!is_blank(byte)) {
            return TERN_OK;
        }
        csv->at++;
    }
}

// Takes blanks of other kinds, and what people cannot see, from both ends of the field that was read last.
static void trim_field(struct tern_csv *csv)
{
    char *text = csv->text + csv->starts[csv->field_count - 1];
    size_t len = tern_csv_trimmed_len(text, csv->text_len - csv->starts[csv->field_count - 1]);
    size_t blanks = 0;
    size_t blank = 1;
    while (blanks < len && blank > 0) {
        char first[5] = "";
        memcpy(first, text + blanks, len - blanks < 4 ? len - blanks : 4);
        blank = tern_csv_blank_len(first);
        blanks += blank;
    }
    memmove(text, text + blanks, len - blanks);
    csv->text_len = csv->starts[csv->field_count - 1] + len - blanks;
}

// Finds the byte that seems to separate fields instead of commas, in a text between two commas. Returns the last such
// byte, since a name may contain another, or NULL.
static const char *find_separator(const char *text, size_t len)
{
    for (size_t i = len; i > 0; i--) {
        switch (text[i - 1]) {
        case ';':
            return PARTED("semicolons");
        case '\t':
            return PARTED("tabs");
        case '|':
            return PARTED("bars");
        default:
            break;
        }
    }
    return NULL;
}

static enum tern_result read_plain(struct tern_csv *csv)
{
    for (;;) {
        int byte;
        TERN_TRY(peek(csv, &byte));
        if (byte == END || byte == ',' || byte == '\n' || byte == '\r') {
            break;
        }
        if (byte == '"' || byte == '\0') {
            const size_t first = csv->starts[csv->field_count - 1];
            const char *parted = find_separator(csv->text + first, csv->text_len - first);
            return refuse_byte(csv, byte == '\0'     ? ZERO_BYTE
                                    : parted != NULL ? parted
                                                     : "a quote inside a field without quotes");
        }
        csv->at++;
        TERN_TRY(add_byte(csv, byte));
    }
    trim_field(csv);
    return TERN_OK;
}

// Looks at the field that was read last.
static enum tern_result check_text(const struct tern_csv *csv)
{
    const char *text = csv->text + csv->starts[csv->field_count - 1];
    const size_t len = csv->text_len - csv->starts[csv->field_count - 1];
    const size_t bad = tern_utf8_malformed(text, len);
    return bad == len
               ? TERN_OK
               : tern_input_refuse(
                     csv->input, TERN_ERR_CORRUPT,
                     "line %llu, field %u, byte %zu: 0x%02X is not UTF-8 text; convert the file: "
                     "iconv -f cp1252 -t utf-8 FILE > NEW",
                     (unsigned long long)csv->line, csv->field_count, bad + 1, (uint8_t)text[bad]);
}

// Takes a line end, of which the next byte is the first.
static enum tern_result read_line_end(struct tern_csv *csv)
{
    uint32_t returns = 0;
    int byte;
    TERN_TRY(peek(csv, &byte));
    for (; byte == '\r'; returns++) {
        csv->at++;
        TERN_TRY(peek(csv, &byte));
    }
    if (byte == '\n') {
        csv->at++;
    }
    const enum tern_csv_line_end kind = byte == '\n' ? TERN_CSV_LF : TERN_CSV_CR;
    if (csv->line_end == TERN_CSV_LINE_END_UNKNOWN) {
        csv->line_end = kind;
    }
    // CR alone before the end of the file may be what is left of CRLF.
    if (csv->line_end != kind && byte != END) {
        return refuse_byte(csv, csv->line_end == TERN_CSV_LF
                                    ? "a carriage return that ends no line follows it; remove it "
                                      "(tr -d '\\r')"
                                    : "lines end with CR alone before it and with LF here; write "
                                      "one kind (tr '\\r' '\\n')");
    }
    csv->next_line += kind == TERN_CSV_LF ? 1 : returns;
    return TERN_OK;
}

// Takes what follows a field: *last is false after a comma.
static enum tern_result read_separator(struct tern_csv *csv, bool *last)
{
    int byte;
    TERN_TRY(peek(csv, &byte));
    *last = byte != ',';
    if (byte == END) {
        return TERN_OK;
    }
    if (byte == '\n' || byte == '\r') {
        return read_line_end(csv);
    }
    // A tab before it was skipped as a blank.
    const size_t from = csv->at > 0 ? csv->at - 1 : 0;
    const char *parted = find_separator((const char *)csv->buffer + from, csv->at + 1 - from);
    csv->at++;
    return byte == ',' ? TERN_OK
                       : refuse_byte(csv, parted != NULL ? parted
                                                         : "neither a comma nor a line end "
                                                           "follows its quotes");
}

static enum tern_result read_field(struct tern_csv *csv)
{
    int byte;
    TERN_TRY(start_field(csv));
    TERN_TRY(skip_blanks(csv));
    TERN_TRY(peek(csv, &byte));
    if (byte == '"') {
        csv->at++;
        TERN_TRY(read_quoted(csv));
        TERN_TRY(skip_blanks(csv));
    } else {
        TERN_TRY(read_plain(csv));
    }
    TERN_TRY(check_text(csv));
    return add_byte(csv, '\0');
}

static enum tern_result read_record(struct tern_csv *csv)
{
    csv->line = csv->next_line;
    csv->field_count = 0;
    csv->text_len = 0;
    TERN_TRY(add_byte(csv, '\0')); // so that there is memory for an empty field to point into
    csv->text_len = 0;
    for (bool last = false; !last;) {
        TERN_TRY(read_field(csv));
        TERN_TRY(read_separator(csv, &last));
    }
    return TERN_OK;
}

enum tern_result tern_csv_next(struct tern_csv *csv, bool *more)
{
    if (csv->next_line == 1 && csv->input->offset == 0) {
        TERN_TRY(read_mark(csv));
    }
    for (csv->empty_lines = 0;; csv->empty_lines++) {
        int byte;
        TERN_TRY(peek(csv, &byte));
        *more = byte != END;
        if (!*more) {
            return TERN_OK;
        }
        TERN_TRY(read_record(csv));
        if (csv->field_count > 1 || csv->text_len > 1) {
            return TERN_OK;
        }
    }
}
