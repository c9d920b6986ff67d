// Splits comma-separated values (RFC 4180) into text fields; csv_text.h interprets the fields. A quoted field may have
// doubled quotes and line ends. All lines of a file end with LF or CRLF, or all with CR alone. Blanks around a field are
// removed, blanks within quotes are kept. The text is UTF-8; a byte order mark and empty lines are skipped. Reentrant.
#ifndef TERN_CSV_H
#define TERN_CSV_H

#include "hosted/input.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum tern_csv_line_end {
    TERN_CSV_LINE_END_UNKNOWN, // until the first line has ended
    TERN_CSV_LF,               // LF or CRLF
    TERN_CSV_CR,
};

struct tern_csv {
    struct tern_input *input;
    uint32_t max_fields;
    uint64_t line;        // first line of the current record, from 1
    uint32_t field_count; // of the current record
    uint64_t empty_lines; // before the current record
    char *text;           // fields of the record, each with a NUL; from here on private
    uint32_t *starts;     // offsets of the fields in text
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

// Reads the next record; *more is false at the end of the input.
// TERN_ERR_CORRUPT    a stray or unclosed quote, a second kind of line end, a byte that is not UTF-8
//                     text, a NUL byte, or UTF-16
// TERN_ERR_TOO_LARGE  more than max_fields fields, or 16 MiB
// TERN_ERR_NO_MEMORY, or an error of tern_input_read()
TERN_MUST_USE enum tern_result tern_csv_next(struct tern_csv *csv, bool *more);

// Returns a field of the current record, valid until tern_csv_next().
const char *tern_csv_field(const struct tern_csv *csv, uint32_t index);

void tern_csv_end(struct tern_csv *csv);

// Writes text in lower case (Latin, Greek, Cyrillic, Armenian, full width; "ss" for the sharp s), with ' ' for every
// blank, '-' for every dash and minus sign, ' for every apostrophe, without invisible characters, and without blanks at
// both ends. Cuts it between characters to size - 1 bytes. Returns the bytes that the whole text needs.
size_t tern_csv_fold(const char *text, char *folded, size_t size);

// Recognises other formats by a file's first bytes. Returns a sentence without its subject, the file: "holds a Parquet
// table, not CSV text: ..."; NULL: the bytes may be CSV text. len: at least 512, or all bytes of a smaller file.
const char *tern_other_format(const uint8_t *bytes, size_t len);

#endif
