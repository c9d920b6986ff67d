// Comma-separated values (RFC 4180): records of fields, quoted fields with doubled quotes and line
// ends inside. Lines end with LF, CRLF, or CR alone in all of a file. Blanks of any kind around a
// field are no part of it; a quoted field keeps those within its quotes. The text is UTF-8; a byte order
// mark and empty lines are skipped. Splits bytes into text fields and knows nothing of their meaning
// (csv_text.h does). Hosted; reentrant.
#ifndef TERN_CSV_H
#define TERN_CSV_H

#include "hosted/input.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum tern_csv_line_end {
    TERN_CSV_LINE_END_UNKNOWN, // in the first line
    TERN_CSV_LF,               // with or without CR before it
    TERN_CSV_CR,
};

struct tern_csv {
    struct tern_input *input;
    uint32_t max_fields;
    uint64_t line;        // on which the current record began, from 1
    uint32_t field_count; // of the current record
    uint64_t empty_lines; // between the current record and the one before it
    char *text;           // its fields, each with a NUL; private, as is all below
    uint32_t *starts;     // of the fields in text
    enum tern_csv_line_end line_end;
    size_t text_len;
    size_t text_room;
    uint32_t starts_room;
    uint64_t next_line;
    size_t at;
    size_t have;
    uint8_t buffer[16384];
};

void tern_csv_begin(struct tern_csv *csv, struct tern_input *input, uint32_t max_fields);

// Reads the next record; *more is false at the end of the input, and there is none.
// TERN_ERR_CORRUPT    a stray or unclosed quote, a second kind of line end, a byte that is not UTF-8
//                     text, a NUL byte, or UTF-16
// TERN_ERR_TOO_LARGE  more than max_fields, or more than TERN_CSV_MAX_RECORD bytes
// and the errors of tern_input_read(), TERN_ERR_NO_MEMORY
TERN_MUST_USE enum tern_result tern_csv_next(struct tern_csv *csv, bool *more);

// A field of the current record, valid until the next.
const char *tern_csv_field(const struct tern_csv *csv, uint32_t index);

void tern_csv_end(struct tern_csv *csv);

// Writes text in lower case (Latin, Greek, Cyrillic, Armenian, full width; "ss" for the sharp s), with ' ' for every
// blank, '-' for every dash and minus, ' for every apostrophe, without what people cannot see, and without blanks at
// both ends. Returns the bytes that all of it needs; what size - 1 bytes do not hold is cut between characters.
size_t tern_csv_fold(const char *text, char *folded, size_t size);

// Returns the end of a sentence that the file's name begins, "holds a Parquet table, not CSV text: ...", by the file's
// first bytes; NULL: they may be CSV text. len: 512 or more, or all bytes of a smaller file.
const char *tern_other_format(const uint8_t *bytes, size_t len);

#endif
