#include "hosted/csv.h"
#include "util/math.h"
#include <stdlib.h>
#include <string.h>

#define END (-1) // of the input, in place of a byte

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

static enum tern_result skip_mark(struct tern_csv *csv)
{
    int byte;
    TERN_TRY(peek(csv, &byte));
    if (csv->have >= 3 && memcmp(csv->buffer, "\xEF\xBB\xBF", 3) == 0) {
        csv->at = 3;
    }
    return TERN_OK;
}

static enum tern_result add_byte(struct tern_csv *csv, int byte)
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
            return refuse_byte(csv, "a zero byte; this is no text");
        }
        csv->next_line += byte == '\n';
        TERN_TRY(add_byte(csv, byte));
    }
}

static enum tern_result read_plain(struct tern_csv *csv)
{
    for (;;) {
        int byte;
        TERN_TRY(peek(csv, &byte));
        if (byte == END || byte == ',' || byte == '\n' || byte == '\r') {
            return TERN_OK;
        }
        if (byte == '"' || byte == '\0') {
            return refuse_byte(csv, byte == '"' ? "a quote inside a field without quotes"
                                                : "a zero byte; this is no text");
        }
        csv->at++;
        TERN_TRY(add_byte(csv, byte));
    }
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
    csv->at++;
    if (byte == '\r') {
        TERN_TRY(peek(csv, &byte));
        csv->at += byte == '\n';
    }
    if (byte != ',' && byte != '\n') {
        return refuse_byte(csv, byte == '\r'
                                    ? "two carriage returns end the line (\\r\\r\\n), as of a file "
                                      "converted twice; write it anew with one or none"
                                    : "neither a comma nor a line end follows it");
    }
    csv->next_line += byte == '\n';
    return TERN_OK;
}

static enum tern_result read_record(struct tern_csv *csv)
{
    csv->line = csv->next_line;
    csv->field_count = 0;
    csv->text_len = 0;
    for (bool last = false; !last;) {
        int byte;
        TERN_TRY(start_field(csv));
        TERN_TRY(peek(csv, &byte));
        if (byte == '"') {
            csv->at++;
            TERN_TRY(read_quoted(csv));
        } else {
            TERN_TRY(read_plain(csv));
        }
        TERN_TRY(add_byte(csv, '\0'));
        TERN_TRY(read_separator(csv, &last));
    }
    return TERN_OK;
}

enum tern_result tern_csv_next(struct tern_csv *csv, bool *more)
{
    if (csv->next_line == 1 && csv->input->offset == 0) {
        TERN_TRY(skip_mark(csv));
    }
    for (;;) {
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

bool tern_csv_number(const char *text, float *value)
{
    // strtof also takes hexadecimal numbers, "inf" and leading space, which no table means.
    if (text[0] == '\0' || strspn(text, "0123456789+-.eE") != strlen(text)) {
        return false;
    }
    char *end = NULL;
    *value = strtof(text, &end);
    return *end == '\0' && tern_is_finite(*value);
}
